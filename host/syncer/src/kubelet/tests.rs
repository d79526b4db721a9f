//! The server as its callers meet it.

pub(crate) mod authority;
mod stage;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use topoloom_sync::keys;

use self::authority::Authority;
use self::stage::{
    API_SERVER, PATIENCE, SECRET, Stage, UPGRADE, code, down, exactly, head, identity, request, rest, say, up,
};
use super::UNJUDGED_OF_ONE;

const LOG: &str = "GET /containerLogs/shop/web-0/app?tailLines=5";
const EXEC: &str = "POST /exec/shop/web-0/app?command=cat&input=1&output=1";

#[tokio::test]
async fn s26_without_a_certificate_nothing_is_served_and_one_of_another_authority_gets_no_connection() {
    let stage = Stage::new().await;
    for line in [LOG, EXEC, "GET /metrics", "GET /nothing"] {
        let (code, said) = stage.ask(None, line).await;
        assert!(
            code == 401 && said.ends_with("a client certificate is needed, and none was shown\n"),
            "{line}: {said}"
        );
    }
    assert_eq!(stage.ask(None, "GET /healthz").await.0, 200, "a probe has no certificate");
    let stranger = Authority::new().client(&[API_SERVER], &["system:masters"]);
    // The handshake may look finished to the client before the server has read its certificate.
    let said = match stage.connect(Some(&stranger)).await {
        Ok(mut stream) => {
            let _ = stream.write_all(request(LOG, "Connection: close\r\n").as_bytes()).await;
            rest(&mut stream).await
        }
        Err(_) => String::new(),
    };
    assert_eq!(said, "");
    let nameless = stage.authority.client(&[], &["system:masters"]);
    assert_eq!(stage.ask(Some(&nameless), LOG).await.0, 401);
    assert_eq!(stage.world.streams(), 0);
    assert!(stage.shown().contains("virtual_kubelet_requests_total{verb=\"logs\",outcome=\"unauthenticated\"} 2"));
}

#[tokio::test]
async fn s26_a_caller_that_may_not_is_refused_and_does_not_learn_which_pods_there_are() {
    let stage = Stage::new().await;
    let node = stage.authority.client(&["system:node:w9"], &["system:nodes"]);
    let mut answers = Vec::new();
    for line in [LOG, "GET /containerLogs/shop/nothing/app", "GET /containerLogs/other/nothing/app"] {
        let (code, said) = stage.ask(Some(&node), line).await;
        assert_eq!(code, 403, "{said}");
        answers.push(said.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned());
    }
    assert_eq!(answers[0], "Forbidden (user=system:node:w9, verb=get, resource=nodes, subresource=proxy)\n");
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    let by_get = EXEC.replace("POST", "GET");
    for line in [EXEC, by_get.as_str(), "POST /attach/shop/web-0/app?output=1", "POST /portForward/shop/web-0"] {
        let (code, said) = stage.ask(Some(&node), line).await;
        assert!(code == 403 && said.contains("verb=create"), "a command is more than reading: {said}");
    }
    assert_eq!(stage.world.streams(), 0);

    // A right on one node is enough for its pods, and for no others.
    stage.world.virtual_pod("elsewhere", "vnode-east-w2", &down("web-0-x", "P"));
    stage.world.allow("one-node", "vnode-east-w1");
    let one = stage.authority.client(&["one-node"], &[]);
    assert_eq!(stage.ask(Some(&one), LOG).await.0, 200);
    assert_eq!(stage.ask(Some(&one), "GET /containerLogs/shop/elsewhere/app").await.0, 403);

    // It learns nothing either where it cannot be asked whether the right is enough.
    *stage.world.mute_about_nodes.lock().unwrap() = true;
    stage.world.allow("another", "vnode-east-w1");
    let another = stage.authority.client(&["another"], &[]);
    let mut answers = Vec::new();
    for line in [LOG, "GET /containerLogs/shop/nothing/app"] {
        let (code, said) = stage.ask(Some(&another), line).await;
        answers.push((code, said.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()));
    }
    assert!(answers[0].0 == 403 && answers[0] == answers[1], "{answers:?}");
}

