//! A registry that lies, in every way that a broken proxy, a broken disk or an attacker would: each lie has its condition, the
//! plugin that was active continues, the topology stays, and no credential goes anywhere.

use anyhow::{Context, Result};
use topoloom_tests::guest;
use topoloom_tests::registry::hostile::{Fault, Hostile};
use topoloom_tests::registry::https::{Https, Reply};
use topoloom_tests::registry::{PASSWORD, USER};

use super::Rig;
use crate::swaps::{RACKS, until_quiet, until_serving};

/// A lie, the reason of the condition, and words of its message.
type Row = (Fault, &'static str, &'static [&'static str]);

/// With the Secret by which the request was made, where the credentials may be the cause.
const BY_THE_SECRET: &str = "with the credentials of the Secret volcano-system/pull";

fn rows() -> Vec<Row> {
    vec![
        (Fault::OtherBytes, "DigestMismatch", &["bytes that hash to sha256:", "came, and the manifest says sha256:"]),
        (Fault::CutLayer, "Upstream", &["the answer broke off"]),
        (Fault::ShortLayer, "DigestMismatch", &["bytes are announced, and the manifest says"]),
        (Fault::HugeLayer, "PluginInvalid", &["has 2147483648 bytes, and at most 33554432 are read"]),
        (Fault::EndlessLayer, "DigestMismatch", &["more bytes came than the"]),
        (Fault::EndlessManifest, "PluginInvalid", &["manifests/stable", "has more than 1048576 bytes"]),
        (Fault::Index, "PluginInvalid", &["is an index of 2 manifests", "push it alone"]),
        (Fault::OtherManifest, "DigestMismatch", &["is what the registry calls it"]),
        (Fault::OtherType, "PluginInvalid", &["exactly one layer of the type application/wasm", "layer.v1.tar+gzip"]),
        (Fault::LoginPage, "PluginInvalid", &["cannot be read, at line 1"]),
        (Fault::Missing, "PluginNotFound", &["manifests/stable: 404 Not Found", BY_THE_SECRET]),
        (Fault::Forbidden, "Unauthorized", &["manifests/stable: 403 Forbidden", BY_THE_SECRET]),
        (Fault::Busy, "Upstream", &["503 Service Unavailable"]),
        (
            Fault::OtherTokenServer("http://127.0.0.1/token".to_owned()),
            "PermissionDenied",
            &["the token server \"http://127.0.0.1/token\"", "credentials go over https alone"],
        ),
        (
            Fault::OtherTokenServer("https://169.254.169.254/token".to_owned()),
            "PermissionDenied",
            &["a cloud's metadata service", "may not dial"],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lie_has_its_condition_and_the_topology_stays() -> Result<()> {
    let rig = Rig::new().await?;
    let (good, other) = (guest::version("good", "1.0.0")?, guest::version("good", "2.0.0")?);
    let registry = Hostile::start(&rig.authority, &good).await?;
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    rig.configure(&registry.reference()).await?;
    let host = rig.host(&registry.host()).await?;
    rig.scene.until(&RACKS).await;
    until_serving(&rig.scene, "1.0.0").await;
    until_quiet(&rig.scene).await;
    let before = rig.scene.plane.requests().await?;
    for (fault, reason, words) in rows() {
        // Another version, so that the layer is asked for.
        registry.module(&other);
        registry.fault(fault.clone());
        let message = rig.scene.until_condition("fabric", "Loaded", "False", reason).await;
        for word in words {
            assert!(message.contains(word), "{fault:?}: {word:?} is not in {message}");
        }
        assert!(message.contains("plugin.oci oci://127.0.0.1:"), "{fault:?}: {message}");
        for secret in ["canary", PASSWORD] {
            assert!(!message.contains(secret), "{fault:?}: {message}");
        }
        registry.module(&good);
        registry.fault(Fault::None);
        until_quiet(&rig.scene).await;
    }
    assert_eq!(rig.scene.topology().await?, RACKS);
    assert_eq!(rig.scene.writes_since(&before).await?, (0, 0), "no HyperNode was written");
    until_serving(&rig.scene, "1.0.0").await;
    // And the truth is believed again.
    registry.module(&other);
    until_serving(&rig.scene, "2.0.0").await;
    let log = host.log().join("\n");
    assert!(!log.contains(PASSWORD) && !log.contains("canary"), "a secret is in the log");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_follow_no_redirect_and_bytes_from_elsewhere_are_hashed_as_others() -> Result<()> {
    let rig = Rig::new().await?;
    let (good, other) = (guest::version("good", "1.0.0")?, guest::version("good", "2.0.0")?);
    let registry = Hostile::start(&rig.authority, &good).await?;
    let bytes = other.clone();
    let store = Https::start(&rig.authority, move |asked| match asked.path() {
        path if path.starts_with("/closed/") => Reply::new(401, "").header("www-authenticate", "Basic realm=\"x\""),
        path if path.starts_with("/open/") => Reply::new(200, bytes.clone()),
        path if path.starts_with("/wrong/") => Reply::new(200, vec![0; bytes.len()]),
        _ => Reply::new(404, ""),
    })
    .await?;
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    rig.configure(&registry.reference()).await?;
    let host = rig.host(&registry.host()).await?;
    until_serving(&rig.scene, "1.0.0").await;
    let at = |folder: &str| format!("https://{}/{folder}", store.host());
    let cases = [
        (Fault::RedirectedLayer(at("closed")), "Unauthorized", "the credentials of the registry are not sent there"),
        (Fault::RedirectedManifest(at("closed")), "Unauthorized", "the credentials of the registry are not sent there"),
        (Fault::RedirectedLayer(at("wrong")), "DigestMismatch", "bytes that hash to sha256:"),
        (Fault::RedirectedLayer("http://127.0.0.1:9".to_owned()), "PermissionDenied", "a redirect out of TLS"),
        (Fault::RedirectedLayer("https://10.1.2.3".to_owned()), "PermissionDenied", "a private address"),
    ];
    for (fault, reason, words) in cases {
        registry.module(&other);
        registry.fault(fault.clone());
        let message = rig.scene.until_condition("fabric", "Loaded", "False", reason).await;
        assert!(message.contains(words), "{fault:?}: {message}");
        // The query of a redirect is a signature.
        assert!(!message.contains("canary") && !message.contains(PASSWORD), "{fault:?}: {message}");
        registry.module(&good);
        registry.fault(Fault::None);
        until_quiet(&rig.scene).await;
    }
    rig.scene.until(&RACKS).await;
    // A redirect to a store that gives the layer to anyone who has its URL is how most registries answer.
    registry.fault(Fault::RedirectedLayer(at("open")));
    registry.module(&other);
    until_serving(&rig.scene, "2.0.0").await;
    let asked = store.asked();
    let last = asked.last().context("the store was asked")?;
    assert!(last.target.contains("?signature=canary"), "{last:?}");
    assert!(asked.iter().all(|asked| asked.authorization().is_none()), "{asked:?}");
    rig.scene.until(&RACKS).await;
    host.stop().await
}
