//! What a plugin should answer, as files that a person reads and a repository keeps.
//!
//! ```text
//! cases/NAME/nodes.yaml      the nodes, as `kubectl get nodes -o yaml` prints them
//!            config.yaml     the configuration; absent: {}
//!            expected.txt    the answer, as `Cluster::show` of the SDK prints it
//!            recording.json  what services answered                       (optional)
//!            existing.yaml   HyperNodes that the source wrote before       (optional)
//!            state           the state of an earlier answer                (optional)
//!            time            when the round starts: then the answer may depend on it (optional)
//!            1/ 2/ …         several rounds, each with nodes.yaml and expected.txt of its own
//! ```
//!
//! A round of a case with several has what its folder has, and of the case what that lacks; its state, and the HyperNodes if
//! it has no `existing.yaml`, are those that the round before left. With another configuration it begins without a state, as
//! in a host.
//!
//! Owns the files: reading them, playing them, writing what was answered (`--bless`), and making a case of a round with a real
//! service. A case holds no credential: none crosses the boundary that a recording is made at, and a configuration that looks
//! as if it had one is not written. Never runs a check of its own: those are the kit's.
//!
//! # Failure story
//!
//! A case that cannot be read is one error with every file that is wrong, and does not hide the others. A round that ends
//! otherwise than its case says is a [`Fault`]: the two lines that differ, the exchange that was not asked for, or the
//! words of the host.

pub mod anonymise;
pub mod difference;
pub mod show;
pub mod write;

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use topoloom_core::plugin::Answered;
use topoloom_core::text;
use topoloom_core::topology::Object;
use topoloom_sandbox::endpoints::recording::{Misfit, RecordedPlugin, Recording};

use crate::existing;
use crate::node_file;
use crate::nodes::Nodes;
use crate::rounds::{Ask, Desk, Exchanges, Judged, NoAnswer, Round};
use difference::Difference;

/// The nodes of a round.
pub const NODES: &str = "nodes.yaml";
/// Its configuration.
pub const CONFIG: &str = "config.yaml";
/// Its answer.
pub const EXPECTED: &str = "expected.txt";
/// What services answered.
pub const RECORDING: &str = "recording.json";
/// HyperNodes that were written before.
pub const EXISTING: &str = "existing.yaml";
/// The state of an earlier answer.
pub const STATE: &str = "state";
/// When the round starts.
pub const TIME: &str = "time";

/// The largest file of a case: a recording of the largest answer of a fabric manager, and room for the others.
const LARGEST: u64 = 512 << 20;

/// A case.
#[derive(Debug, Clone)]
pub struct Case {
    /// The name of its folder.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The state of the first round.
    pub state: Vec<u8>,
    /// When its rounds start, where the answer may depend on that.
    pub time: Option<Timestamp>,
    /// What services answer in all of its rounds.
    pub recording: Option<Recording>,
    /// Its rounds, at least one.
    pub turns: Vec<Turn>,
}

/// One round of a case.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The folder with its `expected.txt`.
    pub folder: PathBuf,
    /// Its nodes.
    pub nodes: Nodes,
    /// Its configuration, JSON.
    pub config: String,
    /// HyperNodes of the source; `None`: those of the round before.
    pub existing: Option<Vec<Arc<Object>>>,
    /// What services answer in this round only.
    pub recording: Option<Recording>,
    /// What it should answer; `None`: that was never written.
    pub expected: Option<String>,
}

/// Why a folder is no case: every file that is wrong.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the case {name}: {}", .wrong.join("; "))]
pub struct CaseError {
    /// The name of the folder.
    pub name: String,
    /// Each with its path.
    pub wrong: Vec<String>,
}

