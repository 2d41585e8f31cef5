//! Computes the block rewards of proof of work (Yellow Paper, 11.3; EIP-649, EIP-1234).

use alloy_consensus::Header;
use alloy_consensus::constants::ETH_TO_WEI as ETHER;
use alloy_evm::block::calc::{block_reward, ommer_reward};

use chain::Fork;

/// Newly issued ether, in wei.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewards {
    /// For the beneficiary of the block.
    pub beneficiary: u128,
    /// For the beneficiary of each ommer, in order.
    pub ommers: Vec<u128>,
}

/// Returns the rewards of block `number` with these ommers. There are none after the merge or on native chains.
pub fn rewards(fork: Fork, number: u64, ommers: &[Header]) -> Rewards {
    let base = match fork {
        fork if fork >= Fork::Paris => return Rewards::default(),
        fork if fork >= Fork::Constantinople => 2 * ETHER,
        fork if fork >= Fork::Byzantium => 3 * ETHER,
        _ => 5 * ETHER,
    };
    Rewards {
        beneficiary: block_reward(base, ommers.len()),
        ommers: ommers.iter().map(|ommer| ommer_reward(base, number, ommer.number)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ommer_pays_a_nephew_reward() {
        let number = 100;
        let ommers = [97, 99].map(|number| Header { number, ..Header::default() });
        for (fork, base) in [
            (Fork::Frontier, 5 * ETHER),
            (Fork::Byzantium, 3 * ETHER),
            (Fork::Constantinople, 2 * ETHER),
        ] {
            // The reward for an ommer is an eighth less for each block of its age.
            let paid = [base * 5 / 8, base * 7 / 8];
            for count in 0..=ommers.len() {
                let found = rewards(fork, number, &ommers[..count]);
                assert_eq!(found.beneficiary, base + base / 32 * count as u128, "{fork:?}");
                assert_eq!(found.ommers, paid[..count], "{fork:?}");
            }
        }
        assert_eq!(rewards(Fork::Paris, number, &ommers), Rewards::default());
    }
}
