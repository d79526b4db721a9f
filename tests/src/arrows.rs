//! Which room of a library may use which: the rule that the compiler enforces between crates, within one crate.
//!
//! Two rooms that use each other are one room with two names: neither can be read, tested or moved alone. So every arrow
//! stands in `Rooms::allowed`, and the list is in the order of the rooms, from those that use nothing to those that use most:
//! an arrow that led back could not be written down. Crates of their own (`Rooms::below`) are below all rooms, and Cargo keeps
//! that. A large room has rooms of its own, with a list of their own.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// A crate, or a room of one, whose rooms are in order.
struct Rooms {
    /// Its sources.
    folder: &'static str,
    /// How a path to one of the rooms begins.
    root: &'static str,
    /// The rooms, and what each may use of those before it.
    allowed: &'static [(&'static str, &'static [&'static str])],
    /// What else has a name there: crates that the library uses as if they were rooms, and functions.
    below: &'static [&'static str],
}

const HOST: Rooms = Rooms {
    folder: "host/src",
    root: "crate::",
    allowed: &[
        ("traces", &[]),
        ("log", &["traces"]),
        ("config", &[]),
        ("topology", &[]),
        ("delivery", &["config"]),
        ("discovery", &["config", "topology", "delivery"]),
        ("manager", &["traces", "log", "config", "topology", "delivery", "discovery"]),
        ("cli", &["traces", "log", "config", "topology", "delivery", "discovery", "manager"]),
    ],
    below: &["authorities", "cluster", "endpoints", "extender", "nodelock", "plugin", "serving", "work"],
};

const OCI: Rooms = Rooms {
    folder: "host/src/delivery/oci",
    root: "crate::delivery::oci::",
    allowed: &[
        ("challenge", &[]),
        ("docker", &[]),
        ("error", &[]),
        ("place", &[]),
        ("login", &["docker"]),
        ("manifest", &["error"]),
        ("layout", &["login", "manifest"]),
        ("wire", &["error", "place", "login"]),
        ("client", &["challenge", "docker", "error", "place", "login", "manifest", "wire"]),
        ("upload", &["error", "place", "manifest", "wire", "client"]),
        ("watch", &["error", "client"]),
    ],
    below: &[],
};

const CORE: Rooms = Rooms {
    folder: "host/core/src",
    root: "crate::",
    allowed: &[
        ("address", &[]),
        ("certificate", &[]),
        // What models draw by, in tests alone.
        ("chance", &[]),
        ("controllers", &[]),
        ("near", &[]),
        ("queue", &[]),
        // Of the SDK: `sdk/src/rules.rs`.
        ("rules", &[]),
        ("seldom", &[]),
        ("size", &[]),
        ("text", &[]),
        ("version", &[]),
        ("limits", &["rules"]),
        ("election", &["version"]),
        ("names", &["rules"]),
        ("snapshot", &["near", "names"]),
        ("topology", &["limits", "rules", "version", "names", "snapshot"]),
        ("status", &["names", "snapshot", "topology"]),
        ("plugin", &["limits", "rules", "snapshot", "topology"]),
        ("nodelock", &["chance", "rules", "version", "names"]),
    ],
    below: &[],
};

const NODELOCK: Rooms = Rooms {
    folder: "host/nodelock/src",
    root: "crate::",
    allowed: &[
        ("crowd", &[]),
        ("options", &[]),
        ("pods", &[]),
        ("queue", &[]),
        ("wire", &[]),
        ("requests", &["pods", "wire"]),
        ("plugin", &["wire", "requests"]),
        ("view", &["options", "pods", "wire"]),
        ("carry", &["crowd", "wire", "requests", "view"]),
        ("lock", &["crowd", "options", "queue", "requests", "view", "carry"]),
        ("metrics", &["lock"]),
        ("sweeper", &["options", "carry", "metrics"]),
        ("extender", &["crowd", "options", "pods", "view", "lock", "metrics"]),
    ],
    // Functions of the crate itself.
    below: &["number", "random"],
};

