//! An API server for tests of watches: it lists and watches what it keeps, by the label of a virtual cluster, and says what was asked
//! of it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::StreamExt;
use futures::channel::mpsc;
use futures::stream::BoxStream;
use http::{Request, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::{Value, json};
use topoloom_sync::keys;

type Line = Result<Frame<Bytes>, Infallible>;
type Answer = Response<Either<Full<Bytes>, StreamBody<BoxStream<'static, Line>>>>;

/// The server. Clones are the same.
#[derive(Clone)]
pub(super) struct Server(Arc<Mutex<State>>);

struct State {
    /// By resource and name.
    objects: BTreeMap<(String, String), Value>,
    version: u64,
    changes: Vec<Change>,
    open: Vec<Open>,
    asked: Vec<String>,
    /// Every request is refused with this code.
    refuses: Option<u16>,
}

/// Something that happened to an object.
#[derive(Clone)]
struct Change {
    version: u64,
    resource: String,
    kind: &'static str,
    object: Value,
}

/// A watch.
struct Open {
    resource: String,
    selects: Selects,
    lines: mpsc::UnboundedSender<Line>,
}

/// Which objects are listed or watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selects {
    All,
    Ours,
    Others,
}

impl Selects {
    fn read(query: &str) -> Self {
        match query.contains("labelSelector=") {
            false => Self::All,
            true if query.contains("%21%3D") => Self::Others,
            true => Self::Ours,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Ours => " ours",
            Self::Others => " others",
        }
    }

    fn selects(self, object: &Value) -> bool {
        let is_ours = object["metadata"]["labels"][keys::VIRTUAL_CLUSTER] == "vc-1";
        match self {
            Self::All => true,
            Self::Ours => is_ours,
            Self::Others => !is_ours,
        }
    }
}

impl Change {
    fn line(&self) -> Line {
        let line = json!({"type": self.kind, "object": self.object});
        Ok(Frame::data(Bytes::from(format!("{line}\n"))))
    }
}

impl Server {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            objects: BTreeMap::new(),
            version: 100,
            changes: Vec::new(),
            open: Vec::new(),
            asked: Vec::new(),
            refuses: None,
        })))
    }

    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        let serve = move |request: Request<Body>| {
            let answer = server.serve(request.uri().path(), request.uri().query().unwrap_or_default());
            async move { Ok::<_, Infallible>(answer) }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Another client stores this object.
    pub(super) fn put(&self, resource: &str, mut object: Value) {
        let mut state = self.state();
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let before = state.objects.insert((resource.to_owned(), name), object.clone());
        state.happens(resource, if before.is_some() { "MODIFIED" } else { "ADDED" }, object);
    }

    /// Another client deletes it.
    pub(super) fn remove(&self, resource: &str, name: &str) {
        let mut state = self.state();
        state.version += 1;
        let mut object = state.objects.remove(&(resource.to_owned(), name.to_owned())).unwrap();
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        state.happens(resource, "DELETED", object);
    }

    /// Its store is set back to this version, and its watches end.
    pub(super) fn set_back(&self, version: u64) {
        let mut state = self.state();
        state.version = version;
        state.changes.clear();
        state.open.clear();
        for object in state.objects.values_mut() {
            object["metadata"]["resourceVersion"] = version.to_string().into();
        }
    }

    /// Its store is set back, and its revision raised to this one: no version shows it but those of the objects.
    pub(super) fn set_back_and_raise(&self, version: u64) {
        let mut state = self.state();
        state.version = version;
        state.changes.clear();
        for object in state.objects.values_mut() {
            object["metadata"]["resourceVersion"] = "90".into();
        }
    }

    /// Every request is refused with this code from now on, and the watches end; or none is.
    pub(super) fn refuse(&self, code: Option<u16>) {
        let mut state = self.state();
        state.refuses = code;
        if code.is_some() {
            state.open.clear();
        }
    }

    /// The lists and watches since the last call, in the order of their words.
    pub(super) fn asked(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut self.state().asked);
        asked.sort();
        asked
    }

    /// How many watches are open.
    pub(super) fn open(&self) -> usize {
        let mut state = self.state();
        state.open.retain(|open| !open.lines.is_closed());
        state.open.len()
    }

    fn serve(&self, path: &str, query: &str) -> Answer {
        let mut state = self.state();
        if let Some(code) = state.refuses {
            let message = format!("it is forbidden ({code})");
            let status =
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Forbidden", "message": message});
            return answer(code, &status);
        }
        let resource = path.rsplit('/').next().unwrap().to_owned();
        let selects = Selects::read(query);
        let parameter = |key: &str| query.split('&').find_map(|part| part.strip_prefix(key)?.strip_prefix('='));
        if parameter("watch").is_some() {
            state.asked.push(format!("WATCH {resource}{}", selects.word()));
            let from: u64 = parameter("resourceVersion").unwrap().parse().unwrap();
            let (lines, stream) = mpsc::unbounded();
            for change in state.changes.iter().filter(|change| change.version > from && change.resource == resource) {
                if selects.selects(&change.object) {
                    lines.unbounded_send(change.line()).unwrap();
                }
            }
            state.open.push(Open { resource, selects, lines });
            return Response::new(Either::Right(StreamBody::new(stream.boxed())));
        }
        // A look at the version is no list.
        let is_look = parameter("limit") == Some("1");
        if !is_look {
            state.asked.push(format!("LIST {resource}{}", selects.word()));
        }
        let of_kind = state.objects.iter().filter(|((kind, _), _)| *kind == resource && !is_look);
        let items: Vec<&Value> = of_kind.map(|(_, object)| object).filter(|object| selects.selects(object)).collect();
        let metadata = json!({"resourceVersion": state.version.to_string()});
        answer(200, &json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}))
    }
}

impl State {
    fn happens(&mut self, resource: &str, kind: &'static str, object: Value) {
        let change = Change { version: self.version, resource: resource.to_owned(), kind, object };
        for open in self.open.iter().filter(|open| open.resource == resource && open.selects.selects(&change.object)) {
            // One that is closed hears nothing.
            let _closed = open.lines.unbounded_send(change.line());
        }
        self.changes.push(change);
    }
}

fn answer(code: u16, body: &Value) -> Answer {
    Response::builder().status(code).body(Either::Left(Full::from(body.to_string()))).unwrap()
}
