//! The plugins that are part of this binary. Being one of them is a matter of bytes, not of names: a file with the same
//! bytes is as trusted as the embedded copy, and one that only calls itself `label` is not.

use std::sync::{Arc, LazyLock};

use super::Digest;

/// A plugin of this binary.
#[derive(Debug, Clone)]
pub struct Builtin {
    /// The name that entries use.
    pub name: &'static str,
    /// The component file.
    pub bytes: Arc<[u8]>,
    /// Its identity.
    pub digest: Digest,
}

static BUILTINS: LazyLock<Vec<Builtin>> =
    LazyLock::new(|| vec![builtin("label", include_bytes!(concat!(env!("OUT_DIR"), "/label.wasm")))]);

fn builtin(name: &'static str, bytes: &'static [u8]) -> Builtin {
    Builtin { name, bytes: bytes.into(), digest: Digest::of(bytes) }
}

/// All of them.
#[must_use]
pub fn all() -> &'static [Builtin] {
    &BUILTINS
}

/// The one of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Builtin> {
    all().iter().find(|builtin| builtin.name == name)
}

pub(super) fn is_embedded(digest: &Digest) -> bool {
    all().iter().any(|builtin| builtin.digest == *digest)
}
