//! The table of limits: every number that bounds a plugin, once.
//!
//! Defaults, ranges of the configuration, metric words and the tables of the documentation are all made from these
//! rows. `tests/component/limits.rs` has a guest that exceeds each of them.

use super::Profile;
use super::amount::Amount;
use crate::rules::bounds::Bound;

/// Where a limit can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitSetting {
    /// The entry, under this key of `limits`.
    Entry {
        /// The key.
        key: &'static str,
        /// The lowest value with which anything works.
        low: Amount,
        /// The host's ceiling.
        high: Amount,
    },
    /// The operator who starts the host, with this flag: it belongs to the engine, which all plugins share.
    Host {
        /// The flag.
        flag: &'static str,
        /// The lowest value with which anything works.
        low: Amount,
        /// The highest that the host's own memory allows.
        high: Amount,
    },
    /// It always has the value of another limit.
    With(Limit),
    /// Each endpoint, under this key of `permissions.endpoints.NAME`.
    Endpoint {
        /// The key.
        key: &'static str,
    },
    /// No one can change it: a program that needs more is no discoverer.
    Fixed,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRow {
    /// The word for metrics, from a closed set.
    pub word: &'static str,
    /// One sentence.
    pub meaning: &'static str,
    /// The default for plugins that are compiled to WebAssembly.
    pub standard: Amount,
    /// The default for plugins that carry a language runtime.
    pub large: Amount,
    /// Where it can be changed.
    pub setting: LimitSetting,
}

