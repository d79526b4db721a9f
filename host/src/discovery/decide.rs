//! One answer, judged: which objects it means, whether the guard lets it pass, which writes it takes.
//!
//! Pure: everything it looks at is an argument, so `run`, `plan`, `tree` and `discover` decide the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use topoloom_api::names::SOURCE_LABEL;
use topoloom_core::snapshot::{ColumnKey, View};
use topoloom_core::topology::guard::{self, Safety, Verdict};
use topoloom_core::topology::{
    Forest, Named, Object, Observed, Plan, ResultHash, TierNames, Topology, ValidateInput, Wanted, diff, validate,
};

/// What a decision looks at beside the answer.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The source that owns the objects.
    pub source: &'a Arc<str>,
    /// All HyperNodes of the cluster.
    pub observed: &'a Observed,
    /// The nodes that the answer speaks of.
    pub view: &'a View,
    /// The columns that the plugin reads.
    pub keys: &'a [ColumnKey],
    /// The nodes when a result was last completely applied.
    pub baseline: Option<&'a View>,
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
    pub named: Named,
    /// The writes.
    pub plan: Plan,
    /// Whether they may be written.
    pub verdict: Verdict,
    /// Numbers for the report.
    pub numbers: Numbers,
}

/// Numbers for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
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

/// Labels that the selectors of one answer read at most: each is a column over all nodes, kept for as long as the objects
/// are stored.
const SELECTOR_KEYS: usize = 64;

/// Checks an answer.
///
/// # Errors
/// Every rule that it breaks, in one sentence.
pub fn accept(topology: &Topology, source: &Arc<str>, view: &View) -> Result<Forest, String> {
    let input = ValidateInput { source, nodes: view.names(), reserved_labels: &[SOURCE_LABEL] };
    let forest = validate(topology, &input).map_err(|violations| format!("the topology is not valid: {violations}"))?;
    let keys = forest.selector_keys().len();
    if keys > SELECTOR_KEYS {
        return Err(format!("its selectors read {keys} different labels and may read {SELECTOR_KEYS}"));
    }
    Ok(forest)
}

/// Decides what a sound result means for the cluster as it is now.
#[must_use]
pub fn decide(forest: &Arc<Forest>, inputs: &Inputs<'_>) -> Decision {
    let Wanted { forest, named, near } = inputs.observed.wanted(forest, inputs.source, inputs.tier_names_elsewhere);
    let plan = diff(&near, &named);
    let verdict = judge(&named, inputs);
    Decision { hash: forest.hash(), verdict, plan, numbers: numbers(&forest, inputs), named, forest }
}

fn judge(named: &Named, inputs: &Inputs<'_>) -> Verdict {
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
    guard::judge(&guard::Round {
        source: inputs.source,
        stored: &stored,
        desired: &desired,
        baseline: inputs.baseline,
        now: inputs.view,
        required: inputs.keys,
        config: inputs.config,
        safety: inputs.safety,
    })
}

fn numbers(forest: &Forest, inputs: &Inputs<'_>) -> Numbers {
    let view = inputs.view;
    let mut numbers = Numbers {
        covered: forest.nodes().into_iter().filter(|node| view.find(node).is_some()).count(),
        total: view.names().len(),
        overlaps: overlaps(forest, inputs),
        ..Numbers::default()
    };
    for domain in forest.domains() {
        *numbers.by_tier.entry(domain.tier.get()).or_default() += 1;
    }
    for finding in forest.findings() {
        let count = match &finding.subject {
            topoloom_core::topology::About::Nodes(nodes) => nodes.len().max(1),
            _ => 1,
        };
        let entry = numbers.diagnostics.entry(Arc::clone(&finding.code)).or_insert_with(|| (0, example(finding)));
        entry.0 += count;
    }
    numbers
}

/// Nodes in two groups of one tier, be it two of this result or one of it and one of another source (decision H15).
fn overlaps(forest: &Forest, inputs: &Inputs<'_>) -> usize {
    // One that was made by hand is its maker's affair.
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

/// One finding as a line.
#[must_use]
pub fn example(finding: &topoloom_core::topology::Finding) -> String {
    use topoloom_core::topology::About;
    match &finding.subject {
        About::Source => finding.detail.clone(),
        About::Nodes(nodes) => match nodes.as_slice() {
            [] => finding.detail.clone(),
            [one] => format!("{one}: {}", finding.detail),
            [first, rest @ ..] => format!("{first} and {} more: {}", rest.len(), finding.detail),
        },
        About::Group(id) => format!("group {id}: {}", finding.detail),
        About::Name(name) => format!("{name}: {}", finding.detail),
    }
}

impl Numbers {
    /// All groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.by_tier.values().sum()
    }
}
