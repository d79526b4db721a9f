//! Bindings that are handed over to other replicas, and to whom this one gives way.

use topoloom_sync::spread::{self, Announcement, COURTESY, MemberName};

use super::*;

/// The UID of a binding for which this one of two members ranks higher: this replica, or the other.
fn ranked_by(first: &str) -> String {
    let members: Vec<MemberName> = ["pod-0", "pod-1"].map(MemberName::from).into();
    let mut all = (0..).map(|number| format!("u{number}"));
    all.find(|uid| spread::first(&Uid::from(uid.as_str()), &members).map(|first| &**first) == Some(first)).unwrap()
}

fn announcement(version: u64) -> Announcement {
    Announcement { member: "pod-1".into(), version: version.to_string().into(), lasts: 15 * S }
}

/// Time passes, and the other replica announces itself all the time.
async fn passes_with_another(seconds: u64, from: u64, replica: &Replica, keepers: &mut Keepers) {
    for second in 0..seconds {
        replica.crew.saw(announcement(from + second));
        passes(S, keepers).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s11_a_binding_is_handed_over_ten_minutes_after_it_was_taken_and_the_replica_stands_again_at_once() {
    let replica = Replica::new();
    let (mine, theirs) = (ranked_by("pod-0"), ranked_by("pod-1"));
    let mut keepers = replica.keepers();
    let crew = Arc::clone(&replica.crew);
    let mut ranks = Tasks::default();
    ranks.spawn("ranks", async move { crew.rank().await });
    keepers.want(bindings(&[("east", mine.as_str()), ("west", theirs.as_str())]));
    passes(S, &mut keepers).await;
    for name in ["east", "west"] {
        replica.ballot.last(name, Staged::leads);
    }
    passes(S, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.crew.live()), (4, 1));
    passes_with_another(590, 1, &replica, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.count("west"), replica.crew.live()), (4, 1, 2));
    assert_eq!((replica.ballot.courtesy("east"), replica.ballot.courtesy("west")), (Duration::ZERO, COURTESY));
    passes_with_another(15, 591, &replica, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.count("west")), (2, 2), "it is given back");
    assert_eq!(replica.ballot.courtesy("west"), COURTESY, "and the other goes first");
    assert_eq!(replica.ballot.count("east"), 1, "this replica ranks higher for the other binding");
    // The other did not take it. This replica keeps it for ten minutes.
    replica.ballot.last("west", Staged::leads);
    passes_with_another(500, 606, &replica, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.count("west")), (4, 2));
    keepers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn s11_a_replica_gives_way_to_another_for_as_long_as_that_one_announces_itself() {
    let replica = Replica::new();
    let theirs = ranked_by("pod-1");
    let mut keepers = replica.keepers();
    let crew = Arc::clone(&replica.crew);
    let mut ranks = Tasks::default();
    ranks.spawn("ranks", async move { crew.rank().await });
    replica.crew.saw(announcement(1));
    keepers.want(bindings(&[("west", theirs.as_str())]));
    passes(S, &mut keepers).await;
    assert_eq!(replica.ballot.courtesy("west"), COURTESY);
    passes(15 * S, &mut keepers).await;
    assert_eq!(replica.ballot.courtesy("west"), Duration::ZERO, "nothing has come since");
    replica.crew.saw(announcement(2));
    passes(S, &mut keepers).await;
    assert_eq!(replica.ballot.courtesy("west"), COURTESY);
    replica.crew.left(&"pod-1".into());
    passes(S, &mut keepers).await;
    assert_eq!(replica.ballot.courtesy("west"), Duration::ZERO, "it has withdrawn");
    keepers.stop().await;
}

#[tokio::test(start_paused = true)]
async fn s11_a_binding_whose_lease_is_lost_while_it_is_handed_over_is_not_stood_for_at_once() {
    let replica = Replica::new();
    replica.groups.behaves(Manner::Ends(5 * S));
    let theirs = ranked_by("pod-1");
    let mut keepers = replica.keepers();
    let crew = Arc::clone(&replica.crew);
    let mut ranks = Tasks::default();
    ranks.spawn("ranks", async move { crew.rank().await });
    keepers.want(bindings(&[("west", theirs.as_str())]));
    passes(S, &mut keepers).await;
    replica.ballot.last("west", Staged::leads);
    // It is handed over at 601, and its group needs 5 s to end.
    passes_with_another(603, 1, &replica, &mut keepers).await;
    assert_eq!(replica.groups.told().last().map(String::as_str), Some(&*format!("west/{theirs} hears 601")));
    replica.ballot.last("west", |staged| staged.becomes(Role::Lost(Lost::Expired)));
    passes_with_another(12, 604, &replica, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.count("west")), (0, 1), "it rests as after any loss");
    passes_with_another(15, 616, &replica, &mut keepers).await;
    assert_eq!(replica.ballot.count("west"), 2);
}

#[tokio::test(start_paused = true)]
async fn s22_what_a_binding_that_is_gone_has_lent_is_handed_over_to_no_other_replica() {
    let replica = Replica::new();
    let theirs = ranked_by("pod-1");
    let mut keepers = replica.keepers();
    let crew = Arc::clone(&replica.crew);
    let mut ranks = Tasks::default();
    ranks.spawn("ranks", async move { crew.rank().await });
    keepers.want(bindings(&[("west", theirs.as_str())]));
    passes(S, &mut keepers).await;
    replica.ballot.last("west", Staged::leads);
    passes(S, &mut keepers).await;
    keepers.want(Bindings::new());
    passes_with_another(700, 1, &replica, &mut keepers).await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (2, (1, 0)));
    keepers.stop().await;
    assert_eq!((replica.groups.tasks(), replica.ballot.counts()), (0, (1, 1)));
}
