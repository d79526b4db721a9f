//! What the kernel says about a process.

use anyhow::{Context, Result};

/// What a process holds now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Memory, in MiB (`VmRSS`).
    pub(crate) resident: f64,
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
}

pub(crate) fn held(id: u32) -> Result<Held> {
    let status = status(id)?;
    let threads = field(&status, "Threads:")?.parse().context("Threads is no number")?;
    let descriptors = std::fs::read_dir(format!("/proc/{id}/fd")).context("the process has ended")?.count();
    Ok(Held { resident: mib(&status, "VmRSS:")?, threads, descriptors })
}

/// The most memory that a process ever held, in MiB (`VmHWM`). A process that has ended has none.
pub(crate) fn peak_mib(id: u32) -> Result<f64> {
    mib(&status(id)?, "VmHWM:")
}

/// From now on the peak of a process is what it holds from now on.
pub(crate) fn forget_peak(id: u32) -> Result<()> {
    std::fs::write(format!("/proc/{id}/clear_refs"), "5").context("the peak of the process cannot be set back")
}

fn status(id: u32) -> Result<String> {
    std::fs::read_to_string(format!("/proc/{id}/status")).context("the process has ended")
}

fn field<'a>(status: &'a str, name: &str) -> Result<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("the process has ended")?;
    Ok(line.trim())
}

fn mib(status: &str, name: &str) -> Result<f64> {
    let kib = field(status, name)?.trim_end_matches(" kB").parse::<f64>().context("memory is no number")?;
    Ok(kib / 1024.0)
}
