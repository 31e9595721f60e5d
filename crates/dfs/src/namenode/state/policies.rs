//! Calls that look at erasure coding policies and set them.

use super::State;
use crate::ids::InodeId;
use crate::namenode::Context;
use crate::namenode::namespace::{Access, Inode, Path};
use crate::policy::{Policy, PolicyId, REPLICATION};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::{SetAttributes, SetPolicyState, record::Change};
use crate::wire::proto::namenode::{
    AddPoliciesRequest, AddPoliciesResponse, AddedPolicy, Codec, CodecsResponse, Empty, PathRequest,
    PoliciesResponse, PolicyNameRequest, PolicyRequest, PolicyResponse, TopologyRequest, TopologyResponse,
    TopologyResult,
};
use crate::wire::proto::shared::ErasureCodingPolicy;

/// HDFS's numbers of what a policy is good for: old files only, or new ones, too.
const STATE_DISABLED: i32 = 1;
const STATE_ENABLED: i32 = 2;
/// What computes our parity, as `hdfs ec -listCodecs` names coders. Clients have coders of their own.
const CODER: &str = "yeoul";

impl State {
    pub(super) fn policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<PolicyResponse, Refusal> {
        let id = self.existing_for_policy(&request.src, context)?.id;
        Ok(PolicyResponse { policy: self.tree.policy_of(id).map(|policy| self.policy_message(policy)) })
    }

    pub(super) fn policies(&mut self, _: &mut Context<'_>, _: &Empty) -> Result<PoliciesResponse, Refusal> {
        let all = Policy::all().iter().map(|policy| self.policy_message(policy));
        Ok(PoliciesResponse { policies: all.collect() })
    }

    fn policy_message(&self, policy: &Policy) -> ErasureCodingPolicy {
        let is_enabled = self.enabled_policies.contains(&policy.id);
        let state = Some(if is_enabled { STATE_ENABLED } else { STATE_DISABLED });
        ErasureCodingPolicy { state, ..policy.to_message() }
    }

    pub(super) fn codecs(&mut self, _: &mut Context<'_>, _: &Empty) -> Result<CodecsResponse, Refusal> {
        let mut names: Vec<&str> =
            Policy::all().iter().map(|policy| policy.geometry.schema().code().name()).collect();
        names.sort_unstable();
        names.dedup();
        let codec = |name: &str| Codec { codec: name.to_owned(), coders: format!("{name}_{CODER}") };
        Ok(CodecsResponse { codecs: names.into_iter().map(codec).collect() })
    }

