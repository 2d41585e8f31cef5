use super::*;
use crate::Key;
use std::collections::HashSet;

/// A backend with one deliberate fault. Otherwise it uses libsecp256k1, because these tests only check which
/// results the self-test examines.
struct Faulty<'a> {
    backend: Backend,
    /// Returns whether the result at this position of a batch is wrong.
    recovers_wrong: &'a dyn Fn(&[Job], usize) -> bool,
    /// Returns whether the hash at this position of a batch is wrong.
    hashes_wrong: &'a dyn Fn(&[&[u8]], usize) -> bool,
}

impl Subject for Faulty<'_> {
    fn backend(&self) -> Backend {
        self.backend
    }

    fn recover_batch(&mut self, jobs: &[Job], outcomes: &mut [Outcome]) {
        Recoverer::new(Backend::Scalar).recover_batch(jobs, outcomes);
        for (position, outcome) in outcomes.iter_mut().enumerate() {
            if (self.recovers_wrong)(jobs, position) {
                *outcome = match *outcome {
                    // The most harmful fault is another sender.
                    Ok(key) => Ok(Key { address: [0x66; 20], ..key }),
                    Err(_) => Ok(Key { public_key: [0; 64], address: [0; 20] }),
                };
            }
        }
    }

    fn hash_batch(&self, messages: &[&[u8]], hashes: &mut [[u8; 32]]) {
        keccak256_batch_on(Backend::Scalar, messages, hashes);
        for (position, hash) in hashes.iter_mut().enumerate() {
            hash[0] ^= u8::from((self.hashes_wrong)(messages, position));
        }
    }
}

fn with_recovery_fault(
    backend: Backend,
    recovers_wrong: &dyn Fn(&[Job], usize) -> bool,
) -> Result<(), SelfTestError> {
    examine(&mut Faulty { backend, recovers_wrong, hashes_wrong: &|_, _| false })
}

fn with_hash_fault(
    backend: Backend,
    hashes_wrong: &dyn Fn(&[&[u8]], usize) -> bool,
) -> Result<(), SelfTestError> {
    examine(&mut Faulty { backend, recovers_wrong: &|_, _| false, hashes_wrong })
}

#[test]
fn every_backend_passes() {
    for backend in Backend::available() {
        assert_eq!(self_test(backend), Ok(()));
        assert_eq!(ensure_self_tested(backend), Ok(()));
        assert_eq!(with_recovery_fault(backend, &|_, _| false), Ok(()), "no fault, no error");
    }
}

#[test]
fn a_wrong_result_of_any_class_is_found() {
    let special = vectors::special();
    let classes: HashSet<_> = special.iter().map(|vector| vector.class).collect();
    assert_eq!(classes.len(), 7, "every class has an example");
    for backend in Backend::available() {
        for vector in &special {
            let fault = |jobs: &[Job], at: usize| jobs[at] == vector.job;
            let error = with_recovery_fault(backend, &fault).unwrap_err();
            let SelfTestError::Recovery { backend: named, class, .. } = error else {
                panic!("{error}");
            };
            assert_eq!((named, class), (backend, vector.class));
            let text = error.to_string();
            assert!(text.contains(backend.name()) && text.contains(&class.to_string()), "{text}");
            let is_named = text.contains(crate::BACKEND_VARIABLE);
            assert_eq!(is_named, Backend::available().len() > 1, "the remedy: {text}");
        }
    }
}

#[test]
fn a_wrong_result_in_any_position_of_an_incomplete_vector_is_found() {
    for length in 1..=MAX_LENGTH {
        for position in 0..length {
            let fault = |jobs: &[Job], at: usize| jobs.len() == length && at == position;
            let error = with_recovery_fault(Backend::Scalar, &fault).unwrap_err();
            assert!(
                matches!(error, SelfTestError::Recovery { length: l, position: p, .. }
                    if (l, p) == (length, position)),
                "{error}"
            );
        }
    }
}

/// A signature that is rejected before the lanes shifts the following ones to other lanes, so this test uses only
/// signatures that reach the lanes.
#[test]
fn a_wrong_result_of_a_class_in_a_single_lane_is_found() {
    let special = vectors::special();
    for vector in special.iter().filter(|vector| vector.reaches_lanes()) {
        for lane in 0..LANES {
            let fault = |jobs: &[Job], at: usize| {
                jobs.len() >= LANES && at % LANES == lane && jobs[at] == vector.job
            };
            let error = with_recovery_fault(Backend::Scalar, &fault);
            assert!(error.is_err(), "{:?} in lane {lane}", vector.class);
        }
    }
}

#[test]
fn a_wrong_hash_of_any_length_in_any_position_is_found() {
    for backend in Backend::available() {
        for (bytes, _) in HASHES {
            let fault = |messages: &[&[u8]], at: usize| messages[at].len() == bytes;
            let error = with_hash_fault(backend, &fault).unwrap_err();
            assert!(matches!(error, SelfTestError::Keccak { bytes: b, .. } if b == bytes));
        }
        for length in 1..=MAX_LENGTH {
            for position in 0..length {
                let fault =
                    |messages: &[&[u8]], at: usize| messages.len() == length && at == position;
                assert!(with_hash_fault(backend, &fault).is_err());
            }
        }
    }
}
