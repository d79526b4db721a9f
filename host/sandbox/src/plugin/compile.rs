//! From WebAssembly to an image of machine code.
//!
//! The plugins of this binary were compiled when it was built. All other bytes are compiled in a process of their own
//! (decision P2): a compiler that is led astray by hostile input then breaks a process that has no memory, no time and
//! no secret to lose. The result is machine code that this process will run, so it is only ever taken from that pipe,
//! from this binary itself, or from the cache, which returns what that pipe delivered and nothing else.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use topoloom_core::plugin::CompileLimits;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::Digest;
use super::builtin::Builtin;
use super::cache::Verified;
use super::compile_child::{OUT_OF_MEMORY, PANICKED, SUBCOMMAND, UNCONFINED};
use super::confine::{Effort, seconds};
use super::engine::Optimise;
use super::load::{CompileLimit, LoadError};

/// The longest elapsed time of a compile, as a multiple of its processor time: at the lowest priority on a busy machine
/// that can take a while.
const WALL: u32 = 6;

/// The largest image. Images have 2 to 4 times the size of the plugin, which has at most 32 MiB.
pub(super) const IMAGE: usize = 128 << 20;

/// A setting of the allocator of the static binary: it reserves memory as it is needed. It would hold a GiB of address
/// space from the start, in which no limit would count. The ordinary build has another allocator, and says nothing.
const ALLOCATOR: &[(&str, &str)] = if cfg!(target_env = "musl") { &[("MIMALLOC_ARENA_RESERVE", "0")] } else { &[] };

/// How much of the compiler's complaint is kept: its messages are a few lines.
const COMPLAINT: u64 = 4 << 10;

/// The signal that ends a process whose processor time is used up (`signal(7)`, all Linux architectures we build for).
const SIGXCPU: i32 = 24;

/// The signals of a process that gets no more memory: its own, and that of the kernel when there is none left at all.
const KILLED_FOR_MEMORY: [i32; 2] = [6, 9];

/// Where foreign bytes are compiled.
#[derive(Debug, Clone)]
pub enum Compiler {
    /// In a child process of this executable, which must hand `compile-plugin` to [`compile_child::main`].
    ///
    /// [`compile_child::main`]: super::compile_child::main
    Child {
        /// The executable, this binary itself (`/proc/self/exe` survives its replacement on disk).
        exe: PathBuf,
    },
    /// The same at the priority of this process: at a desk a person waits for it, and nothing else that is ours. On one processor, so
    /// that it takes the time and the memory that it takes in a host.
    AtDesk {
        /// As above.
        exe: PathBuf,
    },
    /// The same on all processors, where nothing is said of the limits of a compile.
    Quickest {
        /// As above.
        exe: PathBuf,
    },
}

impl Compiler {
    /// The component, and the image that it was made of.
    pub(super) async fn compile(
        &self,
        engine: &Engine,
        bytes: &[u8],
        optimise: Optimise,
        bounds: &CompileLimits,
    ) -> Result<(Component, Vec<u8>), LoadError> {
        let (exe, effort) = match self {
            Self::Child { exe } => (exe, Effort::Lowest),
            Self::AtDesk { exe } => (exe, Effort::One),
            Self::Quickest { exe } => (exe, Effort::All),
        };
        let failed = |what: &'static str| {
            let exe = exe.display().to_string();
            move |source: io::Error| LoadError::Compiler { what, exe, source }
        };
        let mut child = Command::new(exe)
            .args([SUBCOMMAND, optimise.word(), &seconds(bounds.cpu).to_string(), &bounds.memory.to_string()])
            .arg(effort.word())
            .env_clear()
            .envs(ALLOCATOR.iter().copied())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed("started"))?;
        let talk = converse(&mut child, bytes);
        let wall = bounds.cpu.saturating_mul(WALL);
        let talk = tokio::time::timeout(wall, talk).await;
        let talk = talk.map_err(|_| LoadError::CompileLimit { limit: CompileLimit::Wall(wall) })?;
        let (status, image, complaint) = talk.map_err(failed("used"))?;
        if image.len() > IMAGE {
            return Err(LoadError::CompileLimit { limit: CompileLimit::Image(IMAGE) });
        }
        if status.code() == Some(UNCONFINED.into()) {
            return Err(failed("confined")(io::Error::other(complaint)));
        }
        if status.code() == Some(PANICKED.into()) {
            let digest = Digest::of(bytes);
            // For the authors of topoloom: a refusal with these words would help no operator.
            tracing::debug!(%digest, panic = complaint, "the compiler of plugins panicked");
            return Err(LoadError::CompilerFault { digest });
        }
        judge(status, &complaint, bounds)?;
        Ok((load_image(engine, &image)?, image))
    }
}

