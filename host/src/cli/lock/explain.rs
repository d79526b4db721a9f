//! `topoloom lock explain NODE`.

use std::process::ExitCode;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_core::names::NodeName;
use topoloom_core::nodelock::go_duration::Go;
use topoloom_core::nodelock::sweep::FoundLock;
use topoloom_core::nodelock::{Lock, LockState, NamedHolder, Note, Pod, PodKey, Why, is_owner};
use topoloom_core::text;

use super::NodeArgs;
use super::list::age;
use super::look::{Judged, Look};
use crate::cli::output::Document;
use crate::nodelock::lock::Options;

/// Longest text of a stranger that is repeated.
const SHOWN: usize = 300;

/// Everything about the locks of one node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Locks {
    node: String,
    /// Empty if the node has no lock, and no pod that is bound there waits for its device plugin.
    locks: Vec<Explained>,
}

impl Document for Locks {
    const KIND: &'static str = "LockExplanation";
}

/// One lock; sentences are those of the text output.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Explained {
    /// The annotation.
    key: &'static str,
    /// The value of the lock; absent if a pod is there without a lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// When and by whom it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<String>,
    /// The pod that the lock is about, and its state.
    pod: String,
    /// The pod that waits for its device plugin here, if the lock names another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<String>,
    /// The state of the lock, in a word: `leaked` if it is orphaned.
    state: &'static str,
    /// The reason for the state.
    why: String,
    /// What happens if no one acts.
    next: String,
    /// The command that removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    by_hand: Option<String>,
}

