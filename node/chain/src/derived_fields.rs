//! Checks the header fields that the producer of a native chain does not choose, from rules version 2 on. They are
//! constant or derived from the parent. A producer therefore chooses only transactions and time, and not the value
//! that contracts read as random.
//!
//! A development chain is not checked, because its clients set some of these fields.

use super::{ChainSpec, GenesisError, Native, RulesVersion, Violation};
use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header, constants::EMPTY_WITHDRAWALS};
use alloy_primitives::{B256, keccak256};

/// Maximum timestamp, in seconds: the end of the year 9999, which is the limit of `google.protobuf.Timestamp`.
const MAX_TIMESTAMP: u64 = 253_402_300_799;

/// Returns the value of PREVRANDAO in the block after `parent`. It is not random, but differs in each block.
pub fn next_prev_randao(parent: &Header) -> B256 {
    keccak256(parent.mix_hash)
}

/// Checks these fields of the block after `parent`.
pub(super) fn check(spec: &ChainSpec, parent: &Header, header: &Header) -> Result<(), Violation> {
    if spec.rules_version(header.number) < RulesVersion::V2 || spec.is_development() {
        return Ok(());
    }
    Violation::range("timestamp", 0, MAX_TIMESTAMP, header.timestamp)?;
    Violation::number("gasLimit", parent.gas_limit, header.gas_limit)?;
    check_miner(spec, parent, header)?;
    Violation::hash("mixHash", next_prev_randao(parent), header.mix_hash)?;
    Violation::number("nonce", 0, u64::from(header.nonce))?;
    Violation::hash("sha3Uncles", EMPTY_OMMER_ROOT_HASH, header.ommers_hash)?;
    // No beacon chain exists, so a withdrawal would create ether.
    let root = header.parent_beacon_block_root.unwrap_or_default();
    Violation::hash("parentBeaconBlockRoot", B256::ZERO, root)?;
    let root = header.withdrawals_root.unwrap_or(EMPTY_WITHDRAWALS);
    Violation::hash("withdrawalsRoot", EMPTY_WITHDRAWALS, root)
}

/// Checks the miner. If validators make the blocks, it is the account of one of them, and the validators themselves
/// check that it is the proposer. Otherwise it is the miner of the parent.
fn check_miner(spec: &ChainSpec, parent: &Header, header: &Header) -> Result<(), Violation> {
    let found = header.beneficiary;
    let mut validators = spec.native().into_iter().flat_map(|it| it.gov.consensus_validators());
    let Some((first, _)) = validators.next() else {
        return Violation::hash("miner", parent.beneficiary.into_word(), found.into_word());
    };
    if first.address == found || validators.any(|(validator, _)| validator.address == found) {
        return Ok(());
    }
    Err(Violation::Miner(found))
}

