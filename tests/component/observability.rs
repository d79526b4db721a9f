//! Alerts, the dashboard and the documentation name only metrics, labels and values that exist. Of lending each trouble that needs a
//! person has its alert, and everything that is counted is shown.

mod promql;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use topoloom::manager::metrics::catalogue::{Described, MetricKind, catalogue};

use self::promql::{Matcher, named};

/// Labels that a scraper adds.
const SCRAPED: [&str; 3] = ["namespace", "job", "pod"];
/// The label of buckets.
const BUCKET: &str = "le";
const ALERTS: &str = "deploy/chart/topoloom/files/alerts.yaml";
const DASHBOARD: &str = "deploy/chart/topoloom/files/dashboard.json";
const DOCS: &str = "docs/operators";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn text(name: &str) -> String {
    let path = path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every series by its name.
struct Series(BTreeMap<String, Described>);

impl Series {
    fn all() -> Self {
        let all = catalogue().into_iter();
        Self(all.flat_map(|metric| metric.series().into_iter().map(move |name| (name, metric.clone()))).collect())
    }

    /// The mistakes in an expression, and the labels by which it groups.
    fn judge(&self, expression: &str) -> (Vec<String>, BTreeSet<String>) {
        let named = match named(expression) {
            Ok(named) => named,
            Err(why) => return (vec![why], BTreeSet::new()),
        };
        let mut mistakes = Vec::new();
        let mut labels: BTreeSet<&str> = SCRAPED.into();
        for selector in &named.selectors {
            let Some(metric) = self.0.get(&selector.metric) else {
                mistakes.push(format!("there is no metric {}", selector.metric));
                continue;
            };
            labels.extend(metric.labels.keys().map(String::as_str));
            if metric.kind == MetricKind::Histogram {
                labels.insert(BUCKET);
            }
            mistakes.extend(selector.matchers.iter().filter_map(|matcher| mistake(metric, matcher)));
        }
        for label in named.labels.iter().filter(|label| !labels.contains(label.as_str())) {
            mistakes.push(format!("it groups by {label}, which nothing in it has"));
        }
        if named.selectors.is_empty() {
            mistakes.push("it names no metric".to_owned());
        }
        (mistakes, named.labels.into_iter().collect())
    }
}

/// The mistake in one label in braces.
fn mistake(metric: &Described, matcher: &Matcher) -> Option<String> {
    let Matcher { label, operator, value } = matcher;
    let Some(known) = metric.labels.get(label) else {
        let is_scraped = SCRAPED.contains(&label.as_str());
        return (!is_scraped).then(|| format!("{} has no label {label}", metric.name));
    };
    let has_numbers = known.iter().any(|value| is_number(value));
    let is_pattern = operator.ends_with('~');
    let words = value.split(if is_pattern { "|" } else { "\n" });
    // Any other word is a pattern, or a variable of the dashboard.
    let plain = words.filter(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    let is_known = |word: &str| known.is_empty() || known.contains(word) || (has_numbers && is_number(word));
    plain.into_iter().find(|word| !is_known(word)).map(|word| format!("{label} of {} is never {word}", metric.name))
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The names between these two texts.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split_once(after)).map(|(name, _)| name.trim()).collect()
}

fn alerts() -> Vec<Value> {
    let parsed: Value = serde_saphyr::from_str(&text(ALERTS)).unwrap();
    let groups = parsed["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn a_made_up_metric_label_value_or_grouping_is_found() {
    let series = Series::all();
    let check = |expression: &str, wanted: &str| {
        let (mistakes, _) = series.judge(expression);
        assert!(mistakes.iter().any(|mistake| mistake.contains(wanted)), "{expression}: {mistakes:?}");
    };
    check("sum(rate(topoloom_wishes_total[5m])) > 0", "no metric topoloom_wishes_total");
    // An expression names a counter with its suffix, and a histogram by one of its three series.
    check("rate(topoloom_rounds[5m])", "no metric topoloom_rounds");
    check("rate(topoloom_round_seconds[5m])", "no metric topoloom_round_seconds");
    check("topoloom_held{sauce=\"a\"}", "no label sauce");
    check("topoloom_controllers{state=\"broken\"}", "never broken");
    check("topoloom_controllers{state=~\"failed|broken\"}", "never broken");
    check("topoloom_lease_writes_total{result!=\"ok\"}", "never ok");
    check("sum by (queue) (topoloom_held)", "groups by queue");
    check("sum(le)", "no metric le");
    check("deriv(topoloom_held[5m])", "no metric deriv");
    check("vector(1)", "names no metric");
    for expression in [
        "max by (namespace, source) (topoloom_held{source=~\"$source\"}) > 0",
        "histogram_quantile(0.99, sum by (le, source) (rate(topoloom_round_seconds_bucket[5m])))",
        "topoloom_api_requests_total{code=~\"5..|429|error\"}",
    ] {
        assert_eq!(series.judge(expression).0, [""; 0], "{expression}");
    }
}

#[test]
fn every_alert_names_what_there_is_and_says_what_it_means_and_where_to_read_on() {
    let (series, page) = (Series::all(), text("docs/operators/alerts.md"));
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap().to_owned();
        let (mistakes, labels) = series.judge(alert["expr"].as_str().unwrap());
        assert_eq!(mistakes, [""; 0], "{name}");
        assert!(["critical", "warning", "info"].contains(&alert["labels"]["severity"].as_str().unwrap()), "{name}");
        let annotation = |key: &str| alert["annotations"][key].as_str().unwrap_or_default().to_owned();
        let (summary, description) = (annotation("summary"), annotation("description"));
        assert!(summary.len() > 10 && description.len() > 20, "{name}: {summary} {description}");
        for label in between(&format!("{summary} {description}"), "$labels.", " ") {
            assert!(labels.contains(label), "{name} names the label {label}, by which it does not group");
        }
        let anchor = format!("docs/operators/alerts.md#{}", name.to_lowercase());
        assert_eq!(annotation("runbook_url"), anchor, "{name}");
        let (_, section) = page.split_once(&format!("\n## {name}\n")).unwrap_or_else(|| panic!("no section {name}"));
        let section = section.split("\n## ").next().unwrap();
        for part in ["**Means**:", "**Look at**:", "**Do**:"] {
            assert!(section.contains(part), "{name} has no {part}");
        }
        assert!(names.insert(name.clone()), "two alerts {name}");
    }
    assert!(names.len() > 15, "{names:?}");
    for section in between(&page, "\n## ", "\n") {
        assert!(names.contains(section), "there is no alert {section}");
    }
}

#[test]
fn every_panel_and_variable_of_the_dashboard_asks_for_what_there_is() {
    let series = Series::all();
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    let mut asked = 0;
    let mut ids = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title} has the id of another panel");
        for target in panel["targets"].as_array().into_iter().flatten() {
            asked += 1;
            let (mistakes, labels) = series.judge(target["expr"].as_str().unwrap());
            assert_eq!(mistakes, [""; 0], "{title}: {}", target["expr"]);
            for label in between(target["legendFormat"].as_str().unwrap(), "{{", "}}") {
                assert!(labels.contains(label), "the legend of {title} has {label}, by which it does not group");
            }
        }
    }
    assert!(asked > 40, "{asked}");
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    for definition in variables.iter().filter_map(|variable| variable["definition"].as_str()) {
        let inside = definition.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).unwrap();
        let (selector, label) = inside.rsplit_once(", ").unwrap();
        // Grouping by a label is a mistake exactly where its values cannot be queried.
        let (mistakes, _) = series.judge(&format!("sum by ({label}) ({selector})"));
        assert_eq!(mistakes, [""; 0], "{definition}");
    }
    let names: BTreeSet<&str> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    for name in between(&text(DASHBOARD), "~\\\"$", "\\\"") {
        assert!(names.contains(name), "there is no variable {name}");
    }
}

