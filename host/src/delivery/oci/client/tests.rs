//! What a registry and its token server refuse, and what is shown to them after that.

use std::sync::Arc;
use std::sync::atomic::AtomicU16;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;
use crate::config::registry::Reference;
use crate::delivery::oci::{Registries, Scheme};

/// An answer: its status, more headers, and its body.
type Reply = (u16, String, &'static str);

/// A desk with a registry, which is its own token server.
struct Desk {
    folder: tempfile::TempDir,
    reference: Reference,
    client: Client,
    asked: Arc<Mutex<Vec<String>>>,
    _server: JoinSet<()>,
}

impl Desk {
    /// The registry answers what is said for the head of a request and its own address.
    async fn start(answer: impl Fn(&str, &str) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let (asked, mut server) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
        let (heads, address) = (Arc::clone(&asked), host.clone());
        server.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while let Ok(byte) = stream.read_u8().await {
                    head.push(byte);
                    if head.ends_with(b"\r\n\r\n") {
                        break;
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let (status, headers, body) = answer(&head, &address);
                heads.lock().unwrap().push(head);
                let length = body.len();
                let reply = format!(
                    "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
                );
                let _ = stream.write_all(reply.as_bytes()).await;
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let reference: Reference = format!("oci://{host}/acme/racks:1").parse().unwrap();
        let registries = Registries { docker: Some(folder.path().to_owned()), ..Registries::default() };
        let client = registries.at_desk(&reference, Scheme::Http, None);
        let desk = Self { folder, reference, client, asked, _server: server };
        desk.login("first");
        desk
    }

    fn login(&self, password: &str) {
        let host = self.reference.registry().as_str();
        let config = serde_json::json!({"auths": {host: {"username": "robot", "password": password}}});
        std::fs::write(self.folder.path().join("config.json"), config.to_string()).unwrap();
    }

    async fn look(&self) -> Result<Manifest, OciError> {
        self.client.manifest(self.reference.version()).await
    }

    /// Requests with these words in their head.
    fn count(&self, words: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|head| head.contains(words)).count()
    }
}

/// The header that the registry of a token server answers with.
fn bearer_of(host: &str) -> String {
    format!("www-authenticate: Bearer realm=\"http://{host}/token\"\r\n")
}

#[tokio::test]
async fn what_a_token_server_answers_is_about_the_account_or_about_the_server_and_is_asked_for_once() {
    let status = Arc::new(AtomicU16::new(0));
    let now = Arc::clone(&status);
    let desk = Desk::start(move |head, host| match head.starts_with("GET /token") {
        true => (now.load(Ordering::Relaxed), String::new(), ""),
        false => (401, bearer_of(host), ""),
    })
    .await;
    for (looks, (answer, trouble)) in [
        (400, Trouble::Refused),
        (401, Trouble::Refused),
        (403, Trouble::Refused),
        (404, Trouble::Away),
        (405, Trouble::Away),
        (408, Trouble::Away),
        (500, Trouble::Away),
    ]
    .into_iter()
    .enumerate()
    {
        status.store(answer, Ordering::Relaxed);
        let error = desk.look().await.unwrap_err();
        assert_eq!(error.trouble, trouble, "{error}");
        // The same account is not shown twice.
        assert_eq!(desk.count("GET /token"), looks + 1, "{error}");
    }
}

#[tokio::test]
async fn a_password_is_kept_once_it_was_accepted() {
    let wanted = Account::of("robot", "second").basic().unwrap().unwrap();
    let wanted = format!("authorization: {}\r\n", wanted.to_str().unwrap());
    let accepts = wanted.clone();
    let desk = Desk::start(move |head, _| match head.contains(&accepts) {
        true => (200, String::new(), "{}"),
        false => (401, "www-authenticate: Basic realm=\"x\"\r\n".to_owned(), ""),
    })
    .await;
    assert_eq!(desk.look().await.unwrap_err().trouble, Trouble::Refused);
    assert_eq!((desk.count("GET "), desk.count("authorization: ")), (2, 1), "it is shown once");
    desk.login("second");
    desk.look().await.unwrap();
    assert_eq!((desk.count("GET "), desk.count("authorization: ")), (4, 2), "what was refused is not shown again");
    desk.look().await.unwrap();
    assert_eq!((desk.count("GET "), desk.count(&wanted)), (5, 2), "what was accepted is, before it is asked for");
}

#[tokio::test]
async fn a_token_that_gets_a_403_or_a_404_is_not_shown_again() {
    for refusal in [403, 404] {
        let status = Arc::new(AtomicU16::new(200));
        let now = Arc::clone(&status);
        let desk = Desk::start(move |head, host| {
            if head.starts_with("GET /token") {
                return (200, String::new(), r#"{"token": "canary", "expires_in": 300}"#);
            }
            match head.contains("authorization: Bearer canary") {
                true => (now.load(Ordering::Relaxed), String::new(), "{}"),
                false => (401, bearer_of(host), ""),
            }
        })
        .await;
        desk.look().await.unwrap();
        desk.look().await.unwrap();
        assert_eq!(desk.count("GET /token"), 1, "it is good for a while");
        status.store(refusal, Ordering::Relaxed);
        desk.look().await.unwrap_err();
        assert_eq!(desk.count("GET /token"), 1);
        status.store(200, Ordering::Relaxed);
        desk.look().await.unwrap();
        assert_eq!(desk.count("GET /token"), 2, "{refusal}");
    }
}
