//! How a cache follows the objects of a kind: the one place where a list replaces what is known.
//!
//! An [`Index`] is a plain value that can be tested without a client; [`Watched`] feeds it. A list that breaks off
//! changes nothing.

use topoloom_core::version::ResourceVersion;

pub use super::restores::Earlier;

/// What happens to objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event<K> {
    /// A list begins, and what it does to what is known.
    Init(Earlier),
    /// An object of the list.
    InitApply(K),
    /// The list is whole, as of this version: what was not in it is gone.
    InitDone(ResourceVersion),
    /// An object is new or has changed.
    Apply(K),
    /// An object is gone.
    Delete(K),
}

impl<K> Event<K> {
    /// The list is whole.
    #[must_use]
    pub fn whole(version: ResourceVersion) -> Self {
        Self::InitDone(version)
    }

    /// The same for one that only looks at the object.
    #[must_use]
    pub fn by_ref(&self) -> Event<&K> {
        match self {
            Self::Init(earlier) => Event::Init(*earlier),
            Self::InitApply(object) => Event::InitApply(object),
            Self::InitDone(version) => Event::InitDone(version.clone()),
            Self::Apply(object) => Event::Apply(object),
            Self::Delete(object) => Event::Delete(object),
        }
    }

    /// Whether the API server has answered: a list was read to its end, or something happened. That a list begins, and a
    /// part of one, proves nothing.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        !matches!(self, Self::Init(_) | Self::InitApply(_))
    }
}

/// A cache of the objects of a kind.
pub trait Index<K> {
    /// What is kept of a list under way.
    type List;
    /// What a step has changed, for those that act on it.
    type Change;

    /// A list begins.
    fn begin(&mut self, earlier: Earlier) -> Self::List;

    /// An object of the list under way. Readers do not see it yet.
    fn list(&mut self, list: &mut Self::List, object: K);

    /// The list is whole, as of this version: it replaces what is known, but for what is known in a newer version.
    fn reset(&mut self, list: Self::List, version: &ResourceVersion) -> Self::Change;

    /// An object is new or has changed.
    fn apply(&mut self, object: K) -> Self::Change;

    /// An object is gone.
    fn delete(&mut self, object: K) -> Self::Change;
}

/// A watch on its way into an index.
#[derive(Debug)]
pub struct Watched<L> {
    list: Option<L>,
}

impl<L> Default for Watched<L> {
    fn default() -> Self {
        Self { list: None }
    }
}

impl<L> Watched<L> {
    /// Gives up the list that is under way.
    pub fn cut(&mut self) -> Option<L> {
        self.list.take()
    }

    /// Takes one event in. Within a list nothing changes before its end.
    pub fn take<K, I: Index<K, List = L>>(&mut self, index: &mut I, event: Event<K>) -> Option<I::Change> {
        match event {
            Event::Init(earlier) => {
                self.list = Some(index.begin(earlier));
                None
            }
            Event::InitApply(object) => {
                if let Some(list) = &mut self.list {
                    index.list(list, object);
                }
                None
            }
            Event::InitDone(version) => self.list.take().map(|list| index.reset(list, &version)),
            Event::Apply(object) => Some(index.apply(object)),
            Event::Delete(object) => Some(index.delete(object)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers.
    #[derive(Default)]
    struct Numbers(Vec<u32>);

    impl Index<u32> for Numbers {
        type List = Vec<u32>;
        type Change = usize;

        fn begin(&mut self, earlier: Earlier) -> Vec<u32> {
            if earlier == Earlier::Void {
                self.0.clear();
            }
            Vec::new()
        }

        fn list(&mut self, list: &mut Vec<u32>, object: u32) {
            list.push(object);
        }

        fn reset(&mut self, list: Vec<u32>, _: &ResourceVersion) -> usize {
            self.0 = list;
            self.0.len()
        }

        fn apply(&mut self, object: u32) -> usize {
            self.0.push(object);
            1
        }

        fn delete(&mut self, object: u32) -> usize {
            self.0.retain(|number| *number != object);
            1
        }
    }

    #[test]
    fn a_list_replaces_in_one_step_and_one_that_breaks_off_changes_nothing() {
        let (mut watched, mut index) = (Watched::default(), Numbers::default());
        let mut take = |index: &mut Numbers, events: &[Event<u32>]| {
            let changes: Vec<usize> = events.iter().filter_map(|event| watched.take(index, event.clone())).collect();
            (changes, index.0.clone())
        };
        let whole = || Event::InitDone("7".into());
        assert_eq!(take(&mut index, &[Event::InitApply(9), whole()]), (vec![], vec![]), "no list has begun");
        let list = [Event::Init(Earlier::Valid), Event::InitApply(1), Event::InitApply(2)];
        assert_eq!(take(&mut index, &list), (vec![], vec![]));
        assert_eq!(take(&mut index, &[whole(), Event::Apply(3), Event::Delete(1)]), (vec![2, 1, 1], vec![2, 3]));
        assert_eq!(take(&mut index, &list), (vec![], vec![2, 3]));
        let again = [Event::Init(Earlier::Valid), Event::InitApply(5), whole()];
        assert_eq!(take(&mut index, &again), (vec![1], vec![5]));
    }

    #[test]
    fn a_list_that_is_given_up_changes_nothing_and_the_rest_of_it_is_none() {
        let (mut watched, mut index) = (Watched::default(), Numbers::default());
        assert_eq!(watched.cut(), None);
        watched.take(&mut index, Event::Init(Earlier::Valid));
        watched.take(&mut index, Event::InitApply(1));
        assert_eq!(watched.cut(), Some(vec![1]));
        watched.take(&mut index, Event::InitApply(2));
        assert_eq!((watched.take(&mut index, Event::whole("7".into())), index.0), (None, vec![]));
    }
}
