//! The physical cluster of a ClusterBinding: its Secret, whether it answers, whether it is the right one, and what the lender has to
//! have created there (decisions S6, S7, S19 and S20).
//!
//! # Failure story
//!
//! Each step needs the one before: where a Secret is missing, or another cluster answers, nothing else is asked. A kubeconfig was
//! written by another party, so it is judged as the syncer judges it, and this machine is not dialled because of it.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use prometheus_client::registry::Registry;
use topoloom_api::ClusterBinding;
use topoloom_api::cluster_binding::{PhysicalWrites, PolicySource};
use topoloom_core::names::Uid;
use topoloom_core::text;
use topoloom_sync::naming::borrower_lease;
use topoloom_sync::node::NodeClaims;
use topoloom_syncer::convert::binding::{Problems, Reading, Terms};
use topoloom_syncer::kubeconfig::{self, Access, Allowed, CredentialEnd, Ending, Loopback};
use topoloom_syncer::physical::{Dialer, Opens as _, contact};

use super::guards;
use crate::cli::preflight::access::{self, Subject};
use crate::cli::preflight::line::{Line, Mark};
use crate::cli::print;
use crate::cluster::requests::Metrics;
use crate::cluster::{Refusal, RefusalReason, Side, leases};
use crate::manager::rights::lending::{PhysicalSettings, Streams};
use crate::manager::rights::{Right, RightScope};

use super::{GRANT, policies};

/// Nothing is written, so this is a number that has to be.
const WRITES_PER_SECOND: u32 = 1;
/// The longest text about one check, in bytes.
const SHOWN: usize = 4_000;
/// The check of the physical API server.
const SERVER: &str = "physical API server";
/// The check of what the binding says.
const SPEC: &str = "spec of the ClusterBinding";

/// What all bindings have in common.
pub(super) struct Lender<'a> {
    /// The client of the virtual cluster.
    pub(super) lent: &'a kube::Client,
    /// Where the Secrets are.
    pub(super) namespace: &'a str,
    /// The UID of the virtual cluster, where it is known.
    pub(super) kube_system: Option<&'a Uid>,
    /// Whether logs and exec are served.
    pub(super) streams: Streams,
    /// Whether this machine may be a physical cluster.
    pub(super) loopback: Loopback,
    /// By the clock of the virtual API server.
    pub(super) now: Timestamp,
}

