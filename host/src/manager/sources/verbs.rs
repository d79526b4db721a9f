//! Operators' verbs: what is new about those of a source is sent to its task.

use topoloom_api::DiscoverySource;
use topoloom_core::names::SourceName;

use super::{RunningSource, Sources};
use crate::discovery::supervisor::Command;
use crate::manager::verbs::{Serve, VerbEvent, Verbs};

impl Sources {
    /// Takes in a DiscoverySource as it is now, or that all were seen.
    pub(super) fn take_verbs(&mut self, event: VerbEvent) {
        match event {
            VerbEvent::Object(object) => self.take_object(*object),
            // The first complete list may be late: then leftovers are looked for now.
            VerbEvent::Complete => {
                self.publish_unreadable();
                self.leftovers();
            }
        }
    }

    fn take_object(&mut self, object: DiscoverySource) {
        let mut verbs = Verbs::of(&object);
        let Ok(source) = SourceName::parse(&object.status.source) else { return };
        let known = self.known.entry(source.clone()).or_default();
        let may_go = verbs.confirm.take_if(|hash| self.removals.is_held(&source, hash)).is_some();
        match self.running.get(&source) {
            Some(running) => send_new(running, &known.verbs, &verbs),
            None => {
                self.shared.supply.modules.remember(&source, &object.status);
                // They were taken off the object; a source that does not run yet still has to get them.
                verbs.confirm = verbs.confirm.or(known.verbs.confirm.take());
                verbs.go_on = verbs.go_on.or(known.verbs.go_on.take());
            }
        }
        if verbs.serve == Serve::Unreadable {
            verbs.serve = known.verbs.serve;
        }
        known.status = object.status;
        known.verbs = verbs;
        if may_go {
            self.removal_confirmed(&source);
        }
    }
}

/// Sends what differs from the verbs that the source has.
fn send_new(running: &RunningSource, known: &Verbs, verbs: &Verbs) {
    if let Some(hash) = verbs.confirm.clone().filter(|hash| known.confirm.as_ref() != Some(hash)) {
        running.send(Command::Confirm(hash));
    }
    if verbs.run.is_some() && known.run != verbs.run {
        running.send(Command::Run);
    }
    if let Some(digest) = verbs.go_on.filter(|digest| known.go_on != Some(*digest)) {
        running.send(Command::Continue(digest));
    }
    match verbs.serve {
        serve if serve == known.serve => {}
        Serve::Named(digest) => running.send(Command::Serve(Some(digest))),
        Serve::Delivered => running.send(Command::Serve(None)),
        Serve::Unreadable => {}
    }
    if known.pause != verbs.pause {
        running.send(Command::Pause(verbs.pause.into()));
    }
}
