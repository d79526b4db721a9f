//! A cluster in memory, so that the first test of a discoverer needs neither wasm nor Kubernetes.
//!
//! It behaves as the host does: a column that `configure` did not ask for is empty, an endpoint, a method or a path that it did not ask for
//! is refused, and so is a header that belongs to the host. A round runs only with a configuration that `configure` accepted and with
//! wishes that the operator grants, and an answer that the host would refuse is a failure, with the words of the host.
//!
//! ```
//! use topoloom_sdk::prelude::*;
//! use topoloom_sdk::testing::Cluster;
//!
//! struct Careless;
//!
//! impl Discoverer for Careless {
//!     type Config = std::collections::BTreeMap<String, String>;
//!
//!     fn describe() -> Description {
//!         Description::new("careless", "0.1.0")
//!     }
//!
//!     fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> {
//!         Ok(Requirements::new())
//!     }
//!
//!     fn discover(_: &Self::Config, _: &Input<'_>) -> Result<Answer, Failure> {
//!         let mut topology = TopologyBuilder::new();
//!         let level = topology.level(Level::new(99));
//!         topology.group(level, "leaf-0").rows(vec![0]);
//!         Ok(topology.finish().into())
//!     }
//! }
//!
//! let refused = Cluster::new().node("m1", []).discover::<Careless>("{}").unwrap_err();
//! let Failure::Internal(words) = refused else { panic!("{refused:?}") };
//! assert!(words.starts_with("the topology is not valid: group \"leaf-0\": tier 99 is not between 1 and 16"));
//! ```

mod judge;
mod permissions;
mod reply;
mod rounds;
mod show;

pub use judge::Refused;
pub use permissions::Permissions;
pub use reply::Reply;
pub use rounds::Rounds;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::applied::{Applied, AppliedGroup};
use crate::http::{Error, Http, Request};
use crate::nodes::Nodes;
use crate::rules::request::{BadPath, check_headers, check_path};
use crate::rules::wish::{Lack, not_granted};
use crate::{Answer, Column, Credential, Discoverer, Endpoint, Failure, Input, Method, Packed, Requirements, glue};

type Handler = Box<dyn Fn(&Request) -> Result<Reply, Error>>;
type LogLine = (crate::log::Level, String);

/// Lines of one call that the host writes; further ones are only counted.
const LOG_LINES: usize = 200;

/// Nodes, endpoints, grants, earlier objects, time and state of a round.
///
/// ```
/// use topoloom_sdk::testing::Cluster;
///
/// let cluster = Cluster::new().node("m1", [("rack", "a7")]).annotation("guids", "ab cd").at(1_700_000_000_000);
/// # let _ = cluster;
/// ```
#[derive(Default)]
pub struct Cluster {
    nodes: Vec<Node>,
    endpoints: HashMap<String, (Credential, Handler)>,
    permissions: Option<Permissions>,
    applied: Vec<AppliedGroup>,
    time: u64,
    state: Vec<u8>,
    granted: RefCell<Requirements>,
    /// Whether the round asked for names of nodes.
    saw_names: Cell<bool>,
    log: RefCell<Vec<LogLine>>,
}

#[derive(Debug, Default)]
struct Node {
    name: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Cluster {
    /// An empty cluster in 1970, whose operator grants whatever a discoverer asks for.
    ///
    /// ```
    /// let cluster = topoloom_sdk::testing::Cluster::new();
    /// # let _ = cluster;
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a node with labels.
    ///
    /// ```
    /// use topoloom_sdk::testing::Cluster;
    ///
    /// let cluster = Cluster::new().node("m1", [("rack", "a7"), ("spine", "s1")]).node("m2", []);
    /// # let _ = cluster;
    /// ```
    #[must_use]
    pub fn node<'a>(mut self, name: &str, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        self.nodes.push(Node { name: name.to_owned(), labels, annotations: BTreeMap::new() });
        self
    }

