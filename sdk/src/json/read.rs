//! The one parser of JSON text, token by token: configurations, [`super::Value`] and strings with escapes are read with it.
//!
//! It is strict: what RFC 8259 does not allow is a [`Fault`]. It is small, since it is a part of each plugin.

use std::borrow::Cow;

use crate::join;

/// Lists and mappings within each other. The limit of `serde_json`, which the host reads configurations with.
const MAX_DEPTH: u8 = 127;
const ENDS: &str = "the text ends too early";
const LONE_SURROGATE: &str = "half of a surrogate pair";

/// Why a text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fault {
    what: &'static str,
    line: usize,
    /// In characters.
    column: usize,
}

impl Fault {
    /// The message of a problem.
    pub(crate) fn message(self) -> String {
        let [line, column] = [self.line, self.column].map(|number| number.to_string());
        join(&["not JSON at line ", &line, ", column ", &column, ": ", self.what])
    }
}

/// A scalar, or the beginning of a list or mapping.
#[derive(Debug, PartialEq)]
pub(crate) enum Token<'de> {
    Null,
    Bool(bool),
    /// As it is written, and well-formed.
    Number(&'de str),
    Text(Cow<'de, str>),
    List,
    Mapping,
}

/// A position in a text.
#[derive(Debug)]
pub(crate) struct Reader<'de> {
    text: &'de str,
    at: usize,
    /// Of the lists and mappings that are open.
    depth: u8,
}

