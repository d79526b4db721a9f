//! Checks the groups that a replacement refers to. A missing group would become an empty text, and the name would match
//! no Node.

use regex_lite::Regex;

/// What is wrong with a replacement for this regular expression.
pub(super) fn fault(regex: &Regex, replace: &str) -> Option<String> {
    let names: Vec<&str> = regex.capture_names().flatten().collect();
    let is_group = |name: &str| match name.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() {
        true => name.parse::<usize>().is_ok_and(|number| number < regex.captures_len()),
        false => names.contains(&name),
    };
    let missing = references(replace).into_iter().find(|reference| !is_group(reference.name))?;
    let numbers = (0..regex.captures_len()).map(|number| number.to_string());
    let groups: Vec<String> = numbers.chain(names.iter().map(|name| (*name).to_owned())).collect();
    let name = missing.name;
    let ends = name.char_indices().map(|(end, _)| end).rev();
    let shorter = ends.filter_map(|end| name.split_at_checked(end)).find(|(group, _)| is_group(group));
    let hint = match shorter.filter(|_| !missing.has_braces) {
        Some((group, rest)) => format!("; write ${{{group}}}{rest} for group {group} followed by {rest:?}"),
        None => String::new(),
    };
    Some(format!(
        "{replace:?} uses the group {name:?}, but the regular expression has only the groups {} (0 is the whole match){hint}",
        groups.join(", ")
    ))
}

#[derive(Debug, PartialEq)]
struct Reference<'a> {
    name: &'a str,
    has_braces: bool,
}

/// `$name` as far as letters, digits and underscores go, and `${name}`; `$$` is a dollar sign, and so is one alone.
fn references(replace: &str) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    let mut rest = replace;
    while let Some((_, after)) = rest.split_once('$') {
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('{').and_then(|inside| inside.split_once('}')) {
            found.push(Reference { name, has_braces: true });
            rest = after;
        } else {
            let is_inside = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let end = rest.find(|letter| !is_inside(letter)).unwrap_or(rest.len());
            let (name, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
            if !name.is_empty() {
                found.push(Reference { name, has_braces: false });
            }
            rest = after;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_uses_groups_that_are_there() {
        let regex = Regex::new(r"^(?<site>\w+)-(\d+)$").unwrap();
        for good in ["gpu-$2", "${site}_$2", "$0", "$$3", "a$", "$-", "${1}_x", "plain", "${2", ""] {
            assert_eq!(fault(&regex, good), None, "{good}");
        }
        let groups = "but the regular expression has only the groups 0, 1, 2, site (0 is the whole match)";
        for (bad, name, hint) in [
            ("gpu-$3", "3", ""),
            ("${foo}", "foo", ""),
            ("${}", "", ""),
            ("$1_x", "1_x", r#"; write ${1}_x for group 1 followed by "_x""#),
            ("$siteb", "siteb", r#"; write ${site}b for group site followed by "b""#),
            ("$2-$9", "9", ""),
        ] {
            assert_eq!(fault(&regex, bad), Some(format!("{bad:?} uses the group {name:?}, {groups}{hint}")), "{bad}");
        }
    }
}
