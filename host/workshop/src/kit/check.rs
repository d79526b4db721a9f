//! The checks: one row each, with an id that stays, and what it builds on.
//!
//! A check that builds on another one is left out where that one failed: one mistake of a plugin is one finding. The ids are
//! the anchors of `docs/vendors/testing.md`, and words that a pipeline may name, so a released one is never renamed.

use std::fmt;

/// The page that explains every check, by its anchor.
pub const PAGE: &str = "docs/vendors/testing.md";

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// The component file.
    File,
    /// The answer of `describe`.
    Describe,
    /// The answers of `configure`.
    Configure,
    /// The cases of the vendor.
    Case,
    /// Whether a host takes the answers of `discover`.
    Sound,
    /// Whether an answer depends on its arguments and on nothing else.
    Function,
    /// What the plugin keeps between rounds.
    State,
    /// Whether groups and objects stay what they are while nodes change.
    Identities,
    /// What services answer on a bad day.
    Http,
    /// How much of its limits the plugin uses.
    Measure,
    /// What a host does with this version beside an earlier one.
    Swap,
}

impl Family {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Describe => "describe",
            Self::Configure => "configure",
            Self::Case => "case",
            Self::Sound => "sound",
            Self::Function => "function",
            Self::State => "state",
            Self::Identities => "identities",
            Self::Http => "http",
            Self::Measure => "measure",
            Self::Swap => "swap",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! checks {
    ($( $(#[doc = $says:literal])+ $name:ident $id:literal of $family:ident after [$($needs:ident),*], )+) => {
        /// A check: one row of the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check { $( $(#[doc = $says])+ $name, )+ }

        impl Check {
            /// Every check, in the order in which they are printed.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The stable id.
            #[must_use]
            pub const fn id(self) -> &'static str {
                match self { $(Self::$name => $id,)+ }
            }

            /// What it is about.
            #[must_use]
            pub const fn family(self) -> Family {
                match self { $(Self::$name => Family::$family,)+ }
            }

            /// What holds when it passes, as a sentence without its stop.
            #[must_use]
            pub fn says(self) -> &'static str {
                let sentence: &'static str = match self { $(Self::$name => concat!($($says),+),)+ };
                sentence.trim().trim_end_matches('.')
            }

            /// The checks without which it would only repeat what they found.
            #[must_use]
            pub const fn needs(self) -> &'static [Self] {
                match self { $(Self::$name => &[$(Self::$needs),*],)+ }
            }
        }
    };
}

