//! Submits, simulates and returns transactions in the form of the Cosmos interfaces. An Ethereum transaction is put
//! into the SDK's envelope and keeps its own hash. The hash of a Cosmos transaction is the SHA-256 of its bytes.

use super::{
    Queries, QueryError, Snapshot,
    comet_block::sdk_bytes,
    envelope,
    events::{self, Outcomes},
    node::signed,
    proto::cosmos::{
        base::abci::v1beta1::{GasInfo, Result as TxResult, TxResponse},
        tx::v1beta1::{BroadcastMode, BroadcastTxResponse, GetTxResponse, SimulateResponse, Tx},
    },
};
use alloy_consensus::{Header, Transaction as _};
use alloy_primitives::{B256, Bytes, hex};
use evm::BlockBuilder;
use feemarket::store::StoredEvent;
use modules::decorator::{CheckContext, Mode};
use sha2::{Digest, Sha256};
use state::stored::{MinedTx, locate};
use storage::StateRead;
use transactions::cosmos::{self, CosmosTx, Refusal, Signatures, response_data, responses};

/// Number of hex digits of a hash.
const HASH_DIGITS: usize = 64;

/// A mined transaction and its result.
#[derive(Clone, Debug)]
pub struct MinedTxResponse {
    /// Its index in the block.
    pub index: usize,
    /// Its bytes in the block.
    raw: Bytes,
    /// The decoded transaction.
    pub tx: Tx,
    /// Its result.
    pub response: TxResponse,
}

impl MinedTxResponse {
    /// Returns its bytes in the SDK's encoding.
    pub fn sdk_bytes(&self) -> Vec<u8> {
        sdk_bytes(&self.raw, || self.tx.clone())
    }
}

impl Queries {
    /// Submits a transaction as [`Self::broadcast_tx`] does, if the SDK still supports the mode.
    ///
    /// # Errors
    /// If the mode is missing or not supported, and the errors of [`Self::broadcast_tx`].
    pub async fn broadcast_tx_in_mode(
        &self,
        bytes: Vec<u8>,
        mode: i32,
    ) -> Result<BroadcastTxResponse, QueryError> {
        match BroadcastMode::try_from(mode) {
            Ok(BroadcastMode::Sync | BroadcastMode::Async) => self.broadcast_tx(bytes).await,
            // The SDK checks for an empty transaction first.
            _ if bytes.is_empty() => self.broadcast_tx(bytes).await,
            _ => Err(QueryError::unknown(
                "unsupported return type unspecified; supported types: sync, async. Set mode to \
                 BROADCAST_MODE_SYNC or BROADCAST_MODE_ASYNC, and find the block of the transaction by its hash",
            )),
        }
    }

    /// Submits a transaction and waits for the pool's checks. A refused transaction also returns a response.
    ///
    /// # Errors
    /// If there are no bytes.
    pub async fn broadcast_tx(&self, bytes: Vec<u8>) -> Result<BroadcastTxResponse, QueryError> {
        if bytes.is_empty() {
            return Err(QueryError::invalid("invalid empty tx"));
        }
        let submitted_hash = hash_hex(Sha256::digest(&bytes).0.into());
        let next = self.published.load().number().saturating_add(1);
        let denom = self.spec.token(next).extended_denom();
        let answer = match envelope::open(bytes, &denom) {
            Ok(raw) => {
                let sdk_hash = cosmos::is_cosmos(&raw).then(|| hash_hex(cosmos::cosmos_hash(&raw)));
                self.pool.submit(raw).await.map(|hash| (hash, sdk_hash))
            }
            Err(reject) => Err(reject.into()),
        };
        let tx_response = match answer {
            Ok((hash, sdk_hash)) => TxResponse {
                txhash: sdk_hash.unwrap_or_else(|| hash.to_string()),
                ..TxResponse::default()
            },
            Err(reject) => TxResponse {
                txhash: submitted_hash,
                code: reject.code().number,
                codespace: reject.code().space.to_owned(),
                raw_log: reject.log(),
                ..TxResponse::default()
            },
        };
        Ok(BroadcastTxResponse { tx_response: Some(tx_response) })
    }
}

impl Snapshot {
    /// Returns a mined transaction.
    ///
    /// # Errors
    /// If the hash is invalid, or there is no mined transaction with it.
    pub fn tx(&self, hash: &str) -> Result<GetTxResponse, QueryError> {
        let MinedTxResponse { tx, response, .. } = self.mined_tx_response(hash)?;
        Ok(GetTxResponse { tx: Some(tx), tx_response: Some(response) })
    }

    /// Returns a mined transaction with its index and bytes.
    ///
    /// # Errors
    /// Same as [`Self::tx`].
    pub fn mined_tx_response(&self, hash: &str) -> Result<MinedTxResponse, QueryError> {
        let parsed = parse_hash(hash)?;
        let not_found = || QueryError::not_found(format!("tx not found: {parsed}"));
        let (stored, index) = locate(&self.spec, &self.view, parsed)?.ok_or_else(not_found)?;
        if stored.block.header.number > self.number {
            return Err(not_found());
        }
        let mined = stored.tx(index)?.ok_or_else(not_found)?;
        let outcomes = Outcomes::read(&self.view.blocks()?, stored.block.header.number)?;
        self.mined(&mined, &outcomes)
    }

