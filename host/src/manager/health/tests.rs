//! What `/healthz` and `/readyz` say, asked through the pages of the health server.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use topoloom_core::election::Lost;
use tower::ServiceExt;

use super::*;
use crate::cluster::RefusalReason;
use crate::cluster::gate::boot_time;
use crate::manager::admin;
use crate::manager::election::staged::Staged;
use crate::topology::rival;

const S: Duration = Duration::from_secs(1);

async fn ask(health: &Health, page: &str) -> (u16, String) {
    let request = Request::get(page).body(Body::empty()).unwrap();
    let answer = admin::health(health).oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), 1 << 16).await.unwrap();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// A process of one group, whose holder may be late by `grace`.
fn process(grace: Duration) -> (Health, Staged) {
    let (health, staged) = (Health::default(), Staged::new(LeaseGroup::HyperNode, grace));
    health.election(staged.election.clone());
    (health, staged)
}

fn follows() -> Role {
    Role::Follower("another".into())
}

fn trouble() -> Refusal {
    Refusal { reason: RefusalReason::ServerError, message: "the server stands still".into(), retry_after: None }
}

#[tokio::test]
async fn r6_a_holder_whose_renew_loop_is_stuck_is_not_alive() {
    let grace = S / 10;
    let (health, staged) = process(grace);
    health.election(Staged::new(LeaseGroup::NodeLock, grace).election);
    staged.becomes(Role::Leader);
    staged.confirmed_until(boot_time() - grace - 2 * S);
    for page in ["/healthz", "/healthz/ping"] {
        let (code, text) = ask(&health, page).await;
        assert_eq!(code, 500);
        assert!(text.starts_with("the renewal of the lease hypernode is stuck: "), "{text}");
    }
    // It continues, or has released the lease.
    for until in [boot_time() + 10 * S, Duration::ZERO] {
        staged.confirmed_until(until);
        assert_eq!(ask(&health, "/healthz").await, (200, "ok".into()));
    }
}

#[tokio::test]
async fn r6_who_does_not_hold_the_lease_and_who_is_a_little_late_are_alive() {
    assert_eq!(ask(&Health::default(), "/healthz").await, (200, "ok".into()), "without an election");
    let (health, staged) = process(3600 * S);
    assert_eq!(ask(&health, "/healthz").await, (200, "ok".into()), "the lease was never ours");
    staged.becomes(Role::Leader);
    staged.confirmed_until(boot_time() - S);
    assert_eq!(ask(&health, "/healthz").await, (200, "ok".into()), "late by less than the grace");
}

#[tokio::test]
async fn b10_healthz_says_ok_and_nothing_else_is_served_there() {
    let (health, _staged) = process(S);
    for page in ["/healthz", "/healthz/ping"] {
        assert_eq!(ask(&health, page).await, (200, "ok".into()), "{page}");
    }
    for page in ["/", "/metrics", "/sources", "/debug/dump", "/readyz/ping"] {
        assert_eq!(ask(&health, page).await.0, 404, "{page}");
    }
}

#[tokio::test]
async fn r3_a_replica_that_leaves_a_lease_to_others_waits_for_nothing_of_its_group() {
    let (health, staged) = process(S);
    let _ = (health.check(LeaseGroup::HyperNode.check()), health.check_of_leader("caches", LeaseGroup::HyperNode));
    staged.becomes(Role::Leader);
    assert_eq!(ask(&health, "/readyz").await.0, 503);
    health.stands_back(LeaseGroup::HyperNode);
    let line = "[-] election hypernode: no controller of this group runs here, so other replicas lead\n";
    assert_eq!(ask(&health, "/readyz").await, (200, line.to_owned()));
    assert!(health.elections().is_empty());
}

/// The state of a controller's caches.
type Caches = fn(&CheckSlot);

