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
        let is_plain = url.scheme_str() == Some("http");
        let by_url = url.host().map(|host| {
            let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            (host, url.port_u16().unwrap_or(if is_plain { 80 } else { 443 }))
        });
        let variable = |name| std::env::var(name).ok();
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
