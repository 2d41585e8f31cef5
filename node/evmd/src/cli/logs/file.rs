//! Writes a log file with a maximum size. At that size the file is renamed and a new one is started, so the file with
//! the given name is always the newest, and the total size is bounded. Appenders that start a file for each day have
//! neither property.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Maximum size of a file in bytes: about 300,000 lines, which editors can open.
const MAX_LOG_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum number of files, including the current one. Together they have at most 320 MiB: weeks of lines at the
/// default levels, or hours at `-vv` under load.
const MAX_LOG_FILES: usize = 5;

/// The current file, and the number of bytes in it.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
}

impl LogFile {
    /// Opens a file to append to it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::with_max_bytes(path, MAX_LOG_FILE_BYTES)
    }

    fn with_max_bytes(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let file = appending(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes, max_bytes })
    }

    /// Renames each file to the next number, which overwrites the oldest, and starts a new file.
    fn rotate(&mut self) -> io::Result<()> {
        for number in (1..MAX_LOG_FILES - 1).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.numbered(1))?;
        self.file = appending(&self.path)?;
        Ok(())
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{number}"));
        path.into()
    }
}

fn appending(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.max_bytes {
            // If the file cannot be renamed, lines are still written to it, and renaming is tried again after another
            // `max_bytes`.
            self.bytes = 0;
            let _ = self.rotate();
        }
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_size_of_files_are_bounded_and_the_newest_lines_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.log");
        let mut file = LogFile::with_max_bytes(&path, 20).unwrap();
        // Two lines of nine bytes fit into a file.
        let lines: Vec<String> = (0..21).map(|number| format!("line {number:3}\n")).collect();
        for line in &lines {
            file.write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), MAX_LOG_FILES);
        let oldest_first = (1..MAX_LOG_FILES).rev().map(|number| file.numbered(number));
        let kept: String =
            oldest_first.chain([path]).map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(kept, lines[12..].concat());
    }

    #[test]
    fn lines_are_appended_to_an_existing_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.log");
        for line in ["first\n", "second\n", "third\n"] {
            LogFile::with_max_bytes(&path, 15).unwrap().write_all(line.as_bytes()).unwrap();
        }
        assert_eq!(
            fs::read_to_string(folder.path().join("node.log.1")).unwrap(),
            "first\nsecond\n"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "third\n");
    }

    #[test]
    fn lines_are_written_if_the_file_cannot_be_renamed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node.log");
        let mut file = LogFile::with_max_bytes(&path, 10).unwrap();
        // A file cannot be renamed to the path of a folder.
        fs::create_dir(file.numbered(MAX_LOG_FILES - 1)).unwrap();
        fs::write(file.numbered(MAX_LOG_FILES - 2), "old").unwrap();
        for _ in 0..3 {
            file.write_all(b"a line\n").unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "a line\n".repeat(3));
    }
}
