//! Rounds over the three carriers: what is asked, what comes out, and when nothing has to.

use crate::fabrics::{
    Asked, DAY, HOUR, NOW, annotated, body, groups, link, linked, node, nodes, placed, reports, round, serve,
};
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Failure, Outcome};

const HTTP: &str = r#"{"endpoint": "fabric.example"}"#;
const MAP: &str = r#"{"configMap": "wiring"}"#;
const ALL: &str = r#"{"carriers": ["http", "annotation", "configMap"], "endpoint": "f", "configMap": "wiring"}"#;
const FIRST: &str = "/v1/fabric?limit=1000";

/// Two units of two nodes with two rails each.
fn units() -> Vec<String> {
    vec![node("n1", &[1, 2]), node("n2", &[1, 2]), node("n3", &[3, 4]), node("n4", &[3, 4])]
}

const NAMES: [&str; 4] = ["n1", "n2", "n3", "n4"];
const PLACED: [&str; 2] = ["n1 n2", "n3 n4"];

fn paths(asked: &Asked) -> Vec<String> {
    asked.borrow().iter().map(|(path, _)| path.clone()).collect()
}

/// The failure of a round whose service answers like this.
fn failure(reply: impl Fn() -> Reply + 'static) -> Failure {
    let (cluster, _) = serve(nodes(&NAMES), "fabric", move |_, _| reply());
    round(&cluster, HTTP).unwrap_err()
}

