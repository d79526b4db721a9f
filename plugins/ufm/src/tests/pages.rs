//! Lists that come in pages: read to the last one, or refused.

use super::net::{CONFIG, Net, RoundResult, recorded, set, upstream};
use crate::Ufm;
use serde_json::{Value, json};
use topoloom_sdk::Credential;
use topoloom_sdk::http::Request;
use topoloom_sdk::testing::{Cluster, Reply};

const NODES: [&str; 4] = ["a-0", "a-1", "b-0", "b-1"];

fn net() -> Net {
    Net::units(&["a", "b"], 2, 8)
}

/// Number and size of the page that a request asks for.
fn page(request: &Request) -> Option<(usize, usize)> {
    let query = request.path_and_query.split_once('?')?.1;
    let value = |key: &str| {
        let pair = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
        pair.and_then(|text| text.parse::<usize>().ok())
    };
    Some((value("page_number")?, value("rpp")?))
}

/// A list in the form with pages.
fn paged(list: &[Value], (number, rows): (usize, usize), total: usize) -> String {
    let data: Vec<&Value> = list.iter().skip((number - 1) * rows).take(rows).collect();
    json!({"total_resources": total, "filtered_resources": total, "num_of_pages": list.len().div_ceil(rows),
        "first_index": (number - 1) * rows + 1, "last_index": number * rows, "data": data})
    .to_string()
}

fn groups(cluster: &Cluster, config: &str) -> RoundResult {
    RoundResult::of(cluster.discover::<Ufm>(config).unwrap(), &NODES)
}

