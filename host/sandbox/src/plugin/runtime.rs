//! The runtime as the rest of the host sees it: load bytes, hold a [`Plugin`], call it.

use std::future::poll_fn;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use arc_swap::ArcSwap;
use futures::FutureExt;
use tokio::sync::Semaphore;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::{Answer, Description, Limit, Limits, Requirements, ScanLimits};
use topoloom_core::text;
use wasmtime::Engine;

use super::bindings::{Linkers, Pre};
use super::cache::Cache;
use super::call::{Call, Configure, Describe, Frame, Job, Question, RoundInput, Start};
use super::compile::Compiler;
use super::components::{Code, Components};
use super::engine::{self, Optimise};
use super::load::{LoadError, Needs};
use super::metrics::{Metrics, Series};
use super::scan::{self, ScanInterest, Version};
use super::share::Shares;
use super::voice::{LogLines, Speaker};
use super::{Digest, builtin};

/// Threads for guests that compute longer than one tick of the engine. Two let one plugin's endless loop run into its
/// deadline while others work, and leave the host's own threads alone.
const THREADS: usize = 2;

/// Scans at one time. Each has a bound on its processor time, and those that were given up leave the queue: files of
/// strangers keep one processor busy at most, and a scan waits only for the few before it.
const SCANS: usize = 1;

/// How a plugin of others becomes machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codegen {
    /// The quick way at first, and optimised once it has proved itself.
    #[default]
    Service,
    /// In one pass (Winch), in a quarter of the time of the quick way; the code is slower, and no other engine takes it. For an
    /// author who looks at each save.
    Baseline,
}

/// What the operator decides about all plugins together: it belongs to the engine, which they share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// [`Limit::Stack`], bytes.
    pub stack: usize,
    /// [`Limit::ProcessCalls`]
    pub calls: usize,
    /// [`Limit::ProcessMemory`], bytes.
    pub memory: usize,
    /// What compiles plugins of others.
    pub codegen: Codegen,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stack: Limit::Stack.fixed().size(),
            calls: Limit::ProcessCalls.fixed().size(),
            memory: Limit::ProcessMemory.fixed().size(),
            codegen: Codegen::default(),
        }
    }
}

/// Why there is no runtime. The process cannot do its work without one.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The engine refused its settings or this machine.
    #[error("the WebAssembly engine did not start: {0}")]
    Engine(String),
    /// A thread could not be started.
    #[error("the thread {name} could not be started")]
    Thread {
        /// Its name.
        name: &'static str,
        /// The cause.
        source: io::Error,
    },
}

/// The plugin runtime of the process: one engine, two threads. Clones share it.
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<RuntimeInner>,
}

struct RuntimeInner {
    engine: Engine,
    linkers: Linkers,
    components: Components,
    threads: Threads,
    turns: Arc<Semaphore>,
    scans: Arc<Semaphore>,
    memory: Arc<Shares>,
    calls: AtomicU64,
    options: Options,
    metrics: Metrics,
}

/// What to load.
#[derive(Debug, Clone)]
pub struct Load {
    /// The component file, unpacked.
    pub bytes: Arc<[u8]>,
    /// The digest that the operator pinned, if any.
    pub pinned: Option<Digest>,
    /// What the plugin may use.
    pub limits: Limits,
}

impl Runtime {
    /// Starts engine, ticker and threads for a caller that uses one plugin at a time: with the defaults, no bound on
    /// the memory of all calls but that of each, and metrics that are not served.
    ///
    /// # Errors
    ///
    /// As [`Self::start_with`].
    pub fn start(compiler: Compiler) -> Result<Self, StartError> {
        Self::start_with(compiler, Options { memory: usize::MAX, ..Options::default() }, Metrics::default(), None)
    }

