//! Joining switches that share most of their children.

use crate::graph::{Graph, Lists, Sets, add, at, set};

/// Joins parents whose sets of children are alike. `children` are those sets, by local number.
///
/// Two parents are joined when more than `similarity` of the larger set is common. Dividing by the larger keeps a
/// storage switch, which bears the hosts of many units, out of every one of them.
pub(super) fn join(children: &Lists, graph: &Graph, local: &[u32], similarity: f64, sets: &mut Sets) {
    let classes = Classes::new(children, graph, local, sets);
    let pairs = classes.pairs(similarity);
    let mut near = vec![0_u32; classes.count as usize];
    for (number, pair) in (1..).zip(&pairs.strong) {
        if !classes.is_between(*pair, &pairs.weak, &mut near, number) {
            sets.join(pair.smaller, pair.larger);
        }
    }
}

/// Parents with equal sets of children are one class: in a healthy fabric that leaves one for each unit.
struct Classes<'a> {
    /// How many parents there are; a class is called by its smallest.
    count: u32,
    class: Vec<u32>,
    children: &'a Lists,
    /// The classes that each child hangs on, ascending.
    of_child: Vec<Vec<u32>>,
    /// Children that hang on far more than the others: a name that many machines share. They are no evidence.
    is_glue: Vec<bool>,
}

#[derive(Clone, Copy)]
struct Pair {
    /// The one with fewer children; at a tie the smaller number.
    smaller: u32,
    larger: u32,
    common: u32,
}

struct Pairs {
    strong: Vec<Pair>,
    /// By class: the classes that share something worth speaking of.
    weak: Lists,
}

impl<'a> Classes<'a> {
    fn new(children: &'a Lists, graph: &Graph, local: &[u32], sets: &mut Sets) -> Self {
        let count = graph.edges().iter().map(|edge| at(local, edge.parent) + 1).max().unwrap_or(0);
        let mut order: Vec<(usize, u64, u32)> =
            (0..count).map(|parent| (children.of(parent).len(), hash(children.of(parent)), parent)).collect();
        order.sort_unstable();
        let mut class: Vec<u32> = (0..count).collect();
        let mut first = 0;
        for (index, &(length, hash, parent)) in order.iter().enumerate() {
            let is_alike = |&(l, h, other): &(usize, u64, u32)| {
                (l, h) == (length, hash) && children.of(other) == children.of(parent)
            };
            match order.get(first).filter(|_| index > first) {
                Some(known) if is_alike(known) => {
                    set(&mut class, parent, known.2);
                    sets.join(known.2, parent);
                }
                _ => first = index,
            }
        }
        let of_child: Vec<Vec<u32>> = (0..graph.children())
            .map(|child| {
                let mut classes: Vec<u32> =
                    graph.of(child).iter().map(|edge| at(&class, at(local, edge.parent))).collect();
                classes.sort_unstable();
                classes.dedup();
                classes
            })
            .collect();
        let mut degrees: Vec<usize> = of_child.iter().map(Vec::len).filter(|&degree| degree > 0).collect();
        let middle = degrees.len() / 2;
        let median = if degrees.is_empty() { 0 } else { *degrees.select_nth_unstable(middle).1 };
        // Pairs cost the square of a degree: what is sixteen times the usual would cost 256 times the usual.
        let most = (16 * median).max(64);
        let is_glue = of_child.iter().map(|classes| classes.len() > most).collect();
        Self { count, class, children, of_child, is_glue }
    }

    fn classes_of(&self, child: u32) -> &[u32] {
        self.of_child.get(child as usize).map(Vec::as_slice).unwrap_or_default()
    }

    fn size(&self, class: u32) -> u32 {
        self.children.of(class).len() as u32
    }

    /// Counts common children through the children's own lists: the cost is the number of links times the number of
    /// links of a child, whatever the number of parents is.
    fn pairs(&self, similarity: f64) -> Pairs {
        let mut strong = Vec::new();
        let mut weak = Vec::new();
        let mut common = vec![0_u32; self.count as usize];
        let mut touched = Vec::new();
        for a in (0..self.count).filter(|&a| at(&self.class, a) == a) {
            for &child in self.children.of(a).iter().filter(|&&child| !at(&self.is_glue, child)) {
                for &b in self.classes_of(child).iter().rev().take_while(|&&b| b > a) {
                    if at(&common, b) == 0 {
                        touched.push(b);
                    }
                    add(&mut common, b, 1);
                }
            }
            for b in touched.drain(..) {
                let both = at(&common, b);
                set(&mut common, b, 0);
                let larger = f64::from(self.size(a).max(self.size(b)));
                // Half of what joins: dead links make rails of one unit differ, but never this much.
                if f64::from(both) >= similarity.min(0.5) / 2.0 * larger {
                    weak.extend([(a, b), (b, a)]);
                }
                if f64::from(both) > similarity * larger {
                    let (smaller, larger) = if self.size(a) <= self.size(b) { (a, b) } else { (b, a) };
                    strong.push(Pair { smaller, larger, common: both });
                }
            }
        }
        strong.sort_unstable_by_key(|pair| (pair.smaller, pair.larger));
        Pairs { strong, weak: Lists::collect(self.count as usize, weak.into_iter()) }
    }

    /// Whether the larger of a pair lies between two units, as the storage switch of a fabric with two units does: of
    /// its children, more than a quarter are at home where nothing is like the smaller one.
    ///
    /// A child that is missing below the smaller one because of a dead link hangs on others that are like it.
    fn is_between(&self, pair: Pair, weak: &Lists, near: &mut [u32], mark: u32) -> bool {
        let check = |near: &mut [u32], mark: u32, smaller: u32, larger: u32| {
            let size = self.size(larger);
            if (size - pair.common.min(size)) * 4 <= size {
                return false;
            }
            weak.of(smaller).iter().for_each(|&class| set(near, class, mark));
            set(near, smaller, mark);
            set(near, larger, 0);
            let is_elsewhere = |child: &&u32| {
                let classes = self.classes_of(**child);
                classes.len() > 1 && classes.iter().all(|&class| at(near, class) != mark)
            };
            let elsewhere = self.children.of(larger).iter().filter(is_elsewhere).count() as u32;
            elsewhere * 4 > size
        };
        check(near, mark, pair.smaller, pair.larger)
            || (self.size(pair.smaller) == self.size(pair.larger) && {
                weak.of(pair.smaller).iter().for_each(|&class| set(near, class, 0));
                check(near, mark, pair.larger, pair.smaller)
            })
    }
}

fn hash(list: &[u32]) -> u64 {
    list.iter().fold(list.len() as u64, |hash, &item| {
        (hash.rotate_left(23) ^ u64::from(item)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}
