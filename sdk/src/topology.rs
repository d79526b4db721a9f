//! Building an answer: levels, groups, diagnostics. Positions and forms of members stay in here.

use crate::nodes::Row;
use crate::{Coverage, Diagnostic, Group, LabelSelector, Level, Members, Packed, Subject, Topology};

/// A level of the answer under construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelRef(u32);

/// A group of the answer under construction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupRef(u32);

/// Collects levels, groups and diagnostics. Groups come lowest tier first: only what exists can be a member.
#[derive(Debug)]
pub struct TopologyBuilder {
    topology: Topology,
}

impl TopologyBuilder {
    /// Nothing yet; the answer will be everything there is.
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

    /// What the answer does not mention keeps its place.
    pub fn additions_only(&mut self) -> &mut Self {
        self.topology.coverage = Coverage::AdditionsOnly;
        self
    }

    /// Room for so many groups, where it is known before.
    pub fn reserve(&mut self, groups: usize) {
        self.topology.groups.reserve_exact(groups);
    }

    /// A level: what many groups have in common.
    pub fn level(&mut self, level: Level) -> LevelRef {
        self.topology.levels.push(level);
        LevelRef(position(self.topology.levels.len()))
    }

    /// A group. `id` is its identity: unique in the answer, the same in every round, 1 to 512 bytes. It counts once its
    /// members are given.
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

/// A group that still lacks its members.
#[derive(Debug)]
#[must_use = "a group counts once its members are given"]
pub struct GroupBuilder<'a> {
    topology: &'a mut Topology,
    group: Group,
}

impl GroupBuilder<'_> {
    /// A label of the object.
    pub fn label(mut self, key: &str, value: &str) -> Self {
        // Exactly as long as it will be: most groups have one label, and there are many groups.
        self.group.labels.reserve_exact(1);
        self.group.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// What people call it: one line of at most 256 bytes, for instance the switches of a unit. Becomes an annotation.
    /// Without it, what stands at the object stays.
    pub fn description(mut self, description: &str) -> Self {
        self.group.description = Some(description.to_owned());
        self
    }

    /// The object's name, where a name is a promise to somebody. Leave it to the host otherwise.
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

    /// Its members are the nodes of these names, existing or not. Without the grant `nodeNames` the source's
    /// own objects are shown without their Nodes from then on: they would tell which of the names exist.
    pub fn names<S: AsRef<str>>(self, names: impl IntoIterator<Item = S>) -> GroupRef {
        self.members(Members::Names(names.into_iter().collect::<Packed>()))
    }

    /// Its members are the nodes that a selector matches, evaluated by whoever reads the object.
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

    /// What users call this tier.
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

/// The position of the last of so many. The host's limit on groups lies far below `u32::MAX`.
fn position(length: usize) -> u32 {
    u32::try_from(length - 1).unwrap_or(u32::MAX)
}
