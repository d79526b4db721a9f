//! Every flag of `run`, as a table (`node-lock-and-bind.md` part B, `hypernode.md` 13).

mod layers;
mod lending;
mod locks;
mod rules;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use clap::FromArgMatches;
use topoloom_core::queue::Requeue;

use super::flags::{self, Flag};
use super::*;
use crate::cli::run::{Depth, RunArgs, RunSettings};
use crate::config::options_file::Values;
use crate::manager::Options;

/// Made once, and without the other verbs: a command line is put together in milliseconds, and there are a thousand here.
static COMMAND: LazyLock<clap::Command> =
    LazyLock::new(|| flags::only_run(&crate::cli::command()).version("0").propagate_version(true));
/// Its flags.
static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(|| flags::all(&COMMAND));

/// Where the options file of a test is.
const FILE: &str = "/etc/options.yaml";

/// A call of `run` in the middle of nothing.
#[derive(Debug, Default, Clone)]
struct Call<'a> {
    words: Vec<&'a str>,
    variables: Vec<(&'a str, &'a str)>,
    file: Option<&'a str>,
}

/// A call with these flags.
fn words<'a>(words: &[&'a str]) -> Call<'a> {
    Call { words: words.to_vec(), ..Call::default() }
}

impl Call<'_> {
    fn reading(&self) -> Reading {
        let file = |path: &Path| match self.file {
            Some(text) if path == Path::new(FILE) => Ok(text.to_owned()),
            _ => Err("there is no such file".to_owned()),
        };
        let variables: BTreeMap<String, std::ffi::OsString> =
            self.variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let outside = Outside { variables, read: &file };
        let options = format!("--options={FILE}");
        let mut arguments = vec!["topoloom", "run"];
        arguments.extend(self.file.map(|_| options.as_str()));
        arguments.extend(&self.words);
        let arguments: Vec<_> = arguments.into_iter().map(Into::into).collect();
        read(&COMMAND, &arguments, &outside)
    }

    /// The result, with every rule applied.
    fn settled(&self) -> (Options, Given) {
        let (told, given) = self.settings(Depth::Rules);
        (told.options, given)
    }

    fn settings(&self, depth: Depth) -> (RunSettings, Given) {
        let Reading::Run(read) = self.reading() else { panic!("{self:?} is no call of run") };
        let (matches, mut given) = *read;
        let told = RunArgs::from_arg_matches(&matches).unwrap().settle(depth, &mut given);
        (told, given)
    }

    fn options(&self) -> Options {
        let (options, given) = self.settled();
        assert!(given.mistakes().is_empty(), "{self:?}: {:#?}", given.mistakes());
        options
    }

    fn mistakes(&self) -> Vec<String> {
        self.settled().1.mistakes().to_vec()
    }

    fn warnings(&self) -> Vec<String> {
        let (_, given) = self.settled();
        assert!(given.mistakes().is_empty(), "{self:?}: {:#?}", given.mistakes());
        given.warnings().to_vec()
    }
}

fn all() -> Vec<Flag> {
    FLAGS.clone()
}

/// A value that the flag takes.
fn sample(flag: &Flag) -> String {
    if let Some(default) = flag.default.first() {
        return default.clone();
    }
    let value = flag.arg.get_value_names().into_iter().flatten().next().map(ToString::to_string).unwrap_or_default();
    let sample = match value.as_str() {
        "FILE" | "DIR" => "/some/where",
        "NAME" | "RELEASE" => "some-name",
        "[NAMESPACE/]NAME" => "space/name",
        "URL" => "https://10.0.0.1:6443",
        "[IP]:PORT" => ":8888",
        "NODELOCK_SWEEP" => "report",
        "NUMBER" | "COUNT" | "LEVEL" => "5",
        "LEVELS" => "file=5",
        "GATES" => "PriorityClass=true",
        "IP" => "10.96.0.20",
        "ID" => "some-id",
        "REGISTRIES" => "registry.example.com,127.0.0.1:5000",
        other => panic!("--{} takes a {other}, of which there is no sample", flag.name),
    };
    sample.to_owned()
}

