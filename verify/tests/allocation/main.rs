//! Recovery and hashing do not allocate once the workspace exists.
#![allow(unsafe_code)]

use secp256k1_batch_recovery::{Backend, Job, Reason, Recoverer, keccak256_batch_on};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The system's allocator, with a count of the allocations of each thread.
struct Counting;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller upholds the contract of `alloc`, which the system's allocator shares.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn steady_state_does_not_allocate() {
    let number = |i: u64, tag: u64| {
        secp256k1_batch_recovery::keccak256(&[i.to_be_bytes(), tag.to_be_bytes()].concat())
    };
    let jobs: Vec<_> = (0..700)
        .map(|i| Job { digest: number(i, 0), r: number(i, 1), s: number(i, 2), recovery_id: 1 })
        .collect();
    let messages: Vec<&[u8]> = jobs.iter().map(|job| &job.digest[..]).collect();
    let mut outcomes = vec![Err(Reason::RecoveryId); jobs.len()];
    let mut hashes = vec![[0; 32]; jobs.len()];
    for backend in Backend::available() {
        let mut recoverer = Recoverer::new(backend);
        recoverer.recover_batch(&jobs[..5], &mut outcomes[..5]);
        let before = COUNT.get();
        recoverer.recover_batch(&jobs, &mut outcomes);
        recoverer.recover_batch(&jobs[..5], &mut outcomes[..5]);
        keccak256_batch_on(backend, &messages, &mut hashes);
        assert_eq!(COUNT.get(), before, "{backend}");
    }
}
