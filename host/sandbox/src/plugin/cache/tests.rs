//! The seal against every bit, and the folder against everything that happens to folders.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::SystemTime;

use super::folder::ABANDONED;
use super::*;
use crate::plugin::engine::{Threads, settings};

fn key(byte: u8) -> CacheKey {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, [byte; 32]).unwrap();
    CacheKey::read(&path).unwrap()
}

fn identity() -> ImageIdentity {
    let (engine, build) = ([1; 32], [2; 32]);
    ImageIdentity { module: Digest::of(b"a plugin"), optimise: Optimise::No, engine, build }
}

/// A file of the cache with a real image in it: of the smallest component there is.
fn file() -> Vec<u8> {
    let engine = Engine::new(&settings(Optimise::No, Threads::One)).unwrap();
    let image = engine.precompile_component(&wat::parse_str("(component)").unwrap()).unwrap();
    let mut file = key(1).seal(&identity(), &image);
    file.extend(image);
    file
}

#[test]
fn not_one_bit_may_be_another() {
    let (key, identity, mut file) = (key(1), identity(), file());
    assert!(key.verify(&identity, &file).is_ok());
    for at in 0..file.len() {
        for bit in 0..8 {
            file[at] ^= 1 << bit;
            assert!(key.verify(&identity, &file).is_err(), "bit {bit} of byte {at} of {}", file.len());
            file[at] ^= 1 << bit;
        }
    }
    assert!(key.verify(&identity, &file).is_ok());
}

#[test]
fn not_one_byte_may_be_missing_or_too_many() {
    let (key, identity, mut file) = (key(1), identity(), file());
    for length in 0..file.len() {
        let refused = key.verify(&identity, &file[..length]).err().unwrap();
        assert!(matches!(refused, Trouble::Length { .. }), "{length}: {refused}");
    }
    file.push(0);
    assert_eq!(key.verify(&identity, &file).err().unwrap().reason(), "Length");
}

#[test]
fn each_refusal_says_what_is_another() {
    let file = file();
    let other = [9; 32];
    let check = |key: &CacheKey, identity: ImageIdentity, words: &str| {
        assert_eq!(key.verify(&identity, &file).err().unwrap().to_string(), words);
    };
    let right = identity();
    check(&key(2), right, "the image was sealed with another key");
    check(&key(1), ImageIdentity { module: Digest::of(b"b"), ..right }, "the image is of another plugin");
    check(&key(1), ImageIdentity { optimise: Optimise::Yes, ..right }, "the image is of another plugin");
    check(&key(1), ImageIdentity { engine: other, ..right }, "the image is of another engine");
    check(&key(1), ImageIdentity { build: other, ..right }, "the image is of another build of this program");
    assert!(matches!(key(1).verify(&right, &[b'x'; 500]), Err(Trouble::NoImage)));
}

#[test]
fn a_key_that_only_looks_like_ours_opens_nothing() {
    let forged = CacheKey { mark: key(1).mark, ..key(2) };
    assert!(matches!(forged.verify(&identity(), &file()), Err(Trouble::Seal)));
}

#[test]
fn another_setting_of_the_engine_is_another_image() {
    let engine = |epochs, memories| {
        let mut config = settings(Optimise::Yes, Threads::One);
        config.epoch_interruption(epochs).wasm_multi_memory(memories);
        origin::engine(&Engine::new(&config).unwrap())
    };
    let (one, same, other, narrow) = (engine(true, true), engine(true, true), engine(false, true), engine(true, false));
    assert_eq!(one, same);
    assert_ne!(one, other);
    let names: BTreeSet<String> = [
        ImageIdentity { engine: one, ..identity() },
        ImageIdentity { engine: other, ..identity() },
        ImageIdentity { engine: narrow, ..identity() },
        ImageIdentity { optimise: Optimise::Yes, ..identity() },
        ImageIdentity { module: Digest::of(b""), ..identity() },
        ImageIdentity { build: origin::build().unwrap(), ..identity() },
    ]
    .iter()
    .map(ImageIdentity::file_name)
    .collect();
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(names.iter().all(|name| name.len() < 200 && !name.contains('/')), "{names:?}");
}

