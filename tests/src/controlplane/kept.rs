//! The data with which new control planes begin: made once, kept beside the programs, and copied for each.
//!
//! An apiserver writes three hundred objects into an empty etcd, with all that this costs (authentication, flow control,
//! ownership of fields, a watch of each), and then takes the definitions of the test and judges their rules: a fifth of the
//! processor time of a start. It finds all of that instead, as an apiserver that is started again does. Only the namespaces get
//! UIDs of their own, since that of `kube-system` is the identity of a cluster, and the authorities of clients are published again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::access::random_bytes;
use super::etcd::Gateway;
use super::planes::Turn;
use super::{Builder, Programs, Servers, eventually};

const NAMESPACES: &str = "/registry/namespaces/";
const AUTHENTICATION: &str = "/registry/configmaps/kube-system/extension-apiserver-authentication";
/// What every apiserver makes, some time after it is ready.
const OF_KUBERNETES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
const SOON: Duration = Duration::from_secs(20);
/// etcd needs less than a second to end.
const ETCD_DEADLINE: Duration = Duration::from_secs(10);
/// What the data depends on beside the programs and the content.
const SOURCES: [&str; 2] = [include_str!("kept.rs"), include_str!("launch.rs")];
const PAGE: usize = 4096;

/// The data that this process has read, by its folder.
static KNOWN: Mutex<BTreeMap<PathBuf, Arc<Data>>> = Mutex::new(BTreeMap::new());

/// What a control plane has before the test.
#[derive(Debug, Clone, Default)]
pub struct Content {
    /// CustomResourceDefinitions; all of them are established.
    pub definitions: Vec<Value>,
    /// Other objects.
    pub objects: Vec<Value>,
}

impl Content {
    fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        for part in SOURCES {
            hasher.update(part);
        }
        for object in self.definitions.iter().chain(&self.objects) {
            hasher.update(object.to_string());
        }
        hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The files of etcd.
#[derive(Debug)]
pub(super) struct Data(Vec<Part>);

#[derive(Debug)]
struct Part {
    /// Below the folder of etcd.
    path: PathBuf,
    /// Without the zeros at the end: etcd makes files much longer than what it writes.
    content: Vec<u8>,
    len: u64,
}

/// The data with this content, which is made where there is none. Programs that were not built here have none: they may be of
/// another version each time.
pub(super) async fn find_or_make(programs: &Programs, content: &Content, turn: &Turn) -> Result<Option<Arc<Data>>> {
    let Programs::Built { servers, .. } = programs else { return Ok(None) };
    let store = servers.parent().context("the programs are in a folder")?;
    let place = store.join(format!("data-{}", content.hash()));
    if let Some(known) = known(&place) {
        return Ok(Some(known));
    }
    let path = store.join("data.lock");
    let lock = tokio::task::spawn_blocking(move || -> Result<File> {
        let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        Ok(file)
    });
    // Until the end of this function: others wait, also in other processes.
    let _lock = lock.await.context("the wait for the lock panicked")??;
    if let Some(known) = known(&place) {
        return Ok(Some(known));
    }
    if !place.is_dir() {
        let made = Box::pin(make(content, turn.clone(), store, &place)).await;
        made.context("the data of new control planes cannot be made")?;
    }
    let data = Arc::new(Data::read(&place)?);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).insert(place, Arc::clone(&data));
    Ok(Some(data))
}

fn known(place: &Path) -> Option<Arc<Data>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(place).cloned()
}

