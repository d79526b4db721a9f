//! Which limits a component needs, from what was measured of it: the lines for the project file and for the entry of an operator.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use topoloom_core::limits::{Amount, Limit, LimitSetting, Profile};

use crate::project::Limits;

/// How much more processor time a compile gets than it took here: the machine of the operator is another one, and a plugin
/// that serves is compiled with optimisation.
const COMPILE_MARGIN: u32 = 2;

/// Processor time for compiling is asked for in steps of so many seconds: what was measured differs from build to build.
const COMPILE_STEP: u64 = 5;

/// Things are asked for in steps of so many.
const COUNT_STEP: u64 = 100;

/// What a component needs beyond the limits that every plugin has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Need {
    /// What an entry has to say; nothing where the usual limits are enough.
    pub limits: Limits,
    /// The limits of `standard` that it does not keep, in the order of the table.
    pub rows: Vec<Row>,
}

/// A limit that a component does not keep with the defaults of `standard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub limit: Limit,
    /// What the component has.
    pub found: Amount,
    /// What it needs: for most limits the same.
    pub needed: Amount,
}

impl Need {
    /// From what was measured. What is not measured is taken to be enough.
    #[must_use]
    pub fn of(measures: &BTreeMap<Limit, Amount>) -> Self {
        let rows: Vec<Row> = measures
            .iter()
            .map(|(limit, found)| Row { limit: *limit, found: *found, needed: needed(*limit, *found) })
            .filter(|row| row.needed > row.limit.default(Profile::Standard))
            .collect();
        let mut need = Self { limits: Limits::default(), rows };
        need.limits = need.added_to(&need.limits).unwrap_or_default();
        need
    }

    /// The limits of a project that allow this, too; nothing where those that it has do already. Never takes anything away: a
    /// project may ask for more than its component needs to be loaded.
    #[must_use]
    pub fn added_to(&self, limits: &Limits) -> Option<Limits> {
        let missing: Vec<&Row> = self.rows.iter().filter(|row| !row.is_allowed_by(limits)).collect();
        let mut wider = limits.clone();
        // One limit is raised alone, where that can be done. A component that exceeds several carries a language with it.
        let of_profile = |row: &&&Row| row.needed <= row.limit.default(Profile::Large);
        if missing.iter().filter(of_profile).any(|row| row.key().is_none() || missing.len() > 1) {
            wider.profile = Profile::Large;
        }
        for row in missing {
            if let Some((limit, high)) = row.key().filter(|_| !row.is_allowed_by(&wider)) {
                wider.set(limit, round(row.needed).min(high));
            }
        }
        (wider != *limits).then_some(wider)
    }

    /// What no entry can allow.
    pub fn beyond(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| {
            let most = row.key().map_or(row.limit.default(Profile::Large), |(_, high)| high);
            row.needed > most
        })
    }
}

impl Row {
    /// Whether these limits are enough for it.
    fn is_allowed_by(&self, limits: &Limits) -> bool {
        let given = self.key().and_then(|(limit, _)| limits.get(limit));
        self.needed <= given.unwrap_or(self.limit.default(limits.profile))
    }

