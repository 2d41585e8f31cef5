//! Defines the rules of a chain: native or Ethereum, its forks, and their constants.

use std::{collections::BTreeSet, fmt};

use alloy_consensus::Header;
use alloy_eips::{eip6110::MAINNET_DEPOSIT_CONTRACT_ADDRESS, eip7840::BlobParams};
use alloy_genesis::{ChainConfig, Genesis as GenesisFile};
use alloy_primitives::{Address, U256};

use super::{
    Fork, ForkSchedule, GenesisError,
    commitment::commitment,
    derived_fields,
    file::{self, Accounts},
    native,
    native::Native,
    rules::{Activation, RulesError, RulesVersion},
};

/// The kind of rules in addition to the forks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// A native chain: fees go to the fee collector, the base fee is not burned, and blob transactions are rejected.
    Native,
    /// An imported Ethereum chain.
    Ethereum,
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Ethereum => "Ethereum",
        })
    }
}

impl Rules {
    /// Returns the minimum number of seconds between a block and the next one. The timestamps of an Ethereum
    /// chain are strictly ascending (Yellow Paper, section 4.4.4). Those of a native chain are a finer clock
    /// rounded to seconds, as in cosmos/evm, and may repeat.
    pub const fn timestamp_step(self) -> u64 {
        match self {
            Self::Native => 0,
            Self::Ethereum => 1,
        }
    }
}

/// The rules of one chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainSpec {
    /// Native or Ethereum.
    pub rules: Rules,
    /// EIP-155 chain id.
    pub chain_id: u64,
    /// Human-readable prefix of Bech32 addresses.
    pub bech32_prefix: String,
    /// Total difficulty at which proof of work ends; `None` if it never does.
    pub terminal_total_difficulty: Option<U256>,
    /// The contract whose logs are the deposits of EIP-6110.
    pub deposit_contract: Address,
    native: Option<Box<Native>>,
    forks: ForkSchedule,
    /// The genesis file without its accounts, as it is stored.
    file: GenesisFile,
}

impl ChainSpec {
    /// Reads the rules from a genesis file. The accounts are dropped.
    ///
    /// # Errors
    /// Returns an error that names the field that is invalid.
    pub(super) fn new(mut file: GenesisFile) -> Result<Self, GenesisError> {
        file.alloc.clear();
        let config = &file.config;
        refuse_unknown_rules(config, file.difficulty)?;
        if file.base_fee_per_gas.is_some_and(|fee| u64::try_from(fee).is_err()) {
            return Err(GenesisError::field("baseFeePerGas", "is above 64 bits"));
        }
        let mut native = native::read(&file)?;
        let forks = ForkSchedule::new(config)?;
        if native.is_some() && forks.at(0, file.timestamp, true) < Fork::Prague {
            return Err(GenesisError::field(
                "config",
                "a native chain starts with every fork through Prague active",
            ));
        }
        if let Some(native) = &native {
            derived_fields::check_genesis(native, file.timestamp)?;
        }
        let deposit_contract =
            config.deposit_contract_address.unwrap_or(MAINNET_DEPOSIT_CONTRACT_ADDRESS);
        if let Some(native) = &mut native {
            native.config_hash = commitment(config, &forks, deposit_contract, native);
        }
        Ok(Self {
            rules: if native.is_some() { Rules::Native } else { Rules::Ethereum },
            chain_id: config.chain_id,
            bech32_prefix: native.as_ref().map_or_else(
                || native::DEFAULT_BECH32_PREFIX.to_owned(),
                |native| native.bech32_prefix.clone(),
            ),
            terminal_total_difficulty: config.terminal_total_difficulty,
            deposit_contract,
            native: native.map(Box::new),
            forks,
            file,
        })
    }

    /// Reads the rules from the result of [`Self::to_json`], or from any genesis file, whose accounts are
    /// skipped.
    ///
    /// # Errors
    /// Returns an error that names the field that is missing, malformed or invalid.
    pub fn from_json(text: &str) -> Result<Self, GenesisError> {
        Self::new(file::parse(text, Accounts::Skipped)?.file)
    }

