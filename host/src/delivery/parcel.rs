//! A module with what lies beside it: `NAME.wasm` (or `NAME.wasm.zst`), `NAME.yaml`, `NAME.sig`, be they files of one
//! folder or keys of one ConfigMap. For the usual key they are `plugin.wasm`, `plugin.yaml` and `plugin.sig`.

use std::sync::Arc;

use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::PluginOrigin as Origin;
use topoloom_core::plugin::Limit;

use super::unpack::{self, PACKED, UNPACKED, is_packed};
use super::{Module, Offer};
use crate::config::declaration;
use crate::plugin::Digest;

/// Bytes of the largest signature file.
pub const SIGNATURE: usize = 4 << 10;

/// What was found, still closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel {
    /// The module, packed or not.
    pub module: Vec<u8>,
    /// The text of its declaration.
    pub declaration: Option<Vec<u8>>,
    /// The text of its signature.
    pub signature: Option<Vec<u8>>,
}

/// The names of what lies beside a module of that name.
#[must_use]
pub fn beside(module: &str) -> (String, String) {
    let stem = module.strip_suffix(".zst").unwrap_or(module);
    let stem = stem.strip_suffix(".wasm").unwrap_or(stem);
    (format!("{stem}.yaml"), format!("{stem}.sig"))
}

impl Parcel {
    /// Unpacks the module and compares it with its declaration. `place` names it in sentences.
    #[must_use]
    pub fn open(self, place: &str, origin: Origin) -> Offer {
        match self.module(place, origin) {
            Ok(module) => Offer::Module(Arc::new(module)),
            Err(offer) => offer,
        }
    }

    fn module(self, place: &str, origin: Origin) -> Result<Module, Offer> {
        let invalid = |what: String| Offer::Nothing(Reason::PluginInvalid, format!("{place}: {what}"));
        let packed = is_packed(&self.module).then_some(self.module.len());
        let bytes = unpack::unpack(self.module, PACKED, UNPACKED).map_err(|error| match error {
            unpack::Error::Packed { .. } => Offer::Beyond(Limit::Packed, format!("{place}: {error}")),
            unpack::Error::Unpacked { .. } => Offer::Beyond(Limit::File, format!("{place}: {error}")),
            error => invalid(error.to_string()),
        })?;
        let digest = Digest::of(&bytes);
        let declared = match &self.declaration {
            None => None,
            Some(text) => {
                let read = std::str::from_utf8(text).map_err(|error| error.to_string()).and_then(declaration::parse);
                Some(read.map_err(|error| invalid(format!("its declaration (`.yaml`) cannot be read: {error}")))?)
            }
        };
        if let Some(declared) = declared.as_ref().filter(|declared| declared.digest != digest) {
            let what = match origin {
                // A manifest is written at once: nothing follows.
                Origin::Registry => "push it again: the annotation names other bytes than the layer has",
                _ => "if an update is half written, the host waits for the rest",
            };
            let message =
                format!("{place}: the module has digest {digest} and its declaration says {}; {what}", declared.digest);
            return Err(Offer::Nothing(Reason::DigestMismatch, message));
        }
        if self.signature.as_ref().is_some_and(|signature| signature.len() > SIGNATURE) {
            return Err(invalid(format!("its signature (`.sig`) has more than {SIGNATURE} bytes")));
        }
        let signature = self.signature.map(Into::into);
        Ok(Module { bytes: bytes.into(), digest, origin, packed, declared, signature, manifest: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::unpack::pack;

    fn open(module: &[u8], declaration: Option<&str>) -> Offer {
        let declaration = declaration.map(|text| text.as_bytes().to_vec());
        Parcel { module: module.to_vec(), declaration, signature: None }.open("cm/x", Origin::ConfigMap)
    }

    #[test]
    fn packed_or_not_the_identity_is_that_of_the_module() {
        let module = b"\0asm".repeat(100);
        let digest = Digest::of(&module);
        let declaration = format!("name: acme\ndigest: {digest}\n");
        for (delivered, packed) in [(module.clone(), false), (pack(&module), true)] {
            let Offer::Module(found) = open(&delivered, Some(&declaration)) else { panic!() };
            assert_eq!((found.digest, found.packed.is_some()), (digest, packed));
            assert_eq!(found.declared.as_ref().unwrap().name, "acme");
        }
    }

    #[test]
    fn half_of_an_update_waits() {
        let old = format!("name: acme\ndigest: {}\n", Digest::of(b"old"));
        let Offer::Nothing(reason, message) = open(b"new", Some(&old)) else { panic!() };
        assert_eq!(reason, Reason::DigestMismatch);
        assert!(message.contains("cm/x") && message.contains("half written"), "{message}");
        let parcel = Parcel { module: b"new".to_vec(), declaration: Some(old.into_bytes()), signature: None };
        let Offer::Nothing(reason, message) = parcel.open("oci://r/x:1", Origin::Registry) else { panic!() };
        assert_eq!(reason, Reason::DigestMismatch);
        assert!(message.contains("push it again") && !message.contains("waits"), "{message}");
        let Offer::Nothing(reason, message) = open(b"new", Some("name: [")) else { panic!() };
        assert_eq!(reason, Reason::PluginInvalid);
        assert!(message.contains("declaration"), "{message}");
    }

    #[test]
    fn what_lies_beside_has_the_same_stem() {
        assert_eq!(beside("plugin.wasm"), ("plugin.yaml".into(), "plugin.sig".into()));
        assert_eq!(beside("acme.wasm.zst"), ("acme.yaml".into(), "acme.sig".into()));
        assert_eq!(beside("odd"), ("odd.yaml".into(), "odd.sig".into()));
    }
}
