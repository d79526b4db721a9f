//! Every watch of this program begins here.
//!
//! Owns how objects of a kind are listed and watched, how a watch is opened again, with pauses that no caller can leave
//! out ([`pause`](super::pause)), and how a server that went back is found ([`restores`](super::restores)): the version
//! that the server shows, by lists, events and bookmarks, is remembered, and a list of one object reads it before a
//! watch is opened again, and a few times a minute while a watch is open. After a time without any API server
//! everything is listed again: a restored one may have caught up meanwhile. Never reads the content of objects, and
//! logs nothing: the caller decides what a failure means.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, Stream, StreamExt};
use kube::Api;
use kube::api::{ListParams, ObjectList, Request, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use topoloom_core::version::ResourceVersion;

use super::pages::Answers;
use super::pause::Pauses;
use super::restores::{Earlier, RestoreWatch, Restores};
pub use super::watched::Event;
use super::{Refusal, RefusalReason};

/// Objects per page of a list, where the watch says nothing else.
const PAGE: u32 = 500;
/// How long a watch listens, where it says nothing else: below the five minutes after which API servers end one.
const LISTENS: Duration = Duration::from_secs(290);
/// So much later than the server should have ended it, a watch counts as broken.
const MARGIN: Duration = Duration::from_secs(5);
/// How often the version of the server is read while a watch is open: a restored etcd is found within this time.
const LOOK: Duration = Duration::from_secs(20);
/// By how much of itself that may take longer, so that watches do not look together.
const SPREAD: f64 = 0.25;
/// How long a look may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// A watch that was open for less than this, and has shown nothing, is as good as refused.
const BRIEF: Duration = Duration::from_secs(1);

/// Is notified of something about a watch: see [`Config::heard`] and [`Config::opened`]. The default is notified of nothing.
#[derive(Clone, Default)]
pub struct Heard(Option<Arc<dyn Fn() + Send + Sync>>);

impl Heard {
    /// Calls this, on the task of the watch: it must not block.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(notify)))
    }

    fn now(&self) {
        if let Some(notify) = &self.0 {
            notify();
        }
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Heard" } else { "Unheard" })
    }
}

/// What is watched of a kind, and how.
#[derive(Debug, Clone, Default)]
pub struct Config {
    restores: Restores,
    fields: Option<String>,
    labels: Option<String>,
    page: Option<u32>,
    listens: Option<Duration>,
    heard: Heard,
    opened: Heard,
}

impl Config {
    /// All objects, by a process that knows of these restores.
    #[must_use]
    pub fn of(restores: &Restores) -> Self {
        Self { restores: restores.clone(), ..Self::default() }
    }

    /// Only what this field selector selects.
    #[must_use]
    pub fn fields(self, selector: &str) -> Self {
        Self { fields: Some(selector.to_owned()), ..self }
    }

    /// Only what this label selector selects.
    #[must_use]
    pub fn labels(self, selector: &str) -> Self {
        Self { labels: Some(selector.to_owned()), ..self }
    }

    /// So many objects per page of a list.
    #[must_use]
    pub fn page_size(self, objects: u32) -> Self {
        Self { page: Some(objects), ..self }
    }

    /// Each watch listens for this time, in whole seconds, and is followed by the next one.
    #[must_use]
    pub fn listens(self, time: Duration) -> Self {
        Self { listens: Some(time), ..self }
    }

    /// Each sign of life of the API server is passed on: a page of a list, an event, a bookmark, an answered look.
    #[must_use]
    pub fn heard(self, heard: &Heard) -> Self {
        Self { heard: heard.clone(), ..self }
    }

    /// Each watch that the API server opens is passed on. After a refusal nothing else shows that the watch works again: it is
    /// opened without a list, and objects that stay as they are have no event.
    #[must_use]
    pub fn opened(self, opened: &Heard) -> Self {
        Self { opened: opened.clone(), ..self }
    }

    fn list(&self, limit: u32, token: Option<String>) -> ListParams {
        ListParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            limit: Some(limit),
            continue_token: token,
            ..ListParams::default()
        }
    }

    fn watch(&self) -> WatchParams {
        let seconds = u32::try_from(self.time().as_secs()).unwrap_or(u32::MAX);
        WatchParams {
            field_selector: self.fields.clone(),
            label_selector: self.labels.clone(),
            timeout: Some(seconds),
            ..WatchParams::default()
        }
    }

    fn time(&self) -> Duration {
        self.listens.unwrap_or(LISTENS)
    }
}

/// The events of the objects of a kind, with every failure in between; it continues by itself, after a pause that
/// grows.
pub fn events<K>(api: Api<K>, config: Config) -> impl Stream<Item = Result<Event<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    paused(Watcher::new(api, config), Pauses::default())
}

