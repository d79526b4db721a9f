//! Lets the children vote, and adds the switches that are left over to the bundle of their children.

use std::cmp::Reverse;

use super::Bundles;
use crate::graph::{Graph, Lists, NONE, Sets, add, at, counted, set};

/// Each round joins at least two bundles; more than a few rounds mean a fabric without structure.
const ROUNDS: usize = 8;
/// A child with significant links to more bundles than this is no evidence for any pair of them.
const MOST_SUBSTANTIAL: usize = 16;

/// The vote of a child for one bundle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) bundle: u32,
    pub(crate) links: u32,
    /// The size of the smallest switch among them: where nothing else decides between two equal votes, the more specific
    /// place wins.
    pub(crate) specific: u32,
}

/// The votes of all children.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    ends: Vec<u32>,
    votes: Vec<Vote>,
    /// By child: its bundle, or [`NONE`] where it has no link.
    pub(crate) winner: Vec<u32>,
    /// Children whose winner only the size of switches decided. Ascending.
    undecided: Vec<u32>,
}

impl Tally {
    /// The votes of a child, by bundle.
    pub(crate) fn of(&self, child: u32) -> &[Vote] {
        let begin = child.checked_sub(1).map_or(0, |before| at(&self.ends, before));
        self.votes.get(begin as usize..at(&self.ends, child) as usize).unwrap_or_default()
    }

    /// Whether another bundle has as many links of the child as the winner.
    pub(crate) fn is_tied(&self, child: u32) -> bool {
        let votes = self.of(child);
        let most = votes.iter().map(|vote| vote.links).max().unwrap_or(0);
        votes.iter().filter(|vote| vote.links == most).count() > 1
    }
}

/// Counts the links of every child. The bundle with most links wins. Of several with equally many, the one wins that most
/// other children of those switches chose, then the one with the smallest switch, then the one with the smallest identity.
///
/// The smallest switch alone would be wrong: where links are dead, a storage switch or one with few live links is smaller
/// than the switch of the unit, and a host of the unit would be alone with it.
pub(crate) fn tally(graph: &Graph, bundles: &Bundles) -> Tally {
    let mut tally = Tally::default();
    let mut tied = Vec::new();
    for child in 0..graph.children() {
        let begin = tally.votes.len();
        for edge in graph.of(child) {
            let bundle = at(&bundles.of, edge.parent);
            let specific = at(&bundles.sizes, edge.parent);
            let mine = tally.votes.get_mut(begin..).unwrap_or_default();
            match mine.iter_mut().find(|vote| vote.bundle == bundle) {
                Some(vote) => {
                    vote.links = vote.links.saturating_add(edge.weight);
                    vote.specific = vote.specific.min(specific);
                }
                None => tally.votes.push(Vote { bundle, links: edge.weight, specific }),
            }
        }
        let mine = tally.votes.get_mut(begin..).unwrap_or_default();
        mine.sort_unstable_by_key(|vote| vote.bundle);
        let winner = mine.iter().min_by_key(|vote| (Reverse(vote.links), vote.specific, vote.bundle)).copied();
        if winner.is_some_and(|winner| mine.iter().filter(|vote| vote.links == winner.links).count() > 1) {
            tied.push(child);
        }
        tally.winner.push(winner.map_or(NONE, |vote| vote.bundle));
        tally.ends.push(tally.votes.len() as u32);
    }
    tally.break_ties(graph, bundles, &tied);
    tally
}

impl Tally {
    /// Decides for children with equally many links in several bundles, by the winners of the other children of their
    /// switches. All are decided at once, by the winners of before: so the order of the children does not matter.
    fn break_ties(&mut self, graph: &Graph, bundles: &Bundles, tied: &[u32]) {
        if tied.is_empty() {
            return;
        }
        let mut is_asked = vec![false; bundles.of.len()];
        tied.iter().flat_map(|&child| graph.of(child)).for_each(|edge| set(&mut is_asked, edge.parent, true));
        let asked = graph.iter().filter(|(_, edge)| at(&is_asked, edge.parent));
        let chosen: Vec<((u32, u32), u32)> =
            counted(asked.map(|(child, edge)| (edge.parent, at(&self.winner, child))).collect()).collect();
        let chose = |parent: u32, bundle: u32| {
            let found = chosen.binary_search_by_key(&(parent, bundle), |(pair, _)| *pair);
            found.ok().and_then(|position| chosen.get(position)).map_or(0, |(_, count)| *count)
        };
        let mut undecided = Vec::new();
        let decided: Vec<(u32, u32)> = tied
            .iter()
            .filter_map(|&child| {
                let votes = self.of(child);
                let most = votes.iter().map(|vote| vote.links).max()?;
                let is_tied = |bundle: u32| votes.iter().any(|vote| vote.bundle == bundle && vote.links == most);
                let parents: Vec<u32> =
                    graph.of(child).iter().map(|edge| edge.parent).filter(|&p| is_tied(at(&bundles.of, p))).collect();
                let own = at(&self.winner, child);
                let others = |bundle: u32| -> u32 {
                    let itself = u32::from(bundle == own);
                    parents
                        .iter()
                        .map(|&parent| chose(parent, bundle).saturating_sub(itself))
                        .fold(0, u32::saturating_add)
                };
                let best = votes
                    .iter()
                    .filter(|vote| vote.links == most)
                    .min_by_key(|vote| (Reverse(others(vote.bundle)), vote.specific, vote.bundle))?;
                if others(best.bundle) == 0 {
                    undecided.push(child);
                }
                Some((child, best.bundle))
            })
            .collect();
        self.undecided = undecided;
        decided.into_iter().for_each(|(child, bundle)| set(&mut self.winner, child, bundle));
    }
}

