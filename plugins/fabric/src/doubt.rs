//! Whether the list of links may be incomplete after a restart, when no memory says which links there were.
//!
//! A round with memory knows which cables are missing. After a restart only the HyperNodes in the cluster are left, and
//! half a list of links splits one group into two. An incomplete list can be recognised: some Nodes that had a place have
//! no link, or fewer links than most. While that is so, and for `downGrace` at most, the round accepts neither a split of
//! a group nor a new tier. It accepts all other changes.
//!
//! Above the first level a few cables decide, too few to recognise an incomplete list. There a split is accepted only
//! after one round has shown everything in its old place, or when the grace is over.

use crate::graph::{Graph, Lists, NONE, counted};

/// How the round treats a group that its links split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Splits {
    /// It splits the group.
    Believed,
    /// It keeps the group together: perhaps the links that join it are missing from the list.
    Doubted,
}

/// Whether a level lacks links: of the children that had a place, more than a quarter have fewer links than most, or a
/// whole group has none.
pub(crate) fn is_thin(present: &Graph, was: &[u32], groups: usize) -> bool {
    let links = |child: u32| present.of(child).iter().map(|edge| edge.weight).fold(0, u32::saturating_add);
    let placed = || (0..).zip(was).filter(|&(_, &group)| group != NONE);
    let children = Lists::collect(groups, placed().map(|(child, &group)| (group, child)));
    let is_dark = |group: u32| {
        let children = children.of(group);
        !children.is_empty() && children.iter().all(|&child| links(child) == 0)
    };
    let shown = placed().map(|(child, _)| (0, links(child))).filter(|&(_, links)| links > 0).collect();
    let most = counted(shown).map(|(_, count)| count).max().unwrap_or(0) as usize;
    let all = placed().count();
    (all - most.min(all)) * 4 > all || (0..groups as u32).any(is_dark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Edge;

    fn thin(links: &[u32], was: &[u32]) -> bool {
        let mut present = Graph::default();
        links.iter().for_each(|&weight| present.push((weight > 0).then_some(Edge { parent: 0, weight })));
        is_thin(&present, was, 3)
    }

    #[test]
    fn a_level_is_thin_where_many_children_or_a_whole_group_lack_links() {
        assert!(!thin(&[], &[]));
        assert!(!thin(&[0, 0, 1, 2], &[NONE; 4]), "no child had a place");
        assert!(!thin(&[4, 4, 4, 3], &[0, 0, 1, 1]));
        assert!(!thin(&[4, 4, 4, 4, 4, 4, 4, 0], &[0, 0, 0, 0, 1, 1, 1, 1]));
        assert!(thin(&[4, 4, 1, 3], &[0, 0, 1, 1]));
        assert!(thin(&[4, 4, 4, 4, 4, 4, 4, 0], &[0, 0, 0, 0, 1, 1, 1, 2]), "group 2 shows nothing");
        assert!(thin(&[0, 0], &[0, 0]));
    }
}
