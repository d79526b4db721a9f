//! Answers that are no list: each is an error that says what was asked and what came.

use super::net::{CONFIG, Net, beside, upstream};
use crate::Ufm;
use topoloom_sdk::Failure;
use topoloom_sdk::testing::Reply;

/// What every bad answer has in common: the round fails, so what is in force stays in force.
fn failure(reply: Reply) -> Failure {
    let answer = move |path: &str| if path.contains("ports") { reply.clone() } else { Reply::new(404, "") };
    beside(["a-0"], answer).discover::<Ufm>(CONFIG).map(|_| ()).unwrap_err()
}

#[test]
fn a_page_for_people_is_an_error() {
    let html = Reply::new(200, "<html>Please log in</html>").header("content-type", "text/html; charset=utf-8");
    let expected = "GET /ufmRest/resources/ports of the endpoint \"ufm\": received \"text/html; charset=utf-8\" where JSON \
                    is expected: probably a login page or a proxy";
    assert_eq!(upstream(failure(html)), expected);
    let unlabelled = upstream(failure(Reply::new(200, "<html>")));
    assert!(unlabelled.ends_with("the document is neither a JSON list nor an object"), "{unlabelled}");
}

#[test]
fn a_redirect_is_an_error_and_one_to_a_login_page_a_refusal() {
    let to = |location: &str| failure(Reply::new(302, "").header("location", location));
    let elsewhere = upstream(to("https://user:secret@other.example.org/x?session=secret"));
    assert!(elsewhere.ends_with(": 302 to \"other.example.org\"; redirects are not followed"), "{elsewhere}");
    for login in ["/ufm_web/Login?next=secret", "https://sso.example.org/oauth2/start", "//idp.example.org/saml"] {
        let Failure::Unauthorized(message) = to(login) else { panic!("{login}") };
        assert!(message.contains("302 to a login page") && !message.contains("secret"), "{message}");
    }
}

#[test]
fn refused_credentials_and_missing_rights_have_different_messages() {
    let refused = "GET /ufmRest/resources/ports of the endpoint \"ufm\": 401, user and password are refused; correct them \
                   in the Secret";
    assert_eq!(failure(Reply::new(401, "")), Failure::Unauthorized(refused.into()));
    let forbidden = "GET /ufmRest/resources/ports of the endpoint \"ufm\": 403, the user may not read this; give its user \
                     a role that may";
    assert_eq!(failure(Reply::new(403, "")), Failure::Unauthorized(forbidden.into()));
}

#[test]
fn a_server_that_cannot_says_how_long_to_wait() {
    for status in [429, 500, 502, 503] {
        let Failure::Upstream(upstream) = failure(Reply::new(status, "").header("retry-after", "120")) else {
            panic!("{status}")
        };
        let message = format!("GET /ufmRest/resources/ports of the endpoint \"ufm\": status {status}");
        assert_eq!((upstream.message, upstream.retry_after), (message, Some(120_000)));
    }
}

#[test]
fn an_empty_object_is_no_empty_list() {
    let message = upstream(failure(Reply::new(200, "{}")));
    assert!(message.ends_with("received an object without \"data\" where a list is expected"), "{message}");
}

#[test]
fn a_body_that_stops_in_the_middle_is_an_error() {
    let whole = serde_json::Value::from(Net::units(&["a", "b"], 2, 2).ports).to_string();
    for length in [0, 1, 100, whole.len() / 2, whole.len() - 1] {
        let message = upstream(failure(Reply::new(200, &whole.as_bytes()[..length])));
        assert!(message.ends_with("the document ends in the middle"), "{length}: {message}");
    }
}
