//! Volcano's result, object by object: a domain is a label key and a value, under any outer domain.
//!
//! The rules are those of `compat: volcano`: the last entry of a list never counts, an empty value does, and a node is
//! placed level by level until a label is missing. Volcano leaves two cases to chance, or to a result that breaks the
//! scheduler. Here a domain under two outer domains is placed where most of its nodes are, and a label that two types use
//! at different levels keeps the level of the first type. Both are reported.

use std::collections::{BTreeSet, HashMap};

use crate::config::{Config, Type};
use crate::domains::majority;
use crate::{identity, logic};
use topoloom_sdk::nodes::{Row, rows_by_code};
use topoloom_sdk::{Column, GroupRef, Subject, Topology, TopologyBuilder};

/// One round. `read` gives the column of a label key.
pub(crate) fn discover(config: &Config, mut read: impl FnMut(&str) -> Column) -> Topology {
    let mut answer = TopologyBuilder::new();
    logic::report_notes(&config.notes, &mut answer);
    let keys = keys(config, &mut read, &mut answer);
    let mut forest = Forest::new(&keys);
    for kind in &config.types {
        forest.climb(kind, &keys);
    }
    forest.settle(&keys, &mut answer);
    forest.write(&keys, &mut answer);
    answer.finish()
}

/// A label key that some type uses, with the tier that it has from the first of them.
struct Key<'a> {
    name: &'a str,
    tier: u32,
    kind: &'a str,
    column: Column,
    /// Number of its first domain. Domains count through all keys, from 1; 0 is none.
    first: u32,
}

impl Key<'_> {
    fn domain(&self, row: Row) -> u32 {
        match self.column.code(row) {
            0 => 0,
            code => self.first + code - 1,
        }
    }

    fn values(&self) -> u32 {
        u32::try_from(self.column.dictionary.len()).unwrap_or(u32::MAX)
    }
}

fn keys<'a>(config: &'a Config, read: &mut impl FnMut(&str) -> Column, answer: &mut TopologyBuilder) -> Vec<Key<'a>> {
    let mut keys: Vec<Key<'a>> = Vec::new();
    let mut first = 1;
    for kind in &config.types {
        for (tier, level) in (1..).zip(&kind.levels) {
            match keys.iter().find(|key| key.name == level.key()) {
                None => {
                    let column = read(level.key());
                    if !column.codes.is_empty() && column.codes.iter().all(|code| *code == 0) {
                        logic::report_absent(&kind.name, level.key(), answer);
                    }
                    let key = Key { name: level.key(), tier, kind: &kind.name, column, first };
                    first += key.values();
                    keys.push(key);
                }
                Some(known) if known.tier != tier => {
                    let detail = format!(
                        "{:?} is tier {} of type {:?}; type {:?} uses it as tier {tier} and ends below it",
                        known.name, known.tier, known.kind, kind.name
                    );
                    answer.diagnose("shared-label", Subject::Source, detail);
                }
                Some(_) => {}
            }
        }
    }
    keys
}

/// All domains of all keys: members and outer domain. Domain `n` is at position `n - 1`.
struct Forest {
    rows: Vec<Vec<Row>>,
    parents: Vec<u32>,
    /// The pairs of keys of inner and outer domains that nodes have.
    steps: BTreeSet<(usize, usize)>,
    contested: bool,
}

