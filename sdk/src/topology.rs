//! Builds an answer: levels, groups, diagnostics. Hides positions and forms of members.

use crate::nodes::Row;
use crate::{Coverage, Diagnostic, Group, LabelSelector, Level, Members, Packed, Subject, Topology};

/// A level of the answer under construction.
///
/// ```
/// use topoloom_sdk::{Level, LevelRef, TopologyBuilder};
///
/// let racks: LevelRef = TopologyBuilder::new().level(Level::new(1));
/// # let _ = racks;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelRef(u32);

/// A group of the answer under construction.
///
/// ```
/// use topoloom_sdk::{GroupRef, Level, TopologyBuilder};
///
/// let mut topology = TopologyBuilder::new();
/// let racks = topology.level(Level::new(1));
/// let rack: GroupRef = topology.group(racks, "a7").rows(vec![0, 1]);
/// # let _ = rack;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupRef(u32);

/// Collects levels, groups and diagnostics. Add groups lowest tier first: only an existing group can be a member.
///
/// ```
/// use topoloom_sdk::{Level, TopologyBuilder};
///
/// let mut topology = TopologyBuilder::new();
/// let (racks, rooms) = (topology.level(Level::new(1).named("rack")), topology.level(Level::new(2).named("room")));
/// let members = [("a7", vec![0, 1]), ("b1", vec![2])].map(|(rack, rows)| topology.group(racks, rack).rows(rows));
/// topology.group(rooms, "r1").groups(members);
/// assert_eq!(topology.finish().groups.len(), 3);
/// ```
#[derive(Debug)]
pub struct TopologyBuilder {
    topology: Topology,
}

impl TopologyBuilder {
    /// An empty answer with complete coverage: a node that it does not mention loses its place.
    ///
    /// ```
    /// use topoloom_sdk::{Coverage, TopologyBuilder};
    ///
    /// assert_eq!(TopologyBuilder::new().finish().coverage, Coverage::Complete);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self {
            topology: Topology {
                coverage: Coverage::Complete,
                levels: Vec::new(),
                groups: Vec::new(),
                diagnostics: Vec::new(),
            },
        }
    }

    /// Coverage without removals: a node that the answer does not mention keeps its place.
    ///
    /// ```
    /// use topoloom_sdk::{Coverage, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// topology.additions_only();
    /// assert_eq!(topology.finish().coverage, Coverage::AdditionsOnly);
    /// ```
    pub fn additions_only(&mut self) -> &mut Self {
        self.topology.coverage = Coverage::AdditionsOnly;
        self
    }

    /// Reserves room for so many groups.
    ///
    /// ```
    /// let mut topology = topoloom_sdk::TopologyBuilder::new();
    /// topology.reserve(1000);
    /// ```
    pub fn reserve(&mut self, groups: usize) {
        self.topology.groups.reserve_exact(groups);
    }

    /// Adds a level: the tier and names that many groups share.
    ///
    /// ```
    /// use topoloom_sdk::{Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// topology.level(Level::new(1).named("rack").kind("rack"));
    /// assert_eq!(topology.finish().levels[0].tier, 1);
    /// ```
    pub fn level(&mut self, level: Level) -> LevelRef {
        self.topology.levels.push(level);
        LevelRef(position(self.topology.levels.len()))
    }

    /// Adds a group. `id` is its identity: unique in the answer, the same in every round, 1 to 512 bytes. The group is in
    /// the answer once its members are set.
    ///
    /// ```
    /// use topoloom_sdk::{Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let racks = topology.level(Level::new(1));
    /// topology.group(racks, "r1/a7").label("rack", "a7").rows(vec![0]);
    /// assert_eq!(topology.finish().groups[0].id, "r1/a7");
    /// ```
    pub fn group(&mut self, level: LevelRef, id: impl Into<String>) -> GroupBuilder<'_> {
        let group = Group {
            id: id.into(),
            level: level.0,
            labels: Vec::new(),
            members: Members::Rows(Vec::new()),
            description: None,
            fixed_name: None,
        };
        GroupBuilder { topology: &mut self.topology, group }
    }

    /// Reports a record that was dropped or corrected. `code` is a short stable word, `detail` one sentence.
    ///
    /// ```
    /// use topoloom_sdk::{Subject, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// topology.diagnose("unusable-record", Subject::Source, "3 of 900 records are left out");
    /// topology.diagnose("no-rack", Subject::Rows(vec![4, 7]), "these nodes have no rack");
    /// assert_eq!(topology.finish().diagnostics.len(), 2);
    /// ```
    pub fn diagnose(&mut self, code: &str, subject: Subject, detail: impl Into<String>) {
        self.topology.diagnostics.push(Diagnostic { code: code.to_owned(), subject, detail: detail.into() });
    }

    /// The answer.
    ///
    /// ```
    /// use topoloom_sdk::{Answer, TopologyBuilder};
    ///
    /// let answer: Answer = TopologyBuilder::new().finish().into();
    /// # let _ = answer;
    /// ```
    #[must_use]
    pub fn finish(self) -> Topology {
        self.topology
    }
}

impl Default for TopologyBuilder {
    fn default() -> Self {
        Self::new()
    }
}

