//! Modules in folders, swapped by the kubelet and by people while they are read.
//!
//! Three promises: no swap is missed, whether events arrive or not; the files of one offer always belong together; and
//! while a volume has a plugin, no listener reads that there is none. Random moments come from a seed, which a failed
//! test prints: `TOPOLOOM_TEST_SEED` repeats it, as far as two threads can be repeated.

mod kubelet;
mod plain;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;
use topoloom::config::{PluginOrigin, PluginRef};
use topoloom::delivery::{Delivery, Offer, Sites};
use topoloom::plugin::Metrics;

use self::kubelet::{NAME, Written};

/// A poll interval that no test reaches: only events make the host read.
const NEVER: Duration = Duration::from_secs(3600);
/// A poll interval so short that a reader is nearly always reading.
const OFTEN: Duration = Duration::from_millis(2);
/// An offer that has not arrived by then was missed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The reference to a module.
fn at(origin: PluginOrigin) -> PluginRef {
    PluginRef { origin, digest: None, trust: None, expected_name: None }
}

fn file(path: &Path) -> PluginRef {
    at(PluginOrigin::File(path.to_owned()))
}

fn installed() -> PluginRef {
    at(PluginOrigin::Installed(NAME.to_owned()))
}

fn delivery(folder: Option<PathBuf>, poll: Duration) -> Delivery {
    topoloom_tests::builtins::embed();
    Delivery::new(None, Sites { folder, poll, ..Sites::at("") }, Metrics::default())
}

/// All offers for one place, in their order.
struct Listener {
    place: &'static str,
    said: UnboundedReceiver<Offer>,
    /// The revision that was offered last.
    last: Option<usize>,
    _task: JoinSet<()>,
}

/// What a listener does besides receiving offers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Quiet,
    /// Makes the host read again, without end.
    Restless,
}

impl Listener {
    fn new(place: &'static str, delivery: &Delivery, plugin: &PluginRef, manner: Manner) -> Self {
        let mut subscription = delivery.subscribe(plugin);
        let (says, said) = unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    () = subscription.changed() => {
                        // A test that failed does not receive any more.
                        let _ = says.send(subscription.offer());
                    }
                    () = tokio::task::yield_now(), if manner == Manner::Restless => subscription.look(),
                }
            }
        });
        Self { place, said, last: None, _task: task }
    }

    async fn next(&mut self) -> Option<Offer> {
        timeout(PATIENCE, self.said.recv()).await.ok().flatten()
    }

    /// Waits until the last revision is offered. Every offer before it must be whole, must be one of the written
    /// revisions, and must not be older than the offer before.
    async fn hears_the_last(&mut self, written: &Written) {
        let wanted = written.last();
        while self.last != Some(wanted) {
            let Some(offer) = self.next().await else {
                panic!("{}: revision {wanted} was missed, {:?} was offered last", self.place, self.last)
            };
            self.take(&offer, written);
        }
    }

    fn take(&mut self, offer: &Offer, written: &Written) {
        let place = self.place;
        match offer {
            Offer::Pending => {}
            Offer::Module(module) => {
                let found = written.find(module).unwrap_or_else(|what| panic!("{place}: {what}"));
                assert!(
                    self.last.is_none_or(|last| last <= found),
                    "{place}: {found} was offered after {:?}",
                    self.last
                );
                self.last = Some(found);
            }
            nothing => panic!("{place}: {nothing:?}"),
        }
    }

    /// Checks all further offers up to now.
    fn said_nothing_else(&mut self, written: &Written) {
        while let Ok(offer) = self.said.try_recv() {
            self.take(&offer, written);
        }
    }
}
