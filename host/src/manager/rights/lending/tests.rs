//! What lending needs at both sides, as the rules that give it.

use std::collections::BTreeSet;

use super::*;

fn virtual_settings() -> VirtualSettings {
    VirtualSettings {
        leases: BindingLeases::Elected("own".into()),
        config: ("conf".into(), "map".into()),
        extent: Extent::Everything,
        secrets: vec![("conf".into(), "east".into())],
        policies: PolicySource::Physical,
        evictions: Evictions::Allowed,
        host_ports: HostPorts::Off,
        streams: Streams::Off,
    }
}

fn physical_settings() -> PhysicalSettings {
    PhysicalSettings {
        binding: BindingName::parse("east").unwrap(),
        mount_namespace: "lent".into(),
        writes: PhysicalWrites::All,
        policies: PolicySource::Physical,
        streams: Streams::Off,
    }
}

/// Verb and resource of every right, with its namespace where it is of one.
fn verbs(rights: &[Right]) -> BTreeSet<String> {
    let of = |right: &Right| -> Vec<String> {
        let place = match &right.place {
            RightScope::Cluster => String::new(),
            RightScope::Namespace(namespace) => format!(" in {namespace}"),
        };
        right.verbs.iter().map(|verb| format!("{verb} {}{place}", right.resource)).collect()
    };
    rights.iter().flat_map(of).collect()
}

fn writes(rights: &[Right]) -> Vec<String> {
    let is_read = |verb: &String| READS.iter().any(|read| verb.starts_with(&format!("{read} ")));
    verbs(rights).into_iter().filter(|verb| !is_read(verb)).collect()
}

#[test]
fn s19_every_right_is_of_its_side_and_the_physical_ones_say_so() {
    assert!(virtual_settings().rights().iter().all(|right| right.side == Side::Virtual));
    let physical = physical_settings().rights();
    for right in &physical {
        assert_eq!(right.side, Side::Physical);
        assert!(right.to_string().ends_with(" in the physical cluster"), "{right}");
        assert!(right.questions().iter().all(|question| question.side == Side::Physical));
    }
    let rules: Vec<String> = physical.iter().map(ToString::to_string).collect();
    let claim = r#"ClusterRole: {apiGroups: [""], resources: ["nodes"], verbs: ["patch"]} in the physical cluster"#;
    assert!(rules.iter().any(|rule| rule == claim), "{rules:#?}");
}

#[test]
fn s19_a_borrower_writes_claims_its_own_pods_its_lease_and_the_status_of_policies_and_nothing_else() {
    let rights = physical_settings().rights();
    assert_eq!(
        writes(&rights),
        [
            "create leases in lent",
            "delete leases in lent",
            "delete pods in lent",
            "patch leases in lent",
            "patch nodes",
            "patch resourceleasingpolicies/status",
        ]
    );
    assert!(rights.iter().all(|right| !["secrets", "nodes/status"].contains(&right.resource)), "{rights:#?}");
    // A lease of another in that namespace is out of reach, but for one that does not exist yet.
    let leases = rights.iter().filter(|right| right.resource == "leases");
    for right in leases {
        assert!(right.verbs == ["create"] || right.names == [borrower_lease(&physical_settings().binding)], "{right}");
    }
}

#[test]
fn s3_what_a_pod_needs_is_read_and_copied_by_the_top_down_half_alone() {
    let streams = Streams::Served;
    let physical = PhysicalSettings { streams, ..physical_settings() };
    let (host_ports, policies) = (HostPorts::Mirrored, PolicySource::Virtual);
    let lent = VirtualSettings { streams, host_ports, policies, ..virtual_settings() };
    let never = ["persistentvolumeclaims", "persistentvolumes", "serviceaccounts", "serviceaccounts/token"];
    for right in physical.rights().into_iter().chain(lent.rights()) {
        assert!(!never.contains(&right.resource), "{right}");
        // The kubeconfig of a binding, the switch of writes, and the authority for clients: each by its name.
        let is_named = right.side == Side::Virtual && !right.names.is_empty();
        assert!(is_named || !["configmaps", "secrets"].contains(&right.resource), "{right}");
    }
}

#[test]
fn s19_who_writes_no_node_needs_no_patch_of_nodes_and_policies_are_read_where_they_are() {
    let none = PhysicalSettings { writes: PhysicalWrites::None, ..physical_settings() };
    assert!(!writes(&none.rights()).contains(&"patch nodes".to_owned()));
    let elsewhere = PhysicalSettings { policies: PolicySource::Virtual, ..physical_settings() };
    let is_policy = |right: &Right| right.resource.starts_with("resourceleasingpolicies");
    assert!(!elsewhere.rights().iter().any(is_policy) && physical_settings().rights().iter().any(is_policy));
    let here = VirtualSettings { policies: PolicySource::Virtual, ..virtual_settings() };
    assert!(here.rights().iter().any(is_policy) && !virtual_settings().rights().iter().any(is_policy));
}

