//! One switch of a body: its identity, and the cables to switches above or beside it.

use super::Switch;
use crate::chassis::{self, SwitchClaim};
use topoloom_sdk::json::Value;

/// Cables from one switch to others: chassis of the largest kind have some hundred ports.
const MAX_UPLINKS: usize = 4096;
/// Parallel cables to one other switch.
const MAX_COUNT: u32 = 65_535;
/// Tiers of a fabric.
const MAX_LEVEL: u32 = 16;

impl Switch {
    /// Reads a switch. An error costs that switch only.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(text).map_err(|error| format!("the switch is not UTF-8: {error}"))?;
        let Value::Object(fields) =
            Value::parse(text).map_err(|problems| problems.first().map_or_else(String::new, ToString::to_string))?
        else {
            return Err("the switch is not a JSON object".to_owned());
        };
        let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value);
        let id = identity("id", field("id"))?;
        let name = match field("name") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(chassis::text("name", name)?).filter(|name| !name.is_empty()),
            Some(other) => return Err(format!("switch {id}: name is {}, a string is expected", other.kind())),
        };
        let level = match field("level") {
            None | Some(Value::Null) => None,
            Some(value) => Some(
                number(value)
                    .filter(|level| (1..=MAX_LEVEL).contains(level))
                    .ok_or_else(|| format!("switch {id}: level is {}, 1 to {MAX_LEVEL} is expected", show(value)))?,
            ),
        };
        let uplinks = match field("uplinks") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(list)) if list.len() > MAX_UPLINKS => {
                return Err(format!("switch {id}: {} uplinks, at most {MAX_UPLINKS} are allowed", list.len()));
            }
            Some(Value::Array(list)) => list
                .iter()
                .enumerate()
                .map(|(index, value)| uplink(value).map_err(|why| format!("switch {id}: uplinks[{index}]: {why}")))
                .collect::<Result<_, _>>()?,
            Some(other) => return Err(format!("switch {id}: uplinks is {}, a list is expected", other.kind())),
        };
        Ok(Self { id, name: name.map(str::to_owned), level, uplinks })
    }
}

fn uplink(value: &Value) -> Result<(String, u32), String> {
    let Value::Object(fields) = value else { return Err(format!("expected a mapping, found {}", value.kind())) };
    let field = |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let count = match field("count") {
        None | Some(Value::Null) => 1,
        Some(value) => number(value)
            .filter(|count| (1..=MAX_COUNT).contains(count))
            .ok_or_else(|| format!("count is {}, 1 to {MAX_COUNT} is expected", show(value)))?,
    };
    Ok((identity("to", field("to"))?, count))
}

/// An identity in the form in which cables name it.
fn identity(what: &str, value: Option<&Value>) -> Result<String, String> {
    let Some(Value::String(text)) = value else { return Err(format!("{what} is missing or no string")) };
    let none = || "that is no identity".to_owned();
    let seen = SwitchClaim::new(Some(text), None)
        .map_err(|_| format!("{what} is {text:?}: {}", chassis::fault(text).unwrap_or_else(none)))?;
    Ok(seen.chassis.unwrap_or_default())
}

fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(text) => text.parse().ok(),
        _ => None,
    }
}

/// A value as a message quotes it.
fn show(value: &Value) -> String {
    match value {
        Value::Number(number) => number.clone(),
        Value::String(text) => format!("{text:?}"),
        other => other.kind().to_owned(),
    }
}
