//! What an operator wants of the whole binding: its spec, its verbs, and what they mean for single nodes.

use std::collections::BTreeSet;

use topoloom_api::names::DRAIN_ANNOTATION;
use topoloom_core::names::NodeName;
use topoloom_core::text::says_yes;
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::guard::Safety;
use topoloom_sync::liveness::Reach;
use topoloom_sync::node::{Binding, LentNode, VerbOnNode};
use topoloom_sync::texts::Keyed;

use super::View;
use crate::ledger::{PhysicalName, Touched};

/// What an operator asked for, of the whole binding (decision S23).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum VerbOnBinding {
    /// Nothing.
    #[default]
    None,
    /// `lend drain`: all nodes go.
    Drain,
    /// `lend drain` for nodes: those of these names go, physical or virtual ones.
    DrainNodes(BTreeSet<String>),
    /// `lend detach`: all virtual nodes go, and nothing waits for the physical cluster.
    Detach,
}

impl View {
    /// The spec of the binding is this now. Returns the nodes for which that matters.
    pub fn set_terms(&mut self, binding: Binding, safety: Safety) -> Touched {
        self.safety = safety;
        if binding == self.binding {
            return Touched::new();
        }
        let before = std::mem::replace(&mut self.binding, binding);
        self.placement += 1;
        let is_selector_alone = Binding { selector: self.binding.selector.clone(), ..before.clone() } == self.binding;
        if !is_selector_alone {
            self.look_at_csi_nodes();
            return self.everything();
        }
        // What neither selected nor is selected is outside, as before.
        let matters = |name: &PhysicalName| {
            self.physical.get(name).is_none_or(|node| {
                let selects = |binding: &Binding| binding.selector.matches(name, &node.labels);
                selects(&before) || selects(&self.binding)
            })
        };
        self.all().into_iter().filter(matters).collect()
    }

    /// What may not be written, and how the connection is doing. Returns the nodes that have to be looked at.
    pub fn set_bars(&mut self, bars: Bars, reach: Reach) -> Touched {
        if self.bars == bars && self.reach == reach {
            return Touched::new();
        }
        self.is_outdated = match (self.reach, reach) {
            (Reach::Unreachable { .. }, Reach::Suspect(_)) => true,
            (_, Reach::Reachable) => false,
            (_, Reach::Suspect(_) | Reach::Unreachable { .. }) => self.is_outdated,
        };
        let is_restored = |bars: &Bars| bars.iter().any(|bar| bar == Bar::Restored);
        if is_restored(&bars) && !is_restored(&self.bars) {
            // Also what the status of a restored virtual cluster says that was allowed or confirmed.
            self.guard.forget_grants();
        }
        self.bars = bars;
        self.reach = reach;
        self.recall.begin_again();
        self.look_at_csi_nodes();
        self.look_at_ports();
        self.everything()
    }

    /// The physical cluster is listed again: it was gone, or another connection leads there.
    pub fn listed_again(&mut self) {
        self.is_outdated = true;
    }

    /// Whether what is cached of physical nodes may be of before the cluster was gone: then it is as good as not listed (decision S5).
    pub(super) fn is_outdated(&self) -> bool {
        match self.reach {
            Reach::Suspect(_) => self.is_outdated,
            Reach::Reachable | Reach::Unreachable { .. } => false,
        }
    }

    /// An operator wants this now. Returns the nodes that have to be looked at.
    pub fn set_verb(&mut self, verb: VerbOnBinding) -> Touched {
        if self.verb == verb {
            return Touched::new();
        }
        self.verb = verb;
        self.all()
    }

