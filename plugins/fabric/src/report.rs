//! Findings for operators: wrong cables, dead links, switches that serve several units, names that match no Node. This
//! module writes sentences; it decides no place.
//!
//! Every kind of report has its own code. Hosts are reported one by one up to a limit, the rest together; the order is
//! that of their names.

mod absent;
mod hosts;
mod links;
mod nothing;
mod tiers;

use topoloom_sdk::{Subject, TopologyBuilder};

use crate::answer::Written;
use crate::graph::{NONE, at};
use crate::place::Round;
use crate::tree::Child;
use crate::wiring::Wiring;

/// Findings of one code. All codes together stay far below the 10 000 diagnostics that the host accepts.
const MOST: usize = 1000;
/// The host cuts a text after so many bytes. Cut here, its end shows that something is missing.
const MAX_DETAIL: usize = 1024;

/// Writes all reports.
pub(crate) fn write(round: &Round<'_>, written: &Written, topology: &mut TopologyBuilder) {
    let units = Units::new(round);
    links::miscabled(round, &units, topology);
    links::shared(round, &units, topology);
    links::dead(round, &units, topology);
    hosts::kept(round, written, topology);
    tiers::lost(round, written, topology);
    tiers::uplinks(round, written, topology);
    tiers::split(round, written, topology);
    hosts::dropped(round, topology);
    hosts::unmatched(round, topology);
    nothing::left(round, topology);
    skipped(round.wiring, topology);
    for note in &round.settings.notes {
        topology.diagnose(note.code, Subject::Source, cut(note.text.clone()));
    }
}

/// Reports records that the discoverer left out.
pub(crate) fn skipped(wiring: &Wiring, topology: &mut TopologyBuilder) {
    for skipped in &wiring.skipped {
        let example =
            if skipped.example.is_empty() { String::new() } else { format!(", for instance {}", skipped.example) };
        let detail = cut(format!("{} {}{example}", skipped.count, skipped.meaning));
        topology.diagnose(&skipped.code, Subject::Source, detail);
    }
}

/// The groups of the first level: reports call them units.
struct Units<'a> {
    /// By bundle: position of its group, or [`NONE`] where it has none.
    group_of_bundle: Vec<u32>,
    round: &'a Round<'a>,
}

impl<'a> Units<'a> {
    fn new(round: &'a Round<'a>) -> Self {
        let mut units = Self { group_of_bundle: Vec::new(), round };
        if let Some(floor) = round.floors.first() {
            units.group_of_bundle = vec![NONE; floor.level.bundles.switches.len()];
            for (number, group) in (0..).zip(&floor.level.groups) {
                crate::graph::set(&mut units.group_of_bundle, group.bundle, number);
            }
        }
        units
    }

    /// The group whose switches include this one.
    fn of_switch(&self, switch: u32) -> Option<u32> {
        let bundle = self
            .round
            .floors
            .first()
            .map_or(NONE, |floor| floor.level.bundles.of.get(switch as usize).copied().unwrap_or(NONE));
        self.group_of_bundle.get(bundle as usize).copied().filter(|&group| group != NONE)
    }

    /// The group that a host is in.
    fn of_host(&self, host: u32) -> Option<u32> {
        let floor = self.round.floors.first()?;
        floor.level.group_of.get(host as usize).copied().filter(|&group| group != NONE)
    }

    fn id(&self, group: u32) -> &str {
        crate::tree::group_of(&self.round.floors, Child { floor: 0, index: group }).map_or("", |(_, group)| &group.id)
    }
}

/// Reports of one code: the first ones as they are, the rest as one.
struct Reports<'a> {
    code: &'a str,
    count: usize,
    rows: Vec<u32>,
}

impl<'a> Reports<'a> {
    fn new(code: &'a str) -> Self {
        Self { code, count: 0, rows: Vec::new() }
    }

    fn is_full(&self) -> bool {
        self.count >= MOST
    }

    /// Adds a report about a host: under its Node, or under its own name where it matches none.
    fn host(&mut self, round: &Round<'_>, host: u32, detail: impl FnOnce() -> String, topology: &mut TopologyBuilder) {
        let row = at(&round.hosts.rows, host);
        let name = round.hosts.hosts.get(host as usize).map(|host| host.key.clone()).unwrap_or_default();
        if row == NONE {
            self.add(Subject::Name(name), detail, topology);
        } else {
            self.add(Subject::Rows(vec![row]), detail, topology);
        }
    }

    fn add(&mut self, subject: Subject, detail: impl FnOnce() -> String, topology: &mut TopologyBuilder) {
        if self.is_full() {
            if let Subject::Rows(rows) = subject {
                self.rows.extend(rows);
            }
        } else {
            topology.diagnose(self.code, subject, cut(detail()));
        }
        self.count += 1;
    }

    /// Sums up the reports beyond the limit.
    fn finish(mut self, topology: &mut TopologyBuilder) {
        if self.count > MOST {
            self.rows.sort_unstable();
            self.rows.dedup();
            let subject = if self.rows.is_empty() { Subject::Source } else { Subject::Rows(self.rows) };
            topology.diagnose(
                self.code,
                subject,
                format!("and {} more like these, {} in all", self.count - MOST, self.count),
            );
        }
    }
}

/// A switch by its readable name, or by its identity.
fn switch_name<'a>(round: &'a Round<'a>, switch: u32) -> &'a str {
    let identity = || round.switches.identities.get(switch as usize).copied().unwrap_or_default();
    round.names.get(switch as usize).copied().filter(|name| !name.is_empty()).unwrap_or_else(identity)
}

fn host_name<'a>(round: &'a Round<'a>, host: u32) -> &'a str {
    round.hosts.hosts.get(host as usize).map(|host| host.key.as_str()).unwrap_or_default()
}

/// Some words of a list, and how many are missing.
fn list<S: AsRef<str>>(words: &[S], most: usize) -> String {
    let shown: Vec<&str> = words.iter().take(most).map(AsRef::as_ref).collect();
    let rest = words.len().saturating_sub(most);
    let rest = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    format!("{}{rest}", shown.join(", "))
}

fn plural(count: u64, one: &str) -> String {
    if count == 1 { format!("{count} {one}") } else { format!("{count} {one}s") }
}

fn cut(mut text: String) -> String {
    if text.len() > MAX_DETAIL {
        text.truncate(text.floor_char_boundary(MAX_DETAIL - '…'.len_utf8()));
        text.push('…');
    }
    text
}
