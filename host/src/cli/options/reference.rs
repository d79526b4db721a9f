//! The page of documentation about the flags of `run`, made from the flags.

use clap::Command;

use super::flags::{self, Flag, variable};
use super::{VOLCANOS, WITHOUT_EFFECT};
use crate::config::options_file::Values;

/// The text above the tables.
const HEAD: &str = "\
# Flags of `topoloom run`

<!-- Written by `xtask generate`; do not edit. -->

Every flag is also an environment variable, `TOPOLOOM_` and its name in capitals with `_` for `-`, and a key of one optional
YAML file, `--options FILE`. The flag comes first, then the variable, then the file, then the default. The host checks all values
at once before it does anything else. For each mistake it prints the flag, where the value came from, the value and what is
allowed, and exits with 1 (2 for unknown flags). `topoloom config check FILE` does the same for a file, without a cluster.

- An empty variable counts as not set. The host also reads the original names `KUBE_POD_NAMESPACE`, `HELM_RELEASE_NAME` and
  `HAMI_NODELOCK_EXPIRE`, if `TOPOLOOM_NAMESPACE`, `TOPOLOOM_RELEASE` and `TOPOLOOM_NODE_LOCK_TIMEOUT` are not set.
- Booleans are `--flag`, `--flag=true` or `--flag=false`, not `--flag false`, as in Go. Durations have units: `90s`, `1m30s`.
- If a flag with one value is given twice, the last value is used. A flag that may be repeated has all its values. A list from
  a flag replaces the whole list from the variable or the file.
- In the file, a flag that may be repeated is a list. Unknown keys are mistakes.

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
            "The names and meanings are Volcano's; the [table of differences](#what-differs-from-volcano) has other defaults.",
            Some(VOLCANOS),
        ),
        (
            "Taken without effect",
            "These flags make a command line of Volcano's work. A value that is invalid there is a mistake here too.",
            Some(WITHOUT_EFFECT),
        ),
    ] {
        push!(
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
    push_line!(
        text,
        "| `--{}{value}`{short} | `{}` | {} | {help}{words}{repeated} |",
        flag.name.replace('|', "\\|"),
        variable(&flag.name),
        default.join(" "),
    );
}

/// The text below them.
const DIFFERENCES: &str = "
## What differs from Volcano

| flag | here | there |
| --- | --- | --- |
| `--controllers` | default `*`; blanks around names are ignored; unknown names, and lists that only switch controllers off, are refused | default `*,-sharding-controller`; a blank is part of the name; unknown names are ignored |
| `--kube-api-qps`, `--kube-api-burst` | no limit; if one of the two is given, the other is 50 or 100 | 50 and 100 |
| `--leader-elect-resource-name` | `topoloom-hypernode` | `vc-controller-manager`, `vc-hypernode-controller-manager` |
| `--leader-elect-resource-namespace` | our own namespace | `volcano-system` |
| `--leader-elect-renew-deadline` | must be longer than 1.2 times the retry period, checked at the start | the process panics when leader election starts |
| `--ca-cert-file`, `--tls-cert-file`, `--tls-private-key-file` | one or two of the three are refused | served without TLS |
| `--leader-elect-*` | checked even with `--leader-elect=false`; a lease lasts at least a second | checked only with leader election |
| worker counts | at least 1, and without effect | not checked; 0 crashes the process |
";
