use std::convert::Infallible;

use axum::Extension;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::routing::get;
use futures::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::*;

/// A client without an answer by then never gets one.
const PATIENCE: Duration = Duration::from_secs(20);
const PROBE: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A server that runs until it is stopped.
struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    serving: JoinSet<()>,
}

impl Running {
    async fn start(routes: Router, bounds: Bounds) -> Self {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::listen_within("address", local, None, bounds).await.unwrap();
        let (address, stop, mut serving) = (server.address().unwrap(), CancellationToken::new(), JoinSet::new());
        serving.spawn(server.serve(routes, stop.clone()));
        Self { address, stop, serving }
    }

    /// Connects and says something.
    async fn connected(&self, says: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(says.as_bytes()).await.unwrap();
        stream
    }

    /// All that it answers.
    async fn answer(&self, request: &str) -> String {
        rest(&mut self.connected(request).await).await
    }

    async fn stop(mut self) {
        self.stop.cancel();
        self.serving.join_next().await.unwrap().unwrap();
    }
}

/// All bytes up to the end of the connection, however it ends.
async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection stays open");
    String::from_utf8(answer).unwrap()
}

fn pages() -> Router {
    let large = "number 1\n".repeat(1 << 20);
    Router::new().route("/healthz", get(async || "ok")).route("/metrics", get(async move || large.clone()))
}

