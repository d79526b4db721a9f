//! Amounts and times, in documents and as people read them.
//!
//! A document has amounts as Kubernetes writes them, to the last byte. A text has them short: `108Gi`, `18550m`, `125.7Gi`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_sync::quantity::Quantity;
use topoloom_sync::resources::{CPU, EPHEMERAL_STORAGE, HUGE_PAGES_PREFIX, MEMORY, ResourceList};

use crate::cli::print;

/// Amounts by resource, as Kubernetes writes them.
pub(super) type Amounts = BTreeMap<String, String>;

/// Units of bytes and their powers of two, the largest first.
const BINARY: [(&str, u32); 5] = [("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];

/// A time, and how far it is from the time of the document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Moment {
    /// The time, in whole seconds.
    at: String,
    /// In how many seconds it comes; below zero, it is over.
    in_seconds: i64,
}

impl Moment {
    /// A time, as seen at another one.
    pub(super) fn seen(at: Timestamp, now: Timestamp) -> Self {
        let whole = Timestamp::from_second(at.as_second()).unwrap_or(at);
        Self { at: whole.to_string(), in_seconds: at.as_second().saturating_sub(now.as_second()) }
    }

    /// The time alone.
    pub(super) fn at(&self) -> &str {
        &self.at
    }

    /// With its distance: `2026-03-05T18:00:00Z, in 6h30m`.
    pub(super) fn shown(&self) -> String {
        let Self { at, in_seconds } = self;
        match *in_seconds {
            0 => format!("{at}, now"),
            1.. => format!("{at}, in {}", print::span(*in_seconds)),
            ..0 => format!("{at}, {} ago", print::span(in_seconds.saturating_neg())),
        }
    }
}

/// A list of amounts for a document.
pub(super) fn amounts(list: &ResourceList) -> Amounts {
    list.iter().map(|(name, amount)| (name.to_string(), amount.to_string())).collect()
}

/// Two lists together.
pub(super) fn add(to: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        let sum = to.entry(name.clone()).or_default();
        *sum = sum.plus(*amount);
    }
}

/// An amount of a document, as people read it.
pub(super) fn shown(resource: &str, text: &str) -> String {
    Quantity::parse(text).map_or_else(|_| text.to_owned(), |amount| readable(resource, amount))
}

/// The same of a list that may have none of it.
pub(super) fn shown_of(amounts: &Amounts, resource: &str) -> String {
    amounts.get(resource).map_or_else(|| "-".to_owned(), |text| shown(resource, text))
}

/// Amounts in a row: `cpu 18550m, memory 108Gi`.
pub(super) fn in_words(amounts: &Amounts) -> String {
    let mut words = String::new();
    for resource in columns([amounts]) {
        let Some(text) = amounts.get(resource) else { continue };
        let comma = if words.is_empty() { "" } else { ", " };
        push!(words, "{comma}{resource} {}", shown(resource, text));
    }
    if words.is_empty() { "nothing".to_owned() } else { words }
}

/// The resources of these lists in the order in which people look for them: processors, memory, devices, and the rest.
pub(super) fn columns<'a>(lists: impl IntoIterator<Item = &'a Amounts>) -> Vec<&'a str> {
    let names: BTreeSet<&str> = lists.into_iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_by_key(|name| rank(name));
    names
}

/// The place of a resource in that order.
pub(super) fn rank(resource: &str) -> usize {
    match resource {
        CPU => 0,
        MEMORY => 1,
        resource if resource.contains('/') => 2,
        _ => 3,
    }
}

/// The head of the column of a resource: devices keep their case, since they are known by it.
pub(super) fn title(resource: &str) -> String {
    if resource.contains('/') { resource.to_owned() } else { resource.to_uppercase() }
}

fn readable(resource: &str, amount: Quantity) -> String {
    match resource {
        _ if amount < Quantity::ZERO => amount.to_string(),
        CPU => cores(amount),
        MEMORY | EPHEMERAL_STORAGE => bytes(amount),
        _ if resource.starts_with(HUGE_PAGES_PREFIX) => bytes(amount),
        _ => amount.to_string(),
    }
}

fn cores(amount: Quantity) -> String {
    let milli = amount.in_milli();
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// With one digit behind the point, rounded down: a node never lends more than is shown.
fn bytes(amount: Quantity) -> String {
    let bytes = amount.in_units();
    let Some((unit, power)) = BINARY.iter().find(|(_, power)| bytes >= 1_i128 << *power) else {
        return bytes.to_string();
    };
    let tenths = bytes.saturating_mul(10) >> *power;
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, tenth) => format!("{whole}.{tenth}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_in_units_that_people_read() {
        for (resource, text, wanted) in [
            ("cpu", "18550m", "18550m"),
            ("cpu", "32000m", "32"),
            ("cpu", "0", "0"),
            ("cpu", "500u", "0"),
            ("memory", "108Gi", "108Gi"),
            ("memory", "131816452Ki", "125.7Gi"),
            ("memory", "1023", "1023"),
            ("memory", "1024", "1Ki"),
            ("memory", "64G", "59.6Gi"),
            ("ephemeral-storage", "1.5Mi", "1.5Mi"),
            ("hugepages-2Mi", "1Gi", "1Gi"),
            ("nvidia.com/gpu", "4", "4"),
            ("pods", "110", "110"),
            ("memory", "-1Gi", "-1Gi"),
            ("memory", "much", "much"),
        ] {
            assert_eq!(shown(resource, text), wanted, "{resource} {text}");
        }
    }

    #[test]
    fn a_row_begins_with_what_people_look_for() {
        let list = |pairs: &[(&str, &str)]| -> Amounts {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let all = list(&[("pods", "110"), ("nvidia.com/gpu", "4"), ("memory", "2048Ki"), ("cpu", "1500m")]);
        assert_eq!(in_words(&all), "cpu 1500m, memory 2Mi, nvidia.com/gpu 4, pods 110");
        assert_eq!(in_words(&list(&[])), "nothing");
        assert_eq!(columns([&all, &list(&[("amd.com/gpu", "1")])])[2], "amd.com/gpu");
    }

    #[test]
    fn sums_add_what_only_one_of_two_lists_has() {
        let list = |pairs: &[(&str, &str)]| topoloom_sync::resources::read_list(pairs.iter().copied()).unwrap();
        let mut sum = list(&[("cpu", "500m")]);
        add(&mut sum, &list(&[("cpu", "1"), ("memory", "1Gi")]));
        assert_eq!(sum, list(&[("cpu", "1500m"), ("memory", "1Gi")]));
        assert_eq!(amounts(&sum).get("memory").map(String::as_str), Some("1Gi"));
    }

    #[test]
    fn a_time_comes_with_how_far_it_is() {
        let now: Timestamp = "2026-03-05T11:30:00Z".parse().unwrap();
        let seen = |text: &str| Moment::seen(text.parse().unwrap(), now).shown();
        assert_eq!(seen("2026-03-05T18:00:00.5Z"), "2026-03-05T18:00:00Z, in 6h30m");
        assert_eq!(seen("2026-03-05T11:29:50Z"), "2026-03-05T11:29:50Z, 10s ago");
        assert_eq!(seen("2026-03-05T11:30:00.9Z"), "2026-03-05T11:30:00Z, now");
    }
}
