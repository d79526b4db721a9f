//! Verbs that are annotations on a ClusterBinding: how one is found, written and told (decision S23).
//!
//! Owns the write: it carries the UID and the resourceVersion that the verb was decided on, and is none where the annotation says it
//! already. A binding that changed meanwhile, as its status does every few seconds, is read and decided about again.

use anyhow::{Context, bail};
use kube::Api;
use kube::api::{Patch, PatchParams};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use topoloom_api::ClusterBinding;
use topoloom_sync::naming::BindingName;

use super::ReachArgs;
use super::clusters::UNDEFINED;
use crate::cli::output::{Document, OutputArgs};
use crate::cli::source::OPERATOR;
use crate::cluster::{Refusal, RefusalReason, found};

/// How often a binding may change between the look and the write.
const LOOKS: usize = 10;

/// The ClusterBindings of a virtual cluster.
pub(super) struct Desk {
    api: Api<ClusterBinding>,
}

/// An annotation as a verb wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Annotation {
    pub(super) key: &'static str,
    /// `None`: it is taken off.
    pub(super) value: Option<String>,
}

/// What was asked of a binding.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Order {
    /// The verb.
    pub(super) verb: &'static str,
    /// The ClusterBinding.
    pub(super) binding: String,
    /// The virtual node, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// Whether an annotation was written; if not, it was as wanted before.
    pub(super) written: bool,
    /// What happens from now on.
    pub(super) effect: String,
    /// What keeps it from happening, or is left to do.
    pub(super) remarks: Vec<String>,
}

impl Document for Order {
    const KIND: &'static str = "LendOrder";
}

impl Order {
    /// Prints what was done.
    pub(super) fn print(&self, output: OutputArgs) -> anyhow::Result<()> {
        output.print(self, |order| {
            let before = if order.written { "" } else { "nothing was written, since it is so already: " };
            let mut text = format!("{before}{}\n", order.effect);
            order.remarks.iter().for_each(|remark| push_line!(text, "  note: {remark}"));
            text
        })
    }
}

/// What is true of every verb on this binding.
pub(super) fn remarks(binding: &ClusterBinding) -> Vec<String> {
    let is_served = binding.status.holder.as_ref().is_some_and(|holder| !holder.is_empty());
    let unserved = "no replica has served this binding yet, and nothing happens before one does";
    if is_served { Vec::new() } else { vec![unserved.to_owned()] }
}

/// The name of a binding.
pub(super) fn name_of(binding: &ClusterBinding) -> &str {
    binding.metadata.name.as_deref().unwrap_or_default()
}

impl Desk {
    pub(super) async fn at(reach: &ReachArgs) -> anyhow::Result<Self> {
        Ok(Self::of(reach.client().await?))
    }

    pub(super) fn of(client: kube::Client) -> Self {
        Self { api: Api::all(client) }
    }

    /// All bindings.
    pub(super) async fn all(&self) -> anyhow::Result<Vec<ClusterBinding>> {
        let list = self.api.list(&kube::api::ListParams::default()).await;
        Ok(defined(list, || "listing ClusterBindings".to_owned())?.items)
    }

    /// The binding of this name.
    pub(super) async fn get(&self, name: &BindingName) -> anyhow::Result<ClusterBinding> {
        let answer = found(name, self.api.get(name)).await;
        match defined(answer, || format!("reading ClusterBinding {name}"))? {
            Some(binding) => Ok(binding),
            None => bail!("{}", unknown(name, &self.all().await?)),
        }
    }

    /// Writes an annotation that is decided about by the binding as it is. Returns the binding, and whether anything was written.
    pub(super) async fn annotate(
        &self,
        name: &BindingName,
        decide: impl Fn(&ClusterBinding) -> anyhow::Result<Annotation>,
    ) -> anyhow::Result<(ClusterBinding, bool)> {
        for _ in 0..LOOKS {
            let binding = self.get(name).await?;
            let Annotation { key, value } = decide(&binding)?;
            if binding.annotation(key) == value.as_deref() {
                return Ok((binding, false));
            }
            let metadata = &binding.metadata;
            let body = json!({"metadata": {
                "uid": metadata.uid, "resourceVersion": metadata.resource_version, "annotations": {key: value},
            }});
            let parameters = PatchParams { field_manager: Some(OPERATOR.into()), ..PatchParams::default() };
            match self.api.patch(name, &parameters, &Patch::Merge(&body)).await.map_err(|error| Refusal::of(&error)) {
                Ok(stored) => return Ok((stored, true)),
                Err(refusal) if refusal.reason == RefusalReason::Conflict => {}
                Err(refusal) => return Err(refusal).with_context(|| format!("annotating ClusterBinding {name}")),
            }
        }
        bail!("nothing was written: ClusterBinding {name} changed {LOOKS} times in a row before the write, try again")
    }
}

/// The answer to a read of bindings. An API server that has no definition of them may be that of another cluster.
fn defined<T>(answer: kube::Result<T>, doing: impl FnOnce() -> String) -> anyhow::Result<T> {
    match answer.map_err(|error| Refusal::of(&error)) {
        Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => bail!(UNDEFINED),
        answer => answer.with_context(doing),
    }
}

