//! What an operator says by annotations on a ClusterBinding (decision S23, in the form of H17).
//!
//! Owns how they are read. `confirm` asks for something once: it is carried out, and taken off the object, so that it never counts
//! twice. The others stay for as long as they are meant.

use std::collections::BTreeMap;

use topoloom_api::names::{CONFIRM_ANNOTATION, DETACH_ANNOTATION, DRAIN_ANNOTATION, PAUSE_ANNOTATION};
use topoloom_core::text::{says_yes, word};
use topoloom_sync::drain::Drain;

use crate::view::VerbOnBinding;

/// The verbs on a ClusterBinding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Verbs {
    /// The hash that is confirmed.
    pub(super) confirm: Option<String>,
    /// Whether the binding is paused.
    pub(super) is_paused: bool,
    /// Which nodes go.
    pub(super) drain: VerbOnBinding,
    /// The physical cluster that is gone for good.
    pub(super) detach: Option<String>,
}

impl Verbs {
    pub(super) fn read(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let text = |key: &str| annotations?.get(key).map(|text| text.trim()).filter(|text| !text.is_empty());
        Self {
            // It goes into the log, even where it confirms nothing.
            confirm: text(CONFIRM_ANNOTATION).map(word),
            is_paused: says_yes(text(PAUSE_ANNOTATION)),
            drain: drain(text(DRAIN_ANNOTATION)),
            detach: text(DETACH_ANNOTATION).map(word),
        }
    }
}

fn drain(text: Option<&str>) -> VerbOnBinding {
    match Drain::read(text) {
        Drain::None => VerbOnBinding::None,
        Drain::All => VerbOnBinding::Drain,
        Drain::Nodes(nodes) => VerbOnBinding::DrainNodes(nodes),
    }
}

#[cfg(test)]
mod tests {
    use topoloom_sync::drain::NODES;

    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Verbs {
        let annotations = annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Verbs::read(Some(&annotations))
    }

    #[test]
    fn s23_verbs_are_read_from_annotations() {
        assert_eq!((Verbs::read(None), read(&[("a", "b")])), (Verbs::default(), Verbs::default()));
        let all = [
            (CONFIRM_ANNOTATION, " 0123456789ab "),
            (PAUSE_ANNOTATION, "yes"),
            (DRAIN_ANNOTATION, "true"),
            (DETACH_ANNOTATION, "uid-a"),
        ];
        let wanted = Verbs {
            confirm: Some("0123456789ab".to_owned()),
            is_paused: true,
            drain: VerbOnBinding::Drain,
            detach: Some("uid-a".to_owned()),
        };
        assert_eq!(read(&all), wanted);
        let none = [(CONFIRM_ANNOTATION, ""), (PAUSE_ANNOTATION, "false"), (DRAIN_ANNOTATION, "false")];
        assert_eq!(read(&none), Verbs::default());
    }

    #[test]
    fn s23_a_list_of_names_drains_these_and_a_typing_error_does_not_drain_all() {
        let nodes = |names: &[&str]| VerbOnBinding::DrainNodes(names.iter().map(|name| (*name).to_owned()).collect());
        for (text, wanted) in [
            ("w1", nodes(&["w1"])),
            ("w1, vnode-east-w2,", nodes(&["w1", "vnode-east-w2"])),
            ("ture", nodes(&["ture"])),
            (" , ", VerbOnBinding::None),
        ] {
            assert_eq!(read(&[(DRAIN_ANNOTATION, text)]).drain, wanted, "{text}");
        }
        let many =
            vec!["w"; 5_000].iter().enumerate().map(|(at, name)| format!("{name}{at}")).collect::<Vec<_>>().join(",");
        let VerbOnBinding::DrainNodes(nodes) = read(&[(DRAIN_ANNOTATION, many.as_str())]).drain else { panic!() };
        assert_eq!(nodes.len(), NODES);
        let long = "x".repeat(100_000);
        let long = read(&[(CONFIRM_ANNOTATION, long.as_str())]).confirm.unwrap();
        assert!(long.len() < 120);
    }
}