macro_rules! rows {
    (@large $standard:expr) => { $standard };
    (@large $standard:expr, $large:expr) => { $large };
    (@setting) => { LimitSetting::Fixed };
    (@setting $setting:expr) => { $setting };
    ($(
        $(#[doc = $meaning:literal])+
        $name:ident $word:literal: $standard:expr $(=> $large:expr)? $(; $setting:expr)?,
    )+) => {
        /// A limit: one row of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Limit { $( $(#[doc = $meaning])+ $name, )+ }

        impl Limit {
            /// Every row, in the order of a plugin's life.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The row of this limit.
            #[must_use]
            pub const fn row(self) -> LimitRow {
                match self {
                    $(Self::$name => LimitRow {
                        word: $word,
                        meaning: concat!($($meaning),+),
                        standard: $standard,
                        large: rows!(@large $standard $(, $large)?),
                        setting: rows!(@setting $($setting)?),
                    },)+
                }
            }
        }
    };
}

const fn entry(key: &'static str, low: Amount, high: Amount) -> LimitSetting {
    LimitSetting::Entry { key, low, high }
}

const fn host(flag: &'static str, low: Amount, high: Amount) -> LimitSetting {
    LimitSetting::Host { flag, low, high }
}

// Each comment gives the reason for the number; "measured" is on two cores with wasmtime 48.
rows! {
    /// The delivered file, compressed.
    // Rust discoverers take 9 to 45 KiB compressed, Python 4.4 MiB (measured); a ConfigMap holds 1 MiB.
    Packed "packed": Amount::mib(1) => Amount::mib(8);
        entry("packed", Amount::kib(1), Amount::mib(32)),
    /// The file, uncompressed.
    // Rust discoverers have 20 to 300 KiB, the Python runtime 17.5 MiB (measured).
    File "file": Amount::mib(4) => Amount::mib(32);
        entry("file", Amount::kib(1), Amount::mib(32)),
    /// Enabled features of WebAssembly.
    // Rust, Python and JavaScript guests compile with these alone (measured). All else is less compiler to trust.
    Features "features": Amount::Words(
        "mutable globals, saturating conversions, sign extension, reference types, multi-value, bulk memory, extended \
         constants, floats, component model"
    ),
    /// The body of one function.
    // Register allocation is quadratic: 60 KiB in one function took 1.3 s, 265 KiB 22.7 s (measured).
    Function "function": Amount::kib(64) => Amount::mib(1);
        entry("function", Amount::Bytes(64), Amount::mib(4)),
    /// The locals of one function, without its parameters.
    // The default of the validator is 50 000; honest Rust functions stay below 300.
    Locals "locals": Amount::Count(1_000) => Amount::Count(2_000);
        entry("locals", Amount::Count(1), Amount::Count(50_000)),
    /// Values that one function has at one time, without those in locals.
    // Each waits for a register: 7 500 of them, in 60 KiB, took 3.9 s. Rust guests have up to 12, Python 54 (measured).
    Operands "operands": Amount::Count(1_000),
    /// The functions of all core modules together.
    // A 300 KiB Rust guest has under 2 000.
    Functions "functions": Amount::Count(20_000) => Amount::Count(200_000),
    /// Core modules in the file.
    // An encoded Rust guest has 4: itself, shims, fixups, adapter. Python instantiates more than 32 (measured).
    Modules "modules": Amount::Count(16) => Amount::Count(64),
    /// Nesting of components, including the outermost one.
    // Encoded components contain one, around what they export; composed ones go one or two deeper.
    Depth "depth": Amount::Count(2) => Amount::Count(4),
    /// Instances that the file makes of its modules and components.
    // Rust guests have 5, Python more than 32 (measured). The validator's work grows with their product with imports.
    FileInstances "file-instances": Amount::Count(256),
    /// Imports and exports of all modules and components together.
    // A Rust guest has about 60, Python 400.
    Links "links": Amount::Count(10_000),
    /// Types, aliases, globals, segments and similar items.
    // A Rust guest has a few hundred.
    Items "items": Amount::Count(100_000),
    /// Parameters, and results, of one function.
    // Rust guests have types of up to 15 values. The validator looks at each of them for each target of a branch: 1 000,
    // its own limit, made 36 s of 128 KiB compressed (measured).
    Signature "signature": Amount::Count(100),
    /// Processor time of reading the file, before anything compiles it.
    // 50 µs for a Rust guest (measured), 100 ms for a language runtime.
    ScanCpu "scan-cpu": Amount::seconds(2),
    /// Processor time of one compile; the elapsed time may be six times as long.
    // Honest plugins take 16 ms to 5 s (Python), measured (decision P2).
    CompileCpu "compile-cpu": Amount::seconds(10);
        entry("compileCpu", Amount::seconds(1), Amount::seconds(60)),
    /// Address space of one compile; less if the host's container has less than twice as much free.
    // An honest Rust plugin needs 60 MiB, Python 700 (decision P2).
    CompileMemory "compile-memory": Amount::gib(1);
        entry("compileMemory", Amount::mib(16), Amount::gib(4)),
    /// Memory with which the plugin starts.
    Initial "initial": Amount::mib(256); LimitSetting::With(Limit::Memory),
    /// All linear memories of an instance together.
    // A round over 100 000 nodes needs 3.5 MiB, a 150 MB fabric document read in pieces 60. Below 1 MiB no guest starts,
    // above 4 GiB no 32-bit guest can grow.
    Memory "memory": Amount::mib(256);
        entry("memory", Amount::mib(1), Amount::gib(4)),
    /// Linear memories of an instance.
    // A module has one. A component that is composed of others has one for each of them: a JavaScript engine beside what
    // stands in for WASI, or a discoverer beside a library.
    Memories "memories": Amount::Count(1) => Amount::Count(4),
    /// Core instances of an instance.
    // Rust and JavaScript guests need 4 or fewer, Python more than 32 (measured).
    Instances "instances": Amount::Count(64),
    /// Tables of an instance.
    // A Rust guest has 2.
    Tables "tables": Amount::Count(8),
    /// Elements of all tables together.
    // JavaScript starts with 7 690 (measured). The engine's pool has room for twice the default.
    TableElements "table-elements": Amount::Count(20_000);
        entry("tableElements", Amount::Count(100), Amount::Count(40_000)),
    /// Live resource handles of an instance.
    // A guest holds the two it was given and one per open response.
    Handles "handles": Amount::Count(1_000);
        entry("handles", Amount::Count(10), Amount::Count(100_000)),
    /// The stack of WebAssembly code.
    // A Rust guest has its own stack of 1 MiB in linear memory and needs little of this one.
    Stack "stack": Amount::kib(512);
        host("--plugin-stack", Amount::kib(64), Amount::mib(8)),
    /// Processor time of `discover`; waiting for the host or for a processor does not count.
    // A round over 100 000 nodes takes 5 to 9 ms.
    Cpu "cpu": Amount::seconds(5);
        entry("cpu", Amount::millis(10), Amount::seconds(600)),
    /// Processor time of `describe` and of `configure`.
    // Both only read their argument.
    CpuShort "cpu-short": Amount::seconds(1);
        entry("cpuShort", Amount::millis(10), Amount::seconds(60)),
    /// Elapsed time of a call, including all waiting.
    Wall "wall": Amount::seconds(60);
        entry("timeout", Amount::millis(100), Amount::seconds(3600)),
    /// Data that the plugin sends to the host at once: the arguments of an import, or the answer.
    // 100 000 nodes answer in about 1 MiB.
    Transfer "transfer": Amount::mib(64);
        entry("maxResult", Amount::kib(1), Amount::gib(1)),
    /// Data that the host sends to the plugin in one call: arguments, columns, names, applied groups.
    // 100 000 nodes with three columns and their names are 4 MiB.
    Received "received": Amount::mib(256);
        entry("maxReceived", Amount::kib(1), Amount::gib(4)),
    /// HTTP requests of one call.
    // A fabric of 10 000 switches read in pages of 100 takes 100.
    Requests "requests": Amount::Count(1_000);
        entry("requests", Amount::Count(1), Amount::Count(100_000)),
    /// Open answers of endpoints at one time.
    // One is read at a time; the others are what a careless author forgot to close.
    Connections "connections": Amount::Count(8),
    /// One answer of an endpoint, uncompressed.
    // Four times the answer of a fabric with ten thousand ports (decision P3).
    Body "body": Amount::mib(64); LimitSetting::Endpoint { key: "maxBody" },
    /// Log lines of one call; further lines are only counted.
    LogLines "log-lines": Amount::Count(200);
        entry("logLines", Amount::Count(1), Amount::Count(10_000)),
    /// One log line; the rest is cut.
    LogLine "log-line": Amount::kib(4),
    /// The state of an answer.
    // It is kept in the host's memory between two rounds of a source.
    State "state": Amount::of(Bound::State),
    /// Groups, and levels, of an answer.
    // A path of groups above a node is shared with its neighbours; the more let small clusters have deep trees, and an
    // empty one a skeleton.
    Groups "groups": Amount::of(Bound::Groups),
    /// Members of all groups of an answer, and rows of its diagnostics.
    // A node has a place in every tier of every type of topology at most; a fabric knows hosts that are no nodes.
    Members "members": Amount::of(Bound::Members),
    /// Diagnostics of an answer.
    // A large cluster that is wired completely wrong would have one per node, which helps no more than this many.
    Diagnostics "diagnostics": Amount::of(Bound::Diagnostics),
    /// Labels of one group.
    // A path of tiers has one each.
    Labels "labels": Amount::of(Bound::Labels),
    /// Requirements of one selector.
    Selector "selector": Amount::of(Bound::Selector),
    /// Values of one selector.
    SelectorValues "selector-values": Amount::of(Bound::SelectorValues),
    /// One text of an answer or of requirements.
    // The rules about single texts are stricter and have better messages; this limit bounds the cost of those messages.
    Text "text": Amount::of(Bound::Text),
    /// Labels, annotations, or parts of one endpoint, that `configure` asks for.
    // Each column costs four bytes per node for as long as the source runs.
    Requirements "requirements": Amount::of(Bound::Requirements),
    /// Endpoints, and triggers, that `configure` asks for.
    Endpoints "endpoints": Amount::of(Bound::Endpoints),
    /// A bundle of certificates of one endpoint.
    Bundle "bundle": Amount::of(Bound::Bundle),
    /// Calls of one plugin at one time; the others wait.
    // An answer builds on the one before it.
    PluginCalls "plugin-calls": Amount::Count(1),
    /// Calls of all plugins at one time; the others wait.
    // Twice the threads that plugins run on, since calls also wait for endpoints.
    ProcessCalls "process-calls": Amount::Count(4);
        host("--plugin-calls", Amount::Count(1), Amount::Count(32)),
    /// Linear memory of all calls at one time; a call that needs more waits until others release some.
    // Half of what the chart gives to the container; the other half is for the host itself, and for compiling.
    ProcessMemory "process-memory": Amount::mib(512);
        host("--plugin-memory", Amount::mib(16), Amount::gib(64)),
}

impl Limit {
    /// The row of a bound of the rules.
    #[must_use]
    pub const fn bounding(bound: Bound) -> Self {
        match bound {
            Bound::Groups => Self::Groups,
            Bound::Members => Self::Members,
            Bound::Diagnostics => Self::Diagnostics,
            Bound::Labels => Self::Labels,
            Bound::Selector => Self::Selector,
            Bound::SelectorValues => Self::SelectorValues,
            Bound::Text => Self::Text,
            Bound::State => Self::State,
            Bound::Requirements => Self::Requirements,
            Bound::Endpoints => Self::Endpoints,
            Bound::Bundle => Self::Bundle,
        }
    }

    /// The word for metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        self.row().word
    }

    /// The default.
    #[must_use]
    pub const fn default(self, profile: Profile) -> Amount {
        match profile {
            Profile::Standard => self.row().standard,
            Profile::Large => self.row().large,
        }
    }

    /// The value of a limit that is the same in every profile.
    #[must_use]
    pub const fn fixed(self) -> Amount {
        self.row().standard
    }

    /// The key under `limits` of an entry, if the entry may change it.
    #[must_use]
    pub const fn key(self) -> Option<&'static str> {
        match self.row().setting {
            LimitSetting::Entry { key, .. } => Some(key),
            LimitSetting::With(other) => match other.row().setting {
                LimitSetting::Entry { key, .. } => Some(key),
                _ => None,
            },
            LimitSetting::Host { .. } | LimitSetting::Endpoint { .. } | LimitSetting::Fixed => None,
        }
    }

    /// What an operator can do about it, as the end of a sentence; `None` for a limit that no one can change.
    #[must_use]
    pub fn hint(self) -> Option<String> {
        let LimitRow { standard, large, setting, .. } = self.row();
        if let Some(key) = self.key() {
            let other = if standard == large { "" } else { ", or take `limits.profile: large`," };
            return Some(format!("raise `limits.{key}` of the entry{other} if the plugin needs it"));
        }
        match setting {
            LimitSetting::Host { flag, .. } => {
                Some(format!("start the host with a larger `{flag}` if its plugins need it"))
            }
            LimitSetting::Endpoint { key } => Some(format!("raise `{key}` of the endpoint if it should")),
            _ if standard != large => Some("take `limits.profile: large` if the plugin needs it".to_owned()),
            _ => None,
        }
    }

    /// The same after a semicolon, for the end of a sentence; empty where nothing can be done.
    #[must_use]
    pub fn advice(self) -> String {
        self.hint().map(|hint| format!("; {hint}")).unwrap_or_default()
    }
}
