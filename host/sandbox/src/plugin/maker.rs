//! Which tool made a component that imports WASI, and which of its flags leaves WASI out.
//!
//! For sentences alone: nothing else depends on what a file says about its maker.

use memchr::memmem;

/// What made a component, as far as another advice follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maker {
    /// Python.
    ComponentizePy,
    /// JavaScript with SpiderMonkey.
    ComponentizeJs,
    /// JavaScript with QuickJS.
    ComponentizeQjs,
    /// The compiler of Rust, for a target with WASI.
    Rust,
    /// Anything else.
    Other,
}

impl Maker {
    /// By its producers (field, name, version), or by the names of its parts where a tool does not mention itself.
    #[must_use]
    pub fn of(component: &[u8], producers: &[[String; 3]]) -> Self {
        let says = |word: &str| producers.iter().any(|[_, name, _]| name.to_ascii_lowercase().replace('-', "") == word);
        let has = |word: &str| memmem::find(component, word.as_bytes()).is_some();
        if says("componentizeqjs") || has("componentize-qjs") {
            Self::ComponentizeQjs
        } else if says("componentizejs") {
            Self::ComponentizeJs
        } else if says("componentizepy") || has("componentize_py") || has("componentize-py") {
            Self::ComponentizePy
        } else if says("rust") {
            Self::Rust
        } else {
            Self::Other
        }
    }

    /// What makes it without WASI.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::ComponentizePy => {
                "make it with the flag --stub-wasi of componentize-py, as `topoloom plugin build` does"
            }
            Self::ComponentizeJs => {
                "make it with disableFeatures: ['stdio', 'random', 'clocks', 'http', 'fetch-event'] of componentize-js, as \
                 `topoloom plugin build` does"
            }
            Self::ComponentizeQjs => "make it with stubWasi: true of componentize-qjs, as `topoloom plugin build` does",
            Self::Rust => "build it for the target wasm32-unknown-unknown, as `topoloom plugin build` does",
            Self::Other => {
                "give the core module that it was made of to `topoloom plugin build FILE`, which answers WASI preview 1 \
                 without WASI"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_known_by_its_producers_or_by_the_names_of_its_parts() {
        let producers = |name: &str| vec![["processed-by", name, "1.0"].map(str::to_owned)];
        for (name, maker) in [
            ("ComponentizeJS", Maker::ComponentizeJs),
            ("componentize-js", Maker::ComponentizeJs),
            ("componentize-qjs", Maker::ComponentizeQjs),
            ("componentize-py", Maker::ComponentizePy),
            ("Rust", Maker::Rust),
            ("wit-component", Maker::Other),
        ] {
            assert_eq!(Maker::of(b"", &producers(name)), maker, "{name}");
        }
        // What a tool is made of says more than the compiler of its parts.
        assert_eq!(Maker::of(b"\0asm libcomponentize_py_runtime.so", &producers("Rust")), Maker::ComponentizePy);
    }

    #[test]
    fn every_advice_names_what_to_type() {
        for (maker, words) in [
            (Maker::ComponentizePy, "--stub-wasi"),
            (Maker::ComponentizeJs, "'fetch-event'"),
            (Maker::ComponentizeQjs, "stubWasi: true"),
            (Maker::Rust, "wasm32-unknown-unknown"),
            (Maker::Other, "plugin build FILE"),
        ] {
            assert!(maker.advice().contains(words), "{maker:?}");
        }
    }
}
