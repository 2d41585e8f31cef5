//! Computes the commitment of a native chain to the whole `config` of its genesis, in canonical form.
//!
//! The state root of block 0 covers `alloc`, and the header covers the other fields of the file. Chain id, forks
//! and the native section are not part of any header, so in the first block of every rules version from 1 on, the
//! module row holds the Keccak-256 of a text. The text is JSON with ascending keys and without white space. It
//! contains the values after defaults have been filled in, so two files that describe the same chain have one text.
//! `docs/storage-format.md` lists its fields.
//!
//! A field that is added later must be omitted from the text while it is absent from the genesis, because the
//! hashes of existing chains must not change. The tests pin the hashes of two chains.

use alloy_genesis::ChainConfig;
use alloy_primitives::{Address, B256, keccak256};
use serde_json::{Map, Value, json};

use super::{ForkSchedule, Native, rules::ActivationJson};
use crate::{GovParams, Validator};
use feemarket::{self, LegacyDec};

/// Returns the Keccak-256 of the [`canonical_text`] of the configuration.
pub(super) fn commitment(
    config: &ChainConfig,
    forks: &ForkSchedule,
    deposit_contract: Address,
    native: &Native,
) -> B256 {
    let value = json!({
        "chainId": config.chain_id.to_string(),
        "forks": fork_heights_and_times(config),
        "blobs": blobs(forks),
        "depositContract": deposit_contract,
        "evmd": section(native),
    });
    keccak256(canonical_text(&value))
}

/// Returns the fields of geth's configuration that determine rules, without those that are not set.
fn fork_heights_and_times(config: &ChainConfig) -> Value {
    let numbers = [
        ("homesteadBlock", config.homestead_block),
        ("daoForkBlock", config.dao_fork_block),
        ("eip150Block", config.eip150_block),
        ("eip155Block", config.eip155_block),
        ("eip158Block", config.eip158_block),
        ("byzantiumBlock", config.byzantium_block),
        ("constantinopleBlock", config.constantinople_block),
        ("petersburgBlock", config.petersburg_block.or(config.constantinople_block)),
        ("istanbulBlock", config.istanbul_block),
        ("muirGlacierBlock", config.muir_glacier_block),
        ("berlinBlock", config.berlin_block),
        ("londonBlock", config.london_block),
        ("arrowGlacierBlock", config.arrow_glacier_block),
        ("grayGlacierBlock", config.gray_glacier_block),
        ("mergeNetsplitBlock", config.merge_netsplit_block),
        ("shanghaiTime", config.shanghai_time),
        ("cancunTime", config.cancun_time),
        ("pragueTime", config.prague_time),
        ("osakaTime", config.osaka_time),
        ("bpo1Time", config.bpo1_time),
        ("bpo2Time", config.bpo2_time),
        ("bpo3Time", config.bpo3_time),
        ("bpo4Time", config.bpo4_time),
        ("bpo5Time", config.bpo5_time),
    ];
    let mut fields: Map<String, Value> = numbers
        .into_iter()
        .filter_map(|(name, number)| Some((name.to_owned(), number?.to_string().into())))
        .collect();
    fields.insert("daoForkSupport".to_owned(), config.dao_fork_support.into());
    if let Some(total) = config.terminal_total_difficulty {
        fields.insert("terminalTotalDifficulty".to_owned(), total.to_string().into());
    }
    fields.into()
}

/// Returns the blob limits of each period.
fn blobs(forks: &ForkSchedule) -> Value {
    let entry = |(from, params): &(u64, alloy_eips::eip7840::BlobParams)| {
        json!({
            "from": from.to_string(),
            "target": params.target_blob_count.to_string(),
            "max": params.max_blob_count.to_string(),
            "maxPerTx": params.max_blobs_per_tx.to_string(),
            "updateFraction": params.update_fraction.to_string(),
            "minBlobFee": params.min_blob_fee.to_string(),
            "blobBaseCost": params.blob_base_cost.to_string(),
        })
    };
    forks.blobs().iter().map(entry).collect()
}

