//! Ranks, announcements and hand-overs one by one; replicas that come and go are in [`world`].

mod world;

use proptest::prelude::*;

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn member(number: usize) -> MemberName {
    format!("pod-{number}_5f0cf0a5").into()
}

fn members(count: usize) -> BTreeSet<MemberName> {
    (0..count).map(member).collect()
}

fn binding(number: usize) -> Uid {
    format!("8c5a2d5e-{number}").into()
}

/// The bindings that go to each member first.
fn spread(bindings: usize, members: &BTreeSet<MemberName>) -> BTreeMap<usize, MemberName> {
    (0..bindings).map(|number| (number, first(&binding(number), members).unwrap().clone())).collect()
}

fn announcement(number: usize, version: u64) -> Announcement {
    Announcement { member: member(number), version: version.to_string().into(), lasts: seconds(15) }
}

/// What this replica, number 0, sees: others that announced themselves at 0 and do so ever since, until `now`.
fn seen(others: &[usize], now: Duration) -> Members {
    let mut seen = Members::new(member(0));
    for second in 0..=now.as_secs() {
        for other in others {
            seen.saw(seconds(second), announcement(*other, second + 1));
        }
    }
    seen
}

proptest! {
    #[test]
    fn s11_each_binding_has_one_first_member_in_whichever_order_members_are_seen(
        names in prop::collection::btree_set("[a-z]{1,8}", 1..20),
        uid in "[a-f0-9-]{1,36}",
        turn in 0_usize..20,
    ) {
        let mut all: Vec<MemberName> = names.into_iter().map(MemberName::from).collect();
        let uid = Uid::from(uid);
        let found = first(&uid, &all).cloned();
        prop_assert!(found.is_some());
        let count = all.len();
        all.rotate_left(turn % count);
        prop_assert_eq!(first(&uid, &all).cloned(), found.clone());
        all.reverse();
        prop_assert_eq!(first(&uid, &all).cloned(), found);
    }

    #[test]
    fn s11_a_member_that_joins_or_leaves_moves_only_the_bindings_that_it_ranks_first_for(
        count in 1_usize..12,
        bindings in 1_usize..60,
    ) {
        let (few, more) = (spread(bindings, &members(count)), spread(bindings, &members(count + 1)));
        let new = member(count);
        for number in 0..bindings {
            prop_assert!(more[&number] == few[&number] || more[&number] == new);
        }
    }
}

#[test]
fn s11_members_rank_alike_in_every_version_of_this_program() {
    // The first half of the SHA-256 of "u", a zero byte and "m".
    assert_eq!(format!("{:032x}", weight("u", "m")), "7d9816a01e068ab68445521d69b9fb69");
    let firsts = spread(8, &members(3)).into_values();
    assert_eq!(firsts.collect::<Vec<_>>(), [2, 2, 2, 1, 0, 2, 2, 1].map(member));
}

#[test]
fn s11_steps_for_many_bindings_are_spread_over_a_time_and_those_for_one_binding_are_moved_alike() {
    let hour = seconds(3600);
    let mut quarters = [0; 4];
    for number in 0..1000 {
        let moved = stagger(&binding(number), hour);
        assert!(moved < hour);
        quarters[usize::try_from(moved.as_secs() / 900).unwrap()] += 1;
    }
    assert!(quarters.iter().all(|count| (200..300).contains(count)), "{quarters:?}");
    // The first two bytes of the SHA-256 of "u1" and a zero byte.
    assert_eq!(stagger(&"u1".into(), seconds(1 << 16)), seconds(14_024));
}

#[test]
fn s11_a_binding_that_comes_alone_does_not_wait_and_a_few_wait_shortly() {
    let hour = seconds(3600);
    for number in 0..100 {
        let binding = binding(number);
        assert_eq!(stagger_among(&binding, 0, hour), Duration::ZERO);
        assert!(stagger_among(&binding, 1, hour) < hour / CROWD);
        for before in [CROWD, u32::MAX] {
            assert_eq!(stagger_among(&binding, before, hour), stagger(&binding, hour));
        }
    }
}

#[test]
fn s11_many_bindings_are_shared_about_evenly() {
    let spread = spread(1000, &members(4));
    for number in 0..4 {
        let share = spread.values().filter(|first| **first == member(number)).count();
        assert!((200..300).contains(&share), "{share} of 1000 for one of four");
    }
}

#[test]
fn s11_a_member_counts_for_as_long_as_its_announcement_lasts_by_the_observers_clock() {
    let mut seen = Members::new(member(0));
    let live = |seen: &Members, now| seen.live(seconds(now)).len();
    assert_eq!(live(&seen, 0), 1, "this replica counts always");
    seen.saw(seconds(100), announcement(1, 7));
    // The same once more, an older one, and our own are no signs of life.
    for version in [7, 6] {
        seen.saw(seconds(110), announcement(1, version));
    }
    seen.saw(seconds(110), announcement(0, 9));
    assert_eq!((live(&seen, 114), live(&seen, 115)), (2, 1));
    assert_eq!((seen.next_end(seconds(114)), seen.next_end(seconds(115))), (Some(seconds(115)), None));
    seen.saw(seconds(116), announcement(1, 8));
    assert_eq!(live(&seen, 130), 2);
    seen.left(&member(1));
    assert_eq!(live(&seen, 130), 1);
    // One that asks for a day gets an hour.
    seen.saw(seconds(200), Announcement { lasts: seconds(86_400), ..announcement(2, 1) });
    assert_eq!((live(&seen, 3799), live(&seen, 3800)), (2, 1));
    assert!(seen.abandoned(seconds(7399)).is_empty());
    assert_eq!(seen.abandoned(seconds(7400)), [member(2)]);
}

