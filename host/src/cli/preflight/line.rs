//! What a check found, and what to do about it.

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// As it should be.
    Ok,
    /// The host works; somebody should look.
    Warn,
    /// The host does not work, or not all of it.
    Fail,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) mark: Mark,
    /// What was looked at.
    pub(super) what: String,
    /// What was found.
    pub(super) found: String,
    /// What to do, line by line.
    pub(super) todo: Vec<String>,
}

impl Line {
    pub(super) fn ok(what: &str, found: impl Into<String>) -> Self {
        Self { mark: Mark::Ok, what: what.to_owned(), found: found.into(), todo: Vec::new() }
    }

    pub(super) fn warn(what: &str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { mark: Mark::Warn, todo: vec![todo.into()], ..Self::ok(what, found) }
    }

    pub(super) fn fail(what: &str, found: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { mark: Mark::Fail, todo: vec![todo.into()], ..Self::ok(what, found) }
    }
}

/// The lines as text, and a last one that counts them.
pub(super) fn render(lines: &[Line]) -> String {
    let mut text = String::new();
    for line in lines {
        let mark = match line.mark {
            Mark::Ok => "[ok]  ",
            Mark::Warn => "[warn]",
            Mark::Fail => "[fail]",
        };
        text.push_str(&format!("{mark} {}: {}\n", line.what, line.found));
        for todo in line.todo.iter().filter(|todo| !todo.is_empty()) {
            text.push_str(&format!("       -> {todo}\n"));
        }
    }
    let count = |mark| lines.iter().filter(|line| line.mark == mark).count();
    text.push_str(&format!(
        "{} ok, {} to look at, {} missing\n",
        count(Mark::Ok),
        count(Mark::Warn),
        count(Mark::Fail)
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_found_and_below_it_what_to_do() {
        let lines = [
            Line::ok("API server", "v1.34.1"),
            Line::warn("leases", "nobody leads", "start the host"),
            Line::fail("definitions", "none", "topoloom crd | kubectl apply -f -"),
        ];
        let wanted = "[ok]   API server: v1.34.1\n\
                      [warn] leases: nobody leads\n       -> start the host\n\
                      [fail] definitions: none\n       -> topoloom crd | kubectl apply -f -\n\
                      1 ok, 1 to look at, 1 missing\n";
        assert_eq!(render(&lines), wanted);
    }
}
