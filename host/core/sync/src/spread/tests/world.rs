//! Replicas with elections, announcements and clocks: they come, die and leave, and every binding has a holder again in time.
//!
//! Elections are those of `topoloom_core::election`, over one store that answers at once and whose watches are one tick
//! behind. The rules of hand-over are checked at each one.

use topoloom_core::election::{
    ElectionPosition, LeaseCandidate, LeaseOrder, LeaseOutcome, Observation, Record, SeenBy, Timing,
};

use super::*;

/// The defaults of the flags.
const TIMING: Timing = Timing {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};
/// Beyond the duration of a lease: the courtesy, the watches, and the turns of a replica.
const MORE: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(250);
/// How often a member announces itself.
const ANNOUNCES: Duration = Duration::from_secs(5);

/// What the watches show with the next tick.
enum News {
    Lease(usize),
    Announced(Announcement),
    Left(MemberName),
}

struct Replica {
    members: Members,
    overs: HandOvers,
    /// By binding, with when its lease was taken.
    candidates: Vec<(LeaseCandidate, Option<Duration>)>,
    courtesies: Vec<Duration>,
    live: BTreeSet<MemberName>,
    announces_at: Duration,
    looks_at: Duration,
}

struct World {
    now: Duration,
    version: u64,
    bindings: Vec<Uid>,
    leases: Vec<Option<Record>>,
    announced: BTreeMap<MemberName, Announcement>,
    news: Vec<News>,
    replicas: Vec<Option<Replica>>,
    born: usize,
    /// When each binding had a holder last.
    held: Vec<Duration>,
    /// When a binding was handed over, and by which replica.
    handed: Vec<(Duration, MemberName)>,
}

impl World {
    fn new(places: usize, bindings: usize) -> Self {
        let now = seconds(1000);
        Self {
            now,
            version: 0,
            bindings: (0..bindings).map(binding).collect(),
            leases: vec![None; bindings],
            announced: BTreeMap::new(),
            news: Vec::new(),
            replicas: (0..places).map(|_| None).collect(),
            born: 0,
            held: vec![now; bindings],
            handed: Vec::new(),
        }
    }

    fn candidate(me: &MemberName) -> LeaseCandidate {
        LeaseCandidate::new(me.into(), TIMING)
    }

    /// A replica starts, unless one runs there.
    fn joins(&mut self, place: usize) {
        if self.replicas[place].is_some() {
            return;
        }
        self.born += 1;
        let (me, now) = (member(self.born), self.now);
        let mut members = Members::new(me.clone());
        members.relisted(now, self.announced.values().cloned(), History::Same);
        let courtesies = self.bindings.iter().map(|binding| members.courtesy(now, binding)).collect();
        let candidates = self.bindings.iter().map(|_| (Self::candidate(&me), None)).collect();
        let (live, overs) = (members.live(now), HandOvers::default());
        let replica = Replica { members, overs, candidates, courtesies, live, announces_at: now, looks_at: now };
        self.replicas[place] = Some(replica);
    }

    /// A replica ends: it withdraws its announcement and gives back what it holds.
    fn leaves(&mut self, place: usize) {
        let Some(replica) = self.replicas[place].take() else { return };
        let me = replica.members.me().clone();
        self.announced.remove(&me);
        self.news.push(News::Left(me));
        for (number, (candidate, _)) in replica.candidates.iter().enumerate() {
            self.gives_back(number, candidate);
        }
    }

    /// A replica is killed.
    fn dies(&mut self, place: usize) {
        self.replicas[place] = None;
    }

    fn write(&mut self, number: usize, holder: &str, released_by: Option<&str>, transitions: u32) -> ResourceVersion {
        self.version += 1;
        let version = ResourceVersion::from(self.version.to_string());
        let duration = if holder.is_empty() { seconds(1) } else { TIMING.duration };
        let (holder, released_by) = (holder.into(), released_by.map(Into::into));
        self.leases[number] = Some(Record { version: version.clone(), holder, released_by, duration, transitions });
        self.news.push(News::Lease(number));
        version
    }

    fn is_stored(&self, number: usize, version: Option<&ResourceVersion>) -> bool {
        self.leases[number].as_ref().map(|record| &record.version) == version
    }

