//! Creates a chain's first header and first state from a genesis file.

use std::{collections::BTreeMap, convert::Infallible};

use alloy_consensus::{Header, constants::EMPTY_WITHDRAWALS};
use alloy_eips::{eip1559::INITIAL_BASE_FEE, eip7685::EMPTY_REQUESTS_HASH};
use alloy_genesis::{Genesis as GenesisFile, GenesisAccount};
use alloy_primitives::{Address, B64, B256, KECCAK256_EMPTY, U64, U256, keccak256};
use alloy_trie::{TrieAccount, root::state_root_unhashed};
use serde::Serialize;
use storage::{Account, AccountChange, StateChanges};

use super::{
    ChainSpec, DEV_ACCOUNTS, Fork, GenesisError, MissingContract,
    file::{self, Accounts, ParsedFile},
    module_row::genesis_root,
};

/// A checked genesis: the rules, the first header and the first state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    /// The chain's rules.
    pub spec: ChainSpec,
    alloc: BTreeMap<Address, GenesisAccount>,
    /// `gasUsed` of the header, as in the file. Block 0 executes no transaction.
    gas_used: u64,
}

/// Gas limit of a genesis that states 0, as in geth.
const DEFAULT_GAS_LIMIT: u64 = 4_712_388;

impl Genesis {
    /// Reads a geth `genesis.json`. Native rules apply if `config` has a section `evmd`.
    ///
    /// # Errors
    /// Returns an error that names the field that is missing, malformed or invalid.
    pub fn from_json(text: &str) -> Result<Self, GenesisError> {
        let ParsedFile { file, gas_used } = file::parse(text, Accounts::Kept)?;
        let genesis = Self { gas_used, ..Self::from_file(file)? };
        if genesis.spec.native().is_some() && gas_used != 0 {
            return Err(GenesisError::field(
                file::GAS_USED,
                format!("must be 0 on a native chain, got {gas_used}"),
            ));
        }
        Ok(genesis)
    }

    /// Checks an already parsed file.
    ///
    /// # Errors
    /// Returns an error that names the field that is invalid.
    pub fn from_file(mut file: GenesisFile) -> Result<Self, GenesisError> {
        if let Some(number) = file.number.filter(|number| *number != 0) {
            let reason = format!("must be 0, because genesis is block 0, got {number}");
            return Err(GenesisError::field("number", reason));
        }
        let alloc = std::mem::take(&mut file.alloc);
        Ok(Self { spec: ChainSpec::new(file)?, alloc, gas_used: 0 })
    }

