//! Where the credentials and the authorities of a registry come from: a Secret in a host, Docker's files and programs at a desk.
//!
//! A host reads objects by name and never runs a program; a desk has no Secrets and runs what its user has configured. What
//! was read counts for a minute, and is read again at once where a registry refuses it.

use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::Instant;

use super::docker::{Account, DockerConfig, LARGEST};
use crate::authorities::{self, Authorities};
use crate::config::registry::Registry;
use crate::endpoints::vault::{Data, Unread, Vault, VaultObject};

/// The key of a Secret of the type `kubernetes.io/dockerconfigjson`.
pub const SECRET_KEY: &str = ".dockerconfigjson";
/// How long an object that was read counts: as often as a kubelet refreshes a mounted one.
const OLD: Duration = Duration::from_secs(60);
/// One that was read a moment ago is not read again, even if it was refused.
const YOUNG: Duration = Duration::from_secs(2);
/// The longest file of authorities, in bytes: that of a whole operating system has 250 KB.
const BUNDLE: u64 = 1 << 20;
/// How long a program with credentials may take: it may ask its user.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer of one, in bytes.
const ANSWER: u64 = 64 << 10;
/// What `docker login` calls Docker's own registry, which has several names.
const DOCKER_SERVER: &str = "https://index.docker.io/v1/";

/// How much the caller trusts what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// What was read lately counts.
    Usual,
    /// The other side refused it.
    Again,
}

/// An object of the cluster, as it was last read.
#[derive(Debug)]
pub struct ClusterObject {
    vault: Vault,
    name: VaultObject,
    known: Mutex<Option<(Instant, Arc<Data>)>>,
}

impl ClusterObject {
    /// Nothing is read yet.
    #[must_use]
    pub fn new(vault: Vault, name: VaultObject) -> Self {
        Self { vault, name, known: Mutex::default() }
    }

    async fn data(&self, look: Look) -> Result<Arc<Data>, String> {
        let age = if look == Look::Usual { OLD } else { YOUNG };
        {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, data)) = known.as_ref().filter(|(read, _)| read.elapsed() < age) {
                return Ok(Arc::clone(data));
            }
        }
        let read = self.vault.get(&self.name).await;
        self.keep(read)
    }

    /// What was read counts. An API server that is away takes nothing that was read before.
    fn keep(&self, read: Result<Data, Unread>) -> Result<Arc<Data>, String> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = match read {
            Err(unread) => unread,
            Ok(data) => {
                let data = Arc::new(data);
                *known = Some((Instant::now(), Arc::clone(&data)));
                return Ok(data);
            }
        };
        match known.as_ref().filter(|_| unread.may_pass) {
            Some((_, data)) => Ok(Arc::clone(data)),
            None => Err(unread.message),
        }
    }

    async fn key(&self, key: &str, look: Look) -> Result<Vec<u8>, String> {
        let data = self.data(look).await?;
        let value = data.get(key).ok_or_else(|| format!("the {} has no key {key:?}", self.name))?;
        Ok(value.reveal().to_vec())
    }
}

/// Where credentials come from.
#[derive(Debug)]
pub enum Login {
    /// The entry names none.
    Nothing,
    /// A Secret.
    Secret(ClusterObject),
    /// The folder of Docker's configuration, with the programs that it names.
    Desk(PathBuf),
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) account: Account,
    /// Of whom it is, for messages.
    pub(super) with: String,
}

impl Login {
    /// Whether another look may find something else, since what was read counts for a while.
    pub(super) const fn is_remembered(&self) -> bool {
        matches!(self, Self::Secret(_))
    }

    /// The account for a repository.
    ///
    /// # Errors
    /// Why it is not known; nothing of its content.
    pub(super) async fn account(&self, registry: &Registry, name: &str, look: Look) -> Result<Found, String> {
        match self {
            Self::Nothing => {
                let with = "without credentials, since the entry names no `pullSecret`".to_owned();
                Ok(Found { account: Account::Anonymous, with })
            }
            Self::Secret(secret) => {
                let text = secret
                    .key(SECRET_KEY, look)
                    .await
                    .map_err(|why| format!("{why}; a pull Secret is one of the type kubernetes.io/dockerconfigjson"))?;
                let config = DockerConfig::parse(&text).map_err(|why| format!("the {}: {why}", secret.name))?;
                Ok(found(config.account(registry, name), &format!("the {}", secret.name), registry))
            }
            Self::Desk(folder) => at_desk(folder, registry, name).await,
        }
    }
}

