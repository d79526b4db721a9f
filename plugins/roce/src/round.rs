//! One round: read the carriers, merge their entries, give the grouping the switch of each cable.

use crate::carriers::{self, Document};
use crate::chassis::SwitchClaim;
use crate::config::Config;
use crate::document::{Author, Cable, Ends, Sheet, State as Traffic, Switch};
use crate::kept::{self, Documents, Header};
use crate::merge::{self, Age, Chosen, Merged, Names, merge};
use crate::reports::{self, Reports};
use crate::switches::{End, PerPort, PortEnd, Switches, Voice};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use topoloom_fabric::{Change, Link, LinkState, Settings, State, SwitchId, Wiring, place};
use topoloom_sdk::{Answer, Column, Failure, Input, Packed};

/// A round in which nothing changed still places all hosts when the last placing is older than this. So the grouping never
/// remembers an older time for a live link, and `downGrace` is exact within this time.
const LONGEST_REST: u64 = 10 * 60 * 1000;
/// The same as a part of `downGrace`, which may be short.
const PART_OF_GRACE: u32 = 16;

pub(crate) fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
    let kept = kept::read(input.state).unwrap_or_default();
    let (mut service, mut config_map) = ask(config, input, &kept.header)?;
    let columns = Columns::read(config, input);
    let hash = columns.hash();
    let before = &kept.header;
    let is_same = service.is_none() && config_map.is_none() && before.columns == hash;
    let rests = (before.time..before.until.min(before.time.saturating_add(longest_rest(config)))).contains(&input.time);
    // Most rounds end here, so the documents are not read before.
    if is_same && rests {
        return Ok(Answer::unchanged(input.state.to_vec()));
    }
    let mut known = match kept.documents() {
        Some(documents) => documents,
        None => {
            // The state has no document for a 304 either: ask for all of them.
            (service, config_map) = ask(config, input, &Header::default())?;
            Documents::default()
        }
    };
    known.service = service.or(known.service).filter(|_| !config.endpoints.is_empty());
    known.config_map = config_map.or(known.config_map).filter(|_| config.config_map.is_some());

    let annotations =
        columns.annotation.as_ref().map(|column| carriers::annotations(column, &columns.names, &config.rules));
    let documents = [&known.service, &known.config_map].map(Option::as_ref);
    let [service, config_map] = documents.map(|document| document.map(|document| &document.sheet));
    // The order of precedence.
    let sheets: Vec<&Sheet> = [service, annotations.as_ref(), config_map].into_iter().flatten().collect();
    let names = Names::new(&columns.names, &config.settings.host_map);
    let merged = merge(&sheets, &names, input.time, config.max_age);

    let mut reports = Reports::default();
    report(&sheets, &merged, &mut reports);
    let mut wiring = wire(config, &sheets, &merged, &names, &mut reports);
    if documents.into_iter().flatten().any(|document: &Document| !document.complete) {
        wiring.partial();
    } else {
        // An incomplete document does not show that a node has no entry.
        let without_entry = merge::without_entry(&sheets, &names, &columns.names, &config.settings.rewrite);
        let detail = merge::sentence(&without_entry, &config.carriers());
        without_entry.iter().for_each(|node| reports.add("no-entry", node, &detail));
    }
    let mut outcome = place(&wiring, &settings(config, &names), &State::from_bytes(kept.grouping).memory, input);
    let mut diagnostics = reports.finish(input.nodes);
    let reported = reports::hash(&diagnostics);
    if reported != before.reports {
        outcome.change = Change::Some;
    }
    outcome.topology.diagnostics.append(&mut diagnostics);
    let until = merged.until;
    let answer = outcome.answer(Vec::new(), input);
    let header = Header { columns: hash, reports: reported, time: input.time, until, ..Header::default() };
    let state = kept::write(header, known, &answer.state);
    Ok(answer.with_state(state))
}

/// The settings of the grouping. Nodes with an annotation keep their own Node where `hostMap` leads their name elsewhere.
fn settings<'c>(config: &'c Config, names: &Names<'_>) -> Cow<'c, Settings> {
    let pins = names.pins();
    if pins.is_empty() {
        return Cow::Borrowed(&config.settings);
    }
    let mut settings = config.settings.clone();
    settings.host_map.extend(pins);
    Cow::Owned(settings)
}

/// How long rounds may be unchanged without placing the hosts again, in milliseconds.
fn longest_rest(config: &Config) -> u64 {
    let part = (config.settings.down_grace / PART_OF_GRACE).as_millis();
    u64::try_from(part).map_or(LONGEST_REST, |part| part.min(LONGEST_REST))
}

