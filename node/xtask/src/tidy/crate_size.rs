//! Checks that crates are small enough to be read: a crate with too many lines has more than one purpose.

use super::{Violation, tree::Tree};

/// Maximum number of lines of Rust below `src` of a crate, tests and generated code included.
const MAX_LINES: usize = 10_000;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_crates(tree, MAX_LINES)
}

fn check_crates(tree: &Tree, max: usize) -> Vec<Violation> {
    let manifests = tree.with_ending("Cargo.toml").map(|(path, _)| path);
    let sizes = manifests.map(|manifest| {
        let source = format!("{}src/", manifest.trim_end_matches("Cargo.toml"));
        let files = tree.with_ending(".rs").filter(|(path, _)| path.starts_with(&source));
        (manifest, files.map(|(_, text)| text.lines().count()).sum::<usize>())
    });
    sizes
        .filter(|(_, lines)| *lines > max)
        .map(|(manifest, lines)| Violation {
            path: manifest.to_owned(),
            line: 0,
            text: format!(
                "the crate has {lines} lines of Rust, and the maximum is {max}: move a part with a purpose of its \
                 own into a crate"
            ),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_with_more_lines_than_the_maximum_is_refused() {
        let tree = Tree::from([
            ("a/Cargo.toml", ""),
            ("a/src/lib.rs", "1\n2\n"),
            ("a/src/b/mod.rs", "3\n"),
            ("a/tests/c/main.rs", "4\n"),
            ("a/inner/Cargo.toml", ""),
            ("a/inner/src/lib.rs", "5\n6\n"),
        ]);
        assert_eq!(check_crates(&tree, 3), []);
        let found = check_crates(&tree, 2);
        assert!(found.len() == 1 && found[0].path == "a/Cargo.toml", "{found:?}");
        assert!(found[0].text.contains("3 lines"), "{}", found[0]);
        assert_eq!(check_crates(&tree, 1).len(), 2);
    }
}
