//! The signatures and messages of the self-test. The known answers were computed by a separate program with
//! arbitrary-precision integers and textbook formulas.

use super::VectorClass;
use crate::{
    Job, Key, Outcome, Reason, keccak256,
    limbs::{self, ORDER_WORDS},
    scalar,
};

/// A signature with its expected result.
#[derive(Clone, Debug)]
pub(super) struct Vector {
    pub(super) class: VectorClass,
    pub(super) job: Job,
    pub(super) expected: Outcome,
}

impl Vector {
    /// Returns whether the class is special and the signature reaches the lanes: no earlier check rejects it.
    pub(super) const fn reaches_lanes(&self) -> bool {
        matches!(
            self.class,
            VectorClass::NotOnCurve | VectorClass::Infinity | VectorClass::XPlusOrder
        )
    }
}

/// The digest and the s of the known answers: the Keccak-256 of the letters z and s.
const DIGEST: [u8; 32] = bytes("41e406698d040bb44cf693b3dc50c37cf3c854c422d2645b1101662741fbaa88");
const S: [u8; 32] = bytes("60a73bfb121a98fb6b52dfb29eb0defd76b60065b8cf07902baf28c167d24daf");
/// The x of the generator G. Its y is even.
const GENERATOR_X: [u8; 32] =
    bytes("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798");
/// p - n: for a smaller r, R's x may be r + n.
const P_MINUS_N: [u8; 32] =
    bytes("000000000000000000000000000000014551231950b75fc4402da1722fc9baee");
/// The largest r for which r + n is the x of a point: p - n - 3.
const LARGEST_R: [u8; 32] =
    bytes("000000000000000000000000000000014551231950b75fc4402da1722fc9baeb");

/// r, recovery id, public key and address, for [`DIGEST`] and [`S`].
type KnownAnswer = ([u8; 32], u8, [u8; 64], [u8; 20]);

const KNOWN: [KnownAnswer; 5] = [
    (
        small(1),
        0,
        bytes(
            "8dcd67c195bcbb3aa6b3697308a0ed4d5ce303c127802d9b0a545fcf50791b33\
             8e9a37df69ce5e171b55557b1d9c2c2114b9b218721f84857498f1e17d10347c",
        ),
        bytes("88222c3a0615d28b637a882713e14481c14b7d55"),
    ),
    (
        small(1),
        1,
        bytes(
            "08b22f2847e92fea5631e84d889b1002da998ded45e018add9a8e3ceb11ce6ec\
             a144dd8fc980aecb73b9c270cf73e1b277c82c9eacf06c28902f7e1993bddc9e",
        ),
        bytes("9f10806b3de75e0977895a6c3b4dc2fd1646bb32"),
    ),
    (
        small(2),
        2,
        bytes(
            "dcf2426ab0e61e59281147dbbc86f58bfc8ad12ca6cf1a3a82b0a07e2eb404d6\
             96eb22e67a05ad3cdc12e07c2910dc6db842194fd89bffd756e87420e35a42d3",
        ),
        bytes("47a483ec2daf5a0ce151a47792275496dbfdbda7"),
    ),
    (
        small(4),
        3,
        bytes(
            "9d9078b36f1a798c9e6977fd52e9233fe3c23cb8d7d48663790ec5335d404f18\
             baf1534fb1e54f3082caa3063d9b38dbc24d217b646d80ddd154bc4f83d28263",
        ),
        bytes("45ad491421c3c8c15c19160edf43faa433451672"),
    ),
    (
        LARGEST_R,
        2,
        bytes(
            "c9cb328b2f6aed42b5f91965b90eb4e13c5604bdf70e959b918d22d03fabd7f6\
             4956aa27e98ffdbdfdb4b1b5871e7ccf24e61522d9ffed8cc9f59096ba3c5578",
        ),
        bytes("7ce4c27c5c8ea1491cda0150073ce56589ec2ad9"),
    ),
];

