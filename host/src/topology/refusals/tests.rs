use std::time::Duration;

use topoloom_core::topology::plan::{Base, PlanStep, WritePart};

use super::*;
use crate::cluster::pause::LONGEST;

const S: Duration = Duration::from_secs(1);
const FORBIDDEN: &str = "hypernodes.topology.volcano.sh \"a\" is forbidden: User \"u\" cannot patch resource. The missing rule: ClusterRole: {verbs: [\"patch\"]}";

/// A plan with one step per object.
fn plan(objects: &[&str]) -> Plan {
    let base = Base::Observed { uid: "u".into(), resource_version: "1".into() };
    let step = |name: &&str| PlanStep {
        name: (*name).into(),
        action: Action::Delete { base: base.clone(), part: WritePart::Whole },
        after: Vec::new(),
    };
    Plan { steps: objects.iter().map(step).collect(), blocked: Vec::new() }
}

fn refused(object: &str, reason: RefusalReason, message: &str) -> RefusedWrite {
    let refusal = Refusal { reason, message: message.replace("OBJECT", object), retry_after: None };
    RefusedWrite { object: object.into(), verb: WriteVerb::Update, refusal }
}

/// The outcome of a plan of these objects: those that were written and those that were refused.
fn outcome(wanted: &[&str], wrote: &[&str], refused: &[RefusedWrite]) -> ApplyOutcome {
    ApplyOutcome {
        written: wrote.len(),
        wrote: wrote.iter().map(|name| (*name).into()).collect(),
        refused: refused.to_vec(),
        left_out: wanted.len() - wrote.len() - refused.len(),
        ..ApplyOutcome::default()
    }
}

struct Story {
    refusals: Refusals,
    now: Instant,
}

impl Story {
    fn begin() -> Self {
        Self { refusals: Refusals::default(), now: Instant::now() }
    }

    fn learn(&mut self, wanted: &[&str], wrote: &[&str], refused: &[RefusedWrite]) -> Vec<RefusalNews> {
        self.refusals.learn(&plan(wanted), &outcome(wanted, wrote, refused), self.now)
    }

    /// The pause until the next try, which begins then.
    fn waits(&mut self) -> Duration {
        let due = self.refusals.due(self.now).expect("something waits");
        let pause = due - self.now;
        self.now = due;
        pause
    }

    fn pausing(&self) -> Vec<String> {
        self.refusals.pausing(self.now).iter().map(ToString::to_string).collect()
    }
}

