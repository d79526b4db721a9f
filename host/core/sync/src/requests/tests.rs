//! The rule of D11, each part of it alone, and against a second computation that is slow and plain.

use proptest::prelude::*;

use super::*;
use crate::resources::read_list;

fn list(texts: &[(&str, &str)]) -> ResourceList {
    read_list(texts.iter().copied()).unwrap()
}

fn cpu(text: &str) -> Requests {
    Requests::of(list(&[("cpu", text)]))
}

/// A container whose kubelet reports other requests than its spec has.
fn resized(spec: &str, actuated: &str, allocated: &str) -> Requests {
    let status = StatusRequests { actuated: list(&[("cpu", actuated)]), allocated: list(&[("cpu", allocated)]) };
    Requests { status: Some(status), ..cpu(spec) }
}

fn init(restarts: Restarts, requests: Requests) -> InitContainer {
    InitContainer { requests, restarts }
}

fn check(pod: &PodResources, expected: &str) {
    let effective = effective(pod, StatusUse::Counted);
    let text: Vec<_> = effective.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
    assert_eq!(text.join(" "), expected, "{pod:#?}");
}

#[test]
fn d11_containers_are_summed_and_every_pod_is_one_pod() {
    check(&PodResources::default(), "pods=1");
    let containers = vec![cpu("1500m"), Requests::of(list(&[("cpu", "1"), ("memory", "1Gi")])), Requests::default()];
    check(&PodResources { containers, ..Default::default() }, "cpu=2500m memory=1Gi pods=1");
    let containers = vec![Requests::of(list(&[("pods", "7")]))];
    check(&PodResources { containers, ..Default::default() }, "pods=1");
}

#[test]
fn d11_an_init_container_that_ends_counts_only_at_its_peak() {
    let pod = |peak: &str| PodResources {
        containers: vec![cpu("1"), cpu("1")],
        init_containers: vec![init(Restarts::Once, cpu("500m")), init(Restarts::Once, cpu(peak))],
        ..Default::default()
    };
    check(&pod("1900m"), "cpu=2 pods=1");
    check(&pod("3"), "cpu=3 pods=1");
}

#[test]
fn d11_an_init_container_runs_beside_the_sidecars_that_started_before_it() {
    let pod = |init_containers| PodResources { containers: vec![cpu("1")], init_containers, ..Default::default() };
    let (sidecar, once) = (|text| init(Restarts::Sidecar, cpu(text)), |text| init(Restarts::Once, cpu(text)));
    // The sidecar that follows does not run yet.
    check(&pod(vec![once("4"), sidecar("2")]), "cpu=4 pods=1");
    check(&pod(vec![sidecar("2"), once("4")]), "cpu=6 pods=1");
    check(&pod(vec![sidecar("1"), once("4"), sidecar("2")]), "cpu=5 pods=1");
    check(&pod(vec![sidecar("2"), sidecar("3"), once("500m")]), "cpu=6 pods=1");
    // Resources that only one of them names.
    let once = init(Restarts::Once, Requests::of(list(&[("memory", "1Gi")])));
    check(&pod(vec![sidecar("3"), once]), "cpu=4 memory=1Gi pods=1");
}

#[test]
fn d11_requests_of_the_whole_pod_take_the_place_of_the_sum_and_overhead_is_added() {
    let pod_level = [("cpu", "10"), ("hugepages-2Mi", "4Mi"), ("nvidia.com/gpu", "9")];
    let pod = PodResources {
        containers: vec![Requests::of(list(&[("cpu", "1"), ("memory", "1Gi"), ("nvidia.com/gpu", "1")]))],
        init_containers: vec![init(Restarts::Once, cpu("40"))],
        overhead: list(&[("cpu", "250m"), ("memory", "120Mi")]),
        pod_level: Requests::of(list(&pod_level)),
        ..Default::default()
    };
    check(&pod, "cpu=10250m hugepages-2Mi=4Mi memory=1144Mi nvidia.com/gpu=1 pods=1");
}

#[test]
fn d11_while_a_resize_is_not_done_the_largest_of_spec_and_status_counts() {
    let pod = |requests: &Requests, resize| PodResources {
        containers: vec![requests.clone()],
        init_containers: vec![init(Restarts::Sidecar, requests.clone())],
        resize,
        ..Default::default()
    };
    let (growing, shrinking) = (resized("3", "1", "2"), resized("1", "3", "2"));
    check(&pod(&growing, Resize::Possible), "cpu=6 pods=1");
    check(&pod(&shrinking, Resize::Possible), "cpu=6 pods=1");
    check(&pod(&growing, Resize::Infeasible), "cpu=4 pods=1");
    let by_spec = effective(&pod(&growing, Resize::Infeasible), StatusUse::Ignored);
    assert_eq!(by_spec, list(&[("cpu", "6"), ("pods", "1")]));
    // Without a status the spec counts, infeasible or not.
    check(&pod(&cpu("3"), Resize::Infeasible), "cpu=6 pods=1");
}

