//! What the containers of a pod do, by annotations of the pod.
//!
//! Without any they start at once, are ready at once, run for ever, and end at once when they are stopped. A text that cannot
//! be read fails the pod with a message: a test that misspelled it must not wait for what never comes.

use std::collections::BTreeMap;
use std::str::FromStr;

use jiff::SignedDuration;

/// Annotation: when and how the containers end by themselves: `1s,Succeeded`, `2s,Failed`, or `500ms,Restarts`, where they
/// fail each time and are started again. The first two end the pod, whatever its `restartPolicy` is.
pub const RUN: &str = "test.topoloom.dev/run";
/// Annotation: how long after their start the containers are ready: `300ms`, or `never`.
pub const READY: &str = "test.topoloom.dev/ready";
/// Annotation: how long each init container runs that is no sidecar: `300ms`.
pub const INIT: &str = "test.topoloom.dev/init";
/// Annotation: how long the containers need to stop, and how they end then: `300ms,Succeeded`, `0s,Failed`; or `never`: the
/// kubelet kills them when their grace period has passed.
pub const STOP: &str = "test.topoloom.dev/stop";

/// The longest time that an annotation may name.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);

/// A final phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Succeeded,
    Failed,
}

impl Phase {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    pub(crate) fn read(word: &str) -> Option<Self> {
        [Self::Succeeded, Self::Failed].into_iter().find(|phase| phase.word() == word)
    }
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    Forever,
    Ends(SignedDuration, Phase),
    Restarts(SignedDuration),
}

/// How the containers stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    After(SignedDuration, Phase),
    Never,
}

/// All of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) init: SignedDuration,
    /// `None` is never.
    pub(super) ready: Option<SignedDuration>,
    pub(super) run: Run,
    pub(super) stop: Stop,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            init: SignedDuration::ZERO,
            ready: Some(SignedDuration::ZERO),
            run: Run::Forever,
            // SIGTERM ends a process that does not handle it.
            stop: Stop::After(SignedDuration::ZERO, Phase::Failed),
        }
    }
}

impl Plan {
    /// Reads the annotations of a pod; the error names the one that is wrong.
    pub(super) fn read(annotations: Option<&BTreeMap<String, String>>) -> Result<Self, String> {
        let mut plan = Self::default();
        let text = |key: &str| annotations.and_then(|annotations| annotations.get(key)).map(String::as_str);
        let wrong =
            |key: &str, text: &str, wanted: &str| format!("the annotation {key} must be {wanted}, got {text:?}");
        if let Some(text) = text(RUN) {
            plan.run = run(text)
                .ok_or_else(|| wrong(RUN, text, "a time of 0s to 24h, a comma, and Succeeded, Failed or Restarts"))?;
        }
        if let Some(text) = text(READY) {
            let time = || time(text).map(Some);
            plan.ready = if text == "never" { Some(None) } else { time() }
                .ok_or_else(|| wrong(READY, text, "a time of 0s to 24h, or `never`"))?;
        }
        if let Some(text) = text(INIT) {
            plan.init = time(text).ok_or_else(|| wrong(INIT, text, "a time of 0s to 24h"))?;
        }
        if let Some(text) = text(STOP) {
            plan.stop = stop(text).ok_or_else(|| {
                wrong(STOP, text, "a time of 0s to 24h, a comma, and Succeeded or Failed; or `never`")
            })?;
        }
        Ok(plan)
    }
}

fn run(text: &str) -> Option<Run> {
    let (time, word) = parts(text)?;
    match word {
        "Restarts" => Some(Run::Restarts(time)),
        word => Phase::read(word).map(|phase| Run::Ends(time, phase)),
    }
}

fn stop(text: &str) -> Option<Stop> {
    if text == "never" {
        return Some(Stop::Never);
    }
    let (time, word) = parts(text)?;
    Phase::read(word).map(|phase| Stop::After(time, phase))
}

fn parts(text: &str) -> Option<(SignedDuration, &str)> {
    let (first, word) = text.split_once(',')?;
    Some((time(first)?, word.trim()))
}

fn time(text: &str) -> Option<SignedDuration> {
    let time = SignedDuration::from_str(text.trim()).ok()?;
    (time >= SignedDuration::ZERO && time <= LONGEST).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[(&str, &str)]) -> Result<Plan, String> {
        Plan::read(Some(&list.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect()))
    }

    #[test]
    fn annotations_say_what_containers_do() {
        let ms = SignedDuration::from_millis;
        assert_eq!(read(&[]), Ok(Plan::default()));
        assert_eq!(read(&[(RUN, "1s,Succeeded")]).unwrap().run, Run::Ends(ms(1000), Phase::Succeeded));
        assert_eq!(read(&[(RUN, "1500ms, Failed")]).unwrap().run, Run::Ends(ms(1500), Phase::Failed));
        assert_eq!(read(&[(RUN, "20ms,Restarts")]).unwrap().run, Run::Restarts(ms(20)));
        assert_eq!(read(&[(READY, "2s")]).unwrap().ready, Some(ms(2000)));
        assert_eq!(read(&[(READY, "never")]).unwrap().ready, None);
        assert_eq!(read(&[(INIT, "30ms")]).unwrap().init, ms(30));
        assert_eq!(read(&[(STOP, "1s,Succeeded")]).unwrap().stop, Stop::After(ms(1000), Phase::Succeeded));
        assert_eq!(read(&[(STOP, "never")]).unwrap().stop, Stop::Never);
    }

    #[test]
    fn a_text_that_cannot_be_read_is_named() {
        for (key, text) in [
            (RUN, ""),
            (RUN, "1s"),
            (RUN, "soon,Failed"),
            (RUN, "1s,Running"),
            (RUN, "-1s,Failed"),
            (RUN, "25h,Failed"),
            (READY, "always"),
            (INIT, "never"),
            (STOP, "1s,Restarts"),
        ] {
            let error = read(&[(key, text)]).unwrap_err();
            assert!(error.contains(key) && error.contains(&format!("{text:?}")) && error.contains("24h"), "{error}");
        }
    }
}
