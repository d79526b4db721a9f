//! Hashes over length-prefixed fields: no two different contents are written as the same bytes.

use sha2::{Digest, Sha256};

use super::forest::Domain;
use super::model::{LabelOperator, LabelSelector, Selector};

/// A sha256 over fields.
pub(super) struct Hasher(Sha256);

impl Hasher {
    pub(super) fn new() -> Self {
        Self(Sha256::new())
    }

    pub(super) fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text.as_bytes());
    }

    pub(super) fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_be_bytes());
    }

    fn option(&mut self, text: Option<&str>) {
        self.number(usize::from(text.is_some()));
        self.text(text.unwrap_or_default());
    }

    pub(super) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// Twelve hexadecimal digits over the content of a forest.
pub(super) fn short_hash(domains: &[Domain]) -> String {
    let mut hasher = Hasher::new();
    hasher.number(domains.len());
    for domain in domains {
        hash_domain(&mut hasher, domain, domains);
    }
    hasher.finish().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn hash_domain(hasher: &mut Hasher, domain: &Domain, all: &[Domain]) {
    hasher.text(&domain.id);
    hasher.text(domain.kind.as_str());
    hasher.option(domain.fixed_name.as_deref());
    hasher.number(domain.tier.get() as usize);
    hasher.option(domain.tier_name.as_deref());
    hasher.number(domain.labels.len());
    for (key, value) in &domain.labels {
        hasher.text(key);
        hasher.text(value);
    }
    hasher.number(domain.nodes.len());
    for node in &domain.nodes {
        hasher.text(node);
    }
    // Positions follow from the sorted ids, but an id does not depend on the rest of the list.
    hasher.number(domain.children.len());
    for child in domain.children.iter().filter_map(|child| all.get(*child)) {
        hasher.text(&child.id);
    }
    hasher.number(domain.selectors.len());
    for selector in &domain.selectors {
        hash_selector(hasher, selector);
    }
}

fn hash_selector(hasher: &mut Hasher, selector: &Selector) {
    match selector {
        Selector::Exact(name) => {
            hasher.number(0);
            hasher.text(name);
        }
        Selector::Regex(pattern) => {
            hasher.number(1);
            hasher.text(pattern);
        }
        Selector::Labels(labels) => {
            hasher.number(2);
            hash_labels(hasher, labels);
        }
        Selector::Absent => hasher.number(3),
    }
}

fn hash_labels(hasher: &mut Hasher, labels: &LabelSelector) {
    hasher.number(labels.match_labels.len());
    for (key, value) in &labels.match_labels {
        hasher.text(key);
        hasher.text(value);
    }
    hasher.number(labels.match_expressions.len());
    for requirement in &labels.match_expressions {
        hasher.text(&requirement.key);
        hasher.text(match &requirement.operator {
            LabelOperator::In => "In",
            LabelOperator::NotIn => "NotIn",
            LabelOperator::Exists => "Exists",
            LabelOperator::DoesNotExist => "DoesNotExist",
            LabelOperator::Unknown(other) => other,
        });
        hasher.number(requirement.values.len());
        for value in &requirement.values {
            hasher.text(value);
        }
    }
}
