//! Machine code in use: one copy per plugin and kind, for all that load it.
//!
//! A component is known by its digest, so two sources with the same plugin share its code. What differs between them
//! (limits, grants, the linked instance) is made per load. Nothing is kept here without a user: the last revision that
//! goes takes the code with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use tokio::sync::Semaphore;
use topoloom_core::plugin::CompileLimits;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::Digest;
use super::builtin::Builtin;
use super::cache::Cache;
use super::compile::{self, Compiler};
use super::engine::Optimise;
use super::load::LoadError;
use super::metrics::Metrics;
use super::runtime::Codegen;

/// A component in machine code.
pub(super) struct Code {
    pub(super) component: Component,
    pub(super) optimise: Optimise,
}

/// All machine code of the process.
pub(super) struct Components {
    engine: Engine,
    codegen: Codegen,
    compiler: Compiler,
    cache: Option<Cache>,
    metrics: Metrics,
    /// One compile at a time: each may take half of the memory that is left.
    turn: Semaphore,
    in_use: Mutex<HashMap<(Digest, Optimise), Weak<Code>>>,
}

impl Components {
    pub(super) fn new(
        engine: Engine,
        codegen: Codegen,
        compiler: Compiler,
        cache: Option<Cache>,
        metrics: Metrics,
    ) -> Self {
        Self { engine, codegen, compiler, cache, metrics, turn: Semaphore::new(1), in_use: Mutex::default() }
    }

    pub(super) fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// A plugin of this binary: its image was made by the build. Where this machine is another one than it was made
    /// for, it is compiled like any other, and kept nowhere.
    pub(super) async fn embedded(&self, builtin: &Builtin, bounds: &CompileLimits) -> Result<Arc<Code>, LoadError> {
        let (digest, optimise) = (builtin.digest, Optimise::Yes);
        if let Some(code) = self.find(digest, optimise) {
            return Ok(code);
        }
        if let Some(component) = compile::embedded(&self.engine, builtin) {
            return Ok(self.keep(digest, optimise, component));
        }
        self.compile(digest, &builtin.bytes, optimise, None, bounds).await
    }

    /// A plugin of others, as good as it can be had without waiting: optimised if it was optimised before, since then
    /// it has proved itself; otherwise the quick way, or the quickest one, if that is what this engine takes.
    pub(super) async fn foreign(
        &self,
        digest: Digest,
        bytes: &[u8],
        bounds: &CompileLimits,
    ) -> Result<Arc<Code>, LoadError> {
        let (kinds, otherwise): (&[Optimise], Optimise) = match self.codegen {
            Codegen::Service => (&[Optimise::Yes, Optimise::No], Optimise::No),
            Codegen::Baseline => (&[Optimise::Baseline], Optimise::Baseline),
        };
        for optimise in kinds {
            if let Some(code) = self.at_hand(digest, *optimise).await {
                return Ok(code);
            }
        }
        self.compile(digest, bytes, otherwise, self.cache.as_ref(), bounds).await
    }

    /// A plugin of others that has proved itself.
    pub(super) async fn optimised(
        &self,
        digest: Digest,
        bytes: &[u8],
        bounds: &CompileLimits,
    ) -> Result<Arc<Code>, LoadError> {
        match self.at_hand(digest, Optimise::Yes).await {
            Some(code) => Ok(code),
            None => self.compile(digest, bytes, Optimise::Yes, self.cache.as_ref(), bounds).await,
        }
    }

    /// What is in use or in the cache.
    async fn at_hand(&self, digest: Digest, optimise: Optimise) -> Option<Arc<Code>> {
        if let Some(code) = self.find(digest, optimise) {
            return Some(code);
        }
        let component = self.cache.as_ref()?.load(&self.engine, digest, optimise).await?;
        Some(self.keep(digest, optimise, component))
    }

    async fn compile(
        &self,
        digest: Digest,
        bytes: &[u8],
        optimise: Optimise,
        cache: Option<&Cache>,
        bounds: &CompileLimits,
    ) -> Result<Arc<Code>, LoadError> {
        let turn = self.turn.acquire().await.map_err(|error| LoadError::Host(error.to_string()))?;
        // The caller that had the turn before may have compiled the same bytes.
        if let Some(code) = self.find(digest, optimise) {
            return Ok(code);
        }
        let started = Instant::now();
        let compiled = self.compiler.compile(&self.engine, bytes, optimise, bounds).await;
        self.metrics.compiled(optimise, compiled.as_ref().err(), started.elapsed());
        let (component, image) = compiled?;
        let code = self.keep(digest, optimise, component);
        drop(turn);
        if let Some(cache) = cache {
            cache.store(&self.engine, digest, optimise, image).await;
        }
        Ok(code)
    }

    fn find(&self, digest: Digest, optimise: Optimise) -> Option<Arc<Code>> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner).get(&(digest, optimise))?.upgrade()
    }

    /// Shares a component. Of two that came at the same moment the first one stays.
    fn keep(&self, digest: Digest, optimise: Optimise, component: Component) -> Arc<Code> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.retain(|_, code| code.strong_count() > 0);
        if let Some(code) = in_use.get(&(digest, optimise)).and_then(Weak::upgrade) {
            return code;
        }
        let code = Arc::new(Code { component, optimise });
        in_use.insert((digest, optimise), Arc::downgrade(&code));
        code
    }
}
