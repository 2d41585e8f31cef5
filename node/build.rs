//! Compiles the definitions of `proto` into messages and services, and into descriptors for
//! reflection and JSON. In Rust alone: no `protoc` is needed.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let mut files = Vec::new();
    collect(Path::new("proto"), &mut files)?;
    files.sort();
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(&files)?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    // Encoded by the compiler itself: the set below does not hold options of our own.
    fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    let mut config = prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .include_file("proto.rs")
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}

/// All definitions below a folder, as their importers name them.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path.strip_prefix("proto")?.to_owned());
        }
    }
    Ok(())
}
