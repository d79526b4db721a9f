//! Characters in brackets.

use super::escape::{character, perl_class, unicode_class};
use super::{PatternError, Translator, literal};

/// The class names of `[[:name:]]`; both dialects have the same, ASCII only.
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// After an opening bracket. Go has neither nested brackets nor set operations: all their signs are literals.
pub(super) fn bracket(from: &mut Translator<'_>, out: &mut String) -> Result<(), PatternError> {
    out.push('[');
    if from.eat("^") {
        out.push('^');
    }
    let mut first = true;
    // A closing bracket in the first place is a character.
    while first || !from.eat("]") {
        first = false;
        if posix(from, out)? {
            continue;
        }
        if from.rest.starts_with('\\') && from.rest.len() > 1 {
            let before = from.rest;
            from.eat("\\");
            if let Some((negated, items)) = perl_class(from) {
                out.push_str(if negated { "[^" } else { "[" });
                out.push_str(items);
                out.push(']');
                continue;
            }
            if unicode_class(from, out)? {
                continue;
            }
            from.rest = before;
        }
        range(from, out)?;
    }
    out.push(']');
    Ok(())
}

/// One character, or two with a hyphen between; a hyphen before the closing bracket is a character.
fn range(from: &mut Translator<'_>, out: &mut String) -> Result<(), PatternError> {
    let low = one(from)?;
    literal(out, low);
    if from.rest.starts_with('-') && from.rest.len() > 1 && !from.rest.starts_with("-]") {
        from.eat("-");
        let high = one(from)?;
        if high < low {
            return Err(from.error("a range that ends before it begins"));
        }
        out.push('-');
        literal(out, high);
    }
    Ok(())
}

fn one(from: &mut Translator<'_>) -> Result<char, PatternError> {
    if from.eat("\\") {
        return character(from);
    }
    from.next().ok_or_else(|| from.error("missing ]"))
}

fn posix(from: &mut Translator<'_>, out: &mut String) -> Result<bool, PatternError> {
    let Some((name, rest)) = from.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) else {
        return Ok(false);
    };
    if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
        return Err(from.error("an unknown class of characters"));
    }
    from.rest = rest;
    out.push_str("[:");
    out.push_str(name);
    out.push_str(":]");
    Ok(true)
}
