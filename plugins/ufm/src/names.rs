//! Names of adapters and chips in the fabric.

use std::borrow::Cow;
use topoloom_fabric::clean_switch;

/// How names of adapters begin.
const DEVICES: [&str; 8] = ["mlx4_", "mlx5_", "hca-", "ib", "hfi1_", "bnxt_re", "rdma", "roce"];

/// The token that names the adapter: the last word of a NodeDescription (`mlx5_4`), else the first part of the label
/// of the port (`HCA-3/1`).
pub(crate) fn adapter<'a>(node_description: Option<&'a str>, dname: Option<&'a str>) -> Option<&'a str> {
    let is_device = |word: &&str| {
        let starts = |device: &&str| {
            word.as_bytes().get(..device.len()).is_some_and(|w| w.eq_ignore_ascii_case(device.as_bytes()))
        };
        DEVICES.iter().any(starts)
    };
    // The first word is always the host.
    let device = node_description.and_then(|text| text.split_whitespace().skip(1).last()).filter(is_device);
    device.or_else(|| dname.and_then(|text| text.split('/').next()))
}

/// The name that identifies a switch without a GUID. A chip of a chassis keeps its place: `dir1/L07/U1` and
/// `dir1/L08/U1` are two switches, and hosts on two of them are not close.
pub(crate) fn switch<'a>(name: Option<&'a str>, description: Option<&'a str>) -> Option<Cow<'a, str>> {
    if let Some((name, place)) = [description, name].into_iter().flatten().find_map(chip) {
        return Some(Cow::Owned(format!("{name}/{place}")));
    }
    let clean = [name, description].into_iter().flatten().map(clean_switch);
    clean.into_iter().find(|name| !name.is_empty()).map(Cow::Borrowed)
}

/// Chassis and place of a chip, out of `MF0;<chassis>:<model>/<card>/<chip>`, perhaps with a port at its end.
fn chip(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.trim().split_once(';')?;
    let (name, model) = rest.split_once(':')?;
    let (_, place) = model.split_once('/')?;
    let place = place.split(':').next().filter(|place| place.contains('/'))?;
    (!name.is_empty()).then_some((name, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chip_of_a_chassis_keeps_its_place() {
        let card = "MF0;dir1:CS8500/L07/U1";
        for (name, description) in
            [(Some(card), None), (Some("dir1"), Some(card)), (None, Some("MF0;dir1:CS8500/L07/U1:17"))]
        {
            assert_eq!(switch(name, description).as_deref(), Some("dir1/L07/U1"), "{name:?} {description:?}");
        }
    }

    #[test]
    fn a_switch_goes_by_its_name_and_else_by_its_description() {
        assert_eq!(switch(Some("leaf-7"), Some("MF0;other:MQM9700/U1")).as_deref(), Some("leaf-7"));
        assert_eq!(switch(None, Some("leaf-7:1/17/1")).as_deref(), Some("leaf-7"));
        assert_eq!(switch(None, Some("MF0;leaf-7:MQM9700/U1")).as_deref(), Some("leaf-7"));
        assert_eq!(switch(None, None), None);
    }

    #[test]
    fn an_adapter_is_named_by_its_device_or_its_label() {
        assert_eq!(adapter(Some("gpu-a017 mlx5_4"), Some("HCA-5/1")), Some("mlx5_4"));
        assert_eq!(adapter(Some("gpu-a017"), Some("HCA-5/1")), Some("HCA-5"));
        assert_eq!(adapter(Some("ib-host"), None), None);
    }
}