    /// Starts engine, ticker and threads.
    ///
    /// # Errors
    ///
    /// When this machine cannot run the engine or has no thread left. Trying again is no use.
    pub fn start_with(
        compiler: Compiler,
        options: Options,
        metrics: Metrics,
        cache: Option<Cache>,
    ) -> Result<Self, StartError> {
        let engine = engine::start(options)?;
        let linkers = Linkers::new(&engine).map_err(|error| StartError::Engine(super::chain(&error)))?;
        let threads = Threads::start()?;
        let turns = Arc::new(Semaphore::new(options.calls));
        let components = Components::new(engine.clone(), options.codegen, compiler, cache, metrics.clone());
        let scans = Arc::new(Semaphore::new(SCANS));
        let memory = Shares::new(options.memory);
        let calls = AtomicU64::new(0);
        let shared =
            RuntimeInner { engine, linkers, components, threads, turns, scans, memory, calls, options, metrics };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The cache, if there is one.
    #[must_use]
    pub fn cache(&self) -> Option<&Cache> {
        self.shared.components.cache()
    }

    /// The most memory that all calls held at one time, bytes.
    #[must_use]
    pub fn peak_memory(&self) -> usize {
        self.shared.memory.peak()
    }

    /// What its plugins cost.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Makes a plugin of bytes: bounds, scan, compile, link. Runs no code of the plugin.
    ///
    /// Foreign bytes are compiled without optimisation; [`Plugin::optimise`] does the rest once they are active, unless
    /// [`Codegen::Baseline`] was asked for. Cancel
    /// safe: a compiler process without a caller is killed.
    ///
    /// # Errors
    ///
    /// [`LoadError`], of which [`LoadError::retry`] says whether the same bytes can ever do better.
    pub async fn load(&self, load: Load) -> Result<Plugin, LoadError> {
        let shared = Arc::clone(&self.shared);
        let loaded = self.shared.threads.run(async move { shared.load(load).await }).await.map_err(LoadError::Host)?;
        loaded.inspect_err(|error| self.shared.metrics.refused(error))
    }
}

impl RuntimeInner {
    /// The scan is bounded, and may still take a while: meanwhile the plugins' threads continue. It ends with the
    /// future.
    async fn scan(&self, bytes: &Arc<[u8]>, limits: &ScanLimits) -> Result<scan::ScanFacts, LoadError> {
        let (bytes, limits) = (Arc::clone(bytes), limits.clone());
        let closed = || LoadError::Host("the queue of scans is closed".to_owned());
        let turn = Arc::clone(&self.scans).acquire_owned().await.map_err(|_| closed())?;
        let wanted = ScanInterest::default();
        let _given_up = GiveUpOnDrop(wanted.clone());
        let scan = tokio::task::spawn_blocking(move || {
            // Until the thread has ended, not until its source stops waiting for it.
            let _turn = turn;
            scan::scan(&bytes, &limits, &wanted)
        });
        scan.await.map_err(|error| LoadError::Host(error.to_string()))?
    }

    async fn load(self: Arc<Self>, load: Load) -> Result<Plugin, LoadError> {
        let Load { bytes, pinned, limits } = load;
        let digest = Digest::of(&bytes);
        if let Some(pinned) = pinned.filter(|pinned| *pinned != digest) {
            return Err(LoadError::Digest { pinned, found: digest });
        }
        let facts = self.scan(&bytes, &limits.scan).await?;
        let builtin = builtin::of(&digest);
        let origin = if builtin.is_some() { Origin::Embedded } else { Origin::Foreign };
        let code = match builtin {
            Some(builtin) if self.options.codegen == Codegen::Service => {
                self.components.embedded(builtin, &limits.compile).await?
            }
            _ => self.components.foreign(digest, &bytes, &limits.compile).await?,
        };
        // The code may be shared, the limits are those of this load.
        super::load::check_resources(&code.component, &limits.store)?;
        let imports = super::load::imports(&code.component);
        let linked = Linked { pre: self.linkers.link(facts.version, &code.component)?, code };
        let short: Arc<str> = digest.short().into();
        let turn = Arc::new(Semaphore::new(Limit::PluginCalls.fixed().size()));
        let series = self.metrics.series(&short);
        let loaded = Loaded {
            bytes,
            digest,
            short,
            origin,
            version: facts.version,
            imports,
            limits,
            linked: ArcSwap::from_pointee(linked),
            turn,
            series,
        };
        Ok(Plugin { shared: self, loaded: Arc::new(loaded), lines: None })
    }
}

/// A loaded plugin: compiled and linked, without any instance. Clones share it, and the one call at a time.
#[derive(Clone)]
pub struct Plugin {
    shared: Arc<RuntimeInner>,
    loaded: Arc<Loaded>,
    /// Who wants what it logs, in place of the host's log.
    lines: Option<LogLines>,
}

struct Loaded {
    bytes: Arc<[u8]>,
    digest: Digest,
    short: Arc<str>,
    origin: Origin,
    version: Version,
    imports: Vec<String>,
    limits: Limits,
    linked: ArcSwap<Linked>,
    turn: Arc<Semaphore>,
    series: Series,
}

/// What calls start from. It holds on to the shared code for as long as any call uses it.
pub(super) struct Linked {
    pub(super) pre: Pre,
    code: Arc<Code>,
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Plugin").field(&self.loaded.digest).finish()
    }
}

