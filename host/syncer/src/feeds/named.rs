//! Objects that the view knows one by one, by their names: nodes of either cluster, and CSINodes ([`csi`](super::csi)).
//!
//! Owns how a watch of them becomes events of the view. A kind says how its objects are read and which event each becomes
//! ([`Named`]); that a list is whole before it counts, what becomes of an object that cannot be read, and how much is held, is written
//! once, in [`Feed`].

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use topoloom_cluster::watched::{Earlier, Index};
use topoloom_core::names::NodeName;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::node::{LentNode, PhysicalNode};
use topoloom_sync::resources::ResourceError;

use super::room::{Held, Holds};
use super::{SharedView, locked};
use crate::ledger::{PhysicalName, Touched};
use crate::slices::node::NodeSlice;
use crate::view::View;

/// A kind of objects that the view knows by their names.
pub trait Named {
    /// What a watch shows of one.
    type Slice;
    /// The name of one.
    type Name: Eq + Hash + fmt::Display + for<'a> From<&'a str>;
    /// What the view knows of one.
    type Object;
    /// Why one cannot be read.
    type Error: fmt::Display;

    /// What one is called in a log.
    const KIND: &'static str;

    /// Its name.
    fn name(slice: &Self::Slice) -> &str;

    /// The bytes of its texts.
    fn weight(slice: &Self::Slice) -> usize;

    /// What there is to know of it.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(slice: Self::Slice) -> Result<Self::Object, Self::Error>;

    /// A list begins.
    fn begins(_: &mut View) {}

    /// What the view knows of the one of this name.
    fn known(view: &View, name: &Self::Name) -> Option<Self::Object>;

    /// All were listed: what is not among these is gone.
    fn all(view: &mut View, objects: HashMap<Self::Name, Self::Object>) -> Touched;

    /// One is as it is now.
    fn one(view: &mut View, name: &Self::Name, object: Self::Object) -> Touched;

    /// The one of this name is gone.
    fn gone(view: &mut View, name: &str) -> Touched;
}

/// The objects of one kind on their way into the view.
pub struct Feed<T: Named> {
    view: SharedView,
    /// What each object holds, and all of them.
    weights: HashMap<T::Name, usize>,
    bytes: usize,
    of: PhantomData<fn() -> T>,
}

impl<T: Named> Feed<T> {
    /// Into this view.
    #[must_use]
    pub fn of(view: &SharedView) -> Self {
        Self { view: Arc::clone(view), weights: HashMap::new(), bytes: 0, of: PhantomData }
    }

    fn weigh(&mut self, name: T::Name, weight: usize) {
        let before = self.weights.insert(name, weight).unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(before).saturating_add(weight);
    }
}

impl<T: Named> fmt::Debug for Feed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Feed").field(&T::KIND).finish()
    }
}

/// A list on its way.
#[derive(Debug)]
pub struct NamedList<N, O> {
    objects: HashMap<N, O>,
    /// Those that are there and cannot be read.
    unread: Vec<N>,
    /// What each of both holds, and all of them.
    weights: HashMap<N, usize>,
    bytes: usize,
}

fn read<T: Named>(slice: T::Slice) -> Result<(T::Name, T::Object), T::Name> {
    let name = T::Name::from(T::name(&slice));
    match T::read(slice) {
        Ok(object) => Ok((name, object)),
        Err(error) => {
            tracing::warn!(kind = T::KIND, %name, %error, "an object cannot be read; what was read of it before counts");
            Err(name)
        }
    }
}

impl<T: Named> Index<T::Slice> for Feed<T> {
    type List = NamedList<T::Name, T::Object>;
    type Change = Touched;

    fn begin(&mut self, _: Earlier) -> Self::List {
        T::begins(&mut locked(&self.view));
        NamedList { objects: HashMap::new(), unread: Vec::new(), weights: HashMap::new(), bytes: 0 }
    }

