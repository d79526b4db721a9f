//! From labels to an answer, domains identified by their path.
//!
//! Per type: read the levels, work out the domains from the outermost level inward, then write the groups from the
//! innermost outward. A domain exists when a node is placed in it or in something below it.

use std::collections::HashMap;

use crate::classes::{self, Classes};
use crate::config::{Config, DIFFERS, Level, Note, Scope, Type, is_label_value};
use crate::domains::{self, AMBIGUOUS, Domains, MISSING};
use crate::identity;
use topoloom_sdk::nodes::{Row, rows_by_code};
use topoloom_sdk::{Column, GroupBuilder, GroupRef, LevelRef, Subject, Topology, TopologyBuilder};

/// One round. `read` gives the column of a label key.
pub fn discover(config: &Config, rows: u32, mut read: impl FnMut(&str) -> Column) -> Topology {
    let mut answer = TopologyBuilder::new();
    let profiles = profiles(config, rows, &mut read);
    let mut tier_names: HashMap<&str, u32> = HashMap::new();
    for (index, kind) in config.types.iter().enumerate() {
        if kind.levels.is_empty() {
            continue;
        }
        let mut values: Vec<Classes> =
            kind.levels.iter().map(|level| classes::read(config, level, &mut read)).collect();
        for (level, _) in kind.levels.iter().zip(&values).filter(|(_, values)| values.is_absent()) {
            report_absent(&kind.name, level.key(), &mut answer);
        }
        if let Some(profiles) = &profiles {
            let own: Vec<bool> = profiles.iter().map(|&profile| profile == index).collect();
            let none: Vec<bool> = profiles.iter().map(|&profile| profile == usize::MAX).collect();
            let has_profile = config.profiles.iter().any(|profile| profile.kind == index);
            values.iter_mut().for_each(|values| values.keep(if has_profile { &own } else { &none }));
        }
        let tree = Tree { config, kind, values: &values, levels: levels(kind, &values) };
        tree.report(&mut answer);
        tree.write(&mut tier_names, &mut answer);
    }
    // After the findings: a status shows one example per code, and findings about nodes matter more.
    report_notes(&config.notes, &mut answer);
    answer.finish()
}

/// Reports a label that no node has; the host adds the most similar label that exists.
pub(crate) fn report_absent(kind: &str, key: &str, answer: &mut TopologyBuilder) {
    let detail = format!("type {kind:?}: no Node has this label");
    answer.diagnose("no-such-label", Subject::Name(key.to_owned()), detail);
}

/// Reports the notes of the configuration in every round, so that the status shows them.
pub(crate) fn report_notes(notes: &[Note], answer: &mut TopologyBuilder) {
    for note in notes {
        answer.diagnose(note.code, Subject::Source, note.text.clone());
    }
}

/// The type that the first matching profile gives each node; `usize::MAX`: none matches. None: there are no profiles.
fn profiles(config: &Config, rows: u32, read: &mut impl FnMut(&str) -> Column) -> Option<Vec<usize>> {
    if config.profiles.is_empty() {
        return None;
    }
    let mut kinds = vec![usize::MAX; rows as usize];
    for profile in &config.profiles {
        let columns: Vec<(Column, &str)> =
            profile.selector.iter().map(|(key, value)| (read(key), value.as_str())).collect();
        for (row, kind) in (0..).zip(&mut kinds) {
            if *kind == usize::MAX && columns.iter().all(|(column, value)| column.value(row) == Some(value)) {
                *kind = profile.kind;
            }
        }
    }
    Some(kinds)
}

/// The domains of each level, innermost first.
fn levels(kind: &Type, values: &[Classes]) -> Vec<Domains> {
    // Outermost first while they are worked out: each needs the one before.
    let mut levels: Vec<Domains> = Vec::with_capacity(values.len());
    for (level, classes) in kind.levels.iter().zip(values).rev() {
        let next = match (levels.last(), values.get(values.len() - levels.len())) {
            (Some(outer), Some(outer_classes)) => match level.scope {
                Scope::Path => domains::by_path(classes, outer, outer_classes),
                Scope::Global => {
                    let done = values.len() - levels.len();
                    let around: Vec<&Domains> = levels.iter().rev().collect();
                    let chain = Chain {
                        levels: kind.levels.get(done..).unwrap_or_default(),
                        values: values.get(done..).unwrap_or_default(),
                        domains: &around,
                    };
                    domains::globally(classes, outer, |domain| path("", chain, domain, 0))
                }
            },
            _ => domains::outermost(classes),
        };
        levels.push(next);
    }
    levels.reverse();
    levels
}

