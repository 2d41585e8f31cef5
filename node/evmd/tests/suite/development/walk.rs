//! Makes random calls on a development chain and kills the node repeatedly. The database must remain valid.

use super::{PROGRAM, init};
use crate::{random::Random, start_safety::run};
use alloy_primitives::{Address, B256, U256};
use chain::DEV_ACCOUNTS;
use serde_json::{Value, json};
use std::path::Path;
use testkit::{Endpoints, NodeProcess};

const STEPS: u64 = 1_000;
/// Steps between two kills.
const STEPS_PER_START: u64 = 125;

/// A client that remembers its snapshots.
struct Client {
    random: Random,
    /// The ID of each snapshot, and the balance of [`SET_ACCOUNT`] in it.
    snapshots: Vec<(Value, U256)>,
    balance: U256,
}

const SET_ACCOUNT: Address = Address::repeat_byte(0xac);

impl Client {
    async fn step(&mut self, node: &Endpoints) {
        let number = self.random.below(1_000_000);
        let other = Address::repeat_byte(0x40 + self.random.below(20) as u8);
        match self.random.below(12) {
            0 => {
                let id = node.call("evm_snapshot", json!([])).await;
                self.snapshots.push((id, self.balance));
            }
            1 if !self.snapshots.is_empty() => {
                let at = self.random.below(self.snapshots.len() as u64) as usize;
                let (id, balance) = self.snapshots[at].clone();
                self.snapshots.truncate(at);
                assert_eq!(node.call("evm_revert", json!([id])).await, json!(true));
                self.balance = balance;
            }
            2 => {
                self.balance = U256::from(number);
                node.call("anvil_setBalance", json!([SET_ACCOUNT, self.balance])).await;
            }
            3 => drop(node.call("anvil_setNonce", json!([other, number])).await),
            4 => drop(
                node.call("anvil_setCode", json!([other, format!("0x60{:02x}", number % 256)]))
                    .await,
            ),
            5 => {
                let value = B256::from(U256::from(number % 3));
                node.call("anvil_setStorageAt", json!([other, number % 5, value])).await;
            }
            6 => drop(node.call("anvil_mine", json!([1 + number % 5])).await),
            7 => drop(node.call("evm_increaseTime", json!([number % 1000])).await),
            8 => {
                let wei = 1_000_000 + number;
                node.call("anvil_setNextBlockBaseFeePerGas", json!([wei])).await;
            }
            9 => {
                node.call("anvil_setBalance", json!([other, "0xde0b6b3a7640000"])).await;
                node.call("anvil_impersonateAccount", json!([other])).await;
                let tx = json!({ "from": other, "to": Address::ZERO, "value": "0x1" });
                node.call("eth_sendTransaction", json!([tx])).await;
            }
            _ => {
                let from = DEV_ACCOUNTS[self.random.below(3) as usize].address;
                let tx = json!({ "from": from, "to": other, "value": "0x1" });
                node.call("eth_sendTransaction", json!([tx])).await;
            }
        }
        let found = node.call("eth_getBalance", json!([SET_ACCOUNT, "latest"])).await;
        assert_eq!(found, json!(self.balance));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_steps_and_kills_leave_a_valid_database() {
    let seed = 20_261_128;
    println!("seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    init(folder.path());
    let mut client = Client { random: Random(seed), snapshots: Vec::new(), balance: U256::ZERO };
    for _ in 0..STEPS / STEPS_PER_START {
        let mut node = NodeProcess::start(Path::new(PROGRAM), folder.path(), &[]);
        for _ in 0..STEPS_PER_START {
            client.step(&node.endpoints()).await;
        }
        // The node is killed during a request.
        let endpoints = node.endpoints();
        let interrupted = tokio::spawn(async move {
            let params = json!([Address::ZERO, "0x1"]).to_string();
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"anvil_setBalance","params":{params}}}"#
            );
            let _ = endpoints.post_as("application/json", body.as_bytes()).await;
        });
        node.kill();
        // The task fails if the node ends before the client has connected.
        drop(interrupted.await);
        // The node holds snapshots in memory only.
        client.snapshots.clear();
        let (code, out, err) = run(folder.path(), &["doctor", "--verify"]);
        assert_eq!(code, 0, "{out}{err}");
    }
}
