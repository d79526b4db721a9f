//! What else the cluster must have: definitions, a lease that can be read, no other writer, an admission that
//! answers.

use jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use topoloom_api::{HyperNode, discovery_source, hyper_node};

use super::line::Line;
use crate::cluster::leases::{self, LeaseFreshness, LeaseStatus};
use crate::cluster::{Refusal, RefusalReason};
use crate::manager::rights::{Extent, RightsSettings};
use crate::topology::writers::{self, ForeignWriter, Writers};

/// The HyperNode that is never stored.
const PROBE: &str = "topoloom-preflight";
/// The check of other programs that write HyperNodes.
const SECOND_WRITER: &str = "second writer";
/// The check of admission.
const ADMISSION: &str = "admission of HyperNodes";

/// Whether both resources are served with our version. Discovery is open to every authenticated user, and lists only
/// established definitions.
pub(super) async fn definitions(client: &kube::Client) -> Vec<Line> {
    let apply = topoloom_api::crd::APPLY;
    let hyper_nodes = served(client, hyper_node::API_VERSION, hyper_node::PLURAL).await;
    let what = "definition of HyperNodes";
    let first = match hyper_nodes {
        Ok(true) => Line::ok(what, format!("{} is served", hyper_node::API_VERSION)),
        Ok(false) => Line::fail(
            what,
            format!("the API server does not serve {}: the host cannot keep a topology", hyper_node::API_VERSION),
            apply,
        ),
        Err(refusal) => Line::fail(what, format!("it could not be read: {refusal}"), ""),
    };
    let what = "definition of DiscoverySources";
    let second = match served(client, discovery_source::API_VERSION, discovery_source::PLURAL).await {
        Ok(true) => Line::ok(what, format!("{} is served", discovery_source::API_VERSION)),
        Ok(false) => {
            let found = format!(
                "the API server does not serve {}: sources work, but have no status and no memory",
                discovery_source::API_VERSION
            );
            Line::warn(what, found, apply)
        }
        Err(refusal) => Line::fail(what, format!("it could not be read: {refusal}"), ""),
    };
    vec![first, second]
}

/// Whether a resource and its status are served in this version.
pub(super) async fn served(client: &kube::Client, version: &str, plural: &str) -> Result<bool, Refusal> {
    match client.list_api_group_resources(version).await.map_err(|error| Refusal::of(&error)) {
        Ok(list) => {
            let has = |name: &str| list.resources.iter().any(|resource| resource.name == name);
            Ok(has(plural) && has(&format!("{plural}/status")))
        }
        Err(refusal) if matches!(refusal.reason, RefusalReason::NoSuchResource | RefusalReason::NotFound) => Ok(false),
        Err(refusal) => Err(refusal),
    }
}

/// The leader of each group.
pub(super) async fn leaders(client: &kube::Client, setting: &RightsSettings, now: Timestamp) -> Vec<Line> {
    let Some((namespace, name)) = &setting.leases else { return Vec::new() };
    let mut lines = Vec::new();
    for group in setting.groups() {
        let name = group.lease(name);
        let what = format!("lease {namespace}/{name}");
        lines.push(match leases::read(client, namespace, &name, now).await {
            // Without its namespace no replica ever leads; reading it alone does not show that.
            Ok(None) => match leases::could_be_made(client, namespace, &name).await {
                Err(refusal) if refusal.reason == RefusalReason::NotFound => Line::fail(
                    &what,
                    format!("it cannot be created: {refusal}"),
                    "create the namespace, or name another one with --namespace or --leader-elect-resource-namespace",
                ),
                // Whether the caller may create it is checked among the rights.
                _ => Line::ok(&what, "it does not exist yet: the first replica creates it"),
            },
            Ok(Some(held)) => match held.standing {
                LeaseFreshness::Fresh => Line::ok(&what, format!("{} leads", held.holder)),
                LeaseFreshness::Free => Line::ok(&what, "no replica leads: the next one takes over at once"),
                LeaseFreshness::Expired => Line::warn(
                    &what,
                    format!(
                        "no replica leads: {} renewed it last {} s ago",
                        held.holder,
                        held.renewed_seconds_ago.unwrap_or(0)
                    ),
                    "if replicas run, read their logs and /readyz; otherwise start one",
                ),
            },
            Err(refusal) => Line::warn(&what, format!("it could not be read: {refusal}"), ""),
        });
    }
    lines
}

