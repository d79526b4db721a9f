//! The state that a discoverer keeps from round to round, as bytes.
//!
//! Compact, versioned and checked: bytes that cannot be read give an empty state, never a panic and never half a state. The
//! host keeps 8 MiB at most; a larger state first loses its parts, which costs a full round.

use crate::bytes::{Reader, Writer};
use crate::graph::{Edge, NONE};
use crate::interned;
use crate::memory::{Child, Fading, Memory, Remembered};
use crate::wiring::Wiring;

/// Changes with the layout.
const MAGIC: [u8; 4] = *b"tlf\x05";
/// The limit of the host.
const MAX_STATE: usize = 8 * 1024 * 1024;
/// The limit of a discoverer's own bytes.
const MAX_OWN: usize = 64 * 1024;

/// The state that a discoverer keeps from round to round.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// One part per independent source.
    pub parts: Vec<Part>,
    /// The memory of the last round.
    pub memory: Memory,
}

/// The part of one source.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// The source: the name of its endpoint.
    pub key: String,
    /// The discoverer's own bytes: versions, an `ETag`. At most 64 KiB; a part with more is not kept.
    pub own: Vec<u8>,
    /// Its cables.
    pub wiring: Wiring,
}

impl State {
    /// Reads bytes of [`State::to_bytes`]; anything else gives an empty state.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        read(bytes).unwrap_or_default()
    }

    /// At most 8 MiB: parts that do not fit are left out, the last ones first, then the memory.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut memory = Writer::default();
        write_memory(&self.memory, &mut memory);
        let memory = memory.finish();
        // Room for the frame and the lengths.
        let mut room = (MAX_STATE - 64).saturating_sub(memory.len());
        let mut parts = Vec::new();
        for part in self.parts.iter().filter(|part| part.own.len() <= MAX_OWN) {
            let mut writer = Writer::default();
            writer.text(&part.key);
            writer.blob(&part.own);
            part.wiring.write(&mut writer);
            let part = writer.finish();
            if part.len() + 10 > room {
                break;
            }
            room -= part.len() + 10;
            parts.push(part);
        }
        let mut body = Writer::default();
        body.number(parts.len() as u64);
        parts.iter().for_each(|part| body.blob(part));
        body.blob(if memory.len() <= MAX_STATE - 64 { &memory } else { &[] });
        let body = body.finish();
        let mut bytes = Vec::with_capacity(body.len() + 12);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&checksum(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// The discoverer's own bytes of a source, out of the bytes of a state. Does not read the cables.
    #[must_use]
    pub fn own<'a>(bytes: &'a [u8], key: &str) -> Option<&'a [u8]> {
        let mut reader = Reader::new(body(bytes)?);
        for _ in 0..reader.count()? {
            let mut part = Reader::new(reader.blob()?);
            if part.text()? == key {
                return part.blob();
            }
        }
        None
    }

    /// The part of a source.
    #[must_use]
    pub fn part(&self, key: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.key == key)
    }

    /// All cables together.
    #[must_use]
    pub fn wiring(&self) -> Wiring {
        let Some((first, others)) = self.parts.split_first() else { return Wiring::new() };
        let mut all = first.wiring.clone();
        others.iter().for_each(|part| all.absorb(&part.wiring));
        all
    }
}

/// Shows a fault of memory or an edit by mistake; it is not a signature.
fn checksum(body: &[u8]) -> u64 {
    interned::hash_bytes(body)
}

fn read(bytes: &[u8]) -> Option<State> {
    read_body(body(bytes)?)
}

/// The content behind the frame, where the checksum is right.
fn body(bytes: &[u8]) -> Option<&[u8]> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, body) = rest.split_first_chunk::<8>()?;
    (*magic == MAGIC && u64::from_le_bytes(*sum) == checksum(body)).then_some(body)
}

fn read_body(body: &[u8]) -> Option<State> {
    let mut reader = Reader::new(body);
    let mut state = State::default();
    for _ in 0..reader.count()? {
        let mut part = Reader::new(reader.blob()?);
        let key = part.text()?.to_owned();
        let own = part.blob()?.to_vec();
        let wiring = Wiring::read(&mut part)?;
        part.end()?;
        state.parts.push(Part { key, own, wiring });
    }
    let memory = reader.blob()?;
    reader.end()?;
    if !memory.is_empty() {
        let mut reader = Reader::new(memory);
        state.memory = read_memory(&mut reader)?;
        reader.end()?;
    }
    Some(state)
}

fn write_memory(memory: &Memory, writer: &mut Writer) {
    memory.digest.iter().for_each(|&part| writer.number(part));
    writer.number(memory.began.map_or(0, |began| began.saturating_add(1)));
    writer.number(memory.switches.len() as u64);
    memory.switches.iter().for_each(|switch| writer.text(switch));
    writer.number(memory.levels.len() as u64);
    let mut time = 0;
    for level in &memory.levels {
        writer.number(level.ids.len() as u64);
        level.ids.iter().for_each(|id| writer.text(id));
        writer.number(level.children.len() as u64);
        for (number, child) in (0..).zip(&level.children) {
            writer.text(&child.key);
            writer.text(&child.node);
            writer.number(u64::from(child.group));
            writer.step(time, child.seen);
            time = child.seen;
            let known = level.known.of(number);
            writer.number(known.len() as u64);
            for edge in known {
                writer.number(u64::from(edge.parent));
                writer.number(u64::from(edge.weight));
            }
        }
        writer.number(level.fading.len() as u64);
        let mut last = 0;
        for link in &level.fading {
            writer.step(u64::from(last), u64::from(link.child));
            writer.number(u64::from(link.parent));
            writer.step(time, link.since);
            (last, time) = (link.child, link.since);
        }
    }
}

fn read_memory(reader: &mut Reader<'_>) -> Option<Memory> {
    let digest = [reader.number()?, reader.number()?];
    let mut memory = Memory { digest, began: reader.number()?.checked_sub(1), ..Memory::default() };
    for _ in 0..reader.count()? {
        memory.switches.push(reader.text()?.to_owned());
    }
    let mut time = 0;
    for _ in 0..reader.count()? {
        let mut level = Remembered::default();
        for _ in 0..reader.count()? {
            level.ids.push(reader.text()?.to_owned());
        }
        for _ in 0..reader.count()? {
            let key = reader.text()?.to_owned();
            let node = reader.text()?.to_owned();
            let group = reader.narrow::<u32>()?;
            if group != NONE && group as usize >= level.ids.len() {
                return None;
            }
            time = reader.step(time)?;
            let mut edges = Vec::new();
            for _ in 0..reader.count()? {
                edges.push(Edge { parent: reader.below(memory.switches.len())?, weight: reader.narrow()? });
            }
            level.known.push(edges);
            level.children.push(Child { key, group, seen: time, node });
        }
        let mut last = 0;
        for _ in 0..reader.count()? {
            last = reader.step(last)?;
            let child = u32::try_from(last).ok().filter(|&child| (child as usize) < level.children.len())?;
            let parent = reader.below(memory.switches.len())?;
            time = reader.step(time)?;
            level.fading.push(Fading { child, parent, since: time });
        }
        // Found by binary search.
        if !level.children.is_sorted_by(|a, b| a.key < b.key) || !level.fading.is_sorted() {
            return None;
        }
        memory.levels.push(level);
    }
    Some(memory)
}

#[cfg(test)]
mod tests;
