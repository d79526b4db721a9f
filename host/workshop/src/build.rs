//! From a project to its component.
//!
//! Owns the order of a build: the tool of the language or the project's own command, the wrapping of a core module with its
//! world and with the adapter in place of WASI, what the component says about its making, and what was measured of it. The
//! same source gives the same component where the tool allows that ([`Repeat`]): tools get no date, no seed and no path of
//! this machine.
//!
//! | file | idea |
//! |---|---|
//! | `tool.rs` | one tool at work |
//! | [`wrap`](mod@wrap) | from a core module to a component |
//! | `stamp.rs` | what a component says about its making |
//! | `source.rs` | the files of a source and their digest |
//! | [`need`] | which limits a component needs |
//!
//! Never runs the component: a caller that has a sandbox loads it, and adds what that takes to [`Built::measures`]. Never
//! decides which tools there are: that is the room [`tools`].
//!
//! # Failure story
//!
//! A tool that is missing is named with the line that installs it, before anything is started. A tool that fails has said why;
//! the component of an earlier build stays where it is. A component that no host takes is written all the same, with the
//! reason in [`Built::refused`], so that a vendor can look at it.

mod names;
pub mod need;
mod source;
mod stamp;
mod tool;
pub mod wrap;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use topoloom_core::limits::{Amount, Limit};
use topoloom_core::plugin::Digest;
use topoloom_sandbox::plugin::measure;

use crate::adapter::Stubbed;
use crate::project::{FILE, Language, Project, ProjectError, WORK, with_limits};
use crate::tools::{self, MissingTools, Product, Search, Sources};
use crate::wit;

pub use need::{Need, Row};
pub use source::{SourceError, is_of_tools};
pub use tool::Stop;
pub use wrap::{WrapError, Wrapped};

use source::Files;
use stamp::Stamp;
use tool::Output;

/// What a command of the project gets in its environment: the folder with the files of the interface.
pub const WIT_VARIABLE: &str = "TOPOLOOM_WIT";

/// The same: the world of what the project uses.
pub const WORLD_VARIABLE: &str = "TOPOLOOM_WORLD";

/// The same: a place for a module or a component. The command may write `output` of the project file as well.
pub const OUTPUT_VARIABLE: &str = "TOPOLOOM_OUTPUT";

/// The largest module or component that is read: a host takes half of it.
const LARGEST: u64 = 64 << 20;

/// What a build says while it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// What happens next.
    Step(String),
    /// A line of a tool.
    Tool(String),
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "topoloom: {step}"),
            Self::Tool(line) => f.write_str(line),
        }
    }
}

/// Whether the same source gives the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// With the same tools and dependencies, on every machine.
    Equal,
    /// It does not, and why.
    Differs(&'static str),
    /// That depends on the command of the project.
    Unknown,
}

/// A component that was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The file.
    pub file: PathBuf,
    /// Its identity.
    pub digest: Digest,
    /// Bytes.
    pub raw: usize,
    /// Every function that it imports, as `interface#function`.
    pub imports: Vec<String>,
    /// The functions of WASI preview 1 that its module imports, and what they do.
    pub stubbed: Stubbed,
    /// Whether it was a module without a world.
    pub embedded: bool,
    /// The digest of the source, for a project.
    pub source: Option<Digest>,
    /// Tools and their versions.
    pub tools: Vec<(String, String)>,
    /// Whether the same source gives the same bytes.
    pub repeat: Repeat,
    /// What it has of each limit. Without a sandbox nothing is known of its memory and of what compiling it takes.
    pub measures: BTreeMap<Limit, Amount>,
    /// Why no host takes it, whatever its limits are.
    pub refused: Option<String>,
}

