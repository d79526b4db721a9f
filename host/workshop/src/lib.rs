//! The workshop: what the vendor of a plugin has at the desk, without a checkout of topoloom and without a cluster.
//!
//! | room | owns |
//! |---|---|
//! | [`node_file`] | the names, labels and annotations out of a list of nodes of any size |
//! | [`nodes`] | nodes in memory: read, written, multiplied, shown to a plugin as columns |
//! | [`existing`] | HyperNodes out of a file |
//! | [`project`] | `topoloom-plugin.yaml`: what a folder says about the plugin that is made in it |
//! | [`tools`] | the tools of each language: versions, where they are found, how they are called, the line that installs each |
//! | [`templates`] | the files of a new plugin, embedded in the program, and what goes along with them |
//! | [`wit`] | the interface as text, and the part of it that a project uses |
//! | [`adapter`] | what takes the place of WASI preview 1 in a module that imports it |
//! | [`pack`] | components packed for delivery, and whether a ConfigMap has room for them |
//! | [`build`] | from a project to its component: the tool, the wrapping, what it needs of a host |
//! | [`rounds`] | one plugin in the real sandbox, and a round of it, judged as the host judges |
//! | [`cases`] | what a plugin should answer, as files; a difference as two lines |
//! | [`mod@bench`] | how much a round takes over many nodes, and of which limit |
//! | [`kit`] | the conformance kit: what a plugin promises, each promise tried on the component itself |
//!
//! Each room uses only those before it. The verbs of `topoloom plugin` are thin over them. Nothing here asks a cluster, writes a
//! HyperNode, or knows a flag of the command line; and nothing here is part of a running host.
//!
//! # Failure story
//!
//! What a vendor does wrong is a typed error that names the file, the field, the value and what would be right; everything that
//! can be found at once is reported at once. A tool that is missing or of another version is named with the line that installs it.
//! What a plugin does wrong ends its round with the very words that the host would use.

pub mod adapter;
pub mod bench;
pub mod build;
pub mod cases;
pub mod existing;
pub mod kit;
pub mod node_file;
pub mod nodes;
pub mod pack;
pub mod project;
pub mod rounds;
pub mod templates;
pub mod tools;
pub mod wit;
