//! Proofs that this processor has an instruction set.
//!
//! A value of these types exists only if the instructions were detected at run time, so vector code that takes
//! one cannot be called on a processor without them. The values take no memory, and cannot be created in any other
//! way:
//!
//! ```compile_fail
//! let processor = secp256k1_batch_recovery::Avx512Ifma(());
//! ```

/// Proof of AVX2, FMA and BMI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Avx2(());

impl Avx2 {
    /// Returns the proof if this processor and operating system have these features.
    pub fn detect() -> Option<Self> {
        let is_available = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi2");
        is_available.then_some(Self(()))
    }
}

/// Proof of AVX-512 F, IFMA, DQ, BW, VL and VBMI2, and of BMI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Avx512Ifma(());

impl Avx512Ifma {
    /// Returns the proof if this processor and operating system have these features.
    pub fn detect() -> Option<Self> {
        let is_available = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512ifma")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("bmi2");
        is_available.then_some(Self(()))
    }
}
