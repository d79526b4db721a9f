//! How much of each limit something takes.

use std::fmt;
use std::time::Duration;

use topoloom_core::plugin::{Amount, Limit, Limits, Usage};
use topoloom_core::topology::{Members, Subject, Topology};
use topoloom_sandbox::plugin::Plugin;

/// What was used of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The row of the table.
    pub limit: Limit,
    /// What was used.
    pub used: Amount,
    /// What may be.
    pub most: Amount,
}

impl Share {
    fn size(limit: Limit, used: usize, most: usize) -> Self {
        let bytes = |size: usize| Amount::Bytes(u64::try_from(size).unwrap_or(u64::MAX));
        Self { limit, used: bytes(used), most: bytes(most) }
    }

    fn count(limit: Limit, used: usize, most: usize) -> Self {
        let count = |size: usize| Amount::Count(u64::try_from(size).unwrap_or(u64::MAX));
        Self { limit, used: count(used), most: count(most) }
    }

    fn time(limit: Limit, used: Duration, most: Duration) -> Self {
        Self { limit, used: Amount::Time(used), most: Amount::Time(most) }
    }

    /// In per cent; what is used of a limit that allows nothing is a hundred per cent of it.
    #[must_use]
    pub fn percent(&self) -> f64 {
        let number = |amount: Amount| match amount {
            Amount::Time(time) => time.as_secs_f64(),
            #[allow(clippy::cast_precision_loss, reason = "a share of 2^53 bytes is no share that a person compares")]
            other => other.number() as f64,
        };
        match (number(self.used), number(self.most)) {
            (used, _) if used <= 0.0 => 0.0,
            (_, most) if most <= 0.0 => 100.0,
            (used, most) => used / most * 100.0,
        }
    }
}

/// For people: `memory 1.2Mi of 256Mi (0.5 %)`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, used, most } = *self;
        write!(f, "{} {} of {most} ({:.1} %)", limit.word(), Rounded(used), self.percent())
    }
}

/// An amount with no more digits than a person compares.
pub struct Rounded(pub Amount);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Amount::Bytes(bytes) => {
                let tenths = |unit: u64| (bytes.saturating_mul(10) / unit / 10, bytes.saturating_mul(10) / unit % 10);
                let (unit, word) = match bytes {
                    0..1024 => return write!(f, "{bytes}"),
                    1024..1_048_576 => (1 << 10, "Ki"),
                    _ => (1 << 20, "Mi"),
                };
                let (whole, tenth) = tenths(unit);
                write!(f, "{whole}.{tenth}{word}")
            }
            Amount::Time(time) if time < Duration::from_millis(1) => write!(f, "{}µs", time.as_micros()),
            Amount::Time(time) if time < Duration::from_secs(10) => {
                write!(f, "{}.{}ms", time.as_millis(), time.subsec_micros() % 1_000 / 100)
            }
            Amount::Time(time) => write!(f, "{}s", time.as_secs()),
            other => other.fmt(f),
        }
    }
}

/// What a plugin takes before any call of it.
#[must_use]
pub fn of_plugin(plugin: &Plugin) -> Vec<Share> {
    let Limits { scan, store, .. } = plugin.limits();
    let mut shares = vec![Share::size(Limit::File, plugin.bytes().len(), scan.file)];
    if let Some(needs) = plugin.needs() {
        let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        shares.extend([
            Share::size(Limit::Initial, size(needs.memory), store.memory),
            Share::count(Limit::Memories, size(needs.memories.into()), store.memories),
            Share::count(Limit::Tables, size(needs.tables.into()), store.tables),
            Share::count(Limit::TableElements, size(needs.table_elements), store.table_elements),
        ]);
    }
    shares
}

/// What one compile takes.
#[must_use]
pub fn of_compile(cpu: Duration, limits: &Limits) -> Share {
    Share::time(Limit::CompileCpu, cpu, limits.compile.cpu)
}

/// What one call of `describe` or `configure` takes.
#[must_use]
pub fn of_short_call(usage: &Usage, limits: &Limits) -> Vec<Share> {
    let Limits { store, call, .. } = limits;
    vec![
        Share::time(Limit::CpuShort, usage.cpu, call.cpu_short),
        Share::size(Limit::Memory, usage.peak_memory, store.memory),
    ]
}

