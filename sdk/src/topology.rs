//! Builds an answer: levels, groups, diagnostics. Hides positions and forms of members.

use crate::nodes::Row;
use crate::{Coverage, Diagnostic, Group, LabelSelector, Level, Members, Packed, Subject, Topology};

/// A level of the answer under construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelRef(u32);

/// A group of the answer under construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupRef(u32);

/// Collects levels, groups and diagnostics. Add groups lowest tier first: only an existing group can be a member.
#[derive(Debug)]
pub struct TopologyBuilder {
    topology: Topology,
}

impl TopologyBuilder {
    /// An empty answer with complete coverage: a node that it does not mention loses its place.
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
    pub fn additions_only(&mut self) -> &mut Self {
        self.topology.coverage = Coverage::AdditionsOnly;
        self
    }

    /// Reserves room for so many groups.
    pub fn reserve(&mut self, groups: usize) {
        self.topology.groups.reserve_exact(groups);
    }

    /// Adds a level: the tier and names that many groups share.
    pub fn level(&mut self, level: Level) -> LevelRef {
        self.topology.levels.push(level);
        LevelRef(position(self.topology.levels.len()))
    }

    /// Adds a group. `id` is its identity: unique in the answer, the same in every round, 1 to 512 bytes. The group is in
    /// the answer once its members are set.
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
    pub fn diagnose(&mut self, code: &str, subject: Subject, detail: impl Into<String>) {
        self.topology.diagnostics.push(Diagnostic { code: code.to_owned(), subject, detail: detail.into() });
    }

    /// The answer.
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
#[derive(Debug)]
#[must_use = "a group is in the answer once its members are set"]
pub struct GroupBuilder<'a> {
    topology: &'a mut Topology,
    group: Group,
}

impl GroupBuilder<'_> {
    /// A label of the object.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        // Exact, since most groups have one label and there are many groups.
        self.group.labels.reserve_exact(1);
        self.group.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// A description for people: one line of at most 256 bytes, for instance the switches of a unit. Becomes an annotation.
    /// A group without one keeps the annotation that the object has.
    pub fn description(mut self, description: &str) -> Self {
        self.group.description = Some(description.to_owned());
        self
    }

    /// A fixed name of the object, for names that other programs rely on. Otherwise the host chooses the name.
    pub fn fixed_name(mut self, name: &str) -> Self {
        self.group.fixed_name = Some(name.to_owned());
        self
    }

    /// Its members are these nodes. The cheapest form.
    pub fn rows(self, rows: Vec<Row>) -> GroupRef {
        self.members(Members::Rows(rows))
    }

    /// Its members are these groups, each of a lower tier and in no other group.
    pub fn groups(self, groups: impl IntoIterator<Item = GroupRef>) -> GroupRef {
        self.members(Members::Groups(groups.into_iter().map(|group| group.0).collect()))
    }

    /// Its members are the nodes of these names, existing or not. Without the grant `nodeNames` the host
    /// shows the source its own objects without their Nodes from then on: these would show which of the names exist.
    pub fn names<S: AsRef<str>>(self, names: impl IntoIterator<Item = S>) -> GroupRef {
        self.members(Members::Names(names.into_iter().collect::<Packed>()))
    }

    /// Its members are the nodes that a selector matches. Each reader of the object evaluates the selector.
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
    #[must_use]
    pub fn new(tier: u32) -> Self {
        Self { tier, tier_name: None, kind: None }
    }

    /// The name of this tier.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { tier_name: Some(name.to_owned()), ..self }
    }

    /// The "type" part of new object names.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        Self { kind: Some(kind.to_owned()), ..self }
    }
}

/// The position of the last of `length` elements. The host's limit on groups lies far below `u32::MAX`.
fn position(length: usize) -> u32 {
    u32::try_from(length - 1).unwrap_or(u32::MAX)
}
