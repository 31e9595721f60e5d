//! HDFS's storage policies, by number and name.

use std::fmt;

use crate::wire::proto::attributes::{self, StorageTypes};

/// Kinds of storages, by HDFS's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageType {
    /// A spinning disk, or what is taken for one: all storages here.
    Disk = 1,
    /// A solid state disk.
    Ssd = 2,
    /// Dense and slow.
    Archive = 3,
    /// Memory.
    RamDisk = 4,
    /// A store beside HDFS.
    Provided = 5,
    /// Memory that lasts.
    Nvdimm = 6,
}

use StorageType::{Archive, Disk, Nvdimm, Provided, RamDisk, Ssd};

/// A storage policy.
#[derive(Debug)]
pub struct StoragePolicy {
    /// Its number, 1 to 15.
    pub id: u8,
    /// Its name.
    pub name: &'static str,
    /// Where the copies of a block go.
    pub creation: &'static [StorageType],
    /// Where they go if there is no such storage.
    pub creation_fallback: &'static [StorageType],
    /// Where copies go that are made again, if there is no such storage.
    pub replication_fallback: &'static [StorageType],
    /// True if a file has it from its creation or not at all.
    pub is_of_new_files: bool,
}

const fn policy(
    id: u8,
    name: &'static str,
    creation: &'static [StorageType],
    [creation_fallback, replication_fallback]: [&'static [StorageType]; 2],
) -> StoragePolicy {
    let is_of_new_files = id == 15;
    StoragePolicy { id, name, creation, creation_fallback, replication_fallback, is_of_new_files }
}

impl StoragePolicy {
    /// All, by number (`BlockStoragePolicySuite`).
    pub const ALL: &'static [Self] = &[
        policy(1, "PROVIDED", &[Provided, Disk], [&[Provided, Disk]; 2]),
        policy(2, "COLD", &[Archive], [&[]; 2]),
        policy(5, "WARM", &[Disk, Archive], [&[Disk, Archive]; 2]),
        policy(7, "HOT", &[Disk], [&[], &[Archive]]),
        policy(10, "ONE_SSD", &[Ssd, Disk], [&[Ssd, Disk]; 2]),
        policy(12, "ALL_SSD", &[Ssd], [&[Disk]; 2]),
        policy(14, "ALL_NVDIMM", &[Nvdimm], [&[Disk]; 2]),
        policy(15, "LAZY_PERSIST", &[RamDisk, Disk], [&[Disk]; 2]),
    ];
    /// What files have for which nobody has set another.
    pub const HOT: &'static Self = &Self::ALL[3];

    /// The policy of a number.
    pub fn of(id: u8) -> Option<&'static Self> {
        Self::ALL.iter().find(|policy| policy.id == id)
    }

    /// The policy of a name, in any case of letters.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|policy| policy.name.eq_ignore_ascii_case(name))
    }

    /// True if blocks of new files may be on disks, be it for want of anything else.
    pub fn allows_disks(&self) -> bool {
        self.creation.contains(&Disk) || self.creation_fallback.contains(&Disk)
    }

    /// The policy as clients get it.
    pub fn to_message(&self) -> attributes::StoragePolicy {
        let types =
            |types: &[StorageType]| StorageTypes { types: types.iter().map(|kind| *kind as i32).collect() };
        attributes::StoragePolicy {
            id: self.id.into(),
            name: self.name.to_owned(),
            creation: types(self.creation),
            creation_fallback: Some(types(self.creation_fallback)),
            replication_fallback: Some(types(self.replication_fallback)),
        }
    }
}

impl fmt::Display for StoragePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |types: &[StorageType]| {
            let words = types.iter().map(|kind| match kind {
                Disk => "DISK",
                Ssd => "SSD",
                Archive => "ARCHIVE",
                RamDisk => "RAM_DISK",
                Provided => "PROVIDED",
                Nvdimm => "NVDIMM",
            });
            words.collect::<Vec<_>>().join(", ")
        };
        let (creation, fallback) = (list(self.creation), list(self.creation_fallback));
        write!(
            f,
            "BlockStoragePolicy{{{}:{}, storageTypes=[{creation}], creationFallbacks=[{fallback}], replicationFallbacks=[{}]}}",
            self.name,
            self.id,
            list(self.replication_fallback)
        )
    }
}
