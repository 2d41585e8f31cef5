//! The text form of the status: the chain and its head, the servers, and tables of stages, rings and calls.

use alloy_primitives::B256;
use pages::text::{age, count, exact_price, grouped, now, percent, short_hash};
use serde_json::Value;
use std::fmt::Write;

/// Width of the column of terms, in characters.
const TERM_WIDTH: usize = 14;

/// The servers: term, name in the response, and the scheme of the address.
const SERVERS: [(&str, &str, &str); 10] = [
    ("JSON-RPC", "jsonRpc", "http://"),
    ("WebSocket", "jsonRpcWs", "ws://"),
    ("REST", "rest", "http://"),
    ("gRPC", "grpc", ""),
    ("CometBFT RPC", "comet", "http://"),
    ("web pages", "pages", "http://"),
    ("transactions", "ingest", "tcp://"),
    ("replication", "replication", ""),
    ("validators", "p2p", "tcp://"),
    ("metrics", "metrics", "http://"),
];

/// Formats a response of `/status` as text. Missing names and counters are shown as `unknown`.
pub(super) fn text(status: &Value) -> String {
    let mut out = String::new();
    summary(&mut out, status, now());
    servers(&mut out, &status["endpoints"]);
    out.push('\n');
    let stages = rows(&status["stages"], stage);
    table(&mut out, ["stage", "in", "out", "refused", "batches", "blocked", "working"], &stages);
    out.push('\n');
    table(&mut out, ["ring", "batches", "capacity"], &rows(&status["rings"], ring));
    let calls = rows(&status["calls"], call);
    if !calls.is_empty() {
        out.push('\n');
        table(&mut out, ["JSON-RPC method", "calls", "errors", "mean"], &calls);
    }
    out
}

fn line(out: &mut String, term: &str, value: &str) {
    writeln!(out, "{term:TERM_WIDTH$} {value}").expect("a String accepts text");
}

fn summary(out: &mut String, status: &Value, now: u64) {
    let head = &status["head"];
    let chain = format!(
        "{}, {} rules, evmd {}",
        plain(&status["chainId"]),
        plain(&status["rules"]),
        plain(&status["version"])
    );
    line(out, "chain", &chain);
    let timestamp = head["timestamp"].as_u64().unwrap_or_default();
    let hash = head["hash"].as_str().and_then(|hash| hash.parse::<B256>().ok());
    let hash = hash.map_or_else(|| "unknown".to_owned(), short_hash);
    line(out, "head", &format!("{} {hash}, {}", plain(&head["number"]), age(now, timestamp)));
    let base_fee = head["nextBaseFee"].as_u64();
    let base_fee = base_fee.map_or_else(|| "unknown".to_owned(), |fee| exact_price(fee.into()));
    line(out, "next base fee", &base_fee);
    let pool = &status["pool"];
    let pool = match (pool["pending"].as_u64(), pool["queued"].as_u64()) {
        (Some(pending), Some(queued)) => {
            format!("{} executable, {} waiting", grouped(pending), grouped(queued))
        }
        _ => "busy".to_owned(),
    };
    line(out, "pool", &pool);
    line(out, "recovery", &plain(&status["backend"]));
    if let Some(key) = status["producer"]["key"].as_str() {
        let term = plain(&status["producer"]["term"]);
        line(out, "producer", &format!("{key}, term {term}"));
    }
    if !status["replica"].is_null() {
        line(out, "follows", &replica(&status["replica"]));
    }
    if !status["validator"].is_null() {
        line(out, "validator", &validator(&status["validator"]));
    }
    if status["fault"] == true {
        line(out, "fault", "a stage has failed: the reason is in the log");
    }
}

/// Describes the view of a validator, how many validators vote, and the time to finality.
fn validator(validator: &Value) -> String {
    let all = validator["validators"].as_array().map_or(&[][..], Vec::as_slice);
    let present = all.iter().filter(|other| other["votes"] == true).count();
    let mut text =
        format!("view {}, {present} of {} validators vote", plain(&validator["view"]), all.len());
    let ms = |name: &str| validator["finalityMs"][name].as_f64();
    if let (Some(median), Some(p95)) = (ms("p50"), ms("p95")) {
        write!(text, ", final after {median:.0} ms (p95 {p95:.0})").expect("a String accepts text");
    }
    if let Some(count) = validator["contradictingVotes"].as_u64().filter(|count| *count > 0) {
        write!(text, ", {count} contradicting votes: `evmd validator evidence` prints them")
            .expect("a String accepts text");
    }
    text
}

/// Describes the source of a node that follows others, and how many blocks the node is behind.
fn replica(replica: &Value) -> String {
    let source = replica["source"].as_str().unwrap_or("no source");
    let refused = replica["refused"].as_array().map_or(0, Vec::len);
    let blocks = replica["lagBlocks"].as_u64().unwrap_or_default();
    let mut text = format!("{source}, {} behind", count(blocks, "block"));
    if refused > 0 {
        let refused = count(refused as u64, "source");
        write!(text, ", {refused} refused: the log has the reasons")
            .expect("a String accepts text");
    }
    text
}

