//! What the top-down half does next with one virtual pod (`bottomup-syncer.md` 4.3, 8, decisions S3, S6, S10).
//!
//! A function of the two pods, so a player that died anywhere continues where it was. Not decided here: whether a pod is
//! really gone. Before a step that follows from an absence its executor reads the physical pod live.

use k8s_openapi::api::core::v1::Pod;
use topoloom_sync::identity::mapping::{PhysicalPodRef, VirtualPodRef};
use topoloom_sync::keys;

use crate::lending::kubelets::Phase;
use crate::lending::{is_over, is_terminating, uid_of};

/// A step of the mapping, in its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Namespace and name of the physical pod are written on the virtual one.
    WriteNames,
    /// The physical pod is created.
    Create,
    /// Its UID is written on the virtual one.
    WriteUid,
    /// The physical pod vanished: the virtual one ends as that was seen to end, or fails with the reason `PhysicalPodLost`.
    Lose,
    /// The virtual pod terminates, or is gone: its physical pod is deleted. Once more, where the virtual one has less time meanwhile.
    DeletePhysical,
    /// Nothing is left of the physical pod, and the virtual one has no final phase: it gets one.
    WriteFinal,
    /// The virtual pod is removed.
    Remove,
}

/// What is known of the physical pod.
#[derive(Debug, Clone, Copy)]
pub(super) enum Physical<'a> {
    /// It exists and names the virtual pod.
    Ours(&'a Pod),
    /// There is one of its name for another virtual pod.
    Other,
    /// There is none of its name. If it was seen before, this is the final phase that it had, and whether the bottom-up half
    /// had the time to copy that.
    Absent(Option<(Phase, Mirrored)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mirrored {
    Waited,
    NotYet,
}

/// What is known of the physical node to which the pod goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The virtual node is there.
    There,
    /// It was, and is gone: nothing new is begun, and what is there is ended.
    Gone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    Make(Step),
    /// The bottom-up half copies a final phase: it gets some time.
    Await,
}

/// The next step for a virtual pod on a virtual node of ours. `names` are namespace and name that its physical pod has.
pub(super) fn next(virtual_pod: &Pod, names: (&str, &str), target: Target, physical: Physical<'_>) -> Next {
    if is_terminating(virtual_pod) {
        return end(virtual_pod, physical);
    }
    if is_over(virtual_pod) || is_placeholder(virtual_pod) {
        return Next::Nothing;
    }
    let may_begin = target == Target::There && !claims_devices(virtual_pod);
    let annotations = virtual_pod.metadata.annotations.clone().unwrap_or_default();
    let Ok(named) = PhysicalPodRef::read(&annotations) else {
        return if may_begin { Next::Make(Step::WriteNames) } else { Next::Nothing };
    };
    if (named.namespace.as_str(), named.name.as_str()) != names {
        // It belongs to another top-down half, or a person edited it.
        return Next::Nothing;
    }
    match (named.uid, physical) {
        (None, Physical::Ours(_)) => Next::Make(Step::WriteUid),
        (None, Physical::Absent(_)) if may_begin => Next::Make(Step::Create),
        // The bottom-up half deletes what is in the way.
        (None, Physical::Other | Physical::Absent(_)) => Next::Nothing,
        (Some(uid), Physical::Ours(pod)) if &*uid == uid_of(pod) => Next::Nothing,
        (Some(_), Physical::Absent(Some((_, Mirrored::NotYet)))) => Next::Await,
        (Some(_), Physical::Ours(_) | Physical::Other | Physical::Absent(_)) => Next::Make(Step::Lose),
    }
}

fn end(virtual_pod: &Pod, physical: Physical<'_>) -> Next {
    match physical {
        Physical::Ours(pod) if has_more_time(pod, virtual_pod) => Next::Make(Step::DeletePhysical),
        Physical::Ours(_) => delete(physical),
        Physical::Other | Physical::Absent(_) if is_over(virtual_pod) => Next::Make(Step::Remove),
        Physical::Absent(Some((_, Mirrored::NotYet))) => Next::Await,
        Physical::Other | Physical::Absent(_) => Next::Make(Step::WriteFinal),
    }
}

/// Whether a physical pod that terminates has a longer grace than its virtual one: that of the virtual one was made shorter. A grace of 0
/// is none: with it an object is removed.
fn has_more_time(physical: &Pod, virtual_pod: &Pod) -> bool {
    let grace = |pod: &Pod| pod.metadata.deletion_grace_period_seconds;
    let both = grace(virtual_pod).filter(|wanted| *wanted > 0).zip(grace(physical));
    is_terminating(physical) && both.is_some_and(|(wanted, has)| wanted < has)
}

/// Whether the bottom-up half made it to hold ports that tenants of the machine use: it never runs anywhere.
fn is_placeholder(virtual_pod: &Pod) -> bool {
    virtual_pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(keys::HOST_PORT_PLACEHOLDER))
}

