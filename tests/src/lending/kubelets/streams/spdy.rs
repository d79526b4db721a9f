//! The little of SPDY/3.1 that API servers speak to a kubelet
//! (<https://www.chromium.org/spdy/spdy-protocol/spdy-protocol-draft3-1/>).
//!
//! Only what a kubelet needs: streams that the other side opens, their data, pings, and the end. Windows are not counted: API servers
//! do not count them either.
//!
//! Headers are compressed with zlib and a dictionary that both sides know. The library here reads no dictionary, so the dictionary goes
//! ahead as a block that is not compressed: what follows refers to it by distance, and cannot tell the difference. What is written
//! is not compressed at all, which is valid, too.

use std::collections::BTreeMap;
use std::io;

use flate2::{Decompress, FlushDecompress};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The first byte of a control frame, and the version.
const CONTROL: u8 = 0x80;
const VERSION: u8 = 3;
const SYN_STREAM: u8 = 1;
const SYN_REPLY: u8 = 2;
const RST_STREAM: u8 = 3;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// The flag of a last frame.
const FIN: u8 = 1;
/// Behind the ids of a stream and its parent, a priority and a slot.
const HEADERS_OF_STREAM: usize = 10;
/// The beginning of a compressed stream: two bytes of zlib and the id of the dictionary.
const PRELUDE: usize = 6;

/// What the other side says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// It opens a stream.
    Open { stream: u32, headers: BTreeMap<String, String>, fin: bool },
    /// Bytes of a stream.
    Data { stream: u32, bytes: Vec<u8>, fin: bool },
    /// It drops a stream.
    Reset(u32),
    /// It wants an answer.
    Ping(u32),
    /// It leaves.
    GoAway,
    /// What a kubelet does not need.
    Other,
}

/// Reads frames.
pub(super) struct Reader<R> {
    from: R,
    headers: Headers,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, headers: Headers::new() }
    }

    /// The next frame; none where the connection is over.
    pub(super) async fn next(&mut self) -> io::Result<Option<Frame>> {
        let mut head = [0; 8];
        if let Err(error) = self.from.read_exact(&mut head).await {
            return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(None) } else { Err(error) };
        }
        let [first, _, _, kind, flags, length @ ..] = head;
        let mut payload = vec![0; length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte))];
        self.from.read_exact(&mut payload).await?;
        let fin = flags & FIN != 0;
        if first & CONTROL == 0 {
            return Ok(Some(Frame::Data { stream: number(&head)?, bytes: payload, fin }));
        }
        Ok(Some(match kind {
            SYN_STREAM => {
                let block = payload.get(HEADERS_OF_STREAM..).ok_or_else(short)?;
                Frame::Open { stream: number(&payload)?, headers: self.headers.read(block)?, fin }
            }
            RST_STREAM => Frame::Reset(number(&payload)?),
            PING => Frame::Ping(number(&payload)?),
            GOAWAY => Frame::GoAway,
            _ => Frame::Other,
        }))
    }
}

fn short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame is too short")
}

/// The number at the beginning.
fn number(bytes: &[u8]) -> io::Result<u32> {
    let (first, _) = bytes.split_first_chunk::<4>().ok_or_else(short)?;
    Ok(u32::from_be_bytes(*first))
}

/// What is known of the headers so far: each block continues the one before.
struct Headers {
    inflate: Decompress,
    has_begun: bool,
}

impl Headers {
    fn new() -> Self {
        Self { inflate: Decompress::new(false), has_begun: false }
    }

    fn read(&mut self, block: &[u8]) -> io::Result<BTreeMap<String, String>> {
        let mut block = block;
        if !self.has_begun {
            self.inflated(&stored(&dictionary()))?;
            block = block.get(PRELUDE..).ok_or_else(short)?;
            self.has_begun = true;
        }
        let plain = self.inflated(block)?;
        let mut rest = plain.as_slice();
        let count = take_number(&mut rest)?;
        let mut headers = BTreeMap::new();
        for _ in 0..count {
            let name = take_text(&mut rest)?;
            headers.insert(name, take_text(&mut rest)?);
        }
        Ok(headers)
    }

