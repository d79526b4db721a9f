//! Faults as words: a name, then values behind colons.

use super::Fault;
use crate::value::{BadValue, duration, duration_text, number};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One row of help about a fault.
#[derive(Debug, Clone, Copy)]
pub struct FaultHelp {
    /// The name, then its values in brackets with what they are if left out.
    pub usage: &'static str,
    /// One sentence.
    pub help: &'static str,
}

/// Every fault, in the order of help texts.
pub(super) const HELP: &[FaultHelp] = &[
    FaultHelp { usage: "slow-headers[:45s]", help: "The answer begins only after this time." },
    FaultHelp { usage: "drip[:1s]", help: "The body arrives one byte at a time, with this pause after each." },
    FaultHelp { usage: "stall-after-headers", help: "The headers arrive, the body never does." },
    FaultHelp { usage: "stall-in-body", help: "Half of the body arrives, the rest never does." },
    FaultHelp { usage: "status:<code>[:<retry-after>]", help: "This status, with a Retry-After of so many seconds." },
    FaultHelp { usage: "html", help: "A login page with status 200." },
    FaultHelp { usage: "redirect[:/login]", help: "A redirect (302) to this path or address." },
    FaultHelp { usage: "truncated", help: "Half of the body, ended as if it were whole." },
    FaultHelp { usage: "reset", help: "Half of the body, then the connection breaks." },
    FaultHelp {
        usage: "wrong-types[:100]",
        help: "This share of the records (percent) has wrong types in needed fields.",
    },
    FaultHelp { usage: "not-numbers[:100]", help: "This share of the records (percent) has NaN and Infinity in it." },
    FaultHelp { usage: "twice[:100]", help: "This share of the records (percent) is in the list twice." },
    FaultHelp { usage: "empty-list", help: "A well-formed list of nothing." },
    FaultHelp { usage: "half-list", help: "A well-formed list of the first half." },
    FaultHelp { usage: "empty-object", help: "The body {} where a list belongs." },
    FaultHelp { usage: "wrong-content-type", help: "The right body, called text/plain." },
    FaultHelp { usage: "endless", help: "A list that never ends." },
    FaultHelp { usage: "bomb[:4096]", help: "A small gzip body that unpacks to so many MiB, asked for or not." },
    FaultHelp { usage: "changed-between-pages", help: "Every page after the first comes from a changed fabric." },
    FaultHelp { usage: "expired-certificate", help: "The certificate of the server has expired." },
    FaultHelp {
        usage: "untrusted-certificate",
        help: "The certificate of the server comes from an unknown authority.",
    },
    FaultHelp { usage: "wrong-name-certificate", help: "The certificate of the server is for another name." },
    FaultHelp { usage: "stall-handshake", help: "Connections are accepted and never answered." },
    FaultHelp { usage: "closed", help: "Connections are accepted and closed at once." },
    FaultHelp { usage: "refused", help: "Connections are refused, as by a member of a pair that is down." },
];

/// A client gives up long before; the constant is the usual deadline to the first byte and a half of it more.
const SLOW: Duration = Duration::from_secs(45);
/// One byte per second: never idle for long, never done.
const PAUSE: Duration = Duration::from_secs(1);
/// More than any bound on a body, less than what a careless client would need to notice.
const BOMB: u32 = 4096;

impl FromStr for Fault {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let pause = |usual| value.map_or(Ok(usual), |value| duration(name, value));
        let percent = || value.map_or(Ok(100), |value| number(name, value, 1..=100).map(|percent| percent as u8));
        let plain = |fault: Self| match value {
            None => Ok(fault),
            Some(value) => Err(BadValue::new(name, value, "no value")),
        };
        match name {
            "slow-headers" => pause(SLOW).map(Self::SlowHeaders),
            "drip" => pause(PAUSE).map(Self::Drip),
            "stall-after-headers" => plain(Self::StallAfterHeaders),
            "stall-in-body" => plain(Self::StallInBody),
            "status" => status(value.unwrap_or_default()),
            "html" => plain(Self::Html),
            "redirect" => redirect(value.unwrap_or("/login")),
            "truncated" => plain(Self::Truncated),
            "reset" => plain(Self::Reset),
            "wrong-types" => percent().map(Self::WrongTypes),
            "not-numbers" => percent().map(Self::NotNumbers),
            "twice" => percent().map(Self::Twice),
            "empty-list" => plain(Self::EmptyList),
            "half-list" => plain(Self::HalfList),
            "empty-object" => plain(Self::EmptyObject),
            "wrong-content-type" => plain(Self::WrongContentType),
            "endless" => plain(Self::Endless),
            "bomb" => match value {
                None => Ok(Self::Bomb(BOMB)),
                Some(size) => number("bomb", size, 1..=1_048_576).map(|size| Self::Bomb(size as u32)),
            },
            "changed-between-pages" => plain(Self::ChangedBetweenPages),
            "expired-certificate" => plain(Self::ExpiredCertificate),
            "untrusted-certificate" => plain(Self::UntrustedCertificate),
            "wrong-name-certificate" => plain(Self::WrongNameCertificate),
            "stall-handshake" => plain(Self::StallHandshake),
            "closed" => plain(Self::Closed),
            "refused" => plain(Self::Refused),
            _ => Err(BadValue::new("fault", name, HELP.iter().map(|help| help.usage).collect::<Vec<_>>().join(", "))),
        }
    }
}

