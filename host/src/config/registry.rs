//! Where a plugin is in a registry: `oci://REGISTRY/NAME:TAG`, or `oci://REGISTRY/NAME@sha256:…`, and what an entry says about
//! how the registry is reached.
//!
//! A reference is whole or it is refused: there is no registry by default and no tag by default, since what a person leaves
//! out would be decided somewhere else. No part of a reference ever appears in a problem: people put passwords into URLs.

use std::fmt;
use std::str::FromStr;

use http::uri::Authority;
use topoloom_core::plugin::Digest;

use super::endpoint::{address_rule, namespace, object_name, read_ca};
use super::read::{Fields, ReadReport};
use crate::endpoints::spec::{AddressRule, CaBundle, SecretRef};

/// How a reference begins.
pub const SCHEME: &str = "oci://";
/// The longest name of a repository, by the distribution specification.
const LONGEST_NAME: usize = 255;
/// The longest tag, likewise.
const LONGEST_TAG: usize = 128;
/// What people and their programs call Docker's registry, and where that answers.
const DOCKER: &str = "docker.io";
const DOCKER_SERVES: &str = "registry-1.docker.io";
const DOCKER_NAMES: [&str; 3] = [DOCKER, DOCKER_SERVES, "index.docker.io"];

/// What a reference looks like, for messages.
const WANTED: &str = "must be oci://REGISTRY/NAME:TAG or oci://REGISTRY/NAME@sha256:DIGEST";

/// A registry: a host, and perhaps a port. Names of hosts are lower case, so that equal ones are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Registry(String);

impl Registry {
    /// Reads `HOST` or `HOST:PORT`. The error says what is wrong without repeating the text.
    ///
    /// # Errors
    /// When the text is no such place.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains('@') {
            return Err("a registry has no user and no password; name a Secret under `pullSecret`");
        }
        let authority: Authority = text.parse().map_err(|_| "a registry is a host, perhaps with a port")?;
        let host = authority.host();
        if host.is_empty() || host.contains('%') {
            return Err("a registry is a host, perhaps with a port");
        }
        let after = authority.as_str().strip_prefix(host).unwrap_or_default();
        let port = authority.port_u16().filter(|port| *port > 0);
        if !after.is_empty() && port.is_none_or(|port| after != format!(":{port}")) {
            return Err("the port of a registry must be between 1 and 65535");
        }
        Ok(Self(authority.as_str().to_ascii_lowercase()))
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where it answers: that of Docker has a name that no server has.
    #[must_use]
    pub fn authority(&self) -> &str {
        if self.0 == DOCKER { DOCKER_SERVES } else { &self.0 }
    }

    /// The host without its port, and without the brackets of an address.
    #[must_use]
    pub fn host(&self) -> &str {
        let host = match self.0.rfind(']') {
            Some(end) => self.0.get(..end),
            None => self.0.split(':').next(),
        };
        host.unwrap_or_default().trim_start_matches('[')
    }

    /// Whether another name means the same registry.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self == other || (self.is_docker() && other.is_docker())
    }

    /// Whether it is that of Docker, by any of its names.
    #[must_use]
    pub fn is_docker(&self) -> bool {
        DOCKER_NAMES.contains(&self.as_str())
    }
}

impl FromStr for Registry {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One artifact of a registry: by a tag, which may mean another one tomorrow, or by a digest, which never does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    registry: Registry,
    name: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

/// Which artifact of a repository is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version<'a> {
    /// What the tag means now.
    Tag(&'a str),
    /// This one: the digest of its manifest.
    Digest(Digest),
}

impl fmt::Display for Version<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => digest.fmt(f),
        }
    }
}

