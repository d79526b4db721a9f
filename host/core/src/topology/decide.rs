//! One answer, judged: which objects it means, whether the guard holds it, which writes it takes.
//!
//! Pure: everything it looks at is an argument, so `run`, `plan`, `tree` and `discover` decide the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use super::guard::{self, GuardVerdict, Judged, Loss, Losses, Safety};
use super::{
    Finding, FindingSubject, Forest, Named, Object, Observed, Plan, ResultHash, TierNames, Topology, ValidateInput,
    Wanted, diff, validate,
};
use crate::names::SourceName;
use crate::rules::broken::SELECTOR_KEYS;
pub use crate::rules::broken::Unacceptable;
use crate::snapshot::{ColumnKey, View};

/// What a decision looks at beside the answer.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The source that owns the objects.
    pub source: &'a SourceName,
    /// All HyperNodes of the cluster.
    pub observed: &'a Arc<Observed>,
    /// The nodes that the answer is about.
    pub view: &'a View,
    /// The columns that the plugin reads.
    pub keys: &'a [ColumnKey],
    /// The nodes when a result was last completely applied.
    pub baseline: Option<&'a View>,
    /// What results that were written took lately.
    pub losses: &'a Losses,
    /// Whether the configuration was edited since.
    pub config: guard::Config,
    /// The limits.
    pub safety: &'a Safety,
    /// Tier names of earlier entries.
    pub tier_names_elsewhere: &'a TierNames,
}

/// What an answer means for the cluster.
#[derive(Debug, Clone)]
pub struct Decision {
    /// The result; one that only adds is completed from what is stored now.
    pub forest: Arc<Forest>,
    /// The short name of the result.
    pub hash: ResultHash,
    /// The objects.
    pub named: Arc<Named>,
    /// The writes.
    pub plan: Arc<Plan>,
    /// Whether they may be written.
    pub verdict: GuardVerdict,
    /// The Nodes that have no place any more.
    pub loss: Loss,
    /// Numbers for the report.
    pub numbers: DecisionNumbers,
}

/// Numbers for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecisionNumbers {
    /// Existing Nodes with a place in the result.
    pub covered: usize,
    /// Existing Nodes.
    pub total: usize,
    /// Groups per tier, lowest first.
    pub by_tier: BTreeMap<u32, usize>,
    /// Nodes in two groups of one tier.
    pub overlaps: usize,
    /// Per diagnostic code: how often, and one case.
    pub diagnostics: BTreeMap<Arc<str>, (usize, String)>,
}

/// The code of a finding about a label that no Node has; its subject is the label.
pub const NO_SUCH_LABEL: &str = "no-such-label";

/// Checks an answer.
///
/// # Errors
/// Every rule that it breaks.
pub fn accept(topology: &Topology, input: &ValidateInput<'_>) -> Result<Forest, Unacceptable> {
    let forest = validate(topology, input).map_err(Unacceptable::Invalid)?;
    let keys = forest.selector_keys().len();
    if keys > SELECTOR_KEYS {
        return Err(Unacceptable::Selectors { keys });
    }
    Ok(forest)
}

/// What an answer means beside what is stored. It depends on nothing else, and most rounds find both as they were.
#[derive(Debug, Clone)]
struct Meaning {
    forest: Arc<Forest>,
    hash: ResultHash,
    named: Arc<Named>,
    plan: Arc<Plan>,
    overlaps: usize,
}

/// The last meaning, and what it is the meaning of. One for each source.
#[derive(Debug, Default)]
pub struct DecisionMemory(Option<Remembered>);

#[derive(Debug)]
struct Remembered {
    answer: Arc<Forest>,
    // It is not kept for this: that it is the same one is all that has to be known.
    observed: Weak<Observed>,
    tier_names_elsewhere: TierNames,
    meaning: Meaning,
}

