//! Which lists of a cluster a binding has taken in, and whether it believes what they say.
//!
//! Owns four answers about a physical cluster since it was last connected: by which connection, and since which return of its server,
//! it was listed, whether all of it was, whether a list without nodes is in doubt (decision S5), and of which history of its store the
//! lists are (decision S25). Bindings share a connection and its watches, and each has answers of its own: one may have nodes that
//! another never had. Never counts a list for another connection, or for a later epoch, than the one it was taken in by.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use topoloom_sync::liveness::{Emptiness, Epoch, Listed};

use crate::feeds::WatchNews;
use crate::physical::Signs;
use crate::shared::makes_unknown;

/// How far a cluster is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// Something was not listed.
    Unlisted,
    /// It says that it has no nodes, where some are known.
    Doubted,
    /// All of it was listed.
    Listed,
}

/// Which of some lists were read to their end. Those of a history that the store has left do not count.
#[derive(Debug)]
pub struct Lists {
    all: usize,
    read: Mutex<ReadLists>,
    listing: watch::Sender<Listing>,
}

#[derive(Debug, Default)]
struct ReadLists {
    /// By which connection to a physical cluster they are read, and since which return of its server.
    of: Option<(Signs, Epoch)>,
    /// How often the store had been set back when the first of them began.
    history: u64,
    lists: BTreeSet<usize>,
    emptiness: Emptiness,
}

impl Lists {
    /// So many, of which none was.
    #[must_use]
    pub fn new(all: usize) -> Self {
        Self { all, read: Mutex::default(), listing: watch::Sender::new(Listing::Unlisted) }
    }

    /// Those of a physical cluster: nodes, pods of ours, and all other pods.
    #[must_use]
    pub fn physical() -> Self {
        Self::new(3)
    }

