use proptest::prelude::*;

use super::*;

const S: Duration = Duration::from_secs(1);

const SURE: Doubts = Doubts { left: 0, says_unreachable: false };

/// What a read shows of leases that last for so many seconds, each with the second in which it was renewed last.
fn lasting<const N: usize>(lasts: u64, renewed: [(&str, i64); N]) -> Beats {
    let renewed = renewed.map(|(node, second)| (NodeName::from(node), Timestamp::from_second(second).unwrap()));
    Beats { renewed: renewed.into(), lasts: Some(Duration::from_secs(lasts)) }
}

/// The same of usual ones.
fn beats<const N: usize>(renewed: [(&str, i64); N]) -> Beats {
    lasting(40, renewed)
}

#[test]
fn s11_leases_that_are_renewed_show_an_installation_and_twenty_silent_seconds_show_none() {
    let mut silence = Silence::default();
    assert_eq!(silence.heard(beats([("a", 1), ("b", 6)]), SURE, 100 * S), Heard::Quiet(5 * S), "whatever was before");
    assert_eq!(silence.heard(beats([("a", 1), ("b", 6)]), SURE, 105 * S), Heard::Quiet(5 * S));
    assert_eq!(silence.heard(beats([("a", 1), ("b", 16)]), SURE, 110 * S), Heard::Renewed(5 * S), "one is enough");
    for (seconds, left) in [(115, 5), (120, 5), (128, 2)] {
        assert_eq!(silence.heard(beats([("a", 1), ("b", 16)]), SURE, seconds * S), Heard::Quiet(left * S), "{seconds}");
    }
    assert_eq!(silence.heard(beats([("a", 1), ("b", 16)]), SURE, 130 * S), Heard::Silent);
}

#[test]
fn s11_the_times_of_leases_are_compared_with_one_another_and_with_no_clock() {
    // Ahead or behind by hours, and also where a renewal goes back.
    for second in [-7200, 7200] {
        let mut silence = Silence::default();
        silence.heard(beats([("a", 0)]), SURE, 100 * S);
        assert_eq!(silence.heard(beats([("a", second)]), SURE, 105 * S), Heard::Renewed(5 * S));
        silence.heard(beats([("a", second)]), SURE, 115 * S);
        assert_eq!(silence.heard(beats([("a", second)]), SURE, 125 * S), Heard::Silent);
    }
}

#[test]
fn s11_without_any_lease_a_look_is_as_long_and_one_that_comes_or_goes_is_no_renewal() {
    let mut silence = Silence::default();
    let none = || Beats::default();
    assert_eq!(silence.heard(none(), SURE, S), Heard::Quiet(5 * S));
    assert_eq!(silence.heard(none(), SURE, 11 * S), Heard::Quiet(5 * S));
    assert_eq!(silence.heard(none(), SURE, 21 * S), Heard::Silent);
    // One that is new may be renewed from now on.
    assert_eq!(silence.heard(beats([("a", 1)]), SURE, 26 * S), Heard::Quiet(5 * S));
    assert_eq!(silence.heard(none(), SURE, 36 * S), Heard::Quiet(5 * S));
    assert_eq!(silence.heard(none(), SURE, 46 * S), Heard::Silent);
}

#[test]
fn s28_a_look_lasts_half_of_a_lease_and_what_a_lease_says_of_its_time_is_bounded() {
    for (lasts, pause, whole) in [(4, 500, 2_000), (40, 5_000, 20_000), (400, 50_000, 200_000)] {
        let (pause, whole) = (Duration::from_millis(pause), Duration::from_millis(whole));
        let mut silence = Silence::default();
        let mut now = S;
        assert_eq!(silence.heard(lasting(lasts, [("a", 1)]), SURE, now), Heard::Quiet(pause));
        while now + pause < S + whole {
            now += pause;
            assert_eq!(silence.heard(lasting(lasts, [("a", 1)]), SURE, now), Heard::Quiet(pause));
        }
        assert_eq!(silence.heard(lasting(lasts, [("a", 1)]), SURE, S + whole), Heard::Silent);
    }
    let first = |lasts| Silence::default().heard(lasting(lasts, [("a", 1)]), SURE, S);
    assert_eq!((first(0), first(u64::MAX)), (Heard::Quiet(S / 2), Heard::Quiet(450 * S)));
}

