//! Tests that `docs/rpc.md` agrees with the tables of the program. `EVMD_WRITE_DOCS=1` writes the file.

use config::Config;
use std::{fmt::Write, path::Path};

fn document() -> String {
    let settings = Config::default().json_rpc;
    let mut out = String::from(
        "# JSON-RPC\n\n\
         `EVMD_WRITE_DOCS=1 cargo test -p evmd --test suite rpc_docs` generates this page from the tables of the \
         program, and a test compares it with them.\n\n\
         Errors have geth's codes, and its texts if tools compare them. An error about a limit has \
         `data: {limit, suggested}`. For a range of blocks, `suggested` is a range that fits. The code is -32005, \
         with these exceptions: -32600 for a batch with too many calls, -32003 for a response that is too large, \
         -32000 for work that timed out, -32002 for a call whose batch timed out, -32006 for too many \
         subscriptions, and -38026 for too many slots of eth_getStorageValues or calls of eth_simulateV1.\n\
         All parts of a call, and all calls of a batch, see the same block. A block parameter is a tag, a number, a \
         hash or an object of EIP-1898. `safe` and `finalized` are the newest block. Blocks of a producer are final. \
         If a node undoes blocks (`storage.undo-blocks`), subscriptions and filters report their logs again with \
         `removed: true`, and a request that began before is answered from the old branch or fails with an error that \
         asks to repeat it.\n\n\
         ## The pending block\n\n\
         `pending` is the next block as this node would produce it now. It has the number, timestamp, base fee and \
         fork of the next block, and contains the best transactions of the pool, including Cosmos transactions, \
         executed on the state of the newest block. It is empty if the node accepts no transactions, because it only \
         imports, or because it produces no blocks and `mempool.accept-without-production` is off. It is supported \
         for balances, code, storage, calls, estimates, access lists, simulations, blocks, receipts, fee history and \
         the fee market. eth_getProof, eth_getAccount, and the methods that trace or inspect blocks (`debug`, \
         `trace_block`, `ots`) refuse it. So does debug_traceCall, as in geth. There are no pending logs. \
         eth_getTransactionCount counts the transactions in the pool.\n\n\
         A pending block contains at most 10,000 transactions of the pool with at most 100,000,000 gas, and executes \
         them for at most 0.5 s. It is built when a client requests it. One request builds it while the others \
         wait, and it is served for up to one second unless there is a new block ([ADR](adr/0028-pending-block.md)).\n\n\
         ## Parameters\n\n\
         As in geth, field names in request objects are compared without regard to ASCII case, the last of several \
         fields with the same name counts, and unknown fields are ignored; clients rely on this. An error names the \
         field: `invalid argument 2: 0x…: balance: hex string without 0x prefix`. The members of a call itself \
         (`jsonrpc`, `method`, `params`, `id`) and typed data (EIP-712) are case-sensitive, as their specifications \
         require.\n\n\
         Hashes, data, quantities and storage keys need `0x`. Addresses may be in hex, with `0x` or without, or in \
         Bech32. Numbers of methods of cosmos/evm, Otterscan and Parity may be JSON numbers, and the count of \
         eth_feeHistory may be decimal, as in geth.\n\n\
         `rpc.discover` returns an OpenRPC document of the enabled methods, with schemas of parameters and results. \
         personal_listAccounts is also enabled by `eth`. The other methods of `personal` are disabled by default.\n\n\
         ## Limits and fairness\n\n\
         Reads that take microseconds run inline, on the thread that serves the socket. Other calls run in one of two \
         queues, each with its own threads at low priority: the short queue for work of milliseconds, and the long \
         queue for scans and traces. A queue is served round-robin by address, and within an address by connection. \
         At most 1,024 calls wait, 512 from one address and 128 from one connection. Further calls are refused with \
         -32005. Work is cancelled when its time has expired or its caller has disconnected, even during the \
         execution of code: `execution aborted (timeout = 5s)`. As in geth, the `timeout` in the options of a tracer \
         limits the time of each traced transaction (`execution timeout`). The timeout of the node applies in \
         addition.\n\n\
         `rate-per-connection` and `rate-per-ip` are the maximum number of calls per second, and the size of a burst; values \
         from 1 to 19 count as 20, and 0 means no limit. \
         A call in the short queue counts as 4 calls, and one in the long queue as 20. A call above the limit has \
         -32005 with `data: {limit, retryAfterMs}`, and HTTP 429 unless it is part of a batch. The responses of a \
         batch, including errors, share one limit in bytes. Calls above it have an error and do not run. A batch also \
         has one deadline, the maximum of `call-timeout-ms`, `trace-timeout-ms` and `logs-timeout-ms`. Calls that \
         are not answered by then have an error.\n\n\
         Bodies and messages of 16 KiB or more are parsed and answered by separate threads, one at a time on each. \
         These also serve addresses round-robin with the same limits, and refuse further bodies with -32005 (HTTP \
         429). A batch is parsed only up to the first call above the limit.\n\n\
         As a protection against DNS rebinding, the `Host` of a request must be an IP address or one of \
         `allowed-hosts`. HTTP/1.1 requests have exactly one `Host`. Pages of `cors-origins` may read responses and \
         open WebSockets; `:*` is any port, and `*` is any origin. Bodies must have the type `application/json`.\n\n\
         Responses of 16 KiB or more are compressed with gzip if `Accept-Encoding` allows it, on the threads for \
         large bodies (see [costs.md](costs.md#compression)).\n\n\
         A connection is closed if it does not send a complete request within `idle-timeout-s`, or does not read 64 \
         KiB or the rest of its response within `slow-client-s`. A WebSocket is closed if it does not answer a ping \
         within 60 s. A connection with a running call stays open. If a client closes its sending side after an HTTP \
         request, it receives a response that is ready within 2 s. Later responses are cancelled, because a client \
         that has disconnected looks the same. A WebSocket is not read while 4 MiB of its messages, each counted with \
         1 KiB in addition, are unanswered. While 8 MiB of responses are unread, no call starts and no notification is \
         sent. Messages are answered like HTTP bodies, and a response has the id exactly as it was sent. A batch over \
         WebSocket may open and close subscriptions, and their notifications follow its response. A client that \
         violates RFC 6455 is closed with status 1002, text that is not UTF-8 with 1007, and a message above \
         `max-request-bytes` with 1009.\n\n\
         ## Explorers\n\n\
         `evmd start --json-rpc.api eth,net,web3,rpc,txpool,evmd,ots,erigon` supports Otterscan. By default it accepts \
         pages of the same machine; other origins must be in `cors-origins`. An index of all blocks contains the \
         transactions of each address. Otterscan's state tab also needs `trace`. Blockscout traces with `debug` or \
         `trace`. A tracer stores at most 256 MiB for one transaction.\n\n## Settings\n\n\
         | Setting of `[json-rpc]` | Default |\n|---|---|\n",
    );
    let settings = toml::Value::try_from(settings).unwrap();
    for (key, value) in settings.as_table().unwrap() {
        writeln!(out, "| `{key}` | `{}` |", value.to_string().replace('"', "")).unwrap();
    }
    out.push_str("\n## Subscriptions\n\nOver WebSocket, by `eth_subscribe`:\n\n| Name | Notifications |\n|---|---|\n");
    for (name, what) in rpc::SUBSCRIPTIONS {
        writeln!(out, "| `{name}` | {what} |").unwrap();
    }
    let mut namespace = "";
    for method in rpc::methods() {
        if method.namespace() != namespace {
            namespace = method.namespace();
            write!(
                out,
                "\n## {namespace}\n\n| Method | Parameters | Runs | Result |\n|---|---|---|---|\n"
            )
            .unwrap();
        }
        let parameters: Vec<_> = method.parameters.iter().map(|p| format!("`{p}`")).collect();
        let (parameters, runs) = (parameters.join(", "), method.run.description());
        writeln!(out, "| `{}` | {parameters} | {runs} | {} |", method.name, method.help).unwrap();
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
