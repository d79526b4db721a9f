//! The controllers while they run, and their end: its cause, the order of stopping, and how long it may take.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use topoloom_core::election::Lost;

use super::Error;
use super::controller::{Configuration, Lifetimes, Run};
use super::election::{Election, LeaseGroup, LossEnds};
use super::options::{Election as Elects, Options};
use super::tasks::Tasks;

/// A controller that was initialised.
pub(super) struct Ready {
    pub(super) name: &'static str,
    pub(super) group: Option<LeaseGroup>,
    pub(super) lifetimes: Lifetimes,
    pub(super) configuration: Configuration,
    pub(super) run: Run,
}

/// The controllers that run, in the order of their names.
pub(super) struct RunningControllers {
    controllers: BTreeMap<&'static str, RunningController>,
}

struct RunningController {
    group: Option<LeaseGroup>,
    lifetimes: Lifetimes,
    stop: CancellationToken,
    tasks: Tasks,
}

impl RunningController {
    /// Whether no lease of its own bounds what it writes.
    fn is_unelected(&self) -> bool {
        match self.lifetimes {
            Lifetimes::Fixed => self.group.is_none(),
            // Each of its groups has a lease.
            Lifetimes::ComeAndGo => false,
        }
    }
}

type BoxedLoss<'a> = Pin<Box<dyn Future<Output = (&'static str, Lost)> + Send + 'a>>;

impl RunningControllers {
    pub(super) fn start(ready: Vec<Ready>) -> Self {
        let controllers = ready.into_iter().map(|Ready { name, group, lifetimes, run, .. }| {
            let (stop, mut tasks) = (CancellationToken::new(), Tasks::default());
            tasks.spawn_fallible(name, run(stop.clone()));
            (name, RunningController { group, lifetimes, stop, tasks })
        });
        Self { controllers: controllers.collect() }
    }

    /// Runs until something ends it, then stops everything.
    pub(super) async fn until(
        mut self,
        stop: &CancellationToken,
        elections: &[Election],
        served: &mut Tasks,
        options: &Options,
    ) -> Result<(), Error> {
        let lost = futures::future::select_all(
            elections
                .iter()
                .filter(|election| election.group().ends() == LossEnds::Process)
                .map(|election| Box::pin(async { (election.group().as_str(), election.lost().await) }) as BoxedLoss<'_>)
                .chain([Box::pin(std::future::pending()) as BoxedLoss<'_>]),
        );
        let (ended, drain) = tokio::select! {
            biased;
            // First, since controllers end by themselves when they are asked to stop.
            () = stop.cancelled() => (Ok(()), options.drain),
            ((group, why), ..) = lost => {
                // Others may hold the lease after its duration: until then what is under way may finish.
                let drain = match &options.election {
                    // A controller without a lease finishes within the drain timeout; the others' writes stop by
                    // themselves.
                    Elects::On(_) if self.has_unelected() => options.drain,
                    Elects::On(lease) => lease.duration - lease.renew_deadline,
                    Elects::Off => options.drain,
                };
                (Err(Error::LeaseLost { group, why: why.to_string() }), drain.min(options.drain))
            }
            (name, why) = self.next() => (Err(Error::Controller { name, why }), options.drain),
            ended = served.next() => (Err(Error::Task(ended.to_string())), options.drain),
        };
        self.stop(drain).await;
        ended
    }

    fn has_unelected(&self) -> bool {
        self.controllers.values().any(RunningController::is_unelected)
    }

    /// The next controller that ends, and what it left.
    async fn next(&mut self) -> (&'static str, String) {
        let all = self.controllers.iter_mut().map(|(name, controller)| {
            let name = *name;
            Box::pin(async move {
                let how = controller.tasks.next().await.how;
                (name, how.err().map_or_else(|| "it ended without an error".to_owned(), |failure| failure.to_string()))
            }) as Pin<Box<dyn Future<Output = (&'static str, String)> + Send + '_>>
        });
        let all: Vec<_> = all.collect();
        if all.is_empty() {
            return std::future::pending().await;
        }
        futures::future::select_all(all).await.0
    }

    /// Stops them one after the other, the last one first, and cuts off what is not done within `drain`.
    ///
    /// Each may take its share of the time that is left. One that takes longer continues beside the next ones, so that
    /// it never delays the stop of another.
    async fn stop(&mut self, drain: Duration) {
        let begun = Instant::now();
        let left = || drain.saturating_sub(begun.elapsed());
        let mut to_stop = u32::try_from(self.controllers.len()).unwrap_or(u32::MAX);
        for (name, RunningController { group, stop, tasks, .. }) in self.controllers.iter_mut().rev() {
            stop.cancel();
            let share = left() / to_stop;
            if timeout(share, tasks.finish()).await.is_ok() {
                tracing::debug!(controller = name, group = group.map(LeaseGroup::as_str), "stopped");
            } else if to_stop > 1 {
                tracing::warn!(
                    controller = name,
                    ?share,
                    "a controller takes longer to stop; the others stop \
                    meanwhile"
                );
            }
            to_stop -= 1;
        }
        let rest = async {
            for controller in self.controllers.values_mut() {
                controller.tasks.finish().await;
            }
        };
        if timeout(left(), rest).await.is_err() {
            tracing::warn!(?drain, "work was cut off at the end of the drain timeout; what was written is valid");
        }
        for controller in self.controllers.values_mut() {
            controller.tasks.cut_off().await;
        }
    }
}

#[cfg(test)]
mod tests;
