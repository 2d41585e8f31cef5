//! `docs/metrics.md` is what the table of metrics says. `EVMD_WRITE_DOCS=1` writes it anew.

use config::Config;
use evmd::observe::METRICS;
use std::{fmt::Write, path::Path};

fn document() -> String {
    let address = Config::default().metrics.address;
    let mut out = format!(
        "# Metrics\n\n\
         Made from the program's table by `EVMD_WRITE_DOCS=1 cargo test -p evmd --test suite metrics_docs`; a \
         test holds it to that.\n\n\
         `http://{address}` ([`metrics.address`](settings.md#metrics)) serves to monitors:\n\n\
         - `/metrics`: the table below in the text format of Prometheus;\n\
         - `/health`: 200 while the newest block can be read and no stage has failed, else 503; either way \
         a JSON object that says which. A node that makes empty blocks answers 503, too, if it has made none for ten \
         block times, and 10 s at least. A thread of its own reads the newest block every second; if the disk \
         keeps it for more than 10 s, the answer is 503. A node that works, but not as it should, answers 200 and lists \
         the reasons in `degraded`: the system clock was set by more than `engine.max-clock-step-s`;\n\
         - `/status`: head, pool, addresses, stages and calls as one JSON object, the same figures.\n\n\
         Names carry their units, counters begin at zero with each start, and rates are the reader's to \
         compute. Stages and rings are those of the [architecture](architecture.md). A stage that is \
         `blocked` often has one behind it that is slower; the one with least idle time is the slowest.\n\n\
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
fn the_document_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("EVMD_WRITE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, document(), "run with EVMD_WRITE_DOCS=1 to write {}", path.display());
}
