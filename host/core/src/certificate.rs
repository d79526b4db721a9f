//! The little of a certificate that the TLS library does not say: its dates, the common name where there is no other, and the names of
//! its subject. Reads only what that library has accepted as a certificate already, or will be asked to use. Never judges a
//! certificate: no signature is checked here. What is not formed as a certificate is none, and no panic.

use jiff::civil::DateTime;

/// The tags of DER that are met on the way (X.690, 8.1.2; RFC 5280, 4.1).
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const OBJECT_IDENTIFIER: u8 = 0x06;
/// The strings that a name can be: UTF-8, printable, IA5.
const UTF_8: u8 = 0x0c;
const STRINGS: [u8; 3] = [UTF_8, 0x13, 0x16];

/// `id-at-commonName`, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// `id-at-organizationName`, 2.5.4.10.
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
/// `id-ce-subjectAltName`, 2.5.29.17.
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The first second that it is valid in, since 1970.
    pub not_before: u64,
    /// The last one.
    pub not_after: u64,
    /// The common name, if it has one and no alternative names: those would be all that counts.
    pub only_name: Option<String>,
}

impl Certificate {
    /// `None`: it is not formed as a certificate is.
    #[must_use]
    pub fn read(der: &[u8]) -> Option<Self> {
        let Parts { mut dates, subject, mut rest } = parts(der)?;
        let (not_before, not_after) = (time(dates.next()?)?, time(dates.next()?)?);
        let common = common_name(subject)?;
        let _key = rest.value(SEQUENCE)?;
        let mut has_others = false;
        while let Some((tag, content)) = rest.next() {
            if tag == EXTENSIONS {
                let mut extensions = Reader(Reader(content).value(SEQUENCE)?);
                while let Some((_, extension)) = extensions.next() {
                    let (_, id) = Reader(extension).next()?;
                    has_others |= id == ALTERNATIVE_NAMES;
                }
            }
        }
        Some(Self { not_before, not_after, only_name: common.filter(|_| !has_others) })
    }
}

/// The names in the subject of a certificate by which API servers know its holder: a common name is a user, organizations are
/// groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// Common names, in their order. With more than one it is not clear who the holder is.
    pub common_names: Vec<String>,
    /// Organizations, in their order.
    pub organizations: Vec<String>,
}

impl Subject {
    /// `None`: it is not formed as a certificate is, or a common name or an organization is of another alphabet than UTF-8 and ASCII.
    /// API servers read some of those, too (T61, numbers, BMP): one that was left out here would make another name the only one.
    #[must_use]
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut subject = Self::default();
        let mut sets = Reader(parts(der)?.subject);
        while !sets.0.is_empty() {
            let mut pairs = Reader(sets.value(SET)?);
            while !pairs.0.is_empty() {
                let mut pair = Reader(pairs.value(SEQUENCE)?);
                let id = pair.value(OBJECT_IDENTIFIER)?;
                let (tag, value) = pair.next()?;
                if !pair.0.is_empty() {
                    return None;
                }
                let names = match id {
                    COMMON_NAME => &mut subject.common_names,
                    ORGANIZATION => &mut subject.organizations,
                    _ => continue,
                };
                if !STRINGS.contains(&tag) || (tag != UTF_8 && !value.is_ascii()) {
                    return None;
                }
                names.push(std::str::from_utf8(value).ok()?.to_owned());
            }
        }
        Some(subject)
    }
}

/// What is read of a certificate (RFC 5280, 4.1).
struct Parts<'a> {
    dates: Reader<'a>,
    subject: &'a [u8],
    /// The key, and what follows it.
    rest: Reader<'a>,
}

fn parts(der: &[u8]) -> Option<Parts<'_>> {
    let mut whole = Reader(Reader(der).value(SEQUENCE)?);
    let mut rest = Reader(whole.value(SEQUENCE)?);
    let (first, _) = rest.next()?;
    if first == VERSION {
        // The serial number, then.
        rest.next()?;
    }
    let _signature = rest.value(SEQUENCE)?;
    let _issuer = rest.value(SEQUENCE)?;
    let dates = Reader(rest.value(SEQUENCE)?);
    let subject = rest.value(SEQUENCE)?;
    Some(Parts { dates, subject, rest })
}

