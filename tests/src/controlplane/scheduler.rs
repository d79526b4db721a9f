//! A real kube-scheduler, with the configuration that a test gives it.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::process::Server;
use super::{ControlPlane, launch};

const STOP: Duration = Duration::from_secs(10);
const READY: Duration = Duration::from_secs(30);

/// A running kube-scheduler. It stops when this value is dropped.
pub struct Scheduler {
    server: Option<Server>,
    launch: Launch,
}

struct Launch {
    programs: super::Programs,
    folder: std::path::PathBuf,
    config: std::path::PathBuf,
}

impl ControlPlane {
    /// Starts kube-scheduler with these extenders, and waits until it works.
    ///
    /// # Errors
    /// When the program is not there, or ends.
    pub async fn scheduler(&self, extenders: &[Value]) -> Result<Scheduler> {
        self.scheduler_with(extenders, json!({})).await
    }

    /// The same; `settings` replace the usual settings of the tests.
    ///
    /// # Errors
    /// When the program is not there, or ends.
    pub async fn scheduler_with(&self, extenders: &[Value], settings: Value) -> Result<Scheduler> {
        let mut config = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": self.kubeconfig(), "qps": 500, "burst": 1000},
            "leaderElection": {"leaderElect": false},
            // kube-scheduler tries a failed pod again soon, so that a test does not wait long.
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "profiles": [{"schedulerName": "default-scheduler"}],
            "extenders": extenders,
        });
        if let (Some(config), Value::Object(settings)) = (config.as_object_mut(), settings) {
            config.extend(settings);
        }
        let folder = self.folder().to_owned();
        let path = folder.join("kube-scheduler.json");
        std::fs::write(&path, serde_json::to_vec_pretty(&config)?)?;
        let mut scheduler =
            Scheduler { server: None, launch: Launch { programs: self.programs(), folder, config: path } };
        scheduler.start().await?;
        Ok(scheduler)
    }
}

impl Scheduler {
    /// Starts it, if it does not run.
    ///
    /// # Errors
    /// When it ends at once.
    pub async fn start(&mut self) -> Result<()> {
        let Launch { programs, folder, config } = &self.launch;
        let [port] = launch::free_ports()?;
        let args = [
            format!("--config={}", config.display()),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            // That of the apiserver: otherwise it makes one with two RSA keys, for its health check alone.
            format!("--tls-cert-file={}", folder.join("certificates/apiserver.crt").display()),
            format!("--tls-private-key-file={}", folder.join("certificates/apiserver.key").display()),
            "--authorization-always-allow-paths=/healthz,/readyz".to_owned(),
            "--v=2".to_owned(),
        ];
        let mut server = Server::start(programs, "kube-scheduler", &args, folder)?;
        // The health check does not need to verify the certificate.
        let http = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build()?;
        launch::ready("kube-scheduler", &mut server, READY, async || {
            let answer = http.get(format!("https://127.0.0.1:{port}/healthz")).send().await?;
            answer.error_for_status().map(drop).context("it is not well")
        })
        .await?;
        self.server = Some(server);
        Ok(())
    }

    /// Sends SIGTERM, and waits for its end.
    ///
    /// # Errors
    /// When it cannot be signalled.
    pub async fn stop(&mut self) -> Result<()> {
        match self.server.take() {
            Some(server) => server.stop(STOP).await,
            None => Ok(()),
        }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        drop(self.server.take());
    }

    /// Its log.
    ///
    /// # Errors
    /// When its log cannot be read.
    pub fn log(&self) -> Result<String> {
        Ok(std::fs::read_to_string(self.launch.folder.join("kube-scheduler.log"))?)
    }
}