    /// How far the cluster is known; is notified when that changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Listing> {
        self.listing.subscribe()
    }

    /// How far it is known by this connection, since its server was gone last.
    #[must_use]
    pub fn listing(&self, signs: &Signs) -> Listing {
        let read = self.read();
        let is_this = |(of, epoch): &(Signs, Epoch)| of.is_same(signs) && *epoch == signs.epoch();
        if read.of.as_ref().is_some_and(is_this) { *self.listing.borrow() } else { Listing::Unlisted }
    }

    fn read(&self) -> MutexGuard<'_, ReadLists> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None was: the connection is another one, or its cluster was gone. `history` is how often its store was set back.
    pub(super) fn begin_again(&self, of: Option<(Signs, Epoch)>, history: u64) {
        let mut read = self.read();
        *read = ReadLists { of, history, ..ReadLists::default() };
        self.publish(&read);
    }

    /// The store was set back so often: what was read before is of another history.
    pub(super) fn set_back(&self, history: u64) {
        let mut read = self.read();
        if read.history < history {
            (read.history, read.lists) = (history, BTreeSet::new());
            self.publish(&read);
        }
    }

    /// One was, which began in this history.
    pub(super) fn add(&self, which: usize, history: u64) {
        // Its list may be the first that shows it.
        self.set_back(history);
        let mut read = self.read();
        if history < read.history {
            return;
        }
        read.lists.insert(which);
        self.publish(&read);
    }

    /// A watch of one of them met this. While it is refused another client may change unseen what was listed.
    pub(crate) fn met(&self, which: usize, news: WatchNews<'_>) {
        match news {
            WatchNews::Listed(list) | WatchNews::Opened(Some(list)) => self.add(which, list.history),
            WatchNews::Failed(refusal) if makes_unknown(refusal.reason) => self.lost(which),
            WatchNews::Changed | WatchNews::Opened(None) | WatchNews::Failed(_) => {}
        }
    }

    /// What one of them holds is not known any more: there is more than is held, or it may not be read.
    pub(super) fn lost(&self, which: usize) {
        let mut read = self.read();
        read.lists.remove(&which);
        self.publish(&read);
    }

    /// Nodes were listed, with this content. Whether that confirms an empty list that came at least this time before.
    pub(super) fn nodes(&self, content: Listed, time: Duration, now: Duration) -> bool {
        let mut read = self.read();
        read.emptiness.listed(content, now);
        self.publish(&read);
        read.emptiness.is_confirmed(time, now)
    }

    /// The nodes that an empty list confirmed as gone were forgotten.
    pub(super) fn emptied(&self) {
        let mut read = self.read();
        read.emptiness.emptied();
        self.publish(&read);
    }

    /// A connection is as good as listed once all lists are, which were asked for in this epoch of it.
    pub(super) fn tell(&self, signs: &Signs, epoch: Epoch) {
        let listing = *self.listing.borrow();
        match listing {
            Listing::Unlisted => {}
            Listing::Doubted | Listing::Listed => signs.listed(epoch),
        }
    }

    /// Ends when all were.
    pub(super) async fn whole(&self) {
        // The sender is in `self`.
        let mut changes = self.changes();
        let _ended = changes.wait_for(|listing| *listing != Listing::Unlisted).await;
    }

    /// Under the lock, so that an older answer replaces no newer one.
    fn publish(&self, read: &ReadLists) {
        let listing = if read.lists.len() < self.all {
            Listing::Unlisted
        } else if read.emptiness.is_doubted() {
            Listing::Doubted
        } else {
            Listing::Listed
        };
        self.listing.send_if_modified(|known| std::mem::replace(known, listing) != listing);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use topoloom_sync::liveness::{ContactTiming, Doubt, Reach};

    use super::*;
    use crate::physical::Clock;

    const EMPTY: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn signs() -> (Signs, Epoch) {
        let signs = Signs::new(ContactTiming::default(), &Clock::new(|| Duration::ZERO));
        let epoch = *signs.epochs().borrow();
        (signs, epoch)
    }

    fn listing(lists: &Lists) -> Listing {
        *lists.changes().borrow()
    }

    #[tokio::test]
    async fn s5_a_connection_counts_as_listed_when_its_nodes_and_all_its_pods_are() {
        let (lists, (signs, epoch)) = (Lists::physical(), signs());
        for which in [0, 1, 1, 0] {
            lists.add(which, 0);
            lists.tell(&signs, epoch);
            assert_eq!(signs.reach(), Reach::Suspect(Doubt::NotListed), "{which}");
        }
        lists.add(2, 0);
        lists.tell(&signs, epoch);
        assert_eq!(signs.reach(), Reach::Reachable);
        lists.whole().await;
        lists.begin_again(None, 0);
        assert_eq!(listing(&lists), Listing::Unlisted);
    }

    #[test]
    fn a_cluster_one_of_whose_lists_is_too_large_is_not_listed_until_that_list_is_whole() {
        let lists = Lists::physical();
        (0..3).for_each(|which| lists.add(which, 0));
        assert_eq!(listing(&lists), Listing::Listed);
        lists.lost(1);
        lists.lost(1);
        assert_eq!(listing(&lists), Listing::Unlisted);
        lists.add(0, 0);
        assert_eq!(listing(&lists), Listing::Unlisted);
        lists.add(1, 0);
        assert_eq!(listing(&lists), Listing::Listed);
    }

    #[test]
    fn s5_what_another_connection_listed_or_this_one_before_a_gap_does_not_count_for_it() {
        let passed = Arc::new(AtomicU64::new(0));
        let now = Arc::clone(&passed);
        let clock = Clock::new(move || Duration::from_secs(now.load(Ordering::Relaxed)));
        let (ours, other) =
            (Signs::new(ContactTiming::default(), &clock), Signs::new(ContactTiming::default(), &clock));
        let lists = Lists::physical();
        lists.begin_again(Some((ours.clone(), ours.epoch())), 0);
        assert_eq!(lists.listing(&ours), Listing::Unlisted);
        for history in [0, 1] {
            lists.set_back(history);
            (0..3).for_each(|which| lists.add(which, history));
            assert_eq!(
                [lists.listing(&ours), lists.listing(&other)],
                [Listing::Listed, Listing::Unlisted],
                "{history}"
            );
        }
        // The server was gone. Another binding on the same connection has listed it already.
        passed.store(100, Ordering::Relaxed);
        ours.answered();
        ours.listed(ours.epoch());
        assert_eq!((ours.reach(), lists.listing(&ours)), (Reach::Reachable, Listing::Unlisted));
        lists.begin_again(Some((ours.clone(), ours.epoch())), 1);
        (0..3).for_each(|which| lists.add(which, 1));
        assert_eq!(lists.listing(&ours), Listing::Listed);
        // What is in doubt is so for this connection alone.
        lists.nodes(Listed::NoneWhereSomeWere, EMPTY, at(100));
        assert_eq!([lists.listing(&ours), lists.listing(&other)], [Listing::Doubted, Listing::Unlisted]);
    }

    #[test]
    fn s25_what_was_listed_before_a_store_was_set_back_is_not_listed_whatever_comes_first() {
        let is_whole = |lists: &Lists| listing(lists) == Listing::Listed;
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
    fn s5_a_list_without_nodes_where_some_were_is_in_doubt_whichever_list_comes_next_until_a_later_one_agrees() {
        let lists = Lists::physical();
        assert!(!lists.nodes(Listed::NoneWhereSomeWere, EMPTY, at(10)));
        (0..3).for_each(|which| lists.add(which, 0));
        assert_eq!(listing(&lists), Listing::Doubted);
        lists.add(1, 0);
        assert_eq!(listing(&lists), Listing::Doubted);
        assert!(!lists.nodes(Listed::NoneWhereSomeWere, EMPTY, at(39)));
        assert!(lists.nodes(Listed::NoneWhereSomeWere, EMPTY, at(40)));
        assert_eq!(listing(&lists), Listing::Doubted, "until the cache has forgotten them");
        lists.emptied();
        assert_eq!(listing(&lists), Listing::Listed);
        // They are there again.
        assert!(!lists.nodes(Listed::NoneWhereSomeWere, EMPTY, at(50)));
        assert!(!lists.nodes(Listed::Some, EMPTY, at(90)));
        assert_eq!(listing(&lists), Listing::Listed);
    }

    #[test]
    fn s5_of_two_bindings_on_one_connection_each_doubts_by_itself() {
        let ((signs, epoch), one, other) = (signs(), Lists::physical(), Lists::physical());
        for (lists, content) in [(&one, Listed::NoneWhereSomeWere), (&other, Listed::Some)] {
            lists.nodes(content, EMPTY, at(10));
            (0..3).for_each(|which| lists.add(which, 0));
            lists.tell(&signs, epoch);
        }
        // The one that never had any nodes takes nothing away from the doubt of the other, and is not held up by it.
        assert_eq!(
            (listing(&one), listing(&other), signs.reach()),
            (Listing::Doubted, Listing::Listed, Reach::Reachable)
        );
        assert!(one.nodes(Listed::NoneWhereSomeWere, EMPTY, at(40)) && !other.nodes(Listed::Some, EMPTY, at(40)));
    }
}
