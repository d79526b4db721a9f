//! Whether what a plugin sends *means* something: offsets, positions and row numbers lead somewhere, counts and lengths are within
//! their bounds. Whether a topology is valid (forest, tiers, names) is another room's question.
//!
//! Stops at the first thing that is wrong: what comes after it was never looked at.

use std::fmt;

use super::answer::{Answer, Diagnostic, Group, Level, Members, Selector, Subject, Topology};
use super::bounds::Bound;
use super::broken::Short;
use super::names::is_label_key;

/// What an answer is measured against.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// The nodes that the plugin saw.
    pub rows: u32,
    /// Bytes of state.
    pub state: usize,
    /// Whether the plugin was given a state: only then there is something that can be unchanged.
    pub had_state: bool,
}

/// The first thing that is wrong with what a plugin sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Malformed {
    /// There is more of something than its bound.
    TooMuch {
        /// Which bound.
        bound: Bound,
        /// What there is, with both numbers.
        what: String,
    },
    /// The state is too large.
    State {
        /// The limit, in bytes.
        limit: usize,
    },
    /// It does not have the form that the interface requires.
    Invalid(String),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooMuch { what, .. } => write!(f, "the plugin exceeded a limit: {what}"),
            Self::State { limit } => write!(f, "the state of the answer is larger than {limit} bytes"),
            Self::Invalid(what) => write!(f, "the answer is not valid: {what}"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Whether there are few enough of something, in a cluster of so many nodes.
///
/// # Errors
///
/// Both numbers.
pub fn at_most(bound: Bound, what: &str, count: usize, nodes: usize) -> Result<(), Malformed> {
    let most = bound.of_nodes(nodes);
    if count <= most {
        return Ok(());
    }
    Err(Malformed::TooMuch { bound, what: format!("it has {count} {what} and may have {most}") })
}

/// Whether a text is short enough to be looked at.
///
/// # Errors
///
/// Both lengths.
pub fn short(what: &str, text: &str) -> Result<(), Malformed> {
    no_longer(Bound::Text, what, text)
}

fn no_longer(bound: Bound, what: &str, text: &str) -> Result<(), Malformed> {
    let (length, most) = (text.len(), bound.of_nodes(0));
    if length <= most {
        return Ok(());
    }
    Err(Malformed::TooMuch { bound, what: format!("{what} is {length} bytes long, at most {most} are read") })
}

fn invalid(what: String) -> Malformed {
    Malformed::Invalid(what)
}

/// Looks at the form of an answer.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn check(said: &Answer<'_>, form: &Form) -> Result<(), Malformed> {
    if said.state > form.state {
        return Err(Malformed::State { limit: form.state });
    }
    match &said.topology {
        None if form.had_state => Ok(()),
        None => Err(invalid("it answers `unchanged`, but has no state of an earlier answer".to_owned())),
        Some(topology) => check_topology(topology, form.rows),
    }
}

fn check_topology(said: &Topology<'_>, rows: u32) -> Result<(), Malformed> {
    let Topology { levels, groups, diagnostics } = said;
    let nodes = rows as usize;
    at_most(Bound::Groups, "groups", groups.len(), nodes)?;
    at_most(Bound::Groups, "levels", levels.len(), nodes)?;
    at_most(Bound::Diagnostics, "diagnostics", diagnostics.len(), nodes)?;
    for Level { tier: _, tier_name, kind } in levels {
        short("a tier name", tier_name.unwrap_or_default())?;
        short("a kind", kind.unwrap_or_default())?;
    }
    at_most(Bound::Members, "members", groups.iter().map(|group| group.members.count()).sum(), nodes)?;
    let spoken_of = |said: &Diagnostic<'_>| match said.subject {
        Subject::Rows(rows) => rows.len(),
        Subject::Outside | Subject::Group(_) => 0,
    };
    at_most(Bound::Members, "rows in diagnostics", diagnostics.iter().map(spoken_of).sum(), nodes)?;
    for (position, said) in groups.iter().enumerate() {
        check_group(position, said, levels.len(), groups.len(), rows)?;
    }
    diagnostics.iter().try_for_each(|said| check_diagnostic(said, groups.len(), rows))
}

