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
    /// The same, compiled by the build script; empty where the build could not compile for its target.
    pub(super) image: &'static [u8],
}

/// A plugin that the build script left behind.
macro_rules! builtin {
    ($name:literal) => {
        builtin(
            $name,
            include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm")),
            include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".image")),
        )
    };
}

static BUILTINS: LazyLock<Vec<Builtin>> = LazyLock::new(|| vec![builtin!("label")]);

fn builtin(name: &'static str, bytes: &'static [u8], image: &'static [u8]) -> Builtin {
    Builtin { name, bytes: bytes.into(), digest: Digest::of(bytes), image }
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

/// The one with these bytes.
pub(super) fn of(digest: &Digest) -> Option<&'static Builtin> {
    all().iter().find(|builtin| builtin.digest == *digest)
}
