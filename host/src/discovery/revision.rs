//! One configured plugin: bytes, configuration and grants, checked together before any of them is used.
//!
//! A source serves with one [`Revision`] and keeps it until the next one is complete: whatever is wrong with an edited
//! entry (a file that is missing, a digest that differs, a configuration that the plugin refuses, a grant that is
//! missing) is a [`Refused`] and leaves the old revision in force (decision H1).

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use topoloom_api::condition::{ConditionType, Reason};
use topoloom_api::discovery_source::PluginOrigin as StatusOrigin;
use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::{
    CallError, Description, EndpointPermission, Granted, Permissions, Problem, Requirements, Retry, grant,
};
use topoloom_core::snapshot::ColumnKey;

use super::pacing::Rhythm;
use crate::config;
use crate::config::permissions::NodeNames;
use crate::config::{EntryConfig, PluginOrigin};
use crate::plugin::{Digest, Load, LoadError, Plugin, Runtime, builtin};
use crate::text;

/// Largest file that is read as a plugin at all; the scan's own bound is lower and gives the better sentence.
const MAX_FILE: u64 = 64 << 20;

/// The longest message in bytes: a condition has room for 32 KiB.
const MESSAGE: usize = 8 << 10;

/// Functions of the interface that show names of Nodes.
const NAMING: [&str; 2] = ["snapshot.names", "snapshot.find"];

/// What a source runs with.
#[derive(Debug)]
pub struct Revision {
    /// The entry it was made from.
    pub entry: Arc<EntryConfig>,
    /// The entry's configuration as the plugin gets it.
    pub config: Arc<str>,
    /// The loaded plugin.
    pub plugin: Plugin,
    /// What it says about itself.
    pub description: Description,
    /// Where its bytes came from.
    pub origin: StatusOrigin,
    /// What it asked for.
    pub requirements: Requirements,
    /// What it got.
    pub granted: Arc<Granted>,
    /// The columns that it reads.
    pub keys: Vec<ColumnKey>,
    /// When its rounds run.
    pub rhythm: Rhythm,
}

/// Why an entry does not become a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The condition that says so.
    pub condition: ConditionType,
    /// The word.
    pub reason: Reason,
    /// The sentence.
    pub message: String,
    /// Whether the same entry may do better later without an edit.
    pub again: bool,
}

impl Refused {
    fn loading(reason: Reason, message: impl Into<String>, again: bool) -> Self {
        Self { condition: ConditionType::Loaded, reason, message: text::clip(message.into(), MESSAGE), again }
    }
}

/// Makes a revision of an entry. A plugin that runs already with the same bytes and limits is not compiled again.
///
/// # Errors
/// The first step that refused, with what to do.
pub async fn prepare(runtime: &Runtime, entry: Arc<EntryConfig>, running: Option<Plugin>) -> Result<Revision, Refused> {
    let source: Arc<str> = entry.source.as_str().into();
    let (bytes, origin) = bytes(&entry).await?;
    let limits = entry.limits.applied();
    let digest = Digest::of(&bytes);
    let fits = entry.plugin.digest.is_none_or(|pinned| pinned == digest);
    let running = running.filter(|plugin| fits && plugin.digest() == digest && *plugin.limits() == limits);
    let plugin = match running {
        Some(plugin) => plugin,
        None => {
            let load = Load { bytes, pinned: entry.plugin.digest, limits };
            runtime.load(load).await.map_err(|error| {
                let reason = match error {
                    LoadError::Digest { .. } => Reason::DigestMismatch,
                    _ => Reason::PluginInvalid,
                };
                // A file may have been read while somebody was writing it, or before it was replaced.
                let again = origin == StatusOrigin::File || matches!(error.retry(), Retry::Later(_));
                Refused::loading(reason, error.to_string(), again)
            })?
        }
    };
    let description = plugin.describe(&source).await.end.map_err(|error| call_refused("describe", &error))?;
    if let Some(expected) = entry.plugin.expected_name.as_ref().filter(|expected| **expected != description.name) {
        let message = format!("the plugin calls itself {:?}, the entry expects {expected:?}", description.name);
        return Err(Refused::loading(Reason::PluginInvalid, message, false));
    }
    let config: Arc<str> = entry.config.to_string().into();
    let requirements = plugin.configure(&source, Arc::clone(&config)).await.end.map_err(|error| match error {
        CallError::InvalidConfig(problems) => Refused {
            condition: ConditionType::Configured,
            reason: Reason::InvalidConfig,
            message: text::clip(listed(&problems), MESSAGE),
            again: false,
        },
        other => call_refused("configure", &other),
    })?;
    let given = entry.permissions.as_ref().map(permissions).unwrap_or_default();
    let granted = granted(&requirements, &given, &plugin, &entry)?;
    let labels = granted.labels.iter().map(|key| ColumnKey::Label(Arc::clone(key)));
    let annotations = granted.annotations.iter().map(|key| ColumnKey::Annotation(Arc::clone(key)));
    let keys = labels.chain(annotations).collect();
    let rhythm = Rhythm::new(&requirements.triggers, entry.interval, entry.settle, !requirements.endpoints.is_empty());
    Ok(Revision { entry, config, plugin, description, origin, requirements, granted: Arc::new(granted), keys, rhythm })
}

