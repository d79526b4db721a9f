//! What goes along with a template: the SDK of its language and, for Rust, the versions of every crate below it.
//!
//! The SDK of Rust is a member of a workspace here and a crate by itself there: its manifest is made of the two that are embedded.
//! The lock file is the part of ours that the plugin needs, so that a vendor builds with the crates that topoloom is tested with, and
//! a machine that has them needs no network.

use std::collections::BTreeSet;
use std::path::Path;

use super::{NewFile, Template};
use crate::project::Language;

/// The files of the SDKs, listed by the build script.
mod sdks {
    include!(concat!(env!("OUT_DIR"), "/sdks.rs"));
}

const MANIFEST: &str = include_str!("../../../../sdk/Cargo.toml");
const WORKSPACE: &str = include_str!("../../../../Cargo.toml");
const LOCK: &str = include_str!("../../../../Cargo.lock");

/// Where an SDK is in the new folder.
const SDK: &str = "vendor/topoloom-sdk";
/// Where the interface is if it is no part of the SDK: from there, as from the repository, one folder up.
const WIT: &str = "vendor/wit/discovery-0.1.0";
/// The package of Python, beside the source.
const PYTHON: &str = "topoloom";

/// The files for a language.
pub(super) fn files(language: Language, template: Template) -> Vec<NewFile> {
    match language {
        Language::Rust => rust(template),
        Language::Python => copies(PYTHON, sdks::PYTHON),
        Language::JavaScript => copies(SDK, sdks::JAVASCRIPT),
        // Its header is a text of the template.
        Language::C | Language::Other => Vec::new(),
    }
}

fn copies(folder: &str, files: &'static [(&'static str, &'static str)]) -> Vec<NewFile> {
    files.iter().map(|(path, text)| NewFile::new(Path::new(folder).join(path), *text)).collect()
}

fn rust(template: Template) -> Vec<NewFile> {
    let mut files = copies(SDK, sdks::RUST);
    if !sdks::RUST.iter().any(|(path, _)| path.starts_with("wit/")) {
        files.extend(copies(WIT, sdks::WIT));
    }
    files.push(NewFile::new(Path::new(SDK).join("Cargo.toml"), standalone(MANIFEST, WORKSPACE)));
    let needs: &[&str] = match template {
        Template::Racks => &["serde", "topoloom-sdk"],
        Template::Listed => &["serde", "serde_json", "topoloom-sdk"],
    };
    files.push(NewFile::new("Cargo.lock", lock(LOCK, template.name(), needs)));
    files
}

/// The manifest of a member of a workspace as that of a crate by itself: what it inherits stands in it, and parts that only the
/// workspace has (lints, tests, examples, and comments for those who work there) are left out.
fn standalone(member: &str, workspace: &str) -> String {
    let (mut text, mut section) = (String::new(), "");
    for line in member.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let is_left_out = ["[lints", "[[", "[dev-dependencies"].iter().any(|begin| section.starts_with(begin));
        if is_left_out || line.starts_with('#') {
            continue;
        }
        let inherited = if section == "[package]" { "[workspace.package]" } else { "[workspace.dependencies]" };
        let whole = line.split_once('=').and_then(|(key, value)| {
            let (key, value) = (key.trim(), value.trim());
            match key.strip_suffix(".workspace") {
                Some(key) => Some(format!("{key} = {}", value_of(workspace, inherited, key)?)),
                None => {
                    let own = value.strip_prefix("{ workspace = true,")?.strip_suffix('}')?;
                    Some(format!("{key} = {}", merged(value_of(workspace, inherited, key)?, own.trim())))
                }
            }
        });
        text.push_str(&whole.unwrap_or_else(|| line.to_owned()));
        text.push('\n');
    }
    text
}

