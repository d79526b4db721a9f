//! Volumes that are swapped as the kubelet swaps them, at random moments, while readers of every kind read them.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use topoloom::delivery::Module;
use topoloom::plugin::Digest;
use topoloom_tests::dice::Dice;

use super::{Listener, Manner, NEVER, OFTEN, delivery, file, installed};

/// The name of a plugin that is also part of the binary: a reader that sees no file for a moment would offer the
/// builtin one.
pub(super) const NAME: &str = "label";

const SWAPS: usize = 200;
/// Swaps of small modules take so little time that there can be more.
const SMALL_SWAPS: usize = 2_000;

/// Random numbers from the seed of `TOPOLOOM_TEST_SEED`, or from a new one. Returns the seed, too.
pub(super) fn dice() -> (Dice, u64) {
    let given = std::env::var("TOPOLOOM_TEST_SEED").ok();
    let seed = given.map_or_else(|| RandomState::new().hash_one(0), |seed| seed.parse().unwrap());
    (Dice::new(seed), seed)
}

/// Lets other threads run for a while: mostly for microseconds, at times for as long as a reader waits for events to
/// stop.
pub(super) fn pause(dice: &mut Dice) {
    let most = 1 << dice.below(18);
    let steps = dice.below(most);
    (0..steps).for_each(|_| std::thread::yield_now());
}

/// What was written in one place, by digest.
#[derive(Default)]
pub(super) struct Written {
    revisions: BTreeMap<Digest, (usize, Vec<u8>)>,
    count: usize,
}

/// How large modules are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sizes {
    Small,
    /// Up to a size that takes many reads.
    Mixed,
}

impl Written {
    /// A module that was never there before.
    fn module(&mut self, times: usize) -> Vec<u8> {
        self.count += 1;
        let module = format!("revision {} ", self.count).repeat(times).into_bytes();
        self.revisions.insert(Digest::of(&module), (self.count, module.clone()));
        module
    }

    pub(super) fn last(&self) -> usize {
        self.count
    }

    /// Which revision an offered module is.
    pub(super) fn find(&self, module: &Module) -> Result<usize, String> {
        let found = self.revisions.get(&module.digest);
        let (number, bytes) =
            found.ok_or_else(|| format!("no revision has {} bytes of {}", module.bytes.len(), module.digest))?;
        if *bytes != *module.bytes {
            return Err(format!("revision {number} is offered with other bytes"));
        }
        match (&module.declared, &module.signature) {
            (Some(declared), Some(signature))
                if declared.digest == module.digest && **signature == *signed(*number) =>
            {
                Ok(*number)
            }
            beside => Err(format!("beside revision {number} lies {beside:?}")),
        }
    }
}

/// A signature that names its revision.
fn signed(number: usize) -> Vec<u8> {
    format!("signature of {number}").into_bytes()
}

/// A volume in one folder, with the only steps by which the kubelet changes one (its `AtomicWriter`): a new folder with
/// a time in its name, a link to it under another name, the rename of that link, and the removal of the old folder.
struct Volume {
    root: PathBuf,
    written: Written,
    dice: Dice,
    sizes: Sizes,
}

impl Volume {
    fn new(root: &Path, dice: Dice, sizes: Sizes) -> Self {
        fs::create_dir_all(root).unwrap();
        let mut volume = Self { root: root.to_owned(), written: Written::default(), dice, sizes };
        volume.swap();
        link_files(root);
        volume
    }

    fn swap(&mut self) {
        let data = self.root.join("..data");
        let old = fs::read_link(&data).ok();
        let times = if self.sizes == Sizes::Small { 1 } else { 1 + self.dice.below(20_000) };
        let module = self.written.module(times);
        let number = self.written.last();
        let new = format!("..2026_11_21_13_04_12.{number:010}");
        let folder = self.root.join(&new);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("plugin.sig"), signed(number)).unwrap();
        fs::write(folder.join("plugin.wasm"), &module).unwrap();
        fs::write(folder.join("plugin.yaml"), format!("name: {NAME}\ndigest: {}\n", Digest::of(&module))).unwrap();
        symlink(&new, self.root.join("..data_tmp")).unwrap();
        fs::rename(self.root.join("..data_tmp"), &data).unwrap();
        if let Some(old) = old {
            fs::remove_dir_all(self.root.join(old)).unwrap();
        }
    }

    /// Some swaps at random moments, in a thread of their own; returns the volume with what was written.
    async fn swaps(mut self, count: usize) -> Self {
        let swapping = tokio::task::spawn_blocking(move || {
            for _ in 0..count {
                if self.sizes == Sizes::Mixed {
                    pause(&mut self.dice);
                }
                self.swap();
            }
            self
        });
        swapping.await.unwrap()
    }
}

