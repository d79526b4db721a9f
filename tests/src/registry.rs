//! Registries of OCI artifacts: a real one, built like the control plane, with TLS and the two ways to prove who asks; a token
//! server for it; one that lies; and oras, as a second client.
//!
//! `TOPOLOOM_REGISTRY` and `ORAS` may name binaries of both; otherwise the Go module beside this crate is built, once.

pub mod hostile;
pub mod https;
pub mod oras;
pub mod token;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use topoloom_simulator::Authority;

use self::token::TokenServer;
use crate::controlplane::{eventually, free_ports};
use crate::gomodule::GoModule;

const MODULE: GoModule = GoModule {
    folder: "registry",
    package: ".",
    name: "registry",
    ldflags: "-s -w",
    holds: "a registry",
    cost: "two minutes and 1 GB",
    instead: "set TOPOLOOM_REGISTRY to a binary of distribution 3.1",
};

/// The variable with the path of another binary.
const BINARY: &str = "TOPOLOOM_REGISTRY";
/// How long it may take until it answers.
const READY: Duration = Duration::from_secs(60);
/// Lines of its log that a failure shows.
const TAIL: usize = 40;

/// A user of registries in tests.
pub const USER: &str = "robot";
/// The password of that user.
pub const PASSWORD: &str = "s3cret-of-the-robot";
/// The same as bcrypt hashes it.
const HASHED: &str = "$2b$05$abcdefghijklmnopqrstuueMK1O/oe6maWBy0SODKvFEEhVddOiNu";

/// Finds the registry, and builds it where there is none. Blocks, for minutes on the first call.
///
/// # Errors
///
/// Says in one sentence what is missing or which build failed.
pub fn find_or_build() -> Result<PathBuf> {
    binary(BINARY, &MODULE)
}

/// The binary that a variable names, or one that is built here.
fn binary(variable: &str, module: &GoModule) -> Result<PathBuf> {
    match std::env::var_os(variable).filter(|binary| !binary.is_empty()).map(PathBuf::from) {
        Some(binary) if binary.is_file() => Ok(binary),
        Some(binary) => bail!("{variable} is {}, which is no file", binary.display()),
        None => module.find_or_build(),
    }
}

/// Who may use a registry.
#[derive(Debug, Clone, Copy)]
pub enum Auth<'a> {
    /// Anyone.
    Open,
    /// The user of tests, with the password.
    Basic,
    /// Who has a token of this server.
    Token(&'a TokenServer),
}

/// A registry of its own, on a port of 127.0.0.1, with a certificate that an authority of tests has signed.
pub struct Registry {
    folder: PathBuf,
    binary: PathBuf,
    port: u16,
    authority: Authority,
    child: Option<Child>,
}

impl Registry {
    /// Starts one that stores in this folder, and waits until it answers.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(folder: &Path, authority: &Authority, auth: Auth<'_>) -> Result<Self> {
        let binary = tokio::task::spawn_blocking(find_or_build).await.context("the build panicked")??;
        let [port] = free_ports()?;
        let folder = folder.join(format!("registry-{port}"));
        fs::create_dir_all(&folder).context("no folder for a registry")?;
        let mut registry = Self { folder, binary, port, authority: authority.clone(), child: None };
        registry.configure(auth)?;
        registry.run().await?;
        Ok(registry)
    }

    fn configure(&self, auth: Auth<'_>) -> Result<()> {
        let put = |name: &str, text: &str| -> Result<PathBuf> {
            let path = self.folder.join(name);
            fs::write(&path, text).with_context(|| path.display().to_string())?;
            Ok(path)
        };
        let serving = self.authority.serving(&["127.0.0.1", "localhost"])?;
        let certificate = put("tls.crt", &serving.certificate)?;
        let key = put("tls.key", &serving.key)?;
        put("ca.crt", self.authority.pem())?;
        let auth = match auth {
            Auth::Open => json!({}),
            Auth::Basic => {
                let users = put("htpasswd", &format!("{USER}:{HASHED}\n"))?;
                json!({"auth": {"htpasswd": {"realm": "tests", "path": users}}})
            }
            Auth::Token(server) => {
                let keys = put("jwks.json", server.keys())?;
                json!({"auth": {"token": {
                    "realm": server.realm(), "service": token::SERVICE, "issuer": token::ISSUER,
                    "jwks": keys, "signingalgorithms": ["EdDSA"],
                }}})
            }
        };
        // JSON is YAML.
        let mut config = json!({
            "version": "0.1",
            "log": {"level": "info", "accesslog": {"disabled": true}},
            "storage": {
                "filesystem": {"rootdirectory": self.folder.join("data")},
                "delete": {"enabled": true},
            },
            "http": {
                "addr": format!("127.0.0.1:{}", self.port),
                "secret": "of no importance",
                "relativeurls": true,
                "tls": {"certificate": certificate, "key": key},
            },
        });
        crate::chart::merge(&mut config, auth);
        put("config.yml", &config.to_string())?;
        Ok(())
    }

    /// Starts it again, with what it has stored.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn run(&mut self) -> Result<()> {
        let log = self.folder.join("log");
        let out = File::options().create(true).append(true).open(&log).context("cannot open a log")?;
        let child = Command::new(&self.binary)
            .arg("serve")
            .arg(self.folder.join("config.yml"))
            .env("TOPOLOOM_DIE_WITH_STDIN", "1")
            // It would look for a collector of traces.
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::piped())
            .stdout(out.try_clone().context("cannot share a log")?)
            .stderr(out)
            .spawn()
            .context("the registry cannot be started")?;
        self.child = Some(child);
        let address = format!("127.0.0.1:{}", self.port);
        eventually("the registry listens", READY, async || {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            assert!(ended.is_none(), "the registry has ended: {}", self.tail());
            tokio::net::TcpStream::connect(&address).await.map(drop).map_err(|error| error.to_string())
        })
        .await;
        Ok(())
    }

    /// Ends it; what it has stored stays.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only for a process that has ended.
            _ = child.kill();
            _ = child.wait();
        }
    }

    fn tail(&self) -> String {
        let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    /// `HOST:PORT`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The file with the certificate of its authority.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The file of a blob that it has stored.
    #[must_use]
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        self.folder.join("data/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(hex).join("data")
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("--- the end of the log of a registry ---\n{}", self.tail());
        }
    }
}

/// The configuration of Docker's programs with an account for one registry, and the content of a Secret with it.
#[must_use]
pub fn docker_config(host: &str, user: &str, password: &str) -> String {
    json!({"auths": {host: {"auth": STANDARD.encode(format!("{user}:{password}"))}}}).to_string()
}
