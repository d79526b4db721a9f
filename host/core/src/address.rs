//! What kind of place an IP address is: whether it is on the internet, on this machine, or gives credentials away.
//!
//! Owns the ranges. Never decides what may be dialled: that depends on who asks (an endpoint of a plugin, the kubeconfig of a
//! physical cluster), and is judged on the address itself, after names are resolved. It cannot fail: what is in no known range
//! is [`AddressClass::Nowhere`] or public.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of place an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressClass {
    /// The internet.
    Public,
    /// A private network: RFC 1918, RFC 6598 (shared by carriers and clouds), RFC 4193.
    Private,
    /// This machine.
    Loopback,
    /// The same wire, no router in between.
    LinkLocal,
    /// A cloud's service that hands out credentials to any process of this machine.
    Metadata,
    /// No single machine: unspecified, multicast, broadcast, reserved, documentation.
    Nowhere,
    /// The Kubernetes API server of this host.
    ApiServer,
}

impl AddressClass {
    /// Whether it is an ordinary place on the internet or in a private network: no machine's own address, and no service that
    /// gives credentials away.
    #[must_use]
    pub fn is_in_a_network(self) -> bool {
        matches!(self, Self::Public | Self::Private)
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Private => "a private address",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud's metadata service",
            Self::Nowhere => "no address of a machine",
            Self::ApiServer => "the API server",
        })
    }
}

/// Services that give credentials away, by the documentation of AWS, GCP, Azure, OCI, DigitalOcean and OpenStack (the
/// first), AWS's for containers and pods, Alibaba Cloud, Azure's wire server and Oracle's older one; then over IPv6 those of
/// AWS, AWS for pods, GCP, OCI and Scaleway.
const METADATA: [IpAddr; 11] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)),
];

/// What kind of place it is. An IPv4 address that is carried inside an IPv6 one counts as itself.
#[must_use]
pub fn place(address: IpAddr) -> AddressClass {
    let address = bare(address);
    if METADATA.contains(&address) {
        return AddressClass::Metadata;
    }
    match address {
        IpAddr::V4(address) => place_v4(address),
        IpAddr::V6(address) => place_v6(address),
    }
}

fn place_v4(address: Ipv4Addr) -> AddressClass {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => AddressClass::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => AddressClass::Private,
        (169, 254, _) => AddressClass::LinkLocal,
        // "This network", protocol assignments, documentation, benchmarks, multicast, reserved, broadcast.
        (0, ..) | (192, 0, 0 | 2) | (198, 18..=19, _) | (198, 51, 100) | (203, 0, 113) | (224..=255, ..) => {
            AddressClass::Nowhere
        }
        _ => AddressClass::Public,
    }
}

fn place_v6(address: Ipv6Addr) -> AddressClass {
    let [first, second, ..] = address.segments();
    match first {
        _ if address.is_loopback() => AddressClass::Loopback,
        _ if address.is_unspecified() || address.is_multicast() => AddressClass::Nowhere,
        0xfc00..=0xfdff => AddressClass::Private,
        0xfe80..=0xfebf => AddressClass::LinkLocal,
        // Site-local: deprecated, and never routed beyond the site.
        0xfec0..=0xfeff => AddressClass::Private,
        0x2001 if second == 0xdb8 => AddressClass::Nowhere,
        0x2000..=0x3fff => AddressClass::Public,
        _ => AddressClass::Nowhere,
    }
}