impl Plugin {
    /// Whether this is the same loaded plugin, with the same image.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.loaded, &other.loaded)
    }

    /// Whether both run the same copy of machine code.
    #[must_use]
    pub fn shares_code_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.loaded.linked.load().code, &other.loaded.linked.load().code)
    }

    /// The identity of its bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.loaded.digest
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.loaded.bytes
    }

    /// Whether its bytes are embedded in this binary: what `core::plugin::grant` needs to know.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.loaded.origin
    }

    /// Every function that it imports, sorted: the complete list of what it can do.
    #[must_use]
    pub fn imports(&self) -> &[String] {
        &self.loaded.imports
    }

    /// Whether it can read names of Nodes, which plugins of others may do only with the operator's word.
    #[must_use]
    pub fn reads_node_names(&self) -> bool {
        super::load::reads_node_names(&self.loaded.imports)
    }

    /// What it has from its first moment, as far as that is known.
    #[must_use]
    pub fn needs(&self) -> Option<Needs> {
        super::load::needs(&self.loaded.linked.load().code.component)
    }

    /// What it may use.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.loaded.limits
    }

    /// The same plugin, for a caller that wants the log lines of its calls: the host's log has none of them, and no line
    /// about a guest that was stopped.
    #[must_use]
    pub fn logging_to(&self, lines: &LogLines) -> Self {
        Self { lines: Some(lines.clone()), ..self.clone() }
    }

    /// Makes an instance, and asks it nothing: what each call begins with, to be measured.
    pub async fn start(&self, source: &SourceName) -> Call<()> {
        self.call(source, Limit::CpuShort, Start, |_| {}).await
    }

    /// Asks the plugin about itself.
    pub async fn describe(&self, source: &SourceName) -> Call<Description> {
        self.call(source, Limit::CpuShort, Describe, |description| self.loaded.series.named(&description.name)).await
    }

    /// Checks a configuration (a JSON object) and says what it needs.
    pub async fn configure(&self, source: &SourceName, config: Arc<str>) -> Call<Requirements> {
        self.call(source, Limit::CpuShort, Configure(config), |_| {}).await
    }

    /// One round. The answer is decoded and has the right shape; whether it is a valid topology is for
    /// `core::topology::validate`.
    ///
    /// Cancel safe: the guest is stopped within 10 ms of computing.
    pub async fn discover(&self, source: &SourceName, round: RoundInput) -> Call<Answer> {
        self.call(source, Limit::Cpu, round, |_| {}).await
    }

    /// Compiles foreign bytes once more, with optimisation, and uses the result from the next call on. Embedded bytes
    /// are optimised already, and so is what the cache or another source has in that form.
    ///
    /// # Errors
    ///
    /// [`LoadError`]; the plugin continues with the image it has.
    pub async fn optimise(&self) -> Result<(), LoadError> {
        if self.shared.options.codegen == Codegen::Baseline || self.loaded.linked.load().code.optimise == Optimise::Yes
        {
            return Ok(());
        }
        let plugin = self.clone();
        let done = self.shared.threads.run(async move {
            let Self { shared, loaded, .. } = plugin;
            let code = shared.components.optimised(loaded.digest, &loaded.bytes, &loaded.limits.compile).await?;
            let pre = shared.linkers.link(loaded.version, &code.component)?;
            loaded.linked.store(Arc::new(Linked { pre, code }));
            Ok(())
        });
        let done = done.await.map_err(LoadError::Host)?;
        done.inspect_err(|error| self.shared.metrics.refused(error))
    }

    /// One call, counted however it ends. Facts from its answer are stored before it is counted.
    async fn call<Q: Question>(
        &self,
        source: &SourceName,
        budget: Limit,
        question: Q,
        learn: impl FnOnce(&Q::Answer),
    ) -> Call<Q::Answer> {
        let ending = self.loaded.series.begin(source);
        let call = self.shared.threads.call(self.begins(), self.job(source, budget), question).await;
        if let Ok(answer) = &call.end {
            learn(answer);
        }
        ending.with(call.end.as_ref().err(), &call.usage);
        call
    }

    /// Ours are trusted to be quick or to yield; what a plugin of others makes the host do for it is done on the
    /// plugins' own threads from the beginning.
    fn begins(&self) -> Begins {
        match self.loaded.origin {
            Origin::Embedded => Begins::Here,
            Origin::Foreign => Begins::There,
        }
    }

    fn job(&self, source: &SourceName, budget: Limit) -> Job {
        let speaker = Speaker {
            source: source.clone(),
            plugin: self.loaded.series.name(),
            digest: Arc::clone(&self.loaded.short),
            call: self.shared.calls.fetch_add(1, Ordering::Relaxed),
            lines: self.lines.clone(),
        };
        let frame = Frame {
            engine: self.shared.engine.clone(),
            limits: self.loaded.limits.clone(),
            budget,
            stack: self.shared.options.stack,
            memory: Arc::clone(&self.shared.memory),
            speaker,
        };
        let (turn, turns) = (Arc::clone(&self.loaded.turn), Arc::clone(&self.shared.turns));
        Job { linked: self.loaded.linked.load_full(), frame, turn, turns }
    }
}

