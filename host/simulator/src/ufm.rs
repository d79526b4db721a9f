//! UFM Enterprise: its prefixes, its lists, its manners.
//!
//! Owns what the REST interface looks like from outside. Read-only: whatever is not a `GET` is refused. Where releases
//! differ, [`Keys`] and [`Filters`] choose; what no source says is decided here and written down beside it.

mod links;
mod paging;
mod ports;
mod query;
mod records;
mod side;
mod systems;

use crate::fabric::{Fabric, SharedFabric};
use crate::server::{Answer, Api, Asked, Builder, Presented, Tweak};
use crate::wire::Layout;
use http::header::{ALLOW, AUTHORIZATION, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use ports::Ports;
use query::Query;
use records::Records;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// Which keys a port has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// Those of a current release, more than thirty.
    #[default]
    All,
    /// Those of old releases: of the other end only `peer`, and no node description.
    Few,
}

/// Which filters of the port list are known; others are answered with 400.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Filters {
    /// Those of a current release.
    #[default]
    Current,
    /// The same without `active`.
    WithoutActive,
    /// None.
    None,
}

/// What has to come with a request below a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// A user with a password, or a client certificate.
    User,
    /// The word Basic and a raw token.
    Token,
    /// A session or a ticket, which this simulator never gives: always 401.
    Session,
}

/// What can be chosen about a simulated UFM; see [`Builder`].
#[derive(Debug, Default)]
pub struct UfmSettings {
    layout: Layout,
    keys: Keys,
    filters: Filters,
    shuffle: Option<u64>,
    prefixes: Vec<(String, Scheme)>,
}

/// The release that the simulator says it is.
const RELEASE: &str = "6.19.3-5";

/// A simulated UFM.
#[derive(Debug)]
pub struct Ufm {
    settings: UfmSettings,
    records: Arc<Records>,
    ports: Ports,
}

impl Ufm {
    /// A simulator of UFM over this fabric. It speaks TLS, and without credentials it refuses every client.
    pub fn builder(fabric: impl Into<SharedFabric>) -> Builder<UfmSettings> {
        Builder::new(UfmSettings::default(), |settings| Box::new(Self::new(settings)), fabric.into())
    }

    fn new(mut settings: UfmSettings) -> Self {
        let known = [
            ("/ufmRestV2", Scheme::Session),
            ("/ufmRestV3", Scheme::Token),
            ("/ufmRestKrb", Scheme::Session),
            ("/ufmRest", Scheme::User),
        ];
        settings.prefixes.extend(known.map(|(prefix, scheme)| (prefix.to_owned(), scheme)));
        let records = Arc::new(Records::new(settings.layout, settings.keys));
        Self { ports: Ports::new(settings.filters, settings.shuffle), records, settings }
    }

    /// The scheme of a path, and the path behind the prefix, with its first slash.
    fn split<'a>(&self, path: &'a str) -> Option<(Scheme, &'a str)> {
        let behind = |prefix: &str| path.strip_prefix(prefix).filter(|local| local.starts_with('/'));
        self.settings.prefixes.iter().find_map(|(prefix, scheme)| Some((*scheme, behind(prefix)?)))
    }

    fn route(&self, local: &str, query: &Query, fabric: &Arc<Fabric>, tweak: Tweak) -> Result<Answer, ListRefusal> {
        let ok = |value: serde_json::Value| Ok(Answer::json(StatusCode::OK, &value));
        match local.strip_prefix('/').unwrap_or(local) {
            "app/ufm_version" => ok(json!({ "ufm_release_version": RELEASE })),
            "app/versioning" => {
                let versions = fabric.versions();
                ok(json!({
                    "ports_version": versions.ports,
                    "links_version": versions.links,
                    "switches_version": versions.switches,
                    "servers_version": versions.servers,
                }))
            }
            "app/unhealthy_ports" | "resources/vports" => ok(json!([])),
            "resources/ports" => self.ports.list(query, fabric, tweak, &self.records),
            "resources/systems" => systems::list(query, fabric, tweak, &self.records),
            "resources/links" => links::list(query, fabric, tweak, &self.records),
            local => match local.strip_prefix("resources/ports/") {
                Some(names) => ports::named(&query::decode(names)?, fabric, tweak, &self.records),
                None => match local.strip_prefix("resources/systems/") {
                    Some(name) => systems::named(&query::decode(name)?, fabric, tweak, &self.records),
                    None => Err((StatusCode::NOT_FOUND, "no such resource".into())),
                },
            },
        }
    }
}

impl Api for Ufm {
    fn local<'a>(&self, path: &'a str) -> &'a str {
        self.split(path).map_or(path, |(_, local)| local)
    }

    fn usual(&self) -> &'static str {
        "/resources/"
    }

    fn presented(&self, asked: &Asked<'_>) -> Presented {
        let scheme = self.split(asked.path).map_or(Scheme::User, |(scheme, _)| scheme);
        let Some(value) = asked.headers.get(AUTHORIZATION) else {
            return match (asked.certificate, scheme) {
                (Some(name), Scheme::User) => Presented::Certificate(name.to_owned()),
                _ => Presented::Nothing,
            };
        };
        let text = value.to_str().unwrap_or_default();
        let other = || Presented::Other(text.to_owned());
        let Some((word, secret)) = text.split_once(' ') else { return other() };
        match (word.eq_ignore_ascii_case("basic"), scheme) {
            (true, Scheme::Token) => Presented::Token(secret.trim().to_owned()),
            (true, Scheme::User) => Presented::basic(secret).unwrap_or_else(other),
            _ => other(),
        }
    }

    fn answer(&self, asked: &Asked<'_>, admitted: bool, fabric: &Arc<Fabric>, tweak: Tweak) -> Answer {
        let Some((scheme, local)) = self.split(asked.path) else {
            return Answer::error(StatusCode::NOT_FOUND, "no such resource");
        };
        if !admitted || scheme == Scheme::Session {
            let refused = Answer::error(StatusCode::UNAUTHORIZED, "authentication is required");
            return refused.header(WWW_AUTHENTICATE, "Basic realm=\"UFM\"");
        }
        if asked.method != Method::GET {
            return Answer::error(StatusCode::METHOD_NOT_ALLOWED, "read only").header(ALLOW, "GET");
        }
        let query = match Query::parse(asked.query.unwrap_or_default()) {
            Ok(query) => query,
            Err(message) => return Answer::error(StatusCode::BAD_REQUEST, message),
        };
        self.route(local, &query, fabric, tweak).unwrap_or_else(|(status, message)| Answer::error(status, message))
    }
}

/// Why there is no list: a status and a message.
type ListRefusal = (StatusCode, String);

impl Builder<UfmSettings> {
    /// Lays JSON out like this.
    pub fn layout(mut self, layout: Layout) -> Self {
        self.settings.layout = layout;
        self
    }

    /// Gives ports these keys.
    pub fn keys(mut self, keys: Keys) -> Self {
        self.settings.keys = keys;
        self
    }

    /// Knows these filters.
    pub fn filters(mut self, filters: Filters) -> Self {
        self.settings.filters = filters;
        self
    }

    /// Lists ports in an order drawn by lot. Without it: hosts first, in the order of their making.
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.settings.shuffle = Some(seed);
        self
    }

    /// Also answers below this prefix, such as `/site-a/ufm`, as behind a proxy.
    pub fn prefix(mut self, prefix: &str, scheme: Scheme) -> Self {
        self.settings.prefixes.push((format!("/{}", prefix.trim_matches('/')), scheme));
        self
    }
}
