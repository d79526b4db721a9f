//! HyperNode topologies: from the answer of a discoverer to a plan of writes.
//!
//! ```text
//! Topology ─► validate ─► Forest ─► merge ─► name ─► Named ─► guard ─► diff ─► Plan
//!  (answer)               (valid)  (additions (names and     (H6)            (H7)
//!                                   only)      adoption)
//! ```
//!
//! Owns the types on that line and the functions between them. Never reads or writes the cluster: the host observes the
//! [`Object`]s and executes the [`Plan`].
//!
//! # Failure story
//!
//! An answer that breaks a rule is refused as a whole, with every broken rule ([`Violations`]). A valid answer may
//! still contain something that cannot be written now: a name or a child that another source or person owns. [`Named`]
//! and [`Plan`] report that beside what can be written. A plan that fails half-way leaves a valid forest in the
//! cluster; the next round plans again from there.

mod canonical;
pub mod decide;
mod diff;
mod forest;
pub mod guard;
mod merge;
pub mod model;
mod naming;
mod observed;
pub mod pattern;
pub mod plan;
#[cfg(test)]
mod properties;
pub(crate) mod select;
mod validate;

pub use crate::rules::{Kind, Tier};
pub use diff::diff;
pub use forest::{Domain, DomainOrigin, Finding, FindingSubject, Forest, Overlap, Overlaps, ResultHash};
pub use merge::merge_additions;
pub use model::{
    Coverage, Diagnostic, Group, LabelOperator, LabelRequirement, LabelSelector, Member, MemberKind, Members, Object,
    Selector, Spec, Subject, Topology,
};
pub use naming::{Desired, NameConflict, NameInput, Named, TierNameConflict, TierNameUse, TierNames, name};
pub use observed::{Observed, Wanted};
pub use plan::Plan;
pub use validate::{BrokenRule, SelectorProblem, ValidateInput, Violation, Violations, validate};
