//! Limits that a plugin can reach in more than one way.

use std::sync::Arc;
use std::time::Duration;

use topoloom::plugin::{Compiler, Load, Metrics, Options, RoundInput, Runtime};
use topoloom_core::plugin::{Amount, CallError, CallLimits, Limit, LimitSetting, Limits, StoreLimits};

use super::call::leak;
use super::{Act, lowered, refused, run, sentence};
use crate::guests::{GLUTTON, MUTE_VILLAIN, VILLAIN, carrying, grafted, host, load, nodes, round, source, stored, wat};

#[tokio::test]
async fn each_feature_that_is_off_is_refused_by_that_name() {
    for feature in [
        "simd",
        "relaxed-simd",
        "two-memories",
        "memory64",
        "tail-call",
        "exceptions",
        "threads",
        "gc",
        "function-references",
        "wide-arithmetic",
        "custom-page-sizes",
        "stack-switching",
    ] {
        let error = refused(wat(&format!("{feature}.wat")), Limits::large()).await;
        assert_eq!((error.limit(), error.reason()), (Some(Limit::Features), "FeatureOff"), "{feature}: {error}");
    }
}

#[tokio::test]
async fn an_encoding_of_a_feature_that_is_off_is_refused_although_it_says_nothing_new() {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // One function without parameters, one memory.
    module.extend([1, 4, 1, 0x60, 0, 0, 3, 2, 1, 0, 5, 3, 1, 0, 1]);
    // i32.const 0, i32.load of memory 0, drop, end. Bit 6 of the alignment means that a memory index follows:
    // multi-memory.
    module.extend([10, 11, 1, 9, 0, 0x41, 0, 0x28, 0x42, 0, 0, 0x1a, 0x0b]);
    let error = refused(carrying(&module), Limits::large()).await;
    assert_eq!((error.limit(), error.reason()), (Some(Limit::Features), "FeatureOff"), "{error}");
}

#[tokio::test]
async fn a_second_memory_is_refused_however_small_it_is() {
    let bytes = grafted("(component (core module $m (memory 0)) (core instance (instantiate $m)))");
    let error = refused(bytes, Limits::default()).await;
    assert_eq!(error.limit(), Some(Limit::Memories));
    sentence(Limit::Memories, &error.to_string(), "the plugin starts with 2 memories and may have 1");
}

#[tokio::test]
async fn the_small_profile_is_too_small_for_what_the_large_one_takes() {
    for (row, amount) in [(Limit::Locals, Amount::Count(1)), (Limit::Function, Amount::Bytes(64))] {
        let error = refused(Arc::clone(&VILLAIN), lowered(row, amount)).await;
        let way_out = format!("raise `limits.{}` of the entry, or take `limits.profile: large`,", row.key().unwrap());
        sentence(row, &error.to_string(), &way_out);
    }
}

