//! The allocator of the programs: the system's, but for what is large.
//!
//! Tables of accounts and nodes of the trie are hundreds of megabytes, read at random. With pages of
//! 4 KiB most reads miss the processor's table of pages too, and then walk through memory; a virtual
//! machine's walk takes another at each of its steps. Linux gives huge pages to those who ask, where
//! `/sys/kernel/mm/transparent_hugepage/enabled` is `madvise`, as it mostly is. So large allocations ask,
//! and begin with a cache line.
//!
//! The largest are mappings of their own, which the system would make them too; but these begin with a huge
//! page and grow by moving pages, not their contents: an arena of a gigabyte would be copied while a
//! block waits for it, into memory that has to be cleared first.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes of a huge page of x86-64, and a multiple of any page there is.
const HUGE: usize = 2 << 20;
/// Least bytes of a large allocation, which asks: so that one whole huge page is in it wherever it begins.
const LARGE: usize = 2 * HUGE;
/// Least bytes of a mapping: what the system's allocator keeps for the next one when it is freed has less.
const MAPPED: usize = 32 << 20;
/// Bytes of a cache line, where large allocations begin: what is made of parts of a line, or of whole
/// ones, then needs no more lines than these.
const LINE: usize = 64;

/// See the module. A binary makes it its `#[global_allocator]`.
#[derive(Clone, Copy, Debug)]
pub struct Heap;

// SAFETY: an allocation is a mapping or `System`'s, and its layout tells which; `System` is always given the
// layout of `lined`, so the same for an allocation and its end. The advice changes neither contents nor
// bounds.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return mapping::new(layout.size());
        }
        // SAFETY: the caller keeps to the contract, which is the same; a larger alignment is one.
        with_huge_pages(unsafe { System.alloc(lined(layout)) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE {
            // SAFETY: as for `alloc`.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as for `alloc`.
        let place = unsafe { self.alloc(layout) };
        // A new mapping is zeros, which are made when they are met. `System` would write them too, but
        // before anybody has asked for huge pages.
        if !is_mapped(layout) && !place.is_null() {
            // SAFETY: what was allocated has that many bytes.
            unsafe { place.write_bytes(0, layout.size()) };
        }
        place
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            // SAFETY: of this layout, so from `mapping`, and the caller is the last to know it.
            return unsafe { mapping::end(place, layout.size()) };
        }
        // SAFETY: what this gave, `System` gave.
        unsafe { System.dealloc(place, lined(layout)) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size().max(size) < LARGE {
            // SAFETY: as for `dealloc`.
            return unsafe { System.realloc(place, layout, size) };
        }
        // SAFETY: the caller vouches that this size and alignment make a layout, that `place` has
        // the bytes of the old one, and that nobody uses it again once this has succeeded.
        unsafe {
            let new = Layout::from_size_align_unchecked(size, layout.align());
            if is_mapped(layout) && is_mapped(new) {
                return mapping::resize(place, layout.size(), size);
            }
            // `System` would move what is there before anybody has asked, in pages as they are.
            let moved = self.alloc(new);
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(place, layout.size().min(size));
                self.dealloc(place, layout);
            }
            moved
        }
    }
}

