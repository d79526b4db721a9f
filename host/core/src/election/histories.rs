//! Random histories: replicas that are late, killed and restarted, answers that are lost, watches that are behind. At
//! no moment do two replicas count as holders.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const TIMING: Timing = Timing {
    duration: Duration::from_millis(150),
    renew_deadline: Duration::from_millis(100),
    retry_period: Duration::from_millis(20),
};

#[derive(Debug, Clone)]
enum Deed {
    /// Time passes.
    Pass(u64),
    /// The replica carries out its order, if no request is under way.
    Act(usize),
    /// The API server serves the request.
    Serve(usize),
    /// The answer arrives.
    Answer(usize),
    /// The answer does not arrive.
    Lose(usize),
    /// The watch reports one more event.
    Watch(usize),
    /// The replica releases the lease and is restarted.
    Release(usize),
    /// The replica is killed and restarted; the API server may still serve its request.
    Kill(usize),
    /// The replica gives way to others for so long from now on.
    GiveWay(usize, u64),
}

const REPLICAS: usize = 3;

fn deed() -> impl Strategy<Value = Deed> {
    let who = 0..REPLICAS;
    prop_oneof![
        4 => (1_u64..60).prop_map(Deed::Pass),
        6 => who.clone().prop_map(Deed::Act),
        6 => who.clone().prop_map(Deed::Serve),
        6 => who.clone().prop_map(Deed::Answer),
        1 => who.clone().prop_map(Deed::Lose),
        4 => who.clone().prop_map(Deed::Watch),
        1 => who.clone().prop_map(Deed::Release),
        1 => who.clone().prop_map(Deed::Kill),
        1 => (who, 0_u64..40).prop_map(|(who, millis)| Deed::GiveWay(who, millis)),
    ]
}

#[derive(Debug, Clone)]
struct Sent {
    at: Duration,
    order: LeaseOrder,
    answer: Option<Result<Observation, LeaseOutcome>>,
}

struct Replica {
    candidate: LeaseCandidate,
    sent: Option<Sent>,
    watch: VecDeque<Observation>,
}

#[derive(Default)]
struct Store {
    version: u64,
    record: Option<Record>,
}

impl Store {
    fn see(&self) -> Observation {
        self.record.clone().map_or(Observation::Absent(None), Observation::Present)
    }

    fn write(&mut self, holder: &str, released_by: Option<&str>, transitions: u32) -> Record {
        self.version += 1;
        let record = Record {
            version: self.version.to_string().into(),
            holder: holder.into(),
            released_by: released_by.map(Into::into),
            duration: TIMING.duration,
            transitions,
        };
        self.record = Some(record.clone());
        record
    }

    fn is(&self, base: Option<&ResourceVersion>) -> bool {
        self.record.as_ref().map(|record| &record.version) == base
    }
}

struct World {
    now: Duration,
    store: Store,
    replicas: Vec<Replica>,
    /// Requests of replicas that no longer exist.
    orphans: Vec<(Arc<str>, LeaseOrder)>,
    born: usize,
    led: usize,
    after_loss: AfterLoss,
}

/// What a replica does that lost the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterLoss {
    /// Its process ends, and the next one has another name.
    IsBorn,
    /// Its group ends, and it stands again under its name. A request that is under way may still be served.
    StandsAgain,
}

impl World {
    fn new(after_loss: AfterLoss) -> Self {
        let mut world = Self {
            now: Duration::ZERO,
            store: Store::default(),
            replicas: Vec::new(),
            orphans: Vec::new(),
            born: 0,
            led: 0,
            after_loss,
        };
        (0..REPLICAS).for_each(|_| {
            let replica = world.born();
            world.replicas.push(replica);
        });
        world
    }

    fn born(&mut self) -> Replica {
        self.born += 1;
        let name = format!("replica-{}", self.born);
        Replica { candidate: LeaseCandidate::new(name.into(), TIMING), sent: None, watch: VecDeque::new() }
    }

    /// All that a replica decided under the lease has ended.
    fn ends(&mut self, who: usize) {
        let mut next = self.born();
        if self.after_loss == AfterLoss::StandsAgain {
            let replica = &mut self.replicas[who];
            let me = Arc::clone(replica.candidate.me());
            if let Some(sent) = replica.sent.take().filter(|sent| sent.answer.is_none()) {
                self.orphans.push((Arc::clone(&me), sent.order));
            }
            next.candidate = LeaseCandidate::new(me, TIMING);
        }
        self.replicas[who] = next;
    }

    fn report(&mut self) {
        let news = self.store.see();
        self.replicas.iter_mut().for_each(|replica| replica.watch.push_back(news.clone()));
    }

    fn serve(&mut self, me: &Arc<str>, order: &LeaseOrder) -> Result<Observation, LeaseOutcome> {
        let (base, transitions) = match order {
            LeaseOrder::Read => return Ok(self.store.see()),
            LeaseOrder::Claim { base, transitions } => (base.as_ref(), *transitions),
            LeaseOrder::Renew(version) => (Some(version), 0),
            _ => return Err(LeaseOutcome::Unknown),
        };
        if !self.store.is(base) {
            return Err(LeaseOutcome::Conflict);
        }
        let record = self.store.write(me, None, transitions);
        self.report();
        Err(LeaseOutcome::Confirmed(record.version))
    }

