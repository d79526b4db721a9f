use proptest::prelude::*;

use super::*;
use crate::texts::TextMap;

fn requirement(key: &str, operator: &str, values: &[&str]) -> RawRequirement {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    RawRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}

fn labels(labels: &[(&str, &str)]) -> TextMap {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn of_labels(requirements: &[RawRequirement]) -> RawTerm {
    RawTerm { match_expressions: requirements.to_vec(), match_fields: vec![] }
}

fn of_names(requirements: &[RawRequirement]) -> RawTerm {
    RawTerm { match_expressions: vec![], match_fields: requirements.to_vec() }
}

fn parse(terms: &[RawTerm]) -> Result<NodeSelector, SelectorError> {
    NodeSelector::parse(&RawNodeSelector { terms: terms.to_vec() })
}

#[test]
fn no_terms_select_every_node_and_an_empty_term_selects_none() {
    let any = labels(&[("a", "b")]);
    assert!(NodeSelector::default().matches("w1", &any));
    assert!(parse(&[]).unwrap().matches("w1", &TextMap::default()));
    let empty = parse(&[RawTerm::default()]).unwrap();
    assert!(!empty.matches("w1", &any));
    // It takes nothing from the other terms.
    let both = parse(&[RawTerm::default(), of_labels(&[requirement("a", "Exists", &[])])]).unwrap();
    assert!(both.matches("w1", &any));
    assert_eq!(both.explain("w1", &any), Selection::Term(1));
}

#[test]
fn each_operator_on_a_label_decides_as_in_kubernetes() {
    type Nodes = &'static [(Option<&'static str>, bool)];
    let cases: [(&str, &[&str], Nodes); 6] = [
        ("In", &["x", "y"], &[(Some("x"), true), (Some("z"), false), (Some("X"), false), (None, false)]),
        ("NotIn", &["x", "y"], &[(Some("x"), false), (Some("z"), true), (None, true)]),
        ("Exists", &[], &[(Some(""), true), (Some("x"), true), (None, false)]),
        ("DoesNotExist", &[], &[(Some(""), false), (None, true)]),
        (
            "Gt",
            &["8"],
            &[
                (Some("9"), true),
                (Some("10"), true),
                (Some("8"), false),
                (Some("-9"), false),
                (Some("9.5"), false),
                (Some("x"), false),
                (Some(""), false),
                (Some("9223372036854775808"), false),
                (None, false),
            ],
        ),
        (
            "Lt",
            &["-1"],
            &[(Some("-2"), true), (Some("-1"), false), (Some("0"), false), (Some("x"), false), (None, false)],
        ),
    ];
    for (operator, values, nodes) in cases {
        let selector = parse(&[of_labels(&[requirement("key", operator, values)])]).unwrap();
        for (value, selected) in nodes {
            let node = labels(&value.map(|value| ("key", value)).into_iter().collect::<Vec<_>>());
            assert_eq!(selector.matches("w1", &node), *selected, "{operator} {values:?} {value:?}");
        }
    }
}

#[test]
fn requirements_of_a_term_are_and_terms_are_or() {
    let gpu = requirement("pool", "In", &["gpu"]);
    let big = requirement("cores", "Gt", &["8"]);
    let named = requirement("metadata.name", "In", &["w7", "w8"]);
    let selector = parse(&[of_labels(&[gpu, big]), of_names(&[named])]).unwrap();
    for (name, node, selected) in [
        ("w1", labels(&[("pool", "gpu"), ("cores", "16")]), true),
        ("w1", labels(&[("pool", "gpu"), ("cores", "8")]), false),
        ("w1", labels(&[("cores", "16")]), false),
        ("w7", TextMap::default(), true),
        ("w8", TextMap::default(), true),
        ("w", TextMap::default(), false),
    ] {
        assert_eq!(selector.matches(name, &node), selected, "{name} {node:?}");
    }
    let not = parse(&[of_names(&[requirement("metadata.name", "NotIn", &["w7"])])]).unwrap();
    assert!(not.matches("w1", &TextMap::default()) && !not.matches("w7", &TextMap::default()));
    let both = RawTerm {
        match_expressions: vec![requirement("pool", "Exists", &[])],
        match_fields: vec![requirement("metadata.name", "NotIn", &["w7"])],
    };
    let both = parse(&[both]).unwrap();
    assert!(both.matches("w1", &labels(&[("pool", "")])) && !both.matches("w7", &labels(&[("pool", "")])));
}

