//! The members of one object, as raw text: for records with many keys of which few matter.
//!
//! Values are not parsed until they are asked for: a `NaN` or a key that occurs twice is no error.

use super::read::{Reader, Token};
use super::scan::{self, Scan};
use std::borrow::Cow;

/// The text is not an object, or not well-formed.
///
/// ```
/// use topoloom_sdk::json::{Malformed, Members};
///
/// assert_eq!(Members::of(b"[1]").err(), Some(Malformed));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("this is not a JSON object")
    }
}

impl std::error::Error for Malformed {}

/// A value as it is written in the document.
///
/// ```
/// use topoloom_sdk::json::Raw;
///
/// assert_eq!(Raw::new(b"12").number(), Some(12));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    bytes: &'a [u8],
    /// Whether a string has no escapes.
    is_plain: bool,
}

impl<'a> Raw<'a> {
    /// A single value, for instance an element of [`super::Elements`].
    ///
    /// ```
    /// let raw = topoloom_sdk::json::Raw::new(br#""m1""#);
    /// assert_eq!(raw.text().as_deref(), Some("m1"));
    /// ```
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self { bytes: text, is_plain: !text.contains(&b'\\') }
    }

    /// The text with quotes and brackets.
    ///
    /// ```
    /// assert_eq!(topoloom_sdk::json::Raw::new(br#""m1""#).bytes(), br#""m1""#);
    /// ```
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it is `null`.
    ///
    /// ```
    /// assert!(topoloom_sdk::json::Raw::new(b"null").is_null());
    /// ```
    #[must_use]
    pub fn is_null(self) -> bool {
        self.bytes == b"null"
    }

    /// The content of a string; `None` for everything else and for invalid Unicode.
    ///
    /// ```
    /// assert_eq!(topoloom_sdk::json::Raw::new(br#""z\u00fcrich""#).text().as_deref(), Some("zürich"));
    /// assert_eq!(topoloom_sdk::json::Raw::new(b"7").text(), None);
    /// ```
    #[must_use]
    pub fn text(self) -> Option<Cow<'a, str>> {
        let inside = self.bytes.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        // A control character has to be escaped; Python's writer never writes one either.
        if self.is_plain {
            str::from_utf8(inside).ok().map(Cow::Borrowed)
        } else {
            let mut reader = Reader::new(str::from_utf8(self.bytes).ok()?);
            let Token::Text(text) = reader.token().ok()? else { return None };
            reader.end().ok().map(|()| text)
        }
    }

    /// A whole number that is not negative.
    ///
    /// ```
    /// assert_eq!(topoloom_sdk::json::Raw::new(b"7").number(), Some(7));
    /// assert_eq!(topoloom_sdk::json::Raw::new(b"-1").number(), None);
    /// ```
    #[must_use]
    pub fn number(self) -> Option<u64> {
        str::from_utf8(self.bytes).ok()?.parse().ok()
    }
}

/// Returns the members of an object one by one: key and value, both raw, in the order of the document.
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
    end: Option<End>,
}

/// Why the members ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The closing brace, at this distance from the opening one.
    Brace(usize),
    /// The text ended before the object.
    CutOff,
    /// An invalid byte.
    Malformed,
}

impl<'a> Members<'a> {
    /// The members of an object, whose text begins and ends with its braces.
    ///
    /// ```
    /// use topoloom_sdk::json::{Malformed, Members};
    ///
    /// assert_eq!(Members::of(br#"{"a": 1, "b": NaN}"#)?.count(), 2);
    /// # Ok::<(), Malformed>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The text is not an object.
    pub fn of(object: &'a [u8]) -> Result<Self, Malformed> {
        if object.ends_with(b"}") { Self::begin(object) } else { Err(Malformed) }
    }

    /// The members of an object at the beginning of the text; it may end behind the text.
    pub(super) fn begin(text: &'a [u8]) -> Result<Self, Malformed> {
        if text.starts_with(b"{") { Ok(Self { text, at: 1, first: true, end: None }) } else { Err(Malformed) }
    }

