//! Flags of the node lock and the extender (A3, N2, N3, N8, N9, R14).

use std::time::Duration;

use topoloom_core::nodelock::{Retry, Takeover};

use super::rules::check;
use super::*;
use crate::extender::Filter;
use crate::nodelock::sweeper::SweepMode;

#[test]
fn a3_r14_how_long_a_lock_lasts_has_its_range_and_gos_grammar() {
    check(
        "node-lock-timeout",
        &["10s", "5m", "300s", "1h30m", "1.5m", "24h"],
        &["9s", "0", "-5m", "24h1s", "5", "5 m", "1d", "notaduration"],
        "10s to 24h",
    );
    check("extender-http-timeout", &["3s", "30s", "10m"], &["2s", "11m", "30"], "3s to 10m");
    check("extender-max-waiting-binds", &["1", "256", "4096"], &["0", "4097", "-1", "many"], "1 to 4096");
    let long = "n".repeat(65);
    check(
        "extender-client-names",
        &["system:kube-scheduler", "a, b"],
        &["", "a,,b", "a\nb", &long],
        "1 to 64 characters",
    );
    check("extender-filter", &["off", "stuck", "locked"], &["on"], "must be off or stuck or locked");
    check("nodelock-sweep", &["report", "repair"], &["off"], "must be report or repair");
    check("node-lock-retry", &["classic", "hami-2.10"], &["Classic"], "must be classic or hami-2.10");
    check("node-lock-takeover", &["state", "age"], &["force"], "must be state or age");
}

#[test]
fn a3_n3_the_flag_wins_over_the_variable_of_hami_and_that_over_the_default() {
    let ttl = |call: Call<'_>| call.options().locks.lock.ttl;
    let hami = ("HAMI_NODELOCK_EXPIRE", "10m");
    assert_eq!(ttl(words(&[])), Duration::from_secs(300));
    assert_eq!(ttl(Call { variables: vec![hami], ..words(&[]) }), Duration::from_secs(600));
    assert_eq!(ttl(Call { variables: vec![hami], ..words(&["--node-lock-timeout=5m"]) }), Duration::from_secs(300));
    let ours = ("TOPOLOOM_NODE_LOCK_TIMEOUT", "2m");
    assert_eq!(ttl(Call { variables: vec![hami, ours], ..words(&[]) }), Duration::from_secs(120));
    let wrong = Call { variables: vec![("HAMI_NODELOCK_EXPIRE", "notaduration")], ..words(&[]) }.mistakes();
    assert!(
        wrong.len() == 1 && wrong[0].contains("HAMI_NODELOCK_EXPIRE") && wrong[0].contains("10s to 24h"),
        "{wrong:?}"
    );
}

#[test]
fn n2_n9_the_defaults_are_those_of_the_original_and_nothing_runs_that_was_not_asked_for() {
    let locks = words(&[]).options().locks;
    assert_eq!((locks.lock.retry, locks.lock.takeover), (Retry::CLASSIC, Takeover::State));
    assert_eq!((locks.sweep, locks.extender), (None, None));
    let locks = words(&["--extender-address=127.0.0.1:8888", "--node-lock-retry=hami-2.10"]).options().locks;
    let extender = locks.extender.unwrap();
    assert_eq!(
        (locks.sweep, locks.lock.retry),
        (Some(SweepMode::Repair), Retry::HAMI_2_10),
        "it cleans up after itself"
    );
    assert_eq!((extender.filter, extender.patience()), (Filter::Stuck, Duration::from_secs(28)));
    let crowd = extender.crowd();
    assert_eq!((crowd.waiting, crowd.for_node(), crowd.under_way, extender.connections()), (256, 64, 384, 512));
    let sweep = |word: &str| words(&["--extender-address=127.0.0.1:8888", word]).options().locks.sweep;
    assert_eq!(sweep("--nodelock-sweep=report"), Some(SweepMode::Report));
    let patience = |timeout: &str| {
        let options = words(&["--extender-address=127.0.0.1:8888", timeout]).options();
        options.locks.extender.unwrap().patience().as_secs()
    };
    assert_eq!([patience("--extender-http-timeout=5s"), patience("--extender-http-timeout=60s")], [3, 28]);
}

#[test]
fn n3_a_lock_lasts_twice_as_long_as_a_bind_at_least() {
    let mistakes = |ttl: &str| words(&["--extender-address=127.0.0.1:8888", ttl]).mistakes();
    assert_eq!(mistakes("--node-lock-timeout=56s"), [""; 0]);
    let told = mistakes("--node-lock-timeout=55s");
    assert!(told.len() == 1 && told[0].contains("twice as long as a Bind may take (28s): 56s"), "{told:?}");
    assert_eq!(words(&["--node-lock-timeout=10s"]).mistakes(), [""; 0], "nothing binds here");
}

#[test]
fn a_drain_that_is_shorter_than_a_bind_is_worth_a_word() {
    let warnings = |flags: &[&str]| words(flags).warnings();
    let (serves, short) = ("--extender-address=127.0.0.1:8888", "--drain-timeout=29s");
    assert_eq!(warnings(&[serves]), [""; 0]);
    let told = warnings(&[serves, short]);
    assert!(
        told.len() == 1
            && told[0].contains("--drain-timeout 29s")
            && told[0].contains("a Bind and its rollback may take 30s"),
        "{told:?}"
    );
    assert_eq!(warnings(&[serves, short, "--extender-http-timeout=29s"]), [""; 0], "it gives up earlier, too");
    assert_eq!(warnings(&[short]), [""; 0], "nothing binds here");
}

#[test]
fn n8_r16_a_client_of_the_extender_shows_a_certificate_or_is_on_this_machine() {
    let tls = ["--extender-tls-cert-file=/c", "--extender-tls-private-key-file=/k"];
    let mistakes = |flags: &[&str]| words(flags).mistakes();
    for (flags, words) in [
        (vec!["--extender-address=:8888"], Some("must be a loopback address")),
        (vec!["--extender-address=10.0.0.1:8888", tls[0], tls[1]], Some("must be a loopback address")),
        (vec!["--extender-address=127.0.0.1:8888"], None),
        (vec!["--extender-address=[::1]:8888"], None),
        (vec!["--extender-address=:8888", "--extender-allow-anonymous"], None),
        (vec!["--extender-address=:8888", tls[0], tls[1], "--extender-client-ca-file=/a"], None),
        (vec!["--extender-address=127.0.0.1:8888", tls[0]], Some("a certificate needs its key")),
        (vec!["--extender-address=127.0.0.1:8888", "--extender-client-ca-file=/a"], Some("over TLS only")),
    ] {
        let told = mistakes(&flags);
        match words {
            None => assert_eq!(told, [""; 0], "{flags:?}"),
            Some(words) => assert!(told.len() == 1 && told[0].contains(words), "{flags:?}: {told:?}"),
        }
    }
    let idle = words(&["--extender-filter=off"]).warnings();
    assert!(idle.len() == 1 && idle[0].contains("has no effect without --extender-address"), "{idle:?}");
}
