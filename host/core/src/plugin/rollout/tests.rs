use super::service::FIRST_QUARANTINE;
use super::*;

const S: Duration = Duration::from_secs(1);

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

fn close() -> Comparison {
    Comparison { placed: 10, kept: 10, moved: 0, ..Comparison::default() }
}

fn far() -> Comparison {
    Comparison { placed: 10, kept: 6, moved: 0, ..Comparison::default() }
}

/// In these tests the handle of bytes is their digest.
fn ready(digest: Digest) -> Event<Digest> {
    Event::Prepared(digest, digest)
}

/// A source that `a` serves.
fn serving(name: &str) -> Rollout<Digest> {
    let mut rollout = Rollout::<Digest>::new(RolloutMemory::default());
    assert_eq!(
        rollout.handle(Event::Wanted(digest(name), Cause::Delivery), S),
        Some(RolloutOrder::Prepare(digest(name)))
    );
    assert_eq!(rollout.handle(ready(digest(name)), S), Some(RolloutOrder::Swap(digest(name))));
    (0..WATCHED_CALLS).for_each(|_| assert_eq!(rollout.handle(Event::Called(Call::Answered), S), None));
    rollout
}

/// The same, up to the point where `b` has answered its shadow round.
fn shadow(name: &str, candidate: &str) -> Rollout<Digest> {
    let mut rollout = serving(name);
    let candidate = digest(candidate);
    assert_eq!(rollout.handle(Event::Wanted(candidate, Cause::Delivery), S), Some(RolloutOrder::Prepare(candidate)));
    assert_eq!(rollout.handle(ready(candidate), S), Some(RolloutOrder::Shadow(candidate)));
    assert_eq!(rollout.serving().unwrap().digest, digest(name), "the old one serves until the new one does");
    rollout
}

fn swapped(name: &str, candidate: &str) -> Rollout<Digest> {
    let mut rollout = shadow(name, candidate);
    let candidate = digest(candidate);
    assert_eq!(rollout.handle(Event::Shadowed(candidate, Some(close())), S), Some(RolloutOrder::Swap(candidate)));
    rollout
}

#[test]
fn a_candidate_that_answers_alike_takes_over_and_the_old_one_is_kept() {
    let rollout = swapped("a", "b");
    assert_eq!(rollout.serving().unwrap().digest, digest("b"));
    assert_eq!(rollout.previous().collect::<Vec<_>>(), [digest("a")]);
    assert!(rollout.candidate().is_none() && rollout.is_watched());
}

#[test]
fn one_that_is_far_off_waits_for_the_operator() {
    let mut rollout = shadow("a", "b");
    assert_eq!(rollout.handle(Event::Shadowed(digest("b"), Some(far())), S), None);
    assert!(rollout.needs_person());
    assert_eq!(rollout.handle(Event::Continue(digest("a")), S), None, "a word about another one");
    assert_eq!(rollout.handle(Event::Continue(digest("b")), S), Some(RolloutOrder::Swap(digest("b"))));
}

#[test]
fn a_fault_while_it_is_watched_brings_the_old_one_back_for_good() {
    let mut rollout = swapped("a", "b");
    assert_eq!(rollout.handle(Event::Called(Call::Answered), S), None);
    assert_eq!(rollout.handle(Event::Called(Call::Answered), S), None);
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), Some(RolloutOrder::Swap(digest("a"))));
    assert!(rollout.needs_person() && !rollout.is_watched());
    for event in [Event::Wanted(digest("b"), Cause::Delivery), Event::Edited, Event::Tick] {
        assert_eq!(rollout.handle(event.clone(), 9_999 * S), None, "{event:?}");
    }
    assert_eq!(rollout.previous().count(), 0, "what failed is not kept for a rollback");
    // The operator may have it again.
    assert_eq!(rollout.handle(Event::Continue(digest("b")), S), Some(RolloutOrder::Prepare(digest("b"))));
}

#[test]
fn what_was_taken_back_stays_so_in_the_next_life() {
    let memory = RolloutMemory { taken_back: vec![digest("b")], ..RolloutMemory::default() };
    let mut rollout = Rollout::<Digest>::new(memory);
    let _ = rollout.handle(Event::Wanted(digest("a"), Cause::Delivery), S);
    let _ = rollout.handle(ready(digest("a")), S);
    assert_eq!(rollout.handle(Event::Wanted(digest("b"), Cause::Delivery), S), None);
    assert!(rollout.needs_person());
}

#[test]
fn after_the_watch_five_faults_in_a_row_are_one_too_many() {
    let mut rollout = swapped("a", "b");
    (0..WATCHED_CALLS).for_each(|_| assert_eq!(rollout.handle(Event::Called(Call::Answered), S), None));
    for _ in 1..STRIKES {
        assert_eq!(rollout.handle(Event::Called(Call::Fault), S), None);
        assert_eq!(rollout.handle(Event::Called(Call::Circumstance), S), None);
    }
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), Some(RolloutOrder::Swap(digest("a"))));
}

