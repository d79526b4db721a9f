//! A body: many entries and the switches, read piece by piece.

use super::entry::{Entry, Speaker};
use super::{Rules, SCHEMA, Sheet, Switch};
use std::io::Read;
use topoloom_sdk::json::{Elements, Value};

const NODES: &str = "nodes";
const SWITCHES: &str = "switches";
/// A cursor travels in a URL.
const MAX_CURSOR: usize = 2048;
/// A generation is compared, nothing else.
const MAX_GENERATION: usize = 1024;

/// The fields of a body beside its lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Page {
    /// The version of the whole document.
    pub(crate) generation: Option<String>,
    /// Whether nodes that the document does not mention are gone.
    pub(crate) complete: bool,
    /// Where the next page begins.
    pub(crate) next: Option<String>,
}

/// Reads one body into a sheet.
///
/// # Errors
///
/// The mistake of the body as a whole: nothing of it may be used.
pub(crate) fn page(reader: impl Read, rules: &Rules, sheet: &mut Sheet) -> Result<Page, String> {
    let mut elements = Elements::several(reader, &[NODES, SWITCHES]);
    let mut index = 0_usize;
    let mut is_nodes = true;
    while let Some(text) = elements.next().map_err(|error| error.to_string())? {
        // The text borrows the reader, so it is copied before the key is read.
        let text = text.to_vec();
        let in_nodes = elements.key() == NODES;
        if in_nodes != is_nodes {
            (index, is_nodes) = (0, in_nodes);
        }
        if in_nodes {
            node(&text, index, rules, sheet)?
        } else {
            switch(&text, index, sheet)?
        }
        index += 1;
    }
    if elements.envelope().is_empty() {
        return Err("found a list where the document topoloom.fabric/v1, an object, is expected".to_owned());
    }
    let around = around(elements.envelope())?;
    if !elements.found_key(NODES) {
        return Err("the list nodes is missing".to_owned());
    }
    Ok(around)
}

fn node(text: &[u8], index: usize, rules: &Rules, sheet: &mut Sheet) -> Result<(), String> {
    match Entry::parse(text, Speaker::Document, rules) {
        Ok(mut entry) => {
            let node = entry.node.take().unwrap_or_default();
            sheet.add(&node, entry)
        }
        Err(why) => {
            sheet.reject("bad-entry", &name_of(text, "node").unwrap_or_else(|| format!("{NODES}[{index}]")), why);
            Ok(())
        }
    }
}

fn switch(text: &[u8], index: usize, sheet: &mut Sheet) -> Result<(), String> {
    match Switch::parse(text) {
        Ok(switch) => sheet.add_switch(switch),
        Err(why) => {
            sheet.reject("bad-switch", &format!("{SWITCHES}[{index}]"), why);
            Ok(())
        }
    }
}

/// The name of an element with a mistake elsewhere.
fn name_of(text: &[u8], key: &str) -> Option<String> {
    let Value::Object(fields) = Value::parse(std::str::from_utf8(text).ok()?).ok()? else { return None };
    fields.into_iter().find_map(|(name, value)| match value {
        Value::String(text) if name == key && !text.is_empty() => {
            Some(text.chars().filter(|c| !c.is_control()).collect())
        }
        _ => None,
    })
}

fn around(text: &[u8]) -> Result<Page, String> {
    let text = std::str::from_utf8(text).map_err(|error| format!("the body is not UTF-8: {error}"))?;
    let value =
        Value::parse(text).map_err(|problems| problems.first().map_or_else(String::new, ToString::to_string))?;
    let Value::Object(fields) = value else { return Err("the body is not a JSON object".to_owned()) };
    let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    for key in [NODES, SWITCHES] {
        // A list that was read is null here. Anything else is a second list, or no list.
        if let Some((_, value)) = fields.iter().find(|(name, value)| name == key && *value != Value::Null) {
            let what = if matches!(value, Value::Array(_)) {
                "is given twice".to_owned()
            } else {
                format!("is {}, a list is expected", value.kind())
            };
            return Err(format!("{key} {what}"));
        }
    }
    match field("schema") {
        Some(Value::String(text)) if text == SCHEMA => {}
        Some(Value::String(text)) => return Err(format!("schema is {text:?}, only {SCHEMA:?} is understood")),
        Some(other) => return Err(format!("schema is {}, {SCHEMA:?} is expected", other.kind())),
        None => return Err(format!("schema is missing, {SCHEMA:?} is expected")),
    }
    let complete = match field("complete") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(complete)) => *complete,
        Some(other) => return Err(format!("complete is {}, true or false is expected", other.kind())),
    };
    Ok(Page {
        generation: short("generation", field("generation"), MAX_GENERATION)?,
        complete,
        next: short("next", field("next"), MAX_CURSOR)?.filter(|next| !next.is_empty()),
    })
}

/// An opaque text or number.
fn short(what: &str, value: Option<&Value>, max: usize) -> Result<Option<String>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text) | Value::Number(text)) if text.len() <= max => Ok(Some(text.clone())),
        Some(Value::String(text) | Value::Number(text)) => {
            Err(format!("{what} has {} bytes, at most {max} are allowed", text.len()))
        }
        Some(other) => Err(format!("{what} is {}, a string is expected", other.kind())),
    }
}