/// Where a call begins.
#[derive(Clone, Copy)]
enum Begins {
    /// On the thread that asks.
    Here,
    /// On the plugins' threads.
    There,
}

/// The threads that guests run on.
struct Threads {
    /// Taken only when the value is dropped.
    tokio: Option<tokio::runtime::Runtime>,
}

impl Threads {
    fn start() -> Result<Self, StartError> {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("plugin")
            .enable_all()
            .build()
            .map_err(|source| StartError::Thread { name: "plugin", source })?;
        Ok(Self { tokio: Some(tokio) })
    }

    fn tokio(&self) -> Result<&tokio::runtime::Runtime, String> {
        self.tokio.as_ref().ok_or_else(|| "the plugin runtime is shutting down".to_owned())
    }

    /// Runs a future there. It ends when its caller is gone.
    async fn run<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Result<T, String> {
        let mut task = AbortOnDrop(self.tokio()?.spawn(future));
        (&mut task.0).await.map_err(|error| match error.try_into_panic() {
            Ok(panic) => broke(&*panic),
            Err(error) => error.to_string(),
        })
    }

    /// Runs a call; what breaks the host's side of it breaks only that call.
    ///
    /// Most calls are over within one tick of the engine, and two changes of threads would be half of their time: a
    /// call that begins here goes to our threads when it yields for the first time.
    async fn call<Q: Question>(&self, begins: Begins, job: Job, question: Q) -> Call<Q::Answer> {
        let mut call = Box::pin(AssertUnwindSafe(job.run(question)).catch_unwind());
        let begun = poll_fn(|context| {
            // Clocks that the call starts here are those of our threads, wherever it ends.
            let _entered = self.tokio.as_ref().map(tokio::runtime::Runtime::enter);
            Poll::Ready(call.as_mut().poll(context))
        });
        let begun = match begins {
            Begins::Here => begun.await,
            Begins::There => Poll::Pending,
        };
        let end = match begun {
            Poll::Ready(end) => Ok(end),
            Poll::Pending => self.run(call).await,
        };
        match end {
            Ok(Ok(call)) => call,
            Ok(Err(panic)) => Call::broken(broke(&*panic)),
            Err(what) => Call::broken(what),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(tokio) = self.tokio.take() {
            // The last handle may go in an async task, where waiting for threads is not allowed.
            tokio.shutdown_background();
        }
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct GiveUpOnDrop(ScanInterest);

impl Drop for GiveUpOnDrop {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

fn broke(panic: &(dyn std::any::Any + Send)) -> String {
    format!("a panic: {}", text::of_panic(panic))
}
