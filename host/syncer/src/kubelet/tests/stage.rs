//! A server with real TLS on a real socket, between a virtual API server in memory and a physical one on a socket that upgrades and
//! echoes.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body as AxumBody;
use axum::extract::State;
use axum::response::IntoResponse as _;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use prometheus_client::registry::Registry;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use topoloom_cluster::client as cluster_client;
use topoloom_cluster::requests;
use topoloom_sync::keys;
use topoloom_sync::naming::BindingName;

use super::authority::{Authority, Files, Issued};
use crate::kubeconfig::tests::access;
use crate::kubelet::*;
use crate::physical::Writers;

/// What takes longer hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);
/// The credential of the binding.
pub(super) const SECRET: &str = "s3cr3t-of-the-binding";
/// What every caller that may is called.
pub(super) const API_SERVER: &str = "kube-apiserver-kubelet-client";

/// A request as the physical API server has seen it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) line: String,
    pub(super) headers: HeaderMap,
}

/// Both clusters.
#[derive(Default)]
pub(super) struct World {
    /// Virtual pods by `namespace/name`.
    pub(super) virtuals: Mutex<BTreeMap<String, Value>>,
    /// The labels of virtual nodes.
    pub(super) nodes: Mutex<BTreeMap<String, BTreeMap<String, String>>>,
    /// The UIDs of ClusterBindings that exist beside our own.
    pub(super) bindings: Mutex<BTreeSet<String>>,
    /// The metadata of physical pods by name, all in the namespace `lent`.
    pub(super) physicals: Mutex<BTreeMap<String, Value>>,
    /// Which user may reach which node; `*` for every one.
    pub(super) rights: Mutex<BTreeSet<(String, String)>>,
    /// Whether questions about rights are answered with an error.
    pub(super) mute: Mutex<bool>,
    /// Whether they have no answer at all.
    pub(super) hold: Mutex<bool>,
    /// How many there were.
    pub(super) reviews: AtomicUsize,
    /// The same as `mute` for those about one node.
    pub(super) mute_about_nodes: Mutex<bool>,
    /// Whether a physical pod is made again, under its name, before a stream to it begins.
    pub(super) swaps: Mutex<bool>,
    pub(super) seen: Mutex<Vec<Seen>>,
    /// Lets a log that is followed say one more line.
    pub(super) line: Notify,
    /// A log without an end has said one more piece.
    pub(super) piece: Notify,
    /// The physical API server has ended such a log.
    pub(super) ended: CancellationToken,
    tasks: Mutex<JoinSet<()>>,
}

fn status(code: u16, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}))
}

/// The answer about an object that does not exist.
fn missing(kind: &str, name: &str) -> (u16, Value) {
    let (code, mut body) = status(404, &format!("{kind} {name:?} not found"));
    body["reason"] = "NotFound".into();
    body["details"] = json!({"kind": kind, "name": name});
    (code, body)
}

fn partial(metadata: &Value) -> (u16, Value) {
    (200, json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}))
}

pub(super) fn identity() -> Identity {
    Identity::new("cluster-1".into(), BindingName::parse("east").unwrap(), "binding-1".into()).unwrap()
}

/// The annotations by which a virtual pod names a physical one.
pub(super) fn down(name: &str, uid: &str) -> Value {
    json!({keys::PHYSICAL_POD_NAMESPACE: "lent", keys::PHYSICAL_POD_NAME: name, keys::PHYSICAL_POD_UID: uid})
}

/// The annotations by which a physical pod names a virtual one.
pub(super) fn up(name: &str, uid: &str) -> Value {
    json!({keys::VIRTUAL_POD_NAMESPACE: "shop", keys::VIRTUAL_POD_NAME: name, keys::VIRTUAL_POD_UID: uid})
}

impl Seen {
    fn is_stream(&self) -> bool {
        ["/log", "/exec", "/attach", "/portforward"].iter().any(|sub| self.line.contains(sub))
    }
}

impl World {
    /// One virtual node of the binding `east` with one pod, `shop/web-0`, whose physical pod is `lent/web-0-x`; and an API server
    /// that may reach every node.
    fn new() -> Arc<Self> {
        let world = Self::default();
        world.nodes.lock().unwrap().insert("vnode-east-w1".into(), identity().labels());
        world.virtual_pod("web-0", "vnode-east-w1", &down("web-0-x", "P"));
        world.physical_pod("web-0-x", &json!(identity().labels()), &up("web-0", "V-web-0"));
        world.allow(API_SERVER, "*");
        Arc::new(world)
    }

