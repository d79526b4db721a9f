//! What follows for one physical node and the virtual node that stands for it (`bottomup-syncer.md` 6.2, decisions S1 to S28).
//!
//! Owns the order in which the other rooms are asked, and the orders that come out: which request is sent, with which body
//! and under which version. The controller carries them out one after the other and stops at the first that fails; `lend
//! plan` prints the very same ones; `lend explain` shows [`Details`].
//!
//! ```text
//! facts ─► course (whose is it, does it go, is it lent) ─► draft ─► what the guard has to allow ─► orders
//! ```
//!
//! A decision has two steps, because the guard (decision S9) counts over all nodes of a binding: [`draft`] says which acts
//! would disrupt ([`Draft::acts`]), and [`Draft::conclude`] gives the orders under the answer of the guard.
//!
//! Never: sends anything, remembers anything ([`Memory`] is the caller's, and so is [`Unstored`], which takes out of a decision
//! what an API server does not store), or trusts a cache that something is gone: it asks for a live read.
//!
//! # Failure story
//!
//! A fact that is missing (policies not listed, the node not listed, a binding that was not looked up) leads to no order, or to
//! a question. An object that is not ours gets none at all. Where something forbids a write ([`Bars`](super::bars::Bars)) the rest is
//! still done: a lease is renewed although nothing else may be written.

mod astray;
mod course;
mod earlier_id;
#[cfg(any(test, feature = "examples"))]
pub mod examples;
mod facts;
mod lend;
mod objects;
mod orders;
#[cfg(test)]
pub(crate) mod scene;
#[cfg(test)]
mod tests;
mod unstored;
mod withdraw;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

pub use self::astray::{Astray, leave_astray};
pub use self::course::Course;
use self::course::course;
pub use self::earlier_id::{EarlierId, Traces, Whereabouts};
pub use self::facts::{
    Binding, Chained, Facts, KubeletEndpoint, LentNode, LentPod, LifeFacts, LiveLent, LiveNode, Memory, NodeClaims,
    Now, Physical, PhysicalNode, PodsBy, VerbOnNode,
};
use self::lend::Lending;
pub use self::lend::{Details, Window};
pub use self::orders::{NodeOrder, PhysicalChange, PodRemoval, RemovalMeans};
pub use self::unstored::{Answer, LeftOut, Unstored};
use super::bars::{Bar, Doing};
use super::deletion::{DeletionCause, Leave};
use super::guard::{Act, Cause};
use super::identity::{Claim, WhyForeign};
use super::liveness::{Conditions, Lease};
use super::naming::{NameError, NameTaken};
use super::policy::in_force::InForce;
use topoloom_core::names::{NodeName, Uid};

/// What is decided about a node before the guard was asked.
#[derive(Debug)]
pub struct Draft<'a> {
    facts: &'a Facts<'a>,
    now: Now,
    name: Result<NodeName, NameError>,
    plan: Plan<'a>,
}

