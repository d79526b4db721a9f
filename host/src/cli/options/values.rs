//! Value parsers: Go's grammars where a flag is Volcano's, and ranges and names everywhere. Each says what it takes.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use topoloom_api::rules::{SUBDOMAIN_MAX, is_dns_label, is_dns_subdomain};
use topoloom_core::rules::is_label_value;

use crate::config::duration;

/// Longest addition to the name of a lease: other groups of controllers have one.
pub(in crate::cli) const LEASE_SUFFIX: &str = "-nodelock";

/// What `strconv.ParseBool` of Go takes.
pub(in crate::cli) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err("must be true or false, 1 or 0, t or f".to_owned()),
    }
}

/// A whole number in a range.
pub(in crate::cli) fn whole<const LOW: u32, const HIGH: u32>(text: &str) -> Result<u32, String> {
    let value = text.parse().ok().filter(|value| (LOW..=HIGH).contains(value));
    value.ok_or_else(|| format!("must be a whole number, {LOW} to {HIGH}"))
}

/// How often something is tried again; below zero: without limit.
pub(in crate::cli) fn tries(text: &str) -> Result<i64, String> {
    let value = text.parse().ok().filter(|value: &i64| *value <= i64::from(u32::MAX));
    value.ok_or_else(|| format!("must be a whole number, 0 to {}, or below zero for no limit", u32::MAX))
}

/// Requests per second.
pub(in crate::cli) fn per_second(text: &str) -> Result<f32, String> {
    let value = text.parse().ok().filter(|value: &f32| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| "must be a number above 0, such as 50 or 0.5".to_owned())
}

/// A duration in Go's grammar with a range in milliseconds.
pub(in crate::cli) fn lasting<const LOW: u64, const HIGH: u64>(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(LOW)..=Duration::from_millis(HIGH);
    let value = duration::parse(text).and_then(duration::SignedDuration::non_negative);
    value.filter(|value| range.contains(value)).ok_or_else(|| {
        let (low, high) = (duration::format(*range.start()), duration::format(*range.end()));
        format!("must be a duration with units, {low} to {high}, such as 15s or 1m30s")
    })
}

/// Names of clients: common names or organisations in certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct ClientNames(pub(in crate::cli) std::sync::Arc<[Box<str>]>);

/// Names with commas between.
pub(in crate::cli) fn client_names(text: &str) -> Result<ClientNames, String> {
    // More than a certificate has: X.520 bounds a common name.
    const LONGEST: usize = 64;
    let names: Vec<Box<str>> = text.split(',').map(|name| name.trim().into()).collect();
    let good = |name: &str| !name.is_empty() && name.chars().count() <= LONGEST && !name.chars().any(char::is_control);
    if names.iter().all(|name| good(name)) {
        return Ok(ClientNames(names.into()));
    }
    Err(format!("must be names separated by commas, each of 1 to {LONGEST} characters"))
}

/// How long a node lock lasts.
pub(in crate::cli) fn node_lock_timeout(text: &str) -> Result<Duration, String> {
    lasting::<10_000, 86_400_000>(text)
}

/// Any duration in Go's grammar.
pub(in crate::cli) fn any_duration(text: &str) -> Result<String, String> {
    let wanted = || "must be a duration with units, such as 5s".to_owned();
    duration::parse(text).map(|_| text.to_owned()).ok_or_else(wanted)
}

/// An address as Go's servers take it: `:PORT` is that port of every address.
pub(in crate::cli) fn listener(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').and_then(|port| port.parse().ok());
    let every = port.map(|port| SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port));
    let wanted = || "must be :PORT, IP:PORT or [IP]:PORT, with a port from 0 to 65535".to_owned();
    every.or_else(|| text.parse().ok()).ok_or_else(wanted)
}

/// The address of a machine.
pub(in crate::cli) fn ip(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "must be an IP address such as 10.96.0.20 or fd00::20".to_owned())
}

/// The identity of a cluster: it has to be the value of a label.
pub(in crate::cli) fn identity(text: &str) -> Result<String, String> {
    let is_one = !text.is_empty() && is_label_value(text).is_ok();
    let wanted = "must be 1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends";
    is_one.then(|| text.to_owned()).ok_or_else(|| wanted.to_owned())
}

/// A loopback address.
pub(in crate::cli) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: Option<SocketAddr> = text.parse().ok();
    let address = address.filter(|address| address.ip().to_canonical().is_loopback());
    address.ok_or_else(|| {
        "must be a loopback address, 127.0.0.1:PORT or [::1]:PORT: anyone who can connect reads names, changes the log level and takes profiles without a password; for probes and scrapers there are --enable-healthz and --enable-metrics"
            .to_owned()
    })
}

