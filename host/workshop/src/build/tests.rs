use tempfile::TempDir;

use super::*;
use crate::adapter::Stub;

/// A discoverer without bodies, as a core module; `imports` come first.
fn module(imports: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module {imports}
            (memory (export "memory") 1)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
            (func (export "topoloom:discovery/discoverer@0.1.0#describe") (result i32) unreachable)
            (func (export "topoloom:discovery/discoverer@0.1.0#configure") (param i32 i32) (result i32) unreachable)
            (func (export "topoloom:discovery/discoverer@0.1.0#discover")
              (param i32 i32 i32 i64 i32 i32) (result i32) unreachable))"#
    ))
    .unwrap()
}

const WRITES: &str = r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#;

/// A project in a language that nothing is known of: its command copies what is there.
struct Desk(TempDir);

impl Desk {
    fn new(build: &str, core: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let desk = Self(folder);
        std::fs::write(desk.0.path().join("core.bin"), core).unwrap();
        desk.says(build);
        desk
    }

    fn says(&self, build: &str) {
        let text = format!("language: other\nuses: [nodes]\nbuild: |\n  {build}\n");
        std::fs::write(self.0.path().join(FILE), text).unwrap();
    }

    fn project(&self) -> Project {
        Project::read(self.0.path()).unwrap()
    }

    fn build(&self) -> Result<(Built, Vec<Line>), BuildError> {
        let mut said = Vec::new();
        let built = build(&self.project(), &mut |line| said.push(line))?;
        Ok((built, said))
    }

    fn output(&self) -> Option<Vec<u8>> {
        std::fs::read(self.0.path().join("plugin.wasm")).ok()
    }
}