#[test]
fn s8_a_malformed_requirement_makes_the_selector_invalid_and_names_its_place() {
    let key = "nodeSelectorTerms[0].matchExpressions[0].key must be the key of a label, got ";
    let field = "nodeSelectorTerms[0].matchFields[0].";
    let expression = "nodeSelectorTerms[0].matchExpressions[0].";
    let operators = "operator must be In, NotIn, Exists, DoesNotExist, Gt or Lt, got ";
    let long = "x".repeat(64);
    for (term, shown) in [
        (of_labels(&[requirement("a", "in", &["b"])]), format!("{expression}{operators}\"in\" (did you mean \"In\"?)")),
        (of_labels(&[requirement("a", "", &["b"])]), format!("{expression}{operators}\"\"")),
        (of_labels(&[requirement("", "Exists", &[])]), format!("{key}\"\", which must not be empty")),
        (
            of_labels(&[requirement("a/b/c", "Exists", &[])]),
            format!("{key}\"a/b/c\", which must have at most one '/', between an optional prefix and the name"),
        ),
        (
            of_labels(&[requirement("a", "In", &[])]),
            format!("{expression}values must have at least one value for the operator In, got none"),
        ),
        (
            of_labels(&[requirement("a", "NotIn", &["b", &long])]),
            format!(
                "{expression}values[1] must be the value of a label, got \"{long}\", which is 64 bytes long, at most 63 are \
                 allowed"
            ),
        ),
        (
            of_labels(&[requirement("a", "Exists", &["b"])]),
            format!("{expression}values must be empty for the operator Exists, got 1 values"),
        ),
        (
            of_labels(&[requirement("a", "DoesNotExist", &["b", "c"])]),
            format!("{expression}values must be empty for the operator DoesNotExist, got 2 values"),
        ),
        (
            of_labels(&[requirement("a", "Gt", &["1", "2"])]),
            format!("{expression}values must have exactly one value for the operator Gt, got 2"),
        ),
        (
            of_labels(&[requirement("a", "Lt", &["8Gi"])]),
            format!(
                "{expression}values[0] must be an integer from -9223372036854775808 to 9223372036854775807 for the operator \
                 Lt, got \"8Gi\""
            ),
        ),
        (
            of_names(&[requirement("metadata.nmae", "In", &["w1"])]),
            format!(
                "{field}key must be \"metadata.name\", the only field that a node can be selected by, got \"metadata.nmae\" \
                 (did you mean \"metadata.name\"?)"
            ),
        ),
        (
            of_names(&[requirement("metadata.name", "Exists", &[])]),
            format!("{field}operator must be In or NotIn for a field, got \"Exists\""),
        ),
        (
            of_names(&[requirement("metadata.name", "In", &[])]),
            format!("{field}values must have at least one value for the operator In, got none"),
        ),
    ] {
        assert_eq!(parse(&[term]).unwrap_err().to_string(), shown);
    }
    let name = parse(&[of_names(&[requirement("metadata.name", "In", &["W1"])])]).unwrap_err();
    assert!(name.to_string().starts_with(&format!("{field}values[0] must be the name of a node, got \"W1\", which ")));
    // The place counts terms and requirements, and one bad requirement among good terms is enough.
    let good = of_labels(&[requirement("a", "Exists", &[])]);
    let bad = of_labels(&[requirement("a", "Exists", &[]), requirement("a", "has", &[])]);
    let error = parse(&[good.clone(), bad, good]).unwrap_err();
    assert_eq!(error.problems[0].place, "nodeSelectorTerms[1].matchExpressions[1].operator");
}

#[test]
fn all_problems_of_a_selector_are_counted_and_the_first_ones_are_shown() {
    let bad = of_labels(&[requirement("", "has", &[])]);
    let error = parse(&vec![bad; 5_000]).unwrap_err();
    assert_eq!((error.problems.len(), error.more), (10, 9_990));
    let shown = error.to_string();
    assert!(shown.starts_with("nodeSelectorTerms[0].matchExpressions[0].key"), "{shown}");
    assert!(shown.ends_with("; and 9990 more"), "{shown}");
}

