//! Implements the allocator of the programs: the system's allocator, except for large allocations.
//!
//! Tables of accounts and nodes of the trie have hundreds of megabytes and are read at random. With pages of
//! 4 KiB, most reads also miss the TLB and then walk the page table; on a virtual machine each step of that
//! walk needs another walk. Linux provides huge pages on request if
//! `/sys/kernel/mm/transparent_hugepage/enabled` is `madvise`, which is the usual setting. Large allocations
//! therefore request them, and are aligned to cache lines.
//!
//! The largest allocations are mappings of their own, as with the system's allocator. Here they are aligned
//! to huge pages and grow by moving pages instead of contents. Otherwise an arena of a gigabyte would be
//! copied, into memory that has to be cleared first, while a block waits for it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes of a huge page on x86-64, and a multiple of every ordinary page size.
const HUGE: usize = 2 << 20;
/// Minimum bytes of a large allocation, so that it contains a whole huge page at any address.
const LARGE: usize = 2 * HUGE;
/// Minimum bytes of a mapping. The system's allocator keeps freed memory below this size for reuse.
const MAPPED: usize = 32 << 20;
/// Bytes of a cache line, to which large allocations are aligned, so that their contents do not span more
/// lines than necessary.
const LINE: usize = 64;

/// The allocator; see the module documentation. A binary makes it its `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Heap;

