//! One entry of the list, every field typed.

use super::duration;
use super::endpoint::{namespace, object_name};
use super::permissions::{self, Permissions};
use super::plugin::{self, PluginOrigin, PluginRef};
use super::read::{At, Fields, ReadReport};
use super::tuning::{Limits, Safety, read_limits, read_safety};
use super::yaml::ValueKind;
use crate::endpoints::credential::Hidden;
use crate::endpoints::spec::{Credentials, SecretRef};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::time::Duration;
use topoloom_api::discovery_source::OnRemoval;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::Digest;

/// What `interval` is where it is not given, or not above zero.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(3600);
/// Longest `settle`: an edit of labels takes seconds, and a topology that waits longer is out of date.
pub const MAX_SETTLE: Duration = Duration::from_secs(30);

/// The builtin plugin whose `config` may hold a token.
const TOKEN_IN_CONFIG: &str = "roce";

/// Keys that ask for something to be done once. They are no part of what the entry is, so they do not change its hash.
const VERB_KEYS: [&str; 5] = ["confirm", "continue", "serve", "run", "pause"];

/// One valid entry.
#[derive(Clone, PartialEq)]
pub struct EntryConfig {
    /// The name that owns objects: a label value, not empty.
    pub source: SourceName,
    /// Whether it runs. Where it does not, fields that could not be read have their defaults.
    pub enabled: bool,
    /// Pause between rounds that nothing else triggers; above zero.
    pub interval: Duration,
    /// How long nodes must be unchanged before a round that they trigger.
    pub settle: Duration,
    /// Whether results are written.
    pub mode: Mode,
    /// Whose results are imitated.
    pub compat: Option<Compat>,
    /// What happens to the HyperNodes when the source is disabled or removed.
    pub on_removal: OnRemoval,
    /// What happens to the HyperNodes when the plugin fails for good.
    pub on_failure: OnFailure,
    /// Which plugin serves.
    pub plugin: PluginRef,
    /// What the implicit endpoints of a builtin plugin use.
    pub credentials: Option<Credentials>,
    /// The explicit grants; nothing means that there are none, which only an embedded plugin can live with.
    pub permissions: Option<Permissions>,
    /// What a call may use.
    pub limits: Limits,
    /// What a result may destroy.
    pub safety: Safety,
    /// What should be done once.
    pub verbs: Verbs,
    /// The free-form part, always an object, with `compat` merged in. May hold secrets of careless people.
    pub config: Value,
    /// Hash of the whole entry without its verbs. Equal content has an equal hash, regardless of order and comments.
    pub hash: ContentHash,
    /// Hash of `config` alone.
    pub config_hash: ContentHash,
}

impl fmt::Debug for EntryConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Everything that identifies the entry, and nothing of its free-form part.
        f.debug_struct("EntryConfig")
            .field("source", &self.source)
            .field("enabled", &self.enabled)
            .field("interval", &self.interval)
            .field("plugin", &self.plugin)
            .field("permissions", &self.permissions)
            .field("hash", &self.hash)
            .field("config_hash", &self.config_hash)
            .finish_non_exhaustive()
    }
}

/// Whether results are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They are.
    #[default]
    Apply,
    /// Everything is done but the writing, for a trial beside another controller.
    Observe,
}

/// What happens to the HyperNodes when the plugin fails for good and there is none to go back to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The last good topology stays and is marked stale.
    #[default]
    KeepLast,
    /// They are deleted, in a safe order.
    Remove,
}

/// Whose results are imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compat {
    /// Volcano's own controller.
    Volcano,
    /// No object of an earlier controller.
    None,
}

/// What an operator asks for where there is no DiscoverySource to annotate (decision H17).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verbs {
    /// Apply the held result with this hash.
    pub confirm: Option<String>,
    /// Let the waiting plugin with this digest take over.
    pub continue_with: Option<Digest>,
    /// Serve with the plugin of this digest.
    pub serve: Option<Digest>,
    /// Run a round now; a value that was not seen before is a new request.
    pub run: Option<String>,
    /// Run no rounds, write nothing.
    pub pause: bool,
}

