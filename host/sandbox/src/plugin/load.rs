//! Why bytes did not become a plugin, and the last checks on the way.

use std::io;
use std::time::Duration;

use topoloom_core::plugin::{Amount, Limit, Retry, StoreLimits};
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use super::Digest;
use super::maker::Maker;

/// The unit of a wasm memory.
const PAGE: u64 = 64 << 10;

/// Why bytes did not become a plugin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes are not those that the operator pinned.
    #[error("the plugin has digest {found} and {pinned} is pinned")]
    Digest {
        /// What was pinned.
        pinned: Digest,
        /// What the bytes have.
        found: Digest,
    },
    /// The file is larger than it may be.
    #[error("the plugin has {size} bytes and may have {limit}{}", Limit::File.advice())]
    FileTooLarge {
        /// Bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// A compiled image: loading one is running native code of a stranger.
    #[error("the plugin is compiled native code; only WebAssembly is accepted")]
    Precompiled,
    /// A core module.
    #[error(
        "the plugin is a core WebAssembly module, not a component; `topoloom plugin build FILE` wraps it{}; \
         docs/vendors/first-plugin.md has all steps",
        if *imports_preview1 { " and answers what it imports of wasi_snapshot_preview1 without WASI" } else { "" }
    )]
    CoreModule {
        /// Whether it was made for WASI preview 1.
        imports_preview1: bool,
    },
    /// Not WebAssembly at all.
    #[error("the plugin is not WebAssembly: it does not begin with the magic number")]
    NotWasm,
    /// The file is WebAssembly of a kind that is switched off.
    #[error("the plugin uses WebAssembly that is switched off, at byte {offset}: {message}")]
    Feature {
        /// Where.
        offset: u64,
        /// What the validator says.
        message: String,
    },
    /// The file is malformed.
    #[error("the plugin is not valid at byte {offset}: {message}")]
    Invalid {
        /// Where.
        offset: u64,
        /// What the validator says.
        message: String,
    },
    /// The file is valid and larger in some way than a plugin may be.
    #[error("the plugin has {what} of {found}, and {limit} is allowed{}", row.advice())]
    Bounds {
        /// Which row of the table.
        row: Limit,
        /// What was measured.
        what: &'static str,
        /// What was found.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// Imports from outside `topoloom:*`.
    #[error("plugin imports {}; {}", listed(imports), rule(imports, *maker))]
    ForeignImport {
        /// All of them, at least one.
        imports: Vec<String>,
        /// The tool that made it: some have a flag that leaves WASI out.
        maker: Maker,
    },
    /// An import from a package of ours that this host does not have.
    #[error("plugin imports {import}, which this host does not have")]
    UnknownImport {
        /// Its name.
        import: String,
    },
    /// Another version of the interface.
    #[error("plugin needs {needs}, this host supports {supports}")]
    Version {
        /// Package and version that it needs.
        needs: String,
        /// What this host supports.
        supports: &'static str,
    },
    /// No discoverer in it.
    #[error("plugin exports no discoverer ({export}); {found}")]
    World {
        /// What is missing.
        export: &'static str,
        /// What it exports instead.
        found: String,
    },
    /// The plugin starts with more than it may ever have.
    #[error("the plugin starts with {found} {what} and may have {limit}{}", row.advice())]
    Initial {
        /// Which row of the table.
        row: Limit,
        /// Of what.
        what: &'static str,
        /// How much.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The compiler refused it.
    #[error("the plugin does not compile: {message}")]
    Compile {
        /// What the compiler says.
        message: String,
    },
    /// The compiler broke while it compiled the plugin.
    #[error(
        "the plugin {digest} is WebAssembly that the compiler of this host cannot compile, by a fault of the compiler; build \
         the plugin with another tool or version, and report the digest and the file to the authors of topoloom"
    )]
    CompilerFault {
        /// Which plugin.
        digest: Digest,
    },
    /// The compiler needed more than it may.
    #[error("compiling the plugin exceeded a limit: {limit}{}", limit.limit().map(Limit::advice).unwrap_or_default())]
    CompileLimit {
        /// Which.
        limit: CompileLimit,
    },
    /// The compiler process could not be used.
    #[error("the compiler process {exe} could not be {what}: {source}")]
    Compiler {
        /// What was tried.
        what: &'static str,
        /// The executable.
        exe: String,
        /// The cause.
        source: io::Error,
    },
    /// The compiled image was refused.
    #[error("the compiled image does not load: {cause}")]
    Image {
        /// What the engine says.
        cause: String,
    },
    /// Imports or exports have other types than this version has.
    #[error("the plugin does not fit its interface: {cause}")]
    Link {
        /// What the linker says.
        cause: String,
    },
    /// Its source stopped waiting for it.
    #[error("reading the plugin was cancelled")]
    GivenUp,
    /// The host's own fault: a bug.
    #[error("the host failed while it loaded the plugin: {0}")]
    Host(String),
}

