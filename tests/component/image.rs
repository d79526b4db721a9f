//! The image: one binary gives one digest, the layout follows the rules of OCI, and the bill of materials names all
//! linked crates.
//!
//! `make image`, which builds the static binary, shows that the image starts.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Result;
use serde_json::Value;
use topoloom_tests::host;
use topoloom_tests::image::{About, Assembled, BUDGET, Bom, Part, Platform, assemble, inspect};

fn about() -> About {
    About { version: "1.2.3".into(), created: "2026-01-02T03:04:05Z".into(), revision: Some("c0ffee".into()) }
}

/// A small image for both processors.
fn small(folder: &Path) -> Result<Assembled> {
    let part = |platform| Part { platform, binary: b"a program", bom: b"{}\n" };
    assemble(folder, &about(), &Platform::ALL.map(part))
}

/// The value of a variable in the configuration.
fn variable<'a>(config: &'a Value, name: &str) -> &'a str {
    let lines = config["Env"].as_array().unwrap().iter().filter_map(Value::as_str);
    lines.filter_map(|line| line.split_once('=')).find(|(key, _)| *key == name).unwrap().1
}

/// Every file of a layout, by its path in there.
fn files(layout: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![layout.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.strip_prefix(layout)?.to_owned(), fs::read(&path)?);
            }
        }
    }
    Ok(files)
}

#[test]
fn one_binary_gives_one_digest_for_any_file_metadata_and_order() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (here, there) = (host::binary()?, folder.path().join("there"));
    fs::copy(&here, &there)?;
    fs::set_permissions(&there, Permissions::from_mode(0o600))?;
    File::options().write(true).open(&there)?.set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH))?;
    let made = |name: &str, binary: &Path, order: [Platform; 2]| -> Result<_> {
        let mut binary = fs::read(binary)?;
        // Many blocks of the compressor. It would need half a minute for all of a binary with line tables.
        binary.truncate(8 << 20);
        // The second processor is not what costs the time here.
        let parts = order.map(|platform| {
            let binary: &[u8] = if platform == Platform::Amd64 { &binary } else { b"for another processor" };
            Part { platform, binary, bom: b"{}\n" }
        });
        let layout = folder.path().join("some").join(name);
        fs::create_dir_all(&layout)?;
        fs::write(layout.join("left over"), "from an earlier time")?;
        let assembled = assemble(&layout, &about(), &parts)?;
        Ok((assembled, files(&layout)?))
    };
    let first = made("a", &here, [Platform::Amd64, Platform::Arm64])?;
    assert!(first == made("b", &there, [Platform::Arm64, Platform::Amd64])?, "the layouts differ");
    Ok(())
}

#[test]
fn the_layout_is_read_as_it_was_written_and_starts_unprivileged_with_authorities() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let layout = folder.path().join("layout");
    let made = small(&layout)?;
    let image = inspect(&layout)?;
    assert_eq!((image.assembled(), image.reference()), (made.clone(), "1.2.3"));
    assert!(made.parts.values().all(|(_, size)| *size < BUDGET));
    for platform in Platform::ALL {
        let config = image.config(platform).unwrap();
        assert_eq!(config["User"], "65532:65532");
        assert_eq!(config["Entrypoint"], serde_json::json!(["/usr/bin/topoloom"]));
        assert_eq!(config["Labels"]["org.opencontainers.image.revision"], "c0ffee");
        // The name `topoloom` in the PATH and the path of the entry point lead to the same file.
        let found = variable(config, "PATH").split(':').find(|folder| {
            image.file(platform, &format!("{folder}/topoloom")).is_ok_and(|bytes| bytes == b"a program")
        });
        assert_eq!(found, Some("/usr/bin"), "{config}");
        let bundle = String::from_utf8(image.file(platform, variable(config, "SSL_CERT_FILE"))?)?;
        assert!(bundle.matches("BEGIN CERTIFICATE").count() > 100);
        let users = String::from_utf8(image.file(platform, "/etc/passwd")?)?;
        assert!(users.contains("\nnonroot:x:65532:65532:"), "{users}");

        let root = folder.path().join(platform.architecture());
        fs::create_dir(&root)?;
        image.unpack(platform, &root)?;
        let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!([mode("usr/bin/topoloom"), mode("tmp"), mode("etc/passwd")], [0o755, 0o1777, 0o644]);
        assert_eq!(fs::read(root.join("usr/bin/topoloom"))?, b"a program");
        assert_eq!(fs::read(root.join("usr/share/sbom/topoloom.cdx.json"))?, b"{}\n");
    }
    Ok(())
}

