//! What a plugin may use. Every number is a row of one table ([`Limit`]); most are defaults that an entry can lower or,
//! up to the host's ceiling, raise.
//!
//! The usual fault of plugin hosts is a limit that is configured and never takes effect. So every row has a guest in
//! `tests/component/limits.rs` that exceeds it.

pub mod amount;
pub mod table;

use std::time::Duration;

pub use amount::{Amount, Unit};
pub use table::{Limit, LimitRow, LimitSetting};

/// What kind of program a plugin is: the defaults depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// What a plugin written in Rust needs.
    #[default]
    Standard,
    /// What a language runtime in the plugin needs (Python, JavaScript): opt-in per plugin.
    Large,
}

/// All limits of one plugin. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// What the file may look like, checked before anything compiles it.
    pub scan: ScanLimits,
    /// What the compiler may take.
    pub compile: CompileLimits,
    /// What one instance may hold.
    pub store: StoreLimits,
    /// What one call may take.
    pub call: CallLimits,
}

/// Limits on the component file. They bound the work of the compiler, which is quadratic in the size of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanLimits {
    /// [`Limit::Packed`], checked where the file is unpacked.
    pub packed: usize,
    /// [`Limit::File`]
    pub file: usize,
    /// [`Limit::Function`]
    pub function: usize,
    /// [`Limit::Locals`]
    pub locals: u32,
    /// [`Limit::Operands`]
    pub operands: u32,
    /// [`Limit::Functions`]
    pub functions: u32,
    /// [`Limit::Modules`]
    pub modules: u32,
    /// [`Limit::Depth`]
    pub depth: u32,
    /// [`Limit::Signature`]
    pub signature: u32,
    /// [`Limit::ScanCpu`]
    pub cpu: Duration,
}

/// Bounds on one compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileLimits {
    /// [`Limit::CompileCpu`]
    pub cpu: Duration,
    /// [`Limit::CompileMemory`]
    pub memory: usize,
}

/// Bounds on what one instance holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLimits {
    /// [`Limit::Memory`], and [`Limit::Initial`]
    pub memory: usize,
    /// [`Limit::Memories`]
    pub memories: usize,
    /// [`Limit::Instances`]
    pub instances: usize,
    /// [`Limit::Tables`]
    pub tables: usize,
    /// [`Limit::TableElements`]
    pub table_elements: usize,
    /// [`Limit::Handles`]
    pub handles: usize,
}

/// Bounds on one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLimits {
    /// [`Limit::Cpu`]
    pub cpu: Duration,
    /// [`Limit::CpuShort`]
    pub cpu_short: Duration,
    /// [`Limit::Wall`]
    pub wall: Duration,
    /// [`Limit::Transfer`]
    pub transfer: usize,
    /// [`Limit::Received`]
    pub received: usize,
    /// [`Limit::Requests`]
    pub requests: usize,
    /// [`Limit::LogLines`]
    pub log_lines: usize,
    /// [`Limit::LogLine`]
    pub log_line: usize,
    /// [`Limit::State`]
    pub state: usize,
}

