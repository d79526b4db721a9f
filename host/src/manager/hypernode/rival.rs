//! Volcano's own HyperNode controller, by its lease: while it leads, no source of ours is written (decision M6).
//!
//! Only the stand-alone process can be seen: it always elects, under a name of its own (`hypernode.md` 13.2). The
//! controller inside of `vc-controller-manager` shares that process's lease with nine others, and shows itself by what it
//! writes ([`crate::discovery::supervisor`] notices).
//!
//! A lease counts for as long as it keeps changing, judged by our own clock, so neither a wrong clock nor a lease that an
//! uninstall left behind holds anything up for longer than its duration.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::select_all;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::{Reason, single};
use crate::manager::health::Check;

/// The lease of the stand-alone process where no chart named it.
const VOLCANOS: &str = "vc-hypernode-controller-manager";
/// What the chart of a release calls it.
const SUFFIX: &str = "-hypernode-controller-manager";
/// Where the lease does not say how long it lasts.
const USUAL: Duration = Duration::from_secs(15);

/// Who leads there, as a sentence; nothing while nobody does.
pub type Rival = Option<String>;

/// The names that the lease may have.
#[must_use]
pub fn leases(release: Option<&str>) -> Vec<String> {
    let release = release.filter(|release| !release.is_empty());
    let mut names = vec![VOLCANOS.to_owned()];
    names.extend(release.map(|release| format!("{release}{SUFFIX}")));
    names
}

/// One lease as it was last seen.
#[derive(Debug, Default)]
struct Seen {
    holder: String,
    version: String,
    until: Option<Instant>,
}

impl Seen {
    fn sees(&mut self, lease: Option<&Lease>, now: Instant) {
        let Some(lease) = lease else {
            *self = Self::default();
            return;
        };
        let spec = lease.spec.clone().unwrap_or_default();
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let is_same = version == self.version;
        self.version = version;
        self.holder = spec.holder_identity.unwrap_or_default();
        if self.holder.is_empty() {
            self.until = None;
        } else if !is_same {
            let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
            self.until = Some(now + seconds.map_or(USUAL, Duration::from_secs));
        }
    }
}

/// Watches until dropped.
pub async fn watch(
    client: kube::Client,
    namespace: String,
    names: Vec<String>,
    rival: watch::Sender<Rival>,
    check: Check,
) {
    let api: Api<Lease> = Api::namespaced(client, &namespace);
    let each = names
        .iter()
        .enumerate()
        .map(|(index, name)| Box::pin(single::watch(api.clone(), name).map(move |state| (index, state))));
    let mut states = select_all(each);
    let mut seen: Vec<Seen> = names.iter().map(|_| Seen::default()).collect();
    loop {
        let now = Instant::now();
        let leads = names.iter().zip(&seen).find(|(_, seen)| seen.until.is_some_and(|until| until > now));
        let says = leads.map(|(name, seen)| {
            format!(
                "Volcano's own HyperNode controller runs: {} holds the lease {namespace}/{name}. Switch it off, or observe \
                 only (--observe)",
                seen.holder
            )
        });
        rival.send_if_modified(|old| std::mem::replace(old, says.clone()) != says);
        let ends = seen.iter().filter_map(|seen| seen.until).filter(|until| *until > now).min();
        let far = now + Duration::from_secs(86_400);
        tokio::select! {
            Some((index, state)) = states.next() => match state {
                Ok(lease) => {
                    check.pass();
                    if let Some(seen) = seen.get_mut(index) {
                        seen.sees(lease.as_ref(), Instant::now());
                    }
                }
                Err(refusal) if refusal.reason == Reason::Forbidden => check.absent(&refusal.message),
                Err(refusal) => check.fail(&refusal),
            },
            () = tokio::time::sleep_until(ends.unwrap_or(far)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease(version: &str, holder: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"resourceVersion": version},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 20},
        }))
        .unwrap()
    }

    #[test]
    fn a_lease_counts_for_as_long_as_it_changes() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        seen.sees(Some(&lease("1", "volcano")), start);
        let until = start + Duration::from_secs(20);
        assert_eq!(seen.until, Some(until));
        seen.sees(Some(&lease("1", "volcano")), start + Duration::from_secs(10));
        assert_eq!(seen.until, Some(until), "a list that tells it again is no change");
        seen.sees(Some(&lease("2", "volcano")), start + Duration::from_secs(10));
        assert_eq!(seen.until, Some(until + Duration::from_secs(10)));
        seen.sees(Some(&lease("3", "")), start + Duration::from_secs(11));
        assert_eq!(seen.until, None);
        seen.sees(Some(&lease("4", "volcano")), start + Duration::from_secs(12));
        seen.sees(None, start + Duration::from_secs(13));
        assert_eq!(seen.until, None);
    }

    #[test]
    fn the_lease_of_the_chart_has_the_name_of_its_release() {
        assert_eq!(leases(None), [VOLCANOS]);
        assert_eq!(leases(Some("volcano")), [VOLCANOS, "volcano-hypernode-controller-manager"]);
    }
}
