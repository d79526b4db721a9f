//! The token server of a registry: it signs what the real registry checks, and misbehaves on demand.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use serde_json::{Value, json};
use topoloom_simulator::Authority;

use super::https::{Asked, Https, Reply};
use super::{PASSWORD, USER};

/// The name of the registry at the token server.
pub const SERVICE: &str = "registry-of-tests";
/// Who signs.
pub const ISSUER: &str = "tests";
/// The name of the key.
const KEY: &str = "one";
/// What distribution allows the clocks of others to differ, and more.
const LONG_AGO: i64 = 600;

/// What it does.
#[derive(Debug, Clone, Default)]
struct Mood {
    /// Whether anyone may read.
    anonymous: bool,
    /// Tokens that are over when they are given, although they say something else.
    ended: usize,
    /// How long tokens say that they last, in seconds.
    lasts: Option<u64>,
    /// In place of any token.
    instead: Option<Reply>,
    /// The password that counts.
    password: String,
    issued: usize,
}

/// A token server over TLS.
pub struct TokenServer {
    server: Https,
    keys: String,
    mood: Arc<Mutex<Mood>>,
}

impl std::fmt::Debug for TokenServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenServer")
    }
}

impl TokenServer {
    /// Starts one that knows the user of tests.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(authority: &Authority) -> Result<Self> {
        let key = KeyPair::generate_for(&PKCS_ED25519).context("no key for tokens")?;
        let public = URL_SAFE_NO_PAD.encode(key.public_key_raw());
        let keys =
            json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": public, "kid": KEY, "use": "sig", "alg": "EdDSA"}]});
        let mood = Arc::new(Mutex::new(Mood { password: PASSWORD.to_owned(), ..Mood::default() }));
        let shared = Arc::clone(&mood);
        let answer = move |asked: &Asked| {
            let mut mood = shared.lock().unwrap_or_else(PoisonError::into_inner);
            mood.answer(asked, &key)
        };
        Ok(Self { server: Https::start(authority, answer).await?, keys: keys.to_string(), mood })
    }

    fn mood(&self, change: impl FnOnce(&mut Mood)) {
        change(&mut self.mood.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Its URL.
    #[must_use]
    pub fn realm(&self) -> String {
        format!("https://{}/token", self.server.host())
    }

    /// The keys that sign, as a JSON web key set.
    #[must_use]
    pub fn keys(&self) -> &str {
        &self.keys
    }

    /// Tokens that it has given.
    #[must_use]
    pub fn issued(&self) -> usize {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner).issued
    }

    /// What it was asked so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.server.asked()
    }

    /// Anyone may read from now on.
    pub fn let_anyone_read(&self) {
        self.mood(|mood| mood.anonymous = true);
    }

    /// The next tokens are over when they are given.
    pub fn end_next(&self, tokens: usize) {
        self.mood(|mood| mood.ended = tokens);
    }

    /// Tokens say that they last so many seconds.
    pub fn lasts(&self, seconds: u64) {
        self.mood(|mood| mood.lasts = Some(seconds));
    }

    /// Answers this in place of tokens.
    pub fn instead(&self, reply: Option<Reply>) {
        self.mood(|mood| mood.instead = reply);
    }

    /// Only this password counts from now on.
    pub fn password(&self, password: &str) {
        self.mood(|mood| password.clone_into(&mut mood.password));
    }
}

impl Mood {
    fn answer(&mut self, asked: &Asked, key: &KeyPair) -> Reply {
        if let Some(reply) = &self.instead {
            return reply.clone();
        }
        let wanted = format!("Basic {}", STANDARD.encode(format!("{USER}:{}", self.password)));
        let is_user = asked.authorization() == Some(wanted.as_str())
            || asked.field("refresh_token").as_deref() == Some(self.password.as_str());
        if !is_user && (asked.authorization().is_some() || !self.anonymous) {
            return Reply::new(401, r#"{"errors": [{"code": "UNAUTHORIZED"}]}"#);
        }
        let scope = asked.field("scope").unwrap_or_default();
        let access: Vec<Value> = scope.split(' ').filter_map(|scope| access(scope, is_user)).collect();
        let ended = self.ended > 0;
        self.ended = self.ended.saturating_sub(1);
        self.issued += 1;
        let now = jiff::Timestamp::now().as_second();
        let claims = json!({
            "iss": ISSUER, "aud": SERVICE, "sub": if is_user { USER } else { "" },
            "iat": now - LONG_AGO, "nbf": now - LONG_AGO,
            "exp": if ended { now - LONG_AGO / 2 } else { now + LONG_AGO },
            "jti": self.issued.to_string(), "access": access,
        });
        let head = json!({"typ": "JWT", "alg": "EdDSA", "kid": KEY});
        let signed = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let Ok(signature) = key.sign(signed.as_bytes()) else { return Reply::new(500, "") };
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
        Reply::new(200, json!({"token": token, "expires_in": self.lasts.unwrap_or(300)}).to_string())
    }
}

/// What a scope grants: everything to the user, and reading to others.
fn access(scope: &str, is_user: bool) -> Option<Value> {
    let (rest, actions) = scope.rsplit_once(':')?;
    let (kind, name) = rest.split_once(':')?;
    let actions: Vec<&str> = actions.split(',').filter(|action| is_user || *action == "pull").collect();
    Some(json!({"type": kind, "name": name, "actions": actions}))
}
