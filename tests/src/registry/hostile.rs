//! A registry with one artifact that lies about it: what a broken proxy, a broken disk or an attacker would do.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use topoloom::delivery::oci::manifest::{Blobs, LAYER, MANIFEST, Pushed};
use topoloom::plugin::Digest;
use topoloom_simulator::Authority;

use super::https::{Asked, Content, Https, Reply};
use super::{PASSWORD, USER};

/// The repository with the artifact.
pub const REPOSITORY: &str = "acme/versions";
/// Its tag.
pub const TAG: &str = "stable";

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// The layer has other bytes of the same length.
    OtherBytes,
    /// The connection ends in the middle of the layer.
    CutLayer,
    /// The layer ends early, as if that were all of it.
    ShortLayer,
    /// The manifest says that the layer has two gibibytes.
    HugeLayer,
    /// The layer never ends.
    EndlessLayer,
    /// The manifest never ends.
    EndlessManifest,
    /// An index is in place of the manifest.
    Index,
    /// The registry calls the manifest something else than it is.
    OtherManifest,
    /// The layer has another type.
    OtherType,
    /// What is in place of the manifest is a login page.
    LoginPage,
    /// Layers are elsewhere.
    RedirectedLayer(String),
    /// Manifests are elsewhere.
    RedirectedManifest(String),
    /// It wants a token of another server.
    OtherTokenServer(String),
    /// Nothing is there.
    Missing,
    /// No one may have it.
    Forbidden,
    /// It has too much to do.
    Busy,
}

/// The registry; it ends with the value.
pub struct Hostile {
    server: Https,
    state: Arc<Mutex<State>>,
}

struct State {
    fault: Fault,
    blobs: Blobs,
}

impl Hostile {
    /// Starts one with a plugin, for the user of tests alone.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(authority: &Authority, module: &[u8]) -> Result<Self> {
        let state = Arc::new(Mutex::new(State { fault: Fault::None, blobs: blobs(module) }));
        let shared = Arc::clone(&state);
        let answer = move |asked: &Asked| shared.lock().unwrap_or_else(PoisonError::into_inner).answer(asked);
        Ok(Self { server: Https::start(authority, answer).await?, state })
    }

    /// From now on this is wrong.
    pub fn fault(&self, fault: Fault) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).fault = fault;
    }

    /// From now on this is its plugin.
    pub fn module(&self, module: &[u8]) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).blobs = blobs(module);
    }

    /// `HOST:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        self.server.host()
    }

    /// What it was asked.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.server.asked()
    }

    /// Forgets what it was asked.
    pub fn forget(&self) {
        self.server.forget();
    }

    /// The reference to the artifact, by its tag.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("oci://{}/{REPOSITORY}:{TAG}", self.host())
    }

    /// The same by the digest of its manifest.
    #[must_use]
    pub fn pinned(&self) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        format!("oci://{}/{REPOSITORY}@{}", self.host(), Digest::of(&state.blobs.manifest))
    }
}

fn blobs(module: &[u8]) -> Blobs {
    Pushed { module, name: "versions", version: "1.0.0", imports: &[], exports: &[], signature: None }.blobs()
}

impl State {
    fn answer(&self, asked: &Asked) -> Reply {
        let wanted = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
        if let Fault::OtherTokenServer(realm) = &self.fault {
            let challenge = format!("Bearer realm=\"{realm}\",service=\"hostile\"");
            return Reply::new(401, "").header("www-authenticate", challenge);
        }
        if asked.authorization() != Some(wanted.as_str()) {
            return Reply::new(401, "").header("www-authenticate", "Basic realm=\"hostile\"");
        }
        match &self.fault {
            Fault::Missing => {
                return Reply::new(404, r#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "canary"}]}"#);
            }
            Fault::Forbidden => return Reply::new(403, r#"{"errors": [{"code": "DENIED", "message": "canary"}]}"#),
            Fault::Busy => return Reply::new(503, "canary").header("retry-after", "1"),
            _ => {}
        }
        let path = asked.path();
        if path.starts_with(&format!("/v2/{REPOSITORY}/manifests/")) {
            return self.manifest(asked);
        }
        if path == format!("/v2/{REPOSITORY}/blobs/{}", Digest::of(&self.blobs.layer)) {
            return self.layer();
        }
        Reply::new(404, "")
    }

    fn manifest(&self, asked: &Asked) -> Reply {
        let named = |bytes: Vec<u8>, media_type: &str| {
            let digest = Digest::of(&bytes).to_string();
            Reply::new(200, bytes).header("content-type", media_type).header("docker-content-digest", digest)
        };
        let with = |layer: serde_json::Value| {
            named(
                json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": [layer]}).to_string().into_bytes(),
                MANIFEST,
            )
        };
        let digest = Digest::of(&self.blobs.layer).to_string();
        match &self.fault {
            Fault::HugeLayer => with(json!({"mediaType": LAYER, "digest": digest, "size": 2_u64 << 30})),
            Fault::OtherType => {
                let other = "application/vnd.oci.image.layer.v1.tar+gzip";
                with(json!({"mediaType": other, "digest": digest, "size": self.blobs.layer.len()}))
            }
            Fault::Index => {
                let index = "application/vnd.oci.image.index.v1+json";
                let text = json!({"schemaVersion": 2, "mediaType": index, "manifests": [{}, {}]}).to_string();
                named(text.into_bytes(), index)
            }
            Fault::OtherManifest => {
                let other = Digest::of(b"another manifest").to_string();
                let reply = Reply::new(200, self.blobs.manifest.clone()).header("content-type", MANIFEST);
                reply.header("docker-content-digest", other)
            }
            Fault::LoginPage => Reply::new(200, "<html>canary</html>").header("content-type", "text/html"),
            Fault::EndlessManifest if asked.method == "GET" => {
                Reply::new(200, "").header("content-type", MANIFEST).content(Content::Endless)
            }
            Fault::EndlessManifest => Reply::new(405, ""),
            Fault::RedirectedManifest(to) => Reply::new(307, "").header("location", format!("{to}{}", asked.target)),
            _ => named(self.blobs.manifest.clone(), MANIFEST),
        }
    }

    fn layer(&self) -> Reply {
        let layer = &self.blobs.layer;
        let whole = Reply::new(200, layer.clone()).header("content-type", "application/octet-stream");
        let half = layer[..layer.len() / 2].to_vec();
        match &self.fault {
            Fault::OtherBytes => Reply::new(200, vec![0; layer.len()]),
            Fault::CutLayer => whole.content(Content::Cut { says: layer.len() as u64, comes: half }),
            Fault::ShortLayer => whole.content(Content::Whole(half)),
            Fault::EndlessLayer => whole.content(Content::Endless),
            Fault::RedirectedLayer(to) => {
                Reply::new(307, "").header("location", format!("{to}/{}?signature=canary", Digest::of(layer)))
            }
            _ => whole,
        }
    }
}
