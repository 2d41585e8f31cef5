//! Checks of the source that the compiler does not make. Each check is a function from a [`Tree`] to violations, so
//! that its tests can check a small tree with violations.

mod architecture;
mod crate_size;
mod cycles;
mod layers;
mod references;
mod source;
mod test_layout;
mod test_names;
mod tree;
mod unsafe_code;
mod wording;

use std::{fmt, io::Write, path::Path, process::ExitCode};
use tree::Tree;

/// A line or a file that violates a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Violation {
    /// Path of the file, relative to the root of the repository.
    path: String,
    /// Number of the line, from 1; 0 for the whole file.
    line: usize,
    /// What is wrong, and the remedy.
    text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

const CHECKS: [fn(&Tree) -> Vec<Violation>; 9] = [
    architecture::check,
    crate_size::check,
    layers::check,
    cycles::check,
    references::check,
    test_layout::check,
    test_names::check,
    unsafe_code::check,
    wording::check,
];

/// Prints the violations in a checkout. The exit code is that of a failure if there are any.
pub(crate) fn run(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = Tree::read(root)?;
    let violations: Vec<_> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    let mut out = std::io::stdout().lock();
    for violation in &violations {
        writeln!(out, "{violation}")?;
    }
    if violations.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(out, "tidy: {} violations", violations.len())?;
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let tree = Tree::read(&crate::workspace()).unwrap();
        let violations: Vec<_> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
        let text: String = violations.iter().map(|violation| format!("{violation}\n")).collect();
        assert!(violations.is_empty(), "\n{text}");
    }

    #[test]
    fn a_checkout_with_a_violation_fails() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::write(root.join("Cargo.toml"), "[workspace]\nmembers = []\n").unwrap();
        assert_eq!(run(root).unwrap(), ExitCode::SUCCESS);
        std::fs::write(root.join("README.md"), "See [this](docs/missing.md).\n").unwrap();
        assert_eq!(run(root).unwrap(), ExitCode::FAILURE);
    }
}
