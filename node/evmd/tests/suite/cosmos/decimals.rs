//! Uses chains whose token has 6, 8 or 18 decimals through every interface: balances are stored in wei, and Cosmos
//! transactions and queries use the base unit of the token.

use super::served::{FORKING, Served, evmd};
use crate::{
    client,
    common::{
        CHAIN_ID, FEE_CAP, GENESIS_TIME, import, producing, sign,
        signed::{address_of, any},
    },
};
use alloy_consensus::TxEip1559;
use alloy_primitives::{Address, TxKind, U256, hex};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use chain::{DEV_ACCOUNTS, Genesis, block::join};
use cosmos_api::query::proto::cosmos::{
    bank::v1beta1::{
        MsgSend, QueryBalanceRequest, QueryBalanceResponse, QuerySupplyOfRequest,
        QuerySupplyOfResponse,
    },
    base::v1beta1::Coin,
    evm::crypto::v1::ethsecp256k1::PubKey,
    gov::v1::MsgSubmitProposal,
    tx::v1beta1::{
        AuthInfo, Fee, ModeInfo, SignerInfo, TxBody, TxRaw,
        mode_info::{self, Sum},
    },
};
use home::Home;
use keys::{PrivateKey, bech32};
use prost::Message;
use prost_types::Any;
use serde_json::{Value, json};
use std::time::Duration;
use transactions::cosmos::{CosmosTx, Signatures};

/// Gas limit of the Cosmos transactions.
const GAS: u64 = 400_000;
/// Balance of a development account, in wei: 10,000 tokens.
const BALANCE: &str = "10000000000000000000000";
/// An account whose balance is 5 base units of a token with 6 decimals, plus a fraction of a unit.
const FRACTIONAL: Address = Address::repeat_byte(0xf1);
/// An account whose balance is less than one base unit of a token with 6 or 8 decimals.
const DUST: Address = Address::repeat_byte(0xd0);

/// A token, and the constant gas price on its chain.
#[derive(Clone, Copy)]
struct Chain {
    denom: &'static str,
    extended: &'static str,
    decimals: u8,
    /// The base fee and the minimum price, in the base unit.
    price: &'static str,
    /// The minimum fee for [`GAS`], in the base unit.
    min_fee: u64,
}

/// The price is 10^10 wei; a base unit is 10^12 wei.
const SIX: Chain =
    Chain { denom: "utest", extended: "atest", decimals: 6, price: "0.01", min_fee: 4_000 };
/// The price is 10^10 wei; a base unit is 10^10 wei.
const EIGHT: Chain =
    Chain { denom: "sat", extended: "asat", decimals: 8, price: "1", min_fee: 400_000 };
/// The price is 10^10 wei; a base unit is one wei.
const EIGHTEEN: Chain = Chain {
    denom: "atest",
    extended: "atest",
    decimals: 18,
    price: "10000000000",
    min_fee: 4_000_000_000_000_000,
};
/// The gas price on all three chains, in wei.
const PRICE_WEI: u128 = 10_000_000_000;

impl Chain {
    /// Number of wei in a base unit.
    fn factor(&self) -> U256 {
        U256::from(10).pow(U256::from(18 - self.decimals))
    }

    fn genesis(&self, rules: &Value) -> Genesis {
        let mut file: Value =
            serde_json::from_str(&Genesis::native_dev(GENESIS_TIME).to_json()).unwrap();
        for (address, balance) in [(FRACTIONAL, 5_300_000_000_000_u64), (DUST, 9_999_999_999)] {
            file["alloc"][address.to_string()] = json!({ "balance": format!("{balance:#x}") });
        }
        let section = &mut file["config"]["evmd"];
        section["tokenDecimals"] = json!(self.decimals);
        section["evm"]["params"]["evm_denom"] = json!(self.denom);
        section["feemarket"]["params"]["base_fee"] = json!(self.price);
        section["feemarket"]["params"]["min_gas_price"] = json!(self.price);
        section["rules"] = rules.clone();
        Genesis::from_json(&file.to_string()).unwrap()
    }

