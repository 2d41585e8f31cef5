//! Checks that some words, which plain technical English does not need, are rare.

use super::{Violation, tree::Tree};

/// Words for persons, which programs, clients and peers are not, and idioms that the field does not use. Each has a `|`
/// inside, so that this file contains none of them.
const WORDS: [&str; 8] =
    ["no|body", "who|ever", "who|m", "to|ld", "so m|any", "be|side", "hi|s", "de|ar"];
/// Maximum number of lines with one of the words in all text files together. It must not be raised.
const MAX_LINES: usize = 9;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_lines(tree, MAX_LINES)
}

/// One violation for each line with one of the words, if there are more such lines than the maximum.
fn check_lines(tree: &Tree, max: usize) -> Vec<Violation> {
    let words = WORDS.map(|word| word.replace('|', ""));
    let mut violations = Vec::new();
    for (path, text) in tree.files() {
        for (at, line) in text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| has_word(line, word)) {
                let text = format!(
                    "\"{word}\": write a plainer sentence (at most {max} lines may contain such a word)"
                );
                violations.push(Violation { path: path.to_owned(), line: at + 1, text });
            }
        }
    }
    if violations.len() > max { violations } else { Vec::new() }
}

/// Whether a line contains `words`, in any case, with no letter, digit or underscore before or after them.
fn has_word(line: &str, words: &str) -> bool {
    let line = line.to_ascii_lowercase();
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(words).any(|(at, _)| {
        let after = &line[at + words.len()..];
        !is_part(line[..at].chars().next_back()) && !is_part(after.chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_are_found_in_any_case() {
        assert!(has_word("Xyz is here", "xyz"));
        assert!(has_word("a (xyz).", "xyz"));
        assert!(has_word("xyzt, so xyz", "xyz"));
        assert!(!has_word("xyz_a, axyz, xyz1", "xyz"));
    }

    #[test]
    fn lines_above_the_maximum_are_refused() {
        let word = WORDS[0].replace('|', "");
        let text = format!("one\n{word} knows\n");
        let tree = Tree::from([("a.md", &*text), ("b.rs", "two\n")]);
        assert!(check_lines(&tree, 1).is_empty());
        let found = check_lines(&tree, 0);
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].path, found[0].line), ("a.md", 2));
    }
}
