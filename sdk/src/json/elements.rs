//! The elements of one array, or of several, out of a body that does not fit into memory.
//!
//! Only the outer shape is understood: where an element begins and where it ends. So an element that is no valid JSON
//! (a bare `NaN`, a number where text belongs) costs that element, not the whole list, while a body that stops in the
//! middle is an error.

use std::io::{self, Read};

/// How much is asked of the reader at once.
const CHUNK: usize = 64 * 1024;
/// An element, or all that stands around the array, larger than this is not what it pretends to be.
const MAX_ELEMENT: usize = 4 * 1024 * 1024;
const TOO_LARGE: &str = "an element of the list is larger than 4 MiB";

/// What is wrong with the document as a whole.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Reading failed.
    Read(io::Error),
    /// The document ends in the middle: what was read so far is not all.
    Truncated,
    /// The document is not what it should be, for instance a login page.
    Shape(&'static str),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot read: {error}"),
            Self::Truncated => f.write_str("the document ends in the middle"),
            Self::Shape(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for crate::Failure {
    fn from(error: Error) -> Self {
        Self::upstream(error.to_string())
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    Start,
    Array,
    End,
}

/// Hands out the elements of an array one by one, as raw text.
///
/// The array is the document itself, or the value of one key of an object (`{"data": [...], "total": 3}`), or several
/// arrays of one object are read in the order in which they come: see [`Elements::several`]. What else stands in that
/// object is kept: see [`Elements::envelope`].
///
/// ```
/// use topoloom_sdk::json::Elements;
///
/// let page = r#"{"total": 2, "data": [{"name": "a"}, {"name": NaN}], "next": null}"#;
/// let mut elements = Elements::new(page.as_bytes(), "data");
/// let (mut good, mut bad) = (0, 0);
/// while let Some(text) = elements.next()? {
///     match serde_json::from_slice::<serde_json::Value>(text) {
///         Ok(_) => good += 1,
///         Err(_) => bad += 1,
///     }
/// }
/// assert_eq!((good, bad), (1, 1));
/// assert_eq!(elements.envelope(), br#"{"total": 2, "data": null, "next": null}"#);
/// # Ok::<(), topoloom_sdk::json::Error>(())
/// ```
#[derive(Debug)]
pub struct Elements<R> {
    reader: R,
    keys: Vec<String>,
    /// Which of the arrays were there, in the order of `keys`.
    seen: Vec<bool>,
    /// The array that is being read, as position in `keys`.
    current: usize,
    chunk: Vec<u8>,
    next: usize,
    element: Vec<u8>,
    envelope: Vec<u8>,
    at: At,
}

impl<R: Read> Elements<R> {
    /// `key` is where the array stands when the document is an object.
    pub fn new(reader: R, key: &str) -> Self {
        Self::several(reader, &[key])
    }

    /// Several arrays of one object. [`Elements::key`] says in which of them an element stands. A document that is an
    /// array itself counts as the array of the first key; of a key that is there twice the first array counts, the other
    /// stays in the envelope.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    ///
    /// let document = r#"{"hosts": ["a", "b"], "version": 7, "switches": ["s"]}"#;
    /// let mut elements = Elements::several(document.as_bytes(), &["hosts", "switches"]);
    /// let mut seen = Vec::new();
    /// while let Some(text) = elements.next()? {
    ///     let text = String::from_utf8_lossy(text).into_owned();
    ///     seen.push(format!("{} {text}", elements.key()));
    /// }
    /// assert_eq!(seen, [r#"hosts "a""#, r#"hosts "b""#, r#"switches "s""#]);
    /// assert_eq!(elements.envelope(), br#"{"hosts": null, "version": 7, "switches": null}"#);
    /// # Ok::<(), topoloom_sdk::json::Error>(())
    /// ```
    pub fn several(reader: R, keys: &[&str]) -> Self {
        Self {
            reader,
            keys: keys.iter().map(|&key| key.to_owned()).collect(),
            seen: vec![false; keys.len()],
            current: 0,
            chunk: Vec::new(),
            next: 0,
            element: Vec::new(),
            envelope: Vec::new(),
            at: At::Start,
        }
    }

    /// The next element; `None` after the last one, when the whole document was read.
    ///
    /// # Errors
    ///
    /// The document as a whole is broken: do not use what came before.
    #[expect(clippy::should_implement_trait, reason = "lends its buffer, which an Iterator cannot")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        if self.at == At::Start {
            match self.after_space()? {
                b'[' => self.enter(0),
                b'{' => {
                    self.envelope.push(b'{');
                    self.around()?;
                }
                _ => return Err(Error::Shape("the document is neither a JSON list nor an object")),
            }
        }
        while self.at == At::Array && !self.element()? {
            if self.envelope.is_empty() { self.end()? } else { self.around()? }
        }
        Ok(if self.at == At::Array { Some(&self.element) } else { None })
    }

    /// What stands around the array, with `null` in its place; empty when the document is the array itself. Complete
    /// after the last element.
    #[must_use]
    pub fn envelope(&self) -> &[u8] {
        &self.envelope
    }

    /// The key of the array in which the last element stands.
    #[must_use]
    pub fn key(&self) -> &str {
        self.keys.get(self.current).map_or("", String::as_str)
    }

    /// Whether the array was there, or any of several. An object without it has no elements, which often means an error.
    #[must_use]
    pub fn found(&self) -> bool {
        self.seen.contains(&true)
    }

    /// Whether the array of this key was there.
    #[must_use]
    pub fn found_key(&self, key: &str) -> bool {
        self.keys.iter().zip(&self.seen).any(|(known, &seen)| seen && known == key)
    }

    /// From here on the elements of an array are read.
    fn enter(&mut self, array: usize) {
        (self.at, self.current) = (At::Array, array);
        if let Some(seen) = self.seen.get_mut(array) {
            *seen = true;
        }
    }

    /// Reads one element. False: the array ended instead.
    fn element(&mut self) -> Result<bool, Error> {
        self.element.clear();
        let first = loop {
            match self.after_space()? {
                b',' => {}
                b']' => return Ok(false),
                byte => break byte,
            }
        };
        self.element.push(first);
        match first {
            b'"' => self.string(true)?,
            b'{' | b'[' => self.nested()?,
            _ => {
                while let Some(byte) = self.peek()? {
                    if matches!(byte, b',' | b']' | b'}') || byte.is_ascii_whitespace() {
                        break;
                    }
                    self.next += 1;
                    self.element.push(byte);
                    if self.element.len() > MAX_ELEMENT {
                        return Err(Error::Shape(TOO_LARGE));
                    }
                }
            }
        }
        Ok(true)
    }

    /// The rest of an object or array, whose first byte is read.
    fn nested(&mut self) -> Result<(), Error> {
        let mut depth = 1_u32;
        while depth > 0 {
            let byte = self.byte()?;
            self.element.push(byte);
            match byte {
                b'"' => self.string(true)?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if self.element.len() > MAX_ELEMENT {
                return Err(Error::Shape(TOO_LARGE));
            }
        }
        Ok(())
    }

    /// The rest of a string, whose opening quote is read, into the element or into the envelope.
    fn string(&mut self, element: bool) -> Result<(), Error> {
        loop {
            let byte = self.byte()?;
            let text = if element { &mut self.element } else { &mut self.envelope };
            text.push(byte);
            match byte {
                b'"' => return Ok(()),
                b'\\' => {
                    let escaped = self.byte()?;
                    let text = if element { &mut self.element } else { &mut self.envelope };
                    text.push(escaped);
                }
                _ if text.len() > MAX_ELEMENT => return Err(Error::Shape("a text is larger than 4 MiB")),
                _ => {}
            }
        }
    }

    /// Reads the object around the array, up to the array or to the end of the document.
    fn around(&mut self) -> Result<(), Error> {
        if self.at == At::Array {
            self.envelope.extend_from_slice(b"null");
        }
        let mut depth = 1_u32;
        loop {
            let byte = self.byte()?;
            let key_begins = self.envelope.len() + 1;
            self.envelope.push(byte);
            match byte {
                b'"' => {
                    self.string(false)?;
                    let key_ends = self.envelope.len() - 1;
                    let text = self.envelope.get(key_begins..key_ends).unwrap_or_default();
                    let array = self.keys.iter().position(|key| key.as_bytes() == text);
                    let unseen = array.filter(|&array| depth == 1 && self.seen.get(array) == Some(&false));
                    if let Some(array) = unseen
                        && self.array_follows()?
                    {
                        self.enter(array);
                        return Ok(());
                    }
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return self.end();
            }
            if self.envelope.len() > MAX_ELEMENT {
                return Err(Error::Shape("what stands around the list is larger than 4 MiB"));
            }
        }
    }

    /// After a string that reads like the key: a colon and the array? A string value of that text has no colon behind it.
    fn array_follows(&mut self) -> Result<bool, Error> {
        while let Some(byte) = self.peek()? {
            match byte {
                b'[' => {
                    self.next += 1;
                    return Ok(true);
                }
                b':' => self.envelope.push(byte),
                _ if byte.is_ascii_whitespace() => self.envelope.push(byte),
                _ => return Ok(false),
            }
            self.next += 1;
        }
        Err(Error::Truncated)
    }

    /// Nothing but white space may follow.
    fn end(&mut self) -> Result<(), Error> {
        self.at = At::End;
        while let Some(byte) = self.peek()? {
            if !byte.is_ascii_whitespace() {
                return Err(Error::Shape("something follows the end of the document"));
            }
            self.next += 1;
        }
        Ok(())
    }

    fn after_space(&mut self) -> Result<u8, Error> {
        loop {
            let byte = self.byte()?;
            if !byte.is_ascii_whitespace() {
                return Ok(byte);
            }
        }
    }

    fn byte(&mut self) -> Result<u8, Error> {
        let byte = self.peek()?.ok_or(Error::Truncated)?;
        self.next += 1;
        Ok(byte)
    }

    #[inline]
    fn peek(&mut self) -> Result<Option<u8>, Error> {
        match self.chunk.get(self.next) {
            Some(&byte) => Ok(Some(byte)),
            None => self.fill(),
        }
    }

    fn fill(&mut self) -> Result<Option<u8>, Error> {
        self.chunk.resize(CHUNK, 0);
        let length = loop {
            match self.reader.read(&mut self.chunk) {
                Ok(length) => break length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Read(error)),
            }
        };
        self.chunk.truncate(length);
        self.next = 0;
        Ok(self.chunk.first().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads one byte at a time, so that every boundary falls everywhere.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(1);
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn check(document: &str, expected: Result<&[&str], &str>) {
        let mut elements = Elements::new(Slow(document.as_bytes()), "data");
        let mut seen = Vec::new();
        let result = loop {
            match elements.next() {
                Ok(Some(text)) => seen.push(String::from_utf8(text.to_vec()).unwrap()),
                Ok(None) => break Ok(seen),
                Err(error) => break Err(error.to_string()),
            }
        };
        let expected = expected.map(|list| list.iter().map(ToString::to_string).collect()).map_err(str::to_owned);
        assert_eq!(result, expected, "{document}");
    }

    #[test]
    fn both_forms_of_a_list_are_read() {
        check(
            r#" [ {"a":[1,{"b":"]}"}]} , "x\"y", 12 ,NaN] "#,
            Ok(&[r#"{"a":[1,{"b":"]}"}]}"#, r#""x\"y""#, "12", "NaN"]),
        );
        check(r#"{"x":{"data":[7]},"y":"data","data" : [1,[2]],"z":1}"#, Ok(&["1", "[2]"]));
        check("[]", Ok(&[]));
    }

    #[test]
    fn a_broken_document_is_an_error() {
        check("[1,2", Err("the document ends in the middle"));
        check(r#"[{"a":1"#, Err("the document ends in the middle"));
        check("", Err("the document ends in the middle"));
        check("<html>", Err("the document is neither a JSON list nor an object"));
        check("[] []", Err("something follows the end of the document"));
        check(r#"{"data":[1]"#, Err("the document ends in the middle"));
    }

    /// Elements with their keys, then the envelope.
    fn several(document: &str) -> (Vec<String>, String) {
        let mut elements = Elements::several(Slow(document.as_bytes()), &["a", "b"]);
        let mut seen = Vec::new();
        while let Some(text) = elements.next().unwrap() {
            let text = String::from_utf8(text.to_vec()).unwrap();
            seen.push(format!("{} {text}", elements.key()));
        }
        (seen, String::from_utf8(elements.envelope().to_vec()).unwrap())
    }

    #[test]
    fn several_lists_of_one_object_are_read_in_any_order() {
        let (seen, envelope) = several(r#"{"x":{"a":[0]},"b":[1,{"a":[2]}],"y":"a","a":[3],"z":[4]}"#);
        assert_eq!(seen, ["b 1", r#"b {"a":[2]}"#, "a 3"]);
        assert_eq!(envelope, r#"{"x":{"a":[0]},"b":null,"y":"a","a":null,"z":[4]}"#);
        assert_eq!(several(r#"{"b":[],"a":[]}"#), (vec![], r#"{"b":null,"a":null}"#.to_owned()));
        assert_eq!(several("[7]").0, ["a 7"]);
    }

    #[test]
    fn a_list_that_is_there_twice_is_read_once() {
        let (seen, envelope) = several(r#"{"a":[1],"a":[2],"b":[3]}"#);
        assert_eq!(seen, ["a 1", "b 3"]);
        assert_eq!(envelope, r#"{"a":null,"a":[2],"b":null}"#);
    }

    #[test]
    fn which_list_was_there_is_known() {
        let mut elements = Elements::several(&br#"{"b":[]}"#[..], &["a", "b"]);
        assert!(elements.next().unwrap().is_none());
        assert_eq!((elements.found(), elements.found_key("a"), elements.found_key("b")), (true, false, true));
    }

    #[test]
    fn an_endless_number_ends_the_reading() {
        let mut elements = Elements::new(io::repeat(b'1'), "data");
        assert!(elements.next().is_err());
        let mut elements = Elements::new((&b"["[..]).chain(io::repeat(b'1')), "data");
        assert_eq!(elements.next().unwrap_err().to_string(), TOO_LARGE);
    }

    #[test]
    fn an_object_without_the_list_says_so() {
        let mut elements = Elements::new(&b"{}"[..], "data");
        assert!(elements.next().unwrap().is_none());
        assert!(!elements.found());
    }
}