    /// Starts a node that produces a block only if there is a transaction.
    async fn serve(&self, rules: &Value) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let opening = FORKING.lock().await;
        let mut home = Home::init(folder.path(), &self.genesis(rules)).unwrap();
        drop(opening);
        home.config.engine.empty_blocks = false;
        Served::on(folder, home, producing(Some(Duration::from_millis(5)))).await
    }

    fn coins(&self, amount: impl ToString) -> Vec<Coin> {
        vec![Coin { denom: self.denom.to_owned(), amount: amount.to_string() }]
    }

    fn send(&self, to: Address, amount: impl ToString) -> Any {
        any(&MsgSend {
            from_address: address_of(0),
            to_address: bech32("cosmos", to),
            amount: self.coins(amount),
        })
    }

    /// Returns a signed transaction of account 0 with this fee, in the base unit.
    fn signed(&self, sequence: u64, fee: u64, message: Any) -> Vec<u8> {
        let unsigned = self.with_signature(sequence, fee, message.clone(), Vec::new());
        let digest = CosmosTx::decode(&unsigned, Signatures::Optional).unwrap().digest(CHAIN_ID);
        self.with_signature(sequence, fee, message, key().sign(&digest)[..64].to_vec())
    }

    fn with_signature(&self, sequence: u64, fee: u64, message: Any, signature: Vec<u8>) -> Vec<u8> {
        let single = mode_info::Single { mode: 1 };
        let signer = SignerInfo {
            public_key: Some(any(&PubKey { key: key().public_key().as_bytes().to_vec() })),
            mode_info: Some(ModeInfo { sum: Some(Sum::Single(single)) }),
            sequence,
        };
        let fee = Fee { amount: self.coins(fee), gas_limit: GAS, ..Fee::default() };
        let body = TxBody { messages: vec![message], ..TxBody::default() };
        let auth_info = AuthInfo { signer_infos: vec![signer], fee: Some(fee) };
        let raw = TxRaw {
            body_bytes: body.encode_to_vec(),
            auth_info_bytes: auth_info.encode_to_vec(),
            signatures: vec![signature],
        };
        raw.encode_to_vec()
    }
}

/// Returns the key of account 0.
fn key() -> PrivateKey {
    PrivateKey::from_bytes(DEV_ACCOUNTS[0].private_key.as_slice()).unwrap()
}

fn newest_rules() -> Value {
    json!([{ "version": 1, "height": 0 }])
}

/// Returns the balance over JSON-RPC, in wei.
async fn wei(served: &Served, address: Address) -> U256 {
    let balance = served.node.call("eth_getBalance", json!([address, "latest"])).await;
    balance.as_str().unwrap().parse().unwrap()
}

/// Returns the balance over REST, in the unit `denom`.
async fn balance(served: &Served, address: Address, denom: &str) -> String {
    let path = format!("/cosmos/bank/v1beta1/balances/{address}/by_denom?denom={denom}");
    let response = served.get(&path).await;
    assert_eq!(response["balance"]["denom"], denom);
    response["balance"]["amount"].as_str().unwrap().to_owned()
}

/// Returns the values of an attribute in the events of a transaction.
fn values(response: &Value, kind: &str, key: &str) -> Vec<String> {
    let events = response["events"].as_array().unwrap().iter();
    let events = events.filter(|event| event["type"] == kind);
    let attributes = events.flat_map(|event| event["attributes"].as_array().unwrap());
    let found = attributes.filter(|attribute| attribute["key"] == key);
    found.map(|attribute| attribute["value"].as_str().unwrap().to_owned()).collect()
}

