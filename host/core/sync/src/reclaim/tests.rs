use std::collections::BTreeMap;

use super::*;

/// 2026-03-01T08:01:00Z, when the window of the examples closes, and so many seconds later.
fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_772_352_060 + second).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn reclaim(grace: u64) -> Window {
    Window::Outside(OnClose::Reclaim { grace: seconds(grace), via: ReclaimVia::Delete })
}

fn by_eviction(grace: u64) -> Window {
    Window::Outside(OnClose::Reclaim { grace: seconds(grace), via: ReclaimVia::Eviction })
}

const KEEP: Window = Window::Outside(OnClose::Keep);

/// The window taint, added so many seconds after the closing.
fn taint(effect: Effect, added: Option<i64>) -> Taint {
    Taint { time_added: added.map(at), ..Taint::new(keys::OUT_OF_WINDOWS_TAINT, "true", effect) }
}

/// A pod with this toleration of every NoExecute taint: `None` for no toleration, seconds or none.
fn pod(name: &str, toleration: Option<Option<i64>>) -> Pod {
    let tolerations = toleration.map(|seconds| Toleration {
        operator: "Exists".into(),
        effect: Some(Effect::NoExecute),
        seconds,
        ..Toleration::default()
    });
    Pod {
        pod: PodRef { namespace: "ns".to_owned(), name: name.to_owned(), uid: name.into() },
        tolerations: tolerations.into_iter().collect(),
        of_daemon_set: false,
        terminating: false,
        grace: None,
        phase: Phase::Running,
    }
}

/// A node between two looks.
#[derive(Default)]
struct Node {
    taints: Vec<Taint>,
    annotations: BTreeMap<String, String>,
    pods: Vec<Pod>,
    closed: Option<Timestamp>,
    stepped: SignedDuration,
    remembered: Option<Closing>,
}

impl Node {
    fn with(taint: Option<Taint>) -> Self {
        Self { taints: taint.into_iter().collect(), ..Self::default() }
    }

    fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    fn decide(&self, window: Window, now: Timestamp) -> Reclaim {
        self.decide_by(window, now, now)
    }

    fn decide_by(&self, window: Window, now: Timestamp, judged: Timestamp) -> Reclaim {
        let Self { taints, annotations, pods, closed, stepped, remembered } = self;
        let (closed, stepped, remembered) = (*closed, *stepped, *remembered);
        let facts = Facts { window, taints, annotations, closed, judged, stepped, remembered, pods };
        decide(&facts, now)
    }

    /// Looks, and writes what follows.
    fn look(&mut self, window: Window, now: Timestamp) -> Reclaim {
        self.judged(window, now, now)
    }

    /// The same while windows are judged by a later time.
    fn judged(&mut self, window: Window, now: Timestamp, judged: Timestamp) -> Reclaim {
        let reclaim = self.decide_by(window, now, judged);
        self.write(&reclaim);
        reclaim
    }

    fn write(&mut self, reclaim: &Reclaim) {
        self.taints.retain(|taint| taint.key != keys::OUT_OF_WINDOWS_TAINT);
        self.taints.extend(reclaim.taint.taint());
        self.annotations = reclaim.annotations().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    }

    /// Another client takes the taint off, or its time, and `also` the annotations: then the process remembers what it has seen.
    fn strip(&mut self, taint: Option<Effect>, also: bool, seen: &Reclaim) {
        self.taints = taint.map(|effect| self::taint(effect, None)).into_iter().collect();
        if also {
            self.annotations.clear();
            self.remembered = seen.known;
        }
    }
}

/// The effect of the taint, how old it is at `now`, and in how many seconds the next look is.
fn shown(reclaim: &Reclaim, now: Timestamp) -> (&'static str, i64, Option<i64>) {
    let (effect, since) = match reclaim.taint {
        WindowTaint::None => return ("none", 0, reclaim.next.map(|next| next.duration_since(now).as_secs())),
        WindowTaint::NoSchedule { since } => ("NoSchedule", since),
        WindowTaint::NoExecute { since } => ("NoExecute", since),
    };
    (effect, now.duration_since(since).as_secs(), reclaim.next.map(|next| next.duration_since(now).as_secs()))
}

fn due(reclaim: &Reclaim) -> Vec<(&str, i64)> {
    let Evict::Delete(pods) = &reclaim.evict else { return Vec::new() };
    pods.iter().map(|due| (due.pod.name.as_str(), due.due.as_second() - at(0).as_second())).collect()
}

