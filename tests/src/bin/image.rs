//! `make image`: builds the host as a static binary, makes an OCI image of it and starts that once.
//!
//! With `--verify` all of it is built a second time in another folder, and the digests must be the same.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command line tool")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use topoloom_tests::image::{
    About, Assembled, BUDGET, Bom, Checkout, Compiler, Emulator, Part, Platform, Toolchain, User, assemble, compile,
    inspect, start, twin,
};

const USAGE: &str = "usage: image [--verify] [--platform amd64|arm64]";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(wanted) = Wanted::read(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match image(&wanted).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("image: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The settings of the command line.
struct Wanted {
    builds: Builds,
    platforms: Vec<Platform>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Builds {
    One,
    Two,
}

impl Wanted {
    fn read(arguments: &[String]) -> Option<Self> {
        let mut wanted = Self { builds: Builds::One, platforms: Platform::ALL.to_vec() };
        let mut words = arguments.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match word {
                "--verify" => wanted.builds = Builds::Two,
                "--platform" => {
                    let name = words.next()?;
                    wanted.platforms.retain(|platform| platform.architecture() == name);
                }
                _ => return None,
            }
        }
        if wanted.platforms.is_empty() { None } else { Some(wanted) }
    }
}

async fn image(wanted: &Wanted) -> Result<()> {
    let checkout = Checkout::here()?;
    let about = about(&checkout.sources)?;
    let folder = checkout.target.join("image");
    let toolchain = Toolchain::find(&checkout.target.join("tools"));
    let BuildablePlatforms { platforms, mut unseen } = find(&toolchain, &wanted.platforms)?;

    let made = make(&checkout, &platforms, &about, &folder)?;
    let image = inspect(&folder.join("layout")).context("the layout is not sound")?;
    ensure!(image.assembled() == made, "the layout has {:?}, and not {made:?}", image.assembled());
    show(&folder, &made);
    for (platform, (_, size)) in &made.parts {
        ensure!(*size <= BUDGET, "the image for {platform} has {}, more than {}", mib(*size), mib(BUDGET));
    }

    match others_read(&folder.join("layout"), &about.version)? {
        Reader::Skopeo => println!("image: skopeo read all of it, and copied it elsewhere"),
        Reader::Missing => println!("image: no other tool has read the layout: skopeo is not installed"),
    }

    for (platform, _) in &platforms {
        let emulator = match Emulator::find(*platform) {
            Ok(emulator) => emulator,
            Err(why) => {
                println!("image: the one for {platform} was not started: {why}");
                unseen.push(*platform);
                continue;
            }
        };
        let started = start(&image, *platform, &emulator).await.with_context(|| format!("{platform} does not run"))?;
        let how = match &emulator {
            Emulator::None => ", where a plugin that crashes is reported as a trap".to_owned(),
            Emulator::Qemu(qemu) => format!(", under {}", qemu.display()),
        };
        println!("image: {platform}: {} became ready in an empty root and wrote a topology{how}", started.version);
        if started.user == User::NotSeen {
            println!("image: {platform}: which user it ran as was not checked: that takes root");
        }
    }

    if wanted.builds == Builds::Two {
        println!("image: building all of it a second time, in another folder");
        let place = folder.join("twin");
        let other = twin(&checkout, &place)?;
        let again = make(&other, &platforms, &about, &place)?;
        if again != made {
            bail!("two builds differ: {made:#?} here, {again:#?} in {}, which is left there", place.display());
        }
        std::fs::remove_dir_all(&place).with_context(|| format!("{} cannot be removed", place.display()))?;
        println!("image: the second build has the same digests");
        ensure!(unseen.is_empty(), "not all of it was verified: see above what is missing for {}", names(&unseen));
    }
    Ok(())
}

/// Which other tool has read the layout.
enum Reader {
    Skopeo,
    Missing,
}

/// Lets another tool read every image of the layout, which compares all digests, and write it as it would into a
/// registry.
fn others_read(layout: &Path, version: &str) -> Result<Reader> {
    let copy = tempfile::tempdir()?;
    let from = format!("oci:{}:{version}", layout.display());
    let to = format!("dir:{}", copy.path().display());
    let output = match Command::new("skopeo").args(["copy", "--all", "--quiet", &from, &to]).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Reader::Missing),
        Err(error) => return Err(error).context("skopeo does not start"),
    };
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "skopeo does not read {from}: {}", said.trim());
    Ok(Reader::Skopeo)
}

