//! From delivered bytes to a module: zstd or not, within bounds that hold before and while it is unpacked.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// The beginning of a zstd frame (RFC 8878, 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// The largest packed module that is looked at: the end of the range of an entry's own limit.
pub const PACKED: usize = 32 << 20;
/// The largest unpacked one, likewise.
pub const UNPACKED: usize = 32 << 20;
/// What a frame may want to look back at: as much as there can be.
const WINDOW: u64 = UNPACKED as u64;

/// Why bytes could not be unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Too many bytes, packed.
    #[error("the packed module has {size} bytes and may have {limit}")]
    Packed {
        /// Bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Too many bytes, unpacked; nothing beyond the limit was unpacked.
    #[error("the module unpacks to more than {limit} bytes")]
    Unpacked {
        /// The limit.
        limit: usize,
    },
    /// No zstd frame after all.
    #[error("the module is packed with zstd and cannot be unpacked: {0}")]
    Broken(String),
    /// More than one frame, or something behind it.
    #[error("the module has {0} bytes after its zstd frame")]
    Behind(usize),
}

/// Whether the bytes are packed.
#[must_use]
pub fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Unpacks what is packed; anything else is what it is, within the same bounds.
///
/// # Errors
/// The first bound that is crossed, or what is wrong with the frame.
pub fn unpack(bytes: Vec<u8>, packed: usize, unpacked: usize) -> Result<Vec<u8>, Error> {
    if !is_packed(&bytes) {
        return if bytes.len() > unpacked { Err(Error::Unpacked { limit: unpacked }) } else { Ok(bytes) };
    }
    if bytes.len() > packed {
        return Err(Error::Packed { size: bytes.len(), limit: packed });
    }
    let mut rest = bytes.as_slice();
    let broken = |error: &dyn std::fmt::Display| Error::Broken(error.to_string());
    let decoder = StreamingDecoder::new_with_max_window_size(&mut rest, WINDOW).map_err(|error| broken(&error))?;
    if decoder.decoder.content_size() > unpacked as u64 {
        return Err(Error::Unpacked { limit: unpacked });
    }
    let mut module = Vec::new();
    // One byte more than allowed tells a full measure from too much.
    let mut bounded = decoder.take(unpacked as u64 + 1);
    bounded.read_to_end(&mut module).map_err(|error| broken(&error))?;
    drop(bounded);
    if module.len() > unpacked {
        return Err(Error::Unpacked { limit: unpacked });
    }
    if rest.is_empty() { Ok(module) } else { Err(Error::Behind(rest.len())) }
}

/// Packs a module.
#[must_use]
pub fn pack(module: &[u8]) -> Vec<u8> {
    compress_to_vec(module, CompressionLevel::Fastest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use topoloom_core::plugin::{Limit, LimitSetting};

    #[test]
    fn whatever_an_entry_may_allow_can_be_delivered() {
        for (limit, most) in [(Limit::Packed, PACKED), (Limit::File, UNPACKED)] {
            let LimitSetting::Entry { high, .. } = limit.row().setting else { panic!() };
            assert_eq!(high.size(), most, "{limit:?}");
        }
    }

    #[test]
    fn what_is_packed_is_unpacked_and_the_rest_is_left_alone() {
        let module = b"\0asm and so on".repeat(1000);
        let packed = pack(&module);
        assert!(is_packed(&packed) && packed.len() < module.len());
        assert_eq!(unpack(packed, PACKED, UNPACKED), Ok(module.clone()));
        assert_eq!(unpack(module.clone(), PACKED, 10), Err(Error::Unpacked { limit: 10 }));
        assert_eq!(unpack(Vec::new(), PACKED, UNPACKED), Ok(Vec::new()));
        let place = module.as_ptr();
        let same = unpack(module, 10, UNPACKED).unwrap();
        assert_eq!(same.as_ptr(), place, "what is not packed is not copied");
    }

    #[test]
    fn a_bomb_is_left_after_its_limit() {
        // 300 MiB of nothing in a few KiB: a frame that does not say how much is in it.
        let bomb = pack(&vec![0; 300 << 20]);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        let size = bomb.len();
        assert_eq!(unpack(bomb.clone(), PACKED, UNPACKED), Err(Error::Unpacked { limit: UNPACKED }));
        assert_eq!(unpack(bomb, 100, UNPACKED), Err(Error::Packed { size, limit: 100 }));
    }

    #[test]
    fn a_frame_that_wants_a_huge_window_is_refused_before_it_gets_one() {
        // Header of RFC 8878 3.1.1.1: no single segment, window descriptor 2^41.
        let frame = [MAGIC.as_slice(), &[0x00, 0xf8], &[0x01, 0x00, 0x00]].concat();
        let error = unpack(frame, PACKED, UNPACKED).unwrap_err();
        assert!(matches!(error, Error::Broken(_)), "{error}");
    }

    #[test]
    fn whatever_is_cut_or_turned_is_an_error_or_other_bytes_and_no_panic() {
        let module: Vec<u8> = (0..4_000_u32).flat_map(|i| (i * i).to_le_bytes()).collect();
        let packed = pack(&module);
        for end in 0..packed.len().min(600) {
            assert_ne!(unpack(packed[..end].to_vec(), PACKED, UNPACKED), Ok(module.clone()), "{end}");
        }
        for byte in 4..packed.len().min(600) {
            let mut other = packed.clone();
            other[byte] ^= 0x10;
            let _ = unpack(other, PACKED, UNPACKED);
        }
        let behind = [packed.as_slice(), b"x"].concat();
        assert_eq!(unpack(behind, PACKED, UNPACKED), Err(Error::Behind(1)));
    }
}
