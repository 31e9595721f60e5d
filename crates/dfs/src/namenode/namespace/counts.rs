use std::ops::{AddAssign, SubAssign};

/// What is below a directory, in all its subdirectories, or what a file is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Directories, without the one that is asked.
    pub directories: u64,
    /// Files.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes on disk, with all replicas.
    pub space: u64,
    /// Bytes on disk that blocks may take beyond that while they are written.
    pub reserved: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.directories += other.directories;
        self.files += other.files;
        self.bytes += other.bytes;
        self.space += other.space;
        self.reserved += other.reserved;
    }
}

impl SubAssign for Counts {
    /// # Panics
    /// If it takes away what was never added.
    fn sub_assign(&mut self, other: Self) {
        let less = |from: u64, by: u64| from.checked_sub(by).expect("only what was added is taken away");
        self.directories = less(self.directories, other.directories);
        self.files = less(self.files, other.files);
        self.bytes = less(self.bytes, other.bytes);
        self.space = less(self.space, other.space);
        self.reserved = less(self.reserved, other.reserved);
    }
}
