//! The life of one binding, and of several beside each other.

use super::*;

#[tokio::test(start_paused = true)]
async fn s11_a_group_runs_while_its_lease_is_held_and_with_both_gates_of_the_lease() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(5 * S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.count("east")), (0, 1), "it stands, and runs nothing yet");
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.groups.told()), (2, vec!["east/u1 begins 5".to_owned()]));
    let held = replica.groups.held();
    assert_eq!(held.lease.map(|lease| lease.name).as_deref(), Some("test-binding-east"));
    assert_eq!((held.gate.check(), held.heartbeats.check()), (Ok(()), Ok(())));
    // The process stops: the group ends, and then the lease is given back.
    keepers.stop().await;
    settled().await;
    assert_eq!(replica.groups.told()[1..], ["east/u1 hears 6".to_owned(), "east/u1 ends 7".to_owned()]);
    assert_eq!(replica.groups.tasks(), 0);
    assert!(replica.ballot.last("east", Staged::is_released));
    assert_eq!((held.gate.check(), held.heartbeats.check()), (Err(Closed::NotLeader), Err(Closed::NotLeader)));
    assert!(replica.health.bindings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn s11_a_lost_lease_ends_its_group_alone_and_the_replica_stands_again_after_one_lease_duration() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1"), ("west", "u2")]));
    passes(S, &mut keepers).await;
    for name in ["east", "west"] {
        replica.ballot.last(name, Staged::leads);
        passes(S, &mut keepers).await;
    }
    let (east, west) = (replica.ballot.election("east"), replica.ballot.election("west"));
    replica.ballot.last("east", |staged| staged.becomes(Role::Lost(Lost::Taken("another".into()))));
    settled().await;
    let closed = Err(Closed::NotLeader);
    assert_eq!((east.gate().check(), east.held().check()), (closed.clone(), closed), "before its group has ended");
    assert_eq!(replica.groups.tasks(), 4);
    passes(2 * S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), west.gate().check()), (2, Ok(())), "the other one goes on");
    assert_eq!(replica.ballot.count("east"), 1);
    // Its group ended at 4, and 15 s after that, or a little later, it stands again.
    passes(13 * S, &mut keepers).await;
    assert_eq!(replica.ballot.count("east"), 1);
    passes(5 * S, &mut keepers).await;
    assert_eq!((replica.ballot.count("east"), replica.ballot.count("west")), (2, 1));
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    assert_eq!(replica.groups.tasks(), 4);
    assert_eq!(replica.groups.told().iter().filter(|told| told.starts_with("east/u1 begins")).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn s11_what_a_group_does_after_a_loss_is_cut_off_when_another_replica_may_hold_the_lease() {
    let replica = Replica::new();
    replica.groups.behaves(Manner::Ends(1_000_000 * S));
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    replica.ballot.last("east", |staged| staged.becomes(Role::Lost(Lost::Expired)));
    passes(4 * S, &mut keepers).await;
    assert_eq!(replica.groups.tasks(), 2);
    // 15 s of the lease without the 10 s of the deadline.
    passes(2 * S, &mut keepers).await;
    assert_eq!(replica.groups.tasks(), 0, "its own tasks, too");
    // One that is asked to end while the lease is held has longer.
    passes(19 * S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    let began = Instant::now();
    keepers.stop().await;
    assert_eq!(began.elapsed().as_secs(), DRAIN.as_secs());
    assert_eq!((replica.groups.tasks(), replica.ballot.last("east", Staged::is_released)), (0, true));
}

#[tokio::test(start_paused = true)]
async fn s11_a_lease_that_is_lost_while_its_group_ends_closes_the_gates_and_leaves_the_time_of_a_loss() {
    let replica = Replica::new();
    replica.groups.behaves(Manner::Ends(1_000_000 * S));
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    let held = replica.groups.held();
    // The binding is applied again: the group of the earlier one has 20 s, with its gates open.
    keepers.want(bindings(&[("east", "u2")]));
    passes(3 * S, &mut keepers).await;
    assert_eq!((held.gate.check(), held.heartbeats.check(), replica.groups.tasks()), (Ok(()), Ok(()), 2));
    replica.ballot.last("east", |staged| staged.becomes(Role::Lost(Lost::Taken("another".into()))));
    settled().await;
    let closed = Err(Closed::NotLeader);
    assert_eq!((held.gate.check(), held.heartbeats.check(), replica.groups.tasks()), (closed.clone(), closed, 2));
    passes(4 * S, &mut keepers).await;
    assert_eq!(replica.groups.tasks(), 2);
    // 15 s of the lease without the 10 s of the deadline.
    passes(2 * S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (2, 1)), "and the later one is stood for");
}

#[tokio::test(start_paused = true)]
async fn s11_bindings_that_come_or_are_lost_at_one_moment_are_stood_for_one_after_the_other() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    let names: Vec<(String, String)> = (0..100).map(|number| (format!("b{number}"), format!("u{number}"))).collect();
    let all: Vec<(&str, &str)> = names.iter().map(|(name, uid)| (name.as_str(), uid.as_str())).collect();
    keepers.want(bindings(&all));
    settled().await;
    let mut stood = vec![replica.ballot.counts().0];
    for _ in 0..5 {
        passes(S / 10, &mut keepers).await;
        stood.push(replica.ballot.counts().0);
    }
    assert!(stood[0] < 10 && stood.windows(2).all(|pair| pair[1] - pair[0] < 50), "{stood:?}");
    assert_eq!(stood[5], 100);
    for (name, _) in &all {
        replica.ballot.last(name, |staged| staged.becomes(Role::Lost(Lost::Expired)));
    }
    passes(15 * S, &mut keepers).await;
    let mut stood = vec![replica.ballot.counts().0];
    for _ in 0..4 {
        passes(S, &mut keepers).await;
        stood.push(replica.ballot.counts().0);
    }
    assert!(stood[0] < 110 && stood.windows(2).all(|pair| pair[1] - pair[0] < 50), "{stood:?}");
    assert_eq!(stood[4], 200);
}