/// Whether another program writes HyperNodes.
pub(super) async fn second_writers(client: &kube::Client, setting: &RightsSettings, now: Timestamp) -> Vec<Line> {
    let what = SECOND_WRITER;
    let mut lines = Vec::new();
    let (rivals, unseen) = writers::rivals(client, &setting.rivals, now).await;
    lines.extend(rivals.iter().map(|rival| {
        let (namespace, name) = (&rival.namespace, &rival.name);
        let found =
            format!("Volcano's own HyperNode controller runs: {} holds the lease {namespace}/{name}", rival.holder);
        match setting.extent {
            Extent::Everything => {
                let todo = "switch it off, or run with --observe: while it leads, no source of ours is written";
                Line::fail(what, found, todo)
            }
            // That is what a trial is for.
            Extent::NoHyperNodes | Extent::LeasesOnly => {
                Line::warn(what, found, "switch it off before HyperNodes are written here")
            }
        }
    }));
    lines.extend(
        unseen.map(|refusal| {
            Line::warn(what, format!("leases of Volcano's controller could not be listed: {refusal}"), "")
        }),
    );
    match writers::of_objects(client, now).await {
        Ok(found) => lines.extend(other_writers(&found, &rivals)),
        // There are none to write.
        Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => {}
        Err(refusal) => lines.push(Line::warn(what, format!("HyperNodes could not be listed: {refusal}"), "")),
    }
    if lines.is_empty() {
        lines.push(Line::ok(what, "there is none"));
    }
    lines
}

/// What the managers of fields show. Old writes of Volcano count only if nothing else shows that it runs.
fn other_writers(Writers { lately, volcanos }: &Writers, rivals: &[LeaseStatus]) -> Vec<Line> {
    let mut lines: Vec<Line> = lately
        .iter()
        .map(|ForeignWriter { manager, objects, example }| {
            let found = format!("{manager} changed {objects} HyperNodes of ours lately, {example} among them");
            let todo = "find that program: the host repairs its changes, and stops writing if it keeps changing them";
            Line::warn(SECOND_WRITER, found, todo)
        })
        .collect();
    let is_shown = |manager: &str| !rivals.is_empty() || lately.iter().any(|writer| writer.manager == manager);
    let unsure = volcanos.iter().filter(|volcano| !is_shown(&volcano.manager));
    lines.extend(unsure.map(|ForeignWriter { manager, objects, example }| {
        let found = format!(
            "{manager} wrote {objects} HyperNodes that topoloom never wrote, {example} among them. Whether Volcano's \
             HyperNode controller still runs is not known: inside of vc-controller-manager, as by default, it has no lease"
        );
        let todo = "before HyperNodes are written here, see that it is off: -hyperNode-controller in the --controllers of \
                    vc-controller-manager";
        Line::warn(SECOND_WRITER, found, todo)
    }));
    lines
}

/// Whether a valid HyperNode passes admission: it is created without being stored. An operator who only observes so far
/// sees it before HyperNodes are written, and not after.
pub(super) async fn admission(client: &kube::Client, extent: Extent) -> Line {
    let what = ADMISSION;
    let body = json!({
        "apiVersion": hyper_node::API_VERSION, "kind": hyper_node::KIND, "metadata": {"name": PROBE},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": PROBE}}}]},
    });
    let probe = match serde_json::from_value::<HyperNode>(body) {
        Ok(probe) => probe,
        Err(error) => return Line::fail(what, error.to_string(), ""),
    };
    let api: Api<HyperNode> = Api::all(client.clone());
    let parameters = PostParams { dry_run: true, field_manager: Some(PROBE.to_owned()) };
    match api.create(&parameters, &probe).await {
        Ok(_) => Line::ok(what, "a valid HyperNode passes (tried without storing it)"),
        Err(error) => refused(&Refusal::of(&error), extent),
    }
}

