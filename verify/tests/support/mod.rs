//! Helpers of the recovery tests: repeatable jobs, and the comparison of every backend with libsecp256k1.

#![allow(dead_code, unreachable_pub)]

use secp256k1_batch_recovery::{Backend, Job, Outcome, Reason, Recoverer};
use std::path::PathBuf;

/// Returns whether to run the full sizes, which `EVMD_LONG_TESTS=1` requests.
pub fn long() -> bool {
    std::env::var_os("EVMD_LONG_TESTS").is_some_and(|value| value == "1")
}

/// Returns a folder of third-party data. Tests that call this are ignored by default.
pub fn fixtures(name: &str) -> PathBuf {
    let root =
        std::env::var_os("EVMD_FIXTURES").expect("EVMD_FIXTURES names a folder: run .ci/fixtures");
    let folder = PathBuf::from(root).join(name);
    assert!(folder.is_dir(), "EVMD_FIXTURES has no folder {name}: run .ci/fixtures");
    folder
}

/// n, the order of the group, big-endian.
pub const ORDER: [u8; 32] =
    hex32("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");

/// Decodes 32 bytes from 64 digits.
pub const fn hex32(digits: &str) -> [u8; 32] {
    const fn nibble(digit: u8) -> u8 {
        match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => panic!("not a lower-case hexadecimal digit"),
        }
    }
    let digits = digits.as_bytes();
    assert!(digits.len() == 64);
    let mut bytes = [0; 32];
    let mut i = 0;
    while i < 32 {
        bytes[i] = nibble(digits[2 * i]) << 4 | nibble(digits[2 * i + 1]);
        i += 1;
    }
    bytes
}

/// Decodes bytes from digits, with or without 0x.
pub fn hex(digits: &str) -> Vec<u8> {
    let digits = digits.trim_start_matches("0x");
    (0..digits.len() / 2)
        .map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect()
}

/// A deterministic generator of words (splitmix64).
pub struct Stream(pub u64);

impl Stream {
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit
    }

    pub fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.word().to_be_bytes());
        }
        bytes
    }

    /// Returns a job of random numbers. About half of these jobs have a public key.
    pub fn job(&mut self) -> Job {
        let (digest, r, s) = (self.bytes(), self.bytes(), self.bytes());
        Job { digest, r, s, recovery_id: self.below(2) as u8 }
    }

    /// Returns a random job with an unusual value, or with an unusual r and recovery id.
    pub fn mutant(&mut self) -> Job {
        let mut job = self.job();
        match self.below(16) {
            0 => job.r = [0; 32],
            1 => job.s = [0; 32],
            2 => job.r = self.edge(),
            3 => job.s = self.edge(),
            4 => job.digest = self.edge(),
            5 => job.recovery_id = self.below(8) as u8,
            6 => {
                job.r = [0; 32];
                job.r[16..].copy_from_slice(&self.bytes()[..16]);
                job.recovery_id = self.below(4) as u8;
            }
            7 => {
                job.r = [0; 32];
                job.r[31] = self.below(256) as u8;
                job.recovery_id = self.below(4) as u8;
            }
            8 => job.s[0] = 0xff,
            9 => job.digest = [0; 32],
            10 => job.digest[..16].fill(0xff),
            11 => job.digest = job.r,
            12 => job.s = job.r,
            13 => {
                let bit = self.below(256) as usize;
                job.r[bit / 8] ^= 1 << (bit % 8);
            }
            14 => job.s = self.small(),
            _ => job.r[..16].fill(0xff),
        }
        job
    }

    fn small(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[31] = self.below(40) as u8;
        bytes
    }

    /// Returns a number at most three units from 0 (modulo 2^256), n, p - n, p or n / 2.
    fn edge(&mut self) -> [u8; 32] {
        const CENTRES: [[u8; 32]; 5] = [
            [0; 32],
            ORDER,
            hex32("000000000000000000000000000000014551231950b75fc4402da1722fc9baee"),
            hex32("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f"),
            hex32("7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0"),
        ];
        let mut number = CENTRES[self.below(5) as usize];
        let down = self.below(2) == 0;
        for _ in 0..self.below(4) {
            for byte in number.iter_mut().rev() {
                *byte = if down { byte.wrapping_sub(1) } else { byte.wrapping_add(1) };
                if *byte != if down { 0xff } else { 0 } {
                    break;
                }
            }
        }
        number
    }
}

/// Returns the results of libsecp256k1.
pub fn expected(jobs: &[Job]) -> Vec<Outcome> {
    let mut outcomes = vec![Err(Reason::RecoveryId); jobs.len()];
    Recoverer::new(Backend::Scalar).recover_batch(jobs, &mut outcomes);
    outcomes
}

/// Returns a recoverer for every available backend, scalar first, and prints their names.
pub fn recoverers() -> Vec<Recoverer> {
    let available = Backend::available();
    let names: Vec<_> = available.iter().map(|backend| backend.name()).collect();
    println!("backends tested: {}", names.join(", "));
    available.into_iter().map(Recoverer::new).collect()
}

/// Asserts that a backend returns the expected outcomes.
pub fn check(recoverer: &mut Recoverer, jobs: &[Job], expected: &[Outcome]) {
    let mut outcomes = vec![Err(Reason::RecoveryId); jobs.len()];
    recoverer.recover_batch(jobs, &mut outcomes);
    for (i, (outcome, expected)) in outcomes.iter().zip(expected).enumerate() {
        let backend = recoverer.backend();
        assert_eq!(outcome, expected, "{backend}, {i} of {}: {:02x?}", jobs.len(), jobs[i]);
    }
}
