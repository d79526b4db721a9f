//! One call: a fresh store, a budget, a clock, and one typed end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use topoloom_core::plugin::{
    Answer, CallError, Description, Failure, Granted, Limit, LimitSet, Limits, Requirements, TrapReport, Usage,
};
use topoloom_core::snapshot::View;
use topoloom_core::topology::Object;
use tracing::field::Empty;
use tracing::{Instrument, Span};
use wasmtime::{Engine, Store, UpdateDeadline};

use super::bindings::Pre;
use super::budget::Budget;
use super::guest::{Exceeded, Guest, Inputs};
use super::limiter::Limiter;
use super::runtime::Linked;
use super::share::Shares;
use super::trap;
use super::voice::{Speaker, Voice};
use crate::endpoints::Endpoints;

/// How a call ended and what it used.
#[derive(Debug)]
pub struct Call<T> {
    /// The answer, or why there is none.
    pub end: Result<T, CallError>,
    /// What it used, whatever its end.
    pub usage: Usage,
}

impl<T> Call<T> {
    pub(super) fn broken(what: String) -> Self {
        Self { end: Err(CallError::Host(what)), usage: Usage::default() }
    }
}

/// The arguments of one `discover`.
#[derive(Debug, Clone)]
pub struct RoundInput {
    /// The entry's configuration, a JSON object.
    pub config: Arc<str>,
    /// What `core::plugin::grant` made of the requirements of this very configuration.
    pub granted: Arc<Granted>,
    /// The nodes, with a column for each granted key.
    pub nodes: View,
    /// The objects of this source as they are in the cluster now.
    pub applied: Arc<[Arc<Object>]>,
    /// What the plugin may ask outside.
    pub endpoints: Arc<Endpoints>,
    /// When the round started.
    pub time: jiff::Timestamp,
    /// What the last answer of the same revision and configuration carried as state; empty after a restart.
    pub state: Arc<[u8]>,
}

/// A call that waits for its turn.
pub(super) struct Job {
    pub(super) linked: Arc<Linked>,
    pub(super) frame: Frame,
    pub(super) turn: Arc<Semaphore>,
    pub(super) turns: Arc<Semaphore>,
}

/// What a call may use, and under which name it logs.
pub(super) struct Frame {
    pub(super) engine: Engine,
    pub(super) limits: Limits,
    /// Which row of the table bounds its computing.
    pub(super) budget: Limit,
    /// Bytes of stack that the engine gives to WebAssembly.
    pub(super) stack: usize,
    /// The memory of all calls.
    pub(super) memory: Arc<Shares>,
    pub(super) speaker: Speaker,
}

/// One of the three functions of a discoverer, with its arguments.
pub(super) trait Question: Send + 'static {
    type Answer: Send + 'static;

    /// The function of the discoverer.
    const NAME: &'static str;

    /// What the imports may serve during the call.
    fn inputs(&self) -> Inputs;

    /// Instantiates and calls. Everything in here is guest time.
    fn ask(&self, pre: &Pre, store: &mut Store<Guest>) -> impl Future<Output = Result<Self::Answer, NoAnswer>> + Send;
}

/// Why a question has no answer, before anybody looked for the cause.
pub(super) enum NoAnswer {
    /// The guest ended without a word.
    Stopped(wasmtime::Error),
    /// The guest reported it, or its answer was not valid.
    Known(CallError),
}

impl From<wasmtime::Error> for NoAnswer {
    fn from(error: wasmtime::Error) -> Self {
        Self::Stopped(error)
    }
}

impl From<CallError> for NoAnswer {
    fn from(error: CallError) -> Self {
        Self::Known(error)
    }
}

pub(super) struct Describe;

impl Question for Describe {
    type Answer = Description;
    const NAME: &'static str = "describe";

    fn inputs(&self) -> Inputs {
        Inputs::default()
    }

    async fn ask(&self, pre: &Pre, store: &mut Store<Guest>) -> Result<Description, NoAnswer> {
        pre.describe(store).await
    }
}

