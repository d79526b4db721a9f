//! Services on a bad day, made from the answers that a case has recorded.
//!
//! A plugin may fail, with the failure that the table in `docs/vendors/http.md` names, or answer and say in a diagnostic what it
//! left out. What it may never do is to answer with less and say nothing: the host would believe it, and take nodes out of
//! their places.

use std::sync::Arc;
use std::time::Duration;

use topoloom_core::plugin::Failure;
use topoloom_core::topology::{Coverage, Forest};

use super::bad_day::{self, BadDay};
use super::check::Check;
use super::report::Ledger;
use super::round::{End, Round, difference, lost, says_more};
use super::sound::Based;
use super::stand::Stand;

/// Exchanges of a case that are tried: a plugin reads few kinds of documents, some of them in pages.
const EXCHANGES: usize = 12;

/// The pause that a busy service asks for, in seconds.
const PAUSE: u32 = 77;

/// Which failure is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    /// The credential was refused.
    Unauthorized,
    /// The service is at fault, or the credential was refused.
    Either,
    /// The service is at fault.
    Upstream,
    /// The service is at fault and asked for the pause.
    Paused,
}

/// What each check tries.
const DAYS: [(Check, &[BadDay], Right); 12] = [
    (Check::HttpUnauthorized, &[BadDay::Status(401), BadDay::Status(403)], Right::Unauthorized),
    (Check::HttpRedirect, &[BadDay::Redirect], Right::Either),
    (Check::HttpHtml, &[BadDay::Page], Right::Either),
    (Check::HttpServerError, &[BadDay::Status(500)], Right::Upstream),
    (Check::HttpRetryAfter, &[BadDay::Busy(PAUSE)], Right::Paused),
    (Check::HttpNotModified, &[BadDay::Status(304)], Right::Upstream),
    (Check::HttpEmpty, &[BadDay::Empty], Right::Upstream),
    (Check::HttpCut, &[BadDay::Cut(1), BadDay::Cut(2), BadDay::Cut(3)], Right::Upstream),
    (Check::HttpRefused, &[BadDay::Refused], Right::Upstream),
    (Check::HttpTimeout, &[BadDay::Late], Right::Upstream),
    (Check::HttpOdd, &[BadDay::Odd], Right::Upstream),
    (Check::HttpLarge, &[BadDay::Large], Right::Upstream),
];

/// Tries all checks of the family.
pub(super) async fn run(stand: &impl Stand, based: &[Based<'_>], ledger: &mut Ledger) {
    for (check, days, right) in DAYS {
        let Some(mut sheet) = ledger.open(check) else { continue };
        sheet.nothing("no case has a recording with an answer that could be changed in this way");
        for one in based {
            let recording = one.prepared.trial.recording.as_deref().cloned();
            let recording = recording.and_then(|recording| recording.for_source(stand.source()).ok());
            let (Some(recording), Some(forest)) = (&recording, one.base.end.forest()) else { continue };
            for at in bad_day::answered(recording, EXCHANGES) {
                for day in days {
                    let Some(changed) = day.of(recording, at).map(Arc::new) else { continue };
                    let round = Round { recording: Some(&changed), ..one.prepared.round() };
                    let asked = one.prepared.ask(stand, &round).await;
                    if asked.uses.left.contains(&at) {
                        // The plugin never saw it.
                        continue;
                    }
                    sheet.tried();
                    let had_state = !one.prepared.trial.state.is_empty();
                    if let Some(what) = wrong(forest, &asked.end, right, had_state) {
                        let asked = format!("{}: {}", bad_day::asked(recording, at), day.words());
                        sheet.error(one.case(), &format!("{asked}: {what}"));
                    }
                }
            }
        }
        ledger.close(sheet);
    }
}

/// What is wrong with the end of a round on such a day.
fn wrong(base: &Forest, end: &End, right: Right, had_state: bool) -> Option<String> {
    match end {
        End::Failure(failure) if right.is(failure) => None,
        End::Failure(failure) => Some(format!("{failure}; {} is right", right.words())),
        End::Topology { forest, .. } => smaller(base, forest),
        // It keeps what the state says was right.
        End::Unchanged if had_state => None,
        End::Unchanged | End::Invalid(_) | End::Broken(_) => Some(end.words()),
    }
}

/// What is gone from an answer that says nothing about it.
fn smaller(base: &Forest, now: &Forest) -> Option<String> {
    let says = says_more(base, now) || now.coverage() == Coverage::AdditionsOnly;
    let what = difference(base, now).filter(|_| !says)?;
    let what = lost(base, now).unwrap_or(what);
    Some(format!("it answers with another topology and reports nothing: {what}"))
}

impl Right {
    fn is(self, failure: &Failure) -> bool {
        match (self, failure) {
            (Self::Unauthorized | Self::Either, Failure::Unauthorized(_)) => true,
            (Self::Either | Self::Upstream, Failure::Upstream { .. }) => true,
            (Self::Paused, Failure::Upstream { retry_after, .. }) => {
                *retry_after == Some(Duration::from_secs(PAUSE.into()))
            }
            _ => false,
        }
    }

    fn words(self) -> String {
        match self {
            Self::Unauthorized => "`unauthorized`".to_owned(),
            Self::Either => "`upstream` or `unauthorized`".to_owned(),
            Self::Upstream => "`upstream`".to_owned(),
            Self::Paused => format!("`upstream` with the pause of {PAUSE} s"),
        }
    }
}
