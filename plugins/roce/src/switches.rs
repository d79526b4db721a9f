//! Which cables end at the same switch.
//!
//! The chassis id decides, the name helps where there is none. Images give every switch the same name, so a name stands
//! for a switch only while it leads to one chassis; a switch that cannot be told from others joins nobody.

use crate::chassis::{self, Seen};
use crate::document::Switch;
use regex_lite::Regex;
use std::collections::{BTreeMap, BTreeSet};

/// What a cable's end was found to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// This switch, by position in [`Switches::all`].
    Switch(usize),
    /// A switch that the configuration leaves out.
    Excluded,
    /// It cannot be told which; the sentence says why.
    Nameless(String),
}

/// One switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    /// What makes it itself.
    pub(crate) id: String,
    /// What people call it; may be empty.
    pub(crate) name: String,
}

/// All switches of a round.
#[derive(Debug)]
pub(crate) struct Switches {
    /// In the order of identities.
    pub(crate) all: Vec<Known>,
    excluded: Vec<bool>,
    /// What every record came to; an error says why it leads nowhere.
    ends: BTreeMap<Seen, Result<String, String>>,
    positions: BTreeMap<String, usize>,
    /// Folded name to identities.
    names: BTreeMap<String, BTreeSet<String>>,
    /// Identities of documents that stand for a chassis that cables name.
    aliases: BTreeMap<String, String>,
    /// Long names that mean the same as a short one.
    short: BTreeMap<String, String>,
}

