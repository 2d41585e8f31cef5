//! Selects the requested page of a list.

use super::{
    QueryError,
    proto::cosmos::base::query::v1beta1::{PageRequest, PageResponse},
};

/// Maximum number of items per page. A larger limit is reduced to it, and the key of the page shows that there
/// are more items.
pub const MAX_PAGE_ITEMS: usize = 1000;
/// Default number of items per page.
const DEFAULT_PAGE_ITEMS: usize = 100;
/// Maximum offset, because each skipped item is read. A page that starts at a key needs no offset.
const MAX_OFFSET: usize = 10_000;

/// The requested part of a list.
#[derive(Debug)]
pub(super) struct Page {
    /// The key at which to continue, from the previous page.
    pub(super) key: Option<Vec<u8>>,
    /// Number of items to skip.
    pub(super) skip: usize,
    /// Maximum number of items.
    pub(super) limit: usize,
    /// Whether the list is read from its end.
    pub(super) reverse: bool,
    /// Whether to return the total number of items. As in the SDK, only a page without a key returns it, if it is
    /// requested or if there is no limit.
    pub(super) count_total: bool,
}

impl Page {
    /// Parses and checks a request.
    pub(super) fn of(request: Option<PageRequest>) -> Result<Self, QueryError> {
        let request = request.unwrap_or_default();
        let invalid = |reason: String| Err(QueryError::invalid(format!("pagination: {reason}")));
        let within = |value: u64, max: usize| usize::try_from(value).ok().filter(|v| *v <= max);
        if !request.key.is_empty() && request.offset != 0 {
            return invalid("either offset or key is expected, got both".to_owned());
        }
        let Some(skip) = within(request.offset, MAX_OFFSET) else {
            return invalid(format!("offset must be at most {MAX_OFFSET}: continue with key"));
        };
        let limit = match request.limit {
            0 => DEFAULT_PAGE_ITEMS,
            limit => within(limit, MAX_PAGE_ITEMS).unwrap_or(MAX_PAGE_ITEMS),
        };
        let key = (!request.key.is_empty()).then_some(request.key);
        let count_total = key.is_none() && (request.count_total || request.limit == 0);
        Ok(Self { key, skip, limit, reverse: request.reverse, count_total })
    }

    /// Checks that the page is not reversed. Used for lists that can only be read forward.
    pub(super) fn forward(self) -> Result<Self, QueryError> {
        if self.reverse {
            return Err(QueryError::invalid("pagination: reverse is not supported"));
        }
        Ok(self)
    }
}

/// Returns a page of a list whose items are ordered by key. The `next_key` of a page is the key of the next item, so
/// items are neither repeated nor skipped if the list changes between two pages. If the item with that key no longer
/// exists, the next page starts at the item after it.
pub(super) fn cut<K, T>(
    items: impl DoubleEndedIterator<Item = (K, T)> + Clone,
    page: Option<PageRequest>,
) -> Result<(Vec<T>, PageResponse), QueryError>
where
    K: Key,
{
    let page = Page::of(page)?;
    if page.key.as_ref().is_some_and(|key| K::BYTES.is_some_and(|bytes| bytes != key.len())) {
        return Err(QueryError::invalid("pagination: key is not a key of this list"));
    }
    let total = if page.count_total { items.clone().count() as u64 } else { 0 };
    let (chosen, next_key) = match (page.reverse, page.key.as_deref()) {
        (false, None) => take(items, &page),
        (false, Some(from)) => take(items.skip_while(|(key, _)| key.as_ref() < from), &page),
        (true, None) => take(items.rev(), &page),
        (true, Some(from)) => take(items.rev().skip_while(|(key, _)| key.as_ref() > from), &page),
    };
    Ok((chosen, PageResponse { next_key, total }))
}

/// Returns the items of a page, and the key of the next item.
fn take<K: Key, T>(items: impl Iterator<Item = (K, T)>, page: &Page) -> (Vec<T>, Vec<u8>) {
    let mut rest = items.skip(page.skip);
    let chosen = rest.by_ref().take(page.limit).map(|(_, item)| item).collect();
    let next = rest.next().map(|(key, _)| key.as_ref().to_vec());
    (chosen, next.unwrap_or_default())
}

/// The key of a list item. The order of its bytes is the order of the list.
pub(super) trait Key: AsRef<[u8]> {
    /// The length of every key, if all have the same length.
    const BYTES: Option<usize>;
}

impl<const N: usize> Key for [u8; N] {
    const BYTES: Option<usize> = Some(N);
}

impl Key for String {
    const BYTES: Option<usize> = None;
}