/// An image out of the cache.
pub(super) fn verified(engine: &Engine, image: &Verified<'_>) -> Result<Component, LoadError> {
    load_image(engine, image.image())
}

/// The image of a plugin that was compiled when this binary was built; `None` where this machine is not the one it was
/// compiled for, and it has to be compiled like any other.
pub(super) fn embedded(engine: &Engine, builtin: &Builtin) -> Option<Component> {
    let loaded = match builtin.image {
        [] => return None,
        image => load_image(engine, image),
    };
    loaded.map_err(|error| tracing::info!(plugin = builtin.name, %error, "a builtin plugin is compiled again")).ok()
}

/// Gives the bytes to the compiler and takes what it says. All three pipes at once: a full one would block the others.
async fn converse(child: &mut Child, bytes: &[u8]) -> io::Result<(ExitStatus, Vec<u8>, String)> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("its pipes are missing"));
    };
    let give = async move {
        // A compiler that ends early breaks this pipe; why it did says its status.
        let _ = stdin.write_all(bytes).await;
        drop(stdin);
        Ok::<(), io::Error>(())
    };
    let mut image = Vec::new();
    let mut complaint = Vec::new();
    // One byte more than allowed tells a full pipe from a full measure.
    let mut stdout = stdout.take(IMAGE as u64 + 1);
    let mut stderr = stderr.take(COMPLAINT);
    tokio::try_join!(give, stdout.read_to_end(&mut image), stderr.read_to_end(&mut complaint))?;
    drop((stdout, stderr));
    let status = child.wait().await?;
    Ok((status, image, String::from_utf8_lossy(&complaint).trim().to_owned()))
}

fn judge(status: ExitStatus, complaint: &str, bounds: &CompileLimits) -> Result<(), LoadError> {
    let exceeded = |limit| Err(LoadError::CompileLimit { limit });
    match status.signal() {
        _ if status.success() => Ok(()),
        Some(SIGXCPU) => exceeded(CompileLimit::Cpu(Duration::from_secs(seconds(bounds.cpu)))),
        Some(signal) if KILLED_FOR_MEMORY.contains(&signal) => exceeded(CompileLimit::Memory { limit: bounds.memory }),
        Some(signal) => exceeded(CompileLimit::Killed { signal }),
        None if status.code() == Some(OUT_OF_MEMORY.into()) => exceeded(CompileLimit::Memory { limit: bounds.memory }),
        None if complaint.is_empty() => {
            Err(LoadError::Compile { message: format!("the compiler ended with {status}") })
        }
        None => Err(LoadError::Compile { message: complaint.to_owned() }),
    }
}

/// Turns an image into code of this process.
#[allow(
    unsafe_code,
    reason = "the engine cannot prove that an image is what a compiler made; ours is part of this binary or comes \
              through a private pipe from a process of this same binary, now or in an earlier process that sealed it, \
              and from nowhere else (decision P6)"
)]
fn load_image(engine: &Engine, image: &[u8]) -> Result<Component, LoadError> {
    // SAFETY: `image` was written by the build script of this binary, or by `compile_child::main` of the executable
    // that we started ourselves; a `Verified` is such an image, proved by a key that only this program has.
    let component = unsafe { Component::deserialize(engine, image) };
    component.map_err(|error| LoadError::Image { cause: super::chain(&error) })
}