impl DecisionMemory {
    fn meaning(&mut self, answer: &Arc<Forest>, inputs: &Inputs<'_>) -> Meaning {
        let observed = Arc::downgrade(inputs.observed);
        let is_the_same = |known: &&Remembered| {
            Weak::ptr_eq(&known.observed, &observed)
                && known.tier_names_elsewhere == *inputs.tier_names_elsewhere
                && (Arc::ptr_eq(&known.answer, answer) || known.answer == *answer)
        };
        if let Some(known) = self.0.as_ref().filter(is_the_same) {
            return known.meaning.clone();
        }
        let meaning = Meaning::of(answer, inputs);
        self.0 = Some(Remembered {
            answer: Arc::clone(answer),
            observed,
            tier_names_elsewhere: inputs.tier_names_elsewhere.clone(),
            meaning: meaning.clone(),
        });
        meaning
    }
}

impl Meaning {
    fn of(answer: &Arc<Forest>, inputs: &Inputs<'_>) -> Self {
        let Wanted { forest, named, near } = inputs.observed.wanted(answer, inputs.source, inputs.tier_names_elsewhere);
        let plan = Arc::new(diff(&near, &named));
        Self { hash: forest.hash(), overlaps: overlaps(&forest, inputs), named: Arc::new(named), plan, forest }
    }
}

/// Decides what a valid result means for the cluster as it is now.
#[must_use]
pub fn decide(answer: &Arc<Forest>, inputs: &Inputs<'_>) -> Decision {
    decide_again(answer, inputs, &mut DecisionMemory::default())
}

/// As [`decide`], for a source that may have decided about the same before.
#[must_use]
pub fn decide_again(answer: &Arc<Forest>, inputs: &Inputs<'_>, memory: &mut DecisionMemory) -> Decision {
    let Meaning { forest, hash, named, plan, overlaps } = memory.meaning(answer, inputs);
    let Judged { verdict, loss } = judge(&named, inputs);
    let numbers = DecisionNumbers { overlaps, ..numbers(&forest, inputs.view) };
    Decision { forest, hash, named, plan, verdict, loss, numbers }
}

fn judge(named: &Named, inputs: &Inputs<'_>) -> Judged {
    let mut desired = guard::Desired::default();
    for (name, object) in &named.objects {
        desired.add(name, &object.spec, inputs.view);
    }
    let stored: Vec<&Object> = inputs.observed.of(inputs.source).map(|object| &**object).collect();
    for object in &stored {
        if named.held.contains(&object.name) {
            desired.add(&object.name, &object.spec, inputs.view);
        }
    }
    guard::judge(&guard::GuardedRound {
        source: inputs.source,
        stored: &stored,
        desired: &desired,
        baseline: inputs.baseline,
        now: inputs.view,
        required: inputs.keys,
        losses: inputs.losses,
        config: inputs.config,
        safety: inputs.safety,
    })
}

fn numbers(forest: &Forest, view: &View) -> DecisionNumbers {
    let mut numbers = DecisionNumbers {
        covered: forest.nodes().into_iter().filter(|node| view.find(node).is_some()).count(),
        total: view.names().len(),
        ..DecisionNumbers::default()
    };
    for domain in forest.domains() {
        *numbers.by_tier.entry(domain.tier.get()).or_default() += 1;
    }
    for finding in forest.findings() {
        let count = match &finding.subject {
            FindingSubject::Nodes(nodes) => nodes.len().max(1),
            _ => 1,
        };
        let entry_of = || (0, example(finding) + &meant(finding, view));
        let entry = numbers.diagnostics.entry(Arc::clone(&finding.code)).or_insert_with(entry_of);
        entry.0 += count;
    }
    numbers
}

/// Nodes in two groups of one tier, be it two of this result or one of it and one of another source (decision H15).
fn overlaps(forest: &Forest, inputs: &Inputs<'_>) -> usize {
    // An object that was made by hand is left to its maker.
    let mut others = inputs.observed.sources().filter(|source| *source != inputs.source).peekable();
    if others.peek().is_none() {
        return forest.overlaps().total;
    }
    // By the places of this result: others may have many more, and most of them in other tiers.
    let mut places: HashMap<(u32, &str), bool> = HashMap::new();
    for domain in forest.domains() {
        for node in &domain.nodes {
            places.entry((domain.tier.get(), node)).and_modify(|is_twice| *is_twice = true).or_insert(false);
        }
    }
    let mut once = places.values().filter(|is_twice| !**is_twice).count();
    for object in others.flat_map(|source| inputs.observed.of(source)) {
        if once == 0 {
            break;
        }
        for node in object.spec.exact_nodes() {
            if let Some(is_twice) = places.get_mut(&(object.spec.tier, &**node)).filter(|is_twice| !**is_twice) {
                *is_twice = true;
                once -= 1;
            }
        }
    }
    places.len() - once
}

