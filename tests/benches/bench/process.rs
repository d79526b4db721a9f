//! What the kernel says about a process.

use anyhow::{Context, Result};

/// The most memory that a process ever held, in MiB (`VmHWM`). A process that has ended has none.
pub(crate) fn peak_mib(id: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).context("the process has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("the process has ended")?;
    let kib = line.trim().trim_end_matches(" kB").parse::<f64>().context("VmHWM is no number")?;
    Ok(kib / 1024.0)
}