const MANAGER: Rooms = Rooms {
    folder: "host/src/manager",
    root: "crate::manager::",
    allowed: &[
        ("debug", &[]),
        ("options", &[]),
        ("profile", &[]),
        ("standby", &[]),
        ("tasks", &[]),
        ("verbs", &[]),
        ("election", &["options"]),
        ("health", &["election"]),
        ("rights", &["options", "election"]),
        ("metrics", &["election", "health"]),
        ("admin", &["debug", "options", "profile", "health"]),
        ("config_watch", &["metrics"]),
        ("shared_locks", &["debug", "options", "health"]),
        ("sources", &["standby", "verbs"]),
        ("controller", &["debug", "options", "election", "health", "shared_locks"]),
        ("running", &["options", "tasks", "election", "controller"]),
        ("lending", &["debug", "tasks", "election", "health", "controller"]),
        ("syncer", &["options", "metrics", "controller", "lending"]),
        ("locks", &["tasks", "election", "shared_locks", "controller"]),
        (
            "hypernode",
            &[
                "debug",
                "options",
                "standby",
                "tasks",
                "verbs",
                "election",
                "health",
                "metrics",
                "admin",
                "config_watch",
                "sources",
                "controller",
            ],
        ),
    ],
    below: &[],
};

const SYNCER: Rooms = Rooms {
    folder: "host/syncer/src",
    root: "crate::",
    allowed: &[
        ("heartbeats", &[]),
        ("lanes", &[]),
        ("kubeconfig", &[]),
        ("slices", &[]),
        ("convert", &["heartbeats", "kubeconfig"]),
        ("ledger", &["slices"]),
        ("pod_state", &["slices"]),
        ("shared", &["slices", "pod_state"]),
        ("physical", &["kubeconfig", "shared"]),
        ("kubelet", &["slices", "physical"]),
        ("view", &["slices", "ledger"]),
        ("troubles", &[]),
        ("metrics", &["physical", "view", "troubles"]),
        ("nodes", &["slices", "ledger", "view", "troubles", "metrics"]),
        ("pods", &["slices", "pod_state", "view", "troubles", "metrics", "nodes"]),
        ("csi", &["slices", "ledger", "view", "troubles", "metrics", "nodes"]),
        ("ports", &["slices", "view", "troubles", "metrics", "nodes"]),
        ("feeds", &["slices", "shared", "ledger", "view", "pods"]),
        ("policies", &["convert", "shared", "ledger", "view", "troubles", "metrics", "feeds"]),
        (
            "group",
            &[
                "heartbeats",
                "slices",
                "shared",
                "ledger",
                "physical",
                "view",
                "nodes",
                "pods",
                "csi",
                "ports",
                "troubles",
                "feeds",
                "policies",
            ],
        ),
        (
            "bindings",
            &[
                "heartbeats",
                "convert",
                "kubeconfig",
                "slices",
                "shared",
                "ledger",
                "physical",
                "kubelet",
                "view",
                "nodes",
                "pods",
                "csi",
                "ports",
                "troubles",
                "metrics",
                "feeds",
                "policies",
                "group",
            ],
        ),
        ("survey", &["convert", "slices", "shared", "ledger", "view", "group", "bindings"]),
    ],
    below: &[],
};

const SYNC: Rooms = Rooms {
    folder: "host/core/sync/src",
    root: "crate::",
    allowed: &[
        ("drain", &[]),
        ("given", &[]),
        ("guard", &[]),
        ("liveness", &[]),
        ("phase", &[]),
        ("precondition", &[]),
        ("quantity", &[]),
        ("renewal", &[]),
        ("served", &[]),
        ("sorted", &[]),
        ("spread", &[]),
        ("texts", &[]),
        ("truth", &[]),
        ("wall", &[]),
        ("witness", &[]),
        ("bars", &["liveness"]),
        ("copied", &["texts"]),
        ("naming", &["texts"]),
        ("projection", &["phase"]),
        ("resources", &["quantity"]),
        ("selector", &["texts", "given"]),
        ("window", &["given"]),
        ("zone", &["given"]),
        ("identity", &["texts", "naming"]),
        ("orphaned", &["naming"]),
        ("requests", &["quantity", "resources"]),
        ("schedule", &["window", "zone"]),
        ("policy", &["texts", "given", "quantity", "resources", "truth", "selector", "window", "zone", "schedule"]),
        ("sizes", &["phase", "quantity", "sorted", "resources", "policy"]),
        ("conditions", &["texts", "truth", "sizes"]),
        ("summary", &["resources", "policy", "sizes"]),
        ("taints", &["copied"]),
        ("merge", &["texts", "copied", "taints"]),
        ("deletion", &["phase", "precondition", "bars", "merge"]),
        ("streams", &["naming", "identity"]),
        ("pods", &["phase", "precondition", "bars", "identity"]),
        ("csi", &["texts", "precondition", "bars", "naming", "identity"]),
        ("reclaim", &["texts", "phase", "wall", "taints", "merge", "policy", "deletion"]),
        (
            "node",
            &[
                "texts",
                "guard",
                "liveness",
                "phase",
                "precondition",
                "truth",
                "wall",
                "bars",
                "copied",
                "naming",
                "resources",
                "selector",
                "identity",
                "schedule",
                "policy",
                "sizes",
                "conditions",
                "summary",
                "taints",
                "merge",
                "deletion",
                "reclaim",
            ],
        ),
        ("ports", &["texts", "phase", "precondition", "bars", "naming", "identity", "deletion", "csi"]),
        (
            "release",
            &[
                "texts",
                "liveness",
                "precondition",
                "bars",
                "copied",
                "naming",
                "resources",
                "selector",
                "identity",
                "policy",
                "taints",
                "deletion",
                "pods",
                "node",
            ],
        ),
        // A test of them all.
        (
            "model",
            &[
                "texts",
                "guard",
                "liveness",
                "phase",
                "precondition",
                "quantity",
                "renewal",
                "witness",
                "bars",
                "copied",
                "naming",
                "projection",
                "resources",
                "selector",
                "identity",
                "policy",
                "sizes",
                "taints",
                "deletion",
                "pods",
                "reclaim",
                "node",
            ],
        ),
    ],
    // From topoloom-api.
    below: &["keys"],
};

