//! Asks the processor for memory that is about to be read. Where a loop knows some items ahead what
//! it will need, it waits for many cache lines at once instead of one after the other.
#![allow(unsafe_code)]

/// Bytes of a cache line.
const LINE: usize = 64;

/// Has the lines of a value brought into the caches, and does not wait for them. Takes a nanosecond
/// or two a line; does nothing where there is no instruction for it.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let before = std::ptr::from_ref(value).addr() % LINE;
    for line in 0..(before + size_of_val(value)).div_ceil(LINE) {
        prefetch_line(std::ptr::from_ref(value).cast::<i8>().wrapping_add(line * LINE));
    }
}

#[inline]
fn prefetch_line(place: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing into the program and never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
