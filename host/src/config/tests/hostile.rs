//! Hostile texts: reading is total and bounded.

use super::*;
use proptest::prelude::*;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Of processor time, which other work on the machine does not count to. Generous for a debug build; a quadratic reader of one
/// megabyte takes minutes.
const BOUND: Duration = Duration::from_secs(20);

/// How long this thread has computed.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// Any outcome, soon.
#[track_caller]
fn survives(text: &str) -> Result<Document, Error> {
    let start = computed();
    let result = parse(text);
    let took = computed().saturating_sub(start);
    assert!(took < BOUND, "{took:?} for {} bytes beginning {:?}", text.len(), &text[..40.min(text.len())]);
    result
}

#[test]
fn a_document_larger_than_a_configmap_is_refused() {
    assert!(matches!(survives(&"#".repeat((1 << 20) + 1)), Err(Error::TooLarge { .. })));
    assert!(survives(&"#".repeat(1 << 20)).is_ok());
}

#[test]
fn depth_is_bounded() {
    for open in ["[", "{a: ", "- ", "? "] {
        let result = survives(&open.repeat(200_000));
        assert!(matches!(result, Err(Error::TooDeep { .. } | Error::Syntax { .. })), "{open:?}: {result:?}");
    }
    let lines: String = (0..500).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(matches!(survives(&lines), Err(Error::TooDeep { .. })));
}

#[test]
fn aliases_cannot_multiply_a_document() {
    let mut lines = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        lines.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    assert!(matches!(survives(&lines), Err(Error::TooManyAliases { .. })));

    // One long text, often.
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1_000].join(", "));
    assert!(matches!(survives(&text), Err(Error::TooManyAliases { .. })));

    // One long mapping, merged often.
    let keys: String = (0..1_000).map(|key| format!("k{key}: 1, ")).collect();
    let text = format!("a: &a {{{keys}}}\nb: {{<<: [{}]}}\n", vec!["*a"; 10_000].join(", "));
    assert!(matches!(survives(&text), Err(Error::TooManyAliases { .. })));
}

/// A quadratic reader of a part of the largest document takes minutes, too.
#[test]
fn large_flat_documents_are_read_in_good_time() {
    for (unit, size) in
        [("- {source: a, enabled: true}\n", 1 << 20), ("- &a x\n", 1 << 18), ("- \"\\n\"\n", 1 << 18), ("-\n", 1 << 18)]
    {
        let text = format!("networkTopologyDiscovery:\n{}", unit.repeat((size - 32) / unit.len()));
        let result = survives(&text);
        assert!(result.is_ok(), "{unit:?}: {:?}", result.err());
    }
    let keys: String = (0..100_000).map(|key| format!("k{key}: \n")).collect();
    let document = survives(&keys).unwrap();
    assert!(document.warnings.len() <= 101, "{} warnings", document.warnings.len());
    assert!(document.warnings.last().unwrap().message.contains("not shown"));
    for unit in [
        "a: ", "\"", "'", "|\n", "- |\n ", "&a ", "*a ", "!a ", "? ", ": ", ",", "#\n", "%a\n", "\t", "---\n", "x y ",
        "\n ",
    ] {
        let _ = survives(&unit.repeat((1 << 17) / unit.len()));
    }
}

/// Pieces that documents are made of, so that random texts get past the first line.
fn piece() -> impl Strategy<Value = String> {
    let words = [
        "networkTopologyDiscovery:",
        "\n",
        "\n- ",
        "\n  ",
        "\n    ",
        "source: ",
        "label",
        "enabled: ",
        "true",
        "interval: ",
        "10m",
        "config: ",
        "{",
        "}",
        "[",
        "]",
        ", ",
        ": ",
        "- ",
        "&a ",
        "*a",
        "<<: ",
        "\"",
        "'",
        "|",
        ">",
        "#",
        "!!str ",
        "!!bool ",
        "---\n",
        "...\n",
        "%YAML 1.1\n",
        "~",
        "0x1F",
        "1e400",
        ".inf",
        "-",
        "? ",
        "permissions: ",
        "endpoints: ",
        "url: ",
        "https://h/",
        "plugin: ",
        "limits: ",
        "memory: ",
        "safety: ",
        "credentials: ",
        "secretRef: ",
        "\t",
        "\r\n",
        "é",
        "\u{feff}",
        "\u{0}",
        "\\",
        "%2f",
        "ä",
    ];
    prop_oneof![4 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_a_document_or_an_error(text in ".{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn any_arrangement_of_pieces_gives_a_document_or_an_error(pieces in prop::collection::vec(piece(), 0..60)) {
        let text = pieces.concat();
        if let Ok(document) = parse(&text) {
            let mut sources: Vec<_> = document.entries.iter().filter_map(|entry| entry.source.as_deref()).collect();
            let count = sources.len();
            sources.sort_unstable();
            sources.dedup();
            prop_assert_eq!(sources.len(), count, "one entry per source");
            prop_assert!(document.entries.iter().all(|entry| !matches!(&entry.config, Err(problems) if problems.is_empty())));
            prop_assert_eq!(parse(&text), Ok(document), "the same text reads the same");
        }
    }

    #[test]
    fn a_cut_or_changed_document_gives_a_document_or_an_error(at in 0_usize..400, with in any::<char>()) {
        let whole = entry_with(
            "interval: 10m\nplugin: {configMap: {name: a, key: b}}\npermissions:\n  endpoints: {e: {url: 'https://h', methods: [GET]}}\n\
             limits: {memory: 1Gi}\nconfig: {a: [1, 2.5, yes, ~], b: |\n    text\n  }",
        );
        let at = whole.char_indices().map(|(index, _)| index).nth(at).unwrap_or(whole.len());
        let (before, after) = whole.split_at(at);
        let _ = parse(before);
        let _ = parse(&format!("{before}{with}{after}"));
    }
}

proptest! {
    // The word is another one each time, and all else is the same.
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_text_of_an_entry_reaches_a_message_from_a_private_place(canary in "[a-z]{12}") {
        for lines in [
            format!("credentials: {canary}"),
            format!("credentials: {{secretRef: {{name: {}!}}}}", canary),
            format!("config: [{canary}]"),
            format!("config: {canary}"),
            format!("permissions: {{endpoints: {{e: {{url: 'https://u:{canary}@h'}}}}}}"),
            format!("permissions: {{endpoints: {{e: {{url: 'https://h', paths: ['{canary}']}}}}}}"),
        ] {
            let document = document(&entry_with(&lines));
            let shown = format!("{document:?} {document:#?}");
            prop_assert!(!shown.contains(&canary), "{}", shown);
        }
    }
}
