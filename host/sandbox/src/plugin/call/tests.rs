//! The limits of a store, by components that do their harm while they start: most of it cannot be written against the
//! interface at all, so no discoverer could show it.

use super::*;
use topoloom_core::plugin::{CallLimits, StoreLimits, TrapKind};
use wasmtime::component::{Component, InstancePre, Linker};

const MIB: usize = 1 << 20;

/// Starts a component under these limits and says how that ended.
async fn start(wat: &str, limits: Limits) -> Result<(), CallError> {
    let engine = crate::plugin::engine::start(crate::plugin::Options::default()).unwrap();
    let component = Component::new(&engine, wat::parse_str(wat).unwrap()).unwrap();
    let pre: InstancePre<Guest> = Linker::new(&engine).instantiate_pre(&component).unwrap();
    let stack = crate::plugin::Options::default().stack;
    let speaker =
        Speaker { source: "s".parse().unwrap(), plugin: "p".into(), digest: "d".into(), call: 0, lines: None };
    let memory = Shares::new(1 << 30);
    let frame = Frame { engine, limits, budget: Limit::Cpu, stack, memory, speaker };
    let budget = Arc::new(Budget::new(frame.cpu()));
    let mut store = frame.store(&budget, Inputs::default());
    match budget.meter(pre.instantiate_async(&mut store)).await {
        Ok(_) => Ok(()),
        Err(error) => Err(trap::classify(&error, store.data(), &budget, &frame)),
    }
}

/// The end names this row and says this.
#[track_caller]
fn exceeds(end: Result<(), CallError>, row: Limit, words: &str) {
    let Err(error @ CallError::LimitExceeded { .. }) = end else { panic!("{row:?}: {end:?}") };
    assert_eq!(error.limit(), Some(row), "{error}");
    assert!(error.to_string().starts_with(&format!("the plugin exceeded a limit: {words}")), "{error}");
    assert_eq!(error.stopped_by(), Some("host-refused"));
}

fn store(store: StoreLimits) -> Limits {
    Limits { store, ..Limits::default() }
}

/// A component with one core module that does this when it starts.
fn starting(body: &str) -> String {
    format!("(component (core module $m {body}) (core instance (instantiate $m)))")
}

#[tokio::test]
async fn leaked_handles_are_counted() {
    let leak = r#"(component
        (type $r (resource (rep i32)))
        (core func $new (canon resource.new $r))
        (core module $m
            (import "" "new" (func $new (param i32) (result i32)))
            (func $leak (loop $again (drop (call $new (i32.const 1))) (br $again)))
            (start $leak))
        (core instance (instantiate $m (with "" (instance (export "new" (func $new)))))))"#;
    let end = start(leak, Limits::default()).await;
    exceeds(end, Limit::Handles, "more than 1000 resource handles");
}

#[tokio::test]
async fn memories_are_counted_and_summed() {
    let three: String =
        (0..3).map(|i| format!("(core module $m{i} (memory 480)) (core instance (instantiate $m{i}))")).collect();
    let three = format!("(component {three})");
    let end = start(&three, Limits::default()).await;
    exceeds(end, Limit::Memories, "resource limit exceeded: memory count too high at 2");
    // 3 times 30 MiB, none of which is above the limit.
    let end = start(&three, store(StoreLimits { memories: 3, memory: 64 * MIB, ..StoreLimits::default() })).await;
    assert!(matches!(&end, Err(CallError::OutOfMemory { asked, .. }) if *asked == 90 * MIB), "{end:?}");
    start(&three, store(StoreLimits { memories: 3, memory: 100 * MIB, ..StoreLimits::default() })).await.unwrap();
}

#[tokio::test]
async fn instances_and_tables_are_counted() {
    let many: String = (0..70).map(|_| "(core instance (instantiate $m))").collect();
    let end = start(&format!("(component (core module $m) {many})"), Limits::default()).await;
    exceeds(end, Limit::Instances, "resource limit exceeded: instance count too high at 65");
    let tables: String = (0..9).map(|_| "(table 1 funcref)").collect();
    let end = start(&starting(&tables), Limits::default()).await;
    exceeds(end, Limit::Tables, "resource limit exceeded: table count too high at 9");
}

#[tokio::test]
async fn table_elements_are_summed() {
    let end = start(&starting("(table 15000 funcref) (table 15000 funcref)"), Limits::default()).await;
    exceeds(end, Limit::TableElements, "30000 table elements, of 20000 allowed");
}

#[tokio::test]
async fn the_engines_stack_is_bounded() {
    let recurse = "(func $f (result i32) (i32.add (call $f) (i32.const 1))) (func $s (drop (call $f))) (start $s)";
    let end = start(&starting(recurse), Limits::default()).await;
    assert!(matches!(end, Err(CallError::Trap { kind: TrapKind::Stack, .. })), "{end:?}");
}

#[tokio::test]
async fn a_start_function_has_the_budget_of_a_call() {
    let call = CallLimits { cpu: Duration::from_millis(100), ..CallLimits::default() };
    let end = start(&starting("(func $s (loop $l (br $l))) (start $s)"), Limits { call, ..Limits::default() }).await;
    assert!(matches!(end, Err(CallError::CpuDeadline { .. })), "{end:?}");
}

/// What was logged, as text.
#[derive(Clone, Default)]
struct Written(Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_call_has_a_span_and_a_guest_that_was_stopped_a_report() {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // While a process has a single subscriber, tracing asks only the thread that first comes to an event whether it
    // listens. Another test may come first.
    let _second = tracing::Dispatch::new(tracing_subscriber::Registry::default());
    // A builtin plugin begins its calls on the thread that asks, and ends there what takes no longer than a tick.
    let _guard = tracing::subscriber::set_default(subscriber);
    let compiler = crate::plugin::Compiler::Child { exe: "/nowhere".into() };
    crate::plugin::builtin::embed(&topoloom_builtins::ALL);
    let runtime = crate::plugin::Runtime::start(compiler).unwrap();
    let bytes = Arc::clone(&crate::plugin::builtin::find("label").unwrap().bytes);
    let mut limits = Limits::default();
    limits.call.received = 1;
    let plugin = runtime.load(crate::plugin::Load { bytes, pinned: None, limits }).await.unwrap();
    let source = "fabric".parse().unwrap();
    let calls = async || {
        plugin.describe(&source).await.end.unwrap();
        let end = plugin.configure(&source, "{}".into()).await.end;
        assert_eq!(end.unwrap_err().limit(), Some(Limit::Received));
    };
    // What another test meets first, without anybody listening, counts as silent until it is asked again.
    calls().await;
    tracing::callsite::rebuild_interest_cache();
    let mut text = String::new();
    for _ in 0..100 {
        written.0.lock().unwrap().clear();
        calls().await;
        text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        // On a busy machine a call may take longer, and end without a listener.
        if text.contains("outcome=\"ok\"") && text.contains("a plugin was stopped") {
            break;
        }
    }
    let digest = plugin.digest().short();
    let line =
        |words: &str| text.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}\n{text}"));
    let span = format!(r#"call{{function="configure" source="fabric" plugin="label" digest="{digest}" call="#);
    let report = line("a plugin was stopped");
    for words in [
        &span,
        " generation=0 rows=0}: ",
        r#"stopped_by="host-refused" limit="received""#,
        "frames=[",
        "log_tail=[",
        "of 1000 of processor time and at most",
    ] {
        assert!(report.contains(words), "{words}\n{report}");
    }
    assert!(line("outcome=\"ok\"").contains(r#"function="describe""#), "{text}");
}