#[tokio::test(start_paused = true)]
async fn s11_a_group_that_fails_or_crashes_gives_its_lease_back_and_harms_no_other() {
    for manner in [Manner::Fails(3 * S), Manner::Breaks(3 * S)] {
        let replica = Replica::new();
        let mut keepers = replica.keepers();
        keepers.want(bindings(&[("east", "u1"), ("west", "u2")]));
        passes(S, &mut keepers).await;
        replica.ballot.last("west", Staged::leads);
        passes(S, &mut keepers).await;
        replica.groups.behaves(manner);
        replica.ballot.last("east", Staged::leads);
        passes(4 * S, &mut keepers).await;
        assert_eq!(replica.groups.tasks(), 2, "those of the other binding");
        assert!(replica.ballot.last("east", Staged::is_released), "another replica takes it");
        assert_eq!(replica.ballot.count("east"), 1);
        passes(19 * S, &mut keepers).await;
        assert_eq!(replica.ballot.count("east"), 2, "and this one stands for it again");
    }
}

/// The lease is granted, and the group fails: after how long the replica stands again.
async fn stands_again(replica: &Replica, keepers: &mut Keepers) -> u64 {
    let (begun, before) = (Instant::now(), replica.ballot.count("east"));
    replica.ballot.last("east", Staged::leads);
    for _ in 0..2000 {
        passes(S, keepers).await;
        if replica.ballot.count("east") > before {
            break;
        }
    }
    begun.elapsed().as_secs()
}