#[test]
fn s27_where_writes_are_switched_off_leases_are_all_that_is_written() {
    let rights = VirtualSettings { extent: Extent::LeasesOnly, policies: PolicySource::Virtual, ..virtual_settings() };
    assert_eq!(
        writes(&rights.rights()),
        [
            "create leases in kube-node-lease",
            "create leases in own",
            "delete leases in own",
            "patch leases in own",
            "update leases in kube-node-lease",
            "update leases in own",
        ]
    );
}

#[test]
fn s19_in_the_virtual_cluster_secrets_are_named_and_evictions_are_a_choice() {
    let rights = virtual_settings().rights();
    let secrets: Vec<&Right> = rights.iter().filter(|right| right.resource == "secrets").collect();
    assert_eq!(secrets.len(), 1);
    assert_eq!(
        (&secrets[0].place, secrets[0].names.as_slice()),
        (&RightScope::Namespace("conf".into()), &["east".to_owned()][..])
    );
    let evicts = |settings: VirtualSettings| verbs(&settings.rights()).contains("create pods/eviction");
    assert!(evicts(virtual_settings()));
    assert!(!evicts(VirtualSettings { evictions: Evictions::Never, ..virtual_settings() }));
    // Pods are never made, and bound by no one here.
    assert!(
        verbs(&rights)
            .iter()
            .all(|verb| !["create pods", "create pods/binding", "patch pods"].contains(&verb.as_str()))
    );
}

#[test]
fn s22_s25_without_an_election_counter_and_record_have_leases_all_the_same() {
    let alone = VirtualSettings { leases: BindingLeases::Unelected("own".into()), ..virtual_settings() };
    let rights = verbs(&alone.rights());
    let of_leases: Vec<&String> = rights.iter().filter(|right| right.ends_with(" leases in own")).collect();
    let wanted = ["create leases in own", "get leases in own", "list leases in own", "patch leases in own"];
    assert_eq!(of_leases, wanted);
}

#[test]
fn section_11_2_pods_are_made_in_the_namespace_of_placeholders_alone_and_only_where_host_ports_are_mirrored() {
    let mirrored = VirtualSettings { host_ports: HostPorts::Mirrored, ..virtual_settings() };
    let more: Vec<String> =
        verbs(&mirrored.rights()).difference(&verbs(&virtual_settings().rights())).cloned().collect();
    assert_eq!(more, ["create pods in topoloom-host-ports"]);
    let read_only = VirtualSettings { extent: Extent::LeasesOnly, ..mirrored };
    assert!(writes(&read_only.rights()).iter().all(|verb| !verb.contains("pods")));
}

#[test]
fn s26_logs_and_exec_need_their_rights_at_both_sides_only_where_they_are_served() {
    let (off, served) = (physical_settings(), PhysicalSettings { streams: Streams::Served, ..physical_settings() });
    let more: Vec<String> = verbs(&served.rights()).difference(&verbs(&off.rights())).cloned().collect();
    assert_eq!(
        more,
        [
            "create pods/attach in lent",
            "create pods/exec in lent",
            "create pods/portforward in lent",
            "get pods/attach in lent",
            "get pods/exec in lent",
            "get pods/log in lent",
            "get pods/portforward in lent",
        ]
    );
    let served = VirtualSettings { streams: Streams::Served, ..virtual_settings() };
    let more: Vec<String> = verbs(&served.rights()).difference(&verbs(&virtual_settings().rights())).cloned().collect();
    assert_eq!(more.len(), 4, "{more:?}");
}

#[test]
fn no_right_of_lending_is_one_of_the_other_controllers() {
    use crate::config::References;
    use crate::manager::options::Kept;
    use crate::manager::rights::{LockSettings, RightsSettings};
    let settings = RightsSettings {
        own: "own".into(),
        config: ("conf".into(), "map".into()),
        controllers: topoloom_core::controllers::Selection::all(),
        leases: Some(("own".into(), "l".into())),
        extent: Extent::Everything,
        kept: Kept::InConfigMaps,
        rivals: Vec::new(),
        references: References::default(),
        locks: LockSettings::with_extender(None),
    };
    let all = settings.rights();
    assert!(all.iter().all(|right| right.side == Side::Virtual && right.part != BOTTOMUP_SYNCER));
}
