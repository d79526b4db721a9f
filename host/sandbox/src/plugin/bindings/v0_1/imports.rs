//! What a plugin of this version can call.
//!
//! Each function serves what was put into the store for this call and nothing else. A key that was not granted looks
//! exactly like one that no node has: a plugin cannot find out what it may not see.

use std::collections::BTreeMap;

use topoloom_core::plugin::{CredentialKind, Import};
use topoloom_core::snapshot::{Column, ColumnKey, Packed};
use topoloom_core::topology::{self, MemberKind, Object, Selector};
use wasmtime::component::Resource;

use super::super::super::guest::{Guest, Inputs};
use super::super::super::voice::LineLevel;
use super::generated::topoloom::discovery::{applied, http, log, nodes, types};
use super::requirements::method;
use super::{Response, Snapshot, decode, weigh};
use crate::endpoints::{EndpointRequest, Error};

impl types::Host for Guest {}

impl nodes::Host for Guest {}

impl nodes::HostSnapshot for Guest {
    async fn rows(&mut self, _snapshot: Resource<Snapshot>) -> wasmtime::Result<u32> {
        self.called.insert(Import::Rows);
        Ok(self.inputs.nodes.rows())
    }

    async fn generation(&mut self, _snapshot: Resource<Snapshot>) -> wasmtime::Result<u64> {
        self.called.insert(Import::Generation);
        Ok(self.inputs.nodes.generation())
    }

    async fn label(&mut self, _snapshot: Resource<Snapshot>, key: String) -> wasmtime::Result<types::Column> {
        self.called.insert(Import::Label);
        let granted = self.inputs.granted.labels.get(key.as_str()).cloned();
        column(self, &key, granted.map(ColumnKey::Label))
    }

    async fn annotation(&mut self, _snapshot: Resource<Snapshot>, key: String) -> wasmtime::Result<types::Column> {
        self.called.insert(Import::Annotation);
        let granted = self.inputs.granted.annotations.get(key.as_str()).cloned();
        column(self, &key, granted.map(ColumnKey::Annotation))
    }

    async fn names(&mut self, _snapshot: Resource<Snapshot>) -> wasmtime::Result<types::Packed> {
        self.called.insert(Import::Names);
        self.give(weight(self.inputs.nodes.packed_names()))?;
        Ok(packed(self.inputs.nodes.packed_names()))
    }

    async fn find(&mut self, _snapshot: Resource<Snapshot>, names: types::Packed) -> wasmtime::Result<Vec<u32>> {
        self.called.insert(Import::Find);
        self.take(weigh::packed(&names));
        self.give(NUMBER * names.ends.len())?;
        let names = decode::unpack(&names).map_err(|what| wasmtime::format_err!("find was given bad names: {what}"))?;
        let nodes = &self.inputs.nodes;
        Ok(names.map(|name| nodes.find(name).map_or(0, |row| row + 1)).collect())
    }

    async fn drop(&mut self, snapshot: Resource<Snapshot>) -> wasmtime::Result<()> {
        self.table.delete(snapshot)?;
        Ok(())
    }
}

/// The size of a row number or a code.
const NUMBER: usize = size_of::<u32>();

fn column(guest: &mut Guest, asked: &str, key: Option<ColumnKey>) -> wasmtime::Result<types::Column> {
    guest.take(asked.len());
    let weight = match key.as_ref().and_then(|key| guest.inputs.nodes.column(key)) {
        Some(column) => weight(column.dictionary()) + NUMBER * column.codes().len(),
        None => NUMBER * guest.inputs.nodes.rows() as usize,
    };
    guest.give(weight)?;
    Ok(match key.and_then(|key| guest.inputs.nodes.column(&key)) {
        Some(column) => filled(column),
        None => absent(guest.inputs.nodes.rows()),
    })
}

fn weight(packed: &Packed) -> usize {
    packed.text().len() + NUMBER * packed.ends().len()
}