impl Case {
    /// Every case of a folder, by name. A folder that does not exist has none.
    ///
    /// # Errors
    /// Those that cannot be read.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, Vec<CaseError>> {
        let broken = |error: std::io::Error| {
            vec![CaseError { name: shown(folder), wrong: vec![format!("{}: {error}", folder.display())] }]
        };
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(broken(error)),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let path = entry.map_err(broken)?.path();
            let is_hidden = shown(&path).starts_with('.');
            if path.is_dir() && !is_hidden {
                folders.push(path);
            }
        }
        folders.sort_unstable();
        let (mut cases, mut wrong) = (Vec::new(), Vec::new());
        for folder in &folders {
            match Self::read(folder) {
                Ok(case) => cases.push(case),
                Err(error) => wrong.push(error),
            }
        }
        if wrong.is_empty() { Ok(cases) } else { Err(wrong) }
    }

    /// One case.
    ///
    /// # Errors
    /// Every file of it that is wrong.
    pub fn read(folder: &Path) -> Result<Self, CaseError> {
        let mut reader = Reader { wrong: Vec::new() };
        let config = reader.config(folder);
        let existing = reader.existing(folder);
        let (rounds, others) = numbered(folder);
        let next = rounds.len() + 1;
        let misplaced = |path: &PathBuf| {
            format!("{}: it is no round, since there is no round {next}; call it {next}, or remove it", path.display())
        };
        reader.wrong.extend(others.iter().map(misplaced));
        let turns = if rounds.is_empty() {
            vec![Turn {
                folder: folder.to_owned(),
                nodes: reader.nodes(folder).unwrap_or_default(),
                config: config.unwrap_or_else(nothing),
                existing: Some(existing.unwrap_or_default()),
                recording: None,
                expected: reader.expected(folder),
            }]
        } else {
            let turn = |(at, folder): (usize, PathBuf)| Turn {
                nodes: reader.nodes(&folder).unwrap_or_default(),
                config: reader.config(&folder).or_else(|| config.clone()).unwrap_or_else(nothing),
                existing: reader.existing(&folder).or_else(|| (at == 0).then(|| existing.clone().unwrap_or_default())),
                recording: reader.recording(&folder),
                expected: reader.expected(&folder),
                folder,
            };
            rounds.into_iter().enumerate().map(turn).collect()
        };
        let (state, time) = (reader.bytes(folder, STATE).unwrap_or_default(), reader.time(folder));
        let recording = reader.recording(folder);
        let name = shown(folder);
        if !reader.wrong.is_empty() {
            return Err(CaseError { name, wrong: reader.wrong });
        }
        Ok(Self { name, folder: folder.to_owned(), state, time, recording, turns })
    }
}

/// Reads files and keeps what is wrong with each.
struct Reader {
    wrong: Vec<String>,
}

impl Reader {
    fn noted<T, E: std::fmt::Display>(&mut self, path: &Path, read: Result<T, E>) -> Option<T> {
        read.map_err(|error| self.wrong.push(format!("{}: {error}", path.display()))).ok()
    }

    /// The bytes of a file that may be absent.
    fn bytes(&mut self, folder: &Path, name: &str) -> Option<Vec<u8>> {
        let path = folder.join(name);
        match regular(&path).and_then(contents) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            other => self.noted(&path, other),
        }
    }

    fn text(&mut self, folder: &Path, name: &str) -> Option<String> {
        let bytes = self.bytes(folder, name)?;
        let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text");
        self.noted(&folder.join(name), text)
    }

    fn nodes(&mut self, folder: &Path) -> Option<Nodes> {
        let path = folder.join(NODES);
        let nodes = regular(&path).map_err(|error| error.to_string()).and_then(|file| {
            match Nodes::parse(BufReader::new(file)) {
                Err(node_file::Error::Read(error)) => Err(error.to_string()),
                other => other.map_err(|error| error.to_string()),
            }
        });
        self.noted(&path, nodes)
    }

    fn config(&mut self, folder: &Path) -> Option<String> {
        let text = self.text(folder, CONFIG)?;
        self.noted(&folder.join(CONFIG), config(&text))
    }

    fn existing(&mut self, folder: &Path) -> Option<Vec<Arc<Object>>> {
        let text = self.text(folder, EXISTING)?;
        self.noted(&folder.join(EXISTING), existing::parse(&text))
    }

    fn recording(&mut self, folder: &Path) -> Option<Recording> {
        let text = self.text(folder, RECORDING)?;
        self.noted(&folder.join(RECORDING), Recording::parse(&text))
    }

    fn expected(&mut self, folder: &Path) -> Option<String> {
        self.text(folder, EXPECTED)
    }

    fn time(&mut self, folder: &Path) -> Option<Timestamp> {
        let text = self.text(folder, TIME)?;
        let time = text.trim().parse::<Timestamp>();
        let shown = text::line(text.trim(), 80);
        let time = time.map_err(|_| format!("{shown:?} is no time; write one as 2026-01-31T12:00:00Z"));
        self.noted(&folder.join(TIME), time)
    }
}

