use super::*;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn node(index: usize) -> NodeName {
    format!("n{index:03}").into()
}

fn delete(index: usize) -> Act {
    Act::DeleteNode(node(index))
}

fn pod(on: usize, index: usize) -> Act {
    Act::RemovePod { node: node(on), pod: format!("u{on}-{index}").into() }
}

const SIZE: Size = Size { nodes: 100, pods: 1000 };

/// Asks for all of them twice, so that what is gathered is judged; the verdicts of the second time.
fn ask(guard: &mut Guard, acts: &[Act], cause: Cause, size: Size, now: u64) -> Vec<Verdict> {
    for act in acts {
        guard.ask(act, cause, &Safety::default(), size, at(now));
    }
    acts.iter().map(|act| guard.ask(act, cause, &Safety::default(), size, at(now) + GATHER)).collect()
}

fn all(verdicts: &[Verdict], verdict: &Verdict) -> bool {
    verdicts.iter().all(|one| one == verdict)
}

#[test]
fn s9_acts_are_gathered_for_5_s_and_happen_within_the_limits() {
    let mut guard = Guard::default();
    let first = guard.ask(&delete(0), Cause::Selector, &Safety::default(), SIZE, at(10));
    assert_eq!(first, Verdict::Gathering { until: at(15) });
    let acts: Vec<Act> = (0..20).map(delete).collect();
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, SIZE, 12), &Verdict::Go), "20 of 100 nodes");
    assert!(guard.held().is_none());
}

#[test]
fn s9_a_batch_above_the_share_of_nodes_is_held_with_its_numbers_and_hash() {
    let mut guard = Guard::default();
    let acts: Vec<Act> = (0..60).flat_map(|on| [delete(on), pod(on, 0)]).collect();
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, SIZE, 0), &Verdict::Held));
    let held = guard.held().unwrap();
    assert_eq!((held.nodes, held.pods, held.size), (60, 60, SIZE));
    assert_eq!(held.broken, [BrokenLimit::Nodes { percent: 20 }]);
    assert_eq!(
        held.to_string(),
        format!(
            "60 of 100 nodes and 60 of 1000 running pods would be taken away: the selector of the binding does not select the \
             node; safety.maxNodesPercent allows 20 %; confirm with hash {}, or take the cause back",
            held.hash
        )
    );
}

#[test]
fn s9_a_batch_says_how_many_of_its_nodes_and_pods_are_gone_already() {
    let four = Size { nodes: 4, pods: 12 };
    let mut guard = Guard::default();
    let first = [delete(0), pod(0, 0), pod(0, 1), pod(0, 2)];
    assert!(all(&ask(&mut guard, &first, Cause::Selector, four, 0), &Verdict::Go), "one node alone is never held");
    for act in &first {
        guard.happened(act, at(6));
    }
    let others: Vec<Act> = (1..4).flat_map(|on| [delete(on), pod(on, 0), pod(on, 1), pod(on, 2)]).collect();
    let left = Size { nodes: 3, pods: 9 };
    assert!(all(&ask(&mut guard, &others, Cause::Selector, left, 60), &Verdict::Held));
    let held = guard.held().unwrap();
    assert_eq!((held.nodes, held.size.nodes, held.spent), (4, 4, Spent { nodes: 1, pods: 3 }));
    let wanted = "4 of 4 nodes and 12 of 12 running pods would be taken away, counting 1 node and 3 pods that went shortly \
                  before: the selector of the binding";
    assert!(held.to_string().starts_with(wanted), "{held}");
}

#[test]
fn s9_of_several_causes_a_batch_says_how_many_writes_each_has() {
    let mut guard = Guard::default();
    let causes = [(Cause::Selector, 0..30), (Cause::Policy, 30..40)];
    // The second time, what the first one gathered is judged.
    for now in [at(0), at(0) + GATHER] {
        for (cause, nodes) in causes.clone() {
            nodes.for_each(|index| _ = guard.ask(&delete(index), cause, &Safety::default(), SIZE, now));
        }
    }
    let held = guard.held().unwrap();
    let wanted = ": the selector of the binding does not select the node (30 of 40 writes), no policy lends the node (10 of 40 \
                  writes); safety.maxNodesPercent";
    assert!(held.to_string().contains(wanted), "{held}");
}

