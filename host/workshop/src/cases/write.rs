//! A case of a round that was run with a real service, to be played without it.
//!
//! What is written is played first: a case that answers otherwise than the service did would be wrong from its first day.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;
use topoloom_core::plugin::CredentialKind;
use topoloom_sandbox::endpoints::recording::Recording;

use super::anonymise::Names;
use super::{CONFIG, Case, EXISTING, EXPECTED, Fault, NODES, RECORDING, STATE, TIME, Turn, play};
use crate::existing;
use crate::nodes::Nodes;
use crate::rounds::Desk;

/// Ends of keys under which people write credentials.
const CREDENTIALS: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "token",
    "secret",
    "apikey",
    "privatekey",
    "secretkey",
    "accesskey",
    "credential",
    "authorization",
    "cookie",
];

/// Ends of keys that say where a credential is, and have none below them.
const PLACES: [&str; 5] = ["ref", "from", "secretname", "file", "path"];

/// What follows `Bearer` and `Basic` in a sentence about them.
const SPOKEN: [&str; 6] = ["auth", "authentication", "token", "tokens", "credential", "credentials"];

/// A case before it is written.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The nodes, with nothing but what the plugin reads.
    pub nodes: Nodes,
    /// The configuration.
    pub config: Value,
    /// HyperNodes that exist, as YAML.
    pub existing: Option<String>,
    /// What services answered.
    pub recording: Option<Recording>,
    /// The state that the round was given.
    pub state: Vec<u8>,
    /// When the round started.
    pub time: Timestamp,
    /// What it answered.
    pub shown: String,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The files.
    pub files: Vec<PathBuf>,
    /// What a person should know about them.
    pub remarks: Vec<String>,
}

/// Why there is no case.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is something already.
    #[error("{}: it exists already; name another case, or remove this one", .0.display())]
    Exists(PathBuf),
    /// The configuration has a credential.
    #[error(
        "the case is not written: {} of the configuration looks like a credential, and others will read the case; a \
         credential belongs into a Secret, which the host adds to requests (docs/vendors/http.md)",
        .0.join(", ")
    )]
    Credential(Vec<String>),
    /// Names may be in bodies that are no text.
    #[error(
        "the case is not written: names of nodes cannot be replaced in what {} answered, which is no text",
        .0.join(", ")
    )]
    NoText(Vec<String>),
    /// The name of a node is a part of a word that is not split.
    #[error(
        "the case is not written: its {file} would still have the name of the Node {name}, within a longer word; record the \
         case without --anonymise, and replace the names in its files before you send it"
    )]
    Named {
        /// The file.
        file: &'static str,
        /// The name.
        name: String,
    },
    /// The HyperNodes cannot be read back.
    #[error("the case is not written: the HyperNodes cannot be read back: {0}")]
    Existing(existing::Error),
    /// It answers otherwise than the round did.
    #[error("the case is not written, since it would not answer what this round did:\n{0}")]
    Other(String),
    /// A file cannot be written.
    #[error("{}", .file.display())]
    Write {
        /// Which.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Draft {
    /// The same with other names for the nodes.
    ///
    /// # Errors
    /// When an answer is no text: then no one can see whether names are in it. When a name is left.
    pub fn anonymised(&self) -> Result<Self, WriteError> {
        let names = Names::of(&self.nodes);
        let other = Self {
            nodes: names.nodes(&self.nodes),
            config: names.config(&self.config),
            existing: self.existing.as_ref().map(|text| names.text(text)),
            recording: self
                .recording
                .clone()
                .map(|tape| names.recording(tape))
                .transpose()
                .map_err(WriteError::NoText)?,
            // It belongs to the plugin, so it may have names in a form that only the plugin reads.
            state: Vec::new(),
            time: self.time,
            shown: names.text(&self.shown),
        };
        for (file, bytes) in other.files(&other.shown, None) {
            if let Some(name) = names.left_in(&String::from_utf8_lossy(&bytes)) {
                return Err(WriteError::Named { file, name: name.to_owned() });
            }
        }
        Ok(other)
    }

    /// Plays the case, and writes it into this folder if it answers as the round did.
    ///
    /// # Errors
    /// When there is such a case already, when it would have a credential in it, when it answers otherwise, or when it cannot be
    /// written.
    pub async fn write(&self, desk: &Desk, folder: &Path) -> Result<Written, WriteError> {
        let is_there = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
        if is_there || folder.is_file() {
            return Err(WriteError::Exists(folder.to_owned()));
        }
        let credentials = credentials(&self.config, "config");
        if !credentials.is_empty() {
            return Err(WriteError::Credential(credentials));
        }
        let mut remarks = Vec::new();
        let (shown, time) = match self.played(desk, folder, None).await {
            Ok(same) if same.0 == self.shown => same,
            // Perhaps only because it was another time: that may be in the answer, or in what the plugin asks a service.
            first => match self.played(desk, folder, Some(self.time)).await {
                Ok(dated) if dated.0 == self.shown => {
                    remarks.push(format!("the answer depends on the time of the round; the file `{TIME}` says so"));
                    dated
                }
                _ => first?,
            },
        };
        if let Some(difference) = super::difference::Difference::of(&self.shown, &shown) {
            return Err(WriteError::Other(difference.to_string()));
        }
        let files = self.files(&shown, time);
        let mut written = Vec::new();
        for (name, bytes) in files {
            let file = folder.join(name);
            put(folder, &file, &bytes).map_err(|source| WriteError::Write { file: file.clone(), source })?;
            written.push(file);
        }
        Ok(Written { files: written, remarks })
    }

    /// What the case answers at this time.
    async fn played(
        &self,
        desk: &Desk,
        folder: &Path,
        time: Option<Timestamp>,
    ) -> Result<(String, Option<Timestamp>), WriteError> {
        let existing = self.existing.as_deref().map(existing::parse).transpose();
        let turn = Turn {
            folder: folder.to_owned(),
            nodes: self.nodes.clone(),
            config: self.config.to_string(),
            existing: Some(existing.map_err(WriteError::Existing)?.unwrap_or_default()),
            recording: None,
            expected: None,
        };
        let case = Case {
            name: String::new(),
            folder: folder.to_owned(),
            state: self.state.clone(),
            time,
            recording: self.recording.clone(),
            turns: vec![turn],
        };
        let mut played = play(desk, &case).await;
        let wrong = played.faults().find(|fault| !matches!(fault, Fault::NothingExpected(_))).map(ToString::to_string);
        let shown = played.turns.pop().and_then(|turn| turn.shown);
        match (wrong, shown) {
            (None, Some(shown)) => Ok((shown, time)),
            (wrong, _) => Err(WriteError::Other(wrong.unwrap_or_default())),
        }
    }

    fn files(&self, shown: &str, time: Option<Timestamp>) -> Vec<(&'static str, Vec<u8>)> {
        let mut files = vec![(NODES, self.nodes.print().into_bytes())];
        // JSON is YAML, too: what cannot be written in the nicer form is in this one.
        let config = serde_saphyr::to_string(&self.config).unwrap_or_else(|_| format!("{}\n", self.config));
        files.push((CONFIG, config.into_bytes()));
        files.extend(self.existing.as_ref().map(|text| (EXISTING, text.clone().into_bytes())));
        // Also where nothing was asked: without one, a plugin that may ask has no answer.
        let recording = self.recording.as_ref().and_then(|recording| recording.print().ok());
        files.extend(recording.map(|text| (RECORDING, (text + "\n").into_bytes())));
        files.extend((!self.state.is_empty()).then(|| (STATE, self.state.clone())));
        files.extend(time.map(|time| (TIME, format!("{time}\n").into_bytes())));
        files.push((EXPECTED, shown.as_bytes().to_vec()));
        files
    }
}

