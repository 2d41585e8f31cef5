//! `testing_`: methods for test suites. Disabled by default.

use alloy_consensus::Transaction as _;
use alloy_eips::{
    eip4844::{Blob, Bytes48},
    eip4895::{Withdrawal, Withdrawals},
    eip7594::BlobTransactionSidecarVariant as Sidecar,
};
use alloy_primitives::{Address, B256, Bloom, Bytes, U64, U256};
use chain::{Attributes, ChainSpec, Parent, block::Block, next_header};
use evm::{BlockBuilder, ExecutionError, StateError, complete_header};
use keys::parse_address_in_any_case;
use rpc_eth::{
    eth::{CallHost, WithdrawalObject},
    method::{Answer, Call, Method, Run, json},
};
use rpc_types::{
    error::Error,
    fields::{self, BytesField, HashField, QuantityField},
    params::Param,
};
use serde::{Deserialize, Serialize};
use serde_json::json as value;
use state::stored;
use std::sync::Arc;
use storage::StateChanges;
use transactions::{RecoveredTx, is_blob_tx, split};

/// The methods of the namespace.
pub const METHODS: &[Method] = &[Method {
    name: "testing_buildBlockV1",
    parameters: &["parent", "attributes", "transactions = those of the pool", "extraData = 0x"],
    help: "Builds a block without storing it. Blob transactions must include their blobs. Those in the pool are \
           left out.",
    run: Run::Waiting(|call| Box::pin(build_block(call))),
}];

/// The attributes of the block, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockAttributesObject {
    timestamp: QuantityField,
    prev_randao: HashField,
    suggested_fee_recipient: String,
    withdrawals: Option<Vec<WithdrawalObject>>,
    parent_beacon_block_root: Option<HashField>,
}

/// The attributes of the block.
struct BlockAttributes {
    timestamp: u64,
    prev_randao: B256,
    suggested_fee_recipient: Address,
    withdrawals: Option<Vec<Withdrawal>>,
    parent_beacon_block_root: Option<B256>,
}

impl Param for BlockAttributes {
    fn read(json: &str, spec: &ChainSpec) -> Result<Self, String> {
        let object: BlockAttributesObject = fields::read(json)?;
        let recipient =
            parse_address_in_any_case(&object.suggested_fee_recipient, &spec.bech32_prefix);
        let withdrawals = object.withdrawals.map(|list| {
            list.into_iter().map(|withdrawal| withdrawal.read(spec)).collect::<Result<_, _>>()
        });
        Ok(Self {
            timestamp: object.timestamp.0,
            prev_randao: object.prev_randao.0,
            suggested_fee_recipient: recipient
                .map_err(|error| format!("suggestedFeeRecipient: {error}"))?,
            withdrawals: withdrawals.transpose()?,
            parent_beacon_block_root: object.parent_beacon_block_root.map(|HashField(root)| root),
        })
    }
}

struct Transactions(Vec<Bytes>);

impl Param for Transactions {
    fn read(json: &str, _: &ChainSpec) -> Result<Self, String> {
        let list: Vec<BytesField> = fields::read(json)?;
        Ok(Self(list.into_iter().map(|BytesField(raw)| raw).collect()))
    }
}

/// A block in the format of the engine API.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Payload<'a> {
    parent_hash: B256,
    fee_recipient: Address,
    state_root: B256,
    receipts_root: B256,
    logs_bloom: &'a Bloom,
    prev_randao: B256,
    block_number: U64,
    gas_limit: U64,
    gas_used: U64,
    timestamp: U64,
    extra_data: &'a Bytes,
    base_fee_per_gas: U256,
    block_hash: B256,
    transactions: &'a [Bytes],
    #[serde(skip_serializing_if = "Option::is_none")]
    withdrawals: Option<&'a [Withdrawal]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blob_gas_used: Option<U64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    excess_blob_gas: Option<U64>,
}

impl<'a> Payload<'a> {
    fn new(block: &'a Block) -> Self {
        let header = &block.header;
        Self {
            parent_hash: header.parent_hash,
            fee_recipient: header.beneficiary,
            state_root: header.state_root,
            receipts_root: header.receipts_root,
            logs_bloom: &header.logs_bloom,
            prev_randao: header.mix_hash,
            block_number: U64::from(header.number),
            gas_limit: U64::from(header.gas_limit),
            gas_used: U64::from(header.gas_used),
            timestamp: U64::from(header.timestamp),
            extra_data: &header.extra_data,
            base_fee_per_gas: U256::from(header.base_fee_per_gas.unwrap_or_default()),
            block_hash: block.hash,
            transactions: &block.transactions,
            withdrawals: block.withdrawals.as_ref().map(|list| list.as_slice()),
            blob_gas_used: header.blob_gas_used.map(U64::from),
            excess_blob_gas: header.excess_blob_gas.map(U64::from),
        }
    }
}

async fn build_block(call: Call) -> Answer {
    let (parent, wanted, given, extra) = {
        let mut arguments = call.arguments()?;
        let parent: B256 = arguments.required()?;
        let wanted: BlockAttributes = arguments.required()?;
        let given: Option<Transactions> = arguments.optional()?;
        let extra: Bytes = arguments.optional()?.unwrap_or_default();
        (parent, wanted, given, extra)
    };
    let number = call.view.block_number(parent)?;
    let number = number.ok_or_else(|| Error::server(format!("parent {parent} not found")))?;
    // Transactions of the request must all be valid. Those of the pool may fail.
    let strict = given.is_some();
    let (txs, bundle) = match given {
        Some(Transactions(raw)) => {
            let (raw, bundle) = split_blobs(raw)?;
            (rpc_eth::recover::recover(&raw)?.into_iter().map(Arc::new).collect(), bundle)
        }
        None => (pending_txs(&call).await?, Bundle::default()),
    };
    build(&call, number, &wanted, extra, &txs, strict, &bundle)
}

