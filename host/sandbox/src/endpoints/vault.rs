//! Where Secrets and ConfigMaps come from: always by name, never by list.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;

use super::credential::Hidden;
use topoloom_cluster::{Refusal, RefusalReason, Restores, single};

/// The largest file that is read as a key of a Secret.
const LARGEST_FILE: u64 = 1 << 20;

/// Which kind of object holds something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A Secret.
    Secret,
    /// A ConfigMap.
    ConfigMap,
}

impl ObjectKind {
    const fn word(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }
}

/// One object that an endpoint needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VaultObject {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for VaultObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            // At a desk there is none.
            "" => write!(f, "{} {}", self.kind.word(), self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind.word(), self.name),
        }
    }
}

/// The keys of an object.
pub type Data = BTreeMap<String, Hidden>;

/// What a look at an object found.
pub type ObjectData = Result<Data, String>;

/// Why an object cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The sentence, with the rule that would allow it; nothing of its content.
    pub message: String,
    /// The API server did not answer, or not now: this says nothing about the object.
    pub may_pass: bool,
}

impl From<String> for Unread {
    fn from(message: String) -> Self {
        Self { message, may_pass: false }
    }
}

/// What a watch says.
pub enum VaultEvent {
    /// The object as it is now.
    Now(ObjectData),
    /// The watch was interrupted and continues.
    Interrupted,
    /// There is no watch to be had: it is not granted.
    Refused,
}

/// Where to look.
#[derive(Clone)]
pub enum Vault {
    /// In the cluster.
    Cluster {
        /// With the rights of this client.
        client: kube::Client,
        /// How its watches are notified that the API server went back.
        restores: Restores,
        /// Where objects are that name no namespace.
        namespace: Arc<str>,
    },
    /// In a folder, for a desk without a cluster.
    Folder(Folder),
    /// Nowhere.
    Nothing,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cluster { .. } => "Cluster",
            Self::Folder(_) => "Folder",
            Self::Nothing => "Nothing",
        })
    }
}

/// A folder whose files are named like the keys of a Secret; or several in one, each named like its Secret.
#[derive(Clone)]
pub struct Folder {
    path: PathBuf,
    /// Whose the files are that lie in it: they are shown to no endpoint but that of the first Secret that was asked
    /// for.
    owner: Arc<OnceLock<VaultObject>>,
}

impl Folder {
    async fn read(&self, name: &VaultObject) -> ObjectData {
        let own = self.path.join(&name.name);
        if tokio::fs::metadata(&own).await.is_ok_and(|found| found.is_dir()) {
            return read_folder(own).await;
        }
        let owner = self.owner.get_or_init(|| name.clone());
        if owner == name {
            return read_folder(self.path.clone()).await;
        }
        Err(format!(
            "--credentials {}: it holds the {owner}; put the keys of the {name} into the folder {}, and those of the \
             other into one of its own",
            self.path.display(),
            own.display()
        ))
    }
}

impl Vault {
    /// In this folder.
    #[must_use]
    pub fn folder(path: PathBuf) -> Self {
        Self::Folder(Folder { path, owner: Arc::default() })
    }

    /// The namespace of objects that name none.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Cluster { namespace, .. } => namespace,
            Self::Folder(_) | Self::Nothing => "",
        }
    }

    /// The object as it is now.
    ///
    /// # Errors
    /// Why it cannot be read, with the rule that would allow it; nothing of its content.
    pub async fn read(&self, name: &VaultObject) -> ObjectData {
        self.get(name).await.map_err(|unread| unread.message)
    }

    /// The same, for a caller that remembers what it has read.
    ///
    /// # Errors
    /// Why it cannot be read, and whether that is about the object at all.
    pub async fn get(&self, name: &VaultObject) -> Result<Data, Unread> {
        match self {
            Self::Cluster { client, .. } => match name.kind {
                ObjectKind::Secret => found(name, secrets(client, name).get_opt(&name.name).await, of_secret),
                ObjectKind::ConfigMap => {
                    found(name, config_maps(client, name).get_opt(&name.name).await, of_config_map)
                }
            },
            Self::Folder(folder) if name.kind == ObjectKind::Secret => folder.read(name).await.map_err(Unread::from),
            Self::Folder(_) => {
                Err(format!("the {name} can be read in a cluster only; at a desk, grant a `file` in its place").into())
            }
            Self::Nothing if name.kind == ObjectKind::ConfigMap => {
                Err(format!("the {name} can be read in a cluster only; at a desk, grant a `file` in its place").into())
            }
            Self::Nothing => Err(format!(
                "the {name} cannot be read without a cluster; `--credentials DIR` takes files named like its keys"
            )
            .into()),
        }
    }

    /// Every state of the object from now on, where that can be watched.
    pub fn watch(&self, name: &VaultObject) -> BoxStream<'static, VaultEvent> {
        let Self::Cluster { client, restores, .. } = self else {
            return futures::stream::iter([VaultEvent::Refused]).boxed();
        };
        let owned = name.clone();
        match name.kind {
            ObjectKind::Secret => {
                let states = single::watch(secrets(client, name), &name.name, restores);
                states.map(move |state| seen(&owned, state, of_secret)).boxed()
            }
            ObjectKind::ConfigMap => {
                let states = single::watch(config_maps(client, name), &name.name, restores);
                states.map(move |state| seen(&owned, state, of_config_map)).boxed()
            }
        }
    }

    /// Whether objects can change under our eyes.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Cluster { .. })
    }
}

