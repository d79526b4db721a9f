//! What a document means for the sources: which begins, which gets a new entry, which stops.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::mpsc::unbounded_channel;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::{OnRemoval, State};
use topoloom_core::names::SourceName;

use super::removals::Removals;
use super::{RunningSource, Sources, Stopping};
use crate::config::{Document, EntryConfig, EntryState, Load, Mode};
use crate::discovery::supervisor::{Command, SourceMemory, Supervisor, describe_invalid};
use crate::manager::verbs::Serve;

impl Sources {
    /// Takes in what became of the ConfigMap.
    pub(super) fn load(&mut self, load: &Load) {
        let document = match load {
            Load::Valid(document) => Arc::new(document.clone()),
            Load::NoConfigMap => return self.unreadable(Reason::ConfigMissing, "the ConfigMap does not exist"),
            Load::NoKey => return self.unreadable(Reason::ConfigMissing, "the ConfigMap lacks its key"),
            Load::Invalid(error) => return self.unreadable(error.reason(), &error.to_string()),
        };
        self.unreadable = None;
        log(&document);
        let named = self.apply_entries(&document);
        if document.is_doubtful() {
            let what = document.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            self.unreadable(Reason::InvalidDocument, &format!("it names no source and may be a mistake: {what}"));
        } else if document.names_all_sources() {
            self.stop_absent(&document, &named);
            self.document = Some(document);
            self.leftovers();
        }
    }

    /// Gives each source its entry, the first that names it; answers which sources are named.
    fn apply_entries<'a>(&mut self, document: &'a Document) -> BTreeSet<&'a SourceName> {
        let mut named = BTreeSet::new();
        for (order, entry) in document.entries.iter().enumerate() {
            let Some(source) = &entry.source else { continue };
            if named.insert(source) {
                self.apply_entry(document, source, order);
            }
        }
        named
    }

    /// Stops the sources that no entry names. A document without any source needs a person's word first.
    fn stop_absent(&mut self, document: &Document, named: &BTreeSet<&SourceName>) {
        let absent: Vec<SourceName> = self.running.keys().filter(|source| !named.contains(source)).cloned().collect();
        if !document.is_empty() {
            self.removals = Removals::default();
        }
        for source in absent {
            if !document.is_empty() || !self.hold_removal(&source) {
                self.stop_source(&source, None);
            }
        }
    }

    fn apply_entry(&mut self, document: &Document, source: &SourceName, order: usize) {
        match document.state_of(source) {
            EntryState::Enabled(entry) => {
                let prefix = format!("networkTopologyDiscovery[{order}]");
                let about = |path: &str| {
                    path.strip_prefix(&prefix).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
                };
                let warnings: Vec<String> =
                    document.warnings.iter().filter(|warning| about(&warning.path)).map(ToString::to_string).collect();
                self.start(Arc::new(entry.clone()), order, warnings);
            }
            EntryState::Invalid(problems) => {
                let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                match self.running.get(source) {
                    Some(running) => {
                        running.send(Command::Invalid(Reason::InvalidConfig, message));
                    }
                    None => {
                        let known = self.known.get(source).map(|known| known.status.clone()).unwrap_or_default();
                        self.shared.reports.publish(describe_invalid(source, known, Reason::InvalidConfig, message));
                    }
                }
            }
            EntryState::Disabled(entry) => self.stop_source(source, Some(entry)),
            EntryState::Absent => {}
        }
    }

    /// No source is removed by a document that cannot be read.
    fn unreadable(&mut self, reason: Reason, message: &str) {
        tracing::warn!(reason = %reason, message, "the configuration cannot be used; the running sources continue");
        for running in self.running.values() {
            running.send(Command::Invalid(reason, message.to_owned()));
        }
        self.unreadable = Some((reason, message.to_owned()));
        self.publish_unreadable();
    }

    /// Publishes why sources that do not run cannot start: their statuses from before the host's restart are no longer
    /// true.
    pub(super) fn publish_unreadable(&self) {
        let Some((reason, message)) = &self.unreadable else { return };
        for (source, known) in &self.known {
            if !self.running.contains_key(source) && known.status.state != Some(State::Disabled) {
                let status = describe_invalid(source, known.status.clone(), *reason, message.clone());
                self.shared.reports.publish(status);
            }
        }
    }

    /// Starts a source, or gives a running one its entry.
    pub(super) fn start(&mut self, entry: Arc<EntryConfig>, order: usize, warnings: Vec<String>) {
        let source = entry.source.clone();
        if let Some(running) = self.running.get_mut(&source) {
            running.entry = Some(Arc::clone(&entry));
            running.order = order;
            match &mut running.stopping {
                Some(stopping) => {
                    stopping.next = Some((entry, order, warnings));
                    stopping.delete = false;
                }
                None => {
                    running.send(Command::Entry(entry, order, warnings));
                }
            }
            return;
        }
        let memory = self.known.get_mut(&source).map_or_else(SourceMemory::default, |known| SourceMemory {
            status: known.status.clone(),
            paused: known.verbs.pause,
            confirmed: known.verbs.confirm.take(),
            named: match known.verbs.serve {
                Serve::Named(digest) => Some(digest),
                Serve::Delivered | Serve::Unreadable => None,
            },
            go_on: known.verbs.go_on.take(),
        });
        self.shared.metrics.begins(&source);
        let (mailbox, receiver) = unbounded_channel();
        let supervisor = Supervisor::new(Arc::clone(&self.shared), Arc::clone(&entry), order, memory, receiver);
        let running = RunningSource { mailbox, entry: Some(Arc::clone(&entry)), order, stopping: None };
        running.send(Command::Entry(entry, order, warnings));
        self.running.insert(source.clone(), running);
        self.spawn(source, supervisor.run());
    }

    /// A source is off or gone. What the entry that switches it off says about removal counts.
    pub(super) fn stop_source(&mut self, source: &SourceName, entry: Option<&EntryConfig>) {
        let Some(running) = self.running.get_mut(source) else { return };
        let entry = entry.or(running.entry.as_deref());
        // A source that must not write must not delete either, also if it is forbidden only after the stop.
        let writes = entry.filter(|entry| entry.mode == Mode::Apply && !entry.verbs.pause);
        let on_removal = writes.map(|entry| entry.on_removal).unwrap_or_default();
        match &mut running.stopping {
            None => {
                running.stopping = Some(Stopping::default());
                running.send(Command::Stop(on_removal));
            }
            // It was to start again, and now it is not.
            Some(stopping) if stopping.next.is_some() => {
                stopping.next = None;
                stopping.delete = on_removal == OnRemoval::Delete;
            }
            Some(_) => {}
        }
    }
}

fn log(document: &Document) {
    for warning in &document.warnings {
        tracing::warn!(%warning, "the configuration has a warning");
    }
    for problem in document.errors() {
        tracing::warn!(%problem, "the configuration has a mistake");
    }
    tracing::info!(entries = document.entries.len(), enabled = document.enabled().count(), "configuration read");
}
