//! Processes with caches that are behind, and the API server that answers them.

use super::world::*;
use super::*;

impl World {
    /// A node as a process reads it.
    fn read_of(&self, node: usize, stored: &StoredNode) -> (NodeName, NodeRead) {
        let lock = |(key, stored): (usize, &StoredLock)| {
            let mut stored = stored.clone();
            if let (Mutation::ClocksAgree, Some(note)) = (self.mutation, &mut stored.note) {
                note.deadline -= SKEW;
            }
            Some((LockKey::ALL[key], stored.read()?))
        };
        let locks = stored.locks.iter().enumerate().filter_map(lock).collect();
        (name_of(node), NodeRead { version: stored.version.to_string().into(), locks, ..NodeRead::default() })
    }

    /// A pod as a process reads it.
    fn pod_of(&self, slot: usize, stored: &StoredPod) -> PodSighting {
        let mut pod = stored.pod.clone();
        if self.mutation == Mutation::PhaseAsEvidence {
            pod.finished |= matches!(stored.phase, "success" | "failed");
        }
        PodSighting { pod, keys: needs(slot).iter().map(|key| LockKey::ALL[*key]).collect() }
    }

    /// The watch of nodes of a process shows the next change.
    pub(super) fn watch_nodes(&mut self, at: usize) {
        let from = self.processes[at].nodes;
        let (Some(before), Some(after)) = (self.history.get(from), self.history.get(from + 1)) else { return };
        let changed = (0..NODES).filter(|node| before.nodes[*node].version != after.nodes[*node].version);
        let changed: Vec<_> = changed.map(|node| self.read_of(node, &after.nodes[node])).collect();
        let now = self.now;
        let process = &mut self.processes[at];
        if process.lists_nodes.is_some() {
            return;
        }
        process.nodes += 1;
        for (name, read) in changed {
            let _ = process.known().node(&name, read, now);
        }
    }

    /// The watch of pods of a process shows the next change. A pod that has finished leaves it.
    pub(super) fn watch_pods(&mut self, at: usize) {
        let from = self.processes[at].pods;
        let (Some(before), Some(after)) = (self.history.get(from), self.history.get(from + 1)) else { return };
        let (before, after) = (Arc::clone(before), Arc::clone(after));
        let shown: Vec<_> = after.pods.iter().map(|(slot, stored)| (*slot, self.pod_of(*slot, stored))).collect();
        let process = &mut self.processes[at];
        if process.lists_pods.is_some() {
            return;
        }
        process.pods += 1;
        for (slot, old) in before.pods.iter().filter(|(_, old)| !old.pod.finished) {
            let same = after.pods.get(slot).filter(|new| new.pod.key == old.pod.key && !new.pod.finished);
            if same.is_none() {
                let _ = process.known().pod_gone(&old.pod.key);
            }
        }
        for (slot, seen) in shown {
            let unchanged = before.pods.get(&slot).is_some_and(|old| old.pod.version == seen.pod.version);
            if !unchanged && !after.pods[&slot].pod.finished {
                let _ = process.known().pod(seen);
            }
        }
    }

    /// Both are listed, the pods after the nodes.
    pub(super) fn relist_all(&mut self, at: usize) {
        for _ in 0..2 {
            self.relist_nodes(at);
        }
        for _ in 0..2 {
            self.relist_pods(at);
        }
    }

    /// A list of nodes begins, or is whole.
    pub(super) fn relist_nodes(&mut self, at: usize) {
        let Some(then) = self.processes[at].lists_nodes.take() else {
            self.processes[at].lists_nodes = Some(self.history.len() - 1);
            return;
        };
        let listed = Arc::clone(&self.history[then]);
        let all: Vec<_> = (0..NODES).map(|node| self.read_of(node, &listed.nodes[node])).collect();
        let now = self.now;
        self.processes[at].nodes = then;
        let _ = self.processes[at].known().relisted_nodes(all, now);
    }

