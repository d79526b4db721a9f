//! Go with its standard toolchain: the plugin that a page shows, without a template and without an SDK.

use anyhow::{Result, ensure};
use topoloom_tests::pages::{Run, commands, files, page};
use topoloom_tests::tools::Tool;

use super::{LARGE, Place, Stage, Written, serve};

const PAGE: &str = "docs/vendors/other-languages.md";

#[tokio::test(flavor = "multi_thread")]
async fn a_vendor_of_go_comes_from_the_page_to_a_rollback() -> Result<()> {
    let text = page(PAGE)?;
    let mut stage = Stage::of("go", &[Tool::Go], Place::Registry).await?;
    let vendor = &mut stage.vendor;
    for (name, content) in files(&text) {
        vendor.put(&name, &content)?;
    }
    let mut built = String::new();
    for block in commands(&text)?.iter().filter(|block| !matches!(block.run, Run::ByHand(_))) {
        let said = vendor.sh(&block.text).await?;
        if block.text.contains("topoloom plugin build") {
            built = said;
        }
    }
    // What the page says of its runtime.
    for words in ["racks 0.1.0", "clock_time_get", "fd_write", "proc_exit"] {
        ensure!(built.contains(words), "{words}: {built}");
    }
    let round =
        vendor.sh("topoloom plugin run --nodes cases/two-racks/nodes.yaml --config cases/two-racks/config.yaml");
    let round = round.await?;
    ensure!(round.contains("a7") && round.contains("b1"), "{round}");
    let measured = vendor.sh(super::MEASURE).await?;
    ensure!(measured.contains("median"), "{measured}");
    let (source, version) = ("main.go", "\"racks\", \"0.1.0\"");
    serve(stage, &Written { source, version, limits: LARGE }).await
}