/// The URL of an API server.
pub(in crate::cli) fn server(text: &str) -> Result<http::Uri, String> {
    let wanted = "must be a URL such as https://10.0.0.1:6443, with http or https, a host, and neither user nor query";
    let uri: http::Uri = text.parse().map_err(|_| wanted.to_owned())?;
    let is_plain = !text.contains(['@', '?', '#']) && uri.host().is_some_and(|host| !host.is_empty());
    let is_plain = is_plain && uri.authority().is_some_and(has_port_or_none);
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    if is_plain && is_http { Ok(uri) } else { Err(wanted.to_owned()) }
}

/// A number that is no port is not taken for none: the request would go to another program.
fn has_port_or_none(authority: &http::uri::Authority) -> bool {
    let after = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    after.is_empty() || authority.port_u16().is_some_and(|port| port > 0 && after == format!(":{port}"))
}

/// The URL of a collector of traces; the path of OTLP where none is given.
pub(in crate::cli) fn collector(text: &str) -> Result<http::Uri, String> {
    let wanted = "must be a URL such as http://10.0.0.1:4318, with http or https, a host, and neither user nor query";
    let uri = server(text).map_err(|_| wanted.to_owned())?;
    if uri.path() != "/" {
        return Ok(uri);
    }
    format!("{}/v1/traces", text.trim_end_matches('/')).parse().map_err(|_| wanted.to_owned())
}

/// A namespace; an empty text names none.
pub(in crate::cli) fn namespace(text: &str) -> Result<String, String> {
    let is_one = text.is_empty() || is_dns_label(text);
    is_one.then(|| text.to_owned()).ok_or_else(|| NAMESPACE.to_owned())
}

/// A namespace, and not none.
pub(in crate::cli) fn some_namespace(text: &str) -> Result<String, String> {
    is_dns_label(text).then(|| text.to_owned()).ok_or_else(|| NAMESPACE.to_owned())
}

const NAMESPACE: &str = "must be the name of a namespace: 1 to 63 lower-case letters, digits and `-`";

/// A Helm release, whose ConfigMap is named after it.
pub(in crate::cli) fn release(text: &str) -> Result<String, String> {
    let wanted = "must be the name of a Helm release: 1 to 53 lower-case letters, digits and `-`";
    let is_one = text.is_empty() || (text.len() <= 53 && is_dns_subdomain(text));
    is_one.then(|| text.to_owned()).ok_or_else(|| wanted.to_owned())
}

/// A ConfigMap, perhaps with its namespace.
pub(in crate::cli) fn config_map(text: &str) -> Result<String, String> {
    crate::config::Location::parse(text, "default").map(|_| text.to_owned())
}

/// The name of a lease, with room for the suffixes of other groups.
pub(in crate::cli) fn lease(text: &str) -> Result<String, String> {
    let longest = SUBDOMAIN_MAX - LEASE_SUFFIX.len();
    let is_one = is_dns_subdomain(text) && text.len() <= longest;
    is_one
        .then(|| text.to_owned())
        .ok_or_else(|| format!("must be a name of 1 to {longest} lower-case letters, digits, `-` and `.`"))
}

/// The one kind of lock.
pub(in crate::cli) fn lock(text: &str) -> Result<String, String> {
    let wanted = "must be leases: Kubernetes has removed the other kinds of locks";
    (text == "leases").then(|| text.to_owned()).ok_or_else(|| wanted.to_owned())
}

/// A path.
pub(in crate::cli) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("must be a path".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// Feature gates of Volcano's (B15).
const GATES: [&str; 9] = [
    "CSIStorage",
    "CronVolcanoJobSupport",
    "PodDisruptionBudgetsSupport",
    "PriorityClass",
    "QueueCommandSync",
    "ResourceTopology",
    "SchedulingGatesQueueAdmission",
    "VolcanoJobSupport",
    "WorkLoadSupport",
];

/// `NAME=BOOL`, separated by commas.
pub(in crate::cli) fn gates(text: &str) -> Result<String, String> {
    for gate in text.split(',').map(str::trim).filter(|gate| !gate.is_empty()) {
        let (name, value) = gate.split_once('=').ok_or("must be NAME=true or NAME=false, separated by commas")?;
        if !GATES.contains(&name.trim()) {
            return Err(format!("{:?} is no gate; known are {}", name.trim(), GATES.join(", ")));
        }
        boolean(value.trim()).map_err(|wanted| format!("the value of {} {wanted}", name.trim()))?;
    }
    Ok(text.to_owned())
}
