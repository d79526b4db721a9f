//! Amounts of resources, and what a pod requests in total, as a kubelet counts it.
//!
//! Written apart from the syncer's own code, which tests compare with it: a virtual node that the syncer made too large shows
//! as pods that fail here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts by the name of the resource, in thousandths.
pub(super) type Amounts = BTreeMap<String, i128>;

/// The resource of which each pod is one.
pub(super) const PODS: &str = "pods";

const NANO: i128 = 1_000_000_000;

/// An amount in thousandths, rounded up; `None` if the text is none.
pub(super) fn milli(text: &str) -> Option<i128> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let negative = whole.starts_with('-');
    let digits = whole.trim_start_matches(['+', '-']);
    if (digits.is_empty() && part.is_empty()) || part.len() > 9 {
        return None;
    }
    let nano = number_of(digits)?.checked_mul(NANO)?.checked_add(number_of(&format!("{part:0<9}"))?)?;
    let (times, over) = factor(suffix)?;
    let nano = nano.checked_mul(times)?;
    let per_milli = over.checked_mul(NANO / 1000)?;
    let milli = nano / per_milli + i128::from(nano % per_milli != 0);
    Some(if negative { -milli } else { milli })
}

fn number_of(digits: &str) -> Option<i128> {
    if digits.is_empty() { Some(0) } else { digits.parse().ok().filter(|_| !digits.contains(['+', '-'])) }
}

/// By what a suffix multiplies and divides.
fn factor(suffix: &str) -> Option<(i128, i128)> {
    const DECIMAL: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const SMALL: [&str; 4] = ["", "m", "u", "n"];
    let power = |list: &[&str]| list.iter().position(|known| *known == suffix).and_then(|at| u32::try_from(at).ok());
    if let Some(power) = power(&DECIMAL) {
        return Some((1000_i128.pow(power), 1));
    }
    if let Some(power) = power(&BINARY) {
        return Some((1024_i128.pow(power), 1));
    }
    if let Some(power) = power(&SMALL) {
        return Some((1, 1000_i128.pow(power)));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let ten = 10_i128.checked_pow(exponent.unsigned_abs())?;
    Some(if exponent < 0 { (1, ten) } else { (ten, 1) })
}

/// A list as amounts; a text that is none counts as nothing.
pub(super) fn amounts(list: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let list = list.into_iter().flatten();
    list.filter_map(|(name, text)| Some((name.clone(), milli(&text.0)?))).collect()
}

/// What a pod requests: the sum of its containers and sidecars, or the most that its start needs, and its overhead.
pub(super) fn requested(spec: &PodSpec) -> Amounts {
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &of(container));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers.iter().flatten() {
        let mut turn = sidecars.clone();
        add(&mut turn, &of(container));
        raise(&mut peak, &turn);
        if is_sidecar(container) {
            sidecars = turn;
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &peak);
    let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    running.extend(amounts(whole));
    add(&mut running, &amounts(spec.overhead.as_ref()));
    running.insert(PODS.to_owned(), 1000);
    running
}

/// Whether an init container runs beside the containers.
pub(super) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

fn of(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

pub(super) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, more) in more {
        *sum.entry(name.clone()).or_default() += more;
    }
}

fn raise(most: &mut Amounts, least: &Amounts) {
    for (name, least) in least {
        let most = most.entry(name.clone()).or_default();
        *most = (*most).max(*least);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn amounts_are_read_as_kubernetes_writes_them() {
        for (text, wanted) in [
            ("0", 0),
            ("4", 4000),
            ("1500m", 1500),
            ("0.5", 500),
            (".5", 500),
            ("1e3", 1_000_000),
            ("1E-1", 100),
            ("2k", 2_000_000),
            ("1Ki", 1_024_000),
            ("1.5Gi", 1_610_612_736_000),
            ("1u", 1),
            ("-2", -2000),
        ] {
            assert_eq!(milli(text), Some(wanted), "{text}");
        }
        for wrong in ["", "m", "four", "1K", "1 ", "1-2", "1.2.3", "1e"] {
            assert_eq!(milli(wrong), None, "{wrong}");
        }
    }

    fn sum(spec: Value) -> Vec<(String, i128)> {
        requested(&serde_json::from_value(spec).unwrap()).into_iter().collect()
    }

    fn container(name: &str, cpu: &str) -> Value {
        json!({"name": name, "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn containers_and_sidecars_are_added_up_and_the_start_needs_its_peak() {
        let sidecar = json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}});
        let cpu = |spec: Value| sum(spec).into_iter().find(|(name, _)| name == "cpu").map(|(_, amount)| amount);
        let containers = json!([container("a", "1"), container("b", "500m")]);
        assert_eq!(cpu(json!({"containers": containers})), Some(1500));
        assert_eq!(cpu(json!({"containers": containers, "initContainers": [container("i", "3")]})), Some(3000));
        assert_eq!(
            cpu(json!({"containers": containers, "initContainers": [sidecar, container("i", "1")]})),
            Some(1700)
        );
        assert_eq!(
            cpu(json!({"containers": containers, "initContainers": [sidecar, container("i", "1600m")]})),
            Some(1800)
        );
        assert_eq!(
            cpu(json!({"containers": containers, "initContainers": [container("i", "1600m"), sidecar]})),
            Some(1700)
        );
        assert_eq!(cpu(json!({"containers": containers, "overhead": {"cpu": "250m"}})), Some(1750));
        let whole = json!({"requests": {"cpu": "2"}});
        assert_eq!(cpu(json!({"containers": containers, "resources": whole})), Some(2000));
    }

    #[test]
    fn every_pod_is_one_of_the_pods() {
        assert_eq!(sum(json!({"containers": [{"name": "a"}]})), [("pods".to_owned(), 1000)]);
    }
}