    /// A list of pods begins, or is whole.
    pub(super) fn relist_pods(&mut self, at: usize) {
        let Some(then) = self.processes[at].lists_pods.take() else {
            self.processes[at].lists_pods = Some(self.history.len() - 1);
            self.processes[at].known().lists_pods();
            return;
        };
        let listed = Arc::clone(&self.history[then]);
        let pods = listed.pods.iter().filter(|(_, stored)| !stored.pod.finished);
        let all: Vec<_> = pods.map(|(slot, stored)| self.pod_of(*slot, stored)).collect();
        self.processes[at].pods = then;
        let version = listed.version.to_string().into();
        let _ = self.processes[at].known().relisted_pods(all, &version);
    }

    pub(super) fn catch_up(&mut self, at: usize) {
        let latest = self.history.len() - 1;
        if self.processes[at].lists_nodes.is_some() {
            self.relist_nodes(at);
        }
        while self.processes[at].nodes < latest {
            self.watch_nodes(at);
        }
        self.catch_up_pods(at);
    }

    pub(super) fn catch_up_pods(&mut self, at: usize) {
        if self.processes[at].lists_pods.is_some() {
            self.relist_pods(at);
        }
        while self.processes[at].pods < self.history.len() - 1 {
            self.watch_pods(at);
        }
    }

    /// A request has shown a process what a node is.
    fn node_read(&mut self, at: usize, node: usize, stored: &StoredNode) {
        let ((name, read), now) = (self.read_of(node, stored), self.now);
        let _ = self.processes[at].known().read(&name, read, now);
    }

    /// A request has shown a process what a pod is.
    fn pod_read(&mut self, at: usize, slot: usize, pod: &Pod) {
        let stored = StoredPod { pod: pod.clone(), phase: "" };
        let read = self.pod_of(slot, &stored);
        let _ = self.processes[at].known().pod_read(read);
    }

    /// A write of a process was applied, and the answer has what was written, as it was then.
    fn written(&mut self, at: usize, node: usize, slot: usize, order: &AttemptOrder, version: &str) {
        let then = version.parse::<usize>().ok().and_then(|version| self.history.get(version)).cloned();
        let Some(then) = then.filter(|then| then.version > 0) else { return };
        match order {
            AttemptOrder::Claim { version: from }
            | AttemptOrder::Release { version: from, .. }
            | AttemptOrder::Restore { version: from, .. } => {
                let ((name, read), now) = (self.read_of(node, &then.nodes[node]), self.now);
                // A server that does not mind the version may have written over others in between.
                let _ = match self.mutation {
                    Mutation::NodeVersionDropped => self.processes[at].known().read(&name, read, now),
                    _ => self.processes[at].known().written(&name, from, read, now),
                };
            }
            AttemptOrder::Revoke { .. } | AttemptOrder::Fence { .. } => {
                if let Some(stored) = then.pods.get(&slot) {
                    self.pod_read(at, slot, &stored.pod);
                }
            }
            _ => {}
        }
    }

    /// A node with these keys, as a process sees it.
    pub(super) fn sight(&mut self, at: usize, node: usize, keys: &[usize]) -> ObservedNode {
        let (name, of) = (name_of(node), keys.iter().map(|key| LockKey::ALL[*key]).collect::<Vec<_>>());
        let process = &self.processes[at];
        let known = match self.mutation {
            Mutation::UidIgnored => &self.by_name(&process.sightings),
            _ => &*process.sightings,
        };
        let mut seen = known.sight(&name, &of, &process.reads).unwrap();
        for sight in &mut seen.keys {
            let names_a_pod = sight.lock.as_ref().is_some_and(|lock| lock.pod().is_some());
            match self.mutation {
                Mutation::AbsentFromCache if names_a_pod && sight.holder == Holder::Unconfirmed => {
                    sight.holder = Holder::Gone { since: Duration::ZERO };
                }
                Mutation::FirstSightCounts => sight.first_seen = sight.first_seen.saturating_sub(GRACE),
                Mutation::LostLockForgotten => sight.left = None,
                Mutation::PassedOverForgotten => sight.missed = false,
                _ => {}
            }
            self.judge_in_time(at, node, sight);
        }
        seen
    }

