//! What a file of the cache looks like, and the proof that it is what it says.
//!
//! ```text
//! seal 32 │ mark of the format 8 │ mark of the key 8 │ length of the image 8 │ identity │ image
//!         └────────────────────── all of this is under the seal ─────────────────────┘
//! ```
//!
//! The reader knows what the head has to be and compares it; it believes nothing that it reads. The seal decides, and
//! what is looked at before only finds better words for a refusal.

use ring::hmac;

use super::super::Digest;
use super::super::engine::Optimise;
use super::key::CacheKey;
use super::trouble::Trouble;

/// The format. A new one is a new mark, so that files of the old one are refused as what they are.
const MARK: [u8; 8] = *b"tplimg01";

const SEAL: usize = 32;
const NUMBERS: usize = 24;
/// A digest as text, and one byte for how it was compiled.
const MODULE: usize = 71 + 1;
const ENGINE: usize = 32;
const BUILD: usize = 32;

/// Everything before the image.
pub(super) const HEAD: usize = SEAL + NUMBERS + MODULE + ENGINE + BUILD;

/// Which image this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ImageIdentity {
    pub(super) module: Digest,
    pub(super) optimise: Optimise,
    pub(super) engine: [u8; 32],
    pub(super) build: [u8; 32],
}

/// An image whose seal is whole. Only [`CacheKey::verify`] makes one.
pub(in super::super) struct Verified<'a>(&'a [u8]);

impl Verified<'_> {
    pub(in super::super) fn image(&self) -> &[u8] {
        self.0
    }
}

impl ImageIdentity {
    /// The name of its file: everything that it is, so that what does not fit is not even opened. The full hashes are
    /// in the file.
    pub(super) fn file_name(&self) -> String {
        let module = self.module.to_string().replace(':', "-");
        let short = |hash: &[u8]| hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("{module}.{}.{}.{}{SUFFIX}", self.optimise.word(), short(&self.engine), short(&self.build))
    }

    fn module(&self) -> Vec<u8> {
        let mut module = self.module.to_string().into_bytes();
        module.push(match self.optimise {
            Optimise::No => 0,
            Optimise::Yes => 1,
            Optimise::Baseline => 2,
        });
        module
    }
}

/// How names of images end.
pub(super) const SUFFIX: &str = ".image";

impl CacheKey {
    /// The bytes before the image in its file.
    pub(super) fn seal(&self, identity: &ImageIdentity, image: &[u8]) -> Vec<u8> {
        let mut head = Vec::with_capacity(HEAD);
        head.extend(MARK);
        head.extend(self.mark);
        head.extend((image.len() as u64).to_le_bytes());
        head.extend(identity.module());
        head.extend(identity.engine);
        head.extend(identity.build);
        let mut mac = hmac::Context::with_key(&self.mac);
        mac.update(&head);
        mac.update(image);
        let mut file = mac.sign().as_ref().to_vec();
        file.append(&mut head);
        file
    }

    /// The image in a file.
    ///
    /// # Errors
    ///
    /// The first thing about it that is not as it should be.
    pub(super) fn verify<'a>(&self, identity: &ImageIdentity, file: &'a [u8]) -> Result<Verified<'a>, Trouble> {
        let short = || Trouble::Length { found: file.len() as u64, expected: HEAD as u64 };
        let (seal, sealed) = file.split_at_checked(SEAL).ok_or_else(short)?;
        let (numbers, rest) = sealed.split_at_checked(NUMBERS).ok_or_else(short)?;
        let (module, rest) = rest.split_at_checked(MODULE).ok_or_else(short)?;
        let (engine, rest) = rest.split_at_checked(ENGINE).ok_or_else(short)?;
        let (build, image) = rest.split_at_checked(BUILD).ok_or_else(short)?;
        let (mark, rest) = numbers.split_at_checked(MARK.len()).ok_or_else(short)?;
        let (key, length) = rest.split_at_checked(self.mark.len()).ok_or_else(short)?;
        if mark != MARK {
            return Err(Trouble::NoImage);
        }
        if key != self.mark {
            return Err(Trouble::OtherKey);
        }
        let found = image.len() as u64;
        if length != found.to_le_bytes() {
            let expected = length.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            return Err(Trouble::Length { found, expected });
        }
        if module != identity.module() {
            return Err(Trouble::Other("plugin"));
        }
        if engine != identity.engine {
            return Err(Trouble::Other("engine"));
        }
        if build != identity.build {
            return Err(Trouble::Other("build of this program"));
        }
        hmac::verify(&self.mac, sealed, seal).map_err(|_| Trouble::Seal)?;
        Ok(Verified(image))
    }
}