#[test]
fn s3_what_could_not_be_read_is_not_silent() {
    let mut silence = Silence::default();
    silence.heard(beats([("a", 1)]), SURE, 100 * S);
    silence.heard(beats([("a", 1)]), SURE, 115 * S);
    silence.unread();
    assert_eq!(silence.heard(beats([("a", 1)]), SURE, 121 * S), Heard::Quiet(5 * S), "the look begins again");
    silence.heard(beats([("a", 1)]), SURE, 131 * S);
    assert_eq!(silence.heard(beats([("a", 1)]), SURE, 141 * S), Heard::Silent);
    // The machine was asleep, and may be the one on which the other installation runs.
    let mut silence = Silence::default();
    silence.heard(beats([("a", 1)]), SURE, 100 * S);
    assert_eq!(silence.heard(beats([("a", 1)]), SURE, 4_000 * S), Heard::Quiet(5 * S));
}

#[test]
fn s11_one_that_has_left_a_binding_and_one_whose_leases_are_stopped_on_purpose_look_longer_up_to_an_hour() {
    let rows = [
        (0, false, 20),
        (1, false, 80),
        (2, false, 320),
        (3, false, 1280),
        (4, false, 3600),
        (u32::MAX, false, 3600),
        (0, true, 320),
        (1, true, 1280),
        (2, true, 3600),
        (u32::MAX, true, 3600),
    ];
    for (left, says_unreachable, whole) in rows {
        let doubts = Doubts { left, says_unreachable };
        let mut silence = Silence::default();
        let (mut now, mut last) = (S, silence.heard(beats([("a", 1)]), doubts, S));
        while let Heard::Quiet(pause) = last {
            now += pause;
            last = silence.heard(beats([("a", 1)]), doubts, now);
        }
        assert_eq!((last, now - S), (Heard::Silent, Duration::from_secs(whole)), "{doubts:?}");
    }
}

#[test]
fn s11_one_that_renews_for_three_leases_is_no_take_over_that_ends_again() {
    let mut silence = Silence::default();
    silence.heard(beats([("a", 0)]), SURE, 100 * S);
    // The first renewal is heard after 10 s, and none is missing.
    for second in (10..130).step_by(10) {
        let heard = silence.heard(beats([("a", second)]), SURE, Duration::from_secs(100 + second.cast_unsigned()));
        assert_eq!(heard, Heard::Renewed(5 * S), "{second}");
    }
    assert_eq!(silence.heard(beats([("a", 130)]), SURE, 230 * S), Heard::Steady(5 * S));
    assert_eq!(silence.heard(beats([("a", 130)]), SURE, 235 * S), Heard::Quiet(5 * S));
    assert_eq!(silence.heard(beats([("a", 140)]), SURE, 240 * S), Heard::Steady(5 * S));
    assert_eq!(silence.heard(beats([("a", 140)]), SURE, 250 * S), Heard::Quiet(5 * S));
    assert_eq!(silence.heard(beats([("a", 140)]), SURE, 260 * S), Heard::Silent);
    assert_eq!(silence.heard(beats([("a", 160)]), SURE, 265 * S), Heard::Renewed(5 * S), "it is another one");
}

const QUIET: Heard = Heard::Quiet(S);

/// By the installation `b/x`, with leases that it renews.
fn facts(rival: Rival, theirs: &str, heard: Heard) -> Facts<'_> {
    Facts { rival, theirs, ours: "b/x", is_contested: false, renews: true, heard }
}

