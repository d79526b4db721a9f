//! One configured plugin: bytes, configuration and grants, checked together before any of them is used.
//!
//! A source uses one [`Revision`] and keeps it until the next one is complete: every mistake in an edited entry (a file
//! that is missing, a digest that differs, a configuration that the plugin refuses, a grant that is missing) is a
//! [`Refused`] and leaves the old revision in force (decision H1).

use std::sync::Arc;

use topoloom_api::condition::{ConditionType, Reason};
use topoloom_api::discovery_source::PluginOrigin as Origin;
use topoloom_core::plugin::grant::Origin as GrantOrigin;
use topoloom_core::plugin::pacing::{Reach, Rhythm};
use topoloom_core::plugin::rollout::{Failed, RolloutStep};
use topoloom_core::plugin::{
    CallError, Description, EndpointPermission, Granted, Limit, Permissions, Problem, Requirements, Retry, grant,
};
use topoloom_core::snapshot::ColumnKey;
use topoloom_core::text;

use super::compat::{self, Assumed};
use crate::config;
use crate::config::permissions::NodeNames;
use crate::config::{EntryConfig, PluginOrigin};
use crate::delivery::Module;
use crate::delivery::refused::{MESSAGE, Refused};
use crate::endpoints::plan::{self, Plan, Usual, plan};
use crate::endpoints::{Endpoints, Outside};
use crate::plugin::builtin::{self, Builtin, Needs};
use crate::plugin::trust::{Signed, Trust, TrustOptions};
use crate::plugin::{Load, LoadError, Plugin, Runtime};
use crate::topology::writers::Made;

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
    /// The bytes as they were delivered.
    pub module: Arc<Module>,
    /// What it asked for.
    pub requirements: Requirements,
    /// What it got.
    pub granted: Arc<Granted>,
    /// The endpoints among that, ready to be asked.
    pub endpoints: Arc<Endpoints>,
    /// The columns that it reads.
    pub keys: Vec<ColumnKey>,
    /// When its rounds run.
    pub rhythm: Rhythm,
    /// Whether it imitates Volcano because of the objects that were found, and not because the entry sets it.
    pub assumed: Assumed,
}

