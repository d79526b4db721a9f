//! The player as a program of its own, `player`, for the guide of operators and the demo: two kubeconfig files and the name of a
//! binding.
//!
//! Owns what is read before it plays, what it prints, and when it ends. Everything else is the [player's](super). As the contract
//! wants it (C1), the identity is read of a virtual node and not computed, so it waits for the first one.
//!
//! # Failure story
//!
//! Before it plays, what cannot be read is an error that says in which cluster, and what to do: a person waits at the terminal. From
//! then on an API server that stops only delays it. It ends when its binding is gone. It ends with an error when the binding has
//! another UID, since pods of the earlier one would be mixed up with its own.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, ListParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use topoloom_api::ClusterBinding;
use topoloom_core::names::Uid;
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::naming::BindingName;

use super::{Made, News, Player, Settings, Step};
use crate::controlplane::client_from;
use crate::lending::watch;

/// How it is called.
pub const USAGE: &str = "usage: player --virtual-kubeconfig FILE --physical-kubeconfig FILE --binding NAME";

const VIRTUAL: &str = "--virtual-kubeconfig";
const PHYSICAL: &str = "--physical-kubeconfig";
const BINDING: &str = "--binding";

/// How long the syncer has to copy the final phase of a physical pod that is gone.
const PATIENCE: Duration = Duration::from_secs(15);

/// What it is called with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    virtual_kubeconfig: PathBuf,
    physical_kubeconfig: PathBuf,
    binding: BindingName,
}

impl Arguments {
    /// Reads the words after the name of the program.
    ///
    /// # Errors
    /// Names the word that is missing, unknown or given twice, or the value that cannot be used.
    pub fn read(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut given: BTreeMap<&str, String> = BTreeMap::new();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let flag = [VIRTUAL, PHYSICAL, BINDING].into_iter().find(|flag| *flag == name);
            let flag = flag.with_context(|| format!("{name:?} is no flag of this program\n{USAGE}"))?;
            let value = value.or_else(|| words.next()).filter(|value| !value.is_empty());
            let value = value.with_context(|| format!("{flag} needs a value\n{USAGE}"))?;
            ensure!(given.insert(flag, value).is_none(), "{flag} is given twice\n{USAGE}");
        }
        let mut take = |flag: &str| given.remove(flag).with_context(|| format!("{flag} is missing\n{USAGE}"));
        let (virtual_kubeconfig, physical_kubeconfig) = (take(VIRTUAL)?.into(), take(PHYSICAL)?.into());
        let binding = BindingName::parse(&take(BINDING)?).context(BINDING)?;
        Ok(Self { virtual_kubeconfig, physical_kubeconfig, binding })
    }
}

/// A ClusterBinding, as far as the player needs it.
struct Bound {
    name: BindingName,
    uid: Uid,
    mount_namespace: String,
    /// The cluster that it borrows from, once the syncer has seen it.
    physical_cluster: Option<String>,
}

/// Plays until `stop`, or until the binding is gone.
///
/// # Errors
/// When something cannot be read before it plays, or the binding has another UID.
pub async fn run(arguments: &Arguments, stop: impl Future<Output = ()>) -> Result<()> {
    tokio::select! {
        played = play(arguments) => played,
        () = stop => {
            println!("player: stopped; the pods stay as they are");
            Ok(())
        }
    }
}

async fn play(arguments: &Arguments) -> Result<()> {
    let virtual_side = client(VIRTUAL, &arguments.virtual_kubeconfig).await?;
    let physical_side = client(PHYSICAL, &arguments.physical_kubeconfig).await?;
    let bound = Bound::read(&virtual_side, &arguments.binding).await?;
    bound.check(&physical_side).await?;
    readable::<Node>(&Api::all(virtual_side.clone()), "the virtual cluster").await?;
    readable::<Pod>(&Api::all(virtual_side.clone()), "the virtual cluster").await?;
    readable::<Pod>(&Api::namespaced(physical_side.clone(), &bound.mount_namespace), "the physical cluster").await?;
    println!("player: waits for the first virtual node of ClusterBinding {}", bound.name);
    let identity = bound.identity(&virtual_side).await?;
    println!("player: carries pods of ClusterBinding {} down into namespace {}", bound.name, bound.mount_namespace);
    let settings = Settings { identity, mount_namespace: bound.mount_namespace.clone(), patience: PATIENCE };
    let (player, plays) = Player::new(virtual_side.clone(), physical_side, settings);
    tokio::select! {
        // It ends with the last copy of its handle, which is here.
        () = plays => bail!("the player has ended by itself"),
        () = tell(&player) => bail!("the player has no news any more"),
        ended = bound.ends(&virtual_side) => ended,
    }
}

async fn client(flag: &str, kubeconfig: &Path) -> Result<Client> {
    client_from(kubeconfig).await.with_context(|| format!("{flag} {}", kubeconfig.display()))
}

/// Checks that a kind can be listed: a watch would try again for ever, and say nothing.
async fn readable<K>(api: &Api<K>, cluster: &str) -> Result<()>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let listed = api.list(&ListParams::default().limit(1)).await;
    listed.map(drop).with_context(|| format!("{} of {cluster} cannot be listed", K::plural(&())))
}

