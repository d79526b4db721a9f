//! The admission policies that hold back what RBAC cannot (decisions S19 and S27): without them the account of the syncer may write
//! any Node of the virtual cluster, and the account of a borrower any Node of the lender.
//!
//! An account tries it: a write that has to be refused is sent as a dry run, which the API server judges and does not store. About
//! another account the policies are read.

use std::collections::BTreeSet;

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use topoloom_api::names::PREFLIGHT_ANNOTATION;

use super::GRANT;
use crate::cli::preflight::access::Subject;
use crate::cli::preflight::line::Line;
use crate::cluster::{Refusal, RefusalReason, Side, leases};
use crate::manager::rights::lending::grant::guards::{denies, is_about};

/// The name of everything that is never stored. It is none of a virtual node.
const PROBE: &str = "topoloom-preflight";
/// Where the leases of nodes are.
const NODE_LEASES: &str = "kube-node-lease";
/// The check in the virtual cluster.
const SYNCER: &str = "admission policies for the syncer";
/// The check in a physical cluster.
const BORROWER: &str = "admission policy for the borrower in the physical cluster";
/// How the users of ServiceAccounts begin.
const ACCOUNTS: &str = "system:serviceaccount:";
/// What the policies of the chart are about: what real nodes have, too.
const GUARDED: [&str; 4] = ["nodes", "csinodes", "pods", "leases"];

/// What became of a write that has to be refused.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tried {
    /// A policy refused it.
    Held,
    /// It would have been stored.
    Free,
    /// The account has no right to it at all.
    NoRight,
    /// Something else.
    Unknown(String),
}

impl Tried {
    fn of(answer: Result<(), Refusal>) -> Self {
        match answer {
            Ok(()) => Self::Free,
            Err(refusal) => match refusal.reason {
                RefusalReason::DeniedByAdmission => Self::Held,
                RefusalReason::Forbidden => Self::NoRight,
                _ => Self::Unknown(refusal.to_string()),
            },
        }
    }
}

/// Whether the account of the syncer is held to virtual nodes. Nothing about a caller who is a person.
pub(super) async fn of_syncer(client: &kube::Client, subject: &Subject) -> Option<Line> {
    match subject {
        Subject::Account { namespace, name } => Some(read(client, &format!("{ACCOUNTS}{namespace}:{name}")).await),
        Subject::Caller => match caller(client).await {
            Ok(Some(user)) if user.starts_with(ACCOUNTS) => Some(tried(&user, &tries(client).await)),
            Ok(_) => None,
            Err(refusal) => {
                let found =
                    format!("they could not be tried, since it is not known who asks: {}", refusal.on(Side::Virtual));
                Some(Line::warn(SYNCER, found, ""))
            }
        },
    }
}

/// Who asks, as the API server knows it; nothing where it answers no such question.
async fn caller(client: &kube::Client) -> Result<Option<String>, Refusal> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = match api.create(&PostParams::default(), &SelfSubjectReview::default()).await {
        Ok(review) => review,
        Err(error) => {
            let refusal = Refusal::of(&error);
            let answers_none = matches!(
                refusal.reason,
                RefusalReason::NotFound | RefusalReason::NoSuchResource | RefusalReason::Forbidden
            );
            return if answers_none { Ok(None) } else { Err(refusal) };
        }
    };
    Ok(review.status.and_then(|status| status.user_info).and_then(|user| user.username))
}

