//! Edits as text, for the admin listener and for the command line: a verb and its words.

use super::{Fabric, LinkState, Missing, Naming, PortName};
use crate::value::{BadValue, number};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One change to a fabric, such as `cut-host gpu-00003` or `rename-switch leaf-su0-r0 sonic`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Edit {
    /// Pulls the cable at a port.
    CutPort(PortName),
    /// Pulls every cable of a host.
    CutHost(String),
    /// Takes the cable at a port down: both ends still list it.
    DownPort(PortName),
    /// Takes every cable of a host down: both ends still list them.
    DownHost(String),
    /// Pulls a share of the cables of compute hosts, drawn by lot.
    CutShare {
        /// Of a hundred cables, how many.
        percent: u8,
        /// Decides which.
        seed: u64,
    },
    /// Brings every cable up again.
    Mend,
    /// Exchanges the far ends of two cables.
    Swap(PortName, PortName),
    /// Plugs the cable of a port into another switch.
    Plug(PortName, String),
    /// Adds a cable from a host to a switch where it has no business.
    Stray(String, String),
    /// Carries a host to another unit.
    MoveHost(String, u32),
    /// Takes a host away.
    RemoveHost(String),
    /// Takes a switch away.
    RemoveSwitch(String),
    /// Gives a switch another name.
    RenameSwitch(String, String),
    /// Gives a host another name.
    RenameHost(String, String),
    /// Replaces a switch by one with another GUID.
    ReplaceGuid(String),
    /// Gives every switch an aggregation node.
    AggregationNodes,
    /// Forgets the name of a host: its HCAs show what the firmware ships with.
    DefaultNames(String),
    /// Leaves the device in the host's name.
    KeepSuffix(String),
    /// Writes the host's name in capitals.
    UpperCase(String),
    /// Appends a domain to the host's name.
    Qualify(String, String),
}

/// One row of help about an edit.
#[derive(Debug, Clone, Copy)]
pub struct EditHelp {
    /// The words, with values in angle brackets.
    pub usage: &'static str,
    /// One sentence.
    pub help: &'static str,
}

const HELP: &[EditHelp] = &[
    EditHelp { usage: "cut-port <port>", help: "Pulls the cable at a port (a1b2c30000aa0172_1)." },
    EditHelp { usage: "cut-host <host>", help: "Pulls every cable of a host." },
    EditHelp { usage: "down-port <port>", help: "Takes the cable at a port down; both ends still list it." },
    EditHelp { usage: "down-host <host>", help: "Takes every cable of a host down; both ends still list them." },
    EditHelp {
        usage: "cut-share <percent> <seed>",
        help: "Pulls a share of the cables of compute hosts, drawn by lot.",
    },
    EditHelp { usage: "mend", help: "Plugs every pulled cable in again, and brings up what is down." },
    EditHelp { usage: "swap <port> <port>", help: "Exchanges the far ends of two cables." },
    EditHelp { usage: "plug <port> <switch>", help: "Plugs the cable of a host's port into another switch." },
    EditHelp {
        usage: "stray <host> <switch>",
        help: "Adds a cable that is not part of the fabric; in the document its role is mgmt.",
    },
    EditHelp { usage: "move-host <host> <unit>", help: "Carries a host to another unit, rail by rail." },
    EditHelp { usage: "remove-host <host>", help: "Takes a host away." },
    EditHelp { usage: "remove-switch <switch>", help: "Takes a switch away." },
    EditHelp { usage: "rename-switch <switch> <name>", help: "Gives a switch another name; its GUID stays." },
    EditHelp { usage: "rename-host <host> <name>", help: "Gives a host another name." },
    EditHelp { usage: "replace-guid <switch>", help: "Replaces a switch by one with another GUID." },
    EditHelp { usage: "aggregation-nodes", help: "Gives every switch an aggregation node." },
    EditHelp { usage: "default-names <host>", help: "Shows a host by the text its firmware ships with." },
    EditHelp { usage: "keep-suffix <host>", help: "Leaves the device in the host's name (gpu-1 mlx5_0)." },
    EditHelp { usage: "upper-case <host>", help: "Writes the host's name in capitals." },
    EditHelp { usage: "qualify <host> <domain>", help: "Appends a domain to the host's name." },
];

impl Edit {
    /// All edits with their words and one sentence each.
    pub fn all() -> &'static [EditHelp] {
        HELP
    }
}

impl Fabric {
    /// Carries out an edit. Either the whole of it happens or nothing.
    ///
    /// # Errors
    /// What the edit names is not there.
    pub fn apply(&mut self, edit: &Edit) -> Result<(), Missing> {
        match edit {
            Edit::CutPort(port) => self.cut_port(*port, LinkState::Unplugged),
            Edit::CutHost(host) => self.cut_host(host, LinkState::Unplugged).map(drop),
            Edit::DownPort(port) => self.cut_port(*port, LinkState::Down),
            Edit::DownHost(host) => self.cut_host(host, LinkState::Down).map(drop),
            Edit::CutShare { percent, seed } => {
                self.cut_share(*percent, *seed, LinkState::Unplugged);
                Ok(())
            }
            Edit::Mend => {
                self.mend();
                Ok(())
            }
            Edit::Swap(one, other) => self.swap(*one, *other),
            Edit::Plug(port, switch) => self.plug(*port, switch),
            Edit::Stray(host, switch) => self.add_stray(host, switch),
            Edit::MoveHost(host, unit) => self.move_host(host, *unit),
            Edit::RemoveHost(host) => self.remove_host(host),
            Edit::RemoveSwitch(switch) => self.remove_switch(switch),
            Edit::RenameSwitch(switch, name) => self.rename_switch(switch, name),
            Edit::RenameHost(host, name) => self.rename_host(host, name),
            Edit::ReplaceGuid(switch) => self.replace_guid(switch).map(drop),
            Edit::AggregationNodes => {
                self.add_aggregation_nodes();
                Ok(())
            }
            Edit::DefaultNames(host) => self.set_naming(host, Naming::Default),
            Edit::KeepSuffix(host) => self.set_naming(host, Naming::SuffixKept),
            Edit::UpperCase(host) => self.rename_host(host, &host.to_uppercase()),
            Edit::Qualify(host, domain) => self.rename_host(host, &format!("{host}.{domain}")),
        }
    }
}