    fn inflated(&mut self, block: &[u8]) -> io::Result<Vec<u8>> {
        let (mut rest, mut plain, mut piece) = (block, Vec::new(), vec![0; 4096]);
        loop {
            let (read, wrote) = (self.inflate.total_in(), self.inflate.total_out());
            self.inflate.decompress(rest, &mut piece, FlushDecompress::Sync).map_err(io::Error::other)?;
            let read = usize::try_from(self.inflate.total_in() - read).map_err(io::Error::other)?;
            let wrote = usize::try_from(self.inflate.total_out() - wrote).map_err(io::Error::other)?;
            rest = &rest[read..];
            plain.extend_from_slice(&piece[..wrote]);
            // A piece that is full may not have been all.
            if (rest.is_empty() && wrote < piece.len()) || read + wrote == 0 {
                return Ok(plain);
            }
        }
    }
}

fn take_number(bytes: &mut &[u8]) -> io::Result<u32> {
    let found = number(bytes)?;
    *bytes = &bytes[4..];
    Ok(found)
}

fn take_text(bytes: &mut &[u8]) -> io::Result<String> {
    let length = usize::try_from(take_number(bytes)?).map_err(io::Error::other)?;
    let (text, rest) = bytes.split_at_checked(length).ok_or_else(short)?;
    *bytes = rest;
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// A block of deflate that is not compressed, and not the last one (RFC 1951, 3.2.4).
fn stored(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("it fits into one block");
    [&[0][..], &length.to_le_bytes(), &(!length).to_le_bytes(), bytes].concat()
}

/// Writes frames.
pub(super) struct Writer<W> {
    to: W,
    has_begun: bool,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, has_begun: false }
    }

    /// Accepts a stream.
    pub(super) async fn reply(&mut self, stream: u32) -> io::Result<()> {
        let mut payload = stream.to_be_bytes().to_vec();
        if !self.has_begun {
            // A stream of zlib that needs no dictionary.
            payload.extend([0x78, 0x01]);
            self.has_begun = true;
        }
        // No headers; then an empty block, so that the other side looks at what it has.
        payload.extend(stored(&0_u32.to_be_bytes()));
        payload.extend(stored(&[]));
        self.control(SYN_REPLY, &payload).await
    }

    /// Bytes of a stream.
    pub(super) async fn data(&mut self, stream: u32, bytes: &[u8], fin: bool) -> io::Result<()> {
        let mut frame = stream.to_be_bytes().to_vec();
        frame.push(if fin { FIN } else { 0 });
        frame.extend(&length(bytes));
        frame.extend(bytes);
        self.send(&frame).await
    }

    /// Answers a ping.
    pub(super) async fn pong(&mut self, id: u32) -> io::Result<()> {
        self.control(PING, &id.to_be_bytes()).await
    }

    /// Nothing more is said.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.to.shutdown().await
    }

    async fn control(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![CONTROL, VERSION, 0, kind, 0];
        frame.extend(&length(payload));
        frame.extend(payload);
        self.send(&frame).await
    }

    /// A frame in one write: readers of Go expect the headers of a stream to come whole.
    async fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.to.write_all(frame).await?;
        self.to.flush().await
    }
}

fn length(bytes: &[u8]) -> [u8; 3] {
    let length =
        u32::try_from(bytes.len()).ok().filter(|length| *length < 1 << 24).expect("a frame has 16 MiB at most");
    let [_, length @ ..] = length.to_be_bytes();
    length
}

/// The words that both sides know (section 2.6.10.1), each behind its length, and a text without lengths.
fn dictionary() -> Vec<u8> {
    let length = |word: &str| u32::try_from(word.len()).expect("a word is short").to_be_bytes();
    let words = WORDS.iter().flat_map(|word| [&length(word)[..], word.as_bytes()].concat());
    words.chain(TAIL.bytes()).collect()
}

