//! The rules that the chart renders, one by one, so that a test can take each away.

use anyhow::{Context, Result};
use serde_json::Value;

/// One rule of a role, by its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// ClusterRole or Role.
    pub kind: String,
    /// The role's namespace; empty for a ClusterRole.
    pub namespace: String,
    /// The role's name.
    pub role: String,
    /// Its place in the role.
    pub index: usize,
    /// What it allows.
    pub rule: Value,
}

/// Every rule of every role among the objects.
#[must_use]
pub fn rules(objects: &[Value]) -> Vec<Rule> {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let roles = objects.iter().filter(|object| object["kind"] == "ClusterRole" || object["kind"] == "Role");
    let of_role = |role: &Value| {
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        let (kind, metadata) = (word(&role["kind"]), role["metadata"].clone());
        rules.into_iter().enumerate().map(move |(index, rule)| Rule {
            kind: kind.clone(),
            namespace: word(&metadata["namespace"]),
            role: word(&metadata["name"]),
            index,
            rule,
        })
    };
    roles.flat_map(of_role).collect()
}

impl Rule {
    /// Its verbs.
    #[must_use]
    pub fn verbs(&self) -> Vec<&str> {
        self.rule["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The role without this rule, to be applied in its place.
    ///
    /// # Errors
    /// When the objects have no such role.
    pub fn removed_from(&self, objects: &[Value]) -> Result<Value> {
        self.without(&self.verbs(), objects)
    }

    /// The role without these verbs of this rule, to be applied in its place; without the rule where it has no others.
    ///
    /// # Errors
    /// When the objects have no such role.
    pub fn without(&self, verbs: &[&str], objects: &[Value]) -> Result<Value> {
        let role = objects.iter().find(|object| {
            let metadata = &object["metadata"];
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            object["kind"] == self.kind && metadata["name"] == self.role && namespace == self.namespace
        });
        let mut role = role.with_context(|| format!("there is no {} {}", self.kind, self.role))?.clone();
        let rules = role["rules"].as_array_mut().context("the role has no rules")?;
        anyhow::ensure!(rules.get(self.index) == Some(&self.rule), "the role has another rule there");
        let left: Vec<&str> = self.verbs().into_iter().filter(|verb| !verbs.contains(verb)).collect();
        if left.is_empty() {
            rules.remove(self.index);
        } else {
            rules[self.index]["verbs"] = left.into();
        }
        Ok(role)
    }
}
