//! Tests how commands write files: links, pipes, and names that are not UTF-8.

use crate::common::{exported_chain, import, native_home};
use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

fn evmd<'a>(args: impl IntoIterator<Item = &'a OsStr>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_evmd")).args(args).output().unwrap()
}

fn succeed<const N: usize>(args: [&dyn AsRef<OsStr>; N]) {
    let output = evmd(args.map(|arg| arg.as_ref()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a home with at least eight blocks. Returns it and the file from which the blocks were imported.
fn home_with_blocks(folder: &Path) -> (PathBuf, PathBuf) {
    let (home, blocks) = (folder.join("home"), folder.join("blocks.rlp"));
    exported_chain(&blocks, 8);
    import(&native_home(&home), vec![blocks.clone()]).unwrap();
    (home, blocks)
}

#[test]
fn linked_settings_file_remains_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (home, real) = (folder.path().join("home"), folder.path().join("real.toml"));
    drop(native_home(&home));
    let link = home.join("config.toml");
    fs::rename(&link, &real).unwrap();
    symlink(&real, &link).unwrap();
    succeed([&"config", &"set", &"engine.block-time-ms", &"1234", &"--home", &home]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("block-time-ms = 1234"));
}

#[test]
fn export_to_a_pipe_is_complete_and_a_failed_export_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let (home, blocks) = home_with_blocks(folder.path());
    let expected = fs::read(blocks).unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || fs::read(pipe).unwrap()
    });
    succeed([&"export", &pipe, &"--home", &home]);
    assert_eq!(reader.join().unwrap(), expected);

    let file = folder.path().join("old.rlp");
    fs::write(&file, b"old").unwrap();
    let script = "ulimit -f 1; trap '' XFSZ; exec \"$0\" export \"$1\" --home \"$2\"";
    let evmd = env!("CARGO_BIN_EXE_evmd");
    let limited =
        Command::new("sh").args(["-c", script, evmd]).args([&file, &home]).output().unwrap();
    assert_eq!(limited.status.code(), Some(1), "{}", String::from_utf8_lossy(&limited.stderr));
    assert_eq!(fs::read(&file).unwrap(), b"old");
    succeed([&"export", &file, &"--home", &home]);
    assert_eq!(fs::read(&file).unwrap(), expected);
}

#[test]
fn names_that_are_not_utf8_are_shown_with_replacements() {
    let folder = tempfile::tempdir().unwrap();
    let (home, _) = home_with_blocks(folder.path());
    let non_utf8 = |name: &str| {
        let name = OsString::from(OsStr::from_bytes(&[name.as_bytes(), b"\xff"].concat()));
        folder.path().join(name)
    };
    let json = |args: &[&OsStr]| {
        let args = args.iter().copied().chain(["-o", "json"].map(OsStr::new));
        let output = evmd(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(value.to_string().contains('\u{fffd}'), "{value}");
    };
    let os = |word: &'static str| OsStr::new(word);
    let (home, init) = (home.as_os_str(), non_utf8("home"));
    json(&[os("init"), os("--home"), init.as_os_str()]);
    json(&[os("export"), non_utf8("file").as_os_str(), os("--home"), home]);
    json(&[os("snapshot"), os("create"), non_utf8("copy").as_os_str(), os("--home"), home]);
    let restored = non_utf8("restored");
    let copy = non_utf8("copy");
    json(&[os("snapshot"), os("restore"), copy.as_os_str(), os("--home"), restored.as_os_str()]);
    let genesis = non_utf8("genesis");
    let address = format!("0x{:040x}", 0xabc);
    let file = os("--file");
    json(&[
        os("genesis"),
        os("add-account"),
        OsStr::new(&address),
        os("7"),
        file,
        genesis.as_os_str(),
    ]);
}
