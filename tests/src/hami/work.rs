//! The work list of a device plugin: which devices were chosen for which container (`node-lock-and-bind.md` A17).
//!
//! ```text
//! GPU-1,NVIDIA,3000,50:GPU-2,NVIDIA,3000,50:;;
//! ```
//!
//! is two devices for the first container and none for the second.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

/// The names of devices in work lists (A14). A plugin checks whether one of these words is left, of any vendor.
const TYPES: [&str; 16] = [
    "AMD",
    "AWSNeuron",
    "Ascend",
    "BI-V",
    "Biren",
    "DCU",
    "Enflame",
    "GCU",
    "MLU",
    "MR-V",
    "Metax",
    "Mthreads",
    "NVIDIA",
    "Vastai",
    "XPU",
    "kunlun",
];

/// A part of a device for one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Its identity.
    pub uuid: String,
    /// For instance `NVIDIA`.
    pub kind: String,
    /// In MiB.
    pub memory: u64,
    /// In percent.
    pub cores: u64,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uuid, kind, memory, cores } = self;
        write!(f, "{uuid},{kind},{memory},{cores}")
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fields: Vec<&str> = text.split(',').collect();
        let [uuid, kind, memory, cores] = fields.as_slice() else {
            bail!("the device {text:?} has {} fields instead of 4", fields.len())
        };
        let number =
            |field: &str| field.parse::<u64>().with_context(|| format!("the device {text:?} has no number {field:?}"));
        Ok(Self { uuid: (*uuid).to_owned(), kind: (*kind).to_owned(), memory: number(memory)?, cores: number(cores)? })
    }
}

/// The devices of each container, of the init containers first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkList(Vec<Vec<Device>>);

impl WorkList {
    /// A list of these containers.
    pub fn new(containers: impl IntoIterator<Item = Vec<Device>>) -> Self {
        Self(containers.into_iter().collect())
    }

    /// The container whose turn it is: the first whose devices were not given.
    #[must_use]
    pub fn next(&self) -> Option<usize> {
        self.0.iter().position(|devices| !devices.is_empty())
    }

    /// Returns the devices of the container whose turn it is, and leaves its place empty.
    ///
    /// # Errors
    /// When none is left, or when it has another number of devices than the kubelet requests.
    pub fn take(&mut self, count: u64) -> Result<Vec<Device>> {
        let next = self.next().context("every container has its devices already")?;
        let devices = &mut self.0[next];
        ensure!(devices.len() as u64 == count, "{} devices were chosen, and {count} are asked for", devices.len());
        Ok(std::mem::take(devices))
    }

    /// Whether a list, as text, still has a device.
    #[must_use]
    pub fn is_left(text: &str) -> bool {
        TYPES.iter().any(|kind| text.contains(kind))
    }
}

impl fmt::Display for WorkList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for devices in &self.0 {
            for device in devices {
                write!(f, "{device}:")?;
            }
            write!(f, ";")?;
        }
        Ok(())
    }
}

impl FromStr for WorkList {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let containers = text.strip_suffix(';').with_context(|| format!("the work list {text:?} has no end"))?;
        Ok(Self(containers.split(';').map(devices).collect::<Result<_>>()?))
    }
}

fn devices(text: &str) -> Result<Vec<Device>> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let devices = text.strip_suffix(':').with_context(|| format!("the devices {text:?} have no end"))?;
    devices.split(':').map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> WorkList {
        text.parse().unwrap()
    }

    #[test]
    fn a_list_is_written_as_it_was_read() {
        for (text, counts) in [
            ("GPU-1,NVIDIA,3000,50:;;", vec![1, 0]),
            ("GPU-1,NVIDIA,3000,50:GPU-2,NVIDIA,3000,50:;", vec![2]),
            (";GPU-b,NVIDIA,2000,20:;", vec![0, 1]),
            (";;", vec![0, 0]),
            ("", vec![]),
        ] {
            let list = list(text);
            assert_eq!(list.0.iter().map(Vec::len).collect::<Vec<_>>(), counts, "{text}");
            assert_eq!(list.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["GPU-1,NVIDIA,3000,50", "GPU-1,NVIDIA,3000,50;", "GPU-1,NVIDIA,3000:;", "GPU-1,NVIDIA,much,50:;"] {
            assert!(text.parse::<WorkList>().is_err(), "{text}");
        }
    }

    /// Worked example 13.
    #[test]
    fn containers_take_their_devices_in_turn() {
        let mut list = list("GPU-a,NVIDIA,1000,10:;GPU-b,NVIDIA,2000,20:;");
        assert_eq!(list.next(), Some(0));
        assert_eq!(list.take(1).unwrap()[0].uuid, "GPU-a");
        assert_eq!(list.to_string(), ";GPU-b,NVIDIA,2000,20:;");
        assert!(WorkList::is_left(&list.to_string()));
        assert_eq!(list.next(), Some(1));
        assert_eq!(list.take(1).unwrap()[0].uuid, "GPU-b");
        assert_eq!(list.to_string(), ";;");
        assert!(!WorkList::is_left(&list.to_string()));
        assert_eq!(list.next(), None);
        assert!(list.take(1).is_err());
    }

    #[test]
    fn another_number_of_devices_is_refused_and_takes_none() {
        let mut list = list(";GPU-1,NVIDIA,3000,50:GPU-2,NVIDIA,3000,50:;");
        assert!(list.take(1).is_err());
        assert_eq!(list.take(2).unwrap().len(), 2);
    }
}
