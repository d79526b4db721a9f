//! `topoloom lend release`: what a binding left that does not exist any more (decisions S6, S7, S22 and S23).
//!
//! Owns the talk with the person: what would go is shown first, and goes only after a yes. What goes and what stays is decided in
//! `topoloom_sync::release`; reading both clusters and carrying it out are rooms below.
//!
//! # Failure story
//!
//! Between the list and the yes anything may change. So both clusters are read and judged again, and only what was on the list and
//! is judged the same goes; each request carries UID and resourceVersion. A command that was interrupted is run again: it shows
//! what is left.

mod carry;
mod clusters;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_core::text;
use topoloom_sync::keys;
use topoloom_sync::naming::{BindingName, label_value};
use topoloom_sync::release::{Asked, Item, Kept, Kind, Object, Release, When, physical_name};

use self::carry::{Carrier, Done};
use self::clusters::{Clusters, Seen};
use super::ReachArgs;
use crate::cli::options::values::lasting;
use crate::cli::output::{Document, OutputArgs};
use crate::cli::print;

/// Longest text of another in a row.
const CELL: usize = 300;

/// Flags of `lend release`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReleaseArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// A ClusterBinding that does not exist any more, or a node by its virtual or its physical name. Without it: everything of
    /// this virtual cluster that belongs to no ClusterBinding
    #[arg(value_name = "BINDING|NODE")]
    what: Option<String>,
    /// The kubeconfig of the physical cluster, with the rights of the lender: without it claims and pods there stay
    #[arg(long, value_name = "FILE")]
    physical_kubeconfig: Option<PathBuf>,
    /// The context in that kubeconfig
    #[arg(long, value_name = "NAME", requires = "physical_kubeconfig")]
    physical_context: Option<String>,
    /// The identity of the virtual cluster, if its syncer has this flag; default: the UID of its namespace kube-system
    #[arg(long, value_name = "UID", value_parser = super::virtual_cluster, conflicts_with = "gone_virtual_cluster")]
    virtual_cluster_id: Option<String>,
    /// The virtual cluster with this identity is gone for good: it is not asked, and all of its bindings count as gone
    #[arg(long, value_name = "UID", value_parser = super::virtual_cluster, requires = "physical_kubeconfig")]
    gone_virtual_cluster: Option<String>,
    /// For how long pods are evicted, as disruption budgets allow, before they are deleted (0s to 1h)
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = lasting::<0, 3_600_000>)]
    eviction_deadline: Duration,
    /// After how long the command stops waiting for pods to leave (1s to 24h); run again, it continues
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = lasting::<1_000, 86_400_000>)]
    timeout: Duration,
    /// Only show what would be released
    #[arg(long)]
    dry_run: bool,
    /// Release it without asking
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// What was left, and what became of it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Released {
    /// The identity of the virtual cluster.
    virtual_cluster: String,
    things: Vec<Thing>,
}

impl Document for Released {
    const KIND: &'static str = "LendRelease";
}

/// One thing.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Thing {
    /// `virtual-node`, `claim` on a physical node, `pod` or `lease`, these two in the physical cluster.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    /// The UID of the binding that left it.
    #[serde(skip_serializing_if = "Option::is_none")]
    binding: Option<String>,
    /// `listed`, `released`, `kept` or `failed`.
    state: &'static str,
    /// Why it stays, or what has to go before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// Releases.
