//! `topoloom plugin build`: a project, or a core module alone, becomes a component that is tried as a host would.
//!
//! What is built is loaded with the limits that the project asks for. What it needs more than that is written into the project
//! file, so that an operator copies one line from there.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use topoloom_core::plugin::{Amount, Description, Limit, Limits};
use topoloom_workshop::build::{Built, Repeat, Settled, build_into, settle, wrap_file};
use topoloom_workshop::pack;
use topoloom_workshop::project::{FILE, Limits as Asked, Project};

use super::rows::{self, list, row};
use super::sandbox::Sandbox;
use super::target::{BY_HAND, say};
use crate::cli::print;
use crate::plugin::of_ended_children;

/// Flags of `plugin build`.
#[derive(Debug, Args)]
pub(in crate::cli) struct BuildArgs {
    /// The folder of the project, or a core module that is wrapped alone
    #[arg(value_name = "DIR|FILE", default_value = ".")]
    place: PathBuf,
    /// The component; default: `output` of the project file, or beside the module with the ending .component.wasm
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) async fn run(args: BuildArgs) -> anyhow::Result<ExitCode> {
    let (mut built, project) = if args.place.is_file() {
        let output = args.output.unwrap_or_else(|| args.place.with_extension("component.wasm"));
        (wrap_file(&args.place, &output, &mut say)?, None)
    } else {
        let project = Project::read(&args.place)?;
        let output = args.output.as_deref().unwrap_or(&project.output);
        (build_into(&project, output, &mut say)?, Some(project))
    };
    let asked = project.as_ref().map(|project| project.limits.clone()).unwrap_or_default();
    let described = if built.refused.is_none() { attempt(&mut built, &asked).await? } else { None };
    let settled = match &project {
        Some(project) if built.refused.is_none() => settle(project, &built.need())?,
        _ => None,
    };
    let packed = pack::size_for_config_map(&read(&built.file)?);
    print::out(&report(&built, packed, &asked, described.as_ref()));
    if let Some(Settled { line, is_written }) = settled {
        let what = if is_written { "has a new line" } else { BY_HAND };
        print::out(&format!("\n{FILE} {what}, and the entry of an operator needs it, too:\n  {line}\n"));
    }
    match &built.refused {
        None => Ok(ExitCode::SUCCESS),
        Some(why) => {
            print::error(&format!("topoloom: refused: {why}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Loads it and asks what it is: first with what the project asks for and what is known to be needed, then, where a limit is too
/// low for that, with the most that an entry can set.
async fn attempt(built: &mut Built, asked: &Asked) -> anyhow::Result<Option<Description>> {
    let bytes: Arc<[u8]> = read(&built.file)?.into();
    let sandbox = Sandbox::start("build")?;
    let limits = built.need().added_to(asked).unwrap_or_else(|| asked.clone()).applied();
    let mut before = of_ended_children();
    let mut loaded = sandbox.load(&bytes, limits).await;
    if loaded.as_ref().is_err_and(|error| error.limit().is_some()) {
        before = of_ended_children();
        loaded = sandbox.load(&bytes, Limits::widest()).await;
    }
    let took = of_ended_children().saturating_sub(before);
    let plugin = match loaded {
        Ok(plugin) => plugin,
        Err(error) => {
            built.refused = Some(error.to_string());
            return Ok(None);
        }
    };
    // What this user has compiled before is kept, and takes nothing.
    if !took.is_zero() {
        built.measured(Limit::CompileCpu, Amount::Time(took));
    }
    for (limit, amount) in plugin.needs().map(|needs| needs.measures()).unwrap_or_default() {
        built.measured(limit, amount);
    }
    match plugin.describe(sandbox.source()).await.end {
        Ok(description) => Ok(Some(description)),
        Err(error) => {
            built.refused = Some(format!("describe: {error}"));
            Ok(None)
        }
    }
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}

/// Everything that is known, in two columns.
fn report(built: &Built, packed: usize, asked: &Asked, described: Option<&Description>) -> String {
    let mut rows = vec![
        row("file", &built.file.display().to_string()),
        row("digest", &built.digest.to_string()),
        row("size", &format!("{} bytes, {} packed", built.raw, packed)),
    ];
    if let Some(description) = described {
        rows.insert(0, row("plugin", &format!("{} {}", description.name, description.version)));
    }
    rows.push(rows::config_map(packed));
    rows.extend(rows::needs(&built.need(), asked));
    rows.extend(rows::imports(&[], &built.imports));
    if built.embedded {
        rows.push(row("world", "the module had none, and has that of plugins now"));
    }
    rows.extend(list("without WASI", stubs(built)));
    rows.extend(list("made with", built.tools.iter().map(|(name, version)| format!("{name} {version}"))));
    if let Some(source) = built.source {
        rows.push(row("source", &source.to_string()));
    }
    rows.push(row(
        "built again",
        &match built.repeat {
            Repeat::Equal => "the same bytes, with the same tools and dependencies".to_owned(),
            Repeat::Differs(why) => format!("other bytes: {why}"),
            Repeat::Unknown => "the same bytes, if the command makes the same".to_owned(),
        },
    ));
    print::table(&rows)
}

/// What takes the place of preview 1: functions of one kind in one line.
fn stubs(built: &Built) -> impl Iterator<Item = String> {
    let mut kinds = std::collections::BTreeMap::<_, Vec<&str>>::new();
    for (function, stub) in &built.stubbed {
        kinds.entry(*stub).or_default().push(function);
    }
    kinds.into_iter().map(|(stub, functions)| format!("{}: {stub}", functions.join(", ")))
}