/// Whether it has claims for devices (C13). What they claim is of the virtual cluster, and the pod must not start without it.
fn claims_devices(virtual_pod: &Pod) -> bool {
    let claims = virtual_pod.spec.as_ref().and_then(|spec| spec.resource_claims.as_ref());
    claims.is_some_and(|claims| !claims.is_empty())
}

/// What follows for the physical pod once its virtual pod goes, or is gone.
pub(super) fn delete(physical: Physical<'_>) -> Next {
    match physical {
        Physical::Ours(pod) if !is_terminating(pod) => Next::Make(Step::DeletePhysical),
        Physical::Ours(_) | Physical::Other | Physical::Absent(_) => Next::Nothing,
    }
}

/// Whether a physical pod names the virtual pod of this UID.
pub(super) fn is_of(physical: &Pod, virtual_uid: &str) -> bool {
    let annotations = physical.metadata.annotations.clone().unwrap_or_default();
    VirtualPodRef::read(&annotations).is_ok_and(|named| &*named.uid == virtual_uid)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NAMES: (&str, &str) = ("borrowed", "p-1");

    /// A virtual pod with these parts of the mapping.
    fn twin(parts: &[(&str, &str)], phase: &str) -> Pod {
        let annotations: serde_json::Map<_, _> =
            parts.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let metadata = json!({"uid": "v", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).unwrap()
    }

    fn named() -> Vec<(&'static str, &'static str)> {
        vec![(keys::PHYSICAL_POD_NAMESPACE, NAMES.0), (keys::PHYSICAL_POD_NAME, NAMES.1)]
    }

    fn mapped() -> Vec<(&'static str, &'static str)> {
        [named(), vec![(keys::PHYSICAL_POD_UID, "p")]].concat()
    }

    fn terminating(mut pod: Pod) -> Pod {
        pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-08-01T06:10:00Z")).unwrap();
        pod
    }

    fn physical(uid: &str) -> Pod {
        serde_json::from_value::<Pod>(json!({"metadata": {"uid": uid}})).unwrap()
    }

    fn there(pod: &Pod, physical: Physical<'_>) -> Next {
        next(pod, NAMES, Target::There, physical)
    }

    #[test]
    fn names_come_before_the_pod_and_its_uid_after_it() {
        let absent = Physical::Absent(None);
        assert_eq!(there(&twin(&[], "Pending"), absent), Next::Make(Step::WriteNames));
        assert_eq!(there(&twin(&named()[..1], "Pending"), absent), Next::Make(Step::WriteNames));
        assert_eq!(there(&twin(&named(), "Pending"), absent), Next::Make(Step::Create));
        let pod = physical("p");
        assert_eq!(there(&twin(&named(), "Pending"), Physical::Ours(&pod)), Next::Make(Step::WriteUid));
        assert_eq!(there(&twin(&mapped(), "Running"), Physical::Ours(&pod)), Next::Nothing);
    }

    #[test]
    fn a_pod_of_another_virtual_pod_is_never_taken() {
        assert_eq!(there(&twin(&named(), "Pending"), Physical::Other), Next::Nothing);
        let elsewhere = [(keys::PHYSICAL_POD_NAMESPACE, "other"), (keys::PHYSICAL_POD_NAME, NAMES.1)];
        assert_eq!(there(&twin(&elsewhere, "Pending"), Physical::Absent(None)), Next::Nothing);
    }

    #[test]
    fn a_mapped_pod_that_vanished_is_lost() {
        let twin = twin(&mapped(), "Running");
        assert_eq!(there(&twin, Physical::Absent(None)), Next::Make(Step::Lose));
        assert_eq!(there(&twin, Physical::Other), Next::Make(Step::Lose));
        assert_eq!(there(&twin, Physical::Ours(&physical("later"))), Next::Make(Step::Lose));
        let over = |mirrored| Physical::Absent(Some((Phase::Succeeded, mirrored)));
        assert_eq!(there(&twin, over(Mirrored::NotYet)), Next::Await);
        assert_eq!(there(&twin, over(Mirrored::Waited)), Next::Make(Step::Lose));
    }

    #[test]
    fn what_is_over_is_left_until_it_is_deleted() {
        for phase in ["Succeeded", "Failed"] {
            assert_eq!(there(&twin(&mapped(), phase), Physical::Absent(None)), Next::Nothing);
            assert_eq!(there(&twin(&[], phase), Physical::Absent(None)), Next::Nothing);
        }
    }

    #[test]
    fn s10_a_terminating_pod_goes_after_its_physical_one_and_with_a_final_phase() {
        let pod = terminating(twin(&mapped(), "Running"));
        let (alive, dying) = (physical("p"), terminating(physical("p")));
        assert_eq!(there(&pod, Physical::Ours(&alive)), Next::Make(Step::DeletePhysical));
        assert_eq!(there(&pod, Physical::Ours(&dying)), Next::Nothing);
        let over = |mirrored| Physical::Absent(Some((Phase::Failed, mirrored)));
        assert_eq!(there(&pod, over(Mirrored::NotYet)), Next::Await);
        assert_eq!(there(&pod, over(Mirrored::Waited)), Next::Make(Step::WriteFinal));
        assert_eq!(there(&pod, Physical::Absent(None)), Next::Make(Step::WriteFinal));
        let pod = terminating(twin(&mapped(), "Failed"));
        assert_eq!(there(&pod, Physical::Ours(&alive)), Next::Make(Step::DeletePhysical));
        assert_eq!(there(&pod, over(Mirrored::NotYet)), Next::Make(Step::Remove));
        assert_eq!(there(&pod, Physical::Other), Next::Make(Step::Remove));
    }

    #[test]
    fn s10_a_grace_that_was_made_shorter_is_followed_once() {
        let with = |mut pod: Pod, seconds| {
            pod.metadata.deletion_grace_period_seconds = Some(seconds);
            pod
        };
        let next = |wanted, has| {
            let (twin, pod) = (terminating(twin(&mapped(), "Running")), terminating(physical("p")));
            there(&with(twin, wanted), Physical::Ours(&with(pod, has)))
        };
        assert_eq!(next(3_600, 31_536_000), Next::Make(Step::DeletePhysical));
        assert_eq!(next(3_600, 3_600), Next::Nothing);
        assert_eq!(next(3_600, 30), Next::Nothing);
        assert_eq!(next(0, 30), Next::Nothing, "a finalizer keeps it");
    }

    #[test]
    fn a_pod_that_was_never_copied_ends_too() {
        assert_eq!(there(&terminating(twin(&[], "Pending")), Physical::Absent(None)), Next::Make(Step::WriteFinal));
    }

    #[test]
    fn a_placeholder_for_host_ports_is_not_copied_and_ends_as_every_pod() {
        let mut pod = twin(&[], "Pending");
        pod.metadata.labels = serde_json::from_value(json!({keys::HOST_PORT_PLACEHOLDER: "true"})).unwrap();
        assert_eq!(there(&pod, Physical::Absent(None)), Next::Nothing);
        assert_eq!(there(&terminating(pod), Physical::Absent(None)), Next::Make(Step::WriteFinal));
    }

    #[test]
    fn a_pod_with_claims_for_devices_is_not_copied_and_ends_as_every_pod() {
        let claims = |mut pod: Pod| {
            let container = json!({"name": "c", "resources": {"claims": [{"name": "gpu"}]}});
            let claim = json!({"name": "gpu", "resourceClaimTemplateName": "one-gpu"});
            pod.spec = serde_json::from_value(json!({"containers": [container], "resourceClaims": [claim]})).unwrap();
            pod
        };
        for begun in [vec![], named()] {
            let pod = claims(twin(&begun, "Pending"));
            assert_eq!(there(&pod, Physical::Absent(None)), Next::Nothing);
            assert_eq!(there(&terminating(pod), Physical::Absent(None)), Next::Make(Step::WriteFinal));
        }
        assert_eq!(there(&claims(twin(&mapped(), "Running")), Physical::Absent(None)), Next::Make(Step::Lose));
    }

    #[test]
    fn on_a_node_that_is_gone_nothing_begins() {
        let next = |pod: &Pod, physical| next(pod, NAMES, Target::Gone, physical);
        assert_eq!(next(&twin(&[], "Pending"), Physical::Absent(None)), Next::Nothing);
        assert_eq!(next(&twin(&named(), "Pending"), Physical::Absent(None)), Next::Nothing);
        let pod = physical("p");
        assert_eq!(next(&twin(&named(), "Pending"), Physical::Ours(&pod)), Next::Make(Step::WriteUid));
        let dying = terminating(twin(&mapped(), "Running"));
        assert_eq!(next(&dying, Physical::Ours(&pod)), Next::Make(Step::DeletePhysical));
    }

    #[test]
    fn a_physical_pod_belongs_to_one_virtual_pod() {
        let of = |uid: Value| {
            let annotations = json!({
                keys::VIRTUAL_POD_NAMESPACE: "shop", keys::VIRTUAL_POD_NAME: "web-0", keys::VIRTUAL_POD_UID: uid,
            });
            serde_json::from_value::<Pod>(json!({"metadata": {"annotations": annotations}})).unwrap()
        };
        assert!(is_of(&of(json!("v")), "v") && !is_of(&of(json!("w")), "v"));
        assert!(!is_of(&physical("p"), "v"));
    }
}
