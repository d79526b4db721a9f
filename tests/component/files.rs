//! `topoloom discover` on files: it names every mistake in them at once.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};
use tempfile::TempDir;
use topoloom_tests::guest;
use topoloom_tests::scene::RACKS;

const NODES: &str = r#"{"kind": "List", "items": [
    {"metadata": {"name": "m1", "labels": {"ex.io/rack": "a", "ex.io/spine": "s"}}},
    {"metadata": {"name": "m2", "labels": {"ex.io/rack": "b", "ex.io/spine": "s"}}},
    {"metadata": {"name": "m3"}}]}"#;

/// A folder with a configuration and nodes.
struct Files {
    folder: TempDir,
}

impl Files {
    fn new(config: &str, nodes: &str) -> Result<Self> {
        let files = Self { folder: tempfile::tempdir()? };
        files.write("config.yaml", config)?;
        files.write("nodes", nodes)?;
        Ok(files)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path(name);
        std::fs::write(&path, text)?;
        Ok(path)
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(topoloom_tests::host::binary()?);
        command.arg("discover").arg("--config").arg(self.path("config.yaml")).stdin(Stdio::null());
        Ok(command)
    }

    /// Runs over the nodes of the folder.
    fn discover(&self, arguments: &[&str]) -> Result<Output> {
        Ok(self.command()?.arg("--nodes").arg(self.path("nodes")).args(arguments).output()?)
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> Result<String> {
    anyhow::ensure!(output.status.success(), "{}", said(output));
    Ok(String::from_utf8(output.stdout.clone())?)
}

/// The names of the objects in a YAML output, sorted.
fn names(yaml: &str) -> Vec<&str> {
    let mut names: Vec<_> = yaml.lines().filter_map(|line| line.strip_prefix("  name: ")).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_three_outputs_tell_the_same() -> Result<()> {
    let files = Files::new(RACKS, NODES)?;
    let tree = printed(&files.discover(&[])?)?;
    assert!(tree.contains("2 of 3 nodes have a place in 3 groups") && tree.contains("ex.io/rack=a"), "{tree}");
    let yaml = printed(&files.discover(&["-o", "yaml"])?)?;
    let json: serde_json::Value = serde_json::from_str(&printed(&files.discover(&["-o", "json"])?)?)?;
    let items = json["items"].as_array().context("a list")?;
    let mut in_json: Vec<&str> = items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect();
    in_json.sort_unstable();
    assert_eq!(names(&yaml), in_json);
    assert_eq!(in_json.len(), 3);
    // The list is in the order of the writes: members come before the groups that list them.
    assert_eq!(items.iter().map(|item| item["spec"]["tier"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(1), Some(2)]);
    Ok(())
}

#[test]
fn a_typing_error_in_a_label_is_said_with_the_label_that_was_meant() -> Result<()> {
    let files = Files::new(&RACKS.replace("ex.io/rack", "ex.io/rak"), NODES)?;
    let tree = printed(&files.discover(&[])?)?;
    let wanted = "no-such-label (1): ex.io/rak: type \"gpu\": no Node has this label; the nearest that Nodes have is \"ex.io/rack\"";
    assert!(tree.contains(wanted), "{tree}");
    Ok(())
}

#[test]
fn nodes_come_from_standard_input_too() -> Result<()> {
    let files = Files::new(RACKS, "")?;
    let mut child = files.command()?.args(["--nodes", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().context("it is piped")?.write_all(NODES.as_bytes())?;
    let tree = printed(&child.wait_with_output()?)?;
    assert!(tree.contains("2 of 3 nodes"), "{tree}");
    Ok(())
}

#[test]
fn objects_that_exist_keep_their_names() -> Result<()> {
    let files = Files::new(RACKS, NODES)?;
    let ours = printed(&files.discover(&["-o", "yaml"])?)?;
    // Rack a and the spine exist, made by Volcano under names of its own; rack b does not.
    let object = |name: &str, tier: u32, key: &str, value: &str, kind: &str, member: &str| {
        format!(
            "- metadata:
    name: {name}
    labels: {{{key}: {value}, volcano.sh/network-topology-source: label}}
  spec: {{tier: {tier}, members: [{{type: {kind}, selector: {{exactMatch: {{name: {member}}}}}}}]}}
"
        )
    };
    let existing = format!(
        "apiVersion: v1\nkind: List\nitems:\n{}{}",
        object("hypernode-gpu-tier1-bcdfg", 1, "ex.io/rack", "a", "Node", "m1"),
        object("hypernode-gpu-tier2-hjklm", 2, "ex.io/spine", "s", "HyperNode", "hypernode-gpu-tier1-bcdfg"),
    );
    let existing = files.write("existing.yaml", &existing)?;
    let kept = printed(&files.discover(&["-o", "yaml", "--existing", &existing.to_string_lossy()])?)?;
    let new: Vec<_> = names(&kept).into_iter().filter(|name| names(&ours).contains(name)).collect();
    assert_eq!(new.len(), 1, "{kept}");
    assert!(names(&kept).contains(&"hypernode-gpu-tier1-bcdfg"), "{kept}");
    assert!(names(&kept).contains(&"hypernode-gpu-tier2-hjklm"), "{kept}");
    let wrong = files.write("wrong.yaml", "kind: Pod\nmetadata: {name: x}\n")?;
    let output = files.discover(&["--existing", &wrong.to_string_lossy()])?;
    assert!(!output.status.success() && said(&output).contains("kubectl get hypernodes"), "{}", said(&output));
    Ok(())
}

#[test]
fn every_mistake_of_a_document_is_named_at_once_with_its_path() -> Result<()> {
    let config = "
networkTopologyDiscovery:
- source: label
  enabled: maybe
  interval: 600
  settle: 2m
  mode: watch
  onRemoval: perhaps
  safety: {maxDeletePercent: 150, confirmations: 1, holdFor: 0s}
  limits: {memory: 1Ki, cpu: 1h}
  plugin: {file: x.wasm, builtin: label}
- source: bad name!
  enabled: true
- source: racks
  discoverer: label
  enabled: true
  config:
    networkTopologyTypes:
      a-type-name-that-is-too-long: [{nodeLabel: ex.io/rack}]
      gpu: [{nodeLabel: ex.io/rack}, {nodeLabel: ex.io/rack}]
      net: [{nodeLabel: 'no label key'}]
- source: racks
  enabled: true
";
    let files = Files::new(config, NODES)?;
    let output = files.discover(&[])?;
    let said = said(&output);
    assert!(!output.status.success());
    for part in [
        "networkTopologyDiscovery[0].enabled",
        "networkTopologyDiscovery[0].interval",
        "600",
        "networkTopologyDiscovery[0].settle",
        "between 0s and 30s",
        "networkTopologyDiscovery[0].mode",
        "\"watch\"",
        "networkTopologyDiscovery[0].onRemoval",
        "networkTopologyDiscovery[0].safety.maxDeletePercent",
        "150",
        "networkTopologyDiscovery[0].safety.confirmations",
        "networkTopologyDiscovery[0].safety.holdFor",
        "networkTopologyDiscovery[0].limits.memory",
        "networkTopologyDiscovery[0].limits.cpu",
        "networkTopologyDiscovery[0].plugin",
        "networkTopologyDiscovery[1].source",
        "bad name!",
        "networkTopologyDiscovery[3]",
        "a-type-name-that-is-too-long",
        "no label key",
        "ex.io/rack",
    ] {
        assert!(said.contains(part), "{part:?} is missing in\n{said}");
    }
    Ok(())
}

#[test]
fn files_that_are_no_such_thing_are_named() -> Result<()> {
    let files = Files::new(RACKS, NODES)?;
    for (nodes, words) in [
        ("", "empty"),
        ("just text", "not a list of nodes"),
        (r#"{"kind": "PodList", "items": []}"#, "PodList"),
        (r#"{"items": [{"metadata": {"labels": {}}}]}"#, "items[0].metadata.name"),
        (r#"{"items": [{"metadata": {"name": "m1"}}, {"metadata": {"name": "m1"}}]}"#, "twice"),
        (r#"{"items": [{"metadata": "#, "broken"),
        ("items:\n- metadata: {labels: [}\n", "broken"),
    ] {
        files.write("nodes", nodes)?;
        let output = files.discover(&[])?;
        let said = said(&output);
        assert!(!output.status.success() && said.contains("--nodes") && said.contains(words), "{nodes:?}: {said}");
    }
    files.write("nodes", NODES)?;
    for (config, words) in [
        ("networkTopologyDiscovery: [", "--config"),
        ("networkTopologyDiscovery: 7", "networkTopologyDiscovery"),
        ("[]", "--config"),
        ("networkTopologyDiscovery:\n- source: absent\n  enabled: true\n", "there is no plugin \"absent\""),
        ("networkTopologyDiscovery: []", "no entry"),
        ("kind: ConfigMap\napiVersion: v1\n", "data[\"volcano-controller.conf\"] must be the document as a text"),
    ] {
        files.write("config.yaml", config)?;
        let output = files.discover(&[])?;
        assert!(!output.status.success() && said(&output).contains(words), "{config:?}: {}", said(&output));
    }
    // Line numbers are those of the file, also if the document is part of a manifest.
    let inner = RACKS.replace("enabled: true", "enabled: 7").replace('\n', "\n    ");
    let manifest = format!("apiVersion: v1\nkind: ConfigMap\ndata:\n  volcano-controller.conf: |\n    {inner}\n");
    let line = manifest.lines().position(|line| line.contains("enabled: 7")).context("it is there")? + 1;
    files.write("config.yaml", &manifest)?;
    let message = said(&files.discover(&[])?);
    assert!(message.contains(&format!("line {line}: networkTopologyDiscovery[0].enabled")), "{message}");
    // The command reports a part that it does not read, and a source that does not exist.
    files.write("config.yaml", &format!("{RACKS}\n---\nsecond: document\n"))?;
    let output = files.discover(&[])?;
    assert!(output.status.success() && said(&output).contains("a second document"), "{}", said(&output));
    let output = files.discover(&["--source", "nope"])?;
    let message = said(&output);
    assert!(
        !output.status.success() && message.contains("\"nope\"") && message.contains("enabled: label"),
        "{message}"
    );
    std::fs::remove_file(files.path("config.yaml"))?;
    let output = files.discover(&[])?;
    assert!(!output.status.success() && said(&output).contains("config.yaml"), "{}", said(&output));
    Ok(())
}

#[test]
fn a_plugin_file_runs_with_the_grants_of_the_entry() -> Result<()> {
    let config = |permissions: &str| {
        format!(
            "networkTopologyDiscovery:\n- {{source: acme, enabled: true, {permissions} config: {{answers: [[{{id: x, nodes: [m1, m3]}}]]}}}}\n"
        )
    };
    let files = Files::new(&config("permissions: {nodeLabels: [example.com/round]},"), NODES)?;
    let plugin = guest::file("topoloom-guest-scripted", files.folder.path())?;
    let plugin = plugin.to_string_lossy();
    let tree = printed(&files.discover(&["--plugin", &plugin])?)?;
    assert!(tree.contains("2 of 3 nodes") && tree.contains("sha256:"), "{tree}");
    files.write("config.yaml", &config(""))?;
    let output = files.discover(&["--plugin", &plugin])?;
    let message = said(&output);
    assert!(!output.status.success() && message.contains("nodeLabels: [\"example.com/round\"]"), "{message}");
    let missing = Path::new("/does/not/exist.wasm");
    let output = files.discover(&["--plugin", &missing.to_string_lossy()])?;
    assert!(!output.status.success() && said(&output).contains("/does/not/exist.wasm"), "{}", said(&output));
    Ok(())
}

#[test]
fn what_is_no_hyper_node_does_not_exist_already() -> Result<()> {
    let files = Files::new(RACKS, NODES)?;
    let nodes = files.write("nodes-again", r#"{"items": [{"kind": "Node", "metadata": {"name": "m1"}}]}"#)?;
    let output = files.discover(&["--existing", &nodes.to_string_lossy()])?;
    let message = said(&output);
    assert!(!output.status.success() && message.contains("items[0] is a Node, not a HyperNode"), "{message}");
    Ok(())
}

#[test]
fn a_log_filter_that_would_silence_everything_is_refused() -> Result<()> {
    for filter in ["warning", "verbose", "info,loud"] {
        let output = Command::new(topoloom_tests::host::binary()?).args(["--log", filter, "crd"]).output()?;
        let message = said(&output);
        assert!(
            output.status.code() == Some(2) && message.contains("is no level; give one of off, error, warn"),
            "{message}"
        );
    }
    for filter in ["warn", "INFO", "info,topoloom::topology=debug", "topoloom::plugin=trace"] {
        let output = Command::new(topoloom_tests::host::binary()?).args(["--log", filter, "crd"]).output()?;
        assert!(output.status.success(), "{filter}: {}", said(&output));
    }
    Ok(())
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() -> Result<()> {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full")?;
    let output =
        Command::new(topoloom_tests::host::binary()?).arg("crd").stdout(full).stderr(Stdio::piped()).spawn()?;
    let output = output.wait_with_output()?;
    assert!(!output.status.success() && said(&output).contains("could not be written"), "{}", said(&output));
    // A reader that closes its end early is no failure.
    let mut child = Command::new(topoloom_tests::host::binary()?)
        .args(["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    drop(child.stdout.take());
    let output = child.wait_with_output()?;
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    Ok(())
}
