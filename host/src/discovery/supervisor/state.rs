//! What a source says about itself: one status, and the Events on its way there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use topoloom_api::condition::{Condition, ConditionStatus, ConditionType, Reason, set_condition};
use topoloom_api::discovery_source::{
    ComparisonStatus, DiscoverySourceStatus, Held, HeldRule, KeptPlugin, LostNodes, NodeCoverage, OnRemoval,
    PluginStatus, TierGroups,
};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::Digest;
use topoloom_core::plugin::rollout::Time;
use topoloom_core::text;
use topoloom_core::topology::guard::{self, Bucket, Confirmation, GuardRule, Loss, Safety};

use super::foreign::Foreign;
use super::removal::Removal;
use super::wake::Drift;
use crate::cluster::RefusalReason as Cause;
use crate::cluster::events::Urgency;
use crate::cluster::pause;
use crate::delivery;
use crate::discovery::compat::Assumed;
use crate::discovery::decide::Decision;
use crate::discovery::ready::seconds;
use crate::discovery::revision::Revision;
use crate::topology::apply::ApplyOutcome;
use crate::topology::refusals::{Refusals, RefusedWrite};
use crate::topology::rival::Rival;

/// The longest message of a condition, in bytes; the schema has room for 32 KiB.
const MESSAGE: usize = 8 << 10;

/// The longest example of a diagnostic.
pub(super) const EXAMPLE: usize = 512;

/// Objects that are named in a message; the rest is counted.
const NAMED: usize = 3;

/// The status of a source as it grows, and the one before.
pub(super) struct StatusReport {
    pub(super) status: DiscoverySourceStatus,
    /// The candidate that was last compared with what serves, and how far off it was.
    pub(super) compared: Option<(Digest, ComparisonStatus)>,
    /// What plugins called themselves.
    pub(super) names: BTreeMap<String, (String, String)>,
    /// A candidate refused the entry.
    pub(super) is_entry_blamed: bool,
    /// The removal that waits for a person, beside the reports of the source itself, which continue.
    pub(super) removal_held: Option<Held>,
    /// News that no condition reports.
    pub(super) events: Vec<(Urgency, Reason, String)>,
    pub(super) reported: Vec<Condition>,
    /// What of its configuration was assumed.
    pub(super) assumed: Assumed,
    foreign: Foreign,
    warnings: Vec<String>,
    /// Which part of the entry the plugin left out.
    pub(super) left_out: Option<String>,
    pub(super) disabled: bool,
    /// Whether a revision was active since the start of the host, and the conditions that were set since then.
    pub(super) has_served: bool,
    pub(super) fresh: BTreeSet<ConditionType>,
}

impl StatusReport {
    /// The report of a source that starts: what it reported before the host's restart is kept until there is something
    /// newer.
    pub(super) fn remembering(source: &SourceName, on_removal: OnRemoval, old: DiscoverySourceStatus) -> Self {
        let status = DiscoverySourceStatus {
            source: source.to_string(),
            on_removal: Some(on_removal),
            held: None,
            candidate: None,
            conditions: old
                .conditions
                .iter()
                .filter(|condition| condition.type_ != ConditionType::Held.as_str())
                .cloned()
                .collect(),
            ..old
        };
        let mut report = Self {
            reported: status.conditions.clone(),
            status,
            compared: None,
            names: BTreeMap::new(),
            is_entry_blamed: false,
            removal_held: None,
            events: Vec::new(),
            assumed: Assumed::Nothing,
            foreign: Foreign::default(),
            warnings: Vec::new(),
            left_out: None,
            disabled: false,
            has_served: false,
            fresh: BTreeSet::new(),
        };
        let serving = report.status.plugin.iter().map(|plugin| (&plugin.digest, &plugin.name, &plugin.version));
        let previous = report.status.previous.iter().map(|kept| (&kept.digest, &kept.name, &kept.version));
        report.names = serving.chain(previous).map(|(d, n, v)| (d.clone(), (n.clone(), v.clone()))).collect();
        report
    }

    /// A plugin that is kept, with its names where they are known.
    pub(super) fn kept(&self, digest: Digest) -> KeptPlugin {
        let digest = digest.to_string();
        let (name, version) = self.names.get(&digest).cloned().unwrap_or_default();
        KeptPlugin { digest, name, version }
    }

