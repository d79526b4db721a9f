//! Which cables end at the same switch.
//!
//! The chassis id decides; the name decides where there is none. Images give every switch the same name, so a name
//! identifies a switch only while it leads to one chassis. A switch that cannot be distinguished from others joins no hosts.
//!
//! An annotation decides where the cables of its own node end. Where a name leads that other nodes use takes a document, or
//! two nodes that agree.

mod per_port;
mod statements;

pub(crate) use per_port::{PerPort, PortEnd};
pub(crate) use statements::Voice;

use crate::chassis::{self, SwitchClaim};
use crate::document::Switch;
use regex_lite::Regex;
use statements::{AllStatements, Statements};
use std::collections::{BTreeMap, BTreeSet};

/// The switch at the end of a cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// This switch, by position in [`Switches::all`].
    Switch(usize),
    /// A switch that the configuration excludes.
    Excluded,
    /// Unknown; the sentence says why.
    Nameless(String),
}

/// One switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedSwitch {
    /// Its identity.
    pub(crate) id: String,
    /// Its name for people; may be empty.
    pub(crate) name: String,
}

/// Where a record leads.
#[derive(Debug)]
enum Lead {
    /// To the switch of this identity.
    To(String),
    /// To no switch; the sentence says why.
    Nowhere(String),
    /// The configuration excludes its name.
    LeftOut,
}

/// All switches of a round.
#[derive(Debug)]
pub(crate) struct Switches {
    /// In the order of identities.
    pub(crate) all: Vec<ResolvedSwitch>,
    /// Names that only one node gives to a chassis, while others know the name only: node and sentence.
    pub(crate) unproven: Vec<(u32, String)>,
    excluded: Vec<bool>,
    /// Where every record leads.
    ends: BTreeMap<SwitchClaim, Lead>,
    positions: BTreeMap<String, usize>,
    /// Folded name to identities, and which nodes say so.
    names: BTreeMap<String, BTreeMap<String, Voice>>,
    /// First labels of names, where some node knows its switch by name only.
    needed: BTreeSet<String>,
    /// Identities of documents, and the chassis of cables that they mean.
    aliases: BTreeMap<String, String>,
    /// Long names that mean the same as a short one.
    short: BTreeMap<String, String>,
}