fn link_files(folder: &Path) {
    for file in ["plugin.wasm", "plugin.yaml", "plugin.sig"] {
        symlink(Path::new("..data").join(file), folder.join(file)).unwrap();
    }
}

/// The listeners: one reads the folder of plugins, one the plugin's own folder, one the file itself.
fn listeners(plugins: &Path, poll: std::time::Duration, manner: Manner) -> Vec<Listener> {
    let own = plugins.join(NAME);
    let above = delivery(Some(plugins.to_owned()), poll);
    // A ConfigMap that is mounted as the folder of plugins itself.
    let itself = delivery(Some(own.clone()), poll);
    vec![
        Listener::new("folder of plugins", &above, &installed(), manner),
        Listener::new("its own folder", &itself, &installed(), manner),
        Listener::new("file", &above, &file(&own.join("plugin.wasm")), manner),
    ]
}

/// Bursts of swaps until all are done; after each burst every listener receives its last revision.
async fn swap_under(mut volume: Volume, listeners: &mut [Listener], swaps: usize, longest: usize) -> Written {
    while volume.written.last() < swaps {
        let burst = 1 + volume.dice.below(longest);
        volume = volume.swaps(burst).await;
        for listener in &mut *listeners {
            listener.hears_the_last(&volume.written).await;
        }
    }
    for listener in listeners {
        listener.said_nothing_else(&volume.written);
    }
    volume.written
}

#[tokio::test]
async fn swaps_of_a_mounted_volume_are_neither_missed_nor_torn() {
    let (dice, seed) = dice();
    println!("TOPOLOOM_TEST_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let volume = Volume::new(&folder.path().join(NAME), dice, Sizes::Mixed);
    // Only events notify these listeners.
    let mut listeners = listeners(folder.path(), NEVER, Manner::Quiet);
    swap_under(volume, &mut listeners, SWAPS, 16).await;
}

/// A volume whose swaps raise no event: the link in the watched folder leads to the link that is swapped. Returns the
/// folder of plugins, too.
fn unheard(folder: &Path, dice: Dice, sizes: Sizes) -> (Volume, PathBuf) {
    let volume = Volume::new(&folder.join("behind"), dice, sizes);
    let plugins = folder.join("plugins");
    let own = plugins.join(NAME);
    fs::create_dir_all(&own).unwrap();
    symlink("../../behind/..data", own.join("..data")).unwrap();
    link_files(&own);
    (volume, plugins)
}

#[tokio::test]
async fn swaps_that_raise_no_event_are_found_by_looking() {
    let (dice, seed) = dice();
    println!("TOPOLOOM_TEST_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let (volume, plugins) = unheard(folder.path(), dice, Sizes::Mixed);
    let mut deaf = listeners(&plugins, NEVER, Manner::Quiet);
    for listener in &mut deaf {
        listener.hears_the_last(&volume.written).await;
    }
    let mut listeners = listeners(&plugins, OFTEN, Manner::Quiet);
    let written = swap_under(volume, &mut listeners, SWAPS, 4).await;
    for listener in &mut deaf {
        listener.said_nothing_else(&written);
        assert_eq!(listener.last, Some(1), "{}: there was an event", listener.place);
    }
}

#[tokio::test]
async fn swaps_between_any_two_steps_of_a_reader_are_neither_missed_nor_torn() {
    for (sizes, swaps, longest) in [(Sizes::Mixed, SWAPS, 8), (Sizes::Small, SMALL_SWAPS, SMALL_SWAPS)] {
        let (dice, seed) = dice();
        println!("TOPOLOOM_TEST_SEED={seed}");
        let folder = tempfile::tempdir().unwrap();
        let (volume, plugins) = unheard(folder.path(), dice, sizes);
        // After an event the reader would wait for events to stop; without events it reads all the time.
        let mut listeners = listeners(&plugins, NEVER, Manner::Restless);
        swap_under(volume, &mut listeners, swaps, longest).await;
    }
}
