//! Checks that only the files listed here allow `unsafe` code. The compiler refuses `unsafe` code by default
//! (`unsafe_code = "deny"`), but an attribute can allow it in any file.

use super::{Violation, source::code, tree::Tree};

/// The files that may allow `unsafe` code: allocation, memory mappings, system calls, prefetching, LMDB and vector
/// instructions.
const LISTED: &[&str] = &[
    "node/platform/src/clock.rs",
    "node/platform/src/heap.rs",
    "node/platform/src/sigbus.rs",
    "node/platform/src/slice.rs",
    "node/platform/src/table.rs",
    "storage/src/env.rs",
    "storage/src/rows.rs",
    "storage/trie/src/prefetch.rs",
    "verify/src/engine/kernels.rs",
    "verify/src/keccak/avx2.rs",
    "verify/src/keccak/avx512.rs",
    "verify/src/lanes/fma.rs",
    "verify/src/lanes/ifma.rs",
    "verify/src/transpose.rs",
    "verify/tests/allocation/main.rs",
];

/// The attribute, in two parts so that this file does not contain it.
const ATTRIBUTE: &str = concat!("allow(unsafe", "_code)");

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_files(tree, LISTED)
}

fn check_files(tree: &Tree, listed: &[&str]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.with_ending(".rs") {
        let line = text.lines().position(|line| code(line).contains(ATTRIBUTE));
        match (line, listed.contains(&path)) {
            (Some(line), false) => violations.push(Violation {
                path: path.to_owned(),
                line: line + 1,
                text: "unsafe code is allowed here: move it into a listed file, or add this file to LISTED of \
                       the check of unsafe code with the reason"
                    .to_owned(),
            }),
            (None, true) => violations.push(Violation {
                path: path.to_owned(),
                line: 0,
                text: "this file has no unsafe code: remove it from LISTED".to_owned(),
            }),
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_code_outside_the_listed_files_is_refused() {
        let text = format!("//! Text.\n#![{ATTRIBUTE}]\n");
        let tree = Tree::from([("a.rs", &*text), ("b.rs", &*text), ("c.rs", "fn f() {}")]);
        let paths = |listed: &[&str]| {
            let found = check_files(&tree, listed);
            found.into_iter().map(|found| (found.path, found.line)).collect::<Vec<_>>()
        };
        assert!(paths(&["a.rs", "b.rs"]).is_empty());
        assert_eq!(paths(&["a.rs"]), [("b.rs".to_owned(), 2)]);
        assert_eq!(paths(&["a.rs", "b.rs", "c.rs"]), [("c.rs".to_owned(), 0)]);
    }
}
