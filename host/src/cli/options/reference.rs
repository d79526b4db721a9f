//! The page of documentation about the flags of `run`, made from the flags.

use std::fmt::Write;

use clap::Command;

use super::flags::{self, Flag, variable};
use super::{VOLCANOS, WITHOUT_EFFECT};
use crate::config::options_file::Values;

/// What stands above the tables.
const HEAD: &str = "\
# Flags of `topoloom run`

<!-- Written by `xtask generate`; do not edit. -->

Every flag is also an environment variable, `TOPOLOOM_` and its name in capitals with `_` for `-`, and a key of one optional
YAML file, `--options FILE`. A flag wins over the variable, the variable over the file, the file over the default. Everything
is checked at once before the process does anything; what is wrong is printed with the flag, where the value came from, the
value and what may be there, and the exit code is 1 (2 for flags that do not exist). `topoloom config check FILE` does the
same for a file, where no cluster is.

- An empty variable is none. Of the original names, `KUBE_POD_NAMESPACE`, `HELM_RELEASE_NAME` and `HAMI_NODELOCK_EXPIRE`
  are read where `TOPOLOOM_NAMESPACE`, `TOPOLOOM_RELEASE` and `TOPOLOOM_NODE_LOCK_TIMEOUT` are not set.
- Booleans are `--flag`, `--flag=true` or `--flag=false`, not `--flag false`, as in Go. Durations have units: `90s`, `1m30s`.
- A flag with one value that is given twice has the last one. A flag that may be repeated has all of them; a layer that wins
  replaces the whole list.
- In the file a flag that may be repeated takes a list. Unknown keys are mistakes.

```yaml
# options.yaml
leader-elect: true
leader-elect-lease-duration: 30s
leader-elect-renew-deadline: 20s
controllers: [\"*\", \"-extender\"]
enable-metrics: true
```
";

/// The whole page, as Markdown.
#[must_use]
pub fn reference() -> String {
    page(&super::super::command())
}

fn page(command: &Command) -> String {
    let flags = flags::all(command);
    let mut text = HEAD.to_owned();
    for (title, words, heading) in [
        ("Ours", "Volcano's controllers have no such flags.", None),
        (
            "As Volcano's controllers take them",
            "Same names, same meanings; defaults that differ are in the [table of differences](#what-differs-from-volcano).",
            Some(VOLCANOS),
        ),
        (
            "Taken without effect",
            "So that a command line of Volcano's works. A value that the original could not take is a mistake here too.",
            Some(WITHOUT_EFFECT),
        ),
    ] {
        let _ = write!(
            text,
            "\n## {title}\n\n{words}\n\n| flag | variable | default | meaning and range |\n| --- | --- | --- | --- |\n"
        );
        let mut here: Vec<&Flag> = flags.iter().filter(|flag| flag.arg.get_help_heading() == heading).collect();
        here.sort_by(|a, b| a.name.cmp(&b.name));
        here.iter().for_each(|flag| row(flag, &mut text));
    }
    text.push_str(DIFFERENCES);
    text
}

fn row(flag: &Flag, text: &mut String) {
    let default: Vec<String> = flag.default.iter().map(|value| format!("`{value}`")).collect();
    let help = flag.arg.get_help().map(ToString::to_string).unwrap_or_default();
    let words: Vec<String> =
        flag.arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let is_boolean = flag.arg.is_require_equals_set();
    let words = if words.is_empty() || is_boolean { String::new() } else { format!(": {}", words.join(", ")) };
    let repeated = if flag.values == Values::Many && !help.contains("repeated") { "; may be repeated" } else { "" };
    let value =
        flag.arg.get_value_names().into_iter().flatten().map(|name| name.to_string()).collect::<Vec<_>>().join(" ");
    let value = if is_boolean { "[=BOOL]".to_owned() } else { format!(" {value}") };
    let short = flag.arg.get_short().map(|short| format!(", `-{short}`")).unwrap_or_default();
    let help = help.replace('|', "\\|").replace('\n', " ");
    let _ = writeln!(
        text,
        "| `--{}{value}`{short} | `{}` | {} | {help}{words}{repeated} |",
        flag.name.replace('|', "\\|"),
        variable(&flag.name),
        default.join(" "),
    );
}

/// What stands below them.
const DIFFERENCES: &str = "
## What differs from Volcano

| flag | here | there |
| --- | --- | --- |
| `--controllers` | default `*`; blanks around names do not count; unknown names, and lists that only switch off, are refused | default `*,-sharding-controller`; a blank makes another name; unknown names are ignored |
| `--kube-api-qps`, `--kube-api-burst` | no limit unless one is given; the other one is then 50 or 100 | 50 and 100 |
| `--leader-elect-resource-name` | `topoloom-hypernode` | `vc-controller-manager`, `vc-hypernode-controller-manager` |
| `--leader-elect-resource-namespace` | our own namespace | `volcano-system` |
| `--leader-elect-renew-deadline` | longer than 1.2 times the retry period, checked at the start | the process panics when it elects |
| `--ca-cert-file`, `--tls-cert-file`, `--tls-private-key-file` | one or two of the three are refused | served without TLS |
| `--leader-elect-*` | judged even with `--leader-elect=false`; a lease lasts at least a second | judged only when it elects |
| worker counts | at least 1, and without effect | not checked; 0 crashes the process |
";
