//! The nodes of the cluster: rows, one column per label or annotation, names.
//!
//! Nodes are rows, 0 to `rows`-1, in no particular order, valid for this call only. A string costs a copy
//! into the guest, a number hardly anything: so a column has each distinct value once.

use crate::{Column, Packed};

/// A node, as its row number in the snapshot of this call.
///
/// ```
/// use topoloom_sdk::prelude::*;
///
/// fn all(nodes: &Nodes<'_>) -> Vec<Row> {
///     (0..nodes.rows()).collect()
/// }
/// ```
pub type Row = u32;

#[cfg(target_arch = "wasm32")]
type SnapshotSource = crate::bindings::topoloom::discovery::nodes::Snapshot;
#[cfg(not(target_arch = "wasm32"))]
type SnapshotSource = crate::testing::Cluster;

/// One consistent view of the nodes.
///
/// ```
/// use topoloom_sdk::prelude::*;
///
/// fn racks(nodes: &Nodes<'_>) -> usize {
///     nodes.label("rack").by_value().len()
/// }
/// ```
// A static type per target, not a trait object: a vtable would keep every import alive in every component.
#[derive(Debug, Clone, Copy)]
pub struct Nodes<'a> {
    source: &'a SnapshotSource,
}

impl<'a> Nodes<'a> {
    pub(crate) fn of(source: &'a SnapshotSource) -> Self {
        Self { source }
    }

    /// How many nodes there are.
    ///
    /// ```
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn is_empty(nodes: &Nodes<'_>) -> bool {
    ///     nodes.rows() == 0
    /// }
    /// ```
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.source.rows()
    }

    /// Grows with every change of a node. For log lines.
    ///
    /// ```
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn say(nodes: &Nodes<'_>) {
    ///     topoloom_sdk::log::debug(&format!("generation {}", nodes.generation()));
    /// }
    /// ```
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.source.generation()
    }

