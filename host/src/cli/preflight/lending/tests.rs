//! Both sides of lending, at API servers that are staged: an authorizer that lacks one right, and what else is asked for.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use clap::Parser;
use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use topoloom_core::controllers::OURS;

use super::*;
use crate::cli::preflight::line::Mark;
use crate::config::References;
use crate::manager::options::Kept;
use crate::manager::rights::lending::{HostPorts, PhysicalSettings};
use crate::manager::rights::{LockSettings, Question, Right, RightScope};
use topoloom_api::cluster_binding::PhysicalWrites;

/// A credential that no line may show.
const SECRET: &str = "s3cr3t-t0ken-that-is-not-shown";
/// The account of the syncer.
const USER: &str = "system:serviceaccount:own:topoloom-syncer";

/// An API server. Clones are the same.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<State>>);

struct State {
    /// The right that is missing.
    taken: Option<Question>,
    /// Whether none is there.
    has_no_rights: bool,
    uid: &'static str,
    bindings: Vec<Value>,
    /// Where there is no definition of ClusterBindings.
    is_undefined: bool,
    /// A field of the status that no definition has.
    lacks: &'static str,
    /// By name, in the namespace `own`.
    secrets: BTreeMap<&'static str, Value>,
    nodes: Vec<Value>,
    /// How a Lease in `lent` is answered.
    lease: (u16, &'static str, &'static str),
    /// Whether admission policies refuse what they have to.
    is_guarded: bool,
    /// The request that it fails to answer.
    broken: Option<&'static str>,
    asked: Vec<String>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            taken: None,
            has_no_rights: false,
            uid: "vc",
            bindings: Vec::new(),
            is_undefined: false,
            lacks: "",
            secrets: BTreeMap::new(),
            nodes: vec![json!({"metadata": {"name": "own"}})],
            lease: (201, "", ""),
            is_guarded: true,
            broken: None,
            asked: Vec::new(),
        }
    }
}

fn refused(code: u16, reason: &str, message: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}))
}

fn list(kind: &str, items: &[Value]) -> (u16, Value) {
    (200, json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "9"}, "items": items}))
}

/// The schemas of all definitions, without this field of a status.
fn published(lacks: &str) -> Value {
    let schema = |definition: Value| {
        let mut schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        schema["properties"]["status"]["properties"].as_object_mut().unwrap().remove(lacks);
        schema
    };
    json!({"openapi": "3.0.0", "components": {"schemas": {
        "dev.topoloom.v1alpha1.ClusterBinding": schema(topoloom_api::cluster_binding::definition()),
        "dev.topoloom.v1alpha1.ClusterBindingList": {"type": "object"},
        "dev.topoloom.v1alpha1.ResourceLeasingPolicy": schema(resource_leasing_policy::definition()),
    }}})
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let serve = move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun=All"));
                let body = request.into_body().collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (code, answer) = server.state().answer(&method, &path, is_dry, &body);
                // A text is one, and not its JSON.
                let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
                Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(answer.into_bytes())).unwrap())
            }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }
}

