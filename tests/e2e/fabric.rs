//! Fabrics: a host, a real control plane, and fabric managers over TLS that are slow, wrong, half-broken or gone.

mod authorities;
mod canaries;
mod compat;
mod credentials;
mod faults;
mod held;
mod pairs;
mod passing;
mod quiet;
mod rig;
mod roce;
