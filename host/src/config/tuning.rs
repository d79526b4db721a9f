//! Numbers an operator may turn: what a plugin may use, and what a result may destroy.

use super::read::{At, Fields, ReadReport};
use std::collections::BTreeMap;
use std::time::Duration;
use topoloom_core::plugin::{Amount, Limit, LimitSetting};
use topoloom_core::size::ByteSize;

pub use topoloom_core::plugin::Profile;

/// What one plugin may use, as far as the entry says it. A value that is not given is the host's default for that kind
/// of plugin: the builtin UFM source, for one, has larger ones than a third-party plugin (decision P3).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Which defaults.
    pub profile: Profile,
    given: BTreeMap<Limit, Amount>,
}

impl Limits {
    /// What the entry says about one limit.
    #[must_use]
    pub fn get(&self, limit: Limit) -> Option<Amount> {
        self.given.get(&limit).copied()
    }

    /// The limits that are in force: the defaults, with what the entry says in their place.
    #[must_use]
    pub fn applied(&self) -> topoloom_core::plugin::Limits {
        self.over(&[])
    }

    /// The same for a plugin of which it is known that it needs other defaults.
    #[must_use]
    pub fn over(&self, usual: &[(Limit, Amount)]) -> topoloom_core::plugin::Limits {
        let mut limits = topoloom_core::plugin::Limits::of(self.profile);
        for (limit, amount) in usual {
            limits.set(*limit, *amount);
        }
        for (limit, amount) in &self.given {
            limits.set(*limit, *amount);
        }
        limits
    }
}

/// What a result may destroy before it is held (decision H6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Safety {
    /// Share of the source's HyperNodes that one round may delete, in percent.
    pub max_delete_percent: u8,
    /// Share of the placed Nodes that one round may leave without a place, in percent.
    pub max_lose_percent: u8,
    /// How many agreeing rounds confirm a held result.
    pub confirmations: u32,
    /// How far apart the first and the last of them must be; nothing means the host's default: 10 minutes, or 1 hour
    /// for a source that calls endpoints.
    pub hold_for: Option<Duration>,
    /// Whether an empty result may be confirmed by time.
    pub empty: EmptyResult,
}

/// What an empty result of a source that has objects needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmptyResult {
    /// The operator's word.
    #[default]
    AskOperator,
    /// The same confirmation by time as every held result.
    ConfirmByTime,
}

/// Half of the objects: a rename of one level of two passes, a lost upper fabric does not.
pub const DEFAULT_MAX_DELETE_PERCENT: u8 = 50;
/// A third of the placed Nodes: more than any usual maintenance touches at once.
pub const DEFAULT_MAX_LOSE_PERCENT: u8 = 30;
/// The round that was held, and one that agrees.
pub const DEFAULT_CONFIRMATIONS: u32 = 2;

impl Default for Safety {
    fn default() -> Self {
        Self {
            max_delete_percent: DEFAULT_MAX_DELETE_PERCENT,
            max_lose_percent: DEFAULT_MAX_LOSE_PERCENT,
            confirmations: DEFAULT_CONFIRMATIONS,
            hold_for: None,
            empty: EmptyResult::AskOperator,
        }
    }
}

/// Reads `limits`: every row of the table that an entry may set.
pub(super) fn read_limits(fields: &mut Fields<'_>, report: &mut ReadReport) -> Limits {
    let mut given = BTreeMap::new();
    for limit in Limit::ALL {
        let LimitSetting::Entry { key, low, high } = limit.row().setting else { continue };
        if let Some(amount) = fields.read(key, report, |at| amount(at, low, high)) {
            given.insert(*limit, amount);
        }
    }
    let profile = fields
        .read("profile", report, |at| at.one_of(&[("standard", Profile::Standard), ("large", Profile::Large)]))
        .unwrap_or_default();
    Limits { profile, given }
}

/// A value of the unit of its range.
fn amount(at: &At<'_>, low: Amount, high: Amount) -> Result<Amount, String> {
    match (low, high) {
        (Amount::Bytes(low), Amount::Bytes(high)) => {
            let size = at.size(&(ByteSize::bytes(low)..=ByteSize::bytes(high)))?;
            Ok(Amount::Bytes(size.as_u64()))
        }
        (Amount::Time(low), Amount::Time(high)) => Ok(Amount::Time(at.duration(&(low..=high))?)),
        _ => {
            let number = |amount: Amount| i64::try_from(amount.number()).unwrap_or(i64::MAX);
            let count = at.integer(number(low)..=number(high))?;
            Ok(Amount::Count(u64::try_from(count).unwrap_or_default()))
        }
    }
}

/// Reads `safety`.
pub(super) fn read_safety(fields: &mut Fields<'_>, report: &mut ReadReport) -> Safety {
    let default = Safety::default();
    // One round cannot confirm itself; ten are as good as never.
    let confirmations = 2..=10;
    let percent = |at: &At<'_>| at.integer(0..=100).map(|value| u8::try_from(value).unwrap_or(100));
    // A week: longer than a held result can be useful.
    let hold_for = Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);
    Safety {
        max_delete_percent: fields.read("maxDeletePercent", report, percent).unwrap_or(default.max_delete_percent),
        max_lose_percent: fields.read("maxLosePercent", report, percent).unwrap_or(default.max_lose_percent),
        confirmations: fields
            .read("confirmations", report, |at| at.integer(confirmations))
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or(default.confirmations),
        hold_for: fields.read("holdFor", report, |at| at.duration(&hold_for)),
        empty: match fields.read("allowEmpty", report, At::boolean) {
            Some(true) => EmptyResult::ConfirmByTime,
            Some(false) | None => EmptyResult::AskOperator,
        },
    }
}
