//! Who may ask, and with what they came.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use std::fmt;

/// What a server accepts. Printing it shows numbers, never secrets.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Credentials {
    users: Vec<User>,
    tokens: Vec<String>,
    certificates: Vec<String>,
    #[serde(skip)]
    anyone: bool,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct User {
    user: String,
    password: String,
}

/// What a request came with. Printing it shows the kind, never the secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Presented {
    /// No credential.
    Nothing,
    /// A user and a password.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: String,
    },
    /// A token in UFM's way: the word Basic, then the raw token.
    Token(String),
    /// A bearer token.
    Bearer(String),
    /// A client certificate of our authority, by the name it was issued for.
    Certificate(String),
    /// An `Authorization` that is none of these.
    Other(String),
}

impl Presented {
    /// Reads the pair of a Basic credential.
    pub(crate) fn basic(secret: &str) -> Option<Self> {
        let pair = String::from_utf8(BASE64_STANDARD.decode(secret.trim()).ok()?).ok()?;
        let (user, password) = pair.split_once(':')?;
        Some(Self::Basic { user: user.to_owned(), password: password.to_owned() })
    }
}

impl Credentials {
    /// No credential is accepted.
    pub fn none() -> Self {
        Self::default()
    }

    /// Everybody, with or without a credential.
    pub fn anyone() -> Self {
        Self { anyone: true, ..Self::default() }
    }

    /// Also this user.
    pub fn user(mut self, user: &str, password: &str) -> Self {
        self.users.push(User { user: user.to_owned(), password: password.to_owned() });
        self
    }

    /// Also this token.
    pub fn token(mut self, token: &str) -> Self {
        self.tokens.push(token.to_owned());
        self
    }

    /// Also the client certificate issued for this name.
    pub fn certificate(mut self, name: &str) -> Self {
        self.certificates.push(name.to_owned());
        self
    }

    pub(crate) fn admits(&self, presented: &Presented) -> bool {
        self.anyone
            || match presented {
                Presented::Nothing | Presented::Other(_) => false,
                Presented::Basic { user, password } => {
                    self.users.iter().any(|known| known.user == *user && known.password == *password)
                }
                Presented::Token(token) | Presented::Bearer(token) => self.tokens.contains(token),
                Presented::Certificate(name) => self.certificates.contains(name),
            }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("users", &self.users.len())
            .field("tokens", &self.tokens.len())
            .field("certificates", &self.certificates)
            .field("anyone", &self.anyone)
            .finish()
    }
}

impl fmt::Debug for Presented {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("Nothing"),
            Self::Basic { user, .. } => write!(f, "Basic({user:?}, ..)"),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::Bearer(_) => f.write_str("Bearer(..)"),
            Self::Certificate(name) => write!(f, "Certificate({name:?})"),
            Self::Other(_) => f.write_str("Other(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_shows_no_secret() {
        let known = Credentials::none().user("root", "canary-1").token("canary-2");
        let (user, password) = ("root".to_owned(), "canary-1".to_owned());
        let came = [
            Presented::Basic { user, password },
            Presented::Token("canary-2".into()),
            Presented::Other("canary".into()),
        ];
        assert!(came[..2].iter().all(|came| known.admits(came)) && !known.admits(&came[2]));
        let printed = format!("{known:?} {came:?}");
        assert!(!printed.contains("canary"), "{printed}");
    }
}
