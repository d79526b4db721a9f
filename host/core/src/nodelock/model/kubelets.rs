//! Kubelets with their device plugins, and strangers that write on nodes.

use super::world::*;
use super::*;

impl World {
    /// One step of a kubelet or its device plugin, which follows A19.
    pub(super) fn kubelet(&mut self, node: usize) {
        let name = name_of(node);
        let now = self.now;
        self.ghosts.retain(|(_, _, _, until)| *until > now);
        match self.kubelets[node].asks.clone() {
            None => {
                let ghost = self.ghosts.iter().position(|(_, of, ..)| *of == node);
                if let Some(ghost) = ghost {
                    let (slot, _, uid, _) = self.ghosts.remove(ghost);
                    self.ask(node, slot, uid, true);
                    return;
                }
                let kubelet = &self.kubelets[node];
                let due = self.store().pods.iter().find_map(|(slot, stored)| {
                    let uid = &stored.pod.key.uid;
                    (stored.pod.waits_on(&name) && kubelet.next(*slot, uid).is_some()).then(|| (*slot, uid.clone()))
                });
                if let Some((slot, uid)) = due {
                    self.ask(node, slot, uid, false);
                }
            }
            Some((slot, uid, vendor, Asked::Served)) => {
                let key = KEY_OF[vendor];
                if !self.kubelets[node].has_work(slot, &uid, key) {
                    self.plugin_releases(node, slot, key);
                }
                self.kubelets[node].asks = Some((slot, uid, vendor, Asked::Released));
            }
            Some((slot, uid, _, Asked::Released)) => {
                self.kubelets[node].asks = None;
                if self.kubelets[node].next(slot, &uid).is_some() {
                    self.ask(node, slot, uid, false);
                } else {
                    self.kubelet_says(slot, &uid, |pod| pod.started = true);
                }
            }
        }
        // A kubelet ends what it has started, or has not begun, when that is deleted.
        let ends = self.store().pods.iter().find(|(_, stored)| {
            let busy = self.kubelets[node].asks.as_ref().is_some_and(|(_, uid, ..)| *uid == stored.pod.key.uid);
            stored.pod.deleting && stored.pod.node.as_deref() == Some(&*name) && !busy
        });
        if let Some(slot) = ends.map(|(slot, _)| *slot) {
            self.change(|store, _| {
                store.pods.remove(&slot);
            });
        }
    }

    /// A kubelet asks the next device plugin of a pod, and does not say for which pod. One finds it by the name in the
    /// lock; where that has none, it takes the first pod that is bound here and waits. `ghost`: the pod was deleted by
    /// force, and the kubelet does not know it yet.
    pub(super) fn ask(&mut self, node: usize, slot: usize, uid: Uid, ghost: bool) {
        let Some(vendor) = self.kubelets[node].next(slot, &uid) else { return };
        let key = KEY_OF[vendor];
        let (name, pods) = (name_of(node), &self.store().pods);
        let lock = &self.store().nodes[node].locks[key];
        let named = lock.value.as_ref().filter(|_| key == SHARED).and_then(|value| ParsedValue::parse(value).ok());
        let found = match named.as_ref().and_then(ParsedValue::owner) {
            Some((_, named)) => pods.values().find(|stored| *stored.pod.key.name == *named),
            None => {
                let waits = |(slot, stored): &(&usize, &StoredPod)| {
                    needs(**slot).contains(&key) && stored.pod.waits_on(&name) && stored.phase == "allocating"
                };
                pods.iter().find(waits).map(|(_, stored)| stored)
            }
        };
        // A pod that lost its lock, and one that came while that pod had none.
        let stripped = self.stripped.contains(&(uid.clone(), key)) || self.has_stripped(node, key);
        let me = PodId { namespace: "ns".into(), name: format!("p{slot}").into(), uid: uid.clone() };
        let has_lock = match lock.read().map(|lock| lock.named) {
            Some(NamedHolder::Pod { pod, .. }) => pod.may_be(&me),
            // Of an earlier generation, and of the vendor whose values have no name.
            Some(NamedHolder::NoPod { .. }) => key != SHARED,
            Some(NamedHolder::Unparsable(_)) | None => false,
        };
        match found.map(|stored| &stored.pod.key) {
            // `lock release` prints which pod that may harm.
            _ if stripped && found.is_none_or(|found| found.pod.key.uid != uid) => {
                self.kubelet_says(slot, &uid, |pod| pod.finished = true);
            }
            Some(pod) if pod.uid != uid => {
                self.broken.get_or_insert(format!("the plugin of n{node} serves {pod} for p{slot} {uid}"));
            }
            // A pod that is gone is not served: the call fails.
            None if ghost => {}
            None => {
                self.broken
                    .get_or_insert(format!("the plugin of n{node} is asked for p{slot} {uid}, and finds no pod"));
            }
            Some(_) if !has_lock && !stripped && !self.early.contains(&(uid.clone(), key)) => {
                self.broken.get_or_insert(format!("p{slot} {uid} is served on n{node} without its lock, key {key}"));
            }
            Some(_) => {
                self.kubelets[node].served.insert((uid.clone(), vendor));
                self.kubelets[node].asks = Some((slot, uid.clone(), vendor, Asked::Served));
                if self.kubelets[node].next(slot, &uid).is_none() {
                    self.change_pod(slot, |stored| stored.phase = "success");
                }
            }
        }
    }

