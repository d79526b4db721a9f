//! One repository of a registry: four requests (is it still the same, the manifest, the layer, a token), and those of a push.
//!
//! Why no client of others: `oci-client` 0.18.0 brings about 25 crates that are not in the lock file, and a second minor of 13
//! that are. What it would save is this file. It resolves and dials by itself, follows redirects by rules of its own, and reads a
//! manifest however long it is; here a name is judged by its addresses, between the resolver and the dial, as for endpoints, and
//! every byte is counted while it is read.
//!
//! Credentials go to the registry that the reference names, and to the token server that this registry names over TLS, which
//! could as well ask for them itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{Method, Uri};
use tokio::time::Instant;

use super::challenge::{self, Wanted};
use super::docker::{self, Account};
use super::error::{OciError, Trouble};
use super::login::{Found, Look};
use super::manifest::{ACCEPT, LARGEST, Layer, Manifest};
use super::place::{form, with_query};
use super::wire::{Access, Action, Answer, Ask, Carried, Ended, Http, LONG, SHORT, Wire};
use crate::config::registry::{Registry, Version};
use crate::plugin::Digest;

/// The largest answer of a token server, in bytes.
const TOKEN: u64 = 64 << 10;
/// A token this near to its end is not used any more: it has to last until the answer.
const LEEWAY: Duration = Duration::from_secs(5);
/// A password is shown without being asked for so long; then the registry is asked again what it wants.
const PASSWORD: Duration = Duration::from_secs(600);

/// The header by which a registry names what it sends.
pub(super) const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// What there is to show.
#[derive(Debug)]
struct Proof {
    carried: Carried,
    /// It is kept already, since the server that gave it says how long it is good. A password is kept once it was accepted.
    is_kept: bool,
}

/// What was accepted, for as long as it is good.
#[derive(Debug, Clone)]
struct Token {
    carried: Carried,
    action: Action,
    until: Instant,
}

/// Why there is nothing to show.
enum NoProof {
    /// The token server does not accept what it was shown.
    Refused(OciError),
    /// What we have, or what the registry wants, is of no use: the sentence.
    Unusable(Trouble, String),
    /// The token server does not answer.
    Failed(OciError),
}

/// What a client goes by: the account and the authorities, or why there are none.
pub(super) struct Means {
    account: Result<Found, String>,
    authorities: Result<Option<(String, Vec<u8>)>, String>,
}

impl Means {
    /// Whether a request that failed with the others may succeed with these.
    pub(super) fn mends(&self, others: &Self) -> bool {
        (self.account.is_ok() && self.account != others.account)
            || (self.authorities.is_ok() && self.authorities != others.authorities)
    }
}

/// One repository of a registry.
pub struct Client {
    registry: Registry,
    name: String,
    pub(super) wire: Wire,
    token: Mutex<Option<Token>>,
    /// What was read of the account is in doubt: the registry knows it and gives it nothing.
    is_doubted: AtomicBool,
}

impl Client {
    /// Nothing is dialled yet.
    #[must_use]
    pub fn new(registry: &Registry, name: &str, access: Access) -> Self {
        Self {
            registry: registry.clone(),
            name: name.to_owned(),
            wire: Wire::new(access),
            token: Mutex::default(),
            is_doubted: AtomicBool::new(false),
        }
    }

    /// The account and the authorities, as the last requests had them.
    pub(super) async fn means(&self) -> Means {
        self.read(Look::Usual).await
    }

    /// The same as they are now, without a request to the registry.
    pub(super) async fn present_means(&self) -> Means {
        self.read(Look::Again).await
    }

    async fn read(&self, look: Look) -> Means {
        let access = &self.wire.access;
        let account = access.login.account(&self.registry, &self.name, look).await;
        Means { account, authorities: access.trusted.pem(look).await }
    }

