//! Links of an entry that the configuration excludes, and the sentence where it excludes all of them.

use super::Role;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// How many names a sentence has.
const MAX_NAMED: usize = 4;

/// Links that the configuration excludes, by its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LeftOut {
    /// By their interface.
    pub(crate) interfaces: u64,
    /// By their role.
    pub(crate) roles: u64,
}

/// The same with names, while an entry is read.
#[derive(Debug, Default)]
pub(super) struct Unused {
    pub(super) count: LeftOut,
    interfaces: BTreeSet<String>,
    roles: BTreeSet<&'static str>,
    /// Links that are down and name no switch.
    pub(super) unplugged: u64,
}

impl Unused {
    pub(super) fn interface(&mut self, name: &str) {
        self.count.interfaces += 1;
        self.interfaces.insert(name.to_owned());
    }

    pub(super) fn role(&mut self, role: Role, links: usize) {
        self.count.roles += links as u64;
        self.roles.insert(role.word());
    }

    /// Why no link is left, where no other note explains it.
    pub(super) fn sentence(&self) -> String {
        let named = |count: u64, key: &str, names: Vec<&str>| {
            let more = if names.len() > MAX_NAMED { ", …" } else { "" };
            let names = names.get(..MAX_NAMED).unwrap_or(&names).join(", ");
            (count > 0).then(|| format!("{count} left out by `{key}` ({names}{more})"))
        };
        let parts = [
            named(self.count.interfaces, "interfaces", self.interfaces.iter().map(String::as_str).collect()),
            named(self.count.roles, "roles", self.roles.iter().copied().collect()),
            (self.unplugged > 0).then(|| format!("{} down, with no switch", self.unplugged)),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        match self.count.interfaces + self.count.roles + self.unplugged {
            0 => "the entry has no link".to_owned(),
            all => format!("no link counts, of {all} in the entry: {}", parts.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_some_and_counts_all() {
        let mut unused = Unused::default();
        assert_eq!(unused.sentence(), "the entry has no link");
        ["e", "d", "c", "b", "a", "a"].into_iter().for_each(|name| unused.interface(name));
        unused.role(Role::Mgmt, 2);
        let expected = "no link counts, of 8 in the entry: 6 left out by `interfaces` (a, b, c, d, …), \
                        2 left out by `roles` (mgmt)";
        assert_eq!(unused.sentence(), expected);
    }
}
