//! Processes with caches that are behind, and the API server that answers them.

use super::world::*;
use super::*;

impl World {
    /// A node with these keys, as a process sees it.
    pub(super) fn sight(&mut self, at: usize, node: usize, keys: &[usize], stored: &StoredNode) -> Node {
        let keys = keys.iter().map(|key| self.sight_of(at, node, *key, &stored.locks[*key])).collect();
        Node { version: stored.version.to_string().into(), keys }
    }

    pub(super) fn sight_of(&mut self, at: usize, node: usize, key: usize, stored: &StoredLock) -> Sight {
        let now = self.now;
        let mutation = self.mutation;
        let process = &mut self.processes[at];
        let view = &self.history[process.pods];
        let mut note = stored.note.clone();
        if let (Mutation::UidIgnored, Some(note)) = (mutation, &mut note) {
            // Whoever has the name has the UID.
            let named = stored.value.as_ref().and_then(|value| Lock::read(value, Some(note.clone())).pod().cloned());
            let same = |stored: &&StoredPod| named.as_ref().is_some_and(|named| named.name == stored.pod.key.name);
            if let Some(uid) = view.pods.values().find(same).and_then(|stored| stored.pod.key.uid.clone()) {
                note.uid = uid;
            }
        }
        if let (Mutation::ClocksAgree, Some(note)) = (mutation, &mut note) {
            note.deadline -= SKEW;
        }
        let lock = stored.value.as_ref().map(|value| Lock::read(value, note));
        let mut waiting = Vec::new();
        for (_, stored) in view.pods.iter().filter(|(slot, _)| needs(**slot).contains(&key)) {
            if stored.pod.waits_on(&name_of(node)) {
                waiting.push(stored.pod.clone());
            }
        }
        let found = process.listed.as_ref().filter(|(of, _)| *of == node).map(|(_, found)| found);
        let listed = found.is_some();
        for (slot, pod) in found.into_iter().flatten() {
            if needs(*slot).contains(&key) && pod.waits_on(&name_of(node)) {
                waiting.push(pod.clone());
            }
        }
        let mut holder = Holder::Unconfirmed;
        let (mut first_seen, mut confirmed) = (now, false);
        if let Some(lock) = &lock {
            let seen = process.first_seen.entry((node, key)).or_insert_with(|| (Arc::clone(&lock.value), now));
            if seen.0 != lock.value {
                *seen = (Arc::clone(&lock.value), now);
            }
            first_seen = seen.1;
            if mutation == Mutation::FirstSightCounts {
                first_seen = first_seen.saturating_sub(GRACE);
            }
            if let Named::Pod { pod, time, note } = &lock.named {
                let mut cached = view.pods.values().find(|stored| stored.pod.key.name == pod.name).cloned();
                if let (Mutation::PhaseAsEvidence, Some(stored)) = (mutation, &mut cached) {
                    stored.pod.finished |= matches!(stored.phase, "success" | "failed");
                }
                let cached = cached.map(|stored| stored.pod).filter(|seen| is_owner(pod, *time, note.is_some(), seen));
                confirmed = matches!(process.known.get(&lock.value), Some(Holder::Seen(_)));
                let number = |pod: &Pod| pod.version.parse::<u64>().unwrap();
                holder = match (cached, process.known.get(&lock.value)) {
                    (_, Some(gone @ Holder::Gone { .. })) => gone.clone(),
                    (Some(cached), Some(Holder::Seen(live)))
                        if live.key != cached.key || number(live) > number(&cached) =>
                    {
                        Holder::Seen(live.clone())
                    }
                    (Some(cached), _) => Holder::Seen(cached),
                    (None, _) if mutation == Mutation::AbsentFromCache => Holder::Gone { since: Duration::ZERO },
                    (None, Some(known)) => known.clone(),
                    (None, None) => Holder::Unconfirmed,
                };
            }
        }
        // In this world a key has one vendor, who gives it back when its pod is served.
        let sight = Sight { lock, holder, confirmed, waiting, listed, left: None, first_seen };
        self.judge_in_time(at, node, &sight);
        sight
    }

