//! A plan as an operator reads it: one line per step, steps numbered from 1.

use std::fmt;

use crate::topology::model::Spec;
use crate::topology::plan::{
    Action, Annotations, Because, Blocked, Changes, Obstacle, Plan, PlanStep, StepId, Withheld, WritePart,
};

/// How many names a line lists; the rest are counted.
const NAMED: usize = 5;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            f.write_str("nothing to write")?;
        }
        for (at, step) in self.steps.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}. {step}", at + 1)?;
        }
        for blocked in &self.blocked {
            write!(f, "\nblocked: {blocked}")?;
        }
        Ok(())
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 + 1)
    }
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Action::Create { write, part } => {
                write!(f, "create {}: {}{}", self.name, Content(&write.spec), Partly(*part))?;
            }
            Action::Update { changes, .. } => write!(f, "update {}: {changes}", self.name)?,
            Action::Delete { part: WritePart::Whole, .. } => write!(f, "delete {}", self.name)?,
            Action::Delete { part: WritePart::First, .. } => {
                write!(f, "delete {} (a later step creates it again)", self.name)?;
            }
        }
        for (at, dependency) in self.after.iter().enumerate() {
            let word = if at == 0 { "; after" } else { "," };
            write!(f, "{word} {} {}", dependency.step, dependency.because)?;
        }
        Ok(())
    }
}

/// The content of an object in few words.
struct Content<'a>(&'a Spec);

impl fmt::Display for Content<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let children = self.0.children().count();
        let others = self.0.members.len() - children;
        write!(f, "tier {}", self.0.tier)?;
        if let Some(name) = &self.0.tier_name {
            write!(f, " ({name})")?;
        }
        if children > 0 {
            f.write_str(", children ")?;
            list(f, self.0.children())?;
        }
        if others > 0 {
            write!(f, ", {others} {}", plural(others, "member"))?;
        }
        Ok(())
    }
}

struct Partly(WritePart);

impl fmt::Display for Partly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            WritePart::Whole => Ok(()),
            WritePart::First => f.write_str(" (a later step completes it)"),
        }
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.releases.is_empty() {
            parts.push(format!("drop {}", ShownNames(&self.releases)));
        }
        if !self.claims.is_empty() {
            parts.push(format!("add {}", ShownNames(&self.claims)));
        }
        if self.dropped > 0 {
            parts.push(format!("drop {} {}", self.dropped, plural(self.dropped, "member")));
        }
        if self.added > 0 {
            parts.push(format!("add {} {}", self.added, plural(self.added, "member")));
        }
        if let Some(tier) = &self.tier {
            parts.push(format!("tier {} to {}", tier.from, tier.to));
        }
        if let Some(name) = &self.tier_name {
            let text = |name: &Option<_>| name.as_deref().unwrap_or("none").to_owned();
            parts.push(format!("tier name {} to {}", text(&name.from), text(&name.to)));
        }
        if !self.labels.is_empty() {
            parts.push(format!("{} {}", plural(self.labels.len(), "label"), ShownNames(&self.labels)));
        }
        if self.annotations == Annotations::Written {
            parts.push("annotations".to_owned());
        }
        if parts.is_empty() {
            parts.push("order of members".to_owned());
        }
        write!(f, "{}{}", parts.join(", "), Partly(self.part))
    }
}

struct ShownNames<'a>(&'a [std::sync::Arc<str>]);

impl fmt::Display for ShownNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, self.0.iter())
    }
}

fn list<'a>(f: &mut fmt::Formatter<'_>, names: impl Iterator<Item = &'a std::sync::Arc<str>>) -> fmt::Result {
    let mut more = 0;
    for (at, name) in names.enumerate() {
        match at {
            0 => f.write_str(name)?,
            1..NAMED => write!(f, " {name}")?,
            _ => more += 1,
        }
    }
    if more > 0 { write!(f, " and {more} more") } else { Ok(()) }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameObject => f.write_str("(same object)"),
            Self::Releases(child) => write!(f, "(releases {child})"),
            Self::Creates(child) => write!(f, "(creates {child})"),
            Self::Unlists(object) => write!(f, "(no longer lists {object})"),
            Self::Tier { parent, child } => write!(f, "(keeps {parent} above {child})"),
        }
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Withheld::Create => write!(f, "{} is not created: {}", self.name, self.why),
            Withheld::Update => write!(f, "{} is not updated: {}", self.name, self.why),
            Withheld::Delete => write!(f, "{} is not deleted: {}", self.name, self.why),
            Withheld::Child(child) => write!(f, "{} does not list {child}: {}", self.name, self.why),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListedBy(other) => write!(f, "{other}, which this source cannot change, lists it"),
            Self::BelowForeign(other) => {
                write!(f, "{other}, which this source cannot change, lists it and would not have a higher tier")
            }
            Self::Missing(child) => write!(f, "{child} does not exist as an object of this source"),
            Self::TierOf(child) => write!(f, "{child} cannot be written and keeps a tier that is not lower"),
            Self::NoMembers => f.write_str("none of its members may be listed"),
            Self::Foreign => f.write_str("an object of that name does not belong to this source"),
            Self::NoOrder => f.write_str("no safe order of writes was found"),
        }
    }
}
