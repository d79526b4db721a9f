//! Connects the exported functions with the trait: reads the configuration and reports panics.

#[cfg(target_arch = "wasm32")]
use crate::bindings::{exports::topoloom::discovery::discoverer::Round, topoloom::discovery::nodes::Snapshot};
#[cfg(target_arch = "wasm32")]
use crate::{Answer, Failure, Input, applied::Applied, http::Http, nodes::Nodes};
use crate::{Description, Discoverer, FromJson, Problem, Requirements, join};

/// Sends message and place of a panic to the host's log: without it a trap says only `unreachable`.
fn report_panics() {
    #[cfg(target_arch = "wasm32")]
    std::panic::set_hook(Box::new(|panic| crate::log::error(&words(panic))));
}

/// A panic as the standard library words it, without the formatter that it uses for that.
#[cfg(any(test, target_arch = "wasm32"))]
fn words(panic: &std::panic::PanicHookInfo<'_>) -> String {
    let (file, place) = panic.location().map_or(("", [0, 0]), |at| (at.file(), [at.line(), at.column()]));
    let [line, column] = place.map(|number| number.to_string());
    join(&["panicked at ", file, ":", &line, ":", &column, ":\n", panic.payload_as_str().unwrap_or_default()])
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{catch_unwind, set_hook, take_hook};
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn a_panic_has_its_place_and_message() {
        let (sender, lines) = channel();
        let (us, before) = (thread::current().id(), take_hook());
        // Tests of other threads may panic meanwhile.
        set_hook(Box::new(move |panic| {
            if thread::current().id() == us {
                sender.send((words(panic), panic.to_string())).unwrap();
            } else {
                before(panic);
            }
        }));
        let number = Some(7);
        assert!(catch_unwind(|| panic!("plain")).is_err());
        assert!(catch_unwind(|| panic!("formatted: {number:?}")).is_err());
        drop(take_hook());
        let lines: Vec<(String, String)> = lines.try_iter().collect();
        assert!(lines.iter().all(|(ours, theirs)| ours == theirs), "{lines:?}");
        let ends: Vec<&str> = lines.iter().filter_map(|(ours, _)| ours.lines().next_back()).collect();
        assert_eq!(ends, ["plain", "formatted: Some(7)"]);
    }

    #[test]
    fn several_problems_of_a_round_are_one_failure() {
        struct Two;
        impl FromJson for Two {
            fn from_json(_: &str) -> Result<Self, Vec<Problem>> {
                Err(vec![Problem::new("a", "is wrong"), Problem::new("", "all is wrong")])
            }
        }
        struct Plugin;
        impl Discoverer for Plugin {
            type Config = Two;
            fn describe() -> Description {
                Description::new("two", "0.1.0")
            }
            fn configure(_: &Two) -> Result<Requirements, Vec<Problem>> {
                Ok(Requirements::new())
            }
            fn discover(_: &Two, _: &crate::Input<'_>) -> Result<crate::Answer, crate::Failure> {
                Err(crate::Failure::upstream("none"))
            }
        }
        let failure = read::<Plugin>("{}").err();
        assert_eq!(failure, Some(crate::Failure::Config("a: is wrong; all is wrong".to_owned())));
    }
}
