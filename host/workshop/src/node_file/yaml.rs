//! The YAML form, by parser events: only the path from the root to the present value is kept.

use std::io::BufRead;

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::{Error, FileNode, NodeCollector, NotNodes, Raw, is_list_kind, is_node_kind};

pub(super) fn read<F: FnMut(FileNode)>(reader: impl BufRead, collector: &mut NodeCollector<F>) -> Result<(), Error> {
    let failed = std::cell::RefCell::new(None);
    let mut walk = Walk::default();
    for event in Parser::new_from_iter(Characters { reader, failed: &failed }) {
        let (event, _) = event.map_err(|error| {
            let mark = error.marker();
            Error::Syntax(format!("line {}, column {}: {}", mark.line(), mark.col() + 1, error.info()))
        })?;
        if let Some(error) = failed.take() {
            return Err(Error::Read(error));
        }
        walk.event(event, collector)?;
    }
    match failed.take() {
        Some(error) => Err(Error::Read(error)),
        None if walk.documents == 0 => Err(NotNodes::Nothing.into()),
        None => Ok(()),
    }
}

/// UTF-8 characters out of a reader. Bytes that are no UTF-8 become U+FFFD, which the parser then refuses or a name check.
struct Characters<'a, R> {
    reader: R,
    failed: &'a std::cell::RefCell<Option<std::io::Error>>,
}

impl<R: BufRead> Characters<'_, R> {
    fn byte(&mut self) -> Option<u8> {
        let byte = match self.reader.fill_buf() {
            Ok(buffer) => buffer.first().copied()?,
            Err(error) => {
                self.failed.replace(Some(error));
                return None;
            }
        };
        self.reader.consume(1);
        Some(byte)
    }
}

impl<R: BufRead> Iterator for Characters<'_, R> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let first = self.byte()?;
        let length = match first {
            0x00..0x80 => return Some(char::from(first)),
            0xc2..0xe0 => 2,
            0xe0..0xf0 => 3,
            0xf0..0xf5 => 4,
            _ => return Some(char::REPLACEMENT_CHARACTER),
        };
        let mut bytes = [first, 0, 0, 0];
        for slot in bytes.iter_mut().take(length).skip(1) {
            *slot = self.byte()?;
        }
        let text = bytes.get(..length).and_then(|bytes| std::str::from_utf8(bytes).ok());
        Some(text.and_then(|text| text.chars().next()).unwrap_or(char::REPLACEMENT_CHARACTER))
    }
}

/// One open mapping or sequence.
enum Open {
    /// The key whose value is next; `None` if a key is next.
    Mapping(Option<String>),
    Sequence,
}

#[derive(Default)]
struct Walk {
    open: Vec<Open>,
    documents: usize,
    kind: String,
    has_items: bool,
    node: Raw,
    node_kind: String,
}

impl Walk {
    fn event<F: FnMut(FileNode)>(&mut self, event: Event<'_>, collector: &mut NodeCollector<F>) -> Result<(), Error> {
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                self.kind.clear();
                self.has_items = false;
                self.node = Raw::default();
            }
            Event::DocumentEnd => self.document_end(collector)?,
            Event::MappingStart(..) => {
                self.open.push(Open::Mapping(None));
            }
            Event::SequenceStart(..) => {
                if self.is_at(&["items"]) {
                    self.has_items = true;
                }
                self.open.push(Open::Sequence);
            }
            Event::MappingEnd | Event::SequenceEnd => {
                self.open.pop();
                if self.has_items && matches!(event, Event::MappingEnd) && self.is_in_items() {
                    self.node_ends(collector)?;
                }
                self.value_ended();
            }
            Event::Scalar(text, style, ..) => self.scalar(&text, style, collector.count)?,
            Event::Alias(_) => self.value_ended(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd => {}
        }
        Ok(())
    }

    /// Whether the next value is at this path of mapping keys, from the root or from an item of the list.
    fn is_at(&self, path: &[&str]) -> bool {
        self.keys().is_some_and(|keys| keys == path)
    }

    /// The mapping keys down to the present value, without the way into an item of the list.
    fn keys(&self) -> Option<Vec<&str>> {
        let skip = if self.is_below_items() { 2 } else { 0 };
        self.open
            .iter()
            .skip(skip)
            .map(|open| match open {
                Open::Mapping(Some(key)) => Some(key.as_str()),
                _ => None,
            })
            .collect()
    }

    fn is_below_items(&self) -> bool {
        matches!(self.open.as_slice(), [Open::Mapping(Some(key)), Open::Sequence, _, ..] if key == "items")
    }

    fn is_in_items(&self) -> bool {
        matches!(self.open.as_slice(), [Open::Mapping(Some(key)), Open::Sequence] if key == "items")
    }

    fn value_ended(&mut self) {
        if let Some(Open::Mapping(key)) = self.open.last_mut() {
            *key = None;
        }
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, index: usize) -> Result<(), Error> {
        if let Some(Open::Mapping(key @ None)) = self.open.last_mut() {
            *key = Some(text.to_owned());
            return Ok(());
        }
        if self.open.is_empty() {
            return match text.is_empty() || text == "~" {
                true => Ok(()),
                false => Err(NotNodes::Text.into()),
            };
        }
        let below = self.is_below_items();
        match self.keys().as_deref() {
            Some(["kind"]) if below => self.node_kind = text.to_owned(),
            Some(["kind"]) => self.kind = text.to_owned(),
            Some(["metadata", "name"]) => self.node.name = string(text, style, index, "metadata.name")?,
            Some(["metadata", "labels", key]) => {
                let pair = ((*key).to_owned(), string(text, style, index, "metadata.labels")?);
                self.node.labels.push(pair);
            }
            Some(["metadata", "annotations", key]) => {
                let pair = ((*key).to_owned(), string(text, style, index, "metadata.annotations")?);
                self.node.annotations.push(pair);
            }
            _ => {}
        }
        self.value_ended();
        Ok(())
    }

    fn node_ends<F: FnMut(FileNode)>(&mut self, collector: &mut NodeCollector<F>) -> Result<(), Error> {
        let kind = std::mem::take(&mut self.node_kind);
        if !kind.is_empty() && !is_node_kind(&kind) {
            return Err(NotNodes::Item { index: collector.count, kind }.into());
        }
        collector.node(std::mem::take(&mut self.node))
    }

    fn document_end<F: FnMut(FileNode)>(&mut self, collector: &mut NodeCollector<F>) -> Result<(), Error> {
        self.open.clear();
        if self.has_items && (self.kind.is_empty() || is_list_kind(&self.kind)) {
            return Ok(());
        }
        if is_node_kind(&self.kind) && !self.has_items {
            return collector.node(std::mem::take(&mut self.node));
        }
        match is_list_kind(&self.kind) {
            true => Err(NotNodes::NoItems.into()),
            false => Err(NotNodes::Kind(self.kind.clone()).into()),
        }
    }
}

/// A plain scalar that YAML reads as a number, a boolean or null is no string; `kubectl` quotes those.
fn string(text: &str, style: ScalarStyle, index: usize, path: &'static str) -> Result<String, Error> {
    let plain = matches!(style, ScalarStyle::Plain);
    let other = text.parse::<f64>().is_ok()
        || matches!(
            text.to_ascii_lowercase().as_str(),
            "" | "~" | "null" | "true" | "false" | "yes" | "no" | "on" | "off"
        );
    match plain && other {
        true => Err(NotNodes::NoString { index, path, text: text.to_owned() }.into()),
        false => Ok(text.to_owned()),
    }
}