    /// The limit that an entry sets for this one, and the most that it may be.
    fn key(&self) -> Option<(Limit, Amount)> {
        let limit = if let LimitSetting::With(other) = self.limit.row().setting { other } else { self.limit };
        match limit.row().setting {
            LimitSetting::Entry { high, .. } => Some((limit, high)),
            _ => None,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.limit.row();
        let meaning = row.meaning.trim().trim_end_matches('.');
        write!(f, "{meaning} (`{}`): {}; `standard` allows {}", row.word, self.found, row.standard)?;
        if row.large == row.standard { Ok(()) } else { write!(f, ", `large` {}", row.large) }
    }
}

/// What has to be allowed for a component that has this.
fn needed(limit: Limit, found: Amount) -> Amount {
    match (limit, found) {
        (Limit::CompileCpu, Amount::Time(took)) => {
            let wanted = took.saturating_mul(COMPILE_MARGIN).as_secs_f64();
            let steps = (wanted / COMPILE_STEP as f64).ceil() as u64;
            let most = match limit.row().setting {
                LimitSetting::Entry { high, .. } => high.time(),
                _ => Duration::MAX,
            };
            // A compile that ended within the most that there is needs no more than that.
            Amount::Time(Duration::from_secs(steps * COMPILE_STEP).min(most).max(took))
        }
        _ => found,
    }
}

/// A number that is written into a file: the next build may have a little more.
fn round(needed: Amount) -> Amount {
    match needed {
        Amount::Bytes(bytes) => Amount::Bytes(bytes.checked_next_power_of_two().unwrap_or(bytes)),
        Amount::Count(count) => Amount::Count(count.div_ceil(COUNT_STEP) * COUNT_STEP),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(measures: &[(Limit, Amount)]) -> Need {
        Need::of(&measures.iter().copied().collect())
    }

    #[test]
    fn a_small_component_needs_nothing() {
        let small =
            [(Limit::File, Amount::kib(300)), (Limit::Function, Amount::kib(40)), (Limit::Depth, Amount::Count(1))];
        let found = need(&small);
        assert_eq!(found, Need::default());
        assert!(found.limits.is_usual());
    }

    #[test]
    fn one_limit_is_raised_alone_and_several_are_a_profile() {
        for (measures, line) in [
            (&[(Limit::Function, Amount::Bytes(70_000))][..], "{function: 128Ki}"),
            (&[(Limit::Locals, Amount::Count(1_234))], "{locals: 1300}"),
            (&[(Limit::Modules, Amount::Count(17))], "{profile: large}"),
            (&[(Limit::File, Amount::mib(18)), (Limit::Function, Amount::kib(200))], "{profile: large}"),
            // More than the profile has.
            (&[(Limit::File, Amount::mib(18)), (Limit::Function, Amount::mib(3))], "{profile: large, function: 4Mi}"),
            (&[(Limit::Function, Amount::mib(3))], "{function: 4Mi}"),
            // The memory at start is that of the whole call.
            (&[(Limit::Initial, Amount::mib(300))], "{memory: 512Mi}"),
        ] {
            let found = need(measures);
            assert_eq!(found.limits.to_string(), line, "{measures:?}");
            assert_eq!(found.beyond().count(), 0, "{measures:?}");
        }
    }

    #[test]
    fn a_compile_gets_twice_what_it_took_here() {
        for (took, line) in [
            (1, "{}"),
            (5, "{}"),
            (6, "{compileCpu: 15s}"),
            (18, "{compileCpu: 40s}"),
            // More than a minute cannot be had.
            (45, "{compileCpu: 60s}"),
        ] {
            assert_eq!(need(&[(Limit::CompileCpu, Amount::seconds(took))]).limits.to_string(), line, "{took}");
        }
        let both = need(&[(Limit::File, Amount::mib(12)), (Limit::CompileCpu, Amount::seconds(18))]);
        assert_eq!(both.limits.to_string(), "{profile: large, compileCpu: 40s}");
    }

    #[test]
    fn a_project_keeps_what_it_asks_for_and_gets_what_is_missing() {
        let large = need(&[(Limit::File, Amount::mib(12)), (Limit::CompileCpu, Amount::seconds(18))]);
        let mut asked = Limits::default();
        asked.set(Limit::Cpu, Amount::seconds(20));
        let added = large.added_to(&asked).unwrap();
        assert_eq!(added.to_string(), "{profile: large, compileCpu: 40s, cpu: 20s}");
        assert_eq!(large.added_to(&added), None, "once");
        // A limit that is high enough in the profile that a project has already.
        let function = need(&[(Limit::Function, Amount::Bytes(70_000))]);
        let mut of_large = Limits::default();
        of_large.profile = Profile::Large;
        assert_eq!(function.added_to(&of_large), None);
        assert_eq!(Need::default().added_to(&Limits::default()), None);
    }

    #[test]
    fn what_a_project_allows_already_does_not_make_it_ask_for_a_profile() {
        let both = [(Limit::Function, Amount::Bytes(70_000)), (Limit::Locals, Amount::Count(1_234))];
        assert_eq!(need(&both).limits.profile, Profile::Large);
        let mut asked = Limits::default();
        asked.set(Limit::Function, Amount::kib(128));
        asked.set(Limit::Locals, Amount::Count(1_300));
        assert_eq!(need(&both).added_to(&asked), None);
        let slow = need(&[both[0], both[1], (Limit::CompileCpu, Amount::seconds(18))]);
        let added = slow.added_to(&asked).unwrap();
        asked.set(Limit::CompileCpu, Amount::seconds(40));
        assert_eq!(added, asked);
    }

    #[test]
    fn what_no_entry_allows_is_named() {
        let found = need(&[(Limit::Modules, Amount::Count(65)), (Limit::Operands, Amount::Count(2_000))]);
        let beyond: Vec<Limit> = found.beyond().map(|row| row.limit).collect();
        assert_eq!(beyond, [Limit::Operands, Limit::Modules]);
        let file = need(&[(Limit::File, Amount::mib(40))]);
        assert_eq!(file.beyond().count(), 1);
    }

    #[test]
    fn a_row_says_what_it_is_what_was_found_and_what_is_allowed() {
        let found = need(&[(Limit::File, Amount::Bytes(18_512_619)), (Limit::Operands, Amount::Count(1_001))]);
        let said: Vec<String> = found.rows.iter().map(ToString::to_string).collect();
        assert_eq!(said[0], "The file, uncompressed (`file`): 18512619; `standard` allows 4Mi, `large` 32Mi");
        assert!(said[1].ends_with("(`operands`): 1001; `standard` allows 1000"), "{}", said[1]);
    }
}