#[test]
fn s9_few_pods_and_a_single_node_are_never_held() {
    let small = Size { nodes: 2, pods: 4 };
    let mut guard = Guard::default();
    let acts = [delete(0), pod(0, 0), pod(0, 1), pod(0, 2), pod(0, 3)];
    assert!(all(&ask(&mut guard, &acts, Cause::Policy, small, 0), &Verdict::Go));
    let mut guard = Guard::default();
    let acts: Vec<Act> = (0..5).map(|index| pod(0, index)).collect();
    let verdicts = ask(&mut guard, &acts, Cause::Policy, Size { nodes: 2, pods: 20 }, 0);
    assert!(all(&verdicts, &Verdict::Held), "5 of 20 pods are more than 20 %");
    assert_eq!(guard.held().unwrap().broken, [BrokenLimit::Pods { percent: 20 }]);
}

#[test]
fn s9_100_percent_switches_a_limit_off() {
    let safety = Safety { max_evict_percent: 100, max_nodes_percent: 100, ..Safety::default() };
    let mut guard = Guard::default();
    for index in 0..100 {
        guard.ask(&delete(index), Cause::Selector, &safety, SIZE, at(0));
    }
    assert_eq!(guard.ask(&delete(0), Cause::Selector, &safety, SIZE, at(5)), Verdict::Go);
}

#[test]
fn s9_what_was_announced_and_what_an_operator_asks_for_is_free_and_does_not_count() {
    let mut guard = Guard::default();
    let announced = |seconds| Cause::WindowClosed { announced: at(seconds) };
    for (cause, verdict) in [
        (Cause::Operator, Verdict::Go),
        (announced(600), Verdict::Go),
        (announced(599), Verdict::Gathering { until: at(5) }),
    ] {
        for index in 0..50 {
            let act = Act::NoExecute(format!("{cause:?}{index}").into());
            assert_eq!(guard.ask(&act, cause, &Safety::default(), SIZE, at(0)), verdict, "{cause:?}");
            if verdict == Verdict::Go {
                guard.happened(&act, at(0));
            }
        }
    }
    assert_eq!(guard.spent(), Spent::default());
}

#[test]
fn s9_a_node_that_is_gone_is_free_while_at_most_a_tenth_went_within_10_minutes() {
    let mut guard = Guard::default();
    let mut gone = |index, now| guard.ask(&delete(index), Cause::NodeGone, &Safety::default(), SIZE, at(now));
    for index in 0..10 {
        assert_eq!(gone(index, 0), Verdict::Go, "{index}");
    }
    assert!(matches!(gone(10, 1), Verdict::Gathering { .. }));
    assert_eq!(gone(3, 2), Verdict::Go, "its other acts are free, too");
    assert_eq!(gone(11, 600), Verdict::Go, "ten minutes later");
    let mut guard = Guard::default();
    let four = Size { nodes: 4, pods: 40 };
    for index in 0..10 {
        assert_eq!(guard.ask(&pod(0, index), Cause::NodeGone, &Safety::default(), four, at(0)), Verdict::Go);
    }
    assert!(matches!(
        guard.ask(&delete(1), Cause::NodeGone, &Safety::default(), four, at(0)),
        Verdict::Gathering { .. }
    ));
}

#[test]
fn s9_a_job_that_takes_nodes_away_one_by_one_is_held_at_the_limit() {
    let mut guard = Guard::default();
    let mut went = 0;
    for index in 0..60 {
        let now = u64::try_from(index).unwrap() * 8;
        let size = Size { nodes: 100 - went, pods: 1000 };
        if ask(&mut guard, &[delete(index)], Cause::Selector, size, now) == [Verdict::Go] {
            guard.happened(&delete(index), at(now + 6));
            went += 1;
        }
    }
    assert_eq!(went, 20);
    assert_eq!(guard.held().unwrap().size.nodes, 100, "what went counts");
}

#[test]
fn s9_time_alone_releases_nothing() {
    let mut guard = Guard::default();
    let first: Vec<Act> = (0..15).map(delete).collect();
    assert!(all(&ask(&mut guard, &first, Cause::Selector, SIZE, 0), &Verdict::Go));
    first.iter().for_each(|act| guard.happened(act, at(6)));
    let more: Vec<Act> = (20..30).map(delete).collect();
    let left = Size { nodes: 85, pods: 1000 };
    assert!(all(&ask(&mut guard, &more, Cause::Selector, left, 10), &Verdict::Held));
    assert!(guard.review(&Safety::default(), left, at(5_000)).is_some(), "15 went, but that was 80 minutes ago");
    assert!(all(&ask(&mut guard, &more, Cause::Selector, left, 6_000), &Verdict::Held));
    assert!(guard.review(&Safety::default(), Size { nodes: 500, pods: 1000 }, at(6_000)).is_some(), "the binding grew");
}

