//! The discoverer as an ordinary program: no WebAssembly, no cluster and no service.

use listed::Listed;
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Credential, Failure};

/// A round in which the service answers this.
fn round(body: &'static str) -> Result<String, Failure> {
    let nodes = Cluster::new().node("m1", []).node("m2", []);
    let cluster = nodes.endpoint("list", Credential::Bearer, move |request| {
        assert_eq!(request.path_and_query, "/v1/nodes");
        Ok(Reply::new(200, body))
    });
    cluster.discover::<Listed>("{}").map(|answer| cluster.show(&answer))
}

#[test]
fn names_become_racks_and_half_an_answer_is_none() {
    let whole = r#"{"nodes": [{"name": "m1", "rack": "a7"}, {"name": "m2", "rack": "a7"}]}"#;
    assert_eq!(round(whole).unwrap(), "tier 1 rack | a7 |  | m1 m2\n");
    for broken in [&whole[..50], "<html>log in</html>", r#"{"nodes": [{"name": "m1"}]}"#, "{}", ""] {
        assert!(matches!(round(broken), Err(Failure::Upstream(_))), "{broken}");
    }
}
