//! Searches for mined transactions by their events. A query must name a hash, an address or heights, which
//! are used to find candidates. The conditions of the query are then checked against the events of each candidate.

use super::{
    MinedTxResponse, QueryError, Snapshot,
    events::Outcomes,
    proto::cosmos::{
        base::query::v1beta1::PageResponse,
        tx::v1beta1::{GetTxsEventRequest, GetTxsEventResponse, OrderBy},
    },
    watch::WatchedEvent,
};
use alloy_primitives::{Address, B256};
use chain::FEE_COLLECTOR;
use event_query::{Condition, Operator, parse_all};
use server::interrupt::Interrupt;
use state::{
    parties::{Direction, Found, Search, Step},
    stored::{StoredBlock, locate},
};
use std::{ops::RangeInclusive, time::Duration};

/// Maximum (as in CometBFT) and default number of transactions per page.
const MAX_PAGE_TXS: u64 = 100;
/// Maximum number of transactions that a search counts. Later ones are on no page.
const MAX_COUNTED_TXS: usize = 10_000;
/// Maximum time for a search.
const SEARCH_TIME: Duration = Duration::from_secs(5);

/// How candidates are found.
enum Source {
    Hash(B256),
    Address(Address),
    Heights,
}

/// The conditions, and the source of the candidates.
struct Wanted {
    conditions: Vec<Condition>,
    source: Source,
    heights: RangeInclusive<u64>,
    direction: Direction,
}

/// A page while it is being filled.
struct Page {
    skip: usize,
    size: usize,
    found: usize,
    txs: Vec<MinedTxResponse>,
}

/// A page of the result, and the number of matches that were counted.
#[derive(Debug)]
pub struct FoundTxs {
    pub txs: Vec<MinedTxResponse>,
    pub total: u64,
}

impl From<FoundTxs> for GetTxsEventResponse {
    fn from(found: FoundTxs) -> Self {
        let total = found.total;
        let (txs, tx_responses) =
            found.txs.into_iter().map(|shown| (shown.tx, shown.response)).unzip();
        let pagination = Some(PageResponse { next_key: Vec::new(), total });
        Self { txs, tx_responses, pagination, total }
    }
}

impl Page {
    /// Parses and checks the page of a request.
    fn of(request: &GetTxsEventRequest) -> Result<Self, QueryError> {
        let older = request.pagination.clone().unwrap_or_default();
        if !older.key.is_empty() {
            return Err(QueryError::invalid(
                "pagination: this list does not support keys: use page",
            ));
        }
        let limit = if request.limit == 0 { older.limit } else { request.limit };
        let size = if limit == 0 { MAX_PAGE_TXS } else { limit.min(MAX_PAGE_TXS) };
        let skip = match request.page {
            0 => older.offset,
            page => (page - 1).saturating_mul(size),
        };
        let within = usize::try_from(skip).ok().filter(|skip| *skip < MAX_COUNTED_TXS);
        let skip = within.ok_or_else(|| {
            QueryError::invalid(format!(
                "the page starts after {skip} transactions, the maximum is {MAX_COUNTED_TXS}: narrow \
                 tx.height"
            ))
        })?;
        Ok(Self { skip, size: size as usize, found: 0, txs: Vec::new() })
    }
}

impl Snapshot {
    /// Returns a page of the mined transactions with certain events.
    ///
    /// # Errors
    /// If the query is invalid, names nothing by which to find candidates, or takes too long, or if the page does
    /// not exist.
    pub fn txs_by_events(
        &self,
        request: GetTxsEventRequest,
        interrupt: &Interrupt,
    ) -> Result<FoundTxs, QueryError> {
        let mut page = Page::of(&request)?;
        let wanted = self.wanted(request)?;
        let deadline = interrupt.within(SEARCH_TIME);
        let is_complete = self.search(&wanted, &mut page, || !deadline.passed())?;
        if !is_complete && page.txs.len() < page.size {
            let seconds = SEARCH_TIME.as_secs();
            let message = format!("the search takes longer than {seconds} s: narrow tx.height");
            return Err(QueryError::too_slow(message));
        }
        let total = page.found as u64;
        let (size, pages) = (page.size as u64, total.div_ceil(page.size as u64).max(1));
        if page.skip > 0 && page.skip >= page.found {
            let given = page.skip as u64 / size + 1;
            let message = format!("page should be within [1, {pages}] range, given {given}");
            return Err(QueryError::invalid(message));
        }
        Ok(FoundTxs { txs: page.txs, total })
    }

    fn wanted(&self, request: GetTxsEventRequest) -> Result<Wanted, QueryError> {
        let reverse = request.pagination.as_ref().is_some_and(|older| older.reverse);
        let direction = match request.order_by() {
            OrderBy::Desc => Direction::Older,
            OrderBy::Unspecified if reverse => Direction::Older,
            OrderBy::Unspecified | OrderBy::Asc => Direction::Newer,
        };
        let texts = request.events.iter().chain([&request.query]);
        let conditions = parse_all(texts.map(String::as_str))?;
        if conditions.is_empty() {
            return Err(QueryError::invalid("query cannot be empty"));
        }
        let heights = self.heights_of(&conditions, "tx.height")?;
        let equal = || conditions.iter().filter(|c| c.operator == Operator::Equal);
        let hash = equal().find(|c| matches!(&*c.key, "tx.hash" | "ethereum_tx.ethereumTxHash"));
        // The account that collects the fees is in the events of every Cosmos transaction, so it is not a source of
        // candidates.
        let mut addresses = equal().filter_map(|c| self.address_in(&c.value));
        let address = addresses.find(|address| *address != FEE_COLLECTOR);
        let narrowed = conditions.iter().any(|c| c.key == "tx.height");
        let source = match (hash, address) {
            (Some(hash), _) => Source::Hash(super::tx::parse_hash(&hash.value)?),
            (None, Some(address)) => Source::Address(address),
            (None, None) if narrowed => Source::Heights,
            (None, None) => {
                return Err(QueryError::invalid(
                    "query: one condition has to name tx.height, a hash (tx.hash, \
                     ethereum_tx.ethereumTxHash) or an address, by which transactions are indexed",
                ));
            }
        };
        Ok(Wanted { conditions, source, heights, direction })
    }