/// A sha256 over content in a canonical form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The hash of a JSON value; the order of keys does not count.
    #[must_use]
    pub fn of(value: &Value) -> Self {
        let mut hasher = Sha256::new();
        feed(&mut hasher, value);
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Feeds a value with its kind and lengths, so that no two values look alike.
fn feed(hasher: &mut Sha256, value: &Value) {
    let mut text = |kind: &str, text: &str| {
        hasher.update(format!("{kind}{}:", text.len()));
        hasher.update(text);
    };
    match value {
        Value::Null => text("n", ""),
        Value::Bool(value) => text("b", if *value { "1" } else { "0" }),
        Value::Number(number) => text("d", &number.to_string()),
        Value::String(value) => text("s", value),
        Value::Array(items) => {
            hasher.update(format!("a{}:", items.len()));
            items.iter().for_each(|item| feed(hasher, item));
        }
        Value::Object(fields) => {
            hasher.update(format!("o{}:", fields.len()));
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|(key, _)| *key);
            for (key, value) in sorted {
                hasher.update(format!("{}:{key}", key.len()));
                feed(hasher, value);
            }
        }
    }
}

/// Reads one entry; nothing where it has no source, but all that is wrong with it is reported then, too. Whether the result
/// counts is for the caller to judge by the report.
pub(super) fn read(
    fields: &mut Fields<'_>,
    source: Option<&SourceName>,
    enabled: bool,
    report: &mut ReadReport,
) -> Option<EntryConfig> {
    let hash = ContentHash::of(&canonical(fields));
    let plugin = plugin::read(fields, source, report);
    let settle = Duration::ZERO..=MAX_SETTLE;
    let compat = fields.read("compat", report, |at| at.one_of(&[("volcano", Compat::Volcano), ("none", Compat::None)]));
    let mut config = read_config(fields, compat, report);
    let literal = take_token(source, &mut config, &plugin, fields, report);
    if fields.has("tierBase") {
        report.warning(fields.place("tierBase"), "is reserved for a later version and has no effect".to_owned());
        fields.take("tierBase");
    }
    Some(EntryConfig {
        enabled,
        interval: fields
            .read("interval", report, At::any_duration)
            .and_then(|d| d.positive())
            .unwrap_or(DEFAULT_INTERVAL),
        settle: fields.read("settle", report, |at| at.duration(&settle)).unwrap_or_default(),
        mode: fields
            .read("mode", report, |at| at.one_of(&[("apply", Mode::Apply), ("observe", Mode::Observe)]))
            .unwrap_or_default(),
        compat,
        on_removal: fields
            .read("onRemoval", report, |at| at.one_of(&[("keep", OnRemoval::Keep), ("delete", OnRemoval::Delete)]))
            .unwrap_or_default(),
        on_failure: fields
            .read("onFailure", report, |at| {
                at.one_of(&[("keep-last", OnFailure::KeepLast), ("remove", OnFailure::Remove)])
            })
            .unwrap_or_default(),
        plugin,
        credentials: read_secret_ref(fields, report).map(Credentials::Secret).or(literal),
        permissions: fields.section("permissions", report, permissions::read),
        limits: fields.section("limits", report, read_limits).unwrap_or_default(),
        safety: fields.section("safety", report, read_safety).unwrap_or_default(),
        verbs: read_verbs(fields, report),
        config_hash: ContentHash::of(&config),
        config,
        hash,
        // The last one, so that all others are read and reported before.
        source: source.cloned()?,
    })
}

/// Reads `source`.
pub(super) fn source(at: &At<'_>) -> Result<SourceName, String> {
    SourceName::parse(&at.text()?).map_err(|error| format!("{error}, not {}", at.describe()))
}

/// The content that counts, as JSON. A number that JSON cannot carry is reported where it is read.
fn canonical(fields: &Fields<'_>) -> Value {
    let ignored = |key: &str| VERB_KEYS.contains(&key) || key == "tierBase" || !KEYS.contains(&key);
    // Null and absent are the same.
    let counted = fields.entries().filter(|(key, node)| !ignored(key) && node.kind() != ValueKind::Null);
    Value::Object(counted.map(|(key, node)| (key.to_owned(), node.to_json_lossy())).collect())
}

