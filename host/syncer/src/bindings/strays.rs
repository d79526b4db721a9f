//! What the condition of a binding says of virtual nodes that only a person can set right (decisions S1, S6 and S22).

use topoloom_core::names::NodeName;

use crate::view::Strays;

/// How many of them one message names.
const NAMED: usize = 5;

/// What is wrong with them, and what to type; nothing where there are none.
pub(super) fn sentence(strays: &Strays) -> Option<String> {
    let Strays { stripped, astray, labels } = strays;
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
    let all: Vec<String> = stripped.into_iter().chain(astray).collect();
    (!all.is_empty()).then(|| all.join(" "))
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
        let strays = Strays { stripped, astray: [name(9)].into(), labels };
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
}
