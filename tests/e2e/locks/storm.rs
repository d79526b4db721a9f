//! Three extenders, twenty nodes, five hundred pods, and processes that are killed and stopped all the time: the test
//! checks the property in etcd's own order of writes, and the liveness (`decisions.md`, "The property").

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use tokio::task::JoinSet;
use topoloom_tests::device_plugin::{Fate, Kubelets, Settings};
use topoloom_tests::dice::Dice;

use super::scheduler::judged;
use super::*;

const NODES: usize = 20;
const PODS: usize = 500;
const WORKERS: usize = 32;
const HOSTS: usize = 3;
/// All limits are shorter than usual: a Bind 5 s, an orphaned lock 10 s.
const SHORT: [&str; 2] = ["--extender-http-timeout=7s", "--node-lock-timeout=10s"];

/// One of the extenders, which ends and starts again at the same address.
struct StormExtender {
    name: String,
    kubeconfig: std::path::PathBuf,
    address: String,
    host: Host,
}

impl StormExtender {
    async fn new(name: String, kubeconfig: &std::path::Path) -> Result<Self> {
        let host = Self::launch(&name, kubeconfig, "127.0.0.1:0").await?;
        let address = host.extender().await;
        Ok(Self { name, kubeconfig: kubeconfig.to_owned(), address, host })
    }

    async fn launch(name: &str, kubeconfig: &std::path::Path, address: &str) -> Result<Host> {
        Host::launch_as(name, kubeconfig, &[&SHORT[..], &["--extender-address", address]].concat()).await
    }

    async fn again(self) -> Result<Self> {
        let Self { name, kubeconfig, address, host } = self;
        host.kill().await?;
        let host = Self::launch(&name, &kubeconfig, &address).await?;
        Ok(Self { name, kubeconfig, address, host })
    }
}

/// Kills, stops and continues replicas, until `enough` is set.
async fn trouble(
    mut replicas: Vec<StormExtender>,
    enough: Arc<AtomicBool>,
    seed: u64,
) -> Result<(Vec<StormExtender>, [usize; 2])> {
    let mut dice = Dice::new(seed);
    let mut done = [0, 0];
    while !enough.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(200 + dice.below(1_500) as u64)).await;
        let which = dice.below(replicas.len());
        if dice.below(3) == 0 {
            let replica = replicas.remove(which);
            replicas.push(replica.again().await?);
            done[0] += 1;
        } else {
            // A replica that holds a lease and is stopped for longer than the lease lasts ends by itself when it
            // continues.
            let replica = &replicas[which];
            if replica.host.signal(Signal::STOP).is_ok() {
                // The longest stop is longer than a Bind, and than the timeout of an orphaned lock.
                tokio::time::sleep(Duration::from_millis(100 + dice.below(12_000) as u64)).await;
                replica.host.signal(Signal::CONT)?;
                done[1] += 1;
            }
        }
        for index in 0..replicas.len() {
            if replicas[index].host.has_ended()? {
                let replica = replicas.remove(index);
                replicas.insert(index, replica.again().await?);
            }
        }
    }
    Ok((replicas, done))
}

#[allow(clippy::print_stdout, reason = "a storm that broke something is had again by its seed")]
#[tokio::test(flavor = "multi_thread")]
async fn r1_no_two_pods_are_on_their_way_to_a_node_through_kills_and_stops() -> Result<()> {
    let names: Vec<String> = (0..NODES).map(|node| format!("gpu-{node}")).collect();
    let scene = LockScene::scene(&names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let kubeconfig = scene.host_kubeconfig().await?;
    let mut replicas = Vec::new();
    for index in 0..HOSTS {
        replicas.push(StormExtender::new(format!("replica-{index}"), &kubeconfig).await?);
    }
    let addresses: Vec<String> = replicas.iter().map(|replica| replica.address.clone()).collect();
    let extender = BindClient { url: String::new(), http: plain_client() };
    let host = StormExtender::launch("idle", &kubeconfig, "127.0.0.1:0").await?;
    let stage = LockScene { scene, host, extender };
    // Some plugins fail, and some die before they release the lock.
    let fate =
        |pod: &Pod| match pod.metadata.name.as_deref().and_then(|name| name.strip_prefix('p')?.parse::<usize>().ok()) {
            Some(number) if number % 17 == 0 => Fate::Fails,
            Some(number) if number % 13 == 0 => Fate::KeepsLock,
            _ => Fate::Completes,
        };
    let settings = Settings { answers_after: Duration::from_millis(30), fate: Arc::new(fate) };
    let kubelets = Kubelets::start(stage.scene.plane.client(), settings);

    let mut todo = VecDeque::new();
    for index in 0..PODS {
        todo.push_back(stage.chosen(&format!("p{index}"), 1).await?);
    }
    let (todo, bound, tries) =
        (Arc::new(Mutex::new(todo)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let enough = Arc::new(AtomicBool::new(false));
    let seed = std::env::var("TOPOLOOM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed}");
    let mut troubled = JoinSet::new();
    troubled.spawn(trouble(replicas, Arc::clone(&enough), seed));
    let mut workers = JoinSet::new();
    for worker in 0..WORKERS {
        let (todo, bound, tries, addresses) =
            (Arc::clone(&todo), Arc::clone(&bound), Arc::clone(&tries), addresses.clone());
        let http = plain_http().timeout(Duration::from_secs(7)).build()?;
        let mut dice = Dice::new(seed ^ (worker as u64 + 1) << 32);
        workers.spawn(async move {
            while bound.load(Ordering::SeqCst) < PODS {
                let next = todo.lock().unwrap().pop_front();
                let Some(pod) = next else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                };
                let address = &addresses[dice.below(HOSTS)];
                let caller = BindClient { url: format!("http://{address}"), http: http.clone() };
                tries.fetch_add(1, Ordering::SeqCst);
                // A host that is down or stopped does not answer; the scheduler tries again, perhaps with another node.
                match caller.bind(&pod, &format!("gpu-{}", dice.below(NODES))).await {
                    Ok(error) if error.is_empty() || error.contains("the pod is bound to node") => {
                        bound.fetch_add(1, Ordering::SeqCst);
                    }
                    Ok(_) => todo.lock().unwrap().push_back(pod),
                    Err(_) => {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        todo.lock().unwrap().push_back(pod);
                    }
                }
            }
        });
    }
    let all = async { while workers.join_next().await.is_some() {} };
    let in_time = tokio::time::timeout(Duration::from_secs(400), all).await;
    enough.store(true, Ordering::SeqCst);
    let (replicas, [kills, stops]) = troubled.join_next().await.context("it was begun")???;
    assert!(
        in_time.is_ok(),
        "only {} of {PODS} pods were bound in {} tries",
        bound.load(Ordering::SeqCst),
        tries.load(Ordering::SeqCst)
    );
    eventually("every pod was served", 2 * PATIENCE, async || {
        let pods = stage.pods().list(&Default::default()).await.map_err(|error| error.to_string())?;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        let open = pods.items.iter().filter(|pod| !["Running", "Failed"].contains(&phase(pod).as_str())).count();
        if open == 0 { Ok(()) } else { Err(format!("{open} are not")) }
    })
    .await;
    for name in &names {
        stage.until_free(name).await;
    }
    println!("{} tries, {kills} kills, {stops} stops", tries.load(Ordering::SeqCst));
    assert!(kills > 2 && stops > 2, "too little went wrong: {kills} kills, {stops} stops");
    assert_eq!(kubelets.mistakes(), [""; 0]);
    judged(&stage).await?;
    kubelets.stop().await;
    drop(replicas);
    stage.stop().await
}
