//! The admission policies that hold a borrower to its two keys on the nodes of the lender, and to the status of the policies that are
//! for it (decision S19).
//!
//! A role can only allow all of a node or nothing. The policy about nodes refuses, for this one ServiceAccount, every write of a node
//! but one that changes the label of the policy in force and the claim. A claim names the virtual cluster, so that of another is
//! known by its beginning: it is never changed, never removed, and never written by this account, and the label of a node that
//! another has claimed stays as well. Everything else is the lender's: taints, `spec`, other labels, other annotations, and the
//! lender's own node lock, which is an annotation with the prefix of ours.
//!
//! A role names no policy of a lender that does not exist yet, so it allows the status of all of them. There stands the last valid
//! version of each policy, and since when its next boundary was announced: the syncer of another borrower goes by both.
//!
//! # Failure story
//!
//! `failurePolicy: Fail`: an expression that cannot be computed refuses the write. A policy that is gone takes the limits away, and
//! leaves what the role allows: `patch` of nodes, or of the status of every policy. So lender and policy go together, and a grant is
//! applied as a whole. Where a policy is missing the account gets no token ([`guards`](super::guards)).

use serde_json::{Value, json};
use topoloom_api::names::GROUP;
use topoloom_api::names::lending::{LEASED_BY, POLICY_APPLIED};
use topoloom_api::resource_leasing_policy::{KIND, PLURAL};

use super::{Account, metadata};

/// What `metadata` has beside labels and annotations, and this account never changes.
const OTHERS: [&str; 2] = ["finalizers", "ownerReferences"];

/// The policy about nodes, and its binding. `cluster`: how the claims of the borrower begin.
pub(super) fn of_nodes(account: &Account, name: &str, cluster: &str) -> [Value; 2] {
    let user = account.user();
    pair(&user, name, ("", "nodes"), &variables(cluster), &validations(&user, cluster))
}

/// The policy about the status of ResourceLeasingPolicies, and its binding. `cluster`: the virtual cluster of the borrower, where it is
/// known.
pub(super) fn of_policies(account: &Account, name: &str, binding: &str, cluster: Option<&str>) -> [Value; 2] {
    let user = account.user();
    let who = format!("{user} may write only the status of {KIND}s that are for its binding {binding}");
    let mut all = vec![
        (
            "request.operation == 'UPDATE' && has(request.subResource) && request.subResource == 'status'".to_owned(),
            "It must not write anything else of one",
        ),
        (
            format!(
                "request.operation != 'UPDATE' || (has(oldObject.spec) && has(oldObject.spec.cluster) && \
                 oldObject.spec.cluster == '{binding}')"
            ),
            "This one names another binding",
        ),
    ];
    if let Some(cluster) = cluster {
        all.push((
            format!(
                "request.operation != 'UPDATE' || !has(oldObject.spec) || !has(oldObject.spec.virtualCluster) || \
                 oldObject.spec.virtualCluster in ['', '{cluster}']"
            ),
            "This one names another virtual cluster",
        ));
    }
    let all =
        all.into_iter().map(|(expression, why)| json!({"expression": expression, "message": format!("{who}. {why}")}));
    pair(&user, name, (GROUP, PLURAL), &json!([]), &Value::from_iter(all))
}

/// A policy for one user about a resource with all that is below it, and its binding.
fn pair(user: &str, name: &str, (group, resource): (&str, &str), variables: &Value, validations: &Value) -> [Value; 2] {
    let version = "admissionregistration.k8s.io/v1";
    [
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicy", "metadata": metadata(name, None),
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [group], "apiVersions": ["*"], "operations": ["*"],
                    "resources": [resource, format!("{resource}/*")],
                }]},
                "matchConditions": [
                    {"name": "this-borrower", "expression": format!("request.userInfo.username == '{user}'")},
                ],
                "variables": variables,
                "validations": validations,
            },
        }),
        json!({
            "apiVersion": version, "kind": "ValidatingAdmissionPolicyBinding", "metadata": metadata(name, None),
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }),
    ]
}

/// What the expressions are made of. A map is empty where there is none, so that no expression has to look for that.
fn variables(cluster: &str) -> Value {
    let map = |object: &str, field: &str| {
        format!("variables.edits && has({object}.metadata.{field}) ? {object}.metadata.{field} : {{}}")
    };
    let ours = |map: &str| {
        format!("'{LEASED_BY}' in variables.{map} && variables.{map}['{LEASED_BY}'].startsWith('{cluster}/')")
    };
    let same = |before: &str, after: &str, key: &str| {
        format!(
            "('{key}' in variables.{before}) == ('{key}' in variables.{after}) && (!('{key}' in variables.{after}) || \
             variables.{before}['{key}'] == variables.{after}['{key}'])"
        )
    };
    let all = [
        (
            "edits",
            "request.operation == 'UPDATE' && (!has(request.subResource) || request.subResource == '')".to_owned(),
        ),
        ("notesBefore", map("oldObject", "annotations")),
        ("notesAfter", map("object", "annotations")),
        ("labelsBefore", map("oldObject", "labels")),
        ("labelsAfter", map("object", "labels")),
        ("wasFree", format!("!('{LEASED_BY}' in variables.notesBefore)")),
        ("wasOurs", ours("notesBefore")),
        ("isFree", format!("!('{LEASED_BY}' in variables.notesAfter)")),
        ("isOurs", ours("notesAfter")),
        ("keepsClaim", same("notesBefore", "notesAfter", LEASED_BY)),
        ("keepsPolicy", same("labelsBefore", "labelsAfter", POLICY_APPLIED)),
    ];
    Value::from_iter(all.map(|(name, expression)| json!({"name": name, "expression": expression})))
}

fn validations(user: &str, cluster: &str) -> Value {
    let who = format!("{user} may change only the label {POLICY_APPLIED} and the annotation {LEASED_BY} of Nodes");
    let others = |before: &str, after: &str, key: &str| {
        format!(
            "variables.{after}.all(key, key == '{key}' || (key in variables.{before} && variables.{before}[key] == \
             variables.{after}[key])) && variables.{before}.all(key, key == '{key}' || key in variables.{after})"
        )
    };
    let field = |path: &str| {
        format!(
            "!variables.edits || (has(object.{path}) == has(oldObject.{path}) && (!has(object.{path}) || object.{path} == \
             oldObject.{path}))"
        )
    };
    let mut all = vec![
        ("variables.edits".to_owned(), "It must not create, delete or connect, or write a subresource".to_owned()),
        (others("notesBefore", "notesAfter", LEASED_BY), "This write changes another annotation".to_owned()),
        (others("labelsBefore", "labelsAfter", POLICY_APPLIED), "This write changes another label".to_owned()),
        (field("spec"), "This write changes spec".to_owned()),
        (
            "variables.keepsClaim || variables.wasFree || variables.wasOurs".to_owned(),
            "This write changes the claim of another borrower".to_owned(),
        ),
        (
            "variables.keepsClaim || variables.isFree || variables.isOurs".to_owned(),
            format!("This write makes a claim that is not of the virtual cluster {cluster}"),
        ),
        (
            "variables.keepsPolicy || ((variables.wasFree || variables.wasOurs) && (variables.wasOurs || variables.isOurs))"
                .to_owned(),
            "This write changes the policy of a Node that this borrower has not claimed".to_owned(),
        ),
    ];
    for other in OTHERS {
        all.push((field(&format!("metadata.{other}")), format!("This write changes metadata.{other}")));
    }
    let all =
        all.into_iter().map(|(expression, why)| json!({"expression": expression, "message": format!("{who}. {why}")}));
    Value::from_iter(all)
}
