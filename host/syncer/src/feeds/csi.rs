//! The CSINodes of both clusters, on their way into the view.

use std::collections::HashMap;
use std::convert::Infallible;

use topoloom_core::names::NodeName;
use topoloom_sync::csi::{PhysicalCsiNode, VirtualCsiNode};

use super::Named;
use crate::ledger::{PhysicalName, Touched};
use crate::slices::csi::{CsiNodeSlice, CsiSliceError};
use crate::view::View;

/// The CSINodes of the physical cluster.
#[derive(Debug)]
pub enum PhysicalCsiNodes {}

impl Named for PhysicalCsiNodes {
    type Slice = CsiNodeSlice;
    type Name = PhysicalName;
    type Object = PhysicalCsiNode;
    type Error = CsiSliceError;

    const KIND: &'static str = "physical CSINode";

    fn name(slice: &CsiNodeSlice) -> &str {
        slice.name()
    }

    fn weight(slice: &CsiNodeSlice) -> usize {
        slice.weight()
    }

    fn read(slice: CsiNodeSlice) -> Result<PhysicalCsiNode, CsiSliceError> {
        slice.physical()
    }

    fn begins(view: &mut View) {
        view.csi.begins();
    }

    fn known(view: &View, name: &PhysicalName) -> Option<PhysicalCsiNode> {
        view.csi.physical(name).cloned()
    }

    fn all(view: &mut View, nodes: HashMap<PhysicalName, PhysicalCsiNode>) -> Touched {
        view.physical_csi_nodes(nodes)
    }

    fn one(view: &mut View, name: &PhysicalName, node: PhysicalCsiNode) -> Touched {
        view.physical_csi_node(name, node)
    }

    fn gone(view: &mut View, name: &str) -> Touched {
        view.physical_csi_node_gone(name)
    }
}

/// The virtual CSINodes of the binding.
#[derive(Debug)]
pub enum LentCsiNodes {}

impl Named for LentCsiNodes {
    type Slice = CsiNodeSlice;
    type Name = NodeName;
    type Object = VirtualCsiNode;
    type Error = Infallible;

    const KIND: &'static str = "virtual CSINode";

    fn name(slice: &CsiNodeSlice) -> &str {
        slice.name()
    }

    fn weight(slice: &CsiNodeSlice) -> usize {
        slice.weight()
    }

    fn read(slice: CsiNodeSlice) -> Result<VirtualCsiNode, Infallible> {
        Ok(slice.lent())
    }

    fn known(view: &View, name: &NodeName) -> Option<VirtualCsiNode> {
        view.csi.lent(name).cloned()
    }

    fn all(view: &mut View, nodes: HashMap<NodeName, VirtualCsiNode>) -> Touched {
        view.lent_csi_nodes(nodes)
    }

    fn one(view: &mut View, name: &NodeName, node: VirtualCsiNode) -> Touched {
        view.lent_csi_node(name, node)
    }

    fn gone(view: &mut View, name: &str) -> Touched {
        view.lent_csi_node_gone(name)
    }
}
