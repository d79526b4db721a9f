//! One rule per test, each a short history with times in seconds.

use super::*;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// The defaults of B9.
const TIMING: Timing = Timing {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

fn candidate() -> LeaseCandidate {
    LeaseCandidate::new("me".into(), TIMING)
}

fn record(version: u64, holder: &str) -> Record {
    let duration = if holder.is_empty() { Duration::from_secs(1) } else { TIMING.duration };
    Record { version: version.to_string().into(), holder: holder.into(), released_by: None, duration, transitions: 3 }
}

fn present(version: u64, holder: &str) -> Observation {
    Observation::Present(record(version, holder))
}

fn released(version: u64, by: &str) -> Observation {
    Observation::Present(Record { released_by: Some(by.into()), ..record(version, "") })
}

fn replaces(version: u64, transitions: u32) -> LeaseOrder {
    LeaseOrder::Claim { base: Some(version.to_string().into()), transitions }
}

const CREATE: LeaseOrder = LeaseOrder::Claim { base: None, transitions: 0 };

/// A holder that was confirmed at 0 with version 10.
fn holder() -> LeaseCandidate {
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, Observation::Absent(None));
    assert_eq!(me.next(seconds(0.0)), CREATE);
    me.answered(seconds(0.0), seconds(0.1), None, LeaseOutcome::Confirmed("10".into()));
    assert_eq!(me.position(), ElectionPosition::Leading(seconds(10.0)));
    me
}

#[test]
fn a_lease_that_was_never_seen_is_read_first() {
    let mut me = candidate();
    assert_eq!(me.next(seconds(0.0)), LeaseOrder::Read);
    assert_eq!(me.position(), ElectionPosition::Unread);
    me.unread(seconds(0.5));
    assert_eq!(me.next(seconds(0.6)), LeaseOrder::Wait(seconds(2.5)));
    assert_eq!(me.next(seconds(2.5)), LeaseOrder::Read);
}

#[test]
fn a_released_lease_is_claimed_at_once() {
    let mut me = candidate();
    me.observed(seconds(1.0), SeenBy::Read, present(4, "other"));
    assert_eq!(me.position(), ElectionPosition::Following("other".into()));
    me.observed(seconds(2.0), SeenBy::Watch, released(5, "other"));
    assert_eq!(me.next(seconds(2.0)), replaces(5, 4));
}

#[test]
fn a_lease_that_another_client_cleared_or_deleted_is_claimed_after_the_wait() {
    for cleared in [present(5, ""), released(5, "another"), Observation::Absent(Some("5".into()))] {
        let mut me = candidate();
        me.observed(seconds(1.0), SeenBy::Read, present(4, "other"));
        me.observed(seconds(2.0), SeenBy::Watch, cleared);
        assert_eq!(me.next(seconds(2.0)), LeaseOrder::Wait(seconds(16.0)));
        assert_eq!(me.position(), ElectionPosition::Following("other".into()));
        assert!(matches!(me.next(seconds(16.0)), LeaseOrder::Claim { .. }));
    }
}

#[test]
fn bx_7_a_holder_that_was_killed_is_followed_after_one_lease_duration() {
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, present(4, "other"));
    assert_eq!(me.next(seconds(14.9)), LeaseOrder::Wait(seconds(15.0)));
    assert_eq!(me.next(seconds(15.0)), replaces(4, 4));
}

#[test]
fn every_change_of_the_lease_begins_the_wait_anew() {
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, present(4, "other"));
    me.observed(seconds(14.0), SeenBy::Watch, present(6, "other"));
    me.observed(seconds(14.5), SeenBy::Watch, present(5, "other"));
    me.observed(seconds(14.6), SeenBy::Watch, present(6, "other"));
    assert_eq!(me.next(seconds(15.0)), LeaseOrder::Wait(seconds(29.0)));
}

#[test]
fn a_holder_that_asks_for_more_time_gets_it() {
    let mut me = candidate();
    let longer = Record { duration: seconds(60.0), ..record(4, "other") };
    me.observed(seconds(0.0), SeenBy::Read, Observation::Present(longer));
    assert_eq!(me.next(seconds(15.0)), LeaseOrder::Wait(seconds(60.0)));
}