#[test]
fn the_watch_ends_by_time_too() {
    let mut rollout = swapped("a", "b");
    assert_eq!(rollout.next_tick(), Some(S + WATCHED_FOR));
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S + WATCHED_FOR), None, "one fault of five");
    assert_eq!(rollout.handle(Event::Tick, S + WATCHED_FOR), None);
    assert!(!rollout.is_watched());
}

#[test]
fn without_a_plugin_to_go_back_to_there_is_quarantine_which_ends_with_an_answer() {
    let mut rollout = serving("a");
    (1..STRIKES).for_each(|_| assert_eq!(rollout.handle(Event::Called(Call::Fault), S), None));
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), Some(RolloutOrder::Quarantine(digest("a"))));
    assert_eq!(rollout.quarantined_until(), Some(S + FIRST_QUARANTINE));
    assert_eq!(rollout.handle(Event::Called(Call::Fault), 301 * S), Some(RolloutOrder::Quarantine(digest("a"))));
    assert_eq!(rollout.quarantined_until(), Some(301 * S + 2 * FIRST_QUARANTINE));
    assert_eq!(rollout.handle(Event::Called(Call::Answered), 901 * S), None);
    assert_eq!(rollout.quarantined_until(), None);
}

#[test]
fn a_candidate_that_fails_by_itself_is_given_up_and_by_circumstance_never() {
    let mut rollout = serving("a");
    let (b, mut now) = (digest("b"), S);
    let _ = rollout.handle(Event::Wanted(b, Cause::Delivery), now);
    for _ in 1..STRIKES {
        assert_eq!(rollout.handle(Event::Failed(b, RolloutStep::Describe, Failed::Fault), now), None);
        now = rollout.next_tick().unwrap();
        assert_eq!(rollout.handle(Event::Tick, now), Some(RolloutOrder::Prepare(b)));
    }
    assert_eq!(rollout.handle(Event::Failed(b, RolloutStep::Describe, Failed::Fault), now), None);
    assert!(rollout.needs_person() && rollout.next_tick().is_none());
    assert_eq!(rollout.handle(Event::Edited, now), Some(RolloutOrder::Prepare(b)));
    for _ in 0..100 {
        assert_eq!(rollout.handle(Event::Failed(b, RolloutStep::Compile, Failed::Circumstance), now), None);
        let next = rollout.next_tick().unwrap();
        assert!(next > now && next - now <= LONGEST_PAUSE);
        now = next;
        assert_eq!(rollout.handle(Event::Tick, now), Some(RolloutOrder::Prepare(b)));
    }
    assert_eq!(rollout.serving().unwrap().digest, digest("a"));
}

#[test]
fn two_deliveries_in_a_row_leave_the_later_one() {
    let mut rollout = serving("a");
    assert_eq!(
        rollout.handle(Event::Wanted(digest("b"), Cause::Delivery), S),
        Some(RolloutOrder::Prepare(digest("b")))
    );
    assert_eq!(
        rollout.handle(Event::Wanted(digest("c"), Cause::Delivery), S),
        Some(RolloutOrder::Prepare(digest("c")))
    );
    assert_eq!(rollout.handle(ready(digest("b")), S), None, "too late");
    assert_eq!(rollout.handle(ready(digest("c")), S), Some(RolloutOrder::Shadow(digest("c"))));
    assert_eq!(rollout.handle(Event::Wanted(digest("a"), Cause::Delivery), S), None);
    assert!(rollout.candidate().is_none(), "what serves is wanted again");
}

#[test]
fn the_operators_choice_is_not_compared_but_has_to_answer() {
    let mut rollout = serving("a");
    let _ = rollout.handle(Event::Wanted(digest("b"), Cause::Operator), S);
    assert_eq!(rollout.handle(ready(digest("b")), S), Some(RolloutOrder::Shadow(digest("b"))));
    assert_eq!(rollout.handle(Event::Shadowed(digest("b"), Some(far())), S), Some(RolloutOrder::Swap(digest("b"))));
}

#[test]
fn after_a_rollback_that_fails_what_serves_goes_on_as_long_as_there_is_patience() {
    let mut rollout = restarted(&["a"], "b");
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), Some(RolloutOrder::Prepare(digest("a"))));
    assert_eq!(rollout.handle(Event::Wanted(digest("c"), Cause::Delivery), S), None, "first the rollback");
    assert!(!rollout.is_wish_due());
    let lost = Event::Failed(digest("a"), RolloutStep::Receive, Failed::ForGood);
    assert_eq!(rollout.handle(lost, S), None);
    assert_eq!(rollout.serving().unwrap().digest, digest("b"));
    assert!(rollout.is_wish_due(), "what was wanted meanwhile was ignored");
    assert!(!rollout.is_watched() && rollout.quarantine_pause().is_none());
    (2..STRIKES).for_each(|_| assert_eq!(rollout.handle(Event::Called(Call::Fault), S), None));
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), Some(RolloutOrder::Quarantine(digest("b"))));
    assert_eq!(
        rollout.handle(Event::Wanted(digest("c"), Cause::Delivery), S),
        Some(RolloutOrder::Prepare(digest("c")))
    );
}

