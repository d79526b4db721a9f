//! A physical API server is gone, for one of two servers and in both modes of a binding (decisions S4 and S5).

use std::fs::read_to_string;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use tokio::time::Instant;
use topoloom_sync::keys;
use topoloom_sync::naming::physical_pod_name;
use topoloom_tests::controlplane::{KEEPERS, SCALED, Wanted, eventually};
use topoloom_tests::lending::kubelets::{self, Kubelets, NewNode};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::group::ready;
use super::super::lent::{ELSEWHERE, Lent, condition, namespace, now, says};
use super::super::pair::BORROWED;
use super::super::{phase, until_pod};
use super::{
    RECOVERY, bound, claim, has_taint, is_terminating, of_loan, pass, player, player_to, pods, states, within,
};

/// For how many minutes an API server is gone, with the default times: a list such as `2,10`. Without it: as long as it takes, with
/// times that suit a test.
const OUTAGES: &str = "TOPOLOOM_OUTAGES";
/// Where the pods of the binding that leaves would be.
const LEAVING: &str = "leaving";

/// One outage.
struct Outage {
    /// At least so long.
    gone: Duration,
    /// The times of the bindings.
    timing: Value,
    /// Those of node-lifecycle.
    flags: &'static [&'static str],
    /// How long its effects may take.
    patience: Duration,
}

