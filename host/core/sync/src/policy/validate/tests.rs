use proptest::prelude::*;

use super::super::super::selector::{RawNodeSelector, RawTerm};
use super::super::examples::{malformed, policy, requirement, window};
use super::*;

fn limit(resource: &str, quantity: Option<&str>, percent: Option<i64>) -> LimitSpec {
    LimitSpec { resource: resource.to_owned(), quantity: quantity.map(str::to_owned), percent }
}

fn good() -> PolicySpec {
    policy("x").spec
}

fn problems(spec: &PolicySpec) -> Vec<String> {
    validate(spec).map_or_else(|problems| problems.kept.iter().map(ToString::to_string).collect(), |_| vec![])
}

#[test]
fn a_policy_with_its_cluster_alone_is_always_open_and_lends_everything() {
    let terms = validate(&good()).unwrap();
    assert_eq!(terms.cluster, "east");
    assert_eq!((terms.priority, terms.limits.len(), terms.on_close), (0, 0, OnClose::Keep));
    assert_eq!(terms.selector, NodeSelector::default());
    assert_eq!(terms.schedule, Schedule::new(vec![], Zone::utc(), DaysApplyTo::Calendar));
}

#[test]
fn every_field_of_a_valid_policy_is_read() {
    let spec = PolicySpec {
        virtual_cluster: Some("vc".to_owned()),
        priority: -7,
        time_zone: Some("europe/berlin".to_owned()),
        days_apply_to: Some("start".to_owned()),
        time_windows: vec![window("22:00", "06:00", &["friday"])],
        resource_limits: vec![
            limit("cpu", Some("20"), Some(70)),
            limit("memory", None, Some(60)),
            limit("nvidia.com/gpu", Some("4"), None),
        ],
        force_reclaim: true,
        graceful_reclaim_period_seconds: Some(600),
        reclaim_via: Some("eviction".to_owned()),
        ..good()
    };
    let terms = validate(&spec).unwrap();
    assert_eq!((terms.virtual_cluster.as_deref(), terms.priority), (Some("vc"), -7));
    assert_eq!(terms.schedule.zone().name(), "Europe/Berlin");
    assert_eq!(terms.schedule.days_apply_to(), DaysApplyTo::Start);
    assert_eq!(terms.schedule.windows().iter().map(ToString::to_string).collect::<Vec<_>>(), ["22:00-06:00 Friday"]);
    let (twenty, four) = ("20".parse().unwrap(), "4".parse().unwrap());
    let percent = |percent| Percent::new(percent).unwrap();
    let limits = [
        Limit { resource: "cpu".into(), value: LimitValue::Both(twenty, percent(70)) },
        Limit { resource: "memory".into(), value: LimitValue::Share(percent(60)) },
        Limit { resource: "nvidia.com/gpu".into(), value: LimitValue::Quantity(four) },
    ];
    assert_eq!(terms.limits, limits);
    assert_eq!(terms.on_close, OnClose::Reclaim { grace: Duration::from_secs(600), via: ReclaimVia::Eviction });
}

#[test]
fn d5_limits_are_judged_as_windows_are_and_every_message_names_field_value_and_range() {
    let spec = PolicySpec {
        time_windows: vec![window("00:00", "23:59", &[]), window("7:30", "24:00", &["Monday", "mon"])],
        resource_limits: vec![
            limit("cpu", None, None),
            limit("CPU!", Some("-1"), None),
            limit("cpu", None, Some(0)),
            limit("cpu", Some("four"), Some(101)),
        ],
        graceful_reclaim_period_seconds: Some(-1),
        ..good()
    };
    assert_eq!(
        problems(&spec),
        [
            "spec.timeWindows[1].start must be a time of the day as HH:MM from 00:00 to 23:59, got \"7:30\" (did you mean \
             \"07:30\"?)",
            "spec.timeWindows[1].end must be a time of the day as HH:MM from 00:00 to 23:59, got \"24:00\" (did you mean \
             \"23:59\"?)",
            "spec.timeWindows[1].days[1] must be the English name of a weekday in full, Monday to Sunday, got \"mon\" (did you \
             mean \"Monday\"?)",
            "spec.resourceLimits[0] must have a quantity, a percent or both, got neither",
            "spec.resourceLimits[1].resource must be the name of a resource such as \"cpu\", got \"CPU!\", which must consist \
             of letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
            "spec.resourceLimits[1].quantity must be at least 0, got -1",
            "spec.resourceLimits[2].percent must be from 1 to 100, got 0",
            "spec.resourceLimits[3].quantity must begin with a decimal number such as `4`, `0.5` or `-1`, got \"four\"",
            "spec.resourceLimits[3].percent must be from 1 to 100, got 101",
            "spec.gracefulReclaimPeriodSeconds must be from 0 to 2147483647, got -1",
        ]
    );
}