fn servers(out: &mut String, endpoints: &Value) {
    for (term, name, scheme) in SERVERS {
        // The HTTP address of JSON-RPC also serves WebSocket.
        let address = match (&endpoints[name], name) {
            (Value::Null, "jsonRpcWs") => &endpoints["jsonRpc"],
            (address, _) => address,
        };
        if ["replication", "p2p"].contains(&name) && address.is_null() {
            continue;
        }
        let shown = address.as_str().map(|address| format!("{scheme}{address}"));
        line(out, term, shown.as_deref().unwrap_or("off"));
    }
}

fn stage(stage: &Value) -> [String; 7] {
    let seconds = |name: &str| stage[name].as_f64().unwrap_or_default();
    let busy = seconds("busy_seconds");
    let whole = busy + seconds("idle_seconds");
    let refused = stage["rejected"].as_object().into_iter().flatten();
    let refused: u64 = refused.filter_map(|(_, count)| count.as_u64()).sum();
    [
        plain(&stage["name"]),
        number(&stage["in"]),
        number(&stage["out"]),
        grouped(refused),
        number(&stage["batches"]),
        number(&stage["blocked"]),
        percent((busy * 1e6) as u64, (whole * 1e6) as u64),
    ]
}

fn ring(ring: &Value) -> [String; 3] {
    [plain(&ring["name"]), number(&ring["depth"]), number(&ring["capacity"])]
}

fn call(call: &Value) -> [String; 4] {
    let count = call["calls"].as_u64().unwrap_or_default();
    let seconds = call["seconds"].as_f64().unwrap_or_default();
    let errors = call["errors"].as_object().into_iter().flatten();
    let errors: u64 = errors.filter_map(|(_, count)| count.as_u64()).sum();
    let mean = pages::text::duration(seconds / count.max(1) as f64);
    [plain(&call["method"]), grouped(count), grouped(errors), mean]
}

fn rows<const COLUMNS: usize>(
    list: &Value,
    row: fn(&Value) -> [String; COLUMNS],
) -> Vec<[String; COLUMNS]> {
    list.as_array().into_iter().flatten().map(row).collect()
}

/// Writes a table with a left-aligned first column and right-aligned numbers.
fn table<const COLUMNS: usize>(
    out: &mut String,
    titles: [&str; COLUMNS],
    rows: &[[String; COLUMNS]],
) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].len());
        cells.max().unwrap_or(0).max(titles[column].len())
    };
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut write_row = |cells: [&str; COLUMNS]| {
        for (column, (cell, width)) in cells.into_iter().zip(widths).enumerate() {
            let written = match column {
                0 => write!(out, "{cell:<width$}"),
                _ => write!(out, "  {cell:>width$}"),
            };
            written.expect("a String accepts text");
        }
        out.push('\n');
    };
    write_row(titles);
    for row in rows {
        write_row(row.each_ref().map(String::as_str));
    }
}

fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "unknown".to_owned(), grouped)
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "unknown".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn chain_and_head_come_before_servers_and_tables() {
        let status = json!({
            "version": "0.1.0", "chainId": 262144, "rules": "native", "backend": "avx2", "fault": false,
            "head": {
                "number": 12, "hash": B256::repeat_byte(0xab), "timestamp": 0, "nextBaseFee": 875_000_000
            },
            "pool": { "pending": 1200, "queued": 3 },
            "endpoints": { "jsonRpc": "127.0.0.1:8545", "jsonRpcWs": null, "rest": "127.0.0.1:1317" },
            "stages": [{
                "name": "recover-0", "in": 3000, "out": 2999, "batches": 12, "blocked": 0,
                "busy_seconds": 1.0, "idle_seconds": 3.0, "rejected": { "signature": 1 }
            }],
            "rings": [{ "name": "raw", "depth": 0, "capacity": 64 }],
            "calls": [{ "method": "eth_call", "calls": 4, "errors": { "-32000": 1 }, "seconds": 0.002 }],
        });
        let expected = "\
chain          262144, native rules, evmd 0.1.0
head           12 0xabababab…abababab, 0 seconds ago
next base fee  0.875 gwei
pool           1,200 executable, 3 waiting
recovery       avx2
JSON-RPC       http://127.0.0.1:8545
WebSocket      ws://127.0.0.1:8545
REST           http://127.0.0.1:1317
gRPC           off
CometBFT RPC   off
web pages      off
transactions   off
metrics        off

stage         in    out  refused  batches  blocked  working
recover-0  3,000  2,999        1       12        0   25.00%

ring  batches  capacity
raw         0        64

JSON-RPC method  calls  errors    mean
eth_call             4       1  500 us
";
        let mut shown = text(&status);
        let age = shown.lines().nth(1).unwrap().split_once(", ").unwrap().1.to_owned();
        shown = shown.replace(&age, "0 seconds ago");
        assert_eq!(shown, expected);
        assert!(text(&json!({})).starts_with("chain          unknown, unknown rules"));
    }
}
