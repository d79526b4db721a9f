//! The whole document: a list of entries, and the one that counts for each source.

use super::entry::{self, EntryConfig};
use super::read::{At, Place, ReadReport};
use super::yaml::{self, Tree, ValueKind, YamlNode};
use super::{ConfigProblem, Error};
use std::collections::BTreeMap;
use topoloom_core::names::SourceName;

/// The one key of the top level.
pub(super) const LIST: &str = "networkTopologyDiscovery";

/// A document that could be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// The entry that counts for each source, in the order of the document; no source is there twice.
    ///
    /// Of several entries for one source, the first that is enabled, or that might be, counts; otherwise the first.
    /// Entries that may be enabled and whose source cannot be read are here too: they mean an unknown source.
    pub entries: Vec<Entry>,
    /// What is odd without being an error: unknown keys, repeated keys, entries that do not count. A bounded number.
    pub warnings: Vec<ConfigProblem>,
}

/// One entry of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its position in the list, from 0.
    pub index: usize,
    /// Its first line, from 1.
    pub line: usize,
    /// The source it names, where that could be read.
    pub source: Option<SourceName>,
    /// The entry, or everything that is wrong with it; never an empty list.
    pub config: Result<EntryConfig, Vec<ConfigProblem>>,
}

/// What the document says about one source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EntryState<'a> {
    /// It runs so.
    Enabled(&'a EntryConfig),
    /// Its entry is wrong: the last valid version continues.
    Invalid(&'a [ConfigProblem]),
    /// It does not run.
    Disabled(&'a EntryConfig),
    /// No entry names it. It was removed only if [`Document::names_all_sources`]; else the last valid version
    /// continues.
    Absent,
}

impl Document {
    /// What the document says about `source`.
    #[must_use]
    pub fn state_of(&self, source: &SourceName) -> EntryState<'_> {
        match self.entries.iter().find(|entry| entry.source.as_ref() == Some(source)) {
            None => EntryState::Absent,
            Some(Entry { config: Err(problems), .. }) => EntryState::Invalid(problems),
            Some(Entry { config: Ok(config), .. }) if config.enabled => EntryState::Enabled(config),
            Some(Entry { config: Ok(config), .. }) => EntryState::Disabled(config),
        }
    }

    /// The entries that run, in the order of the document.
    pub fn enabled(&self) -> impl Iterator<Item = &EntryConfig> {
        self.entries.iter().filter_map(|entry| entry.config.as_ref().ok()).filter(|config| config.enabled)
    }

    /// Whether every entry that may be enabled names its source. If not, an absent source may be the one that could not
    /// be read, and must not be taken for removed.
    #[must_use]
    pub fn names_all_sources(&self) -> bool {
        self.entries.iter().all(|entry| entry.source.is_some())
    }

    /// Whether it names no source and says something that the host cannot read: that is no wish to remove them all.
    #[must_use]
    pub fn is_doubtful(&self) -> bool {
        self.entries.is_empty() && !self.warnings.is_empty()
    }

    /// Whether it has no entry at all: it is empty, or all of it is commented out, or it lacks its list, or has nothing
    /// in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Everything wrong with entries, in the order of the document.
    pub fn errors(&self) -> impl Iterator<Item = &ConfigProblem> {
        self.entries.iter().filter_map(|entry| entry.config.as_ref().err()).flatten()
    }
}

/// Reads a file; see [`super::parse_file`].
pub(super) fn parse_file(text: &str) -> Result<Document, Error> {
    read_or_unwrap(yaml::load(text, 0)?)
}

/// Reads a document, or the one in the manifest of a ConfigMap.
pub(super) fn read_or_unwrap(tree: Tree) -> Result<Document, Error> {
    let field = |node: &YamlNode, key: &str| node.field(key).cloned();
    let Some(root) = &tree.root else { return read(tree) };
    if root.field("kind").and_then(|kind| kind.text()) != Some("ConfigMap") {
        return read(tree);
    }
    let key = super::location::KEY;
    match field(root, "data").and_then(|data| field(&data, key)) {
        Some(document) if document.embedded_document().is_some() => read(Tree { root: Some(document), ..tree }),
        found => {
            let path = "data[\"volcano-controller.conf\"]";
            let kind = found.map_or(ValueKind::Null, |found| found.kind());
            Err(Error::Shape { line: root.line, path, wanted: "the document as a text", found: kind.words() })
        }
    }
}

/// Reads a whole document; see [`super::parse`].
pub(super) fn parse(text: &str) -> Result<Document, Error> {
    read(yaml::load(text, 0)?)
}

fn read(mut tree: Tree) -> Result<Document, Error> {
    if let Some((inner, line)) = tree.root.as_ref().and_then(|root| root.embedded_document()) {
        let inner = inner.to_owned();
        let outer = tree;
        tree = yaml::load(&inner, line)?;
        tree.repeated.extend(outer.repeated);
        tree.misread.extend(outer.misread);
        tree.further = tree.further.or(outer.further);
    }
    let mut report = ReadReport::default();
    if let Some(line) = tree.further {
        let message = "begins a second document, which is not read".to_owned();
        report.warning(Place { path: "---".to_owned(), line }, message);
    }
    for repeated in &tree.repeated {
        let message = "is given again here; the last one is used".to_owned();
        report.warning(Place { path: repeated.key.clone(), line: repeated.line }, message);
    }
    for misread in &tree.misread {
        let message = format!(
            "without quotes this key is {} in YAML 1.1 and means {:?}; write it in quotes if the text is meant",
            misread.kind.words(),
            misread.key
        );
        report.warning(Place { path: misread.written.clone(), line: misread.line }, message);
    }
    let Some(root) = tree.root else { return Ok(Document { entries: Vec::new(), warnings: report.warnings }) };
    let entries = match list(&root, &mut report)? {
        Some(list) => read_entries(&list, &mut report),
        None => Vec::new(),
    };
    Ok(Document { entries: choose(entries, &mut report), warnings: report.warnings })
}

/// The list of entries, or nothing where the document has none.
fn list<'a>(root: &'a YamlNode, report: &mut ReadReport) -> Result<Option<At<'a>>, Error> {
    let shape =
        |node: &YamlNode, path, wanted| Error::Shape { line: node.line, path, wanted, found: node.kind().words() };
    if root.kind() == ValueKind::Null {
        return Ok(None);
    }
    let Some(mut fields) = At::top(root).into_fields() else {
        return Err(shape(root, "the document", "a mapping"));
    };
    let list = fields.take(LIST);
    fields.warn_unknown(&[LIST], report);
    match list {
        Some(at) if at.node.kind() != ValueKind::List => Err(shape(at.node, LIST, "a list of entries")),
        list => Ok(list),
    }
}

