//! Which peers may be connected: a bounded number. If there is one more, the peer that has kept us waiting longest is
//! cut off.
//!
//! A peer keeps us waiting while it shakes hands, sends its request, reads its answer, or does nothing at all. So
//! strangers that only hold connections make room for a probe, and no request that we work on is cut off for another
//! one. Each peer has a moment in which its seat is its own: strangers that reconnect as fast as they are cut off take
//! no seat from a probe whose request is on its way.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a peer may keep us waiting before another one gets its seat. A request in one cluster takes a few milliseconds from
/// the connection to its head.
const TURN: Duration = Duration::from_millis(200);

/// The seats of one server.
pub(super) struct Seats {
    most: usize,
    taken: Mutex<Taken>,
    /// One is free, or one more peer keeps us waiting.
    changed: Notify,
}

#[derive(Default)]
struct Taken {
    /// The next turn.
    next: u64,
    /// Peers that keep us waiting, in the order in which that began.
    waiting: BTreeMap<u64, IdleConnection>,
    /// Peers that we work for.
    working: usize,
}

struct IdleConnection {
    since: Instant,
    left: CancellationToken,
}

/// The seat of one connection, free again when it is dropped.
pub(super) struct Seat {
    seats: Arc<Seats>,
    stands: Mutex<SeatState>,
    left: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeatState {
    /// Its peer keeps us waiting since that turn.
    Waiting(u64),
    /// So many of its requests are worked on: what a page keeps of one may outlive it, while the next one has come.
    Working(NonZeroUsize),
}

/// A request of a connection that is worked on, until it is dropped.
pub(super) struct RequestUnderWay(Arc<Seat>);

impl Seats {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default(), changed: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A seat for a new peer. Another one leaves for it if it has to; where all of them are worked for, or have only come, this
    /// waits.
    pub(super) async fn seat(self: &Arc<Self>) -> Arc<Seat> {
        loop {
            // Before the look, so that a change in between is not missed.
            let changed = self.changed.notified();
            match self.try_seat() {
                Ok(seat) => return seat,
                Err(None) => changed.await,
                // Time alone brings a seat, and so does a peer that leaves.
                Err(Some(until)) => drop(tokio::time::timeout_at(until, changed).await),
            }
        }
    }

    /// A seat, or when there is one if nothing changes.
    fn try_seat(self: &Arc<Self>) -> Result<Arc<Seat>, Option<Instant>> {
        let mut taken = self.lock();
        if taken.waiting.len() + taken.working >= self.most {
            let longest = taken.waiting.first_entry().ok_or(None)?;
            let until = longest.get().since + TURN;
            if Instant::now() < until {
                return Err(Some(until));
            }
            longest.remove().left.cancel();
        }
        let left = CancellationToken::new();
        let turn = taken.wait(left.clone());
        Ok(Arc::new(Seat { seats: Arc::clone(self), stands: Mutex::new(SeatState::Waiting(turn)), left }))
    }
}

impl Taken {
    fn wait(&mut self, left: CancellationToken) -> u64 {
        let turn = self.next;
        self.next += 1;
        self.waiting.insert(turn, IdleConnection { since: Instant::now(), left });
        turn
    }
}

impl Seat {
    /// Another peer has this seat now, or its connection was cut off.
    pub(super) async fn left(&self) {
        self.left.cancelled().await;
    }

    /// The head of a request has come: no other peer takes this seat until the answer is made.
    pub(super) fn work(self: &Arc<Self>) -> RequestUnderWay {
        self.stand(|taken, stands| match stands {
            // Where it is not there any more, another peer has the seat, and this connection ends.
            SeatState::Waiting(turn) if taken.waiting.remove(&turn).is_some() => {
                taken.working += 1;
                SeatState::Working(NonZeroUsize::MIN)
            }
            waiting @ SeatState::Waiting(_) => waiting,
            SeatState::Working(requests) => SeatState::Working(requests.saturating_add(1)),
        });
        RequestUnderWay(Arc::clone(self))
    }

