//! A layout read once more, by the rules of its specification and by ours, as another tool would read it.
//!
//! Nothing here knows how the layout was written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Cursor, Read};
use std::path::{Component, Path};

use anyhow::{Context, Result, bail, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use tar::{Archive, EntryType};

use super::assemble::{Assembled, CONFIG, INDEX, LAYER, MANIFEST, REFERENCE};
use super::layer::digest;
use super::platform::Platform;

/// What a layout has for one processor.
#[derive(Debug)]
pub(super) struct LayoutFacts {
    /// The digest of the manifest.
    digest: String,
    /// The compressed size of the layers.
    size: u64,
    /// The layers as tar, from the bottom up.
    layers: Vec<Vec<u8>>,
    /// `config` of the configuration: user, entry point, environment.
    pub(super) config: Value,
}

/// A layout that follows all rules.
#[derive(Debug)]
pub struct Inspected {
    digest: String,
    reference: String,
    found: BTreeMap<Platform, LayoutFacts>,
}

impl Inspected {
    /// Its content, in the form that `assemble` returns.
    #[must_use]
    pub fn assembled(&self) -> Assembled {
        let parts = self.found.iter().map(|(platform, found)| (*platform, (found.digest.clone(), found.size)));
        Assembled { digest: self.digest.clone(), parts: parts.collect() }
    }

    /// The name of the image in the layout.
    #[must_use]
    pub fn reference(&self) -> &str {
        &self.reference
    }

    /// `config` of the configuration for a processor: user, entry point, environment.
    #[must_use]
    pub fn config(&self, platform: Platform) -> Option<&Value> {
        self.found.get(&platform).map(|found| &found.config)
    }

    /// One file of the root folder.
    ///
    /// # Errors
    /// When there is none, or no image for that processor.
    pub fn file(&self, platform: Platform, path: &str) -> Result<Vec<u8>> {
        let mut last = None;
        for layer in self.layers(platform)? {
            for entry in Archive::new(Cursor::new(layer)).entries()? {
                let mut entry = entry?;
                if entry.path()? == Path::new(path.trim_start_matches('/')) {
                    let mut bytes = Vec::new();
                    entry.read_to_end(&mut bytes)?;
                    last = Some(bytes);
                }
            }
        }
        last.with_context(|| format!("the image has no {path}"))
    }

    /// Unpacks the root folder, with modes, into an empty folder. Owners are those of the caller.
    ///
    /// # Errors
    /// When there is no image for that processor, or it cannot be written.
    pub fn unpack(&self, platform: Platform, folder: &Path) -> Result<()> {
        for layer in self.layers(platform)? {
            let mut archive = Archive::new(Cursor::new(layer));
            archive.set_preserve_permissions(true);
            archive.unpack(folder).with_context(|| format!("a layer cannot be unpacked into {}", folder.display()))?;
        }
        Ok(())
    }

    fn layers(&self, platform: Platform) -> Result<&[Vec<u8>]> {
        let found = self.found.get(&platform).with_context(|| format!("the layout has no image for {platform}"))?;
        Ok(&found.layers)
    }
}

/// Reads the layout in `folder`.
///
/// # Errors
/// With the first rule that it breaks.
pub fn inspect(folder: &Path) -> Result<Inspected> {
    let mark = json(&read(&folder.join("oci-layout"))?)?;
    ensure!(mark["imageLayoutVersion"] == "1.0.0", "oci-layout says {mark}");
    let entry = json(&read(&folder.join("index.json"))?)?;
    let mut blobs = Blobs { folder, seen: BTreeSet::new() };
    let [image] = list(&entry, "manifests", INDEX)? else { bail!("index.json names more or less than one image") };
    let reference = text(&image["annotations"], REFERENCE)?.to_owned();
    let index = json(&blobs.follow(image, INDEX)?)?;
    let mut found = BTreeMap::new();
    for descriptor in list(&index, "manifests", INDEX)? {
        let named = &descriptor["platform"];
        ensure!(named["os"] == "linux", "an image is for {named}");
        let platform = Platform::ALL.into_iter().find(|platform| named["architecture"] == platform.architecture());
        let platform = platform.with_context(|| format!("an image is for {named}"))?;
        let image = blobs.image(descriptor, platform).with_context(|| format!("the image for {platform}"))?;
        ensure!(found.insert(platform, image).is_none(), "there are two images for {platform}");
    }
    ensure!(!found.is_empty(), "there is no image");
    blobs.nothing_else()?;
    Ok(Inspected { digest: text(image, "digest")?.to_owned(), reference, found })
}

struct Blobs<'a> {
    folder: &'a Path,
    /// File names.
    seen: BTreeSet<String>,
}

