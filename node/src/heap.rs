//! The allocator of the programs: the system's, asking for huge pages where an allocation is large, and
//! beginning it with a cache line.
//!
//! Tables of accounts and nodes of the trie are hundreds of megabytes, read at random. With pages of
//! 4 KiB most reads miss the processor's table of pages too, and then walk through memory; a virtual
//! machine's walk takes another at each of its steps. Linux gives huge pages to those who ask, where
//! `/sys/kernel/mm/transparent_hugepage/enabled` is `madvise`, as it mostly is.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// Least bytes of a large allocation, which asks: two huge pages of x86-64, so that one whole is in it
/// wherever it begins.
const LARGE: usize = 4 << 20;
/// Bytes of a cache line, where large allocations begin: what is made of parts of a line, or of whole
/// ones, then needs no more lines than these.
const LINE: usize = 64;

/// See the module. A binary makes it its `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Heap;

// SAFETY: all is `System`'s doing, which is always given the layout of `lined`, so the same for an
// allocation and its end; the advice changes neither contents nor bounds of what it gave.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to the contract, which is the same; a larger alignment is one.
        with_huge_pages(unsafe { System.alloc(lined(layout)) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE {
            // SAFETY: as for `alloc`.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // `System` would write the zeros here too, but before anybody has asked for huge pages.
        // SAFETY: as for `alloc`; what was allocated has that many bytes.
        unsafe {
            let place = self.alloc(layout);
            if !place.is_null() {
                place.write_bytes(0, layout.size());
            }
            place
        }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: what this gave, `System` gave.
        unsafe { System.dealloc(place, lined(layout)) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size().max(size) < LARGE {
            // SAFETY: as for `dealloc`.
            return unsafe { System.realloc(place, layout, size) };
        }
        // `System` would move what is there before anybody has asked, in pages as they are.
        // SAFETY: the caller vouches that this size and alignment make a layout, that `place` has
        // the bytes of the old one, and that nobody uses it again once this has succeeded.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(place, layout.size().min(size));
                self.dealloc(place, layout);
            }
            moved
        }
    }
}

/// The layout with which `System` is asked.
#[inline]
fn lined(layout: Layout) -> Layout {
    if layout.size() < LARGE {
        return layout;
    }
    // Only near the end of all addresses there is none.
    layout.align_to(LINE).unwrap_or(layout)
}

/// Asks for huge pages for a new allocation, if it is large.
#[inline]
fn with_huge_pages(place: *mut u8, bytes: usize) -> *mut u8 {
    if bytes >= LARGE && !place.is_null() {
        ask(place, bytes);
    }
    place
}

#[cold]
fn ask(place: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        // A multiple of any page size of `madvise`; what is before it is less than a huge page.
        let start = place.addr().next_multiple_of(LARGE / 2);
        let length = place.addr() + bytes - start;
        // SAFETY: the range is part of a live allocation. It is advice: what is refused leaves all
        // as it was, and the pages of this process that share the last page are kept as they are.
        unsafe { libc::madvise(place.with_addr(start).cast(), length, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (place, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents outlive growth and shrinking over the bound, from and to nothing large.
    #[test]
    fn what_was_written_is_kept() {
        let bytes = |size| Layout::from_size_align(size, 64).unwrap();
        let sizes = [100, LARGE - 1, LARGE, 3 * LARGE + 5, LARGE + 1, 64];
        let mut layout = bytes(sizes[0]);
        // SAFETY: each place is used with its own layout, within its size, and freed once.
        unsafe {
            let mut place = Heap.alloc(layout);
            let mut filled = 0;
            for size in sizes {
                place = Heap.realloc(place, layout, size);
                layout = bytes(size);
                let kept = std::slice::from_raw_parts_mut(place, size);
                assert!((0..filled.min(size)).all(|at| kept[at] == at as u8));
                (0..size).for_each(|at| kept[at] = at as u8);
                filled = size;
            }
            Heap.dealloc(place, layout);
            for align in [16, 64, 4096] {
                let layout = Layout::from_size_align(LARGE, align).unwrap();
                let zeroed = Heap.alloc_zeroed(layout);
                assert_eq!(zeroed.addr() % align.max(LINE), 0);
                assert!(std::slice::from_raw_parts(zeroed, LARGE).iter().all(|byte| *byte == 0));
                Heap.dealloc(zeroed, layout);
            }
        }
    }

    /// The kernel has been asked: the mapping has the flag `hg`, where the kernel knows huge pages.
    #[cfg(target_os = "linux")]
    #[test]
    fn large_allocations_ask() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let large = Layout::from_size_align(4 * LARGE, 64).unwrap();
        // SAFETY: freed once, with its own layout.
        let place = unsafe { Heap.alloc(large) };
        let inside = place.addr() + 2 * LARGE;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let range = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let number = |hex| usize::from_str_radix(hex, 16).ok();
            Some(number(start)?..number(end)?)
        };
        let ours = |line: &&str| range(line).is_some_and(|range| range.contains(&inside));
        let mut lines = maps.lines().skip_while(|line| !ours(line));
        let flags = lines.find(|line| line.starts_with("VmFlags")).unwrap();
        assert!(flags.split(' ').any(|flag| flag == "hg"), "{flags}");
        // SAFETY: as above.
        unsafe { Heap.dealloc(place, large) };
    }
}
