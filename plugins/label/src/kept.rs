//! Keeps the HyperNodes of a type that is left out unchanged: a mistake in a configuration deletes nothing.

use std::collections::{BTreeMap, BTreeSet};

use topoloom_sdk::applied::AppliedGroup;
use topoloom_sdk::{Group, Level, Members, Topology};

use crate::config::{Config, Mode, is_label_key};
use crate::identity;

/// Adds the groups of types that are left out to an answer, as they are in the cluster.
pub(crate) fn keep(config: &Config, applied: &[AppliedGroup], answer: &mut Topology) {
    let taken: BTreeSet<String> = answer.groups.iter().map(|group| group.id.clone()).collect();
    let of = |group: &AppliedGroup| group.id.clone().filter(|id| !taken.contains(id) && is_left_out(config, id));
    let all = applied.iter().enumerate().filter_map(|(at, group)| Some((at, group, of(group)?)));
    let mut kept: Vec<_> = all.collect();
    // Lower tiers first: only an existing group can be a member.
    kept.sort_by(|(_, one, id), (_, other, than)| (one.tier, id).cmp(&(other.tier, than)));
    let mut places: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
    for (at, group, id) in kept {
        let Some(members) = members(group, &mut places) else { continue };
        let labels = group.labels.iter().filter(|(key, value)| is_own(&id, key, value)).cloned().collect();
        let level = level(group, answer);
        places.insert(at, (group.tier, count(answer.groups.len())));
        answer.groups.push(Group { id, level, labels, members, description: None, fixed_name: None });
    }
}

/// Whether a group is of a type that is left out. Where domains have no type, it is if no served type uses its label.
fn is_left_out(config: &Config, id: &str) -> bool {
    match config.mode {
        Mode::Paths => config.left_out.iter().any(|name| {
            let mut kind = String::new();
            identity::push(&mut kind, name);
            let is_served = config.types.iter().any(|other| other.name == *name);
            !is_served && id.strip_prefix(&kind).is_some_and(|rest| rest.starts_with('/'))
        }),
        Mode::Volcano => id.split_once('=').is_some_and(|(key, _)| {
            let served = config.types.iter().flat_map(|kind| &kind.levels).any(|level| level.key() == key);
            !served && is_label_key(key)
        }),
    }
}

/// The members that are still there; a group belongs to one other group at most, and to one of a higher tier.
fn members(group: &AppliedGroup, places: &mut BTreeMap<usize, (u32, u32)>) -> Option<Members> {
    let (mut rows, mut groups) = (Vec::new(), Vec::new());
    for members in &group.members {
        match members {
            Members::Rows(more) => rows.extend(more),
            Members::Groups(more) => groups.extend(more.iter().map(|at| *at as usize)),
            Members::Names(_) | Members::Selector(_) => {}
        }
    }
    if !rows.is_empty() {
        return Some(Members::Rows(rows));
    }
    groups.retain(|at| places.get(at).is_some_and(|(tier, _)| *tier < group.tier));
    let groups: Vec<u32> = groups.iter().filter_map(|at| Some(places.remove(at)?.1)).collect();
    (!groups.is_empty()).then_some(Members::Groups(groups))
}

/// The level of a group; its name is left out where another tier has it already.
fn level(group: &AppliedGroup, answer: &mut Topology) -> u32 {
    let elsewhere = |name: &String| {
        answer.levels.iter().any(|level| level.tier_name.as_ref() == Some(name) && level.tier != group.tier)
    };
    let level =
        Level { tier: group.tier, tier_name: group.tier_name.clone().filter(|name| !elsewhere(name)), kind: None };
    let same =
        |other: &Level| (other.tier, &other.tier_name, &other.kind) == (level.tier, &level.tier_name, &level.kind);
    count(answer.levels.iter().position(same).unwrap_or_else(|| {
        answer.levels.push(level);
        answer.levels.len() - 1
    }))
}