impl Lender<'_> {
    /// Checks one binding.
    pub(super) async fn look(&self, object: &ClusterBinding, reading: &Result<Reading, Problems>) -> Vec<Line> {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let invalid =
            |problems: &Problems| Line::fail(SPEC, problems.to_string(), format!("kubectl edit clusterbinding {name}"));
        let lines = match reading {
            Err(problems) => vec![invalid(problems)],
            Ok(Reading { terms, problems }) => {
                let mut lines: Vec<Line> = problems.iter().map(invalid).collect();
                lines.extend(Box::pin(self.connect(object, terms)).await);
                lines
            }
        };
        // A part of them are the words of a server of another party, and this goes to a terminal.
        let safe = |line: Line| Line { found: text::line(&line.found, SHOWN), ..line.of(name) };
        lines.into_iter().map(safe).collect()
    }

    async fn connect(&self, object: &ClusterBinding, terms: &Terms) -> Vec<Line> {
        let access = match self.access(terms).await {
            Ok(access) => access,
            Err(line) => return vec![line],
        };
        let mut lines = vec![end(access.end(), self.now, &self.place(terms))];
        let dialer = Dialer::new(&Metrics::register(&mut Registry::default()), WRITES_PER_SECOND);
        match dialer.open(&access) {
            Ok(connection) => {
                lines.extend(self.ask(connection.reads(), &connection.server().to_string(), object, terms).await);
            }
            Err(error) => lines.push(Line::fail(SERVER, error.to_string(), "")),
        }
        lines
    }

    /// Namespace and name of the Secret.
    fn place(&self, terms: &Terms) -> String {
        format!("{}/{}", self.namespace, terms.secret)
    }

    /// What the Secret says.
    async fn access(&self, terms: &Terms) -> Result<Access, Line> {
        let (place, api) = (self.place(terms), Api::<Secret>::namespaced(self.lent.clone(), self.namespace));
        let what = format!("Secret {place}");
        let secret = api.get(&terms.secret).await.map_err(|error| {
            let refusal = Refusal::of(&error);
            let todo = match refusal.reason {
                RefusalReason::NotFound => format!(
                    "kubectl create secret generic -n {} {} --from-file=kubeconfig=FILE, with the kubeconfig that the lender prints: \
                     topoloom lend kubeconfig",
                    self.namespace, terms.secret
                ),
                _ => String::new(),
            };
            Line::fail(&what, format!("it could not be read: {}", refusal.on(Side::Virtual)), todo)
        })?;
        let allowed = Allowed { insecure: terms.insecure, loopback: self.loopback };
        kubeconfig::of_secret(&secret, allowed).map_err(|error| {
            Line::fail(&what, error.to_string(), "put a kubeconfig of the lender into it: topoloom lend kubeconfig")
        })
    }

    /// Asks the physical cluster by this client.
    pub(super) async fn ask(
        &self,
        client: &kube::Client,
        server: &str,
        object: &ClusterBinding,
        terms: &Terms,
    ) -> Vec<Line> {
        let server = server.trim_end_matches('/');
        let cluster = match contact::first(client).await {
            Ok(cluster) => cluster,
            Err(error) => {
                let todo = match error.refusal.reason {
                    RefusalReason::Unauthorized => "a new kubeconfig: topoloom lend kubeconfig",
                    RefusalReason::Forbidden => GRANT,
                    _ => "look at the network and at the address and the certificate in the kubeconfig",
                };
                return vec![Line::fail(SERVER, format!("{server}: {error}"), todo)];
            }
        };
        let mut lines = vec![match self.another(object, &cluster) {
            None => Line::ok(SERVER, format!("{server} answers; its UID is {cluster}")),
            Some(other) => return vec![other],
        }];
        if terms.policy_source == PolicySource::Physical {
            lines.push(policies(client, Side::Physical).await);
        }
        let rights = rights(terms, self.streams);
        let given = access::ask(client, &Subject::Caller, &rights).await;
        lines.extend(mount_namespace(client, terms, &rights, &given).await);
        lines.extend(given);
        if terms.binding.claims == NodeClaims::Written {
            lines.extend(guards::of_borrower(client).await);
        }
        lines
    }

    /// Another cluster than the one that the binding borrows from, or the virtual cluster itself.
    fn another(&self, object: &ClusterBinding, cluster: &Uid) -> Option<Line> {
        let what = "identity of the physical cluster";
        if self.kube_system == Some(cluster) {
            let found = format!(
                "the kubeconfig leads to the virtual cluster itself (UID {cluster}), and no cluster lends to itself"
            );
            return Some(Line::fail(what, found, "point secretRef to the kubeconfig of the physical cluster"));
        }
        let known = object.status.physical_cluster_uid.as_deref().filter(|known| !known.is_empty())?;
        if *known == **cluster {
            return None;
        }
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let found = format!(
            "another cluster answers: its UID is {cluster}, and the binding borrows from {known}. Nothing is created, evicted or deleted \
             until that is confirmed"
        );
        Some(Line::fail(
            what,
            found,
            format!("correct the Secret, or accept the other one: topoloom lend confirm {name}"),
        ))
    }
}

/// What a binding needs in its physical cluster.
fn rights(terms: &Terms, streams: Streams) -> Vec<Right> {
    let settings = PhysicalSettings {
        binding: terms.binding.identity.binding().clone(),
        mount_namespace: terms.mount_namespace.clone(),
        writes: match terms.binding.claims {
            NodeClaims::Written => PhysicalWrites::All,
            NodeClaims::None => PhysicalWrites::None,
        },
        policies: terms.policy_source,
        streams,
    };
    settings.rights()
}

