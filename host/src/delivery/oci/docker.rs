//! Credentials in the form that Docker's programs write: `~/.docker/config.json`, which is also the content of a Secret of
//! the type `kubernetes.io/dockerconfigjson`.
//!
//! Nothing of the text appears in an error, not even where it is wrong: a parser's complaint quotes values.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use http::HeaderValue;
use serde::Deserialize;
use topoloom_core::plugin::CredentialKind;

use crate::config::registry::Registry;
use crate::endpoints::credential::{Hidden, Material};

/// The largest file or Secret that is read, in bytes: one has a line per registry.
pub const LARGEST: usize = 1 << 20;

/// What a registry or its token server is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// Nothing.
    Anonymous,
    /// A name and a password.
    Password {
        /// The name.
        username: Hidden,
        /// The password.
        password: Hidden,
    },
    /// A token that is only good for getting others.
    Identity(Hidden),
    /// A token for the registry itself.
    Token(Hidden),
}

impl Account {
    /// Of a name and a password, by the words that Docker's programs agreed on.
    #[must_use]
    pub fn of(username: &str, password: &str) -> Self {
        let hidden = |text: &str| Hidden::new(text.as_bytes().to_vec());
        match (username, password) {
            ("", "") => Self::Anonymous,
            ("<token>", token) => Self::Identity(hidden(token)),
            (username, password) => Self::Password { username: hidden(username), password: hidden(password) },
        }
    }

    /// The header that proves it to a server that wants a name and a password; nothing where there are none.
    ///
    /// # Errors
    /// What is wrong with them, without repeating them.
    pub fn basic(&self) -> Result<Option<HeaderValue>, String> {
        let Self::Password { username, password } = self else { return Ok(None) };
        let keys = [("username", username), ("password", password)];
        let material = Material::new(keys.map(|(key, value)| (key.to_owned(), value.clone())));
        Ok(material.credential(&[CredentialKind::Basic])?.authorization())
    }
}

/// The header of a token.
///
/// # Errors
/// It has something in it that no header can carry.
pub fn bearer(token: &Hidden) -> Result<Option<HeaderValue>, String> {
    let material = Material::new([("token".to_owned(), token.clone())]);
    Ok(material.credential(&[CredentialKind::Bearer])?.authorization())
}

/// The whole file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DockerConfig {
    accounts: BTreeMap<String, Account>,
    /// The program that has the credentials of all registries, and those of single ones.
    store: Option<String>,
    helpers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigText {
    #[serde(default)]
    auths: BTreeMap<String, AuthText>,
    creds_store: Option<String>,
    #[serde(default)]
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct AuthText {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

impl DockerConfig {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong and where, without repeating anything of it.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let read: ConfigText = serde_json::from_slice(text).map_err(|error| {
            format!("it is no configuration of Docker, at line {}, column {}", error.line(), error.column())
        })?;
        let mut accounts = BTreeMap::new();
        for (key, auth) in read.auths {
            let account = account(&auth).map_err(|what| format!("`auths` of {}: {what}", shown(&key)))?;
            accounts.insert(key, account);
        }
        let is_given = |name: &String| !name.is_empty();
        Ok(Self { accounts, store: read.creds_store.filter(is_given), helpers: read.cred_helpers })
    }

    /// The account for a repository: that of the longest key that means it.
    #[must_use]
    pub fn account(&self, registry: &Registry, name: &str) -> Option<&Account> {
        let found = self.accounts.iter().filter_map(|(key, account)| Some((means(key, registry, name)?, account)));
        found.max_by_key(|(length, _)| *length).map(|(_, account)| account).filter(|it| **it != Account::Anonymous)
    }

    /// The program that has the credentials of a registry, by the end of its name.
    #[must_use]
    pub fn helper(&self, registry: &Registry) -> Option<&str> {
        let own = self.helpers.iter().find(|(key, _)| means(key, registry, "") == Some(0)).map(|(_, name)| name);
        own.or(self.store.as_ref()).map(String::as_str)
    }
}

fn account(auth: &AuthText) -> Result<Account, &'static str> {
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(token) = given(&auth.registrytoken) {
        return Ok(Account::Token(Hidden::new(token.into_bytes())));
    }
    if let Some(token) = given(&auth.identitytoken) {
        return Ok(Account::Identity(Hidden::new(token.into_bytes())));
    }
    let Some(packed) = given(&auth.auth) else {
        return Ok(Account::of(&given(&auth.username).unwrap_or_default(), &given(&auth.password).unwrap_or_default()));
    };
    let packed = packed.trim_end();
    let unpacked = STANDARD.decode(packed).or_else(|_| STANDARD_NO_PAD.decode(packed));
    let unpacked = unpacked.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let unpacked = unpacked.ok_or("`auth` is no base64 of `USERNAME:PASSWORD`")?;
    // Some programs end it with a zero byte.
    let (username, password) =
        unpacked.trim_end_matches('\0').split_once(':').ok_or("`auth` is no base64 of `USERNAME:PASSWORD`")?;
    Ok(Account::of(username, password))
}

