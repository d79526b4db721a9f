//! `topoloom lend confirm`: what a binding holds until a person has looked at it (decisions S6, S9, S23 and S25).
//!
//! Without a hash nothing is written. A hash that is not held now confirms nothing: what was held when the person looked may be
//! another batch than what is held since. Where something only came to a batch, its earlier hash confirms what it was shown with.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::ClusterBinding;
use topoloom_api::cluster_binding::{ClusterBindingStatus, Extent, Side};
use topoloom_api::names::CONFIRM_ANNOTATION;
use topoloom_core::text;
use topoloom_sync::guard::GATHER;
use topoloom_sync::naming::BindingName;

use super::ReachArgs;
use super::orders::{Annotation, Desk};
use crate::cli::output::{Document, OutputArgs};

/// The kind of a batch of disruptions.
const BATCH: &str = "batch";
/// Longest hash that is repeated.
const SHOWN: usize = 80;

/// Flags of `lend confirm`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ConfirmArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// The ClusterBinding
    #[arg(value_parser = super::binding)]
    binding: BindingName,
    /// The hash that you saw; without it, what is held is shown and nothing is confirmed
    hash: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

/// What a binding holds.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct HeldByBinding {
    binding: String,
    /// Empty if nothing waits for a person.
    held: Vec<HeldThing>,
    /// The hash that was confirmed by this command.
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed: Option<String>,
}

impl Document for HeldByBinding {
    const KIND: &'static str = "LendConfirmation";
}

/// One thing that waits.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct HeldThing {
    /// `batch` of disruptions, another physical `cluster` that answers, or a `restore` of one of the clusters.
    kind: &'static str,
    /// What confirms it.
    hash: String,
    /// Since when, RFC 3339.
    since: String,
    /// What it is.
    sentence: String,
    /// What a batch would disrupt, with what went shortly before.
    #[serde(skip_serializing_if = "Option::is_none")]
    extent: Option<Counted>,
    /// The size of the binding that the limits refer to.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Counted>,
    /// What of the extent went shortly before the batch was held, and is gone already.
    #[serde(skip_serializing_if = "Option::is_none")]
    spent: Option<Counted>,
}

/// Nodes and pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
struct Counted {
    nodes: i64,
    pods: i64,
}

/// Shows what is held, or confirms it.
pub(super) async fn run(args: &ConfirmArgs) -> anyhow::Result<ExitCode> {
    let desk = Desk::at(&args.reach).await?;
    let name = &args.binding;
    let Some(hash) = &args.hash else {
        let binding = desk.get(name).await?;
        let said = HeldByBinding { binding: name.to_string(), held: held(&binding.status), confirmed: None };
        args.output.print(&said, |said| shown(said, &binding))?;
        return Ok(ExitCode::SUCCESS);
    };
    let (binding, _) = desk.annotate(name, |binding| confirm(name, hash, binding)).await?;
    let mut held = held(&binding.status);
    held.retain(|held| held.hash == *hash || held.kind == BATCH && is_earlier(&binding.status, hash));
    args.output.print(&HeldByBinding { binding: name.to_string(), held, confirmed: Some(hash.clone()) }, text)?;
    Ok(ExitCode::SUCCESS)
}

/// The annotation that confirms this hash, if it is held.
fn confirm(name: &str, hash: &str, binding: &ClusterBinding) -> anyhow::Result<Annotation> {
    let held = held(&binding.status);
    if held.iter().any(|held| held.hash == hash) || is_earlier(&binding.status, hash) {
        return Ok(Annotation { key: CONFIRM_ANNOTATION, value: Some(hash.to_owned()) });
    }
    let hash = text::line(hash, SHOWN);
    let before = binding.status.confirmed.iter().find(|confirmed| confirmed.hash == hash);
    let before = before.map_or_else(String::new, |confirmed| format!(" It was confirmed at {}.", confirmed.at));
    if held.is_empty() {
        let soon = soon(binding).map(|soon| format!(" {soon}")).unwrap_or_default();
        bail!("nothing was confirmed: ClusterBinding {name} holds nothing, and so not {hash}.{before}{soon}");
    }
    let said = HeldByBinding { binding: name.to_owned(), held, confirmed: None };
    bail!(
        "nothing was confirmed: ClusterBinding {name} does not hold {hash}.{before} Look at it again:\n{}",
        text(&said)
    )
}

/// Whether this was the hash of the batch that is held, before something came to it.
fn is_earlier(status: &ClusterBindingStatus, hash: &str) -> bool {
    status.held.as_ref().is_some_and(|held| held.earlier.iter().any(|earlier| earlier == hash))
}