/// Why there is no component.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// What is to be built is not there.
    #[error(transparent)]
    Project(#[from] ProjectError),
    /// Tools that cannot be used.
    #[error(transparent)]
    Tools(#[from] MissingTools),
    /// A tool that could not be started.
    #[error("{tool} cannot be started")]
    Start {
        /// Which.
        tool: String,
        /// Why.
        source: io::Error,
    },
    /// A tool that ended with a failure; it has said why.
    #[error("{tool} failed ({status}); what it printed is above")]
    Failed {
        /// Which.
        tool: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// Nothing came out.
    #[error(
        "{tool} ended well, and there is no {}; a command of `build` in {FILE} writes a core module or a component there, or to the \
         place in ${OUTPUT_VARIABLE}", .wanted.display()
    )]
    Nothing {
        /// Which tool.
        tool: String,
        /// Where it was looked for.
        wanted: PathBuf,
    },
    /// A file or a folder.
    #[error("{} cannot be {what}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Larger than any plugin.
    #[error("{} has more than {LARGEST} bytes, the most that is read", .path.display())]
    TooLarge {
        /// Which file.
        path: PathBuf,
    },
    /// The module cannot become a component.
    #[error("{} cannot become a component", .path.display())]
    Wrap {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: WrapError,
    },
    /// Its bytes are no component after all.
    #[error("{}: {message}", .path.display())]
    Broken {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The files of the project.
    #[error(transparent)]
    Source(#[from] SourceError),
}

impl Built {
    /// Which limits it needs, by all that was measured.
    #[must_use]
    pub fn need(&self) -> Need {
        Need::of(&self.measures)
    }

    /// What a sandbox found out.
    pub fn measured(&mut self, limit: Limit, amount: Amount) {
        self.measures.insert(limit, amount);
    }
}

/// Builds a project.
///
/// # Errors
/// The first step that failed, in words. The component of an earlier build is not touched then.
pub fn build(project: &Project, say: &mut dyn FnMut(Line)) -> Result<Built, BuildError> {
    build_into(project, &project.output, say)
}

/// The same, with the component in another place than `output` of the project file, where its own command still writes.
///
/// # Errors
/// As [`build`].
pub fn build_into(project: &Project, output: &Path, say: &mut dyn FnMut(Line)) -> Result<Built, BuildError> {
    run(project, output, None, say)
}

/// The same as [`build`], until it is stopped: then it ends soon, with an error, and no tool is left.
///
/// # Errors
/// As [`build`].
pub fn build_until(project: &Project, stop: &Stop, say: &mut dyn FnMut(Line)) -> Result<Built, BuildError> {
    run(project, &project.output, Some(stop), say)
}

fn run(project: &Project, output: &Path, stop: Option<&Stop>, say: &mut dyn FnMut(Line)) -> Result<Built, BuildError> {
    // Tools are started in the folder: a path must mean the same there.
    let (project, output) = (&absolute(project)?, &absolute_path(output)?);
    let before = Files::of(project, output)?;
    let work = project.root.join(WORK);
    prepare(project, &work)?;
    let language = Some(project.language);
    let Some(command) = &project.build else {
        let made = by_tool(project, &work, stop, say)?;
        let source = Some(before.built(Files::of(project, output)?).digest());
        return finish(made, Finish { output, language, source, repeat: repeat(project.language) }, say);
    };
    let earlier = Earlier::aside(&project.output, &work)?;
    let built = by_command(project, command, &work, stop, say).and_then(|made| {
        let source = Some(before.built(Files::of(project, output)?).digest());
        finish(made, Finish { output, language, source, repeat: Repeat::Unknown }, say)
    });
    // By any path to it.
    let is_there = || output.canonicalize().ok() == project.output.canonicalize().ok();
    earlier.end(built.is_ok() && is_there())?;
    built
}

/// Whether the component of the project was built of its present source. What stands outside of the folder, such as the version of a
/// tool, is not looked at: [`build`] is.
#[must_use]
pub fn is_fresh(project: &Project) -> bool {
    let source = absolute(project).ok().and_then(|project| Files::of(&project, &project.output).ok());
    let built = read(&project.output).ok();
    built.zip(source).is_some_and(|(component, source)| stamp::is_of(&component, source.digest()))
}

/// Makes a component of a file alone: wraps a core module, and says about a component what a build says.
///
/// # Errors
/// As [`build`].
pub fn wrap_file(file: &Path, output: &Path, say: &mut dyn FnMut(Line)) -> Result<Built, BuildError> {
    let made = Made { bytes: read(file)?, from: file.to_owned(), tools: Vec::new() };
    finish(made, Finish { output, language: None, source: None, repeat: Repeat::Equal }, say)
}

/// A line that a project file needs for its component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The line.
    pub line: String,
    /// Whether the file has it now. Otherwise it has a form in which a line more is not all that would change, such as JSON.
    pub is_written: bool,
}

/// Writes into the project file which limits the component needs, where the project does not ask for them yet. Nothing where it
/// does. The file stays as it is where it would not be read as the same project with these limits.
///
/// # Errors
/// A file that cannot be read or written.
pub fn settle(project: &Project, need: &Need) -> Result<Option<Settled>, BuildError> {
    let Some(limits) = need.added_to(&project.limits) else { return Ok(None) };
    let failed = |source| BuildError::File { path: project.root.join(FILE), what: "read", source };
    // A link to the file stays one.
    let path = project.root.join(FILE).canonicalize().map_err(failed)?;
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    let line = format!("limits: {limits}");
    let written = with_limits(&text, &limits);
    let wanted = Project { limits, ..project.clone() };
    let is_written = Project::parse(&project.root, &written).is_ok_and(|read| read == wanted);
    if is_written {
        write(&path, written.as_bytes())?;
    }
    Ok(Some(Settled { line, is_written }))
}

/// What a tool has left.
struct Made {
    bytes: Vec<u8>,
    from: PathBuf,
    tools: Vec<(String, String)>,
}

/// What is known beside it.
struct Finish<'a> {
    output: &'a Path,
    language: Option<Language>,
    source: Option<Digest>,
    repeat: Repeat,
}

