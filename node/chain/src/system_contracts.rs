//! Lists the system contracts that blocks call, and finds those that a chain lacks.

use super::{ChainSpec, Fork};
use alloy_eips::{
    eip2935::HISTORY_STORAGE_ADDRESS, eip4788::BEACON_ROOTS_ADDRESS,
    eip7002::WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
    eip7251::CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
};
use alloy_primitives::Address;
use std::fmt;

/// A contract that every block of a fork and of later forks calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemContract {
    /// Its address, which is the same on all chains.
    pub address: Address,
    /// The EIP that defines its code.
    pub eip: u16,
    /// Its purpose, as a phrase for messages.
    pub purpose: &'static str,
    /// The first fork whose blocks call it.
    pub fork: Fork,
    /// Whether blocks are invalid while it has no code. Otherwise the call is skipped (EIP-4788, EIP-2935).
    pub is_required: bool,
}

/// All system contracts, in the order of their EIPs.
pub const SYSTEM_CONTRACTS: [SystemContract; 4] = [
    SystemContract {
        address: HISTORY_STORAGE_ADDRESS,
        eip: 2935,
        purpose: "block hashes",
        fork: Fork::Prague,
        is_required: false,
    },
    SystemContract {
        address: BEACON_ROOTS_ADDRESS,
        eip: 4788,
        purpose: "beacon block roots",
        fork: Fork::Cancun,
        is_required: false,
    },
    SystemContract {
        address: WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS,
        eip: 7002,
        purpose: "withdrawal requests",
        fork: Fork::Prague,
        is_required: true,
    },
    SystemContract {
        address: CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS,
        eip: 7251,
        purpose: "consolidation requests",
        fork: Fork::Prague,
        is_required: true,
    },
];

/// A system contract that has no code, although blocks call it from a given time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingContract {
    /// The contract.
    pub contract: SystemContract,
    /// Timestamp of the first block that may call it, in seconds.
    pub from: u64,
}

impl fmt::Display for MissingContract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SystemContract { address, eip, purpose, fork, is_required } = self.contract;
        let effect = if is_required {
            "blocks are invalid without it, so the chain cannot continue"
        } else {
            "blocks are valid without it, but contracts that call it receive no data"
        };
        write!(
            f,
            "the system contract {address} of EIP-{eip} ({purpose}) has no code; from {fork:?} (timestamp {}) on {effect}; \
             add an account with the code that the EIP states to alloc in genesis.json and create the chain again, \
             or deploy the contract before that time",
            self.from
        )
    }
}

impl ChainSpec {
    /// Returns the system contracts without code that blocks of this chain call, now or after a later fork.
    /// `has_code` returns whether an address has code.
    ///
    /// # Errors
    /// Returns the errors of `has_code`.
    pub fn missing_system_contracts<E>(
        &self,
        mut has_code: impl FnMut(Address) -> Result<bool, E>,
    ) -> Result<Vec<MissingContract>, E> {
        let mut missing = Vec::new();
        for contract in SYSTEM_CONTRACTS {
            let Some(from) = self.fork_time(contract.fork) else { continue };
            if !has_code(contract.address)? {
                missing.push(MissingContract { contract, from });
            }
        }
        Ok(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Genesis;
    use std::convert::Infallible;

    fn missing(genesis: &Genesis) -> Vec<(u16, u64, bool)> {
        let found = genesis.missing_system_contracts();
        found
            .iter()
            .map(|found| (found.contract.eip, found.from, found.contract.is_required))
            .collect()
    }

    fn chain(forks: &str, alloc: &str) -> Genesis {
        let text = format!(
            r#"{{"config": {{"chainId": 1, "homesteadBlock": 0, "eip150Block": 0, "eip155Block": 0, "eip158Block": 0,
                "byzantiumBlock": 0, "constantinopleBlock": 0, "petersburgBlock": 0, "istanbulBlock": 0,
                "berlinBlock": 0, "londonBlock": 0, "terminalTotalDifficulty": 0 {forks}}},
                "gasLimit": "0x1c9c380", "difficulty": "0x0", "alloc": {{{alloc}}}}}"#
        );
        Genesis::from_json(&text).unwrap()
    }

    #[test]
    fn only_contracts_of_forks_that_are_set_are_missing() {
        assert_eq!(missing(&chain("", "")), []);
        assert_eq!(missing(&chain(r#", "shanghaiTime": 0"#, "")), []);
        let cancun = r#", "shanghaiTime": 0, "cancunTime": 5"#;
        assert_eq!(missing(&chain(cancun, "")), [(4788, 5, false)]);
        let prague = r#", "shanghaiTime": 0, "cancunTime": 0, "pragueTime": 7"#;
        let all = [(2935, 7, false), (4788, 0, false), (7002, 7, true), (7251, 7, true)];
        assert_eq!(missing(&chain(prague, "")), all);
        let with_code = SYSTEM_CONTRACTS.map(|contract| {
            format!(r#""{}": {{"balance": "0x0", "code": "0x00"}}"#, contract.address)
        });
        assert_eq!(missing(&chain(prague, &with_code.join(","))), []);
        let without_code =
            with_code.map(|account| account.replace(r#""code": "0x00""#, r#""code": "0x""#));
        assert_eq!(missing(&chain(prague, &without_code.join(","))), all);
    }

    #[test]
    fn native_dev_genesis_has_all_system_contracts() {
        assert_eq!(missing(&Genesis::native_dev(0)), []);
        let none = |_| Ok::<_, Infallible>(false);
        let spec = Genesis::native_dev(0).spec;
        assert_eq!(spec.missing_system_contracts(none).unwrap().len(), SYSTEM_CONTRACTS.len());
    }

    #[test]
    fn message_names_address_eip_and_remedy() {
        let text = MissingContract { contract: SYSTEM_CONTRACTS[2], from: 9 }.to_string();
        for part in
            ["0x00000961Ef480Eb55e80D19ad83579A64c007002", "EIP-7002", "timestamp 9", "alloc"]
        {
            assert!(text.contains(part), "{text}");
        }
    }
}
