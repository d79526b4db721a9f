//! probe
#[allow(missing_docs, unsafe_code, unreachable_pub, clippy::all, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({ path: "../wit/discovery-0.1.0", world: "plugin", pub_export_macro: true, export_macro_name: "export_plugin", default_bindings_module: "topoloom_sdk::bindings", additional_derives: [Clone, PartialEq] });
}