/// The value of a key of a section of a manifest, on one line.
fn value_of<'a>(manifest: &'a str, section: &str, key: &str) -> Option<&'a str> {
    let inside = manifest.lines().skip_while(|line| *line != section).skip(1).take_while(|line| !line.starts_with('['));
    let mut values = inside.filter_map(|line| line.split_once(" = "));
    values.find(|(known, _)| *known == key).map(|(_, value)| value)
}

/// What the workspace says of a dependency together with what the member adds.
fn merged(workspace: &str, own: &str) -> String {
    match workspace.strip_prefix('{').and_then(|inside| inside.strip_suffix('}')) {
        Some(inside) => format!("{{ {}, {own} }}", inside.trim()),
        None => format!("{{ version = {workspace}, {own} }}"),
    }
}

/// One package of a lock file.
struct Locked<'a> {
    name: &'a str,
    version: &'a str,
    needs: Vec<&'a str>,
    text: &'a str,
}

impl<'a> Locked<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let text = text.trim_end();
        let field = |field: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(" = \"")?.strip_suffix('"'))
        };
        let need = |line: &'a str| line.strip_prefix(" \"")?.strip_suffix("\",");
        Some(Self {
            name: field("name")?,
            version: field("version")?,
            needs: text.lines().filter_map(need).collect(),
            text,
        })
    }

    /// Whether a need means this package: its name, and its version where there are several.
    fn is(&self, need: &str) -> bool {
        let mut words = need.split(' ');
        words.next() == Some(self.name) && words.next().is_none_or(|version| version == self.version)
    }
}