    /// What the answer to a question means, where it is no success. Some registries answer 403 or 404 to a token that has ended, or
    /// to an account that was changed: the next question is asked with others.
    async fn refused(&self, answer: Answer) -> OciError {
        if matches!(answer.status(), 403 | 404) && !answer.is_elsewhere() {
            self.forget();
            self.is_doubted.store(true, Ordering::Relaxed);
        }
        answer.refused().await
    }

    /// What a tag means now; nothing where the registry does not say it without sending all of it.
    ///
    /// # Errors
    /// Why that is not known.
    pub async fn resolve(&self, tag: &str) -> Result<Option<Digest>, OciError> {
        let ask = Ask::read(Method::HEAD, self.uri(&format!("manifests/{tag}"))?).header(header::ACCEPT, ACCEPT);
        let answer = self.send(&ask).await?;
        match answer.status() {
            200 => Ok(answer.header(&CONTENT_DIGEST).and_then(Digest::parse)),
            // Some do not know the question.
            405 | 501 => Ok(None),
            _ => Err(self.refused(answer).await),
        }
    }

    /// The manifest of a tag or a digest.
    ///
    /// # Errors
    /// Why there is none, or that it is another one.
    pub async fn manifest(&self, version: Version<'_>) -> Result<Manifest, OciError> {
        let ask = Ask::read(Method::GET, self.uri(&format!("manifests/{version}"))?).header(header::ACCEPT, ACCEPT);
        let answer = self.send(&ask).await?;
        if answer.status() != 200 {
            return Err(self.refused(answer).await);
        }
        let said = answer.header(&CONTENT_DIGEST).and_then(Digest::parse);
        let content_type = answer.header(&header::CONTENT_TYPE);
        let content_type = content_type.map(|it| it.split(';').next().unwrap_or(it).trim().to_ascii_lowercase());
        let mismatch = answer.error(Trouble::Mismatch, String::new());
        let bytes = answer.body(LARGEST, SHORT).await.map_err(|ended| match ended {
            Ended::TooLarge(error) => error.of(Trouble::Invalid),
            Ended::Broken(error) => error,
        })?;
        let digest = Digest::of(&bytes);
        let wanted = match version {
            Version::Digest(wanted) => Some((wanted, "is asked for")),
            Version::Tag(_) => said.map(|said| (said, "is what the registry calls it")),
        };
        match wanted.filter(|(wanted, _)| *wanted != digest) {
            None => Ok(Manifest { digest, bytes, content_type }),
            Some((wanted, words)) => {
                Err(mismatch.came(format!("a manifest that hashes to {digest} came, and {wanted} {words}")))
            }
        }
    }

