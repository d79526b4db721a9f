use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const STRICT: Allowed = Allowed { insecure: Insecure::Refused, loopback: Loopback::Refused };
const LAX: Allowed = Allowed { insecure: Insecure::Allowed, loopback: Loopback::Allowed };
/// A credential that no error and no log may show.
pub(crate) const SECRET: &str = "s3cr3t-t0ken-that-is-not-shown";

/// A kubeconfig of one cluster and one user.
fn document(cluster: Value, user: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lend",
        "clusters": [{"name": "east", "cluster": cluster}],
        "contexts": [{"name": "lend", "context": {"cluster": "east", "user": "syncer", "namespace": "x"}}],
        "users": [{"name": "syncer", "user": user}],
    })
}

fn cluster() -> Value {
    json!({"server": "https://east.example:6443"})
}

fn user() -> Value {
    json!({"token": SECRET})
}

fn with(mut object: Value, field: &str, value: impl Into<Value>) -> Value {
    object[field] = value.into();
    object
}

fn read(document: &Value, allowed: Allowed) -> Result<Access, KubeconfigError> {
    judge(document.to_string().as_bytes(), allowed)
}

/// What a test elsewhere connects with.
pub(crate) fn access(server: &str, token: &str) -> Access {
    read(&document(json!({"server": server}), json!({"token": token})), STRICT).unwrap()
}

/// The Secret that holds it.
pub(crate) fn secret(server: &str, token: &str) -> Value {
    let text = document(json!({"server": server}), json!({"token": token})).to_string();
    json!({"kubeconfig": STANDARD.encode(text)})
}

/// The same with a client certificate that ends when this year begins.
pub(crate) fn secret_with_certificate(server: &str, ends: i32) -> Value {
    let text = document(json!({"server": server}), with_identity(identity(ends))).to_string();
    json!({"kubeconfig": STANDARD.encode(text)})
}