/// Which label was most likely meant by one that no Node has: a plugin sees none but those that it asks for.
fn meant(finding: &Finding, view: &View) -> String {
    let FindingSubject::Name(label) = &finding.subject else { return String::new() };
    match view.labels().nearest(label) {
        Some(nearest) if &*finding.code == NO_SUCH_LABEL => format!("; the nearest that Nodes have is {nearest:?}"),
        _ => String::new(),
    }
}

/// One finding as a line.
#[must_use]
pub fn example(finding: &Finding) -> String {
    match &finding.subject {
        FindingSubject::Source => finding.detail.clone(),
        FindingSubject::Nodes(nodes) => match nodes.as_slice() {
            [] => finding.detail.clone(),
            [one] => format!("{one}: {}", finding.detail),
            [first, rest @ ..] => format!("{first} and {} more: {}", rest.len(), finding.detail),
        },
        FindingSubject::Group(id) => format!("group {id}: {}", finding.detail),
        FindingSubject::Name(name) => format!("{name}: {}", finding.detail),
    }
}

impl DecisionNumbers {
    /// All groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.by_tier.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{NodeMeta, Store};
    use crate::topology::model::{Member, Spec};
    use crate::topology::{Coverage, Diagnostic, Group, Members, Subject, Tier, TierNameUse};

    fn accepted(topology: &Topology, source: &SourceName, view: &View) -> Forest {
        accept(topology, &ValidateInput { source, nodes: view.names(), reserved_labels: &[] }).unwrap()
    }

    fn view() -> View {
        let mut store = Store::new();
        store.begin_relist();
        for name in ["n0", "n1"] {
            store.relist(NodeMeta { name, labels: [("l", "v"); 0], annotations: [("a", "v"); 0] });
        }
        store.commit_relist();
        store.view(&[])
    }

    fn rack(id: &str, rows: &[u32]) -> Group {
        Group {
            id: id.into(),
            kind: None,
            fixed_name: None,
            description: None,
            tier: 1,
            tier_name: Some("rack".into()),
            labels: Vec::new(),
            members: Members::Rows(rows.to_vec()),
        }
    }

    fn racks(groups: Vec<Group>, source: &SourceName) -> Arc<Forest> {
        let topology = Topology { groups, diagnostics: Vec::new(), coverage: Coverage::Complete };
        Arc::new(accepted(&topology, source, &view()))
    }

    /// One rack with these rows.
    fn answer(rows: &[u32], source: &SourceName) -> Arc<Forest> {
        racks(vec![rack("rack", rows)], source)
    }

    fn object(name: &str, source: &SourceName, spec: Spec) -> Arc<Observed> {
        Arc::new(Observed::new([Arc::new(Object {
            name: name.into(),
            uid: "u".into(),
            resource_version: "1".into(),
            created: 0,
            source: Some(source.clone()),
            group_id: Some("rack".into()),
            split_from: None,
            description: None,
            labels: Default::default(),
            owned_labels: Default::default(),
            shared_labels: Default::default(),
            spec,
        })]))
    }

    #[test]
    fn a_node_in_two_groups_of_a_tier_counts_once_whether_one_source_has_both_groups_or_two_sources() {
        let (source, view): (SourceName, _) = ("fabric".parse().unwrap(), view());
        // One of the two nodes is twice in the result itself.
        let forest = racks(vec![rack("a", &[0, 1]), rack("b", &[0])], &source);
        let beside = |tier: u32, nodes: &[&str]| {
            let members = nodes.iter().map(|name| Member::node((*name).into())).collect();
            let observed = object("theirs", &"other".parse().unwrap(), Spec { tier, tier_name: None, members });
            let inputs = Inputs {
                source: &source,
                observed: &observed,
                view: &view,
                keys: &[],
                baseline: None,
                losses: &Losses::default(),
                config: guard::Config::Same,
                safety: &Safety::default(),
                tier_names_elsewhere: &TierNames::new(),
            };
            overlaps(&forest, &inputs)
        };
        assert_eq!(beside(2, &["n0", "n1"]), 1, "another tier");
        assert_eq!(beside(1, &["n0"]), 1, "a third group");
        assert_eq!(beside(1, &["n1"]), 2);
        assert_eq!(beside(1, &["n0", "n1"]), 2);
    }

