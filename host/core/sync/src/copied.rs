//! Which labels, annotations and taints of a physical node its virtual node gets (decision S13; `spec.copy` of a binding).
//!
//! This room owns the fixed list of what is never copied and why, the rules of a binding on top of it, and the room that
//! the API server gives to annotations. It never sets the keys that are ours: the caller writes those over the result, so
//! that ours always win. The one exception is [`EXCLUDE_LOAD_BALANCERS`], which every virtual node has.
//!
//! For each key the first line that decides is the answer:
//!
//! 1. A key under `topoloom.dev/` is never copied. It would give a foreign object our identity.
//! 2. A label that the `topologyKeys` of the node's CSINode name is always copied: without it no volume is reachable.
//! 3. A key under a *firm* prefix of [`NEVER_COPIED`] is not copied. A controller of the virtual cluster acts on such a
//!    key as if the node were its own, so that no rule of a binding may allow it, and one that tries is refused when it is
//!    read.
//! 4. The rules of the binding: an exact key before `prefix/*`. Of two equally exact ones `deny` wins.
//! 5. A key under another prefix of [`NEVER_COPIED`] is not copied. Line 4 can allow those by key or by prefix.
//! 6. `*` in the list `deny`: nothing is copied that the lines above did not allow.
//! 7. Everything else is copied.
//!
//! Failure story: what the API server of the virtual cluster would refuse (a key, a value, more than 256 KiB of
//! annotations) is left out and reported, the largest annotation first. A physical node with too much on it is lent with
//! less on it, and never held up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::keys;
use super::texts::Keyed;
use topoloom_core::rules::{self, is_label_key, is_label_value};

mod binding;
#[cfg(test)]
mod tests;

pub use binding::{CopyRules, KeyRules, List, RuleError};

/// Label that every virtual node has: a cloud controller of the virtual cluster must not send traffic of load balancers
/// to a machine that it does not know.
pub const EXCLUDE_LOAD_BALANCERS: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// How many bytes the keys and values of all annotations of an object may have together: the API server refuses more.
pub const ANNOTATIONS_MAX: usize = 256 * 1024;

/// Bytes that stay free for the annotations that this room does not see: ours, and the names of our own keys and taints
/// in the base of the merge.
pub const ANNOTATIONS_RESERVE: usize = 8 * 1024;

/// How much of a text is repeated in a message.
const SHOWN: usize = 100;

/// Metadata of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Map {
    /// Its labels.
    Labels,
    /// Its annotations.
    Annotations,
}

impl Map {
    /// The word of the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }

    fn is_key(self, key: &str) -> Result<(), rules::Error> {
        match self {
            Self::Labels => is_label_key(key),
            // The API server takes capitals in the prefix of an annotation.
            Self::Annotations => is_label_key(&key.to_ascii_lowercase()),
        }
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A beginning of keys that are not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NeverCopied {
    /// The text that such a key begins with.
    pub prefix: &'static str,
    /// Why not, as the end of a sentence.
    pub why: &'static str,
    /// Whether a binding can allow it.
    pub firm: Firm,
}

/// Whether a binding can allow a key that is not copied otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Firm {
    /// It cannot.
    Yes,
    /// It can allow labels. Annotations of this kind carry locks and inventories of devices.
    ForAnnotations,
    /// It can.
    No,
}

impl Firm {
    fn holds(self, map: Map) -> bool {
        match self {
            Self::Yes => true,
            Self::ForAnnotations => map == Map::Annotations,
            Self::No => false,
        }
    }
}

const fn never(prefix: &'static str, why: &'static str, firm: Firm) -> NeverCopied {
    NeverCopied { prefix, why, firm }
}

/// What is never copied (decision S13).
pub const NEVER_COPIED: [NeverCopied; 14] = [
    never(keys::PREFIX, "it is topoloom's own, and would mark a foreign object as ours", Firm::Yes),
    never(
        "hami.io/",
        "it holds devices and node locks, which no device plugin of the virtual node releases",
        Firm::Yes,
    ),
    never("volcano.sh/", "it holds devices, which no device plugin of the virtual node serves", Firm::ForAnnotations),
    never("node-role.kubernetes.io/", "the roles of a node belong to its own cluster", Firm::No),
    never("kubectl.kubernetes.io/", "kubectl apply would merge with the manifest of another object", Firm::Yes),
    never("kubeadm.alpha.kubernetes.io/", "it describes the kubelet of the physical node", Firm::No),
    never("csi.volume.kubernetes.io/", "attachers of the virtual cluster would attach volumes by it", Firm::Yes),
    never("node.alpha.kubernetes.io/", "kube-controller-manager of the virtual cluster writes it, too", Firm::Yes),
    never("projectcalico.org/", "the network of the virtual cluster would use the physical addresses", Firm::Yes),
    never(
        "flannel.alpha.coreos.com/",
        "the network of the virtual cluster would use the physical addresses",
        Firm::Yes,
    ),
    never("k8s.ovn.org/", "the network of the virtual cluster would use the physical addresses", Firm::Yes),
    never("network.cilium.io/", "the network of the virtual cluster would use the physical addresses", Firm::Yes),
    never("io.cilium.", "the network of the virtual cluster would use the physical addresses", Firm::Yes),
    never(
        "volumes.kubernetes.io/",
        "the attach-detach controller of the virtual cluster would make VolumeAttachments that no attacher serves",
        Firm::Yes,
    ),
];

fn never_copied(key: &str) -> Option<&'static NeverCopied> {
    NEVER_COPIED.iter().find(|never| key.starts_with(never.prefix))
}