#[test]
fn every_flag_has_a_variable_a_key_and_words() {
    for flag in all() {
        assert!(flag.arg.get_help().is_some_and(|help| !help.to_string().trim().is_empty()), "--{}", flag.name);
        let variable = format!("TOPOLOOM_{}", flag.name.to_uppercase().replace('-', "_"));
        assert_eq!(flag.variables().first(), Some(&variable));
        assert_eq!(flag.arg.get_env().map(|name| name.to_string_lossy().into_owned()), Some(variable), "in the help");
    }
    let count = all().len();
    assert!(count >= 55, "only {count} flags");
}

#[test]
fn every_flag_is_read_from_every_layer_and_the_nearest_counts() {
    for flag in all().iter().filter(|flag| flag.name != "options") {
        let (sample, variable) = (sample(flag), flags::variable(&flag.name));
        let quoted = format!("{}: \"{sample}\"\n", flag.name);
        let word = format!("--{}={sample}", flag.name);
        let full = Call { words: vec![&word], variables: vec![(&variable, &sample)], file: Some(&quoted) };
        for (call, origin) in [
            (full.clone(), "command line".to_owned()),
            (Call { words: vec![], ..full.clone() }, format!("environment variable {variable}")),
            (Call { words: vec![], variables: vec![], ..full.clone() }, format!("{FILE} line 1")),
            (words(&[]), "default".to_owned()),
        ] {
            let Reading::Run(read) = call.reading() else { panic!("{call:?}") };
            assert_eq!(read.1.mistakes(), [] as [String; 0], "{call:?}");
            let counting = read.1.counting(&flag.name).unwrap();
            assert_eq!(counting.origin.to_string(), origin, "--{}", flag.name);
            if origin != "default" {
                assert_eq!(counting.values, [sample.as_str()], "--{}", flag.name);
            }
        }
    }
}

#[test]
fn every_flag_names_itself_when_its_value_is_wrong_in_any_layer() {
    let long = "x".repeat(5000);
    for flag in all().iter().filter(|flag| flag.name != "options") {
        let variable = flags::variable(&flag.name);
        let (word, line) = (format!("--{}={long}", flag.name), format!("{}: {long}", flag.name));
        for (call, origin) in [
            (words(&[&word]), "command line".to_owned()),
            (Call { variables: vec![(&variable, &long)], ..Call::default() }, variable.clone()),
            (Call { file: Some(&line), ..Call::default() }, format!("{FILE} line 1")),
        ] {
            let Reading::Run(read) = call.reading() else { panic!("--{}", flag.name) };
            let mistakes = read.1.mistakes();
            assert_eq!(mistakes.len(), 1, "{mistakes:?}");
            let told = &mistakes[0];
            assert!(told.contains(&format!("--{} ", flag.name)) && told.contains(&origin), "{told}");
            assert!(told.len() < 400, "{told}");
        }
    }
}

