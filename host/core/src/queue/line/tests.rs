use super::super::{Backoff, Bucket};
use super::*;

const MS: Duration = Duration::from_millis(1);
const ZERO: Duration = Duration::ZERO;

fn queue(capacity: usize) -> Queue<&'static str> {
    Queue::new(NonZeroUsize::new(capacity).unwrap(), Limiter::default())
}

/// Takes every key that is ready and ends its work at once.
fn served<K: Ord + Clone>(queue: &mut Queue<K>, now: Duration) -> Vec<K> {
    let mut keys = Vec::new();
    while let Next::Take(key) = queue.next(now) {
        queue.done(&key, now);
        keys.push(key);
    }
    keys
}

/// A worker that always fails: the times of its tries, and the outcome of the key.
fn tries(requeue: Requeue, most: usize) -> (Vec<Duration>, bool) {
    let mut queue = queue(1);
    queue.add("a", ZERO).unwrap();
    let (mut now, mut times) = (ZERO, Vec::new());
    while times.len() < most {
        match queue.next(now) {
            Next::Take(key) => {
                times.push(now);
                if queue.failed(&key, requeue, now) == RetryVerdict::Dropped {
                    return (times, true);
                }
            }
            Next::Wait(Some(at)) => now = at,
            other => panic!("{other:?}"),
        }
    }
    (times, false)
}

#[test]
fn bx_1_with_two_retries_there_are_three_tries_and_the_third_drops() {
    assert_eq!(tries(Requeue::of_flag(2), 100), (vec![ZERO, 5 * MS, 15 * MS], true));
}

#[test]
fn bx_2_without_a_limit_nothing_is_dropped_and_the_pauses_grow_to_a_thousand_seconds() {
    let (times, dropped) = tries(Requeue::of_flag(-1), 60);
    assert!(!dropped);
    let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses[17], Duration::from_millis(655_360));
    assert!(pauses[18..].iter().all(|pause| *pause == Duration::from_secs(1000)), "{pauses:?}");
}

#[test]
fn bx_3_by_default_there_are_sixteen_tries_within_the_sum_of_the_pauses() {
    let (times, dropped) = tries(Requeue::default(), 100);
    assert_eq!((times.len(), times.last().copied(), dropped), (16, Some(Duration::from_millis(163_835)), true));
}

#[test]
fn with_no_retry_the_first_failure_drops() {
    assert_eq!(tries(Requeue::of_flag(0), 100), (vec![ZERO], true));
}

#[test]
fn bx_4_of_250_keys_that_fail_at_once_the_bucket_spreads_all_but_a_hundred() {
    let mut queue = Queue::new(NonZeroUsize::new(250).unwrap(), Limiter::default());
    for key in 0..250 {
        queue.add(key, ZERO).unwrap();
    }
    let pauses: Vec<RetryVerdict> = (0..250)
        .map(|_| {
            let Next::Take(key) = queue.next(ZERO) else { panic!("a key is missing") };
            queue.failed(&key, Requeue::default(), ZERO)
        })
        .collect();
    assert!(pauses[..100].iter().all(|verdict| *verdict == RetryVerdict::AgainAfter(5 * MS)), "{pauses:?}");
    assert_eq!(pauses[100], RetryVerdict::AgainAfter(100 * MS));
    assert_eq!(pauses[249], RetryVerdict::AgainAfter(15_000 * MS));
    assert_eq!(served(&mut queue, 5 * MS).len(), 100);
    assert_eq!(served(&mut queue, 14_999 * MS).len(), 149);
    assert_eq!(served(&mut queue, 15_000 * MS), [249]);
}

#[test]
fn a_key_is_once_in_the_queue_and_keeps_its_place() {
    let mut queue = queue(3);
    assert_eq!(queue.add("a", ZERO), Ok(Added::Queued));
    assert_eq!(queue.add("b", ZERO), Ok(Added::Queued));
    assert_eq!(queue.add("a", ZERO), Ok(Added::Known));
    assert_eq!(served(&mut queue, ZERO), ["a", "b"]);
    assert_eq!(queue.counts(), QueueCounts { adds: 2, ..QueueCounts::default() });
}

#[test]
fn r7_a_key_added_while_it_is_worked_on_is_queued_again_when_that_is_done() {
    let mut queue = queue(3);
    queue.add("a", ZERO).unwrap();
    assert_eq!(queue.next(ZERO), Next::Take("a"));
    assert_eq!(queue.add("a", ZERO), Ok(Added::Queued));
    assert_eq!(queue.add("a", ZERO), Ok(Added::Known));
    assert_eq!(queue.next(ZERO), Next::Wait(None), "never two workers on one key");
    queue.add("b", ZERO).unwrap();
    queue.done(&"a", ZERO);
    assert_eq!(served(&mut queue, ZERO), ["b", "a"]);
}