/// The same for callers that cannot wait long: after every failure, and every watch that ended at once, it continues after this
/// pause.
pub fn events_every<K>(
    api: Api<K>,
    config: Config,
    pause: Duration,
) -> impl Stream<Item = Result<Event<K>, Refusal>> + Send + use<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    paused(Watcher::new(api, config), Always(pause))
}

/// When to continue after a failure, or after a watch that ended at once.
trait Waits: Send {
    fn succeeded(&mut self, now: Instant);
    fn failed(&mut self, now: Instant, asked: Option<Duration>) -> Duration;
}

impl Waits for Pauses {
    fn succeeded(&mut self, now: Instant) {
        Self::succeeded(self, now);
    }

    fn failed(&mut self, now: Instant, asked: Option<Duration>) -> Duration {
        Self::failed(self, now, asked)
    }
}

/// One pause, every time.
struct Always(Duration);

impl Waits for Always {
    fn succeeded(&mut self, _: Instant) {}

    fn failed(&mut self, _: Instant, _: Option<Duration>) -> Duration {
        self.0
    }
}

fn paused<K>(watcher: Watcher<K>, waits: impl Waits) -> impl Stream<Item = Result<Event<K>, Refusal>> + Send
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let begun = (watcher, waits, None::<Duration>);
    stream::unfold(begun, |(mut watcher, mut waits, mut due)| async move {
        loop {
            if let Some(pause) = due.take() {
                tokio::time::sleep(pause).await;
            }
            match watcher.next().await {
                Ok(Next::Event(event)) => {
                    if event.is_answer() {
                        waits.succeeded(Instant::now());
                    }
                    return Some((Ok(event), (watcher, waits, due)));
                }
                Ok(Next::Ended(Life::Lived { since })) => waits.succeeded(since),
                Ok(Next::Ended(Life::Brief)) => due = Some(waits.failed(Instant::now(), None)),
                Err(refusal) => {
                    due = Some(waits.failed(Instant::now(), refusal.retry_after));
                    return Some((Err(refusal), (watcher, waits, due)));
                }
            }
        }
    })
}

/// What comes next of a watch.
enum Next<K> {
    /// This has happened.
    Event(Event<K>),
    /// It ended, and is to be opened again.
    Ended(Life),
}

/// How a watch was that ended without an error.
enum Life {
    /// It was open since then, and listened for a while or has shown something.
    Lived { since: Instant },
    /// It ended as soon as it was opened: without a pause, requests would follow each other as fast as they are answered.
    Brief,
}

/// One watch, from list to list.
struct Watcher<K> {
    api: Api<K>,
    config: Config,
    member: RestoreWatch,
    state: WatchState<K>,
    /// The highest version that the server has shown of these objects.
    known: Option<ResourceVersion>,
    /// When its version is looked at next.
    look_at: Instant,
    /// A look under way, and what was known when it began.
    look: Option<(BoxFuture<'static, Option<ResourceVersion>>, Option<ResourceVersion>)>,
    spread: RandomState,
    answers: Answers,
}

enum WatchState<K> {
    /// A list is due.
    Empty,
    /// A list is under way: the objects of the present page, the token of the next page, the version of all of them.
    Listing { objects: VecDeque<K>, token: Option<String>, version: Option<ResourceVersion> },
    /// All up to this version is known, and a watch is due.
    Listed(ResourceVersion),
    /// The watch is open.
    Watching(OpenWatch<K>),
}

/// An open watch.
struct OpenWatch<K> {
    /// All up to this version is known.
    version: ResourceVersion,
    opened: Instant,
    /// Whether it has shown an event or a bookmark.
    has_spoken: bool,
    stream: BoxStream<'static, kube::Result<WatchEvent<K>>>,
    /// If nothing arrives until then, the connection is broken.
    ends: Instant,
}

impl<K> OpenWatch<K> {
    /// How it was, now that it has ended.
    fn life(&self) -> Life {
        if self.has_spoken || self.opened.elapsed() >= BRIEF { Life::Lived { since: self.opened } } else { Life::Brief }
    }
}

/// What a step of a watch waited for.
enum Came<K> {
    Outdated,
    LookDue,
    Looked(Option<ResourceVersion>),
    Ended,
    Event(kube::Result<WatchEvent<K>>),
}

impl<K> Watcher<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    fn new(api: Api<K>, config: Config) -> Self {
        Self {
            api,
            member: config.restores.member(),
            config,
            state: WatchState::Empty,
            known: None,
            look_at: Instant::now(),
            look: None,
            spread: RandomState::new(),
            answers: Answers::default(),
        }
    }

