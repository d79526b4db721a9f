//! Flags about plugins: what is kept of them.

use std::path::PathBuf;

use clap::Args;

use crate::config::size::{self, ByteSize};
use crate::plugin::cache::{CacheKey, CacheOptions, DEFAULT_SIZE};

/// What a cache may have. Less holds no image at all, and more is meant for something else.
const SIZES: std::ops::RangeInclusive<u64> = 1 << 20..=1 << 40;

/// Flags about plugins.
#[derive(Debug, Args)]
pub(super) struct PluginArgs {
    /// Keep compiled plugins in this folder, so that they are not compiled again; it is created for this user alone
    #[arg(long, env = "TOPOLOOM_PLUGIN_CACHE", value_name = "DIR")]
    plugin_cache: Option<PathBuf>,
    /// The key that seals them, at least 32 random bytes: for a folder that outlives the process
    #[arg(long, env = "TOPOLOOM_PLUGIN_CACHE_KEY", value_name = "FILE", requires = "plugin_cache")]
    plugin_cache_key: Option<PathBuf>,
    /// How large the folder may become (1Mi to 1Ti); what was not used for the longest time goes first
    #[arg(long, env = "TOPOLOOM_PLUGIN_CACHE_SIZE", value_name = "SIZE", requires = "plugin_cache", value_parser = cache_size, default_value_t = ByteSize::bytes(DEFAULT_SIZE))]
    plugin_cache_size: ByteSize,
}

impl PluginArgs {
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

    #[test]
    fn sizes_have_a_range() {
        assert_eq!(cache_size("256Mi").unwrap().as_u64(), DEFAULT_SIZE);
        for bad in ["", "1", "1Ki", "2Ti", "256m", "-1Mi"] {
            assert!(cache_size(bad).is_err(), "{bad}");
        }
    }
}
