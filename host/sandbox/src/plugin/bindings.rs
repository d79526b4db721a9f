//! One module of generated bindings per version of the interface, and one face before them.
//!
//! A released version is never edited, so its module only changes when the model behind it does. A new version is a new
//! module, a new variant of [`Pre`] and a new arm in [`Linkers`]; nothing outside this room notices.

pub(super) mod v0_1;

use topoloom_core::plugin::{Answer, Description, Requirements};
use wasmtime::component::{Component, Linker};
use wasmtime::{Engine, Store};

use super::call::{NoAnswer, RoundInput};
use super::guest::Guest;
use super::load::LoadError;
use super::scan::Version;

/// The imports of every version that this host supports.
pub(super) struct Linkers {
    v0_1: Linker<Guest>,
}

impl Linkers {
    pub(super) fn new(engine: &Engine) -> wasmtime::Result<Self> {
        Ok(Self { v0_1: v0_1::linker(engine)? })
    }

    /// Connects imports and finds exports, once for all calls.
    pub(super) fn link(&self, version: Version, component: &Component) -> Result<Pre, LoadError> {
        let link = |error: wasmtime::Error| LoadError::Link { cause: super::chain(&error) };
        Ok(match version {
            Version::V0_1 => {
                let pre = self.v0_1.instantiate_pre(component).map_err(link)?;
                Pre::V0_1(v0_1::PluginPre::new(pre).map_err(link)?)
            }
        })
    }
}

/// A linked plugin of some version.
pub(super) enum Pre {
    V0_1(v0_1::PluginPre<Guest>),
}

impl Pre {
    pub(super) async fn start(&self, store: &mut Store<Guest>) -> Result<(), NoAnswer> {
        match self {
            Self::V0_1(pre) => v0_1::start(pre, store).await,
        }
    }

    pub(super) async fn describe(&self, store: &mut Store<Guest>) -> Result<Description, NoAnswer> {
        match self {
            Self::V0_1(pre) => v0_1::describe(pre, store).await,
        }
    }

    pub(super) async fn configure(&self, store: &mut Store<Guest>, config: &str) -> Result<Requirements, NoAnswer> {
        match self {
            Self::V0_1(pre) => v0_1::configure(pre, store, config).await,
        }
    }

    pub(super) async fn discover(&self, store: &mut Store<Guest>, round: &RoundInput) -> Result<Answer, NoAnswer> {
        match self {
            Self::V0_1(pre) => v0_1::discover(pre, store, round).await,
        }
    }
}
