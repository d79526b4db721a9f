//! One level's value per node, as small numbers: the label after fallbacks, extraction and ignored values.
//!
//! Most levels read one label as it is; then the host's codes are the classes and no new table is built.

use std::collections::HashMap;

use crate::config::{Config, Level};
use topoloom_sdk::{Column, Packed, nodes::Row};

/// The value of each node at one level.
pub(crate) struct Classes {
    /// By row; 0 = missing, n = text n-1.
    pub(crate) codes: Vec<u32>,
    /// Distinct texts. Some may belong to no node.
    pub(crate) texts: Packed,
    /// Nodes with a value that counts as missing.
    pub(crate) ignored: Vec<Row>,
}

impl Classes {
    /// The text of a class.
    pub(crate) fn text(&self, class: u32) -> &str {
        (class as usize).checked_sub(1).and_then(|index| self.texts.get(index)).unwrap_or_default()
    }

    /// The class of a node.
    pub(crate) fn of(&self, row: Row) -> u32 {
        self.codes.get(row as usize).copied().unwrap_or(0)
    }

    /// Whether there are nodes, and none of them has any label of this level.
    pub(crate) fn is_absent(&self) -> bool {
        !self.codes.is_empty() && self.ignored.is_empty() && self.codes.iter().all(|code| *code == 0)
    }

    /// Drops the values of all nodes that do not belong to the type.
    pub(crate) fn keep(&mut self, belongs: &[bool]) {
        for (code, belongs) in self.codes.iter_mut().zip(belongs) {
            if !belongs {
                *code = 0;
            }
        }
        self.ignored.retain(|&row| belongs.get(row as usize).copied().unwrap_or(false));
    }
}

/// Reads a level.
pub(crate) fn read(config: &Config, level: &Level, read: &mut impl FnMut(&str) -> Column) -> Classes {
    match (level.keys.as_slice(), &level.extract) {
        ([key], None) => plain(config, read(key)),
        _ => derived(config, level, read),
    }
}

fn plain(config: &Config, column: Column) -> Classes {
    let Column { dictionary, mut codes } = column;
    let dropped: Vec<bool> = dictionary.iter().map(|value| is_ignored(config, value)).collect();
    let mut ignored = Vec::new();
    if dropped.contains(&true) {
        for (row, code) in (0..).zip(&mut codes) {
            if code.checked_sub(1).and_then(|index| dropped.get(index as usize)) == Some(&true) {
                *code = 0;
                ignored.push(row);
            }
        }
    }
    Classes { codes, texts: dictionary, ignored }
}

fn derived(config: &Config, level: &Level, read: &mut impl FnMut(&str) -> Column) -> Classes {
    let mut classes = Classes { codes: Vec::new(), texts: Packed::default(), ignored: Vec::new() };
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut has_ignored: Vec<bool> = Vec::new();
    for key in &level.keys {
        let column = read(key);
        let table: Vec<u32> = column
            .dictionary
            .iter()
            .map(|value| {
                let value = match &level.extract {
                    Some(regex) => {
                        regex.captures(value).and_then(|found| found.get(1)).map_or("", |group| group.as_str())
                    }
                    None => value,
                };
                if is_ignored(config, value) {
                    return 0;
                }
                if let Some(&class) = known.get(value) {
                    return class;
                }
                classes.texts.push(value);
                let class = u32::try_from(classes.texts.len()).unwrap_or(u32::MAX);
                known.insert(value.to_owned(), class);
                class
            })
            .collect();
        classes.codes.resize(column.codes.len(), 0);
        has_ignored.resize(column.codes.len(), false);
        for ((class, ignored), code) in classes.codes.iter_mut().zip(&mut has_ignored).zip(&column.codes) {
            let found = code.checked_sub(1).and_then(|index| table.get(index as usize)).copied();
            if *class == 0 {
                *class = found.unwrap_or(0);
                *ignored |= found == Some(0);
            }
        }
    }
    let rows = (0..).zip(has_ignored.iter().zip(&classes.codes));
    classes.ignored = rows.filter(|(_, (ignored, code))| **ignored && **code == 0).map(|(row, _)| row).collect();
    classes
}

fn is_ignored(config: &Config, value: &str) -> bool {
    let value = value.trim();
    value.is_empty() || config.ignored.iter().any(|ignored| ignored.eq_ignore_ascii_case(value))
}
