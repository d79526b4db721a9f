//! The sandbox at a desk: the same engine, limits and compiler process as in a running host.
//!
//! What it compiles is kept for the next command, sealed as in a host: a plugin with a language runtime takes 20 s of processor
//! time, and a vendor gives a dozen commands for each version. Without a home directory, or where the folder is not safe, each command
//! compiles.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{Description, Limit, LimitSetting, Limits};
use topoloom_workshop::rounds::Desk;

use crate::discovery::revision::Host;
use crate::endpoints::Outside;
use crate::plugin::cache::{Cache, CacheKey, CacheOptions};
use crate::plugin::{Codegen, Compiler, Load, LoadError, Metrics, Options, Plugin, Runtime};

/// The folder in that for caches of this user.
const FOLDER: &str = "topoloom";
/// In it: the key that seals, and what was compiled.
const KEY: &str = "key";
const COMPILED: &str = "compiled";
/// How much of it is kept: a plugin with a language runtime is 40 MiB in each of its two forms, and each save makes another one.
const SIZE: u64 = 1 << 30;

/// Which limits hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProfileArg {
    /// For plugins in a compiled language
    Standard,
    /// For plugins that carry a language runtime, as `limits.profile: large` in an entry
    Large,
}

impl ProfileArg {
    /// The limits of the profile.
    pub(super) fn limits(self) -> Limits {
        match self {
            Self::Standard => Limits::default(),
            Self::Large => Limits::large(),
        }
    }
}

/// The engines of a command that may see many versions of a plugin.
pub(super) struct Engines {
    /// Compiles in a quarter of the time, and keeps nothing: after the next save it is another plugin.
    baseline: Option<Runtime>,
    service: Runtime,
}

impl Engines {
    /// That of a host alone.
    pub(super) fn of_service() -> anyhow::Result<Self> {
        Ok(Self { baseline: None, service: runtime()? })
    }

    /// For a plugin that is saved again and again.
    pub(super) fn of_saves() -> anyhow::Result<Self> {
        let service = Self::of_service()?;
        // Its makers support that compiler for this architecture alone as they support the other one.
        if !cfg!(target_arch = "x86_64") {
            return Ok(service);
        }
        let options = Options { memory: usize::MAX, codegen: Codegen::Baseline, ..Options::default() };
        let compiler = Compiler::Quickest { exe: super::super::executable() };
        let baseline = Runtime::start_with(compiler, options, Metrics::default(), None)
            .inspect_err(|error| tracing::debug!(%error, "plugins are compiled as in a host"));
        Ok(Self { baseline: baseline.ok(), ..service })
    }

    /// A plugin at a desk. What the quickest compiler cannot compile, a host still may.
    pub(super) async fn open(&self, bytes: &Arc<[u8]>, limits: Limits) -> Result<Desk, LoadError> {
        if let Some(baseline) = &self.baseline {
            let opened = Desk::open(baseline, Arc::clone(bytes), limits.clone()).await;
            match &opened {
                Err(error) if is_of_compiler(error) => tracing::debug!(%error, "compiled as in a host"),
                _ => return opened,
            }
        }
        Desk::open(&self.service, Arc::clone(bytes), limits).await
    }
}

/// Whether another compiler may have more success.
const fn is_of_compiler(error: &LoadError) -> bool {
    use LoadError::{Compile, CompileLimit, CompilerFault, Image};
    matches!(error, Compile { .. } | CompilerFault { .. } | CompileLimit { .. } | Image { .. })
}

/// An engine that keeps what it compiles for the next command of this user.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let cache = folder.and_then(|folder| match cache(&folder) {
        Ok(cache) => Some(cache),
        Err(error) => {
            tracing::debug!(folder = %folder.display(), error = format!("{error:#}"), "compiled plugins are not kept");
            None
        }
    });
    // One plugin at a time, so no bound on all of them.
    let options = Options { memory: usize::MAX, ..Options::default() };
    let compiler = Compiler::AtDesk { exe: super::super::executable() };
    Ok(Runtime::start_with(compiler, options, Metrics::default(), cache)?)
}

/// The cache in a folder for caches.
fn cache(folder: &Path) -> anyhow::Result<Cache> {
    let folder = folder.join(FOLDER);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
    let key = folder.join(KEY);
    if !key.exists() {
        make_key(&folder, &key)?;
    }
    let key = CacheKey::read(&key)?;
    Ok(Cache::open(CacheOptions { folder: folder.join(COMPILED), key, size: SIZE })?)
}

/// Makes the key. Of two commands that do it at the same time, one makes it for both.
fn make_key(folder: &Path, key: &Path) -> io::Result<()> {
    let written = folder.join(format!("{KEY}.{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&written)?;
    let linked = CacheKey::generate()
        .map_err(io::Error::other)
        .and_then(|bytes| file.write_all(&bytes))
        .and_then(|()| std::fs::hard_link(&written, key));
    std::fs::remove_file(&written)?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// A sandbox.
pub(super) struct Sandbox {
    pub(super) runtime: Runtime,
    /// Empty: the calls made here need no endpoint.
    outside: Outside,
    source: SourceName,
}

impl Sandbox {
    /// Starts it; log lines of plugins carry the name of the verb.
    pub(super) fn start(verb: &str) -> anyhow::Result<Self> {
        let runtime = runtime()?;
        Ok(Self { runtime, outside: Outside::offline(), source: SourceName::parse(verb)? })
    }

    /// What revisions are made with.
    pub(super) fn host(&self) -> Host<'_> {
        Host::at_desk(&self.runtime, &self.outside)
    }

    /// The name in place of a source.
    pub(super) fn source(&self) -> &SourceName {
        &self.source
    }

    /// Loads a plugin as the host would.
    pub(super) async fn load(&self, bytes: &Arc<[u8]>, limits: Limits) -> Result<Plugin, LoadError> {
        self.runtime.load(Load { bytes: Arc::clone(bytes), pinned: None, limits }).await
    }

    /// What a plugin says about itself. There is no entry that could give the compiler more time, so it has as much as
    /// an entry can give.
    pub(super) async fn describe(&self, bytes: &Arc<[u8]>, mut limits: Limits) -> anyhow::Result<Description> {
        if let LimitSetting::Entry { high, .. } = Limit::CompileCpu.row().setting {
            limits.set(Limit::CompileCpu, high);
        }
        let plugin = self.load(bytes, limits).await?;
        Ok(plugin.describe(&self.source).await.end?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compilers that no plugin gets past: the first one starts and fails, the second one is not there.
    fn engines() -> Engines {
        let start = |exe: &str| Runtime::start(Compiler::AtDesk { exe: exe.into() }).unwrap();
        Engines { baseline: Some(start("/bin/false")), service: start("/nowhere/topoloom") }
    }

    #[tokio::test]
    async fn what_the_first_compiler_cannot_compile_is_given_to_the_second_one() {
        let builtin = topoloom_builtins::ALL.first().unwrap();
        let mut bytes = builtin.component.to_vec();
        // A section without a meaning: it is a plugin of others.
        bytes.extend([0, 2, 1, b'x']);
        let Err(error) = engines().open(&bytes.into(), Limits::default()).await else { panic!() };
        assert!(matches!(&error, LoadError::Compiler { exe, .. } if exe == "/nowhere/topoloom"), "{error}");
    }

    #[tokio::test]
    async fn what_is_no_plugin_is_refused_once() {
        let Err(error) = engines().open(&b"nothing".to_vec().into(), Limits::default()).await else { panic!() };
        assert!(matches!(error, LoadError::NotWasm), "{error}");
    }
}
