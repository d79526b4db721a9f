//! What an operator does with a plugin file on a workstation, with the real binary.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use topoloom::plugin::Digest;
use topoloom::plugin::trust::TrustKeys;
use topoloom_tests::builtins;
use topoloom_tests::{guest, schema};

use crate::guests::{MUTE_VILLAIN, VILLAIN, host, wat};

/// Made by openssl for these tests.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIFSBZJjh8MAL4vVKXVhB8PlCyHcgQtdZWc0G1bQLzayr
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAgWaVrabxd/qngEz6WrPIWKr/394tZCsUmds7UolnWg0=
-----END PUBLIC KEY-----
";

/// Where a desk keeps what it compiled, in its own folder.
const CACHES: &str = ".cache";

/// A folder with files in it.
struct Desk {
    folder: tempfile::TempDir,
}

/// How the binary ended.
struct End {
    code: Option<i32>,
    out: String,
    error: String,
}

impl Desk {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn run(&self, words: &[&str]) -> End {
        let mut command = Command::new(host());
        command.arg("plugin").args(words).current_dir(self.folder.path()).env("TOPOLOOM_LOG", "warn");
        command.env("XDG_CACHE_HOME", self.folder.path().join(CACHES));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        End { code: output.status.code(), out: text(&output.stdout), error: text(&output.stderr) }
    }
}

fn keys(path: &Path) -> TrustKeys {
    TrustKeys::load(&[path.to_owned()]).unwrap()
}

#[test]
fn a_plugin_is_signed_as_what_it_calls_itself() {
    let desk = Desk::new();
    desk.put("villain.wasm", &*VILLAIN);
    desk.put("key.pem", PRIVATE);
    let end = desk.run(&["sign", "villain.wasm", "--key", "key.pem"]);
    assert_eq!(end.code, Some(0), "{}", end.error);
    assert!(end.out.contains("villain 0.1.0, sha256:"), "{}", end.out);
    let signature = std::fs::read(desk.folder.path().join("villain.sig")).unwrap();
    let signed = keys(&desk.put("public.pem", PUBLIC)).verify(&signature, Digest::of(&VILLAIN)).unwrap();
    assert_eq!((signed.name.as_str(), signed.version.as_str()), ("villain", "0.1.0"));
}

#[test]
fn what_cannot_say_its_name_is_signed_under_a_given_one() {
    let desk = Desk::new();
    let core = wat("core.wat");
    desk.put("core.wasm", &core);
    desk.put("key.pem", PRIVATE);
    let end = desk.run(&["sign", "core.wasm", "--key", "key.pem", "--name", "acme"]);
    assert_eq!(end.code, Some(1));
    assert!(end.error.contains("give --name and --version: the plugin is a core WebAssembly module"), "{}", end.error);
    assert!(!desk.folder.path().join("core.sig").exists());
    let end = desk.run(&["sign", "core.wasm", "--key", "key.pem", "--name", "acme", "--version", "2.0"]);
    assert_eq!(end.code, Some(0), "{}", end.error);
    let signature = std::fs::read(desk.folder.path().join("core.sig")).unwrap();
    let signed = keys(&desk.put("public.pem", PUBLIC)).verify(&signature, Digest::of(&core)).unwrap();
    assert_eq!((signed.name.as_str(), signed.version.as_str()), ("acme", "2.0"));
}