#[test]
fn b5_b9_13_defaults() {
    let defaults: BTreeMap<String, Vec<String>> = all().into_iter().map(|flag| (flag.name, flag.default)).collect();
    for (flag, default) in [
        ("master", None),
        ("kubeconfig", None),
        ("kube-api-qps", None),
        ("kube-api-burst", None),
        ("worker-threads", Some("3")),
        ("worker-threads-for-cronjob", Some("3")),
        ("worker-threads-for-podgroup", Some("5")),
        ("worker-threads-for-queue", Some("5")),
        ("worker-threads-for-gc", Some("1")),
        ("max-requeue-num", Some("15")),
        ("scheduler-name", Some("volcano")),
        ("controllers", Some("*")),
        ("enable-healthz", Some("false")),
        ("healthz-address", Some(":11251")),
        ("enable-metrics", Some("false")),
        ("listen-address", Some(":8081")),
        ("ca-cert-file", None),
        ("tls-cert-file", None),
        ("tls-private-key-file", None),
        ("inherit-owner-annotations", Some("true")),
        ("leader-elect", Some("true")),
        ("leader-elect-lease-duration", Some("15s")),
        ("leader-elect-renew-deadline", Some("10s")),
        ("leader-elect-retry-period", Some("2s")),
        ("leader-elect-resource-lock", Some("leases")),
        ("leader-elect-resource-name", Some("topoloom-hypernode")),
        ("leader-elect-resource-namespace", None),
        ("lock-object-namespace", None),
        ("feature-gates", None),
        ("log-flush-frequency", Some("5s")),
        ("drain-timeout", Some("30s")),
        ("admin-address", Some("127.0.0.1:8082")),
    ] {
        let wanted: Vec<String> = default.into_iter().map(str::to_owned).collect();
        assert_eq!(defaults.get(flag), Some(&wanted), "--{flag}");
    }
}

#[test]
fn what_is_ours_and_what_is_volcanos_is_told_apart() {
    let under = |heading: Option<&str>| {
        let flags = all().into_iter().filter(|flag| flag.arg.get_help_heading() == heading);
        let mut names: Vec<String> = flags.map(|flag| flag.name).collect();
        names.sort();
        names
    };
    let volcanos = "ca-cert-file controllers enable-healthz enable-metrics healthz-address kube-api-burst kube-api-qps kubeconfig \
        leader-elect leader-elect-lease-duration leader-elect-renew-deadline leader-elect-resource-lock \
        leader-elect-resource-name leader-elect-resource-namespace leader-elect-retry-period listen-address \
        lock-object-namespace master max-requeue-num tls-cert-file tls-private-key-file v";
    assert_eq!(under(Some(VOLCANOS)), volcanos.split_whitespace().collect::<Vec<_>>());
    let without_effect = "add-dir-header alsologtostderr feature-gates inherit-owner-annotations log-backtrace-at log-dir \
        log-file log-file-max-size log-flush-frequency logtostderr one-output scheduler-name skip-headers skip-log-headers \
        stderrthreshold vmodule worker-threads worker-threads-for-cronjob worker-threads-for-gc worker-threads-for-podgroup worker-threads-for-queue";
    assert_eq!(under(Some(WITHOUT_EFFECT)), without_effect.split_whitespace().collect::<Vec<_>>());
    assert_eq!(under(None).len(), all().len() - under(Some(VOLCANOS)).len() - under(Some(WITHOUT_EFFECT)).len());
}

#[test]
fn without_a_word_everything_has_its_default() {
    use crate::manager::options::{Election, LeaseOptions, OnInitFailure, Profiling, Writes};
    let options = words(&[]).options();
    assert_eq!(options.location.to_string(), "volcano-system/volcano-controller-configmap[volcano-controller.conf]");
    assert_eq!(
        (options.namespace.as_str(), options.requeue, options.concurrency),
        ("volcano-system", Requeue::at_most(15), 8)
    );
    assert_eq!((options.health, options.metrics, options.rate), (None, None, None));
    assert_eq!((options.on_init_failure, options.writes), (OnInitFailure::Exit, Writes::Allowed));
    assert_eq!((options.profiling, options.drain), (Profiling::Off, Duration::from_secs(30)));
    let lease = LeaseOptions {
        namespace: "volcano-system".into(),
        name: "topoloom-hypernode".into(),
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    };
    assert_eq!(options.election, Election::On(lease));
}

#[test]
fn the_page_names_every_flag_once() {
    let page = reference::reference();
    for flag in all() {
        let rows = page.lines().filter(|line| line.contains(&format!("| `{}` |", flags::variable(&flag.name)))).count();
        assert_eq!(rows, 1, "--{}", flag.name);
    }
    assert!(all().iter().any(|flag| flag.values == Values::Many));
}