const WORKSHOP: Rooms = Rooms {
    folder: "host/workshop/src",
    root: "crate::",
    allowed: &[
        ("node_file", &[]),
        ("nodes", &["node_file"]),
        ("existing", &[]),
        ("project", &[]),
        ("tools", &["project"]),
        ("templates", &["project", "tools"]),
        ("wit", &["project"]),
        ("adapter", &["wit"]),
        ("pack", &[]),
        ("build", &["project", "tools", "wit", "adapter", "pack"]),
        ("rounds", &["nodes"]),
        ("cases", &["node_file", "nodes", "existing", "rounds"]),
        ("bench", &["nodes", "rounds"]),
        ("kit", &["node_file", "nodes", "existing", "project", "pack", "rounds", "cases", "bench"]),
    ],
    below: &[],
};

const SIMULATOR: Rooms = Rooms {
    folder: "host/simulator/src",
    root: "crate::",
    allowed: &[
        ("value", &[]),
        ("fabric", &["value"]),
        ("fault", &["value"]),
        ("error", &["value"]),
        ("wire", &["fabric"]),
        ("server", &["fabric", "fault", "wire"]),
        ("document", &["fabric", "value", "wire", "server"]),
        ("ufm", &["fabric", "wire", "server"]),
        ("standalone", &["value", "fabric", "fault", "wire", "server", "document", "ufm"]),
    ],
    below: &[],
};

/// Looks at every source of the libraries whose rooms are in order.
///
/// # Errors
/// Names each arrow that is not allowed with the file that it begins in, and each room that the list does not know.
pub fn check(workspace: &Path) -> Result<()> {
    [HOST, MANAGER, OCI, CORE, NODELOCK, SIMULATOR, SYNC, SYNCER, WORKSHOP]
        .iter()
        .try_for_each(|rooms| rooms.check(workspace))
}

