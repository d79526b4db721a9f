//! Proofs from the records of the servers: the audit log shows which client sent which request and when it was
//! received, etcd shows the order of the writes.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::Met;
use super::log::{Log, Received};
use super::stalls::Stalls;
use crate::controlplane::WriteKind;
use crate::scene::Scene;
use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// How long a request may take on a busy machine from the process until the API server takes its time, which it does
/// when it has read the head of the request. While the machine stands still no request moves.
const WAY: SignedDuration = SignedDuration::from_millis(250);

/// Whether a request that had to leave by then was received so late that it must have left later.
pub(super) fn is_late(at: Timestamp, by: Timestamp, stalls: &Stalls) -> bool {
    at.duration_since(by) > WAY + stalls.between(by, at)
}

/// Whether a request was received late only because the machine stood still.
fn is_excused(at: Timestamp, by: Timestamp, stalls: &Stalls) -> bool {
    at.duration_since(by) > WAY && !is_late(at, by, stalls)
}

/// Checks that no request of a replica was received later than the renew deadline after its last confirmed renewal;
/// that no replica overwrote what a later holder wrote; that no two replicas wrote in turns; that every write names the
/// version that it builds on; and that a replica that released its lease wrote nothing after that.
///
/// # Errors
/// With the request that breaks one of these rules, or with what is missing for a proof.
pub async fn nothing_came_late(scene: &Scene, log: &Log, deadline: Duration, stalls: &Stalls) -> Result<()> {
    let all = &log.received;
    let deadline = SignedDuration::try_from(deadline)?;
    m4_every_write_builds_on_a_version(all)?;
    r4_the_lease_is_the_last_that_is_written(all, stalls)?;
    b9_who_held_the_lease_does_not_ask_for_it_late(all, deadline, stalls)?;
    let mut renewed: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let (mut writes, mut excused) = (0, 0);
    for request in all {
        if request.resource == "leases" {
            // A renewal that was stored and answered too late confirmed nothing.
            let before = renewed.get(&*request.replica).filter(|_| !request.is_claim());
            let is_confirmed = before.is_none_or(|before| !is_late(request.answered, *before + deadline, stalls));
            if request.is_taken() && is_confirmed {
                renewed.insert(&request.replica, request.at);
            }
            continue;
        }
        writes += 1;
        let confirmed = renewed.get(&*request.replica).with_context(|| {
            format!("{} wrote {} {} and never held the lease", request.replica, request.resource, request.name)
        })?;
        let late = request.at.duration_since(*confirmed);
        ensure!(
            !is_late(request.at, *confirmed + deadline, stalls),
            "{} wrote {} {} {late:#} after its last renewal was received",
            request.replica,
            request.resource,
            request.name
        );
        excused += usize::from(is_excused(request.at, *confirmed + deadline, stalls));
    }
    let ratio = format!("{excused} of {writes} writes were received late because the machine stood still");
    println!("{ratio}");
    ensure!(excused * 100 <= writes, "{ratio}: that proves nothing");
    ensure!(writes > 10, "only {writes} writes were seen: this proves nothing");
    in_turns(scene, all).await
}

/// A late request of an earlier holder cannot undo what the next holder wrote: the API server refuses it by the version
/// that it names. Events build on no version, and neither does a request that creates an object.
fn m4_every_write_builds_on_a_version(all: &[Received]) -> Result<()> {
    let mut checked = 0;
    for request in all.iter().filter(|request| request.resource != "events" && !request.body.is_null()) {
        let sound = match request.verb.as_str() {
            "create" => true,
            "delete" => {
                let on = &request.body["preconditions"];
                on["uid"].is_string() && on["resourceVersion"].is_string()
            }
            _ => request.code == 201 || is_version(&request.body) || only_makes(&request.body),
        };
        let Received { replica, verb, resource, name, body, .. } = request;
        ensure!(sound, "{replica} sent {verb} {resource} {name} without the version that it builds on: {body}");
        checked += usize::from(request.resource != "leases" && request.verb != "create" && request.code != 201);
    }
    ensure!(checked > 10, "only {checked} writes of what was there already were seen: this proves nothing");
    Ok(())
}

pub(super) fn is_version(body: &Value) -> bool {
    body["metadata"]["resourceVersion"].as_str().is_some_and(|version| !version.is_empty())
}

/// An apply with nothing but a name: it makes the object where there is none, and changes nothing where there is one.
fn only_makes(body: &Value) -> bool {
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().into_iter().flat_map(|it| it.keys().cloned()).collect() };
    keys(body) == ["apiVersion", "kind", "metadata"] && keys(&body["metadata"]) == ["name"]
}

/// A replica that clears the holder of the lease has ended everything else before (requirement R4). It does not wait
/// for an Event that is under way: the API server may read the Event a moment later than the lease.
fn r4_the_lease_is_the_last_that_is_written(all: &[Received], stalls: &Stalls) -> Result<()> {
    let mut released: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for request in all {
        let Received { replica, verb, resource, name, .. } = request;
        if let Some(free) = released.get(&**replica) {
            let late = request.at.duration_since(*free);
            let was_under_way = resource == "events" && !is_late(request.at, *free, stalls);
            ensure!(was_under_way, "{replica} sent {verb} {resource} {name} {late:#} after it released its lease");
        }
        let is_free = resource == "leases" && request.body["spec"]["holderIdentity"] == "";
        if is_free && request.is_taken() {
            released.insert(replica, request.at);
        }
    }
    ensure!(!released.is_empty(), "no replica released its lease: this proves nothing");
    Ok(())
}

