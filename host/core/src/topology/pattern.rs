//! Go regular expressions, with the meaning that they have for every other reader of a HyperNode.
//!
//! A member's pattern is written in Go's dialect (RE2): the admission webhook compiles it there and the scheduler
//! matches with it. [`compile`] reads that dialect and writes the same expression for the `regex` crate. It refuses
//! what Go refuses, also where the crate would accept it (`x**`, look-alikes of verbose mode, nested classes). What
//! both accept selects the same names: `\d \w \s \b` are ASCII only, `\Q…\E` quotes, `\<` is a `<`.
//!
//! Only whether a pattern matches anywhere in a name is preserved: groups lose their names and numbers.

mod class;
mod escape;

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// Go's limit for a repetition, alone and multiplied with the repetitions inside it.
const MAX_REPEAT: u32 = 1000;

/// The memory that one compiled pattern may take. Patterns over node names take a few KiB. One MiB is more than any
/// pattern written by hand needs, and little beside the host's 64.
const MAX_PROGRAM_BYTES: usize = 1 << 20;

/// Why a pattern selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Not an expression of Go's dialect.
    #[error("not a Go regular expression: {reason} at byte {at}")]
    Syntax {
        /// Where in the pattern.
        at: usize,
        /// What is wrong there.
        reason: &'static str,
    },
    /// Accepted by Go, but too large here.
    #[error("the expression is too large or too deeply nested")]
    TooLarge,
}

/// Compiles a pattern; it matches unanchored, like Go's `MatchString`.
///
/// # Errors
///
/// When Go would refuse the pattern, or when it is too large to keep.
pub fn compile(pattern: &str) -> Result<Regex, PatternError> {
    build(&translate(pattern)?)
}

/// Compiles what [`translate`] returned.
pub(super) fn build(translated: &str) -> Result<Regex, PatternError> {
    // All that Go accepts was translated into something that parses, so only the size can fail here.
    RegexBuilder::new(translated).size_limit(MAX_PROGRAM_BYTES).build().map_err(|_| PatternError::TooLarge)
}

/// Writes a Go pattern in the dialect of the `regex` crate.
pub(super) fn translate(pattern: &str) -> Result<String, PatternError> {
    let mut translator = Translator {
        pattern,
        rest: pattern,
        out: String::with_capacity(pattern.len()),
        open: Vec::new(),
        top: OpenGroup::default(),
        after_repeat: false,
    };
    while !translator.rest.is_empty() {
        translator.token()?;
    }
    if translator.open.is_empty() { Ok(translator.out) } else { Err(translator.error("missing )")) }
}

/// One open group.
#[derive(Debug, Default)]
struct OpenGroup {
    /// What a repetition would repeat.
    atom: Option<Atom>,
    /// The greatest [`Atom::copies`] of the atoms before it.
    copies: u32,
    /// Where the group begins in the output.
    start: usize,
}

/// The last thing that can be repeated, as bytes of the output.
#[derive(Debug)]
struct Atom {
    start: usize,
    end: usize,
    /// How often nested repetitions multiply its innermost part.
    copies: u32,
    repeated: bool,
}

struct Translator<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    open: Vec<OpenGroup>,
    top: OpenGroup,
    /// The last token was a repetition: another one is an error in Go.
    after_repeat: bool,
}