/// Checks that a block after block 0 can be valid if block 0 has this timestamp.
pub(super) fn check_genesis(native: &Native, timestamp: u64) -> Result<(), GenesisError> {
    let is_checked = native.rules.version(0) >= RulesVersion::V2 && !native.development;
    if is_checked && timestamp > MAX_TIMESTAMP {
        let reason = format!(
            "must be at most {MAX_TIMESTAMP} (seconds, the end of the year 9999), got {timestamp}"
        );
        return Err(GenesisError::field("timestamp", reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Genesis, Parent, next_header, validate_header};
    use alloy_primitives::{Address, U256};

    /// A change of a field, with the name of the field.
    type Change = (&'static str, fn(&mut Header));

    const CHANGES: [Change; 9] = [
        ("timestamp", |header| header.timestamp = MAX_TIMESTAMP + 1),
        ("gasLimit", |header| header.gas_limit += 1),
        ("gasLimit", |header| header.gas_limit -= 1),
        ("miner", |header| header.beneficiary = Address::repeat_byte(1)),
        ("mixHash", |header| header.mix_hash = B256::repeat_byte(1)),
        ("nonce", |header| header.nonce = 1_u64.into()),
        ("sha3Uncles", |header| header.ommers_hash = B256::repeat_byte(1)),
        ("withdrawalsRoot", |header| header.withdrawals_root = Some(B256::repeat_byte(1))),
        ("parentBeaconBlockRoot", |header| {
            header.parent_beacon_block_root = Some(B256::repeat_byte(1));
        }),
    ];

    /// Returns the fields whose changes are refused.
    fn refused_fields(spec: &ChainSpec, genesis: &Header) -> Vec<&'static str> {
        let parent =
            Parent { header: genesis, hash: genesis.hash_slow(), total_difficulty: U256::ZERO };
        let attributes = crate::Attributes {
            timestamp: MAX_TIMESTAMP,
            beneficiary: genesis.beneficiary,
            gas_limit: genesis.gas_limit,
            prev_randao: next_prev_randao(genesis),
            ..crate::Attributes::default()
        };
        let header = next_header(spec, &parent, &attributes);
        validate_header(spec, &parent, &header).unwrap();
        let changed = CHANGES.iter().filter_map(|(_, change)| {
            let mut header = header.clone();
            change(&mut header);
            validate_header(spec, &parent, &header).err()
        });
        changed.map(|error| error.violation.field()).collect()
    }

    /// If validators make the blocks, each of their accounts may be the miner, and no other account may.
    #[test]
    fn miner_is_the_account_of_a_validator() {
        let key = |byte| certificates::SecretKey::from_bytes(&[byte; 32]).public();
        let validator = |byte| crate::Validator {
            address: Address::repeat_byte(byte),
            power: 1,
            consensus_key: Some(key(byte)),
        };
        let genesis = Genesis::test_network(0, &[1, 2, 3].map(validator)).unwrap();
        let of_genesis = genesis.header();
        let parent = Parent {
            header: &of_genesis,
            hash: of_genesis.hash_slow(),
            total_difficulty: U256::ZERO,
        };
        let error = |byte| {
            let attributes = crate::Attributes {
                timestamp: 1,
                beneficiary: Address::repeat_byte(byte),
                gas_limit: of_genesis.gas_limit,
                prev_randao: next_prev_randao(&of_genesis),
                ..crate::Attributes::default()
            };
            let header = next_header(&genesis.spec, &parent, &attributes);
            validate_header(&genesis.spec, &parent, &header).err().map(|error| error.to_string())
        };
        for byte in [1, 2, 3] {
            assert_eq!(error(byte), None);
        }
        for byte in [0, 4] {
            let error = error(byte).unwrap();
            assert!(error.starts_with("block 1: miner is 0x"), "{error}");
            assert!(error.ends_with(", which is not the account of a validator in the genesis"));
        }
    }

    #[test]
    fn each_field_is_checked_from_version_2_on_except_on_a_development_chain() {
        let genesis = Genesis::native_dev(1_700_000_000);
        let all: Vec<_> = CHANGES.iter().map(|(field, _)| *field).collect();
        assert_eq!(refused_fields(&genesis.spec, &genesis.header()), all);
        let development = Genesis::development(1_700_000_000);
        // These fields are checked on every merged chain.
        let merged = ["nonce", "sha3Uncles"];
        assert_eq!(refused_fields(&development.spec, &development.header()), merged);
        let mut file: serde_json::Value = serde_json::from_str(&genesis.to_json()).unwrap();
        file["timestamp"] = serde_json::json!(format!("{:#x}", MAX_TIMESTAMP + 1));
        let error = Genesis::from_json(&file.to_string()).unwrap_err().to_string();
        assert!(error.contains("timestamp") && error.contains("253402300800"), "{error}");
        file["timestamp"] = serde_json::json!(format!("{MAX_TIMESTAMP:#x}"));
        assert!(Genesis::from_json(&file.to_string()).is_ok());
        file["config"]["evmd"]["rules"] = serde_json::json!([{ "version": 1, "height": 0 }]);
        let earlier = Genesis::from_json(&file.to_string()).unwrap();
        assert_eq!(refused_fields(&earlier.spec, &earlier.header()), merged);
    }
}