impl State {
    fn answer(&mut self, method: &Method, path: &str, is_dry: bool, body: &Value) -> (u16, Value) {
        let line = format!("{method} {path}");
        let denied = || refused(422, "Invalid", "ValidatingAdmissionPolicy 'x' denied request: only virtual nodes");
        if path.ends_with("selfsubjectaccessreviews") {
            let allowed = !self.has_no_rights && !self.is_taken(&body["spec"]["resourceAttributes"]);
            return (201, json!({"spec": {}, "status": {"allowed": allowed}}));
        }
        self.asked.push(line.clone());
        if self.broken.is_some_and(|broken| broken == line) {
            return refused(500, "InternalError", "etcd is slow");
        }
        if *method != Method::GET && !path.ends_with("selfsubjectreviews") {
            assert!(is_dry, "{line} would be stored");
        }
        match line.as_str() {
            "GET /readyz" => (200, json!("ok")),
            "GET /api/v1/namespaces/kube-system" => {
                (200, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"uid": self.uid}}))
            }
            "GET /apis/topoloom.dev/v1alpha1/clusterbindings" if self.is_undefined => {
                refused(404, "NotFound", "the server could not find the requested resource")
            }
            "GET /apis/topoloom.dev/v1alpha1/clusterbindings" => list("ClusterBindingList", &self.bindings),
            "GET /apis/topoloom.dev/v1alpha1" => {
                let resource = |name: &str| json!({"name": name, "singularName": "", "namespaced": false, "kind": "X", "verbs": []});
                let resources = [resource("resourceleasingpolicies"), resource("resourceleasingpolicies/status")];
                (200, json!({"groupVersion": "topoloom.dev/v1alpha1", "resources": resources}))
            }
            "GET /openapi/v3/apis/topoloom.dev/v1alpha1" => (200, published(self.lacks)),
            "GET /api/v1/nodes" => list("NodeList", &self.nodes),
            "GET /api/v1/namespaces/kube-system/pods" => list("PodList", &[]),
            "POST /apis/authentication.k8s.io/v1/selfsubjectreviews" => {
                (201, json!({"metadata": {}, "status": {"userInfo": {"username": USER}}}))
            }
            "POST /api/v1/nodes"
            | "POST /apis/storage.k8s.io/v1/csinodes"
            | "POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
            | "PATCH /api/v1/nodes/w1"
                if self.is_guarded =>
            {
                denied()
            }
            "PATCH /api/v1/nodes/w1" | "POST /api/v1/nodes" => (201, json!({"metadata": {"name": "w1"}})),
            "POST /apis/storage.k8s.io/v1/csinodes" => (201, json!({"metadata": {}, "spec": {"drivers": []}})),
            "POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases" => (201, json!({"metadata": {}})),
            "POST /apis/coordination.k8s.io/v1/namespaces/lent/leases" => match self.lease {
                (201, ..) => (201, json!({"metadata": {}})),
                (code, reason, message) => refused(code, reason, message),
            },
            secret if secret.starts_with("GET /api/v1/namespaces/own/secrets/") => {
                let name = secret.rsplit('/').next().unwrap_or_default();
                match self.secrets.get(name) {
                    Some(data) => (200, json!({"metadata": {"name": name}, "data": data})),
                    None => refused(404, "NotFound", &format!("secrets \"{name}\" not found")),
                }
            }
            other => panic!("{other}"),
        }
    }

    /// Whether this is the right that is missing.
    fn is_taken(&self, asked: &Value) -> bool {
        let Some(taken) = &self.taken else { return false };
        let text = |key: &str| asked[key].as_str().filter(|text| !text.is_empty());
        let namespace = match &taken.place {
            RightScope::Cluster => None,
            RightScope::Namespace(namespace) => Some(namespace.as_str()),
        };
        text("verb") == Some(taken.verb)
            && text("resource") == Some(taken.resource)
            && text("group").unwrap_or_default() == taken.group
            && text("subresource") == taken.subresource
            && text("namespace") == namespace
            && text("name") == taken.name.as_deref()
    }
}

fn controllers(list: &[&str]) -> Selection {
    Selection::parse(list.iter().copied(), &OURS).unwrap().selection
}

fn setting(list: &[&str]) -> RightsSettings {
    RightsSettings {
        own: "own".into(),
        config: ("conf".into(), "map".into()),
        controllers: controllers(list),
        leases: Some(("own".into(), "topoloom-syncer".into())),
        extent: Extent::Everything,
        kept: Kept::InConfigMaps,
        rivals: Vec::new(),
        references: References::default(),
        locks: LockSettings::default(),
    }
}

