//! Lists the costs of the methods of CometBFT's RPC.

use ::server::costs::{CostClass, InterfaceCosts};

const INLINE: &str = "inline";
const BLOCKING: &str = "blocking thread";
const READS: &str = "in turn: reads";

/// The costs of the methods of CometBFT's RPC.
pub const INTERFACE: InterfaceCosts = InterfaceCosts {
    name: "CometBFT's RPC",
    threads: "As for gRPC, with which it shares the concurrency limits. A subscription reads each new block on a blocking thread, one \
             at a time for all clients.",
    classes: &[
        CostClass {
            work: "Responds from memory, waits, or hands the work to another interface",
            grows_with: "what it hands over: `abci_query` costs what its gRPC method does, `tx_search` and `block_search` are searches, \
                         `unconfirmed_txs` counts as one search",
            bound: "that of the other interface; 16 `broadcast_tx_commit` wait at once, for 10 s; 100 transactions of \
                    the pool, or 100 blocks, are shown",
            threads: &[INLINE],
            methods: &[
                "abci_info",
                "abci_query",
                "block_search",
                "broadcast_tx_async",
                "broadcast_tx_commit",
                "broadcast_tx_sync",
                "health",
                "net_info",
                "num_unconfirmed_txs",
                "subscribe",
                "tx_search",
                "unconfirmed_txs",
                "unsubscribe",
                "unsubscribe_all",
            ],
        },
        CostClass {
            work: "Reads one or two headers, or the rules of the chain",
            grows_with: "nothing; `genesis` with the genesis file, without its accounts",
            bound: "16 MiB of a genesis file",
            threads: &[BLOCKING],
            methods: &[
                "commit",
                "consensus_params",
                "genesis",
                "header",
                "header_by_hash",
                "status",
                "validators",
            ],
        },
        CostClass {
            work: "Reads a whole block, or 20 of them for `blockchain`",
            grows_with: "the transactions and logs of the blocks",
            bound: "the block gas limit",
            threads: &[READS],
            methods: &["block", "block_by_hash", "block_results", "blockchain", "tx"],
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comet;

    #[test]
    fn every_method_is_in_one_class_and_runs_as_the_class_states() {
        let mut classes = INTERFACE.by_method();
        for (name, thread) in comet::method_threads() {
            let class = classes.remove(name).unwrap_or_else(|| panic!("{name} has no class"));
            assert!(class.threads.contains(&thread), "{name} runs {thread}");
        }
        assert!(classes.is_empty(), "classes of unknown methods: {:?}", classes.keys());
    }
}