    fn stand(&self, change: impl FnOnce(&mut Taken, SeatState) -> SeatState) {
        let mut taken = self.seats.lock();
        let mut stands = self.stands.lock().unwrap_or_else(PoisonError::into_inner);
        *stands = change(&mut taken, *stands);
    }
}

impl RequestUnderWay {
    /// Ends its connection when it is cancelled, as if another peer had the seat.
    pub(super) fn cut(&self) -> CancellationToken {
        self.0.left.clone()
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        let seat = &self.0;
        seat.stand(|taken, stands| match stands {
            SeatState::Working(requests) => match NonZeroUsize::new(requests.get() - 1) {
                Some(left) => SeatState::Working(left),
                None => {
                    taken.working -= 1;
                    SeatState::Waiting(taken.wait(seat.left.clone()))
                }
            },
            waiting @ SeatState::Waiting(_) => waiting,
        });
        seat.seats.changed.notify_one();
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.stand(|taken, stands| {
            match stands {
                SeatState::Waiting(turn) => drop(taken.waiting.remove(&turn)),
                SeatState::Working(_) => taken.working -= 1,
            }
            stands
        });
        self.seats.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::time::advance;

    use super::*;

    fn has_left(seat: &Seat) -> bool {
        seat.left.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_that_has_kept_us_waiting_longest_makes_room() {
        let seats = Seats::new(3);
        let [first, second, third] = [seats.seat().await, seats.seat().await, seats.seat().await];
        advance(TURN).await;
        // The first has asked and got its answer, so it is the last that began to keep us waiting.
        drop(first.work());
        let fourth = seats.try_seat().unwrap();
        assert_eq!([&first, &second, &third, &fourth].map(|seat| has_left(seat)), [false, true, false, false]);
        // A late end of work no longer counts.
        drop(second.work());
        drop(second);
        let _fifth = seats.try_seat().unwrap();
        assert_eq!([&first, &third, &fourth].map(|seat| has_left(seat)), [false, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_has_only_come_keeps_its_seat_for_a_moment() {
        let seats = Seats::new(2);
        let [first, _second] = [seats.seat().await, seats.seat().await];
        let began = Instant::now();
        let third = seats.seat().await;
        assert_eq!((has_left(&first), has_left(&third), began.elapsed().as_millis()), (true, false, TURN.as_millis()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_we_work_for_keeps_its_seat_and_a_new_one_waits_for_the_first_that_is_done() {
        let seats = Seats::new(2);
        let busy = [seats.seat().await, seats.seat().await];
        let [one, other] = [busy[0].work(), busy[1].work()];
        let mut late = std::pin::pin!(seats.seat());
        assert!(late.as_mut().now_or_never().is_none(), "both are worked for");
        advance(TURN * 10).await;
        assert!(late.as_mut().now_or_never().is_none(), "however long that takes");
        // One of them has its answer, and may read it or not.
        drop(one);
        let got = late.await;
        assert_eq!(busy.each_ref().map(|seat| has_left(seat)), [true, false]);
        drop((other, busy, got));
        let all = seats.lock();
        assert_eq!((all.waiting.len(), all.working), (0, 0), "every seat is free again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_keeps_its_seat_until_the_last_of_its_requests_is_done() {
        let seats = Seats::new(1);
        let busy = seats.seat().await;
        // What a page keeps of the first is dropped after the second has come.
        let (first, second) = (busy.work(), busy.work());
        drop(first);
        advance(TURN * 10).await;
        assert!(seats.try_seat().is_err(), "the second is worked on");
        assert_eq!(seats.lock().working, 1, "it is one peer");
        drop(second);
        advance(TURN).await;
        let _other = seats.try_seat().unwrap();
        assert!(has_left(&busy));
        // Its last request comes too late, and takes no seat.
        let (third, fourth) = (busy.work(), busy.work());
        drop((third, fourth, busy));
        let all = seats.lock();
        assert_eq!((all.waiting.len(), all.working), (1, 0));
    }
}
