//! The plugin that a verb is about: a file, what a project builds, or an artifact of a registry or of a folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use topoloom_core::plugin::{Limit, LimitSetting, Limits};
use topoloom_core::text;
use topoloom_workshop::build::{Line, Settled, Stop, build, build_until, is_fresh, settle};
use topoloom_workshop::project::{FILE, Language, Project};

use super::file::PluginFile;
use super::place::{PluginPlace, RegistryArgs};
use super::watch::Files;
use crate::cli::desk::bytes_of;
use crate::cli::print;

/// Where cases are beside a plugin that is no project: its author has them in the folder that he works in.
const CASES: &str = "cases";
/// The longest line of a tool, in bytes.
const TOOL: usize = 4 << 10;

/// What is said of a project file that needs a line and does not get it from a build.
pub(super) const BY_HAND: &str =
    "needs a line, which you must add: a build writes it only where all else stays as it is";

/// What a verb is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A component, packed with zstd or not.
    Made(PluginPlace),
    /// The folder of a project.
    Project(PathBuf),
}

/// A component, and what its project says of it.
pub(super) struct Component {
    /// Where it is, for messages.
    pub(super) place: String,
    /// Its bytes, unpacked.
    pub(super) bytes: Arc<[u8]>,
    /// What it may use, if a project says so.
    pub(super) limits: Option<Limits>,
    /// The folder of its cases.
    pub(super) cases: PathBuf,
}

impl Target {
    /// What a person writes: the path of a folder is a project.
    pub(super) fn at(place: &PluginPlace) -> Self {
        match place {
            PluginPlace::File(path) if path.is_dir() => Self::Project(path.clone()),
            place => Self::Made(place.clone()),
        }
    }

    /// The component; that of a project is built, and what the tools say goes to standard error.
    pub(super) async fn component(&self, registry: &RegistryArgs) -> anyhow::Result<Component> {
        self.component_until(registry, None).await
    }

    /// The same. A build that is stopped leaves no tool behind.
    pub(super) async fn component_until(
        &self,
        registry: &RegistryArgs,
        stop: Option<&Stop>,
    ) -> anyhow::Result<Component> {
        match self {
            Self::Made(place) => {
                let bytes = bytes_of(place, registry).await?;
                Ok(Component { place: place.to_string(), bytes, limits: None, cases: PathBuf::from(CASES) })
            }
            Self::Project(root) => {
                let (root, stop) = (root.clone(), stop.cloned());
                // Tools work for minutes, and Ctrl-C is heard meanwhile.
                tokio::task::spawn_blocking(move || built(&root, stop.as_ref())).await?
            }
        }
    }

    /// The component, where it is a file and nothing is built.
    pub(super) fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::Made(PluginPlace::File(file)) => Some(file),
            Self::Made(PluginPlace::Registry(_) | PluginPlace::Layout(_)) | Self::Project(_) => None,
        }
    }

    /// The files that it is made of, as they are now.
    pub(super) fn files(&self) -> Files {
        match self {
            Self::Made(PluginPlace::File(file)) => Files::of(std::slice::from_ref(file), &[]),
            // Nothing is saved there: it is pulled again when another file is.
            Self::Made(PluginPlace::Registry(_) | PluginPlace::Layout(_)) => Files::default(),
            // A project file with a mistake is a file like others: when it is saved, it is read again.
            Self::Project(root) => Project::read(root)
                .map_or_else(|_| Files::of(std::slice::from_ref(root), &[]), |project| sources(&project)),
        }
    }
}

/// The component of a project, which is built if it is of another source.
fn built(root: &Path, stop: Option<&Stop>) -> anyhow::Result<Component> {
    let mut project = Project::read(root)?;
    if is_current(&project) {
        let output = project.output.display();
        print::error(&format!("topoloom: not built: {output} is of the source as it is"));
    } else {
        let built = match stop {
            Some(stop) => build_until(&project, stop, &mut say)?,
            None => build(&project, &mut say)?,
        };
        if let Some(Settled { line, is_written }) = settle(&project, &built.need())? {
            let what = if is_written { "has a new line" } else { BY_HAND };
            print::error(&format!("topoloom: {FILE} {what}: {line}"));
            project = Project::read(root)?;
        }
    }
    let bytes = PluginFile::read(&project.output)?.bytes;
    let limits = Some(project.limits.applied());
    Ok(Component { place: project.output.display().to_string(), bytes, limits, cases: project.cases })
}

/// Prints what a build says. Tools are programs of others: nothing of their lines moves a cursor.
pub(super) fn say(line: Line) {
    match line {
        Line::Step(_) => print::error(&line.to_string()),
        Line::Tool(line) => print::error(&text::line(&line, TOOL)),
    }
}

/// At a desk the time of a compile is no one else's: it has as much as an entry can give.
pub(super) fn patient(mut limits: Limits) -> Limits {
    if let LimitSetting::Entry { high, .. } = Limit::CompileCpu.row().setting {
        limits.set(Limit::CompileCpu, high);
    }
    limits
}

/// Everything in the folder of a project but what is built, and cases, which are not built from.
fn sources(project: &Project) -> Files {
    Files::of(std::slice::from_ref(&project.root), &[project.output.clone(), project.cases.clone()])
}

/// Whether the component need not be built. Of Rust cargo knows that better, and of more than the folder.
fn is_current(project: &Project) -> bool {
    project.language != Language::Rust && is_fresh(project)
}