    /// A value that is not an object, and has no members.
    pub(super) fn without(text: &'a [u8]) -> Self {
        Self { text, at: text.len(), first: true, end: None }
    }

    /// The value, where it is not an object: a list, a number, `null`.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    ///
    /// let mut elements = Elements::new(&b"[7]"[..], "");
    /// let number = elements.next_members(|members| members.instead().and_then(|raw| raw.number()))?;
    /// assert_eq!(number, Some(Some(7)));
    /// # Ok::<(), topoloom_sdk::json::Error>(())
    /// ```
    #[must_use]
    pub fn instead(&self) -> Option<Raw<'a>> {
        (!self.text.starts_with(b"{")).then(|| Raw::new(self.text))
    }

    /// Skips the remaining members; returns why they end.
    pub(super) fn finish(mut self) -> End {
        loop {
            if let Some(end) = self.end {
                return end;
            }
            self.next();
        }
    }

    #[inline]
    fn string(&mut self) -> Result<Raw<'a>, End> {
        let begin = self.at;
        let mut at = begin + 1;
        let mut is_plain = true;
        loop {
            at = scan::quote(self.text, at).ok_or(End::CutOff)?;
            if self.text.get(at) == Some(&b'"') {
                break;
            }
            is_plain = false;
            at += 2;
        }
        self.at = at + 1;
        let bytes = self.text.get(begin..self.at).ok_or(End::CutOff)?;
        Ok(Raw { bytes, is_plain })
    }

    #[inline]
    fn value(&mut self) -> Result<Raw<'a>, End> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let value = match rest.first().ok_or(End::CutOff)? {
            b'"' => return self.string(),
            b'{' | b'[' => {
                let length = Scan::nested().through(rest).ok_or(End::CutOff)?;
                self.at += length;
                rest.get(..length).unwrap_or_default()
            }
            _ => {
                let ends = |byte: &u8| {
                    // One table look-up per byte; a search among the bytes would be a loop.
                    matches!(byte, b' ' | b'\t' | b'\n' | b'\x0c' | b'\r' | b',' | b':' | b'"')
                        || matches!(byte, b'{' | b'}' | b'[' | b']')
                };
                let length = rest.iter().position(ends).ok_or(End::CutOff)?;
                self.at += length;
                rest.get(..length).filter(|word| !word.is_empty()).ok_or(End::Malformed)?
            }
        };
        Ok(Raw { bytes: value, is_plain: true })
    }

    /// The next byte that is no white space.
    #[inline]
    fn visible(&mut self) -> Result<u8, End> {
        self.at = scan::after_space(self.text, self.at);
        self.text.get(self.at).copied().ok_or(End::CutOff)
    }

    #[inline]
    fn member(&mut self) -> Result<(&'a [u8], Raw<'a>), End> {
        let mut byte = self.visible()?;
        if byte == b'}' {
            return Err(End::Brace(self.at + 1));
        }
        if !self.first {
            if byte != b',' {
                return Err(End::Malformed);
            }
            self.at += 1;
            byte = self.visible()?;
        }
        self.first = false;
        if byte != b'"' {
            return Err(End::Malformed);
        }
        let key = self.string()?.bytes;
        if self.visible()? != b':' {
            return Err(End::Malformed);
        }
        self.at += 1;
        self.visible()?;
        let value = self.value()?;
        Ok((key.get(1..key.len() - 1).unwrap_or_default(), value))
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(&'a [u8], Raw<'a>), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        match self.member() {
            Ok(member) => Some(Ok(member)),
            Err(end) => {
                self.end = Some(end);
                // Nothing may follow the closing brace of a whole object.
                let is_whole = matches!(end, End::Brace(_));
                (!is_whole).then_some(Err(Malformed))
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
            r#"{"a":1{}}"#,
            r#"{"a":1[]}"#,
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
