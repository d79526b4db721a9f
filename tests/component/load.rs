//! Files that are not plugins, and why the host refuses them.

use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use topoloom::plugin::{Compiler, Digest, Load, LoadError, Runtime};
use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::{Amount, Limit, Limits, Retry};
use topoloom_tests::builtins;
use topoloom_tests::controlplane::eventually;

use crate::guests::{RUNTIME, VILLAIN, bomb, compiler, compiler_with, host, nodes, round, source, villain, wat};
use crate::limits::file::branches;

async fn refused(bytes: Arc<[u8]>, limits: Limits) -> LoadError {
    RUNTIME.load(Load { bytes, pinned: None, limits }).await.expect_err("it loaded")
}

#[tokio::test]
async fn each_refusal_has_its_words() {
    for (guest, reason, words) in [
        ("wasi.wat", "ForeignImport", "plugin imports wasi:cli/stdout@0.2.0; topoloom plugins use no WASI"),
        ("newer.wat", "InterfaceVersion", "plugin needs topoloom:discovery 0.3, this host supports 0.1"),
        (
            "world.wat",
            "WrongWorld",
            "plugin exports no discoverer (topoloom:discovery/discoverer); it exports acme:other/thing@1.0.0",
        ),
        ("empty.wat", "WrongWorld", "plugin exports no discoverer (topoloom:discovery/discoverer); it exports nothing"),
        (
            "unknown.wat",
            "UnknownImport",
            "plugin imports topoloom:weather/forecast@0.1.0, which this host does not have",
        ),
        ("hollow.wat", "LinkFailed", "the plugin does not fit its interface: "),
    ] {
        let error = refused(wat(guest), Limits::default()).await;
        assert_eq!(error.reason(), reason, "{guest}: {error}");
        assert!(error.to_string().starts_with(words), "{guest}: {error}");
        assert_eq!(error.retry(), Retry::OnChange, "{guest}");
    }
}

#[tokio::test]
async fn what_is_broken_is_not_called_switched_off() {
    let mut bytes = VILLAIN.to_vec();
    let end = bytes.len() / 2;
    bytes.truncate(end);
    let error = refused(bytes.into(), Limits::default()).await;
    assert_eq!((error.reason(), error.limit()), ("InvalidComponent", None), "{error}");
}

#[tokio::test]
async fn a_file_that_was_given_up_is_read_no_further_and_a_good_file_does_not_wait_behind_it() {
    let runtime = Runtime::start(Compiler::Child { exe: host() }).unwrap();
    // Each load uses its processor time, unless it is cancelled: half a minute for all of them, since one is read at a time.
    let mut limits = Limits::default();
    limits.scan.cpu = Duration::from_millis(300);
    let slow = branches(100, 60_000, 64);
    let load = |bytes: Arc<[u8]>| runtime.load(Load { bytes, pinned: None, limits: limits.clone() });
    for number in 0..100_u8 {
        // An empty custom section with another name makes it another plugin.
        let delivered: Arc<[u8]> = [&slow[..], &[0, 2, 1, number]].concat().into();
        assert!(tokio::time::timeout(Duration::from_millis(20), load(delivered)).await.is_err(), "it was read");
    }
    let began = Instant::now();
    assert_eq!(load(wat("world.wat")).await.err().unwrap().reason(), "WrongWorld");
    assert!(began.elapsed() < Duration::from_secs(10), "it waited {:?}", began.elapsed());
    // A caller that waits for the hostile file gets the error that reading it takes too long.
    let error = load(slow).await.err().unwrap();
    assert_eq!((error.reason(), error.limit()), ("CompileLimit", Some(Limit::ScanCpu)), "{error}");
}

#[tokio::test]
async fn only_components_are_read() {
    assert_eq!(refused(wat("core.wat"), Limits::default()).await.reason(), "CoreModule");
    assert_eq!(refused((*b"\0elf").into(), Limits::default()).await.reason(), "NotWasm");
    assert_eq!(refused([].into(), Limits::default()).await.reason(), "NotWasm");
    let image = compiled(&VILLAIN);
    assert_eq!(refused(image, Limits::default()).await.reason(), "Precompiled");
}

