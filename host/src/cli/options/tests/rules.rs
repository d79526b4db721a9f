//! Grammars, ranges, and the rules across flags, one test per row of the specification.

use topoloom_core::queue::Requeue;

use super::*;
use crate::manager::options::{Election, Rate};
use crate::serving::tls::TlsFiles;

/// One flag with values that it takes and values that it refuses, with words of the refusal.
pub(super) fn check(flag: &str, good: &[&str], bad: &[&str], wanted: &str) {
    for value in good {
        let word = format!("--{flag}={value}");
        assert_eq!(words(&[&word]).mistakes(), [] as [String; 0], "{word}");
    }
    for value in bad {
        let word = format!("--{flag}={value}");
        let told = words(&[&word]).mistakes();
        assert!(told.len() == 1 && told[0].contains(wanted) && told[0].contains(flag), "{word}: {told:?}");
    }
}

#[test]
fn b5_values_have_their_ranges() {
    check("kube-api-qps", &["50", "0.1", "1e3"], &["0", "-1", "inf", "NaN", "x"], "must be a number above 0");
    check("kube-api-burst", &["1", "100"], &["0", "-1", "1.5"], "must be a whole number, 1 to 1000000");
    for flag in [
        "worker-threads",
        "worker-threads-for-cronjob",
        "worker-threads-for-podgroup",
        "worker-threads-for-queue",
        "worker-threads-for-gc",
    ] {
        check(flag, &["1", "16"], &["0", "-1", "x"], "must be a whole number, 1 to 10000");
    }
    check("max-requeue-num", &["0", "15", "-1"], &["x", "4294967296", "1.5"], "below zero for no limit");
    check("log-flush-frequency", &["5s", "0"], &["5", "x"], "must be a duration");
    check("drain-timeout", &["1s", "10m"], &["999ms", "10m1s", "-1s", "30"], "1s to 10m");
    check(
        "master",
        &["https://a:6443", "http://[::1]:8080", ""],
        &["a:b:c", "https://a:6443o", "https://a:65536", "ftp://a", "https://u@a", "/a"],
        "must be a URL",
    );
    check(
        "otlp-endpoint",
        &["http://a:4318", "http://[::1]:4318/x", "http://a/", ""],
        &[
            "a:4318",
            "http://a:",
            "http://a:4318o",
            "http://a:0",
            "http://a:65536",
            "http://[::1]:x",
            "grpc://a",
            "http://u@a",
            "http://a?b",
            "/a",
        ],
        "must be a URL",
    );
    check("v", &["0", "10"], &["-1", "x"], "0 to 1000");
    check("status", &["all", "own"], &["none"], "must be all or own");
    check("config-map", &["name", "space/name"], &["a/b/c", "A", "/a", "a/", "a b"], "NAMESPACE/NAME");
}

#[test]
fn b5_booleans_have_gos_grammar() {
    let read_only = |word: &str| words(&[word]).options().writes == crate::manager::options::Writes::LeasesOnly;
    for word in [
        "--read-only",
        "--read-only=true",
        "--read-only=1",
        "--read-only=t",
        "--read-only=T",
        "--read-only=TRUE",
        "--read-only=True",
    ] {
        assert!(read_only(word), "{word}");
    }
    for word in [
        "--read-only=false",
        "--read-only=0",
        "--read-only=f",
        "--read-only=F",
        "--read-only=FALSE",
        "--read-only=False",
    ] {
        assert!(!read_only(word), "{word}");
    }
    for flag in all().iter().filter(|flag| flag.arg.is_require_equals_set()) {
        check(&flag.name, &["true", "false"], &["yes", "", "2", "tRUE"], "must be true or false");
    }
}

#[test]
fn b10_addresses_have_gos_grammar() {
    for flag in ["healthz-address", "listen-address"] {
        let good = [":9000", "0.0.0.0:9000", "127.0.0.1:0", "[::]:9000", "[::1]:9000"];
        check(flag, &good, &["", "9000", ":65536", "localhost:1", "::1:9000", "1.2.3.4"], "must be :PORT");
    }
    let served = words(&["--enable-healthz", "--enable-metrics", "--listen-address=127.0.0.1:9"]).options();
    assert_eq!(served.health.map(|health| health.address.to_string()).as_deref(), Some("[::]:11251"));
    assert_eq!(served.metrics.map(|address| address.to_string()).as_deref(), Some("127.0.0.1:9"));
    let bad = ["0.0.0.0:8082", ":8082", "10.0.0.1:1", "localhost:8082", ""];
    check("admin-address", &["127.0.0.1:0", "[::1]:8082", "127.9.9.9:1"], &bad, "must be a loopback address");
}

