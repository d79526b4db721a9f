//! Histories that are drawn at random.

use super::actors::{Borrower, Deletion, Edit, Lender, Pool, Spoilt};
use super::server::Revision;
use super::*;

/// How often a deed of a kind is drawn. Each history has a mix of its own, in which much never happens and some happens all
/// the time: what needs three rare things in a row is found by the history that has little else.
pub(super) struct Mix([usize; KINDS]);

/// Kinds of deeds, in the order of [`World::possible`].
const KINDS: usize = 24;
const USUAL: [usize; KINDS] = [14, 14, 6, 10, 3, 4, 14, 3, 3, 16, 8, 1, 1, 5, 3, 4, 2, 5, 14, 6, 4, 5, 3, 2];
const TIMES: [usize; 6] = [0, 1, 2, 2, 2, 6];
/// Without these nothing goes on.
const ALWAYS: [usize; 5] = [0, 1, 6, 9, 10];

impl Mix {
    pub(super) fn draw(dice: &mut Dice) -> Self {
        let mut mix = USUAL.map(|usual| usual * dice.of(&TIMES));
        for kind in ALWAYS {
            mix[kind] = mix[kind].max(USUAL[kind]);
        }
        Self(mix)
    }
}

impl World {
    /// One deed of each kind, with how often it is drawn.
    pub(super) fn possible(&self, mix: &Mix, dice: &mut Dice) -> Vec<(usize, Deed)> {
        let at = dice.of(&[self.leader, self.leader, WESTERN, 1 - self.leader]);
        let (node, slot) = (dice.below(NODES), dice.below(SLOTS));
        let kind = dice.of(&Kind::ALL);
        let side = dice.of(&[Side::Physical, Side::Virtual]);
        let seconds = dice.of(&[1, 6, 6, 11, 31, 31, 61, 130, 310]);
        let machine = match dice.below(4) {
            0 => Lender::Relabel(node, dice.of(&[Pool::Gpu, Pool::Gpu, Pool::Cpu, Pool::None])),
            1 => Lender::Cordon(node),
            2 => Lender::Foreign(node),
            _ => Lender::Ready(node, dice.of(&["True", "True", "False", "Unknown"])),
        };
        let replaced = dice.of(&[Lender::Remove(node), Lender::Make(node), Lender::Make(node)]);
        let edit = dice.of(&[Edit::Small, Edit::Large, Edit::Closing, Edit::Broken, Edit::Removed]);
        let other = dice.of(&[Deed::Lender(Lender::Claim(node)), Deed::Borrower(Borrower::LookAlike(node))]);
        let runs = dice.of(&[Borrower::Kubelet(slot), Borrower::Kubelet(slot), Borrower::Succeed(slot)]);
        let deletion = dice.of(&[Deletion::Graceful, Deletion::Forced]);
        let pod = dice.of(&[Borrower::Delete(slot, deletion), Borrower::Strip(slot)]);
        let label = dice.of(&[keys::VIRTUAL_CLUSTER, keys::BINDING, keys::BINDING_UID]);
        let spoilt = dice.of(&[Spoilt::Facts, Spoilt::Missing(label), Spoilt::Empty(label)]);
        let edited = dice.of(&[Borrower::Label(node), Borrower::Taint(node), Borrower::Spoil(node, spoilt)]);
        let on_node = dice.of(&[edited, edited, Borrower::Untaint(node), Borrower::Timeless(node)]);
        let clock = dice.of(&[-3_600, -400, -30, 7, 200, 900, 3_600]);
        let trouble = match dice.below(3) {
            0 => Deed::Lose(at),
            1 => Deed::Delay(at),
            _ => Deed::Carry(at),
        };
        let revision = dice.of(&[Revision::Lower, Revision::Raised]);
        let deeds: [Deed; KINDS] = [
            Deed::Pass(seconds),
            Deed::Do(at, node),
            Deed::Look(at, node),
            Deed::Carry(at),
            trouble,
            Deed::Late(dice.below(8)),
            Deed::Pod(at, dice.below(SLOTS + 1)),
            Deed::End(at, slot),
            Deed::Status(self.leader),
            Deed::Watch(at, kind),
            Deed::Catch(at),
            Deed::Kill(at),
            Deed::TakeOver,
            Deed::Lender(machine),
            Deed::Lender(replaced),
            Deed::Lender(Lender::Edit(edit)),
            other,
            Deed::Borrower(Borrower::Schedule(slot)),
            Deed::Borrower(Borrower::TopDown(slot)),
            Deed::Borrower(runs),
            Deed::Borrower(pod),
            Deed::Borrower(on_node),
            dice.of(&[Deed::Borrower(Borrower::Drop(node)), Deed::Confirm(at), Deed::Select]),
            dice.of(&[
                Deed::Gone(side),
                Deed::Gone(side),
                Deed::Budget,
                Deed::Restore(side, revision),
                Deed::Step(clock),
                Deed::Skew(clock),
            ]),
        ];
        mix.0.into_iter().zip(deeds).filter(|(weight, _)| *weight > 0).collect()
    }
}
