//! Every right that the host needs at an API server, once, with its reason.
//!
//! The chart renders these as rules, `topoloom preflight` asks for each of them, and a test compares both. Pure: from a
//! [`RightsSettings`] to a list, no client. A host that lends nodes talks to two clusters, so every right is of a side; what
//! lending needs at both is in [`lending`].

pub mod lending;

use std::fmt;

use topoloom_core::controllers::{EXTENDER, HYPER_NODE, NODELOCK_SWEEPER, Selection};

use super::election::LeaseGroup;
use super::options::Kept;
use crate::cluster::Side;
use crate::config::References;
use crate::nodelock::sweeper::SweepMode;

/// Where Events about objects of the whole cluster live.
const EVENTS_NAMESPACE: &str = "default";

/// What is needed for more than one controller of the node lock.
const NODE_LOCK: &str = "node lock";

/// One rule that the host needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    /// In which of the two clusters of lending; all others are of the one that the host runs in, the virtual one.
    pub side: Side,
    /// Where it has to hold.
    pub place: RightScope,
    /// The API group; empty for the core one.
    pub group: &'static str,
    /// The plural, with the subresource behind a slash.
    pub resource: &'static str,
    /// The objects; empty means all of them.
    pub names: Vec<String>,
    /// What is done to them.
    pub verbs: Vec<&'static str>,
    /// What it is for.
    pub why: &'static str,
    /// Which part of the host needs it.
    pub part: &'static str,
    /// What that part does without it.
    pub need: Need,
}

/// Where a right has to hold.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RightScope {
    /// In the whole cluster: a ClusterRole.
    Cluster,
    /// In one namespace: a Role there.
    Namespace(String),
}

/// What the host does without a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The part that needs it does not work.
    Required,
    /// It works, and something beside it is missing.
    Useful,
}

/// How much is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    #[default]
    Everything,
    /// No HyperNodes (`--observe`).
    NoHyperNodes,
    /// Nothing but leases (`--read-only`).
    LeasesOnly,
}

/// The settings of the controllers of the node lock. A controller without settings waits, and needs nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LockSettings {
    /// What the sweeper does; nothing: it waits.
    pub sweep: Option<SweepMode>,
    /// Whether the extender is served.
    pub extender: bool,
}

impl LockSettings {
    /// Where the extender is served: the sweeper repairs unless it is set to something else.
    #[must_use]
    pub fn with_extender(sweep: Option<SweepMode>) -> Self {
        Self { sweep: sweep.or(Some(SweepMode::Repair)), extender: true }
    }

    /// Where it is not: the sweeper waits unless it is set to something.
    #[must_use]
    pub fn without_extender(sweep: Option<SweepMode>) -> Self {
        Self { sweep, extender: false }
    }
}

/// What the rights depend on.
#[derive(Debug, Clone)]
pub struct RightsSettings {
    /// Our own namespace.
    pub own: String,
    /// Namespace and name of the ConfigMap of the configuration.
    pub config: (String, String),
    /// Which controllers run.
    pub controllers: Selection,
    /// Namespace of the leases, and the name of the first; nothing without an election.
    pub leases: Option<(String, String)>,
    /// How much is written.
    pub extent: Extent,
    /// Whether modules are kept.
    pub kept: Kept,
    /// Leases of Volcano's controllers that are looked at.
    pub rivals: Vec<String>,
    /// What entries refer to.
    pub references: References,
    /// What is done about the node lock.
    pub locks: LockSettings,
}

impl RightsSettings {
    /// The groups of controllers that run.
    #[must_use]
    pub fn groups(&self) -> Vec<LeaseGroup> {
        let named = [(HYPER_NODE, LeaseGroup::HyperNode), (NODELOCK_SWEEPER, LeaseGroup::NodeLock)];
        named.into_iter().filter(|(name, _)| self.controllers.enables(name)).map(|(_, group)| group).collect()
    }

