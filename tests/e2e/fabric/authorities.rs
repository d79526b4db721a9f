//! The authority that signs the certificate of a fabric manager, from an object of the cluster.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;
use topoloom_simulator::{Authority, Credentials, Fault, Ufm};
use topoloom_tests::scene::NAMESPACE;

use super::rig::{Rig, TOKEN, WHOLE, document};

/// The ConfigMap with the authorities.
const NAME: &str = "fabric-authorities";

#[tokio::test(flavor = "multi_thread")]
async fn authorities_from_a_config_map_count_as_they_are_now() -> Result<()> {
    let rig = Rig::new().await?;
    let (ours, others) = (Authority::generate()?, Authority::generate()?);
    let credentials = Credentials::none().token(TOKEN);
    // The certificate of the UFM is not for the address that the host connects to.
    let ufm = Ufm::builder(rig.fabric.clone()).credentials(credentials).tls(&ours).fault(Fault::WrongNameCertificate);
    let ufm = ufm.start().await?;
    let maps: Api<ConfigMap> = Api::namespaced(rig.scene.plane.client(), NAMESPACE);
    let write = async |authority: &Authority| -> Result<()> {
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"bundle": authority.pem()},
        });
        maps.patch(NAME, &PatchParams::apply("test").force(), &Patch::Apply(&body)).await?;
        Ok(())
    };
    let entry = format!(
        "- source: ufm
  enabled: true
  interval: 1h
  credentials: {{secretRef: {{name: ufm}}}}
  permissions:
    endpoints:
      ufm:
        addresses: [loopback]
        tls: {{caBundle: {{configMap: {{name: {NAME}, key: bundle}}}}, serverName: elsewhere.invalid}}
  config: {{endpoint: \"{}\"}}
",
        ufm.url()
    );
    write(&others).await?;
    rig.scene.configure(&document(&[entry])).await?;
    let host = rig.scene.host().await?;
    let message = rig.scene.until_condition("ufm", "Discovered", "False", "Upstream").await;
    assert!(message.contains("not signed by a trusted authority"), "{message}");
    assert_eq!(ufm.counters().requests, 0, "an untrusted server got a request with the token");
    // No one requests a round: the new ConfigMap starts it.
    write(&ours).await?;
    rig.until(&WHOLE).await;
    rig.scene.until_condition("ufm", "Discovered", "True", "Ok").await;
    let before = rig.versions().await?;
    // Without the ConfigMap the host trusts no server, not even with the authorities of the system.
    maps.delete(NAME, &DeleteParams::default()).await?;
    let message = rig.scene.until_condition("ufm", "Discovered", "False", "Upstream").await;
    assert!(message.contains(&format!("the ConfigMap {NAMESPACE}/{NAME} does not exist")), "{message}");
    assert_eq!(rig.versions().await?, before);
    write(&ours).await?;
    rig.scene.until_condition("ufm", "Discovered", "True", "Ok").await;
    assert_eq!(rig.versions().await?, before);
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}
