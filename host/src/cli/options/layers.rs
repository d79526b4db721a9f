//! Texts out of the three layers, and what clap says about each of them alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::{Resettable, ValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, ArgMatches, Command};

use super::flags::{self, Flag};
use super::given::{Given, LayerValues, Origin};
use crate::config::options_file::{self, OptionsFile};

/// Longest value of any flag, in bytes: more than a path may have, and less than a sentence can be asked to carry.
const MAX_VALUE: usize = 4096;

/// What Volcano's Deployment has as the last argument of its container. A shell would take it; there is none.
const REDIRECTION: &str = "2>&1";

/// What layers are read from.
pub(in crate::cli) struct Outside<'a> {
    /// The environment.
    pub(in crate::cli) variables: BTreeMap<String, OsString>,
    /// Reads the options file.
    pub(in crate::cli) read: &'a dyn Fn(&Path) -> Result<String, String>,
}

/// What a command line is.
pub(in crate::cli) enum Reading {
    /// Another verb.
    Other,
    /// Words that no flag explains, or a request for help: the error prints itself.
    Usage(clap::Error),
    /// `run`: the matches of its flags, and what was given. If there are mistakes, defaults replace invalid values.
    Run(Box<(ArgMatches, Given)>),
}

/// Reads a command line with everything that goes with it.
pub(in crate::cli) fn read(command: &Command, arguments: &[OsString], outside: &Outside<'_>) -> Reading {
    let (words, redirections): (Vec<_>, Vec<_>) = arguments.iter().partition(|word| *word != REDIRECTION);
    let texts = match texts(command.clone()).try_get_matches_from(words) {
        Ok(matches) => matches,
        // Help is printed as it is declared, with defaults and variables.
        Err(error) if is_answer(error.kind()) => return Reading::Other,
        Err(error) => return Reading::Usage(error),
    };
    let Some((flags::VERB, texts)) = texts.subcommand() else { return Reading::Other };
    let flags = flags::all(command);
    let mut given = Given::default();
    if !redirections.is_empty() {
        given.odd(format!(
            "the argument {REDIRECTION} has no effect: no shell reads it, and the log goes to standard error anyway"
        ));
    }
    let line = command_line(&flags, texts, &mut given);
    let variables = variables(&flags, &outside.variables, &mut given);
    let path = line.get(flags::FILE).or_else(|| variables.get(flags::FILE)).and_then(|setting| setting.values.last());
    let file = path.map(|path| load(Path::new(path), &flags, outside, &mut given)).unwrap_or_default();
    settle(command, &flags, vec![line, variables, file], given)
}

/// Reads an options file alone, as if nothing else were set.
pub(in crate::cli) fn read_file(command: &Command, path: &Path, file: OptionsFile) -> Reading {
    let mut given = Given::default();
    let flags = flags::all(command);
    let layer = settings_of(path, &flags, file, &mut given);
    settle(command, &flags, vec![layer], given)
}

type Layer = BTreeMap<String, LayerValues>;

/// The command with flags that take any text, so that everything can be collected before anything is judged.
fn texts(command: Command) -> Command {
    let text = |arg: clap::Arg| {
        arg.value_parser(ValueParser::os_string())
            .action(ArgAction::Append)
            .env(Resettable::Reset)
            .default_value(Resettable::Reset)
            .value_delimiter(None)
    };
    command.mut_args(text).mut_subcommand(flags::VERB, |run| run.mut_args(text))
}

fn is_answer(kind: ErrorKind) -> bool {
    use ErrorKind::{DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, DisplayVersion};
    matches!(kind, DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand | DisplayVersion)
}