    /// The layer with the component: as many bytes as the manifest says, with the digest that it says.
    ///
    /// # Errors
    /// Why it is not there, or what came instead.
    pub async fn layer(&self, layer: &Layer) -> Result<Vec<u8>, OciError> {
        let Layer { digest, size } = *layer;
        let answer = self.send(&Ask::read(Method::GET, self.uri(&format!("blobs/{digest}"))?)).await?;
        if answer.status() != 200 {
            return Err(self.refused(answer).await);
        }
        let mismatch = answer.error(Trouble::Mismatch, String::new()).costly();
        let is_packed = answer.header(&header::CONTENT_ENCODING).is_some();
        let announced = answer.header(&header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if let Some(other) = announced.filter(|announced| !is_packed && *announced != size) {
            return Err(mismatch.came(format!("{other} bytes are announced, and the manifest says {size}")));
        }
        let bytes = answer.body(size, LONG).await.map_err(|ended| match ended {
            Ended::TooLarge(_) => {
                mismatch.clone().came(format!("more bytes came than the {size} that the manifest says"))
            }
            Ended::Broken(error) => error.costly(),
        })?;
        if bytes.len() as u64 != size {
            return Err(mismatch.came(format!("fewer bytes came than the {size} that the manifest says")));
        }
        let hashed = tokio::task::spawn_blocking(move || (Digest::of(&bytes), bytes)).await;
        let (found, bytes) = hashed.map_err(|_| mismatch.clone().came("the bytes could not be hashed"))?;
        match found == digest {
            true => Ok(bytes),
            false => Err(mismatch.came(format!("bytes that hash to {found} came, and the manifest says {digest}"))),
        }
    }

    /// A URL below the repository.
    pub(super) fn uri(&self, path: &str) -> Result<Uri, OciError> {
        let scheme = self.wire.access.scheme.word();
        let text = format!("{scheme}://{}/v2/{}/{path}", self.registry.authority(), self.name);
        text.parse().map_err(|_| OciError::new(Trouble::Invalid, "the reference is no URL"))
    }

    /// Sends a request, and proves who asks where that is wanted. The answer may still be a refusal.
    pub(super) async fn send(&self, ask: &Ask) -> Result<Answer, OciError> {
        let http = self.wire.http().await?;
        let mut carried = self.known(ask.action);
        let mut answer = self.wire.exchange(&http, ask, carried.as_ref()).await?;
        let (mut failed, mut shown): (Option<OciError>, Option<Found>) = (None, None);
        let first = if self.is_doubted.swap(false, Ordering::Relaxed) { Look::Again } else { Look::Usual };
        // The second time with what the Secret has by then.
        for look in [first, Look::Again] {
            if !answer.asks_who() {
                return Ok(answer);
            }
            self.forget();
            let found = match self.wire.access.login.account(&self.registry, &self.name, look).await {
                Ok(found) => found,
                Err(why) => {
                    let error = answer.error(Trouble::Credentials, why).with(None);
                    if !self.wire.access.login.is_remembered() {
                        return Err(error);
                    }
                    failed = Some(error);
                    continue;
                }
            };
            if failed.is_some() && shown.as_ref() == Some(&found) {
                // What was refused a moment ago is refused again, and some servers count.
                break;
            }
            answer.with(&found.with);
            let wanted = challenge::wanted(answer.headers());
            let proof = self.prove(&http, ask, wanted, &found).await;
            shown = Some(found);
            failed = match proof {
                Ok(None) => None,
                Ok(Some(Proof { carried: fresh, .. })) if carried.as_ref() == Some(&fresh) => None,
                Ok(Some(Proof { carried: fresh, is_kept })) => {
                    answer = self.wire.exchange(&http, ask, Some(&fresh)).await?;
                    if !is_kept && !answer.asks_who() {
                        // The same for every action: the registry knows whose it is.
                        self.keep(&fresh, Action::Push, PASSWORD);
                    }
                    carried = Some(fresh);
                    None
                }
                Err(NoProof::Refused(error)) => Some(error),
                Err(NoProof::Unusable(trouble, why)) => Some(answer.error(trouble, why)),
                Err(NoProof::Failed(error)) => return Err(error),
            };
        }
        failed.map_or(Ok(answer), Err)
    }

    /// What was accepted for that and is still good.
    fn known(&self, action: Action) -> Option<Carried> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good =
            |token: &&Token| token.until > Instant::now() && (token.action == action || action == Action::Pull);
        token.as_ref().filter(is_good).map(|token| token.carried.clone())
    }

    fn keep(&self, carried: &Carried, action: Action, lasts: Duration) {
        let token = Token { carried: carried.clone(), action, until: Instant::now() + lasts.saturating_sub(LEEWAY) };
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = Some(token);
    }

