//! Plugins that are wrong about nodes: over some of them, about what does not matter, about what they kept, about who is who.

use topoloom_workshop::kit::check::Check;
use topoloom_workshop::kit::report::Level;

use super::{Terms, each_is_found};

#[tokio::test]
async fn an_answer_that_no_host_takes_is_found() {
    let rows = [
        ("tier", Check::SoundAnswer, Level::Error),
        ("no-nodes", Check::SoundNoNodes, Level::Error),
        ("one-node", Check::SoundOneNode, Level::Error),
        ("absent", Check::SoundAbsent, Level::Error),
        ("half", Check::SoundHalf, Level::Error),
        ("unused", Check::SoundUnused, Level::Error),
        ("long-values", Check::SoundLongValues, Level::Error),
        ("long-names", Check::SoundLongNames, Level::Error),
        ("chars", Check::SoundBytes, Level::Error),
    ];
    each_is_found(&rows, &Terms::default()).await;
}

#[tokio::test]
async fn an_answer_that_depends_on_what_has_no_meaning_is_found() {
    let rows = [
        ("row-ids", Check::FunctionRows, Level::Error),
        ("generation", Check::FunctionGeneration, Level::Error),
        ("time", Check::FunctionTime, Level::Error),
    ];
    each_is_found(&rows, &Terms::default()).await;
}

#[tokio::test]
async fn a_state_that_is_trusted_is_found() {
    let rows = [
        ("unchanged", Check::StateUnchanged, Level::Error),
        ("rounds", Check::StateLast, Level::Error),
        ("state-cut", Check::StateCut, Level::Error),
        ("state-data", Check::StateForeign, Level::Error),
        ("state-stale", Check::StateStale, Level::Error),
    ];
    each_is_found(&rows, &Terms::default()).await;
}

#[tokio::test]
async fn a_group_that_does_not_stay_the_same_is_found() {
    let rows = [
        ("applied", Check::IdentitiesNone, Level::Error),
        ("size-ids", Check::IdentitiesAdd, Level::Error),
        ("first-ids", Check::IdentitiesRemove, Level::Error),
        ("mixed-ids", Check::IdentitiesRelabel, Level::Error),
        ("fixed-names", Check::IdentitiesNames, Level::Error),
    ];
    each_is_found(&rows, &Terms::default()).await;
}