/// The sidecars of the blob transactions, in the format of `engine_getPayloadV3`. Since Osaka there is one proof for
/// each cell, as in `engine_getPayloadV5`.
#[derive(Default, Serialize)]
struct Bundle {
    commitments: Vec<Bytes48>,
    proofs: Vec<Bytes48>,
    blobs: Vec<Blob>,
}

/// Removes the sidecars from blob transactions and collects them in a bundle.
fn split_blobs(mut raw: Vec<Bytes>) -> Result<(Vec<Bytes>, Bundle), Error> {
    let mut bundle = Bundle::default();
    for raw in raw.iter_mut().filter(|raw| is_blob_tx(raw)) {
        let (tx, sidecar) = split(raw).map_err(|fault| Error::server(fault.to_string()))?;
        *raw = tx;
        bundle.commitments.extend_from_slice(sidecar.commitments());
        bundle.proofs.extend_from_slice(match &sidecar {
            Sidecar::Eip4844(sidecar) => &sidecar.proofs,
            Sidecar::Eip7594(sidecar) => &sidecar.cell_proofs,
        });
        bundle.blobs.extend(sidecar.into_blobs());
    }
    Ok((raw, bundle))
}

/// Returns the pending transactions, ordered by nonce for each sender. A blob transaction and the later ones of its
/// sender are left out, because the pool does not store blobs.
async fn pending_txs(call: &Call) -> Result<Vec<Arc<RecoveredTx>>, Error> {
    let mut senders = call.context.pool.content(None).await?;
    senders.sort_by_key(|txs| txs.sender);
    let no_blobs = |tx: &Arc<RecoveredTx>| tx.blob_gas() == 0;
    Ok(senders.into_iter().flat_map(|txs| txs.pending.into_iter().take_while(no_blobs)).collect())
}

fn build(
    call: &Call,
    number: u64,
    wanted: &BlockAttributes,
    extra_data: Bytes,
    txs: &[Arc<RecoveredTx>],
    strict: bool,
    bundle: &Bundle,
) -> Answer {
    let spec = &call.context.spec;
    if spec.native().is_some() {
        return Err(Error::server("only blocks of Ethereum's rules are built for tests"));
    }
    let blocks = call.view.blocks()?;
    let (hash, parent) = stored::header(&blocks, number)?;
    let state = call.view.state.reader_at(number)?;
    let trie = call.view.trie_at(number)?;
    let root_after = |changes: &StateChanges| {
        let updated = storage::update_state_root(&trie, changes, parent.state_root);
        updated.map(|(root, _)| root).map_err(StateError::new)
    };
    let attributes = Attributes {
        timestamp: wanted.timestamp,
        beneficiary: wanted.suggested_fee_recipient,
        gas_limit: next_gas_limit(parent.gas_limit),
        prev_randao: wanted.prev_randao,
        extra_data,
        parent_beacon_block_root: wanted.parent_beacon_block_root.unwrap_or_default(),
    };
    let total_difficulty = if parent.difficulty.is_zero() { U256::MAX } else { parent.difficulty };
    let parent = Parent { header: &parent, hash, total_difficulty };
    let mut header = next_header(spec, &parent, &attributes);
    let base_fee = header.base_fee_per_gas.unwrap_or_default();
    let deadline = call.call_deadline();
    let host = CallHost::new(call, &deadline);
    let failed = |error: ExecutionError| Error::server(error.to_string());
    let mut builder = BlockBuilder::start(spec, &state, &host, None, &header).map_err(failed)?;
    let (mut raw, mut value) = (Vec::new(), U256::ZERO);
    for tx in txs {
        match builder.push(tx, &root_after).map_err(failed)? {
            Ok(gas) => {
                let priority_fee = tx.tx.effective_tip_per_gas(base_fee).unwrap_or_default();
                value += U256::from(gas) * U256::from(priority_fee);
                raw.push(tx.raw.clone());
            }
            Err(reason) if strict => return Err(Error::server(reason.to_string())),
            Err(_) => {}
        }
    }
    let withdrawals = header
        .withdrawals_root
        .map(|_| Withdrawals::new(wanted.withdrawals.clone().unwrap_or_default()));
    let list = withdrawals.as_ref().map(|list| list.as_slice());
    let executed = builder.finish(&[], list).map_err(failed)?;
    let mut block = Block { transactions: raw, withdrawals, ..Block::default() };
    let root = root_after(&executed.changes).map_err(Error::internal)?;
    complete_header(&mut header, &executed, root, &block.body());
    block.hash = header.hash_slow();
    block.header = header;
    json(&value!({
        "executionPayload": Payload::new(&block),
        "blockValue": value,
        "blobsBundle": bundle,
        "executionRequests": executed.requests.iter().collect::<Vec<_>>(),
        "shouldOverrideBuilder": false,
    }))
}

/// The gas limit that blocks approach, which is geth's default.
const GAS_LIMIT_TARGET: u64 = 60_000_000;

/// Returns the gas limit of the next block, which is as close to the target as the protocol allows.
fn next_gas_limit(limit: u64) -> u64 {
    let step = (limit / 1024).saturating_sub(1);
    GAS_LIMIT_TARGET.clamp(limit - step, limit.saturating_add(step))
}