#[tokio::test]
async fn s26_a_caller_about_whom_nothing_is_known_takes_no_place_of_others_and_one_question() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    assert_eq!(stage.ask(Some(&caller), LOG).await.0, 200);
    let stranger = stage.authority.client(&["stranger"], &[]);
    let before = stage.world.reviews.load(Ordering::Relaxed);
    *stage.world.hold.lock().unwrap() = true;
    let all = (0..=UNJUDGED_OF_ONE).map(|_| stage.ask(Some(&stranger), LOG));
    let mut all: FuturesUnordered<_> = all.collect();
    let (code, said) = all.next().await.unwrap();
    assert!(code == 429 && said.contains("which is the most for one"), "{said}");
    assert_eq!(stage.world.reviews.load(Ordering::Relaxed) - before, 1);
    assert_eq!(stage.ask(Some(&caller), LOG).await.0, 200, "another one is known, and has places of its own");
}

#[tokio::test]
async fn s26_if_it_cannot_be_asked_who_may_it_is_no_permission() {
    let stage = Stage::new().await;
    *stage.world.mute.lock().unwrap() = true;
    let (code, said) = stage.ask(Some(&stage.api_server()), LOG).await;
    assert_eq!(code, 500, "{said}");
    assert!(!said.contains("etcd"), "{said}");
    assert_eq!(stage.world.streams(), 0);
    *stage.world.mute.lock().unwrap() = false;
    assert_eq!(stage.ask(Some(&stage.api_server()), LOG).await.0, 200, "and it is asked again");
}

#[tokio::test]
async fn s26_a_pod_that_is_not_ours_has_no_stream_and_the_answer_says_what_is_wrong() {
    let stage = Stage::new().await;
    let world = &stage.world;
    let labels = |binding: &str| {
        let mut labels = identity().labels();
        labels.insert(keys::BINDING.to_owned(), binding.to_owned());
        labels
    };
    world.nodes.lock().unwrap().extend([("real".into(), BTreeMap::new()), ("vnode-west-w1".into(), labels("west"))]);
    for (name, node) in
        [("on-a-real-node", "real"), ("of-west", "vnode-west-w1"), ("on-no-node", ""), ("node-gone", "gone")]
    {
        world.virtual_pod(name, node, &down("web-0-x", "P"));
    }
    world.virtual_pod("unnamed", "vnode-east-w1", &json!({}));
    world.virtual_pod("thief", "vnode-east-w1", &down("web-0-x", "P"));
    world.virtual_pod("lost", "vnode-east-w1", &down("lost-x", "P"));
    world.virtual_pod("another-s", "vnode-east-w1", &down("tenant", "P"));
    world.physical_pod("tenant", &json!({}), &up("another-s", "V-another-s"));
    world.virtual_pod("west-s", "vnode-east-w1", &down("west", "P"));
    world.physical_pod("west", &json!(labels("west")), &up("west-s", "V-west-s"));
    let outside = json!({keys::PHYSICAL_POD_NAMESPACE: "kube-system", keys::PHYSICAL_POD_NAME: "etcd"});
    world.virtual_pod("outside", "vnode-east-w1", &outside);
    let caller = stage.api_server();
    for (pod, wanted, part) in [
        ("nothing", 404, "pod shop/nothing: there is no such pod in the virtual cluster"),
        ("on-no-node", 404, "it is on no node"),
        ("on-a-real-node", 403, "it is on node real, which is not a virtual node"),
        ("node-gone", 403, "it is on node gone, which is not a virtual node"),
        ("of-west", 403, "which is not a virtual node of a ClusterBinding that is served here"),
        ("unnamed", 404, "it names no physical pod: the annotation topoloom.dev/physical-pod-namespace is missing"),
        ("lost", 404, "lent/lost-x (UID P), which does not exist"),
        ("outside", 403, "are in the namespace lent alone"),
        ("thief", 403, "the physical pod names another virtual pod, shop/web-0"),
        ("another-s", 403, "it has no labels of identity"),
        ("west-s", 403, "its label topoloom.dev/binding is"),
    ] {
        for line in [
            format!("GET /containerLogs/shop/{pod}/app"),
            format!("POST /exec/shop/{pod}/app?command=sh&output=1"),
            format!("POST /attach/shop/{pod}/app?output=1"),
            format!("POST /portForward/shop/{pod}"),
        ] {
            let (code, said) = stage.ask(Some(&caller), &line).await;
            assert_eq!(code, wanted, "{line}: {said}");
            assert!(said.contains(part), "{line}: {said}");
        }
    }
    let (code, said) = stage.ask(Some(&caller), "POST /exec/shop/web-0/U-1/app?command=sh&output=1").await;
    assert!(code == 404 && said.contains("its UID is V-web-0"), "{said}");
    assert_eq!(stage.world.streams(), 0, "none of it reached the physical API server");
}

