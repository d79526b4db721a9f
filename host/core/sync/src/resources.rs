//! Names of resources and lists of amounts (`bottomup-syncer.md` section 6.5, decision D12).
//!
//! Owns: what a resource is called, which resources exist in whole numbers only, and how a list of texts is read. A name is
//! taken as the API server hands it out; one that people wrote into a limit and that no node has meets nothing.
//!
//! Failure story: a list with a text that is no quantity is refused with the name and the text. The caller must not go on
//! with the rest of it: a pod with an unreadable request would count as less than it uses.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use super::quantity::{Format, Quantity, QuantityError};
use topoloom_core::any_text_type;

/// Processor time, in cores.
pub const CPU: &str = "cpu";
/// Memory, in bytes.
pub const MEMORY: &str = "memory";
/// Storage on the node, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// How many pods there may be.
pub const PODS: &str = "pods";
/// How the names of huge pages of one size begin.
pub const HUGE_PAGES_PREFIX: &str = "hugepages-";

any_text_type! {
    /// The name of a resource: `cpu`, `nvidia.com/gpu`.
    ResourceName
}

/// Amounts by the name of the resource.
pub type ResourceList = BTreeMap<ResourceName, Quantity>;

/// A list that many nodes have in common. Those are equal that are written alike, although `1Ki` and `1024` are the same amount.
#[derive(Debug, Clone, Default)]
pub struct WrittenList(ResourceList);

impl WrittenList {
    fn written(&self) -> impl Iterator<Item = (&ResourceName, i128, Format)> {
        self.0.iter().map(|(name, amount)| (name, amount.nanos(), amount.format()))
    }
}

impl From<ResourceList> for WrittenList {
    fn from(list: ResourceList) -> Self {
        Self(list)
    }
}

impl Deref for WrittenList {
    type Target = ResourceList;

    fn deref(&self) -> &ResourceList {
        &self.0
    }
}

impl PartialEq for WrittenList {
    fn eq(&self, other: &Self) -> bool {
        self.written().eq(other.written())
    }
}

impl Eq for WrittenList {}

impl Hash for WrittenList {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.written().for_each(|part| part.hash(state));
    }
}

/// Which amounts of a resource exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Divisibility {
    /// Whole numbers only.
    Whole,
    /// Parts, too.
    Parts,
}

/// The unit of a metric of a resource (section 14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricUnit {
    /// Thousandths.
    Milli,
    /// MiB.
    Mebi,
    /// Whole ones.
    One,
}

/// An amount in a list that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{resource}: {error}")]
pub struct ResourceError {
    /// Of which resource.
    pub resource: ResourceName,
    /// What is wrong with its text.
    pub error: QuantityError,
}

impl ResourceName {
    /// Which amounts of it exist. The API server refuses a node with a part of a pod or of an extended resource (a name with
    /// a domain). It takes parts of all others, of huge pages too; for domains of Kubernetes itself it takes them as well,
    /// but what carries one is counted, so it is rounded like the others.
    #[must_use]
    pub fn divisibility(&self) -> Divisibility {
        if &**self == PODS || self.contains('/') { Divisibility::Whole } else { Divisibility::Parts }
    }

    /// The unit of its metrics.
    #[must_use]
    pub fn metric_unit(&self) -> MetricUnit {
        match &**self {
            CPU => MetricUnit::Milli,
            MEMORY | EPHEMERAL_STORAGE => MetricUnit::Mebi,
            _ => MetricUnit::One,
        }
    }

    /// An amount of it in the unit of its metrics, rounded down.
    #[must_use]
    pub fn metric(&self, amount: Quantity) -> i128 {
        match self.metric_unit() {
            MetricUnit::Milli => amount.in_milli(),
            MetricUnit::Mebi => amount.in_mebi(),
            MetricUnit::One => amount.in_units(),
        }
    }
}

/// Reads a list of texts by name.
///
/// # Errors
/// Names the first resource whose text is no quantity.
pub fn read_list<'a>(texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<ResourceList, ResourceError> {
    let read = |(name, text): (&str, &str)| {
        let resource = ResourceName::from(name);
        match Quantity::parse(text) {
            Ok(amount) => Ok((resource, amount)),
            Err(error) => Err(ResourceError { resource, error }),
        }
    };
    texts.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_whole_or_names_what_is_wrong() {
        let list = read_list([("cpu", "1500m"), ("memory", "64Gi")]).unwrap();
        assert_eq!(list.get(CPU).map(ToString::to_string).as_deref(), Some("1500m"));
        assert_eq!(list.get(MEMORY).map(ToString::to_string).as_deref(), Some("64Gi"));
        let error = read_list([("cpu", "1"), ("nvidia.com/gpu", "four"), ("memory", "?")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "nvidia.com/gpu: must begin with a decimal number such as `4`, `0.5` or `-1`, got \"four\""
        );
    }

    #[test]
    fn lists_that_are_written_otherwise_are_not_held_in_common() {
        let list = |text: &str| WrittenList::from(read_list([("memory", text)]).unwrap());
        assert_eq!(list("1Ki"), list("1Ki"));
        assert_ne!(list("1Ki"), list("1024"));
        assert_eq!(*list("1Ki"), *list("1024"), "the same amount");
    }

    #[test]
    fn d12_pods_and_names_with_a_domain_are_whole() {
        for whole in ["pods", "nvidia.com/gpu", "example.com/foo", "kubernetes.io/batch-cpu"] {
            assert_eq!(ResourceName::from(whole).divisibility(), Divisibility::Whole, "{whole}");
        }
        for parts in ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "pods2"] {
            assert_eq!(ResourceName::from(parts).divisibility(), Divisibility::Parts, "{parts}");
        }
    }

    #[test]
    fn metrics_are_in_milli_cores_mebibytes_and_counts() {
        let metric = |name: &str, text: &str| ResourceName::from(name).metric(text.parse().unwrap());
        assert_eq!(metric("cpu", "18550m"), 18_550);
        assert_eq!(metric("memory", "108Gi"), 110_592);
        assert_eq!(metric("ephemeral-storage", "1.5Mi"), 1);
        assert_eq!(metric("nvidia.com/gpu", "4"), 4);
        assert_eq!(metric("hugepages-2Mi", "2Mi"), 2_097_152);
    }
}
