//! The plugin that a verb is about: a file, or what a project builds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use topoloom_core::plugin::Limits;
use topoloom_workshop::build::build;
use topoloom_workshop::project::{Language, Project};

use super::file::PluginFile;
use super::watch::Files;
use crate::cli::print;

/// Where cases are beside a plugin file: its author has them in the folder that he works in.
const CASES: &str = "cases";

/// What a verb is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// A component, packed with zstd or not.
    File(PathBuf),
    /// The folder of a project.
    Project(PathBuf),
}

/// A component, and what its project says of it.
pub(super) struct Component {
    /// Where it is.
    pub(super) file: PathBuf,
    /// Its bytes, unpacked.
    pub(super) bytes: Arc<[u8]>,
    /// What it may use, if a project says so.
    pub(super) limits: Option<Limits>,
    /// The folder of its cases.
    pub(super) cases: PathBuf,
}

impl Target {
    /// A path of the command line.
    pub(super) fn at(path: &Path) -> Self {
        if path.is_dir() { Self::Project(path.to_owned()) } else { Self::File(path.to_owned()) }
    }

    /// The component; that of a project is built, and what the tools say goes to standard error.
    pub(super) fn component(&self) -> anyhow::Result<Component> {
        match self {
            Self::File(file) => {
                let bytes = PluginFile::read(file)?.bytes;
                Ok(Component { file: file.clone(), bytes, limits: None, cases: PathBuf::from(CASES) })
            }
            Self::Project(root) => {
                let project = Project::read(root)?;
                let file = if is_fresh(&project) {
                    project.root.join(&project.output)
                } else {
                    build(&project, &mut |line| print::error(&line.to_string()))?.file
                };
                // A build writes the limits that it finds to be needed.
                let project = Project::read(root)?;
                let bytes = PluginFile::read(&file)?.bytes;
                Ok(Component { file, bytes, limits: Some(project.limits.applied()), cases: project.cases })
            }
        }
    }

    /// The files that it is made of, as they are now.
    pub(super) fn files(&self) -> Files {
        match self {
            Self::File(file) => Files::of(std::slice::from_ref(file), &[]),
            // A project file with a mistake is a file like others: when it is saved, it is read again.
            Self::Project(root) => Project::read(root)
                .map_or_else(|_| Files::of(std::slice::from_ref(root), &[]), |project| sources(&project)),
        }
    }
}

/// Everything in the folder of a project but what is built, and cases, which are not built from.
fn sources(project: &Project) -> Files {
    let output = project.root.join(&project.output);
    Files::of(std::slice::from_ref(&project.root), &[output, project.cases.clone()])
}

/// Whether a component is there that is newer than all that it is made of. Cargo knows that better, and of more.
fn is_fresh(project: &Project) -> bool {
    let built = std::fs::metadata(project.root.join(&project.output)).and_then(|found| found.modified());
    match (built, sources(project).newest()) {
        (Ok(built), Some(newest)) => project.language != Language::Rust && built > newest,
        _ => false,
    }
}