fn status(value: &str) -> Result<Fault, BadValue> {
    let (code, seconds) = match value.split_once(':') {
        Some((code, seconds)) => (code, Some(seconds)),
        None => (value, None),
    };
    // Below 200 is no answer yet, and hyper would refuse to send it as one.
    let code = number("status", code, 200..=599)? as u16;
    let seconds = seconds.map(|seconds| number("retry-after", seconds, 0..=u64::from(u32::MAX)));
    Ok(Fault::Status { code, retry_after: seconds.transpose()?.map(|seconds| seconds as u32) })
}

fn redirect(target: &str) -> Result<Fault, BadValue> {
    match target.bytes().all(|byte| byte.is_ascii_graphic()) && !target.is_empty() {
        true => Ok(Fault::Redirect(target.to_owned())),
        false => Err(BadValue::new("redirect", target, "a path or an address in visible ASCII")),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::SlowHeaders(pause) => return write!(f, "slow-headers:{}", duration_text(*pause)),
            Self::Drip(pause) => return write!(f, "drip:{}", duration_text(*pause)),
            Self::Status { code, retry_after: None } => return write!(f, "status:{code}"),
            Self::Status { code, retry_after: Some(seconds) } => return write!(f, "status:{code}:{seconds}"),
            Self::Redirect(target) => return write!(f, "redirect:{target}"),
            Self::WrongTypes(percent) => return write!(f, "wrong-types:{percent}"),
            Self::NotNumbers(percent) => return write!(f, "not-numbers:{percent}"),
            Self::Twice(percent) => return write!(f, "twice:{percent}"),
            Self::Bomb(size) => return write!(f, "bomb:{size}"),
            Self::StallAfterHeaders => "stall-after-headers",
            Self::StallInBody => "stall-in-body",
            Self::Html => "html",
            Self::Truncated => "truncated",
            Self::Reset => "reset",
            Self::EmptyList => "empty-list",
            Self::HalfList => "half-list",
            Self::EmptyObject => "empty-object",
            Self::WrongContentType => "wrong-content-type",
            Self::Endless => "endless",
            Self::ChangedBetweenPages => "changed-between-pages",
            Self::ExpiredCertificate => "expired-certificate",
            Self::UntrustedCertificate => "untrusted-certificate",
            Self::WrongNameCertificate => "wrong-name-certificate",
            Self::StallHandshake => "stall-handshake",
            Self::Closed => "closed",
            Self::Refused => "refused",
        };
        f.write_str(name)
    }
}

impl Serialize for Fault {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_the_table_is_read_and_written() {
        for FaultHelp { usage, .. } in Fault::all() {
            let shortest = usage.split('[').next().unwrap().replace("<code>", "503");
            let fault: Fault = shortest.parse().unwrap();
            assert_eq!(fault.to_string().parse(), Ok(fault), "{usage}");
            let whole = usage.replace(['[', ']'], "").replace("<code>", "429").replace("<retry-after>", "30");
            assert_eq!(whole.parse::<Fault>().unwrap().to_string(), whole);
        }
    }

    #[test]
    fn a_wrong_fault_says_what_is_allowed() {
        for (text, says) in [
            ("burn", "fault: \"burn\" is not allowed; expected slow-headers[:45s], drip[:1s]"),
            ("status", "status: \"\" is not allowed; expected a whole number from 200 to 599"),
            ("status:100", "status: \"100\" is not allowed"),
            ("status:429:soon", "retry-after: \"soon\" is not allowed"),
            ("html:1", "html: \"1\" is not allowed; expected no value"),
            ("wrong-types:101", "wrong-types: \"101\" is not allowed; expected a whole number from 1 to 100"),
            ("redirect:/a b", "redirect: \"/a b\" is not allowed"),
            ("drip:1h", "drip: \"1h\" is not allowed; expected a time"),
        ] {
            let error = text.parse::<Fault>().unwrap_err().to_string();
            assert!(error.starts_with(says), "{text}: {error}");
        }
    }
}