/// Joins bundles until nothing changes.
pub(super) fn refine(graph: &Graph, bundles: &mut Bundles, similarity: f64) {
    for _ in 0..ROUNDS {
        let tally = tally(graph, bundles);
        let mut round = Round::new(graph, bundles, &tally);
        if !(round.merge(similarity) | round.absorb()) {
            return;
        }
        let mut sets = round.sets;
        bundles.join(&mut sets);
    }
}

struct Round<'a> {
    children: u32,
    tally: &'a Tally,
    /// By bundle: how many children have a link.
    sizes: Vec<u32>,
    sets: Sets,
}

impl<'a> Round<'a> {
    fn new(graph: &Graph, bundles: &Bundles, tally: &'a Tally) -> Self {
        let mut sizes = vec![0; bundles.switches.len()];
        tally.votes.iter().for_each(|vote| add(&mut sizes, vote.bundle, 1));
        Self { children: graph.children(), tally, sizes, sets: Sets::new(bundles.switches.len() as u32) }
    }

    /// Joins the halves of a unit that dead links split: bundles to which most children of the larger one have significant
    /// links.
    fn merge(&mut self, similarity: f64) -> bool {
        let mut pairs = Vec::new();
        for child in 0..self.children {
            let votes = self.tally.of(child);
            let most = votes.iter().map(|vote| vote.links).max().unwrap_or(0);
            // A stray cable is not significant.
            let substantial: Vec<u32> = votes
                .iter()
                .filter(|vote| u64::from(vote.links) * 2 > u64::from(most))
                .map(|vote| vote.bundle)
                .collect();
            if substantial.len() <= MOST_SUBSTANTIAL {
                for (index, &a) in substantial.iter().enumerate() {
                    pairs.extend(substantial.iter().skip(index + 1).map(|&b| (a, b)));
                }
            }
        }
        let larger = |&((a, b), common): &((u32, u32), u32)| {
            let larger = at(&self.sizes, a).max(at(&self.sizes, b));
            f64::from(common) > similarity * f64::from(larger)
        };
        let candidates: Vec<((u32, u32), u32)> = counted(pairs).filter(larger).collect();
        if candidates.is_empty() {
            return false;
        }
        let by_bundle = Lists::collect(
            self.sizes.len(),
            (0..self.children).flat_map(|child| self.tally.of(child).iter().map(move |vote| (vote.bundle, child))),
        );
        let mut moved = false;
        for ((a, b), _) in candidates {
            if !self.lies_between(a, b, &by_bundle) && !self.lies_between(b, a, &by_bundle) {
                moved |= self.sets.join(a, b);
            }
        }
        moved
    }

    /// Whether more than a quarter of the children of `wide` belong to a third bundle and have no link to `other`.
    fn lies_between(&self, other: u32, wide: u32, by_bundle: &Lists) -> bool {
        let is_elsewhere = |child: &&u32| {
            let votes = self.tally.of(**child);
            let here = votes.iter().find(|vote| vote.bundle == wide).map_or(0, |vote| vote.links);
            votes.iter().all(|vote| vote.bundle != other)
                && votes.iter().any(|vote| vote.bundle != wide && vote.links >= here)
        };
        let children = by_bundle.of(wide);
        children.iter().filter(is_elsewhere).count() * 4 > children.len()
    }

    /// Adds a bundle to another one when more than two thirds of its children chose that one: a switch with few live links,
    /// or a switch that serves one unit only. Children that chose it only for the size of its switches do not count, where
    /// at least two others chose the other bundle.
    ///
    /// This never joins two units: most children of a unit choose it.
    fn absorb(&mut self) -> bool {
        let mut pairs = Vec::new();
        for child in 0..self.children {
            let winner = at(&self.tally.winner, child);
            let lost = self.tally.of(child).iter().map(|vote| vote.bundle).filter(|&bundle| bundle != winner);
            pairs.extend(lost.map(|bundle| (bundle, winner)));
        }
        let mut undecided = vec![0; self.sizes.len()];
        self.tally.undecided.iter().for_each(|&child| add(&mut undecided, at(&self.tally.winner, child), 1));
        let mut moved = false;
        for ((bundle, winner), count) in counted(pairs) {
            let silent = if count > 1 { at(&undecided, bundle) } else { 0 };
            if u64::from(count) * 3 > u64::from(at(&self.sizes, bundle).saturating_sub(silent)) * 2 {
                moved |= self.sets.join(bundle, winner);
            }
        }
        moved
    }
}
