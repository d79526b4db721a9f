//! What a store carries: the limits of one call, what its imports may serve, and what the plugin said.

use std::sync::Arc;

use topoloom_core::plugin::{CallLimits, Granted, ImportSet, Limit, LimitSet};
use topoloom_core::snapshot::{Store, View};
use topoloom_core::topology::Object;
use wasmtime::component::ResourceTable;

use super::limiter::Limiter;
use super::voice::Voice;
use crate::endpoints::{Denial, Endpoints, Error, Session};

/// The host's side of one instance.
pub(super) struct Guest {
    pub(super) limiter: Limiter,
    pub(super) voice: Voice,
    pub(super) limits: CallLimits,
    /// What the guest holds handles of.
    pub(super) table: ResourceTable,
    pub(super) inputs: Inputs,
    /// What it does outside.
    pub(super) session: Session,
    /// Limits that acted without an end of the call.
    pub(super) met: LimitSet,
    /// Functions of the host that it called.
    pub(super) called: ImportSet,
    /// Bytes that the host gave to the guest.
    pub(super) received: usize,
    /// Bytes that the guest gave to the host.
    pub(super) sent: usize,
    /// HTTP requests.
    pub(super) requests: usize,
    looks: usize,
}

/// A host function does not continue: the call ends here, with this limit.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct Exceeded {
    pub(super) row: Limit,
    pub(super) what: String,
}

/// What the imports serve. `describe` and `configure` get nothing: they are functions of their argument alone.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    pub(super) nodes: View,
    pub(super) granted: Arc<Granted>,
    pub(super) applied: Arc<[Arc<Object>]>,
    pub(super) endpoints: Arc<Endpoints>,
}

impl Guest {
    pub(super) fn new(limiter: Limiter, voice: Voice, limits: CallLimits, inputs: Inputs) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(limiter.limits().handles);
        let session = inputs.endpoints.session();
        let (met, called) = (LimitSet::default(), ImportSet::default());
        Self {
            limiter,
            voice,
            limits,
            table,
            inputs,
            session,
            met,
            called,
            received: 0,
            sent: 0,
            requests: 0,
            looks: 0,
        }
    }

    /// The guest is about to get so many bytes. Asked before they are copied: the engine does not limit this direction.
    pub(super) fn give(&mut self, bytes: usize) -> Result<(), Exceeded> {
        self.received = self.received.saturating_add(bytes);
        let (received, limit) = (self.received, self.limits.received);
        if received <= limit {
            return Ok(());
        }
        let what = format!("{received} bytes from the host in one call, of {limit} allowed");
        Err(Exceeded { row: Limit::Received, what })
    }

    /// The guest sent so many bytes; the engine has limited them.
    pub(super) fn take(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// A request was refused; where that was a limit, it acted.
    pub(super) fn outside(&mut self, error: &Error) {
        match error {
            Error::TooLarge(_) => self.met.insert(Limit::Body),
            Error::Denied { denial: Denial::Connections, .. } => self.met.insert(Limit::Connections),
            _ => {}
        }
    }

    /// The guest sends one more HTTP request.
    pub(super) fn request(&mut self) -> Result<(), Exceeded> {
        self.requests += 1;
        self.asked()
    }

    /// The guest asks for one more kind of credential, for which a Secret may be read.
    pub(super) fn look(&mut self) -> Result<(), Exceeded> {
        self.looks += 1;
        self.asked()
    }

    /// Both are bounded together.
    fn asked(&self) -> Result<(), Exceeded> {
        let (requests, limit) = (self.requests + self.looks, self.limits.requests);
        if requests <= limit {
            return Ok(());
        }
        Err(Exceeded {
            row: Limit::Requests,
            what: format!("{requests} HTTP requests in one call, of {limit} allowed"),
        })
    }
}

impl Default for Inputs {
    /// No nodes, no grants, no objects.
    fn default() -> Self {
        let endpoints = Endpoints::none();
        Self { nodes: Store::new().view(&[]), granted: Arc::default(), applied: Arc::default(), endpoints }
    }
}