/// Keys of an entry, ours and Volcano's. What is not here does not count for the hash.
pub(super) const KEYS: [&str; 21] = [
    "source",
    "enabled",
    "interval",
    "credentials",
    "config",
    "discoverer",
    "plugin",
    "permissions",
    "limits",
    "safety",
    "settle",
    "compat",
    "mode",
    "onRemoval",
    "onFailure",
    "tierBase",
    "confirm",
    "continue",
    "serve",
    "run",
    "pause",
];

fn read_config(fields: &mut Fields<'_>, compat: Option<Compat>, report: &mut ReadReport) -> Value {
    let place = fields.place("config");
    let mut config = match fields.take("config") {
        Some(at) => at.json_object(report),
        None => Map::new(),
    };
    if let Some(Compat::Volcano) = compat {
        let wanted = Value::from("volcano");
        if config.get("compat").is_some_and(|given| *given != wanted) {
            report.error(place, "has a `compat` of its own that differs from the entry's".to_owned());
        }
        config.insert("compat".to_owned(), wanted);
    }
    Value::Object(config)
}

/// Volcano's samples put the token of a RoCE source into its `config`. It works, and goes no further than this: the
/// plugin does not get it.
fn take_token(
    source: Option<&SourceName>,
    config: &mut Value,
    plugin: &PluginRef,
    fields: &Fields<'_>,
    report: &mut ReadReport,
) -> Option<Credentials> {
    let installed = match &plugin.origin {
        PluginOrigin::Installed(name) | PluginOrigin::Builtin(name) => Some(name.as_str()),
        PluginOrigin::File(_) | PluginOrigin::ConfigMap(_) | PluginOrigin::Oci(_) => None,
    };
    // By any of its names: a token left in the configuration would be passed to the plugin that serves the source.
    let names = [source.map(|source| &**source), installed, plugin.expected_name.as_deref()];
    if !names.contains(&Some(TOKEN_IN_CONFIG)) {
        return None;
    }
    let object = config.as_object_mut()?;
    let key = object.keys().find(|key| key.eq_ignore_ascii_case("token"))?.clone();
    let token = object.remove(&key)?;
    // Written twice in different letters, the second one would stay.
    object.retain(|key, _| !key.eq_ignore_ascii_case("token"));
    let place = fields.place("config.token");
    match token {
        Value::String(token) if !token.is_empty() => {
            let advice = "can be read by anyone who can read this ConfigMap; put it into a Secret and name that under `credentials`";
            report.warning(place, advice.to_owned());
            Some(Credentials::Token(Hidden::new(token.into_bytes())))
        }
        Value::Null | Value::String(_) => None,
        _ => {
            report.error(place, "must be text".to_owned());
            None
        }
    }
}

/// Reads `credentials: {secretRef: {name, namespace}}`. Values are not repeated in problems.
pub(super) fn read_secret_ref(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<SecretRef> {
    let credentials = fields.lenient_section("credentials", report, |fields, report| {
        fields.lenient_section("secretRef", report, |fields, report| {
            let place = fields.here();
            let name = fields.read("name", report, |at| match at.private_text()?.as_str() {
                "" => Ok(None),
                _ => object_name(at).map(Some),
            });
            let namespace = fields.read("namespace", report, |at| match at.private_text()?.as_str() {
                "" => Ok(None),
                _ => namespace(at).map(Some),
            });
            if matches!(name, None | Some(None)) {
                report.warning(place, "names no Secret and has no effect".to_owned());
            }
            Some(SecretRef { name: name.flatten()?, namespace: namespace.flatten() })
        })
    });
    credentials.flatten().flatten()
}

fn read_verbs(fields: &mut Fields<'_>, report: &mut ReadReport) -> Verbs {
    Verbs {
        confirm: fields
            .read("confirm", report, At::text)
            .filter(|text| !text.is_empty())
            .map(|text| topoloom_core::text::word(&text)),
        continue_with: fields.read("continue", report, plugin::digest),
        serve: fields.read("serve", report, plugin::digest),
        run: fields.read("run", report, At::text).filter(|text| !text.is_empty()),
        pause: fields.read("pause", report, At::boolean).unwrap_or_default(),
    }
}

/// The range of a duration in words.
pub(super) fn duration_range(range: &std::ops::RangeInclusive<Duration>) -> String {
    format!("between {} and {}", duration::format(*range.start()), duration::format(*range.end()))
}
