//! What the condition of a binding says of virtual nodes that only a person can set right (decisions S1, S6, S7 and S22).

use topoloom_core::names::NodeName;
use topoloom_sync::naming::ClusterId;

use crate::view::Strays;

/// How many of them one message names.
const NAMED: usize = 5;

/// What is wrong with them, and what to type; nothing where there are none.
pub(super) fn sentence(strays: &Strays) -> Option<String> {
    let Strays { stripped, astray, labels, .. } = strays;
    let lacks = |(name, keys): (&NodeName, &Vec<&str>)| format!("{name} ({})", keys.join(", "));
    let stripped = stripped.keys().next().map(|first| {
        format!(
            "{} virtual nodes lack labels of identity: {}. Only their leases are renewed until a person writes the labels again: \
             kubectl label node {first} {labels} --overwrite.",
            stripped.len(),
            named(stripped.iter().map(lacks))
        )
    });
    let astray = astray.first().map(|first| {
        format!(
            "{} virtual nodes lead to no physical node: {}. Their leases are not renewed. If they are not needed: kubectl delete \
             node {first}.",
            astray.len(),
            named(astray.iter().map(ToString::to_string))
        )
    });
    let all: Vec<String> = stripped.into_iter().chain(astray).chain(of_earlier_ids(strays)).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// The same of those alone that an earlier binding of this name made under another `clusterID`: while there are any, no machine is lent
/// anew.
pub(super) fn of_earlier_ids(strays: &Strays) -> Option<String> {
    let Strays { earlier, binding, .. } = strays;
    let first = earlier.values().next()?;
    let under = |(name, id): (&NodeName, &ClusterId)| format!("{name} ({id})");
    Some(format!(
        "{} virtual nodes are of an earlier ClusterBinding of this name, which had another clusterID: {}. Their leases are renewed while \
         their machines live, and no further machine is lent. Delete this ClusterBinding, which leaves them as they are: kubectl delete \
         clusterbinding {binding}. Then apply it again with clusterID: {first}, which adopts them, or remove them: topoloom lend release \
         {binding}.",
        earlier.len(),
        named(earlier.iter().map(under))
    ))
}

fn named(mut all: impl Iterator<Item = String>) -> String {
    let mut named: Vec<String> = all.by_ref().take(NAMED).collect();
    let more = all.count();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named.join(", ")
}

#[cfg(test)]
mod tests {
    use topoloom_sync::keys;

    use super::*;

    #[test]
    fn s6_nodes_without_labels_and_nodes_that_lead_nowhere_are_named_with_what_to_type() {
        assert_eq!(sentence(&Strays::default()), None);
        let name = |number: usize| NodeName::from(format!("vnode-east-w{number}"));
        let labels = "topoloom.dev/virtual-cluster=vc-1 topoloom.dev/binding=east".to_owned();
        let stripped = (1..=7).map(|number| (name(number), vec![keys::BINDING])).collect();
        let strays = Strays { stripped, astray: [name(9)].into(), labels, ..Strays::default() };
        let said = sentence(&strays).unwrap();
        for part in [
            "7 virtual nodes lack labels of identity: vnode-east-w1 (topoloom.dev/binding), ",
            "vnode-east-w5 (topoloom.dev/binding), and 2 more. ",
            "kubectl label node vnode-east-w1 topoloom.dev/virtual-cluster=vc-1 topoloom.dev/binding=east --overwrite. ",
            "1 virtual nodes lead to no physical node: vnode-east-w9. ",
            "kubectl delete node vnode-east-w9.",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn s6_s7_nodes_of_an_earlier_cluster_id_are_counted_and_named_with_that_and_with_what_to_type() {
        let id = ClusterId::parse("est").unwrap();
        let earlier = (1..=7).map(|number| (NodeName::from(format!("vnode-est-w{number}")), id.clone())).collect();
        let strays = Strays { earlier, binding: "east".to_owned(), ..Strays::default() };
        let said = of_earlier_ids(&strays).unwrap();
        assert_eq!(sentence(&strays).as_ref(), Some(&said));
        for part in [
            "7 virtual nodes are of an earlier ClusterBinding of this name, which had another clusterID: vnode-est-w1 (est), ",
            "vnode-est-w5 (est), and 2 more. ",
            "no further machine is lent. ",
            "kubectl delete clusterbinding east. ",
            "apply it again with clusterID: est, which adopts them, ",
            "topoloom lend release east.",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(of_earlier_ids(&Strays::default()), None);
    }
}
