//! What an artifact is made of, by its manifest: one layer with the component, and beside it the declaration and the signature
//! as annotations. Pure: bytes in, bytes or a sentence out.
//!
//! The form is that of the CNCF for WebAssembly artifacts: a layer `application/wasm`, and a config
//! `application/vnd.wasm.config.v0+json` with what the component imports and exports. Reading also takes the layer of the
//! form before it. The config is never read: what it says about the module, the module says itself. Layers of other types are
//! not read either.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use topoloom_api::names::{OCI_DECLARATION_ANNOTATION, OCI_SIGNATURE_ANNOTATION};
use topoloom_core::plugin::{Digest, Limit};
use topoloom_core::text;

use super::error::{OciError, Trouble};
use crate::delivery::unpack::UNPACKED;

/// The type of a manifest.
pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// That of a list of manifests, each for another machine.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// The same two as Docker calls them.
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// What is asked for. Lists too: a registry that was not asked for one may make a manifest of it that no one pushed.
pub(super) const ACCEPT: &str = concat!(
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, ",
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json"
);

/// The type of the layer with the component.
pub const LAYER: &str = "application/wasm";
/// The same in the form before it.
pub const OLD_LAYER: &str = "application/vnd.wasm.content.layer.v1+wasm";
/// The type of the config.
pub const CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// The world that a plugin is written for.
const TARGET: &str = "topoloom:discovery/plugin@0.1.0";

/// The largest manifest that is read, in bytes: one has a kilobyte, and two annotations of four more.
pub const LARGEST: u64 = 1 << 20;
/// Types of layers that a message shows, in bytes.
const TYPES: usize = 300;

/// The annotations of the image specification that people and other programs show.
const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";

/// A manifest as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// What its bytes hash to: the identity of the artifact.
    pub digest: Digest,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The type that the registry gives it.
    pub content_type: Option<String>,
}

/// The layer with the component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// What its bytes have to hash to.
    pub digest: Digest,
    /// How many there are.
    pub size: u64,
}

/// What a manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// The component.
    pub layer: Layer,
    /// The text of its declaration.
    pub declaration: Option<Vec<u8>>,
    /// The text of its signature.
    pub signature: Option<Vec<u8>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestText {
    media_type: Option<String>,
    manifests: Option<Vec<serde::de::IgnoredAny>>,
    layers: Option<Vec<LayerText>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LayerText {
    media_type: String,
    digest: String,
    size: u64,
}

impl Manifest {
    /// Reads it.
    ///
    /// # Errors
    /// Why it is not the manifest of a plugin, and what would be.
    pub fn artifact(&self) -> Result<Artifact, OciError> {
        let invalid = |what: String| OciError::new(Trouble::Invalid, what);
        let read: ManifestText = serde_json::from_slice(&self.bytes).map_err(|error| {
            invalid(format!(
                "the manifest {} cannot be read, at line {}, column {}",
                self.digest,
                error.line(),
                error.column()
            ))
        })?;
        let said = read.media_type.as_deref().or(self.content_type.as_deref());
        let is_index = |given: &str| matches!(given, INDEX | DOCKER_INDEX);
        if read.manifests.is_some() || said.is_some_and(is_index) || self.content_type.as_deref().is_some_and(is_index)
        {
            let many = read.manifests.map_or(0, |manifests| manifests.len());
            return Err(invalid(format!(
                "{} is an index of {many} manifests and not the manifest of one plugin: a plugin is the same for every \
                 machine; push it alone (`topoloom plugin push`), or name one of them by its digest",
                self.digest
            )));
        }
        if let Some(other) = said.filter(|said| !matches!(*said, MANIFEST | DOCKER_MANIFEST)) {
            let other = text::line(other, TYPES);
            return Err(invalid(format!("{} is of the type {other}, and a plugin has a {MANIFEST}", self.digest)));
        }
        let layers = read.layers.unwrap_or_default();
        let is_wasm = |layer: &&LayerText| matches!(layer.media_type.as_str(), LAYER | OLD_LAYER);
        let mut wasm = layers.iter().filter(is_wasm);
        let (Some(layer), None) = (wasm.next(), wasm.next()) else {
            let types: Vec<&str> = layers.iter().map(|layer| layer.media_type.as_str()).collect();
            let types = if types.is_empty() { "none".to_owned() } else { text::line(&types.join(", "), TYPES) };
            return Err(invalid(format!(
                "{} must have exactly one layer of the type {LAYER}; its layers are: {types}",
                self.digest
            )));
        };
        let Some(digest) = Digest::parse(&layer.digest) else {
            let what = "names its layer by another digest than sha256, which this host does not read";
            return Err(invalid(format!("{} {what}", self.digest)));
        };
        // Before anything of it is asked for.
        if layer.size > UNPACKED as u64 {
            let what =
                format!("the layer of {} has {} bytes, and at most {UNPACKED} are read", self.digest, layer.size);
            return Err(OciError::new(Trouble::Beyond(Limit::File), what));
        }
        let mut annotations = read.annotations.unwrap_or_default();
        let mut take = |key: &str| annotations.remove(key).map(String::into_bytes);
        Ok(Artifact {
            layer: Layer { digest, size: layer.size },
            declaration: take(OCI_DECLARATION_ANNOTATION),
            signature: take(OCI_SIGNATURE_ANNOTATION),
        })
    }
}

/// A plugin that becomes an artifact.
#[derive(Debug, Clone, Copy)]
pub struct Pushed<'a> {
    /// The component, unpacked.
    pub module: &'a [u8],
    /// What it calls itself.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// The interfaces that it imports and exports.
    pub imports: &'a [String],
    /// Likewise.
    pub exports: &'a [String],
    /// The text of its signature.
    pub signature: Option<&'a str>,
}