    pub(super) fn allow(&self, user: &str, node: &str) {
        self.rights.lock().unwrap().insert((user.into(), node.into()));
    }

    /// A virtual pod of the namespace `shop`; its UID is `V-` and its name.
    pub(super) fn virtual_pod(&self, name: &str, node: &str, annotations: &Value) {
        let metadata =
            json!({"namespace": "shop", "name": name, "uid": format!("V-{name}"), "annotations": annotations});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": node, "containers": []}});
        self.virtuals.lock().unwrap().insert(format!("shop/{name}"), pod);
    }

    /// A physical pod with the UID `P`.
    pub(super) fn physical_pod(&self, name: &str, labels: &Value, annotations: &Value) {
        let metadata =
            json!({"namespace": "lent", "name": name, "uid": "P", "labels": labels, "annotations": annotations});
        self.physicals.lock().unwrap().insert(name.into(), metadata);
    }

    /// How often a stream was asked of the physical API server.
    pub(super) fn streams(&self) -> usize {
        self.seen.lock().unwrap().iter().filter(|seen| seen.is_stream()).count()
    }

    /// The last request for a stream. After it the pod is read again.
    pub(super) fn last_stream(&self) -> Seen {
        self.seen.lock().unwrap().iter().rfind(|seen| seen.is_stream()).cloned().unwrap()
    }

    /// Another pod, under the name of one that is gone.
    fn swap(&self, name: &str) {
        if *self.swaps.lock().unwrap() {
            self.physicals.lock().unwrap().get_mut(name).unwrap()["uid"] = json!("Q");
        }
    }