    pub(super) fn set(&mut self, type_: ConditionType, status: bool, reason: Reason, message: impl Into<String>) {
        let now = seconds(Timestamp::now());
        let message = text::clip(message.into(), MESSAGE);
        self.fresh.insert(type_);
        set_condition(
            &mut self.status.conditions,
            Condition::new(type_, ConditionStatus::from(status), reason, message),
            &now,
        );
    }

    pub(super) fn clear(&mut self, type_: ConditionType) {
        self.status.conditions.retain(|condition| condition.type_ != type_.as_str());
    }

    pub(super) fn find(&self, type_: ConditionType) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_.as_str())
    }

    pub(super) fn is_false(&self, type_: ConditionType) -> bool {
        self.find(type_).is_some_and(|condition| condition.status == "False")
    }

    /// The entry can be read (again); `warnings` say what is odd about it.
    pub(super) fn valid(&mut self, on_removal: OnRemoval, warnings: Vec<String>, runs: bool) {
        self.status.on_removal = Some(on_removal);
        self.warnings = warnings;
        if runs {
            self.set(ConditionType::Configured, true, Reason::Ok, self.valid_sentence());
        }
    }

    pub(super) fn valid_sentence(&self) -> String {
        let remarks: Vec<&str> = self.left_out.iter().chain(&self.warnings).map(String::as_str).collect();
        match remarks.as_slice() {
            [] => "the entry is valid and in force".to_owned(),
            remarks => format!("the entry is valid and in force; {}", remarks.join("; ")),
        }
    }

    /// The entry cannot be read.
    pub(super) fn invalid(&mut self, reason: Reason, message: String, old: bool) {
        let tail = if old { "; the last valid version continues" } else { "" };
        self.set(ConditionType::Configured, false, reason, format!("{message}{tail}"));
    }

    /// The active plugin refuses the configuration of the present entry.
    pub(super) fn refused_entry(&mut self, refused: &delivery::Refused) {
        let message = format!("{}; the last valid version continues", refused.message);
        self.set(refused.condition, false, refused.reason, message);
    }

    /// The entry was edited, and cannot be in force before the waiting plugin is decided about.
    pub(super) fn runs_an_earlier_entry(&mut self) {
        if self.find(ConditionType::Configured).is_some_and(|condition| condition.status == "True") {
            let message = "the entry is valid; its version before the last edit is in force until the candidate \
                plugin is accepted or refused";
            self.set(ConditionType::Configured, true, Reason::Ok, message);
        }
    }

    /// The candidate that refused the entry is gone, or has another problem by now.
    pub(super) fn entry_is_not_to_blame(&mut self) {
        if std::mem::take(&mut self.is_entry_blamed) && self.is_false(ConditionType::Configured) {
            let message = "the entry is valid; the last valid version is in force";
            self.set(ConditionType::Configured, true, Reason::Ok, message);
        }
    }

    /// A revision is active.
    pub(super) fn revision(&mut self, revision: &Revision) {
        self.has_served = true;
        let names = (revision.description.name.clone(), revision.description.version.clone());
        self.names.insert(revision.plugin.digest().to_string(), names);
        self.status.plugin = Some(PluginStatus {
            name: revision.description.name.clone(),
            version: revision.description.version.clone(),
            vendor: Some(revision.description.vendor.clone()).filter(|vendor| !vendor.is_empty()),
            digest: revision.plugin.digest().to_string(),
            origin: revision.module.origin,
            watched: false,
        });
        self.left_out = None;
        self.set(ConditionType::Configured, true, Reason::Ok, self.valid_sentence());
        self.assumed = revision.assumed;
        let insecure: Vec<&str> = revision.endpoints.unverified().collect();
        let cleartext: Vec<&str> = revision.endpoints.cleartext().collect();
        let sentences =
            [("certificates are not checked for", insecure), ("credentials are sent unencrypted to", cleartext)];
        let sentences: Vec<String> = sentences
            .iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what}: {}", names.join(", ")))
            .collect();
        if sentences.is_empty() {
            self.clear(ConditionType::InsecureTls);
        } else {
            self.set(ConditionType::InsecureTls, true, Reason::VerificationOff, sentences.join("; "));
        }
    }

    /// A round did not end with a result.
    pub(super) fn round_failed(&mut self, reason: Reason, message: &str, again: Option<Time>) {
        let when = match again {
            Some(_) if matches!(reason, Reason::Unauthorized | Reason::CredentialsMissing) => {
                "it is tried again when the interval has passed, at once when the Secret changes"
            }
            Some(_) => "it is tried again with back-off",
            None => "nothing is tried before the entry changes or the operator asks (`topoloom source run`)",
        };
        self.set(ConditionType::Discovered, false, reason, format!("{message}; {when}"));
        if self.find(ConditionType::Applied).is_some() {
            let message = "the last valid topology stays in force, newer rounds fail";
            self.set(ConditionType::Stale, true, reason, message);
        }
    }

    /// A round ended with a valid result.
    pub(super) fn discovered(&mut self, time: Timestamp) {
        self.status.last_success = Some(seconds(time));
        self.set(ConditionType::Discovered, true, Reason::Ok, "the last round produced a result");
        self.clear(ConditionType::Stale);
    }

    /// Nodes lose their places. One alone, or one in a hundred, is nothing to wake up for.
    pub(super) fn coverage(&mut self, loss: &Loss, safety: &Safety) {
        if loss.lost < 2 || loss.lost * 100 < loss.reference {
            return self.clear(ConditionType::CoverageFalls);
        }
        let named = loss.names.iter().take(NAMED).map(|name| &**name).collect::<Vec<_>>().join(", ");
        let names = if named.is_empty() { String::new() } else { format!(", for instance {named}") };
        let message = format!(
            "{} of {} Nodes that have a place, or had one within {:?}, have none in the newest result (a result that \
             leaves more than {} without one is held){names}",
            loss.lost,
            loss.reference,
            safety.hold_for,
            loss.limit(safety),
        );
        self.set(ConditionType::CoverageFalls, true, Reason::NodesWithoutPlace, message);
    }

    /// What written results took lately. Answers whether that is news.
    pub(super) fn lost(&mut self, buckets: &[Bucket]) -> bool {
        // Rather later than earlier, so not cut but filled up to a whole second.
        let whole = |at: Timestamp| match at.subsec_nanosecond() {
            0 => at,
            _ => at.checked_add(SignedDuration::from_secs(1)).unwrap_or(at),
        };
        let mut lost: Vec<LostNodes> = Vec::new();
        for bucket in buckets {
            let (at, nodes) = (seconds(whole(bucket.at)), i64::try_from(bucket.nodes).unwrap_or(i64::MAX));
            match lost.last_mut().filter(|last| last.at == at) {
                Some(last) => last.nodes = last.nodes.saturating_add(nodes),
                None => lost.push(LostNodes { at, nodes }),
            }
        }
        let is_news = self.status.lost_nodes != lost;
        self.status.lost_nodes = lost;
        is_news
    }

    /// A result waits.
    pub(super) fn held(
        &mut self,
        decision: &Decision,
        held: &guard::GuardHold,
        since: Timestamp,
        agreeing: u32,
        needed: u32,
        next: Option<Timestamp>,
    ) {
        self.status.held = Some(Held {
            rule: match held.rule {
                GuardRule::Empty { .. } => HeldRule::Empty,
                GuardRule::Deletes { .. } => HeldRule::Deletions,
                GuardRule::Loses { .. } => HeldRule::LostNodes,
            },
            sentence: held.sentence.clone(),
            hash: decision.hash.to_string(),
            since: seconds(since),
            confirmations: i64::from(agreeing),
            next_round: next.map(seconds),
        });
        let reason = match held.rule {
            GuardRule::Empty { .. } => Reason::EmptyResult,
            GuardRule::Deletes { .. } => Reason::TooManyDeletions,
            GuardRule::Loses { .. } => Reason::TooManyNodesLost,
        };
        let rounds = match next {
            Some(_) => format!(" ({agreeing} of {needed} agreeing rounds)"),
            None => String::new(),
        };
        let message = format!("{}{rounds}; result {}", held.sentence, decision.hash);
        self.set(ConditionType::Held, true, reason, message);
        self.set(ConditionType::Applied, false, reason, "a newer result is held; the one before it stays in force");
    }

    /// Nothing waits.
    pub(super) fn not_held(&mut self) {
        self.status.held = None;
        self.clear(ConditionType::Held);
    }

    /// A held result was confirmed.
    pub(super) fn confirmed(&mut self, by: Confirmation) {
        let who = if by == Confirmation::Operator { "the operator" } else { "agreeing rounds over time" };
        self.status.held = None;
        self.set(ConditionType::Held, false, Reason::Confirmed, format!("confirmed by {who}"));
    }

    /// A result is not written, since the host or the entry only observes.
    pub(super) fn observing(&mut self, decision: &Decision) {
        self.not_written(decision, Reason::Observing, "observing");
    }

    /// A result is not written, since the operator paused the source.
    pub(super) fn paused(&mut self, decision: &Decision) {
        self.not_written(decision, Reason::Paused, "paused");
    }

    fn not_written(&mut self, decision: &Decision, reason: Reason, why: &str) {
        let message = match decision.plan.steps.len() {
            0 => "nothing would be written".to_owned(),
            steps => format!("{steps} writes are due but not made: {why}"),
        };
        self.set(ConditionType::Applied, false, reason, message);
        self.numbers(decision);
    }

    /// An attempt to store modules ended; these plugins are stored nowhere, for these reasons.
    pub(super) fn stored(&mut self, unstored: &[(String, String)], longest_pause: Duration) {
        let Some((plugin, error)) = unstored.first() else { return self.clear(ConditionType::ModuleNotStored) };
        let others = match unstored.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        // No pause is named: a status is written when its content changes, and pauses do each time.
        let message = format!(
            "plugin {plugin}{others} is stored nowhere, so after a restart a rollback to it is not possible: {error}; storing \
             it is tried again after pauses that grow to {longest_pause:?}"
        );
        self.set(ConditionType::ModuleNotStored, true, Reason::StoreFailed, message);
    }

    /// A result is completely in the cluster.
    pub(super) fn applied(&mut self, decision: &Decision, config_hash: String) {
        self.status.result_hash = Some(decision.hash.to_string());
        self.status.config_hash = Some(config_hash);
        self.numbers(decision);
        let blocked = decision.plan.blocked.len();
        if blocked == 0 {
            self.set(ConditionType::Applied, true, Reason::Ok, "the last result is what the cluster holds");
        } else {
            let first =
                decision.plan.blocked.iter().take(NAMED).map(ToString::to_string).collect::<Vec<_>>().join("; ");
            let message = format!("{blocked} parts of the result cannot be written: {first}");
            self.set(ConditionType::Applied, false, Reason::NameTaken, message);
        }
        if self.find(ConditionType::Held).is_some_and(|held| held.status == "False") {
            self.clear(ConditionType::Held);
        }
    }

    /// The plugin answers with Nodes by name and may not see names of Nodes.
    pub(super) fn guessed(&mut self) {
        self.status.nodes_by_name = Some(true);
    }

    /// Whether it ever has.
    pub(super) fn has_guessed(&self) -> bool {
        self.status.nodes_by_name == Some(true)
    }

    /// All that could be written of a configuration's result is.
    pub(super) fn settled(&mut self, config_hash: &str) {
        self.status.config_hash = Some(config_hash.to_owned());
    }

    fn numbers(&mut self, decision: &Decision) {
        let numbers = &decision.numbers;
        self.status.nodes = Some(NodeCoverage { covered: integer(numbers.covered), total: integer(numbers.total) });
        self.status.groups = Some(integer(numbers.groups()));
        self.status.groups_by_tier = numbers
            .by_tier
            .iter()
            .map(|(tier, groups)| TierGroups { tier: i64::from(*tier), groups: integer(*groups) })
            .collect();
    }

    /// Some writes were refused, and so many wait for them.
    pub(super) fn write_failed(&mut self, refusals: &Refusals, waiting: usize) {
        let Some(RefusedWrite { object, verb, refusal }) = refusals.first() else { return };
        let more = waiting.saturating_sub(1);
        let rest = if more == 0 { String::new() } else { format!(" (and {more} more writes wait)") };
        // No pause is named: a status is written when its content changes, and pauses do each time.
        let message = format!(
            "the write ({}) of HyperNode {object} was refused ({}): {refusal}{rest}; what is written is a valid forest, the rest is tried again after pauses that grow to {:?}",
            verb.as_str(),
            refusal.reason.as_str(),
            pause::LONGEST,
        );
        let reason = match refusal.reason {
            Cause::AlreadyExists => Reason::NameTaken,
            _ => Reason::WriteFailed,
        };
        self.set(ConditionType::Applied, false, reason, message);
    }

    /// The process stops in the middle of a plan.
    pub(super) fn cut_short(&mut self, outcome: &ApplyOutcome) {
        let message = format!(
            "this replica was asked to stop: it made {} writes and leaves {} to the next leader; what is written is \
                a valid forest",
            outcome.written,
            outcome.refused.len() + outcome.left_out,
        );
        self.set(ConditionType::Applied, false, Reason::Pending, message);
    }

    /// An object is not as we wrote it.
    pub(super) fn drift(&mut self, drift: &Drift, now: Instant) {
        tracing::info!(
            source = self.status.source,
            hyper_node = drift.object,
            writer = drift.writer.as_deref().unwrap_or("unknown"),
            "another program changed an object of this source"
        );
        self.foreign.changed(drift, now);
    }

    /// Whether another program writes our objects, so that writing on would be a fight, and when to look again.
    pub(super) fn second_writer(&mut self, rival: Rival, now: Instant) -> (bool, Option<Instant>) {
        if let Some(rival) = rival {
            let message = format!("{rival}; this source writes nothing until that ends");
            self.set(ConditionType::SecondWriter, true, Reason::ForeignWriter, message);
            // Its end rings the bell.
            return (true, None);
        }
        match self.foreign.second_writer(now) {
            None => {
                self.clear(ConditionType::SecondWriter);
                (false, None)
            }
            Some(found) => {
                self.set(ConditionType::SecondWriter, true, Reason::ForeignWriter, found.message);
                (found.is_fight, Some(found.look_again))
            }
        }
    }

    /// Writes are due and not done, since another program would undo them.
    pub(super) fn fighting(&mut self) {
        let message = "writes are due but not made while another program keeps changing the same objects";
        self.set(ConditionType::Applied, false, Reason::ForeignWriter, message);
    }

    /// The source is off; its objects stay.
    pub(super) fn disabled(&mut self) {
        self.disabled = true;
        self.status.message = "disabled or removed from the configuration; its HyperNodes stay".to_owned();
        self.not_held();
    }

    /// The source is off and its objects were deleted, as far as possible.
    pub(super) fn removed(&mut self, removal: &Removal) {
        self.not_held();
        match &removal.left {
            None => {
                self.disabled = true;
                self.status.message =
                    "removed from the configuration, and its HyperNodes with it (onRemoval: delete)".to_owned();
                self.status.nodes = None;
                self.status.groups = Some(0);
                self.status.groups_by_tier.clear();
                self.status.lost_nodes.clear();
            }
            Some(why) => {
                let message = format!(
                    "removed from the configuration (onRemoval: delete), but not all of its HyperNodes could be deleted, \
                     which is tried again: {why}"
                );
                self.set(ConditionType::Applied, false, Reason::WriteFailed, message);
            }
        }
    }

    /// The plugin failed permanently, and the entry requires that its HyperNodes are deleted then.
    pub(super) fn removed_on_failure(&mut self, removal: &Removal) {
        self.not_held();
        let message = match &removal.left {
            None => format!(
                "{} HyperNodes were deleted, since the plugin failed for good (onFailure: remove)",
                removal.deleted
            ),
            Some(why) => format!(
                "the plugin failed for good (onFailure: remove), but not all of its HyperNodes could be deleted: {why}"
            ),
        };
        self.set(ConditionType::Applied, false, Reason::Quarantined, message);
        if removal.left.is_none() {
            self.status.lost_nodes.clear();
            self.status.nodes = None;
            self.status.groups = Some(0);
            self.status.groups_by_tier.clear();
        }
    }
}

pub(super) fn integer(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