/// That there is none of this name, and which there are.
fn unknown(name: &str, all: &[ClusterBinding]) -> String {
    let names: Vec<&str> = all.iter().map(name_of).collect();
    match names.as_slice() {
        [] => format!("there is no ClusterBinding {name:?}, and no other one"),
        _ => format!("there is no ClusterBinding {name:?}; there are: {}", names.join(", ")),
    }
}

/// Bindings for the tests of verbs.
#[cfg(test)]
pub(super) mod examples {
    use topoloom_api::ClusterBindingSpec;
    use topoloom_api::cluster_binding::ClusterBindingStatus;

    use super::*;

    /// A binding that a replica serves.
    pub(in crate::cli::lend) fn binding(name: &str, uid: &str) -> ClusterBinding {
        let spec = ClusterBindingSpec { cluster_id: name.to_owned(), ..ClusterBindingSpec::default() };
        let mut binding = ClusterBinding::new(name, spec);
        binding.metadata.uid = Some(uid.to_owned());
        binding.status = ClusterBindingStatus { holder: Some("r-0".to_owned()), ..ClusterBindingStatus::default() };
        binding
    }

    /// The same with an annotation.
    pub(in crate::cli::lend) fn annotated(name: &str, key: &str, value: &str) -> ClusterBinding {
        let mut binding = binding(name, "b-1");
        binding.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
        binding
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Method, Request, Response};
    use kube::client::Body;
    use serde_json::Value;
    use topoloom_api::names::PAUSE_ANNOTATION;

    use super::examples::binding;
    use super::*;
    use crate::cli::lend::answers::client;

    /// An API server with one binding, which changes before each of the first writes, and what was written.
    fn server(changes: u64) -> (Desk, Arc<Mutex<Vec<Value>>>) {
        let written = Arc::new(Mutex::new(Vec::new()));
        let store = Arc::new(Mutex::new((1_u64, changes, Value::Null)));
        let seen = Arc::clone(&written);
        let serve = move |request: Request<Body>| {
            let (written, store) = (Arc::clone(&seen), Arc::clone(&store));
            async move {
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut store = store.lock().unwrap();
                let object = |version: u64, annotations: &Value| {
                    let mut object = serde_json::to_value(binding("east", "b-1")).unwrap();
                    object["metadata"]["resourceVersion"] = version.to_string().into();
                    object["metadata"]["annotations"] = annotations.clone();
                    object
                };
                let (code, answer) = if method == Method::PATCH {
                    let patch: Value = serde_json::from_slice(&body).unwrap();
                    if store.1 > 0 {
                        store.0 += 1;
                        store.1 -= 1;
                    }
                    if patch["metadata"]["resourceVersion"].as_str() == Some(&*store.0.to_string()) {
                        store.0 += 1;
                        store.2 = patch["metadata"]["annotations"].clone();
                        written.lock().unwrap().push(patch);
                        (200, object(store.0, &store.2))
                    } else {
                        (
                            409,
                            json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": "m"}),
                        )
                    }
                } else {
                    (200, object(store.0, &store.2))
                };
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        };
        (Desk::of(kube::Client::new(tower::service_fn(serve), "default")), written)
    }

    async fn pause(desk: &Desk) -> anyhow::Result<bool> {
        let name = BindingName::parse("east").unwrap();
        let wanted = |_: &ClusterBinding| Ok(Annotation { key: PAUSE_ANNOTATION, value: Some("true".to_owned()) });
        desk.annotate(&name, wanted).await.map(|(_, is_written)| is_written)
    }

    #[tokio::test]
    async fn s23_a_verb_is_written_in_the_version_that_was_looked_at_and_not_twice() {
        let (desk, written) = server(3);
        assert!(pause(&desk).await.unwrap(), "it changed three times meanwhile");
        assert!(!pause(&desk).await.unwrap());
        let wanted = json!({"metadata": {
            "uid": "b-1", "resourceVersion": "4", "annotations": {"topoloom.dev/pause": "true"},
        }});
        assert_eq!(*written.lock().unwrap(), [wanted]);
    }

    #[tokio::test]
    async fn s23_a_binding_that_never_rests_is_left_as_it_is() {
        let (desk, written) = server(u64::MAX);
        let error = pause(&desk).await.unwrap_err().to_string();
        assert!(error.starts_with("nothing was written: ClusterBinding east changed 10 times"), "{error}");
        assert!(written.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn s23_a_cluster_without_the_definition_of_bindings_may_be_another_one() {
        let desk = Desk::of(client(&[]));
        assert_eq!(pause(&desk).await.unwrap_err().to_string(), UNDEFINED);
        assert_eq!(desk.all().await.unwrap_err().to_string(), UNDEFINED);
    }

    #[test]
    fn a_binding_that_is_not_there_is_told_with_those_that_are() {
        assert_eq!(unknown("est", &[]), "there is no ClusterBinding \"est\", and no other one");
        let all = [binding("east", "b-1"), binding("west", "b-2")];
        assert_eq!(unknown("est", &all), "there is no ClusterBinding \"est\"; there are: east, west");
        assert_eq!(remarks(&all[0]), [""; 0]);
        let unserved = ClusterBinding { status: Default::default(), ..binding("east", "b-1") };
        assert!(remarks(&unserved)[0].starts_with("no replica has served"), "{:?}", remarks(&unserved));
    }
}