checks! {
    /// A host loads the file within the limits of its profile.
    FileLoads "file-loads" of File after [],
    /// The packed file fits into a ConfigMap.
    FileConfigMap "file-config-map" of File after [FileLoads],
    /// The file says which tools made it.
    FileProducers "file-producers" of File after [FileLoads],
    /// Functions have names, so that a crash says where it was.
    FileNames "file-names" of File after [FileLoads],
    /// Every import is used by some case.
    FileImports "file-imports" of File after [FileLoads, SoundAnswer],

    /// `describe` answers.
    DescribeAnswers "describe-answers" of Describe after [FileLoads],
    /// The name is a word of lower-case letters, digits and hyphens.
    DescribeName "describe-name" of Describe after [DescribeAnswers],
    /// The version is a semantic version.
    DescribeVersion "describe-version" of Describe after [DescribeAnswers],
    /// The summary is one line.
    DescribeSummary "describe-summary" of Describe after [DescribeAnswers],
    /// Two instances describe themselves alike.
    DescribeConstant "describe-constant" of Describe after [DescribeAnswers],
    /// The schema of the configuration is JSON Schema 2020-12.
    DescribeSchema "describe-schema" of Describe after [DescribeAnswers],
    /// The schema accepts the configuration of every case.
    DescribeSchemaCases "describe-schema-cases" of Describe after [DescribeSchema],

    /// `configure` accepts the configuration of every case.
    ConfigureCases "configure-cases" of Configure after [FileLoads],
    /// `configure` answers whatever the configuration is.
    ConfigureRobust "configure-robust" of Configure after [FileLoads],
    /// A value of a type that the schema forbids is refused.
    ConfigureTypes "configure-types" of Configure after [DescribeSchema, ConfigureRobust, ConfigureCases],
    /// A mistake is reported with its path.
    ConfigurePath "configure-path" of Configure after [ConfigureTypes],
    /// All mistakes are reported at once.
    ConfigureAll "configure-all" of Configure after [ConfigurePath],
    /// A key that does not exist is reported.
    ConfigureUnknown "configure-unknown" of Configure after [ConfigureRobust, ConfigureCases],
    /// Text that is no JSON is refused.
    ConfigureText "configure-text" of Configure after [ConfigureRobust, ConfigureCases],
    /// The same configuration gets the same answer.
    ConfigureConstant "configure-constant" of Configure after [ConfigureCases],

    /// `unchanged` is only an answer to a state of its own.
    StateUnchanged "state-unchanged" of State after [ConfigureCases],
    /// The round of every case has an answer that a host takes.
    SoundAnswer "sound-answer" of Sound after [ConfigureCases, StateUnchanged],
    /// The same input gets the same answer.
    FunctionTwice "function-twice" of Function after [SoundAnswer],
    /// Every case answers what its `expected.txt` says.
    CaseExpected "case-expected" of Case after [SoundAnswer],
    /// A cluster without nodes gets a valid answer.
    SoundNoNodes "sound-no-nodes" of Sound after [SoundAnswer],
    /// A cluster of one node gets a valid answer.
    SoundOneNode "sound-one-node" of Sound after [SoundAnswer],
    /// Nodes without any label and annotation get a valid answer.
    SoundAbsent "sound-absent" of Sound after [SoundAnswer],
    /// A key that half of the nodes lack gets a valid answer.
    SoundHalf "sound-half" of Sound after [SoundAnswer],
    /// A value that no node has any more makes no group.
    SoundUnused "sound-unused" of Sound after [SoundAnswer, FunctionTwice, FunctionGeneration],
    /// Label values of 63 bytes get a valid answer.
    SoundLongValues "sound-long-values" of Sound after [SoundAnswer],
    /// Node names of 253 bytes get a valid answer.
    SoundLongNames "sound-long-names" of Sound after [SoundAnswer],
    /// Ends of packed text are bytes, not characters.
    SoundBytes "sound-bytes" of Sound after [SoundAnswer, FunctionTwice],

    /// The order of the rows does not matter.
    FunctionRows "function-rows" of Function after [SoundAnswer, FunctionTwice],
    /// The generation does not matter.
    FunctionGeneration "function-generation" of Function after [SoundAnswer, FunctionTwice],
    /// The time does not matter.
    FunctionTime "function-time" of Function after [SoundAnswer, FunctionTwice],

    /// The state of the last round changes nothing about the answer.
    StateLast "state-last" of State after [SoundAnswer, FunctionTwice],
    /// A state that is cut off changes nothing about the answer.
    StateCut "state-cut" of State after [SoundAnswer, FunctionTwice, StateLast],
    /// A state of another version changes nothing about the answer.
    StateForeign "state-foreign" of State after [SoundAnswer, FunctionTwice, StateLast, StateCut],
    /// A state of other nodes changes nothing about the answer.
    StateStale "state-stale" of State after [SoundAnswer, FunctionTwice, StateLast],

    /// Where no node changes, nothing is written.
    IdentitiesNone "identities-none" of Identities after [
        FunctionTwice, FunctionRows, FunctionGeneration, FunctionTime, StateLast, StateStale
    ],
    /// A new node changes no identity.
    IdentitiesAdd "identities-add" of Identities after [IdentitiesNone],
    /// A node that goes changes no identity.
    IdentitiesRemove "identities-remove" of Identities after [IdentitiesAdd],
    /// A node with another label changes no identity.
    IdentitiesRelabel "identities-relabel" of Identities after [IdentitiesRemove],
    /// HyperNodes keep their names.
    IdentitiesNames "identities-names" of Identities after [IdentitiesRelabel],

    /// A refused credential is reported as refused.
    HttpUnauthorized "http-unauthorized" of Http after [SoundAnswer, FunctionTwice],
    /// A redirect to a login page is no answer.
    HttpRedirect "http-redirect" of Http after [SoundAnswer, FunctionTwice],
    /// A web page is no answer.
    HttpHtml "http-html" of Http after [SoundAnswer, FunctionTwice],
    /// A fault of the service is a failure.
    HttpServerError "http-server-error" of Http after [SoundAnswer, FunctionTwice],
    /// The pause that a service asks for reaches the host.
    HttpRetryAfter "http-retry-after" of Http after [SoundAnswer, FunctionTwice, HttpServerError],
    /// 304 to a request without a condition is a failure.
    HttpNotModified "http-not-modified" of Http after [SoundAnswer, FunctionTwice],
    /// An empty body is no answer.
    HttpEmpty "http-empty" of Http after [SoundAnswer, FunctionTwice],
    /// A body that is cut off is no answer.
    HttpCut "http-cut" of Http after [SoundAnswer, FunctionTwice],
    /// A service that cannot be reached is a failure.
    HttpRefused "http-refused" of Http after [SoundAnswer, FunctionTwice],
    /// A service that is too slow is a failure.
    HttpTimeout "http-timeout" of Http after [SoundAnswer, FunctionTwice],
    /// A record that cannot be used is reported.
    HttpOdd "http-odd" of Http after [SoundAnswer, FunctionTwice],
    /// A body a hundred times as large is read or refused.
    HttpLarge "http-large" of Http after [SoundAnswer, FunctionTwice],

    /// Many nodes get a valid answer.
    MeasureAnswer "measure-answer" of Measure after [SoundAnswer],
    /// Processor time is within its limit.
    MeasureCpu "measure-cpu" of Measure after [SoundAnswer],
    /// Memory is within its limit.
    MeasureMemory "measure-memory" of Measure after [SoundAnswer],
    /// Received data is within its limit.
    MeasureReceived "measure-received" of Measure after [SoundAnswer],
    /// Requests are within their limit.
    MeasureRequests "measure-requests" of Measure after [SoundAnswer],
    /// Log lines are within their limit.
    MeasureLog "measure-log" of Measure after [SoundAnswer],

    /// The plugin keeps its name.
    SwapName "swap-name" of Swap after [DescribeAnswers],
    /// Other bytes have another version.
    SwapVersion "swap-version" of Swap after [DescribeAnswers],
    /// Configurations that the earlier version accepts are accepted.
    SwapConfigure "swap-configure" of Swap after [ConfigureCases],
    /// No new permission is needed.
    SwapGrants "swap-grants" of Swap after [SwapConfigure],
    /// A host would activate it without a person.
    SwapRails "swap-rails" of Swap after [SwapConfigure, SoundAnswer, FunctionTwice],
}