#[test]
fn d3_the_table_of_6_8() {
    use Effect::{NoExecute, NoSchedule};
    // The policy, the taint and its age, and: the effect, its age, the next look, whether pods are deleted.
    let table = [
        (KEEP, None, "NoSchedule", 0, None, false),
        (KEEP, Some((NoSchedule, Some(0))), "NoSchedule", 400, None, false),
        (KEEP, Some((NoSchedule, None)), "NoSchedule", 0, None, false),
        (KEEP, Some((NoExecute, Some(0))), "NoSchedule", 400, None, false),
        (reclaim(0), None, "NoExecute", 0, None, true),
        (reclaim(0), Some((NoSchedule, Some(0))), "NoExecute", 400, None, true),
        (reclaim(0), Some((NoSchedule, None)), "NoExecute", 0, None, true),
        (reclaim(0), Some((NoExecute, Some(0))), "NoExecute", 400, None, true),
        (reclaim(600), None, "NoSchedule", 0, Some(600), false),
        (reclaim(600), Some((NoExecute, Some(0))), "NoExecute", 400, None, true),
        (reclaim(600), Some((NoExecute, None)), "NoExecute", 0, None, true),
        (reclaim(600), Some((NoSchedule, None)), "NoExecute", 600, None, true),
        (reclaim(400), Some((NoSchedule, Some(0))), "NoExecute", 400, None, true),
        (reclaim(399), Some((NoSchedule, Some(0))), "NoExecute", 400, None, true),
        (reclaim(401), Some((NoSchedule, Some(0))), "NoSchedule", 400, Some(1), false),
        (reclaim(600), Some((NoSchedule, Some(0))), "NoSchedule", 400, Some(200), false),
        (Window::Inside, None, "none", 0, None, false),
        (Window::Inside, Some((NoSchedule, Some(0))), "none", 0, None, false),
        (Window::Inside, Some((NoExecute, Some(0))), "none", 0, None, false),
    ];
    for (window, there, effect, age, next, deletes) in table {
        let row = format!("{window:?} {there:?}");
        let mut node = Node::with(there.map(|(effect, added)| taint(effect, added)));
        node.pods = vec![pod("a", None)];
        let reclaim = node.look(window, at(400));
        assert_eq!(shown(&reclaim, at(400)), (effect, age, next), "{row}: {reclaim:?}");
        assert_eq!(!due(&reclaim).is_empty(), deletes, "{row}: {reclaim:?}");
        // The second look changes nothing.
        let (taints, annotations) = (node.taints.clone(), node.annotations.clone());
        let again = node.look(window, at(400));
        assert_eq!((again.taint, &node.taints, &node.annotations), (reclaim.taint, &taints, &annotations), "{row}");
        assert!(again.reasons.iter().all(|reason| !reason.is_unusual()), "{row}: {:?}", again.reasons);
    }
}

#[test]
fn scenario_15_5_the_window_closes_with_a_grace_of_600_seconds() {
    let mut node = Node { pods: vec![pod("a", None)], ..Node::default() };
    assert_eq!(shown(&node.look(reclaim(600), at(0)), at(0)), ("NoSchedule", 0, Some(600)));
    let first = node.look(reclaim(600), at(250));
    assert_eq!((shown(&first, at(250)), first.stamp), (("NoSchedule", 250, Some(350)), Stamp::Keep));
    let over = node.look(reclaim(600), at(600));
    assert_eq!((shown(&over, at(600)), due(&over)), (("NoExecute", 600, None), vec![("a", 600)]));
    assert_eq!(over.reasons, [Reason::GraceOver(at(600))]);
    assert_eq!((over.since, over.promised), (Some(at(600)), Some(seconds(600))));
}

#[test]
fn scenario_15_5_a_window_that_opens_in_between_evicts_no_pod_and_the_next_closing_has_a_fresh_clock() {
    let mut node = Node { pods: vec![pod("a", None)], ..Node::default() };
    node.look(reclaim(600), at(0));
    let open = node.look(Window::Inside, at(300));
    assert_eq!((open.taint, open.evict, open.next), (WindowTaint::None, Evict::Nothing, None));
    assert_eq!((node.taints.len(), node.annotations.len()), (0, 0));
    assert_eq!(shown(&node.look(reclaim(600), at(500)), at(500)), ("NoSchedule", 0, Some(600)));
}

