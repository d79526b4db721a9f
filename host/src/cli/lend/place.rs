//! The installation that serves the bindings, and whether it writes anything but leases (decision S27).
//!
//! Owns where it is: its namespace with the Secrets, the ConfigMap whose annotation switches writes off, and its pods. Flags say it, or the
//! leases of bindings do, which are renewed also while writes are off. Never looks for an installation that serves no binding.
//!
//! # Failure story
//!
//! Where leases cannot be read, or are those of several installations, it is where a host without flags would be. A switch that cannot
//! be read is an error, which the caller shows: it may be off.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use topoloom_api::names::{CONFIGURATION_ANNOTATION, NAME, NAME_LABEL, READ_ONLY_ANNOTATION};
use topoloom_api::rules::is_dns_subdomain;
use topoloom_core::text::says_yes;
use topoloom_sync::naming::base_of_binding_lease;

use crate::cli::{ClusterArgs, installation};
use crate::cluster::Refusal;
use crate::cluster::leases::LeaseStatus;
use crate::config::Location;

/// The most pods that are read.
const PODS: usize = 10;

/// Where an installation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its own namespace, with the Secrets.
    pub(super) namespace: String,
    config: Location,
    /// Its pods that hold leases of bindings.
    pods: BTreeSet<String>,
}

/// What the leases of bindings say.
#[derive(Debug, Default, PartialEq, Eq)]
struct OfLeases {
    namespace: Option<String>,
    config: Option<Location>,
    pods: BTreeSet<String>,
}

impl Place {
    /// Where flags say, otherwise where the leases of bindings are, if that is one namespace.
    pub(super) async fn of(args: &ClusterArgs, client: &kube::Client) -> Self {
        let named = args.names_an_installation().then(|| args.own_namespace());
        let leases = OfLeases::list(client, named.as_deref()).await.unwrap_or_default();
        let config = leases.config.filter(|_| !args.names_a_configuration());
        Self {
            namespace: named.or(leases.namespace).unwrap_or_else(|| args.own_namespace()),
            config: config.unwrap_or_else(|| args.location()),
            pods: leases.pods,
        }
    }

    /// Where the leases of bindings say; nothing where they are not those of one installation.
    pub(super) async fn by_leases(client: &kube::Client) -> Result<Option<Self>, Refusal> {
        let OfLeases { namespace, config, pods } = OfLeases::list(client, None).await?;
        Ok(namespace.zip(config).map(|(namespace, config)| Self { namespace, config, pods }))
    }

    /// Whether its writes are switched off, by the annotation, or because it was started so.
    pub(super) async fn is_read_only(&self, client: &kube::Client) -> Result<bool, Refusal> {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &self.config.namespace);
        let map = maps.get_metadata_opt(&self.config.name).await.map_err(|error| Refusal::of(&error))?;
        let annotation = map.as_ref().and_then(|map| map.annotations().get(READ_ONLY_ANNOTATION));
        if says_yes(annotation.map(String::as_str)) {
            return Ok(true);
        }
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
        for name in self.pods.iter().take(PODS) {
            let pod = pods.get_opt(name).await.map_err(|error| Refusal::of(&error))?;
            if pod.as_ref().is_some_and(installation::is_started_read_only) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl OfLeases {
    async fn list(client: &kube::Client, namespace: Option<&str>) -> Result<Self, Refusal> {
        let leases: Api<Lease> = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        let by = ListParams::default().labels(&format!("{NAME_LABEL}={NAME}"));
        let leases = leases.list(&by).await.map_err(|error| Refusal::of(&error))?;
        Ok(Self::of(&leases.items))
    }

    fn of(leases: &[Lease]) -> Self {
        let of_bindings = || leases.iter().filter(|lease| base_of_binding_lease(&lease.name_any()).is_some());
        let config = |lease: &Lease| {
            let written = lease.annotations().get(CONFIGURATION_ANNOTATION)?;
            Location::parse(written, &lease.namespace()?).ok()
        };
        // When it was renewed does not matter: a pod that is gone says nothing.
        let pod = |lease: &Lease| LeaseStatus::of(lease, Timestamp::UNIX_EPOCH).replica().to_owned();
        Self {
            namespace: only(of_bindings().filter_map(|lease| lease.namespace())),
            config: only(of_bindings().filter_map(config)),
            // It ends in the path of a request.
            pods: of_bindings().map(pod).filter(|name| is_dns_subdomain(name)).collect(),
        }
    }
}

/// What all of them are, if they are the same.
fn only<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::answers::{client, list};
    use super::*;

    const LEASE: &str = "topoloom-syncer-binding-05b290659fd4689e76c323dfefc45fcb";
    const LEASES: &str = "/apis/coordination.k8s.io/v1/leases";
    const MAP: &str = "/api/v1/namespaces/own/configmaps/conf";
    const POD: &str = "/api/v1/namespaces/own/pods/syncer-0";

    fn lease(namespace: &str, name: &str) -> Value {
        json!({
            "metadata": {
                "namespace": namespace, "name": name, "annotations": {"topoloom.dev/configuration": "own/conf"},
            },
            "spec": {"holderIdentity": "syncer-0_4f0c"},
        })
    }

    fn map(annotations: Value) -> Value {
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": {"name": "conf", "annotations": annotations}})
    }

    fn pod(args: &[&str]) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "syncer-0"},
            "spec": {"containers": [{"name": "topoloom", "args": args}]},
        })
    }

    async fn is_read_only(answers: &[(&str, Value)]) -> Option<bool> {
        let client = client(answers);
        let place = Place::by_leases(&client).await.unwrap()?;
        Some(place.is_read_only(&client).await.unwrap())
    }

    #[tokio::test]
    async fn s27_writes_are_off_by_the_annotation_or_by_the_flag_of_the_pod_that_holds_the_lease_of_a_binding() {
        let ours = list(&[lease("own", LEASE), lease("elsewhere", "topoloom-hypernode")]);
        let (off, on) = (map(json!({"topoloom.dev/read-only": "true"})), map(json!({})));
        for (map, args, wanted) in [
            (&off, vec!["run"], true),
            (&on, vec!["run", "--read-only"], true),
            (&on, vec!["run"], false),
            (&map(json!({"topoloom.dev/read-only": "false"})), vec!["run"], false),
        ] {
            let answers = [(LEASES, ours.clone()), (MAP, map.clone()), (POD, pod(&args))];
            assert_eq!(is_read_only(&answers).await, Some(wanted), "{map} {args:?}");
        }
        // The pod is gone, and there is no configuration.
        assert_eq!(is_read_only(&[(LEASES, ours)]).await, Some(false));
    }

    #[tokio::test]
    async fn s27_without_the_leases_of_one_installation_no_switch_is_looked_at() {
        let several = list(&[lease("own", LEASE), lease("other", LEASE)]);
        let off = map(json!({"topoloom.dev/read-only": "true"}));
        assert_eq!(is_read_only(&[(LEASES, several), (MAP, off.clone())]).await, None);
        assert_eq!(is_read_only(&[(LEASES, list(&[])), (MAP, off)]).await, None);
    }
}