    fn does(&mut self, deed: &Deed) {
        match *deed {
            Deed::Pass(millis) => self.now += Duration::from_millis(millis),
            Deed::Act(who) => {
                let now = self.now;
                let replica = &mut self.replicas[who];
                let order = replica.candidate.next(now);
                match order {
                    LeaseOrder::Wait(_) => {}
                    LeaseOrder::Stop(_) => self.ends(who),
                    order if replica.sent.is_none() => replica.sent = Some(Sent { at: now, order, answer: None }),
                    _ => {}
                }
            }
            Deed::Serve(who) => {
                if let Some((me, order)) = self.orphans.pop() {
                    let _ = self.serve(&me, &order);
                }
                let Some(mut sent) = self.replicas[who].sent.clone() else { return };
                if sent.answer.is_none() {
                    let me = Arc::clone(self.replicas[who].candidate.me());
                    sent.answer = Some(self.serve(&me, &sent.order));
                    self.replicas[who].sent = Some(sent);
                }
            }
            Deed::Answer(who) => {
                let now = self.now;
                let replica = &mut self.replicas[who];
                let Some(Sent { answer: Some(answer), .. }) = &replica.sent else { return };
                let answer = answer.clone();
                let Some(sent) = replica.sent.take() else { return };
                match answer {
                    Ok(seen) => replica.candidate.observed(now, SeenBy::Read, seen),
                    Err(answer) => {
                        let base = match &sent.order {
                            LeaseOrder::Claim { base, .. } => base.clone(),
                            _ => None,
                        };
                        replica.candidate.answered(sent.at, now, base.as_ref(), answer);
                    }
                }
            }
            Deed::Lose(who) => {
                let now = self.now;
                let replica = &mut self.replicas[who];
                let Some(sent) = replica.sent.take() else { return };
                let me = Arc::clone(replica.candidate.me());
                match sent.order {
                    LeaseOrder::Read => replica.candidate.unread(now),
                    ref order => {
                        let base = match order {
                            LeaseOrder::Claim { base, .. } => base.clone(),
                            _ => None,
                        };
                        replica.candidate.answered(sent.at, now, base.as_ref(), LeaseOutcome::Unknown);
                        if sent.answer.is_none() {
                            self.orphans.push((me, sent.order));
                        }
                    }
                }
            }
            Deed::Watch(who) => {
                let now = self.now;
                let replica = &mut self.replicas[who];
                if let Some(news) = replica.watch.pop_front() {
                    replica.candidate.observed(now, SeenBy::Watch, news);
                }
            }
            Deed::Release(who) => {
                let Some(version) = self.replicas[who].candidate.release() else { return };
                let me = Arc::clone(self.replicas[who].candidate.me());
                // Its requests have ended before that; none is under way any more.
                let fresh = self.born();
                self.replicas[who] = fresh;
                if self.store.is(Some(&version)) {
                    self.store.write("", Some(&me), 0);
                    self.report();
                }
            }
            Deed::GiveWay(who, millis) => self.replicas[who].candidate.give_way(Duration::from_millis(millis)),
            Deed::Kill(who) => {
                let me = Arc::clone(self.replicas[who].candidate.me());
                if let Some(sent) = self.replicas[who].sent.take().filter(|sent| sent.answer.is_none()) {
                    self.orphans.push((me, sent.order));
                }
                let fresh = self.born();
                self.replicas[who] = fresh;
            }
        }
    }

    fn holders(&mut self) -> Vec<Arc<str>> {
        let now = self.now;
        let holds = |replica: &&Replica| matches!(replica.candidate.position(), ElectionPosition::Leading(until) if now < until);
        let holders: Vec<_> =
            self.replicas.iter().filter(holds).map(|replica| Arc::clone(replica.candidate.me())).collect();
        self.led += holders.len();
        holders
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn two_replicas_are_never_confirmed_at_once(deeds in prop::collection::vec(deed(), 1..400)) {
        let mut world = World::new(AfterLoss::IsBorn);
        for deed in &deeds {
            world.does(deed);
            let holders = world.holders();
            prop_assert!(holders.len() <= 1, "{:?} at {:?}", holders, world.now);
        }
    }

    #[test]
    fn s11_replicas_that_stand_again_under_their_names_are_never_confirmed_at_once(
        deeds in prop::collection::vec(deed(), 1..400),
    ) {
        let mut world = World::new(AfterLoss::StandsAgain);
        for deed in &deeds {
            world.does(deed);
            let holders = world.holders();
            prop_assert!(holders.len() <= 1, "{:?} at {:?}", holders, world.now);
        }
    }
}

/// The histories above prove something only if some replica leads in them, and others follow it.
#[test]
fn a_fair_history_has_one_holder_after_another() {
    let mut world = World::new(AfterLoss::IsBorn);
    let mut holders: Vec<Arc<str>> = Vec::new();
    for round in 0..400 {
        for who in 0..REPLICAS {
            for deed in [Deed::Act(who), Deed::Serve(who), Deed::Answer(who), Deed::Watch(who), Deed::Watch(who)] {
                world.does(&deed);
            }
        }
        world.does(&Deed::Pass(5));
        for holder in world.holders() {
            if holders.last() != Some(&holder) {
                holders.push(holder);
            }
        }
        if round % 100 == 50 {
            let who = (0..REPLICAS)
                .find(|who| matches!(world.replicas[*who].candidate.position(), ElectionPosition::Leading(_)))
                .unwrap();
            world.does(&if round % 200 == 50 { Deed::Kill(who) } else { Deed::Release(who) });
        }
    }
    assert_eq!(holders.len(), 5, "{holders:?}");
}