    /// Sets what new files below a directory are like.
    pub(super) fn set_policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PolicyRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let name = request.policy.as_deref().filter(|name| !name.is_empty());
        let policy = match name {
            Some(REPLICATION) => PolicyId::REPLICATION,
            Some(name) => self.enabled_policy(name)?.id,
            None => self.enabled_policy(Policy::of(PolicyId::DEFAULT).expect("it is one").name)?.id,
        };
        let inode = self.directory_for_policy(context, &request.src, "set")?;
        Ok(self.commit_policy(context, inode, policy))
    }

    pub(super) fn unset_policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<Vec<u8>, Refusal> {
        let inode = self.directory_for_policy(context, &request.src, "unset")?;
        if self.tree.inode(inode).policy == PolicyId::NONE {
            let message = format!("No erasure coding policy explicitly set on {}", request.src);
            return Err(Refusal::new(Exception::NoEcPolicySet, message));
        }
        Ok(self.commit_policy(context, inode, PolicyId::NONE))
    }

    fn commit_policy(&mut self, context: &Context<'_>, inode: InodeId, policy: PolicyId) -> Vec<u8> {
        let policy = Some(policy.0.into());
        let set = SetAttributes { inode: inode.0, policy, ..SetAttributes::default() };
        self.commit_once(context, Change::SetAttributes(set), &Empty {})
    }

    /// The inode at a path, in the words that `hdfs ec` has for one that is not there.
    fn existing_for_policy(&self, path: &str, context: &Context<'_>) -> Result<&Inode, Refusal> {
        let place = self.place(&Path::parse(path)?, context.user)?;
        let missing = || Refusal::new(Exception::FileNotFound, format!("Path not found: {path}"));
        Ok(self.tree.inode(place.inode().ok_or_else(missing)?))
    }

    fn directory_for_policy(
        &self,
        context: &Context<'_>,
        path: &str,
        verb: &str,
    ) -> Result<InodeId, Refusal> {
        let inode = self.existing_for_policy(path, context)?;
        context.user.check(inode, path, &self.tree, Access::Write)?;
        if !inode.is_directory() {
            let message = format!("Attempt to {verb} an erasure coding policy for a file {path}");
            return Err(Refusal::new(Exception::Io, message));
        }
        Ok(inode.id)
    }

    /// The policy of a name, if new files may have it.
    pub(super) fn enabled_policy(&self, name: &str) -> Result<&'static Policy, Refusal> {
        let is_enabled = |policy: &&Policy| self.enabled_policies.contains(&policy.id);
        Policy::named(name).filter(is_enabled).ok_or_else(|| {
            let enabled: Vec<&str> = Policy::all().iter().filter(is_enabled).map(|policy| policy.name).collect();
            let message = format!(
                "Policy '{name}' does not match any enabled erasure coding policies: [{}]. An erasure coding policy \
                 can be enabled by enableErasureCodingPolicy API.",
                enabled.join(", ")
            );
            Refusal::new(Exception::HadoopIllegalArgument, message)
        })
    }

    pub(super) fn enable_policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PolicyNameRequest,
    ) -> Result<Vec<u8>, Refusal> {
        self.switch_policy(context, &request.name, true, "enableErasureCodingPolicy")
    }

    pub(super) fn disable_policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PolicyNameRequest,
    ) -> Result<Vec<u8>, Refusal> {
        self.switch_policy(context, &request.name, false, "disableErasureCodingPolicy")
    }

    fn switch_policy(
        &mut self,
        context: &Context<'_>,
        name: &str,
        is_enabled: bool,
        operation: &str,
    ) -> Result<Vec<u8>, Refusal> {
        context.user.check_superuser(operation)?;
        let policy = known_policy(name)?.id;
        if self.enabled_policies.contains(&policy) == is_enabled {
            return Ok(Vec::new());
        }
        let set = SetPolicyState { policy: policy.0.into(), is_enabled };
        Ok(self.commit_once(context, Change::SetPolicyState(set), &Empty {}))
    }

    /// Policies of users: one that there is already is found, and others are refused, as HDFS refuses those that it cannot
    /// have: in the answer.
    pub(super) fn add_policies(
        &mut self,
        context: &mut Context<'_>,
        request: &AddPoliciesRequest,
    ) -> Result<AddPoliciesResponse, Refusal> {
        context.user.check_superuser("addErasureCodingPolicies")?;
        let responses = request.policies.iter().map(|wanted| {
            let is_same = |policy: &&Policy| {
                let message = policy.to_message();
                (&message.schema, message.cell_size) == (&wanted.schema, wanted.cell_size)
            };
            match Policy::all().iter().find(is_same) {
                Some(policy) => AddedPolicy { policy: policy.to_message(), succeed: true, error: None },
                None => {
                    let names: Vec<&str> = Policy::all().iter().map(|policy| policy.name).collect();
                    let error = format!(
                        "erasure coding policies of users are not supported by yeoul dfs, which has {}",
                        names.join(", ")
                    );
                    AddedPolicy { policy: wanted.clone(), succeed: false, error: Some(error) }
                }
            }
        });
        Ok(AddPoliciesResponse { responses: responses.collect() })
    }

    pub(super) fn remove_policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PolicyNameRequest,
    ) -> Result<Empty, Refusal> {
        context.user.check_superuser("removeErasureCodingPolicy")?;
        let name = known_policy(&request.name)?.name;
        let message = format!("System erasure coding policy {name} cannot be removed");
        Err(Refusal::new(Exception::HadoopIllegalArgument, message))
    }

    /// Says if the cluster is large enough for policies: those that are named, or else those that are enabled.
    pub(super) fn topology_result(
        &mut self,
        context: &mut Context<'_>,
        request: &TopologyRequest,
    ) -> Result<TopologyResponse, Refusal> {
        let policies = if request.policies.is_empty() {
            let is_enabled = |policy: &&Policy| self.enabled_policies.contains(&policy.id);
            Policy::all().iter().filter(is_enabled).collect()
        } else {
            request.policies.iter().map(|name| known_policy(name)).collect::<Result<Vec<_>, _>>()?
        };
        let live = || self.datanodes.iter().filter(|node| self.is_live(node.handle, context));
        let nodes = live().count();
        let racks = live().map(|node| &node.rack).collect::<std::collections::BTreeSet<_>>().len();
        let nodes_needed = policies.iter().map(|policy| policy.units()).max().unwrap_or(0);
        let racks_needed = policies.iter().map(|policy| policy.racks_needed()).max().unwrap_or(0);
        let names: Vec<&str> = policies.iter().map(|policy| policy.name).collect();
        let names = names.join(", ");
        let lacks = |needed, what: &str, found| {
            format!(
                "{needed} {what} are required for the erasure coding policies: {names}. The number of {what} is only \
                 {found}."
            )
        };
        let message = match () {
            () if policies.is_empty() => "No erasure coding policy is given.".to_owned(),
            () if nodes < nodes_needed => lacks(nodes_needed, "DataNodes", nodes),
            () if racks < racks_needed => lacks(racks_needed, "racks", racks),
            () => format!("The cluster setup can support EC policies: {names}"),
        };
        let is_supported = nodes >= nodes_needed && racks >= racks_needed;
        Ok(TopologyResponse { response: TopologyResult { message, is_supported } })
    }
}

fn known_policy(name: &str) -> Result<&'static Policy, Refusal> {
    Policy::named(name).ok_or_else(|| {
        Refusal::new(Exception::HadoopIllegalArgument, format!("The policy name {name} does not exist"))
    })
}