/// An entry and whether it claims its source: it is enabled, or it cannot be said that it is not.
struct EntryClaim {
    entry: Entry,
    claims: bool,
}

fn read_entries(list: &At<'_>, report: &mut ReadReport) -> Vec<EntryClaim> {
    let items = list.items().into_iter().enumerate();
    items.filter_map(|(index, at)| read_entry(index, at, report)).collect()
}

/// Reads one entry; `None` if it has no source and is not enabled, so that it cannot matter.
fn read_entry(index: usize, at: At<'_>, warnings: &mut ReadReport) -> Option<EntryClaim> {
    let (place, kind) = (at.place(), at.node.kind());
    let line = place.line;
    let Some(mut fields) = at.into_fields() else {
        let message = format!("an entry must be a mapping with a source, not {}", kind.words());
        if kind == ValueKind::Null {
            warnings.warning(place, message);
            return None;
        }
        let config = Err(vec![ConfigProblem { path: place.path, line, message }]);
        return Some(EntryClaim { entry: Entry { index, line, source: None, config }, claims: true });
    };
    let mut report = ReadReport::default();
    // Left in the mapping, since the hash covers both.
    let source = fields.peek("source", &mut report, entry::source);
    if !fields.has("source") {
        report.error(fields.place("source"), "is missing; every entry needs one".to_owned());
    }
    let before = report.errors.len();
    let enabled = fields.peek("enabled", &mut report, At::boolean);
    let claims = enabled == Some(true) || report.errors.len() > before;
    let config = entry::read(&mut fields, source.as_ref(), claims, &mut report);
    fields.warn_unknown(&entry::KEYS, &mut report);
    warnings.warn_all(std::mem::take(&mut report.warnings));
    if !claims {
        // What is switched off is off; what else is wrong with it is only worth saying.
        warnings.warn_all(std::mem::take(&mut report.errors));
        source.as_ref()?;
    }
    // Without a source there is an error that says so.
    let config = config.filter(|_| report.errors.is_empty()).ok_or(report.errors);
    Some(EntryClaim { entry: Entry { index, line, source, config }, claims })
}

/// Leaves one entry per source and reports the enabled ones that do not count.
fn choose(candidates: Vec<EntryClaim>, report: &mut ReadReport) -> Vec<Entry> {
    // Per source the index of the entry that counts, and whether that one claims it.
    let mut chosen: BTreeMap<SourceName, (usize, bool)> = BTreeMap::new();
    for EntryClaim { entry, claims } in &candidates {
        let Some(source) = &entry.source else { continue };
        match chosen.get(source) {
            Some((first, true)) if *claims => {
                let path = format!("{LIST}[{}].source", entry.index);
                let message = format!(
                    "`{source}` already has the enabled entry {LIST}[{first}], which is used; this one is ignored"
                );
                report.warning(Place { path, line: entry.line }, message);
            }
            Some((_, true)) => {}
            Some((_, false)) if !*claims => {}
            Some(_) | None => {
                chosen.insert(source.clone(), (entry.index, *claims));
            }
        }
    }
    let stands = |entry: &Entry| match &entry.source {
        Some(source) => chosen.get(source).is_some_and(|(index, _)| *index == entry.index),
        None => true,
    };
    candidates.into_iter().map(|candidate| candidate.entry).filter(stands).collect()
}
