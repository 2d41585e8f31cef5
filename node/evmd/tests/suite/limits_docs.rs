//! Tests that `docs/limits.md` has the names and values of the program's limits, and documents every limit on clients.

use config::Config;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Folders and files with limits that apply to clients: each entry has the crate, and the path in its `src`.
const SEARCHED: [&str; 13] = [
    "budget",
    "cosmos-api",
    "observe",
    "modules/gov/limits.rs",
    "pipeline/arrival.rs",
    "pipeline/ingest",
    "pipeline/ingest.rs",
    "pipeline/submit.rs",
    "rpc",
    "rpc-debug",
    "rpc-eth",
    "rpc-types",
    "server",
];

/// `MAX` constants that are not limits for clients, with the reasons.
const NOT_LIMITS: [(&str, &str, &str); 19] = [
    ("server/connection/write_turns.rs", "MAX_PIECES", "pieces of a response in one system call"),
    ("rpc/front/websocket/output.rs", "MAX_SLICES", "pieces of a message in one system call"),
    ("rpc/fuzzing.rs", "MAX_BATCH", "the limit that a fuzz target passes"),
    ("rpc/front/websocket/frames.rs", "MAX_HEAD_BYTES", "length of a frame head in RFC 6455"),
    ("rpc/front/websocket/frames.rs", "MAX", "of a test"),
    ("rpc/front/threads.rs", "MAX_BLOCKING_THREADS", "threads"),
    ("rpc-types/block_id.rs", "MAX_NUMBER", "the range of block numbers"),
    ("rpc/envelope.rs", "MAX", "of a test"),
    ("rpc-types/go_duration.rs", "MAX_NANOSECONDS", "the range of Go's durations"),
    ("rpc-types/go_duration.rs", "MAX_FRACTION_DIGITS", "precision of a duration"),
    ("observe/progress.rs", "MAX_HEAD_AGE", "age at which /health reports a stalled head"),
    ("observe/progress.rs", "MAX_HEAD_AGE_BLOCKS", "the same, in block times"),
    ("observe/head.rs", "MAX_CHECK_AGE", "the same, for the check itself"),
    ("server/listen/tests.rs", "MAX_BODY", "of a test"),
    ("budget/resource.rs", "MAX_LEAVING_SHARE", "precision of the limits of this module"),
    ("pipeline/submit.rs", "MAX_YIELDS_WITHOUT_TX", "rounds in which submissions are gathered"),
    ("pipeline/submit.rs", "MAX_YIELDS_PER_BATCH", "rounds in which submissions are gathered"),
    ("cosmos-api/rest/gateway.rs", "MAX_CONVERTED_AT_ONCE_BYTES", "which thread converts"),
    ("cosmos-api/query/public_keys.rs", "MAX_CACHED_ACCOUNTS", "size of a cache"),
];

/// Prefixes and suffixes of the names of settings that limit something.
const SETTINGS: [&str; 8] =
    ["max-", "rate-", "account-", "global-", "-cap", "-timeout-ms", "-timeout-s", "lifetime-s"];

/// Collects the constants with `MAX` in their names: file and name, and value. Constants that start with `MAX_INLINE_`
/// are left out because they do not limit clients: they decide on which thread a call runs.
fn constants(folder: &Path, root: &Path, found: &mut BTreeMap<(String, String), String>) {
    if folder.is_dir() {
        for entry in fs::read_dir(folder).unwrap() {
            constants(&entry.unwrap().path(), root, found);
        }
        return;
    }
    let Ok(text) = fs::read_to_string(folder) else { return };
    let file = folder.strip_prefix(root).unwrap().to_str().unwrap();
    for (at, _) in text.match_indices("const ") {
        let Some((name, rest)) = text[at + "const ".len()..].split_once(": ") else { continue };
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let is_maximum = name.split('_').any(|word| word == "MAX");
        let is_inline = name.starts_with("MAX_INLINE_");
        if !name.chars().all(is_name) || !is_maximum || is_inline {
            continue;
        }
        let value = rest.split_once('=').unwrap().1.split_once(';').unwrap().0;
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        found.insert((file.to_owned(), name.to_owned()), value);
    }
}

