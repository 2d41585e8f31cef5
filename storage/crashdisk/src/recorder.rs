//! Runs a program and records its operations on files.

use std::{
    fs,
    io::{Error, Result},
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    disk::{Disk, Fault},
    record::{self, Event},
    tree::Tree,
};

/// Source of the preloaded library.
const SOURCE: &str = include_str!("recorder.c");
/// Environment variable with the path of the record.
const RECORD: &str = "CRASHDISK_RECORD";

/// A library that is loaded into a program, and the folder that it records.
#[derive(Debug)]
pub struct Recorder {
    library: PathBuf,
    record: PathBuf,
    root: PathBuf,
    before: Disk,
}

impl Recorder {
    /// Compiles the library into the folder `own`, and reads the files below `root` as synced.
    ///
    /// # Errors
    /// If there is no C compiler `cc`, and those of the file system.
    pub fn new(own: &Path, root: &Path) -> Result<Self> {
        let (source, library) = (own.join("recorder.c"), own.join("recorder.so"));
        fs::write(&source, SOURCE)?;
        let flags = ["-shared", "-fPIC", "-O1", "-U_FORTIFY_SOURCE"];
        let compiler =
            Command::new("cc").args(flags).arg("-o").arg(&library).arg(&source).output()?;
        if !compiler.status.success() {
            let errors = String::from_utf8_lossy(&compiler.stderr).into_owned();
            return Err(Error::other(format!("cc could not compile recorder.c: {errors}")));
        }
        let root = root.canonicalize()?;
        let before = Disk::read(&root)?;
        Ok(Self { library, record: own.join("record"), root, before })
    }

    /// Returns the recorded folder, without symbolic links in its path. The program must use this path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes a command record its operations.
    pub fn watch<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("LD_PRELOAD", &self.library).env(RECORD, &self.record)
    }

    /// Reads the record, after the program has ended or was killed.
    ///
    /// # Errors
    /// If there is none, because no program was run or it is linked statically.
    pub fn finish(self) -> Result<Recording> {
        let events = record::read(&fs::read(&self.record)?)?;
        fs::remove_file(&self.record)?;
        Ok(Recording { root: self.root, before: self.before, events })
    }
}

/// The recorded operations of a program.
#[derive(Debug)]
pub struct Recording {
    root: PathBuf,
    before: Disk,
    events: Vec<Event>,
}

impl Recording {
    /// Calls `inspect` after each event, in order, with the disk at that moment.
    pub fn replay(&self, mut inspect: impl FnMut(&Disk, &Event)) {
        let mut disk = self.before.clone();
        for event in &self.events {
            disk.apply(event);
            inspect(&disk, event);
        }
    }

    /// Returns the disk after all events.
    pub fn after(&self) -> Disk {
        let mut disk = self.before.clone();
        self.events.iter().for_each(|event| disk.apply(event));
        disk
    }

    /// Returns the renames that were not made durable before an output of the same thread or, if the program
    /// ended by itself, before its end.
    pub fn faults(&self, has_ended: bool) -> Vec<Fault> {
        let disk = self.after();
        if has_ended { disk.end() } else { disk.faults().to_vec() }
    }

    /// Returns the differences between the model with all writes, synced or not, and the actual folder. Files whose
    /// name is in `ignored` are left out. Any difference means that the recorder has missed an operation, and that
    /// its other results are invalid.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn missed(&self, ignored: &[&str]) -> Result<Vec<String>> {
        let (model, folder) = (self.after().tree(&mut || true), Tree::read(&self.root)?);
        Ok(folder.without(ignored).differences(&model.without(ignored)))
    }

    /// Returns the differences between the actual folder and the files that remain after a power failure at the end.
    /// Files whose name is in `ignored` are left out.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn lost(&self, ignored: &[&str]) -> Result<Vec<String>> {
        let (disk, folder) = (self.after().tree(&mut || false), Tree::read(&self.root)?);
        Ok(folder.without(ignored).differences(&disk.without(ignored)))
    }
}
