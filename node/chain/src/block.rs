//! Decodes and encodes blocks in network form: header, raw transactions, ommers and withdrawals, in the RLP of the
//! Yellow Paper (section 4.3) with EIP-2718 transactions and EIP-4895 withdrawals.
//!
//! Transactions are raw bytes here. The recover stage decodes them and recovers their senders.

use crate::Body;
use alloy_consensus::Header;
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::{BufMut, Decodable, Encodable, Header as RlpHeader};
use std::ops::Range;

/// Why bytes are not a block.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("block is not valid RLP at {part}: {reason}")]
pub struct BlockDecodeError {
    /// The part of the block.
    pub part: &'static str,
    /// What is wrong with the part.
    pub reason: alloy_rlp::Error,
}

/// A block whose transactions are not decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The header.
    pub header: Header,
    /// Keccak-256 of the header's RLP.
    pub hash: B256,
    /// EIP-2718 bytes of each transaction. After decoding, they are slices of the block's bytes.
    pub transactions: Vec<Bytes>,
    /// Headers of the ommers; empty since the merge.
    pub ommers: Vec<Header>,
    /// Withdrawals, if the block has the field (since Shanghai).
    pub withdrawals: Option<Withdrawals>,
    /// Size of the block in RLP, in bytes (limited by EIP-7934).
    pub rlp_bytes: usize,
}

impl Block {
    /// Decodes exactly one block; trailing bytes are an error. Does not copy the transactions.
    ///
    /// # Errors
    /// Returns the part that is malformed or not canonical.
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
        let mut decoded = Self { header, hash, rlp_bytes: block.len(), ..Self::default() };
        decoded.decode_body(block, fields)?;
        Ok(decoded)
    }

    /// Rebuilds a block from its stored header and body. Does not check the hash, and does not copy the transactions.
    ///
    /// # Errors
    /// Returns the part that is malformed or not canonical.
    pub fn from_parts(hash: B256, header: &[u8], body: &Bytes) -> Result<Self, BlockDecodeError> {
        let decoded = Header::decode(&mut &*header);
        let decoded = decoded.map_err(|reason| BlockDecodeError { part: "header", reason })?;
        let payload_length = header.len() + body.len();
        let rlp_bytes = payload_length + RlpHeader { list: true, payload_length }.length();
        let mut block = Self { header: decoded, hash, rlp_bytes, ..Self::default() };
        block.decode_body(body, body)?;
        Ok(block)
    }

    /// Decodes the fields that follow the header. `fields` is a slice of `bytes`.
    fn decode_body(&mut self, bytes: &Bytes, mut fields: &[u8]) -> Result<(), BlockDecodeError> {
        let at = |part| move |reason| BlockDecodeError { part, reason };
        self.transactions = transactions(bytes, &mut fields).map_err(at("transactions"))?;
        self.ommers = Vec::<Header>::decode(&mut fields).map_err(at("ommers"))?;
        if !fields.is_empty() {
            let list = Vec::<Withdrawal>::decode(&mut fields).map_err(at("withdrawals"))?;
            self.withdrawals = Some(Withdrawals::new(list));
        }
        if !fields.is_empty() {
            return Err(at("end")(alloy_rlp::Error::UnexpectedLength));
        }
        Ok(())
    }

    /// Returns the transaction at `index` of a stored body, if there is one. Copies nothing, and reads only the
    /// bytes up to the end of that transaction.
    ///
    /// # Errors
    /// Returns an error if the transactions before it are malformed.
    pub fn transaction_at(body: &Bytes, index: usize) -> Result<Option<Bytes>, BlockDecodeError> {
        Ok(Self::transaction_range(body, index)?.map(|range| body.slice(range)))
    }

    /// Returns the byte range of the transaction that [`Self::transaction_at`] returns.
    ///
    /// # Errors
    /// Returns an error if the transactions before it are malformed.
    pub fn transaction_range(
        body: &[u8],
        index: usize,
    ) -> Result<Option<Range<usize>>, BlockDecodeError> {
        let found = Self::raw_transactions(body)?.nth(index).transpose()?;
        Ok(found.map(|raw| {
            let start = raw.as_ptr().addr() - body.as_ptr().addr();
            start..start + raw.len()
        }))
    }

    /// Returns the EIP-2718 bytes of the transactions of a stored body, in order. The transactions are neither
    /// copied nor decoded.
    ///
    /// # Errors
    /// Returns an error if the body does not begin with a list. Later errors are returned as items.
    pub fn raw_transactions(body: &[u8]) -> Result<RawTransactions<'_>, BlockDecodeError> {
        let items = list(&mut &*body).map_err(malformed_transactions)?;
        Ok(RawTransactions { items })
    }

    /// Returns the ommers of a stored body. Skips the transactions without decoding them.
    ///
    /// # Errors
    /// Returns the part that is malformed or not canonical.
    pub fn ommers_of(body: &[u8]) -> Result<Vec<Header>, BlockDecodeError> {
        let mut fields = body;
        list(&mut fields).map_err(malformed_transactions)?;
        Vec::<Header>::decode(&mut fields)
            .map_err(|reason| BlockDecodeError { part: "ommers", reason })
    }

    /// Returns the parts that the header commits to.
    pub fn body(&self) -> Body<'_> {
        Body {
            transactions: &self.transactions,
            ommers: &self.ommers,
            withdrawals: self.withdrawals.as_ref(),
            rlp_bytes: self.rlp_bytes,
        }
    }

    /// Encodes the part of a block after the header: transactions, ommers, withdrawals.
    pub fn encode_body(&self) -> Bytes {
        let payload_length = self.transactions.iter().map(tx_length).sum();
        let head = RlpHeader { list: true, payload_length };
        let withdrawals = self.withdrawals.as_ref().map_or(0, |list| list.0.length());
        let bytes = head.length_with_payload() + self.ommers.length() + withdrawals;
        let mut out = Vec::with_capacity(bytes);
        head.encode(&mut out);
        for raw in &self.transactions {
            encode_tx(raw, &mut out);
        }
        self.ommers.encode(&mut out);
        if let Some(withdrawals) = &self.withdrawals {
            withdrawals.0.encode(&mut out);
        }
        out.into()
    }
}