fn found(account: Option<&Account>, place: &str, registry: &Registry) -> Found {
    match account {
        Some(account) => Found { account: account.clone(), with: format!("with the credentials of {place}") },
        None => {
            let with = format!("without credentials, since {place} has none for {registry}");
            Found { account: Account::Anonymous, with }
        }
    }
}

/// What the programs of a person's desk know.
async fn at_desk(folder: &Path, registry: &Registry, name: &str) -> Result<Found, String> {
    let path = folder.join("config.json");
    let place = path.display().to_string();
    let read = tokio::task::spawn_blocking(move || bounded(&path, LARGEST as u64)).await;
    let text = read.map_err(|_| format!("{place}: it could not be read"))?.map_err(|why| format!("{place}: {why}"))?;
    let Some(text) = text else {
        let with = format!("without credentials, since there is no {place} (`docker login` or `oras login` writes it)");
        return Ok(Found { account: Account::Anonymous, with });
    };
    let config = DockerConfig::parse(&text).map_err(|why| format!("{place}: {why}"))?;
    if let Some(helper) = config.helper(registry) {
        for server in servers(registry) {
            let account = helped(helper, server).await.map_err(|why| format!("{place}: {why}"))?;
            if let Some(account) = account {
                return Ok(Found { account, with: format!("with the credentials of docker-credential-{helper}") });
            }
        }
    }
    Ok(found(config.account(registry, name), &place, registry))
}

/// A whole regular file within a bound; `None` where there is none.
pub(super) fn bounded(path: &Path, most: u64) -> Result<Option<Vec<u8>>, String> {
    // Opening a pipe would wait for its other end.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match std::fs::OpenOptions::new().read(true).custom_flags(nonblocking).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if !file.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > most {
        return Err(format!("it is larger than {most} bytes, the most that is read"));
    }
    Ok(Some(bytes))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Helped {
    username: String,
    secret: String,
}

/// What programs with credentials call a registry: `docker login` stores those of Docker's own under a URL.
fn servers(registry: &Registry) -> impl Iterator<Item = &str> {
    registry.is_docker().then_some(DOCKER_SERVER).into_iter().chain([registry.as_str()])
}

/// Asks the program `docker-credential-NAME`, as Docker does: the registry in its standard input, the answer as JSON in its
/// standard output. `None`: it has none for this registry.
async fn helped(name: &str, server: &str) -> Result<Option<Account>, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_word) {
        return Err("the name of a program with credentials has letters, digits, `-`, `_` and `.`".to_owned());
    }
    let program = format!("docker-credential-{name}");
    let failed = |what: &dyn std::fmt::Display| format!("{program}: {what}");
    let mut child = Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(&error))?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let asked = async {
        if let Some(mut input) = input {
            // One that reads nothing has its answer already.
            let _ = input.write_all(server.as_bytes()).await;
        }
        let mut answer = Vec::new();
        if let Some(output) = output {
            output.take(ANSWER).read_to_end(&mut answer).await?;
        }
        Ok::<_, std::io::Error>((child.wait().await?, answer))
    };
    let ended = tokio::time::timeout(PATIENCE, asked).await;
    let (status, answer) =
        ended.map_err(|_| failed(&format!("no answer within {PATIENCE:?}")))?.map_err(|error| failed(&error))?;
    if !status.success() {
        // The words of Docker's own helpers for a registry that they do not know.
        let says = String::from_utf8_lossy(&answer);
        return match says.contains("credentials not found") {
            true => Ok(None),
            false => Err(failed(&status)),
        };
    }
    let read: Helped = serde_json::from_slice(&answer).map_err(|_| failed(&"the answer cannot be read"))?;
    Ok(Some(Account::of(&read.username, &read.secret)))
}

/// Whose signature counts under the certificate of a registry.
#[derive(Debug)]
pub enum Trusted {
    /// The authorities of the system.
    System,
    /// These, as PEM.
    Inline(Vec<u8>),
    /// Those in a file.
    File(PathBuf),
    /// Those in a key of an object.
    Key(Box<ClusterObject>, String),
}

