//! What verbs about a running or future host are told beside the cluster: where its leases are.

use clap::Args;

use super::ClusterArgs;
use super::options::values;
use crate::config::Location;

/// The name of the lease where nobody gives another.
const LEASE: &str = "topoloom-hypernode";

/// Which host of the cluster.
#[derive(Debug, Clone, Args)]
pub(super) struct HostArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The name of the lease, as `run` has it; other groups of controllers add a suffix
    #[arg(long, env = "TOPOLOOM_LEADER_ELECT_RESOURCE_NAME", value_name = "NAME", default_value = LEASE, value_parser = values::lease)]
    leader_elect_resource_name: String,
    /// The namespace of the lease, as `run` has it; default: our own
    #[arg(long, env = "TOPOLOOM_LEADER_ELECT_RESOURCE_NAMESPACE", value_name = "NAME", value_parser = values::some_namespace)]
    leader_elect_resource_namespace: Option<String>,
}

impl HostArgs {
    /// Namespace and name of the first lease.
    pub(super) fn lease(&self) -> (String, String) {
        let namespace = self.leader_elect_resource_namespace.clone();
        (namespace.unwrap_or_else(|| self.cluster.own_namespace()), self.leader_elect_resource_name.clone())
    }

    /// Our own namespace.
    pub(super) fn own_namespace(&self) -> String {
        self.cluster.own_namespace()
    }

    /// Where the configuration is.
    pub(super) fn location(&self) -> Location {
        self.cluster.location()
    }
}
