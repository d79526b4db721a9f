//! Ethernet fabrics: what nodes receive by LLDP, what a service reports, what people write by hand.

mod annotation;
mod by_hand;
mod policy;
mod rig;
mod service;
mod token;