pub(super) async fn run(args: &ReleaseArgs) -> anyhow::Result<ExitCode> {
    if args.output.is_json() && !args.yes && !args.dry_run {
        bail!("with -o json nothing is asked: add --yes to release, or --dry-run to see what would be released");
    }
    let clusters = Clusters::connect(args).await?;
    let seen = clusters.read().await?;
    clusters.refuse_if_alive(&seen).await?;
    let asked = asked(args.what.as_deref(), &seen)?;
    let listed = clusters.decide(&seen, &asked);
    let virtual_cluster = clusters.virtual_cluster().to_owned();
    let show = |things| args.output.print(&Released { virtual_cluster, things }, table);
    if clusters.has_no_physical() {
        print::error(
            "topoloom: claims and pods in the physical cluster were not looked at: --physical-kubeconfig FILE",
        );
    }
    if args.dry_run || listed.items.is_empty() {
        let is_refused = listed.items.is_empty() && listed.told(&asked).next().is_some();
        show(things_of(&listed, &asked))?;
        return Ok(if is_refused { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    if !args.yes {
        print::out(&table(&Released {
            virtual_cluster: clusters.virtual_cluster().to_owned(),
            things: things_of(&listed, &asked),
        }));
        if !agrees(listed.items.len())? {
            bail!("nothing was released");
        }
    }
    let named = match &asked {
        Asked::Binding(name) => Some(name.clone()),
        Asked::Everything | Asked::Node(_) => None,
    };
    let carrier = Carrier::new(&clusters, named, args.eviction_deadline, args.timeout);
    let done = carrier.carry(&listed.items).await;
    let is_complete = done.iter().all(|done| done.result.is_ok()) && listed.told(&asked).next().is_none();
    let things = done.into_iter().map(Thing::done).chain(listed.told(&asked).map(Thing::kept)).collect();
    show(things)?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the person at the terminal agrees.
fn agrees(items: usize) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        bail!("nothing was released: there is no terminal to ask at, add --yes");
    }
    print::error(&format!("topoloom: {items} things above go, and cannot be restored. Type yes to release them:"));
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// What is meant: everything, a binding by what it left, or a node.
fn asked(what: Option<&str>, seen: &Seen) -> anyhow::Result<Asked> {
    let Some(what) = what else { return Ok(Asked::Everything) };
    let label = label_value(what);
    let is_binding = seen.labels().any(|labels| labels.get(keys::BINDING) == Some(&label)) || seen.stands(what);
    let is_lent = |node: &Object| node.name == what || physical_name(node) == Some(what);
    let is_node = seen.lent.iter().any(is_lent) || seen.machines.iter().any(|node| node.name == what);
    match (is_binding, is_node) {
        (true, false) => Ok(Asked::Binding(BindingName::parse(what)?)),
        (false, true) => Ok(Asked::Node(what.to_owned())),
        (true, true) => bail!(
            "{what:?} is the name of a ClusterBinding and of a node: name the virtual node, or leave the name out to see \
             everything that belongs to no ClusterBinding"
        ),
        (false, false) => bail!("nothing is left of {what:?}: no virtual node, claim, pod or Lease names it"),
    }
}

fn things_of(release: &Release, asked: &Asked) -> Vec<Thing> {
    release.items.iter().map(Thing::listed).chain(release.told(asked).map(Thing::kept)).collect()
}

impl Thing {
    fn of(item: &Item, state: &'static str, why: Option<String>) -> Self {
        Self {
            kind: item.kind.word(),
            namespace: item.namespace.clone(),
            name: item.name.clone(),
            binding: item.binding.as_ref().map(ToString::to_string),
            state,
            why: why.map(|why| text::line(&why, CELL)),
        }
    }

    fn listed(item: &Item) -> Self {
        let why = match (&item.when, item.kind) {
            (When::After(node), _) => Some(format!("after its virtual node {node}")),
            (When::Now, Kind::LentNode) => Some("its pods leave it first".to_owned()),
            (When::Now, Kind::Claim | Kind::Pod | Kind::Lease) => None,
        };
        Self::of(item, "listed", why)
    }

    fn kept(kept: &Kept) -> Self {
        Self {
            kind: kept.kind.word(),
            namespace: kept.namespace.clone(),
            name: kept.name.clone(),
            binding: None,
            state: "kept",
            why: Some(kept.why.to_string()),
        }
    }

    fn done(done: Done) -> Self {
        match done.result {
            Ok(()) => Self::of(&done.item, "released", None),
            Err(why) => Self::of(&done.item, "failed", Some(why)),
        }
    }
}

fn table(released: &Released) -> String {
    if released.things.is_empty() {
        return format!("nothing is left to release of the virtual cluster {}\n", released.virtual_cluster);
    }
    let mut rows = vec![["KIND", "NAME", "BINDING UID", "STATE", "WHY"].map(str::to_owned).to_vec()];
    for thing in &released.things {
        let none = || "-".to_owned();
        let name = match &thing.namespace {
            Some(namespace) => format!("{namespace}/{}", thing.name),
            None => thing.name.clone(),
        };
        let binding = thing.binding.clone().unwrap_or_else(none);
        let why = thing.why.clone().unwrap_or_else(none);
        rows.push(vec![thing.kind.to_owned(), name, binding, thing.state.to_owned(), why]);
    }
    print::table(&rows)
}

#[cfg(test)]
mod tests {
    use topoloom_sync::precondition::Precondition;
    use topoloom_sync::release::WhyKept;

    use super::*;

    fn item(kind: Kind, name: &str, when: When) -> Item {
        Item {
            kind,
            namespace: (kind == Kind::Pod).then(|| "lent".to_owned()),
            name: name.to_owned(),
            binding: Some("b-0".into()),
            precondition: Precondition::of(&"u".into(), &"7".into()).unwrap(),
            when,
        }
    }

    #[test]
    fn s22_what_goes_and_what_stays_is_one_list() {
        let release = Release {
            items: vec![
                item(Kind::LentNode, "vnode-east-w1", When::Now),
                item(Kind::Claim, "w1", When::After("vnode-east-w1".into())),
                item(Kind::Pod, "web", When::Now),
            ],
            kept: vec![Kept {
                kind: Kind::Claim,
                namespace: None,
                name: "w2".into(),
                why: WhyKept::OtherCluster("x".into()),
            }],
        };
        let shown =
            table(&Released { virtual_cluster: "vc-1".into(), things: things_of(&release, &Asked::Node("w2".into())) });
        assert_eq!(
            shown,
            "KIND          NAME           BINDING UID  STATE   WHY\n\
             virtual-node  vnode-east-w1  b-0          listed  its pods leave it first\n\
             claim         w1             b-0          listed  after its virtual node vnode-east-w1\n\
             pod           lent/web       b-0          listed  -\n\
             claim         w2             -            kept    a binding of another virtual cluster has it, x\n"
        );
        let done = Done { item: item(Kind::Pod, "web", When::Now), result: Err("not\nallowed".into()) };
        let done = Thing::done(done);
        assert_eq!((done.state, done.why.as_deref()), ("failed", Some("not\\nallowed")));
        let nothing = table(&Released { virtual_cluster: "vc-1".into(), things: Vec::new() });
        assert_eq!(nothing, "nothing is left to release of the virtual cluster vc-1\n");
    }

    #[test]
    fn s22_a_name_is_a_binding_or_a_node_and_one_that_is_both_releases_nothing() {
        let seen = Seen::example();
        assert_eq!(asked(None, &seen).unwrap(), Asked::Everything);
        assert_eq!(asked(Some("east"), &seen).unwrap(), Asked::Binding(BindingName::parse("east").unwrap()));
        assert_eq!(
            asked(Some("west"), &seen).unwrap(),
            Asked::Binding(BindingName::parse("west").unwrap()),
            "it stands"
        );
        for node in ["w1", "vnode-east-w1", "w7"] {
            assert_eq!(asked(Some(node), &seen).unwrap(), Asked::Node(node.to_owned()), "{node}");
        }
        assert!(asked(Some("both"), &seen).unwrap_err().to_string().contains("of a ClusterBinding and of a node"));
        assert!(asked(Some("none"), &seen).unwrap_err().to_string().starts_with("nothing is left of \"none\""));
    }
}