fn check_group(position: usize, said: &Group<'_>, levels: usize, groups: usize, rows: u32) -> Result<(), Malformed> {
    let Group { id, level, labels, members, fixed_name } = said;
    if *level as usize >= levels {
        return Err(invalid(format!("group {position} is of level {level} and there are {levels} levels")));
    }
    short("a group id", id)?;
    short("a fixed name", fixed_name.unwrap_or_default())?;
    at_most(Bound::Labels, "labels in one group", labels.len(), 0)?;
    for (key, value) in labels {
        short("a label key", key)?;
        short("a label value", value)?;
    }
    match members {
        Members::Rows(numbers) => in_range(numbers, rows as usize)
            .map_err(|row| invalid(format!("group {position} has node row {row} and there are {rows} nodes"))),
        Members::Groups(positions) => in_range(positions, groups)
            .map_err(|member| invalid(format!("group {position} has group {member} and there are {groups} groups"))),
        Members::Packed(names) => {
            let entries = names.entries();
            let mut names = entries.map_err(|what| invalid(format!("the names of group {position}: {what}")))?;
            names.try_for_each(|name| short("a member name", name))
        }
        Members::Names(names) => names.iter().try_for_each(|name| short("a member name", name)),
        Members::Selector(said) => check_selector(position, said),
    }
}

fn check_selector(position: usize, said: &Selector<'_>) -> Result<(), Malformed> {
    let Selector { labels, requirements } = said;
    let count = labels.len().saturating_add(requirements.len());
    at_most(Bound::Selector, "requirements in one selector", count, 0)?;
    let values = requirements.iter().map(|requirement| requirement.values.len()).sum();
    at_most(Bound::SelectorValues, "values in one selector", values, 0)?;
    for text in labels.iter().flat_map(|(key, value)| [*key, *value]) {
        short("a text of a selector", text)?;
    }
    for requirement in requirements {
        short("a text of a selector", requirement.key)?;
        requirement.values.iter().try_for_each(|value| short("a text of a selector", value))?;
    }
    let mut keys: Vec<&str> = labels.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.len() != labels.len() {
        return Err(invalid(format!("the selector of group {position} has a label key twice")));
    }
    Ok(())
}

fn check_diagnostic(said: &Diagnostic<'_>, groups: usize, rows: u32) -> Result<(), Malformed> {
    short("a diagnostic code", said.code)?;
    match said.subject {
        Subject::Outside => Ok(()),
        Subject::Rows(numbers) => in_range(numbers, rows as usize)
            .map_err(|row| invalid(format!("a diagnostic names node row {row} and there are {rows} nodes"))),
        Subject::Group(position) => in_range(&[position], groups)
            .map_err(|position| invalid(format!("a diagnostic names group {position} and there are {groups} groups"))),
    }
}

/// The first number that is not below the bound. Most lists are short and right, so it looks for the largest first.
fn in_range(numbers: &[u32], bound: usize) -> Result<(), u32> {
    match numbers.iter().max() {
        Some(&largest) if largest as usize >= bound => Err(largest),
        _ => Ok(()),
    }
}

/// What `configure` asks for, as far as its form is looked at.
#[derive(Debug)]
pub struct Wishes<'a> {
    /// Label keys.
    pub node_labels: &'a [String],
    /// Annotation keys.
    pub node_annotations: &'a [String],
    /// Endpoints.
    pub endpoints: Vec<WishedEndpoint<'a>>,
    /// How many triggers.
    pub triggers: usize,
}

/// One endpoint among them.
#[derive(Debug)]
pub struct WishedEndpoint<'a> {
    /// Its name.
    pub name: &'a str,
    /// URLs, or namespace, name and key of a ConfigMap.
    pub located: Vec<&'a str>,
    /// How many methods.
    pub methods: usize,
    /// Path prefixes.
    pub paths: &'a [String],
    /// How many kinds of credential.
    pub credentials: usize,
    /// The name on its certificate.
    pub server_name: Option<&'a str>,
    /// Its certificates.
    pub ca_bundle: Option<&'a str>,
}

/// Looks at the form of what `configure` asks for: each column costs four bytes per node for as long as the source runs.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn check_wishes(said: &Wishes<'_>) -> Result<(), Malformed> {
    let Wishes { node_labels, node_annotations, endpoints, triggers } = said;
    at_most(Bound::Requirements, "required node labels", node_labels.len(), 0)?;
    at_most(Bound::Requirements, "required node annotations", node_annotations.len(), 0)?;
    at_most(Bound::Endpoints, "endpoints", endpoints.len(), 0)?;
    at_most(Bound::Endpoints, "triggers", *triggers, 0)?;
    for key in node_labels.iter().chain(*node_annotations) {
        if let Err(rule) = is_label_key(key) {
            return Err(invalid(format!("it asks for the node label or annotation {}: {rule}", Short(key))));
        }
    }
    endpoints.iter().try_for_each(check_endpoint)
}

