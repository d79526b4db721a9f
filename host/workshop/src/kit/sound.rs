//! Whether a host takes what a plugin answers, also over nodes that no case has.
//!
//! Every answer is judged by the function that a host judges it by. What follows from a case is made without knowing what
//! its values mean: nodes are left out, values become longer, and the answer has to stay valid, whatever it is.

use std::collections::{BTreeMap, BTreeSet};

use topoloom_core::names::NodeName;
use topoloom_core::rules::{LABEL_MAX, SUBDOMAIN_MAX};
use topoloom_core::snapshot::ColumnKey;
use topoloom_core::topology::{Finding, Forest};

use super::check::Check;
use super::report::{Ledger, Sheet};
use super::round::{Asked, End, NOT_RECORDED, Prepared, Round, below};
use super::stand::Stand;
use super::trial::{Expected, History, Node, Trial};

/// What is put behind a value: the same number of bytes, of one byte for each character and of several.
const PLAIN: &str = "-abcdefghi";
const WIDE: &str = "-ä€𝄞";
const _: () = assert!(PLAIN.len() == WIDE.len());

/// Why checks that compare answers are left out.
pub(super) const NO_ANSWER: &str = "there is no case with an answer";

/// A state that no plugin has written.
const FOREIGN: &[u8] = b"\xff\x00topoloom";

/// A trial with an answer that others are compared with.
#[derive(Debug)]
pub(super) struct Based<'a> {
    pub(super) prepared: Prepared<'a>,
    pub(super) base: Asked,
}

impl Based<'_> {
    /// The name of the case, for findings.
    pub(super) fn case(&self) -> Option<&str> {
        Some(&self.prepared.trial.name)
    }

    /// Asks a round that differs from that of the case in nothing that counts, and says where its answer is another one. `false` if
    /// it is; a round that asks for what was not recorded is no evidence.
    pub(super) async fn answers_alike(
        &self,
        stand: &impl Stand,
        round: &Round<'_>,
        sheet: &mut Sheet,
        differs: &str,
    ) -> bool {
        let asked = self.prepared.ask(stand, round).await;
        if asked.is_not_recorded(&self.base) {
            sheet.untried(NOT_RECORDED);
            return true;
        }
        sheet.tried();
        let unlike = self.base.end.unlike(&asked.end);
        if let Some(what) = &unlike {
            sheet.error(self.case(), &format!("{differs}: {what}"));
        }
        unlike.is_none()
    }
}

/// Asks every trial; returns those whose answers others build on.
pub(super) async fn answers<'a>(
    stand: &impl Stand,
    prepared: Vec<Prepared<'a>>,
    ledger: &mut Ledger,
) -> Vec<Based<'a>> {
    let Some(mut sheet) = ledger.open(Check::StateUnchanged) else { return Vec::new() };
    if prepared.is_empty() {
        sheet.nothing("there is no case");
    }
    let mut asked = Vec::new();
    for prepared in prepared {
        let base = prepared.ask(stand, &prepared.round()).await;
        // Without a state a host refuses `unchanged` as it refuses any invalid answer; with one it believes it.
        let foreign = prepared.ask(stand, &Round { state: FOREIGN, ..prepared.round() }).await;
        if matches!(foreign.end, End::Unchanged) {
            let from_nothing = prepared.trial.state.is_empty() && matches!(base.end, End::Invalid(_));
            let what = if from_nothing { "without any state" } else { "to a state that it never wrote" };
            let why = "the host would keep an answer that was never given";
            sheet.error(Some(&prepared.trial.name), &format!("it answers `unchanged` {what}: {why}"));
        }
        asked.push(Based { prepared, base });
    }
    ledger.close(sheet);
    let Some(mut sheet) = ledger.open(Check::SoundAnswer) else { return Vec::new() };
    if asked.is_empty() {
        sheet.nothing("there is no case");
    }
    let mut based = Vec::new();
    for one in asked {
        match (&one.base.end, &one.prepared.trial.expected) {
            // The case is about the failure, or its expected answer says more than this check could.
            (End::Failure(_), Expected::Met | Expected::Differs(_)) => {}
            (end @ End::Failure(_), Expected::Absent) => sheet.error(one.case(), &end.words()),
            (end, _) => match end.fault() {
                Some(fault) => sheet.error(one.case(), &fault),
                None => based.push(one),
            },
        }
    }
    ledger.close(sheet);
    based
}

