//! What is linked into the binary: a bill of materials in the form of [CycloneDX] 1.6.
//!
//! Cargo lists what it links, with the features that this build selects: normal dependencies of the host for the
//! target, and those of the embedded plugins for WebAssembly. Macros, build scripts and tests are not in the binary and
//! not in the bill.
//!
//! [CycloneDX]: https://cyclonedx.org/docs/1.6/json/

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The package that the binary is built from.
const HOST: &str = "topoloom";
/// The packages that its build script embeds, and what they are built for.
const EMBEDDED: [&str; 3] = ["topoloom-plugin-label", "topoloom-plugin-ufm", "topoloom-plugin-roce"];
const EMBEDDED_TARGET: &str = "wasm32-unknown-unknown";

/// One crate. Sorted by name, then by version.
type Crate = (String, String);

/// The bill of one binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bom {
    /// What each crate links, and its licence.
    crates: BTreeMap<Crate, Linked>,
    /// SHA-256 of the files that the registry serves.
    checksums: BTreeMap<Crate, String>,
    /// The version of Rust, whose standard library is linked.
    rust: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Linked {
    licence: String,
    dependencies: BTreeSet<Crate>,
}

impl Bom {
    /// The bill of the host in `workspace`, as it is built for `target`.
    ///
    /// # Errors
    /// When cargo does not list the crates.
    pub fn of(workspace: &Path, target: &str) -> Result<Self> {
        let mut crates = BTreeMap::new();
        let host = read(&tree(workspace, HOST, target)?, &mut crates)?;
        for package in EMBEDDED {
            let plugin = read(&tree(workspace, package, EMBEDDED_TARGET)?, &mut crates)?;
            crates.entry(host.clone()).or_default().dependencies.insert(plugin);
        }
        let lock = workspace.join("Cargo.lock");
        let lock = std::fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
        let rust = said(Command::new("rustc").arg("--version").current_dir(workspace))?;
        let rust = rust.split_whitespace().nth(1).context("rustc has no version")?.to_owned();
        Ok(Self { crates, checksums: checksums(&lock), rust })
    }

    /// The names of the linked crates.
    pub fn names(&self) -> BTreeSet<&str> {
        self.crates.keys().map(|(name, _)| name.as_str()).collect()
    }

    /// The document, the same bytes for the same bill. `created` is a time in the form of RFC 3339.
    ///
    /// # Errors
    /// When the host itself is not in the bill.
    pub fn document(&self, created: &str) -> Result<Vec<u8>> {
        let host = self.crates.keys().find(|(name, _)| name == HOST).context("the host is not in its own bill")?;
        let others = self.crates.keys().filter(|key| *key != host);
        let mut components: Vec<Value> = others.map(|key| self.component(key, "library")).collect();
        let standard = format!("pkg:generic/rust-std@{}", self.rust);
        components.push(json!({
            "type": "library", "bom-ref": standard, "name": "std", "version": self.rust, "purl": standard,
            "description": "Rust's standard library, with the C library musl and the unwinder that it brings",
            "licenses": [{"expression": "MIT OR Apache-2.0"}],
        }));
        let dependencies: Vec<Value> = self
            .crates
            .iter()
            .map(|(key, linked)| {
                let crates = linked.dependencies.iter().map(|key| self.reference(key));
                let standard = (key == host).then(|| standard.clone());
                json!({"ref": self.reference(key), "dependsOn": crates.chain(standard).collect::<Vec<_>>()})
            })
            .collect();
        let document = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"timestamp": created, "component": self.component(host, "application")},
            "components": components,
            "dependencies": dependencies,
        });
        let mut text = serde_json::to_vec_pretty(&document)?;
        text.push(b'\n');
        Ok(text)
    }

    fn component(&self, key: &Crate, kind: &str) -> Value {
        let (name, version) = key;
        let mut component = json!({"type": kind, "bom-ref": self.reference(key), "name": name, "version": version});
        let licence = self.crates.get(key).map(|linked| linked.licence.replace('/', " OR ")).unwrap_or_default();
        if !licence.is_empty() {
            component["licenses"] = json!([{"expression": licence}]);
        }
        // A crate without a checksum is our own: no registry has it under this name.
        if let Some(checksum) = self.checksums.get(key) {
            component["purl"] = self.reference(key).into();
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    }

    fn reference(&self, key: &Crate) -> String {
        let (name, version) = key;
        if self.checksums.contains_key(key) {
            // The only character of a version that a package URL escapes.
            format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
        } else {
            format!("{name}@{version}")
        }
    }
}

fn tree(workspace: &Path, package: &str, target: &str) -> Result<String> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--locked", "--package", package, "--target", target, "--edges", "normal,no-proc-macro"]);
    said(command.args(["--prefix", "depth", "--format", "|{p}|{l}|", "--charset", "ascii"]).current_dir(workspace))
}

fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?} cannot be started"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    String::from_utf8(output.stdout).context("cargo does not speak UTF-8")
}

