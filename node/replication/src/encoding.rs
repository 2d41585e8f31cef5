//! Encodes and decodes a block and its results as messages. Each part has the form in which it is stored.
//!
//! A decoded item may be much larger than the encoded one, so the number of items is checked before memory is allocated
//! for them.

use crate::protocol::{GovernanceRow as EncodedRow, GovernanceRows, Results};
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes};
use alloy_rlp::Decodable;
use chain::block::{Block, BlockDecodeError};
use modules::gov::store::is_changed_by;
use pipeline::ReceivedParts;
use prost::Message;
use storage::{
    ChainReader, DecodeError, GovernanceKey, GovernanceRow, ReadError, decode_changes_within,
    decode_receipts_checked,
};

/// Maximum size of a module row, and of the governance rows of a block, in bytes. Their smallest items take some twenty
/// times as much memory when decoded.
const MAX_MODULE_BYTES: usize = 8 * 1024 * 1024;
/// One account or slot change is accepted per this amount of gas. Execution charges more for each: 700 for a call since
/// EIP-150, and 5,000 for a changed slot. Refunds return at most half of it.
const MIN_GAS_PER_CHANGE: u64 = 200;
/// Changes that are accepted without gas: those of system contracts, withdrawals and fee recipients. Before EIP-150, a call
/// cost only 40 gas, so a block could change more accounts than [`MIN_GAS_PER_CHANGE`] allows; this covers those, too.
const MAX_FREE_CHANGES: u64 = 65_536;

/// Why a received message is not a block with its results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BlockDecodingError {
    /// The bytes are not a valid protobuf message.
    #[error("a block cannot be decoded: {0}")]
    Message(#[from] prost::DecodeError),
    /// The header is malformed.
    #[error("a header cannot be decoded: {0}")]
    Header(alloy_rlp::Error),
    /// The body is malformed.
    #[error(transparent)]
    Block(#[from] BlockDecodeError),
    /// The list of senders is malformed.
    #[error("the senders have {0} bytes, which is not a multiple of 20")]
    Senders(usize),
    /// The number of senders differs from the number of transactions.
    #[error("{senders} senders were sent for {transactions} transactions")]
    SenderCount {
        /// The number of senders.
        senders: usize,
        /// The number of transactions.
        transactions: usize,
    },
    /// Receipts or state changes are malformed.
    #[error("{part}: {source}")]
    Results {
        /// The part.
        part: &'static str,
        /// What is wrong.
        source: DecodeError,
    },
    /// A part is too large.
    #[error("{part} has {bytes} bytes, and at most {MAX_MODULE_BYTES} are allowed")]
    TooLarge {
        /// The part.
        part: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// A key of a governance row is malformed.
    #[error("a governance row has the unknown key {0}")]
    GovernanceKey(Bytes),
}

/// A stored block, ready to be sent.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) header: bytes::Bytes,
    pub(crate) certificate: bytes::Bytes,
    /// The encoded results.
    pub(crate) results: bytes::Bytes,
}

/// A decoded block.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) block: Block,
    /// The senders that the source names, one for each transaction.
    pub(crate) senders: Vec<Address>,
    pub(crate) parts: ReceivedParts,
}

/// Encodes a stored block; `None` if it does not exist.
///
/// # Errors
/// If a row cannot be read.
pub(crate) fn encode(blocks: &ChainReader, number: u64) -> Result<Option<Stored>, ReadError> {
    let Some((_, header)) = blocks.header(number)? else { return Ok(None) };
    let row = |row: Option<Bytes>| row.unwrap_or_default().0;
    let module = row(blocks.module(number)?);
    let results = Results {
        body: row(blocks.body(number)?),
        senders: row(blocks.encoded_senders(number)?),
        receipts: row(blocks.encoded_receipts(number)?),
        changes: row(blocks.encoded_changes(number)?),
        governance: governance(blocks, &module, number)?,
        module,
    };
    Ok(Some(Stored {
        header: header.0,
        certificate: row(blocks.certificate(number)?),
        results: results.encode_to_vec().into(),
    }))
}

