//! Calls that look at erasure coding policies and set them.

use prost::Message;
use yeoul_erasure::{Code, Schema, StripeGeometry};

use super::State;
use super::apply::policy_id;
use crate::ids::InodeId;
use crate::namenode::Context;
use crate::namenode::namespace::{Access, Inode, Path};
use crate::namenode::policies::{Policies, PolicyState};
use crate::policy::{CELL_BYTES_MAX, CELL_UNIT, Policy, PolicyId, REPLICATION, geometry_of, name_of};
use crate::wire::Refusal;
use crate::wire::exception::Exception;
use crate::wire::proto::journal::add_policies::Policy as NewPolicy;
use crate::wire::proto::journal::{AddPolicies, SetAttributes, SetPolicyState, record::Change};
use crate::wire::proto::namenode::{
    AddPoliciesRequest, AddPoliciesResponse, AddedPolicy, Codec, CodecsResponse, Empty, PathRequest,
    PoliciesResponse, PolicyNameRequest, PolicyRequest, PolicyResponse, TopologyRequest, TopologyResponse,
    TopologyResult,
};
use crate::wire::proto::shared::ErasureCodingPolicy;

/// Policies in one call that adds some: there is no room for more.
pub(super) const POLICIES_ADDED_MAX: usize = 64;
/// What computes our parity, as `hdfs ec -listCodecs` names coders. Clients have coders of their own.
const CODER: &str = "yeoul";

