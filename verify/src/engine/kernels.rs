//! The entry of each stage per instruction set.
//!
//! A stage is generic code; what makes it fast is to be compiled, with everything it inlines,
//! under the right `#[target_feature]`. Stages are never inlined into one another: each is
//! thousands of instructions already.
#![allow(unsafe_code)]

use super::{stages, workspace::Workspace};
#[cfg(target_arch = "x86_64")]
use crate::lanes::ifma::Ifma;
use crate::{Backend, lanes::Lanes};

/// The stages over one instruction set.
pub(super) trait Kernels: Lanes {
    /// The backend whose hashing goes with it.
    const BACKEND: Backend;
    fn decompress(ws: &mut Workspace<Self>);
    fn scalars(ws: &mut Workspace<Self>);
    fn tables(ws: &mut Workspace<Self>);
    fn pairs(ws: &mut Workspace<Self>);
    fn base(ws: &mut Workspace<Self>);
    fn ladder(ws: &mut Workspace<Self>);
    fn finish(ws: &mut Workspace<Self>);
}

#[cfg(target_arch = "x86_64")]
macro_rules! ifma_stage {
    ($($stage:ident)*) => {$(
        fn $stage(ws: &mut Workspace<Self>) {
            #[target_feature(
                enable = "avx512f,avx512ifma,avx512dq,avx512bw,avx512vl,avx512vbmi2,bmi2"
            )]
            fn run(ws: &mut Workspace<Ifma>) {
                stages::$stage(ws);
            }
            // SAFETY: an engine of `Ifma` is only made where `Backend::Ifma` is available, which
            // means exactly these features.
            unsafe { run(ws) }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
impl Kernels for Ifma {
    const BACKEND: Backend = Backend::Ifma;
    ifma_stage!(decompress scalars tables pairs base ladder finish);
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
impl Kernels for crate::lanes::model::Model {
    const BACKEND: Backend = Backend::Scalar;
    model_stage!(decompress scalars tables pairs base ladder finish);
}