    /// Gives the node that was added last an annotation.
    ///
    /// ```
    /// use topoloom_sdk::testing::Cluster;
    ///
    /// let cluster = Cluster::new().node("m1", []).annotation("example.com/switch", "leaf-7");
    /// # let _ = cluster;
    /// ```
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        if let Some(node) = self.nodes.last_mut() {
            node.annotations.insert(key.to_owned(), value.to_owned());
        }
        self
    }

    /// Answers the requests to an endpoint.
    ///
    /// ```
    /// use topoloom_sdk::Credential;
    /// use topoloom_sdk::testing::{Cluster, Reply};
    ///
    /// let cluster = Cluster::new().endpoint("list", Credential::Bearer, |request| {
    ///     assert_eq!(request.path_and_query, "/v1/nodes");
    ///     Ok(Reply::new(200, r#"{"nodes": []}"#))
    /// });
    /// # let _ = cluster;
    /// ```
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

    /// What the operator grants, in place of whatever the discoverer asks for. A host does not call a plugin that asks for more, and
    /// neither does [`Cluster::discover`].
    ///
    /// ```
    /// use topoloom_sdk::testing::{Cluster, Permissions};
    ///
    /// let cluster = Cluster::new().node("m1", []).permit(Permissions::none().node_label("acme.example/*"));
    /// # let _ = cluster;
    /// ```
    #[must_use]
    pub fn permit(self, permissions: Permissions) -> Self {
        Self { permissions: Some(permissions), ..self }
    }

    /// The objects that the source wrote before.
    ///
    /// ```
    /// use topoloom_sdk::applied::AppliedGroup;
    /// use topoloom_sdk::testing::Cluster;
    ///
    /// let object = AppliedGroup {
    ///     id: Some("a7".to_owned()),
    ///     name: "hypernode-racks-tier1-bcdfg".to_owned(),
    ///     tier: 1,
    ///     tier_name: Some("rack".to_owned()),
    ///     labels: Vec::new(),
    ///     members: Vec::new(),
    /// };
    /// let cluster = Cluster::new().objects(vec![object]);
    /// # let _ = cluster;
    /// ```
    #[must_use]
    pub fn objects(self, applied: Vec<AppliedGroup>) -> Self {
        Self { applied, ..self }
    }

    /// When the next round starts, milliseconds since 1970.
    ///
    /// ```
    /// let cluster = topoloom_sdk::testing::Cluster::new().at(1_700_000_000_000);
    /// # let _ = cluster;
    /// ```
    #[must_use]
    pub fn at(self, time: u64) -> Self {
        Self { time, ..self }
    }

    /// The state of the last answer. [`Cluster::rounds`] carries it from round to round.
    ///
    /// ```
    /// let cluster = topoloom_sdk::testing::Cluster::new().state(b"etag-7".to_vec());
    /// # let _ = cluster;
    /// ```
    #[must_use]
    pub fn state(self, state: Vec<u8>) -> Self {
        Self { state, ..self }
    }

    /// One round, as the host would run it.
    ///
    /// ```
    /// # use topoloom_sdk::prelude::*;
    /// # struct Empty;
    /// # impl Discoverer for Empty {
    /// #     type Config = std::collections::BTreeMap<String, String>;
    /// #     fn describe() -> Description { Description::new("empty", "0.1.0") }
    /// #     fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> { Ok(Requirements::new()) }
    /// #     fn discover(_: &Self::Config, _: &Input<'_>) -> Result<Answer, Failure> {
    /// #         Ok(TopologyBuilder::new().finish().into())
    /// #     }
    /// # }
    /// use topoloom_sdk::testing::Cluster;
    ///
    /// assert!(Cluster::new().discover::<Empty>("{}").is_ok());
    /// assert!(matches!(Cluster::new().discover::<Empty>("[]"), Err(Failure::Config(_))));
    /// ```
    ///
    /// # Errors
    ///
    /// The failure of the round. Problems of the configuration arrive as [`Failure::Config`], wishes that were not granted as
    /// [`Failure::Denied`], and what the host would refuse of an answer, or of wishes, as [`Failure::Internal`].
    pub fn discover<T: Discoverer>(&self, config: &str) -> Result<Answer, Failure> {
        let wishes = glue::configure::<T>(config).map_err(|problems| {
            Failure::Config(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        })?;
        judge::wishes(&wishes).map_err(|refused| Failure::Internal(refused.to_string()))?;
        if let Some(permissions) = &self.permissions {
            denied(&permissions.lacks(&wishes))?;
        }
        *self.granted.borrow_mut() = wishes;
        self.saw_names.set(false);
        let config = glue::read::<T>(config)?;
        let input = Input {
            nodes: Nodes::of(self),
            applied: Applied::of(self),
            http: Http::of(self),
            time: self.time,
            state: &self.state,
        };
        let before = LINES.with_borrow(Vec::len);
        let answer = T::discover(&config, &input);
        let lines = LINES.with_borrow(|lines| lines.iter().skip(before).take(LOG_LINES).cloned().collect());
        self.log.replace(lines);
        if self.saw_names.get() && self.permissions.as_ref().is_some_and(|permissions| !permissions.shows_names()) {
            denied(&[Lack::NodeNames.to_string()])?;
        }
        let answer = answer?;
        self.judge(&answer).map_err(|refused| Failure::Internal(format!("{refused:#}")))?;
        Ok(answer)
    }

    /// Rounds one after the other: each gets the state that the one before left.
    ///
    /// ```
    /// # use topoloom_sdk::prelude::*;
    /// # struct Counting;
    /// # impl Discoverer for Counting {
    /// #     type Config = std::collections::BTreeMap<String, String>;
    /// #     fn describe() -> Description { Description::new("counting", "0.1.0") }
    /// #     fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> { Ok(Requirements::new()) }
    /// #     fn discover(_: &Self::Config, input: &Input<'_>) -> Result<Answer, Failure> {
    /// #         Ok(Answer::from(TopologyBuilder::new().finish()).with_state([input.state, &[7]].concat()))
    /// #     }
    /// # }
    /// use topoloom_sdk::testing::Cluster;
    ///
    /// let mut rounds = Cluster::new().rounds::<Counting>("{}");
    /// rounds.run()?;
    /// rounds.run()?;
    /// assert_eq!(rounds.state(), [7, 7]);
    /// # Ok::<(), Failure>(())
    /// ```
    #[must_use]
    pub fn rounds<T: Discoverer>(self, config: &str) -> Rounds<T> {
        Rounds::new(self, config)
    }

    /// What the host says to an answer. [`Cluster::discover`] asks it for each answer.
    ///
    /// ```
    /// use topoloom_sdk::testing::Cluster;
    /// use topoloom_sdk::{Answer, Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let level = topology.level(Level::new(1));
    /// topology.group(level, "a").rows(vec![0]);
    /// topology.group(level, "a").rows(vec![]);
    /// let refused = Cluster::new().node("m1", []).judge(&topology.finish().into()).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "the topology is not valid: group \"a\": the id is used by an earlier group of this answer; \
    ///      group \"a\": the group has no members"
    /// );
    /// assert!(Cluster::new().judge(&Answer::unchanged(Vec::new())).is_err(), "there was no earlier answer");
    /// ```
    ///
    /// # Errors
    ///
    /// Why it is refused: the host uses nothing of it.
    pub fn judge(&self, answer: &Answer) -> Result<(), Refused> {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        judge::answer(answer, &names, !self.state.is_empty())
    }

    /// What the last round logged: at most 200 lines, as in a host.
    ///
    /// ```
    /// # use topoloom_sdk::prelude::*;
    /// # struct Chatty;
    /// # impl Discoverer for Chatty {
    /// #     type Config = std::collections::BTreeMap<String, String>;
    /// #     fn describe() -> Description { Description::new("chatty", "0.1.0") }
    /// #     fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> { Ok(Requirements::new()) }
    /// #     fn discover(_: &Self::Config, _: &Input<'_>) -> Result<Answer, Failure> {
    /// #         topoloom_sdk::log::warn("two ports without a peer");
    /// #         Ok(TopologyBuilder::new().finish().into())
    /// #     }
    /// # }
    /// use topoloom_sdk::log::Level;
    /// use topoloom_sdk::testing::Cluster;
    ///
    /// let cluster = Cluster::new();
    /// cluster.discover::<Chatty>("{}")?;
    /// assert_eq!(cluster.log(), [(Level::Warn, "two ports without a peer".to_owned())]);
    /// # Ok::<(), Failure>(())
    /// ```
    #[must_use]
    pub fn log(&self) -> Vec<(crate::log::Level, String)> {
        self.log.borrow().clone()
    }

    /// An answer as text, one line per group and diagnostic, sorted: for tests to compare.
    ///
    /// ```
    /// use topoloom_sdk::testing::Cluster;
    /// use topoloom_sdk::{Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let racks = topology.level(Level::new(1).named("rack"));
    /// topology.group(racks, "a7").label("rack", "a7").rows(vec![0]);
    /// let cluster = Cluster::new().node("m1", []);
    /// assert_eq!(cluster.show(&topology.finish().into()), "tier 1 rack | a7 | rack=a7 | m1\n");
    /// ```
    #[must_use]
    pub fn show(&self, answer: &Answer) -> String {
        show::answer(answer, &self.packed_names())
    }

    fn packed_names(&self) -> Packed {
        self.nodes.iter().map(|node| &node.name).collect()
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
        self.saw_names.set(true);
        self.packed_names()
    }

    pub(crate) fn find(&self, names: &Packed) -> Vec<u32> {
        self.saw_names.set(true);
        let known: HashMap<&str, u32> = self.nodes.iter().map(|node| node.name.as_str()).zip(1..).collect();
        names.iter().map(|name| known.get(name).copied().unwrap_or(0)).collect()
    }

    pub(crate) fn applied(&self) -> Vec<AppliedGroup> {
        self.applied.clone()
    }

    pub(crate) fn send(&self, request: &Request) -> Result<Reply, Error> {
        let (_, handler) = self.granted_endpoint(&request.endpoint)?;
        let granted = self.granted.borrow();
        let wish = granted.endpoints.iter().find(|endpoint| endpoint.name == request.endpoint);
        wish.map_or(Ok(()), |wish| check(wish, request))?;
        // A handler may ask the cluster itself.
        drop(granted);
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

/// The failure of a plugin that asks for more than it gets.
fn denied(lacks: &[String]) -> Result<(), Failure> {
    if lacks.is_empty() { Ok(()) } else { Err(Failure::Denied(not_granted(lacks))) }
}

/// Whether the request is one of those that `configure` asked for, and that a host makes at all.
fn check(wish: &Endpoint, request: &Request) -> Result<(), Error> {
    let Request { method, path_and_query, headers, body, .. } = request;
    let (name, word) = (&wish.name, permissions::word(*method));
    if !wish.methods.contains(method) {
        return Err(Error::Denied(format!("{word} is not granted on the endpoint {name}")));
    }
    if matches!(method, Method::Get | Method::Head) && body.as_ref().is_some_and(|body| !body.is_empty()) {
        return Err(Error::Denied(format!("{word} has no body")));
    }
    match check_path(path_and_query, &wish.paths) {
        Ok(_) => {}
        Err(BadPath::Form(what)) => {
            return Err(Error::Denied(format!("the path {path_and_query:?} is refused: {what}")));
        }
        Err(BadPath::NotGranted) => {
            let granted = wish.paths.join(", ");
            let words = format!("the path {path_and_query:?} of the endpoint {name} is not granted, only {granted}");
            return Err(Error::Denied(words));
        }
    }
    check_headers(headers).map_err(Error::Denied)
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

thread_local! {
    static LINES: RefCell<Vec<LogLine>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn record_log(level: crate::log::Level, message: &str) {
    LINES.with_borrow_mut(|lines| lines.push((level, message.to_owned())));
}

/// The lines that this thread logged since the last call; [`Cluster::log`] has those of one round.
///
/// ```
/// use topoloom_sdk::log::{self, Level};
/// use topoloom_sdk::testing::take_log;
///
/// log::info("page 1");
/// assert_eq!(take_log(), [(Level::Info, "page 1".to_owned())]);
/// ```
#[must_use]
pub fn take_log() -> Vec<(crate::log::Level, String)> {
    LINES.take()
}

#[cfg(test)]
mod tests;
