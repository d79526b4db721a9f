//! One request: who asks, whether it may, which pod is meant, and what comes of it.
//!
//! Owns the order of these questions, and which sentence goes with which status. A caller that may reach no node learns nothing about
//! pods, not even that there is none; and it waits in a crowd of its own, so that it takes no place from one that may.
//!
//! # Failure story
//!
//! Every question that has no answer ends the request. The log has what went wrong with an API server, once a minute at most; never a
//! command, a byte of a stream, or a credential. A question to the virtual API server that has no answer is a 500, as at a kubelet: of
//! most other codes an API server shows the number alone to the user of kubectl, and not the sentence.
//!
//! A refusal goes to its caller, the log and a counter, and into no condition or Event: every replica serves streams, and only the one
//! that holds the lease of a binding writes its status; and a caller could make an Event with each request. That most requests fail
//! has an alert.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::CONNECTION;
use http::request::Parts;
use http::{Method, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rustls::pki_types::UnixTime;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use topoloom_cluster::{Refusal, Side};
use topoloom_core::seldom::Seldom;
use topoloom_core::text;
use topoloom_serving::{AtWork, ClientCertificates};

use super::Lent;
use super::access::{self, Access, Verdict};
use super::caller::{Caller, NoCaller};
use super::crowd::{Crowd, Full, Place};
use super::metrics::{Metrics, OpenStream, StreamOutcome};
use super::pass::{Ends, Log, StreamEnd, both_ways};
use super::path::{NotServed, StreamVerb, Wanted};
use super::pods::{NoTwin, Reads, VirtualPod, still};
use super::tls::Trust;
use super::upstream::{Asked, NoAnswer, headers_for_caller};

/// How long both connections may take to be upgraded after they were granted.
const UPGRADE: Duration = Duration::from_secs(30);
/// How much of the name of a user an answer repeats.
const SHOWN: usize = 253;

/// A stream that was opened, to be run to its end.
pub(super) type Stream = BoxFuture<'static, ()>;

/// What the pages need.
pub(super) struct Pages {
    pub(super) trust: Trust,
    pub(super) access: Access,
    pub(super) reads: Reads,
    pub(super) lent: Arc<dyn Lent>,
    /// Streams of callers that may reach every node.
    pub(super) crowd: Arc<Crowd>,
    /// Requests of callers about whom nothing is known yet, until it is known whether they may reach every node.
    pub(super) unjudged: Arc<Crowd>,
    /// Requests of all others, until it is known which node they are about.
    pub(super) strangers: Arc<Crowd>,
    pub(super) metrics: Metrics,
    /// The owner of streams that took over their connection, and of what watches over the others.
    pub(super) streams: mpsc::Sender<Stream>,
    pub(super) stop: CancellationToken,
    pub(super) trouble: Seldom,
}

/// All pages: what is served depends on more than a path.
pub(super) fn router(pages: Arc<Pages>) -> Router {
    Router::new().fallback(page).with_state(pages)
}

async fn page(State(pages): State<Arc<Pages>>, request: Request) -> Response {
    // The connection may be the request's alone from here on: its body is none of ours.
    let (parts, _) = request.into_parts();
    // For probes, which have no certificate.
    if parts.uri.path() == "/healthz" && parts.method == Method::GET {
        return "ok".into_response();
    }
    let verb = StreamVerb::of_path(parts.uri.path());
    match pages.answer(parts).await {
        Ok(response) => {
            pages.metrics.answered(verb, StreamOutcome::Opened);
            response
        }
        Err(denial) => {
            pages.metrics.answered(verb, denial.outcome);
            tracing::debug!(
                verb = verb.map_or("other", StreamVerb::word),
                outcome = denial.outcome.word(),
                why = denial.why,
                "a stream to a lent pod was not opened"
            );
            // What comes behind a request for an upgrade is no request.
            (denial.code, [(CONNECTION, "close")], format!("{}\n", denial.why)).into_response()
        }
    }
}

/// A request that opens no stream.
#[derive(Debug)]
struct Denial {
    outcome: StreamOutcome,
    code: StatusCode,
    why: String,
}

impl Denial {
    fn new(outcome: StreamOutcome, code: StatusCode, why: impl fmt::Display) -> Self {
        Self { outcome, code, why: why.to_string() }
    }
}

impl From<NoCaller> for Denial {
    fn from(why: NoCaller) -> Self {
        Self::new(StreamOutcome::Unauthenticated, StatusCode::UNAUTHORIZED, why)
    }
}

impl From<NotServed> for Denial {
    fn from(why: NotServed) -> Self {
        let code = match why {
            NotServed::Elsewhere => StatusCode::NOT_IMPLEMENTED,
            NotServed::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            NotServed::Name { .. } => StatusCode::BAD_REQUEST,
        };
        Self::new(StreamOutcome::NotServed, code, why)
    }
}

impl From<Full> for Denial {
    fn from(why: Full) -> Self {
        Self::new(StreamOutcome::Crowded, StatusCode::TOO_MANY_REQUESTS, why)
    }
}

impl From<NoAnswer> for Denial {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::NoUpgrade(verb) => {
                let why = format!("{} needs an upgraded connection: SPDY/3.1 or WebSocket", verb.word());
                Self::new(StreamOutcome::NotServed, StatusCode::BAD_REQUEST, why)
            }
            NoAnswer::Refused { code, why } => {
                // What is said of the request is the caller's to correct; the physical API server works.
                let is_ours = matches!(code, StatusCode::BAD_GATEWAY | StatusCode::TOO_MANY_REQUESTS);
                Self::new(if is_ours { StreamOutcome::Failed } else { StreamOutcome::Impossible }, code, why)
            }
        }
    }
}