/// Returns the encoded governance rows of a block. Finding them reads all keys of their table, so the module row is
/// checked for changes first. A module row that cannot be decoded is sent as is, and the follower refuses it.
fn governance(blocks: &ChainReader, module: &[u8], number: u64) -> Result<bytes::Bytes, ReadError> {
    if module.is_empty() || matches!(is_changed_by(module, number), Ok(false)) {
        return Ok(bytes::Bytes::new());
    }
    let encoded =
        |row: GovernanceRow| EncodedRow { key: row.key.to_bytes().into(), value: row.value.0 };
    let rows = blocks.governance_rows(number)?.into_iter().map(encoded).collect();
    Ok(GovernanceRows { rows }.encode_to_vec().into())
}

/// Decodes a header, and returns it with its hash.
///
/// # Errors
/// [`BlockDecodingError::Header`].
pub(crate) fn decode_header(mut bytes: &[u8]) -> Result<(Header, B256), BlockDecodingError> {
    let header = Header::decode(&mut bytes).map_err(BlockDecodingError::Header)?;
    if !bytes.is_empty() {
        return Err(BlockDecodingError::Header(alloy_rlp::Error::UnexpectedLength));
    }
    // The hash is that of the canonical encoding, which is stored.
    let hash = header.hash_slow();
    Ok((header, hash))
}

/// Decodes the results of the block with this header. They are not checked against the header.
///
/// # Errors
/// [`BlockDecodingError`].
pub(crate) fn decode(
    header: &Header,
    hash: B256,
    results: bytes::Bytes,
) -> Result<Decoded, BlockDecodingError> {
    let Results { body, senders, receipts, changes, module, governance } =
        Results::decode(results)?;
    let (senders, rest) = senders.as_chunks::<20>();
    if !rest.is_empty() {
        return Err(BlockDecodingError::Senders(senders.len() * 20 + rest.len()));
    }
    let transactions = Block::raw_transactions(&body)?.count();
    if transactions != senders.len() {
        let senders = senders.len();
        return Err(BlockDecodingError::SenderCount { senders, transactions });
    }
    for (part, bytes) in [("the module row", &module), ("the governance", &governance)] {
        if bytes.len() > MAX_MODULE_BYTES {
            return Err(BlockDecodingError::TooLarge { part, bytes: bytes.len() });
        }
    }
    let block = Block::from_parts(hash, &alloy_rlp::encode(header), &body.into())?;
    let wrong = |part| move |source| BlockDecodingError::Results { part, source };
    let receipts =
        decode_receipts_checked(receipts.into(), Some(transactions)).map_err(wrong("receipts"))?;
    let max_changes = header.gas_used / MIN_GAS_PER_CHANGE + MAX_FREE_CHANGES;
    let changes = decode_changes_within(changes.into(), max_changes as usize);
    let mut changes = changes.map_err(wrong("state changes"))?;
    // Code stays in memory for a long time, and would keep the whole message there.
    for (_, code) in &mut changes.codes {
        *code = Bytes::copy_from_slice(code);
    }
    let rows = GovernanceRows::decode(governance)?.rows;
    Ok(Decoded {
        block,
        senders: senders.iter().map(Address::from).collect(),
        parts: ReceivedParts {
            receipts,
            changes,
            module: module.into(),
            governance: rows.into_iter().map(row).collect::<Result<_, _>>()?,
        },
    })
}

fn row(encoded: EncodedRow) -> Result<GovernanceRow, BlockDecodingError> {
    let EncodedRow { key, value } = encoded;
    match GovernanceKey::from_bytes(&key) {
        Some(key) => Ok(GovernanceRow { key, value: value.into() }),
        None => Err(BlockDecodingError::GovernanceKey(key.into())),
    }
}