/// Whether this source wrote a label, and not another program or person.
fn is_own(id: &str, key: &str, value: &str) -> bool {
    let mut escaped = String::new();
    identity::push(&mut escaped, value);
    id == format!("{key}={value}") || id.rsplit(['/', '=']).next() == Some(&escaped)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use topoloom_sdk::testing::Cluster;
    use topoloom_sdk::{Answer, Outcome};

    use super::*;
    use crate::Label;

    fn cluster() -> Cluster {
        let node = |name: &str, rack: &str, block: &str| {
            let mut labels = vec![("ex.io/rack", rack), ("ex.io/block", block)];
            labels.extend([("ex.io/spine", "s1")]);
            (
                name.to_owned(),
                labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>(),
            )
        };
        let nodes = [node("a", "r1", "b1"), node("b", "r1", "b2"), node("c", "r2", "b2")];
        nodes.iter().fold(Cluster::new(), |cluster, (name, labels)| {
            cluster.node(name, labels.iter().map(|(key, value)| (key.as_str(), value.as_str())))
        })
    }

    /// The objects of an answer in the cluster, under meaningless names.
    fn applied(answer: &Answer) -> Vec<AppliedGroup> {
        let Outcome::Topology(topology) = &answer.outcome else { panic!("{answer:?}") };
        let group = |(at, group): (usize, &Group)| {
            let level = &topology.levels[group.level as usize];
            AppliedGroup {
                id: Some(group.id.clone()),
                name: format!("hypernode-{at}"),
                tier: level.tier,
                tier_name: level.tier_name.clone(),
                labels: group.labels.iter().cloned().chain([("team".to_owned(), "mine".to_owned())]).collect(),
                members: vec![group.members.clone()],
            }
        };
        topology.groups.iter().enumerate().map(group).collect()
    }

    fn config(head: &str, block: &str) -> String {
        let host = r#"{"nodeLabel": "kubernetes.io/hostname"}"#;
        let rack = format!(r#"[{{"nodeLabel": "ex.io/spine"}}, {{"nodeLabel": "ex.io/rack"}}, {host}]"#);
        format!(r#"{{{head}, "networkTopologyTypes": {{"net": {rack}, "nv": {block}}}}}"#)
    }

    const BLOCK: &str = r#"[{"nodeLabel": "ex.io/block"}, {"nodeLabel": "kubernetes.io/hostname"}]"#;
    const MODES: [&str; 2] = [r#""compat": "volcano""#, r#""badTypes": "leaveOut""#];

    #[test]
    fn a_bad_type_keeps_its_groups_and_the_others_are_served() {
        let twice = r#"[{"nodeLabel": "ex.io/block"}, {"nodeLabel": "ex.io/block"}]"#;
        for (head, bad) in MODES.into_iter().flat_map(|head| [(head, twice), (head, r#""ex.io/block""#)]) {
            let good = cluster().discover::<Label>(&config(head, BLOCK)).unwrap();
            let before = cluster().show(&good);
            assert!(before.contains("ex.io/block=b2"), "{before}");
            // A node more, and what the good configuration left.
            let labels = [("ex.io/rack", "r2"), ("ex.io/spine", "s1"), ("ex.io/block", "b1")];
            let now = cluster().node("d", labels).objects(applied(&good));
            let shown = now.show(&now.discover::<Label>(&config(head, bad)).unwrap());
            let (said, groups): (Vec<_>, Vec<_>) = shown.lines().partition(|line| line.starts_with('!'));
            // The spine beside it has racks for members, and those are the same.
            let placed = |line: &str| match line.contains("| ex.io/rack=r2 |") {
                true => format!("{line} d"),
                false => line.to_owned(),
            };
            let wanted: Vec<_> = before.lines().map(placed).collect();
            assert_eq!(groups, wanted, "{head} {bad}");
            assert!(matches!(said.as_slice(), [line] if line.starts_with("! bad-type | ")), "{said:?}");
            // The mistake is corrected: nothing is left of it.
            let again = now.show(&now.discover::<Label>(&config(head, BLOCK)).unwrap());
            assert!(again.contains("ex.io/block=b1 | a d") && !again.contains('!'), "{again}");
        }
    }

    #[test]
    fn what_another_type_or_another_controller_has_is_not_kept() {
        for head in MODES {
            let good = cluster().discover::<Label>(&config(head, BLOCK)).unwrap();
            let mut left = applied(&good);
            let mut other = left[0].clone();
            other.id = None;
            left.push(other);
            let now = cluster().objects(left);
            let gone = config(head, "[{}]").replace("\"nv\"", "\"other\"");
            let shown = now.show(&now.discover::<Label>(&gone).unwrap());
            // Where domains have no type, the label says which are served.
            assert_eq!(shown.contains("ex.io/block"), head.contains("volcano"), "{shown}");
            assert_eq!(shown.matches("ex.io/rack=r1").count(), cluster().show(&good).matches("ex.io/rack=r1").count());
        }
    }
}
