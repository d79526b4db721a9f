//! The whole document: a list of entries, and what stands for each source.

use super::entry::{self, EntryConfig};
use super::read::{At, Place, Report};
use super::yaml::{self, Kind, Node};
use super::{Error, Problem};
use std::collections::BTreeMap;

/// The one key of the top level.
const LIST: &str = "networkTopologyDiscovery";

/// A document that could be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// What stands for each source, in the order of the document; no source is there twice.
    ///
    /// Of several entries for one source the first that is enabled, or that might be, stands for it; else the first.
    /// Entries whose source cannot be read stand for nothing and are here so that they can be shown.
    pub entries: Vec<Entry>,
    /// What is odd without being an error: unknown keys, repeated keys, entries that do not count.
    pub warnings: Vec<Problem>,
}

/// One entry of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its position in the list, from 0.
    pub index: usize,
    /// Its first line, from 1.
    pub line: usize,
    /// The source it names, where that could be read.
    pub source: Option<String>,
    /// The entry, or everything that is wrong with it; never an empty list.
    pub config: Result<EntryConfig, Vec<Problem>>,
}

/// What the document says about one source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing<'a> {
    /// It runs so.
    Enabled(&'a EntryConfig),
    /// Its entry is wrong: the last good version goes on.
    Invalid(&'a [Problem]),
    /// It does not run.
    Disabled(&'a EntryConfig),
    /// No entry names it. It was removed only if [`Document::names_all_sources`]; else the last good version goes on.
    Absent,
}

impl Document {
    /// What the document says about `source`.
    #[must_use]
    pub fn standing(&self, source: &str) -> Standing<'_> {
        match self.entries.iter().find(|entry| entry.source.as_deref() == Some(source)) {
            None => Standing::Absent,
            Some(Entry { config: Err(problems), .. }) => Standing::Invalid(problems),
            Some(Entry { config: Ok(config), .. }) if config.enabled => Standing::Enabled(config),
            Some(Entry { config: Ok(config), .. }) => Standing::Disabled(config),
        }
    }

    /// The entries that run, in the order of the document.
    pub fn enabled(&self) -> impl Iterator<Item = &EntryConfig> {
        self.entries.iter().filter_map(|entry| entry.config.as_ref().ok()).filter(|config| config.enabled)
    }

    /// Whether every entry names its source. If not, an absent source may be the one that could not be read, and must
    /// not be taken for removed.
    #[must_use]
    pub fn names_all_sources(&self) -> bool {
        self.entries.iter().all(|entry| entry.source.is_some())
    }

    /// Everything wrong with entries, in the order of the document.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.entries.iter().filter_map(|entry| entry.config.as_ref().err()).flatten()
    }
}

/// Reads a whole document; see [`super::parse`].
pub(super) fn parse(text: &str) -> Result<Document, Error> {
    let mut tree = yaml::load(text, 0)?;
    if let Some((inner, line)) = tree.root.as_ref().and_then(|root| root.embedded_document()) {
        let inner = inner.to_owned();
        let repeated = tree.repeated;
        tree = yaml::load(&inner, line)?;
        tree.repeated.extend(repeated);
    }
    let mut report = Report::default();
    for repeated in &tree.repeated {
        let message = "stands here again; the last one counts".to_owned();
        report.warning(Place { path: repeated.key.clone(), line: repeated.line }, message);
    }
    let Some(root) = tree.root else { return Ok(Document { entries: Vec::new(), warnings: report.warnings }) };
    let entries = match list(&root, &mut report)? {
        Some(list) => read_entries(&list, &mut report),
        None => Vec::new(),
    };
    Ok(Document { entries: choose(entries, &mut report), warnings: report.warnings })
}

/// The list of entries, or nothing where the document has none.
fn list<'a>(root: &'a Node, report: &mut Report) -> Result<Option<At<'a>>, Error> {
    let shape = |node: &Node, path, wanted| Error::Shape { line: node.line, path, wanted, found: node.kind().words() };
    if root.kind() == Kind::Null {
        return Ok(None);
    }
    let Some(mut fields) = At::top(root).into_fields() else {
        return Err(shape(root, "the document", "a mapping"));
    };
    let list = fields.take(LIST);
    fields.warn_unknown(&[LIST], report);
    match list {
        Some(at) if at.node.kind() != Kind::List => Err(shape(at.node, LIST, "a list of entries")),
        list => Ok(list),
    }
}

/// An entry and whether it claims its source: it is enabled, or it cannot be said that it is not.
struct Candidate {
    entry: Entry,
    claims: bool,
}

fn read_entries(list: &At<'_>, report: &mut Report) -> Vec<Candidate> {
    list.items().into_iter().enumerate().map(|(index, at)| read_entry(index, at, report)).collect()
}

fn read_entry(index: usize, at: At<'_>, warnings: &mut Report) -> Candidate {
    let (line, place) = (at.node.line, at.place());
    let found = at.node.kind();
    let mut report = Report::default();
    let Some(mut fields) = at.into_fields() else {
        let message = format!("an entry must be a mapping with a source, not {}", found.words());
        let config = Err(vec![Problem { path: place.path, line, message }]);
        return Candidate { entry: Entry { index, line, source: None, config }, claims: false };
    };
    let has_source = fields.has("source");
    // The hash covers source and enabled too, so they are only looked at here and taken below.
    let source = fields.peek("source", &mut report, entry::source);
    if !has_source {
        report.error(fields.place("source"), "is missing: every entry needs one".to_owned());
    }
    let broken_enabled = report.errors.len();
    let enabled = fields.peek("enabled", &mut report, At::boolean);
    let claims = enabled == Some(true) || report.errors.len() > broken_enabled;
    let config = entry::read(&mut fields, source.as_deref().unwrap_or_default(), claims, &mut report);
    fields.warn_unknown(&entry::KEYS, &mut report);
    warnings.warnings.append(&mut report.warnings);
    let disabled = !claims && source.is_some();
    let config = if report.errors.is_empty() {
        Ok(config)
    } else if disabled {
        // What is switched off is off; what else is wrong with it is worth a warning.
        warnings.warnings.append(&mut report.errors);
        Ok(config)
    } else {
        Err(report.errors)
    };
    Candidate { entry: Entry { index, line, source, config }, claims }
}

/// Leaves one entry per source and reports the enabled ones that do not count.
fn choose(candidates: Vec<Candidate>, report: &mut Report) -> Vec<Entry> {
    let mut chosen: BTreeMap<String, (usize, bool)> = BTreeMap::new();
    for (position, Candidate { entry, claims }) in candidates.iter().enumerate() {
        let Some(source) = &entry.source else { continue };
        match chosen.get(source) {
            Some((first, true)) if *claims => {
                let path = format!("{LIST}[{}].source", entry.index);
                let message = format!(
                    "`{source}` already has the enabled entry {LIST}[{first}], which counts; this one does not"
                );
                report.warning(Place { path, line: entry.line }, message);
            }
            Some((_, true)) => {}
            Some((_, false)) if !*claims => {}
            Some(_) | None => {
                chosen.insert(source.clone(), (position, *claims));
            }
        }
    }
    let stands = |position: usize, entry: &Entry| match &entry.source {
        Some(source) => chosen.get(source).is_some_and(|(first, _)| *first == position),
        None => true,
    };
    let entries = candidates.into_iter().map(|candidate| candidate.entry).enumerate();
    entries.filter(|(position, entry)| stands(*position, entry)).map(|(_, entry)| entry).collect()
}
