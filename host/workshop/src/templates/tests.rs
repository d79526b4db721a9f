use super::*;
use crate::project::{Project, Use};
use crate::tools::{self, COMPONENTIZE_JS, COMPONENTIZE_PY, ESBUILD, Wanted};

const LANGUAGES: [Language; 4] = [Language::Rust, Language::Python, Language::JavaScript, Language::C];

/// Most lines that a vendor writes, without comments and blank ones. A service takes Rust more: types of records, and errors as
/// values.
const fn most_lines(language: Language, template: Template) -> usize {
    match (language, template) {
        (Language::Rust, Template::Listed) => 53,
        (Language::C, _) => 90,
        _ => 30,
    }
}

fn each() -> impl Iterator<Item = (Language, Template)> {
    LANGUAGES.into_iter().flat_map(|language| Template::ALL.map(|template| (language, template)))
}

fn text(files: &[NewFile], path: &str) -> String {
    let file = files.iter().find(|file| file.path == Path::new(path));
    file.unwrap_or_else(|| panic!("{path}: {files:#?}")).text.clone().into_owned()
}

#[test]
fn every_template_is_written_and_is_a_project() {
    for (language, template) in each() {
        let desk = tempfile::tempdir().unwrap();
        let folder = desk.path().join("new/plugin");
        let written = write(&folder, language, template).unwrap();
        assert!(written.iter().all(|path| folder.join(path).is_file()), "{written:?}");
        let project = Project::read(&folder).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((project.language, project.stem().as_str()), (language, template.name()));
        assert_eq!(project.cases, folder.join("cases"));
        let source = project.source().unwrap_or_else(|error| panic!("{error}"));
        match language {
            Language::Rust => assert_eq!(source, folder.join("Cargo.toml")),
            _ => assert_eq!(source, folder.join(template.source(language))),
        }
        assert!(folder.join(template.source(language)).is_file());
        let asks = project.uses.contains(&Use::Http);
        assert_eq!(asks, template == Template::Listed);
        assert_eq!(folder.join("cases/first/recording.json").is_file(), asks);
    }
}