impl Reference {
    /// Reads a reference.
    ///
    /// # Errors
    /// What is missing or wrong, without repeating the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| format!("{WANTED}, and begin with {SCHEME}"))?;
        if rest.contains(['?', '#', '\\']) || rest.chars().any(|c| !c.is_ascii_graphic()) {
            return Err(format!("{WANTED}, without a query, a fragment or blanks"));
        }
        let (registry, rest) = rest.split_once('/').ok_or_else(|| WANTED.to_owned())?;
        let registry = Registry::parse(registry).map_err(|what| format!("{WANTED}: {what}"))?;
        let (rest, digest) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, digest)) => {
                let digest = Digest::parse(digest).ok_or_else(|| format!("{WANTED}, with 64 hexadecimal digits"))?;
                (rest, Some(digest))
            }
        };
        let (name, tag) = rest.split_once(':').map_or((rest, None), |(name, tag)| (name, Some(tag)));
        if !is_name(name) {
            return Err(format!(
                "{WANTED}: NAME has lower-case letters and digits, with `.`, `_`, `__` or `-` within and `/` between"
            ));
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(format!("{WANTED}: TAG has letters, digits, `_`, `.` and `-`, at most {LONGEST_TAG}"));
        }
        if tag.is_none() && digest.is_none() {
            return Err(format!("{WANTED}: say which version; there is no tag by default"));
        }
        Ok(Self { registry, name: name.to_owned(), tag: tag.map(str::to_owned), digest })
    }

    /// The registry.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The repository in it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tag, where one is written, also beside a digest.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of the manifest, where one is written.
    #[must_use]
    pub const fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// Which artifact is meant: a digest counts, and a tag beside it is a remark.
    #[must_use]
    pub fn version(&self) -> Version<'_> {
        match self.digest {
            Some(digest) => Version::Digest(digest),
            None => Version::Tag(self.tag.as_deref().unwrap_or_default()),
        }
    }

    /// The same artifact for good.
    #[must_use]
    pub fn at(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.registry, self.name)?;
        self.tag.iter().try_for_each(|tag| write!(f, ":{tag}"))?;
        self.digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
    }
}

/// Whether it is the name of a repository, by the distribution specification.
fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME && text.split('/').all(is_component)
}

/// Words of lower-case letters and digits, with one separator between any two of them.
fn is_component(text: &str) -> bool {
    let is_letter = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut rest = text.as_bytes();
    loop {
        let word = rest.iter().take_while(|byte| is_letter(byte)).count();
        let (_, after) = rest.split_at(word);
        if word == 0 || after.is_empty() {
            return word > 0;
        }
        let (between, next) = after.split_at(after.iter().take_while(|byte| !is_letter(byte)).count());
        if !matches!(between, b"." | b"_" | b"__") && between.iter().any(|byte| *byte != b'-') {
            return false;
        }
        rest = next;
    }
}

/// Whether it is a tag, likewise.
pub(crate) fn is_tag(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.len() <= LONGEST_TAG && text.starts_with(is_word) && text.chars().all(|c| is_word(c) || c == '.' || c == '-')
}

/// A plugin in a registry, with all that an entry says about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OciOrigin {
    /// Where it is.
    pub reference: Reference,
    /// The Secret of type `kubernetes.io/dockerconfigjson` with the credentials; nothing: there are none.
    pub pull_secret: Option<SecretRef>,
    /// Who may have signed the certificate of the registry; nothing means the public authorities.
    pub ca_bundle: Option<CaBundle>,
    /// Which addresses may be dialled beside public ones.
    pub addresses: Vec<AddressRule>,
}

impl OciOrigin {
    /// Without anything beside the reference.
    #[must_use]
    pub const fn new(reference: Reference) -> Self {
        Self { reference, pull_secret: None, ca_bundle: None, addresses: Vec::new() }
    }
}