/// Makes a revision of an entry and a module. A plugin that runs already with the same bytes and limits is not compiled
/// again.
///
/// # Errors
/// The first step that refused, with what to do.
#[tracing::instrument(level = "debug", skip_all, fields(source = &*entry.source, digest = %module.digest))]
pub async fn prepare(
    host: Host<'_>,
    entry: Arc<EntryConfig>,
    module: Arc<Module>,
    running: Option<Plugin>,
) -> Result<Revision, Refused> {
    let Host { runtime, outside, trust, objects } = host;
    let (entry, assumed) = match compat::assumed(&entry, objects) {
        Some((changed, assumed)) => (Arc::new(changed), assumed),
        None => (entry, Assumed::Nothing),
    };
    let source = entry.source.clone();
    let builtin = builtin::all().iter().find(|builtin| builtin.digest == module.digest);
    let usual = builtin.map_or_else(Needs::default, Builtin::needs);
    let limits = entry.limits.over(usual.limits);
    if let Some(packed) = module.packed.filter(|packed| *packed > limits.scan.packed) {
        runtime.metrics().limit(Limit::Packed);
        let message = format!(
            "the packed module has {packed} bytes and may have {}{}",
            limits.scan.packed,
            Limit::Packed.advice()
        );
        return Err(Refused::loading(RolloutStep::Receive, Reason::PluginInvalid, message, Failed::ForGood));
    }
    let signed = vouched(&entry, &module, trust)?;
    let running = running.filter(|plugin| plugin.digest() == module.digest && *plugin.limits() == limits);
    let plugin = match running {
        Some(plugin) => plugin,
        None => {
            let load = Load { bytes: Arc::clone(&module.bytes), pinned: None, limits };
            runtime.load(load).await.map_err(|error| load_refused(&error))?
        }
    };
    let description =
        plugin.describe(&source).await.end.map_err(|error| call_refused(RolloutStep::Describe, &error))?;
    let declared = module.declared.as_ref().map(|declared| (&declared.name, "is declared beside it"));
    let expected = entry.plugin.expected_name.as_ref().map(|name| (name, "the entry expects"));
    if let Some((name, who)) = declared.into_iter().chain(expected).find(|(name, _)| **name != description.name) {
        let message = format!("the plugin calls itself {:?}, {name:?} {who}", description.name);
        return Err(Refused::loading(RolloutStep::Describe, Reason::PluginInvalid, message, Failed::ForGood));
    }
    if let Some(signed) = &signed
        && (signed.name != description.name || signed.version != description.version)
    {
        let message = format!(
            "the plugin calls itself {} {}, and the signature is for {} {}",
            description.name, description.version, signed.name, signed.version
        );
        return Err(Refused::loading(RolloutStep::Trust, Reason::Untrusted, message, Failed::ForGood));
    }
    let config: Arc<str> = entry.config.to_string().into();
    let requirements = plugin.configure(&source, Arc::clone(&config)).await.end.map_err(|error| match error {
        CallError::InvalidConfig(problems) => Refused {
            condition: ConditionType::Configured,
            reason: Reason::InvalidConfig,
            message: text::clip(listed(&problems), MESSAGE),
            step: RolloutStep::Configure,
            failed: Failed::ForGood,
        },
        other => call_refused(RolloutStep::Configure, &other),
    })?;
    let given = entry.permissions.as_ref().map(permissions).unwrap_or_default();
    let granted = granted(&requirements, &given, &plugin, &entry)?;
    let labels = granted.labels.iter().map(|key| ColumnKey::Label(Arc::clone(key)));
    let annotations = granted.annotations.iter().map(|key| ColumnKey::Annotation(Arc::clone(key)));
    let keys = labels.chain(annotations).collect();
    let plans = plans(&granted, &entry, plugin.origin(), usual.endpoint)?;
    let endpoints = Arc::new(Endpoints::new(&source, plans, outside));
    let reach = if requirements.endpoints.is_empty() { Reach::Cluster } else { Reach::Endpoints };
    let rhythm = Rhythm::new(&requirements.triggers, entry.interval, entry.settle, reach);
    Ok(Revision {
        entry,
        config,
        plugin,
        description,
        module,
        requirements,
        granted: Arc::new(granted),
        endpoints,
        keys,
        rhythm,
        assumed,
    })
}

/// What a revision is made with.
#[derive(Clone, Copy)]
pub struct Host<'a> {
    /// Runs plugins.
    pub runtime: &'a Runtime,
    /// What plugins may reach.
    pub outside: &'a Outside,
    /// What decides whether bytes are trusted.
    pub trust: Vouchers<'a>,
    /// The objects of the source, as far as they are known.
    pub objects: &'a [Made],
}

impl<'a> Host<'a> {
    /// For a command line: what runs at a desk harms no cluster.
    #[must_use]
    pub const fn at_desk(runtime: &'a Runtime, outside: &'a Outside) -> Self {
        Self { runtime, outside, trust: Vouchers::Desk, objects: &[] }
    }

    /// The same for a source with these objects.
    #[must_use]
    pub const fn with(self, objects: &'a [Made]) -> Self {
        Self { objects, ..self }
    }
}

/// What decides whether bytes are trusted.
#[derive(Debug, Clone, Copy)]
pub enum Vouchers<'a> {
    /// The policy of a host and its keys.
    Host(&'a TrustOptions),
    /// No authority: what runs at a desk harms no cluster.
    Desk,
}