    /// Everything that the host needs.
    #[must_use]
    pub fn rights(&self) -> Vec<Right> {
        let mut rights = Vec::new();
        self.leases(&mut rights);
        self.events(&mut rights);
        if self.controllers.enables(HYPER_NODE) {
            self.hyper_nodes(&mut rights);
            self.discovery_sources(&mut rights);
            self.config_maps(&mut rights);
            self.references(&mut rights);
        } else if self.has_locks() {
            self.switch(&mut rights);
        }
        if let Some(mode) = self.sweeps() {
            self.node_locks(NODELOCK_SWEEPER, mode, &mut rights);
        }
        if self.extends() {
            self.node_locks(EXTENDER, SweepMode::Repair, &mut rights);
            if self.extent != Extent::LeasesOnly {
                let bind = cluster("", "pods/binding", &["create"], "what kube-scheduler asks the extender for");
                rights.push(Right { part: EXTENDER, ..bind });
            }
        }
        rights
    }

    /// What the sweeper does, where it runs.
    fn sweeps(&self) -> Option<SweepMode> {
        self.locks.sweep.filter(|_| self.controllers.enables(NODELOCK_SWEEPER))
    }

    /// Whether the extender runs.
    fn extends(&self) -> bool {
        self.locks.extender && self.controllers.enables(EXTENDER)
    }

    /// Whether a controller of the node lock runs.
    fn has_locks(&self) -> bool {
        self.sweeps().is_some() || self.extends()
    }

    fn leases(&self, rights: &mut Vec<Right>) {
        let Some((namespace, name)) = &self.leases else { return };
        let groups = self.groups();
        if groups.is_empty() {
            return;
        }
        let place = RightScope::Namespace(namespace.clone());
        let needed = |need, names, verbs: &[&'static str], why| Right {
            side: Side::Virtual,
            place: place.clone(),
            group: "coordination.k8s.io",
            resource: "leases",
            names,
            verbs: verbs.to_vec(),
            why,
            part: "leader election",
            need,
        };
        rights.push(needed(Need::Required, Vec::new(), &["create"], "the first replica makes the lease"));
        for group in groups {
            let (need, why) = match group {
                LeaseGroup::HyperNode => (Need::Required, "which replica leads, and so writes HyperNodes"),
                LeaseGroup::NodeLock if self.sweeps().is_some() => {
                    (Need::Required, "which replica leads the sweeper of node locks")
                }
                LeaseGroup::NodeLock => (Need::Useful, "which replica leads the sweeper of node locks, once it runs"),
            };
            rights.push(needed(need, vec![group.lease(name)], &["get", "list", "watch", "update"], why));
        }
    }

    fn events(&self, rights: &mut Vec<Right>) {
        if self.extent == Extent::LeasesOnly {
            return;
        }
        let places = if self.has_locks() {
            // Those about Pods live where the Pods do.
            vec![RightScope::Cluster]
        } else {
            let leases = self.leases.iter().map(|(namespace, _)| namespace.as_str());
            let leases = leases.filter(|namespace| *namespace != EVENTS_NAMESPACE);
            let namespaces = std::iter::once(EVENTS_NAMESPACE).chain(leases);
            namespaces.map(|namespace| RightScope::Namespace(namespace.to_owned())).collect()
        };
        for place in places {
            rights.push(Right {
                side: Side::Virtual,
                place,
                group: "events.k8s.io",
                resource: "events",
                names: Vec::new(),
                verbs: vec!["create", "patch"],
                why: "without it everything works, but no Events are sent",
                part: "all controllers",
                need: Need::Useful,
            });
        }
    }

