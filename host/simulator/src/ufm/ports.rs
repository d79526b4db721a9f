//! The port list: by far the largest of all.

use super::paging::{self, FilteredRows, Page};
use super::query::{Query, bad, flag, unknown};
use super::records::{PortField, Records};
use super::side::Side;
use super::{Filters, ListRefusal};
use crate::fabric::random::Random;
use crate::fabric::{End, Fabric, Layer, LinkState, PortName};
use crate::server::{Answer, Tweak};
use crate::wire::{Rows, decimal, quoted_hex};
use http::StatusCode;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// What the list is narrowed to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Filter {
    system: Option<String>,
    active: Option<bool>,
    disabled: Option<bool>,
    kind: Option<String>,
    high_ber: bool,
}

impl Filter {
    fn parse(query: &Query, known: Filters) -> Result<Self, ListRefusal> {
        let mut filter = Self::default();
        for (key, value) in query.pairs().filter(|(key, _)| !paging::KEYS.contains(key)) {
            match (key, known) {
                (_, Filters::None) | ("active", Filters::WithoutActive) => return Err(unknown(key)),
                ("system", _) => filter.system = Some(value.to_owned()),
                ("active", _) => filter.active = Some(flag(key, value)?),
                ("show_disabled", _) => filter.disabled = Some(flag(key, value)?),
                ("sys_type", _) => filter.kind = Some(value.to_ascii_lowercase()),
                ("high_ber_only", _) => filter.high_ber = flag(key, value)?,
                // Every port here is external, and cables have nothing to tell.
                ("external" | "cable_info", _) => drop(flag(key, value)?),
                _ => return Err(unknown(key)),
            }
        }
        Ok(filter)
    }

    fn passes(&self, fabric: &Fabric, end: End) -> bool {
        let state = PortState::of(fabric, end);
        let system = || {
            let wanted = self.system.as_deref();
            wanted.is_none_or(|wanted| Side::of(fabric, end).is_some_and(|side| owned_by(&side, wanted)))
        };
        // No port of this fabric has errors.
        !self.high_ber
            && self.active.is_none_or(|active| active == (state == PortState::Up))
            && (self.disabled != Some(false) || state != PortState::Disabled)
            && self.kind.as_deref().is_none_or(|kind| kind == kind_of(end))
            && system()
    }
}

fn kind_of(end: End) -> &'static str {
    match end {
        End::Host { .. } => "host",
        End::Switch { .. } => "switch",
    }
}

/// Whether the machine behind this port has this name or this GUID.
pub(super) fn owned_by(side: &Side<'_>, wanted: &str) -> bool {
    let mut name = Vec::new();
    side.system_name(&mut name);
    name == wanted.as_bytes() || side.system_guid().to_string() == wanted
}

/// What UFM says about a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PortState {
    Up,
    Down,
    Disabled,
}

impl PortState {
    fn of(fabric: &Fabric, end: End) -> Self {
        match (fabric.peer(end), end) {
            (Some((_, LinkState::Up)), _) => Self::Up,
            // Of the ports that never had a cable an operator has disabled every second one.
            (None, End::Switch { port, .. }) if port % 2 == 1 && fabric.link_at(end).is_none() => Self::Disabled,
            _ => Self::Down,
        }
    }
}

/// The port list with the selection of the last request: a client that reads page by page asks for the same one again.
#[derive(Debug)]
pub(super) struct Ports {
    filters: Filters,
    shuffle: Option<u64>,
    last: Mutex<Option<Selection>>,
}

#[derive(Debug, Clone)]
struct Selection {
    // Weak, so that remembering a selection never makes an edit copy the fabric; an edited fabric is another one.
    fabric: Weak<Fabric>,
    filter: Filter,
    ends: Arc<Vec<End>>,
    total: usize,
}

impl Ports {
    pub(super) fn new(filters: Filters, shuffle: Option<u64>) -> Self {
        Self { filters, shuffle, last: Mutex::default() }
    }

    pub(super) fn list(
        &self,
        query: &Query,
        fabric: &Arc<Fabric>,
        tweak: Tweak,
        records: &Arc<Records>,
    ) -> Result<Answer, ListRefusal> {
        let filter = Filter::parse(query, self.filters)?;
        let page = Page::parse(query)?;
        let Selection { ends, total, .. } = self.select(filter, fabric);
        let filtered = ends.len();
        let rows = Arc::new(PortRows { fabric: fabric.clone(), ends, records: records.clone() });
        Ok(paging::list(FilteredRows { rows, filtered, total }, page, tweak, records.layout))
    }

    fn select(&self, filter: Filter, fabric: &Arc<Fabric>) -> Selection {
        let same = |last: &&Selection| last.filter == filter && last.fabric.ptr_eq(&Arc::downgrade(fabric));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(selection) = last.as_ref().filter(same) {
            return selection.clone();
        }
        let mut total = 0;
        let counted = fabric.ports().inspect(|_| total += 1);
        let mut ends: Vec<End> = counted.filter(|end| filter.passes(fabric, *end)).collect();
        if let Some(seed) = self.shuffle {
            Random::new(seed).shuffle(&mut ends);
        }
        let selection = Selection { fabric: Arc::downgrade(fabric), filter, ends: Arc::new(ends), total };
        last.insert(selection).clone()
    }
}