#[test]
fn s9_a_machine_that_is_gone_and_held_is_not_released_when_the_others_that_went_are_forgotten() {
    let mut guard = Guard::default();
    let five = Size { nodes: 5, pods: 5 };
    let mut gone = |index, now| guard.ask(&delete(index), Cause::NodeGone, &Safety::default(), five, at(now));
    assert_eq!(gone(0, 0), Verdict::Go, "one is free");
    for index in [1, 2] {
        assert!(matches!(gone(index, 10), Verdict::Gathering { .. }), "{index}");
    }
    for now in [15, 700, 86_400] {
        assert_eq!([1, 2].map(|index| gone(index, now)), [Verdict::Held, Verdict::Held], "{now}");
    }
    // Another cause is judged afresh.
    assert_eq!(guard.ask(&delete(1), Cause::Operator, &Safety::default(), five, at(86_400)), Verdict::Go);
}

#[test]
fn s9_what_was_under_way_when_a_batch_was_held_counts_against_it_for_as_long_as_it_is_held() {
    let four = Size { nodes: 4, pods: 40 };
    let mut guard = Guard::default();
    assert_eq!(ask(&mut guard, &[delete(0)], Cause::Selector, four, 0), [Verdict::Go]);
    assert_eq!(ask(&mut guard, &[delete(1)], Cause::Selector, four, 10), [Verdict::Held]);
    guard.happened(&delete(0), at(20));
    // Ten minutes later another act comes, and all that waits is judged again.
    assert_eq!(ask(&mut guard, &[pod(3, 0)], Cause::Orphan, four, 700), [Verdict::Held]);
    assert_eq!(ask(&mut guard, &[delete(1)], Cause::Selector, four, 710), [Verdict::Held]);
}

#[test]
fn s9_s10_what_happened_is_the_same_act_for_as_long_as_it_is_asked_for_and_counts_once() {
    // Four nodes: one may go, and it is asked for until its finalizer is gone.
    let four = Size { nodes: 4, pods: 4 };
    let acts = [delete(0), pod(0, 0)];
    let mut guard = Guard::default();
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, four, 0), &Verdict::Go));
    for act in &acts {
        guard.happened(act, at(6));
    }
    for now in [7, 12, 60, 900] {
        for act in &acts {
            assert_eq!(guard.ask(act, Cause::Selector, &Safety::default(), four, at(now)), Verdict::Go, "{now}");
        }
    }
    assert!(guard.held().is_none());
    // One that is wanted again after it was withdrawn is another one.
    guard.withdraw(&delete(0));
    let again = guard.ask(&delete(0), Cause::Selector, &Safety::default(), four, at(901));
    assert_eq!(again, Verdict::Gathering { until: at(906) });
}

#[test]
fn s9_a_batch_that_was_confirmed_needs_no_second_confirmation_while_it_is_carried_out() {
    let four = Size { nodes: 4, pods: 4 };
    let acts: Vec<Act> = (0..4).map(delete).collect();
    let mut guard = Guard::default();
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, four, 0), &Verdict::Held));
    let hash = guard.held().unwrap().hash.clone();
    assert_eq!(guard.confirm(&hash), Ok(4));
    acts.iter().for_each(|act| guard.happened(act, at(20)));
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, four, 30), &Verdict::Go));
    assert_eq!((guard.held(), guard.spent()), (None, Spent::default()));
}

#[test]
fn s9_what_is_held_goes_when_its_cause_goes() {
    let mut guard = Guard::default();
    let acts: Vec<Act> = (0..30).map(delete).collect();
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, SIZE, 0), &Verdict::Held));
    for act in acts.iter().skip(10) {
        guard.withdraw(act);
    }
    assert!(guard.review(&Safety::default(), SIZE, at(10)).is_none());
    assert_eq!(guard.ask(&delete(0), Cause::Selector, &Safety::default(), SIZE, at(10)), Verdict::Go);
    assert_eq!(
        guard.ask(&delete(11), Cause::Selector, &Safety::default(), SIZE, at(10)),
        Verdict::Gathering { until: at(15) }
    );
}