    #[test]
    fn a_label_that_no_node_has_is_said_with_the_nearest_that_they_do_have() {
        let mut store = Store::new();
        store.require([ColumnKey::label("ex.io/rak")]);
        store.begin_relist();
        let labels = [("ex.io/rack", "a"), ("kubernetes.io/hostname", "n0")];
        store.relist(NodeMeta { name: "n0", labels, annotations: [("a", "v"); 0] });
        store.commit_relist();
        let view = store.view(&[ColumnKey::label("ex.io/rak")]);
        let entry_of = |code: &str, label: &str| {
            let diagnostic = Diagnostic {
                code: code.into(),
                subject: Subject::Name(label.to_owned()),
                detail: "no Node has this label".to_owned(),
            };
            let topology = Topology { groups: Vec::new(), diagnostics: vec![diagnostic], coverage: Coverage::Complete };
            let numbers = numbers(&accepted(&topology, &"label".parse().unwrap(), &view), &view);
            numbers.diagnostics.get(code).cloned()
        };
        let meant = "ex.io/rak: no Node has this label; the nearest that Nodes have is \"ex.io/rack\"";
        assert_eq!(entry_of(NO_SUCH_LABEL, "ex.io/rak"), Some((1, meant.to_owned())));
        let unknown = "volcano.sh/tor: no Node has this label";
        assert_eq!(entry_of(NO_SUCH_LABEL, "volcano.sh/tor"), Some((1, unknown.to_owned())));
        assert_eq!(entry_of("other", "ex.io/rak"), Some((1, "ex.io/rak: no Node has this label".to_owned())));
    }

    #[test]
    fn the_same_is_not_thought_about_twice_and_anything_else_is() {
        let (source, view): (SourceName, _) = ("fabric".parse().unwrap(), view());
        let mut memory = DecisionMemory::default();
        let mut decided = |answer: &Arc<Forest>, observed: &Arc<Observed>, tier_names_elsewhere: &TierNames| {
            let safety = Safety::default();
            let inputs = Inputs {
                source: &source,
                observed,
                view: &view,
                keys: &[],
                baseline: None,
                losses: &Losses::default(),
                config: guard::Config::Same,
                safety: &safety,
                tier_names_elsewhere,
            };
            let decision = decide_again(answer, &inputs, &mut memory);
            let fresh = decide(answer, &inputs);
            assert_eq!((&decision.hash, &decision.named, &decision.plan), (&fresh.hash, &fresh.named, &fresh.plan));
            assert_eq!((&decision.numbers, &decision.forest), (&fresh.numbers, &fresh.forest));
            decision.named
        };
        let (nothing, none) = (Arc::new(Observed::default()), TierNames::new());
        let one = decided(&answer(&[0], &source), &nothing, &none);
        // An equal answer is the same one.
        assert!(Arc::ptr_eq(&one, &decided(&answer(&[0], &source), &nothing, &none)));
        assert_ne!(one, decided(&answer(&[0, 1], &source), &nothing, &none));

        let both = answer(&[0, 1], &source);
        let elsewhere: TierNames =
            [("rack".into(), TierNameUse { tier: Tier::nearest(2), source: "other".parse().unwrap() })].into();
        assert_eq!(decided(&both, &nothing, &elsewhere).tier_name_conflicts.len(), 1);

        let spec = one.objects.values().next().unwrap().spec.clone();
        let stored = object("mine", &source, spec);
        let continued = decided(&both, &stored, &none);
        assert!(continued.objects.contains_key("mine"), "{continued:?}");
        assert!(!decided(&both, &nothing, &none).objects.contains_key("mine"));
    }
}
