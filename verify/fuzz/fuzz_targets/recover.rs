//! Converts bytes to a batch; every backend must return the results of libsecp256k1.
//!
//! Each job takes 97 bytes: digest, r, s, recovery id. The first byte of the remainder sets how many times the batch is
//! repeated (up to 8), so that lanes and blocks are filled.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use verify::{Backend, Job, Reason, Recoverer};

const JOB_BYTES: usize = 97;

thread_local! {
    static RECOVERERS: RefCell<Vec<Recoverer>> =
        RefCell::new(Backend::available().into_iter().map(Recoverer::new).collect());
}

fuzz_target!(|data: &[u8]| {
    let chunks = data.chunks_exact(JOB_BYTES);
    let repeats = chunks.remainder().first().map_or(1, |byte| usize::from(byte % 8) + 1);
    let once: Vec<Job> = chunks.map(job).collect();
    let jobs = once.repeat(repeats);
    RECOVERERS.with_borrow_mut(|recoverers| {
        let mut expected: Option<Vec<_>> = None;
        for recoverer in recoverers {
            let mut outcomes = vec![Err(Reason::RecoveryId); jobs.len()];
            recoverer.recover_batch(&jobs, &mut outcomes);
            match &expected {
                None => expected = Some(outcomes),
                Some(expected) => assert_eq!(*expected, outcomes, "{}", recoverer.backend()),
            }
        }
    });
});

fn job(bytes: &[u8]) -> Job {
    let mut job = Job { recovery_id: bytes[96], ..Job::default() };
    job.digest.copy_from_slice(&bytes[..32]);
    job.r.copy_from_slice(&bytes[32..64]);
    job.s.copy_from_slice(&bytes[64..96]);
    job
}
