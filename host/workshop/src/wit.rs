//! The interface of plugins as text, for the tools of each language: a vendor needs no checkout.
//!
//! Owns the four files of `wit/discovery-0.1.0`, byte for byte, and the *narrow* form of them. Bindings that are generated
//! import every function of every interface of their world, called or not, so an operator would be asked to grant what a
//! plugin never does. [`narrow`] is a world with the interfaces that a project uses; [`folder`] also leaves out the functions
//! of `nodes` that it does not use. What remains is the frozen interface with less in it: a component may import a part of an
//! interface, and every component that was made without generated bindings does.
//!
//! Never changes what a function is, and never knows which language reads the text.
//!
//! # Failure story
//!
//! The text is part of the program and parses, or a test fails; the one error at run time is a folder that cannot be written.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use wit_parser::{Resolve, WorldId};

use crate::project::Use;

/// The version of the package.
pub const VERSION: &str = "0.1.0";

/// The world with everything in it.
pub const WORLD: &str = "plugin";

/// The world of what a project uses.
pub const NARROW: &str = "narrow";

/// Begins with the line `package`, so it has to be the first where all files are one text.
const TYPES: &str = include_str!("../../../wit/discovery-0.1.0/types.wit");
const NODES: &str = include_str!("../../../wit/discovery-0.1.0/nodes.wit");
const HTTP: &str = include_str!("../../../wit/discovery-0.1.0/http.wit");
const DISCOVERER: &str = include_str!("../../../wit/discovery-0.1.0/discoverer.wit");

/// Functions of `nodes` that read columns.
const COLUMNS: [&str; 2] = ["label", "annotation"];

/// Functions of `nodes` that show names of Nodes: an operator grants them separately.
const NAMES: [&str; 2] = ["names", "find"];

/// A world with the interfaces that a project uses, as the text of a file beside the others.
#[must_use]
pub fn narrow(uses: &BTreeSet<Use>) -> String {
    let mut world = format!("/// What this plugin uses, by `uses` of its project file.\nworld {NARROW} {{\n");
    // What a discoverer exports names the type of a snapshot, so this one is there in any case.
    world.push_str("  import nodes;\n");
    for (used, interface) in [(Use::Applied, "applied"), (Use::Http, "http"), (Use::Log, "log")] {
        if uses.contains(&used) {
            world.push_str(&format!("  import {interface};\n"));
        }
    }
    world + "  export discoverer;\n}\n"
}

/// All files: names and texts. The file with the line `package` is the first, so that one text of all of them can be read, too.
#[must_use]
pub fn folder(uses: &BTreeSet<Use>) -> Vec<(&'static str, String)> {
    let mut unused = Vec::new();
    if !uses.contains(&Use::Nodes) {
        unused.extend(COLUMNS);
    }
    if !uses.contains(&Use::NodeNames) {
        unused.extend(NAMES);
    }
    vec![
        ("types.wit", TYPES.to_owned()),
        ("nodes.wit", without(NODES, &unused)),
        ("http.wit", HTTP.to_owned()),
        ("discoverer.wit", DISCOVERER.to_owned()),
        ("narrow.wit", narrow(uses)),
    ]
}

/// Writes the files into a folder, which is made if it is missing. A file that has its text already stays untouched, so
/// that tools which look at times do nothing again.
///
/// # Errors
/// A folder or a file that cannot be written.
pub fn write(folder: &Path, uses: &BTreeSet<Use>) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (name, text) in self::folder(uses) {
        let path = folder.join(name);
        if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
            std::fs::write(path, text)?;
        }
    }
    Ok(())
}

/// The whole package, with a world that is added to it, and that world.
///
/// # Errors
/// What the parser says about the added text.
pub(crate) fn resolve(world: &str, added: &str) -> Result<(Resolve, WorldId), String> {
    let mut resolve = Resolve::default();
    let whole = [TYPES, NODES, HTTP, DISCOVERER, added].join("\n");
    let package = resolve.push_source("discovery.wit", &whole).map_err(|error| format!("{error:#}"))?;
    let world = resolve.select_world(&[package], Some(world)).map_err(|error| format!("{error:#}"))?;
    Ok((resolve, world))
}

