//! Lines for the host's log. The host adds source, digest and round; it keeps at most 200 lines of 4 KiB per call.

pub use crate::bindings::topoloom::discovery::log::Level;

/// For the author who debugs this discoverer.
///
/// ```
/// topoloom_sdk::log::debug("page 3 of 7");
/// ```
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// For the few lines of a normal round.
///
/// ```
/// topoloom_sdk::log::info("625 racks");
/// ```
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Something that an operator may have to look at. For dropped records prefer a diagnostic: it is counted and is in the
/// status.
///
/// ```
/// topoloom_sdk::log::warn("two ports without a peer");
/// ```
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Something is broken.
///
/// ```
/// topoloom_sdk::log::error("the list has no end");
/// ```
pub fn error(message: &str) {
    write(Level::Error, message);
}

/// One line of any level.
///
/// ```
/// use topoloom_sdk::log::{self, Level};
///
/// log::write(Level::Debug, "page 1");
/// ```
pub fn write(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::bindings::topoloom::discovery::log::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    crate::testing::record_log(level, message);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::take_log;

    #[test]
    fn natively_a_test_reads_the_lines_of_its_thread_once() {
        warn("two ports without a peer");
        write(Level::Debug, "page 1");
        let lines = [(Level::Warn, "two ports without a peer".to_owned()), (Level::Debug, "page 1".to_owned())];
        assert_eq!(take_log(), lines);
        assert_eq!(take_log(), []);
    }
}
