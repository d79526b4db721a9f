//! Other names for nodes, so that a case can be sent to a stranger. Pure.
//!
//! Owns one mapping: the nodes by name, in order, become `node-0001` and so on, so that what sorts names sorts these alike.
//! A name is replaced wherever it is a word of its own, be it before the domain of a longer one, in any case of letters:
//! fabric managers write host names as they like. The first part of a longer name stands for all of it. A name of letters and
//! something else is also replaced as a part of a longer word (`gpu-01-hca0`); one such as `a` or `1` is not, since it would
//! be found everywhere. Never touches anything else: names of racks, switches and sites stay.
//!
//! # Failure story
//!
//! A body that is no text may have names in it that cannot be seen, so such a recording is refused; so is a case that still has
//! a name ([`Names::left_in`]). A plugin that reads something out of the names themselves answers otherwise afterwards; what
//! writes the case asks it again and compares.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::IgnoredAny;
use serde_json::Value;
use topoloom_sandbox::endpoints::recording::Recording;

use crate::node_file::FileNode;
use crate::nodes::Nodes;

/// The names and what they become.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// By the name in small letters, or by its first part if that is distinct.
    others: BTreeMap<String, String>,
    /// By other first parts, which are names only where a text has nothing else.
    whole: BTreeMap<String, String>,
    /// The longest name, in bytes.
    longest: usize,
    /// Names that no file may have at the end.
    checked: BTreeSet<String>,
}

impl Names {
    /// For these nodes.
    #[must_use]
    pub fn of(nodes: &Nodes) -> Self {
        let mut names: Vec<String> = nodes.list.iter().map(|node| node.name.to_ascii_lowercase()).collect();
        names.sort_unstable();
        names.dedup();
        // All numbers have as many digits, so that they sort as the names did.
        let digits = names.len().to_string().len().max(LEAST);
        let other = |(number, name): (usize, &String)| (name.clone(), format!("{OTHER}{number:0digits$}"));
        let mut others: BTreeMap<String, String> = (1_usize..).zip(&names).map(other).collect();
        let replaced: BTreeSet<&String> = others.values().collect();
        let is_checked = |name: &&String| name.len() >= CHECKED && is_distinct(name) && !replaced.contains(name);
        let checked = names.iter().filter(is_checked).cloned().collect();
        let mut whole = BTreeMap::new();
        for name in &names {
            let first = name.split_once('.').map(|(first, _)| first).filter(|first| !is_number(first));
            let (Some(first), Some(other)) = (first, others.get(name).cloned()) else { continue };
            // A node that is called so itself is there already.
            let firsts = if is_distinct(first) { &mut others } else { &mut whole };
            firsts.entry(first.to_owned()).or_insert(other);
        }
        let longest = names.iter().map(String::len).max().unwrap_or_default();
        Self { others, whole, longest, checked }
    }

    /// The same without names that may be words of a language.
    fn distinct(&self) -> Self {
        let others = self.others.iter().filter(|(name, _)| is_distinct(name));
        let others = others.map(|(name, other)| (name.clone(), other.clone())).collect();
        Self { others, longest: self.longest, ..Self::default() }
    }