    /// The column of a label key of the requirements. Any other key is absent on every node.
    ///
    /// ```
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn racks(nodes: &Nodes<'_>) -> Column {
    ///     nodes.label("rack")
    /// }
    /// ```
    #[must_use]
    pub fn label(&self, key: &str) -> Column {
        self.source.label(key)
    }

    /// The column of an annotation key of the requirements.
    ///
    /// ```
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn switches(nodes: &Nodes<'_>) -> Column {
    ///     nodes.annotation("example.com/switch")
    /// }
    /// ```
    #[must_use]
    pub fn annotation(&self, key: &str) -> Column {
        #[cfg(target_arch = "wasm32")]
        let column = self.source.annotation(key);
        #[cfg(not(target_arch = "wasm32"))]
        let column = self.source.annotation_column(key);
        column
    }

    /// The names of all nodes, by row. Copies all names; prefer [`Nodes::find`].
    ///
    /// ```
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn of_one_prefix(nodes: &Nodes<'_>) -> usize {
    ///     nodes.names().iter().filter(|name| name.starts_with("gpu-")).count()
    /// }
    /// ```
    #[must_use]
    pub fn names(&self) -> Packed {
        self.source.names()
    }

    /// The rows of nodes with these names; `None` where there is no such node.
    ///
    /// ```
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn rows(nodes: &Nodes<'_>, names: &[String]) -> Vec<Row> {
    ///     nodes.find(names).into_iter().flatten().collect()
    /// }
    /// ```
    pub fn find<S: AsRef<str>>(&self, names: impl IntoIterator<Item = S>) -> Vec<Option<Row>> {
        let names: Packed = names.into_iter().collect();
        self.source.find(&names).into_iter().map(|found| found.checked_sub(1)).collect()
    }
}

impl Column {
    /// The value of a node; `None` when the node lacks the key.
    ///
    /// ```
    /// let column: topoloom_sdk::Column = [Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    /// assert_eq!((column.value(2), column.value(1)), (Some("b"), None));
    /// ```
    #[must_use]
    pub fn value(&self, row: Row) -> Option<&str> {
        self.text(self.code(row))
    }

    /// The value of each node, by row.
    ///
    /// ```
    /// let column: topoloom_sdk::Column = [Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    /// assert_eq!(column.values().flatten().count(), 3);
    /// ```
    pub fn values(&self) -> impl Iterator<Item = Option<&str>> + '_ {
        self.codes.iter().map(|&code| self.text(code))
    }

    /// The nodes of each value that at least one node has, rows in ascending order.
    ///
    /// ```
    /// let column: topoloom_sdk::Column = [Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    /// assert_eq!(column.by_value(), [("a", vec![0, 3]), ("b", vec![2])]);
    /// ```
    #[must_use]
    pub fn by_value(&self) -> Vec<(&str, Vec<Row>)> {
        let lists = rows_by_code(&self.codes, self.dictionary.len());
        self.dictionary.iter().zip(lists).filter(|(_, rows)| !rows.is_empty()).collect()
    }

    /// For loops where comparing strings costs too much: nodes of one column have the same code exactly when they have the
    /// same value. 0 means that the node lacks the key.
    ///
    /// ```
    /// let column: topoloom_sdk::Column = [Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    /// assert!(column.code(0) == column.code(3) && column.code(1) == 0);
    /// ```
    #[must_use]
    pub fn code(&self, row: Row) -> u32 {
        self.codes.get(row as usize).copied().unwrap_or(0)
    }

    /// The value behind a code.
    ///
    /// ```
    /// let column: topoloom_sdk::Column = [Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    /// assert_eq!(column.text(column.code(2)), Some("b"));
    /// ```
    #[must_use]
    pub fn text(&self, code: u32) -> Option<&str> {
        self.dictionary.get((code as usize).checked_sub(1)?)
    }
}

/// Splits rows by code: list `n` holds the rows with code `n + 1`, each in ascending order and of exact size.
///
/// Rows with code 0 or above `lists` are in none. Two passes over numbers: a million rows cost a few milliseconds.
///
/// ```
/// assert_eq!(topoloom_sdk::nodes::rows_by_code(&[1, 0, 2, 1], 2), [vec![0, 3], vec![2]]);
/// ```
#[must_use]
pub fn rows_by_code(codes: &[u32], lists: usize) -> Vec<Vec<Row>> {
    let slot = |code: u32| (code as usize).wrapping_sub(1);
    let mut sizes = vec![0_usize; lists];
    for &code in codes {
        if let Some(size) = sizes.get_mut(slot(code)) {
            *size += 1;
        }
    }
    let mut rows: Vec<Vec<Row>> = sizes.into_iter().map(Vec::with_capacity).collect();
    for (row, &code) in (0..).zip(codes) {
        if let Some(list) = rows.get_mut(slot(code)) {
            list.push(row);
        }
    }
    rows
}

/// A column from one value per row, for tests and for values that a discoverer derives itself.
impl<S: AsRef<str>> FromIterator<Option<S>> for Column {
    fn from_iter<I: IntoIterator<Item = Option<S>>>(values: I) -> Self {
        let mut known = std::collections::HashMap::new();
        let mut dictionary = Packed::default();
        let mut codes = Vec::new();
        for value in values {
            codes.push(value.map_or(0, |value| {
                let next = u32::try_from(dictionary.len() + 1).unwrap_or(u32::MAX);
                *known.entry(value.as_ref().to_owned()).or_insert_with(|| {
                    dictionary.push(value.as_ref());
                    next
                })
            }));
        }
        Self { dictionary, codes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_groups_rows_by_value() {
        let column: Column = [Some("a"), None, Some("b"), Some("a")].into_iter().collect();
        assert_eq!(column.by_value(), [("a", vec![0, 3]), ("b", vec![2])]);
        assert_eq!(column.values().collect::<Vec<_>>(), [Some("a"), None, Some("b"), Some("a")]);
        assert_eq!((column.value(3), column.value(9)), (Some("a"), None));
    }

    #[test]
    fn a_code_beyond_the_dictionary_is_no_value() {
        let column = Column { dictionary: ["a"].iter().collect(), codes: vec![1, 7] };
        assert_eq!(column.by_value(), [("a", vec![0])]);
        assert_eq!(column.value(1), None);
    }
}
