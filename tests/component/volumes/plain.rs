//! Plain files, as people and scripts write them: in pieces, by rename, absent for a while; and paths that are no
//! regular files.

use std::fs;
use std::path::Path;
use std::process::Command;

use topoloom::delivery::Offer;
use topoloom::plugin::Digest;
use topoloom_api::condition::Reason;

use super::kubelet::{NAME, dice, pause};
use super::{Listener, Manner, NEVER, OFTEN, delivery, file, installed};

/// The digest of the offered module, or the reason why there is none.
fn word(offer: &Offer) -> Result<Digest, Reason> {
    match offer {
        Offer::Module(module) => Ok(module.digest),
        other => Err(other.trouble().map_or(Reason::Pending, |(reason, _)| reason)),
    }
}

impl Listener {
    /// Waits for an offer; returns the offers before it.
    async fn waits_for(&mut self, wanted: Result<Digest, Reason>) -> Vec<Result<Digest, Reason>> {
        let mut before = Vec::new();
        loop {
            match self.next().await.as_ref().map(word) {
                Some(found) if found == wanted => return before,
                Some(found) => before.push(found),
                None => panic!("{}: {wanted:?} was missed after {before:?}", self.place),
            }
        }
    }
}

fn declare(folder: &Path, module: &[u8]) {
    fs::write(folder.join("acme.yaml"), format!("name: acme\ndigest: {}\n", Digest::of(module))).unwrap();
}

#[tokio::test]
async fn a_file_that_is_written_in_pieces_waits_for_its_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("acme.wasm");
    let (old, new) = (b"old module".to_vec(), b"new module in many pieces".repeat(1_000));
    fs::write(&path, &old).unwrap();
    declare(folder.path(), &old);
    // The host reads the file all the time, so it sees every piece.
    let mut listener = Listener::new("file", &delivery(None, OFTEN), &file(&path), Manner::Quiet);
    listener.waits_for(Ok(Digest::of(&old))).await;
    declare(folder.path(), &new);
    listener.waits_for(Err(Reason::DigestMismatch)).await;
    for end in (1..new.len()).step_by(5_000) {
        // For every piece the message names another digest.
        fs::write(&path, &new[..end]).unwrap();
        listener.waits_for(Err(Reason::DigestMismatch)).await;
    }
    fs::write(&path, &new).unwrap();
    let before = listener.waits_for(Ok(Digest::of(&new))).await;
    assert!(before.iter().all(|found| *found == Err(Reason::DigestMismatch)), "{before:?}");
}

#[tokio::test]
async fn a_file_without_a_digest_ends_as_what_was_written_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("acme.wasm");
    let mut listener = Listener::new("file", &delivery(None, NEVER), &file(&path), Manner::Quiet);
    listener.waits_for(Err(Reason::PluginNotFound)).await;
    let module = b"piece".repeat(10_000);
    let mut writer = fs::File::create(&path).unwrap();
    for piece in module.chunks(1_000) {
        std::io::Write::write_all(&mut writer, piece).unwrap();
    }
    drop(writer);
    listener.waits_for(Ok(Digest::of(&module))).await;
}

#[tokio::test]
async fn a_file_that_is_renamed_over_twice_at_once_ends_as_the_second() {
    let (mut dice, seed) = dice();
    println!("TOPOLOOM_TEST_SEED={seed}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("acme.wasm");
    fs::write(&path, "0").unwrap();
    let mut listener = Listener::new("file", &delivery(None, NEVER), &file(&path), Manner::Quiet);
    listener.waits_for(Ok(Digest::of(b"0"))).await;
    for round in 0..10 {
        // All of the same length, so that only their content differs.
        let modules = [format!("a {round}"), format!("b {round}")];
        for module in &modules {
            let new = folder.path().join("new");
            fs::write(&new, module).unwrap();
            fs::rename(&new, &path).unwrap();
            pause(&mut dice);
        }
        listener.waits_for(Ok(Digest::of(modules[1].as_bytes()))).await;
    }
}

#[tokio::test]
async fn a_file_that_vanishes_and_comes_back_is_offered_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("{NAME}.wasm"));
    let module = b"module".as_slice();
    fs::write(&path, module).unwrap();
    let delivery = delivery(Some(folder.path().to_owned()), NEVER);
    let mut of_file = Listener::new("file", &delivery, &file(&path), Manner::Quiet);
    let mut of_folder = Listener::new("folder", &delivery, &installed(), Manner::Quiet);
    for _ in 0..3 {
        of_file.waits_for(Ok(Digest::of(module))).await;
        of_folder.waits_for(Ok(Digest::of(module))).await;
        fs::remove_file(&path).unwrap();
        of_file.waits_for(Err(Reason::PluginNotFound)).await;
        // The host does not offer the builtin plugin instead: a volume that is absent for a moment does not mean that
        // the operator wants it.
        of_folder.waits_for(Err(Reason::PluginNotFound)).await;
        fs::write(&path, module).unwrap();
    }
}

#[tokio::test]
async fn a_folder_that_does_not_exist_yet_is_found_when_it_appears() {
    let folder = tempfile::tempdir().unwrap();
    let late = folder.path().join("late");
    let path = late.join("acme.wasm");
    let mut listener = Listener::new("file", &delivery(None, OFTEN), &file(&path), Manner::Quiet);
    listener.waits_for(Err(Reason::PluginNotFound)).await;
    for module in ["first", "second"] {
        // The second time another folder is put in the place of the first.
        let early = folder.path().join("early");
        fs::create_dir(&early).unwrap();
        fs::write(early.join("acme.wasm"), module).unwrap();
        if late.exists() {
            fs::rename(&late, folder.path().join("gone")).unwrap();
        }
        fs::rename(&early, &late).unwrap();
        listener.waits_for(Ok(Digest::of(module.as_bytes()))).await;
    }
}

#[tokio::test]
async fn a_folder_of_its_own_may_come_later_than_the_folder_of_plugins() {
    let folder = tempfile::tempdir().unwrap();
    let delivery = delivery(Some(folder.path().to_owned()), NEVER);
    let mut listener = Listener::new("folder", &delivery, &installed(), Manner::Quiet);
    listener.waits_for(Ok(topoloom_tests::builtins::find(NAME).digest)).await;
    let own = folder.path().join(NAME);
    fs::create_dir(&own).unwrap();
    for module in ["first", "second"] {
        fs::write(own.join("plugin.wasm"), module).unwrap();
        listener.waits_for(Ok(Digest::of(module.as_bytes()))).await;
    }
}

#[tokio::test]
async fn only_regular_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("acme.wasm");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let nothing = |offer: Offer| match offer {
        Offer::Nothing(Reason::PluginNotFound, message) => message,
        other => panic!("{other:?}"),
    };
    let delivery = delivery(None, NEVER);
    for path in [Path::new("/dev/zero"), &pipe, folder.path()] {
        let message = nothing(delivery.once(&file(path)).await);
        assert!(message.ends_with("it is not a regular file"), "{message}");
    }
    // The files beside a module must be regular files, too.
    fs::remove_file(&pipe).unwrap();
    fs::write(&pipe, "module").unwrap();
    for beside in ["acme.yaml", "acme.sig"] {
        let beside = folder.path().join(beside);
        assert!(Command::new("mkfifo").arg(&beside).status().unwrap().success());
        let message = nothing(delivery.once(&file(&pipe)).await);
        assert!(message.ends_with(&format!("{}: it is not a regular file", beside.display())), "{message}");
        fs::remove_file(&beside).unwrap();
    }
}
