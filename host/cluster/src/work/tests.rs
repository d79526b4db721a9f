use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_core::queue::{Limiter, NotAdded, Requeue};

use super::*;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
#[error("not today")]
struct NotToday;

/// Work that follows a script and remembers what it was asked.
struct Scripted<F> {
    script: F,
    begun: Instant,
    calls: Mutex<Vec<(String, Duration)>>,
    dropped: Mutex<Vec<(String, String)>>,
    all: Vec<String>,
    news: Notify,
}

impl<F: Fn(&str, usize) -> Result<WorkOutcome, NotToday> + Send + Sync + 'static> Scripted<F> {
    /// The script gets the key and how often it was worked on before.
    fn new(script: F) -> Arc<Self> {
        Self::knowing(&[], script)
    }

    fn knowing(all: &[&str], script: F) -> Arc<Self> {
        let all = all.iter().map(|key| (*key).to_owned()).collect();
        let (calls, dropped) = (Mutex::default(), Mutex::default());
        Arc::new(Self { script, begun: Instant::now(), calls, dropped, all, news: Notify::new() })
    }

    fn calls(&self) -> Vec<(String, Duration)> {
        self.calls.lock().unwrap().clone()
    }

    fn times(&self, key: &str) -> Vec<Duration> {
        self.calls().into_iter().filter(|(called, _)| called == key).map(|(_, at)| at).collect()
    }

    fn dropped(&self) -> Vec<(String, String)> {
        self.dropped.lock().unwrap().clone()
    }

    async fn until(&self, what: impl Fn(&Self) -> bool) {
        while !what(self) {
            self.news.notified().await;
        }
    }
}

impl<F: Fn(&str, usize) -> Result<WorkOutcome, NotToday> + Send + Sync + 'static> Work<String> for Scripted<F> {
    type Error = NotToday;

    async fn work(&self, key: &String) -> Result<WorkOutcome, NotToday> {
        let before = self.times(key).len();
        self.calls.lock().unwrap().push((key.clone(), self.begun.elapsed()));
        self.news.notify_one();
        (self.script)(key, before)
    }

    fn dropped(&self, key: &String, failure: &WorkFailure<NotToday>) {
        self.dropped.lock().unwrap().push((key.clone(), failure.to_string()));
        self.news.notify_one();
    }

    fn all(&self) -> Vec<String> {
        self.all.clone()
    }
}

fn never(_: &str, _: usize) -> Result<WorkOutcome, NotToday> {
    Err(NotToday)
}

fn queue(capacity: usize) -> WorkQueue<String> {
    WorkQueue::new("test", NonZeroUsize::new(capacity).unwrap(), Limiter::default())
}

fn options(workers: usize, requeue: i64) -> Options {
    let workers = NonZeroUsize::new(workers).unwrap();
    Options { workers, requeue: Requeue::of_flag(requeue), ..Options::default() }
}

/// Runs workers until the condition holds.
async fn run<W: Work<String>>(
    queue: &WorkQueue<String>,
    options: Options,
    work: &Arc<W>,
    until: impl Future<Output = ()>,
) {
    let crew = run_workers(queue.clone(), options, Arc::clone(work), CancellationToken::new());
    tokio::select! {
        () = crew => panic!("the workers ended"),
        () = until => {}
    }
}

#[tokio::test(start_paused = true)]
async fn r8_bx_1_a_key_that_always_fails_is_tried_three_times_with_two_retries_and_revived_by_the_resync() {
    let (queue, work) = (queue(1), Scripted::new(never));
    queue.add("a".into()).unwrap();
    run(&queue, options(3, 2), &work, work.until(|work| work.calls().len() == 4)).await;
    assert_eq!(work.times("a"), [Duration::ZERO, 5 * MS, 15 * MS, 300 * S]);
    assert_eq!(work.dropped(), [("a".to_owned(), "not today".to_owned())]);
    assert_eq!(queue.counts().retries, 3, "after the drop it counts anew");
}

