//! How much of one kind a guest may send. Checked on arrival, before anything is copied or compared: data that is cheap
//! to send must not be expensive to check.

use topoloom_core::plugin::{CallError, Limit};

/// Whether there are few enough of something, in a cluster of so many nodes.
pub(super) fn at_most(row: Limit, what: &str, count: usize, nodes: usize) -> Result<(), CallError> {
    let most = row.fixed().of_nodes(nodes);
    if count <= most {
        return Ok(());
    }
    Err(exceeded(row, format!("it has {count} {what} and may have {most}")))
}

/// Whether a text is short enough to be looked at.
pub(super) fn short(what: &str, text: &str) -> Result<(), CallError> {
    no_longer(Limit::Text, what, text)
}

/// The same for texts that may be longer than others.
pub(super) fn no_longer(row: Limit, what: &str, text: &str) -> Result<(), CallError> {
    let (length, most) = (text.len(), row.fixed().size());
    if length <= most {
        return Ok(());
    }
    Err(exceeded(row, format!("{what} is {length} bytes long, at most {most} are read")))
}

fn exceeded(row: Limit, what: String) -> CallError {
    CallError::LimitExceeded { row, what, report: Box::default() }
}

pub(super) fn invalid(what: impl Into<String>) -> CallError {
    CallError::InvalidResult(what.into())
}
