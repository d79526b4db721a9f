//! A kubeconfig as a document: YAML of bounded size, the one context in use, and typed fields with their places.
//!
//! Only what the current context names is read. Other contexts, clusters and users may say what they like: no connection is made
//! of them.

use serde_json::{Map, Value};
use serde_saphyr::{Budget, DuplicateKeyPolicy, Error, MergeKeyPolicy, Options};
use topoloom_sync::given::Given;

use super::LARGEST;
use super::error::{FieldError, KubeconfigError, shown};

/// Deepest nesting: six levels of its own, and extensions of tools.
const MAX_DEPTH: usize = 24;
/// Most values: kubeconfigs of hundreds of clusters have some thousand.
const MAX_NODES: usize = 50_000;

/// A whole kubeconfig.
pub(super) struct Document(Map<String, Value>);

/// A mapping of it that is in use, and where it stands.
pub(super) struct Section<'a> {
    path: String,
    fields: &'a Map<String, Value>,
}

impl Document {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, KubeconfigError> {
        if bytes.len() > LARGEST {
            return Err(KubeconfigError::TooLarge { bytes: bytes.len() });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| KubeconfigError::NotText)?;
        if text.trim().is_empty() {
            return Err(KubeconfigError::Empty);
        }
        let document = serde_saphyr::from_str_with_options::<Value>(text, options()).map_err(|error| syntax(&error))?;
        let Value::Object(fields) = document else {
            return Err(KubeconfigError::Syntax { line: 1, column: 1, problem: "a kubeconfig is a mapping" });
        };
        let document = Self(fields);
        for (field, wanted, allowed) in [("kind", "Config", "allowed is Config"), ("apiVersion", "v1", "allowed is v1")]
        {
            if let Some(found) = document.root().text(field)?.filter(|found| *found != wanted) {
                let problem = "this is another kind of object".to_owned();
                return Err(document.root().wrong(field, Some(shown(found)), problem, allowed));
            }
        }
        Ok(document)
    }

    fn root(&self) -> Section<'_> {
        Section { path: String::new(), fields: &self.0 }
    }

    /// The context in use.
    pub(super) fn context(&self) -> Result<Section<'_>, KubeconfigError> {
        let name = self.root().needed("current-context", "allowed is the name of one of its contexts")?;
        self.named("contexts", "context", name, "current-context")
    }

    /// The cluster or the user that the context names.
    pub(super) fn entry(
        &self,
        list: &'static str,
        inner: &'static str,
        context: &Section<'_>,
        field: &'static str,
    ) -> Result<Section<'_>, KubeconfigError> {
        let name = context.needed(field, "allowed is the name of an entry of clusters or users")?;
        self.named(list, inner, name, &context.place(field))
    }

    /// The entry of this name in a list.
    fn named(
        &self,
        list: &'static str,
        inner: &'static str,
        name: &str,
        named_by: &str,
    ) -> Result<Section<'_>, KubeconfigError> {
        let entries = match self.0.get(list) {
            None | Some(Value::Null) => [].as_slice(),
            Some(Value::Array(entries)) => entries.as_slice(),
            Some(_) => return Err(self.root().wrong(list, None, "it is no list".to_owned(), "allowed is a list")),
        };
        let is_it = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some(name);
        let mut found = entries.iter().filter(is_it);
        let path = format!("{list}[\"{}\"].{inner}", shown(name));
        let wrong = |field: &str, problem: String, allowed| {
            let error = FieldError { field: field.to_owned(), value: None, problem, allowed };
            KubeconfigError::Field(Box::new(error))
        };
        match (found.next(), found.next()) {
            (Some(entry), None) => match entry.get(inner) {
                Some(Value::Object(fields)) => Ok(Section { path, fields }),
                _ => Err(wrong(&path, "it is missing or no mapping".to_owned(), "allowed is a mapping")),
            },
            (Some(_), Some(_)) => {
                let problem = format!("several {list} have the name \"{}\"", shown(name));
                Err(wrong(list, problem, "allowed is one entry of each name"))
            }
            (None, _) => {
                let names = entries.iter().filter_map(|entry| entry.get("name")?.as_str());
                let problem = format!("{list} has no entry {}", Given::instead_of(name, names));
                Err(wrong(named_by, problem, "allowed is the name of one of them"))
            }
        }
    }
}

