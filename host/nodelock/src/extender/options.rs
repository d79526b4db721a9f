//! The options of the extender, typed and within their ranges.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::crowd::CrowdBounds;

/// The extender. Validated: it listens on loopback, or requires client certificates, or the operator allowed anonymous
/// clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtenderOptions {
    /// Where it listens.
    pub address: SocketAddr,
    /// HTTPS, where its files are given.
    pub tls: Option<ServingFiles>,
    /// How long kube-scheduler waits for an answer.
    pub http_timeout: Duration,
    /// Which nodes are left out.
    pub filter: Filter,
    /// Binds that wait at most.
    pub max_waiting: usize,
}

impl ExtenderOptions {
    /// Binds that have not to wait, beside those that do: each is two or three requests long.
    const AT_WORK: usize = 128;
    /// Connections that no Bind can take: for the filter of every kube-scheduler, for health, and for those that are
    /// idle.
    const SPARE: usize = 128;

    /// How many Binds there may be.
    #[must_use]
    pub fn crowd(&self) -> CrowdBounds {
        CrowdBounds { waiting: self.max_waiting, under_way: self.max_waiting + Self::AT_WORK }
    }

    /// How many connections there may be.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.crowd().under_way + Self::SPARE
    }

    /// How long a Bind may take, all waiting included: so that its answer is there in time (decision N8).
    #[must_use]
    pub fn patience(&self) -> Duration {
        const LONGEST: Duration = Duration::from_secs(28);
        const MARGIN: Duration = Duration::from_secs(2);
        LONGEST.min(self.http_timeout.saturating_sub(MARGIN))
    }

    /// The same, with the time in which a failed attempt removes what it wrote.
    #[must_use]
    pub fn longest(&self) -> Duration {
        const TAKING_BACK: Duration = Duration::from_secs(2);
        self.patience() + TAKING_BACK
    }
}

/// PEM files of a server that may ask its clients for a certificate. They are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingFiles {
    /// The certificate and its chain.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities of clients, where they need a certificate.
    pub clients: Option<PathBuf>,
    /// Common names and organisations of the clients that are served.
    pub names: Arc<[Box<str>]>,
}

/// Which nodes the filter of the extender leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filter {
    /// None.
    Off,
    /// Those whose pod has waited for its device plugin longer than the timeout: no other pod gets them soon.
    Stuck,
    /// Those with a holder.
    Locked,
}
