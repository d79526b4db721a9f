//! What the condition `Loaded` and the status say about plugins: which serves, which waits and for what.

use std::sync::Arc;

use jiff::Timestamp;
use topoloom_api::condition::{ConditionType, Reason};
use topoloom_api::discovery_source::{CandidateStatus, ComparisonStatus, RefusalStatus};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::Digest;
use topoloom_core::plugin::rollout::{Comparison, Rollout, RolloutStep, Stage};

use super::state::{StatusReport, integer};
use super::swap::stage_word;
use crate::cluster::events::Urgency;
use crate::delivery::Offer;
use crate::delivery::Refused;
use crate::discovery::ready::seconds;
use crate::discovery::revision::Revision;

/// Everything that the sentence depends on.
pub(super) struct Loaded<'a> {
    pub(super) source: &'a SourceName,
    pub(super) rollout: &'a Rollout<Arc<Revision>>,
    /// What serves, in words.
    pub(super) serving: Option<String>,
    /// Why the candidate with that digest was refused.
    pub(super) refused: Option<&'a (Digest, Refused)>,
    /// Name and version of the candidate, once they are known.
    pub(super) ready: Option<(String, String)>,
    pub(super) offer: &'a Offer,
    /// The delivered plugin that waits, and what pins another one.
    pub(super) waits: Option<(Digest, &'static str)>,
    /// How the last call failed that the plugin is to blame for.
    pub(super) fault: Option<&'a str>,
    /// Why the plugin that serves refuses the present entry.
    pub(super) reconfiguring: Option<&'a Refused>,
    /// What serves was made with an earlier entry.
    pub(super) is_behind: bool,
}

/// The value of the condition.
enum LoadedVerdict {
    Good(String),
    Bad(ConditionType, Reason, String),
    /// Nothing is known yet.
    Nothing,
}

impl Loaded<'_> {
    fn verdict(&self) -> LoadedVerdict {
        let candidate = || self.candidate_verdict().map(|verdict| self.without_newer(verdict));
        let in_question = self.quarantined().or_else(candidate);
        in_question.or_else(|| self.refused_or_missing()).unwrap_or_else(|| self.in_order())
    }

    /// What every sentence about a failure ends with.
    fn tail(&self) -> &'static str {
        if self.serving.is_some() { "; the last valid version continues" } else { "" }
    }

    fn quarantined(&self) -> Option<LoadedVerdict> {
        // The whole pause and not its remaining time: a status must not change by itself.
        let wait = self.rollout.quarantine_pause()?.as_secs() / 60;
        let why = self.fault.unwrap_or("its calls fail");
        let message = format!(
            "the plugin failed {} times in a row, and there is no other plugin to roll back to; the host calls \
                it again after {wait} minutes, or after `topoloom source run {}`: {why}",
            self.rollout.serving().map_or(0, |serving| serving.strikes),
            self.source
        );
        Some(bad(Reason::Quarantined, message))
    }

    /// Where there is a candidate that waits, failed, or is tried again after it failed.
    fn candidate_verdict(&self) -> Option<LoadedVerdict> {
        let candidate = self.rollout.candidate()?;
        let digest = candidate.digest;
        match &candidate.stage {
            Stage::Held(comparison) => Some(self.waits_for_person(digest, comparison)),
            Stage::Refused { step: RolloutStep::Watch, .. } => Some(self.rolled_back(digest)),
            Stage::Refused { until, .. } => {
                let again = if until.is_some() { "; the host tries it again" } else { "" };
                Some(self.refused_candidate(digest, again))
            }
            // Tried again: what was wrong is still the last word about it.
            Stage::Preparing | Stage::Shadow if candidate.strikes > 0 => {
                Some(self.refused_candidate(digest, "; the host tries it again"))
            }
            Stage::Preparing | Stage::Shadow => None,
        }
    }

    /// The same, and why a plugin that was delivered after this candidate is not seen.
    fn without_newer(&self, verdict: LoadedVerdict) -> LoadedVerdict {
        match (verdict, self.offer) {
            (LoadedVerdict::Bad(condition, reason, message), Offer::Last(_, trouble)) => {
                let why = trouble.trouble().map_or("", |(_, why)| why);
                LoadedVerdict::Bad(condition, reason, format!("{message}. A newer plugin is not seen: {why}"))
            }
            (verdict, _) => verdict,
        }
    }

    fn waits_for_person(&self, digest: Digest, comparison: &Comparison) -> LoadedVerdict {
        let name = self.ready.as_ref().map_or(String::new(), |(name, version)| format!("{name} {version} "));
        let message = format!(
            "plugin {name}({}) waits for a person: {comparison}. If that is right, `topoloom plugin continue \
             {}` activates it; if not, deliver another one{}",
            digest.short(),
            self.source,
            self.tail()
        );
        bad(Reason::CanaryHeld, message)
    }

    fn rolled_back(&self, digest: Digest) -> LoadedVerdict {
        let why = self.fault.map(|fault| format!(": {fault}")).unwrap_or_default();
        let message = format!(
            "plugin {digest} failed while it was active, so the host rolled it back{why}. Deliver another one, or try it \
             once more with `topoloom plugin continue {}`{}",
            self.source,
            self.tail()
        );
        bad(Reason::RolledBack, message)
    }

    fn refused_candidate(&self, digest: Digest, again: &str) -> LoadedVerdict {
        let Some((_, refused)) = self.refused.filter(|(of, _)| *of == digest) else { return LoadedVerdict::Nothing };
        let message = format!("{}{again}{}", refused.message, self.tail());
        LoadedVerdict::Bad(refused.condition, refused.reason, message)
    }

    /// Where nothing usable is offered, or the active plugin refuses the entry. The place that the entry names comes first: an entry
    /// that names another place does not have to take the plugin that is active.
    fn refused_or_missing(&self) -> Option<LoadedVerdict> {
        let refused = self.reconfiguring.filter(|refused| refused.condition == ConditionType::Loaded);
        let refused = || refused.map(|refused| (refused.reason, refused.message.as_str()));
        let (reason, message) = self.offer.trouble().or_else(refused)?;
        Some(bad(reason, format!("{message}{}", self.tail())))
    }

    fn in_order(&self) -> LoadedVerdict {
        match (&self.serving, self.offer, self.waits) {
            (Some(serving), Offer::Module(_), Some((waits, by))) => LoadedVerdict::Good(format!(
                "plugin {serving} is active, which {by}; the delivered one ({}) waits until that ends",
                waits.short()
            )),
            (Some(_), ..) => LoadedVerdict::Good("the plugin is loaded and has all that it requests".to_owned()),
            (None, ..) => LoadedVerdict::Nothing,
        }
    }

    /// The candidate, as the status shows it. `compared` is the last comparison and whose it was.
    fn candidate_status(&self, compared: Option<&(Digest, ComparisonStatus)>) -> Option<CandidateStatus> {
        let candidate = self.rollout.candidate()?;
        let (name, version) = self.ready.clone().unzip();
        Some(CandidateStatus {
            digest: candidate.digest.to_string(),
            name,
            version,
            stage: stage_word(candidate).to_owned(),
            step: match &candidate.stage {
                Stage::Refused { step, .. } => Some(step.as_str().to_owned()),
                Stage::Held(_) => Some(RolloutStep::Compare.as_str().to_owned()),
                Stage::Preparing | Stage::Shadow => None,
            },
            strikes: i64::from(candidate.strikes),
            comparison: compared.filter(|(of, _)| *of == candidate.digest).map(|(_, comparison)| comparison.clone()),
        })
    }
}

