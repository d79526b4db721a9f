//! Secrets of every kind, while many faults happen: afterwards the test searches for them wherever the host writes.

use anyhow::Result;
use topoloom_simulator::{Authority, Credentials, FabricDocument, FaultRule, Ufm, Validity};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE};

use super::rig::{Rig, document, entry};

const TOKEN: &str = "canary-token-0d5c1b7f93";
const PASSWORD: &str = "canary-password-4421ce";
const BEARER: &str = "canary-bearer-88aa01fe";
const LITERAL: &str = "canary-literal-3f9b2c";

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_found_wherever_the_host_writes() -> Result<()> {
    let rig = Rig::new().await?;
    let authority = Authority::generate()?;
    let client = authority.client("topoloom", Validity::Current)?;
    let all = Credentials::none().token(TOKEN).user("admin", PASSWORD).certificate("topoloom");
    let ufm = Ufm::builder(rig.fabric.clone()).tls(&authority).credentials(all).start().await?;
    let bearer = Credentials::none().token(BEARER).token(LITERAL);
    let fabric = FabricDocument::builder(rig.fabric.clone()).tls(&authority).credentials(bearer).start().await?;
    rig.secret("token", &[("token", TOKEN)]).await?;
    rig.secret("basic", &[("username", "admin"), ("password", PASSWORD)]).await?;
    rig.secret("mtls", &[("tls.crt", &client.certificate), ("tls.key", &client.key)]).await?;
    rig.secret("bearer", &[("token", BEARER)]).await?;
    rig.secret("broken", &[("tls.crt", TOKEN), ("tls.key", PASSWORD)]).await?;
    let ufm_with =
        |source: &str, secret: &str| entry(source, &[&ufm], "").replace("{name: ufm}", &format!("{{name: {secret}}}"));
    let roce_with = |source: &str, secret: &str, config: &str| {
        entry(source, &[&fabric], config)
            .replace("discoverer: ufm", "discoverer: roce")
            .replace("      ufm: {", "      fabric: {")
            .replace("  credentials: {secretRef: {name: ufm}}\n", secret)
    };
    let entries = [
        ufm_with("by-token", "token"),
        ufm_with("by-password", "basic"),
        ufm_with("by-certificate", "mtls"),
        ufm_with("by-nonsense", "broken"),
        roce_with("by-bearer", "  credentials: {secretRef: {name: bearer}}\n", ""),
        roce_with("by-literal", "", &format!("    token: {LITERAL}\n")),
    ];
    rig.scene.configure(&document(&entries)).await?;
    // At this level the log has every line of every library in the process.
    let host = Host::start(&rig.scene.host_kubeconfig().await?, &["--log", "trace"]).await?;
    for good in ["by-token", "by-password", "by-certificate", "by-bearer", "by-literal"] {
        rig.scene.until_condition(good, "Discovered", "True", "Ok").await;
    }
    rig.scene.until_condition("by-nonsense", "Discovered", "False", "Upstream").await;
    for fault in
        ["status:401", "redirect:https://elsewhere.example/?x=1", "html", "untrusted-certificate", "closed", "reset"]
    {
        rig.stir()?;
        for server in [&ufm, &fabric] {
            server.faults().set(fault.parse::<FaultRule>()?).await?;
        }
        for source in ["by-token", "by-password", "by-certificate", "by-bearer", "by-literal"] {
            rig.run(source).await?;
            eventually(&format!("{source} fails with {fault}"), PATIENCE, async || {
                let status = rig.scene.source(source).await.map_err(|error| error.to_string())?.status;
                let said = status.conditions.iter().find(|condition| condition.type_ == "Discovered");
                if said.is_some_and(|said| said.status == "False") { Ok(()) } else { Err(format!("{status:#?}")) }
            })
            .await;
        }
    }
    let mut written = host.log();
    for path in ["/metrics", "/sources", "/healthz", "/readyz", "/debug/dump", "/debug/log"] {
        written.push(host.get(path).await?);
    }
    for kind in ["discoverysources", "hypernodes", "events", "configmaps"] {
        let objects = rig.scene.plane.kubectl(&["get", kind, "-A", "-o", "json"]).await?;
        // The operator wrote this token into the configuration, so it does not count there.
        written.push(if kind == "configmaps" { objects.replace(&format!("token: {LITERAL}"), "") } else { objects });
    }
    written.push(rig.scene.cli(&["source", "list"]).await?);
    let written = written.join("\n");
    assert!(written.contains("by-nonsense") && written.contains("hyper"), "the log has the lines of libraries");
    let key = client.key.lines().nth(1).unwrap_or_default();
    assert!(key.len() > 30, "{key}");
    for canary in [TOKEN, PASSWORD, BEARER, LITERAL, key] {
        for form in forms(canary) {
            let at = written.find(&form).map(|at| written.get(at.saturating_sub(300)..at).unwrap_or_default());
            assert_eq!(at, None, "{form} was found");
        }
    }
    // The search works: it finds the token in its Secret.
    let secret = rig.scene.plane.kubectl(&["get", "secret", "token", "-n", NAMESPACE, "-o", "json"]).await?;
    assert!(forms(TOKEN).iter().any(|form| secret.contains(form)), "{secret}");
    // A crash would leave no core file.
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", host.id().unwrap_or_default()))?;
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap_or_default();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{limits}");
    host.stop().await?;
    ufm.stop().await;
    fabric.stop().await;
    rig.scene.plane.stop().await
}

/// A value, and the forms in which a program sends it.
fn forms(secret: &str) -> Vec<String> {
    use base64::Engine as _;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    vec![secret.to_owned(), encode(secret), encode(&format!("admin:{secret}"))]
}
