//! The schemas of accounts, calls, rules, stored data and the pool.

use super::Fields;

pub(super) const OBJECTS: &[(&str, Fields)] = &[
    ("StorageProof", &[("key", "String"), ("value", "Quantity"), ("proof", "[Data]")]),
    (
        "AccountProof",
        &[
            ("address", "Address"),
            ("accountProof", "[Data]"),
            ("balance", "Quantity"),
            ("codeHash", "Hash"),
            ("nonce", "Quantity"),
            ("storageHash", "Hash"),
            ("storageProof", "[StorageProof]"),
        ],
    ),
    (
        "Account",
        &[
            ("balance", "Quantity"),
            ("codeHash", "Hash"),
            ("nonce", "Quantity"),
            ("storageRoot", "Hash"),
        ],
    ),
    (
        "AccessListResult",
        &[("accessList", "[AccessListItem]"), ("gasUsed", "Quantity"), ("error?", "String")],
    ),
    ("CallManyResult", &[("value?", "Data"), ("error?", "String")]),
    (
        "BlobSchedule",
        &[("target", "Integer"), ("max", "Integer"), ("baseFeeUpdateFraction", "Integer")],
    ),
    (
        "ForkConfig",
        &[
            ("activationTime", "Integer"),
            ("blobSchedule", "BlobSchedule?"),
            ("chainId", "Quantity"),
            ("forkId", "Data"),
            ("precompiles", "{Address}"),
            ("systemContracts", "{Address}"),
        ],
    ),
    ("Config", &[("current", "ForkConfig"), ("next", "ForkConfig?"), ("last", "ForkConfig?")]),
    ("Head", &[("number", "Quantity"), ("hash", "Hash")]),
    (
        "Kept",
        &[("disabled", "Boolean"), ("oldestBlock", "Quantity"), ("deleteStrategy?", "Object")],
    ),
    (
        "Capabilities",
        &[
            ("head", "Head"),
            ("state", "Kept"),
            ("tx", "Kept"),
            ("logs", "Kept"),
            ("receipts", "Kept"),
            ("blocks", "Kept"),
            ("stateproofs", "Kept"),
        ],
    ),
    ("SimulatedFailure", &[("message", "String"), ("code", "Integer"), ("data?", "Data")]),
    (
        "SimulatedCall",
        &[
            ("returnData", "Data"),
            ("logs", "[Log]"),
            ("gasUsed", "Quantity"),
            ("maxUsedGas", "Quantity"),
            ("status", "Quantity"),
            ("error?", "SimulatedFailure"),
        ],
    ),
    ("SimulatedBlock", &[("..", "Block"), ("calls", "[SimulatedCall]")]),
    ("PoolStatus", &[("pending", "Quantity"), ("queued", "Quantity")]),
    ("PoolContent", &[("pending", "{{Transaction}}"), ("queued", "{{Transaction}}")]),
    ("PoolOfSender", &[("pending", "{Transaction}"), ("queued", "{Transaction}")]),
    ("PoolSummary", &[("pending", "{{String}}"), ("queued", "{{String}}")]),
];
