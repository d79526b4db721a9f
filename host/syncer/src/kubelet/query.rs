//! The query of a request, from the words of a kubelet to those of an API server.
//!
//! Owns the table of parameters. A value is passed on as it is written: both servers read it the same way, so nothing is decoded and
//! encoded again. What is not in the table is dropped.
//!
//! What goes wrong: a parameter that narrows what is asked for and is dropped in silence would show more than was asked for. `stream`
//! of a log is therefore passed on, although no server asks for it by default, and an API server that does not know it refuses it.

use std::collections::BTreeSet;

use super::path::StreamVerb;

/// How a parameter is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// A switch of exec and attach: `1` is on, as at a kubelet.
    One,
    /// A switch of logs: on, unless it says `false` or `0`.
    Switch,
    /// One value.
    Once,
    /// Every value, in its order.
    Each,
    /// The number of lines by its old name; `all` is no limit.
    Tail,
    /// Which output of a container; `All` is every one, as without it.
    Output,
}

type Table = [(&'static str, &'static str, Rule)];

/// The parameters of a kubelet, those of an API server, and the rule.
fn table(verb: StreamVerb) -> &'static Table {
    match verb {
        StreamVerb::Logs => &[
            ("follow", "follow", Rule::Switch),
            ("previous", "previous", Rule::Switch),
            ("timestamps", "timestamps", Rule::Switch),
            ("tailLines", "tailLines", Rule::Once),
            ("tail", "tailLines", Rule::Tail),
            ("sinceSeconds", "sinceSeconds", Rule::Once),
            ("sinceTime", "sinceTime", Rule::Once),
            ("limitBytes", "limitBytes", Rule::Once),
            ("stream", "stream", Rule::Output),
        ],
        StreamVerb::Exec => &[
            ("input", "stdin", Rule::One),
            ("output", "stdout", Rule::One),
            ("error", "stderr", Rule::One),
            ("tty", "tty", Rule::One),
            ("command", "command", Rule::Each),
        ],
        StreamVerb::Attach => &[
            ("input", "stdin", Rule::One),
            ("output", "stdout", Rule::One),
            ("error", "stderr", Rule::One),
            ("tty", "tty", Rule::One),
        ],
        StreamVerb::PortForward => &[("port", "ports", Rule::Each)],
    }
}

/// The query for the API server.
pub(super) fn translate(verb: StreamVerb, container: Option<&str>, query: &str) -> String {
    let mut passed: Vec<(&str, &str)> = container.map(|container| ("container", container)).into_iter().collect();
    // Also those that are switched off, so that nothing is passed on for them.
    let mut seen = BTreeSet::new();
    for part in query.split('&').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let Some((_, name, rule)) = table(verb).iter().find(|(known, ..)| *known == key) else { continue };
        let is_first = seen.insert(*name);
        let value = match rule {
            Rule::Each => Some(value),
            // The first value counts, as at a kubelet.
            _ if !is_first => None,
            Rule::One => matches!(value, "1" | "true").then_some("true"),
            Rule::Switch => (!(value == "0" || value.eq_ignore_ascii_case("false"))).then_some("true"),
            Rule::Once => Some(value),
            Rule::Tail => (value != "all").then_some(value),
            Rule::Output => (value != "All").then_some(value),
        };
        passed.extend(value.map(|value| (*name, value)));
    }
    passed.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(verb: StreamVerb, query: &str, wanted: &str) {
        let container = (verb != StreamVerb::PortForward).then_some("app");
        assert_eq!(translate(verb, container, query), wanted, "{query}");
    }

    #[test]
    fn s26_the_query_of_a_command() {
        let exec = |query, wanted| check(StreamVerb::Exec, query, wanted);
        exec(
            "command=sh&command=-c&command=echo+a%26b%3D1&error=1&input=1&output=1",
            "container=app&command=sh&command=-c&command=echo+a%26b%3D1&stderr=true&stdin=true&stdout=true",
        );
        exec("input=1&output=1&tty=1", "container=app&stdin=true&stdout=true&tty=true");
        exec("input=0&output=1&output=0&error=&tty", "container=app&stdout=true");
        exec("input=0&input=1&tty=&tty=1&output=1", "container=app&stdout=true");
        exec("stdin=true&container=other&%63ommand=x&pretty=true&output=1", "container=app&stdout=true");
        exec("command=", "container=app&command=");
        exec("", "container=app");
    }

    #[test]
    fn s26_attaching_runs_no_command() {
        check(
            StreamVerb::Attach,
            "input=1&output=1&error=1&command=sh",
            "container=app&stdin=true&stdout=true&stderr=true",
        );
    }

    #[test]
    fn s26_the_query_of_logs() {
        let logs = |query, wanted| check(StreamVerb::Logs, query, wanted);
        logs(
            "follow=true&limitBytes=1024&previous=true&sinceSeconds=60&tailLines=10&timestamps=true",
            "container=app&follow=true&limitBytes=1024&previous=true&sinceSeconds=60&tailLines=10&timestamps=true",
        );
        logs("sinceTime=2026-08-01T06%3A10%3A00Z", "container=app&sinceTime=2026-08-01T06%3A10%3A00Z");
        logs("follow=false&previous=0&timestamps=FALSE", "container=app");
        logs("follow&timestamps=", "container=app&follow=true&timestamps=true");
        logs("tailLines=5&tailLines=7&tail=9", "container=app&tailLines=5");
        logs("follow=false&follow=true&stream=All&stream=Stderr&tail=all&tailLines=5", "container=app");
        logs("tail=9", "container=app&tailLines=9");
        logs("tail=all", "container=app");
        logs("stream=All", "container=app");
        logs("stream=Stderr", "container=app&stream=Stderr");
        logs("insecureSkipTLSVerifyBackend=true&command=sh", "container=app");
    }

    #[test]
    fn s26_the_query_of_forwarded_ports() {
        check(StreamVerb::PortForward, "", "");
        check(StreamVerb::PortForward, "port=80%2C443&port=8080&command=sh", "ports=80%2C443&ports=8080");
    }
}