/// What is held as long as a stream is open.
struct Held {
    _place: Arc<Place>,
    _open: OpenStream,
    _answer: Option<Answer>,
}

/// What is held in addition where the stream is an answer.
struct Answer {
    /// Ends what watches over the answer.
    _gone: DropGuard,
    /// The seat of its connection. Free with the answer: another request may follow at once.
    _seat: AtWork,
}

impl Pages {
    /// Opens a stream.
    async fn answer(&self, mut parts: Parts) -> Result<Response, Denial> {
        let caller = self.caller(&parts)?;
        let wanted = Wanted::read(&parts.method, parts.uri.path())?;
        // A place comes before every question. One that might reach every node a while ago waits for no stranger.
        let first = match self.access.last(&caller, wanted.verb) {
            Some(Verdict::Allowed) => &self.crowd,
            Some(Verdict::Refused) => &self.strangers,
            None => &self.unjudged,
        };
        let mut place = first.enter(&caller.user)?;
        // Whether it may reach every node: those are the API servers, and few others.
        let everywhere = self.may(&caller, wanted.verb, None).await?;
        let crowd = match everywhere {
            Verdict::Allowed => &self.crowd,
            Verdict::Refused => &self.strangers,
        };
        if !Arc::ptr_eq(first, crowd) {
            place = crowd.enter(&caller.user)?;
        }
        let twin = match self.reads.virtual_pod(&wanted).await {
            Ok(twin) => twin,
            Err(_) if everywhere == Verdict::Refused => return Err(forbidden(&caller, wanted.verb)),
            Err(why) => return Err(self.no_twin(&wanted, why)),
        };
        match self.may(&caller, wanted.verb, Some(&twin.node)).await {
            Ok(Verdict::Allowed) => {}
            Ok(Verdict::Refused) => return Err(forbidden(&caller, wanted.verb)),
            // Another answer than for a pod that does not exist would show that this one does.
            Err(_) if everywhere == Verdict::Refused => return Err(forbidden(&caller, wanted.verb)),
            Err(denial) => return Err(denial),
        }
        if everywhere == Verdict::Refused {
            place = self.crowd.enter(&caller.user)?;
        }
        self.open(&mut parts, &caller, &wanted, &twin, place).await
    }