#[tokio::test(start_paused = true)]
async fn s11_a_group_that_fails_again_and_again_is_begun_ever_more_seldom_until_it_has_run_for_long() {
    let (lines, _guard) = crate::log::captured::Lines::of_warnings();
    let replica = Replica::new();
    replica.groups.behaves(Manner::Fails(S));
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(S, &mut keepers).await;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        pauses.push(stands_again(&replica, &mut keepers).await);
    }
    // From one lease duration, and a little more, to 32 of them.
    assert!((16..=20).contains(&pauses[0]) && (481..=602).contains(&pauses[5]), "{pauses:?}");
    assert!(pauses[..6].is_sorted_by(|one, next| one < next), "{pauses:?}");
    assert_eq!(pauses[6..], [pauses[5]; 2]);
    let (failed, loud) = ("ended by itself", "ERROR topoloom");
    assert_eq!((lines.count(failed), lines.count(loud)), (8, 1), "{}", lines.text());
    let series = |binding: &str, failures: u32| {
        [
            format!("topoloom_binding_group_failures_total{{binding=\"{binding}\"}} {failures}"),
            format!("topoloom_binding_group_running{{binding=\"{binding}\"}} 0"),
        ]
    };
    assert_eq!(replica.metrics(), series("east", 8));
    // It runs for more than ten minutes, and fails then.
    replica.groups.behaves(Manner::Fails(601 * S));
    let pause = stands_again(&replica, &mut keepers).await;
    assert_eq!((lines.count(failed), lines.count(loud)), (9, 2), "{}", lines.text());
    assert_eq!(pause - 601, pauses[0] - 1);
    // Its series goes with what is left of the binding, and one that only waits has none that grows.
    replica.groups.behaves(Manner::Ends(S));
    replica.groups.left.cancel();
    keepers.want(bindings(&[("west", "u2")]));
    replica.ballot.last("east", Staged::leads);
    passes(20 * S, &mut keepers).await;
    assert_eq!(replica.metrics(), series("west", 0));
}

#[tokio::test(start_paused = true)]
async fn s11_whether_a_binding_is_served_is_a_series_on_every_replica_that_stands_for_it() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(S, &mut keepers).await;
    let runs = |replica: &Replica| {
        let series = replica.metrics();
        let (_, value) = series[1].split_once("_running{binding=\"east\"} ").unwrap();
        value.to_owned()
    };
    // Its lease has no holder, and its group begins with it.
    assert_eq!(runs(&replica), "0");
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    assert_eq!(runs(&replica), "1");
    replica.ballot.last("east", |staged| staged.becomes(Role::Lost(Lost::Deleted)));
    passes(2 * S, &mut keepers).await;
    assert_eq!(runs(&replica), "0");
    // One that crashes serves nothing.
    replica.groups.behaves(Manner::Breaks(3 * S));
    passes(30 * S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    assert_eq!(runs(&replica), "1");
    passes(5 * S, &mut keepers).await;
    assert_eq!(runs(&replica), "0");
}

#[tokio::test(start_paused = true)]
async fn s11_a_binding_that_is_applied_again_ends_the_group_of_the_earlier_one_and_begins_after_that() {
    let replica = Replica::new();
    replica.groups.behaves(Manner::Ends(5 * S));
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    keepers.want(bindings(&[("east", "u2")]));
    passes(4 * S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.count("east")), (2, 1), "the earlier one has not ended");
    passes(2 * S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.count("east")), (0, 2));
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    assert_eq!(replica.groups.held().binding, id("east", "u2"));
    keepers.stop().await;
    assert!(replica.health.bindings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn s22_the_group_of_a_binding_that_is_gone_goes_on_with_open_gates_until_nothing_is_left() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1"), ("west", "u2")]));
    passes(S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    let held = replica.groups.held();
    keepers.want(Bindings::new());
    passes(1000 * S, &mut keepers).await;
    assert_eq!((held.gate.check(), held.heartbeats.check(), replica.groups.tasks()), (Ok(()), Ok(()), 2));
    // A replica that does not hold its lease cannot know what is left, and may have to continue.
    assert!(!replica.ballot.last("west", Staged::is_released));
    assert_eq!(replica.health.bindings().keys().map(|name| &**name).collect::<Vec<_>>(), ["east", "west"]);
    replica.groups.left.cancel();
    passes(S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (2, 1)));
    assert_eq!(replica.groups.told().last().map(String::as_str), Some("east/u1 leaves 1002"));
    // The holder of the other one has given its lease back.
    replica.ballot.last("west", Staged::leads);
    passes(S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (2, 2)));
    assert!(replica.health.bindings().is_empty());
    assert_eq!(replica.groups.told().last().map(String::as_str), Some("west/u2 leaves 1003"));
}