/// Reads `oci` of `plugin`.
pub(super) fn read(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<OciOrigin> {
    let place = fields.here();
    let has_reference = fields.has("ref");
    let reference = fields.read("ref", report, |at| Reference::parse(&at.private_text()?));
    let pull_secret = match fields.has_mapping("pullSecret") {
        true => fields.section("pullSecret", report, read_secret).flatten(),
        false => fields.read("pullSecret", report, object_name).map(|name| SecretRef { name, namespace: None }),
    };
    let ca_bundle = read_ca(fields, report);
    let addresses = fields.list("addresses", report, address_rule);
    if !has_reference {
        report.error(place, "needs a ref, such as oci://registry.example.com/acme/racks:1.0.0".to_owned());
    }
    Some(OciOrigin { reference: reference?, pull_secret, ca_bundle, addresses })
}

fn read_secret(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<SecretRef> {
    let place = fields.here();
    let namespace = fields.read("namespace", report, namespace);
    if !fields.has("name") {
        report.error(place, "needs a name".to_owned());
    }
    Some(SecretRef { name: fields.read("name", report, object_name)?, namespace })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_reference_says_where_and_which() {
        let pinned = format!("oci://registry.example.com/acme/racks@{DIGEST}");
        let both = format!("oci://registry.example.com/acme/racks:1.0@{DIGEST}");
        for (text, registry, name, version) in [
            ("oci://registry.example.com/racks:1.0", "registry.example.com", "racks", "1.0"),
            ("oci://Registry.Example.com/a/b/c:latest", "registry.example.com", "a/b/c", "latest"),
            ("oci://10.0.0.5:5000/a-b__c.d/e---f:_x.Y-1", "10.0.0.5:5000", "a-b__c.d/e---f", "_x.Y-1"),
            ("oci://[fd00::1]:5000/a:1", "[fd00::1]:5000", "a", "1"),
            (&pinned, "registry.example.com", "acme/racks", DIGEST),
            (&both, "registry.example.com", "acme/racks", DIGEST),
        ] {
            let read = Reference::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let found = (read.registry().as_str(), read.name(), read.version().to_string());
            assert_eq!(found, (registry, name, version.to_owned()), "{text}");
            assert_eq!(read.to_string(), text.replace("Registry.Example", "registry.example"));
        }
        assert_eq!(Reference::parse(&both).unwrap().tag(), Some("1.0"));
    }

    #[test]
    fn what_is_left_out_or_wrong_is_said_and_never_repeated() {
        let long = format!("oci://r/{}:1", "a".repeat(256));
        let longer = format!("oci://r/a:{}", "a".repeat(129));
        for (text, words) in [
            ("registry.example.com/racks:1.0", "begin with oci://"),
            ("https://registry.example.com/racks:1.0", "begin with oci://"),
            ("oci://registry.example.com", "must be oci://"),
            ("oci://registry.example.com/racks", "there is no tag by default"),
            ("oci://registry.example.com/racks:", "TAG has"),
            ("oci://registry.example.com/racks:-1", "TAG has"),
            (&longer, "TAG has"),
            ("oci://registry.example.com/Canary:1", "NAME has"),
            ("oci://registry.example.com/a//b:1", "NAME has"),
            ("oci://registry.example.com/../b:1", "NAME has"),
            ("oci://registry.example.com/a._b:1", "NAME has"),
            ("oci://registry.example.com/a___b:1", "NAME has"),
            ("oci://registry.example.com/a-:1", "NAME has"),
            ("oci://registry.example.com/:1", "NAME has"),
            (&long, "NAME has"),
            ("oci://registry.example.com/a@sha256:12", "64 hexadecimal digits"),
            ("oci://registry.example.com/a@sha512:12", "64 hexadecimal digits"),
            ("oci://me:canary@registry.example.com/a:1", "has no user and no password"),
            ("oci://registry.example.com:0/a:1", "between 1 and 65535"),
            ("oci://registry.example.com:99999/a:1", "between 1 and 65535"),
            ("oci:///a:1", "a registry is a host"),
            ("oci://registry.example.com/a:1?canary=1", "without a query"),
            ("oci://registry.example.com/a b:1", "blanks"),
        ] {
            let error = Reference::parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
            assert!(!error.to_lowercase().contains("canary"), "{text}: {error}");
        }
    }

    #[test]
    fn the_registry_of_docker_has_three_names_and_answers_at_one() {
        let registry = |text: &str| Registry::parse(text).unwrap();
        assert_eq!(registry("docker.io").authority(), "registry-1.docker.io");
        assert!(registry("docker.io").is(&registry("index.docker.io")));
        assert!(!registry("docker.io").is(&registry("ghcr.io")));
        assert_eq!(registry("ghcr.io:443").authority(), "ghcr.io:443");
        for (text, host) in [("ghcr.io", "ghcr.io"), ("a:1", "a"), ("[::1]:5000", "::1"), ("[::1]", "::1")] {
            assert_eq!(registry(text).host(), host);
        }
    }

    #[test]
    fn the_same_tag_can_be_pinned() {
        let tagged = Reference::parse("oci://r/a:1").unwrap();
        let digest = Digest::parse(DIGEST).unwrap();
        assert_eq!(tagged.at(digest).to_string(), format!("oci://r/a:1@{DIGEST}"));
        assert_eq!(tagged.at(digest).version(), Version::Digest(digest));
    }
}
