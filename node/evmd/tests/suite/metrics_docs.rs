//! Tests that `docs/metrics.md` agrees with the program's table of metrics. `EVMD_WRITE_DOCS=1` writes the file.

use config::Config;
use observe::METRICS;
use std::{fmt::Write, path::Path};

fn document() -> String {
    let address = Config::default().metrics.address;
    let mut out = format!(
        "# Metrics\n\n\
         Generated from the program's table by `EVMD_WRITE_DOCS=1 cargo test -p evmd --test suite metrics_docs`. A \
         test compares the two.\n\n\
         The server at `http://{address}` ([`metrics.address`](settings.md#metrics)) has four paths:\n\n\
         - `/metrics` returns the metrics below in the text format of Prometheus.\n\
         - `/health` returns 200 if the head block can be read and no stage has failed, otherwise 503, with a JSON \
         object that names the reason. The status is also 503 when a block has been due for ten block times (at \
         least 10 s): one is due at each block time, or, if empty blocks are off or transactions are mined at once, \
         while the pool has a transaction that the next block would include. A separate thread reads the head block every second; \
         if a read takes longer than 10 s, the status is 503. A node that works in a degraded state returns 200 and \
         lists the reasons in `degraded`: the system clock was changed by more than `engine.max-clock-step-s`.\n\
         - `/ready` returns 200 if the node is healthy, does not stop, and is not a replica that is behind \
         (`replication.max-lag-ms`), otherwise 503: load balancers use it. A node that stops first processes the transactions \
         that it has accepted.\n\
         - `/status` returns the head, the pool, the addresses, the stages and the calls as one JSON object, with the \
         same values.\n\n\
         Names end with the unit. Counters start at zero when the node starts. Stages and rings are described in the \
         [architecture](architecture.md). If a stage is often blocked, a later stage is slower; the slowest stage is \
         the one with the least idle time. Most metrics had other names before: see [renamed \
         metrics](metrics-renames.md).\n\n\
         | Metric | Kind | Labels | Meaning |\n|---|---|---|---|\n"
    );
    for metric in METRICS {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, labels) = (metric.name, metric.kind.name(), labels.join(", "));
        writeln!(out, "| `{name}` | {kind} | {labels} | {} |", metric.help).unwrap();
    }
    out
}

#[test]
fn document_agrees_with_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("EVMD_WRITE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, document(), "run with EVMD_WRITE_DOCS=1 to write {}", path.display());
}
