//! `docs/rpc.md` agrees with the program's tables. `EVMD_WRITE_DOCS=1` writes the file.

use config::Config;
use std::{fmt::Write, path::Path};

fn document() -> String {
    let settings = Config::default().json_rpc;
    let mut out = String::from(
        "# JSON-RPC\n\n\
         Made from the program's tables by `EVMD_WRITE_DOCS=1 cargo test -p evmd --test suite rpc_docs`; a \
         test holds it to them.\n\n\
         Errors have geth's codes, and its texts where tools match on them. An error about a limit has \
         `data: {limit, suggested}`; for a range of blocks `suggested` is one that fits. Its code is -32005, \
         but -32600 for a batch with too many calls, -32003 for an answer that is too large, -32000 for work \
         whose time is over, -32002 for a call of a batch whose time is over, -32006 for a subscription too many, and -38026 for too \
         many slots of eth_getStorageValues or calls of eth_simulateV1.\n\
         A call, or a whole batch, sees one block. Where a block is asked for, a tag, a number, a hash or \
         an EIP-1898 object is taken; `safe` and `finalized` are the newest block, because blocks are \
         final.\n\n\
         ## The pending block\n\n\
         `pending` is the next block as this node would produce it now: number, timestamp, base fee and fork of the next block, \
         and the best transactions of the pool, executed on the state of the newest block. Cosmos transactions are among them. \
         If the node accepts no transactions, because it only imports or because it produces no blocks and \
         `mempool.accept-without-production` is off, the block is empty. \
         Balances, code, storage, calls, estimates, access lists, simulations, blocks, receipts, fee history and the fee market are \
         served of it. eth_getProof, eth_getAccount and the methods that trace or show blocks (`debug`, `trace_block`, `ots`) refuse it, \
         and so does debug_traceCall, as in geth; there are no pending logs. eth_getTransactionCount counts what the pool holds.\n\n\
         A pending block has at most 100,000,000 gas of transactions, of at most 10,000 of the pool, and its transactions are \
         executed for at most 0.5 s. It is built when a client asks for it, by one request at a time while the others wait, \
         and is served for up to a second unless there is a new block ([ADR](adr/0028-pending-block.md)).\n\n\
         ## Parameters\n\n\
         Names of fields in request objects are compared without regard to ASCII case, the last of several \
         fields with one name counts, and unknown fields are ignored: geth does so, and clients rely on it. An \
         error names the field: `invalid argument 2: 0x…: balance: hex string without 0x prefix`. The members of \
         a call itself (`jsonrpc`, `method`, `params`, `id`) and typed data (EIP-712) are case-sensitive, as their \
         specifications require.\n\n\
         Hashes, data, quantities and storage keys need `0x`. Addresses are taken in hex, with `0x` or without, \
         and in Bech32. Numbers of cosmos/evm, Otterscan and Parity may be plain JSON numbers, and the count of \
         eth_feeHistory may be decimal, as in geth.\n\n\
         `rpc.discover` returns the methods that are served as an OpenRPC document, with schemas of parameters and results. personal_listAccounts is \
         served with `eth`, too; the other methods of `personal` are off by default.\n\n\
         ## Limits and fairness\n\n\
         Reads of microseconds are answered where the socket is served. Others stand in one of two lines, \
         each with its own threads at low priority: the short one for work of milliseconds, the long one for \
         scans and traces. In a line, addresses take turns, then their connections; at most 1,024 calls \
         wait, 512 of one address, 128 of one connection, and one more is refused with -32005. Work whose \
         time is over, or whose caller has gone, is given up, running code too: `execution aborted (timeout \
         = 5s)`. The `timeout` among the options of a tracer limits the time of each transaction that is traced, as \
         in geth (`execution timeout`), but within the time of the node, which also holds without it.\n\n\
         `rate-per-connection` and `rate-per-ip` are the maximum calls per second, and the size of a burst; a call of \
         the short line counts for 4, of the long line for 20. A call too many has -32005 with `data: {limit, \
         retryAfterMs}`, and HTTP 429 unless it stands in a batch. A batch has one bound of bytes for all its \
         answers, errors included: those beyond it are errors and are not run. It also has one deadline, the longest of \
         `call-timeout-ms`, `trace-timeout-ms` and `logs-timeout-ms`: calls that are not answered by then are errors.\n\n\
         A body or message of 16 KiB or more is parsed and answered on other threads than those that serve sockets, one \
         at a time on each. Addresses take turns there too, with the same limits, and one body more is refused with -32005 \
         (HTTP 429). A batch is not read behind its first call too many.\n\n\
         Names and pages: a request has to be addressed to an IP address or to one of `allowed-hosts`, \
         against DNS rebinding. In HTTP/1.1 it has exactly one `Host`. Pages of `cors-origins` may read answers and open WebSockets; `:*` is any \
         port, `*` is any origin. Bodies have to be `application/json`.\n\n\
         Responses of 16 KiB or more are compressed with gzip if `Accept-Encoding` allows it, on the threads for large bodies; \
         see [costs.md](costs.md#compression).\n\n\
         A connection is closed when it sends no whole request for `idle-timeout-s`, when it does not take \
         64 KiB of its answer, or all of it, within `slow-client-s`, and a WebSocket when it answers no \
         ping for 60 s. A call at work keeps its connection. A client that closes its sending side after a request over HTTP gets a \
         response that is ready within 2 s; later ones are given up, because a client that has gone looks the same. \
         A WebSocket is not read while 4 MiB of \
         its messages, each counted with 1 KiB in addition, have not been answered; no call is begun \
         and nothing pushed while it has 8 MiB to take. Messages are answered as bodies of HTTP are, and a \
         response has the id exactly as it was sent. A batch over WebSocket may open and close subscriptions; their \
         notifications follow its response. A client that violates RFC 6455 is closed with status 1002, \
         text that is not UTF-8 with 1007, and a message above `max-request-bytes` with 1009.\n\n\
         ## Explorers\n\n\
         `evmd start --json-rpc.api eth,net,web3,rpc,txpool,evmd,ots,erigon` serves Otterscan, from any page of this machine by \
         default; elsewhere its origin has to be among `cors-origins`. The transactions of an address are found \
         by an index of all blocks. With `trace` besides, its state tab has what to show. Blockscout traces \
         with `debug` or with `trace`. A tracer keeps 256 MiB of a transaction at most.\n\n## Settings\n\n\
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
            write!(
                out,
                "\n## {namespace}\n\n| Method | Parameters | Runs | Answer |\n|---|---|---|---|\n"
            )
            .unwrap();
        }
        let parameters: Vec<_> = method.parameters.iter().map(|p| format!("`{p}`")).collect();
        let (parameters, place) = (parameters.join(", "), method.run.description());
        writeln!(out, "| `{}` | {parameters} | {place} | {} |", method.name, method.help).unwrap();
    }
    out
}

#[test]
fn document_agrees_with_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rpc.md");
    if std::env::var_os("EVMD_WRITE_DOCS").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, document(), "run with EVMD_WRITE_DOCS=1 to write {}", path.display());
}
