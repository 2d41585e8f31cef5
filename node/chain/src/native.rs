//! Reads the native section of a genesis file, and creates the genesis of development chains and test networks.

use std::collections::BTreeMap;

use alloy_eips::{eip2935, eip4788, eip7002, eip7251};
use alloy_genesis::{ChainConfig, Genesis as GenesisFile, GenesisAccount};
use alloy_primitives::{Address, B256, U256, address, b256};
use certificates::PublicKey;
use serde::{Deserialize, Serialize};

use super::{
    DistributionParams, EvmParams, FeeRecipient, Genesis, GenesisError, RulesSchedule,
    RulesVersion, preinstalls::preinstalls, rules::ActivationJson,
};
use crate::{GovParams, GovSection, Validator};
use feemarket::{self, LegacyDec, Market, Params, TokenDecimals};

/// The account of the module `fee_collector`, which receives the fees of all transactions of a native chain.
pub const FEE_COLLECTOR: Address = address!("f1829676DB577682E944fc3493d451B67Ff3E29F");

/// Prefix of Bech32 addresses if genesis does not state one.
pub(super) const DEFAULT_BECH32_PREFIX: &str = "cosmos";
/// Decimals of the token if genesis does not state them.
const EVM_DECIMALS: u8 = 18;
/// Maximum length of a prefix with which a 20-byte address fits into Bech32's 90 characters.
const MAX_PREFIX_CHARS: usize = 50;
/// Key of the section in the genesis file's `config`. A chain with this section is native.
const SECTION: &str = "evmd";

/// Default EVM chain id of a native chain.
const CHAIN_ID: u64 = 262_144;
/// Default gas limit of a native block.
const GAS_LIMIT: u64 = 100_000_000;
/// Gas limit in the header of a block without a limit: 2^32 - 1, as in cosmos/evm.
const UNLIMITED_GAS_SHOWN: u64 = u32::MAX as u64;
/// Allowed gas limits in a header.
const GAS_LIMITS: std::ops::RangeInclusive<u64> = 5_000..=i64::MAX as u64;
/// Deposit period and voting period of a development chain, in seconds.
const DEV_PERIOD: u64 = 30;
/// Voting period of an expedited proposal on a development chain, in seconds.
const DEV_EXPEDITED_PERIOD: u64 = 15;
/// 10,000 ether in wei, the balance of each development account.
const DEV_BALANCE: U256 = U256::from_limbs([0x19e0_c9ba_b240_0000, 0x021e, 0, 0]);

/// The mnemonic of [`DEV_ACCOUNTS`], with derivation path `m/44'/60'/0'/0/i`. It is public: never use it for
/// value.
pub const DEV_MNEMONIC: &str = "test test test test test test test test test test test junk";

/// Minimum gas price of a development chain in wei: far below the prices that clients use by default.
const DEV_MIN_GAS_PRICE: u64 = 1_000_000;

/// One funded development account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DevAccount {
    /// Its address.
    pub address: Address,
    /// Its private key, which is public.
    pub private_key: B256,
}

const fn dev(address: Address, private_key: B256) -> DevAccount {
    DevAccount { address, private_key }
}

/// The first ten accounts of [`DEV_MNEMONIC`].
pub const DEV_ACCOUNTS: [DevAccount; 10] = [
    dev(
        address!("f39Fd6e51aad88F6F4ce6aB8827279cffFb92266"),
        b256!("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"),
    ),
    dev(
        address!("70997970C51812dc3A010C7d01b50e0d17dc79C8"),
        b256!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d"),
    ),
    dev(
        address!("3C44CdDdB6a900fa2b585dd299e03d12FA4293BC"),
        b256!("5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a"),
    ),
    dev(
        address!("90F79bf6EB2c4f870365E785982E1f101E93b906"),
        b256!("7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6"),
    ),
    dev(
        address!("15d34AAf54267DB7D7c367839AAf71A00a2C6A65"),
        b256!("47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a"),
    ),
    dev(
        address!("9965507D1a55bcC2695C58ba16FB37d819B0A4dc"),
        b256!("8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba"),
    ),
    dev(
        address!("976EA74026E726554dB657fA54763abd0C3a0aa9"),
        b256!("92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e"),
    ),
    dev(
        address!("14dC79964da2C08b23698B3D3cc7Ca32193d9955"),
        b256!("4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356"),
    ),
    dev(
        address!("23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f"),
        b256!("dbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97"),
    ),
    dev(
        address!("a0Ee7A142d267C1f36714E4a8F75612F20a79720"),
        b256!("2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6"),
    ),
];

