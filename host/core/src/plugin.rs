//! What a plugin may do and how its calls end, as plain values.
//!
//! Owns the types that the runtime (which needs an engine), the supervisor (which needs a clock) and the configuration
//! (which needs a cluster) share: [`Limits`] and the table behind them ([`Limit`]), [`Permissions`] and what
//! [`grant()`] makes of them, what a discoverer states about itself ([`Description`], [`Requirements`]), and the end of
//! a call ([`Answer`] or [`CallError`]). [`rollout`] decides which bytes are active and which are candidates,
//! [`pacing`] when a source is asked. Never runs a plugin, never reads a clock.
//!
//! Failure story: every way in which a call can end without an answer is a variant of [`CallError`]. Each has its word
//! for metrics ([`CallError::reason`]), and says whether another try can help ([`CallError::retry`]).

pub mod call_error;
pub mod digest;
pub mod embedded;
pub mod grant;
pub mod imports;
pub mod memory;
pub mod model;
pub mod pacing;
pub mod rollout;

pub use crate::limits::{
    Amount, CallLimits, CompileLimits, Limit, LimitSet, LimitSetting, Limits, Profile, ScanLimits, StoreLimits, Unit,
};
pub use call_error::{CallError, Retry, Spent, Transfer, TrapKind, TrapReport, Usage};
pub use digest::Digest;
pub use embedded::Embedded;
pub use grant::{EndpointPermission, Granted, GrantedEndpoint, KeyPattern, NotGranted, Origin, Permissions, grant};
pub use imports::{Import, ImportSet};
pub use model::{
    Answer, Answered, ConfigMapKey, CredentialKind, Description, Endpoint, Failure, Location, Method, Problem,
    Requirements, Tls, Trigger,
};