#[test]
fn the_documentation_names_what_there_is_and_its_list_is_whole() {
    let (series, all) = (Series::all(), catalogue());
    let mut found = 0;
    for entry in std::fs::read_dir(path(DOCS)).unwrap() {
        let file = entry.unwrap().path();
        // The schemas have a folder of their own.
        if file.is_dir() {
            continue;
        }
        let page = std::fs::read_to_string(&file).unwrap();
        for rest in page.split("topoloom_").skip(1) {
            found += 1;
            let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c == '_')).unwrap_or(rest.len());
            let (name, rest) = (format!("topoloom_{}", &rest[..end]), &rest[end..]);
            let place = file.display();
            if rest.starts_with('*') {
                assert!(series.0.keys().any(|series| series.starts_with(&name)), "{place}: nothing begins with {name}");
                continue;
            }
            // A page may name a histogram as a whole.
            let metric = series.0.get(&name).or_else(|| all.iter().find(|metric| metric.name == name));
            let metric = metric.unwrap_or_else(|| panic!("{place}: there is no metric {name}"));
            let labels = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map_or("", |(labels, _)| labels);
            for label in labels.split(',').filter(|label| !label.is_empty()) {
                let label = label.split(['=', '!']).next().unwrap_or_default().trim();
                assert!(metric.labels.contains_key(label), "{place}: {name} has no label {label}");
            }
        }
    }
    assert!(found > 50, "{found}");
    let list = text("docs/operators/metrics.md");
    for name in series.0.keys() {
        assert!(list.contains(&format!("`{name}`")), "{name} is not in the list");
    }
}

