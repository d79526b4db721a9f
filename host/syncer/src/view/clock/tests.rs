use topoloom_sync::guard::{Cause, Spent};
use topoloom_sync::policy::in_force::Synced;
use topoloom_sync::policy::object::Policy;
use topoloom_sync::taints::{Effect, Taint};

use super::super::examples::{binding, lend, mornings, now, read, view};
use super::super::*;
use super::*;

const LENT: &str = "vnode-east-w1";

/// Its windows close at 08:01; a grace of ten hours.
pub(in crate::view) fn night() -> Policy {
    mornings("night", Some(36_000))
}

/// The time, when the wall clock was set by so much.
fn set(by: SignedDuration) -> Now {
    Now { wall: now().wall + by, ..now() }
}

const HOUR: SignedDuration = SignedDuration::from_hours(1);

/// The API server shows the taint of closed windows with this time.
pub(in crate::view) fn store(view: &mut View, time: &str, version: &str) {
    let node = closed(view.lent(LENT).unwrap(), time, version);
    view.lent_node(&LENT.into(), node);
}

fn closed(node: &LentNode, time: &str, version: &str) -> LentNode {
    let mut node = node.clone();
    node.version = version.into();
    node.metadata.taints.retain(|taint| taint.key != keys::OUT_OF_WINDOWS_TAINT);
    let taint = Taint::new(keys::OUT_OF_WINDOWS_TAINT, "true", Effect::NoSchedule);
    node.metadata.taints.push(Taint { time_added: time.parse().ok(), ..taint });
    node
}

/// The time that a decision writes into the taint of closed windows.
pub(in crate::view) fn stamped(view: &mut View, now: Now) -> Option<String> {
    let work = view.decide(&"w1".into(), &Evidence::default(), now);
    let taints = work.orders.iter().find_map(|order| match order {
        NodeOrder::PatchSpec { body, .. } => body["spec"]["taints"].as_array(),
        _ => None,
    })?;
    let taint = taints.iter().find(|taint| taint["key"] == keys::OUT_OF_WINDOWS_TAINT)?;
    Some(taint["timeAdded"].as_str()?.to_owned())
}

#[test]
fn s17_a_step_of_the_clock_moves_the_clock_of_a_closing_once_and_with_the_first_decision_after_it() {
    let mut view = view(1);
    lend(&mut view, 1);
    let _ = view.policies.insert(night());
    let closed = stamped(&mut view, now()).unwrap();
    store(&mut view, &closed, "30");
    assert_eq!(stamped(&mut view, now()), None, "it is at rest");
    let moved = stamped(&mut view, set(HOUR)).unwrap();
    assert_eq!((closed.as_str(), moved.as_str()), ("2026-08-03T12:00:00Z", "2026-08-03T13:00:00Z"));
    store(&mut view, &moved, "31");
    assert_eq!(stamped(&mut view, set(HOUR)), None, "once");
    assert_eq!(view.tick(set(HOUR)), [ClockNews::Set(HOUR)]);
    assert_eq!(view.tick(set(HOUR)), []);
}

/// This long after the beginning, by both clocks.
fn later(by: SignedDuration) -> Now {
    Now { wall: now().wall + by, steady: now().steady + by.unsigned_abs() }
}

#[test]
fn s17_the_clock_of_a_closing_goes_on_where_another_client_takes_all_of_it_off() {
    let mut view = view(1);
    lend(&mut view, 1);
    let _ = view.policies.insert(night());
    let name: PhysicalName = "w1".into();
    let write = |view: &mut View, at: Now| {
        let work = view.decide(&name, &Evidence::default(), at);
        let order = work.orders.iter().find(|order| matches!(order, NodeOrder::PatchSpec { .. })).unwrap();
        view.carried(&name, &work, order, at);
    };
    // What is not written is not remembered.
    let _ = stamped(&mut view, now());
    let first = later(HOUR);
    assert_eq!(stamped(&mut view, first).as_deref(), Some("2026-08-03T13:00:00Z"));
    write(&mut view, first);
    // Neither taint nor annotation is there any more when the node is looked at again.
    assert_eq!(stamped(&mut view, later(HOUR * 2)).as_deref(), Some("2026-08-03T13:00:00Z"));
    // The wall clock is set, and the time with it.
    let set = Now { wall: later(HOUR * 2).wall + HOUR, ..later(HOUR * 2) };
    assert_eq!(stamped(&mut view, set).as_deref(), Some("2026-08-03T14:00:00Z"));
    // The store was set back: what was written is not there any more.
    view.forget_answers();
    assert_eq!(stamped(&mut view, set).as_deref(), Some("2026-08-03T15:00:00Z"));
}