/// Whether the bytes bring what the policy asks for; the stricter one of the host's and the entry's counts. What a
/// signature says is compared with what the plugin says later.
fn vouched(entry: &EntryConfig, module: &Module, trust: Vouchers<'_>) -> Result<Option<Signed>, Refused> {
    let Vouchers::Host(host) = trust else { return Ok(None) };
    if builtin::all().iter().any(|builtin| builtin.digest == module.digest) {
        return Ok(None);
    }
    let usual = match module.origin {
        Origin::ConfigMap | Origin::Registry => Trust::Digest,
        Origin::Builtin | Origin::File | Origin::Kept | Origin::Unknown => Trust::None,
    };
    let needed = entry.plugin.trust.unwrap_or(usual).max(host.least);
    let refused = |message| Err(Refused::loading(RolloutStep::Trust, Reason::Untrusted, message, Failed::ForGood));
    match needed {
        Trust::None => Ok(None),
        Trust::Digest => {
            // What is kept was asked for by its digest.
            let known = module.declared.is_some() || module.origin == Origin::Kept || is_pinned(entry, module);
            match known || entry.plugin.digest == Some(module.digest) {
                true => Ok(None),
                false => refused(format!(
                    "the plugin has no declared digest: put a `.yaml` with `name` and `digest: {0}` beside the module \
                     (`topoloom plugin push` does), or pin it in the entry with `plugin: {{digest: \"{0}\"}}`",
                    module.digest
                )),
            }
        }
        Trust::Signature => match &module.signature {
            None => refused(format!(
                "plugin {} has no signature: put the `.sig` that `topoloom plugin sign` writes beside the module",
                module.digest
            )),
            Some(signature) => match host.keys.verify(signature, module.digest) {
                Ok(signed) => Ok(Some(signed)),
                Err(error) => refused(error.to_string()),
            },
        },
    }
}

/// Whether the entry names the manifest that named these bytes: the reference has its digest. What was pulled by an earlier
/// reference was named by another one.
fn is_pinned(entry: &EntryConfig, module: &Module) -> bool {
    match &entry.plugin.origin {
        PluginOrigin::Oci(oci) => module.manifest.is_some() && oci.reference.digest() == module.manifest,
        PluginOrigin::Installed(_) | PluginOrigin::Builtin(_) | PluginOrigin::File(_) | PluginOrigin::ConfigMap(_) => {
            false
        }
    }
}

fn load_refused(error: &LoadError) -> Refused {
    let step = match error {
        LoadError::Digest { .. } => RolloutStep::Trust,
        LoadError::Compile { .. }
        | LoadError::CompilerFault { .. }
        | LoadError::CompileLimit { .. }
        | LoadError::Compiler { .. }
        | LoadError::Image { .. }
        | LoadError::Host(_) => RolloutStep::Compile,
        LoadError::Link { .. } | LoadError::Initial { .. } => RolloutStep::Link,
        _ => RolloutStep::Scan,
    };
    let failed = match error {
        // What a compile takes is the plugin's doing, what it gets is the machine's.
        LoadError::CompileLimit { .. } => Failed::Fault,
        error if matches!(error.retry(), Retry::Later(_)) => Failed::Circumstance,
        _ => Failed::ForGood,
    };
    let reason = if step == RolloutStep::Trust { Reason::DigestMismatch } else { Reason::PluginInvalid };
    Refused::loading(step, reason, error.to_string(), failed)
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
    let shown = visible || plugin.origin() == GrantOrigin::Embedded;
    let asks = plugin.reads_node_names();
    let granted = grant(requirements, given, plugin.origin());
    let mut refusals = granted.as_ref().err().cloned().unwrap_or_default();
    if asks && !shown {
        refusals.push(grant::NotGranted::NodeNames);
    }
    match granted {
        Ok(granted) if refusals.is_empty() => Ok(Granted { node_names: shown, ..granted }),
        _ => {
            let wanted = grant::NotGranted::yaml(&refusals);
            let what = refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            let message = format!(
                "the plugin requests what is not granted: {what}. To grant it, add to the entry of this source in the discovery document:\n{wanted}"
            );
            Err(Refused::loading(RolloutStep::Grant, Reason::PermissionDenied, message, Failed::ForGood))
        }
    }
}

