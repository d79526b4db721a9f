//! Counting requests: the apiserver's own `apiserver_request_total`.
//!
//! A request is counted after its answer has been sent, so wait with [`eventually`](super::eventually) for a count to be
//! reached. The counters start at zero again with every start of the apiserver.

use std::collections::BTreeMap;

const METRIC: &str = "apiserver_request_total{";
const WRITES: [&str; 6] = ["POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"];

/// The requests that one counter counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// For instance `topology.volcano.sh`; empty for the core group.
    pub group: String,
    /// For instance `v1`.
    pub version: String,
    /// Plural; empty if the path is no resource.
    pub resource: String,
    /// For instance `status`; the path itself if it is no resource.
    pub subresource: String,
    /// `GET`, `LIST`, `WATCH`, `POST`, `PUT`, `PATCH`, `APPLY`, `DELETE`, `DELETECOLLECTION`, `CONNECT`.
    pub verb: String,
    /// The status code of the answer.
    pub code: u16,
}

impl Request {
    /// Whether it changes something.
    pub fn is_write(&self) -> bool {
        WRITES.contains(&self.verb.as_str())
    }
}

/// How often every kind of request was answered since the apiserver started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests(BTreeMap<Request, u64>);

impl Requests {
    pub(super) fn parse(metrics: &str) -> Self {
        let mut counters = BTreeMap::new();
        for (request, count) in metrics.lines().filter_map(parse_line) {
            // Scope, component and dry run are labels too: counters that differ only in them are added up.
            *counters.entry(request).or_insert(0) += count;
        }
        Self(counters)
    }

    /// The number of requests that `filter` accepts.
    pub fn count(&self, filter: impl Fn(&Request) -> bool) -> u64 {
        self.0.iter().filter(|(request, _)| filter(request)).map(|(_, count)| count).sum()
    }

    /// The writes to a resource, whatever their answer; `""` is the resource itself, not its subresources.
    pub fn writes(&self, resource: &str, subresource: &str) -> u64 {
        self.count(|request| request.is_write() && request.resource == resource && request.subresource == subresource)
    }

    /// The counts after `earlier`; they are not valid if the apiserver was restarted in between.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let more = |(request, count): (&Request, &u64)| {
            let more = count.saturating_sub(earlier.0.get(request).copied().unwrap_or(0));
            (more > 0).then(|| (request.clone(), more))
        };
        Self(self.0.iter().filter_map(more).collect())
    }

    /// The sum of both.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        for (request, count) in others.0 {
            *self.0.entry(request).or_insert(0) += count;
        }
        self
    }

    /// Every counter.
    pub fn iter(&self) -> impl Iterator<Item = (&Request, u64)> {
        self.0.iter().map(|(request, count)| (request, *count))
    }
}

fn parse_line(line: &str) -> Option<(Request, u64)> {
    let (labels, value) = line.strip_prefix(METRIC)?.rsplit_once("} ")?;
    let mut request = Request::default();
    // No value of these labels holds a quote or a comma.
    for label in labels.split("\",") {
        let (name, value) = label.split_once("=\"")?;
        let value = value.trim_end_matches('"');
        match name {
            "group" => value.clone_into(&mut request.group),
            "version" => value.clone_into(&mut request.version),
            "resource" => value.clone_into(&mut request.resource),
            "subresource" => value.clone_into(&mut request.subresource),
            "verb" => value.clone_into(&mut request.verb),
            "code" => request.code = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    // Prometheus writes large counts as floats: 1.234567e+06.
    let count: f64 = value.trim().parse().ok()?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a counter is a whole number, not negative"
    )]
    Some((request, count as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="nodes",scope="resource",subresource="",verb="POST",version="v1"} 1.234567e+06
apiserver_request_total{code="200",component="apiserver",dry_run="",group="x.io",resource="things",scope="resource",subresource="status",verb="APPLY",version="v1"} 3
apiserver_request_total{code="409",component="apiserver",dry_run="All",group="x.io",resource="things",scope="resource",subresource="status",verb="APPLY",version="v1"} 2
apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 7
apiserver_request_duration_seconds_sum{verb="GET"} 1
"#;

    #[test]
    fn counters_are_parsed_and_added_up() {
        let requests = Requests::parse(METRICS);
        assert_eq!(requests.writes("nodes", ""), 1_234_567);
        assert_eq!(requests.writes("things", "status"), 5);
        assert_eq!(requests.writes("things", ""), 0);
        assert_eq!(requests.count(|request| request.code == 409), 2);
        assert_eq!(requests.count(|request| request.subresource == "/readyz"), 7);
        assert_eq!(requests.iter().count(), 4);
    }

    #[test]
    fn a_difference_holds_only_what_was_added() {
        let earlier = Requests::parse(METRICS);
        let later = Requests::parse(&METRICS.replace("} 3", "} 4"));
        assert_eq!(later.since(&earlier).iter().map(|(_, count)| count).collect::<Vec<_>>(), [1]);
        assert_eq!(earlier.since(&earlier), Requests::default());
        assert_eq!(later.since(&earlier).and(earlier), later);
    }
}
