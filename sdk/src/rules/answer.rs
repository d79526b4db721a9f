//! An answer, borrowed from the types that carried it: those of the bindings, or those of the host.
//!
//! Bindings that are generated from one interface have the same names and different types, so [`said!`](crate::said) makes this
//! view of each of them.

/// What a discoverer answered.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The topology; none: that it is unchanged.
    pub topology: Option<Topology<'a>>,
    /// Bytes of state.
    pub state: usize,
}

/// A topology as it was answered.
#[derive(Debug, Default)]
pub struct Topology<'a> {
    /// What many groups have in common.
    pub levels: Vec<Level<'a>>,
    /// The groups, in the order of the answer.
    pub groups: Vec<Group<'a>>,
    /// What was dropped or corrected.
    pub diagnostics: Vec<Diagnostic<'a>>,
}

/// What many groups have in common.
#[derive(Debug, Clone, Copy)]
pub struct Level<'a> {
    /// The tier.
    pub tier: u32,
    /// Its name for users.
    pub tier_name: Option<&'a str>,
    /// The "type" part of object names; none: the name of the source.
    pub kind: Option<&'a str>,
}

/// One group.
#[derive(Debug)]
pub struct Group<'a> {
    /// Its identity.
    pub id: &'a str,
    /// Its level, as position in [`Topology::levels`].
    pub level: u32,
    /// Its labels.
    pub labels: Vec<(&'a str, &'a str)>,
    /// Its members.
    pub members: Members<'a>,
    /// The name of its object, where the discoverer fixes it.
    pub fixed_name: Option<&'a str>,
}

/// The members of one group.
#[derive(Debug)]
pub enum Members<'a> {
    /// Nodes, as rows.
    Rows(&'a [u32]),
    /// Groups, as positions.
    Groups(&'a [u32]),
    /// Nodes by name, as they crossed the boundary.
    Packed(Packed<'a>),
    /// Nodes by name, each for itself.
    Names(Vec<&'a str>),
    /// Nodes by label.
    Selector(Selector<'a>),
}

/// Many strings as one text.
#[derive(Debug, Clone, Copy)]
pub struct Packed<'a> {
    /// The text.
    pub text: &'a str,
    /// The end of each entry, in bytes.
    pub ends: &'a [u32],
}

/// A label selector.
#[derive(Debug)]
pub struct Selector<'a> {
    /// `key = value` pairs.
    pub labels: Vec<(&'a str, &'a str)>,
    /// Further requirements.
    pub requirements: Vec<Requirement<'a>>,
}

/// One requirement of a selector.
#[derive(Debug)]
pub struct Requirement<'a> {
    /// The label key.
    pub key: &'a str,
    /// How values are compared.
    pub operator: Operator<'a>,
    /// The values.
    pub values: &'a [String],
}

/// How a requirement compares.
#[derive(Debug, Clone, Copy)]
pub enum Operator<'a> {
    /// `In` and `NotIn`: they need values.
    OfValues,
    /// `Exists` and `DoesNotExist`: they have none.
    OfPresence,
    /// An operator that Kubernetes does not have: stored objects can have one.
    Unknown(&'a str),
}

/// A record that was dropped or corrected.
#[derive(Debug)]
pub struct Diagnostic<'a> {
    /// A word for counting.
    pub code: &'a str,
    /// What it is about.
    pub subject: Subject<'a>,
}

/// What a diagnostic is about.
#[derive(Debug)]
pub enum Subject<'a> {
    /// The answer as a whole, or something outside the cluster.
    Outside,
    /// Nodes, as rows.
    Rows(&'a [u32]),
    /// A group, as position.
    Group(u32),
}

impl Members<'_> {
    /// How many there are, before any of them is read.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Rows(list) | Self::Groups(list) => list.len(),
            Self::Packed(names) => names.ends.len(),
            Self::Names(names) => names.len(),
            Self::Selector(_) => 1,
        }
    }
}

impl<'a> Packed<'a> {
    /// The entries.
    ///
    /// # Errors
    ///
    /// What is wrong with the offsets. Checked before the first entry is handed out, so that half a text is never used.
    pub fn entries(self) -> Result<impl Iterator<Item = &'a str>, String> {
        let Self { text, ends } = self;
        let mut begin = 0;
        for (entry, &end) in ends.iter().enumerate() {
            if end < begin {
                return Err(format!("entry {entry} ends at {end}, before it begins at {begin}"));
            }
            if !text.is_char_boundary(end as usize) {
                let bytes = text.len();
                return Err(format!("entry {entry} ends at {end}, which is no character boundary of {bytes} bytes"));
            }
            begin = end;
        }
        if begin as usize != text.len() {
            return Err(format!("the last entry ends at {begin} and the text has {} bytes", text.len()));
        }
        let begins = std::iter::once(0).chain(ends.iter().copied());
        Ok(begins.zip(ends).map(move |(begin, &end)| text.get(begin as usize..end as usize).unwrap_or_default()))
    }
}

