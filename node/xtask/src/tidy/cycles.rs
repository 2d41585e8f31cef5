//! Checks that the imports between the top-level modules of a crate form no cycle.

use super::{
    Violation,
    source::{code, identifier, is_test_file, lines_without_tests},
    tree::Tree,
};
use std::collections::{BTreeMap, BTreeSet};

/// The importing module and the imported module.
type Edge<'a> = (&'a str, &'a str);

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    crates(tree).flat_map(|folder| check_crate(tree, folder)).collect()
}

/// The folders of crates: those with a manifest.
fn crates(tree: &Tree) -> impl Iterator<Item = &str> {
    tree.with_ending("/Cargo.toml").filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"))
}

fn check_crate(tree: &Tree, folder: &str) -> Vec<Violation> {
    let edges = edges(tree, folder);
    let mut violations = Vec::new();
    for ((from, to), (path, line)) in &edges {
        if let Some(path_back) = shortest_path(&edges, to, from) {
            violations.push(Violation {
                path: (*path).to_owned(),
                line: *line,
                text: format!(
                    "this import closes the cycle {from} -> {}: move what both need below both",
                    path_back.join(" -> ")
                ),
            });
        }
    }
    violations
}

/// The imports between the modules of a crate, each with the path and line of its first occurrence.
fn edges<'a>(tree: &'a Tree, folder: &str) -> BTreeMap<Edge<'a>, (&'a str, usize)> {
    let source = format!("{folder}/src/");
    let files: Vec<_> = tree
        .files()
        .filter_map(|(path, text)| Some((path, path.strip_prefix(&source)?, text)))
        .filter(|(path, inside, _)| inside.ends_with(".rs") && !is_test_file(path))
        .collect();
    let modules: BTreeSet<_> = files.iter().map(|(_, inside, _)| top_module(inside)).collect();
    let mut edges = BTreeMap::new();
    for (path, inside, text) in files {
        let from = top_module(inside);
        if ["lib", "main"].contains(&from) {
            continue;
        }
        for (line, to) in imports(text, depth(inside)) {
            if to != from
                && let Some(to) = modules.get(to)
            {
                edges.entry((from, *to)).or_insert((path, line));
            }
        }
    }
    edges
}

fn top_module(inside: &str) -> &str {
    identifier(inside)
}

/// The depth of the module that a file defines: 1 for a top-level module.
fn depth(inside: &str) -> usize {
    let folders = inside.matches('/').count();
    if inside.ends_with("/mod.rs") { folders } else { folders + 1 }
}

/// The names that a file imports from the root of its crate, with their lines.
fn imports(text: &str, depth: usize) -> Vec<(usize, &str)> {
    let lines: Vec<_> = lines_without_tests(text).map(|(line, text)| (line, code(text))).collect();
    let to_root = "super::".repeat(depth);
    let mut found = Vec::new();
    for (at, (line, text)) in lines.iter().enumerate() {
        for start in ["crate::", &to_root] {
            for (start_at, _) in text.match_indices(start) {
                // Skip the end of a longer path or of a longer word.
                let before = text[..start_at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                    continue;
                }
                let rest = &text[start_at + start.len()..];
                match rest.strip_prefix('{') {
                    Some(group) => {
                        let more = lines[at + 1..].iter().map(|(_, text)| *text);
                        let names = first_names(std::iter::once(group).chain(more));
                        found.extend(names.into_iter().map(|name| (*line, name)));
                    }
                    None => found.push((*line, identifier(rest))),
                }
            }
        }
    }
    found.retain(|(_, name)| !name.is_empty() && *name != "super");
    found
}

/// The first identifier of each item of an import group. The lines begin after the opening brace of the group.
fn first_names<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    let (mut depth, mut is_start) = (1, true);
    for line in lines {
        for (at, c) in line.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' => is_start |= depth == 1,
                _ if is_start && (c.is_alphabetic() || c == '_') => {
                    names.push(identifier(&line[at..]));
                    is_start = false;
                }
                _ => {}
            }
            if depth == 0 {
                return names;
            }
        }
    }
    names
}

/// The modules on the shortest path of imports, both ends included.
fn shortest_path<'a>(
    edges: &BTreeMap<Edge<'a>, (&str, usize)>,
    from: &'a str,
    to: &str,
) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::from([from]);
    let mut paths = vec![vec![from]];
    while !paths.is_empty() {
        let mut longer = Vec::new();
        for path in paths {
            let last = path.last().copied()?;
            if last == to {
                return Some(path);
            }
            for (_, next) in edges.keys().filter(|(from, _)| *from == last) {
                if seen.insert(next) {
                    longer.push([&path[..], &[*next]].concat());
                }
            }
        }
        paths = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(tree: &Tree) -> Vec<String> {
        check_crate(tree, "one").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_cycle_is_found_through_each_form_of_import() {
        for import in [
            "use crate::a::Item;",
            "use crate::{\n    c,\n    a::{Item, Other},\n};",
            "pub(super) use super::a::Item;",
            "fn f() { crate::a::call() }",
        ] {
            let tree = Tree::from([
                ("one/Cargo.toml", ""),
                ("one/src/lib.rs", "use crate::a::Item;"),
                ("one/src/a/mod.rs", "mod part;"),
                ("one/src/a/part.rs", "use super::super::b::Item;"),
                ("one/src/b.rs", import),
                ("one/src/c.rs", ""),
            ]);
            let found = violations(&tree);
            assert_eq!(found.len(), 2, "{import}: {found:?}");
            assert!(found[0].contains("one/src/a/part.rs:1:"), "{}", found[0]);
            assert!(found[0].contains("a -> b -> a"), "{}", found[0]);
        }
    }

    #[test]
    fn imports_in_tests_and_comments_close_no_cycle() {
        let tree = Tree::from([
            ("one/Cargo.toml", ""),
            ("one/src/a.rs", "use crate::b::Item;\n"),
            (
                "one/src/b.rs",
                "// See crate::a::Item.\n#[cfg(test)]\nmod tests {\n    use crate::a::Item;\n}\n",
            ),
            ("one/src/b/tests.rs", "use crate::a::Item;"),
        ]);
        assert_eq!(violations(&tree), Vec::<String>::new());
    }
}
