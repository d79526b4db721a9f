//! Proxies of the environment: the host connects to the endpoint that the operator granted, without a proxy in between.

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};

use rustix::process::Signal;

use super::{Desk, Simulated};

#[tokio::test]
async fn proxies_in_the_environment_are_not_asked() {
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let address = trap.local_addr().unwrap();
    let desk = Desk::new();
    for (plain, scheme) in [("", "https"), ("--plain", "http")] {
        let simulated = Simulated::start(&desk, &format!("--token canary-t0ken-31 --write out {plain}")).await;
        let url = simulated.said("UFM");
        assert!(url.starts_with(&format!("{scheme}://")), "{url}");
        desk.put("secret/token", "canary-t0ken-31");
        desk.configure("ufm.yaml", "ufm", &url, &desk.read("out/ca.crt"), "");
        let mut command = desk.command("discover --config ufm.yaml --nodes out/nodes.yaml --credentials secret");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            for name in [name.to_owned(), name.to_lowercase()] {
                command.env(name, format!("http://{address}"));
            }
        }
        let end = super::End::from(command.env("NO_PROXY", "").env("no_proxy", "").output().await.unwrap());
        assert!(end.code == Some(0) && end.out.contains("8 of 8 nodes"), "{end:?}");
        assert_eq!(trap.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "{scheme} went to the proxy");
        assert_eq!(simulated.end(Signal::TERM).await, Some(0));
    }
    // The trap works: it accepts a connection.
    let _caller = TcpStream::connect(address).unwrap();
    trap.set_nonblocking(false).unwrap();
    assert!(trap.accept().is_ok());
}