/// Returns a page of a list that never changes, such as the transactions of a block. The key of an item is its index.
/// The total is always returned, as the SDK does for lists that it reads from CometBFT.
pub(super) fn cut_counted<T>(
    items: &[T],
    page: Option<PageRequest>,
) -> Result<(Vec<&T>, PageResponse), QueryError> {
    let numbered = items.iter().enumerate();
    let keyed = numbered.map(|(number, item)| ((number as u64).to_be_bytes(), item));
    let (chosen, page) = cut(keyed, page)?;
    Ok((chosen, PageResponse { total: items.len() as u64, ..page }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items that are their own keys.
    fn keyed(items: &[u64]) -> impl DoubleEndedIterator<Item = ([u8; 8], u64)> + Clone {
        items.iter().map(|item| (item.to_be_bytes(), *item))
    }

    #[test]
    fn pages_continue_by_key_in_both_directions() {
        for reverse in [false, true] {
            let (mut all, mut key) = (Vec::new(), Vec::new());
            loop {
                let request = PageRequest { key, limit: 2, reverse, ..PageRequest::default() };
                let (page, next) = cut(keyed(&[1, 2, 3, 4, 5]), Some(request)).unwrap();
                all.extend(page);
                assert_eq!(next.total, 0);
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
    fn no_item_is_repeated_or_skipped_while_a_list_changes() {
        let page = |items: &[u64], key: Vec<u8>, reverse| {
            let request = PageRequest { key, limit: 2, reverse, ..PageRequest::default() };
            let (page, next) = cut(keyed(items), Some(request)).unwrap();
            (page, next.next_key)
        };
        let (first, key) = page(&[10, 20, 30, 40], Vec::new(), false);
        assert_eq!((first, &key[..]), (vec![10, 20], &30_u64.to_be_bytes()[..]));
        // Items before the key are removed and added, and the item with the key is removed.
        assert_eq!(page(&[20, 30, 40], key.clone(), false).0, [30, 40]);
        assert_eq!(page(&[5, 10, 15, 20, 30, 40], key.clone(), false).0, [30, 40]);
        assert_eq!(page(&[10, 20, 40, 50, 60], key, false).0, [40, 50]);
        let (first, key) = page(&[10, 20, 30, 40], Vec::new(), true);
        assert_eq!((first, &key[..]), (vec![40, 30], &20_u64.to_be_bytes()[..]));
        assert_eq!(page(&[10, 20, 30, 40, 50], key.clone(), true).0, [20, 10]);
        assert_eq!(page(&[10, 30, 40], key, true).0, [10]);
        let other = PageRequest { key: vec![1], ..PageRequest::default() };
        assert!(cut(keyed(&[1]), Some(other)).is_err(), "a key of another list");
    }

    #[test]
    fn items_are_counted_if_requested() {
        let key = 1_u64.to_be_bytes().to_vec();
        for (request, total) in [
            (PageRequest::default(), 3),
            (PageRequest { count_total: true, limit: 1, ..PageRequest::default() }, 3),
            (PageRequest { limit: 1, ..PageRequest::default() }, 0),
            (PageRequest { count_total: true, key: key.clone(), ..PageRequest::default() }, 0),
            (PageRequest { key, ..PageRequest::default() }, 0),
        ] {
            let (_, page) = cut(keyed(&[1, 2, 3]), Some(request.clone())).unwrap();
            assert_eq!(page.total, total, "{request:?}");
            let (_, page) = cut_counted(&[1, 2, 3], Some(request)).unwrap();
            assert_eq!(page.total, 3);
        }
    }

    #[test]
    fn page_limits_are_enforced() {
        let page = Page::of(None).unwrap();
        assert_eq!((page.key, page.skip, page.limit), (None, 0, DEFAULT_PAGE_ITEMS));
        for limit in [1000, 1001, u64::MAX] {
            let request = PageRequest { limit, ..PageRequest::default() };
            assert_eq!(Page::of(Some(request)).unwrap().limit, MAX_PAGE_ITEMS);
        }
        let items: Vec<_> = (0..=MAX_PAGE_ITEMS as u64).collect();
        let request = PageRequest { limit: 5000, ..PageRequest::default() };
        let (page, next) = cut(keyed(&items), Some(request)).unwrap();
        assert_eq!((page.len(), next.next_key.is_empty()), (MAX_PAGE_ITEMS, false));
        for request in [
            PageRequest { offset: 1, key: vec![1], ..PageRequest::default() },
            PageRequest { offset: u64::MAX, ..PageRequest::default() },
        ] {
            assert_eq!(
                Page::of(Some(request)).unwrap_err().code,
                super::super::Code::InvalidArgument
            );
        }
    }

    #[test]
    fn page_limits_are_exact() {
        let request = |offset, limit| PageRequest { offset, limit, ..PageRequest::default() };
        for (limit, effective) in [(1, 1), (999, 999), (1_000, 1_000), (1_001, 1_000)] {
            let page = Page::of(Some(request(0, limit))).unwrap();
            assert_eq!(page.limit, effective, "limit {limit}");
        }
        for offset in [0, 1, 9_999, 10_000] {
            let page = Page::of(Some(request(offset, 1))).unwrap();
            assert_eq!(page.skip as u64, offset);
        }
        let error = Page::of(Some(request(10_001, 1))).unwrap_err();
        assert_eq!(error.code, super::super::Code::InvalidArgument);
        // A full page, and the page at the maximum offset.
        for count in [999, 1_000, 1_001] {
            let items: Vec<u64> = (0..count).collect();
            let (page, next) = cut(keyed(&items), Some(request(0, 1_000))).unwrap();
            assert_eq!(page.len() as u64, count.min(1_000));
            assert_eq!(next.next_key.is_empty(), count <= 1_000, "{count} items");
        }
        let items: Vec<u64> = (0..10_002).collect();
        let (page, _) = cut(keyed(&items), Some(request(10_000, 1_000))).unwrap();
        assert_eq!(page, [10_000, 10_001]);
    }
}