    /// Returns a mined transaction and its result.
    pub(super) fn mined(
        &self,
        mined: &MinedTx<'_>,
        outcomes: &Outcomes,
    ) -> Result<MinedTxResponse, QueryError> {
        let tx = self.sdk_tx(mined);
        let denom = self.extended_denom(mined.block.header.number);
        let mut response = response(mined, outcomes, &tx, &denom)?;
        if let Some(cosmos) = &mined.cosmos {
            response.txhash = hash_hex(cosmos::cosmos_hash(&mined.raw));
            self.add_cosmos_result(&mut response, mined, outcomes, cosmos)?;
        }
        Ok(MinedTxResponse { index: mined.index, raw: mined.raw.clone(), tx, response })
    }
}

impl Snapshot {
    /// Converts a mined transaction to the API's form.
    pub(super) fn sdk_tx(&self, mined: &MinedTx<'_>) -> Tx {
        match &mined.cosmos {
            None => {
                let denom = self.extended_denom(mined.block.header.number);
                envelope::close(&mined.tx, &mined.raw, mined.sender, &denom)
            }
            Some(cosmos) => envelope::sdk_tx(cosmos),
        }
    }

    /// Simulates a Cosmos transaction on the state of this block. Returns the gas used, and the events and responses of
    /// its messages.
    ///
    /// # Errors
    /// If the bytes are not a Cosmos transaction, its sequence has been used, or it would fail.
    pub fn simulate(&self, bytes: &[u8]) -> Result<SimulateResponse, QueryError> {
        if bytes.is_empty() {
            return Err(QueryError::invalid("empty txBytes is not allowed"));
        }
        let tx = CosmosTx::decode(bytes, Signatures::Optional);
        let tx = tx.map_err(|refusal| simulation_error(&refusal, 0))?;
        let next = self.number.saturating_add(1);
        let tx = tx.in_unit(self.spec.token_unit(next));
        let to_error = |refusal: Refusal| simulation_error(&refusal, tx.gas_used());
        let modules = self
            .modules()?
            .ok_or_else(|| QueryError::precondition("this chain has no Cosmos transactions"))?;
        let (_, parent) = self.header(self.number)?;
        let header = Header {
            number: parent.number.saturating_add(1),
            timestamp: parent.timestamp.saturating_add(1),
            ..parent
        };
        let state = self.state()?;
        let no_hash = |_: u64| None;
        let context = CheckContext::of_block(&self.spec, Some(&modules), &header);
        tx.check_form(context.rules).map_err(to_error)?;
        cosmos::check_names(&tx, &context.cosmos_facts(Mode::Simulate)).map_err(to_error)?;
        let account = state.account(tx.signer.address)?.unwrap_or_default();
        if tx.sequence() < account.nonce {
            cosmos::check_sequence(&tx, &account).map_err(to_error)?;
        }
        let builder = BlockBuilder::start(&self.spec, &state, &no_hash, Some(&modules), &header);
        let mut builder = builder.map_err(QueryError::internal)?;
        let outcome = builder.try_cosmos(&tx).map_err(QueryError::internal)?;
        let (gas_used, stored) = outcome.map_err(to_error)?;
        Ok(SimulateResponse {
            gas_info: Some(GasInfo { gas_wanted: tx.gas_limit(), gas_used }),
            result: Some(self.simulation_result(&tx, &stored)),
        })
    }

    /// Returns the result of a simulated transaction, from its events.
    #[expect(deprecated, reason = "the SDK sets both forms of the responses")]
    fn simulation_result(&self, tx: &CosmosTx, stored: &[StoredEvent]) -> TxResult {
        let msg_responses = responses(&tx.messages, stored);
        TxResult {
            data: response_data(msg_responses.clone()),
            log: String::new(),
            events: self.message_events(&tx.messages, stored),
            msg_responses,
        }
    }
}

/// Returns the SDK's error for a simulated transaction that failed.
fn simulation_error(refusal: &Refusal, gas_used: u64) -> QueryError {
    QueryError::unknown(format!("{refusal} with gas used: '{gas_used}'"))
}

/// Parses a hash in hex, with or without a prefix.
pub(super) fn parse_hash(hash: &str) -> Result<B256, QueryError> {
    let digits = hash.strip_prefix("0x").or_else(|| hash.strip_prefix("0X")).unwrap_or(hash);
    if digits.len() != HASH_DIGITS {
        return Err(QueryError::invalid(format!(
            "invalid hash: expected {HASH_DIGITS} hex digits, got {}",
            digits.len()
        )));
    }
    digits.parse().map_err(|_| QueryError::invalid("invalid hash: not hex"))
}

/// Writes a hash in the SDK's format: upper-case hex without a prefix.
fn hash_hex(hash: B256) -> String {
    hex::encode_upper(hash)
}

fn response(
    mined: &MinedTx<'_>,
    outcomes: &Outcomes,
    tx: &Tx,
    denom: &str,
) -> Result<TxResponse, QueryError> {
    let receipts = &outcomes.receipts;
    let receipt = receipts
        .get(mined.index)
        .ok_or_else(|| QueryError::internal(format_args!("{} has no receipt", mined.hash)))?;
    let before = mined.index.checked_sub(1).map_or(0, |at| receipts[at].cumulative_gas_used);
    let gas_used = receipt.cumulative_gas_used.saturating_sub(before);
    let header = &mined.block.header;
    let time = super::node::time(header.timestamp);
    let events = if mined.cosmos.is_some() {
        Vec::new()
    } else {
        events::ethereum(mined, outcomes, receipt, gas_used, denom)
    };
    Ok(TxResponse {
        height: signed(header.number),
        txhash: mined.hash.to_string(),
        gas_wanted: signed(mined.tx.gas_limit()),
        gas_used: signed(gas_used),
        tx: Some(envelope::any(tx)),
        timestamp: time.to_string(),
        events,
        ..TxResponse::default()
    })
}
