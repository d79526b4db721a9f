//! The keys that say where a UFM is.

use super::read::{auth, checked, insecure, lower, urls};
use super::{Auth, Fabric, check};
use topoloom_fabric::Reader;
use topoloom_sdk::Tls;
use topoloom_sdk::json::Value;

/// The name of the first endpoint; others are this and their number.
const ENDPOINT: &str = "ufm";

/// The location of a UFM and how to connect to it: at the top, for all fabrics, or in one of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    pub(super) name: Option<String>,
    /// The key that names URLs, good or bad ones.
    pub(super) placed: Option<String>,
    urls: Vec<String>,
    prefix: Option<String>,
    auth: Option<Auth>,
    ca_bundle: Option<String>,
    server_name: Option<String>,
    insecure: Option<bool>,
}

impl Place {
    /// Reads a key, if it is one of these.
    pub(super) fn take(&mut self, key: &str, path: &str, value: &Value, reader: &mut Reader) -> bool {
        match lower(key).as_str() {
            "endpoint" => {
                self.once(key, path, reader);
                let text = reader.text(path, value).map(|text| (path.to_owned(), text));
                urls(reader, text.into_iter().collect(), &mut self.urls);
            }
            "endpoints" => {
                self.once(key, path, reader);
                let texts = reader.texts(path, value);
                if texts.is_empty() && !matches!(value, Value::Array(list) if !list.is_empty()) {
                    reader.problem(path, "the list is empty; at least one URL is expected".to_owned());
                }
                urls(reader, texts, &mut self.urls);
            }
            "apiprefix" => {
                let prefix = reader.text(path, value).map(|text| check::prefix(&text));
                self.prefix = checked(reader, path, prefix);
            }
            "auth" => self.auth = auth(reader, path, value),
            "cabundle" => {
                let bundle = reader.text(path, value);
                if bundle.as_ref().is_some_and(|text| !text.contains("-----BEGIN CERTIFICATE-----")) {
                    reader.problem(path, "it contains no PEM certificate".to_owned());
                }
                self.ca_bundle = bundle;
            }
            "servername" => self.server_name = reader.host_name(path, value),
            "insecureskipverify" => self.insecure = Some(insecure(reader, path, value)),
            _ => return false,
        }
        true
    }

    /// Only one key may name the URLs: the members of one pair and independent fabrics are different things.
    fn once(&mut self, key: &str, path: &str, reader: &mut Reader) {
        match &self.placed {
            Some(other) => {
                reader.problem(path, format!("{other} is set too: write all URLs of the pair into endpoints"))
            }
            None => self.placed = Some(key.to_owned()),
        }
    }

    /// The fabric, with the values of the top where it has none of its own.
    pub(super) fn fabric(self, number: usize, top: &Self) -> Fabric {
        let name = match number {
            1 => ENDPOINT.to_owned(),
            _ => format!("{ENDPOINT}-{number}"),
        };
        let top = top.clone();
        Fabric {
            name: self.name.unwrap_or(name),
            urls: self.urls,
            prefix: self.prefix.or(top.prefix),
            auth: self.auth.or(top.auth).unwrap_or(Auth::Auto),
            tls: Tls {
                ca_bundle: self.ca_bundle.or(top.ca_bundle),
                server_name: self.server_name.or(top.server_name),
                insecure_skip_verify: self.insecure.or(top.insecure).unwrap_or(false),
            },
        }
    }
}
