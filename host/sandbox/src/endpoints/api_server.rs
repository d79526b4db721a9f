//! Where the API server is, which no endpoint is by accident.
//!
//! Known are the places that the client's URL and the kubelet's variables name, looked up when something is dialled. The
//! machines behind the Service of the API server are not known by their own addresses.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a look counts: names of managed API servers change their addresses within minutes.
const YOUNG: Duration = Duration::from_secs(60);

/// The names of the API server and their addresses.
#[derive(Debug, Default)]
pub struct ApiServer {
    places: Vec<(String, u16)>,
    known: Mutex<KnownAddresses>,
}

#[derive(Debug, Default)]
struct KnownAddresses {
    addresses: Vec<SocketAddr>,
    looked: Option<Instant>,
}

impl ApiServer {
    /// By the client's URL, and by the variables that the kubelet sets in every pod.
    #[must_use]
    pub fn new(url: &http::Uri) -> Self {
        Self::by(url, |name| std::env::var(name).ok())
    }

    fn by(url: &http::Uri, variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_plain = url.scheme_str() == Some("http");
        let by_url = url.host().map(|host| {
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            (host, url.port_u16().unwrap_or(if is_plain { 80 } else { 443 }))
        });
        let by_pod = variable("KUBERNETES_SERVICE_HOST").map(|host| {
            let port = variable("KUBERNETES_SERVICE_PORT").and_then(|port| port.parse().ok());
            (host, port.unwrap_or(443))
        });
        Self { places: [by_url, by_pod].into_iter().flatten().collect(), known: Mutex::default() }
    }

    /// At these addresses.
    #[must_use]
    pub fn at(addresses: &[SocketAddr]) -> Self {
        let place = |address: &SocketAddr| (address.ip().to_string(), address.port());
        Self { places: addresses.iter().map(place).collect(), known: Mutex::default() }
    }

    /// Its addresses now. A name that cannot be resolved at the moment counts as what it was.
    pub async fn addresses(&self) -> Vec<SocketAddr> {
        {
            let known = self.lock();
            if known.looked.is_some_and(|looked| looked.elapsed() < YOUNG) {
                return known.addresses.clone();
            }
        }
        let mut found = Vec::new();
        let mut is_whole = true;
        for (host, port) in &self.places {
            match tokio::net::lookup_host((host.as_str(), *port)).await {
                Ok(addresses) => found.extend(addresses),
                Err(_) => is_whole = false,
            }
        }
        let mut known = self.lock();
        if is_whole {
            known.addresses = found;
            known.looked = Some(Instant::now());
        } else {
            let news: Vec<_> = found.into_iter().filter(|address| !known.addresses.contains(address)).collect();
            known.addresses.extend(news);
        }
        known.addresses.clone()
    }

    fn lock(&self) -> MutexGuard<'_, KnownAddresses> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(url: &str, variables: &[(&str, &str)]) -> Vec<String> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let found = ApiServer::by(&url.parse().unwrap(), value).places;
        found.into_iter().map(|(host, port)| format!("{host} {port}")).collect()
    }

    #[test]
    fn a_place_without_a_port_has_that_of_its_scheme_and_the_kubelets_is_https() {
        assert_eq!(places("https://api:6443", &[]), ["api 6443"]);
        assert_eq!(places("https://api", &[]), ["api 443"]);
        assert_eq!(places("http://api", &[]), ["api 80"]);
        assert_eq!(places("https://[fd00::1]", &[]), ["fd00::1 443"]);
        let host = ("KUBERNETES_SERVICE_HOST", "10.96.0.1");
        assert_eq!(places("https://api", &[host]), ["api 443", "10.96.0.1 443"]);
        for (port, place) in [("6443", "10.96.0.1 6443"), ("none", "10.96.0.1 443")] {
            assert_eq!(places("https://api", &[host, ("KUBERNETES_SERVICE_PORT", port)]), ["api 443", place]);
        }
    }
}
