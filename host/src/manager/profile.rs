//! `/debug/profile`: where the process spends its processor time.
//!
//! While one is taken, each thread that runs is interrupted 99 times per second of processor time, and the frame
//! pointers on its stack are followed; the kernel checks every address before it is read. The result is folded stacks,
//! one per line with its samples, the outermost function first, which flame graphs are drawn from. A function that was
//! interrupted itself is not on its line: its time is its caller's.

use std::collections::BTreeMap;
use std::time::Duration;

use pprof::{Frames, ProfilerGuardBuilder, Report};

/// Samples per second of processor time: no multiple of the period of anything.
const FREQUENCY: i32 = 99;
/// How long a profile takes by default.
pub const USUAL: Duration = Duration::from_secs(30);
/// How long one may take: the server gives a connection two minutes.
pub const LONGEST: Duration = Duration::from_secs(60);

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Its length.
    #[error("a profile takes 1 to {most} seconds, and not {0}", most = LONGEST.as_secs())]
    Length(u64),
    /// There is one profile at a time.
    #[error("another profile is being taken: wait for it")]
    Busy,
    /// No folder for what is sampled, most likely.
    #[error("the profiler cannot start: {source}; it needs a folder that it may write to, and TMPDIR names it")]
    Start {
        /// What it says.
        #[source]
        source: pprof::Error,
    },
    /// The samples cannot be read.
    #[error("the samples cannot be read: {0}")]
    Read(pprof::Error),
    /// The task that names the functions.
    #[error("the samples were lost: {0}")]
    Lost(#[from] tokio::task::JoinError),
}

/// Samples the process for some seconds, and gives folded stacks.
///
/// # Errors
/// When the length is outside 1 to 60 seconds, another one is being taken, or the profiler does not start.
pub async fn take(seconds: u64) -> Result<String, ProfileError> {
    if seconds == 0 || seconds > LONGEST.as_secs() {
        return Err(ProfileError::Length(seconds));
    }
    let guard = ProfilerGuardBuilder::default().frequency(FREQUENCY).build().map_err(|error| match error {
        pprof::Error::Running => ProfileError::Busy,
        source => ProfileError::Start { source },
    })?;
    // A client that hangs up ends it: the guard goes with this future.
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    // Looking names up reads the debug information of the whole program.
    tokio::task::spawn_blocking(move || guard.report().build().map(|report| folded(&report)))
        .await?
        .map_err(ProfileError::Read)
}

/// One line per stack, the most frequent first.
fn folded(report: &Report) -> String {
    let mut stacks: BTreeMap<String, isize> = BTreeMap::new();
    for (frames, samples) in &report.data {
        *stacks.entry(stack(frames)).or_default() += samples;
    }
    let mut lines: Vec<_> = stacks.into_iter().collect();
    lines.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    lines.iter().map(|(stack, samples)| format!("{stack} {samples}\n")).collect()
}

/// The thread, then the functions from the outermost to the innermost.
fn stack(frames: &Frames) -> String {
    let functions = frames.frames.iter().rev().flat_map(|inlined| inlined.iter().rev().map(|symbol| symbol.name()));
    let names: Vec<_> = std::iter::once(frames.thread_name_or_id()).chain(functions).map(|name| plain(&name)).collect();
    names.join(";")
}

/// A name without what thin LTO puts behind it, and with a colon for the separator (it is in the name of a closure in
/// an array, say).
fn plain(name: &str) -> String {
    name.split_once(".llvm.").map_or(name, |(name, _)| name).replace(';', ":")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[inline(never)]
    fn what_keeps_the_processor_busy(ends: &AtomicBool) -> u64 {
        let mut sum = 0_u64;
        while !ends.load(Ordering::Relaxed) {
            sum = std::hint::black_box((0..1000_u64).fold(sum, |sum, i| sum.wrapping_mul(31).wrapping_add(i)));
        }
        sum
    }

    #[test]
    fn a_function_is_called_as_in_the_source() {
        assert_eq!(plain("hashbrown::raw::rehash.llvm.hashbrown_c0386_cgu_0"), "hashbrown::raw::rehash");
        assert_eq!(plain("<[u8; 4] as Into>::into"), "<[u8: 4] as Into>::into");
    }

    /// One test, since the profiler is one for the whole process.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_profile_names_what_was_busy_and_there_is_one_at_a_time() {
        for seconds in [0, 61, u64::MAX] {
            let error = take(seconds).await.unwrap_err().to_string();
            assert_eq!(error, format!("a profile takes 1 to 60 seconds, and not {seconds}"));
        }
        let ends = Arc::new(AtomicBool::new(false));
        let (end, busy) = (Arc::clone(&ends), std::thread::Builder::new().name("busy".into()));
        let busy = busy.spawn(move || what_keeps_the_processor_busy(&end)).unwrap();
        // On a machine with other work a second may bring no sample.
        let (stack, samples) = loop {
            let first = take(1);
            tokio::pin!(first);
            // It has begun once it was polled.
            assert!(futures::poll!(&mut first).is_pending());
            assert!(matches!(take(1).await, Err(ProfileError::Busy)));
            let profile = first.await.unwrap();
            let line = profile.lines().find(|line| line.contains("what_keeps_the_processor_busy"));
            if let Some((stack, samples)) = line.and_then(|line| line.rsplit_once(' ')) {
                break (stack.to_owned(), samples.to_owned());
            }
        };
        ends.store(true, Ordering::Relaxed);
        assert!(stack.starts_with("busy;"), "{stack}");
        assert!(samples.parse::<u32>().unwrap() > 0);
        busy.join().unwrap();
        // A client that hangs up leaves the profiler to the next one.
        {
            let given_up = take(60);
            tokio::pin!(given_up);
            assert!(futures::poll!(&mut given_up).is_pending());
        }
        take(1).await.unwrap();
    }
}