    /// No attempt that is in time counts as over: not where its clock and the judge's are no further apart than clocks may be, and not
    /// in the moment after it has written its value, whatever they show.
    fn judge_in_time(&mut self, at: usize, node: usize, sight: &Sight) {
        let standing = sight.standing(&name_of(node), self.clock_of(at), TTL, Takeover::State);
        let (Some(Standing::Over(Reason::Abandoned)), Some(lock)) = (standing, &sight.lock) else { return };
        let now = self.now;
        let wrote = |process: &Process| match &process.machine {
            Some((_, Machine::Bind { attempt, .. })) => {
                attempt.request().values.contains(&lock.value) && now < attempt.request().deadline
            }
            _ => false,
        };
        let Some(of) = self.processes.iter().position(wrote) else { return };
        let apart = self.wall_of(at).duration_since(self.wall_of(of)).unsigned_abs();
        let stands = now.saturating_sub(self.written.get(&lock.value).copied().unwrap_or(now));
        if apart <= SKEW || stands < GRACE {
            self.broken.get_or_insert(format!("process {at} takes process {of} for dead, which is in time: {lock:?}"));
        }
    }

    pub(super) fn start(&mut self, at: usize, slot: usize, node: usize) {
        let process = &self.processes[at];
        let Some(stored) = self.history[process.pods].pods.get(&slot) else { return };
        if process.machine.is_some() || stored.pod.node.is_some() || stored.pod.finished {
            return;
        }
        let cached = stored.pod.clone();
        self.tokens += 1;
        let time = self.wall_of(at) + jiff::SignedDuration::from_nanos(i64::from(self.tokens));
        let value = |key: &usize| match *key {
            SHARED => Value::of(time, &cached.key.namespace, &cached.key.name).to_string().into(),
            _ => bare(time).into(),
        };
        let request = Request {
            pod: cached.key.clone(),
            node: name_of(node),
            values: needs(slot).iter().map(value).collect(),
            deadline: self.now + DEADLINE,
            ttl: TTL,
            takeover: Takeover::State,
            retry: Retry::CLASSIC,
        };
        let attempt = Attempt::new(request, Some(cached));
        self.processes[at].forget();
        self.processes[at].machine = Some((node, Machine::Bind { pod: slot, attempt }));
    }

    pub(super) fn act(&mut self, at: usize) {
        if self.processes[at].sent.is_some() {
            return;
        }
        let Some((node, mut machine)) = self.processes[at].machine.take() else { return };
        let clock = self.clock_of(at);
        let order = match &mut machine {
            Machine::Bind { attempt, .. } => Some(attempt.next(self.now, 0.5)),
            Machine::Sweep(sweep) => sweep.next(),
        };
        let mut sent = None;
        match (order, &mut machine) {
            (None | Some(Order::End(_)), machine) => return self.ended(at, node, machine),
            (Some(Order::Look { live: false }), machine) => {
                let stored = self.history[self.processes[at].nodes].nodes[node].clone();
                let seen = self.sight(at, node, machine.keys(), &stored);
                match machine {
                    Machine::Bind { pod, attempt } => {
                        let pod = self.history[self.processes[at].pods].pods.get(pod).map(|stored| stored.pod.clone());
                        attempt.looked(clock, Some(seen), pod);
                    }
                    Machine::Sweep(sweep) => sweep.looked(clock, Some(seen)),
                }
            }
            (Some(Order::Wait { .. }), Machine::Bind { attempt, .. }) => {
                self.processes[at].forget();
                attempt.woken();
            }
            (Some(Order::Wait { .. } | Order::Pause(_)), _) => {}
            (Some(order), machine) => sent = Some(self.request(at, node, order, machine)),
        }
        self.processes[at].machine = Some((node, machine));
        self.processes[at].sent = sent;
    }

