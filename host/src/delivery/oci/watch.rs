//! The place of a plugin in a registry: looked at now and from time to time, by the digest of the manifest.
//!
//! A look is one request without a body, and only another digest makes it more. With a digest in the reference there is
//! nothing to look at again once the plugin is here.
//!
//! What a look finds wrong and will find wrong again, because it is in the manifest, is remembered with the digest of that manifest.
//! Whatever else fails is asked for again after pauses that grow, and that differ between hosts and places: a registry that is
//! overloaded stays up, and one that counts wrong passwords locks no account. Meanwhile the credentials and the authorities are read
//! as often as ever, without a request to the registry, and other ones end the pause. While a plugin is here, the first time that a
//! registry does not answer is no news.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::PluginOrigin as Origin;

use super::client::{Client, Means};
use super::error::OciError;
use crate::config::registry::{Reference, Version};
use crate::delivery::parcel::Parcel;
use crate::delivery::unpack::PACKED;
use crate::delivery::{Module, Offer, OfferSender};
use crate::plugin::Digest;

/// The longest pause before something that failed is asked for again, unless the usual one is longer.
const LONGEST: Duration = Duration::from_secs(300);
/// A pause grows to so many usual ones, where no layer was on its way.
const GROWS: u32 = 10;
/// By how much of itself a pause after a failure may be longer.
const SPREAD: f64 = 0.25;
/// Looks without an answer, one after the other, before a plugin that is here is said to be cut off from its registry.
const SILENT: u32 = 2;

/// A share of [`ROOM`], in bytes.
const SHARE: u64 = 1 << 10;
/// How much of layers this process holds before they are modules: two of the largest, however many places have a new one at the
/// same time. Small ones do not wait behind a large one that comes slowly.
static ROOM: Semaphore = Semaphore::const_new(2 * (PACKED >> 10));
/// Layers that are unpacked and hashed at the same time: each may become as large as the largest.
static OPENED: Semaphore = Semaphore::const_new(2);

/// Offers the plugin, now and after each change, until dropped.
pub(in crate::delivery) async fn watch(
    client: Client,
    reference: Reference,
    poll: Duration,
    look: Arc<Notify>,
    sender: OfferSender,
) {
    let place = place(&reference);
    let mut known = Known::default();
    loop {
        let seen = see(&client, &reference, &place, &known).await;
        if let Err(error) = &seen
            && known.failures == 0
        {
            tracing::warn!(place, %error, "the registry of a plugin gives none; a plugin that is active continues");
        }
        let next = known.after(seen, &place, sender.has_module(), poll, reference.digest().is_some());
        if let Some(offer) = next.offer {
            sender.send(offer);
        }
        match next.pause {
            Some(pause) => {
                let failed_with = if next.is_mendable { Some(client.means().await) } else { None };
                rest(&client, pause, poll, failed_with.as_ref(), &look).await;
            }
            // It is what it is for good.
            None => std::future::pending().await,
        }
    }
}

/// Waits for the next look: until the pause is over, someone asks for a look, or the client has other means than those that failed.
async fn rest(client: &Client, pause: Duration, poll: Duration, failed_with: Option<&Means>, look: &Notify) {
    let mut over = std::pin::pin!(tokio::time::sleep(pause));
    loop {
        tokio::select! {
            () = look.notified() => return,
            () = &mut over => return,
            () = tokio::time::sleep(poll), if failed_with.is_some() => {
                let means = client.present_means().await;
                if failed_with.is_some_and(|failed| means.mends(failed)) {
                    return;
                }
            }
        }
    }
}

/// How the place is called in sentences.
pub(in crate::delivery) fn place(reference: &Reference) -> String {
    format!("plugin.oci {reference}")
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    /// The same manifest as before.
    Same,
    /// Another one, and what it makes of the place.
    Other(Digest, Offer),
}

