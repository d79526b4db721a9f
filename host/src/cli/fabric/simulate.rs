//! `topoloom fabric simulate`: a fabric manager to rehearse with, and every fault that one can have.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use topoloom_simulator::{
    Chassis, Edit, FabricCounts, Fault, FaultRule, Field, HostKind, Layout, Options, Running, Shape, Transport,
};

use super::super::{print, private};

/// Flags of `fabric simulate`.
#[derive(Debug, Args)]
#[command(after_long_help = help())]
pub(in super::super) struct SimulateArgs {
    /// The fabric, as `units=4,hosts-per-unit=20,rails=8,…`, or first a preset (`default`, `large`, `huge`) and then
    /// what differs from it, as `large,units=8`; parts that are not named have their defaults (see below)
    #[arg(long, default_value = "", value_name = "SHAPE", value_parser = shape)]
    shape: Shape,
    /// Where the UFM listens; port 0 picks a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Serve the fabric document (topoloom.fabric/v1) of the same fabric here as well
    #[arg(long, value_name = "IP:PORT")]
    document: Option<SocketAddr>,
    /// Show a different chassis id on every port of a switch in the fabric document, as Nexus 9000 does
    #[arg(long, requires = "document")]
    chassis_per_port: bool,
    /// Accept faults and edits here, on a loopback address: `curl -X PUT -d html http://…/_simulator/faults` sets a fault
    /// of both servers, `…/_simulator/ufm/faults` and `…/_simulator/document/faults` that of one
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<SocketAddr>,
    /// A user with its password; without any credential it is admin:123456, as UFM is shipped
    #[arg(long, value_name = "USER:PASSWORD", value_parser = user)]
    user: Vec<(String, String)>,
    /// A token that the servers accept: UFM as `Basic TOKEN`, the fabric document as `Bearer TOKEN`
    #[arg(long, value_name = "TOKEN")]
    token: Vec<String>,
    /// Create a client certificate for this name, NAME.crt and NAME.key; needs --write
    #[arg(long, value_name = "NAME", requires = "write", value_parser = topoloom_simulator::client_name)]
    client: Vec<String>,
    /// Serve plain HTTP instead of TLS
    #[arg(long)]
    plain: bool,
    /// Serve a self-signed certificate, as `openssl req -x509` makes it, instead of one that an authority signed; --write
    /// writes it as ca.crt
    #[arg(long, conflicts_with = "plain")]
    self_signed: bool,
    /// A further name for the certificate, in addition to the address that the simulator listens on
    #[arg(long, value_name = "NAME")]
    name: Vec<String>,
    /// A fault that is set from the start, as `status:429:30` or `html times=2` (see below)
    #[arg(long, value_name = "FAULT", value_parser = rule)]
    fault: Vec<FaultRule>,
    /// Write ca.crt, client certificates and nodes.yaml (a Node per host, for `topoloom discover --nodes`) into this
    /// folder
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Format JSON as UFM does, with line breaks
    #[arg(long)]
    indented: bool,
}

fn shape(text: &str) -> Result<Shape, String> {
    text.parse::<Shape>().map_err(|error| error.to_string())
}

fn rule(text: &str) -> Result<FaultRule, String> {
    text.parse::<FaultRule>().map_err(|error| error.to_string())
}

fn user(text: &str) -> Result<(String, String), String> {
    let (user, password) = text.split_once(':').ok_or("must be USER:PASSWORD")?;
    Ok((user.to_owned(), password.to_owned()))
}

/// All parts of a shape, all faults, all edits.
fn help() -> String {
    let usual = Shape::default().to_string();
    let mut text = String::from("Presets, the first word of a shape:\n");
    for (name, shape) in Shape::presets() {
        let (hosts, switches) = (shape.hosts(), shape.switches());
        push_line!(text, "  {name:<28} {hosts} hosts with {} rails, {switches} switches", shape.rails);
    }
    push_line!(text, "\nParts of a shape (default: {usual}):");
    for Field { name, range: (low, high), help, .. } in Shape::fields() {
        let most = if *high == u64::MAX { String::new() } else { high.to_string() };
        push_line!(text, "  {:<28} {help}", format!("{name}={low}..{most}"));
    }
    text.push_str(
        "\nFaults. `times=N` and `at=/PATH` may follow each. PATH is the beginning of a path: the whole path, as messages\n\
         show it (/ufmRestV3/resources/ports, /v1/fabric), or without the prefix of UFM (/resources/ports); / is every\n\
         path. Without `at` a fault acts below /resources/ and /v1/:\n",
    );
    for fault in Fault::all() {
        push_line!(text, "  {:<28} {}", fault.usage, fault.help);
    }
    text.push_str(
        "\nEdits of the fabric, one per line, POSTed to /_simulator/edits of the admin listener (--admin):\n",
    );
    for edit in Edit::all() {
        push_line!(text, "  {:<28} {}", edit.usage, edit.help);
    }
    text
}

