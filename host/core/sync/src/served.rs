//! Which installation serves a binding, where several run in one virtual cluster (decision S11).
//!
//! The replicas of one installation share a Lease for each binding, and one of them holds it. Two installations whose leases have
//! different names each hold their own, and would both serve the binding: two writers of one status, two counters of one witness,
//! and two opinions about every node. So the status of the binding names the Lease of those that serve it. It is written in the
//! version that was read, before anything else is: of two that come at once one meets a conflict, and stays away.
//!
//! Owns whose a binding is by that name, and when the other installation counts as gone. Never looks at a clock of another: what
//! counts is whether its Lease changes, as for a candidate of the same Lease.
//!
//! # Failure story
//!
//! A Lease that cannot be read is not one that is not there. An installation may read the leases of its own namespace alone, so what
//! decides about another one in another namespace are the leases of the binding's virtual nodes ([`silence`]). An installation that is
//! gone is followed after its lease has lasted, counted since this replica saw it change last; the leases of the nodes are renewed
//! again before that of the default 40 s has ended. A text that names no Lease is no name of an installation.

pub mod silence;

use std::fmt;
use std::time::Duration;

use topoloom_core::rules::{LABEL_MAX, is_object_name};
use topoloom_core::version::ResourceVersion;

/// How long a Lease lasts that says nothing of it.
const USUAL: Duration = Duration::from_secs(15);
/// How long one counts that no replica stands for: a process that runs without elections raises its counter each minute.
const UNELECTED: Duration = Duration::from_secs(180);
/// The longest that any counts, whatever it says.
const LONGEST: Duration = Duration::from_secs(3600);

/// Whose a binding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server<'a> {
    /// No installation has written its name.
    None,
    /// Ours.
    Us,
    /// That with this Lease.
    Another(&'a str),
}

/// Whose a binding is whose status names this Lease, where ours is that one.
#[must_use]
pub fn server<'a>(stored: Option<&'a str>, ours: &str) -> Server<'a> {
    match stored {
        Some(stored) if stored == ours => Server::Us,
        Some(stored) if place(stored).is_some() => Server::Another(stored),
        Some(_) | None => Server::None,
    }
}

/// Namespace and name of a Lease, as the status has them; nothing where there can be no Lease of that name.
#[must_use]
pub fn place(stored: &str) -> Option<(&str, &str)> {
    let (namespace, name) = stored.split_once('/')?;
    let is_namespace = namespace.len() <= LABEL_MAX && !namespace.contains('.') && is_object_name(namespace).is_ok();
    (is_namespace && is_object_name(name).is_ok()).then_some((namespace, name))
}

/// Why the name of this installation could not be written into the status of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnamed {
    /// Another write was first, and it may be that of another installation.
    Outrun,
    /// The write was refused for another reason, or not answered.
    Refused,
}

/// Whether a binding is served by an installation whose name is not in its status, where this many virtual nodes of the binding are
/// known. Those need their leases: where they are not renewed pods are evicted. Where there is none nothing is lost by waiting, and
/// another installation may be first.
#[must_use]
pub fn serves_unnamed(why: Unnamed, nodes: usize) -> bool {
    match why {
        Unnamed::Outrun => false,
        Unnamed::Refused => nodes > 0,
    }
}

/// What a look shows of the Lease of another installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseLook {
    /// There is none.
    Absent,
    /// Its last holder gave it back.
    Released,
    /// No replica stands for it: the installation runs without elections.
    Unelected(ResourceVersion),
    /// It is held.
    Held {
        /// In this version.
        version: ResourceVersion,
        /// How long it lasts, where it says so.
        lasts: Option<Duration>,
    },
}

/// Where the Lease of another installation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In our own namespace.
    Home,
    /// In another one.
    Elsewhere,
}

/// Whether another installation is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is gone: the binding may be taken over.
    Gone,
    /// It is, as far as is known. Look again after this time.
    There(Duration),
}

/// What one replica has seen of the Lease of another installation. Times are those of a clock that cannot be set.
#[derive(Debug, Clone, Default)]
pub struct Vigil {
    /// The version that was seen last, and when that was seen first.
    seen: Option<(ResourceVersion, Duration)>,
}

impl Vigil {
    /// Looks at it.
    pub fn look(&mut self, look: LeaseLook, place: Place, now: Duration) -> Presence {
        let (version, lasts) = match (look, place) {
            (LeaseLook::Absent | LeaseLook::Released, _) => return Presence::Gone,
            // One process that runs without elections is the only one of its namespace: it is the one before this.
            (LeaseLook::Unelected(_), Place::Home) => return Presence::Gone,
            (LeaseLook::Unelected(version), Place::Elsewhere) => (version, UNELECTED),
            (LeaseLook::Held { version, lasts }, _) => (version, lasts.unwrap_or(USUAL).clamp(USUAL / 15, LONGEST)),
        };
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            Some(_) | None => now,
        };
        self.seen = Some((version, since));
        let left = lasts.saturating_sub(now.saturating_sub(since));
        if left.is_zero() { Presence::Gone } else { Presence::There(left) }
    }
}

