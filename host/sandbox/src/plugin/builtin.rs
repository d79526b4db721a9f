//! The plugins that are part of this program. Being one of them is a matter of bytes, not of names: a file with the same
//! bytes is as trusted as the embedded copy, and one that only calls itself `label` is not.
//!
//! The list is a property of the program, as its version is: `main` sets it once ([`embed`]), before anything else
//! runs. So no library is rebuilt when a plugin is, none needs the WebAssembly target, and no function between `main`
//! and the one that reads bytes passes the list on. A program that embeds nothing has none.

use std::sync::{Arc, OnceLock};

use topoloom_core::plugin::{Amount, Embedded, Limit};

use super::Digest;
use crate::endpoints::plan::Usual;
use crate::endpoints::spec::{FABRIC_MAX_BODY, FABRIC_TOTAL};

/// A plugin of this binary.
#[derive(Debug, Clone)]
pub struct Builtin {
    /// The name that entries use.
    pub name: &'static str,
    /// The component file.
    pub bytes: Arc<[u8]>,
    /// Its identity.
    pub digest: Digest,
    /// The same, compiled ahead for this target; empty where the build could not compile for its target.
    pub(super) image: &'static [u8],
}

static GIVEN: OnceLock<&'static [Embedded]> = OnceLock::new();
/// Made when it is first asked for: most verbs of the command line never take the digest of a plugin.
static BUILTINS: OnceLock<Vec<Builtin>> = OnceLock::new();

/// Says which plugins this program embeds. The first call counts.
pub fn embed(plugins: &'static [Embedded]) {
    GIVEN.get_or_init(|| plugins);
}

/// What a builtin plugin needs where its entry does not say otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Needs {
    /// Of the table of limits.
    pub limits: &'static [(Limit, Amount)],
    /// Of its endpoints.
    pub endpoint: Usual,
}

/// Whole fabrics in one answer (decision P3): 98 304 ports are 150 MB, read in pieces.
const FABRIC: &[(Limit, Amount)] =
    &[(Limit::Wall, Amount::seconds(180)), (Limit::Cpu, Amount::seconds(30)), (Limit::Received, Amount::mib(512))];

impl Builtin {
    fn of(embedded: &Embedded) -> Self {
        let Embedded { name, component, image } = *embedded;
        Self { name, bytes: component.into(), digest: Digest::of(component), image }
    }

    /// What it needs beyond the defaults.
    #[must_use]
    pub fn needs(&self) -> Needs {
        match self.name {
            "ufm" | "roce" => {
                let endpoint = Usual { total: FABRIC_TOTAL, max_body: FABRIC_MAX_BODY.as_u64() };
                Needs { limits: FABRIC, endpoint }
            }
            _ => Needs::default(),
        }
    }
}

/// All of them.
#[must_use]
pub fn all() -> &'static [Builtin] {
    let Some(given) = GIVEN.get() else { return &[] };
    BUILTINS.get_or_init(|| given.iter().map(Builtin::of).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plugins_that_read_whole_fabrics_have_longer_limits() {
        embed(&topoloom_builtins::ALL);
        for name in ["ufm", "roce"] {
            let needs = find(name).unwrap().needs();
            assert_eq!((needs.endpoint.max_body, needs.endpoint.total.as_secs()), (256 << 20, 120), "decision P3");
            assert!(needs.limits.contains(&(Limit::Wall, Amount::seconds(180))), "{:?}", needs.limits);
        }
        assert_eq!(find("label").unwrap().needs(), Needs::default());
    }
}
