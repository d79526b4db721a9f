//! Calls that end at a limit, and two that only lose some of their log.

use std::sync::Arc;

use topoloom_core::plugin::{Amount, Limit, Limits};

use super::{Act, Scenario, default, lowered};
use crate::guests::{GLUTTON, VILLAIN, grafted};

pub(super) fn scenario(row: Limit) -> Scenario {
    let most = default(row);
    let villain = |act, words: String| ends(&VILLAIN, act, Limits::default(), words);
    let answer = |act, words: String| villain(Act::Discover(act), format!("the plugin exceeded a limit: {words}"));
    let asks = |act, words: &str| {
        villain(Act::Configure(act), format!("the plugin exceeded a limit: {words} and may have {most}"))
    };
    match row {
        Limit::Memory => ends(
            &VILLAIN,
            Act::Discover("grow"),
            lowered(row, Amount::mib(32)),
            "the plugin needs more than 33554432 bytes of memory (it asked for ".to_owned(),
        ),
        Limit::Instances => {
            let instances = "(core instance (instantiate $m))".repeat(70);
            let bytes = grafted(&format!("(component (core module $m) {instances})"));
            ends(&bytes, Act::Discover("good"), Limits::default(), format!("instance count too high at {}", most + 1))
        }
        Limit::TableElements => {
            // Neither table is too large alone, and the host can check no more before the plugin starts.
            let tables = "(core module $m (table 15000 funcref) (table 15000 funcref))";
            let bytes = grafted(&format!("(component {tables} (core instance (instantiate $m)))"));
            // The villain has tables of its own.
            ends(&bytes, Act::Discover("good"), Limits::default(), format!("table elements, of {most} allowed"))
        }
        Limit::Handles => {
            let words = format!("more than {most} resource handles");
            // One more than the limit: the engine's own limit is a hundred times as high.
            ends(&leak(most + 1), Act::Discover("good"), Limits::default(), words)
        }
        Limit::Stack => villain(Act::Discover("recurse-deep"), format!("the stack has {most} bytes")),
        Limit::Cpu => {
            let words =
                "the plugin used more processor time than its limit of 300ms; in topoloom_guest_villain".to_owned();
            ends(&VILLAIN, Act::Discover("loop"), lowered(row, Amount::millis(300)), words)
        }
        Limit::CpuShort => {
            let words = "the plugin used more processor time than its limit of 300ms".to_owned();
            ends(&VILLAIN, Act::Describe, lowered(row, Amount::millis(300)), words)
        }
        Limit::Wall => {
            let words = "the call did not end within its limit of 200ms".to_owned();
            ends(&VILLAIN, Act::Discover("loop"), lowered(row, Amount::millis(200)), words)
        }
        Limit::Transfer => {
            villain(Act::Discover("giant"), format!("what the plugin sent in one piece is larger than {most} bytes"))
        }
        Limit::Received => {
            let words = " bytes from the host in one call, of 1048576 allowed".to_owned();
            ends(&GLUTTON, Act::Discover(r#"{"take": "labels"}"#), lowered(row, Amount::mib(1)), words)
        }
        Limit::Requests => {
            let words = format!("{} HTTP requests in one call, of {most} allowed", most + 1);
            ends(&GLUTTON, Act::Discover(r#"{"take": "answers"}"#), Limits::default(), words)
        }
        Limit::LogLines => goes_on("flood"),
        Limit::LogLine => goes_on("long-line"),
        Limit::State => villain(Act::Discover("state"), format!("the state of the answer is larger than {most} bytes")),
        Limit::Groups => answer("groups", "it has 1000 groups and may have 300".to_owned()),
        Limit::Members => answer("nobodies", "it has 8000000 members and may have 101600".to_owned()),
        Limit::Diagnostics => answer("diagnostics", format!("it has 10001 diagnostics and may have {most}")),
        Limit::Labels => answer("labels", format!("it has 30000 labels in one group and may have {most}")),
        Limit::Selector => {
            answer("requirements", format!("it has 20000 requirements in one selector and may have {most}"))
        }
        Limit::SelectorValues => answer("values", format!("it has 1000000 values in one selector and may have {most}")),
        Limit::Text => {
            answer("long-key", format!("a text of a selector is 31457280 bytes long, at most {most} are read"))
        }
        Limit::Requirements => asks("many-labels", "it has 100000 required node labels"),
        Limit::Endpoints => asks("many-endpoints", "it has 17 endpoints"),
        Limit::Bundle => villain(
            Act::Configure("long-bundle"),
            format!("a bundle of certificates is 2097152 bytes long, at most {most} are read"),
        ),
        other => panic!("{other:?} is not of a call"),
    }
}

/// A guest that takes this many handles when it starts and never releases one.
pub(super) fn leak(handles: u64) -> Arc<[u8]> {
    grafted(&format!(
        r#"(component
            (type $r (resource (rep i32)))
            (core func $new (canon resource.new $r))
            (core module $m
                (import "" "new" (func $new (param i32) (result i32)))
                (func $leak (local $taken i32)
                    (loop $again
                        (drop (call $new (i32.const 1)))
                        (local.set $taken (i32.add (local.get $taken) (i32.const 1)))
                        (br_if $again (i32.lt_u (local.get $taken) (i32.const {handles})))))
                (start $leak))
            (core instance (instantiate $m (with "" (instance (export "new" (func $new)))))))"#
    ))
}

fn ends(bytes: &Arc<[u8]>, act: Act, limits: Limits, words: String) -> Scenario {
    Scenario::Ends { bytes: Arc::clone(bytes), act, limits, words }
}

fn goes_on(act: &'static str) -> Scenario {
    Scenario::GoesOn { bytes: Arc::clone(&VILLAIN), act: Act::Discover(act), limits: Limits::default() }
}