/// A replica that held the lease and could not renew it in time sends no more request as the holder, whether or not the
/// API server would refuse it. Only a replica that never learned that its claim was accepted may claim again; a replica
/// that renewed or wrote knew it.
fn b9_who_held_the_lease_does_not_ask_for_it_late(
    all: &[Received],
    deadline: SignedDuration,
    stalls: &Stalls,
) -> Result<()> {
    struct Held {
        confirmed: Timestamp,
        knew: bool,
    }
    let mut held: BTreeMap<&str, Held> = BTreeMap::new();
    let mut renewals = 0;
    for request in all {
        let Received { replica, at, verb, body, .. } = request;
        let (is_lease, spec) = (request.resource == "leases", &body["spec"]);
        let is_claim = request.is_claim();
        if let Some(held) = held.get_mut(&**replica) {
            held.knew |= !is_claim;
            let late = at.duration_since(held.confirmed);
            let is_late = is_lease && held.knew && is_late(*at, held.confirmed + deadline, stalls);
            ensure!(
                !is_late,
                "{replica} sent {verb} of the lease {late:#} after its last renewal was received: {body}"
            );
        }
        if !is_lease || body.is_null() {
            continue;
        }
        // The holder's name differs from that of any other process, and a replica never writes another name.
        let holder = spec["holderIdentity"].as_str().unwrap_or_default();
        let is_its_own = holder.is_empty() || holder.starts_with(&format!("{replica}_"));
        ensure!(is_its_own, "{replica} says that {holder} holds the lease");
        renewals += usize::from(!is_claim && !holder.is_empty());
        if request.is_taken() && !holder.is_empty() {
            held.entry(replica).or_insert(Held { confirmed: *at, knew: false }).confirmed = *at;
        }
    }
    ensure!(renewals > 1, "only {renewals} renewals were seen: this proves nothing");
    Ok(())
}

const HYPER_NODES: &str = "/registry/topology.volcano.sh/hypernodes/";

/// In etcd's order: when a replica has written a HyperNode or its status, no earlier holder writes it any more.
async fn in_turns(scene: &Scene, all: &[Received]) -> Result<()> {
    let taken = || all.iter().filter(|request| request.is_of_a_hyper_node() && request.is_taken());
    let writers: BTreeMap<u64, &Received> = taken().filter_map(|it| Some((it.written_version()?, it))).collect();
    // The answer to a deletion has no version. The request names the version that it deletes, which is the last that
    // was stored.
    let deleters: BTreeMap<(&str, u64), &Received> =
        taken().filter_map(|it| Some(((&*it.name, it.deleted_version()?), it))).collect();
    let mut stored: BTreeMap<String, u64> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    let mut known = 0;
    for write in scene.plane.writes_in_order(HYPER_NODES).await? {
        let name = write.key.strip_prefix(HYPER_NODES).unwrap_or_default();
        let before = stored.insert(name.to_owned(), write.revision);
        let request = match write.kind {
            WriteKind::Put => writers.get(&write.revision),
            WriteKind::Delete => before.and_then(|before| deleters.get(&(name, before))),
        };
        // A write of another program, or of a replica that was killed before it got the answer.
        let Some(request) = request else { continue };
        known += 1;
        let turn = match order.iter().position(|replica| *replica == request.replica) {
            Some(turn) => turn,
            None => {
                order.push(&request.replica);
                order.len() - 1
            }
        };
        let before = last.entry(&request.name).or_insert(turn);
        ensure!(*before <= turn, "{} wrote {} after {} had written it", request.replica, request.name, order[*before]);
        *before = turn;
    }
    ensure!(known > 5, "only {known} writes of HyperNodes could be attributed: this proves nothing");
    Ok(())
}

/// How long each handover took while the machine ran: from a released lease to the first write of the next holder that
/// the API server accepted.
#[derive(Debug)]
pub struct Handovers(Vec<SignedDuration>);

/// The median that the documentation names.
const USUALLY: SignedDuration = SignedDuration::from_secs(1);
/// A single handover may take longer when two tests run at a time on two cores.
const AT_MOST: SignedDuration = SignedDuration::from_secs(3);

