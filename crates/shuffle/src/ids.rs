//! The identifiers of a shuffle, each its own type, displayed the way the wire and the logs show them.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Arc;

/// Text that is not the identifier it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: expected {expected}")]
pub struct ParseIdError {
    text: String,
    what: &'static str,
    expected: &'static str,
}

impl ParseIdError {
    fn new(text: &str, what: &'static str, expected: &'static str) -> Self {
        // An identifier comes from a peer: the message shows its beginning, never megabytes of it.
        let text = text.chars().take(120).collect();
        Self { text, what, expected }
    }
}

macro_rules! integer_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub i32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<i32> for $name {
            fn from(value: i32) -> Self {
                Self(value)
            }
        }
    };
}

integer_id! {
    /// A shuffle within an application.
    ShuffleId
}
integer_id! {
    /// A reduce partition of a shuffle, from 0.
    PartitionId
}
integer_id! {
    /// Sequence number of a partition's location: 0 at registration, higher with each revive or split.
    Epoch
}
integer_id! {
    /// A map task's index within its stage, from 0.
    MapId
}
integer_id! {
    /// An attempt of a map task. Spark 3 packs `(stage attempt << 16) | task attempt`; -1 means "no winner yet".
    AttemptId
}
integer_id! {
    /// A batch within (partition, map, attempt). The JVM counts from 1, Sail from 0.
    BatchId
}

impl Epoch {
    /// That of the locations with which a partition begins.
    pub const FIRST: Self = Self(0);
}

impl AttemptId {
    /// The value that stands for "this map has not ended" in a commit's list of winners.
    pub const NONE: Self = Self(-1);
}

/// A driver, told apart from other drivers by where it listens. A number of 64 bits stands for that: two drivers have the
/// same one by chance only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriverId(NonZeroU64);

impl DriverId {
    /// The driver that listens at this address. The number is the same in every process and version (FNV-1a), because it is
    /// kept on disk.
    pub fn at(host: &[u8], port: i32) -> Self {
        let bytes = host.iter().copied().chain([0]).chain(port.to_be_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MAX))
    }

    /// The driver with this number; 0 stands for none that is known.
    pub fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Its number.
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

/// An application: the unit that registers, heartbeats and is expired. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationId(Arc<str>);

impl ApplicationId {
    /// Wraps the name that the client chose.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// The name as the client sent it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ApplicationId {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for ApplicationId {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for ApplicationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A shuffle across applications, displayed `<application>-<shuffle>`, which is how frames and the HTTP API name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShuffleKey {
    /// Whose shuffle.
    pub application: ApplicationId,
    /// Which of its shuffles.
    pub shuffle: ShuffleId,
}

impl ShuffleKey {
    /// Joins the two halves.
    pub fn new(application: impl Into<ApplicationId>, shuffle: impl Into<ShuffleId>) -> Self {
        Self { application: application.into(), shuffle: shuffle.into() }
    }
}

impl fmt::Display for ShuffleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.application, self.shuffle)
    }
}

impl FromStr for ShuffleKey {
    type Err = ParseIdError;

    /// Splits at the last `-`: application ids contain dashes of their own.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseIdError::new(text, "shuffle key", "`<application>-<shuffle>`");
        let (application, shuffle) = text.rsplit_once('-').ok_or_else(error)?;
        let shuffle = parse_ordinal(shuffle).ok_or_else(error)?;
        if application.is_empty() {
            return Err(error());
        }
        Ok(Self::new(application, shuffle))
    }
}

/// Which copy of a partition location a worker holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Mode {
    /// The copy that clients push to.
    #[default]
    Primary,
    /// The copy that the primary's worker pushes to.
    Replica,
}

impl Mode {
    /// The number on the wire: 0 primary, 1 replica.
    pub fn to_wire(self) -> u8 {
        match self {
            Self::Primary => 0,
            Self::Replica => 1,
        }
    }

    /// The mode of a number from the wire.
    pub fn from_wire(number: i32) -> Option<Self> {
        match number {
            0 => Some(Self::Primary),
            1 => Some(Self::Replica),
            _ => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_wire().fmt(f)
    }
}

/// What becomes of a location that outgrows its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SplitMode {
    /// It goes on taking batches while clients turn to the next one.
    #[default]
    Soft,
    /// It takes no more: what is pushed to it is refused, and goes to the next one.
    Hard,
}

impl SplitMode {
    /// The number on the wire: 0 soft, 1 hard.
    pub fn to_wire(self) -> i32 {
        match self {
            Self::Soft => 0,
            Self::Hard => 1,
        }
    }

    /// The mode of a number from the wire. One that is not known is soft: no batch is refused for it.
    pub fn from_wire(number: i32) -> Self {
        if number == 1 { Self::Hard } else { Self::Soft }
    }
}

/// A partition location within a shuffle, displayed `<partition>-<epoch>` (the protocol's "unique id").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LocationId {
    /// The reduce partition.
    pub partition: PartitionId,
    /// Which of its locations.
    pub epoch: Epoch,
}

impl LocationId {
    /// Joins the two halves.
    pub fn new(partition: impl Into<PartitionId>, epoch: impl Into<Epoch>) -> Self {
        Self { partition: partition.into(), epoch: epoch.into() }
    }
}

