//! Children and their parents as numbers: a graph without strings, in two allocations.

/// No group, no bundle, no node.
pub(crate) const NONE: u32 = u32::MAX;

/// The entry at a position; the default where there is none. Positions come from the lists themselves, so it always exists.
pub(crate) fn at<T: Copy + Default>(list: &[T], index: u32) -> T {
    list.get(index as usize).copied().unwrap_or_default()
}

/// Sets the entry at a position.
pub(crate) fn set<T>(list: &mut [T], index: u32, value: T) {
    if let Some(entry) = list.get_mut(index as usize) {
        *entry = value;
    }
}

/// Adds to the entry at a position.
pub(crate) fn add(list: &mut [u32], index: u32, count: u32) {
    if let Some(entry) = list.get_mut(index as usize) {
        *entry = entry.saturating_add(count);
    }
}

/// Many lists of numbers in one allocation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lists {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// `count` lists out of pairs of list and item. Items keep the order of the pairs.
    pub(crate) fn collect(count: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let mut starts = vec![0_u32; count + 1];
        for (list, _) in pairs.clone() {
            add(&mut starts, list + 1, 1);
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut items = vec![0; sum as usize];
        for (list, item) in pairs {
            set(&mut items, at(&starts, list), item);
            add(&mut starts, list, 1);
        }
        starts.truncate(count);
        Self { ends: starts, items }
    }

    pub(crate) fn of(&self, list: u32) -> &[u32] {
        let begin = list.checked_sub(1).map_or(0, |before| at(&self.ends, before));
        self.items.get(begin as usize..at(&self.ends, list) as usize).unwrap_or_default()
    }
}

/// A child's links to one parent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) parent: u32,
    pub(crate) weight: u32,
}

/// Children and the parents that they have links to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Graph {
    ends: Vec<u32>,
    edges: Vec<Edge>,
}

impl Graph {
    /// The next child. Edges are sorted by parent, one for each.
    pub(crate) fn push(&mut self, edges: impl IntoIterator<Item = Edge>) {
        let begin = self.edges.len();
        self.edges.extend(edges);
        let new = self.edges.get_mut(begin..).unwrap_or_default();
        if new.windows(2).any(|pair| matches!(pair, [a, b] if a.parent >= b.parent)) {
            new.sort_unstable_by_key(|edge| edge.parent);
            let mut sorted = self.edges.split_off(begin);
            sorted.dedup_by(|next, first| {
                let is_same = next.parent == first.parent;
                if is_same {
                    first.weight = first.weight.saturating_add(next.weight);
                }
                is_same
            });
            self.edges.append(&mut sorted);
        }
        self.ends.push(self.edges.len() as u32);
    }

    pub(crate) fn children(&self) -> u32 {
        self.ends.len() as u32
    }

    pub(crate) fn of(&self, child: u32) -> &[Edge] {
        let begin = child.checked_sub(1).map_or(0, |before| at(&self.ends, before));
        self.edges.get(begin as usize..at(&self.ends, child) as usize).unwrap_or_default()
    }

    pub(crate) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// All pairs of child and edge.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Edge)> + Clone + '_ {
        (0..self.children()).flat_map(|child| self.of(child).iter().map(move |&edge| (child, edge)))
    }
}

/// Disjoint sets of numbers (union-find). A set is represented by its smallest number.
#[derive(Debug)]
pub(crate) struct Sets {
    parent: Vec<u32>,
}

impl Sets {
    pub(crate) fn new(count: u32) -> Self {
        Self { parent: (0..count).collect() }
    }

    pub(crate) fn find(&mut self, mut number: u32) -> u32 {
        loop {
            let up = at(&self.parent, number);
            if up == number {
                return number;
            }
            let top = at(&self.parent, up);
            set(&mut self.parent, number, top);
            number = top;
        }
    }

    /// Joins two sets; whether they were separate before.
    pub(crate) fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        set(&mut self.parent, a.max(b), a.min(b));
        a != b
    }
}

/// How often each pair occurs; pairs in ascending order.
pub(crate) fn counted(mut pairs: Vec<(u32, u32)>) -> impl Iterator<Item = ((u32, u32), u32)> {
    pairs.sort_unstable();
    let mut pairs = pairs.into_iter().peekable();
    std::iter::from_fn(move || {
        let pair = pairs.next()?;
        let mut count = 1;
        while pairs.next_if_eq(&pair).is_some() {
            count += 1;
        }
        Some((pair, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_the_order_of_their_items() {
        let lists = Lists::collect(3, [(2, 7), (0, 1), (2, 5)].into_iter());
        assert_eq!((lists.of(0), lists.of(1), lists.of(2), lists.of(3)), (&[1][..], &[][..], &[7, 5][..], &[][..]));
    }

    #[test]
    fn edges_to_one_parent_add_up() {
        let edge = |parent, weight| Edge { parent, weight };
        let mut graph = Graph::default();
        graph.push([edge(3, 1), edge(1, 2), edge(3, 4)]);
        graph.push([]);
        assert_eq!(graph.of(0), [edge(1, 2), edge(3, 5)]);
        assert_eq!((graph.of(1), graph.of(2), graph.children()), (&[][..], &[][..], 2));
    }

    #[test]
    fn pairs_are_counted() {
        let counts: Vec<_> = counted(vec![(2, 1), (0, 5), (2, 1)]).collect();
        assert_eq!(counts, [((0, 5), 1), ((2, 1), 2)]);
    }
}
