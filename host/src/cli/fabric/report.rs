//! `topoloom fabric report`: everything that discoverers reported in one round, in full.
//!
//! A status has room for counts and one example of each; a technician who goes to the racks needs all of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_core::names::SourceName;
use topoloom_core::topology::{Finding, FindingSubject};

use super::super::ClusterArgs;
use super::super::desk::{self, DeskArgs};
use super::super::live::{Live, coverage, heading};
use super::super::output::{Document, OutputArgs};
use crate::discovery::oneshot::Shot;

/// Flags of `fabric report`.
#[derive(Debug, Args)]
pub(in super::super) struct ReportArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Work on files in place of the cluster: the configuration document; needs --nodes
    #[arg(long, value_name = "FILE", requires = "nodes")]
    config: Option<PathBuf>,
    /// What `kubectl get nodes -o json` (or -o yaml) prints, - reads standard input; needs --config
    #[arg(long, value_name = "FILE|-", requires = "config")]
    nodes: Option<PathBuf>,
    #[command(flatten)]
    desk: DeskArgs,
    /// Only this source
    #[arg(long, value_name = "NAME")]
    source: Option<SourceName>,
    #[command(flatten)]
    output: OutputArgs,
    /// Exit with 3 when something was found, or no node has a place
    #[arg(long)]
    exit_code: bool,
}

/// Everything that discoverers reported in one round.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct Reports {
    sources: Vec<SourceReport>,
}

impl Document for Reports {
    const KIND: &'static str = "FabricReport";
}

/// What one source reported.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SourceReport {
    source: String,
    /// Why a round has no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Existing Nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<usize>,
    /// Those that have a place.
    #[serde(skip_serializing_if = "Option::is_none")]
    placed: Option<usize>,
    findings: Vec<Reported>,
}

/// One finding; at most one of `nodes`, `group` and `name` says what it is about, and without one it is the whole
/// answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Reported {
    /// A short stable word for the kind.
    code: String,
    detail: String,
    /// The Nodes that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<String>>,
    /// The group that it is about, by the id that the plugin gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    /// The thing outside the cluster that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// Exit code of `--exit-code` when something was found.
const FOUND: u8 = 3;

/// The codes of the discoverers for fabrics and what they mean, in the order of work in a hall: Nodes without any link,
/// cables, neighbours on them, hosts, names, and at last what could not be read. Other codes follow under their own names.
const TITLES: [(&str, &str); 33] = [
    ("no-links", "No Node has a link that counts"),
    ("no-entry", "Nodes without an entry"),
    ("unused-entry", "Nodes whose entry has no link that counts"),
    ("miscabled-host", "Hosts with a cable into another unit"),
    ("shared-leaf", "Leaf switches that serve more than one unit"),
    ("dead-links", "Hosts with dead links"),
    ("no-neighbour", "Links that are up but have no neighbour"),
    ("several-neighbours", "Links with several switches as neighbours"),
    ("not-a-switch", "Links whose neighbour is not a switch"),
    ("not-lldp", "Links whose neighbour speaks another protocol than LLDP"),
    ("unknown-switch", "Links to switches without a usable identity"),
    ("chassis-per-port", "Switches with a different chassis id on every port"),
    ("unproven-name", "Switch names that only one Node reports"),
    ("kept-while-down", "Hosts without a live link, kept in their group"),
    ("dropped-while-down", "Hosts without a live link for too long, removed from their group"),
    ("lost-tier", "Tiers to which no cable leads any more, kept unchanged"),
    ("kept-uplinks", "Groups without a live uplink, kept in their group"),
    ("kept-while-split", "Groups that look split while links are missing, kept together"),
    ("tied-host", "Hosts with equally many links into two units"),
    ("unmatched-host", "Hosts in the fabric that match no Node"),
    ("ambiguous-host", "Hosts in the fabric that match several Nodes"),
    ("duplicate-host", "Hosts in the fabric that match the Node of another host"),
    ("unnamed-host", "Machines in the fabric without a name"),
    ("stale", "Nodes whose entry is older than `maxAge`"),
    ("clock", "Nodes whose entry has a time in the future"),
    ("double-entry", "Nodes with two entries in one document"),
    ("bad-link", "Links that cannot be read"),
    ("no-peer", "Ports that do not name the other end of their cable"),
    ("duplicate-port", "Ports that are listed twice"),
    ("unusable-record", "Ports that cannot be read"),
    ("unusable-link", "Cables that cannot be read"),
    ("bad-entry", "Nodes whose entry cannot be read"),
    ("bad-switch", "Switches whose entry cannot be read"),
];