#[tokio::test(start_paused = true)]
async fn s22_a_binding_that_is_gone_is_stood_for_again_after_a_loss_and_begins_anew_where_it_is_shown_again() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    keepers.want(Bindings::new());
    passes(S, &mut keepers).await;
    // By an API server that was set back.
    keepers.want(bindings(&[("east", "u1")]));
    passes(3 * S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (2, 1)));
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    assert_eq!(replica.groups.tasks(), 2);
    keepers.want(Bindings::new());
    passes(S, &mut keepers).await;
    replica.ballot.last("east", |staged| staged.becomes(Role::Lost(Lost::Expired)));
    passes(60 * S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (3, 2)));
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    assert_eq!(replica.groups.tasks(), 2);
    keepers.stop().await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (3, 3)));
}

#[tokio::test(start_paused = true)]
async fn s22_a_binding_that_was_deleted_by_force_before_the_process_began_is_stood_for() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    let listed = bindings(&[("west", "u2")]);
    keepers.want(listed.clone());
    passes(S, &mut keepers).await;
    // Leases also keep something of bindings that exist, and of one that exists with another UID.
    let recorded = || vec![id("east", "u1"), id("west", "u0"), id("west", "u2")];
    keepers.left_behind(recorded(), &listed);
    keepers.left_behind(recorded(), &listed);
    passes(S, &mut keepers).await;
    assert_eq!((replica.ballot.count("east"), replica.ballot.count("west")), (1, 1));
    replica.ballot.last("east", Staged::leads);
    passes(1000 * S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.groups.held().binding), (2, id("east", "u1")));
    // It is applied again, and adopts what is left.
    keepers.want(bindings(&[("east", "u3"), ("west", "u2")]));
    passes(3 * S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    assert_eq!((replica.ballot.count("east"), replica.groups.held().binding), (2, id("east", "u3")));
}

#[tokio::test(start_paused = true)]
async fn s22_a_binding_of_which_nothing_is_left_when_the_process_begins_is_stood_for_once() {
    let replica = Replica::new();
    replica.groups.left.cancel();
    let mut keepers = replica.keepers();
    keepers.left_behind(vec![id("east", "u1")], &Bindings::new());
    passes(S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(60 * S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (1, 1)));
    assert!(replica.health.bindings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_group_that_finds_its_binding_gone_before_the_list_shows_it_is_no_failure() {
    let (lines, _guard) = crate::log::captured::Lines::of_warnings();
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    replica.groups.left.cancel();
    passes(S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (1, 1)));
    keepers.want(Bindings::new());
    passes(60 * S, &mut keepers).await;
    assert_eq!((replica.ballot.counts(), lines.text().as_str()), ((1, 1), ""));
}

#[tokio::test(start_paused = true)]
async fn s11_a_keeper_that_is_cut_off_gives_the_lease_back_and_leaves_no_task() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    let held = replica.groups.held();
    drop(keepers);
    settled().await;
    assert_eq!((replica.groups.tasks(), held.gate.check()), (0, Err(Closed::NotLeader)));
    assert!(replica.ballot.last("east", Staged::is_released));
}