#[tokio::test]
async fn r6_a_leader_is_ready_with_its_caches_and_a_follower_with_its_lease() {
    let starting: Caches = |_| {};
    let failing_from_the_start: Caches = |check| check.fail(&trouble());
    let filled: Caches = CheckSlot::pass;
    let failing: Caches = |check| {
        check.pass();
        check.fail(&trouble());
    };
    let absent: Caches = |check| check.absent("no controller needs it");
    let lost = || Role::Lost(Lost::Expired);
    let leads = "[+] election hypernode: leads";
    let follows_another = "[+] election hypernode: follows another";
    for (role, caches, code, lines) in [
        // A replica that has not read the lease knows nothing.
        (
            Role::Unknown,
            starting,
            503,
            ["[ ] election hypernode: the lease has not been read yet", "[ ] caches not needed"],
        ),
        (Role::Unknown, filled, 503, ["[ ] election hypernode: the lease has not been read yet", "[+] caches ok"]),
        // A leader needs its caches.
        (Role::Leader, starting, 503, [leads, "[ ] caches starting: waiting"]),
        (Role::Leader, failing_from_the_start, 503, [leads, "[ ] caches starting: the server stands still"]),
        (Role::Leader, filled, 200, [leads, "[+] caches ok"]),
        (Role::Leader, failing, 200, [leads, "[!] caches failing: the server stands still"]),
        (Role::Leader, absent, 200, [leads, "[-] caches absent: no controller needs it"]),
        // A follower needs none.
        (follows(), starting, 200, [follows_another, "[ ] caches not needed by a follower: waiting"]),
        (follows(), failing_from_the_start, 200, [follows_another, "[ ] caches not needed by a follower: the server"]),
        (follows(), filled, 200, [follows_another, "[+] caches ok"]),
        (follows(), failing, 200, [follows_another, "[!] caches failing: the server stands still"]),
        (
            Role::Follower("".into()),
            starting,
            200,
            ["[+] election hypernode: no replica leads", "[ ] caches not needed"],
        ),
        // A replica that lost it ends.
        (lost(), filled, 503, ["[!] election hypernode: the lease is lost: ", "[+] caches ok"]),
        (lost(), starting, 503, ["[!] election hypernode: the lease is lost: ", "[ ] caches starting: waiting"]),
    ] {
        let (health, staged) = process(S);
        caches(&health.check_of_leader("caches", LeaseGroup::HyperNode));
        staged.becomes(role.clone());
        let (found, text) = ask(&health, "/readyz").await;
        assert_eq!(found, code, "{role:?}: {text}");
        for line in lines {
            assert!(text.lines().any(|found| found.starts_with(line)), "{role:?}: {line} in\n{text}");
        }
    }
}

#[tokio::test]
async fn r6_a_follower_that_is_promoted_is_ready_again_when_its_caches_are_there() {
    let (health, staged) = process(S);
    let caches = health.check_of_leader("caches", LeaseGroup::HyperNode);
    let ready = async || ask(&health, "/readyz").await.0;
    staged.becomes(follows());
    assert_eq!(ready().await, 200);
    staged.becomes(Role::Leader);
    assert_eq!(ready().await, 503);
    caches.pass();
    assert_eq!(ready().await, 200);
}

#[tokio::test]
async fn r6_caches_count_for_the_group_that_leads() {
    let (health, hyper_node) = process(S);
    let node_lock = Staged::new(LeaseGroup::NodeLock, S);
    health.election(node_lock.election.clone());
    let caches = health.check_of_leader("locks", LeaseGroup::NodeLock);
    hyper_node.becomes(Role::Leader);
    node_lock.becomes(follows());
    assert_eq!(ask(&health, "/readyz").await.0, 200);
    node_lock.becomes(Role::Leader);
    assert_eq!(ask(&health, "/readyz").await.0, 503);
    caches.pass();
    assert_eq!(ask(&health, "/readyz").await.0, 200);
}

#[tokio::test]
async fn r6_a_follower_that_has_read_the_lease_stays_ready_when_it_cannot_read_it_any_more() {
    let (health, staged) = process(S);
    let lease = health.check(LeaseGroup::HyperNode.check());
    lease.fail(&trouble());
    let (code, text) = ask(&health, "/readyz").await;
    assert_eq!(code, 503, "{text}");
    assert!(text.contains("[ ] lease-hypernode starting: the server stands still\n"), "{text}");
    lease.pass();
    staged.becomes(follows());
    assert_eq!(ask(&health, "/readyz").await.0, 200);
    lease.fail(&trouble());
    let (code, text) = ask(&health, "/readyz").await;
    assert_eq!(code, 200, "{text}");
    assert!(text.contains("[!] lease-hypernode failing: the server stands still\n"), "{text}");
}

#[tokio::test]
async fn r6_a_failure_lasts_from_its_beginning_and_not_from_its_last_word() {
    let (health, staged) = process(S);
    staged.becomes(follows());
    let lease = health.check(LeaseGroup::HyperNode.check());
    lease.counts_for_followers(LeaseGroup::HyperNode, 30 * S);
    lease.pass();
    lease.fail(&trouble());
    health.lock().checks.get_mut(LeaseGroup::HyperNode.check()).unwrap().failing_since = Some(Instant::now() - 31 * S);
    assert_eq!(ask(&health, "/readyz").await.0, 503);
    lease.fail(&trouble());
    assert_eq!(ask(&health, "/readyz").await.0, 503);
    // It failed, worked, and fails again.
    lease.pass();
    lease.fail(&trouble());
    assert_eq!(ask(&health, "/readyz").await.0, 200);
}