impl fmt::Display for LocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.partition, self.epoch)
    }
}

impl FromStr for LocationId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (partition, epoch) = text.split_once('-')?;
            Some(Self::new(parse_ordinal(partition)?, parse_ordinal(epoch)?))
        };
        parse().ok_or_else(|| ParseIdError::new(text, "partition location", "`<partition>-<epoch>`"))
    }
}

/// One copy of one location, displayed `<partition>-<epoch>-<mode>`: the "file name" that a reader opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    /// Which location.
    pub location: LocationId,
    /// Which of its copies.
    pub mode: Mode,
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.location, self.mode)
    }
}

impl FromStr for FileName {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (location, mode) = text.rsplit_once('-')?;
            Some(Self { location: location.parse().ok()?, mode: Mode::from_wire(parse_ordinal(mode)?)? })
        };
        parse().ok_or_else(|| ParseIdError::new(text, "shuffle file name", "`<partition>-<epoch>-<0|1>`"))
    }
}

/// A worker as clients know it, displayed `host:rpc:push:fetch:replicate`. Two workers are the same if all five agree;
/// the host is compared as text, never resolved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId {
    /// The name or address that executors connect to.
    pub host: Arc<str>,
    /// The listener for reserve, commit and destroy.
    pub rpc_port: u16,
    /// The listener for pushes.
    pub push_port: u16,
    /// The listener for reads.
    pub fetch_port: u16,
    /// The listener for copies from other workers.
    pub replicate_port: u16,
}

impl WorkerId {
    /// The most ports for pushes that a worker has.
    pub const PUSH_PORTS_MAX: usize = 64;

    /// `host:port` to connect to one of its ports, with an IPv6 address in brackets.
    pub fn address(&self, port: u16) -> String {
        if self.host.contains(':') {
            format!("[{}]:{port}", self.host)
        } else {
            format!("{}:{port}", self.host)
        }
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, rpc_port, push_port, fetch_port, replicate_port } = self;
        write!(f, "{host}:{rpc_port}:{push_port}:{fetch_port}:{replicate_port}")
    }
}

impl FromStr for WorkerId {
    type Err = ParseIdError;

    /// Reads the ports from the right, so that an IPv6 address survives as the host.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let mut parts = text.rsplitn(5, ':');
            let mut port = || u16::try_from(parse_ordinal(parts.next()?)?).ok();
            let (replicate_port, fetch_port, push_port, rpc_port) = (port()?, port()?, port()?, port()?);
            let host = parts.next().filter(|host| !host.is_empty())?.into();
            Some(Self { host, rpc_port, push_port, fetch_port, replicate_port })
        };
        parse().ok_or_else(|| ParseIdError::new(text, "worker id", "`host:rpc:push:fetch:replicate`"))
    }
}

/// A non-negative number of digits alone: `"-0"` and `"+1"` are not ordinals.
fn parse_ordinal(text: &str) -> Option<i32> {
    if text.starts_with(['+', '-']) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_reads_back_what_it_shows() {
        let key = ShuffleKey::new("app-2026-11", 7);
        assert_eq!(key.to_string(), "app-2026-11-7");
        assert_eq!(key.to_string().parse(), Ok(key));
        let location = LocationId::new(12, 3);
        assert_eq!(location.to_string(), "12-3");
        assert_eq!("12-3".parse(), Ok(location));
        let file = FileName { location, mode: Mode::Replica };
        assert_eq!(file.to_string(), "12-3-1");
        assert_eq!("12-3-1".parse(), Ok(file));
        let worker: WorkerId = "fe80::1:9091:9092:9093:9094".parse().unwrap();
        assert_eq!((&*worker.host, worker.rpc_port, worker.replicate_port), ("fe80::1", 9091, 9094));
        assert_eq!(worker.address(worker.rpc_port), "[fe80::1]:9091");
        assert_eq!(worker.to_string(), "fe80::1:9091:9092:9093:9094");
    }

    #[test]
    fn a_split_mode_reads_back_and_an_unknown_one_is_soft() {
        assert_eq!([SplitMode::Soft, SplitMode::Hard].map(SplitMode::to_wire), [0, 1], "Celeborn's numbers");
        assert_eq!([0, 1, 2, -1].map(SplitMode::from_wire).map(SplitMode::to_wire), [0, 1, 0, 0]);
    }

    #[test]
    fn malformed_ids_are_refused_by_name() {
        assert!("app".parse::<ShuffleKey>().is_err());
        assert!("-3".parse::<ShuffleKey>().is_err());
        assert!("app--3".parse::<ShuffleKey>().is_ok(), "`app-` is a legal application id");
        assert!("app-+3".parse::<ShuffleKey>().is_err());
        assert!("app--0".parse::<ShuffleKey>().is_ok(), "as is this one");
        assert!("3".parse::<LocationId>().is_err());
        assert!("3--0".parse::<LocationId>().is_err());
        assert!("h:1:2:3:+4".parse::<WorkerId>().is_err());
        assert!("3--1".parse::<LocationId>().is_err());
        assert!("3-1-2".parse::<FileName>().is_err());
        let error = "h:1:2:3:70000".parse::<WorkerId>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`h:1:2:3:70000` is not a worker id: expected `host:rpc:push:fetch:replicate`"
        );
    }
}
