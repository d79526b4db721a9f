//! Lives, as text: which stage at which time.

use serde_json::{Value, json};

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(1_785_564_600_000 + millis).unwrap()
}

fn ms(millis: i64) -> SignedDuration {
    SignedDuration::from_millis(millis)
}

fn life(plan: Plan, init: &Value) -> Life {
    let pod = serde_json::from_value(json!({"spec": {"containers": [{"name": "c"}], "initContainers": init}})).unwrap();
    Life::of(&pod, plan, 1)
}

/// A pod that has everything at 0.
fn begun(plan: Plan, init: &Value) -> Life {
    let mut life = life(plan, init);
    life.admit(at(0));
    life.checked(None, at(0));
    life.advance(at(0));
    life
}

fn runs(run: Run) -> Life {
    begun(Plan { run, ..Plan::default() }, &json!([]))
}

/// The stage at each of these times.
fn seen(life: &mut Life, times: &[i64]) -> String {
    let word = |life: &Life| match &life.stage {
        Stage::New => "new".to_owned(),
        Stage::Creating { .. } => "creating".to_owned(),
        Stage::Starting => "starting".to_owned(),
        Stage::Running { .. } => format!("running({})", life.restarts),
        Stage::BackOff { .. } => format!("back-off({})", life.restarts),
        Stage::Stopping { .. } => "stopping".to_owned(),
        Stage::Ended(end) => format!("{}({})", end.phase.word(), end.code),
    };
    let looks = times.iter().map(|time| {
        life.advance(at(*time));
        word(life)
    });
    looks.collect::<Vec<_>>().join(" ")
}

fn ended_at(life: &Life) -> Option<Timestamp> {
    life.ended().map(|end| end.at)
}

#[test]
fn a_pod_runs_for_ever_or_ends_at_its_time() {
    assert_eq!(seen(&mut runs(Run::Forever), &[0, 86_400_000]), "running(0) running(0)");
    let mut life = runs(Run::Ends(ms(1000), Phase::Succeeded));
    assert_eq!(life.due(at(0)), Some(at(1000)));
    assert_eq!(seen(&mut life, &[999, 1000]), "running(0) Succeeded(0)");
    let mut life = runs(Run::Ends(ms(1000), Phase::Failed));
    assert_eq!(seen(&mut life, &[5000]), "Failed(1)");
    assert_eq!(ended_at(&life), Some(at(1000)), "the look came late, the end did not");
    assert_eq!(life.due(at(5000)), None);
}

#[test]
fn containers_that_fail_are_started_again_ever_later() {
    let mut life = runs(Run::Restarts(ms(100)));
    let looks = [99, 100, 200, 10_199, 10_200, 10_300, 30_299, 30_300];
    let wanted = "running(0) running(1) back-off(1) back-off(1) running(2) back-off(2) back-off(2) running(3)";
    assert_eq!(seen(&mut life, &looks), wanted);
    assert_eq!(life.last, Some(Exit { started: at(10_200), finished: at(10_300) }));
    life.restarts = 40;
    assert_eq!(life.back_off(), LONGEST_BACK_OFF);
}

#[test]
fn init_containers_run_one_after_the_other_and_sidecars_do_not_count() {
    let plan = Plan { init: ms(300), ..Plan::default() };
    let sidecar = json!({"name": "s", "restartPolicy": "Always"});
    let mut life = begun(plan, &json!([{"name": "a"}, sidecar, {"name": "b"}]));
    assert_eq!(life.due(at(0)), Some(at(300)));
    assert_eq!(life.due(at(300)), Some(at(600)));
    assert_eq!(seen(&mut life, &[599, 600]), "starting running(0)");
    assert_eq!(life.running(), Some(at(600)));
    assert_eq!(life.initialized(), Some(at(600)));
}

#[test]
fn containers_are_ready_after_their_time_or_never() {
    let life = begun(Plan { ready: Some(ms(200)), ..Plan::default() }, &json!([]));
    assert_eq!((life.ready_since(at(199)), life.ready_since(at(200))), (None, Some(at(200))));
    assert_eq!(life.due(at(0)), Some(at(200)));
    let life = begun(Plan { ready: None, ..Plan::default() }, &json!([]));
    assert_eq!((life.ready_since(at(9000)), life.due(at(0))), (None, None));
}

#[test]
fn a_pod_that_is_active_for_too_long_is_stopped_within_its_grace_and_fails() {
    let begun = |stop| {
        let spec =
            json!({"containers": [{"name": "c"}], "activeDeadlineSeconds": 5, "terminationGracePeriodSeconds": 2});
        let pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        let mut life = Life::of(&pod, Plan { stop, ..Plan::default() }, 1);
        life.admit(at(0));
        life
    };
    let reason = |life: &Life| life.ended().and_then(|end| end.reason.clone());
    let mut life = begun(Stop::After(ms(500), Phase::Succeeded));
    life.checked(None, at(0));
    life.advance(at(0));
    assert_eq!(life.due(at(0)), Some(at(5000)));
    assert_eq!(seen(&mut life, &[4999, 5000, 5500]), "running(0) stopping Failed(0)");
    assert_eq!(reason(&life).as_deref(), Some("DeadlineExceeded"));
    // Its grace ends, too, and one that never started has nothing to stop.
    let mut life = begun(Stop::Never);
    life.checked(None, at(0));
    assert_eq!(seen(&mut life, &[6999, 7000]), "stopping Failed(137)");
    let mut life = begun(Stop::Never);
    assert_eq!(seen(&mut life, &[4999, 5000]), "creating Failed(137)");
    assert_eq!(reason(&life).as_deref(), Some("DeadlineExceeded"));
    // One that ended before has its own end, and one that is deleted stops as it was asked to.
    let mut life = begun(Stop::After(ms(1), Phase::Succeeded));
    life.checked(None, at(0));
    life.advance(at(4000));
    life.delete(at(30_000), at(4000));
    assert_eq!(seen(&mut life, &[9000]), "Succeeded(0)");
    assert_eq!(reason(&life), None);
}