/// The raw transactions of a body, see [`Block::raw_transactions`]. Ends after the first error.
#[derive(Clone, Debug)]
pub struct RawTransactions<'a> {
    items: &'a [u8],
}

impl<'a> Iterator for RawTransactions<'a> {
    type Item = Result<&'a [u8], BlockDecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.items.is_empty() {
            return None;
        }
        let next = next_transaction(&mut self.items).map_err(malformed_transactions);
        if next.is_err() {
            self.items = &[];
        }
        Some(next)
    }
}

const fn malformed_transactions(reason: alloy_rlp::Error) -> BlockDecodeError {
    BlockDecodeError { part: "transactions", reason }
}

/// Joins a stored header and body into the RLP of a block.
pub fn join(header: &[u8], body: &[u8]) -> Vec<u8> {
    let payload_length = header.len() + body.len();
    let mut out = Vec::with_capacity(payload_length + 9);
    RlpHeader { list: true, payload_length }.encode(&mut out);
    out.put_slice(header);
    out.put_slice(body);
    out
}

/// Splits a list's payload off `rest`.
fn list<'a>(rest: &mut &'a [u8]) -> alloy_rlp::Result<&'a [u8]> {
    let head = RlpHeader::decode(rest)?;
    if !head.list {
        return Err(alloy_rlp::Error::UnexpectedString);
    }
    // `decode` has checked that the payload is complete.
    let (payload, after) = rest.split_at(head.payload_length);
    *rest = after;
    Ok(payload)
}

