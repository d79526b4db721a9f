//! The part of an address behind the question mark.

use super::ListRefusal;
use http::StatusCode;

/// Decoded keys and values, in order.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let read = |text: &str| decode(&text.replace('+', " ")).map_err(|(_, message)| message);
        let pair = |pair: &str| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((read(key)?, read(value)?))
        };
        pairs.map(pair).collect::<Result<_, String>>().map(Self)
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs().find(|(known, _)| *known == key).map(|(_, value)| value)
    }
}

pub(super) fn bad(message: impl Into<String>) -> ListRefusal {
    (StatusCode::BAD_REQUEST, message.into())
}

pub(super) fn unknown(key: &str) -> ListRefusal {
    bad(format!("unknown filter {key:?}"))
}

/// Reads `true` or `false`, in any case.
pub(super) fn flag(key: &str, value: &str) -> Result<bool, ListRefusal> {
    match value.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(format!("{key} must be true or false"))),
    }
}

/// Undoes `%20`.
pub(super) fn decode(text: &str) -> Result<String, ListRefusal> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => return Err(bad("a percent sign must be followed by two hexadecimal digits")),
        }
    }
    String::from_utf8(bytes).map_err(|_| bad("an address must be UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_decoded() {
        let query = Query::parse("system=a%20b+c&active=true&flag&&system=d").unwrap();
        assert_eq!(query.get("system"), Some("a b c"));
        assert_eq!(query.pairs().map(|(key, _)| key).collect::<Vec<_>>(), ["system", "active", "flag", "system"]);
    }

    #[test]
    fn a_broken_escape_is_refused() {
        for text in ["a=%", "a=%4", "a=%zz", "a=%ff"] {
            assert!(Query::parse(text).is_err(), "{text}");
        }
    }
}
