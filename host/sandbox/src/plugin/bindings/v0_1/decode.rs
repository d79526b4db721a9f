//! From an answer as it crossed the boundary to an answer as the host understands it.
//!
//! Checks what has to hold so that the answer *means* something: offsets, positions and row numbers lead somewhere,
//! counts are within their bounds. Whether the topology is valid (forest, tiers, names) is another room's question.
//! Works in one pass and shares what repeats: most groups of an answer have the same label keys and few levels.

use std::sync::Arc;

use topoloom_core::names::NodeName;
use topoloom_core::plugin::{Answer, Answered, CallError, Limit, Transfer};
use topoloom_core::text;
use topoloom_core::topology::{
    Coverage, Diagnostic, Group, LabelOperator, LabelRequirement, LabelSelector, Members, Subject, Topology,
};

use super::bounds::{at_most, invalid, short};
use super::generated::topoloom::discovery::types;
use super::wit;

/// The longest detail of a diagnostic that is kept, in bytes.
const DETAIL: usize = 1 << 10;
/// What people call a group, in bytes: a line that they read.
const DESCRIPTION: usize = 256;

/// What the answer is measured against.
pub(super) struct AnswerBounds {
    /// The nodes that the guest saw.
    pub(super) rows: u32,
    /// Bytes of state.
    pub(super) state: usize,
    /// Whether the guest was given a state: only then there is something that can be unchanged.
    pub(super) had_state: bool,
}

/// Decodes an answer.
///
/// # Errors
///
/// [`CallError::TooLarge`], [`CallError::LimitExceeded`] or [`CallError::InvalidResult`]: the first thing that is
/// wrong.
pub(super) fn answer(said: wit::Answer, bounds: &AnswerBounds) -> Result<Answer, CallError> {
    let wit::Answer { outcome, state } = said;
    if state.len() > bounds.state {
        let (what, limit) = (Transfer::State, bounds.state);
        return Err(CallError::TooLarge { what, limit, report: Box::default() });
    }
    let outcome = match outcome {
        wit::Outcome::Unchanged if bounds.had_state => Answered::Unchanged,
        wit::Outcome::Unchanged => {
            return Err(invalid("it answers `unchanged`, but has no state of an earlier answer"));
        }
        wit::Outcome::Topology(said) => Answered::Topology(topology(said, bounds)?),
    };
    Ok(Answer { outcome, state })
}

fn topology(said: types::Topology, bounds: &AnswerBounds) -> Result<Topology, CallError> {
    let types::Topology { coverage, levels, groups, diagnostics } = said;
    let nodes = bounds.rows as usize;
    at_most(Limit::Groups, "groups", groups.len(), nodes)?;
    at_most(Limit::Groups, "levels", levels.len(), nodes)?;
    at_most(Limit::Diagnostics, "diagnostics", diagnostics.len(), nodes)?;
    let levels = levels.into_iter().map(SharedLevel::read).collect::<Result<Vec<_>, _>>()?;
    at_most(Limit::Members, "members", groups.iter().map(|group| count(&group.members)).sum(), nodes)?;
    let spoken_of = |said: &types::Diagnostic| match &said.subject {
        types::Subject::Rows(rows) => rows.len(),
        _ => 0,
    };
    at_most(Limit::Members, "rows in diagnostics", diagnostics.iter().map(spoken_of).sum(), nodes)?;
    let count = groups.len();
    let mut labels = Labels::default();
    let groups = groups
        .into_iter()
        .enumerate()
        .map(|(position, said)| group(position, said, &levels, &mut labels, bounds, count))
        .collect::<Result<_, _>>()?;
    let diagnostics = diagnostics.into_iter().map(|said| diagnostic(said, bounds, count)).collect::<Result<_, _>>()?;
    let coverage = match coverage {
        types::Coverage::Complete => Coverage::Complete,
        types::Coverage::AdditionsOnly => Coverage::AdditionsOnly,
    };
    Ok(Topology { coverage, groups, diagnostics })
}

/// A level whose texts are shared by all its groups.
struct SharedLevel {
    tier: u32,
    tier_name: Option<Arc<str>>,
    kind: Option<Arc<str>>,
}

impl SharedLevel {
    fn read(said: types::Level) -> Result<Self, CallError> {
        let types::Level { tier, tier_name, kind } = said;
        short("a tier name", tier_name.as_deref().unwrap_or_default())?;
        short("a kind", kind.as_deref().unwrap_or_default())?;
        Ok(Self { tier, tier_name: tier_name.map(Into::into), kind: kind.map(Into::into) })
    }
}

