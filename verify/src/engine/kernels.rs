//! The entry point of each stage for each instruction set.
//!
//! A stage is generic code. It is fast only if it is compiled, with everything that it inlines,
//! under the right `#[target_feature]`. Stages are never inlined into each other, because each has
//! thousands of instructions.
#![allow(unsafe_code)]

use super::{stages, workspace::Workspace};
#[cfg(target_arch = "x86_64")]
use crate::lanes::{fma::Fma, ifma::Ifma};
use crate::{Backend, lanes::Lanes};

/// The stages over one instruction set.
pub(super) trait Kernels: Lanes {
    /// The backend that hashes the keys.
    const BACKEND: Backend;
    /// Smaller batches are faster one by one, because a vector costs the same however many lanes
    /// are used.
    const MIN_BATCH: usize;
    fn decompress(ws: &mut Workspace<Self>);
    fn scalars(ws: &mut Workspace<Self>);
    fn tables(ws: &mut Workspace<Self>);
    fn pairs(ws: &mut Workspace<Self>);
    fn base(ws: &mut Workspace<Self>);
    fn ladder(ws: &mut Workspace<Self>);
    fn finish(ws: &mut Workspace<Self>);
}

#[cfg(target_arch = "x86_64")]
macro_rules! stages {
    ($lanes:ty, $features:literal: $($stage:ident)*) => {$(
        fn $stage(ws: &mut Workspace<Self>) {
            #[target_feature(enable = $features)]
            fn run(ws: &mut Workspace<$lanes>) {
                stages::$stage(ws);
            }
            // SAFETY: an engine over these lanes is only created if their backend is available,
            // which means exactly these features.
            unsafe { run(ws) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
impl Kernels for Ifma {
    const BACKEND: Backend = Backend::Ifma;
    const MIN_BATCH: usize = 2;
    stages!(
        Ifma, "avx512f,avx512ifma,avx512dq,avx512bw,avx512vl,avx512vbmi2,bmi2":
        decompress scalars tables pairs base ladder finish
    );
}

#[cfg(target_arch = "x86_64")]
impl Kernels for Fma {
    const BACKEND: Backend = Backend::Avx2;
    const MIN_BATCH: usize = 5;
    stages!(Fma, "avx2,fma,bmi2": decompress scalars tables pairs base ladder finish);
}

#[cfg(test)]
macro_rules! model_stage {
    ($($stage:ident)*) => {$(
        fn $stage(ws: &mut Workspace<Self>) {
            stages::$stage(ws);
        }
    )*};
}

#[cfg(test)]
impl<const SIGNED: bool> Kernels for crate::lanes::model::Checked<SIGNED> {
    const BACKEND: Backend = Backend::Scalar;
    const MIN_BATCH: usize = 2;
    model_stage!(decompress scalars tables pairs base ladder finish);
}
