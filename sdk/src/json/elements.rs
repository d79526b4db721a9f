//! The elements of one array, or of several, out of a body that does not fit into memory.
//!
//! The reader only finds where an element begins and ends. So an element that is not valid JSON (a bare `NaN`, a number
//! where text belongs) costs that element, not the whole list. A body that stops in the middle is an error.

use super::members::{End, Members};
use super::scan::{self, Scan};
use std::io::{self, Read};

/// Bytes of one read.
const CHUNK: usize = 64 * 1024;
/// The limit of one element, and of the document around the array.
const MAX_ELEMENT: usize = 4 * 1024 * 1024;
const TOO_LARGE: &str = "an element of the list is larger than 4 MiB";
const TOO_MUCH_AROUND: &str = "the document around the list is larger than 4 MiB";

/// What is wrong with the document as a whole.
///
/// ```
/// use topoloom_sdk::json::{Elements, Error};
///
/// let mut elements = Elements::new(&b"<html>"[..], "data");
/// assert!(matches!(elements.next(), Err(Error::Shape(_))));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Reading failed.
    Read(io::Error),
    /// The document ends in the middle: the elements read so far are not all.
    Truncated,
    /// The document is not a list or an object with the list, for instance a login page.
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
enum ElementsAt {
    Start,
    Array,
    End,
}

/// Where the last element is.
#[derive(Debug, Clone, Copy)]
enum Current {
    /// In the chunk: most elements, which are not copied.
    Chunk { begin: usize, end: usize },
    /// In a buffer of its own, since it began in an earlier chunk.
    Whole,
}

/// Returns the elements of an array one by one, as raw text.
///
/// The array is the document itself, or the value of one key of an object (`{"data": [...], "total": 3}`), or several
/// arrays of one object are read in the order in which they come: see [`Elements::several`]. The rest of that
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
    /// Which of the arrays were found, in the order of `keys`.
    seen: Vec<bool>,
    /// The array that is being read, as position in `keys`.
    array: usize,
    chunk: Vec<u8>,
    /// How much of the chunk was read.
    filled: usize,
    next: usize,
    element: Vec<u8>,
    current: Current,
    envelope: Vec<u8>,
    at: ElementsAt,
}

impl<R: Read> Elements<R> {
    /// `key` is the key of the array when the document is an object.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    ///
    /// let mut elements = Elements::new(&br#"{"data": [1, 2]}"#[..], "data");
    /// assert_eq!(elements.next()?, Some(&b"1"[..]));
    /// # Ok::<(), topoloom_sdk::json::Error>(())
    /// ```
    pub fn new(reader: R, key: &str) -> Self {
        Self::several(reader, &[key])
    }