    /// What an operator asked for, for one node.
    pub(super) fn verb_on(
        &self,
        name: &PhysicalName,
        lent_name: Option<&NodeName>,
        lent: Option<&LentNode>,
    ) -> VerbOnNode {
        let annotation = lent.and_then(|lent| lent.metadata.annotations.text(DRAIN_ANNOTATION));
        let is_drained = says_yes(annotation);
        match &self.verb {
            VerbOnBinding::Detach => VerbOnNode::Detach,
            VerbOnBinding::Drain => VerbOnNode::Remove,
            VerbOnBinding::DrainNodes(nodes)
                if nodes.contains(&**name) || lent_name.is_some_and(|lent| nodes.contains(&**lent)) =>
            {
                VerbOnNode::Remove
            }
            VerbOnBinding::None | VerbOnBinding::DrainNodes(_) if is_drained => VerbOnNode::Remove,
            VerbOnBinding::None | VerbOnBinding::DrainNodes(_) => self.verbs.get(name).copied().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use topoloom_sync::liveness::{Doubt, Lease, NotAlive};
    use topoloom_sync::node::{NodeOrder, PhysicalNode};
    use topoloom_sync::selector::{NodeSelector, RawNodeSelector, RawRequirement, RawTerm};
    use topoloom_sync::taints::{DefaultTaint, Effect, Taint};

    use super::super::examples::{binding, lend, now, physical, view};
    use super::super::{Evidence, NodeWork};
    use super::*;

    fn named(names: &[&str]) -> Touched {
        names.iter().map(|name| PhysicalName::from(*name)).collect()
    }

    /// Selects the nodes of these names.
    fn selects(names: &[&str]) -> Binding {
        let values = names.iter().map(|name| (*name).to_owned()).collect();
        let requirement = RawRequirement { key: "metadata.name".into(), operator: "In".into(), values };
        let term = RawTerm { match_expressions: vec![], match_fields: vec![requirement] };
        let selector = NodeSelector::parse(&RawNodeSelector { terms: vec![term] }).unwrap();
        Binding { selector, ..binding() }
    }

    fn decide(view: &mut View, node: &str) -> NodeWork {
        view.decide(&node.into(), &Evidence::default(), now())
    }

    #[test]
    fn a_selector_concerns_the_nodes_that_it_selects_and_those_that_the_one_before_it_did() {
        let mut view = view(4);
        assert_eq!(view.set_terms(selects(&["w1", "w2"]), Safety::default()), named(&["w1", "w2", "w3", "w4"]));
        assert_eq!(view.set_terms(selects(&["w2", "w3"]), Safety::default()), named(&["w1", "w2", "w3"]));
        assert_eq!(view.set_terms(selects(&["w2", "w3"]), Safety::default()), Touched::new());
        let untainted = Binding { default_taint: DefaultTaint::Off, ..selects(&["w2", "w3"]) };
        assert_eq!(view.set_terms(untainted, Safety::default()).len(), 4, "any other field may matter everywhere");
        // Without a selector all nodes are selected.
        assert_eq!(view.set_terms(binding(), Safety::default()).len(), 4);
    }

    #[test]
    fn limits_of_the_guard_count_at_once_and_concern_no_node() {
        let mut view = view(2);
        let wide = Safety { max_nodes_percent: 100, ..Safety::default() };
        assert_eq!(view.set_terms(binding(), wide), Touched::new());
        assert_eq!(view.safety, wide);
    }

    #[test]
    fn what_forbids_a_write_concerns_every_node_when_it_changes() {
        let mut view = view(2);
        let paused: Bars = [Bar::Paused].into_iter().collect();
        assert_eq!(view.set_bars(paused.clone(), Reach::Reachable), named(&["w1", "w2"]));
        assert_eq!(view.set_bars(paused, Reach::Reachable), Touched::new());
        assert_eq!(decide(&mut view, "w1").orders, []);
    }

    #[test]
    fn s4_s5_a_node_lives_again_when_its_machine_was_listed_since_its_cluster_was_gone_and_not_before() {
        let mut view = view(2);
        lend(&mut view, 2);
        let listed = || [1, 2].map(|number| (PhysicalName::from(format!("w{number}")), physical(number)));
        let lease = |view: &mut View| decide(view, "w1").lease;
        let suspect = |doubt| ([Bar::Suspect].into_iter().collect::<Bars>(), Reach::Suspect(doubt));
        let gone = Reach::Unreachable { since: now().steady };
        view.set_bars([Bar::Unreachable].into_iter().collect(), gone);
        assert_eq!(lease(&mut view), Some(Lease::Stop(NotAlive::Unreachable)));
        // It answers again, and the kubelet may have died meanwhile.
        for doubt in [Doubt::NotListed, Doubt::Silent, Doubt::Empty] {
            let (bars, reach) = suspect(doubt);
            view.set_bars(bars, reach);
            let work = decide(&mut view, "w1");
            assert_eq!((work.lease, work.orders), (Some(Lease::Stop(NotAlive::Unlisted)), vec![]), "{doubt:?}");
        }
        // Its pods are still being listed.
        view.physical_nodes(listed().into());
        assert_eq!(lease(&mut view), Some(Lease::Renew));
        view.set_bars(Bars::default(), Reach::Reachable);
        assert_eq!(lease(&mut view), Some(Lease::Renew));
        // A silence without an end of the connection makes nothing old, and a gap that showed in no state does.
        let (bars, reach) = suspect(Doubt::Silent);
        view.set_bars(bars, reach);
        view.physical_node(
            &"w1".into(),
            PhysicalNode {
                version: "9".into(),
                taints: vec![Taint::new("team", "blue", Effect::NoSchedule)],
                ..physical(1)
            },
        );
        assert_ne!(decide(&mut view, "w1").orders, []);
        view.listed_again();
        let work = decide(&mut view, "w1");
        assert_eq!((work.lease, work.orders), (Some(Lease::Renew), vec![]), "by what the virtual node says");
    }

    #[test]
    fn s23_a_drained_node_goes_by_the_name_of_either_node_or_by_its_own_annotation() {
        let mut view = view(3);
        lend(&mut view, 3);
        let goes = |view: &mut View, node: &str| decide(view, node).state.contains("an operator asked for it");
        let drain = |names: &[&str]| VerbOnBinding::DrainNodes(names.iter().map(|name| (*name).to_owned()).collect());
        assert_eq!(view.set_verb(drain(&["w1", "vnode-east-w2"])).len(), 3);
        assert!(goes(&mut view, "w1") && goes(&mut view, "w2") && !goes(&mut view, "w3"));
        assert_eq!(view.set_verb(drain(&["w1", "vnode-east-w2"])), Touched::new());
        view.set_verb(VerbOnBinding::None);
        assert!(!goes(&mut view, "w1"));
        let mut node = view.lent("vnode-east-w3").unwrap().clone();
        node.version = "40".into();
        node.metadata.annotations.insert(DRAIN_ANNOTATION.to_owned(), "true".to_owned());
        view.lent_node(&"vnode-east-w3".into(), node);
        assert!(goes(&mut view, "w3") && !goes(&mut view, "w1"));
        view.set_verb(VerbOnBinding::Drain);
        assert!(goes(&mut view, "w1"));
    }

    #[test]
    fn s23_detach_takes_nodes_away_although_nothing_is_known_of_their_machines() {
        let mut whole = view(1);
        lend(&mut whole, 1);
        let lent = whole.lent("vnode-east-w1").unwrap().clone();
        let reach = Reach::Unreachable { since: now().steady };
        let mut view = View::new(binding(), Safety::default(), topoloom_sync::guard::Spent::default(), reach, now());
        view.lent_nodes([("vnode-east-w1".into(), lent)].into());
        view.set_bars(Bars::default(), reach);
        assert_eq!(decide(&mut view, "w1").orders, []);
        view.set_verb(VerbOnBinding::Detach);
        assert!(matches!(&decide(&mut view, "w1").orders[..], [NodeOrder::PatchSpec { .. }]));
    }
}
