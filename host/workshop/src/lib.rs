//! The workshop: what the vendor of a plugin has at the desk, without a checkout of topoloom and without a cluster.
//!
//! | room | owns |
//! |---|---|
//! | [`project`] | `topoloom-plugin.yaml`: what a folder says about the plugin that is made in it |
//! | [`tools`] | the tools of each language: versions, where they are found, how they are called, the line that installs each |
//! | [`templates`] | the files of a new plugin, embedded in the program, and what goes along with them |
//! | [`wit`] | the interface as text, and the part of it that a project uses |
//! | [`adapter`] | what takes the place of WASI preview 1 in a module that imports it |
//! | [`pack`] | components packed for delivery, and whether a ConfigMap has room for them |
//! | [`build`] | from a project to its component: the tool, the wrapping, what it needs of a host |
//!
//! Each room uses only those before it. The verbs of `topoloom plugin` are thin over them. Nothing here asks a cluster, writes an
//! object, or knows a flag of the command line; and nothing here is part of a running host.
//!
//! # Failure story
//!
//! What a vendor does wrong is a typed error that names the file, the field, the value and what would be right; everything that
//! can be found at once is reported at once. A tool that is missing or of another version is named with the line that installs it.

pub mod adapter;
pub mod build;
pub mod pack;
pub mod project;
pub mod templates;
pub mod tools;
pub mod wit;
