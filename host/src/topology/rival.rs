//! Volcano's own HyperNode controller, by its lease: while it leads, no source of ours is written (decision M6).
//!
//! Only the stand-alone process can be seen: it always elects, under a name of its own (`hypernode.md` 13.2). The
//! controller inside of `vc-controller-manager` shares that process's lease with nine others, and can be seen only by
//! its writes ([`crate::discovery::supervisor`] notices).
//!
//! A lease counts for as long as it keeps changing, judged by our own clock, so neither a wrong clock nor a lease that
//! an uninstall left behind holds anything up for longer than its duration.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::select_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::time::Instant;
use topoloom_core::version::ResourceVersion;

use crate::cluster::watched::{Earlier, Index, Watched};
use crate::cluster::watches::{self, Config};
use crate::cluster::{Check, Refusal, RefusalReason, Restores, single};

/// The leases that the stand-alone process has unless its release or its lease was named otherwise: where no chart
/// named it, and in Volcano's own chart.
pub const USUAL_NAMES: [&str; 2] = ["vc-hypernode-controller-manager", "volcano-hypernode-controller-manager"];
/// The lease of Volcano's whole controller manager says nothing: it is held with this controller switched off, too.
/// A flag that names it gets a warning, and it is ignored.
pub const OF_ALL: &str = "vc-controller-manager";
/// What the chart of a release calls it.
const SUFFIX: &str = "-hypernode-controller-manager";
/// Where the lease does not say how long it lasts.
const USUAL: Duration = Duration::from_secs(15);

/// How long a look may take that decides whether a lease ended or only our watch on it.
const LOOK: Duration = Duration::from_secs(5);
/// How long after such a look that failed the next one is made.
const AGAIN: Duration = Duration::from_secs(2);
/// The message until every lease was read once.
const UNKNOWN: &str = "not known yet whether Volcano's own HyperNode controller leads: its leases have not been read";

/// The leader there, as a sentence; `None` while no replica leads.
pub type Rival = Option<String>;

/// What holds before anything is known: nothing is written beside a controller that may lead.
#[must_use]
pub fn unknown() -> Rival {
    Some(UNKNOWN.to_owned())
}

/// Whether the leases were looked at, or cannot be.
#[must_use]
pub fn is_known(rival: &Rival) -> bool {
    rival.as_deref() != Some(UNKNOWN)
}

/// The names that the lease may have: those that were given but [`OF_ALL`], and that of the release whose configuration
/// is read.
#[must_use]
pub fn leases(given: &[String], release: Option<&str>) -> Vec<String> {
    let release = release.filter(|release| !release.is_empty()).map(|release| format!("{release}{SUFFIX}"));
    let given = given.iter().filter(|name| *name != OF_ALL).cloned();
    let names: BTreeSet<String> = given.chain(release).collect();
    names.into_iter().collect()
}

/// One lease as it was last seen.
#[derive(Debug, Default)]
struct RivalLease {
    holder: String,
    version: String,
    until: Option<Instant>,
}

impl RivalLease {
    fn observe(&mut self, lease: &Lease, now: Instant) {
        let spec = lease.spec.clone().unwrap_or_default();
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let is_same = version == self.version;
        self.version = version;
        self.holder = topoloom_core::text::holder(spec.holder_identity.as_deref().unwrap_or_default());
        if self.holder.is_empty() {
            self.until = None;
        } else if !is_same {
            let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            self.until = Some(now + seconds.map_or(USUAL, Duration::from_secs));
        }
    }
}

/// The leases of one name: Volcano may be in any namespace, wherever its configuration is.
#[derive(Debug, Default)]
struct NamedLeases {
    /// By namespace.
    seen: BTreeMap<String, RivalLease>,
    /// It was read once, or reading it is forbidden.
    is_known: bool,
}

/// The same at a moment.
struct NamedLeasesAt<'a>(&'a mut NamedLeases, Instant);

fn place(lease: &Lease) -> String {
    lease.namespace().unwrap_or_default()
}

impl Index<Lease> for NamedLeasesAt<'_> {
    type List = Vec<Lease>;
    type Change = ();

    fn begin(&mut self, _: Earlier) -> Vec<Lease> {
        Vec::new()
    }

    fn list(&mut self, list: &mut Vec<Lease>, lease: Lease) {
        list.push(lease);
    }

    fn reset(&mut self, leases: Vec<Lease>, _: &ResourceVersion) {
        let listed: BTreeSet<String> = leases.iter().map(place).collect();
        self.0.seen.retain(|namespace, _| listed.contains(namespace));
        leases.into_iter().for_each(|lease| self.apply(lease));
        self.0.is_known = true;
    }

    // Only that it changes counts, whether its version grows or not.
    fn apply(&mut self, lease: Lease) {
        self.0.seen.entry(place(&lease)).or_default().observe(&lease, self.1);
    }

    fn delete(&mut self, lease: Lease) {
        self.0.seen.remove(&place(&lease));
    }
}

