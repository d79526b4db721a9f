//! The numbers of bindings as a scraper gets them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use topoloom_cluster::{Refusal, RefusalReason};
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::liveness::Reach;
use topoloom_sync::phase::Phase;

use super::counted::{Counted, WriteKind, Writes};
use crate::view::{Amounts, Counts, Seen};

/// The label of every series.
const BINDING: &str = "binding";

/// How the connection to the physical cluster of a binding is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    Connecting,
    Reachable,
    Suspect,
    Unreachable,
}

impl Connection {
    pub(super) const ALL: [Self; 4] = [Self::Connecting, Self::Reachable, Self::Suspect, Self::Unreachable];

    /// Nothing: there is none yet.
    pub(super) fn of(reach: Option<Reach>) -> Self {
        match reach {
            None => Self::Connecting,
            Some(Reach::Reachable) => Self::Reachable,
            Some(Reach::Suspect(_)) => Self::Suspect,
            Some(Reach::Unreachable { .. }) => Self::Unreachable,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Reachable => "reachable",
            Self::Suspect => "suspect",
            Self::Unreachable => "unreachable",
        }
    }
}

/// One binding in numbers.
pub(super) struct Numbers {
    pub(super) binding: String,
    pub(super) counted: Counted,
    pub(super) connection: Connection,
    pub(super) credential_end: Option<Timestamp>,
    /// Why requests are refused now, one for each thing that is.
    pub(super) refused: Vec<RefusalReason>,
    pub(super) seen: Seen,
}

impl Numbers {
    /// With something of everything.
    pub(super) fn example(any: &'static str) -> Self {
        let counted = Counted::default();
        for kind in WriteKind::ALL {
            counted.wrote(kind, any, &Ok(()));
            counted.not_stored(kind);
            for reason in RefusalReason::ALL {
                let refusal = Refusal { reason, message: String::new(), retry_after: None };
                counted.wrote::<()>(kind, any, &Err(refusal));
            }
        }
        let seen = Seen {
            counts: Counts::default(),
            phases: [0; Phase::ALL.len()],
            amounts: [(any.into(), Amounts::default())].into(),
            bars: Bars::default(),
            reach: Reach::Reachable,
            held: None,
            overdue: Duration::ZERO,
        };
        let credential_end = Some(Timestamp::UNIX_EPOCH);
        let connection = Connection::Reachable;
        Self { binding: any.to_owned(), counted, connection, credential_end, refused: Vec::new(), seen }
    }

    fn nodes(&self) -> [(&'static str, usize); 9] {
        let counts = self.seen.counts;
        let Counts { selected, lent, ready, outside, overcommitted, leaving, frozen, claimed, unclear, .. } = counts;
        [
            ("selected", selected),
            ("lent", lent),
            ("ready", ready),
            ("outside-windows", outside),
            ("overcommitted", overcommitted),
            ("leaving", leaving),
            ("frozen", frozen),
            ("claimed-by-others", claimed),
            ("unclear", unclear),
        ]
    }

    fn pods(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let by_phase = Phase::ALL.into_iter().zip(self.seen.phases).map(|(phase, count)| (phase.word(), count));
        by_phase.chain([("orphaned", self.seen.counts.orphans)])
    }
}

/// What a scraper can ask for its numbers.
pub(super) trait Numbered: Send + Sync {
    /// Its numbers now.
    fn numbers(&self) -> Numbers;
}

/// All bindings that there are. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Shown(Arc<Mutex<Vec<Weak<dyn Numbered>>>>);

impl Shown {
    /// Shows a binding for as long as there is one.
    pub(super) fn add(&self, binding: &Arc<dyn Numbered>) {
        let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It may be that no scraper ever asks.
        shown.retain(|binding| binding.strong_count() > 0);
        shown.push(Arc::downgrade(binding));
    }