#[test]
fn s11_what_an_installation_that_serves_a_binding_does_about_another_name_in_its_status() {
    use Rival::{Insists, Stranger, TakenFrom};
    let all = [Stranger, TakenFrom, Insists];
    // Leases that only we renew are ours, whichever client wrote the name.
    for (rival, theirs) in all.into_iter().flat_map(|rival| [(rival, "a/x"), (rival, "c/x")]) {
        let of = |heard| facts(rival, theirs, heard);
        assert_eq!(claim(&of(QUIET)), Claim::Wait(S), "{rival:?} {theirs}");
        assert_eq!(claim(&of(Heard::Silent)), Claim::Stay, "{rival:?} {theirs}");
        // One that renews, too, and has written its name last.
        let heard = [of(Heard::Renewed(S)), of(Heard::Steady(S)), Facts { is_contested: true, ..of(QUIET) }];
        for contested in heard {
            assert_eq!(claim(&contested), Claim::Leave(Why::Renews), "{rival:?} {theirs}");
            let silent = Facts { renews: false, ..contested };
            assert_eq!(claim(&silent), Claim::Leave(Why::Renews), "{rival:?} {theirs}");
        }
    }
    // Where there is nothing to be renewed.
    let idle = |rival, theirs, heard| claim(&Facts { renews: false, ..facts(rival, theirs, heard) });
    for theirs in ["a/x", "c/x"] {
        assert_eq!(idle(Stranger, theirs, QUIET), Claim::Wait(S));
        assert_eq!(idle(Stranger, theirs, Heard::Silent), Claim::Stay, "it answers the one that took it over");
        assert_eq!(idle(TakenFrom, theirs, QUIET), Claim::Leave(Why::Answers), "and that one hears it");
    }
    assert_eq!(idle(Insists, "a/x", QUIET), Claim::Leave(Why::Answers));
    assert_eq!(idle(Insists, "c/x", QUIET), Claim::Wait(S));
    assert_eq!(idle(Insists, "c/x", Heard::Silent), Claim::Stay, "of two that insist one stays");
}

#[test]
fn s11_a_name_whose_lease_is_gone_ends_nothing_and_one_whose_lease_is_held_does() {
    assert_eq!(claim_by_lease(Presence::Gone), Claim::Stay);
    assert_eq!(claim_by_lease(Presence::There(S)), Claim::Leave(Why::Holds));
}

proptest! {
    /// An installation that renews each lease once per interval is heard in every look, also where other leases have stopped long
    /// ago. Of one that has ended it is known before the oldest of its leases has ended.
    #[test]
    fn s11_no_installation_that_renews_is_silent_and_the_end_of_one_is_known_before_a_lease_has_ended(
        lasts in 4..400_u64,
        turns in prop::collection::vec(0..1000_u64, 1..8),
        stopped in 0..4_u64,
        (begins, lives, ends) in (0..1000_u64, 0..40_u64, 0..1000_u64),
    ) {
        // In thousandths of a second.
        let interval = lasts * 250;
        let part = |thousandths: u64| thousandths * interval / 1000;
        let first = interval + part(begins);
        let end = first + lives * interval + part(ends);
        let last = |turn: u64, now: u64| part(turn) + (now.min(end) - part(turn)) / interval * interval;
        let read = |now: u64| {
            let mut read = lasting(lasts, []);
            for number in 0..stopped {
                read.renewed.insert(format!("stopped-{number}").into(), Timestamp::UNIX_EPOCH);
            }
            for (number, turn) in turns.iter().enumerate() {
                let renewed = i64::try_from(last(*turn, now)).unwrap();
                read.renewed.insert(format!("node-{number}").into(), Timestamp::from_millisecond(renewed).unwrap());
            }
            read
        };
        let (mut silence, mut now) = (Silence::default(), first);
        let clock = Duration::from_millis;
        while let Heard::Renewed(pause) | Heard::Steady(pause) | Heard::Quiet(pause) =
            silence.heard(read(now), SURE, clock(now))
        {
            now += u64::try_from(pause.as_millis()).unwrap();
            prop_assert!(now <= end + 2 * lasts * 1000, "it ended at {end}");
        }
        let newest = turns.iter().map(|turn| last(*turn, end)).max().unwrap();
        let oldest = turns.iter().map(|turn| last(*turn, end)).min().unwrap();
        let seen = newest.max(first);
        prop_assert!(now >= seen + lasts * 500, "{now}: renewed at {newest}, and first read at {first}");
        prop_assert!(now <= seen + lasts * 625, "{now}: renewed at {newest}, and first read at {first}");
        if newest >= first {
            prop_assert!(now <= oldest + lasts * 875, "{now}: renewed at {oldest}");
        }
    }
}