/// What one round takes. Of what it sends only the sum is known, which one piece of it cannot exceed.
#[must_use]
pub fn of_round(usage: &Usage, limits: &Limits) -> Vec<Share> {
    let Limits { store, call, .. } = limits;
    vec![
        Share::time(Limit::Cpu, usage.cpu, call.cpu),
        Share::time(Limit::Wall, usage.wall, call.wall),
        Share::size(Limit::Memory, usage.peak_memory, store.memory),
        Share::size(Limit::Received, usage.received, call.received),
        Share::size(Limit::Transfer, usage.sent, call.transfer),
        Share::count(Limit::Requests, usage.requests, call.requests),
        Share::count(Limit::LogLines, usage.log_lines + usage.log_dropped, call.log_lines),
    ]
}

/// What an answer over so many nodes takes.
#[must_use]
pub fn of_answer(topology: &Topology, state: usize, nodes: usize, limits: &Limits) -> Vec<Share> {
    let members = topology.groups.iter().map(|group| match &group.members {
        Members::Rows(list) | Members::Groups(list) => list.len(),
        Members::Names(names) => names.len(),
        Members::Selector(_) => 1,
    });
    let named = topology.diagnostics.iter().map(|said| match &said.subject {
        Subject::Rows(rows) => rows.len(),
        _ => 0,
    });
    let fixed = |limit: Limit| limit.fixed().of_nodes(nodes);
    vec![
        Share::count(Limit::Groups, topology.groups.len(), fixed(Limit::Groups)),
        Share::count(Limit::Members, members.sum::<usize>().max(named.sum()), fixed(Limit::Members)),
        Share::count(Limit::Diagnostics, topology.diagnostics.len(), fixed(Limit::Diagnostics)),
        Share::size(Limit::State, state, limits.call.state),
    ]
}

/// The same limits with what was used most of each.
#[must_use]
pub fn most(shares: impl IntoIterator<Item = Share>) -> Vec<Share> {
    let mut most: Vec<Share> = Vec::new();
    for share in shares {
        match most.iter_mut().find(|known| known.limit == share.limit) {
            Some(known) if known.used < share.used => *known = share,
            Some(_) => {}
            None => most.push(share),
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_in_per_cent_of_what_is_allowed() {
        let usage = Usage {
            cpu: Duration::from_millis(50),
            peak_memory: 128 << 20,
            requests: 10,
            log_lines: 200,
            log_dropped: 100,
            ..Usage::default()
        };
        let shares = of_round(&usage, &Limits::default());
        let percent = |limit| shares.iter().find(|share| share.limit == limit).unwrap().percent();
        assert!((percent(Limit::Cpu) - 1.0).abs() < 1e-9, "{shares:?}");
        assert!((percent(Limit::Memory) - 50.0).abs() < 1e-9, "{shares:?}");
        assert!((percent(Limit::Requests) - 1.0).abs() < 1e-9, "{shares:?}");
        // What was not written counts, too.
        assert!((percent(Limit::LogLines) - 150.0).abs() < 1e-9, "{shares:?}");
        assert!(percent(Limit::Received).abs() < 1e-9, "{shares:?}");
        assert!((Share::count(Limit::Requests, 1, 0).percent() - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_share_prints_what_a_person_compares() {
        let shown = |amount| Rounded(amount).to_string();
        assert_eq!(shown(Amount::Bytes(1023)), "1023");
        assert_eq!(shown(Amount::Bytes(1536)), "1.5Ki");
        assert_eq!(shown(Amount::Bytes(300 << 20)), "300.0Mi");
        assert_eq!(shown(Amount::Time(Duration::from_micros(612))), "612µs");
        assert_eq!(shown(Amount::Time(Duration::from_micros(43_760))), "43.7ms");
        assert_eq!(shown(Amount::Time(Duration::from_secs(12))), "12s");
        let share = Share::size(Limit::Memory, 1 << 20, 256 << 20);
        assert_eq!(share.to_string(), "memory 1.0Mi of 256Mi (0.4 %)");
    }

    #[test]
    fn of_several_rounds_the_largest_share_counts() {
        let share = |used| Share::count(Limit::Requests, used, 10);
        let time = Share::time(Limit::Cpu, Duration::ZERO, Duration::from_secs(5));
        assert_eq!(most([share(1), time, share(7), share(3)]), [share(7), time]);
    }
}
