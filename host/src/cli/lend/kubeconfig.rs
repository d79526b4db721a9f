//! `topoloom lend kubeconfig`: a kubeconfig with a new token for a borrower (decisions S19 and S20).
//!
//! The token is in the answer on standard output, and nowhere else: no log, no error and no remark has it.
//!
//! # Failure story
//!
//! The kubeconfig says by which authority the server is known, as the connection of this command does. Where this one does not check
//! the certificate there is none to say: no token is requested, since it would go through whatever answers there, and the
//! kubeconfig would lead a borrower to any server that takes the address. None is requested either for an account of which a part of
//! the grant is missing: without its admission policies it may change any node of the lender.

use std::fmt::Debug;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::Api;
use kube::api::PostParams;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use topoloom_syncer::kubeconfig::{Allowed, Insecure, Loopback, judge};

use super::{BorrowerArgs, ObjectFormat, ReachArgs};
use crate::cli::options::values;
use crate::cli::print;
use crate::cluster::{Refusal, RefusalReason, ServerProof, found};
use crate::config::duration;
use crate::manager::rights::lending::grant::Account;
use crate::manager::rights::lending::grant::guards::Guard;

/// The shortest that an API server issues.
const SHORTEST: Duration = Duration::from_secs(600);
/// Ten years. Most API servers issue none that is as long.
const LONGEST: Duration = Duration::from_secs(3_650 * DAY);
/// Seconds.
const DAY: u64 = 86_400;
/// How much less than was asked for needs no remark: the request took a moment.
const LESS: SignedDuration = SignedDuration::from_mins(1);
/// What makes an account as it has to be.
const GRANT: &str = "apply the whole of what `topoloom lend grant` prints for the same --borrower, --mount-namespace and --account-namespace";
/// Characters of base64 in a line of PEM.
const PEM_LINE: usize = 64;

/// Flags of `lend kubeconfig`.
#[derive(Debug, Args)]
pub(in crate::cli) struct KubeconfigArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(flatten)]
    borrower: BorrowerArgs,
    /// For how long the token is valid (10m to 3650d); the API server may issue a shorter one
    #[arg(long, value_name = "DURATION", default_value = "90d", value_parser = lasting)]
    duration: Duration,
    /// The URL by which the borrower reaches the API server, if it is another than yours
    #[arg(long, value_name = "URL", value_parser = values::server)]
    server: Option<http::Uri>,
    /// YAML or JSON
    #[arg(short, long, value_enum, default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
}

/// What a kubeconfig says.
struct Access<'a> {
    name: &'a str,
    server: String,
    authorities: &'a [Vec<u8>],
    server_name: Option<&'a str>,
    namespace: &'a str,
    token: &'a str,
}

/// Whole days, or a duration in Go's grammar.
fn lasting(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    let value = match days {
        Some(days) => days.checked_mul(DAY).map(Duration::from_secs),
        None => duration::parse(text).and_then(duration::SignedDuration::non_negative),
    };
    let wanted = || "must be whole days or a duration with units, 10m to 3650d, such as 90d or 12h".to_owned();
    value.filter(|value| (SHORTEST..=LONGEST).contains(value)).ok_or_else(wanted)
}

/// Prints the kubeconfig.
pub(super) async fn run(args: &KubeconfigArgs) -> anyhow::Result<ExitCode> {
    let BorrowerArgs { borrower, mount_namespace, account_namespace } = &args.borrower;
    let account = Account::of(borrower, mount_namespace, account_namespace)?;
    let connection = args.reach.connection().await?;
    proven(connection.proof(), &connection.server)?;
    granted(&connection.client, &account).await?;
    let (token, end) = issue(connection.client.clone(), &account, args).await?;
    let server = args.server.as_ref().unwrap_or(&connection.server);
    let authorities = connection.authorities();
    let document = document(&Access {
        name: borrower,
        server: server.to_string().trim_end_matches('/').to_owned(),
        authorities: &authorities,
        server_name: connection.server_name(),
        namespace: mount_namespace,
        token: &token,
    });
    let text = match args.output {
        ObjectFormat::Yaml => format!("{}{}", comment(end), topoloom_api::crd::to_yaml(&document)?),
        // It can have no comment.
        ObjectFormat::Json => format!("{}\n", serde_json::to_string_pretty(&document)?),
    };
    remarks(args, end, Timestamp::now()).iter().for_each(|remark| print::error(&format!("topoloom: {remark}")));
    let allowed = Allowed { insecure: Insecure::Refused, loopback: Loopback::Refused };
    // Its sentences show no credential.
    if let Err(error) = judge(text.as_bytes(), allowed) {
        print::error(&format!(
            "topoloom: a syncer with its usual settings would refuse this kubeconfig: {error}. Another address: --server"
        ));
    }
    print::out(&text);
    Ok(ExitCode::SUCCESS)
}

