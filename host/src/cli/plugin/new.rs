//! `topoloom plugin new`: a folder with a plugin in it that builds and is tested, without a checkout and without a network.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use topoloom_core::text::shell_word;
use topoloom_workshop::project::Language;
use topoloom_workshop::templates::{self, Template};

use crate::cli::print;

/// Flags of `plugin new`.
#[derive(Debug, Args)]
pub(in crate::cli) struct NewArgs {
    /// The folder to write; it is created, or it must be empty
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The language of the plugin
    #[arg(long, value_enum)]
    lang: LanguageArg,
    /// A plugin that asks an HTTP service for the racks, in place of one that reads a node label
    #[arg(long)]
    http: bool,
}

/// A language that has a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LanguageArg {
    /// Small and fast; needs cargo
    Rust,
    /// 18 MB with the interpreter, and limits to match; needs componentize-py
    Python,
    /// 12 MB with the engine, and limits to match; needs Node.js and componentize-js
    #[value(name = "javascript")]
    JavaScript,
    /// The smallest, without a C library; needs zig
    C,
}

impl From<LanguageArg> for Language {
    fn from(language: LanguageArg) -> Self {
        match language {
            LanguageArg::Rust => Self::Rust,
            LanguageArg::Python => Self::Python,
            LanguageArg::JavaScript => Self::JavaScript,
            LanguageArg::C => Self::C,
        }
    }
}

/// Writes the folder, and prints what comes next.
pub(super) fn run(args: &NewArgs) -> anyhow::Result<ExitCode> {
    let language = Language::from(args.lang);
    let template = if args.http { Template::Listed } else { Template::Racks };
    let written = templates::write(&args.folder, language, template)?;
    print::out(&said(args, language, template, written.len()));
    Ok(ExitCode::SUCCESS)
}

/// What was written, and the three commands that come next.
fn said(args: &NewArgs, language: Language, template: Template, files: usize) -> String {
    let folder = args.folder.display();
    let mut text = format!(
        "{folder}: the plugin {} in {}, {files} files; {} is the discoverer, {} what topoloom knows of the folder\n",
        template.name(),
        language.name(),
        template.source(language),
        topoloom_workshop::project::FILE
    );
    if let Some(test) = templates::native_test(language, template) {
        push_line!(text, "its native test needs no WebAssembly: {test}");
    }
    push_line!(text, "next:");
    for step in templates::steps(&word(&args.folder.to_string_lossy()), language) {
        push_line!(text, "  {step}");
    }
    text
}

/// A path as a word of a shell, with quotes where it needs them.
fn word(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !path.is_empty() && path.chars().all(is_plain) { path.to_owned() } else { shell_word(path) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(folder: PathBuf, lang: LanguageArg, http: bool) -> NewArgs {
        NewArgs { folder, lang, http }
    }

    #[test]
    fn every_language_is_written_and_ends_with_three_commands() {
        for lang in LanguageArg::value_variants() {
            for http in [false, true] {
                let desk = tempfile::tempdir().unwrap();
                let args = args(desk.path().join("plugin"), *lang, http);
                run(&args).unwrap();
                assert!(args.folder.join("topoloom-plugin.yaml").is_file());
                let template = if http { Template::Listed } else { Template::Racks };
                let text = said(&args, Language::from(*lang), template, 7);
                let (_, next) = text.split_once("\nnext:\n").unwrap();
                assert_eq!(next.lines().count(), 3, "{text}");
                assert!(next.ends_with("\n  topoloom plugin build\n  topoloom plugin test\n"), "{text}");
            }
        }
    }

    #[test]
    fn the_words_of_the_flag_are_those_of_the_project_file() {
        for lang in LanguageArg::value_variants() {
            let word = lang.to_possible_value().unwrap();
            assert_eq!(word.get_name(), Language::from(*lang).word());
        }
    }

    #[test]
    fn a_folder_that_is_not_empty_is_refused() {
        let desk = tempfile::tempdir().unwrap();
        std::fs::write(desk.path().join("notes.txt"), "").unwrap();
        let refused = run(&args(desk.path().to_owned(), LanguageArg::C, false)).unwrap_err().to_string();
        assert!(refused.contains("is not empty, it has notes.txt"), "{refused}");
    }

    #[test]
    fn a_folder_is_one_word_of_a_shell() {
        for (path, wanted) in [("acme/racks-2.0", "acme/racks-2.0"), ("my racks", "'my racks'"), ("", "''")] {
            assert_eq!(word(path), wanted);
        }
    }
}