fn bad(reason: Reason, message: String) -> LoadedVerdict {
    LoadedVerdict::Bad(ConditionType::Loaded, reason, message)
}

impl StatusReport {
    /// Reports the active plugin and the one that waits.
    pub(super) fn set_plugins(&mut self, loaded: &Loaded<'_>) {
        let serves = loaded.serving.is_some();
        self.set_verdict(loaded);
        if loaded.is_behind && serves {
            self.runs_an_earlier_entry();
        }
        let rollout = loaded.rollout;
        if let (Some(plugin), true) = (&mut self.status.plugin, serves) {
            plugin.watched = rollout.is_on_trial();
        }
        self.status.strikes =
            rollout.serving().map(|serving| i64::from(serving.strikes)).filter(|strikes| *strikes > 0);
        let known = rollout.previous().chain(rollout.serving().map(|serving| serving.digest));
        let known: Vec<String> = known.map(|digest| digest.to_string()).collect();
        self.names.retain(|digest, _| known.contains(digest));
        self.status.previous = rollout.previous().map(|digest| self.kept(digest)).collect();
        self.status.taken_back = rollout.taken_back().map(|digest| digest.to_string()).collect();
        self.status.candidate = loaded.candidate_status(self.compared.as_ref());
    }

    fn set_verdict(&mut self, loaded: &Loaded<'_>) {
        let serves = loaded.serving.is_some();
        match loaded.verdict() {
            LoadedVerdict::Good(message) => {
                match loaded.reconfiguring.filter(|refused| refused.condition == ConditionType::Configured) {
                    Some(refused) => self.refused_entry(refused),
                    None => self.entry_is_not_to_blame(),
                }
                self.set(ConditionType::Loaded, true, Reason::Ok, message);
            }
            LoadedVerdict::Bad(condition, reason, message) => {
                if condition == ConditionType::Loaded && serves {
                    self.entry_is_not_to_blame();
                }
                self.is_entry_blamed |= condition == ConditionType::Configured;
                self.set(condition, false, reason, message);
                if condition == ConditionType::Configured && !serves {
                    self.set(ConditionType::Loaded, true, Reason::Ok, "the plugin is loaded");
                }
            }
            LoadedVerdict::Nothing => {}
        }
    }

    /// A candidate was refused.
    pub(super) fn refusal(&mut self, digest: Digest, refused: &Refused, now: Timestamp) {
        let is_same = |old: &RefusalStatus| {
            old.digest == digest.to_string()
                && old.step == refused.step.as_str()
                && old.reason == refused.reason.as_str()
                && old.message == topoloom_core::text::clip(refused.message.clone(), super::state::EXAMPLE)
        };
        if self.status.last_refusal.as_ref().is_some_and(is_same) {
            // The same once more is no news.
            return;
        }
        self.status.last_refusal = Some(RefusalStatus {
            digest: digest.to_string(),
            step: refused.step.as_str().to_owned(),
            reason: refused.reason.as_str().to_owned(),
            message: topoloom_core::text::clip(refused.message.clone(), super::state::EXAMPLE),
            time: seconds(now),
        });
    }

    /// A candidate was compared with what serves.
    pub(super) fn compared(&mut self, digest: Digest, comparison: &Comparison) {
        let status = ComparisonStatus {
            placed: integer(comparison.placed),
            kept: integer(comparison.kept),
            moved: integer(comparison.moved),
            gained: integer(comparison.gained),
            sentence: comparison.to_string(),
        };
        self.status.last_comparison = Some(status.clone());
        self.compared = Some((digest, status));
    }

    /// An Event that follows from no condition.
    pub(super) fn add_event(&mut self, urgency: Urgency, reason: Reason, note: String) {
        self.events.push((urgency, reason, note));
    }
}
