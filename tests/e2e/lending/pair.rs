//! Two control planes: a virtual cluster with a virtual node that a test made by hand, and a physical one with kubelets.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use topoloom_sync::identity::Identity;
use topoloom_sync::identity::mapping::{Mapping, PodSide, is_mapped};
use topoloom_sync::keys;
use topoloom_sync::naming::{BindingName, ClusterId, physical_pod_name, virtual_node_name};
use topoloom_tests::controlplane::{ControlPlane, Wanted, eventually};
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::{self, Kubelets, NewNode};
use topoloom_tests::lending::player::{self, Player};
use topoloom_tests::scene::{PATIENCE, Scene};

/// Where virtual pods are.
pub(super) const SHOP: &str = "shop";
/// Where physical pods are.
pub(super) const BORROWED: &str = "borrowed";

pub(super) struct Pair {
    pub(super) virtual_plane: ControlPlane,
    pub(super) physical_plane: ControlPlane,
    pub(super) player: Player,
    kubelets: Kubelets,
    background: Background,
    pub(super) identity: Identity,
    /// The virtual node of `w1`.
    pub(super) node: String,
}

impl Pair {
    pub(super) async fn new() -> Result<Self> {
        Self::with(&kubelets::Settings::default()).await
    }

    /// With these settings of the kubelets of the physical cluster.
    pub(super) async fn with(of_kubelets: &kubelets::Settings) -> Result<Self> {
        let [virtual_plane, physical_plane] = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
        namespace(&virtual_plane, SHOP).await?;
        namespace(&physical_plane, BORROWED).await?;
        let mut background = Background::new();
        let (kubelets, run) = Kubelets::new(physical_plane.client(), of_kubelets);
        background.spawn(run);
        kubelets.register([NewNode::named("w1")]).await?;

        let identity = identity(&virtual_plane).await?;
        let node = virtual_node(&virtual_plane, &identity).await?;
        let settings = player::Settings {
            identity: identity.clone(),
            mount_namespace: BORROWED.to_owned(),
            // Here nothing copies status, so there is nothing to wait for.
            patience: Duration::ZERO,
        };
        let (player, run) = Player::new(virtual_plane.client(), physical_plane.client(), settings);
        background.spawn(run);
        Ok(Self { virtual_plane, physical_plane, player, kubelets, background, identity, node })
    }

    pub(super) fn virtuals(&self) -> Api<Pod> {
        Api::namespaced(self.virtual_plane.client(), SHOP)
    }

    pub(super) fn physicals(&self) -> Api<Pod> {
        Api::namespaced(self.physical_plane.client(), BORROWED)
    }

    /// Runs this until the end of the test, too.
    pub(super) fn runs(&mut self, run: impl Future<Output = ()> + Send + 'static) {
        self.background.spawn(run);
    }

    /// Creates a virtual pod that is bound to the virtual node.
    pub(super) async fn bound(&self, name: &str, annotations: Value) -> Result<Pod> {
        let pod = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": self.node, "containers": [{"name": "c", "image": "none"}]},
        });
        Ok(self.virtuals().create(&PostParams::default(), &serde_json::from_value(pod)?).await?)
    }

    /// Waits until a virtual pod and its physical one name each other, with the UID; returns both.
    pub(super) async fn until_mapped(&self, name: &str) -> Result<(Pod, Pod)> {
        let physical_name = physical_pod_name(SHOP, name)?;
        let what = format!("{name} is copied");
        let both = eventually(&what, PATIENCE, async || {
            let twin = self.virtuals().get(name).await.map_err(|error| error.to_string())?;
            let physical = self.physicals().get(&physical_name).await.map_err(|error| error.to_string())?;
            let mapping = mapping(&physical, &twin);
            let has_uid = annotation(&twin, keys::PHYSICAL_POD_UID).is_some();
            if has_uid && mapping == Mapping::Both { Ok((twin, physical)) } else { Err(format!("{mapping:?}")) }
        });
        Ok(both.await)
    }

    pub(super) async fn stop(self) -> Result<()> {
        assert_eq!(self.player.mistakes(), [""; 0]);
        assert_eq!(self.kubelets.mistakes(), [""; 0]);
        self.background.stop().await;
        self.virtual_plane.stop().await?;
        self.physical_plane.stop().await
    }
}

pub(super) fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn mapping(physical: &Pod, twin: &Pod) -> Mapping {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let parts = |pod: &Pod| {
        let metadata = &pod.metadata;
        let annotations = metadata.annotations.clone().unwrap_or_default();
        (text(&metadata.namespace), text(&metadata.name), text(&metadata.uid).into(), annotations)
    };
    let (physical, twin) = (parts(physical), parts(twin));
    let side = |(namespace, name, uid, annotations)| PodSide { namespace, name, uid, annotations };
    is_mapped(&side((&physical.0, &physical.1, &physical.2, &physical.3)), &side((&twin.0, &twin.1, &twin.2, &twin.3)))
}

pub(super) async fn namespace(plane: &ControlPlane, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(plane.client());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    Ok(())
}

/// The identity of a binding in this cluster. There is no ClusterBinding: the player knows only what it is given.
async fn identity(plane: &ControlPlane) -> Result<Identity> {
    let namespaces: Api<Namespace> = Api::all(plane.client());
    let uid = namespaces.get("kube-system").await?.metadata.uid.context("a namespace has a UID")?;
    Ok(Identity::new(uid.into(), BindingName::parse("east")?, "binding-1".into())?)
}

/// The virtual node of `w1`, made by hand.
async fn virtual_node(plane: &ControlPlane, identity: &Identity) -> Result<String> {
    let cluster = ClusterId::parse("east")?;
    let name = virtual_node_name(&cluster, "w1")?.to_string();
    let mut labels = identity.node_labels(&cluster, "w1");
    labels.insert("type".to_owned(), "virtual-kubelet".to_owned());
    let annotations = json!({keys::PHYSICAL_NODE_NAME: "w1"});
    let node = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}});
    let nodes: Api<Node> = Api::all(plane.client());
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    Ok(name)
}