/// The beginnings of the names of all metrics of lending.
const LENDING: [&str; 5] = [
    "topoloom_binding",
    "topoloom_lent_",
    "topoloom_virtual_node_",
    "topoloom_virtual_kubelet_",
    "topoloom_physical_api_",
];

/// Every metric of lending.
fn of_lending() -> Vec<Described> {
    let is_of_lending = |metric: &Described| LENDING.iter().any(|beginning| metric.name.starts_with(beginning));
    catalogue().into_iter().filter(is_of_lending).collect()
}

/// A cluster has thousands of nodes and pods: with a series for each of them the metrics would be larger than what they are about.
#[test]
fn metrics_of_lending_have_the_label_of_their_binding_and_never_a_series_for_a_node_or_a_pod() {
    // Of the whole process: streams and requests of all bindings, and bindings that have no group.
    const OF_THE_PROCESS: [&str; 5] = [
        "topoloom_bindings_unserved",
        "topoloom_virtual_kubelet_requests",
        "topoloom_virtual_kubelet_open_streams",
        "topoloom_physical_api_requests",
        "topoloom_physical_api_request_duration_seconds",
    ];
    let all = of_lending();
    assert!(all.len() > 30, "{}", all.len());
    for Described { name, labels, .. } in &all {
        assert_eq!(labels.contains_key("binding"), !OF_THE_PROCESS.contains(&name.as_str()), "{name}: {labels:?}");
        for label in ["node", "pod", "name", "namespace", "uid", "policy"] {
            assert!(!labels.contains_key(label), "{name} has a series for each {label}");
        }
        // Only these may have any value: the binding, what a machine has (bounded), our word for why a write was made, and a verb.
        let open = labels.iter().filter(|(_, values)| values.is_empty()).map(|(label, _)| label.as_str());
        for label in open {
            assert!(["binding", "resource", "reason", "verb"].contains(&label), "{name}: {label} may have any value");
        }
    }
}

