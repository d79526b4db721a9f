//! One node: what its decision follows from, in words.
//!
//! Owns the step from facts and decision to the document. Decides nothing.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use topoloom_api::cluster_binding::ClusterBindingStatus;
use topoloom_core::names::Uid;
use topoloom_sync::copied::{LeftOut, TaintLeftOut};
use topoloom_sync::keys;
use topoloom_sync::liveness::{Conditions, Lease, Liveness};
use topoloom_sync::naming::virtual_node_name;
use topoloom_sync::node::{Details, Facts, LentNode, NodeDecision, Now, Physical, PhysicalNode, Window};
use topoloom_sync::policy::growth::Growth;
use topoloom_sync::policy::in_force::{BindingFacts, NodeFacts};
use topoloom_sync::quantity::Quantity;
use topoloom_sync::reclaim::PodRef;
use topoloom_sync::resources::{ResourceList, ResourceName};
use topoloom_sync::sizes::pacing::Pace;
use topoloom_sync::sizes::usage::PodUse;
use topoloom_sync::sizes::{BaseSource, Rounding, Size, Sizes, SkippedLimit, Step};
use topoloom_sync::taints::{Taint, TaintReason};

use super::document::{
    LeaseExplained, LimitExplained, NodeExplained, OtherPods, PoliciesOfNode, ResourceExplained, SizeExplained,
    TaintExplained, UsingPod,
};
use crate::cli::lend::amounts::{Moment, add, amounts, shown};
use crate::cli::lend::parts::{BarInForce, Windows};
use crate::cli::print;

/// What a decision about a node follows from, and the decision.
pub(super) fn explained(facts: &Facts<'_>, decision: &NodeDecision<'_>, now: Now) -> NodeExplained {
    let physical = match facts.physical {
        Physical::Present(node) => Some(node),
        Physical::Unlisted | Physical::Absent => None,
    };
    let details = decision.details.as_deref();
    let lent = facts.lent;
    let seen = |at: Timestamp| Moment::seen(at, now.wall);
    let window = details.map(|details| details.window);
    let boundary = match window {
        Some(Window::Open { until } | Window::Closed { until }) => until,
        Some(Window::Always | Window::Kept) | None => None,
    };
    let next = boundary.into_iter().chain(details.and_then(|details| details.reclaim.next)).min();
    let written: Option<Timestamp> =
        lent.and_then(|lent| lent.metadata.annotations.get(keys::LAST_SYNC_TIME)?.parse().ok());
    NodeExplained {
        node: facts.name.to_owned(),
        virtual_node: virtual_node_name(&facts.binding.cluster, facts.name).ok().map(|name| name.to_string()),
        lent: lent.is_some(),
        binding: facts.binding.identity.binding().to_string(),
        state: decision.state.to_string(),
        bars: BarInForce::all(facts.bars),
        policies: physical.map(|node| policies(facts, node)).unwrap_or_default(),
        windows: window.map(|window| Windows::of(window, now.wall)),
        next: next.map(seen),
        size: details.map(|details| size(details, lent)),
        taints: taints(lent, physical, details),
        left_out: details.map(left_out).unwrap_or_default(),
        not_copied: details.map(not_copied).unwrap_or_default(),
        reclaim: details.map(reclaim).unwrap_or_default(),
        lease: decision.lease.map(|lease| self::lease(lease, details.map(|details| &details.liveness))),
        notes: details.into_iter().flat_map(|details| &details.notes).map(ToString::to_string).collect(),
        last_write: written.map(seen),
        follows: decision.orders.iter().map(ToString::to_string).collect(),
        ..NodeExplained::default()
    }
}

/// What the status of the binding says that the guard holds.
pub(super) fn held(status: &ClusterBindingStatus, binding: &str) -> Option<String> {
    let held = status.held.as_ref()?;
    let sentence = topoloom_core::text::line(&held.sentence, 300);
    Some(format!(
        "the guard holds a part of the binding: {sentence}; topoloom lend plan --binding {binding} shows the nodes"
    ))
}