fn check_endpoint(said: &WishedEndpoint<'_>) -> Result<(), Malformed> {
    let WishedEndpoint { name, located, methods, paths, credentials, server_name, ca_bundle } = said;
    at_most(Bound::Requirements, "URLs of one endpoint", located.len(), 0)?;
    at_most(Bound::Requirements, "methods of one endpoint", *methods, 0)?;
    at_most(Bound::Requirements, "paths of one endpoint", paths.len(), 0)?;
    at_most(Bound::Requirements, "kinds of credential of one endpoint", *credentials, 0)?;
    let texts = located.iter().copied().chain(paths.iter().map(String::as_str)).chain(*server_name).chain([*name]);
    for text in texts {
        short("a text of an endpoint", text)?;
    }
    no_longer(Bound::Bundle, "a bundle of certificates", ca_bundle.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::answer::Packed;
    use super::*;

    const FORM: Form = Form { rows: 4, state: 100, had_state: false };

    fn group<'a>(id: &'a str, members: Members<'a>) -> Group<'a> {
        Group { id, level: 0, labels: Vec::new(), members, fixed_name: None }
    }

    fn answer(groups: Vec<Group<'_>>) -> Answer<'_> {
        let levels = vec![Level { tier: 1, tier_name: None, kind: None }];
        Answer { topology: Some(Topology { levels, groups, diagnostics: Vec::new() }), state: 0 }
    }

    fn refused(said: &Answer<'_>) -> String {
        check(said, &FORM).unwrap_err().to_string()
    }

    #[test]
    fn what_leads_nowhere_is_refused() {
        let packed = |text, ends| answer(vec![group("a", Members::Packed(Packed { text, ends }))]);
        assert!(check(&answer(vec![group("a", Members::Rows(&[0, 3]))]), &FORM).is_ok());
        for (said, words) in [
            (answer(vec![group("a", Members::Rows(&[0, 4]))]), "group 0 has node row 4 and there are 4 nodes"),
            (answer(vec![group("a", Members::Groups(&[1]))]), "group 0 has group 1 and there are 1 groups"),
            (
                answer(vec![Group { level: 1, ..group("a", Members::Rows(&[0])) }]),
                "group 0 is of level 1 and there are 1 levels",
            ),
            (
                packed("aä", &[1, 2]),
                "the names of group 0: entry 1 ends at 2, which is no character boundary of 3 bytes",
            ),
            (packed("ab", &[2, 1]), "the names of group 0: entry 1 ends at 1, before it begins at 2"),
            (packed("ab", &[1]), "the names of group 0: the last entry ends at 1 and the text has 2 bytes"),
            (Answer { topology: None, state: 0 }, "it answers `unchanged`, but has no state of an earlier answer"),
        ] {
            assert_eq!(refused(&said), format!("the answer is not valid: {words}"));
        }
        assert!(check(&Answer { topology: None, state: 0 }, &Form { had_state: true, ..FORM }).is_ok());
    }

    #[test]
    fn what_is_beyond_a_bound_is_refused_with_both_numbers() {
        let long = "x".repeat(4097);
        let labels = vec![("k", "v"); 65];
        for (said, words) in [
            (answer((0..109).map(|_| group("a", Members::Rows(&[0]))).collect()), "it has 109 groups and may have 108"),
            (answer(vec![group(&long, Members::Rows(&[0]))]), "a group id is 4097 bytes long, at most 4096 are read"),
            (
                answer(vec![Group { labels, ..group("a", Members::Rows(&[0])) }]),
                "it has 65 labels in one group and may have 64",
            ),
        ] {
            assert_eq!(refused(&said), format!("the plugin exceeded a limit: {words}"));
        }
        assert_eq!(refused(&Answer { topology: None, state: 101 }), "the state of the answer is larger than 100 bytes");
    }

    #[test]
    fn wishes_are_few_and_are_keys() {
        let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        let wishes = |labels: &[String]| {
            let said = Wishes { node_labels: labels, node_annotations: &[], endpoints: Vec::new(), triggers: 0 };
            check_wishes(&said).map_err(|error| error.to_string())
        };
        assert_eq!(wishes(&keys(&["a", "ex.io/b"])), Ok(()));
        let words = "the answer is not valid: it asks for the node label or annotation \"\": must not be empty";
        assert_eq!(wishes(&keys(&[""])), Err(words.to_owned()));
        let words = "the plugin exceeded a limit: it has 65 required node labels and may have 64";
        assert_eq!(wishes(&keys(&["a"; 65])), Err(words.to_owned()));
    }
}
