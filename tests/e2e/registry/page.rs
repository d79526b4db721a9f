//! The page about registries, as a vendor follows it: each block of commands is run as it stands there, with the name of the
//! registry replaced by that of one on this machine.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use anyhow::{Context, Result, ensure};
use topoloom_tests::host::binary;
use topoloom_tests::pages::{Run, blocks, commands, page};
use topoloom_tests::registry::{Auth, PASSWORD, Registry, USER, oras};

use super::Rig;
use crate::swaps::{RACKS, until_serving};

const PAGE: &str = "docs/vendors/oci.md";
/// What the page calls the registry.
const HOST: &str = "registry.example.com";

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_registries_does_what_it_says() -> Result<()> {
    let rig = Rig::new().await?;
    let registry = Registry::start(rig.folder(), &rig.authority, Auth::Basic).await?;
    rig.account(&registry.host(), PASSWORD)?;
    let desk = rig.folder().join("desk");
    std::fs::create_dir_all(&desk)?;
    std::fs::copy(rig.version("good", "1.0.0")?.0, desk.join("racks.wasm"))?;
    let bin = rig.folder().join("desk-bin");
    std::fs::create_dir_all(&bin)?;
    symlink(binary()?.canonicalize()?, bin.join("topoloom"))?;
    // oras trusts what the system trusts; here also the authority of the tests.
    let real = tokio::task::spawn_blocking(oras::find_or_build).await??;
    let flags = format!("--ca-file '{0}'", registry.ca().display());
    let copy = format!("--to-ca-file '{0}'", registry.ca().display());
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in cp) exec '{0}' \"$@\" {copy};; *) exec '{0}' \"$@\" {flags};; esac\n",
        real.canonicalize()?.display()
    );
    std::fs::write(bin.join("oras"), script)?;
    std::fs::set_permissions(bin.join("oras"), Permissions::from_mode(0o755))?;

    let text = page(PAGE)?;
    let path = format!("{}:{}", bin.display(), std::env::var("PATH")?);
    let mut by_hand = 0;
    for block in commands(&text)? {
        if matches!(block.run, Run::ByHand(_)) {
            by_hand += 1;
            continue;
        }
        let output = tokio::process::Command::new("sh")
            .args(["-euc", &block.text.replace(HOST, &registry.host())])
            .current_dir(&desk)
            .env("PATH", &path)
            .env("DOCKER_CONFIG", rig.folder())
            .env("TOPOLOOM_REGISTRY_CA", registry.ca())
            .output()
            .await?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(
            output.status.success(),
            "{PAGE}:{}: {}\n{}{}",
            block.line,
            block.text,
            said(&output.stdout),
            said(&output.stderr)
        );
    }
    assert_eq!(by_hand, 1, "only the login asks for something");

    // The line of the page is what an operator copies into an entry.
    let line = blocks(&text, "yaml").into_iter().next().context("the page has a line for an entry")?;
    let reference = line.split('"').nth(1).context("it has a reference")?.replace(HOST, &registry.host());
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    rig.configure(&reference).await?;
    let host = rig.host(&registry.host()).await?;
    until_serving(&rig.scene, "1.0.0").await;
    rig.scene.until(&RACKS).await;
    host.stop().await
}
