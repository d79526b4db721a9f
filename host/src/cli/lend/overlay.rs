//! What a file says in place of what is stored: ClusterBindings and ResourceLeasingPolicies that are not applied yet.
//!
//! Owns the reading of such a file, every mistake in it, and what the clusters would hold with it. Never writes it anywhere.
//!
//! # Failure story
//!
//! A file with a mistake gives no plan: all mistakes are listed with field, value and what is allowed, and the caller ends. What the
//! API server alone judges, such as the length of a list, is found when the file is applied.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;
use topoloom_api::cluster_binding::PolicySource;
use topoloom_api::names::GROUP;
use topoloom_api::rules::is_dns_subdomain;
use topoloom_api::{ClusterBinding, ResourceLeasingPolicy, cluster_binding, resource_leasing_policy};
use topoloom_core::{near, text};
use topoloom_sync::policy::object::Policy;
use topoloom_syncer::convert;
use topoloom_syncer::convert::binding::{Surroundings, read};

/// The most bytes of a file that are read: as many as etcd takes of one object, ten times.
const MOST: u64 = 16 << 20;
/// How many mistakes are listed.
const LISTED: usize = 100;
/// The UID of what is not stored. No API server gives such a one.
const NOT_STORED: &str = "not-stored-yet";
/// What a document has beside its spec. A status is not taken from a file, whatever is in it.
const STATUS: &str = "status";

/// Where a binding takes its policies from, as far as the binding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source<'a> {
    /// The virtual cluster.
    Virtual,
    /// The physical one, with its UID where it was ever connected.
    Physical(Option<&'a str>),
    /// A spec that cannot be read does not say it.
    Unknown,
}

impl<'a> Source<'a> {
    fn of(binding: &'a ClusterBinding) -> Self {
        let uid = binding.status.physical_cluster_uid.as_deref().filter(|uid| !uid.is_empty());
        match binding.spec.as_ref().map(|spec| spec.policy_source.read()) {
            Ok(Ok(PolicySource::Virtual)) => Self::Virtual,
            Ok(Ok(PolicySource::Physical)) => Self::Physical(uid),
            Ok(Err(_)) | Err(_) => Self::Unknown,
        }
    }

    /// Whether both may be one cluster.
    fn may_be(self, other: Self) -> bool {
        match (self, other) {
            (Self::Physical(Some(one)), Self::Physical(Some(other))) => one == other,
            (Self::Virtual, Self::Physical(_)) | (Self::Physical(_), Self::Virtual) => false,
            (Self::Virtual, Self::Virtual) | (Self::Physical(_), Self::Physical(_)) => true,
            (Self::Unknown, _) | (_, Self::Unknown) => true,
        }
    }
}

/// What a file says.
#[derive(Debug, Clone, Default)]
pub(super) struct Overlay {
    bindings: Vec<ClusterBinding>,
    policies: Vec<ResourceLeasingPolicy>,
    /// Kinds of objects that say nothing about lending.
    left_out: BTreeSet<String>,
    mistakes: Vec<String>,
}