fn names(platforms: &[Platform]) -> String {
    platforms.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The platforms that can be built here, and those that cannot.
struct BuildablePlatforms {
    platforms: Vec<(Platform, Compiler)>,
    unseen: Vec<Platform>,
}

/// The wanted platforms that can be built here. If another platform cannot be built there is still an image, so the
/// program only prints that.
fn find(toolchain: &Toolchain, wanted: &[Platform]) -> Result<BuildablePlatforms> {
    let (mut platforms, mut unseen) = (Vec::new(), Vec::new());
    for platform in wanted {
        match toolchain.compiler(*platform) {
            Ok(compiler) => platforms.push((*platform, compiler)),
            Err(error) if Platform::here() == Some(*platform) || wanted.len() == 1 => return Err(error),
            Err(error) => {
                println!("image: {platform} is left out: {error:#}");
                unseen.push(*platform);
            }
        }
    }
    ensure!(!platforms.is_empty(), "none of the images can be built here");
    Ok(BuildablePlatforms { platforms, unseen })
}

/// Builds everything and writes the layout and the bills of materials into `folder`.
fn make(checkout: &Checkout, platforms: &[(Platform, Compiler)], about: &About, folder: &Path) -> Result<Assembled> {
    let mut parts: Vec<(Platform, Vec<u8>, Vec<u8>)> = Vec::new();
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    for (platform, compiler) in platforms {
        println!("image: building for {platform} with {compiler} (many minutes the first time)");
        let binary = compile(checkout, *platform, compiler)?;
        let binary = std::fs::read(&binary).with_context(|| format!("{} cannot be read", binary.display()))?;
        let bom = Bom::of(&checkout.sources, &platform.target())?.document(&about.created)?;
        let beside = bill(folder, *platform);
        std::fs::write(&beside, &bom).with_context(|| format!("{} cannot be written", beside.display()))?;
        parts.push((*platform, binary, bom));
    }
    let parts: Vec<Part<'_>> =
        parts.iter().map(|(platform, binary, bom)| Part { platform: *platform, binary, bom }).collect();
    assemble(&folder.join("layout"), about, &parts)
}

fn bill(folder: &Path, platform: Platform) -> PathBuf {
    folder.join(format!("sbom-{platform}.cdx.json"))
}

fn show(folder: &Path, made: &Assembled) {
    println!("image: {} is an OCI layout", folder.join("layout").display());
    println!("image: {}", made.digest);
    for (platform, (digest, size)) in &made.parts {
        println!("image: {platform:<5} {digest} {} compressed, {}", mib(*size), bill(folder, *platform).display());
    }
}

fn mib(bytes: u64) -> String {
    let tenths = bytes * 10 / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// The time of the sources is that of `SOURCE_DATE_EPOCH`, or that of the commit, or 1970.
fn about(sources: &Path) -> Result<About> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(sources).output().ok()?;
        let said = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some(said)
    };
    let seconds: i64 = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => {
            text.parse().with_context(|| format!("SOURCE_DATE_EPOCH is {text:?}, and not a number of seconds"))?
        }
        Err(_) => git(&["log", "-1", "--format=%ct"]).and_then(|text| text.parse().ok()).unwrap_or(0),
    };
    let clean = git(&["status", "--porcelain"]).is_some_and(|changes| changes.is_empty());
    Ok(About {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        created: jiff::Timestamp::from_second(seconds).context("SOURCE_DATE_EPOCH")?.to_string(),
        revision: if clean { git(&["rev-parse", "HEAD"]) } else { None },
    })
}
