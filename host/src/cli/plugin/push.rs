//! `topoloom plugin push`: a plugin file into a ConfigMap, from where hosts take it within a second; into a registry; or into a
//! folder that other programs copy into one.
//!
//! Into a ConfigMap by server-side apply, so that the annotation of client-side apply never bites, which would end at 256 KiB.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use clap::Args;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use topoloom_core::plugin::Description;
use topoloom_workshop::pack;

use super::file::{FoundSignature, PluginFile};
use super::place::RegistryArgs;
use super::sandbox::{ProfileArg, Sandbox};
use crate::cli::source::OPERATOR;
use crate::cli::{ClusterArgs, print};
use crate::cluster::Refusal;
use crate::config::registry::{Reference, SCHEME};
use crate::delivery::oci::Layout;
use crate::delivery::oci::layout::PREFIX;
use crate::delivery::oci::manifest::{Blobs, MANIFEST, Pushed};
use crate::delivery::parcel::{SIGNATURE, beside};
use crate::plugin::{Digest, anatomy, trust};

/// Flags of `plugin push`.
#[derive(Debug, Args)]
pub(in crate::cli) struct PushArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The plugin: a component, packed with zstd or not; a signature beside it (.sig) is pushed too
    file: PathBuf,
    /// Where to: oci://REGISTRY/NAME:TAG, or oci-layout:DIR for a folder that other programs copy into a registry
    #[arg(value_name = "oci://REGISTRY/NAME:TAG", required_unless_present = "configmap", conflicts_with = "configmap")]
    target: Option<PushTarget>,
    /// Where to: a ConfigMap; without a namespace it is that of the configuration
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    configmap: Option<String>,
    /// The key of the module in the ConfigMap
    #[arg(long, default_value = "plugin.wasm")]
    key: String,
    /// Which limits apply when the plugin is tested before it is pushed
    #[arg(long, value_enum, default_value_t = ProfileArg::Standard)]
    profile: ProfileArg,
    /// Do everything except the write
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    registry: RegistryArgs,
}

/// Where an artifact goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PushTarget {
    Registry(Reference),
    Layout(Layout),
}

impl FromStr for PushTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with(PREFIX) {
            return text.parse().map(Self::Layout);
        }
        if !text.starts_with(SCHEME) {
            return Err("must be oci://REGISTRY/NAME:TAG or oci-layout:DIR".to_owned());
        }
        let reference: Reference = text.parse()?;
        match (reference.tag(), reference.digest()) {
            (Some(_), None) => Ok(Self::Registry(reference)),
            _ => Err("a push needs a tag and takes no digest: what is pushed decides it".to_owned()),
        }
    }
}

/// A plugin that a host would accept.
struct Tested {
    file: PluginFile,
    digest: Digest,
    described: Description,
    signature: Option<Vec<u8>>,
}

impl Tested {
    /// `NAME VERSION` and what was done with it.
    fn headline(&self, args: &PushArgs, done: &str, target: &str) -> String {
        let would = if args.dry_run { "would be " } else { "" };
        let signed = if self.signature.is_some() { ", with its signature" } else { "" };
        let Description { name, version, .. } = &self.described;
        format!("{name} {version} {would}{done} {target}{signed}\ndigest {}\n", self.digest)
    }

    /// What a registry stores.
    fn blobs(&self, args: &PushArgs) -> anyhow::Result<Blobs> {
        let found = anatomy(&self.file.bytes, &args.profile.limits().scan);
        let signature = self.signature.as_deref().map(std::str::from_utf8).transpose().context("the signature")?;
        let pushed = Pushed {
            module: &self.file.bytes,
            name: &self.described.name,
            version: &self.described.version,
            imports: &found.imports,
            exports: &found.exports,
            signature,
        };
        Ok(pushed.blobs())
    }
}

