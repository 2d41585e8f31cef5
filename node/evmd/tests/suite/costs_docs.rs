//! Tests that `docs/costs.md` agrees with the tables of the program. `EVMD_WRITE_DOCS=1` writes the file.

use evmd::COSTS;
use std::{fmt::Write, path::Path};

fn document() -> String {
    let mut out = String::from(
        "# What queries cost\n\n\
         `EVMD_WRITE_DOCS=1 cargo test -p evmd --test suite costs_docs` generates this page from the tables of the program \
         (`costs.rs` of the crates `rpc` and `cosmos-api`), and tests compare it with them.\n\n\
         For each method, the tables contain the quantities with which its work grows, their limits, and the threads on which it runs. \
         Blocks are limited by their gas limit, which is 100,000,000 by default.\n",
    );
    out.push_str(
        "\n## Compression\n\n\
         A response over HTTP of 16 KiB or more is compressed with gzip if `Accept-Encoding` allows it. That takes 4 to 5 ns \
         per byte of the response (zlib-rs at level 1, on one core of an EPYC with 2 vCPUs). A block of 500 transactions (425 KB) \
         takes 1.7 ms and shrinks by a factor of 2.4. A response with 2,000 logs (1.26 MB) takes 6.1 ms and shrinks by a factor of 3.5. \
         On a fast local network, compression saves no time. A reverse proxy that compresses responses itself can remove \
         `Accept-Encoding` from the requests that it forwards. JSON-RPC compresses on the threads that parse large bodies. Each of \
         them compresses one response at a time, in pieces of 64 KiB, and serves client addresses round-robin. Each of the other \
         servers compresses at most two responses at a time, on blocking threads. While a response waits or is compressed, it \
         counts towards the memory of the client. It is sent uncompressed if the queue is full or the memory limit of the clients \
         is reached. WebSocket messages and gRPC are not compressed.\n",
    );
    for interface in COSTS {
        write!(out, "\n## {}\n\n{}\n\n", interface.name, interface.threads).unwrap();
        out.push_str("| Work | Grows with | Bound | Runs | Methods |\n|---|---|---|---|---|\n");
        for class in interface.classes {
            let methods: Vec<_> = class.methods.iter().map(|name| format!("`{name}`")).collect();
            let (threads, methods) = (class.threads.join("; "), methods.join(", "));
            let [work, grows, bound] = [class.work, class.grows_with, class.bound];
            writeln!(out, "| {work} | {grows} | {bound} | {threads} | {methods} |").unwrap();
        }
    }
    out
}

#[test]
fn document_agrees_with_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/costs.md");
    if std::env::var_os("EVMD_WRITE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, document(), "run with EVMD_WRITE_DOCS=1 to write {}", path.display());
}