#[test]
fn b5_one_of_rate_and_burst_brings_the_original_other() {
    for (given, wanted) in [
        (&[][..], None),
        (&["--kube-api-qps=5"], Some(Rate { qps: 5.0, burst: 100 })),
        (&["--kube-api-burst=7"], Some(Rate { qps: 50.0, burst: 7 })),
        (&["--kube-api-qps=5", "--kube-api-burst=7"], Some(Rate { qps: 5.0, burst: 7 })),
    ] {
        assert_eq!(words(given).options().rate, wanted, "{given:?}");
    }
}

#[test]
fn b12_below_zero_there_is_no_end_of_tries() {
    let most = Requeue::at_most;
    for (value, wanted) in [("-1", Requeue::UNLIMITED), ("-99", Requeue::UNLIMITED), ("0", most(0)), ("15", most(15))] {
        assert_eq!(words(&["--max-requeue-num", value]).options().requeue, wanted, "{value}");
    }
}

#[test]
fn bx_6_b7_r11_lease_times_fit_together() {
    let mistakes = |lease: &str, renew: &str, retry: &str| {
        let lease = format!("--leader-elect-lease-duration={lease}");
        let renew = format!("--leader-elect-renew-deadline={renew}");
        words(&[&lease, &renew, &format!("--leader-elect-retry-period={retry}")]).mistakes()
    };
    for (lease, renew, retry, wanted) in [
        ("15s", "10s", "2s", &[][..]),
        ("3s", "2s", "500ms", &[]),
        ("10s", "10s", "2s", &["must last longer than the deadline"]),
        ("9s", "10s", "2s", &["must last longer than the deadline"]),
        // BX 6: passes in the original and panics when it elects.
        ("15s", "10s", "9s", &["longer than 1.2 times the period"]),
        ("15s", "12s", "10s", &["longer than 1.2 times the period"]),
        ("15s", "12001ms", "10s", &[]),
        ("5s", "5s", "5s", &["must last longer than the deadline", "longer than 1.2 times the period"]),
        ("0s", "10s", "2s", &["1s to 24h"]),
        ("15s", "0s", "2s", &["1ms to 24h"]),
        ("15s", "10s", "0s", &["1ms to 24h"]),
        ("15s", "10s", "-2s", &["1ms to 24h"]),
        ("15", "10", "2", &["1s to 24h", "1ms to 24h", "1ms to 24h"]),
    ] {
        let told = mistakes(lease, renew, retry);
        assert_eq!(told.len(), wanted.len(), "{lease} {renew} {retry}: {told:?}");
        assert!(wanted.iter().all(|words| told.iter().any(|told| told.contains(words))), "{told:?}");
    }
    // Only where leaders are elected.
    let off = words(&["--leader-elect=false", "--leader-elect-lease-duration=2s"]);
    assert_eq!(off.options().election, Election::Off);
}

#[test]
fn b9_where_the_lease_is() {
    let place = |call: &[&str]| match words(call).options().election {
        Election::On(lease) => (lease.namespace, lease.name),
        Election::Off => panic!("{call:?}"),
    };
    let pair = |namespace: &str, name: &str| (namespace.to_owned(), name.to_owned());
    assert_eq!(place(&["--namespace=own"]), pair("own", "topoloom-hypernode"));
    let named = ["--namespace=own", "--leader-elect-resource-namespace=locks", "--leader-elect-resource-name=a.b"];
    assert_eq!(place(&named), pair("locks", "a.b"));
    assert_eq!(place(&["--lock-object-namespace=old", "--leader-elect-resource-namespace=locks"]).0, "old");
    assert!(words(&["--lock-object-namespace=old"]).warnings()[0].contains("is deprecated"));
    assert!(words(&["--lock-object-namespace="]).warnings().is_empty());
    check("leader-elect-resource-lock", &["leases"], &["endpoints", "configmapsleases", ""], "must be leases");
    check("leader-elect-resource-name", &["a", "a-b.c"], &["", "A", "a_b", &"a".repeat(245)], "1 to 244");
    check("leader-elect-resource-namespace", &["a"], &["", "A", "a.b"], "the name of a namespace");
}