#[tokio::test]
async fn s6_s26_a_pod_of_an_earlier_binding_has_streams_once_a_list_shows_that_this_binding_is_gone() {
    let stage = Stage::new().await;
    let mut labels = identity().labels();
    labels.insert(keys::BINDING_UID.to_owned(), "binding-0".to_owned());
    stage.world.physical_pod("web-0-x", &json!(labels), &up("web-0", "V-web-0"));
    let caller = stage.api_server();
    stage.world.bindings.lock().unwrap().insert("binding-0".to_owned());
    let (code, said) = stage.ask(Some(&caller), LOG).await;
    assert!(code == 403 && said.contains("which exists"), "{said}");
    stage.world.bindings.lock().unwrap().clear();
    assert_eq!(stage.ask(Some(&caller), LOG).await.0, 200);
}

#[tokio::test]
async fn s26_a_pod_that_is_made_again_under_its_name_while_a_stream_begins_is_not_the_one_that_was_judged() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    *stage.world.swaps.lock().unwrap() = true;
    for line in [LOG, EXEC] {
        stage.world.physical_pod("web-0-x", &json!(identity().labels()), &up("web-0", "V-web-0"));
        let (mut stream, mut said) = stage.upgraded(&caller, line).await;
        said.push_str(&rest(&mut stream).await);
        assert_eq!(code(&said), 404, "{said}");
        assert!(said.contains("lent/web-0-x (UID P), which does not exist"), "{said}");
        assert!(!said.contains("the log of"), "{said}");
    }
    assert_eq!(stage.world.streams(), 2, "both had begun");
}

#[tokio::test]
async fn s26_logs_come_from_the_physical_pod_with_the_credential_of_the_binding_and_no_header_of_the_caller() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    let mut stream = stage.connect(Some(&caller)).await.unwrap();
    let headers = "Connection: close\r\nAuthorization: Bearer of-the-caller\r\nImpersonate-User: admin\r\n";
    let line = "GET /containerLogs/shop/web-0/app?tailLines=5&timestamps=true&pretty=1";
    say(&mut stream, request(line, headers).as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 200 OK") && said.contains("the log of web-0-x\n"), "{said}");
    assert!(said.contains("content-type: text/plain") && !said.contains("of-the-lender"), "{said}");
    let seen = stage.world.last_stream();
    let path = "/api/v1/namespaces/lent/pods/web-0-x/log?container=app&tailLines=5&timestamps=true";
    assert_eq!(seen.line, format!("GET {path}"));
    assert_eq!(seen.headers.get("authorization").unwrap(), format!("Bearer {SECRET}").as_str());
    assert!(!seen.headers.contains_key("impersonate-user"));

    let (code, said) = stage.ask(Some(&caller), "GET /containerLogs/shop/web-0/bad").await;
    assert!(code == 400 && said.contains("the physical cluster: container bad is not valid for pod web-0-x"), "{said}");
    assert!(!said.contains(SECRET), "{said}");
}

#[tokio::test]
async fn s26_an_upgraded_stream_passes_every_byte_on_and_both_ends() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    for (line, path) in [
        (EXEC, "exec?container=app&command=cat&stdin=true&stdout=true"),
        ("POST /attach/shop/web-0/V-web-0/app?input=1&output=1", "attach?container=app&stdin=true&stdout=true"),
        ("POST /portForward/shop/web-0", "portforward"),
    ] {
        let (stream, said) = stage.upgraded(&caller, line).await;
        assert!(said.starts_with("HTTP/1.1 101") && !said.contains("of-the-lender"), "{said}");
        for part in ["connection: Upgrade", "upgrade: SPDY/3.1", "x-stream-protocol-version: v4.channel.k8s.io"] {
            assert!(said.to_ascii_lowercase().contains(&part.to_ascii_lowercase()), "{part} in {said}");
        }
        let seen = stage.world.last_stream();
        assert_eq!(seen.line, format!("POST /api/v1/namespaces/lent/pods/web-0-x/{path}"));
        assert_eq!(seen.headers.get("authorization").unwrap(), format!("Bearer {SECRET}").as_str());
        assert!(!seen.headers.contains_key("x-remote-user"));
        let bytes: Vec<u8> = (0..=255).cycle().take(50_000).collect();
        let (mut reads, mut writes) = tokio::io::split(stream);
        let (wrote, heard) = tokio::join!(writes.write_all(&bytes), exactly(&mut reads, bytes.len()));
        wrote.unwrap();
        assert_eq!(heard, bytes);
        // The caller has said all; the other side has not.
        writes.shutdown().await.unwrap();
        assert_eq!(rest(&mut reads).await, "50000 bytes");
    }
}