/// Serves until it is interrupted.
pub(super) async fn run(args: SimulateArgs) -> anyhow::Result<ExitCode> {
    let write = args.write.clone();
    let options = Options {
        shape: args.shape,
        listen: args.listen,
        document: args.document,
        chassis: if args.chassis_per_port { Chassis::OfPort } else { Chassis::OfSwitch },
        admin: args.admin,
        transport: match (args.plain, args.self_signed) {
            (true, _) => Transport::Plain,
            (false, true) => Transport::SelfSigned,
            (false, false) => Transport::Tls,
        },
        names: args.name,
        users: args.user,
        tokens: args.token,
        clients: args.client.clone(),
        faults: args.fault,
        layout: if args.indented { Layout::Indented } else { Layout::Compact },
        ..Options::default()
    };
    // Signals count from here: what is reported as running can be stopped.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // A caller that waits for files which cannot be written should not wait for long.
    let (give_up, given_up) = tokio::sync::oneshot::channel();
    let stop = async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            Ok(()) = given_up => {}
        }
    };
    let mut written = Ok(());
    let ready = |running: &Running<'_>| {
        if let Some(folder) = &write {
            written = files(folder, running, &args.client);
        }
        if written.is_ok() {
            print::out(&running_text(running, write.as_deref()));
        } else {
            // Without a receiver the simulator has ended already.
            let _ = give_up.send(());
        }
    };
    topoloom_simulator::run(options, stop, ready).await?;
    written.map(|()| ExitCode::SUCCESS)
}

fn running_text(running: &Running<'_>, folder: Option<&Path>) -> String {
    let mut text = String::new();
    push_line!(text, "UFM             {}", running.ufm.url());
    if let Some(document) = running.document {
        push_line!(text, "fabric document {}/v1/fabric", document.url());
    }
    if let Some(admin) = &running.admin {
        push_line!(text, "faults, edits   {admin}");
    }
    let FabricCounts { hosts, switches, links, active_ports, .. } = running.counts;
    push_line!(text, "fabric          {hosts} hosts, {switches} switches, {links} cables, {active_ports} ports");
    match folder {
        Some(folder) => {
            push_line!(text, "written         {}", folder.display());
        }
        None if running.ufm.ca_pem().is_some() => {
            text.push_str("certificate     made at start; --write DIR writes its authority, for `caBundle`\n");
        }
        None => {}
    }
    text.push_str("Ctrl-C ends it\n");
    text
}

/// What a rehearsal needs as files.
fn files(folder: &Path, running: &Running<'_>, clients: &[String]) -> anyhow::Result<()> {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        private::write(&path, text.as_bytes()).with_context(|| format!("--write {}", path.display()))
    };
    std::fs::create_dir_all(folder).with_context(|| format!("--write {}", folder.display()))?;
    if let Some(pem) = running.ufm.ca_pem() {
        write("ca.crt", pem)?;
    }
    for (name, client) in clients.iter().zip(&running.clients) {
        write(&format!("{name}.crt"), &client.certificate)?;
        write(&format!("{name}.key"), &client.key)?;
    }
    let mut nodes = String::from("apiVersion: v1\nkind: NodeList\nitems:\n");
    let fabric = running.ufm.fabric().now();
    for (_, host) in fabric.hosts().filter(|(_, host)| host.kind == HostKind::Compute) {
        push_line!(nodes, "- {{apiVersion: v1, kind: Node, metadata: {{name: {:?}}}}}", host.name);
    }
    write("nodes.yaml", &nodes)
}
