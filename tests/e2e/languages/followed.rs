//! The pages for vendors, followed by a vendor: each of their commands, in its order, with what it must print.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use topoloom_tests::pages::{self, Run, blocks, commands, page};
use topoloom_tests::scene::NAMESPACE;
use topoloom_tests::vendor::Vendor;

/// The first line of `topoloom plugin test` for a component that a host would accept.
const PASSES: &str = "pass  file-loads";

/// A page, and what is not at its place here.
struct Reader<'a> {
    vendor: &'a mut Vendor,
    page: &'static str,
    /// Addresses on the page, and what is in their place here.
    instead: Vec<(&'static str, String)>,
}

impl Reader<'_> {
    /// Follows the whole page: of each block one word of it, and the words that it must print. Returns what each block printed.
    async fn follow(self, wanted: &[(&str, &[&str])]) -> Result<Vec<String>> {
        let blocks = commands(&page(self.page)?)?;
        let ours: Vec<_> = blocks.iter().filter(|block| !matches!(block.run, Run::ByHand(_))).collect();
        ensure!(ours.len() == wanted.len(), "{} has {} blocks, not {}", self.page, ours.len(), wanted.len());
        let mut all = Vec::new();
        for (block, (word, says)) in ours.into_iter().zip(wanted) {
            let place = format!("{}:{}", self.page, block.line);
            ensure!(block.text.contains(word), "{place}: no {word:?} in {}", block.text);
            let mut text = block.text.clone();
            for (address, instead) in &self.instead {
                text = text.replace(address, instead);
            }
            if block.run == Run::UntilStopped {
                let running = self.vendor.start(&text)?;
                for words in *says {
                    running.until_says(words).await;
                }
                running.interrupt().await.with_context(|| place.clone())?;
                all.push(String::new());
                continue;
            }
            let said = self.vendor.follow(&text).await.with_context(|| place.clone())?;
            for words in *says {
                ensure!(said.contains(words), "{place} does not print {words:?}: {said}");
            }
            all.push(said);
        }
        Ok(all)
    }
}

/// The three commands that `topoloom plugin new` prints are those of its page, in their order.
fn has_what_is_printed(path: &str, printed: &str) -> Result<()> {
    let steps = super::commands(printed);
    ensure!(steps.len() == 3, "three commands come next: {printed}");
    let blocks = commands(&page(path)?)?;
    let mut lines = blocks.iter().flat_map(|block| block.text.lines());
    // A page has a line for each command; some are one line of the program.
    for part in steps.iter().flat_map(|step| step.split_once(" && ").map_or(vec![step.as_str()], |(a, b)| vec![a, b])) {
        ensure!(lines.any(|line| line == part), "{path} has no {part:?} where it is printed: {printed}");
    }
    Ok(())
}