/// Starts a control plane on nothing, and keeps what it has when everything is there.
async fn make(content: &Content, turn: Turn, store: &Path, place: &Path) -> Result<()> {
    let mut plane = Builder::default().start_on(None, turn).await?;
    plane.add(content).await?;
    let namespaces: Api<Namespace> = Api::all(plane.client());
    eventually("the apiserver has made its namespaces", SOON, async || {
        let found = OF_KUBERNETES.iter().map(|name| namespaces.get(name));
        try_join_all(found).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    for name in content.definitions.iter().flat_map(services) {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        eventually(&format!("{name} is available"), SOON, async || {
            let service = plane.get(&path).await.map_err(|error| format!("{error:#}"))?;
            let stored: Value = serde_json::from_str(&service).map_err(|error| error.to_string())?;
            let conditions = stored["status"]["conditions"].as_array().into_iter().flatten();
            let mut conditions = conditions.map(|condition| (&condition["type"], &condition["status"]));
            if conditions.any(|it| it == (&json!("Available"), &json!("True"))) { Ok(()) } else { Err(service) }
        })
        .await;
    }
    let Some(Servers { apiserver, etcd, launch, folder: _folder, .. }) = plane.servers.take() else {
        return Ok(());
    };
    // Killed, so that it writes nothing more.
    drop(apiserver);
    if let Some(etcd) = etcd {
        etcd.stop(ETCD_DEADLINE).await?;
    }
    // Made beside its place and then renamed: no reader ever sees a part of it.
    let unfinished = tempfile::Builder::new().prefix("unfinished-").tempdir_in(store)?;
    Data::read(&launch.etcd_folder())?.write(unfinished.path())?;
    let unfinished = unfinished.keep();
    fs::rename(&unfinished, place).with_context(|| format!("cannot move the data to {}", place.display()))
}

/// The names of the APIServices that an apiserver makes for a definition, some time after it serves it.
fn services(definition: &Value) -> Vec<String> {
    let (group, versions) = (&definition["spec"]["group"], &definition["spec"]["versions"]);
    let served = versions.as_array().into_iter().flatten().filter(|version| version["served"] == true);
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    served.map(|version| format!("{}.{}", word(&version["name"]), word(group))).collect()
}

impl Gateway {
    /// Makes the data those of another cluster, while no apiserver runs.
    pub(super) async fn renew(&self) -> Result<()> {
        let (keys, _) = self.keys().await?;
        for key in keys.keys().filter(|key| key.starts_with(NAMESPACES)) {
            let uid = random_uid()?;
            self.edit(key, |namespace| namespace["metadata"]["uid"] = json!(uid)).await?;
        }
        // The apiserver adds the authorities of its clients to those that it finds there.
        self.remove(AUTHENTICATION).await
    }
}

/// A UID as Kubernetes makes them.
fn random_uid() -> Result<String> {
    let mut bytes = random_bytes::<16>()?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    Ok(parts.join("-"))
}

impl Data {
    /// The files below a folder of an etcd that does not run.
    fn read(folder: &Path) -> Result<Self> {
        let mut parts = Vec::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(below) = folders.pop() {
            let here = folder.join(&below);
            let entries = fs::read_dir(&here).with_context(|| format!("cannot read {}", here.display()))?;
            for entry in entries {
                let entry = entry?;
                let path = below.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    folders.push(path);
                } else if path.extension().is_none_or(|extension| extension != "tmp") {
                    // A file that etcd prepares is none yet.
                    let content = fs::read(entry.path()).with_context(|| format!("cannot read {}", path.display()))?;
                    parts.push(Part::of(path, content));
                }
            }
        }
        Ok(Self(parts))
    }

    /// Writes them below a folder.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        for Part { path, content, len } in &self.0 {
            let path = folder.join(path);
            let above = path.parent().context("a file is in a folder")?;
            // etcd warns about a folder that others can read.
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(above)
                .with_context(|| format!("cannot create {}", above.display()))?;
            let written = File::create(&path).and_then(|mut file| {
                file.write_all(content)?;
                file.set_len(*len)
            });
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

impl Part {
    fn of(path: PathBuf, mut content: Vec<u8>) -> Self {
        const ZEROS: [u8; PAGE] = [0; PAGE];
        let len = content.len();
        let pages = content.chunks(PAGE).rposition(|page| *page != ZEROS[..page.len()]).map_or(0, |last| last + 1);
        content.truncate(pages * PAGE);
        content.shrink_to_fit();
        Self { path, content, len: len as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_as_they_were_read_with_their_zeros_and_without_what_etcd_prepares() {
        let [from, to] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut long = vec![0; 3 * PAGE + 17];
        long[PAGE + 3] = 7;
        let files = [("member/snap/db", long), ("member/wal/1.wal", vec![1, 2, 0]), ("empty", vec![0; 5])];
        for (name, content) in &files {
            let path = from.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        fs::write(from.path().join("member/wal/1.tmp"), [0; 9]).unwrap();
        let data = Data::read(from.path()).unwrap();
        assert!(data.0.iter().all(|part| part.content.len() <= 2 * PAGE));
        data.write(to.path()).unwrap();
        for (name, content) in files {
            assert_eq!(fs::read(to.path().join(name)).unwrap(), content, "{name}");
        }
        assert!(!to.path().join("member/wal/1.tmp").exists());
    }

    #[test]
    fn each_uid_is_another_one_of_the_form_of_kubernetes() {
        let (one, two) = (random_uid().unwrap(), random_uid().unwrap());
        assert_ne!(one, two);
        let lengths: Vec<_> = one.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12], "{one}");
        assert!(one[14..].starts_with('4') && one[19..].starts_with(['8', '9', 'a', 'b']), "{one}");
    }

    #[test]
    fn each_version_that_is_served_has_an_api_service() {
        let version = |name: &str, served: bool| json!({"name": name, "served": served});
        let versions = [version("v1", true), version("v2", false), version("v3", true)];
        let definition = json!({"spec": {"group": "ex.io", "versions": versions}});
        assert_eq!(services(&definition), ["v1.ex.io", "v3.ex.io"]);
    }

    #[test]
    fn another_content_is_kept_in_another_place() {
        let empty = Content::default();
        let with = Content { definitions: vec![json!({"kind": "X"})], objects: Vec::new() };
        assert_ne!(empty.hash(), with.hash());
        assert_eq!(empty.hash(), Content::default().hash());
    }
}
