//! The state from round to round: hashes of the last input, documents with their versions, and the memory of the grouping.
//!
//! Five bytes identify the format. Then come a header and the documents, each as JSON behind four bytes with its length,
//! then the bytes of the grouping. A round without a change reads the header only. Bytes that cannot be read, such as those
//! of an older format, give an empty state: that costs a full round, never a right answer.

use crate::carriers::Document;
use serde::{Deserialize, Serialize};

const MAGIC: &[u8; 5] = b"roce2";
/// The limit of the host.
const MAX: usize = 8 * 1024 * 1024;

/// The part of the state that shows whether anything changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// A hash of the columns in the last full round.
    pub(crate) columns: u64,
    /// A hash of the findings of that round, without those of the grouping.
    pub(crate) reports: u64,
    /// When that round was, in milliseconds since 1970.
    pub(crate) time: u64,
    /// Until when the same input gives the same answer.
    pub(crate) until: u64,
    /// The version of the document of the service.
    pub(crate) service: Option<String>,
    /// The version of the document in the ConfigMap.
    pub(crate) config_map: Option<String>,
}

/// The documents of the last round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Documents {
    /// That of the service.
    pub(crate) service: Option<Document>,
    /// That of the ConfigMap.
    pub(crate) config_map: Option<Document>,
}

/// A state with only its header read.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Kept<'s> {
    pub(crate) header: Header,
    documents: &'s [u8],
    pub(crate) grouping: &'s [u8],
}

/// The parts of a state. `None`: there is none, or it cannot be read.
pub(crate) fn read(state: &[u8]) -> Option<Kept<'_>> {
    let (header, rest) = part(state.strip_prefix(MAGIC)?)?;
    let (documents, grouping) = part(rest)?;
    Some(Kept { header: serde_json::from_slice(header).ok()?, documents, grouping })
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

impl Kept<'_> {
    /// The documents with their versions. `None`: they cannot be read, so their versions are void too.
    pub(crate) fn documents(&self) -> Option<Documents> {
        if self.documents.is_empty() {
            let has_versions = self.header.service.is_some() || self.header.config_map.is_some();
            return (!has_versions).then(Documents::default);
        }
        let mut documents: Documents = serde_json::from_slice(self.documents).ok()?;
        for (document, version) in
            [(&mut documents.service, &self.header.service), (&mut documents.config_map, &self.header.config_map)]
        {
            match document {
                Some(document) => document.etag.clone_from(version),
                // A version without its document: a 304 would refer to a document that the state does not have.
                None if version.is_some() => return None,
                None => {}
            }
        }
        Some(documents)
    }
}

/// The bytes of all parts. What does not fit is left out: first the documents, then everything.
pub(crate) fn write(mut header: Header, mut documents: Documents, grouping: &[u8]) -> Vec<u8> {
    for _ in 0..2 {
        let version = |document: &Option<Document>| document.as_ref().and_then(|document| document.etag.clone());
        (header.service, header.config_map) = (version(&documents.service), version(&documents.config_map));
        let parts = [serde_json::to_vec(&header), serde_json::to_vec(&documents)];
        let [Ok(own), Ok(said)] = parts else { return Vec::new() };
        let length = MAGIC.len() + 8 + own.len() + said.len() + grouping.len();
        if length <= MAX {
            let mut state = Vec::with_capacity(length);
            state.extend_from_slice(MAGIC);
            for part in [&own, &said] {
                // No part is longer than the whole state.
                state.extend_from_slice(&(part.len() as u32).to_le_bytes());
                state.extend_from_slice(part);
            }
            state.extend_from_slice(grouping);
            return state;
        }
        documents = Documents::default();
        // Without the documents nothing can be called unchanged.
        header.until = 0;
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
        let documents = Documents { service: Some(document("v1")), config_map: Some(Document::default()) };
        let bytes = write(Header { until: 7, ..Header::default() }, documents.clone(), b"grouping");
        let kept = read(&bytes).unwrap();
        assert_eq!(
            (kept.header.until, kept.header.service.as_deref(), kept.grouping),
            (7, Some("v1"), &b"grouping"[..])
        );
        assert_eq!(kept.documents(), Some(documents));
    }

    #[test]
    fn bytes_that_are_not_understood_are_no_state() {
        let bytes = write(Header::default(), Documents::default(), b"");
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), None, "{end}");
        }
        for bytes in [&b"roce2\xff\xff\xff\xff{}"[..], b"roce2\x02\0\0\0[]\0\0\0\0", b"roce1\x02\0\0\0{}\0\0\0\0"] {
            assert_eq!(read(bytes), None);
        }
    }

    #[test]
    fn unreadable_documents_differ_from_absent_ones() {
        let header = Header { service: Some("v1".to_owned()), ..Header::default() };
        let kept = |header: &Header, documents| Kept { header: header.clone(), documents, grouping: b"" }.documents();
        for text in [&b""[..], b"[", br#"{"service": null, "config_map": null}"#] {
            assert_eq!(kept(&header, text), None);
        }
        assert_eq!(kept(&Header::default(), b""), Some(Documents::default()));
    }

    #[test]
    fn documents_that_do_not_fit_are_left_out() {
        let mut large = document("v1");
        large.sheet.ports = vec!["x".repeat(MAX)];
        let documents = Documents { service: Some(large), config_map: None };
        let bytes = write(Header { until: 7, ..Header::default() }, documents, b"grouping");
        let kept = read(&bytes).unwrap();
        assert_eq!((kept.header, kept.grouping), (Header::default(), &b"grouping"[..]));
        assert!(write(Header::default(), Documents::default(), &vec![0; MAX]).is_empty());
    }
}
