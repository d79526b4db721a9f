//! `topoloom:discovery@0.1`: generated bindings, the host's imports behind them, and the way into the model.

mod decode;
mod imports;
mod requirements;
mod weigh;

use topoloom_core::plugin::{Answer, CallError, Description, Failure, Problem, Requirements};
use topoloom_core::rules::form::Form;
use topoloom_core::text;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime::{Engine, Store};

use super::super::call::{NoAnswer, RoundInput};
use super::super::guest::Guest;

pub(in super::super) use generated::PluginPre;

/// What the handles of a guest mean. Public because the generated code exports them again.
#[allow(unreachable_pub, reason = "the generated code needs them to be public and nothing else does")]
mod handles {
    /// The host's side of `nodes.snapshot`. The nodes themselves are in the store: a call has one snapshot.
    pub struct Snapshot;

    /// The host's side of `http.response`.
    pub struct Response(pub crate::endpoints::Opened);
}

use handles::{Response, Snapshot};

#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit/discovery-0.1.0",
        world: "plugin",
        exports: { default: async },
        imports: { default: async | trappable },
        with: {
            "topoloom:discovery/nodes.snapshot": super::handles::Snapshot,
            "topoloom:discovery/http.response": super::handles::Response,
        },
    });
}

use generated::exports::topoloom::discovery::discoverer as wit;

/// All imports of this version.
pub(super) fn linker(engine: &Engine) -> wasmtime::Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    generated::Plugin::add_to_linker::<_, HasSelf<_>>(&mut linker, |guest| guest)?;
    Ok(linker)
}

pub(super) async fn start(pre: &PluginPre<Guest>, store: &mut Store<Guest>) -> Result<(), NoAnswer> {
    pre.instantiate_async(store).await?;
    Ok(())
}

pub(super) async fn describe(pre: &PluginPre<Guest>, store: &mut Store<Guest>) -> Result<Description, NoAnswer> {
    let plugin = pre.instantiate_async(&mut *store).await?;
    let returned = plugin.topoloom_discovery_discoverer().call_describe(&mut *store).await?;
    store.data_mut().take(weigh::description(&returned));
    let wit::Description { name, version, vendor, summary, config_schema } = returned;
    Ok(Description {
        name: text::line(&name, NAME),
        version: text::line(&version, NAME),
        vendor: text::line(&vendor, SUMMARY),
        summary: text::line(&summary, SUMMARY),
        config_schema,
    })
}

pub(super) async fn configure(
    pre: &PluginPre<Guest>,
    store: &mut Store<Guest>,
    config: &str,
) -> Result<Requirements, NoAnswer> {
    let plugin = pre.instantiate_async(&mut *store).await?;
    store.data_mut().give(config.len()).map_err(wasmtime::Error::from)?;
    match plugin.topoloom_discovery_discoverer().call_configure(&mut *store, config).await? {
        Ok(returned) => {
            store.data_mut().take(weigh::requirements(&returned));
            Ok(requirements::decode(returned)?)
        }
        Err(problems) => {
            store.data_mut().take(weigh::problems(&problems));
            let more = problems.len().saturating_sub(PROBLEMS);
            let listed = problems.into_iter().take(PROBLEMS).map(|wit::Problem { path, message }| Problem {
                path: text::line(&path, SUMMARY),
                message: text::line(&message, SENTENCE),
            });
            let rest =
                (more > 0).then(|| Problem { path: String::new(), message: format!("and {more} more problems") });
            Err(CallError::InvalidConfig(listed.chain(rest).collect()).into())
        }
    }
}

pub(super) async fn discover(
    pre: &PluginPre<Guest>,
    store: &mut Store<Guest>,
    round: &RoundInput,
) -> Result<Answer, NoAnswer> {
    let plugin = pre.instantiate_async(&mut *store).await?;
    let snapshot = store.data_mut().table.push(Snapshot).map_err(wasmtime::Error::from)?;
    let time = u64::try_from(round.time.as_millisecond()).unwrap_or(0);
    let asked = wit::Round { time, state: round.state.to_vec() };
    store.data_mut().give(round.config.len() + asked.state.len()).map_err(wasmtime::Error::from)?;
    let lent = Resource::new_borrow(snapshot.rep());
    let returned =
        plugin.topoloom_discovery_discoverer().call_discover(&mut *store, &round.config, lent, &asked).await?;
    match returned {
        Ok(answer) => {
            store.data_mut().take(weigh::answer(&answer));
            let form =
                Form { rows: round.nodes.rows(), state: store.data().limits.state, had_state: !round.state.is_empty() };
            Ok(decode::answer(answer, &form)?)
        }
        Err(failure) => Err(CallError::Failure(decode_failure(failure)).into()),
    }
}

/// The longest name or version that a plugin may have, in bytes.
const NAME: usize = 63;
/// The longest summary, vendor or path.
const SUMMARY: usize = 200;
/// The longest sentence about one mistake or failure.
const SENTENCE: usize = 1 << 10;
/// Mistakes of a configuration that are listed.
const PROBLEMS: usize = 100;

fn decode_failure(failure: wit::Failure) -> Failure {
    let sentence = |message: String| text::line(&message, SENTENCE);
    match failure {
        wit::Failure::Config(message) => Failure::Config(sentence(message)),
        wit::Failure::Denied(message) => Failure::Denied(sentence(message)),
        wit::Failure::Unauthorized(message) => Failure::Unauthorized(sentence(message)),
        wit::Failure::Upstream(upstream) => Failure::Upstream {
            message: sentence(upstream.message),
            retry_after: upstream.retry_after.map(std::time::Duration::from_millis),
        },
        wit::Failure::Internal(message) => Failure::Internal(sentence(message)),
    }
}
