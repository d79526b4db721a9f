//! What only its owner may read: files that hold what was seen of a fabric, and the memory of this process, through
//! which Secrets pass.

use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// From here on a crash leaves no core, and who is not root reads nothing of this process, not even as the same user.
///
/// # Errors
/// When the system does not let us, as the filter of a container may.
pub(super) fn memory() -> rustix::io::Result<()> {
    // The first holds where a core is piped to a program, too; the second where another program makes the process
    // dumpable.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })
}

/// Opens or makes a file that only its owner can read. What is in it stays.
pub(super) fn open(path: &Path) -> std::io::Result<std::fs::File> {
    let file = std::fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    // A file that existed has the mode that its creator gave it. A pipe is not a file.
    let found = file.metadata()?;
    if found.is_file() && found.permissions().mode() & 0o077 != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Writes such a file.
pub(super) fn write(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = open(path)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_readable_by_its_owner_alone_even_if_it_existed() {
        let folder = tempfile::tempdir().unwrap();
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        open(&new).unwrap();
        assert_eq!(mode(&new), 0o600);
        std::fs::write(&old, "what was there before").unwrap();
        std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o644)).unwrap();
        open(&old).unwrap();
        assert_eq!((mode(&old), std::fs::read_to_string(&old).unwrap().as_str()), (0o600, "what was there before"));
        write(&old, b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "new");
        write(Path::new("/dev/null"), b"for no one").unwrap();
    }
}
