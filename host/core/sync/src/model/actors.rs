//! All who act without being processes of the syncer: the lender and another borrower in the physical cluster; users, the
//! scheduler and the top-down half in the virtual one; and the kubelets that run its pods.

use super::objects::{Pod, StoredPolicy, annotation, is_ours, labels_of, look_alike, ready_of, taints_of, with_ready};
use super::pods::{copy_key, mount, twin_key, twin_name};
use super::server::is_terminating;
use super::*;
use crate::naming::{physical_pod_name, virtual_node_name};
use crate::node::scene::machine;
use crate::pods::finish::PHYSICAL_POD_LOST;
use crate::policy::announced::{Announced, Announcement};
use crate::policy::examples;
use crate::policy::spec::LimitSpec;

/// The annotations by which a virtual pod names its physical one.
const MAPPING: [&str; 3] = [keys::PHYSICAL_POD_NAMESPACE, keys::PHYSICAL_POD_NAME, keys::PHYSICAL_POD_UID];

/// What the lender does, and another borrower.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lender {
    /// A machine goes to another pool.
    Relabel(usize, Pool),
    /// A machine is cordoned, or is no more.
    Cordon(usize),
    /// A pod of the lender comes to a machine, or goes.
    Foreign(usize),
    /// What the physical cluster says of a kubelet.
    Ready(usize, &'static str),
    /// A machine is taken out of the physical cluster.
    Remove(usize),
    /// A machine comes into it, or another one under that name.
    Make(usize),
    /// The policy is edited.
    Edit(Edit),
    /// The other borrower claims a machine that is free, or gives it back.
    Claim(usize),
}

/// What happens in the virtual cluster, and to its pods.
#[derive(Debug, Clone, Copy)]
pub(super) enum Borrower {
    /// A virtual node is made by hand that looks like ours.
    LookAlike(usize),
    /// The scheduler binds a new pod.
    Schedule(usize),
    /// The top-down half makes its next step for a pod.
    TopDown(usize),
    /// A kubelet takes the next step with the physical pod of a slot.
    Kubelet(usize),
    /// That pod ends well.
    Succeed(usize),
    /// A user deletes a pod.
    Delete(usize, Deletion),
    /// A user takes the mapping off a pod.
    Strip(usize),
    /// A user labels a virtual node.
    Label(usize),
    /// A user taints a virtual node.
    Taint(usize),
    /// A user takes the taint of closed windows off a virtual node.
    Untaint(usize),
    /// A user sets that taint again, without its time.
    Timeless(usize),
    /// A user edits what is ours on a virtual node.
    Spoil(usize, Spoilt),
    /// A user deletes a virtual node.
    Drop(usize),
}

/// Where a machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pool {
    /// Both bindings select it.
    Gpu,
    /// The one binding does.
    Cpu,
    /// None does.
    None,
}

/// What the lender makes of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    /// It lends one core.
    Small,
    /// It lends three.
    Large,
    /// Its windows close.
    Closing,
    /// They do, and its status has not said so before.
    Sudden,
    /// A percent of 101.
    Broken,
    /// It is deleted.
    Removed,
}

/// What a user edits on a virtual node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoilt {
    /// What it says of its machine.
    Facts,
    /// This label of identity is taken off.
    Missing(&'static str),
    /// It is empty.
    Empty(&'static str),
}

/// How a user deletes a virtual pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletion {
    Graceful,
    Forced,
}

impl Pool {
    fn label(self) -> Value {
        match self {
            Self::Gpu => "gpu".into(),
            Self::Cpu => "cpu".into(),
            Self::None => Value::Null,
        }
    }
}

/// The virtual node of a machine, for a binding.
pub(super) fn lent_name(binding: usize, node: usize) -> NodeName {
    let cluster = crate::naming::ClusterId::parse(NAMES[binding]).unwrap();
    virtual_node_name(&cluster, &machine_name(node)).unwrap()
}

/// What the pods of a lender are called.
fn foreign_key(node: usize) -> (String, String) {
    ("kube-system".to_owned(), format!("f{node}"))
}

impl World {
    pub(super) fn identity(&self, binding: usize) -> &Identity {
        let at = if binding == WEST { WESTERN } else { 0 };
        &self.processes[at].setting.identity
    }

    /// The binding that a physical pod is of.
    pub(super) fn binding_by(&self, labels: &objects::Keys) -> Option<usize> {
        (0..BINDINGS).find(|binding| is_ours(labels, self.identity(*binding)))
    }