pub(super) async fn run(args: PushArgs) -> anyhow::Result<ExitCode> {
    let file = PluginFile::read(&args.file)?;
    let digest = Digest::of(&file.bytes);
    // What no host would take is not pushed either; and the name has to come from the plugin.
    let described = Sandbox::start("push")?.describe(&file.bytes, args.profile.limits()).await;
    let described =
        described.with_context(|| format!("{} is not a plugin that a host would accept", args.file.display()))?;
    let signature = file.signature()?.map(|found| {
        check(&found, digest, &described.name, &described.version)?;
        anyhow::Ok(found.bytes)
    });
    let tested = Tested { file, digest, described, signature: signature.transpose()? };
    let said = match (&args.target, &args.configmap) {
        (Some(PushTarget::Registry(reference)), _) => to_registry(&args, &tested, reference).await?,
        (Some(PushTarget::Layout(layout)), _) => to_layout(&args, &tested, layout.clone())?,
        (None, Some(map)) => to_config_map(&args, &tested, map).await?,
        (None, None) => bail!("say where to: oci://REGISTRY/NAME:TAG, oci-layout:DIR, or --configmap [NAMESPACE/]NAME"),
    };
    print::out(&said);
    Ok(ExitCode::SUCCESS)
}

/// Whether a signature is about this plugin: with that of another one, every host that asks for signatures refuses it.
fn check(found: &FoundSignature, digest: Digest, name: &str, version: &str) -> anyhow::Result<()> {
    const AGAIN: &str = "sign it again with `topoloom plugin sign`, or remove that file";
    let FoundSignature { place, bytes } = found;
    ensure!(bytes.len() <= SIGNATURE, "{place} has more than {SIGNATURE} bytes");
    let claim = trust::claim(bytes).with_context(|| format!("{place} is no signature of a plugin; {AGAIN}"))?;
    ensure!(
        Digest::parse(&claim.digest) == Some(digest),
        "{place} signs the digest {}, and the plugin to push has {digest}; {AGAIN}",
        claim.digest
    );
    ensure!(
        (claim.name.as_str(), claim.version.as_str()) == (name, version),
        "{place} signs {:?} {:?}, and the plugin calls itself {name:?} {version:?}; {AGAIN}",
        claim.name,
        claim.version
    );
    Ok(())
}

async fn to_registry(args: &PushArgs, tested: &Tested, reference: &Reference) -> anyhow::Result<String> {
    let blobs = tested.blobs(args)?;
    let manifest = match args.dry_run {
        true => Digest::of(&blobs.manifest),
        false => {
            let client = args.registry.client(reference)?;
            client.push(reference.tag().unwrap_or_default(), &blobs).await?
        }
    };
    let pinned = Reference::parse(&format!("{SCHEME}{}/{}@{manifest}", reference.registry(), reference.name()));
    let pinned = pinned.map_err(anyhow::Error::msg)?;
    Ok(format!(
        "{}manifest {manifest}\n\
         an entry takes it, and follows the tag, with\n  plugin: {{oci: {{ref: \"{reference}\"}}}}\n\
         and for good with\n  plugin: {{oci: {{ref: \"{pinned}\"}}}}\n\
         watch it take over: topoloom plugin list\n",
        tested.headline(args, "pushed to", &reference.to_string())
    ))
}

fn to_layout(args: &PushArgs, tested: &Tested, layout: Layout) -> anyhow::Result<String> {
    let version = &tested.described.version;
    let layout = match Reference::parse(&format!("{SCHEME}r/n:{version}")) {
        Ok(_) => layout.named(version),
        Err(_) if layout.tag().is_some() => layout,
        Err(_) => bail!("the version {version:?} is no tag: say one with oci-layout:DIR:TAG"),
    };
    let blobs = tested.blobs(args)?;
    let manifest = match args.dry_run {
        true => Digest::of(&blobs.manifest),
        false => layout.write(&blobs, MANIFEST).map_err(anyhow::Error::msg)?,
    };
    let (folder, tag) = (layout.folder().display(), layout.tag().unwrap_or_default());
    Ok(format!(
        "{}manifest {manifest}\n\
         copy it into a registry with\n  oras cp --from-oci-layout {folder}:{tag} REGISTRY/NAME:{tag}\n",
        tested.headline(args, "written to", &layout.to_string())
    ))
}