fn args(words: &[&str]) -> LendingArgs {
    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        lending: LendingArgs,
    }
    Command::try_parse_from([&["preflight"][..], words].concat()).unwrap().lending
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// What is found in a virtual cluster by a host with these controllers and flags.
async fn found(server: &Server, list: &[&str], words: &[&str]) -> Vec<Line> {
    let (client, setting) = (server.client(), setting(list));
    let cluster =
        Virtual { client: &client, subject: &Subject::Caller, setting: &setting, now: at("2026-08-01T00:00:00Z") };
    look(&cluster, &args(words)).await
}

const ALONE: &[&str] = &["bottomup-syncer"];

fn east() -> Value {
    let spec = json!({"clusterID": "east", "secretRef": {"name": "east"}, "mountNamespace": "lent"});
    json!({"metadata": {"name": "east", "uid": "b1"}, "spec": spec})
}

/// Mark, binding, what was checked and what was found of all that is not as it should be.
fn wrong(lines: &[Line]) -> Vec<String> {
    let is_wrong = |line: &&Line| line.mark != Mark::Ok;
    let text = |line: &Line| format!("{} {}: {}", line.binding.as_deref().unwrap_or("-"), line.what, line.found);
    lines.iter().filter(is_wrong).map(text).collect()
}

/// Everything that lending may need on both sides.
fn tables() -> [Vec<Right>; 2] {
    let lent = VirtualSettings {
        leases: BindingLeases::Elected("own".into()),
        config: ("conf".into(), "map".into()),
        extent: Extent::Everything,
        secrets: vec![("own".into(), "east".into()), ("own".into(), "west".into())],
        policies: PolicySource::Virtual,
        evictions: Evictions::Allowed,
        host_ports: HostPorts::Mirrored,
        streams: Streams::Served,
    };
    let physical = PhysicalSettings {
        binding: binding("east").unwrap(),
        mount_namespace: "lent".into(),
        writes: PhysicalWrites::All,
        policies: PolicySource::Physical,
        streams: Streams::Served,
    };
    [lent.rights(), physical.rights()]
}

