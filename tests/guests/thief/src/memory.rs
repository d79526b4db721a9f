//! Reading and filling all of linear memory.

#![allow(unsafe_code, reason = "a guest can read more than safe Rust lets it read")]

use std::hint::black_box;

/// Bytes that a dump has at most: two of them and what imports say fit into the state of an answer.
const MOST: usize = 3 << 20;
/// Only what is not zero is kept, in blocks of this size.
const BLOCK: usize = 64;
/// Bytes of stack that are filled.
const STACK: usize = 256 << 10;

/// A block of linear memory.
#[derive(Clone, Copy, PartialEq)]
#[repr(align(64))]
struct Block([u8; BLOCK]);

/// Everything in linear memory that is not zero, after growing it to so many MiB. What does not fit is left out.
pub(super) fn dump(grow: usize) -> Vec<u8> {
    // An earlier guest may have used the memory of the dump, so that part is read first; the dump never overtakes the reader.
    let mut dump = Vec::with_capacity(MOST / BLOCK);
    let begin = dump.as_ptr() as usize;
    let end = size(grow);
    let room = begin..begin + MOST;
    // A reference to address 0 is not valid.
    let rest = (BLOCK..room.start).chain(room.end..end);
    for at in room.clone().chain(rest).step_by(BLOCK).filter(|at| at + BLOCK <= end) {
        // SAFETY: an aligned block within linear memory, where every byte can be read and any value is a `u8`.
        let block = unsafe { std::ptr::read_volatile(std::ptr::with_exposed_provenance::<Block>(at)) };
        if block != Block([0; BLOCK]) && dump.len() < dump.capacity() {
            dump.push(block);
        }
    }
    dump.iter().flat_map(|block| block.0).collect()
}

/// Fills so many MiB of heap, and a good part of the stack, with a text.
pub(super) fn fill(text: &[u8], mib: usize) -> Vec<u8> {
    let copy = |to: &mut [u8]| {
        to.chunks_mut(text.len()).for_each(|chunk| chunk.iter_mut().zip(text).for_each(|(to, from)| *to = *from));
    };
    let mut stack = [0; STACK];
    copy(&mut stack);
    black_box(&stack);
    let mut heap = vec![0; mib << 20];
    copy(&mut heap);
    heap
}

/// Bytes of linear memory, grown to at least so many MiB as far as the host allows.
#[cfg(target_arch = "wasm32")]
fn size(mib: usize) -> usize {
    use std::arch::wasm32::{memory_grow, memory_size};
    const PAGE: usize = 64 << 10;
    memory_grow::<0>(((mib << 20) / PAGE).saturating_sub(memory_size::<0>()));
    memory_size::<0>() * PAGE
}

/// Outside of a sandbox there is no memory to read.
#[cfg(not(target_arch = "wasm32"))]
fn size(_: usize) -> usize {
    0
}