    /// Returns the range of heights that the conditions on the attribute `key` allow.
    pub(super) fn heights_of(
        &self,
        conditions: &[Condition],
        key: &str,
    ) -> Result<RangeInclusive<u64>, QueryError> {
        let (mut first, mut last) = (0, self.number);
        for condition in conditions.iter().filter(|condition| condition.key == key) {
            let height = condition.value.parse::<u64>().map_err(|_| {
                QueryError::invalid(format!("{key}: {:?} is not a height", condition.value))
            })?;
            match condition.operator {
                Operator::Equal => (first, last) = (first.max(height), last.min(height)),
                Operator::Less if height == 0 => (first, last) = (1, 0),
                Operator::Less => last = last.min(height - 1),
                Operator::LessOrEqual => last = last.min(height),
                Operator::Greater => first = first.max(height.saturating_add(1)),
                Operator::GreaterOrEqual => first = first.max(height),
                Operator::Contains | Operator::Exists => {
                    let message = format!("{key} is compared with =, <, <=, > or >=");
                    return Err(QueryError::invalid(message));
                }
            }
        }
        Ok(first..=last)
    }

    /// Returns whether the search is complete: all candidates were checked, or the maximum number was counted.
    fn search(
        &self,
        wanted: &Wanted,
        page: &mut Page,
        mut proceed: impl FnMut() -> bool,
    ) -> Result<bool, QueryError> {
        let heights = &wanted.heights;
        let end = match wanted.direction {
            Direction::Older => *heights.end(),
            Direction::Newer => *heights.start(),
        };
        match wanted.source {
            _ if heights.is_empty() => {}
            Source::Hash(hash) => {
                let found = locate(&self.spec, &self.view, hash)?;
                let within = |block: &StoredBlock| heights.contains(&block.block.header.number);
                if let Some((block, index)) = found.filter(|(block, _)| within(block)) {
                    let found = Found { block, indices: vec![index] };
                    return self.take(wanted, &found, page, proceed);
                }
            }
            Source::Address(address) => {
                let mut search =
                    Search::new(&self.spec, &self.view, address, end, wanted.direction)?;
                loop {
                    match search.next(&mut proceed)? {
                        Step::Found(found) if heights.contains(&found.number()) => {
                            if !self.take(wanted, &found, page, &mut proceed)? {
                                return Ok(false);
                            }
                        }
                        Step::Found(_) | Step::End => break,
                        Step::Cancelled => return Ok(false),
                    }
                    if page.found >= MAX_COUNTED_TXS {
                        break;
                    }
                }
            }
            Source::Heights => return self.search_heights(wanted, page, proceed),
        }
        Ok(true)
    }

    fn search_heights(
        &self,
        wanted: &Wanted,
        page: &mut Page,
        mut proceed: impl FnMut() -> bool,
    ) -> Result<bool, QueryError> {
        let blocks = self.view.blocks()?;
        let heights: Box<dyn Iterator<Item = u64>> = match wanted.direction {
            Direction::Older => Box::new(wanted.heights.clone().rev()),
            Direction::Newer => Box::new(wanted.heights.clone()),
        };
        for number in heights {
            let block = StoredBlock::read(&self.spec, &blocks, number)?;
            let indices = (0..block.block.transactions.len()).collect();
            if !proceed() || !self.take(wanted, &Found { block, indices }, page, &mut proceed)? {
                return Ok(false);
            }
            if page.found >= MAX_COUNTED_TXS {
                break;
            }
        }
        Ok(true)
    }

    /// Adds the matches in a block. Returns whether all its candidates were checked, or the maximum number was counted.
    fn take(
        &self,
        wanted: &Wanted,
        found: &Found,
        page: &mut Page,
        mut proceed: impl FnMut() -> bool,
    ) -> Result<bool, QueryError> {
        let outcomes = Outcomes::read(&self.view.blocks()?, found.number())?;
        let mut indices = found.indices.clone();
        if wanted.direction == Direction::Older {
            indices.reverse();
        }
        for index in indices {
            if page.found >= MAX_COUNTED_TXS {
                break;
            }
            if !proceed() {
                return Ok(false);
            }
            let Some(mined) = found.block.tx(index)? else { break };
            let shown = self.mined(&mined, &outcomes)?;
            if !wanted.conditions.iter().all(|c| self.is_met(c, &WatchedEvent::tx(&shown.response)))
            {
                continue;
            }
            if page.found >= page.skip && page.txs.len() < page.size {
                page.txs.push(shown);
            }
            page.found += 1;
        }
        Ok(true)
    }
}