fn filled(column: &Column) -> types::Column {
    types::Column { dictionary: packed(column.dictionary()), codes: column.codes().to_vec() }
}

fn absent(rows: u32) -> types::Column {
    let dictionary = types::Packed { text: String::new(), ends: Vec::new() };
    types::Column { dictionary, codes: vec![0; rows as usize] }
}

fn packed(packed: &Packed) -> types::Packed {
    types::Packed { text: packed.text().to_owned(), ends: packed.ends().to_vec() }
}

impl applied::Host for Guest {
    async fn groups(&mut self) -> wasmtime::Result<Vec<applied::AppliedGroup>> {
        self.called.insert(Import::Groups);
        let Inputs { nodes, applied, granted, .. } = &self.inputs;
        let mut positions: BTreeMap<&str, u32> = BTreeMap::new();
        for (position, object) in (0..).zip(applied.iter()) {
            positions.insert(&object.name, position);
        }
        let find = |name: &str| nodes.find(name);
        let shown = granted.node_names;
        let groups: Vec<_> = applied.iter().map(|object| applied_group(object, &positions, find, shown)).collect();
        self.give(weigh::applied(&groups))?;
        Ok(groups)
    }
}

/// Members in the form of the interface: those that exist as numbers, the rest by name. A regular expression has no
/// form there; no discoverer can have written one, so it is left out. Names of Nodes are for those who may see them:
/// without that grant, what is gone is left out, too.
fn applied_group(
    object: &Object,
    positions: &BTreeMap<&str, u32>,
    find: impl Fn(&str) -> Option<u32>,
    node_names: bool,
) -> applied::AppliedGroup {
    let mut rows = Vec::new();
    let mut groups = Vec::new();
    let mut names = types::Packed { text: String::new(), ends: Vec::new() };
    let mut members = Vec::new();
    for member in &object.spec.members {
        let found = match (&member.selector, member.kind) {
            (Selector::Exact(name), MemberKind::Node) => find(name).map(|row| rows.push(row)).ok_or(name),
            (Selector::Exact(name), MemberKind::HyperNode) => {
                positions.get(&**name).map(|&position| groups.push(position)).ok_or(name)
            }
            (Selector::Labels(selector), MemberKind::Node) => {
                members.extend(selector_out(selector).map(types::Members::Selector));
                Ok(())
            }
            (Selector::Labels(_) | Selector::Regex(_) | Selector::Absent, _) => Ok(()),
        };
        if let Err(name) = found
            && (node_names || member.kind == MemberKind::HyperNode)
        {
            names.text.push_str(name);
            // A HyperNode has at most 1.5 MiB in etcd.
            names.ends.push(u32::try_from(names.text.len()).unwrap_or(u32::MAX));
        }
    }
    if !rows.is_empty() {
        members.push(types::Members::Rows(rows));
    }
    if !groups.is_empty() {
        members.push(types::Members::Groups(groups));
    }
    if !names.ends.is_empty() {
        members.push(types::Members::Names(names));
    }
    applied::AppliedGroup {
        id: object.group_id.as_deref().map(str::to_owned),
        name: object.name.to_string(),
        tier: object.spec.tier,
        tier_name: object.spec.tier_name.as_deref().map(str::to_owned),
        labels: object.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect(),
        members,
    }
}

/// `None` when it has an operator that we do not know: such a selector selects nothing, and without that part it would
/// select more.
fn selector_out(selector: &topology::LabelSelector) -> Option<types::LabelSelector> {
    let match_labels = selector.match_labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    let requirement = |said: &topology::LabelRequirement| {
        let operator = match said.operator {
            topology::LabelOperator::In => types::LabelOperator::In,
            topology::LabelOperator::NotIn => types::LabelOperator::NotIn,
            topology::LabelOperator::Exists => types::LabelOperator::Exists,
            topology::LabelOperator::DoesNotExist => types::LabelOperator::DoesNotExist,
            topology::LabelOperator::Unknown(_) => return None,
        };
        Some(types::LabelRequirement { key: said.key.clone(), operator, values: said.values.clone() })
    };
    let match_expressions = selector.match_expressions.iter().map(requirement).collect::<Option<_>>()?;
    Some(types::LabelSelector { match_labels, match_expressions })
}

