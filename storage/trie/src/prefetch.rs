//! Prefetches memory that will be read soon. If a loop knows the addresses of later items in
//! advance, the processor loads many cache lines concurrently instead of one after the other.
#![allow(unsafe_code)]

/// Size of a cache line in bytes.
const LINE: usize = 64;

/// Starts loading the cache lines of a value without waiting for them. This takes one or two nanoseconds
/// per line. It has no effect on architectures other than x86-64.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    let before = std::ptr::from_ref(value).addr() % LINE;
    for line in 0..(before + size_of_val(value)).div_ceil(LINE) {
        prefetch_line(std::ptr::from_ref(value).cast::<i8>().wrapping_add(line * LINE));
    }
}

#[inline]
fn prefetch_line(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch has no architectural effect and never faults, for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