#[test]
fn what_was_compiled_is_kept_for_the_next_command() {
    let desk = Desk::new();
    desk.put("villain.wasm", &*VILLAIN);
    let own = desk.folder.path().join(CACHES).join("topoloom");
    // A file that is written again is another one.
    let kept = || -> Vec<(PathBuf, u64)> {
        let entries = std::fs::read_dir(own.join("compiled")).unwrap().map(Result::unwrap);
        let mut kept: Vec<_> = entries.map(|entry| (entry.path(), entry.metadata().unwrap().ino())).collect();
        kept.sort();
        kept
    };
    assert_eq!(inspect(&desk, &["villain.wasm"]).0, Some(0));
    let first = kept();
    assert!(!first.is_empty());
    assert_eq!(inspect(&desk, &["villain.wasm"]).0, Some(0));
    assert_eq!(kept(), first, "it was not compiled again");
    for (path, mode) in [("", 0o700), ("key", 0o600), ("compiled", 0o700)] {
        assert_eq!(std::fs::metadata(own.join(path)).unwrap().permissions().mode() & 0o777, mode, "{path:?}");
    }

    // Without its key nothing of it counts, and a folder that others may write is not used.
    std::fs::remove_file(own.join("key")).unwrap();
    assert_eq!(inspect(&desk, &["villain.wasm"]).0, Some(0));
    assert_ne!(kept(), first);
    std::fs::set_permissions(own.join("compiled"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let before = kept();
    desk.put("other.wasm", &*MUTE_VILLAIN);
    let (code, shown) = inspect(&desk, &["other.wasm"]);
    assert!(code.is_some() && shown["digest"].is_string(), "{shown}");
    assert_eq!(kept(), before);
}

#[test]
fn nothing_is_signed_with_what_is_no_private_key() {
    let desk = Desk::new();
    desk.put("villain.wasm", &*VILLAIN);
    desk.put("public.pem", PUBLIC);
    let end = desk.run(&["sign", "villain.wasm", "--key", "public.pem"]);
    assert_eq!(end.code, Some(1));
    assert!(end.error.contains(r#"begins a "PUBLIC KEY", and a "PRIVATE KEY" is needed"#), "{}", end.error);
}

/// The exit code and the output of `inspect -o json`.
fn inspect(desk: &Desk, words: &[&str]) -> (Option<i32>, Value) {
    let end = desk.run(&[&["inspect", "-o", "json"], words].concat());
    let said = schema::checked(&end.out);
    (end.code, said.unwrap_or_else(|error| panic!("{error:#}: {}", end.error)))
}

#[test]
fn a_plugin_is_shown_with_all_that_it_is() {
    let desk = Desk::new();
    desk.put("villain.wasm", &*VILLAIN);
    desk.put("config.yaml", "discover: good\n");
    let end = desk.run(&["inspect", "villain.wasm", "--config", "config.yaml"]);
    assert_eq!((end.code, end.error.as_str()), (Some(0), ""));
    let digest = Digest::of(&VILLAIN).to_string();
    for words in [
        digest.as_str(),
        &format!("{} bytes", VILLAIN.len()),
        "plugin        villain 0.1.0",
        "summary       Misbehaves on demand",
        "interface     topoloom:discovery/discoverer@0.1.0",
        "topoloom:discovery/nodes@0.1.0: [method]snapshot.label, [method]snapshot.rows",
        " bytes of memory; memories 1, tables 2 (",
        "language: Rust",
        "signature     none",
        "labels        example.com/rack",
        "when a label or annotation changes",
        "To grant what it requests, add to the entry:\n\npermissions:\n  nodeLabels: [\"example.com/rack\"]\n",
    ] {
        assert!(end.out.contains(words), "{words:?} is not in\n{}", end.out);
    }
    let (code, said) = inspect(&desk, &["villain.wasm", "--config", "config.yaml"]);
    assert_eq!((code, &said["digest"], &said["name"]), (Some(0), &json!(digest), &json!("villain")));
    assert_eq!(said["requires"]["nodeLabels"], json!(["example.com/rack"]));
    assert_eq!((&said["start"]["memories"], &said["refused"]), (&json!(1), &json!([])));
    assert!(said["start"]["memory"].as_u64().unwrap() > 1 << 20 && said["start"]["coreInstances"].as_u64() > Some(1));
    // The limits are those of the entry, as in the host.
    desk.put("entry.yaml", "source: villain\nenabled: true\nlimits: {function: 64}\nconfig: {discover: good}\n");
    let end = desk.run(&["inspect", "villain.wasm", "--config", "entry.yaml"]);
    assert!(end.code == Some(1) && end.error.contains("and 64 is allowed"), "{}", end.error);
    // Without a configuration the command cannot know what the plugin reads.
    let end = desk.run(&["inspect", "villain.wasm"]);
    assert!(end.code == Some(0) && end.out.contains("give one with --config"), "{}", end.out);
}

#[test]
fn what_the_host_would_refuse_is_refused_by_name_after_what_could_be_read() {
    let desk = Desk::new();
    for (guest, reason, words) in [
        ("wasi.wat", "ForeignImport", "plugin imports wasi:cli/stdout@0.2.0; topoloom plugins use no WASI"),
        ("unknown.wat", "UnknownImport", "plugin imports topoloom:weather/forecast@0.1.0"),
        ("newer.wat", "InterfaceVersion", "plugin needs topoloom:discovery 0.3, this host supports 0.1"),
        ("core.wat", "CoreModule", "the plugin is a core WebAssembly module, not a component"),
        ("empty.wat", "WrongWorld", "plugin exports no discoverer"),
        ("nested.wat", "ComponentTooLarge", "the plugin has nesting of"),
        ("memory.wat", "InitialSize", "the plugin starts with 1073741824 bytes of memory"),
        ("hollow.wat", "LinkFailed", "the plugin does not fit its interface"),
        ("simd.wat", "FeatureOff", "the plugin uses WebAssembly that is switched off"),
    ] {
        let bytes = wat(guest);
        desk.put(guest, &bytes);
        let end = desk.run(&["inspect", guest]);
        assert_eq!(end.code, Some(1), "{guest}");
        assert!(end.error.starts_with(&format!("topoloom: refused: {words}")), "{guest}: {}", end.error);
        assert!(end.out.contains(&Digest::of(&bytes).to_string()), "{guest}: {}", end.out);
        let (code, said) = inspect(&desk, &[guest]);
        assert_eq!((code, &said["refused"][0]["reason"]), (Some(1), &json!(reason)), "{guest}");
    }
    assert!(desk.run(&["inspect", "wasi.wat"]).out.contains("imports    wasi:cli/stdout@0.2.0"));
    let (_, said) = inspect(&desk, &["newer.wat"]);
    assert_eq!(said["imports"], json!({"topoloom:discovery/nodes@0.3.1": []}));
}

#[test]
fn a_core_module_made_for_wasi_is_refused_with_the_verb_that_makes_a_plugin_of_it() {
    let desk = Desk::new();
    desk.put("made.wasm", wat("preview1.wat"));
    let end = desk.run(&["inspect", "made.wasm"]);
    let words =
        "`topoloom plugin build FILE` wraps it and answers what it imports of wasi_snapshot_preview1 without WASI";
    assert!(end.code == Some(1) && end.error.contains(words), "{}", end.error);

    let end = desk.run(&["build", "made.wasm"]);
    assert_eq!(end.code, Some(0), "{}", end.error);
    for words in [
        "plugin        stubbed 0.1.0",
        "file          made.component.wasm",
        "has room for it",
        "limits        the usual ones are enough",
        "imports       topoloom:discovery/log@0.1.0: write",
        "the module had none, and has that of plugins now",
        "fd_write: standard output and standard error are lines of the log",
        "clock_time_get: the clock counts calls",
    ] {
        assert!(end.out.contains(words), "{words:?} is not in\n{}", end.out);
    }
    // What the module writes to standard error is a line of the log.
    assert!(end.error.contains("Writes a line"), "{}", end.error);
    let (code, said) = inspect(&desk, &["made.component.wasm"]);
    assert_eq!((code, &said["name"], &said["configSchema"]), (Some(0), &json!("stubbed"), &json!("{}")));
    assert_eq!(said["imports"]["topoloom:discovery/log@0.1.0"], json!(["write"]));
    let producers = said["producers"].as_array().unwrap();
    assert!(producers.iter().any(|producer| producer["name"] == "topoloom"), "{said}");
    // The same module, the same plugin.
    let again = desk.run(&["build", "made.wasm", "-o", "again.wasm"]);
    assert_eq!(again.code, Some(0), "{}", again.error);
    let bytes = |name: &str| std::fs::read(desk.folder.path().join(name)).unwrap();
    assert!(bytes("made.component.wasm") == bytes("again.wasm"), "they differ");
}

#[test]
fn the_limits_that_a_plugin_needs_are_shown_with_the_line_for_its_entry() {
    let desk = Desk::new();
    desk.put("nested.wat", wat("nested.wat"));
    let end = desk.run(&["inspect", "nested.wat"]);
    assert!(end.out.contains("its entry needs `limits: {profile: large}`"), "{}", end.out);
    let (_, said) = inspect(&desk, &["nested.wat"]);
    assert_eq!(said["needs"]["exceeded"][0]["limit"], json!("depth"), "{said}");
    desk.put("villain.wasm", &*VILLAIN);
    let (_, said) = inspect(&desk, &["villain.wasm"]);
    assert_eq!((&said["needs"], &said["configMap"]["fits"]), (&Value::Null, &json!(true)));
}

#[test]
fn all_imports_of_wasi_are_listed_and_the_flag_that_leaves_them_out() {
    let desk = Desk::new();
    let imports = ["wasi:cli/environment@0.2.0", "wasi:cli/exit@0.2.0", "wasi:io/error@0.2.0"];
    let text: String = imports.iter().map(|import| format!("(import \"{import}\" (instance))")).collect();
    let made_by = |tool: &str| {
        let producers = format!("(@producers (processed-by \"{tool}\" \"1\"))");
        desk.put("wasi.wasm", wat::parse_str(format!("(component {text} {producers})")).unwrap());
        desk.run(&["inspect", "wasi.wasm"]).error
    };
    for (tool, flag) in [("componentize-py", "--stub-wasi"), ("ComponentizeJS", "disableFeatures: ['stdio', 'random'")]
    {
        let error = made_by(tool);
        assert!(error.contains(&imports.join(", ")) && error.contains(flag), "{tool}: {error}");
    }
    assert!(made_by("another").contains("topoloom plugin build FILE"));
}

#[test]
fn no_file_is_too_odd_to_be_refused_in_words() {
    let desk = Desk::new();
    let half = &VILLAIN[..VILLAIN.len() / 2];
    let flipped: Vec<u8> = VILLAIN.iter().enumerate().map(|(at, byte)| byte ^ u8::from(at % 1_000 == 999)).collect();
    for (bytes, reason) in [
        (&b""[..], "NotWasm"),
        (b"\x7fELF\x02\x01\x01", "NotWasm"),
        (b"\0asm", "InvalidComponent"),
        (b"\0asm\x0d\0\x01\0", "WrongWorld"),
        (&[0xff; 5_000_000], "FileTooLarge"),
        (half, "InvalidComponent"),
        (&flipped, "InvalidComponent"),
    ] {
        desk.put("odd", bytes);
        let (code, said) = inspect(&desk, &["odd"]);
        assert_eq!((code, &said["refused"][0]["reason"]), (Some(1), &json!(reason)), "{} bytes", bytes.len());
        assert_eq!(said["size"], json!(bytes.len()));
    }
    desk.put("packed", b"\x28\xb5\x2f\xfd");
    for (path, words) in [(".", "it is not a regular file"), ("nowhere", "No such file"), ("packed", "zstd")] {
        let end = desk.run(&["inspect", path]);
        assert!(end.code == Some(1) && end.error.contains(words), "{path}: {}", end.error);
    }
}

#[test]
fn a_plugin_that_does_not_answer_is_refused() {
    let desk = Desk::new();
    desk.put("mute.wasm", &*MUTE_VILLAIN);
    let (code, said) = inspect(&desk, &["mute.wasm"]);
    assert_eq!((code, &said["refused"][0]["reason"]), (Some(1), &json!("CpuDeadline")), "{said}");
    assert_eq!((&said["name"], &said["embedded"]), (&Value::Null, &json!(false)));
}

#[test]
fn an_entry_is_judged_as_in_the_host() {
    let desk = Desk::new();
    desk.put("scripted.wasm", guest::component(&guest::module("topoloom-guest-scripted").unwrap()).unwrap());
    let judged = |more: &str| {
        let entry = format!("source: x\nenabled: true\nplugin: {{file: /elsewhere}}\nconfig: {{answers: []}}\n{more}");
        desk.put("entry.yaml", entry);
        let (code, said) = inspect(&desk, &["scripted.wasm", "--config", "entry.yaml"]);
        assert_eq!(code == Some(0), said["refused"] == json!([]), "{said}");
        assert_eq!(said["permissions"], json!("permissions:\n  nodeLabels: [\"example.com/round\"]\n"));
        said["refused"][0]["reason"].as_str().map(str::to_owned)
    };
    assert_eq!(judged("permissions: {nodeLabels: [example.com/round]}"), None);
    assert_eq!(judged("").as_deref(), Some("PermissionDenied"));
    let granted = "permissions: {nodeLabels: [\"example.com/*\"]}\n";
    assert_eq!(judged(&format!("{granted}discoverer: acme")).as_deref(), Some("PluginInvalid"));
    let config = |text: &str| {
        desk.put("config", text);
        desk.run(&["inspect", "scripted.wasm", "--config", "config"])
    };
    let end = config("answers: 7\n");
    assert!(end.code == Some(1) && end.error.contains("refused: configure: "), "{}", end.error);
    let end = config("source: x\ninterval: 5\nenabled: true\n");
    assert!(end.code == Some(1) && end.error.contains("line 2: "), "{}", end.error);
}

#[test]
fn a_builtin_plugin_needs_no_grants() {
    let desk = Desk::new();
    desk.put("label.wasm", &*builtins::find("label").bytes);
    let (code, said) = inspect(&desk, &["label.wasm"]);
    assert_eq!((code, &said["embedded"], &said["permissions"]), (Some(0), &json!(true), &Value::Null));
}

#[test]
fn the_signature_beside_a_plugin_is_judged() {
    let desk = Desk::new();
    desk.put("villain.wasm", &*VILLAIN);
    desk.put("key.pem", PRIVATE);
    desk.put("public.pem", PUBLIC);
    let sign = |more: &[&str]| {
        let end = desk.run(&[&["sign", "villain.wasm", "--key", "key.pem"], more].concat());
        assert_eq!(end.code, Some(0), "{}", end.error);
    };
    let judged = |keys: &[&str]| {
        let (code, said) = inspect(&desk, &[&["villain.wasm"], keys].concat());
        let signature = &said["signature"];
        assert_eq!(code == Some(0), signature["problem"] == Value::Null, "{said}");
        (signature["verified"] == json!(true), signature["problem"].as_str().unwrap_or_default().to_owned())
    };
    let trusting = ["--trust-key", "public.pem"];
    // A key without a signature proves nothing.
    let end = desk.run(&["inspect", "villain.wasm", "--trust-key", "public.pem"]);
    assert!(end.code == Some(1) && end.error.contains("there is no villain.sig"), "{}", end.error);
    sign(&[]);
    assert_eq!(judged(&trusting), (true, String::new()));
    assert_eq!(judged(&[]), (false, String::new()));
    sign(&["--version", "9.9"]);
    let words = "the signature is for villain 9.9 and the plugin calls itself villain 0.1.0";
    assert_eq!(judged(&trusting), (true, words.to_owned()));
    desk.put("villain.wasm", &*MUTE_VILLAIN);
    desk.put("villain.sig", "name: x");
    let (code, said) = inspect(&desk, &["villain.wasm"]);
    assert_eq!((code, said["refused"].as_array().unwrap().len()), (Some(1), 2), "{said}");
}
