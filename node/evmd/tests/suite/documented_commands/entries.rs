//! Lists the blocks of all documents except those about benchmarks and load tests, and how each is run.

use super::scenario::Scenario;

/// What the tests do with a block.
#[derive(Clone, Copy)]
pub(super) enum Plan {
    Run(Scenario),
    /// The block needs the programs of `.ci/clients`.
    RunWithClients(Scenario),
    /// The block contains `cargo bench`. A `Plan::Run` only checks the options of this command.
    RunBenchmarks(Scenario),
    /// The reason why the block is not run.
    Leave(&'static str),
}

/// The plan for one block.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) file: &'static str,
    /// The first commands of the block, as `Block::commands` returns them. No other block of the document begins
    /// with them.
    pub(super) begins: &'static str,
    pub(super) plan: Plan,
}

/// A block that runs without preparations.
pub(super) const fn run(file: &'static str, begins: &'static str) -> Entry {
    Entry { file, begins, plan: Plan::Run(Scenario::PLAIN) }
}

/// A block that runs after other commands.
pub(super) const fn run_after(
    file: &'static str,
    begins: &'static str,
    before: &'static str,
) -> Entry {
    Entry { file, begins, plan: Plan::Run(Scenario::after(before)) }
}

pub(super) const fn leave(file: &'static str, begins: &'static str, reason: &'static str) -> Entry {
    Entry { file, begins, plan: Plan::Leave(reason) }
}

const TESTS: &str = "It runs the tests, which CI does anyway; tidy checks the names in it.";
const PACKAGES: &str = "It builds for minutes, or changes the machine; .ci/run tests the Debian package with \
                        node/packaging/test-debian-package, and Docker does not run there.";
const REPLICAS: &str = "Its nodes run at the same time; replication::replicas_serve_the_data_of_their_source starts such nodes.";
const VALIDATORS: &str = "Its nodes run at the same time; validators::processes starts such nodes.";
const PROMOTION: &str =
    "It needs a replica whose producer is lost; replication::promotion promotes such replicas.";
const ENCRYPTION: &str = "It needs a certificate for the address; replication::tls uses one.";
const FUZZING: &str = "It builds the fuzz targets with another compiler or a sanitizer.";

/// Commands that write a genesis file with version 0 of the rules.
macro_rules! version_0 {
    () => {
        "evmd genesis add-account 0x2222222222222222222222222222222222222222 1atest
        sed -i '/\"rules\": \\[/,/\\],/d' genesis.json\n"
    };
}

