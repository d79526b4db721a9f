//! `limits` of a project file: the same words and ranges as in an entry of the operator, since they end up there.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde_json::Value;
use topoloom_core::limits::{Amount, Limit, LimitSetting, Profile};
use topoloom_core::size;

use super::Mistake;
use super::read::{Fields, one_of, shown};

/// The field of the profile.
const PROFILE: &str = "profile";
const PROFILES: [(&str, Profile); 2] = [("standard", Profile::Standard), ("large", Profile::Large)];

/// Units of a time in seconds, the longer of two that begin alike first.
const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// What a plugin needs of a host. Prints as an entry writes it: `{profile: large, compileCpu: 30s}`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Which defaults.
    pub profile: Profile,
    given: BTreeMap<Limit, Amount>,
}

impl Limits {
    /// What the project says about one limit.
    #[must_use]
    pub fn get(&self, limit: Limit) -> Option<Amount> {
        self.given.get(&limit).copied()
    }

    /// Says something about one limit. What no entry may set is left out.
    pub fn set(&mut self, limit: Limit, amount: Amount) {
        if matches!(limit.row().setting, LimitSetting::Entry { .. }) {
            self.given.insert(limit, amount);
        }
    }

    /// The limits that are in force: the defaults, with what the project says in their place.
    #[must_use]
    pub fn applied(&self) -> topoloom_core::limits::Limits {
        let mut limits = topoloom_core::limits::Limits::of(self.profile);
        for (limit, amount) in &self.given {
            limits.set(*limit, *amount);
        }
        limits
    }

    /// Whether they are the usual ones: an entry has to say nothing.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile = PROFILES.iter().find(|(_, profile)| *profile == self.profile && *profile != Profile::default());
        let given = self.given.iter().filter_map(|(limit, amount)| Some(format!("{}: {amount}", limit.key()?)));
        let words = profile.map(|(word, _)| format!("{PROFILE}: {word}"));
        write!(f, "{{{}}}", words.into_iter().chain(given).collect::<Vec<_>>().join(", "))
    }
}

/// The text of a project file with these limits in it, in one line in place of what it said about limits, or at its end. All else
/// stays as it is, also comments. That is right for fields that begin at the left: the caller reads the text before it trusts it.
#[must_use]
pub fn with_limits(text: &str, limits: &Limits) -> String {
    let said = format!("limits: {limits}");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let (mut kept, mut is_inside, mut is_said) = (String::with_capacity(text.len() + said.len()), false, false);
    let mut rest = lines.as_slice();
    while let Some((line, after)) = rest.split_first() {
        rest = after;
        is_inside = is_inside && is_part(line, after);
        let is_field = is_field(line);
        if is_field && !is_said {
            let words = [Some(said.as_str()), comment(line)];
            kept.push_str(&words.into_iter().flatten().collect::<Vec<_>>().join(" "));
            kept.push('\n');
        } else if !is_field && (!is_inside || line.trim().is_empty() || line.trim_start().starts_with('#')) {
            kept.push_str(line);
        } else if let Some(comment) = comment(line) {
            kept.push_str(&format!("  {comment}\n"));
        }
        if is_field {
            (is_inside, is_said) = (true, true);
        }
    }
    if !is_said {
        if !kept.is_empty() && !kept.ends_with('\n') {
            kept.push('\n');
        }
        kept.push_str(&format!("{said}\n"));
    }
    kept
}

/// Whether a line begins the field.
fn is_field(line: &str) -> bool {
    let rest = ["limits", "\"limits\"", "'limits'"].iter().find_map(|field| line.strip_prefix(field));
    rest.is_some_and(|rest| rest.trim_start_matches([' ', '\t']).starts_with(':'))
}

/// Whether a line behind that belongs to the field: it is indented, blank, or closes it. A comment belongs to what comes after it.
fn is_part(line: &str, after: &[&str]) -> bool {
    let is_more = |line: &str| line.starts_with([' ', '\t', '}']) && !line.trim().is_empty();
    if line.starts_with('#') {
        let next = after.iter().find(|line| !line.starts_with('#') && !line.trim().is_empty());
        return next.is_some_and(|line| is_more(line));
    }
    is_more(line) || line.trim().is_empty()
}

/// The comment at the end of a line of limits, whose values have no such sign.
fn comment(line: &str) -> Option<&str> {
    let (_, comment) = line.split_once(" #")?;
    line.get(line.len() - comment.len() - 1..).map(str::trim_end)
}

pub(super) fn read(value: Value, mistakes: &mut Vec<Mistake>) -> Limits {
    let Value::Object(document) = value else {
        let message = format!("must be a mapping such as {{profile: large}}, not {}", shown(&value));
        mistakes.push(Mistake { field: "limits".to_owned(), message });
        return Limits::default();
    };
    let entry = |limit: &Limit| match limit.row().setting {
        LimitSetting::Entry { key, low, high } => Some((*limit, key, low, high)),
        _ => None,
    };
    let rows: Vec<_> = Limit::ALL.iter().filter_map(entry).collect();
    let known: Vec<&str> = [PROFILE].into_iter().chain(rows.iter().map(|(_, key, ..)| *key)).collect();
    let mut fields = Fields::new("limits.", &known, document, mistakes);
    let mut limits = Limits::default();
    if let Some(profile) = fields.read(PROFILE, |value| one_of(value, &PROFILES)) {
        limits.profile = profile;
    }
    for (limit, key, low, high) in rows {
        if let Some(amount) = fields.read(key, |value| amount(value, low, high)) {
            limits.given.insert(limit, amount);
        }
    }
    fields.end();
    limits
}

/// A value of the unit of its range.
fn amount(value: &Value, low: Amount, high: Amount) -> Result<Amount, String> {
    let text = match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let (found, wanted) = match low {
        Amount::Bytes(_) => {
            let bytes = text.as_deref().and_then(size::parse).map(|size| Amount::Bytes(size.as_u64()));
            (bytes, "a size such as 256Mi")
        }
        Amount::Time(_) => {
            (text.as_deref().and_then(time).map(Amount::Time), "a time with its unit such as 30s or 250ms")
        }
        _ => (text.and_then(|text| text.parse().ok()).map(Amount::Count), "a whole number"),
    };
    found
        .filter(|amount| (low..=high).contains(amount))
        .ok_or_else(|| format!("must be {wanted}, between {low} and {high}, not {}", shown(value)))
}

/// A time as an entry writes it: numbers with units, one after the other.
fn time(text: &str) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    let (mut rest, mut total) = (text, Duration::ZERO);
    while !rest.is_empty() {
        let end = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, after) = rest.split_at_checked(end)?;
        let (unit, seconds) = UNITS.iter().find(|(unit, _)| after.starts_with(unit))?;
        let term = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(term)?;
        rest = after.get(unit.len()..)?;
    }
    Some(total)
}
