//! Wraps a built module into a component and prints its size and everything it imports.
//!
//! `cargo run -p topoloom-plugin-label --example component -- target/wasm32-unknown-unknown/guest/NAME.wasm [OUT]`

#![expect(clippy::print_stdout, reason = "prints what it finds")]

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let module = std::fs::read(arguments.next().ok_or("the path of a .wasm module is missing")?)?;
    let component = wit_component::ComponentEncoder::default().validate(true).module(&module)?.encode()?;
    println!("module {} bytes, component {} bytes", module.len(), component.len());
    for payload in wasmparser::Parser::new(0).parse_all(&module) {
        match payload? {
            wasmparser::Payload::ImportSection(imports) => {
                for import in imports.into_imports() {
                    let import = import?;
                    println!("import {} {}", import.module, import.name);
                }
            }
            wasmparser::Payload::CodeSectionStart { size, count, .. } => {
                println!("code {size} bytes, {count} functions")
            }
            wasmparser::Payload::DataSection(data) => println!("data {} bytes", data.range().len()),
            wasmparser::Payload::CustomSection(custom) => {
                println!("custom {} {} bytes", custom.name(), custom.data().len())
            }
            _ => {}
        }
    }
    // Components inside this one have imports too; only the outermost ones ask the host for something.
    let mut depth = 0_u32;
    for payload in wasmparser::Parser::new(0).parse_all(&component) {
        match payload? {
            wasmparser::Payload::ModuleSection { .. } | wasmparser::Payload::ComponentSection { .. } => depth += 1,
            wasmparser::Payload::End(_) => depth = depth.saturating_sub(1),
            wasmparser::Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    println!("component import {}", import?.name.name);
                }
            }
            _ => {}
        }
    }
    if let Some(out) = arguments.next() {
        std::fs::write(out, component)?;
    }
    Ok(())
}
