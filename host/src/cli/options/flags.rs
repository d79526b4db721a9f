//! The flags of `run`, as the rest of this room sees them.

use clap::{Arg, ArgAction, Command};

use crate::config::location;
use crate::config::options_file::{OptionKey, Values};
use crate::nodelock::lock;

/// The verb that this room is about.
pub(in crate::cli) const VERB: &str = "run";
/// The flag that names the options file.
pub(super) const FILE: &str = "options";

/// Variables that had their names before ours did.
const ORIGINAL: [(&str, &str); 3] = [
    ("namespace", location::NAMESPACE_VARIABLE),
    ("release", location::RELEASE_VARIABLE),
    ("node-lock-timeout", lock::EXPIRE_VARIABLE),
];

/// Flags for which an empty text is a mistake, though they have no default of their own to begin with: Volcano's have one.
const NEVER_EMPTY: [&str; 1] = ["leader-elect-resource-namespace"];

/// One flag.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Flag {
    /// Its name without dashes.
    pub(in crate::cli) name: String,
    /// What clap calls it.
    pub(super) id: String,
    /// How many values it takes.
    pub(super) values: Values,
    /// Its default, as texts.
    pub(super) default: Vec<String>,
    pub(super) arg: Arg,
}

impl Flag {
    fn of(arg: &Arg) -> Option<Self> {
        let text = |value: &clap::builder::OsStr| value.to_string_lossy().into_owned();
        let many = matches!(arg.get_action(), ArgAction::Append);
        Some(Self {
            name: arg.get_long()?.to_owned(),
            id: arg.get_id().as_str().to_owned(),
            values: if many { Values::Many } else { Values::One },
            default: arg.get_default_values().iter().map(text).collect(),
            arg: arg.clone(),
        })
    }

    /// The variables that set it; the first that is there counts.
    pub(in crate::cli) fn variables(&self) -> Vec<String> {
        let original =
            ORIGINAL.iter().filter(|(flag, _)| *flag == self.name).map(|(_, variable)| (*variable).to_owned());
        std::iter::once(variable(&self.name)).chain(original).collect()
    }

    /// Whether an empty text says that nothing is given.
    pub(super) fn empty_is_nothing(&self) -> bool {
        self.default.is_empty() && !NEVER_EMPTY.contains(&self.name.as_str())
    }
}

/// The variable that sets a flag.
pub(in crate::cli) fn variable(flag: &str) -> String {
    format!("TOPOLOOM_{}", flag.to_ascii_uppercase().replace('-', "_"))
}

/// The verb with the flags that every verb has.
pub(super) fn only_run(command: &Command) -> Command {
    let run = command.find_subcommand(VERB).cloned().unwrap_or_default();
    Command::new("topoloom").args(command.get_arguments().cloned()).subcommand(run)
}

/// Every flag of `run`.
pub(in crate::cli) fn all(command: &Command) -> Vec<Flag> {
    let run = command.find_subcommand(VERB);
    let args = run.into_iter().flat_map(Command::get_arguments).chain(command.get_arguments());
    args.filter_map(Flag::of).collect()
}

/// What an options file may hold.
pub(in crate::cli) fn keys(flags: &[Flag]) -> Vec<OptionKey> {
    let here = flags.iter().filter(|flag| flag.name != FILE);
    here.map(|flag| OptionKey { name: flag.name.clone(), values: flag.values }).collect()
}
