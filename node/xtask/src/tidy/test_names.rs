//! Checks that the tests named in commands of documents exist: a command with an unknown name runs no test and
//! succeeds.

use super::{Violation, tree::Tree};
use std::collections::BTreeSet;

/// The part of a command before the names.
const COMMAND: &str = "--test suite ";
const FOLDER: &str = "node/evmd/tests/suite/";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let known = suite_names(tree);
    let mut violations = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (at, line) in text.lines().enumerate() {
            for name in names(line).filter(|name| !known.iter().any(|test| test.contains(name))) {
                violations.push(Violation {
                    path: path.to_owned(),
                    line: at + 1,
                    text: format!(
                        "no test of the suite has {name} in its name: correct the command"
                    ),
                });
            }
        }
    }
    violations
}

/// The names that follow the command in a line.
fn names(line: &str) -> impl Iterator<Item = &str> {
    line.split(COMMAND).skip(1).flat_map(|rest| {
        let command = rest.split(['`', '#']).next().unwrap_or_default();
        command.split(' ').filter(|word| !word.is_empty() && !word.starts_with('-'))
    })
}

/// The names of the suite's modules and functions.
fn suite_names(tree: &Tree) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tree.files()
        .filter(|(path, _)| path.starts_with(FOLDER) && path.ends_with(".rs"))
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| {
            let rest = line.split_once("fn ").or_else(|| line.split_once("mod "))?.1;
            rest.split(move |c| !is_part(c)).next()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_test_name_in_a_document_is_refused() {
        let violations = |line: &str| {
            let tree = Tree::from([
                ("node/evmd/tests/suite/main.rs", "mod blocks;\n"),
                ("node/evmd/tests/suite/blocks.rs", "async fn a_block_is_read() {\n"),
                ("docs/page.md", line),
            ]);
            check(&tree).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(violations("`cargo test -p evmd --test suite a_block` reads one.\n").is_empty());
        assert!(violations("cargo test --test suite -- blocks a_block -- --ignored\n").is_empty());
        assert!(violations("cargo test -p evmd --test suite   # all of them\n").is_empty());
        let found = violations("cargo test --test suite -- blocks headers\n");
        assert!(found.len() == 1 && found[0].contains("headers"), "{found:?}");
    }
}