/// The documents; `None` where a document did not change, or its carrier is off.
fn ask(config: &Config, input: &Input<'_>, kept: &Header) -> Result<(Option<Document>, Option<Document>), Failure> {
    let service = match config.endpoints.is_empty() {
        true => None,
        false => carriers::service(input.http, &config.rules, kept.service.as_deref(), &config.service_path())?,
    };
    let config_map = match &config.config_map {
        None => None,
        Some(_) => {
            let name = config.config_map_name();
            carriers::config_map(input.http, &config.rules, kept.config_map.as_deref(), &name)?
        }
    };
    Ok((service, config_map))
}

/// The columns of the nodes.
struct Columns {
    names: Packed,
    annotation: Option<Column>,
    guids: Option<Column>,
}

impl Columns {
    fn read(config: &Config, input: &Input<'_>) -> Self {
        Self {
            names: input.nodes.names(),
            annotation: config.annotation.as_ref().map(|key| input.nodes.annotation(key)),
            guids: config.settings.guid_annotation.as_ref().map(|key| input.nodes.annotation(key)),
        }
    }

    /// A hash of all columns. Never 0, which means "no round".
    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.names.text, &self.names.ends).hash(&mut hasher);
        for column in [&self.annotation, &self.guids].into_iter().flatten() {
            (&column.dictionary.text, &column.dictionary.ends, &column.codes).hash(&mut hasher);
        }
        hasher.finish().max(1)
    }
}

/// Reports the notes on entries, where the entries count.
fn report(sheets: &[&Sheet], merged: &Merged<'_>, reports: &mut Reports) {
    let counting: HashMap<(usize, &str), &str> =
        merged.chosen.iter().map(|chosen| ((chosen.sheet, chosen.host.node.as_str()), chosen.node)).collect();
    for (number, sheet) in sheets.iter().enumerate() {
        for note in &sheet.notes {
            let node = counting.get(&(number, note.subject.as_str())).copied();
            let subject = node.or_else(|| note.code.starts_with("bad-").then_some(note.subject.as_str()));
            if let Some(subject) = subject {
                reports.add(&note.code, subject, &note.detail);
            }
        }
        if sheet.more_notes > 0 {
            reports.source("more-notes", format!("{} more notes on entries are not shown", sheet.more_notes));
        }
    }
    for chosen in &merged.chosen {
        match chosen.age {
            Age::Fresh => {}
            Age::Stale => reports.add("stale", chosen.node, "its entry is older than maxAge; it still counts"),
            Age::Ahead => reports.add("clock", chosen.node, "observedAt is more than an hour in the future"),
        }
    }
    for (_, node) in &merged.doubles {
        reports.add("double-entry", node, "one carrier has two entries for it; the newer one counts");
    }
}

