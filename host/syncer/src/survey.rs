//! One look at a binding, without a watch: what `topoloom lend plan`, `explain` and `report` are made of (decision S23).
//!
//! | room | owns |
//! |---|---|
//! | [`lists`] | one paged list of each kind on both sides |
//! | [`plan`] | what a rehearsal gives: the writes of each node, in stages |
//! | [`rehearsal`] | decisions that are carried out on what was read, as API servers and time would answer |
//!
//! Owns a [`View`] that is filled from lists in place of watches: the same facts, the same guard, the same decisions as those of the
//! controllers. Never writes to a cluster.
//!
//! # Failure story
//!
//! A look is a moment: what changes while it is taken, and after it, is not in it. An object that cannot be read is left out, as the
//! watches leave it out, with a line in the log. What the process that serves the binding remembers (when a node grew last, since when
//! it has no policy, what the guard allowed a moment ago and is not in the status yet) is not known here: waits look longer, never shorter.

pub mod lists;
pub mod plan;
pub mod rehearsal;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube::Resource as _;
use topoloom_api::ResourceLeasingPolicy;
use topoloom_api::cluster_binding::ClusterBindingStatus;
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::guard::{GATHER, Safety};
use topoloom_sync::identity::{Identity, Ownership, lacking};
use topoloom_sync::keys;
use topoloom_sync::naming::BindingName;
use topoloom_sync::node::{Binding, Facts, LiveLent, LiveNode, NodeDecision, NodeOrder, Now, PhysicalNode, Question};
use topoloom_sync::policy::object::Policy;

use self::lists::{LentLists, PhysicalLists};
use crate::bindings::once::Hindered;
use crate::convert;
use crate::convert::binding::{Terms, inherited};
use crate::ledger::PhysicalName;
use crate::slices::node::NodeSlice;
use crate::slices::pod::PodSlice;
use crate::view::{Evidence, NodeWork, Strays, View};

/// How often one decision may ask for something.
const QUESTIONS: usize = 6;

/// What a look is made of.
#[derive(Debug, Clone)]
pub struct Sources<'a> {
    /// What the binding says.
    pub terms: &'a Terms,
    /// What its status keeps.
    pub status: &'a ClusterBindingStatus,
    /// What may not be written for it.
    pub hindered: &'a Hindered,
    /// The UIDs of all bindings.
    pub bindings: BTreeSet<Uid>,
    /// The virtual cluster.
    pub lent: &'a LentLists,
    /// The physical one; nothing where it cannot be read.
    pub physical: Option<&'a PhysicalLists>,
    /// The policies; nothing where they cannot be read, which is not the same as none.
    pub policies: Option<Vec<Policy>>,
}

/// Everything that is known for one binding at one moment.
#[derive(Debug)]
pub struct Survey {
    /// The same as the controllers have.
    pub view: View,
    /// The virtual nodes of the binding.
    lent: HashMap<NodeName, NodeSlice>,
    /// All other nodes of the virtual cluster.
    others: HashMap<NodeName, NodeSlice>,
    physical: HashMap<PhysicalName, NodeSlice>,
    bindings: BTreeSet<Uid>,
    /// The physical pod that names a virtual one, by the UID of the virtual one.
    twins: HashMap<Uid, Uid>,
    confirmed: Option<String>,
}

/// Policies, as a binding of this name takes them.
#[must_use]
pub fn policies(stored: &[ResourceLeasingPolicy], binding: &BindingName) -> Vec<Policy> {
    stored.iter().map(|policy| Policy::new(convert::policy::object(policy, binding))).collect()
}

/// Whether the watch of a binding would show a virtual node: it goes by two labels, whatever the UID of the binding was then.
#[must_use]
pub fn is_of_binding(node: &NodeSlice, identity: &Identity) -> bool {
    let wanted = identity.labels();
    let labels = node.meta().labels.as_ref();
    [keys::VIRTUAL_CLUSTER, keys::BINDING].into_iter().all(|key| labels.and_then(|all| all.get(key)) == wanted.get(key))
}