    fn hyper_nodes(&self, rights: &mut Vec<Right>) {
        let topology = "topology.volcano.sh";
        rights.push(cluster("", "nodes", &["list", "watch"], "what is discovered from; names, labels and annotations"));
        if self.extent == Extent::Everything {
            let verbs = ["list", "watch", "get", "create", "patch", "delete"];
            rights.push(cluster(topology, "hypernodes", &verbs, "the topology itself"));
            rights.push(cluster(
                topology,
                "hypernodes/status",
                &["patch"],
                "nodeCount and the condition MissingMembers",
            ));
        } else {
            rights.push(cluster(
                topology,
                "hypernodes",
                &["list", "watch", "get"],
                "the topology itself; it is only read",
            ));
        }
        if !self.rivals.is_empty() {
            rights.push(Right {
                names: self.rivals.clone(),
                need: Need::Useful,
                ..cluster(
                    "coordination.k8s.io",
                    "leases",
                    &["list", "watch"],
                    "whether a controller of Volcano's writes HyperNodes too",
                )
            });
        }
    }

    fn discovery_sources(&self, rights: &mut Vec<Right>) {
        let (ours, why) = ("topoloom.dev", "the status of each source, and the verbs of operators on it");
        if self.extent == Extent::LeasesOnly {
            rights.push(cluster(ours, "discoverysources", &["list", "watch", "get"], why));
        } else {
            rights.push(cluster(ours, "discoverysources", &["list", "watch", "get", "create", "patch"], why));
            rights.push(cluster(ours, "discoverysources/status", &["patch"], why));
        }
    }

    fn config_maps(&self, rights: &mut Vec<Right>) {
        let (namespace, name) = &self.config;
        let config = |verbs: &[&'static str], why| Right {
            names: vec![name.clone()],
            ..within(namespace, "configmaps", verbs, why)
        };
        rights.push(config(&["list", "watch"], "the configuration"));
        let get = config(&["get"], "the command line inside the pod reads the configuration: plan, tree, preflight");
        rights.push(Right { need: Need::Useful, ..get });
        if self.kept == Kept::InConfigMaps && self.extent != Extent::LeasesOnly {
            let why = "plugins that served, stored for a rollback after a restart";
            rights.push(Right {
                need: Need::Useful,
                ..within(&self.own, "configmaps", &["create", "get", "delete"], why)
            });
        }
    }

    /// Where no controller reads the configuration, its ConfigMap still says whether anything is written at all.
    fn switch(&self, rights: &mut Vec<Right>) {
        let (namespace, name) = &self.config;
        let config = |verbs: &[&'static str], why, need| Right {
            names: vec![name.clone()],
            part: NODE_LOCK,
            need,
            ..within(namespace, "configmaps", verbs, why)
        };
        rights.push(config(&["list", "watch"], "whether writes are switched off", Need::Required));
        let why = "the command line inside the pod reads whether writes are switched off: preflight, status";
        rights.push(config(&["get"], why, Need::Useful));
    }

    /// What a controller needs that keeps locks of nodes, or only reports them.
    fn node_locks(&self, part: &'static str, mode: SweepMode, rights: &mut Vec<Right>) {
        let mut needs = |resource, verbs: &[&'static str], why| {
            rights.push(Right { part, ..cluster("", resource, verbs, why) });
        };
        let reads = ["list", "watch", "get"];
        needs("nodes", &reads, "the locks, which are annotations; read live before a lock is taken over");
        needs("pods", &reads, "which pod holds a lock, and whether it may still get its devices");
        if mode == SweepMode::Repair && self.extent != Extent::LeasesOnly {
            needs("nodes", &["patch"], "locks are taken and released");
            needs("pods", &["patch"], "the mark of a pod that loses its lock, so that it is not bound under it");
        }
    }