#[tokio::test]
async fn s26_a_hundred_streams_work_at_once_beside_one_that_stalls() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    // What comes back from this one is not read, so it takes no more.
    let (mut stalled, _) = stage.upgraded(&caller, EXEC).await;
    let much = vec![0; 1 << 20];
    let fills = async { while stalled.write_all(&much).await.is_ok() {} };
    let others = async {
        let one = |number: usize| {
            let (stage, caller) = (&stage, &caller);
            async move {
                let (mut stream, said) = stage.upgraded(caller, EXEC).await;
                assert_eq!(code(&said), 101, "{said}");
                let word = format!("stream {number}");
                say(&mut stream, word.as_bytes()).await;
                assert_eq!(exactly(&mut stream, word.len()).await, word.as_bytes());
                stream
            }
        };
        let open = futures::future::join_all((0..100).map(one)).await;
        let gauge = "virtual_kubelet_open_streams{verb=\"exec\"} 101";
        assert!(stage.shown().contains(gauge), "{}", stage.shown());
        for mut stream in open {
            stream.shutdown().await.unwrap();
            assert!(rest(&mut stream).await.ends_with("bytes"));
        }
    };
    tokio::select! {
        () = fills => panic!("the stream that stalls has ended"),
        done = tokio::time::timeout(3 * PATIENCE, others) => done.expect("the stalled stream holds up the others"),
    }
    drop(stalled);
}

#[tokio::test]
async fn s26_a_followed_log_comes_as_it_is_written_and_one_that_is_cut_off_does_not_look_whole() {
    let mut stage = Stage::new().await;
    let caller = stage.api_server();
    let mut followed = stage.connect(Some(&caller)).await.unwrap();
    let line = "GET /containerLogs/shop/web-0/app?follow=true";
    say(&mut followed, request(line, "").as_bytes()).await;
    let mut said = head(&mut followed).await;
    assert!(said.to_ascii_lowercase().contains("transfer-encoding: chunked"), "{said}");
    let until = async |said: &mut String, part: &str, stream: &mut _| {
        while !said.contains(part) {
            said.push_str(&String::from_utf8(exactly(stream, 1).await).unwrap());
        }
    };
    until(&mut said, "the log of web-0-x\n", &mut followed).await;
    stage.world.line.notify_one();
    until(&mut said, "one more line\n", &mut followed).await;
    assert!(stage.shown().contains("virtual_kubelet_open_streams{verb=\"logs\"} 1"));
    stage.stopped().await;
    // The last chunk of a whole body has no bytes.
    let last = rest(&mut followed).await;
    assert!(!last.contains("0\r\n\r\n"), "{last:?}");
    assert!(stage.shown().contains("virtual_kubelet_open_streams{verb=\"logs\"} 0"));
}

#[tokio::test]
async fn s26_streams_end_when_their_binding_loses_its_connection_and_when_the_server_stops() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    let (mut stream, said) = stage.upgraded(&caller, EXEC).await;
    assert_eq!(code(&said), 101);
    stage.ends.cancel();
    assert_eq!(rest(&mut stream).await, "");
    let (code_, said) = stage.ask(Some(&caller), LOG).await;
    assert!(code_ == 502 && said.contains("the binding has lost its connection"), "{said}");

    let mut stage = Stage::new().await;
    let caller = stage.api_server();
    let (mut stream, said) = stage.upgraded(&caller, EXEC).await;
    assert_eq!(code(&said), 101);
    stage.stopped().await;
    assert_eq!(rest(&mut stream).await, "");
    assert!(stage.shown().contains("virtual_kubelet_open_streams{verb=\"exec\"} 0"));
}

#[tokio::test]
async fn s26_a_log_whose_caller_does_not_read_ends_with_its_binding_and_its_place_is_free() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    let mut stream = stage.connect(Some(&caller)).await.unwrap();
    say(&mut stream, request("GET /containerLogs/shop/web-0/flood?follow=true", "").as_bytes()).await;
    assert!(head(&mut stream).await.starts_with("HTTP/1.1 200"));
    // Until every buffer on the way is full.
    while tokio::time::timeout(Duration::from_secs(1), stage.world.piece.notified()).await.is_ok() {}
    assert!(!stage.world.ended.is_cancelled());
    stage.ends.cancel();
    tokio::time::timeout(PATIENCE, stage.world.ended.cancelled()).await.expect("the connection of the lender is held");
    assert!(stage.shown().contains("virtual_kubelet_open_streams{verb=\"logs\"} 0"), "{}", stage.shown());
    drop(stream);
}