/// What a node is on its way to.
#[derive(Debug)]
enum Plan<'a> {
    /// Nothing follows.
    Rest(Rest<'a>),
    /// Something has to be read first.
    Ask(Question),
    /// It is lent.
    Lend(Box<Lending<'a>>),
    /// Its virtual node goes.
    Withdraw(DeletionCause),
}

/// Why nothing follows for a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Rest<'a> {
    /// Neither of the two nodes exists.
    Absent,
    /// Its labels say that it is no machine to lend (6.1), or a virtual node of another syncer (decision S22).
    NotLendable(NotLendable),
    /// Its name gives no name for a virtual node.
    NoName(NameError),
    /// Nothing lends it.
    NotLent(InForce<'a>),
    /// It would go, and nothing of it is left.
    Left(DeletionCause),
    /// The virtual node of that name is another's.
    Foreign(WhyForeign),
    /// The virtual node is ours, and lacks these labels of identity: nothing but its lease may be written.
    Stripped(Vec<&'static str>),
    /// The virtual node is ours, has the name that this physical node would give, and names another one; and this one does not exist.
    Astray,
    /// The virtual node of that name stands for another physical node: two names give one.
    NameTaken(NameTaken),
    /// The cache is behind a live read: it will follow.
    CacheBehind,
    /// Another binding or borrower claims the physical node.
    Claimed(Claim),
    /// Nothing is known of physical nodes yet.
    Unlisted,
    /// Something forbids what would follow.
    Barred(Bar),
}

/// Why a node is never lent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotLendable {
    /// A label that virtual nodes of any system carry.
    VirtualNode {
        /// Its key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// Another topoloom made it, and the binding has no `allowChained`.
    Chained,
}

/// What has to be read live before anything can be decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The physical node of that name.
    PhysicalNode,
    /// Whether a ClusterBinding with this UID exists.
    Binding(Uid),
    /// The virtual node of the name that the physical one gives: before a claim is released.
    LentNode,
    /// The pods of the virtual node: before it is deleted.
    PodsOfNode,
}

/// What follows for a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeDecision<'a> {
    /// In a word and a sentence.
    pub state: NodeState<'a>,
    /// What to do, in this order.
    pub orders: Vec<NodeOrder>,
    /// What would have to be done, and is left out: [`Unstored::sift`] finds it.
    pub left_out: Vec<LeftOut>,
    /// Its lease; `None` where there is no virtual node of ours.
    pub lease: Option<Lease>,
    /// When the answer changes by itself. By the wall clock, since windows and graces are.
    pub next: Option<Timestamp>,
    /// When the answer changes by itself. By the steady clock.
    pub next_steady: Option<Duration>,
    /// What was computed on the way, where the node is lent.
    pub details: Option<Box<Details>>,
}

/// What a node is, for reports.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeState<'a> {
    /// Nothing follows.
    Rest(Rest<'a>),
    /// Something is read first.
    Asking(Question),
    /// It is lent.
    Lent,
    /// Its virtual node goes.
    Leaving(DeletionCause),
}

/// Decides about a node as far as the guard is not needed.
#[must_use]
pub fn draft<'a>(facts: &'a Facts<'a>, now: Now) -> Draft<'a> {
    let name = super::naming::virtual_node_name(&facts.binding.cluster, facts.name);
    let plan = match course(facts) {
        Course::Rest(rest) => Plan::Rest(rest),
        Course::Ask(question) => Plan::Ask(question),
        Course::Withdraw(cause) => Plan::Withdraw(cause),
        Course::Lend(physical, in_force) => match &name {
            Ok(name) => Plan::Lend(Box::new(Lending::of(facts, physical, name.clone(), in_force, now))),
            Err(error) => Plan::Rest(Rest::NoName(error.clone())),
        },
    };
    Draft { facts, now, name, plan }
}

impl<'a> Draft<'a> {
    /// What would disrupt, and why. The caller asks the guard for each of them, and again for as long as they are there.
    #[must_use]
    pub fn acts(&self) -> Option<(Cause, Vec<Act>)> {
        let name = self.name.as_ref().ok()?;
        match &self.plan {
            Plan::Rest(_) | Plan::Ask(_) => None,
            Plan::Lend(lending) => lending.acts(self.facts, name),
            Plan::Withdraw(cause) => withdraw::acts(self.facts, *cause, name),
        }
    }

    /// Whether something has to be read before it is known what would disrupt. What the caller asked the guard for before stays
    /// asked for until then.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        matches!(self.plan, Plan::Ask(_))
    }

    /// What follows, under the answer of the guard to all acts together. Without acts the answer does not matter.
    #[must_use]
    pub fn conclude(self, leave: Leave) -> NodeDecision<'a> {
        let Self { facts, now, plan, .. } = self;
        let mut decision = match plan {
            Plan::Rest(Rest::Astray) => {
                let mut decision = NodeDecision::new(NodeState::Rest(Rest::Astray));
                decision.orders = self::astray::orders(facts);
                decision
            }
            Plan::Rest(rest) => {
                let mut decision = NodeDecision::new(NodeState::Rest(rest));
                decision.lease = waiting_lease(facts, now);
                decision
            }
            Plan::Ask(question) => {
                let mut decision = NodeDecision::new(NodeState::Asking(question.clone()));
                decision.orders.push(NodeOrder::Ask(question));
                decision.lease = waiting_lease(facts, now);
                decision
            }
            Plan::Withdraw(cause) => withdraw::conclude(facts, cause, leave, now),
            Plan::Lend(lending) => lending.conclude(facts, leave, now),
        };
        if facts.bars.forbid(Doing::Renew).is_some() {
            decision.lease = None;
        }
        decision
    }
}

