//! Flags of Volcano's controllers that mean nothing here: a command line of theirs works, and says what it lost.

use clap::{ArgAction, Args};

use crate::cli::options::{Given, VOLCANOS, WITHOUT_EFFECT, values};

/// The warning about flags of other controllers.
const NO_CONTROLLER: &str = "has no effect: topoloom has no such controller";

/// How the log of the original is written: here it goes to standard error, and nowhere else.
const KLOGS: [&str; 11] = [
    "add-dir-header",
    "alsologtostderr",
    "log-backtrace-at",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "one-output",
    "skip-headers",
    "skip-log-headers",
    "stderrthreshold",
    "vmodule",
];

/// Flags that mean nothing here.
#[derive(Debug, Args)]
#[command(next_help_heading = WITHOUT_EFFECT)]
pub(super) struct AcceptedArgs {
    /// Workers of Volcano's job controller (1 to 10000)
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = values::whole::<1, 10_000>)]
    worker_threads: u32,
    /// Workers of Volcano's cronjob controller (1 to 10000)
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = values::whole::<1, 10_000>)]
    worker_threads_for_cronjob: u32,
    /// Workers of Volcano's podgroup controller (1 to 10000)
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = values::whole::<1, 10_000>)]
    worker_threads_for_podgroup: u32,
    /// Workers of Volcano's queue controller (1 to 10000)
    #[arg(long, value_name = "COUNT", default_value = "5", value_parser = values::whole::<1, 10_000>)]
    worker_threads_for_queue: u32,
    /// Workers of Volcano's garbage collector (1 to 10000)
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = values::whole::<1, 10_000>)]
    worker_threads_for_gc: u32,
    /// The scheduler whose pods the podgroup controller handles; may be repeated
    #[arg(long, value_name = "NAME", default_value = "volcano", action = ArgAction::Append)]
    scheduler_name: Vec<String>,
    /// Whether podgroups inherit annotations
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    inherit_owner_annotations: bool,
    /// Feature gates of Volcano's controllers, NAME=BOOL with commas between; may be repeated
    #[arg(long, value_name = "GATES", value_parser = values::gates, action = ArgAction::Append)]
    feature_gates: Vec<String>,
    /// How often the log is flushed; topoloom writes every line at once
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = values::any_duration)]
    log_flush_frequency: String,
    /// Log to standard error, as topoloom always does
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    logtostderr: bool,
    /// Log to standard error as well as to files, of which there are none
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    alsologtostderr: bool,
    /// The lowest severity that goes to standard error as well; all lines do
    #[arg(long, value_name = "SEVERITY", default_value = "2")]
    stderrthreshold: String,
    /// Log levels per file of Volcano's source code, FILE=LEVEL with commas between; --log sets the levels of topoloom
    #[arg(long, value_name = "LEVELS")]
    vmodule: Option<String>,
    /// The place in the source that logs a stack when it is reached, FILE:LINE
    #[arg(long, alias = "log_backtrace_at", value_name = "PLACE", default_value = ":0")]
    log_backtrace_at: String,
    /// A folder for log files, of which there are none
    #[arg(long, alias = "log_dir", value_name = "DIR")]
    log_dir: Option<String>,
    /// A log file, of which there are none
    #[arg(long, alias = "log_file", value_name = "FILE")]
    log_file: Option<String>,
    /// How large a log file may be, in megabytes; there are none
    #[arg(long, alias = "log_file_max_size", value_name = "SIZE", default_value = "1800", value_parser = values::whole::<0, { u32::MAX }>)]
    log_file_max_size: u32,
    /// Whether lines name the folder of the source file
    #[arg(long, alias = "add_dir_header", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    add_dir_header: bool,
    /// Whether a line goes to the file of its own severity only; there are none
    #[arg(long, alias = "one_output", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    one_output: bool,
    /// Whether lines have no header; they have what --log-format gives them
    #[arg(long, alias = "skip_headers", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    skip_headers: bool,
    /// Whether log files have no header; there are none
    #[arg(long, alias = "skip_log_headers", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    skip_log_headers: bool,
}

/// How much is logged, in the words of the original.
#[derive(Debug, Args)]
#[command(next_help_heading = VOLCANOS)]
pub(super) struct VerbosityArgs {
    /// How much is logged: 0 and 1 info, 2 to 4 debug, from 5 on trace; --log takes precedence (0 to 1000)
    #[arg(short = 'v', long = "v", id = "v", value_name = "LEVEL", value_parser = values::whole::<0, 1_000>)]
    level: Option<u32>,
}

impl AcceptedArgs {
    /// Says which of them were given and have no effect.
    pub(super) fn warn(&self, given: &mut Given) {
        let of_controllers = [
            "worker-threads",
            "worker-threads-for-cronjob",
            "worker-threads-for-podgroup",
            "worker-threads-for-queue",
            "worker-threads-for-gc",
            "scheduler-name",
            "inherit-owner-annotations",
        ];
        for flag in of_controllers.into_iter().filter(|flag| given.is_given(flag)).collect::<Vec<_>>() {
            given.warn(&[flag], NO_CONTROLLER);
        }
        if !self.feature_gates.is_empty() {
            given.warn(&["feature-gates"], "has no effect: these gates are about other controllers");
        }
        if given.is_given("log-flush-frequency") {
            given.warn(&["log-flush-frequency"], "has no effect: every line is written at once");
        }
        for flag in KLOGS.into_iter().filter(|flag| given.is_given(flag)).collect::<Vec<_>>() {
            given.warn(&[flag], "has no effect: --log and --log-format say what is logged, and how");
        }
        // What charts pass is what happens anyway.
        if !self.logtostderr {
            given.warn(&["logtostderr"], "has no effect: the log goes to standard error, and nowhere else");
        }
    }
}

impl VerbosityArgs {
    /// What is logged, if `--v` was given: our own rooms, since others would drown them.
    pub(super) fn filter(&self) -> Option<&'static str> {
        self.level.map(|level| match level {
            0..=1 => "info",
            2..=4 => "info,topoloom=debug",
            _ => "info,topoloom=trace",
        })
    }
}
