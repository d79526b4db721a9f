//! How many HyperNodes were written, and with which result.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::cluster::RefusalReason;

/// How a write ended: `ok` or the reason of the refusal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct WriteLabels {
    verb: &'static str,
    result: &'static str,
}

/// Writes of HyperNodes.
#[derive(Debug, Clone, Default)]
pub struct WriteMetrics {
    writes: Family<WriteLabels, Counter>,
}

impl WriteMetrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("hypernode_writes", "Writes of HyperNodes by verb and result", metrics.writes.clone());
        metrics
    }

    /// A write of an object ended.
    pub fn object(&self, verb: &'static str, refused: Option<RefusalReason>) {
        let result = refused.map_or("ok", RefusalReason::as_str);
        self.writes.get_or_create(&WriteLabels { verb, result }).inc();
    }

    /// A write of a status ended.
    pub fn status(&self, refused: Option<RefusalReason>) {
        self.object("status", refused);
    }

    /// One series of each possible kind; `any` is the value of labels without a closed set.
    pub(crate) fn examples(&self, any: &'static str) {
        self.object(any, None);
        RefusalReason::ALL.into_iter().for_each(|reason| self.object(any, Some(reason)));
    }
}
