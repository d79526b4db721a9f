//! How many control planes are in use at once, and which test is next.
//!
//! A test requests all that it needs in one step. It gets all of them, or waits and holds none; the order is that of
//! arrival. So no two tests wait for each other, and a test that needs three is not overtaken for ever by those that
//! need one. A test that needs more than the machine can run at once gets them when no other test has any.

use std::collections::HashSet;
use std::fs;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::{self, ThreadId};

use anyhow::{Context, Result, ensure};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The environment variable that sets how many are in use at once.
pub const AT_ONCE: &str = "TOPOLOOM_PLANES";
/// A test waits for most of its time. With seven for two processors, of which four belong to tests that need two at a time, those
/// are busy until the end; more only wait for them, and then the deadlines of hosts and leases pass.
const FOR_TWO_PROCESSORS: u64 = 7;
/// What two pairs of servers and two hosts use at most: beside the control plane in use there may be one that waits for a test.
const MEMORY: u64 = 3 << 30;

/// The control planes of this process.
static PLANES: LazyLock<Result<Planes, String>> =
    LazyLock::new(|| at_once().map(Planes::new).map_err(|error| format!("{error:#}")));

/// How many this machine, or `TOPOLOOM_PLANES`, allows at once.
///
/// # Errors
/// When the variable is no number above 0.
pub fn at_once() -> Result<u32> {
    match std::env::var(AT_ONCE) {
        Ok(text) => chosen(&text),
        Err(_) => {
            let processors = thread::available_parallelism().map_or(1, |count| count.get() as u64);
            Ok(fitting(processors, memory()?))
        }
    }
}

fn chosen(text: &str) -> Result<u32> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("{AT_ONCE} is {text:?}: it must be a number of control planes, 1 or more"))
}

fn fitting(processors: u64, memory: u64) -> u32 {
    let fits = (processors * FOR_TWO_PROCESSORS / 2).min(memory / MEMORY).max(1);
    u32::try_from(fits).unwrap_or(u32::MAX)
}

/// Bytes of memory of the machine, or the limit of the control group of this process if that is lower.
fn memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("/proc/meminfo cannot be read")?;
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let kilobytes: u64 = total.context("/proc/meminfo has no MemTotal")?.parse()?;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Ok(group.unwrap_or(u64::MAX).min(kilobytes * 1024))
}

/// A turn for this many, for a test that requests all in one step.
pub(super) async fn take(count: usize) -> Result<Turn> {
    match &*PLANES {
        Ok(planes) => planes.take(count).await,
        Err(error) => Err(anyhow::Error::msg(error.clone())),
    }
}

#[derive(Debug)]
struct Planes {
    free: Arc<Semaphore>,
    at_once: u32,
    /// The tests that have control planes: each runs on a thread of its own.
    holders: Arc<Mutex<HashSet<ThreadId>>>,
}

/// The right to use the requested control planes. All of them share it, and it ends with the last.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    _held: Arc<HeldPermit>,
}

#[derive(Debug)]
struct HeldPermit {
    _permit: OwnedSemaphorePermit,
    thread: ThreadId,
    holders: Arc<Mutex<HashSet<ThreadId>>>,
}

