//! Lists the costs of the methods of gRPC, and so of REST, which calls the gRPC services.

use ::server::costs::{CostClass, InterfaceCosts};

const INLINE: &str = "inline";
const BLOCKING: &str = "blocking thread";
const READS: &str = "in turn: reads";
const CALLS: &str = "in turn: calls";
const SEARCHES: &str = "in turn: searches";
const WAITS: &str = "waits for the pool";

/// The costs of the methods of gRPC and REST.
pub const INTERFACE: InterfaceCosts = InterfaceCosts {
    name: "gRPC and REST",
    threads: "`inline` is the thread that serves the socket. `in turn` is a blocking thread when it is the turn of \
             the query: at most half of the cores work on each of the three kinds at once; 256 reads, 8 calls and \
             8 searches wait, and one more is refused with code 8. REST converts answers above 64 KiB to JSON on a \
             blocking thread, as many at once as half of the cores.",
    classes: &[
        CostClass {
            work: "Responds from memory, or reads a few rows: a header, an account, a slot, code",
            grows_with: "nothing",
            bound: "24,576 bytes of code (EIP-170)",
            threads: &[INLINE],
            methods: &[
                "cosmos.auth.v1beta1.Query/Params",
                "cosmos.auth.v1beta1.Query/ModuleAccounts",
                "cosmos.auth.v1beta1.Query/ModuleAccountByName",
                "cosmos.auth.v1beta1.Query/Bech32Prefix",
                "cosmos.auth.v1beta1.Query/AddressBytesToString",
                "cosmos.auth.v1beta1.Query/AddressStringToBytes",
                "cosmos.bank.v1beta1.Query/Balance",
                "cosmos.bank.v1beta1.Query/AllBalances",
                "cosmos.bank.v1beta1.Query/SpendableBalances",
                "cosmos.bank.v1beta1.Query/SpendableBalanceByDenom",
                "cosmos.bank.v1beta1.Query/Params",
                "cosmos.bank.v1beta1.Query/DenomMetadata",
                "cosmos.bank.v1beta1.Query/DenomMetadataByQueryString",
                "cosmos.bank.v1beta1.Query/DenomsMetadata",
                "cosmos.bank.v1beta1.Query/SendEnabled",
                "cosmos.evm.vm.v1.Query/Account",
                "cosmos.evm.vm.v1.Query/CosmosAccount",
                "cosmos.evm.vm.v1.Query/ValidatorAccount",
                "cosmos.evm.vm.v1.Query/Balance",
                "cosmos.evm.vm.v1.Query/Storage",
                "cosmos.evm.vm.v1.Query/Code",
                "cosmos.evm.vm.v1.Query/BaseFee",
                "cosmos.evm.vm.v1.Query/Config",
                "cosmos.gov.v1.Query/Params",
                "cosmos.gov.v1beta1.Query/Params",
                "cosmos.base.tendermint.v1beta1.Service/GetNodeInfo",
                "cosmos.base.tendermint.v1beta1.Service/GetSyncing",
                "cosmos.base.tendermint.v1beta1.Service/GetLatestValidatorSet",
                "cosmos.base.tendermint.v1beta1.Service/GetValidatorSetByHeight",
                "cosmos.base.node.v1beta1.Service/Config",
                "cosmos.base.node.v1beta1.Service/Status",
                "cosmos.consensus.v1.Query/Params",
            ],
        },
        CostClass {
            work: "Searches for the public key of an account that is not cached",
            grows_with: "the logarithm of the height, and the bytes of two blocks, which are copied and not decoded",
            bound: "128 state reads, 2 sender lists, 3 bodies; 2 transactions and 16 KiB of transactions with \
                    authorizations are decoded; 2 signatures and 8 authorizations are recovered. 32,768 accounts \
                    are cached",
            threads: &[BLOCKING],
            methods: &[
                "cosmos.auth.v1beta1.Query/Account",
                "cosmos.auth.v1beta1.Query/AccountInfo",
            ],
        },
        CostClass {
            work: "Reads the record of the modules in a block; that of the newest block is in memory",
            grows_with: "the Cosmos transactions of the block, whose events it holds",
            bound: "the block gas limit: about 45,000 gas for each Cosmos transaction",
            threads: &[BLOCKING],
            methods: &[
                "cosmos.evm.feemarket.v1.Query/Params",
                "evmd.distribution.v1.Query/Params",
                "cosmos.evm.feemarket.v1.Query/BaseFee",
                "cosmos.evm.feemarket.v1.Query/BlockGas",
                "feemarket.Query/Params",
                "feemarket.Query/BaseFee",
                "feemarket.Query/BlockGas",
                "feemarket.v1.Query/Params",
                "feemarket.v1.Query/BaseFee",
                "feemarket.v1.Query/BlockGas",
                "cosmos.evm.vm.v1.Query/Params",
                "cosmos.evm.vm.v1.Query/GlobalMinGasPrice",
            ],
        },
        CostClass {
            work: "Sums the accounts of genesis, once in the life of the process",
            grows_with: "the accounts of genesis",
            bound: "the genesis file",
            threads: &[BLOCKING],
            methods: &[
                "cosmos.bank.v1beta1.Query/TotalSupply",
                "cosmos.bank.v1beta1.Query/SupplyOf",
            ],
        },
        CostClass {
            work: "Decodes or encodes a transaction of the request",
            grows_with: "the request",
            bound: "`max-request-bytes`, 8 levels of messages",
            threads: &[BLOCKING],
            methods: &["cosmos.tx.v1beta1.Service/TxDecode", "cosmos.tx.v1beta1.Service/TxEncode"],
        },
        CostClass {
            work: "Submits a transaction, or queries the pool for one account",
            grows_with: "the transaction",
            bound: "the limits of the mempool",
            threads: &[WAITS],
            methods: &[
                "cosmos.tx.v1beta1.Service/BroadcastTx",
                "evmd.mempool.v1.Query/PendingSequence",
            ],
        },
        CostClass {
            work: "Reads a whole block, and writes out all or some of it",
            grows_with: "the transactions and logs of the block",
            bound: "the block gas limit",
            threads: &[READS],
            methods: &[
                "cosmos.tx.v1beta1.Service/GetTx",
                "cosmos.tx.v1beta1.Service/GetBlockWithTxs",
                "cosmos.base.tendermint.v1beta1.Service/GetLatestBlock",
                "cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight",
            ],
        },
        CostClass {
            work: "Reads the governance state; that of the newest block is in memory",
            grows_with: "proposals, deposits and votes that are kept",
            bound: "64 waiting, 256 voted on and 256 ended proposals, 100 deposits for each, 1,000 voters",
            threads: &[READS],
            methods: &[
                "cosmos.gov.v1.Query/Proposal",
                "cosmos.gov.v1.Query/Proposals",
                "cosmos.gov.v1.Query/Vote",
                "cosmos.gov.v1.Query/Votes",
                "cosmos.gov.v1.Query/Deposit",
                "cosmos.gov.v1.Query/Deposits",
                "cosmos.gov.v1.Query/TallyResult",
                "cosmos.gov.v1beta1.Query/Proposal",
                "cosmos.gov.v1beta1.Query/Proposals",
                "cosmos.gov.v1beta1.Query/Vote",
                "cosmos.gov.v1beta1.Query/Votes",
                "cosmos.gov.v1beta1.Query/Deposit",
                "cosmos.gov.v1beta1.Query/Deposits",
                "cosmos.gov.v1beta1.Query/TallyResult",
                "cosmos.tx.v1beta1.Service/Simulate",
            ],
        },
        CostClass {
            work: "Runs a call, or several runs of one",
            grows_with: "the gas of the call",
            bound: "`json-rpc.gas-cap` and `json-rpc.call-timeout-ms`",
            threads: &[CALLS],
            methods: &["cosmos.evm.vm.v1.Query/EthCall", "cosmos.evm.vm.v1.Query/EstimateGas"],
        },
        CostClass {
            work: "Searches transactions, block by block",
            grows_with: "the heights, or the blocks in which an address appears, each read whole",
            bound: "5 s, 10,000 transactions found, a page of 100",
            threads: &[SEARCHES],
            methods: &["cosmos.tx.v1beta1.Service/GetTxsEvent"],
        },
        CostClass {
            work: "Lists accounts, and searches their public keys",
            grows_with: "the page",
            bound: "1,000 accounts after 10,000 that are skipped, 5 s",
            threads: &[SEARCHES],
            methods: &["cosmos.auth.v1beta1.Query/Accounts"],
        },
    ],
};