    fn references(&self, rights: &mut Vec<Right>) {
        let noticed = "a change is noticed at once, not only by the next round";
        let mut named = |objects: &[(String, String)], resource, verbs: &[&'static str], why, need| {
            rights.extend(objects.iter().map(|(namespace, name)| Right {
                names: vec![name.clone()],
                need,
                ..within(namespace, resource, verbs, why)
            }));
        };
        let References { secrets, config_maps, plugins, pull_secrets } = &self.references;
        named(plugins, "configmaps", &["list", "watch"], "the plugin of an entry", Need::Required);
        named(config_maps, "configmaps", &["get"], "a document or authorities that an entry names", Need::Required);
        named(config_maps, "configmaps", &["list", "watch"], noticed, Need::Useful);
        named(secrets, "secrets", &["get"], "a credential or authorities that an entry names", Need::Required);
        named(secrets, "secrets", &["list", "watch"], noticed, Need::Useful);
        named(pull_secrets, "secrets", &["get"], "the credentials of the registry of a plugin", Need::Required);
    }
}

fn cluster(group: &'static str, resource: &'static str, verbs: &[&'static str], why: &'static str) -> Right {
    Right {
        side: Side::Virtual,
        place: RightScope::Cluster,
        group,
        resource,
        names: Vec::new(),
        verbs: verbs.to_vec(),
        why,
        part: HYPER_NODE,
        need: Need::Required,
    }
}

fn within(namespace: &str, resource: &'static str, verbs: &[&'static str], why: &'static str) -> Right {
    Right { place: RightScope::Namespace(namespace.to_owned()), ..cluster("", resource, verbs, why) }
}

/// One question to the API server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Question {
    /// In which cluster.
    pub side: Side,
    /// Where.
    pub place: RightScope,
    /// The API group.
    pub group: &'static str,
    /// The plural without subresource.
    pub resource: &'static str,
    /// The subresource, if it is about one.
    pub subresource: Option<&'static str>,
    /// What is done.
    pub verb: &'static str,
    /// To which object; nothing: to any.
    pub name: Option<String>,
}

impl Right {
    /// What has to be asked to know whether it is there.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        let (resource, subresource) = match self.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (self.resource, None),
        };
        let names: Vec<Option<String>> =
            if self.names.is_empty() { vec![None] } else { self.names.iter().cloned().map(Some).collect() };
        let every = names.iter().flat_map(|name| self.verbs.iter().map(move |verb| (name, *verb)));
        let question = |(name, verb): (&Option<String>, _)| Question {
            side: self.side,
            place: self.place.clone(),
            group: self.group,
            resource,
            subresource,
            verb,
            name: name.clone(),
        };
        every.map(question).collect()
    }
}

