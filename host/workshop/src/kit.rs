//! The conformance kit: what a plugin promises, each promise tried on the component itself.
//!
//! Owns the checks ([`check::Check`]), what is asked for each, and what was found ([`report::Report`]). Needs a plugin that can be
//! asked ([`Stand`]) and the cases of its vendor ([`Trial`]), no cluster and no network. Never builds, never compares an answer
//! with the expected one of a case: the room of the cases does that, and the result is an argument.
//!
//! ```text
//! FileFacts ─► file ┐
//! Stand ─► describe ├─► Ledger ─► Report ─► text, JUnit, JSON
//!   │  └─► configure┤      ▲
//!   └─ Trial ─► Prepared ─► base ─► sound, function, state, identities, http, measure, swap
//! ```
//!
//! A check knows nothing of what a plugin means. It asks for something whose answer must have a known relation to another
//! answer: the same rows in another order, the same document cut off. So it holds for every plugin and in every language.
//!
//! # Failure story
//!
//! A check that fails takes the checks with it that build on it ([`Check::needs`]): one mistake is one finding. A plugin that
//! hangs costs its limit, which is checked by a host's own clock. What the kit itself cannot do is an error of the check that
//! wanted it, never silence; and a check that has nothing to try says what is missing.

mod bad_day;
pub mod check;
mod configure;
mod describe;
mod file;
mod function;
mod http;
mod identities;
pub mod junit;
mod measure;
mod objects;
pub mod report;
mod round;
mod schema;
mod sound;
mod stand;
mod state;
mod swap;
mod trial;

pub use check::{Check, Family};
pub use file::FileFacts;
pub use report::Report;
pub use stand::{Ask, Replied, Stand};
pub use trial::{Expected, Node, Time, Trial};

use std::cell::Cell;

use report::Ledger;
use round::Prepared;
use topoloom_core::plugin::ImportSet;

/// What is examined.
#[derive(Debug)]
pub struct Exam<'a, S> {
    /// The file.
    pub file: FileFacts,
    /// The plugin in it, or why a host refuses it.
    pub plugin: Result<&'a S, String>,
    /// The cases of its vendor.
    pub trials: &'a [Trial],
    /// An earlier version that it would replace.
    pub against: Option<&'a S>,
    /// Numbers of nodes at which it is measured.
    pub sizes: &'a [usize],
    /// Label keys that only the host writes.
    pub reserved_labels: &'a [&'a str],
}

/// The numbers of nodes at which a plugin is measured: a small cluster and a large one.
pub const SIZES: [usize; 2] = [1_000, 10_000];

/// Tries every check.
pub async fn run<S: Stand>(exam: &Exam<'_, S>) -> Report {
    let mut ledger = Ledger::default();
    let (refused, limits) = match &exam.plugin {
        Ok(stand) => (None, Some(stand.limits())),
        Err(why) => (Some(why.as_str()), None),
    };
    file::run(&exam.file, refused, limits, &mut ledger);
    if let Ok(stand) = exam.plugin {
        // Each is as large as its longest wait; on the heap they do not add up.
        Box::pin(ask(exam, stand, &mut ledger)).await;
    }
    if exam.against.is_none() {
        ledger.skip_all(&swap::CHECKS, "no earlier version was given with --against");
    }
    ledger.fill();
    ledger.report()
}

async fn ask<S: Stand>(exam: &Exam<'_, S>, stand: &S, ledger: &mut Ledger) {
    let schema = Box::pin(describe::run(stand, exam.trials, ledger)).await;
    let needs = Box::pin(configure::run(stand, schema.as_ref(), exam.trials, ledger)).await;
    let called = Cell::new(ImportSet::default());
    let prepared = exam.trials.iter().zip(&needs).filter_map(|(trial, need)| {
        let need = need.as_ref()?;
        Some(Prepared::new(trial, need, stand, exam.reserved_labels, &called))
    });
    let based = Box::pin(sound::answers(stand, prepared.collect(), ledger)).await;
    // What compares two answers builds on this one, and what has a history of nodes on the family.
    Box::pin(function::twice(stand, &based, ledger)).await;
    Box::pin(function::run(stand, &based, ledger)).await;
    sound::expected(exam.trials, ledger);
    Box::pin(sound::run(stand, &based, ledger)).await;
    Box::pin(state::run(stand, &based, ledger)).await;
    Box::pin(identities::run(stand, &based, ledger)).await;
    Box::pin(http::run(stand, &based, ledger)).await;
    Box::pin(measure::run(stand, &based, exam.sizes, ledger)).await;
    file::imports(stand.imports(), called.get(), !based.is_empty(), ledger);
    if let Some(old) = exam.against {
        Box::pin(swap::run((old, stand), exam.trials, &needs, &based, ledger)).await;
    }
}

#[cfg(test)]
mod tests;
