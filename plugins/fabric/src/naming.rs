//! Which name identifies a machine: cleans the names of the fabric, and refuses names that many machines share.

use regex_lite::Regex;

/// Names that drivers and installers give to every machine.
const GENERIC: [&str; 8] = ["", "-", "localhost", "localhost.localdomain", "n/a", "none", "ubuntu", "unknown"];
/// Words in descriptions of hardware parts, never in names of hosts.
const PARTS: [&str; 3] = ["aggregation node", "mellanox technologies", "infiniscale"];
/// How the names of RDMA devices begin.
const DEVICES: [&str; 7] = ["mlx4_", "mlx5_", "ib", "hfi1_", "bnxt_re", "rdma", "roce"];

/// Chooses the name of a host.
#[derive(Debug, Clone, Copy)]
pub struct HostNames<'a> {
    ignored: &'a [Regex],
}

impl<'a> HostNames<'a> {
    /// With further names that identify no host ([`crate::Settings::ignore_hosts`]).
    #[must_use]
    pub fn new(ignored: &'a [Regex]) -> Self {
        Self { ignored }
    }

    /// The first of the candidates (`system_name`, then `node_description`) that, cleaned, is the name of a host.
    #[must_use]
    pub fn choose<'n>(&self, candidates: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
        candidates.into_iter().find_map(|name| clean_host(name).filter(|name| !self.is_generic(name)))
    }

    /// Whether a name identifies no host, because many unrelated machines have it: it would join their switches into one
    /// group.
    #[must_use]
    pub fn is_generic(&self, name: &str) -> bool {
        let lower = name.trim().to_ascii_lowercase();
        // `MT4123`, `MT25408`: four digits, so that a host may be called `mt01`.
        let is_model = |text: &str| text.bytes().take(4).filter(u8::is_ascii_digit).count() == 4;
        GENERIC.contains(&lower.as_str())
            || PARTS.iter().any(|part| lower.contains(part))
            || lower.starts_with("connectx")
            || lower.strip_prefix("mt").is_some_and(is_model)
            || self.is_ignored(name)
    }

    /// Whether the operator ignores a name.
    #[must_use]
    pub fn is_ignored(&self, name: &str) -> bool {
        self.ignored.iter().any(|regex| regex.is_match(name))
    }
}

/// Whether a name or description is that of an aggregation node, the virtual HCA inside of a switch. It does
/// not count as a host, so it does not make a switch a leaf.
#[must_use]
pub fn is_aggregation_node(name: &str) -> bool {
    name.to_ascii_lowercase().contains("aggregation node")
}

/// The name of a host without the name of its HCA and its port. None: it is not the name of a host.
#[must_use]
pub fn clean_host(name: &str) -> Option<&str> {
    let mut tokens = cut_port(name.trim(), is_number).split_whitespace();
    match (tokens.next(), tokens.next(), tokens.next()) {
        (Some(host), None, _) => Some(host),
        (Some(host), Some(device), None) if is_device(device) => Some(host),
        _ => None,
    }
}

/// The readable part of a switch's name: `MF0;<name>:<model>/U1` is `<name>`, and a port at its end is cut. The cards of
/// a director (`MF0;dir1:CS8500/L07/U1`) keep their place, which distinguishes them.
#[must_use]
pub fn clean_switch(name: &str) -> &str {
    let name = name.trim();
    let Some((_, rest)) = name.split_once(';').filter(|(mark, _)| mark.starts_with("MF") || mark.starts_with("SF"))
    else {
        return cut_port(name, |port| !port.is_empty() && port.split('/').all(is_number));
    };
    match rest.split_once(':') {
        Some((name, place)) if place.split('/').count() < 3 => name,
        _ => rest,
    }
}

/// Cuts a port after the last colon, unless nothing would be left.
fn cut_port(name: &str, is_port: impl Fn(&str) -> bool) -> &str {
    match name.rsplit_once(':') {
        Some((rest, port)) if !rest.is_empty() && is_port(port) => rest.trim_end(),
        _ => name,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_device(token: &str) -> bool {
    let lower = token.to_ascii_lowercase();
    let is_slot = |rest: &str| rest.split('/').count() <= 2 && rest.split('/').all(is_number);
    lower.strip_prefix("hca-").is_some_and(is_slot) || DEVICES.iter().any(|device| lower.starts_with(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_left_in_the_name_is_cut_so_two_hcas_are_one_host() {
        for name in [
            "node01",
            " node01 mlx5_0",
            "node01  mlx5_1",
            "node01 HCA-3",
            "node01 HCA-1/1",
            "node01:1",
            "node01 ib0",
            "node01 mlx5_2:1",
        ] {
            assert_eq!(clean_host(name), Some("node01"), "{name}");
        }
        for name in
            ["", "  ", "node01 second", "node01 HCA-x", "node01 mlx5_0 more", "MT4123 ConnectX6 Mellanox Technologies"]
        {
            assert_eq!(clean_host(name), None, "{name}");
        }
    }

    #[test]
    fn default_names_identify_no_host() {
        let own = [Regex::new("^tmp-").unwrap()];
        let names = HostNames::new(&own);
        for name in [
            "Mellanox Technologies Aggregation Node",
            "MT4123",
            "mt25408",
            "ConnectX-6",
            "connectx7",
            "LOCALHOST",
            "localhost.localdomain",
            "Ubuntu",
            "unknown",
            "None",
            "N/A",
            "-",
            "",
            "tmp-1",
            "Infiniscale-IV",
        ] {
            assert!(names.is_generic(name), "{name}");
        }
        for name in ["mt01", "node-1", "ubuntu-7", "connect"] {
            assert!(!names.is_generic(name), "{name}");
        }
        assert!(names.is_ignored("tmp-1") && !names.is_ignored("localhost"));
        assert_eq!(names.choose(["localhost", "gpu-a017 mlx5_2"]), Some("gpu-a017"));
        assert_eq!(names.choose(["MT4123 ConnectX6 Mellanox Technologies", "N/A"]), None);
        assert!(is_aggregation_node("Mellanox Technologies Aggregation Node"));
    }

    #[test]
    fn the_name_of_a_switch_is_what_people_call_it() {
        for (name, clean) in [
            ("MF0;ib-leaf-1:MQM9700/U1", "ib-leaf-1"),
            ("MF0;dir1:CS8500/L07/U1", "dir1:CS8500/L07/U1"),
            ("ib-leaf-su2-r3:17", "ib-leaf-su2-r3"),
            ("ib-leaf-su2-r3:1/17/1", "ib-leaf-su2-r3"),
            (" leaf ", "leaf"),
            ("leaf:a", "leaf:a"),
            (":1", ":1"),
            ("", ""),
        ] {
            assert_eq!(clean_switch(name), clean);
        }
    }
}
