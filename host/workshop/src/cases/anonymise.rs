//! Other names for nodes, so that a case can be sent to a stranger. Pure.
//!
//! Owns one mapping: the nodes by name, in order, become `node-0001` and so on, so that what sorts names sorts these alike.
//! A name is replaced wherever it is a word of its own, be it before the domain of a longer one, in any case of letters:
//! fabric managers write host names as they like. Never touches anything else: names of racks, switches and sites stay.
//!
//! # Failure story
//!
//! A body that is no text may have names in it that cannot be seen, so such a recording is refused. A plugin that reads
//! something out of the names themselves answers otherwise afterwards; what writes the case asks it again and compares.

use std::collections::BTreeMap;

use serde_json::Value;
use topoloom_sandbox::endpoints::recording::Recording;

use crate::node_file::FileNode;
use crate::nodes::Nodes;

/// The names and what they become.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// By the name in small letters.
    others: BTreeMap<String, String>,
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
        let others = (1_usize..).zip(names).map(|(number, name)| (name, format!("node-{number:0digits$}")));
        Self { others: others.collect() }
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
            self.word(word, is_quoted, &mut other);
            rest = after;
        }
        other.push_str(rest);
        other
    }

    /// A word: the name itself, or a longer one that begins with it and a dot. A number is a name only in quotes.
    fn word(&self, word: &str, is_quoted: bool, other: &mut String) {
        let lower = word.to_ascii_lowercase();
        let mut end = lower.len();
        loop {
            let begin = lower.get(..end).unwrap_or_default();
            let may_be = is_quoted || !begin.bytes().all(|byte| byte.is_ascii_digit());
            if let Some(name) = self.others.get(begin).filter(|_| may_be) {
                other.push_str(name);
                other.push_str(word.get(end..).unwrap_or_default());
                return;
            }
            match begin.rfind('.') {
                Some(dot) => end = dot,
                None => break,
            }
        }
        other.push_str(word);
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

    /// A text that may be a name as a whole, then also one that is a number.
    fn value(&self, value: &str) -> String {
        match self.others.get(&value.to_ascii_lowercase()) {
            Some(name) => name.clone(),
            None => self.text(value),
        }
    }

    /// The texts of a configuration. Its keys are the plugin's.
    #[must_use]
    pub fn config(&self, config: &Value) -> Value {
        match config {
            Value::String(text) => Value::String(self.value(text)),
            Value::Array(items) => items.iter().map(|item| self.config(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter().map(|(key, value)| (key.clone(), self.config(value)));
                Value::Object(fields.collect())
            }
            other => other.clone(),
        }
    }

    /// A recording: what was asked for, and every answer.
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
                exchange.set_body(self.text(&body).into_bytes());
            }
        }
        if wrong.is_empty() { Ok(recording) } else { Err(wrong) }
    }
}

/// Digits of a number at least.
const LEAST: usize = 4;

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
            ("m2-hca m20 xm2 m2x", "m2-hca m20 xm2 m2x"),
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
            {"endpoint": "e", "method": "GET", "path": "/x", "status": 200}]}}}"#;
        let recording = Recording::parse(text).unwrap();
        let names = Names::of(&nodes(&["m1"]));
        let other = names.recording(recording).unwrap().print().unwrap();
        assert!(other.contains("\"/node-0001\"") && other.contains("[\\\"node-0001\\\"]"), "{other}");
        let packed = text.replace(r#""text": "[\"m1\"]""#, r#""bytes": "/w==""#);
        let refused = names.recording(Recording::parse(&packed).unwrap()).unwrap_err();
        assert_eq!(refused, ["GET /m1 of the endpoint e"]);
    }
}
