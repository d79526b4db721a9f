//! Joins switches that share most of their children.
//!
//! Where two switches differ, the other links of the children that one of them lacks decide. In a unit with dead links
//! these lead to switches similar to the one that lacks the children: so a pair is joined that shares less than enough,
//! because many links are dead. Below a storage switch of several units they lead elsewhere: so a pair stays apart that
//! shares enough.

use crate::graph::{Graph, Lists, Sets, add, at, set};

/// Two switches are a candidate pair from this part of the share that joins them. Two rails with half of their links dead
/// share half of their children, give or take a quarter.
const NEAR: f64 = 0.5;

/// Joins parents whose sets of children are alike. `children` are those sets, by local number.
///
/// Two parents are joined when more than `similarity` of the larger set is common. Dividing by the larger keeps a
/// storage switch, which has the hosts of many units, out of every unit.
pub(super) fn join(children: &Lists, graph: &Graph, local: &[u32], similarity: f64, sets: &mut Sets) {
    let classes = Classes::new(children, graph, local, sets);
    let pairs = classes.pairs(similarity);
    let mut near = Near { marks: vec![0; classes.count as usize], mark: 0 };
    for pair in &pairs.list {
        if classes.belong_together(pair, &pairs.weak, &mut near) {
            sets.join(pair.a, pair.b);
        }
    }
}

/// Parents with equal sets of children are one class: in a healthy fabric that leaves one for each unit.
struct Classes<'a> {
    /// How many parents there are; a class has the number of its smallest.
    count: u32,
    class: Vec<u32>,
    children: &'a Lists,
    graph: &'a Graph,
    local: &'a [u32],
    /// The classes that each child has links to, ascending.
    of_child: Vec<Vec<u32>>,
    /// Children with far more links than the others: a name that many machines share. They are no evidence.
    is_glue: Vec<bool>,
}

/// Two classes with common children, the smaller number first.
struct Pair {
    a: u32,
    b: u32,
    common: u32,
    is_strong: bool,
}

struct Pairs {
    list: Vec<Pair>,
    /// By class: the candidate classes beside it.
    weak: Lists,
}

/// Marks the classes that are similar to one class.
struct Near {
    marks: Vec<u32>,
    mark: u32,
}

/// The other links of the children that one of two parents lacks.
#[derive(Default)]
struct Survey {
    /// Children with most of their other links to classes similar to the parent that lacks them.
    near: u32,
    /// Children without.
    elsewhere: u32,
}

impl<'a> Classes<'a> {
    fn new(children: &'a Lists, graph: &'a Graph, local: &'a [u32], sets: &mut Sets) -> Self {
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
        Self { count, class, children, graph, local, of_child, is_glue }
    }

    fn classes_of(&self, child: u32) -> &[u32] {
        self.of_child.get(child as usize).map(Vec::as_slice).unwrap_or_default()
    }

    fn size(&self, class: u32) -> u32 {
        self.children.of(class).len() as u32
    }

    /// Counts common children through the children's own lists: the cost is the number of links times the number of
    /// links of a child, independent of the number of parents.
    fn pairs(&self, similarity: f64) -> Pairs {
        let mut list = Vec::new();
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
                let is_strong = f64::from(both) > similarity * larger;
                // A single common child may be a single wrong cable.
                if is_strong || both > 1 && f64::from(both) >= NEAR * similarity.min(0.5) * larger {
                    weak.extend([(a, b), (b, a)]);
                    list.push(Pair { a, b, common: both, is_strong });
                }
            }
        }
        list.sort_unstable_by_key(|pair| (pair.a, pair.b));
        Pairs { list, weak: Lists::collect(self.count as usize, weak.into_iter()) }
    }

    /// Whether two parents are joined. A strong pair is not joined when more than a third of the children of one have
    /// their other links elsewhere. A weak pair is joined only when nearly none have, on either side, and when most of the
    /// children that one lacks have their other links near it.
    fn belong_together(&self, pair: &Pair, weak: &Lists, near: &mut Near) -> bool {
        [(pair.a, pair.b), (pair.b, pair.a)].into_iter().all(|(lacking, wide)| {
            let size = self.size(wide);
            let lacked = size.saturating_sub(pair.common);
            if pair.is_strong && lacked * 3 <= size {
                return true;
            }
            let survey = self.survey(lacking, wide, weak, near);
            if pair.is_strong {
                survey.elsewhere * 3 <= size
            } else {
                survey.elsewhere * 10 <= size && survey.near * 2 >= lacked
            }
        })
    }

    /// Counts where the children of one parent that the other lacks have their other links.
    fn survey(&self, lacking: u32, wide: u32, weak: &Lists, near: &mut Near) -> Survey {
        near.mark += 1;
        weak.of(lacking).iter().for_each(|&class| set(&mut near.marks, class, near.mark));
        let mut survey = Survey::default();
        for &child in self.children.of(wide) {
            if self.classes_of(child).binary_search(&lacking).is_ok() {
                continue;
            }
            let (mut others, mut alike) = (0, 0);
            for edge in self.graph.of(child) {
                let class = at(&self.class, at(self.local, edge.parent));
                if class != wide {
                    others += 1;
                    alike += u32::from(at(&near.marks, class) == near.mark);
                }
            }
            // A child without other links counts on neither side.
            if alike * 2 > others {
                survey.near += 1;
            } else if others > 0 {
                survey.elsewhere += 1;
            }
        }
        survey
    }
}

fn hash(list: &[u32]) -> u64 {
    list.iter().fold(list.len() as u64, |hash, &item| {
        (hash.rotate_left(23) ^ u64::from(item)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}
