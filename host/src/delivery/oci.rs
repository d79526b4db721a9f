//! Plugins in registries: from a reference to a parcel, and back.
//!
//! Owns the requests to a registry, its tokens, the form of an artifact, and the same in a folder. Whatever a manifest says, the
//! bytes are hashed when they are here. Never decides whether a plugin is trusted or becomes active, never keeps one: what served
//! is kept where all plugins are ([`super::modules`]), so a registry that is away stops nothing; after a restart, nothing that is
//! kept.
//!
//! | file | idea |
//! |---|---|
//! | [`error`] | why a registry gives none, in words for an operator |
//! | [`docker`] | credentials in the form of Docker's programs |
//! | [`login`] | where credentials and authorities are: a Secret, or the files and programs of a desk |
//! | `challenge` | what a registry wants to be shown |
//! | `place` | URLs: what is the same place, where a redirect leads |
//! | `wire` | one request: dialled by judged addresses, redirected without credentials, bounded |
//! | [`client`] | one repository: look, manifest, layer, token |
//! | `upload` | a push |
//! | [`manifest`] | what an artifact is made of |
//! | [`layout`] | an artifact in a folder |
//! | `watch` | a place that is looked at from time to time |
//!
//! # Failure story
//!
//! A registry that is away, refuses or sends something else is an [`Offer`] that says what was asked, what came and whose
//! credentials were used; an active plugin continues, and so does the one that was received last. Only bytes with the digest that
//! the manifest names become a module.

pub mod client;
pub mod docker;
pub mod error;
pub mod layout;
pub mod login;
pub mod manifest;

mod challenge;
mod place;
mod upload;
mod watch;
mod wire;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use topoloom_api::condition::Reason;

pub use self::client::Client;
pub use self::error::{OciError, Trouble};
pub use self::layout::Layout;
use self::login::{ClusterObject, Login, Trusted};
pub(crate) use self::place::is_loopback_host;
pub(super) use self::watch::watch;
pub use self::wire::{Access, Scheme};
use super::Offer;
use super::parcel::Parcel;
use crate::config::registry::{OciOrigin, Reference, Registry};
use crate::endpoints::address::AddressPolicy;
use crate::endpoints::api_server::ApiServer;
use crate::endpoints::dial::{self, Resolve};
use crate::endpoints::spec::{AddressRule, CaBundle, KeyRef, SecretRef};
use crate::endpoints::vault::{ObjectKind, Vault, VaultObject};
use crate::plugin::Digest;

/// Which registries a process may pull from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Allowed {
    /// None.
    #[default]
    Nothing,
    /// These.
    Named(BTreeSet<Registry>),
    /// Any: at a desk, where a person says what is pulled.
    Any,
}

impl Allowed {
    /// Those of the flag; none where it names none.
    #[must_use]
    pub fn of(named: BTreeSet<Registry>) -> Self {
        if named.is_empty() { Self::Nothing } else { Self::Named(named) }
    }

    fn check(&self, registry: &Registry) -> Result<(), OciError> {
        let what = match self {
            Self::Any => return Ok(()),
            Self::Named(named) if named.iter().any(|named| named.is(registry)) => return Ok(()),
            Self::Named(named) => {
                let named: Vec<&str> = named.iter().map(Registry::as_str).collect();
                format!("this host pulls from {} only", named.join(", "))
            }
            Self::Nothing => "this host pulls from no registry".to_owned(),
        };
        let what = format!("{what}; name {registry} with --plugin-registries (`plugins.registries` of the chart)");
        Err(OciError::new(Trouble::NotAllowed, what))
    }
}

/// How a process reaches registries.
#[derive(Clone)]
pub struct Registries {
    /// Which ones.
    pub allowed: Allowed,
    /// Where the API server is, which no registry is by accident.
    pub api_server: Arc<ApiServer>,
    /// How names are resolved.
    pub resolve: Resolve,
    /// The folder of Docker's configuration, at a desk.
    pub docker: Option<PathBuf>,
}

impl Default for Registries {
    /// None.
    fn default() -> Self {
        Self { allowed: Allowed::Nothing, api_server: Arc::default(), resolve: dial::system(), docker: None }
    }
}

impl fmt::Debug for Registries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registries")
            .field("allowed", &self.allowed)
            .field("docker", &self.docker)
            .finish_non_exhaustive()
    }
}

impl Registries {
    /// Why nothing is pulled for an entry in this process; nothing where its registry is one of those that are allowed.
    #[must_use]
    pub fn refuse(&self, origin: &OciOrigin) -> Option<Offer> {
        let refused = self.allowed.check(origin.reference.registry()).err()?;
        Some(refused.offer(&watch::place(&origin.reference)))
    }

