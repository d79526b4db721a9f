//! The gate that every write goes through: open while the lease is ours and writes are switched on.
//!
//! It is in two places. At the entrance of the client, a request is refused before anything is sent, with the reason.
//! And in the connection itself, under TLS, where the kernel gets the bytes: a request that passed the first place, and
//! then waited for a connection, a handshake or a machine that was stopped meanwhile, does not leave after its time
//! (decision M4). The boot-time clock counts: it runs while the machine sleeps, and is never set.
//!
//! Two cases are left that no program can see: bytes that the kernel has and the network has not delivered, and a
//! virtual machine that is frozen from outside between the look at the clock and the system call. Preconditions on
//! every write guard against those.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, Uri};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::sync::watch;
use tower::{BoxError, Layer, Service};

/// The time since the machine was started, sleep included.
#[must_use]
pub fn boot_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), nanos)
}

/// One gate. Clones are the same gate.
#[derive(Clone)]
pub struct Gate {
    /// In nanoseconds of the boot-time clock.
    until: Arc<AtomicU64>,
    /// While one of these is open, it is, too.
    others: Arc<[Gate]>,
    switch: Switch,
}

/// Switches the writes of every gate that it is given to. Clones are the same switch.
#[derive(Clone, Debug)]
pub struct Switch {
    position: Arc<watch::Sender<Position>>,
}

/// The state of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    word: Word,
    /// Why nothing is written for a moment, whatever the operator has set.
    held: Option<Arc<str>>,
}

/// What the operator has set.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    /// It was not read yet, and why; nothing is written until then.
    Unknown(Arc<str>),
    /// It was read, or set.
    Known(ReadOnly),
}

impl Switch {
    /// A switch in this position.
    #[must_use]
    pub fn new(position: ReadOnly) -> Self {
        Self::at(Word::Known(position))
    }

    /// A switch whose position was not read yet, and why: until it is set, writes are off.
    #[must_use]
    pub fn unknown(why: &str) -> Self {
        Self::at(Word::Unknown(why.into()))
    }

    fn at(word: Word) -> Self {
        Self { position: Arc::new(watch::Sender::new(Position { word, held: None })) }
    }

    /// Why its position is still not known; nothing where it is.
    pub fn still_unknown(&self, why: &str) {
        self.position.send_if_modified(|now| {
            if let Word::Unknown(reason) = &mut now.word {
                *reason = why.into();
            }
            // There is no other reason to wait.
            false
        });
    }

    /// Switches writes off or on, in a leader and in a follower. Says whether that is news.
    pub fn set(&self, position: ReadOnly) -> bool {
        let wanted = Word::Known(position);
        let mut was_off = false;
        self.position.send_if_modified(|now| {
            was_off = now.word.is_read_only();
            let differs = now.word != wanted;
            now.word = wanted.clone();
            differs
        });
        was_off != wanted.is_read_only()
    }

    /// Holds all writes, whatever an operator wants, until [`resume`](Self::resume).
    pub fn hold(&self, why: &str) {
        self.position.send_modify(|now| now.held = Some(why.into()));
    }

    /// Writes are not held any more.
    pub fn resume(&self) {
        self.position.send_if_modified(|now| now.held.take().is_some());
    }

    /// Whether writes are switched off, or may be.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.position.borrow().is_read_only()
    }

    /// Whether writes are off, and why.
    ///
    /// # Errors
    /// An operator switched them off, or the position is not known.
    pub fn check(&self) -> Result<(), Closed> {
        let now = self.position.borrow();
        if let Some(why) = &now.held {
            return Err(Closed::Outdated(Arc::clone(why)));
        }
        match &now.word {
            Word::Unknown(why) => Err(Closed::Unknown(Arc::clone(why))),
            Word::Known(ReadOnly::Yes) => Err(Closed::ReadOnly),
            Word::Known(ReadOnly::No) => Ok(()),
        }
    }

    /// Waits until its position is known, and writes are not held.
    pub async fn known(&self) {
        let is_known = |now: &Position| matches!(now.word, Word::Known(_)) && now.held.is_none();
        // The sender is in `self`, so it cannot be gone.
        let _ = self.changes().wait_for(is_known).await;
    }

    /// Is notified of every change.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<Position> {
        self.position.subscribe()
    }
}

impl Position {
    fn is_read_only(&self) -> bool {
        self.held.is_some() || self.word.is_read_only()
    }
}

impl Word {
    fn is_read_only(&self) -> bool {
        *self != Self::Known(ReadOnly::No)
    }
}

/// Not while this process runs.
const FOR_EVER: u64 = u64::MAX;

/// Why nothing goes through.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// This replica does not hold the lease, or no longer does.
    #[error("this replica does not hold the lease, so it writes nothing")]
    NotLeader,
    /// An operator switched writes off.
    #[error("writes are switched off (--read-only, or the annotation topoloom.dev/read-only on the ConfigMap)")]
    ReadOnly,
    /// It is not known whether an operator did.
    #[error("nothing is written before it is known whether writes are switched off: {0}")]
    Unknown(Arc<str>),
    /// What would be written was decided on what does not hold any more.
    #[error("nothing is written for the moment: {0}")]
    Outdated(Arc<str>),
}