/// The output of the compiler process for a plugin: native code, which no plugin may contain.
fn compiled(bytes: &[u8]) -> Arc<[u8]> {
    use std::io::Write;
    let mut child = compiler();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    output.stdout.into()
}

#[tokio::test]
async fn a_pinned_digest_must_be_that_of_the_bytes() {
    let pinned = Some(Digest::of(b"something else"));
    let error =
        RUNTIME.load(Load { bytes: Arc::clone(&VILLAIN), pinned, limits: Limits::default() }).await.unwrap_err();
    assert_eq!(error.reason(), "DigestMismatch");
    let pinned = Some(Digest::of(&VILLAIN));
    assert!(RUNTIME.load(Load { bytes: Arc::clone(&VILLAIN), pinned, limits: Limits::default() }).await.is_ok());
}

#[tokio::test]
async fn foreign_bytes_come_from_the_compiler_process_twice() {
    let plugin = villain().await;
    assert_eq!(plugin.origin(), Origin::Foreign);
    plugin.optimise().await.unwrap();
    assert!(plugin.discover(&source(), round("good", nodes(100))).await.end.is_ok());
}

#[tokio::test]
async fn a_compile_that_does_not_end_is_ended_and_harms_no_one() {
    let mut limits = Limits::default();
    limits.set(Limit::CompileCpu, Amount::seconds(3));
    let bomb = refused(bomb(), limits);
    let honest = async {
        let plugin = villain().await;
        for _ in 0..20 {
            assert!(plugin.discover(&source(), round("good", nodes(100))).await.end.is_ok());
        }
    };
    let (error, ()) = futures::join!(bomb, honest);
    assert_eq!(error.reason(), "CompileLimit", "{error}");
    // On a busy machine the compiler has no processor for most of the time, and the other limit ends it.
    let limits = ["3s of processor time", "18s of elapsed time"];
    assert!(limits.iter().any(|limit| error.to_string().contains(limit)), "{error}");
}

#[tokio::test]
async fn the_import_list_is_the_list_of_abilities() {
    let plugin = villain().await;
    let imports = plugin.imports();
    assert!(imports.iter().all(|import| import.starts_with("topoloom:discovery/")), "{imports:?}");
    assert!(imports.contains(&"topoloom:discovery/nodes@0.1.0#[method]snapshot.label".to_owned()), "{imports:?}");
    assert!(!imports.iter().any(|import| import.contains("http")), "{imports:?}");
}

#[tokio::test]
async fn builtins_are_trusted_by_their_bytes() {
    let builtin = builtins::find("label");
    assert_eq!(Digest::of(&builtin.bytes), builtin.digest);
    let load = Load { bytes: Arc::clone(&builtin.bytes), pinned: None, limits: Limits::default() };
    let plugin = RUNTIME.load(load).await.unwrap();
    assert_eq!(plugin.origin(), Origin::Embedded);
    // All that it can do: read its own objects, read columns, read the number of rows, and write to the log.
    let abilities = [
        "applied@0.1.0#groups",
        "log@0.1.0#write",
        "nodes@0.1.0#[method]snapshot.label",
        "nodes@0.1.0#[method]snapshot.rows",
    ];
    assert_eq!(plugin.imports(), abilities.map(|ability| format!("topoloom:discovery/{ability}")));
    // The build made its image: the host compiles nothing, so the plugin loads without a compiler.
    let nowhere = Runtime::start(Compiler::Child { exe: "/nowhere".into() }).unwrap();
    let load = Load { bytes: Arc::clone(&builtin.bytes), pinned: None, limits: Limits::default() };
    assert!(nowhere.load(load).await.is_ok());
    let load = Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits: Limits::default() };
    assert_eq!(nowhere.load(load).await.unwrap_err().reason(), "CompilerUnavailable");
}