/// Tries what no syncer may do, for each kind that can be tried without an object of another.
async fn tries(client: &kube::Client) -> [(&'static str, Tried); 3] {
    let metadata = || ObjectMeta { name: Some(PROBE.to_owned()), ..ObjectMeta::default() };
    let parameters = PostParams { dry_run: true, field_manager: Some(PROBE.to_owned()) };
    let (nodes, csi_nodes): (Api<Node>, Api<CSINode>) = (Api::all(client.clone()), Api::all(client.clone()));
    let node = nodes.create(&parameters, &Node { metadata: metadata(), ..Node::default() }).await;
    let csi_node = csi_nodes.create(&parameters, &CSINode { metadata: metadata(), ..CSINode::default() }).await;
    let lease = leases::could_be_made(client, NODE_LEASES, PROBE).await;
    let refusal = |error: kube::Error| Refusal::of(&error);
    [
        ("nodes", Tried::of(node.map(drop).map_err(refusal))),
        ("csinodes", Tried::of(csi_node.map(drop).map_err(refusal))),
        ("leases", Tried::of(lease)),
    ]
}

/// What the tries of an account come to.
fn tried(user: &str, tries: &[(&'static str, Tried)]) -> Line {
    let of = |wanted: &Tried| -> Vec<&str> {
        tries.iter().filter(|(_, tried)| tried == wanted).map(|(kind, _)| *kind).collect()
    };
    let free = of(&Tried::Free);
    if !free.is_empty() {
        return missing(user, &free);
    }
    let unknown = tries.iter().find_map(|(kind, tried)| match tried {
        Tried::Unknown(why) => Some(format!("{kind}: {why}")),
        Tried::Held | Tried::Free | Tried::NoRight => None,
    });
    if let Some(why) = unknown {
        return Line::warn(SYNCER, format!("they could not be tried: {why}"), "");
    }
    let held = of(&Tried::Held);
    if held.is_empty() {
        return Line::ok(SYNCER, "not tried: this account may create none of what they are about");
    }
    Line::ok(SYNCER, format!("what is of no virtual node is refused: {} (tried without storing it)", held.join(", ")))
}

fn missing(user: &str, kinds: &[&str]) -> Line {
    let found =
        format!("{user} may write any of these in the virtual cluster, also those of real nodes: {}", kinds.join(", "));
    Line::warn(
        SYNCER,
        found,
        "set syncer.admission.enabled in the chart, or write policies like those of its syncer-admission.yaml",
    )
}

/// What the policies of the cluster say about an account.
async fn read(client: &kube::Client, user: &str) -> Line {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let all = ListParams::default();
    let (policies, bindings) = tokio::join!(policies.list(&all), bindings.list(&all));
    let both = policies.and_then(|policies| Ok((policies.items, bindings?.items)));
    match both {
        Ok((policies, bindings)) => guarded(user, &policies, &bindings),
        Err(error) => {
            let refusal = Refusal::of(&error).on(Side::Virtual);
            Line::warn(SYNCER, format!("they could not be read: {refusal}"), "")
        }
    }
}

/// What is guarded by policies that deny, and that are about this account.
fn guarded(user: &str, policies: &[ValidatingAdmissionPolicy], bindings: &[ValidatingAdmissionPolicyBinding]) -> Line {
    let is_bound = |name: &str| bindings.iter().any(|binding| denies(binding, name));
    let kinds: BTreeSet<&str> = policies
        .iter()
        .filter(|policy| is_bound(policy.metadata.name.as_deref().unwrap_or_default()) && is_about(policy, user))
        .filter_map(|policy| policy.spec.as_ref()?.match_constraints.as_ref())
        .flat_map(|constraints| constraints.resource_rules.iter().flatten())
        .flat_map(|rule| rule.resources.iter().flatten())
        .map(String::as_str)
        .collect();
    let open: Vec<&str> = GUARDED.into_iter().filter(|kind| !kinds.contains(kind)).collect();
    if open.is_empty() {
        return Line::ok(SYNCER, format!("{user} is held to virtual nodes in {}", GUARDED.join(", ")));
    }
    missing(user, &open)
}

/// Whether the account of a borrower is held to its two keys on the nodes of the lender. Nothing where it may not list or patch
/// nodes, or there is none: the rights say more about that.
pub(super) async fn of_borrower(client: &kube::Client) -> Option<Line> {
    let api: Api<Node> = Api::all(client.clone());
    let nodes = match api.list_metadata(&ListParams::default().limit(1)).await.map_err(|error| Refusal::of(&error)) {
        Ok(nodes) => nodes,
        Err(refusal) if refusal.reason == RefusalReason::Forbidden => return None,
        Err(refusal) => {
            let found = format!("it could not be tried, since no node could be listed: {}", refusal.on(Side::Physical));
            return Some(Line::warn(BORROWER, found, ""));
        }
    };
    let name = nodes.items.into_iter().find_map(|node| node.metadata.name)?;
    let body = json!({"metadata": {"annotations": {PREFLIGHT_ANNOTATION: "tried"}}});
    let parameters = PatchParams { dry_run: true, field_manager: Some(PROBE.to_owned()), ..PatchParams::default() };
    let answer = api.patch(&name, &parameters, &Patch::Merge(&body)).await;
    match Tried::of(answer.map(drop).map_err(|error| Refusal::of(&error))) {
        Tried::Held => {
            let found =
                "a change of a Node beyond the policy in force and the claim is refused (tried without storing it)";
            Some(Line::ok(BORROWER, found))
        }
        Tried::Free => {
            let found = "it is missing: this account may change labels, annotations, taints and the claims of others on every Node \
                         of the lender (tried without storing it)";
            Some(Line::warn(BORROWER, found, GRANT))
        }
        Tried::NoRight => None,
        Tried::Unknown(why) => Some(Line::warn(BORROWER, format!("it could not be tried: {why}"), "")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::cli::preflight::line::Mark;

    const USER: &str = "system:serviceaccount:own:topoloom-syncer";

    #[test]
    fn s27_what_would_be_stored_is_a_missing_policy_and_what_is_refused_is_one_that_holds() {
        let said = |tries: &[(&'static str, Tried)]| {
            let line = tried(USER, tries);
            (line.mark, line.found)
        };
        let (mark, found) = said(&[("nodes", Tried::Held), ("csinodes", Tried::Free), ("leases", Tried::Held)]);
        assert!(mark == Mark::Warn && found.starts_with(USER) && found.ends_with(": csinodes"), "{found}");
        let (mark, found) = said(&[("nodes", Tried::Held), ("leases", Tried::NoRight)]);
        assert!(mark == Mark::Ok && found.contains("refused: nodes (tried"), "{found}");
        assert_eq!(said(&[("nodes", Tried::NoRight)]).0, Mark::Ok);
        let (mark, found) = said(&[("nodes", Tried::Held), ("leases", Tried::Unknown("late".to_owned()))]);
        assert!(mark == Mark::Warn && found.ends_with("leases: late"), "{found}");
    }

    fn policy(name: &str, user: &str, resources: &[&str]) -> ValidatingAdmissionPolicy {
        let condition = json!({"name": "a", "expression": format!("request.userInfo.username == '{user}'")});
        let spec =
            json!({"matchConditions": [condition], "matchConstraints": {"resourceRules": [{"resources": resources}]}});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    fn bound(name: &str, actions: &[&str]) -> ValidatingAdmissionPolicyBinding {
        let spec: Value = json!({"policyName": name, "validationActions": actions});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    }

    #[test]
    fn s27_only_policies_that_deny_and_are_about_the_account_count() {
        let policies = [
            policy("nodes", USER, &["nodes", "nodes/*"]),
            policy("csinodes", USER, &["csinodes"]),
            policy("pods", USER, &["pods", "pods/*"]),
            policy("leases", USER, &["leases"]),
        ];
        let bindings = ["nodes", "csinodes", "pods", "leases"].map(|name| bound(name, &["Deny"]));
        assert_eq!(guarded(USER, &policies, &bindings).mark, Mark::Ok);
        let line = guarded("system:serviceaccount:own:topoloom", &policies, &bindings);
        assert!(line.mark == Mark::Warn && line.found.ends_with(": nodes, csinodes, pods, leases"), "{line:?}");
        let audits = [bound("nodes", &["Audit"]), bound("csinodes", &["Deny"]), bound("leases", &["Deny"])];
        assert!(guarded(USER, &policies, &audits).found.ends_with(": nodes, pods"));
    }
}
