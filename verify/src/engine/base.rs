//! The table of multiples of G, which all signatures share.
//!
//! Row 32 c1 + c2 is (2 c1 - 31) G + (2 c2 - 31) lambda G + B, which is what one window of u1 adds. The blinding
//! point B = b G is random and chosen once per process, so that a client cannot craft a signature whose partial
//! sums collide with a row. `start` is chosen so that all B cancel in the last window, and not before. b affects
//! speed, not correctness: collisions are detected, and libsecp256k1 recovers the lane.

use crate::limbs::from_be_bytes;
use secp256k1::{PublicKey, Scalar, SecretKey};
use std::sync::{Arc, OnceLock};

/// Number of values of one digit: the odd numbers from -31 to 31.
const DIGITS: usize = 32;
/// Number of rows: one for each pair of digits.
const ROWS: usize = DIGITS * DIGITS;
/// -S / 32^25 modulo n, where S = (32^26 - 1) / 31 is the sum of the windows' weights. The starting point is this
/// times B.
const START: [u8; 32] = [
    0x88, 0x6c, 0xac, 0x12, 0xa2, 0x40, 0x7f, 0x01, 0x1b, 0xa0, 0x83, 0xf9, 0x60, 0x65, 0x57, 0x07,
    0x52, 0xa2, 0xcc, 0x75, 0x8c, 0xf7, 0xbf, 0xdd, 0x01, 0xa1, 0xa4, 0x5a, 0x14, 0xb9, 0x2d, 0xc2,
];
/// The eigenvalue of the curve's endomorphism.
const LAMBDA: [u8; 32] = [
    0x53, 0x63, 0xad, 0x4c, 0xc0, 0x5c, 0x30, 0xe0, 0xa5, 0x26, 0x1c, 0x02, 0x88, 0x12, 0x64, 0x5a,
    0x12, 0x2e, 0x22, 0xea, 0x20, 0x81, 0x66, 0x78, 0xdf, 0x02, 0x96, 0x7c, 0x1b, 0x23, 0xbd, 0x72,
];

/// An affine point in little-endian words; one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Row {
    pub(super) x: [u64; 4],
    pub(super) y: [u64; 4],
}

/// The rows and the starting point of the main loop.
#[derive(Debug)]
pub(crate) struct BaseTable {
    rows: Box<[Row; ROWS]>,
    start: Row,
}

impl BaseTable {
    /// Returns the table of this process.
    pub(crate) fn shared() -> Arc<Self> {
        static TABLE: OnceLock<Arc<BaseTable>> = OnceLock::new();
        let make = || {
            loop {
                // A random b is rejected if it is zero, is not below n, or puts a row at infinity, which has a
                // probability of about 2^-128.
                if let Some(table) = Self::new(random_bytes()) {
                    return Arc::new(table);
                }
            }
        };
        Arc::clone(TABLE.get_or_init(make))
    }

    /// Creates the table for this b; returns `None` if b is out of range or a row would be at infinity.
    pub(crate) fn new(b: [u8; 32]) -> Option<Self> {
        let b = SecretKey::from_secret_bytes(b).ok()?;
        let lambda = Scalar::from_be_bytes(LAMBDA).ok()?;
        let mut rows = Box::new([Row { x: [0; 4], y: [0; 4] }; ROWS]);
        // One multiplication per digit, and one addition per pair of digits.
        let mut firsts = Vec::with_capacity(DIGITS);
        let mut seconds = Vec::with_capacity(DIGITS);
        for c in 0..DIGITS {
            let digit = odd_digit(c)?;
            firsts.push(PublicKey::from_secret_key(&digit));
            let second = Scalar::from(digit.mul_tweak(&lambda).ok()?);
            seconds.push(PublicKey::from_secret_key(&b.add_tweak(&second).ok()?));
        }
        for (i, row) in rows.iter_mut().enumerate() {
            *row = Row::of(&firsts[i / DIGITS].combine(&seconds[i % DIGITS]).ok()?);
        }
        let start = b.mul_tweak(&Scalar::from_be_bytes(START).ok()?).ok()?;
        Some(Self { rows, start: Row::of(&PublicKey::from_secret_key(&start)) })
    }

    /// Returns row `i`.
    #[inline(always)]
    pub(super) fn row(&self, i: usize) -> &Row {
        &self.rows[i % ROWS]
    }

    /// Returns the starting point of the main loop.
    pub(super) const fn start(&self) -> &Row {
        &self.start
    }
}

impl Row {
    fn of(point: &PublicKey) -> Self {
        let bytes = point.serialize_uncompressed();
        let half = |from: usize| {
            from_be_bytes(bytes[from..from + 32].try_into().expect("65 bytes: tag, x, y"))
        };
        Self { x: half(1), y: half(33) }
    }
}

/// Returns 2 c - 31 as a scalar.
fn odd_digit(c: usize) -> Option<SecretKey> {
    let mut bytes = [0; 32];
    bytes[31] = (2 * c as u8).abs_diff(31);
    let magnitude = SecretKey::from_secret_bytes(bytes).ok()?;
    Some(if c < 16 { magnitude.negate() } else { magnitude })
}

/// Returns unpredictable bytes.
fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the operating system returns random bytes");
    bytes
}
