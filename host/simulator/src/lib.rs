//! Fabric managers to try things on: a UFM and a server of fabric documents, over one generated fabric.
//!
//! For tests, benchmarks, the demo, and for operators who want to see what a slow, wrong or broken manager does to their
//! cluster before it happens. Speaks the real wire formats; depends on nothing of topoloom, so nothing it says is true
//! only because both sides share code.
//!
//! - `fabric`: hosts, switches, cables; pure and the same for the same seed.
//! - `wire`: JSON, written fast and piece by piece.
//! - `ufm`, `document`: the two APIs.
//! - `fault`: what can be wrong.
//! - `server`: listener, TLS, credentials, record; carries the faults out.
//! - `standalone`: the whole as a program.
//!
//! ```no_run
//! use topoloom_simulator::{Credentials, Fabric, Fault, LinkState, Shape, Ufm};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let fabric = Fabric::generate(&"units=4,rails=8,seed=7".parse::<Shape>()?)?;
//! let ufm = Ufm::builder(fabric).credentials(Credentials::none().token("t0ken")).start().await?;
//! println!("{} trusts\n{}", ufm.url(), ufm.ca_pem().unwrap_or_default());
//! ufm.fabric().edit(|fabric| fabric.cut_host("gpu-00003", LinkState::Unplugged))?;
//! ufm.faults().set("status:429:30 times=2".parse::<topoloom_simulator::FaultRule>()?).await?;
//! ufm.until(|counters| counters.requests >= 3).await;
//! ufm.faults().set(Fault::EmptyList).await?;
//! ufm.stop().await;
//! # Ok(())
//! # }
//! ```

mod document;
mod error;
mod fabric;
mod fault;
mod server;
mod standalone;
mod ufm;
mod value;
mod wire;

pub use document::{Chassis, Coverage, DocumentSettings, FabricDocument};
pub use error::Error;
pub use fabric::{
    Edit, EditHelp, End, Fabric, FabricCounts, Field, Guid, Hca, HcaRole, Host, HostKind, Layer, Link, LinkState,
    Management, Missing, NamePattern, Naming, PortName, Shape, SharedFabric, Switch, Versions,
};
pub use fault::{Fault, FaultHelp, FaultRule};
pub use server::{
    Authority, Builder, ClientCertificate, Counters, Credentials, Faults, Marked, Presented, Request, Simulator,
    Validity,
};
pub use standalone::{Options, Running, Transport, client_name, run};
pub use ufm::{Filters, Keys, Scheme, Ufm, UfmSettings};
pub use value::BadValue;
pub use wire::Layout;
