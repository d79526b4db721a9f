//! The reader: a folder that looks like a checkout, the commands of a page in their order, and the programs that they name.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;
use tokio::process::Command;
use topoloom_tests::controlplane::{ControlPlane, find_or_build};
use topoloom_tests::pages::{self, Commands, Run, commands, page};
use topoloom_tests::terminal::{Running, script};
use topoloom_tests::{helm, host};

/// A reader of one page after the other.
pub(super) struct PageReader {
    folder: TempDir,
    kubeconfig: PathBuf,
    path: OsString,
    page: &'static str,
    blocks: VecDeque<Commands>,
    /// How many blocks were not run, because the page says so.
    by_hand: usize,
}

impl PageReader {
    /// A reader at the beginning of a page.
    pub(super) async fn new(plane: &ControlPlane, page: &'static str) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("topoloom-page-").tempdir()?;
        // The reader's own files are in this folder. Links in it lead to the files of the checkout.
        for entry in std::fs::read_dir(pages::root()?)? {
            let entry = entry?;
            symlink(entry.path().canonicalize()?, folder.path().join(entry.file_name()))?;
        }
        let programs = tokio::task::spawn_blocking(find_or_build).await??;
        let helm = tokio::task::spawn_blocking(helm::find_or_build).await??;
        let bin = plane.folder().join("desk-bin");
        std::fs::create_dir_all(&bin)?;
        symlink(host::binary()?.canonicalize()?, bin.join("topoloom"))?;
        symlink(helm.canonicalize()?, bin.join("helm"))?;
        program(&bin.join("kubectl"), &kubectl_script(&programs.in_a_shell("kubectl")))?;
        // An editor that writes the configuration of the page in place of an empty one.
        program(&bin.join("reader-edits"), EDITOR)?;
        let mut path = bin.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut desk = Self { folder, kubeconfig: plane.kubeconfig(), path, page, blocks: VecDeque::new(), by_hand: 0 };
        desk.open(page)?;
        Ok(desk)
    }

    /// Begins another page, in the same folder.
    pub(super) fn open(&mut self, name: &'static str) -> Result<()> {
        self.page = name;
        self.blocks = commands(&page(name)?).with_context(|| name.to_owned())?.into();
        self.by_hand = 0;
        Ok(())
    }

    /// Writes a file of the reader into the folder.
    pub(super) fn file(&self, name: &str, content: &[u8]) -> Result<PathBuf> {
        let file = self.folder.path().join(name);
        std::fs::write(&file, content)?;
        Ok(file)
    }

    /// Runs the next block, which has these words; returns what it printed.
    pub(super) async fn next(&mut self, words: &str) -> Result<String> {
        let block = self.take(words)?;
        ensure!(block.run == Run::Whole, "{}:{}: it runs until it is stopped", self.page, block.line);
        self.shell(&block.text).await.with_context(|| format!("{}:{}", self.page, block.line))
    }

    /// Starts the next block, which has these words and runs until it is stopped.
    pub(super) async fn start(&mut self, words: &str) -> Result<Running> {
        let block = self.take(words)?;
        ensure!(block.run == Run::UntilStopped, "{}:{}: it ends by itself", self.page, block.line);
        let said = self.folder.path().join(format!("said-{}", block.line));
        Running::start(self.command(&script(&block.text)), said, format!("{}:{}", self.page, block.line))
    }

    /// Leaves out blocks that were run before, up to the one with these words.
    pub(super) fn skip_until(&mut self, words: &str) -> Result<()> {
        while self.blocks.front().is_some_and(|block| !block.text.contains(words)) {
            self.blocks.pop_front();
        }
        ensure!(!self.blocks.is_empty(), "{} has no block with {words:?}", self.page);
        Ok(())
    }

    /// Checks that the page has no further block, and that the page marks so many as not run here.
    pub(super) fn end(&mut self, by_hand: usize) -> Result<()> {
        self.pass_by_hand();
        let left: Vec<_> = self.blocks.iter().map(|block| (block.line, &block.text)).collect();
        ensure!(left.is_empty(), "{}: these blocks were not run: {left:?}", self.page);
        ensure!(self.by_hand == by_hand, "{}: {} blocks say that they are not run", self.page, self.by_hand);
        Ok(())
    }

    fn pass_by_hand(&mut self) {
        while self.blocks.front().is_some_and(|block| matches!(block.run, Run::ByHand(_))) {
            self.blocks.pop_front();
            self.by_hand += 1;
        }
    }

    fn take(&mut self, words: &str) -> Result<Commands> {
        self.pass_by_hand();
        let block = self.blocks.pop_front().with_context(|| format!("{} has no further block", self.page))?;
        let Commands { line, text, .. } = &block;
        ensure!(text.contains(words), "{}:{line}: the next block has no {words:?}: {text}", self.page);
        Ok(block)
    }

    /// Runs commands as the reader would; returns what they printed, on both outputs.
    pub(super) async fn shell(&self, commands: &str) -> Result<String> {
        let mut command = self.command(commands);
        let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().await?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, complained) = (said(&output.stdout), said(&output.stderr));
        if !output.status.success() {
            bail!("{}: {commands}\n{printed}\n{complained}", output.status);
        }
        Ok(format!("{printed}{complained}"))
    }

    fn command(&self, commands: &str) -> Command {
        let mut command = Command::new("sh");
        let home = self.folder.path().join("home");
        command.args(["-euc", commands]).current_dir(self.folder.path()).stdin(Stdio::null()).kill_on_drop(true);
        command.process_group(0).env("PATH", &self.path).env("HOME", &home).env("KUBECONFIG", &self.kubeconfig);
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR"] {
            command.env(variable, home.join(variable));
        }
        // Another test may have a host on the default port.
        command.env("TOPOLOOM_ADMIN_ADDRESS", "127.0.0.1:0").env("KUBE_EDITOR", "reader-edits");
        command
    }
}

/// An editor that replaces the empty list in the text of `kubectl edit` by the content of `topology.yaml`.
const EDITOR: &str = "#!/bin/sh -eu
sed 's/^/    /' topology.yaml > indented
sed -i -e '/^    networkTopologyDiscovery: \\[\\]$/{r indented' -e 'd}' \"$1\"
";

/// kubectl, with `exec` as a kubelet would do it: the script reads the object, and runs the command after `--` with the
/// variables of its container.
fn kubectl_script(real: &str) -> String {
    format!(
        "#!/bin/sh -eu
case \"$*\" in
*' exec '*' -- '*)
  {real} \"$1\" \"$2\" get \"$4\" > /dev/null
  while [ \"$1\" != -- ]; do shift; done
  shift
  . ./container.env
  exec \"$@\";;
esac
exec {real} \"$@\"
"
    )
}

fn program(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}