/// Whether it is known which server answers.
fn proven(proof: ServerProof, server: &http::Uri) -> anyhow::Result<()> {
    match proof {
        ServerProof::Certificate => Ok(()),
        ServerProof::None => bail!(
            "the certificate of {server} is not checked (insecure-skip-tls-verify in your kubeconfig, or http), so no kubeconfig can \
             be made that says by which authority the borrower knows it: use a kubeconfig with certificate-authority-data"
        ),
    }
}

/// Whether the account is there, with a role, and with the admission policies that restrict what this role allows.
async fn granted(client: &kube::Client, account: &Account) -> anyhow::Result<()> {
    let (Account { namespace, name }, role_name) = (account, account.role());
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    if stored(&accounts, name).await?.is_none() {
        bail!("there is no ServiceAccount {namespace}/{name}: {GRANT} first");
    }
    let roles: Api<ClusterRole> = Api::all(client.clone());
    let Some(role) = stored(&roles, &role_name).await? else {
        bail!("there is no ClusterRole {role_name}: {GRANT} first");
    };
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    for guard in Guard::needed(account, &role) {
        let (policy, binding) = (stored(&policies, &guard.name).await?, stored(&bindings, &guard.name).await?);
        if let Some(gap) = guard.gap(policy.as_ref(), binding.as_ref()) {
            bail!(
                "{gap}, so ServiceAccount {namespace}/{name} may write {}: {GRANT}. API servers older than Kubernetes 1.30 have no such \
                 policies, and there a grant has to have --physical-writes=none and --policies=virtual",
                guard.allows
            );
        }
    }
    Ok(())
}

/// The object of this name; nothing where there is none, or none of its kind.
async fn stored<K>(api: &Api<K>, name: &str) -> anyhow::Result<Option<K>>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match found(name, api.get(name)).await.map_err(|error| Refusal::of(&error)) {
        Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => Ok(None),
        answer => answer.with_context(|| format!("reading {} {name}", K::kind(&()))),
    }
}

/// A new token, and its end.
async fn issue(client: kube::Client, account: &Account, args: &KubeconfigArgs) -> anyhow::Result<(String, Timestamp)> {
    let Account { namespace, name } = account;
    let api: Api<ServiceAccount> = Api::namespaced(client, namespace);
    let seconds = i64::try_from(args.duration.as_secs()).context("the duration is too long")?;
    let spec = TokenRequestSpec { expiration_seconds: Some(seconds), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec, ..TokenRequest::default() };
    let issued = api.create_token_request(name, &PostParams::default(), &request).await;
    let issued = issued.map_err(|error| Refusal::of(&error));
    let issued = issued.with_context(|| format!("requesting a token of ServiceAccount {namespace}/{name}"))?;
    let issued = issued.status.context("the API server issued no token")?;
    Ok((issued.token, issued.expiration_timestamp.0))
}

/// What a person has to know beside the kubeconfig.
fn remarks(args: &KubeconfigArgs, end: Timestamp, now: Timestamp) -> Vec<String> {
    let BorrowerArgs { borrower, .. } = &args.borrower;
    let left = end.duration_since(now);
    let mut remarks = vec![format!(
        "the token ends at {end}, in {}: until then put a new kubeconfig into the Secret of ClusterBinding {borrower}, which is \
         used without a restart",
        print::span(left.as_secs())
    )];
    let asked = SignedDuration::try_from(args.duration).unwrap_or(SignedDuration::MAX);
    if left.saturating_add(LESS) < asked {
        remarks.push(format!(
            "the API server issues no token for {}: its flag --service-account-max-token-expiration sets the longest",
            print::span(asked.as_secs())
        ));
    }
    remarks
}

/// What the file says to the person who has it.
fn comment(end: Timestamp) -> String {
    format!("# The token in this file ends at {end}. Treat the file like a password.\n")
}

