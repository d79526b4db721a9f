//! Which addresses may be dialled. Judged on the address itself, after names are resolved: what a name says is up to
//! the server that answers for it.

use std::net::{IpAddr, SocketAddr};

pub use topoloom_core::address::AddressClass;
use topoloom_core::address::{bare, place};

use crate::endpoints::spec::{AddressRule, Network};

/// What one endpoint may dial.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// What the operator allows beside public addresses.
    pub rules: Vec<AddressRule>,
}

impl AddressPolicy {
    /// Whether it may be dialled, by what is known of where the API server is.
    ///
    /// # Errors
    /// What kind of place it is.
    pub fn check(&self, address: SocketAddr, api_server: &[SocketAddr]) -> Result<(), AddressClass> {
        let ip = bare(address.ip());
        let is_api_server = api_server.iter().any(|server| bare(server.ip()) == ip && server.port() == address.port());
        let place = if is_api_server { AddressClass::ApiServer } else { place(ip) };
        let networks =
            || self.rules.iter().filter_map(|rule| if let AddressRule::Network(it) = rule { Some(it) } else { None });
        let allowed = match place {
            AddressClass::Public => true,
            AddressClass::Private => self.rules.contains(&AddressRule::Private) || networks().any(|it| it.contains(ip)),
            AddressClass::Loopback => {
                self.rules.contains(&AddressRule::Loopback) || networks().any(|it| it.contains(ip))
            }
            AddressClass::LinkLocal => networks().any(|it| it.contains(ip)),
            // A network that happens to contain these was not written for them.
            AddressClass::Metadata | AddressClass::ApiServer => networks().any(|it| it.is_single() && it.contains(ip)),
            AddressClass::Nowhere => false,
        };
        if allowed { Ok(()) } else { Err(place) }
    }

    /// What an operator adds to the endpoint to allow such an address; nothing for what is never allowed.
    #[must_use]
    pub fn cure(place: AddressClass, address: IpAddr) -> Option<String> {
        match place {
            AddressClass::Public | AddressClass::Nowhere => None,
            AddressClass::Private => Some("private".to_owned()),
            AddressClass::Loopback => Some("loopback".to_owned()),
            AddressClass::LinkLocal | AddressClass::Metadata | AddressClass::ApiServer => {
                Some(format!("\"{}\"", bare(address)))
            }
        }
    }
}

impl Network {
    /// Whether it is one address and not many.
    fn is_single(&self) -> bool {
        let (address, bits) = self.parts();
        bits == if address.is_ipv4() { 32 } else { 128 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cure_allows_what_was_refused() {
        for (address, rule) in [
            ("10.0.0.1:443", Some("private")),
            ("127.0.0.1:443", Some("loopback")),
            ("169.254.1.1:80", Some("\"169.254.1.1\"")),
            ("169.254.169.254:80", Some("\"169.254.169.254\"")),
            ("[64:ff9b::a9fe:a9fe]:80", Some("\"169.254.169.254\"")),
            ("10.96.0.1:443", Some("\"10.96.0.1\"")),
            ("0.0.0.0:80", None),
        ] {
            let place = check(&[], address).unwrap_err();
            let cure = AddressPolicy::cure(place, address.parse::<SocketAddr>().unwrap().ip());
            assert_eq!(cure.as_deref(), rule, "{address}");
            if let Some(rule) = rule {
                assert_eq!(check(&[rule.trim_matches('"')], address), Ok(()), "{address}");
            }
        }
        assert_eq!(AddressPolicy::cure(AddressClass::Public, "8.8.8.8".parse().unwrap()), None);
    }

    fn policy(rules: &[&str]) -> AddressPolicy {
        let rule = |text: &&str| match *text {
            "private" => AddressRule::Private,
            "loopback" => AddressRule::Loopback,
            network => AddressRule::Network(Network::parse(network).unwrap()),
        };
        AddressPolicy { rules: rules.iter().map(rule).collect() }
    }

    fn check(rules: &[&str], address: &str) -> Result<(), AddressClass> {
        policy(rules).check(address.parse().unwrap(), &["10.96.0.1:443".parse().unwrap()])
    }

    #[test]
    fn only_what_the_endpoint_says_is_dialled() {
        assert_eq!(check(&[], "8.8.8.8:443"), Ok(()));
        assert_eq!(check(&[], "10.0.0.1:443"), Err(AddressClass::Private));
        assert_eq!(check(&["private"], "10.0.0.1:443"), Ok(()));
        assert_eq!(check(&["private"], "127.0.0.1:443"), Err(AddressClass::Loopback));
        assert_eq!(check(&["10.0.0.0/8"], "10.0.0.1:443"), Ok(()));
        assert_eq!(check(&["10.0.0.0/8"], "[::ffff:10.0.0.1]:443"), Ok(()));
        assert_eq!(check(&["10.0.0.0/8"], "192.168.0.1:443"), Err(AddressClass::Private));
        assert_eq!(check(&["loopback"], "[::1]:443"), Ok(()));
        assert_eq!(check(&["private", "loopback"], "169.254.0.1:80"), Err(AddressClass::LinkLocal));
        assert_eq!(check(&["169.254.0.0/16"], "169.254.0.1:80"), Ok(()));
    }

    #[test]
    fn metadata_and_the_api_server_must_be_named_one_by_one() {
        let all = ["0.0.0.0/0", "::/0", "private", "loopback", "169.254.0.0/16"];
        assert_eq!(check(&all, "169.254.169.254:80"), Err(AddressClass::Metadata));
        assert_eq!(check(&all, "[64:ff9b::a9fe:a9fe]:80"), Err(AddressClass::Metadata));
        assert_eq!(check(&all, "10.96.0.1:443"), Err(AddressClass::ApiServer));
        assert_eq!(check(&all, "[::ffff:10.96.0.1]:443"), Err(AddressClass::ApiServer));
        assert_eq!(check(&all, "10.96.0.1:8443"), Ok(()), "another service on the same address");
        assert_eq!(check(&["169.254.169.254"], "169.254.169.254:80"), Ok(()));
        assert_eq!(check(&["10.96.0.1/32"], "10.96.0.1:443"), Ok(()));
        assert_eq!(check(&all, "0.0.0.0:80"), Err(AddressClass::Nowhere));
        assert_eq!(check(&["0.0.0.0"], "0.0.0.0:80"), Err(AddressClass::Nowhere), "the kernel would dial loopback");
    }
}