#[test]
fn s11_a_list_replaces_what_is_known_and_renews_nothing_that_did_not_change() {
    let mut seen = Members::new(member(0));
    for number in 1..4 {
        seen.saw(seconds(100), announcement(number, 7));
    }
    let list = || [announcement(1, 7), announcement(2, 8), announcement(4, 3)];
    seen.relisted(seconds(110), list(), History::Same);
    let live = |seen: &Members, now| seen.live(seconds(now)).into_iter().skip(1).collect::<Vec<_>>();
    assert_eq!(live(&seen, 110), [member(1), member(2), member(4)], "the third is gone");
    assert_eq!(live(&seen, 115), [member(2), member(4)]);
    // After a restore an older version is as good as a newer one.
    seen.relisted(seconds(120), [announcement(2, 5)], History::Same);
    assert!(live(&seen, 125).is_empty(), "it is late");
    seen.relisted(seconds(130), [announcement(2, 4)], History::Restored);
    assert_eq!(live(&seen, 131), [member(2)]);
}

#[test]
fn members_without_end_are_not_kept() {
    let mut seen = Members::new(member(0));
    for number in 1..10_000 {
        seen.saw(seconds(1), announcement(number, 1));
    }
    assert_eq!(seen.live(seconds(2)).len(), MOST + 1);
    seen.saw(seconds(1), Announcement { member: "".into(), ..announcement(0, 1) });
    assert!(!seen.live(seconds(2)).contains(""));
}

/// A binding for which this one of two members ranks higher.
fn ranked_by(number: usize) -> Uid {
    let mut all = (0..).map(binding);
    all.find(|binding| first(binding, &members(2)) == Some(&member(number))).unwrap()
}

#[test]
fn s11_other_members_give_way_for_a_second_and_only_while_the_first_is_live() {
    let mut seen = Members::new(member(0));
    let (mine, theirs) = (ranked_by(0), ranked_by(1));
    let courtesies = |seen: &Members, now| [seen.courtesy(seconds(now), &mine), seen.courtesy(seconds(now), &theirs)];
    assert_eq!(courtesies(&seen, 0), [Duration::ZERO; 2]);
    seen.saw(seconds(0), announcement(1, 1));
    assert_eq!(courtesies(&seen, 14), [Duration::ZERO, COURTESY]);
    assert_eq!(courtesies(&seen, 15), [Duration::ZERO; 2]);
}

fn held(binding: Uid, since: u64) -> HeldBinding {
    HeldBinding { binding, since: seconds(since) }
}

#[test]
fn s11_a_binding_is_handed_over_ten_minutes_after_it_was_taken_and_not_to_a_member_that_has_just_come() {
    let (mine, theirs, overs) = (ranked_by(0), ranked_by(1), HandOvers::default());
    let both = [held(mine, 0), held(theirs.clone(), 100)];
    let next = |now, others: &[usize]| overs.next(seconds(now), &seen(others, seconds(now)), &both);
    assert_eq!(next(699, &[]), HandOver::Nothing);
    assert_eq!(next(30, &[1]), HandOver::At(seconds(700)));
    assert_eq!(next(699, &[1]), HandOver::At(seconds(700)));
    assert_eq!(next(700, &[1]), HandOver::Release(theirs.clone()));
    // One that came a moment ago, at 720.
    let mut fresh = Members::new(member(0));
    fresh.saw(seconds(720), announcement(1, 1));
    assert_eq!(overs.next(seconds(721), &fresh, &both), HandOver::At(seconds(780)));
    // It was gone in between, so its time begins again.
    fresh.saw(seconds(740), announcement(1, 2));
    assert_eq!(overs.next(seconds(741), &fresh, &both), HandOver::At(seconds(800)));
    assert_eq!(overs.next(seconds(756), &fresh, &both), HandOver::Nothing);
}

#[test]
fn s11_one_binding_a_minute_is_handed_over_and_the_one_that_was_held_for_longest_first() {
    let theirs: Vec<Uid> =
        (0..).map(binding).filter(|uid| first(uid, &members(2)) == Some(&member(1))).take(3).collect();
    let all = [held(theirs[0].clone(), 50), held(theirs[1].clone(), 20), held(theirs[2].clone(), 30)];
    let (now, mut overs) = (seconds(1000), HandOvers::default());
    let members = seen(&[1], now);
    assert_eq!(overs.next(now, &members, &all), HandOver::Release(theirs[1].clone()));
    overs.done(now);
    let rest = [all[0].clone(), all[2].clone()];
    assert_eq!(overs.next(now, &members, &rest), HandOver::At(seconds(1060)));
    assert_eq!(overs.next(seconds(1060), &seen(&[1], seconds(1060)), &rest), HandOver::Release(theirs[2].clone()));
}
