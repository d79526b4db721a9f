use std::time::Duration;

use topoloom_core::limits::{Amount, Limit, Profile};

use super::*;

fn parsed(text: &str) -> Project {
    Project::parse(Path::new("desk"), text).unwrap_or_else(|error| panic!("{error}"))
}

/// The mistakes as lines.
fn mistakes(text: &str) -> Vec<String> {
    match Project::parse(Path::new("desk"), text) {
        Err(ProjectError::Mistakes { mistakes, .. }) => {
            mistakes.into_iter().map(|Mistake { field, message }| format!("{field}: {message}")).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_language_alone_is_enough() {
    let project = parsed("language: rust\n");
    assert_eq!(project.language, Language::Rust);
    assert_eq!((project.root.as_path(), project.build.as_deref()), (Path::new("desk"), None));
    assert_eq!(project.output, Path::new("desk/plugin.wasm"));
    assert_eq!(project.cases, Path::new("desk/cases"));
    assert_eq!(project.uses, BTreeSet::from(Use::ALL));
    assert!(project.limits.is_usual() && project.limits.applied() == topoloom_core::limits::Limits::default());
}

#[test]
fn every_field_is_read() {
    let project = parsed(
        "language: python\nbuild: make racks.wasm\noutput: out/racks.wasm\nuses: [nodes, log]\ncases: ../cases\n\
         limits: {profile: large, compileCpu: 30s, memory: 64Mi, requests: 7}\n",
    );
    assert_eq!((project.language, project.build.as_deref()), (Language::Python, Some("make racks.wasm")));
    assert_eq!((project.output.as_path(), project.stem().as_str()), (Path::new("desk/out/racks.wasm"), "racks"));
    assert_eq!(project.cases, Path::new("desk/../cases"));
    assert_eq!(project.uses, BTreeSet::from([Use::Nodes, Use::Log]));
    assert_eq!(project.limits.profile, Profile::Large);
    assert_eq!(project.limits.get(Limit::CompileCpu), Some(Amount::seconds(30)));
    let applied = project.limits.applied();
    assert_eq!((applied.compile.cpu, applied.store.memory), (Duration::from_secs(30), 64 << 20));
    assert_eq!(applied.call.requests, 7);
    assert_eq!(project.limits.to_string(), "{profile: large, compileCpu: 30s, memory: 64Mi, requests: 7}");
}

#[test]
fn every_mistake_is_found_at_once_with_field_value_and_range() {
    let found = mistakes(
        "language: go\nbuild: [make]\noutput: ../racks.wasm\nuses: [nodes, log, 7, nodeName]\ncases: /cases\nouput: x\n\
         limits: {profile: huge, compileCpu: 5m, memory: 1, requests: many, colour: red}\n",
    );
    let wanted = [
        "language: must be rust or python or javascript or c or other, not the text \"go\"",
        "build: must be a command of a shell that makes the component, not a list",
        "output: must be a file in this folder with the ending .wasm, such as plugin.wasm, not the text \"../racks.wasm\"",
        "uses[2]: must be nodes or nodeNames or applied or http or log, not the number 7",
        "uses[3]: must be nodes or nodeNames or applied or http or log, not the text \"nodeName\"; did you mean nodeNames?",
        "cases: must be a folder, seen from this one, such as cases, not the text \"/cases\"",
        "ouput: is not known here; did you mean `output`?",
        "limits.profile: must be standard or large, not the text \"huge\"",
        "limits.compileCpu: must be a time with its unit such as 30s or 250ms, between 1s and 60s, not the text \"5m\"",
        "limits.memory: must be a size such as 256Mi, between 1Mi and 4Gi, not the number 1",
        "limits.requests: must be a whole number, between 1 and 100000, not the text \"many\"",
    ];
    assert_eq!(found[..wanted.len()], wanted);
    assert_eq!(found.len(), wanted.len() + 1);
    assert!(found[wanted.len()].starts_with("limits.colour: is not known here; known are profile, "), "{found:#?}");
}

#[test]
fn a_missing_language_is_a_mistake_like_any_other() {
    let found = mistakes("output: racks.wasm\nuses: nodes\n");
    assert_eq!(found[0], "language: is missing; it must be rust or python or javascript or c or other");
    assert_eq!(
        found[1],
        "uses: must be a list of nodes or nodeNames or applied or http or log, not the text \"nodes\""
    );
    assert_eq!(found.len(), 2);
}

#[test]
fn another_language_needs_a_command() {
    assert_eq!(parsed("language: other\nbuild: go build\n").language, Language::Other);
    let found = mistakes("language: other\n");
    assert!(found.len() == 1 && found[0].starts_with("build: is missing: "), "{found:?}");
}

#[test]
fn outputs_are_components_in_the_folder() {
    for bad in ["/racks.wasm", "a/../racks.wasm", ".wasm", "racks", "racks.wat", "''", "7", "{}"] {
        assert_eq!(mistakes(&format!("language: c\noutput: {bad}\n")).len(), 1, "{bad}");
    }
    for good in ["racks.wasm", "./racks.wasm", "out/my-racks.component.wasm"] {
        parsed(&format!("language: c\noutput: {good}\n"));
    }
}

#[test]
fn times_have_a_unit() {
    for (text, wanted) in [
        ("30s", Some(30_000)),
        ("1m", Some(60_000)),
        ("1500ms", Some(1500)),
        ("1.5s", Some(1500)),
        ("1s500ms", Some(1500)),
        ("30", None),
        ("''", None),
        ("s", None),
        ("1.2.3s", None),
        ("-5s", None),
        ("61s", None),
        ("1d", None),
    ] {
        let read = Project::parse(Path::new("desk"), &format!("language: c\nlimits: {{compileCpu: {text}}}\n"));
        let found = read.ok().and_then(|project| project.limits.get(Limit::CompileCpu));
        assert_eq!(found, wanted.map(Amount::millis), "{text}");
    }
}

#[test]
fn what_is_no_mapping_is_one_error_with_its_file() {
    for text in ["- rust\n", "rust\n", "language: [\n", "language: rust\nlanguage: c\n"] {
        let error = Project::parse(Path::new("desk"), text).unwrap_err();
        assert!(matches!(error, ProjectError::Syntax { .. }), "{text}: {error:?}");
        let said = error.to_string();
        assert!(said.starts_with("desk/topoloom-plugin.yaml: ") && !said.contains('\n'), "{said}");
    }
}

#[test]
fn mistakes_are_counted_and_the_first_are_shown() {
    let text = format!("language: c\nuses: [{}]\n", ["x"; 60].join(", "));
    let said = Project::parse(Path::new("desk"), &text).unwrap_err().to_string();
    assert!(said.starts_with("desk/topoloom-plugin.yaml: 60 things are wrong\n  uses[0]: must be "), "{said}");
    assert!(said.ends_with("\n  and 10 more"), "{said}");
    let one = Project::parse(Path::new("desk"), "language: x\n").unwrap_err().to_string();
    assert!(one.contains(": one thing is wrong\n  language: "), "{one}");
}

#[test]
fn a_folder_without_the_file_is_told_from_a_file_that_cannot_be_read() {
    let desk = tempfile::tempdir().unwrap();
    let error = Project::read(desk.path()).unwrap_err();
    assert!(matches!(&error, ProjectError::Missing { folder } if folder == desk.path()), "{error:?}");
    assert!(error.to_string().contains("topoloom plugin new"), "{error}");
    std::fs::write(desk.path().join(FILE), vec![b'#'; 70_000]).unwrap();
    assert!(matches!(Project::read(desk.path()), Err(ProjectError::TooLarge { .. })));
    std::fs::write(desk.path().join(FILE), b"language: \xff\n").unwrap();
    assert!(matches!(Project::read(desk.path()), Err(ProjectError::Read { .. })));
    std::fs::write(desk.path().join(FILE), "language: rust\n").unwrap();
    assert_eq!(Project::read(desk.path()).unwrap().language, Language::Rust);
}

#[test]
fn the_source_is_named_as_the_component_or_is_the_only_one() {
    let desk = tempfile::tempdir().unwrap();
    let write = |name: &str| std::fs::write(desk.path().join(name), "").unwrap();
    let source = |text: &str| {
        let found = Project::parse(desk.path(), text).unwrap().source();
        found.map(|found| found.strip_prefix(desk.path()).unwrap().display().to_string())
    };
    let python = "language: python\noutput: racks.wasm\n";
    assert!(matches!(source(python), Err(ProjectError::NoSource { wanted, .. }) if wanted == "racks.py"));
    for name in ["test_racks.py", "conftest.py", "topology.py", "notes.txt"] {
        write(name);
    }
    assert_eq!(source(python).unwrap(), "topology.py");
    write("other.py");
    let many = source(python).unwrap_err().to_string();
    assert!(many.contains("several sources, other.py, topology.py: "), "{many}");
    write("racks.py");
    assert_eq!(source(python).unwrap(), "racks.py");
    for name in ["racks.test.js", "eslint.config.js", "index.js", "racks_test.c", "racks.c"] {
        write(name);
    }
    assert_eq!(source("language: javascript\n").unwrap(), "index.js");
    assert_eq!(source("language: c\n").unwrap(), "racks.c");
    assert!(matches!(source("language: rust\n"), Err(ProjectError::NoSource { wanted, .. }) if wanted == "Cargo.toml"));
    write("Cargo.toml");
    assert_eq!(source("language: rust\n").unwrap(), "Cargo.toml");
    assert_eq!(source("language: other\nbuild: make\n").unwrap(), "");
}

#[test]
fn limits_are_written_back_and_nothing_else_changes() {
    let mut limits = Limits::default();
    limits.profile = Profile::Large;
    limits.set(Limit::CompileCpu, Amount::seconds(30));
    // No entry may set it.
    limits.set(Limit::Depth, Amount::Count(3));
    let said = "limits: {profile: large, compileCpu: 30s}\n";
    for (before, after) in [
        ("language: c\n", format!("language: c\n{said}")),
        ("language: c", format!("language: c\n{said}")),
        ("", said.to_owned()),
        ("# a\nlimits: {profile: standard}\n# b\ncases: x\n", format!("# a\n{said}# b\ncases: x\n")),
        ("limits:\n  profile: large\n\n  memory: 1Mi\ncases: x\n", format!("{said}\ncases: x\n")),
        ("limits: {\n  profile: large,\n}\ncases: x\n", format!("{said}cases: x\n")),
        ("\"limits\" : {profile: standard}\ncases: x\n", format!("{said}cases: x\n")),
        ("limits:\n  profile: large\n# b\n\n  memory: 1Mi\n# c\ncases: x\n", format!("{said}# b\n\n# c\ncases: x\n")),
        (
            "limits: # of Go\n  # more\n  memory: 1Mi # seen\ncases: x\n",
            format!("{} # of Go\n  # more\n  # seen\ncases: x\n", said.trim_end()),
        ),
    ] {
        let written = with_limits(before, &limits);
        assert_eq!(written, after, "{before}");
        // What the digest of a source has in place of limits is the same before and after.
        let usual = Limits::default();
        assert_eq!(with_limits(&written, &usual), with_limits(before, &usual), "{before}");
    }
    let written = with_limits("language: c\nlimits: {memory: 1Mi}\n", &limits);
    assert_eq!(parsed(&written).limits, limits);
    assert_eq!(Limits::default().to_string(), "{}");
}