/// What becomes of a taint of the physical node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaintFate {
    /// It is copied as it is.
    Keep,
    /// It is copied under this key.
    Rename(&'static str),
    /// It is not copied.
    LeaveOut(TaintLeftOut),
}

/// Why a taint of the physical node is not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaintLeftOut {
    /// It follows from a condition, and the conditions are mirrored.
    Condition,
    /// It is between the physical cluster and its cloud.
    CloudProvider,
    /// Its key is ours, and ours are set for the virtual node itself.
    Ours,
    /// Another taint of the same key and effect is there.
    Twice,
}

impl fmt::Display for TaintLeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Condition => "it follows from a condition of the node, and conditions are mirrored",
            Self::CloudProvider => "it belongs to the cloud provider of the physical cluster",
            Self::Ours => "its key is topoloom's own",
            Self::Twice => "another taint has the same key and effect",
        })
    }
}

/// Taints that controllers of Kubernetes add and remove themselves.
const KUBERNETES: &str = "node.kubernetes.io/";
/// Taints that a cloud provider adds and removes itself.
const CLOUD_PROVIDER: &str = "node.cloudprovider.kubernetes.io/";

/// Whether controllers of Kubernetes or of a cloud provider own the taints of this key, in whatever cluster.
#[must_use]
pub fn is_of_kubernetes(key: &str) -> bool {
    key.starts_with(KUBERNETES) || key.starts_with(CLOUD_PROVIDER)
}

/// What becomes of a taint of the physical node with this key (section 6.7, decision S13).
#[must_use]
pub fn taint_fate(key: &str) -> TaintFate {
    if key == keys::UNSCHEDULABLE_TAINT {
        TaintFate::Rename(keys::PHYSICAL_UNSCHEDULABLE_TAINT)
    } else if key.starts_with(KUBERNETES) {
        TaintFate::LeaveOut(TaintLeftOut::Condition)
    } else if key.starts_with(CLOUD_PROVIDER) {
        TaintFate::LeaveOut(TaintLeftOut::CloudProvider)
    } else if key.starts_with(keys::PREFIX) {
        TaintFate::LeaveOut(TaintLeftOut::Ours)
    } else {
        TaintFate::Keep
    }
}

/// The beginning of a text that may be long.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.char_indices().nth(SHOWN).map(|(end, _)| end);
        match end.and_then(|end| self.0.get(..end)) {
            Some(beginning) => write!(f, "{beginning:?}… ({} bytes)", self.0.len()),
            None => write!(f, "{:?}", self.0),
        }
    }
}

/// What is copied from.
#[derive(Debug, Clone, Copy)]
pub struct Physical<'a> {
    /// The labels of the physical node.
    pub labels: &'a dyn Keyed,
    /// Its annotations.
    pub annotations: &'a dyn Keyed,
    /// The keys that the `topologyKeys` of its CSINode name.
    pub topology_keys: &'a BTreeSet<String>,
}

/// What a virtual node or its CSINode gets, before the keys that are ours are written over it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Its labels; those of a node with [`EXCLUDE_LOAD_BALANCERS`].
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// What is not copied: first what found no room, the largest first, then the rest by key.
    pub left_out: Vec<LeftOut>,
    /// Whether other clients leave no room at all for annotations that are copied: the reserve for ours is not whole any more.
    pub is_crowded: bool,
}

/// A label or an annotation that is not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Which of the two.
    pub map: Map,
    /// Its key.
    pub key: String,
    /// Why.
    pub why: LeftOutReason,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.map, Shown(&self.key), self.why)
    }
}

/// Why a label or an annotation is not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOutReason {
    /// All annotations together would be larger than [`ANNOTATIONS_MAX`].
    TooLarge {
        /// How large its key and its value are.
        bytes: usize,
    },
    /// It is one of the keys that are never copied.
    Never(&'static NeverCopied),
    /// The binding denies it.
    Denied,
    /// The API server would refuse it.
    Invalid(rules::Error),
}

impl LeftOutReason {
    /// Whether an operator should see it: the node lacks something that the binding would copy.
    #[must_use]
    pub fn is_a_loss(&self) -> bool {
        matches!(self, Self::TooLarge { .. } | Self::Invalid(_))
    }
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes } => {
                write!(f, "it has {bytes} bytes, and all annotations together must have at most {ANNOTATIONS_MAX}")
            }
            Self::Never(never) => write!(f, "keys that begin with {} are not copied: {}", never.prefix, never.why),
            Self::Denied => f.write_str("spec.copy of the binding denies it"),
            Self::Invalid(why) => write!(f, "the API server would refuse it: it {why}"),
        }
    }
}