impl Overlay {
    /// Reads a file; `-` is standard input.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let source: Box<dyn Read> =
            if path.as_os_str() == "-" { Box::new(std::io::stdin().lock()) } else { Box::new(File::open(path)?) };
        let mut text = String::new();
        source.take(MOST + 1).read_to_string(&mut text)?;
        anyhow::ensure!(text.len() as u64 <= MOST, "it is larger than {MOST} bytes, the most that is read");
        Self::parse(&text)
    }

    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut overlay = Self::default();
        for (index, document) in documents(text)?.into_iter().enumerate() {
            overlay.take(index + 1, document);
        }
        let is_empty = overlay.bindings.is_empty() && overlay.policies.is_empty() && overlay.mistakes.is_empty();
        anyhow::ensure!(!is_empty, "there is neither a ClusterBinding nor a ResourceLeasingPolicy in it");
        Ok(overlay)
    }

    /// Kinds of objects in the file that say nothing about lending.
    pub(super) fn left_out(&self) -> impl Iterator<Item = &str> {
        self.left_out.iter().map(String::as_str)
    }

    /// Whether there are policies in the file.
    pub(super) fn has_policies(&self) -> bool {
        !self.policies.is_empty()
    }

    /// The names of the bindings that the file is about: those in it, and those that its policies name.
    pub(super) fn names(&self) -> BTreeSet<&str> {
        let of_bindings = self.bindings.iter().filter_map(|binding| binding.metadata.name.as_deref());
        let of_policies = self.policies.iter().filter_map(|policy| policy.spec.as_ref().ok());
        of_bindings.chain(of_policies.map(|spec| spec.cluster.as_str())).collect()
    }

    /// The same, with only those policies that count as applied in the cluster from which this binding takes policies. A policy is applied
    /// where the binding that it names takes them. `all` are all bindings, as they would be.
    pub(super) fn at(&self, binding: &ClusterBinding, all: &[ClusterBinding]) -> Self {
        let is_applied_there = |policy: &&ResourceLeasingPolicy| {
            let named = policy.spec.as_ref().ok().and_then(|spec| find(all, &spec.cluster));
            // A policy for a binding that does not exist may be applied anywhere.
            named.is_none_or(|named| Source::of(named).may_be(Source::of(binding)))
        };
        Self { policies: self.policies.iter().filter(is_applied_there).cloned().collect(), ..self.clone() }
    }

    /// Whether it changes one of these stored policies that may be for this binding.
    pub(super) fn changes_a_policy_of(
        &self,
        binding: &str,
        stored: &[ResourceLeasingPolicy],
        virtual_cluster: &str,
    ) -> bool {
        let is_changed = |known: &ResourceLeasingPolicy| {
            let is_it = |policy: &&ResourceLeasingPolicy| {
                policy.metadata.name.is_some() && policy.metadata.name == known.metadata.name
            };
            self.policies.iter().find(is_it).is_some_and(|policy| policy.spec != known.spec)
        };
        stored.iter().any(|known| is_changed(known) && convert::policy::may_be_for(known, binding, virtual_cluster))
    }

    fn take(&mut self, place: usize, document: Value) {
        let text_at = |pointer| document.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, version, name) = (text_at("/kind"), text_at("/apiVersion"), text_at("/metadata/name"));
        match kind.as_str() {
            cluster_binding::KIND => {
                let read =
                    self.object::<ClusterBinding>(place, &version, &name, &cluster_binding::definition(), document);
                let is_known = |known: &ClusterBinding| known.metadata.name.as_ref() == Some(&name);
                if self.bindings.iter().any(is_known) {
                    self.mistakes.push(format!("{kind} {name} is in the file twice"));
                } else {
                    self.bindings.extend(read);
                }
            }
            resource_leasing_policy::KIND => {
                let definition = resource_leasing_policy::definition();
                let read = self.object::<ResourceLeasingPolicy>(place, &version, &name, &definition, document);
                let is_known = |known: &ResourceLeasingPolicy| known.metadata.name.as_ref() == Some(&name);
                if self.policies.iter().any(is_known) {
                    self.mistakes.push(format!("{kind} {name} is in the file twice"));
                } else {
                    self.policies.extend(read);
                }
            }
            "" => self.mistakes.push(format!("document {place} has no kind")),
            other => {
                let known = [cluster_binding::KIND, resource_leasing_policy::KIND];
                let other = text::word(other);
                match near::nearest(&other, known.into_iter()) {
                    Some(meant) if version.split_once('/').is_some_and(|(group, _)| group == GROUP) => self
                        .mistakes
                        .push(format!("document {place}: there is no kind \"{other}\"; did you mean {meant}?")),
                    Some(_) | None => {
                        self.left_out.insert(other);
                    }
                }
            }
        }
    }

    /// One object, if it can be read.
    fn object<T: DeserializeOwned>(
        &mut self,
        place: usize,
        version: &str,
        name: &str,
        definition: &Value,
        document: Value,
    ) -> Option<T> {
        let kind = definition.pointer("/spec/names/kind").and_then(Value::as_str).unwrap_or_default();
        let wanted = cluster_binding::API_VERSION;
        let subject = if name.is_empty() { format!("{kind} in document {place}") } else { subject(kind, name) };
        let mut found = Vec::new();
        if version != wanted {
            found.push(format!("apiVersion must be \"{wanted}\", got \"{}\"", text::word(version)));
        }
        if name.is_empty() {
            found.push("metadata.name is missing".to_owned());
        }
        if let Some(schema) = definition.pointer("/spec/versions/0/schema/openAPIV3Schema") {
            unknown_fields(&document, schema, "", &mut found);
        }
        let read = serde_json::from_value(document).map_err(|error| found.push(error.to_string())).ok();
        self.mistakes.extend(found.into_iter().map(|mistake| format!("{subject}: {mistake}")));
        read.filter(|_| !name.is_empty())
    }

    /// Every mistake of the file, with what is stored and with what it lays over that.
    pub(super) fn mistakes(
        &self,
        stored: &[ClusterBinding],
        laid: &[ClusterBinding],
        around: &Surroundings,
    ) -> Vec<String> {
        let mut all = self.mistakes.clone();
        for binding in &self.bindings {
            let name = binding.metadata.name.as_deref().unwrap_or_default();
            let subject = subject(cluster_binding::KIND, name);
            if let (Some(Ok(was)), Ok(is)) = (find(stored, name).map(|known| &known.spec), &binding.spec) {
                let fixed = [
                    ("clusterID", &was.cluster_id, &is.cluster_id),
                    ("mountNamespace", &was.mount_namespace, &is.mount_namespace),
                ];
                for (field, was, is) in fixed.into_iter().filter(|(_, was, is)| was != is) {
                    let is = text::word(is);
                    all.push(format!("{subject}: spec.{field} never changes: it is \"{was}\", got \"{is}\""));
                }
            }
            let Some(laid) = find(laid, name) else { continue };
            let problems = read(laid, around).map_or_else(Some, |reading| reading.problems);
            if let Some(problems) = problems {
                all.extend(problems.kept.iter().map(|problem| format!("{subject}: {problem}")));
                all.extend(more(&subject, problems.more));
            }
        }
        for policy in &self.policies {
            let name = policy.metadata.name.as_deref().unwrap_or_default();
            let subject = subject(resource_leasing_policy::KIND, name);
            if !is_dns_subdomain(name) {
                all.push(format!(
                    "{subject}: metadata.name must be 1 to 253 lower-case letters, digits, '-' and '.', with a letter or digit at \
                     both ends of each part"
                ));
            }
            let judged = Policy::new(convert::policy::object(policy, ""));
            if let Some(problems) = judged.judgement().problems() {
                all.extend(problems.kept.iter().map(|problem| format!("{subject}: {problem}")));
                all.extend(more(&subject, problems.more));
            }
        }
        let rest = all.len().saturating_sub(LISTED);
        all.truncate(LISTED);
        if rest > 0 {
            all.push(format!("and {rest} more mistakes"));
        }
        all
    }

    /// The bindings as they would be.
    pub(super) fn over_bindings(&self, stored: &[ClusterBinding], now: Timestamp) -> Vec<ClusterBinding> {
        let mut all = stored.to_vec();
        for binding in &self.bindings {
            match all.iter_mut().find(|known| known.metadata.name == binding.metadata.name) {
                Some(known) => {
                    if known.spec != binding.spec {
                        changed(&mut known.metadata);
                        known.spec.clone_from(&binding.spec);
                    }
                    lay(&mut known.metadata, &binding.metadata);
                }
                None => {
                    let status = cluster_binding::ClusterBindingStatus::default();
                    all.push(ClusterBinding { metadata: new(&binding.metadata, now), status, ..binding.clone() });
                }
            }
        }
        all
    }

    /// The policies of a cluster as they would be.
    pub(super) fn over_policies(
        &self,
        stored: Vec<ResourceLeasingPolicy>,
        now: Timestamp,
    ) -> Vec<ResourceLeasingPolicy> {
        let mut all = stored;
        for policy in &self.policies {
            match all.iter_mut().find(|known| known.metadata.name == policy.metadata.name) {
                Some(known) => {
                    if known.spec != policy.spec {
                        changed(&mut known.metadata);
                        known.spec.clone_from(&policy.spec);
                    }
                    lay(&mut known.metadata, &policy.metadata);
                }
                None => {
                    let status = resource_leasing_policy::ResourceLeasingPolicyStatus::default();
                    all.push(ResourceLeasingPolicy { metadata: new(&policy.metadata, now), status, ..policy.clone() });
                }
            }
        }
        all
    }
}