impl Switches {
    /// Works out the switches behind all that was said.
    pub(crate) fn new<'a>(
        seen: impl Iterator<Item = &'a Seen> + Clone,
        declared: impl Iterator<Item = &'a Switch> + Clone,
        exclude: &[Regex],
    ) -> Self {
        let mut switches = Self {
            all: Vec::new(),
            excluded: Vec::new(),
            ends: BTreeMap::new(),
            positions: BTreeMap::new(),
            names: BTreeMap::new(),
            aliases: BTreeMap::new(),
            short: BTreeMap::new(),
        };
        let declared_ids: BTreeSet<&str> = declared.clone().map(|switch| switch.id.as_str()).collect();
        let stands_alone = |chassis: &str| chassis::is_unique(chassis) || declared_ids.contains(chassis);
        // All names of each identity. What stands for itself comes first, so that a name can lead to it.
        let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for seen in seen.clone() {
            if let Some(chassis) = seen.chassis.as_deref().filter(|chassis| stands_alone(chassis)) {
                known.entry(chassis.to_owned()).or_default().extend(seen.name.clone());
                switches.ends.insert(seen.clone(), Ok(chassis.to_owned()));
            }
        }
        switches.index(&known);
        for switch in declared.clone().filter(|switch| !known.contains_key(&switch.id)) {
            let names = [Some(switch.id.as_str()), switch.name.as_deref()];
            let found = names.into_iter().flatten().find_map(|name| switches.by_name(name).ok().flatten());
            if let Some(id) = found {
                switches.aliases.insert(switch.id.clone(), id);
            }
        }
        for switch in declared {
            let id = switches.aliases.get(&switch.id).unwrap_or(&switch.id);
            let word = Some(id).filter(|id| !chassis::is_unique(id));
            known.entry(id.clone()).or_default().extend(switch.name.iter().chain(word).cloned());
        }
        switches.index(&known);
        let rest = seen.filter(|seen| !seen.chassis.as_deref().is_some_and(stands_alone));
        let (weak, named): (Vec<&Seen>, Vec<&Seen>) = rest.partition(|seen| seen.chassis.is_some());
        switches.learn(&weak, &mut known);
        switches.shorten(&named);
        switches.learn(&named, &mut known);
        switches.finish(known, exclude);
        switches
    }

    /// Finds the switches behind these records, and adds those that only they tell of.
    fn learn(&mut self, seen: &[&Seen], known: &mut BTreeMap<String, BTreeSet<String>>) {
        for &seen in seen {
            let end = self.identity(seen);
            if let (Ok(id), Some(name)) = (&end, &seen.name) {
                known.entry(id.clone()).or_default().insert(name.clone());
            }
            self.ends.insert(seen.clone(), end);
        }
        self.index(known);
    }

    /// Of switches that are names and nothing else, finds the long ones that mean the same as a short one: no other long
    /// name begins with it.
    fn shorten(&mut self, named: &[&Seen]) {
        let names: BTreeSet<String> = named.iter().filter_map(|seen| Some(folded(seen.name.as_deref()?))).collect();
        for name in &names {
            let Some(label) = label(name).filter(|label| label != name && names.contains(*label)) else { continue };
            let is_free = matches!(self.by_name(label), Ok(None));
            if is_free && names.range(format!("{label}.")..format!("{label}/")).count() == 1 {
                self.short.insert(name.clone(), label.to_owned());
            }
        }
    }

    /// The switch at the end of a cable, as one of the records that all this was made of tells it.
    pub(crate) fn end(&self, seen: &Seen) -> End {
        match self.ends.get(seen) {
            Some(Ok(id)) => self.position(id).unwrap_or_else(|| End::Nameless("it is not known".to_owned())),
            Some(Err(why)) => End::Nameless(why.clone()),
            None => End::Nameless("it is not known".to_owned()),
        }
    }

    /// The switch that a document calls by an identity, or by a name.
    pub(crate) fn declared(&self, id: &str) -> Option<usize> {
        let alias = self.aliases.get(id).map_or(id, String::as_str);
        let at = self.position(alias).or_else(|| self.position(&self.by_name(id).ok().flatten()?));
        match at {
            Some(End::Switch(at)) => Some(at),
            _ => None,
        }
    }

    /// Whether an identity that a document mentions is one that the configuration leaves out.
    pub(crate) fn is_excluded(&self, id: &str) -> bool {
        self.position(self.aliases.get(id).map_or(id, String::as_str)) == Some(End::Excluded)
    }

    fn position(&self, id: &str) -> Option<End> {
        let &at = self.positions.get(id)?;
        Some(if self.excluded.get(at) == Some(&true) { End::Excluded } else { End::Switch(at) })
    }

    /// The identity behind a record whose chassis id, if it has one, is none. An error says why there is none.
    fn identity(&self, seen: &Seen) -> Result<String, String> {
        let Some(name) = seen.name.as_deref() else {
            let chassis = seen.chassis.as_deref().unwrap_or_default();
            return Err(format!("chassis id {chassis:?} is unique only together with a name, and there is none"));
        };
        if chassis::is_default(name) {
            return Err(format!(
                "{name:?} is the name of many switches, and there is no chassis id that tells them apart"
            ));
        }
        if let Some(id) = self.by_name(name)? {
            return Ok(id);
        }
        let folded = folded(name);
        Ok(match &seen.chassis {
            Some(chassis) => format!("{chassis}/{folded}"),
            None => format!("name:{}", self.short.get(&folded).unwrap_or(&folded)),
        })
    }

    /// The one identity that a name leads to, written in full or as first label. An error: several.
    fn by_name(&self, name: &str) -> Result<Option<String>, String> {
        let name = folded(name);
        let several = |ids: &BTreeSet<String>| format!("the name {name:?} is that of {} switches", ids.len());
        if let Some(ids) = self.names.get(&name) {
            return if ids.len() == 1 { Ok(ids.first().cloned()) } else { Err(several(ids)) };
        }
        let Some(label) = label(&name) else { return Ok(None) };
        let ids: BTreeSet<String> = if label == name {
            let longer = self.names.range(format!("{name}.")..format!("{name}/"));
            longer.flat_map(|(_, ids)| ids.iter().cloned()).collect()
        } else {
            self.names.get(label).into_iter().flatten().cloned().collect()
        };
        if ids.len() > 1 { Err(several(&ids)) } else { Ok(ids.first().cloned()) }
    }

    fn index(&mut self, known: &BTreeMap<String, BTreeSet<String>>) {
        self.names.clear();
        for (id, names) in known {
            for name in names.iter().filter(|name| !chassis::is_default(name)) {
                self.names.entry(folded(name)).or_default().insert(id.clone());
            }
        }
    }

    fn finish(&mut self, known: BTreeMap<String, BTreeSet<String>>, exclude: &[Regex]) {
        for (id, names) in known {
            let matches = |text: &str| exclude.iter().any(|regex| regex.is_match(text));
            self.excluded.push(matches(&id) || names.iter().any(|name| matches(name)));
            self.positions.insert(id.clone(), self.all.len());
            let name = names.into_iter().min_by_key(|name| (chassis::is_default(name), name.len(), name.clone()));
            self.all.push(Known { id, name: name.unwrap_or_default() });
        }
    }
}

fn folded(name: &str) -> String {
    name.trim_end_matches('.').to_lowercase()
}

/// The first label of a name. `None`: it is an address, whose first number says nothing.
fn label(name: &str) -> Option<&str> {
    name.split('.').next().filter(|label| label.bytes().any(|byte| byte.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests;