impl Survey {
    /// What these lists show, at this time.
    #[must_use]
    pub fn new(sources: Sources<'_>, now: Now) -> Self {
        let Sources { terms, status, hindered, bindings, lent, physical, policies } = sources;
        let mut view = View::new(terms.binding.clone(), terms.safety, inherited(status), hindered.reach, now);
        view.orphan_delay = terms.orphan_delay;
        // Nothing has to be proved before something is rehearsed.
        view.agreed(Duration::MAX);
        view.set_bars(hindered.bars.clone(), hindered.reach);
        view.set_verb(hindered.verb.clone());
        if let Some(policies) = policies {
            view.policies_listed(policies);
        }
        let (ours, others): (Vec<&NodeSlice>, Vec<&NodeSlice>) =
            lent.nodes.iter().partition(|node| is_of_binding(node, &terms.binding.identity));
        let named = |nodes: Vec<&NodeSlice>| -> HashMap<NodeName, NodeSlice> {
            nodes.into_iter().map(|node| (node.name().into(), node.clone())).collect()
        };
        let mut survey = Self {
            view,
            lent: named(ours),
            others: named(others),
            physical: HashMap::new(),
            bindings,
            twins: HashMap::new(),
            confirmed: hindered.confirmed.clone(),
        };
        survey.fill_lent(lent);
        let stripped: Vec<NodeName> = survey.stripped().into_keys().collect();
        let uid = |name: &NodeName| survey.others.get(name).and_then(|node| node.meta().uid.as_deref()).map(Uid::from);
        let left: Vec<(NodeName, Uid)> =
            stripped.into_iter().filter_map(|name| uid(&name).map(|uid| (name, uid))).collect();
        // All nodes are looked at, these too.
        survey.view.left_behind(left);
        if let Some(physical) = physical {
            survey.fill_physical(physical);
        }
        survey
    }

    fn fill_lent(&mut self, lists: &LentLists) {
        let mut nodes = HashMap::with_capacity(self.lent.len());
        for (name, slice) in &self.lent {
            match slice.clone().lent() {
                Ok(node) => drop(nodes.insert(name.clone(), node)),
                Err(error) => tracing::warn!(node = %name, %error, "a virtual node cannot be read, and is left out"),
            }
        }
        self.view.lent_nodes(nodes);
        for pod in &lists.pods {
            self.virtual_pod(pod.clone());
        }
        if let Some(csi_nodes) = &lists.csi_nodes {
            let nodes = csi_nodes.iter().map(|slice| (NodeName::from(slice.name()), slice.clone().lent()));
            // Those of other nodes are not looked at: a CSINode has the name of its node.
            let nodes = nodes.filter(|(name, _)| self.lent.contains_key(name)).collect();
            self.view.lent_csi_nodes(nodes);
        }
    }

    fn fill_physical(&mut self, lists: &PhysicalLists) {
        let mut nodes: HashMap<PhysicalName, PhysicalNode> = HashMap::with_capacity(lists.nodes.len());
        for slice in &lists.nodes {
            let name = PhysicalName::from(slice.name());
            match slice.clone().physical() {
                Ok(node) => drop(nodes.insert(Arc::clone(&name), node)),
                Err(error) => tracing::warn!(node = %name, %error, "a physical node cannot be read, and is left out"),
            }
            self.physical.insert(name, slice.clone());
        }
        if let Some(csi_nodes) = &lists.csi_nodes {
            let read = csi_nodes.iter().filter_map(|slice| {
                let name = PhysicalName::from(slice.name());
                let node = slice.clone().physical();
                node.inspect_err(
                    |error| tracing::warn!(node = %name, %error, "a CSINode cannot be read, and is left out"),
                )
                .ok()
                .map(|node| (name, node))
            });
            self.view.physical_csi_nodes(read.collect());
        }
        self.view.physical_nodes(nodes);
        for pod in &lists.pods {
            self.physical_pod(pod);
        }
    }

    /// A pod of the virtual cluster, beside those that were listed.
    pub fn virtual_pod(&mut self, slice: PodSlice) {
        let pod = slice.pod();
        if let Err(error) = self.view.ledger.virtual_pod(slice) {
            tracing::warn!(%pod, %error, "a virtual pod cannot be read, and is left out");
        }
    }

    fn physical_pod(&mut self, slice: &PodSlice) {
        let pod = slice.pod();
        if let Err(error) = self.view.ledger.physical_pod(slice) {
            tracing::warn!(%pod, %error, "a physical pod cannot be read, and is left out");
        }
        if let Some(named) = slice.names() {
            self.twins.insert(named.uid, pod.uid);
        }
        let labels = slice.metadata().labels.as_ref();
        let owner = labels.map(|labels| Ownership::of(labels, &self.view.binding.identity));
        if let Some(Ownership::OursOfEarlierBinding(binding)) = owner
            && !self.bindings.contains(&binding)
        {
            self.view.earlier_is_gone(&binding);
        }
    }

    /// What stands in the way of new nodes: virtual nodes that lack labels of identity, and those of an earlier `clusterID`. Which of
    /// them lead to no machine is not known here.
    #[must_use]
    pub fn strays(&self) -> Strays {
        Strays { stripped: self.stripped(), astray: BTreeSet::new(), ..self.view.strays() }
    }

