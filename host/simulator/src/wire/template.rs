//! The constant part of a record, laid out once.

use serde::{Deserialize, Serialize};

/// How JSON is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// A line per key, four spaces per level, as UFM writes it: about 1.5 kB per port.
    #[default]
    Indented,
    /// No space that is not needed: about 1 kB per port.
    Compact,
}

/// The value of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TemplateValue<F> {
    /// This JSON, whatever the record.
    Fixed(&'static str),
    /// An array of these strings, whatever the record.
    List(&'static [&'static str]),
    /// What the record has for this field.
    Field(F),
}

/// A record of one kind: alternately constant bytes and a field.
#[derive(Debug)]
pub(crate) struct Template<F> {
    pieces: Vec<(Vec<u8>, F)>,
    end: Vec<u8>,
}

impl<F: Copy> Template<F> {
    pub(crate) fn new(layout: Layout, keys: &[(&str, TemplateValue<F>)]) -> Self {
        let (line, deeper, colon): (&[u8], &[u8], &[u8]) = match layout {
            Layout::Indented => (b"\n        ", b"\n            ", b": "),
            Layout::Compact => (b"", b"", b":"),
        };
        let mut pieces = Vec::new();
        let mut constant = b"{".to_vec();
        for (place, (key, value)) in keys.iter().enumerate() {
            if place > 0 {
                constant.push(b',');
            }
            constant.extend_from_slice(line);
            super::quoted(&mut constant, key);
            constant.extend_from_slice(colon);
            match value {
                TemplateValue::Fixed(json) => constant.extend_from_slice(json.as_bytes()),
                TemplateValue::List([]) => constant.extend_from_slice(b"[]"),
                TemplateValue::List(items) => {
                    constant.push(b'[');
                    for (place, item) in items.iter().enumerate() {
                        if place > 0 {
                            constant.push(b',');
                        }
                        constant.extend_from_slice(deeper);
                        super::quoted(&mut constant, item);
                    }
                    constant.extend_from_slice(line);
                    constant.push(b']');
                }
                TemplateValue::Field(field) => pieces.push((std::mem::take(&mut constant), *field)),
            }
        }
        if layout == Layout::Indented {
            constant.extend_from_slice(b"\n    ");
        }
        constant.push(b'}');
        Self { pieces, end: constant }
    }

    /// Appends one record; `field` appends the JSON of a field.
    pub(crate) fn write(&self, out: &mut Vec<u8>, field: impl Fn(F, &mut Vec<u8>)) {
        for (constant, which) in &self.pieces {
            out.extend_from_slice(constant);
            field(*which, out);
        }
        out.extend_from_slice(&self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_say_the_same() {
        let keys = [
            ("a", TemplateValue::Fixed("1")),
            ("b", TemplateValue::Field(())),
            ("c", TemplateValue::List(&["x", "y"])),
            ("d", TemplateValue::List(&[])),
        ];
        let text = |layout| {
            let mut out = Vec::new();
            Template::new(layout, &keys).write(&mut out, |(), out| out.extend_from_slice(b"true"));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(Layout::Compact), r#"{"a":1,"b":true,"c":["x","y"],"d":[]}"#);
        let read = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap();
        assert_eq!(read(text(Layout::Indented)), read(text(Layout::Compact)));
        assert!(text(Layout::Indented).contains("\n        \"b\": true,"));
    }
}