/// Looks, and pulls what is new.
async fn see(client: &Client, reference: &Reference, place: &str, known: &Known) -> Result<Seen, OciError> {
    if let (Version::Tag(tag), Some(known)) = (reference.version(), known.manifest)
        && client.resolve(tag).await? == Some(known)
    {
        return Ok(Seen::Same);
    }
    let manifest = client.manifest(reference.version()).await?;
    if Some(manifest.digest) == known.manifest {
        return Ok(Seen::Same);
    }
    if let Some((_, module)) = known.last.as_ref().filter(|(digest, _)| *digest == manifest.digest) {
        // Something else was in its place for a while.
        return Ok(Seen::Other(manifest.digest, Offer::Module(Arc::clone(module))));
    }
    let artifact = match manifest.artifact() {
        Ok(artifact) => artifact,
        Err(error) => return Ok(Seen::Other(manifest.digest, error.offer(place))),
    };
    let _room = room(&ROOM, share(artifact.layer.size)).await;
    let module = client.layer(&artifact.layer).await?;
    let parcel = Parcel { module, declaration: artifact.declaration, signature: artifact.signature };
    // Unpacking and hashing may take a while, and may meet what no decoder was made for.
    let (named, broken) = (place.to_owned(), format!("{place}: it could not be read"));
    let _turn = room(&OPENED, 1).await;
    let opened = tokio::task::spawn_blocking(move || parcel.open(&named, Origin::Registry)).await;
    let offer = opened.unwrap_or(Offer::Nothing(Reason::PluginInvalid, broken));
    Ok(Seen::Other(manifest.digest, offer.named_by(manifest.digest)))
}

/// Waits for shares, and keeps them until dropped. Neither of ours is ever closed.
async fn room(of: &'static Semaphore, shares: u32) -> Option<SemaphorePermit<'static>> {
    of.acquire_many(shares).await.ok()
}

/// What a layer takes of [`ROOM`]; never more than there is.
fn share(size: u64) -> u32 {
    u32::try_from(size.min(PACKED as u64).div_ceil(SHARE)).unwrap_or(u32::MAX)
}

/// What is known from one look to the next.
#[derive(Debug, Default)]
struct Known {
    manifest: Option<Digest>,
    /// What that manifest makes of the place: offered again when the registry answers again.
    offer: Option<Offer>,
    /// The module that was received last, and the manifest that names it. Whatever the registry answers after that, the module
    /// stays on offer: a candidate with these bytes has a stage, strikes and perhaps a person who looks at it.
    last: Option<(Digest, Arc<Module>)>,
    /// Looks in a row that failed.
    failures: u32,
    /// Those of them at the end with a layer on its way.
    costly: u32,
    chance: RandomState,
}

/// What follows from a look.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Next {
    /// Nothing: the listeners keep what they have.
    offer: Option<Offer>,
    /// Until the next look; nothing: there is none.
    pause: Option<Duration>,
    /// Other credentials or authorities end the pause.
    is_mendable: bool,
}

impl Known {
    fn after(
        &mut self,
        seen: Result<Seen, OciError>,
        place: &str,
        has_module: bool,
        poll: Duration,
        is_pinned: bool,
    ) -> Next {
        match seen {
            Ok(seen) => {
                if let Seen::Other(manifest, offer) = seen {
                    if let Offer::Module(module) = &offer {
                        self.last = Some((manifest, Arc::clone(module)));
                    }
                    (self.manifest, self.offer) = (Some(manifest), Some(offer.after(self.module())));
                }
                (self.failures, self.costly) = (0, 0);
                Next { offer: self.offer.clone(), pause: (!is_pinned).then_some(poll), is_mendable: false }
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.costly = if error.is_costly() { self.costly.saturating_add(1) } else { 0 };
                let is_news = !has_module || !error.may_pass() || self.failures >= SILENT;
                let offer = is_news.then(|| error.offer(place).after(self.module()));
                // What a registry asks for is kept, whatever else changes.
                Next { offer, pause: Some(self.pause(&error, poll)), is_mendable: error.after.is_none() }
            }
        }
    }

    fn module(&self) -> Option<&Arc<Module>> {
        self.last.as_ref().map(|(_, module)| module)
    }