/// Returns the native section with the effective values.
fn section(native: &Native) -> Value {
    // A new field of `Native` must be listed here, so that it is either included or left out on purpose.
    let Native {
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
        config_hash: _,
    } = native;
    let market_genesis =
        feemarket::Genesis { params: market.params().clone(), block_gas: market.block_gas() };
    let rules: Vec<_> = rules.genesis().iter().copied().map(ActivationJson::from).collect();
    let mut fields = json!({
        "bech32Prefix": bech32_prefix,
        "tokenDecimals": market.decimals().get(),
        "maxGas": max_gas.to_string(),
        "gasLimit": gas_limit.to_string(),
        "feemarket": market_genesis,
        "evm": { "params": evm },
        "gov": governance(gov),
        "rules": rules,
    });
    if *development {
        fields["development"] = true.into();
    }
    if let Some(params) = distribution {
        fields["distribution"] = json!({ "params": params });
    }
    if let Some(producer) = producer {
        fields["producer"] = json!(producer);
    }
    fields
}

fn governance(gov: &GovParams) -> Value {
    let GovParams {
        min_deposit,
        expedited_min_deposit,
        max_deposit_period,
        voting_period,
        expedited_voting_period,
        quorum,
        threshold,
        expedited_threshold,
        veto_threshold,
        burn_vote_quorum,
        burn_proposal_deposit_prevote,
        burn_vote_veto,
        min_initial_deposit_ratio,
        min_deposit_ratio,
        proposal_cancel_ratio,
        proposal_cancel_dest,
        validators,
    } = gov;
    let validator = |Validator { address, power, consensus_key }: &Validator| {
        let mut fields = json!({ "address": address, "power": power.to_string() });
        if let Some(key) = consensus_key {
            fields["consensus_key"] = json!(key);
        }
        fields
    };
    let mut fields = json!({
        "min_deposit": min_deposit.to_string(),
        "expedited_min_deposit": expedited_min_deposit.to_string(),
        "max_deposit_period": max_deposit_period.to_string(),
        "voting_period": voting_period.to_string(),
        "expedited_voting_period": expedited_voting_period.to_string(),
        "quorum": quorum.to_string(),
        "threshold": threshold.to_string(),
        "expedited_threshold": expedited_threshold.to_string(),
        "veto_threshold": veto_threshold.to_string(),
        "burn_vote_quorum": burn_vote_quorum,
        "burn_proposal_deposit_prevote": burn_proposal_deposit_prevote,
        "burn_vote_veto": burn_vote_veto,
        "validators": validators.iter().map(validator).collect::<Vec<_>>(),
    });
    // The following fields were added after the first chains had been created, so default values are omitted.
    let ratios = [
        ("min_initial_deposit_ratio", min_initial_deposit_ratio),
        ("min_deposit_ratio", min_deposit_ratio),
        ("proposal_cancel_ratio", proposal_cancel_ratio),
    ];
    for (name, ratio) in ratios.into_iter().filter(|(_, ratio)| **ratio != LegacyDec::ZERO) {
        fields[name] = ratio.to_string().into();
    }
    if !proposal_cancel_dest.is_empty() {
        fields["proposal_cancel_dest"] = proposal_cancel_dest.as_str().into();
    }
    fields
}

