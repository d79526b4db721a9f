//! Which plugins the host refuses, at which step, and that a refusal changes nothing.

use anyhow::Result;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn every_step_refuses_with_its_own_words_and_what_serves_goes_on() -> Result<()> {
    let (scene, host) = serving().await?;
    let before = scene.plane.requests().await?;
    for (act, type_, reason, step, words) in [
        ("loop", "Loaded", "Deadline", "Shadow", "used more processor time than its limit of 2s"),
        ("crash", "Loaded", "Trap", "Shadow", "this version crashes in every round"),
        ("deaf", "Loaded", "Deadline", "Describe", "describe: "),
        ("picky", "Configured", "InvalidConfig", "Configure", "config.label: is missing"),
        ("greedy", "Loaded", "PermissionDenied", "Grant", "nodeLabels: [\"example.com/secret\"]"),
    ] {
        let digest = push(&scene, act, "2.0.0").await?;
        let message = scene.until_condition("fabric", type_, "False", reason).await;
        assert!(message.contains(words) && message.contains("the last valid version continues"), "{act}: {message}");
        let status = until_status(&scene, act, |status| {
            status.last_refusal.as_ref().is_some_and(|refusal| refusal.digest == digest.to_string())
        })
        .await;
        assert_eq!(status.last_refusal.map(|refusal| refusal.step), Some(step.to_owned()), "{act}");
        assert_eq!(status.plugin.map(|plugin| plugin.version), Some("1.0.0".into()), "{act}");
    }
    let garbage = b"\0asm and nothing else";
    deliver(&scene, garbage, Some(&Digest::of(garbage).to_string())).await?;
    scene.until_condition("fabric", "Loaded", "False", "PluginInvalid").await;
    push(&scene, "good", "1.0.0").await?;
    until_quiet(&scene).await;
    scene.until(&RACKS).await;
    assert_eq!(scene.writes_since(&before).await?, (0, 0));
    host.readyz().await?;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_sources_on_one_plugin_are_granted_one_by_one() -> Result<()> {
    let scene = scene().await?;
    push(&scene, "greedy", "1.0.0").await?;
    let plugin = "plugin: {configMap: {name: versions-plugin, key: plugin.wasm}}";
    scene
        .configure(&format!(
            "networkTopologyDiscovery:\n\
             - {{source: fabric, enabled: true, {plugin}, permissions: {{nodeLabels: [\"example.com/*\"]}}}}\n\
             - {{source: other, enabled: true, {plugin}, permissions: {{nodeLabels: [example.com/rack]}}}}\n"
        ))
        .await?;
    let host = scene.host().await?;
    scene.until(&RACKS).await;
    let message = scene.until_condition("other", "Loaded", "False", "PermissionDenied").await;
    assert!(message.contains("nodeLabels: [\"example.com/secret\"]"), "{message}");
    until_quiet(&scene).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_module_has_to_bring_is_the_hosts_and_the_entrys_to_say() -> Result<()> {
    let scene = scene().await?;
    let folder = scene.plane.folder();
    let (private, public) = (folder.join("private.pem"), folder.join("public.pem"));
    let openssl = |arguments: &[&std::ffi::OsStr]| -> Result<()> {
        let done = std::process::Command::new("openssl").args(arguments).output()?;
        anyhow::ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    };
    openssl(&["genpkey".as_ref(), "-algorithm".as_ref(), "ed25519".as_ref(), "-out".as_ref(), private.as_os_str()])?;
    openssl(&[
        "pkey".as_ref(),
        "-in".as_ref(),
        private.as_os_str(),
        "-pubout".as_ref(),
        "-out".as_ref(),
        public.as_os_str(),
    ])?;
    let bytes = guest::version("good", "1.0.0")?;
    // Without a declaration the host does not know which bytes are meant.
    deliver(&scene, &bytes, None).await?;
    scene.configure(ENTRY).await?;
    let host = scene.host().await?;
    let message = scene.until_condition("fabric", "Loaded", "False", "Untrusted").await;
    assert!(message.contains(&format!("digest: {}", Digest::of(&bytes))), "{message}");
    deliver(&scene, &bytes, Some(&Digest::of(&bytes).to_string())).await?;
    scene.until(&RACKS).await;
    host.stop().await?;

    let arguments = ["--plugin-trust", "signature", "--plugin-trust-key", &public.to_string_lossy()];
    let host = topoloom_tests::host::Host::start(&scene.host_kubeconfig().await?, &arguments).await?;
    let message = scene.until_condition("fabric", "Loaded", "False", "Untrusted").await;
    assert!(message.contains("has no signature") && message.contains("topoloom plugin sign"), "{message}");
    let file = folder.join("signed.wasm");
    std::fs::write(&file, guest::version("good", "2.0.0")?)?;
    let sign = tokio::process::Command::new(topoloom_tests::host::binary()?)
        .args(["plugin", "sign", "--key"])
        .args([&private, &file])
        .output()
        .await?;
    assert!(sign.status.success(), "{}", String::from_utf8_lossy(&sign.stderr));
    let map = format!("{NAMESPACE}/{MAP}");
    scene.cli(&["plugin", "push", &file.to_string_lossy(), "--configmap", &map]).await?;
    until_serving(&scene, "2.0.0").await;
    host.stop().await
}