/// Whether an allocation is a mapping of its own.
#[inline]
const fn is_mapped(layout: Layout) -> bool {
    cfg!(target_os = "linux") && layout.size() >= MAPPED && layout.align() <= HUGE
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
        let start = place.addr().next_multiple_of(HUGE);
        let length = place.addr() + bytes - start;
        // SAFETY: the range is part of a live allocation. It is advice: what is refused leaves all
        // as it was, and the pages of this process that share the last page are kept as they are.
        unsafe { libc::madvise(place.with_addr(start).cast(), length, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (place, bytes);
}

/// Mappings that begin and end with a huge page. The bytes asked for tell how long one is.
#[cfg(target_os = "linux")]
mod mapping {
    use super::{HUGE, ask};
    use std::ptr;

    /// Bytes mapped for so many, unless these are nearly all addresses.
    fn length(bytes: usize) -> Option<usize> {
        bytes.checked_next_multiple_of(HUGE)
    }

    /// Maps so many bytes, of zeros; null when there is no room.
    #[cold]
    pub(super) fn new(bytes: usize) -> *mut u8 {
        let Some(length) = length(bytes) else { return ptr::null_mut() };
        let place = reserve(length, libc::PROT_READ | libc::PROT_WRITE);
        if !place.is_null() {
            ask(place, length);
        }
        place
    }

    /// Takes addresses from the kernel, beginning with a huge page.
    fn reserve(length: usize, protection: libc::c_int) -> *mut u8 {
        let Some(more) = length.checked_add(HUGE) else { return ptr::null_mut() };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, where the kernel likes; nothing that is there changes.
        let taken = unsafe { libc::mmap(ptr::null_mut(), more, protection, flags, -1, 0) };
        if taken == libc::MAP_FAILED {
            return ptr::null_mut();
        }
        let place = taken.map_addr(|address| address.next_multiple_of(HUGE)).cast::<u8>();
        let before = place.addr() - taken.addr();
        // SAFETY: both ends are of the mapping just made, outside of what is kept.
        unsafe {
            unmap(taken.cast(), before);
            unmap(place.add(length), HUGE - before);
        }
        place
    }

    /// # Safety
    /// The bytes are mapped, whole pages, and nobody uses them any more.
    unsafe fn unmap(place: *mut u8, length: usize) {
        if length > 0 {
            // SAFETY: the caller's promise. To refuse it, the kernel must be out of mappings; then
            // the addresses are lost.
            unsafe { libc::munmap(place.cast(), length) };
        }
    }

    /// # Safety
    /// `place` is from [`new`] or [`resize`] with so many bytes, and nobody uses it any more.
    #[cold]
    pub(super) unsafe fn end(place: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise; what was mapped has a length.
        unsafe { unmap(place, length(bytes).unwrap_unchecked()) };
    }

    /// Makes a mapping of `old` bytes one of `new`. Null when there is no room, and all is as before.
    ///
    /// # Safety
    /// `place` is from [`new`] or this with `old` bytes, and nobody uses it any more once this has
    /// succeeded.
    #[cold]
    pub(super) unsafe fn resize(place: *mut u8, old: usize, new: usize) -> *mut u8 {
        let (Some(old), Some(new)) = (length(old), length(new)) else { return ptr::null_mut() };
        if new <= old {
            // SAFETY: the end of the mapping, which the caller gives up.
            unsafe { unmap(place.add(new), old - new) };
            return place;
        }
        let target = reserve(new, libc::PROT_NONE);
        if target.is_null() {
            return target;
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: moves a mapping of the caller's to where `reserve` has just made another, which gives
        // way. Between huge pages it moves these.
        let moved = unsafe { libc::mremap(place.cast(), old, new, flags, target) };
        if moved == libc::MAP_FAILED {
            // SAFETY: nobody has seen it.
            unsafe { unmap(target, new) };
            return ptr::null_mut();
        }
        ask(target, new);
        target
    }
}

/// Nothing is mapped there.
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

    /// Bytes between two that are looked at: a prime, so that all places of pages and lines are met.
    const STRIDE: usize = 509;

    /// Contents outlive growth and shrinking over the bounds, from and to nothing large.
    #[test]
    fn what_was_written_is_kept() {
        let bytes = |size| Layout::from_size_align(size, 64).unwrap();
        let (some, many) = (3 * LARGE + 5, MAPPED + HUGE + 1);
        let sizes = [100, LARGE - 1, LARGE, some, MAPPED - 1, MAPPED, many, 4 * MAPPED, MAPPED];
        let down = [many, many - 1, some, MAPPED, LARGE, LARGE + 1, 64];
        let mut layout = bytes(sizes[0]);
        // SAFETY: each place is used with its own layout, within its size, and freed once.
        unsafe {
            let mut place = Heap.alloc(layout);
            let mut filled = 0;
            for size in sizes.into_iter().chain(down) {
                place = Heap.realloc(place, layout, size);
                layout = bytes(size);
                assert!(!is_mapped(layout) || place.addr().is_multiple_of(HUGE));
                let looked_at = || (0..size).step_by(STRIDE).chain([size - 1]);
                for at in looked_at().filter(|at| *at < filled && at % STRIDE == 0) {
                    assert_eq!(*place.add(at), (at / STRIDE) as u8, "{at} of {size}");
                }
                looked_at().for_each(|at| *place.add(at) = (at / STRIDE) as u8);
                filled = size;
            }
            Heap.dealloc(place, layout);
        }
    }

    #[test]
    fn zeros_are_zeros_on_a_line() {
        for (size, align) in [(LARGE, 16), (LARGE, 64), (LARGE, 4096), (MAPPED, 16), (MAPPED, 8192)]
        {
            let layout = Layout::from_size_align(size, align).unwrap();
            // SAFETY: used within its size, and freed once with its own layout.
            unsafe {
                // What is used again after this is not zeros any more.
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

    /// What no machine has room for is refused, and leaves what there was.
    #[test]
    fn too_much_is_null() {
        let layout = Layout::from_size_align(MAPPED, 64).unwrap();
        // SAFETY: used within its size, and freed once with its own layout.
        unsafe {
            let place = Heap.alloc(layout);
            *place.add(MAPPED - 1) = 7;
            for much in [1 << 60, isize::MAX as usize - 64] {
                assert!(Heap.realloc(place, layout, much).is_null());
                assert!(Heap.alloc(Layout::from_size_align(much, 64).unwrap()).is_null());
            }
            assert_eq!(*place.add(MAPPED - 1), 7);
            Heap.dealloc(place, layout);
        }
    }

    /// The kernel has been asked: the mapping has the flag `hg`, where the kernel knows huge pages.
    #[cfg(target_os = "linux")]
    #[test]
    fn large_allocations_ask() {
        if !std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists() {
            return;
        }
        let range = |line: &str| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let number = |hex| usize::from_str_radix(hex, 16).ok();
            Some(number(start)?..number(end)?)
        };
        let asked = |inside: usize| {
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
                assert!(asked(place.addr() + size / 2), "{size}");
                let more = Heap.realloc(place, layout, 3 * size);
                assert!(asked(more.addr() + 2 * size), "{size} and more");
                Heap.dealloc(more, Layout::from_size_align(3 * size, 64).unwrap());
            }
        }
    }
}