/// The objects of a text: of a list as `kubectl` prints it, or one after the other.
fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents: Vec<Value> = if text.trim_start().starts_with('{') {
        serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>()?
    } else {
        serde_saphyr::from_multiple(text)?
    };
    let mut all = Vec::new();
    for mut document in documents {
        match document.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => all.extend(items),
            Some(_) | None if document.is_null() => {}
            Some(_) | None => all.push(document),
        }
    }
    Ok(all)
}

/// Fields that the definition does not have: an API server drops them, or refuses the object.
fn unknown_fields(value: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    if let (Value::Object(fields), Some(Value::Object(known))) = (value, schema.get("properties")) {
        for (key, value) in fields {
            let at = if path.is_empty() { text::word(key) } else { format!("{path}.{}", text::word(key)) };
            match known.get(key) {
                Some(_) if at == STATUS => {}
                Some(schema) => unknown_fields(value, schema, &at, found),
                None => {
                    let meant = near::nearest(key, known.keys().map(String::as_str));
                    let meant = meant.map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
                    found.push(format!("there is no field {at}{meant}"));
                }
            }
        }
    }
    if let (Value::Array(items), Some(schema)) = (value, schema.get("items")) {
        for (index, item) in items.iter().enumerate() {
            unknown_fields(item, schema, &format!("{path}[{index}]"), found);
        }
    }
}

