//! `topoloom crd`.

use std::process::ExitCode;

/// Prints every definition as one stream of YAML documents.
pub(super) fn print() -> anyhow::Result<ExitCode> {
    let mut text = String::new();
    for definition in topoloom_api::crds() {
        text.push_str("---\n");
        text.push_str(&topoloom_api::crd::to_yaml(&definition)?);
    }
    super::print::out(&text);
    Ok(ExitCode::SUCCESS)
}
