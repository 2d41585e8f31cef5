//! Returns blocks together with their decoded transactions.

use super::{
    QueryError, Snapshot,
    page::cut_counted,
    proto::cosmos::{base::query::v1beta1::PageRequest, tx::v1beta1::GetBlockWithTxsResponse},
};
use state::stored::StoredBlock;

impl Snapshot {
    /// Returns the block with this number, and a page of its transactions.
    ///
    /// # Errors
    /// If there is no block with that number, or the page is invalid.
    pub fn block_with_txs(
        &self,
        height: i64,
        page: Option<PageRequest>,
    ) -> Result<GetBlockWithTxsResponse, QueryError> {
        let number = self.existing_block(height)?;
        let (id, block) = self.comet_block(number)?;
        let stored = StoredBlock::read(&self.spec, &self.view.blocks()?, number)?;
        let all: Vec<_> = (0..stored.block.transactions.len()).collect();
        let (chosen, pagination) = cut_counted(&all, page)?;
        let mined = chosen.into_iter().filter_map(|index| stored.tx(*index).transpose());
        let txs = mined.map(|mined| Ok(self.sdk_tx(&mined?)));
        Ok(GetBlockWithTxsResponse {
            txs: txs.collect::<Result<_, QueryError>>()?,
            block_id: Some(id),
            block: Some(block),
            pagination: Some(pagination),
        })
    }
}
