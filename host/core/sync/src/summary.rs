//! The numbers of a virtual node in one line: the annotations [`LEASE_SUMMARY`](super::keys::LEASE_SUMMARY) (decision S23) and
//! [`POLICY_DETAILS`](super::keys::POLICY_DETAILS) (`bottomup-syncer.md` section 4.1).
//!
//! Owns: their texts, and that they stay short. An API server refuses an object with more than 256 KiB of annotations, all
//! together and without exception: then the node would keep its old size. So each text has [`MOST_BYTES`] at most, and what
//! does not fit is counted at the end.
//!
//! It never decides when they are written: that is with another change only.
//!
//! Failure story: none.

use std::fmt::Write as _;

use super::policy::terms::Limit;
use super::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, ResourceName};
use super::sizes::{Bound, Rounding, Size, Sizes};

/// The longest text, in bytes. Less than 4 KiB hold the reasons of about 50 resources, more than a machine has as a rule; a
/// node object is 10 to 20 KiB otherwise, and every watcher of nodes gets it.
pub const MOST_BYTES: usize = 4_095;

/// What every operator looks for first.
const FIRST: [&str; 4] = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE];

/// The size of a node in one line: `cpu 18550m (of 32, used 5500m, limits[0] 70%); pods 110`.
///
/// For each resource: what is lent; in parentheses, where they matter, what the node has, what is used of it, the limit that
/// decided, and that it was rounded.
#[must_use]
pub fn lease_summary(sizes: &Sizes) -> String {
    let first = FIRST.iter().filter_map(|name| sizes.resources.get_key_value(*name));
    let others = sizes.resources.iter().filter(|(name, _)| !FIRST.contains(&&***name));
    joined("", "; ", first.chain(others).map(|(name, size)| of_resource(name, size)), "")
}

/// The limits of a policy in one line: `night(cpu=20/70%,memory=/60%,nvidia.com/gpu=4/)`; the name alone without limits.
#[must_use]
pub fn policy_details(policy: &str, limits: &[Limit]) -> String {
    if limits.is_empty() {
        return joined(policy, "", std::iter::empty(), "");
    }
    let of_limit = |limit: &Limit| {
        let mut text = format!("{}=", limit.resource);
        // Writing to a text cannot fail.
        let _ = limit.value.quantity().map_or(Ok(()), |quantity| write!(text, "{quantity}"));
        text.push('/');
        let _ = limit.value.share().map_or(Ok(()), |percent| write!(text, "{percent}"));
        text
    };
    joined(&format!("{policy}("), ",", limits.iter().map(of_limit), ")")
}

fn of_resource(name: &ResourceName, size: &Size) -> String {
    let mut text = format!("{name} {}", size.result);
    let mut reasons = Vec::new();
    let base = size.base;
    if size.result != base {
        reasons.push(format!("of {base}"));
    }
    if !size.usage.is_zero() {
        reasons.push(format!("used {}", size.usage));
    }
    if let Some(step) = size.bound() {
        let cap = match (step.bound, step.quantity, step.share) {
            (Bound::Percent, _, Some((percent, _))) => percent.to_string(),
            _ => step.quantity.unwrap_or(step.after).to_string(),
        };
        reasons.push(format!("limits[{}] {cap}", step.limit));
    }
    if size.rounding != Rounding::Exact {
        reasons.push("rounded down".to_owned());
    }
    if !size.placeholders.is_zero() {
        reasons.push(format!("with {} placeholders", size.placeholders));
    }
    if !reasons.is_empty() {
        let _ = write!(text, " ({})", reasons.join(", "));
    }
    text
}

/// The parts between a beginning and an end, at most [`MOST_BYTES`] in all. A part that does not fit is left out, and those
/// after it are tried.
fn joined(begin: &str, separator: &str, parts: impl Iterator<Item = String>, end: &str) -> String {
    // Room for a number of any size, which counts what was left out.
    let room = MOST_BYTES.saturating_sub(end.len()).saturating_sub("and  more".len() + separator.len() + 20);
    let mut text = begin.to_owned();
    let (mut left_out, mut is_first) = (0_usize, true);
    for part in parts {
        let separator = if is_first { "" } else { separator };
        if text.len().saturating_add(separator.len()).saturating_add(part.len()) > room {
            left_out = left_out.saturating_add(1);
            continue;
        }
        text.push_str(separator);
        text.push_str(&part);
        is_first = false;
    }
    if left_out > 0 {
        let separator = if is_first { "" } else { separator };
        let _ = write!(text, "{separator}and {left_out} more");
    }
    text.push_str(end);
    text
}

#[cfg(test)]
mod tests;
