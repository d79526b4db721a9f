//! `topoloom plugin test`: the conformance kit, and the cases of the vendor, on the component itself. No cluster, no network.

mod document;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use topoloom_api::names::SOURCE_LABEL;
use topoloom_core::plugin::Limits;
use topoloom_workshop::cases::{self, Case};
use topoloom_workshop::kit::{self, Exam, FileFacts, Report, Trial, junit};
use topoloom_workshop::pack;
use topoloom_workshop::rounds::Desk;

use super::place::{PluginPlace, RegistryArgs};
use super::sandbox::{self, ProfileArg};
use super::target::{Component, Target, patient};
use crate::cli::desk::bytes_of;
use crate::cli::{output, print};
use crate::plugin::{Digest, LoadError, Runtime};
pub(in crate::cli) use document::Tested;

/// Flags of `plugin test`.
#[derive(Debug, Args)]
pub(in crate::cli) struct TestArgs {
    /// The plugin: a component, the folder of a project, which is built first, or a reference, oci://REGISTRY/NAME:TAG
    #[arg(value_name = "DIR|FILE|REF", default_value = ".")]
    plugin: PluginPlace,
    /// The folder of its cases; default: that of the project, or `cases`
    #[arg(long, value_name = "DIR")]
    cases: Option<PathBuf>,
    /// An earlier version, a file or a reference: what a host would do that swaps it for this one
    #[arg(long, value_name = "FILE|REF")]
    against: Option<PluginPlace>,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Write the answers of now into the cases, as what is expected; look at the difference before you commit it
    #[arg(long)]
    bless: bool,
    /// The limits; default: those of the project, or the standard ones
    #[arg(long, value_enum)]
    profile: Option<ProfileArg>,
    /// Text for people, JSON for programs, or JUnit for pipelines
    #[arg(short, long, value_enum, default_value_t = TestOutput::Text)]
    output: TestOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TestOutput {
    Text,
    Json,
    Junit,
}

/// What was examined, for the heads of all forms.
struct Examined {
    file: String,
    digest: Digest,
    /// Name and version, where the plugin says them.
    plugin: Option<(String, String)>,
    cases: Vec<String>,
}

/// Tries all checks, prints a line for each, and fails where one does.
pub(super) async fn run(args: TestArgs) -> anyhow::Result<ExitCode> {
    if let Some(folder) = &args.cases
        && !folder.exists()
    {
        bail!("--cases {}: there is no such folder; give the folder of the cases", folder.display());
    }
    let component = Target::at(&args.plugin).component(&args.registry).await?;
    let folder = args.cases.as_deref().unwrap_or(&component.cases);
    let of_flag = args.profile.map(ProfileArg::limits).map(patient);
    let limits = of_flag.or_else(|| component.limits.clone()).unwrap_or_default();
    let runtime = sandbox::runtime()?;
    let desk = Desk::open(&runtime, Arc::clone(&component.bytes), limits.clone()).await;
    let against = match &args.against {
        Some(place) => Some(earlier(&runtime, place, &args.registry, &limits).await?),
        None => None,
    };
    let (trials, described) = match &desk {
        Ok(desk) => (Box::pin(trials(desk, folder, args.bless)).await?, desk.describe().await.end.ok()),
        Err(_) => (Vec::new(), None),
    };
    let file = facts(&component, &limits);
    let exam = Exam {
        file,
        plugin: desk.as_ref().map_err(refused),
        trials: &trials,
        against: against.as_ref(),
        sizes: &kit::SIZES,
        reserved_labels: &[SOURCE_LABEL],
    };
    let report = Box::pin(kit::run(&exam)).await;
    let examined = Examined {
        file: component.place.clone(),
        digest: Digest::of(&component.bytes),
        plugin: described.map(|described| (described.name, described.version)),
        cases: trials.iter().map(|trial| trial.name.clone()).collect(),
    };
    print::out(&shown(&report, &examined, args.output)?);
    Ok(if report.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The version that this one would replace. It served with limits of its own, which are not known: it gets the larger ones.
async fn earlier(
    runtime: &Runtime,
    place: &PluginPlace,
    registry: &RegistryArgs,
    limits: &Limits,
) -> anyhow::Result<Desk> {
    let named = || format!("--against {place}");
    let bytes = bytes_of(place, registry).await.with_context(named)?;
    match Desk::open(runtime, Arc::clone(&bytes), limits.clone()).await {
        Ok(desk) => Ok(desk),
        Err(error) if error.limit().is_some() => Desk::open(runtime, bytes, Limits::large()).await.with_context(named),
        Err(error) => Err(error).with_context(named),
    }
}

/// The cases, played. With `bless` first what they answer is written, and then that is what is expected.
async fn trials(desk: &Desk, folder: &Path, bless: bool) -> anyhow::Result<Vec<Trial>> {
    if bless {
        for case in read(folder)? {
            let written = cases::play(desk, &case).await.bless();
            let written = written.with_context(|| format!("--bless: the case {}", case.name))?;
            for file in written {
                print::error(&format!("topoloom: wrote {}", file.display()));
            }
        }
    }
    let mut trials = Vec::new();
    for case in read(folder)? {
        let played = cases::play(desk, &case).await;
        trials.push(Trial::of(&case, &played, desk));
    }
    Ok(trials)
}

fn read(folder: &Path) -> anyhow::Result<Vec<Case>> {
    match Case::read_all(folder) {
        Ok(cases) => Ok(cases),
        Err(wrong) => bail!("{}", wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

fn facts(component: &Component, limits: &Limits) -> FileFacts {
    // As it would be pushed.
    FileFacts::of(&component.bytes, limits, pack::size_for_config_map(&component.bytes), pack::ROOM)
}

/// The whole refusal, with its cause.
fn refused(error: &LoadError) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

fn shown(report: &Report, examined: &Examined, output: TestOutput) -> anyhow::Result<String> {
    match output {
        TestOutput::Text => Ok(format!("{}\n\n{}", head(examined), report.text())),
        TestOutput::Json => output::json_of(&Tested::of(report, examined)),
        TestOutput::Junit => Ok(junit::document(report, &examined.file)),
    }
}

/// What was examined, in one line.
fn head(examined: &Examined) -> String {
    let plugin = examined.plugin.as_ref().map(|(name, version)| format!("{name} {version}, ")).unwrap_or_default();
    let cases = match examined.cases.as_slice() {
        [] => "no case: checks that need one are left out".to_owned(),
        [case] => format!("the case {case}"),
        cases => format!("{} cases: {}", cases.len(), cases.join(", ")),
    };
    format!("{plugin}{}, {cases}", examined.file)
}

#[cfg(test)]
mod tests {
    use topoloom_workshop::kit::check::{Check, Family};
    use topoloom_workshop::kit::report::{Finding, Level, Line, Skip};

    use super::*;

    fn report() -> Report {
        let line = |check: Check| Line {
            check,
            findings: Vec::new(),
            skipped: None,
            note: None,
            took: std::time::Duration::from_millis(7),
        };
        let finding = |level: Level, text: &str| Finding { level, case: Some("small".into()), text: text.into() };
        Report {
            lines: vec![
                Line { note: Some("9 bytes, 8 packed".into()), ..line(Check::FileLoads) },
                Line { findings: vec![finding(Level::Error, "it crashes")], ..line(Check::SoundNoNodes) },
                Line { skipped: Some(Skip::Nothing("no annotation".into())), ..line(Check::SoundBytes) },
            ],
        }
    }

    fn examined(cases: &[&str]) -> Examined {
        Examined {
            file: "racks.wasm".into(),
            digest: Digest::of(b"racks"),
            plugin: Some(("racks".into(), "0.1.0".into())),
            cases: cases.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn the_head_says_what_was_examined() {
        assert_eq!(head(&examined(&["small"])), "racks 0.1.0, racks.wasm, the case small");
        assert_eq!(head(&examined(&["a", "b"])), "racks 0.1.0, racks.wasm, 2 cases: a, b");
        assert!(head(&examined(&[])).ends_with("no case: checks that need one are left out"));
    }

    #[test]
    fn a_program_gets_every_check_with_its_page() {
        let text = shown(&report(), &examined(&["small"]), TestOutput::Json).unwrap();
        let said: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&said["kind"], &said["failed"]), (&"PluginTest".into(), &true.into()));
        let checks = said["checks"].as_array().unwrap();
        let words: Vec<_> = checks.iter().map(|check| check["mark"].as_str().unwrap()).collect();
        assert_eq!(words, ["passed", "failed", "leftOut"]);
        assert_eq!(checks[1]["page"], "docs/vendors/testing.md#sound-no-nodes");
        assert_eq!(checks[1]["family"], Family::Sound.as_str());
        assert_eq!(checks[1]["findings"][0]["text"], "it crashes");
        assert_eq!((&checks[2]["reason"], checks[1].get("reason")), (&"no annotation".into(), None));
    }
}