/// What ran out while compiling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileLimit {
    /// Processor time.
    Cpu(Duration),
    /// Elapsed time.
    Wall(Duration),
    /// Memory.
    Memory {
        /// The limit, bytes; the container may have had less left.
        limit: usize,
    },
    /// Something else that ended the process.
    Killed {
        /// The signal.
        signal: i32,
    },
    /// Processor time for reading it, before it.
    Scan(Duration),
    /// Bytes of the image.
    Image(usize),
}

impl std::fmt::Display for CompileLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cpu(limit) => write!(f, "{limit:?} of processor time"),
            Self::Wall(limit) => write!(f, "{limit:?} of elapsed time"),
            Self::Memory { limit } => write!(f, "{limit} bytes of memory, or half of what the container has left"),
            Self::Killed { signal } => write!(f, "the compiler ended by signal {signal}"),
            Self::Scan(limit) => write!(f, "{limit:?} of processor time for reading it"),
            Self::Image(limit) => write!(f, "an image of {limit} bytes"),
        }
    }
}

impl CompileLimit {
    /// The row of the table. Two have none: other limits act before them.
    #[must_use]
    pub const fn limit(self) -> Option<Limit> {
        match self {
            Self::Cpu(_) | Self::Wall(_) => Some(Limit::CompileCpu),
            Self::Memory { .. } => Some(Limit::CompileMemory),
            Self::Scan(_) => Some(Limit::ScanCpu),
            Self::Killed { .. } | Self::Image(_) => None,
        }
    }
}

/// Imports that a sentence lists: WASI has about thirty interfaces.
const LISTED: usize = 40;

fn listed(imports: &[String]) -> String {
    let shown = imports.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match imports.len().checked_sub(LISTED) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}

/// The rule that they break, and for WASI what would be right.
fn rule(imports: &[String], maker: Maker) -> String {
    if imports.iter().all(|import| import.starts_with("wasi")) {
        format!("topoloom plugins use no WASI; {}", maker.advice())
    } else {
        "topoloom plugins import only topoloom:*".to_owned()
    }
}

