//! What names of hosts and switches say, and which of them say nothing.
//!
//! A name out of the fabric is what somebody typed, what a driver made of it, or what the firmware had before any
//! driver came. The last kind is the same on many machines: one that gets through glues unrelated switches together.

use std::borrow::Cow;

/// What a SHARP virtual adapter calls itself; every switch has one, and all have the same name.
const AGGREGATION: &str = "aggregation node";
/// Parts of names that hardware has before anybody names it.
const FACTORY_PARTS: [&str; 3] = [AGGREGATION, "mellanox technologies", "infiniscale"];
/// Names that many machines share.
const SHARED: [&str; 8] = ["localhost", "localhost.localdomain", "ubuntu", "unknown", "none", "n/a", "-", ""];
/// How names of adapters begin.
const DEVICES: [&str; 8] = ["mlx4_", "mlx5_", "hca-", "ib", "hfi1_", "bnxt_re", "rdma", "roce"];

/// Whether a text names an aggregation node.
pub(crate) fn is_aggregation(text: &str) -> bool {
    contains_ignoring_case(text, AGGREGATION)
}

/// The name of a host out of `system_name`, else out of `node_description`.
pub(crate) fn host<'a>(system_name: Option<&'a str>, node_description: Option<&'a str>) -> Option<Cow<'a, str>> {
    [system_name, node_description].into_iter().flatten().find_map(host_name)
}

/// The token that names the adapter: the second word of a NodeDescription (`mlx5_4`), else the first part of the
/// label of the port (`HCA-3/1`).
pub(crate) fn adapter<'a>(node_description: Option<&'a str>, dname: Option<&'a str>) -> Option<&'a str> {
    let from_description = node_description.and_then(|text| text.split_whitespace().next_back()).filter(|t| is_device(t));
    from_description.or_else(|| dname.and_then(|text| text.split('/').next()))
}

fn host_name(text: &str) -> Option<Cow<'_, str>> {
    let name = without_number(text.trim());
    let mut words = name.split_whitespace();
    let (first, second, third) = (words.next()?, words.next(), words.next());
    // A space in what remains: this is a sentence, not the name of a host.
    let host = match (second, third) {
        (None, _) => first,
        (Some(device), None) if is_device(device) => first,
        _ => return None,
    };
    (!is_factory(name) && !is_factory(host)).then_some(Cow::Borrowed(host))
}

/// Cuts a trailing `:<digits>`.
fn without_number(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((name, digits)) if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => name.trim_end(),
        _ => text,
    }
}

fn is_device(word: &str) -> bool {
    DEVICES.iter().any(|device| starts_ignoring_case(word, device))
}

/// Whether a name is one that hardware has before anybody names it.
fn is_factory(name: &str) -> bool {
    let is_shared = SHARED.iter().any(|shared| name.eq_ignore_ascii_case(shared));
    let is_part = FACTORY_PARTS.iter().any(|part| contains_ignoring_case(name, part));
    let numbered = |prefix: &str| {
        starts_ignoring_case(name, prefix) && name.bytes().nth(prefix.len()).is_some_and(|byte| byte.is_ascii_digit())
    };
    // The name of an adapter alone is what remains of a NodeDescription whose host had no name yet.
    let is_chip = starts_ignoring_case(name, "connectx") || ["mt", "mlx4_", "mlx5_", "hca-"].into_iter().any(numbered);
    is_shared || is_part || is_chip
}

/// The name of a switch: `MF0;<name>:<model>/U1` is `<name>`, a trailing port is cut. A card of a chassis keeps its
/// place (`dir1/L07/U1`): two cards are two switches.
pub(crate) fn switch(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim();
    let name = match text.split_once(';') {
        Some((prefix, rest)) if starts_ignoring_case(prefix, "mf") && !rest.is_empty() => {
            let (name, model) = rest.split_once(':').unwrap_or((rest, ""));
            // The port may follow behind the chip: `.../U1:17`.
            let place = model.split_once('/').map_or("", |(_, place)| without_port(place));
            match place {
                "" | "U1" => Cow::Borrowed(name),
                place => Cow::Owned(format!("{name}/{place}")),
            }
        }
        _ => Cow::Borrowed(without_port(text)),
    };
    (!name.is_empty() && !name.eq_ignore_ascii_case("n/a")).then_some(name)
}

/// Cuts a trailing `:<port>` or `:<a>/<b>/<c>`.
fn without_port(text: &str) -> &str {
    match text.rsplit_once(':') {
        Some((name, port))
            if !port.is_empty() && port.split('/').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())) =>
        {
            name.trim_end()
        }
        _ => text,
    }
}

fn starts_ignoring_case(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix.as_bytes()))
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    // All parts have a space or more than ten letters: most names fail on their length.
    text.len() >= part.len() && text.as_bytes().windows(part.len()).any(|at| at.eq_ignore_ascii_case(part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_host_loses_its_adapter() {
        for (text, name) in [
            ("node01 mlx5_0", "node01"),
            ("node01 HCA-3", "node01"),
            (" node01\t HCA-3/1 ", "node01"),
            ("node01 ibp3s0:7", "node01"),
            ("node01:1", "node01"),
            ("gpu-a017", "gpu-a017"),
            ("Node01.Example.COM", "Node01.Example.COM"),
            ("mt-rack-7", "mt-rack-7"),
        ] {
            assert_eq!(host(Some(text), None).as_deref(), Some(name), "{text}");
        }
        assert_eq!(host(Some("two words"), Some("node02 mlx5_1")).as_deref(), Some("node02"));
        assert_eq!(host(Some("three words mlx5_0"), None), None);
    }

    #[test]
    fn what_many_machines_are_called_is_no_name() {
        for text in [
            "Mellanox Technologies Aggregation Node",
            "AGGREGATION NODE",
            "mellanox technologies",
            "InfiniScale-IV",
            "MT4129 ConnectX7   Mellanox Technologies",
            "MT25408",
            "ConnectX-6",
            "mlx5_0",
            "LocalHost",
            "localhost.localdomain mlx5_0",
            "ubuntu HCA-1",
            "unknown",
            "none",
            "n/a",
            "-",
            "",
            " ",
            ":7",
        ] {
            assert_eq!(host(Some(text), Some(text)), None, "{text}");
        }
    }

    #[test]
    fn the_name_of_a_switch_loses_model_and_port() {
        for (text, name) in [
            ("MF0;leaf-7:MQM9700/U1", "leaf-7"),
            ("MF0;leaf-7:MQM9700/U1:17", "leaf-7"),
            ("MF0;leaf-7", "leaf-7"),
            ("ib-leaf-su2-r3:17", "ib-leaf-su2-r3"),
            ("ib-leaf-su2-r3:1/17/1", "ib-leaf-su2-r3"),
            ("ib-leaf-su2-r3", "ib-leaf-su2-r3"),
            ("MF0;dir1:CS8500/L07/U1", "dir1/L07/U1"),
            ("MF0;dir1:CS8500/S03/U1", "dir1/S03/U1"),
            ("sw:blue", "sw:blue"),
        ] {
            assert_eq!(switch(text).as_deref(), Some(name), "{text}");
        }
        assert_eq!([switch(""), switch("N/A"), switch(":7")], [None, None, None]);
    }

    #[test]
    fn an_adapter_is_named_by_its_device_or_its_label() {
        assert_eq!(adapter(Some("gpu-a017 mlx5_4"), Some("HCA-5/1")), Some("mlx5_4"));
        assert_eq!(adapter(Some("gpu-a017"), Some("HCA-5/1")), Some("HCA-5"));
        assert_eq!(adapter(None, None), None);
    }
}