/// The lease of a node about which nothing can be decided yet: it is renewed as its virtual node says, since a lease that
/// stops evicts. That of a node which lacks labels of identity, too.
fn waiting_lease(facts: &Facts<'_>, now: Now) -> Option<Lease> {
    let is_ours = |lent: &&LentNode| facts.is_ours(lent) || facts.stripped(lent).is_some();
    facts.lent.filter(is_ours).or_else(|| facts.hidden())?;
    Some(facts.liveness(now.steady).lease)
}

impl<'a> NodeDecision<'a> {
    fn new(state: NodeState<'a>) -> Self {
        let (orders, left_out) = (Vec::new(), Vec::new());
        Self { state, orders, left_out, lease: None, next: None, next_steady: None, details: None }
    }

    /// The answer changes at this time, if not earlier.
    fn until(&mut self, at: Timestamp) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// The same by the steady clock.
    fn until_steady(&mut self, at: Duration) {
        self.next_steady = Some(self.next_steady.map_or(at, |next| next.min(at)));
    }
}

/// Whether the conditions of a virtual node are ours to write now.
fn are_ours(conditions: Conditions) -> bool {
    match conditions {
        Conditions::Mirror | Conditions::Heal | Conditions::SayUnknown => true,
        Conditions::Leave => false,
    }
}

impl fmt::Display for NotLendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VirtualNode { key, value } => write!(f, "its label {key}={value} says that it is no machine"),
            Self::Chained => f.write_str(
                "it is a virtual node that another topoloom made; spec.allowChained of the binding would lend it on",
            ),
        }
    }
}

impl fmt::Display for Rest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str("the node does not exist"),
            Self::NotLendable(why) => write!(f, "not lent: {why}"),
            Self::NoName(why) => write!(f, "not lent: {why}"),
            Self::NotLent(in_force) => write!(f, "not lent: {in_force}"),
            Self::Left(cause) => write!(f, "not lent: {cause}"),
            Self::NameTaken(why) => {
                write!(f, "not lent, another physical node has the name of its virtual node: {why}")
            }
            Self::CacheBehind => f.write_str("the cache of nodes is behind what a live read showed"),
            Self::Foreign(why) => write!(f, "the virtual node of that name is left alone: {why}"),
            Self::Stripped(keys) => {
                write!(
                    f,
                    "only the lease of the virtual node is renewed until a person writes its labels again: {} is missing",
                    keys.join(" and ")
                )
            }
            Self::Astray => f.write_str("the virtual node of that name leads to no physical node, and is not renewed"),
            Self::Claimed(claim) => write!(f, "not lent: {claim}"),
            Self::Unlisted => f.write_str("the physical nodes are not listed yet"),
            Self::Barred(bar) => write!(f, "nothing is written: {bar}"),
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PhysicalNode => f.write_str("the physical node is read"),
            Self::Binding(uid) => write!(f, "it is looked up whether a ClusterBinding with the UID {uid} exists"),
            Self::LentNode => f.write_str("the virtual node is read"),
            Self::PodsOfNode => f.write_str("the pods of the virtual node are read"),
        }
    }
}

impl fmt::Display for NodeState<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rest(rest) => rest.fmt(f),
            Self::Asking(question) => question.fmt(f),
            Self::Lent => f.write_str("lent"),
            Self::Leaving(cause) => write!(f, "its virtual node goes: {cause}"),
        }
    }
}