/// A group without its members yet.
///
/// ```
/// use topoloom_sdk::{GroupBuilder, Level, TopologyBuilder};
///
/// /// What all groups of a plugin have.
/// fn ours<'a>(group: GroupBuilder<'a>, rack: &str) -> GroupBuilder<'a> {
///     group.label("rack", rack).description(&format!("rack {rack}"))
/// }
///
/// let mut topology = TopologyBuilder::new();
/// let racks = topology.level(Level::new(1));
/// ours(topology.group(racks, "a7"), "a7").rows(vec![0]);
/// ```
#[derive(Debug)]
#[must_use = "a group is in the answer once its members are set"]
pub struct GroupBuilder<'a> {
    topology: &'a mut Topology,
    group: Group,
}

impl GroupBuilder<'_> {
    /// A label of the object.
    ///
    /// ```
    /// use topoloom_sdk::{Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let level = topology.level(Level::new(1));
    /// topology.group(level, "a7").label("example.com/rack", "a7").rows(vec![0]);
    /// ```
    pub fn label(mut self, key: &str, value: &str) -> Self {
        // Exact, since most groups have one label and there are many groups.
        self.group.labels.reserve_exact(1);
        self.group.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// A description for people: one line of at most 256 bytes, for instance the switches of a unit. Becomes an annotation.
    /// A group without one keeps the annotation that the object has.
    ///
    /// ```
    /// use topoloom_sdk::{Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let level = topology.level(Level::new(1));
    /// topology.group(level, "su2").description("leaf-07, leaf-08").rows(vec![0]);
    /// ```
    pub fn description(mut self, description: &str) -> Self {
        self.group.description = Some(description.to_owned());
        self
    }

    /// A fixed name of the object, for names that other programs rely on. Otherwise the host chooses the name.
    ///
    /// ```
    /// use topoloom_sdk::{Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let level = topology.level(Level::new(1));
    /// topology.group(level, "a7").fixed_name("hypernode-a7").rows(vec![0]);
    /// ```
    pub fn fixed_name(mut self, name: &str) -> Self {
        self.group.fixed_name = Some(name.to_owned());
        self
    }

    /// Its members are these nodes. The cheapest form.
    ///
    /// ```
    /// use topoloom_sdk::{Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let level = topology.level(Level::new(1));
    /// topology.group(level, "a7").rows(vec![0, 1, 2]);
    /// ```
    pub fn rows(self, rows: Vec<Row>) -> GroupRef {
        self.members(Members::Rows(rows))
    }

    /// Its members are these groups, each of a lower tier and in no other group.
    ///
    /// ```
    /// use topoloom_sdk::{Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let level = topology.level(Level::new(1));
    /// let upper = topology.level(Level::new(2));
    /// let rack = topology.group(level, "a7").rows(vec![0]);
    /// topology.group(upper, "room").groups([rack]);
    /// ```
    pub fn groups(self, groups: impl IntoIterator<Item = GroupRef>) -> GroupRef {
        self.members(Members::Groups(groups.into_iter().map(|group| group.0).collect()))
    }

    /// Its members are the nodes of these names, existing or not. Without the grant `nodeNames` the host
    /// shows the source its own objects without their Nodes from then on: these would show which of the names exist.
    ///
    /// ```
    /// use topoloom_sdk::{Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let level = topology.level(Level::new(1));
    /// topology.group(level, "a7").names(["gpu-a017", "gpu-a018"]);
    /// ```
    pub fn names<S: AsRef<str>>(self, names: impl IntoIterator<Item = S>) -> GroupRef {
        self.members(Members::Names(names.into_iter().collect::<Packed>()))
    }

    /// Its members are the nodes that a selector matches. Each reader of the object evaluates the selector.
    ///
    /// ```
    /// use topoloom_sdk::{LabelSelector, Level, TopologyBuilder};
    ///
    /// let mut topology = TopologyBuilder::new();
    /// let level = topology.level(Level::new(1));
    /// let east = LabelSelector { match_labels: vec![("zone".into(), "east".into())], match_expressions: Vec::new() };
    /// topology.group(level, "east").selector(east);
    /// ```
    pub fn selector(self, selector: LabelSelector) -> GroupRef {
        self.members(Members::Selector(selector))
    }

    fn members(mut self, members: Members) -> GroupRef {
        self.group.members = members;
        self.topology.groups.push(self.group);
        GroupRef(position(self.topology.groups.len()))
    }
}

impl From<GroupRef> for Subject {
    fn from(group: GroupRef) -> Self {
        Self::Group(group.0)
    }
}

impl Level {
    /// A tier, 1 (closest) to 16.
    ///
    /// ```
    /// assert_eq!(topoloom_sdk::Level::new(1).tier_name, None);
    /// ```
    #[must_use]
    pub fn new(tier: u32) -> Self {
        Self { tier, tier_name: None, kind: None }
    }

    /// The name of this tier.
    ///
    /// ```
    /// assert_eq!(topoloom_sdk::Level::new(1).named("rack").tier_name.as_deref(), Some("rack"));
    /// ```
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { tier_name: Some(name.to_owned()), ..self }
    }

    /// The "type" part of new object names.
    ///
    /// ```
    /// assert_eq!(topoloom_sdk::Level::new(1).kind("rack").kind.as_deref(), Some("rack"));
    /// ```
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        Self { kind: Some(kind.to_owned()), ..self }
    }
}

/// The position of the last of `length` elements. The host's limit on groups lies far below `u32::MAX`.
fn position(length: usize) -> u32 {
    u32::try_from(length - 1).unwrap_or(u32::MAX)
}