impl Trusted {
    /// Where they are from and what they are, as PEM; nothing for those of the system.
    pub(super) async fn pem(&self, look: Look) -> Result<Option<(String, Vec<u8>)>, String> {
        match self {
            Self::System => Ok(None),
            Self::Inline(pem) => Ok(Some(("`caBundle`".to_owned(), pem.clone()))),
            Self::File(path) => {
                let (place, path) = (format!("the authorities in {}", path.display()), path.clone());
                let read = tokio::task::spawn_blocking(move || bounded(&path, BUNDLE)).await;
                let pem = read.map_err(|_| format!("{place}: it could not be read"))?;
                let pem = pem.and_then(|pem| pem.ok_or_else(|| "there is no such file".to_owned()));
                Ok(Some((place.clone(), pem.map_err(|why| format!("{place}: {why}"))?)))
            }
            Self::Key(object, key) => {
                let pem = object.key(key, look).await.map_err(|why| format!("`caBundle`: {why}"))?;
                Ok(Some((format!("`caBundle`: key {key:?} of the {}", object.name), pem)))
            }
        }
    }
}

/// The authorities in what was read.
pub(super) fn authorities(pem: Option<&(String, Vec<u8>)>) -> Result<Authorities, String> {
    match pem {
        Some((place, pem)) => authorities::named([(place.as_str(), pem.as_slice())]),
        None => authorities::of_system().ok_or_else(|| {
            "this system knows no certificate authorities; give that of the registry with `caBundle`".to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::endpoints::vault::ObjectKind;

    fn registry() -> Registry {
        Registry::parse("registry.example.com").unwrap()
    }

    #[tokio::test]
    async fn without_a_file_there_are_no_credentials_and_the_message_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let login = Login::Desk(folder.path().to_owned());
        let found = login.account(&registry(), "a", Look::Usual).await.unwrap();
        assert_eq!(found.account, Account::Anonymous);
        assert!(found.with.contains("there is no ") && found.with.contains("config.json"), "{}", found.with);
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        let found = login.account(&registry(), "a", Look::Usual).await.unwrap();
        assert!(found.with.ends_with("config.json has none for registry.example.com"), "{}", found.with);
        std::fs::write(folder.path().join("config.json"), "canary").unwrap();
        let error = login.account(&registry(), "a", Look::Usual).await.unwrap_err();
        assert!(error.contains("it is no configuration of Docker") && !error.contains("canary"), "{error}");
    }

    #[test]
    fn an_api_server_that_is_away_takes_nothing_that_was_read_before() {
        let name = VaultObject { kind: ObjectKind::Secret, namespace: "n".to_owned(), name: "s".to_owned() };
        let object = ClusterObject::new(Vault::Nothing, name);
        let away = || Err(Unread { message: "no answer".to_owned(), may_pass: true });
        assert_eq!(object.keep(away()), Err("no answer".to_owned()), "there is nothing to fall back on");
        let data = object.keep(Ok(Data::new())).unwrap();
        assert_eq!(object.keep(away()), Ok(data));
        assert_eq!(object.keep(Err("it does not exist".to_owned().into())), Err("it does not exist".to_owned()));
    }

    #[tokio::test]
    async fn the_name_of_a_program_leads_to_no_other_folder() {
        for name in ["../sh", "a b", "", "a/b", "$(x)"] {
            assert!(helped(name, "registry.example.com").await.unwrap_err().contains("has letters, digits"), "{name}");
        }
        let error = helped("of-no-one-at-all", "registry.example.com").await.unwrap_err();
        assert!(error.starts_with("docker-credential-of-no-one-at-all: "), "{error}");
    }

    #[test]
    fn a_program_is_asked_for_docker_s_registry_by_the_name_under_which_docker_stores_it() {
        for name in ["docker.io", "registry-1.docker.io", "index.docker.io"] {
            let docker = Registry::parse(name).unwrap();
            assert!(servers(&docker).eq(["https://index.docker.io/v1/", name]), "{name}");
        }
        assert!(servers(&registry()).eq(["registry.example.com"]));
    }

    #[tokio::test]
    async fn authorities_in_a_file_have_its_name_in_messages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        let trusted = Trusted::File(path.clone());
        let error = trusted.pem(Look::Usual).await.unwrap_err();
        assert!(error.contains("ca.pem") && error.contains("there is no such file"), "{error}");
        std::fs::write(&path, "no PEM").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let pem = trusted.pem(Look::Usual).await.unwrap();
        assert!(authorities(pem.as_ref()).unwrap_err().contains("ca.pem holds no PEM certificate"));
    }
}