/// What the cases say about their answers themselves.
pub(super) fn expected(trials: &[Trial], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::CaseExpected) else { return };
    if trials.iter().all(|trial| trial.expected == Expected::Absent) {
        sheet.nothing("no case has an `expected.txt`; `topoloom plugin test --bless` writes it");
    }
    for trial in trials {
        if let Expected::Differs(lines) = &trial.expected {
            lines.iter().for_each(|line| sheet.error(Some(&trial.name), line));
        }
    }
    ledger.close(sheet);
}

/// Nodes that follow from those of a case.
struct Variation {
    nodes: Vec<Node>,
    history: History,
    what: String,
}

impl Variation {
    fn of(nodes: Vec<Node>, what: impl Into<String>) -> Self {
        Self { nodes, history: History::None, what: what.into() }
    }
}

/// Tries all variations of all trials.
pub(super) async fn run(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    let nodes = "no case has a node";
    let keys = "no case reads a label or an annotation";
    vary(stand, based, ledger, Check::SoundNoNodes, NO_ANSWER, |_| vec![Variation::of(Vec::new(), "no node")]).await;
    vary(stand, based, ledger, Check::SoundOneNode, nodes, one_node).await;
    vary(stand, based, ledger, Check::SoundAbsent, nodes, absent).await;
    vary(stand, based, ledger, Check::SoundHalf, keys, half).await;
    vary(stand, based, ledger, Check::SoundLongValues, "no case reads a label", long_values).await;
    vary(stand, based, ledger, Check::SoundLongNames, nodes, long_names).await;
    unused(stand, based, ledger, keys).await;
    bytes(stand, based, ledger).await;
}

