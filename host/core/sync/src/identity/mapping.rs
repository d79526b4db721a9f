//! Which physical pod belongs to which virtual one (`bottomup-syncer.md` 4.3, decision D14).
//!
//! Owns the reading of the annotations on both sides, and the comparison of the two. Never trusts one side alone: each pod
//! has to name the other.
//!
//! What goes wrong: an annotation is missing, was edited, or names a pod that was deleted and made again under its name.
//! [`Mapping`] has a word for each case and names the part. What an annotation holds may end in the path of a request, so
//! a text that cannot name a pod counts as a missing part.

use std::collections::BTreeMap;
use std::fmt;

use crate::keys;
use topoloom_core::names::Uid;
use topoloom_core::rules::{LABEL_MAX, is_label_value, is_object_name};
use topoloom_core::text::line;

/// How much of a wrong value a message repeats.
const SHOWN: usize = 80;

/// The virtual pod that a physical one names. All three parts are required.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VirtualPodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Uid,
}

/// The physical pod that a virtual one names. The UID is written after that pod was created.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PhysicalPodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, where it is known.
    pub uid: Option<Uid>,
}

/// An annotation that does not name a part of the other pod.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BrokenPart {
    /// Which annotation.
    pub key: &'static str,
    /// What it holds; `None` where it is missing or empty.
    pub found: Option<String>,
}

/// One of two pods, as its API server has it.
#[derive(Debug, Clone, Copy)]
pub struct PodSide<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a Uid,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
}

/// Whether two pods name each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mapping {
    /// They do.
    Both,
    /// The physical pod does not name a virtual one (row 3 of section 8).
    PhysicalIncomplete(BrokenPart),
    /// The physical pod names another virtual pod than this one.
    OtherName(VirtualPodRef),
    /// The virtual pod has the name and another UID: the one that the physical pod belongs to is gone (row 5).
    OtherUid {
        /// The UID that the physical pod names.
        named: Uid,
        /// The UID of the virtual pod.
        found: Uid,
    },
    /// The virtual pod does not name a physical one (row 6).
    VirtualIncomplete(BrokenPart),
    /// The virtual pod names another physical pod (row 6).
    OtherPhysical(PhysicalPodRef),
    /// The virtual pod names an earlier or later physical pod of this name (row 6).
    OtherPhysicalUid {
        /// The UID that the virtual pod names.
        named: Uid,
        /// The UID of the physical pod.
        found: Uid,
    },
}

impl VirtualPodRef {
    /// Reads the annotations of a physical pod.
    ///
    /// # Errors
    /// The first part that is missing or cannot be one.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Self, BrokenPart> {
        Ok(Self {
            namespace: part(annotations, keys::VIRTUAL_POD_NAMESPACE, is_namespace)?,
            name: part(annotations, keys::VIRTUAL_POD_NAME, is_name)?,
            uid: part(annotations, keys::VIRTUAL_POD_UID, is_uid)?.into(),
        })
    }
}

impl PhysicalPodRef {
    /// Reads the annotations of a virtual pod.
    ///
    /// # Errors
    /// The first part that is missing or cannot be one. A missing UID is no error; one that cannot be a UID is.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Self, BrokenPart> {
        let namespace = part(annotations, keys::PHYSICAL_POD_NAMESPACE, is_namespace)?;
        let name = part(annotations, keys::PHYSICAL_POD_NAME, is_name)?;
        let uid = match part(annotations, keys::PHYSICAL_POD_UID, is_uid) {
            Ok(uid) => Some(uid.into()),
            Err(BrokenPart { found: None, .. }) => None,
            Err(broken) => return Err(broken),
        };
        Ok(Self { namespace, name, uid })
    }

    /// Whether this names the pod. A UID that is not known yet does not exclude one.
    #[must_use]
    pub fn names(&self, pod: &PodSide<'_>) -> bool {
        self.namespace == pod.namespace && self.name == pod.name && self.uid.as_ref().is_none_or(|uid| uid == pod.uid)
    }
}

/// Compares what a physical and a virtual pod say of each other.
#[must_use]
pub fn is_mapped(physical: &PodSide<'_>, twin: &PodSide<'_>) -> Mapping {
    let named = match VirtualPodRef::read(physical.annotations) {
        Ok(named) => named,
        Err(broken) => return Mapping::PhysicalIncomplete(broken),
    };
    if named.namespace != twin.namespace || named.name != twin.name {
        return Mapping::OtherName(named);
    }
    if named.uid != *twin.uid {
        return Mapping::OtherUid { named: named.uid, found: twin.uid.clone() };
    }
    let back = match PhysicalPodRef::read(twin.annotations) {
        Ok(back) => back,
        Err(broken) => return Mapping::VirtualIncomplete(broken),
    };
    if back.names(physical) {
        return Mapping::Both;
    }
    if back.namespace != physical.namespace || back.name != physical.name {
        return Mapping::OtherPhysical(back);
    }
    match back.uid {
        Some(named) => Mapping::OtherPhysicalUid { named, found: physical.uid.clone() },
        // A reference without UID names every pod of that name.
        None => Mapping::Both,
    }
}

fn part(
    annotations: &BTreeMap<String, String>,
    key: &'static str,
    is_legal: fn(&str) -> bool,
) -> Result<String, BrokenPart> {
    match annotations.get(key) {
        Some(value) if is_legal(value) => Ok(value.clone()),
        Some(value) if !value.is_empty() => Err(BrokenPart { key, found: Some(line(value, SHOWN)) }),
        _ => Err(BrokenPart { key, found: None }),
    }
}

fn is_namespace(text: &str) -> bool {
    is_name(text) && text.len() <= LABEL_MAX && !text.contains('.')
}

fn is_name(text: &str) -> bool {
    is_object_name(text).is_ok()
}

fn is_uid(text: &str) -> bool {
    !text.is_empty() && is_label_value(text).is_ok()
}

impl fmt::Display for BrokenPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            Some(found) => write!(f, "the annotation {} is {found:?}, which names nothing", self.key),
            None => write!(f, "the annotation {} is missing", self.key),
        }
    }
}

impl fmt::Display for VirtualPodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} (UID {})", self.namespace, self.name, self.uid)
    }
}

impl fmt::Display for PhysicalPodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)?;
        match &self.uid {
            Some(uid) => write!(f, " (UID {uid})"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Both => f.write_str("the two pods name each other"),
            Self::PhysicalIncomplete(broken) => write!(f, "the physical pod names no virtual pod: {broken}"),
            Self::OtherName(named) => write!(f, "the physical pod names another virtual pod, {named}"),
            Self::OtherUid { named, found } => {
                write!(
                    f,
                    "the physical pod belongs to a virtual pod with the UID {named}, and that of today is {found}"
                )
            }
            Self::VirtualIncomplete(broken) => write!(f, "the virtual pod names no physical pod: {broken}"),
            Self::OtherPhysical(back) => write!(f, "the virtual pod names another physical pod, {back}"),
            Self::OtherPhysicalUid { named, found } => {
                write!(f, "the virtual pod names a physical pod with the UID {named}, and this one has {found}")
            }
        }
    }
}