#[tokio::test]
async fn s26_an_answer_that_has_ended_is_watched_over_no_longer() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    let mut stream = stage.connect(Some(&caller)).await.unwrap();
    say(&mut stream, request(LOG, "").as_bytes()).await;
    let mut said = head(&mut stream).await;
    while !said.ends_with("\r\n0\r\n\r\n") {
        said.push_str(&String::from_utf8(exactly(&mut stream, 1).await).unwrap());
    }
    stage.ends.cancel();
    say(&mut stream, request("GET /healthz", "Connection: close\r\n").as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 200") && said.ends_with("ok"), "{said}");
}

#[tokio::test]
async fn s26_what_is_not_served_says_so() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    for (line, wanted, part) in [
        ("GET /stats/summary", 501, "a virtual node serves containerLogs, exec, attach and portForward of its pods"),
        ("GET /", 501, "ask the node of the physical cluster"),
        ("POST /run/shop/web-0/app", 501, "and nothing else"),
        ("POST /containerLogs/shop/web-0/app", 405, "logs are read with GET"),
        ("GET /exec/shop/web_0/app", 400, "the pod: nothing is named \"web_0\""),
        (EXEC, 400, "exec needs an upgraded connection: SPDY/3.1 or WebSocket"),
    ] {
        let (code, said) = stage.ask(Some(&caller), line).await;
        assert!(code == wanted && said.contains(part), "{line}: {said}");
    }
    assert!(stage.shown().contains("virtual_kubelet_requests_total{verb=\"other\",outcome=\"not_served\"} 3"));
}

#[tokio::test]
async fn s26_a_connection_is_upgraded_to_a_stream_and_to_nothing_else() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    for headers in [
        "Connection: Upgrade\r\nUpgrade: h2c\r\n",
        "Connection: noupgrade\r\nUpgrade: SPDY/3.1\r\n",
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nUpgrade: h2c\r\n",
    ] {
        let mut stream = stage.connect(Some(&caller)).await.unwrap();
        say(&mut stream, request(EXEC, headers).as_bytes()).await;
        let said = rest(&mut stream).await;
        assert!(code(&said) == 400 && said.contains("needs an upgraded connection"), "{headers}: {said}");
    }
    // HTTP/1.0 knows no upgrade.
    let old = request(EXEC, UPGRADE).replace("HTTP/1.1", "HTTP/1.0");
    let mut stream = stage.connect(Some(&caller)).await.unwrap();
    say(&mut stream, old.as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(code(&said) == 400 && said.contains("needs an upgraded connection"), "{said}");
    assert_eq!(stage.world.streams(), 0, "none of it reached the physical API server");
}

#[tokio::test]
async fn s26_a_connection_on_which_an_upgrade_was_refused_takes_no_other_request() {
    let stage = Stage::new().await;
    let node = stage.authority.client(&["system:node:w9"], &["system:nodes"]);
    let mut stream = stage.connect(Some(&node)).await.unwrap();
    let both = request(EXEC, UPGRADE) + &request("GET /healthz", "");
    say(&mut stream, both.as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 403") && said.contains("connection: close"), "{said}");
    assert_eq!(said.matches("HTTP/1.1").count(), 1, "{said}");
}

#[tokio::test]
async fn s26_a_head_has_an_end() {
    let stage = Stage::new().await;
    let caller = stage.api_server();
    let mut stream = stage.connect(Some(&caller)).await.unwrap();
    let long = format!("{UPGRADE}X-Long: {}\r\n", "x".repeat(1 << 20));
    let sends = async {
        // The server may close the connection before it has read all.
        let _ = stream.write_all(request(EXEC, &long).as_bytes()).await;
        rest(&mut stream).await
    };
    let said = tokio::time::timeout(Duration::from_secs(60), sends).await.unwrap();
    assert!(said.is_empty() || code(&said) == 431, "{said}");
    assert_eq!(stage.world.streams(), 0);
    assert_eq!(stage.ask(Some(&caller), LOG).await.0, 200);
}
