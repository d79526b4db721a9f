//! The answer of a fake endpoint, whole or still on its way.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

use crate::http::Error;

/// The answer of a fake endpoint.
///
/// ```
/// use topoloom_sdk::testing::Reply;
///
/// let busy = Reply::new(503, "").header("retry-after", "7");
/// # let _ = busy;
/// ```
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: ScriptedBody,
}

#[derive(Clone)]
enum ScriptedBody {
    Here(Cursor<Vec<u8>>),
    /// Clones share the position of the reader, as with a file.
    Coming(Rc<RefCell<Coming>>),
}

struct Coming {
    reader: Box<dyn Read>,
    /// The buffer for pieces: most are much smaller than requested.
    room: Vec<u8>,
}

impl Reply {
    /// Status and body.
    ///
    /// ```
    /// let list = topoloom_sdk::testing::Reply::new(200, r#"{"nodes": ["m1"]}"#);
    /// # let _ = list;
    /// ```
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: ScriptedBody::Here(Cursor::new(body.into())) }
    }

    /// Status and a body that is still arriving: it is read as far as the discoverer reads it. An error of the reader is a
    /// broken connection.
    ///
    /// ```
    /// use std::io::Read;
    ///
    /// let halves = (&br#"{"nodes": ["#[..]).chain(&br#""m1"]}"#[..]);
    /// let slow = topoloom_sdk::testing::Reply::coming(200, halves);
    /// # let _ = slow;
    /// ```
    #[must_use]
    pub fn coming(status: u16, body: impl Read + 'static) -> Self {
        let coming = Coming { reader: Box::new(body), room: Vec::new() };
        Self { status, headers: Vec::new(), body: ScriptedBody::Coming(Rc::new(RefCell::new(coming))) }
    }

    /// Adds a header, by its lower-case name.
    ///
    /// ```
    /// let login = topoloom_sdk::testing::Reply::new(302, "").header("location", "/login");
    /// # let _ = login;
    /// ```
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn headers(&self) -> Vec<(String, String)> {
        self.headers.clone()
    }

    pub(crate) fn read(&mut self, max: u32) -> Result<Vec<u8>, Error> {
        let piece = match &mut self.body {
            ScriptedBody::Here(body) => {
                let mut piece = Vec::new();
                body.take(u64::from(max)).read_to_end(&mut piece).map(|_| piece)
            }
            ScriptedBody::Coming(coming) => coming.borrow_mut().read(max as usize),
        };
        piece.map_err(|error| Error::Protocol(error.to_string()))
    }
}

impl Coming {
    fn read(&mut self, max: usize) -> io::Result<Vec<u8>> {
        if self.room.len() < max {
            self.room.resize(max, 0);
        }
        let room = self.room.get_mut(..max).unwrap_or_default();
        loop {
            match self.reader.read(room) {
                Ok(length) => return Ok(room.get(..length).unwrap_or_default().to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Debug for ScriptedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here(body) => write!(f, "{} bytes", body.get_ref().len()),
            Self::Coming(_) => f.write_str("on its way"),
        }
    }
}
