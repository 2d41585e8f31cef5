//! Time slices: for how long a thread may keep its core where others want one too.
//!
//! A thread that just became ready waits for as long as the slice of whoever has the core, unless its
//! own is shorter. So threads that serve sockets ask for short ones. Stages ask for long ones: a core
//! that goes from one to another and back finds its caches full of the other's memory.
#![allow(unsafe_code)]

use std::time::Duration;

/// The slice of a thread that serves sockets: the least that Linux takes.
pub const SOCKETS: Duration = Duration::from_micros(100);
/// The slice of a stage: several times what it takes to fill the second cache again. Blocks pass through
/// five stages, and may wait for one slice at each where cores are few.
pub const STAGES: Duration = Duration::from_millis(20);

/// Asks for such a slice for this thread. Linux has them since 6.12; elsewhere, or where it is
/// refused, the thread competes as any other.
pub fn ask(slice: Duration) {
    #[cfg(target_os = "linux")]
    {
        let size = size_of::<libc::sched_attr>();
        let attributes = libc::sched_attr {
            size: u32::try_from(size).expect("it has 48 bytes"),
            sched_policy: libc::SCHED_OTHER.unsigned_abs(),
            sched_flags: 0,
            sched_nice: rustix::process::getpriority_process(None).unwrap_or(0),
            sched_priority: 0,
            // Of a thread of the normal policy this is the slice, in nanoseconds.
            sched_runtime: u64::try_from(slice.as_nanos()).expect("a slice is milliseconds"),
            sched_deadline: 0,
            sched_period: 0,
        };
        let (this_thread, flags) = (0, 0);
        // SAFETY: the call reads `size` bytes behind the pointer, which are those of `attributes`,
        // and changes nothing in this process but how the calling thread is scheduled.
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
    fn a_thread_goes_on_with_its_priority() {
        let before = rustix::process::getpriority_process(None);
        super::ask(super::SOCKETS);
        super::ask(super::STAGES);
        assert_eq!(rustix::process::getpriority_process(None), before);
    }
}