#[tokio::test]
async fn a_connection_that_is_too_old_ends_with_the_request_that_is_under_way() {
    let age = Duration::from_millis(500);
    let bounds = Bounds { connection: age, grace: Duration::from_secs(60), ..Bounds::PROBES };
    let slow = get(async move || {
        tokio::time::sleep(age * 3 / 2).await;
        "done"
    });
    let server = Running::start(Router::new().route("/slow", slow), bounds).await;
    let said = server.answer("GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("done"), "{said}");
    assert_eq!(server.answer("").await, "", "one without a request just ends");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_on_a_connection_that_is_too_old_has_as_long_as_the_bounds_say_unless_the_server_stops() {
    let endless = Router::new().route("/endless", get(std::future::pending::<&'static str>));
    // How late an answer may be, when the server stops, if it does, and when the connection ends: in seconds.
    for (late, stops, ends) in
        [(0, None, 125), (0, Some(121), 125), (60, None, 185), (60, Some(130), 135), (60, Some(7), 12)]
    {
        let bounds = Bounds { late: Duration::from_secs(late), ..Bounds::PROBES };
        let (mut peer, ours) = tokio::io::duplex(4096);
        let (seat, stop) = (Seats::new(1).seat().await, CancellationToken::new());
        let (routes, stopped) = (endless.clone(), stop.clone());
        let began = Instant::now();
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            requests(ours, ClientCertificates::default(), routes, &seat, stopped, bounds).await;
        });
        peer.write_all(b"GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        if let Some(stops) = stops {
            tokio::time::sleep(Duration::from_secs(stops)).await;
            stop.cancel();
        }
        serving.join_next().await.unwrap().unwrap();
        assert_eq!(began.elapsed().as_secs(), ends, "{late} {stops:?}");
    }
}

#[tokio::test]
async fn the_bytes_of_streams_are_sent_at_once_and_those_of_pages_as_the_kernel_likes() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    for (answers, at_once) in [(Answers::Pages, false), (Answers::Streams, true)] {
        let (_peer, accepted) = tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        let (stream, _) = accepted.unwrap();
        answers.set_up(&stream);
        assert_eq!(stream.nodelay().unwrap(), at_once, "{answers:?}");
    }
}

#[tokio::test]
async fn a_probe_is_answered_while_strangers_hold_every_connection_and_never_let_go() {
    // Nothing ends of itself, so that only a seat that is taken from a stranger lets the probe in.
    let bounds = Bounds { header: Duration::from_secs(3600), connection: Duration::from_secs(3600), ..Bounds::PROBES };
    let deaf = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (who, says) in [
        ("say nothing", ""),
        ("say half of a head", "GET /healthz HTTP/1.1\r\nHost: loc"),
        ("read no answer", deaf),
        ("had their answer", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    ] {
        let server = Running::start(pages(), bounds).await;
        let strangers = futures::future::join_all((0..300).map(|_| server.connected(says))).await;
        for _ in 0..3 {
            let said = tokio::time::timeout(PATIENCE, server.answer(PROBE)).await;
            let said = said.unwrap_or_else(|_| panic!("300 strangers that {who} keep the probe out"));
            assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("ok"), "{who}: {said}");
        }
        drop(strangers);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_probe_is_answered_while_strangers_come_again_as_fast_as_they_go() {
    let bounds = Bounds { header: Duration::from_secs(3600), connections: 16, ..Bounds::PROBES };
    let server = Running::start(pages(), bounds).await;
    let address = server.address;
    let mut strangers = JoinSet::new();
    for _ in 0..64 {
        strangers.spawn(async move {
            while let Ok(mut stream) = TcpStream::connect(address).await {
                let _ = stream.read_to_end(&mut Vec::new()).await;
            }
        });
    }
    for _ in 0..4 {
        let said = tokio::time::timeout(PATIENCE, server.answer(PROBE)).await.expect("strangers keep the probe out");
        assert!(said.starts_with("HTTP/1.1 200 OK") && said.ends_with("ok"), "{said}");
    }
    strangers.shutdown().await;
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_is_worked_on_ends_for_no_stranger() {
    let bounds = Bounds { connections: 4, ..Bounds::PROBES };
    let done = CancellationToken::new();
    let (waits, begun) = (done.clone(), Arc::new(tokio::sync::Notify::new()));
    let says = Arc::clone(&begun);
    let long = get(async move || {
        says.notify_one();
        waits.cancelled().await;
        "all of it"
    });
    let server = Running::start(pages().route("/long", long), bounds).await;
    let mut asked = server.connected("GET /long HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    begun.notified().await;
    let _strangers = futures::future::join_all((0..20).map(|_| server.connected(""))).await;
    assert!(server.answer(PROBE).await.ends_with("ok"));
    done.cancel();
    assert!(rest(&mut asked).await.ends_with("all of it"));
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_keeps_its_seat_ends_for_no_stranger() {
    let bounds = Bounds { connections: 2, ..Bounds::PROBES };
    let done = CancellationToken::new();
    let waits = done.clone();
    let long = get(move |Extension(seat): Extension<AtWork>| {
        let rest = async move {
            waits.cancelled().await;
            drop(seat);
            "and the rest"
        };
        let pieces = stream::iter(["the first part, "]).chain(stream::once(rest));
        std::future::ready(Body::from_stream(pieces.map(Ok::<_, Infallible>)))
    });
    let server = Running::start(pages().route("/long", long), bounds).await;
    let mut asked = server.connected("GET /long HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains("the first part") {
        assert_ne!(asked.read_buf(&mut said).await.unwrap(), 0, "it ends before it has begun");
    }
    let _strangers = futures::future::join_all((0..20).map(|_| server.connected(""))).await;
    assert!(server.answer(PROBE).await.ends_with("ok"));
    done.cancel();
    assert!(rest(&mut asked).await.contains("and the rest"));
    server.stop().await;
}

#[tokio::test]
async fn a_page_cuts_off_a_peer_that_does_not_read_its_answer_and_no_other() {
    let bounds = Bounds { header: Duration::from_secs(3600), connection: Duration::from_secs(3600), ..Bounds::PROBES };
    let (sender, mut cuts) = tokio::sync::mpsc::unbounded_channel();
    let gone = CancellationToken::new();
    let ends = gone.clone();
    let endless = get(move |Extension(seat): Extension<AtWork>| {
        sender.send(seat.cut()).unwrap();
        let held = (ends.clone().drop_guard(), seat);
        let pieces = stream::repeat_with(move || {
            let _held_with_the_body = &held;
            Ok::<_, Infallible>(vec![0_u8; 1 << 16])
        });
        std::future::ready(Body::from_stream(pieces))
    });
    let server = Running::start(pages().route("/endless", endless), bounds).await;
    let deaf = server.connected("GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let cut = cuts.recv().await.unwrap();
    let mut other = server.connected("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    other.readable().await.unwrap();
    assert!(!gone.is_cancelled());
    cut.cancel();
    tokio::time::timeout(PATIENCE, gone.cancelled()).await.expect("the answer is held");
    other.write_all(PROBE.as_bytes()).await.unwrap();
    assert!(rest(&mut other).await.ends_with("ok"));
    drop(deaf);
    server.stop().await;
}

#[tokio::test]
async fn a_connection_that_a_page_has_taken_over_is_the_page_s_with_what_was_sent_behind_the_request() {
    let (sender, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let page = get(move |mut request: Request| {
        sender.send(hyper::upgrade::on(&mut request)).unwrap();
        let headers = [(header::CONNECTION, "upgrade"), (header::UPGRADE, "echo")];
        std::future::ready((StatusCode::SWITCHING_PROTOCOLS, headers))
    });
    let server = Running::start(Router::new().route("/take", page), Bounds::PROBES).await;
    let head = "GET /take HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
    let mut peer = server.connected(&format!("{head}hello")).await;
    let mut ours = TokioIo::new(taken.recv().await.unwrap().await.unwrap());
    server.stop().await;
    let mut said = [0; 5];
    ours.read_exact(&mut said).await.unwrap();
    ours.write_all(&said).await.unwrap();
    drop(ours);
    let said = rest(&mut peer).await;
    assert!(said.starts_with("HTTP/1.1 101") && said.ends_with("\r\n\r\nhello"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_head_arrives_within_a_second_or_the_connection_ends() {
    for says in ["", "GET /healthz HTTP/1.1\r\nHost: loc"] {
        let (mut peer, ours) = tokio::io::duplex(4096);
        let seat = Seats::new(1).seat().await;
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let client = ClientCertificates::default();
            requests(ours, client, pages(), &seat, CancellationToken::new(), Bounds::PROBES).await;
        });
        let began = Instant::now();
        peer.write_all(says.as_bytes()).await.unwrap();
        rest(&mut peer).await;
        assert_eq!(began.elapsed().as_millis() / 10, 100, "{says:?}");
        serving.join_next().await.unwrap().unwrap();
    }
}