impl FromStr for Edit {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words.as_slice() {
            ["cut-port", port] => Self::CutPort(port.parse()?),
            ["cut-host", host] => Self::CutHost((*host).into()),
            ["down-port", port] => Self::DownPort(port.parse()?),
            ["down-host", host] => Self::DownHost((*host).into()),
            ["cut-share", percent, seed] => Self::CutShare {
                percent: number("percent", percent, 0..=100)? as u8,
                seed: number("seed", seed, 0..=u64::MAX)?,
            },
            ["mend"] => Self::Mend,
            ["swap", one, other] => Self::Swap(one.parse()?, other.parse()?),
            ["plug", port, switch] => Self::Plug(port.parse()?, (*switch).into()),
            ["stray", host, switch] => Self::Stray((*host).into(), (*switch).into()),
            ["move-host", host, unit] => {
                Self::MoveHost((*host).into(), number("unit", unit, 0..=u64::from(u32::MAX))? as u32)
            }
            ["remove-host", host] => Self::RemoveHost((*host).into()),
            ["remove-switch", switch] => Self::RemoveSwitch((*switch).into()),
            ["rename-switch", switch, name] => Self::RenameSwitch((*switch).into(), (*name).into()),
            ["rename-host", host, name] => Self::RenameHost((*host).into(), (*name).into()),
            ["replace-guid", switch] => Self::ReplaceGuid((*switch).into()),
            ["aggregation-nodes"] => Self::AggregationNodes,
            ["default-names", host] => Self::DefaultNames((*host).into()),
            ["keep-suffix", host] => Self::KeepSuffix((*host).into()),
            ["upper-case", host] => Self::UpperCase((*host).into()),
            ["qualify", host, domain] => Self::Qualify((*host).into(), (*domain).into()),
            _ => {
                let verb = words.first().unwrap_or(&"");
                let same = HELP.iter().find(|help| help.usage.split(' ').next() == Some(*verb));
                let all = || HELP.iter().map(|help| help.usage).collect::<Vec<_>>().join(", ");
                return Err(BadValue::new("edit", text, same.map_or_else(all, |help| help.usage.into())));
            }
        })
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutPort(port) => write!(f, "cut-port {port}"),
            Self::CutHost(host) => write!(f, "cut-host {host}"),
            Self::DownPort(port) => write!(f, "down-port {port}"),
            Self::DownHost(host) => write!(f, "down-host {host}"),
            Self::CutShare { percent, seed } => write!(f, "cut-share {percent} {seed}"),
            Self::Mend => f.write_str("mend"),
            Self::Swap(one, other) => write!(f, "swap {one} {other}"),
            Self::Plug(port, switch) => write!(f, "plug {port} {switch}"),
            Self::Stray(host, switch) => write!(f, "stray {host} {switch}"),
            Self::MoveHost(host, unit) => write!(f, "move-host {host} {unit}"),
            Self::RemoveHost(host) => write!(f, "remove-host {host}"),
            Self::RemoveSwitch(switch) => write!(f, "remove-switch {switch}"),
            Self::RenameSwitch(switch, name) => write!(f, "rename-switch {switch} {name}"),
            Self::RenameHost(host, name) => write!(f, "rename-host {host} {name}"),
            Self::ReplaceGuid(switch) => write!(f, "replace-guid {switch}"),
            Self::AggregationNodes => f.write_str("aggregation-nodes"),
            Self::DefaultNames(host) => write!(f, "default-names {host}"),
            Self::KeepSuffix(host) => write!(f, "keep-suffix {host}"),
            Self::UpperCase(host) => write!(f, "upper-case {host}"),
            Self::Qualify(host, domain) => write!(f, "qualify {host} {domain}"),
        }
    }
}

impl TryFrom<String> for Edit {
    type Error = BadValue;

    fn try_from(text: String) -> Result<Self, BadValue> {
        text.parse()
    }
}

impl From<Edit> for String {
    fn from(edit: Edit) -> Self {
        edit.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_of_the_table_is_read_as_it_is_written() {
        for EditHelp { usage, .. } in Edit::all() {
            let text = usage
                .replace("<port>", "a1b2c30000aa0172_1")
                .replace("<percent> <seed>", "30 7")
                .replace("<unit>", "3")
                .replace(['<', '>'], "");
            assert_eq!(text.parse::<Edit>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_wrong_edit_shows_the_words_it_takes() {
        let error = |text: &str| text.parse::<Edit>().unwrap_err().to_string();
        assert_eq!(error("cut-host"), "edit: \"cut-host\" is not allowed; expected cut-host <host>");
        assert!(error("burn x").contains("mend, swap <port> <port>"));
        assert!(error("cut-share 101 1").starts_with("percent: \"101\" is not allowed"));
    }
}