/// The cables as a wiring for the grouping.
fn wire(config: &Config, sheets: &[&Sheet], merged: &Merged<'_>, names: &Names<'_>, reports: &mut Reports) -> Wiring {
    // Only entries that count identify switches: an entry that lost to another one does not.
    let mut voices: Vec<Vec<Option<Voice>>> = sheets.iter().map(|sheet| vec![None; sheet.seen.len()]).collect();
    for (number, Chosen { sheet, host, .. }) in (0..).zip(&merged.chosen) {
        let voice = match sheets.get(*sheet).map(|sheet| sheet.by) {
            Some(Author::Nodes) => Voice::OneNode(number),
            _ => Voice::Confirmed,
        };
        for Cable(Ends(seen, ..), _) in &host.links {
            if let Some(known) = voices.get_mut(*sheet).and_then(|voices| voices.get_mut(*seen as usize)) {
                *known = Some(known.map_or(voice, |known| known.and(voice)));
            }
        }
    }
    let seen = sheets.iter().zip(&voices).flat_map(|(sheet, voices)| sheet.seen.iter().zip(voices));
    let seen = seen.filter_map(|(seen, voice)| Some((seen, (*voice)?)));
    let declared = sheets.iter().flat_map(|sheet| &sheet.switches);
    let per_port = PerPort::find(port_ends(sheets, merged));
    per_port.reports(config.identity).for_each(|(switch, why)| reports.add("chassis-per-port", switch, &why));
    let is_identified_by_name = |seen: &SwitchClaim| per_port.is_identified_by_name(seen, config.identity);
    let switches = Switches::new(seen, declared.clone(), &config.exclude_switches, is_identified_by_name);
    for (number, why) in &switches.unproven {
        if let Some(chosen) = merged.chosen.get(*number as usize) {
            reports.add("unproven-name", chosen.node, why);
        }
    }
    let ends: Vec<Vec<End>> =
        sheets.iter().map(|sheet| sheet.seen.iter().map(|seen| switches.end(seen)).collect()).collect();

    let mut wiring = Wiring::new();
    let ids: Vec<SwitchId> = switches.all.iter().map(|switch| wiring.switch(&switch.id, &switch.name)).collect();
    for Chosen { node, sheet, host, .. } in &merged.chosen {
        // The name as the carrier writes it: the grouping applies the same rules, and would apply the map a second time.
        let Some(entries) = sheets.get(*sheet) else { continue };
        let id = match names.pinned(&host.node).filter(|_| entries.by == Author::Nodes) {
            Some(pinned) => wiring.host(&pinned),
            None => wiring.host(&host.node),
        };
        let text = |number: u32| entries.ports.get(number as usize).map_or("", String::as_str);
        let mut excluded = 0;
        for Cable(Ends(seen, port, far), traffic) in &host.links {
            let state = match traffic {
                Traffic::Up => LinkState::Up,
                Traffic::Down => LinkState::Down,
            };
            let link = Link { count: 1, state, port: text(*port), switch_port: text(*far) };
            match ends.get(*sheet).and_then(|ends| ends.get(*seen as usize)) {
                Some(End::Switch(at)) => {
                    if let Some(switch) = ids.get(*at) {
                        wiring.link(id, *switch, link);
                    }
                }
                Some(End::Nameless(why)) => {
                    wiring.leave_out("to switches that cannot be distinguished from others", 1);
                    reports.add("unknown-switch", node, &format!("{}: {why}", link.port));
                }
                Some(End::Excluded) => excluded += 1,
                None => {}
            }
        }
        wiring.leave_out("left out by `switches.exclude`", excluded);
        if excluded > 0 && excluded == host.links.len() as u64 {
            let why = format!("no link counts, of {excluded} in the entry: all left out by `switches.exclude`");
            reports.add("unused-entry", node, &why);
        }
    }
    for sheet in sheets {
        wiring.leave_out("left out by `interfaces`", sheet.left_out.interfaces);
        wiring.leave_out("left out by `roles`", sheet.left_out.roles);
    }
    uplinks(declared, &switches, &ids, &mut wiring);
    wiring
}

/// The ends of all cables that count, each by its node.
fn port_ends<'a>(sheets: &'a [&'a Sheet], merged: &'a Merged<'_>) -> impl Iterator<Item = PortEnd<'a>> {
    (0..).zip(&merged.chosen).flat_map(|(node, Chosen { sheet, host, .. })| {
        let sheet = sheets.get(*sheet);
        host.links.iter().filter_map(move |Cable(Ends(seen, _, far), _)| {
            let seen = sheet?.seen.get(*seen as usize)?;
            Some(PortEnd { node, seen, port: sheet?.ports.get(*far as usize).map_or("", String::as_str) })
        })
    })
}

/// Adds the uplinks of documents. A cable that both of its ends list counts once.
fn uplinks<'a>(declared: impl Iterator<Item = &'a Switch>, switches: &Switches, ids: &[SwitchId], wiring: &mut Wiring) {
    // From one end to the other, then how many; per pair the two directions are compared.
    let mut cables: BTreeMap<(String, String), u32> = BTreeMap::new();
    let full = |id: &str| switches.declared(id).and_then(|at| switches.all.get(at)).map(|known| known.id.clone());
    for switch in declared {
        if switches.is_excluded(&switch.id) {
            continue;
        }
        let from = full(&switch.id).unwrap_or_else(|| switch.id.clone());
        if let (Some(level), Some(id)) = (switch.level, switches.declared(&switch.id).and_then(|at| ids.get(at))) {
            wiring.level(*id, u8::try_from(level).unwrap_or(u8::MAX));
        }
        for (to, count) in switch.uplinks.iter().filter(|(to, _)| !switches.is_excluded(to)) {
            let to = full(to).unwrap_or_else(|| to.clone());
            let known = cables.entry((from.clone(), to)).or_default();
            *known = known.saturating_add(*count);
        }
    }
    for ((from, to), count) in &cables {
        let back = cables.get(&(to.clone(), from.clone())).copied();
        if back.is_some() && from > to {
            continue;
        }
        // A switch that occurs as an uplink only has no entry of its own.
        let [a, b] = [from, to].map(|id| match switches.declared(id).and_then(|at| ids.get(at)) {
            Some(id) => *id,
            None => wiring.switch(id, ""),
        });
        wiring.adjacent(a, b, (*count).max(back.unwrap_or(0)));
    }
}

#[cfg(test)]
mod tests;
