//! Looking at the cluster.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{self, ConfigMap};
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use topoloom_api::names::READ_ONLY_ANNOTATION;
use topoloom_api::{ClusterBinding, DiscoverySource};

use super::advice::Configuration;
use super::bindings::binding;
use super::{Lease, Pod, Replica, Source, Status, StatusArgs, waits};
use crate::cli::installation::Without;
use crate::cli::live::list;
use crate::cli::output::parts::PlacedNodes;
use crate::cluster::{Refusal, RefusalReason, leases};
use crate::config::Load;
use crate::discovery::decide::NO_SUCH_LABEL;
use crate::manager::election::LeaseGroup;
use crate::topology::writers;

/// The chart's name for our pods, unless its values give another.
const PODS: &str = "app.kubernetes.io/name=topoloom";
/// The labels by which the chart distinguishes our pods from others.
const TELLING: [&str; 2] = ["app.kubernetes.io/name", "app.kubernetes.io/instance"];
/// Groups that may have a lease.
const GROUPS: [LeaseGroup; 2] = [LeaseGroup::HyperNode, LeaseGroup::NodeLock];
/// Warnings about the configuration that are shown; `topoloom config check` and `preflight` show all.
const WARNINGS: usize = 10;
/// The digits of a digest that are shown.
const DIGITS: usize = 19;

/// Looks at everything. Fails only where there is no API server.
pub(super) async fn look(args: &StatusArgs) -> anyhow::Result<Status> {
    let StatusArgs { host, rivals, selector, .. } = args;
    let host = &host.found(Without::Fails).await?;
    let client = host.cluster.connect().await?;
    let server = leases::server(&client).await?;
    let location = host.location();
    let mut status = Status {
        time: server.now.to_string(),
        server: server.version,
        version: env!("CARGO_PKG_VERSION"),
        config: location.to_string(),
        ..Status::default()
    };
    let (namespace, name) = host.lease();
    for group in GROUPS {
        let name = group.lease(&name);
        match leases::read(&client, &namespace, &name, server.now).await {
            Ok(Some(held)) => status.leases.push(Lease { group: group.as_str(), held }),
            // No controller of the other group runs so far.
            Ok(None) if group == LeaseGroup::HyperNode => {
                status.remarks.push(format!(
                    "there is no lease {namespace}/{name}: no replica of hyperNode-controller has run yet"
                ));
            }
            Ok(None) => {}
            Err(refusal) => status.remarks.push(format!("the lease {namespace}/{name} could not be read: {refusal}")),
        }
    }
    let pods: Api<v1::Pod> = Api::namespaced(client.clone(), &host.own_namespace());
    let by = match selector {
        Some(selector) => selector.clone(),
        None => labels_of_ours(&pods, &status.leases).await,
    };
    let pods = match pods.list(&ListParams::default().labels(&by)).await {
        Ok(pods) => pods.items,
        Err(error) => {
            status.remarks.push(format!("pods could not be listed: {}", Refusal::of(&error)));
            Vec::new()
        }
    };
    status.replicas = replicas(&status.leases, &pods, server.now);
    status.remarks.extend(skew(&status.replicas));
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &location.namespace);
    let map = maps.get_opt(&location.name).await.map_err(|error| Refusal::of(&error));
    if let Ok(Some(map)) = &map {
        let annotation = map.annotations().get(READ_ONLY_ANNOTATION);
        status.read_only = Some(topoloom_core::text::says_yes(annotation.map(String::as_str)));
    }
    let data = map.map(|map| map.map(|map| map.data.unwrap_or_default()));
    let load = data.map(|data| Load::from_data(data.as_ref(), &location.key));
    let configuration = Configuration { location: &location, load: &load };
    match list::<DiscoverySource>(&client).await {
        Ok(sources) => {
            status.sources = sources.iter().map(|source| source_of(source, server.now, &configuration)).collect();
            status.sources.sort_by(|a, b| a.source.cmp(&b.source));
            status.remarks.extend(sources.iter().filter_map(unknown_label));
        }
        Err(refusal) => status.remarks.push(format!("sources could not be listed: {refusal}")),
    }
    match list::<ClusterBinding>(&client).await {
        Ok(bindings) => {
            status.bindings = bindings.iter().map(|object| binding(object, server.now)).collect();
            status.bindings.sort_by(|a, b| a.binding.cmp(&b.binding));
        }
        // Nothing is lent to this cluster.
        Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => {}
        Err(refusal) if refusal.reason == RefusalReason::Forbidden => {
            if knows_bindings(&client).await {
                status.remarks.push(format!(
                    "ClusterBindings could not be listed; the same command in the Deployment of the syncer shows them: {refusal}"
                ));
            }
        }
        Err(refusal) => status.remarks.push(format!("ClusterBindings could not be listed: {refusal}")),
    }
    let known: Vec<&str> = status.sources.iter().map(|source| source.source.as_str()).collect();
    status.waits = configuration.waits(&known);
    let document = load.as_ref().ok().and_then(Load::document);
    let warnings = document.map(|document| document.warnings.as_slice()).unwrap_or_default();
    status.remarks.extend(warnings.iter().take(WARNINGS).map(|warning| format!("configuration: {warning}")));
    let (held, unseen) = writers::rivals(&client, &rivals.leases(&location), server.now).await;
    status.second_writers.leases = held;
    let remark = |refusal: Refusal| format!("leases of Volcano's controller could not be listed: {refusal}");
    status.remarks.extend(unseen.map(remark));
    status.remarks.extend(rivals.left_out().map(|why| format!("--volcano-leases: {why}")));
    match writers::of_objects(&client, server.now).await {
        Ok(found) => status.second_writers.managers = found.lately,
        Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => {
            status.remarks.push(format!("there are no HyperNodes: {refusal}"));
        }
        Err(refusal) => status.remarks.push(format!("HyperNodes could not be listed: {refusal}")),
    }
    Ok(status)
}

