//! What a plugin may use. Every number is a default that an entry can lower or, up to the host's ceiling, raise.
//!
//! A limit that is configured and never acts is the commonest fault of plugin hosts, so every field here has a guest in
//! `tests/component` that runs into it.

use std::time::Duration;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// All limits of one plugin. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// What the file may look like, checked before anything compiles it.
    pub scan: ScanLimits,
    /// What one instance may hold.
    pub store: StoreLimits,
    /// What one call may take.
    pub call: CallLimits,
}

impl Limits {
    /// The limits for guests that carry a language runtime (Python, JavaScript): opt-in per plugin.
    #[must_use]
    pub fn large() -> Self {
        Self { scan: ScanLimits::large(), ..Self::default() }
    }
}

/// Bounds on the component file. They bound the work of the compiler, which is quadratic in the size of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanLimits {
    /// The file, unpacked.
    pub file: usize,
    /// The body of one function.
    pub function: usize,
    /// The locals of one function, parameters not counted.
    pub locals: u32,
    /// The functions of all core modules together.
    pub functions: u32,
    /// Core modules in the file.
    pub modules: u32,
    /// Components inside components.
    pub depth: u32,
}

impl Default for ScanLimits {
    fn default() -> Self {
        Self {
            // Rust discoverers have 20 to 300 KiB; what needs more is a language runtime.
            file: 4 * MIB,
            // Register allocation is quadratic: 60 KiB in one function took 1.3 s, 265 KiB 22.7 s (measured).
            function: 64 * KIB,
            // The default of the validator is 50 000; honest Rust functions stay below 300.
            locals: 1_000,
            // A 300 KiB Rust guest has under 2 000.
            functions: 20_000,
            // An encoded Rust guest has 4: itself, shims, fixups, adapter.
            modules: 16,
            // Encoded components contain none; composed ones go one deep. The root counts.
            depth: 2,
        }
    }
}

impl ScanLimits {
    fn large() -> Self {
        Self {
            // The Python runtime is 17.5 MiB (measured).
            file: 32 * MIB,
            function: MIB,
            locals: 2_000,
            functions: 200_000,
            // The Python runtime instantiates more than 32 modules (measured).
            modules: 64,
            depth: 4,
        }
    }
}

/// Bounds on what one instance holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLimits {
    /// All linear memories together. A 100 000 node round needs 3.5 MiB, a 150 MB fabric document read in pieces 60.
    pub memory: usize,
    /// Linear memories. Multi-memory is off; what needs two is not what our tools build.
    pub memories: usize,
    /// Core instances: Rust and JavaScript guests need 4 or fewer, Python more than 32 (measured).
    pub instances: usize,
    /// Tables.
    pub tables: usize,
    /// Elements of all tables together; JavaScript starts with 7 690 (measured).
    pub table_elements: usize,
    /// Live resource handles: a guest holds the two it was given and one per open response.
    pub handles: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { memory: 256 * MIB, memories: 1, instances: 64, tables: 8, table_elements: 20_000, handles: 1_000 }
    }
}

/// Bounds on one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLimits {
    /// Guest time of `discover`; a round over 100 000 nodes takes 5 to 9 ms. Stops while the guest waits in the host.
    pub cpu: Duration,
    /// Guest time of `describe` and `configure`, which only read their argument.
    pub cpu_short: Duration,
    /// Time by the clock, waiting in host functions included.
    pub wall: Duration,
    /// Bytes from guest to host, per host call and for the answer. 100 000 nodes answer in about 1 MiB.
    pub transfer: usize,
    /// Log lines; what is beyond is counted.
    pub log_lines: usize,
    /// Bytes of one log line.
    pub log_line: usize,
    /// Bytes of state that an answer carries.
    pub state: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            cpu: Duration::from_secs(5),
            cpu_short: Duration::from_secs(1),
            wall: Duration::from_secs(60),
            transfer: 64 * MIB,
            log_lines: 200,
            log_line: 4 * KIB,
            state: 8 * MIB,
        }
    }
}
