//! The status as text.

use std::fmt::Write as _;

use super::bindings::Binding;
use super::{Lease, Replica, Source, Status};
use crate::cli::print::{span, table};
use crate::cluster::leases::LeaseFreshness;

/// Everything, the most urgent first.
pub(super) fn text(status: &Status) -> String {
    let mut text = String::new();
    let _ =
        writeln!(text, "API server {}, topoloom {}, configuration {}", status.server, status.version, status.config);
    if status.read_only == Some(true) {
        text.push_str("\nWRITES ARE OFF: topoloom.dev/read-only on the ConfigMap  ->  topoloom read-only off\n");
    }
    let writers = &status.second_writers;
    for rival in &writers.leases {
        push_line!(
            text,
            "\nSECOND WRITER: {} holds {}/{}, so no source of ours is written  ->  switch Volcano's controller off",
            rival.holder,
            rival.namespace,
            rival.name
        );
    }
    for writer in &writers.managers {
        push_line!(
            text,
            "\nSECOND WRITER: {} changed {} HyperNodes of ours lately, {}",
            writer.manager,
            writer.objects,
            writer.example
        );
    }
    let [no_leases, no_replicas] = nothing(status);
    section(&mut text, "LEASES", leases(&status.leases), no_leases);
    section(&mut text, "REPLICAS", replicas(&status.replicas), no_replicas);
    section(&mut text, "SOURCES", sources(&status.sources), NONE);
    // Most clusters borrow nothing.
    if !status.bindings.is_empty() {
        section(&mut text, "BINDINGS", bindings(&status.bindings), NONE);
    }
    let of_sources = status.sources.iter();
    let of_sources = of_sources.flat_map(|source| source.waits.iter().map(move |waits| (source.source.clone(), waits)));
    let of_bindings = status.bindings.iter();
    let of_bindings = of_bindings
        .flat_map(|binding| binding.waits.iter().map(move |waits| (format!("binding {}", binding.binding), waits)));
    let of_configuration = status.waits.iter().map(|waits| ("configuration".to_owned(), waits));
    for (index, (who, waits)) in of_configuration.chain(of_sources).chain(of_bindings).enumerate() {
        if index == 0 {
            text.push_str("\nWAITING\n");
        }
        push_line!(text, "{who}: {}", waits.what);
        if !waits.command.is_empty() {
            push_line!(text, "  -> {}", waits.command);
        }
    }
    if let Some(replica) = &status.replica {
        let ready = if replica.ready { "ready" } else { "not ready" };
        push_line!(text, "\nTHIS REPLICA ({}, {}): {ready}", replica.admin, replica.version);
        for line in &replica.lines {
            push_line!(text, "{line}");
        }
        for queue in &replica.queues {
            push_line!(
                text,
                "queue {}: {} waiting, {} later, {} under way, {} resting, {} retries",
                queue.name,
                queue.waiting,
                queue.later,
                queue.working,
                queue.resting,
                queue.retries
            );
        }
    }
    if !status.remarks.is_empty() {
        text.push_str("\nREMARKS\n");
        for remark in &status.remarks {
            push_line!(text, "{remark}");
        }
    }
    text
}

/// What an empty section says.
const NONE: &str = "none seen";

/// What is said where no lease, and where no replica was seen: a syncer leads no group and may be no pod, and serves bindings all the
/// same.
fn nothing(status: &Status) -> [&'static str; 2] {
    if status.bindings.iter().any(|binding| binding.holder.is_some()) {
        [
            "none seen of HyperNodes and locks; which replica serves a binding is below HOLDER",
            "no pods seen; see HOLDER",
        ]
    } else {
        [NONE; 2]
    }
}

fn section(text: &mut String, head: &str, rows: Vec<Vec<String>>, nothing: &str) {
    push_line!(text, "\n{head}");
    match rows.len() {
        0 | 1 => push_line!(text, "{nothing}"),
        _ => text.push_str(&table(&rows)),
    }
}

fn head<const N: usize>(words: [&str; N]) -> Vec<Vec<String>> {
    vec![words.map(str::to_owned).to_vec()]
}

fn leases(leases: &[Lease]) -> Vec<Vec<String>> {
    let mut rows = head(["GROUP", "LEASE", "LEADER", "SINCE", "RENEWED", "TRANSITIONS"]);
    rows.extend(leases.iter().map(|Lease { group, held }| {
        let leader = match held.standing {
            LeaseFreshness::Fresh => held.holder.clone(),
            LeaseFreshness::Expired => format!("no leader; {} held it", held.holder),
            LeaseFreshness::Free => {
                held.released_by.as_ref().map_or("no leader".to_owned(), |by| format!("no leader; released by {by}"))
            }
        };
        vec![
            (*group).to_owned(),
            format!("{}/{}", held.namespace, held.name),
            leader,
            held.since.clone().unwrap_or_else(none),
            held.renewed_seconds_ago.map_or_else(none, ago),
            held.transitions.to_string(),
        ]
    }));
    rows
}