/// What the endpoints are that were granted, or all that is wrong with them at once.
fn plans(granted: &Granted, entry: &EntryConfig, origin: GrantOrigin, usual: Usual) -> Result<Vec<Plan>, Refused> {
    let (mut plans, mut wrong) = (Vec::new(), Vec::new());
    let among = granted.endpoints.values().filter(|endpoint| !endpoint.required.credentials.is_empty()).count();
    let credentials = entry.credentials.as_ref().map(|credentials| (credentials, among));
    for (name, endpoint) in &granted.endpoints {
        let word = entry.permissions.as_ref().and_then(|given| given.endpoints.get(name));
        let terms = plan::EntryTerms { origin, word, credentials, usual };
        match plan(endpoint, &terms) {
            Ok(plan) => plans.push(plan),
            Err(what) => wrong.push(what),
        }
    }
    if wrong.is_empty() {
        return Ok(plans);
    }
    Err(Refused::loading(RolloutStep::Grant, Reason::PermissionDenied, wrong.join("; "), Failed::ForGood))
}

/// Every mistake with its path; what has none is about the configuration as a whole.
fn listed(problems: &[Problem]) -> String {
    let line = |problem: &Problem| match problem.path.is_empty() {
        true => problem.message.clone(),
        false => format!("config.{problem}"),
    };
    problems.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn call_refused(step: RolloutStep, error: &CallError) -> Refused {
    let message = format!("{}: {error}", step.as_str().to_lowercase());
    Refused::loading(step, call_reason(error), message, call_failed(error))
}

/// What a call that did not end with an answer says about the plugin.
#[must_use]
pub fn call_failed(error: &CallError) -> Failed {
    match error.retry() {
        Retry::OnChange => Failed::ForGood,
        Retry::Later(_) | Retry::AtInterval if error.is_fault_of_plugin() => Failed::Fault,
        Retry::Later(_) | Retry::AtInterval => Failed::Circumstance,
    }
}

/// The condition reason for a call that did not end with an answer.
#[must_use]
pub fn call_reason(error: &CallError) -> Reason {
    use topoloom_core::plugin::Failure;
    match error {
        CallError::Failure(Failure::Config(_)) | CallError::InvalidConfig(_) => Reason::InvalidConfig,
        CallError::Failure(Failure::Denied(_)) => Reason::PermissionDenied,
        CallError::Failure(Failure::Credentials(_)) => Reason::CredentialsMissing,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::Digest;

    #[test]
    fn a_digest_in_the_reference_vouches_for_what_its_manifest_names_and_for_nothing_else() {
        let entry = |reference: &str| -> EntryConfig {
            let plugin = format!("{{oci: {{ref: \"oci://r.example/acme/racks{reference}\"}}}}");
            let text = format!("networkTopologyDiscovery:\n- {{source: s, enabled: true, plugin: {plugin}}}\n");
            config::parse(&text).unwrap().enabled().next().unwrap().clone()
        };
        let (named, other) = (Digest::of(b"its manifest"), Digest::of(b"the manifest of a tag, some time ago"));
        let module = |manifest| Module { manifest, ..Module::plain(Arc::from(*b"x"), Origin::Registry) };
        let pinned = entry(&format!("@{named}"));
        assert!(is_pinned(&pinned, &module(Some(named))));
        for manifest in [Some(other), None] {
            assert!(!is_pinned(&pinned, &module(manifest)));
            let refused = vouched(&pinned, &module(manifest), Vouchers::Host(&TrustOptions::default())).unwrap_err();
            assert_eq!(refused.reason, Reason::Untrusted);
        }
        assert!(!is_pinned(&entry(":stable"), &module(Some(named))));
    }
}
