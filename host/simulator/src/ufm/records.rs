//! What a port, a system and a link look like: every key once, with its order and its kind.

use super::Keys;
use crate::wire::{Layout, Template, TemplateValue};
use TemplateValue::{Field, Fixed, List};

/// What differs between two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortField {
    Name,
    Guid,
    SystemId,
    Kind,
    SystemName,
    NodeDescription,
    Number,
    Label,
    Path,
    Tier,
    Physical,
    Logical,
    Speed,
    Width,
    Mtu,
    Lid,
    Address,
    Peer,
    PeerGuid,
    PeerName,
    PeerDescription,
    PeerLabel,
    PeerLid,
    PeerAddress,
}

/// What differs between two systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemField {
    Kind,
    Guid,
    Name,
    Role,
    Model,
    Technology,
    Description,
    Groups,
    Ports,
    Address,
    Managed,
}

/// What differs between two links. The number is the end, 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkField {
    Name,
    Guid(usize),
    Port(usize),
    Label(usize),
    PortName(usize),
    Description(usize),
    Cable,
}

/// The three kinds of records, laid out.
#[derive(Debug)]
pub(super) struct Records {
    pub(super) layout: Layout,
    pub(super) port: Template<PortField>,
    pub(super) system: Template<SystemField>,
    pub(super) link: Template<LinkField>,
}

impl Records {
    pub(super) fn new(layout: Layout, keys: Keys) -> Self {
        let port = match keys {
            Keys::All => Template::new(layout, &port_keys()),
            Keys::Few => Template::new(layout, &old_port_keys()),
        };
        Self { layout, port, system: Template::new(layout, &system_keys()), link: Template::new(layout, &link_keys()) }
    }
}

fn port_keys() -> Vec<(&'static str, TemplateValue<PortField>)> {
    use PortField as P;
    vec![
        ("external_number", Field(P::Number)),
        ("physical_state", Field(P::Physical)),
        ("path", Field(P::Path)),
        ("tier", Field(P::Tier)),
        ("high_ber_severity", Fixed("\"N/A\"")),
        ("lid", Field(P::Lid)),
        ("mirror", Fixed("\"disable\"")),
        ("mirror_traffic", Fixed("\"N/A\"")),
        ("logical_state", Field(P::Logical)),
        ("capabilities", List(&["healthy_operations", "reset", "disable"])),
        ("mtu", Field(P::Mtu)),
        ("peer_port_dname", Field(P::PeerLabel)),
        ("severity", Fixed("\"Info\"")),
        ("active_speed", Field(P::Speed)),
        ("enabled_speed", List(&["NDR"])),
        ("supported_speed", List(&["NDR"])),
        ("active_width", Field(P::Width)),
        ("enabled_width", List(&["4x"])),
        ("supported_width", List(&["4x"])),
        ("fec_mode_active", Fixed("\"Interleaved_Standard_RS-FEC - (544,514)\"")),
        ("status_opcode", Fixed("\"No issue was observed\"")),
        ("dname", Field(P::Label)),
        ("peer_node_name", Field(P::PeerName)),
        ("peer_node_description", Field(P::PeerDescription)),
        ("peer", Field(P::Peer)),
        ("peer_guid", Field(P::PeerGuid)),
        ("peer_node_guid", Field(P::PeerGuid)),
        ("peer_lid", Field(P::PeerLid)),
        ("peer_ip", Field(P::PeerAddress)),
        ("description", Field(P::Kind)),
        ("node_description", Field(P::NodeDescription)),
        ("number", Field(P::Number)),
        ("module", Fixed("\"N/A\"")),
        ("guid", Field(P::Guid)),
        ("systemID", Field(P::SystemId)),
        ("system_name", Field(P::SystemName)),
        ("system_ip", Field(P::Address)),
        ("name", Field(P::Name)),
    ]
}

fn old_port_keys() -> Vec<(&'static str, TemplateValue<PortField>)> {
    use PortField as P;
    vec![
        ("description", Field(P::Kind)),
        ("number", Field(P::Number)),
        ("external_number", Field(P::Number)),
        ("guid", Field(P::Guid)),
        ("lid", Field(P::Lid)),
        ("logical_state", Field(P::Logical)),
        ("mtu", Field(P::Mtu)),
        ("name", Field(P::Name)),
        ("node_description", Fixed("\"N/A\"")),
        ("path", Field(P::Path)),
        ("peer", Field(P::Peer)),
        ("physical_state", Field(P::Physical)),
        ("severity", Fixed("\"Info\"")),
        ("systemID", Field(P::SystemId)),
        ("system_name", Field(P::SystemName)),
        ("tier", Field(P::Tier)),
    ]
}

fn system_keys() -> Vec<(&'static str, TemplateValue<SystemField>)> {
    use SystemField as S;
    vec![
        ("name", Field(S::Guid)),
        ("guid", Field(S::Guid)),
        ("system_guid", Field(S::Guid)),
        ("system_name", Field(S::Name)),
        ("type", Field(S::Kind)),
        ("role", Field(S::Role)),
        ("model", Field(S::Model)),
        ("technology", Field(S::Technology)),
        ("description", Field(S::Description)),
        ("vendor", Fixed("\"Mellanox\"")),
        ("state", Fixed("\"active\"")),
        ("sm_mode", Fixed("\"noSM\"")),
        ("severity", Fixed("\"Info\"")),
        ("total_alarms", Fixed("0")),
        ("is_manual_ip", Fixed("false")),
        ("is_managed", Field(S::Managed)),
        ("ip", Field(S::Address)),
        ("fw_version", Fixed("\"N/A\"")),
        ("sw_version", Fixed("\"N/A\"")),
        ("groups", Field(S::Groups)),
        ("modules", List(&[])),
        ("capabilities", List(&[])),
        ("ports", Field(S::Ports)),
    ]
}

fn link_keys() -> Vec<(&'static str, TemplateValue<LinkField>)> {
    use LinkField as L;
    vec![
        ("source_guid", Field(L::Guid(0))),
        ("source_port", Field(L::Port(0))),
        ("source_port_dname", Field(L::Label(0))),
        ("source_port_name", Field(L::PortName(0))),
        ("source_port_node_description", Field(L::Description(0))),
        ("destination_guid", Field(L::Guid(1))),
        ("destination_port", Field(L::Port(1))),
        ("destination_port_dname", Field(L::Label(1))),
        ("destination_port_name", Field(L::PortName(1))),
        ("destination_port_node_description", Field(L::Description(1))),
        ("width", Fixed("\"4x\"")),
        ("severity", Fixed("\"Info\"")),
        ("capabilities", List(&[])),
        ("cable_info", Field(L::Cable)),
        ("name", Field(L::Name)),
    ]
}