    fn list(&mut self, list: &mut Self::List, object: T::Slice) {
        let weight = T::weight(&object);
        list.weights.insert(T::Name::from(T::name(&object)), weight);
        list.bytes = list.bytes.saturating_add(weight);
        match read::<T>(object) {
            Ok((name, object)) => drop(list.objects.insert(name, object)),
            Err(name) => list.unread.push(name),
        }
    }

    fn reset(&mut self, list: Self::List, _: &ResourceVersion) -> Touched {
        let NamedList { mut objects, unread, weights, bytes } = list;
        (self.weights, self.bytes) = (weights, bytes);
        let mut view = locked(&self.view);
        for name in unread {
            // It is there: to leave it out would say that it is gone.
            if let Some(known) = T::known(&view, &name) {
                objects.insert(name, known);
            }
        }
        T::all(&mut view, objects)
    }

    fn apply(&mut self, object: T::Slice) -> Touched {
        self.weigh(T::Name::from(T::name(&object)), T::weight(&object));
        let read = read::<T>(object);
        read.map(|(name, object)| T::one(&mut locked(&self.view), &name, object)).unwrap_or_default()
    }

    fn delete(&mut self, object: T::Slice) -> Touched {
        let name = T::Name::from(T::name(&object));
        self.bytes = self.bytes.saturating_sub(self.weights.remove(&name).unwrap_or_default());
        T::gone(&mut locked(&self.view), T::name(&object))
    }
}

impl<T: Named> Holds<T::Slice> for Feed<T> {
    fn held(&self) -> Held {
        Held { objects: self.weights.len(), bytes: self.bytes }
    }

    fn listed(list: &Self::List) -> Held {
        Held { objects: list.weights.len(), bytes: list.bytes }
    }

    fn cut(&mut self, _: Self::List) -> Touched {
        // The view knows nothing of a list that is not whole.
        Touched::new()
    }
}

/// The nodes of the physical cluster.
#[derive(Debug)]
pub enum PhysicalNodes {}

impl Named for PhysicalNodes {
    type Slice = NodeSlice;
    type Name = PhysicalName;
    type Object = PhysicalNode;
    type Error = ResourceError;

    const KIND: &'static str = "physical node";

    fn name(slice: &NodeSlice) -> &str {
        slice.name()
    }

    fn weight(slice: &NodeSlice) -> usize {
        slice.weight()
    }

    fn read(slice: NodeSlice) -> Result<PhysicalNode, ResourceError> {
        slice.physical()
    }

    fn known(view: &View, name: &PhysicalName) -> Option<PhysicalNode> {
        view.physical(name).cloned()
    }

    fn all(view: &mut View, nodes: HashMap<PhysicalName, PhysicalNode>) -> Touched {
        view.physical_nodes(nodes)
    }

    fn one(view: &mut View, name: &PhysicalName, node: PhysicalNode) -> Touched {
        view.physical_node(name, node)
    }

    fn gone(view: &mut View, name: &str) -> Touched {
        view.physical_node_gone(name)
    }
}

/// The virtual nodes of the binding.
#[derive(Debug)]
pub enum LentNodes {}

impl Named for LentNodes {
    type Slice = NodeSlice;
    type Name = NodeName;
    type Object = LentNode;
    type Error = ResourceError;

    const KIND: &'static str = "virtual node";

    fn name(slice: &NodeSlice) -> &str {
        slice.name()
    }

    fn weight(slice: &NodeSlice) -> usize {
        slice.weight()
    }

    fn read(slice: NodeSlice) -> Result<LentNode, ResourceError> {
        slice.lent()
    }

    fn known(view: &View, name: &NodeName) -> Option<LentNode> {
        view.lent(name).cloned()
    }

    fn all(view: &mut View, nodes: HashMap<NodeName, LentNode>) -> Touched {
        view.lent_nodes(nodes)
    }

    fn one(view: &mut View, name: &NodeName, node: LentNode) -> Touched {
        view.lent_node(name, node)
    }

    fn gone(view: &mut View, name: &str) -> Touched {
        view.lent_node_gone(name)
    }
}
