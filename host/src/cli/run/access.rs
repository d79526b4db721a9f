//! Flags about requests to the API server.

use clap::Args;

use crate::cli::options::{Given, VOLCANOS, values};
use crate::manager::options::Rate;

/// What the original has where one of both is not given.
const QPS: f32 = 50.0;
/// See [`QPS`].
const BURST: u32 = 100;

/// Flags about requests to the API server.
#[derive(Debug, Args)]
#[command(next_help_heading = VOLCANOS)]
pub(super) struct AccessArgs {
    /// Requests to the API server per second (above 0); default: no limit here (the API server has its own), or 50 if
    /// only --kube-api-burst is given
    #[arg(long, value_name = "NUMBER", value_parser = values::per_second)]
    kube_api_qps: Option<f32>,
    /// How many requests may follow at once after a pause (1 to 1000000); default: no limit, or 100 if only
    /// --kube-api-qps is given
    #[arg(long, value_name = "COUNT", value_parser = values::whole::<1, 1_000_000>)]
    kube_api_burst: Option<u32>,
}

impl AccessArgs {
    /// The limit, if there is one. If one of both is invalid, nothing is reported about the other.
    pub(super) fn rate(&self, given: &Given) -> Option<Rate> {
        let is_wanted = self.kube_api_qps.is_some() || self.kube_api_burst.is_some();
        let rate = Rate { qps: self.kube_api_qps.unwrap_or(QPS), burst: self.kube_api_burst.unwrap_or(BURST) };
        (is_wanted && given.are_sound(&["kube-api-qps", "kube-api-burst"])).then_some(rate)
    }
}