/// Makes the function `said`, from the answer of some bindings to this view of it. Where it is called, `wit` is the module of the
/// exported interface and `types` that of the types that it uses.
#[doc(hidden)]
#[macro_export]
macro_rules! said {
    () => {
        fn said(answer: &wit::Answer) -> $crate::rules::answer::Answer<'_> {
            let topology = match &answer.outcome {
                wit::Outcome::Unchanged => None,
                wit::Outcome::Topology(topology) => Some(said_topology(topology)),
            };
            $crate::rules::answer::Answer { topology, state: answer.state.len() }
        }

        fn said_topology(said: &types::Topology) -> $crate::rules::answer::Topology<'_> {
            $crate::rules::answer::Topology {
                levels: said.levels.iter().map(said_level).collect(),
                groups: said.groups.iter().map(said_group).collect(),
                diagnostics: said.diagnostics.iter().map(said_diagnostic).collect(),
            }
        }

        fn said_level(said: &types::Level) -> $crate::rules::answer::Level<'_> {
            let types::Level { tier, tier_name, kind } = said;
            $crate::rules::answer::Level { tier: *tier, tier_name: tier_name.as_deref(), kind: kind.as_deref() }
        }

        fn said_group(said: &types::Group) -> $crate::rules::answer::Group<'_> {
            let types::Group { id, level, labels, members, description: _, fixed_name } = said;
            $crate::rules::answer::Group {
                id,
                level: *level,
                labels: said_pairs(labels),
                members: said_members(members),
                fixed_name: fixed_name.as_deref(),
            }
        }

        fn said_diagnostic(said: &types::Diagnostic) -> $crate::rules::answer::Diagnostic<'_> {
            use $crate::rules::answer::Subject;

            let subject = match &said.subject {
                types::Subject::Source | types::Subject::Name(_) => Subject::Outside,
                types::Subject::Rows(rows) => Subject::Rows(rows),
                types::Subject::Group(position) => Subject::Group(*position),
            };
            $crate::rules::answer::Diagnostic { code: &said.code, subject }
        }

        fn said_pairs(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
            pairs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
        }

        fn said_members(members: &types::Members) -> $crate::rules::answer::Members<'_> {
            use $crate::rules::answer::{Members, Packed, Selector};

            match members {
                types::Members::Rows(rows) => Members::Rows(rows),
                types::Members::Groups(positions) => Members::Groups(positions),
                types::Members::Names(names) => Members::Packed(Packed { text: &names.text, ends: &names.ends }),
                types::Members::Selector(selector) => Members::Selector(Selector {
                    labels: said_pairs(&selector.match_labels),
                    requirements: selector.match_expressions.iter().map(said_requirement).collect(),
                }),
            }
        }

        fn said_requirement(said: &types::LabelRequirement) -> $crate::rules::answer::Requirement<'_> {
            use $crate::rules::answer::{Operator, Requirement};

            let operator = match said.operator {
                types::LabelOperator::In | types::LabelOperator::NotIn => Operator::OfValues,
                types::LabelOperator::Exists | types::LabelOperator::DoesNotExist => Operator::OfPresence,
            };
            Requirement { key: &said.key, operator, values: &said.values }
        }
    };
}

/// Makes the function `wished`, from the requirements of some bindings to what the rules look at. Where it is called, `wit` is the module
/// of the exported interface.
#[doc(hidden)]
#[macro_export]
macro_rules! wished {
    () => {
        fn wished(said: &wit::Requirements) -> $crate::rules::form::Wishes<'_> {
            let wit::Requirements { node_labels, node_annotations, endpoints, triggers } = said;
            $crate::rules::form::Wishes {
                node_labels,
                node_annotations,
                endpoints: endpoints.iter().map(wished_endpoint).collect(),
                triggers: triggers.len(),
            }
        }

        fn wished_endpoint(said: &wit::Endpoint) -> $crate::rules::form::WishedEndpoint<'_> {
            let wit::Endpoint { name, purpose: _, location, methods, paths, tls, credentials } = said;
            let located = match location {
                wit::Location::Granted => Vec::new(),
                wit::Location::Urls(urls) => urls.iter().map(String::as_str).collect(),
                wit::Location::ConfigMap(wit::ConfigMapKey { namespace, name, key }) => {
                    namespace.iter().chain([name, key]).map(String::as_str).collect()
                }
            };
            $crate::rules::form::WishedEndpoint {
                name,
                located,
                methods: methods.len(),
                paths,
                credentials: credentials.len(),
                server_name: tls.server_name.as_deref(),
                ca_bundle: tls.ca_bundle.as_deref(),
            }
        }
    };
}
