//! Where a plugin is, as a person writes it at a desk: a file, `oci://REGISTRY/NAME:TAG`, or `oci-layout:DIR:TAG`; and how
//! registries are reached from there.
//!
//! The credentials are those of Docker's programs (`docker login`, `oras login`): their file, and the programs that it names.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::ensure;
use clap::Args;

use crate::config::registry::{self, Reference};
use crate::delivery::oci::{self, Allowed, Client, Layout, Registries, Scheme, is_loopback_host, layout};
use crate::delivery::parcel::Parcel;
use crate::plugin::Digest;

/// Where a plugin is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum PluginPlace {
    /// A file.
    File(PathBuf),
    /// An artifact of a registry.
    Registry(Reference),
    /// An artifact in a folder.
    Layout(Layout),
}

impl FromStr for PluginPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with(registry::SCHEME) {
            return text.parse().map(Self::Registry);
        }
        if text.starts_with(layout::PREFIX) {
            return text.parse().map(Self::Layout);
        }
        match text.split_once("://") {
            // No one has a file of such a name.
            Some((scheme, _)) => {
                Err(format!("{scheme}:// is no place of plugins; a registry is oci://REGISTRY/NAME:TAG"))
            }
            None => Ok(Self::File(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for PluginPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Registry(reference) => reference.fmt(f),
            Self::Layout(layout) => layout.fmt(f),
        }
    }
}

/// How registries are reached.
#[derive(Debug, Clone, Default, Args)]
pub(in crate::cli) struct RegistryArgs {
    /// For a registry: the authorities that signed its certificate, in PEM; default: those of this system
    #[arg(long, env = "TOPOLOOM_REGISTRY_CA", value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    /// For a registry on this machine: without TLS
    #[arg(long)]
    plain_http: bool,
}

impl RegistryArgs {
    /// A client for one repository.
    pub(super) fn client(&self, reference: &Reference) -> anyhow::Result<Client> {
        let registry = reference.registry();
        ensure!(
            !self.plain_http || is_loopback_host(registry.host()),
            "--plain-http is for a registry on this machine (localhost, 127.0.0.1, [::1]): plugins and passwords of {registry} \
             would cross a network unencrypted"
        );
        let scheme = if self.plain_http { Scheme::Http } else { Scheme::Https };
        Ok(registries().at_desk(reference, scheme, self.registry_ca.clone()))
    }

    /// Pulls what a reference names.
    pub(super) async fn pull(&self, reference: &Reference) -> anyhow::Result<(Digest, Parcel)> {
        Ok(oci::pull(&self.client(reference)?, reference).await?)
    }
}

/// What a person may pull, with their own credentials.
pub(in crate::cli) fn registries() -> Registries {
    Registries { allowed: Allowed::Any, docker: docker_folder(), ..Registries::default() }
}

/// Where Docker's programs have their configuration.
fn docker_folder() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    given("DOCKER_CONFIG").or_else(|| given("HOME").map(|home| home.join(".docker")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_known_by_how_it_begins() {
        let place = |text: &str| text.parse::<PluginPlace>();
        assert!(matches!(place("racks.wasm"), Ok(PluginPlace::File(_))));
        assert!(matches!(place("oci"), Ok(PluginPlace::File(_))));
        assert!(matches!(place("oci://r.example/a:1"), Ok(PluginPlace::Registry(_))));
        assert!(matches!(place("oci-layout:out:1"), Ok(PluginPlace::Layout(_))));
        assert!(place("oci://r.example/a").unwrap_err().contains("there is no tag by default"));
        assert!(place("https://r.example/a:1").unwrap_err().contains("https:// is no place of plugins"));
        for text in ["a/b.wasm", "oci://r.example/a:1", "oci-layout:out:1"] {
            assert_eq!(place(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn without_tls_only_this_machine_is_reached() {
        let args = RegistryArgs { plain_http: true, ..RegistryArgs::default() };
        let refused = |text: &str| args.client(&text.parse().unwrap()).err().map(|error| error.to_string());
        assert_eq!(refused("oci://localhost:5000/a:1"), None);
        assert_eq!(refused("oci://127.0.0.1:5000/a:1"), None);
        assert!(refused("oci://10.0.0.5:5000/a:1").unwrap().contains("would cross a network unencrypted"));
    }
}
