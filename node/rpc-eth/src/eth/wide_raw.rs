//! Finds the error for submitted transactions with prices above 128 bits, which the transaction types cannot represent.
//! They are well-formed, but practically no account can pay for them. As in geth, the error says so.

use crate::method::Call;
use alloy_consensus::Transaction as _;
use alloy_eips::eip4844::DATA_GAS_PER_BLOB;
use alloy_primitives::{Address, B256, U256, U512, keccak256};
use alloy_rlp::{EMPTY_STRING_CODE, Encodable as _, Header};
use modules::decorator::Reject;
use rpc_types::error::Error;
use storage::StateRead;
use transactions::{DecodedTx, Transaction};

/// The smallest first byte of an RLP list, and therefore of a legacy transaction (EIP-2718).
const LIST_START: u8 = 0xc0;
/// Number of signature fields at the end of each transaction type.
const SIGNATURE_FIELDS: usize = 3;
/// Number of fields of a legacy transaction before its signature.
const LEGACY_FIELDS: usize = 6;

/// The positions of the priority fee, the fee cap and the blob fee cap among the fields of a transaction type.
struct PricePositions {
    tip: Option<usize>,
    cap: usize,
    blob_cap: Option<usize>,
}

impl PricePositions {
    const fn of(kind: u8) -> Option<Self> {
        match kind {
            0 => Some(Self { tip: None, cap: 1, blob_cap: None }),
            1 => Some(Self { tip: None, cap: 2, blob_cap: None }),
            2 | 4 => Some(Self { tip: Some(2), cap: 3, blob_cap: None }),
            3 => Some(Self { tip: Some(2), cap: 3, blob_cap: Some(9) }),
            _ => None,
        }
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        [self.tip, Some(self.cap), self.blob_cap].into_iter().flatten()
    }
}

/// A price in wei. For some transaction types, geth decodes integers of any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Price {
    /// At most 256 bits.
    Wei(U256),
    /// More than 256 bits.
    Over256Bits,
}

/// A signed transaction with a price above 128 bits.
#[derive(Debug)]
struct WideTx {
    /// The transaction with prices of zero.
    rest: Transaction,
    sender: Address,
    tip: Price,
    cap: Price,
    blob_cap: Price,
}

/// Returns the error for a transaction that cannot be decoded, if prices above 128 bits are the only reason.
pub(super) fn refusal(call: &Call, raw: &[u8]) -> Option<Error> {
    let tx = WideTx::decode(raw)?;
    Some(tx.refusal(call).unwrap_or_else(|error| error))
}

/// Returns the error for a transaction with a price above 128 bits, which depends on whether `balance` covers `cost`.
pub(super) fn unaffordable(balance: U256, cost: U512) -> Error {
    let balance = U512::from(balance);
    if cost <= balance {
        return Error::server(
            "max fee per gas higher than 2^128-1 is not supported, whatever the balance is",
        );
    }
    Error::server(format!(
        "insufficient funds for gas * price + value: balance {balance}, tx cost {cost}, overshot {}",
        cost - balance
    ))
}

impl WideTx {
    fn decode(raw: &[u8]) -> Option<Self> {
        let (kind, list) = match *raw.first()? {
            LIST_START.. => (0, raw),
            kind => (kind, &raw[1..]),
        };
        let positions = PricePositions::of(kind)?;
        let mut fields = fields(list)?;
        // With blobs, the first item is the list of the fields.
        if kind == 3 && *fields.first()?.first()? >= LIST_START {
            fields = self::fields(fields[0])?;
        }
        let price = |position: Option<usize>| match position {
            Some(position) => price(fields.get(position)?),
            None => Some(Price::Wei(U256::ZERO)),
        };
        let (tip, cap, blob_cap) =
            (price(positions.tip)?, price(Some(positions.cap))?, price(positions.blob_cap)?);
        let is_wide = |price: &Price| *price > Price::Wei(U256::from(u128::MAX));
        if ![tip, cap, blob_cap].iter().any(is_wide) {
            return None;
        }
        let mut unpriced = fields.clone();
        positions.all().for_each(|position| unpriced[position] = &[EMPTY_STRING_CODE]);
        let rest = DecodedTx::decode(encoded(kind, &unpriced, &[]).into()).ok()?.tx;
        let hash = signed_hash(kind, &fields, &rest);
        let sender = rest.signature().recover_address_from_prehash(&hash).ok()?;
        Some(Self { rest, sender, tip, cap, blob_cap })
    }