impl<'a> Section<'a> {
    /// Where it stands.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The path of a field of it.
    pub(super) fn place(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }

    /// An error about a field of it.
    pub(super) fn wrong(
        &self,
        field: &str,
        value: Option<String>,
        problem: String,
        allowed: &'static str,
    ) -> KubeconfigError {
        KubeconfigError::Field(Box::new(FieldError { field: self.place(field), value, problem, allowed }))
    }

    /// The field, if it says something: kubectl takes an empty text for none.
    pub(super) fn value(&self, field: &str) -> Option<&'a Value> {
        self.fields.get(field).filter(|value| !matches!(value, Value::Null) && value.as_str() != Some(""))
    }

    /// The text of a field, if it has one.
    pub(super) fn text(&self, field: &'static str) -> Result<Option<&'a str>, KubeconfigError> {
        match self.value(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            // What it says instead is not shown: it may be a credential without its quotes.
            Some(_) => {
                Err(self.wrong(field, None, "it is no text".to_owned(), "allowed is a text; a number needs quotes"))
            }
        }
    }

    /// The text of a field that has to have one.
    pub(super) fn needed(&self, field: &'static str, allowed: &'static str) -> Result<&'a str, KubeconfigError> {
        self.text(field)?.ok_or_else(|| self.wrong(field, None, "it is missing".to_owned(), allowed))
    }

    /// A switch; off where it is missing.
    pub(super) fn switch(&self, field: &'static str) -> Result<bool, KubeconfigError> {
        match self.value(field) {
            None => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(_) => {
                Err(self.wrong(field, None, "it is neither true nor false".to_owned(), "allowed are true and false"))
            }
        }
    }

    /// Refuses a field that is none of these.
    pub(super) fn only(&self, known: &[&str], allowed: &'static str) -> Result<(), KubeconfigError> {
        let Some(unknown) = self.fields.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        // A credential in the wrong place is not repeated; it would not look like a field.
        let looks_like_one =
            unknown.len() <= 40 && unknown.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
        let problem = if looks_like_one {
            format!("it has the unknown field {}", Given::instead_of(unknown, known.iter().copied()))
        } else {
            "it has an unknown field".to_owned()
        };
        Err(KubeconfigError::Field(Box::new(FieldError { field: self.path.clone(), value: None, problem, allowed })))
    }
}

/// How YAML is read: what is not needed for a kubeconfig is refused.
fn options() -> Options {
    let mut budget = Budget::default();
    budget.max_aliases = 0;
    budget.max_anchors = 0;
    budget.max_depth = MAX_DEPTH;
    budget.flow_nesting_limit = MAX_DEPTH;
    budget.max_nodes = MAX_NODES;
    budget.max_events = 4 * MAX_NODES;
    // The second one has an error of its own.
    budget.max_documents = 2;
    budget.max_merge_keys = 0;
    budget.max_total_scalar_bytes = LARGEST;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.duplicate_keys = DuplicateKeyPolicy::Error;
    options.merge_keys = MergeKeyPolicy::Error;
    options.strict_booleans = true;
    // A snippet would show a credential.
    options.with_snippet = false;
    options
}

/// Says where, and in words of ours: those of the parser may repeat a value.
fn syntax(error: &Error) -> KubeconfigError {
    let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
    let problem = match error {
        Error::Budget { .. } => {
            "it has an anchor, an alias, too many values or too many levels; a kubeconfig needs none of them"
        }
        Error::DuplicateMappingKey { .. } => "a key stands twice in one mapping",
        Error::MultipleDocuments { .. } => "a second document begins; one is read",
        Error::MergeKeyNotAllowed { .. } => "it merges mappings (`<<`), which a kubeconfig does not need",
        _ => "this is no valid YAML",
    };
    KubeconfigError::Syntax { line, column, problem }
}
