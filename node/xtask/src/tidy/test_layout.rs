//! Checks that integration tests are `tests/NAME/main.rs`, so that a second file can be added without moving the test.

use super::{Violation, tree::Tree};

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let manifests = tree.with_ending("Cargo.toml").map(|(path, _)| path);
    let folders = manifests.map(|path| format!("{}tests/", path.trim_end_matches("Cargo.toml")));
    let files = folders.flat_map(|folder| {
        let files = tree.with_ending(".rs").map(|(path, _)| path);
        files
            .filter(move |path| path.strip_prefix(&folder).is_some_and(|name| !name.contains('/')))
            .collect::<Vec<_>>()
    });
    files
        .map(|path| Violation {
            path: path.to_owned(),
            line: 0,
            text: format!("move the test to {}/main.rs", path.trim_end_matches(".rs")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_directly_in_the_folder_is_refused() {
        let tree = Tree::from([
            ("a/Cargo.toml", ""),
            ("a/src/tests/unit.rs", ""),
            ("a/tests/one/main.rs", ""),
            ("a/tests/one/part.rs", ""),
            ("a/tests/two.rs", ""),
        ]);
        let found = check(&tree);
        assert!(found.len() == 1 && found[0].text.ends_with("a/tests/two/main.rs"), "{found:?}");
    }
}