    pub(super) fn request(&self, at: usize, node: usize, order: Order, machine: &Machine) -> Sent {
        let slot_of = |key: &PodKey| (key.name[1..].parse().unwrap_or(usize::MAX), key.uid.clone().unwrap_or_default());
        let (pod, value, locks) = match machine {
            Machine::Bind { pod: slot, attempt } => {
                let Request { pod: key, values, deadline, .. } = attempt.request();
                let uid = key.uid.clone().unwrap();
                let deadline = base() + *deadline + SKEWS[at];
                let lock = |value: &Arc<str>| StoredLock {
                    value: Some(Arc::clone(value)),
                    note: Some(Note {
                        value: Arc::clone(value),
                        uid: Arc::clone(&uid),
                        pod: Some((Arc::clone(&key.namespace), Arc::clone(&key.name))),
                        attempt: "a".into(),
                        instance: at.to_string().into(),
                        deadline,
                    }),
                };
                let locks = machine.keys().iter().copied().zip(values.iter().map(lock)).collect();
                ((*slot, Arc::clone(&uid)), Arc::clone(&values[0]), locks)
            }
            Machine::Sweep(_) => ((usize::MAX, "".into()), "".into(), Vec::new()),
        };
        let (pod, value) = match &order {
            Order::Revoke { pod, value } => (slot_of(&pod.key), Arc::clone(value)),
            Order::AskHolder { pod, value } => (slot_of(pod), Arc::clone(value)),
            Order::AskUnrecorded { pod } => (slot_of(pod), value),
            _ => (pod, value),
        };
        // Of a release: the keys that go.
        let locks = match &order {
            Order::Release { keys, .. } => keys.iter().map(|at| (machine.keys()[*at], StoredLock::default())).collect(),
            Order::Restore { key, pod, .. } => {
                vec![(machine.keys()[*key], self.restored(at, machine.keys()[*key], pod))]
            }
            _ => locks,
        };
        Sent { order, node, pod, locks, value, half: false, reply: None }
    }

    /// The lock of a pod that had lost it.
    pub(super) fn restored(&self, at: usize, key: usize, pod: &PodKey) -> StoredLock {
        let value: Arc<str> = match key {
            SHARED => Value::of(self.wall_of(at), &pod.namespace, &pod.name).to_string().into(),
            _ => bare(self.wall_of(at)).into(),
        };
        let note = Note {
            value: Arc::clone(&value),
            uid: pod.uid.clone().unwrap_or_default(),
            pod: Some((Arc::clone(&pod.namespace), Arc::clone(&pod.name))),
            attempt: "r".into(),
            instance: at.to_string().into(),
            deadline: self.wall_of(at),
        };
        StoredLock { value: Some(value), note: Some(note) }
    }

    pub(super) fn ended(&mut self, at: usize, node: usize, machine: &mut Machine) {
        let Machine::Bind { pod, attempt } = machine else { return };
        let Order::End(Outcome { result, .. }) = attempt.next(self.now, 0.5) else { return };
        let uid = attempt.request().pod.uid.clone();
        if let Ok(Bound::Now | Bound::Before) = result {
            let stored = self
                .history
                .iter()
                .rev()
                .filter_map(|store| store.pods.get(pod))
                .find(|stored| stored.pod.key.uid == uid);
            if stored.is_none_or(|stored| stored.pod.node != Some(name_of(node))) {
                self.broken.get_or_insert(format!("process {at} says that {uid:?} is bound to n{node}: {stored:?}"));
            }
        }
    }