#[test]
fn of_two_times_the_earlier_counts() {
    let mut queue = queue(3);
    queue.add_after("a", 20 * MS, ZERO).unwrap();
    queue.add_after("b", 15 * MS, ZERO).unwrap();
    assert_eq!(queue.add_after("a", 10 * MS, ZERO), Ok(Added::Queued));
    assert_eq!(queue.add_after("a", 30 * MS, ZERO), Ok(Added::Known));
    assert_eq!(queue.next(9 * MS), Next::Wait(Some(10 * MS)));
    assert_eq!(served(&mut queue, 40 * MS), ["a", "b"]);
    assert_eq!(queue.next(40 * MS), Next::Wait(None));
}

#[test]
fn a_key_too_many_is_refused_and_counted_and_the_others_stay() {
    let mut queue = queue(2);
    queue.add("a", ZERO).unwrap();
    queue.add_after("b", MS, ZERO).unwrap();
    assert_eq!(queue.add("c", ZERO), Err(NotAdded::Full));
    assert_eq!(queue.add_after("c", MS, ZERO), Err(NotAdded::Full));
    assert_eq!(queue.add_rate_limited("c", ZERO), Err(NotAdded::Full));
    assert_eq!(queue.counts().refusals, 3);
    assert_eq!(queue.add("b", ZERO), Ok(Added::Queued), "what is known needs no room");
    assert_eq!(served(&mut queue, ZERO), ["a", "b"]);
    assert_eq!(queue.add("c", ZERO), Ok(Added::Queued), "there is room again");
    assert_eq!(queue.add("a", ZERO), Err(NotAdded::Full), "the other is still to come");
}

#[test]
fn a_count_of_failures_takes_no_room_from_a_key() {
    let mut queue = queue(1);
    queue.add_rate_limited("a", ZERO).unwrap();
    assert_eq!(served(&mut queue, 5 * MS), ["a"]);
    assert_eq!(queue.requeues(&"a"), 1, "it was not forgotten");
    queue.add("b", 5 * MS).unwrap();
    assert_eq!(queue.requeues(&"a"), 0);
    assert_eq!(served(&mut queue, 5 * MS), ["b"]);
}

#[test]
fn r8_a_dropped_key_is_known_counts_anew_and_is_revived_once() {
    let mut queue = queue(2);
    queue.add("a", ZERO).unwrap();
    queue.add("b", ZERO).unwrap();
    for key in ["a", "b"] {
        assert_eq!(queue.next(ZERO), Next::Take(key));
        assert_eq!(queue.failed(&key, Requeue::of_flag(0), ZERO), RetryVerdict::Dropped);
    }
    assert_eq!(queue.next(ZERO), Next::Wait(None));
    assert_eq!((queue.counts().dropped_now, queue.counts().drops), (2, 2));
    assert_eq!(queue.add("c", ZERO), Err(NotAdded::Full), "a dropped key is not lost for another");
    queue.add("b", ZERO).unwrap();
    assert_eq!((queue.revive(ZERO), queue.revive(ZERO)), (1, 0));
    assert_eq!(queue.requeues(&"a"), 0);
    assert_eq!(served(&mut queue, ZERO), ["b", "a"]);
    assert_eq!(queue.counts().dropped_now, 0);
}