    /// The binding that a virtual node names.
    pub(super) fn binding_of_node(&self, node: &Value) -> Option<usize> {
        let labels = labels_of(node);
        (0..BINDINGS).find(|binding| names_binding(&labels, self.identity(*binding)))
    }

    pub(super) fn lender(&mut self, does: Lender) {
        match does {
            Lender::Relabel(node, pool) => {
                self.edit_machine(node, &json!({"metadata": {"labels": {"pool": pool.label()}}}));
            }
            Lender::Cordon(node) => {
                let name = machine_name(node);
                let Some(node) = self.server(Side::Physical).node(&name) else { return };
                let is_cordoned = taints_of(node, keys::UNSCHEDULABLE_TAINT).next().is_some();
                let taint = json!([{"key": keys::UNSCHEDULABLE_TAINT, "effect": "NoSchedule"}]);
                let taints = if is_cordoned { json!([]) } else { taint };
                self.server_mut(Side::Physical).edit_node(&name, &json!({"spec": {"taints": taints}}));
            }
            Lender::Foreign(node) => self.foreign(node),
            Lender::Ready(node, status) => {
                let name = machine_name(node);
                let Some(node) = self.server(Side::Physical).node(&name) else { return };
                let patch = with_ready(node, status, "Kubelet");
                self.server_mut(Side::Physical).edit_node(&name, &patch);
            }
            Lender::Remove(node) => {
                let (name, wall) = (machine_name(node), self.wall());
                let uid = self.server(Side::Physical).node(&name).map(|node| node["metadata"]["uid"].clone());
                if let Some(uid) = uid.as_ref().and_then(Value::as_str) {
                    let _ = self.server_mut(Side::Physical).delete_node(&name, uid, None, wall);
                }
            }
            Lender::Make(node) => {
                let name = machine_name(node);
                if self.server(Side::Physical).node(&name).is_none() {
                    let uid = self.uid("m");
                    let _ = self.server_mut(Side::Physical).create_node(&name, &uid, &machine(&name, &uid));
                }
            }
            Lender::Edit(Edit::Closing | Edit::Sudden) if self.is_skewed() => {}
            Lender::Edit(edit) => self.edit_policy(edit),
            Lender::Claim(node) => self.claim(node),
        }
    }

    fn edit_machine(&mut self, node: usize, patch: &Value) {
        self.server_mut(Side::Physical).edit_node(&machine_name(node), patch);
    }

    fn foreign(&mut self, node: usize) {
        let (namespace, name) = foreign_key(node);
        let key = objects::key(&namespace, &name);
        if self.server(Side::Physical).store.pods.contains_key(&key) {
            return self.server_mut(Side::Physical).drop_pod(&key);
        }
        let uid = self.uid("f").into();
        let pod = Pod { node: machine_name(node), phase: Phase::Running, cpu: 2, ..new_pod(namespace, name, uid) };
        self.server_mut(Side::Physical).put_pod(pod);
    }

    fn edit_policy(&mut self, edit: Edit) {
        if edit == Edit::Removed {
            return self.server_mut(Side::Physical).drop_policy(POLICY);
        }
        let known = self.server(Side::Physical).store.policies.get(POLICY).map(|known| StoredPolicy::clone(known));
        let mut policy = known.unwrap_or_else(|| StoredPolicy {
            object: examples::policy(POLICY),
            status: PolicyStatus::default(),
            version: 0,
        });
        let empty = PolicySpec { cluster: NAMES[EAST].to_owned(), ..PolicySpec::default() };
        let limit =
            |cores: &str| LimitSpec { resource: CPU.to_owned(), quantity: Some(cores.to_owned()), percent: None };
        policy.object.generation += 1;
        policy.object.spec = match edit {
            Edit::Small => PolicySpec { resource_limits: vec![limit("1")], ..empty },
            Edit::Large => PolicySpec { resource_limits: vec![limit("3")], ..empty },
            Edit::Closing | Edit::Sudden => PolicySpec {
                time_windows: vec![examples::window("00:00", "12:10", &[])],
                force_reclaim: true,
                graceful_reclaim_period_seconds: i64::try_from(RECLAIM.as_secs()).ok(),
                ..empty
            },
            Edit::Broken | Edit::Removed => examples::invalid(policy.object.spec),
        };
        match edit {
            Edit::Closing => policy.object.announced = Announced { next: None, closing: Some(closing()) },
            Edit::Sudden => policy.object.announced = Announced::default(),
            Edit::Small | Edit::Large | Edit::Broken | Edit::Removed => {}
        }
        self.server_mut(Side::Physical).put_policy(policy);
    }