#[tokio::test]
async fn the_compiler_process_has_nothing_of_ours_in_its_environment() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (script, said) = (folder.path().join("compiler"), folder.path().join("environment"));
    std::fs::write(&script, format!("#!/bin/sh\nexec /usr/bin/env > {}\n", said.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert!(std::env::vars().count() > 3, "this process has an environment that could be passed on");
    let runtime = Runtime::start(Compiler::Child { exe: script }).unwrap();
    let load = Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits: Limits::default() };
    assert!(runtime.load(load).await.is_err(), "the output of the script is no image");
    // The shell itself sets its folder, its depth, and the last argument.
    let said = std::fs::read_to_string(said).unwrap();
    let foreign: Vec<&str> = said
        .lines()
        .filter(|line| !["PWD=", "OLDPWD=", "SHLVL=", "_="].iter().any(|own| line.starts_with(own)))
        .collect();
    assert_eq!(foreign, Vec::<&str>::new());
}

/// The error of a load whose compiler prints these words and exits with this code.
async fn refused_by(code: u8, words: &str) -> LoadError {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("compiler");
    std::fs::write(&script, format!("#!/bin/sh\ncat > /dev/null\necho {words} >&2\nexit {code}\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let runtime = Runtime::start(Compiler::Child { exe: script }).unwrap();
    let load = Load { bytes: Arc::clone(&VILLAIN), pinned: None, limits: Limits::default() };
    runtime.load(load).await.unwrap_err()
}

#[tokio::test]
async fn a_compiler_process_that_cannot_confine_itself_is_not_the_plugins_fault() {
    let error = refused_by(13, "no filter can be set").await;
    assert_eq!((error.reason(), error.retry()), ("CompilerUnavailable", Retry::Later(None)), "{error}");
    assert!(error.to_string().ends_with("could not be confined: no filter can be set"), "{error}");
    let error = refused_by(1, "broken").await;
    assert_eq!((error.reason(), error.retry()), ("CompileFailed", Retry::OnChange), "{error}");
}

#[tokio::test]
async fn a_compiler_that_panics_is_one_sentence_with_the_digest_and_without_a_place_in_its_source() {
    // As a program in Rust ends that has no hook.
    let words = "thread main panicked at /build/engine/adapt.rs:249:14: invalid adapter module generated";
    let error = refused_by(101, words).await;
    assert_eq!((error.reason(), error.retry(), error.limit()), ("CompileFailed", Retry::OnChange, None), "{error}");
    let sentence = error.to_string();
    assert!(sentence.contains(&Digest::of(&VILLAIN).to_string()), "{sentence}");
    assert!(!sentence.contains("adapt.rs") && !sentence.contains('\n'), "{sentence}");
}

#[tokio::test]
async fn the_compiler_process_may_compute_and_nothing_else() {
    let mut child = compiler();
    confined(&child, 1).await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
    let limit = |name: &str| limits.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(limit("Max file size").contains(" 0 "), "{limits}");
    assert!(limit("Max cpu time").contains(" 10 ") && !limit("Max address space").contains("unlimited"), "{limits}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn at_a_desk_every_thread_of_the_compiler_process_may_compute_and_nothing_else() {
    for kind in ["baseline", "quick"] {
        let mut child = compiler_with(&[kind, "10", "1073741824", "all"]);
        // The first one reads and writes, the others compile: one for each processor, and no more than eight.
        let processors = std::thread::available_parallelism().unwrap().get();
        confined(&child, 1 + processors.min(8)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Waits until the process has confined itself, before it reads anything; it has as many threads.
async fn confined(child: &Child, threads: usize) {
    let tasks = format!("/proc/{}/task", child.id());
    eventually("all of its threads are confined", Duration::from_secs(60), async || {
        let read = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status"));
        let states = std::fs::read_dir(&tasks).and_then(|all| all.map(|task| task.and_then(read)).collect());
        let states: Vec<String> = states.map_err(|error: std::io::Error| error.to_string())?;
        // 2: a filter on system calls (proc(5)).
        let is_confined = |state: &String| ["Seccomp:\t2", "NoNewPrivs:\t1"].iter().all(|line| state.contains(line));
        if states.len() == threads && states.iter().all(is_confined) { Ok(()) } else { Err(states.join("\n")) }
    })
    .await;
}
