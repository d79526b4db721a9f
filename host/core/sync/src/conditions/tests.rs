use super::*;
use crate::resources::read_list;

/// A minute of one hour.
fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_772_352_000 + 60 * minute).unwrap()
}

/// `kind=status:reason`, with the minutes of its last heartbeat and its last transition.
fn condition(text: &str, heartbeat: i64, transition: i64) -> NodeCondition {
    let (kind, rest) = text.split_once('=').unwrap();
    let (status, reason) = rest.split_once(':').unwrap_or((rest, ""));
    NodeCondition {
        last_heartbeat: Some(at(heartbeat)),
        last_transition: Some(at(transition)),
        ..new(kind, status.into(), reason, "")
    }
}

fn own() -> NodeCondition {
    let text = "the pods of this node request no more than it has";
    NodeCondition { last_transition: Some(at(0)), ..new(OVERCOMMITTED, Truth::False, "Fits", text) }
}

fn too_much() -> Overcommitted {
    let cpu = |amount| read_list([("cpu", amount)]).unwrap();
    Overcommitted::of(&cpu("3"), &cpu("2"))
}

struct World {
    physical: Vec<NodeCondition>,
    existing: Vec<NodeCondition>,
    mirrored: BTreeSet<String>,
    lease: LeaseState,
    overcommitted: Overcommitted,
}

impl World {
    fn new(physical: &[NodeCondition], existing: &[NodeCondition], lease: LeaseState) -> Self {
        let mirrored = BTreeSet::from([READY.to_owned(), "DiskPressure".to_owned(), "Custom".to_owned()]);
        let existing = existing.iter().cloned().chain([own()]).collect();
        Self { physical: physical.to_vec(), existing, mirrored, lease, overcommitted: Overcommitted::default() }
    }

    fn look(&self, minute: i64) -> Conditions {
        let Self { physical, existing, mirrored, lease, overcommitted } = self;
        conditions(&ConditionFacts { physical, existing, mirrored, lease: *lease, overcommitted }, at(minute))
    }

    /// The virtual node after the write that follows, which has to be the last one.
    fn after(&self, minute: i64) -> Vec<String> {
        let look = self.look(minute);
        let existing = look.write.unwrap_or_else(|| self.existing.clone());
        let shown = existing.iter().filter(|condition| condition.kind != OVERCOMMITTED).map(show).collect();
        let (physical, overcommitted) = (self.physical.clone(), self.overcommitted.clone());
        let again = Self { physical, existing, mirrored: look.mirrored, lease: self.lease, overcommitted };
        assert_eq!(again.look(minute + 1).write, None);
        shown
    }
}

/// `kind=status:reason`, then the minute of the last transition.
fn show(condition: &NodeCondition) -> String {
    let minute = condition.last_transition.map(|time| (time.as_second() - at(0).as_second()) / 60);
    format!("{}={}:{} {}", condition.kind, condition.status, condition.reason, minute.unwrap_or(-1))
}

#[test]
fn s4_ready_is_mirrored_without_its_heartbeat() {
    let ready = condition("Ready=True:KubeletReady", 7, 1);
    let world = World::new(std::slice::from_ref(&ready), &[], LeaseState::Renewed);
    let look = world.look(8);
    let written = look.write.unwrap();
    assert_eq!(written[0], NodeCondition { last_heartbeat: None, ..ready.clone() });
    assert_eq!(look.mirrored, BTreeSet::from([READY.to_owned()]));
    assert_eq!(look.reasons, [(READY.to_owned(), ConditionReason::Mirrored)]);
    // The next heartbeat is no reason to write, nor is another time of transition.
    let later = condition("Ready=True:KubeletReady", 12, 2);
    let quiet = World { physical: vec![later], existing: written, ..world };
    assert_eq!((quiet.look(13).write, quiet.look(13).reasons), (None, vec![]));
}