impl Switches {
    /// Finds the switches of all records. The chassis id of switches identified by name does not count.
    pub(crate) fn new<'a>(
        seen: impl Iterator<Item = (&'a SwitchClaim, Voice)> + Clone,
        declared: impl Iterator<Item = &'a Switch> + Clone,
        exclude: &[Regex],
        is_identified_by_name: impl Fn(&SwitchClaim) -> bool,
    ) -> Self {
        let declared_ids: BTreeSet<&str> = declared.clone().map(|switch| switch.id.as_str()).collect();
        let stands_alone = |chassis: &str| chassis::is_unique(chassis) || declared_ids.contains(chassis);
        let (strong, rest): (Vec<_>, Vec<_>) = seen
            .partition(|(seen, _)| !is_identified_by_name(seen) && seen.chassis.as_deref().is_some_and(stands_alone));
        let (weak, named): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|(seen, _)| !is_identified_by_name(seen) && seen.chassis.is_some());
        let needed =
            weak.iter().chain(&named).filter_map(|(seen, _)| Some(first(&folded(seen.name.as_deref()?)).into()));
        let mut switches = Self {
            all: Vec::new(),
            unproven: Vec::new(),
            excluded: Vec::new(),
            ends: BTreeMap::new(),
            positions: BTreeMap::new(),
            names: BTreeMap::new(),
            needed: needed.collect(),
            aliases: BTreeMap::new(),
            short: BTreeMap::new(),
        };
        // Switches with an identity of their own come first, so that a name can lead to them.
        let mut all = AllStatements::default();
        for (seen, voice) in strong {
            let Some(chassis) = &seen.chassis else { continue };
            all.add(chassis, &seen.name, voice);
            switches.ends.insert(seen.clone(), Lead::To(chassis.clone()));
        }
        switches.index(&all);
        for switch in declared.clone().filter(|switch| !all.0.contains_key(&switch.id)) {
            let names = [Some(switch.id.as_str()), switch.name.as_deref()];
            // A name of several switches does not identify one, so the identity of the document stays its own.
            let found = names.into_iter().flatten().find_map(|name| switches.by_name(name).ok().flatten());
            if let Some(id) = found {
                switches.aliases.insert(switch.id.clone(), id);
            }
        }
        for switch in declared {
            let id = switches.aliases.get(&switch.id).unwrap_or(&switch.id);
            let word = Some(id).filter(|id| !chassis::is_unique(id));
            all.add(id, switch.name.iter().chain(word), Voice::Confirmed);
        }
        switches.index(&all);
        switches.doubt();
        switches.learn(&weak, |seen| seen.chassis.as_deref(), &mut all);
        switches.shorten(&named);
        switches.learn(&named, |_| None, &mut all);
        switches.finish(all, exclude);
        switches
    }

    /// Finds the switches of these records, and adds those that no other record has.
    fn learn(
        &mut self,
        seen: &[(&SwitchClaim, Voice)],
        chassis: impl Fn(&SwitchClaim) -> Option<&str>,
        all: &mut AllStatements,
    ) {
        for &(seen, voice) in seen {
            let lead = match self.identity(seen.name.as_deref(), chassis(seen)) {
                Ok(id) => {
                    all.add(&id, &seen.name, voice);
                    Lead::To(id)
                }
                Err(why) => Lead::Nowhere(why),
            };
            self.ends.insert(seen.clone(), lead);
        }
        self.index(all);
    }

    /// Of switches known by name only, finds the long names that mean the same as a short one: no other long name begins
    /// with it. A long name of a single node does not affect one that several nodes use.
    fn shorten(&mut self, named: &[(&SwitchClaim, Voice)]) {
        let mut names: BTreeMap<String, Voice> = BTreeMap::new();
        for (seen, voice) in named {
            let Some(name) = &seen.name else { continue };
            names.entry(folded(name)).and_modify(|known| *known = known.and(*voice)).or_insert(*voice);
        }
        for (name, voice) in &names {
            let Some(label) = label(name).filter(|label| label != name && names.contains_key(*label)) else { continue };
            let is_free = matches!(self.by_name(label), Ok(None));
            let longer = names.range(format!("{label}.")..format!("{label}/"));
            let rivals = longer.filter(|(_, other)| **other == Voice::Confirmed || *voice != Voice::Confirmed);
            if is_free && rivals.count() == 1 {
                self.short.insert(name.clone(), label.to_owned());
            }
        }
    }

    /// Notes the names that only one node gives to a chassis, where others know the name only.
    fn doubt(&mut self) {
        for (name, ids) in self.names.iter().filter(|(name, _)| self.needed.contains(first(name))) {
            for (id, voice) in ids {
                if let Voice::OneNode(node) = voice {
                    let why =
                        format!("only this node reports {name:?} as {id}: nodes that know only the name do not use it");
                    self.unproven.push((*node, why));
                }
            }
        }
    }

    /// The switch of one of the records that were given to [`Switches::new`].
    pub(crate) fn end(&self, seen: &SwitchClaim) -> End {
        match self.ends.get(seen) {
            Some(Lead::To(id)) => self.position(id).unwrap_or_else(|| End::Nameless("it is not known".to_owned())),
            Some(Lead::Nowhere(why)) => End::Nameless(why.clone()),
            Some(Lead::LeftOut) => End::Excluded,
            None => End::Nameless("it is not known".to_owned()),
        }
    }

    /// The switch of an identity or a name of a document.
    pub(crate) fn declared(&self, id: &str) -> Option<usize> {
        let alias = self.aliases.get(id).map_or(id, String::as_str);
        // A name of several switches leads to none of them.
        let by_name = || self.position(&self.by_name(id).ok().flatten()?);
        // A record with a name only does not identify a chassis.
        let as_name = || self.position(&format!("name:{}", folded(id)));
        match self.position(alias).or_else(by_name).or_else(as_name) {
            Some(End::Switch(at)) => Some(at),
            _ => None,
        }
    }

    /// Whether the configuration excludes an identity of a document.
    pub(crate) fn is_excluded(&self, id: &str) -> bool {
        self.position(self.aliases.get(id).map_or(id, String::as_str)) == Some(End::Excluded)
    }

    fn position(&self, id: &str) -> Option<End> {
        let &at = self.positions.get(id)?;
        Some(if self.excluded.get(at) == Some(&true) { End::Excluded } else { End::Switch(at) })
    }

    /// The identity of a record without a unique chassis id. An error says why it has none.
    fn identity(&self, name: Option<&str>, chassis: Option<&str>) -> Result<String, String> {
        let Some(name) = name else {
            let chassis = chassis.unwrap_or_default();
            return Err(format!("chassis id {chassis:?} is unique only together with a name, and the switch has none"));
        };
        if chassis::is_default(name) {
            return Err(format!("{name:?} is the name of many switches, and no chassis id distinguishes them"));
        }
        if let Some(id) = self.by_name(name)? {
            return Ok(id);
        }
        let folded = folded(name);
        Ok(match chassis {
            Some(chassis) => format!("{chassis}/{folded}"),
            None => format!("name:{}", self.short.get(&folded).unwrap_or(&folded)),
        })
    }

    /// The one identity that a name leads to, written in full or as first label. An error: several. What only one
    /// node says counts where no other record says more, and where no other node depends on it.
    fn by_name(&self, name: &str) -> Result<Option<String>, String> {
        let name = folded(name);
        let found = self.led(&name, |voice| voice == Voice::Confirmed)?;
        if found.is_some() || self.needed.contains(first(&name)) {
            return Ok(found);
        }
        self.led(&name, |_| true)
    }

    /// The same, from the voices that count only.
    fn led(&self, name: &str, counts: impl Fn(Voice) -> bool) -> Result<Option<String>, String> {
        let said = |ids: &BTreeMap<String, Voice>| -> BTreeSet<String> {
            ids.iter().filter(|(_, voice)| counts(**voice)).map(|(id, _)| id.clone()).collect()
        };
        let mut ids = self.names.get(name).map(said).unwrap_or_default();
        if ids.is_empty() {
            let Some(label) = label(name) else { return Ok(None) };
            ids = if label == name {
                self.names.range(format!("{name}.")..format!("{name}/")).flat_map(|(_, ids)| said(ids)).collect()
            } else {
                self.names.get(label).map(said).unwrap_or_default()
            };
        }
        if ids.len() > 1 {
            return Err(format!("the name {name:?} is that of {} switches", ids.len()));
        }
        Ok(ids.pop_first())
    }

    fn index(&mut self, all: &AllStatements) {
        self.names.clear();
        for (id, said) in &all.0 {
            for (name, voice) in said.names.iter().filter(|(name, _)| !chassis::is_default(name)) {
                let ids = self.names.entry(folded(name)).or_default();
                ids.entry(id.clone()).and_modify(|known| *known = known.and(*voice)).or_insert(*voice);
            }
        }
        // Where several nodes have a cable to a switch, a single one of them gives it no name.
        for ids in self.names.values_mut() {
            ids.retain(|id, voice| *voice == Voice::Confirmed || all.0.get(id).is_some_and(|said| said.by == *voice));
        }
    }

    fn finish(&mut self, all: AllStatements, exclude: &[Regex]) {
        let matches = |text: &str| exclude.iter().any(|regex| regex.is_match(text));
        for (seen, lead) in &mut self.ends {
            if seen.name.as_deref().is_some_and(matches) {
                *lead = Lead::LeftOut;
            }
        }
        for (id, Statements { by, names }) in all.0 {
            // A single node excludes a switch by name only where no other node has a cable to it.
            let counts = |voice: &Voice| *voice == Voice::Confirmed || *voice == by;
            let is_left_out = names.iter().any(|(name, voice)| counts(voice) && matches(name));
            self.excluded.push(is_left_out || matches(&id));
            self.positions.insert(id.clone(), self.all.len());
            let rank = |(name, voice): &(String, Voice)| {
                (*voice != Voice::Confirmed, chassis::is_default(name), name.len(), name.clone())
            };
            let name = names.into_iter().min_by_key(rank).map(|(name, _)| name);
            self.all.push(ResolvedSwitch { id, name: name.unwrap_or_default() });
        }
    }
}

fn folded(name: &str) -> String {
    name.trim_end_matches('.').to_lowercase()
}

/// The first label of a name. `None`: it is an address, whose first number identifies nothing.
fn label(name: &str) -> Option<&str> {
    name.split('.').next().filter(|label| label.bytes().any(|byte| byte.is_ascii_alphabetic()))
}

/// The first label, or the whole where there is none.
fn first(name: &str) -> &str {
    label(name).unwrap_or(name)
}

#[cfg(test)]
mod tests;
