//! Which addresses a client may connect to.
//!
//! Owns the judgement of what is dialled where another party wrote the address of an API server: a name is judged by the
//! addresses that it has at that moment, so that a name cannot lead where an address may not. Never decides which addresses are
//! allowed: the caller gives the rule.
//!
//! # Failure story
//!
//! A name with allowed and refused addresses is dialled at the allowed ones. Where none is left the connection fails with the
//! first one that was refused, and nothing is sent.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::vec;

use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use topoloom_core::address::AddressClass;
use topoloom_core::text;
use tower::Service;

/// Names have 253 bytes at most.
const SHOWN: usize = 253;

/// What may be dialled.
#[derive(Debug, Clone, Copy, Default)]
pub enum Dial {
    /// Every address: the operator of the host named the server.
    #[default]
    Any,
    /// What this rule allows. An error says what kind of place the address is.
    Judged(fn(IpAddr) -> Result<(), AddressClass>),
}

/// An address that may not be dialled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} is {address}, {class}, which is not dialled")]
pub struct NotDialled {
    /// What was named.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
    /// What kind of place that is.
    pub class: AddressClass,
}

impl Dial {
    /// Judges a host that is written as an address; a name is judged when it is resolved.
    ///
    /// # Errors
    /// The address may not be dialled.
    pub fn check_literal(self, host: &str) -> Result<(), NotDialled> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        bare.parse().map_or(Ok(()), |address| self.check(host, address))
    }

    fn check(self, host: &str, address: IpAddr) -> Result<(), NotDialled> {
        match self {
            Self::Any => Ok(()),
            Self::Judged(rule) => {
                rule(address).map_err(|class| NotDialled { host: text::line(host, SHOWN), address, class })
            }
        }
    }

    /// The addresses of a name that may be dialled.
    fn allowed(self, host: &str, found: impl Iterator<Item = SocketAddr>) -> io::Result<Vec<SocketAddr>> {
        let (mut allowed, mut refused) = (Vec::new(), None);
        for address in found {
            match self.check(host, address.ip()) {
                Ok(()) => allowed.push(address),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        match refused {
            Some(error) if allowed.is_empty() => Err(io::Error::new(io::ErrorKind::PermissionDenied, error)),
            _ => Ok(allowed),
        }
    }
}

/// The resolver of the system, whose answers are judged.
#[derive(Debug, Clone)]
pub(crate) struct Resolver {
    dial: Dial,
    system: GaiResolver,
}

impl Resolver {
    pub(crate) fn new(dial: Dial) -> Self {
        Self { dial, system: GaiResolver::new() }
    }
}

impl Service<Name> for Resolver {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.system.poll_ready(context)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (dial, found) = (self.dial, self.system.call(name.clone()));
        Box::pin(async move { Ok(dial.allowed(name.as_str(), found.await?)?.into_iter()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topoloom_core::address::place;

    fn public_only(address: IpAddr) -> Result<(), AddressClass> {
        match place(address) {
            AddressClass::Public => Ok(()),
            other => Err(other),
        }
    }

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn a_host_that_is_an_address_is_judged_as_it_is_written_and_a_name_is_not() {
        let dial = Dial::Judged(public_only);
        let refused = dial.check_literal("[::ffff:169.254.169.254]").unwrap_err();
        assert_eq!(refused.class, AddressClass::Metadata);
        assert_eq!(
            dial.check_literal("127.0.0.1").unwrap_err().to_string(),
            "127.0.0.1 is 127.0.0.1, a loopback address, which is not dialled"
        );
        for host in ["8.8.8.8", "[2606:4700::1]", "metadata.google.internal", "127.1", "2130706433", ""] {
            assert_eq!(dial.check_literal(host), Ok(()), "{host}");
        }
        assert_eq!(Dial::Any.check_literal("169.254.169.254"), Ok(()));
    }

    #[test]
    fn of_a_name_only_what_is_allowed_is_dialled() {
        let dial = Dial::Judged(public_only);
        let mixed = addresses(&["127.0.0.1:443", "8.8.8.8:443", "169.254.169.254:443"]);
        assert_eq!(dial.allowed("a.example", mixed.clone().into_iter()).unwrap(), addresses(&["8.8.8.8:443"]));
        assert_eq!(Dial::Any.allowed("a.example", mixed.clone().into_iter()).unwrap(), mixed);
        assert_eq!(dial.allowed("a.example", std::iter::empty()).unwrap(), []);
        let refused = dial.allowed("a.example", addresses(&["169.254.169.254:80", "127.0.0.1:80"]).into_iter());
        assert_eq!(
            refused.unwrap_err().to_string(),
            "a.example is 169.254.169.254, a cloud's metadata service, which is not dialled"
        );
    }

    #[tokio::test]
    async fn what_the_system_resolves_is_judged() {
        let mut resolver = Resolver::new(Dial::Judged(public_only));
        let refused = resolver.call("localhost".parse().unwrap()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
        assert!(refused.to_string().contains("loopback"), "{refused}");
        let mut any = Resolver::new(Dial::Any);
        assert!(any.call("localhost".parse().unwrap()).await.unwrap().all(|address| address.ip().is_loopback()));
    }
}
