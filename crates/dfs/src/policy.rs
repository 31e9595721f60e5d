//! Erasure coding policies: HDFS's own, and what the name of a user's says.

use std::fmt;
use std::sync::{Arc, LazyLock};

use yeoul_erasure::{Code, Schema, StripeGeometry};

use crate::wire::proto::shared::ErasureCodingPolicy;
use crate::wire::proto::shared::erasure_coding_policy;

/// Number of a policy, as HDFS numbers them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId(pub u8);

impl PolicyId {
    /// No policy: a file of whole replicas, or a directory that has the policy of the one above it.
    pub const NONE: Self = Self(0);
    /// A directory below which files are whole replicas, whatever the policy above it is. HDFS knows it by the name
    /// [`REPLICATION`] and tells clients no number; ours is HDFS's last one before those of users' policies.
    pub const REPLICATION: Self = Self(63);
    /// RS-6-3-1024k, which a client means that names none.
    pub const DEFAULT: Self = Self(1);
    /// The first policy of a user.
    pub const USER_MIN: Self = Self(64);
    /// The last policy of a user: numbers are signed bytes for HDFS.
    pub const USER_MAX: Self = Self(127);
}

/// The name of what is no policy: whole replicas.
pub const REPLICATION: &str = "replication";

/// Bytes of which each cell has a multiple.
pub const CELL_UNIT: u64 = 1024;
/// The most bytes of a cell. HDFS's own limit is 4 MiB unless an operator raises it.
pub const CELL_BYTES_MAX: u64 = 16 << 20;

/// How the bytes of a file are coded, and by how many units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its number, by which clients know HDFS's own.
    pub id: PolicyId,
    /// Its name, such as `RS-6-3-1024k`.
    pub name: Arc<str>,
    /// Where the bytes of a block group lie.
    pub geometry: StripeGeometry,
}

/// Bytes of a cell of each of HDFS's own policies.
const CELL_SIZE: u64 = 1 << 20;

static BUILT_IN: LazyLock<[Policy; 5]> = LazyLock::new(|| {
    let policy = |id, code, data, parity| {
        let schema = Schema::new(code, data, parity).expect("HDFS's schemas can be");
        Policy::new(PolicyId(id), StripeGeometry::new(schema, CELL_SIZE).expect("a cell of 1 MiB can be"))
    };
    [
        policy(1, Code::Rs, 6, 3),
        policy(2, Code::Rs, 3, 2),
        policy(3, Code::RsLegacy, 6, 3),
        policy(4, Code::Xor, 2, 1),
        policy(5, Code::Rs, 10, 4),
    ]
});

/// A name that HDFS composes of a code, its units and its cell: `RS-6-3-1024k`.
struct Name(StripeGeometry);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}k", self.0.schema(), self.0.cell_size() / CELL_UNIT)
    }
}

/// The name of the policy that codes in this way.
pub fn name_of(geometry: StripeGeometry) -> String {
    Name(geometry).to_string()
}

/// The way to code that the name of a policy says; none for a name that no policy can have.
pub fn geometry_of(name: &str) -> Option<StripeGeometry> {
    let mut parts = name.strip_suffix('k')?.rsplitn(4, '-');
    let mut number = || parts.next()?.parse::<u32>().ok();
    let (cell, parity, data) = (number()?, number()?, number()?);
    let code: Code = parts.next()?.to_lowercase().parse().ok()?;
    let schema = Schema::new(code, usize::try_from(data).ok()?, usize::try_from(parity).ok()?).ok()?;
    let cell = Some(u64::from(cell) * CELL_UNIT).filter(|bytes| *bytes <= CELL_BYTES_MAX)?;
    let geometry = StripeGeometry::new(schema, cell).ok()?;
    (name_of(geometry) == name).then_some(geometry)
}

impl Policy {
    /// A policy of this number.
    ///
    /// # Panics
    /// The cell is no multiple of [`CELL_UNIT`], so that the name would not say it, or above [`CELL_BYTES_MAX`].
    pub fn new(id: PolicyId, geometry: StripeGeometry) -> Self {
        let cell = geometry.cell_size();
        assert!(cell.is_multiple_of(CELL_UNIT) && cell <= CELL_BYTES_MAX, "a cell of {cell} bytes");
        Self { id, name: name_of(geometry).into(), geometry }
    }

