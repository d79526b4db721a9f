//! A second client: oras pulls what we push, and we serve what it pushes, in both forms; and it copies what we write into a
//! folder.

use anyhow::{Context, Result};
use serde_json::Value;
use topoloom::delivery::oci::manifest::{CONFIG, LAYER, MANIFEST, OLD_LAYER};
use topoloom_tests::registry::oras::with;
use topoloom_tests::registry::{Auth, PASSWORD, Registry, USER};

use super::{REPOSITORY, Rig, reference};
use crate::swaps::{RACKS, until_serving};

/// How oras writes a reference.
fn named(registry: &Registry, tag: &str) -> String {
    format!("{}/{REPOSITORY}:{tag}", registry.host())
}

#[tokio::test(flavor = "multi_thread")]
async fn oras_pulls_what_we_push_byte_for_byte() -> Result<()> {
    let rig = Rig::new().await?;
    let registry = Registry::start(rig.folder(), &rig.authority, Auth::Basic).await?;
    let digest = rig.push(&registry, "good", "1.0.0", "1.0.0").await?;
    let wanted = std::fs::read(rig.version("good", "1.0.0")?.0)?;
    let target = rig.folder().join("pulled");
    with(&registry, rig.folder(), &["pull", &named(&registry, "1.0.0"), "-o", &target.to_string_lossy()]).await?;
    assert_eq!(std::fs::read(target.join("versions.wasm"))?, wanted);

    let manifest = with(&registry, rig.folder(), &["manifest", "fetch", &named(&registry, "1.0.0")]).await?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    assert_eq!(manifest["mediaType"], MANIFEST);
    assert_eq!(manifest["config"]["mediaType"], CONFIG);
    let layers = manifest["layers"].as_array().context("it has layers")?;
    let layers: Vec<_> = layers.iter().map(|layer| (layer["mediaType"].clone(), layer["digest"].clone())).collect();
    assert_eq!(layers, [(LAYER.into(), digest.to_string().into())]);
    let config = with(&registry, rig.folder(), &["manifest", "fetch-config", &named(&registry, "1.0.0")]).await?;
    let config: Value = serde_json::from_str(&config)?;
    let imports = config["component"]["imports"].to_string();
    assert!(imports.contains("topoloom:discovery/"), "{config}");

    // The same plugin again is the same artifact.
    let resolve = ["resolve", &named(&registry, "1.0.0")];
    let before = with(&registry, rig.folder(), &resolve).await?;
    rig.push(&registry, "good", "1.0.0", "1.0.0").await?;
    assert_eq!(with(&registry, rig.folder(), &resolve).await?, before);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn we_serve_what_oras_pushes_in_both_types_of_layers_and_refuse_an_index() -> Result<()> {
    let rig = Rig::new().await?;
    let registry = Registry::start(rig.folder(), &rig.authority, Auth::Basic).await?;
    rig.account(&registry.host(), PASSWORD)?;
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    std::fs::write(rig.folder().join("config-of-wasm.json"), "{}")?;
    for (version, layer, tag) in [("1.0.0", LAYER, "new"), ("2.0.0", OLD_LAYER, "old")] {
        let (_, digest) = rig.version("good", version)?;
        let file = format!("good-{version}.wasm:{layer}");
        let declared = format!("dev.topoloom.plugin.declaration=name: versions\ndigest: {digest}\n");
        let config = format!("config-of-wasm.json:{CONFIG}");
        let target = named(&registry, tag);
        let words = ["push", &target, &file, "--config", &config, "--annotation", &declared];
        with(&registry, rig.folder(), &words).await?;
    }
    rig.configure(&reference(&registry, "new")).await?;
    let host = rig.host(&registry.host()).await?;
    rig.scene.until(&RACKS).await;
    until_serving(&rig.scene, "1.0.0").await;
    rig.configure(&reference(&registry, "old")).await?;
    until_serving(&rig.scene, "2.0.0").await;
    rig.scene.until(&RACKS).await;

    // By hand without a declaration it needs a pin, or the digest of its manifest.
    rig.version("good", "3.0.0")?;
    let bare = ["push", &named(&registry, "bare"), &format!("good-3.0.0.wasm:{LAYER}")];
    with(&registry, rig.folder(), &bare).await?;
    rig.configure(&reference(&registry, "bare")).await?;
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "Untrusted").await;
    assert!(message.contains("no declared digest"), "{message}");
    let manifest = with(&registry, rig.folder(), &["resolve", &named(&registry, "bare")]).await?;
    rig.configure(&format!("oci://{}/{REPOSITORY}@{}", registry.host(), manifest.trim())).await?;
    until_serving(&rig.scene, "3.0.0").await;

    let index = ["manifest", "index", "create", &named(&registry, "all"), "new", "old"];
    with(&registry, rig.folder(), &index).await?;
    rig.configure(&reference(&registry, "all")).await?;
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "PluginInvalid").await;
    assert!(message.contains("is an index of 2 manifests") && message.contains("push it alone"), "{message}");
    until_serving(&rig.scene, "3.0.0").await;
    rig.scene.until(&RACKS).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn oras_copies_what_we_write_into_a_folder_and_the_artifact_stays_the_same() -> Result<()> {
    let rig = Rig::new().await?;
    let registry = Registry::start(rig.folder(), &rig.authority, Auth::Basic).await?;
    let digest = rig.push(&registry, "good", "1.0.0", "pushed").await?;
    let (file, _) = rig.version("good", "1.0.0")?;
    let said = rig.plugin(&registry, &["push", &file.to_string_lossy(), "oci-layout:artifacts"]).await?;
    assert!(said.contains("oras cp --from-oci-layout artifacts:1.0.0"), "{said}");
    let ca = registry.ca().display().to_string();
    let copied = named(&registry, "copied");
    let words = ["cp", "--from-oci-layout", "artifacts:1.0.0", &copied, "--to-ca-file", &ca];
    topoloom_tests::registry::oras::oras(rig.folder(), &words).await?;
    let resolved = async |tag: &str| with(&registry, rig.folder(), &["resolve", &named(&registry, tag)]).await;
    assert_eq!(resolved("copied").await?, resolved("pushed").await?);
    // And the folder alone is a place, too.
    let said = rig.plugin(&registry, &["inspect", "oci-layout:artifacts:1.0.0"]).await?;
    assert!(said.contains(&digest.to_string()), "{said}");
    Ok(())
}
