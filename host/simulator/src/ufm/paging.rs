//! The two forms of a list: an array, or a page of it in an object.

use super::ListRefusal;
use super::query::{Query, bad};
use crate::server::{Answer, Tweak};
use crate::wire::{Layout, Listing, Part, Rows, Run};
use bytes::Bytes;
use std::sync::Arc;

/// Rows of a page when only a page number is asked for; no source says what UFM takes.
const USUAL: usize = 20;

/// Keys that choose a page and are no filters.
pub(super) const KEYS: [&str; 2] = ["page_number", "rpp"];

/// Which part of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Page {
    /// The array.
    Whole,
    /// This page, from 1, of so many rows.
    One { number: usize, rows: usize },
}

impl Page {
    pub(super) fn parse(query: &Query) -> Result<Self, ListRefusal> {
        let [number, rows] = KEYS.map(|key| {
            let read = |text: &str| {
                text.parse()
                    .ok()
                    .filter(|number| *number > 0)
                    .ok_or_else(|| bad(format!("{key} must be a number from 1")))
            };
            query.get(key).map(read).transpose()
        });
        Ok(match (number?, rows?) {
            (None, None) => Self::Whole,
            (number, rows) => Self::One { number: number.unwrap_or(1), rows: rows.unwrap_or(USUAL) },
        })
    }
}

/// The rows of a list, filtered, and how many there were before.
pub(super) struct FilteredRows {
    pub(super) rows: Arc<dyn Rows>,
    pub(super) filtered: usize,
    pub(super) total: usize,
}

/// Answers a list in the form asked for.
pub(super) fn list(found: FilteredRows, page: Page, tweak: Tweak, layout: Layout) -> Answer {
    let (filtered, total) = (tweak.rows(found.filtered), tweak.rows(found.total));
    let separator: &'static [u8] = match layout {
        Layout::Indented => b"\n    ",
        Layout::Compact => b"",
    };
    let raw = |text: &str| Part::Raw(Bytes::copy_from_slice(text.as_bytes()));
    let line = if layout == Layout::Indented { "\n" } else { "" };
    let Page::One { number, rows } = page else {
        let run = Run::new(found.rows, 0..filtered);
        return Answer::listing(Listing::new([raw("["), Part::Rows(run), raw(&format!("{line}]{line}"))], separator));
    };
    let first = (number - 1).saturating_mul(rows).min(filtered);
    let last = first.saturating_add(rows).min(filtered);
    // One row came in before this page was asked for: every total is larger, and every row has moved by one.
    let moved = usize::from(tweak == Tweak::Moved && number > 1);
    let head = format!(
        "{{\"total_resources\": {}, \"filtered_resources\": {}, \"num_of_pages\": {}, \"first_index\": {}, \"last_index\": {}, \"data\": [",
        total + moved,
        filtered + moved,
        (filtered + moved).div_ceil(rows),
        if first < last { first + 1 } else { 0 },
        if first < last { last } else { 0 },
    );
    let run = Run::new(found.rows, first.saturating_sub(moved)..last.saturating_sub(moved));
    Answer::listing(Listing::new([raw(&head), Part::Rows(run), raw(&format!("{line}]}}{line}"))], separator))
}