#[test]
fn s17_a_process_that_finds_no_taint_goes_on_from_the_annotation_by_what_the_leases_show_of_its_clock() {
    let found = |earlier: Timestamp| {
        let mut view = successor();
        let mut node = view.lent(LENT).unwrap().clone();
        node.version = "31".into();
        node.metadata.taints.retain(|taint| taint.key != keys::OUT_OF_WINDOWS_TAINT);
        let time = "2026-08-03T10:30:00Z".to_owned();
        node.metadata.annotations.insert(keys::RECLAIM_STARTED.to_owned(), time);
        view.lent_node(&LENT.into(), node);
        view.took_over(&TakeOver { earlier, latest: earlier, now: now().wall });
        stamped(&mut view, now())
    };
    assert_eq!(found(now().wall).as_deref(), Some("2026-08-03T10:30:00Z"));
    assert_eq!(found(now().wall - HOUR).as_deref(), Some("2026-08-03T11:30:00Z"));
}

/// A view of the next process, which finds a node whose windows were closed at 10:30.
fn successor() -> View {
    successor_of("2026-08-03T10:30:00Z", None)
}

/// The same with this time in the taint of closed windows, and this one for the last write of the node.
fn successor_of(time: &str, last_write: Option<Timestamp>) -> View {
    let mut before = view(1);
    lend(&mut before, 1);
    let mut lent = closed(before.lent(LENT).unwrap(), time, "30");
    lent.metadata.annotations.remove(keys::LAST_SYNC_TIME);
    lent.metadata.annotations.extend(last_write.map(|last| (keys::LAST_SYNC_TIME.to_owned(), last.to_string())));
    let machine = before.physical("w1").unwrap().clone();
    let mut view = View::new(binding(), Safety::default(), Spent::default(), Reach::Reachable, now());
    view.policies.set_synced(Synced::Yes);
    let _ = view.policies.insert(night());
    view.agreed(Duration::MAX);
    view.lent_nodes([(LENT.into(), lent)].into());
    view.physical_nodes([("w1".into(), machine)].into());
    view
}

#[test]
fn s17_the_times_of_an_earlier_process_are_moved_by_what_its_leases_show_and_those_of_ours_are_not() {
    for (earlier, time, want) in [
        (now().wall - HOUR, "2026-08-03T10:30:00Z", Some("2026-08-03T11:30:00Z")),
        (now().wall + HOUR, "2026-08-03T12:30:00Z", Some("2026-08-03T11:30:00Z")),
        (now().wall - SignedDuration::from_secs(20), "2026-08-03T10:30:00Z", None),
    ] {
        let mut view = successor_of(time, Some(earlier));
        view.took_over(&TakeOver { earlier, latest: earlier, now: now().wall });
        let difference = view.tick(now());
        assert_eq!(difference.len(), usize::from(want.is_some()), "{earlier}: {difference:?}");
        // A step counts beside it.
        let now = set(HOUR * 2);
        let later = stamped(&mut view, now).unwrap();
        let base = want.unwrap_or(time).parse::<Timestamp>().unwrap();
        assert_eq!(later, (base + HOUR * 2).to_string(), "{earlier}");
        store(&mut view, &later, "31");
        assert_eq!(stamped(&mut view, now), None, "once");
        // The next closing is of this process.
        store(&mut view, "2026-08-03T13:45:00Z", "32");
        assert_eq!(stamped(&mut view, now), None);
    }
}

