//! Which domain each node is in at one level, given its domain one level further out.
//!
//! A domain is a value below an outer domain. Where the outer domain of a node is unknown, the node joins the only
//! domain that its value has anywhere; a value without any known outer domain is a root; a node whose value
//! has several gets no domain. Everything is linear in the number of nodes: values and domains are numbers, found by index.

use std::collections::HashMap;

use crate::classes::Classes;
use topoloom_sdk::nodes::Row;

/// No domain: the label is missing.
pub(crate) const MISSING: u32 = 0;
/// No domain: several are possible.
pub(crate) const AMBIGUOUS: u32 = u32::MAX;

/// The domains of one level. Domain `n` is at position `n - 1` of the lists.
#[derive(Default)]
pub(crate) struct Domains {
    /// The value of each domain.
    pub(crate) classes: Vec<u32>,
    /// The domain one level further out; [`MISSING`]: a root.
    pub(crate) parents: Vec<u32>,
    /// The domain of each node, or [`MISSING`], or [`AMBIGUOUS`].
    pub(crate) of_row: Vec<u32>,
    /// The smallest value that is more than one domain, and how many such values there are.
    pub(crate) repeated: Option<(String, usize)>,
    /// Nodes whose outer domain is not the one that their value belongs to (`valueScope: global`).
    pub(crate) minority: Vec<Row>,
}

impl Domains {
    pub(crate) fn len(&self) -> usize {
        self.classes.len()
    }

    pub(crate) fn class(&self, domain: u32) -> u32 {
        at(&self.classes, domain)
    }

    pub(crate) fn parent(&self, domain: u32) -> u32 {
        at(&self.parents, domain)
    }

    pub(crate) fn of(&self, row: Row) -> u32 {
        self.of_row.get(row as usize).copied().unwrap_or(MISSING)
    }

    fn add(&mut self, class: u32, parent: u32) -> u32 {
        self.classes.push(class);
        self.parents.push(parent);
        u32::try_from(self.classes.len()).unwrap_or(AMBIGUOUS - 1)
    }
}

/// The entry of a list that belongs to a number from 1.
fn at(list: &[u32], number: u32) -> u32 {
    (number as usize).checked_sub(1).and_then(|index| list.get(index)).copied().unwrap_or(0)
}

fn set(list: &mut [u32], number: u32, value: u32) {
    if let Some(entry) = (number as usize).checked_sub(1).and_then(|index| list.get_mut(index)) {
        *entry = value;
    }
}

/// The outermost level: every value is a domain.
pub(crate) fn outermost(classes: &Classes) -> Domains {
    let mut domains = Domains { of_row: Vec::with_capacity(classes.codes.len()), ..Domains::default() };
    let mut known = vec![MISSING; classes.texts.len()];
    for &class in &classes.codes {
        let mut domain = at(&known, class);
        if domain == MISSING && class != 0 {
            domain = domains.add(class, MISSING);
            set(&mut known, class, domain);
        }
        domains.of_row.push(domain);
    }
    domains
}

/// A level below `outer`, where a value under two outer domains is two domains.
pub(crate) fn by_path(classes: &Classes, outer: &Domains, outer_classes: &Classes) -> Domains {
    let mut below = Below::new(classes, outer);
    if !below.natural_order() {
        below = Below::new(classes, outer);
        below.order_of_parents();
    }
    below.unresolved(outer_classes);
    below.finish()
}

/// The state while the domains of one level are computed.
struct Below<'a> {
    classes: &'a Classes,
    outer: &'a Domains,
    domains: Domains,
    /// By value: its latest domain, and how many it has.
    latest: Vec<u32>,
    count: Vec<u32>,
    unresolved: bool,
}

impl<'a> Below<'a> {
    fn new(classes: &'a Classes, outer: &'a Domains) -> Self {
        let domains = Domains { of_row: vec![MISSING; classes.codes.len()], ..Domains::default() };
        let values = classes.texts.len();
        Self { classes, outer, domains, latest: vec![MISSING; values], count: vec![0; values], unresolved: false }
    }

    /// The usual case: every value has one outer domain. False as soon as one has two.
    fn natural_order(&mut self) -> bool {
        let (classes, outer) = (self.classes, self.outer);
        for ((&class, &parent), of_row) in classes.codes.iter().zip(&outer.of_row).zip(&mut self.domains.of_row) {
            if class == 0 {
                continue;
            }
            if parent == MISSING || parent == AMBIGUOUS {
                self.unresolved = true;
                continue;
            }
            let mut domain = at(&self.latest, class);
            if domain == MISSING {
                self.domains.classes.push(class);
                self.domains.parents.push(parent);
                domain = u32::try_from(self.domains.classes.len()).unwrap_or(AMBIGUOUS - 1);
                set(&mut self.latest, class, domain);
                set(&mut self.count, class, 1);
            } else if at(&self.domains.parents, domain) != parent {
                return false;
            }
            *of_row = domain;
        }
        true
    }