async fn to_config_map(args: &PushArgs, tested: &Tested, map: &str) -> anyhow::Result<String> {
    let (namespace, name) = match map.split_once('/') {
        Some((namespace, name)) => (namespace.to_owned(), name.to_owned()),
        None => (args.cluster.found().await?.location().namespace, map.to_owned()),
    };
    // As well as it can be, where the quick packing leaves it a little too large.
    let packed = pack::for_config_map(&tested.file.bytes);
    let packed = packed.with_context(|| format!("{} is too large for a ConfigMap", args.file.display()))?;
    let (declaration, signature_key) = beside(&args.key);
    let declared = format!("name: {}\ndigest: {}\n", tested.described.name, tested.digest);
    let binary = [(args.key.clone(), Some(packed)), (signature_key, tested.signature.clone())]
        .into_iter()
        .filter_map(|(key, bytes)| Some((key, json!(ByteString(bytes?)))));
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {declaration: declared},
        "binaryData": binary.collect::<serde_json::Map<_, _>>(),
    });
    let api: Api<ConfigMap> = Api::namespaced(args.cluster.connect().await?, &namespace);
    // A manager of its own for each key: an apply takes away what the same manager does not name any more.
    let manager = format!("{OPERATOR}-{}", args.key);
    let parameters = PatchParams { dry_run: args.dry_run, ..PatchParams::apply(&manager).force() };
    api.patch(&name, &parameters, &Patch::Apply(&body))
        .await
        .map_err(|error| Refusal::of(&error))
        .with_context(|| format!("writing the ConfigMap {namespace}/{name}"))?;
    Ok(format!(
        "{}an entry takes it with\n  plugin: {{configMap: {{namespace: {namespace}, name: {name}, key: {}}}}}\n\
         watch it take over: topoloom plugin list\n",
        tested.headline(args, "pushed to", &format!("{namespace}/{name}[{}]", args.key)),
        args.key
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_of_another_plugin_is_not_pushed() {
        let digest = Digest::of(b"this one");
        let judge = |text: String| {
            let found = FoundSignature { place: "acme.sig".to_owned(), bytes: text.into_bytes() };
            check(&found, digest, "acme", "1.0.0").map_err(|error| format!("{error:#}"))
        };
        let signs = |name: &str, version: &str, digest: Digest| {
            format!("name: {name}\nversion: {version}\ndigest: {digest}\nkey: k\nsignature: s\n")
        };
        assert_eq!(judge(signs("acme", "1.0.0", digest)), Ok(()));
        let other = Digest::of(b"the one before");
        for (text, words) in [
            (signs("acme", "1.0.0", other), format!("acme.sig signs the digest {other}, and the plugin to push has")),
            (signs("acme", "0.9.0", digest), "signs \"acme\" \"0.9.0\"".to_owned()),
            (signs("racks", "1.0.0", digest), "signs \"racks\" \"1.0.0\"".to_owned()),
            ("name: acme".to_owned(), "acme.sig is no signature of a plugin".to_owned()),
            ("x".repeat(SIGNATURE + 1), "has more than".to_owned()),
        ] {
            let error = judge(text).unwrap_err();
            assert!(error.contains(&words), "{error}");
        }
    }

    #[test]
    fn a_push_goes_to_a_tag_or_into_a_folder() {
        let target = |text: &str| text.parse::<PushTarget>();
        assert!(matches!(target("oci://r.example/a:1"), Ok(PushTarget::Registry(_))));
        assert!(matches!(target("oci-layout:out"), Ok(PushTarget::Layout(_))));
        let pinned = format!("oci://r.example/a:1@{}", Digest::of(b"a"));
        for (text, words) in [
            (pinned.as_str(), "takes no digest"),
            ("out", "must be oci://"),
            ("oci://r.example/a", "there is no tag by default"),
        ] {
            let error = target(text).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