#[test]
fn s9_a_held_act_that_did_not_happen_stays_in_its_batch_whatever_else_happens_to_its_node() {
    let ten = Size { nodes: 10, pods: 100 };
    let unannounced = Cause::WindowClosed { announced: Duration::ZERO };
    let acts: Vec<Act> = (1..=3).map(|index| Act::NoExecute(node(index))).collect();
    let mut guard = Guard::default();
    assert!(all(&ask(&mut guard, &acts, unannounced, ten, 0), &Verdict::Held));
    guard.happened(&acts[0], at(6));
    assert_eq!(guard.review(&Safety::default(), ten, at(7)).unwrap().nodes, 3);
    assert!(all(&ask(&mut guard, &acts, unannounced, ten, 10), &Verdict::Held));
    assert_eq!(guard.spent(), Spent::default());
}

#[test]
fn s9_confirming_releases_exactly_what_was_shown() {
    let mut guard = Guard::default();
    let acts: Vec<Act> = (0..30).map(delete).collect();
    ask(&mut guard, &acts, Cause::Selector, SIZE, 0);
    let shown = guard.held().unwrap().hash.clone();
    assert_eq!(
        guard.confirm("beef").unwrap_err().to_string(),
        format!("hash beef confirms nothing: the held batch has hash {shown}")
    );
    // Another node comes to it while the operator reads, and one of the first is not wanted any more.
    assert!(all(&ask(&mut guard, &[delete(99)], Cause::Selector, SIZE, 10), &Verdict::Held));
    guard.withdraw(&delete(0));
    assert_ne!(guard.held().unwrap().hash, shown);
    assert_eq!(guard.confirm(&shown), Ok(29));
    assert_eq!(guard.ask(&delete(5), Cause::Selector, &Safety::default(), SIZE, at(20)), Verdict::Go);
    assert_eq!(guard.ask(&delete(99), Cause::Selector, &Safety::default(), SIZE, at(20)), Verdict::Held);
    guard.happened(&delete(5), at(21));
    assert_eq!(guard.spent(), Spent::default(), "a person took the responsibility for it");
    assert!(guard.confirm(&shown).is_err(), "once");
}

/// Reviews after each second, from this one on, while acts are withdrawn one by one.
fn withdraw_one_by_one(guard: &mut Guard, acts: &[Act], from: u64) {
    for (now, act) in (from..).zip(acts) {
        guard.withdraw(act);
        guard.review(&Safety::default(), SIZE, at(now));
    }
}

#[test]
fn s9_a_batch_that_only_becomes_smaller_keeps_the_hash_that_a_person_has_read() {
    let mut guard = Guard::default();
    let acts: Vec<Act> = (0..30).map(delete).collect();
    ask(&mut guard, &acts, Cause::Selector, SIZE, 0);
    let first = guard.held().unwrap().hash.clone();
    withdraw_one_by_one(&mut guard, &acts[..9], 10);
    let held = guard.held().unwrap();
    assert_eq!((&held.hash, held.nodes, guard.earlier()), (&first, 21, vec![]));
    // Hours later too.
    guard.review(&Safety::default(), SIZE, at(90_000));
    assert_eq!(guard.confirm(&first), Ok(21));
    assert_eq!(guard.held(), None);
}

#[test]
fn s9_what_came_to_a_batch_has_another_hash_and_for_ten_minutes_the_earlier_one_confirms_what_it_showed() {
    let (mut guard, _) = holding(30);
    let first = guard.held().unwrap().hash.clone();
    assert!(all(&ask(&mut guard, &[delete(99)], Cause::Selector, SIZE, 10), &Verdict::Held));
    let second = guard.held().unwrap().hash.clone();
    // Pods end while a person reads.
    withdraw_one_by_one(&mut guard, &(0..20).map(|on| pod(on, 0)).collect::<Vec<_>>(), 20);
    assert_eq!((&guard.held().unwrap().hash, guard.earlier()), (&second, vec![first.clone()]));
    let mut later = guard.clone();
    assert_eq!(guard.confirm(&first), Ok(40));
    assert_eq!(guard.ask(&delete(99), Cause::Selector, &Safety::default(), SIZE, at(41)), Verdict::Held);
    assert_eq!(guard.earlier(), [""; 0]);
    // Ten minutes later another person has read the second one, or nothing.
    later.review(&Safety::default(), SIZE, at(700));
    assert_eq!((later.earlier(), later.confirm(&first).is_err()), (vec![], true));
    assert_eq!(later.confirm(&second), Ok(41));
}

