//! Each fault of a fabric manager: the topology stays as it is, the source reports why, and when the fault ends the
//! source recovers by itself, and sends no request sooner than it may.
//!
//! Each fault has a manager, a fabric and a source of its own, so that all sources wait for their pauses at the same
//! time.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use jiff::Timestamp;
use topoloom_simulator::{Credentials, Fabric, Fault, FaultRule, Shape, SharedFabric, Simulator, Ufm};

use super::rig::{Rig, TOKEN, document, entry};

/// A fault, the reason that the source gives, and a part of its message.
pub(super) const FAULTS: [(&str, &str, &str); 24] = [
    ("slow-headers:10s", "Upstream", "the first byte of the answer took longer than"),
    ("drip:50ms", "Upstream", "out of time"),
    ("stall-after-headers", "Upstream", "out of time"),
    ("stall-in-body", "Upstream", "out of time"),
    ("stall-handshake", "Upstream", "the connection took longer than 1s"),
    ("status:401", "Unauthorized", "the token is refused"),
    ("status:403", "Unauthorized", "403"),
    ("status:429:2", "Upstream", "429"),
    ("status:500", "Upstream", "500"),
    ("status:503:2", "Upstream", "503"),
    ("html", "Upstream", "a login page or a proxy"),
    ("redirect:/login", "Unauthorized", "a login page"),
    ("redirect:https://elsewhere.example/x", "Upstream", "elsewhere.example"),
    ("truncated", "Upstream", "ends in the middle"),
    ("reset", "Upstream", "broke off"),
    ("wrong-types:50", "Upstream", "are unusable, more than 5 %"),
    ("empty-object", "Upstream", "where a list is expected"),
    ("endless", "Upstream", "maxBody"),
    ("bomb:64", "Upstream", "maxBody"),
    ("expired-certificate", "Upstream", "its certificate has expired"),
    ("untrusted-certificate", "Upstream", "not signed by a trusted authority"),
    ("wrong-name-certificate", "Upstream", "its certificate is for another name"),
    ("closed", "Upstream", "TLS with"),
    ("refused", "Upstream", "cannot connect"),
];

/// No source sends a request again sooner than this after a failure.
const FLOOR: Duration = Duration::from_secs(10);
/// The interval of the sources that recover only after their interval.
const INTERVAL: Duration = Duration::from_secs(16);
/// The time that a busy machine may need from the beginning of a round to its first request. [`INTERVAL`] minus this
/// must be more than [`FLOOR`].
const SLACK: Duration = Duration::from_secs(5);

/// One source with its own fabric manager, and the fault that the manager will have.
pub(crate) struct Stand {
    pub(crate) source: String,
    pub(crate) fault: &'static str,
    pub(crate) reason: &'static str,
    /// A part of the message.
    pub(crate) words: &'static str,
    pub(crate) server: Simulator,
    pub(crate) entry: String,
}

/// The number of hosts in the fabric of a stand.
const HOSTS: i64 = 3;

/// The fabric of the stand with this number: one unit, whose hosts have names of their own.
pub(crate) fn fabric(number: usize) -> Result<SharedFabric> {
    let shape = format!(
        "units=1,hosts-per-unit={HOSTS},rails=2,pods=1,spines=0,cores=0,seed={number},host-names=f{number:02}-{{index:02}}"
    );
    Ok(SharedFabric::new(Fabric::generate(&shape.parse::<Shape>()?)?))
}

impl Stand {
    /// Whether the source recovers only after its interval.
    fn waits_for_the_interval(&self) -> bool {
        self.reason == "Unauthorized"
    }

    /// How long the source must send no request after a failure.
    fn pause(&self) -> Result<Duration> {
        Ok(match self.fault.parse::<FaultRule>()?.fault() {
            _ if self.waits_for_the_interval() => INTERVAL - SLACK,
            Fault::Status { retry_after: Some(seconds), .. } => FLOOR.max(Duration::from_secs(u64::from(*seconds))),
            _ => FLOOR,
        })
    }

