//! The schemas of the other namespaces.

use super::Fields;

pub(super) const OBJECTS: &[(&str, Fields)] = &[
    (
        "Issuance",
        &[("blockReward", "Quantity"), ("uncleReward", "Quantity"), ("issuance", "Quantity")],
    ),
    (
        "CountedBlock",
        &[
            ("..", "Header"),
            ("logsBloom", "Null"),
            ("size", "Quantity"),
            ("uncles", "[Hash]"),
            ("withdrawals?", "[Withdrawal]"),
            ("transactionCount", "Integer"),
        ],
    ),
    (
        "BlockDetails",
        &[("block", "CountedBlock"), ("issuance", "Issuance"), ("totalFees", "Quantity")],
    ),
    // The input is cut after the four bytes of the selector, and may be shorter.
    ("ShortTransaction", &[("..", "Transaction"), ("input", "String")]),
    ("ShortReceipt", &[("..", "Receipt"), ("logs", "Null"), ("logsBloom", "Null")]),
    (
        "FullBlock",
        &[("..", "Block"), ("transactions", "[ShortTransaction]"), ("transactionCount", "Integer")],
    ),
    ("BlockPage", &[("fullblock", "FullBlock"), ("receipts", "[ShortReceipt]")]),
    ("DatedReceipt", &[("..", "Receipt"), ("timestamp", "Integer")]),
    (
        "TransactionPage",
        &[
            ("txs", "[Transaction]"),
            ("receipts", "[DatedReceipt]"),
            ("firstPage", "Boolean"),
            ("lastPage", "Boolean"),
        ],
    ),
    ("Creation", &[("hash", "Hash"), ("creator", "Address")]),
    (
        "TraceEntry",
        &[
            ("type", "String"),
            ("depth", "Integer"),
            ("from", "Address"),
            ("to", "Address"),
            ("value", "Quantity?"),
            ("input", "Data"),
            ("output", "Data"),
        ],
    ),
    (
        "InternalOperation",
        &[("type", "Integer"), ("from", "Address"), ("to", "Address"), ("value", "Quantity")],
    ),
    (
        "ExecutionPayload",
        &[
            ("parentHash", "Hash"),
            ("feeRecipient", "Address"),
            ("stateRoot", "Hash"),
            ("receiptsRoot", "Hash"),
            ("logsBloom", "Bloom"),
            ("prevRandao", "Hash"),
            ("blockNumber", "Quantity"),
            ("gasLimit", "Quantity"),
            ("gasUsed", "Quantity"),
            ("timestamp", "Quantity"),
            ("extraData", "Data"),
            ("baseFeePerGas", "Quantity"),
            ("blockHash", "Hash"),
            ("transactions", "[Data]"),
            ("withdrawals?", "[Withdrawal]"),
            ("blobGasUsed?", "Quantity"),
            ("excessBlobGas?", "Quantity"),
        ],
    ),
    ("BlobsBundle", &[("commitments", "[Data]"), ("proofs", "[Data]"), ("blobs", "[Data]")]),
    (
        "BuiltBlock",
        &[
            ("executionPayload", "ExecutionPayload"),
            ("blockValue", "Quantity"),
            ("blobsBundle", "BlobsBundle"),
            ("executionRequests", "[Data]"),
            ("shouldOverrideBuilder", "Boolean"),
        ],
    ),
    (
        "Stage",
        &[
            ("name", "String"),
            ("in", "Integer"),
            ("out", "Integer"),
            ("batches", "Integer"),
            ("busy_seconds", "Number"),
            ("idle_seconds", "Number"),
            ("blocked", "Integer"),
            ("rejected", "{Integer}"),
            ("latency_seconds", "[Number]"),
        ],
    ),
    ("Ring", &[("name", "String"), ("depth", "Integer"), ("capacity", "Integer")]),
    (
        "Pipeline",
        &[("head", "Quantity"), ("fault", "Boolean"), ("stages", "[Stage]"), ("rings", "[Ring]")],
    ),
    (
        "FeeBucket",
        &[
            ("fromBlock", "Quantity"),
            ("toBlock", "Quantity"),
            ("baseFeeMin", "Quantity"),
            ("baseFeeMax", "Quantity"),
            ("gasUsed", "Quantity"),
            ("gasUsedRatio", "Number"),
            ("reward", "[Quantity]"),
        ],
    ),
    ("FeemarketParams", &[("params", "Object")]),
    ("FeemarketBaseFee", &[("base_fee", "Decimal")]),
    ("FeemarketBlockGas", &[("gas", "Decimal")]),
    (
        "Endpoints",
        &[
            ("jsonRpc", "String"),
            ("jsonRpcWs", "String"),
            ("rest", "String"),
            ("grpc", "String"),
            ("comet", "String"),
            ("ingest", "String"),
            ("metrics", "String"),
        ],
    ),
    ("EventAttribute", &[("key", "String"), ("value", "String")]),
    ("Event", &[("type", "String"), ("attributes", "[EventAttribute]")]),
    ("WalletAccount", &[("address", "Address"), ("url", "String")]),
    ("Wallet", &[("url", "String"), ("status", "String"), ("accounts", "[WalletAccount]")]),
];