#[test]
fn a_folder_that_is_not_empty_is_refused_and_stays_as_it_is() {
    let desk = tempfile::tempdir().unwrap();
    std::fs::write(desk.path().join("notes.txt"), "mine").unwrap();
    let error = write(desk.path(), Language::Python, Template::Racks).unwrap_err();
    assert!(matches!(&error, NewError::NotEmpty { found, .. } if found == "notes.txt"), "{error:?}");
    assert!(
        error.to_string().ends_with("is not empty, it has notes.txt: name a folder that is new or empty"),
        "{error}"
    );
    let left: Vec<_> = std::fs::read_dir(desk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["notes.txt"]);
    let file = desk.path().join("notes.txt");
    assert!(matches!(write(&file, Language::C, Template::Racks), Err(NewError::Look { .. })));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn an_empty_folder_that_is_there_is_used() {
    let desk = tempfile::tempdir().unwrap();
    write(desk.path(), Language::C, Template::Racks).unwrap();
    assert!(desk.path().join(FILE).is_file());
}

#[test]
fn a_fresh_clone_is_used_and_its_history_stays() {
    let desk = tempfile::tempdir().unwrap();
    std::fs::create_dir(desk.path().join(".git")).unwrap();
    std::fs::write(desk.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(desk.path().join(".DS_Store"), "").unwrap();
    write(desk.path(), Language::Python, Template::Racks).unwrap();
    assert!(desk.path().join(FILE).is_file() && desk.path().join(".git/HEAD").is_file());
    let error = write(desk.path(), Language::Python, Template::Racks).unwrap_err();
    assert!(matches!(&error, NewError::NotEmpty { found, .. } if found != ".git"), "{error:?}");
}

#[test]
fn another_language_has_no_template() {
    let desk = tempfile::tempdir().unwrap();
    let folder = desk.path().join("new");
    let error = write(&folder, Language::Other, Template::Racks).unwrap_err();
    assert!(error.to_string().contains("docs/vendors/other-languages.md"), "{error}");
    assert!(!folder.exists());
}

#[test]
fn paths_stay_inside_of_the_folder_and_no_file_is_twice() {
    for (language, template) in each() {
        let files = files(language, template).unwrap();
        for (file, next) in files.iter().zip(files.iter().skip(1)) {
            assert_ne!(file.path, next.path);
        }
        for NewFile { path, text } in &files {
            let is_inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
            assert!(is_inside, "{}", path.display());
            assert!(text.is_empty() || text.ends_with('\n'), "{}", path.display());
        }
    }
}

#[test]
fn no_key_no_signature_and_no_component_is_committed() {
    for (language, template) in each() {
        let ignored = text(&files(language, template).unwrap(), ".gitignore");
        for pattern in ["*.pem", "*.sig", "*.wasm"] {
            assert!(ignored.lines().any(|line| line == pattern), "{}: {pattern}", language.word());
        }
    }
}

/// A program that a native test leaves in the folder would be a part of the source.
#[test]
fn the_native_test_of_c_leaves_nothing_in_the_source_and_fails_where_it_does_not_compile() {
    for template in Template::ALL {
        let test = native_test(Language::C, template).unwrap();
        assert!(test.ends_with(&format!(" -o .topoloom/{0}_test && .topoloom/{0}_test", template.name())), "{test}");
        let workflow = text(&files(Language::C, template).unwrap(), ".github/workflows/plugin.yml");
        // The shell of a workflow ends at a command that fails, but for one before `&&`.
        assert!(workflow.contains(" -o \"$program\"\n          \"$program\"\n"), "{workflow}");
    }
}

#[test]
fn a_vendor_writes_few_lines() {
    for (language, template) in each() {
        let source = text(&files(language, template).unwrap(), &template.source(language));
        let is_comment = |line: &str| match language {
            Language::Python => line.starts_with('#') || (line.starts_with("\"\"\"") && line.ends_with("\"\"\"")),
            _ => line.starts_with("//"),
        };
        let lines = source.lines().map(str::trim).filter(|line| !line.is_empty() && !is_comment(line)).count();
        let most = most_lines(language, template);
        assert!(lines <= most, "{} {}: {lines} lines, at most {most}", language.word(), template.name());
    }
}

#[test]
fn every_template_is_the_same_discoverer() {
    for template in Template::ALL {
        for language in LANGUAGES {
            let files = files(language, template).unwrap();
            for (path, wanted) in template.cases() {
                assert_eq!(text(&files, path), *wanted);
            }
            let source = text(&files, &template.source(language));
            for word in [template.name(), "0.1.0", "Acme", "One group per rack"] {
                assert!(source.contains(word), "{}: {word}", language.word());
            }
        }
    }
}

#[test]
fn tools_are_named_in_the_versions_that_a_build_needs() {
    let exact = |tool: &tools::Tool| match tool.wanted {
        Wanted::Exactly(version) => version,
        other => panic!("{other:?}"),
    };
    for template in Template::ALL {
        let python = text(&files(Language::Python, template).unwrap(), "requirements.txt");
        assert!(python.contains(&format!("\ncomponentize-py=={}\n", exact(&COMPONENTIZE_PY))), "{python}");
        let manifest = text(&files(Language::JavaScript, template).unwrap(), "package.json");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        for tool in [COMPONENTIZE_JS, ESBUILD] {
            assert_eq!(manifest["devDependencies"][tool.name], exact(&tool), "{}", tool.name);
        }
        let of_node = tools::of(Language::JavaScript).iter().filter(|tool| tool.install.starts_with("npm "));
        assert_eq!(manifest["devDependencies"].as_object().unwrap().len(), of_node.count());
        assert_eq!(manifest["name"], template.name());
        let toolchain = text(&files(Language::Rust, template).unwrap(), "rust-toolchain.toml");
        let Wanted::AtLeast(cargo) = tools::CARGO.wanted else { panic!("a compiler may be newer") };
        assert!(
            toolchain.contains(&format!("channel = \"{cargo}\"\n")) && toolchain.contains(tools::TARGET),
            "{toolchain}"
        );
        let workflow = text(&files(Language::C, template).unwrap(), ".github/workflows/plugin.yml");
        assert!(workflow.contains(tools::ZIG.install), "{workflow}");
    }
}

#[test]
fn a_workflow_builds_and_tests() {
    for (language, template) in each() {
        let workflow = text(&files(language, template).unwrap(), ".github/workflows/plugin.yml");
        for line in ["- run: topoloom plugin build\n", "- run: topoloom plugin test\n"] {
            assert!(workflow.contains(line), "{workflow}");
        }
        let read: serde_json::Value = serde_saphyr::from_str(&workflow).unwrap();
        assert_eq!(read["jobs"]["plugin"]["steps"].as_array().unwrap().len(), 6, "{}", language.word());
    }
}

#[test]
fn the_recording_of_the_case_is_what_the_discoverer_asks_for() {
    let recording = text(&files(Language::C, Template::Listed).unwrap(), "cases/first/recording.json");
    let recording: serde_json::Value = serde_json::from_str(&recording).unwrap();
    let exchange = &recording["sources"]["listed"]["exchanges"][0];
    let answer: serde_json::Value = serde_json::from_str(exchange["text"].as_str().unwrap()).unwrap();
    assert_eq!(answer["nodes"].as_array().unwrap().len(), 4);
    for language in LANGUAGES {
        let source = text(&files(language, Template::Listed).unwrap(), &Template::Listed.source(language));
        for asked in ["endpoint", "path"] {
            let asked = exchange[asked].as_str().unwrap();
            assert!(source.contains(asked), "{}: {asked}", language.word());
        }
    }
}

#[test]
fn three_commands_come_next() {
    for language in LANGUAGES {
        let steps = steps("racks", language);
        assert!(steps[0].starts_with("cd racks && "), "{steps:?}");
        assert_eq!(steps[1..], ["topoloom plugin build", "topoloom plugin test"]);
        assert!(Template::ALL.iter().all(|template| native_test(language, *template).is_some()));
    }
    assert_eq!(steps("racks", Language::JavaScript)[0], "cd racks && npm install");
}