    /// Returns the rules as genesis JSON without accounts. [`Self::from_json`] reads it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.file).expect("maps with string keys only")
    }

    /// Returns the rules version of block `height`. It is 0 on an Ethereum chain, whose rules follow from its forks
    /// alone.
    pub fn rules_version(&self, height: u64) -> RulesVersion {
        self.native().map_or(RulesVersion::V0, |native| native.rules.version(height))
    }

    /// Returns the same chain with these adopted rules versions, which replace the previous ones.
    ///
    /// # Errors
    /// Returns [`RulesError`] if versions or heights are not ascending.
    pub fn with_adopted(&self, adopted: Vec<Activation>) -> Result<Self, RulesError> {
        let mut spec = self.clone();
        if let Some(native) = &mut spec.native {
            native.rules = native.rules.with_adopted(adopted)?;
        }
        Ok(spec)
    }

    /// Returns whether two chains have the same rules at genesis. Versions adopted later are ignored.
    pub fn has_same_genesis(&self, other: &Self) -> bool {
        let at_genesis = |spec: &Self| spec.with_adopted(Vec::new());
        at_genesis(self) == at_genesis(other)
    }

    /// Returns the fork of block `number` at `timestamp`; `merged` states that the block has no proof of work.
    pub fn fork(&self, number: u64, timestamp: u64, merged: bool) -> Fork {
        self.forks.at(number, timestamp, merged)
    }

    /// Returns the fork of a block with this validated header. On a chain that merges, blocks have no difficulty
    /// from the merge on.
    pub fn fork_of(&self, header: &Header) -> Fork {
        let merged = self.terminal_total_difficulty.is_some() && header.difficulty.is_zero();
        self.fork(header.number, header.timestamp, merged)
    }

    /// Returns the fork of the block after `parent` if that block has this timestamp.
    pub fn fork_after(&self, parent: &Header, timestamp: u64) -> Fork {
        let merged = self.terminal_total_difficulty.is_some()
            && (self.merged_after(U256::ZERO) || parent.number > 0 && parent.difficulty.is_zero());
        self.fork(parent.number.saturating_add(1), timestamp, merged)
    }

    /// Returns the timestamp at which a fork starts, in seconds; `None` if it never does, or if it starts at a
    /// height.
    pub(super) fn fork_time(&self, fork: Fork) -> Option<u64> {
        self.forks.time(fork)
    }

    /// Returns the fork by height alone: the fork of the block before the merge, and London after it.
    pub(super) fn fork_by_height(&self, number: u64) -> Fork {
        self.forks.at(number, 0, false).min(Fork::London)
    }

    /// Returns the blob limits at `timestamp` (EIP-7840 schedule, EIP-7892); `None` before Cancun.
    pub fn blob_params(&self, timestamp: u64) -> Option<BlobParams> {
        self.forks.blob_params(timestamp)
    }

    /// Returns whether EIP-155 signatures are valid in block `number`.
    pub fn replay_protection(&self, number: u64) -> bool {
        reached(self.file.config.eip155_block, number)
    }

    /// Returns the height of the DAO fork, and whether this chain supports it.
    pub const fn dao_fork(&self) -> Option<(u64, bool)> {
        match self.file.config.dao_fork_block {
            Some(height) => Some((height, self.file.config.dao_fork_support)),
            None => None,
        }
    }

    /// Returns the delay of the difficulty bomb in block `number`, in blocks; `None` before Byzantium.
    pub(super) fn bomb_delay(&self, number: u64) -> Option<u64> {
        let config = &self.file.config;
        [
            (config.gray_glacier_block, 11_400_000),
            (config.arrow_glacier_block, 10_700_000),
            (config.london_block, 9_700_000),
            (config.muir_glacier_block, 9_000_000),
            (config.constantinople_block, 5_000_000),
            (config.byzantium_block, 3_000_000),
        ]
        .into_iter()
        .find(|(at, _)| reached(*at, number))
        .map(|(_, delay)| delay)
    }

    /// Returns whether a block on a parent with this total difficulty has no proof of work (EIP-3675).
    pub fn merged_after(&self, parent_total_difficulty: U256) -> bool {
        self.terminal_total_difficulty.is_some_and(|ttd| parent_total_difficulty >= ttd)
    }

    /// Returns the distinct heights above zero at which a fork starts, in ascending order (EIP-2124).
    pub fn fork_heights(&self) -> Vec<u64> {
        let config = &self.file.config;
        let heights = [
            config.homestead_block,
            config.dao_fork_block.filter(|_| config.dao_fork_support),
            config.eip150_block,
            config.eip155_block,
            config.eip158_block,
            config.byzantium_block,
            config.constantinople_block,
            config.petersburg_block,
            config.istanbul_block,
            config.muir_glacier_block,
            config.berlin_block,
            config.london_block,
            config.arrow_glacier_block,
            config.gray_glacier_block,
            config.merge_netsplit_block,
        ];
        let set: BTreeSet<u64> =
            heights.into_iter().flatten().filter(|height| *height > 0).collect();
        set.into_iter().collect()
    }

    /// Returns the distinct times at which a fork or a blob schedule starts, in ascending order.
    pub fn fork_times(&self) -> Vec<u64> {
        let config = &self.file.config;
        let times = [
            config.shanghai_time,
            config.cancun_time,
            config.prague_time,
            config.osaka_time,
            config.bpo1_time,
            config.bpo2_time,
            config.bpo3_time,
            config.bpo4_time,
            config.bpo5_time,
        ];
        let set: BTreeSet<u64> = times.into_iter().flatten().collect();
        set.into_iter().collect()
    }

    /// Returns the `config` of the genesis file.
    pub const fn config(&self) -> &ChainConfig {
        &self.file.config
    }

    /// Returns the rules of a native chain in addition to its forks; `None` on an Ethereum chain.
    pub fn native(&self) -> Option<&Native> {
        self.native.as_deref()
    }

    /// Returns whether it is a development chain (ADR 0033).
    pub fn is_development(&self) -> bool {
        self.native().is_some_and(|native| native.development)
    }

    /// Returns the genesis file without its accounts.
    pub(super) const fn file(&self) -> &GenesisFile {
        &self.file
    }
}

/// Rejects chains whose blocks this node would not validate correctly.
fn refuse_unknown_rules(config: &ChainConfig, difficulty: U256) -> Result<(), GenesisError> {
    let merged = config.terminal_total_difficulty.is_some_and(|ttd| difficulty >= ttd);
    if config.clique.is_some() && !merged {
        return Err(GenesisError::field("config.clique", "proof of authority is not supported"));
    }
    for (name, time) in
        [("amsterdamTime", config.amsterdam_time), ("bogotaTime", config.bogota_time)]
    {
        if time.is_some() {
            let field = format!("config.{name}");
            return Err(GenesisError::field(field, "this fork is not supported"));
        }
    }
    Ok(())
}

fn reached(at: Option<u64>, number: u64) -> bool {
    at.is_some_and(|at| at <= number)
}