/// An account that the development genesis does not contain.
macro_rules! account {
    () => {
        "0x2222222222222222222222222222222222222222"
    };
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        file: "README.md",
        begins: "cargo run --release -- start; cargo run --release -- status",
        plan: Plan::Run(Scenario {
            printed: &["262144, native rules", "recover"],
            ..Scenario::PLAIN
        }),
    },
    Entry {
        file: "README.md",
        begins: "export ETH_RPC_URL=http://127.0.0.1:8545; KEY=",
        plan: Plan::RunWithClients(Scenario {
            before: "evmd start",
            replaced: &[("<contractAddress>", "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512")],
            after: concat!("evmd rpc eth_getBalance ", account!(), " latest"),
            // The balance from `cast` and from the node, the return value of the contract, and its log.
            printed: &["\n1.0", "0xde0b6b3a7640000", "\n42\n", "transactionHash: 0x"],
        }),
    },
    Entry {
        file: "README.md",
        begins: "cargo run --release -- init --home /tmp/eth",
        plan: Plan::Run(Scenario {
            before: "cp $REPOSITORY/node/evmd/tests/fixtures/samples/every_fork/* .",
            replaced: &[("/tmp/eth", "eth")],
            after: "evmd status --home eth",
            printed: &["rules, evmd "],
        }),
    },
    leave("CONTRIBUTING.md", "cargo build --release; cargo test --workspace;", TESTS),
    leave("CONTRIBUTING.md", "export EVMD_DATA=FOLDER; export EVMD_FIXTURES=", TESTS),
    Entry {
        file: "CONTRIBUTING.md",
        begins: "cargo bench -p benches --bench mempool",
        plan: Plan::RunBenchmarks(Scenario {
            before: "evmd start; loadtest fill --blocks 15",
            replaced: &[("COMMIT COMMIT", "HEAD HEAD")],
            ..Scenario::PLAIN
        }),
    },
    leave("CONTRIBUTING.md", "EVMD_WRITE_DOCS=1 cargo test", TESTS),
    leave("CONTRIBUTING.md", "EVMD_WRITE_CONVERSATIONS=1 cargo test", TESTS),
    leave(
        "docs/accounts.md",
        "printf PASSWORD | gnome-keyring-daemon",
        "It needs the secret service of a desktop, and a build with the feature os-keyring.",
    ),
    Entry {
        file: "docs/accounts.md",
        begins: "evmd keys unsafe-import-eth-key dev",
        plan: Plan::Run(Scenario {
            before: "evmd start",
            printed: &["F39FD6E51AAD88F6F4CE6AB8827279CFFFB92266", "amount: \"1\""],
            ..Scenario::PLAIN
        }),
    },
    run("docs/accounts.md", "evmd start --json-rpc.keyring file"),
    Entry {
        file: "docs/accounts.md",
        begins: "evmd genesis add-account ADDRESS",
        plan: Plan::Run(Scenario {
            replaced: &[("ADDRESS", account!())],
            after: concat!("evmd rpc eth_getBalance ", account!(), " latest --home DIR"),
            printed: &["genesis.json is a valid genesis", "0x3635c9adc5dea00000"],
            ..Scenario::PLAIN
        }),
    },
    run_after("docs/backups-and-upgrades.md", "evmd snapshot create --verify", "evmd start"),
    run_after("docs/backups-and-upgrades.md", "evmd config set snapshot.every-blocks", "evmd init"),
    run_after(
        "docs/backups-and-upgrades.md",
        "evmd snapshot restore --verify backup",
        "evmd start
        evmd snapshot create backup",
    ),
    leave("docs/backups-and-upgrades.md", "systemctl stop evmd", PACKAGES),
    leave("docs/replication.md", "evmd init --home producer", REPLICAS),
    leave("docs/replication.md", "evmd init --home replica", REPLICAS),
    leave("docs/replication.md", "evmd promote --home second", PROMOTION),
    leave("docs/replication.md", "evmd config set replication.tls-certificate", ENCRYPTION),
    leave("docs/validators.md", "cargo build --release --features consensus", VALIDATORS),
    leave("docs/validators.md", "for i in 0 1 2 3; do evmd start", VALIDATORS),
    leave("docs/validators.md", "evmd init --home replica", VALIDATORS),
    leave("docs/validators.md", "evmd debug certificate 2", VALIDATORS),
    leave("docs/conformance.md", "export EVMD_FIXTURES=", TESTS),
    leave("docs/conformance.md", "cargo test --release -p evmd --test suite recorded_conv", TESTS),
    leave("docs/conformance.md", "cargo test -p evm --lib tracer", TESTS),
    leave(
        "docs/conformance.md",
        "pip install schemathesis",
        "It needs schemathesis, which CI does not install.",
    ),
    Entry {
        file: "docs/cosmos.md",
        begins: "evmd keys unsafe-import-eth-key val",
        plan: Plan::Run(Scenario {
            before: "evmd start",
            printed: &["PROPOSAL_STATUS_VOTING_PERIOD", "base_fee_change_denominator: 8"],
            ..Scenario::PLAIN
        }),
    },
    Entry {
        file: "docs/fee-market.md",
        begins: "evmd query feemarket params",
        plan: Plan::Run(Scenario {
            before: "evmd start
                echo '{\"used\":0,\"max_gas\":10000000,\"elasticity\":2,\"denominator\":8,\
                    \"base\":\"1000000000\",\"decimals\":18,\"floor\":\"0\"}' >questions.jsonl",
            printed: &["elasticity_multiplier: 2", "{\"next\":\"875000000.000000000000000000\"}"],
            ..Scenario::PLAIN
        }),
    },
    leave("docs/packaging.md", "cargo install --locked --path node/evmd", PACKAGES),
    leave("docs/packaging.md", "cargo install --locked cargo-cyclonedx", PACKAGES),
    leave("docs/packaging.md", "sudo apt install ./evmd_0.1.0_amd64.deb", PACKAGES),
    leave("docs/packaging.md", "sudo EVMD_PURGE_DATA=yes apt purge evmd", PACKAGES),
    leave("docs/packaging.md", "docker compose -f node/packaging/compose.yaml build", PACKAGES),
    Entry {
        file: "docs/rules.md",
        begins: "evmd rules show; evmd rules adopt",
        plan: Plan::Run(Scenario {
            before: concat!(version_0!(), "evmd init --genesis genesis.json"),
            after: "evmd rules show",
            printed: &["250000"],
            ..Scenario::PLAIN
        }),
    },
    Entry {
        file: "docs/rules.md",
        begins: "evmd init --genesis genesis.json",
        plan: Plan::Run(Scenario {
            before: concat!(
                version_0!(),
                "evmd init --home source --genesis genesis.json
                evmd start --home source --block-time 10ms
                loadtest fill --blocks 3
                stop-node
                evmd export --home source chain.rlp.gz"
            ),
            ..Scenario::PLAIN
        }),
    },
    leave("docs/platforms.md", ".ci/aarch64", TESTS),
    leave("docs/platforms.md", ".ci/macos", TESTS),
    leave("docs/threat-model.md", "EVMD_LONG_TESTS=1 cargo test", TESTS),
    leave("node/fuzz/README.md", "(cd fuzz && cargo run --release --bin seeds)", FUZZING),
    leave("node/fuzz/README.md", "RUSTC_BOOTSTRAP=1", FUZZING),
    leave("verify/README.md", "cargo test -p secp256k1-batch-recovery", TESTS),
    leave("verify/fuzz/README.md", "cargo +nightly fuzz run recover", FUZZING),
    leave("verify/fuzz/README.md", "cd fuzz; RUSTC_BOOTSTRAP=1", FUZZING),
    Entry {
        file: "verify/fuzz/README.md",
        begins: "mkdir -p fuzz/corpus/recover",
        plan: Plan::Run(Scenario {
            before: "cp -r $REPOSITORY/verify/tests .",
            after: "wc -c fuzz/corpus/recover/batch",
            printed: &["3105 fuzz/corpus/recover/batch"],
            ..Scenario::PLAIN
        }),
    },
];