/// How many bytes of [`ANNOTATIONS_MAX`] these annotations take.
#[must_use]
pub fn annotation_bytes(annotations: &dyn Keyed) -> usize {
    annotations.texts().map(|(key, value)| key.len() + value.len()).sum()
}

/// Which labels and annotations a virtual node gets from its physical one. `taken` is how many bytes of annotations it has
/// that are not copied: those of users.
#[must_use]
pub fn copy(physical: &Physical<'_>, rules: &CopyRules, taken: usize) -> Copied {
    let mut copied = Copied::of(physical, rules, taken);
    copied.labels.insert(EXCLUDE_LOAD_BALANCERS.to_owned(), "true".to_owned());
    copied
}

/// Which labels and annotations the CSINode of a virtual node gets from that of its physical one. The rules of a binding are
/// about nodes, so that here only what is never copied is left out: one of the annotations lists the volume plugins that the
/// drivers replace, and a scheduler counts volumes wrongly without it.
#[must_use]
pub fn copy_csi_node(labels: &BTreeMap<String, String>, annotations: &BTreeMap<String, String>) -> Copied {
    let none = BTreeSet::new();
    Copied::of(&Physical { labels, annotations, topology_keys: &none }, &CopyRules::default(), 0)
}

/// How many bytes a key takes in the base of the merge, which is an annotation, too: with quotes and a comma.
fn named(key: &str) -> usize {
    key.len() + 3
}

fn judge(map: Map, key: &str, rules: &KeyRules, topology: &BTreeSet<String>) -> Result<(), LeftOutReason> {
    map.is_key(key).map_err(LeftOutReason::Invalid)?;
    let never = never_copied(key);
    let is_ours = key.starts_with(keys::PREFIX);
    if map == Map::Labels && !is_ours && topology.contains(key) {
        return Ok(());
    }
    match (never, rules.exact(key)) {
        (Some(never), _) if never.firm.holds(map) => Err(LeftOutReason::Never(never)),
        (_, Some(List::Allow)) => Ok(()),
        (_, Some(List::Deny)) => Err(LeftOutReason::Denied),
        (Some(never), None) => Err(LeftOutReason::Never(never)),
        (None, None) if rules.denies_all() => Err(LeftOutReason::Denied),
        (None, None) => Ok(()),
    }
}

impl Copied {
    fn of(physical: &Physical<'_>, rules: &CopyRules, taken: usize) -> Self {
        let mut copied = Self::default();
        for (key, value) in physical.labels.texts() {
            let judged = match judge(Map::Labels, key, &rules.labels, physical.topology_keys) {
                Ok(()) => is_label_value(value).map_err(LeftOutReason::Invalid),
                no => no,
            };
            copied.take(Map::Labels, key, value, judged);
        }
        for (key, value) in physical.annotations.texts() {
            let judged = judge(Map::Annotations, key, &rules.annotations, &BTreeSet::new());
            copied.take(Map::Annotations, key, value, judged);
        }
        let names: usize = copied.labels.keys().map(|key| named(key)).sum();
        let room = ANNOTATIONS_MAX.saturating_sub(ANNOTATIONS_RESERVE).saturating_sub(names).saturating_sub(taken);
        copied.is_crowded = room == 0;
        copied.fit(room);
        copied
    }

    fn take(&mut self, map: Map, key: &str, value: &str, judged: Result<(), LeftOutReason>) {
        match judged {
            Ok(()) => {
                let into = if map == Map::Labels { &mut self.labels } else { &mut self.annotations };
                into.insert(key.to_owned(), value.to_owned());
            }
            Err(why) => self.left_out.push(LeftOut { map, key: key.to_owned(), why }),
        }
    }

    /// Leaves out annotations, the largest first, until the rest takes at most this many bytes.
    fn fit(&mut self, room: usize) {
        let mut needs: usize = self.annotations.iter().map(|(key, value)| key.len() + value.len() + named(key)).sum();
        if needs <= room {
            return;
        }
        let mut sizes: Vec<_> =
            self.annotations.iter().map(|(key, value)| (key.len() + value.len(), key.clone())).collect();
        sizes.sort_by(|(left, left_key), (right, right_key)| right.cmp(left).then_with(|| left_key.cmp(right_key)));
        let mut out = Vec::new();
        for (bytes, key) in sizes {
            if needs <= room {
                break;
            }
            needs = needs.saturating_sub(bytes + named(&key));
            self.annotations.remove(&key);
            out.push(LeftOut { map: Map::Annotations, key, why: LeftOutReason::TooLarge { bytes } });
        }
        out.append(&mut self.left_out);
        self.left_out = out;
    }
}
