//! Whether a stream to a virtual pod is passed on to a physical one (decision S26).
//!
//! Owns the judgements around the live reads of the two pods: on which node the virtual pod is ([`node_of`]), which physical pod is
//! asked for ([`wanted`]), and whether what was found under that name is its twin ([`judge`]). Never decides who may ask: that is a
//! SubjectAccessReview of the virtual cluster.
//!
//! What goes wrong: everything that leads to another pod than that of the caller. A pod of a real node, of another binding or of
//! another virtual cluster is named by an annotation that was edited; a pod of ours was deleted and made again. Each has a word in
//! [`NoStream`], and a stream needs all of it to agree: labels of identity on the virtual node and on the physical pod, the
//! namespace of the binding, and two pods that name each other. A pod of a binding that was replaced is ours once a live list shows
//! that the earlier one is gone (decision S6); without that list there is no stream to it.

use std::collections::BTreeMap;
use std::fmt;

use super::identity::mapping::{BrokenPart, Mapping, PhysicalPodRef, PodSide, is_mapped};
use super::identity::{Earlier, Identity, Owner, Ownership, WhyForeign};
use topoloom_core::names::Uid;
use topoloom_core::text::line;

/// How much of a text that another party wrote a message repeats.
const SHOWN: usize = 253;

/// Why there is no stream to a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoStream {
    /// There is no such virtual pod.
    NoPod,
    /// There is one with another UID than the one that was asked for.
    OtherUid {
        /// The one that was asked for.
        asked: String,
        /// The UID of the pod.
        found: Uid,
    },
    /// The virtual pod is on no node.
    Unbound,
    /// It is on a node that is not lent, or not by a binding of this program.
    NotLent {
        /// That node.
        node: String,
    },
    /// The virtual pod does not name its physical one.
    NotNamed(BrokenPart),
    /// It names one outside of the namespace of its binding.
    OutsideNamespace {
        /// The physical pod that it names.
        named: PhysicalPodRef,
        /// The namespace of the binding.
        allowed: String,
    },
    /// There is no physical pod of that name.
    Gone(PhysicalPodRef),
    /// The physical pod is not of this binding.
    Foreign(WhyForeign),
    /// It is of a binding of this name that had this UID, and it is not known whether that one still exists: the bindings have to be
    /// listed first.
    NotAdopted(Uid),
    /// The two pods do not name each other.
    NotMapped(Mapping),
}

impl NoStream {
    /// Whether something is missing, and nothing is another's.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        match self {
            Self::NoPod | Self::OtherUid { .. } | Self::Unbound | Self::NotNamed(_) | Self::Gone(_) => true,
            Self::NotLent { .. }
            | Self::OutsideNamespace { .. }
            | Self::Foreign(_)
            | Self::NotAdopted(_)
            | Self::NotMapped(_) => false,
        }
    }
}

/// The node of a virtual pod. `asked` is the UID that the caller has named, if it has named one.
///
/// # Errors
/// It is another pod than the one that was asked for, or on no node.
pub fn node_of<'a>(uid: &Uid, node: Option<&'a str>, asked: Option<&str>) -> Result<&'a str, NoStream> {
    match asked {
        Some(asked) if *asked != **uid => Err(NoStream::OtherUid { asked: asked.to_owned(), found: uid.clone() }),
        _ => node.filter(|node| !node.is_empty()).ok_or(NoStream::Unbound),
    }
}

/// The physical pod that a virtual one names, on a node with these labels.
///
/// # Errors
/// The node is not one of the binding's, or the pod names none that can be of the binding.
pub fn wanted(
    (node, labels): (&str, &BTreeMap<String, String>),
    annotations: &BTreeMap<String, String>,
    us: &Identity,
    mount_namespace: &str,
) -> Result<PhysicalPodRef, NoStream> {
    if Ownership::of(labels, us) != Ownership::Ours {
        return Err(NoStream::NotLent { node: node.to_owned() });
    }
    let named = PhysicalPodRef::read(annotations).map_err(NoStream::NotNamed)?;
    if named.namespace != mount_namespace {
        return Err(NoStream::OutsideNamespace { named, allowed: mount_namespace.to_owned() });
    }
    Ok(named)
}