#[test]
fn a_holder_renews_and_stops_at_its_deadline_counted_from_what_it_sent() {
    let mut me = holder();
    assert_eq!(me.next(seconds(0.1)), LeaseOrder::Wait(seconds(2.0)));
    assert_eq!(me.next(seconds(2.0)), LeaseOrder::Renew("10".into()));
    me.answered(seconds(2.0), seconds(5.0), None, LeaseOutcome::Confirmed("11".into()));
    assert_eq!(me.position(), ElectionPosition::Leading(seconds(12.0)));
    me.answered(seconds(5.0), seconds(8.0), None, LeaseOutcome::Unknown);
    assert_eq!(me.next(seconds(8.0)), LeaseOrder::Renew("11".into()));
    assert_eq!(me.next(seconds(11.99)), LeaseOrder::Renew("11".into()));
    assert_eq!(me.next(seconds(12.0)), LeaseOrder::Stop(Lost::Expired));
    // A late answer changes nothing.
    me.answered(seconds(11.0), seconds(12.1), None, LeaseOutcome::Confirmed("12".into()));
    assert_eq!(me.position(), ElectionPosition::Lost(Lost::Expired));
}

#[test]
fn a_claim_that_was_answered_too_late_is_renewed_before_it_counts() {
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, Observation::Absent(None));
    me.answered(seconds(0.0), seconds(10.0), None, LeaseOutcome::Confirmed("10".into()));
    assert_eq!(me.position(), ElectionPosition::Free);
    assert_eq!(me.next(seconds(10.0)), replaces(10, 0));
    me.answered(seconds(10.0), seconds(10.1), Some(&"10".into()), LeaseOutcome::Confirmed("11".into()));
    assert_eq!(me.position(), ElectionPosition::Leading(seconds(20.0)));
}

#[test]
fn a_claim_without_an_answer_is_read_back() {
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, Observation::Absent(None));
    me.answered(seconds(0.0), seconds(3.0), None, LeaseOutcome::Unknown);
    assert_eq!(me.next(seconds(3.0)), LeaseOrder::Wait(seconds(5.0)));
    assert_eq!(me.next(seconds(5.0)), LeaseOrder::Read);
    me.observed(seconds(5.1), SeenBy::Read, present(10, "me"));
    assert_eq!(me.next(seconds(5.1)), replaces(10, 3));
}

#[test]
fn a_claim_that_was_not_written_does_not_begin_the_wait_anew() {
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, present(4, "other"));
    me.answered(seconds(15.0), seconds(18.0), Some(&"4".into()), LeaseOutcome::Unknown);
    assert_eq!(me.next(seconds(20.0)), LeaseOrder::Read);
    me.observed(seconds(20.1), SeenBy::Read, present(4, "other"));
    assert_eq!(me.next(seconds(20.1)), replaces(4, 4));
}

#[test]
fn a_replica_that_loses_the_race_follows_the_winner() {
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, released(4, "old"));
    me.answered(seconds(0.0), seconds(0.1), Some(&"4".into()), LeaseOutcome::Conflict);
    assert_eq!(me.next(seconds(0.1)), LeaseOrder::Read);
    me.observed(seconds(0.2), SeenBy::Read, present(5, "winner"));
    assert_eq!(me.next(seconds(0.2)), LeaseOrder::Wait(seconds(15.2)));
    // What the watch reported before the answer came is kept.
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, released(4, "old"));
    me.observed(seconds(0.1), SeenBy::Watch, present(5, "winner"));
    me.answered(seconds(0.0), seconds(0.2), Some(&"4".into()), LeaseOutcome::Conflict);
    assert_eq!(me.next(seconds(0.2)), LeaseOrder::Wait(seconds(15.1)));
}

#[test]
fn a_lease_that_cannot_be_created_is_read_again_after_a_pause() {
    let mut me = candidate();
    for round in 0..3 {
        let now = seconds(2.0) * round;
        assert_eq!(me.next(now), LeaseOrder::Read);
        me.observed(now, SeenBy::Read, Observation::Absent(None));
        assert_eq!(me.next(now), CREATE);
        me.answered(now, now, None, LeaseOutcome::Conflict);
        assert_eq!(me.next(now), LeaseOrder::Wait(now + TIMING.retry_period));
    }
}

#[test]
fn a_holder_stops_when_it_reads_another_name() {
    for (said, lost) in [
        (present(11, "thief"), Lost::Taken("thief".into())),
        (present(11, ""), Lost::Taken("".into())),
        (Observation::Absent(Some("11".into())), Lost::Deleted),
    ] {
        let mut me = holder();
        me.observed(seconds(1.0), SeenBy::Watch, said);
        assert_eq!(me.next(seconds(1.0)), LeaseOrder::Stop(lost));
        assert_eq!(me.release(), None);
    }
}

