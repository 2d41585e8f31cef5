//! Checks to which transactions the setting `mempool.minimum-gas-prices` applies.

use super::served::{FORKING, Served};
use crate::{
    client::{Node, config},
    common::{
        CHAIN_ID, FEE_CAP, GENESIS_TIME, export, import, native_home, producing, sign,
        signed::{address_of, send, signed_at},
        transfer,
    },
};
use alloy_consensus::TxLegacy;
use alloy_primitives::{Address, Bytes, TxKind, U256, hex};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::Genesis;
use home::{Home, HomeError};
use pipeline::{Pipeline, StartError};
use serde_json::{Value, json};
use std::time::Duration;

/// The minimum price, above every base fee of these chains, in wei.
const PRICE: u64 = 2_000_000_000;
const RECEIVER: Address = Address::repeat_byte(0x77);

/// Returns a Cosmos transfer from a development account at this price.
fn coins(price: u64, from: usize, sequence: u64) -> Vec<u8> {
    signed_at(price, true, from, sequence, vec![send(from, &address_of(9), 7)])
}

/// Starts a node with a minimum price on a development chain.
async fn serve() -> Served {
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let mut home = native_home(folder.path());
    drop(opening);
    home.config.mempool.minimum_gas_prices = format!("{PRICE}atest").parse().unwrap();
    let mut config = config();
    config.mempool = home.config.mempool.clone();
    let options = producing(Some(Duration::from_millis(5)));
    Served::with(Node::start_with(folder, home, options, config).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn cosmos_transactions_below_the_minimum_price_are_refused() {
    let served = serve().await;
    let refused = "insufficient fees; got: 799999999600000atest required: 800000000000000atest: \
                   insufficient fee";
    assert_eq!(served.broadcast(&coins(PRICE - 1, 0, 0)).await, (13, refused.to_owned()));
    for (sequence, price) in [(0, PRICE), (1, PRICE + 1)] {
        assert_eq!(served.mined(&coins(price, 0, sequence)).await["code"], 0, "{price}");
    }
    // The minimum price does not apply to a simulated transaction.
    let body = json!({ "tx_bytes": BASE64.encode(coins(1, 0, 2)) });
    let (status, tried) = served.post("/cosmos/tx/v1beta1/simulate", &body.to_string()).await;
    assert_eq!(status, 200, "{tried}");
    let config = served.get("/cosmos/base/node/v1beta1/config").await;
    assert_eq!(config["minimum_gas_price"], "2000000000.000000000000000000atest");
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn minimum_price_does_not_apply_to_ethereum_transactions_of_a_native_chain() {
    let served = serve().await;
    let price = u128::from(PRICE) - 1;
    let tx = TxLegacy {
        chain_id: Some(CHAIN_ID),
        gas_limit: 21_000,
        gas_price: price,
        to: TxKind::Call(RECEIVER),
        ..TxLegacy::default()
    };
    let hash = served.node.call("eth_sendRawTransaction", json!([sign(0, tx)])).await;
    served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
    served.stop().await;
}

#[test]
fn blocks_with_cheaper_transactions_are_imported() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [source, imported] = folders.each_ref().map(|folder| folder.path());
    let opening = FORKING.blocking_lock();
    let home = native_home(source);
    let pipeline = Pipeline::start(&home, producing(Some(Duration::from_millis(5)))).unwrap();
    drop(opening);
    let raw = [&[transactions::cosmos::TX_TYPE], coins(PRICE - 1, 0, 0).as_slice()].concat();
    runtime.block_on(pipeline.client().submit(raw.into())).unwrap();
    crate::common::wait_until("the transaction is in a block", || {
        let content = runtime.block_on(pipeline.client().content(None)).unwrap();
        content.is_empty()
    });
    pipeline.stop();
    pipeline.join().unwrap();
    let file = source.join("chain.rlp");
    let head = export(&home, &file);

    let opening = FORKING.blocking_lock();
    let mut home = native_home(imported);
    drop(opening);
    home.config.mempool.minimum_gas_prices = format!("{PRICE}atest").parse().unwrap();
    import(&home, vec![file]).unwrap();
    assert_eq!(home.view().unwrap().head.hash, head);
}

#[tokio::test(flavor = "multi_thread")]
async fn journalled_transactions_below_a_raised_minimum_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let home = native_home(folder.path());
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    drop(opening);
    for (from, price) in [(0, PRICE - 1), (1, PRICE), (2, PRICE + 1)] {
        let raw = [&[transactions::cosmos::TX_TYPE], coins(price, from, 0).as_slice()].concat();
        pipeline.client().submit(raw.into()).await.unwrap();
    }
    pipeline.client().submit(transfer(3, 0, RECEIVER)).await.unwrap();
    let pooled = async |pipeline: &Pipeline| pipeline.client().content(None).await.unwrap().len();
    assert_eq!(pooled(&pipeline).await, 4);
    pipeline.stop();
    pipeline.join().unwrap();
    drop(home);

    let opening = FORKING.lock().await;
    let mut home = crate::common::reopened(folder.path());
    home.config.mempool.minimum_gas_prices = format!("{PRICE}atest").parse().unwrap();
    home.config.mempool.accept_without_production = true;
    let pipeline = Pipeline::start(&home, producing(None)).unwrap();
    drop(opening);
    assert_eq!(pooled(&pipeline).await, 3);
    pipeline.stop();
    pipeline.join().unwrap();
}

#[test]
fn minimum_price_in_an_unknown_token_is_refused_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.blocking_lock();
    let mut home = native_home(folder.path());
    drop(opening);
    home.config.mempool.minimum_gas_prices = "1stake".parse().unwrap();
    let refused = Pipeline::start(&home, producing(None)).unwrap_err();
    assert!(matches!(refused, StartError::Home(HomeError::MinimumGasPrices(_))), "{refused}");
}

