//! The two kinds of environments.

/// What distinguishes one environment from the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// Name in messages and in the file.
    pub(crate) name: &'static str,
    /// Setting that raises the map size.
    pub(crate) map_setting: &'static str,
    /// Format number written and read.
    pub(crate) format: u32,
    /// Format number that can be migrated to `format` in place.
    pub(crate) migrates: Option<u32>,
    /// First format number whose environments have a checksum of kind and format.
    pub(crate) checked_from: u32,
    /// What to do if the format number differs.
    pub(crate) remedy: &'static str,
    /// What to do if the environment is damaged. It may be impossible to open it.
    pub(crate) damage_remedy: &'static str,
    /// What to do if rows of a block after the first one are damaged.
    pub(crate) block_remedy: &'static str,
    /// Number of the `meta` table in checksums.
    pub(crate) meta_id: u8,
    /// Keys of eight bytes are block numbers.
    pub(crate) has_blocks: bool,
}

#[cfg(test)]
impl Kind {
    /// An environment of a test.
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