    fn forget(&self) {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// What the registry wants to be shown; nothing where we have nothing of the kind.
    async fn prove(&self, http: &Http, ask: &Ask, wanted: Wanted, found: &Found) -> Result<Option<Proof>, NoProof> {
        let wrong = |why: String| NoProof::Unusable(Trouble::Credentials, why);
        let header = match (&found.account, wanted) {
            (Account::Token(token), Wanted::Token { .. }) => docker::bearer(token).map_err(wrong)?,
            (account, Wanted::Password) => account.basic().map_err(wrong)?,
            (account, Wanted::Token { realm, service, scope }) => {
                // A push needs more than its first request, about which the registry speaks.
                let scope = scope.filter(|_| ask.action == Action::Pull);
                let scope = scope.unwrap_or_else(|| format!("repository:{}:{}", self.name, ask.action.word()));
                let request = self.token_request(&realm, service.as_deref(), &scope, account);
                let request = request.map_err(|why| NoProof::Unusable(Trouble::NotAllowed, why))?;
                return match self.new_token(http, &request, found, ask.action).await {
                    Ok(carried) => Ok(Some(Proof { carried, is_kept: true })),
                    Err(error) if error.trouble == Trouble::Refused => Err(NoProof::Refused(error)),
                    Err(error) => Err(NoProof::Failed(error)),
                };
            }
            (_, Wanted::Other(names)) if names.is_empty() => None,
            (_, Wanted::Other(names)) => {
                let why = format!("the registry wants {names}, which this program does not know");
                return Err(NoProof::Unusable(Trouble::Refused, why));
            }
        };
        let carried = header.map(|header| Carried { header, with: found.with.clone() });
        Ok(carried.map(|carried| Proof { carried, is_kept: false }))
    }

    /// A new token.
    async fn new_token(&self, http: &Http, request: &Ask, found: &Found, action: Action) -> Result<Carried, OciError> {
        let reply = self.wire.once(http, request, &found.with).await?;
        if reply.status() != 200 {
            // It says nothing about an artifact, and its redirects are not followed.
            let trouble = match reply.status() {
                300..=399 => Trouble::NotAllowed,
                400 | 401 | 403 => Trouble::Refused,
                _ => Trouble::Away,
            };
            return Err(reply.refused().await.of(trouble));
        }
        let unreadable = reply.error(Trouble::Away, "the answer of the token server has no token");
        let body = reply.body(TOKEN, SHORT).await?;
        let given = challenge::given(&body).ok_or_else(|| unreadable.clone())?;
        let header = docker::bearer(&given.token).ok().flatten().ok_or(unreadable)?;
        let carried = Carried { header, with: found.with.clone() };
        self.keep(&carried, action, given.lasts);
        Ok(carried)
    }

    /// What a token server is asked: with a password or none in the query, with a token of its own in the body, which no log
    /// has.
    fn token_request(&self, realm: &str, service: Option<&str>, scope: &str, account: &Account) -> Result<Ask, String> {
        let wrong = |what: &str| {
            let shown = topoloom_core::text::line(realm.split(['?', '#']).next().unwrap_or_default(), 200);
            format!("the registry names the token server {shown:?}, {what}")
        };
        let base: Uri = realm.parse().map_err(|_| wrong("which is no URL"))?;
        let is_plain = base.authority().is_some_and(|authority| !authority.as_str().contains('@'));
        if !self.wire.access.scheme.allows(&base) || !is_plain {
            return Err(wrong("and credentials go over https alone, to a host without a user"));
        }
        let mut fields = vec![("scope", scope)];
        fields.extend(service.map(|service| ("service", service)));
        let mut ask = match account {
            Account::Identity(token) => {
                let token =
                    std::str::from_utf8(token.reveal()).map_err(|_| "the identity token is no text".to_owned())?;
                fields.extend([("grant_type", "refresh_token"), ("client_id", "topoloom"), ("refresh_token", token)]);
                let ask = Ask::write(Method::POST, base, Bytes::from(form(&fields)));
                ask.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            }
            Account::Anonymous | Account::Password { .. } | Account::Token(_) => {
                let whole = with_query(&base, &form(&fields)).ok_or_else(|| wrong("which is no URL"))?;
                Ask::read(Method::GET, whole)
            }
        };
        if let Some(basic) = account.basic()? {
            ask.headers.insert(header::AUTHORIZATION, basic);
        }
        Ok(ask)
    }
}

#[cfg(test)]
mod tests;