#[test]
fn a_late_event_of_the_watch_is_no_reason_to_stop() {
    let mut me = holder();
    me.observed(seconds(1.0), SeenBy::Watch, present(9, "earlier"));
    me.observed(seconds(1.0), SeenBy::Watch, Observation::Absent(Some("8".into())));
    me.observed(seconds(1.0), SeenBy::Watch, present(10, "me"));
    assert_eq!(me.next(seconds(1.0)), LeaseOrder::Wait(seconds(2.0)));
}

#[test]
fn a_doubtful_event_is_settled_by_a_read() {
    let mut me = holder();
    me.observed(seconds(1.0), SeenBy::Watch, Observation::Absent(None));
    assert_eq!(me.next(seconds(1.0)), LeaseOrder::Read);
    // Another program only wrote an annotation: the next renewal builds on that version.
    me.observed(seconds(1.1), SeenBy::Read, present(12, "me"));
    assert_eq!(me.next(seconds(1.1)), LeaseOrder::Renew("12".into()));
    me.answered(seconds(1.1), seconds(1.2), None, LeaseOutcome::Conflict);
    assert_eq!(me.next(seconds(1.2)), LeaseOrder::Read);
    me.unread(seconds(1.3));
    assert_eq!(me.next(seconds(1.3)), LeaseOrder::Wait(seconds(3.3)));
    me.observed(seconds(3.4), SeenBy::Read, Observation::Absent(None));
    assert_eq!(me.next(seconds(3.4)), LeaseOrder::Stop(Lost::Deleted));
}

#[test]
fn an_attempt_never_takes_longer_than_the_lease_is_ours() {
    let mut me = holder();
    assert_eq!(me.patience(seconds(2.0)), seconds(2.0) + TIMING.renew_deadline / 3);
    assert_eq!(me.patience(seconds(9.5)), seconds(10.0));
    assert_eq!(me.next(seconds(10.0)), LeaseOrder::Stop(Lost::Expired));
}

#[test]
fn a_replica_whose_watch_fails_reads() {
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, present(4, "other"));
    me.unwatched(seconds(1.0));
    me.unwatched(seconds(1.5));
    assert_eq!(me.next(seconds(1.6)), LeaseOrder::Wait(seconds(3.0)));
    assert_eq!(me.next(seconds(3.0)), LeaseOrder::Read);
    me.unread(seconds(3.5));
    assert_eq!(me.next(seconds(3.5)), LeaseOrder::Wait(seconds(5.5)));
    me.observed(seconds(5.6), SeenBy::Read, present(5, "other"));
    assert_eq!(me.next(seconds(5.6)), LeaseOrder::Wait(seconds(20.6)));
    // A holder sees another name by the conflict of its next renewal.
    let mut me = holder();
    me.unwatched(seconds(0.2));
    assert_eq!(me.next(seconds(0.2)), LeaseOrder::Wait(seconds(2.0)));
}

#[test]
fn after_a_restore_the_lease_is_read_and_older_versions_count() {
    // A holder reads at once, and continues from what is stored now.
    let mut me = holder();
    me.restored(seconds(0.2));
    assert_eq!(me.next(seconds(0.2)), LeaseOrder::Read);
    me.observed(seconds(0.3), SeenBy::Read, present(7, "me"));
    assert_eq!(me.next(seconds(0.3)), LeaseOrder::Renew("7".into()));
    assert_eq!(me.position(), ElectionPosition::Leading(seconds(10.0)), "a restore confirms nothing");
    // One that finds another holder stops.
    let mut me = holder();
    me.restored(seconds(0.2));
    me.observed(seconds(0.3), SeenBy::Read, present(7, "other"));
    assert_eq!(me.position(), ElectionPosition::Lost(Lost::Taken("other".into())));
    // A follower waits for the whole time of the holder that it saw, whatever name the lease has now.
    for restored in [present(3, "other"), present(3, "older"), present(3, ""), Observation::Absent(None)] {
        let mut me = candidate();
        me.observed(seconds(0.0), SeenBy::Read, present(40, "other"));
        me.restored(seconds(5.0));
        assert_eq!(me.next(seconds(5.0)), LeaseOrder::Read);
        me.observed(seconds(5.1), SeenBy::Read, restored);
        assert!(matches!(me.next(seconds(14.9)), LeaseOrder::Wait(_)));
        // What its watch shows from now on is compared with what was read.
        me.observed(seconds(14.9), SeenBy::Watch, present(4, "other"));
        assert!(matches!(me.next(seconds(29.8)), LeaseOrder::Wait(_)));
        assert_eq!(me.next(seconds(29.9)), replaces(4, 4));
    }
}

/// Another replica goes first for this long.
const COURTESY: Duration = Duration::from_millis(500);