impl Gate {
    /// A gate that opens with a lease.
    #[must_use]
    pub fn closed(switch: &Switch) -> Self {
        Self::until(0, switch)
    }

    /// A gate for writers that need no lease.
    #[must_use]
    pub fn open(switch: &Switch) -> Self {
        Self::until(FOR_EVER, switch)
    }

    fn until(nanos: u64, switch: &Switch) -> Self {
        Self { until: Arc::new(AtomicU64::new(nanos)), others: Arc::default(), switch: switch.clone() }
    }

    /// A gate that is open while one of these is: for what a process writes whichever of its leases it holds.
    pub fn any<'a>(gates: impl IntoIterator<Item = &'a Self>, switch: &Switch) -> Self {
        Self { others: gates.into_iter().cloned().collect(), ..Self::closed(switch) }
    }

    /// A gate that is always open.
    #[must_use]
    pub fn none() -> Self {
        Self::open(&Switch::new(ReadOnly::No))
    }

    /// Opens it until a moment of the boot-time clock.
    pub fn open_until(&self, until: Duration) {
        let nanos = u64::try_from(until.as_nanos()).unwrap_or(FOR_EVER - 1).min(FOR_EVER - 1);
        self.until.store(nanos, Ordering::SeqCst);
    }

    /// Closes it.
    pub fn close(&self) {
        self.until.store(0, Ordering::SeqCst);
    }

    /// The switch that it listens to.
    #[must_use]
    pub fn switch(&self) -> &Switch {
        &self.switch
    }

    /// Waits until writes are not switched off.
    pub async fn writable(&self) {
        // The sender is in `self`, so it cannot be gone.
        let _ = self.switch.changes().wait_for(|position| !position.is_read_only()).await;
    }

    /// Whether a request may go now.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), Closed> {
        self.in_time()?;
        self.switch.check()
    }

    fn in_time(&self) -> Result<(), Closed> {
        let until = self.until.load(Ordering::SeqCst);
        let now = || u64::try_from(boot_time().as_nanos()).unwrap_or(FOR_EVER);
        let is_open = until == FOR_EVER || now() < until || self.others.iter().any(|gate| gate.in_time().is_ok());
        if is_open { Ok(()) } else { Err(Closed::NotLeader) }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.check()).finish()
    }
}

/// Whether writes are switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOnly {
    /// Nothing but leases is written.
    Yes,
    /// Writes go as usual.
    No,
}

/// The gate at the door of a client.
#[derive(Clone)]
pub struct Door(pub Gate);

impl<S> Layer<S> for Door {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { gate: self.0.clone(), inner }
    }
}

/// A client behind a door.
#[derive(Clone)]
pub struct Guarded<S> {
    gate: Gate,
    inner: S,
}

impl<S, B> Service<Request<B>> for Guarded<S>
where
    S: Service<Request<B>>,
    S::Error: Into<BoxError> + Send + 'static,
    S::Response: Send + 'static,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Reading changes nothing: only the lease and its time count for it, and those are looked at in the connection.
        if !matches!(*request.method(), Method::GET | Method::HEAD)
            && let Err(closed) = self.gate.check()
        {
            return Box::pin(std::future::ready(Err(closed.into())));
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}

/// The gate in the connection: makes connections whose bytes stop when it closes.
#[derive(Clone)]
pub struct Connector<C> {
    gate: Gate,
    inner: C,
}

impl<C> Connector<C> {
    /// Connections of `inner`, behind this gate.
    #[must_use]
    pub fn new(gate: Gate, inner: C) -> Self {
        Self { gate, inner }
    }
}

impl<C> Service<Uri> for Connector<C>
where
    C: Service<Uri>,
    C::Error: Into<BoxError> + 'static,
    C::Future: Send + 'static,
    C::Response: Send + 'static,
{
    type Response = Wire<C::Response>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        if let Err(closed) = self.gate.in_time() {
            return Box::pin(std::future::ready(Err(closed.into())));
        }
        let (gate, stream) = (self.gate.clone(), self.inner.call(server));
        Box::pin(async move { Ok(Wire { gate, stream: stream.await.map_err(Into::into)? }) })
    }
}

/// A connection whose bytes stop when the gate closes.
pub struct Wire<S> {
    gate: Gate,
    stream: S,
}

impl<S: Read + Unpin> Read for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Wire<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Err(closed) = self.gate.in_time() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::PermissionDenied, closed)));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Err(closed) = self.gate.in_time() {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::PermissionDenied, closed)));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }
}

