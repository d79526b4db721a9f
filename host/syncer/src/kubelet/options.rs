//! Whether the kubelet's API is served, and where: flags that belong together, checked as one.
//!
//! Off by default. There is no way to serve it without TLS or to anonymous clients: what it lets through is a shell in a container.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use topoloom_sync::node::KubeletEndpoint;

/// The flag of the address that virtual nodes carry.
pub const ADDRESS: &str = "syncer-kubelet-address";
/// The flag of the port that virtual nodes carry.
pub const PORT: &str = "syncer-kubelet-port";
/// The flag of the address and port that the process listens on.
pub const LISTEN: &str = "syncer-kubelet-listen-address";
/// The flag of the file with the certificate of the server.
pub const CERTIFICATE: &str = "syncer-tls-cert-file";
/// The flag of the file with its key.
pub const KEY: &str = "syncer-tls-private-key-file";
/// The flag of the file with the authorities of clients.
pub const CLIENTS: &str = "syncer-client-ca-file";

/// The port of a kubelet, which firewalls and network policies know.
pub const KUBELETS: u16 = 10_250;

/// The kubelet's API of virtual nodes. Validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The address that every virtual node carries: that of the Service in front of all replicas.
    pub address: IpAddr,
    /// The port that every virtual node carries.
    pub port: u16,
    /// Where this process listens.
    pub listen: SocketAddr,
    /// The certificate of the server and its chain, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Which authorities have signed the certificates of clients.
    pub clients: ClientAuthorities,
}

/// Where the authorities of clients are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientAuthorities {
    /// In a file, PEM.
    File(PathBuf),
    /// Where the API server of the virtual cluster publishes its own: the ConfigMap `extension-apiserver-authentication` in
    /// `kube-system`.
    Cluster,
}

/// The flags, as they are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GivenOptions {
    /// `--syncer-kubelet-address`: without it nothing is served.
    pub address: Option<IpAddr>,
    /// `--syncer-kubelet-port`
    pub port: Option<u16>,
    /// `--syncer-kubelet-listen-address`: every address of the machine, with the port of virtual nodes, where it is not given.
    pub listen: Option<SocketAddr>,
    /// `--syncer-tls-cert-file`
    pub certificate: Option<PathBuf>,
    /// `--syncer-tls-private-key-file`
    pub key: Option<PathBuf>,
    /// `--syncer-client-ca-file`: the authorities of the cluster, where it is not given.
    pub clients: Option<PathBuf>,
}

/// Why flags do not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionsError {
    /// The flag that is wrong or missing.
    pub flag: &'static str,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}: {}", self.flag, self.why)
    }
}

impl std::error::Error for OptionsError {}

impl GivenOptions {
    /// What they mean together; `None` where nothing is to be served.
    ///
    /// # Errors
    /// Names the flag that is wrong or missing.
    pub fn check(self) -> Result<Option<Options>, OptionsError> {
        let wrong = |flag, why: String| Err(OptionsError { flag, why });
        let Some(address) = self.address else {
            let others = [
                (PORT, self.port.is_some()),
                (LISTEN, self.listen.is_some()),
                (CERTIFICATE, self.certificate.is_some()),
                (KEY, self.key.is_some()),
                (CLIENTS, self.clients.is_some()),
            ];
            return match others.into_iter().find(|(_, is_given)| *is_given) {
                Some((flag, _)) => wrong(flag, format!("has no effect without --{ADDRESS}")),
                None => Ok(None),
            };
        };
        if address.is_unspecified() || address.is_multicast() {
            return wrong(ADDRESS, format!("{address} is no address that an API server can connect to"));
        }
        let port = self.port.unwrap_or(KUBELETS);
        if port == 0 {
            return wrong(PORT, "is 0, and virtual nodes have to carry it; allowed is 1 to 65535".to_owned());
        }
        let needs = |flag, file: Option<PathBuf>| {
            let why = format!("is missing: the kubelet's API is served over TLS alone, and --{ADDRESS} asks for it");
            file.ok_or(OptionsError { flag, why })
        };
        Ok(Some(Options {
            address,
            port,
            listen: self.listen.unwrap_or_else(|| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))),
            certificate: needs(CERTIFICATE, self.certificate)?,
            key: needs(KEY, self.key)?,
            clients: self.clients.map_or(ClientAuthorities::Cluster, ClientAuthorities::File),
        }))
    }
}

impl Options {
    /// What virtual nodes carry.
    #[must_use]
    pub fn endpoint(&self) -> KubeletEndpoint {
        KubeletEndpoint { address: self.address.to_string(), port: self.port }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> GivenOptions {
        GivenOptions {
            address: Some("10.96.0.20".parse().unwrap()),
            certificate: Some("tls.crt".into()),
            key: Some("tls.key".into()),
            ..GivenOptions::default()
        }
    }

    #[track_caller]
    fn refused(given: GivenOptions, words: &str) {
        assert_eq!(given.check().unwrap_err().to_string(), words);
    }

    #[test]
    fn s26_nothing_is_served_by_default() {
        assert_eq!(GivenOptions::default().check(), Ok(None));
        let alone = "--syncer-kubelet-port: has no effect without --syncer-kubelet-address";
        refused(GivenOptions { port: Some(1), ..GivenOptions::default() }, alone);
        let alone = "--syncer-client-ca-file: has no effect without --syncer-kubelet-address";
        refused(GivenOptions { clients: Some("ca.crt".into()), ..GivenOptions::default() }, alone);
    }

    #[test]
    fn s26_without_tls_it_does_not_start() {
        let missing =
            "is missing: the kubelet's API is served over TLS alone, and --syncer-kubelet-address asks for it";
        let without = GivenOptions { certificate: None, ..given() };
        refused(without, &format!("--syncer-tls-cert-file: {missing}"));
        refused(GivenOptions { key: None, ..given() }, &format!("--syncer-tls-private-key-file: {missing}"));
    }

    #[test]
    fn s26_virtual_nodes_carry_one_address_and_port_and_the_process_listens_on_that_port() {
        let options = given().check().unwrap().unwrap();
        assert_eq!(options.endpoint(), KubeletEndpoint { address: "10.96.0.20".into(), port: 10_250 });
        assert_eq!((options.listen.to_string().as_str(), options.clients), ("[::]:10250", ClientAuthorities::Cluster));
        let other = GivenOptions { port: Some(443), listen: Some("127.0.0.1:0".parse().unwrap()), ..given() };
        let other = GivenOptions { clients: Some("ca.crt".into()), ..other }.check().unwrap().unwrap();
        assert_eq!((other.port, other.listen.to_string().as_str()), (443, "127.0.0.1:0"));
        assert_eq!(other.clients, ClientAuthorities::File("ca.crt".into()));
    }

    #[test]
    fn s26_an_address_that_leads_nowhere_is_refused() {
        for nowhere in ["0.0.0.0", "::", "224.0.0.1"] {
            let wrong = GivenOptions { address: Some(nowhere.parse().unwrap()), ..given() };
            let words = format!("--syncer-kubelet-address: {nowhere} is no address that an API server can connect to");
            refused(wrong, &words);
        }
        let zero = "--syncer-kubelet-port: is 0, and virtual nodes have to carry it; allowed is 1 to 65535";
        refused(GivenOptions { port: Some(0), ..given() }, zero);
    }
}
