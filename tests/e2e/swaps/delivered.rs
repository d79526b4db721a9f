//! Ways of delivery: half of an update, a deleted ConfigMap, a folder, and the swap of a mounted volume.

use std::os::unix::fs::symlink;
use std::path::Path;

use anyhow::Result;
use kube::api::DeleteParams;
use topoloom_tests::host::Host;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn half_of_an_update_waits_for_its_other_half_and_a_map_that_is_gone_takes_nothing_away() -> Result<()> {
    let (scene, host) = serving().await?;
    let (old, new) = (guest::version("good", "1.0.0")?, guest::version("good", "2.0.0")?);
    deliver(&scene, &new, Some(&Digest::of(&old).to_string())).await?;
    let message = scene.until_condition("fabric", "Loaded", "False", "DigestMismatch").await;
    assert!(message.contains("half written") && message.contains(&Digest::of(&new).to_string()), "{message}");
    deliver(&scene, &new, Some(&Digest::of(&new).to_string())).await?;
    until_serving(&scene, "2.0.0").await;
    until_quiet(&scene).await;

    let maps: Api<ConfigMap> = Api::namespaced(scene.plane.client(), NAMESPACE);
    maps.delete(MAP, &DeleteParams::default()).await?;
    let message = scene.until_condition("fabric", "Loaded", "False", "PluginNotFound").await;
    assert!(message.contains("there is no such ConfigMap"), "{message}");
    scene.plane.relabel("n09", "example.com/rack", "b").await?;
    let moved = [
        "tier 1 example.com/rack=a (9): n00 n01 n02 n03 n04 n05 n06 n07 n08",
        "tier 1 example.com/rack=b (11): n09 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19",
    ];
    scene.until(&moved).await;
    // A restart takes nothing away either: the host keeps the plugin that was active.
    host.stop().await?;
    let host = scene.host().await?;
    scene.plane.relabel("n09", "example.com/rack", "a").await?;
    scene.until(&RACKS).await;
    until_serving(&scene, "2.0.0").await;
    push(&scene, "good", "3.0.0").await?;
    until_serving(&scene, "3.0.0").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn other_words_beside_the_same_bytes_are_another_delivery() -> Result<()> {
    let (scene, host) = serving().await?;
    let bytes = guest::version("good", "2.0.0")?;
    let digest = Digest::of(&bytes);
    // A declaration with a name that is not the plugin's own, and then one with its own.
    deliver_as(&scene, &bytes, Some(&format!("name: other\ndigest: {digest}\n"))).await?;
    let message = scene.until_condition("fabric", "Loaded", "False", "PluginInvalid").await;
    assert!(message.contains("\"versions\"") && message.contains("\"other\""), "{message}");
    deliver(&scene, &bytes, Some(&digest.to_string())).await?;
    until_serving(&scene, "2.0.0").await;
    until_quiet(&scene).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_is_believed_by_its_bytes_alone() -> Result<()> {
    let (scene, host) = serving().await?;
    let first = Digest::of(&guest::version("good", "1.0.0")?);
    push(&scene, "good", "2.0.0").await?;
    until_serving(&scene, "2.0.0").await;
    host.stop().await?;
    // An attacker puts other bytes where the first version was kept.
    let maps: Api<ConfigMap> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let name = topoloom::delivery::modules::object_name(first);
    let mut map = maps.get(&name).await?;
    maps.delete(&name, &DeleteParams::default()).await?;
    let other = guest::version("crash", "1.0.0")?;
    map.binary_data = Some([("plugin.wasm.zst".to_owned(), ByteString(other))].into());
    map.metadata.resource_version = None;
    maps.create(&Default::default(), &map).await?;
    let host = scene.host().await?;
    until_serving(&scene, "2.0.0").await;
    scene.cli(&["plugin", "rollback", "fabric", "--to", &first.to_string()]).await?;
    let message = scene.until_condition("fabric", "Loaded", "False", "DigestMismatch").await;
    assert!(
        message.contains("does not hold the module") && message.contains("the last valid version continues"),
        "{message}"
    );
    scene.until(&RACKS).await;
    assert_eq!(until_serving(&scene, "2.0.0").await.taken_back, Vec::<String>::new());
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_wins_over_what_is_delivered() -> Result<()> {
    let (scene, host) = serving().await?;
    let (first, second) = (guest::version("good", "1.0.0")?, guest::version("good", "2.0.0")?);
    let pinned = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        ENTRY.replace("key: plugin.wasm}", &format!("key: plugin.wasm}}, digest: \"{digest}\""))
    };
    scene.configure(&pinned(&first)).await?;
    push(&scene, "good", "2.0.0").await?;
    let message = scene.until_condition("fabric", "Loaded", "True", "Ok").await;
    assert!(!message.is_empty());
    until_status(&scene, "the delivered one waits", |status| {
        let loaded = status.conditions.iter().find(|condition| condition.type_ == "Loaded");
        loaded.is_some_and(|loaded| loaded.message.contains("the entry pins") && loaded.status == "True")
    })
    .await;
    assert_eq!(until_serving(&scene, "1.0.0").await.candidate, None);
    scene.configure(&pinned(&second)).await?;
    until_serving(&scene, "2.0.0").await;
    // The first version is active again by the pin alone: the host keeps it, although another version is delivered.
    scene.configure(&pinned(&first)).await?;
    until_serving(&scene, "1.0.0").await;
    host.stop().await
}

/// A volume as the kubelet mounts one: the files are links through `..data`, which is swapped by a rename.
struct Volume<'a> {
    folder: &'a Path,
    revision: usize,
}

impl Volume<'_> {
    fn swap(&mut self, files: &[(&str, Vec<u8>)]) -> Result<()> {
        self.revision += 1;
        let revision = format!("..2026_11_21_{}", self.revision);
        let inner = self.folder.join(&revision);
        std::fs::create_dir_all(&inner)?;
        for (name, bytes) in files {
            std::fs::write(inner.join(name), bytes)?;
            let link = self.folder.join(name);
            if link.symlink_metadata().is_err() {
                symlink(Path::new("..data").join(name), link)?;
            }
        }
        let (temporary, data) = (self.folder.join("..data_tmp"), self.folder.join("..data"));
        let old = std::fs::read_link(&data).ok();
        symlink(&revision, &temporary)?;
        std::fs::rename(temporary, data)?;
        if let Some(old) = old {
            std::fs::remove_dir_all(self.folder.join(old))?;
        }
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_volume_is_followed_and_an_installed_plugin_is_found_by_name() -> Result<()> {
    let scene = scene().await?;
    let folder = scene.plane.folder().join("plugins");
    let mounted = folder.join("versions");
    std::fs::create_dir_all(&mounted)?;
    let files = |version: &str| -> Result<[(&'static str, Vec<u8>); 2]> {
        let bytes = guest::version("good", version)?;
        let declaration = format!("name: versions\ndigest: {}\n", Digest::of(&bytes));
        Ok([("plugin.wasm", bytes), ("plugin.yaml", declaration.into_bytes())])
    };
    let mut volume = Volume { folder: &mounted, revision: 0 };
    volume.swap(&files("1.0.0")?)?;
    scene
        .configure(
            &ENTRY.replace("plugin: {configMap: {name: versions-plugin, key: plugin.wasm}}", "discoverer: versions"),
        )
        .await?;
    let host = Host::start(&scene.host_kubeconfig().await?, &["--plugin-dir", &folder.to_string_lossy()]).await?;
    scene.until(&RACKS).await;
    volume.swap(&files("2.0.0")?)?;
    until_serving(&scene, "2.0.0").await;
    volume.swap(&files("3.0.0")?)?;
    let status = until_serving(&scene, "3.0.0").await;
    assert_eq!(status.previous.len(), 2);
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn images_and_modules_in_folders_outlive_the_process() -> Result<()> {
    let scene = scene().await?;
    let folder = scene.plane.folder().join("disk");
    std::fs::create_dir_all(&folder)?;
    let key = folder.join("key");
    std::fs::write(&key, [7; 32])?;
    let (images, modules) = (folder.join("images"), folder.join("modules"));
    let arguments = [
        "--plugin-cache",
        &images.to_string_lossy(),
        "--plugin-cache-key",
        &key.to_string_lossy(),
        "--module-dir",
        &modules.to_string_lossy(),
    ];
    push(&scene, "good", "1.0.0").await?;
    scene.configure(ENTRY).await?;
    let host = Host::start(&scene.host_kubeconfig().await?, &arguments).await?;
    scene.until(&RACKS).await;
    push(&scene, "good", "2.0.0").await?;
    until_serving(&scene, "2.0.0").await;
    let metric = async |host: &Host, wanted: &str| {
        eventually(wanted, PATIENCE, async || {
            let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
            if metrics.contains(wanted) { Ok(()) } else { Err(metrics) }
        })
        .await;
    };
    // The quick image of each version, and the optimised one of each that answered. This does not count compilations: a
    // replica also prepares a plugin that is not active yet.
    eventually("four images", PATIENCE, async || {
        let files = std::fs::read_dir(&images).map_err(|error| error.to_string())?.filter_map(Result::ok);
        let names: Vec<_> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        let kept = names.iter().filter(|name| name.ends_with(".image")).count();
        if kept == 4 { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    metric(&host, "topoloom_plugin_cache_events_total{event=\"Stored\"}").await;
    host.stop().await?;
    // Without the copies in the cluster, the host uses those in the folder.
    for digest in kept(&scene).await? {
        let name = topoloom::delivery::modules::object_name(Digest::parse(&digest).context("a digest")?);
        let maps: Api<ConfigMap> = Api::namespaced(scene.plane.client(), NAMESPACE);
        maps.delete(&name, &DeleteParams::default()).await?;
    }
    let host = Host::start(&scene.host_kubeconfig().await?, &arguments).await?;
    until_serving(&scene, "2.0.0").await;
    metric(&host, "topoloom_plugin_cache_events_total{event=\"Hit\"}").await;
    scene.cli(&["plugin", "rollback", "fabric"]).await?;
    until_serving(&scene, "1.0.0").await;
    let compiled = host.get("/metrics").await?.lines().filter(|line| line.contains("compile_seconds_count")).count();
    assert_eq!(compiled, 0, "nothing is compiled that was compiled before");
    host.stop().await
}
