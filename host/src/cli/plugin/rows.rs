//! What several verbs show of a component, in two columns.

use std::collections::BTreeMap;

use topoloom_workshop::build::Need;
use topoloom_workshop::pack::{ROOM, TooLarge};
use topoloom_workshop::project::Limits;

/// A name and what it is.
pub(super) fn row(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), value.to_owned()]
}

/// One row for each, of which the first one has the name.
pub(super) fn list(name: &str, values: impl Iterator<Item = String>) -> Vec<Vec<String>> {
    values.enumerate().map(|(at, value)| row(if at == 0 { name } else { "" }, &value)).collect()
}

/// Interfaces, each with the functions (`interface#function`) that are used of it.
pub(super) fn by_interface<'a>(interfaces: &'a [String], functions: &'a [String]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut imports: BTreeMap<&str, Vec<&str>> =
        interfaces.iter().map(|import| (import.as_str(), Vec::new())).collect();
    for (interface, function) in functions.iter().filter_map(|name| name.split_once('#')) {
        imports.entry(interface).or_default().push(function);
    }
    imports
}

/// The same as rows.
pub(super) fn imports(interfaces: &[String], functions: &[String]) -> Vec<Vec<String>> {
    let shown = by_interface(interfaces, functions).into_iter().map(|(interface, functions)| {
        if functions.is_empty() { interface.to_owned() } else { format!("{interface}: {}", functions.join(", ")) }
    });
    list("imports", shown)
}

/// Whether a ConfigMap has room for it, and what else can be done.
pub(super) fn config_map(packed: usize) -> Vec<String> {
    let said = if packed <= ROOM {
        format!("has room for it: {packed} bytes packed, of {ROOM}")
    } else {
        TooLarge { packed }.to_string()
    };
    row("ConfigMap", &said)
}

/// The limits that it needs beside those that its project asks for, the line for its entry first.
pub(super) fn needs(need: &Need, asked: &Limits) -> Vec<Vec<String>> {
    let limits = need.added_to(asked).unwrap_or_else(|| asked.clone());
    if need.rows.is_empty() && limits.is_usual() {
        return vec![row("limits", "the usual ones are enough")];
    }
    let line = if limits.is_usual() { None } else { Some(format!("its entry needs `limits: {limits}`")) };
    let beyond = need.beyond().map(|row| format!("no entry can allow this: {row}"));
    list("limits", line.into_iter().chain(need.rows.iter().map(ToString::to_string)).chain(beyond))
}

#[cfg(test)]
mod tests {
    use super::*;
    use topoloom_core::plugin::{Amount, Limit};

    fn text(rows: &[Vec<String>]) -> Vec<String> {
        rows.iter().map(|row| row.join("|")).collect()
    }

    #[test]
    fn interfaces_come_with_the_functions_that_are_used() {
        let interfaces = ["a", "b"].map(str::to_owned);
        let functions = ["b#x", "b#y"].map(str::to_owned);
        assert_eq!(text(&imports(&interfaces, &functions)), ["imports|a", "|b: x, y"]);
        assert_eq!(imports(&[], &[]), Vec::<Vec<String>>::new());
    }

    #[test]
    fn a_component_that_is_too_large_comes_with_what_can_be_done() {
        assert_eq!(config_map(9), row("ConfigMap", "has room for it: 9 bytes packed, of 1032192"));
        assert!(config_map(2 << 20).join(" ").contains("deliver it in a volume"));
    }

    #[test]
    fn limits_are_a_line_for_the_entry_and_the_reasons() {
        let need = |measures: &[(Limit, Amount)]| Need::of(&measures.iter().copied().collect());
        let needs = |need: &Need| needs(need, &Limits::default());
        assert_eq!(text(&needs(&need(&[]))), ["limits|the usual ones are enough"]);
        let large = text(&needs(&need(&[(Limit::File, Amount::mib(18)), (Limit::Modules, Amount::Count(40))])));
        assert_eq!(large[0], "limits|its entry needs `limits: {profile: large}`");
        assert!(large[1].starts_with("|The file, uncompressed (`file`): 18Mi"), "{large:?}");
        assert_eq!(large.len(), 3);
        let never = text(&needs(&need(&[(Limit::Operands, Amount::Count(2_000))])));
        assert!(never[1].starts_with("|no entry can allow this: "), "{never:?}");
    }

    #[test]
    fn what_a_project_asks_for_is_in_the_line_though_it_was_not_measured_this_time() {
        let mut asked = Limits::default();
        asked.set(Limit::CompileCpu, Amount::seconds(40));
        let line = |need: &Need| text(&needs(need, &asked)).remove(0);
        assert_eq!(line(&Need::default()), "limits|its entry needs `limits: {compileCpu: 40s}`");
        let large = Need::of(&[(Limit::Modules, Amount::Count(17))].into());
        assert_eq!(line(&large), "limits|its entry needs `limits: {profile: large, compileCpu: 40s}`");
    }
}
