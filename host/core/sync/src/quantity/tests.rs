//! Texts against a table that Kubernetes' own code (apimachinery 0.36.3) has answered, and arithmetic against plain integers.

use proptest::prelude::*;

use super::*;

fn q(text: &str) -> Quantity {
    text.parse().unwrap()
}

fn shown(text: &str) -> String {
    q(text).to_string()
}

#[test]
fn each_text_has_the_canonical_form_of_kubernetes() {
    for (text, canonical) in [
        ("0", "0"),
        ("-0", "0"),
        ("0Gi", "0"),
        ("0e5", "0"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("+5", "5"),
        ("-5", "-5"),
        ("1.G", "1G"),
        ("007", "7"),
        ("1.500", "1500m"),
        ("1500m", "1500m"),
        ("24500m", "24500m"),
        ("24000m", "24"),
        ("100000", "100k"),
        ("200000000000", "200G"),
        ("1000n", "1u"),
        ("1000000u", "1"),
        ("123456789n", "123456789n"),
        ("12M", "12M"),
        ("1E", "1E"),
        ("9E", "9E"),
        ("5E3", "5e3"),
        ("5e0", "5"),
        ("50e-1", "5"),
        ("12e6", "12e6"),
        ("1200e4", "12e6"),
        ("15e-10", "2e-9"),
        ("1e+2", "100"),
        ("64Gi", "64Gi"),
        ("131072Mi", "128Gi"),
        ("115964116992Ki", "108Ti"),
        ("1024Ki", "1Mi"),
        ("1Ki", "1Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1.3Ki", "1331200m"),
        ("0.0001Ki", "102400u"),
        ("0.00001Gi", "10737418240u"),
        ("-1.5Gi", "-1536Mi"),
        ("7Ei", "7Ei"),
        ("15432108Ki", "15432108Ki"),
    ] {
        assert_eq!(shown(text), canonical, "{text}");
    }
}

#[test]
fn a_number_of_bytes_in_the_binary_format_is_written_with_its_suffix() {
    let bytes = |number: i128| Quantity::from_nanos(number * UNIT, Format::BinarySi).to_string();
    assert_eq!(bytes(115_964_116_992), "108Gi");
    assert_eq!(bytes(69_578_470_195), "69578470195");
    assert_eq!(bytes(1_024), "1Ki");
    assert_eq!(bytes(1_023), "1023");
    assert_eq!(bytes(1_000), "1k");
    assert_eq!(bytes(-2_048), "-2Ki");
}

#[test]
fn too_little_becomes_a_billionth_and_too_much_the_limit() {
    for (text, canonical) in [
        ("0.1n", "1n"),
        ("1.0000000001", "1000000001n"),
        ("-0.1n", "-1n"),
        ("1e-100", "1e-9"),
        ("1e-2147483648", "1e-9"),
        ("0.00000000000000000001Ki", "1n"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9223372036854775807"),
        ("10E", "9223372036854775807"),
        ("8Ei", "9223372036854775807"),
        ("1e100", "9223372036854775807"),
        ("-1e2147483647", "-9223372036854775807"),
        ("9223372036854775806.9999999999", "9223372036854775807"),
    ] {
        assert_eq!(shown(text), canonical, "{text}");
    }
    let longest = "9".repeat(MAX_TEXT);
    assert_eq!(q(&longest), Quantity::MOST);
    assert_eq!(shown(&format!("{}1", "0".repeat(MAX_TEXT - 1))), "1");
}

#[test]
fn what_is_no_quantity_is_refused_with_the_reason() {
    for length in ["", &"1".repeat(MAX_TEXT + 1)] {
        assert_eq!(Quantity::parse(length), Err(QuantityError::Length(length.len())));
    }
    for text in [".", "+", "-", "k", "Ki", "+.", "1.2.3", "..1", "+-1", " 1", "four", "\u{663}"] {
        assert_eq!(Quantity::parse(text), Err(QuantityError::Number(text.into())), "{text}");
    }
    for text in
        ["1 ", "1K", "1ki", "1mi", "1Mib", "1kk", "1e", "1e+", "1e1.5", "1ee3", "1Ki5", "1m3", "1,5", "0x10", "1\u{b5}"]
    {
        assert_eq!(Quantity::parse(text), Err(QuantityError::Suffix(text.into())), "{text}");
    }
    for text in ["1e2147483648", "0e-2147483649", "1E99999999999999999999"] {
        assert_eq!(Quantity::parse(text), Err(QuantityError::Exponent(text.into())), "{text}");
    }
    assert_eq!(
        Quantity::parse("1K").unwrap_err().to_string(),
        "must end with one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei, with an exponent such as `e3`, or with the \
         number, got \"1K\""
    );
}

#[test]
fn d6_a_percent_is_1_to_100() {
    for percent in [1, 50, 100] {
        assert_eq!(Percent::new(percent).map(|percent| i64::from(percent.get())), Ok(percent));
    }
    for percent in [0, -1, 101, 256, 257, i64::MIN, i64::MAX] {
        let error = Percent::new(percent).unwrap_err().to_string();
        assert_eq!(error, format!("must be from 1 to 100, got {percent}"));
    }
}

#[test]
fn a_share_is_cut_off_at_thousandths_or_at_whole_bytes() {
    let share = |text: &str, percent| q(text).share(Percent::new(percent).unwrap()).to_string();
    assert_eq!(share("26500m", 70), "18550m");
    assert_eq!(share("108Gi", 60), "69578470195");
    assert_eq!(share("7", 33), "2310m");
    assert_eq!(share("333m", 50), "166m");
    assert_eq!(share("1999u", 100), "1m");
    assert_eq!(share("1e3", 1), "10");
    assert_eq!(share("1.5Ki", 1), "15");
    assert_eq!(share("1331200m", 1), "13312m");
    // Thousandths of this number times a hundred need more than 64 bits.
    assert_eq!(share("9223372036854775807", 100), "9223372036854775807");
    assert_eq!(share("92233720368547758", 99), "91311383164862280420m");
    assert_eq!(share("-333m", 50), "-166m");
}

#[test]
fn sums_stop_at_the_limit_and_differences_at_nothing() {
    assert_eq!(q("1").plus(q("500m")).to_string(), "1500m");
    assert_eq!(Quantity::MOST.plus(q("1n")), Quantity::MOST);
    assert_eq!(q("1500m").saturating_sub(q("1")).to_string(), "500m");
    assert_eq!(q("1").saturating_sub(q("1001m")), Quantity::ZERO);
    assert_eq!(q("-1").saturating_sub(q("-3")).to_string(), "2");
    // Nothing takes the format of what it meets.
    assert_eq!(Quantity::ZERO.plus(q("1Gi")).to_string(), "1Gi");
    assert_eq!(q("1Gi").plus(q("1073741824")).to_string(), "2Gi");
    assert_eq!(q("1073741824").plus(q("1Gi")).to_string(), "2147483648");
}

#[test]
fn floor_goes_down() {
    for (text, floor) in [("24500m", "24"), ("24", "24"), ("999999999n", "0"), ("-500m", "-1"), ("1.5Ki", "1536")] {
        assert_eq!(q(text).floor().to_string(), floor, "{text}");
    }
}

#[test]
fn amounts_are_equal_however_they_are_written() {
    assert_eq!(q("1Ki"), q("1024"));
    assert_eq!(q("1e3"), q("1k"));
    assert!(q("1n") > Quantity::ZERO && q("-1n") < Quantity::ZERO);
}

fn any_format() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::DecimalSi), Just(Format::BinarySi), Just(Format::DecimalExponent)]
}