#[tokio::test(start_paused = true)]
async fn r8_a_dropped_key_comes_back_at_once_when_it_is_added() {
    let (queue, work) = (queue(1), Scripted::new(never));
    queue.add("a".into()).unwrap();
    run(&queue, options(1, 0), &work, async {
        work.until(|work| work.dropped().len() == 1).await;
        queue.add("a".into()).unwrap();
        work.until(|work| work.dropped().len() == 2).await;
    })
    .await;
    assert_eq!(work.times("a"), [Duration::ZERO; 2]);
}

#[tokio::test(start_paused = true)]
async fn bx_2_without_a_limit_a_key_is_never_dropped() {
    let (queue, work) = (queue(1), Scripted::new(never));
    queue.add("a".into()).unwrap();
    run(&queue, options(3, -1), &work, work.until(|work| work.calls().len() == 30)).await;
    let times = work.times("a");
    let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[18..].iter().all(|pause| *pause == 1000 * S), "{pauses:?}");
    assert_eq!(work.dropped(), []);
}

#[tokio::test(start_paused = true)]
async fn bx_3_by_default_a_key_is_tried_sixteen_times() {
    let (queue, work) = (queue(1), Scripted::new(never));
    queue.add("a".into()).unwrap();
    run(&queue, Options::default(), &work, work.until(|work| work.dropped().len() == 1)).await;
    let times = work.times("a");
    assert_eq!((times.len(), times.last().copied()), (16, Some(163_835 * MS)));
}

#[tokio::test(start_paused = true)]
async fn bx_4_of_250_keys_that_fail_at_once_a_hundred_come_back_at_once_and_the_others_in_turn() {
    let queue = queue(250);
    let work = Scripted::new(|_, before| if before == 0 { Err(NotToday) } else { Ok(WorkOutcome::Done) });
    for key in 0..250 {
        queue.add(format!("{key:03}")).unwrap();
    }
    run(&queue, options(5, 15), &work, work.until(|work| work.calls().len() == 500)).await;
    let mut second: Vec<Duration> = work.calls()[250..].iter().map(|(_, at)| *at).collect();
    second.sort();
    assert_eq!(second[..100], [5 * MS; 100]);
    assert_eq!((second[100], second[249]), (100 * MS, 15 * S));
}

/// Work that takes time and sees who works beside it.
#[derive(Default)]
struct Crowded {
    busy: Mutex<BTreeMap<String, usize>>,
    most_at_once: AtomicUsize,
    overlaps: AtomicUsize,
    done: AtomicUsize,
}

impl Work<String> for Crowded {
    type Error = NotToday;

    async fn work(&self, key: &String) -> Result<WorkOutcome, NotToday> {
        {
            let mut busy = self.busy.lock().unwrap();
            let same = busy.entry(key.clone()).or_default();
            *same += 1;
            self.overlaps.fetch_add(*same - 1, Ordering::Relaxed);
            self.most_at_once.fetch_max(busy.values().sum(), Ordering::Relaxed);
        }
        let leaving = Leaving { work: self, key };
        tokio::time::sleep(MS).await;
        drop(leaving);
        let done = self.done.fetch_add(1, Ordering::Relaxed);
        if done.is_multiple_of(3) { Err(NotToday) } else { Ok(WorkOutcome::Done) }
    }

    fn dropped(&self, key: &String, failure: &WorkFailure<NotToday>) {
        panic!("{key} was dropped: {failure}");
    }
}