impl fmt::Display for Right {
    /// The rule as it is written into a role, and the cluster where that is not the one that the host runs in.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            RightScope::Cluster => f.write_str("ClusterRole: ")?,
            RightScope::Namespace(namespace) => write!(f, "Role in namespace {namespace}: ")?,
        }
        write!(f, "{{apiGroups: [\"{}\"], resources: [\"{}\"], ", self.group, self.resource)?;
        if !self.names.is_empty() {
            write!(f, "resourceNames: {:?}, ", self.names)?;
        }
        write!(f, "verbs: {:?}}}", self.verbs)?;
        match self.side {
            Side::Virtual => Ok(()),
            Side::Physical => write!(f, " in {}", self.side),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> RightsSettings {
        RightsSettings {
            own: "own".into(),
            config: ("conf".into(), "map".into()),
            controllers: Selection::all(),
            leases: Some(("own".into(), "l".into())),
            extent: Extent::Everything,
            kept: Kept::InConfigMaps,
            rivals: vec!["theirs".into()],
            references: References { secrets: vec![("conf".into(), "ufm".into())], ..References::default() },
            locks: LockSettings::default(),
        }
    }

    /// The same with these controllers alone.
    fn only(list: &[&str], locks: LockSettings) -> RightsSettings {
        let controllers = Selection::parse(list.iter().copied(), &topoloom_core::controllers::OURS).unwrap().selection;
        RightsSettings { controllers, locks, ..setting() }
    }

    fn printed(setting: &RightsSettings) -> Vec<String> {
        setting.rights().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_right_is_printed_as_the_rule_that_gives_it() {
        let rules = printed(&setting());
        for rule in [
            r#"ClusterRole: {apiGroups: [""], resources: ["nodes"], verbs: ["list", "watch"]}"#,
            r#"ClusterRole: {apiGroups: ["topology.volcano.sh"], resources: ["hypernodes/status"], verbs: ["patch"]}"#,
            r#"Role in namespace own: {apiGroups: ["coordination.k8s.io"], resources: ["leases"], resourceNames: ["l"], verbs: ["get", "list", "watch", "update"]}"#,
            r#"Role in namespace conf: {apiGroups: [""], resources: ["secrets"], resourceNames: ["ufm"], verbs: ["get"]}"#,
        ] {
            assert!(rules.iter().any(|printed| printed == rule), "{rule} is not in {rules:#?}");
        }
    }

    #[test]
    fn who_writes_less_needs_less() {
        let writes = |extent| {
            let setting = RightsSettings { extent, ..setting() };
            let rights = setting.rights();
            let writes = ["create", "patch", "update", "delete"];
            let written = rights.iter().filter(|right| right.verbs.iter().any(|verb| writes.contains(verb)));
            let mut written: Vec<&str> = written.map(|right| right.resource).collect();
            written.sort_unstable();
            written.dedup();
            written
        };
        let sources = ["discoverysources", "discoverysources/status", "events"];
        let all = [&["configmaps"][..], &sources[..], &["hypernodes", "hypernodes/status", "leases"]].concat();
        assert_eq!(writes(Extent::Everything), all);
        assert_eq!(writes(Extent::NoHyperNodes), [&["configmaps"][..], &sources[..], &["leases"]].concat());
        assert_eq!(writes(Extent::LeasesOnly), ["leases"]);
    }

    #[test]
    fn controllers_that_do_not_run_need_nothing() {
        let waits = LockSettings::default();
        let sweeper = only(&["nodelock-sweeper"], waits);
        let resources: Vec<_> = sweeper.rights().iter().map(|right| (right.resource, right.names.clone())).collect();
        assert!(resources.contains(&("leases", vec!["l-nodelock".to_owned()])), "{resources:?}");
        assert!(resources.iter().all(|(resource, _)| ["leases", "events"].contains(resource)), "{resources:?}");
        let extender = only(&["extender"], waits);
        assert_eq!(printed(&RightsSettings { leases: None, extent: Extent::LeasesOnly, ..extender }), [""; 0]);
        // What is configured and does not run needs nothing either.
        let served = only(&["hyperNode-controller"], LockSettings::with_extender(None));
        assert_eq!(printed(&served), printed(&only(&["hyperNode-controller"], waits)));
    }

    #[test]
    fn n9_where_the_extender_is_served_the_sweeper_repairs_unless_it_is_set_to_something_else() {
        let settled = |sweep, extender: bool| match extender {
            true => LockSettings::with_extender(sweep).sweep,
            false => LockSettings::without_extender(sweep).sweep,
        };
        assert_eq!(settled(None, false), None);
        assert_eq!(settled(None, true), Some(SweepMode::Repair));
        assert_eq!(settled(Some(SweepMode::Report), true), Some(SweepMode::Report));
        assert_eq!(settled(Some(SweepMode::Report), false), Some(SweepMode::Report));
    }

    /// Verb and resource of every write among the rights.
    fn writes(setting: &RightsSettings) -> Vec<String> {
        let rights = setting.rights();
        let of = |right: &Right| -> Vec<String> {
            let verbs = right.verbs.iter().filter(|verb| !["get", "list", "watch"].contains(verb));
            verbs.map(|verb| format!("{verb} {}", right.resource)).collect()
        };
        let mut all: Vec<String> = rights.iter().flat_map(of).filter(|write| !write.ends_with("leases")).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    #[test]
    fn a_sweeper_that_reports_writes_events_and_one_that_repairs_marks_nodes_and_pods() {
        let sweeper = |mode| only(&["nodelock-sweeper"], LockSettings::without_extender(Some(mode)));
        let events = ["create events", "patch events"];
        assert_eq!(writes(&sweeper(SweepMode::Report)), events);
        let repairs = [&events[..], &["patch nodes", "patch pods"]].concat();
        assert_eq!(writes(&sweeper(SweepMode::Repair)), repairs);
        assert_eq!(writes(&RightsSettings { extent: Extent::LeasesOnly, ..sweeper(SweepMode::Repair) }), [""; 0]);
        // A trial is about HyperNodes.
        assert_eq!(writes(&RightsSettings { extent: Extent::NoHyperNodes, ..sweeper(SweepMode::Repair) }), repairs);
        let lease = sweeper(SweepMode::Report).rights().into_iter().find(|right| right.names == ["l-nodelock"]);
        assert_eq!(lease.unwrap().need, Need::Required);
    }

    #[test]
    fn only_the_extender_binds() {
        let binds = |setting: &RightsSettings| writes(setting).contains(&"create pods/binding".to_owned());
        let locks = LockSettings::with_extender(None);
        assert!(binds(&only(&["extender"], locks)) && binds(&only(&["*"], locks)));
        assert!(!binds(&only(&["nodelock-sweeper"], locks)) && !binds(&setting()));
        let extender = RightsSettings { extent: Extent::LeasesOnly, ..only(&["extender"], locks) };
        assert_eq!(writes(&extender), [""; 0]);
        // Even then it answers from what it watches.
        let rights = extender.rights();
        let watched = rights.iter().filter(|right| right.verbs.contains(&"watch")).map(|right| right.resource);
        assert_eq!(watched.collect::<Vec<_>>(), ["configmaps", "nodes", "pods"]);
    }

    #[test]
    fn events_about_pods_go_wherever_pods_are() {
        let places = |setting: &RightsSettings| -> Vec<RightScope> {
            setting.rights().into_iter().filter(|right| right.resource == "events").map(|right| right.place).collect()
        };
        let within = |name: &str| RightScope::Namespace(name.to_owned());
        assert_eq!(places(&setting()), [within("default"), within("own")]);
        assert_eq!(places(&only(&["*"], LockSettings::with_extender(None))), [RightScope::Cluster]);
        assert_eq!(
            places(&only(&["nodelock-sweeper"], LockSettings::without_extender(Some(SweepMode::Report)))),
            [RightScope::Cluster]
        );
    }

    #[test]
    fn the_switch_of_all_writes_is_watched_where_no_controller_reads_the_configuration() {
        let verbs = |setting: &RightsSettings| -> Vec<&'static str> {
            let rights = setting.rights();
            rights.iter().filter(|right| right.names == ["map"]).flat_map(|right| right.verbs.clone()).collect()
        };
        let locks = LockSettings::with_extender(None);
        assert_eq!(verbs(&only(&["extender"], locks)), ["list", "watch", "get"]);
        assert_eq!(verbs(&only(&["*"], locks)), verbs(&setting()));
        assert_eq!(verbs(&only(&["extender"], LockSettings::default())), [""; 0]);
    }

    #[test]
    fn a_right_is_asked_for_verb_by_verb_and_name_by_name() {
        let right = Right {
            names: vec!["a".into(), "b".into()],
            ..cluster("x.io", "things/status", &["get", "patch"], "a test")
        };
        let asked: Vec<_> =
            right.questions().into_iter().map(|it| (it.resource, it.subresource, it.verb, it.name)).collect();
        let of = |verb, name: &str| ("things", Some("status"), verb, Some(name.to_owned()));
        assert_eq!(asked, [of("get", "a"), of("patch", "a"), of("get", "b"), of("patch", "b")]);
    }
}