impl<'p> Translator<'p> {
    fn error(&self, reason: &'static str) -> PatternError {
        PatternError::Syntax { at: self.pattern.len() - self.rest.len(), reason }
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let next = chars.next();
        self.rest = chars.as_str();
        next
    }

    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn token(&mut self) -> Result<(), PatternError> {
        let after_repeat = std::mem::take(&mut self.after_repeat);
        if let Some(repeat) = self.repeat()? {
            if after_repeat {
                return Err(self.error("a repetition of a repetition"));
            }
            self.after_repeat = true;
            return self.apply(&repeat);
        }
        if self.eat("(") {
            return self.open_group();
        }
        if self.eat(")") {
            return self.close_group();
        }
        if self.eat("|") {
            self.flush();
            self.out.push('|');
            return Ok(());
        }
        if self.eat("\\Q") {
            let (quoted, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
            self.rest = rest;
            quoted.chars().for_each(|c| self.atom(|out| literal(out, c)));
            return Ok(());
        }
        let mut text = String::new();
        if self.eat("[") {
            class::bracket(self, &mut text)?;
        } else if self.eat("\\") {
            escape::outside(self, &mut text)?;
        } else {
            match self.next() {
                Some(c @ ('.' | '^' | '$')) => text.push(c),
                Some(c) => literal(&mut text, c),
                None => return Ok(()),
            }
        }
        self.atom(|out| out.push_str(&text));
        Ok(())
    }

    fn atom(&mut self, write: impl FnOnce(&mut String)) {
        self.flush();
        let start = self.out.len();
        write(&mut self.out);
        self.top.atom = Some(Atom { start, end: self.out.len(), copies: 1, repeated: false });
    }

    /// The atom is complete: no repetition can apply to it any more.
    fn flush(&mut self) {
        if let Some(atom) = self.top.atom.take() {
            self.top.copies = self.top.copies.max(atom.copies);
        }
    }

    /// Reads a repetition, if one is next. A brace that does not hold one is a brace.
    fn repeat(&mut self) -> Result<Option<Repeat>, PatternError> {
        let (min, max) = match self.rest.chars().next() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let Some((min, max, rest)) = braces(self.rest) else { return Ok(None) };
                if min > MAX_REPEAT || max.is_some_and(|max| max > MAX_REPEAT || max < min) {
                    return Err(self.error("a repetition beyond 1000 or of more than its maximum"));
                }
                self.rest = rest;
                self.eat("?");
                return Ok(Some(Repeat { min, max, counted: true }));
            }
            _ => return Ok(None),
        };
        self.next();
        // A lazy repetition matches the same names.
        self.eat("?");
        Ok(Some(Repeat { min, max, counted: false }))
    }

    fn apply(&mut self, repeat: &Repeat) -> Result<(), PatternError> {
        let Some(mut atom) = self.top.atom.take() else { return Err(self.error("nothing to repeat")) };
        if repeat.counted {
            atom.copies = match (repeat.min, repeat.max) {
                // Repeated zero times, its content disappears.
                (_, Some(0)) => 1,
                (0, None) => atom.copies,
                (min, max) => atom.copies.saturating_mul(max.unwrap_or(min)),
            };
            if atom.copies > MAX_REPEAT {
                return Err(self.error("nested repetitions beyond 1000"));
            }
        }
        // Something without a width may have been written in between (`(?i)`, `\Q\E`): Go repeats what is before it.
        if atom.repeated {
            self.out.insert(atom.end, ')');
            self.out.insert_str(atom.start, "(?:");
            atom.end += 4;
        }
        let mut text = String::new();
        let _ = match repeat.max {
            Some(max) => write!(text, "{{{},{max}}}", repeat.min),
            None => write!(text, "{{{},}}", repeat.min),
        };
        self.out.insert_str(atom.end, &text);
        atom.end += text.len();
        atom.repeated = true;
        self.top.atom = Some(atom);
        Ok(())
    }

    fn open_group(&mut self) -> Result<(), PatternError> {
        let start = self.out.len();
        if self.eat("?P<") || self.eat("?<") {
            let Some((name, rest)) = self.rest.split_once('>') else {
                return Err(self.error("a group name without >"));
            };
            let is_name = !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
            if !is_name {
                return Err(self.error("a bad group name, or look-behind"));
            }
            self.rest = rest;
            self.out.push_str("(?:");
        } else if self.eat("?") {
            if !self.flags()? {
                return Ok(());
            }
        } else {
            self.out.push_str("(?:");
        }
        self.flush();
        let outer = std::mem::replace(&mut self.top, OpenGroup { start, ..OpenGroup::default() });
        self.open.push(outer);
        Ok(())
    }

    fn close_group(&mut self) -> Result<(), PatternError> {
        let Some(outer) = self.open.pop() else { return Err(self.error("a ) without (")) };
        self.flush();
        let inner = std::mem::replace(&mut self.top, outer);
        self.out.push(')');
        self.top.atom =
            Some(Atom { start: inner.start, end: self.out.len(), copies: inner.copies.max(1), repeated: false });
        Ok(())
    }

    /// Reads flags up to `)` or `:`; returns whether they open a group. The last mention of each flag counts.
    fn flags(&mut self) -> Result<bool, PatternError> {
        let mut set = [None; FLAGS.len()];
        let (mut on, mut since_sign) = (true, 0);
        let opens = loop {
            match self.next() {
                Some('-') if on => (on, since_sign) = (false, 0),
                Some(end @ (')' | ':')) if on || since_sign > 0 => break end == ':',
                Some(c) => match FLAGS.iter().position(|flag| *flag == c).and_then(|i| set.get_mut(i)) {
                    Some(place) => {
                        *place = Some(on);
                        since_sign += 1;
                    }
                    None => return Err(self.error("an unknown flag or look-around")),
                },
                None => return Err(self.error("missing )")),
            }
        };
        let letters =
            |wanted| FLAGS.iter().zip(&set).filter(move |(_, set)| **set == Some(wanted)).map(|(flag, _)| flag);
        let (on, off): (String, String) = (letters(true).collect(), letters(false).collect());
        if opens || !on.is_empty() || !off.is_empty() {
            let dash = if off.is_empty() { "" } else { "-" };
            let end = if opens { ':' } else { ')' };
            let _ = write!(self.out, "(?{on}{dash}{off}{end}");
        }
        Ok(opens)
    }
}

/// The flags that both dialects have, with the same meaning. Go has no others.
const FLAGS: [char; 4] = ['i', 'm', 's', 'U'];

struct Repeat {
    min: u32,
    max: Option<u32>,
    /// Written with braces: only these are bounded.
    counted: bool,
}

/// `{n}`, `{n,}` or `{n,m}` at the beginning of a text, and what follows.
fn braces(text: &str) -> Option<(u32, Option<u32>, &str)> {
    let (inside, rest) = text.strip_prefix('{')?.split_once('}')?;
    let (min, max) = match inside.split_once(',') {
        None => (count(inside)?, Some(count(inside)?)),
        Some((min, "")) => (count(min)?, None),
        Some((min, max)) => (count(min)?, Some(count(max)?)),
    };
    Some((min, max, rest))
}

/// Digits without a leading zero. A text too large for a number is too large for a repetition as well.
fn count(digits: &str) -> Option<u32> {
    let valid =
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    valid.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// One character that means itself, in and outside of brackets.
fn literal(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:X}}}", u32::from(c));
    }
}

#[cfg(test)]
mod tests;