/// What is in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_was_not_used_for_the_longest_time_goes_first() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a/b");
    let folder = Folder::open(path.clone(), 30).unwrap();
    std::fs::write(path.join("of another program"), [0; 100]).unwrap();
    for name in ["1.image", "2.image", "3.image"] {
        assert_eq!(folder.write(name, &[&[0; 4], &[0; 6]]).unwrap(), 0);
    }
    folder.read("1.image", 100).unwrap().unwrap().touch();
    assert_eq!(folder.write("4.image", &[&[0; 15]]).unwrap(), 2);
    assert_eq!(names(&path), ["1.image", "4.image", "of another program"]);
    assert!(matches!(folder.write("5.image", &[&[0; 31]]), Err(Trouble::TooLarge { size: 31, limit: 30 })));
    assert_eq!(names(&path), ["1.image", "4.image", "of another program"]);
}

#[test]
fn what_a_writer_left_behind_goes_and_what_one_is_writing_stays() {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path().join("cache"), 30).unwrap();
    for (name, age) in [("old.tmp", 2 * ABANDONED), ("new.tmp", Duration::ZERO)] {
        let file = std::fs::File::create(place.path().join("cache").join(name)).unwrap();
        file.set_modified(SystemTime::now() - age).unwrap();
    }
    folder.write("1.image", &[]).unwrap();
    assert_eq!(names(&place.path().join("cache")), ["1.image", "new.tmp"]);
}

#[test]
fn only_a_private_folder_is_used() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("cache");
    assert!(Folder::open(path.clone(), 1).is_ok());
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    for mode in [0o777, 0o720, 0o702] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = Folder::open(path.clone(), 1).unwrap_err();
        assert!(matches!(refused, OpenError::Writable { mode: found, .. } if found == mode), "{refused}");
    }
    let file = place.path().join("file");
    std::fs::write(&file, []).unwrap();
    assert!(matches!(Folder::open(file, 1), Err(OpenError::Open { .. })));
    let link = place.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(matches!(Folder::open(link, 1), Err(OpenError::Open { .. })));
    // The owner of the root is known; a test that runs as root needs a folder of another user.
    let foreign = place.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    let foreign = if std::os::unix::fs::chown(&foreign, Some(1), None).is_ok() { foreign } else { "/".into() };
    assert!(matches!(Folder::open(foreign, 1), Err(OpenError::Owner { .. })));
}

#[test]
fn a_link_or_a_pipe_in_the_place_of_an_image_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("cache");
    let folder = Folder::open(path.clone(), 30).unwrap();
    std::fs::write(place.path().join("outside"), b"secret").unwrap();
    std::os::unix::fs::symlink(place.path().join("outside"), path.join("1.image")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path.join("2.image")).status().unwrap().success());
    for name in ["1.image", "2.image"] {
        assert!(folder.read(name, 100).is_err(), "{name}");
    }
    std::fs::write(path.join("3.image"), [0; 101]).unwrap();
    assert!(folder.read("3.image", 100).is_err());
    assert!(folder.read("4.image", 100).unwrap().is_none());
}

#[test]
fn an_image_is_stored_and_counted_even_if_its_caller_is_gone() {
    use futures::FutureExt;
    let place = tempfile::tempdir().unwrap();
    let options = CacheOptions { folder: place.path().join("cache"), key: key(1), size: 1 << 20 };
    let cache = Cache::open(options).unwrap();
    let engine = Engine::new(&settings(Optimise::No, Threads::One)).unwrap();
    // One thread for disks: what comes after has to wait.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (held, hold) = std::sync::mpsc::channel::<()>();
        let holds = tokio::task::spawn_blocking(move || hold.recv().is_err());
        let stored = cache.store(&engine, Digest::of(b"a plugin"), Optimise::No, vec![7]).now_or_never();
        assert_eq!((stored, cache.counts().len()), (None, 0));
        drop(held);
        assert!(holds.await.unwrap());
        tokio::task::spawn_blocking(|| ()).await.unwrap();
    });
    assert_eq!(cache.counts(), BTreeMap::from([("Stored", 1)]));
    assert_eq!(names(&place.path().join("cache")).len(), 1);
}