/// How much of the repository's name a key has, if it means that repository: `HOST`, `HOST/PATH`, or either as a URL.
fn means(key: &str, registry: &Registry, name: &str) -> Option<usize> {
    let plain = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = plain.split_once('/').unwrap_or((plain, ""));
    if !Registry::parse(host).ok()?.is(registry) {
        return None;
    }
    // The form of Docker's own key is https://index.docker.io/v1/.
    let path = path.trim_end_matches('/');
    if matches!(path, "" | "v1" | "v2") {
        return Some(0);
    }
    let rest = name.strip_prefix(path)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(path.len())
}

/// A key as a message shows it: the name of a host, or nothing of it.
fn shown(key: &str) -> String {
    let plain = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let host = plain.split('/').next().unwrap_or_default();
    Registry::parse(host).map_or_else(|_| "a key that is no registry".to_owned(), |registry| registry.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(text: &str) -> Registry {
        Registry::parse(text).unwrap()
    }

    fn header(text: &str, host: &str, name: &str) -> Option<String> {
        let config = DockerConfig::parse(text.as_bytes()).unwrap();
        let header = config.account(&registry(host), name)?.basic().unwrap()?;
        Some(header.to_str().unwrap().to_owned())
    }

    #[test]
    fn an_account_is_found_by_host_and_by_the_longest_path() {
        // admin:s3cret and robot:other.
        let text = r#"{"auths": {
            "registry.example.com": {"auth": "YWRtaW46czNjcmV0"},
            "registry.example.com/acme": {"username": "robot", "password": "other"},
            "https://index.docker.io/v1/": {"auth": "YWRtaW46czNjcmV0"},
            "quay.io": {}
        }, "HttpHeaders": {"User-Agent": "x"}, "currentContext": "default"}"#;
        let admin = Some("Basic YWRtaW46czNjcmV0".to_owned());
        let robot = Some("Basic cm9ib3Q6b3RoZXI=".to_owned());
        for (host, name, wanted) in [
            ("registry.example.com", "racks", &admin),
            ("registry.example.com", "acme/racks", &robot),
            ("registry.example.com", "acme", &robot),
            ("registry.example.com", "acme-2/racks", &admin),
            ("registry.example.com:5000", "racks", &None),
            ("docker.io", "acme/racks", &admin),
            ("quay.io", "a", &None),
            ("other.example.com", "a", &None),
        ] {
            assert_eq!(&header(text, host, name), wanted, "{host} {name}");
        }
    }

    #[test]
    fn each_kind_of_token_is_recognised() {
        let text = r#"{"auths": {
            "a.example": {"auth": "AAAA", "identitytoken": "refresh"},
            "b.example": {"registrytoken": "direct"},
            "c.example": {"username": "<token>", "password": "refresh"}
        }}"#;
        let config = DockerConfig::parse(text.as_bytes()).unwrap();
        let account = |host| config.account(&registry(host), "x").cloned().unwrap();
        let hidden = |text: &str| Hidden::new(text.as_bytes().to_vec());
        assert_eq!(account("a.example"), Account::Identity(hidden("refresh")));
        assert_eq!(account("b.example"), Account::Token(hidden("direct")));
        assert_eq!(account("c.example"), Account::Identity(hidden("refresh")));
        assert_eq!(bearer(&hidden("direct")).unwrap().unwrap(), "Bearer direct");
    }

    #[test]
    fn a_program_of_one_registry_comes_before_that_of_all() {
        let text = r#"{"credsStore": "desktop", "credHelpers": {"gcr.io": "gcloud", "https://ecr.example": "ecr"}}"#;
        let config = DockerConfig::parse(text.as_bytes()).unwrap();
        for (host, wanted) in [("gcr.io", "gcloud"), ("ecr.example", "ecr"), ("other.example", "desktop")] {
            assert_eq!(config.helper(&registry(host)), Some(wanted));
        }
        assert_eq!(DockerConfig::parse(b"{\"credsStore\": \"\"}").unwrap().helper(&registry("a")), None);
    }

    #[test]
    fn nothing_of_a_wrong_file_is_repeated() {
        for text in [
            "canary",
            r#"{"auths": "canary"}"#,
            r#"{"auths": {"a": "canary"}}"#,
            r#"{"auths": {"a.example": {"auth": "canary!"}}}"#,
            // canary, without a colon.
            r#"{"auths": {"a.example": {"auth": "Y2FuYXJ5"}}}"#,
            r#"{"auths": {"canary@x/y": {"auth": "Y2FuYXJ5"}}}"#,
        ] {
            let error = DockerConfig::parse(text.as_bytes()).unwrap_err();
            assert!(!error.contains("canary") && !error.contains("Y2Fu"), "{error}");
        }
        let shown = format!("{:?}", Account::of("canary", "canary"));
        assert!(!shown.contains("canary"), "{shown}");
    }
}
