//! The file of `--node-lock-resources`: which resources of a pod need which lock (`node-lock-and-bind.md` A13).
//!
//! ```yaml
//! backends:
//! - name: NVIDIA                 # for messages; any text
//!   resource: nvidia.com/gpu     # the resource whose count is asked for
//!   lock: shared                 # shared (hami.io/mutex.lock), cambricon (cambricon.com/dsmlu.lock) or none
//!   limitsOnly: false            # requests without limits count as nothing
//!   maxCount: 2147483647         # a larger count counts as none; absent: any
//!   ranges:                      # an amount outside makes the whole request count as none
//!   - resource: nvidia.com/gpumem
//!     min: 0
//!     max: 2147483647
//! ```

use topoloom_core::nodelock::needs::{AmountRange, Backend, LockKey};

use super::read::{At, Fields, Place, ReadReport};
use super::yaml::{self, ValueKind};
use super::{ConfigProblem, Error};

/// A file is shorter than this, in bytes.
pub const LARGEST: u64 = 256 << 10;

/// More backends than anybody has; each is looked at for every container.
const MOST: usize = 256;

/// What a file says.
#[derive(Debug, Default)]
pub struct LockResources {
    /// The table.
    pub backends: Vec<Backend>,
    /// What is wrong with it.
    pub problems: Vec<ConfigProblem>,
}

/// Reads a file.
///
/// # Errors
/// When it is no YAML, or no mapping.
pub fn parse(text: &str) -> Result<LockResources, Error> {
    let tree = yaml::load(text, 0)?;
    let mut report = ReadReport::default();
    if let Some(line) = tree.further {
        report.error(Place { path: "---".to_owned(), line }, "begins a second document; this file has one".to_owned());
    }
    for repeated in &tree.repeated {
        report.error(
            Place { path: repeated.key.clone(), line: repeated.line },
            "is given again here; name it once".to_owned(),
        );
    }
    let mut backends = Vec::new();
    match tree.root.as_deref().filter(|root| root.kind() != ValueKind::Null) {
        None => report.error(Place { path: "backends".to_owned(), line: 1 }, MISSING.to_owned()),
        Some(root) => {
            let found = root.kind().words();
            let shape = Error::Shape { line: root.line, path: "the file", wanted: "a mapping with `backends`", found };
            let mut fields = At::top(root).into_fields().ok_or(shape)?;
            if !fields.has("backends") {
                report.error(fields.place("backends"), MISSING.to_owned());
            }
            backends = items(&mut fields, "backends", &mut report, backend);
            unknown(&fields, &mut report);
        }
    }
    if backends.len() > MOST {
        let place = Place { path: "backends".to_owned(), line: 1 };
        report.error(place, format!("has {} items; {MOST} are taken at most", backends.len()));
    }
    backends.sort_by(|one, two| one.name.cmp(&two.name));
    report.errors.sort_by_key(|problem| problem.line);
    Ok(LockResources { backends, problems: report.errors })
}

const MISSING: &str = "is missing: a list of resources that need the lock";

/// The items of a list of mappings.
fn items<'a, T>(
    fields: &mut Fields<'a>,
    key: &str,
    report: &mut ReadReport,
    read: impl Fn(&mut Fields<'a>, &mut ReadReport) -> Option<T>,
) -> Vec<T> {
    let Some(list) = fields.take(key) else { return Vec::new() };
    if list.node.kind() != ValueKind::List {
        report.error(list.place(), format!("must be a list, not {}", list.node.kind().words()));
    }
    let item = |at: At<'a>| {
        let (place, kind) = (at.place(), at.node.kind());
        let Some(mut fields) = at.into_fields() else {
            report.error(place, format!("must be a mapping, not {}", kind.words()));
            return None;
        };
        let value = read(&mut fields, report);
        unknown(&fields, report);
        value
    };
    list.items().into_iter().filter_map(item).collect()
}

fn unknown(fields: &Fields<'_>, report: &mut ReadReport) {
    for key in fields.keys() {
        report.error(fields.place(&key), "is not known here".to_owned());
    }
}