/// The page of the first plugin, in Rust. The vendor has a cluster.
pub(super) async fn the_first_plugin(vendor: &mut Vendor) -> Result<()> {
    let path = "docs/vendors/first-plugin.md";
    let tree = ["nodeLabels", "example.com/rack", "3 of 4 nodes have a place in 2 groups", "a7", "b1"];
    let pushed = format!("racks 0.1.0 pushed to {NAMESPACE}/racks-plugin[plugin.wasm], with its signature");
    let wanted: [(&str, &[&str]); 9] = [
        ("plugin new", &["src/lib.rs is the discoverer", "  topoloom plugin build"]),
        ("cargo test", &["test result: ok. 1 passed"]),
        ("plugin build", &["racks 0.1.0", "has room for it"]),
        ("plugin test", &[PASSES]),
        ("plugin run", &tree),
        ("--watch", &["have a place", "waiting for a file to be saved"]),
        ("plugin bench", &["100000", "median"]),
        ("plugin inspect", &["racks 0.1.0", "nodeLabels", "example.com/rack"]),
        ("plugin push", &[&pushed]),
    ];
    let said = Reader { vendor, page: path, instead: Vec::new() }.follow(&wanted).await?;
    has_what_is_printed(path, &said[0])?;
    super::is_on_the_page("rust", &said[2])?;
    // What the page says about files.
    for name in ["src/lib.rs", "tests/racks.rs", "cases/first", "topoloom-plugin.yaml", "vendor/topoloom-sdk"] {
        ensure!(vendor.at(name).exists(), "{name}");
    }
    ensure!(vendor.at(".github/workflows/plugin.yml").is_file());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_services_does_what_it_says() -> Result<()> {
    let (service, _served) = service().await?;
    let mut vendor = Vendor::new("page-http", &[]).await?;
    let instead = vec![("127.0.0.1:8080", service)];
    Reader { vendor: &mut vendor, page: "docs/vendors/http.md", instead }
        .follow(&[
            ("plugin new", &["src/lib.rs is the discoverer"]),
            ("cargo test", &["test result: ok. 1 passed", "listed 0.1.0", PASSES]),
            ("--record real", &["3 of 4 nodes have a place in 2 groups", "cases/real"]),
            ("--replay", &["3 of 4 nodes have a place in 2 groups", "2 cases: first, real"]),
        ])
        .await?;
    let recorded = vendor.read("cases/real/recording.json")?;
    ensure!(recorded.contains("/v1/nodes") && !recorded.contains("TOKEN"), "{recorded}");
    Ok(())
}

/// What `cases/first` of the template has a recording of, for a request with the token of the page; at this address.
async fn service() -> Result<(String, JoinSet<()>)> {
    let list =
        r#"{"nodes": [{"name": "m1", "rack": "a7"}, {"name": "m2", "rack": "a7"}, {"name": "m3", "rack": "b1"}]}"#;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let app =
        Router::new().route("/v1/nodes", get(move || async move { ([(CONTENT_TYPE, "application/json")], list) }));
    let mut served = JoinSet::new();
    served.spawn(async move {
        let _ = axum::serve(listener, app).await;
    });
    Ok((address, served))
}

/// The page of Python.
pub(super) async fn python(vendor: &mut Vendor, registry: &str) -> Result<()> {
    of_a_runtime(vendor, registry, "python", "docs/vendors/python.md", "Ran 1 test").await
}

/// The page of JavaScript.
pub(super) async fn javascript(vendor: &mut Vendor, registry: &str) -> Result<()> {
    of_a_runtime(vendor, registry, "javascript", "docs/vendors/javascript.md", "pass 1").await
}

/// A language that comes with its runtime, so that its plugins are pushed into a registry. `native` is what its native tests print.
async fn of_a_runtime(
    vendor: &mut Vendor,
    registry: &str,
    language: &str,
    path: &'static str,
    native: &str,
) -> Result<()> {
    let instead = vec![("registry.example.com", registry.to_owned())];
    let all = [native, "racks 0.1.0", PASSES, "3 of 4 nodes have a place in 2 groups", "median"];
    let pushed = format!("racks 0.1.0 pushed to oci://{registry}/acme/racks:0.1.0");
    let wanted: [(&str, &[&str]); 3] =
        [("plugin new", &["is the discoverer"]), ("plugin test", &all), ("plugin push", &[&pushed])];
    let said = Reader { vendor, page: path, instead }.follow(&wanted).await?;
    has_what_is_printed(path, &said[0])?;
    super::is_on_the_page(language, &said[1])?;
    ensure!(!said[1].contains("has room for it"), "{}", said[1]);
    // The line for the operator is that of the project, or what the build found instead of it.
    let [line]: [String; 1] = blocks(&page(path)?, "yaml").try_into().ok().context("one block of YAML")?;
    let project = vendor.read("topoloom-plugin.yaml")?;
    ensure!(line.contains("profile: large") && project.contains("limits: {profile: large, compileCpu: "), "{project}");
    Ok(())
}

/// A page without a test would say what it likes.
#[test]
fn every_page_for_vendors_with_commands_is_followed_by_a_test() -> Result<()> {
    let root = pages::root()?;
    let tests = ["tests/component", "tests/e2e"].map(|folder| texts(&root.join(folder))).concat();
    for entry in std::fs::read_dir(root.join("docs/vendors"))? {
        let name = format!("docs/vendors/{}", entry?.file_name().to_string_lossy());
        let has_commands = commands(&page(&name)?)?.iter().any(|block| !matches!(block.run, Run::ByHand(_)));
        ensure!(!has_commands || tests.contains(&format!("\"{name}\"")), "no test follows {name}");
    }
    Ok(())
}

/// All Rust in a folder and those in it.
fn texts(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let read = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => texts(&path),
        Some(kind) if kind == "rs" => std::fs::read_to_string(&path).unwrap_or_default(),
        _ => String::new(),
    };
    entries.map(read).collect()
}