    async fn next(&mut self) -> Result<Next<K>, Refusal> {
        loop {
            if !matches!(self.state, WatchState::Empty) && self.member.is_outdated() {
                self.state = WatchState::Empty;
            }
            match std::mem::replace(&mut self.state, WatchState::Empty) {
                WatchState::Empty => {
                    let earlier = self.member.lists();
                    if earlier == Earlier::Void {
                        self.known = None;
                        self.look = None;
                    }
                    self.state = WatchState::Listing { objects: VecDeque::new(), token: None, version: None };
                    return Ok(Next::Event(Event::Init(earlier)));
                }
                WatchState::Listing { mut objects, token, version } => {
                    if let Some(object) = objects.pop_front() {
                        self.state = WatchState::Listing { objects, token, version };
                        return Ok(Next::Event(Event::InitApply(object)));
                    }
                    if let (None, Some(version)) = (&token, &version) {
                        self.member.listed();
                        self.look_at = self.next_look();
                        self.state = WatchState::Listed(version.clone());
                        return Ok(Next::Event(Event::whole(version.clone())));
                    }
                    self.page(token).await?;
                }
                WatchState::Listed(version) => self.open(version).await?,
                WatchState::Watching(standing) => {
                    if let Some(next) = self.listen(standing).await? {
                        return Ok(next);
                    }
                }
            }
        }
    }

    /// Reads a page of a list.
    async fn page(&mut self, token: Option<String>) -> Result<(), Refusal> {
        let is_first = token.is_none();
        let parameters = self.config.list(self.config.page.unwrap_or(PAGE), token);
        let request = Request::new(self.api.resource_url()).list(&parameters).map_err(kube::Error::BuildRequest)?;
        let read: kube::Result<ObjectList<K>> = self.answers.read(&self.api.clone().into_client(), request).await;
        let list = match read {
            Ok(list) => {
                self.config.heard.now();
                list
            }
            Err(error) => {
                let refusal = Refusal::of(&error);
                if matches!(refusal.reason, RefusalReason::Forbidden | RefusalReason::NoSuchResource) {
                    // There is nothing that it could forget.
                    self.member.listed();
                }
                return Err(refusal);
            }
        };
        let text = |text: Option<String>| text.filter(|text| !text.is_empty());
        if list.metadata.continue_.as_ref().is_none_or(String::is_empty) {
            self.answers.rest();
        }
        let (version, token) = (text(list.metadata.resource_version), text(list.metadata.continue_));
        let version = version.map(ResourceVersion::from);
        if version.is_none() && token.is_none() {
            return Err(no_version());
        }
        if is_first
            && let Some(version) = &version
            && self.went_back(self.known.as_ref(), version)
        {
            // The next step restarts the list.
            return Ok(());
        }
        version.iter().for_each(|version| self.has_shown(version));
        self.state = WatchState::Listing { objects: list.items.into(), token, version };
        Ok(())
    }

    /// Opens the watch, unless the server has not reached the known version: such a watch would show nothing.
    async fn open(&mut self, version: ResourceVersion) -> Result<(), Refusal> {
        if self.look_at <= Instant::now() {
            let known = self.known.clone();
            let current = look(self.api.clone(), self.config.list(1, None)).await;
            if self.looked(known.as_ref(), current) {
                return Ok(());
            }
        }
        match self.api.watch(&self.config.watch(), &version).await {
            Ok(stream) => {
                self.config.opened.now();
                let (opened, stream) = (Instant::now(), stream.boxed());
                let ends = opened + self.config.time() + MARGIN;
                self.state = WatchState::Watching(OpenWatch { version, opened, has_spoken: false, stream, ends });
                Ok(())
            }
            Err(error) => {
                let refusal = Refusal::of(&error);
                // A server that was away may be a restored one, and by now be further than what is known: only a list says
                // what holds.
                if !matches!(
                    refusal.reason,
                    RefusalReason::Unreachable | RefusalReason::ServerError | RefusalReason::TooManyRequests
                ) {
                    self.broke(version, &refusal);
                }
                Err(refusal)
            }
        }
    }