fn backend(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<Backend> {
    let resource = resource(fields, report);
    let name = fields.read("name", report, At::text).filter(|name| !name.is_empty());
    let keys = [("shared", Some(LockKey::Shared)), ("cambricon", Some(LockKey::Cambricon)), ("none", None)];
    let key = fields.read("lock", report, |at| at.one_of(&keys)).unwrap_or(Some(LockKey::Shared));
    let limits_only = fields.read("limitsOnly", report, At::boolean).unwrap_or_default();
    let most = fields.read("maxCount", report, |at| at.integer(1..=i64::MAX)).unwrap_or(i64::MAX);
    let limits = items(fields, "ranges", report, range);
    let resource = resource?;
    let name = name.unwrap_or_else(|| resource.clone());
    Some(Backend { name: name.into(), resource: resource.into(), limits_only, most, limits, key })
}

fn range(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<AmountRange> {
    let here = fields.here();
    let resource = resource(fields, report);
    let least = fields.read("min", report, |at| at.integer(i64::MIN..=i64::MAX)).unwrap_or(0);
    let most = fields.read("max", report, |at| at.integer(i64::MIN..=i64::MAX)).unwrap_or(i64::MAX);
    if least > most {
        report.error(here, format!("min {least} is above max {most}, so that nothing is ever inside"));
    }
    Some(AmountRange { resource: resource?.into(), least, most })
}

/// A resource as a container names it.
fn resource(fields: &mut Fields<'_>, report: &mut ReadReport) -> Option<String> {
    const WANTED: &str = "must be the name of an extended resource such as nvidia.com/gpu";
    if !fields.has("resource") {
        report.error(fields.place("resource"), format!("is missing: it {WANTED}"));
    }
    fields.read("resource", report, |at| {
        let text = at.text()?;
        let is_one = text.split_once('/').is_some_and(|(domain, name)| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            topoloom_api::rules::is_dns_subdomain(domain)
                && !name.is_empty()
                && name.len() <= 63
                && name.chars().all(allowed)
        });
        if is_one { Ok(text) } else { Err(format!("{WANTED}, not {}", at.describe())) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        parse(text)
            .unwrap()
            .problems
            .iter()
            .map(|problem| format!("{}:{} {}", problem.line, problem.path, problem.message))
            .collect()
    }

    #[test]
    fn a_table_is_read_with_its_defaults() {
        let text = "
backends:
- resource: ex.io/gpu
- name: B
  resource: ex.io/mlu
  lock: cambricon
  limitsOnly: true
  maxCount: 8
  ranges:
  - {resource: ex.io/mlu-mem, min: 1, max: 64}
- {name: C, resource: ex.io/whole, lock: none}
";
        let read = parse(text).unwrap();
        assert_eq!(read.problems, []);
        let wanted = [
            Backend {
                key: Some(LockKey::Cambricon),
                limits_only: true,
                most: 8,
                limits: vec![AmountRange { resource: "ex.io/mlu-mem".into(), least: 1, most: 64 }],
                ..Backend::new("B", "ex.io/mlu")
            },
            Backend { key: None, ..Backend::new("C", "ex.io/whole") },
            Backend::new("ex.io/gpu", "ex.io/gpu"),
        ];
        assert_eq!(read.backends, wanted);
        assert_eq!(parse("backends: []").unwrap().backends, [], "nothing needs the lock");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let text = "backends:\n- resource: gpu\n- lock: other\n  resource: ex.io/a\n- {resource: ex.io/b, maxCount: 0}\n- {resource: ex.io/c, ranges: [{resource: ex.io/d, min: 3, max: 2}]}\n- 7\n- {name: x}\n- {resource: ex.io/e, more: 1}\n";
        let found = problems(text);
        for (line, path, words) in [
            (2, "backends[0].resource", "nvidia.com/gpu, not the text \"gpu\""),
            (3, "backends[1].lock", "shared or cambricon or none"),
            (5, "backends[2].maxCount", "must be an integer between 1 and"),
            (6, "backends[3].ranges[0]", "min 3 is above max 2"),
            (7, "backends[4]", "must be a mapping"),
            (8, "backends[5].resource", "is missing"),
            (9, "backends[6].more", "is not known here"),
        ] {
            let here = format!("{line}:{path} ");
            assert!(
                found.iter().any(|problem| problem.starts_with(&here) && problem.contains(words)),
                "{here}{words}: {found:#?}"
            );
        }
        assert_eq!(problems("{}"), ["1:backends is missing: a list of resources that need the lock"]);
        assert_eq!(problems(""), ["1:backends is missing: a list of resources that need the lock"]);
        assert!(parse("7").is_err());
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_an_answer(text in "(backends|- |resource|lock|: |\n|  |[a-z0-9/.]|\\{|\\}|\\[|\\]){0,40}") {
            let _ = parse(&text);
        }
    }
}
