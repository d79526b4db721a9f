//! Requests that fail: when they are tried again, and what is reported.

use super::*;

/// When requests for `n` were sent that met this, once its lease was made.
async fn attempts(fault: Fault) -> (Scene, Vec<Duration>) {
    let scene = Scene::new();
    scene.start("n", "uid");
    until("it is made", || scene.api.leases() == 1).await;
    pass(S / 5).await;
    scene.api.take_seen();
    scene.api.script(move |_, _, _| fault);
    pass(40 * S).await;
    let seen = scene.api.take_seen();
    assert!(seen.iter().all(|seen| seen.method == Method::PUT), "{:?}", short(&seen));
    let first = seen[0].at;
    (scene, seen.iter().map(|seen| seen.at - first).collect())
}

fn tenths(times: &[Duration]) -> Vec<u128> {
    times.iter().map(|time| (time.as_millis() + 50) / 100).collect()
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_is_tried_again_after_1_2_and_3_s_and_anew_with_its_turn() {
    let (scene, times) = attempts(Fault::Refused(500, "InternalError", 0)).await;
    assert_eq!(tenths(&times)[..8], [0, 10, 30, 60, 100, 110, 130, 160]);
    let news = scene.news();
    let [BeatNews::Refused { node, refusal, failing: 1 }] = news.as_slice() else { panic!("once a minute: {news:?}") };
    assert_eq!((&**node, refusal.message.as_str()), ("n", "the script says InternalError"));
    assert_eq!(scene.metric("virtual_node_leases_failing"), 1.0);
    // It recovers by itself.
    scene.api.script(|_, _, _| USUAL);
    pass(11 * S).await;
    assert_eq!(scene.metric("virtual_node_leases_failing"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_a_pause_gets_it_up_to_one_interval() {
    let (_, times) = attempts(Fault::Refused(429, "TooManyRequests", 7)).await;
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.clone().all(|gap| gap >= 7 * S - S / 10), "{times:?}");
    let (_, times) = attempts(Fault::Refused(429, "TooManyRequests", 3600)).await;
    assert!(times.len() >= 4 && times.len() <= 5, "{times:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_made_is_tried_with_pauses_up_to_7_s_and_a_stop_ends_that() {
    let scene = Scene::new();
    scene.api.script(|_, _, _| Fault::Refused(403, "Forbidden", 0));
    scene.start("n", "uid");
    pass(35 * S).await;
    let times: Vec<Duration> = scene.api.take_seen().iter().map(|seen| seen.at).collect();
    let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(tenths(&gaps), [2, 4, 8, 16, 32, 64, 70, 70, 70]);
    let begun = Instant::now();
    scene.stop("n", Memory::Dropped).await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "a pause is cancelled at once");
    pass(30 * S).await;
    assert_eq!(short(&scene.api.seen()), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_second_writer_costs_a_bounded_number_of_requests() {
    let scene = Scene::new();
    scene.start("n", "uid");
    until("it is made", || scene.api.leases() == 1).await;
    pass(S / 5).await;
    scene.api.take_seen();
    let refused = |method: &Method| *method == Method::PUT;
    scene.api.script(move |method, _, _| if refused(method) { Fault::Refused(409, "Conflict", 0) } else { USUAL });
    pass(30 * S).await;
    let seen = scene.api.take_seen();
    let bursts: Vec<usize> = seen.chunk_by(|one, next| next.at - one.at < S / 10).map(|burst| burst.len()).collect();
    assert!(bursts.iter().all(|burst| *burst <= 10), "five renewals, each after a read: {bursts:?}");
    assert!(bursts.len() <= 12, "{bursts:?}");
    let news = scene.news();
    assert!(
        matches!(news.as_slice(), [BeatNews::Refused { refusal, .. }] if refusal.message.contains("Conflict")),
        "{news:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_found_by_one_read() {
    let scene = Scene::new();
    let mut writes = 0;
    scene.api.script(move |method, _, _| {
        writes += usize::from(*method != Method::GET);
        // The create, and the second renewal after it.
        if *method != Method::GET && matches!(writes, 1 | 4) { Fault::Lost } else { USUAL }
    });
    scene.start("n", "uid");
    pass(40 * S).await;
    let seen = scene.api.take_seen();
    let shown = short(&seen);
    assert_eq!(shown[..4], ["POST n -", "POST n 409", "GET n 200", "PUT n 200"], "{shown:?}");
    let lost = shown.iter().rposition(|request| request == "PUT n -").expect("a renewal was lost");
    assert_eq!(shown[lost..lost + 4], ["PUT n -", "PUT n 409", "GET n 200", "PUT n 200"], "{shown:?}");
    let times: Vec<Timestamp> = seen.iter().filter_map(Seen::renewed).collect();
    assert!(times.is_sorted_by(|one, next| one < next), "also of those that were lost: {times:?}");
    assert!(scene.metric("virtual_node_lease_renewals_total{binding=\"east\",outcome=\"unanswered\"}") >= 2.0);
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_refusal_is_reported_once_a_minute_however_many_leases_meet_it() {
    let scene = Scene::new();
    scene.api.script(|_, node, _| match node {
        "a" => Fault::Refused(403, "Forbidden", 0),
        _ => Fault::Refused(500, "InternalError", 0),
    });
    for node in ["a", "b", "c", "d"] {
        scene.start(node, "uid");
    }
    pass(50 * S).await;
    let reasons = |news: Vec<BeatNews>| -> Vec<RefusalReason> {
        let mut reasons: Vec<_> = news
            .into_iter()
            .filter_map(|news| match news {
                BeatNews::Refused { refusal, .. } => Some(refusal.reason),
                BeatNews::NoRight { sent: Sent::Create, .. } => None,
                other => panic!("{other:?}"),
            })
            .collect();
        reasons.sort();
        reasons
    };
    let both = [RefusalReason::Forbidden, RefusalReason::ServerError];
    assert_eq!(reasons(scene.news()), both);
    pass(50 * S).await;
    assert_eq!(reasons(scene.news()), both, "again, a minute later");
}

#[tokio::test(start_paused = true)]
async fn s19_a_missing_right_is_news_by_kind_of_request_once_a_minute_until_such_a_request_succeeds() {
    let scene = Scene::new();
    scene.start("n", "uid");
    until("it is made", || scene.api.leases() == 1).await;
    let rights = || -> Vec<String> {
        let right = |news| match news {
            BeatNews::NoRight { sent, refusal } => Some(format!("no {sent:?}: {refusal}")),
            BeatNews::Right { sent } => Some(format!("{sent:?}")),
            BeatNews::Refused { .. } => None,
            other => panic!("{other:?}"),
        };
        scene.news().into_iter().filter_map(right).collect()
    };
    scene.api.script(|method, _, _| match *method {
        Method::PUT => Fault::Refused(403, "Forbidden", 0),
        _ => USUAL,
    });
    pass(50 * S).await;
    assert_eq!(rights(), ["no Renew: the script says Forbidden"]);
    // That a lease can be made says nothing about renewals.
    scene.start("m", "uid");
    pass(5 * S).await;
    assert_eq!(rights(), [""; 0]);
    pass(30 * S).await;
    assert_eq!(rights(), ["no Renew: the script says Forbidden"]);
    scene.api.script(|_, _, _| USUAL);
    pass(11 * S).await;
    assert_eq!(rights(), ["Renew"]);
}

#[tokio::test(start_paused = true)]
async fn s24_a_clock_that_is_set_back_stops_no_renewal_and_is_reported_once() {
    let scene = Scene::new();
    scene.start("n", "uid");
    scene.start("m", "uid");
    pass(15 * S).await;
    let before = scene.api.take_seen();
    scene.off.store(-3600, Ordering::SeqCst);
    pass(35 * S).await;
    let seen = scene.api.take_seen();
    for node in ["n", "m"] {
        let all: Vec<Timestamp> =
            before.iter().chain(&seen).filter(|seen| seen.node == node).filter_map(Seen::renewed).collect();
        assert!(all.len() >= 5 && all.is_sorted_by(|one, next| one < next), "{node}: {all:?}");
        let steps: Vec<SignedDuration> = all.windows(2).map(|pair| pair[1].duration_since(pair[0])).collect();
        assert!(steps[steps.len() - 2..].iter().all(|step| *step == SignedDuration::from_micros(1)), "{steps:?}");
    }
    let news = scene.news();
    let [BeatNews::Skew { ahead, .. }] = news.as_slice() else { panic!("for all leases once: {news:?}") };
    assert!((3580..=3600).contains(&ahead.as_secs()), "{ahead:?}");
    assert!(scene.metric("virtual_node_lease_clock_skew_seconds") > 3500.0);
    // The clock is right again, and a later error is news.
    scene.off.store(0, Ordering::SeqCst);
    pass(15 * S).await;
    assert_eq!(scene.metric("virtual_node_lease_clock_skew_seconds"), 0.0);
    scene.off.store(-30, Ordering::SeqCst);
    pass(11 * S).await;
    assert_eq!(scene.news().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn s24_a_clock_that_is_a_little_behind_is_no_news() {
    let scene = Scene::new();
    scene.start("n", "uid");
    pass(11 * S).await;
    scene.off.store(-14, Ordering::SeqCst);
    // Its next renewal would be four seconds before the last one.
    pass(30 * S).await;
    let times: Vec<Timestamp> = scene.api.seen().iter().filter_map(Seen::renewed).collect();
    assert!(times.is_sorted_by(|one, next| one < next), "{times:?}");
    scene.no_news();
}

#[tokio::test(start_paused = true)]
async fn s24_a_restored_server_does_not_turn_the_time_of_renewals_back() {
    let scene = Scene::new();
    scene.start("n", "uid");
    pass(15 * S).await;
    let last = scene.api.seen().iter().filter_map(Seen::renewed).max().unwrap();
    // node-lifecycle has seen the last renewal. The restored etcd has not, and meanwhile our clock was set back.
    let mut lease = scene.api.lease("n").unwrap();
    lease["spec"]["renewTime"] = json!("2026-11-25T10:00:00.000000Z");
    scene.api.put("n", lease["metadata"]["labels"].clone(), Some(("n", "uid")), lease["spec"].clone());
    scene.off.store(-3600, Ordering::SeqCst);
    scene.api.take_seen();
    pass(11 * S).await;
    let renewed: Vec<Timestamp> = scene.api.seen().iter().filter_map(Seen::renewed).collect();
    assert!(!renewed.is_empty() && renewed.iter().all(|time| *time > last), "{renewed:?} after {last}");
}
