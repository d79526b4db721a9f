//! Ways to make the host call another server, none of which works.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use topoloom::endpoints::api_server::ApiServer;
use topoloom::endpoints::spec::{AddressRule, Network, Redirects};
use topoloom::endpoints::{Denial, Error, Outside};
use topoloom_core::plugin::Method;

use super::wire::{Wire, ok};
use super::{denied, get, plan, session, text};

/// URLs of addresses that an endpoint may not reach unless its grant names them; the port is that of a server that
/// listens.
fn elsewhere(port: u16) -> Vec<String> {
    [
        "127.0.0.1",
        "127.1",
        "0177.0.0.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "localhost",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "100.100.100.200",
        "169.254.10.20",
        "[fe80::1]",
        "10.0.0.1",
        "192.168.0.1",
        "[fd12::1]",
        "224.0.0.1",
        "255.255.255.255",
    ]
    .iter()
    .map(|host| format!("http://{host}:{port}"))
    .collect()
}

#[tokio::test]
async fn no_address_is_dialled_that_the_endpoint_does_not_allow() {
    let trap = Wire::saying("127.0.0.1", "trapped").await;
    let outside = Outside::offline();
    for url in elsewhere(trap.port()) {
        let before = outside.metrics.denials(&super::source(), Denial::Address);
        match session(plan(&[&url]), &outside).send(&get("/")).await {
            Err(error @ Error::Denied { .. }) => denied(&error, Denial::Address, &outside, before),
            // Some resolvers do not accept all forms of an address.
            Err(Error::Connect(message)) => assert!(message.contains("cannot be resolved"), "{url}: {message}"),
            Err(other) => panic!("{url}: {other:?}"),
            Ok(reply) => panic!("{url} answered {}", reply.status()),
        }
    }
    assert_eq!(trap.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn the_api_server_is_no_endpoint_by_accident() {
    let server = Wire::saying("127.0.0.2", "the API server").await;
    let address: SocketAddr = ([127, 0, 0, 2], server.port()).into();
    let outside = Outside { api_server: Arc::new(ApiServer::at(&[address])), ..Outside::offline() };
    let mut around = plan(&[&server.url()]);
    around.addresses = vec![AddressRule::Loopback, AddressRule::Private];
    let before = outside.metrics.denials(&super::source(), Denial::Address);
    let error = session(around, &outside).send(&get("/")).await.err().unwrap();
    denied(&error, Denial::Address, &outside, before);
    assert!(error.to_string().contains("the API server"), "{error}");
    // An operator who grants exactly this address does it on purpose.
    assert!(session(plan(&[&server.url()]), &outside).send(&get("/")).await.is_ok());
}

#[tokio::test]
async fn a_name_is_judged_by_every_address_it_has_each_time_it_is_dialled() {
    let trap = Wire::saying("127.0.0.1", "trapped").await;
    let good = Wire::at("127.0.0.2", |_| ok("connection: close\r\n", b"good")).await;
    let (trap_at, good_at) = (([127, 0, 0, 1], trap.port()).into(), ([127, 0, 0, 2], good.port()).into());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    // The first answer is harmless, the second mixed, all further ones lead elsewhere.
    let resolve = move |_: String, _: u16| {
        let answer: Vec<SocketAddr> = match counted.fetch_add(1, Ordering::SeqCst) {
            0 => vec![good_at],
            1 => vec![trap_at, good_at],
            _ => vec![trap_at],
        };
        Box::pin(async move { Ok(answer) }) as futures::future::BoxFuture<'static, _>
    };
    let outside = Outside { resolve: Arc::new(resolve), ..Outside::offline() };
    let mut session = session(plan(&["http://fabric.example"]), &outside);
    for _ in 0..2 {
        assert_eq!(text(session.send(&get("/")).await.unwrap()).await.unwrap(), "good");
    }
    let error = loop {
        // The host does not resolve the name again while it keeps a connection whose end it has not noticed yet.
        match session.send(&get("/")).await {
            Ok(reply) => drop(text(reply).await),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Denied { denial: Denial::Address, .. }), "{error:?}");
    let message = error.to_string();
    assert!(
        message.contains("\"fabric.example\" is 127.0.0.1") && message.contains("addresses: [loopback]"),
        "{message}"
    );
    assert_eq!(trap.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn no_path_leads_to_another_host_or_out_of_what_is_granted() {
    let server = Wire::saying("127.0.0.2", "good").await;
    let outside = Outside::offline();
    let mut granted = plan(&[&format!("{}/base", server.url())]);
    granted.paths = vec!["/v1".into()];
    let mut session = session(granted, &outside);
    for path in [
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/%252e%252e/admin",
        "/v1/..%2fadmin",
        "/v1/..\\admin",
        "/v1/..;/admin",
        "/v1\r\nHost: evil.example\r\n\r\n",
        "/v1 HTTP/1.1\r\nHost: evil.example",
        "/v1%0d%0aHost:%20evil.example",
        "http://127.0.0.1/v1",
        "//127.0.0.1/v1",
        "@127.0.0.1/v1",
        ":80@127.0.0.1/v1",
        ".evil.example/v1",
        "/admin",
        "/v10",
        "/",
        "",
        "/v1#x",
        "/v1/%c0%ae%c0%ae/admin",
        "/v1/%252525252e%252525252e/admin",
    ] {
        let before = outside.metrics.denials(&super::source(), Denial::Path);
        let error = session.send(&get(path)).await.err().unwrap_or_else(|| panic!("{path:?} was sent"));
        denied(&error, Denial::Path, &outside, before);
    }
    assert_eq!(server.heads(), Vec::<String>::new());
    assert_eq!(text(session.send(&get("/v1/x?y=/../z")).await.unwrap()).await.unwrap(), "good");
    assert!(server.heads()[0].starts_with("GET /base/v1/x?y=/../z HTTP/1.1\r\n"), "{:?}", server.heads());
}

#[tokio::test]
async fn no_header_of_the_host_is_set_and_no_line_is_added() {
    let server = Wire::saying("127.0.0.2", "good").await;
    let outside = Outside::offline();
    let mut session = session(plan(&[&server.url()]), &outside);
    for (name, value) in [
        ("Authorization", "Bearer stolen"),
        ("Cookie", "a=b"),
        ("Host", "evil.example"),
        ("Proxy-Authorization", "Basic x"),
        ("Connection", "upgrade"),
        ("Upgrade", "h2c"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "7"),
        ("X-Forwarded-Host", "evil.example"),
        ("X_Forwarded_Host", "evil.example"),
        ("X_Remote_User", "admin"),
        ("X-Original-URL", "/admin"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("Accept", "a\r\nHost: evil.example"),
        ("Accept\r\nHost", "evil.example"),
        ("", "x"),
    ] {
        let before = outside.metrics.denials(&super::source(), Denial::Header);
        let mut asked = get("/");
        asked.headers.push((name.into(), value.into()));
        let error = session.send(&asked).await.err().unwrap_or_else(|| panic!("{name:?} was sent"));
        denied(&error, Denial::Header, &outside, before);
        assert!(!error.to_string().contains("stolen"), "{error}");
    }
    assert_eq!(server.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn only_granted_methods_and_endpoints_are_used() {
    let server = Wire::saying("127.0.0.2", "good").await;
    let outside = Outside::offline();
    let mut session = session(plan(&[&server.url()]), &outside);
    for method in Method::ALL.into_iter().filter(|method| *method != Method::Get) {
        let before = outside.metrics.denials(&super::source(), Denial::Method);
        let error = session.send(&topoloom::endpoints::EndpointRequest { method, ..get("/") }).await.err().unwrap();
        denied(&error, Denial::Method, &outside, before);
    }
    let before = outside.metrics.denials(&super::source(), Denial::Endpoint);
    let other = topoloom::endpoints::EndpointRequest { endpoint: "other".into(), ..get("/") };
    denied(&session.send(&other).await.err().unwrap(), Denial::Endpoint, &outside, before);
    denied(&session.credential("other").await.unwrap_err(), Denial::Endpoint, &outside, before + 1);
    assert_eq!(server.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn no_redirect_leads_elsewhere() {
    let trap = Wire::saying("127.0.0.1", "trapped").await;
    let mut targets = elsewhere(trap.port());
    targets.push(format!("//127.0.0.1:{}/", trap.port()));
    // The same address with another port, as a user name before another host, and with another scheme.
    targets.push(format!("http://127.0.0.2:{}/", trap.port()));
    targets.push(format!("http://127.0.0.2@127.0.0.1:{}/", trap.port()));
    targets.push(format!("https://127.0.0.2:{}/", trap.port()));
    for target in targets {
        let location = target.clone();
        let server = Wire::at("127.0.0.2", move |_| {
            format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n").into_bytes()
        })
        .await;
        for redirects in [Redirects::None, Redirects::SameHost] {
            let mut plan = plan(&[&server.url()]);
            plan.redirects = redirects;
            let reply = session(plan, &Outside::offline()).send(&get("/")).await.unwrap();
            assert_eq!(reply.status(), 302, "{target}");
            let shown = &reply.headers().iter().find(|(name, _)| name == "location").unwrap().1;
            assert_eq!(*shown, target.replace("127.0.0.2@", ""));
        }
        assert_eq!(server.heads().len(), 2, "{target}");
    }
    assert_eq!(trap.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn a_redirect_on_the_same_server_is_followed_where_the_operator_says_so() {
    let server = Wire::at("127.0.0.2", |head| match head.split(' ').nth(1).unwrap_or_default() {
        "/base/v1/old" => b"HTTP/1.1 302 Found\r\nlocation: /base/v1/new\r\ncontent-length: 0\r\n\r\n".to_vec(),
        "/base/v1/out" => b"HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n".to_vec(),
        "/base/v1/admin" => b"HTTP/1.1 302 Found\r\nlocation: /base/admin\r\ncontent-length: 0\r\n\r\n".to_vec(),
        "/base/v1/round" => b"HTTP/1.1 302 Found\r\nlocation: /base/v1/round\r\ncontent-length: 0\r\n\r\n".to_vec(),
        _ => ok("", b"new"),
    })
    .await;
    let mut plan = plan(&[&format!("{}/base", server.url())]);
    plan.paths = vec!["/v1".into()];
    let outside = Outside::offline();
    assert_eq!(session(plan.clone(), &outside).send(&get("/v1/old")).await.unwrap().status(), 302);
    plan.redirects = Redirects::SameHost;
    let mut session = session(plan, &outside);
    assert_eq!(text(session.send(&get("/v1/old")).await.unwrap()).await.unwrap(), "new");
    for out in ["/v1/out", "/v1/admin"] {
        assert_eq!(session.send(&get(out)).await.unwrap().status(), 302, "{out}");
    }
    let error = session.send(&get("/v1/round")).await.err().unwrap();
    assert!(matches!(&error, Error::Protocol(message) if message.contains("more than 3 times")), "{error:?}");
}

#[tokio::test]
async fn several_networks_are_allowed_one_by_one() {
    let server = Wire::saying("127.0.0.3", "good").await;
    let mut wider = plan(&[&server.url()]);
    let outside = Outside::offline();
    assert!(session(wider.clone(), &outside).send(&get("/")).await.is_err());
    wider.addresses.push(AddressRule::Network(Network::parse("127.0.0.3/32").unwrap()));
    assert!(session(wider, &outside).send(&get("/")).await.is_ok());
}

#[tokio::test]
async fn no_body_smuggles_a_second_request() {
    let server = Wire::saying("127.0.0.2", "good").await;
    let outside = Outside::offline();
    let mut session = session(plan(&[&server.url()]), &outside);
    let before = outside.metrics.denials(&super::source(), Denial::Body);
    let body = Some(b"POST /admin HTTP/1.1\r\nhost: fabric\r\n\r\n".to_vec());
    let error = session.send(&topoloom::endpoints::EndpointRequest { body, ..get("/") }).await.err().unwrap();
    denied(&error, Denial::Body, &outside, before);
    assert_eq!(server.heads(), Vec::<String>::new());
}

#[tokio::test]
async fn a_server_cannot_change_the_protocol() {
    for answer in [
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n",
    ] {
        let server =
            Wire::at("127.0.0.2", move |_| [answer.as_bytes(), &ok("connection: close\r\n", b"after")].concat()).await;
        match session(plan(&[&server.url()]), &Outside::offline()).send(&get("/")).await {
            Ok(reply) if reply.status() == 200 => assert_eq!(text(reply).await.unwrap(), "after"),
            Ok(reply) => {
                // Bytes after an upgrade are not part of an answer.
                assert_eq!(reply.status(), 101, "{answer}");
                assert_eq!(text(reply).await.unwrap_or_default(), "", "{answer}");
            }
            Err(Error::Protocol(_) | Error::Closed(_)) => {}
            Err(other) => panic!("{answer}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_base_url_holds_no_user_and_no_zone() {
    for url in
        ["http://user@127.0.0.2/", "http://user:pass@127.0.0.2/", "http://[fe80::1%25eth0]/", "http://127.0.0.2:0/"]
    {
        assert!(topoloom::endpoints::spec::BaseUrl::parse(url).is_err(), "{url}");
    }
}

#[tokio::test]
async fn files_are_documents_only_where_the_host_says_so() {
    use topoloom::endpoints::Documents;
    use topoloom::endpoints::spec::Carrier;
    let (inside, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(inside.path().join("fabric.json"), "inside").unwrap();
    std::fs::write(elsewhere.path().join("token"), "canary").unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("token"), inside.path().join("link")).unwrap();
    let outside = Outside { documents: Documents::In(inside.path().into()), ..Outside::offline() };
    let of = |path: std::path::PathBuf| {
        let mut plan = plan(&["http://127.0.0.2"]);
        plan.carrier = Carrier::File(path);
        plan
    };
    let reply = session(of(inside.path().join("fabric.json")), &outside).send(&get("")).await.unwrap();
    assert_eq!(text(reply).await.unwrap(), "inside");
    for path in [
        elsewhere.path().join("token"),
        inside.path().join("link"),
        inside.path().join("..").join(elsewhere.path().file_name().unwrap()).join("token"),
    ] {
        let before = outside.metrics.denials(&super::source(), Denial::Path);
        let error = session(of(path), &outside).send(&get("")).await.err().unwrap();
        denied(&error, Denial::Path, &outside, before);
    }
    let none = Outside { documents: Documents::None, ..Outside::offline() };
    let error = session(of(inside.path().join("fabric.json")), &none).send(&get("")).await.err().unwrap();
    assert!(error.to_string().contains("--documents"), "{error}");
    // The host does not wait for a pipe.
    let pipe = inside.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let error = session(of(pipe), &outside).send(&get("")).await.err().unwrap();
    assert!(error.to_string().contains("is not a regular file"), "{error}");
}
