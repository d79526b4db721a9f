use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};

use super::super::Streams;
use super::*;

fn settings() -> PhysicalSettings {
    PhysicalSettings {
        binding: BindingName::parse("east").unwrap(),
        mount_namespace: "lent".into(),
        writes: PhysicalWrites::All,
        policies: PolicySource::Physical,
        streams: Streams::Off,
    }
}

fn grant(settings: PhysicalSettings) -> Grant {
    Grant::new(settings, ACCOUNTS, Some("vc-1")).unwrap()
}

/// Kind, and name with its namespace, of every object.
fn listed(objects: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = |object: &Value| match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", text(&object["metadata"]["name"])),
        None => text(&object["metadata"]["name"]),
    };
    objects.iter().map(|object| format!("{} {}", text(&object["kind"]), name(object))).collect()
}

#[test]
fn s19_a_grant_is_everything_that_a_lender_creates_in_an_order_in_which_it_can_be_applied() {
    assert_eq!(
        listed(&grant(settings()).objects()),
        [
            "Namespace topoloom-lending",
            "Namespace lent",
            "CustomResourceDefinition resourceleasingpolicies.topoloom.dev",
            "ServiceAccount topoloom-lending/east.lent",
            "ValidatingAdmissionPolicy topoloom-lend.east.lent",
            "ValidatingAdmissionPolicyBinding topoloom-lend.east.lent",
            "ValidatingAdmissionPolicy topoloom-lend-policies.east.lent",
            "ValidatingAdmissionPolicyBinding topoloom-lend-policies.east.lent",
            "ClusterRole topoloom-lend.east.lent",
            "ClusterRoleBinding topoloom-lend.east.lent",
            "Role lent/topoloom-lend.east.lent",
            "RoleBinding lent/topoloom-lend.east.lent",
        ]
    );
}

#[test]
fn s19_every_policy_is_bound_before_the_first_role_so_that_a_part_of_a_grant_allows_no_more() {
    for writes in [PhysicalWrites::All, PhysicalWrites::None] {
        for policies in [PolicySource::Physical, PolicySource::Virtual] {
            let objects = grant(PhysicalSettings { writes, policies, ..settings() }).objects();
            let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
            let first = kinds.iter().position(|kind| ["ClusterRoleBinding", "RoleBinding"].contains(kind)).unwrap();
            let last = kinds.iter().rposition(|kind| kind.starts_with("ValidatingAdmissionPolicy"));
            assert!(last.is_none_or(|last| last < first), "{kinds:?}");
        }
    }
}

#[test]
fn s19_the_roles_are_the_table_of_rights_and_bind_the_one_account() {
    let settings = PhysicalSettings { streams: Streams::Served, ..settings() };
    let objects = grant(settings.clone()).objects();
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap().clone();
    let cluster: ClusterRole = serde_json::from_value(of_kind("ClusterRole")).unwrap();
    let role: Role = serde_json::from_value(of_kind("Role")).unwrap();
    let given: BTreeSet<String> = [("", cluster.rules), (" in lent", role.rules)]
        .into_iter()
        .flat_map(|(place, rules)| {
            rules.unwrap_or_default().into_iter().map(move |rule| {
                let (group, resource) = (rule.api_groups.unwrap().concat(), rule.resources.unwrap().concat());
                format!("{:?} {group}/{resource} {:?}{place}", rule.verbs, rule.resource_names.unwrap_or_default())
            })
        })
        .collect();
    let wanted: BTreeSet<String> = settings
        .rights()
        .iter()
        .map(|right| {
            let place = match &right.place {
                RightScope::Cluster => String::new(),
                RightScope::Namespace(namespace) => format!(" in {namespace}"),
            };
            format!("{:?} {}/{} {:?}{place}", right.verbs, right.group, right.resource, right.names)
        })
        .collect();
    assert_eq!(given, wanted);
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        let binding = of_kind(kind);
        let account = json!([{"kind": "ServiceAccount", "name": "east.lent", "namespace": "topoloom-lending"}]);
        assert_eq!(binding["subjects"], account);
        assert_eq!(
            (&binding["roleRef"]["name"], &binding["roleRef"]["kind"]),
            (&json!("topoloom-lend.east.lent"), &json!(kind.trim_end_matches("Binding")),)
        );
    }
}