async fn vary(
    stand: &impl Stand,
    based: &[Based<'_>],
    ledger: &mut Ledger,
    check: Check,
    nothing: &str,
    make: impl Fn(&Prepared<'_>) -> Vec<Variation>,
) {
    let Some(mut sheet) = ledger.open(check) else { return };
    sheet.nothing(nothing);
    for one in based {
        for Variation { nodes, history, what } in make(&one.prepared) {
            sheet.tried();
            let round = Round { nodes: &nodes, history, ..one.prepared.round() };
            if let Some(fault) = one.prepared.ask(stand, &round).await.end.fault() {
                sheet.error(one.case(), &format!("{what}: {fault}"));
            }
        }
    }
    ledger.close(sheet);
}

fn one_node(prepared: &Prepared<'_>) -> Vec<Variation> {
    let first = prepared.trial.nodes.first().cloned();
    first.map(|node| Variation::of(vec![node], "one node")).into_iter().collect()
}

fn absent(prepared: &Prepared<'_>) -> Vec<Variation> {
    if prepared.trial.nodes.is_empty() {
        return Vec::new();
    }
    let bare = |node: &Node| Node { name: node.name.clone(), ..Node::default() };
    vec![Variation::of(prepared.trial.nodes.iter().map(bare).collect(), "no node has a label or an annotation")]
}

/// Every second node lacks a key, one key after the other.
fn half(prepared: &Prepared<'_>) -> Vec<Variation> {
    let without = |key: &ColumnKey| {
        let mut nodes = prepared.trial.nodes.clone();
        nodes.iter_mut().skip(1).step_by(2).for_each(|node| node.set(key, None));
        Variation::of(nodes, format!("every second node without the {key}"))
    };
    prepared.keys.iter().filter(|_| prepared.trial.nodes.len() > 1).map(without).collect()
}

fn long_values(prepared: &Prepared<'_>) -> Vec<Variation> {
    let mut nodes = prepared.trial.nodes.clone();
    let mut any = false;
    for key in prepared.keys.iter().filter(|key| matches!(key, ColumnKey::Label(_))) {
        for node in &mut nodes {
            let Some(value) = node.value(key).filter(|value| !value.is_empty()) else { continue };
            let long = format!("{value:x<LABEL_MAX$}");
            any = true;
            node.set(key, Some(long));
        }
    }
    if any { vec![Variation::of(nodes, format!("label values of {LABEL_MAX} bytes"))] } else { Vec::new() }
}

fn long_names(prepared: &Prepared<'_>) -> Vec<Variation> {
    let long = |node: &Node| Node { name: format!("{:x<SUBDOMAIN_MAX$}", node.name), ..node.clone() };
    let nodes: Vec<Node> = prepared.trial.nodes.iter().map(long).collect();
    if nodes.is_empty() {
        return Vec::new();
    }
    vec![Variation::of(nodes, format!("names of {SUBDOMAIN_MAX} bytes"))]
}

/// A dictionary may list a value that no node has any more.
async fn unused(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger, nothing: &str) {
    let Some(mut sheet) = ledger.open(Check::SoundUnused) else { return };
    sheet.nothing(nothing);
    for one in based.iter().filter(|one| !one.prepared.keys.is_empty()) {
        let round = Round { history: History::Unused, ..one.prepared.round() };
        one.answers_alike(stand, &round, &mut sheet, "with a value in a dictionary that no node has any more").await;
    }
    ledger.close(sheet);
}

/// Annotations may have any text. What a plugin does with it is not known, but it does the same with as many bytes of another
/// kind, unless it takes characters for bytes.
async fn bytes(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    let Some(mut sheet) = ledger.open(Check::SoundBytes) else { return };
    sheet.nothing("no case reads an annotation that its nodes have");
    for one in based {
        let (plain, wide) = (annotated(&one.prepared, PLAIN), annotated(&one.prepared, WIDE));
        let (Some(plain), Some(wide)) = (plain, wide) else { continue };
        let plain = one.prepared.ask(stand, &Round { nodes: &plain, ..one.prepared.round() }).await;
        let wide = one.prepared.ask(stand, &Round { nodes: &wide, ..one.prepared.round() }).await;
        if plain.is_not_recorded(&one.base) || wide.is_not_recorded(&one.base) {
            sheet.untried(NOT_RECORDED);
            continue;
        }
        sheet.tried();
        if let Some(what) = otherwise(&plain.end, &wide.end) {
            let asked = format!("with {WIDE:?} behind each annotation instead of {PLAIN:?}");
            sheet.error(one.case(), &format!("{asked}: {what}; the ends of packed text count bytes"));
        }
    }
    ledger.close(sheet);
}

/// The nodes with this behind each value of an annotation that the plugin reads; `None` where there is no such value.
fn annotated(prepared: &Prepared<'_>, behind: &str) -> Option<Vec<Node>> {
    let mut nodes = prepared.trial.nodes.clone();
    let mut any = false;
    for key in prepared.keys.iter().filter(|key| matches!(key, ColumnKey::Annotation(_))) {
        for node in &mut nodes {
            let Some(value) = node.value(key) else { continue };
            let long = format!("{value}{behind}");
            any = true;
            node.set(key, Some(long));
        }
    }
    any.then_some(nodes)
}

/// What the answer about wide text is otherwise than the one about plain text, beside the text itself.
fn otherwise(plain: &End, wide: &End) -> Option<String> {
    let (Some(first), Some(second)) = (plain.forest(), wide.forest()) else {
        // Where plain text has no answer either, the text means something that nothing can be put behind.
        return wide.fault().or_else(|| plain.forest().map(|_| wide.words()));
    };
    let (by_nodes, second_by_nodes) = (by_nodes(first), by_nodes(second));
    // The text itself may be in what is said.
    let is_known = |finding: &Finding| {
        let mut known = first.findings().iter();
        known.any(|known| {
            (&known.code, &known.subject) == (&finding.code, &finding.subject)
                && known.detail.replace(PLAIN, WIDE) == finding.detail
        })
    };
    let said_more = second.findings().len() > first.findings().len() || !second.findings().iter().all(is_known);
    for (place, ids) in &by_nodes {
        let Some(others) = second_by_nodes.get(place).filter(|others| others.len() == ids.len()) else {
            let id = ids.first().copied().unwrap_or_default();
            return (!said_more).then(|| format!("group {id:?} has no group of the same nodes"));
        };
        for (id, other) in ids.iter().zip(others) {
            let wanted = id.replace(PLAIN, WIDE);
            let is_torn = other.chars().any(|c| !c.is_ascii() && WIDE.contains(c));
            if *other != wanted && is_torn {
                return Some(format!("group {other:?} should be {wanted:?}"));
            }
        }
    }
    None
}

/// The ids of groups by tier and by the nodes below them.
fn by_nodes(forest: &Forest) -> BTreeMap<(u32, BTreeSet<NodeName>), Vec<&str>> {
    let mut found: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for (at, domain) in forest.domains().iter().enumerate() {
        found.entry((domain.tier.get(), below(forest, at))).or_default().push(&domain.id);
    }
    found
}
