//! The links: every cable that is up, once.

use super::ListRefusal;
use super::paging::{self, FilteredRows, Page};
use super::ports::{owned_by, string};
use super::query::{Query, flag, unknown};
use super::records::{LinkField, Records};
use super::side::Side;
use crate::fabric::{Fabric, Link};
use crate::server::{Answer, Tweak};
use crate::wire::{Rows, decimal, quoted_hex};
use std::sync::Arc;

/// What a cable says of itself when asked.
const CABLE: &[u8] =
    br#"{"part_number": "MCP4Y10-N001", "length": "1 m", "serial_number": "N/A", "technology": "Copper"}"#;

pub(super) fn list(
    query: &Query,
    fabric: &Arc<Fabric>,
    tweak: Tweak,
    records: &Arc<Records>,
) -> Result<Answer, ListRefusal> {
    let (mut system, mut cables) = (None, false);
    for (key, value) in query.pairs().filter(|(key, _)| !paging::KEYS.contains(key)) {
        match key {
            "system" => system = Some(value),
            "cable_info" => cables = flag(key, value)?,
            "monitoring_counters_info" => drop(flag(key, value)?),
            _ => return Err(unknown(key)),
        }
    }
    let page = Page::parse(query)?;
    let total = fabric.links_up().count();
    let touches = |link: &Link, name: &str| {
        link.ends.into_iter().filter_map(|end| Side::of(fabric, end)).any(|side| owned_by(&side, name))
    };
    let wanted = |link: &Link| system.is_none_or(|name| touches(link, name));
    let numbers: Vec<u32> = fabric.links_up().filter(|(_, link)| wanted(link)).map(|(number, _)| number).collect();
    let filtered = numbers.len();
    let rows = Arc::new(LinkRows { fabric: fabric.clone(), numbers, records: records.clone(), cables });
    Ok(paging::list(FilteredRows { rows, filtered, total }, page, tweak, records.layout))
}

struct LinkRows {
    fabric: Arc<Fabric>,
    numbers: Vec<u32>,
    records: Arc<Records>,
    cables: bool,
}

impl Rows for LinkRows {
    fn write(&self, index: usize, out: &mut Vec<u8>) {
        let sides = || {
            let number = *self.numbers.get(index)?;
            let [one, other] = self.fabric.link(number)?.ends.map(|end| Side::of(&self.fabric, end));
            // Which end is called the source means nothing, so it is sometimes the one and sometimes the other.
            Some(if number % 2 == 0 { (one?, other?) } else { (other?, one?) })
        };
        match sides() {
            Some(ends) => self.records.link.write(out, |field, out| self.field(field, out, &ends)),
            None => out.extend_from_slice(b"null"),
        }
    }
}

impl LinkRows {
    fn field(&self, field: LinkField, out: &mut Vec<u8>, ends: &(Side<'_>, Side<'_>)) {
        let of = |end: usize| if end == 0 { &ends.0 } else { &ends.1 };
        match field {
            LinkField::Name => string(out, |out| {
                ends.0.name(out);
                out.push(b':');
                ends.1.name(out);
            }),
            LinkField::Guid(end) => quoted_hex(out, of(end).guid()),
            LinkField::Port(end) => string(out, |out| decimal(out, of(end).number())),
            LinkField::Label(end) => string(out, |out| of(end).label(out)),
            LinkField::PortName(end) => string(out, |out| of(end).name(out)),
            LinkField::Description(end) => string(out, |out| match of(end) {
                // Links name the port by its label where the port list has its number.
                side @ Side::Switch { .. } => {
                    side.system_name(out);
                    out.push(b':');
                    side.label(out);
                }
                side @ Side::Host { .. } => side.description(out),
            }),
            LinkField::Cable => out.extend_from_slice(if self.cables { CABLE } else { b"{}" }),
        }
    }
}
