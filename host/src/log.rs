//! The log of the process: set up once, and turned up or down while it runs.
//!
//! A filter is a level (`error`, `warn`, `info`, `debug`, `trace`, `off`) or directives per room such as
//! `info,topoloom::topology=debug`.

use std::sync::{Arc, Mutex, PoisonError};

use tracing::Metadata;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::traces::TraceLayer;

/// What no filter can switch on.
///
/// A request that fails is logged by its sender, with what it means; the client's own lines say less, and quote whole
/// answers that it does not understand, Secrets among them. A watch that fails is logged by its check, once; the
/// watcher's own lines say it with every try.
const QUIET: [&str; 2] = ["kube_client::client", "kube_runtime::watcher"];

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

/// Sets the log of the process up, with the layer for spans if there is one. To be called once.
///
/// # Errors
/// When the filter cannot be read.
pub fn start(filter: &str, format: Format, traces: Option<TraceLayer>) -> Result<Control, FilterError> {
    use std::io::IsTerminal;
    let (level, handle) = level(filter)?;
    let layer = fmt::layer().with_writer(std::io::stderr);
    let layer = match format {
        Format::Text => layer.with_ansi(std::io::stderr().is_terminal()).with_target(false).boxed(),
        Format::Json => layer.json().flatten_event(true).boxed(),
    };
    let text = Arc::new(Mutex::new(filter.to_owned()));
    let layers: Vec<TraceLayer> = [layer.with_filter(level).boxed()].into_iter().chain(traces).collect();
    // A second start keeps the first log, which is what an embedding test wants.
    let _ = Registry::default().with(layers).try_init();
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
        tracing::info!(filter, "the filter of the log was changed");
        Ok(())
    }
}

/// The filter of the log, and what puts another one in force.
fn level(text: &str) -> Result<(impl Filter<Registry> + use<>, reload::Handle<EnvFilter, Registry>), FilterError> {
    let (level, handle) = reload::Layer::new(parse(text)?);
    // Apart from the directives: one about a span holds for every line inside it.
    Ok((level.and(filter_fn(is_logged)), handle))
}

fn is_logged(about: &Metadata<'_>) -> bool {
    QUIET.into_iter().all(|room| !about.target().starts_with(room))
}

/// Rooms that are crates of their own, by the names that a filter has for them: operators know rooms and no crates.
const CRATES: [(&str, &str); 8] = [
    ("topoloom::authorities", "topoloom_sandbox::authorities"),
    ("topoloom::cluster", "topoloom_cluster"),
    ("topoloom::endpoints", "topoloom_sandbox::endpoints"),
    ("topoloom::extender", "topoloom_nodelock::extender"),
    ("topoloom::nodelock", "topoloom_nodelock"),
    ("topoloom::plugin", "topoloom_sandbox::plugin"),
    ("topoloom::serving", "topoloom_serving"),
    ("topoloom::work", "topoloom_cluster::work"),
];

/// A filter. A lone word that is no level would be taken for the name of a module, and nothing be logged.
fn parse(text: &str) -> Result<EnvFilter, FilterError> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let lone = text.split(',').map(str::trim).filter(|part| !part.contains(['=', ':', '[']) && !part.is_empty());
    if let Some(word) = lone.into_iter().find(|word| !is_level(word)) {
        return Err(FilterError(format!("{word:?} is no level; give one of {}", LEVELS.join(", "))));
    }
    let named = CRATES.into_iter().fold(text.to_owned(), |text, (room, name)| text.replace(room, name));
    EnvFilter::try_new(named).map_err(|error| FilterError(format!("{text:?}: {error}: give a level")))
}

