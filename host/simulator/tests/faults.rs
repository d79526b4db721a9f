//! Every fault of the table, seen from outside.

use crate::client::{Site, client, ufm};
use crate::raw::{read_until, request};
use reqwest::StatusCode;
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use topoloom_simulator::{Fault, FaultRule};

const SMALL: &str = "units=2,hosts-per-unit=4,rails=2,pods=1,spines=0,cores=0";
const PORTS: &str = "resources/ports";

/// A UFM with one fault.
async fn with(fault: &str) -> Site {
    Site::start(ufm(SMALL).fault(fault.parse::<FaultRule>().unwrap())).await
}

/// The same without TLS.
async fn plain(fault: &str) -> Site {
    Site::start(ufm(SMALL).plain().fault(fault.parse::<FaultRule>().unwrap())).await
}

async fn text(site: &Site) -> (StatusCode, String, String) {
    let answer = site.get(PORTS).send().await.unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (answer.status(), kind, answer.text().await.unwrap())
}

#[tokio::test]
async fn a_status_comes_instead_of_the_answer_with_its_pause() {
    for (fault, status, pause) in [
        ("status:403", 403, None),
        ("status:429:30", 429, Some("30")),
        ("status:503:2", 503, Some("2")),
        ("status:500", 500, None),
    ] {
        let answer = with(fault).await.get(PORTS).send().await.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers().get("retry-after").map(|value| value.to_str().unwrap()), pause, "{fault}");
    }
}

#[tokio::test]
async fn a_login_page_has_status_200_and_is_html() {
    let (status, kind, body) = text(&with("html").await).await;
    assert_eq!(status, 200);
    assert!(kind.starts_with("text/html") && body.starts_with("<!DOCTYPE html>"));
}

#[tokio::test]
async fn a_redirect_goes_to_the_given_address() {
    for (fault, target) in
        [("redirect", "/login"), ("redirect:http://169.254.169.254/latest", "http://169.254.169.254/latest")]
    {
        let answer = with(fault).await.get(PORTS).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.headers()["location"].to_str().unwrap()), (302, target));
    }
}

#[tokio::test]
async fn a_truncated_body_ends_properly_in_the_middle() {
    let (status, _, body) = text(&with("truncated").await).await;
    assert_eq!(status, 200);
    let error = serde_json::from_str::<Value>(&body).unwrap_err();
    assert!(error.is_eof() && body.len() > 8_000, "{error}, {} bytes", body.len());
}

#[tokio::test]
async fn a_reset_breaks_the_connection_in_the_middle() {
    let answer = with("reset").await.get(PORTS).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(answer.bytes().await.is_err());
}

#[tokio::test]
async fn damaged_records_leave_the_list_whole() {
    let site = with("wrong-types:50").await;
    let ports = site.list(PORTS).await;
    assert_eq!(ports.iter().filter(|port| port["system_name"] == 17).count(), ports.len() / 2);
    let (_, _, body) = text(&with("not-numbers").await).await;
    assert!(body.contains("\"effective_ber\": NaN") && serde_json::from_str::<Value>(&body).is_err());
    let twice = with("twice").await;
    let count = twice.simulator.fabric().now().ports().count();
    assert_eq!(twice.list(PORTS).await.len(), 2 * count);
}

#[tokio::test]
async fn short_lists_are_well_formed_in_both_forms() {
    let half = with("half-list").await;
    let count = half.simulator.fabric().now().ports().count();
    assert_eq!(half.list(PORTS).await.len(), count / 2);
    let page = half.json("resources/ports?page_number=1&rpp=1000").await;
    assert_eq!((&page["filtered_resources"], page["data"].as_array().unwrap().len()), (&(count / 2).into(), count / 2));
    let empty = with("empty-list").await;
    assert!(empty.list(PORTS).await.is_empty() && empty.list("resources/links").await.is_empty());
    assert_eq!(empty.json("resources/ports?page_number=1&rpp=5").await["filtered_resources"], 0);
    assert_eq!(with("empty-object").await.json(PORTS).await, serde_json::json!({}));
}

#[tokio::test]
async fn a_wrong_content_type_has_the_right_body() {
    let (_, kind, body) = text(&with("wrong-content-type").await).await;
    assert_eq!(kind, "text/plain");
    assert!(serde_json::from_str::<Vec<Value>>(&body).is_ok());
}

#[tokio::test]
async fn an_endless_list_outlasts_every_bound_and_ends_with_its_client() {
    let site = with("endless").await;
    let mut answer = site.get(PORTS).send().await.unwrap();
    let mut read = 0;
    while read < 20_000_000 {
        read += answer.chunk().await.unwrap().expect("it must not end").len();
    }
    drop(answer);
    site.simulator.until(|counters| counters.answering == 0).await;
}

#[tokio::test]
async fn a_bomb_is_small_on_the_wire_and_large_unpacked() {
    let site = with("bomb:64").await;
    let answer = site.get(PORTS).header("accept-encoding", "identity").send().await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let packed = answer.bytes().await.unwrap();
    assert!(packed.len() < 128 << 10, "{}", packed.len());
    let unpacked = std::io::copy(&mut flate2::read::GzDecoder::new(packed.as_ref()), &mut std::io::sink()).unwrap();
    assert_eq!(unpacked, (64 << 20) + 2);
}

#[tokio::test]
async fn pages_of_another_moment_have_other_totals() {
    let site = with("changed-between-pages").await;
    let [first, second] = [1, 2].map(|page| format!("resources/ports?page_number={page}&rpp=10"));
    let (first, second) = (site.json(&first).await, site.json(&second).await);
    assert_ne!(first["filtered_resources"], second["filtered_resources"]);
    assert_eq!(first["data"][9], second["data"][0], "a row has moved to the next page");
}