#[test]
fn s9_an_act_that_goes_and_comes_again_is_confirmed_with_the_hash_that_it_came_with() {
    let (mut guard, _) = holding(30);
    let first = guard.held().unwrap().hash.clone();
    withdraw_one_by_one(&mut guard, &[pod(0, 0)], 10);
    assert_eq!(guard.held().unwrap().hash, first);
    ask(&mut guard, &[delete(99), pod(0, 0)], Cause::Selector, SIZE, 20);
    let second = guard.held().unwrap().hash.clone();
    assert_ne!(second, first);
    assert_eq!(guard.confirm(&first), Ok(59));
    assert_eq!(guard.confirm(&second), Ok(2));
}

#[test]
fn s9_of_the_batches_that_others_took_the_place_of_the_newest_are_known() {
    let mut guard = Guard::default();
    for index in 0..2 * MOST_SHOWN {
        let acts: Vec<Act> = (0..30).map(|on| pod(on, index)).collect();
        ask(&mut guard, &acts, Cause::Orphan, Size { nodes: 100, pods: 60 }, 6 * index as u64 / 10);
        guard.review(&Safety::default(), Size { nodes: 100, pods: 60 }, at(6 * index as u64 / 10 + 5));
    }
    let earlier = guard.earlier();
    assert_eq!(earlier.len(), MOST_SHOWN - 1);
    assert_eq!(guard.confirm(&earlier[0]), Ok(30 * (2 * MOST_SHOWN - 1)));
}

/// Acts that the guard allowed, of which nothing has happened.
fn allowed(acts: &[Act]) -> Guard {
    let mut guard = Guard::default();
    assert!(all(&ask(&mut guard, acts, Cause::Selector, SIZE, 0), &Verdict::Go));
    guard
}

#[test]
fn s9_a_batch_that_was_allowed_goes_on_after_a_restart_and_counts_once() {
    let acts: Vec<Act> = (0..15).flat_map(|on| [delete(on), pod(on, 0)]).collect();
    let guard = allowed(&acts);
    let mut next = Guard::inherit(guard.left(), at(100));
    for act in &acts {
        assert_eq!(next.ask(act, Cause::Selector, &Safety::default(), SIZE, at(101)), Verdict::Go, "{act:?}");
    }
    assert_eq!((next.spent(), next.committed()), (Spent::default(), Spent { nodes: 15, pods: 15 }));
    // Five more are within the limits, and six are not; also when all of it has happened.
    let more: Vec<Act> = (50..56).map(delete).collect();
    assert!(all(&ask(&mut next.clone(), &more[..5], Cause::Selector, SIZE, 102), &Verdict::Go));
    assert!(all(&ask(&mut next.clone(), &more, Cause::Selector, SIZE, 102), &Verdict::Held));
    acts.iter().for_each(|act| next.happened(act, at(300)));
    assert_eq!(next.spent(), Spent { nodes: 15, pods: 15 });
    let left = Size { nodes: 85, pods: 985 };
    assert!(all(&ask(&mut next, &more, Cause::Selector, left, 890), &Verdict::Held), "for ten minutes");
    assert_eq!((guard.left().spent, next.committed()), (Spent { nodes: 15, pods: 15 }, Spent { nodes: 15, pods: 15 }));
}

#[test]
fn s9_the_rest_of_a_confirmed_batch_goes_on_after_a_restart_and_does_not_count() {
    let (mut guard, acts) = holding(60);
    let hash = guard.held().unwrap().hash.clone();
    assert_eq!(guard.confirm(&hash), Ok(120));
    // The first twenty are gone, and are not asked for any more.
    for act in &acts[..40] {
        guard.happened(act, at(20));
        guard.withdraw(act);
    }
    // Two processes, one after the other, and the first of them asks for nothing.
    let mut next = Guard::inherit(Guard::inherit(guard.left(), at(100)).left(), at(110));
    for act in &acts[40..] {
        assert_eq!(next.ask(act, Cause::Selector, &Safety::default(), SIZE, at(2_000)), Verdict::Go, "{act:?}");
    }
    assert_eq!((next.held(), next.committed()), (None, Spent::default()));
    // What is gone was not confirmed a second time, and neither is a pod that came since.
    for act in [&acts[0], &pod(30, 1)] {
        let verdict = next.ask(act, Cause::Selector, &Safety::default(), SIZE, at(2_001));
        assert_eq!(verdict, Verdict::Gathering { until: at(2_006) }, "{act:?}");
    }
}

