//! What to do about a reason, and about the configuration: one answer for each, in the words that a person types.

use topoloom_api::condition::{Condition, Reason};
use topoloom_api::discovery_source::{DiscoverySourceStatus, PluginOrigin};

use super::waits::Waiting;
use crate::cluster::{self, Refusal};
use crate::config::{Document, Entry, Load, Location};

/// Mistakes of the document that are shown; the rest is counted.
const SHOWN: usize = 20;
/// What the sentence of a refusal has when a rule is missing.
const MISSING_RULE: &str = "The missing rule";
/// What a message has that is about a plugin of a registry.
const FROM_REGISTRY: &str = "plugin.oci ";
/// What it also has where the host may not pull from that registry, where the entry names no account, and where the authorities are
/// not those of the certificate, or cannot be read.
const NOT_NAMED: &str = "--plugin-registries";
const NO_SECRET: &str = "names no `pullSecret`";
const BUNDLE: &str = "caBundle";

/// What was found where the configuration is.
pub(super) struct Configuration<'a> {
    /// Where that is.
    pub(super) location: &'a Location,
    /// The configuration, or why it could not be read.
    pub(super) load: &'a Result<Load, Refusal>,
}

impl Configuration<'_> {
    /// The command that opens it.
    fn edit(&self) -> String {
        let Location { namespace, name, .. } = self.location;
        format!("kubectl edit configmap {name} --namespace {namespace}")
    }

    /// The problems of the whole configuration, and of entries without a DiscoverySource.
    pub(super) fn waits(&self, sources: &[&str]) -> Vec<Waiting> {
        let lack = match self.load {
            Err(refusal) => return vec![self.unread(refusal)],
            Ok(load) => load.lack(self.location),
        };
        let lack = lack.map(|lack| Waiting { what: lack.what, command: lack.todo });
        let document = self.load.as_ref().ok().and_then(Load::document);
        lack.into_iter().chain(document.into_iter().flat_map(|document| self.mistakes(document, sources))).collect()
    }

    fn unread(&self, refusal: &Refusal) -> Waiting {
        let command = match refusal.reason {
            cluster::RefusalReason::Forbidden => "topoloom preflight".to_owned(),
            _ => String::new(),
        };
        Waiting { what: format!("{} could not be read: {refusal}", self.location), command }
    }

    /// Entries that cannot be read, and whose source has no object that shows it.
    fn mistakes(&self, document: &Document, sources: &[&str]) -> Vec<Waiting> {
        let speaks = |entry: &Entry| entry.source.as_deref().is_some_and(|source| sources.contains(&source));
        let wrong = document.entries.iter().filter(|entry| !speaks(entry));
        let problems: Vec<_> = wrong.filter_map(|entry| entry.config.as_ref().err()).flatten().collect();
        let wait = |what: String| Waiting { what, command: self.edit() };
        let mut waits: Vec<_> = problems.iter().take(SHOWN).map(|problem| wait(problem.to_string())).collect();
        if problems.len() > SHOWN {
            waits.push(wait(format!("and {} more", problems.len() - SHOWN)));
        }
        waits
    }

    /// What to do about a condition of a source that is not as it should be; empty: nothing is to be typed.
    pub(super) fn about(&self, condition: &Condition, status: &DiscoverySourceStatus) -> String {
        let source = &status.source;
        if condition.message.contains(MISSING_RULE) {
            return "topoloom preflight".to_owned();
        }
        let Some(reason) = Reason::ALL.iter().find(|reason| reason.as_str() == condition.reason) else {
            return format!("topoloom source run {source}");
        };
        if let Some(advice) = self.about_registry(*reason, &condition.message) {
            return advice;
        }
        match reason {
            Reason::InvalidConfig | Reason::InvalidDocument | Reason::PermissionDenied => self.edit(),
            // The present state counts, not the one when the condition was written.
            Reason::ConfigMissing => match self.load.as_ref().ok().and_then(|load| load.lack(self.location)) {
                Some(lack) => lack.todo,
                None => String::new(),
            },
            Reason::PluginNotFound | Reason::DigestMismatch | Reason::PluginInvalid | Reason::Untrusted => {
                format!("topoloom plugin push FILE {}, or correct `plugin`: {}", place(condition, status), self.edit())
            }
            Reason::CanaryHeld => format!("topoloom plugin continue {source}"),
            Reason::RolledBack => {
                let place = place(condition, status);
                format!("topoloom plugin push FILE {place}; topoloom plugin continue {source} tries it once more")
            }
            Reason::Quarantined
            | Reason::GuestError
            | Reason::Trap
            | Reason::Deadline
            | Reason::OutOfMemory
            | Reason::InvalidResult => match status.previous.first() {
                Some(_) => format!("topoloom plugin rollback {source}"),
                None => format!("topoloom source run {source}"),
            },
            Reason::Unauthorized | Reason::CredentialsMissing => {
                "correct the Secret that the entry names; the host notices the change".to_owned()
            }
            Reason::WriteFailed => "topoloom preflight".to_owned(),
            Reason::NameTaken => "delete or rename the object that has the name".to_owned(),
            // It continues by itself, or is reported elsewhere.
            Reason::Ok
            | Reason::Pending
            | Reason::Crashed
            | Reason::Disabled
            | Reason::Paused
            | Reason::Observing
            | Reason::ForeignWriter
            | Reason::VolcanoActive => String::new(),
            _ => format!("topoloom source run {source}"),
        }
    }

    /// The same where the registry of a plugin is not reached as the entry and the host are; nothing where that is not what is wrong.
    fn about_registry(&self, reason: Reason, message: &str) -> Option<String> {
        let is = |wanted: &[Reason], words: &str| wanted.contains(&reason) && message.contains(words);
        if !message.starts_with(FROM_REGISTRY) {
            None
        } else if is(&[Reason::PermissionDenied], NOT_NAMED) {
            Some("add the registry to --plugin-registries (`plugins.registries` of the chart)".to_owned())
        } else if is(&[Reason::Unauthorized], NO_SECRET) {
            Some(format!("add `pullSecret` to `plugin.oci`: {}", self.edit()))
        } else if is(&[Reason::CredentialsMissing, Reason::Upstream], BUNDLE) {
            Some(format!("correct the authorities that `caBundle` of `plugin.oci` gives: {}", self.edit()))
        } else {
            None
        }
    }
}

