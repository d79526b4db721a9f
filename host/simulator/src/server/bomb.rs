//! A small gzip stream that unpacks to much.
//!
//! A block of one MiB is compressed once, so that it ends on a byte and refers to nothing before it; then it is sent as
//! often as asked for. The stream is valid to its last byte, checksum included: a reader that counts what it has read
//! cannot excuse itself with a broken stream.

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};

/// Unpacked size of a block.
const BLOCK: usize = 1 << 20;
/// Magic, deflate, no flags, no time, unknown system.
const HEADER: &[u8] = &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// A gzip stream that unpacks to a JSON list of so many MiB.
pub(crate) struct Bomb {
    begin: Option<Bytes>,
    block: Bytes,
    left: u32,
    end: Option<Bytes>,
}

impl Bomb {
    pub(crate) fn new(mebibytes: u32) -> Self {
        let spaces = vec![b' '; BLOCK];
        let mut crc = Crc::new();
        crc.update(b"[");
        let mut block_crc = Crc::new();
        block_crc.update(&spaces);
        for _ in 0..mebibytes {
            crc.combine(&block_crc);
        }
        let mut last = Crc::new();
        last.update(b"]");
        crc.combine(&last);
        // Both numbers of the trailer are 32 bits wide; the length is meant modulo 2^32.
        let length = (BLOCK as u64 * u64::from(mebibytes) + 2) as u32;
        let mut end = pack(b"]", FlushCompress::Finish);
        end.extend_from_slice(&crc.sum().to_le_bytes());
        end.extend_from_slice(&length.to_le_bytes());
        let mut begin = HEADER.to_vec();
        begin.extend_from_slice(&pack(b"[", FlushCompress::Full));
        let block = Bytes::from(pack(&spaces, FlushCompress::Full));
        Self { begin: Some(begin.into()), block, left: mebibytes, end: Some(end.into()) }
    }

    pub(crate) fn next(&mut self) -> Option<Bytes> {
        if let Some(begin) = self.begin.take() {
            return Some(begin);
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Some(self.block.clone())
            }
            None => self.end.take(),
        }
    }
}

/// Deflates on its own. A full flush ends on a byte border and leaves the stream open for the next block.
fn pack(input: &[u8], flush: FlushCompress) -> Vec<u8> {
    let mut packed = Vec::with_capacity(input.len() / 64 + 4096);
    // Memory to memory with room to spare: the only error would be a stream that was ended before.
    let _ = Compress::new(Compression::best(), false).compress_vec(input, &mut packed, flush);
    packed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_bomb_unpacks_to_a_valid_list_of_the_size_asked_for() {
        let mut bomb = Bomb::new(3);
        let packed: Vec<u8> = std::iter::from_fn(|| bomb.next()).flatten().collect();
        assert!(packed.len() < 8192, "{}", packed.len());
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
        assert_eq!(text.len(), 3 * BLOCK + 2);
        assert_eq!(serde_json::from_str::<Vec<u8>>(&text).unwrap(), [0; 0]);
    }
}
