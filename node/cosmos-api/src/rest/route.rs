//! Maps paths to gRPC methods with a table.

use super::json::Style;
use keys::decode_any;

/// The HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// Parameters are in the path and in the query string.
    Get,
    /// Parameters are a JSON body.
    Post,
}

impl Verb {
    /// Returns the name of the HTTP method in the OpenAPI document.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
        }
    }

    /// Returns a suffix that makes the ids of operations with the same path unique.
    pub(super) const fn suffix(self) -> &'static str {
        match self {
            Self::Get => "",
            Self::Post => "_post",
        }
    }
}

/// A path and its query.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) verb: Verb,
    /// The path, with the names of request fields in braces.
    pub(super) path: &'static str,
    /// The service and method.
    pub(super) method: &'static str,
}

/// The path of two of the SDK's queries, which differ in the content of the parameter.
const BECH32: &str = "/cosmos/auth/v1beta1/bech32/{address_string}";
/// The query with the path [`BECH32`] whose parameter is bytes in base64.
const BECH32_OF_BYTES: &str = "cosmos.auth.v1beta1.Query/AddressBytesToString";

impl Route {
    /// Returns the aliases of the path, and the path itself.
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        let aliases = ALIASES.iter().filter_map(|(prefix, alias)| {
            self.path.strip_prefix(prefix).map(|rest| format!("{alias}{rest}"))
        });
        aliases.chain([self.path.to_owned()])
    }

    /// Returns the service and method for these values of the path's parameters.
    pub(super) fn method_for(&self, values: &[(&str, &str)]) -> &'static str {
        let bytes = |text: &str| decode_any(text).is_err() && !text.starts_with("0x");
        match values {
            [(_, text)] if self.path == BECH32 && bytes(text) => BECH32_OF_BYTES,
            _ => self.method,
        }
    }

    /// Returns all services and methods with this path.
    pub(super) fn methods(&self) -> impl Iterator<Item = &'static str> {
        [self.method].into_iter().chain((self.path == BECH32).then_some(BECH32_OF_BYTES))
    }
}

/// Returns the style of responses under a path.
pub(super) fn style_of(path: &str) -> Style {
    if path.starts_with("/chain/") { Style::Plain } else { Style::Sdk }
}

const fn get(path: &'static str, method: &'static str) -> Route {
    Route { verb: Verb::Get, path, method }
}

const fn post(path: &'static str, method: &'static str) -> Route {
    Route { verb: Verb::Post, path, method }
}

/// Path prefixes that are also served under a second prefix, where responses have [`Style::Plain`].
const ALIASES: &[(&str, &str)] = &[
    ("/cosmos/auth/", "/chain/auth/"),
    ("/cosmos/bank/", "/chain/bank/"),
    ("/cosmos/evm/vm/", "/chain/evm/"),
];

