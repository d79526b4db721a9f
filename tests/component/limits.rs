//! Every row of the table of limits against a guest that reaches it: the limit acts, the error names its row, the
//! metric counts it, and the message tells the operator what to do.
//!
//! [`rows!`] makes one test of each row; a row without a scenario does not compile, and one without a test fails
//! [`every_row_has_a_test`].

mod beyond;
mod call;
mod composed;
pub(crate) mod file;
mod outside;
mod packed;
mod turns;

use std::sync::Arc;

use topoloom::plugin::{Load, LoadError};
use topoloom_core::plugin::{Amount, CallError, Limit, LimitSetting, Limits, Profile, Usage};

use crate::guests::{MUTE_VILLAIN, RUNTIME, load, nodes, round, source};

/// How a test proves a row.
enum Scenario {
    /// The host does not load the bytes.
    Refused { bytes: Arc<[u8]>, limits: Limits, words: String },
    /// The call fails.
    Ends { bytes: Arc<[u8]>, act: Act, limits: Limits, words: String },
    /// The host refuses a request of the call, and the call continues.
    Outside { granted: &'static str, requests: String, words: String },
    /// The call continues, and its usage shows that the limit acted.
    GoesOn { bytes: Arc<[u8]>, act: Act, limits: Limits },
    /// A call waits for its turn.
    Waits,
    /// The bytes are delivered, and refused after that.
    Delivered,
}

/// The call, and what the guest does in it.
#[derive(Clone, Copy)]
enum Act {
    Describe,
    Configure(&'static str),
    Discover(&'static str),
}

macro_rules! rows {
    ($($row:ident $test:ident,)+) => {
        $(
            #[tokio::test]
            async fn $test() {
                prove(Limit::$row).await;
            }
        )+

        #[test]
        fn every_row_has_a_test() {
            assert_eq!([$(Limit::$row),+].as_slice(), Limit::ALL);
        }
    };
}

rows! {
    Packed packed,
    File file,
    Features features,
    Function function,
    Locals locals,
    Operands operands,
    Functions functions,
    Modules modules,
    Depth depth,
    FileInstances file_instances,
    Links links,
    Items items,
    Signature signature,
    ScanCpu scan_cpu,
    CompileCpu compile_cpu,
    CompileMemory compile_memory,
    Initial initial,
    Memory memory,
    Memories memories,
    Instances instances,
    Tables tables,
    TableElements table_elements,
    Handles handles,
    Stack stack,
    Cpu cpu,
    CpuShort cpu_short,
    Wall wall,
    Transfer transfer,
    Received received,
    Requests requests,
    Connections connections,
    Body body,
    LogLines log_lines,
    LogLine log_line,
    State state,
    Groups groups,
    Members members,
    Diagnostics diagnostics,
    Labels labels,
    Selector selector,
    SelectorValues selector_values,
    Text text,
    Requirements requirements,
    Endpoints endpoints,
    Bundle bundle,
    PluginCalls plugin_calls,
    ProcessCalls process_calls,
    ProcessMemory process_memory,
}

/// The guest of each row.
fn scenario(row: Limit) -> Scenario {
    match row {
        Limit::Packed => Scenario::Delivered,
        Limit::File
        | Limit::Features
        | Limit::Function
        | Limit::Locals
        | Limit::Operands
        | Limit::Functions
        | Limit::Modules
        | Limit::Depth
        | Limit::FileInstances
        | Limit::Links
        | Limit::Items
        | Limit::Signature
        | Limit::ScanCpu
        | Limit::CompileCpu
        | Limit::CompileMemory
        | Limit::Initial
        | Limit::Memories
        | Limit::Tables => file::scenario(row),
        Limit::Memory
        | Limit::Instances
        | Limit::TableElements
        | Limit::Handles
        | Limit::Stack
        | Limit::Cpu
        | Limit::CpuShort
        | Limit::Wall
        | Limit::Transfer
        | Limit::Received
        | Limit::Requests
        | Limit::LogLines
        | Limit::LogLine
        | Limit::State
        | Limit::Groups
        | Limit::Members
        | Limit::Diagnostics
        | Limit::Labels
        | Limit::Selector
        | Limit::SelectorValues
        | Limit::Text
        | Limit::Requirements
        | Limit::Endpoints
        | Limit::Bundle => call::scenario(row),
        Limit::Connections | Limit::Body => outside::scenario(row),
        Limit::PluginCalls | Limit::ProcessCalls | Limit::ProcessMemory => Scenario::Waits,
    }
}

async fn prove(row: Limit) {
    let hits = RUNTIME.metrics().hits(row);
    match scenario(row) {
        Scenario::Refused { bytes, limits, words } => {
            let mut error = refused(Arc::clone(&bytes), limits.clone()).await;
            for _ in 0..20 {
                // On a busy machine a compilation may reach three times its processor time first, in elapsed time.
                if row != Limit::CompileCpu || !error.to_string().contains("of elapsed time") {
                    break;
                }
                assert_eq!(error.limit(), Some(row), "{error}");
                error = refused(Arc::clone(&bytes), limits.clone()).await;
            }
            assert_eq!(error.limit(), Some(row), "{error}");
            sentence(row, &error.to_string(), &words);
        }
        Scenario::Ends { bytes, act, limits, words } => {
            let (end, usage) = run(&bytes, act, limits).await;
            let error = end.expect_err(&words);
            assert_eq!(error.limit(), Some(row), "{error}");
            let report = error.report().unwrap_or_else(|| panic!("{error:?}"));
            assert!(error.stopped_by().is_some() && !report.spent.cpu_limit.is_zero(), "{error:?}");
            assert!(usage.peak_memory > 0 || usage.cpu.as_nanos() > 0, "{usage:?}");
            sentence(row, &error.to_string(), &words);
        }
        Scenario::GoesOn { bytes, act, limits } => {
            let (end, usage) = run(&bytes, act, limits).await;
            end.unwrap();
            assert!(usage.met.contains(row), "{usage:?}");
        }
        Scenario::Outside { granted, requests, words } => outside::prove(row, granted, &requests, &words).await,
        Scenario::Waits => return turns::prove(row).await,
        Scenario::Delivered => return packed::prove(row).await,
    }
    assert!(RUNTIME.metrics().hits(row) > hits, "{row:?} was not counted");
}

/// Checks that a message names what happened, with its number, and ends with the advice.
#[track_caller]
fn sentence(row: Limit, sentence: &str, words: &str) {
    assert!(sentence.contains(words), "{row:?}: {sentence}");
    assert!(sentence.ends_with(&row.advice()), "{row:?}: {sentence}");
}

async fn refused(bytes: Arc<[u8]>, limits: Limits) -> LoadError {
    RUNTIME.load(Load { bytes, pinned: None, limits }).await.expect_err("it loaded")
}

/// Loads a plugin and calls it once.
async fn run(bytes: &Arc<[u8]>, act: Act, limits: Limits) -> (Result<(), CallError>, Usage) {
    // The `describe` of this villain never returns, in any configuration.
    let bytes = if matches!(act, Act::Describe) { &MUTE_VILLAIN } else { bytes };
    let plugin = load(bytes, limits).await;
    let source = source();
    match act {
        Act::Describe => {
            let call = plugin.describe(&source).await;
            (call.end.map(drop), call.usage)
        }
        Act::Configure(act) => {
            let call = plugin.configure(&source, format!(r#"{{"configure": "{act}"}}"#).into()).await;
            (call.end.map(drop), call.usage)
        }
        Act::Discover(act) => {
            let config = if act.starts_with('{') { act.into() } else { format!(r#"{{"discover": "{act}"}}"#).into() };
            let round = topoloom::plugin::RoundInput { config, ..round("", nodes(100)) };
            let call = plugin.discover(&source, round).await;
            (call.end.map(drop), call.usage)
        }
    }
}

/// The limits of a plugin whose entry sets this one, as an operator would.
fn lowered(row: Limit, amount: Amount) -> Limits {
    let LimitSetting::Entry { low, high, .. } = row.row().setting else { panic!("{row:?} cannot be set") };
    assert!(amount >= low && amount <= high, "{row:?} may not be {amount}");
    let mut limits = Limits::default();
    limits.set(row, amount);
    limits
}

/// The default of a row as a number, for messages.
fn default(row: Limit) -> u64 {
    row.default(Profile::Standard).number()
}