/// Lengths and hashes of [`message`], with lengths around the rate of Keccak-256, which is 136 bytes.
pub(super) const HASHES: [(usize, [u8; 32]); 6] = [
    (0, bytes("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470")),
    (1, bytes("5fe7f977e71dba2ea1a68e21057beebb9be2ac30c6410aa38d4f3fbe41dcffd2")),
    (135, bytes("d442e2e5a608e8e4142d9adcf549171bf969ed2e6788d8bbc6ec9874e38b25f0")),
    (136, bytes("ec2987c486f9882fd5369e34a81a9dfd047381ffaa80f3c20ac8388e07f5860c")),
    (137, bytes("da98ab1e0338ec111c87dcd442997e6793df057dd13e67ab88d472eba9810b81")),
    (272, bytes("c012324a46c22db3c31ac90fd557b5c1ec41d61fd76fd7df9b2ef911d0a932f9")),
];

/// Returns a message of this length.
pub(super) fn message(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + length) as u8).collect()
}

/// Returns signatures of every class except [`VectorClass::Plain`], and known answers of that class.
pub(super) fn special() -> Vec<Vector> {
    let order = limbs::to_be_bytes(&ORDER_WORDS);
    let job = |r, s, recovery_id| Job { digest: DIGEST, r, s, recovery_id };
    let rejected = |class, job, reason| Vector { class, job, expected: Err(reason) };
    let mut vectors: Vec<_> = KNOWN
        .iter()
        .map(|&(r, id, public_key, address)| Vector {
            class: if id < 2 { VectorClass::Plain } else { VectorClass::XPlusOrder },
            job: job(r, S, id),
            expected: Ok(Key { public_key, address }),
        })
        .collect();
    // For R = G and s = z, s R - z G is at infinity; for R = -G it is at infinity if s = -z.
    let minus_s = limbs::subtract(&ORDER_WORDS, &limbs::from_be_bytes(&S)).0;
    for (digest, recovery_id) in [(S, 0), (limbs::to_be_bytes(&minus_s), 1)] {
        let job = Job { digest, r: GENERATOR_X, s: S, recovery_id };
        vectors.push(rejected(VectorClass::Infinity, job, Reason::NoPublicKey));
    }
    // None of 5, 1 + n and 3 + n is the x of a point.
    for (r, id) in [(small(5), 0), (small(5), 1), (small(1), 2), (small(3), 3)] {
        vectors.push(rejected(VectorClass::NotOnCurve, job(r, S, id), Reason::NoPublicKey));
    }
    for (r, id) in [(P_MINUS_N, 2), (P_MINUS_N, 3), (GENERATOR_X, 2)] {
        vectors.push(rejected(VectorClass::XAbovePrime, job(r, S, id), Reason::NoPublicKey));
    }
    for wrong in [[0; 32], order, [0xff; 32]] {
        for (r, s) in [(wrong, S), (small(1), wrong)] {
            let reason = Reason::ScalarOutOfRange;
            vectors.push(rejected(VectorClass::OutOfRange, job(r, s, 0), reason));
        }
    }
    for id in [4, 5, u8::MAX] {
        let job = job(small(1), S, id);
        vectors.push(rejected(VectorClass::RecoveryId, job, Reason::RecoveryId));
    }
    vectors
}

/// Returns ordinary signatures, whose numbers are hashes.
pub(super) fn plain(count: usize) -> Vec<Vector> {
    let job = |i: u64| {
        let number = |tag: u64| keccak256(&[i.to_be_bytes(), tag.to_be_bytes()].concat());
        Job { digest: number(0), r: number(1), s: number(2), recovery_id: (i % 2) as u8 }
    };
    let vectors = (0..).map(job).filter_map(|job| {
        let expected = scalar::recover(&job);
        expected.is_ok().then_some(Vector { class: VectorClass::Plain, job, expected })
    });
    vectors.take(count).collect()
}

const fn small(value: u8) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[31] = value;
    bytes
}

/// Decodes lower-case hexadecimal digits.
const fn bytes<const N: usize>(digits: &str) -> [u8; N] {
    const fn nibble(digit: u8) -> u8 {
        match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => panic!("not a lower-case hexadecimal digit"),
        }
    }
    let digits = digits.as_bytes();
    assert!(digits.len() == 2 * N, "two digits a byte");
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        bytes[i] = nibble(digits[2 * i]) << 4 | nibble(digits[2 * i + 1]);
        i += 1;
    }
    bytes
}