/// The native section of the genesis file's `config`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Section {
    /// Human-readable prefix of Bech32 addresses.
    bech32_prefix: String,
    /// Decimals of the token in which fee market prices are stated.
    token_decimals: u8,
    /// Consensus gas limit of a block; -1 for none. Default: the file's `gasLimit`.
    #[serde(deserialize_with = "feemarket::optional_integer")]
    max_gas: Option<i64>,
    /// The initial state of the fee market. Default: the default parameters with the file's `baseFeePerGas`.
    feemarket: Option<feemarket::Genesis>,
    evm: EvmSection,
    gov: GovSection,
    /// The recipient of the fees. Default: `fee_collector`.
    distribution: Option<DistributionSection>,
    /// Whether it is a development chain. Default: false.
    development: bool,
    /// The keys that sign blocks. Default: none, so that operators of replicas must know the producer key.
    producer: Option<Producer>,
    /// Rules versions. Default: version 0 from block 0 on.
    rules: Option<Vec<ActivationJson>>,
}

/// The supported part of `app_state.evm` of cosmos/evm.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EvmSection {
    params: EvmParams,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DistributionSection {
    params: DistributionParams,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            bech32_prefix: DEFAULT_BECH32_PREFIX.to_owned(),
            token_decimals: EVM_DECIMALS,
            max_gas: None,
            feemarket: None,
            evm: EvmSection::default(),
            gov: GovSection::default(),
            distribution: None,
            development: false,
            producer: None,
            rules: None,
        }
    }
}

/// The keys whose signatures prove blocks, as in the genesis file (ADR 0035).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Producer {
    /// The key of the first producer.
    pub key: PublicKey,
    /// The key that may replace a producer that is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<PublicKey>,
}

/// The rules of a native chain in addition to its forks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Native {
    /// Human-readable prefix of Bech32 addresses.
    pub bech32_prefix: String,
    /// Gas limit of a block for the fee market: 2^64 - 1 if blocks have no limit.
    pub max_gas: u64,
    /// Gas limit in every header.
    pub gas_limit: u64,
    /// The EVM's parameters in genesis. The parameters in force are in `modules::Modules`.
    pub evm: EvmParams,
    /// The fee market before block 1.
    pub market: Market,
    /// Governance parameters and validators.
    pub gov: GovParams,
    /// The recipient of the fees in genesis; `None` if genesis does not state one, which means `fee_collector`. The
    /// parameters in force are in `modules::Modules`.
    pub distribution: Option<DistributionParams>,
    /// Whether it is a development chain: its keys are public, and clients may change its state (ADR 0033).
    pub development: bool,
    /// The keys whose signatures prove blocks, if the genesis commits to them.
    pub producer: Option<Producer>,
    /// The rules version in force at each height.
    pub rules: RulesSchedule,
    /// Keccak-256 of the genesis configuration in canonical form, to which the first block of every
    /// version from 1 on commits.
    pub config_hash: B256,
}