/// A lock file for a package of the first version with these needs: every package below it as another lock file has it.
fn lock(whole: &str, name: &str, needs: &[&str]) -> String {
    let packages: Vec<Locked<'_>> = whole.split("[[package]]\n").skip(1).filter_map(Locked::read).collect();
    let (mut open, mut taken) = (needs.to_vec(), BTreeSet::new());
    while let Some(need) = open.pop() {
        // The last one is the newest.
        let Some(at) = packages.iter().rposition(|package| package.is(need)) else { continue };
        if taken.insert(at) {
            open.extend(packages.get(at).into_iter().flat_map(|package| package.needs.iter().copied()));
        }
    }
    let needs: String = needs.iter().map(|need| format!(" \"{need}\",\n")).collect();
    let own = format!("name = \"{name}\"\nversion = \"0.1.0\"\ndependencies = [\n{needs}]");
    let mut texts: Vec<&str> = taken.iter().filter_map(|at| packages.get(*at)).map(|package| package.text).collect();
    texts.push(&own);
    texts.sort_unstable();
    let mut lock = whole.split("[[package]]\n").next().unwrap_or_default().trim_end().to_owned();
    for text in texts {
        for part in ["\n\n[[package]]\n", text] {
            lock.push_str(part);
        }
    }
    lock + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_becomes_a_crate_by_itself() {
        let workspace = "[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace.dependencies]\n# Data.\n\
                         serde = { version = \"1\", features = [\"derive\"] }\ntalc = \"5\"\n";
        let member = "[package]\nname = \"sdk\"\n# Of this workspace.\nversion.workspace = true\nedition.workspace = true\n\n[features]\n\
                      default = [\"allocator\"]\n\n[lints]\nworkspace = true\n\n[target.'cfg(a = \"b\")'.dependencies]\n\
                      talc = { workspace = true, optional = true }\n\n[dependencies]\nserde.workspace = true\n\
                      memchr = \"2\"\n\n[dev-dependencies]\nproptest.workspace = true\n\n[[example]]\nname = \"x\"\n";
        let wanted = "[package]\nname = \"sdk\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[features]\n\
                      default = [\"allocator\"]\n\n[target.'cfg(a = \"b\")'.dependencies]\n\
                      talc = { version = \"5\", optional = true }\n\n[dependencies]\n\
                      serde = { version = \"1\", features = [\"derive\"] }\nmemchr = \"2\"\n\n";
        assert_eq!(standalone(member, workspace), wanted);
        let both = merged("{ version = \"1\", default-features = false }", "optional = true");
        assert_eq!(both, "{ version = \"1\", default-features = false, optional = true }");
    }

    #[test]
    fn the_sdk_needs_nothing_of_the_workspace() {
        let text = standalone(MANIFEST, WORKSPACE);
        for word in ["workspace", "path =", "[lints"] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        assert!(text.contains("name = \"topoloom-sdk\"") && text.contains("\nversion = \""), "{text}");
    }

    #[test]
    fn a_lock_has_what_is_below_the_package_and_nothing_else() {
        let whole = "# Generated.\nversion = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\n\
                     dependencies = [\n \"b 2.0.0\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n\n\
                     [[package]]\nname = \"b\"\nversion = \"2.0.0\"\ndependencies = [\n \"a\",\n \"gone\",\n]\n\n\
                     [[package]]\nname = \"z\"\nversion = \"1.0.0\"\n";
        let wanted = "# Generated.\nversion = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"r\"\n\
                      dependencies = [\n \"b 2.0.0\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"2.0.0\"\n\
                      dependencies = [\n \"a\",\n \"gone\",\n]\n\n[[package]]\nname = \"racks\"\nversion = \"0.1.0\"\n\
                      dependencies = [\n \"a\",\n]\n";
        assert_eq!(lock(whole, "racks", &["a"]), wanted);
    }

    #[test]
    fn the_lock_of_a_plugin_is_closed_and_small() {
        for template in Template::ALL {
            let files = rust(template);
            let text = &files.iter().find(|file| file.path == Path::new("Cargo.lock")).unwrap().text;
            let packages: Vec<Locked<'_>> = text.split("[[package]]\n").skip(1).filter_map(Locked::read).collect();
            for package in &packages {
                for need in &package.needs {
                    assert!(packages.iter().any(|other| other.is(need)), "{need} of {}", package.name);
                }
            }
            let names: Vec<&str> = packages.iter().map(|package| package.name).collect();
            assert!(names.contains(&template.name()) && names.contains(&"wit-bindgen"), "{names:?}");
            // Of our own crates the SDK alone: no client, no engine.
            let ours = names.iter().filter(|name| name.starts_with("topoloom"));
            assert_eq!(ours.collect::<Vec<_>>(), [&"topoloom-sdk"]);
            assert!(names.len() < 80 && !names.contains(&"wasmtime"), "{names:?}");
        }
    }

    #[test]
    fn the_lock_names_what_the_manifest_of_the_plugin_needs() {
        for template in Template::ALL {
            let files = super::super::files(Language::Rust, template).unwrap();
            let of = |path: &str| files.iter().find(|file| file.path == Path::new(path)).unwrap().text.clone();
            let manifest = of("Cargo.toml");
            let inside = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
            let lines = inside.take_while(|line| !line.starts_with('['));
            let mut needs: Vec<&str> = lines.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
            needs.sort_unstable();
            let own = of("Cargo.lock");
            let own = own.split("[[package]]\n").skip(1).filter_map(Locked::read);
            let own = own.into_iter().find(|package| package.name == template.name()).unwrap();
            assert_eq!(own.needs, needs);
        }
    }

    #[test]
    fn the_helpers_of_each_language_are_in_the_program() {
        let lists: [(_, &[&str]); 4] = [
            (sdks::RUST, &["src/lib.rs", "src/bindings.rs", "src/testing.rs"]),
            (sdks::WIT, &["discoverer.wit", "http.wit", "nodes.wit", "types.wit"]),
            (sdks::PYTHON, &["__init__.py", "testing.py"]),
            (sdks::JAVASCRIPT, &["index.js", "package.json", "testing.js"]),
        ];
        for (list, wanted) in lists {
            let paths: Vec<&str> = list.iter().map(|(path, _)| *path).collect();
            for file in wanted {
                assert!(paths.contains(file), "{file}: {paths:?}");
            }
            assert!(paths.iter().all(|path| !path.contains("test_") && !path.contains("node_modules")), "{paths:?}");
        }
    }
}