const WORDS: [&str; 65] = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

const TAIL: &str = concat!(
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 Non-Authoritativ",
    "e Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 Not Found500 I",
    "nternal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec",
    " 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xm",
    "l,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=",
    "iso-8859-1,utf-,*,enq=0.",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
        digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap()).collect()
    }

    /// Two blocks as zlib writes them with the dictionary.
    const BLOCKS: [&str; 2] = [
        "78f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45a024cc64610024398b209198094adc8c0600000000ffff",
        "c2aa15540a2512d209000000ffff",
    ];

    fn opens(stream: u8, block: &str) -> Vec<u8> {
        let payload = [&[0, 0, 0, stream, 0, 0, 0, 0, 0, 0][..], &*bytes(block)].concat();
        [&[0x80, 3, 0, 1, 0][..], &length(&payload), &*payload].concat()
    }

    #[test]
    fn the_dictionary_is_that_of_the_protocol() {
        let all = dictionary();
        assert_eq!(all.len(), 1423);
        let (low, high) = all.iter().fold((1_u32, 0_u32), |(low, high), byte| {
            let low = (low + u32::from(*byte)) % 65_521;
            (low, (high + low) % 65_521)
        });
        assert_eq!(high << 16 | low, 0xe3c6_a7c2, "its Adler-32");
    }

    #[tokio::test]
    async fn frames_are_read_with_headers_that_refer_to_the_dictionary_and_to_each_other() {
        let data = [&[0, 0, 0, 3, 1, 0, 0, 2][..], b"hi"].concat();
        let (ping, away) =
            ([0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 7], [0x80, 3, 0, 7, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 0]);
        let all = [&*opens(1, BLOCKS[0]), &*opens(3, BLOCKS[1]), &*data, &ping, &away].concat();
        let mut reader = Reader::new(all.as_slice());
        let headers = |kind: &str| -> BTreeMap<String, String> {
            [("port", "80"), ("requestid", "0"), ("streamtype", kind)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into()
        };
        let mut read = Vec::new();
        while let Some(frame) = reader.next().await.unwrap() {
            read.push(frame);
        }
        let wanted = [
            Frame::Open { stream: 1, headers: headers("error"), fin: false },
            Frame::Open { stream: 3, headers: headers("data"), fin: false },
            Frame::Data { stream: 3, bytes: b"hi".to_vec(), fin: true },
            Frame::Ping(7),
            Frame::GoAway,
        ];
        assert_eq!(read, wanted);
    }

    #[tokio::test]
    async fn frames_are_written_as_the_other_side_reads_them() {
        let mut written = Vec::new();
        let mut writer = Writer::new(&mut written);
        writer.reply(1).await.unwrap();
        writer.reply(3).await.unwrap();
        writer.data(3, b"hi", true).await.unwrap();
        writer.pong(7).await.unwrap();
        let no_headers = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let wanted = [
            &[0x80, 3, 0, 2, 0, 0, 0, 20, 0, 0, 0, 1, 0x78, 1][..],
            &no_headers,
            &[0x80, 3, 0, 2, 0, 0, 0, 18, 0, 0, 0, 3],
            &no_headers,
            &[0, 0, 0, 3, 1, 0, 0, 2],
            b"hi",
            &[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 7],
        ];
        assert_eq!(written, wanted.concat());
    }

    #[tokio::test]
    async fn what_is_cut_off_is_an_error_and_no_end() {
        let all = opens(1, BLOCKS[0]);
        assert!(Reader::new(&all[..all.len() - 1]).next().await.is_err());
        assert_eq!(Reader::new(&all[..0]).next().await.unwrap(), None);
        let cut = opens(1, "78f9");
        let mut reader = Reader::new(&cut[..]);
        assert!(reader.next().await.is_err());
    }
}