    /// Returns the error of geth's first check that fails.
    fn refusal(&self, call: &Call) -> Result<Error, Error> {
        let want = call.context.spec.chain_id;
        if let Some(have) = self.rest.chain_id().filter(|have| *have != want) {
            return Ok(Reject::ChainId { have, want }.into());
        }
        let beyond = |what: &str| Error::server(format!("{what} higher than 2^256-1"));
        let (tip, cap, blob_cap) = match (self.tip, self.cap, self.blob_cap) {
            (_, Price::Over256Bits, _) => return Ok(beyond("max fee per gas")),
            (Price::Over256Bits, ..) => return Ok(beyond("max priority fee per gas")),
            (.., Price::Over256Bits) => return Ok(beyond("max fee per blob gas")),
            (Price::Wei(tip), Price::Wei(cap), Price::Wei(blob_cap)) => (tip, cap, blob_cap),
        };
        if tip > cap {
            return Ok(Error::server(format!(
                "max priority fee per gas higher than max fee per gas: \
                 maxPriorityFeePerGas: {tip}, maxFeePerGas: {cap}"
            )));
        }
        let account = call.view.state.reader()?.account(self.sender)?.unwrap_or_default();
        let (next, nonce) = (account.nonce, self.rest.nonce());
        if nonce < next {
            return Ok(Reject::NonceTooLow { next, nonce }.into());
        }
        let blobs = self.rest.blob_versioned_hashes().unwrap_or_default().len() as u64;
        let cost = cost(self.rest.gas_limit(), cap, self.rest.value())
            + product(DATA_GAS_PER_BLOB * blobs, blob_cap);
        Ok(unaffordable(account.balance, cost))
    }
}

/// Returns the maximum cost of a transaction without blobs, in wei.
pub(super) fn cost(gas: u64, price: U256, value: U256) -> U512 {
    product(gas, price) + U512::from(value)
}

fn product(gas: u64, price: U256) -> U512 {
    U512::from(gas) * U512::from(price)
}

/// Splits an RLP list, which must be the complete input, into its encoded items.
fn fields(mut list: &[u8]) -> Option<Vec<&[u8]>> {
    let header = Header::decode(&mut list).ok()?;
    if !header.list || header.payload_length != list.len() {
        return None;
    }
    let mut fields = Vec::new();
    while !list.is_empty() {
        let mut rest = list;
        let header = Header::decode(&mut rest).ok()?;
        let length = list.len() - rest.len() + header.payload_length;
        let (field, rest) = list.split_at_checked(length)?;
        fields.push(field);
        list = rest;
    }
    Some(fields)
}

/// Decodes a canonical integer.
fn price(field: &[u8]) -> Option<Price> {
    let mut bytes = field;
    let header = Header::decode(&mut bytes).ok()?;
    if header.list || bytes.first() == Some(&0) {
        return None;
    }
    Some(U256::try_from_be_slice(bytes).map_or(Price::Over256Bits, Price::Wei))
}

/// Encodes a transaction of this type from encoded fields, followed by integers.
fn encoded(kind: u8, fields: &[&[u8]], more: &[u64]) -> Vec<u8> {
    let length = fields.iter().map(|field| field.len()).sum::<usize>();
    let payload_length = length + more.iter().map(|number| number.length()).sum::<usize>();
    let mut out = Vec::with_capacity(payload_length + 10);
    if kind > 0 {
        out.push(kind);
    }
    Header { list: true, payload_length }.encode(&mut out);
    fields.iter().for_each(|field| out.extend_from_slice(field));
    more.iter().for_each(|number| number.encode(&mut out));
    out
}