impl Check {
    /// The check of this id.
    #[must_use]
    pub fn parse(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|check| check.id() == id)
    }

    /// Where the page explains it.
    #[must_use]
    pub fn anchor(self) -> String {
        format!("{PAGE}#{}", self.id())
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_words_that_begin_with_their_family() {
        let ids: BTreeSet<_> = Check::ALL.iter().map(|check| check.id()).collect();
        assert_eq!(ids.len(), Check::ALL.len());
        for check in Check::ALL {
            let (id, family) = (check.id(), check.family().as_str());
            assert!(id.starts_with(&format!("{family}-")), "{id} is of {family}");
            assert!(id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{id}");
            assert_eq!(Check::parse(id), Some(*check));
            assert!(!check.says().ends_with('.') && !check.says().is_empty(), "{id}: {:?}", check.says());
        }
    }

    #[test]
    fn no_check_needs_one_that_needs_it() {
        fn below(check: Check, path: &[Check]) {
            assert!(!path.contains(&check), "{path:?} leads to {check:?} again");
            for needed in check.needs() {
                below(*needed, &[path, &[check]].concat());
            }
        }
        for check in Check::ALL {
            below(*check, &[]);
        }
    }

    #[test]
    fn every_check_has_its_anchor_on_the_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/vendors/testing.md");
        let page = std::fs::read_to_string(page).unwrap();
        for check in Check::ALL {
            let anchor = format!("<a id=\"{check}\"></a>");
            assert_eq!(page.matches(&anchor).count(), 1, "{anchor}");
        }
        assert_eq!(page.matches("<a id=\"").count(), Check::ALL.len(), "an anchor of no check");
    }
}
