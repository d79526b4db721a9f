//! How many Binds may wait at a time, in all and for one node, and how many may be under way.
//!
//! Each holds a connection of its caller. One that would be too many is answered with contention at once, and asks again
//! later: so connections are left for the filter, and for pods whose node is free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use topoloom_core::nodelock::NodeName;
use topoloom_core::nodelock::attempt::Full;

/// A single node that is held takes one of so many parts of the seats, so that the pods of others can wait, too.
const PARTS: usize = 4;

/// The bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrowdBounds {
    /// Binds that wait.
    pub waiting: usize,
    /// Binds under way, those included.
    pub under_way: usize,
}

impl CrowdBounds {
    /// No limit.
    pub const NONE: Self = Self { waiting: usize::MAX, under_way: usize::MAX };

    /// Binds that wait for one node.
    #[must_use]
    pub fn for_node(&self) -> usize {
        (self.waiting / PARTS).max(1)
    }
}

/// The Binds of a process.
#[derive(Debug)]
pub struct Crowd {
    bounds: CrowdBounds,
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    under_way: usize,
    waiting: usize,
    nodes: HashMap<NodeName, usize>,
}

/// One Bind under way, until this is dropped.
#[derive(Debug)]
pub struct BindSeat {
    crowd: Arc<Crowd>,
    node: NodeName,
    waits: bool,
}

impl Crowd {
    /// No Bind waits yet.
    #[must_use]
    pub fn new(bounds: CrowdBounds) -> Arc<Self> {
        Arc::new(Self { bounds, inside: Mutex::default() })
    }

    /// One more Bind for this node.
    ///
    /// # Errors
    /// When too many are under way.
    pub fn enter(self: &Arc<Self>, node: &NodeName) -> Result<BindSeat, Full> {
        let mut inside = self.lock();
        if inside.under_way >= self.bounds.under_way {
            return Err(Full::UnderWay(inside.under_way));
        }
        inside.under_way += 1;
        Ok(BindSeat { crowd: Arc::clone(self), node: node.clone(), waits: false })
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.lock().waiting
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BindSeat {
    /// It is going to wait. A seat that it has is its own until the end: it is not turned away when it waits again.
    ///
    /// # Errors
    /// When too many do.
    pub fn wait(&mut self) -> Result<(), Full> {
        if self.waits {
            return Ok(());
        }
        let bounds = self.crowd.bounds;
        let mut inside = self.crowd.lock();
        if inside.waiting >= bounds.waiting {
            return Err(Full::Waiting(inside.waiting));
        }
        let here = inside.nodes.entry(self.node.clone()).or_default();
        if *here >= bounds.for_node() {
            return Err(Full::Node(*here));
        }
        *here += 1;
        inside.waiting += 1;
        drop(inside);
        self.waits = true;
        Ok(())
    }
}

impl Drop for BindSeat {
    fn drop(&mut self) {
        let mut inside = self.crowd.lock();
        inside.under_way = inside.under_way.saturating_sub(1);
        if !self.waits {
            return;
        }
        inside.waiting = inside.waiting.saturating_sub(1);
        if let Some(here) = inside.nodes.get_mut(&self.node) {
            *here = here.saturating_sub(1);
            if *here == 0 {
                inside.nodes.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: CrowdBounds = CrowdBounds { waiting: 8, under_way: 10 };

    #[test]
    fn one_node_takes_a_part_of_the_seats_and_all_nodes_take_no_more_than_there_are() {
        let crowd = Crowd::new(BOUNDS);
        let mut places = Vec::new();
        for node in ["a", "b", "c", "d"] {
            for _ in 0..2 {
                let mut place = crowd.enter(&node.into()).expect("there is room");
                assert_eq!((place.wait(), place.wait()), (Ok(()), Ok(())), "a seat is kept");
                places.push(place);
            }
        }
        let mut late = crowd.enter(&"e".into()).expect("there is room");
        assert_eq!((late.wait(), crowd.waiting()), (Err(Full::Waiting(8)), 8));
        drop(places.pop());
        let mut same = crowd.enter(&"a".into()).expect("there is room");
        assert_eq!((same.wait(), late.wait()), (Err(Full::Node(2)), Ok(())));
        drop((places, late, same));
        assert!(crowd.lock().nodes.is_empty(), "nothing is kept of a node without waiting Binds");
    }

    #[test]
    fn those_under_way_are_bounded_also_where_none_waits() {
        let crowd = Crowd::new(BOUNDS);
        let mut places: Vec<BindSeat> = (0..10).filter_map(|_| crowd.enter(&"a".into()).ok()).collect();
        assert_eq!((places.len(), crowd.enter(&"b".into()).err()), (10, Some(Full::UnderWay(10))));
        places.pop();
        assert!(crowd.enter(&"b".into()).is_ok());
        let alone = Crowd::new(CrowdBounds { waiting: 1, under_way: 2 });
        let mut first = alone.enter(&"a".into()).expect("there is room");
        assert_eq!(first.wait(), Ok(()), "a single seat is for any node");
    }
}
