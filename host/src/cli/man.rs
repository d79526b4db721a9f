//! `topoloom man DIR`: the manual, one page for each verb, made from the same declarations as the help.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};
use clap_mangen::Man;

use super::print;

/// Flags of `man`.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The folder for the pages: man1 of a MANPATH, for example ~/.local/share/man/man1; created if missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes every page.
pub(super) fn run(args: &ManArgs, command: Command) -> anyhow::Result<ExitCode> {
    let folder = args.folder.as_path();
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let pages = pages(command);
    for page in &pages {
        write(folder, page)?;
    }
    print::out(&format!(
        "{} pages are in {}; man {}/topoloom.1 shows the first\n",
        pages.len(),
        folder.display(),
        folder.display()
    ));
    Ok(ExitCode::SUCCESS)
}

fn write(folder: &Path, page: &Man) -> anyhow::Result<()> {
    let path = folder.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(&path, text).with_context(|| path.display().to_string())
}

/// A page for the command and for every verb below it, the innermost too.
fn pages(command: Command) -> Vec<Man> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let (mut pages, mut open) = (Vec::new(), vec![command]);
    while let Some(command) = open.pop() {
        open.extend(command.get_subcommands().cloned());
        pages.push(Man::new(command).manual("topoloom"));
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every verb as it is typed, with the names of its flags.
    fn verbs(command: &Command, before: &str, found: &mut Vec<(String, Vec<String>)>) {
        let name = format!("{before}{}", command.get_name());
        let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
        found.push((name.clone(), flags.filter_map(|arg| arg.get_long().map(str::to_owned)).collect()));
        command.get_subcommands().for_each(|verb| verbs(verb, &format!("{name}-"), found));
    }

    #[test]
    fn every_verb_has_a_page_with_all_of_its_flags() {
        let folder = tempfile::tempdir().unwrap();
        let args = ManArgs { folder: folder.path().join("man1") };
        run(&args, crate::cli::command()).unwrap();
        let mut wanted = Vec::new();
        verbs(&crate::cli::command(), "", &mut wanted);
        assert!(wanted.iter().any(|(name, _)| name == "topoloom-plugin-inspect"), "{wanted:?}");
        for (name, flags) in &wanted {
            let page = std::fs::read_to_string(args.folder.join(format!("{name}.1")));
            let page = page.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{name}: {page}");
            for flag in flags {
                let flag = format!("\\-\\-{}", flag.replace('-', "\\-"));
                assert!(page.contains(&flag), "{name} does not name {flag}");
            }
        }
        assert_eq!(std::fs::read_dir(&args.folder).unwrap().count(), wanted.len());
    }
}
