//! The rules of the host for names, answers and wishes, in its words.
//!
//! One text for two crates. The host's `topoloom-core` compiles this very file, and so does the SDK for native tests: what
//! `testing::Cluster` accepts, the host accepts, and both refuse with the same sentence. So the file and those below it use the
//! standard library alone, and say where they are themselves.
//!
//! | room | owns |
//! |---|---|
//! | [`names`] | what a name, a label, a tier and a kind in a Kubernetes object may be |
//! | [`bounds`] | how many there may be of what a plugin sends |
//! | [`answer`] | an answer, borrowed from the types that carried it |
//! | [`form`] | whether an answer, and what `configure` asks for, *means* something: offsets, positions, counts, lengths of texts |
//! | [`judge`] | whether an answer is valid: identities, tiers, names, a forest |
//! | [`broken`] | each rule with its sentence, its word, and where a page explains it |
//! | [`request`] | which headers and paths a request may have |
//! | [`wish`] | which keys and paths a grant covers |
//!
//! Never repairs: an answer is accepted as it is or refused as a whole. No input costs more than sorting it.

#[path = "rules/answer.rs"]
pub mod answer;
#[path = "rules/bounds.rs"]
pub mod bounds;
#[path = "rules/broken.rs"]
pub mod broken;
#[path = "rules/form.rs"]
pub mod form;
#[path = "rules/judge.rs"]
pub mod judge;
#[path = "rules/names.rs"]
pub mod names;
#[path = "rules/request.rs"]
pub mod request;
#[path = "rules/wish.rs"]
pub mod wish;

pub use names::{Error, Kind, LABEL_MAX, SUBDOMAIN_MAX, TIER_MAX, Tier, is_label_key, is_label_value, is_object_name};
