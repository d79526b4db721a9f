//! Flags about plugins: what is kept of them, and what they have to bring.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::config::size::{self, ByteSize};
use crate::plugin::cache::{CacheKey, CacheOptions, DEFAULT_SIZE};
use crate::plugin::trust::{Trust, TrustKeys, TrustOptions};

/// What a cache may have. Less holds no image at all, and more is meant for something else.
const SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Flags about plugins.
#[derive(Debug, Args)]
pub(super) struct PluginArgs {
    /// The folder of installed plugins: NAME.wasm, or NAME/plugin.wasm, each with .yaml and .sig beside it
    #[arg(long, env = "TOPOLOOM_PLUGIN_DIR", value_name = "DIR")]
    plugin_dir: Option<PathBuf>,
    /// How often files of plugins are looked at without an event, in seconds (1 to 3600)
    #[arg(long, env = "TOPOLOOM_PLUGIN_POLL", default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..=3600))]
    plugin_poll: u16,
    /// Where modules that served are kept for the way back, beside ConfigMaps, which take no more than 1 MiB
    #[arg(long, env = "TOPOLOOM_MODULE_DIR", value_name = "DIR")]
    module_dir: Option<PathBuf>,
    /// Keep compiled plugins in this folder, so that they are not compiled again; it is created for this user alone
    #[arg(long, env = "TOPOLOOM_PLUGIN_CACHE", value_name = "DIR")]
    plugin_cache: Option<PathBuf>,
    /// The key that seals them, at least 32 random bytes: for a folder that outlives the process
    #[arg(long, env = "TOPOLOOM_PLUGIN_CACHE_KEY", value_name = "FILE", requires = "plugin_cache")]
    plugin_cache_key: Option<PathBuf>,
    /// How large the folder may become (1Mi to 1Ti); what was not used for the longest time goes first
    #[arg(long, env = "TOPOLOOM_PLUGIN_CACHE_SIZE", value_name = "SIZE", requires = "plugin_cache", value_parser = cache_size, default_value_t = ByteSize::bytes(DEFAULT_SIZE))]
    plugin_cache_size: ByteSize,
    /// What every plugin that is not builtin has to bring before it is loaded; an entry may ask for more
    #[arg(long, env = "TOPOLOOM_PLUGIN_TRUST", value_enum, default_value_t = TrustArg::None)]
    plugin_trust: TrustArg,
    /// Public keys that may sign plugins, as `openssl pkey -pubout` writes them; may be repeated
    #[arg(long, env = "TOPOLOOM_PLUGIN_TRUST_KEY", value_name = "FILE", value_delimiter = ',')]
    plugin_trust_key: Vec<PathBuf>,
}

/// What a plugin has to bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TrustArg {
    /// Nothing
    None,
    /// A digest that somebody wrote down
    Digest,
    /// A signature by one of the keys
    Signature,
}

impl PluginArgs {
    /// The folder of installed plugins.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        self.plugin_dir.clone()
    }

    /// How often files are looked at.
    pub(super) fn poll(&self) -> Duration {
        Duration::from_secs(self.plugin_poll.into())
    }

    /// Where modules are kept.
    pub(super) fn modules(&self) -> Option<PathBuf> {
        self.module_dir.clone()
    }

    /// What plugins have to bring. Asking for signatures and naming nobody who may sign would refuse every plugin.
    pub(super) fn trust(&self) -> anyhow::Result<TrustOptions> {
        let least = match self.plugin_trust {
            TrustArg::None => Trust::None,
            TrustArg::Digest => Trust::Digest,
            TrustArg::Signature => Trust::Signature,
        };
        let keys = TrustKeys::load(&self.plugin_trust_key)?;
        anyhow::ensure!(
            least < Trust::Signature || !keys.is_empty(),
            "--plugin-trust signature needs the keys that may sign: --plugin-trust-key FILE"
        );
        Ok(TrustOptions { least, keys })
    }

    /// Where compiled plugins are kept. A key that was named and cannot be used is an error: going on without it would
    /// be another cache than the one that was asked for.
    pub(super) fn cache(&self) -> anyhow::Result<Option<CacheOptions>> {
        let Some(folder) = self.plugin_cache.clone() else { return Ok(None) };
        let key = match &self.plugin_cache_key {
            Some(file) => CacheKey::read(file)?,
            None => CacheKey::random()?,
        };
        Ok(Some(CacheOptions { folder, key, size: self.plugin_cache_size.as_u64() }))
    }
}

fn cache_size(text: &str) -> Result<ByteSize, String> {
    let size = size::parse(text).filter(|size| SIZES.contains(&size.as_u64()));
    size.ok_or_else(|| "give a size from 1Mi to 1Ti, for instance 256Mi".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        plugins: PluginArgs,
    }

    fn args(words: &[&str]) -> Result<PluginArgs, clap::Error> {
        use clap::Parser;
        Line::try_parse_from([&["run"], words].concat()).map(|line| line.plugins)
    }

    #[test]
    fn signatures_need_keys_and_keys_need_to_be_keys() {
        assert_eq!(args(&[]).unwrap().trust().unwrap().least, Trust::None);
        assert_eq!(args(&["--plugin-trust", "digest"]).unwrap().trust().unwrap().least, Trust::Digest);
        let error = args(&["--plugin-trust", "signature"]).unwrap().trust().unwrap_err();
        assert!(error.to_string().contains("--plugin-trust-key FILE"), "{error}");
        assert!(args(&["--plugin-trust-key", "/dev/null"]).unwrap().trust().is_err());
        assert!(args(&["--plugin-trust", "maybe"]).is_err());
    }

    #[test]
    fn a_key_without_a_folder_is_a_mistake_and_one_that_is_none_ends_the_start() {
        assert!(args(&["--plugin-cache-key", "k"]).is_err());
        assert!(args(&[]).unwrap().cache().unwrap().is_none());
        assert!(args(&["--plugin-cache", "c"]).unwrap().cache().unwrap().is_some());
        assert!(args(&["--plugin-cache", "c", "--plugin-cache-key", "/dev/null"]).unwrap().cache().is_err());
    }

    #[test]
    fn sizes_have_a_range() {
        assert_eq!(cache_size("256Mi").unwrap().as_u64(), DEFAULT_SIZE);
        for bad in ["", "1", "1Ki", "2Ti", "256m", "-1Mi"] {
            assert!(cache_size(bad).is_err(), "{bad}");
        }
    }
}