#[test]
fn b17_listeners_are_not_in_each_others_way() {
    let both = ["--enable-healthz", "--enable-metrics"];
    for (health, metrics, is_good) in [
        (":9000", ":9001", true),
        (":9000", ":9000", false),
        ("0.0.0.0:9000", "127.0.0.1:9000", false),
        ("127.0.0.1:9000", "[::]:9000", false),
        ("127.0.0.1:9000", "127.0.0.1:9000", false),
        ("127.0.0.1:9000", "[::ffff:127.0.0.1]:9000", false),
        ("127.0.0.1:9000", "127.0.0.2:9000", true),
        ("127.0.0.1:0", "127.0.0.1:0", true),
        // The admin server is there too.
        (":8082", ":9001", false),
        ("10.0.0.1:8082", ":9001", true),
    ] {
        let (health, metrics) = (format!("--healthz-address={health}"), format!("--listen-address={metrics}"));
        let told = words(&[both[0], both[1], &health, &metrics]).mistakes();
        assert_eq!(told.is_empty(), is_good, "{health} {metrics}: {told:?}");
        assert!(told.iter().all(|told| told.contains("-address") && told.contains("another port")), "{told:?}");
    }
    // A server that is off conflicts with none.
    assert!(words(&["--enable-healthz", "--healthz-address=:8081"]).mistakes().is_empty());
}

#[test]
fn b5_tls_is_all_three_files_or_none() {
    let files = ["--ca-cert-file=/ca", "--tls-cert-file=/cert", "--tls-private-key-file=/key"];
    let all = words(&["--enable-healthz", files[0], files[1], files[2]]).options();
    let tls = TlsFiles { authorities: "/ca".into(), certificate: "/cert".into(), key: "/key".into() };
    assert_eq!(all.health.and_then(|health| health.tls), Some(tls));
    for (given, missing) in [
        (&files[..1], "missing: --tls-cert-file, --tls-private-key-file"),
        (&files[..2], "missing: --tls-private-key-file"),
        (&files[1..], "missing: --ca-cert-file"),
    ] {
        let told = words(&[&["--enable-healthz"], given].concat()).mistakes();
        assert!(told.len() == 1 && told[0].ends_with(missing), "{told:?}");
    }
    assert!(words(&files).warnings()[0].contains("has no effect without --enable-healthz"));
    let empty = words(&["--enable-healthz", "--ca-cert-file=", "--tls-cert-file="]).options();
    assert_eq!(empty.health.map(|health| health.tls), Some(None));
}

#[test]
fn b7_files_that_cannot_be_read_end_the_start() {
    let call = words(&[
        "--enable-healthz",
        "--ca-cert-file=/",
        "--tls-cert-file=/no/such",
        "--tls-private-key-file=/dev/null",
    ]);
    let (_, given) = call.settings(Depth::Files);
    let told = given.mistakes();
    assert!(told.len() == 3 && told.iter().all(|told| told.contains("cannot be read: ")), "{told:?}");
}

#[test]
fn b6_lists_of_controllers_are_judged_in_every_layer() {
    check(
        "controllers",
        &["", "*", "*,*,-extender", "extender, nodelock-sweeper"],
        &["nope", "-extender", "extender,+extender", "*,Extender"],
        "--controllers",
    );
    let call = Call { file: Some("controllers: nope\n"), words: vec!["--controllers=*"], ..Call::default() };
    let told = call.mistakes();
    assert!(
        told.len() == 1
            && told[0].contains(
                "line 1): `nope` is not a controller; the controllers are \
            bottomup-syncer, "
            ),
        "{told:?}"
    );
    let volcanos = words(&["--controllers=*,-sharding-controller"]);
    assert!(volcanos.warnings()[0].contains("sharding-controller run in Volcano's own binary"));
}

#[test]
fn b15_gates_are_known_and_without_effect() {
    check(
        "feature-gates",
        &["PriorityClass=true", "PriorityClass=true,CSIStorage=false", ""],
        &["PriorityClass", "PriorityClass=maybe", "Nope=true", "priorityclass=true"],
        "feature-gates",
    );
    assert!(words(&["--feature-gates=CSIStorage=false"]).warnings()[0].contains("has no effect"));
}