/// The three blobs of an artifact. The same plugin gives the same bytes: there is no date in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blobs {
    /// The component.
    pub layer: Vec<u8>,
    /// What is in it, for people.
    pub config: Vec<u8>,
    /// What the artifact is made of.
    pub manifest: Vec<u8>,
}

impl Pushed<'_> {
    /// What is written into a registry, or into a folder.
    #[must_use]
    pub fn blobs(&self) -> Blobs {
        let digest = Digest::of(self.module);
        let config = json!({
            // The form wants a date; one of now would make another artifact of the same plugin.
            "created": "1970-01-01T00:00:00Z",
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [digest.to_string()],
            "component": {"imports": self.imports, "exports": self.exports, "target": TARGET},
        });
        let config = config.to_string().into_bytes();
        let mut annotations = BTreeMap::from([
            (TITLE, self.name.to_owned()),
            (VERSION, self.version.to_owned()),
            (OCI_DECLARATION_ANNOTATION, format!("name: {}\ndigest: {digest}\n", self.name)),
        ]);
        annotations.extend(self.signature.map(|signature| (OCI_SIGNATURE_ANNOTATION, signature.to_owned())));
        let mut layer = descriptor(LAYER, self.module);
        if let Some(layer) = layer.as_object_mut() {
            // The name of the file that `oras pull` writes.
            layer.insert("annotations".to_owned(), json!({ TITLE: format!("{}.wasm", self.name) }));
        }
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config),
            "layers": [layer],
            "annotations": annotations,
        });
        Blobs { layer: self.module.to_vec(), config, manifest: manifest.to_string().into_bytes() }
    }
}