/// Work that is cut off has left, too, before its key is given to another.
struct Leaving<'a> {
    work: &'a Crowded,
    key: &'a str,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        *self.work.busy.lock().unwrap().get_mut(self.key).unwrap() -= 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn r7_keys_are_worked_on_side_by_side_and_each_by_one_worker() {
    let (queue, work) = (queue(9), Arc::new(Crowded::default()));
    let adding = async {
        // Adds on without pause, from the side, until enough was done.
        while work.done.load(Ordering::Relaxed) < 300 {
            for key in ["a", "b", "c"] {
                queue.add(key.into()).unwrap();
            }
            tokio::task::yield_now().await;
        }
    };
    run(&queue, options(8, -1), &work, adding).await;
    assert_eq!(work.overlaps.load(Ordering::Relaxed), 0, "two workers on one key");
    assert_eq!(work.most_at_once.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn work_may_ask_for_another_time_and_that_is_no_failure() {
    let queue = queue(1);
    let work = Scripted::new(|_, before| Ok(if before < 20 { WorkOutcome::Again(15 * S) } else { WorkOutcome::Done }));
    queue.add("a".into()).unwrap();
    run(&queue, options(2, 0), &work, work.until(|work| work.calls().len() == 21)).await;
    assert_eq!(work.times("a"), (0..21).map(|i| i * 15 * S).collect::<Vec<_>>());
    assert_eq!((work.dropped(), queue.counts().retries), (vec![], 0));
}

#[tokio::test(start_paused = true)]
async fn the_last_work_on_a_key_says_when_there_is_something_to_do_next() {
    let queue = queue(1);
    // A window that closes after 100 s is edited after ten.
    let outcomes = [WorkOutcome::Again(100 * S), WorkOutcome::Again(200 * S)];
    let work = Scripted::new(move |_, before| Ok(outcomes.get(before).copied().unwrap_or(WorkOutcome::Done)));
    queue.add("a".into()).unwrap();
    run(&queue, options(2, 0), &work, async {
        tokio::time::sleep(10 * S).await;
        queue.add("a".into()).unwrap();
        work.until(|work| work.calls().len() == 3).await;
        tokio::time::sleep(S).await;
    })
    .await;
    assert_eq!(work.times("a"), [Duration::ZERO, 10 * S, 210 * S]);
    assert_eq!(queue.counts().later, 0);
}

#[tokio::test(start_paused = true)]
async fn sleeping_workers_wake_for_the_earliest_time_also_when_it_is_given_last() {
    let (queue, work) = (queue(9), Scripted::new(|_, _| Ok(WorkOutcome::Done)));
    run(&queue, options(3, 15), &work, async {
        for (key, pause) in [("c", 30 * S), ("b", 20 * S)] {
            queue.add_after(key.into(), pause).unwrap();
            tokio::time::sleep(S).await;
        }
        queue.add_after("a".into(), 5 * S).unwrap();
        queue.add_after("far".into(), Duration::MAX).unwrap();
        work.until(|work| work.calls().len() == 3).await;
    })
    .await;
    let order: Vec<(String, Duration)> =
        [("a", 7 * S), ("b", 21 * S), ("c", 30 * S)].map(|(key, at)| (key.into(), at)).into();
    assert_eq!(work.calls(), order);
}

#[tokio::test(start_paused = true)]
async fn a_panic_counts_as_a_failure_and_the_only_worker_goes_on() {
    let queue = queue(2);
    let work = Scripted::new(|key, before| match (key, before) {
        ("a", 0) => panic!("a\nstumble"),
        _ => Ok(WorkOutcome::Done),
    });
    queue.add("a".into()).unwrap();
    queue.add("b".into()).unwrap();
    run(&queue, options(1, 15), &work, work.until(|work| work.calls().len() == 3)).await;
    assert_eq!(work.times("a"), [Duration::ZERO, 5 * MS]);
    assert_eq!(work.times("b"), [Duration::ZERO]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_too_many_is_told_with_its_message() {
    let (queue, work) = (queue(1), Scripted::new(|_, _| panic!("a\nstumble")));
    queue.add("a".into()).unwrap();
    run(&queue, options(1, 0), &work, work.until(|work| !work.dropped().is_empty())).await;
    assert_eq!(work.dropped(), [("a".to_owned(), "it panicked: a\\nstumble".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn what_a_full_queue_refused_comes_with_the_resync() {
    let queue = queue(1);
    let work = Scripted::knowing(&["b"], |_, _| Ok(WorkOutcome::Done));
    queue.add("a".into()).unwrap();
    assert_eq!(queue.add("b".into()), Err(NotAdded::Full));
    let options = Options { resync: 10 * S, ..options(1, 15) };
    run(&queue, options, &work, work.until(|work| work.calls().len() == 2)).await;
    assert_eq!((work.times("a"), work.times("b")), (vec![Duration::ZERO], vec![10 * S]));
    assert_eq!(queue.counts().refusals, 1);
}

/// Work that continues until the test releases it.
struct Gated {
    begun: Notify,
    gate: Semaphore,
    done: AtomicUsize,
}

impl Work<String> for Gated {
    type Error = NotToday;

    async fn work(&self, _: &String) -> Result<WorkOutcome, NotToday> {
        self.begun.notify_one();
        self.gate.acquire().await.unwrap().forget();
        self.done.fetch_add(1, Ordering::Relaxed);
        Ok(WorkOutcome::Done)
    }

    fn dropped(&self, _: &String, _: &WorkFailure<NotToday>) {}
}

fn gated() -> Arc<Gated> {
    Arc::new(Gated { begun: Notify::new(), gate: Semaphore::new(0), done: AtomicUsize::new(0) })
}

#[tokio::test(start_paused = true)]
async fn r4_when_told_to_stop_work_under_way_is_finished_and_nothing_new_begun() {
    let (queue, work, stop) = (queue(9), gated(), CancellationToken::new());
    for key in ["a", "b"] {
        queue.add(key.into()).unwrap();
    }
    let mut crew = JoinSet::new();
    crew.spawn(run_workers(queue.clone(), options(1, 15), Arc::clone(&work), stop.clone()));
    work.begun.notified().await;
    stop.cancel();
    assert!(tokio::time::timeout(S, crew.join_next()).await.is_err(), "it must wait for the work");
    work.gate.add_permits(9);
    crew.join_next().await.unwrap().unwrap();
    assert_eq!(work.done.load(Ordering::Relaxed), 1);
    assert_eq!(queue.counts().waiting, 1, "the other waits still");
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_shut_down_is_served_to_its_end() {
    let (queue, work) = (queue(9), gated());
    for key in ["a", "b", "c"] {
        queue.add(key.into()).unwrap();
    }
    queue.add_after("d".into(), S).unwrap();
    let mut crew = JoinSet::new();
    crew.spawn(run_workers(queue.clone(), options(2, 15), Arc::clone(&work), CancellationToken::new()));
    work.begun.notified().await;
    assert_eq!(queue.shut_down(), ["d"]);
    assert_eq!(queue.add("e".into()), Err(NotAdded::Closed));
    work.gate.add_permits(9);
    crew.join_next().await.unwrap().unwrap();
    assert_eq!(work.done.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn idle_workers_end_with_a_shut_down() {
    let queue = queue(1);
    let mut crew = JoinSet::new();
    crew.spawn(run_workers(queue.clone(), options(3, 15), gated(), CancellationToken::new()));
    tokio::task::yield_now().await;
    queue.shut_down();
    tokio::time::timeout(S, crew.join_next()).await.expect("they end").unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_that_is_cut_off_stands_in_the_line_again() {
    let (queue, work) = (queue(1), gated());
    queue.add("a".into()).unwrap();
    run(&queue, options(1, 15), &work, work.begun.notified()).await;
    // The workers are aborted where they wait; that takes them a turn.
    while queue.counts().processing > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(queue.counts().waiting, 1);
    work.gate.add_permits(1);
    run(&queue, options(1, 15), &work, async {
        while work.done.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r10_each_shard_works_on_its_own_keys_and_passes_on_the_others() {
    let five = NonZeroUsize::new(5).unwrap();
    let shards = Shards::new("test", five, five, Limiter::default());
    let keys = ["default/job-1", "default/job-2", "default/job-3", "default/test-job", "test/vcjob-1", "default/任务"];
    for (key, shard) in keys.iter().zip([0, 4, 3, 2, 3, 1]) {
        assert_eq!(shards.shard(&(*key).to_owned()), shard, "{key}");
        shards.add((*key).to_owned()).unwrap();
    }
    // And one where it does not belong.
    shards.queues()[0].add("ns1/training".into()).unwrap();
    let work = Scripted::new(|_, before| if before == 0 { Err(NotToday) } else { Ok(WorkOutcome::Done) });
    let stop = CancellationToken::new();
    let crew = run_shards(shards.clone(), options(1, 15), Arc::clone(&work), stop);
    tokio::select! {
        () = crew => panic!("the workers ended"),
        () = work.until(|work| work.calls().len() == 14) => {}
    }
    let retries: Vec<u64> = shards.queues().iter().map(|queue| queue.counts().retries).collect();
    assert_eq!(retries, [1, 1, 1, 2, 2], "each failed once, in its own shard");
    assert_eq!(work.times("ns1/training").len(), 2);
}

#[test]
fn a_queue_whose_workers_began_twice_is_counted_once() {
    let (metrics, queue) = (Metrics::default(), queue(4));
    queue.add("a".into()).unwrap();
    metrics.show(&queue);
    metrics.show(&queue);
    assert_eq!(metrics.dump()["test"]["waiting"], 1);
}

#[test]
fn what_is_counted_does_not_fall_when_a_queue_ends() {
    let mut registry = Registry::with_prefix("topoloom");
    let metrics = Metrics::register(&mut registry);
    let text = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    let (one, other) = (queue(4), queue(4));
    for queue in [&one, &other] {
        queue.add("a".into()).unwrap();
        metrics.show(queue);
    }
    let adds = |number: u64| format!("topoloom_workqueue_adds_total{{queue=\"test\"}} {number}\n");
    assert!(text().contains(&adds(2)), "{}", text());
    drop(one);
    assert!(text().contains(&adds(2)), "{}", text());
    assert_eq!(metrics.dump()["test"]["waiting"], 1, "what there is is that of the other");
    let third = queue(4);
    third.add("a".into()).unwrap();
    metrics.show(&third);
    drop(other);
    assert!(text().contains(&adds(3)), "{}", text());
    drop(third);
    let text = text();
    assert!(text.contains(&adds(3)) && !text.contains("workqueue_depth{"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_metrics_say_what_the_queues_hold() {
    let mut registry = Registry::with_prefix("topoloom");
    let metrics = Metrics::register(&mut registry);
    let (queue, work) = (queue(4), gated());
    for key in ["a", "b", "c"] {
        queue.add(key.into()).unwrap();
    }
    queue.add_after("d".into(), 3600 * S).unwrap();
    assert_eq!(queue.add("e".into()), Err(NotAdded::Full));
    let options = Options { metrics, ..options(1, 15) };
    let text = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    };
    run(&queue, options, &work, async {
        work.begun.notified().await;
        work.gate.add_permits(1);
        work.begun.notified().await;
        tokio::time::sleep(2 * S).await;
        let text = text();
        for line in [
            r#"topoloom_workqueue_adds_total{queue="test"} 3"#,
            r#"topoloom_workqueue_retries_total{queue="test"} 0"#,
            r#"topoloom_workqueue_dropped_total{queue="test"} 0"#,
            r#"topoloom_workqueue_refused_total{queue="test"} 1"#,
            r#"topoloom_workqueue_depth{queue="test"} 1"#,
            r#"topoloom_workqueue_delayed{queue="test"} 1"#,
            r#"topoloom_workqueue_unfinished_work_seconds{queue="test"} 2"#,
            r#"topoloom_workqueue_longest_running_processor_seconds{queue="test"} 2"#,
            r#"topoloom_workqueue_work_duration_seconds_count{queue="test"} 1"#,
        ] {
            assert!(text.lines().any(|found| found == line || found == format!("{line}.0")), "{line} in\n{text}");
        }
    })
    .await;
    drop(queue);
    while text().contains("workqueue_depth{") {
        tokio::task::yield_now().await;
    }
}
