//! A case out of a round.

use std::path::{Path, PathBuf};

use topoloom_core::text;
use topoloom_core::topology::Object;
use topoloom_workshop::cases::write::{Draft, Written};

use super::{Turn, answered};
use crate::endpoints::recording::RecordedPlugin;
use crate::topology::convert::{WantedObject, apply_body};

/// The longest remark, in bytes.
const REMARK: usize = 1 << 10;

/// Writes the case; returns what a person should know of it.
pub(super) async fn write(turn: &Turn, case: &Path, anonymise: bool) -> anyhow::Result<String> {
    let plugin = RecordedPlugin { name: turn.description.name.clone(), version: turn.description.version.clone() };
    let draft = Draft {
        nodes: turn.nodes.under(&turn.configured.keys),
        config: turn.config.clone(),
        existing: existing(turn)?,
        recording: turn.recording.clone().map(|recording| recording.of_plugin(plugin)),
        state: Vec::new(),
        time: turn.time,
        shown: answered(turn)?,
    };
    let draft = if anonymise { draft.anonymised()? } else { draft };
    let folder = folder(case, &turn.component.cases);
    let Written { files, remarks } = draft.write(&turn.desk, &folder).await?;
    let mut said = format!("\nthe case {}:\n", folder.display());
    for file in files {
        push_line!(said, "  {}", file.display());
    }
    for remark in remarks {
        push_line!(said, "  {}", text::line(&remark, REMARK));
    }
    if !anonymise {
        said.push_str("it has the names of Nodes and what services answered; --anonymise replaces the names\n");
    }
    Ok(said)
}

/// A name is one in the folder of cases.
fn folder(case: &Path, cases: &Path) -> PathBuf {
    let is_name = case.parent().is_none_or(|parent| parent.as_os_str().is_empty());
    if is_name { cases.join(case) } else { case.to_owned() }
}

/// The objects of the source, as a file that a case reads. Nothing where there are none.
fn existing(turn: &Turn) -> anyhow::Result<Option<String>> {
    let own: Vec<&Object> = turn
        .existing
        .iter()
        .map(|object| &**object)
        .filter(|object| object.source.as_ref() == Some(turn.desk.source()))
        .collect();
    if own.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    for object in own {
        let wanted = WantedObject {
            name: &object.name,
            source: turn.desk.source(),
            group_id: object.group_id.as_deref(),
            split_from: object.split_from.as_deref(),
            description: object.description.as_deref(),
            labels: &object.labels,
            spec: &object.spec,
        };
        text.push_str("---\n");
        text.push_str(&topoloom_api::crd::to_yaml(&apply_body(wanted, None))?);
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_in_the_folder_of_cases_and_a_path_is_a_path() {
        let at = |case: &str| folder(Path::new(case), Path::new("demo/cases")).display().to_string();
        assert_eq!(at("first"), "demo/cases/first");
        assert_eq!(at("./first"), "./first");
        assert_eq!(at("/tmp/first"), "/tmp/first");
    }
}
