use proptest::prelude::*;

use super::*;
use crate::naming::{BindingName, virtual_node_name};
use crate::taints::{Effect, Operator, Taint, Tolerated, Toleration, tolerates};

const NODE: &str = "vnode-east-w1";

fn us() -> Identity {
    Identity::new("cluster-1".into(), BindingName::parse("east").unwrap(), "binding-2".into()).unwrap()
}

fn now() -> Timestamp {
    "2026-08-01T06:10:00Z".parse().unwrap()
}

fn tcp(number: u16) -> HostPort {
    HostPort::read("", "", number).unwrap()
}

fn tcps(numbers: &[u16]) -> Vec<HostPort> {
    numbers.iter().copied().map(tcp).collect()
}

/// The virtual cluster, as far as placeholders are concerned, with a scheduler that does not count.
struct World {
    identity: Identity,
    cluster: ClusterId,
    mirroring: Mirroring,
    /// UID, labels, and whether it stays.
    node: Option<(Uid, BTreeMap<String, String>, Stay)>,
    live: Presence,
    /// For each pod of the lender the ports that it holds; nothing where the pods are not known.
    lender: Option<BTreeMap<&'static str, Vec<HostPort>>>,
    placeholders: Vec<Placeholder>,
    bindings: Option<BTreeSet<Uid>>,
    bars: Bars,
    guard: Guarding,
    /// What kube-scheduler takes for held.
    scheduler: BTreeSet<HostPort>,
    version: u64,
}

impl World {
    fn new() -> Self {
        let cluster = ClusterId::parse("east").unwrap();
        assert_eq!(&*virtual_node_name(&cluster, "w1").unwrap(), NODE);
        Self {
            node: Some(("n-1".into(), us().node_labels(&cluster, "w1"), Stay::Lent)),
            identity: us(),
            cluster,
            mirroring: Mirroring::On,
            live: Presence::Unasked,
            lender: Some(BTreeMap::new()),
            placeholders: Vec::new(),
            bindings: None,
            bars: Bars::default(),
            guard: Guarding::Free,
            scheduler: BTreeSet::new(),
            version: 0,
        }
    }