#[test]
fn s4_a_kubelet_that_is_not_ready_is_mirrored_with_reason_and_message() {
    let table = [
        ("Ready=True:KubeletReady", "Ready=False:KubeletNotReady", "Ready=False:KubeletNotReady 5"),
        ("Ready=True:KubeletReady", "Ready=True:Other", "Ready=True:Other 1"),
        ("Ready=True:KubeletReady", "Ready=Unknown:NodeStatusUnknown", "Ready=Unknown:NodeStatusUnknown 5"),
        ("Ready=True:KubeletReady", "Ready=Maybe:New", "Ready=Maybe:New 5"),
    ];
    for (existing, physical, want) in table {
        let world = World::new(&[condition(physical, 6, 5)], &[condition(existing, 0, 1)], LeaseState::Renewed);
        assert_eq!(world.after(7), [want], "{physical}");
    }
    let mut spoken = condition("Ready=True:KubeletReady", 0, 1);
    spoken.message = "kubelet is posting ready status".into();
    let world = World::new(&[spoken.clone()], &[condition("Ready=True:KubeletReady", 0, 1)], LeaseState::Renewed);
    assert_eq!(world.look(2).write.unwrap()[0].message, spoken.message);
}

#[test]
fn s4_what_is_unknown_while_our_lease_is_stopped_belongs_to_node_lifecycle() {
    let physical =
        [condition("Ready=Unknown:Theirs", 0, 3), condition("DiskPressure=False:KubeletHasNoDiskPressure", 0, 1)];
    let unknown = [condition("Ready=Unknown:NodeStatusUnknown", 2, 4), condition("DiskPressure=Unknown:X", 2, 4)];
    for lease in [LeaseState::Stopped, LeaseState::Overdue] {
        let world = World::new(&physical, &unknown, lease);
        let look = world.look(9);
        assert_eq!(look.write, None);
        assert!(look.reasons.contains(&("DiskPressure".to_owned(), ConditionReason::LeftToNodeLifecycle)));
    }
    // Renewed, everything is written, and the time does not go back to before the outage.
    let back = [condition("Ready=True:KubeletReady", 8, 1), physical[1].clone()];
    let world = World::new(&back, &unknown, LeaseState::Renewed);
    assert_eq!(world.after(9), ["Ready=True:KubeletReady 9", "DiskPressure=False:KubeletHasNoDiskPressure 9"]);
}

#[test]
fn s4_what_another_write_carries_keeps_the_conditions_of_node_lifecycle_as_they_are() {
    let unknown = condition("Ready=Unknown:NodeStatusUnknown", 2, 4);
    let mut world =
        World::new(&[condition("Ready=Unknown:Theirs", 0, 3)], std::slice::from_ref(&unknown), LeaseState::Stopped);
    world.overcommitted = too_much();
    assert_eq!(world.look(9).write.unwrap()[0], unknown);
}

#[test]
fn s4_while_our_lease_is_stopped_what_is_not_unknown_yet_is_still_mirrored() {
    let physical = [condition("Ready=Unknown:NodeStatusUnknown", 0, 3)];
    let world = World::new(&physical, &[condition("Ready=True:KubeletReady", 0, 1)], LeaseState::Stopped);
    assert_eq!(world.after(4), ["Ready=Unknown:NodeStatusUnknown 3"]);
    // A physical node without Ready: the virtual one keeps its own until node-lifecycle says Unknown.
    let world = World::new(&[], &[condition("Ready=True:KubeletReady", 0, 1)], LeaseState::Stopped);
    assert_eq!(world.after(4), ["Ready=True:KubeletReady 1"]);
}

#[test]
fn s5_ready_becomes_unknown_where_node_lifecycle_did_not_set_it_in_time() {
    let ready = [condition("Ready=True:KubeletReady", 0, 1)];
    assert_eq!(World::new(&ready, &ready, LeaseState::Stopped).after(9), ["Ready=True:KubeletReady 1"]);
    let overdue = World::new(&ready, &ready, LeaseState::Overdue);
    assert_eq!(overdue.after(9), ["Ready=Unknown:PhysicalClusterUnreachable 9"]);
    assert_eq!(overdue.look(9).reasons, [(READY.to_owned(), ConditionReason::Unreachable)]);
    let said = [condition("Ready=Unknown:NodeStatusUnknown", 0, 4)];
    assert_eq!(World::new(&ready, &said, LeaseState::Overdue).after(9), ["Ready=Unknown:NodeStatusUnknown 4"]);
}