/// What a binding holds, by its status.
fn held(status: &ClusterBindingStatus) -> Vec<HeldThing> {
    let thing = |kind, hash: &str, since: &str, sentence: String| HeldThing {
        kind,
        hash: hash.to_owned(),
        since: since.to_owned(),
        sentence,
        extent: None,
        size: None,
        spent: None,
    };
    let counted = |extent: Extent| Counted { nodes: extent.nodes, pods: extent.pods };
    let batch = status.held.as_ref().map(|batch| HeldThing {
        extent: Some(counted(batch.extent)),
        size: Some(counted(batch.size)),
        spent: Some(counted(batch.spent)).filter(|spent| *spent != Counted::default()),
        ..thing(BATCH, &batch.hash, &batch.since, batch.sentence.clone())
    });
    let other = status.other_cluster.as_ref().map(|other| {
        let known = status.physical_cluster_uid.as_deref().unwrap_or_default();
        let sentence = format!(
            "another physical cluster answers: its UID is {}, and the binding borrows from {known}. Confirmed, its nodes are \
             lent, and what was lent of the first one goes",
            other.uid
        );
        thing("cluster", &other.hash, &other.since, sentence)
    });
    let restored = status.restored.as_ref().map(|restored| {
        let cluster = match restored.cluster {
            Side::Virtual => "the virtual cluster",
            Side::Physical => "the physical cluster",
            Side::Unknown => "one of the clusters",
        };
        let sentence = format!(
            "{cluster} was set back to an earlier state: {}. Confirmed, what is missing there counts as gone",
            restored.sentence
        );
        thing("restore", &restored.hash, &restored.since, sentence)
    });
    let all = [batch, other, restored].into_iter().flatten();
    all.filter(|held| !held.hash.is_empty()).collect()
}

/// Why a binding that holds nothing may do so soon: the guard waits for what else is asked of it.
fn soon(binding: &ClusterBinding) -> Option<String> {
    binding.metadata.deletion_timestamp.as_ref()?;
    let gather = GATHER.as_secs();
    Some(format!("It is being deleted, and the guard gathers a batch for {gather} s before it holds it: try again."))
}

/// What a binding holds, and that it may do so soon.
fn shown(said: &HeldByBinding, binding: &ClusterBinding) -> String {
    let mut shown = text(said);
    if let Some(soon) = soon(binding).filter(|_| said.held.is_empty()) {
        push_line!(shown, "  {soon}");
    }
    shown
}

fn text(said: &HeldByBinding) -> String {
    let HeldByBinding { binding, held, confirmed } = said;
    let mut text = String::new();
    if let Some(hash) = confirmed {
        push_line!(text, "confirmed {hash} of ClusterBinding {binding}");
    } else if held.is_empty() {
        push_line!(text, "ClusterBinding {binding} holds nothing");
    }
    for HeldThing { kind, hash, since, sentence, extent, size, spent } in held {
        if confirmed.as_ref().is_some_and(|confirmed| confirmed != hash) {
            push_line!(text, "  what came to it since then is held on: topoloom lend confirm {binding} {hash}");
            continue;
        }
        push_line!(text, "{kind} {hash}, held since {since}");
        if let (Some(extent), Some(size)) = (extent, size) {
            let spent = spent.unwrap_or_default();
            let nodes = share(extent.nodes, size.nodes, spent.nodes);
            let pods = share(extent.pods, size.pods, spent.pods);
            push_line!(text, "  nodes    {nodes}\n  pods     {pods}");
        }
        push_line!(text, "  why      {sentence}");
        if confirmed.is_none() {
            push_line!(text, "  confirm  topoloom lend confirm {binding} {hash}");
        }
    }
    text
}

