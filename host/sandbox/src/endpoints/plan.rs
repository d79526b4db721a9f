//! What one endpoint is, after the plugin's request and the operator's entry are combined (decision H16).
//!
//! For bytes that are embedded in the binary, the request is the grant, and the operator's entry overrides it. For all
//! others only the operator's entry counts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::{CredentialKind, Endpoint as Wish, GrantedEndpoint, Location, Method};

use crate::endpoints::spec::{
    AddressRule, BaseUrl, CaBundle, Carrier, Credentials, Endpoint as Word, KeyRef, Redirects, Timeouts, Tls,
    Verification,
};

/// One endpoint, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its name.
    pub name: Arc<str>,
    /// What answers.
    pub carrier: Carrier,
    /// Which methods may be used.
    pub methods: BTreeSet<Method>,
    /// Below which paths; empty: all.
    pub paths: Vec<String>,
    /// Below which of them the operator wants it to stay; empty: all.
    pub narrowed: Vec<String>,
    /// Which addresses may be dialled beside public ones.
    pub addresses: Vec<AddressRule>,
    /// How the other side proves who it is.
    pub tls: Tls,
    /// How long each part may take.
    pub timeouts: Timeouts,
    /// How large one answer may be, bytes.
    pub max_body: u64,
    /// What happens to a redirect.
    pub redirects: Redirects,
    /// The kinds of credential that the plugin can work with, best first.
    pub kinds: Vec<CredentialKind>,
    /// Where the credential is.
    pub credentials: Option<Credentials>,
}

/// The defaults of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usual {
    /// Until the last byte of an answer.
    pub total: Duration,
    /// How large an answer may be, bytes.
    pub max_body: u64,
}

impl Default for Usual {
    fn default() -> Self {
        use crate::endpoints::spec::{DEFAULT_MAX_BODY, DEFAULT_TOTAL};
        Self { total: DEFAULT_TOTAL, max_body: DEFAULT_MAX_BODY.as_u64() }
    }
}

/// What the entry says, beside what was granted.
#[derive(Debug, Clone, Copy)]
pub struct EntryTerms<'a> {
    /// Whether the plugin's wish counts.
    pub origin: Origin,
    /// The operator's word about this endpoint.
    pub word: Option<&'a Word>,
    /// The credential of the entry as a whole, and how many endpoints could want it.
    pub credentials: Option<(&'a Credentials, usize)>,
    /// The defaults.
    pub usual: Usual,
}