/// An instance and nothing else, for a caller that measures what that takes.
pub(super) struct Start;

impl Question for Start {
    type Answer = ();
    const NAME: &'static str = "start";

    fn inputs(&self) -> Inputs {
        Inputs::default()
    }

    async fn ask(&self, pre: &Pre, store: &mut Store<Guest>) -> Result<(), NoAnswer> {
        pre.start(store).await
    }
}

pub(super) struct Configure(pub(super) Arc<str>);

impl Question for Configure {
    type Answer = Requirements;
    const NAME: &'static str = "configure";

    fn inputs(&self) -> Inputs {
        Inputs::default()
    }

    async fn ask(&self, pre: &Pre, store: &mut Store<Guest>) -> Result<Requirements, NoAnswer> {
        pre.configure(store, &self.0).await
    }
}

impl Question for RoundInput {
    type Answer = Answer;
    const NAME: &'static str = "discover";

    fn inputs(&self) -> Inputs {
        let Self { nodes, granted, applied, endpoints, .. } = self;
        Inputs {
            nodes: nodes.clone(),
            granted: Arc::clone(granted),
            applied: Arc::clone(applied),
            endpoints: Arc::clone(endpoints),
        }
    }

    async fn ask(&self, pre: &Pre, store: &mut Store<Guest>) -> Result<Answer, NoAnswer> {
        pre.discover(store, self).await
    }
}

impl Job {
    /// Waits for its turn, calls, and finds out how the call ended. The store is dropped here in any case.
    ///
    /// Its span begins now, below that of its caller: the call itself may begin on another thread.
    pub(super) fn run<Q: Question>(self, question: Q) -> impl Future<Output = Call<Q::Answer>> {
        let inputs = question.inputs();
        let Speaker { source, plugin, digest, call, .. } = &self.frame.speaker;
        let span = tracing::debug_span!(
            "call",
            function = Q::NAME,
            source = &**source,
            plugin = &**plugin,
            digest = &**digest,
            call,
            generation = inputs.nodes.generation(),
            rows = inputs.nodes.rows(),
            outcome = Empty,
            otel.status_code = Empty,
        );
        self.ask(question, inputs).instrument(span)
    }

    async fn ask<Q: Question>(self, question: Q, inputs: Inputs) -> Call<Q::Answer> {
        let asked = Instant::now();
        let mut met = LimitSet::default();
        // First the plugin's own turn: a plugin with a long queue must not hold places of others while it waits.
        let turn = wait(&self.turn, Limit::PluginCalls, &mut met).await;
        let turns = wait(&self.turns, Limit::ProcessCalls, &mut met).await;
        let (Some(_turn), Some(_turns)) = (turn, turns) else {
            return Call::broken("the queue of calls is closed".to_owned());
        };
        let started = Instant::now();
        let frame = &self.frame;
        let wall = frame.limits.call.wall;
        let budget = Arc::new(Budget::new(frame.cpu()));
        let mut store = frame.store(&budget, inputs);
        let asking = budget.meter(question.ask(&self.linked.pre, &mut store));
        let end = match tokio::time::timeout(wall, asking).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(NoAnswer::Known(CallError::Failure(Failure::Denied(_)))))
                if store.data().session.lacks().is_some() =>
            {
                let what = store.data().session.lacks().unwrap_or_default().to_owned();
                Err(CallError::Failure(Failure::Credentials(what)))
            }
            Ok(Err(NoAnswer::Known(error))) => Err(error.reported(|| trap::silent(store.data(), &budget))),
            Ok(Err(NoAnswer::Stopped(error))) => Err(trap::classify(&error, store.data(), &budget, frame)),
            // The time passed while others held what it waited for.
            Err(_elapsed) if store.data().limiter.is_waiting() => {
                let report = trap::silent(store.data(), &budget);
                let Exceeded { row, what } = store.data().limiter.late(started.elapsed());
                Err(CallError::LimitExceeded { row, what, report })
            }
            Err(_elapsed) => {
                let report = trap::silent(store.data(), &budget);
                Err(CallError::WallClock { used: budget.used(), limit: wall, report })
            }
        };
        let guest = store.data();
        let (log_lines, log_dropped) = guest.voice.end();
        let usage = Usage {
            queued: started - asked,
            wall: started.elapsed(),
            cpu: budget.used(),
            peak_memory: guest.limiter.peak_memory(),
            log_lines,
            log_dropped,
            received: guest.received,
            sent: guest.sent,
            requests: guest.requests,
            met: met.and(guest.voice.met()).and(guest.limiter.met()).and(guest.met),
            called: guest.called,
        };
        frame.report(end.as_ref().err(), &usage);
        // After the lines about it, which say so themselves.
        Span::current().record("outcome", end.as_ref().err().map_or("ok", CallError::outcome));
        if end.is_err() {
            Span::current().record("otel.status_code", "ERROR");
        }
        Call { end, usage }
    }
}

