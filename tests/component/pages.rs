//! The pages for vendors, as a reader copies them: each block of Rust is compiled as it stands there, natively and as a
//! component, and the component runs in the real binary.

use std::path::Path;
use std::process::Command;

use serde_json::json;
use topoloom_tests::guest;
use topoloom_tests::pages::{Crate, blocks, page};

use crate::guests::host;

const FIRST: &str = "docs/vendors/first-plugin.md";

/// The crate of a page, with the manifest that the first page shows: tested natively as the page says, then built.
fn built(name: &str, page_of_code: &str) -> Vec<u8> {
    let first = page(FIRST).unwrap();
    let [manifest] = blocks(&first, "toml").try_into().unwrap();
    let manifest = manifest.replace("name = \"racks\"", &format!("name = \"{name}\""));
    let code = blocks(&page(page_of_code).unwrap(), "rust").concat();
    let of_page = Crate::write(name, &manifest, &code).unwrap();
    let tested = of_page.cargo(&["test", "--lib"]).unwrap();
    assert!(tested.contains("test result: ok.") && !tested.contains(" 0 passed"), "{tested}");
    of_page.cargo(&["build", "--release", "--target", "wasm32-unknown-unknown"]).unwrap();
    guest::component(&of_page.module().unwrap()).unwrap()
}

/// Runs the commands of a page in a shell, with the binary on the path.
fn shell(folder: &Path, script: &str) -> String {
    let path = format!("{}:{}", host().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh").args(["-euc", script]).current_dir(folder).env("PATH", path).output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{script}: {}{}", said(&output.stdout), said(&output.stderr));
    said(&output.stdout)
}

#[test]
fn the_first_plugin_compiles_as_copied_and_does_what_its_page_says() {
    let component = built("racks", FIRST);
    let desk = tempfile::tempdir().unwrap();
    std::fs::write(desk.path().join("racks.component.wasm"), component).unwrap();
    let node = |name: &str| json!({"metadata": {"name": name, "labels": {"example.com/rack": "a7"}}});
    let nodes = json!({"kind": "List", "items": [node("m1"), node("m2")]});
    std::fs::write(desk.path().join("nodes.json"), nodes.to_string()).unwrap();
    let first = page(FIRST).unwrap();
    let commands = blocks(&first, "sh");
    let said = |wanted: &str| {
        let block = commands.iter().find(|block| block.contains(wanted)).unwrap();
        // There is no cluster for kubectl here: the file of nodes exists already.
        let lines: Vec<&str> = block.lines().filter(|line| !line.starts_with("kubectl ")).collect();
        shell(desk.path(), &lines.join("\n"))
    };
    said("cat > topology.yaml");
    let found = said("topoloom discover");
    assert!(found.contains("a7") && found.contains("m1"), "{found}");
    let inspected = said("topoloom plugin inspect");
    assert!(inspected.contains("racks 0.1.0"), "{inspected}");
}

#[test]
fn a_plugin_that_asks_a_service_compiles_as_copied() {
    let component = built("listed", "docs/vendors/http.md");
    let desk = tempfile::tempdir().unwrap();
    std::fs::write(desk.path().join("listed.component.wasm"), component).unwrap();
    let [entry] = blocks(&page("docs/vendors/http.md").unwrap(), "yaml").try_into().unwrap();
    std::fs::write(desk.path().join("topology.yaml"), entry).unwrap();
    let inspected = shell(desk.path(), "topoloom plugin inspect listed.component.wasm --config topology.yaml");
    assert!(inspected.contains("listed 0.1.0"), "{inspected}");
}
