//! The base fee of Cosmos transactions can include a fraction of a wei in the pool, in blocks and in responses.

use super::served::{FORKING, Served};
use crate::common::{
    CHAIN_ID, GENESIS_TIME, producing,
    signed::{address_of, any, coins, send},
};
use chain::{DEV_ACCOUNTS, Genesis};
use home::Home;
use keys::PrivateKey;
use prost::Message;
use proto::cosmos::{
    evm::{crypto::v1::ethsecp256k1::PubKey, types::v1::ExtensionOptionDynamicFeeTx},
    tx::v1beta1::{AuthInfo, Fee, ModeInfo, SignerInfo, TxBody, TxRaw, mode_info},
};
use serde_json::{Value, json};
use std::time::Duration;
use transactions::cosmos::{CosmosTx, Signatures};

const GAS: u64 = 100_000;
const COLLECTOR: &str = "cosmos17xpfvakm2amg962yls6f84z3kell8c5lserqta";

/// Returns a genesis whose base fee stays close to 1.9 wei, with the newest rules or with version 0.
fn genesis(newest_rules: bool) -> Genesis {
    let mut genesis: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    let native = &mut genesis["config"]["evmd"];
    native["feemarket"]["params"]["base_fee"] = json!("1.9");
    native["feemarket"]["params"]["base_fee_change_denominator"] = json!(u32::MAX);
    if !newest_rules {
        native.as_object_mut().unwrap().remove("rules");
    }
    genesis["baseFeePerGas"] = json!("0x1");
    Genesis::from_json(&genesis.to_string()).unwrap()
}

/// Returns a payment by account 0 with this fee, and with a priority fee of zero if `without_priority_fee`.
fn payment(sequence: u64, fee: u64, without_priority_fee: bool) -> Vec<u8> {
    let key = PrivateKey::from_bytes(DEV_ACCOUNTS[0].private_key.as_slice()).unwrap();
    let single = mode_info::Single { mode: 1 };
    let signer = SignerInfo {
        public_key: Some(any(&PubKey { key: key.public_key().as_bytes().to_vec() })),
        mode_info: Some(ModeInfo { sum: Some(mode_info::Sum::Single(single)) }),
        sequence,
    };
    let priority_fee = ExtensionOptionDynamicFeeTx { max_priority_price: "0".to_owned() };
    let body = TxBody {
        messages: vec![send(0, &address_of(9), 7)],
        extension_options: without_priority_fee.then(|| any(&priority_fee)).into_iter().collect(),
        ..TxBody::default()
    };
    let fee = Fee { amount: coins(fee), gas_limit: GAS, ..Fee::default() };
    let auth = AuthInfo { signer_infos: vec![signer], fee: Some(fee) };
    let raw = |signature: Vec<u8>| {
        let raw = TxRaw {
            body_bytes: body.encode_to_vec(),
            auth_info_bytes: auth.encode_to_vec(),
            signatures: vec![signature],
        };
        raw.encode_to_vec()
    };
    let unsigned = CosmosTx::decode(&raw(Vec::new()), Signatures::Optional).unwrap();
    raw(key.sign(&unsigned.digest(CHAIN_ID))[..64].to_vec())
}

async fn serve(newest_rules: bool) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let mut home = Home::init(folder.path(), &genesis(newest_rules)).unwrap();
    home.config.engine.empty_blocks = false;
    let served = Served::on(folder, home, producing(Some(Duration::from_millis(5)))).await;
    drop(opening);
    served
}

#[tokio::test(flavor = "multi_thread")]
async fn newest_rules_charge_the_fraction_of_the_base_fee() {
    for (newest_rules, charged) in [(true, 190_000), (false, 100_000)] {
        let served = serve(newest_rules).await;
        if newest_rules {
            let (code, log) = served.broadcast(&payment(0, GAS, false)).await;
            assert_eq!(code, 13);
            let required = "got: 1.000000000000000000atest required: 1.89999";
            assert!(log.contains(required), "{log}");
            assert_eq!(served.broadcast(&payment(0, 189_999, false)).await.0, 13);
        }
        let mined = served.mined(&payment(0, 1_000_000, true)).await;
        assert_eq!(mined["code"], 0, "{mined}");
        let path = format!("/cosmos/bank/v1beta1/balances/{COLLECTOR}/by_denom?denom=atest");
        let balance = served.get(&path).await;
        assert_eq!(balance["balance"]["amount"], charged.to_string(), "{newest_rules}");
        let events = mined["events"].to_string();
        assert!(events.contains(&format!("\"{charged}atest\"")), "{events}");
        served.stop().await;
    }
}
