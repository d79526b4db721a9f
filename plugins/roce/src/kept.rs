//! What is kept from round to round: documents with their versions, what the last round saw, and the memory of the
//! grouping.
//!
//! Five bytes say who wrote it, four how long the first part is; then that part as JSON, then the bytes of the grouping.
//! Bytes that are not understood are an empty state: that costs a full round, never a right answer.

use crate::carriers::Document;
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 5] = b"roce1";
/// The host keeps no more.
const MAX: usize = 8 * 1024 * 1024;

/// Our own part.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// A hash of the columns that the last full round saw.
    pub(crate) columns: u64,
    /// A hash of what that round reported beside what the grouping did.
    pub(crate) reports: u64,
    /// When that round was, in milliseconds since 1970.
    pub(crate) time: u64,
    /// Until when the same input gives the same answer.
    pub(crate) until: u64,
    /// What the service said.
    pub(crate) service: Option<Document>,
    /// What the ConfigMap said.
    pub(crate) config_map: Option<Document>,
}

/// Both parts of a state. `None`: there is none, or it cannot be read.
pub(crate) fn read(state: &[u8]) -> Option<(Kept, &[u8])> {
    let rest = state.strip_prefix(MAGIC)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (own, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    Some((serde_json::from_slice(own).ok()?, rest))
}

/// The bytes of both parts. What does not fit is left out: first documents, then everything.
pub(crate) fn write(mut kept: Kept, grouping: &[u8]) -> Vec<u8> {
    for _ in 0..2 {
        let Ok(own) = serde_json::to_vec(&kept) else { return Vec::new() };
        let length = MAGIC.len() + 4 + own.len() + grouping.len();
        if let Ok(own_length) = u32::try_from(own.len())
            && length <= MAX
        {
            let mut state = Vec::with_capacity(length);
            state.extend_from_slice(MAGIC);
            state.extend_from_slice(&own_length.to_le_bytes());
            state.extend_from_slice(&own);
            state.extend_from_slice(grouping);
            return state;
        }
        (kept.service, kept.config_map) = (None, None);
        // Without the documents nothing can be called unchanged.
        kept.until = 0;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(etag: &str) -> Document {
        Document { etag: Some(etag.to_owned()), ..Document::default() }
    }

    #[test]
    fn what_is_written_is_read() {
        let kept = Kept { until: 7, service: Some(document("v1")), ..Kept::default() };
        let bytes = write(kept.clone(), b"grouping");
        assert_eq!(read(&bytes), Some((kept, &b"grouping"[..])));
    }

    #[test]
    fn bytes_that_are_not_understood_are_no_state() {
        let bytes = write(Kept::default(), b"");
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), None, "{end}");
        }
        for bytes in [&b"roce1\xff\xff\xff\xff{}"[..], b"roce1\x02\0\0\0[]", b"roce0\x02\0\0\0{}"] {
            assert_eq!(read(bytes), None);
        }
    }

    #[test]
    fn documents_that_do_not_fit_are_left_out() {
        let kept = Kept { until: 7, service: Some(document(&"x".repeat(MAX))), ..Kept::default() };
        let bytes = write(kept, b"grouping");
        let (kept, grouping) = read(&bytes).unwrap();
        assert_eq!((kept.until, kept.service, grouping), (0, None, &b"grouping"[..]));
        assert!(write(Kept::default(), &vec![0; MAX]).is_empty());
    }
}
