//! What a plugin sees of the objects that its source made.
//!
//! A plugin without the grant `nodeNames` sees Nodes as rows and never their names. If it answers with Nodes by name,
//! the rows in its own objects would show which of those names exist, and where. From its first such answer on it sees
//! its objects without their Nodes; the DiscoverySource remembers that across restarts. A plugin that answers with rows
//! gets no names from them.

use std::sync::Arc;

use topoloom_core::plugin::{Answered, Granted};
use topoloom_core::topology::{MemberKind, Members, Object};

/// Whether an answer has Nodes by name although the plugin may not see names of Nodes.
pub(super) fn guesses(answered: &Answered, granted: &Granted) -> bool {
    let Answered::Topology(topology) = answered else { return false };
    !granted.node_names && topology.groups.iter().any(|group| matches!(group.members, Members::Names(_)))
}

/// The objects of a source as its plugin may see them; `guessed` says whether it has ever answered with Nodes by name.
pub(super) fn objects<'a>(
    own: impl Iterator<Item = &'a Arc<Object>>,
    granted: &Granted,
    guessed: bool,
) -> Arc<[Arc<Object>]> {
    if granted.node_names || !guessed {
        return own.cloned().collect();
    }
    own.map(|object| {
        let mut shown = Object::clone(object);
        shown.spec.members =
            shown.spec.members.iter().filter(|member| member.kind != MemberKind::Node).cloned().collect();
        Arc::new(shown)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use topoloom_core::topology::{Member, Spec};

    use super::*;

    fn granted(node_names: bool) -> Granted {
        Granted { node_names, ..Granted::default() }
    }

    fn object() -> Object {
        let members = vec![Member::node("node-1".into()), Member::hyper_node("rack-2".into())];
        Object {
            name: "rack-1".into(),
            uid: "u".into(),
            resource_version: "1".into(),
            created: 0,
            source: None,
            group_id: None,
            split_from: None,
            description: None,
            labels: Default::default(),
            owned_labels: Default::default(),
            shared_labels: Default::default(),
            spec: Spec { tier: 1, tier_name: None, members },
        }
    }

    #[test]
    fn a_plugin_that_names_nodes_without_the_grant_never_sees_which_of_them_exist() {
        let object = Arc::new(object());
        let shown = |node_names, guessed| {
            let own = objects([&object].into_iter(), &granted(node_names), guessed);
            own[0].spec.members.iter().map(|member| member.kind).collect::<Vec<_>>()
        };
        assert_eq!(shown(false, true), [MemberKind::HyperNode]);
        // A plugin with the grant, and one that never names a Node, see all of it.
        for whole in [shown(true, true), shown(true, false), shown(false, false)] {
            assert_eq!(whole, [MemberKind::Node, MemberKind::HyperNode]);
        }
    }
}