    /// The fault begins, a round fails, the fault ends, and a later round, which no one requested, succeeds.
    async fn fails_and_comes_back(&self, rig: &Rig, before: &[String]) -> Result<()> {
        let Self { source, fault, server, .. } = self;
        // The groups of the source can be there before this condition.
        rig.scene.until_condition(source, "Discovered", "True", "Ok").await;
        server.faults().set(fault.parse::<FaultRule>()?).await?;
        server.fabric().edit(|fabric| fabric.rename_switch("leaf-su0-r0", "leaf-su0-r0"))?;
        server.forget_requests();
        let asked = Timestamp::now();
        // A source with a short interval starts rounds by itself, and a requested one would be one too many in the
        // record.
        if !self.waits_for_the_interval() {
            rig.run(source).await?;
        }
        let message = rig.scene.until_condition(source, "Discovered", "False", self.reason).await;
        assert!(message.contains("tried again") && message.contains(self.words), "{fault}: {message}");
        assert!(!message.contains(TOKEN), "{fault}: {message}");
        let stale = rig.scene.until_condition(source, "Stale", "True", self.reason).await;
        assert!(stale.contains("the last valid topology stays in force"), "{fault}: {stale}");
        assert_eq!(rig.versions().await?, before, "{fault}");
        server.faults().clear().await?;
        rig.scene.until_condition(source, "Discovered", "True", "Ok").await;
        rig.scene.until_state(source, "Serving").await;
        let (pause, requests) = (self.pause()?, server.requests());
        let mut failed: Vec<Timestamp> = Vec::new();
        for (at, request) in requests.iter().enumerate() {
            let last = at.checked_sub(1).and_then(|at| requests.get(at)).filter(|last| last.fault.is_some());
            failed.extend(last.map(|last| last.at));
            let waited = last.map(|last| request.at.duration_since(last.at).unsigned_abs());
            assert!(
                waited.is_none_or(|waited| waited >= pause),
                "{fault}: only {waited:?} of {pause:?}: {requests:#?}"
            );
        }
        if fault.parse::<FaultRule>()?.fault().is_of_connections() {
            // The fault let no request through, so the first request in the record is the first of the good round.
            let first = requests.first().map(|request| request.at.duration_since(asked).unsigned_abs());
            assert!(first.is_some_and(|first| first >= pause), "{fault}: {first:?} of {pause:?}: {requests:#?}");
        } else {
            assert!(!failed.is_empty(), "{fault}: no request met it and was followed by another: {requests:#?}");
        }
        Ok(())
    }
}

/// An entry with a short interval, made from one whose interval is longer than any test.
fn hurried(entry: &str) -> String {
    entry.replace("  interval: 1h\n", &format!("  interval: {}s\n", INTERVAL.as_secs()))
}

/// Runs all stands at the same time, in one cluster.
pub(crate) async fn all_pass(stands: Vec<Stand>) -> Result<()> {
    let rig = Rig { scene: topoloom_tests::scene::Scene::new().await?, fabric: fabric(0)? };
    rig.secret("ufm", &[("token", TOKEN)]).await?;
    let mut nodes = Vec::new();
    for stand in &stands {
        let now = stand.server.fabric().now();
        nodes.extend(now.hosts().map(|(_, host)| (host.name.clone(), Vec::<(String, String)>::new())));
    }
    rig.scene.plane.create_nodes(nodes).await?;
    let entries = stands.iter().map(|stand| match stand.waits_for_the_interval() {
        true => hurried(&stand.entry),
        false => stand.entry.clone(),
    });
    rig.scene.configure(&document(&entries.collect::<Vec<_>>())).await?;
    let host = rig.scene.host().await?;
    rig.until(&vec![(1, HOSTS); stands.len()]).await;
    let before = rig.versions().await?;
    try_join_all(stands.iter().map(|stand| stand.fails_and_comes_back(&rig, &before))).await?;
    assert_eq!(rig.versions().await?, before);
    assert!(!host.log().join("\n").contains(TOKEN), "the token stands in the log");
    host.stop().await?;
    for stand in stands {
        stand.server.stop().await;
    }
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_leaves_the_topology_says_why_and_passes_by_itself() -> Result<()> {
    let mut stands = Vec::new();
    let patient = ("status:503:20", "Upstream", "");
    for (number, (fault, reason, words)) in FAULTS.into_iter().chain([patient]).enumerate() {
        let credentials = Credentials::none().token(TOKEN);
        let server = Ufm::builder(fabric(number)?).credentials(credentials).start().await?;
        let source = format!("ufm-{number:02}");
        let entry = entry(&source, &[&server], "");
        stands.push(Stand { source, fault, reason, words, server, entry });
    }
    all_pass(stands).await
}
