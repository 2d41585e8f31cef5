//! `docs/rpc.md` is what the tables of the program say. `EVMD_WRITE_DOCS=1` writes it anew.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use node::{config::Config, rpc};
use std::{fmt::Write, path::Path};

fn document() -> String {
    let settings = Config::default().json_rpc;
    let mut out = String::from(
        "# JSON-RPC\n\n\
         Made from the program's tables by `EVMD_WRITE_DOCS=1 cargo test -p node --test rpc_docs`; a \
         test holds it to them.\n\n\
         Errors have geth's codes, and its texts where tools match on them. An error about a limit has \
         code -32005 and `data: {limit, suggested}`; for a range of blocks `suggested` is one that fits.\n\
         A call, or a whole batch, sees one block. Where a block is asked for, a tag, a number, a hash or \
         an EIP-1898 object is taken; `safe` and `finalized` are the newest block, because blocks are \
         final. Addresses are taken in hex and in Bech32.\n\n## Settings\n\n\
         | Setting of `[json-rpc]` | Default |\n|---|---|\n",
    );
    let settings = toml::Value::try_from(settings).unwrap();
    for (key, value) in settings.as_table().unwrap() {
        writeln!(out, "| `{key}` | `{}` |", value.to_string().replace('"', "")).unwrap();
    }
    out.push_str("\n## Subscriptions\n\nOver WebSocket, by `eth_subscribe`:\n\n| Name | Pushes |\n|---|---|\n");
    for (name, what) in rpc::SUBSCRIPTIONS {
        writeln!(out, "| `{name}` | {what} |").unwrap();
    }
    let mut namespace = "";
    for method in rpc::methods() {
        if method.namespace() != namespace {
            namespace = method.namespace();
            write!(out, "\n## {namespace}\n\n| Method | Parameters | Answer |\n|---|---|---|\n")
                .unwrap();
        }
        let parameters: Vec<_> = method.parameters.iter().map(|p| format!("`{p}`")).collect();
        writeln!(out, "| `{}` | {} | {} |", method.name, parameters.join(", "), method.help)
            .unwrap();
    }
    out
}

#[test]
fn the_document_is_what_the_tables_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/rpc.md");
    if std::env::var_os("EVMD_WRITE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, document(), "run with EVMD_WRITE_DOCS=1 to write {}", path.display());
}