    /// A device plugin that has answered releases a lock that another vendor still needs.
    pub(super) fn early(&mut self, node: usize) {
        let Some((slot, uid, vendor, Asked::Served)) = self.kubelets[node].asks.clone() else { return };
        let key = KEY_OF[vendor];
        if self.kubelets[node].has_work(slot, &uid, key) {
            self.early.insert((uid.clone(), key));
            self.plugin_releases(node, slot, key);
            self.kubelets[node].asks = Some((slot, uid, vendor, Asked::Released));
        }
    }

    /// A device plugin knows its pod by the name only, or not even that.
    pub(super) fn plugin_releases(&mut self, node: usize, slot: usize, key: usize) {
        let suffix = if key == SHARED { format!(",ns,p{slot}") } else { String::new() };
        if self.store().nodes[node].locks[key].value.as_ref().is_some_and(|value| value.ends_with(&suffix)) {
            self.change(|store, version| {
                store.nodes[node].version = version;
                store.nodes[node].locks[key].value = None;
            });
        }
    }

    pub(super) fn kubelet_says(&mut self, slot: usize, uid: &Uid, say: impl FnOnce(&mut Pod)) {
        if self.store().pods.get(&slot).is_some_and(|stored| stored.pod.key.uid == *uid) {
            self.change_pod(slot, |stored| say(&mut stored.pod));
        }
    }

    pub(super) fn delete(&mut self, slot: usize, force: bool) {
        let Some(stored) = self.store().pods.get(&slot).cloned() else { return };
        let uid = stored.pod.key.uid.clone();
        let busy =
            self.kubelets.iter().any(|kubelet| kubelet.asks.as_ref().is_some_and(|(_, asked, ..)| *asked == uid));
        match (&stored.pod.node, force) {
            (Some(_), true) if busy => {}
            (Some(node), true) => {
                let node: usize = node[1..].parse().unwrap();
                let under_way = stored.pod.waits_on(&name_of(node)) && self.kubelets[node].next(slot, &uid).is_some();
                if under_way {
                    // A lock that names no pod, or is not there any more, does not say which pod is gone, and a grace
                    // needs to know.
                    let locks = &self.store().nodes[node].locks;
                    let early = |key: usize| self.early.contains(&(uid.clone(), key));
                    let nameless =
                        needs(slot).iter().filter(|key| **key != SHARED && locks[**key].note.is_none() || early(**key));
                    let nameless: Vec<_> = nameless.map(|key| (uid.clone(), *key)).collect();
                    self.stripped.extend(nameless);
                    self.ghosts.push((slot, node, uid, self.now + Duration::from_secs(4)));
                }
                self.change(|store, _| {
                    store.pods.remove(&slot);
                });
            }
            (Some(_), false) if !stored.pod.deleting => {
                self.change_pod(slot, |stored| stored.pod.deleting = true);
            }
            (Some(_), false) => {}
            (None, _) => {
                self.change(|store, _| {
                    store.pods.remove(&slot);
                });
            }
        }
    }

