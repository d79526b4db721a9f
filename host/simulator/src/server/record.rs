//! What was received: a bounded list of requests, and counters to wait for.

use super::credentials::Presented;
use http::{HeaderMap, Method};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// Most requests that are remembered; the oldest go first. Counters continue.
const KEPT: usize = 10_000;

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// When its head was read.
    pub at: jiff::Timestamp,
    /// The method.
    pub method: Method,
    /// The path as it came, not decoded.
    pub path: String,
    /// The query as it came, without the question mark.
    pub query: Option<String>,
    /// The headers; values of `authorization` and `cookie` are not printed.
    pub headers: HeaderMap,
    /// With what credential it came.
    pub presented: Presented,
    /// The fault that it met.
    pub fault: Option<String>,
    /// The status of the answer, once there is one.
    pub status: Option<u16>,
    /// Bytes of the body that were handed to the connection so far.
    pub bytes: u64,
    /// Whether the answer is over, whole or broken off.
    pub ended: bool,
}

/// What happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Requests whose head was read.
    pub requests: u64,
    /// Answers that are on their way now, or held back.
    pub answering: u64,
}

/// The record of one server.
#[derive(Debug)]
pub(crate) struct Record {
    entries: Mutex<VecDeque<Arc<RecordedRequest>>>,
    counters: watch::Sender<Counters>,
}

/// A request and how far its answer has come.
#[derive(Debug)]
pub(crate) struct RecordedRequest {
    request: Request,
    status: AtomicU16,
    bytes: AtomicU64,
    ended: AtomicBool,
}

impl RecordedRequest {
    fn show(&self) -> Request {
        let status = Some(self.status.load(Ordering::Relaxed)).filter(|status| *status > 0);
        let (bytes, ended) = (self.bytes.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed));
        Request { status, bytes, ended, ..self.request.clone() }
    }
}

impl Record {
    pub(crate) fn new() -> Self {
        Self { entries: Mutex::default(), counters: watch::Sender::new(Counters::default()) }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|entry| entry.show()).collect()
    }

    pub(crate) fn forget(&self) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn counters(&self) -> watch::Receiver<Counters> {
        self.counters.subscribe()
    }

    /// Notes a request; the ticket follows its answer.
    pub(crate) fn begin(self: &Arc<Self>, request: Request) -> Ticket {
        let (status, bytes, ended) = (AtomicU16::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let entry = Arc::new(RecordedRequest { request, status, bytes, ended });
        {
            let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.push_back(entry.clone());
            if entries.len() > KEPT {
                entries.pop_front();
            }
        }
        self.counters.send_modify(|counters| {
            counters.requests += 1;
            counters.answering += 1;
        });
        Ticket { record: self.clone(), entry: Some(entry) }
    }

    /// Follows an answer without remembering the request.
    pub(crate) fn follow(self: &Arc<Self>) -> Ticket {
        self.counters.send_modify(|counters| counters.answering += 1);
        Ticket { record: self.clone(), entry: None }
    }

    /// Counts a connection for as long as the answer is kept.
    pub(crate) fn connect(self: &Arc<Self>) -> Connected {
        self.counters.send_modify(|counters| {
            counters.connections += 1;
            counters.open += 1;
        });
        Connected(self.clone())
    }
}

/// Follows one answer; the answer is over when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    record: Arc<Record>,
    entry: Option<Arc<RecordedRequest>>,
}

impl Ticket {
    pub(crate) fn status(&self, status: u16) {
        if let Some(entry) = &self.entry {
            entry.status.store(status, Ordering::Relaxed);
        }
    }

    pub(crate) fn sent(&self, bytes: usize) {
        if let Some(entry) = &self.entry {
            entry.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(entry) = &self.entry {
            entry.ended.store(true, Ordering::Relaxed);
        }
        self.record.counters.send_modify(|counters| counters.answering = counters.answering.saturating_sub(1));
    }
}

/// One open connection.
#[derive(Debug)]
pub(crate) struct Connected(Arc<Record>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.counters.send_modify(|counters| counters.open = counters.open.saturating_sub(1));
    }
}