#[test]
fn s17_the_time_of_a_node_that_this_process_made_is_of_our_clock_whatever_the_leases_showed() {
    for earlier in [now().wall - HOUR, now().wall + HOUR] {
        let mut view = view(1);
        let _ = view.policies.insert(night());
        view.took_over(&TakeOver { earlier, latest: now().wall, now: now().wall });
        let work = view.decide(&"w1".into(), &Evidence::default(), now());
        let Some(NodeOrder::Create { name, body }) = work.orders.last() else { panic!("{:?}", work.orders) };
        let mut node = body.clone();
        assert_eq!(node["spec"]["taints"].as_array().map(Vec::len), Some(2), "its windows are closed: {node}");
        node["metadata"]["uid"] = "v1".into();
        node["metadata"]["resourceVersion"] = "20".into();
        view.lent_node(name, read(&node).lent().unwrap());
        assert_eq!(stamped(&mut view, now()), None, "{earlier}");
    }
}

#[test]
fn s17_a_clock_that_was_ahead_moves_back_what_it_has_written_and_no_grace_of_a_process_before_it() {
    for ahead in [HOUR, HOUR * 24] {
        let earlier = now().wall + ahead;
        let seen = |written: Timestamp, last: Option<Timestamp>| {
            let mut view = successor_of(&written.to_string(), last);
            view.took_over(&TakeOver { earlier, latest: earlier, now: now().wall });
            stamped(&mut view, now())
        };
        let written: Timestamp = "2026-08-03T11:30:00Z".parse().unwrap();
        let moved = Some(written.to_string());
        assert_eq!(seen(written + ahead, None), moved, "a time of our future");
        assert_eq!(seen(written + ahead, Some(written + ahead)), moved);
        // The process that was ahead ended before it had moved this one. Earlier by as much, its grace would be over.
        assert_eq!(seen(written, Some(written)), None, "{ahead}");
        assert_eq!(seen(written, Some(earlier)), None, "{ahead}: it had written the node, and not yet its taint");
        assert_eq!(seen(written, None), None, "{ahead}");
        // It was written in this second, which is rounded up. That it is in our future is put right.
        let rounded_up = now().wall + SignedDuration::from_secs(1);
        let stamped = seen(rounded_up, Some(now().wall)).map(|time| time.parse::<Timestamp>().unwrap());
        assert_eq!(stamped, Some(now().wall), "{ahead}");
    }
}

#[test]
fn s17_s18_windows_are_judged_by_the_latest_time_that_an_earlier_process_judged_them_by() {
    let mut view = successor();
    let latest = now().wall + HOUR;
    view.took_over(&TakeOver { earlier: now().wall, latest, now: now().wall });
    assert_eq!((view.judged(now().wall), view.judged(now().wall + HOUR + HOUR)), (latest, latest + HOUR));
    // At nine they are closed. A clock that is set back to half past seven does not open them, and one that was wrong by more does.
    let outside = |view: &mut View, minutes: i64| {
        view.decide(&"w1".into(), &Evidence::default(), set(SignedDuration::from_mins(minutes)));
        view.counts().outside
    };
    assert_eq!(outside(&mut successor(), -270), 0, "by that clock alone they are open");
    let mut view = successor();
    assert_eq!([-180, -270, -301].map(|minutes| outside(&mut view, minutes)), [1, 1, 0]);
}

#[test]
fn s10_a_step_of_the_clock_does_not_bring_the_deadline_of_evictions_nearer() {
    let mut view = view(10);
    let act = Act::RemovePod { node: LENT.into(), pod: "p".into() };
    let mut asked = Asked::default();
    let (safety, size) = (view.safety, view.size());
    let mut ask = |asked: &mut Asked, now: Now| {
        asked.ask(view.guard(), Some((Cause::Operator, vec![act.clone()])), &safety, size, now)
    };
    assert_eq!(ask(&mut asked, now()), Leave::Given { since: now().wall });
    let later = Now { steady: now().steady + Duration::from_secs(60), wall: now().wall + SignedDuration::from_mins(1) };
    assert_eq!(ask(&mut asked, later), Leave::Given { since: now().wall });
    asked.stepped(HOUR);
    let after = Now { wall: later.wall + HOUR, ..later };
    assert_eq!(ask(&mut asked, after), Leave::Given { since: now().wall + HOUR });
}