/// A regular file that is not too large, to be read no further than that. What it is, is known before it is opened: opening a
/// pipe would wait for its other end, and a device may have no end at all.
fn regular(path: &Path) -> std::io::Result<std::io::Take<File>> {
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if found.len() > LARGEST {
        return Err(std::io::Error::other(format!("it is larger than {LARGEST} bytes, the most that is read")));
    }
    Ok(File::open(path)?.take(LARGEST))
}

fn contents(mut file: std::io::Take<File>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts a file in the place of another one, whole: what is there may be a link to a file elsewhere, which stays as it is.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let next = file.with_extension(format!("{}.new", std::process::id()));
    let mut written = OpenOptions::new().write(true).create_new(true).open(&next)?;
    let done = written.write_all(text.as_bytes()).and_then(|()| std::fs::rename(&next, file));
    if done.is_err() {
        let _ = std::fs::remove_file(&next);
    }
    done
}

/// A configuration as JSON, out of YAML with the booleans and numbers that a document of the host has.
///
/// # Errors
/// Where it is no mapping.
pub fn config(text: &str) -> Result<String, String> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    match value {
        Value::Object(_) => Ok(value.to_string()),
        Value::Null => Ok(nothing()),
        _ => Err("it is no mapping: give the `config` of an entry".to_owned()),
    }
}

/// No configuration.
fn nothing() -> String {
    "{}".to_owned()
}

/// The folders of single rounds, in the order of their numbers, and those that a gap or another form keeps out of the order.
fn numbered(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let rounds: Vec<PathBuf> =
        (1..).map(|number: u32| folder.join(number.to_string())).take_while(|round| round.is_dir()).collect();
    let is_number = |path: &PathBuf| {
        let name = shown(path);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) && path.is_dir()
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let mut others: Vec<PathBuf> = entries.filter(is_number).filter(|path| !rounds.contains(path)).collect();
    others.sort_unstable();
    (rounds, others)
}