/// Prints what was found.
pub(super) async fn run(args: ReportArgs) -> anyhow::Result<ExitCode> {
    let only = args.source.as_ref();
    let (shots, failed) = match (&args.config, &args.nodes) {
        (Some(config), Some(nodes)) => {
            let desk = desk::rounds(&args.desk, nodes, config, only).await?;
            (desk.shots, desk.failed)
        }
        // One is never there without the other.
        _ => {
            let shots = Live::look(&args.cluster).await?.rounds(only).await.context("one round of every source")?;
            let failed = shots.iter().any(|shot| shot.result.is_err());
            (shots, failed)
        }
    };
    args.output.print(&Reports::of(&shots), |_| text(&shots))?;
    let found = shots.iter().any(|shot| !findings(shot).is_empty() || places_no_node(shot));
    Ok(match (failed, found && args.exit_code) {
        (true, _) => ExitCode::FAILURE,
        (false, true) => ExitCode::from(FOUND),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Whether there are nodes and none has a place, for any reason: that is a finding too.
fn places_no_node(shot: &Shot) -> bool {
    shot.result.as_ref().is_ok_and(|found| found.decision.numbers.total > 0 && found.decision.numbers.covered == 0)
}

fn findings(shot: &Shot) -> &[Finding] {
    shot.result.as_ref().map_or(&[], |found| found.decision.forest.findings())
}

/// The findings by code, in the order of [`TITLES`].
fn sorted(findings: &[Finding]) -> Vec<(&str, &str, Vec<&Finding>)> {
    let mut by_code: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in findings {
        by_code.entry(&finding.code).or_default().push(finding);
    }
    let known = TITLES.iter().filter_map(|(code, title)| Some((*code, *title, by_code.remove(code)?)));
    let mut sorted: Vec<_> = known.collect();
    sorted.extend(by_code.into_iter().map(|(code, findings)| (code, code, findings)));
    sorted
}

fn text(shots: &[Shot]) -> String {
    let mut text = String::new();
    for shot in shots {
        push_line!(text, "{}", heading(shot));
        match &shot.result {
            Ok(found) => {
                push_line!(text, "{}", coverage(found));
            }
            Err(message) => {
                push_line!(text, "  no report: {message}");
                continue;
            }
        }
        let all = findings(shot);
        if all.is_empty() {
            text.push_str("  nothing to report\n");
        }
        for (code, title, findings) in sorted(all) {
            push_line!(text, "\n  {title} ({code}, {})", count(&findings));
            for finding in findings {
                push_line!(text, "    {}", line(finding));
            }
        }
        text.push('\n');
    }
    if shots.is_empty() {
        text.push_str("no entry of the configuration is enabled\n");
    }
    text
}

/// How many there are: those that are listed, or what the last of very many says.
fn count(findings: &[&Finding]) -> usize {
    let reported = |finding: &&Finding| {
        let (_, total) = finding.detail.strip_prefix("and ")?.strip_suffix(" in all")?.rsplit_once(", ")?;
        total.parse().ok()
    };
    findings.iter().find_map(reported).unwrap_or_else(|| findings.iter().map(|finding| weight(finding)).sum())
}

/// How many hosts it is about.
fn weight(finding: &Finding) -> usize {
    match &finding.subject {
        FindingSubject::Nodes(nodes) => nodes.len().max(1),
        _ => 1,
    }
}

fn line(finding: &Finding) -> String {
    let detail = &finding.detail;
    match &finding.subject {
        FindingSubject::Source => detail.to_string(),
        FindingSubject::Nodes(nodes) => format!("{}: {detail}", nodes.join(" ")),
        FindingSubject::Group(id) => format!("group {id}: {detail}"),
        FindingSubject::Name(name) => format!("{name}: {detail}"),
    }
}

impl Reports {
    fn of(shots: &[Shot]) -> Self {
        Self { sources: shots.iter().map(SourceReport::of).collect() }
    }
}

impl SourceReport {
    fn of(shot: &Shot) -> Self {
        let numbers = shot.result.as_ref().ok().map(|found| &found.decision.numbers);
        Self {
            source: shot.entry.to_string(),
            error: shot.result.as_ref().err().map(ToString::to_string),
            nodes: numbers.map(|numbers| numbers.total),
            placed: numbers.map(|numbers| numbers.covered),
            findings: findings(shot).iter().map(Reported::of).collect(),
        }
    }
}

impl Reported {
    fn of(finding: &Finding) -> Self {
        let plain = Self {
            code: finding.code.to_string(),
            detail: finding.detail.clone(),
            nodes: None,
            group: None,
            name: None,
        };
        match &finding.subject {
            FindingSubject::Source => plain,
            FindingSubject::Nodes(nodes) => {
                Self { nodes: Some(nodes.iter().map(ToString::to_string).collect()), ..plain }
            }
            FindingSubject::Group(id) => Self { group: Some(id.to_string()), ..plain },
            FindingSubject::Name(name) => Self { name: Some(name.clone()), ..plain },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heading_counts_what_is_not_listed_too() {
        let finding = |subject, detail: &str| Finding { code: "unmatched-host".into(), subject, detail: detail.into() };
        let nodes = FindingSubject::Nodes(["a", "b"].map(Into::into).into());
        let listed = [finding(nodes, "two"), finding(FindingSubject::Name("x".into()), "one")];
        assert_eq!(count(&listed.iter().collect::<Vec<_>>()), 3);
        let many = [
            finding(FindingSubject::Name("x".into()), "one"),
            finding(FindingSubject::Source, "and 199 more like these, 1199 in all"),
        ];
        assert_eq!(count(&many.iter().collect::<Vec<_>>()), 1199);
    }
}
