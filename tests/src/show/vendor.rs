//! A vendor in `make demo`: from an empty folder to a plugin in Python that serves, with an edit in between.
//!
//! The vendor has the program, componentize-py and the kubeconfig of the cluster, and pushes into a real registry. On a machine
//! where componentize-py cannot be installed, this step says how it would be, and is left out.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use topoloom_simulator::Authority;

use super::{indented, step};
use crate::controlplane::eventually;
use crate::registry::{Auth, Registry};
use crate::scene::Scene;
use crate::terminal::Running;
use crate::tools::Tool;
use crate::vendor::{Vendor, commands};

/// Nodes that only this plugin knows, and the cages that they are in.
const NODES: [(&str, &str); 6] = [
    ("cage-00", "c1"),
    ("cage-01", "c1"),
    ("cage-02", "c1"),
    ("cage-03", "c2"),
    ("cage-04", "c2"),
    ("cage-05", "spare"),
];
/// The label with the cage.
const LABEL: &str = "example.com/cage";

/// What the vendor edits: one line.
const BEFORE: &str = "            if rack:\n";
const AFTER: &str = "            if rack and rack != \"spare\":\n";

/// What a watch says when it has nothing to do.
const WAITS: &str = "topoloom: waiting for a file to be saved";

/// How long a host may take to a plugin with an interpreter in it.
const PATIENCE: Duration = Duration::from_secs(240);

/// Where the vendor pushes: a registry with a certificate that only this program trusts.
pub struct Shelf {
    registry: Registry,
    authority: Authority,
    modules: String,
}

impl Shelf {
    /// Starts it, with its folder below this one.
    ///
    /// # Errors
    /// When the registry cannot be built or does not start.
    pub async fn open(folder: &Path) -> Result<Self> {
        let authority = Authority::generate()?;
        let registry = Registry::start(folder, &authority, Auth::Open).await?;
        let modules = folder.join("modules");
        std::fs::create_dir_all(&modules).with_context(|| modules.display().to_string())?;
        Ok(Self { registry, authority, modules: modules.display().to_string() })
    }

    /// With what a host takes plugins of this size from there.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        let registries = format!("--plugin-registries={}", self.registry.host());
        vec![registries, "--plugin-poll=1".to_owned(), format!("--module-dir={}", self.modules)]
    }

    fn reference(&self) -> String {
        format!("oci://{}/acme/racks:stable", self.registry.host())
    }

    /// What the operator writes.
    fn entry(&self) -> String {
        let authority: String = self.authority.pem().lines().map(|line| format!("        {line}\n")).collect();
        format!(
            "\
- source: racks
  enabled: true
  plugin:
    oci:
      ref: \"{}\"
      addresses: [loopback]   # it runs on this machine
      caBundle: |
{authority}  permissions: {{nodeLabels: [{LABEL}]}}
  limits: {{profile: large, compileCpu: 60s}}   # the interpreter is in the plugin
  config: {{label: {LABEL}}}
",
            self.reference()
        )
    }
}