    /// A text in which they may occur.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        let mut other = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(is_part) {
            let (before, word) = rest.split_at(at);
            let end = word.find(|c: char| !is_part(c)).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            other.push_str(before);
            let is_quoted = before.ends_with('"') && after.starts_with('"');
            self.word(word, escaped(before, word), is_quoted, &mut other);
            rest = after;
        }
        other.push_str(rest);
        other
    }

    /// A word, of which so many bytes may be the end of an escape sequence.
    fn word(&self, word: &str, escape: usize, is_quoted: bool, other: &mut String) {
        let lower = word.to_ascii_lowercase();
        let is_edge = |at: usize| lower.as_bytes().get(at).is_none_or(|byte| matches!(byte, b'-' | b'.'));
        let (mut copied, mut begin) = (0, 0);
        while begin < lower.len() {
            let is_begin = begin == 0 || begin == escape || is_edge(begin - 1);
            let found = if is_begin { self.longest_at(&lower, begin, escape, is_quoted) } else { None };
            match found {
                Some((end, name)) => {
                    other.push_str(word.get(copied..begin).unwrap_or_default());
                    other.push_str(name);
                    (copied, begin) = (end, end);
                }
                None => begin += 1,
            }
        }
        other.push_str(word.get(copied..).unwrap_or_default());
    }

    /// The end of the longest name at this place of a word, and what it becomes. A name that is not distinct has to be the
    /// whole word, or what is before its first dot; a number has to be in quotes, too.
    fn longest_at(&self, lower: &str, begin: usize, escape: usize, is_quoted: bool) -> Option<(usize, &str)> {
        let edges = ['-', '.'];
        let first = lower.len() - lower.trim_start_matches(edges).len();
        let last = lower.trim_end_matches(edges).len();
        let after = |end: usize| lower.as_bytes().get(end).copied();
        let ends = (begin + 1..=lower.len().min(begin + self.longest)).rev();
        ends.filter(|end| matches!(after(*end), None | Some(b'-' | b'.'))).find_map(|end| {
            let name = lower.get(begin..end)?;
            let other = self.others.get(name)?;
            let is_whole = (begin == first || begin == escape) && (end >= last || after(end) == Some(b'.'));
            let may_be = if is_number(name) { is_whole && is_quoted } else { is_whole || is_distinct(name) };
            may_be.then_some((end, other.as_str()))
        })
    }

    /// A document in JSON, or several of them one after the other: its texts, and its keys. Everything else stays as it is
    /// written. `None`: it is no such document.
    fn json(&self, text: &str) -> Option<String> {
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        if !documents.all(|document| document.is_ok()) {
            return None;
        }
        let mut other = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('"') {
            let (before, quoted) = rest.split_at(at);
            let (quoted, after) = quoted.split_at(end_of(quoted));
            other.push_str(before);
            match serde_json::from_str::<String>(quoted) {
                Ok(said) => match self.value(&said) {
                    // What has no name stays in the very form that the service wrote.
                    replaced if replaced == said => other.push_str(quoted),
                    replaced => other.push_str(&Value::String(replaced).to_string()),
                },
                Err(_) => other.push_str(&self.text(quoted)),
            }
            rest = after;
        }
        other.push_str(rest);
        Some(other)
    }

    /// A node whose name is still in a text. Short names and plain words are not looked for, since they would be found in
    /// every text; `gpu-1` is not found in `gpu-12`, which is another machine.
    #[must_use]
    pub fn left_in(&self, text: &str) -> Option<&str> {
        let lower = text.to_ascii_lowercase();
        let bytes = lower.as_bytes();
        let lengths: BTreeSet<usize> = self.checked.iter().map(String::len).collect();
        let begins: BTreeSet<&[u8]> = self.checked.iter().filter_map(|name| name.as_bytes().get(..CHECKED)).collect();
        let continues = |inner: Option<&u8>, outer: Option<&u8>, is: fn(&u8) -> bool| {
            inner.is_some_and(is) && outer.is_some_and(is)
        };
        let mut at = 0;
        while let Some(begin) = bytes.get(at..at + CHECKED) {
            let replaced = self.replaced_at(bytes, at);
            if replaced > 0 {
                at += replaced;
                continue;
            }
            if begins.contains(begin) {
                let before = at.checked_sub(1).and_then(|before| bytes.get(before));
                for length in &lengths {
                    let Some(name) = lower.get(at..at + length).and_then(|word| self.checked.get(word)) else {
                        continue;
                    };
                    let (first, last, after) =
                        (name.as_bytes().first(), name.as_bytes().last(), bytes.get(at + length));
                    let is_longer = continues(first, before, u8::is_ascii_digit)
                        || continues(last, after, u8::is_ascii_digit)
                        || continues(last, after, u8::is_ascii_alphabetic);
                    if !is_longer {
                        return Some(name);
                    }
                }
            }
            at += 1;
        }
        None
    }

    /// The length of the name in place of another one that a text has here; 0: there is none.
    fn replaced_at(&self, bytes: &[u8], at: usize) -> usize {
        let digits = self.others.len().to_string().len().max(LEAST);
        let rest = bytes.get(at..).and_then(|rest| rest.strip_prefix(OTHER.as_bytes()));
        let count = rest.map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
        if (LEAST..=digits).contains(&count) { OTHER.len() + count } else { 0 }
    }

    /// The nodes: their names, and what labels and annotations say of them.
    #[must_use]
    pub fn nodes(&self, nodes: &Nodes) -> Nodes {
        let pairs = |pairs: &[(String, String)]| -> Vec<(String, String)> {
            pairs.iter().map(|(key, value)| (key.clone(), self.value(value))).collect()
        };
        let node = |node: &FileNode| FileNode {
            name: self.value(&node.name).into(),
            labels: pairs(&node.labels),
            annotations: pairs(&node.annotations),
        };
        Nodes { list: nodes.list.iter().map(node).collect() }
    }

    /// A text that may be a name as a whole, then also one that is a number; or a document.
    fn value(&self, value: &str) -> String {
        let lower = value.to_ascii_lowercase();
        if let Some(name) = self.others.get(&lower).or_else(|| self.whole.get(&lower)) {
            return name.clone();
        }
        let may_be = value.trim_start().starts_with(['{', '[', '"']);
        let document = if may_be { self.json(value) } else { None };
        document.unwrap_or_else(|| self.text(value))
    }

    /// The texts of a configuration, and the keys of its maps. Most keys are the plugin's, which may be words that a node is
    /// called, too: only distinct names are replaced in them.
    #[must_use]
    pub fn config(&self, config: &Value) -> Value {
        self.with_keys(&self.distinct(), config)
    }

    fn with_keys(&self, keys: &Self, config: &Value) -> Value {
        match config {
            Value::String(text) => Value::String(self.value(text)),
            Value::Array(items) => items.iter().map(|item| self.with_keys(keys, item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (keys.text(key), self.with_keys(keys, value)));
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }

    /// A recording: what was asked for, every answer, and why there was none.
    ///
    /// # Errors
    /// The exchanges with a body that is no text.
    pub fn recording(&self, mut recording: Recording) -> Result<Recording, Vec<String>> {
        let mut wrong = Vec::new();
        for exchange in recording.exchanges_mut() {
            if !exchange.is_text() {
                wrong.push(exchange.asked());
                continue;
            }
            exchange.path = self.text(&exchange.path);
            for (_, value) in &mut exchange.headers {
                *value = self.text(value);
            }
            let body = exchange.body().ok().and_then(|body| String::from_utf8(body).ok()).unwrap_or_default();
            if !body.is_empty() {
                exchange.set_body(self.json(&body).unwrap_or_else(|| self.text(&body)).into_bytes());
            }
        }
        for message in recording.messages_mut() {
            *message = self.text(message);
        }
        if wrong.is_empty() { Ok(recording) } else { Err(wrong) }
    }
}

/// What a name becomes, before its number.
const OTHER: &str = "node-";

/// Digits of a number at least.
const LEAST: usize = 4;

/// The shortest name that is looked for at the end, in bytes: a shorter one may be in any text by chance.
const CHECKED: usize = 5;

/// Whether a name can hardly be anything else: it has letters, and something beside them.
fn is_distinct(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic();
    name.bytes().any(is_letter) && !name.bytes().all(is_letter)
}

fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// How many bytes of a word belong to what is before it: `\n`, `\u0027` and `%2C` end with letters and digits.
fn escaped(before: &str, word: &str) -> usize {
    let is_hex = |from: usize, count: usize| {
        let digits = word.as_bytes().get(from..from + count);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if before.ends_with('%') {
        return if is_hex(0, 2) { 2 } else { 0 };
    }
    if !before.ends_with('\\') {
        return 0;
    }
    let digits = match word.as_bytes().first() {
        Some(b'u') => 4,
        Some(b'U') => 8,
        Some(b'x') => 2,
        _ => 0,
    };
    if is_hex(1, digits) { 1 + digits } else { 1 }
}

/// Where a text in quotes ends, behind its last one.
fn end_of(quoted: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in quoted.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    quoted.len()
}

/// Whether a character can be part of a name: of the words that it divides a text into, one may be a name.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: &[&str]) -> Nodes {
        let node = |name: &&str| FileNode {
            name: (*name).into(),
            labels: vec![("kubernetes.io/hostname".into(), (*name).to_owned()), ("rack".into(), "m".into())],
            annotations: Vec::new(),
        };
        Nodes { list: names.iter().map(node).collect() }
    }

    #[test]
    fn names_are_replaced_as_words_and_nothing_else_is() {
        let names = Names::of(&nodes(&["m2", "m10", "gpu.example.com", "7"]));
        // Sorted by bytes: 7, gpu.example.com, m10, m2.
        for (text, other) in [
            ("m2", "node-0004"),
            ("M2 HCA-1", "node-0004 HCA-1"),
            ("m2.example.com: m10", "node-0004.example.com: node-0003"),
            ("gpu.example.com,gpu", "node-0002,gpu"),
            // A name of letters and digits, also before and behind a hyphen or a dot.
            ("m2-hca m20 xm2 m2x", "node-0004-hca m20 xm2 m2x"),
            ("m2->m10 ib.m2 -m2-. hca-m2.0", "node-0004->node-0003 ib.node-0004 -node-0004-. hca-node-0004.0"),
            (r"a\nm2 \u0027m2\u0027 x%2Cm2", r"a\nnode-0004 \u0027node-0004\u0027 x%2Cnode-0004"),
            ("It is m2.", "It is node-0004."),
            (r#"{"id": 7, "host": "7", "m": "m2"}"#, r#"{"id": 7, "host": "node-0001", "m": "node-0004"}"#),
            ("/v1/m2?x=m10&n=7", "/v1/node-0004?x=node-0003&n=7"),
            ("\u{e4}m2\u{e4} m2", "\u{e4}node-0004\u{e4} node-0004"),
            ("", ""),
        ] {
            assert_eq!(names.text(text), other, "{text}");
        }
    }

    #[test]
    fn the_first_part_of_a_name_stands_for_it_and_short_names_are_not_found_everywhere() {
        let names = Names::of(&nodes(&["gpu-01.dc1.example.com", "gpu-02", "gpu-02.dc2", "gpu.example.com", "a", "1"]));
        // Sorted by bytes: 1, a, gpu-01…, gpu-02, gpu-02.dc2, gpu.example.com.
        for (text, other) in [
            ("gpu-01 GPU-01.dc1.example.com", "node-0003 node-0003"),
            ("gpu-01.dc9", "node-0003.dc9"),
            ("gpu-02 gpu-02.dc2", "node-0004 node-0005"),
            ("gpu gpu-03", "gpu gpu-03"),
            ("rack-a rack-1 a-1 x.a 1.5 1", "rack-a rack-1 a-1 x.a 1.5 1"),
        ] {
            assert_eq!(names.text(text), other, "{text}");
        }
        assert_eq!((names.value("gpu"), names.value("1")), ("node-0006".to_owned(), "node-0001".to_owned()));
    }

    #[test]
    fn a_document_changes_in_its_texts_and_keys_and_in_nothing_else() {
        let names = Names::of(&nodes(&["gpu-01", "7"]));
        for (text, other) in [
            (r#"{"a":"x\ngpu-01",  "gpu-01": 1.50}"#, r#"{"a":"x\nnode-0002",  "node-0002": 1.50}"#),
            (
                r#"["\u0067pu-01", "\u0027gpu-01", "\u00e4", 7, "7"]"#,
                r#"["node-0002", "'node-0002", "\u00e4", 7, "node-0001"]"#,
            ),
            ("\"gpu-01\"\n\"x\"\n", "\"node-0002\"\n\"x\"\n"),
            (r#"["{\"n\": \"\\ngpu-01\"}"]"#, r#"["{\"n\": \"\\nnode-0002\"}"]"#),
        ] {
            assert_eq!(names.json(text).as_deref(), Some(other), "{text}");
        }
        assert_eq!(names.json("gpu-01: {"), None);
        let config = serde_json::json!({"racks": {"gpu-01": "r", "7": "s"}});
        assert_eq!(names.config(&config), serde_json::json!({"racks": {"node-0002": "r", "7": "s"}}));
    }

    #[test]
    fn a_name_that_is_left_is_found_and_another_machine_is_not() {
        let names = Names::of(&nodes(&["gpu-1", "login-a", "node-1", "de-0001", "a", "m1", "master"]));
        for text in ["gpu-12", "GPU-1x", "xgpu-1", "login-admin", "login-a1", "node-0001 node-1x", "de-0001"] {
            let wanted = match text {
                "gpu-12" | "login-admin" => None,
                "login-a1" => Some("login-a"),
                "node-0001 node-1x" => Some("node-1"),
                "de-0001" => Some("de-0001"),
                _ => Some("gpu-1"),
            };
            assert_eq!(names.left_in(text), wanted, "{text}");
        }
        for text in ["", "a m1 master", "node-0001 node-0007-hca", "\u{e4}gpu", "gpu-\u{e4}"] {
            assert_eq!(names.left_in(text), None, "{text}");
        }
    }

    #[test]
    fn nodes_and_what_names_them_change_alike_and_keep_their_order() {
        let nodes = nodes(&["b", "a", "7"]);
        let names = Names::of(&nodes);
        let other = names.nodes(&nodes);
        assert_eq!(
            other.list.iter().map(|node| node.name.to_string()).collect::<Vec<_>>(),
            ["node-0003", "node-0002", "node-0001"]
        );
        assert!(other.list.iter().all(|node| node.labels[0].1 == *node.name && node.labels[1].1 == "m"));
        let config = serde_json::json!({"a": ["b", 7, {"first": "a"}], "rack": "7"});
        let wanted = serde_json::json!({"a": ["node-0003", 7, {"first": "node-0002"}], "rack": "node-0001"});
        assert_eq!(names.config(&config), wanted);
    }

    #[test]
    fn a_recording_changes_in_what_was_asked_and_what_was_answered() {
        let text = r#"{"version": 1, "sources": {"s": {"exchanges": [
            {"endpoint": "e", "method": "GET", "path": "/m1", "status": 200, "headers": [["etag", "m1-7"]], "text": "[\"m1\"]"},
            {"endpoint": "e", "method": "GET", "path": "/x", "error": {"kind": "connect", "message": "no route to m1"}}],
            "missing": {"e": {"kind": "denied", "denial": "credential", "message": "the Secret ns/m1 is not there"}}}}}"#;
        let recording = Recording::parse(text).unwrap();
        let names = Names::of(&nodes(&["m1"]));
        let other = names.recording(recording).unwrap().print().unwrap();
        assert!(!other.contains("m1") && other.contains("no route to node-0001"), "{other}");
        assert!(other.contains("\"/node-0001\"") && other.contains("[\\\"node-0001\\\"]"), "{other}");
        let packed = text.replace(r#""text": "[\"m1\"]""#, r#""bytes": "/w==""#);
        let refused = names.recording(Recording::parse(&packed).unwrap()).unwrap_err();
        assert_eq!(refused, ["GET /m1 of the endpoint e"]);
    }
}