/// The path of a domain at the first of these levels (innermost first) behind a prefix; `inner` is the length of what
/// the caller adds. There are thousands of paths: each is one allocation of exactly its size.
fn path(prefix: &str, chain: Chain<'_>, domain: u32, inner: usize) -> String {
    let (Some(level), Some(values), Some(domains)) =
        (chain.levels.first(), chain.values.first(), chain.domains.first())
    else {
        return String::with_capacity(prefix.len() + inner) + prefix;
    };
    let text = values.text(domains.class(domain));
    let is_global = level.scope == Scope::Global;
    let outer = if is_global { MISSING } else { domains.parent(domain) };
    let length = text.len() + usize::from(is_global) + usize::from(outer != MISSING) + inner;
    let mut path = if outer == MISSING {
        String::with_capacity(prefix.len() + length) + prefix
    } else {
        path(prefix, chain.from(1), outer, length) + "/"
    };
    if is_global {
        path.push('=');
    }
    identity::push(&mut path, text);
    path
}

/// A level and all levels around it, innermost first.
#[derive(Clone, Copy)]
struct Chain<'a> {
    levels: &'a [Level],
    values: &'a [Classes],
    domains: &'a [&'a Domains],
}

impl<'a> Chain<'a> {
    fn from(self, index: usize) -> Self {
        Self {
            levels: self.levels.get(index..).unwrap_or_default(),
            values: self.values.get(index..).unwrap_or_default(),
            domains: self.domains.get(index..).unwrap_or_default(),
        }
    }
}

/// The result for one type. All lists are innermost first.
struct Tree<'a, 'v> {
    config: &'a Config,
    kind: &'a Type,
    values: &'v [Classes],
    levels: Vec<Domains>,
}

impl<'a> Tree<'a, '_> {
    /// Reports findings for operators: nodes without a place, values that split or repeat.
    fn report(&self, answer: &mut TopologyBuilder) {
        let kind = &self.kind.name;
        for ((level, values), domains) in self.kind.levels.iter().zip(self.values).zip(&self.levels) {
            let key = level.key();
            if !values.ignored.is_empty() {
                let count = values.ignored.len();
                let detail = format!(
                    "type {kind:?}: {count} nodes have a value of {key:?} that counts as missing; Volcano would use it"
                );
                answer.diagnose(DIFFERS, Subject::Rows(values.ignored.clone()), detail);
            }
            if let Some((value, count)) = &domains.repeated {
                let detail = format!(
                    "type {kind:?}: {count} values of {key:?}, {value:?} among them, are under more than one outer \
                     domain and are separate domains; Volcano would give each two parents"
                );
                answer.diagnose(DIFFERS, Subject::Source, detail);
            }
            if !domains.minority.is_empty() {
                let detail = format!(
                    "type {kind:?}: most nodes with the same {key:?} are under another outer domain than these nodes, which are placed there too"
                );
                answer.diagnose("minority", Subject::Rows(domains.minority.clone()), detail);
            }
        }
        self.report_unplaced(answer);
    }

    fn report_unplaced(&self, answer: &mut TopologyBuilder) {
        let (Some(level), Some(innermost), Some((values, outer))) =
            (self.kind.levels.first(), self.levels.first(), self.values.split_first())
        else {
            return;
        };
        let (kind, key) = (&self.kind.name, level.key());
        let rows =
            |wanted: u32| (0..).zip(&innermost.of_row).filter(move |(_, found)| **found == wanted).map(|(row, _)| row);
        let ambiguous: Vec<Row> = rows(AMBIGUOUS).collect();
        if !ambiguous.is_empty() {
            let detail = format!(
                "type {kind:?}: these nodes lack an outer label, and their {key:?} is under several outer domains: not placed"
            );
            answer.diagnose("ambiguous-path", Subject::Rows(ambiguous), detail);
        }
        let partial: Vec<Row> = rows(MISSING)
            .filter(|&row| values.of(row) == 0 && outer.iter().any(|values| values.of(row) != 0))
            .collect();
        if !partial.is_empty() {
            let detail = format!("type {kind:?}: these nodes have an outer label but no {key:?}: not placed");
            answer.diagnose("missing-label", Subject::Rows(partial), detail);
        }
    }

    /// Writes levels and groups, innermost first.
    fn write(&self, tier_names: &mut HashMap<&'a str, u32>, answer: &mut TopologyBuilder) {
        let kind = identity::kind(&self.kind.name);
        let mut tier = 0;
        let mut below: Option<Written> = None;
        for (index, (level, domains)) in self.kind.levels.iter().zip(&self.levels).enumerate() {
            let members = self.members(index, domains, below);
            if members.is_useless() {
                if self.config.collapse {
                    below = Some(Written::Collapsed(members));
                    continue;
                }
                let detail = format!(
                    "type {:?}: every domain of {:?} has one member: the level adds no information",
                    self.kind.name,
                    level.key()
                );
                answer.diagnose("useless-level", Subject::Source, detail);
            }
            tier += 1;
            let name = match *tier_names.entry(level.name.as_str()).or_insert(tier) {
                known if known == tier => Some(level.name.clone()),
                known => {
                    let detail = format!(
                        "type {:?}: {:?} is tier {known} already, so tier {tier} stays without a name",
                        self.kind.name, level.name
                    );
                    answer.diagnose("tier-name-taken", Subject::Source, detail);
                    None
                }
            };
            let level_ref = answer.level(topoloom_sdk::Level { tier, tier_name: name, kind: kind.clone() });
            below = Some(self.groups(index, level_ref, members, answer));
        }
    }

    /// The members of each domain of a level: nodes, or the groups written one level further in.
    fn members(&self, index: usize, domains: &Domains, below: Option<Written>) -> Members {
        let inner = index.checked_sub(1).and_then(|inner| self.levels.get(inner));
        match (below, inner) {
            (Some(Written::Groups(groups)), Some(inner)) => {
                let groups = groups.into_iter().map(|group| group.into_iter().collect()).collect();
                Members::Groups(gather(groups, inner, domains.len()))
            }
            (Some(Written::Collapsed(Members::Groups(groups))), Some(inner)) => {
                Members::Groups(gather(groups, inner, domains.len()))
            }
            (Some(Written::Collapsed(Members::Rows(rows))), Some(inner)) => {
                Members::Rows(gather(rows, inner, domains.len()))
            }
            _ => Members::Rows(rows_by_code(&domains.of_row, domains.len())),
        }
    }

    /// Writes the groups of a level; a domain without members gets none.
    fn groups(&self, index: usize, level: LevelRef, members: Members, answer: &mut TopologyBuilder) -> Written {
        let all: Vec<&Domains> = self.levels.iter().collect();
        let chain = Chain { levels: &self.kind.levels, values: self.values, domains: &all };
        let writer = Writer { prefix: self.prefix(index), chain: chain.from(index), level };
        answer.reserve(members.len());
        Written::Groups(match members {
            Members::Rows(lists) => (1..)
                .zip(lists)
                .map(|(domain, rows)| (!rows.is_empty()).then(|| writer.group(domain, answer).rows(rows)))
                .collect(),
            Members::Groups(lists) => (1..)
                .zip(lists)
                .map(|(domain, groups)| (!groups.is_empty()).then(|| writer.group(domain, answer).groups(groups)))
                .collect(),
        })
    }

    /// The prefix of the identities of a level. Levels are counted from inside, and collapsed ones count too: so neither a
    /// new outer level nor `collapse` changes an identity.
    fn prefix(&self, index: usize) -> String {
        let mut prefix = String::new();
        identity::push(&mut prefix, &self.kind.name);
        prefix + &format!("/{}/", index + 1)
    }
}