#[test]
fn s17_toleration_seconds_are_granted_from_the_moment_of_no_execute() {
    let pods =
        [("no", None), ("60", Some(Some(60))), ("0", Some(Some(0))), ("ever", Some(None)), ("90", Some(Some(90)))];
    let mut node = Node { pods: pods.map(|(name, toleration)| pod(name, toleration)).to_vec(), ..Node::default() };
    node.look(reclaim(600), at(0));
    let over = node.look(reclaim(600), at(605));
    assert_eq!(due(&over), [("no", 605), ("60", 665), ("0", 605), ("90", 695)]);
    assert_eq!((over.next, over.since), (Some(at(665)), Some(at(605))));
    assert_eq!(
        over.stay.iter().map(|(pod, why)| (pod.name.as_str(), *why)).collect::<Vec<_>>(),
        [("ever", Stay::Tolerates)]
    );
    // A restart grants no time a second time.
    let later = node.look(reclaim(600), at(670));
    assert_eq!((due(&later), later.next, later.since), (due(&over), Some(at(695)), Some(at(605))));
    assert_eq!(later.reasons, [Reason::Executing]);
}

#[test]
fn s17_daemon_sets_ending_and_finished_pods_are_left_alone() {
    let mut pods = ["set", "ends", "done", "plain"].map(|name| pod(name, None)).to_vec();
    (pods[0].of_daemon_set, pods[1].terminating, pods[2].phase) = (true, true, Phase::Succeeded);
    let mut forever = vec![pod("forever", Some(Some(i64::MAX)))];
    pods.append(&mut forever);
    let node = Node { pods, ..Node::default() };
    let reclaim = node.decide(reclaim(0), at(0));
    assert_eq!(due(&reclaim), [("plain", 0)]);
    let stay: Vec<_> = reclaim.stay.iter().map(|(pod, why)| (pod.name.as_str(), *why)).collect();
    let want =
        [("set", Stay::DaemonSet), ("ends", Stay::Terminating), ("done", Stay::Finished), ("forever", Stay::Tolerates)];
    assert_eq!(stay, want);
}

#[test]
fn s17_pods_that_are_being_deleted_with_more_than_an_hour_have_that_once_what_they_tolerate_is_over() {
    let slow = |name: &str, toleration| {
        let (terminating, grace) = (true, Some(seconds(31_536_000)));
        Pod { terminating, grace, ..pod(name, toleration) }
    };
    let pods = vec![
        slow("none", None),
        slow("60", Some(Some(60))),
        slow("forever", Some(None)),
        Pod { grace: Some(seconds(3_600)), ..slow("hour", None) },
        Pod { phase: Phase::Failed, ..slow("ended", None) },
        Pod { of_daemon_set: true, ..slow("set", None) },
    ];
    let node = Node { pods, ..Node::default() };
    let decided = node.decide(reclaim(0), at(0));
    let shorten: Vec<_> = decided.shorten.iter().map(|slow| (slow.pod.name.as_str(), slow.due)).collect();
    assert_eq!(shorten, [("none", at(0)), ("60", at(60)), ("set", at(0))]);
    assert_eq!((&decided.evict, decided.next), (&Evict::Nothing, Some(at(60))));
    assert_eq!(decided.held().shorten, []);
    assert_eq!(node.decide(reclaim(600), at(0)).shorten, [], "the grace of the policy runs");
}

#[test]
fn s17_a_pod_that_tolerates_another_taint_or_another_effect_goes() {
    let tolerating = |name: &str, key: &str, value: &str, effect| Pod {
        tolerations: vec![Toleration { key: key.into(), value: value.into(), effect, ..Toleration::default() }],
        ..pod(name, None)
    };
    let key = keys::OUT_OF_WINDOWS_TAINT;
    let node = Node {
        pods: vec![
            tolerating("key", "other", "true", None),
            tolerating("value", key, "false", None),
            tolerating("effect", key, "true", Some(Effect::NoSchedule)),
            tolerating("really", key, "true", Some(Effect::NoExecute)),
        ],
        ..Node::default()
    };
    assert_eq!(due(&node.decide(reclaim(0), at(0))), [("key", 0), ("value", 0), ("effect", 0)]);
}

#[test]
fn s17_the_second_half_of_the_grace_may_be_spent_on_the_eviction_api() {
    let mut node =
        Node { pods: vec![pod("no", None), pod("60", Some(Some(60))), pod("0", Some(Some(0)))], ..Node::default() };
    let evicts = |reclaim: &Reclaim| match &reclaim.evict {
        Evict::Evict(pods) => pods.iter().map(|pod| pod.name.clone()).collect(),
        _ => Vec::new(),
    };
    let first = node.look(by_eviction(600), at(0));
    assert_eq!((evicts(&first).len(), first.next), (0, Some(at(300))));
    assert_eq!(node.look(by_eviction(600), at(299)).next, Some(at(300)));
    let half = node.look(by_eviction(600), at(300));
    assert_eq!((evicts(&half), half.next), (vec!["no".to_owned(), "0".to_owned()], Some(at(600))));
    assert_eq!(shown(&half, at(300)), ("NoSchedule", 300, Some(300)));
    assert_eq!(half.stay.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [Stay::ToleratesLater]);
    assert_eq!(due(&node.look(by_eviction(600), at(600))).len(), 3);
    // Without it no pod goes before the end.
    let mut node = Node { pods: node.pods, ..Node::default() };
    node.look(reclaim(600), at(0));
    assert_eq!(node.look(reclaim(600), at(599)).evict, Evict::Nothing);
}

