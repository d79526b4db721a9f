//! What a request must carry so that it meets the object that was judged, as it was judged.
//!
//! Owns the pair of UID and resourceVersion, which the API server compares before it deletes or writes. Never holds an empty
//! part: a patch with an empty resourceVersion would be taken without a comparison, and a DELETE with an empty UID refused
//! for ever.
//!
//! What goes wrong: an object was read without one of the two. Then there is no pair, and the caller makes no request.

use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

/// What a request must carry: without both it could meet another object, or one that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Precondition {
    uid: Uid,
    version: ResourceVersion,
}

impl Precondition {
    /// For an object that was read with this UID and in this version; `None` where one of them is not known.
    #[must_use]
    pub fn of(uid: &Uid, version: &ResourceVersion) -> Option<Self> {
        let is_whole = !uid.is_empty() && !version.is_empty();
        is_whole.then(|| Self { uid: uid.clone(), version: version.clone() })
    }

    /// The UID.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// The version that was judged.
    #[must_use]
    pub fn version(&self) -> &ResourceVersion {
        &self.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_uid_or_version_there_is_no_precondition() {
        let of = |uid: &str, version: &str| Precondition::of(&uid.into(), &version.into());
        let whole = of("u", "7").unwrap();
        assert_eq!((&**whole.uid(), &**whole.version()), ("u", "7"));
        for (uid, version) in [("", "7"), ("u", ""), ("", "")] {
            assert_eq!(of(uid, version), None, "{uid} {version}");
        }
    }
}
