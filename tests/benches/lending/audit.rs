//! What programs listed, by the audit log of an API server, which is the only place that says with which parameters; and how many
//! watches are open, by its metrics.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use topoloom_tests::controlplane::{Builder, ControlPlane};

/// Lists alone: a log of all writes would be most of the work of the server.
const POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
"rules": [{"level": "Metadata", "verbs": ["list"]}, {"level": "None"}]}"#;
/// How the user agent of a host begins.
const HOST: &str = "topoloom/";
/// The gauge of requests that stay open.
const OPEN: &str = "apiserver_longrunning_requests{";

/// The log of one API server.
pub(crate) struct Audit {
    log: PathBuf,
}

/// The lists of a host.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    /// Looks at the version of the store: lists of one object (decision S25).
    pub(crate) looks: u64,
    /// All others, by resource and selector; pages of one list count once.
    pub(crate) others: BTreeMap<String, u64>,
}

impl Audit {
    /// The same API server with such a log in this folder.
    pub(crate) fn of(builder: Builder, folder: &Path, name: &str) -> Result<(Self, Builder)> {
        let policy = folder.join("lists.yaml");
        std::fs::write(&policy, POLICY).context("cannot write the audit policy")?;
        let log = folder.join(name);
        let builder = builder
            .apiserver_arg(format!("--audit-policy-file={}", policy.display()))
            .apiserver_arg(format!("--audit-log-path={}", log.display()))
            // One file, however long it becomes: marks are places in it.
            .apiserver_arg("--audit-log-maxsize=10000");
        Ok((Self { log }, builder))
    }

    /// How long the log is now.
    pub(crate) fn mark(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |log| log.len())
    }

    /// What hosts listed since then.
    pub(crate) fn lists(&self, mark: u64) -> Result<Lists> {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = log.get(usize::try_from(mark)?..).unwrap_or_default();
        let mut lists = Lists::default();
        for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let event: Value = serde_json::from_slice(line).context("the audit log is not JSON")?;
            let agent = event["userAgent"].as_str().unwrap_or_default();
            if agent.starts_with(HOST) && event["stage"] == "ResponseComplete" {
                lists.add(&event);
            }
        }
        Ok(lists)
    }
}

impl Lists {
    fn add(&mut self, event: &Value) {
        let path = event["requestURI"].as_str().unwrap_or_default();
        let parameters = path.split_once('?').map_or("", |(_, parameters)| parameters);
        let has = |name: &str| parameters.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        if has("limit") == Some("1") {
            self.looks += 1;
        } else if has("continue").is_none() {
            let resource = event["objectRef"]["resource"].as_str().unwrap_or_default();
            let selectors = ["labelSelector", "fieldSelector"].into_iter().filter_map(has);
            let what = std::iter::once(resource).chain(selectors).collect::<Vec<_>>().join(" ");
            *self.others.entry(what).or_default() += 1;
        }
    }

    /// How many lists there were but for looks.
    pub(crate) fn count(&self) -> u64 {
        self.others.values().sum()
    }
}

/// How many watches are open at an API server, by resource.
pub(crate) async fn watches(plane: &ControlPlane) -> Result<BTreeMap<String, i64>> {
    let metrics = plane.get("/metrics").await?;
    let mut watches = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with(OPEN) && line.contains("verb=\"WATCH\"")) {
        let Some((labels, count)) = line.rsplit_once("} ") else { continue };
        let resource = labels.split("resource=\"").nth(1).and_then(|rest| rest.split('"').next());
        let count: f64 = count.trim().parse().context("a gauge is a number")?;
        *watches.entry(resource.unwrap_or_default().to_owned()).or_default() += count as i64;
    }
    Ok(watches)
}

/// How many more are open than there were, of these resources.
pub(crate) fn opened(now: &BTreeMap<String, i64>, before: &BTreeMap<String, i64>, resources: &[&str]) -> i64 {
    let of = |watches: &BTreeMap<String, i64>| -> i64 {
        resources.iter().filter_map(|resource| watches.get(*resource)).sum()
    };
    of(now) - of(before)
}
