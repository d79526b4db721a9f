//! Text that is put together piece by piece. A `String` takes everything, so there is no result to look at.

/// Appends formatted text to a `String`.
macro_rules! push {
    ($text:expr, $($format:tt)*) => {
        $text.push_str(&format!($($format)*))
    };
}

/// Appends a formatted line to a `String`.
macro_rules! push_line {
    ($text:expr, $($format:tt)*) => {{
        $text.push_str(&format!($($format)*));
        $text.push('\n');
    }};
}
