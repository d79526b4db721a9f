//! Which of several queues has a key (B13).
//!
//! The hash is that of the reference, so that its logs and ours name the same shard.

use std::num::NonZeroUsize;

const OFFSET: u32 = 2_166_136_261;
const PRIME: u32 = 16_777_619;

/// FNV-1, 32 bit: multiply, then exclusive or. (FNV-1a is the other way round.)
#[must_use]
pub fn fnv1(text: &str) -> u32 {
    text.bytes().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(byte))
}

/// The shard of a key (`namespace/name`) among so many workers, counted from 0.
#[must_use]
pub fn shard(key: &str, workers: NonZeroUsize) -> usize {
    match u32::try_from(workers.get()) {
        // It is below the number of workers, which is a `usize`.
        Ok(workers) => (fnv1(key) % workers) as usize,
        // There are more workers than hashes: the hash itself.
        Err(_) => fnv1(key) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r10_every_key_has_the_hash_and_the_shard_of_the_reference() {
        let workers = |number| NonZeroUsize::new(number).unwrap();
        for (key, hash, of_three, of_five) in [
            ("", 2_166_136_261, 1, 1),
            ("default/job-1", 77_750_130, 0, 0),
            ("default/job-2", 77_750_129, 2, 4),
            ("default/job-3", 77_750_128, 1, 3),
            ("default/test-job", 778_950_297, 0, 2),
            ("test/vcjob-1", 3_534_827_368, 1, 3),
            ("ns1/training", 161_001_654, 0, 4),
            ("default/任务", 1_063_763_291, 2, 1),
        ] {
            assert_eq!(fnv1(key), hash, "{key}");
            assert_eq!(shard(key, workers(3)), of_three, "{key}");
            assert_eq!(shard(key, workers(5)), of_five, "{key}");
            assert_eq!(shard(key, workers(1)), 0, "{key}");
        }
    }
}
