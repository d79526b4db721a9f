//! What a simulator is to be, before it starts.

use super::tls::{Authority, Identities, Marked, Validity};
use super::{Api, Core, Credentials, Record, Simulator};
use crate::Error;
use crate::fabric::SharedFabric;
use crate::fault::{Board, FaultRule};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, RwLock};

/// A simulator that has not started. `K` is its API with what can be chosen about it.
#[derive(Debug)]
pub struct Builder<K> {
    pub(crate) settings: K,
    api: fn(K) -> Box<dyn Api>,
    fabric: SharedFabric,
    listen: SocketAddr,
    transport: Transport,
    names: Vec<String>,
    credentials: Credentials,
    rules: Vec<FaultRule>,
}

#[derive(Debug)]
enum Transport {
    OwnAuthority,
    Authority(Authority),
    SelfSigned,
    Plain,
}

impl<K> Builder<K> {
    pub(crate) fn new(settings: K, api: fn(K) -> Box<dyn Api>, fabric: SharedFabric) -> Self {
        Self {
            settings,
            api,
            fabric,
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            transport: Transport::OwnAuthority,
            names: ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
            credentials: Credentials::none(),
            rules: Vec::new(),
        }
    }

    /// Listens here. Without it: on 127.0.0.1, on a port that the system chooses.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Speaks TLS with certificates of this authority. Without it: of an authority of its own.
    pub fn tls(mut self, authority: &Authority) -> Self {
        self.transport = Transport::Authority(authority.clone());
        self
    }

    /// Speaks TLS with a certificate that signed itself, as `openssl req -x509` makes it.
    pub fn self_signed(mut self) -> Self {
        self.transport = Transport::SelfSigned;
        self
    }

    /// Speaks HTTP without TLS.
    pub fn plain(mut self) -> Self {
        self.transport = Transport::Plain;
        self
    }

    /// Also holds for this name or address, beside `localhost` and the loopback addresses.
    pub fn name(mut self, name: &str) -> Self {
        self.names.retain(|known| known != name);
        self.names.insert(0, name.to_owned());
        self
    }

    /// Accepts these credentials. Without it: none.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Starts with this fault, after those that were named before.
    pub fn fault(mut self, rule: impl Into<FaultRule>) -> Self {
        self.rules.push(rule.into());
        self
    }

    /// Starts. The simulator runs on the runtime of the caller until it is stopped or dropped.
    ///
    /// # Errors
    /// The address is taken, a name cannot be in a certificate, or a rule is not possible.
    pub async fn start(self) -> Result<Simulator, Error> {
        self.rules.iter().try_for_each(FaultRule::check)?;
        let identities = match self.transport {
            Transport::Plain => None,
            Transport::OwnAuthority => Some(Identities::new(Authority::generate()?, &self.names)?),
            Transport::SelfSigned => {
                let itself = Authority::self_signed(&self.names, Validity::Current, Marked::Authority)?;
                Some(Identities::new(itself, &self.names)?)
            }
            Transport::Authority(authority) => Some(Identities::new(authority, &self.names)?),
        };
        let core = Core {
            api: (self.api)(self.settings),
            fabric: self.fabric,
            credentials: RwLock::new(self.credentials),
            board: Arc::new(Board::new(self.rules)),
            record: Arc::new(Record::new()),
        };
        Simulator::start(core, identities, self.listen).await
    }
}