fn secrets(client: &kube::Client, name: &VaultObject) -> Api<Secret> {
    Api::namespaced(client.clone(), &name.namespace)
}

fn config_maps(client: &kube::Client, name: &VaultObject) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), &name.namespace)
}

fn of_secret(secret: Secret) -> Data {
    secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, Hidden::new(value.0))).collect()
}

fn of_config_map(map: ConfigMap) -> Data {
    let text = map.data.unwrap_or_default().into_iter().map(|(key, value)| (key, Hidden::new(value.into_bytes())));
    let binary = map.binary_data.unwrap_or_default().into_iter().map(|(key, value)| (key, Hidden::new(value.0)));
    text.chain(binary).collect()
}

fn found<K>(name: &VaultObject, answer: kube::Result<Option<K>>, data: fn(K) -> Data) -> Result<Data, Unread> {
    match answer {
        Ok(Some(object)) => Ok(data(object)),
        Ok(None) => Err(missing(name).into()),
        // What is wrong with it may quote it.
        Err(kube::Error::SerdeError(_)) => Err(format!("the {name} cannot be understood").into()),
        Err(error) => {
            let refusal = Refusal::of(&error);
            let may_pass = matches!(
                refusal.reason,
                RefusalReason::Unreachable | RefusalReason::ServerError | RefusalReason::TooManyRequests
            );
            Err(Unread { message: unreadable(name, &refusal), may_pass })
        }
    }
}

fn seen<K>(name: &VaultObject, state: Result<Option<K>, Refusal>, data: fn(K) -> Data) -> VaultEvent {
    match state {
        Ok(Some(object)) => VaultEvent::Now(Ok(data(object))),
        Ok(None) => VaultEvent::Now(Err(missing(name))),
        Err(refusal) if refusal.reason == RefusalReason::Forbidden => VaultEvent::Refused,
        Err(_) => VaultEvent::Interrupted,
    }
}

fn missing(name: &VaultObject) -> String {
    format!("the {name} does not exist")
}

fn unreadable(name: &VaultObject, refusal: &Refusal) -> String {
    match refusal.reason {
        RefusalReason::Forbidden => format!(
            "the {name} cannot be read: grant `get` (and `list` and `watch`, to notice changes at once) on the {}s \
             named {:?} in the namespace {} to the host's ServiceAccount",
            name.kind.word(),
            name.name,
            name.namespace
        ),
        _ => format!("the {name} cannot be read: {refusal}"),
    }
}

/// The files of a folder as the keys of a Secret. Only those with names that mean something are opened.
async fn read_folder(folder: PathBuf) -> ObjectData {
    let mut data = Data::new();
    let is_folder = tokio::fs::metadata(&folder).await.map(|found| found.is_dir());
    if !is_folder.map_err(|error| format!("--credentials {}: {error}", folder.display()))? {
        return Err(format!("--credentials {}: it is no folder", folder.display()));
    }
    for key in ["username", "password", "token", "tls.crt", "tls.key", "ca.crt"] {
        let path = folder.join(key);
        match tokio::fs::metadata(&path).await {
            Ok(file) if file.len() <= LARGEST_FILE => {
                let bytes = tokio::fs::read(&path).await;
                let bytes = bytes.map_err(|error| format!("{}: {error}", path.display()))?;
                data.insert(key.to_owned(), Hidden::new(bytes));
            }
            Ok(_) => return Err(format!("{} is larger than 1 MiB", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", path.display())),
        }
    }
    if data.is_empty() {
        return Err(format!("{} has no file named like a key of a Secret, such as `token`", folder.display()));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_api_server_that_is_away_says_is_not_about_the_object() {
        let name = VaultObject { kind: ObjectKind::Secret, namespace: "n".into(), name: "s".into() };
        let answer = |code: u16| -> kube::Result<Option<Secret>> {
            Err(kube::Error::Api(kube::core::Status::failure("no", "no").with_code(code).boxed()))
        };
        for (code, may_pass) in [(500, true), (503, true), (429, true), (401, false), (403, false)] {
            assert_eq!(found(&name, answer(code), of_secret).unwrap_err().may_pass, may_pass, "{code}");
        }
        let gone = found(&name, Ok(None), of_secret).unwrap_err();
        assert_eq!(gone, Unread { message: "the Secret n/s does not exist".into(), may_pass: false });
    }

    #[tokio::test]
    async fn one_folder_is_one_secrets_and_several_have_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let name = |name: &str| VaultObject { kind: ObjectKind::Secret, namespace: String::new(), name: name.into() };
        let (west, east) = (name("west"), name("east"));
        let token = |found: ObjectData| found.map(|data| data["token"].reveal().to_vec());
        std::fs::write(folder.path().join("token"), "of west").unwrap();
        let vault = Vault::folder(folder.path().to_owned());
        assert_eq!(token(vault.read(&west).await).unwrap(), b"of west");
        assert_eq!(token(vault.clone().read(&west).await).unwrap(), b"of west");
        let refused = vault.read(&east).await.unwrap_err();
        assert!(refused.contains("it holds the Secret west") && refused.contains("/east"), "{refused}");
        std::fs::create_dir(folder.path().join("east")).unwrap();
        std::fs::write(folder.path().join("east/token"), "of east").unwrap();
        assert_eq!(token(vault.read(&east).await).unwrap(), b"of east");
    }
}