#[test]
fn d11_the_status_of_an_init_container_that_ends_does_not_count_and_that_of_the_whole_pod_does() {
    let init_containers = vec![init(Restarts::Once, resized("1", "5", "5"))];
    check(&PodResources { init_containers, ..Default::default() }, "cpu=1 pods=1");
    let pod = |resize| PodResources {
        containers: vec![cpu("1")],
        pod_level: resized("3", "4", "2"),
        resize,
        ..Default::default()
    };
    check(&pod(Resize::Possible), "cpu=4 pods=1");
    check(&PodResources { pod_level: resized("3", "1", "2"), ..pod(Resize::Infeasible) }, "cpu=2 pods=1");
}

#[test]
fn a_negative_request_counts_as_none() {
    let pod = PodResources {
        containers: vec![cpu("2"), cpu("-1")],
        init_containers: vec![init(Restarts::Sidecar, cpu("-1")), init(Restarts::Once, cpu("-9"))],
        overhead: list(&[("cpu", "-1")]),
        ..Default::default()
    };
    check(&pod, "cpu=2 pods=1");
    check(&PodResources { pod_level: cpu("-4"), ..pod }, "cpu=0 pods=1");
}

#[test]
fn ten_thousand_containers_with_as_many_resources_are_counted_at_once() {
    let one = |number: usize| Requests::of(list(&[(&format!("example.com/{number}"), "1")]));
    let alternating =
        |number: usize| init(if number.is_multiple_of(2) { Restarts::Sidecar } else { Restarts::Once }, one(number));
    let pod = PodResources {
        containers: (0..10_000).map(one).collect(),
        init_containers: (0..10_000).map(alternating).collect(),
        ..Default::default()
    };
    let effective = effective(&pod, StatusUse::Counted);
    assert_eq!(effective.len(), 10_001);
    assert_eq!(effective.get("example.com/4"), Some(&"2".parse().unwrap()));
    assert_eq!(effective.get("example.com/5"), Some(&Quantity::ONE));
}

const NAMES: [&str; 3] = ["cpu", "memory", "example.com/x"];

/// Amounts of [`NAMES`], each of which may be missing.
type Plain = [Option<i64>; 3];

fn plain() -> impl Strategy<Value = Plain> {
    prop::array::uniform3(prop::option::of(0_i64..20))
}

fn amounts(plain: &Plain) -> ResourceList {
    let named = NAMES.iter().zip(plain).filter_map(|(name, amount)| Some((*name, (*amount)?.to_string())));
    named.map(|(name, text)| (name.into(), text.parse().unwrap())).collect()
}

proptest! {
    /// At every moment of the start, and while it runs, a pod needs what runs then.
    #[test]
    fn d11_a_pod_requests_the_most_that_runs_at_the_same_time(
        containers in prop::collection::vec(plain(), 0..4),
        inits in prop::collection::vec((plain(), any::<bool>()), 0..6),
        overhead in plain(),
        whole in plain(),
    ) {
        let restarts = |is_sidecar| if is_sidecar { Restarts::Sidecar } else { Restarts::Once };
        let pod = PodResources {
            containers: containers.iter().map(|container| Requests::of(amounts(container))).collect(),
            init_containers: inits.iter().map(|(own, sidecar)| init(restarts(*sidecar), Requests::of(amounts(own)))).collect(),
            overhead: amounts(&overhead),
            pod_level: Requests::of(amounts(&whole)),
            resize: Resize::Possible,
        };
        let effective = effective(&pod, StatusUse::Counted);
        for (index, name) in NAMES.iter().enumerate() {
            let of = |plain: &Plain| plain[index].unwrap_or(0);
            let sidecars = |until: usize| inits[..until].iter().filter(|(_, sidecar)| *sidecar).map(|(own, _)| of(own)).sum::<i64>();
            let running = containers.iter().map(of).sum::<i64>() + sidecars(inits.len());
            let moments = inits.iter().enumerate().map(|(turn, (own, _))| of(own) + sidecars(turn));
            let most = moments.chain([running]).max().unwrap_or(0);
            let expected = whole[index].filter(|_| index < 2).unwrap_or(most) + of(&overhead);
            let got = effective.get(*name).copied().unwrap_or_default();
            prop_assert_eq!(got.in_units(), i128::from(expected), "{}", name);
        }
    }
}
