//! One memory budget for all calls of plugins: which call may grow now, and which one waits.
//!
//! At its first growth a call states how much it may ever hold. A request is granted only if all calls could then still
//! end, one after the other, each with all that it may ever hold (the banker's algorithm). So no two calls wait for
//! each other: while one waits, another one can end and release its memory. Waiting requests are granted in the order
//! in which they came. While one waits, no new call may take memory, so that no call waits for ever.
//!
//! Without clock and without threads: the host does the waiting, and ends it after a time.

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// The call holds the memory.
    Granted,
    /// The call waits; [`Memory::settle`] returns it when its request is granted.
    Waits,
    /// The request is more than all calls together may hold.
    Never,
}

/// The memory of all calls. Sizes are bytes; a call is identified by its number.
#[derive(Debug, Clone)]
pub struct Memory {
    total: usize,
    calls: Vec<CallMemory>,
    /// Requests that wait, numbered in their order.
    asked: u64,
    peak: usize,
}

/// What one call holds.
#[derive(Debug, Clone, Copy)]
struct CallMemory {
    call: u64,
    now: usize,
    /// The most that it may ever hold.
    most: usize,
    /// Its waiting request: when it came, and the sum that the call would hold.
    wants: Option<(u64, usize)>,
}

impl CallMemory {
    fn is_new(&self) -> bool {
        self.now == 0
    }
}

impl Memory {
    /// A budget of so many bytes.
    #[must_use]
    pub fn new(total: usize) -> Self {
        Self { total, calls: Vec::new(), asked: 0, peak: 0 }
    }

    /// What all calls may hold together.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// What all calls hold.
    #[must_use]
    pub fn held(&self) -> usize {
        self.calls.iter().map(|held| held.now).sum()
    }

    /// The most that all calls held at one time.
    #[must_use]
    pub fn peak(&self) -> usize {
        self.peak
    }

