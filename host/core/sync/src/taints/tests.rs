use super::*;

fn taint(text: &str) -> Taint {
    let (rest, effect) = text.rsplit_once(':').unwrap();
    let (key, value) = rest.split_once('=').unwrap_or((rest, ""));
    Taint::new(key, value, effect.into())
}

/// `key operator value effect seconds`, a dash for what is not set.
fn toleration(text: &str) -> Toleration {
    let [key, operator, value, effect, seconds] = text.split(' ').collect::<Vec<_>>().try_into().unwrap();
    let set = |text: &str| if text == "-" { String::new() } else { text.to_owned() };
    Toleration {
        key: set(key),
        operator: set(operator).as_str().into(),
        value: set(value),
        effect: (effect != "-").then(|| effect.into()),
        seconds: (seconds != "-").then(|| seconds.parse().unwrap()),
    }
}

fn shown(converted: &Converted) -> Vec<String> {
    converted.taints.iter().map(ToString::to_string).collect()
}

#[test]
fn a_toleration_matches_as_in_kubernetes() {
    let table = [
        ("k Equal v NoExecute -", "k=v:NoExecute", true),
        ("k - v NoExecute -", "k=v:NoExecute", true),
        ("k Equal v - -", "k=v:NoExecute", true),
        ("k Equal v - -", "k=v:NoSchedule", true),
        ("k Equal v NoSchedule -", "k=v:NoExecute", false),
        ("k Equal w NoExecute -", "k=v:NoExecute", false),
        ("j Equal v NoExecute -", "k=v:NoExecute", false),
        ("k Equal - - -", "k:NoExecute", true),
        ("k Equal - - -", "k=v:NoExecute", false),
        ("k Exists - NoExecute -", "k=v:NoExecute", true),
        ("j Exists - NoExecute -", "k=v:NoExecute", false),
        ("- Exists - - -", "k=v:NoExecute", true),
        ("- Exists - NoExecute -", "k=v:NoExecute", true),
        ("- Exists - NoSchedule -", "k=v:NoExecute", false),
        ("k exists - - -", "k=v:NoExecute", false),
        ("k Gt 1 - -", "k=2:NoExecute", false),
        ("k Lt 3 - -", "k=2:NoExecute", false),
        ("k Equal v NoRun -", "k=v:NoRun", true),
        ("k Exists - NoRun -", "k=v:NoExecute", false),
    ];
    for (given, of, matches) in table {
        assert_eq!(toleration(given).matches(&taint(of)), matches, "{given} and {of}");
        let tolerated = tolerates(&[toleration(given)], &taint(of));
        assert_eq!(tolerated, if matches { Tolerated::Forever } else { Tolerated::No }, "{given} and {of}");
    }
}

#[test]
fn s17_toleration_seconds_are_those_of_the_first_toleration_that_matches() {
    let seconds = |seconds| Tolerated::For(Duration::from_secs(seconds));
    let check = |tolerations: &[&str], of: &str, want: Tolerated| {
        let list: Vec<_> = tolerations.iter().map(|text| toleration(text)).collect();
        assert_eq!(tolerates(&list, &taint(of)), want, "{tolerations:?} and {of}");
    };
    check(&[], "k=v:NoExecute", Tolerated::No);
    check(&["k Exists - NoExecute 300"], "k=v:NoExecute", seconds(300));
    check(&["k Exists - NoExecute 0"], "k=v:NoExecute", seconds(0));
    check(&["k Exists - NoExecute -7"], "k=v:NoExecute", seconds(0));
    check(&["k Exists - NoExecute -9223372036854775808"], "k=v:NoExecute", seconds(0));
    check(&["j Exists - NoExecute 1", "k Exists - NoExecute 300"], "k=v:NoExecute", seconds(300));
    // The order of the pod's list decides, as it does for taint-eviction.
    check(&["- Exists - - -", "k Exists - NoExecute 300"], "k=v:NoExecute", Tolerated::Forever);
    check(&["k Exists - NoExecute 300", "- Exists - - -"], "k=v:NoExecute", seconds(300));
    check(&["k Exists - - 300"], "k=v:NoSchedule", Tolerated::Forever);
    assert!(seconds(0).goes_at_once() && Tolerated::No.goes_at_once());
    assert!(!seconds(1).goes_at_once() && !Tolerated::Forever.goes_at_once());
}

