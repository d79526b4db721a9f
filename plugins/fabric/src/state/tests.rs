use super::*;
use crate::graph::Graph;
use crate::{Guid, Link};
use proptest::prelude::*;

fn wiring() -> Wiring {
    let mut wiring = Wiring::new();
    let hosts = ["a1", "a2", "zürich"].map(|name| wiring.host(name));
    let leaf = wiring.switch("5c6d7e0000bb0203", "leaf-1");
    let spine = wiring.switch("5c6d7e0000bb0204", "");
    for host in hosts {
        wiring.link(host, leaf, Link { count: 7, ..Link::up("mlx5_0").to("1/9/1") });
        wiring.link(host, spine, Link::down("mlx5_1"));
        wiring.guid(host, Guid(u64::MAX));
    }
    wiring.nameless(Guid(1), leaf, Link::up("x"));
    wiring.ignored(Guid(2), leaf, Link::up("x"));
    wiring.adjacent(leaf, spine, 4);
    wiring.bears_hosts(spine);
    wiring.level(spine, 16);
    wiring.skip_many("no-peer", "ports without a peer", "x", u64::MAX);
    wiring.leave_out("left out by ports", 3);
    wiring.partial();
    wiring
}

fn state() -> State {
    let mut known = Graph::default();
    known.push([Edge { parent: 1, weight: 2 }, Edge { parent: 0, weight: 9 }]);
    known.push([]);
    let child = |key: &str, group, seen, node: &str| Child { key: key.to_owned(), group, seen, node: node.to_owned() };
    let children = vec![child("a", 0, 1_700_000_000_000, ""), child("b", NONE, 5, "node-b")];
    let fading = |parent, since| Fading { child: 0, parent, since };
    let fading = vec![fading(0, 1_700_000_000_001), fading(1, 3)];
    let level = Remembered { ids: vec!["s1".into()], children, known, fading };
    let memory =
        Memory { switches: vec!["s1".into(), "s2".into()], levels: vec![level], began: Some(0), digest: [7, u64::MAX] };
    let part = |key: &str| Part { key: key.to_owned(), own: vec![1, 2, 3], wiring: wiring() };
    State { parts: vec![part("ufm-0"), part("ufm-1")], memory }
}

fn bytes_of(wiring: &Wiring) -> Vec<u8> {
    let mut writer = Writer::default();
    wiring.write(&mut writer);
    writer.finish()
}

#[test]
fn what_was_kept_comes_back() {
    let bytes = state().to_bytes();
    let back = State::from_bytes(&bytes);
    assert_eq!(back.to_bytes(), bytes);
    assert_eq!(back.memory, state().memory);
    let part = back.part("ufm-1").unwrap();
    assert_eq!((part.own.as_slice(), bytes_of(&part.wiring)), (&[1, 2, 3][..], bytes_of(&wiring())));
    assert_eq!((part.wiring.hosts(), part.wiring.switches(), part.wiring.links()), (3, 2, 8));
    let all = back.wiring();
    assert_eq!((all.hosts(), all.switches(), all.links()), (3, 2, 16));
}

#[test]
fn own_bytes_are_found_without_the_rest() {
    let bytes = state().to_bytes();
    assert_eq!(State::own(&bytes, "ufm-0"), Some(&[1, 2, 3][..]));
    assert_eq!(State::own(&bytes, "ufm-1"), Some(&[1, 2, 3][..]));
    assert_eq!(State::own(&bytes, "ufm-2"), None);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(State::own(&damaged, "ufm-1"), None, "byte {at}");
        assert_eq!(State::own(&bytes[..at], "ufm-1"), None, "{at} bytes");
    }
}

#[test]
fn bytes_of_another_kind_are_an_empty_state() {
    let bytes = state().to_bytes();
    let is_empty = |bytes: &[u8]| {
        let state = State::from_bytes(bytes);
        state.parts.is_empty() && state.memory.is_empty()
    };
    assert!(is_empty(&[]) && is_empty(b"tlf") && is_empty(&[0; 64]));
    for cut in 0..bytes.len() {
        assert!(is_empty(&bytes[..cut]), "cut at {cut}");
    }
    for at in 0..bytes.len() {
        let mut broken = bytes.clone();
        broken[at] ^= 0x11;
        assert!(is_empty(&broken), "broken at {at}");
    }
    assert!(is_empty(&[bytes.as_slice(), &[0]].concat()));
}

#[test]
fn what_does_not_fit_is_left_out_and_the_memory_goes_last() {
    let mut state = state();
    let mut large = Wiring::new();
    for number in 0..300_000 {
        large.host(&format!("a-host-with-a-rather-long-name-{number}"));
    }
    state.parts.push(Part { key: "large".into(), own: Vec::new(), wiring: large });
    let bytes = state.to_bytes();
    assert!(bytes.len() < 8 * 1024 * 1024);
    let back = State::from_bytes(&bytes);
    let keys: Vec<&str> = back.parts.iter().map(|part| part.key.as_str()).collect();
    assert_eq!((keys, back.memory), (vec!["ufm-0", "ufm-1"], state.memory));
}

proptest! {
    /// Behind a right checksum: reading any bytes ends, and its result can be written.
    #[test]
    fn reading_never_panics(flips in prop::collection::vec((any::<u16>(), any::<u8>()), 1..8), cut in any::<u16>()) {
        let bytes = state().to_bytes();
        let mut body = bytes[12..].to_vec();
        for (at, value) in flips {
            let at = at as usize % body.len();
            body[at] = value;
        }
        body.truncate(body.len() - cut as usize % 4);
        if let Some(state) = read_body(&body) {
            let _ = state.wiring();
            prop_assert_eq!(State::from_bytes(&state.to_bytes()).memory, state.memory);
        }
    }

    #[test]
    fn random_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_body(&body);
    }
}