/// Reads the native section; `None` if there is none, as on an Ethereum chain.
pub(super) fn read(file: &GenesisFile) -> Result<Option<Native>, GenesisError> {
    let Some(section) = file.config.extra_fields.get(SECTION) else { return Ok(None) };
    let refuse = |field: &str, reason: String| {
        let dot = if field.is_empty() { "" } else { "." };
        GenesisError::field(format!("config.{SECTION}{dot}{field}"), reason)
    };
    let section = Section::deserialize(section).map_err(|error| refuse("", error.to_string()))?;
    let prefix = &section.bech32_prefix;
    if prefix.is_empty()
        || prefix.len() > MAX_PREFIX_CHARS
        || !prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    {
        let reason = format!("needs 1 to {MAX_PREFIX_CHARS} lower-case letters or digits");
        return Err(refuse("bech32Prefix", reason));
    }
    let decimals = TokenDecimals::new(section.token_decimals)
        .map_err(|error| refuse("tokenDecimals", error.to_string()))?;
    let (max_gas, gas_limit) =
        gas_limits(section.max_gas, file.gas_limit).map_err(|reason| refuse("maxGas", reason))?;
    let market = start_market(section.feemarket, file.base_fee_per_gas, decimals)
        .map_err(|reason| refuse("feemarket", reason))?;
    if !file.extra_data.is_empty() {
        let reason = "must be empty: a native chain puts the root of its modules there";
        return Err(GenesisError::field("extraData", reason));
    }
    let evm = section.evm.params;
    let rules =
        RulesSchedule::read(section.rules).map_err(|error| refuse("rules", error.to_string()))?;
    let gov = section
        .gov
        .read(prefix, &evm.evm_denom, rules.version(0))
        .map_err(|reason| refuse("gov", reason))?;
    let (bech32_prefix, development, producer) =
        (section.bech32_prefix, section.development, section.producer);
    check_producer(producer.is_some(), development, rules.version(0))
        .map_err(|reason| refuse("producer", reason.to_owned()))?;
    if gov.consensus_validators().next().is_some() {
        check_validators(producer.is_some(), development, rules.version(0))
            .map_err(|reason| refuse("gov.validators", reason.to_owned()))?;
    }
    let distribution = section.distribution.map(|section| section.params);
    if distribution.is_some() && rules.version(0) < RulesVersion::V2 {
        let reason = "needs rules version 2 from block 0 on: state it in rules";
        return Err(refuse("distribution", reason.to_owned()));
    }
    let pays_proposer =
        distribution.is_some_and(|params| params.fee_recipient == FeeRecipient::Proposer);
    if pays_proposer && file.coinbase.is_zero() && gov.consensus_validators().next().is_none() {
        let reason = "must be the account that receives the fees (FEE_RECIPIENT_PROPOSER)";
        return Err(GenesisError::field("coinbase", reason));
    }
    // The hash is computed after the forks have been read.
    let config_hash = B256::ZERO;
    Ok(Some(Native {
        bech32_prefix,
        max_gas,
        gas_limit,
        evm,
        market,
        gov,
        distribution,
        development,
        producer,
        rules,
        config_hash,
    }))
}

/// Checks that a genesis may name a producer: its hash must commit to the key, and the chain must not be a development
/// chain, whose blocks can be replaced.
const fn check_producer(
    is_named: bool,
    is_development: bool,
    rules: RulesVersion,
) -> Result<(), &'static str> {
    match (is_named, is_development, rules) {
        (true, true, _) => Err("a development chain has no certificates: remove it"),
        (true, false, RulesVersion::V0) => {
            Err("the genesis hash commits to the key from rules version 1 on: state it in rules")
        }
        _ => Ok(()),
    }
}

/// Checks that validators of a genesis may have consensus keys: the genesis must not name a producer, and the rules
/// must allow a proposer to choose only transactions and time.
const fn check_validators(
    names_producer: bool,
    is_development: bool,
    rules: RulesVersion,
) -> Result<(), &'static str> {
    match (names_producer, is_development, rules) {
        (true, ..) => Err("a chain has a producer or validators with a consensus_key, not both"),
        (_, true, _) => Err("clients of a development chain replace blocks: remove consensus_key"),
        (_, _, RulesVersion::V0 | RulesVersion::V1) => {
            Err("consensus_key needs rules version 2 from block 0 on: state it in rules")
        }
        _ => Ok(()),
    }
}

/// Returns the gas limit of a block for the fee market, and the one in headers.
fn gas_limits(max_gas: Option<i64>, gas_limit: u64) -> Result<(u64, u64), String> {
    if max_gas == Some(-1) {
        return Ok((u64::MAX, UNLIMITED_GAS_SHOWN));
    }
    let limit = match max_gas {
        Some(limit) => u64::try_from(limit).map_err(|_| format!("{limit} is below -1"))?,
        None => gas_limit,
    };
    if !GAS_LIMITS.contains(&limit) {
        let (min, max) = (GAS_LIMITS.start(), GAS_LIMITS.end());
        return Err(format!("{limit} gas a block: allowed are -1 and {min} to {max}"));
    }
    Ok((limit, limit))
}

