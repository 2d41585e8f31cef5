//! Checks that `docs/architecture.md` has a row for each crate, and that the fields with locks in its tables exist.

use super::{Violation, layers::LAYERS, tree::Tree};

const PAGE: &str = "docs/architecture.md";

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else { return Vec::new() };
    let violation = |line, text| Violation { path: PAGE.to_owned(), line, text };
    let missing = LAYERS.iter().filter(|name| !page.contains(&format!("\n| `{name}` ")));
    let missing = missing.map(|name| violation(0, format!("the crate {name} has no row: add one")));
    let fields = unknown_fields(tree, page)
        .into_iter()
        .map(|(line, field)| violation(line, format!("{field} does not exist: correct the row")));
    missing.chain(fields).collect()
}

/// Returns each name `Type::field` in the first cell of a row, with its line number, if the file of the row has no such
/// field. A row without a path refers to the file of the row before it.
fn unknown_fields<'a>(tree: &Tree, page: &'a str) -> Vec<(usize, &'a str)> {
    let mut unknown = Vec::new();
    let mut file = "";
    for (at, line) in page.lines().enumerate() {
        let Some(cell) = line.strip_prefix("| ").and_then(|rest| rest.split(" | ").next()) else {
            continue;
        };
        let mut quoted = cell.split('`').skip(1).step_by(2);
        file = quoted.clone().find(|text| text.ends_with(".rs")).unwrap_or(file);
        let text = tree.get(file).unwrap_or_default();
        let fields = quoted.by_ref().filter_map(|name| Some((name, name.split_once("::")?)));
        for (name, (owner, field)) in fields {
            let is_field =
                name.starts_with(char::is_uppercase) && field.starts_with(char::is_lowercase);
            let exists =
                text.contains(&format!("struct {owner}")) && text.contains(&format!(" {field}: "));
            if is_field && !exists {
                unknown.push((at + 1, name));
            }
        }
    }
    unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_an_unknown_field_is_refused() {
        let page = "| `Queue::ready` (`node/a/src/queue.rs`) | jobs | briefly |\n\
                    | `Queue::free` (same file) | threads | briefly |\n\
                    | `Other::ready` (same file) | threads | briefly |\n";
        let tree =
            Tree::from([("node/a/src/queue.rs", "struct Queue {\n    ready: Mutex<u8>,\n}\n")]);
        assert_eq!(unknown_fields(&tree, page), [(2, "Queue::free"), (3, "Other::ready")]);
    }

    #[test]
    fn crate_without_a_row_is_refused() {
        let rows: String = LAYERS[1..].iter().map(|name| format!("\n| `{name}` | x |")).collect();
        let found = check(&Tree::from([(PAGE, rows.as_str())]));
        assert!(found.len() == 1 && found[0].text.contains(LAYERS[0]), "{found:?}");
    }
}