    fn gives_back(&mut self, number: usize, candidate: &LeaseCandidate) {
        if candidate.release().is_some_and(|version| self.is_stored(number, Some(&version))) {
            let me = candidate.me().to_string();
            self.write(number, "", Some(&me), 0);
        }
    }

    fn observation(&self, number: usize) -> Observation {
        self.leases[number].clone().map_or(Observation::Absent(None), Observation::Present)
    }

    /// What the election of one binding does now.
    fn elects(&mut self, number: usize, candidate: &mut LeaseCandidate) {
        let now = self.now;
        // An order at a time, until it has to wait.
        for _ in 0..4 {
            let (base, transitions) = match candidate.next(now) {
                LeaseOrder::Wait(_) => return,
                LeaseOrder::Stop(lost) => panic!("a lease was lost although every request was answered: {lost}"),
                LeaseOrder::Read => {
                    candidate.observed(now, SeenBy::Read, self.observation(number));
                    continue;
                }
                LeaseOrder::Claim { base, transitions } => (base, transitions),
                LeaseOrder::Renew(version) => (Some(version), 0),
            };
            let outcome = if self.is_stored(number, base.as_ref()) {
                let me = candidate.me().to_string();
                LeaseOutcome::Confirmed(self.write(number, &me, None, transitions))
            } else {
                LeaseOutcome::Conflict
            };
            candidate.answered(now, now, base.as_ref(), outcome);
        }
    }

    fn acts(&mut self, place: usize, news: &[News]) {
        let Some(mut replica) = self.replicas[place].take() else { return };
        let now = self.now;
        for news in news {
            match news {
                News::Lease(number) => {
                    let seen = self.observation(*number);
                    replica.candidates[*number].0.observed(now, SeenBy::Watch, seen);
                }
                News::Announced(announcement) => replica.members.saw(now, announcement.clone()),
                News::Left(member) => replica.members.left(member),
            }
        }
        if now >= replica.announces_at {
            replica.announces_at = now + ANNOUNCES;
            self.announce(replica.members.me());
        }
        let live = replica.members.live(now);
        if live != replica.live {
            let members = &replica.members;
            replica.courtesies = self.bindings.iter().map(|binding| members.courtesy(now, binding)).collect();
            replica.live = live;
            replica.looks_at = now;
        }
        for number in 0..self.bindings.len() {
            let (candidate, taken) = &mut replica.candidates[number];
            candidate.give_way(replica.courtesies[number]);
            self.elects(number, candidate);
            if !matches!(candidate.position(), ElectionPosition::Leading(_)) {
                *taken = None;
            } else if taken.is_none() {
                *taken = Some(now);
                replica.looks_at = now;
            }
        }
        self.hands_over(&mut replica);
        self.replicas[place] = Some(replica);
    }

    fn announce(&mut self, me: &MemberName) {
        self.version += 1;
        let version = self.version.to_string().into();
        let announcement = Announcement { member: me.clone(), version, lasts: TIMING.duration };
        self.announced.insert(me.clone(), announcement.clone());
        self.news.push(News::Announced(announcement));
    }

    fn hands_over(&mut self, replica: &mut Replica) {
        let now = self.now;
        if now < replica.looks_at {
            return;
        }
        let bindings = self.bindings.iter().zip(&replica.candidates);
        let held: Vec<HeldBinding> = bindings
            .filter_map(|(binding, (_, taken))| taken.map(|since| HeldBinding { binding: binding.clone(), since }))
            .collect();
        match replica.overs.next(now, &replica.members, &held) {
            HandOver::Nothing => replica.looks_at = Duration::MAX,
            HandOver::At(at) => {
                assert!(at > now, "it would look for ever");
                replica.looks_at = at;
            }
            HandOver::Release(binding) => {
                let number = self.bindings.iter().position(|known| *known == binding).unwrap();
                let me = replica.members.me().clone();
                let fresh = (Self::candidate(&me), None);
                let (candidate, taken) = std::mem::replace(&mut replica.candidates[number], fresh);
                assert!(now >= taken.unwrap() + KEPT, "a binding goes back and forth");
                let last = self.handed.iter().rev().find(|(_, by)| *by == me).map(|(at, _)| *at);
                assert!(last.is_none_or(|last| now >= last + BETWEEN), "two hand-overs within a minute");
                assert_ne!(first(&binding, &replica.live), Some(&me));
                self.gives_back(number, &candidate);
                self.handed.push((now, me));
                replica.overs.done(now);
                replica.looks_at = now;
            }
        }
    }