/// The whole loop. `config` is what the operator has configured until now.
///
/// # Errors
/// When a command ends without success.
pub async fn show(scene: &Scene, shelf: &Shelf, config: &str) -> Result<()> {
    step("another vendor writes a plugin, in Python: an empty folder, no checkout");
    let mut vendor = match Vendor::new("demo", &[Tool::ComponentizePy]).await {
        Ok(vendor) => vendor.with_cluster(&scene.plane).await?,
        Err(missing) => {
            indented(&format!("left out: {missing:#}"));
            return Ok(());
        }
    };
    vendor.set("TOPOLOOM_REGISTRY_CA", shelf.registry.ca());
    let nodes = NODES.map(|(name, cage)| (name.to_owned(), vec![(LABEL, cage.to_owned())]));
    scene.plane.create_nodes(nodes).await?;
    let printed = typed(&mut vendor, "topoloom plugin new racks --lang python").await?;
    let first = commands(&printed).into_iter().next().context("a first command")?;
    typed(&mut vendor, &first).await?;
    indented("$ cat racks.py");
    indented(&vendor.read("racks.py")?);

    step("the vendor runs it over the nodes of this cluster, writes nothing there, and edits while it runs");
    typed(&mut vendor, &format!("echo 'label: {LABEL}' > config.yaml")).await?;
    let running = vendor.start(&prompt("topoloom plugin run --cluster --config config.yaml --watch"))?;
    running.until("a tree", |said| tree(said).is_some()).await;
    shown(&running);
    println!("   an edit of one line: nodes that are spare are in no cage\n  -{BEFORE}  +{AFTER}");
    vendor.edit("racks.py", BEFORE, AFTER)?;
    running.until("what moved", |said| tree(said).is_some_and(|tree| tree.contains("\nmoved:\n"))).await;
    shown(&running);
    running.interrupt().await?;

    step("the vendor tests it and pushes it into a registry, and an operator writes an entry");
    typed(&mut vendor, "topoloom plugin test").await?;
    typed(&mut vendor, &format!("topoloom plugin push racks.wasm {} --profile large", shelf.reference())).await?;
    let entry = shelf.entry();
    scene.configure(&format!("{config}{entry}")).await?;
    indented(&entry.lines().filter(|line| !line.starts_with("        ")).collect::<Vec<_>>().join("\n"));
    until_served(scene).await;
    indented("$ topoloom tree --source racks");
    indented(&scene.cli(&["tree", "--source", "racks"]).await?);
    Ok(())
}

/// A command, after the prompt.
fn prompt(command: &str) -> String {
    println!("   $ {command}");
    command.to_owned()
}

/// A command and what it prints.
async fn typed(vendor: &mut Vendor, command: &str) -> Result<String> {
    let printed = vendor.follow(&prompt(command)).await?;
    indented(&printed);
    Ok(printed)
}

/// The last tree of a watch that waits for the next save.
fn tree(said: &str) -> Option<&str> {
    let (before, _) = said.rsplit_once(WAITS)?;
    let (_, tree) = before.rsplit_once("it asks for")?;
    // A save since then is not built yet.
    said.trim_end().ends_with("Ctrl-C ends it").then_some(tree)
}

fn shown(running: &Running) {
    indented(&format!("it asks for{}", tree(&running.said()).unwrap_or_default()));
}

/// Waits until both cages are HyperNodes with a node count.
async fn until_served(scene: &Scene) {
    eventually("the plugin in Python serves", PATIENCE, async || {
        let lines = scene.topology().await.map_err(|error| error.to_string())?;
        let status = scene.source("racks").await.map_err(|error| error.to_string())?.status;
        let own = lines.iter().filter(|line| line.contains(LABEL));
        let counted = own.clone().filter(|line| !line.contains("(?)")).count();
        if counted == 2 && own.count() == 2 { Ok(()) } else { Err(format!("{status:#?}\n{lines:#?}")) }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_of_a_watch_is_the_last_one_when_it_waits() {
        let one = "racks 0.1.0\nit asks for, 1\n  a\ntopoloom: waiting for a file to be saved; Ctrl-C ends it\n";
        assert_eq!(tree(one), Some(", 1\n  a\n"));
        assert_eq!(tree(&format!("{one}topoloom: building\n")), None);
        let second = format!("{one}topoloom: building\nit asks for, 2\n\nmoved:\n  b\n{WAITS}; Ctrl-C ends it\n");
        assert_eq!(tree(&second), Some(", 2\n\nmoved:\n  b\n"));
        assert_eq!(tree("racks 0.1.0\n"), None);
    }

    #[test]
    fn the_line_that_is_edited_is_in_the_template() {
        let page = crate::pages::page("docs/vendors/python.md").unwrap();
        assert_eq!(page.matches(BEFORE).count(), 1);
    }
}