/// Calls a gRPC method.
async fn grpc<Q, A>(served: &Served, path: &'static str, request: Q) -> A
where
    Q: Message + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let endpoint = format!("http://{}", served.node.grpc);
    let channel = tonic::transport::Endpoint::from_shared(endpoint).unwrap().connect().await;
    let mut client = tonic::client::Grpc::new(channel.unwrap());
    client.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<Q, A>::default();
    let request = tonic::Request::new(request);
    client.unary(request, path.parse().unwrap(), codec).await.unwrap().into_inner()
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_show_whole_base_units() {
    for chain in [SIX, EIGHT, EIGHTEEN] {
        let served = chain.serve(&newest_rules()).await;
        let alice = DEV_ACCOUNTS[0].address;
        let all: U256 = BALANCE.parse().unwrap();
        for address in [alice, FRACTIONAL, DUST, Address::repeat_byte(0xee)] {
            let held = wei(&served, address).await;
            let units = (held / chain.factor()).to_string();
            assert_eq!(balance(&served, address, chain.denom).await, units);
            assert_eq!(balance(&served, address, chain.extended).await, held.to_string());
            assert_eq!(balance(&served, address, "other").await, "0");
            for kind in ["balances", "spendable_balances"] {
                let path = format!("/cosmos/bank/v1beta1/{kind}/{address}");
                let listed = served.get(&path).await["balances"].take();
                let coin = json!({ "denom": chain.denom, "amount": units });
                assert_eq!(listed, if units == "0" { json!([]) } else { json!([coin]) });
            }
            let request =
                QueryBalanceRequest { address: address.to_string(), denom: chain.denom.to_owned() };
            let path = "/cosmos.bank.v1beta1.Query/Balance";
            let response: QueryBalanceResponse = grpc(&served, path, request).await;
            assert_eq!(response.balance.unwrap().amount, units);
            let evm = served.get(&format!("/cosmos/evm/vm/v1/balances/{address}")).await;
            assert_eq!(evm["balance"], held.to_string(), "the EVM module uses wei");
        }
        let total = all * U256::from(10) + U256::from(5_300_000_000_000_u64 + 9_999_999_999);
        let units = (total / chain.factor()).to_string();
        let supply = served.get("/cosmos/bank/v1beta1/supply").await;
        assert_eq!(supply["supply"], json!([{ "denom": chain.denom, "amount": units }]));
        for (denom, amount) in
            [(chain.denom, units.clone()), (chain.extended, total.to_string()), ("x", "0".into())]
        {
            if denom == chain.denom && denom == chain.extended {
                continue;
            }
            let path = "/cosmos.bank.v1beta1.Query/SupplyOf";
            let request = QuerySupplyOfRequest { denom: denom.to_owned() };
            let response: QuerySupplyOfResponse = grpc(&served, path, request).await;
            assert_eq!(response.amount.unwrap().amount, amount, "{denom}");
        }
        let metadata = served.get("/cosmos/bank/v1beta1/denoms_metadata").await;
        let [metadata] = metadata["metadatas"].as_array().unwrap().as_slice() else {
            panic!("not one token: {metadata}")
        };
        assert_eq!(metadata["base"], chain.denom);
        assert_eq!(metadata["denom_units"][1]["exponent"], chain.decimals);
        let path = format!("/cosmos/bank/v1beta1/denoms_metadata/{}", chain.extended);
        let metadata = served.get(&path).await;
        assert_eq!(metadata["metadata"]["denom_units"][1]["exponent"], 18);
        let fee = served.get("/cosmos/evm/feemarket/v1/base_fee").await;
        let price: f64 = fee["base_fee"].as_str().unwrap().parse().unwrap();
        assert_eq!(price, chain.price.parse::<f64>().unwrap(), "prices are in the base unit");
        let config = served.get("/cosmos/base/node/v1beta1/config").await;
        assert!(config["minimum_gas_price"].as_str().unwrap().ends_with(chain.denom), "{config}");
        let gov = served.get("/cosmos/gov/v1/params/deposit").await;
        let deposit = json!([{ "denom": chain.denom, "amount": "10000000" }]);
        assert_eq!(gov["params"]["min_deposit"], deposit);
        served.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_and_fees_use_base_units() {
    for chain in [SIX, EIGHT, EIGHTEEN] {
        let served = chain.serve(&newest_rules()).await;
        let (alice, bob, factor) =
            (DEV_ACCOUNTS[0].address, Address::repeat_byte(0xb0), chain.factor());
        let before = wei(&served, alice).await;
        // A fee one unit below the minimum is refused, and the minimum is accepted.
        let low = chain.signed(0, chain.min_fee - 1, chain.send(bob, 7));
        let (code, log) = served.broadcast(&low).await;
        let text = format!(
            "provided fee < minimum global fee ({}{denom} < {}{denom})",
            chain.min_fee - 1,
            chain.min_fee,
            denom = chain.denom
        );
        assert!(code == 13 && log.starts_with(&text), "{log}");
        let mined = served.mined(&chain.signed(0, chain.min_fee, chain.send(bob, 7))).await;
        assert_eq!(mined["code"], 0, "{mined}");
        let fee = factor * U256::from(chain.min_fee);
        assert_eq!(fee, U256::from(PRICE_WEI) * U256::from(GAS));
        let sent = factor * U256::from(7);
        assert_eq!(wei(&served, bob).await, sent);
        assert_eq!(wei(&served, alice).await, before - sent - fee);
        assert_eq!(wei(&served, chain::FEE_COLLECTOR).await, fee);
        assert_eq!(balance(&served, bob, chain.denom).await, "7");
        // Events over REST and CometBFT's RPC use base units.
        let fee_text = format!("{}{}", chain.min_fee, chain.denom);
        let sent_text = format!("7{}", chain.denom);
        let amounts = [fee_text.clone(), sent_text];
        for kind in ["coin_spent", "coin_received", "transfer"] {
            assert_eq!(values(&mined, kind, "amount"), amounts, "{kind}");
        }
        assert_eq!(values(&mined, "tx", "fee"), [fee_text]);
        let hash = mined["txhash"].as_str().unwrap();
        let (_, text) = comet(&served, &format!("/tx?hash=0x{hash}")).await;
        let result = &text["result"]["tx_result"];
        assert_eq!(values(result, "transfer", "amount"), amounts);
        // JSON-RPC shows wei.
        let block = served.node.call("eth_getBlockByNumber", json!(["0x1", true])).await;
        let tx = &block["transactions"][0];
        let shown = |field: &str| tx[field].as_str().unwrap().parse::<U256>().unwrap();
        assert_eq!((shown("value"), shown("maxFeePerGas")), (sent, U256::from(PRICE_WEI)));
        // Ethereum transactions can transfer fractions of a unit, which are not shown in units.
        let part = TxEip1559 {
            chain_id: CHAIN_ID,
            nonce: 0,
            gas_limit: 21_000,
            max_fee_per_gas: FEE_CAP,
            max_priority_fee_per_gas: 0,
            to: TxKind::Call(bob),
            value: factor - U256::ONE,
            ..TxEip1559::default()
        };
        let hash = served.node.call("eth_sendRawTransaction", json!([sign(1, part)])).await;
        served.node.wait_for("eth_getTransactionReceipt", json!([hash])).await;
        let held = sent + factor - U256::ONE;
        assert_eq!(wei(&served, bob).await, held);
        assert_eq!(balance(&served, bob, chain.denom).await, (held / factor).to_string());
        // The envelope of an Ethereum transaction uses wei.
        let tx = served.get(&format!("/cosmos/tx/v1beta1/txs/{}", hash.as_str().unwrap())).await;
        let fee = &tx["tx"]["auth_info"]["fee"]["amount"][0];
        let max_fee = U256::from(FEE_CAP) * U256::from(21_000);
        assert_eq!(*fee, json!({ "denom": chain.extended, "amount": max_fee.to_string() }));
        // The fee event also uses wei. The fee is the base fee times the gas.
        let paid = format!("{}{}", PRICE_WEI * 21_000, chain.extended);
        assert_eq!(values(&tx["tx_response"], "tx", "fee"), [paid]);
        served.stop().await;
    }
}

/// Requests a path of CometBFT's RPC; returns status and response.
async fn comet(served: &Served, path: &str) -> (u16, Value) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let (status, text) = client::exchange(served.node.comet, request.as_bytes()).await;
    (status, serde_json::from_str(&text).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn amounts_are_limited_by_the_balance_and_the_fee() {
    let chain = SIX;
    let served = chain.serve(&newest_rules()).await;
    let bob = Address::repeat_byte(0xb0);
    let zero = chain.with_signature(0, 4_000, chain.send(bob, 0), vec![1; 64]);
    let (code, log) = served.broadcast(&zero).await;
    assert_eq!((code, log.as_str()), (10, "0utest: invalid coins"));
    // These amounts are about 2^256 wei or more, which exceeds every balance.
    let huge = U256::MAX / chain.factor();
    for amount in [huge, huge + U256::ONE, U256::MAX >> 1] {
        let tx = chain.signed(0, 4_000, chain.send(bob, amount));
        let body = json!({ "tx_bytes": BASE64.encode(tx) });
        let (_, tried) = served.post("/cosmos/tx/v1beta1/simulate", &body.to_string()).await;
        let text = format!("spendable balance 10000000000utest is smaller than {amount}utest");
        assert!(tried["message"].as_str().unwrap().contains(&text), "{tried}");
    }
    // The first payment leaves 3,999 units, one less than the fee of the second.
    let all: U256 = BALANCE.parse::<U256>().unwrap() / chain.factor();
    let rest = all - U256::from(8_000);
    let mined = served.mined(&chain.signed(0, 4_000, chain.send(bob, rest + U256::ONE))).await;
    assert_eq!(mined["code"], 0, "{mined}");
    let (code, log) = served.broadcast(&chain.signed(1, 4_000, chain.send(bob, 1))).await;
    let text = "spendable balance 3999utest is smaller than 4000utest";
    assert!(code == 5 && log.starts_with(text), "{log}");
    assert_eq!(wei(&served, DEV_ACCOUNTS[0].address).await, chain.factor() * U256::from(3_999));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deposits_use_base_units() {
    let chain = SIX;
    let served = chain.serve(&newest_rules()).await;
    let gov = transactions::cosmos::gov_address();
    let proposal = MsgSubmitProposal {
        initial_deposit: chain.coins(10_000_000),
        proposer: address_of(0),
        title: "Nothing".to_owned(),
        summary: "Changes nothing".to_owned(),
        ..MsgSubmitProposal::default()
    };
    let mined = served.mined(&chain.signed(0, 4_000, any(&proposal))).await;
    assert_eq!(mined["code"], 0, "{mined}");
    let deposit = chain.factor() * U256::from(10_000_000);
    assert_eq!(wei(&served, gov).await, deposit, "10 tokens");
    let shown = served.get("/cosmos/gov/v1/proposals/1").await;
    assert_eq!(shown["proposal"]["status"], "PROPOSAL_STATUS_VOTING_PERIOD");
    let coins = json!([{ "denom": "utest", "amount": "10000000" }]);
    assert_eq!(shown["proposal"]["total_deposit"], coins);
    served.stop().await;
}

/// With version 0 of the rules, Cosmos transactions and queries use wei, regardless of the token's decimals.
#[tokio::test(flavor = "multi_thread")]
async fn rules_version_0_uses_wei() {
    let chain = SIX;
    let served = chain.serve(&json!([{ "version": 0, "height": 0 }])).await;
    let (alice, bob) = (DEV_ACCOUNTS[0].address, Address::repeat_byte(0xb0));
    let fee = 4_000_000_000_000_000;
    let mined = served.mined(&chain.signed(0, fee, chain.send(bob, 7))).await;
    assert_eq!(mined["code"], 0, "{mined}");
    assert_eq!(wei(&served, bob).await, U256::from(7));
    assert_eq!(balance(&served, bob, chain.denom).await, "7");
    assert_eq!(balance(&served, bob, chain.extended).await, "0", "the token has no other unit");
    let held = wei(&served, alice).await;
    assert_eq!(balance(&served, alice, chain.denom).await, held.to_string());
    assert_eq!(values(&mined, "tx", "fee"), [format!("{fee}utest")]);
    let metadata = served.get("/cosmos/bank/v1beta1/denoms_metadata").await;
    let units = metadata["metadatas"][0]["denom_units"].as_array().unwrap();
    assert!(units.iter().all(|unit| unit["exponent"] != 6), "{units:?}");
    served.stop().await;
}

/// Importing the chain, which contains transactions in both units, results in the same head.
#[tokio::test(flavor = "multi_thread")]
async fn unit_changes_at_the_height_of_rules_version_1() {
    let chain = SIX;
    let rules = json!([{ "version": 0, "height": 0 }, { "version": 1, "height": 3 }]);
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let mut home = Home::init(folder.path(), &chain.genesis(&rules)).unwrap();
    drop(opening);
    home.config.engine.empty_blocks = false;
    let served = Served::on(folder, home, producing(Some(Duration::from_millis(5)))).await;
    let bob = Address::repeat_byte(0xb0);
    let wei_fee = 4_000_000_000_000_000;
    // This transaction waits for the four before it, and uses wei.
    let waiting = chain.signed(4, wei_fee, chain.send(bob, 7));
    assert_eq!(served.broadcast(&waiting).await, (0, String::new()));
    // Each of these transactions is in a separate block.
    for (sequence, fee) in [(0, wei_fee), (1, wei_fee), (2, 4_000), (3, 4_000)] {
        let mined = served.mined(&chain.signed(sequence, fee, chain.send(bob, 7))).await;
        assert_eq!(
            (&mined["code"], &mined["height"]),
            (&json!(0), &json!((sequence + 1).to_string()))
        );
        assert_eq!(values(&mined, "tx", "fee"), [format!("{fee}utest")]);
    }
    let (old, new) = (U256::from(14), chain.factor() * U256::from(14));
    assert_eq!(wei(&served, bob).await, old + new);
    // Balances before and after the change use the unit in force at the queried block.
    for (height, amount) in [("2", "14".to_owned()), ("3", "7".to_owned()), ("4", "14".to_owned())]
    {
        let path = format!("/cosmos/bank/v1beta1/balances/{bob}/by_denom?denom=utest");
        let (_, response) = served.ask_at(&path, Some(height)).await;
        assert_eq!(response["balance"]["amount"], amount, "{height}");
    }
    // Mined transactions keep their amounts.
    let block = |number: &str| served.node.call("eth_getBlockByNumber", json!([number, true]));
    let value = |block: Value| block["transactions"][0]["value"].as_str().unwrap().to_owned();
    assert_eq!(value(block("0x2").await), "0x7");
    let units = chain.factor() * U256::from(7);
    assert_eq!(value(block("0x3").await), format!("{units:#x}"));
    // The pending transaction was accepted in the old unit. It is dropped when it is executed, and has no
    // effect.
    let emptied = async {
        let empty = json!({ "pending": "0x0", "queued": "0x0" });
        while served.node.call("txpool_status", json!([])).await != empty {}
    };
    tokio::time::timeout(client::MAX_WAIT, emptied).await.expect("an empty pool");
    assert_eq!(wei(&served, bob).await, old + new);
    let mined = served.mined(&chain.signed(4, 4_000, chain.send(bob, 1))).await;
    assert_eq!(mined["code"], 0, "{mined}");
    assert_eq!(wei(&served, bob).await, old + new + chain.factor());
    let file = tempfile::tempdir().unwrap();
    let path = file.path().join("chain.rlp");
    let view = served.node.queries.published.load();
    let blocks = view.blocks().unwrap();
    let block = |number| {
        let (_, header) = blocks.header(number).unwrap().unwrap();
        join(&header, &blocks.body(number).unwrap().unwrap())
    };
    std::fs::write(&path, (1..=view.number()).flat_map(block).collect::<Vec<_>>()).unwrap();
    let head = view.head.hash;
    drop((blocks, view));
    served.stop().await;
    let again = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let home = Home::init(again.path(), &chain.genesis(&rules)).unwrap();
    drop(opening);
    tokio::task::spawn_blocking(move || {
        import(&home, vec![path]).unwrap();
        assert_eq!(home.view().unwrap().head.hash, head);
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn minimum_price_of_the_mempool_is_in_base_units() {
    let chain = SIX;
    let folder = tempfile::tempdir().unwrap();
    let opening = FORKING.lock().await;
    let mut home = Home::init(folder.path(), &chain.genesis(&newest_rules())).unwrap();
    drop(opening);
    home.config.engine.empty_blocks = false;
    home.config.mempool.minimum_gas_prices = "0.02utest".parse().unwrap();
    let mut config = client::config();
    config.mempool = home.config.mempool.clone();
    let options = producing(Some(Duration::from_millis(5)));
    let served = Served::with(client::Node::start_with(folder, home, options, config).await).await;
    let bob = Address::repeat_byte(0xb0);
    let low = chain.signed(0, 7_999, chain.send(bob, 7));
    let text = "insufficient fees; got: 7999utest required: 8000utest: insufficient fee";
    assert_eq!(served.broadcast(&low).await, (13, text.to_owned()));
    for (sequence, fee) in [(0, 8_000), (1, 8_001)] {
        let mined = served.mined(&chain.signed(sequence, fee, chain.send(bob, 7))).await;
        assert_eq!(mined["code"], 0, "{fee}: {mined}");
    }
    let config = served.get("/cosmos/base/node/v1beta1/config").await;
    assert_eq!(config["minimum_gas_price"], "0.020000000000000000utest");
    // A command without a price uses at least the minimum.
    let keys = tempfile::tempdir().unwrap();
    let key = hex::encode(DEV_ACCOUNTS[0].private_key);
    evmd(keys.path(), format!("keys unsafe-import-eth-key alice {key}")).await;
    let node = format!("http://{}", served.node.rest);
    evmd(keys.path(), format!("tx bank send alice {bob} 7utest -y --node {node}")).await;
    served.node.wait_for("eth_getBlockByNumber", json!(["0x3", false])).await;
    assert_eq!(wei(&served, bob).await, chain.factor() * U256::from(21));
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn command_line_uses_base_units() {
    let chain = SIX;
    let served = chain.serve(&newest_rules()).await;
    let home = tempfile::tempdir().unwrap();
    let key = hex::encode(DEV_ACCOUNTS[0].private_key);
    evmd(home.path(), format!("keys unsafe-import-eth-key alice {key}")).await;
    let (bob, node) = (Address::repeat_byte(0xb0), format!("http://{}", served.node.rest));
    let sends = [
        // The fee uses the default price.
        format!("tx bank send alice {bob} 7utest -y --node {node}"),
        format!("tx bank send alice {bob} 7utest --gas-prices 0.01utest -y --node {node}"),
        format!("tx evm send alice {bob} 7utest -y --node {node}"),
        format!("tx evm send alice {bob} 7atest --gas-prices 0.01utest -y --node {node}"),
    ];
    for (sent, args) in (1..).zip(sends) {
        evmd(home.path(), args).await;
        let number = format!("{sent:#x}");
        served.node.wait_for("eth_getBlockByNumber", json!([number, false])).await;
    }
    let held = chain.factor() * U256::from(21) + U256::from(7);
    assert_eq!(wei(&served, bob).await, held);
    let shown = evmd(home.path(), format!("query bank balances {bob} --node {node}")).await;
    assert!(shown.starts_with("balances:\n- amount: \"21\"\n  denom: utest\n"), "{shown}");
    served.stop().await;
    // `genesis add-account` accepts both units, and interprets a number without a unit as wei.
    let file = home.path().join("genesis.json");
    std::fs::write(&file, chain.genesis(&newest_rules()).to_json()).unwrap();
    for (byte, amount, expected) in
        [(1, "5utest", "0x48c27395000"), (2, "5atest", "0x5"), (3, "5", "0x5")]
    {
        let address = Address::repeat_byte(byte);
        let path = file.display();
        evmd(home.path(), format!("genesis add-account {address} {amount} --file {path}")).await;
        let written: Value =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let key = format!("{address:#x}");
        assert_eq!(written["alloc"][&key]["balance"], expected, "{amount}");
    }
}
