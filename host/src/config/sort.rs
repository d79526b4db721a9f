//! What a file holds: discovery documents, options, or manifests around them.

use super::options_file::{self, OptionKey, OptionsFile};
use super::yaml::{self, Tree, YamlNode};
use super::{Document, Error, document, location};
use topoloom_core::near::nearest;

/// One document of a file.
#[derive(Debug)]
pub struct SortedDocument {
    /// Its first line, from 1.
    pub line: usize,
    /// What it is.
    pub content: DocumentKind,
}

/// What a document is, by its keys.
#[derive(Debug)]
pub enum DocumentKind {
    /// A discovery document.
    Discovery(Result<Document, Error>),
    /// One in the manifest of a ConfigMap, with the name of that.
    ConfigMap(String, Result<Document, Error>),
    /// Options of `run`.
    Options(Result<OptionsFile, Error>),
    /// An object of another kind, of which nothing is read.
    Manifest(String),
    /// None of these.
    Unknown,
}

/// Takes a file apart. `known` are the flags that an options file may hold.
///
/// # Errors
/// When it is no YAML: what follows the mistake cannot be read either.
pub fn sort(text: &str, known: &[OptionKey]) -> Result<Vec<SortedDocument>, Error> {
    let part = |tree: Tree| {
        let root = tree.root.clone()?;
        Some(SortedDocument { line: root.line, content: content(&root, tree, known) })
    };
    Ok(yaml::load_all(text)?.into_iter().filter_map(part).collect())
}

fn content(root: &YamlNode, tree: Tree, known: &[OptionKey]) -> DocumentKind {
    let text = |key: &str| root.field(key).and_then(|value| value.text());
    if let (Some(_), Some(kind)) = (text("apiVersion"), text("kind")) {
        let metadata = root.field("metadata");
        let of = |key: &str| metadata.and_then(|metadata| metadata.field(key)).and_then(|value| value.text());
        let name = [of("namespace"), of("name")].into_iter().flatten().collect::<Vec<_>>().join("/");
        let holds = root.field("data").is_some_and(|data| data.field(location::KEY).is_some());
        return match (kind, holds) {
            ("ConfigMap", true) => DocumentKind::ConfigMap(name, document::read_or_unwrap(tree)),
            _ => DocumentKind::Manifest(format!("{kind} {name}")),
        };
    }
    let keys = || root.map().into_iter().flatten().map(|field| field.key.as_str());
    let is_list = |key: &str| nearest(key, [document::LIST].into_iter()).is_some();
    if root.embedded_document().is_some_and(|(text, _)| text.contains(document::LIST)) || keys().any(is_list) {
        return DocumentKind::Discovery(document::read_or_unwrap(tree));
    }
    if options_file::is_likely(root, known) {
        return DocumentKind::Options(options_file::read(&tree, known));
    }
    DocumentKind::Unknown
}

#[cfg(test)]
mod tests {
    use super::options_file::Values;
    use super::*;

    fn kinds(text: &str) -> Vec<(usize, &'static str)> {
        let known = [OptionKey { name: "leader-elect".to_owned(), values: Values::One }];
        let parts = sort(text, &known).unwrap();
        let word = |part: &SortedDocument| match &part.content {
            DocumentKind::Discovery(_) => "discovery",
            DocumentKind::ConfigMap(..) => "config map",
            DocumentKind::Options(_) => "options",
            DocumentKind::Manifest(_) => "manifest",
            DocumentKind::Unknown => "unknown",
        };
        parts.iter().map(|part| (part.line, word(part))).collect()
    }

    #[test]
    fn documents_are_told_apart_by_their_keys() {
        for (text, wanted) in [
            ("networkTopologyDiscovery: []", "discovery"),
            ("networktopologydiscovery: []", "discovery"),
            ("leader-elect: true", "options"),
            ("leaderelect: true", "options"),
            ("apiVersion: v1\nkind: ConfigMap\ndata: {volcano-controller.conf: ''}", "config map"),
            ("apiVersion: v1\nkind: ConfigMap\ndata: {other: ''}", "manifest"),
            ("apiVersion: apps/v1\nkind: Deployment", "manifest"),
            ("a: 1", "unknown"),
            ("text", "unknown"),
            ("- 1", "unknown"),
        ] {
            assert_eq!(kinds(text), [(1, wanted)], "{text:?}");
        }
    }

    #[test]
    fn a_stream_has_several_and_empty_ones_are_left_out() {
        let text = "---\n---\nleader-elect: no\n---\n# nothing\n---\nnetworkTopologyDiscovery: []\n---\n";
        assert_eq!(kinds(text), [(3, "options"), (7, "discovery")]);
        assert_eq!(kinds(""), []);
    }
}
