//! Plugins that are composed of components: parts with memories of their own, between which the engine makes code.

use std::fmt::Write;
use std::sync::Arc;

use topoloom_core::plugin::{Amount, CallError, Limit, Limits, TrapKind};

use super::{lowered, refused, sentence};
use crate::guests::{grafted, load, nodes, round, source, villain};

/// The unit of a wasm memory.
const PAGE: usize = 64 << 10;

/// What a part has: a memory, and what the engine needs to write strings into it.
const MEMORY: &str = r#"
    (core module $memory
      (memory (export "memory") 1)
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
    (core instance $memory (instantiate $memory))"#;

/// A plugin with two parts that exchange strings when it starts: one turns a text around, and the other one sends it
/// `topology` and traps if it gets anything else than `back`.
fn exchanging(back: &str) -> Arc<[u8]> {
    assert_eq!(back.len(), 8);
    grafted(&format!(
        r#"(component
  (component $giver
    (core module $m
      (memory (export "memory") 1)
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
      (func (export "turned") (param $at i32) (param $length i32) (result i32)
        (local $i i32)
        (block $end (loop $next
          (br_if $end (i32.ge_u (local.get $i) (local.get $length)))
          (i32.store8
            (i32.add (i32.const 2048) (local.get $i))
            (i32.load8_u
              (i32.sub (i32.add (local.get $at) (local.get $length)) (i32.add (local.get $i) (i32.const 1)))))
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br $next)))
        (i32.store (i32.const 4096) (i32.const 2048))
        (i32.store (i32.const 4100) (local.get $length))
        (i32.const 4096)))
    (core instance $i (instantiate $m))
    (func (export "turned") (param "text" string) (result string)
      (canon lift (core func $i "turned") (memory (core memory $i "memory")) (realloc (core func $i "realloc")))))
  (component $taker
    (import "turned" (func $turned (param "text" string) (result string)))
    {MEMORY}
    (core func $turned
      (canon lower (func $turned) (memory (core memory $memory "memory")) (realloc (core func $memory "realloc"))))
    (core module $m
      (import "" "turned" (func $turned (param i32 i32 i32)))
      (import "" "memory" (memory 1))
      (data (i32.const 16) "topology{back}")
      (func $start
        (call $turned (i32.const 16) (i32.const 8) (i32.const 32))
        (if (i32.ne (i32.load (i32.const 36)) (i32.const 8)) (then unreachable))
        (if (i64.ne (i64.load (i32.load (i32.const 32))) (i64.load (i32.const 24))) (then unreachable)))
      (start $start))
    (core instance (instantiate $m (with "" (instance
      (export "turned" (func $turned))
      (export "memory" (memory $memory "memory")))))))
  (instance $giver (instantiate $giver))
  (instance (instantiate $taker (with "turned" (func $giver "turned")))))"#
    ))
}

#[tokio::test]
async fn parts_of_a_plugin_exchange_strings_and_their_memories_are_summed() {
    let plugin = load(&exchanging("ygolopot"), Limits::large()).await;
    assert_eq!(plugin.needs().map(|needs| needs.memories), Some(3));
    let call = plugin.discover(&source(), round("good", nodes(100))).await;
    call.end.unwrap();
    let alone = villain().await.discover(&source(), round("good", nodes(100))).await;
    assert_eq!(call.usage.peak_memory, alone.usage.peak_memory + 2 * PAGE);
    plugin.optimise().await.unwrap();
    plugin.discover(&source(), round("good", nodes(100))).await.end.unwrap();
}

#[tokio::test]
async fn a_text_arrives_in_the_other_part_as_it_was_sent() {
    let plugin = load(&exchanging("topology"), Limits::large()).await;
    let error = plugin.discover(&source(), round("good", nodes(1))).await.end.unwrap_err();
    assert!(matches!(error, CallError::Trap { kind: TrapKind::Unreachable, .. }), "{error}");
}