impl LoadError {
    /// The word for conditions, events and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Digest { .. } => "DigestMismatch",
            Self::FileTooLarge { .. } => "FileTooLarge",
            Self::Precompiled => "Precompiled",
            Self::CoreModule { .. } => "CoreModule",
            Self::NotWasm => "NotWasm",
            Self::Feature { .. } => "FeatureOff",
            Self::Invalid { .. } => "InvalidComponent",
            Self::Bounds { .. } => "ComponentTooLarge",
            Self::ForeignImport { .. } => "ForeignImport",
            Self::UnknownImport { .. } => "UnknownImport",
            Self::Version { .. } => "InterfaceVersion",
            Self::World { .. } => "WrongWorld",
            Self::Initial { .. } => "InitialSize",
            Self::Compile { .. } | Self::CompilerFault { .. } => "CompileFailed",
            Self::CompileLimit { .. } => "CompileLimit",
            Self::Compiler { .. } => "CompilerUnavailable",
            Self::Image { .. } => "ImageRefused",
            Self::Link { .. } => "LinkFailed",
            Self::GivenUp => "GivenUp",
            Self::Host(_) => "HostFault",
        }
    }

    /// The row of the table that the plugin does not fit into, if it is one.
    #[must_use]
    pub const fn limit(&self) -> Option<Limit> {
        match self {
            Self::FileTooLarge { .. } => Some(Limit::File),
            Self::Feature { .. } => Some(Limit::Features),
            Self::Bounds { row, .. } | Self::Initial { row, .. } => Some(*row),
            Self::CompileLimit { limit } => limit.limit(),
            _ => None,
        }
    }

    /// What trying the same bytes again is good for. Limits of the compiler depend on what the machine has left.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::CompileLimit { .. } | Self::Compiler { .. } | Self::GivenUp | Self::Host(_) | Self::Image { .. } => {
                Retry::Later(None)
            }
            _ => Retry::OnChange,
        }
    }
}

/// What a plugin has from its first moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of its largest memory.
    pub memory: u64,
    /// Memories.
    pub memories: u32,
    /// Tables.
    pub tables: u32,
    /// Elements of its largest table.
    pub table_elements: u64,
}

impl Needs {
    /// The same by limits.
    #[must_use]
    pub fn measures(&self) -> Vec<(Limit, Amount)> {
        vec![
            (Limit::Initial, Amount::Bytes(self.memory)),
            (Limit::Memories, Amount::Count(self.memories.into())),
            (Limit::Tables, Amount::Count(self.tables.into())),
            (Limit::TableElements, Amount::Count(self.table_elements)),
        ]
    }
}

/// `None`: the component instantiates a module that it imports, and it cannot import one from us.
pub(super) fn needs(component: &Component) -> Option<Needs> {
    let needs = component.resources_required()?;
    Some(Needs {
        memory: needs.max_initial_memory_size.unwrap_or(0).saturating_mul(PAGE),
        memories: needs.num_memories,
        tables: needs.num_tables,
        table_elements: needs.max_initial_table_size.unwrap_or(0),
    })
}

/// Functions of the interface that show names of Nodes.
const NAMING: [&str; 2] = ["snapshot.names", "snapshot.find"];

/// Whether one of these functions shows names of Nodes.
pub(super) fn reads_node_names(imports: &[String]) -> bool {
    imports.iter().any(|import| NAMING.iter().any(|function| import.contains(function)))
}

/// Refuses a plugin that could not even start. The limiter would refuse it too, but in every call again.
pub(super) fn check_resources(component: &Component, limits: &StoreLimits) -> Result<(), LoadError> {
    let Some(needs) = needs(component) else { return Ok(()) };
    let check = |row, what, found: u64, limit: usize| {
        let limit = limit as u64;
        if found > limit { Err(LoadError::Initial { row, what, found, limit }) } else { Ok(()) }
    };
    check(Limit::Initial, "bytes of memory", needs.memory, limits.memory)?;
    check(Limit::Memories, "memories", needs.memories.into(), limits.memories)?;
    check(Limit::Tables, "tables", needs.tables.into(), limits.tables)?;
    check(Limit::TableElements, "table elements", needs.table_elements, limits.table_elements)
}

/// Every function that the component imports, as `interface#function`, sorted.
pub(super) fn imports(component: &Component) -> Vec<String> {
    let engine = component.engine();
    let mut names = Vec::new();
    for (interface, item) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = item.ty else { continue };
        let functions = instance.exports(engine).filter_map(|(name, item)| match item.ty {
            ComponentItem::ComponentFunc(_) => Some(format!("{interface}#{name}")),
            _ => None,
        });
        names.extend(functions);
    }
    names.sort();
    names
}
