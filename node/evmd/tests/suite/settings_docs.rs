//! Tests that `docs/settings.md` has a row for each setting, with its default, and no other rows.

use config::Config;
use std::{collections::BTreeSet, path::Path};

/// Returns the setting and the default in a row.
fn row(line: &str) -> Option<(String, String)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let setting = cells.next()?.trim_end_matches('`');
    let default = cells.nth(1)?.trim_matches('`').replace('"', "");
    Some((setting.to_owned(), default))
}

#[test]
fn each_setting_has_a_row_with_its_default() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows: BTreeSet<_> = text.lines().filter_map(row).collect();
    let mut settings = BTreeSet::new();
    for (section, keys) in toml::Table::try_from(Config::default()).unwrap() {
        for (key, value) in keys.as_table().unwrap() {
            settings.insert((format!("{section}.{key}"), value.to_string().replace('"', "")));
        }
    }
    let missing: Vec<_> = settings.difference(&rows).collect();
    let stale: Vec<_> = rows.difference(&settings).collect();
    assert!(missing.is_empty() && stale.is_empty(), "missing: {missing:?}, stale: {stale:?}");
}