/// Writes JSON with the keys of every object in ascending order of their bytes, and without white space. Numbers
/// are integers, so each has one form.
fn canonical_text(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            // The order of the map itself depends on a feature that any dependency may enable.
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| key.as_bytes());
            text.push('{');
            for (index, (key, item)) in fields.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write_canonical(item, text);
            }
            text.push('}');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activation, ChainSpec, Genesis, GenesisError, RulesVersion};
    use alloy_primitives::b256;

    const TIMESTAMP: u64 = 1_700_000_000;

    /// Returns the development genesis after a change of its JSON.
    fn genesis(change: impl FnOnce(&mut Value)) -> Result<Genesis, GenesisError> {
        let mut file: Value =
            serde_json::from_str(&Genesis::native_dev(TIMESTAMP).to_json()).unwrap();
        change(&mut file);
        Genesis::from_json(&file.to_string())
    }

    fn hash(change: impl FnOnce(&mut Value)) -> B256 {
        genesis(change).unwrap().header().hash_slow()
    }

    /// Changes a genesis into a chain with six decimals and without accounts, with the fields that this
    /// requires.
    fn six_decimals(file: &mut Value) {
        file["config"]["chainId"] = 777.into();
        file["gasLimit"] = "0x1312d00".into();
        file["alloc"] = json!({});
        file["config"]["evmd"] = json!({
            "bech32Prefix": "evm",
            "tokenDecimals": 6,
            "maxGas": "20000000",
            "feemarket": { "params": {
                "base_fee": "0.001000000000000000",
                "base_fee_change_denominator": 8,
                "elasticity_multiplier": 2,
                "enable_height": "0",
                "min_gas_multiplier": "0.500000000000000000",
                "min_gas_price": "0.000000000000000000",
                "no_base_fee": false,
            }},
            "gov": { "validators": [
                { "address": "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "power": "3" },
            ]},
        });
    }

    #[test]
    fn genesis_without_rules_has_the_block_hash_it_always_had() {
        // These hashes were computed with the last program without rules versions.
        let dev = b256!("21981cb0110434eea2494a325252103d6a83b87b50a966c1aeb7494279882a52");
        let without_rules = |file: &mut Value| {
            file["config"]["evmd"].as_object_mut().unwrap().remove("rules").unwrap();
        };
        assert_eq!(hash(without_rules), dev);
        assert_eq!(hash(|file| file["config"]["evmd"] = json!({})), dev);
        let zero = json!([{ "version": 0, "height": 0 }]);
        assert_eq!(hash(|file| file["config"]["evmd"]["rules"] = zero), dev);
        let later = json!([{ "version": 0, "height": 0 }, { "version": 1, "height": 9 }]);
        assert_eq!(hash(|file| file["config"]["evmd"]["rules"] = later), dev);
        let six = b256!("fd3414db13cc33b7ce44a98df8ca289eface51283281f994344fa9578a76e37c");
        assert_eq!(hash(six_decimals), six);
    }

    #[test]
    fn version_1_hashes_are_pinned() {
        let six = hash(|file| {
            six_decimals(file);
            file["config"]["evmd"]["rules"] = json!([{ "version": 1, "height": 0 }]);
        });
        let dev = hash(|file| {
            file["config"]["evmd"]["rules"] = json!([{ "version": 1, "height": 0 }]);
        });
        let pinned = [
            b256!("6df96cb88d6dc887cf52b71f8df291625cc9057ca234f3a3c2fd6e75a232370a"),
            b256!("05da8c7cb77927e8bf94c5f2a567a02053166aea9d1859512bafa719c177d870"),
        ];
        assert_eq!([dev, six], pinned);
    }

    #[test]
    fn producer_is_accepted_only_in_a_genesis_that_commits_to_it() {
        let producer = json!({ "key": KEY });
        let with = |change: &dyn Fn(&mut Value)| {
            genesis(|file| {
                file["config"]["evmd"]["producer"] = producer.clone();
                change(&mut file["config"]["evmd"]);
            })
        };
        assert!(with(&|_| ()).is_ok());
        for version in [0, 1] {
            let rules = json!([{ "version": version, "height": 0 }]);
            assert_eq!(with(&|native| native["rules"] = rules.clone()).is_ok(), version == 1);
        }
        let error = with(&|native| native["development"] = true.into()).unwrap_err().to_string();
        assert!(error.contains("producer") && error.contains("development chain"), "{error}");
        let error = with(&|native| native["producer"]["key"] = "0x01".into()).unwrap_err();
        assert!(error.to_string().contains("config.evmd"), "{error}");
        let named = Genesis::native_dev(TIMESTAMP)
            .with_producer(crate::Producer { key: KEY.parse().unwrap(), recovery: None });
        assert_eq!(named.unwrap(), with(&|_| ()).unwrap());
        let ethereum = Genesis::from_json(
            r#"{"config": {"chainId": 1}, "gasLimit": "0x1000", "difficulty": "0x1", "alloc": {}}"#,
        )
        .unwrap();
        let producer = crate::Producer { key: KEY.parse().unwrap(), recovery: None };
        assert!(ethereum.with_producer(producer).is_err());
    }

    /// The public keys of tests 1 and 2 of RFC 8032.
    const KEY: &str = "0xd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    const OTHER_KEY: &str = "0x3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c";

    /// Returns paths of fields with changed values: all of the native section, and some of the rest of `config`.
    fn changed_fields() -> Vec<(&'static str, Value)> {
        let listed = json!(["0x00000000000000000000000000000000000000aa"]);
        vec![
            ("/config/chainId", json!(262_145)),
            ("/config/osakaTime", json!(TIMESTAMP + 1_000_000)),
            ("/config/terminalTotalDifficulty", json!(1)),
            ("/config/depositContractAddress", json!("0x00000000000000000000000000000000000000aa")),
            (
                "/config/blobSchedule",
                json!({ "prague": { "target": 3, "max": 6, "baseFeeUpdateFraction": 5_007_716 } }),
            ),
            ("/config/evmd/bech32Prefix", json!("evm")),
            ("/config/evmd/tokenDecimals", json!(17)),
            ("/config/evmd/maxGas", json!("-1")),
            ("/config/evmd/feemarket/block_gas", json!("1")),
            ("/config/evmd/feemarket/params/base_fee", json!("1000000001.000000000000000000")),
            ("/config/evmd/feemarket/params/base_fee_change_denominator", json!(9)),
            ("/config/evmd/feemarket/params/elasticity_multiplier", json!(3)),
            ("/config/evmd/feemarket/params/enable_height", json!("1")),
            ("/config/evmd/feemarket/params/min_gas_price", json!("1.000000000000000000")),
            ("/config/evmd/feemarket/params/min_gas_multiplier", json!("0.400000000000000000")),
            ("/config/evmd/feemarket/params/no_base_fee", json!(true)),
            ("/config/evmd/evm/params/evm_denom", json!("gold")),
            ("/config/evmd/evm/params/allow_unprotected_txs", json!(true)),
            (
                "/config/evmd/evm/params/access_control/create/access_type",
                json!("ACCESS_TYPE_RESTRICTED"),
            ),
            ("/config/evmd/evm/params/access_control/create/access_control_list", listed.clone()),
            (
                "/config/evmd/evm/params/access_control/call/access_type",
                json!("ACCESS_TYPE_RESTRICTED"),
            ),
            ("/config/evmd/evm/params/access_control/call/access_control_list", listed),
            (
                "/config/evmd/evm/params/active_static_precompiles",
                json!(["0x0000000000000000000000000000000000000100"]),
            ),
            ("/config/evmd/gov/params/min_deposit", json!([{ "denom": "atest", "amount": "7" }])),
            (
                "/config/evmd/gov/params/expedited_min_deposit",
                json!([{ "denom": "atest", "amount": "50000007" }]),
            ),
            ("/config/evmd/gov/params/max_deposit_period", json!("31s")),
            ("/config/evmd/gov/params/voting_period", json!("31s")),
            ("/config/evmd/gov/params/expedited_voting_period", json!("16s")),
            ("/config/evmd/gov/params/quorum", json!("0.335")),
            ("/config/evmd/gov/params/threshold", json!("0.51")),
            ("/config/evmd/gov/params/expedited_threshold", json!("0.668")),
            ("/config/evmd/gov/params/veto_threshold", json!("0.335")),
            ("/config/evmd/gov/params/burn_vote_quorum", json!(true)),
            ("/config/evmd/gov/params/burn_proposal_deposit_prevote", json!(true)),
            ("/config/evmd/gov/params/burn_vote_veto", json!(false)),
            ("/config/evmd/gov/params/min_initial_deposit_ratio", json!("0.5")),
            ("/config/evmd/gov/params/min_deposit_ratio", json!("0.5")),
            ("/config/evmd/gov/params/proposal_cancel_ratio", json!("0.5")),
            (
                "/config/evmd/gov/params/proposal_cancel_dest",
                json!("cosmos17w0adeg64ky0daxwd2ugyuneellmjgnxramjtq"),
            ),
            ("/config/evmd/gov/validators/0/power", json!("2")),
            (
                "/config/evmd/gov/validators/0/address",
                json!("0x70997970C51812dc3A010C7d01b50e0d17dc79C8"),
            ),
            ("/config/evmd/gov/validators/0/consensus_key", json!(KEY)),
            ("/config/evmd/gov/validators/0/consensus_key", json!(OTHER_KEY)),
            ("/config/evmd/producer", json!({ "key": KEY })),
            ("/config/evmd/producer", json!({ "key": OTHER_KEY })),
            ("/config/evmd/producer", json!({ "key": KEY, "recovery": OTHER_KEY })),
        ]
    }

    /// Sets the value at a path. The last key of the path may be new.
    fn set(file: &mut Value, path: &str, value: Value) {
        let (parent, name) = path.rsplit_once('/').unwrap();
        let parent = file.pointer_mut(parent).unwrap_or_else(|| panic!("{path} has no parent"));
        parent[name] = value;
    }

    #[test]
    fn version_1_block_0_commits_to_every_field_of_the_configuration() {
        // The header covers some fields itself. The commitment must cover them as well.
        let hashes = |genesis: Genesis| {
            [genesis.header().hash_slow(), genesis.spec.native().unwrap().config_hash]
        };
        let mut seen = vec![hashes(Genesis::native_dev(TIMESTAMP))];
        for (path, value) in changed_fields() {
            let changed = hashes(genesis(|file| set(file, path, value)).unwrap());
            for before in &seen {
                assert!(before[0] != changed[0], "{path} leaves the hash of block 0 as it is");
                assert!(before[1] != changed[1], "{path} is not in the commitment");
            }
            seen.push(changed);
        }
    }

    #[test]
    fn changed_fields_include_every_field_of_the_native_section() {
        let file: Value = serde_json::from_str(&Genesis::native_dev(TIMESTAMP).to_json()).unwrap();
        let mut leaves = Vec::new();
        collect_leaves(&file["config"]["evmd"], "/config/evmd".to_owned(), &mut leaves);
        let tried: Vec<&str> = changed_fields().into_iter().map(|(path, _)| path).collect();
        // Lists of unsupported features must be empty; a separate test covers the schedule.
        let fixed = ["/config/evmd/evm/params/extra_eips", "/config/evmd/evm/params/evm_channels"];
        for leaf in leaves {
            let known = fixed.contains(&leaf.as_str()) || leaf.starts_with("/config/evmd/rules");
            assert!(known || tried.contains(&leaf.as_str()), "{leaf} is not tried");
        }
    }

    fn collect_leaves(value: &Value, path: String, leaves: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                for (key, item) in fields {
                    collect_leaves(item, format!("{path}/{key}"), leaves);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    collect_leaves(item, format!("{path}/{index}"), leaves);
                }
            }
            _ => leaves.push(path),
        }
    }

    #[test]
    fn formatting_and_stated_defaults_leave_the_hash_as_it_is() {
        let plain = hash(|_| ());
        let pretty = Genesis::native_dev(TIMESTAMP).to_json();
        let same = |text: &str| Genesis::from_json(text).unwrap().header().hash_slow();
        assert_eq!(same(&pretty.replace("  ", "\t")), plain);
        assert_eq!(hash(|file| file["config"]["evmd"]["maxGas"] = json!(100_000_000)), plain);
        assert_eq!(
            hash(|file| {
                let section = file["config"]["evmd"].as_object_mut().unwrap();
                for default in ["bech32Prefix", "tokenDecimals", "evm", "feemarket", "maxGas"] {
                    section.remove(default).unwrap();
                }
            }),
            plain
        );
    }

    #[test]
    fn schedule_of_genesis_is_committed_and_an_adoption_is_not() {
        let scheduled = |height: u64| {
            let rules = json!([{ "version": 0, "height": 0 }, { "version": 1, "height": height }]);
            genesis(|file| file["config"]["evmd"]["rules"] = rules).unwrap().spec
        };
        let config_hash = |spec: &ChainSpec| spec.native().unwrap().config_hash;
        assert_ne!(config_hash(&scheduled(9)), config_hash(&scheduled(10)));
        let zero = json!([{ "version": 0, "height": 0 }]);
        let plain = genesis(|file| file["config"]["evmd"]["rules"] = zero).unwrap().spec;
        let adoption = Activation { version: RulesVersion::V1, height: 9 };
        let adopted = plain.with_adopted(vec![adoption]).unwrap();
        assert_eq!(config_hash(&adopted), config_hash(&plain));
        assert_ne!(adopted, plain);
    }

    #[test]
    fn canonical_text_sorts_keys_and_has_no_white_space() {
        let value: Value =
            serde_json::from_str(r#"{ "b": [1, "x y", {"z": true, "a": null}], "a\n": "\u0041" }"#)
                .unwrap();
        assert_eq!(canonical_text(&value), r#"{"a\n":"A","b":[1,"x y",{"a":null,"z":true}]}"#);
    }
}
