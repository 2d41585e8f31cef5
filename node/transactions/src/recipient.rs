//! Reads the recipient of an encoded transaction without decoding the rest. A search through a block for the
//! transactions of one address reads thousands of recipients to find a few transactions.

use crate::cosmos;
use alloy_consensus::TxType;
use alloy_primitives::{Address, TxKind};
use alloy_rlp::{Decodable, Header};

/// Returns whether [`participants`](crate::participants) of the decoded transaction may contain `address`. The result
/// is true for contract creations and Cosmos transactions, which have to be decoded to find out, and for malformed
/// bytes. The sender is not considered.
///
/// Reads the fields up to the recipient: about 20 ns.
pub fn may_be_participant(raw: &[u8], address: Address) -> bool {
    match recipient(raw) {
        Some(TxKind::Call(to)) => to == address,
        Some(TxKind::Create) | None => true,
    }
}

/// Returns the recipient of an Ethereum transaction; `None` if the bytes are a Cosmos transaction or malformed.
fn recipient(raw: &[u8]) -> Option<TxKind> {
    let (mut fields, before) = fields(raw)?;
    for _ in 0..before {
        let field = Header::decode(&mut fields).ok()?;
        fields = fields.get(field.payload_length..)?;
    }
    TxKind::decode(&mut fields).ok()
}

/// Returns the encoded fields of an Ethereum transaction, and the number of fields before the recipient.
fn fields(raw: &[u8]) -> Option<(&[u8], usize)> {
    let ty = *raw.first()?;
    let is_list = ty >= alloy_rlp::EMPTY_LIST_CODE;
    let (mut list, before) = if is_list {
        // Nonce, gas price and gas limit.
        (raw, 3)
    } else if cosmos::is_cosmos(raw) {
        return None;
    } else {
        let before = match TxType::try_from(ty).ok()? {
            TxType::Legacy => return None,
            // Chain id, nonce, gas price and gas limit (EIP-2930).
            TxType::Eip2930 => 4,
            // Chain id, nonce, priority fee, fee cap and gas limit (EIP-1559, EIP-4844, EIP-7702).
            TxType::Eip1559 | TxType::Eip4844 | TxType::Eip7702 => 5,
        };
        (&raw[1..], before)
    };
    let header = Header::decode(&mut list).ok()?;
    header.list.then_some((list, before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecodedTx, Transaction, impersonated_signature, participants};
    use alloy_consensus::{
        SignableTransaction, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
    };
    use alloy_eips::{Encodable2718 as _, eip2930::AccessList};
    use alloy_primitives::{Bytes, U256, address};

    const SENDER: Address = address!("0x1000000000000000000000000000000000000001");
    const LISTED: Address = address!("0x2000000000000000000000000000000000000002");
    const OTHER: Address = address!("0x3000000000000000000000000000000000000003");

    fn signed<T>(tx: T) -> Transaction
    where
        T: SignableTransaction<alloy_primitives::Signature>,
        Transaction: From<alloy_consensus::Signed<T>>,
    {
        tx.into_signed(impersonated_signature(SENDER)).into()
    }

    /// Returns a transaction of each type that can have the recipient `to`. The nonce and the gas limit are `number`.
    fn of_each_type(to: TxKind, number: u64, input: &Bytes) -> Vec<Transaction> {
        let (gas, fee, input) = (number, u128::from(number), input.clone());
        let access_list = AccessList::from(vec![alloy_eips::eip2930::AccessListItem {
            address: LISTED,
            storage_keys: vec![],
        }]);
        let mut txs = vec![
            signed(TxLegacy {
                chain_id: Some(number),
                nonce: number,
                gas_price: fee,
                gas_limit: gas,
                to,
                value: U256::from(number),
                input: input.clone(),
            }),
            signed(TxEip2930 {
                chain_id: number,
                nonce: number,
                gas_price: fee,
                gas_limit: gas,
                to,
                value: U256::from(number),
                access_list: access_list.clone(),
                input: input.clone(),
            }),
            signed(TxEip1559 {
                chain_id: number,
                nonce: number,
                gas_limit: gas,
                max_fee_per_gas: fee,
                max_priority_fee_per_gas: fee,
                to,
                value: U256::from(number),
                access_list: access_list.clone(),
                input: input.clone(),
            }),
        ];
        if let TxKind::Call(to) = to {
            txs.push(signed(TxEip7702 {
                chain_id: number,
                nonce: number,
                gas_limit: gas,
                to,
                access_list: access_list.clone(),
                input: input.clone(),
                ..TxEip7702::default()
            }));
            txs.push(signed(TxEip4844 {
                chain_id: number,
                nonce: number,
                gas_limit: gas,
                to,
                access_list,
                input,
                ..TxEip4844::default()
            }));
        }
        txs
    }

    #[test]
    fn recipients_are_those_of_decoded_transactions() {
        // The input and the access list contain this address, which does not make it the recipient.
        let input = Bytes::copy_from_slice(LISTED.as_slice());
        for to in [TxKind::Create, TxKind::Call(LISTED), TxKind::Call(OTHER)] {
            for number in [0, 1, 0x7f, 0x80, 0xffff, u64::MAX] {
                for tx in of_each_type(to, number, &input) {
                    let raw = Bytes::from(tx.encoded_2718());
                    assert_eq!(recipient(&raw), Some(to), "{tx:?}");
                    let decoded = DecodedTx::decode(raw.clone()).unwrap();
                    assert_eq!(decoded.tx, tx);
                    for address in [LISTED, OTHER, SENDER.create(number)] {
                        let is_in =
                            participants(&decoded.tx, SENDER, None).any(|found| found == address);
                        let may_be = may_be_participant(&raw, address);
                        assert!(may_be || !is_in, "{address} in {tx:?}");
                        assert!(to == TxKind::Create || may_be == is_in, "{address} in {tx:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn truncated_or_unknown_bytes_have_to_be_decoded() {
        let tx = &of_each_type(TxKind::Call(OTHER), 7, &Bytes::new())[2];
        let raw = tx.encoded_2718();
        let after_recipient = 1 + 2 + 5 + 21;
        for end in 0..after_recipient {
            assert!(may_be_participant(&raw[..end], LISTED), "the first {end} bytes");
        }
        assert!(!may_be_participant(&raw, LISTED));
        for ty in [0, 0x05, 0x0a, 0x7f, 0x80, 0xbf] {
            let mut changed = raw.clone();
            changed[0] = ty;
            assert!(may_be_participant(&changed, LISTED), "type {ty}");
        }
    }
}