/// What it means that the probe was refused.
fn refused(refusal: &Refusal, extent: Extent) -> Line {
    let what = ADMISSION;
    let writes = extent == Extent::Everything;
    // Nothing of ours meets it so far.
    let missing = |found: String, todo: &str| match writes {
        true => Line::fail(what, found, todo),
        false => Line::warn(what, found, format!("before HyperNodes are written here: {todo}")),
    };
    match refusal.reason {
        RefusalReason::AlreadyExists => Line::ok(what, "answers"),
        RefusalReason::WebhookUnreachable => {
            missing(format!("WebhookUnreachable: {refusal}"), "make the webhook answer, or remove it")
        }
        RefusalReason::DeniedByAdmission => missing(
            format!("DeniedByAdmission: a valid HyperNode is refused: {refusal}"),
            "the owner of this policy or webhook must allow valid HyperNodes",
        ),
        // Where they are written, the rights say more about it. Where they are not, the host itself has no such right,
        // as it should be.
        RefusalReason::Forbidden if writes => Line::warn(what, "not tried: the caller may not create HyperNodes", ""),
        RefusalReason::Forbidden => Line::ok(
            what,
            "not tried: no HyperNodes are written, and the caller may not create any; a caller who may asks with the same flags",
        ),
        RefusalReason::NoSuchResource => Line::warn(what, "not tried: there is no definition of HyperNodes", ""),
        _ => Line::warn(what, format!("could not be tried: {refusal}"), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::preflight::line::Mark;

    fn writer(manager: &str) -> ForeignWriter {
        ForeignWriter { manager: manager.to_owned(), objects: 3, example: "rack".to_owned() }
    }

    fn held() -> LeaseStatus {
        LeaseStatus {
            namespace: "v".to_owned(),
            name: "l".to_owned(),
            standing: LeaseFreshness::Fresh,
            holder: "volcano-0".to_owned(),
            since: None,
            renewed_seconds_ago: Some(1),
            duration_seconds: 15,
            transitions: 0,
            released_by: None,
        }
    }

    #[test]
    fn m6_what_volcano_wrote_and_we_never_did_is_worth_a_look_while_nothing_shows_that_it_runs() {
        let volcano = "vc-controller-manager";
        let old = Writers { lately: Vec::new(), volcanos: vec![writer(volcano)] };
        let lines = other_writers(&old, &[]);
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((line.mark, line.what.as_str()), (Mark::Warn, "second writer"));
        assert!(
            line.found.starts_with("vc-controller-manager wrote 3 HyperNodes that topoloom never wrote"),
            "{line:?}"
        );
        assert!(line.found.contains("rack among them") && line.found.contains("is not known"), "{line:?}");
        assert!(matches!(line.todo.as_slice(), [todo] if todo.contains("-hyperNode-controller")), "{line:?}");
        // Its lease says it, with what to do.
        assert_eq!(other_writers(&old, &[held()]), []);
        // It wrote a moment ago.
        let lines = other_writers(&Writers { lately: vec![writer(volcano)], ..old }, &[]);
        assert!(matches!(lines.as_slice(), [line] if line.found.contains("changed 3 HyperNodes of ours lately")));
        assert_eq!(other_writers(&Writers::default(), &[]), []);
    }

    #[test]
    fn a_policy_that_refuses_hyper_nodes_is_seen_before_they_are_written_and_not_only_then() {
        let mark = |reason, extent| {
            let refusal = Refusal { reason, message: "no".to_owned(), retry_after: None };
            refused(&refusal, extent).mark
        };
        for reason in [RefusalReason::DeniedByAdmission, RefusalReason::WebhookUnreachable] {
            assert_eq!(mark(reason, Extent::Everything), Mark::Fail, "{reason:?}");
            for watches in [Extent::NoHyperNodes, Extent::LeasesOnly] {
                assert_eq!(mark(reason, watches), Mark::Warn, "{reason:?}");
            }
        }
        // A host that only watches must not be able to create any, so that it cannot ask is as it should be.
        assert_eq!(mark(RefusalReason::Forbidden, Extent::NoHyperNodes), Mark::Ok);
        assert_eq!(mark(RefusalReason::Forbidden, Extent::Everything), Mark::Warn);
    }
}
