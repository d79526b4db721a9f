//! `make image`: an OCI image of the host, made without a container engine.
//!
//! It owns what is in the image and how it is written. It never pushes: the result is an [OCI layout], a folder that
//! registry tools read. One binary gives one digest, and one source tree gives one binary: no time, no place on disk and
//! no order of a directory is in it.
//!
//! | room | owns |
//! |---|---|
//! | [`Platform`] | the processors that there are images for, and their names |
//! | [`Toolchain`] | the Rust targets and C compilers that a machine has |
//! | [`compile`] | the static binary |
//! | [`Bom`] | what is linked into it, as CycloneDX |
//! | [`assemble`] | the root folder, its layers and the layout |
//! | [`inspect`] | the layout once more, by the rules of its specification |
//! | [`start`] | the image as a process in an empty root, on a real API server |
//! | [`twin`] | the source tree once more in another place |
//!
//! [OCI layout]: https://github.com/opencontainers/image-spec/blob/main/image-layout.md

mod assemble;
mod authorities;
mod bom;
mod compile;
mod inspect;
mod layer;
mod platform;
mod start;
mod toolchain;
mod twin;

pub use assemble::{About, Assembled, Part, assemble};
pub use bom::Bom;
pub use compile::{Checkout, compile};
pub use inspect::{Inspected, inspect};
pub use platform::Platform;
pub use start::{Emulator, Started, User, start};
pub use toolchain::{Compiler, Toolchain};
pub use twin::twin;

/// The largest that an image may be: compressed, with all its layers, for one processor.
pub const BUDGET: u64 = 40 << 20;
