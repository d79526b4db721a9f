//! `plugin.yaml`, which travels beside a module: its name and its digest and nothing else (decision P4).
//!
//! It says what the bytes are, so that half of an update cannot load. It grants nothing: that is the entry's to say.

use super::read::{At, ReadReport};
use super::{plugin, yaml};
use topoloom_core::plugin::Digest;

/// Bytes of the largest `plugin.yaml` that is read: it has two lines.
pub const MAX_BYTES: usize = 4 << 10;

/// What a module says about its own bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// What the plugin calls itself.
    pub name: String,
    /// The digest of the unpacked module.
    pub digest: Digest,
}

/// Reads one. Unknown keys are no mistake: a later version may have more to say.
///
/// # Errors
/// Everything that is wrong with it, in one sentence.
pub fn parse(text: &str) -> Result<Declaration, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("it has {} bytes, at most {MAX_BYTES} are read", text.len()));
    }
    let tree = yaml::load(text, 0).map_err(|error| error.to_string())?;
    let wanted = "it must be a mapping with name and digest";
    let Some(root) = &tree.root else { return Err(wanted.to_owned()) };
    let Some(mut fields) = At::top(root).into_fields() else { return Err(wanted.to_owned()) };
    let mut report = ReadReport::default();
    for key in ["name", "digest"] {
        if !fields.has(key) {
            report.error(fields.place(key), "is missing".to_owned());
        }
    }
    let name = fields.read("name", &mut report, plugin::plugin_name);
    let digest = fields.read("digest", &mut report, plugin::digest);
    match (name, digest) {
        (Some(name), Some(digest)) if report.errors.is_empty() => Ok(Declaration { name, digest }),
        _ => Err(report.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_declaration_has_a_name_and_a_digest() {
        let read = parse(&format!("name: acme\ndigest: {DIGEST}\nlater: 1\n")).unwrap();
        assert_eq!((read.name.as_str(), read.digest.to_string().as_str()), ("acme", DIGEST));
    }

    #[test]
    fn every_mistake_is_told() {
        for (text, words) in [
            ("", "it must be a mapping with name and digest"),
            ("- a", "it must be a mapping with name and digest"),
            ("name: A b\n", "line 1: digest: is missing; line 1: name: must be a plugin's name"),
            ("name: acme\ndigest: sha256:1\n", "line 2: digest: must be `sha256:` and 64 hexadecimal digits"),
            ("name: [", "line 2"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(words), "{text:?}: {error}");
        }
        assert!(parse(&" ".repeat(MAX_BYTES + 1)).is_err());
    }
}
