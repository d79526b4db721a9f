//! What follows a backslash.

use std::fmt::Write as _;

use super::{PatternError, Translator, literal};

/// After a backslash outside of brackets.
pub(super) fn outside(from: &mut Translator<'_>, out: &mut String) -> Result<(), PatternError> {
    for (letter, text) in [("A", "\\A"), ("z", "\\z"), ("b", "(?-u:\\b)"), ("B", "(?-u:\\B)")] {
        if from.eat(letter) {
            out.push_str(text);
            return Ok(());
        }
    }
    if let Some((negated, items)) = perl_class(from) {
        let sign = if negated { "^" } else { "" };
        let _ = write!(out, "[{sign}{items}]");
        return Ok(());
    }
    if unicode_class(from, out)? {
        return Ok(());
    }
    literal(out, character(from)?);
    Ok(())
}

/// `\d \s \w` and their opposites: ASCII, and without the vertical tab that the crate's `\s` has.
pub(super) fn perl_class(from: &mut Translator<'_>) -> Option<(bool, &'static str)> {
    let (negated, items) = match from.rest.chars().next()? {
        c @ ('d' | 'D') => (c == 'D', "0-9"),
        c @ ('s' | 'S') => (c == 'S', "\\t\\n\\x0C\\r\\x20"),
        c @ ('w' | 'W') => (c == 'W', "0-9A-Za-z_"),
        _ => return None,
    };
    from.next();
    Some((negated, items))
}

/// `\pN`, `\p{Greek}`, `\P…`, `\p{^…}`: general categories and scripts, nothing else.
pub(super) fn unicode_class(from: &mut Translator<'_>, out: &mut String) -> Result<bool, PatternError> {
    let mut negated = if from.eat("p") {
        false
    } else if from.eat("P") {
        true
    } else {
        return Ok(false);
    };
    let mut name = if from.eat("{") {
        let Some((name, rest)) = from.rest.split_once('}') else { return Err(from.error("a class name without }")) };
        from.rest = rest;
        name.to_owned()
    } else {
        from.next().map(String::from).unwrap_or_default()
    };
    if let Some(rest) = name.strip_prefix('^') {
        negated = !negated;
        name = rest.to_owned();
    }
    let plain = !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphabetic());
    // A category has one or two letters, a script more; the crate knows further properties, which Go does not.
    let property = match name.as_str() {
        "Any" => "any".to_owned(),
        category if category.len() <= 2 => format!("gc={category}"),
        script => format!("sc={script}"),
    };
    let text = format!("\\{}{{{property}}}", if negated { 'P' } else { 'p' });
    if !plain || regex::Regex::new(&text).is_err() {
        return Err(from.error("an unknown class of characters"));
    }
    out.push_str(&text);
    Ok(true)
}

/// An escaped character that means one character, in and outside of brackets.
pub(super) fn character(from: &mut Translator<'_>) -> Result<char, PatternError> {
    let c = match from.next() {
        None => return Err(from.error("a \\ at the end")),
        Some(c) => c,
    };
    let value = match c {
        'a' => 0x07,
        'f' => 0x0c,
        't' => 0x09,
        'n' => 0x0a,
        'r' => 0x0d,
        'v' => 0x0b,
        'x' => hexadecimal(from)?,
        // One digit alone would be a back reference, which neither dialect has; \0 is always octal.
        '1'..='7' if !from.rest.starts_with(|next: char| next.is_digit(8)) => {
            return Err(from.error("a back reference"));
        }
        '0'..='7' => {
            let mut value = c.to_digit(8).unwrap_or(0);
            for _ in 0..2 {
                let Some(digit) = from.rest.chars().next().and_then(|next| next.to_digit(8)) else { break };
                from.next();
                value = value * 8 + digit;
            }
            value
        }
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => u32::from(c),
        _ => return Err(from.error("an unknown escape")),
    };
    char::from_u32(value).ok_or_else(|| from.error("not a character"))
}

/// `7F` or `{10FFFF}`.
fn hexadecimal(from: &mut Translator<'_>) -> Result<u32, PatternError> {
    let digits = if from.eat("{") {
        let Some((digits, rest)) = from.rest.split_once('}') else { return Err(from.error("a \\x{ without }")) };
        from.rest = rest;
        digits
    } else {
        let Some((digits, rest)) = from.rest.split_at_checked(2) else {
            return Err(from.error("a \\x without digits"));
        };
        from.rest = rest;
        digits
    };
    let all_digits = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let value = if all_digits { u32::from_str_radix(digits, 16).ok() } else { None };
    value.ok_or_else(|| from.error("not a hexadecimal number"))
}
