//! What a discoverer keeps from round to round, as bytes.
//!
//! Compact, versioned, and read with suspicion: bytes that are not understood are an empty state, never a panic and
//! never half of one. The host keeps 8 MiB at most; what is larger loses its wirings first, which costs a full round.

use crate::memory::Memory;
use crate::wiring::Wiring;

/// What a discoverer keeps from round to round.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// One part per independent source.
    pub parts: Vec<Part>,
    /// What the last round placed.
    pub memory: Memory,
}

/// What is kept of one source.
#[derive(Debug, Clone, Default)]
pub struct Part {
    /// Which source: the name of the endpoint.
    pub key: String,
    /// The discoverer's own bytes: versions, an `ETag`. At most 64 KiB.
    pub own: Vec<u8>,
    /// Its cables.
    pub wiring: Wiring,
}

impl State {
    /// Reads bytes of [`State::to_bytes`]; empty when they are anything else.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let _ = bytes;
        Self::default()
    }

    /// At most 8 MiB: wirings are left out where they do not fit, then everything.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Vec::new()
    }

    /// The part of a source.
    #[must_use]
    pub fn part(&self, key: &str) -> Option<&Part> {
        self.parts.iter().find(|part| part.key == key)
    }

    /// All cables together.
    #[must_use]
    pub fn wiring(&self) -> Wiring {
        let mut all = Wiring::new();
        self.parts.iter().for_each(|part| all.absorb(&part.wiring));
        all
    }
}