    /// Another borrower keeps to the rule: it claims what is free, and what nothing of ours stands for.
    fn claim(&mut self, node: usize) {
        let name = machine_name(node);
        let Some(machine) = self.server(Side::Physical).node(&name) else { return };
        let claim = annotation(machine, keys::LEASED_BY).map(str::to_owned);
        let is_lent = (0..BINDINGS).any(|of| self.server(Side::Virtual).node(&lent_name(of, node)).is_some());
        let claimed = match claim.as_deref() {
            None if !is_lent => json!(OTHERS),
            Some(OTHERS) => Value::Null,
            None | Some(_) => return,
        };
        self.edit_machine(node, &json!({"metadata": {"annotations": {keys::LEASED_BY: claimed}}}));
    }

    /// The physical pod of another installation. It names a virtual pod of another cluster.
    pub(super) fn make_other(&mut self) {
        let uid = self.uid("c").into();
        let labels = [
            (keys::MANAGED_BY_LABEL, keys::MANAGED_BY),
            (keys::VIRTUAL_CLUSTER, "vc-2"),
            (keys::BINDING, NAMES[EAST]),
            (keys::BINDING_UID, "b-9"),
        ];
        let annotations =
            [(keys::VIRTUAL_POD_NAMESPACE, "team"), (keys::VIRTUAL_POD_NAME, "theirs"), (keys::VIRTUAL_POD_UID, "v-0")];
        let owned =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let pod = Pod {
            labels: owned(&labels),
            annotations: owned(&annotations),
            node: machine_name(0),
            phase: Phase::Running,
            cpu: 1,
            ..new_pod("lent-other".to_owned(), "other-0".to_owned(), uid)
        };
        self.server_mut(Side::Physical).put_pod(pod);
    }

    pub(super) fn borrower(&mut self, does: Borrower) {
        match does {
            Borrower::LookAlike(node) => {
                let (lent, uid) = (lent_name(EAST, node), self.uid("n"));
                let body = look_alike(&lent, &machine_name(node));
                let _ = self.server_mut(Side::Virtual).create_node(&lent, &uid, &body);
            }
            Borrower::Schedule(slot) => self.schedule(slot),
            Borrower::TopDown(slot) => {
                self.top_down(slot);
            }
            Borrower::Kubelet(slot) => (0..BINDINGS).for_each(|binding| {
                self.kubelet(&copy_key(binding, slot));
            }),
            Borrower::Succeed(slot) => (0..BINDINGS).for_each(|binding| {
                let server = self.server_mut(Side::Physical);
                let key = copy_key(binding, slot);
                if server.store.pods.get(&key).is_some_and(|pod| pod.phase == Phase::Running) {
                    server.edit_pod(&key, |pod| pod.phase = Phase::Succeeded);
                }
            }),
            Borrower::Delete(slot, Deletion::Graceful) => {
                if self.server(Side::Virtual).store.pods.contains_key(&twin_key(slot)) {
                    self.terminate(Side::Virtual, &twin_key(slot));
                }
            }
            Borrower::Delete(slot, Deletion::Forced) => self.server_mut(Side::Virtual).drop_pod(&twin_key(slot)),
            Borrower::Strip(slot) => self.server_mut(Side::Virtual).edit_pod(&twin_key(slot), |pod| {
                pod.annotations.retain(|key, _| !MAPPING.contains(&key.as_str()));
            }),
            Borrower::Label(node) => self.edit_lent(node, &json!({"metadata": {"labels": {"team": "a"}}})),
            Borrower::Taint(node) => self.edit_taints(node, |taints| {
                if !taints.iter().any(|taint| taint["key"] == "team") {
                    taints.push(json!({"key": "team", "value": "a", "effect": "NoSchedule"}));
                }
            }),
            Borrower::Untaint(node) => self.edit_taints(node, |taints| {
                taints.retain(|taint| taint["key"] != keys::OUT_OF_WINDOWS_TAINT);
            }),
            Borrower::Timeless(node) => self.edit_taints(node, |taints| {
                let closed = taints.iter_mut().filter(|taint| taint["key"] == keys::OUT_OF_WINDOWS_TAINT);
                closed.filter_map(Value::as_object_mut).for_each(|taint| drop(taint.remove("timeAdded")));
            }),
            Borrower::Spoil(node, spoilt) => {
                let labels = match spoilt {
                    Spoilt::Facts => json!({"rack": "spoilt", keys::PHYSICAL_NODE_UID: "spoilt"}),
                    Spoilt::Missing(key) => json!({key: null}),
                    Spoilt::Empty(key) => json!({key: ""}),
                };
                self.edit_lent(node, &json!({"metadata": {"labels": labels}}));
            }
            Borrower::Drop(node) => self.drop_lent(node),
        }
    }