fn document(access: &Access<'_>) -> Value {
    let Access { name, server, authorities, server_name, namespace, token } = access;
    let mut cluster = json!({"server": server});
    if let Value::Object(fields) = &mut cluster {
        if !authorities.is_empty() {
            let pem = ByteString(pem(authorities).into_bytes());
            fields.insert("certificate-authority-data".to_owned(), json!(pem));
        }
        if let Some(server_name) = server_name {
            fields.insert("tls-server-name".to_owned(), json!(server_name));
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "current-context": name,
    })
}

/// Certificates as text.
fn pem(certificates: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for der in certificates {
        let base64 = json!(ByteString(der.clone()));
        let base64 = base64.as_str().unwrap_or_default().as_bytes();
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in base64.chunks(PEM_LINE) {
            push_line!(text, "{}", String::from_utf8_lossy(line));
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;
    use topoloom_api::cluster_binding::{PhysicalWrites, PolicySource};

    use super::*;
    use crate::manager::rights::lending::grant::Grant;
    use crate::manager::rights::lending::{PhysicalSettings, Streams};

    fn args(duration: Duration) -> KubeconfigArgs {
        KubeconfigArgs {
            reach: ReachArgs { kubeconfig: None, master: None, context: None },
            borrower: BorrowerArgs {
                borrower: super::super::binding("east").unwrap(),
                mount_namespace: "lent".into(),
                account_namespace: "accounts".into(),
            },
            duration,
            server: None,
            output: ObjectFormat::Yaml,
        }
    }

    /// An API server that has these objects. Of a kind of which there is none it has no definition.
    fn server(objects: Vec<Value>) -> kube::Client {
        let serve = move |request: Request<Body>| {
            let mut parts = request.uri().path().rsplit('/');
            let (name, plural) = (parts.next().unwrap().to_owned(), parts.next().unwrap());
            let kind = match plural {
                "serviceaccounts" => "ServiceAccount",
                "clusterroles" => "ClusterRole",
                "validatingadmissionpolicies" => "ValidatingAdmissionPolicy",
                "validatingadmissionpolicybindings" => "ValidatingAdmissionPolicyBinding",
                other => panic!("{other}"),
            };
            let mut of_kind = objects.iter().filter(|object| object["kind"] == kind).peekable();
            let is_served = of_kind.peek().is_some() || !kind.starts_with("Validating");
            let (code, body) = match of_kind.find(|object| object["metadata"]["name"] == *name) {
                Some(object) => (200, object.to_string()),
                None if is_served => {
                    let status = json!({
                        "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
                        "message": format!("{plural} \"{name}\" not found"), "details": {"name": name, "kind": plural},
                    });
                    (404, status.to_string())
                }
                None => (404, "404 page not found".to_owned()),
            };
            let answer = Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap();
            async move { Ok::<_, Infallible>(answer) }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    fn grant(writes: PhysicalWrites, policies: PolicySource) -> Grant {
        let (binding, mount_namespace) = (super::super::binding("east").unwrap(), "lent".to_owned());
        let settings = PhysicalSettings { binding, mount_namespace, writes, policies, streams: Streams::Off };
        Grant::new(settings, "accounts", Some("vc-1")).unwrap()
    }

    #[tokio::test]
    async fn s19_no_token_is_requested_for_an_account_of_which_a_part_of_the_grant_is_missing() {
        let whole = grant(PhysicalWrites::All, PolicySource::Physical);
        let said = async |objects: Vec<Value>| {
            let answer = granted(&server(objects), whole.account()).await;
            answer.map_err(|error| format!("{error:#}"))
        };
        assert_eq!(said(whole.objects()).await, Ok(()));
        let parts = ["ServiceAccount", "ClusterRole", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"];
        let mut missed = 0;
        for (at, object) in whole.objects().iter().enumerate() {
            let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            if parts.contains(&kind) {
                let mut rest = whole.objects();
                rest.remove(at);
                let why = said(rest).await.unwrap_err();
                let place = if kind == "ServiceAccount" { "accounts/" } else { "" };
                assert!(why.starts_with(&format!("there is no {kind} {place}{name}")), "{why}");
                assert!(why.contains("apply the whole of what `topoloom lend grant` prints"), "{why}");
                missed += 1;
            }
        }
        assert_eq!(missed, 6);
        // Before Kubernetes 1.30.
        let of_old = |object: &Value| !object["kind"].as_str().unwrap().starts_with("Validating");
        let why = said(whole.objects().into_iter().filter(of_old).collect()).await.unwrap_err();
        assert!(why.contains("so ServiceAccount accounts/east.lent may write any Node: "), "{why}");
        assert!(why.ends_with("a grant has to have --physical-writes=none and --policies=virtual"), "{why}");
        let reads = grant(PhysicalWrites::None, PolicySource::Virtual).objects();
        assert!(reads.iter().all(of_old));
        assert_eq!(said(reads).await, Ok(()));
    }

    #[test]
    fn a_token_lasts_for_days_or_for_what_go_writes() {
        let hours = |hours: u64| Ok(Duration::from_secs(3_600 * hours));
        for (text, wanted) in [("90d", hours(2_160)), ("12h", hours(12)), ("3650d", hours(87_600)), ("60m", hours(1))] {
            assert_eq!(lasting(text), wanted, "{text}");
        }
        for text in ["", "d", "0d", "1d12h", "9m59s", "3651d", "18446744073709551615d", "-1d", "90"] {
            assert!(lasting(text).unwrap_err().contains("10m to 3650d"), "{text}");
        }
    }

    #[test]
    fn s20_the_kubeconfig_has_what_the_syncer_reads_and_nothing_that_it_refuses() {
        let issued = some_bytes();
        let authorities = [issued.clone()];
        let access = Access {
            name: "east",
            server: "https://lender.example.com:6443".to_owned(),
            authorities: &authorities,
            server_name: Some("kubernetes"),
            namespace: "lent",
            token: "a.b.c",
        };
        let document = document(&access);
        assert_eq!(document["users"], json!([{"name": "east", "user": {"token": "a.b.c"}}]));
        assert_eq!(document["contexts"][0]["context"]["namespace"], "lent");
        let cluster = &document["clusters"][0]["cluster"];
        assert_eq!(
            (&cluster["server"], &cluster["tls-server-name"]),
            (&json!("https://lender.example.com:6443"), &json!("kubernetes"))
        );
        let data: ByteString = serde_json::from_value(cluster["certificate-authority-data"].clone()).unwrap();
        let read: Vec<_> = CertificateDer::pem_slice_iter(&data.0).map(|der| der.unwrap().to_vec()).collect();
        assert_eq!(read, [issued]);
        assert!(String::from_utf8(data.0).unwrap().lines().all(|line| line.len() <= PEM_LINE));
        let plain = Access { authorities: &[], server_name: None, ..access };
        let plain = super::document(&plain);
        assert_eq!(plain["clusters"][0]["cluster"], json!({"server": "https://lender.example.com:6443"}));
        let allowed = Allowed { insecure: Insecure::Refused, loopback: Loopback::Refused };
        judge(plain.to_string().as_bytes(), allowed).unwrap();
        let text = format!("{}{plain}", comment("2026-10-30T06:10:00Z".parse().unwrap()));
        assert!(text.starts_with("# The token in this file ends at 2026-10-30T06:10:00Z. "), "{text}");
        judge(text.as_bytes(), allowed).unwrap();
    }

    #[test]
    fn s20_of_a_server_that_is_not_checked_no_kubeconfig_is_made() {
        let server = http::Uri::from_static("https://lender.example.com:6443");
        proven(ServerProof::Certificate, &server).unwrap();
        let why = proven(ServerProof::None, &server).unwrap_err().to_string();
        assert!(why.contains("https://lender.example.com:6443") && why.contains("insecure-skip-tls-verify"), "{why}");
        assert!(why.ends_with("use a kubeconfig with certificate-authority-data"), "{why}");
    }

    /// Bytes that are long enough for several lines.
    fn some_bytes() -> Vec<u8> {
        (0..=255).collect()
    }

    #[test]
    fn s20_the_end_of_the_token_is_said_and_that_it_comes_sooner_than_was_asked() {
        let now: Timestamp = "2026-08-01T06:10:00Z".parse().unwrap();
        let args = args(Duration::from_secs(90 * DAY));
        let whole = remarks(&args, now + SignedDuration::from_hours(2_160), now);
        assert_eq!(whole.len(), 1, "{whole:?}");
        assert!(whole[0].starts_with("the token ends at 2026-10-30T06:10:00Z, in 90d0h"), "{whole:?}");
        let cut = remarks(&args, now + SignedDuration::from_hours(24), now);
        assert!(cut[1].contains("no token for 90d0h: its flag --service-account-max-token-expiration"), "{cut:?}");
    }
}
