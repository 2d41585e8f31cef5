//! Lists the blocks of the documents about benchmarks and load tests, and how each is run.

use super::{
    entries::{Entry, Plan, run, run_after},
    scenario::Scenario,
};

const BENCHMARKS: &str = "docs/benchmarks.md";
const HISTORY: &str = "docs/benchmark-history.md";
const LOAD_TESTING: &str = "docs/load-testing.md";

/// A chain with contents for `loadtest reads`.
const FILLED: &str = "evmd start --home DIR; loadtest fill --blocks 15\n";
/// Nodes of evmd and anvil with contents, for a block that calls the address of anvil `URL`.
const WITH_ANVIL: Scenario = Scenario {
    before: "evmd start; loadtest fill --blocks 15
        anvil --port 28545; loadtest fill --blocks 15 --url http://127.0.0.1:28545",
    replaced: &[("URL", "http://127.0.0.1:28545")],
    ..Scenario::PLAIN
};

pub(super) const ENTRIES_LOAD: &[Entry] = &[
    Entry {
        file: HISTORY,
        begins: "cargo bench --profile release --workspace --bench pipeline -- accounts=1000000 count=2000000",
        plan: Plan::RunBenchmarks(WITH_ANVIL),
    },
    Entry {
        file: HISTORY,
        begins: "cargo bench --profile release --workspace --bench pipeline -- accounts=1000000 count=400000",
        plan: Plan::Run(WITH_ANVIL),
    },
    run(HISTORY, "cargo bench --profile maxperf --workspace --bench pipeline"),
    run_after(
        BENCHMARKS,
        "evmd init --home DIR --genesis genesis.json; evmd import",
        "cp $REPOSITORY/node/evmd/tests/fixtures/samples/every_fork/* .",
    ),
    Entry {
        file: BENCHMARKS,
        begins: "cargo bench --profile maxperf --workspace --bench pipeline -- accounts=1000000 count=15000000 \
                 block=20000 window=3; cargo bench",
        plan: Plan::RunBenchmarks(Scenario::PLAIN),
    },
    Entry {
        file: BENCHMARKS,
        begins: "cargo bench --profile maxperf --workspace --bench pipeline -- accounts=1000000 count=15000000 \
                 block=20000 window=3 json=$PWD/run.json",
        plan: Plan::RunBenchmarks(Scenario { printed: &["first to saturate"], ..Scenario::PLAIN }),
    },
    Entry {
        file: BENCHMARKS,
        begins: "loadtest genesis --accounts 1000000 genesis.json; evmd init --home DIR --genesis genesis.json; \
                 loadtest kill",
        plan: Plan::Run(Scenario {
            printed: &["no answered transaction was lost"],
            ..Scenario::PLAIN
        }),
    },
    run(BENCHMARKS, "evmd start --home DIR --ingest.address 127.0.0.1:8547"),
    run(
        BENCHMARKS,
        "loadtest genesis --accounts 1000000 genesis.json; evmd init --home DIR --genesis genesis.json && evmd start",
    ),
    run_after(
        BENCHMARKS,
        "loadtest fill --blocks 15; loadtest soak",
        "loadtest genesis --accounts 1000000 genesis.json
        evmd init --home DIR --genesis genesis.json
        evmd start --home DIR --block-time 20ms",
    ),
    run(BENCHMARKS, "evmd start --home DIR --block-time 10ms; loadtest fill --blocks 1100"),
    run_after(
        BENCHMARKS,
        "evmd start --home DIR --no-produce; cargo run --release -p benches --example jsonrpsee_noop",
        FILLED,
    ),
    Entry {
        file: BENCHMARKS,
        begins: "evmd start --home A; anvil",
        // `loadtest fees` needs a hundred blocks.
        plan: Plan::Run(Scenario {
            replaced: &[("loadtest fill", "loadtest fill --blocks 110")],
            ..Scenario::PLAIN
        }),
    },
    run_after(BENCHMARKS, "evmd start --no-produce --json-rpc.api", WITH_ANVIL.before),
    run(BENCHMARKS, "evmd start --block-time 10ms; anvil"),
    run(LOAD_TESTING, "cargo build --release -p evmd -p loadtest"),
    run(LOAD_TESTING, "loadtest genesis --accounts 1000000 genesis.json"),
    run(LOAD_TESTING, "evmd start --home DIR &; loadtest fill && loadtest attack"),
    run_after(LOAD_TESTING, "anvil --block-time 1", FILLED),
    run_after(LOAD_TESTING, "cargo run --release -p benches --example jsonrpsee_noop", FILLED),
];
