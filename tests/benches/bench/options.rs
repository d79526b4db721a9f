//! The options of the command line.

/// The parts to measure and how much of them.
#[derive(Debug, Default)]
pub(crate) struct Options {
    parts: Vec<String>,
    nodes: Option<Vec<u32>>,
    runs: Option<usize>,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>, parts: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        for argument in arguments {
            match argument.split_once('=') {
                // Cargo adds this argument itself.
                None if argument == "--bench" => {}
                None if parts.contains(&argument.as_str()) => options.parts.push(argument),
                Some(("--nodes", sizes)) => {
                    let sizes = sizes.split(',').map(|size| number(size, "--nodes")).collect::<Result<_, _>>()?;
                    options.nodes = Some(sizes);
                }
                Some(("--runs", runs)) => options.runs = Some(number(runs, "--runs")?),
                _ => {
                    let parts = parts.join(", ");
                    return Err(format!("{argument:?} is no part: one of {parts}, --nodes=1000,5000 or --runs=5"));
                }
            }
        }
        Ok(options)
    }

    pub(crate) fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }

    /// The cluster sizes of the command line, or else those of the part.
    pub(crate) fn nodes(&self, usual: &[u32]) -> Vec<u32> {
        self.nodes.clone().unwrap_or_else(|| usual.to_vec())
    }

    /// The number of runs of the command line, or else that of the part.
    pub(crate) fn runs(&self, usual: usize) -> usize {
        self.runs.unwrap_or(usual)
    }
}

fn number<T: std::str::FromStr + PartialOrd + Default>(text: &str, of: &str) -> Result<T, String> {
    let number = text.trim().parse().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| format!("{of} wants whole numbers above 0, not {text:?}"))
}