fn command_line(flags: &[Flag], matches: &ArgMatches, given: &mut Given) -> Layer {
    let mut layer = Layer::new();
    for flag in flags {
        let Ok(Some(values)) = matches.try_get_raw(&flag.id) else { continue };
        let values = values.map(|value| value.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
        put(&mut layer, flag, Origin::CommandLine, values, given);
    }
    layer
}

fn variables(flags: &[Flag], variables: &BTreeMap<String, OsString>, given: &mut Given) -> Layer {
    let mut layer = Layer::new();
    for flag in flags {
        let names = flag.variables();
        let mut here = names.into_iter().filter_map(|name| Some((variables.get(&name)?, name)));
        let Some((value, name)) = here.find(|(value, _)| !value.is_empty()) else { continue };
        let values = value.to_str().map(|value| vec![value.to_owned()]);
        put(&mut layer, flag, Origin::Variable(name), values, given);
    }
    for name in variables.keys() {
        let Some(unknown) = name.strip_prefix("TOPOLOOM_") else { continue };
        let unknown = unknown.to_ascii_lowercase().replace('_', "-");
        let names = || flags.iter().map(|flag| flag.name.as_str());
        if names().any(|name| name == unknown) {
            continue;
        }
        // Kubernetes itself sets such variables for a Service `topoloom`, so one that is unknown is no mistake.
        if let Some(near) = topoloom_core::near::nearest(&unknown, names().filter(|name| name.len() > 4)) {
            let meant = flags::variable(near);
            given.odd(format!("the environment variable {name} has no effect; did you mean {meant}?"));
        }
    }
    layer
}

fn load(path: &Path, flags: &[Flag], outside: &Outside<'_>, given: &mut Given) -> Layer {
    let read = (outside.read)(path)
        .and_then(|text| options_file::parse(&text, &flags::keys(flags)).map_err(|error| error.to_string()));
    match read {
        Ok(file) => settings_of(path, flags, file, given),
        Err(message) => {
            given.wrong(format!("--options {}: {message}", path.display()));
            Layer::new()
        }
    }
}

fn settings_of(path: &Path, flags: &[Flag], file: OptionsFile, given: &mut Given) -> Layer {
    let mut layer = Layer::new();
    for problem in &file.problems {
        given.wrong(format!("{} {problem}", path.display()));
    }
    for setting in file.settings {
        let Some(flag) = flags.iter().find(|flag| flag.name == setting.name) else { continue };
        let origin = Origin::File { path: PathBuf::from(path), line: setting.line };
        put(&mut layer, flag, origin, Some(setting.values), given);
    }
    layer
}

/// Puts values into a layer, if they are texts of a sane length. Empty ones are left out where they mean nothing.
fn put(layer: &mut Layer, flag: &Flag, origin: Origin, values: Option<Vec<String>>, given: &mut Given) {
    let Some(mut values) = values else {
        given.broken(&flag.name, &LayerValues { origin, values: Vec::new() }, "is not UTF-8 text");
        return;
    };
    values.retain(|value| !value.is_empty() || !flag.empty_is_nothing());
    if values.is_empty() {
        return;
    }
    let setting = LayerValues { origin, values };
    if setting.values.iter().any(|value| value.len() > MAX_VALUE || value.contains('\0')) {
        given.broken(&flag.name, &setting, format!("must be at most {MAX_VALUE} bytes, and none of them zero"));
        return;
    }
    layer.insert(flag.name.clone(), setting);
}

/// Judges every value of every layer alone, and parses what counts.
fn settle(command: &Command, flags: &[Flag], layers: Vec<Layer>, mut given: Given) -> Reading {
    let bare = |arg: clap::Arg| arg.env(Resettable::Reset);
    let typed = flags::only_run(command).mut_args(bare).mut_subcommand(flags::VERB, |run| run.mut_args(bare));
    for (flag, setting) in layers.iter().flatten() {
        for value in &setting.values {
            if let Err(error) = typed.clone().try_get_matches_from(["topoloom", flags::VERB, &word(flag, value)]) {
                let alone = LayerValues { origin: setting.origin.clone(), values: vec![value.clone()] };
                given.broken(flag, &alone, reason(&error));
            }
        }
    }
    let mut words = vec!["topoloom".to_owned(), flags::VERB.to_owned()];
    for flag in flags {
        let mut values_by_layer: Vec<LayerValues> =
            layers.iter().filter_map(|layer| layer.get(&flag.name)).cloned().collect();
        if let Some(setting) = values_by_layer.first().filter(|_| !given.broken.contains(&flag.name)) {
            let count = match flag.values {
                options_file::Values::One => 1,
                options_file::Values::Many => setting.values.len(),
            };
            let counted = setting.values.iter().skip(setting.values.len().saturating_sub(count));
            words.extend(counted.map(|value| word(&flag.name, value)));
        }
        values_by_layer.push(LayerValues { origin: Origin::Default, values: flag.default.clone() });
        given.settings.insert(flag.name.clone(), values_by_layer);
    }
    match typed.try_get_matches_from(words) {
        Ok(mut matches) => match matches.remove_subcommand() {
            Some((_, matches)) => Reading::Run(Box::new((matches, given))),
            None => Reading::Other,
        },
        Err(error) => Reading::Usage(error),
    }
}

fn word(flag: &str, value: &str) -> String {
    format!("--{flag}={value}")
}

/// What clap says about one value, without the value and without advice.
fn reason(error: &clap::Error) -> String {
    if let Some(source) = std::error::Error::source(error) {
        return source.to_string();
    }
    match error.get(ContextKind::ValidValue) {
        Some(ContextValue::Strings(words)) => format!("must be {}", words.join(" or ")),
        _ => error.kind().to_string(),
    }
}
