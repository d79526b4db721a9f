//! The page of the node lock: the extender of the chart accepts its certificates, and its command removes a lock.

use anyhow::{Context, Result};
use topoloom_tests::controlplane::ControlPlane;
use topoloom_tests::host::Host;

use super::desk::PageReader;
use super::pods::Replica;

const PAGE: &str = "docs/operators/node-lock.md";
/// The lock that the command of the page removes.
const LOCK: &str = "2026-08-01T06:10:00.000000007Z,default,p1";

/// Follows the page, after the page of the install and on the same cluster.
pub(super) async fn follow(plane: &ControlPlane, desk: &mut PageReader) -> Result<()> {
    desk.open(PAGE)?;
    desk.next("openssl req -x509").await?;
    desk.next("helm upgrade topoloom").await?;
    serve(plane, desk).await?;
    // The pod of this lock does not exist.
    desk.shell(&format!("kubectl annotate node gpu-1 hami.io/mutex.lock={LOCK}")).await?;
    let said = desk.next("topoloom lock release gpu-1").await?;
    let left = desk.shell("kubectl get node gpu-1 -o jsonpath='{.metadata.annotations}'").await?;
    anyhow::ensure!(!left.contains("mutex.lock"), "{said}: {left}");
    desk.end(0)
}

/// Starts a pod of the chart with the content of the Secret: the extender accepts kube-scheduler's certificate, and no
/// other.
async fn serve(plane: &ControlPlane, desk: &PageReader) -> Result<()> {
    let Replica { container, kubeconfig } = Replica::of(plane, desk).await?;
    let root = plane.folder().join("extender");
    let flags = container.flags_below(&root)?;
    for flag in &flags {
        let Some((_, path)) = flag.split_once('=') else { continue };
        for name in ["tls.crt", "tls.key", "ca.crt"] {
            if path.ends_with(&format!("/{name}")) {
                // The content comes from the Secret that the commands of the page created.
                let key = name.replace('.', "\\.");
                let command = format!(
                    "kubectl -n topoloom-system get secret topoloom-extender-tls -o jsonpath='{{.data.{key}}}' | base64 -d > {path}"
                );
                desk.shell(&command).await?;
            }
        }
    }
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let env: Vec<(&str, &str)> = container.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let host = Host::launch_with("extender", &kubeconfig, &flags, &env).await?;
    let address = host.extender().await;
    let port = address.rsplit_once(':').context("an address has a port")?.1;
    let name = "topoloom-extender.topoloom-system.svc";
    let ask = |identity: &str| {
        format!(
            "curl -sSf --max-time 20 --noproxy '*' --resolve {name}:{port}:127.0.0.1 --cacert ca.crt {identity} https://{name}:{port}/healthz"
        )
    };
    desk.shell(&ask("--cert kube-scheduler.crt --key kube-scheduler.key")).await?;
    let refused = desk.shell(&ask("--cert tls.crt --key tls.key")).await;
    anyhow::ensure!(refused.is_err(), "a certificate with another name was let in");
    host.stop().await
}