#[test]
fn s19_where_no_node_is_written_there_is_no_right_to_patch_one_and_no_policy_about_it() {
    let none = PhysicalSettings { writes: PhysicalWrites::None, policies: PolicySource::Virtual, ..settings() };
    let objects = Grant::new(none, ACCOUNTS, None).unwrap().objects();
    let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    let wanted =
        ["Namespace", "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    assert_eq!(kinds, wanted);
    assert!(!serde_json::to_string(&objects).unwrap().contains("resourceleasingpolicies"));
    let rules = objects[3]["rules"].as_array().unwrap();
    let nodes: Vec<&Value> = rules.iter().filter(|rule| rule["resources"] == json!(["nodes"])).collect();
    assert_eq!(nodes.iter().map(|rule| &rule["verbs"]).collect::<Vec<_>>(), [&json!(["get", "list", "watch"])]);
}

#[test]
fn s7_two_borrowers_whose_bindings_have_one_name_share_nothing_but_the_namespace_of_accounts() {
    let names = |binding: &str, mount: &str| -> BTreeSet<String> {
        let settings = PhysicalSettings {
            binding: BindingName::parse(binding).unwrap(),
            mount_namespace: mount.into(),
            ..settings()
        };
        let shared = ["Namespace topoloom-lending", "CustomResourceDefinition"];
        let all = listed(&grant(settings).objects()).into_iter();
        all.filter(|name| !shared.iter().any(|shared| name.starts_with(shared))).collect()
    };
    let long = "b".repeat(253);
    let pairs =
        [("east", "a"), ("east", "b"), ("east.a", "b"), ("east", "a-b"), (long.as_str(), "a"), (long.as_str(), "b")];
    for (at, one) in pairs.iter().enumerate() {
        for other in &pairs[at + 1..] {
            let of_one = names(one.0, one.1);
            // A namespace may be lent to two bindings of one virtual cluster.
            let both: Vec<String> = of_one
                .intersection(&names(other.0, other.1))
                .filter(|name| !name.starts_with("Namespace "))
                .cloned()
                .collect();
            assert_eq!(both, [""; 0], "{one:?} {other:?}");
        }
    }
    let account = Account::of(&BindingName::parse(&long).unwrap(), "a", ACCOUNTS).unwrap();
    for prefix in [PREFIX, POLICIES_PREFIX] {
        assert!(topoloom_api::rules::is_dns_subdomain(&format!("{prefix}{}", account.name)), "{account:?}");
    }
}

#[test]
fn s8_s19_the_status_of_policies_is_written_where_they_are_for_the_binding_and_nowhere_else() {
    let validations = |settings: PhysicalSettings| -> Option<Vec<String>> {
        let objects = Grant::new(settings, ACCOUNTS, Some("vc-1")).unwrap().objects();
        let is_it = |object: &&Value| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            object["kind"] == "ValidatingAdmissionPolicy" && name.starts_with(POLICIES_PREFIX)
        };
        let policy: ValidatingAdmissionPolicy = serde_json::from_value(objects.iter().find(is_it)?.clone()).unwrap();
        let spec = policy.spec.unwrap();
        let user = "request.userInfo.username == 'system:serviceaccount:topoloom-lending:east.lent'";
        assert_eq!(spec.match_conditions.unwrap()[0].expression, user);
        assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
        let rules = spec.match_constraints.unwrap().resource_rules.unwrap();
        let resources = ["resourceleasingpolicies", "resourceleasingpolicies/*"].map(str::to_owned).to_vec();
        assert_eq!(rules[0].resources, Some(resources));
        Some(spec.validations.unwrap().into_iter().map(|validation| validation.expression).collect())
    };
    let all = validations(settings()).unwrap();
    assert!(all.len() == 3 && all[1].contains("oldObject.spec.cluster == 'east'"), "{all:?}");
    assert!(all[2].contains("oldObject.spec.virtualCluster in ['', 'vc-1']"), "{all:?}");
    // Of a borrower that claims nothing the virtual cluster is not known.
    let all = validations(PhysicalSettings { writes: PhysicalWrites::None, ..settings() }).unwrap();
    assert!(all.len() == 2 && all[1].contains("'east'"), "{all:?}");
    assert_eq!(validations(PhysicalSettings { policies: PolicySource::Virtual, ..settings() }), None);
}

