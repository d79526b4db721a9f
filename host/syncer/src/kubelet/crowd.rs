//! How many streams there may be at the same time: in all, and for one caller.
//!
//! Owns the counting. A request takes its place before anything is asked or read for it, and keeps one until its stream has ended. A caller is a
//! user: all API servers of a cluster are one, so a caller may have half of all, and another one still finds places.
//!
//! What goes wrong: a caller that opens more is refused at once, and waits for nothing. Its open streams go on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many streams there may be. Each has a connection to an API server of either cluster, and 32 KiB of bytes under way, or 64 KiB
/// of a log.
pub const STREAMS: usize = 1_000;
/// How many streams one user may have.
pub const STREAMS_OF_ONE: usize = 500;

/// The places.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    most_of_one: usize,
    inside: Mutex<BTreeMap<Arc<str>, usize>>,
}

/// The place of one stream, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    crowd: Arc<Crowd>,
    user: Arc<str>,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// There are so many streams already.
    All(usize),
    /// The caller has so many already.
    One(usize),
}

impl Crowd {
    pub(super) fn new(most: usize, most_of_one: usize) -> Arc<Self> {
        Arc::new(Self { most, most_of_one, inside: Mutex::default() })
    }

    fn inside(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, usize>> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a stream of this user.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn enter(self: &Arc<Self>, user: &str) -> Result<Place, Full> {
        let mut inside = self.inside();
        if inside.values().sum::<usize>() >= self.most {
            return Err(Full::All(self.most));
        }
        let user: Arc<str> = user.into();
        let count = inside.entry(Arc::clone(&user)).or_default();
        if *count >= self.most_of_one {
            return Err(Full::One(self.most_of_one));
        }
        *count += 1;
        Ok(Place { crowd: Arc::clone(self), user })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut inside = self.crowd.inside();
        if let Some(count) = inside.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                inside.remove(&self.user);
            }
        }
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(most) => {
                write!(f, "{most} streams to lent pods are open or asked for, which is the most; try again later")
            }
            Self::One(most) => {
                write!(
                    f,
                    "this user has {most} streams to lent pods open or asked for, which is the most for one; close some of them"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s26_streams_are_bounded_in_all_and_for_one_user_and_a_stream_that_ends_makes_room() {
        let crowd = Crowd::new(3, 2);
        let (first, second) = (crowd.enter("a").unwrap(), crowd.enter("a").unwrap());
        assert_eq!(crowd.enter("a").unwrap_err(), Full::One(2));
        let third = crowd.enter("b").unwrap();
        assert_eq!(crowd.enter("b").unwrap_err(), Full::All(3));
        assert_eq!(crowd.enter("c").unwrap_err(), Full::All(3));
        drop(first);
        let fourth = crowd.enter("c").unwrap();
        drop((second, third, fourth));
        assert!(crowd.inside().is_empty(), "nothing is left of users without streams");
    }
}