    /// Virtual nodes of the binding that lack labels of identity, and which: no watch of the binding shows them. Name and annotation say
    /// what they are.
    #[must_use]
    pub fn stripped(&self) -> BTreeMap<NodeName, Vec<&'static str>> {
        let Binding { cluster, identity, .. } = &self.view.binding;
        let lacks = |(name, node): (&NodeName, &NodeSlice)| {
            let meta = node.meta();
            let physical = meta.annotations.as_ref()?.get(keys::PHYSICAL_NODE_NAME)?;
            let lent = topoloom_sync::naming::virtual_node_name(cluster, physical).ok()?;
            let labels = meta.labels.clone().unwrap_or_default();
            (lent == *name).then(|| lacking(&labels, identity)).flatten().map(|keys| (name.clone(), keys))
        };
        self.others.iter().filter_map(lacks).collect()
    }

    /// The virtual nodes of the binding.
    pub fn lent_names(&self) -> impl Iterator<Item = &NodeName> {
        self.lent.keys()
    }

    /// A node of either cluster by its name: the physical one of that name, or the one whose virtual node has it.
    #[must_use]
    pub fn machine(&self, name: &str) -> Option<PhysicalName> {
        self.view.all().into_iter().find(|physical| {
            let lent = topoloom_sync::naming::virtual_node_name(&self.view.binding.cluster, physical);
            **physical == *name || lent.is_ok_and(|lent| *lent == *name)
        })
    }

    /// What a decision about a node follows from, and the decision: as it is when the guard has gathered, and nothing of it carried
    /// out.
    pub fn see<T>(&mut self, name: &PhysicalName, now: Now, see: impl Fn(&Facts<'_>, &NodeDecision<'_>) -> T) -> T {
        self.decide(name, &mut Evidence::default(), now, |_, _| ());
        self.decide(name, &mut Evidence::default(), gathered(now), see).1
    }

    /// The same for all nodes, and what the guard holds then.
    pub fn see_all<T>(&mut self, now: Now, see: impl Fn(&Facts<'_>, &NodeDecision<'_>) -> T) -> Vec<(PhysicalName, T)> {
        let names = self.view.all();
        for name in &names {
            self.decide(name, &mut Evidence::default(), now, |_, _| ());
        }
        let later = gathered(now);
        self.recall(later);
        let seen = names.into_iter().map(|name| {
            let seen = self.decide(&name, &mut Evidence::default(), later, &see).1;
            (name, seen)
        });
        seen.collect()
    }

    /// The limits of the guard count no more: a look at one node does not know how many there are.
    pub fn without_limits(&mut self) {
        self.view.safety = Safety { max_evict_percent: 100, max_nodes_percent: 100, ..self.view.safety };
    }

    /// Everything was asked for once: what an earlier process held is judged again, and what an operator confirms is confirmed.
    fn recall(&mut self, now: Now) {
        let (safety, size) = (self.view.safety, self.view.size());
        self.view.guard().recalled(&safety, size, now.steady);
        if let Some(hash) = self.confirmed.clone()
            && self.view.guard().held().is_some_and(|held| held.hash == hash)
        {
            // It was shown a moment ago, so it cannot be refused.
            let _ = self.view.confirm(&hash);
        }
    }

    /// Decides about a node until nothing has to be read for it any more: all that may be asked for was listed.
    fn decide<T>(
        &mut self,
        name: &PhysicalName,
        evidence: &mut Evidence,
        now: Now,
        see: impl Fn(&Facts<'_>, &NodeDecision<'_>) -> T,
    ) -> (NodeWork, T) {
        self.view.played(now);
        let mut decided = self.view.decide_seeing(name, evidence, now, &see);
        for _ in 0..QUESTIONS {
            let [NodeOrder::Ask(question)] = &decided.0.orders[..] else { break };
            let (question, lent) = (question.clone(), decided.0.lent.clone());
            self.answer(name, lent.as_ref(), &question, evidence);
            decided = self.view.decide_seeing(name, evidence, now, &see);
        }
        decided
    }

    /// What a live read would show.
    fn answer(&self, name: &PhysicalName, lent: Option<&NodeName>, question: &Question, evidence: &mut Evidence) {
        match question {
            Question::PhysicalNode => {
                let found = self.physical.get(name).map(|node| node.meta().uid.clone().unwrap_or_default());
                evidence.live = found.map_or(LiveNode::Gone, |uid| LiveNode::Found(uid.as_str().into()));
            }
            Question::Binding(_) => evidence.bindings = Some(self.bindings.clone()),
            Question::LentNode => {
                let found = lent.and_then(|lent| self.lent.get(lent).or_else(|| self.others.get(lent)));
                match found.cloned().map(NodeSlice::lent) {
                    None => evidence.live_lent = LiveLent::Gone,
                    Some(Ok(node)) => evidence.live_lent = LiveLent::Found(Arc::new(node)),
                    // What cannot be read leads nowhere.
                    Some(Err(_)) => {}
                }
            }
            Question::PodsOfNode => {
                evidence.pods = Some(lent.map(|lent| self.view.ledger.pods(lent)).unwrap_or_default());
            }
        }
    }
}

/// When the guard has gathered what is asked for now. The wall clock stays: what is shown is shown for one time.
fn gathered(now: Now) -> Now {
    Now { steady: now.steady.saturating_add(GATHER), ..now }
}

#[cfg(test)]
mod tests;
