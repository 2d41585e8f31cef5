//! Simple parsing of Rust source, without a parser: only what the checks need.

/// Lines with their numbers, from 1, up to the first inline test module. By convention, it is at the end of the file.
pub(super) fn lines_without_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut after_test_attribute = false;
    text.lines()
        .enumerate()
        .take_while(move |(_, line)| {
            let is_test_module =
                after_test_attribute && line.starts_with("mod ") && line.trim_end().ends_with('{');
            after_test_attribute = line.trim() == "#[cfg(test)]";
            !is_test_module
        })
        .map(|(at, line)| (at + 1, line))
}

/// The part of a line before a `//` comment. A `//` after a colon or a quotation mark is taken for a part of a string.
pub(super) fn code(line: &str) -> &str {
    let mut from = 0;
    while let Some(at) = line[from..].find("//") {
        let at = from + at;
        if !line[..at].ends_with([':', '"']) {
            return &line[..at];
        }
        from = at + 2;
    }
    line
}

/// Whether a file has only tests, judged by its path.
pub(super) fn is_test_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    path.contains("/tests/")
        || name == "tests.rs"
        || name.ends_with("_tests.rs")
        || name.ends_with("_test.rs")
}

/// The identifier at the start of a text.
pub(super) fn identifier(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_modules_are_left_out() {
        let text = "use a;\n#[cfg(test)]\nuse b;\n#[cfg(test)]\nmod tests {\n    use c;\n}\n";
        let lines: Vec<_> = lines_without_tests(text).collect();
        assert_eq!(lines, [(1, "use a;"), (2, "#[cfg(test)]"), (3, "use b;"), (4, "#[cfg(test)]")]);
    }

    #[test]
    fn comments_are_left_out_and_urls_are_kept() {
        assert_eq!(code("let a = 1; // one"), "let a = 1; ");
        assert_eq!(code(r#"let a = "http://b"; // c"#), r#"let a = "http://b"; "#);
        assert_eq!(code("/// text"), "");
    }

    #[test]
    fn files_of_tests_are_known_by_their_names() {
        for path in ["a/tests/b.rs", "a/src/tests.rs", "a/src/b_tests.rs"] {
            assert!(is_test_file(path), "{path}");
        }
        assert!(!is_test_file("a/src/attests.rs"));
    }
}