impl Blobs<'_> {
    /// The bytes that a descriptor names, if size and digest are right.
    fn follow(&mut self, descriptor: &Value, kind: &str) -> Result<Vec<u8>> {
        ensure!(descriptor["mediaType"] == kind, "this is no {kind}: {descriptor}");
        let named = text(descriptor, "digest")?;
        let hex = named.strip_prefix("sha256:").filter(|hex| {
            hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        });
        let hex = hex.with_context(|| format!("{named:?} is no digest"))?;
        let bytes = read(&self.folder.join("blobs/sha256").join(hex))?;
        ensure!(descriptor["size"] == bytes.len(), "{named} has {} bytes, and not {}", bytes.len(), descriptor["size"]);
        ensure!(digest(&bytes) == named, "{named} has another content");
        self.seen.insert(hex.to_owned());
        Ok(bytes)
    }

    fn image(&mut self, descriptor: &Value, platform: Platform) -> Result<LayoutFacts> {
        let manifest = json(&self.follow(descriptor, MANIFEST)?)?;
        let config = json(&self.follow(&manifest["config"], CONFIG)?)?;
        ensure!(config["os"] == "linux" && config["architecture"] == platform.architecture(), "it says {config}");
        ensure!(config["rootfs"]["type"] == "layers", "rootfs is {}", config["rootfs"]);
        let unpacked = config["rootfs"]["diff_ids"].as_array().context("there are no diff_ids")?;
        let descriptors = list(&manifest, "layers", MANIFEST)?;
        ensure!(unpacked.len() == descriptors.len(), "{} diff_ids, {} layers", unpacked.len(), descriptors.len());
        let filled = config["history"].as_array().map(|lines| lines.iter().filter(|line| line["empty_layer"] != true));
        ensure!(filled.is_none_or(|lines| lines.count() == unpacked.len()), "history does not fit the layers");
        let (mut layers, mut size) = (Vec::new(), 0);
        for (descriptor, unpacked) in descriptors.iter().zip(unpacked) {
            let blob = self.follow(descriptor, LAYER)?;
            size += blob.len() as u64;
            let mut tar = Vec::new();
            GzDecoder::new(&blob[..]).read_to_end(&mut tar).context("a layer is no gzip")?;
            ensure!(*unpacked == digest(&tar).as_str(), "a layer is not the one of {unpacked}");
            entries(&tar)?;
            layers.push(tar);
        }
        Ok(LayoutFacts {
            digest: text(descriptor, "digest")?.to_owned(),
            size,
            layers,
            config: config["config"].clone(),
        })
    }

    fn nothing_else(&self) -> Result<()> {
        for file in fs::read_dir(self.folder.join("blobs/sha256"))? {
            let name = file?.file_name().to_string_lossy().into_owned();
            ensure!(self.seen.contains(&name), "nothing names the blob {name}");
        }
        Ok(())
    }
}

/// Checks that a layer has only plain files and folders of root, in order, without a time.
fn entries(tar: &[u8]) -> Result<()> {
    let mut last = None;
    for entry in Archive::new(tar).entries()? {
        let entry = entry?;
        let (path, header) = (entry.path()?.into_owned(), entry.header());
        ensure!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?} leads elsewhere");
        ensure!(
            matches!(header.entry_type(), EntryType::Regular | EntryType::Directory),
            "{path:?} is no file and no folder"
        );
        ensure!(header.mode()? & 0o6000 == 0, "{path:?} has a setuid or setgid bit");
        ensure!(header.mode()? & 0o002 == 0 || header.mode()? == 0o1777, "anybody can change {path:?}");
        ensure!((header.uid()?, header.gid()?, header.mtime()?) == (0, 0, 0), "{path:?} has an owner or a time");
        ensure!(last.is_none_or(|last| last < path), "{path:?} is not in order");
        last = Some(path);
    }
    Ok(())
}

fn list<'a>(value: &'a Value, key: &str, kind: &str) -> Result<&'a [Value]> {
    ensure!(value["schemaVersion"] == 2 && value["mediaType"] == kind, "this is no {kind}: {value}");
    value[key].as_array().map(Vec::as_slice).with_context(|| format!("there are no {key}"))
}

fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("there is no {key} in {value}"))
}

fn json(bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).context("a document of the layout is no JSON")
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} cannot be read", path.display()))
}
