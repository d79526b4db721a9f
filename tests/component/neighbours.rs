//! One bad plugin harms only itself.

use std::time::Duration;

use futures::future::join_all;
use topoloom_core::plugin::{CallLimits, Limits};

use crate::guests::{MUTE_VILLAIN, VILLAIN, load, nodes, round, source};

#[tokio::test]
async fn good_rounds_go_on_beside_every_kind_of_bad_one() {
    let call = CallLimits { cpu: Duration::from_secs(2), ..CallLimits::default() };
    // Two plugins with different bytes: a plugin has one call at a time, and these two must run beside each other.
    let bad = load(&MUTE_VILLAIN, Limits { call, ..Limits::default() }).await;
    let good = load(&VILLAIN, Limits::default()).await;
    let acts = ["loop", "panic", "grow", "recurse", "giant", "row", "flood"];
    let wrongs = async {
        for act in acts {
            let end = bad.discover(&source(), round(act, nodes(100))).await.end;
            assert!(end.is_err() || act == "flood", "{act}");
        }
    };
    let rights = async {
        for _ in 0..50 {
            let call = good.discover(&source(), round("good", nodes(100))).await;
            assert!(call.end.is_ok(), "{:?}", call.end);
        }
    };
    futures::join!(wrongs, rights);
}

#[tokio::test]
async fn a_plugin_has_one_call_at_a_time() {
    let plugin = load(&VILLAIN, Limits::default()).await;
    let source = source();
    let calls = join_all((0..8).map(|_| plugin.discover(&source, round("good", nodes(100))))).await;
    assert!(calls.iter().all(|call| call.end.is_ok()));
}

#[tokio::test]
async fn an_abandoned_call_gives_its_turn_back() {
    let plugin = load(&VILLAIN, Limits::default()).await;
    let source = source();
    let endless = plugin.discover(&source, round("loop", nodes(1)));
    let gave_up = tokio::time::timeout(Duration::from_millis(100), endless).await;
    assert!(gave_up.is_err());
    let next = plugin.discover(&source, round("good", nodes(1))).await;
    assert!(next.end.is_ok(), "{:?}", next.end);
    assert!(next.usage.queued < Duration::from_secs(4), "the endless call kept its turn: {:?}", next.usage);
}
