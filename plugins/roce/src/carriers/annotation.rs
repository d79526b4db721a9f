//! Entries that nodes carry themselves, as the value of one annotation.

use crate::document::{Author, Entry, Rules, Sheet, Speaker};
use topoloom_sdk::{Column, Packed};

/// The entries of all nodes that have one. A node with an unusable entry is reported and counts as one without.
pub(crate) fn annotations(column: &Column, names: &Packed, rules: &Rules) -> Sheet {
    let mut sheet = Sheet::default();
    sheet.by = Author::Nodes;
    for (name, value) in names.iter().zip(column.values()) {
        let Some(value) = value else { continue };
        let added = Entry::parse(value.as_bytes(), Speaker::Node(name), rules).and_then(|entry| sheet.add(name, entry));
        if let Err(why) = added {
            sheet.reject("bad-entry", name, why);
        }
    }
    sheet
}