#[test]
fn an_object_that_is_refused_pauses_alone_and_longer_and_longer() {
    let mut story = Story::begin();
    let denied = || refused("b", RefusalReason::DeniedByAdmission, "no");
    story.learn(&["a", "b", "c"], &["a", "c"], &[denied()]);
    assert_eq!((story.pausing(), story.refusals.all_pause(story.now)), (vec!["b".to_owned()], None));
    let pauses: Vec<Duration> = (0..12)
        .map(|_| {
            let pause = story.waits();
            assert_eq!(story.pausing(), [""; 0], "it is tried again");
            story.learn(&["b"], &[], &[denied()]);
            pause
        })
        .collect();
    assert!(pauses.windows(2).take(7).all(|pair| pair[0] < pair[1]), "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= LONGEST) && pauses[11] > LONGEST / 2, "{pauses:?}");
}

#[test]
fn after_something_was_written_what_is_left_waits_for_a_moment_only() {
    let names: Vec<String> = (0..10).map(|name| format!("o{name}")).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let away = |object: &&str| refused(object, RefusalReason::TooManyRequests, "later");
    let mut story = Story::begin();
    for _ in 0..7 {
        // Several are under way at once; together they are one try.
        let first: Vec<RefusedWrite> = all.iter().take(4).map(away).collect();
        story.learn(&all, &[], &first);
        story.waits();
    }
    assert!(story.refusals.all_pause(story.now - S).is_some(), "every write would meet the same");
    let (wrote, last) = all.split_at(8);
    let last: Vec<RefusedWrite> = last.iter().map(away).collect();
    story.learn(&all, wrote, &last);
    let pause = story.waits();
    assert!(pause <= Duration::from_millis(200), "eight of ten were written, and the others wait for {pause:?}");
}

#[test]
fn what_a_policy_says_of_one_object_stays_true_whatever_else_is_written() {
    let mut story = Story::begin();
    let (denied, broken) =
        (refused("a", RefusalReason::DeniedByAdmission, "no"), refused("b", RefusalReason::ServerError, "500"));
    for _ in 0..6 {
        story.learn(&["a", "b"], &[], &[denied.clone(), broken.clone()]);
        story.now += LONGEST;
    }
    story.learn(&["a", "b"], &[], &[denied, broken]);
    assert_eq!(story.pausing(), ["a", "b"]);
    story.learn(&["a", "b", "c"], &["c"], &[]);
    assert_eq!(story.pausing(), ["a"], "the server does its work again; the policy has not changed");
    assert!(!story.refusals.are_settled());
    story.learn(&["a", "b"], &["b"], &[]);
    assert!(story.refusals.are_settled(), "what is left would be refused at any time");
    // It is not wanted any more.
    story.learn(&[], &[], &[]);
    assert_eq!((story.refusals.count(), story.refusals.due(story.now)), (0, None));
}

#[test]
fn a_write_in_between_is_decided_again_at_once_and_a_fight_is_not() {
    let mut story = Story::begin();
    let conflict = || refused("a", RefusalReason::Conflict, "modified");
    for _ in 0..QUICK_CONFLICTS {
        assert_eq!(story.learn(&["a"], &[], &[conflict()]), []);
        assert_eq!(story.waits(), Duration::ZERO);
    }
    let news = story.learn(&["a"], &[], &[conflict()]);
    assert!(matches!(news.as_slice(), [RefusalNews::Refused(_)]) && story.waits() > Duration::ZERO, "{news:?}");
}

#[test]
fn the_log_hears_of_a_refusal_once_and_of_each_change() {
    let mut story = Story::begin();
    let forbidden = |object: &str| refused(object, RefusalReason::Forbidden, FORBIDDEN);
    let told = |news: Vec<RefusalNews>| -> Vec<String> {
        let line = |news: RefusalNews| match news {
            RefusalNews::Refused(refused) => {
                let rule = refused.refusal.rule().unwrap_or("no rule").to_owned();
                format!("{} {} {}: {rule}", refused.verb.as_str(), refused.object, refused.refusal.reason.as_str())
            }
            RefusalNews::Over => "over".to_owned(),
        };
        news.into_iter().map(line).collect()
    };
    let first = story.learn(&["rack-a", "rack-b"], &[], &[forbidden("rack-b"), forbidden("rack-a")]);
    assert_eq!(told(first), ["update rack-a Forbidden: ClusterRole: {verbs: [\"patch\"]}"]);
    for object in ["rack-b", "rack-a", "rack-b"] {
        story.waits();
        assert_eq!(
            told(story.learn(&["rack-a", "rack-b"], &[], &[forbidden(object)])),
            [""; 0],
            "the same rule is missing"
        );
    }
    story.waits();
    let denied = |object: &str| refused(object, RefusalReason::DeniedByAdmission, "OBJECT is denied by the policy p");
    let next = story.learn(&["rack-a", "rack-b"], &[], &[denied("rack-a"), denied("rack-b")]);
    assert_eq!(told(next), ["update rack-a DeniedByAdmission: no rule"], "one policy, whatever it calls the objects");
    story.waits();
    assert_eq!(told(story.learn(&["rack-a", "rack-b"], &["rack-a"], &[denied("rack-b")])), [""; 0]);
    assert_eq!(told(story.learn(&["rack-b"], &["rack-b"], &[])), ["over"]);
    assert_eq!(told(story.learn(&[], &[], &[])), [""; 0]);
}

#[test]
fn a_word_of_a_person_ends_the_pauses_and_what_was_not_sent_is_not_told() {
    let mut story = Story::begin();
    let news = story.learn(&["a"], &[], &[refused("a", RefusalReason::ReadOnly, "writes are switched off")]);
    assert_eq!(news, []);
    assert!(story.refusals.all_pause(story.now).is_some());
    story.refusals.end_pauses(story.now);
    assert_eq!((story.refusals.all_pause(story.now), story.waits()), (None, Duration::ZERO));
}
