//! Searches for blocks by their height and by the events of the block itself.

use super::{QueryError, Snapshot, watch::WatchedEvent};
use event_query::{Condition, parse_all};
use server::interrupt::Deadline;

/// The attribute with the number of a block.
const HEIGHT: &str = "block.height";
/// Maximum number of blocks that a search counts. Later ones are on no page.
const MAX_COUNTED_BLOCKS: usize = 10_000;

/// The requested page of a search for blocks.
#[derive(Clone, Copy, Debug)]
pub struct BlockPage {
    /// Starts at 1.
    pub number: u64,
    /// Maximum number of blocks in a page.
    pub size: u64,
    /// Whether the newest block comes first.
    pub newest_first: bool,
}

/// A page of the found blocks.
#[derive(Debug)]
pub struct FoundBlocks {
    /// The numbers of the blocks in the page.
    pub numbers: Vec<u64>,
    /// The number of blocks that were found, at most 10,000.
    pub total: u64,
}

impl Snapshot {
    /// Returns a page of the blocks whose height and own events satisfy all conditions of a query.
    ///
    /// # Errors
    /// If the query is invalid, the page does not exist, or the deadline passes.
    pub fn blocks_by_events(
        &self,
        query: &str,
        page: BlockPage,
        deadline: &Deadline,
    ) -> Result<FoundBlocks, QueryError> {
        let conditions = parse_all(std::iter::once(query))?;
        if conditions.is_empty() {
            return Err(QueryError::invalid("query cannot be empty"));
        }
        let skip = skipped(page)?;
        let heights = self.heights_of(&conditions, HEIGHT)?;
        // Block 0 is the genesis, which CometBFT does not have.
        let (first, last) = (*heights.start().max(&1), *heights.end());
        let numbers: Box<dyn Iterator<Item = u64>> = match page.newest_first {
            true => Box::new((first..=last).rev()),
            false => Box::new(first..=last),
        };
        let others: Vec<_> = conditions.iter().filter(|c| c.key != HEIGHT).collect();
        let mut found = Vec::new();
        for number in numbers {
            if found.len() >= MAX_COUNTED_BLOCKS {
                break;
            }
            if deadline.passed() {
                let message = "the search takes too long: narrow block.height";
                return Err(QueryError::too_slow(message.to_owned()));
            }
            if others.is_empty() || self.has_events(number, &others)? {
                found.push(number);
            }
        }
        let total = found.len() as u64;
        if skip > 0 && skip >= found.len() {
            let (pages, given) = (total.div_ceil(page.size).max(1), page.number);
            let message = format!("page should be within [1, {pages}] range, given {given}");
            return Err(QueryError::invalid(message));
        }
        let size = usize::try_from(page.size).unwrap_or(usize::MAX);
        Ok(FoundBlocks { numbers: found.into_iter().skip(skip).take(size).collect(), total })
    }

    fn has_events(&self, number: u64, conditions: &[&Condition]) -> Result<bool, QueryError> {
        let events = self.block_events(number)?;
        let event = WatchedEvent::block(&events);
        Ok(conditions.iter().all(|condition| self.is_met(condition, &event)))
    }
}

/// Returns the number of blocks before a page.
fn skipped(page: BlockPage) -> Result<usize, QueryError> {
    let skip = page.number.saturating_sub(1).saturating_mul(page.size);
    let within = usize::try_from(skip).ok().filter(|skip| *skip < MAX_COUNTED_BLOCKS);
    within.ok_or_else(|| {
        QueryError::invalid(format!(
            "the page starts after {skip} blocks, the maximum is {MAX_COUNTED_BLOCKS}: narrow block.height"
        ))
    })
}