fn absolute_path(path: &Path) -> Result<PathBuf, BuildError> {
    std::path::absolute(path).map_err(|source| BuildError::File { path: path.to_owned(), what: "found", source })
}

fn absolute(project: &Project) -> Result<Project, BuildError> {
    let root = absolute_path(&project.root)?;
    let (output, cases) = (absolute_path(&project.output)?, absolute_path(&project.cases)?);
    Ok(Project { root, output, cases, ..project.clone() })
}

/// The folder for what is no result, with the files of the interface. It hides itself from version control.
fn prepare(project: &Project, work: &Path) -> Result<(), BuildError> {
    let wit = work.join("wit");
    let failed = |source| BuildError::File { path: work.to_owned(), what: "written", source };
    wit::write(&wit, &project.uses).map_err(failed)?;
    std::fs::write(work.join(".gitignore"), "*\n").map_err(failed)
}

/// The tool of the language.
fn by_tool(project: &Project, work: &Path, stop: Option<&Stop>, say: &mut dyn FnMut(Line)) -> Result<Made, BuildError> {
    let found = tools::find_all(tools::of(project.language), &Search::of(&project.root))?;
    let (source, wit, output) = (project.source()?, work.join("wit"), work.join("made.wasm"));
    let sources = Sources { root: &project.root, source: &source, wit: &wit, world: wit::NARROW, output: &output };
    let recipe = tools::recipe(project.language, &sources);
    let (Some(first), Some(recipe)) = (found.first(), recipe) else {
        // Only `other` has none, and it cannot be read without a command.
        return Err(BuildError::Nothing { tool: project.language.name().to_owned(), wanted: project.output.clone() });
    };
    let mut command = first.command();
    command.args(&recipe.arguments);
    match project.language {
        Language::Rust => {
            let variable = |name: &str| std::env::var(name).ok();
            tool::rust_flags(&mut command, &project.root, tool::cargo_home().as_deref(), variable);
        }
        Language::C => _ = command.args(tool::c_flags(&project.root)),
        Language::Python | Language::JavaScript | Language::Other => {}
    }
    let name = first.tool.name;
    remove(&output)?;
    say(Line::Step(format!("{name} {} builds {}", first.version, shown(project, &source))));
    let is_cargo = matches!(recipe.product, Product::ModuleOfCargo(_));
    let said = start(&mut command, name, project, if is_cargo { Output::Read } else { Output::Shown }, stop, say)?;
    let from = match recipe.product {
        Product::Component(place) | Product::Module(place) => place,
        Product::ModuleOfCargo(folder) => tool::module_of_cargo(&said)
            .ok_or_else(|| BuildError::Nothing { tool: name.to_owned(), wanted: folder.join("*.wasm") })?,
    };
    let nothing = || BuildError::Nothing { tool: name.to_owned(), wanted: from.clone() };
    let bytes = found_at(&from)?.ok_or_else(nothing)?;
    let tools = found.iter().filter(|found| !found.version.is_empty());
    let tools = tools.map(|found| (found.tool.name.to_owned(), found.version.clone())).collect();
    Ok(Made { bytes, from, tools })
}

/// The component of an earlier build, out of the way of the project's own command: one that does nothing must not be taken for one
/// that has built.
struct Earlier<'a> {
    /// Where it was.
    output: &'a Path,
    /// Where it is meanwhile.
    aside: PathBuf,
    is_there: bool,
}

impl<'a> Earlier<'a> {
    /// Puts it there. One that is there already is of a build that was ended in the middle: it comes back first, and what stands in its
    /// place, if anything, is what the command had written by then.
    fn aside(output: &'a Path, work: &Path) -> Result<Self, BuildError> {
        let aside = work.join("earlier.wasm");
        let is_left = aside.is_file();
        let is_there = is_left || rename(output, &aside)?;
        if is_left {
            remove(output)?;
        }
        Ok(Self { output, aside, is_there })
    }

    /// It is of no use any more where another one is in its place. Otherwise it comes back.
    fn end(self, is_replaced: bool) -> Result<(), BuildError> {
        if is_replaced || !self.is_there {
            return remove(&self.aside);
        }
        rename(&self.aside, self.output)?;
        Ok(())
    }
}

