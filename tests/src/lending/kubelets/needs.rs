//! The ConfigMaps and Secrets without which a kubelet starts no container.
//!
//! One that a variable needs shows as `CreateContainerConfigError` of its container; one that a volume needs keeps all
//! containers in `ContainerCreating`, and only an Event of the real kubelet names it. The real kubelet starts the other
//! containers of the pod meanwhile; here none starts before there is everything.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, Volume};

use super::life::Missing;

/// A kind of object that holds configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    ConfigMap,
    Secret,
}

/// An object, and perhaps a key of it, that a pod needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) key: Option<String>,
    /// `None` for a volume.
    pub(super) container: Option<String>,
}

/// Keys of the objects that were found; those that were not are absent.
pub(super) type Found = BTreeMap<(Kind, String), Vec<String>>;

/// Everything that a pod needs, without what it marks as optional.
pub(super) fn needs(spec: &PodSpec) -> Vec<Need> {
    let volumes = spec.volumes.iter().flatten().flat_map(of_volume);
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    volumes.chain(containers.flat_map(of_container)).collect()
}

/// The first need that is not met.
pub(super) fn missing(needs: &[Need], found: &Found) -> Option<Missing> {
    needs.iter().find_map(|need| {
        let (kind, name) = (need.kind.word(), &need.name);
        let message = match (found.get(&(need.kind, name.clone())), &need.key) {
            (None, _) => format!("{kind} {name:?} not found"),
            (Some(keys), Some(key)) if !keys.contains(key) => format!("couldn't find key {key} in {kind} {name}"),
            (Some(_), _) => return None,
        };
        Some(Missing { container: need.container.clone(), message })
    })
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
        }
    }
}

fn of_volume(volume: &Volume) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut need = |kind, name: Option<&String>, optional: Option<bool>| {
        if let Some(name) = name.filter(|_| optional != Some(true)) {
            needs.push(Need { kind, name: name.clone(), key: None, container: None });
        }
    };
    if let Some(source) = &volume.config_map {
        need(Kind::ConfigMap, Some(&source.name), source.optional);
    }
    if let Some(source) = &volume.secret {
        need(Kind::Secret, source.secret_name.as_ref(), source.optional);
    }
    for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
        if let Some(source) = &source.config_map {
            need(Kind::ConfigMap, Some(&source.name), source.optional);
        }
        if let Some(source) = &source.secret {
            need(Kind::Secret, Some(&source.name), source.optional);
        }
    }
    needs
}

fn of_container(container: &Container) -> Vec<Need> {
    let mut needs = Vec::new();
    let mut need = |kind, name: &str, key: Option<&str>, optional: Option<bool>| {
        if optional != Some(true) {
            let (name, key, container) = (name.to_owned(), key.map(str::to_owned), Some(container.name.clone()));
            needs.push(Need { kind, name, key, container });
        }
    };
    for source in container.env_from.iter().flatten() {
        if let Some(source) = &source.config_map_ref {
            need(Kind::ConfigMap, &source.name, None, source.optional);
        }
        if let Some(source) = &source.secret_ref {
            need(Kind::Secret, &source.name, None, source.optional);
        }
    }
    for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
        if let Some(source) = &source.config_map_key_ref {
            need(Kind::ConfigMap, &source.name, Some(&source.key), source.optional);
        }
        if let Some(source) = &source.secret_key_ref {
            need(Kind::Secret, &source.name, Some(&source.key), source.optional);
        }
    }
    needs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn all() -> Vec<Need> {
        let spec = json!({
            "volumes": [
                {"name": "a", "configMap": {"name": "files"}},
                {"name": "b", "secret": {"secretName": "keys", "optional": true}},
                {"name": "c", "projected": {"sources": [{"secret": {"name": "token"}}]}},
                {"name": "d", "emptyDir": {}},
            ],
            "initContainers": [{"name": "i", "envFrom": [{"configMapRef": {"name": "all"}}]}],
            "containers": [{"name": "m", "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "files", "key": "k", "optional": true}}},
                {"name": "D", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ]}],
        });
        needs(&serde_json::from_value(spec).unwrap())
    }

    fn words(needs: &[Need]) -> Vec<String> {
        let word = |need: &Need| {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!("{} {} {} {}", need.kind.word(), need.name, part(&need.key), part(&need.container))
        };
        needs.iter().map(word).collect()
    }

    #[test]
    fn what_is_not_optional_is_needed() {
        assert_eq!(words(&all()), ["configmap files  ", "secret token  ", "configmap all  i", "secret keys k m"]);
    }

    #[test]
    fn the_first_that_is_missing_is_named() {
        let needs = all();
        let mut found = Found::new();
        let mut next = |kind, name: &str, keys: &[&str]| {
            let before = missing(&needs, &found).map(|missing| (missing.container, missing.message));
            found.insert((kind, name.to_owned()), keys.iter().map(|key| (*key).to_owned()).collect());
            before
        };
        let is = |container: Option<&str>, message: &str| Some((container.map(str::to_owned), message.to_owned()));
        assert_eq!(next(Kind::ConfigMap, "files", &[]), is(None, "configmap \"files\" not found"));
        assert_eq!(next(Kind::Secret, "token", &[]), is(None, "secret \"token\" not found"));
        assert_eq!(next(Kind::ConfigMap, "all", &[]), is(Some("i"), "configmap \"all\" not found"));
        assert_eq!(next(Kind::Secret, "keys", &["other"]), is(Some("m"), "secret \"keys\" not found"));
        assert_eq!(next(Kind::Secret, "keys", &["k"]), is(Some("m"), "couldn't find key k in secret keys"));
        assert_eq!(next(Kind::Secret, "keys", &["k"]), None);
    }
}