/// Puts wish and word together.
///
/// # Errors
/// What is missing or wrong, with the place in the entry.
pub fn plan(granted: &GrantedEndpoint, entry: &EntryTerms<'_>) -> Result<Plan, String> {
    let GrantedEndpoint { required: wish, permission } = granted;
    let trusted = entry.origin == Origin::Embedded;
    let word = entry.word;
    let place = format!("permissions.endpoints.{}", wish.name);
    let carrier = match word.and_then(|word| word.carrier.clone()) {
        Some(carrier) => carrier,
        None if trusted => wished(wish)?,
        None => return Err(format!("{place}: must have one of url, urls, configMap and file")),
    };
    let given = |word: &Word| (!word.addresses.is_empty()).then(|| word.addresses.clone());
    let usual_addresses = if trusted { vec![AddressRule::Private] } else { Vec::new() };
    let credentials = word.and_then(|word| word.credentials.clone()).map(Credentials::Secret);
    let wants = !wish.credentials.is_empty();
    let of_entry = match entry.credentials.filter(|_| trusted && wants && credentials.is_none()) {
        Some((_, among)) if among > 1 => {
            return Err(format!(
                "{place}.credentials: name a Secret; the entry's own `credentials` would go to all {among} endpoints of \
                 the source, and each would get it"
            ));
        }
        Some((credentials, _)) => Some(credentials.clone()),
        None => None,
    };
    let timeouts = word.map(|word| word.timeouts).unwrap_or_default();
    let plan = Plan {
        name: wish.name.as_str().into(),
        carrier,
        methods: match word {
            Some(word) => permission.methods.intersection(&word.methods).copied().collect(),
            None => permission.methods.clone(),
        },
        paths: permission.paths.clone(),
        narrowed: word.map(|word| word.paths.clone()).unwrap_or_default(),
        addresses: word.and_then(given).unwrap_or(usual_addresses),
        tls: tls(word.map(|word| &word.tls), trusted.then_some(wish)),
        timeouts: Timeouts {
            connect: timeouts.connect.unwrap_or(crate::endpoints::spec::DEFAULT_CONNECT),
            first_byte: timeouts.first_byte.unwrap_or(crate::endpoints::spec::DEFAULT_FIRST_BYTE),
            total: timeouts.total.unwrap_or(entry.usual.total),
        },
        max_body: word.and_then(|word| word.max_body).map_or(entry.usual.max_body, |size| size.as_u64()),
        redirects: word.map(|word| word.redirects).unwrap_or_default(),
        // A plugin that wants no credential gets none.
        credentials: credentials.or(of_entry).filter(|_| wants),
        kinds: wish.credentials.clone(),
    };
    match plan.credentials.is_some() && is_mixed(&plan.carrier) {
        true => Err(format!(
            "the endpoint {}: some of its URLs begin with https:// and some with http://; an attacker who blocks the \
                first would get the credential unencrypted",
            wish.name
        )),
        false => Ok(plan),
    }
}

/// Whether one member of a pair uses TLS and the other does not.
fn is_mixed(carrier: &Carrier) -> bool {
    match carrier {
        Carrier::Urls(urls) => urls.iter().any(BaseUrl::is_https) && !urls.iter().all(BaseUrl::is_https),
        Carrier::ConfigMap(_) | Carrier::File(_) => false,
    }
}

impl Plan {
    /// Whether the credential is sent in the clear.
    #[must_use]
    pub fn is_cleartext(&self) -> bool {
        let plain = matches!(&self.carrier, Carrier::Urls(urls) if !urls.iter().all(BaseUrl::is_https));
        plain && self.credentials.is_some()
    }
}

/// Where the plugin wishes it to be.
fn wished(wish: &Wish) -> Result<Carrier, String> {
    match &wish.location {
        Location::Granted => {
            Err(format!("permissions.endpoints.{}: say where it is, with url, urls, configMap or file", wish.name))
        }
        Location::Urls(urls) => {
            let urls = urls
                .iter()
                .map(|url| BaseUrl::parse(url).map_err(|what| format!("the endpoint {}: {what}", wish.name)));
            let urls = urls.collect::<Result<Vec<_>, _>>()?;
            if urls.is_empty() {
                Err(format!("the endpoint {} has no URL", wish.name))
            } else {
                Ok(Carrier::Urls(urls))
            }
        }
        Location::ConfigMap(map) => Ok(Carrier::ConfigMap(KeyRef {
            namespace: map.namespace.clone(),
            name: map.name.clone(),
            key: map.key.clone(),
        })),
    }
}

/// The operator's word, field by field, before the wish.
fn tls(word: Option<&Tls>, wish: Option<&Wish>) -> Tls {
    let wish = wish.map(|wish| &wish.tls);
    let skips = word.is_some_and(|word| word.verification == Verification::Skipped)
        || wish.is_some_and(|wish| wish.insecure_skip_verify);
    Tls {
        ca_bundle: word
            .and_then(|word| word.ca_bundle.clone())
            .or_else(|| wish.and_then(|wish| wish.ca_bundle.clone()).map(CaBundle::Inline)),
        server_name: word
            .and_then(|word| word.server_name.clone())
            .or_else(|| wish.and_then(|wish| wish.server_name.clone())),
        verification: if skips { Verification::Skipped } else { Verification::Full },
    }
}
