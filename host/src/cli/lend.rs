//! `topoloom lend …`: what people do about lent nodes, on both sides (decisions S7, S19, S22 and S23).
//!
//! For the lender: `grant` prints what to create for a borrower, `kubeconfig` the way in for it. For the operator of the
//! virtual cluster: verbs, which are annotations on the ClusterBinding that the syncer obeys, each written in the version that
//! was looked at. `release` is for what no syncer serves any more, and writes by itself. `plan`, `explain` and `report` look once and
//! write nothing: what they show is decided by the very functions that the controllers call, over a
//! [`View`](topoloom_syncer::view::View) that lists fill in place of watches.

mod amounts;
#[cfg(test)]
mod answers;
mod clusters;
pub(super) mod confirm;
mod detach;
mod drain;
pub(super) mod explain;
mod grant;
mod kubeconfig;
mod objects;
pub(super) mod orders;
mod overlay;
mod parts;
mod pause;
mod place;
pub(super) mod plan;
pub(super) mod release;
pub(super) mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use topoloom_core::rules::is_label_value;
use topoloom_sync::naming::BindingName;

use super::options::values;
use crate::cluster;
use crate::manager::rights::lending::grant::ACCOUNTS;

/// Verbs about lent nodes.
#[derive(Debug, Subcommand)]
pub(super) enum LendCommand {
    /// Lender: print what to create for a borrower, for kubectl apply -f -; needs no cluster
    Grant(grant::GrantArgs),
    /// Lender: print a kubeconfig with a new token for a borrower
    ///
    /// It reads the ServiceAccount of the borrower, its ClusterRole, and the admission policies of the grant that restrict it. Where
    /// one of them is missing no token is requested.
    Kubeconfig(kubeconfig::KubeconfigArgs),
    /// Show what would be lent, resized, taken away and evicted, now and at the next boundary; writes nothing
    ///
    /// With -f the objects in a file count as if they were applied. Exit code 2: the guard would hold a part of it, and
    /// the numbers are printed. 1: something is wrong with the file, or a cluster could not be read.
    Plan(plan::LendPlanArgs),
    /// Show why a node lends as much as it does, or what becomes of a lent pod; writes nothing
    Explain(explain::LendExplainArgs),
    /// Show what is lent, used and idle by binding and policy, and what waits; writes nothing
    Report(report::LendReportArgs),
    /// Empty the nodes of a binding, or one of them, as disruption budgets allow, and take them away
    Drain(drain::DrainArgs),
    /// Stop all changes of a binding; leases and mirroring continue
    Pause(pause::PauseArgs),
    /// Allow the changes of a paused binding again
    Resume(pause::PauseArgs),
    /// Show what a binding holds until a person confirms it, and confirm it
    Confirm(confirm::ConfirmArgs),
    /// Remove what a binding left that does not exist any more: virtual nodes, claims, pods
    Release(release::ReleaseArgs),
    /// Delete a binding whose physical cluster will never come back
    Detach(detach::DetachArgs),
}

/// Which cluster.
#[derive(Debug, Clone, Args)]
pub(super) struct ReachArgs {
    /// The kubeconfig; default: KUBECONFIG, ~/.kube/config, or the pod's ServiceAccount
    #[arg(long, env = "TOPOLOOM_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The URL of the API server, in place of the one in the kubeconfig
    #[arg(long, env = "TOPOLOOM_MASTER", value_name = "URL", value_parser = values::server)]
    master: Option<http::Uri>,
    /// The context in the kubeconfig
    #[arg(long, env = "TOPOLOOM_CONTEXT", value_name = "NAME")]
    context: Option<String>,
}

impl ReachArgs {
    async fn connection(&self) -> anyhow::Result<cluster::Connection> {
        Ok(cluster::connect(self.kubeconfig.as_deref(), self.context.as_deref(), self.master.as_ref()).await?)
    }

    async fn client(&self) -> anyhow::Result<kube::Client> {
        Ok(self.connection().await?.client)
    }
}

/// Which borrower.
#[derive(Debug, Args)]
pub(super) struct BorrowerArgs {
    /// The borrower: the name of its ClusterBinding
    #[arg(long, value_name = "NAME", value_parser = binding)]
    borrower: BindingName,
    /// The namespace that is lent: `mountNamespace` of the ClusterBinding
    #[arg(long, value_name = "NAME", value_parser = values::some_namespace)]
    mount_namespace: String,
    /// The namespace of the ServiceAccounts of borrowers; never one that is lent, whose pods could use the account
    #[arg(long, value_name = "NAME", default_value = ACCOUNTS, value_parser = values::some_namespace)]
    account_namespace: String,
}

/// How objects are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ObjectFormat {
    /// For people and kubectl
    Yaml,
    /// For programs and kubectl
    Json,
}

/// The name of a ClusterBinding.
fn binding(text: &str) -> Result<BindingName, String> {
    BindingName::parse(text).map_err(|error| error.to_string())
}

/// The identity of a virtual cluster: it is the value of a label.
fn virtual_cluster(text: &str) -> Result<String, String> {
    let wanted = "must be 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends: the UID of the \
                  namespace kube-system of the virtual cluster";
    let is_one = !text.is_empty() && is_label_value(text).is_ok();
    is_one.then(|| text.to_owned()).ok_or_else(|| wanted.to_owned())
}

/// Objects as one text that kubectl takes. A JSON text has no place for the comment.
fn printed(objects: &[Value], format: ObjectFormat, comment: &str) -> anyhow::Result<String> {
    match format {
        ObjectFormat::Yaml => {
            let mut text: String = comment.lines().map(|line| format!("# {line}\n")).collect();
            for object in objects {
                text.push_str("---\n");
                text.push_str(&topoloom_api::crd::to_yaml(object)?);
            }
            Ok(text)
        }
        ObjectFormat::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
            Ok(format!("{}\n", serde_json::to_string_pretty(&list)?))
        }
    }
}

/// Does what the verb says.
pub(super) async fn run(verb: LendCommand) -> anyhow::Result<ExitCode> {
    match verb {
        LendCommand::Grant(args) => grant::run(&args),
        LendCommand::Kubeconfig(args) => kubeconfig::run(&args).await,
        LendCommand::Plan(args) => plan::run(args).await,
        LendCommand::Explain(args) => Box::pin(explain::run(args)).await,
        LendCommand::Report(args) => report::run(args).await,
        LendCommand::Drain(args) => drain::run(&args).await,
        LendCommand::Pause(args) => pause::run(&args, pause::Change::Pause).await,
        LendCommand::Resume(args) => pause::run(&args, pause::Change::Resume).await,
        LendCommand::Confirm(args) => confirm::run(&args).await,
        LendCommand::Release(args) => release::run(&args).await,
        LendCommand::Detach(args) => detach::run(&args).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_one_text_for_kubectl_in_either_format() {
        let objects = [json!({"kind": "A"}), json!({"kind": "B"})];
        let yaml = printed(&objects, ObjectFormat::Yaml, "one\ntwo").unwrap();
        assert_eq!(yaml, "# one\n# two\n---\nkind: A\n---\nkind: B\n");
        let text = printed(&objects, ObjectFormat::Json, "one").unwrap();
        let list: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(list, json!({"apiVersion": "v1", "kind": "List", "items": objects}));
    }
}
