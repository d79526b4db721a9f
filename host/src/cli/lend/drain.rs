//! `topoloom lend drain`: the nodes of a binding, or one of them, are emptied and taken away (decisions S10 and S23).
//!
//! A node is drained by its name in the annotation of its binding, not by an annotation of its own: that would go with the
//! node, and the machine would be lent again at once.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use topoloom_api::ClusterBinding;
use topoloom_api::cluster_binding::Mode;
use topoloom_api::names::{DRAIN_ANNOTATION, PAUSE_ANNOTATION};
use topoloom_core::text::{line, says_yes};
use topoloom_sync::bars::Doing;
use topoloom_sync::drain::Drain;
use topoloom_sync::keys;
use topoloom_sync::naming::{BindingName, ClusterId, NODE_PREFIX, NameError, label_value, virtual_node_name};
use topoloom_sync::release::{Object, physical_name};
use topoloom_syncer::bindings::{stated, unclear};

use super::orders::{Annotation, Desk, Order, name_of, remarks};
use super::place::Place;
use super::{ReachArgs, objects};
use crate::cli::output::OutputArgs;
use crate::cluster::Refusal;

/// Nodes that a remark names.
const NAMED: usize = 5;
/// Longest sentence of a status that is repeated: one may name nodes, and end with what to type.
const SHOWN: usize = 2_000;

/// Flags of `lend drain`.
#[derive(Debug, Args)]
pub(in crate::cli) struct DrainArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// A ClusterBinding: all of its nodes; or one lent node, by its virtual or its physical name
    #[arg(value_name = "BINDING|NODE")]
    what: String,
    /// The ClusterBinding of the node, if several have one of that name, or the node is not lent now
    #[arg(long, value_name = "NAME", value_parser = super::binding)]
    binding: Option<BindingName>,
    /// End the drain: the nodes are lent again
    #[arg(long)]
    end: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// What is drained.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    binding: BindingName,
    /// The virtual node; `None`: all of them.
    node: Option<String>,
}

/// What is wanted of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Drain,
    End,
}

