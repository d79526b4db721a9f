use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use topoloom_cluster::requests;
use topoloom_sync::liveness::{ContactTiming, Doubt, Reach};

use super::*;
use crate::kubeconfig::tests::access;
use crate::physical::{Clock, Dialer, Registry};

fn signs() -> (Signs, Epoch) {
    let signs = Signs::new(ContactTiming::default(), &Clock::new(|| Duration::ZERO));
    let epoch = *signs.epochs().borrow();
    (signs, epoch)
}

#[tokio::test]
async fn a_watch_of_the_virtual_cluster_that_crashes_takes_its_group_with_it() {
    let mut tasks: JoinSet<()> = JoinSet::new();
    tasks.spawn(async {});
    tokio::task::yield_now().await;
    assert!(crashed(&mut tasks).now_or_never().is_none(), "one that has ended otherwise");
    tasks.spawn(async {
        panic!("a mistake");
    });
    let panic = AssertUnwindSafe(crashed(&mut tasks)).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a mistake"));
}

#[tokio::test]
async fn s5_a_connection_counts_as_listed_when_its_nodes_and_all_its_pods_are() {
    let (lists, (signs, epoch)) = (Lists::physical(), signs());
    for which in [0, 1, 1, 0] {
        lists.add(which, 0);
        lists.tell(&signs, Listed::Some, epoch);
        assert_eq!(signs.reach(), Reach::Suspect(Doubt::NotListed), "{which}");
    }
    lists.add(2, 0);
    lists.tell(&signs, Listed::Some, epoch);
    assert_eq!(signs.reach(), Reach::Reachable);
    lists.whole().await;
    lists.begin_again(None, 0);
    assert!(!*lists.changes().borrow());
}

#[test]
fn a_cluster_one_of_whose_lists_is_too_large_is_not_listed_until_that_list_is_whole() {
    let lists = Lists::physical();
    let is_whole = || *lists.changes().borrow();
    (0..3).for_each(|which| lists.add(which, 0));
    assert!(is_whole());
    lists.lost(1);
    lists.lost(1);
    assert!(!is_whole());
    lists.add(0, 0);
    assert!(!is_whole());
    lists.add(1, 0);
    assert!(is_whole());
}

#[test]
fn s5_what_another_connection_listed_or_this_one_before_a_gap_does_not_count_for_it() {
    let passed = Arc::new(AtomicU64::new(0));
    let now = Arc::clone(&passed);
    let clock = Clock::new(move || Duration::from_secs(now.load(Ordering::Relaxed)));
    let (ours, other) = (Signs::new(ContactTiming::default(), &clock), Signs::new(ContactTiming::default(), &clock));
    let lists = Lists::physical();
    lists.begin_again(Some((ours.clone(), ours.epoch())), 0);
    assert!(!lists.are_of(&ours));
    for history in [0, 1] {
        lists.set_back(history);
        (0..3).for_each(|which| lists.add(which, history));
        assert_eq!([lists.are_of(&ours), lists.are_of(&other)], [true, false], "{history}");
    }
    // The server was gone. Another binding on the same connection has listed it already.
    passed.store(100, Ordering::Relaxed);
    ours.answered();
    ours.listed(Listed::Some, ours.epoch());
    assert_eq!((ours.reach(), lists.are_of(&ours)), (Reach::Reachable, false));
    lists.begin_again(Some((ours.clone(), ours.epoch())), 1);
    (0..3).for_each(|which| lists.add(which, 1));
    assert!(lists.are_of(&ours));
}

#[tokio::test]
async fn s5_each_connection_and_each_return_of_its_cluster_begins_anew() {
    let passed = Arc::new(AtomicU64::new(0));
    let now = Arc::clone(&passed);
    let clock = Clock::new(move || Duration::from_secs(now.load(Ordering::Relaxed)));
    let metrics = requests::Metrics::register(&mut prometheus_client::registry::Registry::default());
    let connections = Registry::new(Dialer::new(&metrics, 1), clock);
    // Names that never resolve (RFC 6761, 6.4).
    let physical = |cluster: &str| {
        let connection = connections.open(&access(&format!("https://{cluster}.invalid:6443"), "t")).unwrap();
        connections.share(&cluster.into(), connection, ContactTiming::default())
    };
    let (first, second) = (physical("c1"), physical("c2"));
    let (sender, begun) = (watch::Sender::new(None), Mutex::new(Vec::new()));
    let begins =
        |physical: &Physical, epoch: Epoch| begun.lock().unwrap().push((physical.cluster().to_string(), epoch));
    let mut watches = std::pin::pin!(connected(sender.subscribe(), begins, |_, _| std::future::pending()));
    let mut look = || {
        assert!(watches.as_mut().now_or_never().is_none());
        std::mem::take(&mut *begun.lock().unwrap())
    };
    assert!(look().is_empty());
    sender.send_replace(Some(Arc::clone(&first)));
    let epoch = first.signs().epoch();
    assert_eq!(look(), [("c1".to_owned(), epoch)]);
    assert!(look().is_empty());
    passed.store(100, Ordering::Relaxed);
    first.signs().answered();
    assert_ne!(first.signs().epoch(), epoch);
    assert_eq!(look(), [("c1".to_owned(), first.signs().epoch())]);
    sender.send_replace(Some(Arc::clone(&second)));
    assert_eq!(look(), [("c2".to_owned(), second.signs().epoch())]);
}

#[test]
fn s25_what_was_listed_before_a_store_was_set_back_is_not_listed_whatever_comes_first() {
    let is_whole = |lists: &Lists| *lists.changes().borrow();
    let lists = Lists::physical();
    (0..3).for_each(|which| lists.add(which, 0));
    assert!(is_whole(&lists));
    lists.set_back(1);
    assert!(!is_whole(&lists));
    // A list that was under way, and then the new ones.
    (0..3).for_each(|which| lists.add(which, 0));
    assert!(!is_whole(&lists));
    (0..3).for_each(|which| lists.add(which, 1));
    assert!(is_whole(&lists));
    lists.set_back(1);
    assert!(is_whole(&lists), "it is known");
    // The first list that shows the next one comes before the news of it.
    lists.add(0, 2);
    assert!(!is_whole(&lists));
    lists.set_back(2);
    (1..3).for_each(|which| lists.add(which, 2));
    assert!(is_whole(&lists));
    // Another cluster, whose store was never set back.
    lists.begin_again(None, 0);
    (0..3).for_each(|which| lists.add(which, 0));
    assert!(is_whole(&lists));
}

#[test]
fn s5_a_list_without_nodes_where_some_were_is_in_doubt_whichever_list_comes_next() {
    let (lists, (signs, epoch)) = (Lists::physical(), signs());
    (0..3).for_each(|which| lists.add(which, 0));
    lists.tell(&signs, Listed::NoneWhereSomeWere, epoch);
    assert_eq!(signs.reach(), Reach::Suspect(Doubt::Empty));
    lists.tell(&signs, Listed::NoneWhereSomeWere, epoch);
    assert_eq!(signs.reach(), Reach::Suspect(Doubt::Empty));
    lists.tell(&signs, Listed::Some, epoch);
    assert_eq!(signs.reach(), Reach::Reachable);
}

#[test]
fn s8_policies_that_may_not_be_read_are_not_known() {
    for reason in RefusalReason::ALL {
        let wanted = [
            RefusalReason::Forbidden,
            RefusalReason::Unauthorized,
            RefusalReason::NoSuchResource,
            RefusalReason::TooLarge,
        ];
        assert_eq!(makes_unknown(reason), wanted.contains(&reason), "{reason:?}");
    }
}
