//! From parser events to the tree, without recursion.

use super::scalar::Scalar;
use super::tree::{Field, MisreadKey, RepeatedKey, Tree, ValueKind, YamlContent, YamlNode};
use super::{MAX_DEPTH, MAX_WEIGHT};
use crate::config::{Error, MAX_BYTES};
use saphyr_parser::{Event, Marker, Parser, ScanError};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Reads the first document of the text. `lines_before` is added to every line.
pub(in crate::config) fn load(text: &str, lines_before: usize) -> Result<Tree, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::TooLarge { bytes: text.len() });
    }
    let mut parser = Parser::new_from_str(text);
    let mut builder = Builder { lines_before, ..Builder::default() };
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| builder.syntax(&error))?;
        if builder.event(event, span.start)? == Progress::Finished {
            break;
        }
    }
    let further = further(&mut parser).map(|line| line + lines_before);
    Ok(Tree { root: builder.root, repeated: builder.repeated, misread: builder.misread, further })
}

/// Reads all documents of the text; those without content are left out.
pub(in crate::config) fn load_all(text: &str) -> Result<Vec<Tree>, Error> {
    if text.len() > MAX_BYTES {
        return Err(Error::TooLarge { bytes: text.len() });
    }
    let mut parser = Parser::new_from_str(text);
    let mut trees = Vec::new();
    let mut builder = Builder::default();
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| builder.syntax(&error))?;
        if builder.event(event, span.start)? == Progress::Finished {
            let Builder { root, repeated, misread, .. } = std::mem::take(&mut builder);
            let says_something = root.as_ref().is_some_and(|root| root.kind() != ValueKind::Null);
            trees.extend(says_something.then_some(Tree { root, repeated, misread, further: None }));
        }
    }
    Ok(trees)
}