fn policies(facts: &Facts<'_>, node: &PhysicalNode) -> PoliciesOfNode {
    let binding = BindingFacts {
        name: facts.binding.identity.binding(),
        selector: &facts.binding.selector,
        no_policy: facts.binding.no_policy,
    };
    let standing = facts.policies.standing(&binding, &NodeFacts { name: facts.name, labels: &node.labels });
    PoliciesOfNode {
        in_force: standing.in_force.to_string(),
        name: standing.in_force.policy_name().map(str::to_owned),
        shadowed: standing.shadowed.iter().map(|policy| policy.name().to_owned()).collect(),
        invalid: standing.invalid.iter().map(|policy| format!("{} is {}", policy.name(), policy.judgement())).collect(),
    }
}

fn size(details: &Details, lent: Option<&LentNode>) -> SizeExplained {
    let Sizes { resources, skipped } = &details.sizes;
    let resource = |(name, size): (&ResourceName, &Size)| {
        let decides = size.bound().map(|step| step.limit);
        // In the units of the columns beside it.
        let sentence = |step: &Step| step.sentence(|amount| shown(name, &amount.to_string()));
        let limit = |step: &Step| LimitExplained { sentence: sentence(step), decides: decides == Some(step.limit) };
        ResourceExplained {
            resource: name.to_string(),
            base: size.base.to_string(),
            used: size.usage.to_string(),
            left: size.left.to_string(),
            limits: size.steps.iter().map(limit).chain(placeholders(size)).collect(),
            lends: size.result.to_string(),
            shows: lent.and_then(|lent| lent.allocatable.get(name)).map(ToString::to_string),
            rounded: match size.rounding {
                Rounding::Exact => None,
                Rounding::Down { from } => Some(format!("{from} is rounded down: only whole ones exist")),
            },
        }
    };
    let waits = match (&details.pace, lent) {
        (Pace::Partial { rest, .. } | Pace::Wait(rest), Some(_)) => Some(match details.growth {
            Growth::Free => rest.to_string(),
            Growth::Waits { .. } | Growth::Never | Growth::ClaimUnreadable => details.growth.to_string(),
        }),
        (Pace::Same | Pace::Write { .. } | Pace::Partial { .. } | Pace::Wait(_), _) => None,
    };
    let skip = |skipped: &SkippedLimit| format!("limits[{}]: the node has no {}", skipped.limit, skipped.resource);
    SizeExplained {
        base: match details.base {
            BaseSource::Allocatable => "status.allocatable",
            BaseSource::Capacity => "status.capacity",
        },
        resources: resources.iter().map(resource).collect(),
        skipped: skipped.iter().map(skip).collect(),
        pods: Vec::new(),
        other_pods: OtherPods::default(),
        waits,
        overcommitted: details.overcommitted.is_overcommitted().then(|| details.overcommitted.to_string()),
    }
}

/// What comes to the limits, where placeholders for host ports are on the node.
fn placeholders(size: &Size) -> Option<LimitExplained> {
    let count = size.placeholders;
    let sentence = format!("{count} more, for placeholders of host ports, which run nowhere");
    (!count.is_zero()).then_some(LimitExplained { sentence, decides: false })
}

/// Those of the virtual node, and those that it should get.
fn taints(lent: Option<&LentNode>, physical: Option<&PhysicalNode>, details: Option<&Details>) -> Vec<TaintExplained> {
    let there = lent.map(|lent| lent.metadata.taints.as_slice()).unwrap_or_default();
    let of_machine = physical.map(|node| node.taints.as_slice()).unwrap_or_default();
    let wanted = details.map(|details| details.taints.taints.as_slice()).unwrap_or_default();
    let missing = wanted.iter().filter(|wanted| there.iter().all(|taint| taint.id() != wanted.id()));
    let explained = |taint: &Taint, is_there: bool| TaintExplained {
        taint: taint.to_string(),
        reason: TaintReason::of(taint, of_machine).to_string(),
        there: is_there,
    };
    let missing = missing.map(|taint| explained(taint, false));
    there.iter().map(|taint| explained(taint, true)).chain(missing).collect()
}

fn left_out(details: &Details) -> Vec<TaintExplained> {
    let explained = |(taint, why): &(Taint, TaintLeftOut)| TaintExplained {
        taint: taint.to_string(),
        reason: why.to_string(),
        there: false,
    };
    details.taints.left_out.iter().map(explained).collect()
}

/// Labels and annotations that are listed at most.
const LISTED: usize = 50;