#[test]
fn b5_flags_of_other_controllers_are_taken_and_said_to_have_no_effect() {
    for word in [
        "--worker-threads=4",
        "--worker-threads-for-cronjob=4",
        "--worker-threads-for-podgroup=4",
        "--worker-threads-for-queue=4",
        "--worker-threads-for-gc=4",
        "--scheduler-name=mine",
        "--inherit-owner-annotations=false",
        "--log-flush-frequency=1s",
        "--logtostderr=false",
        "--alsologtostderr",
        "--stderrthreshold=INFO",
        "--vmodule=hypernode=5",
        "--log-backtrace-at=main.go:42",
        "--log_dir=/var/log",
        "--log-dir=/var/log",
        "--log_file=/var/log/vc.log",
        "--log_file_max_size=100",
        "--add_dir_header",
        "--one_output=true",
        "--skip_headers",
        "--skip_log_headers",
    ] {
        let told = words(&[word]).warnings();
        assert!(told.len() == 1 && told[0].contains("has no effect"), "{word}: {told:?}");
    }
    assert!(words(&[]).warnings().is_empty());
}

#[test]
fn the_command_line_of_volcanos_charts_starts_us() {
    let aggregate = "--logtostderr --enable-healthz=true --enable-metrics=true --leader-elect=true \
        --leader-elect-resource-namespace=volcano-system --kube-api-qps=50 --kube-api-burst=100 --worker-threads=3 \
        --worker-threads-for-gc=5 --worker-threads-for-podgroup=5 -v=4 --controllers=*,-sharding-controller";
    words(&aggregate.split_whitespace().collect::<Vec<_>>()).options();
    let alone = "--enable-healthz=true --enable-metrics=true --leader-elect=true \
        --leader-elect-resource-name=volcano-hypernode-controller-manager -v 3";
    words(&alone.split_whitespace().collect::<Vec<_>>()).options();
}

#[test]
fn b13_1_klog_levels_and_the_filter_that_wins() {
    use crate::cli::LogArgs;
    for (call, wanted) in [
        (&[][..], "info"),
        (&["-v=0"], "info"),
        (&["-v", "1"], "info"),
        (&["-v4"], "info,topoloom=debug"),
        (&["--v=2"], "info,topoloom=debug"),
        (&["-v=5"], "info,topoloom=trace"),
        (&["-v=5", "--log=warn"], "warn"),
    ] {
        let Reading::Run(read) = words(call).reading() else { panic!("{call:?}") };
        let (matches, given) = *read;
        let (log, args) = (LogArgs::from_arg_matches(&matches).unwrap(), RunArgs::from_arg_matches(&matches).unwrap());
        assert_eq!(args.log(log, &given).log, wanted, "{call:?}");
    }
}

#[test]
fn m7_the_configuration_may_be_elsewhere_and_leases_stay_at_home() {
    let options = words(&["--namespace=own", "--config-map=volcano-system/theirs"]).options();
    assert_eq!(options.location.to_string(), "volcano-system/theirs[volcano-controller.conf]");
    assert_eq!(options.namespace, "own");
    let here = words(&["--namespace=own", "--config-map=mine"]).options();
    assert_eq!(here.location.to_string(), "own/mine[volcano-controller.conf]");
}

#[test]
fn r3_and_the_rest_of_ours() {
    use crate::manager::options::{OnInitFailure, Profiling};
    let options =
        words(&["--tolerate-controller-failures", "--profiling", "--drain-timeout=45s", "--observe"]).options();
    assert_eq!(options.on_init_failure, OnInitFailure::Tolerate);
    assert_eq!((options.profiling, options.drain), (Profiling::On, Duration::from_secs(45)));
    assert_eq!(options.mode, crate::config::Mode::Observe);
}