#[test]
fn a_standing_pin_does_not_bring_back_what_failed_and_a_new_word_does() {
    let mut rollout = serving("a");
    let b = digest("b");
    let pin = || Event::Wanted(b, Cause::Operator);
    let _ = rollout.handle(pin(), S);
    let _ = rollout.handle(ready(b), S);
    assert_eq!(rollout.handle(Event::Shadowed(b, Some(close())), S), Some(RolloutOrder::Swap(b)));
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), Some(RolloutOrder::Swap(digest("a"))));
    assert_eq!(rollout.handle(pin(), S), None);
    assert_eq!(rollout.handle(Event::Forgiven(b), S), None);
    assert_eq!(rollout.handle(pin(), S), Some(RolloutOrder::Prepare(b)));
}

#[test]
fn a_rollback_that_cannot_be_read_does_not_stand_in_the_way_and_the_next_one_is_tried() {
    let mut rollout = restarted(&["b", "a"], "c");
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), Some(RolloutOrder::Prepare(digest("b"))));
    assert_eq!(rollout.handle(Event::Failed(digest("b"), RolloutStep::Receive, Failed::Circumstance), S), None);
    let mut other = rollout.clone();
    assert_eq!(other.handle(Event::Wanted(digest("d"), Cause::Delivery), S), Some(RolloutOrder::Prepare(digest("d"))));
    let mut now = S;
    for _ in 2..STRIKES {
        now = rollout.next_tick().unwrap();
        assert_eq!(rollout.handle(Event::Tick, now), Some(RolloutOrder::Prepare(digest("b"))));
        assert_eq!(rollout.handle(Event::Failed(digest("b"), RolloutStep::Receive, Failed::Circumstance), now), None);
    }
    now = rollout.next_tick().unwrap().max(now);
    let _ = rollout.handle(Event::Tick, now);
    let lost = Event::Failed(digest("b"), RolloutStep::Receive, Failed::Circumstance);
    assert_eq!(rollout.handle(lost, now), Some(RolloutOrder::Prepare(digest("a"))), "the plugin before that one");
}

#[test]
fn what_served_before_a_restart_is_not_watched_as_if_it_were_new() {
    let mut rollout = Rollout::<Digest>::new(RolloutMemory { previous: vec![digest("z")], ..RolloutMemory::default() });
    let _ = rollout.handle(Event::Wanted(digest("a"), Cause::Delivery), S);
    let _ = rollout.handle(ready(digest("a")), S);
    assert!(!rollout.is_watched());
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), None, "one of five");
}

#[test]
fn a_watch_goes_on_after_a_restart() {
    let watched = Some(digest("b"));
    let memory = || RolloutMemory { previous: vec![digest("a")], taken_back: vec![], watched };
    let starts_with = |text: &str| {
        let mut rollout = Rollout::<Digest>::new(memory());
        let _ = rollout.handle(Event::Wanted(digest(text), Cause::Delivery), S);
        assert_eq!(rollout.handle(ready(digest(text)), S), Some(RolloutOrder::Swap(digest(text))));
        rollout
    };
    let mut rollout = starts_with("b");
    assert!(rollout.is_watched());
    assert_eq!(
        rollout.handle(Event::Called(Call::Fault), S),
        Some(RolloutOrder::Prepare(digest("a"))),
        "the first fault"
    );
    assert_eq!(rollout.handle(ready(digest("a")), S), Some(RolloutOrder::Swap(digest("a"))));
    assert!(!rollout.is_watched(), "it serves by a rollback");
    // Its bytes were lost, and another one was the first to serve.
    assert!(!starts_with("a").is_watched());
}

#[test]
fn a_rollback_whose_bytes_are_lost_is_no_reason_for_quarantine() {
    let memory = RolloutMemory { previous: vec![digest("a")], taken_back: vec![], watched: Some(digest("b")) };
    let mut rollout = Rollout::<Digest>::new(memory);
    let _ = rollout.handle(Event::Wanted(digest("b"), Cause::Delivery), S);
    let _ = rollout.handle(ready(digest("b")), S);
    assert!(rollout.is_on_trial());
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), Some(RolloutOrder::Prepare(digest("a"))));
    // Part of an older binary, say.
    assert_eq!(rollout.handle(Event::Failed(digest("a"), RolloutStep::Receive, Failed::ForGood), S), None);
    assert!(!rollout.is_on_trial() && rollout.quarantine_pause().is_none() && rollout.candidate().is_none());
    (2..STRIKES).for_each(|_| assert_eq!(rollout.handle(Event::Called(Call::Fault), S), None));
    assert_eq!(rollout.handle(Event::Called(Call::Fault), S), Some(RolloutOrder::Quarantine(digest("b"))));
}