impl NamedLeases {
    /// The first with a holder: its namespace and the holder.
    fn held(&self, now: Instant) -> Option<(&str, &str)> {
        let (namespace, seen) = self.seen.iter().find(|(_, seen)| seen.until.is_some_and(|until| until > now))?;
        Some((namespace, &seen.holder))
    }

    /// Whether a lease seems to have ended. Our watch on it may have, too.
    fn seems_over(&self, now: Instant) -> bool {
        self.seen.values().any(|seen| seen.until.is_some_and(|until| until <= now))
    }

    /// A live look at all of them: one that has not changed is over.
    fn observe_all(&mut self, leases: Vec<Lease>, now: Instant) {
        NamedLeasesAt(self, now).reset(leases, &ResourceVersion::default());
        for seen in self.seen.values_mut().filter(|seen| seen.until.is_some_and(|until| until <= now)) {
            seen.until = None;
        }
    }

    /// It is unknown: the last known leader continues to count.
    fn doubts(&mut self, now: Instant) {
        for seen in self.seen.values_mut().filter(|seen| seen.until.is_some_and(|until| until <= now)) {
            seen.until = Some(now + AGAIN);
        }
    }

    /// When the next one ends, unless it is renewed.
    fn ends(&self, now: Instant) -> Option<Instant> {
        self.seen.values().filter_map(|seen| seen.until).filter(|until| *until > now).min()
    }
}

/// Reports the state of all watches, by the first that fails: each names its own lease, and one after the other they
/// would look like news with every try.
fn report(check: &Check, refused: &[Option<Refusal>]) {
    match refused.iter().flatten().next() {
        Some(refusal) if refusal.reason == RefusalReason::Forbidden => check.absent(&refusal.message),
        Some(refusal) => check.fail(refusal),
        None => check.pass(),
    }
}

