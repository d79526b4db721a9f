//! One answer, judged: `topoloom_core::topology::decide`, with the labels that only the host may set.

use topoloom_api::names::SOURCE_LABEL;
use topoloom_core::names::SourceName;
use topoloom_core::snapshot::View;
pub use topoloom_core::topology::decide::{
    Decision, DecisionMemory, DecisionNumbers, Inputs, NO_SUCH_LABEL, Unacceptable, decide, decide_again, example,
};
use topoloom_core::topology::{Forest, Topology, ValidateInput};

/// Checks an answer of a source about the Nodes of a view.
///
/// # Errors
/// Every rule that it breaks.
pub fn accept(topology: &Topology, source: &SourceName, view: &View) -> Result<Forest, Unacceptable> {
    let input = ValidateInput { source, nodes: view.names(), reserved_labels: &[SOURCE_LABEL] };
    topoloom_core::topology::decide::accept(topology, &input)
}
