//! Objects as small numbers, and one value per object.

use std::ops::{Index, IndexMut};

/// One object of the world. Numbers follow the order of the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(pub(super) usize);

/// One value per object.
#[derive(Debug, Clone)]
pub(super) struct Table<T>(Vec<T>);

impl<T> Table<T> {
    pub(super) fn with(size: usize, value: impl FnMut(Id) -> T) -> Self {
        Self((0..size).map(Id).map(value).collect())
    }

    pub(super) fn of(values: Vec<T>) -> Self {
        Self(values)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = Id> + use<T> {
        (0..self.0.len()).map(Id)
    }
}

impl<T> Index<Id> for Table<T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        self.0.get(id.0).expect("a world numbers its objects and sizes every table by them")
    }
}

impl<T> IndexMut<Id> for Table<T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        self.0.get_mut(id.0).expect("a world numbers its objects and sizes every table by them")
    }
}
