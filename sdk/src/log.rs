//! Lines for the host's log. They carry source, digest and round already; at most 200 lines of 4 KiB per call count.

pub use crate::bindings::topoloom::discovery::log::Level;

/// For whoever debugs this discoverer.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// The story of a quiet day in a few lines.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Someone may need to look. For records that were dropped prefer a diagnostic: it is counted and reaches the status.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Something is broken.
pub fn error(message: &str) {
    write(Level::Error, message);
}

/// One line of any level.
pub fn write(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::topoloom::discovery::log::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::record_log(level, message);
}
