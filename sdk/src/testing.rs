//! A cluster in memory, so that the first test of a discoverer needs neither wasm nor Kubernetes.
//!
//! It behaves as the host does where it matters: a column that `configure` did not ask for is empty, an endpoint that
//! it did not ask for is refused, and a round runs only with a configuration that `configure` accepted.

mod show;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

use crate::applied::{Applied, AppliedGroup};
use crate::http::{Error, Http, Request};
use crate::nodes::Nodes;
use crate::{Answer, Column, Credential, Discoverer, Failure, Input, Packed, Requirements, glue};

type Handler = Box<dyn Fn(&Request) -> Result<Reply, Error>>;

/// Nodes, endpoints, earlier objects, time and state of a round.
#[derive(Default)]
pub struct Cluster {
    nodes: Vec<Node>,
    endpoints: HashMap<String, (Credential, Handler)>,
    applied: Vec<AppliedGroup>,
    time: u64,
    state: Vec<u8>,
    granted: RefCell<Requirements>,
}

#[derive(Debug, Default)]
struct Node {
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Cluster {
    /// An empty cluster in 1970.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node with labels.
    #[must_use]
    pub fn node<'a>(mut self, name: &str, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        self.nodes.push(Node { name: name.to_owned(), labels, annotations: BTreeMap::new() });
        self
    }

    /// Gives the node that was added last an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        if let Some(node) = self.nodes.last_mut() {
            node.annotations.insert(key.to_owned(), value.to_owned());
        }
        self
    }

    /// Answers the requests to an endpoint.
    #[must_use]
    pub fn endpoint(
        mut self,
        name: &str,
        credential: Credential,
        handler: impl Fn(&Request) -> Result<Reply, Error> + 'static,
    ) -> Self {
        self.endpoints.insert(name.to_owned(), (credential, Box::new(handler)));
        self
    }

    /// The objects that the source wrote before.
    #[must_use]
    pub fn objects(self, applied: Vec<AppliedGroup>) -> Self {
        Self { applied, ..self }
    }

    /// When the next round starts, milliseconds since 1970.
    #[must_use]
    pub fn at(self, time: u64) -> Self {
        Self { time, ..self }
    }

    /// The state of the last answer.
    #[must_use]
    pub fn state(self, state: Vec<u8>) -> Self {
        Self { state, ..self }
    }

    /// One round, as the host would run it.
    ///
    /// # Errors
    ///
    /// The failure of the round; problems of the configuration arrive as [`Failure::Config`].
    pub fn discover<T: Discoverer>(&self, config: &str) -> Result<Answer, Failure> {
        let granted = glue::configure::<T>(config).map_err(|problems| {
            Failure::Config(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        *self.granted.borrow_mut() = granted;
        let input = Input {
            nodes: Nodes::of(self),
            applied: Applied::of(self),
            http: Http::of(self),
            time: self.time,
            state: &self.state,
        };
        T::discover(&glue::read::<T>(config)?, &input)
    }

    /// An answer as text, one line per group and diagnostic, sorted: for tests to compare.
    #[must_use]
    pub fn show(&self, answer: &Answer) -> String {
        show::answer(answer, &self.names())
    }

    pub(crate) fn rows(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    #[expect(clippy::unused_self, reason = "the shape of the host's snapshot")]
    pub(crate) fn generation(&self) -> u64 {
        1
    }

    pub(crate) fn label(&self, key: &str) -> Column {
        let granted = self.granted.borrow().node_labels.iter().any(|known| known == key);
        self.nodes.iter().map(|node| node.labels.get(key).filter(|_| granted)).collect()
    }

    pub(crate) fn annotation_column(&self, key: &str) -> Column {
        let granted = self.granted.borrow().node_annotations.iter().any(|known| known == key);
        self.nodes.iter().map(|node| node.annotations.get(key).filter(|_| granted)).collect()
    }

    pub(crate) fn names(&self) -> Packed {
        self.nodes.iter().map(|node| &node.name).collect()
    }

    pub(crate) fn find(&self, names: &Packed) -> Vec<u32> {
        let known: HashMap<&str, u32> = self.nodes.iter().map(|node| node.name.as_str()).zip(1..).collect();
        names.iter().map(|name| known.get(name).copied().unwrap_or(0)).collect()
    }

    pub(crate) fn applied(&self) -> Vec<AppliedGroup> {
        self.applied.clone()
    }

    pub(crate) fn send(&self, request: &Request) -> Result<Reply, Error> {
        let (_, handler) = self.granted_endpoint(&request.endpoint)?;
        handler(request)
    }

    pub(crate) fn credential_of(&self, endpoint: &str) -> Result<Credential, Error> {
        self.granted_endpoint(endpoint).map(|(credential, _)| *credential)
    }

    fn granted_endpoint(&self, name: &str) -> Result<&(Credential, Handler), Error> {
        let granted = self.granted.borrow().endpoints.iter().any(|endpoint| endpoint.name == name);
        self.endpoints
            .get(name)
            .filter(|_| granted)
            .ok_or_else(|| Error::Denied(format!("the endpoint {name:?} is not granted")))
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

/// The answer of a fake endpoint.
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
    #[must_use]
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: ScriptedBody::Here(Cursor::new(body.into())) }
    }

    /// Status and a body that is still arriving: it is read as far as the discoverer reads it. An error of the reader is a
    /// broken connection.
    #[must_use]
    pub fn coming(status: u16, body: impl Read + 'static) -> Self {
        let coming = Coming { reader: Box::new(body), room: Vec::new() };
        Self { status, headers: Vec::new(), body: ScriptedBody::Coming(Rc::new(RefCell::new(coming))) }
    }

    /// Adds a header, by its lower-case name.
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

thread_local! {
    static LINES: RefCell<Vec<(crate::log::Level, String)>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn record_log(level: crate::log::Level, message: &str) {
    LINES.with_borrow_mut(|lines| lines.push((level, message.to_owned())));
}

/// The lines that this thread logged since the last call.
#[must_use]
pub fn take_log() -> Vec<(crate::log::Level, String)> {
    LINES.take()
}
