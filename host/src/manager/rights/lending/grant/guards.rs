//! Whether the admission policies are there that restrict what the role of an account allows (decision S19).
//!
//! Owns which of them an account needs. That is read off the role as it is in the cluster: a grant may have been applied in part, or in
//! another form. Pure: from objects to sentences, no client.
//!
//! # Failure story
//!
//! A policy that is missing, that is about another account, or whose binding does not deny is a gap, and a gap has a sentence. What a
//! policy says beyond that is the lender's, and is not judged.

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};
use topoloom_api::names::GROUP;
use topoloom_api::resource_leasing_policy::PLURAL;

use super::Account;
use crate::manager::rights::lending::READS;

/// An admission policy of a grant and its binding, which have one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// The name of both.
    pub name: String,
    /// What the account may write without it.
    pub allows: &'static str,
    user: String,
}

impl Guard {
    /// Those without which an account with this role may write more than a borrower may have.
    #[must_use]
    pub fn needed(account: &Account, role: &ClusterRole) -> Vec<Self> {
        let all = [
            ("", "nodes", account.role(), "any Node"),
            (GROUP, PLURAL, account.policies_guard(), "the status of any ResourceLeasingPolicy"),
        ];
        let writes =
            |group: &str, resource: &str| role.rules.iter().flatten().any(|rule| is_write(rule, group, resource));
        let needed = all.into_iter().filter(|(group, resource, ..)| writes(group, resource));
        needed.map(|(.., name, allows)| Self { name, allows, user: account.user() }).collect()
    }

    /// Why it does not restrict the account, by what is stored under its name; nothing where it does.
    #[must_use]
    pub fn gap(
        &self,
        policy: Option<&ValidatingAdmissionPolicy>,
        binding: Option<&ValidatingAdmissionPolicyBinding>,
    ) -> Option<String> {
        let Self { name, user, .. } = self;
        match (policy, binding) {
            (None, _) => Some(format!("there is no ValidatingAdmissionPolicy {name}")),
            (Some(policy), _) if !is_about(policy, user) => {
                Some(format!("ValidatingAdmissionPolicy {name} is about another account than {user}"))
            }
            (Some(_), None) => Some(format!("there is no ValidatingAdmissionPolicyBinding {name}")),
            (Some(_), Some(binding)) if !denies(binding, name) => Some(format!(
                "ValidatingAdmissionPolicyBinding {name} does not deny what the policy of this name refuses"
            )),
            (Some(_), Some(_)) => None,
        }
    }
}

/// Whether a rule allows a write of a resource, or of a part of it.
fn is_write(rule: &PolicyRule, group: &str, resource: &str) -> bool {
    let is_part = |word: &str| word.strip_prefix(resource).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_group = rule.api_groups.iter().flatten().any(|word| word == "*" || word == group);
    let is_resource = rule.resources.iter().flatten().any(|word| word.starts_with('*') || is_part(word));
    is_group && is_resource && rule.verbs.iter().any(|verb| !READS.contains(&verb.as_str()))
}

/// Whether a policy is about this user.
#[must_use]
pub fn is_about(policy: &ValidatingAdmissionPolicy, user: &str) -> bool {
    let quoted = format!("'{user}'");
    let mut conditions = policy.spec.iter().flat_map(|spec| spec.match_conditions.iter().flatten());
    conditions.any(|condition| condition.expression.contains(&quoted))
}

/// Whether a binding denies what the policy of this name refuses.
#[must_use]
pub fn denies(binding: &ValidatingAdmissionPolicyBinding, policy: &str) -> bool {
    binding.spec.as_ref().is_some_and(|spec| {
        let actions = spec.validation_actions.as_deref().unwrap_or_default();
        spec.policy_name.as_deref() == Some(policy) && actions.iter().any(|action| action == "Deny")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn account(namespace: &str) -> Account {
        Account { namespace: namespace.to_owned(), name: "east.lent".to_owned() }
    }

    fn needed(rules: Value) -> Vec<String> {
        let role = serde_json::from_value(json!({"metadata": {}, "rules": rules})).unwrap();
        Guard::needed(&account("accounts"), &role).into_iter().map(|guard| guard.name).collect()
    }

    #[test]
    fn s19_what_a_role_allows_says_which_policies_its_account_needs() {
        let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
        let (nodes, policies) = ("topoloom-lend.east.lent", "topoloom-lend-policies.east.lent");
        for (rules, wanted) in [
            (json!([]), vec![]),
            (json!([rule("", "nodes", &["get", "list", "watch"]), rule("", "pods", &["delete"])]), vec![]),
            (json!([rule("metrics.k8s.io", "nodes", &["patch"]), rule("", "nodesets", &["patch"])]), vec![]),
            (json!([rule("", "nodes", &["get"]), rule("", "nodes", &["patch"])]), vec![nodes]),
            (json!([rule("", "nodes/status", &["update"])]), vec![nodes]),
            (json!([rule(GROUP, "resourceleasingpolicies/status", &["patch"])]), vec![policies]),
            (json!([rule("*", "*", &["*"])]), vec![nodes, policies]),
        ] {
            assert_eq!(needed(rules.clone()), wanted, "{rules}");
        }
    }

    #[test]
    fn s19_a_policy_that_is_about_another_account_or_only_audits_is_a_gap() {
        let policy = |user: &str| -> ValidatingAdmissionPolicy {
            let condition = json!({"name": "a", "expression": format!("request.userInfo.username == '{user}'")});
            serde_json::from_value(json!({"metadata": {}, "spec": {"matchConditions": [condition]}})).unwrap()
        };
        let binding = |policy: &str, action: &str| -> ValidatingAdmissionPolicyBinding {
            let spec = json!({"policyName": policy, "validationActions": [action]});
            serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()
        };
        let (ours, other) = (account("accounts"), account("elsewhere"));
        let guard = Guard { name: ours.role(), allows: "any Node", user: ours.user() };
        let name = guard.name.as_str();
        let (about_us, about_another) = (policy(&ours.user()), policy(&other.user()));
        let gap = |policy: &_, binding: &_| guard.gap(Some(policy), Some(binding)).unwrap_or_default();
        assert_eq!(gap(&about_us, &binding(name, "Deny")), "");
        assert!(gap(&about_us, &binding(name, "Audit")).contains("does not deny"));
        assert!(gap(&about_us, &binding("another", "Deny")).contains("does not deny"));
        let why = gap(&about_another, &binding(name, "Deny"));
        assert!(why.ends_with("is about another account than system:serviceaccount:accounts:east.lent"), "{why}");
        assert!(guard.gap(None, None).is_some_and(|why| why.contains("no ValidatingAdmissionPolicy ")));
    }
}