#[test]
fn flags_of_plugins_fit_together() {
    for (call, wanted) in [
        (&["--plugin-trust=signature"][..], "--plugin-trust-key FILE"),
        (&["--plugin-cache-key=/k"], "--plugin-cache DIR"),
        (&["--plugin-cache-size=1Gi"], "--plugin-cache DIR"),
        (&["--plugin-trust=maybe"], "must be none or digest or signature"),
        (&["--plugin-poll=0"], "1 to 3600"),
        (&["--plugin-registries=registry.example.com,registry.example.com:0"], "between 1 and 65535"),
        (&["--plugin-registries=https://registry.example.com"], "a registry is a host"),
        (&["--plugin-dir="], ""),
    ] {
        let told = words(call).mistakes();
        assert_eq!(told.len(), usize::from(!wanted.is_empty()), "{call:?}: {told:?}");
        assert!(told.iter().all(|told| told.contains(wanted)), "{told:?}");
    }
    let files = |call: &[&str]| {
        let (told, given) = words(call).settings(Depth::Files);
        (told.options.cache.is_some(), given.mistakes().to_vec())
    };
    assert_eq!(files(&["--plugin-cache=/c"]), (true, vec![]));
    assert!(files(&["--plugin-cache=/c", "--plugin-cache-key=/dev/null"]).1[0].starts_with("--plugin-cache-key"));
    assert!(files(&["--plugin-trust-key=/dev/null"]).1[0].starts_with("--plugin-trust-key"));
}

#[test]
fn flags_of_traces_need_a_collector_and_say_what_is_sent_in_the_clear() {
    for (call, mistakes, warnings) in [
        (&["--otlp-headers-file=/h"][..], vec!["--otlp-headers-file", "--otlp-endpoint URL"], vec![]),
        (&["--otlp-ca-file=/c"], vec!["--otlp-ca-file", "--otlp-endpoint URL"], vec![]),
        (&["--otlp-endpoint=http://a", "--otlp-headers-file=/h"], vec![], vec!["sent unencrypted"]),
        (&["--otlp-endpoint=http://a", "--otlp-ca-file=/c"], vec![], vec!["has no effect"]),
        (&["--otlp-endpoint=https://a", "--otlp-headers-file=/h", "--otlp-ca-file=/c"], vec![], vec![]),
    ] {
        let (_, given) = words(call).settled();
        for (told, wanted) in [(given.mistakes(), mistakes), (given.warnings(), warnings)] {
            assert_eq!(told.len(), usize::from(!wanted.is_empty()), "{call:?}: {told:?}");
            assert!(wanted.iter().all(|wanted| told[0].contains(wanted)), "{call:?}: {told:?}");
        }
    }
    let no_pem = concat!("--otlp-ca-file=", env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let files = |call: &[&str]| words(call).settings(Depth::Files).1.mistakes().to_vec();
    let told = files(&["--otlp-endpoint=https://a", "--otlp-headers-file=/no/such", no_pem]);
    let [headers, authorities] = &told[..] else { panic!("{told:?}") };
    assert!(headers.contains("--otlp-headers-file") && headers.contains("cannot be read"), "{headers}");
    assert!(authorities.contains("--otlp-ca-file") && authorities.contains("no PEM certificate"), "{authorities}");
}

#[test]
fn m6_the_leases_of_volcano_come_from_every_layer_and_that_of_its_release_is_always_among_them() {
    let of_release = "volcano-hypernode-controller-manager";
    let (a, b) = ("a".to_owned(), "b".to_owned());
    assert_eq!(words(&[]).options().rivals, ["vc-hypernode-controller-manager", of_release]);
    let elsewhere = words(&["--config-map=mine"]).options().rivals;
    assert_eq!(elsewhere, ["vc-hypernode-controller-manager", of_release]);
    for call in [
        words(&["--volcano-leases=a,b"]),
        words(&["--volcano-leases=b", "--volcano-leases=a"]),
        Call { variables: vec![("TOPOLOOM_VOLCANO_LEASES", "a,b")], ..Call::default() },
        Call { file: Some("volcano-leases: [a, b]\n"), ..Call::default() },
    ] {
        assert_eq!(call.options().rivals, [a.clone(), b.clone(), of_release.to_owned()], "{call:?}");
    }
    let told = words(&["--volcano-leases=a,B"]).mistakes();
    assert!(matches!(told.as_slice(), [told] if told.contains("--volcano-leases")), "{told:?}");
}

#[test]
fn m6_the_lease_of_all_of_volcanos_controllers_is_left_out_with_a_warning() {
    let call = words(&["--volcano-leases=a,vc-controller-manager"]);
    assert_eq!(call.options().rivals, ["a", "volcano-hypernode-controller-manager"]);
    let told = call.warnings();
    let wanted = "--volcano-leases a,vc-controller-manager (command line): vc-controller-manager is ignored: ";
    assert!(matches!(told.as_slice(), [told] if told.starts_with(wanted)), "{told:?}");
    assert_eq!(words(&["--volcano-leases=a"]).warnings(), [""; 0]);
}