/// The last part of a path.
fn shown(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A case that was played.
pub struct Played {
    /// One per round, as far as it came: a round that the host ended is the last one.
    pub turns: Vec<PlayedTurn>,
    /// What is wrong beside single rounds.
    pub faults: Vec<Fault>,
}

/// One round of it.
pub struct PlayedTurn {
    /// Where its `expected.txt` is.
    pub folder: PathBuf,
    /// What it answered, as text; `None` where the host ended it.
    pub shown: Option<String>,
    /// The round.
    pub round: Round,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

/// What a case says and the plugin does otherwise.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Fault {
    /// Another answer.
    #[error("{}: the answer differs\n{difference}", .file.display())]
    Differs {
        /// The file with the expected answer.
        file: PathBuf,
        /// The lines.
        difference: Difference,
    },
    /// There is nothing to compare with.
    #[error("{}: there is no such file; --bless writes the answer of now", .0.display())]
    NothingExpected(PathBuf),
    /// The host would not use the answer.
    #[error("{0}")]
    NoAnswer(NoAnswer),
    /// An earlier round has no answer.
    #[error(
        "{}: this round is not played, since the host ended the one in {}; repair that one first", .folder.display(),
        .after.display()
    )]
    NotPlayed {
        /// The folder of the round.
        folder: PathBuf,
        /// That of the round that the host ended.
        after: PathBuf,
    },
    /// The recording is of other requests.
    #[error("{}", differs(.file, .recorded.as_ref(), .misfit))]
    Recording {
        /// The recording.
        file: PathBuf,
        /// Which plugin was asking when it was made.
        recorded: Option<RecordedPlugin>,
        /// What was asked in vain, and what was not asked.
        misfit: Misfit,
    },
    /// The recording is of another plugin.
    #[error(
        "{}: it is a recording of the plugin {recorded}, and this is {now}; record the case again with `topoloom plugin run \
         --record`", .file.display()
    )]
    OtherPlugin {
        /// The recording.
        file: PathBuf,
        /// Which plugin was asking.
        recorded: RecordedPlugin,
        /// Which plugin is asking now.
        now: RecordedPlugin,
    },
    /// The recording is of other sources.
    #[error("{}: {what}", .file.display())]
    OtherSource {
        /// The recording.
        file: PathBuf,
        /// Which.
        what: String,
    },
}

/// Which exchange, and what was asked instead.
fn differs(file: &Path, recorded: Option<&RecordedPlugin>, misfit: &Misfit) -> String {
    let of = recorded.map(|recorded| format!(" (of {recorded})")).unwrap_or_default();
    let what = match (misfit.unasked.as_slice(), misfit.missing.as_slice()) {
        ([], missing) => format!("the plugin asks {}, which it does not have", missing.join(", ")),
        (unasked, []) => format!("the plugin does not ask {}", unasked.join(", ")),
        (unasked, missing) => format!("it has {}; asked instead: {}", unasked.join(", "), missing.join(", ")),
    };
    format!("{}{of}: {what}; record the case again with `topoloom plugin run --record`", file.display())
}

impl Played {
    /// Everything that is wrong.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().chain(self.turns.iter().flat_map(|turn| &turn.faults))
    }

    /// Writes what was answered as what is expected. Nothing is written of a round that the host ended, and nothing where a
    /// recording did not fit: neither is ever right.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn bless(&self) -> std::io::Result<Vec<PathBuf>> {
        let is_other = |fault: &Fault| {
            !matches!(fault, Fault::Differs { .. } | Fault::NothingExpected(_) | Fault::NotPlayed { .. })
        };
        let mut written = Vec::new();
        if self.faults.iter().any(is_other) {
            return Ok(written);
        }
        for turn in self.turns.iter().filter(|turn| !turn.faults.iter().any(is_other)) {
            let Some(shown) = &turn.shown else { continue };
            let file = turn.folder.join(EXPECTED);
            let known = regular(&file).and_then(contents);
            if known.ok().as_deref() != Some(shown.as_bytes()) {
                replace(&file, shown)?;
                written.push(file);
            }
        }
        Ok(written)
    }
}

/// What a round answered, as text; `None` where the host ended it, or does not use the answer.
#[must_use]
pub fn shown_round(round: &Round) -> Option<String> {
    match &round.end {
        Ok(Judged::Unchanged) => Some(show::show(&Answered::Unchanged, &[])),
        Ok(Judged::Found(found)) => Some(show::topology(&found.topology, found.view.names())),
        Err(why) => why.call().and_then(show::failure),
    }
}

/// Plays a case: its rounds in order, state and HyperNodes carried on, everything compared.
pub async fn play(desk: &Desk, case: &Case) -> Played {
    let mut played = Played { turns: Vec::new(), faults: Vec::new() };
    if let Err(fault) = turns(desk, case, &mut played).await {
        played.faults.push(fault);
    }
    played
}

