//! Rights on both sides of lending: `topoloom preflight` names each rule that is taken away, with verb, resource and side.
//!
//! No syncer runs. Each account lacks one rule from the beginning, so that nothing has to be waited for in between.

use anyhow::{Context, Result};
use futures::{StreamExt, stream};
use serde_json::{Value, json};
use topoloom::manager::rights::lending::{
    BindingLeases, Evictions, HostPorts, PhysicalSettings, Streams, VirtualSettings,
};
use topoloom::manager::rights::{Extent, Right};
use topoloom_api::cluster_binding::{self, PhysicalWrites, PolicySource};
use topoloom_sync::keys;
use topoloom_sync::naming::BindingName;
use topoloom_syncer::kubeconfig::KEY;
use topoloom_tests::controlplane::{ControlPlane, Wanted, eventually};
use topoloom_tests::scene::{PATIENCE, Scene};
use topoloom_tests::{host, schema};

use super::pair::{BORROWED, namespace};
use super::program::account;

/// Where the syncer is.
const SYSTEM: &str = "topoloom-system";
/// Commands at the same time.
const AT_ONCE: usize = 4;

/// What a borrower needs in the physical cluster.
fn lends(binding: &str) -> Result<Vec<Right>> {
    let settings = PhysicalSettings {
        binding: BindingName::parse(binding)?,
        mount_namespace: BORROWED.to_owned(),
        writes: PhysicalWrites::All,
        policies: PolicySource::Physical,
        streams: Streams::Served,
    };
    Ok(settings.rights())
}

/// What the syncer needs in the virtual cluster for one binding, which also takes its policies from there and mirrors host ports.
fn borrows(binding: &str) -> Vec<Right> {
    let settings = VirtualSettings {
        leases: BindingLeases::Elected(SYSTEM.to_owned()),
        config: (SYSTEM.to_owned(), "switch".to_owned()),
        extent: Extent::Everything,
        secrets: vec![(SYSTEM.to_owned(), binding.to_owned())],
        policies: PolicySource::Virtual,
        evictions: Evictions::Allowed,
        host_ports: HostPorts::Mirrored,
        streams: Streams::Served,
    };
    settings.rights()
}

/// What `preflight` finds with the rights of an operator, and with these flags.
async fn preflight(plane: &ControlPlane, more: &[&str]) -> Result<Vec<Value>> {
    let switch = format!("{SYSTEM}/switch");
    let output = tokio::process::Command::new(host::binary()?)
        .args(["preflight", "--output=json", "--controllers=bottomup-syncer", "--syncer-allow-loopback"])
        .args(["--namespace", SYSTEM, "--config-map", &switch, "--syncer-kubelet-address=127.0.0.1"])
        .args(more)
        .arg("--kubeconfig")
        .arg(plane.kubeconfig())
        .env_remove("KUBECONFIG")
        .output()
        .await?;
    let text = String::from_utf8(output.stdout)?;
    let checks = schema::checked(&text).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(checks["checks"].as_array().cloned().unwrap_or_default())
}

/// The checks of rights that are not as they should be, of one binding or of the virtual cluster.
fn missing<'a>(checks: &'a [Value], binding: Option<&'a str>) -> Vec<&'a Value> {
    let is_right = |check: &&Value| {
        let what = check["what"].as_str().unwrap_or_default();
        // Without the right to see which cluster it is, no other one is asked for.
        what.starts_with("right ") || what == "physical API server"
    };
    let of = checks.iter().filter(move |check| check["binding"].as_str() == binding);
    of.filter(|check| check["mark"] != "ok").filter(is_right).collect()
}

/// Whether this right is what is missing, and nothing else: by verb, resource and side.
fn names(missing: &[&Value], right: &Right) -> Result<(), String> {
    let resource = format!("resources: [{:?}]", right.resource);
    let side = format!("in {}", right.side);
    let is_it = |check: &&Value| {
        let text = check.to_string().replace('\\', "");
        let has_verb = right.verbs.iter().any(|verb| text.contains(&format!("verbs: [{verb:?}")));
        text.contains(&resource) && text.contains(&side) && has_verb
    };
    if !missing.is_empty() && missing.iter().all(is_it) {
        Ok(())
    } else {
        Err(format!("without {right}: {missing:#?}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_preflight_names_each_rule_that_is_taken_away_on_either_side() -> Result<()> {
    let [virtual_plane, physical_plane] = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
    for name in [SYSTEM, keys::HOST_PORT_NAMESPACE] {
        namespace(&virtual_plane, name).await?;
    }
    namespace(&physical_plane, BORROWED).await?;
    // As many bindings as there are rules, and one more that lacks none.
    let rules = lends("east")?.len();
    let mut borrowers: Vec<(String, Option<Right>)> = Vec::new();
    for index in 0..=rules {
        let name = format!("b-{index}");
        let mut rights = lends(&name)?;
        let taken = (index < rules).then(|| rights.remove(index));
        let kubeconfig = account(&physical_plane, BORROWED, &name, &rights).await?;
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SYSTEM},
            "stringData": {KEY: std::fs::read_to_string(kubeconfig)?},
        });
        let mut binding = json!({
            "apiVersion": cluster_binding::API_VERSION, "kind": cluster_binding::KIND, "metadata": {"name": name},
            "spec": {"clusterID": name, "secretRef": {"name": name}, "mountNamespace": BORROWED},
        });
        if taken.is_none() {
            // For this one all rules of the virtual cluster are needed.
            binding["spec"]["policySource"] = "virtual".into();
            binding["spec"]["hostPorts"] = "mirror".into();
        }
        virtual_plane.apply(&[secret, binding]).await?;
        borrowers.push((name, taken));
    }
    eventually("preflight names what each borrower lacks", PATIENCE, async || {
        let checks = preflight(&virtual_plane, &[]).await.map_err(|error| format!("{error:#}"))?;
        for (name, taken) in &borrowers {
            let missing = missing(&checks, Some(name.as_str()));
            match taken {
                Some(right) => names(&missing, right)?,
                None if missing.is_empty() => {}
                None => return Err(format!("{missing:#?}")),
            }
        }
        Ok(())
    })
    .await;

    let whole = format!("b-{rules}");
    let rights = borrows(&whole);
    let syncer = |index: usize| format!("s-{index}");
    for index in 0..=rights.len() {
        let mut left = rights.clone();
        if index < left.len() {
            left.remove(index);
        }
        account(&virtual_plane, SYSTEM, &syncer(index), &left).await?;
    }
    let (plane, binding, lacks) = (&virtual_plane, whole.as_str(), &rights);
    let asked = (0..=lacks.len()).map(|index| async move {
        let account = format!("{SYSTEM}/{}", syncer(index));
        eventually(&format!("preflight names what {account} lacks"), PATIENCE, async || {
            let flags = ["--service-account", account.as_str(), "--binding", binding];
            let checks = preflight(plane, &flags).await.map_err(|error| format!("{error:#}"))?;
            let missing = missing(&checks, None);
            match lacks.get(index) {
                Some(right) => names(&missing, right),
                None if missing.is_empty() => Ok(()),
                None => Err(format!("{missing:#?}")),
            }
        })
        .await;
    });
    stream::iter(asked).buffer_unordered(AT_ONCE).collect::<()>().await;
    virtual_plane.stop().await?;
    physical_plane.stop().await
}