/// Where a source takes its plugin from, as `plugin push` wants it.
fn place(condition: &Condition, status: &DiscoverySourceStatus) -> &'static str {
    let serves = status.plugin.as_ref().is_some_and(|plugin| plugin.origin == PluginOrigin::Registry);
    if serves || condition.message.contains(FROM_REGISTRY) {
        "oci://REGISTRY/NAME:TAG"
    } else {
        "--configmap [NAMESPACE/]NAME"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const EDIT: &str = "kubectl edit configmap map --namespace ns";

    fn found(data: Option<&[(&str, &str)]>) -> Result<Load, Refusal> {
        let data = data.map(|data| data.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())));
        Ok(Load::from_data(data.map(Iterator::collect::<BTreeMap<_, _>>).as_ref(), crate::config::location::KEY))
    }

    fn waits(load: &Result<Load, Refusal>, sources: &[&str]) -> Vec<(String, String)> {
        let location = Location::new("ns", "map");
        let waits = Configuration { location: &location, load }.waits(sources);
        waits.into_iter().map(|waiting| (waiting.what, waiting.command)).collect()
    }

    #[test]
    fn what_is_wrong_with_the_configuration_comes_with_what_to_type() {
        let [(what, command)] = waits(&found(None), &[]).try_into().unwrap();
        assert_eq!(what, "there is no ConfigMap ns/map");
        assert!(command.contains("kubectl create configmap map --namespace ns"), "{command}");
        let [(what, command)] = waits(&found(Some(&[("topology.yaml", "")])), &[]).try_into().unwrap();
        assert_eq!(what, "the ConfigMap ns/map lacks the key volcano-controller.conf");
        assert!(command.contains(EDIT), "{command}");
        let [(what, command)] = waits(&found(Some(&[("volcano-controller.conf", "a: [")])), &[]).try_into().unwrap();
        assert!(what.contains("cannot be read: line ") && command.contains(EDIT), "{what} {command}");
        assert_eq!(waits(&found(Some(&[("volcano-controller.conf", "")])), &[]), []);
        let refusal = |reason| Refusal { reason, message: "no".to_owned(), retry_after: None };
        let [(_, command)] = waits(&Err(refusal(cluster::RefusalReason::Forbidden)), &[]).try_into().unwrap();
        assert_eq!(command, "topoloom preflight");
        let [(_, command)] = waits(&Err(refusal(cluster::RefusalReason::Unreachable)), &[]).try_into().unwrap();
        assert_eq!(command, "");
    }

    #[test]
    fn an_entry_that_no_object_speaks_for_is_shown() {
        let text = "networkTopologyDiscovery:\n- sorce: label\n  enabled: true\n- source: ufm\n  enabled: true\n  interval: 7\n";
        let load = found(Some(&[("volcano-controller.conf", text)]));
        let all = waits(&load, &[]);
        assert!(all.iter().all(|(_, command)| command == EDIT), "{all:?}");
        let shown = |waits: &[(String, String)], words: &str| waits.iter().any(|(what, _)| what.contains(words));
        assert!(shown(&all, "networkTopologyDiscovery[0].source: is missing"), "{all:?}");
        assert!(shown(&all, "line 6: networkTopologyDiscovery[1].interval"), "{all:?}");
        // ufm has an object, whose condition says it.
        let left = waits(&load, &["ufm"]);
        assert!(shown(&left, "[0].source") && !shown(&left, "[1]"), "{left:?}");
    }

    #[test]
    fn advice_fits_the_reason() {
        let location = Location::new("ns", "map");
        let status = |previous: &str| -> DiscoverySourceStatus {
            let previous: serde_json::Value = serde_json::from_str(previous).unwrap();
            serde_json::from_value(serde_json::json!({"source": "a", "previous": previous})).unwrap()
        };
        let none = status("[]");
        let kept = status(r#"[{"digest": "sha256:0", "version": "1"}]"#);
        let load = found(None);
        let about = |reason: &str, message: &str, status: &DiscoverySourceStatus| {
            let condition =
                Condition { reason: reason.to_owned(), message: message.to_owned(), ..Condition::default() };
            Configuration { location: &location, load: &load }.about(&condition, status)
        };
        for (reason, command) in [
            ("InvalidConfig", EDIT),
            ("InvalidDocument", EDIT),
            ("PermissionDenied", EDIT),
            ("Upstream", "topoloom source run a"),
            ("Trap", "topoloom source run a"),
            ("Unauthorized", "correct the Secret that the entry names; the host notices the change"),
            ("WriteFailed", "topoloom preflight"),
            ("Pending", ""),
            ("of a later version", "topoloom source run a"),
        ] {
            assert_eq!(about(reason, "m", &none), command, "{reason}");
        }
        assert!(about("ConfigMissing", "m", &none).contains("kubectl create configmap map"));
        let push = about("PluginNotFound", "m", &none);
        assert_eq!(
            push,
            format!("topoloom plugin push FILE --configmap [NAMESPACE/]NAME, or correct `plugin`: {EDIT}")
        );
        let message = "plugin.oci oci://registry.example.com/acme/racks:1: GET https://registry.example.com/v2/: 404";
        let push = about("PluginNotFound", message, &none);
        assert!(push.starts_with("topoloom plugin push FILE oci://REGISTRY/NAME:TAG, or correct"), "{push}");
        for (reason, words, command) in [
            ("PermissionDenied", "name r.example with --plugin-registries", "add the registry to --plugin-registries"),
            ("PermissionDenied", "a private address", EDIT),
            (
                "Unauthorized",
                "401, since the entry names no `pullSecret`",
                "add `pullSecret` to `plugin.oci`: kubectl edit",
            ),
            ("Unauthorized", "403, with the credentials of the Secret a/b", "correct the Secret"),
            (
                "CredentialsMissing",
                "`caBundle`: the ConfigMap a/b does not exist",
                "correct the authorities that `caBundle`",
            ),
            ("CredentialsMissing", "the Secret a/b does not exist", "correct the Secret"),
            ("Upstream", "not signed by a trusted authority: caBundle", "correct the authorities that `caBundle`"),
            ("Upstream", "503", "topoloom source run a"),
        ] {
            let said = about(reason, &format!("plugin.oci oci://r.example/a:1: {words}"), &none);
            assert!(said.starts_with(command), "{reason}, {words}: {said}");
        }
        assert_eq!(about("Trap", "m", &kept), "topoloom plugin rollback a");
        let forbidden = "Secret x: it may not be read. The missing rule: get on secrets x";
        assert_eq!(about("CredentialsMissing", forbidden, &none), "topoloom preflight");
    }
}
