//! Which layer counts, and how mistakes in all of them are reported.

use super::*;
use crate::config::Mode;

#[test]
fn m3_flag_over_environment_over_file_over_default() {
    let call = Call {
        words: vec!["--concurrency=1"],
        variables: vec![("TOPOLOOM_CONCURRENCY", "2"), ("TOPOLOOM_DRAIN_TIMEOUT", "20s")],
        file: Some("concurrency: 3\ndrain-timeout: 30s\nobserve: yes\n"),
    };
    let options = call.options();
    assert_eq!((options.concurrency, options.drain, options.mode), (1, Duration::from_secs(20), Mode::Observe));
}

#[test]
fn m3_original_variables_count_where_ours_are_not_set() {
    let originals = vec![("KUBE_POD_NAMESPACE", "infra"), ("HELM_RELEASE_NAME", "prod")];
    let call = Call { variables: originals.clone(), ..Call::default() };
    let options = call.options();
    assert_eq!((options.location.namespace.as_str(), options.namespace.as_str()), ("infra", "infra"));
    assert_eq!(options.location.name, "prod-controller-configmap");
    let ours = Call { variables: [originals, vec![("TOPOLOOM_NAMESPACE", "own")]].concat(), ..Call::default() };
    assert_eq!(ours.options().namespace, "own");
    let empty = Call { variables: vec![("KUBE_POD_NAMESPACE", "")], ..Call::default() };
    assert_eq!(empty.options().namespace, "volcano-system");
}

#[test]
fn m3_the_options_file_may_be_named_by_the_environment() {
    let call = Call { words: vec![], variables: vec![("TOPOLOOM_OPTIONS", "/no/such")], file: None };
    assert_eq!(call.mistakes(), ["--options /no/such: there is no such file"]);
    let in_itself = Call { file: Some("options: other.yaml\n"), ..Call::default() };
    let told = in_itself.mistakes();
    assert!(told.len() == 1 && told[0].contains("options: is no flag of `run`"), "{told:?}");
}

#[test]
fn m3_every_mistake_of_every_layer_is_told_at_once() {
    let call = Call {
        words: vec!["--concurrency=100", "--leader-elect=maybe"],
        variables: vec![("TOPOLOOM_DRAIN_TIMEOUT", "0s"), ("TOPOLOOM_CONCURRENCY", "many")],
        file: Some("statuss: all\nstatus: most\nlisten-address: 8081\n\nhealthz-address: x\n"),
    };
    let told = call.mistakes();
    for words in [
        "--concurrency 100 (command line): must be a whole number, 1 to 64",
        "--concurrency many (environment variable TOPOLOOM_CONCURRENCY): must be a whole number, 1 to 64",
        "--leader-elect maybe (command line): must be true or false, 1 or 0, t or f",
        "--drain-timeout 0s (environment variable TOPOLOOM_DRAIN_TIMEOUT): must be a duration with units, 1s to 10m, such as 15s or 1m30s",
        "/etc/options.yaml line 1: statuss: is no flag of `run`; did you mean `status`?",
        "--status most (/etc/options.yaml line 2): must be all or own",
        "--listen-address 8081 (/etc/options.yaml line 3): must be :PORT, IP:PORT or [IP]:PORT, with a port from 0 to 65535",
    ] {
        assert!(told.iter().any(|mistake| mistake == words), "{words}\n{told:#?}");
    }
    assert_eq!(told.len(), 8, "{told:#?}");
}

#[test]
fn b5_repeated_flags_replace_the_default_and_then_add() {
    let enables = |call: Call<'_>, name: &str| call.options().controllers.enables(name);
    assert!(!enables(words(&["--controllers=extender"]), "hyperNode-controller"));
    let twice = words(&["--controllers=extender", "--controllers=hyperNode-controller"]);
    assert!(enables(twice.clone(), "hyperNode-controller") && enables(twice, "extender"));
    let file = Call { file: Some("controllers:\n- '*'\n- -extender\n"), ..Call::default() };
    assert!(!enables(file.clone(), "extender") && enables(file.clone(), "nodelock-sweeper"));
    // A layer that wins replaces the list.
    assert!(enables(Call { words: vec!["--controllers=*"], ..file }, "extender"));
}

#[test]
fn a_flag_with_one_value_has_the_last_one() {
    assert_eq!(words(&["--concurrency=1", "--concurrency", "2"]).options().concurrency, 2);
    let told = words(&["--concurrency=0", "--concurrency=2"]).mistakes();
    assert_eq!(told, ["--concurrency 0 (command line): must be a whole number, 1 to 64"]);
}

#[test]
fn b7_flags_that_do_not_exist_are_no_values() {
    for call in [&["--no-such-flag"][..], &["--concurrency"], &["--leader-elect", "false"], &["words"]] {
        let Reading::Usage(error) = words(call).reading() else { panic!("{call:?}") };
        assert_eq!(error.exit_code(), 2, "{error}");
    }
    for call in [&["--help"][..], &["-h"], &["--concurrency=0", "--version"]] {
        assert!(matches!(words(call).reading(), Reading::Other), "{call:?}");
    }
}

#[test]
fn a_secret_in_the_wrong_place_is_not_repeated() {
    let call = Call {
        words: vec!["--master=https://user:sesame@10.0.0.1"],
        variables: vec![("TOPOLOOM_PASSWORD", "sesame")],
        file: Some("token: sesame\n"),
    };
    let told = call.mistakes().join("\n");
    assert!(told.contains("--master … (command line): must be a URL") && told.contains("token: is no flag"), "{told}");
    assert!(!told.contains("sesame"), "{told}");
}

#[test]
fn variables_that_look_like_typing_mistakes_are_told_and_others_are_kubernetes_own() {
    let call = Call {
        variables: vec![("TOPOLOOM_CONTROLERS", "*"), ("TOPOLOOM_PORT", "tcp://1:2"), ("TOPOLOOM_SERVICE_HOST", "1")],
        ..Call::default()
    };
    let wanted = "the environment variable TOPOLOOM_CONTROLERS has no effect; did you mean TOPOLOOM_CONTROLLERS?";
    assert_eq!(call.warnings(), [wanted]);
}

#[test]
fn what_a_shell_would_have_taken_from_volcanos_command_line_is_left_out_with_a_remark() {
    // The arguments of Volcano's Deployment, word for word.
    let volcanos =
        ["--logtostderr", "--enable-healthz=true", "--enable-metrics=true", "--leader-elect=false", "-v=4", "2>&1"];
    let told = words(&volcanos).warnings();
    let remarks: Vec<_> = told.iter().filter(|warning| warning.contains("2>&1")).collect();
    assert!(matches!(remarks.as_slice(), [remark] if remark.contains("no effect")), "{told:?}");
    assert!(words(&volcanos).options().health.is_some());
    // Any other word that no flag explains is a mistake as before.
    for other in ["2>1", ">&2", "|", "2>&1 "] {
        assert!(matches!(words(&["--leader-elect=false", other]).reading(), Reading::Usage(_)), "{other}");
    }
}