#[test]
fn a_layout_that_breaks_a_rule_is_refused_with_the_rule() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let layout = folder.path().join("layout");
    let index = layout.join("index.json");
    let edit = |from: &str, to: &str| {
        let text = fs::read_to_string(&index).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&index, text.replace(from, to)).unwrap();
    };
    let digest = small(&layout)?.digest;
    let blob = layout.join("blobs/sha256").join(digest.trim_start_matches("sha256:"));
    let edits: [(&str, &dyn Fn()); 6] = [
        ("has another content", &|| {
            let bytes = fs::read_to_string(&blob).unwrap().replace("arm64", "arm65");
            fs::write(&blob, bytes).unwrap();
        }),
        ("cannot be read", &|| fs::remove_file(&blob).unwrap()),
        ("nothing names the blob", &|| fs::write(layout.join("blobs/sha256/ab"), "left over").unwrap()),
        ("this is no application/vnd.oci.image.index", &|| edit("image.index.v1", "image.index.v2")),
        ("is no digest", &|| edit("sha256:", "sha256:../")),
        ("oci-layout says", &|| fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap()),
    ];
    for (rule, edit) in edits {
        small(&layout)?;
        edit();
        let error = format!("{:#}", inspect(&layout).unwrap_err());
        assert!(error.contains(rule), "{rule}: {error}");
    }
    Ok(())
}

#[test]
fn the_bill_names_what_is_linked_and_nothing_that_only_builds_or_tests() -> Result<()> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    // The target of the tests: its crates are here, those of the image may not be.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let bom = Bom::of(workspace, &target)?;
    let names = bom.names();
    for linked in ["topoloom", "wasmtime", "kube", "rustls", "ring", "topoloom-plugin-label", "topoloom-sdk", "talc"] {
        assert!(names.contains(linked), "{linked} is missing: {names:?}");
    }
    for not_linked in ["proptest", "serde_derive", "topoloom-tests", "cc"] {
        assert!(!names.contains(not_linked), "{not_linked} is not linked");
    }
    let document = bom.document("2026-01-02T03:04:05Z")?;
    assert!(document == Bom::of(workspace, &target)?.document("2026-01-02T03:04:05Z")?, "it differs the second time");
    let document: Value = serde_json::from_slice(&document)?;
    let components = document["components"].as_array().unwrap();
    let kube = components.iter().find(|component| component["name"] == "kube").unwrap();
    assert!(kube["purl"].as_str().unwrap().starts_with("pkg:cargo/kube@"), "{kube}");
    assert_eq!(kube["hashes"][0]["content"].as_str().unwrap().len(), 64, "{kube}");
    assert!(components.iter().all(|component| component["licenses"][0]["expression"].is_string()));
    // Every edge leads to a component in the bill.
    let known: Vec<&Value> =
        components.iter().chain([&document["metadata"]["component"]]).map(|component| &component["bom-ref"]).collect();
    let edges = document["dependencies"].as_array().unwrap();
    let ends = edges.iter().flat_map(|edge| edge["dependsOn"].as_array().unwrap().iter().chain([&edge["ref"]]));
    assert!(ends.into_iter().all(|end| known.contains(&end)));
    Ok(())
}