impl<'de> Reader<'de> {
    pub(crate) fn new(text: &'de str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// The next byte that is no white space, without reading it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.here() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.at += 1,
                byte => return byte,
            }
        }
    }

    /// Reads a scalar, or the opening bracket of a list or mapping.
    pub(crate) fn token(&mut self) -> Result<Token<'de>, Fault> {
        match self.peek() {
            Some(b'"') => self.string().map(Token::Text),
            Some(b'-' | b'0'..=b'9') => self.number().map(Token::Number),
            Some(b'[') => self.open(Token::List),
            Some(b'{') => self.open(Token::Mapping),
            Some(b'n') => self.word("null", Token::Null),
            Some(b't') => self.word("true", Token::Bool(true)),
            Some(b'f') => self.word("false", Token::Bool(false)),
            _ => Err(self.fault("expected a value")),
        }
    }

    /// Reads up to the next item of a list or mapping. No: it read the closing bracket instead.
    pub(crate) fn more(&mut self, close: u8, is_first: bool) -> Result<bool, Fault> {
        let byte = self.peek();
        if byte == Some(close) {
            self.depth = self.depth.saturating_sub(1);
        } else if is_first {
            return Ok(true);
        } else if byte != Some(b',') {
            return Err(self.fault("expected a comma or the closing bracket"));
        }
        self.at += 1;
        Ok(byte != Some(close))
    }

    /// Reads a key of a mapping, and the colon.
    pub(crate) fn key(&mut self) -> Result<Cow<'de, str>, Fault> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("expected a key in quotes"));
        }
        let key = self.string()?;
        if self.peek() != Some(b':') {
            return Err(self.fault("expected a colon"));
        }
        self.at += 1;
        Ok(key)
    }

    /// Reads a whole value.
    pub(crate) fn skip(&mut self) -> Result<(), Fault> {
        let token = self.token()?;
        self.skip_inside(&token)
    }

    /// Reads the rest of a value whose first token is read.
    pub(crate) fn skip_inside(&mut self, token: &Token<'_>) -> Result<(), Fault> {
        let (close, is_mapping) = match token {
            Token::List => (b']', false),
            Token::Mapping => (b'}', true),
            _ => return Ok(()),
        };
        let mut is_first = true;
        while self.more(close, is_first)? {
            is_first = false;
            if is_mapping {
                self.key()?;
            }
            self.skip()?;
        }
        Ok(())
    }

    /// Checks that nothing follows.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        if self.peek().is_none() { Ok(()) } else { Err(self.fault("something follows the value")) }
    }

    fn here(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn open(&mut self, token: Token<'de>) -> Result<Token<'de>, Fault> {
        if self.depth >= MAX_DEPTH {
            return Err(self.fault("more than 127 lists and mappings within each other"));
        }
        self.depth += 1;
        self.at += 1;
        Ok(token)
    }

    fn word(&mut self, word: &str, token: Token<'de>) -> Result<Token<'de>, Fault> {
        let end = self.at + word.len();
        if self.text.get(self.at..end) != Some(word) {
            return Err(self.fault("expected a value"));
        }
        self.at = end;
        Ok(token)
    }

    fn number(&mut self) -> Result<&'de str, Fault> {
        let begin = self.at;
        self.take(b"-");
        // A number does not begin with a zero that more digits follow: such a digit is refused where the next token begins.
        if !self.take(b"0") {
            self.digits()?;
        }
        if self.take(b".") {
            self.digits()?;
        }
        if self.take(b"eE") {
            self.take(b"+-");
            self.digits()?;
        }
        Ok(self.since(begin))
    }

    /// Reads one of these bytes if it is the next.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let is_there = self.here().is_some_and(|byte| bytes.contains(&byte));
        self.at += usize::from(is_there);
        is_there
    }

    fn digits(&mut self) -> Result<(), Fault> {
        let begin = self.at;
        while self.here().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == begin { Err(self.fault("expected a digit")) } else { Ok(()) }
    }

    /// Reads a string from its opening quote.
    fn string(&mut self) -> Result<Cow<'de, str>, Fault> {
        self.at += 1;
        let mut begin = self.at;
        let mut unescaped = String::new();
        loop {
            match self.here() {
                Some(b'"') => {
                    let rest = self.since(begin);
                    self.at += 1;
                    // An escape is one character at least.
                    return Ok(if unescaped.is_empty() { Cow::Borrowed(rest) } else { Cow::Owned(unescaped + rest) });
                }
                Some(b'\\') => {
                    unescaped.push_str(self.since(begin));
                    self.at += 1;
                    unescaped.push(self.escape()?);
                    begin = self.at;
                }
                None | Some(..0x20) => return Err(self.fault("a control character in a string")),
                Some(_) => self.at += 1,
            }
        }
    }

    /// Reads what follows a backslash.
    fn escape(&mut self) -> Result<char, Fault> {
        let escaped = match self.here() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode();
            }
            _ => return Err(self.fault("this is not an escape")),
        };
        self.at += 1;
        Ok(escaped)
    }

    /// Reads what follows `\u`.
    fn unicode(&mut self) -> Result<char, Fault> {
        let mut code = self.hex()?;
        if code & 0xfc00 == 0xd800 {
            if !self.take(b"\\") || !self.take(b"u") {
                return Err(self.fault(LONE_SURROGATE));
            }
            let low = self.hex()?;
            // A second half that is none gives a surrogate, which no character is.
            code = if low & 0xfc00 == 0xdc00 { 0x1_0000 + ((code & 0x3ff) << 10) + (low & 0x3ff) } else { code };
        }
        char::from_u32(code).ok_or_else(|| self.fault(LONE_SURROGATE))
    }

    fn hex(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.here().and_then(|byte| char::from(byte).to_digit(16));
            code = code << 4 | digit.ok_or_else(|| self.fault("expected four hexadecimal digits"))?;
            self.at += 1;
        }
        Ok(code)
    }

    fn since(&self, begin: usize) -> &'de str {
        self.text.get(begin..self.at).unwrap_or_default()
    }

    /// A mistake here; at the end of the text it is that it ends.
    #[cold]
    fn fault(&self, what: &'static str) -> Fault {
        let what = if self.at < self.text.len() { what } else { ENDS };
        let (mut line, mut column) = (1, 1);
        for &byte in self.text.as_bytes().iter().take(self.at) {
            if byte == b'\n' {
                (line, column) = (line + 1, 1);
            } else if byte & 0xc0 != 0x80 {
                column += 1;
            }
        }
        Fault { what, line, column }
    }
}
