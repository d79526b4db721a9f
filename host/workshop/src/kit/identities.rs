//! Whether a group stays the same group while nodes come, go and change.
//!
//! A job refers to its HyperNode by name while it runs. A host keeps a name as long as the identity stays, and matches by
//! members where it does not; a plugin that gives old groups new identities leaves that to luck.

use std::collections::BTreeSet;
use std::sync::Arc;

use topoloom_core::names::NodeName;
use topoloom_core::topology::{Domain, Forest, Object, Tier};

use super::check::Check;
use super::objects::Written;
use super::report::Ledger;
use super::round::{Asked, End, NOT_RECORDED, Prepared, Round, below};
use super::sound::Based;
use super::stand::Stand;
use super::trial::{History, Node};

/// Nodes of a case that go, or get another label, one after the other.
const TRIED: usize = 6;

/// A node that comes. In the order of names it is the last one: what depends on the first member of a group stays.
const COMING: &str = "zzz-topoloom-coming";

/// The identities of one trial, before anything changes.
struct Before<'a> {
    one: &'a Based<'a>,
    forest: Arc<Forest>,
    state: Vec<u8>,
    written: Written,
    stored: Vec<Arc<Object>>,
}

/// A change of the nodes, and what it led to.
struct After<'a> {
    before: &'a Before<'a>,
    what: String,
    /// Nodes that are not where they were.
    moved: BTreeSet<NodeName>,
    asked: Asked,
    written: Option<Written>,
}

/// Nodes after a change.
pub(super) struct Change {
    pub(super) nodes: Vec<Node>,
    pub(super) what: String,
    moved: BTreeSet<NodeName>,
}