    /// Whether a pod waits here whose lock was taken away.
    pub(super) fn has_stripped(&self, node: usize, key: usize) -> bool {
        let stripped = |stored: &StoredPod| self.stripped.contains(&(stored.pod.key.uid.clone(), key));
        self.store().pods.values().any(|stored| stripped(stored) && stored.pod.waits_on(&name_of(node)))
    }

    /// Whether a writer that knows only the key would take it.
    pub(super) fn is_free(&self, node: usize, key: usize) -> bool {
        self.store().nodes[node].locks[key].value.is_none()
    }

    pub(super) fn foreign(&mut self, slot: usize, node: usize) {
        let Some(stored) = self.store().pods.get(&slot).cloned() else { return };
        // It looks at the key only, and so would bind beside a pod whose lock was taken away: until that is restored,
        // nothing can be promised.
        let name = name_of(node);
        let waits = |key: usize| {
            self.store().pods.iter().any(|(slot, stored)| needs(*slot).contains(&key) && stored.pod.waits_on(&name))
        };
        let free = needs(slot).iter().all(|key| self.is_free(node, *key) && !waits(*key));
        if !free || stored.pod.node.is_some() || stored.pod.deleting || stored.pod.finished {
            return;
        }
        // Whole seconds, as they are written there.
        let time = Timestamp::new(self.wall().as_second(), 0).unwrap();
        self.change(|store, version| {
            store.nodes[node].version = version;
            for key in needs(slot) {
                let value = match *key {
                    SHARED => ParsedValue::of(time, "ns", &stored.pod.key.name).to_string(),
                    _ => bare(time),
                };
                store.nodes[node].locks[*key] = StoredLock { value: Some(value.into()), note: None };
            }
            let pod = store.pods.get_mut(&slot).unwrap();
            pod.phase = "allocating";
            pod.pod.node = Some(name_of(node));
            pod.pod.version = version.to_string().into();
        });
    }

    pub(super) fn litter(&mut self, node: usize, key: usize, kind: usize) {
        let name = name_of(node);
        let waits = |(slot, stored): (&usize, &StoredPod)| needs(*slot).contains(&key) && stored.pod.waits_on(&name);
        if !self.is_free(node, key) || self.store().pods.iter().any(waits) {
            return;
        }
        let (now, later) = (self.wall(), self.wall() + Duration::from_secs(86_400));
        let value = match kind {
            0 => "lock".to_owned(),
            1 => String::new(),
            2 => bare(now),
            3 => bare(later),
            4 => format!("{now},,"),
            _ => ParsedValue::of(now, "ns", "none").to_string(),
        };
        self.change(|store, version| {
            store.nodes[node].version = version;
            store.nodes[node].locks[key] = StoredLock { value: Some(value.into()), note: None };
        });
    }

    pub(super) fn revoke(&mut self, node: usize, key: usize) {
        let Some(lock) = self.store().nodes[node].locks[key].read() else { return };
        let NamedHolder::Pod { pod: named, note: Some(_), .. } = &lock.named else { return };
        let unbound = |stored: &StoredPod| named.may_be(&stored.pod.key) && stored.pod.node.is_none();
        let slot = self.store().pods.iter().find(|(_, stored)| unbound(stored)).map(|(slot, _)| *slot);
        if let Some(slot) = slot {
            self.change_pod(slot, |stored| stored.pod.revoked = Some(lock.value));
        }
    }

    pub(super) fn strip(&mut self, node: usize, key: usize) {
        let name = name_of(node);
        let waits = |(slot, stored): (&usize, &StoredPod)| {
            let uid = stored.pod.key.uid.clone();
            (needs(*slot).contains(&key) && stored.pod.waits_on(&name)).then_some(uid)
        };
        let Some(uid) = self.store().pods.iter().find_map(waits) else { return };
        if !self.is_free(node, key) && self.kubelets[node].asks.is_none() {
            self.stripped.insert((uid, key));
            self.change(|store, version| {
                store.nodes[node].version = version;
                store.nodes[node].locks[key] = StoredLock::default();
            });
        }
    }
}