    /// Several arrays of one object. [`Elements::key`] says which of them an element is in. A document that is an array
    /// itself counts as the array of the first key. Of a key that occurs twice the first array counts; the other one stays
    /// in the envelope.
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
            array: 0,
            chunk: Vec::new(),
            filled: 0,
            next: 0,
            element: Vec::new(),
            current: Current::Whole,
            envelope: Vec::new(),
            at: ElementsAt::Start,
        }
    }

    /// The next element; `None` after the last one, when the whole document was read.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    ///
    /// let mut elements = Elements::new(&br#"["a", {"b": NaN}]"#[..], "");
    /// assert_eq!(elements.next()?, Some(&br#""a""#[..]));
    /// assert_eq!(elements.next()?, Some(&br#"{"b": NaN}"#[..]));
    /// assert_eq!(elements.next()?, None);
    /// # Ok::<(), topoloom_sdk::json::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The document as a whole is invalid: do not use the elements before.
    #[expect(clippy::should_implement_trait, reason = "lends its buffer, which an Iterator cannot")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        let Some(first) = self.first()? else { return Ok(None) };
        self.element(first)?;
        Ok(Some(match self.current {
            Current::Chunk { begin, end } => self.bytes().get(begin..end).unwrap_or_default(),
            Current::Whole => &self.element,
        }))
    }

    /// Gives the members of the next element to `read`, without scanning its bytes before; `None` after the last one.
    ///
    /// An element that is not an object has no members and is malformed. `read` may be called again for the same element,
    /// but then it has seen a malformed member before: so what it does after the last member happens once.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    ///
    /// let mut elements = Elements::new(&br#"[{"name": "m1", "mtu": NaN}]"#[..], "");
    /// let name = elements.next_members(|members| {
    ///     members.find_map(|member| member.ok().filter(|(key, _)| *key == b"name")?.1.text().map(String::from))
    /// })?;
    /// assert_eq!(name, Some(Some("m1".to_owned())));
    /// # Ok::<(), topoloom_sdk::json::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The document as a whole is invalid: do not use the elements before.
    pub fn next_members<T>(&mut self, mut read: impl FnMut(&mut Members<'_>) -> T) -> Result<Option<T>, Error> {
        let Some(first) = self.first()? else { return Ok(None) };
        if first != b'{' {
            self.element(first)?;
            let element = match self.current {
                Current::Chunk { begin, end } => self.bytes().get(begin..end).unwrap_or_default(),
                Current::Whole => &self.element,
            };
            return Ok(Some(read(&mut Members::without(element))));
        }
        self.next -= 1;
        loop {
            let Ok(mut members) = Members::begin(self.rest()) else { return Err(Error::Truncated) };
            let value = read(&mut members);
            match members.finish() {
                End::Brace(length) => {
                    self.next += length;
                    return Ok(Some(value));
                }
                End::Malformed => {
                    self.scanned(self.next, Scan::nested())?;
                    return Ok(Some(value));
                }
                End::CutOff => self.fill_behind()?,
            }
        }
    }

    /// The document around the array, with `null` in place of the array; empty when the document is the array itself.
    /// Complete after the last element.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    ///
    /// let mut elements = Elements::new(&br#"{"data": [1], "next": "p2"}"#[..], "data");
    /// while elements.next()?.is_some() {}
    /// assert_eq!(elements.envelope(), br#"{"data": null, "next": "p2"}"#);
    /// # Ok::<(), topoloom_sdk::json::Error>(())
    /// ```
    #[must_use]
    pub fn envelope(&self) -> &[u8] {
        &self.envelope
    }

    /// The key of the array that has the last element.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    ///
    /// let mut elements = Elements::several(&br#"{"b": [1], "a": [2]}"#[..], &["a", "b"]);
    /// elements.next()?;
    /// assert_eq!(elements.key(), "b");
    /// # Ok::<(), topoloom_sdk::json::Error>(())
    /// ```
    #[must_use]
    pub fn key(&self) -> &str {
        self.keys.get(self.array).map_or("", String::as_str)
    }

    /// Whether the document has the array, or any of several. An object without it has no elements, which is often an error.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    ///
    /// let mut elements = Elements::new(&br#"{"error": "log in"}"#[..], "data");
    /// assert_eq!(elements.next()?, None);
    /// assert!(!elements.found());
    /// # Ok::<(), topoloom_sdk::json::Error>(())
    /// ```
    #[must_use]
    pub fn found(&self) -> bool {
        self.seen.contains(&true)
    }

    /// Whether the document has the array of this key.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    ///
    /// let mut elements = Elements::several(&br#"{"a": []}"#[..], &["a", "b"]);
    /// assert_eq!(elements.next()?, None);
    /// assert!(elements.found_key("a") && !elements.found_key("b"));
    /// # Ok::<(), topoloom_sdk::json::Error>(())
    /// ```
    #[must_use]
    pub fn found_key(&self, key: &str) -> bool {
        self.keys.iter().zip(&self.seen).any(|(known, &seen)| seen && known == key)
    }

    /// Starts to read the elements of an array.
    fn enter(&mut self, array: usize) {
        (self.at, self.array) = (ElementsAt::Array, array);
        if let Some(seen) = self.seen.get_mut(array) {
            *seen = true;
        }
    }

    /// Reads up to the first byte of the next element, which is the one before `next`. None: there is none.
    fn first(&mut self) -> Result<Option<u8>, Error> {
        if self.at == ElementsAt::Start {
            match self.after_space()? {
                b'[' => self.enter(0),
                b'{' => {
                    self.envelope.push(b'{');
                    self.around()?;
                }
                _ => return Err(Error::Shape("the document is neither a JSON list nor an object")),
            }
        }
        while self.at == ElementsAt::Array {
            match self.after_space()? {
                b',' => {}
                b']' if self.envelope.is_empty() => self.end()?,
                b']' => self.around()?,
                byte => return Ok(Some(byte)),
            }
        }
        Ok(None)
    }

    /// Reads the rest of an element.
    fn element(&mut self, first: u8) -> Result<(), Error> {
        let begin = self.next - 1;
        match first {
            b'"' => self.scanned(begin, Scan::text()),
            b'{' | b'[' => {
                self.next = begin;
                self.scanned(begin, Scan::nested())
            }
            _ => self.scalar(begin),
        }
    }

    /// Reads to the end of an element that began at `begin`.
    fn scanned(&mut self, begin: usize, mut scan: Scan) -> Result<(), Error> {
        if let Some(length) = scan.through(self.rest()) {
            self.next += length;
            self.current = Current::Chunk { begin, end: self.next };
            return Ok(());
        }
        self.element.clear();
        let mut element = std::mem::take(&mut self.element);
        element.extend_from_slice(self.bytes().get(begin..).unwrap_or_default());
        self.element = element;
        self.current = Current::Whole;
        loop {
            self.fill()?.ok_or(Error::Truncated)?;
            let ended = scan.through(self.bytes());
            self.next = ended.unwrap_or(self.filled);
            self.element.extend_from_slice(self.chunk.get(..self.next).unwrap_or_default());
            if self.element.len() > MAX_ELEMENT {
                return Err(Error::Shape(TOO_LARGE));
            }
            if ended.is_some() {
                return Ok(());
            }
        }
    }

    /// Reads a number, a word or any other scalar.
    fn scalar(&mut self, begin: usize) -> Result<(), Error> {
        self.element.clear();
        self.element.extend(self.chunk.get(begin));
        self.current = Current::Whole;
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
        Ok(())
    }

    /// The rest of a text around the array, whose opening quote is read.
    fn text(&mut self) -> Result<(), Error> {
        let mut scan = Scan::text();
        loop {
            let ended = scan.through(self.rest());
            let end = ended.map_or(self.filled, |length| self.next + length);
            self.envelope.extend_from_slice(self.chunk.get(self.next..end).unwrap_or_default());
            self.next = end;
            if self.envelope.len() > MAX_ELEMENT {
                return Err(Error::Shape(TOO_MUCH_AROUND));
            }
            if ended.is_some() {
                return Ok(());
            }
            self.fill()?.ok_or(Error::Truncated)?;
        }
    }

    /// Reads the object around the array, up to the array or to the end of the document.
    fn around(&mut self) -> Result<(), Error> {
        if self.at == ElementsAt::Array {
            self.envelope.extend_from_slice(b"null");
        }
        let mut depth = 1_u32;
        loop {
            let byte = self.byte()?;
            let key_begins = self.envelope.len() + 1;
            self.envelope.push(byte);
            match byte {
                b'"' => {
                    self.text()?;
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
                return Err(Error::Shape(TOO_MUCH_AROUND));
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
                _ if byte == b':' || byte.is_ascii_whitespace() => self.envelope.push(byte),
                _ => return Ok(false),
            }
            self.next += 1;
            if self.envelope.len() > MAX_ELEMENT {
                return Err(Error::Shape(TOO_MUCH_AROUND));
            }
        }
        Err(Error::Truncated)
    }

    /// Checks that only white space follows.
    fn end(&mut self) -> Result<(), Error> {
        self.at = ElementsAt::End;
        while self.peek()?.is_some() {
            self.next = scan::after_space(self.bytes(), self.next);
            if self.next < self.filled {
                return Err(Error::Shape("something follows the end of the document"));
            }
        }
        Ok(())
    }

    /// The next byte that is no white space. It is the one before `next` in the chunk.
    #[inline]
    fn after_space(&mut self) -> Result<u8, Error> {
        loop {
            self.next = scan::after_space(self.bytes(), self.next);
            match self.bytes().get(self.next) {
                Some(&byte) => {
                    self.next += 1;
                    return Ok(byte);
                }
                None => {
                    self.fill()?.ok_or(Error::Truncated)?;
                }
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        self.chunk.get(..self.filled).unwrap_or_default()
    }

    fn rest(&self) -> &[u8] {
        self.bytes().get(self.next..).unwrap_or_default()
    }

    fn byte(&mut self) -> Result<u8, Error> {
        let byte = self.peek()?.ok_or(Error::Truncated)?;
        self.next += 1;
        Ok(byte)
    }

    fn peek(&mut self) -> Result<Option<u8>, Error> {
        match self.bytes().get(self.next) {
            Some(&byte) => Ok(Some(byte)),
            None => self.fill(),
        }
    }

    /// Reads the next chunk over this one.
    fn fill(&mut self) -> Result<Option<u8>, Error> {
        (self.filled, self.next) = (0, 0);
        self.read()?;
        Ok(self.bytes().first().copied())
    }

    /// Reads the next chunk behind what is left of this one.
    fn fill_behind(&mut self) -> Result<(), Error> {
        self.chunk.copy_within(self.next..self.filled, 0);
        (self.filled, self.next) = (self.filled - self.next, 0);
        if self.filled > MAX_ELEMENT {
            return Err(Error::Shape(TOO_LARGE));
        }
        // Twice as much as there is, so that a slow body is not scanned from the beginning of the element for every piece.
        let (before, enough) = (self.filled, self.filled * 2);
        loop {
            let known = self.filled;
            self.read()?;
            match self.filled {
                filled if filled >= enough => return Ok(()),
                filled if filled > known => {}
                filled if filled > before => return Ok(()),
                _ => return Err(Error::Truncated),
            }
        }
    }

    fn read(&mut self) -> Result<(), Error> {
        // Twice the room for each try, so that a large element is not scanned over and over.
        if self.chunk.len() < self.filled + CHUNK {
            self.chunk.resize((self.filled * 2).max(CHUNK), 0);
        }
        let Some(room) = self.chunk.get_mut(self.filled..) else { return Ok(()) };
        loop {
            match self.reader.read(room) {
                Ok(length) => {
                    self.filled += length;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Read(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests;
