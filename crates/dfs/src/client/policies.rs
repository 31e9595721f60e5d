use serde::Serialize;

use super::FileSystem;
use crate::error::Result;
use crate::policy::{PolicyId, REPLICATION};
use crate::wire::proto::namenode::{
    Empty, PoliciesResponse, PolicyNameRequest, PolicyRequest, PolicyResponse,
};
use crate::wire::proto::shared::ErasureCodingPolicy;

/// States of a policy, by HDFS's numbers from 1.
const STATES: [&str; 3] = ["disabled", "enabled", "removed"];

/// An erasure coding policy of a NameNode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// Such as `RS-6-3-1024k`.
    pub name: String,
    /// `rs`, `rs-legacy` or `xor`.
    pub codec: String,
    /// Data units of a stripe.
    pub data_units: u32,
    /// Parity units of a stripe: as many may be lost.
    pub parity_units: u32,
    /// Bytes of a cell.
    pub cell_bytes: u32,
    /// `enabled`, `disabled` or `removed`.
    pub state: &'static str,
}

impl From<ErasureCodingPolicy> for Policy {
    fn from(policy: ErasureCodingPolicy) -> Self {
        let name = name_of_policy(&policy);
        let schema = policy.schema.unwrap_or_default();
        let state = policy.state.and_then(|state| usize::try_from(state - 1).ok());
        Self {
            name,
            codec: schema.codec,
            data_units: schema.data_units,
            parity_units: schema.parity_units,
            cell_bytes: policy.cell_size.unwrap_or_default(),
            state: state.and_then(|state| STATES.get(state)).copied().unwrap_or("enabled"),
        }
    }
}

/// The name of a policy, which an answer may leave out for one that HDFS has by itself: a NameNode names those by their
/// number alone. Another NameNode than ours has number 0 for no policy.
pub(super) fn name_of_policy(policy: &ErasureCodingPolicy) -> String {
    let built_in = || {
        let id = PolicyId(u8::try_from(policy.id).ok()?);
        if id == PolicyId::NONE {
            return Some(REPLICATION.to_owned());
        }
        crate::policy::Policy::built_in()
            .iter()
            .find(|policy| policy.id == id)
            .map(|policy| policy.name.to_string())
    };
    policy.name.clone().or_else(built_in).unwrap_or_else(|| format!("policy {}", policy.id))
}

impl FileSystem {
    /// All policies that the NameNode knows.
    ///
    /// # Errors
    /// What the NameNode says.
    pub async fn policies(&self) -> Result<Vec<Policy>> {
        let answer: PoliciesResponse = self.call("getErasureCodingPolicies", &Empty {}).await?;
        Ok(answer.policies.into_iter().map(Policy::from).collect())
    }

    /// The policy that is in force for a path; none if its files are replicated.
    ///
    /// # Errors
    /// There is no such path.
    pub async fn policy(&self, path: &str) -> Result<Option<String>> {
        let request = PolicyRequest { src: path.to_owned(), policy: None };
        let answer: PolicyResponse = self.call("getErasureCodingPolicy", &request).await?;
        Ok(answer.policy.as_ref().map(name_of_policy))
    }

    /// Sets the policy that a directory gives to the files that are made below it; none for the NameNode's default.
    ///
    /// # Errors
    /// There is no such directory or policy, or the policy is disabled.
    pub async fn set_policy(&self, path: &str, policy: Option<String>) -> Result<()> {
        let request = PolicyRequest { src: path.to_owned(), policy };
        let _: Empty = self.call("setErasureCodingPolicy", &request).await?;
        Ok(())
    }

    /// Takes away the policy that was set on a directory.
    ///
    /// # Errors
    /// None was set on it.
    pub async fn unset_policy(&self, path: &str) -> Result<()> {
        let request = PolicyRequest { src: path.to_owned(), policy: None };
        let _: Empty = self.call("unsetErasureCodingPolicy", &request).await?;
        Ok(())
    }

    /// Lets a policy be set on directories, or not any more.
    ///
    /// # Errors
    /// There is no such policy, or this user may not.
    pub async fn enable_policy(&self, policy: &str, is_enabled: bool) -> Result<()> {
        let method = if is_enabled { "enableErasureCodingPolicy" } else { "disableErasureCodingPolicy" };
        let _: Empty = self.call(method, &PolicyNameRequest { name: policy.to_owned() }).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_without_a_name_is_known_by_its_id() {
        let named = |id, name: Option<&str>| {
            name_of_policy(&ErasureCodingPolicy { id, name: name.map(str::to_owned), ..Default::default() })
        };
        assert_eq!(named(1, None), "RS-6-3-1024k");
        assert_eq!(named(5, None), "RS-10-4-1024k");
        assert_eq!((named(0, None), named(256, None)), ("replication".to_owned(), "policy 256".to_owned()));
        assert_eq!(named(64, Some("RS-8-4-64k")), "RS-8-4-64k");
        assert_eq!(named(64, None), "policy 64");
    }
}