    /// Time passes, and every binding has a holder again in time.
    fn passes(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.now += TICK;
            let news = std::mem::take(&mut self.news);
            for place in 0..self.replicas.len() {
                self.acts(place, &news);
            }
            for number in 0..self.bindings.len() {
                let holders = self.holders(number);
                assert!(holders.len() <= 1, "{holders:?} hold one binding");
                if !holders.is_empty() {
                    self.held[number] = self.now;
                }
                let without = self.now - self.held[number];
                assert!(without <= TIMING.duration + MORE, "binding {number} has had no holder for {without:?}");
            }
        }
    }

    fn holders(&self, number: usize) -> Vec<MemberName> {
        let holds = |replica: &&Replica| {
            let position = replica.candidates[number].0.position();
            matches!(position, ElectionPosition::Leading(until) if self.now < until)
        };
        self.replicas.iter().flatten().filter(holds).map(|replica| replica.members.me().clone()).collect()
    }

    /// How many bindings are not held by the member that they go to first.
    fn elsewhere(&self) -> usize {
        let running = self.replicas.iter().flatten().map(|replica| replica.members.me().clone());
        let running: BTreeSet<MemberName> = running.collect();
        let is_elsewhere = |number: &usize| {
            let holders = self.holders(*number);
            holders.first() != first(&self.bindings[*number], &running)
        };
        (0..self.bindings.len()).filter(is_elsewhere).count()
    }
}

/// What happens to one of the replicas that come and go.
#[derive(Debug, Clone, Copy)]
enum Event {
    Joins,
    Leaves,
    Dies,
}

fn event() -> impl Strategy<Value = (u64, usize, Event)> {
    let what = prop_oneof![3 => Just(Event::Joins), 1 => Just(Event::Leaves), 2 => Just(Event::Dies)];
    (0_u64..60_000, 1_usize..4, what)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// One replica runs through all of it: a replica that has just come waits for a whole lease of the holder that it meets.
    #[test]
    fn s11_while_members_come_and_go_every_binding_has_a_holder_within_a_lease_and_three_seconds(
        events in prop::collection::vec(event(), 1..24),
    ) {
        let mut world = World::new(4, 5);
        world.joins(0);
        world.passes(seconds(10));
        for (millis, place, event) in events {
            world.passes(Duration::from_millis(millis));
            match event {
                Event::Joins => world.joins(place),
                Event::Leaves => world.leaves(place),
                Event::Dies => world.dies(place),
            }
        }
        world.passes(seconds(40));
    }
}

#[test]
fn s11_bindings_move_to_members_that_join_one_by_one_and_then_stay() {
    let mut world = World::new(3, 9);
    world.joins(0);
    world.passes(seconds(120));
    assert_eq!(world.elsewhere(), 0, "the only one serves all");
    world.joins(1);
    world.joins(2);
    world.passes(seconds(20));
    let wrong = world.elsewhere();
    assert!(wrong > 2, "the others rank first for some of them: {wrong}");
    assert!(world.handed.is_empty(), "not within ten minutes of taking");
    world.passes(seconds(600 + 60 * 9));
    assert_eq!((world.elsewhere(), world.handed.len()), (0, wrong), "each moved once");
    world.passes(seconds(1200));
    assert_eq!(world.handed.len(), wrong, "and none goes back");
}

#[test]
fn s11_a_member_that_is_killed_is_replaced_and_the_next_one_gets_bindings_only_after_ten_minutes() {
    let mut world = World::new(2, 6);
    for place in 0..2 {
        world.joins(place);
    }
    world.passes(seconds(1200));
    assert_eq!(world.elsewhere(), 0);
    let before = world.handed.len();
    world.dies(1);
    world.passes(seconds(30));
    assert_eq!(world.elsewhere(), 0, "the other one serves all of them");
    world.joins(1);
    world.passes(seconds(500));
    assert_eq!(world.handed.len(), before);
    world.passes(seconds(600));
    assert_eq!(world.elsewhere(), 0);
    assert!(world.handed.len() > before);
}