    /// With these pods of the lender, and their placeholders.
    fn settled(pods: &[(&'static str, &[u16])]) -> Self {
        let mut world = Self::new();
        for (name, ports) in pods {
            world.comes(name, ports);
        }
        world.settle();
        world
    }

    fn comes(&mut self, pod: &'static str, ports: &[u16]) {
        self.lender.as_mut().unwrap().insert(pod, tcps(ports));
    }

    fn goes(&mut self, pod: &str) {
        self.lender.as_mut().unwrap().remove(pod);
    }

    fn decide(&self) -> PortOrder {
        let held: Option<Vec<&[HostPort]>> =
            self.lender.as_ref().map(|pods| pods.values().map(Vec::as_slice).collect());
        let placeholders: Vec<&Placeholder> = self.placeholders.iter().collect();
        let facts = Facts {
            identity: &self.identity,
            cluster: &self.cluster,
            name: &NODE.into(),
            mirroring: self.mirroring,
            node: self.node.as_ref().map(|(uid, labels, stay)| HoldingNode { uid, labels, stay: *stay }),
            live: self.live,
            physical: Some("w1"),
            held: held.as_deref(),
            placeholders: &placeholders,
            bindings: self.bindings.as_ref(),
            bars: &self.bars,
            guard: self.guard,
        };
        decide(&facts, now())
    }

    fn next_version(&mut self) -> ResourceVersion {
        self.version += 1;
        self.version.to_string().into()
    }

    /// As an API server does it, and as the scheduler sees it.
    fn carry(&mut self, order: &PortOrder) {
        match order {
            PortOrder::Create { name, body } => {
                assert!(self.placeholders.iter().all(|known| known.name != *name), "{name} exists");
                let version = self.next_version();
                let made = stored(body, version);
                assert!(made.ports.iter().all(|port| !self.scheduler.contains(port)), "two hold one port");
                self.scheduler.extend(made.ports.iter().cloned());
                self.placeholders.push(made);
            }
            PortOrder::Mark { name, body } => {
                let version = self.next_version();
                let known = self.placeholder(name);
                assert_eq!(body["metadata"]["resourceVersion"], &*known.version);
                let condition =
                    json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-08-01T06:10:00Z"}]);
                assert_eq!(body["status"]["conditions"], condition);
                (known.marked, known.version) = (Marked::Yes, version);
            }
            PortOrder::Delete { name, precondition, .. } => {
                let known = self.placeholder(name).clone();
                assert_eq!((precondition.uid(), precondition.version()), (&known.uid, &known.version));
                self.placeholders.retain(|placeholder| placeholder.name != *name);
                // One that ended is none of its pods any more.
                if !known.phase.is_final() {
                    self.scheduler.retain(|port| !known.ports.contains(port));
                }
            }
            other => panic!("{other}"),
        }
    }

    fn placeholder(&mut self, name: &str) -> &mut Placeholder {
        self.placeholders.iter_mut().find(|placeholder| placeholder.name == name).unwrap()
    }

    /// Each order until there is none, in a word and its ports.
    fn settle(&mut self) -> Vec<String> {
        let mut orders = Vec::new();
        loop {
            let order = self.decide();
            let (word, ports) = match &order {
                PortOrder::Create { body, .. } => ("create", stored(body, ResourceVersion::default()).ports),
                PortOrder::Mark { name, .. } => ("mark", self.placeholder(name).ports.clone()),
                PortOrder::Delete { name, .. } => ("delete", self.placeholder(name).ports.clone()),
                PortOrder::Nothing(_) => return orders,
                other => panic!("{other}"),
            };
            self.carry(&order);
            let numbers: Vec<String> = ports.iter().map(|port| port.number.to_string()).collect();
            orders.push(format!("{word} {}", numbers.join(" ")));
            assert!(orders.len() < 100, "{orders:?}");
        }
    }

    fn all_ports(&self) -> BTreeSet<HostPort> {
        self.lender.iter().flat_map(BTreeMap::values).flatten().cloned().collect()
    }
}

/// A placeholder as the API server has it.
fn stored(body: &Value, version: ResourceVersion) -> Placeholder {
    let metadata = &body["metadata"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let port = |port: &Value| {
        let number = u16::try_from(port["hostPort"].as_u64().unwrap()).unwrap();
        HostPort::read(port["hostIP"].as_str().unwrap(), port["protocol"].as_str().unwrap(), number).unwrap()
    };
    let name = text(&metadata["name"]);
    Placeholder {
        uid: format!("of {name}").into(),
        name,
        version,
        labels: serde_json::from_value(metadata["labels"].clone()).unwrap(),
        owner: Some(text(&metadata["ownerReferences"][0]["uid"]).into()),
        existence: Existence::Alive,
        phase: Phase::Pending,
        marked: Marked::No,
        ports: body["spec"]["containers"][0]["ports"].as_array().unwrap().iter().map(port).collect(),
    }
}

#[test]
fn section_11_2_a_placeholder_holds_the_ports_of_one_pod_of_the_lender_on_its_virtual_node() {
    let mut world = World::new();
    let dns = HostPort::read("10.0.0.1", "UDP", 53).unwrap();
    world.lender.as_mut().unwrap().insert("dns", vec![tcp(8080), dns]);
    let PortOrder::Create { name, body } = world.decide() else { panic!("{}", world.decide()) };
    assert!(name.starts_with("vnode-east-w1-") && name.len() == 14 + 32, "{name}");
    let metadata = &body["metadata"];
    assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!(name), &json!("topoloom-host-ports")));
    let labels = json!({
        "topoloom.dev/virtual-cluster": "cluster-1", "topoloom.dev/binding": "east", "topoloom.dev/binding-uid": "binding-2",
        "topoloom.dev/managed-by": "topoloom", "topoloom.dev/hostport-fake-pod": "true",
    });
    assert_eq!(metadata["labels"], labels);
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "n-1"}]);
    assert_eq!(metadata["ownerReferences"], owner);
    let spec = &body["spec"];
    assert_eq!((&spec["nodeName"], &spec["priorityClassName"]), (&json!(NODE), &json!("system-node-critical")));
    assert_eq!(spec["tolerations"], json!([{"operator": "Exists"}]));
    assert_eq!(spec["terminationGracePeriodSeconds"], 0);
    let ports = json!([
        {"name": "port-0", "containerPort": 8080, "hostPort": 8080, "hostIP": "0.0.0.0", "protocol": "TCP"},
        {"name": "port-1", "containerPort": 53, "hostPort": 53, "hostIP": "10.0.0.1", "protocol": "UDP"},
    ]);
    assert_eq!(spec["containers"][0]["ports"], ports);
    assert_eq!(world.settle(), ["create 8080 53", "mark 8080 53"]);
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Same));
}

