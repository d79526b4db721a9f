//! What every process shows, under the names that every process shows it by: processor time, memory, descriptors, and
//! when it started; and which build it is.
//!
//! Read when a scraper asks. What cannot be read is left out. The process that compiles plugins of others is not in it.

use std::fmt;
use std::fs;

use jiff::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::catalogue::PREFIX;

/// What the kernel says of this process.
#[derive(Debug)]
struct ProcessStat {
    started: Timestamp,
}

/// A registry with what every process shows. Everything of ours goes into the one that [`ours`] makes in it.
pub(in crate::manager) fn registry() -> Registry {
    let mut all = Registry::default();
    all.register_collector(Box::new(ProcessStat { started: Timestamp::now() }));
    all
}

/// Where the metrics of this program go, whose names begin with its own.
pub(in crate::manager) fn ours(all: &mut Registry) -> &mut Registry {
    all.sub_registry_with_prefix(PREFIX)
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
    architecture: &'static str,
    libc: &'static str,
}

/// Registers which build runs.
pub(super) fn build(registry: &mut Registry) {
    let libc = if cfg!(target_env = "musl") { "musl" } else { "glibc" };
    let of = Build { version: env!("CARGO_PKG_VERSION"), architecture: std::env::consts::ARCH, libc };
    let family: Family<Build, Gauge> = Family::default();
    family.get_or_create(&of).set(1);
    registry.register("build_info", "1 for the version that runs", family);
}

impl Collector for ProcessStat {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let spent = seconds(time.tv_sec, time.tv_nsec);
        let help = "Processor time of the process, in user and in kernel mode";
        let counter = encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
        ConstCounter::new(spent).encode(counter)?;
        let started = seconds(self.started.as_second(), self.started.subsec_nanosecond());
        let help = "When the process started, seconds since 1970";
        let gauge = encoder.encode_descriptor("process_start_time", help, Some(&Unit::Seconds), MetricType::Gauge)?;
        ConstGauge::new(started).encode(gauge)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        for (name, field, help) in [
            ("process_resident_memory", "VmRSS:", "Resident memory of the process"),
            ("process_virtual_memory", "VmSize:", "Virtual memory of the process"),
        ] {
            let Some(kilobytes) = field_of(&status, field) else { continue };
            let gauge = encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
            ConstGauge::new(kilobytes.saturating_mul(1024)).encode(gauge)?;
        }
        let mut number = |name: &str, help: &str, number: Option<i64>| match number {
            Some(number) => {
                let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
                ConstGauge::new(number).encode(gauge)
            }
            None => Ok(()),
        };
        number("process_threads", "Threads of the process", field_of(&status, "Threads:"))?;
        number("process_open_fds", "Descriptors of the process that are open", open())?;
        let most = getrlimit(Resource::Nofile).current.and_then(|most| i64::try_from(most).ok());
        number("process_max_fds", "Descriptors that the process may open", most)
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far from 2 to the 52nd")]
fn seconds(whole: i64, nanoseconds: impl Into<i64>) -> f64 {
    whole as f64 + nanoseconds.into() as f64 / 1e9
}

/// The number behind a name in `/proc/self/status`.
fn field_of(status: &str, name: &str) -> Option<i64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// Open descriptors, without the one by which they are counted.
fn open() -> Option<i64> {
    let listed = fs::read_dir("/proc/self/fd").ok()?.count();
    i64::try_from(listed.saturating_sub(1)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_shows_what_the_kernel_knows_of_it_and_which_build_it_is() {
        let mut registry = registry();
        let ours = ours(&mut registry);
        build(ours);
        ours.register("mine", "Something of ours", Gauge::<i64>::default());
        let shown = || {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
            text
        };
        let value = |text: &str, name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("{name} is not in {text}")).parse().unwrap()
        };
        let text = shown();
        assert!(text.contains("topoloom_mine 0\n") && text.contains("topoloom_build_info{version=\""), "{text}");
        let now = Timestamp::now().as_second() as f64;
        assert!((now - value(&text, "process_start_time_seconds")).abs() < 60.0, "{text}");
        let resident = value(&text, "process_resident_memory_bytes");
        assert!(resident > 1e6 && resident <= value(&text, "process_virtual_memory_bytes"), "{text}");
        assert!(value(&text, "process_threads") >= 1.0 && value(&text, "process_cpu_seconds_total") > 0.0, "{text}");
        assert!(value(&text, "process_open_fds") <= value(&text, "process_max_fds"), "{text}");
        // It is read again each time: more descriptors than any other test opens meanwhile.
        let open: Vec<_> = (0..200).map(|_| fs::File::open("/proc/self/status").unwrap()).collect();
        assert!(value(&shown(), "process_open_fds") > value(&text, "process_open_fds") + 100.0, "{text}");
        drop(open);
    }
}