    /// How many calls wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.calls.iter().filter(|held| held.wants.is_some()).count()
    }

    /// A call that may ever hold `most` asks to hold `sum`.
    pub fn ask(&mut self, call: u64, most: usize, sum: usize) -> Growth {
        if sum > self.total {
            return Growth::Never;
        }
        if !self.calls.iter().any(|held| held.call == call) {
            let most = most.min(self.total);
            self.calls.push(CallMemory { call, now: 0, most, wants: None });
        }
        self.asked += 1;
        let asked = self.asked;
        if let Some(held) = self.of(call) {
            held.most = held.most.max(sum);
            held.wants = Some((asked, sum));
        }
        if self.settle().contains(&call) { Growth::Granted } else { Growth::Waits }
    }

    /// A call holds less than was granted: it could not grow.
    pub fn give_back(&mut self, call: u64, sum: usize) {
        if let Some(held) = self.of(call) {
            held.now = held.now.min(sum);
        }
    }

    /// A call no longer waits; it keeps what it holds.
    pub fn give_up(&mut self, call: u64) {
        if let Some(held) = self.of(call) {
            held.wants = None;
        }
        self.calls.retain(|held| held.call != call || !held.is_new());
    }

    /// A call has ended.
    pub fn leave(&mut self, call: u64) {
        self.calls.retain(|held| held.call != call);
    }

    /// Grants the waiting requests that can be granted, and returns their calls. Call it after every change.
    pub fn settle(&mut self) -> Vec<u64> {
        let mut waiting: Vec<(u64, u64, usize)> =
            self.calls.iter().filter_map(|held| held.wants.map(|(asked, sum)| (asked, held.call, sum))).collect();
        waiting.sort_unstable();
        let mut granted = Vec::new();
        let mut is_one_left = false;
        for (_, call, sum) in waiting {
            let is_new = self.of(call).is_some_and(|held| held.is_new());
            if (is_new && is_one_left) || !self.is_safe_with(call, sum) {
                is_one_left = true;
                continue;
            }
            if let Some(held) = self.of(call) {
                held.now = held.now.max(sum);
                held.wants = None;
            }
            granted.push(call);
        }
        self.peak = self.peak.max(self.held());
        granted
    }

    fn of(&mut self, call: u64) -> Option<&mut CallMemory> {
        self.calls.iter_mut().find(|held| held.call == call)
    }

    /// Whether all calls could end, one after the other, if this one held that sum.
    fn is_safe_with(&self, call: u64, sum: usize) -> bool {
        let now = |held: &CallMemory| if held.call == call { held.now.max(sum) } else { held.now };
        let Some(mut free) = self.total.checked_sub(self.calls.iter().map(now).sum()) else { return false };
        let mut needs: Vec<(usize, usize)> =
            self.calls.iter().map(|held| (held.most.saturating_sub(now(held)), now(held))).collect();
        // The call that needs least ends first: if that one cannot end, none can.
        needs.sort_unstable();
        needs.into_iter().all(|(need, held)| {
            let can = need <= free;
            free += held;
            can
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn calls_that_use_little_do_not_wait_for_the_most_that_they_may_use() {
        let mut memory = Memory::new(512);
        for call in 0..4 {
            assert_eq!(memory.ask(call, 256, 40), Growth::Granted, "{call}");
        }
        assert_eq!((memory.held(), memory.waiting()), (160, 0));
    }

    #[test]
    fn a_call_that_could_make_all_others_wait_for_ever_waits() {
        let mut memory = Memory::new(512);
        for call in 0..3 {
            assert_eq!(memory.ask(call, 256, 100), Growth::Granted, "{call}");
        }
        // One of them can still get its 256, and after it the next.
        assert_eq!(memory.ask(0, 256, 256), Growth::Granted);
        // No call could end any more.
        assert_eq!(memory.ask(1, 256, 200), Growth::Waits);
        memory.leave(0);
        assert_eq!(memory.settle(), [1]);
        assert_eq!((memory.held(), memory.peak()), (300, 456));
    }

    #[test]
    fn no_new_call_takes_memory_while_another_one_waits() {
        let mut memory = Memory::new(100);
        assert_eq!(memory.ask(0, 100, 60), Growth::Granted);
        assert_eq!(memory.ask(1, 60, 60), Growth::Waits);
        assert_eq!(memory.ask(2, 1, 1), Growth::Waits);
        assert_eq!(memory.ask(0, 100, 80), Growth::Granted);
        memory.leave(0);
        assert_eq!(memory.settle(), [1, 2]);
        assert_eq!(memory.ask(3, 200, 101), Growth::Never);
    }

    #[test]
    fn a_call_that_gives_up_blocks_no_other() {
        let mut memory = Memory::new(100);
        assert_eq!(memory.ask(0, 100, 60), Growth::Granted);
        assert_eq!(memory.ask(1, 60, 60), Growth::Waits);
        assert_eq!(memory.ask(2, 20, 20), Growth::Waits);
        memory.give_up(1);
        // 20 are left for the second, and all that is missing for the first afterwards.
        assert_eq!(memory.settle(), [2]);
        memory.give_back(2, 5);
        assert_eq!(memory.held(), 65);
    }

    /// A step of a history: a call asks for more, or ends, or gives up.
    #[derive(Debug, Clone)]
    enum Step {
        Ask(u64, usize),
        Leave(u64),
        GiveUp(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..6_u64, 1..100_usize).prop_map(|(call, sum)| Step::Ask(call, sum)),
            2 => (0..6_u64).prop_map(Step::Leave),
            1 => (0..6_u64).prop_map(Step::GiveUp),
        ]
    }

    proptest! {
        /// However calls grow, the sum stays within the budget. From every state all calls can end, even if each takes
        /// all that it may before it releases anything.
        #[test]
        fn the_budget_holds_and_no_call_waits_for_ever(
            total in 50..200_usize,
            most in prop::collection::vec(1..220_usize, 6),
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let mut memory = Memory::new(total);
            let most = |call: u64| most[usize::try_from(call).unwrap()].min(total);
            for step in steps {
                match step {
                    Step::Ask(call, sum) => {
                        let is_waiting = memory.calls.iter().any(|held| held.call == call && held.wants.is_some());
                        let now = memory.calls.iter().find(|held| held.call == call).map_or(0, |held| held.now);
                        // A call that waits does nothing, and asks for no less than it has.
                        if !is_waiting {
                            memory.ask(call, most(call), sum.min(most(call)).max(now));
                        }
                    }
                    Step::Leave(call) => memory.leave(call),
                    Step::GiveUp(call) => memory.give_up(call),
                }
                memory.settle();
                prop_assert!(memory.held() <= total && memory.peak() <= total);
            }
            while !memory.calls.is_empty() {
                let running: Vec<u64> =
                    memory.calls.iter().filter(|held| held.wants.is_none()).map(|held| held.call).collect();
                prop_assert!(!running.is_empty(), "all wait: {memory:?}");
                let mut left = false;
                for call in running {
                    if memory.ask(call, most(call), most(call)) == Growth::Granted {
                        prop_assert!(memory.held() <= total);
                        memory.leave(call);
                        memory.settle();
                        left = true;
                    }
                }
                prop_assert!(left || memory.waiting() < memory.calls.len(), "no call can end: {memory:?}");
            }
        }
    }
}
