//! Flags of a block.

/// Properties of a block that were set by development methods, so that it does not follow from its transactions alone.
/// A block without flags is valid by the rules of the chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFlags(u64);

impl BlockFlags {
    /// A block that follows the rules of the chain.
    pub const NONE: Self = Self(0);
    /// Accounts were set. Executing the block again does not reproduce its state.
    pub const STATE_SET: Self = Self(1);
    /// The base fee or the fee recipient was set.
    pub const HEADER_SET: Self = Self(2);
    /// Some transactions were not signed by their sender.
    pub const IMPERSONATED: Self = Self(4);

    const ALL: u64 = 7;

    /// Returns the flags with these bits; `None` if a bit has no meaning in this version.
    pub(crate) const fn from_bits(bits: u64) -> Option<Self> {
        if bits & !Self::ALL == 0 { Some(Self(bits)) } else { None }
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Returns whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns why the block is not valid by the rules of the chain; `None` if no flag is set.
    pub const fn reason(self) -> Option<&'static str> {
        if self.contains(Self::STATE_SET) {
            Some("a development method set its state")
        } else if self.contains(Self::HEADER_SET) {
            Some("a development method set its base fee or fee recipient")
        } else if self.contains(Self::IMPERSONATED) {
            Some("it has a transaction of an impersonated account")
        } else {
            None
        }
    }

    /// Adds the flags of `other` if `condition` holds.
    #[must_use]
    pub const fn with(self, other: Self, condition: bool) -> Self {
        if condition { Self(self.0 | other.0) } else { self }
    }
}