#[tokio::test]
async fn a_composed_plugin_needs_the_large_profile_and_the_refusal_says_so() {
    let error = refused(exchanging("ygolopot"), Limits::default()).await;
    assert_eq!(error.limit(), Some(Limit::Depth), "{error}");
    sentence(Limit::Depth, &error.to_string(), "the plugin has nesting of 3, and 2 is allowed");
    assert!(error.to_string().contains("`limits.profile: large`"), "{error}");
}

#[tokio::test]
async fn forty_memories_inside_are_refused_in_every_profile() {
    let part = format!("(component $part {MEMORY})");
    let parts = "(instance (instantiate $part))".repeat(40);
    let error = refused(grafted(&format!("(component {part} {parts})")), Limits::large()).await;
    assert_eq!(error.limit(), Some(Limit::Memories), "{error}");
    sentence(Limit::Memories, &error.to_string(), "the plugin starts with 41 memories and may have 4");
}

#[tokio::test]
async fn memories_of_parts_grow_within_one_limit() {
    let part = "(component $part (core module $m (memory 480)) (core instance (instantiate $m)))";
    let three = grafted(&format!("(component {part} {})", "(instance (instantiate $part))".repeat(3)));
    let mut limits = Limits::large();
    limits.set(Limit::Memory, Amount::mib(64));
    let end = load(&three, limits).await.discover(&source(), round("good", nodes(1))).await.end;
    let Err(CallError::OutOfMemory { limit, asked, .. }) = end else { panic!("{end:?}") };
    assert!(limit == 64 << 20 && asked > 3 * 480 * PAGE && asked < 4 * 480 * PAGE, "{asked}");
}

/// Two parts with so many functions between them, each of which takes a list of so many strings: a small file, of which the
/// engine makes large functions.
fn adapters(functions: usize, strings: usize) -> Arc<[u8]> {
    let many = format!("(type $many (list (tuple {})))", "string ".repeat(strings));
    let all = |part: &dyn Fn(usize) -> String| (0..functions).map(part).collect::<String>();
    let mut text = String::from("(component");
    write!(
        text,
        r#"
  (component $giver {many}
    (core module $m
      (memory (export "memory") 1)
      (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
      {functions})
    (core instance $i (instantiate $m))
    {lifts})
  (component $taker {many} {imports} {MEMORY} {lowers}
    (core module $m {uses})
    (core instance (instantiate $m (with "" (instance {given})))))
  (instance $giver (instantiate $giver))
  (instance (instantiate $taker {arguments}))
  (instance $d) (export "topoloom:discovery/discoverer@0.1.0" (instance $d)))"#,
        functions = all(&|i| format!(r#"(func (export "f{i}") (param i32 i32))"#)),
        lifts = all(&|i| {
            format!(
                r#"(func (export "f{i}") (param "all" $many) (canon lift (core func $i "f{i}")
                   (memory (core memory $i "memory")) (realloc (core func $i "realloc"))))"#
            )
        }),
        imports = all(&|i| format!(r#"(import "f{i}" (func $f{i} (param "all" $many)))"#)),
        lowers = all(&|i| {
            format!("(core func $l{i} (canon lower (func $f{i}) (memory (core memory $memory \"memory\"))))")
        }),
        uses = all(&|i| format!(r#"(import "" "f{i}" (func (param i32 i32)))"#)),
        given = all(&|i| format!(r#"(export "f{i}" (func $l{i}))"#)),
        arguments = all(&|i| format!(r#"(with "f{i}" (func $giver "f{i}"))"#)),
    )
    .unwrap();
    wat::parse_str(text).unwrap().into()
}

#[tokio::test]
async fn code_between_parts_is_compiled_within_the_limits_of_one_compile() {
    // Several times as much as a quick machine compiles within the limit.
    let error = refused(adapters(400, 900), lowered(Limit::CompileCpu, Amount::seconds(1))).await;
    // It may need too much memory first, or on a busy machine too much elapsed time.
    assert_eq!(error.reason(), "CompileLimit", "{error}");
}