#[test]
fn s9_what_an_earlier_process_allowed_allows_no_other_act_of_the_same_node() {
    let execute = Act::NoExecute(node(0));
    let mut guard = allowed(&[execute.clone(), pod(0, 0)]);
    guard.happened(&execute, at(6));
    let mut next = Guard::inherit(guard.left(), at(10));
    let mut ask = |act: &Act| next.ask(act, Cause::Selector, &Safety::default(), SIZE, at(10));
    assert!(matches!(ask(&delete(0)), Verdict::Gathering { .. }), "a node that is emptied is not deleted");
    assert_eq!([ask(&execute), ask(&pod(0, 0))], [Verdict::Go, Verdict::Go], "its taint stands there");
    assert!(matches!(ask(&pod(0, 1)), Verdict::Gathering { .. }), "there was one pod");
    assert_eq!(next.committed(), Spent { nodes: 1, pods: 1 });
}

#[test]
fn s9_what_an_earlier_process_allowed_and_is_not_wanted_any_more_counts_and_is_judged_when_it_is_wanted_again() {
    let acts: Vec<Act> = (0..15).map(delete).collect();
    let left = allowed(&acts).left();
    let twelve = |guard: &mut Guard, now| ask(guard, &acts[..12], Cause::Selector, SIZE, now);
    // A node was decided about, and all of them were.
    let mut next = Guard::inherit(left.clone(), at(100));
    (0..15).for_each(|index| next.decided(&node(index)));
    assert_eq!(next.committed().nodes, 15, "it may have happened");
    assert!(all(&twelve(&mut next, 101), &Verdict::Held));
    let mut next = Guard::inherit(left.clone(), at(100));
    next.recalled(&Safety::default(), SIZE, at(101));
    assert!(all(&twelve(&mut next, 101), &Verdict::Held));
    // It was asked for and withdrawn.
    let mut next = Guard::inherit(left.clone(), at(100));
    assert!(all(&twelve(&mut next, 101), &Verdict::Go));
    acts.iter().for_each(|act| next.withdraw(act));
    assert_eq!(next.committed().nodes, 15);
    assert!(all(&twelve(&mut next, 120), &Verdict::Held));
    // Ten minutes after the restart none of that counts.
    let mut next = Guard::inherit(left, at(100));
    next.review(&Safety::default(), SIZE, at(700));
    assert_eq!((next.committed(), next.is_incomplete()), (Spent::default(), false));
    let first = next.ask(&acts[0], Cause::Selector, &Safety::default(), SIZE, at(701));
    assert_eq!(first, Verdict::Gathering { until: at(706) });
}

#[test]
fn s9_an_orphan_that_was_allowed_is_not_struck_when_its_node_is_decided_about_and_counts_once() {
    let orphan = Act::RemoveOrphan { node: node(0), pod: "o".into() };
    let guard = allowed(&[orphan.clone(), pod(0, 0)]);
    let mut next = Guard::inherit(guard.left(), at(100));
    next.decided(&node(0));
    let mut ask = |act: &Act| next.ask(act, Cause::Orphan, &Safety::default(), SIZE, at(130));
    assert!(matches!(ask(&pod(0, 0)), Verdict::Gathering { .. }), "it was not asked for with its node");
    assert_eq!(ask(&orphan), Verdict::Go);
    next.withdraw(&pod(0, 0));
    assert_eq!(next.committed(), Spent { nodes: 0, pods: 2 });
    // Once everything was decided about it is not wanted any more.
    let mut next = Guard::inherit(guard.left(), at(100));
    next.recalled(&Safety::default(), SIZE, at(200));
    assert_eq!((next.grants(), next.committed()), (vec![], Spent { nodes: 0, pods: 2 }));
}

