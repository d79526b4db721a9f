//! A plugin as a program carries it in itself.

/// What the build leaves behind of one plugin.
#[derive(Debug, Clone, Copy)]
pub struct Embedded {
    /// The name that entries use.
    pub name: &'static str,
    /// The component file.
    pub component: &'static [u8],
    /// The same, compiled ahead for the target of the program; empty where the build could not.
    pub image: &'static [u8],
}