#[test]
fn section_11_2_another_pod_of_the_lender_has_another_placeholder_and_what_stays_is_not_touched() {
    let mut world = World::settled(&[("exporter", &[9100]), ("web", &[80, 443])]);
    assert_eq!(world.placeholders.len(), 2);
    let exporter = world.placeholders.iter().find(|it| it.ports == tcps(&[9100])).unwrap().clone();
    world.goes("web");
    world.comes("proxy", &[8443]);
    // The new one first: it has no port of the old one.
    assert_eq!(world.settle(), ["create 8443", "delete 80 443", "mark 8443"]);
    assert!(world.placeholders.contains(&exporter));
    assert_eq!(world.scheduler, world.all_ports());
}

#[test]
fn section_11_2_a_port_that_two_pods_hold_for_a_while_is_in_one_placeholder_and_is_never_lost() {
    let mut world = World::settled(&[("old", &[80, 81])]);
    // It takes over, and one of its ports is new.
    world.comes("new", &[80, 82]);
    assert_eq!(world.settle(), ["create 82", "mark 82"]);
    world.goes("old");
    // Made first, it would lose its port 80 as soon as the old one goes.
    assert_eq!(world.settle(), ["delete 80 81", "create 80", "mark 80"]);
    assert_eq!(world.scheduler, world.all_ports());
}

#[test]
fn a_port_that_is_read_has_an_address_a_protocol_and_a_number_or_is_none() {
    let read = |address: &str, protocol: &str, number: u16| {
        HostPort::read(address, protocol, number).map(|port| port.to_string())
    };
    assert_eq!(read("", "", 80).as_deref(), Some("0.0.0.0/TCP/80"));
    assert_eq!(read("::1", "UDP", 53).as_deref(), Some("::1/UDP/53"));
    // What no API server should hand out counts as every address, and not as none.
    for broken in ["10.0.0", "010.0.0.1", "fe80::1%eth0", "everywhere", &"9".repeat(1_000)] {
        assert_eq!(read(broken, "SCTP", 1).as_deref(), Some("0.0.0.0/SCTP/1"), "{broken}");
    }
    assert_eq!((read("", "", 0), read("", "tcp", 80), read("", "QUIC", 80)), (None, None, None));
    let mut words = Protocol::ALL.map(Protocol::word);
    words.sort_unstable();
    assert_eq!(words, Protocol::ALL.map(Protocol::word), "ports are sorted by their words");
}

#[test]
fn a_machine_with_more_ports_than_fit_into_pods_has_the_first_of_them_held() {
    let all: Vec<HostPort> = (1..=1_200).map(tcp).collect();
    let (first, rest) = all.split_at(900);
    assert_eq!((left_out(&[first, rest]), left_out(&[first])), (200, 0));
    let mut world = World::new();
    world.lender = Some([("first", first.to_vec()), ("rest", rest.to_vec())].into());
    assert_eq!(world.settle().len(), 4);
    assert_eq!(world.scheduler.len(), MOST);
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Same));
}

#[test]
fn section_11_2_all_placeholders_go_where_none_is_wanted_and_nothing_follows_where_that_is_not_known() {
    let deletes = |world: &World, why| matches!(world.decide(), PortOrder::Delete { why: said, .. } if said == why);
    let mut world = World::settled(&[("web", &[80])]);
    world.mirroring = Mirroring::Off;
    assert!(deletes(&world, WhyGone::Off));
    assert_eq!(world.settle(), ["delete 80"]);
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Absent));

    let mut world = World::settled(&[("web", &[80])]);
    world.node.as_mut().unwrap().2 = Stay::Leaves;
    assert!(deletes(&world, WhyGone::NodeLeaves));
    // It leaves although nothing is known of the machine any more.
    world.lender = None;
    assert!(deletes(&world, WhyGone::NodeLeaves));
    world.node.as_mut().unwrap().2 = Stay::Lent;
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Unlisted));

    // No cache proves that a node is gone.
    world.node = None;
    assert_eq!(world.decide(), PortOrder::AskNode);
    world.live = Presence::Found;
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::CacheBehind));
    world.live = Presence::Gone;
    assert!(deletes(&world, WhyGone::NodeGone));
}

