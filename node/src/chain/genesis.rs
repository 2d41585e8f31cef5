//! A genesis file made into a chain's first header and first state.

use std::collections::BTreeMap;

use alloy_consensus::{Header, constants::EMPTY_WITHDRAWALS};
use alloy_eips::{eip1559::INITIAL_BASE_FEE, eip7685::EMPTY_REQUESTS_HASH};
use alloy_genesis::{Genesis as GenesisFile, GenesisAccount};
use alloy_primitives::{Address, B64, B256, KECCAK256_EMPTY, U256, keccak256};
use alloy_trie::{TrieAccount, root::state_root_unhashed};
use storage::{Account, AccountChange, StateChanges};

use super::{
    ChainSpec, Fork, GenesisError,
    file::{self, Accounts},
};
use crate::modules::Modules;

/// A checked genesis: the rules, the first header and the first state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    /// The chain's rules.
    pub spec: ChainSpec,
    alloc: BTreeMap<Address, GenesisAccount>,
}

impl Genesis {
    /// Reads a geth `genesis.json`. Native rules apply when `config` has a section `evmd`.
    ///
    /// # Errors
    /// Names the field that is missing, malformed or impossible.
    pub fn from_json(text: &str) -> Result<Self, GenesisError> {
        Self::from_file(file::parse(text, Accounts::Kept)?)
    }

    /// Checks an already parsed file.
    ///
    /// # Errors
    /// Names the field that is impossible.
    pub fn from_file(mut file: GenesisFile) -> Result<Self, GenesisError> {
        let alloc = std::mem::take(&mut file.alloc);
        Ok(Self { spec: ChainSpec::new(file)?, alloc })
    }

    /// The whole genesis as JSON, accounts included; [`Self::from_json`] gives it back.
    pub fn to_json(&self) -> String {
        let file = GenesisFile { alloc: self.alloc.clone(), ..self.spec.file().clone() };
        serde_json::to_string_pretty(&file).expect("maps with string keys only")
    }

    /// The header of the genesis block, its state root computed from scratch.
    pub fn header(&self) -> Header {
        let file = self.spec.file();
        let number = file.number.unwrap_or_default();
        // A genesis is never mined, so whether it counts as merged makes no difference here.
        let fork = self.spec.fork(number, file.timestamp, true);
        let cancun = fork >= Fork::Cancun;
        let native = self.spec.native();
        let base_fee = match (native, file.base_fee_per_gas) {
            (Some(native), _) => native.market.base_fee_wei(),
            (None, Some(fee)) => u64::try_from(fee).expect("checked when the genesis was read"),
            (None, None) => INITIAL_BASE_FEE,
        };
        // A native header commits to the state of its modules.
        let extra_data = native.map_or_else(
            || file.extra_data.clone(),
            |native| Modules::genesis(native).record(native, 0, Vec::new()).root().0.into(),
        );
        Header {
            parent_hash: file.parent_hash.unwrap_or_default(),
            number,
            timestamp: file.timestamp,
            gas_limit: native.map_or(file.gas_limit, |native| native.gas_limit),
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

    /// The genesis accounts as the changes of block 0 to an empty state.
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
