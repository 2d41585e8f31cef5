//! Short time slices for threads that serve sockets: where cores are few, a thread that just became
//! ready waits for as long as the slice of whoever has the core, unless its own is shorter.
#![allow(unsafe_code)]

/// The slice of a thread that serves sockets, in nanoseconds: the least that Linux takes.
const SLICE_NS: u64 = 100_000;

/// Asks for a short slice for this thread. Linux has them since 6.12; elsewhere, or where it is
/// refused, the thread competes as any other.
pub(crate) fn shorten() {
    #[cfg(target_os = "linux")]
    {
        let size = size_of::<libc::sched_attr>();
        let attributes = libc::sched_attr {
            size: u32::try_from(size).expect("it has 48 bytes"),
            sched_policy: libc::SCHED_OTHER.unsigned_abs(),
            sched_flags: 0,
            sched_nice: rustix::process::getpriority_process(None).unwrap_or(0),
            sched_priority: 0,
            // Of a thread of the normal policy this is the slice.
            sched_runtime: SLICE_NS,
            sched_deadline: 0,
            sched_period: 0,
        };
        let (this_thread, flags) = (0, 0);
        // SAFETY: the call reads `size` bytes behind the pointer, which are those of `attributes`,
        // and changes nothing in this process but how the calling thread is scheduled.
        let refused = unsafe {
            libc::syscall(libc::SYS_sched_setattr, this_thread, &raw const attributes, flags)
        };
        tracing::trace!(refused, "asked for a short time slice");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_goes_on_with_its_priority() {
        let before = rustix::process::getpriority_process(None);
        super::shorten();
        assert_eq!(rustix::process::getpriority_process(None), before);
    }
}
