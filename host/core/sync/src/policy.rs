//! Policies of lenders: what one says, whether it may be applied, which one is in force on a node, and what its status says
//! (`bottomup-syncer.md` 2.2, 6.3 and 10, decisions D1, D2, D5, D6, D8 to D10, S2, S8, S17, S18).
//!
//! | room | owns |
//! |---|---|
//! | [`spec`] | the fields of a policy as they are written |
//! | [`terms`] | what a valid policy says, in types that hold nothing else |
//! | [`validate`] | from the one to the other, or every problem with field, value and range |
//! | [`announced`] | since when a status has announced that windows close |
//! | [`object`] | one policy of a cluster: what of it may be applied |
//! | [`in_force`] | the policies of a cluster in their order, and which one is in force on a node |
//! | [`growth`] | whether a node may become larger after its policy is gone |
//! | [`shadow`] | policies that are in force nowhere |
//! | [`status`] | what the status of a policy has to be |
//!
//! **An invalid policy is never applied.** Its last valid version stays in force, also after a restart, since it stands in
//! the status. Where there was none, what exists stays as it is. So a typing error of the lender neither takes capacity
//! away from running pods, nor lends what was not to be lent.

pub mod announced;
pub mod growth;
pub mod in_force;
pub mod object;
pub mod shadow;
pub mod spec;
pub mod status;
pub mod terms;
pub mod validate;

#[cfg(test)]
pub(crate) mod examples;