/// Explains.
pub(super) async fn run(args: NodeArgs) -> anyhow::Result<ExitCode> {
    let look = Look::at(&args.terms, &args.node).await?;
    let judged = look.judge(args.node).await?;
    let mut said = Locks { node: judged.node.to_string(), locks: Vec::new() };
    for stands in &judged.stands {
        let pod = look.pod(stands).await?;
        let lock = look.lock(&judged.node, Judged::key(stands));
        let live = look.endangered(&judged.node, stands).await?;
        let about = LockDetails { node: &judged.node, lock: lock.as_ref(), pod: pod.as_ref(), live: live.as_ref() };
        said.locks.push(explain(stands, &about, &look.terms));
    }
    args.output.print(&said, text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(said: &Locks) -> String {
    let mut text = format!("node {}\n", said.node);
    if said.locks.is_empty() {
        text.push_str("  it is free: it has no lock, and no pod that is bound there waits for its device plugin\n");
    }
    said.locks.iter().for_each(|lock| lock.text(&mut text));
    text
}

/// What was read about a lock.
struct LockDetails<'a> {
    node: &'a NodeName,
    lock: Option<&'a Lock>,
    /// The pod that it is about.
    pod: Option<&'a Pod>,
    /// The pod that is in danger without it.
    live: Option<&'a PodKey>,
}

fn explain(stands: &FoundLock, about: &LockDetails<'_>, terms: &Options) -> Explained {
    let LockDetails { node, lock, pod, live } = *about;
    let value = stands.value.as_deref();
    let waits = live.filter(|live| stands.pod.as_ref() != Some(*live));
    Explained {
        key: Judged::key(stands).annotation(),
        value: value.map(str::to_owned),
        written: lock.map(written),
        pod: match (&stands.pod, pod) {
            (Some(named), Some(pod)) => describe(named, lock, pod, node),
            (Some(named), None) => format!("{named}{}, which does not exist", uid(named.uid.as_deref())),
            (None, _) => "none is named".to_owned(),
        },
        waits: waits
            .map(|live| format!("{live}{} is bound here and waits for its device plugin", uid(live.uid.as_deref()))),
        state: stands.word(),
        why: Judged::why(stands),
        next: next(&stands.state, terms),
        by_hand: value.map(|value| by_hand(node, value, live)),
    }
}

impl Explained {
    fn text(&self, said: &mut String) {
        let shown = self.value.as_deref().map_or_else(|| "is not there".to_owned(), |value| text::line(value, SHOWN));
        push_line!(said, "  {}  {shown}", self.key);
        let verdict = format!("{}: {}", self.state, self.why);
        for (what, words) in [
            ("written", self.written.as_deref()),
            ("pod", Some(self.pod.as_str())),
            ("waits", self.waits.as_deref()),
            ("verdict", Some(verdict.as_str())),
            ("next", Some(self.next.as_str())),
            ("by hand", self.by_hand.as_deref()),
        ] {
            if let Some(words) = words {
                push_line!(said, "    {what:<9}{words}");
            }
        }
    }
}

fn uid(uid: Option<&str>) -> String {
    uid.map(|uid| format!(" (UID {})", text::line(uid, SHOWN))).unwrap_or_default()
}

fn written(lock: &Lock) -> String {
    let ago = |time: Timestamp| match Timestamp::now().duration_since(time).as_secs() {
        ahead @ ..0 => format!("at a time in the future ({})", age(ahead)),
        seconds => format!("{} ago", age(seconds)),
    };
    match &lock.named {
        NamedHolder::Pod { time, note: Some(note), .. } => {
            let Note { attempt, instance, deadline, .. } = note;
            let (attempt, instance) = (text::line(attempt, SHOWN), text::line(instance, SHOWN));
            format!("{} by {instance}, attempt {attempt}, which gives up at {deadline}", ago(*time))
        }
        NamedHolder::Pod { time, note: None, .. } => {
            format!("{} by a program that does not record the pod's UID", ago(*time))
        }
        NamedHolder::NoPod { time } => format!("{} by a program that does not name a pod", ago(*time)),
        NamedHolder::Unparsable(why) => format!("by an unknown program: {why}"),
    }
}

fn describe(named: &PodKey, lock: Option<&Lock>, pod: &Pod, node: &NodeName) -> String {
    let Pod { key, node: bound, finished, started, deleting, revoked, .. } = pod;
    let mut words = vec![match bound {
        None => "bound nowhere".to_owned(),
        Some(bound) if bound == node => "bound here".to_owned(),
        Some(bound) => format!("bound to {bound}"),
    }];
    words.push(match (finished, started) {
        (true, _) => "finished".to_owned(),
        (false, true) => "started".to_owned(),
        (false, false) => "not started".to_owned(),
    });
    if *deleting {
        words.push("being deleted".to_owned());
    }
    if let Some(revoked) = revoked {
        words.push(format!("its lock {} was revoked", text::line(revoked, SHOWN)));
    }
    // A value without a note cannot name a pod that was created after it.
    let time = lock.and_then(Lock::time).unwrap_or(Timestamp::MAX);
    let owns = is_owner(named, time, pod);
    let other = if owns { "" } else { "; the lock names an earlier pod of that name" };
    format!("{key}{}: {}{other}", uid(Some(&key.uid)), words.join(", "))
}

/// What happens by itself, and what a person should do.
fn next(state: &LockState, terms: &Options) -> String {
    let ttl = Go(terms.ttl);
    match state {
        LockState::Over(_) => "free: the next pod may take over the lock; the sweeper removes it if --nodelock-sweep=repair".to_owned(),
        LockState::Held(held) => match held.why {
            Why::Binding => format!("other pods wait; if this pod is not bound when the lock is older than {ttl}, the lock expires"),
            Why::Allocating => format!("other pods wait for the device plugin of this node; after {ttl} the lock counts as stuck"),
            Why::Stuck => {
                "other pods wait, and none takes it over: read the log of the device plugin on this node, the log of the kubelet, and the Events of the pod; deleting the pod frees the node".to_owned()
            }
            Why::Vanished => "it becomes orphaned in a few seconds".to_owned(),
            Why::Nameless | Why::Unparsable => format!("it expires {ttl} after a running topoloom first saw it"),
            Why::Unrecorded => "other pods wait; the next of them restores the lock of this pod after five seconds".to_owned(),
            Why::Unconfirmed | Why::Unlisted => "the lock changed meanwhile: run the command again".to_owned(),
        },
    }
}

fn by_hand(node: &NodeName, value: &str, live: Option<&PodKey>) -> String {
    let force = if live.is_some() { " --even-if-live" } else { "" };
    format!("topoloom lock release {node} --expect {}{force}", text::shell_word(value))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use topoloom_core::nodelock::{LockHeld, OrphanReason, Retry, Takeover};

    use super::*;

    const TERMS: Options = Options { ttl: Duration::from_secs(300), takeover: Takeover::State, retry: Retry::CLASSIC };
    const VALUE: &str = "2026-08-01T06:10:00.000000007Z,default,p1";

    fn key() -> PodKey {
        PodKey { namespace: "default".into(), name: "p1".into(), uid: Some("b3f0".into()) }
    }

    fn sentence(state: LockState, pod: Option<&Pod>, live: Option<&PodKey>) -> String {
        let note = Note {
            value: VALUE.into(),
            uid: "b3f0".into(),
            pod: None,
            attempt: "7".into(),
            instance: "topoloom-0".into(),
            deadline: "2026-08-01T06:10:28Z".parse().unwrap(),
        };
        let stands = FoundLock { key: 0, value: Some(VALUE.into()), pod: Some(key()), state };
        let mut said = String::new();
        let lock = Lock::read(VALUE, Some(note));
        explain(&stands, &LockDetails { node: &"gpu-1".into(), lock: Some(&lock), pod, live }, &TERMS).text(&mut said);
        said
    }

    #[test]
    fn a_pod_that_waits_too_long_comes_with_what_to_look_at() {
        let held = LockHeld { holder: Some(key()), left: None, why: Why::Stuck };
        let pod = Pod {
            key: key().id().unwrap(),
            version: "1".into(),
            created: Timestamp::UNIX_EPOCH,
            node: Some("gpu-1".into()),
            finished: false,
            started: false,
            deleting: false,
            revoked: None,
        };
        let said = sentence(LockState::Held(held), Some(&pod), Some(&key()));
        for words in [
            "  hami.io/mutex.lock  2026-08-01T06:10:00.000000007Z,default,p1\n",
            "by topoloom-0, attempt 7, which gives up at 2026-08-01T06:10:28Z",
            "pod      default/p1 (UID b3f0): bound here, not started\n",
            "verdict  stuck: its pod is bound to this node",
            "the log of the device plugin",
            "by hand  topoloom lock release gpu-1 --expect '2026-08-01T06:10:00.000000007Z,default,p1' --even-if-live\n",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn a_pod_that_was_made_after_a_lock_without_a_note_is_another_one() {
        let named = PodKey { uid: None, ..key() };
        let pod = |created: &str| Pod {
            key: key().id().unwrap(),
            version: "1".into(),
            created: created.parse().unwrap(),
            node: Some("gpu-1".into()),
            finished: false,
            started: false,
            deleting: false,
            revoked: None,
        };
        let lock = Lock::read(VALUE, None);
        let said = |created| describe(&named, Some(&lock), &pod(created), &"gpu-1".into());
        assert_eq!(said("2026-08-01T06:09:59Z"), "default/p1 (UID b3f0): bound here, not started");
        let words = "default/p1 (UID b3f0): bound here, not started; the lock names an earlier pod of that name";
        assert_eq!(said("2026-08-01T08:10:00Z"), words);
    }

    #[test]
    fn an_unnamed_pod_that_waits_is_shown_and_needs_force_too() {
        let other = PodKey { name: "p2".into(), uid: Some("c4e1".into()), ..key() };
        let held = LockHeld { holder: Some(other.clone()), left: None, why: Why::Unrecorded };
        let said = sentence(LockState::Held(held), None, Some(&other));
        assert!(said.contains("waits    default/p2 (UID c4e1) is bound here"), "{said}");
        assert!(said.contains(" --even-if-live\n"), "{said}");
    }

    #[test]
    fn a_lock_with_a_time_in_the_future_says_so() {
        let time = Timestamp::now() + jiff::SignedDuration::from_secs(7_530);
        let lock = Lock::read(&format!("{time},default,p1"), None);
        let said = written(&lock);
        assert!(said.starts_with("at a time in the future (in 2h5m) by a program"), "{said}");
    }

    #[test]
    fn a_lock_of_a_pod_that_is_gone_needs_no_force() {
        let said = sentence(LockState::Over(OrphanReason::Gone), None, None);
        assert!(said.contains("pod      default/p1 (UID b3f0), which does not exist\n"), "{said}");
        assert!(said.contains("verdict  leaked: its pod is gone\n") && !said.contains("--even-if-live"), "{said}");
    }
}
