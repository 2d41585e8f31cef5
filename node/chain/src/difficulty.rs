//! Computes the proof-of-work difficulty of a block under every fork, as Ethereum's `ethash` engine does.
//!
//! Only the difficulty in the header is checked. Seals (mix hash and nonce) are not checked, because the node imports
//! existing chains and does not mine.

use alloy_consensus::{EMPTY_OMMER_ROOT_HASH, Header};
use alloy_primitives::{I256, U256};

use super::{ChainSpec, Fork};

/// Minimum difficulty of a mined block.
const MIN_DIFFICULTY: U256 = U256::from_limbs([131_072, 0, 0, 0]);
/// The difficulty of a block changes in multiples of parent / 2048.
const BOUND_DIVISOR: U256 = U256::from_limbs([2048, 0, 0, 0]);
/// Number of blocks between two doublings of the difficulty bomb.
const BOMB_PERIOD_BLOCKS: u64 = 100_000;
/// Frontier raises the difficulty if the time since the parent, in seconds, is below this limit.
const FRONTIER_DURATION_LIMIT: u64 = 13;
/// Largest downward step since Homestead, in units of parent / 2048.
const MAX_STEPS_DOWN: i64 = -99;

/// Returns the required difficulty of a block at `timestamp` on `parent`.
pub(super) fn expected_difficulty(spec: &ChainSpec, parent: &Header, timestamp: u64) -> U256 {
    let number = parent.number + 1;
    match spec.bomb_delay(number) {
        Some(delay) => byzantium(parent, timestamp, delay),
        None if spec.fork_by_height(number) >= Fork::Homestead => homestead(parent, timestamp),
        None => frontier(parent, timestamp),
    }
}

/// Computes the difficulty by EIP-100, with the bomb delayed by `delay` blocks (EIP-649, 1234, 2384, 3554, 4345, 5133).
fn byzantium(parent: &Header, timestamp: u64, delay: u64) -> U256 {
    let base = if parent.ommers_hash == EMPTY_OMMER_ROOT_HASH { 1 } else { 2 };
    let steps = steps(base, timestamp.saturating_sub(parent.timestamp) / 9);
    // The delay counts from the parent's number.
    let fake_number = parent.number.saturating_sub(delay - 1);
    adjusted(parent, steps).saturating_add(bomb(fake_number))
}

/// Computes the difficulty by EIP-2.
fn homestead(parent: &Header, timestamp: u64) -> U256 {
    let steps = steps(1, timestamp.saturating_sub(parent.timestamp) / 10);
    adjusted(parent, steps).saturating_add(bomb(parent.number + 1))
}

fn frontier(parent: &Header, timestamp: u64) -> U256 {
    let is_fast = timestamp.saturating_sub(parent.timestamp) < FRONTIER_DURATION_LIMIT;
    let base = adjusted(parent, if is_fast { 1 } else { -1 });
    base.saturating_add(bomb(parent.number + 1)).max(MIN_DIFFICULTY)
}

fn steps(base: i64, delay: u64) -> i64 {
    base.saturating_sub(i64::try_from(delay).unwrap_or(i64::MAX)).max(MAX_STEPS_DOWN)
}

fn adjusted(parent: &Header, steps: i64) -> U256 {
    let step = parent.difficulty / BOUND_DIVISOR;
    let delta = step.saturating_mul(I256::unchecked_from(steps).unsigned_abs());
    let moved = if steps < 0 {
        parent.difficulty.saturating_sub(delta)
    } else {
        parent.difficulty.saturating_add(delta)
    };
    moved.max(MIN_DIFFICULTY)
}

fn bomb(number: u64) -> U256 {
    match number / BOMB_PERIOD_BLOCKS {
        0 | 1 => U256::ZERO,
        // A shift by 256 or more results in zero. No chain reaches period 258.
        period => U256::from(1) << (period - 2).min(256),
    }
}