#[test]
fn a_core_module_of_a_command_becomes_a_component_with_a_report() {
    let desk = Desk::new(r#"echo compiling; cp core.bin "$TOPOLOOM_OUTPUT""#, &module(WRITES));
    let (built, said) = desk.build().unwrap();
    let component = desk.output().unwrap();
    assert!(wrap::is_component(&component));
    assert_eq!((built.digest, built.raw), (Digest::of(&component), component.len()));
    assert!(built.embedded && built.refused.is_none());
    assert_eq!(built.imports, ["topoloom:discovery/log@0.1.0#write"]);
    assert_eq!(built.stubbed, Stubbed::from([("fd_write".to_owned(), Stub::Logs)]));
    assert_eq!((built.need(), built.repeat), (Need::default(), Repeat::Unknown));
    assert_eq!(built.measures[&Limit::File], Amount::Bytes(component.len() as u64));
    assert!(said.contains(&Line::Tool("compiling".to_owned())), "{said:?}");
    // The same source, the same bytes, and what was written meanwhile is no part of it.
    assert_eq!(desk.build().unwrap().0, built);
    assert_eq!(desk.output().unwrap(), component);
}

#[test]
fn a_command_may_write_its_output_itself() {
    let desk = Desk::new("cp core.bin plugin.wasm", &module(""));
    let (first, _) = desk.build().unwrap();
    assert!(wrap::is_component(&desk.output().unwrap()));
    let (second, _) = desk.build().unwrap();
    assert_eq!(first, second);
}

#[test]
fn what_a_first_build_generates_is_a_part_of_the_source_that_it_is_of() {
    let desk = Desk::new(r#"touch made.lock; cp core.bin "$TOPOLOOM_OUTPUT""#, &module(""));
    let (first, _) = desk.build().unwrap();
    assert!(is_fresh(&desk.project()));
    assert_eq!(desk.build().unwrap().0, first);
    // Saved while the command worked: the component is not of this.
    desk.says(r#"cp core.bin "$TOPOLOOM_OUTPUT"; echo saved >> core.bin"#);
    desk.build().unwrap();
    assert!(!is_fresh(&desk.project()));
}

#[test]
fn a_component_that_is_signed_and_tried_is_still_of_its_source() {
    let desk = Desk::new(r#"cp core.bin "$TOPOLOOM_OUTPUT""#, &module(""));
    desk.build().unwrap();
    for name in ["plugin.sig", "signing.pem", "config.yaml"] {
        std::fs::write(desk.0.path().join(name), "text").unwrap();
        assert!(is_fresh(&desk.project()), "{name}");
    }
}

#[test]
fn a_command_sees_the_part_of_the_interface_that_the_project_uses() {
    let seen = r#"grep -q 'world narrow' "$TOPOLOOM_WIT/narrow.wit" && test "$TOPOLOOM_WORLD" = narrow && \
  ! grep -q 'find: func' "$TOPOLOOM_WIT/nodes.wit" && cp core.bin "$TOPOLOOM_OUTPUT""#;
    Desk::new(seen, &module("")).build().unwrap();
}

#[test]
fn a_build_that_fails_leaves_the_component_of_an_earlier_one() {
    let desk = Desk::new(r#"cp core.bin "$TOPOLOOM_OUTPUT""#, &module(""));
    let (built, _) = desk.build().unwrap();
    for (command, words) in [
        ("echo no >&2; exit 4", "failed (exit status: 4)"),
        // It must not be taken for one that has built.
        ("true", "ended well, and there is no"),
        ("echo text > plugin.wasm; exit 1", "failed"),
    ] {
        desk.says(command);
        let error = desk.build().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(Digest::of(&desk.output().unwrap()), built.digest, "{command}");
    }
}

#[test]
fn a_component_is_put_elsewhere_while_the_command_writes_its_output() {
    let desk = Desk::new("cp core.bin plugin.wasm", &module(""));
    let (built, _) = desk.build().unwrap();
    let place = desk.0.path().join("dist/r.wasm");
    let put = build_into(&desk.project(), &place, &mut |_| {}).unwrap();
    assert_eq!((put.file.as_path(), put.digest), (place.as_path(), built.digest));
    assert_eq!(std::fs::read(&place).unwrap(), desk.output().unwrap(), "the one in the folder stays");
    // Another path to the same place.
    std::fs::write(desk.0.path().join("core.bin"), module(WRITES)).unwrap();
    let put = build_into(&desk.project(), &desk.0.path().join("dist/../plugin.wasm"), &mut |_| {}).unwrap();
    assert_eq!(Digest::of(&desk.output().unwrap()), put.digest);
    // The first build may be one that goes elsewhere.
    let desk = Desk::new(r#"cp core.bin "$TOPOLOOM_OUTPUT""#, &module(""));
    let place = desk.0.path().join("r.wasm");
    build_into(&desk.project(), &place, &mut |_| {}).unwrap();
    assert!(place.is_file() && desk.output().is_none());
}

#[test]
fn a_component_comes_back_after_a_build_that_was_ended_in_the_middle() {
    for left in [None, Some("half of a module")] {
        let desk = Desk::new(r#"cp core.bin "$TOPOLOOM_OUTPUT""#, &module(""));
        let (built, _) = desk.build().unwrap();
        let output = desk.0.path().join("plugin.wasm");
        std::fs::rename(&output, desk.0.path().join(WORK).join("earlier.wasm")).unwrap();
        if let Some(left) = left {
            std::fs::write(&output, left).unwrap();
        }
        // Neither a command that fails nor what cannot become a component takes it away.
        for command in ["exit 1", "echo text > plugin.wasm"] {
            desk.says(command);
            desk.build().unwrap_err();
            assert_eq!(Digest::of(&desk.output().unwrap()), built.digest, "{command}");
        }
    }
}

#[test]
fn what_cannot_become_a_component_is_refused_before_anything_is_written() {
    for (core, words) in [
        (b"text".to_vec(), "neither a component nor a core module"),
        (module(r#"(import "env" "printf" (func))"#), "the module imports env.printf"),
    ] {
        let desk = Desk::new(r#"cp core.bin "$TOPOLOOM_OUTPUT""#, &core);
        let error = desk.build().unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(error.to_string().ends_with("cannot become a component") && cause.contains(words), "{error}: {cause}");
        assert_eq!(desk.output(), None);
    }
}

#[test]
fn a_component_that_no_host_takes_is_written_with_the_reason() {
    let wasi = wat::parse_str(r#"(component (import "wasi:cli/stdout@0.2.0" (instance)))"#).unwrap();
    let desk = Desk::new(r#"cp core.bin "$TOPOLOOM_OUTPUT""#, &wasi);
    let (built, _) = desk.build().unwrap();
    assert!(built.refused.unwrap().starts_with("plugin imports wasi:cli/stdout@0.2.0; topoloom plugins use no WASI"));
    assert!(desk.output().is_some());
}

#[test]
fn the_limits_that_a_component_needs_are_written_once() {
    let desk = Desk::new(r#"cp core.bin "$TOPOLOOM_OUTPUT""#, &module(""));
    let (mut built, _) = desk.build().unwrap();
    assert_eq!(settle(&desk.project(), &built.need()).unwrap(), None);
    built.measured(Limit::File, Amount::mib(18));
    built.measured(Limit::CompileCpu, Amount::seconds(18));
    let line = "limits: {profile: large, compileCpu: 40s}";
    let settled = settle(&desk.project(), &built.need()).unwrap();
    assert_eq!(settled, Some(Settled { line: line.to_owned(), is_written: true }));
    assert!(std::fs::read_to_string(desk.0.path().join(FILE)).unwrap().ends_with(&format!("{line}\n")));
    assert_eq!(settle(&desk.project(), &built.need()).unwrap(), None);
    // It changes neither the source nor the component.
    assert_eq!(desk.build().unwrap().0.digest, built.digest);
}

#[test]
fn a_project_file_in_which_more_would_change_stays_as_it_is() {
    let need = Need::of(&[(Limit::File, Amount::mib(18)), (Limit::Modules, Amount::Count(17))].into());
    for text in [
        "{\"language\": \"c\"}\n",
        "{language: c, limits: {memory: 1Mi}}\n",
        "language: c\n...\n",
        "  language: c\n  limits: {memory: 1Mi}\n",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        std::fs::write(&file, text).unwrap();
        let project = Project::read(folder.path()).unwrap();
        let settled = settle(&project, &need).unwrap().unwrap();
        assert!(!settled.is_written && settled.line.starts_with("limits: {profile: large"), "{settled:?}: {text}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_file_alone_is_wrapped_without_a_project() {
    let folder = tempfile::tempdir().unwrap();
    let (core, component) = (folder.path().join("core.wasm"), folder.path().join("made/plugin.wasm"));
    std::fs::write(&core, module("")).unwrap();
    let built = wrap_file(&core, &component, &mut |_| {}).unwrap();
    assert_eq!((built.source, built.file.as_path()), (None, component.as_path()));
    assert!(wrap::is_component(&std::fs::read(&component).unwrap()));
    let error = wrap_file(&folder.path().join("absent"), &component, &mut |_| {}).unwrap_err().to_string();
    assert!(error.ends_with("absent cannot be read"), "{error}");
}
