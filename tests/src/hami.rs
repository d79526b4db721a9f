//! What HAMi's programs write on nodes and pods (`node-lock-and-bind.md` A2, A9, A17, A18), as one of them reads it.
//!
//! Nothing of this is taken from the host: a test that reads a lock with the host's own code does not see its mistakes.

mod work;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use kube::api::ObjectMeta;

pub use work::{Device, WorkList};

/// On a pod: `allocating`, `success` or `failed`.
pub const BIND_PHASE: &str = "hami.io/bind-phase";
/// On a pod: when it was bound, in seconds since 1970.
pub const BIND_TIME: &str = "hami.io/bind-time";
/// On a pod: the node that Filter chose for it.
pub const CHOSEN_NODE: &str = "hami.io/vgpu-node";
/// On a pod: when Filter chose it, in seconds since 1970.
pub const CHOSEN_TIME: &str = "hami.io/vgpu-time";
/// On a node: the lock that all vendors but one share.
pub const SHARED_LOCK: &str = "hami.io/mutex.lock";

/// The vendor of the devices that a plugin gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vendor {
    /// Under the shared lock, whose value names the pod.
    Nvidia,
    /// The same.
    Amd,
    /// Under a lock of its own, whose value is a time and nothing else.
    Cambricon,
}

impl Vendor {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Nvidia, Self::Amd, Self::Cambricon];

    /// The resource that a container requests.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia.com/gpu",
            Self::Amd => "amd.com/gpu",
            Self::Cambricon => "cambricon.com/vmlu",
        }
    }

    /// The annotation of the node that is its lock.
    #[must_use]
    pub fn lock(self) -> &'static str {
        match self {
            Self::Nvidia | Self::Amd => SHARED_LOCK,
            Self::Cambricon => "cambricon.com/dsmlu.lock",
        }
    }

    /// The annotation of the pod that lists the devices which are still to be given.
    #[must_use]
    pub fn work_list(self) -> &'static str {
        match self {
            Self::Nvidia => "hami.io/vgpu-devices-to-allocate",
            Self::Amd => "hami.io/amd-devices-to-allocate",
            Self::Cambricon => "hami.io/cambricon-mlu-devices-to-allocate",
        }
    }

    /// The name of its devices in a work list.
    #[must_use]
    pub fn device_type(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
            Self::Cambricon => "MLU",
        }
    }
}

/// An annotation of an object.
#[must_use]
pub fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Namespace and name of the pod that a lock names; none if it has nothing but a time.
///
/// # Errors
/// When it is no lock of any form: a plugin then fails the call.
pub fn owner(value: &str) -> Result<Option<(&str, &str)>> {
    let fields: Vec<&str> = value.split(',').collect();
    let (time, pod) = match fields.as_slice() {
        [time] | [time, "", ""] => (*time, None),
        [time, namespace, name] => (*time, Some((*namespace, *name))),
        fields => anyhow::bail!("the lock {value:?} has {} parts instead of 3", fields.len()),
    };
    ensure!(is_time(time), "the lock {value:?} has no time");
    Ok(pod)
}

/// Whether this pod holds a lock, as the program that releases it decides: by the end of the value.
#[must_use]
pub fn is_of(value: &str, namespace: &str, name: &str) -> bool {
    value.ends_with(&format!(",{namespace},{name}"))
}

/// Whether Go reads it as RFC 3339: with a zone, in capitals, with any number of digits after the point.
fn is_time(text: &str) -> bool {
    let Some((seconds, rest)) = text.split_at_checked(19) else { return false };
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => match fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()) {
            zone if zone.len() == fraction.len() => return false,
            zone => zone,
        },
        None => rest,
    };
    let is_zone = zone == "Z" || is_like(zone, "+00:00") || is_like(zone, "-00:00");
    let is_local = is_like(seconds, "0000-00-00T00:00:00") && !seconds.ends_with("60");
    is_zone && is_local && format!("{seconds}{zone}").parse::<Timestamp>().is_ok()
}

/// Whether a text has a digit wherever the pattern has a zero, and is the pattern everywhere else.
fn is_like(text: &str, pattern: &str) -> bool {
    let fits = |(byte, wanted): (u8, u8)| if wanted == b'0' { byte.is_ascii_digit() } else { byte == wanted };
    text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_names_a_pod_or_none() {
        let owned = Some(("default", "my-gpu-pod"));
        for (value, wanted) in [
            ("2024-01-15T10:30:00Z,default,my-gpu-pod", owned),
            ("2026-01-02T03:04:05.678901234567Z,default,my-gpu-pod", owned),
            ("2026-07-03T15:35:10+08:00", None),
            ("2026-07-03T15:35:10.000000007Z", None),
            ("2026-07-03T15:35:10-00:30,,", None),
        ] {
            assert_eq!(owner(value).unwrap(), wanted, "{value}");
        }
    }

    #[test]
    fn what_is_no_lock_fails_the_call() {
        for value in [
            "",
            "lock",
            "T,a,b",
            "2024-01-15T10:30:00Z,default",
            "2024-01-15T10:30:00Z,default,p,uid",
            "2024-01-15T10:30:00,default,p",
            "2024-01-15 10:30:00Z,default,p",
            "2024-01-15t10:30:00z,default,p",
            "2024-01-15T10:30:60Z,default,p",
            "2024-01-15T10:30:00.Z,default,p",
            "2024-13-15T10:30:00Z,default,p",
        ] {
            assert!(owner(value).is_err(), "{value}");
        }
    }

    #[test]
    fn who_gives_a_lock_back_looks_at_its_end() {
        let is_of_abc = |value| is_of(value, "ns", "abc");
        assert!(is_of_abc("2024-01-15T10:30:00Z,ns,abc"));
        assert!(is_of_abc("x,y,ns,abc"));
        assert!(!is_of_abc("2024-01-15T10:30:00Z,ns,abc-123"));
        assert!(!is_of_abc("2024-01-15T10:30:00Z,other-ns,abc"));
        assert!(!is_of_abc("2024-01-15T10:30:00Z"));
    }
}
