//! The simulator as a program: what a command line needs to offer all of it.

mod admin;
mod client;

pub use client::client_name;

use crate::document::{Chassis, FabricDocument};
use crate::fabric::{Fabric, FabricCounts, Shape, SharedFabric};
use crate::fault::FaultRule;
use crate::server::{Authority, ClientCertificate, Credentials, Marked, Simulator, Validity};
use crate::ufm::{Filters, Keys, Ufm};
use crate::wire::Layout;
use crate::{Error, standalone::admin::Admin};
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};

/// What to simulate. The default is a small fabric behind a UFM on a port of 127.0.0.1 that the system chooses.
#[derive(Debug, Clone)]
pub struct Options {
    /// The fabric.
    pub shape: Shape,
    /// Where the UFM listens.
    pub listen: SocketAddr,
    /// Where the server of the fabric document listens, if it is wanted.
    pub document: Option<SocketAddr>,
    /// Which chassis id the document shows.
    pub chassis: Chassis,
    /// Where faults and edits are taken, if they are wanted. Only a loopback address: there is no authentication.
    pub admin: Option<SocketAddr>,
    /// Whether TLS is spoken.
    pub transport: Transport,
    /// Further names for the certificate.
    pub names: Vec<String>,
    /// Users with their passwords. Without users, tokens and certificates: `admin` with `123456`, as UFM is shipped.
    pub users: Vec<(String, String)>,
    /// Tokens, for UFM and as bearer tokens for the fabric document.
    pub tokens: Vec<String>,
    /// Names to make client certificates for; see [`client_name`].
    pub clients: Vec<String>,
    /// Faults from the start, at both servers.
    pub faults: Vec<FaultRule>,
    /// How UFM lays JSON out.
    pub layout: Layout,
    /// Which keys ports have.
    pub keys: Keys,
    /// Which filters are known.
    pub filters: Filters,
}

/// Whether TLS is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// It is, with a certificate of an authority, both made at start.
    #[default]
    Tls,
    /// It is, with a certificate that signed itself, as `openssl req -x509` makes it.
    SelfSigned,
    /// It is not.
    Plain,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shape: Shape::default(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            document: None,
            chassis: Chassis::default(),
            admin: None,
            transport: Transport::default(),
            names: Vec::new(),
            users: Vec::new(),
            tokens: Vec::new(),
            clients: Vec::new(),
            faults: Vec::new(),
            layout: Layout::default(),
            keys: Keys::default(),
            filters: Filters::default(),
        }
    }
}

/// What runs: everything that a user must know to use it.
#[derive(Debug)]
pub struct Running<'a> {
    /// The UFM.
    pub ufm: &'a Simulator,
    /// The server of the fabric document.
    pub document: Option<&'a Simulator>,
    /// The address of the admin listener.
    pub admin: Option<String>,
    /// How much of everything there is.
    pub counts: FabricCounts,
    /// Client certificates, in the order of the names they were asked for.
    pub clients: Vec<ClientCertificate>,
}

/// Runs the simulator until `stop` is ready. `ready` is called once, when everything listens.
///
/// # Errors
/// A value is not allowed, or something cannot listen where it should. Whatever had started has ended by then.
pub async fn run(
    options: Options,
    stop: impl Future<Output = ()>,
    ready: impl FnOnce(&Running<'_>),
) -> Result<(), Error> {
    if let Some(address) = options.admin.filter(|address| !address.ip().is_loopback()) {
        return Err(Error::OpenAdmin { address });
    }
    options.clients.iter().try_for_each(|name| client_name(name).map(drop))?;
    let fabric = SharedFabric::new(Fabric::generate(&options.shape)?);
    let authority = match options.transport {
        Transport::Tls => Some(Authority::generate()?),
        Transport::SelfSigned => {
            Some(Authority::self_signed(&options.names_of_certificate(), Validity::Current, Marked::Authority)?)
        }
        Transport::Plain => None,
    };
    let credentials = options.credentials();
    let ufm = Ufm::builder(fabric.clone()).layout(options.layout).keys(options.keys).filters(options.filters);
    let ufm = options.dress(ufm, authority.as_ref(), &credentials).listen(options.listen).start().await?;
    let document = match options.document {
        Some(address) => {
            let document = FabricDocument::builder(fabric.clone()).chassis(options.chassis);
            Some(options.dress(document, authority.as_ref(), &credentials).listen(address).start().await?)
        }
        None => None,
    };
    let admin = match options.admin {
        Some(address) => Some(Admin::start(address, &ufm, document.as_ref()).await?),
        None => None,
    };
    let issue = |name: &String| authority.as_ref().map(|authority| authority.client(name, Validity::Current));
    let clients = options.clients.iter().filter_map(issue).collect::<Result<_, _>>()?;
    let (counts, admin_url) = (fabric.now().counts(), admin.as_ref().map(Admin::url));
    ready(&Running { ufm: &ufm, document: document.as_ref(), admin: admin_url, counts, clients });
    stop.await;
    if let Some(admin) = admin {
        admin.stop().await;
    }
    if let Some(document) = document {
        document.stop().await;
    }
    ufm.stop().await;
    Ok(())
}

impl Options {
    fn credentials(&self) -> Credentials {
        if self.users.is_empty() && self.tokens.is_empty() && self.clients.is_empty() {
            return Credentials::none().user("admin", "123456");
        }
        let users = self.users.iter().fold(Credentials::none(), |all, (user, password)| all.user(user, password));
        let tokens = self.tokens.iter().fold(users, |all, token| all.token(token));
        self.clients.iter().fold(tokens, |all, name| all.certificate(name))
    }

    /// Every name that a client could know the servers by, what was asked for first.
    fn names_of_certificate(&self) -> Vec<String> {
        let listening =
            [Some(self.listen), self.document].into_iter().flatten().map(|address| address.ip().to_string());
        let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let mut names: Vec<String> = Vec::new();
        for name in self.names.iter().cloned().chain(listening).chain(local) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// What both servers have in common.
    fn dress<K>(
        &self,
        builder: crate::Builder<K>,
        authority: Option<&Authority>,
        credentials: &Credentials,
    ) -> crate::Builder<K> {
        let builder = match authority {
            Some(authority) => builder.tls(authority),
            None => builder.plain(),
        };
        let names = self.names_of_certificate();
        let builder = names.iter().rev().fold(builder, |builder, name| builder.name(name));
        let builder = self.faults.iter().cloned().fold(builder, crate::Builder::fault);
        builder.credentials(credentials.clone())
    }
}
