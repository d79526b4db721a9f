//! The HTTP of the extender, byte for byte where a caller can see it (A20, AX 15), its filter, and who may call it (N8).

use http::StatusCode;
use topoloom_simulator::Authority;

use super::*;

impl BindClient {
    async fn send(
        &self,
        method: &str,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> Result<(StatusCode, String, String)> {
        let method = method.parse::<http::Method>()?;
        let client = plain_http().redirect(reqwest::redirect::Policy::none()).build()?;
        let answer = client.request(method, format!("{}{path}", self.url)).body(body).send().await?;
        let header = |name: &str| {
            answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let shown = if answer.status().is_redirection() { header("location") } else { header("content-type") };
        Ok((answer.status(), shown, answer.text().await?))
    }

    async fn error(&self, path: &str, body: impl Into<reqwest::Body>) -> Result<String> {
        let (status, kind, text) = self.send("POST", path, body).await?;
        assert_eq!((status, kind.as_str()), (StatusCode::OK, "application/json"), "{text}");
        let answer: Value = serde_json::from_str(&text)?;
        Ok(answer["Error"].as_str().context("there is an Error")?.to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a20_ax_15_whatever_is_asked_is_answered_as_the_original_answers() -> Result<()> {
    let stage = LockScene::new(&["gpu-1", "gpu-2"], &["--extender-filter=locked"]).await?;
    let caller = &stage.extender;
    for (method, path, status) in [
        ("GET", "/bind", 405),
        ("PUT", "/filter", 405),
        ("POST", "/healthz", 405),
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/", 404),
        ("POST", "/webhook", 404),
        ("POST", "/bind/", 308),
        ("GET", "/healthz/", 301),
    ] {
        assert_eq!(caller.send(method, path, "").await?.0.as_u16(), status, "{method} {path}");
    }
    assert_eq!(caller.send("POST", "/bind/", "").await?.1, "/bind");
    assert_eq!(caller.send("GET", "/healthz", "").await?.2, "");

    for path in ["/bind", "/filter"] {
        assert!(caller.error(path, "{not-json").await?.contains("not JSON"), "{path}");
        assert!(caller.error(path, "").await?.contains("empty"), "{path}");
        let huge = format!("{{\"PodName\":\"{}\"}}", "x".repeat(17 << 20));
        assert!(caller.error(path, huge).await?.contains("unexpected EOF"), "{path}");
    }
    for (body, words) in [
        (json!({}), "PodName: \"\" must be"),
        (
            json!({"PodName": "../../nodes", "PodNamespace": "default", "PodUID": "u", "Node": "n"}),
            "PodName: \"../../nodes\" must be",
        ),
        (
            json!({"PodName": "p", "PodNamespace": "de.fault", "PodUID": "u", "Node": "n"}),
            "PodNamespace: \"de.fault\" must be",
        ),
        (json!({"PodName": "p", "PodNamespace": "default", "PodUID": "", "Node": "n"}), "PodUID: \"\" must be"),
        (
            json!({"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "n/status"}),
            "Node: \"n/status\" must be",
        ),
        (json!({"PodName": "100%d", "PodNamespace": "default", "PodUID": "u", "Node": "n"}), "100 percentd"),
    ] {
        let said = caller.error("/bind", body.to_string()).await?;
        assert!(said.contains(words), "{said}");
    }

    // Names of fields in any case, and bytes after the first JSON value.
    let pod = stage.gpu_pod("p1").await?;
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let body =
        format!(r#"{{"podname":"p1","PODNAMESPACE":"default","podUid":"{uid}","node":"gpu-1","More":1}} and more"#);
    let (status, kind, text) = caller.send("POST", "/bind", body).await?;
    assert_eq!((status, kind.as_str(), text.as_str()), (StatusCode::OK, "application/json", r#"{"Error":""}"#));

    // The filter.
    let gpu = json!({"metadata": {"name": "p2", "namespace": "default", "uid": "u2"}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}});
    let plain = json!({"metadata": {"name": "p3", "namespace": "default", "uid": "u3"}, "spec": {"containers": [{"name": "c"}]}});
    eventually("the bound pod is known", PATIENCE, async || {
        let asked = json!({"Pod": gpu, "Nodes": null, "NodeNames": ["gpu-1", "gpu-2"]}).to_string();
        let (.., text) = caller.send("POST", "/filter", asked).await.map_err(|error| error.to_string())?;
        let wanted = r#"{"Nodes":null,"NodeNames":["gpu-2"],"FailedNodes":{"gpu-1":"node gpu-1 is locked by default/p1: its pod is bound to this node and waits for the device plugin"},"FailedAndUnresolvableNodes":null,"Error":""}"#;
        if text == wanted { Ok(()) } else { Err(text) }
    })
    .await;
    let asked = json!({"Pod": plain, "Nodes": null, "NodeNames": ["gpu-1", "gpu-2"]}).to_string();
    assert_eq!(
        caller.send("POST", "/filter", asked).await?.2,
        r#"{"Nodes":null,"NodeNames":["gpu-1","gpu-2"],"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":""}"#
    );
    // If no node fits, the list is `null`. The filter does not refuse a node whose lock the pod itself holds.
    let asked = json!({"Pod": gpu, "Nodes": null, "NodeNames": ["gpu-1"]}).to_string();
    let text = caller.send("POST", "/filter", asked).await?.2;
    assert!(text.starts_with(r#"{"Nodes":null,"NodeNames":null,"FailedNodes":{"gpu-1":"#), "{text}");
    let mut holder = gpu.clone();
    holder["metadata"] = json!({"name": "p1", "namespace": "default", "uid": uid});
    let asked = json!({"Pod": holder, "Nodes": null, "NodeNames": ["gpu-1"]}).to_string();
    assert_eq!(
        caller.send("POST", "/filter", asked).await?.2,
        r#"{"Nodes":null,"NodeNames":["gpu-1"],"FailedNodes":null,"FailedAndUnresolvableNodes":null,"Error":""}"#
    );
    // The filter returns whole nodes unchanged.
    let whole = json!({"metadata": {"name": "gpu-2"}, "ex.io/odd": [1]});
    let asked = json!({"pod": gpu, "nodes": {"metadata": {}, "items": [{"metadata": {"name": "gpu-1"}}, whole]}, "nodenames": null});
    let answer: Value = serde_json::from_str(&caller.send("POST", "/filter", asked.to_string()).await?.2)?;
    assert_eq!(answer["Nodes"]["items"], json!([whole]));
    assert_eq!(answer["NodeNames"], Value::Null);
    // Sixty whole nodes with their images, and thirty thousand names.
    let images = "i".repeat(40 << 10);
    let whole =
        |index: usize| json!({"metadata": {"name": format!("n{index}")}, "status": {"images": [{"names": [images]}]}});
    let sixty: Vec<Value> = (0..60).map(whole).collect();
    let asked = json!({"Pod": gpu, "Nodes": {"metadata": {}, "items": sixty}, "NodeNames": null}).to_string();
    let answer: Value = serde_json::from_str(&caller.send("POST", "/filter", asked).await?.2)?;
    assert_eq!(answer["Nodes"]["items"], json!(sixty));
    let names: Vec<String> =
        (0..30_000).map(|node| format!("node-{node}.rack-{}.hall.example.com", node / 32)).collect();
    let asked = json!({"Pod": gpu, "Nodes": null, "NodeNames": names}).to_string();
    assert!(asked.len() > 1 << 20);
    let answer: Value = serde_json::from_str(&caller.send("POST", "/filter", asked.clone()).await?.2)?;
    assert_eq!(answer["NodeNames"], json!(names));
    // Many requests at the same time wait for each other: the memory of the host does not grow with their number.
    let most = || -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", stage.host.id().context("it runs")?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("there is VmHWM")?;
        Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
    };
    let before = most()?;
    let long = format!("{}{}", asked, " ".repeat((14 << 20) - asked.len()));
    let mut many = JoinSet::new();
    for _ in 0..24 {
        let (caller, long) = (caller.clone(), long.clone());
        many.spawn(async move { caller.send("POST", "/filter", long).await });
    }
    while let Some(answered) = many.join_next().await {
        assert!(answered??.2.contains(r#""node-29999."#));
    }
    let grown = most()?.saturating_sub(before);
    assert!(grown < 200, "{grown} MiB more");
    assert!(caller.error("/filter", r#"{"NodeNames":["a"]}"#).await?.contains("Pod: is missing"));
    assert!(caller.error("/filter", json!({"Pod": gpu}).to_string()).await?.contains("one of Nodes and NodeNames"));
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn n8_over_tls_only_kube_schedulers_certificate_is_served_and_certificates_change_while_it_runs() -> Result<()> {
    let scene = LockScene::scene(&["gpu-1"]).await?;
    let folder = tempfile::tempdir()?;
    let (authority, clients) = (Authority::generate()?, Authority::generate()?);
    let path = |name: &str| folder.path().join(name);
    let serve = |name: &str| -> Result<()> {
        let issued = authority.serving(&[name])?;
        std::fs::write(path("tls.crt"), issued.certificate)?;
        std::fs::write(path("tls.key"), issued.key)?;
        Ok(())
    };
    serve("localhost")?;
    let of_cluster = std::fs::read_to_string(scene.plane.certificate())?;
    std::fs::write(path("ca.crt"), format!("{}{of_cluster}", clients.pem()))?;
    let shown = |name: &str| path(name).display().to_string();
    let arguments = [
        "--extender-address=127.0.0.1:0".to_owned(),
        format!("--extender-tls-cert-file={}", shown("tls.crt")),
        format!("--extender-tls-private-key-file={}", shown("tls.key")),
        format!("--extender-client-ca-file={}", shown("ca.crt")),
    ];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let host = Host::start(&scene.host_kubeconfig().await?, &arguments).await?;
    let address: std::net::SocketAddr = host.extender().await.parse()?;
    let caller = |name: &str, identity: Option<(&Authority, &str, &str)>| -> Result<BindClient> {
        let trusted = reqwest::Certificate::from_pem(authority.pem().as_bytes())?;
        let mut client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]).resolve(name, address);
        if let Some((identity, user, group)) = identity {
            let issued = identity.client_of(user, group)?;
            client = client
                .identity(reqwest::Identity::from_pem(format!("{}{}", issued.certificate, issued.key).as_bytes())?);
        }
        Ok(BindClient { url: format!("https://{name}:{}", address.port()), http: client.build()? })
    };
    const SCHEDULER: &str = "system:kube-scheduler";
    let get = async |name: &str, identity: Option<&Authority>| -> Result<StatusCode> {
        let caller = caller(name, identity.map(|authority| (authority, SCHEDULER, "other")))?;
        Ok(caller.http.get(format!("{}/healthz", caller.url)).send().await?.status())
    };
    let stage = LockScene { extender: caller("localhost", Some((&clients, SCHEDULER, "other")))?, scene, host };
    let pod = stage.gpu_pod("p1").await?;
    // A client whose certificate is for another purpose binds nothing, and cannot fill the log.
    for _ in 0..3 {
        let forged = caller("localhost", Some((&clients, "system:node:gpu-1", "system:nodes")))?;
        assert!(forged.bind(&pod, "gpu-1").await.is_err(), "another name");
    }
    assert_eq!(stage.node_of("p1").await?, None);
    let metrics = stage.host.get("/metrics").await?;
    assert!(metrics.contains(r#"topoloom_extender_refused_clients_total{reason="name"} 3"#), "{metrics}");
    let lines = |words: &str| stage.host.log().iter().filter(|line| line.contains(words)).count();
    assert_eq!(lines("a client of the extender was refused"), 1);
    assert!(lines("O=system:nodes") == 1 && lines("has the authority of this cluster") == 1);
    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    assert_eq!(get("localhost", Some(&clients)).await?, StatusCode::OK);
    assert!(get("localhost", None).await.is_err(), "no certificate");
    assert!(get("localhost", Some(&authority)).await.is_err(), "a certificate of another authority");
    // The operator writes another certificate into the same files.
    serve("extender.test")?;
    eventually("the new certificate is shown", PATIENCE, async || {
        get("extender.test", Some(&clients)).await.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await;
    // A key that cannot be used changes nothing.
    std::fs::write(path("tls.key"), "no key")?;
    eventually("it says so", PATIENCE, async || {
        let log = stage.host.log();
        if log.iter().any(|line| line.contains("stays in use")) { Ok(()) } else { Err("it does not".to_owned()) }
    })
    .await;
    assert_eq!(get("extender.test", Some(&clients)).await?, StatusCode::OK);
    stage.stop().await
}