/// Whether the cluster has ClusterBindings: without the right to list them, a server refuses also what it does not have.
async fn knows_bindings(client: &kube::Client) -> bool {
    let plural = ClusterBinding::plural(&());
    match client.list_api_group_resources(&ClusterBinding::api_version(&())).await {
        Ok(list) => list.resources.iter().any(|resource| resource.name == plural),
        Err(error) => !matches!(Refusal::of(&error).reason, RefusalReason::NoSuchResource | RefusalReason::NotFound),
    }
}

/// What our pods have in common. The chart may have been given another name, which the pod that leads has too.
async fn labels_of_ours(pods: &Api<v1::Pod>, leases: &[Lease]) -> String {
    for lease in leases {
        if let Ok(Some(pod)) = pods.get_opt(lease.held.replica()).await
            && let Some(selector) = telling(&pod)
        {
            return selector;
        }
    }
    PODS.to_owned()
}

/// The labels of a pod of ours as a selector.
fn telling(pod: &v1::Pod) -> Option<String> {
    let label = |key: &str| Some(format!("{key}={}", pod.labels().get(key)?));
    let labels: Vec<String> = TELLING.into_iter().filter_map(label).collect();
    (!labels.is_empty()).then(|| labels.join(","))
}

/// Every replica that pods or leases know, by name.
fn replicas(leases: &[Lease], pods: &[v1::Pod], now: Timestamp) -> Vec<Replica> {
    let mut replicas: BTreeMap<String, Replica> = BTreeMap::new();
    for pod in pods {
        let name = pod.name_any();
        replicas.insert(name.clone(), Replica { name, leads: Vec::new(), pod: Some(pod_of(pod, now)) });
    }
    for lease in leases.iter().filter(|lease| lease.held.standing == leases::LeaseFreshness::Fresh) {
        let name = lease.held.replica().to_owned();
        let replica = replicas.entry(name.clone()).or_insert_with(|| Replica { name, ..Replica::default() });
        replica.leads.push(lease.group);
    }
    replicas.into_values().collect()
}

fn pod_of(pod: &v1::Pod, now: Timestamp) -> Pod {
    let spec = pod.spec.as_ref();
    let status = pod.status.clone().unwrap_or_default();
    let containers = spec.map(|spec| spec.containers.as_slice()).unwrap_or_default();
    let ours = containers.iter().find(|container| container.name == "topoloom").or(containers.first());
    let states = status.container_statuses.unwrap_or_default();
    let ready = status.conditions.unwrap_or_default();
    Pod {
        image: ours.and_then(|container| container.image.clone()).unwrap_or_default(),
        ready: ready.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        phase: status.phase.unwrap_or_default(),
        restarts: states.iter().map(|state| state.restart_count).sum(),
        node: spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        age_seconds: status.start_time.map(|start| now.duration_since(start.0).as_secs()),
    }
}

/// That replicas run different versions, if they do.
fn skew(replicas: &[Replica]) -> Option<String> {
    let images = replicas.iter().filter_map(|replica| replica.pod.as_ref().map(|pod| pod.image.as_str()));
    let images: BTreeSet<&str> = images.collect();
    (images.len() > 1).then(|| {
        let images: Vec<_> = images.into_iter().collect();
        format!("replicas run different versions, so an update is under way or stuck: {}", images.join(", "))
    })
}

