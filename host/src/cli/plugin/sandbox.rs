//! The sandbox at a desk: the same engine, limits and compiler process as in a running host.

use std::sync::Arc;

use clap::ValueEnum;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{Description, Limit, LimitSetting, Limits};

use crate::discovery::revision::Host;
use crate::endpoints::Outside;
use crate::plugin::{Compiler, Load, LoadError, Plugin, Runtime};

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
        let runtime = Runtime::start(Compiler::Child { exe: super::super::executable() })?;
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