/// All paths except the aliases.
#[rustfmt::skip]
pub(super) const ROUTES: &[Route] = &[
    get("/cosmos/auth/v1beta1/accounts", "cosmos.auth.v1beta1.Query/Accounts"),
    get("/cosmos/auth/v1beta1/accounts/{address}", "cosmos.auth.v1beta1.Query/Account"),
    get("/cosmos/auth/v1beta1/account_info/{address}", "cosmos.auth.v1beta1.Query/AccountInfo"),
    get("/cosmos/auth/v1beta1/params", "cosmos.auth.v1beta1.Query/Params"),
    get("/cosmos/auth/v1beta1/module_accounts", "cosmos.auth.v1beta1.Query/ModuleAccounts"),
    get("/cosmos/auth/v1beta1/module_accounts/{name}", "cosmos.auth.v1beta1.Query/ModuleAccountByName"),
    get("/cosmos/auth/v1beta1/bech32", "cosmos.auth.v1beta1.Query/Bech32Prefix"),
    get(BECH32, "cosmos.auth.v1beta1.Query/AddressStringToBytes"),
    get("/cosmos/bank/v1beta1/balances/{address}", "cosmos.bank.v1beta1.Query/AllBalances"),
    get("/cosmos/bank/v1beta1/balances/{address}/by_denom", "cosmos.bank.v1beta1.Query/Balance"),
    get("/cosmos/bank/v1beta1/spendable_balances/{address}", "cosmos.bank.v1beta1.Query/SpendableBalances"),
    get("/cosmos/bank/v1beta1/spendable_balances/{address}/by_denom", "cosmos.bank.v1beta1.Query/SpendableBalanceByDenom"),
    get("/cosmos/bank/v1beta1/supply", "cosmos.bank.v1beta1.Query/TotalSupply"),
    get("/cosmos/bank/v1beta1/supply/by_denom", "cosmos.bank.v1beta1.Query/SupplyOf"),
    get("/cosmos/bank/v1beta1/params", "cosmos.bank.v1beta1.Query/Params"),
    get("/cosmos/bank/v1beta1/denoms_metadata", "cosmos.bank.v1beta1.Query/DenomsMetadata"),
    get("/cosmos/bank/v1beta1/denoms_metadata/{denom}", "cosmos.bank.v1beta1.Query/DenomMetadata"),
    get("/cosmos/bank/v1beta1/denoms_metadata_by_query_string", "cosmos.bank.v1beta1.Query/DenomMetadataByQueryString"),
    get("/cosmos/bank/v1beta1/send_enabled", "cosmos.bank.v1beta1.Query/SendEnabled"),
    get("/cosmos/evm/vm/v1/account/{address}", "cosmos.evm.vm.v1.Query/Account"),
    get("/cosmos/evm/vm/v1/cosmos_account/{address}", "cosmos.evm.vm.v1.Query/CosmosAccount"),
    get("/cosmos/evm/vm/v1/validator_account/{cons_address}", "cosmos.evm.vm.v1.Query/ValidatorAccount"),
    get("/cosmos/evm/vm/v1/balances/{address}", "cosmos.evm.vm.v1.Query/Balance"),
    get("/cosmos/evm/vm/v1/storage/{address}/{key}", "cosmos.evm.vm.v1.Query/Storage"),
    get("/cosmos/evm/vm/v1/codes/{address}", "cosmos.evm.vm.v1.Query/Code"),
    get("/cosmos/evm/vm/v1/params", "cosmos.evm.vm.v1.Query/Params"),
    get("/cosmos/evm/vm/v1/eth_call", "cosmos.evm.vm.v1.Query/EthCall"),
    get("/cosmos/evm/vm/v1/estimate_gas", "cosmos.evm.vm.v1.Query/EstimateGas"),
    get("/cosmos/evm/vm/v1/min_gas_price", "cosmos.evm.vm.v1.Query/GlobalMinGasPrice"),
    get("/cosmos/evm/vm/v1/base_fee", "cosmos.evm.vm.v1.Query/BaseFee"),
    get("/cosmos/evm/vm/v1/config", "cosmos.evm.vm.v1.Query/Config"),
    get("/cosmos/evm/feemarket/v1/params", "cosmos.evm.feemarket.v1.Query/Params"),
    get("/cosmos/evm/feemarket/v1/base_fee", "cosmos.evm.feemarket.v1.Query/BaseFee"),
    get("/cosmos/evm/feemarket/v1/block_gas", "cosmos.evm.feemarket.v1.Query/BlockGas"),
    get("/chain/feemarket/v1/params", "feemarket.v1.Query/Params"),
    get("/chain/feemarket/v1/base_fee", "feemarket.v1.Query/BaseFee"),
    get("/chain/feemarket/v1/block_gas", "feemarket.v1.Query/BlockGas"),
    get("/cosmos/base/tendermint/v1beta1/node_info", "cosmos.base.tendermint.v1beta1.Service/GetNodeInfo"),
    get("/cosmos/base/tendermint/v1beta1/syncing", "cosmos.base.tendermint.v1beta1.Service/GetSyncing"),
    get("/cosmos/base/tendermint/v1beta1/blocks/latest", "cosmos.base.tendermint.v1beta1.Service/GetLatestBlock"),
    get("/cosmos/base/tendermint/v1beta1/blocks/{height}", "cosmos.base.tendermint.v1beta1.Service/GetBlockByHeight"),
    get("/cosmos/base/tendermint/v1beta1/validatorsets/latest", "cosmos.base.tendermint.v1beta1.Service/GetLatestValidatorSet"),
    get("/cosmos/base/tendermint/v1beta1/validatorsets/{height}", "cosmos.base.tendermint.v1beta1.Service/GetValidatorSetByHeight"),
    get("/cosmos/base/node/v1beta1/config", "cosmos.base.node.v1beta1.Service/Config"),
    get("/cosmos/base/node/v1beta1/status", "cosmos.base.node.v1beta1.Service/Status"),
    get("/cosmos/consensus/v1/params", "cosmos.consensus.v1.Query/Params"),
    get("/cosmos/tx/v1beta1/txs", "cosmos.tx.v1beta1.Service/GetTxsEvent"),
    get("/cosmos/tx/v1beta1/txs/{hash}", "cosmos.tx.v1beta1.Service/GetTx"),
    get("/cosmos/tx/v1beta1/txs/block/{height}", "cosmos.tx.v1beta1.Service/GetBlockWithTxs"),
    get("/cosmos/gov/v1/proposals", "cosmos.gov.v1.Query/Proposals"),
    get("/cosmos/gov/v1/proposals/{proposal_id}", "cosmos.gov.v1.Query/Proposal"),
    get("/cosmos/gov/v1/proposals/{proposal_id}/votes", "cosmos.gov.v1.Query/Votes"),
    get("/cosmos/gov/v1/proposals/{proposal_id}/votes/{voter}", "cosmos.gov.v1.Query/Vote"),
    get("/cosmos/gov/v1/proposals/{proposal_id}/deposits", "cosmos.gov.v1.Query/Deposits"),
    get("/cosmos/gov/v1/proposals/{proposal_id}/deposits/{depositor}", "cosmos.gov.v1.Query/Deposit"),
    get("/cosmos/gov/v1/proposals/{proposal_id}/tally", "cosmos.gov.v1.Query/TallyResult"),
    get("/cosmos/gov/v1/params", "cosmos.gov.v1.Query/Params"),
    get("/cosmos/gov/v1/params/{params_type}", "cosmos.gov.v1.Query/Params"),
    get("/cosmos/gov/v1beta1/proposals", "cosmos.gov.v1beta1.Query/Proposals"),
    get("/cosmos/gov/v1beta1/proposals/{proposal_id}", "cosmos.gov.v1beta1.Query/Proposal"),
    get("/cosmos/gov/v1beta1/proposals/{proposal_id}/votes", "cosmos.gov.v1beta1.Query/Votes"),
    get("/cosmos/gov/v1beta1/proposals/{proposal_id}/votes/{voter}", "cosmos.gov.v1beta1.Query/Vote"),
    get("/cosmos/gov/v1beta1/proposals/{proposal_id}/deposits", "cosmos.gov.v1beta1.Query/Deposits"),
    get("/cosmos/gov/v1beta1/proposals/{proposal_id}/deposits/{depositor}", "cosmos.gov.v1beta1.Query/Deposit"),
    get("/cosmos/gov/v1beta1/proposals/{proposal_id}/tally", "cosmos.gov.v1beta1.Query/TallyResult"),
    get("/cosmos/gov/v1beta1/params/{params_type}", "cosmos.gov.v1beta1.Query/Params"),
    get("/evmd/distribution/v1/params", "evmd.distribution.v1.Query/Params"),
    get("/evmd/mempool/v1/pending_sequence/{address}", "evmd.mempool.v1.Query/PendingSequence"),
    post("/cosmos/tx/v1beta1/simulate", "cosmos.tx.v1beta1.Service/Simulate"),
    post("/cosmos/tx/v1beta1/decode", "cosmos.tx.v1beta1.Service/TxDecode"),
    post("/cosmos/tx/v1beta1/encode", "cosmos.tx.v1beta1.Service/TxEncode"),
    post("/cosmos/tx/v1beta1/txs", "cosmos.tx.v1beta1.Service/BroadcastTx"),
];

/// Paths of the SDK's gateway that belong to supported modules but are answered like unknown paths.
pub(super) const NOT_SERVED: &[(Verb, &str)] = &[
    (Verb::Get, "/cosmos/auth/v1beta1/address_by_id/{id}"),
    (Verb::Get, "/cosmos/bank/v1beta1/denom_owners/{denom}"),
    (Verb::Get, "/cosmos/bank/v1beta1/denom_owners_by_query"),
    (Verb::Get, "/cosmos/base/tendermint/v1beta1/abci_query"),
    (Verb::Get, "/cosmos/evm/vm/v1/trace_block"),
    (Verb::Get, "/cosmos/evm/vm/v1/trace_tx"),
    (Verb::Get, "/cosmos/gov/v1/constitution"),
    (Verb::Post, "/cosmos/tx/v1beta1/decode/amino"),
    (Verb::Post, "/cosmos/tx/v1beta1/encode/amino"),
];