// SAFETY: an allocation is a mapping or `System`'s, which its layout determines. `System` always receives the
// layout of `aligned_to_line`, which is the same when an allocation is made and freed. The advice changes neither
// contents nor bounds.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return mapping::new(layout.size());
        }
        // SAFETY: the caller keeps the same contract; a larger alignment is valid.
        with_huge_pages(unsafe { System.alloc(aligned_to_line(layout)) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE {
            // SAFETY: as for `alloc`.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as for `alloc`.
        let place = unsafe { self.alloc(layout) };
        // A new mapping consists of zeros, which the kernel writes on first access. `System` would write
        // zeros before huge pages have been requested.
        if !is_mapped(layout) && !place.is_null() {
            // SAFETY: the allocation has that many bytes.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            // SAFETY: this layout means that it is from `mapping`, and the caller does not use it any more.
            return unsafe { mapping::end(place, layout.size()) };
        }
        // SAFETY: otherwise it was allocated by `System`.
        unsafe { System.dealloc(place, aligned_to_line(layout)) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size().max(size) < LARGE {
            // SAFETY: as for `dealloc`.
            return unsafe { System.realloc(place, layout, size) };
        }
        // SAFETY: the caller guarantees that this size and alignment are a valid layout, that `place` has the
        // bytes of the old one, and that it is not used any more once this has succeeded.
        unsafe {
            let new = Layout::from_size_align_unchecked(size, layout.align());
            if is_mapped(layout) && is_mapped(new) {
                return mapping::resize(place, layout.size(), size);
            }
            // `System` would move the contents before huge pages have been requested, into small pages.
            let moved = self.alloc(new);
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(place, layout.size().min(size));
                self.dealloc(place, layout);
            }
            moved
        }
    }
}

/// Returns whether an allocation is a mapping of its own.
#[inline]
const fn is_mapped(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= MAPPED && layout.align() <= HUGE
}

/// Returns the layout that is passed to `System`.
#[inline]
fn aligned_to_line(layout: Layout) -> Layout {
    if layout.size() < LARGE {
        return layout;
    }
    // The alignment fails only near the end of the address space.
    layout.align_to(LINE).unwrap_or(layout)
}

/// Requests huge pages for a new allocation, if it is large.
#[inline]
fn with_huge_pages(place: *mut u8, bytes: usize) -> *mut u8 {
    if bytes >= LARGE && !place.is_null() {
        advise(place, bytes);
    }
    place
}

#[cold]
fn advise(place: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        // `madvise` needs a multiple of the page size. The part before `start` is smaller than a huge page.
        let start = place.addr().next_multiple_of(HUGE);
        let length = place.addr() + bytes - start;
        // SAFETY: the range is part of a live allocation. If the kernel refuses the advice, nothing changes,
        // and other pages of this process that share the last page are unaffected.
        unsafe { libc::madvise(place.with_addr(start).cast(), length, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (place, bytes);
}

/// Mappings that begin and end at a huge page. Their length follows from the number of bytes requested.
#[cfg(target_os = "linux")]
mod mapping {
    use super::{HUGE, advise};
    use std::ptr;

    /// Returns the length of a mapping for this many bytes; `None` near the end of the address space.
    fn length(bytes: usize) -> Option<usize> {
        bytes.checked_next_multiple_of(HUGE)
    }

    /// Maps this many bytes of zeros; null if there is no memory.
    #[cold]
    pub(super) fn new(bytes: usize) -> *mut u8 {
        let Some(length) = length(bytes) else { return ptr::null_mut() };
        let place = reserve(length, libc::PROT_READ | libc::PROT_WRITE);
        if !place.is_null() {
            advise(place, length);
        }
        place
    }

    /// Reserves addresses that begin at a huge page.
    fn reserve(length: usize, protection: libc::c_int) -> *mut u8 {
        let Some(more) = length.checked_add(HUGE) else { return ptr::null_mut() };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address chosen by the kernel; existing ones are unchanged.
        let taken = unsafe { libc::mmap(ptr::null_mut(), more, protection, flags, -1, 0) };
        if taken == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        let place = taken.map_addr(|address| address.next_multiple_of(HUGE)).cast::<u8>();
        let before = place.addr() - taken.addr();
        // SAFETY: both ends belong to the new mapping, outside of the part that is kept.
        unsafe {
            unmap(taken.cast(), before);
            unmap(place.add(length), HUGE - before);
        }
        place
    }

    /// # Safety
    /// The bytes are mapped, consist of whole pages, and are not used any more.
    unsafe fn unmap(place: *mut u8, length: usize) {
        if length > 0 {
            // SAFETY: guaranteed by the caller. The kernel refuses this only if the process has too many mappings;
            // the addresses are leaked then.
            unsafe { libc::munmap(place.cast(), length) };
        }
    }

    /// # Safety
    /// `place` is from [`new`] or [`resize`] with this many bytes, and is not used any more.
    #[cold]
    pub(super) unsafe fn end(place: *mut u8, bytes: usize) {
        // SAFETY: guaranteed by the caller; `new` computed the length of the same number of bytes.
        unsafe { unmap(place, length(bytes).unwrap_unchecked()) };
    }

    /// Changes a mapping of `old` bytes to `new` bytes. Null if there is no memory; the mapping is unchanged
    /// then.
    ///
    /// # Safety
    /// `place` is from [`new`] or this function with `old` bytes, and is not used any more once this has
    /// succeeded.
    #[cold]
    pub(super) unsafe fn resize(place: *mut u8, old: usize, new: usize) -> *mut u8 {
        let (Some(old), Some(new)) = (length(old), length(new)) else { return ptr::null_mut() };
        if new <= old {
            // SAFETY: this is the end of the mapping, which the caller no longer uses.
            unsafe { unmap(place.add(new), old - new) };
            return place;
        }
        let target = reserve(new, libc::PROT_NONE);
        if target.is_null() {
            return target;
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the call moves the caller's mapping over one that `reserve` has just made. Both are aligned to huge
        // pages, so that the kernel can move these as a whole.
        let moved = unsafe { libc::mremap(place.cast(), old, new, flags, target) };
        if moved == libc::MAP_FAILED {
            // SAFETY: the reserved mapping has not been used.
            unsafe { unmap(target, new) };
            return ptr::null_mut();
        }
        advise(target, new);
        target
    }
}

/// Stands in for the module above on systems without mappings of this kind.
#[cfg(not(target_os = "linux"))]
mod mapping {
    pub(super) fn new(_: usize) -> *mut u8 {
        unreachable!("no layout is mapped")
    }

    pub(super) unsafe fn end(_: *mut u8, _: usize) {
        unreachable!("no layout is mapped")
    }

    pub(super) unsafe fn resize(_: *mut u8, _: usize, _: usize) -> *mut u8 {
        unreachable!("no layout is mapped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance of the bytes that are checked: a prime, so that all offsets in pages and lines occur.
    const STRIDE: usize = 509;

    /// Contents survive growth and shrinking across the limits, from and to small allocations.
    #[test]
    fn contents_survive_reallocation() {
        let bytes = |size| Layout::from_size_align(size, 64).unwrap();
        let (some, many) = (3 * LARGE + 5, MAPPED + HUGE + 1);
        let sizes = [100, LARGE - 1, LARGE, some, MAPPED - 1, MAPPED, many, 4 * MAPPED, MAPPED];
        let down = [many, many - 1, some, MAPPED, LARGE, LARGE + 1, 64];
        let mut layout = bytes(sizes[0]);
        // SAFETY: each allocation is used with its own layout, within its size, and freed once.
        unsafe {
            let mut place = Heap.alloc(layout);
            let mut filled = 0;
            for size in sizes.into_iter().chain(down) {
                place = Heap.realloc(place, layout, size);
                layout = bytes(size);
                assert!(!is_mapped(layout) || place.addr().is_multiple_of(HUGE));
                let offsets = || (0..size).step_by(STRIDE).chain([size - 1]);
                for at in offsets().filter(|at| *at < filled && at % STRIDE == 0) {
                    assert_eq!(*place.add(at), (at / STRIDE) as u8, "{at} of {size}");
                }
                offsets().for_each(|at| *place.add(at) = (at / STRIDE) as u8);
                filled = size;
            }
            Heap.dealloc(place, layout);
        }
    }

    #[test]
    fn zeroed_memory_is_zero_and_aligned_to_a_line() {
        for (size, align) in [(LARGE, 16), (LARGE, 64), (LARGE, 4096), (MAPPED, 16), (MAPPED, 8192)]
        {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: used within its size, and freed once with its own layout.
            unsafe {
                // If the allocator reuses this memory, it must be cleared again.
                let used = Heap.alloc(layout);
                used.write_bytes(1, size);
                Heap.dealloc(used, layout);
                let zeroed = Heap.alloc_zeroed(layout);
                assert_eq!(zeroed.addr() % align.max(LINE), 0);
                let mut bytes = (0..size).step_by(STRIDE).map(|at| *zeroed.add(at));
                assert!(bytes.all(|byte| byte == 0));
                Heap.dealloc(zeroed, layout);
            }
        }
    }

    /// A request that exceeds the machine's memory is refused, and the old allocation is unchanged.
    #[test]
    fn allocation_beyond_the_memory_returns_null() {
        let layout = Layout::from_size_align(MAPPED, 64).unwrap();
        // SAFETY: used within its size, and freed once with its own layout.
        unsafe {
            let place = Heap.alloc(layout);
            *place.add(MAPPED - 1) = 7;
            for size in [1 << 60, isize::MAX as usize - 64] {
                assert!(Heap.realloc(place, layout, size).is_null());
                assert!(Heap.alloc(Layout::from_size_align(size, 64).unwrap()).is_null());
            }
            assert_eq!(*place.add(MAPPED - 1), 7);
            Heap.dealloc(place, layout);
        }
    }

    /// A mapping for which huge pages were requested has the flag `hg`, if the kernel supports huge pages.
    #[cfg(target_os = "linux")]
    #[test]
    fn large_allocations_request_huge_pages() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let range = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let number = |hex| usize::from_str_radix(hex, 16).ok();
            Some(number(start)?..number(end)?)
        };
        let is_requested = |inside: usize| {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let ours = |line: &&str| range(line).is_some_and(|range| range.contains(&inside));
            let mut lines = maps.lines().skip_while(|line| !ours(line));
            let flags = lines.find(|line| line.starts_with("VmFlags")).unwrap();
            flags.split(' ').any(|flag| flag == "hg")
        };
        for size in [4 * LARGE, 2 * MAPPED] {
            let layout = Layout::from_size_align(size, 64).unwrap();
            // SAFETY: freed once, with its own layout.
            unsafe {
                let place = Heap.alloc(layout);
                assert!(is_requested(place.addr() + size / 2), "{size}");
                let more = Heap.realloc(place, layout, 3 * size);
                assert!(is_requested(more.addr() + 2 * size), "{size} and more");
                Heap.dealloc(more, Layout::from_size_align(3 * size, 64).unwrap());
            }
        }
    }
}