impl State {
    pub(super) fn policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PathRequest,
    ) -> Result<PolicyResponse, Refusal> {
        let id = self.existing_for_policy(&request.src, context)?.id;
        Ok(PolicyResponse { policy: self.policy_of(id).map(Policy::to_message) })
    }

    pub(super) fn policies(&mut self, _: &mut Context<'_>, _: &Empty) -> Result<PoliciesResponse, Refusal> {
        let all = self
            .policies
            .all()
            .map(|(policy, state)| ErasureCodingPolicy { state: Some(state as i32), ..policy.to_message() });
        Ok(PoliciesResponse { policies: all.collect() })
    }

    pub(super) fn codecs(&mut self, _: &mut Context<'_>, _: &Empty) -> Result<CodecsResponse, Refusal> {
        let mut names: Vec<&str> =
            Policy::built_in().iter().map(|policy| policy.geometry.schema().code().name()).collect();
        names.sort_unstable();
        names.dedup();
        let codec = |name: &str| Codec { codec: name.to_owned(), coders: format!("{name}_{CODER}") };
        Ok(CodecsResponse { codecs: names.into_iter().map(codec).collect() })
    }

    fn known_policy(&self, name: &str) -> Result<(&Policy, PolicyState), Refusal> {
        self.policies.named(name).ok_or_else(|| {
            Refusal::new(Exception::HadoopIllegalArgument, format!("The policy name {name} does not exist"))
        })
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
            None => {
                let name = self.policies.of(PolicyId::DEFAULT).expect("it is built in").name.clone();
                self.enabled_policy(&name)?.id
            }
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
        context.user.check(inode, &self.tree, Access::Write)?;
        if !inode.is_directory() {
            let message = format!("Attempt to {verb} an erasure coding policy for a file {path}");
            return Err(Refusal::new(Exception::Io, message));
        }
        Ok(inode.id)
    }

    /// The policy of a name, if new files may have it.
    pub(super) fn enabled_policy(&self, name: &str) -> Result<Policy, Refusal> {
        self.policies.enabled().find(|policy| &*policy.name == name).cloned().ok_or_else(|| {
            let enabled: Vec<&str> = self.policies.enabled().map(|policy| &*policy.name).collect();
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
        let (policy, state) = self.known_policy(name)?;
        // One that was removed can be enabled, as in HDFS, and is not disabled on top of that.
        if (state == PolicyState::Enabled) == is_enabled {
            return Ok(Vec::new());
        }
        let set = state_record(policy, if is_enabled { PolicyState::Enabled } else { PolicyState::Disabled });
        Ok(self.commit_once(context, Change::SetPolicyState(set), &Empty {}))
    }

    /// Adds policies of users. Each is answered for itself, as HDFS does it: what cannot be is refused in the answer, and the
    /// others are added all the same.
    pub(super) fn add_policies(
        &mut self,
        context: &mut Context<'_>,
        request: &AddPoliciesRequest,
    ) -> Result<Vec<u8>, Refusal> {
        context.user.check_superuser("addErasureCodingPolicies")?;
        if request.policies.len() > POLICIES_ADDED_MAX {
            let message =
                format!("{} policies in one call: at most {POLICIES_ADDED_MAX}", request.policies.len());
            return Err(Refusal::new(Exception::HadoopIllegalArgument, message));
        }
        let mut policies = self.policies.clone();
        let mut added = Vec::new();
        let mut responses = Vec::with_capacity(request.policies.len());
        for wanted in &request.policies {
            let response = match self.new_policy(&policies, wanted) {
                Ok(policy) => {
                    let message = policy.to_message();
                    added.push(NewPolicy { id: policy.id.0.into(), name: policy.name.to_string() });
                    policies.add(policy);
                    AddedPolicy { policy: message, succeed: true, error: None }
                }
                Err(error) => AddedPolicy { policy: wanted.clone(), succeed: false, error: Some(error) },
            };
            responses.push(response);
        }
        let answer = AddPoliciesResponse { responses };
        if added.is_empty() {
            return Ok(answer.encode_to_vec());
        }
        Ok(self.commit_once(context, Change::AddPolicies(AddPolicies { policies: added }), &answer))
    }

    /// The policy that a user wants beside those that there are, or why it cannot be.
    fn new_policy(&self, policies: &Policies, wanted: &ErasureCodingPolicy) -> Result<Policy, String> {
        if !self.rules.may_add_policies {
            return Err("Addition of user defined erasure coding policy is disabled.".to_owned());
        }
        let schema = wanted.schema.as_ref().ok_or("An erasure coding policy needs a schema")?;
        let code: Code = schema
            .codec
            .to_lowercase()
            .parse()
            .map_err(|_| format!("Codec name {} is not supported", schema.codec))?;
        // The stock client makes one without a value of an empty element in the file.
        if let Some(option) = schema.options.iter().find(|option| !option.value.trim().is_empty()) {
            return Err(format!("Option {} of codec {} is not supported", option.key, schema.codec));
        }
        let (cell, cell_max) = (u64::from(wanted.cell_size()), self.rules.cell_bytes_max.min(CELL_BYTES_MAX));
        if cell > cell_max {
            return Err(format!("Cell size {cell} should not exceed maximum {cell_max} bytes"));
        }
        if cell == 0 || !cell.is_multiple_of(CELL_UNIT) {
            return Err(format!("Cell size {cell} is not a positive multiple of {CELL_UNIT} bytes"));
        }
        let units = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        let geometry = Schema::new(code, units(schema.data_units), units(schema.parity_units))
            .and_then(|schema| StripeGeometry::new(schema, cell))
            .map_err(|error| error.to_string())?;
        let name = name_of(geometry);
        if policies.named(&name).is_some() {
            return Err(format!("The policy name {name} already exists"));
        }
        let id = policies.next_id().ok_or_else(|| {
            format!(
                "Adding erasure coding policy failed because the number of policies stored in the system already reached \
                 the threshold, which is {}",
                PolicyId::USER_MAX.0
            )
        })?;
        Ok(Policy::new(id, geometry))
    }

    /// Removes a policy of a user: new files cannot have it, and those that have it keep it.
    pub(super) fn remove_policy(
        &mut self,
        context: &mut Context<'_>,
        request: &PolicyNameRequest,
    ) -> Result<Vec<u8>, Refusal> {
        context.user.check_superuser("removeErasureCodingPolicy")?;
        let (policy, state) = self.known_policy(&request.name)?;
        if policy.is_built_in() {
            let message = format!("System erasure coding policy {} cannot be removed", policy.name);
            return Err(Refusal::new(Exception::HadoopIllegalArgument, message));
        }
        if state == PolicyState::Removed {
            return Ok(Vec::new());
        }
        let set = state_record(policy, PolicyState::Removed);
        Ok(self.commit_once(context, Change::SetPolicyState(set), &Empty {}))
    }

    pub(super) fn apply_policies(&mut self, add: &AddPolicies) {
        for new in &add.policies {
            let geometry = geometry_of(&new.name).expect("the name of a policy says what it is");
            self.policies.add(Policy::new(policy_id(new.id), geometry));
        }
    }

    pub(super) fn set_policy_state(&mut self, set: &SetPolicyState) {
        let state = match (set.is_enabled, set.is_removed) {
            (true, _) => PolicyState::Enabled,
            (false, true) => PolicyState::Removed,
            (false, false) => PolicyState::Disabled,
        };
        self.policies.set_state(policy_id(set.policy), state);
    }

    /// Says if the cluster is large enough for policies: those that are named, or else those that are enabled.
    pub(super) fn topology_result(
        &mut self,
        context: &mut Context<'_>,
        request: &TopologyRequest,
    ) -> Result<TopologyResponse, Refusal> {
        let policies = if request.policies.is_empty() {
            self.policies.enabled().collect()
        } else {
            let known = |name: &String| self.known_policy(name).map(|(policy, _)| policy);
            request.policies.iter().map(known).collect::<Result<Vec<_>, _>>()?
        };
        let live = || self.datanodes.iter().filter(|node| self.is_live(node.handle, context));
        let nodes = live().count();
        let racks = live().map(|node| &node.rack).collect::<std::collections::BTreeSet<_>>().len();
        let nodes_needed = policies.iter().map(|policy| policy.units()).max().unwrap_or(0);
        let racks_needed = policies.iter().map(|policy| policy.racks_needed()).max().unwrap_or(0);
        let names: Vec<&str> = policies.iter().map(|policy| &*policy.name).collect();
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

fn state_record(policy: &Policy, state: PolicyState) -> SetPolicyState {
    SetPolicyState {
        policy: policy.id.0.into(),
        is_enabled: state == PolicyState::Enabled,
        is_removed: state == PolicyState::Removed,
    }
}

/// The records that make all policies with their states.
pub(super) fn saved(policies: &Policies) -> impl Iterator<Item = Change> {
    let added = policies.all().map(|(policy, _)| policy).filter(|policy| !policy.is_built_in());
    let added: Vec<NewPolicy> =
        added.map(|policy| NewPolicy { id: policy.id.0.into(), name: policy.name.to_string() }).collect();
    let added = (!added.is_empty()).then_some(Change::AddPolicies(AddPolicies { policies: added }));
    let states = policies.all().map(|(policy, state)| Change::SetPolicyState(state_record(policy, state)));
    added.into_iter().chain(states)
}