    /// A client for what an entry names. What it refers to in the cluster is read from `vault`.
    #[must_use]
    pub fn client(&self, origin: &OciOrigin, vault: &Vault) -> Client {
        let OciOrigin { reference, pull_secret, ca_bundle, addresses } = origin;
        let object = |kind, namespace: Option<&String>, name: &str| {
            let namespace = namespace.map_or(vault.namespace(), String::as_str).to_owned();
            ClusterObject::new(vault.clone(), VaultObject { kind, namespace, name: name.to_owned() })
        };
        let key = |kind, key: &KeyRef| {
            let object = object(kind, key.namespace.as_ref(), &key.name);
            Trusted::Key(Box::new(object), key.key.clone())
        };
        let login = match (pull_secret, &self.docker) {
            (Some(SecretRef { name, namespace }), _) => {
                Login::Secret(object(ObjectKind::Secret, namespace.as_ref(), name))
            }
            (None, Some(folder)) => Login::Desk(folder.clone()),
            (None, None) => Login::Nothing,
        };
        let trusted = match ca_bundle {
            None => Trusted::System,
            Some(CaBundle::Inline(pem)) => Trusted::Inline(pem.clone().into_bytes()),
            Some(CaBundle::File(path)) => Trusted::File(path.clone()),
            Some(CaBundle::ConfigMap(map)) => key(ObjectKind::ConfigMap, map),
            Some(CaBundle::Secret(secret)) => key(ObjectKind::Secret, secret),
        };
        self.reach(reference, Scheme::Https, login, trusted, addresses.clone())
    }

    /// A client for what a person names at a desk, where private and local registries are as good as others.
    #[must_use]
    pub fn at_desk(&self, reference: &Reference, scheme: Scheme, authorities: Option<PathBuf>) -> Client {
        let login = self.docker.clone().map_or(Login::Nothing, Login::Desk);
        let trusted = authorities.map_or(Trusted::System, Trusted::File);
        self.reach(reference, scheme, login, trusted, vec![AddressRule::Private, AddressRule::Loopback])
    }

    fn reach(
        &self,
        reference: &Reference,
        scheme: Scheme,
        login: Login,
        trusted: Trusted,
        rules: Vec<AddressRule>,
    ) -> Client {
        let access = Access {
            scheme,
            login,
            trusted,
            policy: Arc::new(AddressPolicy { rules }),
            api_server: Arc::clone(&self.api_server),
            resolve: Arc::clone(&self.resolve),
        };
        Client::new(reference.registry(), reference.name(), access)
    }
}

/// That there is no plugin of a registry without one.
pub(super) fn offline(origin: &OciOrigin) -> Offer {
    let message = format!(
        "{} is not pulled without a cluster: `topoloom plugin pull {} -o FILE`, and name the file with --plugin",
        watch::place(&origin.reference),
        origin.reference
    );
    Offer::Nothing(Reason::PluginNotFound, message)
}

/// Pulls an artifact once: the digest of its manifest, and what is delivered.
///
/// # Errors
/// Why there is none.
pub async fn pull(client: &Client, reference: &Reference) -> Result<(Digest, Parcel), OciError> {
    let manifest = client.manifest(reference.version()).await?;
    let artifact = manifest.artifact()?;
    let module = client.layer(&artifact.layer).await?;
    Ok((manifest.digest, Parcel { module, declaration: artifact.declaration, signature: artifact.signature }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(text: &str) -> Registry {
        Registry::parse(text).unwrap()
    }

    #[test]
    fn only_what_the_flag_names_is_pulled_from() {
        let named = Allowed::of([registry("registry.example.com"), registry("docker.io")].into());
        for good in ["registry.example.com", "Registry.Example.com", "docker.io", "registry-1.docker.io"] {
            assert_eq!(named.check(&registry(good)), Ok(()), "{good}");
        }
        for bad in ["example.com", "registry.example.com:5000", "evil.registry.example.com"] {
            let error = named.check(&registry(bad)).unwrap_err();
            assert_eq!(error.trouble, Trouble::NotAllowed);
            assert!(error.to_string().contains("pulls from docker.io, registry.example.com only"), "{error}");
        }
        let error = Allowed::of(BTreeSet::new()).check(&registry("ghcr.io")).unwrap_err().to_string();
        assert!(error.contains("from no registry; name ghcr.io with --plugin-registries"), "{error}");
        assert_eq!(Allowed::Any.check(&registry("ghcr.io")), Ok(()));
    }

    #[test]
    fn without_a_cluster_the_message_says_what_to_do() {
        let origin = OciOrigin::new("oci://r.example/a:1".parse().unwrap());
        let offer = offline(&origin);
        let (reason, message) = offer.trouble().unwrap();
        assert_eq!(reason, Reason::PluginNotFound);
        assert!(message.contains("topoloom plugin pull oci://r.example/a:1 -o FILE"), "{message}");
    }
}
