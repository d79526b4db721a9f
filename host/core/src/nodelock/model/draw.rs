//! Histories that are drawn at random.

use super::world::*;
use super::*;

/// How often a deed is drawn: what helps everybody on is common, what goes wrong is rare. Each history has a mix of its own,
/// in which much never happens and some happens all the time: what needs three rare things in a row is found by the
/// history that has little else.
pub(super) struct Mix {
    pub(super) kinds: [usize; KINDS],
    pub(super) speeds: [usize; PROCESSES + 1],
}

pub(super) const KINDS: usize = 25;

impl Mix {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        const USUAL: [usize; KINDS] =
            [6, 16, 4, 40, 40, 40, 8, 8, 20, 20, 3, 2, 16, 3, 2, 3, 4, 4, 1, 1, 4, 3, 16, 1, 1];
        const TIMES: [usize; 6] = [0, 1, 4, 4, 4, 16];
        let kinds = USUAL.map(|usual| usual * dice.of(&TIMES));
        Self { kinds, speeds: Self::speeds(dice) }
    }

    /// Processes stall for a while, and continue.
    pub(super) fn speeds(dice: &mut Dice) -> [usize; PROCESSES + 1] {
        const SPEEDS: [usize; 5] = [0, 0, 1, 4, 8];
        std::array::from_fn(|_| dice.of(&SPEEDS))
    }
}

impl World {
    /// Every deed that would do something now, with how often it is drawn.
    pub(super) fn possible(&self, mix: &Mix, dice: &mut Dice) -> Vec<(usize, Deed)> {
        let latest = self.history.len() - 1;
        let mut all = Vec::new();
        let pass = if dice.below(4) == 0 { 3_000 + dice.below(70_000) } else { 1 + dice.below(3_000) };
        all.push((mix.kinds[0], Deed::Pass(pass as u64)));
        for at in 0..=SWEEPER {
            let process = &self.processes[at];
            let mut add = |kind: usize, deed| all.push((mix.kinds[kind] * mix.speeds[at], deed));
            match (&process.machine, &process.sent) {
                (None, _) if at == SWEEPER => (0..NODES).for_each(|node| add(2, Deed::Sweep(at, node))),
                (None, _) => {
                    for (slot, stored) in &self.history[process.pods].pods {
                        if stored.pod.node.is_none() && !stored.pod.finished {
                            (0..NODES).for_each(|node| add(1, Deed::Start(at, *slot, node)));
                        }
                    }
                }
                (Some(_), None) => add(3, Deed::Act(at)),
                (Some(_), Some(Sent { reply: None, .. })) => {
                    add(4, Deed::Serve(at));
                    add(6, Deed::Lose(at));
                    add(6, Deed::Twice(at));
                    add(21, Deed::Refuse(at));
                }
                (Some(_), Some(_)) => {
                    add(5, Deed::Answer(at));
                    add(6, Deed::Lose(at));
                }
            }
            if process.lists_nodes.is_some() {
                add(8, Deed::RelistNodes(at));
            } else if process.nodes < latest {
                add(8, Deed::Nodes(at));
                add(23, Deed::RelistNodes(at));
            }
            if process.lists_pods.is_some() {
                add(9, Deed::RelistPods(at));
            } else if process.pods < latest {
                add(9, Deed::Pods(at));
                add(24, Deed::RelistPods(at));
            }
            if process.machine.is_some() {
                add(10, Deed::GiveUp(at));
                add(11, Deed::Kill(at));
            }
        }
        if !self.late.is_empty() {
            all.push((4 * mix.kinds[7], Deed::Late(dice.below(self.late.len()))));
        }
        for node in 0..NODES {
            all.push((4 * mix.kinds[12], Deed::Kubelet(node)));
            if self.kubelets[node].asks.is_some() {
                all.push((4 * mix.kinds[13], Deed::Fail(node)));
                all.push((4 * mix.kinds[14], Deed::Crash(node)));
                all.push((4 * mix.kinds[22], Deed::Early(node)));
            }
        }
        for key in 0..KEYS {
            let node = dice.below(NODES);
            if self.is_free(node, key) {
                all.push((mix.kinds[18], Deed::Litter(node, key, dice.below(LITTER))));
            } else {
                all.push((mix.kinds[19], Deed::Strip(node, key)));
                all.push((mix.kinds[20], Deed::Revoke(node, key)));
            }
        }
        for slot in 0..PODS {
            if self.store().pods.contains_key(&slot) {
                all.push((mix.kinds[15], Deed::Delete(slot)));
                all.push((mix.kinds[16], Deed::Force(slot)));
                (0..NODES).for_each(|node| all.push((mix.kinds[17], Deed::Foreign(slot, node))));
            } else {
                all.push((4 * mix.kinds[16].max(4), Deed::Make(slot)));
            }
        }
        all
    }
}
