//! Durations and sizes: their grammars.

use crate::config::{duration, size};
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn durations_follow_gos_grammar() {
    let nanoseconds = |text: &str| duration::parse(text).map(|it| it.nanoseconds());
    for (text, wanted) in [
        ("0", 0),
        ("-0", 0),
        ("+0", 0),
        ("1ns", 1),
        ("1us", 1_000),
        ("1\u{b5}s", 1_000),
        ("1\u{3bc}s", 1_000),
        ("1ms", 1_000_000),
        ("90s", 90_000_000_000),
        ("1h15m30s", 4_530_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("1h1h", 7_200_000_000_000),
        (".5s", 500_000_000),
        ("5.s", 5_000_000_000),
        ("-3m", -180_000_000_000),
        ("+3m", 180_000_000_000),
        ("1.0000000009s", 1_000_000_000),
        ("0.3333333333333333333333h", 1_200_000_000_000 - 1),
        ("9223372036854775807ns", i64::MAX),
        ("-9223372036854775808ns", i64::MIN),
    ] {
        assert_eq!(nanoseconds(text), Some(wanted), "{text}");
    }
    for text in [
        "",
        "-",
        "+",
        "1",
        "s",
        ".s",
        ".",
        "1 s",
        " 1s",
        "1s ",
        "1d",
        "1S",
        "1H",
        "--1s",
        "+-1s",
        "1e3s",
        "0x1s",
        "1,5s",
        "00",
        "9223372036854775808ns",
        "300000000h",
        "1h-1m",
        "٣s",
        "99999999999999999999999999999999999999999999h",
    ] {
        assert_eq!(nanoseconds(text), None, "{text:?}");
    }
}

#[test]
fn sizes_are_kubernetes_quantities() {
    let bytes = |text: &str| size::parse(text).map(|it| it.as_u64());
    for (text, wanted) in [
        ("0", 0),
        ("42", 42),
        ("+42", 42),
        ("256Mi", 256 << 20),
        ("1k", 1_000),
        ("1Ki", 1_024),
        ("1M", 1_000_000),
        ("1G", 1_000_000_000),
        ("0.5Gi", 512 << 20),
        (".5Gi", 512 << 20),
        ("1.Gi", 1 << 30),
        ("1e6", 1_000_000),
        ("1E6", 1_000_000),
        ("1E", 1_000_000_000_000_000_000),
        ("0.0001Ki", 1),
    ] {
        assert_eq!(bytes(text), Some(wanted), "{text}");
    }
    for text in
        ["", "Mi", "-1", "1mi", "1MB", "1 Mi", "1m", "1u", "1.2.3", ".", "1e", "1e-1", "1e99", "20E", "lots", "1K"]
    {
        assert_eq!(bytes(text), None, "{text:?}");
    }
}

proptest! {
    #[test]
    fn a_formatted_duration_reads_back(nanoseconds in 0_u64..=i64::MAX as u64) {
        let given = Duration::from_nanos(nanoseconds);
        let read = duration::parse(&duration::format(given)).and_then(|it| it.non_negative());
        prop_assert_eq!(read, Some(given));
    }

    #[test]
    // More digits than a quantity may have are refused.
    fn a_formatted_size_reads_back(bytes in 0_u64..1_000_000_000_000_000_000, shift in 0_u32..40) {
        let given = size::ByteSize::bytes(bytes >> shift << shift);
        prop_assert_eq!(size::parse(&given.to_string()), Some(given));
    }

    #[test]
    fn readers_are_total(text in "[-+.0-9a-zA-Zµμ ]{0,40}") {
        let _ = duration::parse(&text);
        let _ = size::parse(&text);
    }
}