/// Returns whether a method can be refused because too many queries are waiting.
pub fn has_concurrency_limit(method: &str) -> bool {
    threads(method).any(|thread| [READS, CALLS, SEARCHES].contains(&thread))
}

/// Returns whether a method has a time limit.
pub fn has_time_limit(method: &str) -> bool {
    threads(method).any(|thread| [CALLS, SEARCHES].contains(&thread))
}

fn threads(method: &str) -> impl Iterator<Item = &'static str> {
    let classes = INTERFACE.classes.iter().filter(move |class| class.methods.contains(&method));
    classes.flat_map(|class| class.threads.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest;
    use prost_reflect::DescriptorPool;

    #[test]
    fn every_method_is_in_one_class() {
        let mut classes = INTERFACE.by_method();
        let served: std::collections::BTreeSet<_> =
            classes.keys().filter_map(|method| method.split('/').next()).collect();
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).unwrap();
        for service in pool.services().filter(|service| served.contains(service.full_name())) {
            for method in service.methods() {
                let name = format!("{}/{}", service.full_name(), method.name());
                assert!(classes.remove(name.as_str()).is_some(), "{name} has no class");
            }
        }
        assert!(classes.is_empty(), "classes of unknown methods: {:?}", classes.keys());
        let classes = INTERFACE.by_method();
        for method in rest::methods() {
            assert!(classes.contains_key(method), "REST serves {method}");
        }
    }
}