#[test]
fn s17_an_edit_lengthens_a_running_grace_and_never_shortens_it() {
    let mut node = Node::default();
    node.look(reclaim(600), at(0));
    // Shorter, none at all, not forced, and shorter again: 600 were promised.
    for (window, now) in [(reclaim(60), 100), (reclaim(0), 200), (KEEP, 300), (reclaim(1), 400)] {
        let reclaim = node.look(window, at(now));
        assert_eq!(shown(&reclaim, at(now)).0, "NoSchedule", "{window:?}");
    }
    let reclaim_now = node.look(reclaim(1), at(400));
    assert_eq!(reclaim_now.next, Some(at(600)));
    let promised = Reason::Promised { policy: seconds(1), promised: seconds(600) };
    assert_eq!(reclaim_now.reasons, [promised, Reason::Grace(at(600))]);
    // Longer counts at once.
    assert_eq!(node.look(reclaim(900), at(500)).next, Some(at(900)));
    assert_eq!(shown(&node.look(reclaim(1), at(899)), at(899)), ("NoSchedule", 899, Some(1)));
    assert_eq!(shown(&node.look(reclaim(1), at(900)), at(900)), ("NoExecute", 900, None));
}

#[test]
fn s17_the_clock_runs_while_the_node_is_outside_whichever_policy_is_in_force() {
    let mut node = Node::default();
    node.look(KEEP, at(0));
    // A policy that reclaims comes into force when its grace is over already.
    assert_eq!(shown(&node.look(reclaim(600), at(700)), at(700)), ("NoExecute", 700, None));
    // And goes again: the taint says NoSchedule, and the clock still runs.
    assert_eq!(shown(&node.look(KEEP, at(800)), at(800)), ("NoSchedule", 800, None));
    let kept = [(keys::RECLAIM_GRACE, "600".to_owned()), (keys::RECLAIM_STARTED, at(0).to_string())];
    assert_eq!(node.annotations, kept.map(|(key, value)| (key.to_owned(), value)).into());
    // Without any policy the node is inside.
    assert_eq!(node.look(Window::Inside, at(900)).reasons, [Reason::Inside]);
    assert_eq!(node.annotations, BTreeMap::new());
}

#[test]
fn s17_a_time_in_the_future_is_now_once_and_reported() {
    let mut node = Node::with(Some(taint(Effect::NoSchedule, Some(3_600)))).annotated(keys::RECLAIM_GRACE, "600");
    let reclaim_now = node.look(reclaim(300), at(0));
    assert_eq!((shown(&reclaim_now, at(0)), reclaim_now.stamp), (("NoSchedule", 0, Some(600)), Stamp::Replace));
    assert!(reclaim_now.reasons.contains(&Reason::Future(at(3_600))), "{:?}", reclaim_now.reasons);
    let again = node.look(reclaim(300), at(1));
    assert_eq!((shown(&again, at(1)), again.stamp), (("NoSchedule", 1, Some(599)), Stamp::Keep));
    assert!(again.reasons.iter().all(|reason| !reason.is_unusual()), "{:?}", again.reasons);
    // The same for the moment of NoExecute.
    let since = at(3_600).to_string();
    let mut node = Node::with(Some(taint(Effect::NoExecute, Some(0)))).annotated(keys::RECLAIM_SINCE, &since);
    let reclaim_now = node.look(reclaim(300), at(400));
    assert_eq!(
        (reclaim_now.since, &reclaim_now.reasons[..]),
        (Some(at(400)), &[Reason::Executing, Reason::SinceNow][..])
    );
    assert_eq!(node.look(reclaim(300), at(500)).since, Some(at(400)));
}

#[test]
fn s17_a_step_of_the_clock_neither_restarts_nor_skips_a_grace() {
    for step in [3_600, -3_600, 5, -5] {
        let mut node = Node::default();
        node.look(reclaim(600), at(0));
        node.stepped = SignedDuration::from_secs(step);
        let reclaim_now = node.look(reclaim(600), at(100 + step));
        assert_eq!(shown(&reclaim_now, at(100 + step)), ("NoSchedule", 100, Some(500)), "{step}");
        assert_eq!((reclaim_now.stamp, &reclaim_now.reasons[0]), (Stamp::Replace, &Reason::Stepped(node.stepped)));
        // From then on the taint has the time of the new clock.
        node.stepped = SignedDuration::ZERO;
        assert_eq!(shown(&node.look(reclaim(600), at(600 + step)), at(600 + step)), ("NoExecute", 600, None), "{step}");
        node.stepped = SignedDuration::from_secs(step);
        assert_eq!(node.look(reclaim(600), at(700 + 2 * step)).since, Some(at(600 + 2 * step)), "{step}");
    }
    // Drift is not corrected for.
    let mut node = Node::default();
    node.look(reclaim(600), at(0));
    node.stepped = SignedDuration::from_secs(4);
    assert_eq!(node.look(reclaim(600), at(104)).stamp, Stamp::Keep);
}

