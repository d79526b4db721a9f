//! What the compiler process takes away from itself before it reads the first byte of a stranger.
//!
//! Limits on processor time and memory end a compile that does not end by itself. The filter on system calls is for the
//! day on which a component finds a bug of the compiler: the process can then still compute, and write to the pipe that
//! its image goes to. It cannot open a file, make a socket, start or signal a process, or run code that it wrote.

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use topoloom_core::plugin::CompileLimits;

use super::engine::Threads;

/// What of the machine a compile takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// What everything else on the machine leaves of one processor: in a host, whose other sources work meanwhile.
    Lowest,
    /// One processor, at the priority of the process that started it.
    One,
    /// All processors, at that priority: a person waits.
    All,
}

impl Effort {
    pub(super) const ALL: [Self; 3] = [Self::Lowest, Self::One, Self::All];

    /// Its word on the command line of the compiler process.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Lowest => "lowest",
            Self::One => "one",
            Self::All => "all",
        }
    }

    /// How many threads compile.
    pub(super) fn threads(self) -> Threads {
        match self {
            Self::Lowest | Self::One => Threads::One,
            Self::All => Threads::All,
        }
    }

    /// `nice(2)`
    fn nice(self) -> i32 {
        match self {
            Self::Lowest => 19,
            Self::One | Self::All => 0,
        }
    }
}

/// What a process needs that has its files open and its threads started, and computes. Everything else is `EPERM`.
const CALLS: [i64; 26] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_sigaltstack,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Memory, as long as no code can run in it. The protection is the third argument of both.
const MEMORY_CALLS: [i64; 2] = [libc::SYS_mmap, libc::SYS_mprotect];

/// A signal to itself, by which `abort` ends a process. The first argument is the process, or its first thread.
const SIGNAL_CALLS: [i64; 2] = [libc::SYS_tgkill, libc::SYS_tkill];

/// Takes away from this process what a compile does not need. It cannot be undone.
pub(super) fn confine(bounds: &CompileLimits, effort: Effort) -> wasmtime::Result<()> {
    rustix::process::nice(effort.nice())?;
    // Should memory run out all the same, this process goes and not the host. Best effort: not every sandbox lets us.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    // The first number causes SIGXCPU, which shows the reason; the second SIGKILL, which could have any reason.
    let seconds = seconds(bounds.cpu);
    limit(Resource::Cpu, seconds, seconds + 1)?;
    let memory = memory(left_in_cgroup(), bounds.memory as u64).saturating_add(reserved(effort));
    limit(Resource::As, memory, memory)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Fsize, 0, 0)?;
    if effort.threads() == Threads::All {
        start_threads()?;
    }
    forbid_the_rest(effort.threads())
}

/// Address space that more than one thread takes without using it as memory: for each of them, glibc reserves 64 MiB, twice that while
/// it looks for a place, and its stack has 2 MiB.
fn reserved(effort: Effort) -> u64 {
    const OF_THREAD: u64 = 130 << 20;
    match effort.threads() {
        Threads::One => 0,
        Threads::All => OF_THREAD.saturating_mul(compiling() as u64),
    }
}

/// The threads of the compiler: the filter lets no thread start another one.
fn start_threads() -> wasmtime::Result<()> {
    rayon::ThreadPoolBuilder::new().num_threads(compiling()).build_global()?;
    // What a thread does at its start is not among the allowed calls: all of them have to be beyond it.
    rayon::broadcast(|_| ());
    Ok(())
}

/// More threads than that gain little.
fn compiling() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().min(8))
}

fn limit(resource: Resource, current: u64, maximum: u64) -> wasmtime::Result<()> {
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })?)
}

/// No system calls from here on but those above: of this thread and all that it starts, or of all threads of the process.
fn forbid_the_rest(of: Threads) -> wasmtime::Result<()> {
    let Ok(here) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let filter = filter(here)?;
    let applied = match of {
        Threads::One => seccompiler::apply_filter(&filter),
        Threads::All => seccompiler::apply_filter_all_threads(&filter),
    };
    match applied {
        // A kernel, or something that poses as one, without such filters: the limits have to do.
        Err(seccompiler::Error::Prctl(error) | seccompiler::Error::Seccomp(error)) if is_unknown(&error) => Ok(()),
        Err(error) => Err(wasmtime::Error::from(error).context(
            "no filter on system calls can be set: the profile of the container has to allow `seccomp` and `prctl`",
        )),
        Ok(()) => Ok(()),
    }
}

fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOSYS))
}

fn filter(here: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let only_if = |argument, comparison, value| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)?;
        Ok::<_, seccompiler::BackendError>(vec![SeccompRule::new(vec![condition])?])
    };
    #[allow(clippy::cast_sign_loss, reason = "a constant with one bit")]
    let no_code = only_if(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)?;
    let itself = only_if(0, SeccompCmpOp::Eq, u64::from(std::process::id()))?;
    let calls = CALLS.map(|call| (call, Vec::new())).into_iter();
    let memory = MEMORY_CALLS.map(|call| (call, no_code.clone()));
    let signals = SIGNAL_CALLS.map(|call| (call, itself.clone()));
    let rules = calls.chain(memory).chain(signals).collect();
    #[allow(clippy::cast_sign_loss, reason = "a small positive number")]
    let otherwise = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, otherwise, SeccompAction::Allow, here)?.try_into()
}

/// Processor time as the kernel counts it: whole seconds, at least one.
pub(super) fn seconds(cpu: Duration) -> u64 {
    (cpu.as_secs() + u64::from(cpu.subsec_nanos() > 0)).max(1)
}

/// Half of the free memory, so that a compile cannot end the host, and never more than the limit. If that is too little
/// even for the compiler itself, the compile fails with that reason.
fn memory(left: Option<u64>, limit: u64) -> u64 {
    left.map_or(limit, |left| (left / 2).min(limit))
}

/// What the cgroup of this container has left; `None` without a limit or where it cannot be read. Inside a container
/// its own cgroup is the root of the hierarchy; version 2 first, then version 1.
fn left_in_cgroup() -> Option<u64> {
    let left = |limit: &str, used: &str| {
        let limit = number(&std::fs::read_to_string(limit).ok()?)?;
        let used = number(&std::fs::read_to_string(used).ok()?)?;
        Some(limit.saturating_sub(used))
    };
    left("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current")
        .or_else(|| left("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"))
}

/// `max`, which means no limit, is no number.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::process::Command;

    use super::*;

    #[test]
    fn memory_is_half_of_what_is_left_within_bounds() {
        let limit = 1 << 30;
        assert_eq!(memory(None, limit), limit);
        assert_eq!(memory(Some(64 << 30), limit), limit);
        assert_eq!(memory(Some(1 << 30), limit), 512 << 20);
        assert_eq!(memory(Some(64 << 20), limit), 32 << 20);
        assert_eq!(number("max\n"), None);
        assert_eq!(number("1073741824\n"), Some(1 << 30));
    }

    #[test]
    fn processor_time_is_whole_seconds() {
        assert_eq!((seconds(Duration::from_millis(1)), seconds(Duration::from_millis(1500))), (1, 2));
    }

    #[test]
    fn a_profile_that_forbids_filters_is_named() {
        let error = std::thread::spawn(|| {
            forbid_the_rest(Threads::One).unwrap();
            // Setting a filter is not among the allowed calls.
            forbid_the_rest(Threads::One).unwrap_err()
        });
        let error = crate::plugin::chain(&error.join().unwrap());
        assert!(error.contains("has to allow `seccomp` and `prctl`") && error.contains("not permitted"), "{error}");
    }

    /// A filter holds for a thread and what it starts, so a thread of a test can have one.
    #[test]
    fn what_is_left_is_to_compute() {
        let (files, sockets, processes, memory) = std::thread::spawn(|| {
            forbid_the_rest(Threads::One).unwrap();
            let memory: u64 = vec![1_u64; 8 << 20].into_iter().sum();
            let kind = |error: io::Error| error.kind();
            (
                std::fs::File::open("/proc/self/status").map_err(kind).map(drop),
                std::net::UdpSocket::bind("127.0.0.1:0").map_err(kind).map(drop),
                Command::new("/bin/true").spawn().map_err(kind).map(drop),
                memory,
            )
        })
        .join()
        .unwrap();
        let denied = Err(ErrorKind::PermissionDenied);
        assert_eq!((files, sockets, processes, memory), (denied, denied, denied, 8 << 20));
        assert!(std::fs::File::open("/proc/self/status").is_ok());
    }
}
