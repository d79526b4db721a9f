//! The processors that there are images for.

use std::fmt;

/// A processor, with the names that Rust, C compilers, ELF and OCI have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Platform {
    /// x86-64.
    Amd64,
    /// ARM, 64 bits.
    Arm64,
}

impl Platform {
    /// All of them, in the order of the index.
    pub const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// The one of this machine, if there are images for it.
    #[must_use]
    pub fn here() -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.processor() == std::env::consts::ARCH)
    }

    /// `architecture` of OCI.
    #[must_use]
    pub const fn architecture(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// The processor as Rust, C compilers and qemu call it.
    #[must_use]
    pub const fn processor(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// The Rust target of the static binary.
    #[must_use]
    pub fn target(self) -> String {
        format!("{}-unknown-linux-musl", self.processor())
    }

    /// `e_machine` of ELF.
    pub(super) const fn machine(self) -> u16 {
        match self {
            Self::Amd64 => 62,
            Self::Arm64 => 183,
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.architecture())
    }
}
