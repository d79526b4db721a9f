//! What is written into a Lease, and what is read from one.

mod begins;
mod late;
mod served;

use std::time::Duration;

use topoloom_core::election::{ElectionPosition, Lost, Record};

use super::lease::{HolderEntry, claim, record, release, renew};
use super::runner::role;
use super::{Group, LeaseGroup, LossEnds, Role, identity};

const WANTED: HolderEntry<'_> = HolderEntry {
    name: "l",
    holder: "me",
    duration: Duration::from_millis(2500),
    transitions: 4,
    configuration: "conf/map",
};

#[test]
fn a_lease_is_claimed_renewed_and_given_back() {
    let mut claimed = claim(None, &WANTED, None);
    assert_eq!(claimed.metadata.resource_version, None);
    let spec = claimed.spec.clone().unwrap();
    assert_eq!(spec.lease_duration_seconds, Some(3), "rounded up: no replica comes too early");
    assert_eq!((spec.lease_transitions, &spec.acquire_time), (Some(4), &spec.renew_time));
    claimed.metadata.resource_version = Some("7".into());
    claimed.metadata.uid = Some("this-one".into());
    claimed.metadata.annotations.get_or_insert_default().insert("mine".into(), "too".into());
    let renewed = renew(Some(&claimed), &WANTED, "7");
    assert_eq!(renewed.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(renewed.metadata.annotations, claimed.metadata.annotations);
    assert_eq!(renewed.metadata.uid.as_deref(), Some("this-one"), "an update would make one that was deleted");
    assert_eq!(claim(Some(&claimed), &WANTED, None).metadata.uid, None, "one that is made has no UID yet");
    let again = renewed.spec.clone().unwrap();
    assert_eq!((again.acquire_time, again.lease_transitions), (spec.acquire_time, Some(4)));
    let given = release(Some(&renewed), &WANTED, "8");
    let Record { holder, released_by, transitions, duration, .. } = record(&given);
    assert_eq!((&*holder, released_by.as_deref(), transitions), ("", Some("me"), 4));
    assert_eq!(duration, Duration::from_secs(1));
    // The next holder removes the annotation, and keeps those of others.
    let next = claim(Some(&given), &HolderEntry { holder: "next", ..WANTED }, Some("9"));
    assert_eq!(record(&next).released_by, None);
    assert_eq!(next.metadata.annotations, claimed.metadata.annotations);
}

#[test]
fn a_lease_says_whose_it_is_and_where_the_configuration_of_its_holder_stands() {
    // One of a version before this one has neither.
    let mut old = claim(None, &WANTED, None);
    (old.metadata.labels, old.metadata.annotations) = (None, None);
    for lease in [claim(None, &WANTED, None), claim(Some(&old), &WANTED, Some("7"))] {
        assert_eq!(lease.metadata.labels.unwrap()["app.kubernetes.io/name"], "topoloom");
        assert_eq!(lease.metadata.annotations.unwrap()["topoloom.dev/configuration"], "conf/map");
    }
}

#[test]
fn a_lease_that_another_program_wrote_oddly_is_read() {
    let mut odd = claim(None, &WANTED, None);
    odd.spec = None;
    assert_eq!(record(&odd).duration, Duration::ZERO);
    assert_eq!(&*record(&odd).holder, "");
    let mut negative = claim(None, &WANTED, None);
    negative.spec.get_or_insert_default().lease_duration_seconds = Some(-5);
    assert_eq!(record(&negative).duration, Duration::ZERO);
}

#[test]
fn a_holder_is_cut_and_escaped_before_anybody_reads_of_it() {
    let odd = format!("a\u{200b}\n{}", "x".repeat(200_000));
    let Role::Follower(follows) = role(&ElectionPosition::Following(odd.as_str().into())) else { panic!("it follows") };
    let Role::Lost(Lost::Taken(taken)) = role(&ElectionPosition::Lost(Lost::Taken(odd.into()))) else {
        panic!("it is taken")
    };
    for said in [follows, taken] {
        assert!(said.starts_with("a\\u{200b}\\nxx") && said.ends_with('…') && said.len() < 320, "{} bytes", said.len());
    }
    let usual = format!("{}_5f0cf0a5-2b5b-4f31-9ad8-3a3a6e5c1234", "p".repeat(253));
    assert_eq!(role(&ElectionPosition::Following(usual.as_str().into())), Role::Follower(usual.into()));
}

#[test]
fn names_are_those_of_the_reference_and_unlike_each_other() {
    let (one, two) = (identity(), identity());
    assert_ne!(one, two);
    let (_, uuid) = one.rsplit_once('_').unwrap();
    let lengths: Vec<usize> = uuid.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(uuid.as_bytes()[14], b'4');
    assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "{uuid}");
}

#[test]
fn the_first_group_has_the_name_of_the_flag() {
    assert_eq!(LeaseGroup::HyperNode.lease("topoloom-hypernode"), "topoloom-hypernode");
    assert_eq!(LeaseGroup::NodeLock.lease("topoloom-hypernode"), "topoloom-hypernode-nodelock");
}

#[test]
fn s11_the_lease_of_a_binding_ends_its_group_alone_and_those_of_controllers_the_process() {
    for group in [LeaseGroup::HyperNode, LeaseGroup::NodeLock] {
        assert_eq!((Group::from(group).ends(), Group::from(group).as_str()), (LossEnds::Process, group.as_str()));
    }
    let binding = Group::Binding("east".into());
    assert_eq!((binding.ends(), binding.as_str(), binding.check()), (LossEnds::Group, "binding", "lease-binding"));
    assert_eq!((binding.binding(), Group::from(LeaseGroup::HyperNode).binding()), (Some("east"), None));
}
