//! Requests that are refused by a limit while the call goes on.

use topoloom::endpoints::Outside;
use topoloom_core::plugin::Limit;

use super::{Scenario, default};
use crate::endpoints::guest::{revision, round};
use crate::endpoints::wire::{Wire, ok};

pub(super) fn scenario(row: Limit) -> Scenario {
    match row {
        Limit::Connections => Scenario::Outside {
            granted: "",
            requests: "requests: [{endpoint: fabric, path: /, times: 9}], hold: true".to_owned(),
            words: format!("{} answers are open already", default(row)),
        },
        Limit::Body => Scenario::Outside {
            granted: "maxBody: 64Ki, ",
            requests: "requests: [{endpoint: fabric, path: /}]".to_owned(),
            words: "the answer has more than 65536 bytes, unpacked; raise `maxBody` of the endpoint if it should"
                .to_owned(),
        },
        other => panic!("{other:?} is not of a request"),
    }
}

pub(super) async fn prove(row: Limit, granted: &str, requests: &str, words: &str) {
    let server = Wire::at("127.0.0.2", |_| ok("", &[b'x'; 65_537])).await;
    let granted = format!("{{fabric: {{{granted}url: '{}', addresses: [127.0.0.2]}}}}", server.url());
    let config = format!("{{wants: [{{name: fabric}}], {requests}}}");
    let (said, usage) = round(&revision(&granted, &config, &Outside::offline()).await.unwrap()).await;
    let said = said.unwrap();
    assert!(said.iter().any(|said| said.contains(words)), "{said:#?}");
    assert!(usage.met.contains(row), "{usage:?}");
}