#[test]
fn s4_conditions_of_others_survive_and_what_was_mirrored_goes_with_its_source() {
    let foreign = condition("gpu.example.com/healthy=True:Checked", 3, 2);
    let existing = [condition("Custom=True:X", 0, 1), condition("DiskPressure=False:X", 0, 1), foreign.clone()];
    let world = World::new(&[], &existing, LeaseState::Renewed);
    // DiskPressure stays: node-lifecycle would add it again at once.
    assert_eq!(world.after(9), ["DiskPressure=False:X 1", "gpu.example.com/healthy=True:Checked 2"]);
    assert_eq!(world.look(9).reasons, [("Custom".to_owned(), ConditionReason::Gone)]);
    assert!(world.look(9).write.unwrap().contains(&foreign), "the heartbeat of another client stays");
    // Once the physical node has it, it is mirrored like any other.
    let world = World::new(&[condition("gpu.example.com/healthy=False:Broken", 9, 8)], &[foreign], LeaseState::Renewed);
    assert_eq!(world.after(9), ["gpu.example.com/healthy=False:Broken 8"]);
    // While the lease is stopped, one that is Unknown is not even removed, and remembered.
    let world = World::new(&[], &[condition("Custom=Unknown:X", 0, 1)], LeaseState::Stopped);
    assert_eq!((world.look(9).write, world.look(9).mirrored), (None, BTreeSet::from(["Custom".to_owned()])));
}

#[test]
fn s14_overcommitted_names_the_resources() {
    let mut world = World::new(&[condition("Overcommitted=True:OfTheOther", 0, 1)], &[], LeaseState::Renewed);
    assert_eq!(world.look(5).write, None, "that of a physical node is about another size");
    world.overcommitted = too_much();
    let look = world.look(5);
    let text = "the pods of this node request more than it has: cpu 3 of 2 (1 too much)";
    let [over] = &look.write.unwrap()[..] else { panic!("one condition") };
    assert_eq!((&over.status, over.message.as_str()), (&Truth::True, text));
    assert_eq!((over.last_transition, over.last_heartbeat), (Some(at(5)), None));
    assert_eq!(look.reasons, [(OVERCOMMITTED.to_owned(), ConditionReason::Computed)]);
    assert_eq!(look.mirrored, BTreeSet::new());
}

#[test]
fn a_time_of_transition_never_goes_back_and_is_never_in_the_future() {
    // The existing time, the physical one, now, and what is written for a changed status.
    for (existing, physical, now, want) in [(1, 5, 7, 5), (1, 50, 7, 7), (6, 5, 7, 7), (6, 6, 7, 7)] {
        let world = World::new(
            &[condition("Ready=False:X", 0, physical)],
            &[condition("Ready=True:X", 0, existing)],
            LeaseState::Renewed,
        );
        assert_eq!(world.after(now), [format!("Ready=False:X {want}")]);
    }
    let timeless = NodeCondition { last_transition: None, ..condition("Ready=True:X", 0, 0) };
    assert_eq!(World::new(std::slice::from_ref(&timeless), &[], LeaseState::Renewed).after(4), ["Ready=True:X 4"]);
    let new_reason = [condition("Ready=True:Y", 0, 2)];
    assert_eq!(World::new(&new_reason, &[timeless], LeaseState::Renewed).after(4), ["Ready=True:Y 2"]);
}

#[test]
fn of_two_conditions_of_one_type_the_first_counts_and_order_is_no_change() {
    let twice = [condition("Ready=True:X", 0, 1), condition("Ready=False:Y", 0, 1)];
    assert_eq!(World::new(&twice, &[], LeaseState::Renewed).after(2), ["Ready=True:X 1"]);
    assert_eq!(World::new(&twice[..1], &twice, LeaseState::Renewed).after(2), ["Ready=True:X 1"]);
    let two = [condition("Ready=True:X", 0, 1), condition("Custom=True:X", 0, 1)];
    let turned = [two[1].clone(), two[0].clone()];
    assert_eq!(World::new(&two, &turned, LeaseState::Renewed).look(2).write, None);
}

#[test]
fn ten_thousand_conditions_are_a_matter_of_milliseconds() {
    let many: Vec<_> = (0..10_000).map(|at| condition(&format!("c{at}=True:X"), 0, 1)).collect();
    let world = World::new(&many, &many, LeaseState::Renewed);
    assert_eq!(world.look(2).write, None);
}
