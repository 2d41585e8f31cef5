//! Defines the errors of genesis files, headers and bodies.

use alloy_primitives::{Address, B256, U256};

/// Why a genesis file cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GenesisError {
    /// The text is not JSON, or not an object of the expected structure.
    #[error("genesis is not a valid JSON object: {0}")]
    Json(String),
    /// One field is missing, malformed or invalid.
    #[error("genesis field `{field}`: {reason}")]
    Field {
        /// Path of the field, for example `config.berlinBlock`.
        field: String,
        /// What is wrong with the field.
        reason: String,
    },
}

impl GenesisError {
    /// Returns the error for a field of the file.
    pub fn field(field: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Field { field: field.into(), reason: reason.into() }
    }
}

/// A header or a body violates a consensus rule.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("block {number}: {violation}")]
pub struct HeaderError {
    /// Number of the refused block, as its header states it.
    pub number: u64,
    /// The violation.
    pub violation: Violation,
}

/// A violated rule. Most variants have the value that the rule requires and the value that was found.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A number differs from the required value.
    #[error("{field} is {found}, expected {expected}")]
    Number {
        /// The header field, usually by its JSON name.
        field: &'static str,
        /// The value that the rules require.
        expected: U256,
        /// The value that was found: the value of the field, or its length in bytes.
        found: U256,
    },
    /// A hash or root differs from the required value.
    #[error("{field} is {found}, expected {expected}")]
    Hash {
        /// Header field, by its JSON name.
        field: &'static str,
        /// The value from the rules, the parent, the body or the execution.
        expected: B256,
        /// The value in the header.
        found: B256,
    },
    /// A number is outside its bounds.
    #[error("{field} is {found}, allowed {min} to {max}")]
    Range {
        /// The header field, or `size` for the RLP size of the block.
        field: &'static str,
        /// Minimum.
        min: u64,
        /// Maximum.
        max: u64,
        /// The value that was found: the value of the field, or its size in bytes. If the parent's gas limit is very
        /// low, this is that limit.
        found: u64,
    },
    /// A field of a later fork is present, or one of this fork is missing.
    #[error("{field} is {}, expected {}", presence(*.found), presence(*.expected))]
    Presence {
        /// The header or body field, usually by its JSON name.
        field: &'static str,
        /// Whether the fork requires the field.
        expected: bool,
        /// Whether the block has it.
        found: bool,
    },
    /// Validators produce the blocks of the chain, and the miner of this block is not the account of one of them.
    #[error("miner is {0}, which is not the account of a validator in the genesis")]
    Miner(Address),
    /// The logs bloom differs from the bloom of the receipts.
    #[error("logsBloom differs from the bloom of the receipts")]
    Bloom,
    /// The ommers break a rule.
    #[error("ommer {index}: {reason}")]
    Ommer {
        /// Position in the list.
        index: usize,
        /// How the ommer violates a rule.
        reason: &'static str,
    },
}

const fn presence(present: bool) -> &'static str {
    if present { "present" } else { "absent" }
}

impl Violation {
    /// Returns an error unless `expected == found`.
    pub fn number(field: &'static str, expected: u64, found: u64) -> Result<(), Self> {
        Self::wide_number(field, U256::from(expected), U256::from(found))
    }

    /// Returns an error unless `expected == found`.
    pub fn wide_number(field: &'static str, expected: U256, found: U256) -> Result<(), Self> {
        if expected == found { Ok(()) } else { Err(Self::Number { field, expected, found }) }
    }

    /// Returns an error unless `expected == found`.
    pub fn hash(field: &'static str, expected: B256, found: B256) -> Result<(), Self> {
        if expected == found { Ok(()) } else { Err(Self::Hash { field, expected, found }) }
    }

    /// Returns an error unless `min <= found <= max`.
    pub const fn range(field: &'static str, min: u64, max: u64, found: u64) -> Result<(), Self> {
        if min <= found && found <= max {
            Ok(())
        } else {
            Err(Self::Range { field, min, max, found })
        }
    }

    /// Returns an error unless `expected == found`.
    pub const fn present(field: &'static str, expected: bool, found: bool) -> Result<(), Self> {
        if expected == found { Ok(()) } else { Err(Self::Presence { field, expected, found }) }
    }

    /// Returns the JSON name of the invalid field.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Number { field, .. }
            | Self::Hash { field, .. }
            | Self::Range { field, .. }
            | Self::Presence { field, .. } => field,
            Self::Miner(_) => "miner",
            Self::Bloom => "logsBloom",
            Self::Ommer { .. } => "uncles",
        }
    }
}