#[test]
fn section_11_2_a_placeholder_of_another_node_of_that_name_and_one_that_ended_are_made_again() {
    let mut world = World::settled(&[("web", &[80])]);
    world.node.as_mut().unwrap().0 = "n-2".into();
    assert_eq!(world.settle(), ["delete 80", "create 80", "mark 80"]);
    assert_eq!(world.placeholders[0].owner.as_deref(), Some("n-2"));

    // kube-scheduler does not count a pod that ended.
    let ended = &mut world.placeholders[0];
    ended.phase = Phase::Failed;
    world.scheduler.clear();
    assert_eq!(world.settle(), ["delete 80", "create 80", "mark 80"]);
    assert_eq!(world.scheduler, world.all_ports());

    // What a finalizer keeps takes its port along when it goes, so it is waited for.
    world.placeholders[0].existence = Existence::Terminating;
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Terminating));
    world.comes("more", &[81]);
    assert!(matches!(world.decide(), PortOrder::Create { .. }), "{}", world.decide());
}

#[test]
fn section_11_2_no_taint_of_a_node_evicts_a_placeholder_and_one_that_is_deleted_is_made_again() {
    let mut world = World::new();
    world.comes("web", &[80]);
    let PortOrder::Create { body, .. } = world.decide() else { panic!("{}", world.decide()) };
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    let toleration = |written: &Value| Toleration {
        key: text(written, "key"),
        operator: Operator::from(text(written, "operator").as_str()),
        value: text(written, "value"),
        effect: written["effect"].as_str().map(Effect::from),
        seconds: written["tolerationSeconds"].as_i64(),
    };
    let tolerations: Vec<Toleration> = body["spec"]["tolerations"].as_array().unwrap().iter().map(toleration).collect();
    // Those of node-lifecycle where a machine is dead, one that a lender gives to a machine and that is copied, and ours.
    for (key, value) in [
        ("node.kubernetes.io/unreachable", ""),
        ("node.kubernetes.io/not-ready", ""),
        ("node.kubernetes.io/out-of-service", "nodeshutdown"),
        ("maintenance", "now"),
        (keys::OUT_OF_WINDOWS_TAINT, "true"),
    ] {
        let taint = Taint::new(key, value, Effect::NoExecute);
        assert_eq!(tolerates(&tolerations, &taint), Tolerated::Forever, "{taint}");
    }
    // A person, or a controller that asks for no toleration.
    world.settle();
    world.placeholders.clear();
    world.scheduler.clear();
    assert_eq!(world.settle(), ["create 80", "mark 80"]);
}

#[test]
fn s6_a_placeholder_of_others_is_never_touched_and_that_of_an_earlier_binding_is_replaced_once_that_is_gone() {
    let mut world = World::settled(&[("web", &[80])]);
    let relabel = |world: &mut World, key: &str, value: &str| {
        world.placeholders[0].labels.insert(key.to_owned(), value.to_owned());
    };
    relabel(&mut world, keys::BINDING_UID, "binding-1");
    assert_eq!(world.decide(), PortOrder::AskBinding("binding-1".into()));
    world.bindings = Some(["binding-2".into(), "binding-1".into()].into());
    // Another binding that stands has the node, too, or the labels were written by hand: both hold the port.
    let Placeholder { name, uid, .. } = world.placeholders[0].clone();
    let why = WhyForeign::BindingStands("binding-1".into());
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Foreign { name, uid, why }), "it has the very name");
    world.bindings = Some(["binding-2".into()].into());
    assert_eq!(world.settle(), ["delete 80", "create 80", "mark 80"]);

    relabel(&mut world, keys::VIRTUAL_CLUSTER, "another");
    for mirroring in [Mirroring::On, Mirroring::Off] {
        world.mirroring = mirroring;
        assert!(matches!(world.decide(), PortOrder::Nothing(_)), "{}", world.decide());
    }
    // Nor is a virtual node that is not ours, or of another machine.
    let mut world = World::settled(&[("web", &[80])]);
    world.comes("more", &[81]);
    let labels = &mut world.node.as_mut().unwrap().1;
    labels.insert(keys::PHYSICAL_NODE_NAME.to_owned(), "w2".to_owned());
    assert!(matches!(world.decide(), PortOrder::Nothing(WhyNothing::OtherNode(_))), "{}", world.decide());
    world.node.as_mut().unwrap().1.remove(keys::VIRTUAL_CLUSTER);
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::ForeignNode));
}