impl Limits {
    /// The defaults of a profile.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let size = |limit: Limit| limit.default(profile).size();
        let small = |limit: Limit| limit.default(profile).small();
        let time = |limit: Limit| limit.default(profile).time();
        Self {
            scan: ScanLimits {
                packed: size(Limit::Packed),
                file: size(Limit::File),
                function: size(Limit::Function),
                locals: small(Limit::Locals),
                operands: small(Limit::Operands),
                functions: small(Limit::Functions),
                modules: small(Limit::Modules),
                depth: small(Limit::Depth),
                signature: small(Limit::Signature),
                cpu: time(Limit::ScanCpu),
            },
            compile: CompileLimits { cpu: time(Limit::CompileCpu), memory: size(Limit::CompileMemory) },
            store: StoreLimits {
                memory: size(Limit::Memory),
                memories: size(Limit::Memories),
                instances: size(Limit::Instances),
                tables: size(Limit::Tables),
                table_elements: size(Limit::TableElements),
                handles: size(Limit::Handles),
            },
            call: CallLimits {
                cpu: time(Limit::Cpu),
                cpu_short: time(Limit::CpuShort),
                wall: time(Limit::Wall),
                transfer: size(Limit::Transfer),
                received: size(Limit::Received),
                requests: size(Limit::Requests),
                log_lines: size(Limit::LogLines),
                log_line: size(Limit::LogLine),
                state: size(Limit::State),
            },
        }
    }

    /// The limits for guests that carry a language runtime.
    #[must_use]
    pub fn large() -> Self {
        Self::of(Profile::Large)
    }

    /// The most that any entry can ask for.
    #[must_use]
    pub fn widest() -> Self {
        let mut limits = Self::large();
        for limit in Limit::ALL {
            if let LimitSetting::Entry { high, .. } = limit.row().setting {
                limits.set(*limit, high);
            }
        }
        limits
    }

    /// Replaces a default. Rows of the host, and rows that cannot be changed, stay as they are.
    pub fn set(&mut self, limit: Limit, amount: Amount) {
        let Self { scan, compile, store, call } = self;
        match limit {
            Limit::Packed => scan.packed = amount.size(),
            Limit::File => scan.file = amount.size(),
            Limit::Function => scan.function = amount.size(),
            Limit::Locals => scan.locals = amount.small(),
            Limit::CompileCpu => compile.cpu = amount.time(),
            Limit::CompileMemory => compile.memory = amount.size(),
            Limit::Memory => store.memory = amount.size(),
            Limit::TableElements => store.table_elements = amount.size(),
            Limit::Handles => store.handles = amount.size(),
            Limit::Cpu => call.cpu = amount.time(),
            Limit::CpuShort => call.cpu_short = amount.time(),
            Limit::Wall => call.wall = amount.time(),
            Limit::Transfer => call.transfer = amount.size(),
            Limit::Received => call.received = amount.size(),
            Limit::Requests => call.requests = amount.size(),
            Limit::LogLines => call.log_lines = amount.size(),
            // A test sets every row that has a key.
            _ => {}
        }
    }
}

impl Default for ScanLimits {
    fn default() -> Self {
        Limits::of(Profile::Standard).scan
    }
}

impl Default for CompileLimits {
    fn default() -> Self {
        Limits::of(Profile::Standard).compile
    }
}

impl Default for StoreLimits {
    fn default() -> Self {
        Limits::of(Profile::Standard).store
    }
}

impl Default for CallLimits {
    fn default() -> Self {
        Limits::of(Profile::Standard).call
    }
}

/// A set of limits, cheap to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitSet(u64);

// One bit each.
const _: () = assert!(Limit::ALL.len() <= u64::BITS as usize);

