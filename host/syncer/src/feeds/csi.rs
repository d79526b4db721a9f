//! The CSINodes of both clusters, on their way into the view.

use std::collections::HashMap;
use std::sync::Arc;

use topoloom_core::names::NodeName;
use topoloom_sync::csi::{PhysicalCsiNode, VirtualCsiNode};
use topoloom_sync::texts::Keyed;

use super::Named;
use crate::ledger::{PhysicalName, Touched};
use crate::view::View;

/// The CSINodes of the physical cluster.
#[derive(Debug)]
pub enum PhysicalCsiNodes {}

impl Named for PhysicalCsiNodes {
    type Name = PhysicalName;
    type Object = PhysicalCsiNode;

    const KIND: &'static str = "physical CSINode";

    fn begins(view: &mut View) {
        view.csi.begins();
    }

    fn known(view: &View, name: &PhysicalName) -> Option<Arc<PhysicalCsiNode>> {
        view.csi.physical(name).cloned()
    }

    fn all(view: &mut View, nodes: HashMap<PhysicalName, Arc<PhysicalCsiNode>>) -> Touched {
        view.machine_csi_nodes(nodes)
    }

    fn one(view: &mut View, name: &PhysicalName, node: Arc<PhysicalCsiNode>) -> Touched {
        view.machine_csi_node(name, node)
    }

    fn gone(view: &mut View, name: &str) -> Touched {
        view.physical_csi_node_gone(name)
    }
}

/// The virtual CSINodes of the binding.
#[derive(Debug)]
pub enum LentCsiNodes {}

impl Named for LentCsiNodes {
    type Name = NodeName;
    type Object = VirtualCsiNode;

    const KIND: &'static str = "virtual CSINode";

    fn labels(node: &VirtualCsiNode) -> Option<&dyn Keyed> {
        Some(&node.labels)
    }

    fn known(view: &View, name: &NodeName) -> Option<Arc<VirtualCsiNode>> {
        view.csi.lent(name).cloned()
    }

    fn all(view: &mut View, nodes: HashMap<NodeName, Arc<VirtualCsiNode>>) -> Touched {
        view.lent_machine_csi_nodes(nodes)
    }

    fn one(view: &mut View, name: &NodeName, node: Arc<VirtualCsiNode>) -> Touched {
        view.lent_machine_csi_node(name, node)
    }

    fn gone(view: &mut View, name: &str) -> Touched {
        view.lent_csi_node_gone(name)
    }
}