/// Why kubeconfigs are refused that have [`SECRET`] in one place or in several.
pub(crate) fn errors() -> Vec<KubeconfigError> {
    let mut texts: Vec<String> = [
        document(cluster(), json!({"token": format!("{SECRET}\n")})),
        document(cluster(), with(user(), "tokenFile", SECRET)),
        document(cluster(), with(user(), "exec", json!({"command": "x", "env": [{"name": "A", "value": SECRET}]}))),
        document(cluster(), json!({"auth-provider": {"name": "x", "config": {"access-token": SECRET}}})),
        document(cluster(), json!({"client-certificate-data": SECRET, "client-key-data": SECRET})),
        document(cluster(), json!({(SECRET): SECRET})),
        document(cluster(), json!({"token": [SECRET]})),
        document(with(cluster(), "server", format!("https://u:{SECRET}@east.example")), user()),
        document(with(cluster(), "proxy-url", format!("http://u:{SECRET}@proxy")), user()),
        document(with(cluster(), "certificate-authority-data", SECRET), user()),
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    texts.push(format!("users: [{SECRET}"));
    texts.iter().map(|text| judge(text.as_bytes(), STRICT).unwrap_err()).collect()
}

/// A certificate that ends in this year, and its key, both PEM in base64.
fn identity(ends: i32) -> (String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["syncer".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(ends, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    (STANDARD.encode(certificate.pem()), STANDARD.encode(key.serialize_pem()))
}

fn with_identity((certificate, key): (String, String)) -> Value {
    json!({"client-certificate-data": certificate, "client-key-data": key})
}

fn jwt(claims: &Value) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part(r#"{"alg":"RS256"}"#), part(&claims.to_string()), part("signature"))
}

#[track_caller]
fn refused(document: &Value, allowed: Allowed, field: &str, parts: &[&str]) {
    let error = read(document, allowed).unwrap_err();
    let KubeconfigError::Field(found) = &error else { panic!("{error}") };
    assert_eq!(found.field, field, "{error}");
    let text = error.to_string();
    for part in parts.iter().copied().chain(["allowed "]) {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
    assert!(!text.contains(SECRET) && !format!("{error:?}").contains(SECRET), "{text}");
}

#[test]
fn s20_a_token_or_a_certificate_with_its_key_is_a_credential() {
    let token = read(&document(cluster(), user()), STRICT).unwrap();
    assert_eq!(token.server(), "https://east.example:6443/");
    assert_eq!((token.kinds.as_slice(), token.end()), ([CredentialKind::Token].as_slice(), None));
    assert!(token.config().auth_info.client_certificate_data.is_none() && token.config().root_cert.is_none());
    assert!(!token.config().accept_invalid_certs);
    let places = (token.place_of_cluster(), token.place_of_user());
    assert_eq!(places, ("clusters[\"east\"].cluster", "users[\"syncer\"].user"));
    let pair = identity(2031);
    let both = read(&document(cluster(), with(with_identity(pair.clone()), "token", SECRET)), STRICT).unwrap();
    assert_eq!(both.kinds, [CredentialKind::ClientCertificate, CredentialKind::Token]);
    assert_eq!(both.config().auth_info.client_certificate_data.as_ref(), Some(&pair.0));
    let end = both.end().unwrap();
    assert_eq!((end.kind, end.at.to_string().as_str()), (CredentialKind::ClientCertificate, "2031-01-01T00:00:00Z"));
}

#[test]
fn s20_a_key_whose_last_line_has_no_end_is_used_with_its_certificate() {
    let (certificate, key) = identity(2031);
    let text = String::from_utf8(STANDARD.decode(&key).unwrap()).unwrap();
    for text in [text.trim().to_owned(), format!("{}\n", text.trim())] {
        let pair = (certificate.clone(), STANDARD.encode(text));
        assert_eq!(read(&document(cluster(), with_identity(pair)), STRICT).map(drop), Ok(()));
    }
}

#[test]
fn an_authority_is_read_as_tools_write_it() {
    let pem = STANDARD.decode(identity(2031).0).unwrap();
    let two = STANDARD.encode([pem.clone(), pem].concat());
    // Folded over lines, as YAML allows.
    let folded = two.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect::<Vec<_>>();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: lend\nclusters:\n- name: east\n  cluster:\n    server: https://[2606:4700::1]:6443/k8s/clusters/c-1\n    tls-server-name: kubernetes\n    certificate-authority-data: >-\n      {}\n    extensions: [{{name: tool, extension: {{a: 1}}}}]\ncontexts:\n- name: lend\n  context: {{cluster: east, user: syncer}}\nusers:\n- name: syncer\n  user:\n    token: {SECRET}\npreferences: {{}}\n",
        folded.join("\n      ")
    );
    let access = judge(text.as_bytes(), STRICT).unwrap();
    assert_eq!(access.config().root_cert.as_ref().map(Vec::len), Some(2));
    assert_eq!(access.config().tls_server_name.as_deref(), Some("kubernetes"));
    assert_eq!(access.server(), "https://[2606:4700::1]:6443/k8s/clusters/c-1");
}

#[test]
fn s20_what_would_run_a_program_read_a_file_or_ask_a_proxy_is_refused() {
    let of_user = |field: &str, value: Value| document(cluster(), with(user(), field, value));
    let check = |field: &str, value: Value, shown: &str| {
        refused(&of_user(field, value), LAX, &format!("users[\"syncer\"].user.{field}"), &[shown]);
    };
    check("exec", json!({"command": "aws-iam", "env": [{"name": "K", "value": SECRET}]}), "is \"aws-iam\": no program");
    check("exec", json!({}), "no program");
    check("auth-provider", json!({"name": "gcp", "config": {"access-token": SECRET}}), "is \"gcp\": no plugin");
    check("client-certificate", json!("/etc/passwd"), "is \"/etc/passwd\": no file");
    check("client-key", json!("../key.pem"), "is \"../key.pem\": no file");
    check("client-key", json!(SECRET), "no file");
    check("tokenFile", json!("/var/run/secrets/kubernetes.io/serviceaccount/token"), "serviceaccount/token\": no file");
    check("tokenFile", json!(SECRET), "no file");
    check("username", json!("admin"), "is \"admin\": Kubernetes has no basic");
    check("password", json!(SECRET), "no basic");
    check("as", json!("system:admin"), "is \"system:admin\": no other user");
    check("as-groups", json!(["system:masters"]), "no other user");
    check("as-user-extra", json!({"a": ["b"]}), "no other user");
    let of_cluster = |field: &str, value: Value, shown: &str| {
        let document = document(with(cluster(), field, value), user());
        refused(&document, LAX, &format!("clusters[\"east\"].cluster.{field}"), &[shown]);
    };
    of_cluster("certificate-authority", json!("/etc/ca.crt"), "is \"/etc/ca.crt\": no file");
    of_cluster("proxy-url", json!(format!("http://u:{SECRET}@proxy")), "no proxy");
}

#[test]
fn what_says_nothing_is_not_refused_and_what_is_not_in_use_is_not_read() {
    let mut document = document(
        with(with(cluster(), "certificate-authority", ""), "insecure-skip-tls-verify", false),
        with(with(user(), "exec", Value::Null), "username", ""),
    );
    document["users"].as_array_mut().unwrap().push(json!({"name": "other", "user": {"exec": {"command": "x"}}}));
    document["clusters"].as_array_mut().unwrap().push(json!({"name": "other", "cluster": {"server": "file:///"}}));
    read(&document, STRICT).unwrap();
}

#[test]
fn a_field_that_is_unknown_missing_or_of_another_type_is_named() {
    let of_user = |user: Value| document(cluster(), user);
    refused(
        &of_user(json!({"client-certifcate-data": "x"})),
        STRICT,
        "users[\"syncer\"].user",
        &["unknown field \"client-certifcate-data\" (did you mean \"client-certificate-data\"?)"],
    );
    refused(&of_user(json!({})), STRICT, "users[\"syncer\"].user.token", &["missing", "client-key-data"]);
    refused(&of_user(json!({"token": 12345})), STRICT, "users[\"syncer\"].user.token", &["no text"]);
    refused(
        &of_user(json!({"token": format!("{SECRET}\n")})),
        STRICT,
        "users[\"syncer\"].user.token",
        &["end of a line"],
    );
    let strange = document(with(cluster(), "insecure-skip-tls-verify", "yes"), user());
    refused(&strange, LAX, "clusters[\"east\"].cluster.insecure-skip-tls-verify", &["neither true nor false"]);
    refused(&document(json!({}), user()), STRICT, "clusters[\"east\"].cluster.server", &["missing", "https://HOST"]);
    let whole = document(cluster(), user());
    refused(&with(whole.clone(), "kind", "Secret"), STRICT, "kind", &["is \"Secret\"", "allowed is Config"]);
    refused(&with(whole.clone(), "current-context", Value::Null), STRICT, "current-context", &["missing"]);
    refused(&with(whole.clone(), "current-context", "lent"), STRICT, "current-context", &["did you mean \"lend\"?"]);
    refused(&with(whole.clone(), "contexts", "x"), STRICT, "contexts", &["no list"]);
    refused(
        &with(whole.clone(), "users", json!([])),
        STRICT,
        "contexts[\"lend\"].context.user",
        &["no entry \"syncer\""],
    );
    let mut twice = whole;
    let first = twice["users"][0].clone();
    twice["users"].as_array_mut().unwrap().push(first);
    refused(&twice, STRICT, "users", &["several users have the name \"syncer\""]);
}

#[test]
fn s20_a_server_proves_itself_unless_the_binding_allows_insecure() {
    let at = |server: &str| document(json!({"server": server}), user());
    let field = "clusters[\"east\"].cluster.server";
    refused(
        &at("http://east.example:8080"),
        STRICT,
        field,
        &["is \"http://east.example:8080\"", "needs allowInsecure"],
    );
    read(&at("http://east.example:8080"), LAX).unwrap();
    let skips = document(with(cluster(), "insecure-skip-tls-verify", true), user());
    let skip_field = "clusters[\"east\"].cluster.insecure-skip-tls-verify";
    refused(&skips, STRICT, skip_field, &["is \"true\"", "allowInsecure"]);
    assert!(read(&skips, LAX).unwrap().config().accept_invalid_certs);
    let both = with(with(cluster(), "insecure-skip-tls-verify", true), "certificate-authority-data", identity(2031).0);
    refused(&document(both, user()), LAX, skip_field, &["certificate-authority-data"]);
}

#[test]
fn a_server_is_a_url_of_another_machine() {
    let field = "clusters[\"east\"].cluster.server";
    let check = |server: &str, part: &str| {
        refused(&document(json!({"server": server}), user()), STRICT, field, &[part]);
    };
    for server in
        ["ftp://a.example", "a.example:6443", "/x", "https://", "https://a.example:0", "https://a.example:99999"]
    {
        check(server, server);
    }
    check("https://a.example: 1", "");
    // Where a credential could be, nothing is repeated.
    check(&format!("https://u:{SECRET}@a.example"), "has a user, a query or a fragment");
    check(&format!("https://a.example?token={SECRET}"), "has a user, a query or a fragment");
    check(&format!("https://a.example#{SECRET}"), "has a user, a query or a fragment");
    check("https://169.254.169.254", "a cloud's metadata service is not dialled");
    check("https://[::ffff:169.254.169.254]", "a cloud's metadata service is not dialled");
    check("https://[fe80::1]:6443", "a link-local address is not dialled");
    check("https://0.0.0.0:6443", "no address of a machine is not dialled");
    check("https://127.0.0.1:6443", "a loopback address is not dialled");
    check("https://[::1]:6443", "a loopback address is not dialled");
    for server in ["https://10.0.0.1:6443", "https://8.8.8.8", "https://[fd12::1]:6443", "https://east.example./a/b"] {
        read(&document(json!({"server": server}), user()), STRICT).unwrap();
    }
    let here = document(json!({"server": "https://127.0.0.1:6443"}), user());
    let here = read(&here, Allowed { loopback: Loopback::Allowed, ..STRICT }).unwrap();
    assert!(here.dial().check_literal("127.0.0.1").is_ok() && here.dial().check_literal("169.254.169.254").is_err());
    let metadata = document(json!({"server": "http://169.254.169.254/latest"}), user());
    refused(&metadata, LAX, field, &["metadata"]);
}

#[test]
fn certificates_and_keys_are_read_before_they_are_used() {
    let (certificate, key) = identity(2031);
    let of =
        |certificate: &str, key: &str| document(cluster(), with_identity((certificate.to_owned(), key.to_owned())));
    read(&of(&certificate, &key), STRICT).unwrap();
    let field = |name: &str| format!("users[\"syncer\"].user.{name}");
    let in_pem = STANDARD.encode("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    for (given, part) in
        [("%", "no base64"), ("aGVsbG8K", "no certificate"), (&*in_pem, "no certificate"), (&*key, "no certificate")]
    {
        refused(&of(given, &key), STRICT, &field("client-certificate-data"), &[part]);
        let authority = document(with(cluster(), "certificate-authority-data", given), user());
        refused(&authority, STRICT, "clusters[\"east\"].cluster.certificate-authority-data", &[part]);
    }
    for (given, part) in [("%", "no base64"), ("aGVsbG8K", "no private key"), (&*certificate, "no private key")] {
        refused(&of(&certificate, given), STRICT, &field("client-key-data"), &[part]);
    }
    refused(
        &of(&certificate, &identity(2031).1),
        STRICT,
        &field("client-key-data"),
        &["cannot be used with the certificate"],
    );
    refused(&of(&certificate, ""), STRICT, &field("client-key-data"), &["missing"]);
    refused(&of("", &key), STRICT, &field("client-certificate-data"), &["missing"]);
    let named = document(with(cluster(), "tls-server-name", "a b"), user());
    refused(&named, STRICT, "clusters[\"east\"].cluster.tls-server-name", &["is \"a b\""]);
}

#[test]
fn s20_the_end_of_a_token_is_its_claim_and_the_earliest_end_counts() {
    let end = |token: &str| {
        let found = read(&document(cluster(), json!({"token": token})), STRICT).unwrap().end();
        found.map(|end| (end.kind, end.at.as_second()))
    };
    assert_eq!(end(&jwt(&json!({"exp": 1_900_000_000, "sub": "x"}))), Some((CredentialKind::Token, 1_900_000_000)));
    assert_eq!(end(&jwt(&json!({"exp": 1_900_000_000.75}))), Some((CredentialKind::Token, 1_900_000_000)));
    for claims in
        [json!({"exp": "soon"}), json!({"exp": 1e300}), json!({"exp": u64::MAX}), json!({}), json!([1]), json!(7)]
    {
        assert_eq!(end(&jwt(&claims)), None, "{claims}");
    }
    for token in [SECRET, "a.b", "a.%.c", "..", "a.b.c.d", &format!("{}.x", jwt(&json!({"exp": 1})))] {
        assert_eq!(end(token), None, "{token}");
    }
    // 2031-01-01 is 1924992000.
    for (exp, kind) in [(1_924_991_999, CredentialKind::Token), (1_924_992_001, CredentialKind::ClientCertificate)] {
        let user = with(with_identity(identity(2031)), "token", jwt(&json!({"exp": exp})));
        let end = read(&document(cluster(), user), STRICT).unwrap().end().unwrap();
        assert_eq!(end.kind, kind);
    }
}

#[test]
fn s20_a_credential_ends_soon_from_seven_days_before() {
    let at: Timestamp = "2026-12-08T00:00:00Z".parse().unwrap();
    let end = CredentialEnd { kind: CredentialKind::Token, at };
    let before = |seconds: i64| end.ending(at - SignedDuration::from_secs(seconds));
    assert_eq!(before(7 * 86_400 + 1), Ending::Later);
    assert_eq!(before(7 * 86_400), Ending::Soon { left: SOON });
    assert_eq!(before(1), Ending::Soon { left: SignedDuration::from_secs(1) });
    assert_eq!([before(0), before(-1)], [Ending::Past; 2]);
    assert_eq!(end.to_string(), "the token of the kubeconfig ends at 2026-12-08T00:00:00Z");
}

#[test]
fn s21_a_fingerprint_is_that_of_everything_that_makes_a_connection_another_one() {
    let (one, other) = (identity(2031), identity(2031));
    let authority = |pair: &(String, String)| with(cluster(), "certificate-authority-data", pair.0.clone());
    let documents = [
        document(cluster(), user()),
        document(cluster(), json!({"token": "another"})),
        document(json!({"server": "https://west.example:6443"}), user()),
        document(with(cluster(), "tls-server-name", "x"), user()),
        document(with(cluster(), "insecure-skip-tls-verify", true), user()),
        document(authority(&one), user()),
        document(authority(&other), user()),
        document(cluster(), with_identity(one.clone())),
        document(cluster(), with(with_identity(one), "token", SECRET)),
        document(cluster(), with_identity(other)),
    ];
    let print = |document: &Value, allowed| read(document, allowed).unwrap().fingerprint();
    let prints: std::collections::BTreeSet<_> = documents.iter().map(|document| print(document, LAX)).collect();
    assert_eq!(prints.len(), documents.len());
    let mut renamed = documents[0].clone();
    renamed["contexts"][0]["context"]["namespace"] = json!("another");
    renamed["extensions"] = json!([]);
    assert_eq!(print(&renamed, LAX), print(&documents[0], LAX), "what changes no connection does not count");
    assert_ne!(print(&documents[0], LAX), print(&documents[0], STRICT), "what a name may lead to is another matter");
}

#[test]
fn no_form_of_an_access_shows_a_credential() {
    let pair = identity(2031);
    let key = STANDARD.decode(&pair.1).unwrap();
    let access = read(&document(cluster(), with(with_identity(pair.clone()), "token", SECRET)), STRICT).unwrap();
    let shown = format!("{access:?} {:?} {access:#?}", access.fingerprint());
    assert!(shown.contains("east.example") && shown.contains("ClientCertificate"), "{shown}");
    let line = String::from_utf8(key).unwrap().lines().nth(1).unwrap().to_owned();
    for hidden in [SECRET, &pair.1, &line] {
        assert!(!shown.contains(hidden), "{shown}");
    }
}

#[test]
fn a_secret_without_a_kubeconfig_says_so() {
    let secret = |data: &[(&str, &str)]| Secret {
        data: Some(data.iter().map(|(key, text)| ((*key).to_owned(), ByteString(text.as_bytes().to_vec()))).collect()),
        ..Secret::default()
    };
    assert_eq!(of_secret(&Secret::default(), STRICT).unwrap_err(), KubeconfigError::NoKey);
    assert_eq!(of_secret(&secret(&[("config", "x")]), STRICT).unwrap_err(), KubeconfigError::NoKey);
    assert_eq!(of_secret(&secret(&[(KEY, "")]), STRICT).unwrap_err(), KubeconfigError::Empty);
    assert_eq!(of_secret(&secret(&[(KEY, " \n")]), STRICT).unwrap_err(), KubeconfigError::Empty);
    let text = document(cluster(), user()).to_string();
    of_secret(&secret(&[(KEY, &text)]), STRICT).unwrap();
}

/// Texts that cost a careless reader its memory, its stack or its time, and what is said about them.
#[test]
fn hostile_documents_are_refused_within_their_bounds() {
    let check = |text: &[u8], part: &str| {
        let error = judge(text, STRICT).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    };
    check(&vec![b' '; LARGEST + 1], "1048577 bytes; at most 1048576");
    check(&[0xff, 0xfe, 0x41], "no text in UTF-8");
    check(b"just a text", "a mapping");
    check(b"- a\n- list", "a mapping");
    check(b"a: &x [1]\nb: *x\n", "an anchor, an alias");
    let mut laughs = "a0: &a0 [lol, lol]\n".to_owned();
    for level in 1..30 {
        laughs += &format!("a{level}: &a{level} [*a{0}, *a{0}, *a{0}]\n", level - 1);
    }
    check(laughs.as_bytes(), "an anchor, an alias");
    check("[".repeat(100_000).as_bytes(), "line 1");
    check(format!("a: {}", "{b: ".repeat(50_000)).as_bytes(), "line 1");
    let deep = (0..200).map(|level| format!("{}a:\n", " ".repeat(level))).collect::<String>();
    check(deep.as_bytes(), "too many levels");
    check(format!("a: [{}]", "1,".repeat(200_000)).as_bytes(), "too many values");
    check(format!("a: 1\na: {SECRET}\n").as_bytes(), "stands twice");
    check(b"a: 1\n---\nb: 2\n", "a second document");
    check(b"a: {b: 1}\nc:\n  <<: {d: 1}\n", "<<");
    check(format!("users: [{SECRET}").as_bytes(), "line ");
    let error = judge(format!("token: {SECRET}\n  x: \"{SECRET}\n").as_bytes(), STRICT).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(SECRET), "{error}");
}

#[test]
fn a_document_in_json_with_a_long_certificate_is_read_as_well() {
    let pem = STANDARD.decode(identity(2031).0).unwrap();
    let long = STANDARD.encode(pem.repeat(40));
    let document = document(with(cluster(), "certificate-authority-data", long), user());
    for text in [document.to_string(), serde_json::to_string_pretty(&document).unwrap()] {
        assert_eq!(judge(text.as_bytes(), STRICT).unwrap().config().root_cert.as_ref().map(Vec::len), Some(40));
    }
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let _ = judge(&bytes, STRICT);
    }

    /// A valid document with one part replaced: whatever comes of it, the credential is not shown.
    #[test]
    fn a_damaged_document_shows_no_credential(at in 0_usize..400, length in 0_usize..20, text in "[ -~\n]{0,12}") {
        let whole = serde_json::to_string_pretty(&document(cluster(), user())).unwrap();
        let (at, end) = (at.min(whole.len()), (at + length).min(whole.len()));
        let damaged = format!("{}{text}{}", &whole[..at], &whole[end.max(at)..]);
        let shown = match judge(damaged.as_bytes(), STRICT) {
            Ok(access) => format!("{access:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains(SECRET), "{}", shown);
    }

    #[test]
    fn only_public_and_private_addresses_are_dialled(bits: u32, high: u128) {
        for address in [IpAddr::V4(bits.into()), IpAddr::V6(high.into())] {
            let is_elsewhere = matches!(place(address), AddressClass::Public | AddressClass::Private);
            prop_assert_eq!(elsewhere(address).is_ok(), is_elsewhere);
            prop_assert_eq!(here_too(address).is_ok(), is_elsewhere || place(address) == AddressClass::Loopback);
        }
    }
}