#[tokio::test]
async fn headers_come_late() {
    let site = with("slow-headers:300ms").await;
    let start = Instant::now();
    assert_eq!(site.status(PORTS).await, 200);
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[tokio::test]
async fn a_dripping_body_comes_a_byte_at_a_time() {
    let site = plain("drip:20ms").await;
    let start = Instant::now();
    let mut answer = site.get(PORTS).send().await.unwrap();
    for _ in 0..10 {
        // Pieces may be read together, but never faster than they are sent.
        let piece = answer.chunk().await.unwrap().unwrap();
        assert!(piece.len() as u128 <= start.elapsed().as_millis() / 20 + 1, "{} bytes", piece.len());
    }
    assert!(start.elapsed() >= Duration::from_millis(9 * 20));
    drop(answer);
    site.simulator.until(|counters| counters.answering == 0).await;
}

/// Long enough that something would have come by then.
const QUIET: Duration = Duration::from_millis(150);

#[tokio::test]
async fn a_stalled_body_says_nothing_more() {
    let site = plain("stall-after-headers").await;
    let mut stream = request(&site.simulator, "/ufmRestV3/resources/ports").await;
    let head = read_until(&mut stream, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(timeout(QUIET, read_until(&mut stream, "x")).await.is_err());
    let half = plain("stall-in-body").await;
    let mut stream = request(&half.simulator, "/ufmRestV3/resources/ports").await;
    read_until(&mut stream, "Computer IB Port").await;
    assert!(timeout(QUIET, read_until(&mut stream, "\r\n0\r\n")).await.is_err());
    drop(stream);
    half.simulator.until(|counters| counters.answering == 0).await;
    let seen = &half.simulator.requests()[0];
    assert!(seen.ended && seen.bytes > 0 && seen.fault.as_deref() == Some("stall-in-body"));
}

#[tokio::test]
async fn bad_certificates_end_the_handshake_even_of_a_client_that_was_connected() {
    let site = Site::start(ufm(SMALL)).await;
    assert_eq!(site.status(PORTS).await, 200);
    for fault in [Fault::ExpiredCertificate, Fault::UntrustedCertificate, Fault::WrongNameCertificate] {
        site.simulator.faults().set(fault.clone()).await.unwrap();
        let error = site.get(PORTS).send().await.unwrap_err();
        let error = format!("{error:?}");
        // An unknown authority of the same name is noticed by its signature.
        let says: &[&str] = match fault {
            Fault::ExpiredCertificate => &["Expired"],
            Fault::UntrustedCertificate => &["UnknownIssuer", "BadSignature"],
            _ => &["NotValidForName"],
        };
        assert!(says.iter().any(|says| error.contains(says)), "{fault}: {error}");
        site.simulator.faults().clear().await.unwrap();
        assert_eq!(site.status(PORTS).await, 200);
    }
}

#[tokio::test]
async fn no_server_answers_in_three_ways() {
    let site = Site::start(ufm(SMALL)).await;
    let address = site.simulator.address();
    for fault in [Fault::Refused, Fault::Closed] {
        site.simulator.faults().set(fault.clone()).await.unwrap();
        assert!(site.get(PORTS).send().await.is_err(), "{fault}");
    }
    site.simulator.faults().set(Fault::StallHandshake).await.unwrap();
    assert!(timeout(QUIET, site.get(PORTS).send()).await.is_err());
    site.simulator.faults().clear().await.unwrap();
    assert_eq!((site.status(PORTS).await, site.simulator.address()), (200, address));
    let refused = with("refused").await;
    assert!(refused.get(PORTS).send().await.unwrap_err().is_connect());
}

#[tokio::test]
async fn a_fault_acts_on_its_paths_and_ends_after_its_count() {
    let site = with("status:503 times=2").await;
    assert_eq!(site.status("app/versioning").await, 200);
    assert_eq!((site.status(PORTS).await, site.status("resources/systems").await), (503, 503));
    assert_eq!(site.status(PORTS).await, 200);
    assert!(site.simulator.faults().active().is_empty());
    site.simulator.faults().set(FaultRule::new(Fault::Html).at("/app/versioning")).await.unwrap();
    assert_eq!(site.status(PORTS).await, 200);
    assert!(site.get("app/versioning").send().await.unwrap().text().await.unwrap().contains("<html>"));
    let counted = with("closed times=1").await;
    let fresh = || client(counted.simulator.ca_pem(), None);
    let url = format!("{}/ufmRestV3/app/versioning", counted.simulator.url());
    assert!(fresh().get(&url).send().await.is_err());
    assert_eq!(fresh().get(&url).send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_fault_is_placed_by_the_path_that_a_message_shows_or_by_the_one_behind_the_prefix() {
    for at in ["/ufmRestV3/resources/ports", "/resources/ports"] {
        let site = with(&format!("status:503 at={at}")).await;
        assert_eq!((site.status(PORTS).await, site.status("resources/links").await), (503, 200), "{at}");
    }
    let other = with("status:503 at=/ufmRestV2/resources/ports").await;
    assert_eq!(other.status(PORTS).await, 200);
    let error = other.simulator.faults().set(FaultRule::new(Fault::Html).at("resources/ports")).await.unwrap_err();
    assert!(error.to_string().starts_with("at: \"resources/ports\" is not allowed; expected the beginning"), "{error}");
}

#[tokio::test]
async fn a_rule_that_cannot_be_changes_nothing() {
    let site = with("html").await;
    let error = site.simulator.faults().set(FaultRule::new(Fault::Refused).times(2)).await.unwrap_err();
    assert!(error.to_string().starts_with("times: \"2\" is not allowed"), "{error}");
    assert_eq!(site.simulator.faults().active(), [FaultRule::new(Fault::Html)]);
}
