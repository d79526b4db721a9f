//! What a pod tolerates, as far as anything follows from it.
//!
//! Owns the reading of `spec.tolerations`. How many there are is the choice of those who write the pod, and a pod has room for a hundred
//! thousand. One of them matters at most: the first that matches the taint that [evicts](evicting), since no other one decides about
//! that, and no other taint is looked at. The others are left out while they are read.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use topoloom_sync::reclaim::evicting;
use topoloom_sync::taints::{Effect, Operator, Taint, Toleration};

/// A toleration as it is written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Written {
    key: String,
    operator: String,
    value: String,
    effect: String,
    toleration_seconds: Option<i64>,
}

impl From<Written> for Toleration {
    fn from(written: Written) -> Self {
        Self {
            key: written.key,
            operator: Operator::from(written.operator.as_str()),
            value: written.value,
            effect: Some(written.effect.as_str()).filter(|effect| !effect.is_empty()).map(Effect::from),
            seconds: written.toleration_seconds,
        }
    }
}

/// Of tolerations, the one that decides about the taint that evicts; none, where none matches it.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Toleration>, D::Error> {
    deserializer.deserialize_seq(Deciding(evicting()))
}

/// Reads a list of tolerations, and keeps the first that matches this taint.
struct Deciding(Taint);

impl<'de> Visitor<'de> for Deciding {
    type Value = Vec<Toleration>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of tolerations")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Toleration>, A::Error> {
        let mut deciding: Option<Toleration> = None;
        while let Some(written) = list.next_element::<Written>()? {
            deciding = deciding.or_else(|| Some(Toleration::from(written)).filter(|read| read.matches(&self.0)));
        }
        Ok(deciding.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use topoloom_sync::keys;

    use super::*;
    use crate::slices::pod::{PodSlice, WholePod};

    /// What is kept, of a pod as it is read for its status, and of one that is read without it.
    fn kept(tolerations: &Value) -> Vec<Toleration> {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [], "tolerations": tolerations}});
        let slice: PodSlice = serde_json::from_value(pod.clone()).unwrap();
        let (whole, _) = serde_json::from_value::<WholePod>(pod).unwrap().split().unwrap();
        let kept = slice.lent().tolerations;
        assert_eq!(whole.lent().tolerations, kept);
        kept
    }

    #[test]
    fn s21_of_a_hundred_thousand_tolerations_at_most_one_is_kept() {
        let everything = kept(&Value::from(vec![json!({"operator": "Exists"}); 100_000]));
        assert_eq!(everything, [Toleration { operator: Operator::Exists, ..Toleration::default() }]);
        let others: Vec<Value> = (0..100_000).map(|number| json!({"key": format!("k{number}")})).collect();
        assert_eq!(kept(&others.into()), []);
    }

    #[test]
    fn s17_the_first_that_matches_the_taint_that_evicts_is_kept_with_its_defaults() {
        let (evicting, key) = (evicting(), keys::OUT_OF_WINDOWS_TAINT);
        let other = json!({"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10});
        let elsewhere = json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
        let for_a_while = json!({"key": key, "value": "true", "effect": "NoExecute", "tolerationSeconds": 30});
        let all = json!({"operator": "Exists"});
        let first = kept(&json!([other, elsewhere, for_a_while, all]));
        assert_eq!((first.len(), first[0].seconds, &first[0].effect), (1, Some(30), &Some(Effect::NoExecute)));
        assert!(first[0].matches(&evicting));
        let first = kept(&json!([other, elsewhere, all, for_a_while]));
        assert_eq!((first.len(), first[0].key.as_str(), &first[0].effect, first[0].seconds), (1, "", &None, None));
        assert_eq!(kept(&json!([other, elsewhere])), []);
        assert_eq!(kept(&json!([])), []);
    }

    #[test]
    fn what_is_no_list_of_tolerations_makes_a_pod_unreadable() {
        for written in [json!({"operator": "Exists"}), json!([{"operator": "Exists"}, {"key": 7}])] {
            let pod = json!({"metadata": {"name": "p"}, "spec": {"tolerations": written}});
            assert!(serde_json::from_value::<PodSlice>(pod).is_err(), "{written}");
        }
    }
}