/// How many members there are, before any of them is read.
fn count(members: &types::Members) -> usize {
    match members {
        types::Members::Rows(list) | types::Members::Groups(list) => list.len(),
        types::Members::Names(names) => names.ends.len(),
        types::Members::Selector(_) => 1,
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

fn group(
    position: usize,
    said: types::Group,
    levels: &[SharedLevel],
    labels: &mut Labels,
    bounds: &AnswerBounds,
    groups: usize,
) -> Result<Group, CallError> {
    let types::Group { id, level, labels: own, members, description, fixed_name } = said;
    let Some(SharedLevel { tier, tier_name, kind }) = levels.get(level as usize) else {
        return Err(invalid(format!("group {position} is of level {level} and there are {} levels", levels.len())));
    };
    short("a group id", &id)?;
    short("a fixed name", fixed_name.as_deref().unwrap_or_default())?;
    at_most(Limit::Labels, "labels in one group", own.len(), 0)?;
    for (key, value) in &own {
        short("a label key", key)?;
        short("a label value", value)?;
    }
    let members = match members {
        types::Members::Rows(rows) => {
            in_range(&rows, bounds.rows as usize).map_err(|row| {
                invalid(format!("group {position} has node row {row} and there are {} nodes", bounds.rows))
            })?;
            Members::Rows(rows)
        }
        types::Members::Groups(positions) => {
            in_range(&positions, groups).map_err(|member| {
                invalid(format!("group {position} has group {member} and there are {groups} groups"))
            })?;
            Members::Groups(positions)
        }
        types::Members::Names(names) => {
            let names = unpack(&names).map_err(|what| invalid(format!("the names of group {position}: {what}")))?;
            let names = names.map(|name| short("a member name", name).map(|()| NodeName::from(name)));
            Members::Names(names.collect::<Result<_, _>>()?)
        }
        types::Members::Selector(said) => Members::Selector(selector(position, said)?),
    };
    Ok(Group {
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

fn selector(position: usize, said: types::LabelSelector) -> Result<LabelSelector, CallError> {
    let count = said.match_labels.len();
    let requirements = count.saturating_add(said.match_expressions.len());
    at_most(Limit::Selector, "requirements in one selector", requirements, 0)?;
    let values = said.match_expressions.iter().map(|requirement| requirement.values.len()).sum();
    at_most(Limit::SelectorValues, "values in one selector", values, 0)?;
    let expressions = said.match_expressions.iter();
    let texts = expressions.flat_map(|requirement| std::iter::once(&requirement.key).chain(&requirement.values));
    for text in said.match_labels.iter().flat_map(|(key, value)| [key, value]).chain(texts) {
        short("a text of a selector", text)?;
    }
    let match_labels: std::collections::BTreeMap<_, _> = said.match_labels.into_iter().collect();
    if match_labels.len() != count {
        return Err(invalid(format!("the selector of group {position} has a label key twice")));
    }
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
    let match_expressions = said.match_expressions.into_iter().map(requirement).collect();
    Ok(LabelSelector { match_labels, match_expressions })
}

fn diagnostic(said: types::Diagnostic, bounds: &AnswerBounds, groups: usize) -> Result<Diagnostic, CallError> {
    let types::Diagnostic { code, subject, detail } = said;
    short("a diagnostic code", &code)?;
    let detail = text::line(&detail, DETAIL);
    let subject = match subject {
        types::Subject::Source => Subject::Source,
        types::Subject::Rows(rows) => {
            in_range(&rows, bounds.rows as usize).map_err(|row| {
                invalid(format!("a diagnostic names node row {row} and there are {} nodes", bounds.rows))
            })?;
            Subject::Rows(rows)
        }
        types::Subject::Group(position) => {
            in_range(&[position], groups).map_err(|position| {
                invalid(format!("a diagnostic names group {position} and there are {groups} groups"))
            })?;
            Subject::Group(position)
        }
        types::Subject::Name(name) => Subject::Name(text::line(&name, DETAIL)),
    };
    Ok(Diagnostic { code: code.into(), subject, detail })
}

/// The entries of a packed text.
///
/// # Errors
///
/// What is wrong with its offsets. Checked before the first entry is handed out, so that half a text is never used.
pub(super) fn unpack(packed: &types::Packed) -> Result<impl Iterator<Item = &str>, String> {
    let types::Packed { text, ends } = packed;
    let mut begin = 0;
    for (entry, &end) in ends.iter().enumerate() {
        if end < begin {
            return Err(format!("entry {entry} ends at {end}, before it begins at {begin}"));
        }
        if !text.is_char_boundary(end as usize) {
            return Err(format!("entry {entry} ends at {end}, which is no character boundary of {} bytes", text.len()));
        }
        begin = end;
    }
    if begin as usize != text.len() {
        return Err(format!("the last entry ends at {begin} and the text has {} bytes", text.len()));
    }
    let begins = std::iter::once(0).chain(ends.iter().copied());
    Ok(begins.zip(ends).map(|(begin, &end)| text.get(begin as usize..end as usize).unwrap_or_default()))
}

/// The first number that is not below the bound. Most lists are short and right, so it looks for the largest first.
fn in_range(numbers: &[u32], bound: usize) -> Result<(), u32> {
    match numbers.iter().max() {
        Some(&largest) if largest as usize >= bound => Err(largest),
        _ => Ok(()),
    }
}
