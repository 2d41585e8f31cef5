//! Lists the costs of the JSON-RPC methods by class, for `docs/costs.md`.

use ::server::costs::{CostClass, InterfaceCosts};

const INLINE: &str = "inline";
const INLINE_OR_SHORT: &str = "inline or short queue";
const INLINE_OR_LONG: &str = "inline or long queue";
const SHORT: &str = "short queue";
const LONG: &str = "long queue";
const WAITS: &str = "inline, waits for the pipeline";

/// The costs of the JSON-RPC methods.
pub const INTERFACE: InterfaceCosts = InterfaceCosts {
    name: "JSON-RPC",
    threads: "`inline` is the thread that serves the socket. The short and the long queue have threads of their own at low \
             priority, and serve addresses and connections fairly (see [rpc.md](rpc.md#limits-and-fairness)). \
             `inline or ...` runs inline if the response is cached or the work is small, and in the queue otherwise.\n\n\
             A call with the block `pending` may have to build the pending block first: in the short queue, at most \
             once per second and head (on a development chain, for each call), with at most 100,000,000 gas, 10,000 transactions of the pool and 0.5 s. \
             Blocks, receipts, transactions of a block and `eth_simulateV1` also need its roots: in the long queue, an \
             update of the trie, whose work grows with the changes since the last checkpoint, up to 200,000 accounts \
             and slots. One call does this while the others wait. The table contains the work after that.",
    classes: &[
        CostClass {
            work: "Responds from memory",
            grows_with: "the request",
            bound: "`max-request-bytes`",
            threads: &[INLINE],
            methods: &[
                "eth_chainId",
                "eth_protocolVersion",
                "eth_syncing",
                "eth_accounts",
                "eth_coinbase",
                "eth_sign",
                "eth_signTypedData",
                "eth_signTypedData_v4",
                "eth_blockNumber",
                "eth_pendingTransactions",
                "eth_config",
                "eth_capabilities",
                "eth_newFilter",
                "eth_newBlockFilter",
                "eth_newPendingTransactionFilter",
                "eth_uninstallFilter",
                "eth_blobBaseFee",
                "net_version",
                "net_listening",
                "net_peerCount",
                "rpc.discover",
                "rpc_discover",
                "rpc_modules",
                "web3_clientVersion",
                "web3_sha3",
                "debug_getBadBlocks",
                "ots_getApiLevel",
                "evmd_pipeline",
                "evmd_endpoints",
                "personal_listAccounts",
                "personal_listWallets",
                "personal_lockAccount",
                "personal_ecRecover",
            ],
        },
        CostClass {
            work: "Reads a few rows: a header, an account, a slot, code",
            grows_with: "nothing",
            bound: "24,576 bytes of code (EIP-170)",
            threads: &[INLINE],
            methods: &[
                "eth_getBalance",
                "eth_getCode",
                "eth_getStorageAt",
                "eth_getBlockTransactionCountByNumber",
                "eth_getBlockTransactionCountByHash",
                "eth_getHeaderByNumber",
                "eth_getHeaderByHash",
                "debug_getRawHeader",
                "debug_getHeaderRlp",
                "ots_hasCode",
                "erigon_getHeaderByNumber",
            ],
        },
        CostClass {
            work: "Reads the fee rows of recent blocks, once for each head",
            grows_with: "the transactions of recent blocks",
            bound: "20 blocks with transactions among the last 128",
            threads: &[INLINE],
            methods: &["eth_gasPrice", "eth_maxPriorityFeePerGas", "eth_baseFee"],
        },
        CostClass {
            work: "Reads the body of a block and decodes one transaction, or no transaction",
            grows_with: "the bytes of a block, which are copied",
            bound: "the block gas limit: 16 gas for each byte",
            threads: &[INLINE],
            methods: &[
                "eth_getTransactionByBlockHashAndIndex",
                "eth_getTransactionByBlockNumberAndIndex",
                "eth_getRawTransactionByBlockHashAndIndex",
                "eth_getRawTransactionByBlockNumberAndIndex",
                "eth_getUncleCountByBlockNumber",
                "eth_getUncleCountByBlockHash",
                "eth_getUncleByBlockNumberAndIndex",
                "eth_getUncleByBlockHashAndIndex",
            ],
        },
        CostClass {
            work: "The same, and queries the pool if the transaction is not mined",
            grows_with: "the bytes of a block; a Cosmos transaction is searched by its SHA-256 \
                         in its block",
            bound: "the block gas limit",
            threads: &[WAITS],
            methods: &[
                "eth_getTransactionByHash",
                "eth_getRawTransactionByHash",
                "debug_getRawTransaction",
            ],
        },
        CostClass {
            work: "Reads several slots",
            grows_with: "the requested slots",
            bound: "1,024 slots, 64 of them inline",
            threads: &[INLINE_OR_SHORT],
            methods: &["eth_getStorageValues"],
        },
        CostClass {
            work: "Decodes the receipts of a block",
            grows_with: "the logs of the block",
            bound: "the block gas limit: 8 gas for each byte of a log; 256 KiB inline",
            threads: &[INLINE_OR_SHORT],
            methods: &["eth_getTransactionReceipt", "eth_getTransactionLogs"],
        },
        CostClass {
            work: "Reads and serialises a whole block",
            grows_with: "the transactions and logs of the block",
            bound: "the block gas limit; inline, 16 KiB of a body or of receipts, or 128 KiB of raw bytes",
            threads: &[INLINE_OR_SHORT, SHORT],
            methods: &[
                "eth_getBlockByNumber",
                "eth_getBlockByHash",
                "eth_getBlockReceipts",
                "debug_getRawBlock",
                "debug_getBlockRlp",
                "debug_getRawReceipts",
                "ots_getBlockDetails",
                "ots_getBlockDetailsByHash",
                "ots_getBlockTransactions",
            ],
        },
        CostClass {
            work: "Reads the record of the modules in a block. That of the newest block is in memory",
            grows_with: "the Cosmos transactions of the block, whose events it contains",
            bound: "the block gas limit: about 45,000 gas for each Cosmos transaction",
            threads: &[INLINE_OR_SHORT, SHORT],
            methods: &[
                "evmd_feemarketParams",
                "evmd_feemarketBaseFee",
                "evmd_feemarketBlockGas",
                "evmd_blockEvents",
            ],
        },
        CostClass {
            work: "Finds the block in which an account sent a nonce, reads it and decodes a few transactions",
            grows_with: "the logarithm of the height, and the bytes of a block",
            bound: "64 state reads; the block gas limit",
            threads: &[SHORT],
            methods: &["eth_getTransactionBySenderAndNonce", "ots_getTransactionBySenderAndNonce"],
        },
        CostClass {
            work: "Executes a call one or several times",
            grows_with: "the gas of the call",
            bound: "`gas-cap` and `call-timeout-ms`",
            threads: &[INLINE_OR_SHORT, SHORT],
            methods: &[
                "eth_call",
                "eth_estimateGas",
                "eth_createAccessList",
                "eth_fillTransaction",
            ],
        },
        CostClass {
            work: "Reads the fee rows of a range",
            grows_with: "the requested blocks and percentiles",
            bound: "`feehistory-cap`; 100,000 blocks in 2,048 buckets for `evmd_feeQuantiles`",
            threads: &[INLINE_OR_SHORT, LONG],
            methods: &["eth_feeHistory", "evmd_feeQuantiles"],
        },
        CostClass {
            work: "Looks logs up in the index and decodes the receipts of the blocks that it returns",
            grows_with: "the range, and the blocks that may have matching logs",
            bound: "`logs-cap`, `logs-timeout-ms`, `max-response-bytes`; inline 64 blocks, \
                    256 KiB of receipts, 64 addresses and topics, 256 logs and 0.5 ms",
            threads: &[INLINE_OR_LONG, LONG],
            methods: &["eth_getLogs", "eth_getFilterChanges", "eth_getFilterLogs"],
        },
        CostClass {
            work: "Searches the transactions of an address, block by block",
            grows_with: "the blocks in which the address appears, each of which is read completely",
            bound: "`trace-timeout-ms`, a page of 1,000 transactions",
            threads: &[LONG],
            methods: &["ots_searchTransactionsBefore", "ots_searchTransactionsAfter"],
        },
        CostClass {
            work: "Reads the trie",
            grows_with: "the requested slots, and the changes since the last checkpoint of the trie",
            bound: "1,024 slots, 200,000 changed accounts and slots",
            threads: &[LONG],
            methods: &["eth_getProof", "eth_getAccount"],
        },
        CostClass {
            work: "Reads a page of the trie, and hashes the accounts or slots of the newest state until those of the \
                   page are found. `debug_storageRangeAt` first executes transactions of the block",
            grows_with: "the accounts of the chain, or the slots of the accounts of the page; the changes since the \
                         last checkpoint of the trie",
            bound: "256 accounts with 65,536 slots, or 1,024 slots; 200,000 changed accounts and slots; \
                    `trace-timeout-ms`, `max-response-bytes`",
            threads: &[LONG],
            methods: &["debug_storageRangeAt", "debug_accountRange"],
        },
        CostClass {
            work: "Reads the changes by blocks, and the state before and after them",
            grows_with: "the accounts and slots that the blocks changed",
            bound: "200,000 changed accounts and slots, `trace-timeout-ms`",
            threads: &[LONG],
            methods: &["debug_getModifiedAccountsByNumber", "debug_getModifiedAccountsByHash"],
        },
        CostClass {
            work: "Executes a block again on the trie of its parent",
            grows_with: "the gas of the block, its transactions times the accounts that it touches, and the changes \
                         since the last checkpoint of the trie",
            bound: "200,000 changed accounts and slots, `trace-timeout-ms`, `max-response-bytes`",
            threads: &[LONG],
            methods: &["debug_intermediateRoots", "debug_executionWitness"],
        },
        CostClass {
            work: "Executes transactions of blocks again, or several calls",
            grows_with: "the gas of the execution, and the size of the trace",
            bound: "`trace-timeout-ms` or `call-timeout-ms`, `max-response-bytes`, 256 MiB for the trace of a transaction",
            threads: &[LONG],
            methods: &[
                "eth_simulateV1",
                "debug_traceTransaction",
                "debug_traceBlockByNumber",
                "debug_traceBlockByHash",
                "debug_traceBlock",
                "debug_traceCall",
                "trace_block",
                "trace_transaction",
                "trace_get",
                "trace_filter",
                "trace_replayTransaction",
                "trace_replayBlockTransactions",
                "trace_call",
                "trace_callMany",
                "eth_callMany",
                "trace_rawTransaction",
                "ots_getContractCreator",
                "ots_traceTransaction",
                "ots_getInternalOperations",
                "ots_getTransactionError",
            ],
        },
        CostClass {
            work: "Builds a block",
            grows_with: "the gas of the block",
            bound: "the block gas limit; the namespace is for test suites and disabled by default",
            threads: &[WAITS],
            methods: &["testing_buildBlockV1"],
        },
        CostClass {
            work: "Submits a transaction, or queries the pool about one account",
            grows_with: "the size of the transaction, or the pooled transactions of one account",
            bound: "the limits of the mempool",
            threads: &[WAITS],
            methods: &[
                "eth_sendRawTransaction",
                "eth_sendRawTransactionSync",
                "eth_sendTransaction",
                "eth_signTransaction",
                "eth_getTransactionCount",
                "txpool_status",
                "txpool_contentFrom",
                "personal_sendTransaction",
            ],
        },
        CostClass {
            work: "Serialises the whole pool on a blocking thread",
            grows_with: "the pool",
            bound: "the limits of the mempool, `max-response-bytes`; one call at a time",
            threads: &[WAITS],
            methods: &["txpool_content", "txpool_inspect"],
        },
        CostClass {
            work: "Reads or sets how a development chain produces blocks, and whose transactions it sends",
            grows_with: "nothing",
            bound: "10,000 impersonated accounts; development chains only",
            threads: &[INLINE],
            methods: &[
                "evm_setAutomine",
                "evm_setIntervalMining",
                "anvil_setAutomine",
                "anvil_getAutomine",
                "anvil_setIntervalMining",
                "anvil_getIntervalMining",
                "anvil_setLoggingEnabled",
                "hardhat_setLoggingEnabled",
                "anvil_metadata",
                "anvil_nodeInfo",
                "hardhat_getAutomine",
                "hardhat_metadata",
                "anvil_impersonateAccount",
                "anvil_stopImpersonatingAccount",
                "anvil_autoImpersonateAccount",
                "hardhat_impersonateAccount",
                "hardhat_stopImpersonatingAccount",
                "hardhat_autoImpersonateAccount",
            ],
        },
        CostClass {
            work: "Controls the blocks, the clock, the head and the accounts of a development chain",
            grows_with: "the number of blocks; after an undo beyond `storage.undo-blocks`, the length of the chain",
            bound: "100,000 blocks a call; 1,024 snapshots; development chains only",
            threads: &[WAITS],
            methods: &[
                "evm_mine",
                "evm_increaseTime",
                "evm_setNextBlockTimestamp",
                "evm_snapshot",
                "evm_revert",
                "anvil_mine",
                "anvil_increaseTime",
                "anvil_setNextBlockTimestamp",
                "anvil_setBlockTimestampInterval",
                "anvil_removeBlockTimestampInterval",
                "anvil_snapshot",
                "anvil_revert",
                "anvil_dropTransaction",
                "anvil_reset",
                "hardhat_mine",
                "hardhat_dropTransaction",
                "hardhat_reset",
                "eth_sendUnsignedTransaction",
                "hardhat_setPrevRandao",
                "evm_setAccountBalance",
                "evm_setAccountNonce",
                "evm_setAccountCode",
                "evm_setAccountStorageAt",
                "anvil_setBalance",
                "anvil_setNonce",
                "anvil_setCode",
                "anvil_setStorageAt",
                "anvil_setNextBlockBaseFeePerGas",
                "anvil_setCoinbase",
                "hardhat_setBalance",
                "hardhat_setNonce",
                "hardhat_setCode",
                "hardhat_setStorageAt",
                "hardhat_setNextBlockBaseFeePerGas",
                "hardhat_setCoinbase",
            ],
        },
        CostClass {
            work: "Sets every account of a dump in one block",
            grows_with: "the dump",
            bound: "`max-request-bytes`; 256 MiB of JSON; development chains only",
            threads: &[WAITS],
            methods: &["anvil_loadState", "hardhat_loadState"],
        },
        CostClass {
            work: "Reads the whole state of a development chain",
            grows_with: "accounts and storage slots",
            bound: "100,000 accounts, 1,000,000 slots, `max-response-bytes`; development chains only",
            threads: &[LONG],
            methods: &["anvil_dumpState", "hardhat_dumpState"],
        },
        CostClass {
            work: "Derives a key from a passphrase (scrypt)",
            grows_with: "nothing",
            bound: "some tenths of a second; one call at a time",
            threads: &[LONG],
            methods: &[
                "personal_newAccount",
                "personal_importRawKey",
                "personal_unlockAccount",
                "personal_sign",
            ],
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::methods;

    #[test]
    fn every_method_is_in_one_class_that_lists_how_it_runs() {
        let mut classes = INTERFACE.by_method();
        for method in methods() {
            let class = classes.remove(method.name);
            let class = class.unwrap_or_else(|| panic!("{} has no class", method.name));
            let thread = method.run.description();
            assert!(class.threads.contains(&thread), "{} runs {thread}", method.name);
        }
        assert!(classes.is_empty(), "no such methods: {:?}", classes.keys());
    }
}