/// Waits for a turn, and notes if there was none at once.
async fn wait(turns: &Arc<Semaphore>, limit: Limit, met: &mut LimitSet) -> Option<OwnedSemaphorePermit> {
    if let Ok(turn) = Arc::clone(turns).try_acquire_owned() {
        return Some(turn);
    }
    met.insert(limit);
    Arc::clone(turns).acquire_owned().await.ok()
}

impl Frame {
    /// How long the call may compute.
    fn cpu(&self) -> Duration {
        match self.budget {
            Limit::Cpu => self.limits.call.cpu,
            _ => self.limits.call.cpu_short,
        }
    }

    /// Says how the call ended; all that is known about a guest that was stopped, since the sentence in the status has
    /// room for little of it.
    fn report(&self, error: Option<&CallError>, usage: &Usage) {
        let Speaker { source, plugin, digest, call, lines } = &self.speaker;
        let (source, plugin, digest) = (&**source, &**plugin, &**digest);
        let (wall, cpu, peak_memory) = (usage.wall, usage.cpu, usage.peak_memory);
        let outcome = error.map_or("ok", CallError::outcome);
        tracing::debug!(source, plugin, digest, call, outcome, ?wall, ?cpu, peak_memory, "a call ended");
        // A caller that wants the lines reports the end of the call itself.
        let error = error.filter(|_| lines.is_none());
        let Some((error, report)) = error.and_then(|error| Some((error, error.report()?))) else { return };
        let stopped_by = error.stopped_by();
        let limit = error.limit().map(Limit::word);
        let TrapReport { message, frames, log_tail, spent } = report;
        tracing::info!(
            source, plugin, digest, call, stopped_by, limit, message, ?frames, ?log_tail, %spent,
            "a plugin was stopped"
        );
    }

    /// The only place that makes stores, so that none is without its limits. A store with epochs and without a
    /// deadline would trap at once.
    fn store(&self, budget: &Arc<Budget>, inputs: Inputs) -> Store<Guest> {
        let Limits { store: bounds, call, .. } = &self.limits;
        let voice = Voice::new(self.speaker.clone(), call);
        let limiter = Limiter::new(bounds.clone(), self.memory.of(self.speaker.call, bounds.memory));
        let mut store = Store::new(&self.engine, Guest::new(limiter, voice, call.clone(), inputs));
        store.limiter_async(|guest| &mut guest.limiter);
        store.set_hostcall_fuel(call.transfer);
        store.set_max_component_handles(bounds.handles);
        store.set_epoch_deadline(1);
        let budget = Arc::clone(budget);
        store.epoch_deadline_callback(move |_| {
            Ok(if budget.is_exhausted() {
                UpdateDeadline::Interrupt
            } else {
                // A plain yield may be put straight back at the head of tokio's queue.
                UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))
            })
        });
        store
    }
}

#[cfg(test)]
mod tests;
