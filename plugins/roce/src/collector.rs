//! The collector's script, run by the shell of this machine with stand-ins for lldpcli and curl. The discoverer reads what
//! it writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::Roce;
use crate::config::ANNOTATION;
use tempfile::TempDir;
use topoloom_sdk::testing::Cluster;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples/roce-collector/collect.sh");
const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples/roce-collector/collector.yaml");
const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples/roce-collector/policy.yaml");
const NEIGHBOURS: &str = include_str!("../seeds/two-interfaces.json0");
const SUMMARY: &str = include_str!("../seeds/summary.json0");
const TOKEN: &str = "tok-5ecret";

/// A node with its programs, in a directory.
struct Machine {
    root: TempDir,
}

/// How a run ended, and what it said.
struct Run {
    succeeded: bool,
    said: String,
}

impl Machine {
    fn new() -> Self {
        let machine = Self { root: TempDir::new().unwrap() };
        machine
            .program("lldpcli", "cat \"$ROOT/neighbours$([ \"${7:-}\" = summary ] && echo -summary)\" 2>/dev/null\n");
        // Keeps what would go over the network, and answers with the status that the test wants.
        machine.program(
            "curl",
            r#"cat >"$ROOT/config"
printf '%s\n' "$@" >"$ROOT/arguments"
for argument; do
  case $argument in @*) cp "${argument#@}" "$ROOT/sent" ;; esac
done
echo . >>"$ROOT/calls"
while [ "$#" -gt 1 ]; do
  [ "$1" = --output ] && echo '{"message": "denied by the policy"}' >"$2"
  shift
done
cat "$ROOT/status"
"#,
        );
        machine.write("status", "200");
        machine.write("account/token", TOKEN);
        machine.write("neighbours", NEIGHBOURS);
        machine.write("neighbours-summary", SUMMARY);
        for (name, kind, state, device) in [
            ("rdma0", "1", "up", true),
            ("rdma9", "1", "up", true),
            ("rdma1", "1", "down", true),
            ("br0", "1", "up", false),
            ("ib0", "32", "up", true),
        ] {
            machine.write(&format!("net/{name}/type"), kind);
            machine.write(&format!("net/{name}/operstate"), state);
            if device {
                machine.write(&format!("net/{name}/device"), "");
            }
        }
        machine
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.root.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn program(&self, name: &str, text: &str) {
        self.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}"));
        fs::set_permissions(self.path(&format!("bin/{name}")), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// One look.
    fn look(&self) -> Run {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        let output = Command::new("sh")
            .args([SCRIPT, "once"])
            .env_clear()
            .env("PATH", path)
            .env("ROOT", self.root.path())
            .env("NODE_NAME", "gpu-a017")
            .env("STATE_DIR", self.path("state"))
            .env("NET_DIR", self.path("net"))
            .env("ACCOUNT_DIR", self.path("account"))
            .env("KUBERNETES_SERVICE_HOST", "fd00::1")
            .env("KUBERNETES_SERVICE_PORT", "6443")
            .output()
            .unwrap();
        Run { succeeded: output.status.success(), said: String::from_utf8(output.stderr).unwrap() }
    }

    /// Looks, and wants it to end well.
    fn looks(&self) {
        let run = self.look();
        assert!(run.succeeded, "{}", run.said);
    }

    /// How many times something was sent.
    fn calls(&self) -> usize {
        self.read("calls").lines().count()
    }

    /// The annotation that was sent last.
    fn annotation(&self) -> String {
        let patch: serde_json::Value = serde_json::from_str(&self.read("sent")).unwrap();
        let annotations = patch["metadata"]["annotations"].as_object().unwrap();
        assert_eq!((patch.as_object().unwrap().len(), annotations.len()), (1, 1), "nothing but the annotation");
        annotations["topoloom.dev/fabric-links"].as_str().unwrap().to_owned()
    }
}

#[test]
fn the_neighbours_of_a_node_place_it() {
    // The script asks the machine for the time.
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let machine = Machine::new();
    machine.looks();
    let entry = machine.annotation();
    let cluster = ["gpu-a017", "gpu-a018"].iter().fold(Cluster::new().at(now()), |cluster, node| {
        cluster.node(node, []).annotation("topoloom.dev/fabric-links", &entry.replace("gpu-a017", node))
    });
    let shown = cluster.show(&cluster.discover::<Roce>("{}").unwrap());
    assert!(shown.contains("| gpu-a017 gpu-a018 | said leaf-su2-r0\n"), "{shown}");
    assert!(shown.contains("! no-neighbour | gpu-a017 gpu-a018 | link up, no neighbour: rdma9"), "{shown}");
}

#[test]
fn the_token_is_no_argument_and_the_request_is_for_the_own_node() {
    let machine = Machine::new();
    machine.looks();
    let arguments = machine.read("arguments");
    assert!(!arguments.contains(TOKEN), "{arguments}");
    assert!(machine.read("config").contains(&format!("Bearer {TOKEN}")));
    assert!(arguments.contains("https://[fd00::1]:6443/api/v1/nodes/gpu-a017?"), "{arguments}");
    assert!(arguments.contains("PATCH\n") && arguments.contains("application/merge-patch+json"), "{arguments}");
}

#[test]
fn what_did_not_change_is_not_written_again() {
    let machine = Machine::new();
    machine.looks();
    machine.looks();
    // Every look finds the neighbours older.
    machine.write("neighbours", &NEIGHBOURS.replace("0 day, 00:00:00", "3 days, 02:11:09"));
    machine.looks();
    assert_eq!(machine.calls(), 1);
    machine.write("neighbours", &NEIGHBOURS.replace("bb:01", "bb:07"));
    machine.looks();
    assert_eq!(machine.calls(), 2);
    machine.write("net/rdma1/operstate", "up");
    machine.looks();
    assert_eq!(machine.calls(), 3);
    assert!(machine.annotation().contains(r#""upInterfaces":["rdma0","rdma1","rdma9"]"#), "{}", machine.annotation());
}

#[test]
fn what_did_not_change_is_written_again_after_six_hours_less_some() {
    let machine = Machine::new();
    machine.looks();
    let due: u64 = machine.read("state/due").trim().parse().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((now + 16_000..=now + 21_700).contains(&due), "{due} at {now}");
    machine.write("state/due", &(now - 1).to_string());
    machine.looks();
    assert_eq!(machine.calls(), 2);
}

#[test]
fn a_refused_write_is_reported_and_tried_again() {
    let machine = Machine::new();
    machine.write("status", "403");
    let run = machine.look();
    assert!(!run.succeeded);
    assert!(run.said.contains("status 403") && run.said.contains("denied by the policy"), "{}", run.said);
    machine.write("status", "200");
    machine.looks();
    assert_eq!(machine.calls(), 2);
}

#[test]
fn without_usable_neighbours_nothing_is_written() {
    for output in ["", "<html>", "lldpcli: unable to connect to socket"] {
        let machine = Machine::new();
        machine.write("neighbours", output);
        let run = machine.look();
        assert!(!run.succeeded && run.said.contains("is lldpd up?"), "{}", run.said);
        assert_eq!(machine.calls(), 0, "{output}");
    }
    // A node without neighbours publishes that.
    let machine = Machine::new();
    machine.write("neighbours", include_str!("../seeds/no-neighbour.json0"));
    machine.looks();
    assert_eq!(machine.calls(), 1);
}

#[test]
fn a_too_long_entry_is_shortened_or_refused() {
    let machine = Machine::new();
    let long = NEIGHBOURS.replace("Switch OS 4.2", &"x".repeat(9000));
    machine.write("neighbours", &long);
    machine.looks();
    let entry = machine.annotation();
    assert!(entry.len() <= 16 * 1024 && !entry.contains("capability"), "{}", entry.len());
    machine.write("neighbours-summary", &long);
    let run = machine.look();
    assert!(!run.succeeded && run.said.contains("at most 16384 are allowed"), "{}", run.said);
    assert_eq!(machine.calls(), 1);
}

#[test]
fn quotes_and_line_breaks_of_a_switch_arrive_as_they_are() {
    let machine = Machine::new();
    machine.looks();
    let entry: serde_json::Value = serde_json::from_str(&machine.annotation()).unwrap();
    let chassis = &entry["lldpcli"]["lldp"][0]["interface"][0]["chassis"][0];
    assert_eq!(chassis["descr"][0]["value"], "Switch OS 4.2\nBuild \"release\"");
}

/// The lines of a manifest that belong to a block, without its indentation.
fn block(manifest: &str, begin: &str) -> String {
    let lines = manifest.lines().skip_while(|line| line.trim_end() != begin).skip(1);
    lines.map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n").collect()
}

#[test]
fn the_manifest_holds_the_script_that_is_tested() {
    let manifest = fs::read_to_string(MANIFEST).unwrap();
    let script = fs::read_to_string(SCRIPT).unwrap();
    assert!(block(&manifest, "  collect.sh: |") == script, "collector.yaml holds another collect.sh");
}

#[test]
fn manifest_and_policy_speak_of_the_same_account_and_annotation() {
    let policy = fs::read_to_string(POLICY).unwrap();
    let manifest = fs::read_to_string(MANIFEST).unwrap();
    assert!(policy.contains("'system:serviceaccount:topoloom-roce:topoloom-roce-collector'"));
    assert!(manifest.contains("serviceAccountName: topoloom-roce-collector"));
    assert!(manifest.contains("  namespace: topoloom-roce\n"));
    let annotation = ANNOTATION;
    assert!(policy.contains(&format!("\"'{annotation}'\"")) && manifest.contains(&format!("ANNOTATION:-{annotation}")));
    assert!(Path::new(SCRIPT).exists());
}