#[tokio::test]
async fn r6_a_follower_that_has_not_read_the_lease_for_too_long_could_not_take_over() {
    for (patience, code, said) in [
        (Duration::ZERO, 503, "[!] lease-hypernode failing for too long to take over: the server stands still\n"),
        (3600 * S, 200, "[!] lease-hypernode failing: the server stands still\n"),
    ] {
        let (health, staged) = process(S);
        let lease = health.check(LeaseGroup::HyperNode.check());
        lease.counts_for_followers(LeaseGroup::HyperNode, patience);
        lease.pass();
        lease.fail(&trouble());
        staged.becomes(follows());
        let (found, text) = ask(&health, "/readyz").await;
        assert_eq!((found, text.contains(said)), (code, true), "{text}");
        // A leader is judged by its lease, and one success ends it.
        staged.becomes(Role::Leader);
        assert_eq!(ask(&health, "/readyz").await.0, 200);
        staged.becomes(follows());
        lease.pass();
        assert_eq!(ask(&health, "/readyz").await.0, 200);
    }
}

fn forbidden() -> Refusal {
    Refusal { reason: RefusalReason::Forbidden, message: "nodes is forbidden".into(), retry_after: None }
}

#[tokio::test]
async fn r6_a_follower_that_was_never_allowed_to_read_what_it_needs_is_not_ready_and_a_cold_cache_does_not_count() {
    let (health, staged) = process(S);
    staged.becomes(follows());
    let nodes =
        health.check_of_leader("nodes", LeaseGroup::HyperNode).rights_count_for_followers(LeaseGroup::HyperNode);
    assert_eq!(ask(&health, "/readyz").await.0, 200, "its cache is cold");
    nodes.fail(&trouble());
    assert_eq!(ask(&health, "/readyz").await.0, 200, "an API server that fails, fails for all");
    nodes.fail(&forbidden());
    let (code, text) = ask(&health, "/readyz").await;
    assert_eq!(code, 503, "{text}");
    let said = "[!] nodes forbidden, so this replica could not take over: nodes is forbidden\n";
    assert!(text.contains(said), "{text}");
    // The rule is there.
    nodes.pass();
    assert_eq!(ask(&health, "/readyz").await.0, 200);
}

#[tokio::test]
async fn r6_a_follower_that_loses_a_right_is_not_ready_after_the_time_that_an_update_waits() {
    let (health, staged) = process(S);
    staged.becomes(follows());
    let nodes =
        health.check_of_leader("nodes", LeaseGroup::HyperNode).rights_count_for_followers(LeaseGroup::HyperNode);
    nodes.pass();
    nodes.fail(&forbidden());
    let (code, text) = ask(&health, "/readyz").await;
    assert_eq!(code, 200, "the rules may be in the middle of a change: {text}");
    let since = |ago: Duration| {
        health.lock().checks.get_mut("nodes").unwrap().failing_since = Some(Instant::now() - ago);
    };
    since(RIGHTS);
    assert_eq!(ask(&health, "/readyz").await.0, 503);
    // A leader continues with what is in force.
    staged.becomes(Role::Leader);
    assert_eq!(ask(&health, "/readyz").await.0, 200);
    staged.becomes(follows());
    nodes.fail(&trouble());
    assert_eq!(ask(&health, "/readyz").await.0, 200, "now it is something else that is wrong");
}

#[test]
fn the_time_for_rights_is_that_of_the_chart() {
    let values = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart/topoloom/values.yaml");
    let values = std::fs::read_to_string(values).unwrap();
    let seconds = values.lines().find_map(|line| line.strip_prefix("minReadySeconds: ")).unwrap();
    assert_eq!(Duration::from_secs(seconds.trim().parse().unwrap()), RIGHTS);
}

#[tokio::test]
async fn m1_a_controller_waits_while_what_it_needs_is_absent() {
    let (health, staged) = process(S);
    let check = health.check_of_controller("hypernodes", LeaseGroup::HyperNode, "a");
    staged.becomes(Role::Leader);
    check.fail(&trouble());
    assert_eq!(ask(&health, "/readyz").await.0, 503, "what fails is not absent");
    check.absent("its CRD is not there");
    let (code, text) = ask(&health, "/readyz").await;
    assert_eq!(code, 200, "{text}");
    assert!(text.contains("[-] controller a waiting: its CRD is not there\n"), "{text}");
    check.pass();
    assert_eq!(health.controllers().get("a"), Some(&Controller::Running));
    check.fail(&trouble());
    assert_eq!(health.controllers().get("a"), Some(&Controller::Running), "a controller that works goes on");
}

