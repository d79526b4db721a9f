//! How a pod is called.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_as_it_was_made() {
        let name = PodName::new("shop", "web-0");
        assert_eq!((name.parts(), name.to_string().as_str()), (("shop", "web-0"), "shop/web-0"));
    }
}
