//! A block as it travels: header, raw transactions, ommers, withdrawals, in the RLP of the Yellow
//! Paper section 4.3 with EIP-2718 transactions and EIP-4895 withdrawals.
//!
//! Transactions stay raw bytes here: decoding and recovering them is the recover stage's work.

use crate::chain::Body;
use alloy_consensus::Header;
use alloy_eips::eip4895::{Withdrawal, Withdrawals};
use alloy_primitives::{B256, Bytes, keccak256};
use alloy_rlp::{BufMut, Decodable, EMPTY_STRING_CODE, Encodable, Header as RlpHeader};

/// A decoded block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The header.
    pub header: Header,
    /// Its Keccak-256.
    pub hash: B256,
    /// EIP-2718 bytes of each transaction.
    pub txs: Vec<Bytes>,
    /// Headers of ommers; empty since the merge.
    pub ommers: Vec<Header>,
    /// Since Shanghai.
    pub withdrawals: Option<Withdrawals>,
    /// Bytes of the whole block in RLP (limited by EIP-7934).
    pub size: usize,
}

impl Block {
    /// Decodes one block from the front of `input` and advances it.
    pub fn decode(input: &mut &[u8]) -> alloy_rlp::Result<Self> {
        let before = input.len();
        let mut content = RlpHeader::decode_bytes(input, true)?;
        let size = before - input.len();
        let header_rlp = content;
        let header = Header::decode(&mut content)?;
        let hash = keccak256(&header_rlp[..header_rlp.len() - content.len()]);
        let (txs, ommers, withdrawals) = decode_body(&mut content)?;
        if !content.is_empty() {
            return Err(alloy_rlp::Error::UnexpectedLength);
        }
        Ok(Self { header, hash, txs, ommers, withdrawals, size })
    }

    /// Rebuilds a block from its stored header and body.
    pub fn from_parts(hash: B256, header: &[u8], body: &[u8]) -> alloy_rlp::Result<Self> {
        let decoded = Header::decode(&mut &*header)?;
        let (txs, ommers, withdrawals) = decode_body(&mut &*body)?;
        let content = header.len() + body.len();
        let size = content + RlpHeader { list: true, payload_length: content }.length();
        Ok(Self { header: decoded, hash, txs, ommers, withdrawals, size })
    }

    /// What the header commits to.
    pub fn body(&self) -> Body<'_> {
        Body {
            transactions: &self.txs,
            ommers: &self.ommers,
            withdrawals: self.withdrawals.as_ref(),
            rlp_bytes: self.size,
        }
    }

    /// The RLP of what follows the header in a block: transactions, ommers, withdrawals.
    pub fn encode_body(&self) -> Bytes {
        let mut out = Vec::new();
        let payload_length = self.txs.iter().map(tx_length).sum();
        RlpHeader { list: true, payload_length }.encode(&mut out);
        for raw in &self.txs {
            encode_tx(raw, &mut out);
        }
        self.ommers.encode(&mut out);
        if let Some(withdrawals) = &self.withdrawals {
            withdrawals.0.encode(&mut out);
        }
        out.into()
    }
}

/// Joins a stored header and body into a whole block.
pub fn join(header: &[u8], body: &[u8]) -> Vec<u8> {
    let payload_length = header.len() + body.len();
    let mut out = Vec::with_capacity(payload_length + 9);
    RlpHeader { list: true, payload_length }.encode(&mut out);
    out.put_slice(header);
    out.put_slice(body);
    out
}

type BodyParts = (Vec<Bytes>, Vec<Header>, Option<Withdrawals>);

fn decode_body(content: &mut &[u8]) -> alloy_rlp::Result<BodyParts> {
    let mut list = RlpHeader::decode_bytes(content, true)?;
    let mut txs = Vec::new();
    while !list.is_empty() {
        txs.push(decode_tx(&mut list)?);
    }
    let ommers = Vec::decode(content)?;
    let withdrawals = if content.is_empty() {
        None
    } else {
        Some(Withdrawals::new(Vec::<Withdrawal>::decode(content)?))
    };
    Ok((txs, ommers, withdrawals))
}

/// A legacy transaction is an RLP list in place; a typed one is wrapped in a byte string.
fn is_legacy(first: u8) -> bool {
    first >= 0xc0
}

fn decode_tx(list: &mut &[u8]) -> alloy_rlp::Result<Bytes> {
    let whole = *list;
    let legacy = is_legacy(*whole.first().ok_or(alloy_rlp::Error::InputTooShort)?);
    let content = RlpHeader::decode_bytes(list, legacy)?;
    if legacy {
        return Ok(Bytes::copy_from_slice(&whole[..whole.len() - list.len()]));
    }
    match content.first() {
        Some(first) if *first < EMPTY_STRING_CODE => Ok(Bytes::copy_from_slice(content)),
        _ => Err(alloy_rlp::Error::Custom("typed transaction without a type below 0x80")),
    }
}

fn tx_length(raw: &Bytes) -> usize {
    if raw.first().is_some_and(|first| is_legacy(*first)) { raw.len() } else { raw.length() }
}

fn encode_tx(raw: &Bytes, out: &mut Vec<u8>) {
    if raw.first().is_some_and(|first| is_legacy(*first)) {
        out.put_slice(raw);
    } else {
        raw.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Block {
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
            txs: vec![Bytes::from_static(&[0xc1, 0x05]), Bytes::from_static(&[0x02, 0xc1, 0x06])],
            ommers: vec![Header::default()],
            withdrawals: Some(Withdrawals::new(vec![withdrawal])),
            size: 0,
        };
        let whole = join(&alloy_rlp::encode(&block.header), &block.encode_body());
        block.size = whole.len();
        block
    }

    #[test]
    fn survives_its_encoding() {
        let block = sample();
        let header = alloy_rlp::encode(&block.header);
        let whole = join(&header, &block.encode_body());
        assert_eq!(Block::decode(&mut whole.as_slice()), Ok(block.clone()));
        assert_eq!(Block::from_parts(block.hash, &header, &block.encode_body()), Ok(block));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let block = sample();
        let whole = join(&alloy_rlp::encode(&block.header), &block.encode_body());
        for length in 0..whole.len() {
            assert!(Block::decode(&mut &whole[..length]).is_err(), "{length} bytes");
        }
    }
}