#[test]
fn nodes_say_themselves_where_they_are_plugged_in() {
    let rails = |switches: [u32; 2]| linked(&[link("rdma0", switches[0]), link("rdma1", switches[1])]);
    let nodes = [("n1", rails([1, 2])), ("n2", rails([1, 2])), ("n3", rails([3, 4])), ("n4", rails([3, 4]))];
    assert_eq!(placed(&nodes, "{}"), PLACED);
    assert!(placed(&nodes, r#"{"annotation": "acme.com/other"}"#).is_empty());
}

#[test]
fn a_service_says_it_for_all_nodes() {
    let (cluster, asked) = serve(nodes(&NAMES), "fabric", |_, _| Reply::new(200, body(&units(), "")));
    let answer = round(&cluster, HTTP).unwrap();
    assert_eq!(groups(&cluster, &answer), PLACED);
    assert_eq!(*asked.borrow(), [(FIRST.to_owned(), None)]);
}

#[test]
fn a_config_map_says_it_for_all_nodes() {
    let (cluster, asked) = serve(nodes(&NAMES), "document", |_, _| Reply::new(200, body(&units(), "")));
    let answer = round(&cluster, MAP).unwrap();
    assert_eq!(groups(&cluster, &answer), PLACED);
    assert_eq!(*asked.borrow(), [(String::new(), None)]);
}

#[test]
fn switches_of_a_document_give_the_upper_tiers() {
    let switch = |leaf: u32, spine: u32| {
        format!(r#"{{"id": "{}", "uplinks": [{{"to": "spine{spine}", "count": 4}}]}}"#, crate::fabrics::mac(leaf))
    };
    let switches = [switch(1, 1), switch(2, 1), switch(3, 1), switch(4, 1), switch(5, 2), switch(6, 2)];
    let switches = format!(r#", "switches": [{}]"#, switches.join(","));
    let mut all = units();
    all.extend([node("n5", &[5, 6]), node("n6", &[5, 6])]);
    let names = ["n1", "n2", "n3", "n4", "n5", "n6"];
    let (cluster, _) = serve(nodes(&names), "fabric", move |_, _| Reply::new(200, body(&all, &switches)));
    let answer = round(&cluster, HTTP).unwrap();
    assert_eq!(groups(&cluster, &answer), ["n1 n2", "n3 n4", "n5 n6"]);
    let shown = cluster.show(&answer);
    let id = |members: &str| {
        let line = shown.lines().find(|line| line.contains(&format!("| {members} | said "))).unwrap();
        line.split(" | ").nth(1).unwrap().to_owned()
    };
    let mut pod = [id("n1 n2"), id("n3 n4")];
    pod.sort();
    let pods: Vec<&str> = shown.lines().filter(|line| line.starts_with("tier 2 ")).collect();
    assert!(pods.iter().any(|line| line.ends_with(&format!("| [{}]", pod.join(" ")))), "{shown}");
}

#[test]
fn pages_are_followed_to_the_end() {
    let (cluster, asked) = serve(nodes(&NAMES), "fabric", |path, _| {
        let units = units();
        Reply::new(
            200,
            match path.split("cursor=").nth(1) {
                None => body(&units[..1], r#", "next": "a b/é""#),
                Some("a%20b%2F%C3%A9") => body(&units[1..3], r#", "next": "c""#),
                Some("c") => body(&units[3..], r#", "next": null"#),
                other => panic!("{other:?}"),
            },
        )
    });
    let answer = round(&cluster, HTTP).unwrap();
    assert_eq!(groups(&cluster, &answer), PLACED);
    let cursor = |text: &str| format!("{FIRST}&cursor={text}");
    assert_eq!(paths(&asked), [FIRST.to_owned(), cursor("a%20b%2F%C3%A9"), cursor("c")]);
}

/// A service of two pages, whose second page shows another generation in its first so many attempts.
fn restless(attempts: usize) -> (Cluster, Asked) {
    serve(nodes(&NAMES), "fabric", move |path, number| {
        let units = units();
        if !path.contains("cursor") {
            return Reply::new(200, body(&units[..2], r#", "next": "2""#));
        }
        let page = body(&units[2..], "");
        Reply::new(200, if number / 2 < attempts { page.replace("\"g1\"", "\"g2\"") } else { page })
    })
}

#[test]
fn a_document_that_changes_between_pages_is_started_over_three_times_at_most() {
    let (cluster, asked) = restless(3);
    let answer = round(&cluster, HTTP).unwrap();
    assert_eq!((groups(&cluster, &answer), asked.borrow().len()), (PLACED.map(str::to_owned).to_vec(), 8));
    let (cluster, asked) = restless(4);
    let Failure::Upstream(failure) = round(&cluster, HTTP).unwrap_err() else { panic!("not upstream") };
    assert!(failure.message.contains("4 attempts"), "{}", failure.message);
    assert_eq!(asked.borrow().len(), 8);
}

#[test]
fn pages_without_end_are_an_error() {
    let (cluster, asked) =
        serve(nodes(&NAMES), "fabric", |_, number| Reply::new(200, body(&[], &format!(r#", "next": "{number}""#))));
    assert!(matches!(round(&cluster, HTTP), Err(Failure::Upstream(_))));
    assert!(asked.borrow().len() < 1000, "{}", asked.borrow().len());
    // A page that points to itself, and pages of a document without a generation.
    let nameless = r#"{"schema": "topoloom.fabric/v1", "nodes": [], "next": "x"}"#.to_owned();
    for page in [body(&[], r#", "next": "same""#), nameless] {
        let (cluster, asked) = serve(nodes(&NAMES), "fabric", move |_, _| Reply::new(200, page.clone()));
        assert!(matches!(round(&cluster, HTTP), Err(Failure::Upstream(_))));
        assert!(asked.borrow().len() <= 2);
    }
}

#[test]
fn a_document_that_is_not_complete_only_adds() {
    let (cluster, _) = serve(nodes(&NAMES), "fabric", |_, _| Reply::new(200, body(&units(), r#", "complete": false"#)));
    assert_eq!(groups(&cluster, &round(&cluster, HTTP).unwrap()), ["n1 n2", "n3 n4", "+"]);
    // One page is enough.
    let (cluster, _) = serve(nodes(&NAMES), "fabric", |path, _| {
        let units = units();
        let first = !path.contains("cursor");
        Reply::new(
            200,
            if first { body(&units[..2], r#", "complete": false, "next": "2""#) } else { body(&units[2..], "") },
        )
    });
    assert_eq!(groups(&cluster, &round(&cluster, HTTP).unwrap()), ["n1 n2", "n3 n4", "+"]);
}

#[test]
fn an_unchanged_document_costs_one_request_and_no_answer() {
    for (name, config) in [("fabric", HTTP), ("document", MAP)] {
        let service =
            |cluster: Cluster| serve(cluster, name, |_, _| Reply::new(200, body(&units(), "")).header("etag", "same"));
        let (cluster, _) = service(nodes(&NAMES));
        let first = round(&cluster, config).unwrap();
        let (cluster, asked) = service(nodes(&NAMES).at(NOW + 60_000).state(first.state.clone()));
        let second = round(&cluster, config).unwrap();
        assert_eq!(second.outcome, Outcome::Unchanged);
        assert_eq!(second.state, first.state);
        assert_eq!(asked.borrow().len(), 1);
        assert_eq!(asked.borrow()[0].1.as_deref(), Some("same"));
        // After a while the round reads everything again, still without a request for a whole document: nothing is new.
        let (cluster, asked) = service(nodes(&NAMES).at(NOW + HOUR).state(second.state));
        assert_eq!(round(&cluster, config).unwrap().outcome, Outcome::Unchanged);
        assert_eq!(asked.borrow().len(), 1);
    }
}

#[test]
fn a_quiet_round_looks_into_no_document() {
    let service =
        |cluster: Cluster| serve(cluster, "fabric", |_, _| Reply::new(200, body(&units(), "")).header("etag", "same"));
    let (cluster, _) = service(nodes(&NAMES));
    let first = round(&cluster, HTTP).unwrap();
    // The documents behind the header become unreadable.
    let mut state = first.state.clone();
    let length = |at: usize| u32::from_le_bytes(state[at..at + 4].try_into().unwrap()) as usize;
    let header = 5 + 4 + length(5);
    let documents = header + 4..header + 4 + length(header);
    assert!(documents.len() > 200 && documents.end <= state.len());
    state[documents].fill(b'x');
    let (cluster, asked) = service(nodes(&NAMES).at(NOW + 60_000).state(state.clone()));
    let quiet = round(&cluster, HTTP).unwrap();
    assert_eq!((quiet.outcome, quiet.state == state, asked.borrow().len()), (Outcome::Unchanged, true, 1));
    // Who has to look into them asks for them again.
    let (cluster, asked) = service(nodes(&NAMES[..3]).at(NOW + 60_000).state(state));
    let looked = round(&cluster, HTTP).unwrap();
    assert_eq!(groups(&cluster, &looked), ["n1 n2", "n3"]);
    let tags: Vec<Option<String>> = asked.borrow().iter().map(|(_, tag)| tag.clone()).collect();
    assert_eq!(tags, [Some("same".to_owned()), None]);
}

#[test]
fn nodes_that_changed_are_placed_without_fetching_the_document_again() {
    let service =
        |cluster: Cluster| serve(cluster, "fabric", |_, _| Reply::new(200, body(&units(), "")).header("etag", "same"));
    let (cluster, _) = service(nodes(&NAMES[..3]));
    let first = round(&cluster, HTTP).unwrap();
    assert_eq!(groups(&cluster, &first), ["n1 n2", "n3"]);
    let (cluster, asked) = service(nodes(&NAMES).at(NOW + 1000).state(first.state));
    let second = round(&cluster, HTTP).unwrap();
    assert_eq!(groups(&cluster, &second), PLACED);
    assert_eq!(asked.borrow()[0].1.as_deref(), Some("same"), "the answer was 304");
}

#[test]
fn annotations_that_did_not_change_are_not_answered_again() {
    let cluster =
        |second: u32| annotated(&[("n1", linked(&[link("rdma0", 1)])), ("n2", linked(&[link("rdma0", second)]))]);
    let first = round(&cluster(1), "{}").unwrap();
    let same = cluster(1).at(NOW + 1000).state(first.state.clone());
    assert_eq!(round(&same, "{}").unwrap().outcome, Outcome::Unchanged);
    let moved = cluster(2).at(NOW + 1000).state(first.state);
    assert_eq!(groups(&moved, &round(&moved, "{}").unwrap()), ["n1", "n2"]);
}

#[test]
fn a_state_of_another_plugin_is_no_state() {
    for state in [&b"x"[..], b"roce1\x02\0\0\0{}", b"roce2", b"roce2\x02\0\0\0{}\x02\0\0\0{}", &[0xff; 100]] {
        let cluster = annotated(&[("n1", linked(&[link("rdma0", 1)]))]).state(state.to_vec());
        let answer = round(&cluster, "{}").unwrap();
        assert_eq!(groups(&cluster, &answer), ["n1"]);
    }
}

const FRESH: &str = "2026-03-04T05:06:07Z";
const YOUNG: &str = "2026-03-04T04:06:07Z";
const OLD: &str = "2026-03-02T05:06:07Z";

/// n1 is at switch 1 by HTTP, 2 by annotation, 3 by ConfigMap, observed at these times; one more node at each switch
/// shows where it ended.
fn contested(http: &str, annotation: &str, map: &str) -> Vec<String> {
    let made = |at: &str, text: String| text.replace(FRESH, at);
    let mut nodes = vec![made(http, node("N1.example.com", &[1]))];
    nodes.extend([node("h1", &[1]), node("h2", &[2]), node("h3", &[3])]);
    let map = [made(map, node("n1", &[3]))];
    let cluster = annotated(&[("n1", made(annotation, linked(&[link("rdma0", 2)])))]);
    let cluster = ["h1", "h2", "h3"].iter().fold(cluster, |cluster, name| cluster.node(name, []));
    let (cluster, _) = serve(cluster, "fabric", move |_, _| Reply::new(200, body(&nodes, "")));
    let (cluster, _) = serve(cluster, "document", move |_, _| Reply::new(200, body(&map, "")));
    let answer = round(&cluster, ALL).unwrap();
    let mut shown = groups(&cluster, &answer);
    shown.extend(reports(&cluster, &answer, &["stale"]));
    shown
}

#[test]
fn the_service_beats_the_annotation_and_the_annotation_beats_the_config_map() {
    assert_eq!(contested(FRESH, FRESH, FRESH), ["h1 n1", "h2", "h3"]);
    assert_eq!(contested(OLD, FRESH, FRESH), ["h1", "h2 n1", "h3"]);
    assert_eq!(contested(OLD, OLD, FRESH), ["h1", "h2", "h3 n1"]);
    assert_eq!(contested(OLD, YOUNG, FRESH), ["h1", "h2 n1", "h3"]);
}

#[test]
fn what_is_stale_everywhere_still_counts_and_is_reported() {
    let stale = contested(OLD, OLD, OLD);
    assert_eq!(stale[..3], ["h1 n1", "h2", "h3"]);
    assert!(stale[3].starts_with("stale | n1 | "), "{stale:?}");
}

#[test]
fn the_map_of_names_is_about_documents_and_not_about_annotations() {
    let config = r#"{"hostMap": {"a": "b"}}"#;
    let wired = |switch| linked(&[link("rdma0", switch)]);
    let cluster = |a: u32, b: u32| annotated(&[("a", wired(a)), ("b", wired(b)), ("c", wired(1)), ("d", wired(2))]);
    let first = round(&cluster(1, 2), config).unwrap();
    assert_eq!(groups(&cluster(1, 2), &first), ["a c", "b d"]);
    // It is the same host in every round, with and without a cable.
    let same = cluster(1, 2).at(NOW + HOUR).state(first.state.clone());
    assert_eq!(round(&same, config).unwrap().outcome, Outcome::Unchanged);
    let dark = annotated(&[("a", linked(&[])), ("b", wired(2)), ("c", wired(1)), ("d", wired(2))]);
    let dark = dark.at(NOW + HOUR).state(first.state);
    assert_eq!(groups(&dark, &round(&dark, config).unwrap()), ["a c", "b d"]);
    // Alone, its annotation is still about itself; in a body the name is that of another node.
    let alone = annotated(&[("a", wired(1))]).node("b", []).node("c", []);
    assert_eq!(groups(&alone, &round(&alone, config).unwrap()), ["a"]);
    let (both, _) = serve(alone, "fabric", |_, _| Reply::new(200, body(&[node("a", &[2]), node("c", &[2])], "")));
    let config = r#"{"hostMap": {"a": "b"}, "carriers": ["http", "annotation"], "endpoint": "f"}"#;
    assert_eq!(groups(&both, &round(&both, config).unwrap()), ["a", "b c"]);
}

#[test]
fn an_entry_that_becomes_stale_ends_the_rest() {
    let nodes = [("n1", linked(&[link("rdma0", 1)]))];
    let first = round(&annotated(&nodes).at(NOW + DAY - 1000), "{}").unwrap();
    let later = annotated(&nodes).at(NOW + DAY + 1).state(first.state);
    let second = round(&later, "{}").unwrap();
    assert_eq!(reports(&later, &second, &["stale"]).len(), 1);
}

#[test]
fn a_short_grace_ends_the_rest() {
    let entries = [("n1", linked(&[link("rdma0", 1)])), ("n2", linked(&[link("rdma0", 1)]))];
    let config = r#"{"downGrace": "4s"}"#;
    let first = round(&annotated(&entries), config).unwrap();
    let dark = [("n1", linked(&[])), ("n2", linked(&[link("rdma0", 1)]))];
    let kept = annotated(&dark).at(NOW + 1000).state(first.state);
    let second = round(&kept, config).unwrap();
    assert_eq!(groups(&kept, &second), ["n1 n2"]);
    // The same annotations, and no carrier to ask; but time has passed.
    let late = annotated(&dark).at(NOW + 6000).state(second.state);
    assert_eq!(groups(&late, &round(&late, config).unwrap()), ["n2"]);
}

#[test]
fn refused_credentials_have_their_own_word() {
    for status in [401, 403] {
        assert!(matches!(failure(move || Reply::new(status, "")), Failure::Unauthorized(_)), "{status}");
    }
    let login = || Reply::new(302, "").header("location", "https://sso.example/login?next=x");
    let Failure::Unauthorized(why) = failure(login) else { panic!("not unauthorized") };
    assert!(why.contains("sso.example"), "{why}");
}

#[test]
fn a_refusal_names_the_whole_path_and_says_what_to_do() {
    let said = |status: u16, config: &str| {
        let (cluster, _) = serve(nodes(&NAMES), "fabric", move |_, _| Reply::new(status, ""));
        match round(&cluster, config).unwrap_err() {
            Failure::Unauthorized(why) => why,
            Failure::Upstream(failure) => failure.message,
            other => panic!("{other:?}"),
        }
    };
    let site = r#"{"endpoint": "https://fabric.example/site/a"}"#;
    assert_eq!(
        said(401, site),
        "/site/a/v1/fabric: status 401: the token is refused: it may be revoked or expired; put a new one into the Secret"
    );
    assert!(said(403, HTTP).starts_with("/v1/fabric: status 403: the user of the credential may not read this"));
    assert_eq!(
        said(404, site),
        "/site/a/v1/fabric: status 404: no document at this URL; endpoint must be the URL before /v1/fabric"
    );
    assert_eq!(said(304, site), "/site/a/v1/fabric: status 304 to a request that did not ask for it");
    assert!(said(500, r#"{"endpoints": ["a/x", "b/y"]}"#).starts_with("/x/v1/fabric or /y/v1/fabric: status 500"));
}

#[test]
fn a_service_that_is_busy_says_how_long_and_is_believed_up_to_five_minutes() {
    for (status, asked, expected) in [(429, "7", Some(7000)), (503, "3600", Some(300_000)), (503, "soon", None)] {
        let Failure::Upstream(failure) = failure(move || Reply::new(status, "").header("retry-after", asked)) else {
            panic!("not upstream")
        };
        assert_eq!(failure.retry_after, expected);
        assert!(failure.message.contains(&status.to_string()), "{}", failure.message);
    }
}

#[test]
fn everything_else_is_an_error_that_says_what_was_met() {
    for (status, text, why) in [
        (500, "", "500"),
        (404, "", "404"),
        (302, "", "302"),
        (304, "", "304"),
        (204, "", "204"),
        (206, "{}", "206"),
        (200, "", "ends in the middle"),
        (200, "{}", "schema is missing"),
        (200, "<html>", "a login or an error of a proxy"),
        (200, r#"{"schema": "topoloom.fabric/v1", "nodes": [{"node""#, "ends in the middle"),
        (200, r#"{"schema": "topoloom.fabric/v9", "nodes": []}"#, "v9"),
    ] {
        let reply = move || Reply::new(status, text).header("content-type", "text/html").header("location", "/moved");
        let Failure::Upstream(failure) = failure(reply) else { panic!("{status} {text}: not upstream") };
        assert!(failure.message.contains(why), "{} | {why}", failure.message);
    }
}

#[test]
fn one_bad_entry_costs_itself_and_many_cost_the_document() {
    let mut nodes: Vec<String> = (0..40).map(|number| node(&format!("h{number}"), &[1])).collect();
    nodes.extend(units());
    nodes.push("7".to_owned());
    let few = nodes.clone();
    let (cluster, _) = serve(self::nodes(&NAMES), "fabric", move |_, _| Reply::new(200, body(&few, "")));
    let answer = round(&cluster, HTTP).unwrap();
    assert_eq!(reports(&cluster, &answer, &["bad-entry"]).len(), 1);
    nodes.extend(["{}".to_owned(), "NaN".to_owned(), "8".to_owned()]);
    let Failure::Upstream(failure) = failure(move || Reply::new(200, body(&nodes, ""))) else { panic!("not upstream") };
    assert!(failure.message.contains("4 of 48 entries are unusable, for instance nodes[44]"), "{}", failure.message);
}

#[test]
fn a_config_map_has_no_pages() {
    let (cluster, _) = serve(nodes(&NAMES), "document", |_, _| Reply::new(200, body(&units(), r#", "next": "2""#)));
    let Failure::Upstream(failure) = round(&cluster, MAP).unwrap_err() else { panic!("not upstream") };
    assert!(failure.message.starts_with("ConfigMap wiring, key fabric.json: next"), "{}", failure.message);
}

#[test]
fn a_carrier_that_fails_fails_the_round() {
    let (cluster, _) = serve(annotated(&[("n1", linked(&[link("rdma0", 1)]))]), "fabric", |_, _| Reply::new(500, ""));
    let config = r#"{"carriers": ["http", "annotation"], "endpoint": "f"}"#;
    assert!(matches!(round(&cluster, config), Err(Failure::Upstream(_))));
}

#[test]
fn what_is_asked_for_is_what_is_needed() {
    use crate::Roce;
    use topoloom_sdk::{Discoverer, FromJson, Location, Requirements};
    let needs =
        |text: &str| -> Requirements { Roce::configure(&crate::config::Config::from_json(text).unwrap()).unwrap() };
    let http = needs(r#"{"endpoints": ["a", "b"], "insecureSkipVerify": true}"#);
    assert!(http.node_annotations.is_empty() && http.node_labels.is_empty());
    assert_eq!(http.endpoints.len(), 1);
    assert_eq!(http.endpoints[0].location, Location::Urls(vec!["https://a".into(), "https://b".into()]));
    assert_eq!(
        (http.endpoints[0].name.as_str(), http.endpoints[0].paths.as_slice()),
        ("fabric", &["/v1/fabric".to_owned()][..])
    );
    assert!(http.endpoints[0].tls.insecure_skip_verify);
    assert_eq!(http.triggers.len(), 2);
    let annotation = needs("{}");
    assert_eq!(annotation.node_annotations, ["topoloom.dev/fabric-links"]);
    assert!(annotation.endpoints.is_empty());
    assert_eq!(annotation.triggers.len(), 3);
    let all = needs(ALL);
    assert_eq!(all.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect::<Vec<_>>(), ["fabric", "document"]);
    assert!(matches!(&all.endpoints[1].location, Location::ConfigMap(map) if map.name == "wiring"));
    assert!(all.endpoints[1].credentials.is_empty());
}
