//! What the Deployment would start, for a process of the test.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::object;

/// What the chart gives to the process in its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The arguments, the verb first.
    pub args: Vec<String>,
    /// The variables, with what the downward API would fill in.
    pub env: BTreeMap<String, String>,
}

impl Container {
    /// Reads it from the first Deployment among the objects: that of the host without the syncer.
    ///
    /// # Errors
    /// When there is no Deployment, or one of another shape.
    pub fn of(objects: &[Value]) -> Result<Self> {
        Self::read(objects.iter().find(|object| object["kind"] == "Deployment").context("no Deployment")?)
    }

    /// Reads it from the Deployment of this name.
    ///
    /// # Errors
    /// When there is none, or one of another shape.
    pub fn named(objects: &[Value], name: &str) -> Result<Self> {
        Self::read(object(objects, "Deployment", name)?)
    }

    fn read(deployment: &Value) -> Result<Self> {
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().context("the container has no arguments")?;
        let args = args.iter().map(|word| word.as_str().map(str::to_owned).context("an argument is no text"));
        let mut env = BTreeMap::new();
        for variable in container["env"].as_array().into_iter().flatten() {
            let name = variable["name"].as_str().context("a variable has no name")?;
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.namespace") => &deployment["metadata"]["namespace"],
                Some(other) => anyhow::bail!("the test does not know the field {other}"),
                None => &variable["value"],
            };
            env.insert(name.to_owned(), value.as_str().context("a variable has no value")?.to_owned());
        }
        Ok(Self { args: args.collect::<Result<_>>()?, env })
    }

    /// The flags for a process on this machine, which has no file system of its own and shares its ports: files and
    /// volumes are below `root`, where the folders are made, and listeners take free ports of 127.0.0.1. The verb and
    /// the flags of the log are left to the caller that starts the process.
    ///
    /// # Errors
    /// When a folder cannot be made.
    pub fn flags_below(&self, root: &Path) -> Result<Vec<String>> {
        let mut flags = Vec::new();
        for word in self.args.iter().skip(1).filter(|word| !word.starts_with("--log")) {
            let flag = match word.split_once('=') {
                Some((name, value)) if value.starts_with('/') => {
                    let path = root.join(value.trim_start_matches('/'));
                    // A folder that the kubelet would mount exists; one that the process makes by itself does not.
                    let is_mounted = matches!(name, "--plugin-dir" | "--documents");
                    let folder = if is_mounted { Some(path.as_path()) } else { path.parent() };
                    if let Some(folder) = folder {
                        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
                    }
                    format!("{name}={}", path.display())
                }
                Some((name, value)) if value.starts_with(':') => format!("{name}=127.0.0.1:0"),
                _ => word.clone(),
            };
            flags.push(flag);
        }
        Ok(flags)
    }
}
