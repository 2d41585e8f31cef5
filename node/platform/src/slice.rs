//! Requests time slices: how long a thread may keep its core while other threads wait for that core.
//!
//! A thread that becomes ready waits for the slice of the running thread to end, unless its own slice is
//! shorter. Threads that serve sockets therefore request short slices. Stages request long ones, because after
//! each switch the caches of the core contain the memory of another thread.
#![allow(unsafe_code)]

use std::time::Duration;

/// The slice of a thread that serves sockets: the minimum of Linux.
pub const SOCKETS: Duration = Duration::from_micros(100);
/// The slice of a stage: several times the time to fill the L2 cache. A block passes five stages, and may
/// wait for one slice at each of them if there are few cores.
pub const STAGES: Duration = Duration::from_millis(20);

/// Requests this slice for the current thread. Linux supports this since 6.12. If the request is refused, the thread is
/// scheduled as any other.
pub fn request(slice: Duration) {
    #[cfg(target_os = "linux")]
    {
        let size = size_of::<libc::sched_attr>();
        let attributes = libc::sched_attr {
            size: u32::try_from(size).expect("a size of 48 bytes"),
            sched_policy: libc::SCHED_OTHER.unsigned_abs(),
            sched_flags: 0,
            sched_nice: rustix::process::getpriority_process(None).unwrap_or(0),
            sched_priority: 0,
            // For a thread of the normal policy, this is the slice in nanoseconds.
            sched_runtime: u64::try_from(slice.as_nanos()).expect("at most some milliseconds"),
            sched_deadline: 0,
            sched_period: 0,
        };
        let (this_thread, flags) = (0, 0);
        // SAFETY: the call reads `size` bytes at the pointer, which are those of `attributes`, and changes
        // only the scheduling of the calling thread.
        let refused = unsafe {
            libc::syscall(libc::SYS_sched_setattr, this_thread, &raw const attributes, flags)
        };
        tracing::trace!(refused, ?slice, "asked for a time slice");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = slice;
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_request_keeps_the_priority_of_the_thread() {
        let before = rustix::process::getpriority_process(None);
        super::request(super::SOCKETS);
        super::request(super::STAGES);
        assert_eq!(rustix::process::getpriority_process(None), before);
    }
}
