//! Flags of the bottom-up syncer (S6, S19 to S21, S26).

use topoloom_sync::deletion::Evictions;
use topoloom_syncer::kubeconfig::Loopback;
use topoloom_syncer::kubelet::ClientAuthorities;
use topoloom_syncer::physical::WriteRate;

use super::rules::check;
use super::*;

/// The flags with which logs and exec are served.
const SERVED: [&str; 3] =
    ["--syncer-kubelet-address=10.96.0.20", "--syncer-tls-cert-file=/c", "--syncer-tls-private-key-file=/k"];

fn with<'a>(more: &[&'a str]) -> Call<'a> {
    words(&[&SERVED[..], more].concat())
}

#[test]
fn s19_s21_lending_has_the_defaults_of_the_decisions_and_each_flag_its_range() {
    let lending = words(&[]).options().lending;
    assert_eq!((lending.kubelet, lending.virtual_cluster), (None, None));
    assert_eq!((lending.evictions, lending.loopback), (Evictions::Allowed, Loopback::Refused));
    assert_eq!(lending.writes, WriteRate::default());
    check("physical-client-qps", &["0", "200", "100000"], &["-1", "100001", "1.5", "x"], "0 to 100000");
    check("physical-client-burst", &["0", "200", "100000"], &["-1", "100001", "x"], "0 to 100000");
    let long = "i".repeat(64);
    check("virtual-cluster-id", &["a", "6f1b-4c_d.e"], &["a/b", "-a", "a-", "a b", &long], "1 to 63 letters");
    let given = words(&["--virtual-cluster-id=us", "--syncer-evictions=false", "--syncer-allow-loopback"]);
    let lending = given.options().lending;
    assert_eq!(lending.virtual_cluster.as_deref(), Some("us"));
    assert_eq!((lending.evictions, lending.loopback), (Evictions::Off, Loopback::Allowed));
}

#[test]
fn s21_no_writes_per_second_or_no_burst_is_no_limit() {
    let writes = |flags: &[&str]| words(flags).options().lending.writes;
    assert_eq!(writes(&["--physical-client-qps=10"]), WriteRate::Limited { per_second: 10, burst: 200 });
    let both = writes(&["--physical-client-qps=10", "--physical-client-burst=3"]);
    assert_eq!(both, WriteRate::Limited { per_second: 10, burst: 3 });
    for flag in ["--physical-client-qps=0", "--physical-client-burst=0"] {
        assert_eq!(writes(&[flag]), WriteRate::Unlimited, "{flag}");
    }
}

#[test]
fn s26_logs_and_exec_are_served_where_an_address_and_a_certificate_are_given() {
    let kubelet = with(&[]).options().lending.kubelet.unwrap();
    assert_eq!((kubelet.address.to_string(), kubelet.port), ("10.96.0.20".to_owned(), 10_250));
    assert_eq!((kubelet.listen.to_string(), kubelet.clients), ("[::]:10250".to_owned(), ClientAuthorities::Cluster));
    let more =
        ["--syncer-kubelet-port=443", "--syncer-kubelet-listen-address=127.0.0.1:0", "--syncer-client-ca-file=/a"];
    let kubelet = with(&more).options().lending.kubelet.unwrap();
    assert_eq!((kubelet.port, kubelet.listen.to_string()), (443, "127.0.0.1:0".to_owned()));
    assert_eq!(kubelet.clients, ClientAuthorities::File("/a".into()));
    for (without, flag) in [(1, "syncer-tls-cert-file"), (2, "syncer-tls-private-key-file")] {
        let mut flags = SERVED.to_vec();
        flags.remove(without);
        let told = words(&flags).mistakes();
        assert!(told.len() == 1 && told[0].contains(flag) && told[0].contains("over TLS alone"), "{told:?}");
    }
}

#[test]
fn s26_an_address_that_is_none_and_flags_without_it_are_named() {
    for (flag, wanted) in [
        ("--syncer-kubelet-address=nowhere", "must be an IP address"),
        ("--syncer-kubelet-address=10.0.0.1:1", "must be an IP address"),
        ("--syncer-kubelet-address=0.0.0.0", "no address that an API server can connect to"),
        ("--syncer-kubelet-port=0", "1 to 65535"),
        ("--syncer-kubelet-port=65536", "1 to 65535"),
        ("--syncer-kubelet-listen-address=10250", "must be :PORT"),
    ] {
        let told = with(&[flag]).mistakes();
        assert!(told.len() == 1 && told[0].contains(wanted) && told[0].contains("syncer-kubelet"), "{flag}: {told:?}");
    }
    let idle = words(&["--syncer-kubelet-port=10250", "--syncer-client-ca-file=/a"]).warnings();
    assert!(idle.len() == 1 && idle[0].contains("has no effect without --syncer-kubelet-address"), "{idle:?}");
}

#[test]
fn s26_a_file_that_cannot_be_read_is_named_with_its_flag_before_anything_runs() {
    let (_, given) = with(&["--syncer-client-ca-file=/there/is/none"]).settings(Depth::Files);
    for flag in ["syncer-tls-cert-file", "syncer-tls-private-key-file", "syncer-client-ca-file"] {
        let is_it = |told: &&String| told.contains(&format!("--{flag} ")) && told.contains("cannot be read");
        assert_eq!(given.mistakes().iter().filter(is_it).count(), 1, "{flag}: {:#?}", given.mistakes());
    }
}
