//! What a source does next. Pure: what it depends on and the time are arguments.

use tokio::time::Instant;

/// What the next turn depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TurnFacts {
    /// Something else may be wanted than the rollout knows.
    pub(super) is_wish_due: bool,
    /// Rounds may run: something serves with the entry that it has, and the operator did not pause the source.
    pub(super) is_active: bool,
    /// A candidate waits for its shadow round.
    pub(super) is_shadow_due: bool,
    /// The HyperNodes of a plugin that failed for good should go, and writing is allowed.
    pub(super) is_removal_due: bool,
    /// What serves was made with an earlier entry and should be prepared with the present one.
    pub(super) is_behind: bool,
    /// When time changes something for the rollout.
    pub(super) tick: Option<Instant>,
    /// When an entry that was refused is tried again.
    pub(super) prepare: Option<Instant>,
    /// When a round is due.
    pub(super) round: Option<Instant>,
    /// When the last answer is decided about again.
    pub(super) decide: Option<Instant>,
}

/// What a source does by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceStep {
    /// Says what is wanted.
    Wish,
    /// Tries the candidate in the shadow.
    Shadow,
    /// Deletes the HyperNodes of a plugin that failed for good.
    Remove,
    /// Prepares what serves with the present entry.
    Prepare,
    /// Lets the rollout know that time passed.
    Tick,
    /// Runs a round.
    Round,
    /// Decides about the last answer again.
    Decide,
}

/// The next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Before anything that arrives.
    Now(SourceStep),
    /// At that time, unless something arrives before it.
    At(Instant, SourceStep),
    /// Nothing before something arrives.
    Rest,
}

/// The next turn: a change of the active plugin comes before a round, a round before deciding again. Of turns that wait
/// for a time, the earliest is first.
pub(super) fn due(facts: &TurnFacts, now: Instant) -> Turn {
    if facts.is_wish_due {
        return Turn::Now(SourceStep::Wish);
    }
    // No round begins with a configuration that was just edited away.
    if facts.is_active && facts.is_shadow_due {
        return Turn::Now(SourceStep::Shadow);
    }
    if facts.is_active && facts.is_removal_due {
        return Turn::Now(SourceStep::Remove);
    }
    if facts.is_behind {
        return Turn::Now(SourceStep::Prepare);
    }
    let timed = [
        (facts.tick, SourceStep::Tick),
        (facts.prepare, SourceStep::Prepare),
        (facts.round.filter(|_| facts.is_active), SourceStep::Round),
        (facts.decide.filter(|_| facts.is_active), SourceStep::Decide),
    ];
    // What is late is as due as what is due now; the first of equals is taken.
    let timed = timed.into_iter().filter_map(|(at, step)| Some((at?.max(now), step)));
    timed.min_by_key(|(at, _)| *at).map_or(Turn::Rest, |(at, step)| Turn::At(at, step))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_next_turn_by_what_is_due() {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let rest = TurnFacts { is_active: true, ..TurnFacts::default() };
        let timed = TurnFacts {
            tick: Some(at(4)),
            prepare: Some(at(3)),
            round: Some(at(2)),
            decide: Some(at(1)),
            ..rest.clone()
        };
        let all = TurnFacts {
            is_wish_due: true,
            is_shadow_due: true,
            is_removal_due: true,
            is_behind: true,
            ..timed.clone()
        };
        let late = |seconds| Some(now.checked_sub(Duration::from_secs(seconds)).unwrap_or(now));
        let overdue = TurnFacts { tick: late(1), prepare: late(2), round: late(3), decide: late(4), ..rest.clone() };
        let still = |facts: &TurnFacts| TurnFacts { is_active: false, ..facts.clone() };
        for (what, facts, turn) in [
            ("nothing", rest.clone(), Turn::Rest),
            ("a wish comes first", all.clone(), Turn::Now(SourceStep::Wish)),
            ("a wish, paused", still(&all), Turn::Now(SourceStep::Wish)),
            ("then the shadow", TurnFacts { is_wish_due: false, ..all.clone() }, Turn::Now(SourceStep::Shadow)),
            (
                "then the removal",
                TurnFacts { is_wish_due: false, is_shadow_due: false, ..all.clone() },
                Turn::Now(SourceStep::Remove),
            ),
            ("then the entry", TurnFacts { is_behind: true, ..timed.clone() }, Turn::Now(SourceStep::Prepare)),
            (
                "paused: no shadow and no removal, but the entry",
                TurnFacts { is_wish_due: false, ..still(&all) },
                Turn::Now(SourceStep::Prepare),
            ),
            ("the earliest time", timed.clone(), Turn::At(at(1), SourceStep::Decide)),
            ("paused: no round, nothing decided", still(&timed), Turn::At(at(3), SourceStep::Prepare)),
            (
                "a round before a decision",
                TurnFacts { decide: Some(at(9)), ..timed.clone() },
                Turn::At(at(2), SourceStep::Round),
            ),
            ("what is late, in its order", overdue.clone(), Turn::At(now, SourceStep::Tick)),
            ("late without a tick", TurnFacts { tick: None, ..overdue.clone() }, Turn::At(now, SourceStep::Prepare)),
            (
                "a late round before a late decision",
                TurnFacts { tick: None, prepare: None, ..overdue.clone() },
                Turn::At(now, SourceStep::Round),
            ),
            (
                "a decision alone",
                TurnFacts { tick: None, prepare: None, round: None, ..overdue },
                Turn::At(now, SourceStep::Decide),
            ),
            ("paused and nothing else", TurnFacts { tick: None, prepare: None, ..still(&timed) }, Turn::Rest),
        ] {
            assert_eq!(due(&facts, now), turn, "{what}");
        }
    }
}