/// So many of so many, with the percentage that limits are about, and how many of them are gone already.
fn share(some: i64, all: i64, gone: i64) -> String {
    let share = match all {
        ..=0 => some.to_string(),
        _ => format!("{some} of {all} ({} %)", some.saturating_mul(100) / all),
    };
    if gone > 0 { format!("{share}, counting {gone} that went shortly before") } else { share }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use topoloom_api::cluster_binding::{ConfirmedStatus, HeldBatchStatus, OtherClusterStatus, RestoredStatus};

    use super::super::orders::examples::binding;
    use super::*;

    const SINCE: &str = "2026-08-01T06:10:00Z";

    fn holding() -> ClusterBinding {
        let mut binding = binding("east", "b-1");
        binding.status.held = Some(HeldBatchStatus {
            hash: "0123456789ab".into(),
            sentence: "3 nodes would go: the selector does not select them".into(),
            since: SINCE.into(),
            extent: Extent { nodes: 3, pods: 12 },
            size: Extent { nodes: 9, pods: 40 },
            ..HeldBatchStatus::default()
        });
        binding
    }

    #[test]
    fn s9_what_is_held_is_shown_with_its_numbers_and_the_command_that_confirms_it() {
        let said = HeldByBinding { binding: "east".into(), held: held(&holding().status), confirmed: None };
        assert_eq!(
            text(&said),
            "batch 0123456789ab, held since 2026-08-01T06:10:00Z\n  nodes    3 of 9 (33 %)\n  pods     12 of 40 (30 %)\n  \
             why      3 nodes would go: the selector does not select them\n  confirm  topoloom lend confirm east 0123456789ab\n"
        );
        let nothing = HeldByBinding { binding: "east".into(), held: Vec::new(), confirmed: None };
        assert_eq!(text(&nothing), "ClusterBinding east holds nothing\n");
    }

    #[test]
    fn s9_what_is_gone_already_is_told_apart_from_what_would_go() {
        let mut binding = holding();
        if let Some(batch) = &mut binding.status.held {
            batch.spent = Extent { nodes: 1, pods: 0 };
        }
        let said = HeldByBinding { binding: "east".into(), held: held(&binding.status), confirmed: None };
        let said = text(&said);
        let wanted = "  nodes    3 of 9 (33 %), counting 1 that went shortly before\n  pods     12 of 40 (30 %)\n";
        assert!(said.contains(wanted), "{said}");
    }

    #[test]
    fn s9_a_binding_that_was_deleted_a_moment_ago_is_said_to_hold_nothing_yet() {
        let mut binding = holding();
        let says = |binding: &ClusterBinding| {
            let held = held(&binding.status);
            shown(&HeldByBinding { binding: "east".into(), held, confirmed: None }, binding)
        };
        binding.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert!(!says(&binding).contains("try again"), "{}", says(&binding));
        binding.status.held = None;
        let soon = "It is being deleted, and the guard gathers a batch for 5 s before it holds it: try again.";
        assert_eq!(says(&binding), format!("ClusterBinding east holds nothing\n  {soon}\n"));
        let refused = confirm("east", "0123456789ab", &binding).unwrap_err().to_string();
        assert!(refused.ends_with(&format!("and so not 0123456789ab. {soon}")), "{refused}");
        binding.metadata.deletion_timestamp = None;
        assert_eq!(says(&binding), "ClusterBinding east holds nothing\n");
    }

    #[test]
    fn s6_s25_another_cluster_and_a_restored_one_are_confirmed_by_hashes_of_their_own() {
        let mut binding = holding();
        binding.status.physical_cluster_uid = Some("old".into());
        binding.status.other_cluster =
            Some(OtherClusterStatus { uid: "new".into(), hash: "c".into(), since: SINCE.into() });
        binding.status.restored = Some(RestoredStatus {
            cluster: Side::Physical,
            sentence: "its counter is 3 and was 7".into(),
            hash: "r".into(),
            since: SINCE.into(),
        });
        let all = held(&binding.status);
        assert_eq!(all.iter().map(|held| held.kind).collect::<Vec<_>>(), ["batch", "cluster", "restore"]);
        assert!(all[1].sentence.contains("its UID is new, and the binding borrows from old"));
        assert!(all[2].sentence.starts_with("the physical cluster was set back to an earlier state: its counter"));
        for hash in ["0123456789ab", "c", "r"] {
            let written = confirm("east", hash, &binding).unwrap();
            assert_eq!((written.key, written.value.as_deref()), ("topoloom.dev/confirm", Some(hash)));
        }
    }

    #[test]
    fn s9_the_hash_that_a_batch_had_before_something_came_to_it_confirms_what_it_showed() {
        let mut binding = holding();
        if let Some(batch) = &mut binding.status.held {
            batch.earlier = vec!["eeee".into()];
        }
        assert_eq!(confirm("east", "eeee", &binding).unwrap().value.as_deref(), Some("eeee"));
        assert!(confirm("east", "ffff", &binding).is_err());
        let confirmed = Some("eeee".into());
        let said = HeldByBinding { binding: "east".into(), held: held(&binding.status), confirmed };
        assert_eq!(
            text(&said),
            "confirmed eeee of ClusterBinding east\n  what came to it since then is held on: topoloom lend confirm east \
             0123456789ab\n"
        );
        // With the batch its earlier hashes go.
        binding.status.held = None;
        assert!(confirm("east", "eeee", &binding).is_err());
    }

    #[test]
    fn s9_another_hash_than_the_one_that_is_held_confirms_nothing() {
        let mut binding = holding();
        binding.status.confirmed = vec![ConfirmedStatus { hash: "ffff".into(), at: SINCE.into() }];
        let error = |hash: &str, binding: &ClusterBinding| confirm("east", hash, binding).unwrap_err().to_string();
        let said = error("0000", &binding);
        assert!(said.contains("does not hold 0000") && said.contains("lend confirm east 0123456789ab"), "{said}");
        assert!(error("ffff", &binding).contains("It was confirmed at 2026-08-01T06:10:00Z."));
        assert!(!error(&"x".repeat(5_000), &binding).contains(&"x".repeat(100)));
        binding.status.held = None;
        assert!(error("0123456789ab", &binding).contains("holds nothing"));
        // A status of an earlier version without a hash is no reason to confirm an empty one.
        binding.status.held = Some(HeldBatchStatus::default());
        assert!(error("", &binding).contains("holds nothing"));
    }
}
