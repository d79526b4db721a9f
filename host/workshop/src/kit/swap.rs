//! What a host would do with this version where an earlier one serves.

use std::sync::Arc;

use serde_json::Value;
use topoloom_core::plugin::grant::Origin;
use topoloom_core::plugin::rollout::{Objects, Rails, compare};
use topoloom_core::plugin::{EndpointPermission, Import, KeyPattern, NotGranted, Permissions, Requirements, grant};
use topoloom_core::snapshot::ColumnKey;

use super::check::Check;
use super::objects::Written;
use super::report::Ledger;
use super::sound::Based;
use super::stand::Stand;
use super::trial::{History, Trial, view};

/// All checks of the family.
pub(super) const CHECKS: [Check; 5] =
    [Check::SwapName, Check::SwapVersion, Check::SwapConfigure, Check::SwapGrants, Check::SwapRails];

/// Tries all checks of the family. `needs` has what this version needs with the configuration of each trial.
pub(super) async fn run<S: Stand>(
    (old, new): (&S, &S),
    trials: &[Trial],
    needs: &[Option<Requirements>],
    based: &[Based<'_>],
    ledger: &mut Ledger,
) {
    described(old, new, ledger).await;
    let before = configured((old, new), trials, ledger).await;
    grants((old, new), trials, &before, needs, ledger);
    rails((old, new), based, &before, trials, ledger).await;
}

async fn described<S: Stand>(old: &S, new: &S, ledger: &mut Ledger) {
    let is_same = old.digest() == new.digest();
    let (before, now) = (old.describe().await.end, new.describe().await.end);
    let (Ok(before), Ok(now)) = (before, now) else {
        return ledger.skip_all(&[Check::SwapName, Check::SwapVersion], "the earlier version does not describe itself");
    };
    if let Some(mut sheet) = ledger.open(Check::SwapName) {
        if before.name != now.name {
            let (old, new) = (&before.name, &now.name);
            sheet.error(None, &format!("it is {new:?} now and was {old:?}: another name is another plugin"));
        }
        ledger.close(sheet);
    }
    if let Some(mut sheet) = ledger.open(Check::SwapVersion) {
        if before.version == now.version && !is_same {
            let version = &now.version;
            sheet.warning(None, &format!("both are {version}: people see the version beside the digest"));
        }
        ledger.close(sheet);
    }
}

/// What the earlier version needs with each configuration that it accepts. An entry that it serves may lack any key that is
/// new, so every case is tried without each of its keys, too.
async fn configured<S: Stand>(
    (old, new): (&S, &S),
    trials: &[Trial],
    ledger: &mut Ledger,
) -> Vec<Option<Requirements>> {
    let Some(mut sheet) = ledger.open(Check::SwapConfigure) else { return Vec::new() };
    if trials.is_empty() {
        sheet.nothing("there is no case");
    }
    let mut before = Vec::new();
    for trial in trials {
        before.push(old.configure(&trial.config.to_string()).await.end.ok());
        for (key, config) in reduced(&trial.config) {
            let config = config.to_string();
            if old.configure(&config).await.end.is_err() {
                continue;
            }
            if let Err(error) = new.configure(&config).await.end {
                let cure = "give new keys a default";
                let what =
                    format!("without {key:?} the earlier version accepts its configuration, and this one does not");
                sheet.error(Some(&trial.name), &format!("{what}: {error}; {cure}"));
            }
        }
    }
    ledger.close(sheet);
    before
}

/// A configuration without one of its keys, each in turn.
fn reduced(config: &Value) -> Vec<(String, Value)> {
    let Value::Object(fields) = config else { return Vec::new() };
    let without = |key: &String| {
        let rest = fields.iter().filter(|(other, _)| *other != key).map(|(key, value)| (key.clone(), value.clone()));
        (key.clone(), Value::Object(rest.collect()))
    };
    fields.keys().map(without).collect()
}

fn grants<S: Stand>(
    (old, new): (&S, &S),
    trials: &[Trial],
    before: &[Option<Requirements>],
    needs: &[Option<Requirements>],
    ledger: &mut Ledger,
) {
    let Some(mut sheet) = ledger.open(Check::SwapGrants) else { return };
    let names = reads_names(new) && !reads_names(old);
    for ((trial, before), now) in trials.iter().zip(before).zip(needs) {
        let (Some(before), Some(now)) = (before, now) else { continue };
        let mut refused = grant(now, &permissions(before), Origin::Foreign).err().unwrap_or_default();
        refused.extend(names.then_some(NotGranted::NodeNames));
        for refused in refused {
            let cure = "a host refuses it until an operator grants that";
            sheet.warning(Some(&trial.name), &format!("{refused} where the earlier version serves: {cure}"));
        }
    }
    ledger.close(sheet);
}

fn reads_names(stand: &impl Stand) -> bool {
    let mut functions = stand.imports().iter().filter_map(|import| Import::parse(import));
    functions.any(|import| matches!(import, Import::Names | Import::Find))
}

/// What an operator granted who granted what was needed.
fn permissions(needed: &Requirements) -> Permissions {
    let patterns = |keys: &[String]| keys.iter().map(|key| KeyPattern::Exact(key.clone())).collect();
    let endpoints = needed.endpoints.iter().map(|endpoint| {
        let methods = endpoint.methods.iter().copied().collect();
        (endpoint.name.clone(), EndpointPermission { methods, paths: endpoint.paths.clone() })
    });
    Permissions {
        node_labels: patterns(&needed.node_labels),
        node_annotations: patterns(&needed.node_annotations),
        endpoints: endpoints.collect(),
    }
}

/// The shadow round of a swap: both answers as they would be named in a cluster that the earlier version has written.
async fn rails<S: Stand>(
    (old, new): (&S, &S),
    based: &[Based<'_>],
    before: &[Option<Requirements>],
    trials: &[Trial],
    ledger: &mut Ledger,
) {
    let Some(mut sheet) = ledger.open(Check::SwapRails) else { return };
    sheet.nothing("the earlier version has no answer to a case");
    for one in based {
        let trial = one.prepared.trial;
        let at = trials.iter().position(|other| std::ptr::eq(other, trial));
        let Some(needed) = at.and_then(|at| before.get(at)).and_then(Option::as_ref) else { continue };
        let earlier = one.prepared.needing(needed.clone(), old);
        let was = earlier.ask(old, &earlier.round()).await.end;
        let (Some(was), Some(is)) = (was.forest(), one.base.end.forest()) else { continue };
        sheet.tried();
        let was_written = Written::of(was, old.source(), &trial.existing);
        let stored = was_written.stored(&trial.existing);
        let is_written = Written::of(is, new.source(), &stored);
        let keys: Vec<ColumnKey> = was.selector_keys().into_iter().chain(is.selector_keys()).collect();
        let comparison = compare(&specs(&was_written), &specs(&is_written), &view(&trial.nodes, &keys, History::None));
        sheet.note(comparison.to_string());
        if Rails::default().hold(&comparison) {
            let wait = "a host holds it until `topoloom plugin continue`";
            sheet.warning(one.case(), &format!("{comparison}: {wait}"));
        }
    }
    ledger.close(sheet);
}

fn specs(written: &Written) -> Objects<'_> {
    written.named.objects.iter().map(|(name, object): (&Arc<str>, _)| (name, &object.spec)).collect()
}
