//! The members of one object, as raw text: for records with many keys of which few matter.
//!
//! Nothing that is not asked for is understood: a `NaN` or a key that is there twice costs nothing.

use super::scan::{self, Scan};
use std::borrow::Cow;

/// The text is no object, or its shape is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this is no JSON object")
    }
}

impl std::error::Error for Malformed {}

/// A value as it stands in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a>(&'a [u8]);

impl<'a> Raw<'a> {
    /// A value that stands alone, for instance an element of [`super::Elements`].
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self(text)
    }

    /// The text with quotes and brackets.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.0 == b"null"
    }

    /// The content of a string; `None` for everything else and for what is no Unicode.
    #[must_use]
    pub fn text(self) -> Option<Cow<'a, str>> {
        let inside = self.0.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        // A control character belongs behind a backslash; Python's writer lets none through either.
        if inside.contains(&b'\\') {
            serde_json::from_slice(self.0).ok()
        } else {
            str::from_utf8(inside).ok().map(Cow::Borrowed)
        }
    }

    /// A whole number that is not negative.
    #[must_use]
    pub fn number(self) -> Option<u64> {
        str::from_utf8(self.0).ok()?.parse().ok()
    }
}

/// Hands out the members of an object one by one: key and value, both raw, in the order of the document.
///
/// ```
/// use topoloom_sdk::json::{Malformed, Members};
///
/// let mut name = None;
/// for member in Members::of(br#"{"mtu": NaN, "name": "a", "tags": ["x", {}]}"#)? {
///     let (key, value) = member?;
///     if key == b"name" {
///         name = value.text();
///     }
/// }
/// assert_eq!(name.as_deref(), Some("a"));
/// # Ok::<(), Malformed>(())
/// ```
#[derive(Debug)]
pub struct Members<'a> {
    text: &'a [u8],
    at: usize,
    first: bool,
}

impl<'a> Members<'a> {
    /// The members of an object, whose text begins and ends with its braces.
    ///
    /// # Errors
    ///
    /// The text is no object.
    pub fn of(object: &'a [u8]) -> Result<Self, Malformed> {
        let text = object.strip_prefix(b"{").and_then(|text| text.strip_suffix(b"}")).ok_or(Malformed)?;
        Ok(Self { text, at: 0, first: true })
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let begin = self.at;
        let mut at = begin + 1;
        loop {
            at = scan::quote(self.text, at)?;
            if self.text.get(at) == Some(&b'"') {
                break;
            }
            at += 2;
        }
        self.at = at + 1;
        self.text.get(begin..self.at)
    }

    fn value(&mut self) -> Option<Raw<'a>> {
        let rest = self.text.get(self.at..)?;
        let value = match rest.first()? {
            b'"' => self.string()?,
            b'{' | b'[' => {
                let length = Scan::nested().through(rest)?;
                self.at += length;
                rest.get(..length)?
            }
            _ => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b':' | b'"' | b'}' | b']');
                let length = rest.iter().position(ends).unwrap_or(rest.len());
                self.at += length;
                rest.get(..length).filter(|word| !word.is_empty())?
            }
        };
        Some(Raw(value))
    }

    /// The next member; outside nothing is wrong, inside there is none.
    fn member(&mut self) -> Option<Option<(&'a [u8], Raw<'a>)>> {
        self.at = scan::after_space(self.text, self.at);
        if self.at >= self.text.len() {
            return Some(None);
        }
        if !self.first {
            self.pass(b',')?;
            self.at = scan::after_space(self.text, self.at);
        }
        self.first = false;
        if self.text.get(self.at) != Some(&b'"') {
            return None;
        }
        let key = self.string()?;
        self.at = scan::after_space(self.text, self.at);
        self.pass(b':')?;
        self.at = scan::after_space(self.text, self.at);
        let value = self.value()?;
        Some(Some((key.get(1..key.len() - 1)?, value)))
    }

    fn pass(&mut self, byte: u8) -> Option<()> {
        (self.text.get(self.at) == Some(&byte)).then(|| self.at += 1)
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(&'a [u8], Raw<'a>), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.member() {
            Some(member) => member.map(Ok),
            None => {
                self.at = self.text.len();
                Some(Err(Malformed))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(object: &str) -> Option<Vec<(String, String)>> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let members: Result<Vec<_>, _> = Members::of(object.as_bytes()).ok()?.collect();
        Some(members.ok()?.into_iter().map(|(key, value)| (text(key), text(value.bytes()))).collect())
    }

    #[test]
    fn members_come_raw_and_in_order() {
        let object = r#"{ "a":1,"b" : "x\"}," , "a": [1, {"]": 2}],"c":NaN,
            "":null, "d":{"e":{}}}"#;
        let pairs = [("a", "1"), ("b", r#""x\"},""#), ("a", r#"[1, {"]": 2}]"#), ("c", "NaN"), ("", "null")];
        let mut expected: Vec<_> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        expected.push(("d".to_owned(), r#"{"e":{}}"#.to_owned()));
        assert_eq!(read(object), Some(expected));
        assert_eq!(read("{}"), Some(Vec::new()));
        assert_eq!(read("{ \n }"), Some(Vec::new()));
    }

    #[test]
    fn a_broken_object_is_malformed() {
        for object in [
            "",
            "[]",
            "{",
            "7",
            "{a:1}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":"x}"#,
            r#"{"a":[1}"#,
            "{,}",
        ] {
            assert_eq!(read(object), None, "{object}");
        }
        let mut broken = Members::of(br#"{"a" 1}"#).unwrap();
        assert_eq!((broken.next(), broken.next()), (Some(Err(Malformed)), None));
    }

    #[test]
    fn strings_and_numbers_are_read_on_demand() {
        let text = |raw: &'static str| Raw::new(raw.as_bytes()).text();
        assert_eq!(text(r#""zürich""#).as_deref(), Some("zürich"));
        assert_eq!(text(r#""z\u00fcr\"""#).as_deref(), Some("zür\""));
        assert_eq!([text("7"), text("null"), text(r#""\ud800""#), text("\"")], [None, None, None, None]);
        let number = |raw: &'static str| Raw::new(raw.as_bytes()).number();
        assert_eq!([number("12"), number("-1"), number("1.5"), number("NaN")], [Some(12), None, None, None]);
    }
}
