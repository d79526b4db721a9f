//! The nodes of the physical cluster, on their way into the view, and what their coming and going means for pods that terminate.

use std::sync::Arc;

use topoloom_cluster::watched::{Earlier, Index};
use topoloom_core::names::NodeName;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::naming::virtual_node_name;
use topoloom_sync::node::PhysicalNode;

use super::{Feed, Follows, PhysicalNodes, SharedView, locked};
use crate::ledger::Touched;
use crate::pods::Inbox;
use crate::shared::Shown;

/// The nodes of the physical cluster. The end of a pod whose machine was there, or unknown, is left to others; where that machine
/// goes or comes, and after each list, it is looked at again.
#[derive(Debug)]
pub struct Machines {
    nodes: Feed<PhysicalNodes>,
    view: SharedView,
    inbox: Inbox,
}

impl Machines {
    /// Into this view, and with this inbox of the controller of pods.
    #[must_use]
    pub fn new(view: &SharedView, inbox: Inbox) -> Self {
        Self { nodes: Feed::of(view), view: Arc::clone(view), inbox }
    }

    /// The name of its virtual node.
    fn lent_name(&self, node: &Shown<PhysicalNode>) -> Option<NodeName> {
        virtual_node_name(&locked(&self.view).binding.cluster, &node.key).ok()
    }
}

impl Index<Shown<PhysicalNode>> for Machines {
    type List = <Feed<PhysicalNodes> as Index<Shown<PhysicalNode>>>::List;
    type Change = Touched;

    fn begin(&mut self, earlier: Earlier) -> Self::List {
        self.nodes.begin(earlier)
    }

    fn list(&mut self, list: &mut Self::List, object: Shown<PhysicalNode>) {
        self.nodes.list(list, object);
    }

    fn reset(&mut self, list: Self::List, version: &ResourceVersion) -> Touched {
        let touched = self.nodes.reset(list, version);
        // A machine that went while nothing was shown may have another one of its name.
        self.inbox.nodes_gone();
        touched
    }

    fn apply(&mut self, object: Shown<PhysicalNode>) -> Touched {
        let lent = self.lent_name(&object).filter(|lent| !locked(&self.view).knows_lent(lent));
        let touched = self.nodes.apply(object);
        if let Some(lent) = lent {
            self.inbox.node_gone(&lent);
        }
        touched
    }

    fn delete(&mut self, object: Shown<PhysicalNode>) -> Touched {
        let lent = self.lent_name(&object);
        let touched = self.nodes.delete(object);
        if let Some(lent) = lent {
            self.inbox.node_gone(&lent);
        }
        touched
    }
}

impl Follows<PhysicalNode> for Machines {
    fn given_up(&mut self, list: Option<Self::List>) -> Touched {
        self.nodes.given_up(list)
    }
}
