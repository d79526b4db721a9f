//! Registries at a desk: the real binary, a real registry with TLS, the credentials of Docker's programs, and a registry that
//! lies.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use topoloom::plugin::Digest;
use topoloom_simulator::Authority;
use topoloom_tests::guest;
use topoloom_tests::registry::hostile::{Fault, Hostile};
use topoloom_tests::registry::token::TokenServer;
use topoloom_tests::registry::{Auth, PASSWORD, Registry, USER, docker_config};

use crate::guests::{MUTE_VILLAIN, host};

/// A folder of a vendor, who trusts the authority of tests.
struct Vendor {
    folder: tempfile::TempDir,
    authority: Authority,
}

/// How the binary ended.
struct End {
    code: Option<i32>,
    out: String,
    error: String,
}

impl Vendor {
    fn new() -> Self {
        let (folder, authority) = (tempfile::tempdir().unwrap(), Authority::generate().unwrap());
        std::fs::write(folder.path().join("ca.pem"), authority.pem()).unwrap();
        Self { folder, authority }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    async fn registry(&self, auth: Auth<'_>) -> Registry {
        Registry::start(self.path(), &self.authority, auth).await.unwrap()
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path().join(name)).ok()
    }

    /// `topoloom` with the programs of this folder before all others.
    async fn run(&self, words: &[&str]) -> End {
        let path = format!("{}:{}", self.path().display(), std::env::var("PATH").unwrap());
        let output = tokio::process::Command::new(host())
            .args(words)
            .current_dir(self.path())
            .env("PATH", path)
            .env("DOCKER_CONFIG", self.path())
            .env("TOPOLOOM_REGISTRY_CA", "ca.pem")
            .env("TOPOLOOM_LOG", "warn")
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        End { code: output.status.code(), out: text(&output.stdout), error: text(&output.stderr) }
    }

    async fn good(&self, words: &[&str]) -> String {
        let end = self.run(words).await;
        assert_eq!(end.code, Some(0), "{words:?}: {}{}", end.out, end.error);
        end.out
    }

    /// What it complains about.
    async fn bad(&self, words: &[&str]) -> String {
        let end = self.run(words).await;
        assert_eq!(end.code, Some(1), "{words:?}: {}{}", end.out, end.error);
        assert!(!end.error.contains(PASSWORD) && !end.error.contains("canary"), "{}", end.error);
        end.error
    }
}

fn version(version: &str) -> Vec<u8> {
    guest::version("good", version).unwrap()
}

