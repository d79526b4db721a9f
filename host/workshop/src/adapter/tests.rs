use std::collections::BTreeSet;

use wasmtime::{Caller, Engine, Extern, Instance, Linker, Memory, Module, Store, TypedFunc};

use super::*;

/// Where the tests put things: pieces, text, answers.
const PIECES: usize = 16;
const TEXT_AT: usize = 1_000;
const ANSWER: usize = 64;

/// The adapter beside a memory, and the log behind it.
struct Desk {
    store: Store<Vec<(i32, String)>>,
    instance: Instance,
    memory: Memory,
}

impl Desk {
    fn new() -> Self {
        let engine = Engine::default();
        let module = Module::new(&engine, module().unwrap()).unwrap();
        let host = Module::new(&engine, wat::parse_str(r#"(module (memory (export "memory") 1))"#).unwrap()).unwrap();
        let mut store = Store::new(&engine, Vec::new());
        let host = Instance::new(&mut store, &host, &[]).unwrap();
        let memory = host.get_memory(&mut store, "memory").unwrap();
        let mut linker = Linker::new(&engine);
        linker.define(&store, "env", "memory", Extern::Memory(memory)).unwrap();
        let write = move |mut caller: Caller<'_, Vec<(i32, String)>>, level: i32, at: i32, length: i32| {
            let mut bytes = vec![0; length as usize];
            memory.read(&caller, at as usize, &mut bytes).unwrap();
            // As in the host: what is no text would end the call.
            caller.data_mut().push((level, String::from_utf8(bytes).unwrap()));
        };
        linker.func_wrap("topoloom:discovery/log@0.1.0", "write", write).unwrap();
        let instance = linker.instantiate(&mut store, &module).unwrap();
        Self { store, instance, memory }
    }

    fn call<P: wasmtime::WasmParams>(&mut self, name: &str, parameters: P) -> i32 {
        let function: TypedFunc<P, i32> = self.instance.get_typed_func(&mut self.store, name).unwrap();
        function.call(&mut self.store, parameters).unwrap()
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.memory.write(&mut self.store, at, bytes).unwrap();
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        self.memory.data(&self.store)[at..at + N].try_into().unwrap()
    }

    /// Writes pieces to a descriptor: what it returns, how much it says, and what is in the log.
    fn write(&mut self, descriptor: i32, pieces: &[&[u8]]) -> (i32, u32, Vec<(i32, String)>) {
        let mut at = TEXT_AT;
        for (number, piece) in pieces.iter().enumerate() {
            self.put(at, piece);
            let place = [(at as u32).to_le_bytes(), (piece.len() as u32).to_le_bytes()].concat();
            self.put(PIECES + 8 * number, &place);
            at += piece.len();
        }
        self.put(ANSWER, &[0; 4]);
        let answer = self.call("fd_write", (descriptor, PIECES as i32, pieces.len() as i32, ANSWER as i32));
        let written = u32::from_le_bytes(self.bytes(ANSWER));
        (answer, written, std::mem::take(self.store.data_mut()))
    }

    fn now(&mut self) -> u64 {
        assert_eq!(self.call("clock_time_get", (1, 0_i64, ANSWER as i32)), 0);
        u64::from_le_bytes(self.bytes(ANSWER))
    }
}

fn lines(level: i32, lines: &[&str]) -> Vec<(i32, String)> {
    lines.iter().map(|line| (level, (*line).to_owned())).collect()
}

#[test]
fn what_is_written_is_one_message_for_each_line() {
    let mut desk = Desk::new();
    assert_eq!(desk.write(1, &[b"hello\nworld\n\n"]), (0, 13, lines(1, &["hello", "world"])));
    assert_eq!(desk.write(2, &[b"a", b"b\nc"]), (0, 4, lines(3, &["a", "b", "c"])));
    // As Go writes a panic: nothing is kept from one write to the next.
    assert_eq!(desk.write(2, &[b"panic: "]).2, lines(3, &["panic: "]));
    assert_eq!(desk.write(2, &[b"index out of range\n"]).2, lines(3, &["index out of range"]));
    assert_eq!(desk.write(1, &[b""]), (0, 0, lines(1, &[])));
    assert_eq!(desk.write(1, &[]), (0, 0, lines(1, &[])));
    for closed in [-1, 0, 3, 4] {
        assert_eq!(desk.write(closed, &[b"lost"]), (8, 0, lines(1, &[])), "{closed}");
    }
}

#[test]
fn what_is_no_text_does_not_end_the_call() {
    let mut desk = Desk::new();
    assert_eq!(desk.write(1, &["é漢😀\n".as_bytes()]).2, lines(1, &["é漢😀"]));
    for (bytes, said) in [
        (&b"a\xffb\xc3"[..], &["a", "b"][..]),
        // Half of a pair of UTF-16, a slash in three bytes, and a character behind the last one.
        (b"\xed\xa0\x80A", &["A"]),
        (b"\xe0\x80\xafA", &["A"]),
        (b"\xf4\x90\x80\x80A\xf4\x8f\xbf\xbf", &["A\u{10ffff}"]),
        // The rest of a character comes with the next piece, which is another message.
        (b"caf\xc3", &["caf"]),
    ] {
        assert_eq!(desk.write(1, &[bytes]).2, lines(1, said), "{bytes:?}");
    }
    // Every beginning of a character, with every byte behind it, judged as the standard library does.
    for first in 0x80..=0xff_u8 {
        for second in [0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff_u8] {
            let bytes = [first, second, 0x80, 0x80];
            let whole = (2..=4).find_map(|length| std::str::from_utf8(&bytes[..length]).ok());
            let said = desk.write(1, &[&bytes]).2;
            let begins = said.first().is_some_and(|(_, line)| whole.is_some_and(|whole| line.starts_with(whole)));
            assert_eq!(begins, whole.is_some(), "{bytes:?}: {said:?}");
        }
    }
}

#[test]
fn the_clock_is_never_zero_and_counts_calls() {
    let mut desk = Desk::new();
    let first = desk.now();
    assert!(first > 0);
    assert_eq!((desk.now(), desk.now()), (first + 1_000, first + 2_000));
    assert_eq!(Desk::new().now(), first, "every instance begins at the same time");
}

#[test]
fn a_wait_has_ended_and_the_clock_shows_it() {
    const IN: usize = 2_000;
    const OUT: usize = 3_000;
    let mut desk = Desk::new();
    let poll = |desk: &mut Desk, count: i32| desk.call("poll_oneoff", (IN as i32, OUT as i32, count, ANSWER as i32));
    let before = desk.now();
    // Five seconds from now, and a descriptor that can be read.
    desk.put(IN, &7_u64.to_le_bytes());
    desk.put(IN + 24, &5_000_000_000_u64.to_le_bytes());
    desk.put(IN + 48, &9_u64.to_le_bytes());
    desk.put(IN + 48 + 8, &[1]);
    assert_eq!(poll(&mut desk, 2), 0);
    assert_eq!(u32::from_le_bytes(desk.bytes(ANSWER)), 2);
    // What the caller knows it by, the error, the kind.
    assert_eq!(desk.bytes(OUT), [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(desk.bytes(OUT + 32), [9, 0, 0, 0, 0, 0, 0, 0, 8, 0, 1]);
    assert_eq!(desk.now(), before + 5_000_000_000 + 1_000);
    // Without an end, then until a date, then until one that is past.
    let mut until = |time: u64, flags: u16| {
        desk.put(IN + 24, &time.to_le_bytes());
        desk.put(IN + 40, &flags.to_le_bytes());
        assert_eq!(poll(&mut desk, 1), 0);
        desk.now()
    };
    let now = until(u64::MAX, 0);
    assert_eq!(now, before + 5_000_000_000 + 2_000);
    assert_eq!(until(60_000_000_000, 1), 60_000_001_000);
    assert_eq!(until(1, 1), 60_000_002_000);
    assert_eq!(poll(&mut desk, 0), 28, "a wait for nothing is refused");
}

#[test]
fn randomness_is_a_sequence_and_the_same_one_in_every_instance() {
    let draw = |desk: &mut Desk| {
        assert_eq!(desk.call("random_get", (ANSWER as i32, 16)), 0);
        desk.bytes::<16>(ANSWER)
    };
    let (mut one, mut other) = (Desk::new(), Desk::new());
    let (first, second) = (draw(&mut one), draw(&mut one));
    assert_ne!(first, second);
    assert_eq!((draw(&mut other), draw(&mut other)), (first, second));
    let distinct: BTreeSet<u8> = first.into_iter().chain(second).collect();
    assert!(distinct.len() > 16, "{distinct:?}");
}

#[test]
fn there_is_nothing_else_and_an_exit_is_a_crash() {
    let mut desk = Desk::new();
    desk.put(ANSWER, &[0xff; 8]);
    for function in ["args_sizes_get", "environ_sizes_get"] {
        assert_eq!(desk.call(function, (ANSWER as i32, ANSWER as i32 + 4)), 0);
        assert_eq!(desk.bytes(ANSWER), [0; 8], "{function}");
    }
    assert_eq!(desk.call("fd_prestat_get", (3, ANSWER as i32)), 8, "no folder is open");
    assert_eq!(desk.call("proc_raise", 6), 52);
    let exit: TypedFunc<i32, ()> = desk.instance.get_typed_func(&mut desk.store, "proc_exit").unwrap();
    assert!(exit.call(&mut desk.store, 0).is_err());
}

#[test]
fn every_function_of_preview_1_is_there_and_has_its_words() {
    let exports: Vec<String> = Parser::new(0)
        .parse_all(module().unwrap())
        .filter_map(|payload| match payload.unwrap() {
            Payload::ExportSection(section) => Some(section.into_iter().map(|export| export.unwrap().name.to_owned())),
            _ => None,
        })
        .flatten()
        .collect();
    // The snapshot has 46 of them.
    assert_eq!(exports.len(), 46, "{exports:?}");
    let imports: String = exports.iter().map(|name| format!(r#"(import "{PREVIEW1}" "{name}" (func))"#)).collect();
    let module = wat::parse_str(format!(r#"(module {imports} (import "env" "other" (func)))"#)).unwrap();
    let stubbed = imported(&module);
    assert_eq!(stubbed.len(), 46);
    for (function, stub) in [
        ("fd_write", Stub::Logs),
        ("fd_read", Stub::BadDescriptor),
        ("path_open", Stub::NotThere),
        ("sock_send", Stub::NotThere),
        ("poll_oneoff", Stub::Counts),
        ("proc_exit", Stub::Traps),
    ] {
        assert_eq!(stubbed[function], stub);
    }
    assert_eq!(imported(b"\0asm"), Stubbed::new());
}