impl Planes {
    fn new(at_once: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(at_once as usize)), at_once, holders: Arc::default() }
    }

    async fn take(&self, count: usize) -> Result<Turn> {
        let thread = thread::current().id();
        let holds = self.holders.lock().unwrap_or_else(PoisonError::into_inner).contains(&thread);
        ensure!(
            !holds,
            "this test has a control plane and asks for another: it must ask for all in one step, or wait for ever"
        );
        let count = u32::try_from(count).unwrap_or(u32::MAX).min(self.at_once);
        // The semaphore serves in the order of arrival, and collects permits for the first in line.
        let permit = Arc::clone(&self.free).acquire_many_owned(count).await.context("it is never closed")?;
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).insert(thread);
        Ok(Turn { _held: Arc::new(HeldPermit { _permit: permit, thread, holders: Arc::clone(&self.holders) }) })
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.thread);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    /// A test on a thread of its own, which requests control planes and reports when it has them. It ends when `ends`
    /// is called.
    struct Asking {
        got: mpsc::UnboundedReceiver<()>,
        end: Option<mpsc::UnboundedSender<()>>,
        thread: Option<thread::JoinHandle<()>>,
    }

    impl Asking {
        /// Requests this many; the place in line is taken when this returns.
        async fn begin(planes: &Arc<Planes>, count: usize) -> Self {
            let (in_line, mut is_in_line) = mpsc::unbounded_channel();
            let (sender, got) = mpsc::unbounded_channel();
            let (end, mut ended) = mpsc::unbounded_channel::<()>();
            let planes = Arc::clone(planes);
            let thread = thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async {
                    let mut turn = Box::pin(planes.take(count));
                    let first = futures::poll!(turn.as_mut());
                    in_line.send(()).unwrap();
                    let _turn = match first {
                        std::task::Poll::Ready(turn) => turn,
                        std::task::Poll::Pending => turn.await,
                    }
                    .unwrap();
                    sender.send(()).unwrap();
                    ended.recv().await;
                });
            });
            timeout(SOON, is_in_line.recv()).await.unwrap().unwrap();
            Self { got, end: Some(end), thread: Some(thread) }
        }

        async fn gets_its_turn(&mut self) {
            timeout(SOON, self.got.recv()).await.expect("it gets its turn").unwrap();
        }

        fn waits(&mut self) -> bool {
            self.got.try_recv().is_err()
        }

        fn ends(&mut self) {
            self.end = None;
            self.thread.take().unwrap().join().unwrap();
        }
    }

    #[test]
    fn the_number_follows_from_processors_and_memory() {
        const GIB: u64 = 1 << 30;
        for (processors, memory, wanted) in
            [(2, 24, 7), (2, 12, 4), (2, 8, 2), (1, 64, 3), (8, 64, 21), (8, 16, 5), (4, 2, 1), (4, 0, 1)]
        {
            assert_eq!(fitting(processors, memory * GIB), wanted, "{processors} processors, {memory} GiB");
        }
        assert!(memory().unwrap() > 0);
    }

    #[test]
    fn a_number_that_is_none_is_refused() {
        assert_eq!(chosen("7").unwrap(), 7);
        for wrong in ["0", "-1", "many", ""] {
            let message = chosen(wrong).unwrap_err().to_string();
            assert!(message.contains("TOPOLOOM_PLANES") && message.contains(wrong), "{message}");
        }
    }

    #[tokio::test]
    async fn three_are_had_also_where_only_two_are_allowed_at_once() {
        let planes = Arc::new(Planes::new(2));
        let mut one = Asking::begin(&planes, 1).await;
        one.gets_its_turn().await;
        let mut three = Asking::begin(&planes, 3).await;
        // One of two is free; the test that requested three does not hold it.
        assert!(three.waits());
        assert_eq!(planes.holders.lock().unwrap().len(), 1);
        one.ends();
        three.gets_its_turn().await;
        let mut next = Asking::begin(&planes, 1).await;
        assert!(next.waits(), "a test that has more than the machine holds is alone");
        three.ends();
        next.gets_its_turn().await;
        next.ends();
    }

    #[tokio::test]
    async fn two_tests_that_need_three_each_never_wait_for_each_other() {
        let planes = Arc::new(Planes::new(4));
        let mut first = Asking::begin(&planes, 3).await;
        let mut second = Asking::begin(&planes, 3).await;
        first.gets_its_turn().await;
        assert!(second.waits());
        first.ends();
        second.gets_its_turn().await;
        second.ends();
        assert_eq!(planes.free.available_permits(), 4);
    }

    #[tokio::test]
    async fn a_test_that_needs_many_is_not_overtaken() {
        let planes = Arc::new(Planes::new(2));
        let mut early = Asking::begin(&planes, 1).await;
        early.gets_its_turn().await;
        let mut many = Asking::begin(&planes, 2).await;
        let mut late = Asking::begin(&planes, 1).await;
        // One is free, and it is for the test that came first.
        assert!(many.waits() && late.waits());
        early.ends();
        many.gets_its_turn().await;
        assert!(late.waits());
        many.ends();
        late.gets_its_turn().await;
        late.ends();
    }

    #[tokio::test]
    async fn a_test_that_asks_again_while_it_has_one_fails_instead_of_waiting() {
        let planes = Planes::new(2);
        let turn = planes.take(1).await.unwrap();
        let message = planes.take(1).await.unwrap_err().to_string();
        assert!(message.contains("all in one step"), "{message}");
        // The planes of one step share its turn.
        let copy = turn.clone();
        drop(turn);
        assert_eq!(planes.free.available_permits(), 1);
        drop(copy);
        assert_eq!(planes.free.available_permits(), 2);
        drop(planes.take(2).await.unwrap());
    }
}