    /// Returns the whole genesis as JSON, including accounts. [`Self::from_json`] reads it.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct WholeFile<'a> {
            #[serde(flatten)]
            file: &'a GenesisFile,
            #[serde(rename = "gasUsed", skip_serializing_if = "Option::is_none")]
            gas_used: Option<U64>,
        }
        let file = &GenesisFile { alloc: self.alloc.clone(), ..self.spec.file().clone() };
        let gas_used = (self.gas_used != 0).then(|| U64::from(self.gas_used));
        serde_json::to_string_pretty(&WholeFile { file, gas_used })
            .expect("maps with string keys only")
    }

    /// Returns the header of the genesis block, with the state root computed from scratch.
    pub fn header(&self) -> Header {
        let file = self.spec.file();
        let number = 0;
        // The genesis block is not mined, so it makes no difference whether it counts as merged.
        let fork = self.spec.fork(number, file.timestamp, true);
        let cancun = fork >= Fork::Cancun;
        let native = self.spec.native();
        let base_fee = match (native, file.base_fee_per_gas) {
            (Some(native), _) => native.market.base_fee_wei(),
            (None, Some(fee)) => u64::try_from(fee).expect("checked when the genesis was read"),
            (None, None) => INITIAL_BASE_FEE,
        };
        // A native header commits to the state of its modules.
        let extra_data =
            native.map_or_else(|| file.extra_data.clone(), |native| genesis_root(native).0.into());
        Header {
            parent_hash: file.parent_hash.unwrap_or_default(),
            number,
            timestamp: file.timestamp,
            gas_limit: match native {
                Some(native) => native.gas_limit,
                None if file.gas_limit == 0 => DEFAULT_GAS_LIMIT,
                None => file.gas_limit,
            },
            gas_used: self.gas_used,
            difficulty: file.difficulty,
            mix_hash: file.mix_hash,
            nonce: B64::from(file.nonce),
            beneficiary: file.coinbase,
            extra_data,
            state_root: self.state_root(),
            base_fee_per_gas: (fork >= Fork::London).then_some(base_fee),
            withdrawals_root: (fork >= Fork::Shanghai).then_some(EMPTY_WITHDRAWALS),
            blob_gas_used: cancun.then(|| file.blob_gas_used.unwrap_or_default()),
            excess_blob_gas: cancun.then(|| file.excess_blob_gas.unwrap_or_default()),
            parent_beacon_block_root: cancun.then_some(B256::ZERO),
            requests_hash: (fork >= Fork::Prague).then_some(EMPTY_REQUESTS_HASH),
            ..Default::default()
        }
    }

    /// Returns the system contracts that this chain's blocks call and that the genesis does not deploy.
    pub fn missing_system_contracts(&self) -> Vec<MissingContract> {
        let code = |address| self.alloc.get(&address).and_then(|account| account.code.as_ref());
        let has_code =
            |address| Ok::<_, Infallible>(code(address).is_some_and(|code| !code.is_empty()));
        let Ok(missing) = self.spec.missing_system_contracts(has_code);
        missing
    }

    /// Returns the [`DEV_ACCOUNTS`] that have a balance.
    pub fn funded_dev_accounts(&self) -> impl Iterator<Item = Address> {
        let balance = |address| self.alloc.get(&address).map_or(U256::ZERO, |found| found.balance);
        DEV_ACCOUNTS
            .into_iter()
            .map(|account| account.address)
            .filter(move |address| !balance(*address).is_zero())
    }

    /// Returns the genesis accounts as the changes of block 0 to an empty state.
    pub fn state(&self) -> StateChanges {
        let mut changes = StateChanges::default();
        for (address, entry) in &self.alloc {
            let code_hash = match entry.code.as_ref().filter(|code| !code.is_empty()) {
                Some(code) => {
                    let hash = keccak256(code);
                    changes.codes.push((hash, code.clone()));
                    hash
                }
                None => KECCAK256_EMPTY,
            };
            changes.accounts.push(AccountChange {
                address: *address,
                account: Some(Account {
                    nonce: entry.nonce.unwrap_or_default(),
                    balance: entry.balance,
                    code_hash,
                }),
                wiped: false,
                slots: entry
                    .storage_slots()
                    .filter(|(_, value)| !value.is_zero())
                    .map(|(slot, value)| (U256::from_be_bytes(slot.0), value))
                    .collect(),
            });
        }
        changes.codes.sort_unstable_by_key(|(hash, _)| *hash);
        changes.codes.dedup_by_key(|(hash, _)| *hash);
        changes
    }

    fn state_root(&self) -> B256 {
        state_root_unhashed(
            self.alloc
                .iter()
                .map(|(address, account)| (*address, TrieAccount::from(account.clone()))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn file(more: Value) -> String {
        let mut file = json!({
            "config": { "chainId": 1 }, "gasLimit": "0x1000", "difficulty": "0x1", "alloc": {},
        });
        file.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        file.to_string()
    }

    #[test]
    fn number_of_a_genesis_must_be_zero() {
        for number in [json!(null), json!("0x0"), json!(0)] {
            assert!(Genesis::from_json(&file(json!({ "number": number }))).is_ok(), "{number}");
        }
        for number in [json!("0x1"), json!(7), json!("0xffffffffffffffff")] {
            let error = Genesis::from_json(&file(json!({ "number": number }))).unwrap_err();
            assert!(error.to_string().contains("`number`: must be 0"), "{error}");
        }
    }

    #[test]
    fn gas_used_is_part_of_the_header() {
        let plain = Genesis::from_json(&file(json!({}))).unwrap();
        let genesis = Genesis::from_json(&file(json!({ "gasUsed": "0x5208" }))).unwrap();
        let expected = Header { gas_used: 21_000, ..plain.header() };
        assert_eq!(genesis.header(), expected);
        assert_ne!(genesis.header().hash_slow(), plain.header().hash_slow());
        let again = Genesis::from_json(&genesis.to_json()).unwrap();
        assert_eq!(again, genesis);
        assert!(!plain.to_json().contains("gasUsed"));
        let mut native: Value = serde_json::from_str(&Genesis::native_dev(0).to_json()).unwrap();
        native["gasUsed"] = json!("0x1");
        let error = Genesis::from_json(&native.to_string()).unwrap_err();
        assert!(error.to_string().contains("`gasUsed`: must be 0 on a native chain"), "{error}");
    }

    /// geth's `params.GenesisGasLimit`.
    #[test]
    fn gas_limit_of_0_means_the_default() {
        let genesis = Genesis::from_json(&file(json!({ "gasLimit": "0x0" }))).unwrap();
        assert_eq!(genesis.header().gas_limit, 4_712_388);
    }
}