    /// Outer domain by outer domain: so only the latest domain of a value has to be stored, for any number of domains.
    fn order_of_parents(&mut self) {
        for rows in topoloom_sdk::nodes::rows_by_code(&self.outer.of_row, self.outer.len()) {
            for row in rows {
                let class = self.classes.of(row);
                if class == 0 {
                    continue;
                }
                let parent = self.outer.of(row);
                let mut domain = at(&self.latest, class);
                if domain == MISSING || self.domains.parent(domain) != parent {
                    domain = self.domains.add(class, parent);
                    set(&mut self.latest, class, domain);
                    let count = at(&self.count, class) + 1;
                    set(&mut self.count, class, count);
                }
                if let Some(of_row) = self.domains.of_row.get_mut(row as usize) {
                    *of_row = domain;
                }
            }
        }
        self.unresolved = true;
    }

    /// Nodes that have the value but no known outer domain.
    fn unresolved(&mut self, outer_classes: &Classes) {
        if !self.unresolved {
            return;
        }
        let mut roots = vec![MISSING; self.classes.texts.len()];
        let mut narrowed: HashMap<(u32, u32), u32> = HashMap::new();
        let known = self.domains.len();
        for (row, (&class, &parent)) in (0..).zip(self.classes.codes.iter().zip(&self.outer.of_row)) {
            if class == 0 || !(parent == MISSING || parent == AMBIGUOUS) {
                continue;
            }
            let mut domain = match (parent, at(&self.count, class)) {
                (_, 0) => MISSING,
                (MISSING, 1) => at(&self.latest, class),
                (MISSING, _) => AMBIGUOUS,
                // The outer value is known, but not which of its domains: domains that contradict it are no candidates.
                _ => {
                    let value = outer_classes.of(row);
                    *narrowed.entry((class, value)).or_insert_with(|| self.only_below(class, value, known))
                }
            };
            if domain == MISSING {
                domain = at(&roots, class);
                if domain == MISSING {
                    domain = self.domains.add(class, MISSING);
                    set(&mut roots, class, domain);
                }
            }
            if let Some(of_row) = self.domains.of_row.get_mut(row as usize) {
                *of_row = domain;
            }
        }
    }

    /// The only domain of a value whose outer domain has a given value. Rare: looks at all domains.
    fn only_below(&self, class: u32, outer_value: u32, known: usize) -> u32 {
        let all = self.domains.classes.iter().zip(&self.domains.parents).zip(1..).take(known);
        let mut fitting = all
            .filter(|((found, parent), _)| **found == class && self.outer.class(**parent) == outer_value)
            .map(|(_, domain)| domain);
        match (fitting.next(), fitting.next()) {
            (None, _) => MISSING,
            (Some(only), None) => only,
            _ => AMBIGUOUS,
        }
    }

    fn finish(mut self) -> Domains {
        let repeated =
            (1..).zip(&self.count).filter(|(_, count)| **count > 1).map(|(class, _)| self.classes.text(class));
        let (first, count) = repeated.fold((None::<&str>, 0), |(first, count), text| {
            (Some(first.map_or(text, |first| first.min(text))), count + 1)
        });
        self.domains.repeated = first.map(|first| (first.to_owned(), count));
        self.domains
    }
}

/// A level below `outer` with `valueScope: global`: a value under two outer domains is placed where most of its nodes are.
/// `outer_path` decides where the votes are equal.
pub(crate) fn globally(classes: &Classes, outer: &Domains, outer_path: impl Fn(u32) -> String) -> Domains {
    let mut domains = outermost(classes);
    let mut contested = false;
    for (&domain, &parent) in domains.of_row.iter().zip(&outer.of_row) {
        if domain == MISSING || parent == MISSING || parent == AMBIGUOUS {
            continue;
        }
        match at(&domains.parents, domain) {
            MISSING => set(&mut domains.parents, domain, parent),
            known => contested |= known != parent,
        }
    }
    if contested {
        let votes = domains.of_row.iter().copied().zip(outer.of_row.iter().copied());
        let votes = votes.filter(|&(domain, parent)| domain != MISSING && parent != MISSING && parent != AMBIGUOUS);
        for (domain, parent) in majority(votes, outer_path) {
            set(&mut domains.parents, domain, parent);
        }
        let rows = (0..).zip(domains.of_row.iter().zip(&outer.of_row));
        domains.minority = rows
            .filter(|&(_, (&domain, &parent))| {
                domain != MISSING && parent != MISSING && parent != AMBIGUOUS && at(&domains.parents, domain) != parent
            })
            .map(|(row, _)| row)
            .collect();
    }
    domains
}

/// The parent of each child with the most votes; of equals the one with the smallest name.
pub(crate) fn majority(votes: impl Iterator<Item = (u32, u32)>, name: impl Fn(u32) -> String) -> HashMap<u32, u32> {
    let mut counts: HashMap<(u32, u32), u32> = HashMap::new();
    for vote in votes {
        *counts.entry(vote).or_default() += 1;
    }
    let mut best: HashMap<u32, (u32, u32)> = HashMap::new();
    for ((child, parent), count) in counts {
        let leader = best.entry(child).or_insert((parent, count));
        if count > leader.1 || (count == leader.1 && name(parent) < name(leader.0)) {
            *leader = (parent, count);
        }
    }
    best.into_iter().map(|(child, (parent, _))| (child, parent)).collect()
}
