//! Which engine and which binary an image belongs to.

use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::sync::OnceLock;

use ring::digest::{Context, SHA256};
use wasmtime::Engine;

/// What is read of the executable at one time.
const PIECE: usize = 64 << 10;

/// This binary, by its own bytes.
///
/// Every input of a build ends there: the version, but also a compiler of another revision, its flags, a patched engine
/// that kept its version. A version alone would be the same for all builds between two releases. Reading 30 MiB takes
/// tens of milliseconds, once per process, and only where there is a cache. It is the executable that runs, also when an upgrade
/// has put another file in its place.
pub(super) fn build() -> io::Result<[u8; 32]> {
    static BUILD: OnceLock<[u8; 32]> = OnceLock::new();
    if let Some(build) = BUILD.get() {
        return Ok(*build);
    }
    let mut context = Context::new(&SHA256);
    let mut file = File::open("/proc/self/exe")?;
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            read => context.update(piece.get(..read).unwrap_or_default()),
        }
    }
    Ok(*BUILD.get_or_init(|| finish(context)))
}

/// Everything about the engine that decides whether it can run an image: version, settings, and the processor.
pub(super) fn engine(engine: &Engine) -> [u8; 32] {
    let mut hasher = Wide(Context::new(&SHA256));
    engine.precompile_compatibility_hash().hash(&mut hasher);
    finish(hasher.0)
}

fn finish(context: Context) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    hash
}

/// A hasher whose result is as wide as those beside it, and the same in every process.
struct Wide(Context);

impl Hasher for Wide {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let hash = finish(self.0.clone());
        hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}
