//! Names of client certificates: each becomes the name of two files.

use crate::value::BadValue;

/// As long as the name in a certificate may be.
const LONGEST: usize = 64;

/// Reads a name to make a client certificate for.
///
/// # Errors
/// It would leave the folder that certificates are written into, take the place of the authority's, or does not fit into
/// a certificate.
pub fn client_name(text: &str) -> Result<String, BadValue> {
    let printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(printable) && !text.contains('/');
    match fits && !matches!(text, "." | ".." | "ca") {
        true => Ok(text.to_owned()),
        false => Err(BadValue::new(
            "client",
            text,
            format!("1 to {LONGEST} printable ASCII characters without a slash, and none of \".\", \"..\" and \"ca\""),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_file_of_its_own_is_refused() {
        for name in ["ops", "ops@example.org", "Ops Team", "..x", ".ops", &"x".repeat(LONGEST)] {
            assert_eq!(client_name(name).as_deref(), Ok(name));
        }
        for name in ["", ".", "..", "ca", "../x", "a/b", "/tmp/x", "a\n", "\u{e9}", &"x".repeat(LONGEST + 1)] {
            let error = client_name(name).unwrap_err();
            assert_eq!((error.field.as_str(), error.value.as_str()), ("client", name));
            assert!(error.expected.starts_with("1 to 64 printable ASCII characters without a slash"), "{error}");
        }
    }
}
