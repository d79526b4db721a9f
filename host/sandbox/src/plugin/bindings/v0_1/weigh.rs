//! How many bytes a value has that crosses the boundary: what is counted as received and sent. Texts and lists count
//! with their content; the few bytes of records around them do not.

use super::generated::topoloom::discovery::{applied, http, types};
use super::wit;

/// The size of a row number, a code or an offset.
const NUMBER: usize = size_of::<u32>();

pub(super) fn packed(packed: &types::Packed) -> usize {
    packed.text.len() + NUMBER * packed.ends.len()
}

pub(super) fn applied(groups: &[applied::AppliedGroup]) -> usize {
    let group = |group: &applied::AppliedGroup| {
        let texts =
            [group.id.as_deref().unwrap_or_default(), &group.name, group.tier_name.as_deref().unwrap_or_default()];
        texts.into_iter().map(str::len).sum::<usize>()
            + pairs(&group.labels)
            + group.members.iter().map(members).sum::<usize>()
    };
    groups.iter().map(group).sum()
}

pub(super) fn request(request: &http::Request) -> usize {
    let http::Request { endpoint, method: _, path_and_query, headers, body } = request;
    endpoint.len() + path_and_query.len() + pairs(headers) + body.as_ref().map_or(0, Vec::len)
}

pub(super) fn answer(answer: &wit::Answer) -> usize {
    let topology = match &answer.outcome {
        wit::Outcome::Unchanged => 0,
        wit::Outcome::Topology(topology) => {
            let groups = topology.groups.iter().map(|group| {
                let fixed = [&group.fixed_name, &group.description];
                let fixed = fixed.into_iter().flatten().map(String::len).sum::<usize>();
                group.id.len() + fixed + pairs(&group.labels) + members(&group.members)
            });
            let diagnostics =
                topology.diagnostics.iter().map(|said| said.code.len() + said.detail.len() + subject(said));
            groups.sum::<usize>() + diagnostics.sum::<usize>()
        }
    };
    answer.state.len() + topology
}

pub(super) fn requirements(said: &wit::Requirements) -> usize {
    let keys = said.node_labels.iter().chain(&said.node_annotations).map(String::len);
    let endpoints = said.endpoints.iter().map(|endpoint| {
        let bundle = endpoint.tls.ca_bundle.as_ref().map_or(0, String::len);
        endpoint.name.len() + endpoint.purpose.len() + endpoint.paths.iter().map(String::len).sum::<usize>() + bundle
    });
    keys.sum::<usize>() + endpoints.sum::<usize>()
}

pub(super) fn problems(problems: &[wit::Problem]) -> usize {
    problems.iter().map(|problem| problem.path.len() + problem.message.len()).sum()
}

pub(super) fn description(said: &wit::Description) -> usize {
    let wit::Description { name, version, vendor, summary, config_schema } = said;
    [name, version, vendor, summary, config_schema].into_iter().map(String::len).sum()
}

fn subject(said: &types::Diagnostic) -> usize {
    match &said.subject {
        types::Subject::Source | types::Subject::Group(_) => 0,
        types::Subject::Rows(rows) => NUMBER * rows.len(),
        types::Subject::Name(name) => name.len(),
    }
}

fn members(members: &types::Members) -> usize {
    match members {
        types::Members::Rows(numbers) | types::Members::Groups(numbers) => NUMBER * numbers.len(),
        types::Members::Names(names) => packed(names),
        types::Members::Selector(selector) => {
            let values = selector
                .match_expressions
                .iter()
                .map(|requirement| requirement.key.len() + requirement.values.iter().map(String::len).sum::<usize>());
            pairs(&selector.match_labels) + values.sum::<usize>()
        }
    }
}

fn pairs(pairs: &[(String, String)]) -> usize {
    pairs.iter().map(|(key, value)| key.len() + value.len()).sum()
}
