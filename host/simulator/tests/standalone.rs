//! The program, through its admin listener.

use crate::client::client;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use topoloom_simulator::{Error, Options, run};

/// What a test needs of what runs.
struct Seen {
    url: String,
    document: String,
    admin: String,
    ca: String,
}

/// Runs the program while the test does.
async fn running<F: Future<Output = ()>>(options: Options, test: impl FnOnce(Seen) -> F) {
    let (ready, seen) = oneshot::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    let program = run(
        options,
        async {
            let _ = stopped.await;
        },
        |running| {
            let (document, admin) = (running.document.unwrap().url(), running.admin.clone().unwrap());
            let ca = running.ufm.ca_pem().unwrap().to_owned();
            let _ = ready.send(Seen { url: running.ufm.url(), document, admin, ca });
        },
    );
    let test = async {
        test(seen.await.unwrap()).await;
        drop(stop);
    };
    let (outcome, ()) = tokio::join!(program, test);
    outcome.unwrap();
}

fn options() -> Options {
    let any = "127.0.0.1:0".parse().unwrap();
    Options { document: Some(any), admin: Some(any), tokens: vec!["t0ken".into()], ..Options::default() }
}

#[tokio::test]
async fn faults_edits_and_credentials_are_switched_from_outside() {
    running(options(), async |seen| {
        let client = client(Some(&seen.ca), None);
        let status = async |token: &str| {
            let url = format!("{}/ufmRestV3/resources/links", seen.url);
            client.get(url).header("authorization", format!("Basic {token}")).send().await.unwrap().status().as_u16()
        };
        let admin = |what: &str| format!("{}/{what}", seen.admin);
        let json =
            async |request: reqwest::RequestBuilder| request.send().await.unwrap().json::<Value>().await.unwrap();
        assert_eq!(status("t0ken").await, 200);
        let rules = json(client.put(admin("faults")).body("status:503 times=1\nhtml at=/app/")).await;
        assert_eq!(rules, json!(["status:503 times=1", "html at=/app/"]));
        assert_eq!((status("t0ken").await, status("t0ken").await), (503, 200));
        assert_eq!(json(client.get(admin("ufm/faults"))).await, json!(["html at=/app/"]));
        assert_eq!(json(client.delete(admin("faults"))).await, json!([]));
        let before = json(client.get(admin("fabric"))).await;
        let edits = json!(["cut-host gpu-00000", "rename-switch core-0 c"]).to_string();
        let after = json(client.post(admin("edits")).body(edits)).await;
        assert_eq!(before["counts"]["links"].as_u64().unwrap() - 4, after["counts"]["links"].as_u64().unwrap());
        let failed = client.post(admin("edits")).body("mend\ncut-host absent").send().await.unwrap();
        assert_eq!((failed.status().as_u16(), json(client.get(admin("fabric"))).await), (400, after));
        json(client.put(admin("credentials")).body(r#"{"tokens": ["new"]}"#)).await;
        assert_eq!((status("t0ken").await, status("new").await), (401, 200));
        json(client.put(admin("document/faults")).body(r#"["status:500"]"#)).await;
        let document = client.get(format!("{}/v1/fabric", seen.document)).bearer_auth("new").send().await.unwrap();
        assert_eq!(document.status(), 500);
        let requests = json(client.get(admin("requests"))).await.to_string();
        assert!(requests.contains("Token(..)") && !requests.contains("t0ken"), "{requests}");
    })
    .await;
}

#[tokio::test]
async fn faults_meet_both_servers_or_the_one_that_the_path_names() {
    running(options(), async |seen| {
        let client = client(Some(&seen.ca), None);
        let status = async |request: reqwest::RequestBuilder| request.send().await.unwrap().status().as_u16();
        let statuses = async || {
            let ufm =
                client.get(format!("{}/ufmRestV3/resources/links", seen.url)).header("authorization", "Basic t0ken");
            let document = client.get(format!("{}/v1/fabric", seen.document)).bearer_auth("t0ken");
            (status(ufm).await, status(document).await)
        };
        let put = async |what: &str, rules: &str| {
            let answer = client.put(format!("{}/{what}", seen.admin)).body(rules.to_owned()).send().await.unwrap();
            answer.json::<Value>().await.unwrap()
        };
        assert_eq!(put("faults", "status:503").await, json!(["status:503"]));
        assert_eq!(statuses().await, (503, 503));
        assert_eq!(put("ufm/faults", "").await, json!([]));
        assert_eq!(statuses().await, (200, 503));
        assert_eq!(put("document/faults", "status:500").await, json!(["status:500"]));
        assert_eq!(put("ufm/faults", "status:429").await, json!(["status:429"]));
        assert_eq!(statuses().await, (429, 500));
        let both = client.get(format!("{}/faults", seen.admin)).send().await.unwrap().json::<Value>().await.unwrap();
        assert_eq!(both, json!(["status:429", "status:500"]));
        // The path of a rule chooses as well.
        put("faults", "status:404 at=/v1/fabric").await;
        assert_eq!(statuses().await, (200, 404));
        // Both come back to their ports.
        put("faults", "refused").await;
        client.delete(format!("{}/faults", seen.admin)).send().await.unwrap();
        assert_eq!(statuses().await, (200, 200));
        let requests = client.get(format!("{}/requests", seen.admin)).send().await.unwrap().text().await.unwrap();
        assert!(requests.contains("/v1/fabric") && requests.contains("/ufmRestV3/resources/links"), "{requests}");
    })
    .await;
}

#[tokio::test]
async fn a_client_whose_files_would_lie_elsewhere_is_refused() {
    let options = Options { clients: vec!["ops".into(), "../x".into()], ..Options::default() };
    let outcome = run(options, std::future::pending(), |_| panic!("it must not start")).await;
    let error = outcome.unwrap_err().to_string();
    assert!(error.starts_with("client: \"../x\" is not allowed; expected 1 to 64"), "{error}");
}

#[tokio::test]
async fn the_admin_listener_says_what_is_wrong() {
    running(options(), async |seen| {
        let client = client(Some(&seen.ca), None);
        let put = async |what: &str, body: &str| {
            let answer = client.put(format!("{}/{what}", seen.admin)).body(body.to_owned()).send().await.unwrap();
            (answer.status().as_u16(), answer.text().await.unwrap())
        };
        let (status, says) = put("faults", "burn").await;
        assert!(status == 400 && says.contains("expected slow-headers"), "{says}");
        let (status, says) = put("credentials", r#"{"password": "canary"}"#).await;
        assert!(status == 400 && !says.contains("canary"), "{says}");
        assert_eq!(put("fabric", "").await.0, 405);
        assert_eq!(put("nothing", "").await.0, 404);
        assert_eq!(put("faults", &" ".repeat(2 << 20)).await.0, 413);
        let page = client.put(format!("{}/faults", seen.admin)).header("origin", "http://evil.example").body("html");
        assert_eq!(page.send().await.unwrap().status(), 403);
    })
    .await;
}

#[tokio::test]
async fn an_admin_listener_for_everybody_is_refused() {
    let options = Options { admin: Some("0.0.0.0:0".parse().unwrap()), ..Options::default() };
    let outcome = run(options, std::future::pending(), |_| panic!("it must not start")).await;
    assert!(matches!(outcome, Err(Error::OpenAdmin { .. })), "{outcome:?}");
}
