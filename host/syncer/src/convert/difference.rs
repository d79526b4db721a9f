//! The JSON merge patch (RFC 7396) between two states of one object.
//!
//! Owns one function, so that a write carries what differs and nothing else. Values must hold no null: the API server keeps none,
//! and a merge patch could not write one.

use serde_json::{Map, Value};

/// The patch that makes `after` of `before`; `None` where nothing differs.
#[must_use]
pub fn merge_patch(before: &Value, after: &Value) -> Option<Value> {
    if before == after {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return Some(after.clone()) };
    let gone = before.keys().filter(|key| !after.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let changed = after.iter().filter_map(|(key, value)| {
        let patch = before.get(key).map_or_else(|| Some(value.clone()), |known| merge_patch(known, value));
        patch.map(|patch| (key.clone(), patch))
    });
    Some(Value::Object(gone.chain(changed).collect::<Map<_, _>>()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// As an API server applies one.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else {
            *target = patch.clone();
            return;
        };
        if !target.is_object() {
            *target = json!({});
        }
        let fields = target.as_object_mut().unwrap();
        for (key, value) in patch {
            if value.is_null() {
                fields.remove(key);
            } else {
                apply(fields.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3_i64).prop_map(Value::from),
            "[ab]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[abc]", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_patch_makes_the_one_state_of_the_other_and_none_is_made_of_equal_ones(before in values(), after in values()) {
            let patch = merge_patch(&before, &after);
            prop_assert_eq!(patch.is_none(), before == after);
            let mut target = before;
            if let Some(patch) = patch {
                apply(&mut target, &patch);
            }
            prop_assert_eq!(target, after);
        }
    }

    #[test]
    fn a_patch_names_what_differs_and_takes_away_what_is_gone() {
        let before =
            json!({"phase": "Ready", "held": {"hash": "a", "spent": {"nodes": 1}}, "list": [1], "gone": {"a": 1}});
        let after = json!({"phase": "Ready", "held": {"hash": "b", "spent": {"nodes": 1}}, "list": [1, 2]});
        let wanted = json!({"held": {"hash": "b"}, "list": [1, 2], "gone": null});
        assert_eq!(merge_patch(&before, &after), Some(wanted));
    }
}
