//! Defines the result objects. They have the fields of the execution-apis specification, in geth's form if the
//! specification leaves a choice. This module does not read storage.

mod block;
mod receipt;
mod transaction;

pub use block::{BlockObject, HeaderObject, Transactions};
pub use receipt::{LogObject, LogPosition, ReceiptContext, ReceiptObject};
pub use transaction::TransactionObject;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Json, WriteJson};
    use alloy_consensus::{
        Header, SignableTransaction, TxEip1559, TxEip2930, TxEip4844, TxEip7702, TxLegacy,
    };
    use alloy_eips::{
        eip2930::{AccessList, AccessListItem},
        eip4895::Withdrawal,
        eip7702::Authorization,
    };
    use alloy_primitives::{Address, B256, Bytes, Log, LogData, Signature, TxKind, U256};
    use chain::block::Block;
    use serde::Serialize;
    use state::stored::MinedTx;
    use storage::{ReceiptOutcome, StoredReceipt};
    use transactions::Transaction;

    fn assert_written_as_by_serde(value: &(impl WriteJson + Serialize)) {
        let written = String::from_utf8(Json::write(value).bytes().to_vec()).unwrap();
        assert_eq!(written, serde_json::to_string(value).unwrap());
    }

    /// Returns transactions of every Ethereum type, which together have every field.
    fn transactions() -> Vec<Transaction> {
        let signature = Signature::new(U256::from(7) << 200, U256::from(9), true);
        let to = Address::repeat_byte(3);
        let word = B256::repeat_byte(0xab);
        let access_list =
            AccessList(vec![AccessListItem { address: to, storage_keys: vec![word, B256::ZERO] }]);
        let authorization = Authorization { chain_id: U256::ONE, address: to, nonce: 5 };
        let input = Bytes::from_static(b"\x00\xffinput");
        let value = U256::from(1) << 130;
        vec![
            TxLegacy { to: TxKind::Create, gas_price: 1 << 70, ..TxLegacy::default() }
                .into_signed(signature)
                .into(),
            TxLegacy { chain_id: Some(1), to: to.into(), value, ..TxLegacy::default() }
                .into_signed(signature)
                .into(),
            TxEip2930 { access_list: access_list.clone(), input, ..TxEip2930::default() }
                .into_signed(signature)
                .into(),
            TxEip1559 { max_fee_per_gas: 90, nonce: 16, access_list, ..TxEip1559::default() }
                .into_signed(signature)
                .into(),
            TxEip4844 { blob_versioned_hashes: vec![word], ..TxEip4844::default() }
                .into_signed(signature)
                .into(),
            TxEip7702 {
                authorization_list: vec![authorization.into_signed(signature)],
                ..TxEip7702::default()
            }
            .into_signed(signature)
            .into(),
        ]
    }

    fn logs() -> Vec<Log> {
        let topics = |count: u8| (0..count).map(B256::with_last_byte).collect();
        (0..=4u8)
            .map(|count| Log {
                address: Address::repeat_byte(count),
                data: LogData::new_unchecked(topics(count), vec![count; 3 * count as usize].into()),
            })
            .collect()
    }

    #[test]
    fn objects_are_written_as_serde_writes_them() {
        let old = Header { number: 255, gas_used: 1 << 40, ..Header::default() };
        let new = Header {
            base_fee_per_gas: Some(7),
            withdrawals_root: Some(B256::repeat_byte(1)),
            blob_gas_used: Some(0),
            excess_blob_gas: Some(1 << 17),
            parent_beacon_block_root: Some(B256::repeat_byte(2)),
            requests_hash: Some(B256::repeat_byte(3)),
            extra_data: Bytes::from_static(b"extra"),
            difficulty: U256::MAX,
            ..old
        };
        let sender = Address::repeat_byte(9);
        for header in [old.clone(), new] {
            let withdrawals = vec![Withdrawal { index: 1, amount: 3, ..Withdrawal::default() }];
            let withdrawals = header.withdrawals_root.map(|_| withdrawals.into());
            let hash = B256::repeat_byte(4);
            let ommers = vec![old.clone()];
            let block = Block { header, hash, ommers, withdrawals, ..Block::default() };
            assert_written_as_by_serde(&HeaderObject::new(hash, &block.header));
            let mut full = Vec::new();
            for (index, tx) in transactions().into_iter().enumerate() {
                assert_written_as_by_serde(&TransactionObject::pending(&tx, hash, sender));
                let mined = MinedTx {
                    block: &block,
                    index,
                    raw: Bytes::new(),
                    tx,
                    hash,
                    sender,
                    cosmos: None,
                };
                assert_written_as_by_serde(&TransactionObject::mined(&mined));
                full.push(TransactionObject::mined(&mined));
                let root = ReceiptOutcome::PostState(B256::repeat_byte(5));
                for outcome in [ReceiptOutcome::Status(true), ReceiptOutcome::Status(false), root] {
                    let receipt = StoredReceipt {
                        tx_type: 0,
                        outcome,
                        cumulative_gas_used: 21_000,
                        logs: logs(),
                    };
                    let context = ReceiptContext {
                        logs_before: 300,
                        blob_gas_price: Some(1 << 65),
                        ..ReceiptContext::default()
                    };
                    assert_written_as_by_serde(&ReceiptObject::new(&mined, &receipt, context));
                }
            }
            assert_written_as_by_serde(&BlockObject::new(&block, Transactions::Full(full)));
            assert_written_as_by_serde(&BlockObject::new(
                &block,
                Transactions::Hashes(vec![hash, B256::ZERO]),
            ));
            assert_written_as_by_serde(&BlockObject::new(&block, Transactions::Hashes(Vec::new())));
        }
    }
}