    fn caller(&self, parts: &Parts) -> Result<Caller, NoCaller> {
        let shown = parts.extensions.get::<ClientCertificates>().cloned().unwrap_or_default();
        let trust = Arc::clone(&self.trust.borrow());
        Caller::of(&shown.0, &*trust, UnixTime::now())
    }

    async fn may(&self, caller: &Caller, what: StreamVerb, node: Option<&str>) -> Result<Verdict, Denial> {
        self.access.may(caller, what, node).await.map_err(|refusal| {
            self.log("who may open streams to lent pods cannot be asked", &refusal);
            let why = "the API server of the virtual cluster did not say whether this is allowed; try again later";
            Denial::new(StreamOutcome::Undecided, StatusCode::INTERNAL_SERVER_ERROR, why)
        })
    }

    fn no_twin(&self, wanted: &Wanted, why: NoTwin) -> Denial {
        let pod = format!("pod {}/{}", wanted.namespace, wanted.pod);
        match why {
            NoTwin::Decided(why) if why.is_absence() => {
                Denial::new(StreamOutcome::NotFound, StatusCode::NOT_FOUND, format!("{pod}: {why}"))
            }
            NoTwin::Decided(why) => Denial::new(StreamOutcome::Foreign, StatusCode::FORBIDDEN, format!("{pod}: {why}")),
            NoTwin::Unread(side, refusal) => {
                self.log("a pod cannot be read for a stream", &refusal);
                let (outcome, code) = match side {
                    Side::Virtual => (StreamOutcome::Undecided, StatusCode::INTERNAL_SERVER_ERROR),
                    Side::Physical => (StreamOutcome::Failed, StatusCode::BAD_GATEWAY),
                };
                Denial::new(outcome, code, format!("{pod}: {}", text::line(&refusal.message, SHOWN)))
            }
        }
    }

    fn no_answer(&self, why: NoAnswer) -> Denial {
        let denial = Denial::from(why);
        if denial.outcome == StreamOutcome::Failed
            && let Some(times) = self.trouble.due(Instant::now())
        {
            tracing::warn!(times, error = denial.why, "a physical API server opens no stream to a lent pod");
        }
        denial
    }

    fn log(&self, what: &str, refusal: &Refusal) {
        if let Some(times) = self.trouble.due(Instant::now()) {
            tracing::warn!(times, reason = refusal.reason.as_str(), error = %refusal, "{what}");
        }
    }

    /// Gives a stream to its owner. There is room for all that have a place, unless the server has stopped.
    fn own(&self, stream: Stream) -> Result<(), Denial> {
        let stopped = |_| Denial::new(StreamOutcome::Failed, StatusCode::BAD_GATEWAY, StreamEnd::Server);
        self.streams.try_send(stream).map_err(stopped)
    }