/// Watches the leases of these names in every namespace, until dropped.
pub async fn watch(
    client: kube::Client,
    restores: Restores,
    names: Vec<String>,
    rival: watch::Sender<Rival>,
    check: Check,
) {
    let api: Api<Lease> = Api::all(client);
    let each = names.iter().enumerate().map(|(index, name)| {
        let events = watches::events(api.clone(), Config::of(&restores).fields(&single::named(name)));
        Box::pin(events.map(move |event| (index, event)))
    });
    let mut events = select_all(each);
    let mut all: Vec<NamedLeases> = names.iter().map(|_| NamedLeases::default()).collect();
    let mut watched: Vec<Watched<Vec<Lease>>> = names.iter().map(|_| Watched::default()).collect();
    let mut refused: Vec<Option<Refusal>> = names.iter().map(|_| None).collect();
    loop {
        let now = Instant::now();
        let leads = names.iter().zip(&all).find_map(|(name, named)| Some((name, named.held(now)?)));
        let is_known = all.iter().all(|named| named.is_known);
        let present = leads.map(|(name, (namespace, holder))| {
            format!(
                "Volcano's own HyperNode controller runs: {holder} holds the lease {namespace}/{name}. Switch it off, or \
                 observe only (--observe)"
            )
        });
        let present = if present.is_none() && !is_known { unknown() } else { present };
        rival.send_if_modified(|old| std::mem::replace(old, present.clone()) != present);
        let ends = all.iter().filter_map(|named| named.ends(now)).min();
        let far = now + Duration::from_secs(86_400);
        tokio::select! {
            Some((index, event)) = events.next() => match event {
                Ok(event) => {
                    if event.is_answer() {
                        refused.get_mut(index).into_iter().for_each(|refused| *refused = None);
                        report(&check, &refused);
                    }
                    if let (Some(named), Some(watched)) = (all.get_mut(index), watched.get_mut(index)) {
                        watched.take(&mut NamedLeasesAt(named, Instant::now()), event);
                    }
                }
                Err(refusal) => {
                    // A missing right is no reason to stop writing.
                    let is_known = refusal.reason == RefusalReason::Forbidden;
                    all.get_mut(index).into_iter().for_each(|named| named.is_known |= is_known);
                    refused.get_mut(index).into_iter().for_each(|refused| *refused = Some(refusal.clone()));
                    report(&check, &refused);
                }
            },
            () = tokio::time::sleep_until(ends.unwrap_or(far)) => {
                for (name, named) in names.iter().zip(&mut all).filter(|(_, named)| named.seems_over(Instant::now())) {
                    let named_so = ListParams::default().fields(&single::named(name));
                    match tokio::time::timeout(LOOK, api.list(&named_so)).await {
                        Ok(Ok(leases)) => named.observe_all(leases.items, Instant::now()),
                        Ok(Err(_)) | Err(_) => named.doubts(Instant::now()),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::watched::Event;
    use serde_json::json;

    fn lease(namespace: &str, version: &str, holder: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "resourceVersion": version},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 20},
        }))
        .unwrap()
    }

    #[test]
    fn a_lease_counts_for_as_long_as_it_changes() {
        let (mut seen, start) = (RivalLease::default(), Instant::now());
        seen.observe(&lease("v", "1", "volcano"), start);
        let until = start + Duration::from_secs(20);
        assert_eq!(seen.until, Some(until));
        seen.observe(&lease("v", "1", "volcano"), start + Duration::from_secs(10));
        assert_eq!(seen.until, Some(until), "a list that shows it again is no change");
        seen.observe(&lease("v", "2", "volcano"), start + Duration::from_secs(10));
        assert_eq!(seen.until, Some(until + Duration::from_secs(10)));
        seen.observe(&lease("v", "3", ""), start + Duration::from_secs(11));
        assert_eq!(seen.until, None);
    }

    #[test]
    fn a_lease_counts_in_whichever_namespace_it_is_until_it_is_gone() {
        let (mut named, now) = (NamedLeases::default(), Instant::now());
        let lists =
            |named: &mut NamedLeases, leases: &[Lease]| NamedLeasesAt(named, now).reset(leases.to_vec(), &"7".into());
        lists(&mut named, &[lease("a", "1", ""), lease("b", "2", "in-b")]);
        assert_eq!(named.held(now), Some(("b", "in-b")));
        NamedLeasesAt(&mut named, now).apply(lease("c", "3", "in-c"));
        NamedLeasesAt(&mut named, now).delete(lease("b", "2", "in-b"));
        assert_eq!(named.held(now), Some(("c", "in-c")), "one that goes takes no other along");
        assert_eq!(named.ends(now), Some(now + Duration::from_secs(20)));
        assert_eq!(named.held(now + Duration::from_secs(20)), None);
        lists(&mut named, &[lease("a", "1", "")]);
        assert_eq!(named.held(now), None, "it went while the watch was broken");
    }

    #[test]
    fn a_lease_is_over_when_a_live_look_finds_it_unchanged() {
        let (mut named, now) = (NamedLeases::default(), Instant::now());
        named.observe_all(vec![lease("a", "1", "volcano")], now);
        let later = now + Duration::from_secs(20);
        assert!(named.seems_over(later) && named.held(later).is_none());
        // The API server is away: Volcano may lead all the same.
        named.doubts(later);
        assert_eq!((named.held(later), named.ends(later)), (Some(("a", "volcano")), Some(later + AGAIN)));
        // Our watch was broken, and it was renewed.
        let again = later + AGAIN;
        named.observe_all(vec![lease("a", "2", "volcano")], again);
        assert_eq!(named.held(again), Some(("a", "volcano")));
        // It was not.
        let over = again + Duration::from_secs(20);
        named.observe_all(vec![lease("a", "2", "volcano")], over);
        assert_eq!((named.held(over), named.seems_over(over)), (None, false));
    }

    #[test]
    fn nothing_is_known_before_the_first_look() {
        let mut named = NamedLeases::default();
        assert!(!named.is_known && !is_known(&unknown()) && is_known(&None));
        let (mut watched, now) = (Watched::default(), Instant::now());
        watched.take(&mut NamedLeasesAt(&mut named, now), Event::Init(Earlier::Valid));
        assert!(!named.is_known);
        watched.take(&mut NamedLeasesAt(&mut named, now), Event::whole("7".into()));
        assert!(named.is_known);
    }

    #[test]
    fn the_lease_of_the_chart_has_the_name_of_its_release() {
        let usual = USUAL_NAMES.map(str::to_owned);
        assert_eq!(leases(&usual, None), USUAL_NAMES);
        assert_eq!(leases(&usual, Some("volcano")), USUAL_NAMES);
        assert_eq!(leases(&usual, Some("")), USUAL_NAMES);
        assert_eq!(leases(&["mine".to_owned()], Some("batch")), ["batch-hypernode-controller-manager", "mine"]);
        assert_eq!(leases(&["vc-controller-manager".to_owned()], None), [""; 0]);
    }
}