impl Forest {
    fn new(keys: &[Key<'_>]) -> Self {
        let domains = keys.iter().map(|key| key.values() as usize).sum();
        Self { rows: vec![Vec::new(); domains], parents: vec![0; domains], steps: BTreeSet::new(), contested: false }
    }

    /// Places every node level by level in a type, until a label is missing.
    fn climb(&mut self, kind: &Type, keys: &[Key<'_>]) {
        let levels = (1..)
            .zip(&kind.levels)
            .map_while(|(tier, level)| keys.iter().position(|key| key.name == level.key() && key.tier == tier));
        let levels: Vec<usize> = levels.collect();
        let Some(innermost) = levels.first().and_then(|&key| keys.get(key)) else { return };
        let lists = rows_by_code(&innermost.column.codes, innermost.column.dictionary.len());
        for (list, rows) in self.rows.iter_mut().skip(innermost.first as usize - 1).zip(lists) {
            *list = rows;
        }
        let mut climbing: Vec<bool> = innermost.column.codes.iter().map(|&code| code != 0).collect();
        for pair in levels.windows(2) {
            let &[inner, outer] = pair else { continue };
            self.steps.insert((inner, outer));
            let (Some(inner), Some(outer)) = (keys.get(inner), keys.get(outer)) else { continue };
            for (row, climbing) in (0..).zip(&mut climbing) {
                if !*climbing {
                    continue;
                }
                let (child, parent) = (inner.domain(row), outer.domain(row));
                *climbing = parent != 0;
                if let Some(known) = self.parents.get_mut(child as usize - 1) {
                    match *known {
                        0 => *known = parent,
                        other => self.contested |= parent != 0 && other != parent,
                    }
                }
            }
        }
    }

    /// Gives each domain under several outer domains the one that most of its nodes have.
    fn settle(&mut self, keys: &[Key<'_>], answer: &mut TopologyBuilder) {
        if !self.contested {
            return;
        }
        let label =
            |domain: u32| label_of(keys, domain).map_or_else(String::new, |(key, value)| format!("{key}={value}"));
        let steps = self.steps.iter().filter_map(|&(inner, outer)| Some((keys.get(inner)?, keys.get(outer)?)));
        let votes: Vec<(u32, u32)> = steps
            .flat_map(|(inner, outer)| {
                (0..).zip(&inner.column.codes).map(|(row, _)| (inner.domain(row), outer.domain(row)))
            })
            .filter(|&(child, parent)| child != 0 && parent != 0)
            .collect();
        let mut against: HashMap<u32, usize> = HashMap::new();
        let winners = majority(votes.iter().copied(), label);
        for (child, parent) in votes {
            if winners.get(&child) != Some(&parent) {
                *against.entry(child).or_default() += 1;
            }
        }
        let mut against: Vec<(String, u32, usize)> =
            against.into_iter().map(|(child, nodes)| (label(child), child, nodes)).collect();
        against.sort();
        for (child, domain, nodes) in against {
            let parent = winners.get(&domain).copied().unwrap_or(0);
            let detail = format!(
                "{nodes} nodes see it under another outer domain than {}, where most of its nodes are",
                label(parent)
            );
            answer.diagnose("two-parents", Subject::Name(child), detail);
        }
        for (child, parent) in winners {
            if let Some(known) = self.parents.get_mut(child as usize - 1) {
                *known = parent;
            }
        }
    }

    /// Writes the groups, lowest tier first; a domain without members gets none.
    fn write(mut self, keys: &[Key<'_>], answer: &mut TopologyBuilder) {
        let mut children: Vec<Vec<GroupRef>> = vec![Vec::new(); self.parents.len()];
        let mut order: Vec<&Key<'_>> = keys.iter().collect();
        order.sort_by_key(|key| key.tier);
        for key in order {
            let level = answer.level(topoloom_sdk::Level {
                tier: key.tier,
                tier_name: Some(key.name.to_owned()),
                kind: identity::kind(key.kind),
            });
            for (domain, value) in (key.first as usize - 1..).zip(key.column.dictionary.iter()) {
                let rows = self.rows.get_mut(domain).map(std::mem::take).unwrap_or_default();
                let groups = children.get_mut(domain).map(std::mem::take).unwrap_or_default();
                if rows.is_empty() && groups.is_empty() {
                    continue;
                }
                let group = answer.group(level, format!("{}={value}", key.name)).label(key.name, value);
                let group = if rows.is_empty() { group.groups(groups) } else { group.rows(rows) };
                let parent = self.parents.get(domain).and_then(|&parent| (parent as usize).checked_sub(1));
                if let Some(list) = parent.and_then(|parent| children.get_mut(parent)) {
                    list.push(group);
                }
            }
        }
    }
}

/// Key and value of a domain.
fn label_of<'a>(keys: &'a [Key<'_>], domain: u32) -> Option<(&'a str, &'a str)> {
    let key = keys.iter().rev().find(|key| key.first <= domain)?;
    Some((key.name, key.column.text(domain - key.first + 1)?))
}
