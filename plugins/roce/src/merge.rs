//! One entry per node out of several carriers: the first carrier with a fresh one wins, else the first with any.
//!
//! Two carriers may write one node differently ("GPU-A017.example.com"), so entries are merged by the Node that their name
//! leads to. Names that lead to no Node, or to the Node of a better name of the same carrier, stay as they are: the
//! grouping reports them.

mod without_entry;

pub(crate) use without_entry::{sentence, without_entry};

use crate::document::{Author, Host, Sheet};
use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use topoloom_sdk::Packed;

/// Clocks differ. An entry that is further in the future was made with a wrong clock, and is never fresh.
const CLOCK_SKEW: u64 = 60 * 60 * 1000;

/// The entry of one node that counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chosen<'a> {
    /// The node's name.
    pub(crate) node: &'a str,
    /// Its carrier, as position in the list of sheets.
    pub(crate) sheet: usize,
    /// The entry.
    pub(crate) host: &'a Host,
    /// How old it is.
    pub(crate) age: Age,
}

/// How old an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Age {
    /// Younger than `maxAge`.
    Fresh,
    /// Older.
    Stale,
    /// From the future.
    Ahead,
}

/// The merged entries.
#[derive(Debug)]
pub(crate) struct Merged<'a> {
    /// One entry per node, in the order of names.
    pub(crate) chosen: Vec<Chosen<'a>>,
    /// Entries that do not count because their carrier has two of the node: carrier and node.
    pub(crate) doubles: Vec<(usize, &'a str)>,
    /// When the next entry changes its age, in milliseconds since 1970; `u64::MAX`: none does.
    pub(crate) until: u64,
}

/// Merges sheets, the best carrier first.
pub(crate) fn merge<'a>(sheets: &[&'a Sheet], names: &Names<'a>, time: u64, max_age: u64) -> Merged<'a> {
    let mut nodes: BTreeMap<&'a str, Chosen<'a>> = BTreeMap::new();
    let mut doubles = Vec::new();
    let mut until = u64::MAX;
    for (sheet, entries) in sheets.iter().enumerate() {
        let leads = names.leads(entries);
        for host in &entries.hosts {
            let found = names
                .node(entries.by, &host.node)
                .filter(|(_, node)| leads.get(node) == Some(&LeadingName::By(&host.node)));
            let node = found.map_or(host.node.as_str(), |(_, node)| node);
            let (age, changes) = age(host.observed, time, max_age);
            until = until.min(changes);
            let entry = Chosen { node, sheet, host, age };
            let Some(known) = nodes.get_mut(node) else {
                nodes.insert(node, entry);
                continue;
            };
            if known.sheet == sheet {
                doubles.push((sheet, node));
                // The newer one; of the same age the one that comes first.
                let rank = |entry: &Chosen<'_>| (entry.age == Age::Fresh, entry.host.observed);
                if rank(&entry) > rank(known) {
                    *known = entry;
                }
            } else if known.age != Age::Fresh && age == Age::Fresh {
                *known = entry;
            }
        }
    }
    Merged { chosen: nodes.into_values().collect(), doubles, until }
}

/// The age of an observation, and when it changes.
fn age(observed: u64, time: u64, max_age: u64) -> (Age, u64) {
    let begins = observed.saturating_sub(CLOCK_SKEW);
    let ends = observed.saturating_add(max_age);
    if time < begins {
        (Age::Ahead, begins)
    } else if time <= ends {
        (Age::Fresh, ends.saturating_add(1))
    } else {
        (Age::Stale, u64::MAX)
    }
}

/// Which Node a name leads to: by the map of the configuration, as it is, in another case, or by its first label where
/// that leads to one Node alone. These are the rules of the grouping, in its order. An annotation always
/// describes the Node that has it.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    mapped: HashMap<&'a str, &'a str>,
    exact: HashMap<&'a str, &'a str>,
    folded: HashMap<String, Option<&'a str>>,
    first: HashMap<String, Option<&'a str>>,
}

/// How a name leads to a Node, the best way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    Mapped,
    Exact,
    Folded,
    First,
}

/// The name that leads to a Node in one carrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeadingName<'a> {
    /// This name.
    By(&'a str),
    /// Several names by equal rules: none of them.
    Several,
}

impl<'a> Names<'a> {
    /// For these Nodes.
    pub(crate) fn new(nodes: &'a Packed, map: &'a [(String, String)]) -> Self {
        let mut names = Self {
            mapped: map.iter().map(|(from, to)| (from.as_str(), to.as_str())).collect(),
            exact: HashMap::new(),
            folded: HashMap::new(),
            first: HashMap::new(),
        };
        for node in nodes.iter() {
            names.exact.insert(node, node);
            let folded = node.to_lowercase();
            add(&mut names.first, first_label(&folded).to_owned(), node);
            add(&mut names.folded, folded, node);
        }
        names
    }

    /// The name in the grouping of a Node with an annotation, where the map of the configuration leads its own name
    /// elsewhere. No document can have this name: names of documents are trimmed.
    pub(crate) fn pinned(&self, node: &str) -> Option<String> {
        self.mapped.contains_key(node).then(|| format!(" {node}"))
    }

    /// The map of the configuration with all of these names in it.
    pub(crate) fn pins(&self) -> Vec<(String, String)> {
        let mut pins: Vec<_> = self.mapped.keys().filter_map(|from| self.exact.get(from)).collect();
        pins.sort_unstable();
        pins.into_iter().filter_map(|node| Some((self.pinned(node)?, (*node).to_owned()))).collect()
    }

    fn node(&self, by: Author, name: &str) -> Option<(Way, &'a str)> {
        if by == Author::Nodes {
            return self.exact.get(name).map(|node| (Way::Exact, *node));
        }
        if let Some(node) = self.mapped.get(name) {
            return Some((Way::Mapped, node));
        }
        if let Some(node) = self.exact.get(name) {
            return Some((Way::Exact, node));
        }
        let folded = name.to_lowercase();
        if let Some(node) = self.folded.get(&folded) {
            return node.map(|node| (Way::Folded, node));
        }
        self.first.get(first_label(&folded)).copied().flatten().map(|node| (Way::First, node))
    }

    /// The name that leads to each Node in one carrier.
    fn leads<'s>(&self, sheet: &'s Sheet) -> HashMap<&'a str, LeadingName<'s>> {
        let mut leads: HashMap<&'a str, (Way, LeadingName<'s>)> = HashMap::with_capacity(sheet.hosts.len());
        for host in &sheet.hosts {
            let Some((way, node)) = self.node(sheet.by, &host.node) else { continue };
            match leads.entry(node) {
                Slot::Vacant(slot) => drop(slot.insert((way, LeadingName::By(&host.node)))),
                Slot::Occupied(mut slot) => {
                    let (known, lead) = slot.get_mut();
                    if way < *known {
                        (*known, *lead) = (way, LeadingName::By(&host.node));
                    } else if way == *known && *lead != LeadingName::By(&host.node) {
                        *lead = LeadingName::Several;
                    }
                }
            }
        }
        leads.into_iter().map(|(node, (_, lead))| (node, lead)).collect()
    }
}

/// Adds a name; `None` marks one that several nodes have.
fn add<'a>(names: &mut HashMap<String, Option<&'a str>>, key: String, node: &'a str) {
    names.entry(key).and_modify(|known| *known = None).or_insert(Some(node));
}

fn first_label(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests;