#[test]
fn s9_s25_after_a_restore_what_was_confirmed_or_left_is_judged_again_and_what_this_process_allowed_is_not() {
    let mut guard = Guard::inherit(allowed(&[delete(0), delete(1)]).left(), at(100));
    let first = guard.ask(&delete(0), Cause::Selector, &Safety::default(), SIZE, at(100));
    assert_eq!(first, Verdict::Go, "it was left, and the other one is not asked for yet");
    let ours: Vec<Act> = (10..13).map(delete).collect();
    assert!(all(&ask(&mut guard, &ours, Cause::Selector, SIZE, 101), &Verdict::Go));
    guard.happened(&ours[0], at(110));
    let acts: Vec<Act> = (20..60).map(delete).collect();
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, SIZE, 120), &Verdict::Held));
    let hash = guard.held().unwrap().hash.clone();
    assert_eq!(guard.confirm(&hash), Ok(40));
    guard.forget_grants();
    assert_eq!(guard.committed(), Spent { nodes: 5, pods: 0 }, "what was left may have happened");
    for act in &ours {
        assert_eq!(guard.ask(act, Cause::Selector, &Safety::default(), SIZE, at(130)), Verdict::Go, "{act:?}");
    }
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, SIZE, 130), &Verdict::Held));
    assert_eq!(ask(&mut guard, &[delete(1)], Cause::Selector, SIZE, 140), [Verdict::Held]);
}

#[test]
fn s9_a_restart_does_not_give_the_limits_anew() {
    let mut guard = Guard::default();
    let acts: Vec<Act> = (0..20).map(delete).collect();
    ask(&mut guard, &acts, Cause::Selector, SIZE, 0);
    acts.iter().for_each(|act| guard.happened(act, at(6)));
    assert_eq!(guard.spent(), Spent { nodes: 20, pods: 0 });
    let left = Size { nodes: 80, pods: 1000 };
    let mut next = Guard::inherit(guard.spent(), at(100));
    assert_eq!(ask(&mut next, &[delete(30)], Cause::Selector, left, 100), [Verdict::Held]);
    let mut later = Guard::inherit(guard.spent(), at(100));
    assert_eq!(ask(&mut later, &[delete(30)], Cause::Selector, left, 700), [Verdict::Go]);
}

/// A guard that holds the deletion of so many of 100 nodes, with a pod of each, and those acts.
fn holding(nodes: usize) -> (Guard, Vec<Act>) {
    let mut guard = Guard::default();
    let acts: Vec<Act> = (0..nodes).flat_map(|on| [delete(on), pod(on, 0)]).collect();
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, SIZE, 0), &Verdict::Held));
    (guard, acts)
}

#[test]
fn s9_a_batch_that_was_held_is_held_after_a_restart_with_the_same_hash_until_it_is_confirmed() {
    let (guard, acts) = holding(30);
    let hash = guard.held().unwrap().hash.clone();
    let mut next = Guard::inherit(guard.left(), at(5_000));
    // Nodes are decided about one by one, over hours if it must be. Each single one is within the limits.
    for (index, act) in acts.iter().enumerate() {
        let now = at(5_000 + 600 * index as u64);
        assert_eq!(next.ask(act, Cause::Selector, &Safety::default(), SIZE, now), Verdict::Held, "{index}");
        assert_eq!(next.review(&Safety::default(), SIZE, now).unwrap().hash, hash);
        assert!(next.confirm(&hash).is_err(), "it is not known yet what is confirmed");
    }
    let held = next.recalled(&Safety::default(), SIZE, at(90_000)).unwrap();
    assert_eq!((held.hash.as_str(), held.nodes, held.pods, held.size), (hash.as_str(), 30, 30, SIZE));
    assert!(!next.is_recalling());
    assert!(all(&ask(&mut next, &acts, Cause::Selector, SIZE, 90_001), &Verdict::Held));
    assert_eq!(next.confirm(&hash), Ok(60));
    assert!(all(&ask(&mut next, &acts, Cause::Selector, SIZE, 90_002), &Verdict::Go));
}

#[test]
fn s9_a_restart_releases_no_batch_whose_numbers_would_be_legal_by_now() {
    let mut guard = Guard::default();
    let first: Vec<Act> = (0..15).map(delete).collect();
    assert!(all(&ask(&mut guard, &first, Cause::Selector, SIZE, 0), &Verdict::Go));
    first.iter().for_each(|act| guard.happened(act, at(6)));
    let more: Vec<Act> = (20..30).map(delete).collect();
    let left = Size { nodes: 85, pods: 1000 };
    assert!(all(&ask(&mut guard, &more, Cause::Selector, left, 10), &Verdict::Held));
    // 80 minutes later the fifteen are not spent any more, and the binding is larger: alone, ten of 500 would be few.
    let mut next = Guard::inherit(Inherited { spent: Spent::default(), ..guard.left() }, at(5_000));
    let grown = Size { nodes: 500, pods: 1000 };
    assert!(all(&ask(&mut next, &more, Cause::Selector, grown, 5_000), &Verdict::Held));
    let held = next.recalled(&Safety::default(), grown, at(5_010)).unwrap();
    assert_eq!((held.nodes, held.size.nodes, held.spent.nodes), (25, 100, 15));
}