    /// The virtual nodes of a machine that are ours.
    fn lent_of(&self, node: usize) -> Vec<(NodeName, Arc<Value>)> {
        let nodes = &self.server(Side::Virtual).store.nodes;
        let ours = |binding: usize| {
            let name = lent_name(binding, node);
            let lent = nodes.get(&*name).filter(|lent| self.binding_of_node(lent).is_some())?;
            Some((name, Arc::clone(lent)))
        };
        (0..BINDINGS).filter_map(ours).collect()
    }

    /// A person who reads the condition of the binding writes the labels again that virtual nodes lack.
    pub(super) fn relabel(&mut self) {
        for (binding, node) in (0..BINDINGS).flat_map(|binding| (0..NODES).map(move |node| (binding, node))) {
            let name = lent_name(binding, node);
            let lent = self.server(Side::Virtual).node(&name);
            if lent.is_some_and(|lent| lacking(&labels_of(lent), self.identity(binding)).is_some()) {
                let labels = json!({keys::VIRTUAL_CLUSTER: US, keys::BINDING: NAMES[binding]});
                self.server_mut(Side::Virtual).edit_node(&name, &json!({"metadata": {"labels": labels}}));
            }
        }
    }

    fn edit_lent(&mut self, node: usize, patch: &Value) {
        for (name, _) in self.lent_of(node) {
            self.server_mut(Side::Virtual).edit_node(&name, patch);
        }
    }

    fn edit_taints(&mut self, node: usize, edit: impl Fn(&mut Vec<Value>)) {
        for (name, lent) in self.lent_of(node) {
            let mut taints = lent["spec"]["taints"].as_array().cloned().unwrap_or_default();
            edit(&mut taints);
            self.server_mut(Side::Virtual).edit_node(&name, &json!({"spec": {"taints": taints}}));
        }
    }

    fn drop_lent(&mut self, node: usize) {
        let wall = self.wall();
        for (name, lent) in self.lent_of(node) {
            let uid = lent["metadata"]["uid"].as_str().unwrap_or_default();
            let _ = self.server_mut(Side::Virtual).delete_node(&name, uid, None, wall);
        }
    }

    /// Binds a new pod to a virtual node that takes it.
    fn schedule(&mut self, slot: usize) {
        if self.server(Side::Virtual).store.pods.contains_key(&twin_key(slot)) {
            return;
        }
        let nodes = self.server(Side::Virtual).store.nodes.iter();
        let takes = |(name, node): (&String, &Arc<Value>)| {
            let keeps_away = |taint: &Value| taint["key"] != keys::VNODE_TAINT;
            let tainted = node["spec"]["taints"].as_array().into_iter().flatten().any(keeps_away);
            let is_open = node["spec"]["unschedulable"] != true && !tainted && !is_terminating(node);
            let binding = self.binding_of_node(node).filter(|_| is_open && ready_of(node) == "True")?;
            Some((name.clone(), binding))
        };
        let open: Vec<(String, usize)> = nodes.filter_map(takes).collect();
        let Some((node, binding)) = open.get(slot % open.len().max(1)).cloned() else { return };
        let uid = self.uid("v").into();
        let pod = Pod { node, cpu: 1, bound_by: Some(binding), ..new_pod("team".to_owned(), twin_name(slot), uid) };
        self.server_mut(Side::Virtual).put_pod(pod);
    }

