//! Validates the ommers of a mined block: number, depth, uniqueness and headers.

use alloy_consensus::Header;
use alloy_primitives::{B256, U256};

use super::{ChainSpec, HeaderError, Parent, Violation, header::check};

/// Maximum number of ommers in a block.
const MAX_OMMERS: usize = 2;
/// Maximum number of generations between a block and the parent of its ommer.
pub const MAX_OMMER_DEPTH: usize = 7;

/// An ancestor of the block under validation.
#[derive(Clone, Debug)]
pub struct Ancestor {
    /// Its hash.
    pub hash: B256,
    /// Its header.
    pub header: Header,
    /// Hashes of the ommers that it includes.
    pub ommers: Vec<B256>,
}

/// Checks the ommers of the block with this header. `ancestors` are its parent, grandparent and so on, up to
/// [`MAX_OMMER_DEPTH`] of them or back to genesis.
///
/// # Errors
/// Returns the first violated rule, with the block number and the ommer's position.
pub fn validate_ommers(
    spec: &ChainSpec,
    ancestors: &[Ancestor],
    header: &Header,
    ommers: &[Header],
) -> Result<(), HeaderError> {
    let fail = |index, reason| HeaderError {
        number: header.number,
        violation: Violation::Ommer { index, reason },
    };
    if ommers.len() > MAX_OMMERS {
        return Err(fail(MAX_OMMERS, "a block has two ommers at most"));
    }
    let ancestors = &ancestors[..ancestors.len().min(MAX_OMMER_DEPTH)];
    let mut seen: Vec<B256> = ancestors.iter().flat_map(|block| block.ommers.clone()).collect();
    for (index, ommer) in ommers.iter().enumerate() {
        let hash = ommer.hash_slow();
        if seen.contains(&hash) {
            return Err(fail(index, "is included already"));
        }
        seen.push(hash);
        if ancestors.iter().any(|block| block.hash == hash) {
            return Err(fail(index, "is an ancestor of the block"));
        }
        if ommer.parent_hash == header.parent_hash {
            return Err(fail(index, "is a sibling of the block"));
        }
        let parent = ancestors
            .iter()
            .find(|block| block.hash == ommer.parent_hash)
            .ok_or_else(|| fail(index, "has no parent among the last seven ancestors"))?;
        // Only blocks before the merge have ommers, and their total difficulty is irrelevant here.
        let parent =
            Parent { header: &parent.header, hash: parent.hash, total_difficulty: U256::ZERO };
        check(spec, &parent, ommer).map_err(|_| fail(index, "has an invalid header"))?;
    }
    Ok(())
}