/// The rounds. One that fails leaves the state and the HyperNodes as they are, as in a host; one that the host ended is the
/// last one.
async fn turns(desk: &Desk, case: &Case, played: &mut Played) -> Result<(), Fault> {
    let shared = Tape::of(desk, case.recording.as_ref(), &case.folder).await?;
    let (mut state, mut existing) = (case.state.clone(), Vec::new());
    // The configuration that serves: a host keeps the one before where `configure` refuses another.
    let mut serving: Option<&str> = None;
    for (at, turn) in case.turns.iter().enumerate() {
        let own = Tape::of(desk, turn.recording.as_ref(), &turn.folder).await?;
        if let Some(given) = &turn.existing {
            existing = of_desk(desk, given);
        }
        let is_other = serving.is_some_and(|serving| serving != turn.config);
        let ask = Ask {
            existing: &existing,
            time: case.time.unwrap_or(Timestamp::UNIX_EPOCH),
            state: if is_other { &[] } else { state.as_slice() },
            exchanges: own.as_ref().or(shared.as_ref()).map(|tape| tape.exchanges.clone()).unwrap_or_default(),
            ..Ask::new(&turn.nodes, &turn.config)
        };
        let round = desk.discover(&ask).await;
        if !matches!(round.end, Err(NoAnswer::Configure(_))) {
            serving = Some(turn.config.as_str());
            if is_other {
                state.clear();
            }
        }
        let mut turn = PlayedTurn::of(turn, round);
        if let Some(own) = &own {
            // The cause comes before what follows from it.
            let fault = own.fault(turn.shown.is_some());
            turn.faults.splice(0..0, fault);
        }
        if turn.round.end.is_ok() {
            state.clone_from(&turn.round.state);
        }
        if let Some(found) = turn.round.found() {
            existing = found.written(&existing);
        }
        let (folder, is_last) = (turn.folder.clone(), turn.shown.is_none());
        played.turns.push(turn);
        if is_last {
            let left = case.turns.iter().skip(at + 1);
            played
                .faults
                .extend(left.map(|left| Fault::NotPlayed { folder: left.folder.clone(), after: folder.clone() }));
            break;
        }
    }
    // It lasts for all rounds, so only now it is known what no round asked.
    let has_answers = played.turns.iter().all(|turn| turn.shown.is_some());
    played.faults.extend(shared.and_then(|shared| shared.fault(has_answers)));
    Ok(())
}

/// A case is about one source, the plugin's, whatever it was called in the cluster that the objects are from. What was made
/// by hand stays so.
pub(crate) fn of_desk(desk: &Desk, given: &[Arc<Object>]) -> Vec<Arc<Object>> {
    let own = |object: &Arc<Object>| match &object.source {
        Some(source) if source != desk.source() => {
            Arc::new(Object { source: Some(desk.source().clone()), ..Object::clone(object) })
        }
        _ => Arc::clone(object),
    };
    given.iter().map(own).collect()
}

/// A recording that answers.
struct Tape {
    exchanges: Exchanges,
    file: PathBuf,
    recorded: Option<RecordedPlugin>,
}

impl Tape {
    /// The recording in a folder, if it is one of this plugin.
    async fn of(desk: &Desk, recording: Option<&Recording>, folder: &Path) -> Result<Option<Self>, Fault> {
        let Some(recording) = recording else { return Ok(None) };
        let file = folder.join(RECORDING);
        let recorded = recording.plugin().cloned();
        if let Some(recorded) = &recorded
            && let Ok(description) = desk.describe().await.end
            && description.name != recorded.name
        {
            let now = RecordedPlugin { name: description.name, version: description.version };
            return Err(Fault::OtherPlugin { file, recorded: recorded.clone(), now });
        }
        match desk.replay(recording.clone()) {
            Ok(exchanges) => Ok(Some(Self { exchanges, file, recorded })),
            Err(what) => Err(Fault::OtherSource { file, what }),
        }
    }