/// The last common name of a subject, the most special one.
fn common_name(subject: &[u8]) -> Option<Option<String>> {
    let mut common = None;
    let mut parts = Reader(subject);
    while let Some((_, part)) = parts.next() {
        let mut pairs = Reader(part);
        while let Some((_, pair)) = pairs.next() {
            let mut pair = Reader(pair);
            let (_, id) = pair.next()?;
            let (tag, value) = pair.next()?;
            if id == COMMON_NAME && STRINGS.contains(&tag) {
                common = std::str::from_utf8(value).ok().map(str::to_owned);
            }
        }
    }
    Some(common)
}

/// `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ` as seconds since 1970 (RFC 5280, 4.1.2.5). What was before 1970 is 1970.
fn time((tag, text): (u8, &[u8])) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => {
            let (year, rest) = digits.split_at(2);
            let year: i16 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        (GENERALIZED_TIME, 14) => {
            let (year, rest) = digits.split_at(4);
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let time = DateTime::new(year, two(0)?, two(2)?, two(4)?, two(6)?, two(8)?, 0).ok()?;
    // Not as a timestamp: the last second of 9999, which means "without an end", is not a valid one.
    let since = time.duration_since(DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    Some(u64::try_from(since.as_secs()).unwrap_or(0))
}

/// Values of DER, one after the other.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Tag and content of the next value. A length has one form in DER, the shortest one (X.690, 10.1).
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let length = if first < 0x80 {
            usize::from(first)
        } else {
            let (bytes, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = behind;
            if bytes.is_empty() || bytes.len() > 4 || bytes.first() == Some(&0) {
                return None;
            }
            let length = bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
            if length < 0x80 {
                return None;
            }
            length
        };
        let (content, behind) = rest.split_at_checked(length)?;
        self.0 = behind;
        Some((tag, content))
    }

    /// The content of the next value, which must have this tag.
    fn value(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_in_both_forms() {
        assert_eq!(time((UTC_TIME, b"700101000001Z")), Some(1));
        assert_eq!(time((UTC_TIME, b"490101000000Z")), Some(2_493_072_000));
        assert_eq!(time((UTC_TIME, b"500101000000Z")), Some(0));
        assert_eq!(time((GENERALIZED_TIME, b"20261124093000Z")), Some(1_795_512_600));
        assert_eq!(time((GENERALIZED_TIME, b"99991231235959Z")), Some(253_402_300_799));
        for bad in ["", "Z", "2611240930Z", "+61124093000Z", "261324093000Z", "261124093000", "261124093000z"] {
            assert_eq!(time((UTC_TIME, bad.as_bytes())), None, "{bad}");
        }
        assert_eq!(time((SEQUENCE, b"700101000001Z")), None);
    }

    const PRINTABLE: u8 = 0x13;
    const IA5: u8 = 0x16;

    fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn name(id: &[u8], tag: u8, text: &str) -> Vec<u8> {
        let pair = [tagged(OBJECT_IDENTIFIER, id), tagged(tag, text.as_bytes())].concat();
        tagged(SET, &tagged(SEQUENCE, &pair))
    }

    /// A certificate of which nothing but the subject is real.
    fn certificate(subject: &[u8]) -> Vec<u8> {
        let empty = tagged(SEQUENCE, &[]);
        let serial = [0x02, 1, 7];
        let inner = [&serial[..], &*empty, &*empty, &*empty, &*tagged(SEQUENCE, subject), &*empty].concat();
        tagged(SEQUENCE, &[tagged(SEQUENCE, &inner), empty].concat())
    }

    fn read(subject: &[u8]) -> (Vec<String>, Vec<String>) {
        let Subject { common_names, organizations } = Subject::read(&certificate(subject)).unwrap();
        (common_names, organizations)
    }

    #[test]
    fn users_and_groups_are_common_names_and_organizations() {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let node = [name(ORGANIZATION, PRINTABLE, "system:nodes"), name(COMMON_NAME, UTF_8, "system:node:w1")].concat();
        assert_eq!(read(&node), (owned(&["system:node:w1"]), owned(&["system:nodes"])));
        let two =
            [name(COMMON_NAME, UTF_8, "a"), name(COMMON_NAME, UTF_8, "b"), name(ORGANIZATION, UTF_8, "c")].concat();
        assert_eq!(read(&two), (owned(&["a", "b"]), owned(&["c"])));
        let unit = [0x55, 0x04, 0x0b];
        let others = [name(&unit, UTF_8, "system:masters"), name(&unit, 0x1e, "system:masters")].concat();
        assert_eq!(read(&others), (vec![], vec![]), "an organisational unit, in any alphabet");
        let set = [name(COMMON_NAME, UTF_8, "a"), name(ORGANIZATION, UTF_8, "b")].concat();
        let both: Vec<u8> = set.chunks(set.len() / 2).flat_map(|one| one[2..].to_vec()).collect();
        assert_eq!(read(&tagged(SET, &both)), (owned(&["a"]), owned(&["b"])), "two names in one set");
    }

    #[test]
    fn a_name_that_api_servers_may_read_otherwise_makes_the_whole_subject_unreadable() {
        let bad = |subject: &[u8], why: &str| assert_eq!(Subject::read(&certificate(subject)), None, "{why}");
        let good = name(COMMON_NAME, UTF_8, "a");
        // T61, numbers, BMP, and a string of bytes.
        for tag in [0x14, 0x12, 0x1e, 0x04] {
            for id in [COMMON_NAME, ORGANIZATION] {
                bad(&[&*name(id, tag, "1"), &*good].concat(), &format!("{id:?} of {tag:#x}"));
                bad(&[&*good, &*name(id, tag, "1")].concat(), &format!("{id:?} of {tag:#x}, last"));
            }
        }
        for tag in [PRINTABLE, IA5] {
            bad(&name(COMMON_NAME, tag, "\u{e4}"), "more than ASCII");
        }
        let pair = [tagged(OBJECT_IDENTIFIER, COMMON_NAME), tagged(UTF_8, b"a")].concat();
        let other = [tagged(UTF_8, COMMON_NAME), tagged(UTF_8, b"a")].concat();
        bad(&tagged(SET, &tagged(SEQUENCE, &other)), "a name of nothing");
        bad(&tagged(SET, &tagged(SEQUENCE, &[pair, tagged(UTF_8, b"b")].concat())), "a third value");
        let wrong = [tagged(OBJECT_IDENTIFIER, COMMON_NAME), vec![UTF_8, 1, 0xff]].concat();
        bad(&tagged(SET, &tagged(SEQUENCE, &wrong)), "no UTF-8");
    }

    #[test]
    fn a_length_has_one_form() {
        let read = |bytes: &[u8]| Reader(bytes).next().map(|(tag, content)| (tag, content.len()));
        let with = |length: &[u8], content: usize| [&[UTF_8], length, &*vec![b'a'; content]].concat();
        assert_eq!(read(&with(&[0x7f], 0x7f)), Some((UTF_8, 0x7f)));
        assert_eq!(read(&with(&[0x81, 0x80], 0x80)), Some((UTF_8, 0x80)));
        assert_eq!(read(&with(&[0x82, 1, 0], 0x100)), Some((UTF_8, 0x100)));
        let others: [(&[u8], usize); 5] = [
            (&[0x80], 0),
            (&[0x81, 5], 5),
            (&[0x81, 0x7f], 0x7f),
            (&[0x82, 0, 0x80], 0x80),
            (&[0x85, 1, 0, 0, 0, 0], 9),
        ];
        for (length, content) in others {
            assert_eq!(read(&with(length, content)), None, "{length:x?}");
        }
    }

    #[test]
    fn what_is_cut_off_anywhere_is_no_certificate() {
        let whole = certificate(&name(COMMON_NAME, UTF_8, "a"));
        assert!(Subject::read(&whole).is_some());
        for end in 0..whole.len() {
            assert_eq!(Subject::read(&whole[..end]), None, "{end}");
        }
    }
}
