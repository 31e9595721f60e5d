//! The erasure coding policies, which are HDFS's.

use std::sync::LazyLock;

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
}

/// The name of what is no policy: whole replicas.
pub const REPLICATION: &str = "replication";

/// How the bytes of a file are coded, and by how many units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its number, by which clients know it.
    pub id: PolicyId,
    /// Its name, such as `RS-6-3-1024k`.
    pub name: &'static str,
    /// Where the bytes of a block group lie.
    pub geometry: StripeGeometry,
}

/// Bytes of a cell of each policy.
const CELL_SIZE: u64 = 1 << 20;

static POLICIES: LazyLock<[Policy; 5]> = LazyLock::new(|| {
    let policy = |id, name, code, data, parity| {
        let schema = Schema::new(code, data, parity).expect("HDFS's schemas can be");
        let geometry = StripeGeometry::new(schema, CELL_SIZE).expect("a cell of 1 MiB can be");
        Policy { id: PolicyId(id), name, geometry }
    };
    [
        policy(1, "RS-6-3-1024k", Code::Rs, 6, 3),
        policy(2, "RS-3-2-1024k", Code::Rs, 3, 2),
        policy(3, "RS-LEGACY-6-3-1024k", Code::RsLegacy, 6, 3),
        policy(4, "XOR-2-1-1024k", Code::Xor, 2, 1),
        policy(5, "RS-10-4-1024k", Code::Rs, 10, 4),
    ]
});

impl Policy {
    /// All of them, by number.
    pub fn all() -> &'static [Self] {
        &*POLICIES
    }

    /// The one with a number; none for [`PolicyId::NONE`], [`PolicyId::REPLICATION`] and unknown ones.
    pub fn of(id: PolicyId) -> Option<&'static Self> {
        Self::all().iter().find(|policy| policy.id == id)
    }

    /// The one with a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::all().iter().find(|policy| policy.name == name)
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

    /// By its number only, by which clients know it, as HDFS sends it with files.
    pub fn to_number(&self) -> ErasureCodingPolicy {
        ErasureCodingPolicy { id: self.id.0.into(), ..ErasureCodingPolicy::default() }
    }

    /// With all that there is to say of it.
    pub fn to_message(&self) -> ErasureCodingPolicy {
        let schema = self.geometry.schema();
        let count = |units: usize| u32::try_from(units).expect("a schema has few units");
        ErasureCodingPolicy {
            name: Some(self.name.to_owned()),
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
        let found: Vec<_> = Policy::all().iter().map(|policy| (policy.id.0, policy.name)).collect();
        let expected = [
            (1, "RS-6-3-1024k"),
            (2, "RS-3-2-1024k"),
            (3, "RS-LEGACY-6-3-1024k"),
            (4, "XOR-2-1-1024k"),
            (5, "RS-10-4-1024k"),
        ];
        assert_eq!(found, expected);
        for policy in Policy::all() {
            // HDFS composes the name from the schema and the cell.
            let cell = policy.geometry.cell_size() / 1024;
            assert_eq!(policy.name, format!("{}-{cell}k", policy.geometry.schema()));
            assert_eq!((Policy::of(policy.id), Policy::named(policy.name)), (Some(policy), Some(policy)));
        }
        assert_eq!((Policy::of(PolicyId::NONE), Policy::of(PolicyId::REPLICATION)), (None, None));
        assert_eq!((Policy::named(REPLICATION), Policy::named("RS-6-3")), (None, None));
        assert_eq!(Policy::all().iter().map(Policy::racks_needed).collect::<Vec<_>>(), [3, 3, 3, 3, 4]);
    }
}