#[test]
fn s17_a_time_that_was_moved_still_says_which_closing_it_is() {
    for step in [3_600, -3_600] {
        let mut node = Node { closed: Some(at(0)), ..Node::default() };
        node.look(reclaim(600), at(0));
        node.stepped = SignedDuration::from_secs(step);
        let moved = node.look(reclaim(600), at(100 + step));
        assert_eq!((moved.taint, moved.marked), (WindowTaint::NoSchedule { since: at(step) }, Some(at(0))), "{step}");
        // The write of the taint failed, that of the annotations did not.
        node.taints = vec![taint(Effect::NoSchedule, Some(0))];
        let again = node.look(reclaim(600), at(100 + step));
        assert_eq!((again.taint, again.marked), (moved.taint, moved.marked), "{step}");
        node.stepped = SignedDuration::ZERO;
        let rests = node.look(reclaim(600), at(200 + step));
        assert_eq!((rests.stamp, rests.next), (Stamp::Keep, Some(at(600 + step))), "{step}: {:?}", rests.reasons);
        assert_eq!(marked(&node.taints, &node.annotations, None), Some(at(0)));
        // The next closing is another one.
        node.closed = Some(at(86_400));
        let next = node.look(reclaim(600), at(86_410));
        assert_eq!(shown(&next, at(86_410)), ("NoSchedule", 10, Some(590)), "{step}");
        assert_eq!((next.marked, node.annotations.len()), (None, 2));
    }
    let node = Node::with(Some(taint(Effect::NoSchedule, Some(0)))).annotated(keys::RECLAIM_MARKED, "then");
    let unreadable = node.decide(reclaim(600), at(100));
    assert_eq!((unreadable.next, &unreadable.reasons[0]), (Some(at(600)), &Reason::Unreadable(keys::RECLAIM_MARKED)));
    assert_eq!(marked(&node.taints, &node.annotations, None), Some(at(0)));
}

#[test]
fn s17_while_windows_are_judged_by_a_later_time_a_grace_runs_by_the_clock() {
    // The clock was set back by an hour: the windows closed at 0, by the time that counts.
    let mut node = Node { closed: Some(at(0)), ..Node::default() };
    let begun = node.judged(reclaim(600), at(-3_500), at(100));
    assert_eq!((shown(&begun, at(-3_500)), begun.marked), (("NoSchedule", 0, Some(600)), Some(at(100))));
    for now in [-3_400, -2_901] {
        let runs = node.judged(reclaim(600), at(now), at(100));
        assert_eq!((runs.stamp, runs.next), (Stamp::Keep, Some(at(-2_900))), "{now}: {:?}", runs.reasons);
    }
    assert_eq!(shown(&node.judged(reclaim(600), at(-2_900), at(100)), at(-2_900)), ("NoExecute", 600, None));
    // It stays so when the clock is there.
    let later = node.judged(reclaim(600), at(200), at(200));
    assert_eq!((shown(&later, at(200)), &later.reasons[..]), (("NoExecute", 3_700, None), &[Reason::Executing][..]));
}

#[test]
fn s17_an_opening_that_no_process_saw_does_not_skip_the_grace_where_it_may_be_the_clock_that_shows_it() {
    // Six minutes of a grace of ten were over; by the clock of the new leader that was a day and an hour ago.
    let skew = 90_000;
    let mut node = Node { closed: Some(at(0)), ..Node::default() };
    node.look(reclaim(600), at(0));
    node.stepped = SignedDuration::from_secs(skew);
    node.closed = Some(at(86_400));
    let taken = node.look(reclaim(600), at(360 + skew));
    assert_eq!(shown(&taken, at(360 + skew)), ("NoSchedule", 360, Some(240)), "{:?}", taken.reasons);
    assert_eq!(taken.marked, Some(at(86_400)));
}