#[test]
fn s18_an_unknown_zone_and_s8_a_malformed_selector_make_a_policy_invalid() {
    let spec = malformed(PolicySpec {
        time_zone: Some("Berlin".to_owned()),
        days_apply_to: Some("Start".to_owned()),
        reclaim_via: Some("drain".to_owned()),
        virtual_cluster: Some(String::new()),
        cluster: "East".to_owned(),
        ..good()
    });
    assert_eq!(
        problems(&spec),
        [
            "spec.timeZone must be the name of an IANA time zone such as \"Europe/Berlin\", or absent for UTC, got \"Berlin\" \
             (did you mean \"Europe/Berlin\"?)",
            "spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator must be In, NotIn, Exists, DoesNotExist, Gt or \
             Lt, got \"Inn\"",
            "spec.daysApplyTo must be \"calendar\" or \"start\", got \"Start\" (did you mean \"start\"?)",
            "spec.reclaimVia must be \"delete\" or \"eviction\", got \"drain\"",
            "spec.cluster must be the name of a ClusterBinding, got \"East\", which must consist of lower-case letters, digits, \
             '-' and '.', and each part between dots must begin and end with a letter or digit",
            "spec.virtualCluster must be the identity of a virtual cluster, or absent for any, got an empty text",
        ]
    );
}

#[test]
fn d6_percents_are_1_to_100_and_a_quantity_of_zero_is_valid() {
    for (percent, is_valid) in [
        (1, true),
        (100, true),
        (0, false),
        (101, false),
        (-5, false),
        (i64::MAX, false),
        (i64::MIN, false),
        (257, false),
    ] {
        let spec = PolicySpec { resource_limits: vec![limit("cpu", None, Some(percent))], ..good() };
        assert_eq!(problems(&spec).is_empty(), is_valid, "{percent}");
    }
    let zero = PolicySpec { resource_limits: vec![limit("cpu", Some("0"), None)], ..good() };
    assert_eq!(validate(&zero).unwrap().limits[0].value, LimitValue::Quantity(Quantity::ZERO));
    // A bad part of a limit is not made good by the other one.
    let half = PolicySpec { resource_limits: vec![limit("cpu", Some("4"), Some(0))], ..good() };
    assert_eq!(problems(&half), ["spec.resourceLimits[0].percent must be from 1 to 100, got 0"]);
}

#[test]
fn example_d_the_same_resource_twice_is_valid_and_keeps_its_order() {
    let twice = vec![limit("cpu", Some("12"), None), limit("cpu", None, Some(25))];
    let terms = validate(&PolicySpec { resource_limits: twice, ..good() }).unwrap();
    let values: Vec<_> = terms.limits.into_iter().map(|limit| limit.value).collect();
    assert_eq!(values, [LimitValue::Quantity("12".parse().unwrap()), LimitValue::Share(Percent::new(25).unwrap())]);
}

#[test]
fn a_grace_is_judged_also_where_pods_are_kept() {
    for (grace, is_valid) in [(0, true), (GRACE_MAX, true), (GRACE_MAX + 1, false), (i64::MIN, false)] {
        let spec = PolicySpec { graceful_reclaim_period_seconds: Some(grace), ..good() };
        assert_eq!(problems(&spec).is_empty(), is_valid, "{grace}");
    }
}

#[test]
fn all_problems_are_counted_ten_are_kept_and_the_text_stays_short() {
    let long = "x\n".repeat(500);
    let spec = PolicySpec {
        time_windows: vec![window(&long, &long, &[&long]); 3_000],
        resource_limits: vec![limit(&long, Some(&long), Some(0)); 1_000],
        node_selector: Some(RawNodeSelector {
            terms: vec![RawTerm { match_expressions: vec![requirement("", "x", &[])], match_fields: vec![] }; 1_000],
        }),
        ..good()
    };
    let found = validate(&spec).unwrap_err();
    assert_eq!((found.kept.len(), found.more), (10, 9_000 + 3_000 + 2_000 - 10));
    let text = found.to_string();
    assert!(text.starts_with("spec.timeWindows[0].start "), "{text}");
    assert!(text.ends_with("; and 13990 more"), "{text}");
    assert!(text.len() < 5_000 && !text.contains('\n'), "{text}");
}

#[test]
fn words_of_choices_read_as_they_are_written() {
    for via in ReclaimVia::ALL {
        assert_eq!(ReclaimVia::parse(via.word()), Some(via));
    }
    assert_eq!(ReclaimVia::parse("Delete"), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_words_of_a_policy_panic(
        texts in prop::collection::vec(".{0,12}", 9),
        numbers in prop::collection::vec(any::<i64>(), 2),
        some in any::<bool>(),
    ) {
        let spec = PolicySpec {
            cluster: texts[0].clone(),
            virtual_cluster: some.then(|| texts[1].clone()),
            time_zone: some.then(|| texts[2].clone()),
            days_apply_to: some.then(|| texts[3].clone()),
            time_windows: vec![window(&texts[4], &texts[5], &[&texts[6]])],
            resource_limits: vec![limit(&texts[7], some.then_some(texts[8].as_str()), Some(numbers[0]))],
            graceful_reclaim_period_seconds: Some(numbers[1]),
            reclaim_via: some.then(|| texts[8].clone()),
            ..PolicySpec::default()
        };
        let problems = validate(&spec).map_err(|problems| problems.to_string());
        prop_assert!(problems.is_err());
    }
}