#[tokio::test(start_paused = true)]
async fn s11_of_more_bindings_than_one_process_serves_the_oldest_are_served_and_one_that_is_added_ends_no_group() {
    let (lines, _guard) = crate::log::captured::Lines::of_warnings();
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    // The older one is, the later its name.
    let name = |number: usize| format!("b{:04}", 9999 - number);
    let of = |number: usize| {
        let created = Timestamp::from_second(i64::try_from(number).unwrap()).unwrap();
        let seen = Seen { uid: format!("u{number}").into(), created: Some(created) };
        (BindingName::parse(&name(number)).unwrap(), seen)
    };
    keepers.want((0..MOST + 10).map(of).collect());
    passes(S, &mut keepers).await;
    assert_eq!(replica.ballot.counts(), (MOST, 0));
    assert_eq!((replica.ballot.count(&name(0)), replica.ballot.count(&name(MOST))), (1, 0));
    keepers.want((0..MOST + 11).map(of).collect());
    passes(S, &mut keepers).await;
    assert_eq!(replica.ballot.counts(), (MOST, 0), "the new one is the first by name");
    assert_eq!(lines.count("more bindings than"), 1, "{}", lines.text());
    let left_out = |replica: &Replica| replica.health.report().1.lines().last().unwrap().to_owned();
    let said = "[!] bindings that no replica serves, since there are more than one process serves: 11";
    assert_eq!(left_out(&replica), said);
    // The oldest is deleted, and the next by age has its place.
    keepers.want((1..MOST + 11).map(of).collect());
    passes(S, &mut keepers).await;
    assert_eq!((replica.ballot.counts(), replica.ballot.count(&name(MOST))), ((MOST + 1, 0), 1));
    // That there are more is news again where it was not so in between.
    keepers.want((1..MOST).map(of).collect());
    keepers.want((1..MOST + 11).map(of).collect());
    assert_eq!(lines.count("more bindings than"), 2, "{}", lines.text());
    keepers.want((1..MOST).map(of).collect());
    assert!(!left_out(&replica).contains("no replica serves"), "{}", left_out(&replica));
}

#[tokio::test(start_paused = true)]
async fn that_there_can_be_no_lease_for_a_binding_is_said_once() {
    let (lines, _guard) = crate::log::captured::Lines::of_warnings();
    let replica = Replica::with_leases("");
    let mut keepers = replica.keepers();
    for wanted in [&[("east", "u1")][..], &[("east", "u1"), ("west", "u2")], &[("west", "u2")]] {
        keepers.want(bindings(wanted));
        passes(S, &mut keepers).await;
    }
    assert_eq!((lines.count("no lease for a binding"), replica.ballot.counts()), (2, (0, 0)), "{}", lines.text());
    let said = "[!] bindings that no replica serves, since there can be no lease for them: 1\n";
    assert!(replica.health.report().1.ends_with(said), "{}", replica.health.report().1);
    // It is said again of one that was deleted and made again.
    keepers.want(bindings(&[("east", "u3"), ("west", "u2")]));
    assert_eq!(lines.count("no lease for a binding"), 3, "{}", lines.text());
}

#[tokio::test(start_paused = true)]
async fn s11_what_a_group_says_is_shown_for_as_long_as_it_runs() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    keepers.want(bindings(&[("east", "u1")]));
    passes(S, &mut keepers).await;
    replica.ballot.last("east", Staged::leads);
    passes(S, &mut keepers).await;
    replica.groups.held().report.trouble("cluster", Some("its cluster has not answered for 41 s"));
    let says = || replica.health.report();
    assert_eq!(says(), (true, "[!] binding east: leads; its cluster has not answered for 41 s\n".to_owned()));
    replica.ballot.last("east", |staged| staged.becomes(Role::Lost(Lost::Expired)));
    passes(3 * S, &mut keepers).await;
    let (ready, said) = says();
    assert!(ready && said.starts_with("[!] binding east: the lease is lost: ") && !said.contains("41 s"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn s7_groups_are_notified_of_each_binding_that_is_added_and_of_no_other_change() {
    let replica = Replica::new();
    let mut keepers = replica.keepers();
    let added = || replica.groups.added.load(Ordering::SeqCst);
    let (east, west) = (("east", "u1"), ("west", "u2"));
    keepers.want(bindings(&[east]));
    assert_eq!(added(), 1);
    keepers.want(bindings(&[east]));
    assert_eq!(added(), 1);
    keepers.want(bindings(&[east, west]));
    assert_eq!(added(), 2);
    keepers.want(bindings(&[west]));
    assert_eq!(added(), 2, "one that is gone takes nothing from another");
    // Applied again it is another one; and one that a server shows again that was set back.
    keepers.want(bindings(&[("east", "u3"), west]));
    assert_eq!(added(), 3);
    keepers.want(bindings(&[west]));
    keepers.want(bindings(&[("east", "u3"), west]));
    assert_eq!(added(), 4);
    keepers.stop().await;
}
