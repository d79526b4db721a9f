//! The names that lending gives: of virtual nodes, physical pods, placeholders, leases, and the label values made of names that are
//! too long for one (`bottomup-syncer.md` section 5, decisions S6, S7 and S11).
//!
//! Owns how each name is made, and the two names that come in from a ClusterBinding: its own and its `clusterID`. Never
//! reads what exists and never repairs a name that a person wrote.
//!
//! What goes wrong: two pairs of cluster id and node can give one name, because both parts may contain dashes. The name
//! does not show it, so [`same_origin`] compares what the existing object says of itself, and refuses. A name that is no
//! Kubernetes name is an error with field, value and rule; nothing is written under it.

use md5::Md5;
use sha2::{Digest as _, Sha256};

use super::keys;
use super::texts::Keyed;
use topoloom_core::names::NodeName;
use topoloom_core::rules::{LABEL_MAX, SUBDOMAIN_MAX, is_label_value, is_object_name};
use topoloom_core::text::line;
use topoloom_core::text_type;

/// The beginning of every name of a virtual node.
pub const NODE_PREFIX: &str = "vnode-";
/// The longest `clusterID`, in bytes: with it a node name of 32 bytes still needs no hash.
pub const CLUSTER_ID_MAX: usize = 24;
/// How many bytes of a long name stay readable. With a dash and 32 digits that makes 63, the most that a label holds.
const HEAD: usize = 30;
/// Digits of a hash in a name: an MD5 has as many, and a SHA-256 is cut to as many.
const DIGITS: usize = 32;
/// How much of a refused value a message repeats.
const SHOWN: usize = 80;
/// In the names of leases of bindings.
const BINDING_INFIX: &str = "-binding-";
/// In the names of leases of replicas.
const MEMBER_INFIX: &str = "-member-";

/// A name that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Too long or empty.
    #[error("{field} must have 1 to {max} bytes, got {} bytes in {:?}", value.len(), line(value, SHOWN))]
    Length {
        /// What was read.
        field: &'static str,
        /// What stood there.
        value: String,
        /// The most bytes.
        max: usize,
    },
    /// Other characters than allowed.
    #[error(
        "{field} must consist of lower-case letters, digits{} and '-', with a letter or digit at both ends{}, got {:?}",
        alphabet.more(), alphabet.each(), line(value, SHOWN)
    )]
    Letters {
        /// What was read.
        field: &'static str,
        /// What stood there.
        value: String,
        /// What is allowed there.
        alphabet: Alphabet,
    },
}

/// Which characters a name may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alphabet {
    /// Those of one part of a DNS name.
    Label,
    /// Those of a DNS name: parts with dots between them.
    Subdomain,
}

impl Alphabet {
    fn more(self) -> &'static str {
        match self {
            Self::Label => "",
            Self::Subdomain => ", '.'",
        }
    }

    fn each(self) -> &'static str {
        match self {
            Self::Label => "",
            Self::Subdomain => " of each part between dots",
        }
    }
}

text_type! {
    /// `spec.clusterID` of a ClusterBinding: part of the name of each of its virtual nodes.
    ClusterId
}

text_type! {
    /// The name of a ClusterBinding.
    BindingName
}

impl ClusterId {
    /// Reads one.
    ///
    /// # Errors
    /// It is empty, has over 24 bytes, or is no DNS label.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let field = "spec.clusterID";
        let value = || text.to_owned();
        if text.is_empty() || text.len() > CLUSTER_ID_MAX {
            return Err(NameError::Length { field, value: value(), max: CLUSTER_ID_MAX });
        }
        if text.contains('.') || is_object_name(text).is_err() {
            return Err(NameError::Letters { field, value: value(), alphabet: Alphabet::Label });
        }
        Ok(Self(text.into()))
    }
}

impl BindingName {
    /// Reads one.
    ///
    /// # Errors
    /// The text cannot be the name of an object.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        object_name("the name of the ClusterBinding", text)?;
        Ok(Self(text.into()))
    }
}

/// The name of the virtual node of a physical one. Up to 63 bytes it has both parts in full; a longer one is cut, and
/// carries the MD5 of the full form, which is part of the contract with the top-down half.
///
/// # Errors
/// The name of the physical node is none: the result would be none either.
pub fn virtual_node_name(cluster: &ClusterId, physical: &str) -> Result<NodeName, NameError> {
    object_name("the name of the physical node", physical)?;
    let full = format!("{NODE_PREFIX}{cluster}-{physical}");
    Ok(if full.len() <= LABEL_MAX { full.into() } else { cut(&full, &full).into() })
}

/// The name of the physical pod of a virtual one, as the top-down half makes it. It does not hold the cluster: two
/// borrowers have two namespaces (decision S7).
///
/// # Errors
/// Namespace or name cannot be those of a pod.
pub fn physical_pod_name(namespace: &str, name: &str) -> Result<String, NameError> {
    object_name("the namespace of the virtual pod", namespace)?;
    object_name("the name of the virtual pod", name)?;
    Ok(cut(name, &format!("{namespace}/{name}")))
}

/// The name of a placeholder pod for host ports of a virtual node (11.2). `hashed` is all that makes it another pod, so that a
/// request that is sent twice makes one.
#[must_use]
pub fn placeholder_name(node: &NodeName, hashed: &str) -> String {
    cut(node, hashed)
}

