//! What the pods of a virtual node request beyond its size (decision S14).
//!
//! A node that shrinks evicts no one: the pods that are there stay, and the virtual scheduler places no more. The operator
//! reads from the condition `Overcommitted` by how much, since the physical node may be short of room then, and its kubelet
//! refuse what comes.
//!
//! Owns: the difference and its sentence. It never evicts and never keeps a node large.
//!
//! Failure story: none.

use std::fmt;

use crate::quantity::Quantity;
use crate::resources::{ResourceList, ResourceName};

/// How many resources the sentence names; a condition is read by people.
const NAMED: usize = 10;

/// One resource of which more is requested than there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overcommit {
    /// The resource.
    pub resource: ResourceName,
    /// What the pods of the virtual node request in sum.
    pub requested: Quantity,
    /// What the virtual node has.
    pub lent: Quantity,
    /// How much is missing.
    pub missing: Quantity,
}

/// All resources of which more is requested than there is, by name. It prints as the message of the condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Overcommitted(Vec<Overcommit>);

impl Overcommitted {
    /// Compares what the pods of a virtual node request in sum with its size. A resource that the node lacks is there with
    /// nothing.
    #[must_use]
    pub fn of(requested: &ResourceList, lent: &ResourceList) -> Self {
        let excess = |(name, requested): (&ResourceName, &Quantity)| {
            let lent = lent.get(name).copied().unwrap_or_default().max(Quantity::ZERO);
            let requested = if lent.is_zero() { *requested } else { requested.with_format(lent.format()) };
            let missing = requested.saturating_sub(lent);
            (!missing.is_zero()).then(|| Overcommit { resource: name.clone(), requested, lent, missing })
        };
        Self(requested.iter().filter_map(excess).collect())
    }

    /// Whether the condition is True.
    #[must_use]
    pub fn is_overcommitted(&self) -> bool {
        !self.0.is_empty()
    }

    /// Each such resource, by name.
    #[must_use]
    pub fn resources(&self) -> &[Overcommit] {
        &self.0
    }
}

impl fmt::Display for Overcommitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the pods of this node request no more than it has");
        }
        f.write_str("the pods of this node request more than it has: ")?;
        for (place, Overcommit { resource, requested, lent, missing }) in self.0.iter().take(NAMED).enumerate() {
            let separator = if place == 0 { "" } else { "; " };
            write!(f, "{separator}{resource} {requested} of {lent} ({missing} too much)")?;
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::read_list;

    fn of(requested: &[(&str, &str)], lent: &[(&str, &str)]) -> Overcommitted {
        let list = |texts: &[(&str, &str)]| read_list(texts.iter().copied()).unwrap();
        Overcommitted::of(&list(requested), &list(lent))
    }

    #[test]
    fn s14_what_no_longer_fits_is_named_with_how_much_it_is() {
        let over = of(
            &[("cpu", "4500m"), ("memory", "12884901888"), ("nvidia.com/gpu", "2"), ("pods", "3")],
            &[("cpu", "4"), ("memory", "8Gi"), ("pods", "3")],
        );
        assert!(over.is_overcommitted());
        assert_eq!(
            over.to_string(),
            "the pods of this node request more than it has: cpu 4500m of 4 (500m too much); memory 12Gi of 8Gi (4Gi too \
             much); nvidia.com/gpu 2 of 0 (2 too much)"
        );
        assert_eq!(over.resources().len(), 3);
    }

    #[test]
    fn s14_a_node_with_room_is_not_overcommitted() {
        let over =
            of(&[("cpu", "4"), ("nvidia.com/gpu", "0"), ("example.com/x", "-1")], &[("cpu", "4"), ("pods", "1")]);
        assert!(!over.is_overcommitted());
        assert_eq!(over.to_string(), "the pods of this node request no more than it has");
    }

    #[test]
    fn s14_a_sentence_names_ten_resources() {
        let names: Vec<_> = (10..35).map(|number| format!("example.com/{number}")).collect();
        let requested: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        let text = of(&requested, &[]).to_string();
        assert!(text.ends_with("example.com/19 1 of 0 (1 too much); and 15 more"), "{text}");
    }
}