    /// What the API server does with a request.
    pub(super) fn apply(&mut self, sent: &mut Sent) -> Option<Reply> {
        let (node, (slot, uid)) = (sent.node, sent.pod.clone());
        let stored = self.store().nodes[node].clone();
        let pod = self.store().pods.get(&slot).cloned();
        let same_node =
            |version: &str| self.mutation == Mutation::NodeVersionDropped || version == stored.version.to_string();
        let write = |locks: Vec<(usize, StoredLock)>| {
            move |store: &mut Store, version: u64| {
                store.nodes[node].version = version;
                locks.into_iter().for_each(|(key, lock)| store.nodes[node].locks[key] = lock);
            }
        };
        let locks = sent.locks.clone();
        let stands = locks.iter().any(|(key, _)| stored.locks[*key].value.is_some());
        let conflict = Some(Reply::Wrote(Answer::Conflict));
        let done = |version| Some(Reply::Wrote(Answer::Done(version)));
        let free = |version: &str| match &pod {
            None => Err(Answer::Absent),
            Some(stored) if stored.pod.key.uid.as_ref() != Some(&uid) && self.mutation != Mutation::UidIgnored => {
                Err(Answer::Conflict)
            }
            Some(stored) if stored.pod.node.is_some() || *stored.pod.version != *version => Err(Answer::Conflict),
            Some(stored) => Ok(stored.pod.clone()),
        };
        match sent.order.clone() {
            Order::Look { .. } => Some(Reply::Node(stored)),
            Order::AskPod | Order::AskHolder { .. } | Order::AskUnrecorded { .. } => {
                Some(Reply::Pod(pod.map(|stored| stored.pod)))
            }
            Order::AskWaiting => {
                let here = self.store().pods.iter().filter(|(_, stored)| stored.pod.waits_on(&name_of(node)));
                Some(Reply::Waiting(here.map(|(slot, stored)| (*slot, stored.pod.clone())).collect()))
            }
            Order::Claim { .. } if self.mutation == Mutation::ReleaseThenClaim && !sent.half && stands => {
                sent.half = true;
                self.change(write(locks.into_iter().map(|(key, _)| (key, StoredLock::default())).collect()));
                None
            }
            Order::Claim { .. } if sent.half && stands => conflict,
            Order::Claim { .. } if sent.half => done(self.change(write(locks))),
            Order::Claim { version } | Order::Release { version, .. } | Order::Restore { version, .. }
                if same_node(&version) =>
            {
                if matches!(sent.order, Order::Claim { .. }) {
                    self.excuse(slot, &uid, node);
                    self.written.extend(locks.iter().filter_map(|(_, lock)| Some((lock.value.clone()?, self.now))));
                }
                done(self.change(write(locks)))
            }
            Order::Claim { .. } | Order::Release { .. } | Order::Restore { .. } => conflict,
            Order::Revoke { .. } if self.mutation == Mutation::TakenUnmarked => done("0".into()),
            Order::Revoke { pod: seen, value } => match free(&seen.version) {
                Err(answer) => Some(Reply::Wrote(answer)),
                Ok(_) => done(self.change_pod(slot, |stored| stored.pod.revoked = Some(value))),
            },
            Order::Fence { version } => match free(&version) {
                Err(answer) => Some(Reply::Wrote(answer)),
                Ok(_) => {
                    let value = Arc::clone(&sent.value);
                    done(self.change_pod(slot, |stored| {
                        stored.pod.revoked = Some(value);
                        stored.phase = "failed";
                    }))
                }
            },
            Order::Bind { version } => {
                let version: Arc<str> = match (&pod, self.mutation) {
                    (Some(stored), Mutation::BindingWithoutVersion) => Arc::clone(&stored.pod.version),
                    _ => version,
                };
                match free(&version) {
                    Ok(pod) if pod.deleting => conflict,
                    Err(answer) => Some(Reply::Wrote(answer)),
                    Ok(_) => {
                        self.bindings += 1;
                        self.excuse(slot, &uid, node);
                        done(self.change_pod(slot, |stored| {
                            stored.pod.node = Some(name_of(node));
                            stored.phase = "allocating";
                        }))
                    }
                }
            }
            Order::Wait { .. } | Order::Pause(_) | Order::End(_) => None,
        }
    }

    /// Whoever comes while a pod waits whose lock somebody took away may lose its own: the plugin of a key whose values name
    /// nobody gives back whatever stands there.
    fn excuse(&mut self, slot: usize, uid: &Arc<str>, node: usize) {
        for key in needs(slot).iter().copied().filter(|key| *key != SHARED) {
            if self.is_robbed(node, key) {
                self.stripped.insert((Arc::clone(uid), key));
            }
        }
    }

    pub(super) fn serve(&mut self, at: usize) {
        let Some(mut sent) = self.processes[at].sent.take() else { return };
        if sent.reply.is_none() {
            if self.mutation == Mutation::ReleaseBeforeFence && matches!(sent.order, Order::Fence { .. }) {
                self.late.push(sent.clone());
                sent.reply = Some(Reply::Wrote(Answer::Done("0".into())));
            } else {
                sent.reply = self.apply(&mut sent);
            }
        }
        self.processes[at].sent = Some(sent);
    }

    pub(super) fn answer(&mut self, at: usize) {
        let Some(Sent { reply: Some(reply), order, node, .. }) = self.processes[at].sent.clone() else { return };
        self.processes[at].sent = None;
        self.told(at, node, &order, Some(reply));
    }

