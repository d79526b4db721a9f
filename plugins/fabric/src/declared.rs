//! What the configuration declares about switches: their levels, and virtual switches above groups that no cable joins.

use std::borrow::Cow;

use crate::settings::{Declared, Settings, Which};
use crate::wiring::{SwitchId, Wiring};

/// The prefix of the identity of a virtual switch, so that no real switch has the same.
const GROUP: &str = "group:";

/// The wiring with the declarations applied. The configuration overrides the source.
pub(crate) fn apply<'w>(wiring: &'w Wiring, settings: &Settings) -> Cow<'w, Wiring> {
    if settings.levels.is_empty() {
        return Cow::Borrowed(wiring);
    }
    let mut with = wiring.clone();
    for number in 0..wiring.switches.len() as u32 {
        let id = wiring.switches.get(number);
        let name = wiring.features.get(number as usize).map_or("", |features| wiring.texts.get(features.name));
        // A switch without a name is matched by its identity.
        let name = if name.is_empty() { id } else { name };
        if let Some(declared) = settings.levels.iter().find(|declared| declared.means(id, name)) {
            with.level(SwitchId(number), declared.level);
        }
        for (level, group) in
            settings.levels.iter().filter_map(|declared| Some((declared.level, declared.group(name)?)))
        {
            let above = with.switch(&format!("{GROUP}{group}"), group);
            with.level(above, level);
            with.adjacent(SwitchId(number), above, 1);
        }
    }
    Cow::Owned(with)
}

impl Declared {
    fn means(&self, id: &str, name: &str) -> bool {
        match &self.which {
            Which::Switches { ids, names } => {
                ids.iter().any(|known| known.eq_ignore_ascii_case(id)) || names.iter().any(|regex| regex.is_match(name))
            }
            Which::Below(_) => false,
        }
    }

    /// The group that a switch is below.
    fn group<'n>(&self, name: &'n str) -> Option<&'n str> {
        let Which::Below(regex) = &self.which else { return None };
        let group = regex.captures(name)?.get(1)?;
        Some(group.as_str()).filter(|group| !group.is_empty())
    }
}
