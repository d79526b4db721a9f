//! Which records speak of the same switch.
//!
//! A GUID identifies a switch. A name does only where no GUID is known: it means the GUID that has it in the same snapshot,
//! if there is exactly one, and else a switch of its own. Two switches may share a name, and a switch may change it.

use crate::texts::Texts;
use std::collections::HashMap;
use topoloom_fabric::Guid;

/// A bound that includes every host, since without a list of links each end of a cable may be a switch.
const MAX_SWITCHES: usize = 300_000;

/// The identity of a switch in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Guid(Guid),
    /// The number of a cleaned name.
    Name(u32),
}

/// What is known of one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyFacts {
    pub(crate) key: Key,
    /// The readable name: the smallest that was seen, so that the order of records does not matter.
    pub(crate) name: u32,
    /// The name of the record before: most records of a switch say the same.
    last: u32,
    /// A port belongs to this switch.
    pub(crate) has_ports: bool,
    /// A host is plugged into it.
    pub(crate) bears_hosts: bool,
}

/// All keys by number.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    numbers: HashMap<Key, u32>,
    list: Vec<KeyFacts>,
    /// Which GUID has a name; none: several have.
    owners: HashMap<u32, Option<Guid>>,
}

impl Switches {
    /// The number of the switch in a record, which is added where it is new. None: the record names no switch.
    pub(crate) fn number(&mut self, guid: Option<Guid>, name: Option<&str>, texts: &mut Texts) -> Option<u32> {
        let name = name.map_or(0, |name| texts.number(name));
        let key = match (guid, name) {
            (Some(guid), _) => Key::Guid(guid),
            (None, 0) => return None,
            (None, name) => Key::Name(name),
        };
        if self.is_full() {
            return self.numbers.get(&key).copied();
        }
        let number = *self.numbers.entry(key).or_insert_with(|| {
            self.list.push(KeyFacts { key, name, last: 0, has_ports: false, bears_hosts: false });
            (self.list.len() - 1) as u32
        });
        if let (Some(guid), Some(known)) = (guid, self.list.get_mut(number as usize))
            && name != 0
            && known.last != name
        {
            known.last = name;
            if known.name == 0 || texts.get(name) < texts.get(known.name) {
                known.name = name;
            }
            let owner = self.owners.entry(name).or_insert(Some(guid));
            if *owner != Some(guid) {
                *owner = None;
            }
        }
        Some(number)
    }

    /// Whether the limit is reached, so that a switch may have no number.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MAX_SWITCHES
    }

    /// A key that is known by its GUID.
    pub(crate) fn find(&self, guid: Guid) -> Option<u32> {
        self.numbers.get(&Key::Guid(guid)).copied()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut KeyFacts> {
        self.list.get_mut(number as usize)
    }

    pub(crate) fn get(&self, number: u32) -> Option<&KeyFacts> {
        self.list.get(number as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeyFacts> + '_ {
        self.list.iter()
    }

    /// Adds to every key what is known under the names that mean it. Call it after the last record.
    pub(crate) fn settle(&mut self) {
        for number in 0..self.list.len() as u32 {
            let resolved = self.resolved(number);
            let has_ports = self.get(number).is_some_and(|known| known.has_ports);
            if let Some(known) = self.get_mut(resolved) {
                known.has_ports |= has_ports;
            }
        }
    }

    /// The key that a key means: itself, or the only GUID that has its name.
    pub(crate) fn resolved(&self, number: u32) -> u32 {
        let Some(KeyFacts { key: Key::Name(name), .. }) = self.get(number) else { return number };
        let owner = self.owners.get(name).copied().flatten();
        owner.and_then(|guid| self.find(guid)).unwrap_or(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_only_guid_that_has_it() {
        let (mut texts, mut switches) = (Texts::new(), Switches::default());
        let mut number = |guid: Option<u64>, name| switches.number(guid.map(Guid), name, &mut texts);
        let named = number(None, Some("a")).unwrap();
        let shared = number(None, Some("shared")).unwrap();
        let alone = number(None, Some("alone")).unwrap();
        let one = number(Some(1), Some("b")).unwrap();
        assert_eq!(number(Some(1), Some("a")), Some(one));
        number(Some(2), Some("shared"));
        number(Some(3), Some("shared"));
        assert_eq!(number(None, None), None);
        assert_eq!([named, shared, alone, one].map(|n| switches.resolved(n)), [one, shared, alone, one]);
        assert_eq!(texts.get(switches.get(one).unwrap().name), "a");
    }
}
