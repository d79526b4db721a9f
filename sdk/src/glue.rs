//! Connects the exported functions with the trait: reads the configuration and reports panics.

#[cfg(target_arch = "wasm32")]
use crate::bindings::{exports::topoloom::discovery::discoverer::Round, topoloom::discovery::nodes::Snapshot};
#[cfg(target_arch = "wasm32")]
use crate::{Answer, Failure, Input, applied::Applied, http::Http, nodes::Nodes};
use crate::{Description, Discoverer, FromJson, Problem, Requirements, join};

/// Sends message and place of a panic to the host's log: without it a trap says only `unreachable`.
fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| {
        let (file, [line, column]) = panic.location().map_or(("", [0, 0]), |at| (at.file(), [at.line(), at.column()]));
        let [line, column] = [line, column].map(|number| number.to_string());
        let message = panic.payload_as_str().unwrap_or_default();
        crate::log::error(&join(&["panicked at ", file, ":", &line, ":", &column, ":\n", message]));
    }));
}

/// The exported `describe`.
#[must_use]
pub fn describe<T: Discoverer>() -> Description {
    report_panics();
    T::describe()
}

/// The exported `configure`.
///
/// # Errors
///
/// Those of reading the configuration, or those of the discoverer.
pub fn configure<T: Discoverer>(config: &str) -> Result<Requirements, Vec<Problem>> {
    report_panics();
    T::configure(&T::Config::from_json(config)?)
}

/// The exported `discover`.
#[cfg(target_arch = "wasm32")]
pub fn discover<T: Discoverer>(config: &str, nodes: &Snapshot, round: &Round) -> Result<Answer, Failure> {
    report_panics();
    let config = read::<T>(config)?;
    let input = Input {
        nodes: Nodes::of(nodes),
        applied: Applied::of_host(),
        http: Http::of_host(),
        time: round.time,
        state: &round.state,
    };
    T::discover(&config, &input)
}

/// Reads the configuration of a round. `configure` has accepted it before, so problems here are one failure.
pub(crate) fn read<T: Discoverer>(config: &str) -> Result<T::Config, crate::Failure> {
    T::Config::from_json(config).map_err(|problems| {
        let mut text = String::new();
        for Problem { path, message } in &problems {
            let between = if text.is_empty() { "" } else { "; " };
            let colon = if path.is_empty() { "" } else { ": " };
            text.push_str(&join(&[between, path, colon, message]));
        }
        crate::Failure::Config(text)
    })
}
