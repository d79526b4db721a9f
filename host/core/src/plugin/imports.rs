//! The functions that a discoverer can import, and which of them a call used.
//!
//! A component imports what its code may call, so its list of imports shows what it can do. What it does is known only from
//! its calls: a function that no call uses is a grant without a use.

/// A function of the interface that a discoverer can import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Import {
    /// How many nodes there are.
    Rows,
    /// The generation of the nodes.
    Generation,
    /// The column of a label.
    Label,
    /// The column of an annotation.
    Annotation,
    /// The names of all nodes.
    Names,
    /// The rows of nodes by name.
    Find,
    /// The objects of the source.
    Groups,
    /// A request to an endpoint.
    Send,
    /// The kind of credential of an endpoint.
    CredentialOf,
    /// The status of an answer.
    Status,
    /// The headers of an answer.
    Headers,
    /// A piece of the body of an answer.
    Read,
    /// A line for the log.
    Write,
}

impl Import {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Rows,
        Self::Generation,
        Self::Label,
        Self::Annotation,
        Self::Names,
        Self::Find,
        Self::Groups,
        Self::Send,
        Self::CredentialOf,
        Self::Status,
        Self::Headers,
        Self::Read,
        Self::Write,
    ];

    /// The interface, and the function in it, as the list of imports of a component names them.
    #[must_use]
    pub const fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Rows => ("nodes", "[method]snapshot.rows"),
            Self::Generation => ("nodes", "[method]snapshot.generation"),
            Self::Label => ("nodes", "[method]snapshot.label"),
            Self::Annotation => ("nodes", "[method]snapshot.annotation"),
            Self::Names => ("nodes", "[method]snapshot.names"),
            Self::Find => ("nodes", "[method]snapshot.find"),
            Self::Groups => ("applied", "groups"),
            Self::Send => ("http", "send"),
            Self::CredentialOf => ("http", "credential-of"),
            Self::Status => ("http", "[method]response.status"),
            Self::Headers => ("http", "[method]response.headers"),
            Self::Read => ("http", "[method]response.read"),
            Self::Write => ("log", "write"),
        }
    }

    /// The function behind an entry of a list of imports, such as `topoloom:discovery/log@0.1.0#write`. `None` for one that
    /// this host does not have.
    #[must_use]
    pub fn parse(import: &str) -> Option<Self> {
        let (interface, function) = import.split_once('#')?;
        let interface = interface.strip_prefix("topoloom:discovery/")?.split('@').next()?;
        Self::ALL.into_iter().find(|import| import.name() == (interface, function))
    }
}

impl std::fmt::Display for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (interface, function) = self.name();
        write!(f, "{interface}#{function}")
    }
}

/// A set of such functions, cheap to copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImportSet(u16);

// One bit each.
const _: () = assert!(Import::ALL.len() <= u16::BITS as usize);

impl ImportSet {
    /// Adds one.
    pub fn insert(&mut self, import: Import) {
        self.0 |= 1 << import as u16;
    }

    /// Whether it is one of them.
    #[must_use]
    pub fn contains(self, import: Import) -> bool {
        self.0 & (1 << import as u16) != 0
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_entry_in_a_list_of_imports() {
        for import in Import::ALL {
            let (interface, function) = import.name();
            let entry = format!("topoloom:discovery/{interface}@0.1.0#{function}");
            assert_eq!(Import::parse(&entry), Some(import), "{entry}");
        }
        for unknown in
            ["", "wasi:cli/stdout@0.2.0#write", "topoloom:discovery/log@0.1.0", "topoloom:discovery/log@0.1.0#read"]
        {
            assert_eq!(Import::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a_set_contains_the_functions_that_were_inserted() {
        let mut set = ImportSet::default();
        set.insert(Import::Rows);
        let mut other = ImportSet::default();
        other.insert(Import::Write);
        let both: Vec<_> = Import::ALL.into_iter().filter(|import| set.and(other).contains(*import)).collect();
        assert_eq!(both, [Import::Rows, Import::Write]);
    }
}
