//! Checks that each crate of the workspace depends only on crates of lower layers.

use super::{Violation, tree::Tree};

/// The crates, lowest first: a crate depends only on crates before it.
pub(super) const LAYERS: [&str; 40] = [
    "crashdisk",
    "secp256k1-batch-recovery",
    "trie",
    "storage",
    "platform",
    "proto",
    "keys",
    "certificates",
    "feemarket",
    "chain",
    "testkit",
    "transactions",
    "feehistory",
    "modules",
    "evm",
    "state",
    "consensus",
    "mempool",
    "config",
    "home",
    "budget",
    "event-query",
    "pipeline",
    "models",
    "server",
    // `cosmos-api` is below the crates of JSON-RPC, because it must not use them.
    "cosmos-api",
    "rpc-types",
    "rpc-eth",
    "rpc-debug",
    "rpc",
    "replication",
    "pages",
    "terminal",
    "observe",
    "validator",
    "evmd",
    "man-pages",
    "xtask",
    "loadtest",
    "benches",
];

/// Crates for tests only: no program links them.
const FOR_TESTS: [&str; 3] = ["crashdisk", "testkit", "models"];

/// Libraries for tests and measurements, which only [`FOR_TESTS`] and `benches` may link.
const TEST_LIBRARIES: [&str; 3] = ["criterion", "loom", "proptest"];

/// Crates that use no other crate of the workspace, except in tests.
const STANDALONE: [&str; 2] = ["loadtest", "xtask"];

/// The tables of a manifest with the dependencies that a program links or builds with.
const LINKED: [&str; 2] = ["dependencies", "build-dependencies"];

/// All tables of a manifest with dependencies.
const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    check_layers(tree, &LAYERS)
}

fn check_layers(tree: &Tree, layers: &[&str]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in members(tree) {
        let mut refuse =
            |text: String| violations.push(Violation { path: path.clone(), line: 0, text });
        let manifest: toml::Table = match text.parse() {
            Ok(manifest) => manifest,
            Err(error) => {
                refuse(error.to_string());
                continue;
            }
        };
        let name = manifest["package"]["name"].as_str().unwrap_or_default();
        let Some(layer) = layers.iter().position(|known| *known == name) else {
            refuse(format!(
                "the crate {name} has no layer: add it to LAYERS in node/xtask/src/tidy/layers.rs"
            ));
            continue;
        };
        for dependency in dependencies(&manifest, &LINKED) {
            let is_for_tests = FOR_TESTS.contains(&name) || name == "benches";
            let is_test_library = TEST_LIBRARIES.contains(&dependency.as_str()) && !is_for_tests;
            if is_test_library || FOR_TESTS.contains(&dependency.as_str()) {
                refuse(format!(
                    "{name} links {dependency}, which is for tests only: make it a dev-dependency"
                ));
            }
            if STANDALONE.contains(&name) && layers.contains(&dependency.as_str()) {
                refuse(format!("{name} uses {dependency}, but it uses no crate of the workspace"));
            }
        }
        for dependency in dependencies(&manifest, &TABLES) {
            if layers[layer..].contains(&dependency.as_str()) {
                refuse(format!(
                    "{name} depends on {dependency}, which is not below it: move what both need below both"
                ));
            }
        }
    }
    violations
}

/// The paths and contents of the manifests of the workspace's members.
fn members(tree: &Tree) -> Vec<(String, &str)> {
    let workspace: toml::Table =
        tree.get("Cargo.toml").unwrap_or_default().parse().unwrap_or_default();
    let members = workspace
        .get("workspace")
        .and_then(|workspace| workspace.get("members"))
        .and_then(toml::Value::as_array);
    members
        .into_iter()
        .flatten()
        .filter_map(|member| {
            let path = format!("{}/Cargo.toml", member.as_str()?);
            let text = tree.get(&path)?;
            Some((path, text))
        })
        .collect()
}

/// The names of the dependencies in these tables, including those of single targets.
fn dependencies(manifest: &toml::Table, names: &[&str]) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flat_map(toml::Table::values);
    let of_targets = of_targets.filter_map(toml::Value::as_table);
    let tables = std::iter::once(manifest).chain(of_targets);
    tables
        .flat_map(|table| names.iter().filter_map(|name| table.get(*name)?.as_table()))
        .flat_map(|table| table.keys().cloned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(low: &str, high: &str) -> Vec<String> {
        violations_of(["low", "high"], low, high)
    }

    fn violations_of(layers: [&str; 2], low: &str, high: &str) -> Vec<String> {
        let tree = Tree::from([
            ("Cargo.toml", "[workspace]\nmembers = [\"low\", \"high\"]\n"),
            ("low/Cargo.toml", low),
            ("high/Cargo.toml", high),
        ]);
        let found = check_layers(&tree, &layers);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_upward_dependency_is_refused_wherever_it_is_named() {
        let package = |name: &str, rest: &str| format!("[package]\nname = \"{name}\"\n{rest}");
        let high = package("high", "[dependencies]\nlow = { path = \"../low\" }\nserde = \"1\"\n");
        assert!(violations(&package("low", ""), &high).is_empty());
        for table in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
            let low = package("low", &format!("[{table}]\nhigh.workspace = true\n"));
            let found = violations(&low, &high);
            assert_eq!(found.len(), 1, "{table}");
            assert!(found[0].contains("low depends on high"), "{}", found[0]);
        }
    }

    #[test]
    fn crates_for_tests_are_not_linked_and_standalone_crates_use_no_other() {
        for (low, high, table, is_refused) in [
            ("testkit", "server", "dependencies", true),
            ("testkit", "server", "dev-dependencies", false),
            ("chain", "server", "dependencies", false),
            ("proptest", "server", "dependencies", true),
            ("proptest", "server", "dev-dependencies", false),
            ("loom", "models", "dependencies", false),
            ("criterion", "benches", "dependencies", false),
            ("chain", "loadtest", "dependencies", true),
            ("testkit", "loadtest", "dev-dependencies", false),
        ] {
            let package = |name: &str| format!("[package]\nname = \"{name}\"\n");
            let above = format!("{}[{table}]\n{low}.workspace = true\n", package(high));
            let found = violations_of([low, high], &package(low), &above);
            assert_eq!(!found.is_empty(), is_refused, "{low} in {table} of {high}: {found:?}");
        }
    }

    #[test]
    fn cosmos_apis_do_not_use_json_rpc() {
        let layer = |name| LAYERS.iter().position(|known| *known == name).unwrap();
        for name in ["rpc-types", "rpc-eth", "rpc-debug", "rpc"] {
            assert!(layer("cosmos-api") < layer(name), "{name}");
        }
    }

    #[test]
    fn a_crate_without_a_layer_is_refused() {
        let found = violations("[package]\nname = \"new\"\n", "[package]\nname = \"high\"\n");
        assert!(found.len() == 1 && found[0].contains("new has no layer"), "{found:?}");
    }
}