impl LimitSet {
    /// Adds one.
    pub fn insert(&mut self, limit: Limit) {
        self.0 |= 1 << limit as u32;
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contains(self, limit: Limit) -> bool {
        self.0 & (1 << limit as u32) != 0
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = Limit> {
        Limit::ALL.iter().copied().filter(move |limit| self.contains(*limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn words_and_keys_are_unique_and_meanings_are_sentences() {
        let words: BTreeSet<_> = Limit::ALL.iter().map(|limit| limit.word()).collect();
        assert_eq!(words.len(), Limit::ALL.len());
        let own = |limit: &&Limit| matches!(limit.row().setting, LimitSetting::Entry { .. });
        let keys: BTreeSet<_> = Limit::ALL.iter().filter(own).map(|limit| limit.key()).collect();
        assert_eq!(keys.len(), Limit::ALL.iter().filter(own).count());
        for limit in Limit::ALL {
            let LimitRow { word, meaning, .. } = limit.row();
            assert!(word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{word}");
            assert!(meaning.ends_with('.') && meaning.starts_with(' '), "{word}: {meaning}");
        }
    }

    #[test]
    fn defaults_have_one_unit_and_lie_in_their_range() {
        for limit in Limit::ALL {
            let LimitRow { standard, large, setting, .. } = limit.row();
            assert_eq!(standard.unit(), large.unit(), "{limit:?}");
            if let LimitSetting::Entry { low, high, .. } | LimitSetting::Host { low, high, .. } = setting {
                assert_eq!((low.unit(), high.unit()), (standard.unit(), standard.unit()), "{limit:?}");
                assert!(low <= standard && standard <= large && large <= high, "{limit:?}");
            }
            if let LimitSetting::With(other) = setting {
                assert_eq!((standard, large), (other.row().standard, other.row().large), "{limit:?}");
            }
        }
    }

    #[test]
    fn every_row_with_a_key_can_be_set() {
        for limit in Limit::ALL {
            let LimitSetting::Entry { low, .. } = limit.row().setting else { continue };
            let mut limits = Limits::default();
            limits.set(*limit, low);
            assert_ne!(limits, Limits::default(), "{limit:?}");
            limits.set(*limit, limit.row().standard);
            assert_eq!(limits, Limits::default(), "{limit:?}");
        }
    }

    #[test]
    fn the_widest_limits_are_the_ends_of_all_ranges_and_else_those_of_large_plugins() {
        let widest = Limits::widest();
        let end = |limit: Limit| match limit.row().setting {
            LimitSetting::Entry { high, .. } => high,
            _ => limit.default(Profile::Large),
        };
        assert_eq!(widest.scan.function, end(Limit::Function).size());
        assert_eq!(widest.scan.modules, end(Limit::Modules).small());
        assert_eq!(widest.compile.cpu, end(Limit::CompileCpu).time());
        assert_eq!(widest.store.memory, end(Limit::Memory).size());
    }

    #[test]
    fn a_set_contains_the_limits_that_were_inserted() {
        let mut set = LimitSet::default();
        set.insert(Limit::ProcessCalls);
        set.insert(Limit::Packed);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Limit::Packed, Limit::ProcessCalls]);
        assert!(!set.contains(Limit::Memory));
    }

    #[test]
    fn the_hint_is_part_of_the_row() {
        let hint = |limit: Limit| limit.hint().unwrap_or_default();
        assert_eq!(hint(Limit::Memory), "raise `limits.memory` of the entry if the plugin needs it");
        assert_eq!(hint(Limit::Initial), hint(Limit::Memory));
        assert_eq!(hint(Limit::Stack), "start the host with a larger `--plugin-stack` if its plugins need it");
        assert_eq!(hint(Limit::Groups), "");
    }
    #[test]
    fn the_defaults_are_the_documented_ones() {
        for (limit, standard, large) in [
            (Limit::Packed, Amount::mib(1), Amount::mib(8)),
            (Limit::File, Amount::mib(4), Amount::mib(32)),
            (Limit::Function, Amount::kib(64), Amount::mib(1)),
            (Limit::Locals, Amount::Count(1_000), Amount::Count(2_000)),
            (Limit::CompileCpu, Amount::seconds(10), Amount::seconds(10)),
            (Limit::CompileMemory, Amount::gib(1), Amount::gib(1)),
            (Limit::Memory, Amount::mib(256), Amount::mib(256)),
            (Limit::Memories, Amount::Count(1), Amount::Count(4)),
            (Limit::Instances, Amount::Count(64), Amount::Count(64)),
            (Limit::Tables, Amount::Count(8), Amount::Count(8)),
            (Limit::TableElements, Amount::Count(20_000), Amount::Count(20_000)),
            (Limit::Cpu, Amount::seconds(5), Amount::seconds(5)),
            (Limit::CpuShort, Amount::seconds(1), Amount::seconds(1)),
            (Limit::Wall, Amount::seconds(60), Amount::seconds(60)),
            (Limit::Stack, Amount::kib(512), Amount::kib(512)),
            (Limit::Transfer, Amount::mib(64), Amount::mib(64)),
            (Limit::Received, Amount::mib(256), Amount::mib(256)),
            (Limit::Handles, Amount::Count(1_000), Amount::Count(1_000)),
            (Limit::LogLines, Amount::Count(200), Amount::Count(200)),
            (Limit::LogLine, Amount::kib(4), Amount::kib(4)),
            (Limit::PluginCalls, Amount::Count(1), Amount::Count(1)),
            (Limit::ProcessCalls, Amount::Count(4), Amount::Count(4)),
            (Limit::Requests, Amount::Count(1_000), Amount::Count(1_000)),
        ] {
            assert_eq!(
                (limit.default(Profile::Standard), limit.default(Profile::Large)),
                (standard, large),
                "{limit:?}"
            );
        }
    }
}
