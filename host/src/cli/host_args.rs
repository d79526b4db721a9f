//! The flags of verbs about a running or future host, beside the cluster: where its leases are, and those of others,
//! and what it does about locks of nodes.

use clap::{ArgAction, Args, ValueEnum};

use super::ClusterArgs;
use super::installation::{self, Without};
use super::options::values;
use crate::config::Location;
use crate::nodelock::sweeper::SweepMode;
use crate::topology::rival;

/// The name of the lease by default.
pub(super) const LEASE: &str = "topoloom-hypernode";

/// Which host of the cluster.
#[derive(Debug, Clone, Args)]
pub(super) struct HostArgs {
    #[command(flatten)]
    pub(super) cluster: ClusterArgs,
    /// The name of the lease, as for `run`; other groups of controllers add a suffix. Default: topoloom-hypernode
    #[arg(long, env = "TOPOLOOM_LEADER_ELECT_RESOURCE_NAME", value_name = "NAME", value_parser = values::lease)]
    leader_elect_resource_name: Option<String>,
    /// The namespace of the lease, as for `run`; default: our own
    #[arg(long, env = "TOPOLOOM_LEADER_ELECT_RESOURCE_NAMESPACE", value_name = "NAME", value_parser = values::some_namespace)]
    leader_elect_resource_namespace: Option<String>,
}

/// Other programs that may write HyperNodes.
#[derive(Debug, Clone, Args)]
pub(super) struct RivalArgs {
    /// Leases of Volcano's own HyperNode controller, in any namespace: while another program holds one of them, no
    /// source is written. Names separated by commas; RELEASE-hypernode-controller-manager always counts;
    /// vc-controller-manager, which all of Volcano's controllers share, never does
    #[arg(long, env = "TOPOLOOM_VOLCANO_LEASES", value_name = "NAMES", value_delimiter = ',', default_values = rival::USUAL_NAMES, action = ArgAction::Append, value_parser = values::lease)]
    volcano_leases: Vec<String>,
}

/// What the sweeper does about orphaned locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SweepWord {
    /// Report them
    Report,
    /// Remove them
    Repair,
}

impl From<SweepWord> for SweepMode {
    fn from(word: SweepWord) -> Self {
        match word {
            SweepWord::Report => Self::Report,
            SweepWord::Repair => Self::Repair,
        }
    }
}

impl RivalArgs {
    /// The names of their leases.
    pub(super) fn leases(&self, location: &Location) -> Vec<String> {
        rival::leases(&self.volcano_leases, location.release())
    }

    /// Why a name that was given is not among them, if that is so.
    pub(super) fn left_out(&self) -> Option<String> {
        let of_all = self.volcano_leases.iter().find(|name| *name == rival::OF_ALL)?;
        Some(format!(
            "{of_all} is ignored: all of Volcano's controllers share this lease, and they hold it even when the HyperNode controller is off, so no source would ever be written. A lease cannot show what runs there"
        ))
    }
}

impl HostArgs {
    /// Namespace and name of the first lease.
    pub(super) fn lease(&self) -> (String, String) {
        let (namespace, name) = (&self.leader_elect_resource_namespace, &self.leader_elect_resource_name);
        let namespace = namespace.clone().unwrap_or_else(|| self.cluster.own_namespace());
        (namespace, name.clone().unwrap_or_else(|| LEASE.to_owned()))
    }

    /// The same with the installation: the only one, if no flag names it.
    ///
    /// # Errors
    /// If there are several, or none and `without` does not continue.
    pub(super) async fn found(&self, without: Without) -> anyhow::Result<Self> {
        let names_a_lease = self.leader_elect_resource_name.is_some() || self.leader_elect_resource_namespace.is_some();
        if names_a_lease || self.cluster.names_an_installation() {
            return Ok(self.clone());
        }
        let Some(found) = installation::look(&self.cluster.connect().await?, without).await? else {
            return Ok(self.clone());
        };
        let (namespace, name) = found.lease.clone().unzip();
        Ok(Self {
            cluster: self.cluster.of(&found),
            leader_elect_resource_name: name,
            leader_elect_resource_namespace: namespace,
        })
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