fn replicas(replicas: &[Replica]) -> Vec<Vec<String>> {
    let mut rows = head(["REPLICA", "ROLE", "READY", "RESTARTS", "AGE", "NODE", "IMAGE"]);
    rows.extend(replicas.iter().map(|replica| {
        let role =
            if replica.leads.is_empty() { "follows".to_owned() } else { format!("leads {}", replica.leads.join(", ")) };
        let pod = replica.pod.as_ref();
        let cell = |cell: Option<String>| cell.filter(|cell| !cell.is_empty()).unwrap_or_else(none);
        vec![
            replica.name.clone(),
            role,
            cell(pod.map(|pod| if pod.ready { "yes".to_owned() } else { format!("no ({})", pod.phase) })),
            cell(pod.map(|pod| pod.restarts.to_string())),
            cell(pod.and_then(|pod| pod.age_seconds).map(span)),
            cell(pod.map(|pod| pod.node.clone())),
            cell(pod.map(|pod| pod.image.clone())),
        ]
    }));
    rows
}

fn sources(sources: &[Source]) -> Vec<Vec<String>> {
    let mut rows = head(["SOURCE", "STATE", "PLUGIN", "DIGEST", "NODES", "GROUPS", "LAST SUCCESS", "MESSAGE"]);
    rows.extend(sources.iter().map(|source| {
        let text = |text: &str| if text.is_empty() { none() } else { text.to_owned() };
        vec![
            source.source.clone(),
            source.state.to_owned(),
            text(&source.plugin),
            text(&source.digest),
            source.nodes.map_or_else(none, |nodes| format!("{}/{}", nodes.covered, nodes.total)),
            source.groups.map_or_else(none, |groups| groups.to_string()),
            source.lag_seconds.map_or_else(none, ago),
            topoloom_core::text::line(&source.message, 160),
        ]
    }));
    rows
}

fn bindings(bindings: &[Binding]) -> Vec<Vec<String>> {
    let mut rows = head(["BINDING", "PHASE", "CONNECTION", "SINCE", "NODES", "PODS", "HOLDER", "MESSAGE"]);
    rows.extend(bindings.iter().map(|binding| {
        vec![
            binding.binding.clone(),
            binding.phase.to_owned(),
            binding.connection.to_owned(),
            binding.connection_seconds.map_or_else(none, ago),
            binding.nodes.map_or_else(none, |nodes| format!("{}/{} of {}", nodes.ready, nodes.lent, nodes.selected)),
            binding.pods.map_or_else(none, |pods| pods.to_string()),
            binding.holder.clone().unwrap_or_else(none),
            topoloom_core::text::line(&binding.message, 160),
        ]
    }));
    rows
}

fn none() -> String {
    "-".to_owned()
}

fn ago(seconds: i64) -> String {
    format!("{} ago", span(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::status::bindings::LentNodes;
    use crate::cli::status::waits::Waiting;
    use crate::cluster::leases::LeaseStatus;

    #[test]
    fn what_waits_stands_below_the_tables_with_its_command() {
        let held = LeaseStatus {
            namespace: "n".into(),
            name: "l".into(),
            standing: LeaseFreshness::Fresh,
            holder: "pod-a_1".into(),
            since: None,
            renewed_seconds_ago: Some(3),
            duration_seconds: 15,
            transitions: 2,
            released_by: None,
        };
        let waits = vec![Waiting { what: "a result is held".into(), command: "topoloom confirm label".into() }];
        let status = Status {
            read_only: Some(true),
            leases: vec![Lease { group: "hypernode", held }],
            replicas: vec![Replica { name: "pod-a".into(), leads: vec!["hypernode"], pod: None }],
            sources: vec![Source { source: "label".into(), state: "Held", waits, ..Source::default() }],
            bindings: vec![Binding {
                binding: "east".into(),
                phase: "Pending",
                connection: "Unreachable",
                connection_seconds: Some(90),
                nodes: Some(LentNodes { ready: 0, lent: 4, selected: 5 }),
                waits: vec![Waiting { what: "no answer".into(), command: String::new() }],
                ..Binding::default()
            }],
            waits: vec![Waiting { what: "there is no ConfigMap n/c".into(), command: "make it".into() }],
            remarks: vec!["pods could not be listed".into()],
            ..Status::default()
        };
        let text = text(&status);
        for line in [
            "hypernode  n/l    pod-a_1  -      3s ago   2",
            "pod-a    leads hypernode  -      -         -    -     -",
            "WAITING\nconfiguration: there is no ConfigMap n/c\n  -> make it\nlabel: a result is held\n  -> topoloom confirm label\n\
             binding east: no answer\n",
            "east     Pending  Unreachable  1m30s ago  0/4 of 5  -     -",
            "WRITES ARE OFF",
            "REMARKS\npods could not be listed",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        let nothing = super::text(&Status::default());
        assert!(nothing.contains("SOURCES\nnone seen") && !nothing.contains("WAITING"), "{nothing}");
        assert!(!nothing.contains("BINDINGS"), "{nothing}");
        let served = Binding { binding: "east".into(), holder: Some("host-1".into()), ..Binding::default() };
        let syncer = super::text(&Status { bindings: vec![served], ..Status::default() });
        assert!(syncer.contains("REPLICAS\nno pods seen; see HOLDER\n"), "{syncer}");
    }
}