    /// Waits for the next event of an open watch, or its end. `None` if the next step has to be another one.
    async fn listen(&mut self, mut standing: OpenWatch<K>) -> Result<Option<Next<K>>, Refusal> {
        let OpenWatch { stream, ends, .. } = &mut standing;
        let came = {
            let Self { member, look, look_at, .. } = self;
            let (is_looking, looked) = (look.is_some(), async {
                match look {
                    Some((answer, _)) => answer.await,
                    None => std::future::pending().await,
                }
            });
            tokio::select! {
                () = member.outdated() => Came::Outdated,
                event = stream.next() => event.map_or(Came::Ended, Came::Event),
                answer = looked => Came::Looked(answer),
                () = tokio::time::sleep_until(*look_at), if !is_looking => Came::LookDue,
                () = tokio::time::sleep_until(*ends) => Came::Ended,
            }
        };
        let event = match came {
            Came::Outdated => return Ok(None),
            Came::Looked(current) => {
                let known = self.look.take().and_then(|(_, known)| known);
                if !self.looked(known.as_ref(), current) {
                    self.state = WatchState::Watching(standing);
                }
                return Ok(None);
            }
            Came::LookDue => {
                let answer = look(self.api.clone(), self.config.list(1, None));
                self.look = Some((Box::pin(answer), self.known.clone()));
                self.state = WatchState::Watching(standing);
                return Ok(None);
            }
            Came::Ended => {
                let life = standing.life();
                self.again(standing.version);
                return Ok(Some(Next::Ended(life)));
            }
            Came::Event(Err(error)) => {
                let refusal = Refusal::of(&error);
                self.broke(standing.version, &refusal);
                return Err(refusal);
            }
            Came::Event(Ok(WatchEvent::Error(status))) => {
                let refusal = Refusal::of_event(&status);
                self.broke(standing.version, &refusal);
                return Err(refusal);
            }
            Came::Event(Ok(WatchEvent::Bookmark(bookmark))) => {
                self.goes_on(standing, bookmark.metadata.resource_version.into());
                return Ok(None);
            }
            Came::Event(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => Event::Apply(object),
            Came::Event(Ok(WatchEvent::Deleted(object))) => Event::Delete(object),
        };
        let (Event::Apply(object) | Event::Delete(object)) = &event else { return Ok(None) };
        let Some(version) = object.meta().resource_version.as_deref().filter(|text| !text.is_empty()) else {
            return Err(no_version());
        };
        self.goes_on(standing, version.into());
        Ok(Some(Next::Event(event)))
    }

    /// The watch has shown that all up to a version is known.
    fn goes_on(&mut self, standing: OpenWatch<K>, version: ResourceVersion) {
        self.config.heard.now();
        self.has_shown(&version);
        let ends = Instant::now() + self.config.time() + MARGIN;
        self.state = WatchState::Watching(OpenWatch { version, ends, has_spoken: true, ..standing });
    }

    /// The watch failed. Where its history is gone, a list is next.
    fn broke(&mut self, version: ResourceVersion, refusal: &Refusal) {
        if refusal.reason != RefusalReason::Expired {
            self.again(version);
        }
    }

    /// The watch is to be opened again: the server may be another one by then.
    fn again(&mut self, version: ResourceVersion) {
        self.look_at = Instant::now();
        self.look = None;
        self.state = WatchState::Listed(version);
    }

    /// A look has ended; returns whether the server went back.
    fn looked(&mut self, known: Option<&ResourceVersion>, current: Option<ResourceVersion>) -> bool {
        self.look_at = self.next_look();
        let Some(current) = current else { return false };
        self.config.heard.now();
        let went_back = self.went_back(known, &current);
        if !went_back {
            self.has_shown(&current);
        }
        went_back
    }

    fn went_back(&self, known: Option<&ResourceVersion>, current: &ResourceVersion) -> bool {
        let Some(known) = known.filter(|known| current.is_older_than(known)) else { return false };
        self.member.went_back(known, current);
        true
    }

    fn has_shown(&mut self, version: &ResourceVersion) {
        if self.known.as_ref().is_none_or(|known| known.is_older_than(version)) {
            self.known = Some(version.clone());
        }
    }

    fn next_look(&self) -> Instant {
        let now = Instant::now();
        #[allow(clippy::cast_possible_truncation, reason = "half of the hash is random enough")]
        let part = f64::from(self.spread.hash_one(now) as u32) / f64::from(u32::MAX);
        now + LOOK.mul_f64(SPREAD.mul_add(part, 1.0))
    }
}

/// The version that the server is at; nothing, where it does not say.
async fn look<K>(api: Api<K>, parameters: ListParams) -> Option<ResourceVersion>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let answer = tokio::time::timeout(PATIENCE, api.list_metadata(&parameters)).await.ok()?;
    // A failure shows by the watch itself.
    let version = answer.ok()?.metadata.resource_version.filter(|version| !version.is_empty())?;
    Some(version.into())
}

fn no_version() -> Refusal {
    let message = "the API server sent an object or a list without a resourceVersion".to_owned();
    Refusal { reason: RefusalReason::ServerError, message, retry_after: None }
}

#[cfg(any(test, feature = "staged"))]
pub mod staged;
#[cfg(test)]
mod tests;
