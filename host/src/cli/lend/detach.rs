//! `topoloom lend detach`: the deletion of a binding whose physical cluster will never come back (decision S23).
//!
//! What it has in that cluster is left there: claims, pods, the Lease. So it is refused where the binding is not being deleted,
//! or was never connected, and it wants a word more than the name.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use topoloom_api::ClusterBinding;
use topoloom_api::cluster_binding::ConnectionState;
use topoloom_api::names::DETACH_ANNOTATION;
use topoloom_sync::naming::BindingName;

use super::ReachArgs;
use super::orders::{Annotation, Desk, Order, name_of, remarks};
use crate::cli::output::OutputArgs;

/// Flags of `lend detach`.
#[derive(Debug, Args)]
pub(in crate::cli) struct DetachArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// The ClusterBinding, which is being deleted
    #[arg(value_parser = super::binding)]
    binding: BindingName,
    /// The physical cluster is gone for good: nothing there is waited for, and nothing there is removed
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Detaches a binding.
pub(super) async fn run(args: &DetachArgs) -> anyhow::Result<ExitCode> {
    let desk = Desk::at(&args.reach).await?;
    let name = &args.binding;
    if !args.force {
        let binding = desk.get(name).await?;
        wanted(&binding)?;
        bail!("{}", unforced(&binding));
    }
    let (binding, written) = desk.annotate(name, wanted).await?;
    let cluster = binding.annotation(DETACH_ANNOTATION).unwrap_or_default();
    let effect = format!(
        "ClusterBinding {name} is deleted without its physical cluster (UID {cluster}): pods leave its virtual nodes, the nodes \
         go, and then the binding. What is left in that cluster, if it comes back: `topoloom lend release {name} \
         --physical-kubeconfig FILE`"
    );
    let remarks = remarks(&binding);
    Order { verb: "detach", binding: name.to_string(), node: None, written, effect, remarks }.print(args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// What is said without `--force`.
fn unforced(binding: &ClusterBinding) -> String {
    let name = name_of(binding);
    let state = binding.status.connection.as_ref().map_or(ConnectionState::Unknown, |connection| connection.state);
    let nodes = binding.status.nodes.map_or(0, |nodes| nodes.lent);
    let state = match state {
        ConnectionState::Reachable => "The physical cluster answers now, so the deletion needs no detach".to_owned(),
        ConnectionState::Connecting
        | ConnectionState::Suspect
        | ConnectionState::Unreachable
        | ConnectionState::Unknown => format!("The connection to the physical cluster is {}", state.as_str()),
    };
    format!(
        "nothing was written. {state}. With --force the {nodes} virtual nodes of ClusterBinding {name} go without it, and its \
         claims and pods stay in that cluster for ever if it comes back. If it is gone for good: topoloom lend detach {name} \
         --force"
    )
}

/// The annotation that detaches.
fn wanted(binding: &ClusterBinding) -> anyhow::Result<Annotation> {
    let name = name_of(binding);
    if binding.metadata.deletion_timestamp.is_none() {
        bail!(
            "ClusterBinding {name} is not being deleted, so there is nothing to detach. First: kubectl delete clusterbinding \
             {name} --wait=false"
        );
    }
    match binding.status.physical_cluster_uid.as_deref().filter(|uid| !uid.is_empty()) {
        Some(uid) => Ok(Annotation { key: DETACH_ANNOTATION, value: Some(uid.to_owned()) }),
        None => bail!("ClusterBinding {name} was never connected to a physical cluster: its deletion waits for none"),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use topoloom_api::cluster_binding::{ConnectionStatus, NodeCounts};

    use super::super::orders::examples::binding;
    use super::*;

    fn leaving(state: ConnectionState) -> ClusterBinding {
        let mut binding = binding("east", "b-1");
        binding.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        binding.status.physical_cluster_uid = Some("cluster-1".into());
        binding.status.connection = Some(ConnectionStatus { state, ..ConnectionStatus::default() });
        binding.status.nodes = Some(NodeCounts { lent: 4, ..NodeCounts::default() });
        binding
    }

    #[test]
    fn s23_a_binding_is_detached_from_the_cluster_that_it_borrowed_from_while_it_is_deleted() {
        let written = wanted(&leaving(ConnectionState::Unreachable)).unwrap();
        assert_eq!((written.key, written.value.as_deref()), ("topoloom.dev/detach", Some("cluster-1")));
        let error = |binding: &ClusterBinding| wanted(binding).unwrap_err().to_string();
        assert!(error(&binding("east", "b-1")).contains("First: kubectl delete clusterbinding east --wait=false"));
        let mut new = leaving(ConnectionState::Connecting);
        new.status.physical_cluster_uid = None;
        assert!(error(&new).contains("was never connected"));
    }

    #[test]
    fn s23_without_force_it_is_said_what_stays_in_the_other_cluster() {
        let gone = unforced(&leaving(ConnectionState::Unreachable));
        assert!(gone.starts_with("nothing was written.") && gone.contains("the 4 virtual nodes"), "{gone}");
        assert!(gone.contains("is Unreachable") && gone.ends_with("topoloom lend detach east --force"), "{gone}");
        let there = unforced(&leaving(ConnectionState::Reachable));
        assert!(there.contains("answers now, so the deletion needs no detach"), "{there}");
    }
}