    /// Until a look that failed is repeated.
    fn pause(&self, error: &OciError, poll: Duration) -> Duration {
        let (failures, longest) = match error.is_costly() {
            true => (self.costly, LONGEST),
            false => (self.failures, LONGEST.min(poll.saturating_mul(GROWS))),
        };
        let doubled = poll.saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
        let grown = doubled.min(longest.max(poll));
        let [chance, ..] = self.chance.hash_one(self.failures).to_le_bytes();
        let later = grown.mul_f64(SPREAD * f64::from(chance) / f64::from(u8::MAX));
        grown.max(error.after.unwrap_or_default()) + later
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures::FutureExt as _;
    use topoloom_core::plugin::Limit;

    use super::*;
    use crate::delivery::oci::{Registries, Scheme, Trouble};

    const POLL: Duration = Duration::from_secs(10);

    fn module(text: &str) -> (Digest, Offer) {
        let module = Module::plain(Arc::from(text.as_bytes()), Origin::Registry);
        (Digest::of(format!("manifest of {text}").as_bytes()), Offer::Module(Arc::new(module)))
    }

    fn away() -> OciError {
        OciError::new(Trouble::Away, "no answer")
    }

    /// Whether it is that pause, or up to a quarter longer.
    fn is_about(pause: Option<Duration>, seconds: u64) -> bool {
        let wanted = Duration::from_secs(seconds);
        pause.is_some_and(|pause| pause >= wanted && pause <= wanted.mul_f64(1.0 + SPREAD))
    }

    /// What a place does that has a module, for the answers of its registry.
    fn after(known: &mut Known, seen: Result<Seen, OciError>, has_module: bool) -> Next {
        known.after(seen, "place", has_module, POLL, false)
    }

    #[test]
    fn one_look_without_an_answer_is_no_news_while_a_plugin_is_here_and_two_are() {
        let mut known = Known::default();
        let (digest, offer) = module("one");
        assert_eq!(after(&mut known, Ok(Seen::Other(digest, offer.clone())), false).offer, Some(offer.clone()));
        let next = after(&mut known, Err(away()), true);
        assert!(next.offer.is_none() && next.is_mendable && is_about(next.pause, 10), "{next:?}");
        assert_eq!(after(&mut known, Ok(Seen::Same), true).offer, Some(offer.clone()));
        assert_eq!(after(&mut known, Err(away()), true).offer, None);
        let said = after(&mut known, Err(away()), true).offer.unwrap();
        assert_eq!(said.trouble(), Some((Reason::Upstream, "place: no answer")));
        assert_eq!(said.module(), offer.module(), "what was received stays on offer");
        // The same manifest is offered again, without a pull.
        assert_eq!(after(&mut known, Ok(Seen::Same), false).offer, Some(offer));
        assert_eq!(known.manifest, Some(digest));
    }

    #[tokio::test]
    async fn two_of_the_largest_layers_come_at_the_same_time_and_the_third_waits() {
        let largest = share(PACKED as u64);
        let (first, second) = (room(&ROOM, largest).await, room(&ROOM, largest).await);
        assert!(first.is_some() && second.is_some());
        assert!(room(&ROOM, share(1)).now_or_never().is_none());
        drop(first);
        assert!(room(&ROOM, share(1)).now_or_never().flatten().is_some());
        assert_eq!((share(0), share(1), share(1025), share(u64::MAX)), (0, 1, 2, largest));
    }

    #[test]
    fn at_the_start_the_first_failure_is_news() {
        let said = after(&mut Known::default(), Err(away()), false).offer.unwrap();
        assert_eq!(said.trouble().map(|(reason, _)| reason), Some(Reason::Upstream));
        assert_eq!(said.module(), None);
    }

    #[test]
    fn whatever_a_registry_answers_later_the_module_that_was_received_stays_on_offer() {
        let mut known = Known::default();
        let (digest, offer) = module("one");
        after(&mut known, Ok(Seen::Other(digest, offer.clone())), false);
        for trouble in [Trouble::Refused, Trouble::Missing, Trouble::Credentials, Trouble::NotAllowed, Trouble::Invalid]
        {
            let said = after(&mut known, Err(OciError::new(trouble, "no")), true).offer.unwrap();
            assert_eq!((said.module(), said.trouble().is_some()), (offer.module(), true), "{trouble:?}");
        }
        // A login page, which looks like a manifest that is no plugin.
        let page = Offer::Nothing(Reason::PluginInvalid, "a page".to_owned());
        let said = after(&mut known, Ok(Seen::Other(Digest::of(b"page"), page)), true).offer.unwrap();
        assert_eq!((said.module(), said.trouble()), (offer.module(), Some((Reason::PluginInvalid, "a page"))));
        let beyond = Offer::Beyond(Limit::File, "more".to_owned());
        let said = after(&mut known, Ok(Seen::Other(Digest::of(b"more"), beyond)), true).offer.unwrap();
        assert_eq!((said.module(), said.beyond()), (offer.module(), Some(Limit::File)), "it is counted as well");
        let (newer, other) = module("two");
        assert_eq!(after(&mut known, Ok(Seen::Other(newer, other.clone())), true).offer, Some(other));
    }

    #[test]
    fn an_answer_that_refuses_is_news_at_once() {
        for trouble in [Trouble::Refused, Trouble::Missing, Trouble::Credentials, Trouble::NotAllowed] {
            let next = after(&mut Known::default(), Err(OciError::new(trouble, "no")), true);
            assert!(next.offer.is_some() && is_about(next.pause, 10), "{trouble:?}: {next:?}");
        }
    }

    #[test]
    fn what_fails_is_asked_for_less_and_less_and_a_layer_least() {
        let refused = OciError::new(Trouble::Refused, "no");
        let (cut, other) = (away().costly(), OciError::new(Trouble::Mismatch, "other bytes").costly());
        for error in [away(), refused.clone(), OciError::new(Trouble::Missing, "none")] {
            let mut known = Known::default();
            for seconds in [10, 20, 40, 80, 100, 100] {
                let pause = after(&mut known, Err(error.clone()), true).pause;
                assert!(is_about(pause, seconds), "{error}: {pause:?} and not {seconds}");
            }
        }
        for error in [cut.clone(), other] {
            let mut known = Known::default();
            after(&mut known, Err(away()), true);
            for seconds in [10, 20, 40, 80, 160, 300, 300, 300] {
                let pause = after(&mut known, Err(error.clone()), true).pause;
                assert!(is_about(pause, seconds), "{error}: {pause:?} and not {seconds}");
            }
            assert_eq!(known.manifest, None, "it is pulled again");
            after(&mut known, Ok(Seen::Same), true);
            assert!(is_about(after(&mut known, Err(error), true).pause, 10), "it begins with the first");
        }
        let known = Known { failures: 99, costly: 99, ..Known::default() };
        for error in [refused, cut] {
            assert!(is_about(Some(known.pause(&error, LONGEST * 2)), 600), "never more often than usual");
        }
    }

    #[test]
    fn hosts_that_met_the_same_failure_do_not_come_back_together() {
        let pauses: BTreeSet<Duration> = (0..8).map(|_| Known::default().pause(&away(), POLL)).collect();
        assert!(pauses.len() > 2, "{pauses:?}");
    }

    #[tokio::test]
    async fn other_authorities_or_someone_who_asks_end_a_pause() {
        let folder = tempfile::tempdir().unwrap();
        let bundle = folder.path().join("ca.pem");
        let reference: Reference = "oci://r.example/a:1".parse().unwrap();
        let client = Registries::default().at_desk(&reference, Scheme::Https, Some(bundle.clone()));
        let (pause, poll, look) = (LONGEST * 10, Duration::from_millis(1), Notify::new());
        let failed_with = client.means().await;
        assert!(!client.present_means().await.mends(&failed_with), "an error that stays mends nothing");
        std::fs::write(&bundle, "another").unwrap();
        let rested = rest(&client, pause, poll, Some(&failed_with), &look);
        tokio::time::timeout(LONGEST / 5, rested).await.unwrap();
        look.notify_one();
        tokio::time::timeout(LONGEST / 5, rest(&client, pause, poll, None, &look)).await.unwrap();
    }

    #[test]
    fn a_registry_that_wants_a_pause_gets_it() {
        let busy = away().after(Some(Duration::from_secs(60)));
        let next = after(&mut Known::default(), Err(busy), true);
        let pause = next.pause.unwrap();
        assert!(pause >= Duration::from_secs(60) && pause <= Duration::from_secs(60) + POLL / 4, "{pause:?}");
        assert!(!next.is_mendable, "whatever else changes");
        let soon = away().after(Some(Duration::from_secs(1)));
        assert!(is_about(after(&mut Known::default(), Err(soon), true).pause, 10));
    }

    #[test]
    fn with_a_digest_in_the_reference_nothing_is_looked_at_twice() {
        let mut known = Known::default();
        assert!(is_about(known.after(Err(away()), "place", false, POLL, true).pause, 10));
        let (digest, offer) = module("one");
        let next = known.after(Ok(Seen::Other(digest, offer.clone())), "place", false, POLL, true);
        assert_eq!(next, Next { offer: Some(offer), pause: None, is_mendable: false });
    }
}