/// Writes a file that only its owner can read: it holds what was seen of a fabric. Who publishes it decides so.
fn put(folder: &Path, file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(bytes)
}

/// What stands above a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Above {
    /// No key of a credential.
    Nothing,
    /// A key of a credential that is a text, since such a key with a number counts something: `tokens: 7`.
    Text,
    /// A key of a credential that may be written in digits alone.
    Any,
}

/// The paths of values that look like credentials.
fn credentials(value: &Value, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    find_credentials(value, path.to_owned(), Above::Nothing, &mut found);
    found
}

fn find_credentials(value: &Value, path: String, above: Above, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                find_credentials(value, format!("{path}.{key}"), below(key, above), found);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                find_credentials(item, format!("{path}[{at}]"), above, found);
            }
        }
        Value::String(text) => {
            // `credentials: [bearer]` says of which kind one is.
            let is_one = above != Above::Nothing && !text.is_empty() && CredentialKind::parse(text).is_none();
            let has_form = has_user(text) || is_authorization(text) || text.contains("PRIVATE KEY-----");
            found.extend((is_one || has_form).then_some(path));
        }
        Value::Number(_) => found.extend((above == Above::Any).then_some(path)),
        Value::Null | Value::Bool(_) => {}
    }
}

/// What stands above the value of this key.
fn below(key: &str, above: Above) -> Above {
    let word: String = key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let singular = word.strip_suffix('s').unwrap_or(&word);
    let ends = |end: &str| word.ends_with(end) || singular.ends_with(end);
    // A compass and a bypass are no passwords.
    let is_pass = word == "pass" || key.ends_with("Pass") || key.ends_with("_pass") || key.ends_with("-pass");
    let is_place = PLACES.iter().any(|end| word.ends_with(end)) || word == "name" || word == "namespace";
    match CREDENTIALS.iter().find(|&&end| ends(end)) {
        _ if is_place => Above::Nothing,
        Some(&"token") => Above::Text,
        Some(_) => Above::Any,
        None if is_pass => Above::Any,
        None => above,
    }
}