/// A source whose active plugin is `name` after a restart during its watch: the handle of the one before is lost.
fn restarted(previous: &[&str], name: &str) -> Rollout<Digest> {
    let previous = previous.iter().map(|name| digest(name)).collect();
    let mut rollout = Rollout::new(RolloutMemory { previous, taken_back: Vec::new(), watched: Some(digest(name)) });
    let _ = rollout.handle(Event::Wanted(digest(name), Cause::Delivery), S);
    assert_eq!(rollout.handle(ready(digest(name)), S), Some(RolloutOrder::Swap(digest(name))));
    rollout
}

#[test]
fn what_served_before_is_whole_until_something_else_did() {
    let mut rollout = swapped("a", "b");
    assert_eq!((rollout.revision(), rollout.earlier()), (Some(&digest("b")), Some(&digest("a"))));
    let _ = rollout.handle(Event::Called(Call::Fault), S);
    assert_eq!((rollout.revision(), rollout.earlier()), (Some(&digest("a")), None), "what failed is not kept");
    assert_eq!(rollout.candidate().unwrap().ready, None);
}

#[test]
fn one_plugin_is_worked_on_and_a_shadow_round_begins_when_the_caller_is_ready() {
    let mut rollout = serving("a");
    assert_eq!(rollout.work(), None);
    let b = digest("b");
    let _ = rollout.handle(Event::Wanted(b, Cause::Delivery), S);
    assert_eq!(rollout.work(), Some(RolloutWork::Prepare(b)));
    assert_eq!(rollout.begin_shadow(), None, "it is not prepared");
    let _ = rollout.handle(ready(b), S);
    assert!(rollout.work().is_none() && rollout.is_shadow_due());
    assert_eq!(rollout.begin_shadow(), Some((b, digest("a"))));
    assert_eq!(rollout.work(), Some(RolloutWork::Shadow(b)));
    assert!(!rollout.is_shadow_due() && rollout.begin_shadow().is_none());
    assert_eq!(rollout.handle(Event::Unwanted, S), None);
    assert_eq!(rollout.work(), None, "what is not wanted is abandoned");
}

#[test]
fn what_serves_is_renewed_while_no_candidate_is_on_its_way() {
    let (a, b) = (digest("a"), digest("b"));
    let mut rollout = serving("a");
    assert_eq!(rollout.handle(Event::Renew, S), Some(RolloutOrder::Renew(a)));
    assert!(rollout.is_renewing() && !rollout.may_renew());
    assert_eq!(rollout.handle(Event::Renew, S), None, "one at a time");
    // The operator asks for a round meanwhile.
    assert_eq!(rollout.handle(Event::Again, S), None);
    assert!(rollout.is_renewing());
    assert_eq!(rollout.handle(Event::Prepared(a, b), S), Some(RolloutOrder::Renewed(a)));
    assert_eq!(rollout.revision(), Some(&b), "the handle is the new one");
    assert_eq!(rollout.handle(Event::Prepared(a, a), S), None, "too late");

    assert_eq!(rollout.handle(Event::Renew, S), Some(RolloutOrder::Renew(a)));
    assert_eq!(rollout.handle(Event::Failed(a, RolloutStep::Configure, Failed::ForGood), S), None);
    assert!(rollout.work().is_none() && rollout.candidate().is_none(), "what serves goes on");

    assert_eq!(rollout.handle(Event::Renew, S), Some(RolloutOrder::Renew(a)));
    assert_eq!(rollout.handle(Event::Edited, S), None);
    assert!(rollout.may_renew(), "the entry that it was prepared with is no more");

    assert_eq!(rollout.handle(Event::Renew, S), Some(RolloutOrder::Renew(a)));
    assert_eq!(rollout.handle(Event::Wanted(b, Cause::Delivery), S), Some(RolloutOrder::Prepare(b)));
    assert!(!rollout.is_renewing() && !rollout.may_renew(), "the candidate comes first");
    let _ = rollout.handle(Event::Failed(b, RolloutStep::Scan, Failed::ForGood), S);
    assert!(rollout.may_renew(), "a refused candidate is not in the way");
}

#[test]
fn words_of_steps_read_as_themselves() {
    for step in RolloutStep::ALL {
        assert_eq!(RolloutStep::parse(step.as_str()), Some(step));
    }
    assert_eq!(RolloutStep::parse("Nonsense"), None);
}