fn reference(registry: &Registry, tag: &str) -> String {
    format!("oci://{}/acme/versions:{tag}", registry.host())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pushed_comes_back_with_all_that_lies_beside_it() {
    let vendor = Vendor::new();
    let registry = vendor.registry(Auth::Basic).await;
    vendor.put("config.json", docker_config(&registry.host(), USER, PASSWORD));
    vendor.put("acme.wasm", version("1.0.0"));
    let digest = Digest::of(&version("1.0.0"));
    let signs = |digest: Digest| {
        format!("name: versions\nversion: \"1.0.0\"\ndigest: \"{digest}\"\nkey: of the tests\nsignature: none\n")
    };
    // Left over from a build before: no host would take the two together.
    vendor.put("acme.sig", signs(Digest::of(b"before")));
    let error = vendor.bad(&["plugin", "push", "acme.wasm", &reference(&registry, "1.0.0")]).await;
    assert!(error.contains("acme.sig signs the digest sha256:") && error.contains("plugin sign"), "{error}");
    // One about this plugin, by a key that no one checks on the way.
    let signature = signs(digest).into_bytes();
    vendor.put("acme.sig", &signature);
    let target = reference(&registry, "1.0.0");
    let said = vendor.good(&["plugin", "push", "acme.wasm", &target]).await;
    let manifest = said.lines().find_map(|line| line.strip_prefix("manifest ")).unwrap().to_owned();
    for words in [
        format!("versions 1.0.0 pushed to {target}, with its signature"),
        format!("digest {digest}"),
        format!("plugin: {{oci: {{ref: \"{target}\"}}}}"),
        format!("plugin: {{oci: {{ref: \"oci://{}/acme/versions@{manifest}\"}}}}", registry.host()),
    ] {
        assert!(said.contains(&words), "{words}: {said}");
    }
    // Twice is once; and without a write the same is said.
    assert!(vendor.good(&["plugin", "push", "acme.wasm", &target]).await.contains(&manifest));
    let unseen = reference(&registry, "unseen");
    let said = vendor.good(&["plugin", "push", "acme.wasm", &unseen, "--dry-run"]).await;
    assert!(said.contains("would be pushed") && said.contains(&manifest), "{said}");
    assert!(
        vendor.bad(&["plugin", "pull", &unseen, "-o", "x.wasm"]).await.contains("404 Not Found (MANIFEST_UNKNOWN)")
    );

    let by_digest = format!("oci://{}/acme/versions@{manifest}", registry.host());
    for from in [&target, &by_digest] {
        let said = vendor.good(&["plugin", "pull", from, "-o", "back.wasm"]).await;
        assert!(said.contains("back.wasm") && said.contains(&digest.to_string()) && said.contains(&manifest), "{said}");
        assert_eq!(vendor.read("back.wasm").unwrap(), version("1.0.0"));
        assert_eq!(vendor.read("back.sig").unwrap(), signature);
        let declared = String::from_utf8(vendor.read("back.yaml").unwrap()).unwrap();
        assert_eq!(declared, format!("name: versions\ndigest: {digest}\n"));
    }
    // What lies beside another plugin is not taken for what lies beside this one.
    std::fs::remove_file(vendor.path().join("acme.sig")).unwrap();
    vendor.good(&["plugin", "push", "acme.wasm", &reference(&registry, "unsigned")]).await;
    let error = vendor.bad(&["plugin", "pull", &reference(&registry, "unsigned"), "-o", "back.wasm"]).await;
    assert!(error.contains("back.sig is there"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn verbs_that_take_a_file_take_a_reference() {
    let vendor = Vendor::new();
    let registry = vendor.registry(Auth::Open).await;
    vendor.put("acme.wasm", version("1.0.0"));
    let target = reference(&registry, "1.0.0");
    vendor.good(&["plugin", "push", "acme.wasm", &target]).await;
    let said = vendor.good(&["plugin", "inspect", &target]).await;
    assert!(said.contains("versions 1.0.0") && said.contains(&target), "{said}");
    let entry = "networkTopologyDiscovery:\n- source: fabric\n  enabled: true\n  permissions: {nodeLabels: [example.com/rack]}\n";
    vendor.put("topology.yaml", entry);
    let node = |name: &str| serde_json::json!({"metadata": {"name": name, "labels": {"example.com/rack": "a7"}}});
    let nodes = serde_json::json!({"kind": "List", "items": [node("m1"), node("m2")]});
    vendor.put("nodes.json", nodes.to_string());
    let words = ["discover", "--config", "topology.yaml", "--nodes", "nodes.json", "--plugin", target.as_str()];
    let said = vendor.good(&words).await;
    assert!(said.contains("versions 1.0.0") && said.contains("a7"), "{said}");
    let said = vendor.good(&["plugin", "run", &target, "--nodes", "nodes.json"]).await;
    assert!(said.contains(&format!("versions 1.0.0 ({target})")) && said.contains("a7"), "{said}");
    let said = vendor.good(&["plugin", "bench", &target, "--size", "100", "--rounds", "5"]).await;
    assert!(said.contains("median"), "{said}");
    // Whatever the kit finds: both versions are pulled.
    let end = vendor.run(&["plugin", "test", &target, "--against", &target]).await;
    assert!(
        end.out.contains(&format!("versions 1.0.0, {target}")) && end.out.contains("pass  file-loads"),
        "{}",
        end.error
    );
    // An entry with a reference is for a host; at a desk the message says what to type.
    let entry = entry.replace("permissions", &format!("plugin: {{oci: {{ref: \"{target}\"}}}}\n  permissions"));
    vendor.put("topology.yaml", entry);
    let error = vendor.bad(&["discover", "--config", "topology.yaml", "--nodes", "nodes.json"]).await;
    assert!(error.contains(&format!("topoloom plugin pull {target} -o FILE")), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_come_from_the_file_and_the_programs_that_docker_uses() {
    let vendor = Vendor::new();
    let server = TokenServer::start(&vendor.authority).await.unwrap();
    let registry = vendor.registry(Auth::Token(&server)).await;
    vendor.put("acme.wasm", version("1.0.0"));
    let target = reference(&registry, "1.0.0");
    let push = ["plugin", "push", "acme.wasm", target.as_str()];
    let error = vendor.bad(&push).await;
    assert!(error.contains("401 Unauthorized") && error.contains("docker login"), "{error}");
    vendor.put("config.json", docker_config("other.example.com", USER, PASSWORD));
    let error = vendor.bad(&push).await;
    assert!(error.contains(&format!("config.json has none for {}", registry.host())), "{error}");

    vendor.put("config.json", docker_config(&registry.host(), USER, PASSWORD));
    vendor.good(&push).await;
    // A token of the token server, which `docker login` keeps in place of a password.
    let identity = serde_json::json!({"auths": {registry.host(): {"identitytoken": PASSWORD}}});
    vendor.put("config.json", identity.to_string());
    vendor.good(&push).await;
    // It is in the body of a request, and in no URL.
    assert!(server.asked().iter().all(|asked| !asked.target.contains(PASSWORD)));
    assert!(server.asked().iter().any(|asked| asked.method == "POST"));

    let helper = |script: &str| {
        let path = vendor.put("docker-credential-tests", format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    vendor.put("config.json", serde_json::json!({"credHelpers": {registry.host(): "tests"}}).to_string());
    let account = serde_json::json!({"ServerURL": registry.host(), "Username": USER, "Secret": PASSWORD});
    helper(&format!("read -r asked\n[ \"$1 $asked\" = 'get {}' ] && echo '{account}'", registry.host()));
    vendor.good(&push).await;
    helper("echo 'credentials not found in native keychain'; exit 1");
    assert!(vendor.bad(&push).await.contains("config.json has none for"));
    helper("echo canary; exit 1");
    assert!(vendor.bad(&push).await.contains("docker-credential-tests: exit status: 1"));
    helper("echo canary");
    assert!(vendor.bad(&push).await.contains("docker-credential-tests: the answer cannot be read"));
    std::fs::remove_file(vendor.path().join("docker-credential-tests")).unwrap();
    assert!(vendor.bad(&push).await.contains("docker-credential-tests: No such file"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_host_would_take_is_not_pushed_and_what_is_no_reference_is_said() {
    let vendor = Vendor::new();
    let registry = vendor.registry(Auth::Open).await;
    vendor.put("mute.wasm", &*MUTE_VILLAIN);
    let target = reference(&registry, "1.0.0");
    let error = vendor.bad(&["plugin", "push", "mute.wasm", &target]).await;
    assert!(error.contains("is not a plugin that a host would accept"), "{error}");
    assert!(vendor.bad(&["plugin", "pull", &target, "-o", "x.wasm"]).await.contains("404 Not Found"));
    vendor.put("acme.wasm", version("1.0.0"));
    for (words, wanted) in [
        (vec!["plugin", "push", "acme.wasm"], "<oci://REGISTRY/NAME:TAG>"),
        (vec!["plugin", "push", "acme.wasm", "oci://r.example/a"], "there is no tag by default"),
        (vec!["plugin", "push", "acme.wasm", "oci://r.example/a:1", "--configmap", "a/b"], "cannot be used with"),
        (vec!["plugin", "inspect", "https://r.example/a:1"], "https:// is no place of plugins"),
    ] {
        let end = vendor.run(&words).await;
        assert!(end.code == Some(2) && end.error.contains(wanted), "{words:?}: {}", end.error);
    }
    let error = vendor.bad(&["plugin", "pull", "oci://10.0.0.5:5000/a:1", "-o", "x", "--plain-http"]).await;
    assert!(error.contains("would cross a network unencrypted"), "{error}");
    // A registry with TLS that is asked without it, and one whose authority is not trusted.
    let error = vendor.bad(&["plugin", "pull", &target, "-o", "x.wasm", "--plain-http"]).await;
    assert!(error.contains("400 Bad Request"), "{error}");
    vendor.put("other.pem", Authority::generate().unwrap().pem());
    let error = vendor.bad(&["plugin", "pull", &target, "-o", "x.wasm", "--registry-ca", "other.pem"]).await;
    assert!(error.contains("not signed by a trusted authority") && error.contains("--registry-ca"), "{error}");
    assert!(error.contains(&format!("TLS with {} failed", registry.host())), "{error}");
    assert!(error.contains("beside those of all other hosts that the registry sends to"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_lies_leaves_no_file() {
    let vendor = Vendor::new();
    let registry = Hostile::start(&vendor.authority, &version("1.0.0")).await.unwrap();
    vendor.put("config.json", docker_config(&registry.host(), USER, PASSWORD));
    let target = registry.reference();
    let pull = ["plugin", "pull", target.as_str(), "-o", "back.wasm"];
    for (fault, words) in [
        (Fault::OtherBytes, "bytes that hash to sha256:"),
        (Fault::CutLayer, "the answer broke off"),
        (Fault::ShortLayer, "bytes are announced, and the manifest says"),
        (Fault::HugeLayer, "has 2147483648 bytes"),
        (Fault::EndlessLayer, "more bytes came than the"),
        (Fault::EndlessManifest, "has more than 1048576 bytes"),
        (Fault::Index, "is an index of 2 manifests"),
        (Fault::OtherManifest, "is what the registry calls it"),
        (Fault::OtherType, "exactly one layer of the type application/wasm"),
        (Fault::LoginPage, "cannot be read, at line 1"),
        (Fault::Missing, "404 Not Found (MANIFEST_UNKNOWN), with the credentials of"),
        (Fault::Forbidden, "403 Forbidden (DENIED), with the credentials of"),
        (Fault::Busy, "503 Service Unavailable"),
        (Fault::RedirectedLayer("http://127.0.0.1:9".to_owned()), "a redirect out of TLS"),
        (Fault::OtherTokenServer("http://127.0.0.1:9/".to_owned()), "credentials go over https alone"),
    ] {
        registry.fault(fault.clone());
        let error = vendor.bad(&pull).await;
        assert!(error.contains(words), "{fault:?}: {error}");
        assert!(vendor.read("back.wasm").is_none(), "{fault:?}");
    }
    registry.fault(Fault::None);
    vendor.good(&pull).await;
    assert_eq!(vendor.read("back.wasm").unwrap(), version("1.0.0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_disk_of_the_registry_has_changed_is_noticed() {
    let vendor = Vendor::new();
    let registry = vendor.registry(Auth::Open).await;
    vendor.put("acme.wasm", version("1.0.0"));
    let target = reference(&registry, "1.0.0");
    vendor.good(&["plugin", "push", "acme.wasm", &target]).await;
    let blob = registry.blob(&Digest::of(&version("1.0.0")).to_string());
    let mut bytes = std::fs::read(&blob).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&blob, bytes).unwrap();
    let error = vendor.bad(&["plugin", "pull", &target, "-o", "back.wasm"]).await;
    assert!(error.contains("bytes that hash to sha256:"), "{error}");
}