#[test]
fn s13_physical_taints_come_first_then_the_default_taint_then_those_of_the_syncer() {
    let mut physical = [
        taint("gpu=a100:NoExecute"),
        taint("node.kubernetes.io/unschedulable:NoSchedule"),
        taint("topoloom.dev/out-of-time-windows=true:NoSchedule"),
        taint("node.kubernetes.io/not-ready:NoExecute"),
        taint("node.cloudprovider.kubernetes.io/shutdown:NoSchedule"),
        taint("node-role.kubernetes.io/control-plane:NoSchedule"),
    ];
    physical[0].time_added = Some("2026-01-01T00:00:00Z".parse().unwrap());
    physical[1].time_added = physical[0].time_added;
    let window = taint("topoloom.dev/out-of-time-windows=true:NoExecute");
    let converted = convert(&physical, DefaultTaint::On, std::slice::from_ref(&window));
    assert_eq!(
        shown(&converted),
        [
            "gpu=a100:NoExecute",
            "topoloom.dev/physical-node-unschedulable:NoSchedule",
            "node-role.kubernetes.io/control-plane:NoSchedule",
            "topoloom.dev/vnode:NoSchedule",
            "topoloom.dev/out-of-time-windows=true:NoExecute",
        ]
    );
    // A copied taint keeps its time, a renamed one does not.
    assert_eq!((converted.taints[0].time_added, converted.taints[1].time_added), (physical[0].time_added, None));
    assert_eq!(
        converted.left_out.iter().map(|(taint, why)| (taint.key.as_str(), *why)).collect::<Vec<_>>(),
        [
            ("topoloom.dev/out-of-time-windows", TaintLeftOut::Ours),
            ("node.kubernetes.io/not-ready", TaintLeftOut::Condition),
            ("node.cloudprovider.kubernetes.io/shutdown", TaintLeftOut::CloudProvider),
        ]
    );
    assert_eq!(shown(&convert(&[], DefaultTaint::Off, &[])), [""; 0]);
    assert_eq!(shown(&convert(&[], DefaultTaint::On, &[])), ["topoloom.dev/vnode:NoSchedule"]);
}

#[test]
fn one_identity_comes_once_and_ours_wins() {
    let physical = [taint("a=1:NoSchedule"), taint("a=2:NoSchedule"), taint("a=2:NoExecute"), taint("b=1:NoSchedule")];
    let own = [taint("b=2:NoSchedule"), taint("topoloom.dev/vnode=x:NoSchedule")];
    let converted = convert(&physical, DefaultTaint::On, &own);
    assert_eq!(
        shown(&converted),
        ["a=1:NoSchedule", "a=2:NoExecute", "topoloom.dev/vnode:NoSchedule", "b=2:NoSchedule"]
    );
    assert_eq!(converted.left_out.len(), 2);
    assert!(converted.left_out.iter().all(|(_, why)| *why == TaintLeftOut::Twice));
}

#[test]
fn an_unknown_effect_is_written_again_as_it_was() {
    let converted = convert(&[taint("a=1:NoRun")], DefaultTaint::Off, &[]);
    assert_eq!(shown(&converted), ["a=1:NoRun"]);
}

#[test]
fn every_taint_has_a_reason() {
    let physical = [taint("gpu:NoSchedule")];
    let table = [
        ("topoloom.dev/vnode:NoSchedule", TaintReason::Lent),
        ("topoloom.dev/physical-node-unschedulable:NoSchedule", TaintReason::Cordoned),
        ("topoloom.dev/out-of-time-windows=true:NoExecute", TaintReason::OutOfWindows),
        ("topoloom.dev/vnode-deleting=true:NoSchedule", TaintReason::Deleting),
        ("topoloom.dev/physical-unreachable=true:NoSchedule", TaintReason::Unreachable),
        ("node.kubernetes.io/not-ready:NoSchedule", TaintReason::Kubernetes),
        ("gpu:NoSchedule", TaintReason::Copied),
        ("gpu:NoExecute", TaintReason::OtherClient),
    ];
    for (text, reason) in table {
        assert_eq!(TaintReason::of(&taint(text), &physical), reason, "{text}");
    }
}

#[test]
fn times_are_compared_in_whole_seconds_as_the_api_server_stores_them() {
    let at = |time: &str| Taint { time_added: Some(time.parse().unwrap()), ..taint("a=1:NoSchedule") };
    assert!(at("2026-01-01T00:00:00.7Z").is_stored_like(&at("2026-01-01T00:00:00Z")));
    assert!(!at("2026-01-01T00:00:01Z").is_stored_like(&at("2026-01-01T00:00:00Z")));
    assert!(!at("2026-01-01T00:00:00Z").is_stored_like(&taint("a=1:NoSchedule")));
    assert!(!taint("a=1:NoSchedule").is_stored_like(&taint("a=2:NoSchedule")));
}