/// Reads lines `DEPTH|NAME vVERSION …|LICENCE|` and returns the crate of the first one. Cargo lists the dependencies of
/// a crate only where it names the crate for the first time.
fn read(tree: &str, crates: &mut BTreeMap<Crate, Linked>) -> Result<Crate> {
    let mut above: Vec<Crate> = Vec::new();
    for line in tree.lines() {
        let unknown = || format!("cargo tree has a line of an unknown form: {line:?}");
        let mut parts = line.split('|');
        let (depth, package, licence) =
            (parts.next().with_context(unknown)?, parts.next().with_context(unknown)?, parts.next());
        let depth: usize = depth.parse().ok().filter(|depth| *depth <= above.len()).with_context(unknown)?;
        let mut words = package.split_whitespace();
        let name = words.next().with_context(unknown)?.to_owned();
        let version = words.next().and_then(|word| word.strip_prefix('v')).with_context(unknown)?.to_owned();
        let key = (name, version);
        crates.entry(key.clone()).or_default().licence = licence.with_context(unknown)?.to_owned();
        above.truncate(depth);
        if let Some(parent) = above.last() {
            crates.entry(parent.clone()).or_default().dependencies.insert(key.clone());
        }
        above.push(key);
    }
    above.into_iter().next().context("cargo tree says nothing")
}

/// The checksums in a `Cargo.lock`.
fn checksums(lock: &str) -> BTreeMap<Crate, String> {
    let packages = lock.split("[[package]]").skip(1);
    packages
        .filter_map(|package| {
            let field = |key: &str| {
                let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
                line.map(|value| value.trim_matches('"').to_owned())
            };
            Some(((field("name")?, field("version")?), field("checksum")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Crate {
        (name.to_owned(), "1.0.0".to_owned())
    }

    #[test]
    fn a_tree_becomes_edges_and_a_crate_that_is_named_twice_keeps_its_own() {
        let tree = "0|top v1.0.0 (/some/where)|Apache-2.0|\n1|left v1.0.0|MIT|\n2|leaf v1.0.0|MIT/Apache-2.0|\n\
                    1|right v1.0.0|MIT|\n2|left v1.0.0|MIT| (*)\n";
        let mut crates = BTreeMap::new();
        assert_eq!(read(tree, &mut crates).unwrap(), key("top"));
        let under = |name: &str| crates[&key(name)].dependencies.iter().map(|key| key.0.as_str()).collect::<Vec<_>>();
        assert_eq!((under("top"), under("left"), under("right")), (vec!["left", "right"], vec!["leaf"], vec!["left"]));
        assert!(read("0|top v1.0.0|MIT|\n2|leaf v1.0.0|MIT|\n", &mut crates).is_err(), "a level is missing");
        assert!(read("", &mut crates).is_err());
    }

    #[test]
    fn a_registry_crate_has_a_purl_and_a_checksum_and_our_own_has_neither() {
        let lock = "version = 4\n\n[[package]]\nname = \"leaf\"\nversion = \"1.0.0+x\"\nsource = \"registry\"\n\
                    checksum = \"abcd\"\n\n[[package]]\nname = \"topoloom\"\nversion = \"1.0.0\"\n";
        let leaf = ("leaf".to_owned(), "1.0.0+x".to_owned());
        let linked = |licence: &str, dependencies: &[&Crate]| Linked {
            licence: licence.into(),
            dependencies: dependencies.iter().map(|key| (*key).clone()).collect(),
        };
        let crates = [(key("topoloom"), linked("Apache-2.0", &[&leaf])), (leaf.clone(), linked("MIT/Apache-2.0", &[]))];
        let bom = Bom { crates: crates.into(), checksums: checksums(lock), rust: "1.2.3".into() };
        let document: Value = serde_json::from_slice(&bom.document("1970-01-01T00:00:00Z").unwrap()).unwrap();
        let leaf = &document["components"][0];
        assert_eq!(leaf["purl"], "pkg:cargo/leaf@1.0.0%2Bx");
        assert_eq!(leaf["hashes"], json!([{"alg": "SHA-256", "content": "abcd"}]));
        assert_eq!(leaf["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
        let host = &document["metadata"]["component"];
        assert_eq!((&host["bom-ref"], host.get("purl")), (&json!("topoloom@1.0.0"), None));
        let all = json!([leaf["purl"], "pkg:generic/rust-std@1.2.3"]);
        let edges = document["dependencies"].as_array().unwrap();
        assert!(edges.iter().any(|edge| edge["ref"] == "topoloom@1.0.0" && edge["dependsOn"] == all), "{edges:?}");
    }

    #[test]
    fn every_plugin_that_the_build_script_embeds_is_in_the_bill() {
        let script = include_str!("../../../host/builtins/build.rs");
        let list = script.split("const BUILTINS").nth(1).and_then(|rest| rest.split(';').nth(1)).unwrap();
        let packages = list.split('"').filter(|word| word.starts_with("topoloom-plugin-"));
        assert!(packages.eq(EMBEDDED), "{list}");
    }
}
