//! What names the work on pods.

use std::fmt;
use std::sync::Arc;

/// Namespace and name of a pod, in one text. Clones share it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodName(Arc<str>);

impl PodName {
    /// The pod of this namespace and name.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// The pod whose namespace and name are this text.
    #[must_use]
    pub fn of(text: &Arc<str>) -> Self {
        Self(Arc::clone(text))
    }

    /// Its namespace and its name. A namespace contains no slash.
    #[must_use]
    pub fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or(("", &self.0))
    }

    /// Both in one text.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.0
    }
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A piece of work. By name and not by UID: a pod that was made again under its name has the virtual pod of the earlier one,
/// so the two must not be worked on at the same time; and it is by its name that a pod is read live.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodKey {
    /// A physical pod: its status is mirrored, or it is an orphan.
    Physical(PodName),
    /// A virtual pod that terminates: it is finished where the top-down half does not do it.
    Ending(PodName),
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Physical(name) => write!(f, "physical {name}"),
            Self::Ending(name) => write!(f, "ending {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_as_it_was_made() {
        let name = PodName::new("shop", "web-0");
        assert_eq!((name.parts(), name.to_string().as_str()), (("shop", "web-0"), "shop/web-0"));
        let keys = [PodKey::Physical(name.clone()), PodKey::Ending(name)];
        assert_eq!(keys.map(|key| key.to_string()), ["physical shop/web-0", "ending shop/web-0"]);
    }
}
