//! Which ClusterBindings there are: the watch of their metadata.
//!
//! Owns the list, and the reasons for which the controller waits. Never reads a spec: a binding that cannot be read has a group
//! all the same, which says so in its status.
//!
//! # Failure story
//!
//! While the definition of ClusterBindings is absent, or this replica may not read them and never could, the controller waits,
//! and the watch is opened again with pauses that grow to half a minute. In a process that does nothing else, a right that is
//! missing is a failure, and no reason to wait: the process is not ready, and replaces none that works. A watch that breaks later
//! changes nothing: that a list cannot be read never means that a binding is gone.

use std::collections::BTreeMap;

use futures::StreamExt;
use jiff::Timestamp;
use kube::Api;
use kube::api::PartialObjectMeta;
use tokio::sync::watch;
use topoloom_api::ClusterBinding;
use topoloom_api::names::CLUSTER_BINDING_CRD;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::naming::BindingName;

use crate::cluster::watched::{Earlier, Index, Watched};
use crate::cluster::watches::{self, Config};
use crate::cluster::{Check, Refusal, RefusalReason, Restores};

/// The bindings by name.
pub(super) type Bindings = BTreeMap<BindingName, Seen>;

/// What is known of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) uid: Uid,
    /// When it was made. The API server leaves that out of no object.
    pub(super) created: Option<Timestamp>,
}

/// What this process does beside bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing: without bindings it is of no use.
    BindingsAlone,
    /// Other controllers run, which may need no binding at all.
    BesideOthers,
}

/// The metadata of a binding.
pub(super) type BindingMeta = PartialObjectMeta<ClusterBinding>;

/// The bindings as the watch shows them.
#[derive(Default)]
pub(super) struct Known(pub(super) Bindings);

/// Nothing for an object without name or UID, which the API server does not make.
fn read(object: &BindingMeta) -> Option<(BindingName, Seen)> {
    let name = BindingName::parse(object.metadata.name.as_deref()?).ok()?;
    let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
    Some((name, Seen { uid: object.metadata.uid.as_deref()?.into(), created }))
}

impl Index<BindingMeta> for Known {
    type List = Bindings;
    type Change = ();

    fn begin(&mut self, _: Earlier) -> Bindings {
        Bindings::new()
    }

    fn list(&mut self, list: &mut Bindings, object: BindingMeta) {
        list.extend(read(&object));
    }

    fn reset(&mut self, list: Bindings, _: &ResourceVersion) {
        self.0 = list;
    }

    fn apply(&mut self, object: BindingMeta) {
        self.0.extend(read(&object));
    }

    fn delete(&mut self, object: BindingMeta) {
        if let Some((name, gone)) = read(&object)
            && self.0.get(&name).is_some_and(|known| known.uid == gone.uid)
        {
            self.0.remove(&name);
        }
    }
}

/// Watches until it is dropped. Nothing is sent before the first whole list.
pub(super) async fn watch(
    client: kube::Client,
    restores: Restores,
    check: Check,
    work: Work,
    bindings: watch::Sender<Option<Bindings>>,
) {
    let api: Api<BindingMeta> = Api::all(client);
    let mut events = std::pin::pin!(watches::events(api, Config::of(&restores)));
    let (mut watched, mut known) = (Watched::default(), Known::default());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                let is_answer = event.is_answer();
                if watched.take(&mut known, event).is_some() {
                    bindings.send_if_modified(|sent| {
                        let differs = sent.as_ref() != Some(&known.0);
                        if differs {
                            *sent = Some(known.0.clone());
                        }
                        differs
                    });
                }
                if is_answer {
                    check.pass();
                }
            }
            Err(refusal) => {
                let is_needed = work == Work::BindingsAlone || bindings.borrow().is_some();
                report(&refusal, is_needed, &check);
            }
        }
    }
}

/// What a failure of the watch means for the controller. It is needed where bindings were read before, or are all that there
/// is to do.
fn report(refusal: &Refusal, is_needed: bool, check: &Check) {
    match refusal.reason {
        RefusalReason::Expired => {}
        RefusalReason::NoSuchResource => check.absent(&format!("{CLUSTER_BINDING_CRD} is absent: {refusal}")),
        RefusalReason::Forbidden if !is_needed => {
            check.absent(&format!("{CLUSTER_BINDING_CRD} may not be read: {refusal}"))
        }
        // Whether there are any may never be of interest here, and the checks of the others say that the API server fails.
        RefusalReason::TooManyRequests | RefusalReason::ServerError | RefusalReason::Unreachable if !is_needed => {}
        RefusalReason::Forbidden
        | RefusalReason::Conflict
        | RefusalReason::AlreadyExists
        | RefusalReason::NotFound
        | RefusalReason::Unauthorized
        | RefusalReason::Invalid
        | RefusalReason::DeniedByAdmission
        | RefusalReason::WebhookUnreachable
        | RefusalReason::TooManyRequests
        | RefusalReason::ServerError
        | RefusalReason::Unreachable
        | RefusalReason::TooLarge
        | RefusalReason::NotLeader
        | RefusalReason::ReadOnly => check.fail(refusal),
    }
}