/// Returns the bytes of the next transaction. A legacy transaction is an item of the list itself; a typed one is
/// wrapped in a byte string.
fn next_transaction<'a>(items: &mut &'a [u8]) -> alloy_rlp::Result<&'a [u8]> {
    let start = *items;
    let head = RlpHeader::decode(items)?;
    let (payload, after) = items.split_at(head.payload_length);
    *items = after;
    let raw = if head.list { &start[..start.len() - after.len()] } else { payload };
    // A byte string that contains an RLP list is not a typed transaction.
    if !head.list && raw.first().is_none_or(|kind| *kind > 0x7f) {
        return Err(alloy_rlp::Error::Custom("transaction type out of range"));
    }
    Ok(raw)
}

fn transactions(block: &Bytes, fields: &mut &[u8]) -> alloy_rlp::Result<Vec<Bytes>> {
    let mut items = list(fields)?;
    let mut transactions = Vec::new();
    while !items.is_empty() {
        let raw = next_transaction(&mut items)?;
        transactions.push(block.slice_ref(raw));
    }
    Ok(transactions)
}

/// Returns whether this is a legacy transaction, which a body contains as an RLP list; typed ones are byte strings.
fn is_legacy(raw: &Bytes) -> bool {
    raw.first().is_some_and(|first| *first >= 0xc0)
}

fn tx_length(raw: &Bytes) -> usize {
    if is_legacy(raw) { raw.len() } else { raw.length() }
}

fn encode_tx(raw: &Bytes, out: &mut Vec<u8>) {
    if is_legacy(raw) {
        out.put_slice(raw);
    } else {
        raw.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Block, Bytes) {
        let header = Header {
            number: 7,
            base_fee_per_gas: Some(7),
            withdrawals_root: Some(B256::ZERO),
            ..Header::default()
        };
        let withdrawal = Withdrawal { index: 1, amount: 2, ..Withdrawal::default() };
        let mut block = Block {
            hash: header.hash_slow(),
            header,
            transactions: vec![
                Bytes::from_static(&[0xc1, 0x05]),
                Bytes::from_static(&[0x02, 0xc1, 0x06]),
            ],
            ommers: vec![Header::default()],
            withdrawals: Some(Withdrawals::new(vec![withdrawal])),
            rlp_bytes: 0,
        };
        let whole = join(&alloy_rlp::encode(&block.header), &block.encode_body());
        block.rlp_bytes = whole.len();
        (block, whole.into())
    }

    #[test]
    fn block_survives_encoding_and_decoding() {
        let (block, whole) = sample();
        assert_eq!(Block::decode(&whole), Ok(block.clone()));
        let header = alloy_rlp::encode(&block.header);
        assert_eq!(Block::from_parts(block.hash, &header, &block.encode_body()), Ok(block));
    }

    #[test]
    fn parts_of_a_body_are_read_without_the_others() {
        let (block, _) = sample();
        let body = block.encode_body();
        let raw: Vec<_> =
            Block::raw_transactions(&body).unwrap().map(|raw| raw.unwrap().to_vec()).collect();
        assert_eq!(raw, block.transactions);
        for (index, raw) in block.transactions.iter().enumerate() {
            assert_eq!(Block::transaction_at(&body, index), Ok(Some(raw.clone())));
        }
        assert_eq!(Block::transaction_at(&body, block.transactions.len()), Ok(None));
        assert_eq!(Block::ommers_of(&body), Ok(block.ommers));
    }

    #[test]
    fn a_malformed_transaction_ends_the_list_with_one_error() {
        // A list of three bytes: a typed transaction in one byte, then a string that is cut off.
        let mut raw = Block::raw_transactions(&[0xc3, 0x02, 0xb8, 0xff]).unwrap();
        assert_eq!(raw.next(), Some(Ok(&[0x02][..])));
        assert!(raw.next().unwrap().is_err());
        assert_eq!(raw.next(), None);
    }

    #[test]
    fn every_truncation_and_any_trailing_byte_is_an_error() {
        let (_, whole) = sample();
        for length in 0..whole.len() {
            assert!(Block::decode(&whole.slice(..length)).is_err(), "{length} bytes");
        }
        let mut longer = whole.to_vec();
        longer.push(0);
        assert!(Block::decode(&longer.into()).is_err());
    }
}