impl Handovers {
    /// One for each leader that met a fault.
    ///
    /// # Errors
    /// When a leader did not release its lease, or had no successor.
    pub fn of(log: &Log, met: &[Met], stalls: &Stalls) -> Result<Self> {
        let all = met.iter().map(|Met { leader, at, .. }| {
            let mut later = log.received.iter().filter(|request| request.at >= *at && request.is_taken());
            let is_release = |it: &&Received| it.resource == "leases" && it.body["spec"]["holderIdentity"] == "";
            let free = later.clone().filter(|it| it.replica == *leader).find(is_release);
            let free = free.with_context(|| format!("{leader} did not release its lease"))?.answered;
            let is_next = |it: &&Received| it.replica != *leader && it.is_of_a_hyper_node() && it.at >= free;
            let first = later.find(is_next).with_context(|| format!("no replica wrote after {leader}"))?;
            Ok(first.answered.duration_since(free) - stalls.between(free, first.answered))
        });
        let mut all = all.collect::<Result<Vec<_>>>()?;
        all.sort();
        ensure!(!all.is_empty(), "there was no handover: this proves nothing");
        Ok(Self(all))
    }

    fn median(&self) -> SignedDuration {
        self.0[self.0.len() / 2]
    }

    fn most(&self) -> SignedDuration {
        self.0[self.0.len() - 1]
    }

    /// Whether they are as quick as the documentation says.
    ///
    /// # Errors
    /// With the time of the slow one.
    pub fn are_quick(&self) -> Result<()> {
        let (median, most) = (self.median(), self.most());
        ensure!(median < USUALLY, "half of the handovers took {median:#} and more, not less than {USUALLY:#}");
        ensure!(most < AT_MOST, "a handover took {most:#}, not less than {AT_MOST:#}");
        Ok(())
    }
}

impl fmt::Display for Handovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (median, most) = (self.median().as_millis(), self.most().as_millis());
        write!(
            f,
            "milliseconds from the free lease to the next leader's first HyperNode write: median {median}, most {most}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const HOLDER: &str = "replica-0_a";

    /// A write of the lease at this many milliseconds after the first, held since `since`; a claim has both times
    /// equal.
    fn lease(at: i64, holder: &str, since: i64, code: i64) -> Received {
        let time = |at| Timestamp::from_millisecond(at).unwrap();
        let spec = json!({"holderIdentity": holder, "acquireTime": time(since), "renewTime": time(at)});
        Received {
            replica: "replica-0".into(),
            at: time(at),
            answered: time(at + 5),
            verb: "update".into(),
            resource: "leases".into(),
            namespace: "volcano-system".into(),
            name: "l".into(),
            code,
            version: None,
            body: json!({"spec": spec}),
        }
    }

    fn judged(more: Vec<Received>) -> Result<()> {
        let claim = lease(0, HOLDER, 0, 200);
        let renewals = (1..=8).map(|count| lease(count * 300, HOLDER, 0, 200));
        let all: Vec<_> = [claim].into_iter().chain(renewals).chain(more).collect();
        b9_who_held_the_lease_does_not_ask_for_it_late(&all, SignedDuration::from_millis(2500), &Stalls::default())
    }

    #[test]
    fn only_a_machine_that_stood_still_after_the_time_to_leave_makes_a_request_come_in_time() {
        let time = |at| Timestamp::from_millisecond(at).unwrap();
        for (received, stood_still, wanted) in [
            (1250, None, (false, false)),
            (1251, None, (true, false)),
            (3251, Some((0, 1000)), (true, false)),
            (3251, Some((1000, 2990)), (true, false)),
            (3251, Some((1000, 3100)), (false, true)),
            (1250, Some((1000, 1100)), (false, false)),
        ] {
            let stalls = Stalls::of(stood_still.map(|(from, to)| (time(from), time(to))));
            let (at, by) = (time(received), time(1000));
            let judged = (is_late(at, by, &stalls), is_excused(at, by, &stalls));
            assert_eq!(judged, wanted, "received at {received}, stood still {stood_still:?}");
        }
    }

    #[test]
    fn a_holder_renews_in_time_and_gives_back() {
        judged(vec![]).unwrap();
        judged(vec![lease(4800, HOLDER, 0, 409), lease(4850, "", 0, 200)]).unwrap();
    }

    #[test]
    fn a_late_renewal_is_noticed_also_where_it_is_refused() {
        for code in [200, 409, 504] {
            let said = judged(vec![lease(2400 + 2751, HOLDER, 0, code)]).unwrap_err().to_string();
            assert!(said.contains("after its last renewal was received"), "{said}");
        }
    }

    #[test]
    fn a_holder_that_knew_does_not_claim_again_late() {
        assert!(judged(vec![lease(6000, HOLDER, 6000, 409)]).is_err());
        let unread = Received { body: Value::Null, ..lease(6000, HOLDER, 0, 504) };
        assert!(judged(vec![unread]).is_err(), "what was not read may be anything");
    }

    #[test]
    fn who_never_learned_of_its_claim_may_claim_again() {
        let others = (1..=8).map(|count| lease(9000 + count * 300, HOLDER, 9000, 200));
        let all: Vec<_> =
            [lease(0, HOLDER, 0, 200), lease(9000, HOLDER, 9000, 200)].into_iter().chain(others).collect();
        b9_who_held_the_lease_does_not_ask_for_it_late(&all, SignedDuration::from_millis(2500), &Stalls::default())
            .unwrap();
    }

    #[test]
    fn a_replica_that_writes_the_name_of_another_is_noticed() {
        assert!(judged(vec![lease(2500, "replica-1_b", 0, 409)]).is_err());
    }
}
