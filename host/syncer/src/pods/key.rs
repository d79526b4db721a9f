//! What names the work on pods.

use std::fmt;

use crate::slices::pod::PodName;

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
    fn work_is_shown_with_its_kind_and_its_pod() {
        let name = PodName::new("shop", "web-0");
        let keys = [PodKey::Physical(name.clone()), PodKey::Ending(name)];
        assert_eq!(keys.map(|key| key.to_string()), ["physical shop/web-0", "ending shop/web-0"]);
    }
}