/// Returns a genesis of an Ethereum chain whose last fork is Berlin, with the accounts of the development genesis.
fn berlin() -> Genesis {
    let mut file: Value =
        serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
    let mut config = json!({ "chainId": CHAIN_ID });
    for fork in ["homestead", "eip150", "eip155", "eip158", "byzantium", "constantinople"]
        .into_iter()
        .chain(["petersburg", "istanbul", "berlin"])
    {
        config[format!("{fork}Block")] = json!(0);
    }
    file["config"] = config;
    let file = file.as_object_mut().unwrap();
    file.remove("baseFeePerGas");
    Genesis::from_json(&serde_json::to_string(file).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn minimum_price_applies_to_ethereum_transactions_before_london() {
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let mut home = Home::init(folder.path(), &berlin()).unwrap();
    home.config.mempool.accept_without_production = true;
    home.config.mempool.minimum_gas_prices = format!("{PRICE}atest").parse().unwrap();
    let node = Node::start(folder, home, producing(None)).await;
    drop(opening);
    let tx = |from, gas_price| -> Bytes {
        let tx = TxLegacy {
            chain_id: Some(CHAIN_ID),
            gas_limit: 21_000,
            gas_price,
            to: TxKind::Call(RECEIVER),
            value: U256::ONE,
            ..TxLegacy::default()
        };
        sign(from, tx)
    };
    let price = u128::from(PRICE);
    let (code, reason) = node.fail("eth_sendRawTransaction", json!([tx(0, price - 1)])).await;
    let text = "got: 41999999979000, minimum required: 42000000000000";
    assert_eq!((code, reason.as_str()), (-32000, text));
    for (from, price) in [(0, price), (1, price + 1), (2, FEE_CAP)] {
        let raw = hex::encode_prefixed(tx(from, price));
        node.call("eth_sendRawTransaction", json!([raw])).await;
    }
    node.stop().await;
}
