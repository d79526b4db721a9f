//! The code that wit-bindgen generates from the interface: its types, and the glue to the host.
//!
//! The folder `wit` is a copy of `wit/discovery-0.1.0`, since a published crate has only what is below it; `xtask check` compares them.
//!
//! The crate re-exports the types under shorter paths. The functions exist on wasm only; natively each of them would
//! panic, so nothing calls them there.

#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    unused_qualifications,
    clippy::all,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::allow_attributes_without_reason,
    reason = "generated: the canonical ABI is raw memory, and this is the one place that touches it"
)]

wit_bindgen::generate!({
    path: "wit",
    world: "plugin",
    pub_export_macro: true,
    export_macro_name: "export_plugin",
    default_bindings_module: "topoloom_sdk::bindings",
    additional_derives: [Clone, PartialEq],
});