fn outages() -> Result<Vec<Outage>> {
    let Ok(list) = std::env::var(OUTAGES) else {
        let timing = json!({"suspect": "4s", "unreachable": "8s"});
        return Ok(vec![Outage { gone: Duration::ZERO, timing, flags: &SCALED, patience: PATIENCE }]);
    };
    let outage = |minutes: &str| {
        let minutes: u64 = minutes.trim().parse().with_context(|| format!("{OUTAGES} is {list:?}"))?;
        let timing = json!({
            "lease": "40s", "suspect": "15s", "unreachable": "40s", "empty": "30s", "recheck": "10s", "grow": "10m",
        });
        let (gone, patience) = (Duration::from_secs(60 * minutes), Duration::from_secs(240));
        Ok(Outage { gone, timing, flags: &[], patience })
    };
    list.split(',').map(outage).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_a_physical_api_server_that_is_gone_takes_nothing_away_by_us_and_all_is_right_again_without_a_hand()
-> Result<()> {
    for outage in outages()? {
        outage.play().await?;
    }
    Ok(())
}

impl Outage {
    /// Three bindings lend from the server that goes: `east` says that its nodes are Unknown then, `north` holds them, and `south` is
    /// deleted meanwhile. `west` lends from another one.
    async fn play(self) -> Result<()> {
        let [virtual_plane, first, second] = Scene::planes([Wanted::Shared, Wanted::Shared, Wanted::Shared]).await?;
        let mut lent = Lent::between([virtual_plane, first], &[], now).await?;
        lent.virtual_plane.start_controllers_with(&KEEPERS, self.flags)?;
        lent.physical_plane.apply(&[namespace(LEAVING)]).await?;
        second.apply(&[namespace(BORROWED)]).await?;
        let (others, run) = Kubelets::new(second.client(), &kubelets::Settings::default());
        lent.background.spawn(run);
        let machines = [("e1", "east"), ("n1", "north"), ("s1", "south")];
        lent.kubelets.register(machines.map(|(name, loan)| NewNode::named(name).label("loan", loan))).await?;
        others.register(["w1", "w2"].map(NewNode::named)).await?;
        for (name, mount, mode) in
            [("east", BORROWED, "unknown"), ("north", ELSEWHERE, "hold"), ("south", LEAVING, "unknown")]
        {
            let fields = json!({
                "nodeSelector": of_loan(name), "mountNamespace": mount, "onUnreachable": mode, "timing": self.timing,
            });
            lent.bind(name, fields).await?;
        }
        lent.secret("west", &read_to_string(second.kubeconfig())?).await?;
        lent.binding("west", json!({"timing": self.timing})).await?;
        lent.serve("west").await?;
        for node in ["vnode-east-e1", "vnode-north-n1", "vnode-south-s1", "vnode-west-w1", "vnode-west-w2"] {
            lent.until(node, "is ready", |node| ready(node) == "True").await;
        }
        let players = [
            player(&mut lent, "east", BORROWED).await?,
            player(&mut lent, "north", ELSEWHERE).await?,
            player_to(&mut lent, second.client(), "west", BORROWED).await?,
        ];
        for (name, node) in [("east-0", "vnode-east-e1"), ("north-0", "vnode-north-n1"), ("west-0", "vnode-west-w1")] {
            bound(&lent.virtual_plane, name, node, json!({})).await?;
            until_pod(&pods(&lent.virtual_plane), name, "runs", |pod| phase(pod) == "Running").await;
        }

        let (began, revision) = (Instant::now(), lent.virtual_plane.revision().await?);
        lent.physical_plane.kill_apiserver();
        self.is_gone(&lent).await?;
        pass(began, self.gone).await;
        nothing_was_taken(&lent, revision).await?;
        // With times that suit a test a machine that is busy for some seconds finds it gone at once.
        if !self.gone.is_zero() {
            was_suspect_first(&lent, revision).await?;
        }

        lent.physical_plane.start_apiserver().await?;
        is_right_again(&lent).await?;
        eventually("the binding that was deleted meanwhile has left nothing", PATIENCE, async || {
            let binding = lent.bindings().get_opt("south").await.map_err(|error| error.to_string())?;
            let machine = lent.machines().get("s1").await.map_err(|error| error.to_string())?;
            let machine = serde_json::to_value(machine).map_err(|error| error.to_string())?;
            match (binding, claim(&machine)) {
                (None, None) => Ok(()),
                (binding, claim) => Err(format!("{claim:?} {:?}", binding.map(|binding| binding.status))),
            }
        })
        .await;
        for player in players {
            assert_eq!(player.mistakes(), [""; 0]);
        }
        assert_eq!(others.mistakes(), [""; 0]);
        lent.stop().await?;
        second.stop().await
    }

    /// What is seen of it, and what follows in the virtual cluster.
    async fn is_gone(&self, lent: &Lent) -> Result<()> {
        let is_unreachable = |binding: &Value| says(binding, "Connected", "False", "PhysicalClusterUnreachable");
        for name in ["east", "north"] {
            within(self.patience, &lent.bindings(), name, "is unreachable", is_unreachable).await;
        }
        let is_tainted = |node: &Value| has_taint(node, keys::UNREACHABLE_TAINT);
        for node in ["vnode-east-e1", "vnode-north-n1"] {
            within(self.patience, &lent.lent(), node, "takes no pods", is_tainted).await;
        }
        lent.bindings().delete("south", &DeleteParams::default()).await?;
        let is_leaving = |binding: &Value| says(binding, "Ready", "False", "Deleting");
        within(self.patience, &lent.bindings(), "south", "waits for its cluster", is_leaving).await;

        // Where leases stop, node-lifecycle and taint-eviction do what pods tolerate, and it is they who do it.
        let is_unknown = |node: &Value| ready(node) == "Unknown";
        within(self.patience, &lent.lent(), "vnode-east-e1", "is Unknown", is_unknown).await;
        let users = pods(&lent.virtual_plane);
        let pod = within(self.patience, &users, "east-0", "goes", is_terminating).await;
        assert_eq!(condition(&pod, "DisruptionTarget")[1], "DeletionByTaintManager", "{pod}");
        Ok(())
    }
}

/// Of both bindings the status said that the server is suspect, and later that it is unreachable.
async fn was_suspect_first(lent: &Lent, revision: u64) -> Result<()> {
    for name in ["east", "north"] {
        let key = format!("/registry/topoloom.dev/clusterbindings/{name}");
        let states = states(&lent.virtual_plane, &key, revision).await?;
        let said: Vec<&str> =
            states.iter().filter_map(|binding| binding["status"]["connection"]["state"].as_str()).collect();
        let first = |word: &str| said.iter().position(|said| *said == word);
        let (suspect, unreachable) = (first("Suspect"), first("Unreachable"));
        assert!(suspect.is_some() && suspect < unreachable, "{name}: {said:?}");
    }
    Ok(())
}

/// Nothing was evicted, deleted or enlarged by us; where nodes are held, no other has evicted a pod either; and what lends from the
/// other server was not touched.
async fn nothing_was_taken(lent: &Lent, revision: u64) -> Result<()> {
    let plane = &lent.virtual_plane;
    for name in ["vnode-east-e1", "vnode-north-n1", "vnode-south-s1"] {
        let node = lent.until(name, "is there", |node| !is_terminating(node)).await;
        for state in states(plane, &format!("/registry/minions/{name}"), revision).await? {
            assert_eq!(state["status"]["allocatable"], node["status"]["allocatable"], "{name}");
        }
    }
    for name in ["vnode-north-n1", "vnode-west-w1", "vnode-west-w2"] {
        for state in states(plane, &format!("/registry/minions/{name}"), revision).await? {
            assert_eq!(ready(&state), "True", "{name}: {state}");
        }
    }
    for name in ["vnode-west-w1", "vnode-west-w2"] {
        lent.until(name, "takes pods", |node| !has_taint(node, keys::UNREACHABLE_TAINT)).await;
    }
    for name in ["north-0", "west-0"] {
        let pod = pods(plane).get(name).await?;
        assert!(pod.metadata.deletion_timestamp.is_none() && phase(&pod) == "Running", "{pod:?}");
    }
    for name in ["east", "north", "west"] {
        let binding = lent.until_binding(name, "is there", |_| true).await;
        let spent = &binding["status"]["spent"];
        assert!(spent.is_null(), "{name} has taken something away: {spent}");
    }
    Ok(())
}

async fn is_right_again(lent: &Lent) -> Result<()> {
    let physical: Api<Pod> = Api::namespaced(lent.physical_plane.client(), BORROWED);
    let marked = physical_pod_name("default", "east-0")?;
    let users = pods(&lent.virtual_plane);
    eventually("everything is right again", RECOVERY, async || {
        for name in ["east", "north", "west"] {
            let binding = lent.bindings().get(name).await.map_err(|error| error.to_string())?;
            let binding = serde_json::to_value(binding).map_err(|error| error.to_string())?;
            if !says(&binding, "Ready", "True", "Ok") {
                return Err(binding.to_string());
            }
        }
        for name in ["vnode-east-e1", "vnode-north-n1"] {
            let node = lent.lent().get(name).await.map_err(|error| error.to_string())?;
            let node = serde_json::to_value(node).map_err(|error| error.to_string())?;
            let taints = [keys::UNREACHABLE_TAINT, "node.kubernetes.io/unreachable"];
            if ready(&node) != "True" || taints.iter().any(|key| has_taint(&node, key)) {
                return Err(node.to_string());
            }
        }
        // A pod that was marked meanwhile ends in both clusters.
        let left = [
            users.get_opt("east-0").await.map_err(|error| error.to_string())?,
            physical.get_opt(&marked).await.map_err(|error| error.to_string())?,
        ];
        if left.iter().any(Option::is_some) {
            return Err(format!("{left:?}"));
        }
        let held = users.get("north-0").await.map_err(|error| error.to_string())?;
        let is_well = super::super::condition(&held, "Ready") == "True" && held.metadata.deletion_timestamp.is_none();
        if is_well { Ok(()) } else { Err(format!("{held:?}")) }
    })
    .await;
    Ok(())
}