/// Returns the fee market that the section describes, or else one with default parameters and `baseFeePerGas`.
fn start_market(
    section: Option<feemarket::Genesis>,
    base_fee_wei: Option<u128>,
    decimals: TokenDecimals,
) -> Result<Market, String> {
    let base_fee_wei = base_fee_wei
        .map(|wei| u64::try_from(wei).map_err(|_| "baseFeePerGas is above 64 bits".to_owned()))
        .transpose()?;
    let stated = section.is_some();
    let genesis = section.unwrap_or_else(|| {
        let default = Params::default();
        let base_fee = base_fee_wei.map_or(default.base_fee, |wei| decimals.from_wei(wei));
        feemarket::Genesis { params: Params { base_fee, ..default }, block_gas: 0 }
    });
    let market = Market::new(genesis, decimals).map_err(|error| error.to_string())?;
    match base_fee_wei {
        Some(wei) if stated && wei != market.base_fee_wei() => Err(format!(
            "a base fee of {} wei, but baseFeePerGas says {wei}; leave one of them out",
            market.base_fee_wei()
        )),
        _ => Ok(market),
    }
}

impl Genesis {
    /// Returns the genesis of a native chain with default parameters: chain id 262144, every fork through Prague, the
    /// newest rules version, the system contracts of EIP-2935, 4788, 7002 and 7251, the contracts that tools expect,
    /// and [`DEV_ACCOUNTS`] with 10,000 ether each.
    pub fn native_dev(timestamp: u64) -> Self {
        Self::native_with(timestamp, feemarket::Genesis::default(), false)
    }

    /// Returns the genesis of a development chain: [`Self::native_dev`] with the mark of a development chain and a
    /// minimum gas price. At a base fee of 0, to which an idle chain would fall, clients do not use EIP-1559.
    pub fn development(timestamp: u64) -> Self {
        Self::native_with(timestamp, with_minimum_price(), true)
    }

    /// Returns the genesis of a test network with these validators, which receive the fees of their blocks, and the
    /// minimum gas price of a development chain.
    ///
    /// # Errors
    /// Returns [`GenesisError`] if the validators are not valid.
    pub fn test_network(timestamp: u64, validators: &[Validator]) -> Result<Self, GenesisError> {
        Self::native_with(timestamp, with_minimum_price(), false)
            .with_validators(validators)?
            .with_fee_recipient(FeeRecipient::Proposer)
    }

    /// Returns the same genesis with this recipient of the fees.
    ///
    /// # Errors
    /// Returns [`GenesisError`] if this is not the genesis of a native chain that starts with rules version 2 or later,
    /// or there is no account to pay.
    pub fn with_fee_recipient(&self, fee_recipient: FeeRecipient) -> Result<Self, GenesisError> {
        self.with_section(|section| {
            let params = DistributionParams { fee_recipient };
            section["distribution"] = serde_json::json!({ "params": params });
        })
    }

    /// Returns the same genesis with the keys whose signatures prove blocks.
    ///
    /// # Errors
    /// Returns [`GenesisError`] if this is not the genesis of a native chain, or the chain may not name a producer.
    pub fn with_producer(&self, producer: Producer) -> Result<Self, GenesisError> {
        self.with_section(|section| {
            section["producer"] = serde_json::to_value(producer).expect("two keys are JSON");
        })
    }

    /// Returns the same genesis with these validators.
    ///
    /// # Errors
    /// Returns [`GenesisError`] if this is not the genesis of a native chain, or the validators are not valid.
    pub fn with_validators(&self, validators: &[Validator]) -> Result<Self, GenesisError> {
        self.with_section(|section| {
            let gov = GovSection::deserialize(&section["gov"]).unwrap_or_default();
            let gov = gov.with_validators(validators);
            section["gov"] = serde_json::to_value(gov).expect("keys and numbers are JSON");
        })
    }

    /// Returns the same genesis with a changed native section.
    fn with_section(
        &self,
        change: impl FnOnce(&mut serde_json::Value),
    ) -> Result<Self, GenesisError> {
        let mut file: serde_json::Value =
            serde_json::from_str(&self.to_json()).expect("`to_json` writes JSON");
        let section = &mut file["config"][SECTION];
        if section.is_null() {
            return Err(GenesisError::field(
                format!("config.{SECTION}"),
                "is missing: only the genesis of a native chain has this",
            ));
        }
        change(section);
        Self::from_json(&file.to_string())
    }