/// How a manifest names a blob.
pub(super) fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(bytes).to_string(), "size": bytes.len()})
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &[u8] = b"\0asm and so on";

    fn manifest(text: &str, content_type: Option<&str>) -> Manifest {
        let bytes = text.as_bytes().to_vec();
        Manifest { digest: Digest::of(&bytes), bytes, content_type: content_type.map(str::to_owned) }
    }

    fn layered(layers: &Value) -> Manifest {
        manifest(&json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers}).to_string(), None)
    }

    fn refused(manifest: &Manifest) -> (Trouble, String) {
        let error = manifest.artifact().unwrap_err();
        (error.trouble, error.to_string())
    }

    fn pushed(signature: Option<&'static str>) -> Pushed<'static> {
        Pushed { module: MODULE, name: "racks", version: "1.0.0", imports: &[], exports: &[], signature }
    }

    #[test]
    fn what_is_pushed_is_read_with_all_that_lies_beside_it() {
        let blobs = pushed(Some("name: \"racks\"\n")).blobs();
        let read = manifest(std::str::from_utf8(&blobs.manifest).unwrap(), Some(MANIFEST)).artifact().unwrap();
        assert_eq!(read.layer, Layer { digest: Digest::of(MODULE), size: MODULE.len() as u64 });
        let declared = format!("name: racks\ndigest: {}\n", Digest::of(MODULE));
        assert_eq!(read.declaration.as_deref(), Some(declared.as_bytes()));
        assert_eq!(read.signature.as_deref(), Some(b"name: \"racks\"\n".as_slice()));
        assert_eq!(blobs, pushed(Some("name: \"racks\"\n")).blobs(), "nothing of the time of the push is in it");
        assert_ne!(blobs.manifest, pushed(None).blobs().manifest);
        let config: Value = serde_json::from_slice(&blobs.config).unwrap();
        assert_eq!(config["component"]["target"], TARGET);
    }

    #[test]
    fn both_types_of_layers_are_read_and_layers_of_others_are_left_alone() {
        let layer = |media_type: &str| descriptor(media_type, MODULE);
        for layers in [
            json!([layer(LAYER)]),
            json!([layer(OLD_LAYER)]),
            json!([layer("text/markdown"), layer(LAYER), layer("application/spdx+json")]),
        ] {
            assert_eq!(layered(&layers).artifact().unwrap().layer.digest, Digest::of(MODULE), "{layers}");
        }
        for (layers, words) in [
            (json!([]), "its layers are: none"),
            (json!([layer("application/vnd.oci.image.layer.v1.tar+gzip")]), "layers are: application/vnd.oci.image.l"),
            (json!([layer(LAYER), layer(OLD_LAYER)]), "exactly one layer"),
            (json!([layer(LAYER), layer(LAYER)]), "exactly one layer"),
        ] {
            let (trouble, message) = refused(&layered(&layers));
            assert!(trouble == Trouble::Invalid && message.contains(words), "{message}");
        }
    }

    #[test]
    fn an_index_is_refused_with_a_sentence_however_it_is_shown() {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [{}, {}]}).to_string();
        let unnamed = json!({"schemaVersion": 2, "manifests": [{}, {}]}).to_string();
        let hidden = json!({"schemaVersion": 2, "layers": []}).to_string();
        for found in [
            manifest(&index, None),
            manifest(&unnamed, None),
            manifest(&unnamed, Some(MANIFEST)),
            manifest(&hidden, Some(DOCKER_INDEX)),
        ] {
            let (trouble, message) = refused(&found);
            assert_eq!(trouble, Trouble::Invalid);
            assert!(message.contains("is an index of") && message.contains("push it alone"), "{message}");
        }
    }

    #[test]
    fn what_is_no_manifest_of_a_plugin_is_refused() {
        let odd = json!({"mediaType": "application/json", "layers": []}).to_string();
        let (trouble, message) = refused(&manifest(&odd, None));
        assert!(trouble == Trouble::Invalid && message.contains("is of the type application/json"), "{message}");
        for text in ["", "[]", "<html>canary</html>", r#"{"layers": "canary"}"#, r#"{"annotations": {"a": 1}}"#] {
            let (trouble, message) = refused(&manifest(text, None));
            assert!(trouble == Trouble::Invalid && !message.contains("canary"), "{message}");
        }
        let other = json!([{"mediaType": LAYER, "digest": "sha512:00", "size": 1}]);
        assert!(refused(&layered(&other)).1.contains("another digest than sha256"));
    }

    #[test]
    fn a_layer_of_two_gibibytes_is_refused_by_its_manifest() {
        let layers = json!([{"mediaType": LAYER, "digest": Digest::of(MODULE).to_string(), "size": 2_u64 << 30}]);
        let (trouble, message) = refused(&layered(&layers));
        assert_eq!(trouble, Trouble::Beyond(Limit::File));
        assert!(message.contains("2147483648 bytes"), "{message}");
        let negative = json!([{"mediaType": LAYER, "digest": Digest::of(MODULE).to_string(), "size": -1}]);
        assert_eq!(refused(&layered(&negative)).0, Trouble::Invalid);
    }
}