#[test]
fn s9_after_a_restart_a_batch_goes_when_its_cause_has_gone() {
    let (guard, acts) = holding(30);
    let mut next = Guard::inherit(guard.left(), at(100));
    assert_eq!(next.recalled(&Safety::default(), SIZE, at(110)), None, "every node was decided about, and none goes");
    assert!(matches!(
        next.ask(&acts[0], Cause::Selector, &Safety::default(), SIZE, at(120)),
        Verdict::Gathering { .. }
    ));
    // A part of it that is small enough alone is no batch to hold.
    let mut part = Guard::inherit(guard.left(), at(100));
    assert!(all(&ask(&mut part, &acts[..20], Cause::Selector, SIZE, 100), &Verdict::Held));
    assert_eq!(part.recalled(&Safety::default(), SIZE, at(110)), None);
    assert_eq!(part.ask(&acts[0], Cause::Selector, &Safety::default(), SIZE, at(111)), Verdict::Go);
}

#[test]
fn s9_what_is_free_is_free_while_an_earlier_batch_is_recalled() {
    let (guard, _) = holding(30);
    let mut next = Guard::inherit(guard.left(), at(100));
    let operator = next.ask(&delete(90), Cause::Operator, &Safety::default(), SIZE, at(100));
    assert_eq!(operator, Verdict::Go);
    let before = next.held().unwrap().to_string();
    assert!(before.starts_with("30 of 100 nodes and 30 of 1000 running pods would be taken away; confirm"), "{before}");
}

#[test]
fn s9_what_may_happen_already_is_left_as_spent_to_the_process_that_takes_over() {
    let mut guard = Guard::default();
    let acts: Vec<Act> = (0..20).map(delete).collect();
    assert!(all(&ask(&mut guard, &acts, Cause::Selector, SIZE, 0), &Verdict::Go));
    guard.happened(&acts[0], at(6));
    assert_eq!((guard.spent().nodes, guard.committed().nodes), (1, 20));
    let mut next = Guard::inherit(guard.left(), at(7));
    let left = Size { nodes: 80, pods: 1000 };
    assert_eq!(ask(&mut next, &[delete(50)], Cause::Selector, left, 7), [Verdict::Held]);
}

#[test]
fn what_is_under_way_stays_allowed_when_more_is_held() {
    let mut guard = Guard::default();
    let first: Vec<Act> = (0..20).map(delete).collect();
    assert!(all(&ask(&mut guard, &first, Cause::Selector, SIZE, 0), &Verdict::Go));
    assert_eq!(ask(&mut guard, &[delete(50)], Cause::Selector, SIZE, 10), [Verdict::Held]);
    assert!(all(&ask(&mut guard, &first, Cause::Selector, SIZE, 20), &Verdict::Go));
}

#[test]
fn a_large_batch_is_judged_in_one_go() {
    let size = Size { nodes: 1000, pods: 30_000 };
    let mut guard = Guard::default();
    let acts: Vec<Act> = (0..1000).flat_map(|on| (0..30).map(move |index| pod(on, index))).collect();
    assert!(all(&ask(&mut guard, &acts, Cause::Policy, size, 0), &Verdict::Held));
    let hash = guard.held().unwrap().hash.clone();
    assert_eq!(guard.confirm(&hash), Ok(30_000));
}

#[test]
fn every_cause_has_a_word_of_its_own() {
    let all = [
        Cause::WindowClosed { announced: at(1) },
        Cause::Operator,
        Cause::NodeGone,
        Cause::NodeTerminating,
        Cause::Selector,
        Cause::Policy,
        Cause::BindingDeleted,
        Cause::Orphan,
        Cause::DeletedByOthers,
        Cause::Claimed,
    ];
    assert_eq!(all.map(Cause::word), Cause::WORDS);
    assert_eq!(BTreeSet::from(Cause::WORDS).len(), all.len());
}
