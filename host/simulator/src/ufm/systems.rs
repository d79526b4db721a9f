//! The systems: hosts and switches.

use super::paging::{self, FilteredRows, Page};
use super::ports::string;
use super::query::{Query, unknown};
use super::records::{Records, SystemField};
use super::side::{Side, address};
use super::{ListRefusal, ports};
use crate::fabric::{End, Fabric, Layer, Management};
use crate::server::{Answer, Tweak};
use crate::wire::{Rows, hex, quoted, quoted_hex};
use http::StatusCode;
use std::sync::Arc;

/// A system by its first port. A host without one is unknown to UFM.
fn all(fabric: &Fabric) -> impl Iterator<Item = End> {
    let hosts = fabric.hosts().filter(|(_, host)| !host.hcas.is_empty()).map(|(host, _)| End::Host { host, hca: 0 });
    hosts.chain(fabric.switches().map(|(switch, _)| End::Switch { switch, port: 0 }))
}

pub(super) fn list(
    query: &Query,
    fabric: &Arc<Fabric>,
    tweak: Tweak,
    records: &Arc<Records>,
) -> Result<Answer, ListRefusal> {
    let mut kind = None;
    for (key, value) in query.pairs().filter(|(key, _)| !paging::KEYS.contains(key)) {
        match key {
            "type" => kind = Some(value),
            _ => return Err(unknown(key)),
        }
    }
    let page = Page::parse(query)?;
    let total = all(fabric).count();
    let wanted = |end: &End| match end {
        End::Host { .. } => kind.is_none_or(|kind| kind == "host"),
        End::Switch { .. } => kind.is_none_or(|kind| kind == "switch"),
    };
    let ends: Vec<End> = all(fabric).filter(wanted).collect();
    Ok(answer(ends, total, page, fabric, tweak, records))
}

pub(super) fn named(
    name: &str,
    fabric: &Arc<Fabric>,
    tweak: Tweak,
    records: &Arc<Records>,
) -> Result<Answer, ListRefusal> {
    let wanted = |end: &End| Side::of(fabric, *end).is_some_and(|side| ports::owned_by(&side, name));
    let ends: Vec<End> = all(fabric).filter(wanted).collect();
    match ends.len() {
        0 => Err((StatusCode::NOT_FOUND, "no such system".into())),
        total => Ok(answer(ends, total, Page::Whole, fabric, tweak, records)),
    }
}

fn answer(
    ends: Vec<End>,
    total: usize,
    page: Page,
    fabric: &Arc<Fabric>,
    tweak: Tweak,
    records: &Arc<Records>,
) -> Answer {
    let filtered = ends.len();
    let rows = Arc::new(SystemRows { fabric: fabric.clone(), ends, records: records.clone() });
    paging::list(FilteredRows { rows, filtered, total }, page, tweak, records.layout)
}

struct SystemRows {
    fabric: Arc<Fabric>,
    ends: Vec<End>,
    records: Arc<Records>,
}

impl Rows for SystemRows {
    fn write(&self, index: usize, out: &mut Vec<u8>) {
        match self.ends.get(index).and_then(|end| Side::of(&self.fabric, *end)) {
            Some(side) => self.records.system.write(out, |field, out| write(field, out, &side)),
            None => out.extend_from_slice(b"null"),
        }
    }
}

fn write(field: SystemField, out: &mut Vec<u8>, side: &Side<'_>) {
    let either = |out: &mut Vec<u8>, host: &str, of_switch: &str| {
        out.extend_from_slice(match side {
            Side::Host { .. } => host.as_bytes(),
            Side::Switch { .. } => of_switch.as_bytes(),
        });
    };
    match field {
        SystemField::Kind => either(out, "\"host\"", "\"switch\""),
        SystemField::Guid => quoted_hex(out, side.system_guid()),
        SystemField::Name => string(out, |out| side.system_name(out)),
        SystemField::Role => quoted(out, role(side)),
        SystemField::Model => quoted(out, model(side, "Computer")),
        SystemField::Technology => either(out, "\"Computer\"", "\"NDR\""),
        SystemField::Description => quoted(out, model(side, "server")),
        SystemField::Groups => either(out, "[\"Servers\"]", "[\"1U_Switches\", \"Switches\"]"),
        SystemField::Ports => names(out, side),
        SystemField::Address => string(out, |out| match side {
            Side::Switch { switch, index, .. } if switch.management == Management::Managed => address(out, *index),
            _ => out.extend_from_slice(b"0.0.0.0"),
        }),
        SystemField::Managed => out.extend_from_slice(match side {
            Side::Switch { switch, .. } if switch.management == Management::Unmanaged => b"false",
            _ => b"true".as_slice(),
        }),
    }
}

fn role(side: &Side<'_>) -> &'static str {
    match side {
        Side::Host { .. } => "endpoint",
        Side::Switch { switch, .. } => match switch.layer {
            Layer::Leaf | Layer::Storage => "tor",
            Layer::Spine => "spine",
            Layer::Core => "core",
        },
    }
}

fn model<'a>(side: &Side<'a>, of_host: &'static str) -> &'a str {
    match side {
        Side::Host { .. } => of_host,
        Side::Switch { switch, .. } => switch.model,
    }
}

/// The names of all ports; two HCAs of one host appear as two GUIDs.
fn names(out: &mut Vec<u8>, side: &Side<'_>) {
    out.push(b'[');
    let mut first = true;
    let mut one = |guid, number: usize| {
        out.extend_from_slice(if first { b"\"" } else { b", \"" });
        first = false;
        hex(out, guid);
        out.extend_from_slice(format!("_{number}\"").as_bytes());
    };
    match side {
        Side::Host { host, .. } => host.hcas.iter().for_each(|hca| one(hca.guid, 1)),
        Side::Switch { switch, .. } => (1..=switch.ports()).for_each(|number| one(switch.guid, number)),
    }
    out.push(b']');
}