/// The name of the Lease that a borrower holds in `mountNamespace` (decision S7). Hashed, so that the longest name of a
/// binding gives a legal one.
#[must_use]
pub fn borrower_lease(binding: &BindingName) -> String {
    format!("topoloom-borrower-{}", sha256_digits(binding))
}

/// The name of the Lease that replicas stand for to serve a binding (decision S11), beside the leases of the groups, which
/// begin with `base`.
///
/// # Errors
/// With this base it would be no object name.
pub fn binding_lease(base: &str, binding: &BindingName) -> Result<String, NameError> {
    lease_beside(base, BINDING_INFIX, binding)
}

/// The name of the Lease by which a replica announces itself as one of those that serve bindings (decision S11), beside the
/// leases of the groups, which begin with `base`. `replica` is its name in leases, which no other process has.
///
/// # Errors
/// With this base it would be no object name.
pub fn member_lease(base: &str, replica: &str) -> Result<String, NameError> {
    lease_beside(base, MEMBER_INFIX, replica)
}

/// The base of the name of the lease of a binding; nothing where it is none.
#[must_use]
pub fn base_of_binding_lease(name: &str) -> Option<&str> {
    let (base, hash) = name.rsplit_once(BINDING_INFIX)?;
    (!base.is_empty() && is_hash(hash)).then_some(base)
}

/// A name that begins with a base and ends with a hash. No other infix is longer than that of bindings.
fn lease_beside(base: &str, infix: &str, hashed: &str) -> Result<String, NameError> {
    let field = "the name of the lease, to which \"-binding-\" and a hash are added,";
    let max = SUBDOMAIN_MAX - BINDING_INFIX.len() - DIGITS;
    if base.is_empty() || base.len() > max {
        return Err(NameError::Length { field, value: base.to_owned(), max });
    }
    object_name(field, base)?;
    Ok(format!("{base}{infix}{}", sha256_digits(hashed)))
}

/// A name as the value of a label: as it is where it can be one, otherwise its readable beginning and a hash.
///
/// Two texts never give one value. The hash comes after an underscore, which no object name contains, and a text that
/// looks like such a value is hashed like the long ones.
#[must_use]
pub fn label_value(text: &str) -> String {
    if is_label_value(text).is_ok() && !looks_hashed(text) {
        return text.to_owned();
    }
    let legal = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let head: String = text.chars().take(HEAD).map(legal).collect();
    let head = head.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{}_{}", if head.is_empty() { "x" } else { head }, sha256_digits(text))
}

/// An object under a wanted name that is of something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "its label {key} must be {wanted:?} and is {}: another physical node or another binding has taken the name",
    match found { Some(found) => format!("{:?}", line(found, SHOWN)), None => "absent".to_owned() }
)]
pub struct NameTaken {
    /// The first label that differs.
    pub key: &'static str,
    /// What it is.
    pub found: Option<String>,
    /// What it would be on ours.
    pub wanted: String,
}

/// The labels that say where an object with the name of a virtual node comes from.
const ORIGIN: [&str; 4] = [keys::VIRTUAL_CLUSTER, keys::BINDING, keys::PHYSICAL_CLUSTER_ID, keys::PHYSICAL_NODE_NAME];

/// Whether an existing object under the name of a virtual node is of the same binding, cluster id and physical node as
/// the wanted one. The UID of the binding may differ: that is decided in [`super::identity`].
///
/// # Errors
/// The first label that differs: the name is taken, and nothing may be written under it.
pub fn same_origin(existing: &dyn Keyed, wanted: &dyn Keyed) -> Result<(), NameTaken> {
    for key in ORIGIN {
        let (found, want) = (existing.text(key), wanted.text(key));
        // Two objects without the label have nothing in common.
        if want.is_none() || found != want {
            let (found, wanted) = (found.map(str::to_owned), want.unwrap_or_default().to_owned());
            return Err(NameTaken { key, found, wanted });
        }
    }
    Ok(())
}

fn object_name(field: &'static str, text: &str) -> Result<(), NameError> {
    if text.is_empty() || text.len() > SUBDOMAIN_MAX {
        return Err(NameError::Length { field, value: text.to_owned(), max: SUBDOMAIN_MAX });
    }
    is_object_name(text).map_err(|_| NameError::Letters {
        field,
        value: text.to_owned(),
        alphabet: Alphabet::Subdomain,
    })
}

/// The beginning of a name, a dash, and the MD5 of `hashed`. Behind a dot a dash would be no DNS name, so what the cut
/// leaves at the end is dropped up to a letter or digit.
fn cut(name: &str, hashed: &str) -> String {
    let head = name.get(..name.floor_char_boundary(HEAD)).unwrap_or_default();
    let head = head.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
    format!("{head}-{}", digits(&Md5::digest(hashed.as_bytes())))
}

fn sha256_digits(text: &str) -> String {
    digits(&Sha256::digest(text.as_bytes()))
}

fn digits(hash: &[u8]) -> String {
    hash.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the text has the form of a hashed label value.
fn looks_hashed(text: &str) -> bool {
    text.rsplit_once('_').is_some_and(|(_, hash)| is_hash(hash))
}

fn is_hash(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests;