    fn virtual_client(self: &Arc<Self>) -> kube::Client {
        let world = Arc::clone(self);
        let serve = move |request: Request<Body>| {
            let world = Arc::clone(&world);
            async move {
                let (parts, body) = request.into_parts();
                let sent = body.collect().await.unwrap().to_bytes();
                if parts.uri.path().ends_with("/subjectaccessreviews") {
                    world.reviews.fetch_add(1, Ordering::Relaxed);
                    let holds = *world.hold.lock().unwrap();
                    if holds {
                        std::future::pending::<()>().await;
                    }
                }
                let (code, body) = world.virtual_answer(parts.uri.path(), &sent);
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    fn virtual_answer(&self, path: &str, sent: &[u8]) -> (u16, Value) {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match parts.as_slice() {
            ["api", "v1", "namespaces", namespace, "pods", name] => {
                let found = self.virtuals.lock().unwrap().get(&format!("{namespace}/{name}")).cloned();
                found.map_or_else(|| missing("pods", name), |pod| (200, pod))
            }
            ["api", "v1", "nodes", name] => {
                let found = self.nodes.lock().unwrap().get(*name).cloned();
                found.map_or_else(|| missing("nodes", name), |labels| partial(&json!({"name": name, "labels": labels})))
            }
            ["apis", "topoloom.dev", "v1alpha1", "clusterbindings"] => {
                let bindings = self.bindings.lock().unwrap();
                let uids = bindings.iter().map(String::as_str).chain(["binding-1"]);
                let items: Vec<Value> = uids.map(|uid| partial(&json!({"name": uid, "uid": uid})).1).collect();
                let kind = "PartialObjectMetadataList";
                let metadata = json!({"resourceVersion": "1"});
                (200, json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": metadata, "items": items}))
            }
            ["apis", "authorization.k8s.io", "v1", "subjectaccessreviews"] => {
                if *self.mute.lock().unwrap() {
                    return status(500, "etcd is away");
                }
                let mut review: Value = serde_json::from_slice(sent).unwrap();
                let attributes = &review["spec"]["resourceAttributes"];
                if attributes["name"].is_string() && *self.mute_about_nodes.lock().unwrap() {
                    return status(500, "etcd is away");
                }
                assert_eq!((&attributes["resource"], &attributes["subresource"]), (&json!("nodes"), &json!("proxy")));
                let text = |value: &Value| value.as_str().unwrap_or("*").to_owned();
                let (user, node) = (text(&review["spec"]["user"]), text(&attributes["name"]));
                let rights = self.rights.lock().unwrap();
                let allowed = rights.contains(&(user.clone(), "*".into())) || rights.contains(&(user, node));
                review["status"] = json!({"allowed": allowed});
                (201, review)
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The physical API server.
async fn physical(
    State(world): State<Arc<World>>,
    method: Method,
    uri: Uri,
    request: axum::extract::Request,
) -> axum::response::Response {
    let headers = request.headers().clone();
    world.seen.lock().unwrap().push(Seen { line: format!("{method} {uri}"), headers: headers.clone() });
    let answer = |(code, body): (u16, Value)| (StatusCode::from_u16(code).unwrap(), body.to_string()).into_response();
    let parts: Vec<&str> = uri.path().split('/').skip(1).collect();
    match parts.as_slice() {
        ["api", "v1", "namespaces", "lent", "pods", name] => {
            let found = world.physicals.lock().unwrap().get(*name).cloned();
            answer(found.map_or_else(|| missing("pods", name), |metadata| partial(&metadata)))
        }
        ["api", "v1", "namespaces", "lent", "pods", name, "log"]
            if uri.query().is_some_and(|query| query.contains("bad")) =>
        {
            answer(status(400, &format!("container bad is not valid for pod {name}")))
        }
        ["api", "v1", "namespaces", "lent", "pods", _, "log"]
            if uri.query().is_some_and(|query| query.contains("flood")) =>
        {
            let held = world.ended.clone().drop_guard();
            let pieces = stream::repeat_with(move || {
                let _held_with_the_body = &held;
                world.piece.notify_one();
                Ok::<_, Infallible>(vec![b'x'; 1 << 16])
            });
            AxumBody::from_stream(pieces).into_response()
        }
        ["api", "v1", "namespaces", "lent", "pods", name, "log"] => {
            world.swap(name);
            let first = format!("the log of {name}\n");
            let follows = uri.query().is_some_and(|query| query.contains("follow=true"));
            let rest = stream::unfold(Arc::clone(&world), move |world| async move {
                if !follows {
                    return None;
                }
                world.line.notified().await;
                Some(("one more line\n".to_owned(), world))
            });
            let pieces = stream::once(std::future::ready(first)).chain(rest);
            let body = AxumBody::from_stream(pieces.map(Ok::<_, Infallible>));
            ([("content-type", "text/plain"), ("audit-id", "of-the-lender")], body).into_response()
        }
        ["api", "v1", "namespaces", "lent", "pods", name, _] => {
            world.swap(name);
            let mut request = request;
            let upgraded = hyper::upgrade::on(&mut request);
            world.tasks.lock().unwrap().spawn(async move {
                // Where the stream is refused after all there is no connection any more.
                if let Ok(stream) = upgraded.await {
                    echo(TokioIo::new(stream)).await;
                }
            });
            let spoken = [
                ("connection", "Upgrade"),
                ("upgrade", "SPDY/3.1"),
                ("x-stream-protocol-version", "v4.channel.k8s.io"),
                ("audit-id", "of-the-lender"),
            ];
            (StatusCode::SWITCHING_PROTOCOLS, spoken).into_response()
        }
        other => panic!("{other:?}"),
    }
}

/// Says back what it hears, and at the end how much that was.
async fn echo(mut stream: TokioIo<hyper::upgrade::Upgraded>) {
    let (mut bytes, mut heard) = (vec![0; 1 << 12], 0);
    // Where a stream is cut off there is nothing to be done.
    while let Ok(length) = stream.read(&mut bytes).await {
        if length == 0 {
            let _ = stream.write_all(format!("{heard} bytes").as_bytes()).await;
            let _ = stream.shutdown().await;
            return;
        }
        heard += length;
        if stream.write_all(&bytes[..length]).await.is_err() {
            return;
        }
    }
}

/// The bindings of the test: one.
struct One {
    connection: Connection,
    ends: CancellationToken,
}

impl Lent for One {
    fn lender(&self, labels: &BTreeMap<String, String>) -> Option<Lender> {
        labels.contains_key(keys::BINDING).then(|| Lender {
            identity: identity(),
            mount_namespace: "lent".into(),
            connection: self.connection.clone(),
            ends: self.ends.clone(),
        })
    }
}

/// All of it.
pub(super) struct Stage {
    pub(super) authority: Authority,
    pub(super) world: Arc<World>,
    pub(super) metrics: Registry,
    /// The end of the connection of the binding.
    pub(super) ends: CancellationToken,
    stop: CancellationToken,
    address: SocketAddr,
    serving: JoinSet<()>,
    _files: Files,
}

impl Stage {
    pub(super) async fn new() -> Self {
        let (authority, world) = (Authority::new(), World::new());
        let (stop, ends, mut serving) = (CancellationToken::new(), CancellationToken::new(), JoinSet::new());

        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let bounds = Bounds { header: PATIENCE, connections: 1_000, ..Bounds::PROBES };
        let server = Server::listen_within("physical", local, None, bounds).await.unwrap();
        let url = format!("http://{}", server.address().unwrap());
        let routes = axum::Router::new().fallback(physical).with_state(Arc::clone(&world));
        serving.spawn(server.serve(routes, CancellationToken::new()));

        let mut metrics = Registry::default();
        let files = Files::of(&authority);
        let options = Options {
            address: Ipv4Addr::LOCALHOST.into(),
            port: 10_250,
            listen: local,
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            clients: ClientAuthorities::File(files.authorities.clone()),
        };
        let uses = Uses {
            client: world.virtual_client(),
            restores: Restores::default(),
            lent: Arc::new(One { connection: connection(&url), ends: ends.clone() }),
            metrics: Metrics::register(&mut metrics),
        };
        let kubelet = Kubelet::open(&options, uses).await.unwrap();
        let (address, stops) = (kubelet.address().unwrap(), stop.clone());
        serving.spawn(async move { kubelet.serve(stops).await.unwrap() });
        Self { authority, world, metrics, ends, stop, address, serving, _files: files }
    }

    /// The certificate of a caller that may.
    pub(super) fn api_server(&self) -> Issued {
        self.authority.client(&[API_SERVER], &["kubeadm:cluster-admins"])
    }

    /// Connects with this certificate, or without one.
    pub(super) async fn connect(&self, who: Option<&Issued>) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let config = match who {
            None => config.with_no_client_auth(),
            Some(issued) => {
                let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![issued.der.clone()], key).unwrap()
            }
        };
        let stream = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect("127.0.0.1".try_into().unwrap(), stream).await
    }

    /// The whole answer to a request: its status, and all of its text.
    pub(super) async fn ask(&self, who: Option<&Issued>, line: &str) -> (u16, String) {
        let mut stream = self.connect(who).await.unwrap();
        say(&mut stream, request(line, "Connection: close\r\n").as_bytes()).await;
        let said = rest(&mut stream).await;
        (code(&said), said)
    }

    /// A stream that was asked for with this line and an upgrade; with what was answered.
    pub(super) async fn upgraded(&self, who: &Issued, line: &str) -> (TlsStream<TcpStream>, String) {
        let mut stream = self.connect(Some(who)).await.unwrap();
        say(&mut stream, request(line, UPGRADE).as_bytes()).await;
        let said = head(&mut stream).await;
        (stream, said)
    }

    pub(super) fn shown(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.metrics).unwrap();
        text
    }

    /// Tells it to stop.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for the end of the server, which has to be soon.
    pub(super) async fn stopped(&mut self) {
        self.stop();
        tokio::time::timeout(PATIENCE, self.serving.join_next()).await.unwrap().unwrap().unwrap();
    }
}

/// An upgrade as an API server asks for it, with headers that have to stay here.
pub(super) const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\
                                  Authorization: Bearer of-the-caller\r\nX-Remote-User: admin\r\n";

/// A connection to a server on this machine with the credential of the binding.
fn connection(url: &str) -> Connection {
    let access = access("https://physical.invalid:6443", SECRET);
    let mut config = access.config().clone();
    config.cluster_url = url.parse().unwrap();
    let counted = requests::Metrics::register(&mut Registry::default());
    let made = cluster_client::Connection::bounded(config, cluster_client::Bounds::default(), &counted).unwrap();
    let streams = made.for_streams(&counted).unwrap();
    let writes = made.client.clone();
    let writers = move |_: &_| Ok(Writers { nodes: writes.clone(), others: writes.clone() });
    Connection::of(&access, made.client.clone(), writers).with_streams(streams)
}

pub(super) fn request(line: &str, headers: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n")
}

/// Sends this, all of it. A stream of TLS may keep what the socket does not take at once.
pub(super) async fn say(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    stream.flush().await.unwrap();
}

pub(super) fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default()
}

/// The head of an answer.
pub(super) async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let read = async {
        while !bytes.ends_with(b"\r\n\r\n") {
            bytes.push(stream.read_u8().await.unwrap());
        }
    };
    tokio::time::timeout(PATIENCE, read).await.expect("there is no answer");
    String::from_utf8(bytes).unwrap()
}

/// So many bytes.
pub(super) async fn exactly(stream: &mut (impl AsyncRead + Unpin), length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    tokio::time::timeout(PATIENCE, stream.read_exact(&mut bytes)).await.expect("the bytes do not come").unwrap();
    bytes
}

/// All bytes up to the end of the connection, however it ends.
pub(super) async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("the connection stays open");
    String::from_utf8(bytes).unwrap()
}
