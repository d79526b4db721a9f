//! What a plugin says about itself: an operator reads it, a host compares it, a signature covers it.

use topoloom_core::plugin::Description;

use super::check::Check;
use super::report::Ledger;
use super::schema::Schema;
use super::stand::Stand;
use super::trial::Trial;

/// The longest name, in bytes.
const NAME: usize = 63;

/// The longest summary, in bytes.
const SUMMARY: usize = 200;

/// What a description that is longer than it may be ends with: the host cuts it.
const CUT: char = '…';

/// Asks the plugin about itself; returns its schema, where it has one that can be judged.
pub(super) async fn run(stand: &impl Stand, trials: &[Trial], ledger: &mut Ledger) -> Option<Schema> {
    let mut sheet = ledger.open(Check::DescribeAnswers)?;
    let described = match stand.describe().await.end {
        Ok(described) => Some(described),
        Err(error) => {
            sheet.error(None, &error.to_string());
            None
        }
    };
    ledger.close(sheet);
    words(described.as_ref(), ledger);
    if let Some(mut sheet) = ledger.open(Check::DescribeConstant) {
        let again = stand.describe().await.end;
        if again.as_ref().ok() != described.as_ref() {
            sheet.error(None, "a second instance describes itself otherwise: only constants belong into a description");
        }
        ledger.close(sheet);
    }
    schema(described.as_ref(), trials, ledger)
}

fn words(described: Option<&Description>, ledger: &mut Ledger) {
    let Some(described) = described else {
        let words = [Check::DescribeName, Check::DescribeVersion, Check::DescribeSummary];
        return ledger.skip_all(&words, "there is no description");
    };
    let Description { name, version, summary, .. } = described;
    if let Some(mut sheet) = ledger.open(Check::DescribeName) {
        if !is_name(name) {
            let allowed = format!("1 to {NAME} lower-case letters, digits and hyphens are allowed");
            sheet.error(None, &format!("the name is {name:?}: {allowed}"));
        }
        ledger.close(sheet);
    }
    if let Some(mut sheet) = ledger.open(Check::DescribeVersion) {
        if !is_semantic(version) {
            sheet.error(None, &format!("the version is {version:?}, and a semantic version such as 1.2.0 is needed"));
        }
        ledger.close(sheet);
    }
    if let Some(mut sheet) = ledger.open(Check::DescribeSummary) {
        if summary.trim().is_empty() {
            sheet.warning(None, "it is empty: say in one line what the plugin reads and what it makes of it");
        } else if summary.len() > SUMMARY && summary.ends_with(CUT) {
            sheet.warning(None, &format!("it is longer than {SUMMARY} bytes, and the rest is cut"));
        } else if summary.contains("\\n") || summary.contains("\\r") {
            sheet.warning(None, "it has several lines, and is shown in one");
        }
        ledger.close(sheet);
    }
}

fn schema(described: Option<&Description>, trials: &[Trial], ledger: &mut Ledger) -> Option<Schema> {
    let mut sheet = ledger.open(Check::DescribeSchema)?;
    let read = described.map(|described| Schema::parse(&described.config_schema)).unwrap_or(Err(Vec::new()));
    let schema = match read {
        Ok(schema) => {
            let skipped = schema.not_judged();
            if !skipped.is_empty() {
                sheet.note(format!("without {}, which are not judged here", skipped.join(", ")));
            }
            Some(schema)
        }
        Err(mistakes) => {
            mistakes.iter().for_each(|mistake| sheet.error(None, mistake));
            None
        }
    };
    ledger.close(sheet);
    let mut sheet = ledger.open(Check::DescribeSchemaCases)?;
    if trials.is_empty() {
        sheet.nothing("there is no case");
    }
    if let Some(schema) = &schema {
        for trial in trials {
            for mistake in schema.mistakes(&trial.config) {
                sheet.error(Some(&trial.name), &format!("the schema refuses its configuration: {mistake}"));
            }
        }
    }
    ledger.close(sheet);
    schema
}

/// Whether a text can name a plugin.
fn is_name(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=NAME).contains(&text.len()) && text.bytes().all(legal)
}

/// Whether a text is a semantic version (semver.org, 2.0.0): three numbers, and perhaps a pre-release and a build.
fn is_semantic(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, before) = rest.split_once('-').map_or((rest, None), |(core, before)| (core, Some(before)));
    let is_number = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && (part == "0" || !part.starts_with('0'))
    };
    let is_word =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_before = |part: &str| is_word(part) && (!part.bytes().all(|byte| byte.is_ascii_digit()) || is_number(part));
    core.split('.').count() == 3
        && core.split('.').all(is_number)
        && before.is_none_or(|before| before.split('.').all(is_before))
        && build.is_none_or(|build| build.split('.').all(is_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_of_one_kind() {
        for good in ["racks", "a", "acme-racks-2", &"x".repeat(63)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "Racks", "acme racks", "acme_racks", "räcks", &"x".repeat(64)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn versions_are_semantic() {
        for good in ["0.1.0", "1.2.3", "10.20.30-rc.1", "1.0.0-alpha-1+build.007", "1.0.0+x"] {
            assert!(is_semantic(good), "{good}");
        }
        for bad in
            ["", "1", "1.0", "v1.0.0", "1.0.0.0", "01.0.0", "1.0.0-", "1.0.0-01", "1.0.0+", "1.0.x", "1.0.0-a..b"]
        {
            assert!(!is_semantic(bad), "{bad}");
        }
    }
}