/// Whether a text has a URL with a user: the password is behind the name.
fn has_user(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let end =
            rest.find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'')).unwrap_or(rest.len());
        rest.get(..end).is_some_and(|authority| authority.find('@').is_some_and(|at| at > 0))
    })
}

/// Whether a text is the value of the header `Authorization`, be it behind the name of the header.
fn is_authorization(text: &str) -> bool {
    let value = text.rsplit(": ").next().unwrap_or(text);
    let mut words = value.split_whitespace();
    let (Some(scheme), Some(word), None) = (words.next(), words.next(), words.next()) else { return false };
    let is_scheme = ["bearer", "basic"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    is_scheme && !SPOKEN.iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use topoloom_sandbox::endpoints::recording::Recorder;

    use super::*;

    #[test]
    fn what_looks_like_a_credential_is_found_and_what_names_one_is_not() {
        let config = json!({
            "password": "x", "apiKey": "y", "auth": [{"api-token": "z"}], "empty": {"token": ""},
            "secretName": "s", "credentials": {"secretRef": {"name": "n"}}, "tokens": 7, "label": "token",
        });
        let found = credentials(&config, "config");
        assert_eq!(found, ["config.apiKey", "config.auth[0].api-token", "config.password"]);
    }

    #[test]
    fn a_credential_is_found_below_its_key_and_under_every_usual_key() {
        let config = json!({
            "tokens": ["abc", ""], "password": {"value": "s3cret"}, "pin": {"secret": [{"a": [1]}]},
            "passwordFile": "/run/pass", "credentials": ["bearer", "mtls"], "clientSecret": {"name": "n"},
            "rootPassword": {"valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}},
        });
        assert_eq!(credentials(&config, "c"), ["c.password.value", "c.pin.secret[0].a[0]", "c.tokens[0]"]);
        for key in
            ["pass", "dbPass", "db_pass", "pwd", "secretKey", "accessKey", "secretAccessKey", "cookie", "Cookies"]
        {
            assert_eq!(credentials(&json!({key: "x"}), "c"), [format!("c.{key}")], "{key}");
        }
        for key in ["compass", "bypass", "cookieless", "secretary"] {
            assert_eq!(credentials(&json!({key: "x"}), "c"), [""; 0], "{key}");
        }
        // A password may be a number, and what counts tokens is one.
        assert_eq!(credentials(&json!({"password": 1234, "maxTokens": 7, "secret": true}), "c"), ["c.password"]);
    }

    #[test]
    fn a_credential_is_found_by_its_form() {
        for text in [
            "https://admin:s3cret@manager.example.com/v1",
            "see http://token@h?x=1",
            "Bearer abc.def",
            "basic dXNlcjpwYXNz",
            "Authorization: Bearer abc",
            "-----BEGIN EC PRIVATE KEY-----\nMHc=",
        ] {
            assert_eq!(credentials(&json!({"url": [text]}), "c"), ["c.url[0]"], "{text}");
        }
        for text in [
            "https://manager.example.com/users/a@b",
            "https://manager.example.com?mail=a@b",
            "a@b",
            "Bearer",
            "Basic auth",
            "bearer token",
            "a basic topology",
        ] {
            assert_eq!(credentials(&json!({"url": text}), "c"), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_draft_has_the_files_that_a_case_reads() {
        let nodes = Nodes::parse("items: [{metadata: {name: m1, labels: {rack: \"7\"}}}]".as_bytes()).unwrap();
        let draft = Draft {
            nodes: nodes.clone(),
            config: json!({"label": "rack", "depth": 2, "odd": ["yes", "7", null]}),
            existing: Some("kind: HyperNode\nmetadata: {name: m1-old}\nspec: {tier: 1}\n".into()),
            recording: Some(Recorder::default().recording()),
            state: b"\xff".to_vec(),
            time: Timestamp::UNIX_EPOCH,
            shown: "unchanged\n".into(),
        };
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in draft.files(&draft.shown, Some(draft.time)) {
            put(folder.path(), &folder.path().join(name), &bytes).unwrap();
        }
        let case = Case::read(folder.path()).unwrap();
        assert_eq!((case.state.as_slice(), case.time), (&b"\xff"[..], Some(Timestamp::UNIX_EPOCH)));
        assert!(case.recording.as_ref().is_some_and(Recording::is_empty));
        let [turn] = &case.turns[..] else { panic!("{case:?}") };
        assert_eq!((&turn.nodes, &turn.config), (&nodes, &draft.config.to_string()));
        assert_eq!(turn.expected.as_deref(), Some("unchanged\n"));
        let other = draft.anonymised().unwrap();
        assert_eq!((&*other.nodes.list[0].name, other.state.len()), ("node-0001", 0));
        let nodes = Nodes::parse("items: [{metadata: {name: gpu-01}}]".as_bytes()).unwrap();
        let refused = Draft { nodes, config: json!({"x": "xgpu-01"}), ..draft }.anonymised().unwrap_err().to_string();
        assert!(refused.contains("its config.yaml would still have the name of the Node gpu-01"), "{refused}");
    }
}