#[test]
fn s17_an_opening_that_no_syncer_saw_still_gives_a_fresh_clock() {
    let day = 86_400;
    for effect in [Effect::NoSchedule, Effect::NoExecute] {
        let mut node = Node::with(Some(taint(effect, Some(0)))).annotated(keys::RECLAIM_GRACE, "600");
        node.closed = Some(at(day));
        let reclaim_now = node.look(reclaim(300), at(day + 20));
        assert_eq!(shown(&reclaim_now, at(day + 20)), ("NoSchedule", 20, Some(280)));
        assert_eq!((reclaim_now.stamp, &reclaim_now.reasons[0]), (Stamp::Replace, &Reason::MissedOpening(at(day))));
        assert_eq!(reclaim_now.promised, Some(seconds(300)));
        assert_eq!(node.look(reclaim(300), at(day + 21)).stamp, Stamp::Keep);
    }
    // What looks like it after an edit does not shorten what was promised: until 600.
    let mut node = Node::default();
    node.look(reclaim(600), at(0));
    node.closed = Some(at(240));
    assert_eq!(node.look(reclaim(60), at(250)).next, Some(at(600)));
    assert_eq!(node.look(reclaim(60), at(260)).next, Some(at(600)));
    // One in the future has not happened.
    let mut node = Node::with(Some(taint(Effect::NoSchedule, Some(0))));
    node.closed = Some(at(500));
    assert_eq!(shown(&node.look(reclaim(600), at(400)), at(400)), ("NoSchedule", 400, Some(200)));
}

#[test]
fn s9_while_the_guard_holds_it_no_pod_goes_and_the_clock_runs() {
    let mut node = Node { pods: vec![pod("a", None)], ..Node::default() };
    node.look(reclaim(600), at(0));
    let held = node.decide(reclaim(600), at(600)).held();
    assert_eq!((held.taint, held.since), (WindowTaint::NoSchedule { since: at(0) }, None));
    assert_eq!((&held.evict, held.promised), (&Evict::Nothing, Some(seconds(600))));
    // Confirmed later, tolerationSeconds count from then.
    let confirmed = node.look(reclaim(600), at(700));
    assert_eq!(
        (shown(&confirmed, at(700)).0, confirmed.since, due(&confirmed)),
        ("NoExecute", Some(at(700)), vec![("a", 700)])
    );
    let held = node.decide(reclaim(600), at(800)).held();
    assert_eq!((held.taint, held.since), (WindowTaint::NoExecute { since: at(0) }, Some(at(700))));
    assert_eq!(held.evict, Evict::Nothing);
}

#[test]
fn s17_a_taint_or_its_time_that_another_client_removes_restarts_no_grace_and_what_was_promised_stays() {
    for (left, also) in
        [(None, false), (None, true), (Some(Effect::NoSchedule), false), (Some(Effect::NoSchedule), true)]
    {
        let case = format!("{left:?} {also}");
        let mut node = Node { pods: vec![pod("a", None)], ..Node::default() };
        node.look(reclaim(600), at(0));
        let seen = node.look(reclaim(600), at(10));
        node.strip(left, also, &seen);
        // A shorter grace is in force meanwhile.
        let again = node.look(reclaim(300), at(300));
        assert_eq!((shown(&again, at(300)), again.stamp), (("NoSchedule", 300, Some(300)), Stamp::Keep), "{case}");
        assert_eq!(again.reasons[0], Reason::Missing(at(0)), "{case}");
        assert_eq!(again.known, seen.known, "{case}");
        assert_eq!(marked(&node.taints, &node.annotations, None), Some(at(0)), "{case}");
        let over = node.look(reclaim(300), at(600));
        assert_eq!((shown(&over, at(600)).0, due(&over)), ("NoExecute", vec![("a", 600)]), "{case}");
        assert_eq!(over.reasons[1..], [Reason::GraceOver(at(600))], "{case}: {:?}", over.reasons);
    }
}

#[test]
fn s17_a_taint_that_is_removed_after_the_grace_comes_back_and_toleration_seconds_are_not_granted_again() {
    for also in [false, true] {
        let mut node = Node { pods: vec![pod("60", Some(Some(60)))], ..Node::default() };
        node.look(reclaim(600), at(0));
        node.look(reclaim(600), at(600));
        let seen = node.look(reclaim(600), at(610));
        node.strip(None, also, &seen);
        node.remembered = seen.known;
        let again = node.decide(reclaim(600), at(630));
        assert_eq!(
            (shown(&again, at(630)).0, again.since, due(&again)),
            ("NoExecute", Some(at(600)), vec![("60", 660)])
        );
        // Nothing becomes one that evicts while the guard holds it.
        assert_eq!(again.clone().held().taint, WindowTaint::NoSchedule { since: at(0) });
        // A process that has not seen it evict grants them.
        node.remembered = seen.known.filter(|_| also).map(|known| Closing { since: None, ..known });
        assert_eq!(node.look(reclaim(600), at(630)).since, Some(at(630)), "{also}");
    }
    // Only the annotations are gone.
    let mut node = Node::default();
    node.look(reclaim(0), at(0));
    node.remembered = node.look(reclaim(0), at(10)).known;
    node.annotations.clear();
    let again = node.look(reclaim(0), at(20));
    assert_eq!((again.since, &again.reasons[..]), (Some(at(0)), &[Reason::Executing][..]));
}