    /// HDFS's own, by number.
    pub fn built_in() -> &'static [Self] {
        &*BUILT_IN
    }

    /// True for one of HDFS's own, which clients know by their numbers.
    pub fn is_built_in(&self) -> bool {
        Self::built_in().iter().any(|policy| policy.id == self.id)
    }

    /// The policy that a client means: one of HDFS's own by its number alone, one of a user's by its schema and its cell.
    pub fn from_message(message: &ErasureCodingPolicy) -> Option<Self> {
        let id = PolicyId(u8::try_from(message.id).ok()?);
        if let Some(policy) = Self::built_in().iter().find(|policy| policy.id == id) {
            return Some(policy.clone());
        }
        let schema = message.schema.as_ref()?;
        let (data, parity) = (usize::try_from(schema.data_units), usize::try_from(schema.parity_units));
        let schema = Schema::new(schema.codec.to_lowercase().parse().ok()?, data.ok()?, parity.ok()?).ok()?;
        let geometry = StripeGeometry::new(schema, message.cell_size?.into()).ok()?;
        let is_possible =
            geometry.cell_size().is_multiple_of(CELL_UNIT) && geometry.cell_size() <= CELL_BYTES_MAX;
        is_possible.then(|| Self::new(id, geometry))
    }

    /// Units of a group that hold data, `k`.
    pub fn data_units(&self) -> usize {
        self.geometry.schema().data_units()
    }

    /// Units of a group that hold parity, `m`: so many may be lost.
    pub fn parity_units(&self) -> usize {
        self.geometry.schema().parity_units()
    }

    /// All units of a group.
    pub fn units(&self) -> usize {
        self.geometry.schema().units()
    }

    /// Racks that a cluster needs so that the loss of one costs a group no more units than it can lose, as HDFS counts them.
    pub fn racks_needed(&self) -> usize {
        self.units().div_ceil(self.parity_units())
    }

    /// What clients get with a file: the number alone of one of HDFS's own, and all that there is to say of another one.
    pub fn to_reference(&self) -> ErasureCodingPolicy {
        if !self.is_built_in() {
            return self.to_message();
        }
        ErasureCodingPolicy { id: self.id.0.into(), ..ErasureCodingPolicy::default() }
    }

    /// All that there is to say of it.
    pub fn to_message(&self) -> ErasureCodingPolicy {
        let schema = self.geometry.schema();
        let count = |units: usize| u32::try_from(units).expect("a schema has few units");
        ErasureCodingPolicy {
            name: Some(self.name.to_string()),
            schema: Some(erasure_coding_policy::Schema {
                codec: schema.code().name().to_owned(),
                data_units: count(self.data_units()),
                parity_units: count(self.parity_units()),
                options: Vec::new(),
            }),
            cell_size: Some(u32::try_from(self.geometry.cell_size()).expect("cells are small")),
            id: self.id.0.into(),
            state: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policies_are_those_of_hdfs() {
        let found: Vec<_> = Policy::built_in().iter().map(|policy| (policy.id.0, &*policy.name)).collect();
        let expected = [
            (1, "RS-6-3-1024k"),
            (2, "RS-3-2-1024k"),
            (3, "RS-LEGACY-6-3-1024k"),
            (4, "XOR-2-1-1024k"),
            (5, "RS-10-4-1024k"),
        ];
        assert_eq!(found, expected);
        let racks: Vec<usize> = Policy::built_in().iter().map(Policy::racks_needed).collect();
        assert_eq!(racks, [3, 3, 3, 3, 4]);
    }

    #[test]
    fn a_name_says_how_files_are_coded() {
        for name in ["RS-6-3-1024k", "RS-LEGACY-12-4-128k", "XOR-2-1-128k", "RS-1-15-1k", "RS-8-2-16384k"] {
            assert_eq!(geometry_of(name).map(name_of).as_deref(), Some(name));
        }
        let wrong = [
            REPLICATION,
            "",
            "k",
            "RS-6-3",
            "RS-6-3-1024",
            "rs-6-3-1024k",
            "RS-06-3-1024k",
            "RS-6-3-0k",
            "RS-6-3-16385k",
            "RS-13-4-64k",
            "RS-0-3-64k",
            "XOR-2-2-64k",
            "LRC-6-3-64k",
            "RS--6-3-64k",
            "RS-6-3-+64k",
        ];
        for name in wrong {
            assert_eq!(geometry_of(name), None, "{name}");
        }
    }

    #[test]
    fn clients_know_hdfs_s_own_by_number_and_others_by_all_that_they_are() {
        for policy in Policy::built_in() {
            let reference = policy.to_reference();
            assert_eq!((reference.id, reference.name.as_ref()), (policy.id.0.into(), None));
            assert_eq!(Policy::from_message(&reference).as_ref(), Some(policy));
        }
        let own = Policy::new(PolicyId(64), geometry_of("RS-8-2-64k").unwrap());
        let reference = own.to_reference();
        assert_eq!((reference.name.as_deref(), reference.cell_size), (Some("RS-8-2-64k"), Some(65_536)));
        assert_eq!(Policy::from_message(&reference), Some(own));
        let number = ErasureCodingPolicy { id: 64, ..ErasureCodingPolicy::default() };
        let odd = ErasureCodingPolicy { cell_size: Some(65_537), ..reference.clone() };
        let large = ErasureCodingPolicy { id: 320, ..reference };
        assert_eq!([number, odd, large].map(|message| Policy::from_message(&message)), [None, None, None]);
    }
}