/// Computes the hash that was signed. It covers all fields before the signature, and the chain ID of a legacy
/// transaction that has one (EIP-155).
fn signed_hash(kind: u8, fields: &[&[u8]], rest: &Transaction) -> B256 {
    if kind > 0 {
        return keccak256(encoded(kind, &fields[..fields.len() - SIGNATURE_FIELDS], &[]));
    }
    let fields = &fields[..LEGACY_FIELDS];
    match rest.chain_id() {
        Some(chain_id) => keccak256(encoded(0, fields, &[chain_id, 0, 0])),
        None => keccak256(encoded(0, fields, &[])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloy_consensus::{
        SignableTransaction, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
    };
    use alloy_eips::{eip2718::Encodable2718 as _, eip7702::Authorization};
    use alloy_primitives::{Signature, TxKind};

    const CHAIN: u64 = 9;

    fn sign(hash: B256) -> Signature {
        let key = secp256k1::SecretKey::from_secret_bytes([7; 32]).unwrap();
        let message = secp256k1::Message::from_digest(hash.0);
        let signed = secp256k1::ecdsa::RecoverableSignature::sign_ecdsa_recoverable(message, &key);
        let (parity, bytes) = signed.serialize_compact();
        Signature::from_bytes_and_parity(&bytes, parity.to_u8() == 1)
    }

    fn signer() -> Address {
        let hash = B256::repeat_byte(1);
        sign(hash).recover_address_from_prehash(&hash).unwrap()
    }

    /// Returns one transaction of each type, with a signature that does not match it.
    fn transactions() -> Vec<Transaction> {
        let signature = Signature::test_signature();
        let to = Address::repeat_byte(5);
        let legacy = TxLegacy { gas_limit: 21_000, to: TxKind::Call(to), ..TxLegacy::default() };
        let protected = TxLegacy { chain_id: Some(CHAIN), ..legacy.clone() };
        let with_list = TxEip2930 { chain_id: CHAIN, gas_limit: 30_000, ..TxEip2930::default() };
        let dynamic = TxEip1559 { chain_id: CHAIN, value: U256::ONE, ..TxEip1559::default() };
        let blob_versioned_hashes = vec![B256::with_last_byte(1)];
        let blob = TxEip4844 { chain_id: CHAIN, blob_versioned_hashes, ..TxEip4844::default() };
        let allowed = Authorization { chain_id: U256::ZERO, address: to, nonce: 1 };
        let authorization_list = vec![allowed.into_signed(signature)];
        let delegating = TxEip7702 { chain_id: CHAIN, authorization_list, ..TxEip7702::default() };
        vec![
            legacy.into_signed(signature).into(),
            protected.into_signed(signature).into(),
            with_list.into_signed(signature).into(),
            dynamic.into_signed(signature).into(),
            blob.into_signed(signature).into(),
            delegating.into_signed(signature).into(),
        ]
    }

    /// Signs a transaction with other prices: priority fee, fee cap and blob fee cap.
    fn priced(tx: &Transaction, prices: [&[u8]; 3]) -> Vec<u8> {
        let kind = tx.tx_type() as u8;
        let raw = tx.encoded_2718();
        let list = if kind == 0 { &raw[..] } else { &raw[1..] };
        let positions = PricePositions::of(kind).unwrap();
        let mut fields: Vec<_> = fields(list).unwrap().iter().map(|field| field.to_vec()).collect();
        for (position, price) in
            [positions.tip, Some(positions.cap), positions.blob_cap].into_iter().zip(prices)
        {
            if let Some(position) = position {
                fields[position] = alloy_rlp::encode(price);
            }
        }
        let slices: Vec<_> = fields.iter().map(Vec::as_slice).collect();
        let signature = sign(signed_hash(kind, &slices, tx));
        let parity = u64::from(signature.v());
        let v = match (kind, tx.chain_id()) {
            (0, Some(chain_id)) => 35 + 2 * chain_id + parity,
            (0, None) => 27 + parity,
            _ => parity,
        };
        let unsigned = fields.len() - SIGNATURE_FIELDS;
        fields.truncate(unsigned);
        fields.push(alloy_rlp::encode(v));
        fields.push(alloy_rlp::encode(signature.r()));
        fields.push(alloy_rlp::encode(signature.s()));
        encoded(kind, &fields.iter().map(Vec::as_slice).collect::<Vec<_>>(), &[])
    }

    #[test]
    fn wide_prices_of_every_transaction_type_are_decoded() {
        // 2^128, and one byte more than 256 bits.
        let wide = [&[1][..], &[0; 16]].concat();
        let beyond = [1; 33];
        let (one, none): (&[u8], &[u8]) = (&[1], &[]);
        for tx in transactions() {
            let kind = tx.tx_type();
            assert!(DecodedTx::decode(priced(&tx, [one, one, one]).into()).is_ok(), "{kind}");
            assert!(WideTx::decode(&priced(&tx, [one, one, one])).is_none(), "{kind}");
            let raw = priced(&tx, [one, &wide, none]);
            assert!(DecodedTx::decode(raw.clone().into()).is_err(), "{kind}");
            let found = WideTx::decode(&raw).unwrap_or_else(|| panic!("{kind}"));
            assert_eq!(found.sender, signer(), "{kind}");
            assert_eq!(found.cap, Price::Wei(U256::ONE << 128), "{kind}");
            assert_eq!(found.rest.gas_limit(), tx.gas_limit(), "{kind}");
            let found = WideTx::decode(&priced(&tx, [none, &beyond, none])).unwrap();
            assert_eq!(found.cap, Price::Over256Bits, "{kind}");
        }
        let tip = WideTx::decode(&priced(&transactions()[3], [&wide, one, none])).unwrap();
        assert_eq!((tip.tip, tip.cap), (Price::Wei(U256::ONE << 128), Price::Wei(U256::ONE)));
        let blob = WideTx::decode(&priced(&transactions()[4], [none, one, &wide])).unwrap();
        assert_eq!(blob.blob_cap, Price::Wei(U256::ONE << 128));
    }

    #[test]
    fn other_malformed_transactions_are_not_decoded() {
        let wide = [&[1][..], &[0; 16]].concat();
        let zeros = [&[0][..], &wide[..]].concat();
        let raw = priced(&transactions()[3], [&[], &wide, &[]]);
        assert!(WideTx::decode(&raw).is_some());
        assert!(WideTx::decode(&priced(&transactions()[3], [&[], &zeros, &[]])).is_none());
        for end in 0..raw.len() {
            assert!(WideTx::decode(&raw[..end]).is_none(), "{end}");
        }
        let longer = [&raw[..], &[0]].concat();
        for raw in [&longer[..], &[], &[2], &[0xc0], &[0xc1], &[0x7f, 0xc0], &[2, 0xc3, 1, 1, 1]] {
            assert!(WideTx::decode(raw).is_none(), "{raw:02x?}");
        }
    }
}
