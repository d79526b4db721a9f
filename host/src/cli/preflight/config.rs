//! The configuration: that it is there, can be read, and every mistake in it with its line.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt};
use topoloom_api::names::READ_ONLY_ANNOTATION;
use topoloom_core::names::SourceName;

use super::line::Line;
use super::wishes::{self, WishVerdicts};
use crate::cluster::{Refusal, RefusalReason, client};
use crate::config::{Document, Load, Location, References};
use crate::discovery::compat;
use crate::endpoints::Outside;
use crate::topology::writers;
use crate::topology::writers::Made;

/// The check of the switch of all writes.
pub(super) const WRITES: &str = "writes";

/// Mistakes and warnings that are shown; the rest is counted.
const SHOWN: usize = 50;

/// Looks at the ConfigMap. Answers with what its entries refer to as well, of which some is for plugins to say.
pub(super) async fn look(client: &kube::Client, outside: &Outside, location: &Location) -> (Vec<Line>, References) {
    let what = "configuration";
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &location.namespace);
    let map = match api.get_opt(&location.name).await {
        Ok(map) => map,
        Err(error) => {
            let found = format!("{location} could not be read: {}", Refusal::of(&error));
            let todo = "the caller needs get on the ConfigMap; the host itself needs list and watch";
            return (vec![Line::warn(what, found, todo)], References::default());
        }
    };
    let mut lines = Vec::new();
    let annotation = map.as_ref().and_then(|map| map.annotations().get(READ_ONLY_ANNOTATION));
    if topoloom_core::text::says_yes(annotation.map(String::as_str)) {
        let found = format!("{READ_ONLY_ANNOTATION} on {location} stops all writes except leases");
        lines.push(Line::warn(WRITES, found, "topoloom read-only off"));
    }
    let load = Load::from_data(map.map(|map| map.data.unwrap_or_default()).as_ref(), &location.key);
    lines.extend(load.lack(location).map(|lack| Line::fail(what, lack.what, lack.todo)));
    let references = match load {
        Load::NoConfigMap | Load::NoKey | Load::Invalid(_) => References::default(),
        Load::Valid(document) => {
            let mut references = document.references(&location.namespace);
            let objects = objects(client, &document).await.unwrap_or_else(|refusal| {
                let found = format!("HyperNodes could not be listed, so their owners are unknown: {refusal}");
                lines.push(Line::warn("plugins of this binary", found, ""));
                BTreeMap::new()
            });
            let verdicts = wishes::ask(outside, &document, &objects, &mut references).await.unwrap_or_else(|error| {
                let found = format!("it is unknown which labels they read: {}", client::chain(&error));
                lines.push(Line::warn("plugins of this binary", found, ""));
                WishVerdicts::default()
            });
            lines.extend(judged(&location.to_string(), &document, verdicts));
            references
        }
    };
    (lines, references)
}

/// The objects of each source, where an entry leaves open what they decide.
async fn objects(client: &kube::Client, document: &Document) -> Result<BTreeMap<SourceName, Vec<Made>>, Refusal> {
    let mut objects: BTreeMap<SourceName, Vec<Made>> = BTreeMap::new();
    if !document.enabled().any(compat::is_open) {
        return Ok(objects);
    }
    match writers::made(client).await {
        Ok(made) => made.into_iter().for_each(|(source, made)| objects.entry(source).or_default().push(made)),
        // There are none.
        Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => {}
        Err(refusal) => return Err(refusal),
    }
    Ok(objects)
}

/// The lines about a readable document, with the checks of plugins.
fn judged(place: &str, document: &Document, verdicts: WishVerdicts) -> Vec<Line> {
    let enabled: Vec<&str> = document.enabled().map(|entry| &*entry.source).collect();
    let errors: Vec<String> = document.errors().map(ToString::to_string).chain(verdicts.refused).collect();
    let warnings: Vec<String> = document.warnings.iter().map(ToString::to_string).collect();
    let mut lines = Vec::new();
    if enabled.is_empty() && errors.is_empty() {
        lines.push(Line::warn("configuration", format!("{place} enables no source"), "set enabled: true on an entry"));
    } else {
        lines.push(Line::ok("configuration", format!("{place} enables {}", list(&enabled))));
    }
    let todo = "the entry is off, or continues in its last valid version";
    lines.extend(errors.iter().take(SHOWN).map(|error| Line::fail("entry", error, todo)));
    let todo = "the host ignores this part, as Volcano does, and serves the rest of the entry; correct it to have it served, too";
    lines.extend(verdicts.left_out.iter().take(SHOWN).map(|why| Line::warn("entry", why, todo)));
    lines.extend(warnings.iter().take(SHOWN).map(|warning| Line::warn("entry", warning, "")));
    let more = [errors.len(), verdicts.left_out.len(), warnings.len()].map(|count| count.saturating_sub(SHOWN));
    let more: usize = more.iter().sum();
    if more > 0 {
        lines.push(Line::warn("entry", format!("and {more} more"), "topoloom config check shows all"));
    }
    lines
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "no source".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::preflight::line::Mark;

    fn lines(text: &str) -> Vec<(Mark, String)> {
        lines_with(text, &[])
    }

    fn lines_with(text: &str, refused: &[&str]) -> Vec<(Mark, String)> {
        let document = crate::config::parse(text).unwrap();
        let verdicts =
            WishVerdicts { refused: refused.iter().map(ToString::to_string).collect(), ..WishVerdicts::default() };
        judged("ns/map", &document, verdicts).into_iter().map(|line| (line.mark, line.found)).collect()
    }

    #[test]
    fn a_mistake_in_an_entry_is_shown_with_its_line() {
        let lines = lines(
            "networkTopologyDiscovery:\n- source: label\n  enabled: true\n- source: ufm\n  enabled: true\n  interval: 7\n",
        );
        assert_eq!(lines.first(), Some(&(Mark::Ok, "ns/map enables label".to_owned())));
        let mistakes: Vec<_> = lines.iter().filter(|(mark, _)| *mark == Mark::Fail).collect();
        assert!(matches!(mistakes.as_slice(), [(_, found)] if found.starts_with("line 6: ")), "{mistakes:?}");
    }

    #[test]
    fn what_a_plugin_refuses_is_a_mistake_as_well() {
        let lines = lines_with("networkTopologyDiscovery:\n- source: roce\n  enabled: true\n", &["source roce: no"]);
        let wanted = [(Mark::Ok, "ns/map enables roce".to_owned()), (Mark::Fail, "source roce: no".to_owned())];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn a_document_that_enables_nothing_is_worth_a_look() {
        let lines = lines("networkTopologyDiscovery: []\n");
        assert!(matches!(lines.as_slice(), [(Mark::Warn, found)] if found == "ns/map enables no source"), "{lines:?}");
    }
}