/// Those of the machine that its virtual node does not get, first those that it cannot have. What we write on machines ourselves is
/// none of them.
fn not_copied(details: &Details) -> Vec<String> {
    let of_machine = details.copied.left_out.iter().filter(|left| !left.key.starts_with(keys::PREFIX));
    let (lost, others): (Vec<&LeftOut>, Vec<&LeftOut>) = of_machine.partition(|left| left.why.is_a_loss());
    let mut all = lost.into_iter().chain(others);
    let mut listed: Vec<String> = all.by_ref().take(LISTED).map(ToString::to_string).collect();
    let more = all.count();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed
}

fn reclaim(details: &Details) -> Vec<String> {
    let stays = details.reclaim.stay.iter().map(|(pod, why)| format!("pod {pod} stays: {why}"));
    details.reclaim.reasons.iter().map(ToString::to_string).chain(stays).collect()
}

fn lease(lease: Lease, liveness: Option<&Liveness>) -> LeaseExplained {
    let conditions = liveness.map(|liveness| match liveness.conditions {
        Conditions::Mirror => "; conditions are those of the physical node",
        Conditions::Leave => "; conditions are left to the virtual cluster",
        Conditions::SayUnknown => "; its conditions are set to Unknown",
        Conditions::Heal => "; the node lives again, and its conditions and pods are written again",
    });
    let conditions = conditions.unwrap_or_default();
    let sentence = match lease {
        Lease::Renew => format!("it is renewed{conditions}"),
        Lease::Stop(why) => format!("it is not renewed: {why}{conditions}"),
    };
    LeaseExplained { sentence, renewed: None, wanted: lease == Lease::Renew }
}

/// When the lease was renewed last. One that should be renewed, and has ended by its time, is renewed by no replica, or by one whose
/// clock is behind (decision S24). One read does not tell which.
pub(super) fn renewed(lease: &mut LeaseExplained, at: Option<Timestamp>, lasts: Duration, now: Timestamp) {
    let lasts = SignedDuration::try_from(lasts).unwrap_or(SignedDuration::MAX);
    if lease.wanted && at.is_some_and(|at| now.duration_since(at) > lasts) {
        let lasts = print::span(lasts.as_secs());
        lease.sentence = format!(
            "it lasts for {lasts}, and by its time it has ended: no replica renews it, or the clock of the replica that renews it is \
             behind. If the resourceVersion of the lease changes within {lasts}, it is the clock"
        );
    }
    lease.renewed = at.map(|at| Moment::seen(at, now));
}

/// The pods of a node that use most of it, and the rest in sum.
pub(super) fn usage<'a>(
    used: impl Iterator<Item = (&'a Uid, &'a PodUse)>,
    names: &HashMap<Uid, PodRef>,
    base: &ResourceList,
    top: usize,
) -> (Vec<UsingPod>, OtherPods) {
    let mut other = OtherPods::default();
    let mut using: Vec<(u128, PodRef, &PodUse)> = Vec::new();
    for (uid, part) in used {
        if part.amounts().next().is_none() {
            other.without_use += 1;
            continue;
        }
        let unknown = || PodRef { namespace: String::new(), name: uid.to_string(), uid: uid.clone() };
        using.push((weight(part, base), names.get(uid).cloned().unwrap_or_else(unknown), part));
    }
    using.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    let list = |part: &PodUse| -> ResourceList {
        // As the node writes it, so that memory is not shown in decimal units.
        let written = |(name, amount): (&ResourceName, Quantity)| {
            let format = base.get(name).map_or(amount.format(), |base| base.format());
            (name.clone(), amount.with_format(format))
        };
        part.amounts().map(written).collect()
    };
    let mut rest = ResourceList::new();
    for (_, _, part) in using.iter().skip(top) {
        add(&mut rest, &list(part));
    }
    other.pods = using.len().saturating_sub(top);
    other.uses = amounts(&rest);
    let shown = using.into_iter().take(top).map(|(_, pod, part)| UsingPod {
        namespace: pod.namespace,
        name: pod.name,
        uses: amounts(&list(part)),
        counts: part.counted().to_string(),
    });
    (shown.collect(), other)
}

/// The largest share of any resource of the node, in millionths.
fn weight(part: &PodUse, base: &ResourceList) -> u128 {
    let share = |(name, amount): (&ResourceName, Quantity)| {
        let whole = base.get(name)?.nanos().unsigned_abs();
        amount.nanos().unsigned_abs().saturating_mul(1_000_000).checked_div(whole)
    };
    part.amounts().filter_map(share).max().unwrap_or_default()
}
