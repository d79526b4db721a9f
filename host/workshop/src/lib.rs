//! The workshop: what the vendor of a plugin has at the desk, without a cluster.
//!
//! | room | owns |
//! |---|---|
//! | [`node_file`] | the names, labels and annotations out of a list of nodes of any size |
//! | [`nodes`] | nodes in memory: read, written, multiplied, shown to a plugin as columns |
//! | [`existing`] | HyperNodes out of a file |
//! | [`rounds`] | one plugin in the real sandbox, and a round of it, judged as the host judges |
//! | [`cases`] | what a plugin should answer, as files; a difference as two lines |
//! | [`bench`] | how much a round takes over many nodes, and of which limit |
//! | [`kit`] | the conformance kit: what a plugin promises, each promise tried on the component itself |
//!
//! Each room uses only those before it. Nothing here asks a cluster, writes a HyperNode, or knows a flag of the command
//! line; the verbs of `topoloom plugin` are thin.
//!
//! # Failure story
//!
//! What a vendor does wrong is a typed error that names the file, the value and what would be right, and everything that
//! can be found at once is. What a plugin does wrong ends its round with the very words that the host would use.

pub mod bench;
pub mod cases;
pub mod existing;
pub mod kit;
pub mod node_file;
pub mod nodes;
pub mod rounds;
