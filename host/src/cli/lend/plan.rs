//! `topoloom lend plan`: what would be written for lent nodes, now and at the next boundary (decision S23).
//!
//! Owns which bindings are planned, and the exit code. What is decided, and how it is carried out, is that of the controllers, played on
//! what was read ([`topoloom_syncer::survey`]). A binding that observes or is paused is planned as if it was not, and so are all of them
//! while writes are switched off: an operator looks at the plan before that ends.
//!
//! # Failure story
//!
//! A binding whose clusters cannot be read has no plan, and says why; the others have theirs. No plan is half of one: where
//! the physical cluster is not read, nothing is known of what follows.

pub(in crate::cli) mod document;
mod text;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use topoloom_api::ClusterBinding;
use topoloom_sync::bars::{Bar, Bars};
use topoloom_syncer::survey::lists::Scope;

use self::document::{BindingPlan, LendPlans};
use super::clusters::{Clusters, Common, Known, PairArgs, Seen, UNDEFINED};
use super::overlay::Overlay;
use super::parts::Rows;
use crate::cli::options::values;
use crate::cli::output::OutputArgs;
use crate::cli::print;

/// Flags of `lend plan`.
#[derive(Debug, Args)]
pub(in crate::cli) struct LendPlanArgs {
    #[command(flatten)]
    pair: PairArgs,
    /// ClusterBindings and ResourceLeasingPolicies that count as applied, in YAML or JSON; - is standard input
    ///
    /// They lie over what is stored under the same names. A policy counts as applied in the cluster from which its binding takes
    /// policies (policySource). A binding that loses a policy to another one is planned, too.
    #[arg(short, long, value_name = "FILE", value_parser = values::path)]
    file: Option<PathBuf>,
    /// Only this ClusterBinding; default: all of them, and with -f those that the file is about
    #[arg(long, value_name = "NAME")]
    binding: Option<String>,
    /// Show every node, unchanged ones too, and whole lists in place of their first 20 rows
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Exit code where the guard would hold a part of the plan.
const HELD: u8 = 2;
/// Exit code where a binding has no plan.
const FAILED: u8 = 1;

/// Prints the plan of every binding.
pub(super) async fn run(args: LendPlanArgs) -> anyhow::Result<ExitCode> {
    let overlay = match &args.file {
        Some(path) => Overlay::read(path).with_context(|| format!("-f {}", path.display()))?,
        None => Overlay::default(),
    };
    let left_out: Vec<&str> = overlay.left_out().collect();
    if !left_out.is_empty() {
        print::error(&format!("topoloom: -f: left out, since they say nothing about lending: {}", left_out.join(", ")));
    }
    let clusters = Clusters::connect(&args.pair, args.binding.as_deref()).await?;
    let (stored, lent) = tokio::try_join!(clusters.bindings(), clusters.lists(Scope::All))?;
    // What is in a file can be planned before its definition is applied.
    anyhow::ensure!(stored.is_some() || args.file.is_some(), UNDEFINED);
    let stored = stored.unwrap_or_default();
    let bindings = overlay.over_bindings(&stored, clusters.now.wall);
    let mistakes = overlay.mistakes(&stored, &bindings, &clusters.around(&lent.nodes));
    if !mistakes.is_empty() {
        mistakes.iter().for_each(|mistake| print::error(&format!("topoloom: -f: {mistake}")));
        anyhow::bail!("no plan: {} in the file must be corrected", crate::cli::count(mistakes.len()));
    }
    let common = Common { bindings: &bindings, lent: &lent, overlay: &overlay };
    let names: BTreeSet<&str> = match (&args.binding, &args.file) {
        (Some(only), _) => BTreeSet::from([only.as_str()]),
        (None, Some(_)) => Box::pin(concerned(&clusters, &common)).await,
        (None, None) => bindings.iter().filter_map(|binding| binding.metadata.name.as_deref()).collect(),
    };
    let mut known = Known::new();
    let mut plans = LendPlans { time: clusters.now.wall.to_string(), bindings: Vec::new() };
    for name in names {
        let is_stored = find(&stored, name).is_some();
        let mut plan = match find(&bindings, name) {
            Some(object) => {
                let planned = planned(&clusters, object, &common, &mut known).await;
                planned.unwrap_or_else(|error| BindingPlan::failed(format!("{error:#}")))
            }
            None if args.file.is_some() => BindingPlan::failed(
                "there is no such ClusterBinding, neither in the cluster nor in the file".to_owned(),
            ),
            None => BindingPlan::failed("there is no such ClusterBinding".to_owned()),
        };
        (plan.binding, plan.stored) = (name.to_owned(), is_stored);
        plans.bindings.push(plan);
    }
    let rows = if args.all { Rows::All } else { Rows::First };
    args.output.print(&plans, |plans| text::text(plans, rows))?;
    Ok(ExitCode::from(code(&plans)))
}

/// The bindings for which a file may change something: those that it is about, and those that lose a policy by it.
async fn concerned<'a>(clusters: &Clusters, common: &Common<'a>) -> BTreeSet<&'a str> {
    let mut names = common.overlay.names();
    for object in common.bindings {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        if !names.contains(name) && clusters.may_lose_a_policy(object, common).await {
            names.insert(name);
        }
    }
    names
}

/// The exit code. That a binding has no plan weighs more: what would be held of it is not known.
fn code(plans: &LendPlans) -> u8 {
    if plans.has_failed() {
        FAILED
    } else if plans.is_held() {
        HELD
    } else {
        0
    }
}