/// Whether the physical pod that was found is of this binding and the twin of the virtual one. `earlier` is what a live list shows
/// of the binding that it names, where that is an earlier one.
///
/// # Errors
/// It is not, or the list is missing ([`NoStream::NotAdopted`]).
pub fn judge(
    (physical, labels): (&PodSide<'_>, &BTreeMap<String, String>),
    twin: &PodSide<'_>,
    us: &Identity,
    earlier: Earlier,
) -> Result<(), NoStream> {
    match Ownership::of(labels, us).resolve(earlier) {
        Owner::Ours | Owner::Adoptable(_) => {}
        Owner::Unknown(uid) => return Err(NoStream::NotAdopted(uid)),
        Owner::Foreign(why) => return Err(NoStream::Foreign(why)),
    }
    match is_mapped(physical, twin) {
        Mapping::Both => Ok(()),
        other => Err(NoStream::NotMapped(other)),
    }
}

impl fmt::Display for NoStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPod => f.write_str("there is no such pod in the virtual cluster"),
            Self::OtherUid { asked, found } => {
                write!(f, "its UID is {found}, and the pod with the UID {:?} was asked for", line(asked, SHOWN))
            }
            Self::Unbound => f.write_str("it is on no node"),
            Self::NotLent { node } => write!(
                f,
                "it is on node {}, which is not a virtual node of a ClusterBinding that is served here",
                line(node, SHOWN)
            ),
            Self::NotNamed(broken) => write!(f, "it names no physical pod: {broken}"),
            Self::OutsideNamespace { named, allowed } => write!(
                f,
                "it names the physical pod {named}, and pods of its ClusterBinding are in the namespace {allowed} alone"
            ),
            Self::Gone(named) => write!(f, "it names the physical pod {named}, which does not exist"),
            Self::Foreign(why) => write!(f, "the physical pod that it names is not of its ClusterBinding: {why}"),
            Self::NotAdopted(uid) => write!(
                f,
                "the physical pod that it names is of an earlier ClusterBinding of this name, with the UID {}, and it is not known \
                 whether that one exists",
                line(uid, SHOWN)
            ),
            Self::NotMapped(mapping) => mapping.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use crate::naming::BindingName;

    type Keys = BTreeMap<String, String>;

    fn us() -> Identity {
        Identity::new("cluster-1".into(), BindingName::parse("east").unwrap(), "binding-2".into()).unwrap()
    }

    fn map<const N: usize>(pairs: [(&str, &str); N]) -> Keys {
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    /// The annotations of a virtual pod.
    fn down(name: &str, uid: &str) -> Keys {
        map([(keys::PHYSICAL_POD_NAMESPACE, "lent"), (keys::PHYSICAL_POD_NAME, name), (keys::PHYSICAL_POD_UID, uid)])
    }

    /// The annotations of a physical one.
    fn up(name: &str, uid: &str) -> Keys {
        map([(keys::VIRTUAL_POD_NAMESPACE, "shop"), (keys::VIRTUAL_POD_NAME, name), (keys::VIRTUAL_POD_UID, uid)])
    }

    fn with(mut labels: Keys, key: &str, value: &str) -> Keys {
        labels.insert(key.to_owned(), value.to_owned());
        labels
    }

    /// Judges the physical pod `lent/web-0-x` (P) as the twin of the virtual pod `shop/web-0` (V).
    fn judged(labels: &Keys, physical: &Keys, twin: &Keys) -> Result<(), NoStream> {
        judged_after(Earlier::Unlisted, labels, physical, twin)
    }

    /// The same after a list of the bindings.
    fn judged_after(earlier: Earlier, labels: &Keys, physical: &Keys, twin: &Keys) -> Result<(), NoStream> {
        let (p, v): (Uid, Uid) = ("P".into(), "V".into());
        let physical = PodSide { namespace: "lent", name: "web-0-x", uid: &p, annotations: physical };
        let twin = PodSide { namespace: "shop", name: "web-0", uid: &v, annotations: twin };
        judge((&physical, labels), &twin, &us(), earlier)
    }

    #[track_caller]
    fn refused<T: fmt::Debug>(answer: Result<T, NoStream>, is_absence: bool, part: &str) {
        let why = answer.unwrap_err();
        assert!(why.to_string().contains(part), "{why}");
        assert_eq!(why.is_absence(), is_absence, "{why}");
    }

    #[test]
    fn s26_only_the_pod_that_was_asked_for_is_looked_at_and_only_on_its_node() {
        assert_eq!(node_of(&"V".into(), Some("vnode-east-w1"), None), Ok("vnode-east-w1"));
        assert_eq!(node_of(&"V".into(), Some("vnode-east-w1"), Some("V")), Ok("vnode-east-w1"));
        refused(node_of(&"V".into(), Some("vnode-east-w1"), Some("U")), true, "its UID is V");
        refused(node_of(&"V".into(), None, None), true, "it is on no node");
        refused(node_of(&"V".into(), Some(""), Some("V")), true, "it is on no node");
    }

    #[test]
    fn s26_a_pod_of_a_node_that_is_not_ours_has_no_stream() {
        let find = |labels: &Keys| wanted(("w7", labels), &down("web-0-x", "P"), &us(), "lent");
        assert_eq!(find(&us().labels()).unwrap().to_string(), "lent/web-0-x (UID P)");
        refused(find(&Keys::new()), false, "node w7, which is not a virtual node");
        for (key, value) in
            [(keys::VIRTUAL_CLUSTER, "cluster-9"), (keys::BINDING, "west"), (keys::BINDING_UID, "binding-1")]
        {
            refused(find(&with(us().labels(), key, value)), false, "not a virtual node of a ClusterBinding");
        }
    }

    #[test]
    fn s26_a_pod_that_names_nothing_or_something_outside_of_the_namespace_of_its_binding_has_no_stream() {
        let find = |annotations: &Keys| wanted(("n", &us().labels()), annotations, &us(), "lent");
        refused(
            find(&Keys::new()),
            true,
            "it names no physical pod: the annotation topoloom.dev/physical-pod-namespace",
        );
        refused(find(&down("../../nodes/w1", "P")), true, "names nothing");
        let outside = with(down("web-0-x", "P"), keys::PHYSICAL_POD_NAMESPACE, "kube-system");
        refused(
            find(&outside),
            false,
            "kube-system/web-0-x (UID P), and pods of its ClusterBinding are in the namespace lent",
        );
        // Between the two steps of the top-down half the UID is not known.
        let mut early = down("web-0-x", "P");
        early.remove(keys::PHYSICAL_POD_UID);
        assert_eq!(find(&early).unwrap().uid, None);
    }

    #[test]
    fn s26_both_pods_have_to_name_each_other_and_the_physical_one_has_to_be_ours() {
        let (ours, physical, twin) = (us().labels(), up("web-0", "V"), down("web-0-x", "P"));
        assert_eq!(judged(&ours, &physical, &twin), Ok(()));
        refused(judged(&Keys::new(), &physical, &twin), false, "it has no labels of identity");
        let west = with(ours.clone(), keys::BINDING, "west");
        refused(judged(&west, &physical, &twin), false, "not of its ClusterBinding: its label topoloom.dev/binding is");
        let earlier = with(ours.clone(), keys::BINDING_UID, "binding-1");
        refused(judged(&earlier, &physical, &twin), false, "binding-1, and it is not known whether that one exists");
        let stands = judged_after(Earlier::Stands, &earlier, &physical, &twin);
        refused(stands, false, "it belongs to the ClusterBinding with the UID binding-1, which exists");
        assert_eq!(judged_after(Earlier::Gone, &earlier, &physical, &twin), Ok(()));
        let other = judged_after(Earlier::Gone, &earlier, &physical, &down("web-1-x", "P"));
        refused(other, false, "names another physical pod");
        refused(judged(&ours, &Keys::new(), &twin), false, "the physical pod names no virtual pod");
        refused(judged(&ours, &up("web-1", "V"), &twin), false, "names another virtual pod, shop/web-1");
        refused(judged(&ours, &up("web-0", "U"), &twin), false, "belongs to a virtual pod with the UID U");
        refused(judged(&ours, &physical, &Keys::new()), false, "the virtual pod names no physical pod");
        refused(judged(&ours, &physical, &down("web-1-x", "P")), false, "names another physical pod");
        refused(judged(&ours, &physical, &down("web-0-x", "Q")), false, "with the UID Q, and this one has P");
    }
}
