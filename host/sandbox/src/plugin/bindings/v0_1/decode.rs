//! From an answer as it crossed the boundary to an answer as the host understands it.
//!
//! What has to hold so that the answer *means* something is checked first, as a whole, by the rules that the SDK has as well
//! (`topoloom_core::rules::form`). Whether the topology is valid (forest, tiers, names) is another room's question. Works in one
//! pass and shares what repeats: most groups of an answer have the same label keys and few levels.

use std::sync::Arc;

use topoloom_core::names::NodeName;
use topoloom_core::plugin::{Answer, Answered, CallError};
use topoloom_core::rules::answer::Packed;
use topoloom_core::rules::form::{self, Form};
use topoloom_core::text;
use topoloom_core::topology::{
    Coverage, Diagnostic, Group, LabelOperator, LabelRequirement, LabelSelector, Members, Subject, Topology,
};

use super::generated::topoloom::discovery::types;
use super::wit;

topoloom_core::said!();

/// The longest detail of a diagnostic that is kept, in bytes.
const DETAIL: usize = 1 << 10;
/// What people call a group, in bytes: a line that they read.
const DESCRIPTION: usize = 256;

/// Decodes an answer.
///
/// # Errors
///
/// [`CallError::TooLarge`], [`CallError::LimitExceeded`] or [`CallError::InvalidResult`]: the first thing that is
/// wrong.
pub(super) fn answer(answer: wit::Answer, form: &Form) -> Result<Answer, CallError> {
    form::check(&said(&answer), form)?;
    let wit::Answer { outcome, state } = answer;
    let outcome = match outcome {
        wit::Outcome::Unchanged => Answered::Unchanged,
        wit::Outcome::Topology(said) => Answered::Topology(topology(said)),
    };
    Ok(Answer { outcome, state })
}

fn topology(said: types::Topology) -> Topology {
    let types::Topology { coverage, levels, groups, diagnostics } = said;
    let levels: Vec<SharedLevel> = levels.into_iter().map(SharedLevel::read).collect();
    let mut labels = Labels::default();
    let groups = groups.into_iter().filter_map(|said| group(said, &levels, &mut labels)).collect();
    let diagnostics = diagnostics.into_iter().map(diagnostic).collect();
    let coverage = match coverage {
        types::Coverage::Complete => Coverage::Complete,
        types::Coverage::AdditionsOnly => Coverage::AdditionsOnly,
    };
    Topology { coverage, groups, diagnostics }
}

/// A level whose texts are shared by all its groups.
struct SharedLevel {
    tier: u32,
    tier_name: Option<Arc<str>>,
    kind: Option<Arc<str>>,
}

impl SharedLevel {
    fn read(said: types::Level) -> Self {
        let types::Level { tier, tier_name, kind } = said;
        Self { tier, tier_name: tier_name.map(Into::into), kind: kind.map(Into::into) }
    }
}

/// The labels of the group before: groups of one level mostly have the same keys, and often the same values.
#[derive(Default)]
struct Labels {
    last: Vec<(Arc<str>, Arc<str>)>,
}

impl Labels {
    fn share(&mut self, said: Vec<(String, String)>) -> Vec<(Arc<str>, Arc<str>)> {
        let last = std::mem::take(&mut self.last);
        let mut before = last.iter();
        let labels: Vec<_> = said
            .into_iter()
            .map(|(key, value)| match before.next() {
                Some((k, v)) => (same(k, key), same(v, value)),
                None => (key.into(), value.into()),
            })
            .collect();
        self.last = if labels.is_empty() { last } else { labels.clone() };
        labels
    }
}

fn same(known: &Arc<str>, said: String) -> Arc<str> {
    if **known == *said { Arc::clone(known) } else { said.into() }
}

/// A group; none, which was excluded before, if it is of no level.
fn group(said: types::Group, levels: &[SharedLevel], labels: &mut Labels) -> Option<Group> {
    let types::Group { id, level, labels: own, members, description, fixed_name } = said;
    let SharedLevel { tier, tier_name, kind } = levels.get(level as usize)?;
    let members = match members {
        types::Members::Rows(rows) => Members::Rows(rows),
        types::Members::Groups(positions) => Members::Groups(positions),
        types::Members::Names(names) => {
            Members::Names(unpack(&names).map(|names| names.map(NodeName::from).collect()).unwrap_or_default())
        }
        types::Members::Selector(said) => Members::Selector(selector(said)),
    };
    Some(Group {
        id: id.into(),
        kind: kind.clone(),
        fixed_name: fixed_name.map(Into::into),
        // Its reader is a person: one line, and no more than a person reads.
        description: description.map(|said| text::line(&said, DESCRIPTION).into()),
        tier: *tier,
        tier_name: tier_name.clone(),
        labels: labels.share(own),
        members,
    })
}

fn selector(said: types::LabelSelector) -> LabelSelector {
    let requirement = |said: types::LabelRequirement| LabelRequirement {
        key: said.key,
        operator: match said.operator {
            types::LabelOperator::In => LabelOperator::In,
            types::LabelOperator::NotIn => LabelOperator::NotIn,
            types::LabelOperator::Exists => LabelOperator::Exists,
            types::LabelOperator::DoesNotExist => LabelOperator::DoesNotExist,
        },
        values: said.values,
    };
    LabelSelector {
        match_labels: said.match_labels.into_iter().collect(),
        match_expressions: said.match_expressions.into_iter().map(requirement).collect(),
    }
}

fn diagnostic(said: types::Diagnostic) -> Diagnostic {
    let types::Diagnostic { code, subject, detail } = said;
    let subject = match subject {
        types::Subject::Source => Subject::Source,
        types::Subject::Rows(rows) => Subject::Rows(rows),
        types::Subject::Group(position) => Subject::Group(position),
        types::Subject::Name(name) => Subject::Name(text::line(&name, DETAIL)),
    };
    Diagnostic { code: code.into(), subject, detail: text::line(&detail, DETAIL) }
}

/// The entries of a packed text.
///
/// # Errors
///
/// What is wrong with its offsets.
pub(super) fn unpack(packed: &types::Packed) -> Result<impl Iterator<Item = &str>, String> {
    Packed { text: &packed.text, ends: &packed.ends }.entries()
}
