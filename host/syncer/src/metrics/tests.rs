use std::time::Duration;

use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_sync::bars::Bar;
use topoloom_sync::guard::Cause;
use topoloom_sync::liveness::Reach;

use super::*;
use crate::kubeconfig::{CredentialEnd, CredentialKind};
use crate::troubles::Thing;
use crate::view::examples;

fn text(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

/// A binding of this name that lends two nodes, and what changes its connection.
struct Scene {
    served: Served,
    credential: watch::Sender<CredentialState>,
}

fn scene(binding: &str) -> Scene {
    let mut view = examples::view(2);
    examples::lend(&mut view, 2);
    let credential = watch::Sender::new(CredentialState::default());
    let served = Served {
        binding: binding.to_owned(),
        counted: Counted::default(),
        view: Arc::new(Mutex::new(view)),
        link: watch::Sender::new(None).subscribe(),
        credential: credential.subscribe(),
        troubles: Troubles::default(),
        now: examples::now,
    };
    Scene { served, credential }
}

fn refused(reason: RefusalReason) -> Result<(), Refusal> {
    Err(Refusal { reason, message: "no".to_owned(), retry_after: None })
}

#[test]
fn a_process_that_serves_no_binding_shows_nothing_of_bindings() {
    let mut registry = Registry::default();
    let _metrics = Metrics::register(&mut registry);
    assert_eq!(text(&registry), "# EOF\n");
}

#[test]
fn the_series_of_a_binding_begin_at_zero_and_end_with_it() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let (east, west) = (metrics.show(scene("east").served), metrics.show(scene("west").served));
    let shown = text(&registry);
    for line in [
        "binding_connection{binding=\"east\",state=\"connecting\"} 1",
        "binding_connection{binding=\"east\",state=\"unreachable\"} 0",
        "binding_bars{binding=\"east\",bar=\"restored\"} 0",
        "binding_held{binding=\"east\"} 0",
        "binding_held_acts{binding=\"east\",of=\"pods\"} 0",
        "binding_refused{binding=\"east\",reason=\"Forbidden\"} 0",
        "lent_nodes{binding=\"east\",state=\"lent\"} 2",
        "lent_nodes{binding=\"east\",state=\"claimed-by-others\"} 0",
        "lent_nodes{binding=\"east\",state=\"unclear\"} 0",
        "lent_pods{binding=\"east\",phase=\"Running\"} 0",
        "lent_resources{binding=\"east\",resource=\"cpu\",amount=\"base\"} 8000",
        "lent_resources{binding=\"east\",resource=\"cpu\",amount=\"lent\"} 8000",
        "lent_resources{binding=\"east\",resource=\"cpu\",amount=\"used\"} 0",
        "lent_boundary_overdue_seconds{binding=\"east\"} 0.0",
        "lent_boundary_lag_seconds_count{binding=\"east\"} 0",
        "lent_writes_refused_total{binding=\"east\",kind=\"node-status\",reason=\"Invalid\"} 0",
        "lent_evictions_total{binding=\"east\",cause=\"window-closed\"} 0",
    ] {
        assert!(shown.contains(&format!("{line}\n")), "{line} is not in\n{shown}");
    }
    assert!(!shown.contains("binding_credential_end_timestamp_seconds{"), "its end is not known");
    drop(east);
    let left = text(&registry);
    assert!(!left.contains("east") && left.contains("west"), "{left}");
    drop(west);
    assert_eq!(text(&registry), "# EOF\n");
}

#[test]
fn what_is_done_is_counted_by_kind_and_reason() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let served = metrics.show(scene("east").served);
    let counted = served.counted.clone();
    counted.wrote(WriteKind::NodeStatus, "size", &Ok(()));
    counted.wrote(WriteKind::NodeStatus, "size", &Ok(()));
    counted.wrote(WriteKind::NodeStatus, "size", &refused(RefusalReason::Invalid));
    counted.wrote(WriteKind::PodEvict, "operator", &refused(RefusalReason::TooManyRequests));
    counted.evicted(Cause::Operator.word());
    counted.followed(Duration::from_millis(1_500));
    let shown = text(&registry);
    for line in [
        "lent_writes_total{binding=\"east\",kind=\"node-status\",reason=\"size\"} 2",
        "lent_writes_refused_total{binding=\"east\",kind=\"node-status\",reason=\"Invalid\"} 1",
        "lent_writes_refused_total{binding=\"east\",kind=\"pod-evict\",reason=\"TooManyRequests\"} 1",
        "lent_evictions_total{binding=\"east\",cause=\"operator\"} 1",
        "lent_boundary_lag_seconds_sum{binding=\"east\"} 1.5",
        "lent_boundary_lag_seconds_bucket{le=\"1.0\",binding=\"east\"} 0",
        "lent_boundary_lag_seconds_bucket{le=\"2.0\",binding=\"east\"} 1",
    ] {
        assert!(shown.contains(&format!("{line}\n")), "{line} is not in\n{shown}");
    }
}

#[test]
fn what_stands_in_the_way_of_a_binding_is_shown_as_it_is_now() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let Scene { served, credential } = scene("east");
    let served = metrics.show(served);
    served.view.lock().unwrap().bars = [Bar::Conflict].into_iter().collect();
    let refusal = Refusal { reason: RefusalReason::Forbidden, message: "no".to_owned(), retry_after: None };
    served.troubles.met(Thing::PhysicalNodes, &refusal, Side::Physical);
    let end = CredentialEnd { kind: CredentialKind::Token, at: "2026-08-10T12:00:00Z".parse().unwrap() };
    credential.send_replace(CredentialState { end: Some(end), ..CredentialState::default() });
    let shown = text(&registry);
    for line in [
        "binding_bars{binding=\"east\",bar=\"conflict\"} 1",
        "binding_bars{binding=\"east\",bar=\"suspect\"} 0",
        "binding_refused{binding=\"east\",reason=\"Forbidden\"} 1",
        "binding_credential_end_timestamp_seconds{binding=\"east\"} 1786363200",
    ] {
        assert!(shown.contains(&format!("{line}\n")), "{line} is not in\n{shown}");
    }
}

#[test]
fn the_connection_has_a_word_for_each_state() {
    let doubt = topoloom_sync::liveness::Doubt::Silent;
    let states =
        [None, Some(Reach::Reachable), Some(Reach::Suspect(doubt)), Some(Reach::Unreachable { since: Duration::ZERO })];
    assert_eq!(states.map(Connection::of), Connection::ALL);
}

#[test]
fn two_lives_of_one_binding_are_one_set_of_series() {
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let _lives = (metrics.show(scene("east").served), metrics.show(scene("east").served));
    assert_eq!(text(&registry).matches("binding_held{binding=\"east\"}").count(), 1);
}