    /// What did not fit. A round that the host ended asked less than it would have; any other one has to ask for all of it,
    /// also where its answer differs: half of an answer is nothing to bless.
    fn fault(&self, has_answer: bool) -> Option<Fault> {
        let Exchanges::Replay(replay) = &self.exchanges else { return None };
        let misfit = replay.misfit();
        if misfit.is_none() || !has_answer && misfit.missing.is_empty() {
            return None;
        }
        Some(Fault::Recording { file: self.file.clone(), recorded: self.recorded.clone(), misfit })
    }
}

impl PlayedTurn {
    fn of(turn: &Turn, round: Round) -> Self {
        let shown = shown_round(&round);
        let file = turn.folder.join(EXPECTED);
        let fault = match (&shown, &turn.expected, &round.end) {
            (None, _, Err(why)) => Some(Fault::NoAnswer(why.clone())),
            // Every answer has a text.
            (None, _, Ok(_)) => None,
            (Some(_), None, _) => Some(Fault::NothingExpected(file)),
            (Some(shown), Some(expected), _) => {
                Difference::of(expected, shown).map(|difference| Fault::Differs { file, difference })
            }
        };
        Self { folder: turn.folder.clone(), shown, round, faults: fault.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "items:\n- metadata: {name: m1, labels: {rack: a}}\n- metadata: {name: m2}\n";
    const OBJECT: &str = "kind: HyperNode\nmetadata: {name: old}\nspec: {tier: 1, members: []}\n";

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn a_case_is_read_with_all_that_it_may_have() {
        let files = [
            ("a/nodes.yaml", TWO),
            ("a/config.yaml", "label: rack\nstrict: yes\nmode: 010\n"),
            ("a/expected.txt", "tier 1 rack | a | rack=a | m1\n"),
            ("a/existing.yaml", OBJECT),
            ("a/state", "7"),
            ("a/time", "2026-01-31T12:00:00Z\n"),
            ("a/recording.json", r#"{"version": 1, "sources": {}}"#),
            (".hidden/nodes.yaml", ""),
            ("README.md", ""),
        ];
        let cases = folder(&files);
        let [case] = Case::read_all(cases.path()).unwrap().try_into().unwrap();
        assert_eq!((case.name.as_str(), case.state.as_slice()), ("a", &b"7"[..]));
        assert_eq!(case.time.unwrap().to_string(), "2026-01-31T12:00:00Z");
        assert!(case.recording.is_some());
        let [turn] = &case.turns[..] else { panic!("{case:?}") };
        // As in a document of the host.
        assert_eq!(turn.config, r#"{"label":"rack","mode":8,"strict":true}"#);
        assert_eq!((turn.nodes.len(), turn.existing.as_ref().unwrap().len()), (2, 1));
        assert!(turn.expected.as_ref().unwrap().starts_with("tier 1"));
    }

    #[test]
    fn rounds_have_what_their_folders_have_and_of_the_case_the_rest() {
        let files = [
            ("a/config.yaml", "label: rack\n"),
            ("a/existing.yaml", OBJECT),
            ("a/1/nodes.yaml", TWO),
            ("a/2/nodes.yaml", TWO),
            ("a/2/config.yaml", "label: row\n"),
            ("a/3/nodes.yaml", "items: []\n"),
            ("a/3/existing.yaml", "items: []\n"),
        ];
        let cases = folder(&files);
        let [case] = Case::read_all(cases.path()).unwrap().try_into().unwrap();
        let said: Vec<_> = case
            .turns
            .iter()
            .map(|turn| (turn.config.as_str(), turn.nodes.len(), turn.existing.as_ref().map(Vec::len)))
            .collect();
        let (rack, row) = (r#"{"label":"rack"}"#, r#"{"label":"row"}"#);
        // The second round has the objects that the first one wrote.
        assert_eq!(said, [(rack, 2, Some(1)), (row, 2, None), (rack, 0, Some(0))]);
    }

    #[test]
    fn a_round_behind_a_gap_is_an_error() {
        let files =
            [("a/1/nodes.yaml", TWO), ("a/2/nodes.yaml", TWO), ("a/4/nodes.yaml", TWO), ("b/01/nodes.yaml", TWO)];
        let cases = folder(&files);
        std::fs::write(cases.path().join("a/7"), "a file").unwrap();
        let [a, b] = Case::read_all(cases.path()).unwrap_err().try_into().unwrap();
        let words = "a/4: it is no round, since there is no round 3; call it 3, or remove it";
        assert!(a.wrong.len() == 1 && a.wrong[0].ends_with(words), "{a}");
        assert!(b.wrong[0].contains("b/01: it is no round, since there is no round 1; call it 1"), "{b}");
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let cases = folder(&[("a/nodes.yaml", TWO)]);
        let a = cases.path().join("a");
        for name in [CONFIG, STATE, RECORDING] {
            std::os::unix::fs::symlink("/dev/zero", a.join(name)).unwrap();
        }
        std::fs::remove_file(a.join(NODES)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", a.join(NODES)).unwrap();
        let error = Case::read(&a).unwrap_err();
        assert_eq!(error.to_string().matches("it is not a regular file").count(), 4, "{error}");
    }

    #[test]
    fn what_is_written_replaces_a_link_and_not_what_it_leads_to() {
        let cases = folder(&[("elsewhere", "precious")]);
        let file = cases.path().join(EXPECTED);
        std::os::unix::fs::symlink(cases.path().join("elsewhere"), &file).unwrap();
        replace(&file, "unchanged\n").unwrap();
        let read = |name: &str| std::fs::read_to_string(cases.path().join(name)).unwrap();
        assert_eq!((read("elsewhere"), read(EXPECTED)), ("precious".to_owned(), "unchanged\n".to_owned()));
        assert!(file.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read_dir(cases.path()).unwrap().count(), 2, "nothing is left over");
    }

    #[test]
    fn everything_that_is_wrong_is_said_with_its_file_and_a_missing_folder_has_no_cases() {
        let files = [
            ("a/config.yaml", "[1]\n"),
            ("a/time", "noon"),
            ("a/recording.json", "{}"),
            ("b/nodes.yaml", "kind: Pod\n"),
            ("c/nodes.yaml", TWO),
        ];
        let cases = folder(&files);
        let wrong = Case::read_all(cases.path()).unwrap_err();
        let said: Vec<_> = wrong.iter().map(|error| (error.name.as_str(), error.wrong.len())).collect();
        assert_eq!(said, [("a", 4), ("b", 1)]);
        let all = wrong[0].to_string();
        for words in [
            "config.yaml: it is no mapping",
            "nodes.yaml: No such file",
            "time: \"noon\" is no time",
            "it is no recording",
        ] {
            assert!(all.contains(words), "{words}: {all}");
        }
        assert_eq!(Case::read_all(&cases.path().join("nowhere")).unwrap().len(), 0);
    }

    #[test]
    fn a_recording_that_does_not_fit_is_said_with_both_sides() {
        let said = |unasked: &[&str], missing: &[&str]| {
            let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect();
            let recorded = RecordedPlugin { name: "racks".into(), version: "0.1.0".into() };
            differs(Path::new("r"), Some(&recorded), &Misfit { unasked: texts(unasked), missing: texts(missing) })
        };
        let again = "; record the case again with `topoloom plugin run --record`";
        let (old, new) = ("GET /v1 of the endpoint e", "GET /v2 of the endpoint e");
        assert_eq!(said(&[old], &[new]), format!("r (of racks 0.1.0): it has {old}; asked instead: {new}{again}"));
        assert_eq!(said(&[old], &[]), format!("r (of racks 0.1.0): the plugin does not ask {old}{again}"));
        assert_eq!(
            said(&[], &[new]),
            format!("r (of racks 0.1.0): the plugin asks {new}, which it does not have{again}")
        );
    }
}
