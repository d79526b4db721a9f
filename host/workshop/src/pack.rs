//! Components as they are delivered: packed with zstd, and whether a ConfigMap has room for that.
//!
//! Owns the amount that fits into a ConfigMap, and the packing that makes a component fit which the quick one leaves a little
//! too large. Never writes a file and knows no cluster.
//!
//! # Failure story
//!
//! What [`best`] writes is read again before it is used: where its bytes are not those that went in, the quick packing is the
//! answer, which every delivery uses.

mod matcher;

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, FrameCompressor, compress_to_vec};

use matcher::DeepMatcher;

/// What fits beside names and labels into an object of the API server, which is 1 MiB at most.
pub const ROOM: usize = (1 << 20) - (16 << 10);

/// How much larger than [`ROOM`] the quick packing may be for another one to be worth its seconds: it gains a third at most.
const HOPE: usize = ROOM + ROOM / 2;

/// A component that no ConfigMap takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "it has {packed} bytes packed, and a ConfigMap has room for {ROOM}; deliver it in a volume (`plugin: {{file: PATH}}`, or \
     --plugin-dir) or in a registry (`plugin: {{oci: {{ref: REF}}}}`); a plugin in a compiled language is small enough for a \
     ConfigMap"
)]
pub struct TooLarge {
    /// Bytes, packed as well as it can be.
    pub packed: usize,
}

/// Packs quickly.
#[must_use]
pub fn quick(component: &[u8]) -> Vec<u8> {
    compress_to_vec(component, CompressionLevel::Fastest)
}

/// Packs as well as this program can: some seconds for each MiB.
#[must_use]
pub fn best(component: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut compressor =
        FrameCompressor::new_with_matcher(DeepMatcher::new(component.len()), CompressionLevel::Fastest);
    compressor.set_source(component);
    compressor.set_drain(&mut packed);
    compressor.compress();
    drop(compressor);
    let quick = quick(component);
    if packed.len() < quick.len() && unpacks_to(&packed, component) { packed } else { quick }
}

/// Packs for a ConfigMap: quickly where that is enough, otherwise as well as possible.
///
/// # Errors
/// A component that has no room in any case, with the ways that are left.
pub fn for_config_map(component: &[u8]) -> Result<Vec<u8>, TooLarge> {
    let mut packed = quick(component);
    if packed.len() > ROOM && packed.len() <= HOPE {
        packed = best(component);
    }
    if packed.len() > ROOM { Err(TooLarge { packed: packed.len() }) } else { Ok(packed) }
}

/// How many bytes that are, whether a ConfigMap has room for them or not.
#[must_use]
pub fn size_for_config_map(component: &[u8]) -> usize {
    for_config_map(component).map_or_else(|large| large.packed, |packed| packed.len())
}

/// Whether a frame has these bytes in it.
fn unpacks_to(packed: &[u8], component: &[u8]) -> bool {
    let Ok(decoder) = StreamingDecoder::new(packed) else { return false };
    let mut bytes = Vec::with_capacity(component.len());
    decoder.take(component.len() as u64 + 1).read_to_end(&mut bytes).is_ok() && bytes == component
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that look like code: some shapes of instructions with numbers between them, the same in every run.
    fn code(length: usize, seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut draw = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let shapes: Vec<Vec<u8>> =
            (0..400).map(|_| (0..4 + draw(24)).map(|_| (draw(40) * draw(6)) as u8).collect()).collect();
        let mut bytes = Vec::new();
        while bytes.len() < length {
            bytes.extend(&shapes[draw(400) as usize]);
            bytes.push(draw(256) as u8);
        }
        bytes.truncate(length);
        bytes
    }

    fn check(component: &[u8], what: &str) -> usize {
        let packed = best(component);
        assert!(unpacks_to(&packed, component), "{what}");
        assert!(packed.len() <= quick(component).len(), "{what}");
        packed.len()
    }

    #[test]
    fn the_best_packing_is_smaller_and_has_the_same_bytes_in_it() {
        // What repeats is farther away than the quick packing looks.
        let (one, other) = (code(150_000, 1), code(150_000, 2));
        let component = [&one[..], &other[..], &one[..], &other[..]].concat();
        let (best, quick) = (check(&component, "code"), quick(&component).len());
        assert!(best * 10 < quick * 7, "{best} and {quick}");
    }

    #[test]
    fn whatever_is_packed_is_unpacked() {
        for length in [0, 1, 3, 4, 5, 127, 128, 1_023, 1_025, 128 << 10, (128 << 10) + 1] {
            let code = code(length, 3);
            check(&code, &format!("{length} bytes of code"));
            check(&vec![7; length], &format!("{length} bytes of the same"));
            // What the window holds comes again after whole blocks.
            check(&[&code[..], &code[..], &code[..]].concat(), &format!("three times {length}"));
            // Nothing repeats.
            let noise: Vec<u8> =
                (0..length as u64).map(|at| (at.wrapping_mul(at) >> 7) as u8 ^ (at >> 3) as u8).collect();
            check(&noise, &format!("{length} bytes of noise"));
        }
    }

    #[test]
    fn blocks_of_one_literal_and_long_repeats_are_packed() {
        let mut odd = Vec::new();
        for at in 0..40_000_u32 {
            odd.extend([0, 0xff, 0xfe, 0xfd, 0xfc]);
            odd.push((at % 7) as u8);
        }
        check(&odd, "a period of six");
        let zeros = [vec![0; 131_072], vec![1; 131_071], vec![0; 5], vec![2; 400_000]].concat();
        check(&zeros, "long runs");
    }

    #[test]
    fn what_no_config_map_takes_is_refused_with_the_ways_that_are_left() {
        let small = code(10_000, 4);
        assert_eq!(for_config_map(&small).unwrap(), quick(&small));
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .take(2 << 20)
        .collect();
        let refused = for_config_map(&noise).unwrap_err();
        assert!(refused.packed > 2 << 20);
        let words = refused.to_string();
        for part in ["a ConfigMap has room for 1032192", "a volume", "a registry", "a compiled language"] {
            assert!(words.contains(part), "{words}");
        }
    }
}