#[test]
fn s17_an_earlier_closing_counts_for_no_new_one_however_its_taint_went() {
    for also in [false, true] {
        // The process sees the opening.
        let mut node = Node::default();
        node.look(reclaim(600), at(0));
        let seen = node.look(reclaim(600), at(10));
        node.strip(None, also, &seen);
        let open = node.look(Window::Inside, at(300));
        assert_eq!((open.known, open.closing(), node.annotations.len()), (None, None, 0), "{also}");
        node.remembered = open.known;
        assert_eq!(shown(&node.look(reclaim(600), at(500)), at(500)), ("NoSchedule", 0, Some(600)), "{also}");
        // No process does.
        let mut node = Node::default();
        node.look(reclaim(600), at(0));
        let seen = node.look(reclaim(600), at(10));
        node.strip(None, also, &seen);
        node.closed = Some(at(86_400));
        let next = node.look(reclaim(600), at(86_420));
        assert_eq!(shown(&next, at(86_420)), ("NoSchedule", 20, Some(580)), "{also}: {:?}", next.reasons);
    }
}

#[test]
fn s17_what_is_remembered_of_a_closing_moves_with_the_clock_and_what_stands_on_the_node_by_its_step() {
    for step in [3_600, -3_600] {
        let by = SignedDuration::from_secs(step);
        let mut node = Node::default();
        node.look(reclaim(600), at(0));
        let seen = node.look(reclaim(600), at(10));
        let mut memory = ClosingMemory::default();
        memory.decided(&seen);
        memory.stepped(by);
        node.strip(None, true, &seen);
        node.remembered = memory.known();
        let again = node.look(reclaim(600), at(100 + step));
        assert_eq!(shown(&again, at(100 + step)), ("NoSchedule", 100, Some(500)), "{step}: {:?}", again.reasons);
        assert_eq!(again.marked, Some(at(0)), "which closing it is does not move");
        // The annotation has the time of the clock before.
        let mut node = Node { stepped: by, ..Node::default() };
        node.annotations.insert(keys::RECLAIM_STARTED.to_owned(), at(0).to_string());
        let again = node.look(reclaim(600), at(100 + step));
        assert_eq!(
            (shown(&again, at(100 + step)), again.marked),
            (("NoSchedule", 100, Some(500)), Some(at(0))),
            "{step}"
        );
    }
}

#[test]
fn s9_s17_a_taint_without_a_time_counts_as_over_also_after_the_guard_has_held_it() {
    let mut node = Node::with(Some(taint(Effect::NoSchedule, None)));
    node.pods = vec![pod("a", None)];
    let held = node.decide(reclaim(600), at(400)).held();
    assert_eq!((held.taint, held.known), (WindowTaint::NoSchedule { since: at(-200) }, None));
    node.write(&held);
    let next = node.look(reclaim(600), at(405));
    assert_eq!((shown(&next, at(405)).0, due(&next)), ("NoExecute", vec![("a", 405)]));
    assert_eq!(next.reasons, [Reason::GraceOver(at(400))]);
    // The closing that it is of is the one at which it was found.
    assert_eq!(marked(&node.taints, &node.annotations, None), Some(at(400)));
}

#[test]
fn a_closing_is_remembered_when_it_stood_on_the_node_or_was_written() {
    let mut node = Node::default();
    let mut memory = ClosingMemory::default();
    let first = node.look(reclaim(600), at(0));
    memory.decided(&first);
    assert_eq!(memory.known(), None, "it may not have been written");
    memory.written();
    assert_eq!(memory.known(), first.closing());
    // What was decided about the rest of the node says nothing of it.
    memory.undecided();
    memory.written();
    assert_eq!(memory.known().map(|known| (known.start, known.promised)), Some((at(0), Some(seconds(600)))));
    let over = node.look(reclaim(600), at(600));
    memory.decided(&over);
    assert_eq!(memory.known().and_then(|known| known.since), None);
    memory.written();
    assert_eq!(memory.known().and_then(|known| known.since), Some(at(600)));
    memory.decided(&node.look(Window::Inside, at(700)));
    assert_eq!(memory, ClosingMemory::default());
}

