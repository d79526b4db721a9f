//! Requirements of this version, in the host's words, and within what a plugin may reasonably ask for: each column costs
//! four bytes per node for as long as the source runs.

use std::time::Duration;

use topoloom_core::plugin::{
    CallError, ConfigMapKey, CredentialKind, Endpoint, Limit, Location, Method, Requirements, Tls, Trigger,
};
use topoloom_core::rules::is_label_key;
use topoloom_core::text;

use super::bounds::{at_most, invalid, no_longer, short};
use super::generated::topoloom::discovery::types;
use super::wit;

/// # Errors
///
/// [`CallError::LimitExceeded`] that names what is too much, [`CallError::InvalidResult`] that names what is no key.
pub(super) fn decode(said: wit::Requirements) -> Result<Requirements, CallError> {
    let wit::Requirements { node_labels, node_annotations, endpoints, triggers } = said;
    at_most(Limit::Requirements, "required node labels", node_labels.len(), 0)?;
    at_most(Limit::Requirements, "required node annotations", node_annotations.len(), 0)?;
    at_most(Limit::Endpoints, "endpoints", endpoints.len(), 0)?;
    at_most(Limit::Endpoints, "triggers", triggers.len(), 0)?;
    for key in node_labels.iter().chain(&node_annotations) {
        if let Err(rule) = is_label_key(key) {
            return Err(invalid(format!("it asks for the node label or annotation {:?}: {rule}", text::line(key, 80))));
        }
    }
    Ok(Requirements {
        node_labels,
        node_annotations,
        endpoints: endpoints.into_iter().map(endpoint).collect::<Result<_, _>>()?,
        triggers: triggers.into_iter().map(trigger).collect(),
    })
}

fn endpoint(said: wit::Endpoint) -> Result<Endpoint, CallError> {
    let wit::Endpoint { name, purpose, location, methods, paths, tls, credentials } = said;
    let located = match &location {
        wit::Location::Granted => Vec::new(),
        wit::Location::Urls(urls) => urls.iter().collect(),
        wit::Location::ConfigMap(wit::ConfigMapKey { namespace, name, key }) => {
            namespace.iter().chain([name, key]).collect()
        }
    };
    at_most(Limit::Requirements, "URLs of one endpoint", located.len(), 0)?;
    at_most(Limit::Requirements, "methods of one endpoint", methods.len(), 0)?;
    at_most(Limit::Requirements, "paths of one endpoint", paths.len(), 0)?;
    at_most(Limit::Requirements, "kinds of credential of one endpoint", credentials.len(), 0)?;
    for text in located.into_iter().chain(&paths).chain(&tls.server_name).chain([&name]) {
        short("a text of an endpoint", text)?;
    }
    no_longer(Limit::Bundle, "a bundle of certificates", tls.ca_bundle.as_deref().unwrap_or_default())?;
    Ok(Endpoint {
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
    })
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
