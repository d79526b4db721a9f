//! What an operator does with a plugin file at a desk, by the real binary.

use std::path::{Path, PathBuf};
use std::process::Command;

use topoloom::plugin::Digest;
use topoloom::plugin::trust::TrustKeys;

use crate::guests::{VILLAIN, host, wat};

/// Made by openssl for these tests.
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIFSBZJjh8MAL4vVKXVhB8PlCyHcgQtdZWc0G1bQLzayr
-----END PRIVATE KEY-----
";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAgWaVrabxd/qngEz6WrPIWKr/394tZCsUmds7UolnWg0=
-----END PUBLIC KEY-----
";

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
    let signature = std::fs::read(desk.folder.path().join("villain.wasm.sig")).unwrap();
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
    assert!(!desk.folder.path().join("core.wasm.sig").exists());
    let end = desk.run(&["sign", "core.wasm", "--key", "key.pem", "--name", "acme", "--version", "2.0"]);
    assert_eq!(end.code, Some(0), "{}", end.error);
    let signature = std::fs::read(desk.folder.path().join("core.wasm.sig")).unwrap();
    let signed = keys(&desk.put("public.pem", PUBLIC)).verify(&signature, Digest::of(&core)).unwrap();
    assert_eq!((signed.name.as_str(), signed.version.as_str()), ("acme", "2.0"));
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