#[tokio::test]
async fn m1_controllers_that_wait_are_disabled_or_failed_are_named_and_do_not_count() {
    let (health, staged) = process(S);
    staged.becomes(Role::Leader);
    for (name, stands) in [
        ("a", Controller::Running),
        ("b", Controller::Waiting("its CRD is not there".into())),
        ("c", Controller::Disabled),
        ("d", Controller::Failed("no engine".into())),
    ] {
        health.controller(name, stands);
    }
    let (code, text) = ask(&health, "/readyz").await;
    let controllers: Vec<&str> = text.lines().filter(|line| line.contains("controller")).collect();
    assert_eq!(
        controllers,
        [
            "[+] controller a runs",
            "[-] controller b waiting: its CRD is not there",
            "[-] controller c disabled",
            "[!] controller d failed: no engine",
        ]
    );
    assert_eq!(code, 200);
}

#[tokio::test]
async fn a_failure_that_was_not_repeated_is_over() {
    let (health, staged) = process(S);
    staged.becomes(Role::Leader);
    let check = health.check_of_leader("caches", LeaseGroup::HyperNode);
    check.set(CheckState::Failing("a stumble".into(), Instant::now() - FORGOTTEN));
    let (code, text) = ask(&health, "/readyz").await;
    assert_eq!(code, 200);
    assert!(text.contains("[+] caches ok\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn leases_that_may_not_be_watched_are_one_line_in_the_log_whatever_their_names() {
    let (client, asked) = crate::cluster::watches::staged::forbidding();
    let (lines, _guard) = crate::log::captured::Lines::of_warnings();
    let (sender, leads) = tokio::sync::watch::channel(rival::unknown());
    let health = Health::default();
    let names = ["vc-a".to_owned(), "vc-b".to_owned()].into();
    let watched = rival::watch(
        client,
        crate::cluster::Restores::default(),
        names,
        sender,
        health.optional("volcano-lease").into(),
    );
    let _ = tokio::time::timeout(Duration::from_secs(60), watched).await;
    assert_eq!(*leads.borrow(), None, "a right that is missing stops nothing");
    assert_eq!((lines.count("absent"), lines.count("")), (1, 1), "{}", lines.text());
    let asked = asked.load(std::sync::atomic::Ordering::SeqCst);
    assert!(asked <= 2 * 11, "{asked} lists in a minute");
}

#[tokio::test]
async fn s11_what_is_wrong_with_a_binding_is_shown_and_makes_no_replica_unready() {
    let (health, staged) = (Health::default(), Staged::binding("east", S));
    let name: Arc<str> = "east".into();
    health.binding(&name, staged.election.clone());
    for (role, said) in [
        (Role::Unknown, "[ ] binding east: the lease has not been read yet\n"),
        (follows(), "[+] binding east: follows another\n"),
        (Role::Follower("".into()), "[+] binding east: no replica leads\n"),
        (Role::Lost(Lost::Deleted), "[!] binding east: the lease is lost: another client deleted it; this replica "),
        (Role::Leader, "[+] binding east: leads\n"),
    ] {
        staged.becomes(role);
        let (code, text) = ask(&health, "/readyz").await;
        assert_eq!((code, text.starts_with(said)), (200, true), "{text}");
    }
    health.binding_trouble("east", "cluster", Some("its cluster has not answered\nfor 41 s"));
    health.binding_lease(&name).fail(&trouble());
    let line = "[!] binding east: leads; its cluster has not answered\\nfor 41 s; its lease: the server stands still\n";
    assert_eq!(ask(&health, "/readyz").await, (200, line.to_owned()));
    // What its group said is for the replica that runs it.
    health.binding_follows("east");
    let line = "[!] binding east: leads; its lease: the server stands still\n";
    assert_eq!(ask(&health, "/readyz").await, (200, line.to_owned()));
    health.binding_lease(&name).pass();
    assert_eq!(ask(&health, "/readyz").await, (200, "[+] binding east: leads\n".to_owned()));
    health.binding_gone("east");
    health.binding_trouble("east", "cluster", Some("a late word"));
    assert_eq!(ask(&health, "/readyz").await, (200, String::new()));
}

#[tokio::test]
async fn s11_of_many_bindings_a_hundred_are_listed_and_the_others_counted() {
    let health = Health::default();
    for number in 0..103 {
        let name = format!("b{number:03}");
        health.binding(&name.as_str().into(), Staged::binding(&name, S).election);
    }
    let (_, text) = ask(&health, "/readyz").await;
    assert_eq!(text.lines().count(), 101);
    assert!(text.ends_with("[-] and 3 more bindings\n"), "{text}");
}

#[tokio::test]
async fn s11_a_holder_of_a_binding_whose_renew_loop_is_stuck_is_not_alive() {
    let (health, staged) = (Health::default(), Staged::binding("east", S));
    health.binding(&"east".into(), staged.election.clone());
    staged.becomes(Role::Leader);
    staged.confirmed_until(boot_time() - 3 * S);
    let (code, text) = ask(&health, "/healthz").await;
    assert_eq!(code, 500);
    assert!(text.starts_with("the renewal of the lease of binding east is stuck: "), "{text}");
}

#[tokio::test]
async fn s11_a_replica_whose_election_for_a_binding_crashed_is_alive_when_its_group_has_ended() {
    let (health, staged) = (Health::default(), Staged::binding("east", S));
    health.binding(&"east".into(), staged.election.clone());
    staged.becomes(Role::Leader);
    // Nothing sets it back after a crash.
    staged.confirmed_until(boot_time() - 3 * S);
    staged.election.release().await;
    assert_eq!(ask(&health, "/healthz").await, (200, "ok".into()));
}

#[test]
fn s11_why_leases_of_bindings_cannot_be_had_is_one_line_in_the_log_for_each_cause() {
    let (lines, _guard) = crate::log::captured::Lines::of_warnings();
    let health = Health::default();
    let leases = ["east", "west"].map(|name| {
        let name: Arc<str> = name.into();
        health.binding(&name, Staged::binding(&name, S).election);
        health.binding_lease(&name)
    });
    let said = |refusal: &Refusal| {
        for _ in 0..3 {
            leases.iter().for_each(|lease| lease.fail(refusal));
        }
        lines.count("the lease of a binding cannot be")
    };
    assert_eq!((said(&trouble()), said(&forbidden()), said(&trouble())), (1, 2, 3), "{}", lines.text());
    leases[0].pass();
    assert_eq!(said(&trouble()), 3, "the other one has failed all the time");
    leases.iter().for_each(Check::pass);
    assert_eq!(said(&trouble()), 4, "{}", lines.text());
}

#[tokio::test]
async fn s11_a_replica_that_was_never_allowed_the_lease_of_a_binding_is_not_ready_until_it_has_one() {
    let health = Health::default();
    health.check_of_bindings_alone("clusterbindings", "bottomup-syncer").pass();
    let names = ["east", "west"].map(Arc::<str>::from);
    let stands = |name: &Arc<str>| health.binding(name, Staged::binding(name, S).election);
    names.iter().for_each(stands);
    let [east, west] = names.each_ref().map(|name| health.binding_lease(name));
    let code = async || ask(&health, "/readyz").await.0;
    east.fail(&trouble());
    assert_eq!(code().await, 200, "an API server that fails, fails for all");
    east.fail(&forbidden());
    let (found, text) = ask(&health, "/readyz").await;
    assert_eq!(found, 503);
    assert!(text.contains("[!] leases of bindings forbidden, so this replica could serve none\n"), "{text}");
    // It stands again, and the API server fails now.
    stands(&names[0]);
    east.fail(&trouble());
    assert_eq!(code().await, 503);
    health.binding_gone("east");
    assert_eq!(code().await, 200, "there is nothing to serve");
    stands(&names[0]);
    east.fail(&forbidden());
    assert_eq!(code().await, 503);
    east.pass();
    assert_eq!(code().await, 200);
    // What worked once is shown.
    for lease in [&east, &west] {
        lease.fail(&forbidden());
    }
    let (found, text) = ask(&health, "/readyz").await;
    assert_eq!((found, text.matches("nodes is forbidden").count()), (200, 2), "{text}");
}

#[tokio::test]
async fn s11_where_other_controllers_run_that_leases_of_bindings_are_forbidden_makes_no_replica_unready() {
    let health = Health::default();
    health.optional_of_controller("clusterbindings", "bottomup-syncer").pass();
    let name: Arc<str> = "east".into();
    health.binding(&name, Staged::binding("east", S).election);
    health.binding_lease(&name).fail(&forbidden());
    let (code, text) = ask(&health, "/readyz").await;
    assert!(code == 200 && text.contains("[!] binding east: ") && !text.contains("could serve none"), "{text}");
}