#[test]
fn pages_are_read_to_the_last_one() {
    let net = Net::units(&["a", "b"], 2, 40);
    let reply = move |request: &Request| {
        let list = if request.path_and_query.contains("ports") { &net.ports } else { &net.links };
        match page(request) {
            Some(page) => Reply::new(200, paged(list, page, list.len())),
            None => Reply::new(404, ""),
        }
    };
    let (cluster, asked) = recorded(&NODES, reply, Credential::Basic);
    assert_eq!(groups(&cluster, r#"{"endpoint": "ufm", "pageSize": 200}"#).groups(), set(["a-0 a-1", "b-0 b-1"]));
    let ports = [1, 2].map(|number| format!("/ufmRest/resources/ports?active=true&page_number={number}&rpp=200"));
    assert_eq!(asked.borrow()[2..], ports);
}

#[test]
fn a_server_that_makes_pages_unasked_is_asked_for_the_others() {
    let net = net();
    let reply = move |request: &Request| {
        let list = if request.path_and_query.contains("ports") { &net.ports } else { &net.links };
        Reply::new(200, paged(list, page(request).unwrap_or((1, 20)), list.len()))
    };
    let (cluster, asked) = recorded(&NODES, reply, Credential::Basic);
    assert_eq!(groups(&cluster, CONFIG).groups(), set(["a-0 a-1", "b-0 b-1"]));
    assert_eq!(asked.borrow()[3], "/ufmRest/resources/ports?active=true&page_number=2&rpp=20");
    assert_eq!(asked.borrow().iter().filter(|path| path.contains("ports")).count(), 4);
}

/// The message of a round whose list of ports comes in two pages of forty rows, changed on the way.
fn broken(change: impl Fn(usize, String) -> Reply + 'static) -> String {
    let net = net();
    let ports: Vec<Value> = net.ports.into_iter().take(80).chain((0..16).map(|_| json!({}))).collect();
    let reply = move |request: &Request| match page(request) {
        Some((number, _)) if request.path_and_query.contains("ports") => {
            change(number, paged(&ports, (number, 40), ports.len()))
        }
        Some(_) => Reply::new(200, "[]"),
        None => Reply::new(404, ""),
    };
    let (cluster, _) = recorded(&NODES, reply, Credential::Basic);
    let failure = cluster.discover::<Ufm>(r#"{"endpoint": "ufm", "pageSize": 200}"#).map(|_| ()).unwrap_err();
    let message = upstream(failure);
    let prefix = "GET /ufmRest/resources/ports of the endpoint \"ufm\": ";
    message.strip_prefix(prefix).unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[test]
fn a_list_that_changes_between_its_pages_is_no_list() {
    let total = |number: usize, page: String| {
        let page = if number == 2 { page.replace("\"total_resources\":80", "\"total_resources\":81") } else { page };
        Reply::new(200, page)
    };
    assert_eq!(broken(total), "the list changed while page 2 of 2 was read");
    let form = |number, page: String| Reply::new(200, if number == 2 { "[]".to_owned() } else { page });
    assert_eq!(broken(form), "the list changed while page 2 of 2 was read");
}

/// A page whose numbers are written in another way.
fn written(page: &str, number: impl Fn(&Value) -> Value) -> String {
    let mut page: Value = serde_json::from_str(page).unwrap();
    for key in ["total_resources", "filtered_resources", "num_of_pages"] {
        page[key] = number(&page[key]);
    }
    page.to_string()
}

#[test]
fn numbers_of_pages_may_be_texts_or_have_a_fraction_of_nothing() {
    type Written = fn(&Value) -> Value;
    let forms: [Written; 4] = [
        |number| json!(number.to_string()),
        |number| json!(format!(" {number}.0 ")),
        |number| json!(number.as_f64().unwrap()),
        // Not every page is written alike.
        |number| if number == 2 { json!(2.0) } else { json!(number.to_string()) },
    ];
    for form in forms {
        let net = Net::units(&["a", "b"], 2, 40);
        let reply = move |request: &Request| {
            let list = if request.path_and_query.contains("ports") { &net.ports } else { &net.links };
            match page(request) {
                Some(page) => Reply::new(200, written(&paged(list, page, list.len()), form)),
                None => Reply::new(404, ""),
            }
        };
        let (cluster, asked) = recorded(&NODES, reply, Credential::Basic);
        assert_eq!(groups(&cluster, r#"{"endpoint": "ufm", "pageSize": 200}"#).groups(), set(["a-0 a-1", "b-0 b-1"]));
        assert_eq!(asked.borrow().iter().filter(|path| path.contains("ports")).count(), 2);
    }
}

#[test]
fn numbers_of_pages_that_cannot_be_read_are_no_numbers() {
    for odd in ["\"many\"", "\"\"", "2.5", "-2", "1e400", "[2]", "{}", "true", "NaN", "\"inf\""] {
        let change = move |_, page: String| Reply::new(200, page.replace(":2,", &format!(":{odd},")));
        let message = broken(change);
        assert_eq!(message, format!("num_of_pages is {odd}, which is not a whole number"));
    }
    let change = |_, page: String| Reply::new(200, page.replace("_resources\":80", "_resources\":\"?\""));
    assert_eq!(broken(change), "filtered_resources is \"?\", which is not a whole number");
    let change = |_, page: String| Reply::new(200, page.replace(":80", ":null").replace(":2,", ":null,"));
    assert_eq!(broken(change), "the answer has pages, but not the total number of records");
}

#[test]
fn rows_that_were_announced_have_to_come() {
    let fewer = |number, page: String| {
        let mut page: Value = serde_json::from_str(&page).unwrap();
        if number == 2 {
            page["data"].as_array_mut().unwrap().pop();
        }
        Reply::new(200, page.to_string())
    };
    assert_eq!(broken(fewer), "received 79 records, but the UFM announced 80");
    let silent = |_, page: String| Reply::new(200, page.replace("_resources", "_x"));
    assert_eq!(broken(silent), "the answer has pages, but not the total number of records");
    let many = |_, page: String| Reply::new(200, page.replace("\"num_of_pages\":2", "\"num_of_pages\":5000"));
    assert_eq!(broken(many), "the list has 5000 pages, at most 900 are read; raise pageSize");
    assert_eq!(broken(|number, page| Reply::new(if number == 2 { 400 } else { 200 }, page)), "status 400");
    let cut = |number, page: String| Reply::new(200, if number == 2 { page[..99].to_owned() } else { page });
    assert_eq!(broken(cut), "the document ends in the middle");
}