    pub(super) fn lose(&mut self, at: usize) {
        let Some(sent) = self.processes[at].sent.take() else { return };
        let (node, order) = (sent.node, sent.order.clone());
        if sent.reply.is_none() && sent.writes() {
            self.late.push(sent);
        }
        self.told(at, node, &order, None);
    }

    pub(super) fn told(&mut self, at: usize, node: usize, order: &Order, reply: Option<Reply>) {
        let clock = self.clock_of(at);
        let Some((of, mut machine)) = self.processes[at].machine.take() else { return };
        match (reply, &mut machine) {
            (None, Machine::Bind { attempt, .. }) => match order {
                Order::Look { .. }
                | Order::AskPod
                | Order::AskHolder { .. }
                | Order::AskWaiting
                | Order::AskUnrecorded { .. } => attempt.unread("no answer".into()),
                _ => attempt.answered(Answer::Unknown("no answer".into())),
            },
            (None, Machine::Sweep(sweep)) => sweep.answered(&Answer::Unknown("no answer".into())),
            (Some(Reply::Wrote(answer)), Machine::Bind { attempt, .. }) => attempt.answered(answer),
            (Some(Reply::Wrote(answer)), Machine::Sweep(sweep)) => sweep.answered(&answer),
            (Some(Reply::Node(stored)), machine) => {
                let mut seen = self.sight(at, node, machine.keys(), &stored);
                if let (Machine::Bind { attempt, .. }, Mutation::ReleaseBySuffix) = (&*machine, self.mutation) {
                    let Request { pod: key, values, .. } = attempt.request();
                    for lock in seen.keys.iter_mut().filter_map(|sight| sight.lock.as_mut()) {
                        if lock.value.ends_with(&format!(",{},{}", key.namespace, key.name)) {
                            lock.value = Arc::clone(&values[0]);
                        }
                    }
                }
                match machine {
                    Machine::Bind { attempt, .. } => attempt.looked(clock, Some(seen), None),
                    Machine::Sweep(sweep) => sweep.looked(clock, Some(seen)),
                }
            }
            (Some(Reply::Waiting(found)), machine) => {
                self.processes[at].listed = Some((node, found));
                match machine {
                    Machine::Bind { attempt, .. } => attempt.holder_asked(),
                    Machine::Sweep(sweep) => sweep.holder_asked(),
                }
            }
            (Some(Reply::Pod(pod)), machine) => match (order, machine) {
                (Order::AskHolder { pod: named, value }, machine) => {
                    self.confirm(at, named, value, pod);
                    match machine {
                        Machine::Bind { attempt, .. } => attempt.holder_asked(),
                        Machine::Sweep(sweep) => sweep.holder_asked(),
                    }
                }
                (Order::AskUnrecorded { .. }, Machine::Bind { attempt, .. }) => attempt.unrecorded_asked(pod.as_ref()),
                (_, Machine::Bind { attempt, .. }) => {
                    let mut pod = pod;
                    if let (Mutation::MarkIgnored, Some(pod)) = (self.mutation, &mut pod) {
                        pod.revoked = None;
                    }
                    attempt.asked(pod);
                }
                (_, Machine::Sweep(_)) => {}
            },
        }
        self.processes[at].machine = Some((of, machine));
    }

    pub(super) fn confirm(&mut self, at: usize, named: &PodKey, value: &Arc<str>, pod: Option<Pod>) {
        let (now, mutation) = (self.now, self.mutation);
        let pod = pod.map(|mut pod| {
            if mutation == Mutation::UidIgnored {
                pod.key.uid = named.uid.clone().or(pod.key.uid);
            }
            pod
        });
        let process = &mut self.processes[at];
        let known = confirm(named, value, pod, process.known.get(value), now);
        process.known.insert(Arc::clone(value), known);
    }

    pub(super) fn watch_pods(&mut self, at: usize) {
        let latest = self.history.len() - 1;
        let process = &mut self.processes[at];
        process.pods = latest.min(process.pods + 1);
    }

    pub(super) fn kill(&mut self, at: usize) {
        let latest = self.history.len() - 1;
        let process = std::mem::take(&mut self.processes[at]);
        self.late.extend(process.sent.filter(|sent| sent.reply.is_none()));
        self.processes[at] = Process { nodes: latest, pods: latest, ..Process::default() };
    }
}