/// What the plugin gets, or all that is missing at once. Names of Nodes are shown to plugins of others only with the
/// operator's word.
fn granted(
    requirements: &Requirements,
    given: &Permissions,
    plugin: &Plugin,
    entry: &EntryConfig,
) -> Result<Granted, Refused> {
    let visible = entry.permissions.as_ref().is_some_and(|given| given.node_names == NodeNames::Visible);
    let shown = visible || plugin.origin() == Origin::Embedded;
    let asks = plugin.imports().iter().any(|import| NAMING.iter().any(|function| import.contains(function)));
    let granted = grant(requirements, given, plugin.origin());
    let mut refusals = granted.as_ref().err().cloned().unwrap_or_default();
    if asks && !shown {
        refusals.push(grant::Refusal::NodeNames);
    }
    match granted {
        Ok(granted) if refusals.is_empty() => Ok(Granted { node_names: shown, ..granted }),
        _ => {
            let wanted = grant::Refusal::yaml(&refusals);
            let what = refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            let message =
                format!("the plugin asks for what is not granted: {what}. To grant it, add to the entry:\n{wanted}");
            Err(Refused::loading(Reason::PermissionDenied, message, false))
        }
    }
}

/// Every mistake with its path; what has none is about the configuration as a whole.
fn listed(problems: &[Problem]) -> String {
    let line = |problem: &Problem| match problem.path.is_empty() {
        true => problem.message.clone(),
        false => format!("config.{problem}"),
    };
    problems.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn call_refused(step: &str, error: &CallError) -> Refused {
    Refused::loading(call_reason(error), format!("{step}: {error}"), true)
}

/// The condition reason for a call that did not end with an answer.
#[must_use]
pub fn call_reason(error: &CallError) -> Reason {
    use topoloom_core::plugin::Failure;
    match error {
        CallError::Failure(Failure::Config(_)) | CallError::InvalidConfig(_) => Reason::InvalidConfig,
        CallError::Failure(Failure::Denied(_)) => Reason::PermissionDenied,
        CallError::Failure(Failure::Unauthorized(_)) => Reason::Unauthorized,
        CallError::Failure(Failure::Upstream { .. }) => Reason::Upstream,
        CallError::Failure(Failure::Internal(_)) => Reason::GuestError,
        CallError::Trap { .. } => Reason::Trap,
        CallError::CpuDeadline { .. } | CallError::WallClock { .. } => Reason::Deadline,
        CallError::OutOfMemory { .. } => Reason::OutOfMemory,
        CallError::LimitExceeded { .. } | CallError::TooLarge { .. } | CallError::InvalidResult(_) => {
            Reason::InvalidResult
        }
        CallError::Start(_) | CallError::Host(_) => Reason::PluginInvalid,
    }
}

/// The bytes that an entry names.
async fn bytes(entry: &EntryConfig) -> Result<(Arc<[u8]>, StatusOrigin), Refused> {
    let missing = |message: String, again| Refused::loading(Reason::PluginNotFound, message, again);
    match &entry.plugin.origin {
        PluginOrigin::Installed(name) | PluginOrigin::Builtin(name) => match builtin::find(name) {
            Some(builtin) => Ok((Arc::clone(&builtin.bytes), StatusOrigin::Builtin)),
            None => Err(missing(
                format!(
                    "there is no plugin {name:?} (by `source`, `discoverer` or `plugin.builtin`); there are: {}; name a \
                     file with `plugin: {{file: PATH}}`",
                    builtin::all().iter().map(|builtin| builtin.name).collect::<Vec<_>>().join(", ")
                ),
                false,
            )),
        },
        PluginOrigin::File(path) => {
            let bytes = read_file(path.clone()).await.map_err(|message| missing(message, true))?;
            Ok((bytes, StatusOrigin::File))
        }
        PluginOrigin::ConfigMap(_) => Err(missing(
            "plugins out of a ConfigMap are not delivered by this version: name a file with `plugin: {file: PATH}`"
                .into(),
            false,
        )),
    }
}

/// Reads a plugin file, bounded.
///
/// # Errors
/// One sentence that names the file.
pub async fn read_file(path: PathBuf) -> Result<Arc<[u8]>, String> {
    let named = |error: std::io::Error| format!("plugin.file {}: {error}", path.display());
    // Opening a pipe would wait for its other end.
    let mut options = tokio::fs::OpenOptions::new();
    options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(&path).await.map_err(named)?;
    let about = file.metadata().await.map_err(named)?;
    if !about.is_file() {
        return Err(format!("plugin.file {}: it is no regular file", path.display()));
    }
    let too_large =
        || format!("plugin.file {}: more than {MAX_FILE} bytes, at most that many are read", path.display());
    if about.len() > MAX_FILE {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(about.len()).unwrap_or_default());
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).await.map_err(named)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(too_large());
    }
    Ok(bytes.into())
}

/// The grants of an entry, as the decision about them reads them.
fn permissions(given: &config::Permissions) -> Permissions {
    Permissions {
        node_labels: given.node_labels.clone(),
        node_annotations: given.node_annotations.clone(),
        endpoints: given
            .endpoints
            .iter()
            .map(|(name, endpoint)| {
                (name.clone(), EndpointPermission { methods: endpoint.methods.clone(), paths: endpoint.paths.clone() })
            })
            .collect(),
    }
}