    /// The next step of the top-down half for a virtual pod, by its contract. Returns whether there was one.
    pub(super) fn top_down(&mut self, slot: usize) -> bool {
        let key = twin_key(slot);
        let Some(twin) = self.server(Side::Virtual).store.pods.get(&key).cloned() else { return false };
        let Some(binding) = twin.bound_by else { return false };
        let at = copy_key(binding, slot);
        let copy = self.server(Side::Physical).store.pods.get(&at).cloned();
        let is_its =
            |copy: &&Arc<Pod>| copy.annotations.get(keys::VIRTUAL_POD_UID).is_some_and(|uid| **uid == *twin.uid);
        let its = copy.as_ref().filter(is_its);
        if twin.deletion.is_some() {
            return self.end_twin((&key, &at), &twin, its.map(|copy| copy.deletion));
        }
        if twin.phase.is_final() {
            return false;
        }
        let node = self.server(Side::Virtual).node(&twin.node);
        let machine = node.and_then(|node| annotation(node, keys::PHYSICAL_NODE_NAME)).map(str::to_owned);
        let named = PhysicalPodRef::read(&twin.annotations).ok();
        let names = (mount(binding), physical_pod_name("team", &twin_name(slot)).unwrap());
        let Some(named) = named else {
            return machine.is_some()
                && self.annotate(&key, &[(MAPPING[0], names.0.as_str()), (MAPPING[1], names.1.as_str())]);
        };
        if (&named.namespace, &named.name) != (&names.0, &names.1) {
            return false;
        }
        match (named.uid, its, copy.is_some()) {
            (None, Some(copy), _) => self.annotate(&key, &[(MAPPING[2], &*copy.uid)]),
            (None, None, false) => machine.is_some_and(|machine| self.create_copy(binding, names, &twin, machine)),
            // The bottom-up half deletes what is in the way.
            (None, None, true) => false,
            (Some(uid), Some(copy), _) if uid == copy.uid => false,
            (Some(_), _, _) => {
                self.server_mut(Side::Virtual).edit_pod(&key, |pod| pod.phase = Phase::Failed);
                true
            }
        }
    }

    /// A virtual pod that terminates goes after its physical one, and with a final phase. `copy`: whether that is there, and
    /// terminates, too.
    fn end_twin(&mut self, (key, at): (&str, &str), twin: &Pod, copy: Option<Option<Timestamp>>) -> bool {
        match copy {
            Some(Some(_)) => return false,
            Some(None) => self.terminate(Side::Physical, at),
            None if twin.phase.is_final() => self.server_mut(Side::Virtual).drop_pod(key),
            None => self.server_mut(Side::Virtual).edit_pod(key, |pod| {
                pod.phase = Phase::Failed;
                pod.annotations.insert("reason".to_owned(), PHYSICAL_POD_LOST.to_owned());
            }),
        }
        true
    }

    fn annotate(&mut self, key: &str, pairs: &[(&str, &str)]) -> bool {
        self.server_mut(Side::Virtual).edit_pod(key, |pod| {
            pod.annotations.extend(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
        });
        true
    }

    fn create_copy(&mut self, binding: usize, names: (String, String), twin: &Pod, machine: String) -> bool {
        if self.server(Side::Physical).node(&machine).is_none() {
            return false;
        }
        let mut labels = self.identity(binding).labels();
        labels.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
        let named = [
            (keys::VIRTUAL_POD_NAMESPACE, twin.namespace.clone()),
            (keys::VIRTUAL_POD_NAME, twin.name.clone()),
            (keys::VIRTUAL_POD_UID, twin.uid.to_string()),
            (keys::VIRTUAL_NODE_NAME, twin.node.clone()),
        ];
        let annotations = named.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let uid = self.uid("c").into();
        let pod = Pod { labels, annotations, node: machine, cpu: twin.cpu, ..new_pod(names.0, names.1, uid) };
        self.server_mut(Side::Physical).put_pod(pod);
        true
    }

    /// The next step of the kubelet, or of pod garbage collection where its machine is gone. Returns whether there was one.
    pub(super) fn kubelet(&mut self, key: &str) -> bool {
        let Some(copy) = self.server(Side::Physical).store.pods.get(key).cloned() else { return false };
        let server = self.server_mut(Side::Physical);
        if server.node(&copy.node).is_none() || copy.deletion.is_some() {
            server.drop_pod(key);
            return true;
        }
        if copy.phase != Phase::Pending {
            return false;
        }
        server.edit_pod(key, |pod| pod.phase = Phase::Running);
        true
    }
}

/// A pod that is bound nowhere.
fn new_pod(namespace: String, name: String, uid: Uid) -> Pod {
    Pod {
        namespace,
        name,
        uid,
        version: 0,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        node: String::new(),
        phase: Phase::Pending,
        deletion: None,
        grace: None,
        cpu: 0,
        bound_by: None,
    }
}

/// The windows close ten minutes after noon, and the status of the policy has said so for a day: the guard lets that pass.
fn closing() -> Announcement {
    let at: Timestamp = "2026-08-03T12:11:00Z".parse().unwrap();
    Announcement { at, since: at - SignedDuration::from_hours(24) }
}
