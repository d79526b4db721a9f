//! Strings and numbers, appended to a buffer.

use crate::fabric::Guid;

/// Appends a JSON string.
pub(crate) fn quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

/// Appends the inside of a JSON string.
pub(crate) fn escaped(out: &mut Vec<u8>, text: &str) {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    // Nearly every name is plain, and then this is one copy.
    if text.bytes().all(plain) {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend([byte >> 4, byte & 15].map(digit));
            }
            _ => out.push(byte),
        }
    }
}

fn digit(nibble: u8) -> u8 {
    match nibble {
        0..10 => b'0' + nibble,
        _ => b'a' + (nibble - 10),
    }
}

/// Appends the 16 digits of a GUID.
pub(crate) fn hex(out: &mut Vec<u8>, guid: Guid) {
    let mut digits = [0; 16];
    let mut rest = guid.value();
    for place in digits.iter_mut().rev() {
        *place = digit((rest & 15) as u8);
        rest >>= 4;
    }
    out.extend_from_slice(&digits);
}

/// Appends the 16 digits of a GUID as a JSON string.
pub(crate) fn quoted_hex(out: &mut Vec<u8>, guid: Guid) {
    out.push(b'"');
    hex(out, guid);
    out.push(b'"');
}

/// Appends a number.
pub(crate) fn decimal(out: &mut Vec<u8>, mut number: u32) {
    let mut digits = [0; 10];
    let mut used = 0;
    for place in digits.iter_mut().rev() {
        *place = b'0' + (number % 10) as u8;
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(10 - used..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_string_is_valid_json_and_comes_back() {
        for text in ["", "gpu-1", "a\"b\\c", "tab\tline\nnul\0", "ünï\u{200b}中🦀"] {
            let mut out = Vec::new();
            quoted(&mut out, text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }

    #[test]
    fn numbers_and_guids_have_all_their_digits() {
        for number in [0, 7, 10, 98_304, u32::MAX] {
            let mut out = Vec::new();
            decimal(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
        let guid: Guid = "00b2c30000aa017f".parse().unwrap();
        let mut out = Vec::new();
        hex(&mut out, guid);
        assert_eq!(out, b"00b2c30000aa017f");
    }
}
