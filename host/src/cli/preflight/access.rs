//! Rights, asked for one by one: what a role holds is not what counts, but what the API server answers.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use topoloom_api::rules::{is_dns_label, is_dns_subdomain};
use topoloom_core::controllers::BOTTOMUP_SYNCER;

use super::line::Line;
use crate::cluster::{Refusal, Side};
use crate::manager::rights::{Need, Question, Right, RightScope};

/// Questions under way at a time.
const CONCURRENCY: usize = 8;

/// Whose rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// Those of the caller.
    Caller,
    /// Those of a ServiceAccount.
    Account {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl Subject {
    /// Reads `NAMESPACE/NAME`.
    pub(super) fn account(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        let is_one = is_dns_label(namespace) && is_dns_subdomain(name);
        is_one.then(|| Self::Account { namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

/// Asks for every one of these rights, which are of one cluster.
pub(super) async fn ask(client: &kube::Client, subject: &Subject, rights: &[Right]) -> Vec<Line> {
    let mut questions: Vec<Question> = rights.iter().flat_map(Right::questions).collect();
    questions.sort();
    questions.dedup();
    let answers = stream::iter(questions)
        .map(|question| async {
            let answer = review(client, subject, &question).await;
            (question, answer)
        })
        .buffer_unordered(CONCURRENCY);
    let answers: BTreeMap<Question, Result<bool, Refusal>> = answers.collect().await;
    if let Some(refusal) = answers.values().find_map(|answer| answer.as_ref().err()) {
        let todo = match subject {
            Subject::Caller => "",
            Subject::Account { .. } => {
                "run it without --service-account, or in the pod: kubectl exec deploy/topoloom -- topoloom preflight"
            }
        };
        let cluster = rights.first().map(cluster).unwrap_or_default();
        let found = format!("they could not be checked: {refusal}");
        return vec![Line::fail(&format!("rights{cluster}"), found, todo)];
    }
    let has = |question: &Question| matches!(answers.get(question), Some(Ok(true)));
    let lines: Vec<Line> = rights.iter().map(|right| judged(right, has)).collect();
    lines
}

/// What is missing of one right.
fn judged(right: &Right, has: impl Fn(&Question) -> bool) -> Line {
    let what = format!("right {} on {}{}", right.verbs.join(","), right.resource, scope(right));
    let missing: Vec<Question> = right.questions().into_iter().filter(|question| !has(question)).collect();
    if missing.is_empty() {
        return Line::ok(&what, format!("given ({})", right.part));
    }
    // The rule to add names all that is missing and nothing else.
    let mut rule = right.clone();
    rule.verbs.retain(|verb| missing.iter().any(|question| question.verb == *verb));
    rule.names.retain(|name| missing.iter().any(|question| question.name.as_ref() == Some(name)));
    let found = format!("missing for {}: {}", right.part, right.why);
    // The rule says it by itself where it is not of the cluster that the host runs in.
    let cluster = if right.side == Side::Physical { String::new() } else { cluster(right) };
    let todo = format!("add the rule {rule}{cluster}");
    match right.need {
        Need::Required => Line::fail(&what, found, todo),
        Need::Useful => Line::warn(&what, found, todo),
    }
}

/// In which cluster, where two are in sight.
fn cluster(right: &Right) -> String {
    if right.side == Side::Physical || right.part == BOTTOMUP_SYNCER {
        format!(" in {}", right.side)
    } else {
        String::new()
    }
}

/// Where, in words.
fn scope(right: &Right) -> String {
    let names = if right.names.is_empty() { String::new() } else { format!(" {}", right.names.join(", ")) };
    let cluster = cluster(right);
    match &right.place {
        RightScope::Cluster => format!("{names}{cluster}"),
        RightScope::Namespace(namespace) => format!("{names} in {namespace}{cluster}"),
    }
}

async fn review(client: &kube::Client, subject: &Subject, question: &Question) -> Result<bool, Refusal> {
    let attributes = ResourceAttributes {
        group: Some(question.group.to_owned()),
        resource: Some(question.resource.to_owned()),
        subresource: question.subresource.map(str::to_owned),
        verb: Some(question.verb.to_owned()),
        name: question.name.clone(),
        namespace: match &question.place {
            RightScope::Cluster => None,
            RightScope::Namespace(namespace) => Some(namespace.clone()),
        },
        ..ResourceAttributes::default()
    };
    let parameters = PostParams::default();
    let status = match subject {
        Subject::Caller => {
            let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
            let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
            api.create(&parameters, &SelfSubjectAccessReview { spec, ..Default::default() }).await.map(|it| it.status)
        }
        Subject::Account { namespace, name } => {
            let groups =
                ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
            let spec = SubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                user: Some(format!("system:serviceaccount:{namespace}:{name}")),
                groups: Some(groups.map(str::to_owned).to_vec()),
                ..Default::default()
            };
            let api: Api<SubjectAccessReview> = Api::all(client.clone());
            api.create(&parameters, &SubjectAccessReview { spec, ..Default::default() }).await.map(|it| it.status)
        }
    };
    let status = status.map_err(|error| Refusal::of(&error))?;
    Ok(status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::preflight::line::Mark;

    fn right(need: Need) -> Right {
        Right {
            side: Side::Virtual,
            place: RightScope::Namespace("ns".into()),
            group: "",
            resource: "configmaps",
            names: vec!["a".into(), "b".into()],
            verbs: vec!["get", "list"],
            why: "it holds what is needed",
            part: "another part",
            need,
        }
    }

    #[test]
    fn the_rule_to_add_is_what_is_missing_and_no_more() {
        let line = judged(&right(Need::Required), |question| {
            !(question.verb == "list" && question.name.as_deref() == Some("b"))
        });
        assert_eq!((line.mark, line.what.as_str()), (Mark::Fail, "right get,list on configmaps a, b in ns"));
        assert_eq!(line.found, "missing for another part: it holds what is needed");
        let rule = r#"Role in namespace ns: {apiGroups: [""], resources: ["configmaps"], resourceNames: ["b"], verbs: ["list"]}"#;
        assert_eq!(line.todo, [format!("add the rule {rule}")]);
    }

    #[test]
    fn s19_a_missing_right_names_verb_resource_and_the_side_that_is_not_this_cluster() {
        let physical = Right { side: Side::Physical, ..right(Need::Required) };
        let line = judged(&physical, |question| {
            assert_eq!(question.side, Side::Physical);
            question.verb == "get"
        });
        assert_eq!(line.what, "right get,list on configmaps a, b in ns in the physical cluster");
        let rule = r#"Role in namespace ns: {apiGroups: [""], resources: ["configmaps"], resourceNames: ["a", "b"], verbs: ["list"]}"#;
        assert_eq!(line.todo, [format!("add the rule {rule} in the physical cluster")]);
    }

    #[test]
    fn s19_where_two_clusters_are_in_sight_a_missing_right_of_this_one_names_it_as_well() {
        let ours = Right { part: BOTTOMUP_SYNCER, names: Vec::new(), ..right(Need::Required) };
        let line = judged(&ours, |question| question.verb == "get");
        assert_eq!(line.what, "right get,list on configmaps in ns in the virtual cluster");
        let rule = r#"Role in namespace ns: {apiGroups: [""], resources: ["configmaps"], verbs: ["list"]}"#;
        assert_eq!(line.todo, [format!("add the rule {rule} in the virtual cluster")]);
    }

    #[test]
    fn what_is_only_useful_is_a_warning_and_what_is_there_is_fine() {
        assert_eq!(judged(&right(Need::Useful), |_| false).mark, Mark::Warn);
        assert_eq!(judged(&right(Need::Required), |_| true).mark, Mark::Ok);
    }

    #[test]
    fn an_account_is_a_namespace_and_a_name() {
        let account = Subject::Account { namespace: "a".into(), name: "b.c".into() };
        assert_eq!(Subject::account("a/b.c"), Some(account));
        for wrong in ["a", "/b", "a/", "A/b", "a/b/c"] {
            assert_eq!(Subject::account(wrong), None, "{wrong}");
        }
    }
}