#[test]
fn s5_s9_s23_s27_nothing_is_written_while_a_state_of_the_binding_or_the_guard_forbids_it() {
    let mut create = World::new();
    create.comes("web", &[80]);
    let mut mark = World::new();
    mark.comes("web", &[80]);
    let made = mark.decide();
    mark.carry(&made);
    let mut stale = World::settled(&[("web", &[80])]);
    stale.goes("web");
    let mut gone = World::settled(&[("web", &[80])]);
    gone.node = None;
    for world in [&mut create, &mut mark, &mut stale, &mut gone] {
        for bar in Bar::ALL {
            world.bars = [bar].into_iter().collect();
            assert_eq!(world.decide(), PortOrder::Withheld(Hindrance::Bar(bar)));
        }
        world.bars = Bars::default();
        world.guard = Guarding::Holds;
        assert_eq!(world.decide(), PortOrder::Withheld(Hindrance::Guard));
        world.guard = Guarding::Free;
        assert!(!matches!(world.decide(), PortOrder::Withheld(_) | PortOrder::Nothing(_)), "{}", world.decide());
    }
}

#[test]
fn without_uid_or_version_no_request_is_made() {
    let mut world = World::settled(&[("web", &[80])]);
    world.placeholders[0].version = ResourceVersion::default();
    world.goes("web");
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Unguarded));
    world.comes("web", &[80]);
    world.placeholders[0].marked = Marked::No;
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Unguarded));
    world.node.as_mut().unwrap().0 = "".into();
    assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Unguarded));
}

const PODS: [&str; 4] = ["a", "b", "c", "d"];

proptest! {
    /// The ports of a pod are its own, as on a machine: what is held before and after an event is held at each moment between.
    #[test]
    fn section_11_2_no_port_is_ever_free_that_a_pod_holds_and_no_port_is_held_that_none_does(
        steps in prop::collection::vec((0..4_usize, any::<bool>()), 0..30)
    ) {
        let mut world = World::new();
        for (pod, is_there) in steps {
            let first = u16::try_from(pod * 10 + 1).unwrap();
            let ports: Vec<u16> = (first..=first + u16::try_from(pod).unwrap()).collect();
            let before = world.scheduler.clone();
            if is_there { world.comes(PODS[pod], &ports) } else { world.goes(PODS[pod]) }
            let stay: BTreeSet<HostPort> = before.intersection(&world.all_ports()).cloned().collect();
            let mut writes = 0;
            loop {
                let order = world.decide();
                if matches!(order, PortOrder::Nothing(_)) { break }
                world.carry(&order);
                writes += 1;
                prop_assert!(stay.is_subset(&world.scheduler));
                prop_assert!(writes <= 2, "one pod came or went");
            }
            prop_assert_eq!(&world.scheduler, &world.all_ports());
            prop_assert_eq!(world.decide(), PortOrder::Nothing(WhyNothing::Same));
        }
    }

    /// Whatever pods hold and whatever placeholders are there: it comes to rest, and the scheduler knows each port that is held.
    #[test]
    fn section_11_2_every_history_comes_to_rest_with_the_ports_that_are_held(
        steps in prop::collection::vec((0..4_usize, prop::option::of(prop::collection::btree_set(1..8_u16, 0..5))), 0..30)
    ) {
        let mut world = World::new();
        for (pod, ports) in steps {
            match ports {
                Some(ports) => world.comes(PODS[pod], &ports.into_iter().collect::<Vec<_>>()),
                None => world.goes(PODS[pod]),
            }
            world.settle();
            prop_assert_eq!(&world.scheduler, &world.all_ports());
            let held: usize = world.placeholders.iter().map(|placeholder| placeholder.ports.len()).sum();
            prop_assert_eq!(held, world.scheduler.len(), "each port is in one placeholder");
        }
    }
}
