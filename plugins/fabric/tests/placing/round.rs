//! Rounds as the host runs them, and their results.

use std::cell::RefCell;
use std::collections::BTreeMap;

use topoloom_fabric::{Memory, Outcome, Settings, State, Wiring, place};
use topoloom_sdk::applied::AppliedGroup;
use topoloom_sdk::prelude::*;
use topoloom_sdk::testing::Cluster;
use topoloom_sdk::{Members, Topology};

thread_local! {
    static TASK: RefCell<(Wiring, Settings, Memory)> = RefCell::default();
    static OUTCOME: RefCell<Option<Outcome>> = const { RefCell::new(None) };
}

struct Probe;

impl Discoverer for Probe {
    type Config = BTreeMap<String, String>;

    fn describe() -> Description {
        Description::new("probe", "0.1.0")
    }

    fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> {
        Ok(Requirements::new().node_annotation("guids"))
    }

    fn discover(_: &Self::Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let outcome = TASK.with_borrow(|(wiring, settings, memory)| place(wiring, settings, memory, input));
        OUTCOME.set(Some(outcome));
        Ok(TopologyBuilder::new().finish().into())
    }
}

/// One round.
pub(crate) fn round(cluster: &Cluster, wiring: &Wiring, settings: &Settings, memory: &Memory) -> Outcome {
    TASK.set((wiring.clone(), settings.clone(), memory.clone()));
    cluster.discover::<Probe>("{}").unwrap();
    OUTCOME.take().unwrap()
}

/// The first round with default settings.
pub(crate) fn first(cluster: &Cluster, wiring: &Wiring) -> Outcome {
    round(cluster, wiring, &Settings::default(), &Memory::default())
}

/// The memory after its way through bytes.
pub(crate) fn kept(outcome: &Outcome) -> Memory {
    let state = State { parts: Vec::new(), memory: outcome.memory.clone() };
    let memory = State::from_bytes(&state.to_bytes()).memory;
    assert_eq!(memory, outcome.memory);
    memory
}

pub(crate) fn cluster<S: AsRef<str>>(names: &[S]) -> Cluster {
    names.iter().fold(Cluster::new(), |cluster, name| cluster.node(name.as_ref(), []))
}

/// The whole answer.
pub(crate) fn show(cluster: &Cluster, outcome: &Outcome) -> String {
    cluster.show(&outcome.topology.clone().into())
}

/// The groups without the reports.
pub(crate) fn groups(cluster: &Cluster, outcome: &Outcome) -> String {
    show(cluster, outcome).lines().filter(|line| !line.starts_with('!')).map(|line| format!("{line}\n")).collect()
}

/// The reports of one code.
pub(crate) fn reports(cluster: &Cluster, outcome: &Outcome, code: &str) -> Vec<String> {
    let start = format!("! {code} | ");
    show(cluster, outcome).lines().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
}

/// The identity of the group of tier 1 of every Node, by name.
pub(crate) fn homes<S: AsRef<str>>(names: &[S], topology: &Topology) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for group in &topology.groups {
        if let Members::Rows(rows) = &group.members {
            for &row in rows {
                let twice = homes.insert(names[row as usize].as_ref().to_owned(), group.id.clone());
                assert_eq!(twice, None, "a Node in two groups");
            }
        }
    }
    homes
}

/// An object of this source.
pub(crate) fn applied(id: &str, tier: u32, members: Members) -> AppliedGroup {
    let [id, name] = [id.to_owned(), format!("hypernode-{id}")];
    AppliedGroup { id: Some(id), name, tier, tier_name: None, labels: Vec::new(), members: vec![members] }
}

/// The objects that the host passes after a restart: the groups of an answer.
pub(crate) fn objects(topology: &Topology) -> Vec<AppliedGroup> {
    let tier = |group: &topoloom_sdk::Group| topology.levels[group.level as usize].tier;
    topology.groups.iter().map(|group| applied(&group.id, tier(group), group.members.clone())).collect()
}