impl<S: Connection> Connection for Wire<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    fn writes() -> Switch {
        Switch::new(ReadOnly::No)
    }

    #[test]
    fn a_gate_is_open_for_as_long_as_the_lease_lasts() {
        let gate = Gate::closed(&writes());
        assert_eq!(gate.check(), Err(Closed::NotLeader));
        gate.open_until(boot_time() + Duration::from_secs(3600));
        assert_eq!(gate.check(), Ok(()));
        gate.open_until(boot_time());
        assert_eq!(gate.check(), Err(Closed::NotLeader));
        assert_eq!(Gate::none().check(), Ok(()));
    }

    #[test]
    fn a_gate_of_several_leases_is_open_while_one_of_them_is_ours() {
        let (switch, later) = (writes(), boot_time() + Duration::from_secs(3600));
        let (one, two) = (Gate::closed(&switch), Gate::closed(&switch));
        let any = Gate::any([&one, &two], &switch);
        assert_eq!(any.check(), Err(Closed::NotLeader));
        two.open_until(later);
        assert_eq!(any.check(), Ok(()));
        one.open_until(later);
        two.close();
        assert_eq!(any.check(), Ok(()));
        switch.set(ReadOnly::Yes);
        assert_eq!(any.check(), Err(Closed::ReadOnly));
        one.close();
        assert_eq!(any.check(), Err(Closed::NotLeader));
        assert_eq!(Gate::any([], &writes()).check(), Err(Closed::NotLeader), "no replica leads anything");
    }

    #[tokio::test]
    async fn who_waits_for_writes_hears_when_they_are_allowed() {
        let gate = Gate::none();
        let switch = gate.switch();
        assert!(switch.set(ReadOnly::Yes) && !switch.set(ReadOnly::Yes));
        assert_eq!(gate.check(), Err(Closed::ReadOnly));
        let mut waits = std::pin::pin!(gate.writable());
        assert!(futures::poll!(&mut waits).is_pending());
        switch.set(ReadOnly::No);
        waits.await;
        assert_eq!(gate.check(), Ok(()));
    }

    #[tokio::test]
    async fn a_switch_that_has_not_been_read_says_so_and_not_that_writes_were_switched_off() {
        let switch = Switch::unknown("the ConfigMap a/b was not read yet");
        let gate = Gate::open(&switch);
        let said = || gate.check().unwrap_err().to_string();
        assert!(said().ends_with("switched off: the ConfigMap a/b was not read yet"), "{}", said());
        switch.still_unknown("the ConfigMap a/b cannot be read: forbidden");
        assert!(said().ends_with("cannot be read: forbidden"), "{}", said());
        let mut waits = std::pin::pin!(switch.known());
        assert!(futures::poll!(&mut waits).is_pending());
        switch.set(ReadOnly::No);
        waits.await;
        assert_eq!(gate.check(), Ok(()));
        // What is known stays known.
        switch.still_unknown("the ConfigMap a/b cannot be read: it is away");
        assert_eq!(gate.check(), Ok(()));
        let off = Switch::unknown("not read yet");
        assert!(!off.set(ReadOnly::Yes), "they were off before, too");
        assert_eq!(Gate::open(&off).check(), Err(Closed::ReadOnly));
    }

    #[tokio::test]
    async fn a_switch_stops_writes_and_lets_reads_pass() {
        let gate = Gate::none();
        gate.switch().set(ReadOnly::Yes);
        let mut client = Door(gate).layer(tower::service_fn(async |_: Request<()>| Ok::<_, BoxError>(())));
        let mut ask = async |method: Method| {
            let request = Request::builder().method(method).uri("/").body(()).unwrap();
            client.call(request).await.is_ok()
        };
        assert!(ask(Method::GET).await);
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(!ask(method.clone()).await, "{method}");
        }
    }

    #[tokio::test]
    async fn bytes_of_a_request_that_has_begun_do_not_leave_after_the_gate_closed() {
        let gate = Gate::none();
        let (near, mut far) = tokio::io::duplex(64);
        let mut wire = TokioIo::new(Wire { gate: gate.clone(), stream: TokioIo::new(near) });
        wire.write_all(b"PATCH ").await.unwrap();
        gate.close();
        let refused = wire.write_all(b"/apis").await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("does not hold the lease"), "{refused}");
        drop(wire);
        let mut arrived = String::new();
        far.read_to_string(&mut arrived).await.unwrap();
        assert_eq!(arrived, "PATCH ");
    }

    #[tokio::test]
    async fn no_connection_is_made_while_the_gate_is_closed() {
        let dialled = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&dialled);
        let inner = tower::service_fn(move |_: Uri| {
            counts.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, io::Error>(()) }
        });
        let gate = Gate::closed(&writes());
        let mut connector = Connector::new(gate.clone(), inner);
        let server = Uri::from_static("http://127.0.0.1");
        assert!(connector.call(server.clone()).await.is_err());
        assert_eq!(dialled.load(Ordering::SeqCst), 0);
        gate.open_until(boot_time() + Duration::from_secs(3600));
        assert!(connector.call(server).await.is_ok());
        assert_eq!(dialled.load(Ordering::SeqCst), 1);
    }
}