#[test]
fn what_is_missing_is_looked_for_again() {
    let mut life = life(Plan::default(), &json!([]));
    life.admit(at(0));
    assert!(life.wants_check(at(0)));
    let missing = Missing { container: None, message: "no".into() };
    life.checked(Some(missing.clone()), at(0));
    assert!(!life.wants_check(at(1999)) && life.wants_check(at(2000)));
    assert_eq!(life.due(at(0)), Some(at(2000)));
    assert_eq!(seen(&mut life, &[9000]), "creating");
    life.checked(None, at(9000));
    assert_eq!(seen(&mut life, &[9000]), "running(0)");
    life.checked(Some(missing), at(9001));
    assert_eq!(seen(&mut life, &[9001]), "running(0)", "a late answer changes nothing");
}

#[test]
fn a_deleted_pod_stops_in_its_own_time_or_is_killed() {
    let stops = |stop| begun(Plan { stop, ..Plan::default() }, &json!([]));
    let mut life = stops(Stop::After(ms(500), Phase::Succeeded));
    life.delete(at(30_100), at(100));
    life.delete(at(30_100), at(200));
    assert_eq!(seen(&mut life, &[599, 600]), "stopping Succeeded(0)");

    let mut life = stops(Stop::After(ms(500), Phase::Failed));
    life.delete(at(30_100), at(100));
    assert_eq!(seen(&mut life, &[600]), "Failed(143)");

    let mut life = stops(Stop::After(ms(500), Phase::Succeeded));
    life.delete(at(400), at(100));
    assert_eq!(seen(&mut life, &[399, 400]), "stopping Failed(137)");

    let mut life = stops(Stop::Never);
    life.delete(at(30_100), at(100));
    assert_eq!(seen(&mut life, &[30_099]), "stopping");
    life.delete(at(30_200), at(30_100));
    assert_eq!(seen(&mut life, &[30_100]), "Failed(137)", "a later deadline does not count");
}

#[test]
fn a_shorter_grace_kills_earlier() {
    let mut life = begun(Plan { stop: Stop::Never, ..Plan::default() }, &json!([]));
    life.delete(at(30_000), at(0));
    life.delete(at(1000), at(500));
    assert_eq!(seen(&mut life, &[999, 1000]), "stopping Failed(137)");
    // Deleting with a time in the past is a kill now.
    let mut life = begun(Plan { stop: Stop::Never, ..Plan::default() }, &json!([]));
    life.delete(at(-5000), at(100));
    assert_eq!(seen(&mut life, &[100]), "Failed(137)");
    assert_eq!(ended_at(&life), Some(at(100)));
}

#[test]
fn a_pod_without_running_containers_ends_at_once() {
    let mut new = life(Plan::default(), &json!([]));
    new.delete(at(30_000), at(7));
    assert_eq!((seen(&mut new, &[7]), ended_at(&new)), ("Failed(137)".to_owned(), Some(at(7))));
    let mut creating = life(Plan::default(), &json!([]));
    creating.admit(at(0));
    creating.delete(at(30_000), at(7));
    assert_eq!(seen(&mut creating, &[7]), "Failed(137)");
    let mut ended = runs(Run::Ends(ms(5), Phase::Succeeded));
    ended.advance(at(6));
    ended.delete(at(30_000), at(7));
    assert_eq!(seen(&mut ended, &[40_000]), "Succeeded(0)", "its end stays");
}

#[test]
fn room_is_held_from_admission_to_the_end() {
    let mut life = life(Plan { stop: Stop::Never, ..Plan::default() }, &json!([]));
    assert!(!life.holds_room());
    life.admit(at(0));
    assert!(life.holds_room());
    life.checked(None, at(0));
    life.advance(at(0));
    life.delete(at(1000), at(0));
    life.advance(at(999));
    assert!(life.holds_room(), "a terminating pod still uses what it has");
    life.advance(at(1000));
    assert!(!life.holds_room());
    let mut evicted = runs(Run::Forever);
    evicted.evict("low".into(), at(3));
    assert!(!evicted.holds_room() && evicted.ended().unwrap().cause == Cause::Evicted);
    evicted.evict("again".into(), at(4));
    assert_eq!(ended_at(&evicted), Some(at(3)));
}

#[test]
fn pods_of_an_earlier_kubelet_run_on_and_ended_ones_stay_ended() {
    let pod = |status: Value| serde_json::from_value(json!({"spec": {"containers": []}, "status": status})).unwrap();
    let running = pod(json!({
        "phase": "Running", "startTime": "2026-08-01T06:10:00Z",
        "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 3,
            "state": {"running": {"startedAt": "2026-08-01T06:10:02Z"}}}],
    }));
    let life = Life::of(&running, Plan::default(), 1);
    assert_eq!(life.running(), Some("2026-08-01T06:10:02Z".parse().unwrap()));
    assert_eq!(life.restarts, 3);
    let over = Life::of(&pod(json!({"phase": "Succeeded"})), Plan::default(), 1);
    assert_eq!(over.ended().map(|end| end.cause), Some(Cause::Found));
    let pending = Life::of(&pod(json!({"phase": "Pending"})), Plan::default(), 1);
    assert!(pending.is_new());
}