/// The IPv4 address inside an IPv6 one, wherever a translator or a tunnel would take it out.
#[must_use]
pub fn bare(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let inner = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b, c, d, e, f) {
        // Mapped (RFC 4291), translated (RFC 2765), and the deprecated compatible form, but not `::` and `::1`.
        (0, 0, 0, 0, 0, 0xffff) | (0, 0, 0, 0, 0xffff, 0) => inner(g, h),
        (0, 0, 0, 0, 0, 0) if g != 0 => inner(g, h),
        // NAT64 (RFC 6052). Its local form (RFC 8215) carries the address where the site likes: that is nowhere.
        (0x64, 0xff9b, 0, 0, 0, 0) => inner(g, h),
        // 6to4 (RFC 3056).
        (0x2002, high, low, ..) => inner(high, low),
        // Teredo (RFC 4380) hides the client's address, and no server runs behind it.
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_has_its_place() {
        let rows = [
            ("8.8.8.8", AddressClass::Public),
            ("10.1.2.3", AddressClass::Private),
            ("172.16.0.1", AddressClass::Private),
            ("172.32.0.1", AddressClass::Public),
            ("192.168.1.1", AddressClass::Private),
            ("100.64.0.1", AddressClass::Private),
            ("100.100.100.200", AddressClass::Metadata),
            ("127.0.0.1", AddressClass::Loopback),
            ("127.255.0.9", AddressClass::Loopback),
            ("0.0.0.0", AddressClass::Nowhere),
            ("0.1.2.3", AddressClass::Nowhere),
            ("169.254.1.1", AddressClass::LinkLocal),
            ("169.254.169.254", AddressClass::Metadata),
            ("168.63.129.16", AddressClass::Metadata),
            ("192.0.0.192", AddressClass::Metadata),
            ("224.0.0.1", AddressClass::Nowhere),
            ("255.255.255.255", AddressClass::Nowhere),
            ("240.0.0.1", AddressClass::Nowhere),
            ("::", AddressClass::Nowhere),
            ("::1", AddressClass::Loopback),
            ("fe80::1", AddressClass::LinkLocal),
            ("fd12::1", AddressClass::Private),
            ("fd00:ec2::254", AddressClass::Metadata),
            ("ff02::1", AddressClass::Nowhere),
            ("2606:4700::1", AddressClass::Public),
            ("2001:db8::1", AddressClass::Nowhere),
            ("::ffff:127.0.0.1", AddressClass::Loopback),
            ("::ffff:169.254.169.254", AddressClass::Metadata),
            ("::ffff:10.0.0.1", AddressClass::Private),
            ("::127.0.0.1", AddressClass::Loopback),
            ("::ffff:0:127.0.0.1", AddressClass::Loopback),
            ("64:ff9b::7f00:1", AddressClass::Loopback),
            ("64:ff9b::a9fe:a9fe", AddressClass::Metadata),
            ("64:ff9b:1::a9fe:a9fe", AddressClass::Nowhere),
            ("64:ff9b:1:a9fe:a9:fe00::", AddressClass::Nowhere),
            ("169.254.170.2", AddressClass::Metadata),
            ("fd20:ce::254", AddressClass::Metadata),
            ("2002:7f00:1::", AddressClass::Loopback),
            ("2002:a9fe:a9fe::1", AddressClass::Metadata),
        ];
        for (text, expected) in rows {
            assert_eq!(place(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn public_and_private_addresses_are_in_a_network_and_no_others_are() {
        for class in [AddressClass::Public, AddressClass::Private] {
            assert!(class.is_in_a_network(), "{class}");
        }
        for class in [
            AddressClass::Loopback,
            AddressClass::LinkLocal,
            AddressClass::Metadata,
            AddressClass::Nowhere,
            AddressClass::ApiServer,
        ] {
            assert!(!class.is_in_a_network(), "{class}");
        }
    }

    #[test]
    fn every_range_has_its_edges() {
        // The first and the last address of a range, what it is, and the neighbours that are something else.
        let rows = [
            ("0.0.0.0", "0.255.255.255", AddressClass::Nowhere, &["1.0.0.0"][..]),
            ("10.0.0.0", "10.255.255.255", AddressClass::Private, &["9.255.255.255", "11.0.0.0"]),
            ("100.64.0.0", "100.127.255.255", AddressClass::Private, &["100.63.255.255", "100.128.0.0"]),
            ("127.0.0.0", "127.255.255.255", AddressClass::Loopback, &["126.255.255.255", "128.0.0.0"]),
            ("169.254.0.0", "169.254.255.255", AddressClass::LinkLocal, &["169.253.255.255", "169.255.0.0"]),
            ("172.16.0.0", "172.31.255.255", AddressClass::Private, &["172.15.255.255", "172.32.0.0"]),
            ("192.0.0.0", "192.0.0.255", AddressClass::Nowhere, &["191.255.255.255", "192.0.1.0"]),
            ("192.0.2.0", "192.0.2.255", AddressClass::Nowhere, &["192.0.1.255", "192.0.3.0"]),
            ("192.168.0.0", "192.168.255.255", AddressClass::Private, &["192.167.255.255", "192.169.0.0"]),
            ("198.18.0.0", "198.19.255.255", AddressClass::Nowhere, &["198.17.255.255", "198.20.0.0"]),
            ("198.51.100.0", "198.51.100.255", AddressClass::Nowhere, &["198.51.99.255", "198.51.101.0"]),
            ("203.0.113.0", "203.0.113.255", AddressClass::Nowhere, &["203.0.112.255", "203.0.114.0"]),
            ("224.0.0.0", "255.255.255.255", AddressClass::Nowhere, &["223.255.255.255"]),
            ("fc00::", "fdff:ffff::", AddressClass::Private, &[]),
            ("fe80::", "febf:ffff::", AddressClass::LinkLocal, &[]),
            ("fec0::", "feff:ffff::", AddressClass::Private, &[]),
            ("2001:db8::", "2001:db8:ffff::", AddressClass::Nowhere, &["2001:db7:ffff::", "2001:db9::"]),
            ("2000::", "3fff:ffff::", AddressClass::Public, &[]),
            ("::2:0:0", "1fff:ffff::", AddressClass::Nowhere, &[]),
            ("4000::", "fbff:ffff::", AddressClass::Nowhere, &[]),
            ("fe00::", "fe7f:ffff::", AddressClass::Nowhere, &[]),
            ("ff00::", "ffff:ffff::", AddressClass::Nowhere, &[]),
        ];
        for (first, last, expected, beyond) in rows {
            for inside in [first, last] {
                assert_eq!(place(inside.parse().unwrap()), expected, "{inside}");
            }
            for neighbour in beyond {
                assert_eq!(place(neighbour.parse().unwrap()), AddressClass::Public, "{neighbour}");
            }
        }
    }

    #[test]
    fn every_metadata_service_is_one_in_each_form() {
        let services = [
            "169.254.169.254",
            "169.254.170.2",
            "169.254.170.23",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:42::42",
        ];
        for address in services.map(|text| text.parse::<IpAddr>().unwrap()) {
            assert_eq!(place(address), AddressClass::Metadata, "{address}");
            let IpAddr::V4(v4) = address else { continue };
            let [a, b, c, d] = v4.octets().map(u16::from);
            let (high, low) = (a << 8 | b, c << 8 | d);
            for carried in [
                Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
                Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            ] {
                assert_eq!(place(IpAddr::V6(carried)), AddressClass::Metadata, "{carried}");
            }
        }
    }
}