/// The text without some of its functions and what is written above them. Each function is one line.
fn without(text: &str, functions: &[&str]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut above = String::new();
    for line in text.lines() {
        let code = line.trim_start();
        if code.starts_with("///") {
            above.push_str(line);
            above.push('\n');
            continue;
        }
        let about = std::mem::take(&mut above);
        let name = code.split_once(": func(").map(|(name, _)| name);
        if !name.is_some_and(|name| functions.contains(&name)) {
            kept.push_str(&about);
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept + &above
}

#[cfg(test)]
mod tests {
    use super::*;
    use wit_parser::WorldItem;

    /// Every function that the world imports, as `interface#function`, by the one text that a tool would read.
    fn imports(uses: &[Use]) -> Vec<String> {
        let mut resolve = Resolve::default();
        let files = folder(&uses.iter().copied().collect());
        let text = files.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n");
        let package = resolve.push_source("all.wit", &text).unwrap_or_else(|error| panic!("{error:#}\n{text}"));
        let world = resolve.select_world(&[package], Some(NARROW)).unwrap();
        let mut functions = Vec::new();
        for item in resolve.worlds[world].imports.values() {
            let WorldItem::Interface { id, .. } = item else { panic!("an import that is no interface") };
            let interface = &resolve.interfaces[*id];
            let name = interface.name.as_deref().unwrap();
            functions.extend(interface.functions.keys().map(|function| format!("{name}#{function}")));
        }
        functions.sort();
        functions
    }

    #[test]
    fn a_narrow_world_has_what_is_used_and_nothing_else() {
        let columns =
            ["annotation", "generation", "label", "rows"].map(|name| format!("nodes#[method]snapshot.{name}"));
        assert_eq!(imports(&[Use::Nodes]), columns);
        let all = imports(&[Use::Nodes, Use::NodeNames, Use::Applied, Use::Http, Use::Log]);
        for function in ["applied#groups", "http#send", "log#write", "nodes#[method]snapshot.find"] {
            assert!(all.iter().any(|found| found == function), "{function}: {all:?}");
        }
        let names = imports(&[Use::NodeNames]);
        assert!(
            names.iter().any(|name| name.ends_with(".names")) && !names.iter().any(|name| name.ends_with(".label"))
        );
        assert_eq!(imports(&[]).len(), 2, "how many nodes there are needs no grant");
    }

    #[test]
    fn with_all_uses_the_text_is_that_of_the_repository() {
        let all = [Use::Nodes, Use::NodeNames, Use::Applied, Use::Http, Use::Log].into_iter().collect();
        let files = folder(&all);
        for (name, text) in files.iter().filter(|(name, _)| *name != "narrow.wit") {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit/discovery-0.1.0").join(name);
            assert_eq!(*text, std::fs::read_to_string(path).unwrap(), "{name}");
        }
        assert!(files[0].1.starts_with(&format!("package topoloom:discovery@{VERSION};")));
    }

    #[test]
    fn every_function_that_can_be_left_out_is_one_line_of_its_interface() {
        let functions: Vec<&str> = COLUMNS.into_iter().chain(NAMES).collect();
        let rest = without(NODES, &functions);
        for function in functions {
            assert_eq!(NODES.matches(&format!("  {function}: func(")).count(), 1, "{function}");
            assert!(!rest.contains(&format!("  {function}: func(")), "{function}");
        }
        assert_eq!(without(NODES, &[]), NODES);
    }

    #[test]
    fn files_are_written_once() {
        let folder = tempfile::tempdir().unwrap();
        let uses = [Use::Nodes].into_iter().collect();
        let at = folder.path().join("wit");
        write(&at, &uses).unwrap();
        let written = || std::fs::metadata(at.join("types.wit")).unwrap().modified().unwrap();
        let first = written();
        write(&at, &uses).unwrap();
        assert_eq!(written(), first);
        assert_eq!(std::fs::read_to_string(at.join("narrow.wit")).unwrap(), narrow(&uses));
    }

    #[test]
    fn the_whole_package_has_the_world_of_plugins() {
        let (resolve, world) = resolve(WORLD, "").unwrap();
        assert_eq!(resolve.worlds[world].name, WORLD);
        assert!(super::resolve("absent", "").is_err());
        assert!(super::resolve(WORLD, "world {").is_err());
    }
}
