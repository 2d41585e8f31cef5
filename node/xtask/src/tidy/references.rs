//! Checks that the files, headings, decision records and constants to which documents and comments refer exist.

use super::{Violation, source::code, tree::Tree};
use std::collections::BTreeSet;

/// Top-level folders whose paths are checked in text.
const FOLDERS: [&str; 6] = ["docs/", "node/", "storage/", "verify/", "benches/", "loadtest/"];
/// Constants and environment variables of the operating system, of LMDB and of other programs.
const SPECIFIED_ELSEWHERE: &[&str] = &[
    "CLOCK_BOOTTIME",
    "MDB_APPEND",
    "MDB_LOCK_FORMAT",
    "MDB_MAGIC",
    "MDB_NOTLS",
    "NODE_PATH",
    "SA_SIGINFO",
    "SCHED_IDLE",
    "SO_REUSEPORT",
];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let constants = constants(tree);
    let mut violations = Vec::new();
    for (path, text) in tree.files() {
        let is_document = path.ends_with(".md");
        if !is_document && !path.ends_with(".rs") {
            continue;
        }
        let mut is_code_block = false;
        for (at, line) in text.lines().enumerate() {
            if is_document && line.trim_start().starts_with("```") {
                is_code_block = !is_code_block;
            }
            if is_code_block {
                continue;
            }
            let prose = if is_document { line } else { &line[code(line).len()..] };
            let mut missing = Vec::new();
            if is_document {
                missing.extend(missing_links(tree, path, prose));
            }
            missing.extend(missing_paths(tree, prose));
            missing.extend(missing_records(tree, prose));
            missing.extend(missing_constants(&constants, prose));
            violations.extend(missing.into_iter().map(|what| Violation {
                path: path.to_owned(),
                line: at + 1,
                text: format!("{what} does not exist: correct the reference"),
            }));
        }
    }
    violations
}

/// Relative targets of Markdown links that do not exist.
fn missing_links(tree: &Tree, path: &str, line: &str) -> Vec<String> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let mut missing = Vec::new();
    for target in targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
    {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
        let has_heading = || heading.is_empty() || headings(tree, &file).contains(heading);
        if !tree.contains(&file) || !has_heading() {
            missing.push(target.to_owned());
        }
    }
    missing
}

/// The path in the repository of `target`, which is relative to the folder of the file `from`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<_> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors that GitHub derives from the headings of a document.
fn headings(tree: &Tree, path: &str) -> BTreeSet<String> {
    let text = tree.get(path).unwrap_or_default();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Paths in text that do not exist. `docs/adr/<number>` is the record with this number, and `.rs` may be omitted.
fn missing_paths(tree: &Tree, line: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-*<>{}".contains(c);
    line.split(|c| !is_part(c))
        .map(|word| word.trim_matches(['.', '-']))
        .filter(|word| {
            FOLDERS.iter().any(|folder| word.len() > folder.len() && word.starts_with(folder))
        })
        .filter(|word| !word.contains(['*', '<', '{']))
        .filter(|word| {
            !tree.contains(word) && !is_record(tree, word) && !tree.contains(&format!("{word}.rs"))
        })
        .map(str::to_owned)
        .collect()
}

fn is_record(tree: &Tree, word: &str) -> bool {
    word.strip_prefix("docs/adr/").is_some_and(|number| has_record(tree, number))
}

fn has_record(tree: &Tree, number: &str) -> bool {
    number.len() == 4
        && tree.files().any(|(path, _)| path.starts_with(&format!("docs/adr/{number}-")))
}

/// Numbers after the word ADR that no decision record has.
fn missing_records(tree: &Tree, line: &str) -> Vec<String> {
    let numbers = line.split("ADR ").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        &rest[..end]
    });
    numbers
        .filter(|number| number.len() == 4 && !has_record(tree, number))
        .map(|number| format!("ADR {number}"))
        .collect()
}

/// Names in code quotes that have the form of a constant and do not occur in the code.
fn missing_constants(constants: &BTreeSet<&str>, line: &str) -> Vec<String> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted
        .map(|name| name.trim_start_matches('[').trim_end_matches(']').trim_start_matches('$'))
        .map(|name| name.rsplit("::").next().unwrap_or(name))
        .map(|name| name.split(['=', ' ']).next().unwrap_or(name))
        .filter(|name| is_constant(name))
        .filter(|name| !constants.contains(name) && !SPECIFIED_ELSEWHERE.contains(name))
        .map(|name| format!("`{name}`"))
        .collect()
}

fn is_constant(name: &str) -> bool {
    name.contains('_')
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// All names in Rust, TOML and Protobuf files, outside comments, that have the form of a constant.
fn constants(tree: &Tree) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    tree.files()
        .filter(|(path, _)| !path.ends_with(".md"))
        .flat_map(|(_, text)| text.lines())
        .flat_map(|line| code(line).split(move |c| !is_part(c)))
        .filter(|name| is_constant(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![
            ("docs/here.md", "# One heading, with `code`\n\n## Twice\n"),
            ("docs/adr/0007-a-decision.md", "# A decision\n"),
            ("node/src/limits.rs", "const MAX_BYTES: usize = 1;\n"),
        ];
        all.extend(files);
        let mut tree = Vec::new();
        for (path, text) in all {
            tree.push((path.to_owned(), text.to_owned()));
        }
        check(&Tree::of(tree)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn references_that_exist_are_accepted() {
        let page = "See [a](here.md), [b](here.md#one-heading-with-code), [c](#title), [d](https://example.org/x),\n\
                    `docs/here.md`, docs/adr/0007, ADR 0007, `MAX_BYTES`, `node/src/limits.rs`, `node/src/`.\n\
                    ```sh\ncp docs/none.md .\n```\n";
        let page = format!("# Title\n{page}");
        let comment = "//! `docs/here.md`, [`MAX_BYTES`]\nconst A: &str = \"docs/none.md\";\n";
        assert_eq!(
            violations(&[("docs/page.md", &page), ("node/src/a.rs", comment)]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_kind_of_dangling_reference_is_refused() {
        for (text, what) in [
            ("[a](none.md)", "none.md"),
            ("[a](here.md#none)", "here.md#none"),
            ("see docs/none.md.", "docs/none.md"),
            ("docs/adr/0008", "docs/adr/0008"),
            ("(ADR 0008)", "ADR 0008"),
            ("at most `MAX_WORDS` words", "`MAX_WORDS`"),
            ("`super::MAX_WORDS`", "`MAX_WORDS`"),
        ] {
            let found = violations(&[("docs/page.md", text)]);
            assert_eq!(
                found,
                [format!("docs/page.md:1: {what} does not exist: correct the reference")]
            );
            if !text.starts_with('[') {
                let found = violations(&[("node/src/a.rs", &format!("/// {text}"))]);
                assert_eq!(found.len(), 1, "{text}");
            }
        }
    }
}