/// What can change about the nodes of a round.
type Changes = fn(&Prepared<'_>) -> Vec<Change>;

/// Tries all checks of the family.
pub(super) async fn run(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    let before: Vec<Before<'_>> = based.iter().filter_map(|one| Before::of(one, stand)).collect();
    none(stand, &before, ledger).await;
    let mut all = Vec::new();
    let kinds: [(Check, Changes); 3] =
        [(Check::IdentitiesAdd, add), (Check::IdentitiesRemove, remove), (Check::IdentitiesRelabel, relabel)];
    for (check, make) in kinds {
        let Some(mut sheet) = ledger.open(check) else { continue };
        sheet.nothing("no case has nodes that could change in this way");
        for before in &before {
            for change in make(&before.one.prepared) {
                // Another set of nodes has another generation.
                let after = before.after(change, History::Changed, stand).await;
                if after.is_not_recorded() {
                    sheet.untried(NOT_RECORDED);
                    continue;
                }
                sheet.tried();
                if let Some(what) = after.asked.end.fault().or_else(|| after.wrong_id()) {
                    sheet.error(before.one.case(), &format!("{}: {what}", after.what));
                }
                all.push(after);
            }
        }
        ledger.close(sheet);
    }
    names(&all, ledger);
}

/// The same nodes, and the objects of the first answer: there is nothing to write.
async fn none(stand: &impl Stand, before: &[Before<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::IdentitiesNone) else { return };
    sheet.nothing("no case has an answer with groups");
    for before in before {
        let nodes = before.one.prepared.trial.nodes.clone();
        let change = Change { nodes, what: String::new(), moved: BTreeSet::new() };
        let after = before.after(change, History::None, stand).await;
        if after.is_not_recorded() {
            sheet.untried(NOT_RECORDED);
            continue;
        }
        sheet.tried();
        let wrong = match (&after.asked.end, &after.written) {
            (End::Unchanged, _) => None,
            (_, Some(written)) if written.plan.steps.is_empty() => None,
            (_, Some(written)) => {
                let plan = written.plan.to_string();
                let first = plan.lines().next().unwrap_or_default().to_owned();
                let difference = before.end().unlike(&after.asked.end).unwrap_or(first);
                Some(format!("{} objects would be written: {difference}", written.plan.steps.len()))
            }
            (end, None) => Some(end.words()),
        };
        if let Some(what) = wrong {
            sheet.error(before.one.case(), &format!("with its own objects in the cluster: {what}"));
        }
    }
    ledger.close(sheet);
}

fn names(all: &[After<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::IdentitiesNames) else { return };
    if all.is_empty() {
        sheet.nothing("no case has nodes that could change");
    }
    for after in all {
        if let Some(what) = after.wrong_name() {
            sheet.error(after.before.one.case(), &format!("{}: {what}", after.what));
        }
    }
    ledger.close(sheet);
}

impl<'a> Before<'a> {
    /// The objects of a trial with groups.
    fn of(one: &'a Based<'a>, stand: &impl Stand) -> Option<Self> {
        let End::Topology { forest, state } = &one.base.end else { return None };
        let existing = &one.prepared.trial.existing;
        let written = Written::of(forest, stand.source(), existing);
        let stored = written.stored(existing);
        let (forest, state) = (Arc::clone(forest), state.clone());
        (!forest.domains().is_empty()).then_some(Self { one, forest, state, written, stored })
    }

    fn end(&self) -> &End {
        &self.one.base.end
    }

    /// The next round, with other nodes: the state and the objects are those of the round before.
    async fn after(&'a self, change: Change, history: History, stand: &impl Stand) -> After<'a> {
        let Change { nodes, what, moved } = change;
        let own = self.stored.iter().filter(|object| object.source.as_ref() == Some(stand.source()));
        let own: Vec<Arc<Object>> = own.cloned().collect();
        let prepared = &self.one.prepared;
        let round = Round { nodes: &nodes, history, state: &self.state, applied: Some(&own), ..prepared.round() };
        let asked = prepared.ask(stand, &round).await;
        let written = asked.end.forest().map(|forest| Written::of(forest, stand.source(), &self.stored));
        After { before: self, what, moved, asked, written }
    }
}

impl After<'_> {
    /// Whether it asked for something that the recording does not have.
    fn is_not_recorded(&self) -> bool {
        self.asked.is_not_recorded(&self.before.one.base)
    }

    /// The first group that kept a node and has another id.
    fn wrong_id(&self) -> Option<String> {
        let (before, now) = (&self.before.forest, self.asked.end.forest()?);
        self.kept().find_map(|(domain, kept)| {
            let has_kept = |at: usize| !below(now, at).is_disjoint(&kept);
            let same = of_tier(now, domain.tier).find(|(_, other)| other.id == domain.id);
            if same.is_some_and(|(at, _)| has_kept(at)) {
                return None;
            }
            // A group may go with a node that it needs; then none of its nodes is in a group of that tier.
            let (_, other) = of_tier(now, domain.tier).find(|(at, _)| has_kept(*at))?;
            let is_new = !before.domains().iter().any(|domain| domain.id == other.id);
            let how = if is_new { "which is new" } else { "which was another group" };
            let kept = kept.len();
            Some(format!("{kept} nodes of group {:?} are in group {:?} now, {how}", domain.id, other.id))
        })
    }

    /// The first group whose id stayed and whose object has another name.
    fn wrong_name(&self) -> Option<String> {
        let (before, now) = (&self.before.written, self.written.as_ref()?);
        self.kept().find_map(|(domain, _)| {
            let (old, new) = (before.name_of(&domain.id)?, now.name_of(&domain.id)?);
            (old != new).then(|| format!("the HyperNode of group {:?} is {new} now, and was {old}", domain.id))
        })
    }

    /// The groups that keep a node, each with the nodes that it keeps.
    fn kept(&self) -> impl Iterator<Item = (&Domain, BTreeSet<NodeName>)> {
        let forest = &self.before.forest;
        forest.domains().iter().enumerate().filter_map(move |(at, domain)| {
            let kept: BTreeSet<NodeName> = below(forest, at).difference(&self.moved).cloned().collect();
            (!kept.is_empty()).then_some((domain, kept))
        })
    }
}

/// The groups of a tier, with their positions.
fn of_tier(forest: &Forest, tier: Tier) -> impl Iterator<Item = (usize, &Domain)> {
    forest.domains().iter().enumerate().filter(move |(_, domain)| domain.tier == tier)
}

/// A node like the first one.
pub(super) fn add(prepared: &Prepared<'_>) -> Vec<Change> {
    let nodes = &prepared.trial.nodes;
    let like = |node: &Node| {
        let coming = Node { name: COMING.to_owned(), ..node.clone() };
        let nodes = nodes.iter().cloned().chain([coming]).collect();
        Change { nodes, what: format!("a node like {} comes", node.name), moved: BTreeSet::new() }
    };
    nodes.first().map(like).into_iter().collect()
}

/// One node goes, each at a time.
pub(super) fn remove(prepared: &Prepared<'_>) -> Vec<Change> {
    let nodes = &prepared.trial.nodes;
    let without = |at: usize| {
        let gone = nodes.get(at)?;
        let nodes = nodes.iter().filter(|node| node.name != gone.name).cloned().collect();
        let moved = [NodeName::from(gone.name.as_str())].into();
        Some(Change { nodes, what: format!("node {} goes", gone.name), moved })
    };
    chosen(nodes.len()).into_iter().filter_map(without).collect()
}

/// One node gets the value of another one, key by key.
pub(super) fn relabel(prepared: &Prepared<'_>) -> Vec<Change> {
    let nodes = &prepared.trial.nodes;
    let mut changes = Vec::new();
    for key in &prepared.keys {
        for at in chosen(nodes.len()) {
            let Some(node) = nodes.get(at) else { continue };
            let other = nodes.iter().find(|other| other.value(key).is_some() && other.value(key) != node.value(key));
            let Some(other) = other.filter(|_| node.value(key).is_some()) else { continue };
            let mut nodes = nodes.clone();
            if let Some(node) = nodes.get_mut(at) {
                node.set(key, other.value(key).cloned());
            }
            let what = format!("node {} gets the {key} of {}", node.name, other.name);
            changes.push(Change { nodes, what, moved: [NodeName::from(node.name.as_str())].into() });
        }
    }
    changes
}

/// A few positions over a list: the first, the last, and some between.
fn chosen(length: usize) -> BTreeSet<usize> {
    let tried = TRIED.min(length);
    (0..tried).map(|at| if tried > 1 { at * (length - 1) / (tried - 1) } else { 0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_among_the_chosen() {
        assert_eq!(chosen(0), [].into());
        assert_eq!(chosen(1), [0].into());
        assert_eq!(chosen(4), [0, 1, 2, 3].into());
        assert_eq!(chosen(1_000), [0, 199, 399, 599, 799, 999].into());
    }
}