/// That no Node has a label which a source reads.
fn unknown_label(object: &DiscoverySource) -> Option<String> {
    let status = &object.status;
    let diagnostic = status.diagnostics.iter().find(|diagnostic| diagnostic.code == NO_SUCH_LABEL)?;
    Some(format!("source {}: {} ({}): {}", status.source, diagnostic.code, diagnostic.count, diagnostic.example))
}

fn source_of(object: &DiscoverySource, now: Timestamp, configuration: &Configuration<'_>) -> Source {
    let status = &object.status;
    let plugin = status.plugin.as_ref();
    let success: Option<Timestamp> = status.last_success.as_ref().and_then(|text| text.parse().ok());
    Source {
        source: status.source.clone(),
        state: status.state.unwrap_or_default().as_str(),
        plugin: plugin.map(|plugin| format!("{} {}", plugin.name, plugin.version)).unwrap_or_default(),
        digest: plugin.map(|plugin| plugin.digest.chars().take(DIGITS).collect()).unwrap_or_default(),
        nodes: status.nodes.map(PlacedNodes::from),
        groups: status.groups,
        lag_seconds: success.map(|success| now.duration_since(success).as_secs().max(0)),
        message: status.message.clone(),
        waits: waits::of(status, configuration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, image: &str) -> v1::Pod {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "proxy", "image": "proxy:1"}, {"name": "topoloom", "image": image}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "topoloom", "restartCount": 2, "image": "", "imageID": "", "ready": true}]},
        }))
        .unwrap()
    }

    fn lease(holder: &str, now: &str) -> Lease {
        let lease = json!({"spec": {"holderIdentity": holder, "renewTime": now.replace('Z', ".000000Z")}});
        let held = leases::LeaseStatus::of(&serde_json::from_value(lease).unwrap(), now.parse().unwrap());
        Lease { group: "hypernode", held }
    }

    #[test]
    fn replicas_come_from_pods_and_from_leases() {
        let now = "2026-01-01T00:00:00Z";
        let pods = [pod("host-a", "topoloom:1"), pod("host-b", "topoloom:2")];
        let found = replicas(&[lease("host-b_1234", now), lease("elsewhere_1", now)], &pods, now.parse().unwrap());
        let names: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.leads.len(), it.pod.is_some())).collect();
        assert_eq!(names, [("elsewhere", 1, false), ("host-a", 0, true), ("host-b", 1, true)]);
        let seen = found.last().and_then(|replica| replica.pod.clone()).unwrap();
        assert_eq!((seen.image.as_str(), seen.ready, seen.restarts), ("topoloom:2", true, 2));
        assert!(skew(&found).is_some_and(|text| text.ends_with("topoloom:1, topoloom:2")));
        assert_eq!(skew(&found[..2]), None);
    }

    #[test]
    fn pods_are_told_from_others_by_what_the_chart_called_them() {
        let mut ours = pod("host-a", "topoloom:1");
        assert_eq!(telling(&ours), None);
        let labels = [("app.kubernetes.io/name", "fabric"), ("app.kubernetes.io/instance", "west"), ("team", "x")];
        ours.labels_mut().extend(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let by = telling(&ours);
        assert_eq!(by.as_deref(), Some("app.kubernetes.io/name=fabric,app.kubernetes.io/instance=west"));
    }

    #[test]
    fn a_label_that_no_node_has_is_a_remark() {
        let source_with = |code: &str| -> DiscoverySource {
            let diagnostic = json!({"code": code, "count": 1, "example": "ex.io/rak: no Node has this label"});
            let status = json!({"source": "label", "diagnostics": [diagnostic]});
            serde_json::from_value(json!({"metadata": {"name": "label"}, "spec": {}, "status": status})).unwrap()
        };
        let remark = "source label: no-such-label (1): ex.io/rak: no Node has this label";
        assert_eq!(unknown_label(&source_with("no-such-label")).as_deref(), Some(remark));
        assert_eq!(unknown_label(&source_with("missing-label")), None);
    }

    #[test]
    fn a_holder_that_is_gone_is_no_replica() {
        let then = lease("host-a_1", "2026-01-01T00:00:00Z");
        let late = leases::LeaseStatus { standing: leases::LeaseFreshness::Expired, ..then.held.clone() };
        assert_eq!(replicas(&[Lease { held: late, ..then }], &[], Timestamp::UNIX_EPOCH), []);
    }
}
