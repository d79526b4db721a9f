//! The metrics of the process: one registry, one struct per room, labels from closed sets only.

pub mod catalogue;
pub(super) mod process;
mod rooms;
mod settings;

pub use self::rooms::{Discovery, Lending, Process};
pub use self::settings::{By, SettingMetrics};
