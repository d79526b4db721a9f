//! Ethernet fabrics: what nodes hear by LLDP, what a service says, what people write down.

mod annotation;
mod by_hand;
mod policy;
mod rig;
mod service;
mod token;