async fn planned(
    clusters: &Clusters,
    object: &ClusterBinding,
    common: &Common<'_>,
    known: &mut Known,
) -> anyhow::Result<BindingPlan> {
    let Seen { mut survey, mut hindered, machines, remarks, .. } =
        clusters.look(object, common, Scope::All, known).await?;
    if let Err(why) = machines {
        anyhow::bail!("the physical cluster was not read: {why}");
    }
    let (waits_for, bars) = split(&hindered.bars);
    hindered.bars = bars.clone();
    survey.view.set_bars(bars, hindered.reach);
    let plan = survey.rehearse(clusters.now, &mut |_, _, _| ());
    // What follows from a file is not held yet.
    let stored = object.status.held.as_ref().filter(|held| !held.hash.is_empty());
    let stored = stored.filter(|_| common.overlay.names().is_empty());
    Ok(BindingPlan::of(&plan, stored, &hindered, &waits_for, remarks, clusters.now.wall))
}

/// What an operator ends when the plan is right, and the other bars.
fn split(bars: &Bars) -> (Bars, Bars) {
    let is_ended_by_operator = |bar: &Bar| matches!(bar, Bar::Observing | Bar::Paused | Bar::ReadOnly);
    let (ended, others): (Vec<Bar>, Vec<Bar>) = bars.iter().partition(is_ended_by_operator);
    (ended.into_iter().collect(), others.into_iter().collect())
}

fn find<'a>(bindings: &'a [ClusterBinding], name: &str) -> Option<&'a ClusterBinding> {
    bindings.iter().find(|binding| binding.metadata.name.as_deref() == Some(name))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use topoloom_sync::guard::{BrokenLimit, Cause, HeldBatch, Size, Spent};
    use topoloom_syncer::survey::lists::LentLists;

    use super::document::PlanTime;
    use super::*;
    use crate::cli::lend::amounts::Moment;
    use crate::cli::lend::answers::{client, list};
    use crate::cli::lend::clusters::examples::{binding, clusters};
    use crate::cli::lend::parts::Held;

    #[test]
    fn s23_what_an_operator_ends_keeps_no_plan_from_being_made() {
        let all: Bars = Bar::ALL.into_iter().collect();
        let (ended, others) = split(&all);
        assert_eq!(ended.iter().collect::<Vec<_>>(), [Bar::Paused, Bar::Observing, Bar::ReadOnly]);
        assert_eq!(others.iter().count(), Bar::ALL.len() - 3);
    }

    #[tokio::test]
    async fn s8_s23_a_binding_that_loses_a_policy_by_a_file_is_planned_beside_the_one_that_gets_it() {
        let nights = json!({"metadata": {"name": "nights"}, "spec": {"cluster": "east"}});
        let stored = [("/apis/topoloom.dev/v1alpha1/resourceleasingpolicies", list(&[nights]))];
        let clusters = clusters(client(&stored), &[]);
        let west = "
apiVersion: topoloom.dev/v1alpha1
kind: ResourceLeasingPolicy
metadata: {name: nights}
spec: {cluster: west}
";
        let bindings = ["east", "north", "west"].map(|name| binding(name, "virtual", json!({})));
        let lent = LentLists::default();
        let names = async |file: &str, bindings: &[ClusterBinding]| {
            let overlay = Overlay::parse(file).unwrap();
            let common = Common { bindings, lent: &lent, overlay: &overlay };
            concerned(&clusters, &common).await.into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names(west, &bindings).await, ["east", "west"]);
        // A name in which there is a mistake takes the policy away, too.
        assert_eq!(names(&west.replace("west", "wets"), &bindings).await, ["east", "wets"]);
        assert_eq!(names(&west.replace("nights", "days"), &bindings).await, ["west"]);
        // Its physical cluster cannot be read, so it may lose the policy by which it lends.
        let uid = json!({"physicalClusterUID": "a"});
        let unread = [binding("east", "physical", uid.clone()), binding("west", "physical", uid)];
        assert_eq!(names(west, &unread).await, ["east", "west"]);
        let never_connected = [binding("east", "physical", json!({})), binding("west", "physical", json!({}))];
        assert_eq!(names(west, &never_connected).await, ["west"]);
    }

    /// A batch that the guard holds.
    pub(super) fn held() -> Held {
        Held::of(&HeldBatch {
            hash: "4f0c".into(),
            nodes: 2,
            pods: 3,
            size: Size { nodes: 3, pods: 9 },
            spent: Spent::default(),
            causes: [(Cause::Selector, 2)].into(),
            broken: vec![BrokenLimit::Nodes { percent: 20 }],
        })
    }

    /// A plan in which the guard holds this at each of these times.
    fn plan(times: Vec<Option<Held>>) -> BindingPlan {
        let time = Moment::seen(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        let at = |held| PlanTime { time: time.clone(), opens: Vec::new(), closes: Vec::new(), held };
        BindingPlan { times: times.into_iter().map(at).collect(), ..BindingPlan::default() }
    }

    #[test]
    fn s9_s23_what_the_guard_would_hold_now_or_later_and_what_has_no_plan_are_exit_codes_of_their_own() {
        let of = |bindings: Vec<BindingPlan>| code(&LendPlans { time: String::new(), bindings });
        let free = || plan(vec![None, None]);
        assert_eq!([of(vec![]), of(vec![free(), free()])], [0, 0]);
        for times in [vec![Some(held()), None], vec![None, Some(held())]] {
            assert_eq!(of(vec![free(), plan(times.clone())]), 2, "{times:?}");
            assert_eq!(of(vec![plan(times), BindingPlan::failed("no".to_owned())]), 1);
        }
    }
}
