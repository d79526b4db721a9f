//! Requirements of this version, in the host's words, and within what a plugin may reasonably ask for
//! (`topoloom_core::rules::form`).

use std::time::Duration;

use topoloom_core::plugin::{
    CallError, ConfigMapKey, CredentialKind, Endpoint, Location, Method, Requirements, Tls, Trigger,
};
use topoloom_core::text;

use super::generated::topoloom::discovery::types;
use super::wit;

topoloom_core::wished!();

/// # Errors
///
/// [`CallError::LimitExceeded`] that names what is too much, [`CallError::InvalidResult`] that names what is no key.
pub(super) fn decode(said: wit::Requirements) -> Result<Requirements, CallError> {
    topoloom_core::rules::form::check_wishes(&wished(&said))?;
    let wit::Requirements { node_labels, node_annotations, endpoints, triggers } = said;
    Ok(Requirements {
        node_labels,
        node_annotations,
        endpoints: endpoints.into_iter().map(endpoint).collect(),
        triggers: triggers.into_iter().map(trigger).collect(),
    })
}

fn endpoint(said: wit::Endpoint) -> Endpoint {
    let wit::Endpoint { name, purpose, location, methods, paths, tls, credentials } = said;
    Endpoint {
        name,
        purpose: text::line(&purpose, 200),
        location: match location {
            wit::Location::Granted => Location::Granted,
            wit::Location::Urls(urls) => Location::Urls(urls),
            wit::Location::ConfigMap(wit::ConfigMapKey { namespace, name, key }) => {
                Location::ConfigMap(ConfigMapKey { namespace, name, key })
            }
        },
        methods: methods.into_iter().map(method).collect(),
        paths,
        tls: Tls {
            ca_bundle: tls.ca_bundle,
            server_name: tls.server_name,
            insecure_skip_verify: tls.insecure_skip_verify,
        },
        credentials: credentials.into_iter().map(credential).collect(),
    }
}

pub(super) fn method(said: types::Method) -> Method {
    match said {
        types::Method::Get => Method::Get,
        types::Method::Head => Method::Head,
        types::Method::Post => Method::Post,
        types::Method::Put => Method::Put,
        types::Method::Patch => Method::Patch,
        types::Method::Delete => Method::Delete,
    }
}

fn credential(said: types::Credential) -> CredentialKind {
    match said {
        types::Credential::None => CredentialKind::None,
        types::Credential::Basic => CredentialKind::Basic,
        types::Credential::Token => CredentialKind::Token,
        types::Credential::Bearer => CredentialKind::Bearer,
        types::Credential::Mtls => CredentialKind::Mtls,
    }
}

fn trigger(said: wit::Trigger) -> Trigger {
    let pause = |pause: wit::Pause| Duration::from_millis(pause.at_least.into());
    match said {
        wit::Trigger::Columns(at_least) => Trigger::Columns(pause(at_least)),
        wit::Trigger::Names(at_least) => Trigger::Names(pause(at_least)),
        wit::Trigger::Timer(at_least) => Trigger::Timer(pause(at_least)),
    }
}
