//! One end of a cable as UFM names it.

use crate::fabric::edit::AGGREGATION;
use crate::fabric::{End, Fabric, Guid, Hca, Host, HostKind, Management, Naming, Switch};
use crate::wire::{decimal, escaped, hex};

/// What the firmware of an HCA shows while no driver has set a name.
const FIRMWARE_NAME: &str = "MT4129 ConnectX7   Mellanox Technologies";

/// A port with what owns it.
#[derive(Clone, Copy)]
pub(super) enum Side<'a> {
    Host { host: &'a Host, hca: &'a Hca, lid: u32 },
    Switch { switch: &'a Switch, index: u32, number: u32 },
}

impl<'a> Side<'a> {
    pub(super) fn of(fabric: &'a Fabric, end: End) -> Option<Self> {
        Some(match end {
            End::Host { host: index, hca } => {
                let host = fabric.host(index)?;
                // Unicast lids end at 48 K; switches have the low ones. A very large fabric repeats them.
                let lid = 12_000 + (index * 9 + hca) % 36_000;
                Self::Host { host, hca: host.hcas.get(hca as usize)?, lid }
            }
            End::Switch { switch: index, port } => {
                let switch = fabric.switch(index)?;
                Self::Switch { switch, index, number: port + 1 }
            }
        })
    }

    pub(super) fn guid(&self) -> Guid {
        match self {
            Self::Host { hca, .. } => hca.guid,
            Self::Switch { switch, .. } => switch.guid,
        }
    }

    /// The identity of the machine: of a host that of its first HCA.
    pub(super) fn system_guid(&self) -> Guid {
        match self {
            Self::Host { host, hca, .. } => host.hcas.first().unwrap_or(hca).guid,
            Self::Switch { switch, .. } => switch.guid,
        }
    }

    pub(super) fn number(&self) -> u32 {
        match self {
            Self::Host { .. } => 1,
            Self::Switch { number, .. } => *number,
        }
    }

    pub(super) fn lid(&self) -> u32 {
        match self {
            Self::Host { lid, .. } => *lid,
            Self::Switch { index, .. } => 1 + index % 11_000,
        }
    }

    /// `<guid>_<number>`, without quotes.
    pub(super) fn name(&self, out: &mut Vec<u8>) {
        hex(out, self.guid());
        out.push(b'_');
        decimal(out, self.number());
    }

    /// The name of the machine, without quotes.
    pub(super) fn system_name(&self, out: &mut Vec<u8>) {
        match self {
            Self::Switch { switch, .. } => escaped(out, &switch.name),
            Self::Host { host, hca, .. } => match hca.naming {
                Naming::Resolved => escaped(out, &host.name),
                Naming::Default => out.extend_from_slice(FIRMWARE_NAME.as_bytes()),
                Naming::SuffixKept => device(out, host, hca),
            },
        }
    }

    /// What the device says of itself, without quotes.
    pub(super) fn description(&self, out: &mut Vec<u8>) {
        match self {
            Self::Switch { switch, number, .. } => {
                escaped(out, &switch.name);
                out.push(b':');
                decimal(out, *number);
            }
            Self::Host { host, .. } if host.kind == HostKind::Aggregation => {
                out.extend_from_slice(AGGREGATION.as_bytes())
            }
            Self::Host { hca, .. } if hca.naming == Naming::Default => out.extend_from_slice(FIRMWARE_NAME.as_bytes()),
            Self::Host { host, hca, .. } => device(out, host, hca),
        }
    }

    /// The label of the port, without quotes: `HCA-3/1`, on a switch with two ports per cage `1/9/1`.
    pub(super) fn label(&self, out: &mut Vec<u8>) {
        match self {
            Self::Host { hca, .. } => {
                out.extend_from_slice(b"HCA-");
                decimal(out, hca.device + 1);
                out.extend_from_slice(b"/1");
            }
            Self::Switch { number, .. } => {
                out.extend_from_slice(b"1/");
                decimal(out, number.div_ceil(2));
                out.extend_from_slice(if number % 2 == 1 { b"/1" } else { b"/2" });
            }
        }
    }

    /// Its address, without quotes. Only managed switches have one.
    pub(super) fn address(&self, out: &mut Vec<u8>) {
        match self {
            Self::Switch { switch, index, .. } if switch.management == Management::Managed => address(out, *index),
            _ => out.extend_from_slice(b"0.0.0.0"),
        }
    }
}

/// The address of a managed switch, without quotes.
pub(super) fn address(out: &mut Vec<u8>, index: u32) {
    let [_, a, b, c] = index.to_be_bytes();
    out.extend_from_slice(b"10");
    for octet in [a, b, c] {
        out.push(b'.');
        decimal(out, u32::from(octet));
    }
}

fn device(out: &mut Vec<u8>, host: &Host, hca: &Hca) {
    escaped(out, &host.name);
    out.extend_from_slice(b" mlx5_");
    decimal(out, hca.device);
}
