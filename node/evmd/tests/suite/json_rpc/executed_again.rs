//! `debug_intermediateRoots` and `debug_executionWitness` re-execute a block. Their results match receipts and proofs.

use super::explorer::every_fork;
use crate::client::Node;
use alloy_consensus::Header;
use alloy_primitives::{Address, B256, Bytes, keccak256};
use alloy_rlp::Decodable;
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The last block of the chain of [`every_fork`].
const HEAD: u64 = 41;
/// The first block whose receipts have no root.
const BYZANTIUM: u64 = 8;
/// The first block that ends with system calls.
const PRAGUE: u64 = 34;

async fn block(node: &Node, number: u64) -> Value {
    node.call("eth_getBlockByNumber", json!([format!("{number:#x}"), false])).await
}

#[tokio::test(flavor = "multi_thread")]
async fn intermediate_roots_equal_those_of_receipts_and_headers() {
    let node = every_fork().await;
    let (mut with_receipts, mut with_headers) = (0, 0);
    for number in 1..=HEAD {
        let header = block(&node, number).await;
        let params = json!([header["hash"], {}]);
        let roots = node.call("debug_intermediateRoots", params).await;
        let roots = roots.as_array().unwrap();
        assert_eq!(roots.len(), header["transactions"].as_array().unwrap().len(), "block {number}");
        if number < BYZANTIUM {
            let receipts = node.call("eth_getBlockReceipts", json!([header["number"]])).await;
            let expected: Vec<_> = receipts
                .as_array()
                .unwrap()
                .iter()
                .map(|receipt| receipt["root"].clone())
                .collect();
            assert_eq!(roots, &expected, "block {number}");
            with_receipts += roots.len();
        }
        // After the merge there is no block reward, so nothing changes after the last transaction.
        if header["difficulty"] == "0x0" && number < PRAGUE {
            assert_eq!(roots.last(), Some(&header["stateRoot"]), "block {number}");
            with_headers += 1;
        }
    }
    assert!(with_receipts > 10 && with_headers > 4, "{with_receipts} {with_headers}");
    let genesis = block(&node, 0).await["hash"].clone();
    let unknown = B256::repeat_byte(9);
    for (hash, text) in [
        (genesis, "genesis is not traceable".to_owned()),
        (json!(unknown), format!("block {unknown} not found")),
    ] {
        assert_eq!(node.fail("debug_intermediateRoots", json!([hash])).await, (-32000, text));
    }
    node.stop().await;
}

fn bytes(list: &Value) -> Vec<Bytes> {
    serde_json::from_value(list.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn witness_has_the_proof_of_every_key() {
    let node = every_fork().await;
    let contract = DEV_ACCOUNTS[0].address.create(0);
    for number in 1..=HEAD {
        let header = block(&node, number).await;
        let id = if number % 2 == 0 { &header["number"] } else { &header["hash"] };
        let witness = node.call("debug_executionWitness", json!([id])).await;
        let state: BTreeSet<Bytes> = bytes(&witness["state"]).into_iter().collect();
        let parent = block(&node, number - 1).await;
        let root: B256 = parent["stateRoot"].as_str().unwrap().parse().unwrap();
        assert!(state.iter().any(|node| keccak256(node) == root), "block {number}");
        // The address of an account precedes the keys of its slots.
        let (mut accounts, mut slots) = (Vec::<(Address, Vec<B256>)>::new(), 0);
        for key in bytes(&witness["keys"]) {
            match key.len() {
                20 => accounts.push((Address::from_slice(&key), Vec::new())),
                32 => {
                    accounts.last_mut().unwrap().1.push(B256::from_slice(&key));
                    slots += 1;
                }
                length => panic!("a key of {length} bytes"),
            }
        }
        let addresses: Vec<_> = accounts.iter().map(|(address, _)| *address).collect();
        assert!(addresses.contains(&DEV_ACCOUNTS[0].address) && addresses.contains(&contract));
        assert!(number == 1 || slots > 0, "block {number}");
        for (address, slots) in accounts {
            let params = json!([address, slots, parent["number"]]);
            let proof = node.call("eth_getProof", params).await;
            let storage = proof["storageProof"].as_array().unwrap().iter();
            let nodes = storage.flat_map(|proof| bytes(&proof["proof"]));
            for node in nodes.chain(bytes(&proof["accountProof"])) {
                assert!(state.contains(&node), "block {number}, {address}: {node}");
            }
        }
        let headers = bytes(&witness["headers"]);
        let last = Header::decode(&mut headers.last().unwrap().as_ref()).unwrap();
        assert_eq!((last.number, json!(last.hash_slow())), (number - 1, parent["hash"].clone()));
        let codes = bytes(&witness["codes"]);
        let code = node.call("eth_getCode", json!([contract, parent["number"]])).await;
        let code: Bytes = code.as_str().unwrap().parse().unwrap();
        assert_eq!(codes.contains(&code), number > 1, "block {number}");
    }
    assert_eq!(
        node.fail("debug_executionWitness", json!(["earliest"])).await,
        (-32000, "block number 0 found, but parent missing".to_owned())
    );
    assert_eq!(node.fail("debug_executionWitness", json!(["0xffff"])).await.0, -32000);
    node.stop().await;
}
