//! What a component says about its making: the producers section, which `plugin inspect` shows.

use wasm_metadata::Producers;

use topoloom_core::plugin::{Digest, Limits};
use topoloom_sandbox::plugin::anatomy;

use crate::project::Language;

/// The name under which the digest of the source is written. It is a name in `processed-by`: the convention of the section has three
/// fields (`language`, `processed-by`, `sdk`), and tools refuse a fourth.
const SOURCE: &str = "source";

/// What a component was made of and with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The language, where the project names one.
    pub(super) language: Option<Language>,
    /// The digest of the source; a module without a project has none.
    pub(super) source: Option<Digest>,
    /// Names and versions of the tools, in the order of their work.
    pub(super) tools: Vec<(String, String)>,
}

impl Stamp {
    /// The component with these lines in its producers section; those that are there stay. Nothing of it depends on time or
    /// place.
    ///
    /// # Errors
    /// Bytes that are no component.
    pub(super) fn add_to(&self, component: &[u8]) -> Result<Vec<u8>, String> {
        let mut producers = Producers::empty();
        if let Some(language) = self.language.filter(|language| *language != Language::Other) {
            producers.add("language", language.name(), "");
        }
        for (name, version) in &self.tools {
            producers.add("processed-by", name, version);
        }
        producers.add("processed-by", "topoloom", env!("CARGO_PKG_VERSION"));
        if let Some(source) = self.source {
            producers.add("processed-by", SOURCE, &source.to_string());
        }
        producers.add_to_wasm(component).map_err(|error| format!("{error:#}"))
    }
}

/// Whether this program made the component, of this source.
pub(super) fn is_of(component: &[u8], source: Digest) -> bool {
    let producers = anatomy(component, &Limits::widest().scan).producers;
    let says = |name: &str, version: &str| producers.iter().any(|[_, n, v]| n == name && v == version);
    says("topoloom", env!("CARGO_PKG_VERSION")) && says(SOURCE, &source.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(source: &[u8]) -> Stamp {
        Stamp {
            language: Some(Language::C),
            source: Some(Digest::of(source)),
            tools: vec![("zig".to_owned(), "0.15.2".to_owned())],
        }
    }

    fn made_by(component: &[u8]) -> Vec<String> {
        let producers = anatomy(component, &Limits::widest().scan).producers;
        producers
            .iter()
            .map(|[field, name, version]| format!("{field} {name} {version}").trim_end().to_owned())
            .collect()
    }

    #[test]
    fn a_component_says_what_it_was_made_of_and_with() {
        let component = wat::parse_str(r#"(component (@producers (processed-by "wit-component" "1")))"#).unwrap();
        let stamped = stamp(b"source").add_to(&component).unwrap();
        let version = env!("CARGO_PKG_VERSION");
        let source = Digest::of(b"source");
        assert_eq!(
            made_by(&stamped),
            [
                "processed-by wit-component 1".to_owned(),
                "processed-by zig 0.15.2".to_owned(),
                format!("processed-by topoloom {version}"),
                format!("processed-by source {source}"),
                "language C".to_owned(),
            ]
        );
        assert_eq!(stamp(b"source").add_to(&component).unwrap(), stamped, "the same every time");
        assert_ne!(stamp(b"other").add_to(&component).unwrap(), stamped);
        assert!(is_of(&stamped, source) && !is_of(&stamped, Digest::of(b"other")) && !is_of(&component, source));
    }

    #[test]
    fn a_stamp_is_renewed_and_not_repeated() {
        let component = wat::parse_str("(component)").unwrap();
        let once = stamp(b"one").add_to(&component).unwrap();
        assert_eq!(stamp(b"one").add_to(&once).unwrap(), once);
        let other = stamp(b"other").add_to(&once).unwrap();
        assert_eq!(made_by(&other).len(), made_by(&once).len());
    }

    #[test]
    fn without_a_project_only_the_program_is_named() {
        let bare = Stamp { language: None, source: None, tools: Vec::new() };
        let stamped = bare.add_to(&wat::parse_str("(component)").unwrap()).unwrap();
        assert_eq!(made_by(&stamped), [format!("processed-by topoloom {}", env!("CARGO_PKG_VERSION"))]);
        assert!(bare.add_to(b"no component").is_err());
    }
}
