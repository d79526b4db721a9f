//! The plugins that the program carries in itself: the same components that anybody else would build (`build.rs`), as
//! bytes.
//!
//! A crate of its own, so that a change below `plugins/` builds these bytes and the program anew, and no library of the
//! host; and so that no such library needs the WebAssembly target. Only programs and tests depend on it. It never says
//! what a plugin may do: that is a matter of its bytes, and the sandbox's.

use topoloom_core::plugin::Embedded;

macro_rules! embedded {
    ($name:literal) => {
        Embedded {
            name: $name,
            component: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".wasm")),
            image: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".image")),
        }
    };
}

/// All of them.
pub static ALL: [Embedded; 3] = [embedded!("label"), embedded!("ufm"), embedded!("roce")];
