//! An artifact in a folder: the image layout of OCI, which other programs copy into registries that this machine does not
//! reach, and out of them.
//!
//! `oci-layout:DIR:TAG`: one folder holds several artifacts, each with a name; blobs are files that are named by what they
//! hash to. What is read is hashed, as what comes from a registry.

use std::fmt;
use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use serde_json::{Value, json};
use topoloom_core::plugin::Digest;

use super::login::bounded;
use super::manifest::{Blobs, LARGEST, Manifest, descriptor};
use crate::config::registry::is_tag;
use crate::delivery::parcel::Parcel;
use crate::delivery::unpack::UNPACKED;

/// How one is written.
pub const PREFIX: &str = "oci-layout:";
/// The annotation with the name of an artifact in the index of a folder.
const NAME: &str = "org.opencontainers.image.ref.name";
/// What makes a folder a layout.
const MARKER: &str = "oci-layout";
const MARK: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
const INDEX: &str = "index.json";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// The largest index that is read, in bytes: a folder with thousands of artifacts has a megabyte.
const LARGEST_INDEX: u64 = 4 << 20;
/// Artifacts that a message names.
const SHOWN: usize = 10;

/// One artifact of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    folder: PathBuf,
    tag: Option<String>,
}

impl Layout {
    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name of the artifact in it.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The same with a name, where it has none.
    #[must_use]
    pub fn named(self, tag: &str) -> Self {
        Self { tag: self.tag.or_else(|| Some(tag.to_owned())), ..self }
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wanted = "must be oci-layout:DIR or oci-layout:DIR:TAG";
        let rest = text.strip_prefix(PREFIX).ok_or(wanted)?;
        // A folder may have a colon in its name, and no tag has a slash.
        let (folder, tag) = match rest.rsplit_once(':') {
            Some((folder, tag)) if is_tag(tag) => (folder, Some(tag.to_owned())),
            _ => (rest, None),
        };
        if folder.is_empty() {
            return Err(wanted.to_owned());
        }
        Ok(Self { folder: PathBuf::from(folder), tag })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.folder.display())?;
        self.tag.iter().try_for_each(|tag| write!(f, ":{tag}"))
    }
}

#[derive(Deserialize)]
struct IndexText {
    manifests: Vec<Value>,
}

impl Layout {
    /// Writes an artifact beside those that are there; one of the same name is replaced. Returns the digest of its manifest.
    ///
    /// # Errors
    /// The file that cannot be written or read.
    pub fn write(&self, blobs: &Blobs, media_type: &str) -> Result<Digest, String> {
        let marker = self.folder.join(MARKER);
        let is_empty = std::fs::read_dir(&self.folder).map_or(true, |mut entries| entries.next().is_none());
        if !is_empty && !marker.is_file() {
            return Err(format!("{} has other files and is no OCI layout; name a new folder", self.folder.display()));
        }
        for blob in [&blobs.layer, &blobs.config, &blobs.manifest] {
            put(&self.blob(Digest::of(blob)), blob)?;
        }
        put(&marker, MARK.as_bytes())?;
        let mut descriptor = descriptor(media_type, &blobs.manifest);
        if let (Some(fields), Some(tag)) = (descriptor.as_object_mut(), &self.tag) {
            fields.insert("annotations".to_owned(), json!({ NAME: tag }));
        }
        let mut manifests = self.index()?;
        manifests.retain(|other| name(other) != self.tag.as_deref());
        manifests.push(descriptor);
        let index = json!({"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": manifests});
        put(&self.folder.join(INDEX), index.to_string().as_bytes())?;
        Ok(Digest::of(&blobs.manifest))
    }

    /// Reads the artifact: the digest of its manifest, and what is delivered.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn read(&self) -> Result<(Digest, Parcel), String> {
        let manifests = self.index()?;
        let found: Vec<&Value> = match &self.tag {
            Some(tag) => manifests.iter().filter(|entry| name(entry) == Some(tag.as_str())).collect(),
            None => manifests.iter().collect(),
        };
        let &[entry] = found.as_slice() else {
            let names: Vec<&str> = manifests.iter().filter_map(name).take(SHOWN).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(format!("{self}: say which artifact, with oci-layout:DIR:TAG; tags there: {names}"));
        };
        let digest = entry.get("digest").and_then(Value::as_str).and_then(Digest::parse);
        let digest = digest.ok_or_else(|| format!("{self}: its manifest has no sha256 digest"))?;
        let bytes = self.hashed(digest, LARGEST)?;
        let content_type = entry.get("mediaType").and_then(Value::as_str).map(str::to_owned);
        let artifact =
            Manifest { digest, bytes, content_type }.artifact().map_err(|error| format!("{self}: {error}"))?;
        let module = self.hashed(artifact.layer.digest, UNPACKED as u64)?;
        Ok((digest, Parcel { module, declaration: artifact.declaration, signature: artifact.signature }))
    }

    fn index(&self) -> Result<Vec<Value>, String> {
        let path = self.folder.join(INDEX);
        let named = |why: String| format!("{}: {why}", path.display());
        let Some(text) = bounded(&path, LARGEST_INDEX).map_err(named)? else { return Ok(Vec::new()) };
        let read: IndexText = serde_json::from_slice(&text).map_err(|_| named("it is no index of OCI".to_owned()))?;
        Ok(read.manifests)
    }

    fn blob(&self, digest: Digest) -> PathBuf {
        let hex = digest.to_string();
        self.folder.join("blobs/sha256").join(hex.strip_prefix("sha256:").unwrap_or(&hex))
    }

    fn hashed(&self, digest: Digest, most: u64) -> Result<Vec<u8>, String> {
        let path = self.blob(digest);
        let named = |why: String| format!("{}: {why}", path.display());
        let bytes = bounded(&path, most).map_err(named)?.ok_or_else(|| named("there is no such file".to_owned()))?;
        let found = Digest::of(&bytes);
        if found == digest { Ok(bytes) } else { Err(named(format!("its bytes hash to {found}"))) }
    }
}