impl log::Host for Guest {
    async fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        self.called.insert(Import::Write);
        let level = match level {
            log::Level::Debug => LineLevel::Debug,
            log::Level::Info => LineLevel::Info,
            log::Level::Warn => LineLevel::Warn,
            log::Level::Error => LineLevel::Error,
        };
        self.take(message.len());
        self.voice.log(level, &message);
        Ok(())
    }
}

/// How an error crosses.
fn refused(guest: &mut Guest, error: Error) -> wasmtime::Result<http::Error> {
    guest.outside(&error);
    let words = error.to_string();
    guest.give(words.len())?;
    Ok(match error {
        Error::Denied { .. } => http::Error::Denied(words),
        Error::Connect(_) | Error::Closed(_) => http::Error::Connect(words),
        Error::Timeout { .. } => http::Error::Timeout(words),
        Error::TooLarge(_) => http::Error::TooLarge(words),
        Error::Protocol(_) => http::Error::Protocol(words),
    })
}

fn credential(kind: CredentialKind) -> types::Credential {
    match kind {
        CredentialKind::None => types::Credential::None,
        CredentialKind::Basic => types::Credential::Basic,
        CredentialKind::Token => types::Credential::Token,
        CredentialKind::Bearer => types::Credential::Bearer,
        CredentialKind::Mtls => types::Credential::Mtls,
    }
}

impl http::Host for Guest {
    async fn send(&mut self, request: http::Request) -> wasmtime::Result<Result<Resource<Response>, http::Error>> {
        self.called.insert(Import::Send);
        self.request()?;
        self.take(weigh::request(&request));
        let http::Request { endpoint, method: asked, path_and_query, headers, body } = request;
        let asked = EndpointRequest { endpoint, method: method(asked), path_and_query, headers, body };
        match self.session.send(&asked).await {
            Ok(opened) => Ok(Ok(self.table.push(Response(opened))?)),
            Err(error) => Ok(Err(refused(self, error)?)),
        }
    }

    async fn credential_of(&mut self, endpoint: String) -> wasmtime::Result<Result<types::Credential, http::Error>> {
        self.called.insert(Import::CredentialOf);
        self.look()?;
        self.take(endpoint.len());
        match self.session.credential(&endpoint).await {
            Ok(kind) => Ok(Ok(credential(kind))),
            Err(error) => Ok(Err(refused(self, error)?)),
        }
    }
}

impl http::HostResponse for Guest {
    async fn status(&mut self, response: Resource<Response>) -> wasmtime::Result<u16> {
        self.called.insert(Import::Status);
        Ok(self.table.get(&response)?.0.status())
    }

    async fn headers(&mut self, response: Resource<Response>) -> wasmtime::Result<Vec<(String, String)>> {
        self.called.insert(Import::Headers);
        let headers = self.table.get(&response)?.0.headers().to_vec();
        self.give(headers.iter().map(|(name, value)| name.len() + value.len()).sum())?;
        Ok(headers)
    }

    async fn read(&mut self, response: Resource<Response>, max: u32) -> wasmtime::Result<Result<Vec<u8>, http::Error>> {
        self.called.insert(Import::Read);
        match self.table.get_mut(&response)?.0.read(max as usize).await {
            Ok(piece) => {
                self.give(piece.len())?;
                Ok(Ok(piece))
            }
            Err(error) => Ok(Err(refused(self, error)?)),
        }
    }

    async fn drop(&mut self, response: Resource<Response>) -> wasmtime::Result<()> {
        self.table.delete(response)?;
        Ok(())
    }
}
