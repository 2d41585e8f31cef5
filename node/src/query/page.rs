//! Pages of lists.

use super::{
    QueryError,
    proto::cosmos::base::query::v1beta1::{PageRequest, PageResponse},
};

/// Most items of one page.
pub const MAX_PAGE_ITEMS: usize = 1000;
/// Items of a page that names no number.
const DEFAULT_PAGE_ITEMS: usize = 100;
/// Most items skipped by number: each is read. Keys skip any number at no cost.
const MAX_OFFSET: usize = 10_000;

/// Which part of a list is asked for.
#[derive(Debug)]
pub(super) struct Page {
    /// Where the answer before said to go on.
    pub(super) key: Option<Vec<u8>>,
    /// Items to skip after that.
    pub(super) skip: usize,
    /// Most items to answer.
    pub(super) limit: usize,
    /// From the end of the list on.
    pub(super) reverse: bool,
    /// How many there are in all is wanted too: always where no limit is given, as the SDK has it.
    pub(super) count_total: bool,
}

impl Page {
    /// Checks a request.
    pub(super) fn of(request: Option<PageRequest>) -> Result<Self, QueryError> {
        let request = request.unwrap_or_default();
        let invalid = |reason: String| Err(QueryError::invalid(format!("pagination: {reason}")));
        let within = |value: u64, most: usize| usize::try_from(value).ok().filter(|v| *v <= most);
        if !request.key.is_empty() && request.offset != 0 {
            return invalid("either offset or key is expected, got both".to_owned());
        }
        let Some(skip) = within(request.offset, MAX_OFFSET) else {
            return invalid(format!("offset is above {MAX_OFFSET}: go on by key"));
        };
        let limit = match within(request.limit, MAX_PAGE_ITEMS) {
            Some(0) => DEFAULT_PAGE_ITEMS,
            Some(limit) => limit,
            None => return invalid(format!("limit is above {MAX_PAGE_ITEMS}")),
        };
        let key = (!request.key.is_empty()).then_some(request.key);
        let count_total = key.is_none() && (request.count_total || request.limit == 0);
        Ok(Self { key, skip, limit, reverse: request.reverse, count_total })
    }

    /// The same of a list that is given from its beginning only.
    pub(super) fn forward(self) -> Result<Self, QueryError> {
        if self.reverse {
            return Err(QueryError::invalid("pagination: reverse is not offered"));
        }
        Ok(self)
    }
}

/// A page of a list. Its key is the number of items before.
pub(super) fn cut<'a, T: Clone + 'a>(
    items: impl DoubleEndedIterator<Item = &'a T> + Clone,
    page: Option<PageRequest>,
) -> Result<(Vec<T>, PageResponse), QueryError> {
    let page = Page::of(page)?;
    let start = match &page.key {
        None => page.skip,
        Some(key) => {
            let number = <[u8; 8]>::try_from(key.as_slice()).ok().map(u64::from_be_bytes);
            let number = number.and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| QueryError::invalid("pagination: key is not one of this list"))?
        }
    };
    let total = items.clone().count();
    let chosen: Vec<_> = if page.reverse {
        items.rev().skip(start).take(page.limit).cloned().collect()
    } else {
        items.skip(start).take(page.limit).cloned().collect()
    };
    let end = start.saturating_add(chosen.len());
    let more = end < total && !chosen.is_empty();
    let next_key = if more { (end as u64).to_be_bytes().to_vec() } else { Vec::new() };
    Ok((chosen, PageResponse { next_key, total: total as u64 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_on_by_key_in_both_directions() {
        for reverse in [false, true] {
            let (mut all, mut key) = (Vec::new(), Vec::new());
            loop {
                let request = PageRequest { key, limit: 2, reverse, ..PageRequest::default() };
                let (page, next) = cut([1, 2, 3, 4, 5].iter(), Some(request)).unwrap();
                all.extend(page);
                assert_eq!(next.total, 5);
                if next.next_key.is_empty() {
                    break;
                }
                key = next.next_key;
            }
            let expected = if reverse { [5, 4, 3, 2, 1] } else { [1, 2, 3, 4, 5] };
            assert_eq!(all, expected);
        }
        let reverse = PageRequest { reverse: true, ..PageRequest::default() };
        assert!(Page::of(Some(reverse)).unwrap().forward().is_err());
    }

    #[test]
    fn pages_are_bounded() {
        let page = Page::of(None).unwrap();
        assert_eq!((page.key, page.skip, page.limit), (None, 0, DEFAULT_PAGE_ITEMS));
        for request in [
            PageRequest { offset: 1, key: vec![1], ..PageRequest::default() },
            PageRequest { offset: u64::MAX, ..PageRequest::default() },
            PageRequest { limit: 1001, ..PageRequest::default() },
        ] {
            assert_eq!(
                Page::of(Some(request)).unwrap_err().code,
                super::super::Code::InvalidArgument
            );
        }
    }
}
