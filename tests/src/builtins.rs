//! The plugins that the program embeds, for tests that run the sandbox in their own process.

use topoloom::plugin::builtin::{self, Builtin};

/// Registers them in this process, as the program does when it starts.
pub fn embed() {
    builtin::embed(&topoloom_builtins::ALL);
}

/// The plugin of this name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn find(name: &str) -> &'static Builtin {
    embed();
    builtin::find(name).unwrap_or_else(|| panic!("no plugin {name} is embedded"))
}
