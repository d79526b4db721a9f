//! The policies of lenders: the watch of them, and their status (`bottomup-syncer.md` section 10, decisions D2, S7, S8, S9, S18).
//!
//! | room | owns |
//! |---|---|
//! | [`feed`] | policies on their way into the view, and which nodes look at a change |
//! | [`gone`] | when policies that were found gone are believed to be gone |
//! | [`status`] | the controller that writes their status, at once after a change and exactly at each boundary |
//!
//! Never adds a finalizer: everything is computed from what is there, and a dead borrower must not block the lender. Never writes the
//! status of a policy that names another binding.
//!
//! # Failure story
//!
//! The definition is missing, or the right to read policies is: then they are not known, which is not the same as that there are
//! none. Nodes stay as they are until they can be read again, and a condition names what is missing. A status that cannot be
//! written changes nothing about what is in force, and is tried again; what it would have announced counts as not announced.

pub mod feed;
pub mod gone;
pub mod status;

use std::sync::Arc;

pub use feed::PolicyFeed;
pub use gone::GonePolicies;
pub use status::{PolicyClients, PolicyStatuses};

/// The name of a policy.
pub type PolicyName = Arc<str>;
