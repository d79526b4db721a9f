//! Where the programs of the control plane come from.
//!
//! Where `KUBEBUILDER_ASSETS` names a folder with `etcd`, `kube-apiserver`, `kube-controller-manager`, `kube-scheduler` and
//! `kubectl`, those are used. Otherwise the Go module beside this crate is built, once.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

use crate::gomodule::{GoModule, LANGUAGE};

const SERVERS: GoModule = GoModule {
    folder: "controlplane",
    package: ".",
    name: "controlplane",
    // Without the version stamps nothing that parses a server or client version works.
    ldflags: "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3 \
              -X k8s.io/client-go/pkg/version.gitVersion=v1.36.3",
    holds: "etcd and Kubernetes",
    cost: "several minutes and 3 GB",
    instead: "set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler and \
              kubectl",
};
/// Of the same packages.
const KUBECTL: GoModule =
    GoModule { package: "./kubectl", name: "kubectl", holds: "kubectl", cost: "a minute", ..SERVERS };

/// The programs of the control plane, ready to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Programs {
    /// One binary with the servers, whose first argument names the program, and one with kubectl.
    Built {
        /// The servers.
        servers: PathBuf,
        /// kubectl.
        kubectl: PathBuf,
    },
    /// A folder with one binary per program.
    Folder(PathBuf),
}

impl Programs {
    /// The command that runs `program`.
    pub fn command(&self, program: &str) -> Command {
        let mut command = match self {
            Self::Built { kubectl, .. } if program == "kubectl" => Command::new(kubectl),
            Self::Built { servers, .. } => {
                let mut command = Command::new(servers);
                command.arg(program);
                command
            }
            Self::Folder(folder) => Command::new(folder.join(program)),
        };
        command.env(LANGUAGE.0, LANGUAGE.1);
        command
    }

    /// The same as words of a shell.
    pub fn in_a_shell(&self, program: &str) -> String {
        let command = self.command(program);
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let variables =
            variables.map(|(name, value)| format!("{}='{}'", name.to_string_lossy(), value.to_string_lossy()));
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words = words.map(|word| format!("'{}'", word.to_string_lossy()));
        let words: Vec<String> = std::iter::once("env".to_owned()).chain(variables).chain(words).collect();
        words.join(" ")
    }

    /// Whether the servers watch their standard input by themselves.
    pub(super) fn die_with_stdin(&self) -> bool {
        matches!(self, Self::Built { .. })
    }
}

/// Finds the programs, and builds them where there are none. Blocks, for minutes on the first call.
///
/// # Errors
///
/// One sentence that names what is missing or which build failed.
pub fn find_or_build() -> Result<Programs> {
    if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS").filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(folder);
        for program in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"] {
            if !folder.join(program).is_file() {
                bail!("KUBEBUILDER_ASSETS is {}, where there is no {program}", folder.display());
            }
        }
        return Ok(Programs::Folder(folder));
    }
    Ok(Programs::Built { servers: SERVERS.find_or_build()?, kubectl: KUBECTL.find_or_build()? })
}
