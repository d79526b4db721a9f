//! `topoloom lend pause` and `lend resume` (decision S23).

use std::process::ExitCode;

use clap::Args;
use topoloom_api::ClusterBinding;
use topoloom_api::names::PAUSE_ANNOTATION;
use topoloom_core::text::says_yes;
use topoloom_sync::naming::BindingName;

use super::ReachArgs;
use super::orders::{Annotation, Desk, Order, remarks};
use crate::cli::output::OutputArgs;

/// Flags of both.
#[derive(Debug, Args)]
pub(in crate::cli) struct PauseArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// The ClusterBinding
    #[arg(value_parser = super::binding)]
    binding: BindingName,
    #[command(flatten)]
    output: OutputArgs,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Pause,
    Resume,
}

/// Pauses a binding, or resumes it.
pub(super) async fn run(args: &PauseArgs, change: Change) -> anyhow::Result<ExitCode> {
    let desk = Desk::at(&args.reach).await?;
    let (binding, written) = desk.annotate(&args.binding, |binding| Ok(wanted(binding, change))).await?;
    let name = &args.binding;
    let (verb, effect) = match change {
        Change::Pause => (
            "pause",
            format!(
                "ClusterBinding {name} is paused: leases and mirroring continue, and nothing is created, resized, evicted or \
                 deleted. `topoloom lend resume {name}` ends that"
            ),
        ),
        Change::Resume => ("resume", format!("ClusterBinding {name} is not paused: changes are made again")),
    };
    let order = Order { verb, binding: name.to_string(), node: None, written, effect, remarks: remarks(&binding) };
    order.print(args.output)?;
    Ok(ExitCode::SUCCESS)
}

/// What a person wrote by hand counts, too: every word but `false` pauses.
fn wanted(binding: &ClusterBinding, change: Change) -> Annotation {
    let there = binding.annotation(PAUSE_ANNOTATION);
    let value = match (change, says_yes(there)) {
        (Change::Pause, true) => there.map(str::to_owned),
        (Change::Pause, false) => Some("true".to_owned()),
        (Change::Resume, _) => None,
    };
    Annotation { key: PAUSE_ANNOTATION, value }
}

#[cfg(test)]
mod tests {
    use super::super::orders::examples::{annotated, binding};
    use super::*;

    #[test]
    fn s23_pause_and_resume_leave_what_says_the_same_already() {
        let value = |binding: &ClusterBinding, change| wanted(binding, change).value;
        let plain = binding("east", "b-1");
        assert_eq!((value(&plain, Change::Pause).as_deref(), value(&plain, Change::Resume)), (Some("true"), None));
        for (there, paused) in [("since tuesday", "since tuesday"), ("false", "true"), ("", "true")] {
            let binding = annotated("east", PAUSE_ANNOTATION, there);
            assert_eq!(value(&binding, Change::Pause).as_deref(), Some(paused), "{there:?}");
            assert_eq!(value(&binding, Change::Resume), None);
        }
    }
}