impl Rooms {
    fn check(&self, workspace: &Path) -> Result<()> {
        for (index, (room, uses)) in self.allowed.iter().enumerate() {
            let before = self.allowed.iter().take(index).map(|(room, _)| *room).collect::<Vec<_>>();
            ensure!(
                uses.iter().all(|used| before.contains(used)),
                "{room} may only use rooms that stand before it in the list"
            );
        }
        let root = workspace.join(self.folder);
        let mut wrong = BTreeSet::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry?.path();
                // Tests of a room may use what is above it.
                if path.file_stem().is_some_and(|stem| stem == "tests") {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("lib.rs") {
                    let file = path.strip_prefix(&root)?.display().to_string();
                    let text = std::fs::read_to_string(&path).with_context(|| file.clone())?;
                    wrong.extend(self.forbidden(&file, &text));
                }
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let wrong = wrong.into_iter().collect::<Vec<_>>().join("\n");
        bail!(
            "these arrows between rooms of {} are not in tests/src/arrows.rs; move what is used to the lower room:\n{wrong}",
            self.folder
        )
    }

    /// The arrows in a file of the library that are not allowed.
    fn forbidden(&self, file: &str, text: &str) -> Vec<String> {
        let room = file.split(['/', '.']).next().unwrap_or_default();
        let Some((_, uses)) = self.allowed.iter().find(|(known, _)| *known == room) else {
            return vec![format!("{file}: {room} is no room in the list")];
        };
        let mut used = used(text, self.root);
        if !file.contains('/') {
            used.extend(used_beside(text));
        }
        let is_wrong =
            |used: &String| used != room && !uses.contains(&used.as_str()) && !self.below.contains(&used.as_str());
        used.into_iter().filter(is_wrong).map(|used| format!("{file}: {room} uses {used}")).collect()
    }
}

/// The first word of every import that a file beside the root begins with `super`: that is the root, too.
fn used_beside(text: &str) -> BTreeSet<String> {
    let imports = text.lines().filter_map(|line| line.strip_prefix("pub ").unwrap_or(line).strip_prefix("use super::"));
    imports
        .flat_map(|rest| rest.strip_prefix('{').map_or_else(|| word(rest).into_iter().collect(), first_words))
        .collect()
}

/// The first word of every path that begins at the root, outside of comments.
fn used(text: &str, root: &str) -> BTreeSet<String> {
    let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let starts = code.match_indices(root).filter(|(at, _)| {
        let before = code.get(..*at).and_then(|before| before.chars().next_back());
        before.is_none_or(|before| !before.is_alphanumeric() && before != '_' && before != '$')
    });
    let mut words = BTreeSet::new();
    for (at, start) in starts {
        let rest = code.get(at + start.len()..).unwrap_or_default();
        match rest.strip_prefix('{') {
            Some(group) => words.extend(first_words(group)),
            None => words.extend(word(rest)),
        }
    }
    words
}

/// The items at the top level of a group such as `log, work::{Key, Work}}`.
fn first_words(group: &str) -> Vec<String> {
    let (mut depth, mut words, mut begins) = (0_usize, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            c if begins && !c.is_whitespace() => {
                words.extend(group.get(at..).and_then(word));
                begins = false;
            }
            _ => {}
        }
    }
    words
}

/// The word at the beginning, if it is the name of a module: types and functions of the root belong to no room.
fn word(text: &str) -> Option<String> {
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    word.starts_with(|c: char| c.is_lowercase()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_that_is_not_allowed_is_found_however_it_is_written() {
        for text in [
            "use crate::manager::health::Check;",
            "use crate::{cluster, manager};",
            "use crate::{\n    cluster::{Reason, Refusal},\n    manager::health,\n};",
            "fn f() -> crate::manager::Options {}",
            "    use crate::manager;",
        ] {
            assert_eq!(
                HOST.forbidden("topology/apply.rs", text),
                ["topology/apply.rs: topology uses manager"],
                "{text}"
            );
        }
    }

    #[test]
    fn a_file_beside_the_root_has_the_root_above_it() {
        let text = "use super::lock::Options;\nmod tests {\n    use super::carry;\n}\n";
        assert_eq!(NODELOCK.forbidden("view.rs", text), ["view.rs: view uses lock"]);
        assert_eq!(NODELOCK.forbidden("view/index.rs", text), [""; 0]);
    }

    #[test]
    fn rooms_of_a_room_are_in_order_too() {
        for text in
            ["use super::health::Health;", "use super::{admin, election};", "use crate::manager::health::Health;"]
        {
            assert_eq!(MANAGER.forbidden("election.rs", text).len(), 1, "{text}");
        }
        assert_eq!(MANAGER.forbidden("election.rs", "use crate::cluster::Check;\nuse super::Error;"), [""; 0]);
    }

    #[test]
    fn what_is_allowed_and_what_is_no_arrow_is_not_found() {
        for text in [
            "use crate::cluster::Refusal;\nuse crate::topology::convert;\nuse crate::config::{self, manager};",
            "//! [`crate::manager`] says more.\n    // crate::manager",
            "use topoloom_crate::manager; macro_rules! m { () => { $crate::manager::f() } }",
        ] {
            assert_eq!(HOST.forbidden("discovery.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_room_that_is_not_in_the_list_is_found() {
        assert_eq!(HOST.forbidden("shed.rs", ""), ["shed.rs: shed is no room in the list"]);
    }
}
