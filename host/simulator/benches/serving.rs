//! How fast the port list of a large fabric is served: 98 304 ports, laid out as UFM does and compact, with and without
//! TLS, against a client that throws the bytes away.

#![allow(clippy::print_stdout, reason = "the numbers are what this program is for")]

use reqwest::{Certificate, Client};
use std::error::Error;
use std::time::{Duration, Instant};
use topoloom_simulator::{Credentials, Fabric, Layout, Shape, SharedFabric, Ufm};

/// The best of a few runs: everything else on the machine only makes it slower.
const RUNS: u32 = 5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    rustls::crypto::ring::default_provider().install_default().map_err(|_| "a provider is installed")?;
    let start = Instant::now();
    let fabric = SharedFabric::new(Fabric::generate(&Shape::large())?);
    println!("generated {} ports in {:.0?}", fabric.now().counts().active_ports, start.elapsed());
    for layout in [Layout::Indented, Layout::Compact] {
        let builder = || Ufm::builder(fabric.clone()).layout(layout).credentials(Credentials::anyone());
        for (transport, builder) in [("http", builder().plain()), ("https", builder())] {
            let simulator = builder.start().await?;
            let roots = simulator.ca_pem().map(|pem| Certificate::from_pem(pem.as_bytes())).transpose()?;
            let client = Client::builder().no_proxy().tls_certs_only(roots).build()?;
            let url = format!("{}/ufmRest/resources/ports?active=true", simulator.url());
            let mut best = (Duration::MAX, 0);
            for _ in 0..RUNS {
                let start = Instant::now();
                let (mut answer, mut bytes) = (client.get(&url).send().await?, 0);
                while let Some(piece) = answer.chunk().await? {
                    bytes += piece.len();
                }
                best = best.min((start.elapsed(), bytes));
            }
            let (time, megabytes) = (best.0, best.1 as f64 / 1e6);
            println!(
                "{layout:?} {transport:5} {megabytes:6.1} MB in {time:7.1?} = {:5.0} MB/s",
                megabytes / time.as_secs_f64()
            );
            simulator.stop().await;
        }
    }
    Ok(())
}
