//! What the kernel reports about a process.

use std::time::Duration;

use anyhow::{Context, Result};

/// The resources that a process holds now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessMemory {
    /// Memory, in MiB (`VmRSS`).
    pub(crate) resident: f64,
    pub(crate) threads: usize,
    pub(crate) descriptors: usize,
    /// Processes that it started and that are not gone yet, zombies included.
    pub(crate) children: usize,
}

pub(crate) fn held(id: u32) -> Result<ProcessMemory> {
    let status = status(id)?;
    let threads = field(&status, "Threads:")?.parse().context("Threads is no number")?;
    let descriptors =
        std::fs::read_dir(format!("/proc/{id}/fd")).context("the process has ended, or you are not root")?.count();
    let mut children = 0;
    for task in std::fs::read_dir(format!("/proc/{id}/task"))? {
        // A thread that has ended meanwhile has no such file.
        let own = std::fs::read_to_string(task?.path().join("children")).unwrap_or_default();
        children += own.split_whitespace().count();
    }
    Ok(ProcessMemory { resident: mib(&status, "VmRSS:")?, threads, descriptors, children })
}

/// The most memory that a process ever held, in MiB (`VmHWM`). A process that has ended has none.
pub(crate) fn peak_mib(id: u32) -> Result<f64> {
    mib(&status(id)?, "VmHWM:")
}

/// Processor time that this process has used, its children's left out: whole hundredths of a second.
pub(crate) fn own_cpu() -> Result<Duration> {
    used("self")
}

/// Processor time that another process has used.
pub(crate) fn cpu(id: u32) -> Result<Duration> {
    used(&id.to_string())
}

fn used(process: &str) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').context("the kernel says something else")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// Resets the peak of a process to the memory that it holds now.
pub(crate) fn forget_peak(id: u32) -> Result<()> {
    std::fs::write(format!("/proc/{id}/clear_refs"), "5")
        .context("the peak of the process cannot be set back; that takes root")
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