#[test]
fn r9_retries_count_for_the_key_however_often_it_is_asked_for() {
    let (mut queue, mut now, mut tries) = (queue(1), ZERO, 0);
    queue.add("a", ZERO).unwrap();
    loop {
        match queue.next(now) {
            Next::Take(key) => {
                tries += 1;
                // Another caller asks again while it is worked on.
                queue.add(key, now).unwrap();
                if queue.failed(&key, Requeue::of_flag(2), now) == RetryVerdict::Dropped {
                    break;
                }
            }
            Next::Wait(Some(at)) => now = at,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((tries, queue.requeues(&"a")), (3, 0));
}

#[test]
fn r8_a_drop_does_not_lose_a_key_that_was_added_meanwhile() {
    let mut queue = queue(1);
    queue.add("a", ZERO).unwrap();
    assert_eq!(queue.next(ZERO), Next::Take("a"));
    queue.add("a", ZERO).unwrap();
    assert_eq!(queue.failed(&"a", Requeue::of_flag(0), ZERO), RetryVerdict::Dropped);
    assert_eq!(served(&mut queue, ZERO), ["a"]);
    assert_eq!(queue.revive(ZERO), 0);
}

#[test]
fn after_shutdown_waiting_keys_are_served_and_later_ones_are_returned() {
    let mut queue = queue(9);
    for key in ["a", "b"] {
        queue.add(key, ZERO).unwrap();
    }
    queue.add_after("c", MS, ZERO).unwrap();
    assert_eq!(queue.next(ZERO), Next::Take("a"));
    queue.add("a", ZERO).unwrap();
    assert_eq!(queue.shut_down(ZERO), ["c"]);
    assert_eq!(queue.add("d", ZERO), Err(NotAdded::Closed));
    assert_eq!(queue.add_after("d", MS, ZERO), Err(NotAdded::Closed));
    assert_eq!(queue.next(ZERO), Next::Take("b"));
    assert_eq!(queue.failed(&"b", Requeue::UNLIMITED, ZERO), RetryVerdict::Closed);
    assert_eq!(queue.next(ZERO), Next::Closed);
    assert!(!queue.is_drained(), "one is still worked on");
    queue.done(&"a", ZERO);
    assert_eq!(served(&mut queue, ZERO), ["a"]);
    assert!(queue.is_drained());
}

#[test]
fn the_times_of_running_work_are_counted() {
    let mut queue = queue(2);
    queue.add("a", ZERO).unwrap();
    queue.add("b", ZERO).unwrap();
    queue.next(ZERO);
    queue.next(10 * MS);
    assert_eq!(queue.running(15 * MS), RunningWork { longest: 15 * MS, total: 20 * MS });
    queue.done(&"a", 15 * MS);
    assert_eq!(queue.running(16 * MS), RunningWork { longest: 6 * MS, total: 6 * MS });
}

#[test]
fn limits_are_those_of_the_arguments() {
    let limiter = Limiter::new(Backoff::new(MS, 3 * MS), Bucket::new(MS, 100));
    let mut queue = Queue::new(NonZeroUsize::MIN, limiter);
    let pauses: Vec<_> = (0..4).map(|_| queue.add_rate_limited("a", ZERO).unwrap()).collect();
    assert_eq!(pauses, [MS, 2 * MS, 3 * MS, 3 * MS]);
    queue.forget(&"a");
    assert_eq!(queue.add_rate_limited("a", ZERO), Ok(MS));
}

#[test]
fn work_that_succeeds_ends_the_time_that_was_set_before_it_and_not_one_that_was_set_meanwhile() {
    let mut queue = queue(9);
    for key in ["window", "gone", "retried", "meanwhile"] {
        queue.add_after(key, 1000 * MS, ZERO).unwrap();
        queue.add(key, ZERO).unwrap();
    }
    queue.add_rate_limited("retried", ZERO).unwrap();
    assert_eq!((queue.counts().waiting, queue.counts().later), (4, 4));
    while let Next::Take(key) = queue.next(MS) {
        if key == "meanwhile" {
            queue.add_after(key, 500 * MS, MS).unwrap();
        }
        queue.succeeded(&key, MS);
        if key == "window" {
            // A later time than the earlier one, which does not count any more.
            queue.add_after(key, 2000 * MS, MS).unwrap();
        }
        queue.done(&key, MS);
    }
    assert_eq!((queue.counts().later, queue.requeues(&"retried")), (2, 0));
    assert_eq!(queue.items.len(), 2, "nothing is known of a key about which nothing is left to do");
    assert_eq!(served(&mut queue, 501 * MS), ["meanwhile"]);
    assert_eq!(served(&mut queue, 2000 * MS), [""; 0]);
    assert_eq!(served(&mut queue, 2001 * MS), ["window"]);
    // Of a key that is not worked on only the failures are forgotten.
    queue.add_rate_limited("gone", 2001 * MS).unwrap();
    queue.succeeded(&"gone", 2001 * MS);
    assert_eq!((queue.counts().later, queue.requeues(&"gone")), (1, 0));
}

#[test]
fn a_time_that_is_asked_for_during_work_is_not_lost_with_an_earlier_one_of_before_it() {
    let mut queue = queue(1);
    queue.add_after("a", 1000 * MS, ZERO).unwrap();
    queue.add("a", ZERO).unwrap();
    assert_eq!(queue.next(ZERO), Next::Take("a"));
    // What asks for this has happened since the work began, so the work may not have seen it.
    assert_eq!(queue.add_after("a", 2000 * MS, ZERO), Ok(Added::Known));
    queue.succeeded(&"a", ZERO);
    queue.done(&"a", ZERO);
    assert_eq!(served(&mut queue, 999 * MS), [""; 0]);
    assert_eq!(served(&mut queue, 1000 * MS), ["a"], "the earlier of the two times counts");
    assert_eq!(queue.counts().later, 0);
}

#[test]
fn a_time_that_comes_during_work_is_not_lost_with_its_success() {
    let mut queue = queue(1);
    queue.add_after("a", 10 * MS, ZERO).unwrap();
    queue.add("a", ZERO).unwrap();
    assert_eq!(queue.next(ZERO), Next::Take("a"));
    queue.succeeded(&"a", 10 * MS);
    queue.done(&"a", 10 * MS);
    assert_eq!(served(&mut queue, 10 * MS), ["a"], "the work may have judged before that time");
}

#[test]
fn work_that_fails_keeps_the_time_that_was_set_before_it() {
    let limiter = Limiter::new(Backoff::new(900 * MS, 900 * MS), Bucket::STANDARD);
    let mut queue = Queue::new(NonZeroUsize::MIN, limiter);
    queue.add_after("a", 100 * MS, ZERO).unwrap();
    queue.add("a", ZERO).unwrap();
    assert_eq!(queue.next(ZERO), Next::Take("a"));
    assert_eq!(queue.failed(&"a", Requeue::of_flag(-1), ZERO), RetryVerdict::AgainAfter(900 * MS));
    assert_eq!(queue.next(ZERO), Next::Wait(Some(100 * MS)), "a boundary is not missed because of a pause");
}