#[test]
fn what_another_client_writes_into_the_annotations_is_reported_and_does_no_harm() {
    for text in ["", "x", "-1", "6e2", "18446744073709551616", "600 "] {
        let node = Node::with(Some(taint(Effect::NoSchedule, Some(0)))).annotated(keys::RECLAIM_GRACE, text);
        let reclaim_now = node.decide(reclaim(300), at(100));
        assert_eq!(reclaim_now.next, Some(at(300)), "{text:?}");
        assert_eq!(reclaim_now.reasons[0], Reason::Unreadable(keys::RECLAIM_GRACE), "{text:?}");
    }
    for text in ["", "now", "2026-03-01"] {
        let node = Node::default().annotated(keys::RECLAIM_STARTED, text);
        let fresh = node.decide(reclaim(300), at(100));
        assert_eq!(shown(&fresh, at(100)), ("NoSchedule", 0, Some(300)), "{text:?}");
        assert_eq!(fresh.reasons[0], Reason::Unreadable(keys::RECLAIM_STARTED), "{text:?}");
        let node = Node::with(Some(taint(Effect::NoExecute, Some(0)))).annotated(keys::RECLAIM_SINCE, text);
        let reclaim_now = node.decide(reclaim(300), at(400));
        assert_eq!(reclaim_now.since, Some(at(400)), "{text:?}");
        assert!(reclaim_now.reasons.contains(&Reason::Unreadable(keys::RECLAIM_SINCE)), "{text:?}");
    }
    let long = Node::with(Some(taint(Effect::NoSchedule, Some(0)))).annotated(keys::RECLAIM_GRACE, "4294967295");
    assert_eq!(long.decide(reclaim(300), at(100)).next, Some(at(4_294_967_295)));
    let longest =
        Node::with(Some(taint(Effect::NoSchedule, Some(0)))).annotated(keys::RECLAIM_GRACE, "18446744073709551615");
    assert_eq!(longest.decide(reclaim(300), at(100)).next, None);
    // An edited effect of the taint is no NoExecute, and of two taints the older one counts.
    let mut edited = Node::with(Some(taint(Effect::PreferNoSchedule, Some(0))));
    edited.taints.push(taint(Effect::NoSchedule, Some(50)));
    assert_eq!(shown(&edited.look(reclaim(300), at(100)), at(100)), ("NoSchedule", 100, Some(200)));
}

#[test]
fn no_time_overflows() {
    let forever = Window::Outside(OnClose::Reclaim { grace: Duration::MAX, via: ReclaimVia::Eviction });
    let reclaim_now = Node::default().decide(forever, at(0));
    assert_eq!((reclaim_now.next, shown(&reclaim_now, at(0)).0), (None, "NoSchedule"));
    for extreme in [Timestamp::MIN, Timestamp::MAX] {
        let extreme_taint = Taint { time_added: Some(extreme), ..taint(Effect::NoSchedule, None) };
        for stepped in [SignedDuration::MIN, SignedDuration::ZERO, SignedDuration::MAX] {
            let mut node = Node { stepped, closed: Some(extreme), ..Node::with(Some(extreme_taint.clone())) };
            for now in [Timestamp::MIN, at(0), Timestamp::MAX] {
                node.look(reclaim(u64::MAX), now);
                node.look(by_eviction(600), now);
            }
        }
    }
}

#[test]
fn a_part_of_a_second_is_not_taken_from_a_grace() {
    let now: Timestamp = "2026-03-01T08:01:00.25Z".parse().unwrap();
    let mut node = Node::default();
    assert_eq!(node.look(reclaim(600), now).taint, WindowTaint::NoSchedule { since: at(1) });
    // It is a moment ahead, and no reason for a line.
    let again = node.look(reclaim(600), now);
    assert_eq!((again.reasons, again.stamp), (vec![Reason::Grace(at(601))], Stamp::Keep));
}

#[test]
fn every_reason_is_a_sentence_without_a_riddle() {
    let reasons = [
        Reason::Inside,
        Reason::NotForced,
        Reason::NoGrace,
        Reason::Grace(at(0)),
        Reason::GraceOver(at(0)),
        Reason::Executing,
        Reason::SecondHalf,
        Reason::Promised { policy: seconds(1), promised: seconds(2) },
        Reason::NoTime,
        Reason::Missing(at(0)),
        Reason::Future(at(0)),
        Reason::Stepped(SignedDuration::from_secs(-7)),
        Reason::MissedOpening(at(0)),
        Reason::Unreadable(keys::RECLAIM_GRACE),
        Reason::SinceNow,
    ];
    let texts: std::collections::BTreeSet<_> = reasons.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), reasons.len());
    assert!(texts.iter().all(|text| text.len() > 30), "{texts:?}");
}