/// The ports with these names, comma separated. Names that are not there are left out.
pub(super) fn named(
    names: &str,
    fabric: &Arc<Fabric>,
    tweak: Tweak,
    records: &Arc<Records>,
) -> Result<Answer, ListRefusal> {
    let read = |name: &str| name.parse::<PortName>().map_err(|error| bad(error.to_string()));
    let names = names.split(',').map(read).collect::<Result<Vec<_>, _>>()?;
    let ends: Vec<End> = names.into_iter().filter_map(|name| fabric.find_port(name).ok()).collect();
    if ends.is_empty() {
        return Err((StatusCode::NOT_FOUND, "no such port".into()));
    }
    let filtered = ends.len();
    let rows = Arc::new(PortRows { fabric: fabric.clone(), ends: Arc::new(ends), records: records.clone() });
    Ok(paging::list(FilteredRows { rows, filtered, total: filtered }, Page::Whole, tweak, records.layout))
}

struct PortRows {
    fabric: Arc<Fabric>,
    ends: Arc<Vec<End>>,
    records: Arc<Records>,
}

impl Rows for PortRows {
    fn write(&self, index: usize, out: &mut Vec<u8>) {
        let end = self.ends.get(index).copied();
        let Some((end, own)) = end.and_then(|end| Some((end, Side::of(&self.fabric, end)?))) else {
            return out.extend_from_slice(b"null");
        };
        let peer = self.fabric.peer(end).and_then(|(far, _)| Side::of(&self.fabric, far));
        let state = PortState::of(&self.fabric, end);
        self.records.port.write(out, |field, out| write(field, out, &own, peer.as_ref(), state));
    }
}

fn write(field: PortField, out: &mut Vec<u8>, own: &Side<'_>, peer: Option<&Side<'_>>, state: PortState) {
    let up = state == PortState::Up;
    match field {
        PortField::Name => string(out, |out| own.name(out)),
        PortField::Guid => quoted_hex(out, own.guid()),
        PortField::SystemId => quoted_hex(out, own.system_guid()),
        PortField::Kind => out.extend_from_slice(match own {
            Side::Host { .. } => b"\"Computer IB Port\"",
            Side::Switch { .. } => b"\"Switch IB Port\"",
        }),
        PortField::SystemName => string(out, |out| own.system_name(out)),
        PortField::NodeDescription => string(out, |out| own.description(out)),
        PortField::Number => decimal(out, own.number()),
        PortField::Label => string(out, |out| own.label(out)),
        PortField::Path => string(out, |out| path(out, own)),
        PortField::Tier => decimal(out, tier(own)),
        PortField::Physical => out.extend_from_slice(match state {
            PortState::Up => b"\"Link Up\"".as_slice(),
            PortState::Down => b"\"Polling\"",
            PortState::Disabled => b"\"Disabled\"",
        }),
        PortField::Logical => out.extend_from_slice(if up { b"\"Active\"" } else { b"\"Down\"" }),
        PortField::Speed => out.extend_from_slice(if up { b"\"NDR\"" } else { b"\"N/A\"" }),
        PortField::Width => out.extend_from_slice(if up { b"\"4x\"" } else { b"\"NoState\"" }),
        // A number, or a word: readers meet both.
        PortField::Mtu => out.extend_from_slice(if up { b"4096" } else { b"\"Unknown\"" }),
        PortField::Lid => decimal(out, own.lid()),
        PortField::Address => string(out, |out| own.address(out)),
        PortField::Peer => of_peer(out, peer, |peer, out| peer.name(out)),
        PortField::PeerGuid => match peer {
            Some(peer) => quoted_hex(out, peer.guid()),
            None => out.extend_from_slice(b"\"N/A\""),
        },
        PortField::PeerName => of_peer(out, peer, |peer, out| peer.system_name(out)),
        PortField::PeerDescription => of_peer(out, peer, |peer, out| peer.description(out)),
        PortField::PeerLabel => of_peer(out, peer, |peer, out| peer.label(out)),
        PortField::PeerLid => match peer {
            Some(peer) => decimal(out, peer.lid()),
            None => out.extend_from_slice(b"\"N/A\""),
        },
        PortField::PeerAddress => of_peer(out, peer, |peer, out| peer.address(out)),
    }
}

/// UFM's own tier of the owner, as observed; it is not the tier of a topology.
fn tier(side: &Side<'_>) -> u32 {
    match side {
        Side::Host { .. } => 1,
        Side::Switch { switch, .. } => match switch.layer {
            Layer::Leaf | Layer::Storage => 4,
            Layer::Spine => 3,
            Layer::Core => 2,
        },
    }
}

fn path(out: &mut Vec<u8>, side: &Side<'_>) {
    match side {
        Side::Host { .. } => {
            out.extend_from_slice(b"default / Computer: ");
            side.system_name(out);
            out.extend_from_slice(b" / NA / ");
            side.label(out);
        }
        Side::Switch { number, .. } => {
            out.extend_from_slice(b"default / Switch: ");
            side.system_name(out);
            out.extend_from_slice(b" / NA / ");
            decimal(out, *number);
        }
    }
}

pub(super) fn string(out: &mut Vec<u8>, inside: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    inside(out);
    out.push(b'"');
}

fn of_peer(out: &mut Vec<u8>, peer: Option<&Side<'_>>, inside: impl FnOnce(&Side<'_>, &mut Vec<u8>)) {
    match peer {
        Some(peer) => string(out, |out| inside(peer, out)),
        None => out.extend_from_slice(b"\"N/A\""),
    }
}