#[tokio::test]
async fn s19_each_rule_taken_away_in_turn_gives_the_message_that_names_verb_resource_and_side() {
    for rights in tables() {
        let server = Server::default();
        let client = server.client();
        let lines = access::ask(&client, &Subject::Caller, &rights).await;
        assert_eq!((lines.len(), wrong(&lines)), (rights.len(), vec![]));
        let mut questions: Vec<Question> = rights.iter().flat_map(Right::questions).collect();
        questions.sort();
        questions.dedup();
        assert!(questions.len() > 20, "{questions:#?}");
        for question in questions {
            server.state().taken = Some(question.clone());
            let lines = access::ask(&client, &Subject::Caller, &rights).await;
            let Question { side, verb, .. } = &question;
            for (right, line) in rights.iter().zip(&lines) {
                let needs = right.questions().contains(&question);
                assert_eq!(line.mark != Mark::Ok, needs, "{question:?}: {line:?}");
                if needs {
                    let [todo] = &line.todo[..] else { panic!("{line:?}") };
                    let rule = format!("resources: [{:?}]", right.resource);
                    assert!(todo.starts_with("add the rule ") && todo.contains(&rule), "{todo}");
                    assert!(todo.ends_with(&format!("verbs: [{verb:?}]}} in {side}")), "{todo}");
                    assert!(
                        line.what.contains(right.resource) && line.what.ends_with(&format!("in {side}")),
                        "{line:?}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn a_host_that_does_more_says_nothing_of_lending_before_there_is_a_binding() {
    let server = Server::default();
    assert_eq!(found(&server, &["hyperNode-controller"], &[]).await, []);
    assert_eq!(server.state().asked, [""; 0]);
    assert_eq!(found(&server, &["*"], &[]).await, []);
    server.state().is_undefined = true;
    assert_eq!(found(&server, &["*"], &[]).await, []);
    // Who lends and does nothing else needs the definition.
    let lines = found(&server, ALONE, &[]).await;
    let definition = lines.iter().find(|line| line.what == BINDINGS).unwrap();
    assert_eq!((definition.mark, definition.todo.as_slice()), (Mark::Fail, [APPLY.to_owned()].as_slice()));
    server.state().is_undefined = false;
    let lines = found(&server, ALONE, &[]).await;
    assert_eq!(wrong(&lines), [""; 0]);
    assert!(lines.iter().any(|line| line.found.contains("there is none yet")), "{lines:#?}");
    // It asks for no Secret then, and for its leases by their namespace.
    assert!(!lines.iter().any(|line| line.what.contains("secrets")), "{lines:#?}");
    assert!(lines.iter().any(|line| line.what.ends_with("on leases in own in the virtual cluster")), "{lines:#?}");
}

#[tokio::test]
async fn s8_s9_a_definition_that_is_older_than_this_program_is_named_with_what_it_lacks_and_is_no_failure() {
    let server = Server::default();
    server.state().lacks = "granted";
    assert_eq!(found(&server, &["*"], &[]).await, [], "nothing is lent");
    let lines = found(&server, ALONE, &[]).await;
    let found_of = |lacks: &str| {
        format!("it is older than this program: it lacks status.{lacks}, which the API server does not store then")
    };
    assert_eq!(wrong(&lines), [format!("- definition of ClusterBindings: {}", found_of("granted"))]);
    let old = lines.iter().find(|line| line.mark != Mark::Ok).unwrap();
    assert_eq!((old.mark, old.todo.as_slice()), (Mark::Warn, [APPLY.to_owned()].as_slice()));
    // Where the policies are it is the definition of these.
    let server = physical();
    server.state().lacks = "conditions";
    let lines = borrowed(&server, |_| ()).await;
    let said = wrong(&lines);
    let what = "definition of ResourceLeasingPolicies in the physical cluster";
    assert_eq!(said, [format!("- {what}: {}", found_of("conditions"))]);
    assert_eq!(lines.iter().find(|line| line.what == what).unwrap().todo, [GRANT]);
    // Whether it is older cannot be asked.
    server.state().broken = Some("GET /openapi/v3/apis/topoloom.dev/v1alpha1");
    let said = wrong(&borrowed(&server, |_| ()).await);
    assert!(
        matches!(&said[..], [line] if line.contains("its fields could not be read: the physical cluster: ")),
        "{said:#?}"
    );
}

#[tokio::test]
async fn s19_the_secret_of_each_binding_is_asked_for_by_name_and_one_that_is_missing_costs_no_other_line() {
    let server = Server::default();
    let mut west = east();
    west["metadata"]["name"] = "west".into();
    west["spec"]["secretRef"]["name"] = "west".into();
    west["spec"]["policySource"] = "virtual".into();
    server.state().bindings = vec![east(), west];
    let lines = found(&server, ALONE, &[]).await;
    let said = wrong(&lines);
    assert_eq!(said.len(), 2, "{said:#?}");
    for (line, name) in said.iter().zip(["east", "west"]) {
        let begins = format!("{name} Secret own/{name}: it could not be read: the virtual cluster: ");
        assert!(line.starts_with(&begins), "{line}");
    }
    let has = |what: &str| lines.iter().any(|line| line.what == what);
    assert!(has("right get,list,watch on secrets east in own in the virtual cluster"), "{lines:#?}");
    assert!(has("right get,list,watch on resourceleasingpolicies in the virtual cluster"), "one takes them from here");
    assert!(has("definition of ResourceLeasingPolicies in the virtual cluster"));
    // One of them, and one that is not there.
    let lines = found(&server, ALONE, &["--binding", "east", "--binding", "north"]).await;
    let said = wrong(&lines);
    assert!(
        matches!(&said[..], [north, east] if north == "north ClusterBinding: there is none of this name" && east.starts_with("east ")),
        "{said:#?}"
    );
    assert!(!lines.iter().any(|line| line.what.contains("secrets west")));
    // A binding that is named is looked at, whatever else runs.
    assert!(!found(&server, &["*"], &["--binding", "east"]).await.is_empty());
}

#[tokio::test]
async fn s20_a_kubeconfig_that_is_refused_is_a_line_without_its_credential() {
    let server = Server::default();
    server.state().bindings = vec![east()];
    let text = json!({
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://physical.example:6443"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"token": SECRET, "tokenFile": SECRET}}],
    });
    let data = json!(k8s_openapi::ByteString(text.to_string().into_bytes()));
    server.state().secrets.insert("east", json!({"kubeconfig": data}));
    let lines = found(&server, ALONE, &[]).await;
    let said = wrong(&lines);
    assert!(matches!(&said[..], [line] if line.starts_with("east Secret own/east: kubeconfig: users")), "{said:#?}");
    assert!(!format!("{lines:?}").contains(SECRET), "{lines:#?}");
}

#[tokio::test]
async fn s27_admission_policies_are_tried_without_storing_anything_and_missing_ones_are_named() {
    let server = Server::default();
    assert_eq!(wrong(&found(&server, ALONE, &[]).await), [""; 0]);
    server.state().is_guarded = false;
    let said = wrong(&found(&server, ALONE, &[]).await);
    let wanted = format!(
        "- admission policies for the syncer: {USER} may write any of these in the virtual cluster, also those of real nodes: nodes, \
         csinodes, leases"
    );
    assert_eq!(said, [wanted]);
}

#[tokio::test]
async fn an_api_server_that_fails_says_nothing_about_policies_and_is_a_line() {
    let server = Server::default();
    server.state().broken = Some("POST /apis/authentication.k8s.io/v1/selfsubjectreviews");
    let said = wrong(&found(&server, ALONE, &[]).await);
    assert!(
        matches!(&said[..], [line] if line.contains(" for the syncer: they could not be tried") && line.ends_with("etcd is slow")),
        "{said:#?}"
    );
    let server = physical();
    server.state().broken = Some("GET /api/v1/nodes");
    let said = wrong(&borrowed(&server, |_| ()).await);
    assert!(
        matches!(&said[..], [line] if line.contains(" for the borrower in the physical cluster: it could not be tried") && line.ends_with("etcd is slow")),
        "{said:#?}"
    );
}

#[tokio::test]
async fn s26_the_kubelet_endpoint_is_dialled_where_it_is_given() {
    let server = Server::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let words = ["--syncer-kubelet-address", "127.0.0.1", "--syncer-kubelet-port", port.as_str()];
    let lines = found(&server, ALONE, &words).await;
    let endpoint = |lines: &[Line]| lines.iter().find(|line| line.what == "kubelet endpoint").cloned();
    assert_eq!(endpoint(&lines).map(|line| line.mark), Some(Mark::Ok));
    assert!(lines.iter().any(|line| line.what == "right create on subjectaccessreviews in the virtual cluster"));
    drop(listener);
    let lines = found(&server, ALONE, &words).await;
    let line = endpoint(&lines).unwrap();
    assert!(
        line.mark == Mark::Warn && line.found.starts_with(&format!("127.0.0.1:{port} cannot be reached")),
        "{line:?}"
    );
    assert_eq!(endpoint(&found(&server, ALONE, &[]).await), None);
}

/// A binding that has borrowed from `pc`, and its physical cluster as it is asked.
async fn borrowed(server: &Server, change: impl FnOnce(&mut Value)) -> Vec<Line> {
    let mut object = east();
    object["status"] = json!({"physicalClusterUID": "pc"});
    change(&mut object);
    let object: ClusterBinding = serde_json::from_value(object).unwrap();
    let (client, virtual_cluster) = (server.client(), Uid::from("vc"));
    let all = [object];
    let read = args(&[]).read(&all, Some(&virtual_cluster));
    let Read { object, reading } = &read[0];
    let lender = Lender {
        lent: &client,
        namespace: "own",
        kube_system: Some(&virtual_cluster),
        streams: Streams::Off,
        loopback: Loopback::Refused,
        now: at("2026-08-01T00:00:00Z"),
    };
    let terms = &reading.as_ref().unwrap().terms;
    lender.ask(&client, "https://physical.example:6443/", object, terms).await
}

fn physical() -> Server {
    let server = Server::default();
    server.state().uid = "pc";
    server.state().nodes = vec![json!({"metadata": {"name": "w1"}})];
    server
}

#[tokio::test]
async fn s6_another_cluster_than_the_known_one_is_asked_nothing_more() {
    let server = physical();
    let lines = borrowed(&server, |_| ()).await;
    assert_eq!(wrong(&lines), [""; 0]);
    assert_eq!(lines[0].found, "https://physical.example:6443 answers; its UID is pc");
    server.state().uid = "pc-2";
    let lines = borrowed(&server, |_| ()).await;
    let [line] = &lines[..] else { panic!("{lines:#?}") };
    assert!(
        line.mark == Mark::Fail && line.found.contains("its UID is pc-2, and the binding borrows from pc"),
        "{line:?}"
    );
    assert!(line.todo[0].ends_with("topoloom lend confirm east"), "{line:?}");
    // The first contact knows none.
    let first = borrowed(&server, |object| object["status"] = json!({})).await;
    assert_eq!(wrong(&first), [""; 0]);
    server.state().uid = "vc";
    let lines = borrowed(&server, |object| object["status"] = json!({})).await;
    assert!(matches!(&lines[..], [line] if line.found.contains("no cluster lends to itself")), "{lines:#?}");
}

#[tokio::test]
async fn s7_a_namespace_that_is_not_there_is_told_from_one_in_which_a_right_is_missing() {
    let server = physical();
    let of_namespace = |lines: &[Line]| {
        let line = lines.iter().find(|line| line.what == "namespace lent in the physical cluster");
        line.map(|line| (line.mark, line.found.clone()))
    };
    let exists = of_namespace(&borrowed(&server, |_| ()).await).unwrap();
    assert_eq!(exists.0, Mark::Ok);
    server.state().lease = (409, "AlreadyExists", "leases \"x\" already exists");
    assert_eq!(of_namespace(&borrowed(&server, |_| ()).await).unwrap().0, Mark::Ok);
    server.state().lease = (404, "NotFound", "namespaces \"lent\" not found");
    let (mark, found) = of_namespace(&borrowed(&server, |_| ()).await).unwrap();
    assert!(mark == Mark::Fail && found.starts_with("it does not exist: "), "{found}");
    server.state().lease = (403, "Forbidden", "leases is forbidden: User \"u\" cannot create resource \"leases\"");
    assert_eq!(of_namespace(&borrowed(&server, |_| ()).await), None, "the rights say which one is missing");
    server.state().has_no_rights = true;
    let (mark, found) = of_namespace(&borrowed(&server, |_| ()).await).unwrap();
    assert!(mark == Mark::Fail && found.starts_with("it does not exist, or no right"), "{found}");
    server.state().lease =
        (403, "Forbidden", "unable to create new content in namespace lent because it is being terminated");
    assert_eq!(of_namespace(&borrowed(&server, |_| ()).await).unwrap().1, "it is being deleted");
}

#[tokio::test]
async fn s19_the_lenders_policy_is_tried_where_nodes_are_claimed() {
    let server = physical();
    server.state().is_guarded = false;
    let said = wrong(&borrowed(&server, |_| ()).await);
    assert!(
        matches!(&said[..], [line] if line.contains("admission policy for the borrower") && line.contains("it is missing")),
        "{said:#?}"
    );
    let none = borrowed(&server, |object| object["spec"]["physicalWrites"] = "none".into()).await;
    assert_eq!(wrong(&none), [""; 0]);
    assert!(!none.iter().any(|line| line.what.contains("right patch on nodes")), "{none:#?}");
}
