//! The list of verbs in `topoloom --help`, grouped by what a person wants to do.

use clap::Command;

/// What a person wants to do, and the verbs for it. Each verb is in exactly one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Install and run", &["preflight", "crd", "config", "run"]),
    ("See the state of a cluster", &["status", "tree", "explain", "plan", "fabric"]),
    ("Act on a cluster", &["confirm", "source", "plugin", "lock", "read-only"]),
    ("Lend nodes to another cluster", &["lend"]),
    ("Try without a cluster", &["discover"]),
    ("Find a fault in the host", &["debug"]),
    ("Shell and manual", &["completions", "man", "help"]),
];

/// The template of the help of the program, for clap.
pub(super) fn template(command: &Command) -> String {
    let mut text = "{before-help}{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    let width = GROUPS.iter().flat_map(|(_, verbs)| *verbs).map(|verb| verb.len()).max().unwrap_or(0);
    for (wish, verbs) in GROUPS {
        push!(text, "\n{wish}:\n");
        for verb in *verbs {
            push_line!(text, "  {verb:width$}  {}", about(command, verb));
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}

/// The summary of a verb. `help` is made by clap, and only when it parses.
fn about(command: &Command, verb: &str) -> String {
    let found = command.find_subcommand(verb).and_then(Command::get_about);
    found.map_or_else(|| "Print this help, or the help of a verb".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_is_in_one_group_and_its_summary_fits_into_a_line() {
        let command = crate::cli::command();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, verbs)| *verbs).copied().collect();
        grouped.sort_unstable();
        let mut known: Vec<&str> = command.get_subcommands().map(Command::get_name).chain(["help"]).collect();
        known.sort_unstable();
        assert_eq!(grouped, known);
        let template = template(&command);
        let long: Vec<&str> = template.lines().filter(|line| line.chars().count() > 110).collect();
        assert!(long.is_empty(), "{long:#?}");
    }

    #[test]
    fn help_shows_the_groups() {
        let help = crate::cli::command().render_help().to_string();
        for (wish, verbs) in GROUPS {
            let listed = format!("\n{wish}:\n  {} ", verbs[0]);
            assert!(help.contains(&listed), "{listed:?} is not in {help}");
        }
        assert!(help.contains("\nOptions:\n"), "{help}");
    }
}
