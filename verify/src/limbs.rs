//! 256-bit numbers as four little-endian words, for arithmetic outside of vectors.

/// n, the order of the group.
pub(crate) const ORDER_WORDS: [u64; 4] =
    [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, u64::MAX];

/// Returns the words of a big-endian number.
#[inline(always)]
pub(crate) fn from_be_bytes(bytes: &[u8; 32]) -> [u64; 4] {
    let word = |from: usize| {
        u64::from_be_bytes(bytes[from..from + 8].try_into().expect("eight of 32 bytes"))
    };
    [word(24), word(16), word(8), word(0)]
}

/// Returns the big-endian bytes of a number.
#[inline(always)]
pub(crate) fn to_be_bytes(words: &[u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words.iter().rev()) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// Returns `a - b`, and whether it borrowed, which means `a < b`.
#[inline(always)]
pub(crate) fn subtract(a: &[u64; 4], b: &[u64; 4]) -> ([u64; 4], bool) {
    let mut borrow = false;
    let mut difference = [0; 4];
    for i in 0..4 {
        let (d, first) = a[i].overflowing_sub(b[i]);
        let (d, second) = d.overflowing_sub(u64::from(borrow));
        difference[i] = d;
        borrow = first || second;
    }
    (difference, borrow)
}

/// Returns `a + b` modulo 2^256.
pub(crate) fn add(a: &[u64; 4], b: &[u64; 4]) -> [u64; 4] {
    let mut carry = false;
    let mut sum = [0; 4];
    for i in 0..4 {
        let (s, first) = a[i].overflowing_add(b[i]);
        let (s, second) = s.overflowing_add(u64::from(carry));
        sum[i] = s;
        carry = first || second;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle;

    #[test]
    fn sums_differences_and_bytes_match_big_integers() {
        let top = num_bigint::BigUint::from(1u8) << 256u32;
        let edges: Vec<_> = oracle::scalar_edges().iter().map(oracle::to_words).collect();
        for a in &edges {
            assert_eq!(from_be_bytes(&to_be_bytes(a)), *a);
            for b in &edges {
                let (va, vb) = (oracle::from_words(a), oracle::from_words(b));
                assert_eq!(oracle::from_words(&add(a, b)), (&va + &vb) % &top);
                let (difference, borrow) = subtract(a, b);
                assert_eq!(borrow, va < vb);
                assert_eq!(oracle::from_words(&difference), (&va + &top - &vb) % &top);
            }
        }
    }
}