    /// What a process knows, where every pod that has the name in a note has its UID, too.
    fn by_name(&self, known: &Sightings) -> Sightings {
        let renamed = |(key, lock): &(LockKey, Lock)| {
            let mut lock = lock.clone();
            if let NamedHolder::Pod { pod, note: Some(note), .. } = &mut lock.named {
                let same = known.pods().find(|seen| seen.pod.key.name == pod.name);
                if let Some(uid) = same.map(|seen| seen.pod.key.uid.clone()) {
                    note.uid = uid.clone();
                    pod.uid = Some(uid);
                }
            }
            (*key, lock)
        };
        let read = |name: &NodeName| {
            let version = known.sight(name, &[], &LiveReads::default()).unwrap().version;
            let locks = known.locks(name).into_iter().flatten().map(renamed).collect();
            (name.clone(), NodeRead { version, locks, ..NodeRead::default() })
        };
        let all: Vec<_> = known.names().map(read).collect();
        let mut known = known.clone();
        let _ = known.relisted_nodes(all, self.now);
        known
    }

    /// No attempt that is in time counts as ended: not if its clock and the judge's differ by no more than clocks may,
    /// and not in the moment after it has written its value, whatever the clocks show.
    fn judge_in_time(&mut self, at: usize, node: usize, sight: &Sight) {
        let state = sight.state(&name_of(node), self.clock_of(at), TTL, Takeover::State);
        let (Some(LockState::Over(OrphanReason::Abandoned)), Some(lock)) = (state, &sight.lock) else { return };
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
            SHARED => ParsedValue::of(time, &cached.key.namespace, &cached.key.name).to_string().into(),
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
        self.processes[at].reads.clear();
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
            Machine::Sweep(sweep) => sweep.next().map(request_of),
        };
        let mut sent = None;
        match (order, &mut machine) {
            (None | Some(AttemptOrder::End(_)), machine) => return self.ended(at, node, machine),
            (Some(AttemptOrder::Look { live: false }), machine) => {
                let seen = self.sight(at, node, machine.keys());
                match machine {
                    Machine::Bind { attempt, .. } => {
                        let own = self.processes[at].sightings.pod_of(&attempt.request().pod);
                        // What a phase says is judged of other pods only.
                        let own = own.map(|seen| Pod { finished: false, ..seen.pod.clone() });
                        attempt.looked(clock, Some(seen), own);
                    }
                    Machine::Sweep(sweep) => sweep.looked(clock, Some(seen)),
                }
            }
            (Some(AttemptOrder::Wait { .. }), Machine::Bind { attempt, .. }) => {
                self.processes[at].reads.clear();
                attempt.woken();
            }
            (Some(AttemptOrder::Wait { .. } | AttemptOrder::Pause(_)), _) => {}
            (Some(order), machine) => sent = Some(self.request(at, node, order, machine)),
        }
        self.processes[at].machine = Some((node, machine));
        self.processes[at].sent = sent;
    }

    pub(super) fn request(&self, at: usize, node: usize, order: AttemptOrder, machine: &Machine) -> Sent {
        let slot_of = |key: &PodKey| (key.name[1..].parse().unwrap_or(usize::MAX), key.uid.clone());
        let (pod, locks) = match machine {
            Machine::Bind { pod: slot, attempt } => {
                let Request { pod: key, values, deadline, .. } = attempt.request();
                let uid = key.uid.clone();
                let deadline = base() + *deadline + SKEWS[at];
                let lock = |value: &LockValue| StoredLock {
                    value: Some(value.clone()),
                    note: Some(Note {
                        value: value.clone(),
                        uid: uid.clone(),
                        pod: Some((Arc::clone(&key.namespace), Arc::clone(&key.name))),
                        attempt: "a".into(),
                        instance: at.to_string().into(),
                        deadline,
                    }),
                };
                let locks = machine.keys().iter().copied().zip(values.iter().map(lock)).collect();
                ((*slot, Some(uid)), locks)
            }
            Machine::Sweep(_) => ((usize::MAX, None), Vec::new()),
        };
        let pod = match &order {
            AttemptOrder::Revoke { pod, .. } => slot_of(&pod.key.named()),
            AttemptOrder::AskHolder { pod, .. } => slot_of(pod),
            AttemptOrder::AskUnrecorded { pod } => slot_of(&pod.named()),
            _ => pod,
        };
        // Of a release: the keys that go.
        let locks = match &order {
            AttemptOrder::Release { keys, .. } => {
                keys.iter().map(|at| (machine.keys()[*at], StoredLock::default())).collect()
            }
            AttemptOrder::Restore { key, pod, .. } => {
                vec![(machine.keys()[*key], self.restored(at, machine.keys()[*key], pod))]
            }
            _ => locks,
        };
        let after = self.processes[at].sightings.moment();
        Sent { order, node, pod, locks, half: false, after, reply: None }
    }

    /// The lock of a pod that had lost it.
    pub(super) fn restored(&self, at: usize, key: usize, pod: &PodId) -> StoredLock {
        let value: LockValue = match key {
            SHARED => ParsedValue::of(self.wall_of(at), &pod.namespace, &pod.name).to_string().into(),
            _ => bare(self.wall_of(at)).into(),
        };
        let note = Note {
            value: value.clone(),
            uid: pod.uid.clone(),
            pod: Some((Arc::clone(&pod.namespace), Arc::clone(&pod.name))),
            attempt: "r".into(),
            instance: at.to_string().into(),
            deadline: self.wall_of(at),
        };
        StoredLock { value: Some(value), note: Some(note) }
    }

    pub(super) fn ended(&mut self, at: usize, node: usize, machine: &mut Machine) {
        let Machine::Bind { pod, attempt } = machine else { return };
        let AttemptOrder::End(AttemptOutcome { result, .. }) = attempt.next(self.now, 0.5) else { return };
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
        let conflict = Some(Reply::Wrote(WriteOutcome::Conflict));
        let done = |version| Some(Reply::Wrote(WriteOutcome::Done(version)));
        let free = |version: &str| match &pod {
            None => Err(WriteOutcome::Absent),
            Some(stored) if Some(&stored.pod.key.uid) != uid.as_ref() && self.mutation != Mutation::UidIgnored => {
                Err(WriteOutcome::Conflict)
            }
            Some(stored) if stored.pod.node.is_some() || *stored.pod.version != *version => Err(WriteOutcome::Conflict),
            Some(stored) => Ok(stored.pod.clone()),
        };
        match sent.order.clone() {
            AttemptOrder::Look { .. } => Some(Reply::Node(stored)),
            AttemptOrder::AskPod | AttemptOrder::AskHolder { .. } | AttemptOrder::AskUnrecorded { .. } => {
                Some(Reply::Pod(pod.map(|stored| stored.pod)))
            }
            AttemptOrder::AskWaiting => {
                let here = self.store().pods.iter().filter(|(_, stored)| stored.pod.waits_on(&name_of(node)));
                Some(Reply::Waiting(here.map(|(slot, stored)| (*slot, stored.pod.clone())).collect()))
            }
            AttemptOrder::Claim { .. } if self.mutation == Mutation::ReleaseThenClaim && !sent.half && stands => {
                sent.half = true;
                self.change(write(locks.into_iter().map(|(key, _)| (key, StoredLock::default())).collect()));
                None
            }
            AttemptOrder::Claim { .. } if sent.half && stands => conflict,
            AttemptOrder::Claim { .. } if sent.half => done(self.change(write(locks))),
            AttemptOrder::Claim { version }
            | AttemptOrder::Release { version, .. }
            | AttemptOrder::Restore { version, .. }
                if same_node(&version) =>
            {
                if matches!(sent.order, AttemptOrder::Claim { .. }) {
                    self.excuse(slot, uid.as_ref(), node);
                    self.written.extend(locks.iter().filter_map(|(_, lock)| Some((lock.value.clone()?, self.now))));
                }
                done(self.change(write(locks)))
            }
            AttemptOrder::Claim { .. } | AttemptOrder::Release { .. } | AttemptOrder::Restore { .. } => conflict,
            AttemptOrder::Revoke { .. } if self.mutation == Mutation::TakenUnmarked => done("0".into()),
            AttemptOrder::Revoke { pod: seen, value } => match free(&seen.version) {
                Err(answer) => Some(Reply::Wrote(answer)),
                Ok(_) => done(self.change_pod(slot, |stored| stored.pod.revoked = Some(value))),
            },
            AttemptOrder::Fence { version, value } => match free(&version) {
                Err(answer) => Some(Reply::Wrote(answer)),
                Ok(_) => done(self.change_pod(slot, |stored| {
                    stored.pod.revoked = Some(value);
                    stored.phase = "failed";
                })),
            },
            AttemptOrder::Bind { version } => {
                let version: ResourceVersion = match (&pod, self.mutation) {
                    (Some(stored), Mutation::BindingWithoutVersion) => stored.pod.version.clone(),
                    _ => version,
                };
                match free(&version) {
                    Ok(pod) if pod.deleting => conflict,
                    Err(answer) => Some(Reply::Wrote(answer)),
                    Ok(_) => {
                        self.bindings += 1;
                        self.excuse(slot, uid.as_ref(), node);
                        done(self.change_pod(slot, |stored| {
                            stored.pod.node = Some(name_of(node));
                            stored.phase = "allocating";
                        }))
                    }
                }
            }
            AttemptOrder::Wait { .. } | AttemptOrder::Pause(_) | AttemptOrder::End(_) => None,
        }
    }

    /// While a pod waits that lost its lock, the next pod may lose its own: if the values of a key name no pod, its
    /// plugin releases any lock under it.
    fn excuse(&mut self, slot: usize, uid: Option<&Uid>, node: usize) {
        let Some(uid) = uid else { return };
        for key in needs(slot).iter().copied().filter(|key| *key != SHARED) {
            if self.has_stripped(node, key) {
                self.stripped.insert((uid.clone(), key));
            }
        }
    }

    pub(super) fn serve(&mut self, at: usize) {
        let Some(mut sent) = self.processes[at].sent.take() else { return };
        if sent.reply.is_none() {
            if self.mutation == Mutation::ReleaseBeforeFence && matches!(sent.order, AttemptOrder::Fence { .. }) {
                self.late.push(sent.clone());
                sent.reply = Some(Reply::Wrote(WriteOutcome::Done("0".into())));
            } else {
                sent.reply = self.apply(&mut sent);
            }
        }
        self.processes[at].sent = Some(sent);
    }

    pub(super) fn answer(&mut self, at: usize) {
        let Some(Sent { reply: Some(reply), order, node, pod: (slot, _), after, .. }) = self.processes[at].sent.clone()
        else {
            return;
        };
        self.processes[at].sent = None;
        if let Reply::Waiting(found) = &reply {
            let stored = |pod: &Pod| StoredPod { pod: pod.clone(), phase: "" };
            let found = found.iter().map(|(slot, pod)| self.pod_of(*slot, &stored(pod))).collect();
            self.processes[at].reads.listed(found, after);
        }
        if let Reply::Wrote(WriteOutcome::Done(version)) = &reply {
            self.written(at, node, slot, &order, version);
        }
        self.answered(at, node, slot, &order, Some(reply));
    }

    pub(super) fn lose(&mut self, at: usize) {
        let Some(sent) = self.processes[at].sent.take() else { return };
        let (node, slot, order) = (sent.node, sent.pod.0, sent.order.clone());
        if sent.reply.is_none() && sent.writes() {
            self.late.push(sent);
        }
        self.answered(at, node, slot, &order, None);
    }

    fn answered(&mut self, at: usize, node: usize, slot: usize, order: &AttemptOrder, reply: Option<Reply>) {
        let clock = self.clock_of(at);
        let Some((of, mut machine)) = self.processes[at].machine.take() else { return };
        match (reply, &mut machine) {
            (None, Machine::Bind { attempt, .. }) => match order {
                AttemptOrder::Look { .. }
                | AttemptOrder::AskPod
                | AttemptOrder::AskHolder { .. }
                | AttemptOrder::AskWaiting
                | AttemptOrder::AskUnrecorded { .. } => attempt.unread("no answer".into()),
                _ => attempt.answered(WriteOutcome::Unknown("no answer".into())),
            },
            (None, Machine::Sweep(sweep)) => sweep.answered(&WriteOutcome::Unknown("no answer".into())),
            (Some(Reply::Wrote(answer)), Machine::Bind { attempt, .. }) => attempt.answered(answer),
            (Some(Reply::Wrote(answer)), Machine::Sweep(sweep)) => sweep.answered(&answer),
            (Some(Reply::Node(stored)), machine) => {
                self.node_read(at, node, &stored);
                let mut seen = self.sight(at, node, machine.keys());
                if let (Machine::Bind { attempt, .. }, Mutation::ReleaseBySuffix) = (&*machine, self.mutation) {
                    let Request { pod: key, values, .. } = attempt.request();
                    for lock in seen.keys.iter_mut().filter_map(|sight| sight.lock.as_mut()) {
                        if lock.value.ends_with(&format!(",{},{}", key.namespace, key.name)) {
                            lock.value = values[0].clone();
                        }
                    }
                }
                match machine {
                    Machine::Bind { attempt, .. } => attempt.looked(clock, Some(seen), None),
                    Machine::Sweep(sweep) => sweep.looked(clock, Some(seen)),
                }
            }
            (Some(Reply::Waiting(_)), Machine::Bind { attempt, .. }) => attempt.holder_asked(),
            (Some(Reply::Waiting(_)), Machine::Sweep(sweep)) => sweep.holder_asked(),
            (Some(Reply::Pod(pod)), machine) => {
                if let Some(pod) = &pod {
                    self.pod_read(at, slot, pod);
                }
                match (order, machine) {
                    (AttemptOrder::AskHolder { pod: named, value }, machine) => {
                        self.confirm(at, node, named, value, pod);
                        match machine {
                            Machine::Bind { attempt, .. } => attempt.holder_asked(),
                            Machine::Sweep(sweep) => sweep.holder_asked(),
                        }
                    }
                    (AttemptOrder::AskUnrecorded { .. }, Machine::Bind { attempt, .. }) => {
                        attempt.unrecorded_asked(pod.as_ref())
                    }
                    (_, Machine::Bind { attempt, .. }) => {
                        let mut pod = pod;
                        if let (Mutation::MarkIgnored, Some(pod)) = (self.mutation, &mut pod) {
                            pod.revoked = None;
                        }
                        attempt.asked(pod);
                    }
                    (_, Machine::Sweep(_)) => {}
                }
            }
        }
        self.processes[at].machine = Some((of, machine));
    }

    fn confirm(&mut self, at: usize, node: usize, named: &PodKey, value: &LockValue, pod: Option<Pod>) {
        let (now, mutation) = (self.now, self.mutation);
        let pod = pod.map(|mut pod| {
            if mutation == Mutation::UidIgnored {
                pod.key.uid = named.uid.clone().unwrap_or(pod.key.uid);
            }
            pod
        });
        let process = &mut self.processes[at];
        let known = Arc::make_mut(&mut process.sightings);
        known.confirmed(&name_of(node), named, value, pod, &mut process.reads, now);
    }

    pub(super) fn kill(&mut self, at: usize) {
        let process = std::mem::take(&mut self.processes[at]);
        self.late.extend(process.sent.filter(|sent| sent.reply.is_none()));
        self.relist_all(at);
    }
}

/// What a sweep asks for, as the request that an attempt would make of it.
fn request_of(order: sweep::SweepOrder) -> AttemptOrder {
    match order {
        sweep::SweepOrder::Look => AttemptOrder::Look { live: false },
        sweep::SweepOrder::AskHolder { pod, value } => AttemptOrder::AskHolder { pod, value },
        sweep::SweepOrder::AskWaiting => AttemptOrder::AskWaiting,
        sweep::SweepOrder::Revoke { pod, value } => AttemptOrder::Revoke { pod, value },
        sweep::SweepOrder::Release { version, keys } => AttemptOrder::Release { version, keys },
    }
}