/// The project's own command. It writes `output` itself, or to a place that it gets.
fn by_command(
    project: &Project,
    text: &str,
    work: &Path,
    stop: Option<&Stop>,
    say: &mut dyn FnMut(Line),
) -> Result<Made, BuildError> {
    let place = work.join("made.wasm");
    remove(&place)?;
    let mut command = Command::new("sh");
    command.args(["-c", text]);
    let wit = work.join("wit");
    command.env(WIT_VARIABLE, &wit).env(WORLD_VARIABLE, wit::NARROW).env(OUTPUT_VARIABLE, &place);
    let name = format!("the command `build` of {FILE}");
    say(Line::Step(format!("{name} builds in {}", project.root.display())));
    start(&mut command, &name, project, Output::Shown, stop, say)?;
    for from in [&place, &project.output] {
        if let Some(bytes) = found_at(from)? {
            return Ok(Made { bytes, from: from.clone(), tools: Vec::new() });
        }
    }
    Err(BuildError::Nothing { tool: name, wanted: project.output.clone() })
}

/// Runs a tool, and takes anything but success for a failure.
fn start(
    command: &mut Command,
    tool: &str,
    project: &Project,
    output: Output,
    stop: Option<&Stop>,
    say: &mut dyn FnMut(Line),
) -> Result<Vec<String>, BuildError> {
    tool::surround(command, &project.root);
    let ran = tool::run(command, output, stop, say);
    let (status, said) = ran.map_err(|source| BuildError::Start { tool: tool.to_owned(), source })?;
    if status.success() { Ok(said) } else { Err(BuildError::Failed { tool: tool.to_owned(), status }) }
}

/// From what a tool has left to the file that is delivered, and what is known of it.
fn finish(made: Made, about: Finish<'_>, say: &mut dyn FnMut(Line)) -> Result<Built, BuildError> {
    let Made { bytes, from, tools } = made;
    let wrapped = if wrap::is_component(&bytes) {
        Wrapped { component: bytes, stubbed: Stubbed::new(), embedded: false }
    } else {
        say(Line::Step(format!("the core module of {} bytes becomes a component", bytes.len())));
        let module = names::readable(&bytes);
        wrap::wrap(&module).map_err(|source| BuildError::Wrap { path: from.clone(), source })?
    };
    let stamp = Stamp { language: about.language, source: about.source, tools: tools.clone() };
    let component =
        stamp.add_to(&wrapped.component).map_err(|message| BuildError::Broken { path: from.clone(), message })?;
    write(about.output, &component)?;
    let (anatomy, judged) = measure(&component);
    Ok(Built {
        file: about.output.to_owned(),
        digest: Digest::of(&component),
        raw: component.len(),
        imports: anatomy.functions,
        stubbed: wrapped.stubbed,
        embedded: wrapped.embedded,
        source: about.source,
        tools,
        repeat: about.repeat,
        measures: anatomy.measures,
        refused: judged.err().map(|error| error.to_string()),
    })
}

/// Whether the built-in build of a language gives the same bytes every time.
fn repeat(language: Language) -> Repeat {
    match language {
        Language::Rust | Language::C => Repeat::Equal,
        Language::Python => Repeat::Differs(
            "componentize-py starts the interpreter while it builds, with randomness that it takes from the machine",
        ),
        Language::JavaScript => {
            Repeat::Differs("the tool starts the engine while it builds, with a clock and randomness of the machine")
        }
        Language::Other => Repeat::Unknown,
    }
}

/// A path as a person in the folder would write it.
fn shown(project: &Project, path: &Path) -> String {
    path.strip_prefix(&project.root).unwrap_or(path).display().to_string()
}

fn read(path: &Path) -> Result<Vec<u8>, BuildError> {
    use std::io::Read as _;
    let failed = |source| BuildError::File { path: path.to_owned(), what: "read", source };
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > LARGEST { Err(BuildError::TooLarge { path: path.to_owned() }) } else { Ok(bytes) }
}

/// The same, if there is such a file.
fn found_at(path: &Path) -> Result<Option<Vec<u8>>, BuildError> {
    match read(path) {
        Err(BuildError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Writes a whole file or nothing: beside its place first.
fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildError> {
    let failed = |source| BuildError::File { path: path.to_owned(), what: "written", source };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!(".{name}.new"));
    std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(&beside, path)).map_err(failed)
}

/// Moves a file; whether there was one.
fn rename(from: &Path, to: &Path) -> Result<bool, BuildError> {
    match std::fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(BuildError::File { path: from.to_owned(), what: "moved", source }),
    }
}

/// Removes a file that may be there.
fn remove(path: &Path) -> Result<(), BuildError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(BuildError::File { path: path.to_owned(), what: "removed", source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
