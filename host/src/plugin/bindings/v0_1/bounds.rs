//! How much of one thing a guest may say. Checked where it comes in, before anything is copied or compared: what is cheap
//! to say must not be dear to believe.

use topoloom_core::plugin::CallError;

/// The longest text that is looked at further, in bytes. Every rule about a text is stricter and has better words; this
/// bound keeps the price of those words small.
pub(super) const TEXT: usize = 4 << 10;

/// Whether there are few enough of something.
pub(super) fn at_most(what: &str, count: usize, most: usize) -> Result<(), CallError> {
    if count > most { Err(invalid(format!("it has {count} {what} and may have {most}"))) } else { Ok(()) }
}

/// Whether a text is short enough to be looked at.
pub(super) fn short(what: &str, text: &str, most: usize) -> Result<(), CallError> {
    let length = text.len();
    if length > most { Err(invalid(format!("{what} is {length} bytes long, at most {most} are read"))) } else { Ok(()) }
}

pub(super) fn invalid(what: impl Into<String>) -> CallError {
    CallError::InvalidResult(what.into())
}
