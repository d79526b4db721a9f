//! Leases of nodes: how far apart each was renewed, by the times in them and by when the watch showed them, and how many in each second.
//!
//! The time in a lease is what its program wrote before it sent the request. The time of an event is later: the request, the API server,
//! the watch and this process, which has the same machine, come in between. So a delay of the bench itself is in the second and not in
//! the first, and a time that a program only claims is in the first and not in the second.

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
    /// Between two renewals since then, by the times in them and by their events.
    times: Gaps,
    arrivals: Gaps,
}

struct LeaseSeen {
    born: Instant,
    last: Timestamp,
    /// When an event showed that.
    arrived: Instant,
    /// The first renewal since [`Leases::begin`], and what follows.
    first: Option<Timestamp>,
    shortest: Duration,
    longest: Duration,
    renewals: u32,
}

/// How far two renewals of one lease are apart, of all leases: how often it was so many milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gaps(BTreeMap<u64, u64>);

impl Gaps {
    fn note(&mut self, gap: Duration) {
        let millis = u64::try_from(gap.as_millis()).unwrap_or(u64::MAX);
        *self.0.entry(millis).or_default() += 1;
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// The time that `percent` percent of them do not exceed: with 0 the shortest, with 100 the longest.
    pub(crate) fn percentile(&self, percent: u64) -> Duration {
        let at = (self.count() * percent).div_ceil(100).max(1);
        let mut before = 0_u64;
        let reaches = |count: &u64| {
            before += *count;
            before >= at
        };
        let place = self.0.values().position(reaches).unwrap_or_default();
        Duration::from_millis(self.0.keys().nth(place).copied().unwrap_or_default())
    }

    /// How many were shorter or longer.
    pub(crate) fn outside(&self, [least, most]: [Duration; 2]) -> u64 {
        let is_outside = |millis: u64| Duration::from_millis(millis) < least || Duration::from_millis(millis) > most;
        self.0.iter().filter(|(millis, _)| is_outside(**millis)).map(|(_, count)| count).sum()
    }
}

/// The renewals of all leases since the beginning.
#[derive(Debug, Clone)]
pub(crate) struct Rhythm {
    /// The shortest and the longest time between two renewals of one lease, by the times in them.
    pub(crate) shortest: Duration,
    pub(crate) longest: Duration,
    /// All of these times, and the same by the events.
    pub(crate) times: Gaps,
    pub(crate) arrivals: Gaps,
    /// The renewals in the busiest second, and in a second on average.
    pub(crate) busiest: f64,
    pub(crate) mean: f64,
}

impl Leases {
    pub(crate) fn of(prefix: &'static str) -> Self {
        let (leases, seconds) = (HashMap::new(), BTreeMap::new());
        Self { prefix, leases, seconds, times: Gaps::default(), arrivals: Gaps::default() }
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
        let arrived = Instant::now();
        let Some(seen) = self.leases.get_mut(name) else {
            let (first, shortest, longest) = (None, Duration::MAX, Duration::ZERO);
            let seen = LeaseSeen { born: arrived, last: time, arrived, first, shortest, longest, renewals: 0 };
            self.leases.insert(name.clone(), seen);
            return;
        };
        if time <= seen.last {
            return;
        }
        let gap = time.duration_since(seen.last).unsigned_abs();
        self.times.note(gap);
        self.arrivals.note(arrived.saturating_duration_since(seen.arrived));
        (seen.last, seen.arrived) = (time, arrived);
        seen.first.get_or_insert(time);
        seen.shortest = seen.shortest.min(gap);
        seen.longest = seen.longest.max(gap);
        seen.renewals += 1;
        *self.seconds.entry(time.as_second()).or_default() += 1;
    }

    /// Counts from now on.
    pub(crate) fn begin(&mut self) {
        self.seconds.clear();
        (self.times, self.arrivals) = (Gaps::default(), Gaps::default());
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
            times: self.times.clone(),
            arrivals: self.arrivals.clone(),
            mean: f64::from(all) / whole.len().max(1) as f64,
        }
    }
}

fn age(last: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(last)).unwrap_or_default()
}