impl Bound {
    async fn read(client: &Client, name: &BindingName) -> Result<Self> {
        let bindings: Api<ClusterBinding> = Api::all(client.clone());
        let found = bindings.get_opt(name).await.context("ClusterBindings of the virtual cluster cannot be read")?;
        let found = found.with_context(|| {
            format!("the virtual cluster has no ClusterBinding {name}; `kubectl get clusterbindings` lists those that it has")
        })?;
        let spec = found.spec.map_err(|why| anyhow!("ClusterBinding {name}: {why}"))?;
        Ok(Self {
            name: name.clone(),
            uid: found.metadata.uid.unwrap_or_default().into(),
            mount_namespace: spec.mount_namespace,
            physical_cluster: found.status.physical_cluster_uid,
        })
    }

    /// Checks that this is the cluster that the binding borrows from (C33).
    async fn check(&self, physical_side: &Client) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(physical_side.clone());
        let system = namespaces.get("kube-system").await;
        let system = system.context("the namespace kube-system of the physical cluster cannot be read")?;
        let found = system.metadata.uid.unwrap_or_default();
        match &self.physical_cluster {
            Some(known) if *known != found => bail!(
                "{PHYSICAL} leads to the cluster {found}, and ClusterBinding {} borrows from {known}: give the kubeconfig of that one",
                self.name
            ),
            _ => Ok(()),
        }
    }

    /// Waits for a virtual node of this binding, and reads the identity of it.
    async fn identity(&self, client: &Client) -> Result<Identity> {
        let ours = format!("{}={}", keys::BINDING_UID, self.uid);
        let mut nodes = watch::<Node>(Api::all(client.clone()), watcher::Config::default().labels(&ours));
        while let Some(event) = nodes.next().await {
            let (Event::Apply(node) | Event::InitApply(node)) = event else { continue };
            let labels = node.metadata.labels.unwrap_or_default();
            if let Some(cluster) = labels.get(keys::VIRTUAL_CLUSTER) {
                return Ok(Identity::new(cluster.as_str().into(), self.name.clone(), self.uid.clone())?);
            }
        }
        bail!("the watch of virtual nodes has ended by itself")
    }

    /// Waits until the binding is gone.
    async fn ends(&self, client: &Client) -> Result<()> {
        let only_it = watcher::Config::default().fields(&format!("metadata.name={}", self.name));
        let mut bindings = watch::<ClusterBinding>(Api::all(client.clone()), only_it);
        let mut is_there = false;
        while let Some(event) = bindings.next().await {
            match event {
                Event::Init => is_there = false,
                Event::InitApply(binding) | Event::Apply(binding) => {
                    is_there = true;
                    let uid = binding.metadata.uid.unwrap_or_default();
                    ensure!(
                        *uid == *self.uid,
                        "ClusterBinding {} was deleted and made again: start the player again, for the pods of the new one",
                        self.name
                    );
                }
                Event::InitDone if is_there => {}
                Event::InitDone | Event::Delete(_) => {
                    println!("player: ClusterBinding {} is gone, and with it the work", self.name);
                    return Ok(());
                }
            }
        }
        bail!("the watch of ClusterBindings has ended by itself")
    }
}

/// Prints what happens.
async fn tell(player: &Player) {
    loop {
        let News { made, mistakes } = player.news().await;
        for Made { pod, step } in made {
            println!("player: {}/{}: {}", pod.namespace, pod.name, words(step));
        }
        for mistake in mistakes {
            eprintln!("player: refused: {mistake}");
        }
    }
}

fn words(step: Step) -> &'static str {
    match step {
        Step::WriteNames => "it has the name of its physical pod",
        Step::Create => "its physical pod is created",
        Step::WriteUid => "it has the UID of its physical pod",
        Step::Lose => "it fails, since its physical pod vanished",
        Step::DeletePhysical => "its physical pod is deleted",
        Step::WriteFinal => "it has a final phase",
        Step::Remove => "it is removed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments> {
        Arguments::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_come_in_any_order_with_a_blank_or_an_equals_sign() {
        let wanted = Arguments {
            virtual_kubeconfig: "v".into(),
            physical_kubeconfig: "p".into(),
            binding: BindingName::parse("east").unwrap(),
        };
        for line in [
            "--virtual-kubeconfig v --physical-kubeconfig p --binding east",
            "--binding=east --physical-kubeconfig=p --virtual-kubeconfig=v",
        ] {
            assert_eq!(read(line).unwrap(), wanted, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_flag_is_said() {
        for (line, part) in [
            ("", "--virtual-kubeconfig is missing"),
            ("--virtual-kubeconfig v --physical-kubeconfig p", "--binding is missing"),
            ("--virtual-kubeconfig v --physical-kubeconfig p --binding East_1", "got \"East_1\""),
            ("--binding", "--binding needs a value"),
            ("--binding=", "--binding needs a value"),
            ("--binding a --binding b", "--binding is given twice"),
            ("--cluster east", "\"--cluster\" is no flag"),
            ("east", "\"east\" is no flag"),
        ] {
            let error = format!("{:#}", read(line).unwrap_err());
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