    fn native_with(timestamp: u64, market: feemarket::Genesis, development: bool) -> Self {
        let mut config = ChainConfig {
            chain_id: CHAIN_ID,
            homestead_block: Some(0),
            eip150_block: Some(0),
            eip155_block: Some(0),
            eip158_block: Some(0),
            byzantium_block: Some(0),
            constantinople_block: Some(0),
            petersburg_block: Some(0),
            istanbul_block: Some(0),
            berlin_block: Some(0),
            london_block: Some(0),
            shanghai_time: Some(0),
            cancun_time: Some(0),
            prague_time: Some(0),
            terminal_total_difficulty: Some(U256::ZERO),
            terminal_total_difficulty_passed: true,
            ..Default::default()
        };
        let mut section = serde_json::json!({
            "bech32Prefix": DEFAULT_BECH32_PREFIX,
            "tokenDecimals": EVM_DECIMALS,
            "maxGas": GAS_LIMIT.to_string(),
            "feemarket": market,
            "evm": { "params": EvmParams::default() },
            "gov": GovSection::development(
                DEV_ACCOUNTS[0].address,
                DEV_PERIOD,
                DEV_EXPEDITED_PERIOD,
            ),
            "rules": [{ "version": RulesVersion::NEWEST.number(), "height": 0 }],
        });
        if development {
            section["development"] = true.into();
        }
        config.extra_fields.insert(SECTION.to_owned(), section);
        let funded = DEV_ACCOUNTS
            .iter()
            .map(|dev| (dev.address, GenesisAccount::default().with_balance(DEV_BALANCE)));
        let file = GenesisFile {
            config,
            timestamp,
            gas_limit: GAS_LIMIT,
            alloc: funded.chain(contracts()).collect::<BTreeMap<_, _>>(),
            ..Default::default()
        };
        Self::from_file(file).expect("the built-in genesis is valid, as its test says")
    }
}

/// Returns the fee market of a chain that is often idle, with a minimum gas price.
fn with_minimum_price() -> feemarket::Genesis {
    let mut market = feemarket::Genesis::default();
    market.params.min_gas_price = LegacyDec::from(DEV_MIN_GAS_PRICE);
    market
}

fn contracts() -> impl Iterator<Item = (Address, GenesisAccount)> {
    // The library's EIP-7251 code has two bytes of padding that the deployed code lacks.
    let consolidation = &eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_CODE;
    let consolidation = consolidation.slice(..consolidation.len() - 2);
    [
        (eip2935::HISTORY_STORAGE_ADDRESS, eip2935::HISTORY_STORAGE_CODE.clone()),
        (eip4788::BEACON_ROOTS_ADDRESS, eip4788::BEACON_ROOTS_CODE.clone()),
        (
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
            eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_CODE.clone(),
        ),
        (eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS, consolidation),
    ]
    .into_iter()
    .chain(preinstalls())
    .map(|(address, code)| {
        (address, GenesisAccount::default().with_nonce(Some(1)).with_code(Some(code)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dev_keys_belong_to_dev_addresses() {
        for account in DEV_ACCOUNTS {
            let key = secp256k1::SecretKey::from_secret_bytes(account.private_key.0).unwrap();
            let public = key.public_key().serialize_uncompressed();
            let hash = alloy_primitives::keccak256(&public[1..]);
            assert_eq!(Address::from_word(hash), account.address);
        }
    }

    #[test]
    fn dev_genesis_is_native_and_survives_json() {
        let genesis = Genesis::native_dev(0);
        assert_eq!(genesis.spec.rules, super::super::Rules::Native);
        assert_eq!(genesis.spec.chain_id, 262_144);
        assert_eq!(genesis.spec.bech32_prefix, "cosmos");
        let again = super::super::ChainSpec::from_json(&genesis.spec.to_json()).unwrap();
        assert_eq!(again, genesis.spec);
        assert_eq!(DEV_BALANCE, U256::from(10_000) * U256::from(10).pow(U256::from(18)));
    }
}