    /// Opens the stream of a caller that may.
    async fn open(
        &self,
        parts: &mut Parts,
        caller: &Caller,
        wanted: &Wanted,
        twin: &VirtualPod,
        place: Place,
    ) -> Result<Response, Denial> {
        let found = self.reads.physical_pod(twin, &*self.lent).await;
        let (lender, physical) = found.map_err(|why| self.no_twin(wanted, why))?;
        let ends = Ends { binding: lender.ends.clone(), server: self.stop.clone() };
        // Before the physical API server is asked: a command that has begun cannot be taken back. HTTP/1.0 has no upgrade.
        let from_caller = match wanted.verb {
            StreamVerb::Logs => None,
            StreamVerb::Exec | StreamVerb::Attach | StreamVerb::PortForward => {
                Some(parts.extensions.remove::<OnUpgrade>().ok_or(NoAnswer::NoUpgrade(wanted.verb))?)
            }
        };
        let asked = Asked {
            method: &parts.method,
            query: parts.uri.query().unwrap_or_default(),
            headers: &parts.headers,
            wanted,
        };
        let begun = async {
            let answer = asked.open(lender.connection.streams(), &physical).await;
            let answer = answer.map_err(|why| self.no_answer(why))?;
            still(&lender, &physical).await.map_err(|why| self.no_twin(wanted, why))?;
            Ok::<_, Denial>(answer)
        };
        let answer = tokio::select! {
            biased;
            end = ends.ended() => {
                return Err(Denial::new(StreamOutcome::Failed, StatusCode::BAD_GATEWAY, end));
            }
            answer = begun => answer?,
        };
        tracing::debug!(
            verb = wanted.verb.word(), user = %text::line(&caller.user, SHOWN), namespace = wanted.namespace, pod = wanted.pod,
            node = twin.node, "a stream to a lent pod is open"
        );
        let headers = headers_for_caller(wanted.verb, answer.headers());
        let (place, open) = (Arc::new(place), self.metrics.opened(wanted.verb));
        let mut response = match from_caller {
            None => {
                let answer_held = match parts.extensions.remove::<AtWork>() {
                    Some(seat) => {
                        let gone = CancellationToken::new();
                        self.own(watch_over(seat.cut(), ends.clone(), gone.clone(), Arc::clone(&place)).boxed())?;
                        Some(Answer { _gone: gone.drop_guard(), _seat: seat })
                    }
                    None => None,
                };
                let held = Held { _place: place, _open: open, _answer: answer_held };
                Response::new(Body::from_stream(Log { body: answer.into_body(), ends, held }.pieces()))
            }
            Some(from_caller) => {
                let held = Held { _place: place, _open: open, _answer: None };
                let from_physical = hyper::upgrade::on(answer);
                self.own(run(wanted.verb, from_caller, from_physical, ends, held).boxed())?;
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                response
            }
        };
        *response.headers_mut() = headers;
        Ok(response)
    }
}

/// Ends an answer together with what it depends on: a body is asked for nothing, and sees nothing, while its peer does not read.
async fn watch_over(cut: CancellationToken, ends: Ends, gone: CancellationToken, _place: Arc<Place>) {
    tokio::select! {
        // First: another request may be under way on the connection by now.
        biased;
        () = gone.cancelled() => {}
        _ = ends.ended() => cut.cancel(),
    }
}

/// Runs a stream over two connections that are being upgraded.
async fn run(verb: StreamVerb, caller: OnUpgrade, physical: OnUpgrade, ends: Ends, held: Held) {
    let both = async { tokio::try_join!(caller, physical) };
    let both = tokio::select! {
        biased;
        _ = ends.ended() => return,
        both = tokio::time::timeout(UPGRADE, both) => both,
    };
    let end = match both {
        Ok(Ok((caller, physical))) => both_ways(TokioIo::new(caller), TokioIo::new(physical), &ends).await,
        Ok(Err(_)) | Err(_) => StreamEnd::Broken,
    };
    drop(held);
    tracing::debug!(verb = verb.word(), %end, "a stream to a lent pod has ended");
}

/// In the words of a kubelet, without the node: it may be that there is no such pod.
fn forbidden(caller: &Caller, what: StreamVerb) -> Denial {
    let (user, verb) = (text::line(&caller.user, SHOWN), access::verb(what));
    let why = format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource=proxy)");
    Denial::new(StreamOutcome::Forbidden, StatusCode::FORBIDDEN, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s26_what_a_physical_api_server_says_of_the_pod_is_no_failure_and_what_it_says_of_us_or_of_itself_is() {
        for (code, outcome) in [
            (StatusCode::BAD_GATEWAY, StreamOutcome::Failed),
            (StatusCode::TOO_MANY_REQUESTS, StreamOutcome::Failed),
            (StatusCode::NOT_FOUND, StreamOutcome::Impossible),
            (StatusCode::BAD_REQUEST, StreamOutcome::Impossible),
        ] {
            let denial = Denial::from(NoAnswer::Refused { code, why: "no".to_owned() });
            assert_eq!((denial.outcome, denial.code, denial.why.as_str()), (outcome, code, "no"));
        }
    }
}