fn any_quantity() -> impl Strategy<Value = Quantity> {
    let nanos = prop_oneof![
        any::<i64>().prop_map(i128::from),
        any::<i64>().prop_map(|units| i128::from(units) * UNIT),
        (0_u32..8, -2_000_i128..2_000).prop_map(|(step, number)| (number * UNIT) << (10 * step)),
        (0_u32..28, -2_000_i128..2_000).prop_map(|(power, number)| number * 10_i128.pow(power)),
        -MOST..=MOST,
    ];
    (nanos, any_format()).prop_map(|(nanos, format)| Quantity::from_nanos(nanos, format))
}

proptest! {
    /// The format is read back where the text shows it: a number of bytes without a suffix is read as a decimal one.
    #[test]
    fn what_is_written_is_read_as_it_was(quantity in any_quantity()) {
        let text = quantity.to_string();
        let read = q(&text);
        prop_assert_eq!(read.nanos(), quantity.nanos(), "{}", text);
        if quantity.format() != Format::BinarySi || text.ends_with('i') {
            prop_assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn any_text_has_an_answer_and_a_canonical_form(text in "[-+0-9.eEnumkMGTPi]{0,20}|[-+]?[0-9]{0,70}[.]?[0-9]{0,60}([KMGTPE]i)?|\\PC{0,40}") {
        if let Ok(quantity) = Quantity::parse(&text) {
            prop_assert!(quantity.nanos().abs() <= MOST);
            prop_assert!(quantity.to_string().len() <= 30);
            prop_assert_eq!(q(&quantity.to_string()), quantity);
        }
    }

    #[test]
    fn a_number_with_places_is_its_digits(whole in 0_i128..10_000_000_000, places in "[0-9]{1,9}", is_negative in any::<bool>()) {
        let sign = if is_negative { "-" } else { "" };
        let fraction: i128 = format!("{places:0<9}").parse().unwrap();
        let nanos = whole * UNIT + fraction;
        let read = q(&format!("{sign}{whole}.{places}"));
        prop_assert_eq!(read.nanos(), if is_negative { -nanos } else { nanos });
        let kibi = q(&format!("{sign}{whole}.{places}Ki"));
        prop_assert_eq!(kibi.nanos(), 1_024 * read.nanos());
    }

    #[test]
    fn order_sum_difference_and_share_are_those_of_integers(a in any_quantity(), b in any_quantity(), percent in 1_i64..=100) {
        prop_assert_eq!(a.cmp(&b), a.nanos().cmp(&b.nanos()));
        prop_assert_eq!(a.plus(b).nanos(), (a.nanos() + b.nanos()).clamp(-MOST, MOST));
        prop_assert_eq!(a.saturating_sub(b).nanos(), (a.nanos() - b.nanos()).clamp(0, MOST));
        let grain = if a.format() == Format::BinarySi { UNIT } else { MILLI };
        let share = a.nanos() / grain * i128::from(percent) / 100 * grain;
        prop_assert_eq!(a.share(Percent::new(percent).unwrap()).nanos(), share);
        prop_assert!(a.floor() <= a && a.nanos() - a.floor().nanos() < UNIT || a.nanos() < UNIT - MOST);
    }
}