fn subject(kind: &str, name: &str) -> String {
    format!("{kind} {}", text::word(name))
}

fn more(subject: &str, more: usize) -> Option<String> {
    (more > 0).then(|| format!("{subject}: and {more} more"))
}

fn find<'a>(bindings: &'a [ClusterBinding], name: &str) -> Option<&'a ClusterBinding> {
    bindings.iter().find(|binding| binding.metadata.name.as_deref() == Some(name))
}

/// The metadata of an object that would be created now.
fn new(given: &ObjectMeta, now: Timestamp) -> ObjectMeta {
    ObjectMeta {
        name: given.name.clone(),
        labels: given.labels.clone(),
        annotations: given.annotations.clone(),
        uid: Some(NOT_STORED.to_owned()),
        creation_timestamp: Some(Time(now)),
        generation: Some(1),
        ..ObjectMeta::default()
    }
}

/// Annotations are verbs: those of the file are set, and the others stay.
fn lay(known: &mut ObjectMeta, given: &ObjectMeta) {
    let annotations = given.annotations.clone().unwrap_or_default();
    known.annotations.get_or_insert_default().extend(annotations);
}

fn changed(known: &mut ObjectMeta) {
    known.generation = known.generation.map(|generation| generation.saturating_add(1));
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use topoloom_sync::deletion::Evictions;

    use super::*;

    fn binding(name: &str, namespace: &str) -> ClusterBinding {
        let object = json!({
            "metadata": {"name": name, "uid": format!("{name}-uid"), "generation": 3, "annotations": {"topoloom.dev/paused": "true"}},
            "spec": {"clusterID": name, "mountNamespace": namespace, "secretRef": {"name": "kube"}},
            "status": {"message": "all is well"},
        });
        serde_json::from_value(object).unwrap()
    }

    fn mistakes(text: &str, stored: &[ClusterBinding]) -> Vec<String> {
        let around = Surroundings { virtual_cluster: "vc".into(), evictions: Evictions::Allowed, endpoint: None };
        let overlay = Overlay::parse(text).unwrap();
        let laid = overlay.over_bindings(stored, Timestamp::UNIX_EPOCH);
        overlay.mistakes(stored, &laid, &around)
    }

    const BINDING: &str = "
apiVersion: topoloom.dev/v1alpha1
kind: ClusterBinding
metadata: {name: east}
spec: {clusterID: east, mountNamespace: lent, secretRef: {name: kube}}
";
    const POLICY: &str = r#"
apiVersion: topoloom.dev/v1alpha1
kind: ResourceLeasingPolicy
metadata: {name: nights}
spec:
  cluster: east
  timeZone: Europe/Berlin
  timeWindows: [{start: "20:00", end: "06:00", days: [Monday]}]
  resourceLimits: [{resource: cpu, percent: 70}]
"#;

    #[test]
    fn s23_a_file_has_several_documents_or_a_list_in_yaml_or_json() {
        let both = format!("---\n{BINDING}---\n---\n{POLICY}");
        let overlay = Overlay::parse(&both).unwrap();
        assert_eq!((overlay.bindings.len(), overlay.policies.len()), (1, 1));
        assert_eq!(overlay.names(), BTreeSet::from(["east"]));
        assert_eq!(mistakes(&both, &[]), [""; 0]);
        let items: Vec<Value> = serde_saphyr::from_multiple(&both).unwrap();
        let items: Vec<Value> = items.into_iter().filter(|item| !item.is_null()).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let listed = Overlay::parse(&list).unwrap();
        assert_eq!((listed.bindings, listed.policies), (overlay.bindings, overlay.policies));
    }

    #[test]
    fn s23_objects_of_other_kinds_are_left_out_and_named() {
        let overlay =
            Overlay::parse(&format!("{BINDING}---\nkind: Secret\napiVersion: v1\n---\nkind: Namespace\n")).unwrap();
        assert_eq!(overlay.left_out().collect::<Vec<_>>(), ["Namespace", "Secret"]);
        for nothing in ["", "kind: Secret\n"] {
            let error = Overlay::parse(nothing).unwrap_err().to_string();
            assert!(error.contains("neither a ClusterBinding"), "{error}");
        }
        assert!(Overlay::parse("a: [").is_err() && Overlay::parse("{").is_err());
    }

    #[test]
    fn s23_every_mistake_of_a_file_is_listed_with_field_value_and_range() {
        let text = r#"
apiVersion: topoloom.dev/v1
kind: ClusterBinding
metadata: {name: east}
spec:
  clusterID: East
  mountNamespace: lent
  secretRef: {name: kube}
  nopolicy: Withdraw
  mode: watch
  safety: {maxEvictPercent: 0}
---
apiVersion: topoloom.dev/v1alpha1
kind: ResourceLeasingPolicy
metadata: {name: Nights}
spec:
  cluster: east
  timeWindows: [{start: "25:00", end: "06:00", day: [Mon]}]
  resourceLimits: [{resource: cpu, percent: 170}]
---
apiVersion: topoloom.dev/v1alpha1
kind: ClusterBindings
metadata: {name: west}
---
apiVersion: topoloom.dev/v1alpha1
kind: ResourceLeasingPolicy
spec: {cluster: east}
"#;
        let found = mistakes(text, &[]);
        for (begin, contained) in [
            ("ClusterBinding east: apiVersion", "got \"topoloom.dev/v1\""),
            ("ClusterBinding east: there is no field spec.nopolicy", "did you mean noPolicy?"),
            ("ClusterBinding east: ", "East"),
            ("ClusterBinding east: spec.mode ", "watch"),
            ("ClusterBinding east: spec.safety.maxEvictPercent must be from 1 to 100, got 0", ""),
            ("ResourceLeasingPolicy Nights: metadata.name", "lower-case"),
            ("ResourceLeasingPolicy Nights: there is no field spec.timeWindows[0].day", "did you mean days?"),
            ("ResourceLeasingPolicy Nights: spec.timeWindows[0].", "25:00"),
            ("ResourceLeasingPolicy Nights: spec.resourceLimits[0].percent", "170"),
            ("document 3: there is no kind \"ClusterBindings\"", "did you mean ClusterBinding?"),
            ("ResourceLeasingPolicy in document 4: metadata.name is missing", ""),
        ] {
            let is_it = |mistake: &&String| mistake.starts_with(begin) && mistake.contains(contained);
            assert_eq!(found.iter().filter(is_it).count(), 1, "{begin:?} and {contained:?} in {found:#?}");
        }
        assert_eq!(found.len(), 11, "{found:#?}");
    }

    #[test]
    fn s23_what_never_changes_is_a_mistake_where_the_file_changes_it() {
        assert_eq!(
            mistakes(BINDING, &[binding("east", "elsewhere")]),
            ["ClusterBinding east: spec.mountNamespace never changes: it is \"elsewhere\", got \"lent\""]
        );
        assert_eq!(mistakes(&format!("{BINDING}---{BINDING}"), &[]), ["ClusterBinding east is in the file twice"]);
    }

    #[test]
    fn a_file_of_mistakes_is_not_listed_without_end() {
        let fields: Vec<String> = (0..2 * LISTED).map(|index| format!("unknown{index}: 1")).collect();
        let text = BINDING.replace("spec: {", &format!("spec: {{{}, ", fields.join(", ")));
        let found = mistakes(&text, &[]);
        assert_eq!((found.len(), found.last().map(String::as_str)), (LISTED + 1, Some("and 100 more mistakes")));
    }

    #[test]
    fn s23_a_stored_binding_keeps_what_the_api_server_gave_it() {
        let overlay = Overlay::parse(&BINDING.replace("{name: east}", "{name: east, annotations: {a: b}}")).unwrap();
        let stored = [binding("east", "lent"), binding("west", "lent")];
        let laid = overlay.over_bindings(&stored, Timestamp::UNIX_EPOCH);
        assert_eq!(laid[0].metadata.uid.as_deref(), Some("east-uid"));
        assert_eq!(laid[0].metadata.generation, Some(3));
        assert_eq!(laid[0].annotation("topoloom.dev/paused").zip(laid[0].annotation("a")), Some(("true", "b")));
        assert_eq!((&laid[0].status, &laid[1]), (&stored[0].status, &stored[1]));
        let other = Overlay::parse(&BINDING.replace("spec: {", "spec: {noPolicy: Withdraw, ")).unwrap();
        let laid = other.over_bindings(&stored, Timestamp::UNIX_EPOCH);
        assert_eq!((laid[0].metadata.generation, laid.len()), (Some(4), 2));
        assert_ne!(laid[0].spec, stored[0].spec);
    }

    /// A binding that takes its policies from this side, and borrows from this cluster.
    fn sourced(name: &str, source: &str, cluster: Option<&str>) -> ClusterBinding {
        let object = json!({
            "metadata": {"name": name},
            "spec": {"clusterID": name, "policySource": source},
            "status": {"physicalClusterUID": cluster},
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn s8_a_policy_of_a_file_counts_where_the_binding_that_it_names_takes_its_policies() {
        let overlay = Overlay::parse(POLICY).unwrap();
        for (source, cluster, other, of_other, counts) in [
            ("physical", Some("a"), "physical", Some("a"), true),
            ("physical", Some("a"), "physical", Some("b"), false),
            ("physical", Some("a"), "physical", None, true),
            ("physical", None, "physical", Some("b"), true),
            ("virtual", Some("a"), "virtual", Some("b"), true),
            ("virtual", Some("a"), "physical", Some("a"), false),
            ("physical", Some("a"), "virtual", Some("a"), false),
            // That is a mistake, and no source.
            ("nowhere", Some("a"), "physical", Some("b"), true),
        ] {
            let all = [sourced("east", source, cluster), sourced("west", other, of_other)];
            assert!(overlay.at(&all[0], &all).has_policies(), "its own");
            assert_eq!(overlay.at(&all[1], &all).has_policies(), counts, "{source} {cluster:?} {other} {of_other:?}");
            // The binding that it names does not exist.
            assert!(overlay.at(&all[1], &all[1..]).has_policies());
        }
    }

    #[test]
    fn s8_a_file_that_gives_a_policy_to_another_binding_changes_one_of_the_binding_that_had_it() {
        let stored = |name: &str, cluster: &str, last: Option<&str>| -> ResourceLeasingPolicy {
            let last = last.map(|cluster| json!({"cluster": cluster}));
            let object = json!({
                "metadata": {"name": name}, "spec": {"cluster": cluster}, "status": {"lastValid": last},
            });
            serde_json::from_value(object).unwrap()
        };
        let overlay = Overlay::parse(&POLICY.replace("cluster: east", "cluster: west")).unwrap();
        let changes = |stored: ResourceLeasingPolicy| overlay.changes_a_policy_of("east", &[stored], "vc");
        assert!(changes(stored("nights", "east", None)));
        assert!(changes(stored("nights", "west", Some("east"))), "its last valid version may be in force");
        assert!(!changes(stored("nights", "west", None)) && !changes(stored("days", "east", None)));
        // One that the file leaves as it is.
        let same = overlay.over_policies(Vec::new(), Timestamp::UNIX_EPOCH).remove(0);
        assert!(!overlay.changes_a_policy_of("west", &[same], "vc"));
    }

    #[test]
    fn s23_what_is_not_stored_is_as_if_it_were_created_now() {
        let overlay = Overlay::parse(&format!("{BINDING}---{POLICY}")).unwrap();
        let laid = overlay.over_bindings(&[], Timestamp::UNIX_EPOCH);
        assert_eq!((laid.len(), laid[0].metadata.uid.as_deref()), (1, Some(NOT_STORED)));
        let policies = overlay.over_policies(Vec::new(), Timestamp::UNIX_EPOCH);
        let created = policies[0].metadata.creation_timestamp.clone();
        assert_eq!((policies.len(), created), (1, Some(Time(Timestamp::UNIX_EPOCH))));
        let mut known = policies.clone();
        known[0].status.observed_generation = Some(7);
        known[0].metadata.uid = Some("nights-uid".into());
        let again = overlay.over_policies(known.clone(), Timestamp::MAX);
        assert_eq!(again[0].metadata.uid, known[0].metadata.uid);
        assert_eq!((again[0].status.clone(), again.len()), (known[0].status.clone(), 1));
    }
}
