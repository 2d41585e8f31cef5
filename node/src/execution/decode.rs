//! A block from RLP, its transactions left as bytes.

use alloy_consensus::Header;
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::{Decodable, Header as RlpHeader};

/// Why bytes are not a block.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("block is not valid RLP at {part}: {reason}")]
pub struct BlockDecodeError {
    /// Where in the block.
    pub part: &'static str,
    /// What is wrong there.
    pub reason: alloy_rlp::Error,
}

/// A block whose transactions are not decoded yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedBlock {
    /// The header.
    pub header: Header,
    /// Keccak-256 of the header's RLP.
    pub hash: B256,
    /// EIP-2718 bytes of each transaction; slices of the block's bytes.
    pub transactions: Vec<Bytes>,
    /// Headers of the ommers.
    pub ommers: Vec<Header>,
    /// Withdrawals, when the block has the field.
    pub withdrawals: Option<Withdrawals>,
    /// Size of the block in RLP, in bytes.
    pub rlp_bytes: usize,
}

impl DecodedBlock {
    /// Decodes exactly one block; bytes after it are an error. Copies no transaction.
    ///
    /// # Errors
    /// The part that is malformed or not canonical.
    pub fn decode(block: &Bytes) -> Result<Self, BlockDecodeError> {
        let at = |part| move |reason| BlockDecodeError { part, reason };
        let mut rest = block.as_ref();
        let mut fields = list(&mut rest).map_err(at("block"))?;
        if !rest.is_empty() {
            return Err(at("end")(alloy_rlp::Error::UnexpectedLength));
        }
        let start = fields;
        let header = Header::decode(&mut fields).map_err(at("header"))?;
        let hash = keccak256(&start[..start.len() - fields.len()]);
        let transactions = transactions(block, &mut fields).map_err(at("transactions"))?;
        let ommers = Vec::<Header>::decode(&mut fields).map_err(at("ommers"))?;
        let withdrawals = if fields.is_empty() {
            None
        } else {
            let list = Vec::<Withdrawal>::decode(&mut fields).map_err(at("withdrawals"))?;
            Some(Withdrawals::new(list))
        };
        if !fields.is_empty() {
            return Err(at("end")(alloy_rlp::Error::UnexpectedLength));
        }
        Ok(Self { header, hash, transactions, ommers, withdrawals, rlp_bytes: block.len() })
    }
}

/// Splits a list's payload off `rest`.
fn list<'a>(rest: &mut &'a [u8]) -> alloy_rlp::Result<&'a [u8]> {
    let head = RlpHeader::decode(rest)?;
    if !head.list {
        return Err(alloy_rlp::Error::UnexpectedString);
    }
    // `decode` has checked that the payload is there.
    let (payload, after) = rest.split_at(head.payload_length);
    *rest = after;
    Ok(payload)
}

/// Legacy transactions stand in the list as they are, typed ones as byte strings.
fn transactions(block: &Bytes, fields: &mut &[u8]) -> alloy_rlp::Result<Vec<Bytes>> {
    let mut items = list(fields)?;
    let mut transactions = Vec::new();
    while !items.is_empty() {
        let start = items;
        let head = RlpHeader::decode(&mut items)?;
        let (payload, after) = items.split_at(head.payload_length);
        items = after;
        let raw = if head.list { &start[..start.len() - after.len()] } else { payload };
        // A list inside a byte string is no typed transaction.
        if !head.list && raw.first().is_none_or(|kind| *kind > 0x7f) {
            return Err(alloy_rlp::Error::Custom("transaction type out of range"));
        }
        transactions.push(block.slice_ref(raw));
    }
    Ok(transactions)
}