/// Where a further document begins that says something. What is wrong with it does not matter.
fn further(parser: &mut Parser<'_, impl saphyr_parser::Input>) -> Option<usize> {
    let mut line = None;
    loop {
        match parser.next_event()?.ok()? {
            (Event::DocumentStart(_), span) => line = Some(span.start.line()),
            (Event::Scalar(text, ..), _) if text.is_empty() => return None,
            (Event::Nothing | Event::StreamStart | Event::DocumentEnd, _) => {}
            (Event::StreamEnd, _) => return None,
            _ => return line,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    More,
    Finished,
}

#[derive(Default)]
struct Builder {
    lines_before: usize,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Rc<YamlNode>>,
    root: Option<Rc<YamlNode>>,
    repeated: Vec<RepeatedKey>,
    misread: Vec<MisreadKey>,
}

/// A list or mapping that is not finished.
struct Frame {
    line: usize,
    /// Zero where it has none.
    anchor: usize,
    weight: usize,
    content: Open,
}

enum Open {
    List(Vec<Rc<YamlNode>>),
    Map { own: Vec<Field>, index: BTreeMap<String, usize>, merged: Vec<Rc<YamlNode>>, key: Option<PendingKey> },
}

/// A key that waits for its value.
enum PendingKey {
    Named { key: String, line: usize },
    Merge,
}

impl Builder {
    fn event(&mut self, event: Event<'_>, start: Marker) -> Result<Progress, Error> {
        let line = start.line() + self.lines_before;
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let weight = 1 + text.len();
                let content = YamlContent::Scalar(Scalar::new(&text, style, tag.as_deref()));
                self.finish(YamlNode { line, weight, content }, anchor)?;
            }
            Event::SequenceStart(anchor, _) => self.open(line, anchor, Open::List(Vec::new()))?,
            Event::MappingStart(anchor, _) => {
                let content = Open::Map { own: Vec::new(), index: BTreeMap::new(), merged: Vec::new(), key: None };
                self.open(line, anchor, content)?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close()?,
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor).cloned() else {
                    // The parser knows the name, so the anchor is one of those that are not finished.
                    return Err(self.syntax_at(start, "an alias inside of its own anchor"));
                };
                self.put(node, start)?;
            }
            Event::DocumentEnd | Event::StreamEnd => return Ok(Progress::Finished),
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => {}
        }
        Ok(Progress::More)
    }

    fn open(&mut self, line: usize, anchor: usize, content: Open) -> Result<(), Error> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(Error::TooDeep { line });
        }
        self.stack.push(Frame { line, anchor, weight: 1, content });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some(Frame { line, anchor, weight, content }) = self.stack.pop() else { return Ok(()) };
        let (content, weight) = match content {
            Open::List(items) => (YamlContent::List(items), weight),
            Open::Map { own, index, merged, .. } => {
                let (fields, weight) = merge(own, index, &merged, weight, line)?;
                (YamlContent::Map(fields), weight)
            }
        };
        self.finish(YamlNode { line, weight, content }, anchor)
    }

    fn finish(&mut self, node: YamlNode, anchor: usize) -> Result<(), Error> {
        let node = Rc::new(node);
        if anchor != 0 {
            self.anchors.insert(anchor, Rc::clone(&node));
        }
        let start = Marker::new(0, node.line.saturating_sub(self.lines_before), 0);
        self.put(node, start)
    }

    /// Puts a finished value where it belongs.
    fn put(&mut self, node: Rc<YamlNode>, start: Marker) -> Result<(), Error> {
        let (line, column) = (start.line() + self.lines_before, start.col() + 1);
        let wrong = |message: &str| Error::Syntax { line, column, message: message.to_owned() };
        let no_key = || wrong("a key must be a text, a number or a boolean");
        let no_merge = || wrong("`<<` takes a mapping or a list of mappings");
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        frame.weight = frame.weight.saturating_add(node.weight);
        if frame.weight > MAX_WEIGHT {
            return Err(Error::TooManyAliases { line });
        }
        match &mut frame.content {
            Open::List(items) => items.push(node),
            Open::Map { own, index, merged, key } => match key.take() {
                None => {
                    let YamlContent::Scalar(scalar) = &node.content else { return Err(no_key()) };
                    *key = Some(if scalar.is_merge() {
                        PendingKey::Merge
                    } else {
                        let named = scalar.key().ok_or_else(no_key)?;
                        if named != scalar.text {
                            let (written, kind) = (scalar.text.clone(), scalar.kind());
                            self.misread.push(MisreadKey { written, kind, key: named.clone(), line });
                        }
                        PendingKey::Named { key: named, line }
                    });
                }
                Some(PendingKey::Merge) => match &node.content {
                    YamlContent::Map(_) => merged.push(node),
                    YamlContent::List(items) if items.iter().all(|item| item.map().is_some()) => {
                        merged.extend(items.iter().cloned());
                    }
                    _ => return Err(no_merge()),
                },
                Some(PendingKey::Named { key, line }) => {
                    let field = Field { key: key.clone(), value: node };
                    match index.get(&key).and_then(|position| own.get_mut(*position)) {
                        Some(earlier) => {
                            self.repeated.push(RepeatedKey { key, line });
                            *earlier = field;
                        }
                        None => {
                            index.insert(key, own.len());
                            own.push(field);
                        }
                    }
                }
            },
        }
        Ok(())
    }

    fn syntax(&self, error: &ScanError) -> Error {
        // The parser's sentences are fixed texts; none repeats a value of the document.
        self.syntax_at(*error.marker(), error.info())
    }

    fn syntax_at(&self, at: Marker, message: &str) -> Error {
        Error::Syntax { line: at.line() + self.lines_before, column: at.col() + 1, message: message.to_owned() }
    }
}

/// The fields of a mapping with those that it merges: its own win, then those of the earlier mapping.
fn merge(
    mut own: Vec<Field>,
    mut index: BTreeMap<String, usize>,
    merged: &[Rc<YamlNode>],
    mut weight: usize,
    line: usize,
) -> Result<(Vec<Field>, usize), Error> {
    for field in merged.iter().filter_map(|node| node.map()).flatten() {
        // Counted whether or not it is new: this bounds the work too.
        weight = weight.saturating_add(field.value.weight + field.key.len() + 1);
        if weight > MAX_WEIGHT {
            return Err(Error::TooManyAliases { line });
        }
        if !index.contains_key(&field.key) {
            index.insert(field.key.clone(), own.len());
            own.push(field.clone());
        }
    }
    Ok((own, weight))
}