/// The members of the domains of one level, by domain.
enum Members {
    Rows(Vec<Vec<Row>>),
    Groups(Vec<Vec<GroupRef>>),
}

impl Members {
    /// How many domains the level has.
    fn len(&self) -> usize {
        match self {
            Self::Rows(lists) => lists.len(),
            Self::Groups(lists) => lists.len(),
        }
    }

    /// Whether every domain has one member, so that the level adds no information.
    fn is_useless(&self) -> bool {
        fn all_single<T>(lists: &[Vec<T>]) -> bool {
            lists.iter().filter(|list| !list.is_empty()).count() > 1 && lists.iter().all(|list| list.len() < 2)
        }
        match self {
            Self::Rows(lists) => all_single(lists),
            Self::Groups(lists) => all_single(lists),
        }
    }
}

/// The result of writing a level, by domain.
enum Written {
    Groups(Vec<Option<GroupRef>>),
    /// Left out: its members go to the domain one level further out.
    Collapsed(Members),
}

/// Moves the members of inner domains to the domains around them. Those of roots stay out.
fn gather<T>(inner: Vec<Vec<T>>, domains: &Domains, outer: usize) -> Vec<Vec<T>> {
    let mut lists: Vec<Vec<T>> = std::iter::repeat_with(Vec::new).take(outer).collect();
    for (mut members, &parent) in inner.into_iter().zip(&domains.parents) {
        if let Some(list) = (parent as usize).checked_sub(1).and_then(|parent| lists.get_mut(parent)) {
            list.append(&mut members);
        }
    }
    lists
}

/// Begins the groups of one level.
struct Writer<'a> {
    prefix: String,
    chain: Chain<'a>,
    level: LevelRef,
}

impl Writer<'_> {
    fn group<'b>(&self, domain: u32, answer: &'b mut TopologyBuilder) -> GroupBuilder<'b> {
        let id = path(&self.prefix, self.chain, domain, 0);
        let group = answer.group(self.level, identity::bounded(id));
        let Chain { levels: [level, ..], values: [values, ..], domains: [domains, ..] } = self.chain else {
            return group;
        };
        let value = values.text(domains.class(domain));
        // The part that `extract` takes may end in a hyphen, which no label value does.
        if level.extract.is_some() && !is_label_value(value) { group } else { group.label(level.key(), value) }
    }
}

#[cfg(test)]
mod tests;