    /// Each binding, by name. Of two lives of one the later counts.
    fn all(&self) -> Vec<Numbers> {
        let alive: Vec<Arc<dyn Numbered>> = {
            let mut shown = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            shown.retain(|binding| binding.strong_count() > 0);
            shown.iter().filter_map(Weak::upgrade).collect()
        };
        let numbers = alive.iter().map(|binding| binding.numbers());
        let by_name: BTreeMap<String, Numbers> = numbers.map(|numbers| (numbers.binding.clone(), numbers)).collect();
        by_name.into_values().collect()
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shown")
    }
}

/// A number as a series has it.
fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A gauge of each binding.
fn gauge<N: EncodeGaugeValue>(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[Numbers],
    (name, help, unit): (&str, &str, Option<&Unit>),
    value: impl Fn(&Numbers) -> Option<N>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    for numbers in all {
        let Some(value) = value(numbers) else { continue };
        ConstGauge::new(value).encode(family.encode_family(&[(BINDING, numbers.binding.as_str())])?)?;
    }
    Ok(())
}

/// A gauge of each binding that has one more label.
fn gauges<W: AsRef<str>>(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[Numbers],
    (name, help, label): (&str, &str, &str),
    values: impl Fn(&Numbers) -> Vec<(W, usize)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for numbers in all {
        for (word, value) in values(numbers) {
            let labels = [(BINDING, numbers.binding.as_str()), (label, word.as_ref())];
            ConstGauge::new(number(value)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Counters of writes of each binding.
fn writes(
    encoder: &mut DescriptorEncoder<'_>,
    all: &[Numbers],
    (name, help): (&str, &str),
    counts: impl Fn(&Counted) -> Writes,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for numbers in all {
        for ((kind, reason), count) in counts(&numbers.counted) {
            let labels = [(BINDING, numbers.binding.as_str()), ("kind", kind.word()), ("reason", reason)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.all();
        if all.is_empty() {
            return Ok(());
        }
        of_the_binding(&mut encoder, &all)?;
        of_what_is_lent(&mut encoder, &all)?;
        of_what_was_done(&mut encoder, &all)
    }
}

fn of_the_binding(encoder: &mut DescriptorEncoder<'_>, all: &[Numbers]) -> fmt::Result {
    let about = ("binding_connection", "1 for the state of the connection to the physical cluster", "state");
    gauges(encoder, all, about, |numbers| {
        Connection::ALL.map(|state| (state.word(), usize::from(state == numbers.connection))).into()
    })?;
    let about = ("binding_bars", "1 for each state of a binding in which something may not be written", "bar");
    gauges(encoder, all, about, |numbers| {
        let is_up = |bar: Bar| numbers.seen.bars.iter().any(|up| up == bar);
        Bar::ALL.map(|bar| (bar.word(), usize::from(is_up(bar)))).into()
    })?;
    let help = "1 while a batch of evictions and deletions is held until a person confirms it";
    gauge(encoder, all, ("binding_held", help, None), |numbers| Some(i64::from(numbers.seen.held.is_some())))?;
    let about = ("binding_held_acts", "Nodes and pods that the held batch would take away", "of");
    gauges(encoder, all, about, |numbers| {
        let (nodes, pods) = numbers.seen.held.unwrap_or_default();
        vec![("nodes", nodes), ("pods", pods)]
    })?;
    let help = "Kinds of requests that are refused now, until a person changes something, by the reason of the refusal";
    gauges(encoder, all, ("binding_refused", help, "reason"), |numbers| {
        let count = |reason: RefusalReason| numbers.refused.iter().filter(|refused| **refused == reason).count();
        RefusalReason::ALL.map(|reason| (reason.as_str(), count(reason))).into()
    })?;
    let help = "When the certificate or token of the kubeconfig ends, seconds since 1970, where it says so";
    gauge(encoder, all, ("binding_credential_end_timestamp", help, Some(&Unit::Seconds)), |numbers| {
        numbers.credential_end.map(Timestamp::as_second)
    })
}

fn of_what_is_lent(encoder: &mut DescriptorEncoder<'_>, all: &[Numbers]) -> fmt::Result {
    let help = "Nodes by state; a node is in several: all others but selected, claimed-by-others and unclear are among the lent";
    gauges(encoder, all, ("lent_nodes", help, "state"), |numbers| numbers.nodes().into())?;
    let help = "Virtual pods on lent nodes by phase, and physical pods without a virtual one that the guard judges";
    gauges(encoder, all, ("lent_pods", help, "phase"), |numbers| numbers.pods().collect())?;
    let help = "What lent nodes have, by resource: base of their machines, used by others there, lent, and requested by virtual \
                pods; thousandths of a core, MiB of memory and storage, and whole ones of all else";
    let mut family = encoder.encode_descriptor("lent_resources", help, None, MetricType::Gauge)?;
    for numbers in all {
        for (resource, Amounts { base, used, lent, requested }) in &numbers.seen.amounts {
            for (amount, value) in [("base", base), ("used", used), ("lent", lent), ("requested", requested)] {
                let labels = [(BINDING, numbers.binding.as_str()), ("resource", &**resource), ("amount", amount)];
                let value = i64::try_from(resource.metric(*value)).unwrap_or(i64::MAX);
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    let help =
        "For how long a boundary of time windows has been due that a node does not follow, of several the longest";
    gauge(encoder, all, ("lent_boundary_overdue", help, Some(&Unit::Seconds)), |numbers| {
        Some(numbers.seen.overdue.as_secs_f64())
    })
}

fn of_what_was_done(encoder: &mut DescriptorEncoder<'_>, all: &[Numbers]) -> fmt::Result {
    writes(encoder, all, ("lent_writes", "Writes for a binding by what was written and why"), Counted::written)?;
    let help = "Writes for a binding that were refused, or taken and not stored whole (NotStored), by what was to be written and the \
                reason of the refusal";
    writes(encoder, all, ("lent_writes_refused", help), Counted::refused)?;
    let help = "Virtual pods that were evicted or deleted from lent nodes, by cause";
    let mut family = encoder.encode_descriptor("lent_evictions", help, None, MetricType::Counter)?;
    for numbers in all {
        for (cause, count) in numbers.counted.evictions() {
            let labels = [(BINDING, numbers.binding.as_str()), ("cause", cause)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
    }
    let help = "Time from a boundary of time windows until the taint of a node follows it";
    let mut family =
        encoder.encode_descriptor("lent_boundary_lag", help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for numbers in all {
        let labels = [(BINDING, numbers.binding.as_str())];
        numbers.counted.boundaries().encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
