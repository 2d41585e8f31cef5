//! Properties of the two kinds of environments.

/// The properties of a kind of environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Name in messages and in the file.
    pub(crate) name: &'static str,
    /// Setting that raises the map size.
    pub(crate) map_setting: &'static str,
    /// Format number that this program reads and writes.
    pub(crate) format: u32,
    /// Format number that can be migrated to `format` in place.
    pub(crate) migrates: Option<u32>,
    /// First format number whose environments have a checksum of kind and format.
    pub(crate) checked_from: u32,
    /// Remedy if the format number is a different one.
    pub(crate) remedy: &'static str,
    /// Remedy for a damaged environment, which may be impossible to open.
    pub(crate) damage_remedy: &'static str,
    /// Remedy for damaged rows of a block after the first one.
    pub(crate) block_remedy: &'static str,
    /// Number of the `meta` table in checksums.
    pub(crate) meta_id: u8,
    /// Whether keys of eight bytes are block numbers.
    pub(crate) has_blocks: bool,
}

#[cfg(test)]
impl Kind {
    /// An environment for tests.
    pub(crate) const OF_TESTS: Self = Self {
        name: "tests",
        map_setting: "none",
        format: 1,
        migrates: None,
        checked_from: 1,
        remedy: "none",
        damage_remedy: "none",
        block_remedy: "none",
        meta_id: 255,
        has_blocks: false,
    };
}
