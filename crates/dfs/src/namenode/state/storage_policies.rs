//! Calls that look at storage policies and set them. All storages are disks, so that a policy changes what HDFS's own changes where
//! there are disks only: nothing, or, if it names no disk, that no block can be written.

use super::State;
use crate::namenode::Context;
use crate::namenode::namespace::{Access, Inode, Path};
use crate::storage_policy::StoragePolicy;
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::attributes::{
    SetStoragePolicyRequest, StoragePoliciesResponse, StoragePolicyResponse,
};
use crate::wire::proto::journal::{SetAttributes, record::Change};
use crate::wire::proto::namenode::{Empty, PathRequest};

impl State {
    pub(super) fn storage_policies(
        &mut self,
        _: &mut Context<'_>,
        _: &Empty,
    ) -> Result<StoragePoliciesResponse, Refusal> {
        let policies = StoragePolicy::ALL.iter().map(StoragePolicy::to_message).collect();
        Ok(StoragePoliciesResponse { policies })
    }

    pub(super) fn storage_policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<StoragePolicyResponse, Refusal> {
        let inode = self.existing_for_storage_policy(&request.src, context)?;
        let policy = StoragePolicy::of(self.tree.storage_policy_of(inode.id)).unwrap_or(StoragePolicy::HOT);
        Ok(StoragePolicyResponse { policy: policy.to_message() })
    }

    pub(super) fn set_storage_policy(
        &mut self,
        context: &mut Context<'_>,
        request: &SetStoragePolicyRequest,
    ) -> Result<Empty, Refusal> {
        let policy = named_storage_policy(&request.policy)?;
        self.change_storage_policy(context, &request.src, Some(policy))
    }

    pub(super) fn unset_storage_policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<Empty, Refusal> {
        self.change_storage_policy(context, &request.src, None)
    }

    fn change_storage_policy(
        &mut self,
        context: &Context<'_>,
        path: &str,
        policy: Option<&StoragePolicy>,
    ) -> Result<Empty, Refusal> {
        let inode = self.existing_for_storage_policy(path, context)?;
        context.user.check(inode, &self.tree, Access::Write)?;
        let illegal = |message: String| Err(Refusal::new(Exception::HadoopIllegalArgument, message));
        if !inode.is_directory() {
            if let Some(policy) = policy.filter(|policy| policy.is_of_new_files) {
                return illegal(format!("Policy {policy} cannot be set after file creation."));
            }
            let existing = StoragePolicy::of(inode.storage_policy);
            if let Some(existing) = existing.filter(|policy| policy.is_of_new_files) {
                let name = existing.name;
                return illegal(format!("Existing policy {name} cannot be changed after file creation."));
            }
        }
        let storage_policy = Some(policy.map_or(0, |policy| policy.id).into());
        let set = SetAttributes { inode: inode.id.0, storage_policy, ..SetAttributes::default() };
        self.commit(context, Change::SetAttributes(set));
        Ok(Empty {})
    }

    fn existing_for_storage_policy(&self, path: &str, context: &Context<'_>) -> Result<&Inode, Refusal> {
        let place = self.place(&Path::parse(path)?, context.user)?;
        let missing =
            || Refusal::new(Exception::FileNotFound, format!("File/Directory does not exist: {path}"));
        Ok(self.tree.inode(place.inode().ok_or_else(missing)?))
    }
}

/// The policy of a name.
pub(super) fn named_storage_policy(name: &str) -> Result<&'static StoragePolicy, Refusal> {
    StoragePolicy::named(name).ok_or_else(|| {
        let message = format!("Cannot find a block policy with the name {name}");
        Refusal::new(Exception::HadoopIllegalArgument, message)
    })
}