/// A follower of a Lease at version 20 that learned at 1 of a restore.
fn follower_after_a_restore() -> LeaseCandidate {
    let mut me = candidate();
    me.observed(seconds(0.0), SeenBy::Read, present(20, "other"));
    me.restored(seconds(1.0));
    assert_eq!(me.next(seconds(1.0)), LeaseOrder::Read);
    me
}

#[test]
fn after_a_restore_no_event_of_the_watch_replaces_the_read_that_failed() {
    // Of the history that the API server has left, and of the present one.
    for event in [present(21, "other"), present(9, "other")] {
        let mut me = follower_after_a_restore();
        me.unread(seconds(1.1));
        me.observed(seconds(1.2), SeenBy::Watch, event.clone());
        assert_eq!(me.next(seconds(1.3)), LeaseOrder::Wait(seconds(3.1)), "{event:?}");
        assert_eq!(me.next(seconds(3.1)), LeaseOrder::Read, "{event:?}");
        me.observed(seconds(3.2), SeenBy::Watch, event.clone());
        me.observed(seconds(3.3), SeenBy::Read, present(10, "other"));
        me.observed(seconds(4.0), SeenBy::Watch, released(11, "other"));
        assert_eq!(me.next(seconds(4.0)), replaces(11, 4), "{event:?}");
    }
}

#[test]
fn after_a_restore_the_answer_of_a_read_that_was_sent_before_does_not_count() {
    let mut me = candidate();
    assert_eq!(me.next(seconds(0.0)), LeaseOrder::Read);
    me.restored(seconds(1.0));
    me.observed(seconds(1.1), SeenBy::Read, present(20, "other"));
    assert_eq!(me.next(seconds(1.1)), LeaseOrder::Read);
    me.observed(seconds(1.2), SeenBy::Read, released(9, "other"));
    assert_eq!(me.next(seconds(1.2)), replaces(9, 4));
}

#[test]
fn s11_a_replica_that_gives_way_claims_a_lease_without_a_holder_later_and_reads_of_it_do_not_delay_that() {
    for free in [released(5, "other"), Observation::Absent(None)] {
        let mut me = candidate();
        me.give_way(COURTESY);
        me.observed(seconds(11.0), SeenBy::Read, free.clone());
        assert_eq!(me.next(seconds(11.0)), LeaseOrder::Wait(seconds(11.5)));
        assert_eq!(me.position(), ElectionPosition::Free);
        // The watch broke a moment ago.
        me.unwatched(seconds(9.1));
        assert_eq!(me.next(seconds(11.2)), LeaseOrder::Read);
        me.observed(seconds(11.3), SeenBy::Read, free);
        assert_eq!(me.next(seconds(11.4)), LeaseOrder::Wait(seconds(11.5)));
        assert!(matches!(me.next(seconds(11.5)), LeaseOrder::Claim { .. }));
    }
}

#[test]
fn s11_a_replica_that_gives_way_follows_the_one_that_went_first_and_gives_way_again_the_next_time() {
    let mut me = candidate();
    me.give_way(COURTESY);
    me.observed(seconds(1.0), SeenBy::Read, released(5, "other"));
    assert_eq!(me.next(seconds(1.0)), LeaseOrder::Wait(seconds(1.5)));
    me.observed(seconds(1.2), SeenBy::Watch, present(6, "best"));
    assert_eq!(me.next(seconds(1.5)), LeaseOrder::Wait(seconds(16.2)));
    // That one is killed: its whole time passes first.
    assert_eq!(me.next(seconds(16.2)), LeaseOrder::Wait(seconds(16.7)));
    assert_eq!(me.next(seconds(16.7)), replaces(6, 4));
}

#[test]
fn s11_a_replica_that_comes_to_be_the_first_claims_at_once() {
    let mut me = candidate();
    me.give_way(seconds(3600.0));
    me.observed(seconds(1.0), SeenBy::Read, released(5, "other"));
    assert_eq!(me.next(seconds(1.0)), LeaseOrder::Wait(seconds(3601.0)));
    me.give_way(Duration::ZERO);
    assert_eq!(me.next(seconds(1.1)), replaces(5, 4));
}

#[test]
fn s11_a_replica_gives_way_with_no_claim_that_may_be_stored_and_with_no_renewal() {
    let mut me = candidate();
    me.give_way(seconds(3600.0));
    me.observed(seconds(5.1), SeenBy::Read, present(10, "me"));
    assert_eq!(me.next(seconds(5.1)), replaces(10, 3));
    me.answered(seconds(5.1), seconds(5.2), Some(&"10".into()), LeaseOutcome::Confirmed("11".into()));
    assert_eq!(me.next(seconds(7.1)), LeaseOrder::Renew("11".into()));
}
