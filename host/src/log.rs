//! The log of the process: set up once, and turned up or down while it runs.
//!
//! A filter is a level (`error`, `warn`, `info`, `debug`, `trace`, `off`) or directives per room such as
//! `info,topoloom::topology=debug`.

use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Turns the log up or down. Clones turn the same log.
#[derive(Clone)]
pub struct Control {
    handle: reload::Handle<EnvFilter, Registry>,
    /// As it was last given.
    text: Arc<Mutex<String>>,
}

/// Why there is no such filter.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}, or TARGET=LEVEL directives")]
pub struct FilterError(String);

/// Sets the log of the process up. To be called once.
///
/// # Errors
/// When the filter cannot be read.
pub fn start(filter: &str, format: Format) -> Result<Control, FilterError> {
    use std::io::IsTerminal;
    let (level, handle) = reload::Layer::new(parse(filter)?);
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = match format {
        Format::Text => layer.with_ansi(std::io::stderr().is_terminal()).with_target(false).boxed(),
        Format::Json => layer.json().flatten_event(true).boxed(),
    };
    let text = Arc::new(Mutex::new(filter.to_owned()));
    // A second start keeps the first log, which is what an embedding test wants.
    let _ = Registry::default().with(layer.with_filter(level)).try_init();
    Ok(Control { handle, text })
}

impl Control {
    /// The filter in force.
    #[must_use]
    pub fn filter(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another filter in force.
    ///
    /// # Errors
    /// When it cannot be read; the old one stays.
    pub fn set(&self, filter: &str) -> Result<(), FilterError> {
        let parsed = parse(filter)?;
        self.handle.reload(parsed).map_err(|error| FilterError(error.to_string()))?;
        filter.clone_into(&mut self.text.lock().unwrap_or_else(PoisonError::into_inner));
        tracing::info!(filter, "the log has another filter");
        Ok(())
    }
}

/// A filter. A lone word that is no level would be taken for the name of a module, and nothing be logged.
fn parse(text: &str) -> Result<EnvFilter, FilterError> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let lone = text.split(',').map(str::trim).filter(|part| !part.contains(['=', ':', '[']) && !part.is_empty());
    if let Some(word) = lone.into_iter().find(|word| !is_level(word)) {
        return Err(FilterError(format!("{word:?} is no level; give one of {}", LEVELS.join(", "))));
    }
    let filter = EnvFilter::try_new(text).map_err(|error| FilterError(format!("{text:?}: {error}: give a level")))?;
    // A request that fails is told by whoever sent it, with what it means; the client's own lines say less, and quote
    // whole answers that it does not understand, Secrets among them: nobody can switch those on.
    let quiet = "kube_client::client=off".parse().ok();
    Ok(quiet.into_iter().fold(filter, EnvFilter::add_directive))
}

/// Whether a filter can be read.
///
/// # Errors
/// Why not.
pub fn check(text: &str) -> Result<String, String> {
    parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_no_filter() {
        for good in ["info", "DEBUG", "info,topoloom::topology=debug", "off", "topoloom[span]=trace"] {
            assert_eq!(check(good), Ok(good.to_owned()));
        }
        let error = check("loud").unwrap_err();
        assert!(error.contains("loud") && error.contains("trace"), "{error}");
        assert!(check("topoloom=loud").is_err());
    }
}
