//! Flags about plugins: what is kept of them, and what they have to bring.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use crate::cli::options::{Given, values};
use crate::cluster::client;
use crate::config::registry::Registry;
use crate::config::size::{self, ByteSize};
use crate::delivery::oci::Allowed;
use crate::manager::options::Kept;
use crate::plugin::cache::{CacheKey, CacheOptions, DEFAULT_SIZE};
use crate::plugin::trust::{Trust, TrustKeys, TrustOptions};

/// What a cache may have. Less holds no image at all, and more is meant for something else.
const SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Flags about plugins.
#[derive(Debug, Args)]
pub(super) struct PluginArgs {
    /// The folder of installed plugins: NAME.wasm, or NAME/plugin.wasm, each with .yaml and .sig beside it
    #[arg(long, value_name = "DIR", value_parser = values::path)]
    plugin_dir: Option<PathBuf>,
    /// How often the host checks plugin files for changes without an event, and tags of registries, in seconds (1 to 3600)
    #[arg(long, default_value = "60", value_name = "SECONDS", value_parser = values::whole::<1, 3600>)]
    plugin_poll: u32,
    /// The registries that the host may pull plugins from, HOST or HOST:PORT with commas between; may be repeated. Without any
    /// it pulls from none
    #[arg(long, value_name = "REGISTRIES", value_delimiter = ',', action = ArgAction::Append, value_parser = Registry::parse)]
    plugin_registries: Vec<Registry>,
    /// A folder in which the host stores plugins that were active, for rollback; it takes plugins over 1 MiB, which do not fit
    /// into a ConfigMap
    #[arg(long, value_name = "DIR", value_parser = values::path)]
    module_dir: Option<PathBuf>,
    /// Store plugins that were active in ConfigMaps, so that rollback works after a restart (needs the RBAC rule of
    /// `plugins.kept`); without it only --module-dir stores them
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    modules_kept: bool,
    /// Store compiled plugins in this folder, so that they are not compiled again; the host creates it for its own user
    /// only
    #[arg(long, value_name = "DIR", value_parser = values::path)]
    plugin_cache: Option<PathBuf>,
    /// The key that seals compiled plugins, at least 32 random bytes: for a folder that outlives the process
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    plugin_cache_key: Option<PathBuf>,
    /// How large the folder may become (1Mi to 1Ti); the host deletes what was unused for the longest time first
    #[arg(long, value_name = "SIZE", value_parser = cache_size, default_value_t = ByteSize::bytes(DEFAULT_SIZE))]
    plugin_cache_size: ByteSize,
    /// What the host requires of every plugin that is not builtin before it loads it; an entry may require more
    #[arg(long, value_enum, default_value_t = TrustArg::None)]
    plugin_trust: TrustArg,
    /// Public keys that may sign plugins, as `openssl pkey -pubout` writes them; may be repeated
    #[arg(long, value_name = "FILE", value_parser = values::path, value_delimiter = ',')]
    plugin_trust_key: Vec<PathBuf>,
}

/// What a plugin has to bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TrustArg {
    /// Nothing
    None,
    /// A digest that is declared beside the plugin or pinned in the entry
    Digest,
    /// A signature by one of the keys
    Signature,
}

impl PluginArgs {
    /// The folder of installed plugins.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.plugin_dir.clone()
    }

    /// How often files and registries are looked at.
    pub(super) fn poll(&self) -> Duration {
        Duration::from_secs(self.plugin_poll.into())
    }

    /// The registries that plugins may be pulled from.
    pub(super) fn registries(&self) -> Allowed {
        Allowed::of(self.plugin_registries.iter().cloned().collect())
    }

    /// Where modules are kept.
    pub(super) fn modules(&self) -> Option<PathBuf> {
        self.module_dir.clone()
    }

    /// Whether they are kept in the cluster as well.
    pub(super) fn kept(&self) -> Kept {
        if self.modules_kept { Kept::InConfigMaps } else { Kept::Nowhere }
    }

    /// Rules across flags: signatures need a key that may sign, and a seal needs a folder.
    pub(super) fn rules(&self, given: &mut Given) {
        let is_unsigned = self.plugin_trust == TrustArg::Signature && self.plugin_trust_key.is_empty();
        if is_unsigned && given.are_sound(&["plugin-trust", "plugin-trust-key"]) {
            given.mistake(&["plugin-trust"], "needs the keys that may sign: --plugin-trust-key FILE");
        }
        for flag in ["plugin-cache-key", "plugin-cache-size"] {
            if given.is_given(flag) && !given.is_given("plugin-cache") {
                given.mistake(&[flag], "needs the folder: --plugin-cache DIR");
            }
        }
    }

    /// What plugins have to bring.
    pub(super) fn trust(&self, given: &mut Given) -> TrustOptions {
        let least = match self.plugin_trust {
            TrustArg::None => Trust::None,
            TrustArg::Digest => Trust::Digest,
            TrustArg::Signature => Trust::Signature,
        };
        match TrustKeys::load(&self.plugin_trust_key) {
            Ok(keys) => TrustOptions { least, keys },
            Err(error) => {
                given.mistake(&["plugin-trust-key"], client::chain(&error));
                TrustOptions::default()
            }
        }
    }

    /// Where compiled plugins are kept. A named key that cannot be used is an error: without it, the cache would be
    /// another one than requested.
    pub(super) fn cache(&self, given: &mut Given) -> Option<CacheOptions> {
        let folder = self.plugin_cache.clone()?;
        let (flag, key) = match &self.plugin_cache_key {
            Some(file) => ("plugin-cache-key", CacheKey::read(file)),
            None => ("plugin-cache", CacheKey::random()),
        };
        let key = key.map_err(|error| given.mistake(&[flag], client::chain(&error))).ok()?;
        Some(CacheOptions { folder, key, size: self.plugin_cache_size.as_u64() })
    }
}

fn cache_size(text: &str) -> Result<ByteSize, String> {
    let size = size::parse(text).filter(|size| SIZES.contains(&size.as_u64()));
    size.ok_or_else(|| "give a size from 1Mi to 1Ti, for instance 256Mi".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_range() {
        assert_eq!(cache_size("256Mi").unwrap().as_u64(), DEFAULT_SIZE);
        for bad in ["", "1", "1Ki", "2Ti", "256m", "-1Mi"] {
            assert!(cache_size(bad).is_err(), "{bad}");
        }
    }
}