#[test]
fn s19_the_policy_is_about_one_account_two_keys_and_the_claims_of_one_virtual_cluster() {
    let objects = grant(settings()).objects();
    let policy = objects.iter().find(|object| object["kind"] == "ValidatingAdmissionPolicy").unwrap();
    let read: ValidatingAdmissionPolicy = serde_json::from_value(policy.clone()).unwrap();
    let spec = read.spec.unwrap();
    assert_eq!(spec.failure_policy.as_deref(), Some("Fail"));
    let conditions = spec.match_conditions.unwrap();
    let [only] = &conditions[..] else { panic!("{conditions:?}") };
    assert_eq!(only.expression, "request.userInfo.username == 'system:serviceaccount:topoloom-lending:east.lent'");
    // Each variable is one that is there, and those that it uses come before it.
    let mut known = BTreeSet::new();
    let uses = |expression: &str| -> Vec<String> {
        let parts = expression.split("variables.").skip(1);
        parts.map(|rest| rest.chars().take_while(char::is_ascii_alphanumeric).collect()).collect()
    };
    for variable in spec.variables.unwrap() {
        assert!(uses(&variable.expression).iter().all(|used| known.contains(used)), "{}", variable.expression);
        known.insert(variable.name);
    }
    let validations = spec.validations.unwrap();
    for validation in &validations {
        assert!(uses(&validation.expression).iter().all(|used| known.contains(used)), "{}", validation.expression);
        assert!(validation.message.as_deref().is_some_and(|message| message.starts_with("system:serviceaccount:")));
    }
    let text = policy.to_string();
    for words in ["topoloom.dev/policy-applied", "topoloom.dev/leased-by", "startsWith('vc-1/')"] {
        assert!(text.contains(words), "{words}");
    }
    assert!(!text.contains("node-lock"), "the lock of the lender is not of the borrower");
}

#[test]
fn s19_what_would_give_a_borrower_too_much_is_refused_with_the_flag_and_the_value() {
    let refused = |mount: &str, accounts: &str, cluster: Option<&str>| {
        let settings = PhysicalSettings { mount_namespace: mount.into(), ..settings() };
        Grant::new(settings, accounts, cluster).map(drop).unwrap_err().to_string()
    };
    for (mount, accounts, cluster, words) in [
        ("kube-system", ACCOUNTS, Some("vc-1"), "--mount-namespace is \"kube-system\""),
        ("lent", "kube-public", Some("vc-1"), "--account-namespace is \"kube-public\""),
        ("lent", "lent", Some("vc-1"), "are both \"lent\""),
        ("Lent", ACCOUNTS, Some("vc-1"), "--mount-namespace must be the name of a namespace"),
        ("lent", ACCOUNTS, None, "kubectl get namespace kube-system -o jsonpath='{.metadata.uid}'"),
        ("lent", ACCOUNTS, Some(""), "--virtual-cluster-id must be 1 to 63"),
        ("lent", ACCOUNTS, Some("a' || true || '"), "--virtual-cluster-id must be 1 to 63"),
    ] {
        let said = refused(mount, accounts, cluster);
        assert!(said.contains(words), "{words}: {said}");
    }
}