/// Returns the first two cells of each row in the document: a constant or a setting, and its value.
fn rows(page: &str) -> Vec<(String, String)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let name = cells.next()?.to_owned();
        let value = cells.next()?.trim_start_matches('`').split_once('`')?.0.to_owned();
        Some((name, value))
    };
    page.lines().filter_map(row).collect()
}

#[test]
fn limits_are_documented_with_their_values() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let page = fs::read_to_string(crates.parent().unwrap().join("docs/limits.md")).unwrap();
    let mut all = BTreeMap::new();
    for folder in fs::read_dir(crates).unwrap() {
        let (folder, source) = (folder.as_ref().unwrap().file_name(), folder.unwrap().path());
        let mut found = BTreeMap::new();
        let source = source.join("src");
        if source.is_dir() {
            constants(&source, &source, &mut found);
        }
        let folder = folder.to_str().unwrap();
        all.extend(
            found
                .into_iter()
                .map(|((file, name), value)| ((format!("{folder}/{file}"), name), value)),
        );
    }
    let config = toml::Table::try_from(Config::default()).unwrap();
    let setting = |key: &str| -> Option<String> {
        let (section, name) = key.split_once('.')?;
        Some(config.get(section)?.get(name)?.to_string())
    };

    let mut documented = BTreeSet::new();
    for (name, value) in rows(&page) {
        let found = match name.split_once("` in `") {
            Some((name, file)) => {
                let file = file.trim_end_matches('`');
                documented.insert((file.to_owned(), name.to_owned()));
                all.get(&(file.to_owned(), name.to_owned())).cloned()
            }
            None => {
                let key = name.trim_end_matches('`');
                documented.insert((String::new(), key.to_owned()));
                setting(key)
            }
        };
        assert_eq!(found, Some(value), "{name}");
    }

    let exempt: BTreeSet<_> =
        NOT_LIMITS.iter().map(|(file, name, _)| ((*file).to_owned(), (*name).to_owned())).collect();
    let is_searched = |file: &str| {
        SEARCHED.iter().any(|part| file == *part || file.starts_with(&format!("{part}/")))
    };
    let expected: BTreeSet<_> = all.into_keys().filter(|(file, _)| is_searched(file)).collect();
    let missing: Vec<_> =
        expected.iter().filter(|key| !documented.contains(key) && !exempt.contains(key)).collect();
    assert!(missing.is_empty(), "not in docs/limits.md: {missing:?}");
    assert!(exempt.is_subset(&expected), "an exemption names no constant");
    for (section, keys) in &config {
        for key in keys.as_table().unwrap().keys() {
            let is_limit = SETTINGS.iter().any(|part| key.starts_with(part) || key.ends_with(part));
            let name = format!("{section}.{key}");
            let is_documented = documented.contains(&(String::new(), name.clone()));
            assert!(!is_limit || is_documented || NOT_LIMIT_SETTINGS.contains(&&*name), "{name}");
        }
    }
}

/// Settings that have one of these prefixes or suffixes but do not limit clients.
const NOT_LIMIT_SETTINGS: [&str; 1] = ["engine.max-clock-step-s"];

#[test]
fn threat_model_names_every_address_and_every_file_of_a_home_folder() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("threat-model.md")).unwrap();
    for (section, keys) in toml::Table::try_from(Config::default()).unwrap() {
        for key in keys.as_table().unwrap().keys().filter(|key| key.ends_with("address")) {
            assert!(page.contains(&format!("| `{section}.{key}` |")), "{section}.{key}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    drop(home::Home::init(&home, &chain::Genesis::native_dev(0)).unwrap());
    for entry in fs::read_dir(&home).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_named = page.contains(&format!("| `{name}"));
        assert!(is_named, "{name}");
    }
}