#[tokio::test]
async fn everything_that_the_host_gives_is_counted() {
    let object = Arc::new(stored(&"o".repeat(60_000), Vec::new()));
    let plugin = load(&GLUTTON, lowered(Limit::Received, Amount::mib(1))).await;
    for what in ["labels", "annotations", "absent", "names", "rows", "objects"] {
        let take = |times: &str| RoundInput {
            config: format!(r#"{{"take": "{what}"{times}}}"#).into(),
            applied: [Arc::clone(&object)].into(),
            ..round("", nodes(1_000))
        };
        let few = plugin.discover(&source(), take(r#", "times": 3"#)).await;
        few.end.unwrap();
        assert!(few.usage.received > 100, "{what}: {:?}", few.usage);
        let call = plugin.discover(&source(), take("")).await;
        let error = call.end.unwrap_err();
        assert_eq!(error.limit(), Some(Limit::Received), "{what}: {error}");
        assert!(call.usage.received > 1 << 20 && call.usage.received < 2 << 20, "{what}: {:?}", call.usage);
    }
}

#[tokio::test]
async fn asking_for_a_credential_counts_as_a_request() {
    // Such a call may make the host read a Secret.
    let plugin = load(&GLUTTON, lowered(Limit::Requests, Amount::Count(20))).await;
    let take = RoundInput { config: r#"{"take": "credentials"}"#.into(), ..round("", nodes(1)) };
    let error = plugin.discover(&source(), take).await.end.unwrap_err();
    assert_eq!(error.limit(), Some(Limit::Requests), "{error}");
}

#[tokio::test]
async fn what_the_guest_gives_is_counted() {
    let (end, usage) = run(&VILLAIN, Act::Discover("flood"), Limits::default()).await;
    end.unwrap();
    assert_eq!((usage.log_lines, usage.log_dropped), (200, 800));
    assert!(usage.sent > 1_000 * "line 0".len() && usage.received > 400, "{usage:?}");
    let (_, usage) = run(&GLUTTON, Act::Discover(r#"{"take": "answers", "times": 7}"#), Limits::default()).await;
    assert_eq!(usage.requests, 7);
}

#[tokio::test]
async fn endless_loops_end_at_their_budget_in_every_export() {
    let limits = || {
        let mut limits = lowered(Limit::Cpu, Amount::millis(300));
        limits.set(Limit::CpuShort, Amount::millis(300));
        limits
    };
    for (act, row) in [
        (Act::Describe, Limit::CpuShort),
        (Act::Configure("loop"), Limit::CpuShort),
        (Act::Discover("loop"), Limit::Cpu),
    ] {
        let (end, usage) = run(&VILLAIN, act, limits()).await;
        let Err(error @ CallError::CpuDeadline { used, limit, .. }) = &end else { panic!("{end:?}") };
        assert_eq!(
            (error.limit(), error.stopped_by(), *limit),
            (Some(row), Some("interrupt"), Duration::from_millis(300))
        );
        assert!(used >= limit && usage.cpu >= *limit, "{used:?}");
        assert!(usage.wall < Duration::from_secs(20), "{usage:?}");
    }
}

#[tokio::test]
async fn memory_is_held_up_to_its_limit_and_no_further() {
    let store = StoreLimits { memory: 32 << 20, ..StoreLimits::default() };
    let (end, usage) = run(&VILLAIN, Act::Discover("grow"), Limits { store, ..Limits::default() }).await;
    let Err(CallError::OutOfMemory { limit, asked, report }) = end else { panic!("{end:?}") };
    assert!(limit == 32 << 20 && asked > limit, "{asked}");
    assert!(usage.peak_memory <= limit && usage.peak_memory > 16 << 20, "{usage:?}");
    assert_eq!((report.spent.peak_memory, report.spent.memory_limit), (usage.peak_memory, limit));
}

#[tokio::test]
async fn what_is_cheap_to_say_and_dear_to_believe_is_refused_at_the_door() {
    for (act, row, words) in [
        ("same-row", Limit::Members, "it has 8000000 rows in diagnostics and may have 101600"),
        ("long-kind", Limit::Text, "a kind is 31457280 bytes long, at most 4096 are read"),
    ] {
        let error = run(&VILLAIN, Act::Discover(act), Limits::default()).await.0.expect_err(act);
        assert_eq!(error.limit(), Some(row), "{act}: {error}");
        sentence(row, &error.to_string(), words);
    }
}

#[tokio::test]
async fn as_many_handles_as_are_allowed_may_be_held() {
    // The guest holds one more: the snapshot.
    let (end, usage) = run(&leak(super::default(Limit::Handles) - 1), Act::Discover("good"), Limits::default()).await;
    assert!(end.is_ok(), "{end:?} {usage:?}");
}

/// A guest that calls itself this many times when it starts, and then returns.
fn deep(calls: u32) -> Arc<[u8]> {
    grafted(&format!(
        "(component (core module $m
            (func $deep (param i32) (result i32)
                (if (result i32) (local.get 0)
                    (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get 0) (i32.const 1)))))
                    (else (i32.const 0))))
            (func $start (drop (call $deep (i32.const {calls}))))
            (start $start))
            (core instance (instantiate $m)))"
    ))
}

#[tokio::test]
async fn the_stack_is_as_deep_as_the_host_says() {
    let LimitSetting::Host { low, high, .. } = Limit::Stack.row().setting else { panic!() };
    // A frame of this guest takes at least 32 bytes and at most 160 without optimisation.
    for (stack, fits, does_not) in [(low, 300, 3_000), (Limit::Stack.fixed(), 3_000, 30_000), (high, 30_000, 300_000)] {
        let options = Options { stack: stack.size(), ..Options::default() };
        let runtime = Runtime::start_with(Compiler::Child { exe: host() }, options, Metrics::default(), None).unwrap();
        for (calls, limit) in [(fits, None), (does_not, Some(Limit::Stack))] {
            let load = Load { bytes: deep(calls), pinned: None, limits: Limits::default() };
            let plugin = runtime.load(load).await.unwrap();
            let end = plugin.discover(&source(), round("good", nodes(1))).await.end;
            assert_eq!(end.as_ref().err().and_then(CallError::limit), limit, "{stack} {calls}: {end:?}");
            assert_eq!(end.is_ok(), limit.is_none(), "{stack} {calls}: {end:?}");
        }
    }
}

#[tokio::test]
async fn the_host_may_have_another_stack_and_fewer_turns() {
    let LimitSetting::Host { low, .. } = Limit::Stack.row().setting else { panic!() };
    let options = Options { stack: low.size(), calls: 1, ..Options::default() };
    let runtime = Runtime::start_with(Compiler::Child { exe: host() }, options, Metrics::default(), None).unwrap();
    // One call at a time, and each lasts until its limit.
    let call = CallLimits { cpu: Duration::from_millis(300), ..CallLimits::default() };
    let load = |bytes: &Arc<[u8]>| {
        let limits = Limits { call: call.clone(), ..Limits::default() };
        runtime.load(Load { bytes: Arc::clone(bytes), pinned: None, limits })
    };
    let (villain, mute) = (load(&VILLAIN).await.unwrap(), load(&MUTE_VILLAIN).await.unwrap());
    let error = villain.discover(&source(), round("recurse-deep", nodes(1))).await.end.unwrap_err();
    assert_eq!(error.limit(), Some(Limit::Stack));
    sentence(Limit::Stack, &error.to_string(), "the stack has 65536 bytes");
    villain.discover(&source(), round("good", nodes(1))).await.end.unwrap();
    let source = source();
    let calls = [&villain, &mute].map(|plugin| plugin.discover(&source, round("loop", nodes(1))));
    let calls = futures::future::join_all(calls).await;
    assert_eq!(calls.iter().filter(|call| call.usage.met.contains(Limit::ProcessCalls)).count(), 1);
}
