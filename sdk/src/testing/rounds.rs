//! Rounds of one discoverer, one after the other, as the host runs them.

use std::fmt;
use std::marker::PhantomData;

use super::Cluster;
use crate::{Answer, Discoverer, Failure, Outcome};

/// Rounds of one discoverer with one configuration: [`Cluster::rounds`].
///
/// A failed round leaves state and topology as they were. An answer `unchanged` leaves the topology, and brings its own state.
///
/// ```
/// # use topoloom_sdk::prelude::*;
/// # struct Racks;
/// # impl Discoverer for Racks {
/// #     type Config = std::collections::BTreeMap<String, String>;
/// #     fn describe() -> Description { Description::new("racks", "0.1.0") }
/// #     fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> { Ok(Requirements::new().node_label("rack")) }
/// #     fn discover(_: &Self::Config, input: &Input<'_>) -> Result<Answer, Failure> {
/// #         let column = input.nodes.label("rack");
/// #         let mut topology = TopologyBuilder::new();
/// #         let level = topology.level(Level::new(1));
/// #         for (rack, rows) in column.by_value() { topology.group(level, rack).rows(rows); }
/// #         let seen = input.nodes.rows().to_le_bytes().to_vec();
/// #         Ok(if input.state == seen { Answer::unchanged(seen) } else { Answer::from(topology.finish()).with_state(seen) })
/// #     }
/// # }
/// use topoloom_sdk::testing::Cluster;
///
/// let mut rounds = Cluster::new().node("m1", [("rack", "a7")]).rounds::<Racks>("{}");
/// rounds.run()?;
/// assert_eq!(rounds.show(), "tier 1 - | a7 |  | m1\n");
/// // Nothing changed: the plugin says so, and the topology stays.
/// rounds.run()?;
/// assert_eq!(rounds.show(), "tier 1 - | a7 |  | m1\n");
/// rounds.change(|cluster| cluster.node("m2", [("rack", "b1")]));
/// rounds.run()?;
/// assert_eq!(rounds.show(), "tier 1 - | a7 |  | m1\ntier 1 - | b1 |  | m2\n");
/// // After a restart of the host there is no state: the answer is the same.
/// rounds.restart();
/// rounds.run()?;
/// assert_eq!(rounds.show(), "tier 1 - | a7 |  | m1\ntier 1 - | b1 |  | m2\n");
/// # Ok::<(), Failure>(())
/// ```
pub struct Rounds<T> {
    cluster: Cluster,
    config: String,
    shown: String,
    of: PhantomData<fn() -> T>,
}

impl<T: Discoverer> Rounds<T> {
    pub(super) fn new(cluster: Cluster, config: &str) -> Self {
        Self { cluster, config: config.to_owned(), shown: String::new(), of: PhantomData }
    }

    /// The next round.
    ///
    /// ```
    /// # use topoloom_sdk::prelude::*;
    /// # fn of<T: Discoverer>() -> Result<(), Failure> {
    /// let mut rounds = topoloom_sdk::testing::Cluster::new().rounds::<T>("{}");
    /// let first = rounds.run()?;
    /// let second = rounds.run()?;
    /// # let _ = (first, second);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Cluster::discover`].
    pub fn run(&mut self) -> Result<Answer, Failure> {
        let answer = self.cluster.discover::<T>(&self.config)?;
        self.cluster.state.clone_from(&answer.state);
        if let Outcome::Topology(_) = answer.outcome {
            self.shown = self.cluster.show(&answer);
        }
        Ok(answer)
    }

    /// Changes the cluster before the next round: other nodes, another time, other answers of endpoints.
    ///
    /// ```
    /// # use topoloom_sdk::prelude::*;
    /// # fn of<T: Discoverer>() {
    /// let mut rounds = topoloom_sdk::testing::Cluster::new().rounds::<T>("{}");
    /// rounds.change(|cluster| cluster.node("m9", []).at(3_600_000));
    /// # }
    /// ```
    pub fn change(&mut self, change: impl FnOnce(Cluster) -> Cluster) -> &mut Self {
        self.cluster = change(std::mem::take(&mut self.cluster));
        self
    }

    /// The host restarts, or another version becomes active: the state is lost.
    ///
    /// ```
    /// # use topoloom_sdk::prelude::*;
    /// # fn of<T: Discoverer>() {
    /// let mut rounds = topoloom_sdk::testing::Cluster::new().rounds::<T>("{}");
    /// assert!(rounds.restart().state().is_empty());
    /// # }
    /// ```
    pub fn restart(&mut self) -> &mut Self {
        self.cluster.state.clear();
        self
    }

    /// The state that the next round gets.
    ///
    /// ```
    /// # use topoloom_sdk::prelude::*;
    /// # fn of<T: Discoverer>() {
    /// let rounds = topoloom_sdk::testing::Cluster::new().rounds::<T>("{}");
    /// assert!(rounds.state().is_empty());
    /// # }
    /// ```
    #[must_use]
    pub fn state(&self) -> &[u8] {
        &self.cluster.state
    }

    /// The topology in force, as text: that of the last round that had one. Empty before the first.
    ///
    /// ```
    /// # use topoloom_sdk::prelude::*;
    /// # fn of<T: Discoverer>() {
    /// let rounds = topoloom_sdk::testing::Cluster::new().rounds::<T>("{}");
    /// assert_eq!(rounds.show(), "");
    /// # }
    /// ```
    #[must_use]
    pub fn show(&self) -> &str {
        &self.shown
    }

    /// The lines of the last round.
    ///
    /// ```
    /// # use topoloom_sdk::prelude::*;
    /// # fn of<T: Discoverer>() {
    /// let rounds = topoloom_sdk::testing::Cluster::new().rounds::<T>("{}");
    /// assert!(rounds.log().is_empty());
    /// # }
    /// ```
    #[must_use]
    pub fn log(&self) -> Vec<(crate::log::Level, String)> {
        self.cluster.log()
    }
}

impl<T> fmt::Debug for Rounds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds").field("cluster", &self.cluster).field("config", &self.config).finish_non_exhaustive()
    }
}