/// The name of an entry of an index.
fn name(entry: &Value) -> Option<&str> {
    entry.get("annotations")?.get(NAME)?.as_str()
}

/// Writes a file and its folder.
fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    folder.and_then(|()| write(path, bytes)).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file so that a reader sees all of it or nothing. It is no secret: the umask decides who may read it.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::manifest::{MANIFEST, Pushed};
    use super::*;

    fn blobs(module: &[u8]) -> Blobs {
        Pushed { module, name: "racks", version: "1.0", imports: &[], exports: &[], signature: Some("s") }.blobs()
    }

    fn at(folder: &Path, tag: &str) -> Layout {
        format!("oci-layout:{}:{tag}", folder.display()).parse().unwrap()
    }

    #[test]
    fn a_file_has_the_rights_that_any_other_program_would_give_it() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, other) = (folder.path().join("ours"), folder.path().join("other"));
        write(&ours, b"x").unwrap();
        std::fs::write(&other, b"x").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&other));
    }

    #[test]
    fn a_folder_has_several_artifacts_each_with_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (at(folder.path(), "1.0"), at(folder.path(), "2.0"));
        let digest = old.write(&blobs(b"old"), MANIFEST).unwrap();
        new.write(&blobs(b"new"), MANIFEST).unwrap();
        let (read, parcel) = old.read().unwrap();
        assert_eq!((read, parcel.module.as_slice()), (digest, b"old".as_slice()));
        assert_eq!(parcel.signature.as_deref(), Some(b"s".as_slice()));
        assert_eq!(new.read().unwrap().1.module, b"new");
        // The same name again is another artifact.
        old.write(&blobs(b"newer"), MANIFEST).unwrap();
        assert_eq!(old.read().unwrap().1.module, b"newer");
        let unnamed: Layout = format!("oci-layout:{}", folder.path().display()).parse().unwrap();
        let error = unnamed.read().unwrap_err();
        assert!(error.contains("say which") && error.contains("2.0, 1.0"), "{error}");
    }

    #[test]
    fn what_was_changed_in_a_folder_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let layout = at(folder.path(), "1.0");
        layout.write(&blobs(b"module"), MANIFEST).unwrap();
        let path = layout.blob(Digest::of(b"module"));
        std::fs::write(&path, b"other!").unwrap();
        assert!(layout.read().unwrap_err().contains("its bytes hash to"));
        std::fs::remove_file(&path).unwrap();
        assert!(layout.read().unwrap_err().contains("there is no such file"));
        std::fs::write(folder.path().join("index.json"), "[]").unwrap();
        assert!(layout.read().unwrap_err().contains("it is no index of OCI"));
    }

    #[test]
    fn a_folder_with_other_files_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("thesis.txt"), "").unwrap();
        let error = at(folder.path(), "1.0").write(&blobs(b"module"), MANIFEST).unwrap_err();
        assert!(error.contains("has other files"), "{error}");
        assert!(!folder.path().join("blobs").exists());
    }

    #[test]
    fn a_layout_is_a_folder_and_perhaps_a_tag() {
        for (text, folder, tag) in [
            ("oci-layout:out", "out", None),
            ("oci-layout:out:1.0", "out", Some("1.0")),
            ("oci-layout:/a:b/out", "/a:b/out", None),
            ("oci-layout:/a:b/out:1.0", "/a:b/out", Some("1.0")),
        ] {
            let layout: Layout = text.parse().unwrap();
            assert_eq!((layout.folder(), layout.tag()), (Path::new(folder), tag), "{text}");
            assert_eq!(layout.to_string(), text);
        }
        for odd in ["out", "oci-layout:", "oci-layout::1.0"] {
            assert!(odd.parse::<Layout>().is_err(), "{odd}");
        }
        assert_eq!("oci-layout:out".parse::<Layout>().unwrap().named("3").tag(), Some("3"));
        assert_eq!("oci-layout:out:1".parse::<Layout>().unwrap().named("3").tag(), Some("1"));
    }
}