impl fmt::Display for Server<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no installation serves it"),
            Self::Us => f.write_str("this installation serves it"),
            Self::Another(lease) => write!(f, "another installation serves it, with the Lease {lease}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn held(version: &str, lasts: u64) -> LeaseLook {
        LeaseLook::Held { version: version.into(), lasts: Some(Duration::from_secs(lasts)) }
    }

    #[test]
    fn s11_a_binding_is_of_the_installation_whose_lease_its_status_names() {
        assert_eq!(server(None, "a/x"), Server::None);
        assert_eq!(server(Some(""), "a/x"), Server::None);
        assert_eq!(server(Some("a/x"), "a/x"), Server::Us);
        assert_eq!(server(Some("b/x"), "a/x"), Server::Another("b/x"));
        assert_eq!(place("b/x.y"), Some(("b", "x.y")));
    }

    #[test]
    fn s11_without_its_name_in_the_status_an_installation_goes_on_with_nodes_that_exist_and_begins_nothing() {
        assert!(serves_unnamed(Unnamed::Refused, 1));
        assert!(!serves_unnamed(Unnamed::Refused, 0));
        assert!(!serves_unnamed(Unnamed::Outrun, 100), "another one was first");
    }

    #[test]
    fn s11_a_text_that_can_name_no_lease_is_no_name_of_an_installation() {
        let long = [format!("{}/x", "b".repeat(64)), format!("b/{}", "x".repeat(254))];
        let texts = ["x", "/x", "b/", "", "/", "b/x/y", "b.c/x", "B/x", "b/X", " b/x", "b/x\n", "a person wrote this"];
        for text in texts.into_iter().chain(long.iter().map(String::as_str)) {
            assert_eq!(place(text), None, "{text:?}");
            assert_eq!(server(Some(text), "a/x"), Server::None, "{text:?}");
        }
        let longest = format!("{}/{}", "b".repeat(63), "x".repeat(253));
        assert_eq!(server(Some(&longest), "a/x"), Server::Another(&longest));
    }

    #[test]
    fn s11_another_installation_is_gone_when_its_lease_is_or_was_given_back() {
        for look in [LeaseLook::Absent, LeaseLook::Released] {
            for place in [Place::Home, Place::Elsewhere] {
                assert_eq!(Vigil::default().look(look.clone(), place, S), Presence::Gone, "{look:?}");
            }
        }
        let unelected = || LeaseLook::Unelected("7".into());
        assert_eq!(Vigil::default().look(unelected(), Place::Home, S), Presence::Gone);
        let mut vigil = Vigil::default();
        assert_eq!(vigil.look(unelected(), Place::Elsewhere, S), Presence::There(UNELECTED));
        assert_eq!(vigil.look(unelected(), Place::Elsewhere, S + UNELECTED), Presence::Gone);
    }

    #[test]
    fn s11_a_lease_that_is_renewed_is_there_and_one_that_is_not_is_gone_once_it_has_lasted() {
        let mut vigil = Vigil::default();
        assert_eq!(
            vigil.look(held("1", 15), Place::Home, 100 * S),
            Presence::There(15 * S),
            "whatever it has done before"
        );
        assert_eq!(vigil.look(held("2", 15), Place::Home, 115 * S), Presence::There(15 * S));
        assert_eq!(vigil.look(held("2", 15), Place::Home, 125 * S), Presence::There(5 * S));
        assert_eq!(vigil.look(held("2", 15), Place::Home, 130 * S), Presence::Gone);
        // What it says of its own time is bounded.
        let first = |lasts| Vigil::default().look(held("1", lasts), Place::Home, S);
        assert_eq!((first(0), first(1_000_000)), (Presence::There(S), Presence::There(LONGEST)));
        let silent = LeaseLook::Held { version: "1".into(), lasts: None };
        assert_eq!(Vigil::default().look(silent, Place::Home, S), Presence::There(USUAL));
    }

    proptest! {
        /// An installation that renews its lease in time never counts as gone, at whatever moments it is looked at; one that has
        /// stopped does, at the first look after its lease has lasted.
        #[test]
        fn s11_no_installation_that_lives_is_taken_over_and_one_that_is_gone_is(
            lasts in 1..60_u64, stops in 0..200_u64, looks in prop::collection::vec(1..90_u64, 1..40),
        ) {
            let (mut vigil, mut now, mut first_after) = (Vigil::default(), 0, None);
            for pause in looks {
                now += pause;
                // It is renewed each second.
                let version = now.min(stops).to_string();
                let presence = vigil.look(held(&version, lasts), Place::Elsewhere, Duration::from_secs(now));
                if now >= stops {
                    let since = *first_after.get_or_insert(now);
                    prop_assert_eq!(presence == Presence::Gone, now - since >= lasts, "{} s", now);
                } else {
                    prop_assert!(presence != Presence::Gone, "{} s", now);
                }
            }
        }
    }
}
