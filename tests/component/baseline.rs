//! What an author looks at after each save: plugins that the baseline compiler made code of. They do all that they do in a host.
#![cfg(target_arch = "x86_64")]

use std::sync::{Arc, LazyLock};

use topoloom::plugin::{Codegen, Compiler, Load, Metrics, Options, Plugin, Runtime};
use topoloom_core::plugin::{Amount, CallError, Limit, Limits, TrapKind};

use crate::guests::{self, GLUTTON, VILLAIN, host, nodes, round, source};

static BASELINE: LazyLock<Runtime> = LazyLock::new(|| {
    let options = Options { codegen: Codegen::Baseline, ..Options::default() };
    Runtime::start_with(Compiler::Quickest { exe: host() }, options, Metrics::default(), None).unwrap()
});

async fn load(bytes: &Arc<[u8]>, limits: Limits) -> Plugin {
    BASELINE.load(Load { bytes: Arc::clone(bytes), pinned: None, limits }).await.unwrap()
}

#[tokio::test]
async fn the_answer_is_the_one_that_a_host_gets() {
    let mine = load(&VILLAIN, Limits::default()).await;
    let service = guests::villain().await;
    assert_eq!((mine.imports(), mine.needs()), (service.imports(), service.needs()));
    let (first, second) = (mine.describe(&source()).await.end.unwrap(), service.describe(&source()).await.end.unwrap());
    assert_eq!(format!("{first:?}"), format!("{second:?}"));
    let first = mine.discover(&source(), round("good", nodes(1_000))).await;
    let second = service.discover(&source(), round("good", nodes(1_000))).await;
    assert_eq!(format!("{:?}", first.end.unwrap()), format!("{:?}", second.end.unwrap()));
    assert_eq!(first.usage.sent, second.usage.sent);
    // Nothing serves with it, so nothing makes it better.
    mine.optimise().await.unwrap();
}

#[tokio::test]
async fn a_plugin_of_this_binary_is_compiled_like_any_other_and_is_still_ours() {
    let builtin = topoloom_builtins::ALL.iter().find(|builtin| builtin.name == "label").unwrap();
    let bytes: Arc<[u8]> = builtin.component.into();
    let (mine, service) = (load(&bytes, Limits::default()).await, guests::load(&bytes, Limits::default()).await);
    assert_eq!((mine.origin(), mine.imports()), (service.origin(), service.imports()));
    assert_eq!(mine.describe(&source()).await.end.unwrap().name, "label");
}

#[tokio::test]
async fn every_limit_of_a_call_holds() {
    let mut limits = Limits::default();
    limits.set(Limit::Cpu, Amount::millis(300));
    limits.set(Limit::Memory, Amount::mib(32));
    let villain = load(&VILLAIN, limits.clone()).await;
    for (act, limit) in [("loop", Limit::Cpu), ("grow", Limit::Memory), ("recurse-deep", Limit::Stack)] {
        let error = villain.discover(&source(), round(act, nodes(100))).await.end.unwrap_err();
        assert_eq!(error.limit(), Some(limit), "{act}: {error}");
        // The engine is as it was.
        villain.discover(&source(), round("good", nodes(100))).await.end.unwrap();
    }
    limits.set(Limit::Received, Amount::mib(1));
    let take = topoloom::plugin::RoundInput { config: r#"{"take": "labels"}"#.into(), ..round("", nodes(1_000)) };
    let error = load(&GLUTTON, limits).await.discover(&source(), take).await.end.unwrap_err();
    assert_eq!(error.limit(), Some(Limit::Received), "{error}");
}

#[tokio::test]
async fn a_panic_names_its_functions_and_has_its_last_words() {
    let villain = load(&VILLAIN, Limits::default()).await;
    let error = villain.discover(&source(), round("panic", nodes(100))).await.end.unwrap_err();
    let CallError::Trap { kind: TrapKind::Unreachable, report } = error else { panic!("{error}") };
    assert!(report.log_tail.iter().any(|line| line.contains("discover panics as configured")), "{report:?}");
    assert!(report.frames.iter().any(|frame| frame.contains("topoloom_guest_villain")), "{report:?}");
}