#[test]
fn everything_that_is_counted_of_lending_is_on_a_panel_or_in_an_alert() {
    // These are for a closer look alone: what is done about pods is on panels by its writes.
    const NOT_SHOWN: [&str; 3] = [
        "topoloom_virtual_node_leases",
        "topoloom_lent_pod_outcomes",
        "topoloom_physical_api_request_duration_seconds",
    ];
    let dashboard: Value = serde_json::from_str(&text(DASHBOARD)).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array());
    let mut expressions: Vec<String> =
        panels.flatten().map(|target| target["expr"].as_str().unwrap().to_owned()).collect();
    expressions.extend(alerts().iter().map(|alert| alert["expr"].as_str().unwrap().to_owned()));
    let asked: BTreeSet<String> = expressions
        .iter()
        .flat_map(|expression| named(expression).unwrap().selectors)
        .map(|selector| selector.metric)
        .collect();
    for metric in of_lending() {
        let is_asked = metric.series().iter().any(|series| asked.contains(series));
        assert_eq!(is_asked, !NOT_SHOWN.contains(&metric.name.as_str()), "{}", metric.name);
    }
}

/// One kind of trouble of lending: its alert, what its expression has, and for how long that lasts before a person is called.
struct Trouble {
    alert: &'static str,
    asks: &'static [&'static str],
    lasts: Option<&'static str>,
}

#[test]
fn each_trouble_of_lending_that_needs_a_person_has_an_alert_with_its_limit() {
    let rows = [
        Trouble {
            alert: "TopoloomBindingUnreachable",
            asks: &["topoloom_binding_connection{state=~\"connecting|unreachable\"}) > 0"],
            lasts: Some("2m"),
        },
        Trouble { alert: "TopoloomBindingHeld", asks: &["(topoloom_binding_held) > 0"], lasts: Some("2m") },
        Trouble {
            alert: "TopoloomBindingConflict",
            asks: &[
                "topoloom_binding_bars{bar=\"conflict\"}) > 0",
                "topoloom_lent_nodes{state=~\"claimed-by-others|unclear\"}) > 0",
                "(topoloom_binding_served_elsewhere) > 0",
            ],
            lasts: Some("5m"),
        },
        Trouble {
            alert: "TopoloomBindingRestored",
            asks: &["topoloom_binding_bars{bar=~\"restored|cluster-changed\"}) > 0"],
            lasts: Some("1m"),
        },
        // Thirty seconds, of the forty that a lease is valid.
        Trouble {
            alert: "TopoloomNodeLeaseOld",
            asks: &["(topoloom_virtual_node_lease_oldest_seconds) > 30"],
            lasts: None,
        },
        Trouble {
            alert: "TopoloomBoundaryMissed",
            asks: &["(topoloom_lent_boundary_overdue_seconds) > 60"],
            lasts: None,
        },
        // Seven days.
        Trouble {
            alert: "TopoloomCredentialEnds",
            asks: &["(topoloom_binding_credential_end_timestamp_seconds) - time() < 604800"],
            lasts: Some("10m"),
        },
        Trouble {
            alert: "TopoloomLendingWriteRefused",
            asks: &["topoloom_lent_writes_refused_total{reason=~", "(topoloom_binding_refused) > 0"],
            lasts: Some("10m"),
        },
    ];
    let alerts = alerts();
    for Trouble { alert: name, asks, lasts } in rows {
        let alert = alerts.iter().find(|alert| alert["alert"] == name).unwrap_or_else(|| panic!("no alert {name}"));
        let expression = alert["expr"].as_str().unwrap();
        for part in asks {
            assert!(expression.contains(part), "{name}: {part} is not in {expression}");
        }
        assert_eq!(alert["for"].as_str(), lasts, "{name}");
        assert!(named(expression).unwrap().labels.contains(&"binding".to_owned()), "{name} does not say which binding");
    }
}

/// The anchor of a heading in a link.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn the_links_of_both_pages_lead_somewhere() {
    for page in ["alerts.md", "metrics.md"] {
        let links = text(&format!("{DOCS}/{page}"));
        let links = between(&links, "](", ")");
        assert!(links.len() > 2, "{links:?}");
        for link in links {
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let file = format!("{DOCS}/{}", if file.is_empty() { page } else { file });
            let text = text(&file);
            let mut headings = text.lines().filter(|line| line.starts_with('#'));
            let is_there = headings.any(|line| anchor(line.trim_start_matches('#')) == wanted);
            assert!(wanted.is_empty() || is_there, "{page}: {link} leads nowhere");
        }
    }
}