#[test]
fn why_a_node_is_not_selected_is_a_sentence_per_term() {
    let terms = [
        of_labels(&[requirement("pool", "In", &["gpu", "tpu"])]),
        of_labels(&[requirement("cores", "Gt", &["8"])]),
        of_labels(&[requirement("spot", "DoesNotExist", &[])]),
        of_names(&[requirement("metadata.name", "In", &["w7"])]),
        RawTerm::default(),
        of_labels(&[requirement("zone", "Exists", &[])]),
    ];
    let selector = parse(&terms).unwrap();
    let node = labels(&[("pool", "cpu"), ("spot", "yes")]);
    assert_eq!(
        selector.explain("w1", &node).to_string(),
        "not selected: nodeSelectorTerms[0]: label pool must be one of \"gpu\", \"tpu\", and the node has \"cpu\"; \
         nodeSelectorTerms[1]: label cores must be an integer above 8, and the node does not have it; \
         nodeSelectorTerms[2]: label spot must not be there, and the node has \"yes\"; \
         nodeSelectorTerms[3]: the name of the node must be one of \"w7\", and it is \"w1\"; \
         nodeSelectorTerms[4]: it has no requirements, so it selects no node; and 1 more terms"
    );
    assert_eq!(selector.explain("w7", &node).to_string(), "selected by nodeSelectorTerms[3]");
    assert_eq!(NodeSelector::default().explain("w1", &node).to_string(), "selected: the selector has no terms");
    let many: Vec<String> = (0..10_000).map(|number| format!("v{number:05}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let selector = parse(&[of_labels(&[requirement("pool", "In", &many)])]).unwrap();
    assert!(selector.explain("w1", &node).to_string().contains("\"v00004\" and 9995 more, and the node has \"cpu\""));
    assert!(selector.matches("w1", &labels(&[("pool", "v09999")])));
}

/// The same rules, evaluated on the words.
fn plainly(terms: &[RawTerm], name: &str, node: &TextMap) -> bool {
    let label = |raw: &RawRequirement| {
        let value = node.get(&raw.key).map(ToString::to_string);
        let (number, than) = (value.as_ref().and_then(|value| value.parse::<i64>().ok()), raw.values.first());
        let than = || than.unwrap().parse::<i64>().unwrap();
        match raw.operator.as_str() {
            "In" => value.is_some_and(|value| raw.values.contains(&value)),
            "NotIn" => !value.is_some_and(|value| raw.values.contains(&value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => number.is_some_and(|number| number > than()),
            _ => number.is_some_and(|number| number < than()),
        }
    };
    let field = |raw: &RawRequirement| raw.values.iter().any(|value| value == name) == (raw.operator == "In");
    terms.is_empty()
        || terms.iter().any(|term| {
            let count = term.match_expressions.len() + term.match_fields.len();
            count > 0 && term.match_expressions.iter().all(label) && term.match_fields.iter().all(field)
        })
}

fn raw_terms() -> impl Strategy<Value = Vec<RawTerm>> {
    let key = prop::sample::select(&["a", "b", "c"][..]);
    let values = prop::collection::vec(prop::sample::select(&["0", "1", "2", "x", ""][..]), 1..3);
    let number = prop::sample::select(&["0", "1"][..]);
    let label = prop_oneof![
        (key.clone(), prop::sample::select(&["In", "NotIn"][..]), values)
            .prop_map(|(key, op, values)| requirement(key, op, &values)),
        (key.clone(), prop::sample::select(&["Exists", "DoesNotExist"][..])).prop_map(|(key, op)| requirement(
            key,
            op,
            &[]
        )),
        (key, prop::sample::select(&["Gt", "Lt"][..]), number).prop_map(|(key, op, than)| requirement(
            key,
            op,
            &[than]
        )),
    ];
    let names = prop::collection::vec(prop::sample::select(&["w1", "w2"][..]), 1..3);
    let field = (prop::sample::select(&["In", "NotIn"][..]), names)
        .prop_map(|(op, names)| requirement("metadata.name", op, &names));
    let term = (prop::collection::vec(label, 0..3), prop::collection::vec(field, 0..2))
        .prop_map(|(match_expressions, match_fields)| RawTerm { match_expressions, match_fields });
    prop::collection::vec(term, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn a_parsed_selector_selects_what_its_words_do(
        terms in raw_terms(),
        node in prop::collection::btree_map("[abc]", "[0-3x]?", 0..3),
    ) {
        let selector = parse(&terms).unwrap();
        for name in ["w1", "w2", "w3"] {
            let selected = selector.matches(name, &node);
            prop_assert_eq!(selected, plainly(&terms, name, &node.clone().into()));
            let explained = !matches!(selector.explain(name, &node), Selection::None { .. });
            prop_assert_eq!(selected, explained);
        }
    }

    #[test]
    fn no_words_of_a_selector_panic(terms in prop::collection::vec(
        prop::collection::vec((".*", ".*", prop::collection::vec(".*", 0..3)), 0..3), 0..3,
    )) {
        let requirement = |(key, operator, values)| RawRequirement { key, operator, values };
        let raw = |list: Vec<_>| list.into_iter().map(requirement).collect::<Vec<_>>();
        let term = |list: Vec<_>| RawTerm { match_expressions: raw(list.clone()), match_fields: raw(list) };
        let _ = parse(&terms.into_iter().map(term).collect::<Vec<_>>()).map_err(|error| error.to_string());
    }
}
