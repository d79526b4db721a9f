//! The same discovery without sandbox and without columns: label strings in a map per node, members as names.
//!
//! Written like a program that has no boundary to cross, and without needless work: every label is looked up once per
//! node, domains are found by their path of borrowed values, and a string is only made for what is part of the model.

use std::collections::HashMap;
use std::sync::Arc;

use topoloom_core::names::NodeName;
use topoloom_core::topology::{Coverage, Group, Members, Topology};

use crate::cluster::{KEYS, name, values};

/// A node as such a program keeps it.
pub(super) struct Node {
    name: Arc<str>,
    labels: HashMap<String, String>,
}

pub(super) fn nodes(size: u32) -> Vec<Node> {
    let node = |node: u32| {
        let labels = KEYS.into_iter().map(str::to_owned).zip(values(node)).collect();
        Node { name: name(node).into(), labels }
    };
    (0..size).map(node).collect()
}

/// One domain of a level.
struct Domain<'a, M> {
    value: &'a str,
    parent: usize,
    members: Vec<M>,
}

pub(super) fn discover(nodes: &[Node]) -> Topology {
    let [leaf_key, spine_key, pod_key] = KEYS;
    let mut leaves: Vec<Domain<'_, NodeName>> = Vec::new();
    let mut spines: Vec<Domain<'_, u32>> = Vec::new();
    let mut pods: Vec<Domain<'_, u32>> = Vec::new();
    let mut leaf_of: HashMap<[&str; 3], usize> = HashMap::new();
    let mut spine_of: HashMap<[&str; 2], usize> = HashMap::new();
    let mut pod_of: HashMap<&str, usize> = HashMap::new();
    for node in nodes {
        let label = |key: &str| node.labels.get(key).map(String::as_str);
        let (Some(leaf), Some(spine), Some(pod)) = (label(leaf_key), label(spine_key), label(pod_key)) else {
            continue;
        };
        let at = *leaf_of.entry([pod, spine, leaf]).or_insert_with(|| {
            let parent = *spine_of.entry([pod, spine]).or_insert_with(|| {
                let parent = *pod_of.entry(pod).or_insert_with(|| add(&mut pods, pod, 0));
                add(&mut spines, spine, parent)
            });
            add(&mut leaves, leaf, parent)
        });
        leaves[at].members.push(node.name.clone().into());
    }
    model(leaves, spines, pods)
}

fn add<'a, M>(domains: &mut Vec<Domain<'a, M>>, value: &'a str, parent: usize) -> usize {
    domains.push(Domain { value, parent, members: Vec::new() });
    domains.len() - 1
}

/// The groups in the form in which the host decodes an answer: texts that repeat are shared.
fn model(
    leaves: Vec<Domain<'_, NodeName>>,
    mut spines: Vec<Domain<'_, u32>>,
    mut pods: Vec<Domain<'_, u32>>,
) -> Topology {
    let mut groups = Vec::with_capacity(leaves.len() + spines.len() + pods.len());
    let kind: Arc<str> = "gpu".into();
    let keys: [Arc<str>; 3] = KEYS.map(Arc::from);
    let group = |level: usize, id: String, value: &str, members: Members| Group {
        id: id.into(),
        kind: Some(Arc::clone(&kind)),
        fixed_name: None,
        description: None,
        tier: level as u32 + 1,
        tier_name: Some(Arc::clone(&keys[level])),
        labels: vec![(Arc::clone(&keys[level]), value.into())],
        members,
    };
    for leaf in leaves {
        let spine = &mut spines[leaf.parent];
        spine.members.push(groups.len() as u32);
        let id = ["gpu/1/", pods[spine.parent].value, "/", spine.value, "/", leaf.value].concat();
        groups.push(group(0, id, leaf.value, Members::Names(leaf.members)));
    }
    for spine in spines {
        let pod = &mut pods[spine.parent];
        pod.members.push(groups.len() as u32);
        let id = ["gpu/2/", pod.value, "/", spine.value].concat();
        groups.push(group(1, id, spine.value, Members::Groups(spine.members)));
    }
    for pod in pods {
        groups.push(group(2, ["gpu/3/", pod.value].concat(), pod.value, Members::Groups(pod.members)));
    }
    Topology { coverage: Coverage::Complete, groups, diagnostics: Vec::new() }
}