/// When the credential ends.
fn end(end: Option<CredentialEnd>, now: Timestamp, secret: &str) -> Line {
    let what = format!("Secret {secret}");
    let todo =
        format!("put a new kubeconfig into Secret {secret}, which is used without a restart: topoloom lend kubeconfig");
    let Some(end) = end else { return Line::ok(&what, "its kubeconfig can be used; the credential names no end") };
    match end.ending(now) {
        Ending::Later => Line::ok(&what, format!("its kubeconfig can be used; {end}")),
        Ending::Soon { left } => Line::warn(&what, format!("{end}, in {}", print::span(left.as_secs())), todo),
        Ending::Past => Line::fail(&what, format!("{end}, which is over"), todo),
    }
}

/// Whether the namespace of the borrower's pods is there: a Lease in it is asked for and not kept.
async fn mount_namespace(client: &kube::Client, terms: &Terms, rights: &[Right], given: &[Line]) -> Option<Line> {
    let name = &terms.mount_namespace;
    let what = format!("namespace {name} in {}", Side::Physical);
    let answer = leases::could_be_made(client, name, &borrower_lease(terms.binding.identity.binding())).await;
    let refusal = match answer {
        Ok(()) => return Some(Line::ok(&what, "it exists (a Lease was tried in it, without storing it)")),
        Err(refusal) => refusal,
    };
    match refusal.reason {
        RefusalReason::AlreadyExists => {
            let found = "it exists, and has a Lease for a binding of this name; if that is another borrower's, the condition Conflict \
                         of the binding says so";
            Some(Line::ok(&what, found))
        }
        RefusalReason::NotFound => {
            Some(Line::fail(&what, "it does not exist: no pod of the borrower can be there", GRANT))
        }
        RefusalReason::Forbidden if refusal.message.contains("being terminated") => {
            Some(Line::fail(&what, "it is being deleted", GRANT))
        }
        // Of one that does not exist nothing may be known to an account that has rights only there.
        RefusalReason::Forbidden if lacks_all(name, rights, given) => {
            let found = "it does not exist, or no right of the borrower in it does";
            Some(Line::fail(&what, found, GRANT))
        }
        RefusalReason::Forbidden => None,
        _ => Some(Line::warn(&what, format!("it could not be tried: {}", refusal.on(Side::Physical)), "")),
    }
}

/// Whether every right in a namespace is missing. `given` has a line for each right.
fn lacks_all(namespace: &str, rights: &[Right], given: &[Line]) -> bool {
    let place = RightScope::Namespace(namespace.to_owned());
    let mut within = rights.iter().zip(given).filter(|(right, _)| right.place == place);
    rights.len() == given.len() && within.all(|(_, line)| line.mark != Mark::Ok)
}

#[cfg(test)]
mod tests {
    use topoloom_syncer::kubeconfig::CredentialKind;

    use super::*;

    #[test]
    fn s20_a_credential_that_ends_within_a_week_is_a_warning_and_one_that_ended_is_a_failure() {
        let now: Timestamp = "2026-08-01T00:00:00Z".parse().unwrap();
        let said = |at: &str| {
            let line =
                end(Some(CredentialEnd { kind: CredentialKind::Token, at: at.parse().unwrap() }), now, "own/east");
            (line.mark, line.found, line.todo.len())
        };
        let soon = said("2026-08-07T12:00:00Z");
        let found = "the token of the kubeconfig ends at 2026-08-07T12:00:00Z, in 6d12h";
        assert_eq!(soon, (Mark::Warn, found.to_owned(), 1));
        assert_eq!(said("2026-08-09T00:00:00Z").0, Mark::Ok);
        let (mark, found, todo) = said("2026-07-31T00:00:00Z");
        assert!(mark == Mark::Fail && found.ends_with(", which is over") && todo == 1, "{found}");
        assert_eq!(end(None, now, "own/east").mark, Mark::Ok);
    }
}
