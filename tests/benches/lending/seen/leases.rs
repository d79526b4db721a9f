//! Leases of nodes: how far apart each was renewed, by the times in them, and how many in each second.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher::Event;
use tokio::time::Instant;

/// The leases whose names begin with a prefix.
pub(crate) struct Leases {
    prefix: &'static str,
    leases: HashMap<String, LeaseSeen>,
    /// Renewals since [`Self::begin`], by second.
    seconds: BTreeMap<i64, u32>,
}

struct LeaseSeen {
    born: Instant,
    last: Timestamp,
    /// The first renewal since [`Leases::begin`], and what follows.
    first: Option<Timestamp>,
    shortest: Duration,
    longest: Duration,
    renewals: u32,
}

/// The renewals of all leases since the beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rhythm {
    /// The shortest and the longest time between two renewals of one lease.
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
    /// The renewals in the busiest second, and in a second on average.
    pub(crate) busiest: f64,
    pub(crate) mean: f64,
}

impl Leases {
    pub(crate) fn of(prefix: &'static str) -> Self {
        Self { prefix, leases: HashMap::new(), seconds: BTreeMap::new() }
    }

    pub(crate) fn see(&mut self, event: Event<Lease>) {
        match event {
            Event::Apply(lease) | Event::InitApply(lease) => self.shows(&lease),
            Event::Delete(lease) => drop(lease.metadata.name.and_then(|name| self.leases.remove(&name))),
            Event::Init | Event::InitDone => {}
        }
    }

    fn shows(&mut self, lease: &Lease) {
        let Some(name) = lease.metadata.name.as_ref().filter(|name| name.starts_with(self.prefix)) else { return };
        let Some(time) = lease.spec.as_ref().and_then(|spec| Some(spec.renew_time.as_ref()?.0)) else { return };
        let Some(seen) = self.leases.get_mut(name) else {
            let born = Instant::now();
            let (first, shortest, longest) = (None, Duration::MAX, Duration::ZERO);
            self.leases.insert(name.clone(), LeaseSeen { born, last: time, first, shortest, longest, renewals: 0 });
            return;
        };
        if time <= seen.last {
            return;
        }
        let gap = time.duration_since(seen.last).unsigned_abs();
        seen.last = time;
        seen.first.get_or_insert(time);
        seen.shortest = seen.shortest.min(gap);
        seen.longest = seen.longest.max(gap);
        seen.renewals += 1;
        *self.seconds.entry(time.as_second()).or_default() += 1;
    }

    /// Counts from now on.
    pub(crate) fn begin(&mut self) {
        self.seconds.clear();
        for lease in self.leases.values_mut() {
            (lease.first, lease.renewals) = (None, 0);
            (lease.shortest, lease.longest) = (Duration::MAX, Duration::ZERO);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    /// When the last of them was made.
    pub(crate) fn youngest(&self) -> Option<Instant> {
        self.leases.values().map(|lease| lease.born).max()
    }

    /// When the last of them was renewed for the first time since the beginning; nothing while one of them was not.
    pub(crate) fn all_renewed(&self) -> Option<Timestamp> {
        let firsts: Option<Vec<Timestamp>> = self.leases.values().map(|lease| lease.first).collect();
        firsts?.into_iter().max()
    }

    /// How many were renewed after a time.
    pub(crate) fn renewed_after(&self, time: Timestamp) -> usize {
        self.leases.values().filter(|lease| lease.last > time).count()
    }

    /// The longest time that a lease was not renewed: between two renewals, or until now.
    pub(crate) fn oldest(&self, now: Timestamp) -> Duration {
        let ages = self.leases.values().map(|lease| lease.longest.max(age(lease.last, now)));
        ages.max().unwrap_or_default()
    }

    /// The renewals since the beginning. The first and the last second are parts of seconds, and do not count.
    pub(crate) fn rhythm(&self) -> Rhythm {
        let renewed = || self.leases.values().filter(|lease| lease.renewals > 0);
        let whole: Vec<u32> =
            self.seconds.values().copied().skip(1).take(self.seconds.len().saturating_sub(2)).collect();
        let all: u32 = whole.iter().sum();
        Rhythm {
            shortest: renewed().map(|lease| lease.shortest).min().unwrap_or_default(),
            longest: self.leases.values().map(|lease| lease.longest).max().unwrap_or_default(),
            busiest: whole.iter().copied().max().unwrap_or_default().into(),
            mean: f64::from(all) / whole.len().max(1) as f64,
        }
    }
}

fn age(last: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(last)).unwrap_or_default()
}