/// Drains, or ends it.
pub(super) async fn run(args: &DrainArgs) -> anyhow::Result<ExitCode> {
    let client = args.reach.client().await?;
    let desk = Desk::of(client.clone());
    let (what, wish) = (args.what.as_str(), if args.end { Wish::End } else { Wish::Drain });
    let nodes = if args.binding.is_none() || wish == Wish::End { lent(client.clone()).await? } else { Vec::new() };
    let Target { binding, node } = match &args.binding {
        Some(name) => named(what, &desk.get(name).await?)?,
        None => find(what, &desk.all().await?, &nodes)?,
    };
    let decide = |stored: &ClusterBinding| wanted(stored, node.as_deref(), wish);
    let (stored, written) = desk.annotate(&binding, decide).await?;
    let mut remarks = notes(&stored, wish, node.as_deref(), &nodes);
    if wish == Wish::Drain {
        remarks.extend(switched_off(Box::pin(is_read_only(&client)).await));
    }
    let order = Order {
        verb: "drain",
        binding: binding.to_string(),
        effect: effect(&binding, node.as_deref(), wish),
        remarks,
        node,
        written,
    };
    order.print(args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the installation that serves bindings writes nothing but leases.
async fn is_read_only(client: &kube::Client) -> Result<bool, Refusal> {
    match Place::by_leases(client).await? {
        Some(place) => place.is_read_only(client).await,
        None => Ok(false),
    }
}

fn switched_off(is_read_only: Result<bool, Refusal>) -> Option<String> {
    match is_read_only {
        Ok(true) => Some(
            "writes are switched off: no node is drained before `topoloom read-only off`, or before the syncer is started without \
             --read-only (readOnly: false in the chart)"
                .to_owned(),
        ),
        Ok(false) => None,
        Err(refusal) => {
            Some(format!("whether writes are switched off, so that no node is drained, could not be read: {refusal}"))
        }
    }
}

/// The virtual nodes of all bindings.
async fn lent(client: kube::Client) -> anyhow::Result<Vec<Object>> {
    let api: Api<Node> = Api::all(client);
    let nodes = objects::list(&api, Some(keys::VIRTUAL_CLUSTER)).await.context("listing virtual nodes")?;
    Ok(nodes.into_iter().map(objects::object).collect())
}

fn effect(binding: &str, node: Option<&str>, wish: Wish) -> String {
    let (what, whose) = match node {
        Some(node) => (format!("node {node} of ClusterBinding {binding}"), node),
        None => (format!("every node of ClusterBinding {binding}"), binding),
    };
    match wish {
        Wish::Drain => format!(
            "{what} is drained: it takes no new pods, its pods are evicted as their disruption budgets allow, and then the \
             virtual node goes. `topoloom lend drain {whose} --end` ends that"
        ),
        Wish::End => format!("{what} is not drained: it is lent as its policies allow"),
    }
}

fn notes(binding: &ClusterBinding, wish: Wish, node: Option<&str>, nodes: &[Object]) -> Vec<String> {
    let (mut notes, name) = (remarks(binding), name_of(binding));
    match wish {
        Wish::Drain => notes.extend(held_up(binding)),
        Wish::End => notes.extend(drained_still(name, node, nodes)),
    }
    notes
}

/// Why no node is drained now, or why some are not: what the binding itself asks for, and what its status says.
fn held_up(binding: &ClusterBinding) -> Vec<String> {
    let (mut notes, name) = (Vec::new(), name_of(binding));
    if says_yes(binding.annotation(PAUSE_ANNOTATION)) {
        notes.push(format!("the binding is paused: no node is drained before `topoloom lend resume {name}`"));
    }
    let mode = binding.spec.as_ref().ok().and_then(|spec| spec.mode.read().ok());
    if mode == Some(Mode::Observe) {
        notes.push("the binding has mode: observe, and no node is drained before that is enforce".to_owned());
    }
    let stated = stated(&binding.status).filter(|(bar, _)| bar.forbids(Doing::Disrupt));
    notes.extend(stated.map(|(_, why)| format!("no node is drained while this is so: {}", line(why, SHOWN))));
    let unclear = unclear(&binding.status);
    notes.extend(unclear.map(|why| format!("these nodes are not drained: {}", line(why, SHOWN))));
    notes
}

/// Nodes that carry the annotation themselves, by hand or because a release was cut off: that of their binding does not end it.
fn drained_still(binding: &str, node: Option<&str>, nodes: &[Object]) -> Option<String> {
    let label = label_value(binding);
    let is_meant = |object: &&Object| {
        object.labels.get(keys::BINDING) == Some(&label) && node.is_none_or(|node| object.name == *node)
    };
    let is_drained = |object: &&Object| says_yes(object.annotations.get(DRAIN_ANNOTATION).map(String::as_str));
    let names: Vec<&str> =
        nodes.iter().filter(is_meant).filter(is_drained).map(|object| object.name.as_str()).collect();
    let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(" ");
    let what = match names.len() {
        0 => return None,
        1 => "1 node carries the annotation itself, and stays drained".to_owned(),
        many => format!("{many} nodes carry the annotation themselves, and stay drained"),
    };
    let more = if names.len() > NAMED { ", and the others" } else { "" };
    Some(format!("{what}: `kubectl annotate node {first} {DRAIN_ANNOTATION}-`{more}"))
}

/// The annotation after this.
fn wanted(binding: &ClusterBinding, node: Option<&str>, wish: Wish) -> anyhow::Result<Annotation> {
    let there = binding.annotation(DRAIN_ANNOTATION);
    let before = Drain::read(there);
    let after = match (node, wish) {
        (None, Wish::Drain) => Drain::All,
        (None, Wish::End) => Drain::None,
        (Some(node), Wish::Drain) => before.clone().with(node)?,
        (Some(node), Wish::End) => {
            // A person may have written its physical name.
            let physical = cluster(binding).and_then(|cluster| physical_of(node, &cluster, &before));
            let names = [node, physical.as_deref().unwrap_or(node)];
            before.clone().without(&names).with_context(|| {
                let name = name_of(binding);
                format!("`topoloom lend drain {name} --end` ends it for all nodes")
            })?
        }
    };
    // What a person wrote by hand stays as long as it means the same.
    let value = if after == before { there.map(str::to_owned) } else { after.write() };
    Ok(Annotation { key: DRAIN_ANNOTATION, value })
}

fn cluster(binding: &ClusterBinding) -> Option<ClusterId> {
    ClusterId::parse(&binding.spec.as_ref().ok()?.cluster_id).ok()
}

/// The virtual name of a node of this cluster, of which either name was given.
fn virtual_name(what: &str, cluster: &ClusterId) -> Result<String, NameError> {
    if what.starts_with(&format!("{NODE_PREFIX}{cluster}-")) {
        return Ok(what.to_owned());
    }
    virtual_node_name(cluster, what).map(|name| name.to_string())
}

/// The physical name on the list that gives this name of a virtual node.
fn physical_of(node: &str, cluster: &ClusterId, drain: &Drain) -> Option<String> {
    let Drain::Nodes(nodes) = drain else { return None };
    let gives = |name: &&String| virtual_node_name(cluster, name).is_ok_and(|given| &*given == node);
    nodes.iter().find(gives).cloned()
}

/// A node of a binding that was named. It may not be lent now.
fn named(what: &str, binding: &ClusterBinding) -> anyhow::Result<Target> {
    let name = BindingName::parse(name_of(binding))?;
    let Some(cluster) = cluster(binding) else {
        bail!("the spec of ClusterBinding {name} has no valid clusterID, so its nodes have no names");
    };
    Ok(Target { binding: name, node: Some(virtual_name(what, &cluster)?) })
}

/// What is meant: a binding, a node that is lent, or one that is drained already and gone.
fn find(what: &str, bindings: &[ClusterBinding], nodes: &[Object]) -> anyhow::Result<Target> {
    let mut found: Vec<Target> = Vec::new();
    let mut add = |binding: &ClusterBinding, node: Option<String>| -> anyhow::Result<()> {
        let target = Target { binding: BindingName::parse(name_of(binding))?, node };
        if !found.contains(&target) {
            found.push(target);
        }
        Ok(())
    };
    for binding in bindings.iter().filter(|binding| name_of(binding) == what) {
        add(binding, None)?;
    }
    for node in nodes.iter().filter(|node| node.name == what || physical_name(node) == Some(what)) {
        let label = node.labels.get(keys::BINDING);
        let is_its = |binding: &&ClusterBinding| label.is_some_and(|label| *label == label_value(name_of(binding)));
        if let Some(binding) = bindings.iter().find(is_its) {
            add(binding, Some(node.name.clone()))?;
        }
    }
    for binding in bindings {
        let drain = Drain::read(binding.annotation(DRAIN_ANNOTATION));
        let name = cluster(binding).and_then(|cluster| Some((virtual_name(what, &cluster).ok()?, cluster)));
        let Some((name, cluster)) = name else { continue };
        if drain.lists(&[what, &name]) || physical_of(&name, &cluster, &drain).is_some() {
            add(binding, Some(name))?;
        }
    }
    let shown = |target: &Target| match &target.node {
        Some(node) => format!("node {node} of ClusterBinding {}", target.binding),
        None => format!("ClusterBinding {}", target.binding),
    };
    match found.as_slice() {
        [target] => Ok(target.clone()),
        [] => bail!(
            "neither a ClusterBinding nor a lent node has the name {what:?}. A node that is not lent now: add --binding NAME"
        ),
        [one, other, ..] => bail!(
            "{what:?} is {} and {}: name the virtual node, or add --binding NAME for a node",
            shown(one),
            shown(other)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use topoloom_api::Word;
    use topoloom_api::condition::{Condition, ConditionStatus, ConditionType, Reason};

    use super::super::orders::examples::{annotated, binding};
    use super::*;
    use crate::cluster::RefusalReason;

    fn lent(cluster: &str, machine: &str, of: &str) -> Object {
        Object {
            name: format!("vnode-{cluster}-{machine}"),
            labels: BTreeMap::from([(keys::BINDING.to_owned(), label_value(of))]),
            annotations: BTreeMap::from([(keys::PHYSICAL_NODE_NAME.to_owned(), machine.to_owned())]),
            ..Object::default()
        }
    }

    fn target(binding: &str, node: Option<&str>) -> Target {
        Target { binding: super::super::binding(binding).unwrap(), node: node.map(str::to_owned) }
    }

    #[test]
    fn s23_a_binding_or_a_node_of_either_name_is_found() {
        let bindings = [binding("east", "b-1"), binding("west", "b-2")];
        let nodes = [lent("east", "w1", "east"), lent("west", "w2", "west"), lent("south", "w3", "south")];
        let is = |what: &str, wanted: Target| assert_eq!(find(what, &bindings, &nodes).unwrap(), wanted, "{what}");
        is("east", target("east", None));
        is("w1", target("east", Some("vnode-east-w1")));
        is("vnode-west-w2", target("west", Some("vnode-west-w2")));
        for what in ["w9", "w3"] {
            let error = find(what, &bindings, &nodes).unwrap_err().to_string();
            assert!(error.contains(&format!("{what:?}")) && error.contains("--binding"), "{error}");
        }
    }

    #[test]
    fn s23_a_name_with_two_meanings_drains_nothing() {
        let bindings = [binding("east", "b-1"), binding("west", "b-2")];
        let nodes = [lent("east", "w1", "east"), lent("west", "w1", "west"), lent("west", "east", "west")];
        let error = |what: &str| find(what, &bindings, &nodes).unwrap_err().to_string();
        assert!(
            error("w1").contains("node vnode-east-w1 of ClusterBinding east and node vnode-west-w1 of"),
            "{}",
            error("w1")
        );
        assert!(error("east").contains("ClusterBinding east and node vnode-west-east of ClusterBinding west"));
        let named = |what: &str| named(what, &bindings[0]).unwrap();
        assert_eq!(
            (named("w1"), named("vnode-east-w1")),
            (target("east", Some("vnode-east-w1")), target("east", Some("vnode-east-w1")))
        );
    }

    #[test]
    fn s23_a_node_that_was_drained_and_is_gone_is_found_by_what_is_on_the_list() {
        for listed in ["vnode-east-w1", "w1", "w0,w1"] {
            let bindings = [annotated("east", DRAIN_ANNOTATION, listed)];
            for what in ["w1", "vnode-east-w1"] {
                let found = find(what, &bindings, &[]).unwrap();
                assert_eq!(found, target("east", Some("vnode-east-w1")), "{listed} {what}");
            }
            let ended = wanted(&bindings[0], Some("vnode-east-w1"), Wish::End).unwrap();
            assert_eq!(ended.value.as_deref(), if listed == "w0,w1" { Some("w0") } else { None }, "{listed}");
        }
    }

    #[test]
    fn s23_one_more_node_is_added_to_what_a_person_wrote_and_a_drained_binding_stays_as_it_is() {
        let value = |binding: &ClusterBinding, node: Option<&str>, wish| wanted(binding, node, wish).map(|it| it.value);
        let plain = binding("east", "b-1");
        assert_eq!(value(&plain, None, Wish::Drain).unwrap().as_deref(), Some("true"));
        assert_eq!(value(&plain, Some("vnode-east-w1"), Wish::Drain).unwrap().as_deref(), Some("vnode-east-w1"));
        assert_eq!(
            (value(&plain, None, Wish::End).unwrap(), value(&plain, Some("w"), Wish::End).unwrap()),
            (None, None)
        );
        let one = annotated("east", DRAIN_ANNOTATION, " w2 ");
        assert_eq!(value(&one, Some("vnode-east-w1"), Wish::Drain).unwrap().as_deref(), Some("vnode-east-w1,w2"));
        assert_eq!(value(&one, Some("w2"), Wish::Drain).unwrap().as_deref(), Some(" w2 "), "nothing to write");
        let all = annotated("east", DRAIN_ANNOTATION, "true");
        assert_eq!(value(&all, Some("vnode-east-w1"), Wish::Drain).unwrap().as_deref(), Some("true"));
        let error = value(&all, Some("vnode-east-w1"), Wish::End).unwrap_err();
        assert!(format!("{error:#}").contains("`topoloom lend drain east --end` ends it for all nodes"), "{error:#}");
    }

    #[test]
    fn s23_a_node_that_carries_the_annotation_itself_is_named_when_a_drain_ends() {
        let drained = |machine: &str, of: &str| {
            let mut node = lent(of, machine, of);
            node.annotations.insert(DRAIN_ANNOTATION.to_owned(), "true".to_owned());
            node
        };
        let nodes = [drained("w1", "east"), drained("w2", "east"), lent("east", "w3", "east"), drained("w4", "west")];
        let said = |node: Option<&str>| notes(&binding("east", "b-1"), Wish::End, node, &nodes);
        let both = "2 nodes carry the annotation themselves, and stay drained: `kubectl annotate node vnode-east-w1 \
                    vnode-east-w2 topoloom.dev/drain-`";
        assert_eq!(said(None), [both]);
        assert!(said(Some("vnode-east-w1"))[0].starts_with("1 node carries the annotation itself"));
        assert_eq!(said(Some("vnode-east-w3")), [""; 0]);
        assert_eq!(notes(&binding("east", "b-1"), Wish::Drain, None, &nodes), [""; 0]);
    }

    #[test]
    fn s27_that_writes_are_switched_off_is_said_with_a_drain() {
        assert_eq!(switched_off(Ok(false)), None);
        assert!(switched_off(Ok(true)).is_some_and(|note| note.contains("`topoloom read-only off`")));
        let (reason, message) = (RefusalReason::Forbidden, "leases is forbidden".to_owned());
        let unread = switched_off(Err(Refusal { reason, message, retry_after: None }));
        assert!(unread.is_some_and(|note| note.ends_with("could not be read: leases is forbidden")));
    }

    #[test]
    fn s23_what_holds_a_drain_up_is_said_with_it() {
        let paused = annotated("east", PAUSE_ANNOTATION, "true");
        assert!(notes(&paused, Wish::Drain, None, &[])[0].contains("`topoloom lend resume east`"));
        assert_eq!(notes(&paused, Wish::End, None, &[]), [""; 0]);
        let mut binding = binding("east", "b-1");
        if let Ok(spec) = &mut binding.spec {
            spec.mode = Word::of(Mode::Observe);
        }
        let unreachable = "The physical API server does not answer.";
        binding.status.conditions = vec![
            Condition::new(
                ConditionType::Connected,
                ConditionStatus::False,
                Reason::PhysicalClusterUnreachable,
                unreachable,
            ),
            Condition::new(
                ConditionType::Conflict,
                ConditionStatus::True,
                Reason::NodesClaimed,
                "A node is another's.",
            ),
        ];
        assert_eq!(
            notes(&binding, Wish::Drain, None, &[]),
            [
                "the binding has mode: observe, and no node is drained before that is enforce".to_owned(),
                format!("no node is drained while this is so: {unreachable}"),
            ]
        );
        assert_eq!(notes(&binding, Wish::End, None, &[]), [""; 0]);
        let unclear =
            format!("3 virtual nodes lack labels of identity: {}kubectl label node n --overwrite.", "n, ".repeat(400));
        binding.status.conditions = vec![Condition::new(
            ConditionType::Conflict,
            ConditionStatus::True,
            Reason::NodesUnclear,
            unclear.as_str(),
        )];
        assert_eq!(notes(&binding, Wish::Drain, None, &[])[1..], [format!("these nodes are not drained: {unclear}")]);
        assert_eq!(notes(&binding, Wish::End, None, &[]), [""; 0]);
        assert!(effect("east", None, Wish::Drain).contains("`topoloom lend drain east --end`"));
        assert!(effect("east", Some("n"), Wish::End).starts_with("node n of ClusterBinding east is not drained"));
    }
}
