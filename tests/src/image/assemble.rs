//! The image: its root folder, its layers, its configuration, and all that as an OCI layout.
//!
//! The layout has one entry, an index over the processors, so that tools which expect one image find one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::authorities;
use super::layer::{Entry, Layer, digest, layer};
use super::platform::Platform;

pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(super) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
pub(super) const REFERENCE: &str = "org.opencontainers.image.ref.name";

/// The user of the process: the number that distroless images use, so that policies know it.
pub(super) const USER: u32 = 65532;
/// The path of the binary in the image: in [`PATH`], so that `kubectl exec … -- topoloom` finds it.
pub(super) const BINARY: &str = "/usr/bin/topoloom";
/// The folder in which programs are found by name.
const PATH: &str = "/usr/bin";
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
const BOM: &str = "usr/share/sbom/topoloom.cdx.json";

/// The description of the image, the same for all processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The version of the host, which is also the name of the image in the layout.
    pub version: String,
    /// When the sources are from, in the form of RFC 3339; never the time of the build.
    pub created: String,
    /// The commit, if all sources are those of one.
    pub revision: Option<String>,
}

/// One processor's part.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// The processor.
    pub platform: Platform,
    /// The static binary.
    pub binary: &'a [u8],
    /// Its bill of materials.
    pub bom: &'a [u8],
}

/// The result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assembled {
    /// The digest of the index, which identifies the whole image.
    pub digest: String,
    /// The digest of each manifest, and the compressed size of its layers.
    pub parts: BTreeMap<Platform, (String, u64)>,
}

/// Writes the layout into `folder`, which is made anew.
///
/// # Errors
/// When a file cannot be written.
pub fn assemble(folder: &Path, about: &About, parts: &[Part<'_>]) -> Result<Assembled> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("{} cannot be removed", folder.display()))?;
    }
    let blobs = Blobs::create(folder.join("blobs/sha256"))?;
    let base = base()?;
    let mut sorted = parts.to_vec();
    sorted.sort_by_key(|part| part.platform);
    let (mut manifests, mut made) = (Vec::new(), BTreeMap::new());
    for part in sorted {
        let own = own(&part)?;
        let layers = [&base, &own].map(|layer| blobs.write(LAYER, &layer.blob));
        let layers = layers.into_iter().collect::<Result<Vec<_>>>()?;
        let size = [&base, &own].iter().map(|layer| layer.blob.len() as u64).sum();
        let config = blobs.write_json(CONFIG, &config(about, part.platform, [&base, &own]))?;
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        let mut descriptor = blobs.write_json(MANIFEST, &manifest)?;
        descriptor["platform"] = json!({"os": "linux", "architecture": part.platform.architecture()});
        made.insert(part.platform, (named(&descriptor), size));
        manifests.push(descriptor);
    }
    let index = json!({
        "schemaVersion": 2, "mediaType": INDEX, "manifests": manifests, "annotations": labels(about),
    });
    let mut index = blobs.write_json(INDEX, &index)?;
    let digest = named(&index);
    index["annotations"] = json!({REFERENCE: about.version});
    let entry = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [index]});
    write(&folder.join("index.json"), &serde_json::to_vec(&entry)?)?;
    write(&folder.join("oci-layout"), br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(Assembled { digest, parts: made })
}

/// The layer that all processors share, and that changes seldom.
fn base() -> Result<Layer> {
    let bundle = authorities::pem();
    let user = format!("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n");
    let group = format!("root:x:0:\nnonroot:x:{USER}:\n");
    layer(vec![
        Entry::folder("etc"),
        Entry::file("etc/group", group.as_bytes()),
        Entry::file("etc/passwd", user.as_bytes()),
        Entry::folder("etc/ssl"),
        Entry::folder("etc/ssl/certs"),
        Entry::file(BUNDLE, bundle.as_bytes()),
        Entry::folder("tmp").with_mode(0o1777),
    ])
}

fn own(part: &Part<'_>) -> Result<Layer> {
    layer(vec![
        Entry::folder("usr"),
        Entry::folder("usr/bin"),
        Entry::file(BINARY.trim_start_matches('/'), part.binary).with_mode(0o755),
        Entry::folder("usr/share"),
        Entry::folder("usr/share/sbom"),
        Entry::file(BOM, part.bom),
    ])
}

fn config(about: &About, platform: Platform, layers: [&Layer; 2]) -> Value {
    let history = ["users, authorities, a folder for temporary files", "the host and its bill of materials"];
    json!({
        "architecture": platform.architecture(),
        "os": "linux",
        "created": about.created,
        "config": {
            "User": format!("{USER}:{USER}"),
            "Entrypoint": [BINARY],
            "Env": [format!("PATH={PATH}"), format!("SSL_CERT_FILE=/{BUNDLE}")],
            "WorkingDir": "/",
            "Labels": labels(about),
        },
        "rootfs": {"type": "layers", "diff_ids": layers.map(|layer| layer.unpacked.as_str())},
        "history": history.map(|what| json!({"created": about.created, "created_by": what})),
    })
}

fn labels(about: &About) -> Value {
    let mut labels = json!({
        "org.opencontainers.image.title": "topoloom",
        "org.opencontainers.image.description":
            "Discovers how a Kubernetes cluster is wired and keeps it as HyperNode objects",
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.version": about.version,
        "org.opencontainers.image.created": about.created,
    });
    if let Some(revision) = &about.revision {
        labels["org.opencontainers.image.revision"] = revision.as_str().into();
    }
    labels
}

fn named(descriptor: &Value) -> String {
    descriptor["digest"].as_str().unwrap_or_default().to_owned()
}

/// Files whose names are their digests.
struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    fn create(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        Ok(Self { folder })
    }

    /// Writes one and returns its descriptor.
    fn write(&self, kind: &str, bytes: &[u8]) -> Result<Value> {
        let digest = digest(bytes);
        write(&self.folder.join(digest.trim_start_matches("sha256:")), bytes)?;
        Ok(json!({"mediaType": kind, "digest": digest, "size": bytes.len()}))
    }

    fn write_json(&self, kind: &str, value: &Value) -> Result<Value> {
        self.write(kind, &serde_json::to_vec(value)?)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}
