//! References between groups: each leads to an existing group of a lower tier, and no group gets two parents.

use std::sync::Arc;

use super::problem::{BrokenRule, Violations};
use crate::topology::model::{Group, Members};

/// Checks all references. A child's tier is strictly lower, so there are no cycles and no references to oneself.
pub(super) fn check(groups: &[Group], violations: &mut Violations) {
    let mut parents: Vec<Option<usize>> = vec![None; groups.len()];
    for (at, group) in groups.iter().enumerate() {
        let Members::Groups(children) = &group.members else { continue };
        let id = Some(&group.id);
        for child_at in children {
            let place = *child_at as usize;
            let (Some(child), Some(parent)) = (groups.get(place), parents.get_mut(place)) else {
                violations.push(id, BrokenRule::Reference { at: *child_at, groups: groups.len() });
                continue;
            };
            let name = || Arc::clone(&child.id);
            if child.tier >= group.tier {
                violations.push(id, BrokenRule::NotBelow { child: name(), tier: child.tier, parent: group.tier });
            }
            match *parent {
                None => *parent = Some(at),
                Some(same) if same == at => violations.push(id, BrokenRule::ReferenceTwice(name())),
                Some(other) => {
                    let parent = groups.get(other).map_or_else(name, |group| Arc::clone(&group.id));
                    violations.push(id, BrokenRule::TwoParents { child: name(), parent });
                }
            }
        }
    }
}