/// Whether a filter can be read.
///
/// # Errors
/// Why not.
pub fn check(text: &str) -> Result<String, String> {
    parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// What a test reads of the log.
#[cfg(test)]
pub(crate) mod captured {
    use std::io::{self, Write};
    use std::sync::{Arc, LazyLock, Mutex};

    use tracing::Dispatch;
    use tracing::level_filters::LevelFilter;
    use tracing::subscriber::DefaultGuard;
    use tracing_subscriber::{Registry, fmt};

    /// Listens to everything and keeps nothing, until the process ends.
    static ALWAYS: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default()));

    /// Lets a thread hear its own events, whatever thread came to them first.
    ///
    /// While a process has a single subscriber, tracing asks only the thread that first comes to an event whether it
    /// listens, and keeps the answer for all threads. Tests run beside each other, so one of them would miss an event.
    pub(crate) fn for_this_thread() {
        LazyLock::force(&ALWAYS);
    }

    /// What was written.
    #[derive(Clone, Default)]
    pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        /// Everything so far.
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }

        /// What this thread warns of from now on, until the guard is dropped.
        pub(crate) fn of_warnings() -> (Self, DefaultGuard) {
            for_this_thread();
            let lines = Self::default();
            let writer = lines.clone();
            let layer = fmt().with_ansi(false).with_max_level(LevelFilter::WARN).with_writer(move || writer.clone());
            (lines, tracing::subscriber::set_default(layer.finish()))
        }

        /// The warnings of this program that hold this.
        pub(crate) fn count(&self, part: &str) -> usize {
            self.text().lines().filter(|line| line.contains(" topoloom") && line.contains(part)).count()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::captured::{self, Lines};
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

    #[test]
    fn a_room_that_is_a_crate_of_its_own_has_its_old_name_in_a_filter() {
        use std::any::type_name;

        let lives = [
            type_name::<crate::authorities::Authorities>(),
            type_name::<crate::cluster::Refusal>(),
            type_name::<crate::endpoints::Outside>(),
            type_name::<crate::extender::ExtenderOptions>(),
            type_name::<crate::nodelock::view::View>(),
            type_name::<crate::plugin::Runtime>(),
            type_name::<crate::serving::Bounds>(),
            type_name::<crate::work::Options>(),
        ];
        for ((room, name), lives) in CRATES.into_iter().zip(lives) {
            assert!(lives.starts_with(name), "{room} is in {lives}");
            let filter = parse(&format!("warn,{room}=debug")).unwrap().to_string();
            assert!(filter.contains(&format!("{name}=debug")), "{filter}");
        }
    }

    /// Says one thing inside a span, as our own room, as the client, and as the watcher.
    fn speak() {
        let _inside = tracing::info_span!("request").entered();
        tracing::warn!(target: "topoloom::topology", "ours");
        tracing::warn!(target: "kube_client::client", "an answer with a Secret");
        tracing::warn!(target: "kube_client::client::builder", "a part of the client");
        tracing::warn!(target: "kube_runtime::watcher", "the watch failed once more");
        tracing::warn!(target: "kube_runtime::controller", "another room");
    }

    #[test]
    fn what_quotes_secrets_cannot_be_switched_on() {
        captured::for_this_thread();
        let wanted = [("topoloom::topology", "ours"), ("kube_runtime::controller", "another room")];
        for filter in [
            "trace",
            "trace,kube_client::client=trace,kube_runtime::watcher=trace",
            "[request]=trace",
            "off,[request]=trace,kube_client[request]=trace,kube_client::client[request]=trace",
        ] {
            let lines = Lines::default();
            let writer = lines.clone();
            let (level, handle) = level("off").unwrap();
            let layer = fmt::layer().with_ansi(false).with_writer(move || writer.clone()).with_filter(level);
            tracing::subscriber::with_default(Registry::default().with(layer), || {
                speak();
                handle.reload(parse(filter).unwrap()).unwrap();
                speak();
            });
            let said = lines.text();
            let said: Vec<_> = said.lines().filter_map(|line| line.split_once(": ")?.1.split_once(": ")).collect();
            assert_eq!(said, wanted, "{filter}");
        }
    }
}
